import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf, snapBrush } from "../../../mew_lab/views/timeline/scale.js";

const about = (more) => ({
  zoom: null,
  length: 0,
  now: 100000,
  firstSecond: 50000,
  lastSecond: 50019,
  firstMinute: 49980,
  most: 200,
  ...more,
});

test("a short session fills the whole width, however long ago it was", () => {
  assert.deepEqual(barsOf(about({})), { length: 1, first: 50000, end: 50020, bars: 20, fine: true });
});

test("a session of hours is drawn in minutes, from its first to its last", () => {
  const view = barsOf(about({ firstMinute: 36000, firstSecond: 46400 }));
  assert.deepEqual([view.fine, view.length, view.first, view.end >= 50020], [false, 120, 36000, true]);
});

test("the last minutes end now, and a zoom shows its part alone", () => {
  const recent = barsOf(about({ length: 300, now: 50030 }));
  assert.ok(recent.end >= 50030 && recent.end - recent.first <= 302 && recent.bars <= 200);
  assert.deepEqual(barsOf(about({ zoom: { since: 50005, until: 50010 } })), {
    length: 1,
    first: 50005,
    end: 50010,
    bars: 5,
    fine: true,
  });
});

test("a single second stands in the middle of ten, and so does a session of a few", () => {
  const view = (lastSecond) => barsOf(about({ firstSecond: 50000, lastSecond }));
  assert.deepEqual(view(50000), { length: 1, first: 49995, end: 50005, bars: 10, fine: true });
  assert.deepEqual([view(50002).first, view(50002).end], [49996, 50006]);
  assert.deepEqual([view(50009).first, view(50009).end], [50000, 50010]);
  // A part that the reader has chosen is no longer than chosen.
  assert.equal(barsOf(about({ zoom: { since: 50000, until: 50001 } })).bars, 1);
});

test("there is at least one bar", () => {
  assert.deepEqual(barsOf(about({ zoom: { since: 50000, until: 50000 } })).bars, 1);
});

test("a marked time is of whole bars, at least one, and within what is shown", () => {
  const view = { first: 100, end: 200, length: 10 };
  assert.deepEqual(snapBrush(view, 123, 145), { since: 120, until: 150 });
  assert.deepEqual(snapBrush(view, 145, 123), { since: 120, until: 150 });
  assert.deepEqual(snapBrush(view, 131, 131), { since: 130, until: 140 });
  assert.deepEqual(snapBrush(view, -50, 900), { since: 100, until: 200 });
  assert.deepEqual(snapBrush(view, 900, 950), { since: 190, until: 200 });
});
