"""What the programs beside this file share: a lab whose person decides three calls or answers, and the printed outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mew_lab
from mew_lab.lab.tool_approvals import LabToolApprovals

REJECTION = "no, not b"
EDITED = {"path": "edited"}


Decide = Callable[[mew_lab.Lab], Awaitable[Any]]


async def decide_three(lab: mew_lab.Lab) -> list[str]:
    """Approves the call for path a, rejects that for b, approves that for c with other arguments."""
    person, kinds = lab.me.participant, {}
    async with asyncio.timeout(60):
        while len(kinds) < 3:
            for proposal in list(person.proposals):
                call = proposal.envelope.payload["params"]
                path = call["arguments"]["path"]
                if path not in ("a", "b", "c") or path in kinds:
                    continue
                if path == "b":
                    lab.me.run(person.reject(proposal.id, REJECTION))
                else:
                    params = {**call, "arguments": EDITED} if path == "c" else None
                    lab.me.run(person.approve(proposal.id, params=params))
                kinds[path] = {"a": "approved", "b": "rejected", "c": "edited"}[path]
            await asyncio.sleep(0.02)
    return [kinds[path] for path in sorted(kinds)]


def run_in_space(
    agent: Callable[[LabToolApprovals, list[Any]], Awaitable[Any]], decide: Decide = decide_three
) -> None:
    """Runs `agent`, which adds what it executes to the list and returns what the model was told; prints the outcome."""

    async def run() -> dict[str, Any]:
        executed: list[Any] = []
        deciding = asyncio.create_task(decide(lab))
        told = await agent(lab.tool_approvals("agent"), executed)
        return {"executed": executed, "decisions": await deciding, "told": told}

    lab = mew_lab.up("frameworks")
    try:
        print(json.dumps(asyncio.run(run())))
    finally:
        lab.down()
