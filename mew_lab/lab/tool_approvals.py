"""`lab.tool_approvals()`: the pending calls of an agent framework as cards of this lab, decided on any event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mew_lab.bridge.tool_approvals import ToolApprovals, ToolDecision
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.seat import Seat

__all__ = ["LabToolApprovals"]


class LabToolApprovals:
    """Decides the pending calls of a framework that runs on the caller's event loop, such as that of a notebook.

    `proposer` and `host` are the two seats; leave with their `leave()`.
    """

    def __init__(self, proposer: Seat, host: Seat, loop: LoopThread) -> None:
        self.proposer = proposer
        self.host = host
        self._loop = loop
        self._approvals = ToolApprovals(proposer.participant, host.participant)

    async def decide(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        description: str = "",
        schema: Mapping[str, Any] | None = None,
    ) -> ToolDecision:
        """Proposes one call and waits for the decision; see `ToolApprovals.decide`."""
        work = self._approvals.decide(name, arguments, description=description, schema=schema)
        return await asyncio.wrap_future(self._loop.submit(work))

    def __repr__(self) -> str:
        return f"<LabToolApprovals of {self.proposer.name}: its tools are those of {self.host.name}>"
