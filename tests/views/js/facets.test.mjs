import assert from "node:assert/strict";
import { test } from "node:test";
import { Tally, outline } from "../../../mew_lab/views/feed/facets.js";

const zeros = (n) => Array(n).fill(0);

test("a minute of arrivals is counted in twenty slots of three seconds", () => {
  const tally = new Tally(),
    at = 300000;
  for (const t of [at, at + 1, at + 2.9, at + 3, at + 30, at - 100]) tally.add(t);
  const now = (at + 30) / 3;
  assert.equal(tally.count, 6);
  assert.deepEqual(tally.last(now), [...zeros(9), 3, 1, ...zeros(8), 1]);
  assert.deepEqual(tally.last(now + 15), [...zeros(4), 1, ...zeros(15)]);
  assert.deepEqual(tally.last(now + 40), zeros(20));
  // A clock that is slow sees no bar twice.
  assert.deepEqual(tally.last(now - 5), [...zeros(14), 3, 1, ...zeros(4)]);
});

test("a slot that is used again forgets what it held a minute ago", () => {
  const tally = new Tally();
  for (let n = 0; n < 5; n++) tally.add(0);
  tally.add(60);
  assert.deepEqual(tally.last(20), [...zeros(19), 1]);
});

test("the outline has a step a slot, the highest where most came, and none where nothing did", () => {
  const bars = [...zeros(18), 1, 2],
    shape = outline(bars);
  assert.ok(shape.startsWith("polygon(0 100%, 0.0% 100%, 5.0% 100%, "));
  assert.ok(shape.endsWith("90.0% 44%, 95.0% 44%, 95.0% 0%, 100.0% 0%, 100% 100%)"));
});
