import assert from "node:assert/strict";
import { test } from "node:test";
import { family, familyLabel } from "../../../mew_lab/views/ui/families.js";

for (const [kind, label] of [
  ["chat", "Chat"],
  ["chat/acknowledge", "Chat"],
  ["mcp/request", "Call"],
  ["mcp/response", "Call"],
  ["mcp/proposal", "Proposal"],
  ["mcp/reject", "Error"],
  ["mcp/withdraw", "Error"],
  ["system/error", "Error"],
  ["reasoning/thought", "Reasoning"],
  ["capability/grant", "Permission"],
  ["space/invite", "Permission"],
  ["participant/pause", "Status"],
  ["stream/open", "Stream"],
  ["system/presence", "System"],
  ["x/unheard-of", "System"],
  ["", "System"],
])
  test(`“${kind}” is of the family ${label}`, () => assert.equal(family(kind).label, label));

test("a family that nobody knows has the label of the system", () =>
  assert.equal(familyLabel("constructor"), "System"));
