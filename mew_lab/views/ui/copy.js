// A button that copies a text. Where the page may not use the clipboard, the text is selected for the reader's own copy.

import { make } from "./elements.js";

// `getText()` returns the text; `source` is the element to select where the clipboard is closed.
export function copyButton(getText, label = "Copy", source = null) {
  let timer = null;
  const button = make("button", {
    class: "mew-quiet mew-copy",
    text: label,
    onclick: async () => {
      clearTimeout(timer);
      try {
        await navigator.clipboard.writeText(String(getText()));
        button.textContent = "Copied";
      } catch (error) {
        if (source?.isConnected) getSelection().selectAllChildren(source);
        button.textContent = source ? "Selected: press Ctrl+C" : "The browser did not allow it";
      }
      timer = setTimeout(() => {
        button.textContent = label;
      }, 2000);
    },
  });
  return button;
}
