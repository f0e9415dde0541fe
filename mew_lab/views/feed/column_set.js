// The columns of the table: which are shown, how wide each is, and by which the rows are sorted. The reader's choice is kept
// as a setting; columns that code has chosen take its place.

import { make } from "../ui/elements.js";
import { menuButton } from "../ui/menu.js";
import { LEAST_WIDTH, MOST_WIDTH, fitting, readNames, readWidths } from "./cells.js";
import { isNatural, nextOrder, readOrder } from "./order.js";

const STEP = 8;
const ECHO = 1000;

// `room()` is the width of the view, `longest()` the length of its longest number, `changed(what)` is called after a change of "order", "columns" or "widths", and
// `keep(value)` keeps the reader's choice, and `empty` are the columns that have nothing to show yet.
/** @typedef {{ shown?: string[], widths?: Record<string, number>, sort?: import("./order.js").Order }} KeptColumns */
/** @typedef {"order" | "columns" | "widths"} ColumnChange */
/** @param {{ table: HTMLTableElement, room: () => number, longest: () => number, changed: (what: ColumnChange) => void, keep: (value: KeptColumns) => void, empty: string[] }} on */
export function columnSet({ table, room, longest, changed, keep, empty }) {
  const widths = make("colgroup"),
    heads = make("tr", { "aria-rowindex": 1 });
  /** @type {import("./cells.js").Column[]} */
  let known = [];
  /** @type {string[]} */
  let names = [],
    standard = [];
  /** @type {string[] | null} */
  let own = null;
  /** @type {Record<string, number>} */
  let sizes = {};
  /** @type {import("./cells.js").Fit | null} */
  let fit = null;
  const vacant = new Set(empty);
  let byCode = false,
    order = readOrder(null),
    drawn = "",
    storedAt = -Infinity,
    fittedRoom = -1,
    fittedLongest = 0;

  const byName = (name) => known.find((column) => column.name === name);
  const shownNames = () => readNames(own, known, names).filter((name) => own || byCode || !vacant.has(name));

  function store() {
    const value = {
      ...(own ? { shown: own } : {}),
      ...(Object.keys(sizes).length ? { widths: sizes } : {}),
      ...(isNatural(order) ? {} : { sort: order }),
    };
    storedAt = performance.now();
    keep(value);
  }

  // The columns in the order of the table; what was hidden comes back to its place.
  function setShown(name, show) {
    const wanted = new Set(shownNames());
    if (show) wanted.add(name);
    else wanted.delete(name);
    if (!wanted.size) return;
    own = known.map((column) => column.name).filter((column) => wanted.has(column));
    drawn = "";
    store();
    changed("columns");
  }

  function setOrder(by, desc) {
    order = { by, desc };
    paintOrder();
    store();
    changed("order");
  }

  function reset() {
    own = null;
    byCode = false;
    if (standard.length) names = standard;
    sizes = {};
    drawn = "";
    order = readOrder(null);
    store();
    changed("order");
  }

  const menu = menuButton(
    "Columns",
    () => [
      ...known.map((column) => ({
        text: column.title,
        about: column.about,
        checked: shownNames().includes(column.name),
        run: () => setShown(column.name, !shownNames().includes(column.name)),
      })),
      { text: "Standard columns", about: "Columns, widths and order as they were", run: reset },
    ],
    { class: "mew-quiet", title: "Which columns are shown" },
  );

  function setWidth(column, width) {
    if (width === null) delete sizes[column.name];
    else sizes[column.name] = Math.round(Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, width)));
    place();
  }

  // The line between two columns. Right of the column that takes the remaining width, the line is at the left.
  function separator(column, before) {
    const way = before ? -1 : 1;
    const node = make("span", {
      class: before ? "mew-sep mew-before" : "mew-sep",
      role: "separator",
      tabindex: 0,
      "aria-orientation": "vertical",
      "aria-label": `Width of ${column.title}`,
      "aria-valuemin": LEAST_WIDTH,
      "aria-valuemax": MOST_WIDTH,
      title: "Drag to resize; double-click for the standard width",
    });
    node.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      event.stopPropagation();
      const from = event.clientX,
        width = fit.width(column);
      const move = (moved) => setWidth(column, width + way * (moved.clientX - from));
      const end = () => {
        node.removeEventListener("pointermove", move);
        store();
        changed("widths");
      };
      node.setPointerCapture(event.pointerId);
      node.addEventListener("pointermove", move);
      node.addEventListener("lostpointercapture", end, { once: true });
    });
    node.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -way, ArrowRight: way }[event.key];
      if (steps === undefined && event.key !== "Home") return;
      event.preventDefault();
      setWidth(column, steps === undefined ? null : fit.width(column) + steps * STEP);
      store();
    });
    node.addEventListener("dblclick", () => {
      setWidth(column, null);
      store();
    });
    return node;
  }

  function heading(column, before) {
    const sort = make(
      "button",
      {
        class: "mew-sort",
        title: `Sort by ${column.title}`,
        onclick: () => {
          const { by, desc } = nextOrder(order, column.name);
          setOrder(by, desc);
        },
      },
      make("span", { text: column.title }),
      make("span", { class: "mew-arrow", "aria-hidden": true }),
    );
    return make(
      "th",
      { scope: "col", "data-name": column.name, class: column.align === "right" ? "mew-num" : null },
      sort,
      ...(column.width ? [separator(column, before)] : []),
    );
  }

  function paintOrder() {
    for (const head of heads.children) {
      const sorted = head.dataset.name === order.by && !isNatural(order);
      head.setAttribute("aria-sort", sorted ? (order.desc ? "descending" : "ascending") : "none");
      head.querySelector(".mew-arrow").textContent = sorted ? (order.desc ? "▾" : "▴") : "";
    }
  }

  const fitNow = () =>
    fitting(shownNames().map(byName).filter(Boolean), room(), { widths: sizes, longest: longest() });

  // Gives the columns their widths.
  function place() {
    fit = fitNow();
    fit.list.forEach((column, n) => {
      const width = fit.width(column),
        col = widths.children[n];
      if (col) col.style.width = width ? `${width}px` : "auto";
      heads.children[n]?.querySelector(".mew-sep")?.setAttribute("aria-valuenow", String(width));
    });
    for (const node of [table, table.parentElement]) node.style.minWidth = `${fit.least}px`;
  }

  return {
    widths,
    heads,
    menu,
    get order() {
      return order;
    },
    setOrder,
    // The columns that fit now; their headings are drawn anew when others do.
    fit() {
      // A busy table asks at each frame.
      if (drawn && fittedRoom === room() && fittedLongest === longest()) return fit;
      fittedRoom = room();
      fittedLongest = longest();
      fit = fitNow();
      if (drawn !== fit.key) {
        drawn = fit.key;
        const flexible = fit.list.findIndex((column) => !column.width);
        widths.replaceChildren(...fit.list.map(() => make("col")));
        heads.replaceChildren(...fit.list.map((column, n) => heading(column, flexible >= 0 && n > flexible)));
        paintOrder();
      }
      place();
      return fit;
    },
    // A column that has nothing to show is hidden, unless the reader or code has chosen the columns.
    /** @type {(name: string, is: boolean) => void} */
    setVacant(name, is) {
      if (vacant.has(name) === is) return;
      if (is) vacant.add(name);
      else vacant.delete(name);
      drawn = "";
      changed("columns");
    },
    // The columns from Python.
    take(item) {
      const wanted = JSON.stringify([item.columns, item.known]);
      if (wanted === JSON.stringify([names, known])) return;
      known = item.known;
      names = item.columns;
      byCode = item.chosen;
      if (byCode) own = null;
      else standard = names;
      drawn = "";
      changed("columns");
    },
    // The reader's choice, as it was kept.
    /** @type {(value: KeptColumns) => void} */
    restore(value) {
      // The settings come back to the view that changed them, perhaps after a later change.
      if (performance.now() - storedAt < ECHO) return;
      const shownBefore = JSON.stringify([own, sizes]),
        before = order;
      const list = Array.isArray(value.shown) ? value.shown.filter((name) => typeof name === "string") : [];
      if (!byCode) own = list.length ? list : null;
      sizes = readWidths(value.widths);
      order = readOrder(value.sort);
      // Headings that stay the same are not drawn anew: one of them may hold the focus.
      const others = JSON.stringify([own, sizes]) !== shownBefore,
        sorts = order.by !== before.by || order.desc !== before.desc;
      if (others) drawn = "";
      if (sorts) paintOrder();
      if (sorts || others) changed(sorts ? "order" : "columns");
    },
  };
}
