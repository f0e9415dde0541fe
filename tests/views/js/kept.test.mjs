import assert from "node:assert/strict";
import { test } from "node:test";
import { keptText, tellKept } from "../../../mew_lab/views/ui/kept.js";
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

test("the line of a kept result tells that its time is over when it is, however far that is", (t) => {
  setClockUtc(true);
  const day = 86400;
  for (const expires of [7200, 40 * day]) {
    t.mock.timers.reset();
    t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 0 });
    const about = { textContent: "" };
    const end = tellKept(about, { ...kept, holds: [], expires });
    for (let gone = 0; gone < expires - 1; gone += 600) {
      assert.match(about.textContent, / keeps it until /);
      t.mock.timers.tick(Math.min(600, expires - 1 - gone) * 1000);
    }
    assert.match(about.textContent, / keeps it until /);
    t.mock.timers.tick(1000);
    assert.match(about.textContent, / keeps it, and expired at /);
    end();
  }
});

test("the line of a kept result stays as it is once its view has ended", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: 0 });
  const about = { textContent: "" };
  tellKept(about, kept)();
  t.mock.timers.tick(7200 * 1000);
  assert.match(about.textContent, / keeps it until /);
});
