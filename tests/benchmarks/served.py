"""The process whose processor time is measured: the gateway, or the relay beside it.

    python tests/benchmarks/served.py gateway|relay uvloop|asyncio PARTICIPANTS JOURNAL|-

Prints one line of JSON with its port and tokens; then answers each line on standard input with its processor
seconds and its resident KiB.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

import relay
import uvloop

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.log.journal import Journal

CAPABILITIES = [{"kind": "chat"}, {"kind": "chat/*"}, {"kind": "mcp/request"}, {"kind": "participant/status"}]
# Every check is on; only the numbers are out of the way.
UNLIMITED = Limits(
    messages_per_second=1e9,
    burst=10**9,
    bytes_per_second=1e12,
    burst_bytes=10**12,
    unauthenticated=1000,
    connections=1000,
)


def gateway(participants: int, journal: Journal | None) -> tuple[Gateway, list[str]]:
    """A gateway with one space of so many participants p0, p1 …, and their tokens."""
    made = Gateway()
    people = {f"p{n}": ParticipantConfig(capabilities=CAPABILITIES) for n in range(participants)}
    made.add_space(SpaceConfig(name="bench", participants=people), journal=journal)
    return made, [made.tokens.mint("bench", name).reveal() for name in people]


def resident() -> int:
    """KiB of memory that are in use now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(what: str, participants: int, path: str) -> None:
    tokens: list[str] = []
    if what == "relay":
        port = await relay.start()
    else:
        made, tokens = gateway(participants, None if path == "-" else Journal(path, rotate_at=1 << 40))
        port = await Server(made, limits=UNLIMITED).start()
    print(json.dumps({"port": port, "tokens": tokens}), flush=True)
    asked = asyncio.Queue[str]()
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: asked.put_nowait(sys.stdin.readline()))
    while await asked.get():
        print(json.dumps({"cpu": time.process_time(), "resident": resident()}), flush=True)


if __name__ == "__main__":
    kind, loop, count, file = sys.argv[1:]
    run = uvloop.run if loop == "uvloop" else asyncio.run
    run(main(kind, int(count), file))
