import assert from "node:assert/strict";
import { test } from "node:test";
import { axisTicks, nearestPoint, timeAxis } from "../../../mew_lab/views/streams/axis.js";

test("points that came one by one lie at their times", () => {
  const axis = timeAxis([100, 101, 110]);
  assert.ok(axis.byTime);
  assert.deepEqual([0, 1, 2].map(axis.share), [0, 0.1, 1]);
  assert.equal(nearestPoint(axis, 3, 0.4), 1);
  assert.equal(nearestPoint(axis, 3, 0.6), 2);
  assert.deepEqual(axisTicks(axis, 3, 3), [0, 1, 2]);
});

test("points that came at once lie in their order", () => {
  const axis = timeAxis([100, 100, 100, 100, 101]);
  assert.ok(!axis.byTime);
  assert.deepEqual([0, 1, 2, 3, 4].map(axis.share), [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(axisTicks(axis, 5, 3), [0, 2, 4]);
});

test("no point and one point are no fault", () => {
  assert.equal(nearestPoint(timeAxis([]), 0, 0.5), -1);
  assert.deepEqual(axisTicks(timeAxis([]), 0, 3), []);
  assert.equal(timeAxis([5]).share(0), 0.5);
  assert.deepEqual(axisTicks(timeAxis([5]), 1, 3), [0]);
});
