"""A token's holder appears under any number of names, and takes those of participants that are still to come.

Promised: a runtime id that nobody has now is free for who is enrolled or invited under that name.
"""

from __future__ import annotations

import asyncio
from typing import Any

from attempts import Raw, reached, until, verdict

import mew_lab
from mew_lab.errors import MewError

NAMES = ["git", "agent", "helper", "mcp", "files", *(f"n{n}" for n in range(40))]


async def take(url: str, token: str) -> Raw:
    """Takes every name in turn, and stays under one."""
    for name in NAMES:
        taken = await Raw(url, "demo", token, name).open()
        reached(f"bot appeared as {name}", taken.me == name)
        await taken.close()
    return await Raw(url, "demo", token, "kept").open()


def enrolled(lab: Any, name: str) -> bool:
    try:
        lab.enrol(name, can="tool")
    except MewError:
        return False
    return True


def main() -> None:
    lab = mew_lab.up("demo")
    lab.enrol("bot", can="proposer")
    token = lab.token_file("bot").read_text().strip()

    async def attempt() -> None:
        await take(lab.url, token)
        left = lambda: NAMES[-1] not in str(lab.who())  # noqa: E731
        await asyncio.to_thread(until, "the names are left", left)
        blocked = [name for name in NAMES if not await asyncio.to_thread(enrolled, lab, name)]
        verdict(
            "names that bot used once are free for who is enrolled", not blocked, f"blocked: {blocked[:5]}"
        )
        live = await asyncio.to_thread(enrolled, lab, "kept")
        verdict("a name that bot has now is not taken from it", not live)
        thief = Raw(lab.url, "demo", token, "git")
        try:
            await thief.open()
            stolen = True
        except Exception:  # refused with 4409, before any welcome
            stolen = False
        verdict("bot gets no name back that is somebody else's now", not stolen)

    asyncio.run(attempt())
    lab.down()


main()
