// The order of the rows. Without a choice of the reader they stand as they came, the newest last.

import { CALL, CONTEXT, FROM, KIND, SEQ, SIZE, TIME, TO, VERDICT, WHAT, rankOf } from "./cells.js";

/** @typedef {{ by: string, desc: boolean }} Order the column, and whether the greatest value comes first */
/** @typedef {import("./cells.js").Row} OrderedRow */

/** @type {Order} */
const NATURAL = { by: "seq", desc: false };

// What a column is sorted by; `followed` maps the number of a row to those of its answers.
/** @type {Record<string, (row: OrderedRow, followed: Map<number, number[]>) => string | number>} */
const SORT_KEYS = {
  seq: (row) => row[SEQ],
  time: (row) => row[TIME],
  elapsed: (row) => row[TIME],
  route: (row) => `${row[FROM]}\n${row[TO]}`.toLowerCase(),
  from: (row) => row[FROM].toLowerCase(),
  to: (row) => row[TO].toLowerCase(),
  kind: (row) => row[KIND],
  what: (row) => row[WHAT].toLowerCase(),
  // Rows without a call come first, what still waits comes last.
  took: (row) => {
    const [state, seconds] = row[CALL] ?? ["", 0];
    return !state ? -1 : state === "waiting" || state === "unknown" ? Infinity : seconds;
  },
  finding: (row) => rankOf(row),
  context: (row) => row[CONTEXT],
  follows: (row, followed) => followed.get(row[SEQ])?.length ?? 0,
  verdict: (row) => row[VERDICT],
  size: (row) => row[SIZE],
};

/** @type {(order: Order) => boolean} */
export function isNatural(order) {
  return !order.desc && (order.by === "seq" || order.by === "time" || order.by === "elapsed");
}

// Columns whose greatest value is looked for first.
const GREATEST_FIRST = ["seq", "took", "finding"];

// The order after a click on a heading: upwards, downwards, then as the rows came.
/** @type {(order: Order, name: string) => Order} */
export function nextOrder(order, name) {
  if (!SORT_KEYS[name]) return order;
  if (name !== order.by || isNatural(order)) return { by: name, desc: GREATEST_FIRST.includes(name) };
  const first = GREATEST_FIRST.includes(name);
  return order.desc === first ? { by: name, desc: !first } : { ...NATURAL };
}

// An order that was kept; the natural one where it is none.
/** @type {(kept: Partial<Order> | null | undefined) => Order} */
export function readOrder(kept) {
  return kept && Object.hasOwn(SORT_KEYS, kept.by)
    ? { by: kept.by, desc: kept.desc === true }
    : { ...NATURAL };
}

// The rows in that order; equal ones stay as they came. The keys are made once for each row.
/** @type {(rows: OrderedRow[], order: Order, followed?: Map<number, number[]>) => OrderedRow[]} */
export function sortRows(rows, order, followed = new Map()) {
  if (isNatural(order)) return [...rows];
  const key = SORT_KEYS[order.by],
    keys = rows.map((row) => key(row, followed)),
    sign = order.desc ? -1 : 1;
  const places = rows.map((_, n) => n);
  places.sort((a, b) => (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : sign * (a - b)));
  return places.map((n) => rows[n]);
}
