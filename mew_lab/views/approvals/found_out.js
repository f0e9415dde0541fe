// The button of a decided card whose outcome is unknown, and its form, in which a person says what became of the call.

import { atHand, doer, make, onEscape } from "../ui/elements.js";

// `run(happened, note)` records it in the kernel, which then changes the line of the card.
export function foundOut(label, run) {
  const opener = make("button", {
    "aria-expanded": "false",
    "aria-label": label,
    text: "What happened?",
    onclick: () => (form.hidden ? open() : close()),
  });
  const note = make("input", {
    type: "text",
    maxlength: 1000,
    placeholder: "what you found out, and how (optional)",
    "aria-label": "What you found out",
  });
  const answer = (text, happened) => doer(text, () => run(happened, note.value.trim()));
  const form = make(
    "span",
    { class: "mew-found-form", role: "group", "aria-label": label, hidden: true },
    answer("It took effect", true),
    answer("It did not", false),
    note,
  );
  function open() {
    form.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    note.focus({ preventScroll: true });
  }
  function close() {
    const focused = atHand(form);
    form.hidden = true;
    opener.setAttribute("aria-expanded", "false");
    if (focused) opener.focus({ preventScroll: true });
  }
  onEscape(form, close);
  return make("span", { class: "mew-found" }, opener, form);
}
