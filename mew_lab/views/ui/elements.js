// Elements of a page, and the operations on them that every view uses. Text from a peer reaches the page through
// textContent and attributes only.

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  node.append(...children);
  return node;
}

// Sets the text and the tooltip of a node. An equal text is not set again, for a screen reader would read it again.
/** @type {(node: HTMLElement, text: string, hover?: string) => void} */
export function write(node, text, hover) {
  if (node.textContent !== text) node.textContent = text;
  if (hover !== undefined && node.title !== hover) node.title = hover;
}

// Announces changes to screen readers, politely and at most once a second.
/** @type {(root: HTMLElement) => (text: string) => void} */
export function announcer(root) {
  const line = make("div", { class: "mew-heard", "aria-live": "polite", role: "status" });
  root.append(line);
  let next = null, wanted = "";
  return (text) => {
    wanted = text;
    if (next) return;
    line.textContent = wanted;
    next = setTimeout(() => { next = null; if (line.textContent !== wanted) line.textContent = wanted; }, 1000);
  };
}

// JupyterLab's shortcuts must not get keys that were pressed in a view: `d d` would delete the cell. The panel that a
// part stands in gets Escape, which ends what it fills; a part that used the key itself prevents its default.
/** @type {(root: HTMLElement) => void} */
export function keepKeys(root) {
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const kind of ["keydown", "keyup", "keypress"]) {
    root.addEventListener(kind, (event) => {
      const room = root.parentElement?.closest(".mew");
      if (!room || /** @type {KeyboardEvent} */ (event).key !== "Escape") event.stopPropagation();
    });
  }
}

// Whether the keyboard focus is within a node, or nowhere. A slow action moves the focus in these cases alone, for the
// reader may write something elsewhere by now.
/** @type {(node: Node) => boolean} */
export function atHand(node) {
  const here = document.activeElement;
  return !here || here === document.body || node.contains(here);
}

// A button that does something in Python. While that is under way, the button ignores clicks and keeps the focus.
/** @type {(text: string, run: (event: Event) => unknown, attributes?: Record<string, any>) => HTMLButtonElement} */
export function doer(text, run, attributes = {}) {
  const button = make("button", { type: "button", text, ...attributes, onclick: async (event) => {
    if (button.getAttribute("aria-disabled") === "true" || !event.isTrusted) return;
    button.setAttribute("aria-disabled", "true");
    try { await run(event); } finally { button.setAttribute("aria-disabled", "false"); }
  } });
  return button;
}
