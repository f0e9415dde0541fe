// Elements of a page, and the operations on them that every view uses. Text from a peer reaches the page through
// textContent and attributes only.

// A button submits no form.
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (tag === "button") node.setAttribute("type", tag);
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

// Sets an attribute. An equal value is not set again, for the same reason.
/** @type {(node: Element, name: string, value: unknown) => void} */
export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

// aria-disabled rather than disabled: a focused button keeps the focus, and its tooltip, `why`, tells the reason.
/** @type {(button: HTMLElement, off: unknown, why?: string) => void} */
export function turnOff(button, off, why) {
  setAttribute(button, "aria-disabled", Boolean(off));
  if (why !== undefined && button.title !== why) button.title = why;
}

/** @type {(button: Element) => boolean} */
export function isOff(button) {
  return button.getAttribute("aria-disabled") === "true";
}

// An id that no other element of the page has.
export function newId() {
  idsGiven += 1;
  return `mew-${ID_PREFIX}-${idsGiven}`;
}
const ID_PREFIX = Math.random().toString(36).slice(2);
let idsGiven = 0;

// The options of a list, each of its value and its text.
/** @type {(options: string[][]) => HTMLOptionElement[]} */
export function optionsOf(options) {
  return options.map(([value, text]) => make("option", { value, text }));
}

// Gives a list its options. What is chosen stays so while it is there; equal options are not set again.
/** @type {(select: HTMLSelectElement & { mewOptions?: string }, options: string[][], start?: string) => void} */
export function setOptions(select, options, start = "") {
  const wanted = JSON.stringify(options);
  if (select.mewOptions === wanted) return;
  const chosen = select.mewOptions === undefined ? start : select.value;
  select.mewOptions = wanted;
  select.replaceChildren(...optionsOf(options));
  select.value = options.some(([value]) => value === chosen) ? chosen : start;
}

// Announces changes to screen readers, politely and at most once a second.
/** @type {(root: HTMLElement) => (text: string) => void} */
export function announcer(root) {
  const line = make("div", { class: "mew-heard", "aria-live": "polite", role: "status" });
  root.append(line);
  let next = null,
    wanted = "";
  return (text) => {
    wanted = text;
    if (next) return;
    line.textContent = wanted;
    next = setTimeout(() => {
      next = null;
      if (line.textContent !== wanted) line.textContent = wanted;
    }, 1000);
  };
}

// JupyterLab's shortcuts must not get keys that were pressed in a view: `d d` would delete the cell. The panel that a
// part stands in gets Escape, which ends what it fills; a part that used the key itself prevents its default. Enter with
// Shift, Ctrl, Alt or Cmd runs a cell, so it goes to the notebook, except from a field or where `isOwn(event)`.
/** @type {(root: HTMLElement, isOwn?: (event: KeyboardEvent) => boolean) => void} */
export function keepKeys(root, isOwn = () => false) {
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const runs = (event) =>
    event.key === "Enter" &&
    (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) &&
    event.target.closest(".mew") === root &&
    !event.target.matches(FIELDS) &&
    !isOwn(event);
  // Before the view gets it: with a modifier the key presses no button, and confirms nothing.
  root.addEventListener(
    "keydown",
    (event) => {
      if (!runs(event) || !event.isTrusted) return;
      if (event.target instanceof Element && event.target.closest("button, summary, a"))
        event.preventDefault();
      if (!goBack(root)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const { key, code, keyCode, shiftKey, ctrlKey, altKey, metaKey, repeat } = event;
      activeOf(root)?.dispatchEvent(
        new KeyboardEvent("keydown", {
          key,
          code,
          keyCode,
          shiftKey,
          ctrlKey,
          altKey,
          metaKey,
          repeat,
          bubbles: true,
          cancelable: true,
          composed: true,
        }),
      );
    },
    true,
  );
  for (const kind of ["keydown", "keyup", "keypress"]) {
    root.addEventListener(kind, (event) => {
      const room = root.parentElement?.closest(".mew");
      if (!runs(event) && (!room || /** @type {KeyboardEvent} */ (event).key !== "Escape"))
        event.stopPropagation();
    });
  }
  root.addEventListener("pointerdown", () => remember(root), true);
  root.addEventListener("focusin", (event) => {
    const own = cellOf(root),
      from = event.relatedTarget instanceof Element ? event.relatedTarget : null;
    if (own && from && from !== own && own.contains(from) && !from.closest(".mew")) delete own.mewBefore;
    remember(root);
  });
  root.addEventListener("focusout", (event) => {
    const own = cellOf(root);
    if (own && event.relatedTarget instanceof Element && !own.contains(event.relatedTarget))
      delete own.mewBefore;
  });
}
const FIELDS = "textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=range])";

/** @typedef {HTMLElement & { mewBefore?: Cell }} Cell a cell of a notebook, and the one that was active before a view in it */

/** @type {(root: HTMLElement) => Cell | null} */
function cellOf(root) {
  return root.closest(".jp-Notebook .jp-Cell");
}

// A press in a view makes its cell the active one. The one that was is remembered until the focus goes elsewhere.
/** @type {(root: HTMLElement) => void} */
function remember(root) {
  const own = cellOf(root),
    active = /** @type {Cell | null | undefined} */ (
      own?.closest(".jp-Notebook")?.querySelector(".jp-Cell.jp-mod-active")
    );
  if (own && active && active !== own) own.mewBefore = active.mewBefore ?? active;
}

// Gives the focus back to the notebook, at the cell from which the person came; false where there is none.
/** @type {(root: HTMLElement) => boolean} */
export function goBack(root) {
  const own = cellOf(root),
    cell = own?.mewBefore?.isConnected ? own.mewBefore : own;
  cell?.focus({ preventScroll: true });
  return Boolean(cell && activeOf(cell) === cell);
}

// The place to which a key leads from the place `at` of `count`; undefined for any other key. It may be -1 or `count`.
/** @type {(event: KeyboardEvent, at: number, count: number, back?: string, on?: string) => number | undefined} */
export function placeByKey(event, at, count, back = "ArrowUp", on = "ArrowDown") {
  return { [back]: at - 1, [on]: at + 1, Home: 0, End: count - 1 }[event.key];
}

// A row of buttons of which one is chosen by a press, by the arrows, or by Home and End: for Tab it is one stop. Returns
// `mark(button)`, which shows in the attribute `state` which one it is.
/** @type {(row: HTMLElement, state: string) => (button: Element) => void} */
export function choiceRow(row, state) {
  const buttons = () => /** @type {HTMLElement[]} */ (Array.from(row.children));
  row.addEventListener("keydown", (event) => {
    const all = buttons(),
      to = placeByKey(event, all.indexOf(activeOf(row)), all.length, "ArrowLeft", "ArrowRight");
    if (to === undefined) return;
    event.preventDefault();
    const button = all.at(to % all.length);
    button.click();
    button.focus();
  });
  return (chosen) => {
    for (const button of buttons()) {
      setAttribute(button, state, button === chosen);
      button.tabIndex = button === chosen ? 0 : -1;
    }
  };
}

// Calls `close` where Escape is pressed in a node, and keeps the key from what is around it.
/** @type {(node: HTMLElement, close: () => void) => void} */
export function onEscape(node, close) {
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    close();
  });
}

// Whether the keyboard focus is within a node, or nowhere. A slow action moves the focus in these cases alone, for the
// reader may write something elsewhere by now.
/** @type {(node: Node) => boolean} */
export function atHand(node) {
  const here = activeOf(node) ?? document.activeElement;
  return !here || here === document.body || node.contains(here);
}

// The element that has the focus, as the tree of a node sees it: a page knows of a shadow tree its host alone.
/** @type {(node: Node) => HTMLElement | null} */
export function activeOf(node) {
  return /** @type {any} */ (node.getRootNode()).activeElement ?? null;
}

/** @type {(node: Node | null | undefined) => boolean} */
export function holdsFocus(node) {
  return Boolean(node?.contains(activeOf(node)));
}

// A button that does something in Python. While that is under way, the button ignores clicks and keeps the focus.
/** @type {(text: string, run: (event: Event) => unknown, attributes?: Record<string, any>) => HTMLButtonElement} */
export function doer(text, run, attributes = {}) {
  const button = make("button", {
    text,
    ...attributes,
    onclick: async (event) => {
      if (isOff(button) || !event.isTrusted) return;
      turnOff(button, true);
      try {
        await run(event);
      } finally {
        turnOff(button, false);
      }
    },
  });
  return button;
}

// A button that confirms what cannot be undone: it takes no press while the one that has brought it may still go on.
/** @type {typeof doer} */
export function sureDoer(text, run, attributes = {}) {
  const button = doer(text, run, { ...attributes, "aria-disabled": true });
  setTimeout(() => turnOff(button, false), ARMING);
  return button;
}
export const ARMING = 500; // milliseconds

// Calls `tick` again and again while it is wanted: `run(wanted)` begins or ends that.
/** @type {(tick: () => void, every?: number) => (wanted: unknown) => void} */
export function ticker(tick, every = 1000) {
  let timer = null;
  return (wanted) => {
    if (wanted) timer ??= setInterval(tick, every);
    else {
      clearInterval(timer);
      timer = null;
    }
  };
}
