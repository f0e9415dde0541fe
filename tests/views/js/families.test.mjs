import assert from "node:assert/strict";
import { test } from "node:test";
import { family, glyphOf } from "../../../mew_lab/views/ui/families.js";

for (const [kind, glyph] of [
  ["chat", "CH"], ["chat/acknowledge", "CH"], ["mcp/request", "MC"], ["mcp/response", "MC"], ["mcp/proposal", "PR"], ["mcp/reject", "ER"],
  ["mcp/withdraw", "ER"], ["system/error", "ER"], ["reasoning/thought", "RE"], ["capability/grant", "CA"], ["space/invite", "CA"],
  ["participant/pause", "PA"], ["stream/open", "ST"], ["system/presence", "SY"], ["x/unheard-of", "SY"], ["", "SY"],
]) test(`“${kind}” is of the family ${glyph}`, () => assert.equal(family(kind).glyph, glyph));

test("a family that nobody knows has the glyph of the system", () => assert.equal(glyphOf("constructor"), "SY"));
