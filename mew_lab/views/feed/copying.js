// Copies texts, and says so in one place. Where the page may not use the clipboard, the reader copies the text from there.

import { atHand, make } from "../ui/elements.js";

// `copy(text, said, around)`: where the reader has left `around` for elsewhere, the text does not take the focus.
/** @type {() => { node: HTMLElement, copy: (text: string, said: string, around: HTMLElement) => Promise<void>, clear: () => void }} */
export function copyPlace() {
  const node = make("div", { class: "mew-copied", role: "status" });
  return {
    node,
    async copy(text, said, around) {
      try {
        await navigator.clipboard.writeText(text);
        node.replaceChildren(make("span", { text: said }));
      } catch {
        // No clipboard (plain HTTP, a frame without permission).
        const box = make("textarea", {
          class: "mew-code",
          readonly: true,
          rows: 3,
          dir: "ltr",
          "aria-label": "The text to copy",
        });
        const here = atHand(around);
        box.value = text;
        node.replaceChildren(
          make("span", {
            text: here
              ? "This page may not write to the clipboard: press Ctrl+C, the text is selected."
              : "This page may not write to the clipboard: select this text and press Ctrl+C.",
          }),
          box,
        );
        if (!here) return;
        box.focus();
        box.select();
      }
    },
    clear: () => node.replaceChildren(),
  };
}
