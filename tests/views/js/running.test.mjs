import assert from "node:assert/strict";
import { test } from "node:test";
import { runningText } from "../../../mew_lab/views/approvals/running.js";

test("a call that runs is told with its seconds and its progress", () => {
  const call = { id: "r", text: "git/push", since: 100, progress: "2 of 4 · downloading", cancel: true };
  assert.equal(runningText(call, 103.9), "git/push runs, 0:03 · 2 of 4 · downloading");
  assert.equal(runningText({ ...call, progress: "" }, 165), "git/push runs, 1:05");
});
