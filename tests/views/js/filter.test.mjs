// The filter of the page keeps the rule of tests/views/row_filter.py: both run through filter_cases.json.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  compileFilter,
  completeFilter,
  isExpression,
  joinFilters,
} from "../../../mew_lab/views/feed/filter.js";

const CASES = JSON.parse(readFileSync(new URL("../filter_cases.json", import.meta.url), "utf8"));
const SIGNS = { accepted: "✓", refused: "✗", sent: "·" };
const ROWS = CASES.rows.map((row) => [
  row.seq,
  row.t ?? 0,
  row.sender,
  row.to.join(", "),
  row.kind,
  row.what.replaceAll("\u202e", "\\u202e"),
  row.context,
  0,
  `${SIGNS[row.verdict] ?? ""} ${row.code}`.trim(),
  0,
  [],
  row.id ?? "",
  row.tool ?? "",
  0,
]);
// 11 January 1970, 13:48:40 UTC; the reader is an hour ahead.
const ABOUT = { now: 1000120, zone: 3600 };

for (const [text, expected] of CASES.meant)
  test(`“${text}” means its rows`, () =>
    assert.deepEqual(
      ROWS.filter(compileFilter(text, ABOUT)).map((row) => row[0]),
      expected,
    ));

for (const [text, reason] of CASES.refused)
  test(`“${text.slice(0, 40)}” is refused with its reason`, () =>
    assert.throws(
      () => compileFilter(text),
      (error) => error.message.includes(reason),
    ));

test("a filter has at most 500 characters and 50 words", () => {
  assert.deepEqual(ROWS.filter(compileFilter("a".repeat(500))), []);
  assert.throws(() => compileFilter("a".repeat(501)), { message: "A filter has at most 500 characters." });
  compileFilter(Array(50).fill("a").join(" "));
  assert.throws(() => compileFilter(Array(51).fill("a").join(" ")), {
    message: "A filter has at most 50 words.",
  });
});

for (const [text, asks] of CASES.asks)
  test(`“${text}” ${asks ? "asks" : "does not ask"} for rows by what they are`, () =>
    assert.equal(compileFilter(text, ABOUT).asks ?? false, asks));

test("the names that are known complete the last word", () => {
  const values = { from: ["bot", "bo t", "human"], kind: ["chat", "mcp/request"], to: [], tool: ["git_log"] };
  assert.deepEqual(completeFilter("from:", values), ["from:bot", 'from:"bo t"', "from:human"]);
  assert.deepEqual(completeFilter("typo -FROM:B", values), ["typo -FROM:bot", 'typo -FROM:"bo t"']);
  assert.deepEqual(completeFilter("kind:mcp", values), ["kind:mcp/request"]);
  assert.deepEqual(completeFilter("tool:git", values), ["tool:git_log"]);
  for (const text of ["", "from", "from:bot", "xfrom:b", "from:bot ", "id:b", "to:x"])
    assert.deepEqual(completeFilter(text, values), text === "from:bot" ? [] : []);
});

const FIELDS = ["seq", "time", "from", "to", "kind", "latency", "payload", "text", "diag.severity"];
for (const [text, goes] of [
  ["kind == chat", true],
  ['kind=="chat"', true],
  ["kind ~ mcp/*", true],
  ["kind~mcp/*", true],
  ["latency > 2s", true],
  ["latency>2s", true],
  ["typo kind != chat", true],
  ["-(a b)", true],
  ["(a or b)", true],
  ["a and b", true],
  ["not found", true],
  ["a OR b", true],
  ["from in (a, b)", true],
  ["seq in 1..2", true],
  ["seq 10..20", true],
  ["to has bob", true],
  ["to exists", true],
  ["(to exists)", true],
  ["payload.params.name == x", true],
  ['payload."a b" exists', true],
  ["payload[0] < 1", true],
  ["diag.severity >= warn", true],
  ["knid == chat", true],
  ["kind = chat", true],
  ["typo", false],
  ["typo -please", false],
  ["from:bot kind:mcp/", false],
  ['"a and b"', false],
  ['"kind == chat"', false],
  ["<img src=x>", false],
  ["git_log(max=3)", false],
  ["12:30", false],
  ["band order nothing", false],
  ["log in chat", false],
  ["1..2", false],
  ["a>b", false],
  ["", false],
  ['"kind == chat', false],
  ["since:5m", false],
  ["https://a.b/?c=d", false],
])
  test(`“${text}” ${goes ? "goes to the kernel" : "stays words"}`, () =>
    assert.equal(isExpression(text, FIELDS), goes));

test("a condition is added to what is there", () => {
  assert.equal(joinFilters("", "kind == chat"), "kind == chat");
  assert.equal(
    joinFilters(" from:bot or typo ", "not (kind == chat)"),
    "(from:bot or typo) and not (kind == chat)",
  );
});

test("a number finds its row with either sign", () => {
  const [{ 0: seq }] = ROWS;
  for (const sign of ["#", "~"])
    assert.equal(ROWS.filter(compileFilter(`${sign}${seq}`, ABOUT))[0]?.[0], seq);
});
