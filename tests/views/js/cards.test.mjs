import assert from "node:assert/strict";
import { test } from "node:test";
import { describeHistory, describeRange } from "../../../mew_lab/views/approvals/groups.js";
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

test("what differs in a table is told by its range, or by the number of its values", () => {
  const values = (...texts) => texts.map((text) => ({ name: "litres", text, key: text }));
  assert.equal(describeRange(values("10", "43", "9.5")), "litres 9.5 – 43");
  assert.equal(describeRange(values("-1", "0")), "litres -1 – 0");
  assert.equal(describeRange(values('"a"', '"b"', '"a"')), "litres: 2 values");
  assert.equal(describeRange(values("1", "null", "1")), "litres: 2 values");
  // Numbers that a page would round are values.
  assert.equal(describeRange(values("12345678901234567890", "1")), "litres: 2 values");
});

test("the history of a table is one line, of each proposer, and tells not which card lacks its own", () => {
  const like = "like this: 11 approved, 1 rejected, last on Tuesday";
  assert.equal(
    describeHistory([
      { proposer: "bot", history: "" },
      { proposer: "bot", history: like },
    ]),
    like,
  );
  assert.equal(
    describeHistory([
      { proposer: "bot", history: like },
      { proposer: "bot", history: "" },
    ]),
    like,
  );
  assert.equal(
    describeHistory([
      { proposer: "bot", history: like },
      { proposer: "ada", history: "" },
    ]),
    "",
  );
  assert.equal(describeHistory([{ proposer: "bot" }]), "");
  const each = ["a", "b", "c", "d"].map((proposer) => ({ proposer, history: like }));
  assert.equal(describeHistory(each), `a, ${like}; b, ${like}; and 2 more participants`);
});
