import assert from "node:assert/strict";
import { test } from "node:test";
import { keptText } from "../../../mew_lab/views/ui/kept.js";
import { setClockUtc } from "../../../mew_lab/views/ui/text.js";

const kept = {
  size: "3.7 MB",
  bytes: 3700000,
  by: "browser",
  holds: ["image (image/png) of 4933336 characters"],
  expires: 7200,
};

test("a kept result is told with its size, its participant, its end and what it holds", () => {
  setClockUtc(true);
  assert.equal(
    keptText(kept, 0),
    "This result has 3.7 MB, too large for a message. browser keeps it until 02:00:00: image (image/png) of 4933336 characters",
  );
  assert.equal(
    keptText({ ...kept, holds: [] }, 7200),
    "This result has 3.7 MB, too large for a message. browser keeps it, and expired at 02:00:00",
  );
  assert.equal(
    keptText({ ...kept, holds: [], expires: null }, 0),
    "This result has 3.7 MB, too large for a message. browser keeps it",
  );
});
