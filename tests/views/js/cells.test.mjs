import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answersOf,
  fitting,
  isDenied,
  isFailure,
  isPlumbing,
  prefixOf,
  rankOf,
  readNames,
  readWidths,
  routeText,
  setRank,
  tookText,
} from "../../../mew_lab/views/feed/cells.js";

// The standard columns, with the widths of columns.py.
const COLUMNS = [
  { name: "seq", width: 56, narrow: 44, least: 352, align: "right" },
  { name: "time", width: 80, narrow: 72, least: 544, align: "left" },
  { name: "route", width: 196, least: 0, align: "left" },
  { name: "what", width: 0, least: 0, align: "left" },
  { name: "took", width: 76, narrow: 60, least: 400, align: "left" },
];
const names = (columns) => columns.map((one) => one.name);
const row = (more) =>
  Object.assign([9, 0, "bot", "git, files", "mcp/request", "x()", "", 0, "✓ pat", 0, [], "m9", "x", 0], more);

test("a row answers the one that it names first, then the others", () => {
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 0, "", 0]), []);
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 4, "", 0]), [4]);
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 4, "", 0, [2, 7]]), [4, 2, 7]);
});

test("what a message says has at least half of the width, whatever the width", () => {
  for (let room = 320; room <= 2600; room += 1) {
    const fit = fitting(COLUMNS, room);
    const others = fit.list.reduce((sum, column) => sum + fit.width(column), 0);
    assert.ok((room - others) / room >= 0.5, `${room} px: ${room - others}`);
    const route = fit.list.find(({ name }) => name === "route");
    assert.ok(fit.width(route) >= 96, `${room} px: twelve letters of sender and addressees`);
  }
});

test("a number of six digits has room with its sign, and what a message says has two fifths beside it", () => {
  for (let room = 320; room <= 2600; room += 1) {
    const fit = fitting(COLUMNS, room, { longest: "~123456".length }),
      [seq] = fit.list;
    const others = fit.list.reduce((sum, column) => sum + fit.width(column), 0);
    assert.ok(seq.name !== "seq" || fit.width(seq) >= 72, `${room} px: ${fit.width(seq)}`);
    assert.ok((room - others) / room >= 0.4 && fit.least <= room, `${room} px: ${room - others}`);
  }
  assert.equal(fitting(COLUMNS, 360, { longest: 99 }).list.length, 3);
  assert.equal(fitting(COLUMNS, 360, { longest: 99, widths: { seq: 40 } }).width(COLUMNS[0]), 40);
});

test("a column is there from its least width on, and a larger view never shows less", () => {
  assert.deepEqual(names(fitting(COLUMNS, 351).list), ["route", "what"]);
  assert.deepEqual(names(fitting(COLUMNS, 399).list), ["seq", "route", "what"]);
  assert.deepEqual(names(fitting(COLUMNS, 543).list), ["seq", "route", "what", "took"]);
  assert.deepEqual(names(fitting(COLUMNS, 544).list), ["seq", "time", "route", "what", "took"]);
  assert.equal(fitting(COLUMNS, 900).key, fitting(COLUMNS, 1600).key);
  assert.notEqual(fitting(COLUMNS, 543).key, fitting(COLUMNS, 544).key);
});

test("the reader's widths hold, and the table becomes wider than the view where they need it", () => {
  const fit = fitting(COLUMNS, 600, { widths: { route: 500, seq: 40 } });
  assert.deepEqual(fit.list.map(fit.width), [40, 72, 500, 0, 60]);
  assert.equal(fit.least, 40 + 72 + 500 + 144 + 60);
});

test("who says it to whom stands in one column", () => {
  assert.equal(routeText(row({ 3: "" })), "bot");
  assert.equal(routeText(row({ 3: "git" })), "bot → git");
  assert.equal(
    routeText(row(), (name) => (name === "bot" ? "you" : name)),
    "you → git +1",
  );
});

test("the time a call took is told, or that it waits", () => {
  assert.equal(tookText(row()), "");
  assert.equal(tookText(row({ 14: ["waiting", 0, 0] })), "waiting");
  assert.equal(tookText(row({ 14: ["answered", 0.044, 0] })), "44 ms");
  assert.equal(tookText(row({ 14: ["", 0, 1] })), "");
});

test("a denial and an approval stand before the sentence", () => {
  assert.equal(prefixOf(row(), "me"), "");
  assert.equal(prefixOf(row({ 14: ["answered", 1, 1] }), "bot"), "Approved by you");
  assert.equal(prefixOf(row({ 14: ["answered", 1, 1] }), "me"), "Approved");
  assert.equal(prefixOf(row({ 8: "✗ paused", 14: ["answered", 1, 1] }), "bot"), "Denied");
});

test("the flags of a row tell plumbing and failures", () => {
  const told = (flags) => [isPlumbing(row({ 13: flags })), isFailure(row({ 13: flags }))];
  assert.deepEqual([0, 1, 2, 3].map(told), [
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ]);
  assert.deepEqual([isDenied(row()), isDenied(row({ 8: "✗ paused" }))], [false, true]);
});

test("the severity of a finding is set and read, and an error is never hidden as plumbing", () => {
  const one = row({ 13: 3 });
  for (const rank of [1, 4, 0, 2]) {
    setRank(one, rank);
    assert.deepEqual([rankOf(one), isPlumbing(one), isFailure(one)], [rank, rank < 3, true]);
  }
});

test("kept columns of another version give way to the standard ones, and a column stands once", () => {
  const known = [{ name: "seq" }, { name: "what" }];
  assert.deepEqual(readNames(["what", "later", "what"], known, ["seq"]), ["what"]);
  for (const own of [null, [], ["later"]]) assert.deepEqual(readNames(own, known, ["seq"]), ["seq"]);
});

test("kept widths are within the bounds of a drag", () => {
  assert.deepEqual(readWidths({ what: 1e9, from: -5, kind: 120.4, to: "wide", took: null }), {
    what: 800,
    from: 32,
    kind: 120,
  });
  for (const kept of [null, undefined, "wide", 7, []]) assert.deepEqual(readWidths(kept), {});
});
