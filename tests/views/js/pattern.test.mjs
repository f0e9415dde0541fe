import assert from "node:assert/strict";
import { test } from "node:test";
import { LIMITS, composePattern, readLimit, suggestTools } from "../../../mew_lab/views/grants/pattern.js";

const call = (params) => ({
  kind: "mcp/request",
  payload: { method: "tools/call", ...(params ? { params } : {}) },
});

for (const [tool, fixed, pattern] of [
  ["git/git_log", "", { ...call({ name: "git_log" }), to: "git" }],
  ["git_log", "", call({ name: "git_log" })],
  ["git/*", "", { ...call(), to: "git" }],
  ["*/git_log", "", call({ name: "git_log" })],
  ["", "", call()],
  ["a/b/c", "", { ...call({ name: "b/c" }), to: "a" }],
  [
    "git/git_log",
    '{"repo_path": "."}',
    { ...call({ name: "git_log", arguments: { repo_path: "." } }), to: "git" },
  ],
  ["git/git_log", "{}", { ...call({ name: "git_log" }), to: "git" }],
])
  test(`“${tool}” with ${fixed || "any arguments"}`, () =>
    assert.deepEqual(composePattern("tools/call", tool, fixed).pattern, pattern));

test("these arguments only is a closed pattern, and needs a tool", () => {
  const only = (tool, fixed) => composePattern("tools/call", tool, fixed, true);
  assert.deepEqual(only("git/git_log", '{"repo_path": "."}').pattern, {
    ...call({ name: "git_log", arguments: { repo_path: "." } }),
    to: "git",
    "x-closed": true,
  });
  assert.deepEqual(only("now", "").pattern, { ...call({ name: "now" }), "x-closed": true });
  for (const tool of ["", "git/", "git/*"]) assert.match(only(tool, "").fault, /Pick one tool/);
  assert.equal("x-closed" in composePattern("tools/list", "", "", true).pattern, false);
});

test("arguments that are no object are a fault, and never a wider pattern", () => {
  for (const fixed of ["{", "3", "[]", "null", '"x"']) {
    const { pattern, fault } = composePattern("tools/call", "git/git_log", fixed);
    assert.equal(pattern, undefined);
    assert.match(fault, /such as/);
  }
});

test("other methods name the participant alone", () => {
  assert.deepEqual(composePattern("resources/read", "docs/").pattern, {
    kind: "mcp/request",
    payload: { method: "resources/read" },
    to: "docs",
  });
});

test("each participant is suggested, for any of its tools", () => {
  const suggested = suggestTools(
    [["git", "git_log", "git/git_log"]],
    [
      ["git", "git"],
      ["docs", "docs"],
    ],
  );
  assert.deepEqual(
    suggested.map(([value]) => value),
    ["git/git_log", "git/", "docs/"],
  );
  assert.equal(suggested[2][1], "any of docs");
  assert.deepEqual(composePattern("tools/call", "docs/").pattern, { ...call(), to: "docs" });
});

test("each limit is one of minutes, uses, the session, or none", () => {
  const read = Object.fromEntries(LIMITS.map(([value]) => [value, readLimit(value)]));
  assert.deepEqual(read.u10, { minutes: null, uses: 10, session: false });
  assert.deepEqual(read.m30, { minutes: 30, uses: null, session: false });
  assert.deepEqual(read.session, { minutes: null, uses: null, session: true });
  assert.deepEqual(read[""], { minutes: null, uses: null, session: false });
});

test("a number that the page would change is a fault, and one that it keeps is granted", () => {
  for (const fixed of [
    '{"id": 12345678901234567890}',
    '{"a": {"b": [1, 0.12345678901234567890]}}',
    '{"a": 1e999}',
  ])
    assert.match(composePattern("tools/call", "git/x", fixed).fault ?? "", /too many digits/);
  for (const fixed of ['{"id": 9007199254740991}', '{"a": -0.25, "b": [1e3]}'])
    assert.deepEqual(
      composePattern("tools/call", "git/x", fixed).pattern.payload.params.arguments,
      JSON.parse(fixed),
    );
});

test("a name that is given twice is a fault", () =>
  assert.ok(composePattern("tools/call", "git/x", '{"a": 1, "a": 2}').fault));
