// Draws the cells of a row, for the columns that fit into the view. The columns come from columns.py, as data.

import { make } from "../ui/elements.js";
import { family } from "../ui/families.js";
import { clockTime, groupDigits } from "../ui/text.js";

const NARROW = 900, WIDE = 1100, TIGHT = 48, LEAST_WHAT = 120;
export const [SEQ, TIME, FROM, TO, KIND, WHAT, CONTEXT, ANSWERS, VERDICT, SIZE] = Array.from({ length: 10 }, (_, n) => n);

// The text of a column or a tooltip for a row, by the names of columns.py.
const VALUES = {
  seq: (row) => String(row[SEQ]),
  time: (row, { began }) => Math.max(0, row[TIME] - began).toFixed(2),
  clock: (row) => clockTime(row[TIME]),
  moment: (row) => `${new Date(row[TIME] * 1000).toLocaleString()} · ${groupDigits(row[SIZE])} bytes`,
  from: (row) => row[FROM],
  to: (row) => row[TO],
  kind: (row) => row[KIND],
  what: (row) => row[WHAT],
  context: (row) => row[CONTEXT],
  follows: (row, { followed }) => String(followed.get(row[SEQ])?.length ?? ""),
  verdict: (row) => row[VERDICT],
  size: (row) => groupDigits(row[SIZE]),
};

// The numbers of the rows that a packed row answers, in its own order.
export function answersOf(row) {
  return [...(row[ANSWERS] ? [row[ANSWERS]] : []), ...(row[10] ?? [])];
}

// The columns that fit into so many pixels; equal choices have equal `key`s.
export function fitting(columns, room) {
  const narrow = room < NARROW, wide = room >= WIDE;
  const list = columns.filter((column) => room >= column.least);
  const width = (column) => (narrow && column.narrow) || (wide && column.code ? Math.round(column.width * 1.4) : column.width);
  // A column that is too narrow for a word shows only its sign; the tooltip has the rest.
  const tight = new Set(list.filter((column) => width(column) && width(column) < TIGHT && column.align === "left").map((column) => column.name));
  return {
    list, tight,
    key: `${narrow} ${wide} ${list.map((column) => column.name)}`,
    least: list.reduce((sum, column) => sum + (width(column) || LEAST_WHAT), 0),
    cols: () => list.map((column) => { const col = make("col"); col.style.width = width(column) ? `${width(column)}px` : "auto"; return col; }),
    heads: () => list.map((column) => make("th", { scope: "col", class: tight.has(column.name) ? "mew-tight" : column.align === "right" ? "mew-num" : null, title: column.name === "follows" ? "how many rows answer this one" : column.title }, make("span", { text: column.title }))),
  };
}

// `followed` maps the number of a row to those of its answers; `jump(seq)` goes to a row.
export function cellsOf({ followed, jump }) {
  function fillFollows(cell, seq) {
    const answers = followed.get(seq);
    if (!answers) return;
    const go = cell.querySelector("button") ?? cell.appendChild(make("button", { type: "button", class: "mew-link", tabindex: -1, onclick: (event) => { event.stopPropagation(); jump(followed.get(seq)?.[0] ?? seq); } }));
    if (go.textContent !== groupDigits(answers.length)) go.textContent = groupDigits(answers.length);
    const label = answers.length === 1 ? `Go to row ${answers[0]}, which answers this one` : `Go to row ${answers[0]}, the first of ${answers.length} that answer this one`;
    go.title = label;
    go.setAttribute("aria-label", label);
  }

  // Columns that show more than text.
  const FILL = {
    kind(cell, row) {
      cell.append(make("span", { class: "mew-glyph", "aria-hidden": true, text: family(row[KIND]).glyph }), row[KIND]);
    },
    what(cell, row) {
      const line = make("div", { class: "mew-said" });
      if (row[CONTEXT]) for (const _ of row[CONTEXT].split("/").slice(0, 6)) line.append(make("span", { class: "mew-level", "aria-hidden": true, title: `context ${row[CONTEXT]}` }));
      line.append(make("bdi", { text: row[WHAT] }));
      for (const seq of answersOf(row).slice(0, 3)) line.append(make("button", { type: "button", class: "mew-link", tabindex: -1, text: `⇠${seq}`, "aria-label": `Go to row ${seq}, which this one answers`, onclick: (event) => { event.stopPropagation(); jump(seq); } }));
      cell.append(line);
    },
    follows: (cell, row) => fillFollows(cell, row[SEQ]),
  };

  return {
    follows: fillFollows,
    fill(line, row, { list, tight }, began) {
      const about = { began, followed };
      for (const column of list) {
        const cell = make("td", { class: `mew-${column.name}${column.align === "right" ? " mew-num" : ""}${column.code ? " mew-code" : ""}${tight.has(column.name) ? " mew-tight" : ""}`, title: column.hover ? VALUES[column.hover](row, about) : null });
        if (FILL[column.name]) FILL[column.name](cell, row);
        else cell.textContent = VALUES[column.name](row, about);
        line.append(cell);
      }
    },
  };
}
