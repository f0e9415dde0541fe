import assert from "node:assert/strict";
import { test } from "node:test";
import { meet, pieces } from "../../../mew_lab/views/ui/reading.js";

const whole = (text) =>
  pieces(text)
    .map((piece) => piece.text)
    .join("");

test("pieces are the text, a line or two hundred characters each", () => {
  assert.deepEqual(pieces("one\ntwo\n\nfour"), [
    { text: "one\n", lines: 1 },
    { text: "two\n", lines: 1 },
    { text: "\n", lines: 1 },
    { text: "four", lines: 0 },
  ]);
  const long = "x".repeat(450);
  assert.deepEqual(
    pieces(long).map((piece) => piece.text.length),
    [200, 200, 50],
  );
  assert.equal(whole(long), long);
  assert.deepEqual(pieces(""), []);
});

test("no piece ends between the halves of a sign", () => {
  const text = `a${"😀".repeat(300)}`;
  assert.equal(whole(text), text);
  for (const { text: piece } of pieces(text)) assert.ok(piece.isWellFormed?.() ?? encodeURIComponent(piece));
});

test("a great text has at most about eight thousand pieces, and loses nothing", () => {
  for (const text of ["line\n".repeat(100000), "x".repeat(5000000), `${"y".repeat(3000)}\n`.repeat(1000)]) {
    assert.equal(whole(text), text);
    assert.ok(pieces(text).length <= 16001);
    assert.equal(
      pieces(text).reduce((sum, piece) => sum + piece.lines, 0),
      text.split("\n").length - 1,
    );
  }
});

test("two boxes meet where both are", () => {
  const box = (left, top, right, bottom) => ({ left, top, right, bottom });
  assert.deepEqual(meet(box(0, 0, 10, 10), box(5, -5, 20, 8)), box(5, 0, 10, 8));
});
