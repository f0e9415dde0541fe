// What a list shows while it has no entry: one sentence, and the line of code or the button that would fill it.

import { copyButton } from "./copy.js";
import { make } from "./elements.js";

export function emptyState(text, { code = "", action = null } = {}) {
  const node = make("div", { class: "mew-empty-state" }, make("div", { class: "mew-empty-text", text }));
  if (code) {
    const line = make("code", { dir: "ltr", text: code });
    node.append(
      make(
        "div",
        { class: "mew-empty-code" },
        line,
        copyButton(() => code, "Copy", line),
      ),
    );
  }
  if (action)
    node.append(
      make("button", {
        text: action.text,
        onclick: (event) => {
          if (event.isTrusted) action.run(event);
        },
      }),
    );
  return node;
}
