// A button that opens a menu, with the keys of the ARIA pattern: arrows, Home, End, a first letter, Escape.

import { activeOf, isOff, make, placeByKey } from "./elements.js";
import { showPopover } from "./popover.js";

/**
 * One item of a menu.
 * @typedef {object} MenuItem
 * @property {string} text
 * @property {string} [about] a line of help
 * @property {(event: Event) => void} run gets the event of the press
 * @property {string | false} [disabled] the reason why it cannot be chosen now
 * @property {boolean} [danger]
 * @property {string} [key] the key that does the same
 * @property {boolean} [checked]
 */

// `getItems()` gives the items when the menu opens: `{ text, about, run(event), disabled, danger, key, checked }`. `disabled`
// is the reason, as a sentence, that is shown in place of `about`. `run` gets the event of the press.
/** @type {(label: string, getItems: () => MenuItem[], attributes?: Record<string, unknown>) => HTMLButtonElement} */
export function menuButton(label, getItems, attributes = {}) {
  const button = make("button", {
    text: label,
    "aria-haspopup": "menu",
    "aria-expanded": "false",
    ...attributes,
    onclick: (event) => {
      if (event.isTrusted) openMenu(button, getItems());
    },
  });
  button.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" || !event.isTrusted) return;
    event.preventDefault();
    openMenu(button, getItems());
  });
  return button;
}

// `choices` are those of a popover.
/** @type {(anchor: import("./popover.js").Opener, items: MenuItem[], choices?: { back?: HTMLElement, closed?: () => void }) => void} */
export function openMenu(anchor, items, choices = {}) {
  if (anchor.mewClosePopover) return void anchor.mewClosePopover(true);
  if (isOff(anchor)) return;
  const menu = make("div", {
    class: "mew-menu-list",
    role: "menu",
    "aria-label": anchor.getAttribute("aria-label") || anchor.textContent.trim(),
  });
  /** @type {(focusBack: boolean) => void} */
  let close = () => {};
  menu.append(
    ...items.map((item) => {
      const checks = item.checked !== undefined;
      const node = make(
        "button",
        {
          role: checks ? "menuitemcheckbox" : "menuitem",
          "aria-checked": checks ? String(item.checked) : null,
          tabindex: -1,
          class: item.danger ? "mew-menu-item mew-danger-item" : "mew-menu-item",
          "aria-disabled": item.disabled ? "true" : null,
          onclick: (event) => {
            if (!event.isTrusted || item.disabled) return;
            close(true);
            item.run(event);
          },
        },
        make("span", { class: "mew-menu-text", text: item.text }),
        ...(item.key ? [make("kbd", { text: item.key })] : []),
      );
      const about = item.disabled || item.about;
      if (about) node.append(make("span", { class: "mew-menu-about", text: about }));
      return node;
    }),
  );
  menu.addEventListener("keydown", (event) => {
    const nodes = [...menu.children],
      at = nodes.indexOf(activeOf(menu));
    let to = placeByKey(event, at, nodes.length);
    if (to === undefined && event.key.length === 1 && /\S/.test(event.key)) {
      const found = [...nodes.slice(at + 1), ...nodes.slice(0, at + 1)].find((node) =>
        node.textContent.toLowerCase().startsWith(event.key.toLowerCase()),
      );
      if (found) to = nodes.indexOf(found);
    }
    if (event.key === "Tab") close(true);
    if (to === undefined) return;
    event.preventDefault();
    nodes[(to + nodes.length) % nodes.length]?.focus();
  });
  close = showPopover(menu, anchor, choices);
}
