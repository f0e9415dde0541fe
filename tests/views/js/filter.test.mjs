// The filter of the page keeps the rule of tests/views/row_filter.py: both run through filter_cases.json.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { compileFilter } from "../../../mew_lab/views/feed/filter.js";

const CASES = JSON.parse(readFileSync(new URL("../filter_cases.json", import.meta.url), "utf8"));
const SIGNS = { accepted: "✓", refused: "✗", sent: "·" };
const ROWS = CASES.rows.map((row) => [row.seq, 0, row.sender, row.to.join(", "), row.kind, row.what.replaceAll("\u202e", "\\u202e"),
  row.context, 0, `${SIGNS[row.verdict] ?? ""} ${row.code}`.trim(), 0]);

for (const [text, expected] of CASES.meant)
  test(`“${text}” means its rows`, () => assert.deepEqual(ROWS.filter(compileFilter(text)).map((row) => row[0]), expected));

for (const [text, reason] of CASES.refused)
  test(`“${text.slice(0, 40)}” is refused with its reason`, () => assert.throws(() => compileFilter(text), (error) => error.message.includes(reason)));

test("a filter has at most 500 characters and 50 words", () => {
  assert.deepEqual(ROWS.filter(compileFilter("a".repeat(500))), []);
  assert.throws(() => compileFilter("a".repeat(501)), { message: "A filter has at most 500 characters." });
  compileFilter(Array(50).fill("a").join(" "));
  assert.throws(() => compileFilter(Array(51).fill("a").join(" ")), { message: "A filter has at most 50 words." });
});
