// Tables, and lists whose rows have keys. A row that stays is the same element, so that the keyboard focus, a selection and a
// press that has begun on it are kept.

import { activeOf, holdsFocus, make } from "./elements.js";

// A table with a head. A column is its text, or the attributes of its heading.
/** @type {(columns: (string | Record<string, unknown>)[], body: HTMLElement, attributes?: Record<string, unknown>) => HTMLTableElement} */
export function makeTable(columns, body, attributes = {}) {
  const heads = columns.map((column) =>
    make("th", { scope: "col", ...(typeof column === "string" ? { text: column } : column) }),
  );
  return make("table", attributes, make("thead", {}, make("tr", {}, ...heads)), body);
}

// Makes `nodes` the children of `parent`, in this order. A node that has to move keeps the focus.
/** @type {(parent: HTMLElement, nodes: HTMLElement[]) => void} */
export function placeNodes(parent, nodes) {
  const focused = holdsFocus(parent) ? activeOf(parent) : null;
  for (const node of Array.from(parent.children))
    if (!nodes.includes(/** @type {HTMLElement} */ (node))) node.remove();
  nodes.forEach((node, n) => {
    if (parent.children[n] !== node) parent.insertBefore(node, parent.children[n] ?? null);
  });
  if (focused && activeOf(parent) !== focused && parent.contains(focused))
    focused.focus({ preventScroll: true });
}

/**
 * Rows by their keys, within `parent`. `build(data)` makes a new row: its `node`, and what `fill(row, was)` changes in it
 * when its `data` is new. `left(row, focused)` is called when a row is gone, with whether it had the focus.
 * @template D
 * @template {{ node: HTMLElement, data?: D }} R
 * @param {HTMLElement} parent
 * @param {{ keyOf: (data: D) => unknown, build: (data: D) => R, fill?: (row: R, was: D | undefined) => void, left?: (row: R, focused: boolean) => void }} on
 */
export function keyedRows(parent, { keyOf, build, fill = () => {}, left = () => {} }) {
  /** @type {Map<unknown, R>} */
  const rows = new Map();

  // Changes the row of `data`. A new one goes before the node `next`, or to the end.
  /** @type {(data: D, next?: Node | null) => R} */
  function put(data, next = null) {
    let row = rows.get(keyOf(data));
    if (!row) {
      row = build(data);
      rows.set(keyOf(data), row);
      parent.insertBefore(row.node, next);
    }
    const was = row.data;
    row.data = data;
    fill(row, was);
    return row;
  }

  function drop(key) {
    const row = rows.get(key);
    if (!row) return;
    const focused = holdsFocus(row.node);
    row.node.remove();
    rows.delete(key);
    left(row, focused);
  }

  // Drops all rows but those of `list`.
  /** @type {(list: Iterable<D>) => void} */
  function keep(list) {
    const keys = new Set(Array.from(list, keyOf));
    for (const key of [...rows.keys()]) if (!keys.has(key)) drop(key);
  }

  return {
    rows,
    put,
    drop,
    keep,
    // Shows the rows of `list` and no others, in its order.
    /** @type {(list: D[]) => void} */
    show(list) {
      keep(list);
      placeNodes(
        parent,
        list.map((data) => put(data).node),
      );
    },
  };
}
