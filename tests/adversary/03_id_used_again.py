"""A person reads a proposal and types its id; meanwhile its proposer has put another one under the same id."""

from __future__ import annotations

import asyncio
from typing import Any

from attempts import Raw, settle, until, verdict

import mew_lab
from mew_lab.errors import MewError


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def first(url: str, token: str) -> Raw:
    bot = await Raw(url, "demo", token).open()
    await bot.send("mcp/proposal", call("git_log", {"repo": "."}), to=["shell"], id="p-1")
    await bot.drain()
    return bot


async def second(bot: Raw, url: str, token: str, withdraw: bool) -> None:
    if withdraw:
        await bot.send("mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=["p-1"])
        await bot.drain()
    await bot.close()
    bot = await Raw(url, "demo", token).open()
    await bot.send("mcp/proposal", call("rm", {"path": "~"}), to=["shell"], id="p-1")
    await bot.drain()
    await bot.close()


def attempt(withdraw: bool) -> None:
    lab = mew_lab.up("demo")
    tool = lab.join("shell", can="tool")
    got: list[str] = []
    tool.participant.client.on_message(
        lambda one: got.append(one.payload["params"]["name"]) if one.kind == "mcp/request" else None
    )
    lab.enrol("bot", can="proposer")
    token = lab.token_file("bot").read_text().strip()
    loop = asyncio.new_event_loop()
    bot = loop.run_until_complete(first(lab.url, token))
    until("the person reads the first", lambda: "git_log" in str(lab.proposals()))
    shown = lab.decisions.card("p-1").digest
    loop.run_until_complete(second(bot, lab.url, token, withdraw))
    until("the second stands under the id", lambda: lab.decisions.card("p-1").digest != shown)
    try:
        said = str(lab.approve("p-1"))
    except MewError as fault:
        said = f"refused: {str(fault).splitlines()[0]}"
    settle(lab, tool)
    how = "withdrawn" if withdraw else "open"
    verdict(f"{how} first: approve(id) does not send what was not read", not got, f"{said}; sent: {got}")
    loop.close()
    lab.down()


for withdraw in (False, True):
    attempt(withdraw)
