"""`lab.tool_approvals()`: the pending calls of an agent framework as cards of this lab, decided on any event loop."""

from __future__ import annotations

import asyncio

from mew_lab.bridge.tool_approvals import ToolApprovals
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.seat import Seat

__all__ = ["LabToolApprovals"]


class LabToolApprovals(ToolApprovals):
    """Decides the pending calls of a framework that runs on the caller's event loop, such as that of a notebook.

    `proposer` and `host` are the two seats; leave with their `leave()`.
    """

    def __init__(self, proposer: Seat, host: Seat, loop: LoopThread) -> None:
        super().__init__(
            proposer.participant,
            host.participant,
            on_loop=lambda work: asyncio.wrap_future(loop.submit(work)),
        )
        self.proposer = proposer
        self.host = host

    def __repr__(self) -> str:
        return f"<LabToolApprovals of {self.proposer.name}: its tools are those of {self.host.name}>"
