import assert from "node:assert/strict";
import { test } from "node:test";
import { describePast, describeReasons } from "../../../mew_lab/views/approvals/cards.js";

test("each reason for a rejection tells its meaning; other words are asked for apart", () => {
  const reasons = describeReasons([
    ["unsafe", "could cause harm"],
    ["no_longer_needed", "not needed any more"],
    ["other", "another reason"],
  ]);
  assert.deepEqual(reasons, [
    { code: "unsafe", text: "Unsafe", about: "could cause harm" },
    { code: "no_longer_needed", text: "No longer needed", about: "not needed any more" },
  ]);
});

test("a decided card tells to whom it went, and the digest of what was decided", () => {
  const digest = "0123abcd".repeat(8);
  assert.equal(
    describePast({ proposer: "bot", to: ["git"], tool: "git_log", method: "tools/call", digest }),
    `bot wants to run git_log on git\nDigest: sha-256 ${digest}`,
  );
});
