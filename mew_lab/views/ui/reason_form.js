// Opens a form for a reason at the end of `host`; an open form is closed instead. `run(reason)` returns whether it was done.

import { atHand, doer, make, onEscape } from "./elements.js";

export function whyForm(opener, host, reasons, label, run) {
  const open = host.querySelector(".mew-why-form");
  if (open) {
    open.remove();
    opener.setAttribute("aria-expanded", "false");
    return;
  }
  const select = make(
    "select",
    { "aria-label": "Reason" },
    ...reasons.map(([code, meaning]) =>
      make("option", { value: code, text: code.replaceAll("_", " "), title: meaning }),
    ),
  );
  const custom = make("input", {
    type: "text",
    maxlength: 80,
    placeholder: "or in your own words",
    "aria-label": "Reason in your own words",
  });
  const close = (to) => {
    const focused = atHand(form);
    form.remove();
    opener.setAttribute("aria-expanded", "false");
    if (focused && to.isConnected) to.focus({ preventScroll: true });
  };
  const form = make(
    "div",
    { class: "mew-why-form", role: "group", "aria-label": label },
    select,
    custom,
    make("button", { text: "Keep", onclick: () => close(opener) }),
    doer(label, async () => {
      if (await run(custom.value.trim() || select.value)) close(host);
    }),
  );
  onEscape(form, () => close(opener));
  opener.setAttribute("aria-expanded", "true");
  host.append(form);
  select.focus({ preventScroll: true });
}
