// The header that every part has: title, counts, filter, actions, and the keys behind "?". Its pill shows the connection,
// which connection.js sets; a part within a panel hides the pill, for the panel's header shows it.

import { make, write } from "./elements.js";
import { showPopover } from "./popover.js";
import { STOP_KEY } from "./stop.js";

// `keys` are pairs of a key and what it does. The panel lists those of all parts in sight.
export function makeHeader({ title, label = title, keys = [] }) {
  const heading = make("div", { class: "mew-heading", role: "heading", "aria-level": 2, text: title });
  const link = make("span", {
    class: "mew-connection mew-pill",
    role: "img",
    "aria-label": "Connecting",
    title: "Connecting",
  });
  const counts = make("div", { class: "mew-counts-line" });
  const filter = make("div", { class: "mew-filter-place" });
  const actions = make("div", { class: "mew-actions" });
  const node = make(
    "header",
    { class: "mew-header", "aria-label": label },
    heading,
    link,
    counts,
    filter,
    actions,
  );
  node.mewKeys = keys;
  node.mewTitle = title;
  if (keys.length) node.append(keysButton(node));

  // Each count is `{ text, hover, tone }`; `tone` is "wait", "bad", "good" or nothing.
  function setCounts(list) {
    const shown = list.filter(({ text }) => text);
    while (counts.children.length > shown.length) counts.lastChild.remove();
    shown.forEach(({ text, hover = "", tone = "" }, n) => {
      const pill = counts.children[n] ?? counts.appendChild(make("span", { class: "mew-pill mew-num" }));
      write(pill, text, hover);
      if ((pill.dataset.tone ?? "") !== tone) pill.dataset.tone = tone;
    });
  }

  return { node, heading, setCounts, filter, actions };
}

function keysButton(header) {
  const button = make("button", {
    class: "mew-quiet mew-keys-button",
    text: "?",
    title: "Keys",
    "aria-label": "Keys",
    "aria-haspopup": "dialog",
    "aria-expanded": "false",
    onclick: () => {
      const sheet = makeKeysSheet(header);
      const close = showPopover(sheet, button, { back: button });
      sheet.querySelector("button").addEventListener("click", () => close(true));
    },
  });
  return button;
}

// The keys of this header's part and of the parts within it.
function makeKeysSheet(header) {
  const root = header.closest(".mew") ?? header.parentElement;
  const groups = [...root.querySelectorAll(".mew-header")].filter(
    (node) => node.mewKeys?.length && node.getClientRects().length,
  );
  const sections = groups.map((node) => [node.mewTitle, node.mewKeys]);
  if (root.querySelector(".mew-stopped")) sections.push(["Everywhere", [STOP_KEY]]);
  const close = make("button", { class: "mew-quiet", text: "Close" });
  return make(
    "div",
    { class: "mew-keys-sheet", role: "dialog", "aria-label": "Keys" },
    make("div", { class: "mew-keys-head" }, make("b", { text: "Keys" }), close),
    ...sections.map(([title, keys]) =>
      make(
        "section",
        {},
        make("div", { class: "mew-keys-title", text: title }),
        make(
          "dl",
          {},
          ...keys.flatMap(([key, what]) => [
            make("dt", {}, make("kbd", { text: key })),
            make("dd", { text: what }),
          ]),
        ),
      ),
    ),
  );
}
