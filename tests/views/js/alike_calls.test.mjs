import assert from "node:assert/strict";
import { test } from "node:test";
import { findAlike, isUnseen, isWhole } from "../../../mew_lab/views/approvals/groups.js";

function cardOf(name, more = {}) {
  const face = {};
  const data = { state: "open", shape: "water", warnings: [], file: null, permission: null, ...more };
  return { name, data, face, front: face, group: null };
}

function tableOf(cards, more = {}) {
  const group = { face: { card: {} }, rows: new Map(), ...more };
  for (const card of cards) {
    card.group = group;
    group.rows.set(card, { tick: { checked: true } });
  }
  return group;
}

const namesOf = (found) => found.map(([, members]) => members.map((card) => card.name).join(""));

test("three alike are found, not two, and not what has a warning, a file or options", () => {
  const [a, b, c] = [..."abc"].map((name) => cardOf(name));
  assert.deepEqual(namesOf(findAlike([a, b], isWhole)), []);
  assert.deepEqual(namesOf(findAlike([a, b, c], isWhole)), ["abc"]);
  for (const more of [
    { warnings: ["!"] },
    { file: {} },
    { permission: {} },
    { shape: "dig" },
    { state: "rejected" },
  ])
    assert.deepEqual(namesOf(findAlike([a, b, c, cardOf("d", more)], isWhole)), ["abc"]);
});

test("what came later is found together with the rows of a table that may give them up", () => {
  const cards = [..."abcd"].map((name) => cardOf(name)),
    table = tableOf(cards.slice(0, 3));
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), ["abcd"]);
  assert.deepEqual(namesOf(findAlike(cards, isUnseen)), ["abcd"]);
  assert.deepEqual(namesOf(findAlike(cards.slice(0, 3), isWhole)), [], "they stand together already");
  cards[0].seen = true;
  assert.deepEqual(namesOf(findAlike(cards, isUnseen)), [], "nothing that was seen moves by itself");
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), ["abcd"], "on request it does");
  table.rows.get(cards[1]).tick.checked = false;
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), [], "a row that was unticked is not ticked again");
});

test("two tables of one shape are found as one, but for one in which something was decided or asked", () => {
  const cards = [..."abcdef"].map((name) => cardOf(name)),
    first = tableOf(cards.slice(0, 3));
  tableOf(cards.slice(3));
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), ["abcdef"]);
  first.face.asked = true;
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), []);
  first.face.asked = false;
  cards[0].data.state = "approved";
  assert.deepEqual(namesOf(findAlike(cards, isWhole)), []);
});
