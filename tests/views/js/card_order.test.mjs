import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseFull, placeEntries, sortEntries } from "../../../mew_lab/views/approvals/order.js";

const entry = (name, warnings, seq, brief) => ({ name, warnings, seq, brief });
const names = (entries) => [...entries].map((one) => one.name).join("");

test("what has warnings comes first, then what waits longest", () => {
  assert.equal(
    names(sortEntries([entry("a", 0, 1), entry("b", 1, 4), entry("c", 2, 5), entry("d", 1, 3)])),
    "cdba",
  );
});

test("what is held keeps its place, and with it all above", () => {
  assert.deepEqual(placeEntries(["a", "b", "c"], ["n", "a", "b", "c"], null), ["n", "a", "b", "c"]);
  assert.deepEqual(placeEntries(["a", "b", "c"], ["n", "a", "b", "c"], "b"), ["a", "b", "n", "c"]);
  assert.deepEqual(placeEntries(["a", "done", "b"], ["n", "a", "b"], "b"), ["a", "done", "b", "n"]);
});

test("a few are shown in full, of many the first, what was opened, and what has warnings", () => {
  const few = [entry("a", 0, 1), entry("b", 0, 2, true), entry("c", 0, 3)];
  assert.equal(names(chooseFull(few)), "abc");
  assert.equal(
    names(chooseFull(few, (one) => one.name !== "b")),
    "ac",
    "what would push a held card stays small",
  );
  const many = [..."abcdef"].map((name, n) => entry(name, 0, n));
  assert.equal(names(chooseFull(many)), "a");
  assert.equal(
    names(chooseFull([entry("z", 3, 9), ...many.map((one) => ({ ...one, brief: one.name !== "d" }))])),
    "zd",
    "no second one without a warning opens by itself",
  );
  const warned = many.map((one) => ({ ...one, warnings: 1 }));
  assert.equal(names(chooseFull([...warned, entry("g", 0, 7)])), "abcdef");
  assert.equal(
    names(
      chooseFull(
        warned.map((one) => ({ ...one, brief: true })),
        (one) => one.name > "c",
      ),
    ),
    "def",
    "what would push a held card stays small",
  );
  assert.equal(chooseFull([..."0123456789abcdef"].map((name, n) => entry(name, 1, n))).size, 12);
  assert.equal(names(chooseFull([])), "");
});
