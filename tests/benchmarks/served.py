"""The process whose processor time is measured: the gateway, or the relay beside it.

    python tests/benchmarks/served.py gateway|relay uvloop|asyncio PARTICIPANTS JOURNAL|- [followed]

Where it is followed, a process writes the log files of the peers into `logs` beside the journal, and the control beside
it is woken by a pipe of its own at the same moments; its seconds for that stand in `wakes` in the end. Prints one line of JSON with its port and tokens; then answers each line on standard input with its processor
seconds and its resident KiB.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import relay
import uvloop

from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.lab.peer_logs import PeerLogs
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


CONTROL = """
import os, struct, time
delays = []
while data := os.read(0, 4096):
    now = time.monotonic_ns()
    delays += [(now - began) / 1e9 for (began,) in struct.iter_unpack("q", data)]
print(*delays)
"""


def follow(journal: Journal) -> tuple[PeerLogs, subprocess.Popen[bytes]]:
    """The process that writes the log files of the peers, yet to be started, and the control."""
    folder = journal.path.parent
    logs = PeerLogs(journal.path, root=folder, folder="logs", history=True, decisions=True, fault=sys.exit)
    logs.register()
    with (folder / "wakes").open("wb") as wakes:
        control = subprocess.Popen([sys.executable, "-c", CONTROL], stdin=subprocess.PIPE, stdout=wakes)
    assert control.stdin is not None
    bell = control.stdin.fileno()

    def wake() -> None:
        os.write(bell, struct.pack("q", time.monotonic_ns()))
        logs.wake()

    journal.on_append = wake
    return logs, control


async def main(what: str, participants: int, path: str, followed: bool) -> None:
    tokens: list[str] = []
    beside: tuple[PeerLogs, subprocess.Popen[bytes]] | None = None
    if what == "relay":
        port = await relay.start()
    else:
        journal = None if path == "-" else Journal(path, rotate_at=1 << 40)
        made, tokens = gateway(participants, journal)
        if journal is not None and followed:
            beside = follow(journal)
            await beside[0].start()
        port = await Server(made, limits=UNLIMITED).start()
    print(json.dumps({"port": port, "tokens": tokens}), flush=True)
    asked = asyncio.Queue[str]()
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: asked.put_nowait(sys.stdin.readline()))
    while await asked.get():
        print(json.dumps({"cpu": time.process_time(), "resident": resident()}), flush=True)
    if beside is not None:
        await beside[0].stop()
        beside[1].communicate()


if __name__ == "__main__":
    kind, loop, count, file, *more = sys.argv[1:]
    run = uvloop.run if loop == "uvloop" else asyncio.run
    run(main(kind, int(count), file, bool(more)))
