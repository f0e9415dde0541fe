import assert from "node:assert/strict";
import { test } from "node:test";
import { describeState, initials, isMoving } from "../../../mew_lab/views/roster/person.js";

for (const [name, letters] of [
  ["git", "git"],
  ["clock", "clc"],
  ["helper", "hlp"],
  ["bot", "bot"],
  ["weather-service", "ws"],
  ["a.b_c-d", "abc"],
  ["notebook", "ntb"],
  ["aeiou", "aei"],
  ["\u202e\u202e", "?"],
  ["", "?"],
  ["x1", "x1"],
  ["agent-07", "a07"],
  ["agent-137", "a37"],
  ["weather-service-2", "ws2"],
  ["bot12", "b12"],
  ["2024", "24"],
  ["worker-07-of-the-second-shift", "w07"],
])
  test(`“${name}” has the letters ${letters}`, () => assert.equal(initials(name), letters));

test("the reader's own avatar says so", () => assert.equal(initials("human", true), "YOU"));

const row = (more) => ({ presence: "here", since: 100, paused: null, doing: ["idle", 0, ""], ...more });

test("a state is told in words, with a tone", () => {
  const cases = [
    [{}, "idle", ""],
    [{ doing: ["thinking", 988, ""] }, "thinking 12 s", "think"],
    [{ doing: ["thinking", 999.9, ""] }, "thinking 1 s", "think"],
    [{ doing: ["waiting", 900, "git_log"] }, "waiting for you", "wait"],
    [{ doing: ["failed", 900, "water: error"] }, "failed: water: error", "bad"],
    [{ presence: "left" }, "left", ""],
    [{ presence: "removed", doing: ["thinking", 1, ""] }, "removed", "bad"],
    [{ presence: "invited" }, "invited", ""],
    [
      { presence: "paused", paused: { by: "human", reason: "lunch", since: 1, until: null } },
      "paused",
      "wait",
    ],
  ];
  for (const [more, text, tone] of cases) {
    const state = describeState(row(more), 1000);
    assert.deepEqual([state.text, state.tone], [text, tone]);
  }
});

test("a pause says until when, by whom and why", () => {
  const state = describeState(
    row({ presence: "paused", paused: { by: "human", reason: "lunch", since: 1, until: 1000 } }),
    10,
  );
  assert.match(state.text, /^paused until \d\d:\d\d$/);
  assert.equal(state.hover, "paused by human: lunch");
});

test("who is here tells since when, whatever it does", () => {
  for (const doing of [
    ["idle", 0, ""],
    ["thinking", 1, ""],
    ["waiting", 1, "git_log"],
    ["failed", 1, "water: error"],
  ])
    assert.match(describeState(row({ doing }), 1000).hover, /(^|\n)Here since \d\d:\d\d:\d\d\.$/);
  assert.equal(describeState(row({ since: null }), 1000).hover, "");
});

test("only a thought moves on by itself", () => {
  assert.equal(isMoving(row({ doing: ["thinking", 1, ""] })), true);
  assert.equal(isMoving(row({ doing: ["waiting", 1, ""] })), false);
  assert.equal(isMoving(row({ presence: "left", doing: ["thinking", 1, ""] })), false);
});
