import assert from "node:assert/strict";
import { test } from "node:test";
import {
  amount,
  capitalize,
  clockHover,
  clockTime,
  countOf,
  setClockUtc,
  roundNumber,
  duration,
  groupDigits,
  timeSpan,
  seconds,
  shorten,
  elapsedTime,
} from "../../../mew_lab/views/ui/text.js";

function table(name, run, rows) {
  for (const [given, expected] of rows) test(`${name}(${given})`, () => assert.equal(run(given), expected));
}

table("elapsedTime", elapsedTime, [
  [-3, "0:00"],
  [0, "0:00"],
  [59.9, "0:59"],
  [60, "1:00"],
  [3599, "59:59"],
  [3600, "1:00:00"],
  [90061, "25:01:01"],
]);
table("timeSpan", timeSpan, [
  [-1, "0.0 s"],
  [3.21, "3.2 s"],
  [9.96, "10 s"],
  [41, "41 s"],
  [60, "1:00"],
  [3600, "1:00:00"],
]);
table("duration", duration, [
  [0.0004, "0 ms"],
  [0.25, "250 ms"],
  [0.9996, "1 s"],
  [3.25, "3.3 s"],
  [41.2, "41 s"],
  [120, "2 min"],
  [7200, "2 h"],
  [172800, "2 d"],
]);
table("seconds", seconds, [
  [-1, "0 ms"],
  [0.25, "250 ms"],
  [1.234, "1.23 s"],
  [41.25, "41.3 s"],
  [125, "2:05"],
]);
table("groupDigits", groupDigits, [
  [0, "0"],
  [999, "999"],
  [1000, "1\u202f000"],
  [1234567, "1\u202f234\u202f567"],
]);
table("amount", amount, [
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [20480, "20 KiB"],
  [1048576, "1.0 MiB"],
  [1048576 * 2048, "2\u202f048 MiB"],
]);
table("capitalize", capitalize, [
  ["", ""],
  ["absolute path in a", "Absolute path in a"],
  ["“a” is new", "“a” is new"],
  ["\u0456d", "\u0456d"],
  ["Id", "Id"],
]);
table("roundNumber", roundNumber, [
  [null, "–"],
  [0, "0"],
  [0.12345, "0.1235"],
  [-3, "-3"],
  [12345678, "1.235e+7"],
  [0.0001, "1.000e-4"],
]);

test("a name is shortened in its middle, and no sign is cut in two", () => {
  assert.equal(shorten("abcdef", 6), "abcdef");
  assert.equal(shorten("abcdefg", 5), "ab…fg");
  assert.equal(shorten("😀".repeat(8), 5), "😀😀…😀😀");
  assert.equal(shorten("😀".repeat(5), 5), "😀".repeat(5));
});

test("a count has its noun in the singular or the plural", () => {
  assert.deepEqual(
    [0, 1, 2, 1000].map((n) => countOf(n, "message")),
    ["0 messages", "1 message", "2 messages", "1\u202f000 messages"],
  );
  assert.equal(countOf(2, "reply", "replies"), "2 replies");
});

test("a clock time is in UTC where that is set, and its tooltip always", () => {
  setClockUtc(true);
  assert.equal(clockTime(86399), "23:59:59");
  setClockUtc(false);
  assert.equal(clockHover(86399), "1970-01-01 23:59:59 UTC");
});
