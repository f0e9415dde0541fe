"""A token's holder chooses the id under which a connection appears: the card must name the participant beside it."""

from __future__ import annotations

import asyncio
import json

from attempts import Raw, reached, until, verdict

import mew_lab
from mew_lab.views.approvals.model import card_data

CHOSEN = "human-reviewed-by-security"
lab = mew_lab.up("demo")
lab.enrol("bot", can="proposer")
token = lab.token_file("bot").read_text().strip()
lab.join("shell", can="tool")


async def main() -> None:
    bot = await Raw(lab.url, "demo", token, CHOSEN).open()
    payload = {"method": "tools/call", "params": {"name": "rm", "arguments": {"path": "x"}}}
    await bot.send("mcp/proposal", payload, to=["shell"], id="p-1")
    await bot.drain(0.2)
    await bot.close()


asyncio.run(main())
until("the card", lab.decisions.pending)
card = lab.decisions.pending()[0]
reached("the proposal came under the chosen id", card.proposer == CHOSEN)
view = card_data(card)
for name, text in (
    ("the card", json.dumps([view[key] for key in ("proposer", "to", "warnings", "why")])),
    ("the title", card.request),
    ("the listing", str(lab.proposals())),
):
    verdict(
        f"{name} names the participant beside the id that it chose", "participant bot" in text, text[:120]
    )
lab.down()
