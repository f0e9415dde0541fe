// The button of a view whose kernel is gone: it gives the cell that goes on with the space from its journal. A front end
// that can insert a cell, as labextension/ does in JupyterLab, takes the event INSERT and prevents its default.

import { copyButton } from "./copy.js";
import { make } from "./elements.js";

const INSERT = "mew-insert-cell";
const INSERTED = "It stands below this cell; run it.";

// What stands in the banner of the view `root`, in which `code` is the text of the cell.
/** @type {(root: HTMLElement, code: string) => HTMLElement} */
export function resumeButton(root, code) {
  const place = make("span", { class: "mew-resume" });
  const insert = make("button", {
    text: "Insert the cell that resumes it",
    onclick: (event) => {
      if (!event.isTrusted) return;
      const asked = new CustomEvent(INSERT, { detail: { node: root, code }, cancelable: true });
      if (!document.dispatchEvent(asked)) return place.replaceChildren(INSERTED);
      // Where none can be inserted, a reader does it.
      const shown = make("code", { class: "mew-code", text: code });
      place.replaceChildren(
        copyButton(() => code, "Copy the cell", shown),
        shown,
      );
    },
  });
  place.append(insert);
  return place;
}
