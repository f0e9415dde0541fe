"""Connects a participant of this process over a memory link, without rules of its own.

Spec: §5.2; the host vouches for the participant instead of a token.
"""

from __future__ import annotations

import asyncio

from mew_lab.gateway.delivery import MemoryPeer
from mew_lab.gateway.gateway import Gateway
from mew_lab.transport.link import Link, LinkClosed
from mew_lab.transport.memory import MemoryLink, pair

__all__ = ["attach"]

_drivers: set[asyncio.Task[None]] = set()  # a task without a reference may be collected while it runs


def attach(gateway: Gateway, space: str, participant: str, *, runtime_id: str | None = None) -> Link:
    """Admits `participant` over a memory link and runs until either end closes; the welcome waits in the link.

    Raises:
        NotAdmitted: when the space does not admit it.
    """
    here, there = pair()
    name = ""

    def cut(reason: str) -> None:
        gateway.leave(space, name, reason)

    peer = MemoryPeer(here, limit=gateway.queue_bytes(space), on_cut=cut)
    name = gateway.admit(space, participant, peer, runtime_id=runtime_id, via="memory")
    driver = asyncio.get_running_loop().create_task(_drive(gateway, space, name, here))
    _drivers.add(driver)
    driver.add_done_callback(_drivers.discard)
    return there


async def _drive(gateway: Gateway, space: str, name: str, link: MemoryLink) -> None:
    reason = ""
    try:
        while True:
            gateway.receive(space, name, await link.receive())
    except LinkClosed as end:
        reason = end.reason
    finally:
        gateway.leave(space, name, reason)
