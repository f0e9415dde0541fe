import assert from "node:assert/strict";
import { test } from "node:test";
import { durationBar, stepSpan } from "../../../mew_lab/views/reasoning/bars.js";

test("a bar lies where its time lies within that of the sequence, and is never out of sight", () => {
  assert.deepEqual(durationBar(12, 14, 10, 20), { left: 20, width: 20 });
  assert.deepEqual(durationBar(10, 20, 10, 20), { left: 0, width: 100 });
  assert.deepEqual(durationBar(20, 20, 10, 20), { left: 99, width: 1 });
  assert.deepEqual(durationBar(5, 30, 10, 20), { left: 0, width: 100 });
  assert.deepEqual(durationBar(10, 10, 10, 10), { left: 0, width: 1 });
});

test("a call takes until its end, a thought since what was before it, or what its participant reports", () => {
  assert.deepEqual(stepSpan({ t: 5, call: { ended: 9 } }, 4, 1, 20), { start: 5, end: 9 });
  assert.deepEqual(stepSpan({ t: 5, call: { ended: null } }, 4, 1, 20), { start: 5, end: 20 });
  assert.deepEqual(stepSpan({ t: 5, call: null }, 4, 1, 20), { start: 4, end: 5 });
  assert.deepEqual(stepSpan({ t: 5, call: null }, null, 1, 20), { start: 1, end: 5 });
  assert.deepEqual(stepSpan({ t: 5, call: null, took: 0.5 }, 4, 1, 20), { start: 4.5, end: 5 });
  assert.deepEqual(stepSpan({ t: 5, call: null, took: 100 }, 4, 1, 20), { start: 1, end: 5 });
});
