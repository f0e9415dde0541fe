// Finds words in the rows that are shown, from one to the next.

import { FROM, KIND, SEQ, TO, WHAT } from "./cells.js";

// The numbers of the rows with these words, in the order of the rows; `needle` is in lower case.
/** @type {(rows: import("./cells.js").Row[], needle: string) => number[]} */
export function findRows(rows, needle) {
  if (!needle) return [];
  return rows
    .filter((row) => `${row[FROM]} → ${row[TO]} ${row[KIND]} ${row[WHAT]}`.toLowerCase().includes(needle))
    .map((row) => row[SEQ]);
}

// The place of the next match: after `place` (an index of `shown`), or before it; it goes round at the end.
/** @type {(shown: import("./cells.js").Row[], found: number[], seq: number, back: boolean) => number | null} */
export function nextMatch(shown, found, seq, back) {
  if (!found.length) return null;
  const at = found.indexOf(seq);
  if (at >= 0) return found[(at + (back ? -1 : 1) + found.length) % found.length];
  const places = new Map(shown.map((row, n) => [row[SEQ], n])),
    here = places.get(seq) ?? -1;
  if (here < 0) return back ? found.at(-1) : found[0];
  return back
    ? (found.findLast((match) => places.get(match) < here) ?? found.at(-1))
    : (found.find((match) => places.get(match) > here) ?? found[0]);
}
