import assert from "node:assert/strict";
import { test } from "node:test";
import { findRows, nextMatch } from "../../../mew_lab/views/feed/search.js";

const row = (seq, what, from = "bot") => [seq, 0, from, "git", "chat", what, "", 0, "✓", 0];
const ROWS = [
  row(3, "the Beans"),
  row(4, "water"),
  row(5, "more beans"),
  row(6, "end"),
  row(7, "x", "beans-bot"),
];

test("words are found in the sentence, the kind and the names, whatever their case", () => {
  assert.deepEqual(findRows(ROWS, "beans"), [3, 5, 7]);
  assert.deepEqual(findRows(ROWS, "→ git"), [3, 4, 5, 6, 7]);
  assert.deepEqual([findRows(ROWS, ""), findRows(ROWS, "nothing like it")], [[], []]);
});

test("one match leads to the next and to the one before, round the ends", () => {
  const found = findRows(ROWS, "beans");
  assert.deepEqual(
    [3, 5, 7].map((seq) => nextMatch(ROWS, found, seq, false)),
    [5, 7, 3],
  );
  assert.deepEqual(
    [3, 5, 7].map((seq) => nextMatch(ROWS, found, seq, true)),
    [7, 3, 5],
  );
  assert.equal(nextMatch(ROWS, [], 3, false), null);
});

test("the search begins at the selected row, and at an end where none is selected", () => {
  const found = findRows(ROWS, "beans");
  assert.deepEqual([nextMatch(ROWS, found, 4, false), nextMatch(ROWS, found, 4, true)], [5, 3]);
  assert.deepEqual([nextMatch(ROWS, found, 0, false), nextMatch(ROWS, found, 0, true)], [3, 7]);
  assert.deepEqual([nextMatch(ROWS, [3], 6, false), nextMatch(ROWS, [7], 6, true)], [3, 7]);
});
