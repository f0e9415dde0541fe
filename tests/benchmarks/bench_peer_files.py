"""How soon does a message stand in the log files of the peers?  Prints the figures beside their marks.

    python tests/benchmarks/bench_peer_files.py [messages] [repeats]

A client of a gateway in another process gets a message, and then reads `envelope-history.jsonl` until its line stands
there. The control is a bare wake-up: another process waits for a byte in a pipe, and the gateway writes it at the same
moment. The second part is what the gateway pays: its processor time with the files and without them, in pairs, beside
the relay.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import bench_gateway
import load

from mew_lab.log.peer_files import HISTORY

PAUSE = 0.003  # seconds between two messages, in which both processes fall asleep
LOOK = 0.0001  # seconds between two looks at the file
LATEST = 30.0  # seconds until a line that is not there counts as missing


class Delays(NamedTuple):
    """Seconds of each bare wake-up, and from each delivery to its line."""

    bare: list[float]
    lines: list[float]

    @property
    def ratio(self) -> float:
        """The 99th percentile of the lines beside that of the bare wake-ups."""
        return percentile(self.lines, 0.99) / percentile(self.bare, 0.99)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def appears(file: int, at: int, key: bytes) -> tuple[float, int]:
    """Seconds until a text stands in a file behind a place, and the size of the file then."""
    began, text = time.monotonic(), b""
    while key not in text:
        text += os.pread(file, 1 << 16, at + len(text))
        if time.monotonic() - began > LATEST:
            raise SystemExit(f"there is no line of {key.decode()} after {LATEST:g} s")
        time.sleep(LOOK)  # the core is free for the other processes meanwhile
    return time.monotonic() - began, at + len(text)


async def delays(messages: int) -> Delays:
    """Of so many messages, one after the other."""
    lines = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        server = bench_gateway.Child(
            "gateway", "uvloop", participants=2, journal=folder / "journal.jsonl", followed=True
        )
        try:
            sender, receiver = [await load.connect(server.port, token) for token in server.tokens]
            await receiver.wait(1)
            path = folder / "logs" / HISTORY
            async with asyncio.timeout(LATEST):
                while not path.exists():  # noqa: ASYNC110
                    await asyncio.sleep(PAUSE)
            file, end = os.open(path, os.O_RDONLY), 0
            for number in range(messages):
                await asyncio.sleep(PAUSE)
                before = receiver.count
                sender.send([load.masked(load.chat(number, "p0"))], window=1)
                await receiver.wait(before + 1)
                took, end = appears(file, end, b'"id":"p0-%08d"' % number)
                lines.append(took)
            os.close(file)
        finally:
            server.end()
        wakes = [float(one) for one in (folder / "wakes").read_text().split()]
    return Delays(wakes[-messages:], lines)


def paid(window: int, messages: int) -> tuple[float, float, float]:
    """Milliseconds of a thousand deliveries, 1 → 1: the relay, the gateway alone, and the gateway that is followed."""
    relay, alone, followed = (
        bench_gateway.measure(
            what, "uvloop", receivers=1, messages=messages, window=window, followed=followed
        ).cpu
        for what, followed in (("relay", False), ("gateway", False), ("gateway", True))
    )
    return relay, alone, followed


def main(argv: list[str]) -> None:
    """Prints the table."""
    messages = int(argv[0]) if argv else 1000
    repeats = int(argv[1]) if len(argv) > 1 else 5
    runs = [asyncio.run(delays(messages)) for _ in range(repeats)]
    for what, values in (("bare wake-up", [run.bare for run in runs]), ("line", [run.lines for run in runs])):
        half, most = (
            statistics.median(percentile(one, part) for one in values) * 1e6 for part in (0.5, 0.99)
        )
        print(f"{what}, median {half:.0f} µs, p99 {most:.0f} µs")
    print(f"line beside bare wake-up, p99, {statistics.median(run.ratio for run in runs):.1f} ×, ≤ 10 ×")
    for what, window in (("64 on their way", 64), ("one at a time", 1)):
        pairs = [paid(window, max(messages * 8 // (64 // window), 10)) for _ in range(repeats)]
        alone = statistics.median(one / relay for relay, one, _ in pairs)
        followed = statistics.median(one / relay for relay, _, one in pairs)
        print(f"gateway, {what}, {alone:.2f} × relay, followed {followed:.2f} × relay, ≤ 2.5 ×")


if __name__ == "__main__":
    main(sys.argv[1:])
