// Elements of a page, and what every view does with them. Text from anybody reaches the page through textContent and
// attributes only.

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

// Gives a node its text, and what the mouse over it shows. What stands there already is left alone: a screen reader would
// read it again.
export function write(node, text, hover) {
  if (node.textContent !== text) node.textContent = text;
  if (hover !== undefined && node.title !== hover) node.title = hover;
}

// What changes is read out politely, at most once a second.
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

// JupyterLab's shortcuts must not see keys that were meant for a view: `d d` would delete the cell.
export function keepKeys(root) {
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const kind of ["keydown", "keyup", "keypress"]) root.addEventListener(kind, (event) => event.stopPropagation());
}

// Whether the keyboard is in there, or nowhere: what took a while moves it from there, and from nowhere else, for the
// reader may write something elsewhere by now.
export function atHand(node) {
  const here = document.activeElement;
  return !here || here === document.body || node.contains(here);
}

// A button that does something in Python: while that is under way it does nothing more, and it keeps the keyboard.
export function doer(text, run, attributes = {}) {
  const button = make("button", { type: "button", text, ...attributes, onclick: async (event) => {
    if (button.getAttribute("aria-disabled") === "true" || !event.isTrusted) return;
    button.setAttribute("aria-disabled", "true");
    try { await run(event); } finally { button.setAttribute("aria-disabled", "false"); }
  } });
  return button;
}
