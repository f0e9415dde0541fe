// The parts of a result: text and JSON with a button that copies them, pictures, and notes on what is not shown.

import { copyButton } from "../ui/copy.js";
import { make } from "../ui/elements.js";

const PICTURES_KEPT = 40;

// `show(blocks)` returns the nodes; `end()` frees the pictures.
export function blockViewer() {
  const addresses = [];

  function picture(block) {
    const bytes = Uint8Array.from(atob(block.text), (c) => c.charCodeAt(0));
    const address = URL.createObjectURL(new Blob([bytes], { type: block.mime }));
    addresses.push(address);
    while (addresses.length > PICTURES_KEPT) URL.revokeObjectURL(addresses.shift());
    return make("img", { class: "mew-picture", src: address, alt: `a picture of the result (${block.mime})` });
  }

  function show(blocks) {
    return blocks.map((block) => {
      if (block.kind === "image") return picture(block);
      if (block.kind === "note") return make("div", { class: "mew-dim mew-block-note", dir: "auto", text: block.text });
      const text = make("pre", { class: "mew-code mew-block", tabindex: 0, dir: "ltr", "aria-label": block.kind === "json" ? "Result as JSON" : "Result", text: block.text });
      const copy = copyButton(() => block.text, "Copy", text);
      copy.setAttribute("aria-label", "Copy this part of the result");
      return make("div", { class: "mew-block-box" }, text, copy);
    });
  }

  return { show, end() { for (const address of addresses) URL.revokeObjectURL(address); } };
}
