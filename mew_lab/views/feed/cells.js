// Draws the cells of a row, for the columns that fit into the view. The columns come from columns.py, as data.

import { make } from "../ui/elements.js";
import { family } from "../ui/families.js";
import { markText } from "../ui/mark.js";
import { clockTime, countOf, duration, groupDigits } from "../ui/text.js";

const NARROW = 800;
const LEAST_WHAT = 144;
const LEAST_ROUTE = 96; // twelve letters
// The space beside a number, the width of a digit, and the characters that are shown of a number: a tooltip has all.
const PADDING = 18;
const DIGIT = 8;
const MOST_NUMBER = 12;
export const LEAST_WIDTH = 32;
export const MOST_WIDTH = 800;
export const [SEQ, TIME, FROM, TO, KIND, WHAT, CONTEXT, ANSWERS, VERDICT, SIZE, ALSO, ID, TOOL, FLAGS, CALL] =
  /** @type {const} */ ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);

/**
 * What became of the call of a row: "waiting", "answered", …; after how many seconds; 1 where the row is an approval.
 * @typedef {[state: string, took: number, approves: number]} CallState
 */
/**
 * A row as the kernel packs it. A row without a call has no last value.
 * @typedef {[seq: number, time: number, from: string, to: string, kind: string, what: string, context: string, answers: number, verdict: string,
 *   size: number, also: number[], id: string, tool: string, flags: number, call?: CallState]} Row
 */
/**
 * A column, as columns.py defines it. A `width` of 0 takes the remaining width.
 * @typedef {{ name: string, title: string, width: number, align: "left" | "right", hover: string, code: boolean, narrow: number, least: number, about: string }} Column
 */
/**
 * The columns that fit into a view, with their widths. Equal choices of columns have equal keys.
 * @typedef {{ list: Column[], width: (column: Column) => number, key: string, least: number }} Fit
 */
/**
 * What the text of a cell depends on besides its row.
 * @typedef {{ followed: Map<number, number[]>, began: number, me: string, you: (name: string) => string, words: string[], sign: string,
 *   stop: (seq: number) => HTMLElement | null }} CellContext `stop` returns the button that cancels the call of a row, where it runs
 */

// The severities of findings by their ranks; a message without a finding has rank 0.
export const SEVERITIES = ["", "note", "warn", "error", "fatal"];
const RANK_BITS = 7 << 2;
const ERROR_RANK = 3;

// The rank of the highest severity that the diagnosis found about a row.
/** @type {(row: Row) => number} */
export function rankOf(row) {
  return (row[FLAGS] & RANK_BITS) >> 2;
}

/** @type {(row: Row, rank: number) => void} */
export function setRank(row, rank) {
  row[FLAGS] = (row[FLAGS] & ~RANK_BITS) | ((rank << 2) & RANK_BITS);
}

// What only keeps the space running; a message with which something is wrong is none.
/** @type {(row: Row) => boolean} */
export function isPlumbing(row) {
  return (row[FLAGS] & 1) === 1 && rankOf(row) < ERROR_RANK;
}

/** @type {(row: Row) => boolean} */
export function isFailure(row) {
  return (row[FLAGS] & 2) === 2;
}

/** @type {(row: Row) => boolean} */
export function isDenied(row) {
  return row[VERDICT].startsWith("✗");
}

// The numbers of the rows that a packed row answers, in its own order.
/** @type {(row: Row) => number[]} */
export function answersOf(row) {
  return [...(row[ANSWERS] ? [row[ANSWERS]] : []), ...(row[ALSO] ?? [])];
}

const STATES = {
  waiting: "No answer yet",
  refused: "Its proposal was decided before, so it is not executed",
  answered: "Answered after",
  failed: "Failed after",
  unknown: "It was sent. Whether it took effect is not known.",
  resolved: "It was unknown whether it took effect; a person found out",
  approved: "Approved after",
  rejected: "Rejected after",
  withdrawn: "Withdrawn after",
};

const WORDS = new Set(["waiting", "refused", "unknown", "resolved"]); // the states that stand in the place of a duration

// How long the call of a row took: "44 ms", "waiting", "unknown", or nothing where the row holds no call.
/** @type {(row: Row) => string} */
export function tookText(row) {
  const [state, took] = row[CALL] ?? ["", 0];
  return !state ? "" : WORDS.has(state) ? state : duration(took);
}

/** @type {(row: Row) => string} */
function tookHover(row) {
  const [state, took] = row[CALL] ?? ["", 0];
  if (!state) return "";
  if (state === "failed" && row[KIND] === "mcp/proposal")
    return `Approved after ${duration(took)}; the tool failed`;
  return WORDS.has(state) ? STATES[state] : `${STATES[state] ?? state} ${duration(took)}`;
}

// What stands before the sentence of a row: the denial, or whose approval it is.
/** @type {(row: Row, me: string) => string} */
export function prefixOf(row, me) {
  if (isDenied(row)) return "Denied";
  return row[CALL]?.[2] ? (row[FROM] === me ? "Approved by you" : "Approved") : "";
}

/** @type {(row: Row, you?: (name: string) => string) => string} */
export function routeText(row, you = (name) => name) {
  const to = row[TO].split(", "),
    [first] = to;
  return row[TO]
    ? `${you(row[FROM])} → ${you(first)}${to.length > 1 ? ` +${to.length - 1}` : ""}`
    : you(row[FROM]);
}

// The text of a column or a tooltip for a row, by the names of columns.py.
/** @type {Record<string, (row: Row, about: CellContext) => string>} */
const VALUES = {
  seq: (row, { sign }) => `${sign}${row[SEQ]}`,
  time: (row) => clockTime(row[TIME]),
  elapsed: (row, { began }) => Math.max(0, row[TIME] - began).toFixed(2),
  moment: (row) =>
    `${new Date(row[TIME] * 1000).toISOString().replace("T", " ").slice(0, 19)} UTC · ${countOf(row[SIZE], "byte")}`,
  route: (row, { you }) => routeText(row, you),
  from: (row) => row[FROM],
  to: (row) => row[TO],
  kind: (row) => row[KIND],
  what: (row) => row[WHAT],
  took: (row) => tookText(row),
  finding: (row) => SEVERITIES[rankOf(row)] ?? "",
  context: (row) => row[CONTEXT],
  follows: (row, { followed }) => String(followed.get(row[SEQ])?.length ?? ""),
  verdict: (row) => row[VERDICT],
  size: (row) => groupDigits(row[SIZE]),
};
/** @type {Record<string, (row: Row, about: CellContext) => string>} */
const HOVERS = {
  route: (row) => `${row[FROM]} → ${row[TO] || "everybody"}`,
  what: (row, { me }) =>
    [isDenied(row) ? `Denied: ${row[VERDICT].slice(2)}` : prefixOf(row, me), row[WHAT]]
      .filter(Boolean)
      .join(" · "),
  took: tookHover,
};

// The names of the columns to show: the reader's choice, as far as there are such columns, else `standard`.
export function readNames(own, known, standard) {
  const names = (own ?? []).filter((name) => known.some((column) => column.name === name));
  return names.length ? [...new Set(names)] : standard;
}

// The widths that the settings hold, without those that are none, and within the bounds of a drag.
export function readWidths(kept) {
  const pairs = Object.entries(kept ?? {}).filter(([, width]) => Number.isFinite(width));
  return Object.fromEntries(
    pairs.map(([name, width]) => [name, Math.round(Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, width)))]),
  );
}

// The columns that fit into so many pixels; equal choices have equal `key`s. With the standard columns, what a message says
// takes at least half of the width: some columns give way, then the sender and the addressees are shortened. `widths` are
// those that the reader has chosen, and `longest` are the characters of the longest number, with its sign.
/** @type {(columns: Column[], room: number, choices?: { widths?: Record<string, number>, longest?: number }) => Fit} */
export function fitting(columns, room, { widths = {}, longest = 0 } = {}) {
  const narrow = room < NARROW;
  const list = columns.filter((column) => room >= column.least);
  const numbers = PADDING + Math.min(longest, MOST_NUMBER) * DIGIT;
  const standard = (column) => (narrow && column.narrow) || column.width;
  const given = (column) =>
    widths[column.name] ?? (column.name === "seq" ? Math.max(standard(column), numbers) : standard(column));
  const fixed = list.reduce((sum, column) => sum + (column.name === "route" ? 0 : given(column)), 0);
  const width = (column) =>
    column.name !== "route" || widths["route"]
      ? given(column)
      : Math.max(LEAST_ROUTE, Math.min(given(column), Math.floor(room / 2 - fixed)));
  return {
    list,
    width,
    key: list.map((column) => column.name).join(" "),
    least: list.reduce((sum, column) => sum + (width(column) || LEAST_WHAT), 0),
  };
}

// `followed` maps the number of a row to those of its answers; `jump(seq)` goes to a row; `look()` returns what the cells
// depend on besides.
/** @param {{ followed: Map<number, number[]>, jump: (seq: number) => void, look: () => Omit<CellContext, "followed"> }} on */
export function cellsOf({ followed, jump, look }) {
  function fillFollows(cell, seq) {
    const answers = followed.get(seq);
    if (!answers) return;
    const go =
      cell.querySelector("button") ??
      cell.appendChild(
        make("button", {
          class: "mew-link",
          tabindex: -1,
          onclick: (event) => {
            event.stopPropagation();
            jump(followed.get(seq)?.[0] ?? seq);
          },
        }),
      );
    if (go.textContent !== groupDigits(answers.length)) go.textContent = groupDigits(answers.length);
    const first = `${look().sign}${answers[0]}`;
    const label =
      answers.length === 1
        ? `Go to ${first}, which answers this one`
        : `Go to ${first}, the first of ${answers.length} that answer this one`;
    go.title = label;
    go.setAttribute("aria-label", label);
  }

  // Columns that show more than text.
  /** @type {Record<string, (cell: HTMLElement, row: Row, about: CellContext) => unknown>} */
  const FILL = {
    what(cell, row, about) {
      const { label } = family(row[KIND]),
        said = `${label} · ${row[KIND] || "unreadable"}`;
      const line = make("div", { class: "mew-said" });
      if (row[CONTEXT])
        for (const _ of row[CONTEXT].split("/").slice(0, 6))
          line.append(
            make("span", { class: "mew-level", "aria-hidden": true, title: `context ${row[CONTEXT]}` }),
          );
      line.append(make("span", { class: "mew-dot", role: "img", "aria-label": label, title: said }));
      const prefix = prefixOf(row, about.me),
        sentence = make("span", { class: "mew-sentence" });
      if (prefix) sentence.append(make("bdi", { class: "mew-prefix", text: prefix }), " · ");
      sentence.append(markText(make("bdi", { class: "mew-text" }), row[WHAT], about.words));
      line.append(sentence);
      for (const seq of answersOf(row).slice(0, 3))
        line.append(
          make("button", {
            class: "mew-link mew-answered",
            tabindex: -1,
            text: `⇠${about.sign}${seq}`,
            title: `Go to ${about.sign}${seq}, which this one answers`,
            "aria-label": `Go to ${about.sign}${seq}, which this one answers`,
            onclick: (event) => {
              event.stopPropagation();
              jump(seq);
            },
          }),
        );
      const stop = about.stop(row[SEQ]);
      if (stop) line.append(stop);
      cell.append(line);
    },
    route(cell, row, about) {
      const sender = about.you(row[FROM]);
      cell.append(
        markText(make("span", { class: row[TO] ? "mew-sender" : null }), sender, about.words),
        markText(make("span"), routeText(row, about.you).slice(sender.length), about.words),
      );
    },
    from: (cell, row, about) => markText(cell, row[FROM], about.words),
    to: (cell, row, about) => markText(cell, row[TO], about.words),
    kind: (cell, row, about) => markText(cell, row[KIND], about.words),
    took(cell, row) {
      cell.textContent = tookText(row);
      cell.classList.toggle("mew-waiting", row[CALL]?.[0] === "waiting");
    },
    finding(cell, row) {
      const severity = SEVERITIES[rankOf(row)];
      if (severity) cell.append(make("span", { class: `mew-severity mew-at-${severity}`, text: severity }));
    },
    follows: (cell, row) => fillFollows(cell, row[SEQ]),
  };

  /** @type {(cell: HTMLElement, column: Column, row: Row, list: Column[]) => void} */
  function fillCell(cell, column, row, list) {
    const about = { followed, ...look() };
    const hover = column.hover ? (HOVERS[column.hover] ?? VALUES[column.hover])(row, about) : "";
    if (hover) cell.title = hover;
    if (FILL[column.name]) FILL[column.name](cell, row, about);
    else cell.textContent = VALUES[column.name](row, about);
    const found = VALUES.finding(row, about);
    // Without a column of its own a finding is a sign before the sentence.
    if (column.name === "what" && found && !list.some((other) => other.name === "finding"))
      cell.firstElementChild?.prepend(
        make("span", { class: `mew-severity mew-at-${found}`, role: "img", "aria-label": found }),
      );
  }

  return {
    follows: fillFollows,
    /** @type {(line: HTMLElement, row: Row, fit: Pick<Fit, "list">) => void} */
    fill(line, row, { list }) {
      for (const column of list) {
        const cell = make("td", {
          class: `mew-${column.name}${column.align === "right" ? " mew-num" : ""}${column.code ? " mew-code" : ""}`,
        });
        fillCell(cell, column, row, list);
        line.append(cell);
      }
    },
    // Draws the cells anew that depend on the call of the row, and on what is found about it.
    /** @type {(line: HTMLElement, row: Row, fit: Pick<Fit, "list">) => void} */
    refresh(line, row, { list }) {
      list.forEach((column, n) => {
        if (!["took", "what", "finding"].includes(column.name)) return;
        const cell = /** @type {HTMLElement} */ (line.children[n]);
        cell.replaceChildren();
        fillCell(cell, column, row, list);
      });
    },
  };
}
