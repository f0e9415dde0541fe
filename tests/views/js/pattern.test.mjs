import assert from "node:assert/strict";
import { test } from "node:test";
import { LIMITS, composePattern, readLimit } from "../../../mew_lab/views/grants/pattern.js";

const call = (params) => ({ kind: "mcp/request", payload: { method: "tools/call", ...(params ? { params } : {}) } });

for (const [tool, fixed, pattern] of [
  ["git/git_log", "", { ...call({ name: "git_log" }), to: "git" }],
  ["git_log", "", call({ name: "git_log" })],
  ["git/*", "", { ...call(), to: "git" }],
  ["*/git_log", "", call({ name: "git_log" })],
  ["", "", call()],
  ["a/b/c", "", { ...call({ name: "b/c" }), to: "a" }],
  ["git/git_log", '{"repo_path": "."}', { ...call({ name: "git_log", arguments: { repo_path: "." } }), to: "git" }],
  ["git/git_log", "{}", { ...call({ name: "git_log" }), to: "git" }],
]) test(`“${tool}” with ${fixed || "any arguments"}`, () => assert.deepEqual(composePattern("tools/call", tool, fixed).pattern, pattern));

test("arguments that are no object are a fault, and never a wider pattern", () => {
  for (const fixed of ["{", "3", "[]", "null", '"x"']) {
    const { pattern, fault } = composePattern("tools/call", "git/git_log", fixed);
    assert.equal(pattern, undefined);
    assert.match(fault, /such as/);
  }
});

test("other methods name the participant alone", () => {
  assert.deepEqual(composePattern("resources/read", "docs/").pattern, { kind: "mcp/request", payload: { method: "resources/read" }, to: "docs" });
});

test("each limit is one of minutes, uses, the session, or none", () => {
  const read = Object.fromEntries(LIMITS.map(([value]) => [value, readLimit(value)]));
  assert.deepEqual(read.u10, { minutes: null, uses: 10, session: false });
  assert.deepEqual(read.m30, { minutes: 30, uses: null, session: false });
  assert.deepEqual(read.session, { minutes: null, uses: null, session: true });
  assert.deepEqual(read[""], { minutes: null, uses: null, session: false });
});
