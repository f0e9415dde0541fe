"""A target or a decider in a process of its own, to be killed.

The target is the witness: before and after each effect it writes the request that it executes to the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from pathlib import Path
from typing import Any

from mew_lab.errors import ConnectionLost
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.decisions import draft_fulfilment
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import ToolBox

PATIENT: dict[str, Any] = {
    "max_reconnect_attempts": 1000,
    "wait": lambda seconds: asyncio.sleep(min(seconds, 0.05)),
}
"""Options of a client that comes back soon after its gateway does."""


def tools(folder: Path) -> ToolBox:
    """Pushes, and writes down which request is being executed and which one was."""
    truth = os.open(folder / "truth", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    box = ToolBox(name="git")

    def write(what: str, n: int) -> None:
        request = ASKED.get()
        os.write(truth, f"{what} {request.id} {n}\n".encode())
        os.fsync(truth)

    @box.add
    async def push(n: int) -> str:
        write("begin", n)
        await asyncio.sleep(0.005 * (n % 5))
        write("end", n)
        if n % 7 == 3:
            raise ValueError(f"no branch {n}")
        return f"pushed {n}"

    return box


async def decide(participant: MEWParticipant, dice: random.Random) -> None:
    """Approves what it sees, and again what it has seen before, unless that was withdrawn."""
    seen: list[Proposal] = []

    def approve(known: Proposal) -> None:
        now = participant.proposals.get(known.id)
        if now is not None and now.entry is known.entry and now.state == "withdrawn":
            return
        with contextlib.suppress(ConnectionLost):
            participant.client.post(draft_fulfilment(known, id=participant.client.new_id()))

    def note(envelope: Envelope) -> None:
        known = participant.proposals.get(envelope.id)
        assert known is not None
        seen.append(known)
        if dice.random() < 0.8:
            asyncio.get_running_loop().call_later(dice.choice([0, 0.01, 0.05]), approve, known)

    participant.on_mcp_proposal(note)
    while True:
        await asyncio.sleep(dice.choice([0.01, 0.05]))
        if seen:
            approve(dice.choice(seen[-20:]))


async def run(role: str, url: str, token: str, folder: Path, seed: int) -> None:
    client = MEWClient(url, space="demo", token=token, **PATIENT)
    box = tools(folder) if role == "target" else None
    async with MEWParticipant(client, tools=box, state=lambda: folder / "state") as participant:
        print("ready", flush=True)
        if role == "target":
            await asyncio.Event().wait()
        await decide(participant, random.Random(seed))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5])))
