// The words of a rule, which a person reads before she adopts it or goes on with it: what it says, what it rests on, and what
// it would have decided, the wrong ones first. Its button needs a real press, half a second after all of them were in sight.

import { ARMING, isOff, make, newId, turnOff, write } from "../ui/elements.js";
import { frameWatch, partOf } from "../ui/reading.js";

const LOOK_EACH = 100; // ms
const STEP_WORDS = {
  adopted: { title: "Adopt", button: "Adopt", waits: "to adopt it" },
  looked: { title: "Go on with", button: "Go on", waits: "to go on with it" },
};

/**
 * What stands in the card, from widget.py.
 * @typedef {object} Words
 * @property {number} number
 * @property {string} text
 * @property {string} evidence
 * @property {string} limits
 * @property {string} permission
 * @property {string} tested
 * @property {{ seq: number, t: number, what: string, against: boolean, values: string }[]} past
 * @property {number} more
 * @property {string} digest
 * @property {string} sign
 */

/**
 * `table` draws decisions. `tellSeen(digest)` tells the kernel that all was in sight; `confirm(digest, tell)` does the step;
 * `read()` gives the words as they are then, after a step that failed.
 * @typedef {object} ReadCardOptions
 * @property {Words} words
 * @property {"adopted" | "looked"} step
 * @property {HTMLElement} root
 * @property {(rows: Words["past"], sign: string, told: { label: string, more: number }) => HTMLElement} table
 * @property {() => boolean} isOff
 * @property {(text: string) => void} announce
 * @property {() => void} close
 * @property {(digest: string) => Promise<unknown>} tellSeen
 * @property {() => Promise<Words | null>} read
 * @property {(digest: string, tell: (text: string) => void) => Promise<boolean>} confirm
 */

/** @type {(options: ReadCardOptions) => { node: HTMLElement, focus: () => void, end: () => void }} */
export function makeReadCard({
  words,
  step,
  root,
  table,
  isOff: linkIsOff,
  announce,
  close,
  tellSeen,
  read,
  confirm,
}) {
  const says = STEP_WORDS[step],
    hintId = newId(),
    frame = frameWatch(root);
  const hint = make("span", { class: "mew-hint", id: hintId }),
    notice = make("div", { class: "mew-notice", role: "alert", hidden: true }),
    content = make("div", { class: "mew-rule-words" });
  const cancel = make("button", { text: "Cancel", onclick: () => close() });
  const button = make("button", {
    class: "mew-primary mew-rule-confirm",
    text: says.button,
    "aria-disabled": "true",
    "aria-describedby": hintId,
  });
  const node = make(
    "div",
    { class: "mew-rule-card", role: "group", "aria-label": `${says.title} rule ${words.number}` },
    content,
    notice,
    make("div", { class: "mew-rule-line" }, cancel, make("span", { class: "mew-gap" }), hint, button),
  );
  let parts = [],
    looks = 0,
    since = 0,
    told = false,
    busy = false,
    pressed = "";

  function show(next) {
    words = next;
    [since, told] = [0, false];
    const line = (label, text) => {
      const value = make("bdi", { text });
      parts.push(partOf(value));
      return [make("dt", { text: label }), make("dd", {}, value)];
    };
    parts = [];
    const sentence = make("bdi", { class: "mew-rule-text", text: words.text });
    parts.push(partOf(sentence));
    const drawn = table(words.past, words.sign, { label: "What it would have decided", more: words.more });
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (drawn.querySelectorAll("tbody tr")))
      parts.push(partOf(row));
    content.replaceChildren(
      make("div", { class: "mew-rule-title", text: `${says.title} rule ${words.number}` }),
      make("div", {}, sentence),
      make(
        "dl",
        {},
        ...line("Evidence", words.evidence),
        ...line("In this log", words.tested),
        ...line("Limits", words.limits),
        ...line("As a permission, which it does not give", words.permission),
      ),
      ...(words.past.length
        ? [make("div", { class: "mew-rule-title", text: "What it would have decided" }), drawn]
        : []),
    );
  }

  function look() {
    if (!node.isConnected) return;
    looks += 1;
    const known = new Map();
    known.set("pane", frame.pane());
    known.set("no", looks);
    if (!document.hidden) for (const part of parts) if (!part.done) part.look(known, node);
    const left = parts.filter((part) => !part.done).length;
    if (!left && !told) {
      told = true;
      announce("All of it was in sight.");
      const { digest } = words;
      tellSeen(digest).then((done) => {
        if (done && digest === words.digest) since = performance.now();
      });
    }
    arm(left);
  }

  function arm(left = parts.filter((part) => !part.done).length) {
    const ready = !left && since > 0 && performance.now() - since >= ARMING;
    write(
      hint,
      left
        ? `Scroll to review all of it, ${says.waits} (${parts.length - left} of ${parts.length} seen)`
        : "",
    );
    turnOff(button, !ready || busy || linkIsOff());
  }

  const placeOf = () => {
    const box = button.getBoundingClientRect();
    return `${Math.round(box.left)},${Math.round(box.top)}`;
  };
  button.addEventListener("pointerdown", () => {
    pressed = placeOf();
  });
  button.addEventListener("click", async (event) => {
    const moved = event.detail > 0 && pressed !== placeOf();
    arm();
    if (!event.isTrusted || isOff(button)) return;
    if (moved) {
      notice.hidden = false;
      return write(
        notice,
        "Nothing was done, because the button moved while it was pressed; press it once more.",
      );
    }
    busy = true;
    arm();
    notice.hidden = true;
    const done = await confirm(words.digest, (text) => {
      notice.hidden = false;
      write(notice, text);
    });
    busy = false;
    if (done) return;
    const next = await read();
    if (next && node.isConnected && next.digest !== words.digest) show(next);
  });

  show(words);
  const timer = setInterval(look, LOOK_EACH);
  return {
    node,
    focus: () => cancel.focus(),
    end() {
      clearInterval(timer);
      frame.end();
    },
  };
}
