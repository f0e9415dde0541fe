import assert from "node:assert/strict";
import { test } from "node:test";
import { answersOf, fitting } from "../../../mew_lab/views/feed/cells.js";

const COLUMNS = [
  { name: "seq", width: 44, narrow: 30, least: 0, align: "left" },
  { name: "kind", width: 100, least: 0, align: "left", code: true },
  { name: "size", width: 60, least: 800, align: "right" },
  { name: "what", width: 0, least: 0, align: "left" },
];
const names = (columns) => columns.map((one) => one.name);

test("a row answers the one that it names first, then the others", () => {
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 0, "", 0]), []);
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 4, "", 0]), [4]);
  assert.deepEqual(answersOf([9, 0, "a", "b", "chat", "", "", 4, "", 0, [2, 7]]), [4, 2, 7]);
});

test("a column is there from its least width on, and its own width grows with the room", () => {
  assert.deepEqual(names(fitting(COLUMNS, 799).list), ["seq", "kind", "what"]);
  assert.deepEqual(names(fitting(COLUMNS, 800).list), ["seq", "kind", "size", "what"]);
  assert.equal(fitting(COLUMNS, 799).least, 30 + 100 + 120);
  assert.equal(fitting(COLUMNS, 900).least, 44 + 100 + 60 + 120);
  assert.equal(fitting(COLUMNS, 1100).least, 44 + 140 + 60 + 120);
});

test("what is too narrow for a word is known, and the choice has a key of its own", () => {
  assert.deepEqual([...fitting(COLUMNS, 1000).tight], ["seq"]);
  assert.equal(fitting(COLUMNS, 900).key, fitting(COLUMNS, 1000).key);
  assert.equal(new Set([700, 850, 900, 1100].map((room) => fitting(COLUMNS, room).key)).size, 4);
});
