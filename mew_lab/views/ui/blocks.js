// The parts of a result: text and JSON with a button that copies them, pictures, tables, and notes on what is not shown.

import { copyButton } from "./copy.js";
import { make } from "./elements.js";
import { makeTable } from "./tables.js";

const PICTURES_KEPT = 40;

// The element that holds the parts of a result.
/** @type {(attributes?: object) => HTMLElement} */
export const blockBox = (attributes = {}) => make("div", { class: "mew-blocks", ...attributes });

// `show(blocks)` returns the nodes, for a `blockBox`; `end()` frees the pictures.
export function blockViewer() {
  const addresses = [];

  function picture(block) {
    const bytes = Uint8Array.from(atob(block.text), (c) => c.charCodeAt(0));
    const address = URL.createObjectURL(new Blob([bytes], { type: block.mime }));
    addresses.push(address);
    while (addresses.length > PICTURES_KEPT) URL.revokeObjectURL(addresses.shift());
    return make("img", {
      class: "mew-picture",
      src: address,
      alt: `a picture of the result (${block.mime})`,
    });
  }

  function table(block) {
    const [head, ...rows] = block.rows;
    const drawn = makeTable(
      head.map((text) => ({ dir: "auto", text })),
      make(
        "tbody",
        {},
        ...rows.map((row) => make("tr", {}, ...row.map((text) => make("td", { dir: "auto", text })))),
      ),
      { class: "mew-result-table" },
    );
    const note = make("div", { class: "mew-dim mew-block-note", text: block.text });
    return make(
      "div",
      { class: "mew-block-box mew-table-box", tabindex: 0, role: "group", "aria-label": "Result as a table" },
      drawn,
      ...(block.text ? [note] : []),
    );
  }

  function show(blocks) {
    return blocks.map((block) => {
      if (block.kind === "image") return picture(block);
      if (block.kind === "table") return table(block);
      if (block.kind === "note")
        return make("div", { class: "mew-dim mew-block-note", dir: "auto", text: block.text });
      const text = make("pre", {
        class: "mew-code mew-block",
        tabindex: 0,
        dir: "ltr",
        "aria-label": block.kind === "json" ? "Result as JSON" : "Result",
        text: block.text,
      });
      const copy = copyButton(() => block.text, "Copy", text);
      copy.setAttribute("aria-label", "Copy this part of the result");
      return make("div", { class: "mew-block-box" }, text, copy);
    });
  }

  return {
    show,
    end() {
      for (const address of addresses) URL.revokeObjectURL(address);
    },
  };
}
