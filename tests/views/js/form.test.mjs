import assert from "node:assert/strict";
import { test } from "node:test";
import { formFitting, formHolds, formKindWord, formSettlesItself } from "../../../mew_lab/views/ui/form.js";
import { readJson } from "../../../mew_lab/views/ui/json.js";

const holds = (plan, text) => formHolds(plan, readJson(text));

test("a field holds values of its kind and no others", () => {
  const values = {
    string: '"a"',
    number: "1.5",
    integer: "1",
    boolean: "true",
    null: "null",
    array: "[1]",
    object: '{"a": 1}',
  };
  for (const kind of Object.keys(values))
    for (const [other, text] of Object.entries(values)) {
      const both = [kind, other].every((one) => one === "number" || one === "integer");
      assert.equal(holds({ kind }, text), kind === other || both, `${kind} and ${text}`);
    }
  for (const text of Object.values(values)) assert.ok(holds({ kind: "json" }, text));
});

test("a constant and a choice hold what says the same, whatever blanks it was written with", () => {
  assert.ok(holds({ kind: "constant", value: '{"a":[1]}' }, '{ "a": [ 1 ] }'));
  assert.ok(!holds({ kind: "constant", value: "1" }, "1.0"));
  assert.ok(
    holds(
      {
        kind: "choice",
        options: [
          ["one", "1"],
          ["two", '"2"'],
        ],
      },
      '"2"',
    ),
  );
  assert.ok(!holds({ kind: "choice", options: [["one", "1"]] }, "2"));
});

test("a list of more than 200 is no list of fields", () => {
  const list = (n) => `[${Array(n).fill("1").join(",")}]`;
  assert.ok(holds({ kind: "array" }, list(200)));
  assert.ok(!holds({ kind: "array" }, list(201)));
});

test("of several forms the one that names most of the members is taken", () => {
  const string = (key) => ({ kind: "string", key });
  const plan = {
    kind: "variants",
    variants: [
      { kind: "json" },
      { kind: "object", members: [string("a")] },
      { kind: "object", members: [string("a"), string("b")] },
      { kind: "string" },
    ],
  };
  assert.equal(formFitting(plan, readJson('{"a": "x", "b": "y"}')), 2);
  assert.equal(formFitting(plan, readJson('"x"')), 3);
  assert.equal(formFitting(plan, readJson("[1]")), 0);
  assert.equal(formFitting({ kind: "variants", variants: [{ kind: "string" }] }, readJson("1")), -1);
});

test("a kind is told in words", () => {
  assert.equal(
    formKindWord({ kind: "array", items: { kind: "array", items: { kind: "integer" } } }),
    "list of list of whole number",
  );
  assert.equal(formKindWord({ kind: "array", items: { kind: "json" } }), "list of anything");
  assert.equal(formKindWord({ kind: "string", format: "date" }), "date");
  assert.equal(formKindWord({ kind: "string" }), "text");
  assert.equal(formKindWord({ kind: "boolean" }), "boolean");
});

test("a form settles itself where it has a fixed value without anybody", () => {
  const fixed = { kind: "constant", key: "kind", required: true, value: '"a"' };
  assert.ok(formSettlesItself(fixed));
  assert.ok(formSettlesItself({ kind: "null" }));
  assert.ok(formSettlesItself({ kind: "object", members: [{ kind: "string", required: true }, fixed] }));
  assert.ok(!formSettlesItself({ kind: "object", members: [{ ...fixed, required: false }] }));
  assert.ok(!formSettlesItself({ kind: "object", members: [] }));
  for (const kind of ["string", "choice", "variants", "array", "json"])
    assert.ok(!formSettlesItself({ kind }), kind);
});
