import assert from "node:assert/strict";
import { test } from "node:test";
import { indent } from "../../../mew_lab/views/streams/bytes.js";

test("JSON is indented without being read: escapes stay as they are", () => {
  assert.equal(indent('{"a": [1, 2], "b": {}}'), '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}');
  assert.equal(indent('"{\\"[,\\u202e"'), '"{\\"[,\\u202e"');
});

test("what is no JSON comes through whole, however deep it seems", () => {
  const text = ']]]}{{["';
  assert.equal(indent(text).replace(/\s/g, ""), text);
  assert.ok(indent("[".repeat(2000)).length < 2000 * 85);
});
