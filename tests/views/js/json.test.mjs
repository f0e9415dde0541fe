// RFC 8259, and what a person's text must not lose on its way: digits, order, names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSON_NUMBER, JsonNumber, readJson, writeJson } from "../../../mew_lab/views/ui/json.js";

test("a number stays the text that it was", () => {
  for (const text of ["12345678901234567890", "0.10", "1e400", "-0", "1E+2"]) {
    assert.ok(readJson(text) instanceof JsonNumber);
    assert.equal(writeJson(readJson(`[${text}]`)), `[${text}]`);
  }
});

test("a name may be anything, and members keep their order", () => {
  const text = '{"__proto__": 1, "constructor": {"b": null, "a": [true, false]}, "": "x"}',
    value = readJson(text);
  assert.deepEqual([...value.keys()], ["__proto__", "constructor", ""]);
  assert.equal({}.polluted, undefined);
  assert.equal(writeJson(value), text);
});

test("indented text says the same", () => {
  const value = readJson('{"a":[1,{"b":"c"}],"d":{},"e":[]}');
  assert.equal(
    writeJson(value, "  "),
    '{\n  "a": [\n    1,\n    {\n      "b": "c"\n    }\n  ],\n  "d": {},\n  "e": []\n}',
  );
  assert.equal(writeJson(readJson(writeJson(value, "  "))), writeJson(value));
});

test("a string has its escapes read and written", () => {
  assert.equal(readJson('"\\u00e9\\n\\"\\ud83d\\ude00"'), 'é\n"😀');
  assert.equal(writeJson('\u0000"\\'), '"\\u0000\\"\\\\"');
});

for (const [text, fault] of [
  ["", "the JSON ends too early"],
  ["[1", "the JSON ends too early"],
  ["[1 2]", "a comma is missing between two items of an array"],
  ["[1,]", "a value was expected, not ]"],
  ["{a: 1}", "no JSON at “a: 1}” (character 2)"],
  ["{1: 2}", "the name of a member needs double quotes"],
  ['{"a" 1}', "a colon is missing between a name and its value"],
  ['{"a": 1 "b": 2}', "a comma is missing between two members of an object"],
  ['{"a": 1, "a": 2}', 'the name "a" is given twice'],
  ["1 2", "more follows after the value: “2”"],
  ["01", "more follows after the value: “1”"],
  ["nulls", "no JSON at “nulls” (character 1)"],
  ["NaN", "no JSON at “NaN” (character 1)"],
  ['"a\nb"', "no JSON at"],
  ['"\\x"', "no JSON string"],
  ["'a'", "no JSON at"],
])
  test(`${JSON.stringify(text)} is refused`, () =>
    assert.throws(
      () => readJson(text),
      (error) => error.message.includes(fault),
    ));

test("what is nested without end is refused before the stack is", () => {
  assert.throws(() => readJson("[".repeat(100000)), /nested more than 60 levels deep/);
  readJson("[".repeat(60) + "]".repeat(60));
});

test("a number is a number of JSON", () => {
  for (const text of ["0", "-1.5", "1e9"]) assert.ok(JSON_NUMBER.test(text));
  for (const text of ["", "01", "1.", ".5", "+1", "0x1", "1 ", "Infinity"])
    assert.ok(!JSON_NUMBER.test(text));
});
