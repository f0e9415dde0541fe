import assert from "node:assert/strict";
import { test } from "node:test";
import { progressShare, progressText } from "../../../mew_lab/views/tools/progress.js";

test("progress is told as an amount, a share and the text of the participant", () => {
  assert.equal(progressText([3, 10, "reading"]), "3 of 10 (30 %) · reading");
  assert.equal(progressText([0.5, 2, ""]), "0.5 of 2 (25 %)");
  assert.equal(progressText([7, null, ""]), "7");
  assert.equal(progressText([7, null, "files"]), "7 · files");
});

test("a share is never more than all of it, and unknown without a total", () => {
  assert.equal(progressShare([30, 10]), 1);
  assert.equal(progressShare([0, 10]), 0);
  assert.equal(progressShare([1, null]), null);
  assert.equal(progressShare([1, 0]), null);
});
