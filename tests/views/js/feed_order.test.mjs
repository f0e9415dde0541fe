import assert from "node:assert/strict";
import { test } from "node:test";
import { isNatural, nextOrder, readOrder, sortRows } from "../../../mew_lab/views/feed/order.js";

const row = (seq, from, kind, call) => [
  seq,
  seq * 10,
  from,
  "git",
  kind,
  `what ${seq}`,
  "",
  0,
  "✓",
  seq,
  [],
  `m${seq}`,
  "",
  0,
  ...(call ? [call] : []),
];
const ROWS = [
  row(1, "bot", "chat"),
  row(2, "ada", "mcp/request", ["answered", 3, 0]),
  row(3, "Bot", "mcp/proposal", ["waiting", 0, 0]),
  row(4, "ada", "mcp/request", ["answered", 0.5, 0]),
];
const seqs = (rows) => rows.map((one) => one[0]);

test("without a choice the rows stand as they came", () => {
  assert.ok(isNatural(readOrder(null)));
  assert.deepEqual(seqs(sortRows(ROWS, { by: "seq", desc: false })), [1, 2, 3, 4]);
});

test("rows are sorted by each column in both directions, and equal ones keep their places", () => {
  assert.deepEqual(seqs(sortRows(ROWS, { by: "seq", desc: true })), [4, 3, 2, 1]);
  assert.deepEqual(seqs(sortRows(ROWS, { by: "from", desc: false })), [2, 4, 1, 3]);
  assert.deepEqual(seqs(sortRows(ROWS, { by: "from", desc: true })), [3, 1, 4, 2]);
  assert.deepEqual(seqs(sortRows(ROWS, { by: "kind", desc: false })), [1, 3, 2, 4]);
});

test("what waits longest stands first when the slowest come first", () => {
  assert.deepEqual(seqs(sortRows(ROWS, { by: "took", desc: true })), [3, 2, 4, 1]);
  assert.deepEqual(seqs(sortRows(ROWS, { by: "took", desc: false })), [1, 4, 2, 3]);
});

test("the worst findings stand first at the first click", () => {
  const found = [0, 8, 0, 16].map((flags, n) => Object.assign(row(n + 1, "a", "chat"), { 13: flags }));
  const worst = nextOrder({ by: "seq", desc: false }, "finding");
  assert.deepEqual([worst.desc, seqs(sortRows(found, worst))], [true, [4, 2, 3, 1]]);
});

test("a heading sorts, turns the order round, and gives the order back that was", () => {
  const first = nextOrder({ by: "seq", desc: false }, "from"),
    second = nextOrder(first, "from");
  assert.deepEqual(
    [first, second],
    [
      { by: "from", desc: false },
      { by: "from", desc: true },
    ],
  );
  assert.ok(isNatural(nextOrder(second, "from")));
  const slow = nextOrder({ by: "seq", desc: false }, "took");
  assert.deepEqual(
    [slow, nextOrder(slow, "took").desc, isNatural(nextOrder(nextOrder(slow, "took"), "took"))],
    [{ by: "took", desc: true }, false, true],
  );
  const newest = nextOrder({ by: "seq", desc: false }, "seq");
  assert.deepEqual([newest, isNatural(nextOrder(newest, "seq"))], [{ by: "seq", desc: true }, true]);
});

test("a kept order that is none is the natural one", () => {
  for (const kept of [undefined, {}, { by: "constructor" }, { by: 3 }, "seq"])
    assert.ok(isNatural(readOrder(kept)));
  assert.deepEqual(readOrder({ by: "kind", desc: true }), { by: "kind", desc: true });
});

test("twenty thousand rows are sorted in a fraction of a second", () => {
  const many = Array.from({ length: 20000 }, (_, n) => row(n, `bot-${(n * 7919) % 97}`, "chat"));
  const began = performance.now();
  assert.equal(sortRows(many, { by: "route", desc: true }).length, 20000);
  assert.ok(performance.now() - began < 500);
});
