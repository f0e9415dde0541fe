"""What does a delivery cost?  Prints the gateway's figures beside their marks and beside a bare relay.

    python tests/benchmarks/bench_gateway.py [seconds] [repeats]
    [many|one|fan|journal|kernel|idle|life|check …]

`seconds` says roughly how long each measurement takes; all parts run unless some are named. Gateway and
relay run in processes of their own, and only their processor time counts; the load comes from this
process. An echo to the sender is not counted as a delivery. The relay is quoted whole in relay.py. Every
figure is the median of the repeats.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import load
import orjson
import served
import uvloop

from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.log.journal import Journal
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.transport.link import Link
from mew_lab.transport.websocket import connect

HERE = Path(__file__).parent
FAN = (5, 20, 50, 100, 200)
WINDOW = 64  # messages of the sender on their way at once
PER_SECOND = {1: 8000, 5: 3000, 20: 1200, 50: 500, 100: 250, 200: 120}  # messages, to fit the time asked for


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    value: str
    mark: str = ""


class Child:
    """A process that serves, and tells its processor time when asked."""

    def __init__(
        self,
        what: str,
        loop: str,
        *,
        participants: int = 0,
        journal: Path | None = None,
        followed: bool = False,
    ) -> None:
        command = [
            sys.executable,
            str(HERE / "served.py"),
            what,
            loop,
            str(participants),
            str(journal or "-"),
        ]
        self._followed = followed
        self._process = subprocess.Popen(
            [*command, "followed"] if followed else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the relay complains of sockets that hang up
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the {what} did not start")
        about = json.loads(line)
        self.port: int = about["port"]
        self.tokens: list[str] = about["tokens"]

    def ask(self) -> dict[str, float]:
        """Processor seconds and resident KiB so far."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said: dict[str, float] = json.loads(self._process.stdout.readline())
        return said

    def end(self) -> None:
        if not self._followed:  # else it ends at the end of its input, after the process that it has started
            self._process.kill()
        self._process.communicate()


@contextmanager
def child(what: str, loop: str, **settings: Any) -> Iterator[Child]:
    with tempfile.TemporaryDirectory() as folder:
        if settings.pop("journaled", False):
            settings["journal"] = Path(folder) / "journal.jsonl"
        started = Child(what, loop, **settings)
        try:
            yield started
        finally:
            started.end()


class Cost(NamedTuple):
    """Of one run."""

    cpu: float  # milliseconds of the server a thousand deliveries
    rate: float  # deliveries a second


async def fan_out(server: Child, *, receivers: int, messages: int, window: int = WINDOW) -> Cost:
    """One sender, so many receivers."""
    tokens: list[str | None] = [*server.tokens] or [None] * (receivers + 1)
    ends = [await load.connect(server.port, token) for token in tokens[: receivers + 1]]
    for place, end in enumerate(ends):  # its welcome, and the presence of those who came after it
        await end.wait((len(ends) - place) if server.tokens else 0)
    before = [end.count for end in ends]
    frames = [load.masked(load.chat(n, "p0")) for n in range(messages)]
    begin, cpu = time.perf_counter(), server.ask()["cpu"]
    ends[0].send(frames, window=min(window, messages))
    await asyncio.gather(*(end.wait(count + messages) for end, count in zip(ends, before, strict=True)))
    cpu, wall = server.ask()["cpu"] - cpu, time.perf_counter() - begin
    for end in ends:
        end.close()
    return Cost(cpu * 1e6 / (messages * receivers), messages * receivers / wall)


def measure(
    what: str,
    loop: str,
    *,
    receivers: int,
    messages: int,
    window: int = WINDOW,
    journaled: bool = True,
    followed: bool = False,
) -> Cost:
    participants = 0 if what == "relay" else receivers + 1
    journaled = journaled and what != "relay"
    with child(what, loop, participants=participants, journaled=journaled, followed=followed) as server:
        warm = fan_out(server, receivers=receivers, messages=max(messages // 5, 10), window=window)
        uvloop.run(warm)
        return uvloop.run(fan_out(server, receivers=receivers, messages=messages, window=window))


def idle_kib(what: str, connections: int) -> float:
    """Resident KiB of one connection that says nothing."""

    async def hold(server: Child) -> float:
        tokens: list[str | None] = [*server.tokens] or [None] * connections
        first = [await load.connect(server.port, token) for token in tokens[:10]]
        before = server.ask()["resident"]
        rest = [await load.connect(server.port, token) for token in tokens[10:]]
        after = server.ask()["resident"]
        for one in first + rest:
            one.close()
        return (after - before) / len(rest)

    with child(what, "uvloop", participants=0 if what == "relay" else connections) as server:
        return uvloop.run(hold(server))


# --- inside one process ---


async def in_kernel(links: list[Link], *, messages: int) -> float:
    """Deliveries a second of processor time, both ends and reading each message counted."""
    texts = [load.chat(n, "p0") for n in range(messages)]

    async def read(link: Link, count: int) -> None:
        for _ in range(count):
            orjson.loads(await link.receive())

    async def talk() -> None:
        for number, text in enumerate(texts):
            await links[0].send(text)
            if number >= WINDOW:
                orjson.loads(await links[0].receive())
        await read(links[0], min(WINDOW, messages))

    begin = time.process_time()
    await asyncio.gather(talk(), *(read(link, messages) for link in links[1:]))
    return messages * (len(links) - 1) / (time.process_time() - begin)


async def over_memory(receivers: int, messages: int, folder: str) -> float:
    journal = Journal(Path(folder) / "memory.jsonl", rotate_at=1 << 40)
    gateway, _ = served.gateway(receivers + 1, journal)
    links: list[Link] = [attach(gateway, "bench", f"p{n}") for n in range(receivers + 1)]
    await settle(links)
    rate = await in_kernel(links, messages=messages)
    for link in links:
        await link.close()
    return rate


async def over_websocket(receivers: int, messages: int, folder: str) -> float:
    journal = Journal(Path(folder) / "websocket.jsonl", rotate_at=1 << 40)
    gateway, tokens = served.gateway(receivers + 1, journal)
    server = Server(gateway, limits=served.UNLIMITED)
    port = await server.start()
    links: list[Link] = []
    for token in tokens:
        links.append(await connect(f"ws://127.0.0.1:{port}/ws"))
        await links[-1].send(json.dumps({"type": "join", "token": token}))
    await settle(links)
    rate = await in_kernel(links, messages=messages)
    await asyncio.gather(server.stop(), *(link.close() for link in links))
    return rate


async def settle(links: list[Link]) -> None:
    for place, link in enumerate(links):
        for _ in range(len(links) - place):
            await link.receive()


async def lifetimes() -> tuple[float, float]:
    """Milliseconds from start to the first welcome, and of a stop with twenty clients open."""
    gateway, tokens = served.gateway(20, None)
    begin = time.perf_counter()
    server = Server(gateway)
    port = await server.start()
    links = [await connect(f"ws://127.0.0.1:{port}/ws")]
    await links[0].send(json.dumps({"type": "join", "token": tokens[0]}))
    await links[0].receive()
    welcome = time.perf_counter() - begin
    for token in tokens[1:]:
        links.append(await connect(f"ws://127.0.0.1:{port}/ws"))
        await links[-1].send(json.dumps({"type": "join", "token": token}))
    await settle(links[1:])
    begin = time.perf_counter()
    await server.stop()
    stop = time.perf_counter() - begin
    for link in links:
        await link.close()
    return welcome * 1e3, stop * 1e3


def permit_us(times: int) -> float:
    """Microseconds of one check, for a profile of twenty patterns."""
    tools = [
        {
            "kind": "mcp/request",
            "to": ["fs"],
            "payload": {"method": "tools/call", "params": {"name": f"tool_{n}*"}},
        }
        for n in range(10)
    ]
    words = ("start", "thought", "conclusion", "cancel")
    others = [{"kind": "chat"}, {"kind": "chat/*"}, {"kind": "mcp/proposal"}, {"kind": "mcp/withdraw"}]
    others += [{"kind": f"reasoning/{word}"} for word in words] + [
        {"kind": "participant/status"},
        {"kind": "stream/*"},
    ]
    held = CapabilitySet(tools + others)
    assert len(held.patterns) == 20
    calls = [
        {"method": "tools/call", "params": {"name": f"tool_{n}_x", "arguments": {"path": "/"}}}
        for n in range(10)
    ]
    begin = time.process_time()
    for number in range(times):
        held.permit("mcp/request", ("fs",), calls[number % 10])
        held.permit("chat", (), {"text": "hello"})
    return (time.process_time() - begin) * 1e6 / (2 * times)


# --- the table ---


def median(repeats: int, run: Callable[[], float]) -> float:
    return statistics.median(run() for _ in range(repeats))


def costs(repeats: int, *args: Any, **settings: Any) -> Cost:
    runs = [measure(*args, **settings) for _ in range(repeats)]
    return Cost(statistics.median(run.cpu for run in runs), statistics.median(run.rate for run in runs))


def messages(receivers: int, seconds: float) -> int:
    """So many that one measurement takes roughly the time asked for."""
    return max(int(PER_SECOND[receivers] * seconds), 5)


def beside_relay(receivers: int, mark: str, seconds: float, repeats: int) -> Iterator[Row]:
    of = {"receivers": receivers, "messages": messages(receivers, seconds)}
    control = costs(repeats, "relay", "uvloop", **of)
    yield told(f"relay, {receivers} receivers", control)
    for loop in ("uvloop", "asyncio"):
        ours = costs(repeats, "gateway", loop, **of)
        yield told(
            f"gateway on {loop}, {receivers} receivers", ours, control, mark if loop == "uvloop" else ""
        )


def many(seconds: float, repeats: int) -> Iterator[Row]:
    """One sender, twenty receivers."""
    yield from beside_relay(20, "≤ 1.0 × relay; beyond: 0.6 ×", seconds, repeats)


def one(seconds: float, repeats: int) -> Iterator[Row]:
    """One sender, one receiver; and a message at a time."""
    yield from beside_relay(1, "≤ 1.5 × relay", seconds, repeats)
    ping = {"receivers": 1, "messages": messages(1, seconds / 8), "window": 1}
    control = costs(repeats, "relay", "uvloop", **ping)
    yield told("relay, one message at a time", control)
    yield told("gateway, one message at a time", costs(repeats, "gateway", "uvloop", **ping), control)


def fan(seconds: float, repeats: int) -> Iterator[Row]:
    """How the cost moves with the number of receivers."""
    flat = {n: costs(repeats, "gateway", "uvloop", receivers=n, messages=messages(n, seconds)) for n in FAN}
    for receivers, cost in flat.items():
        yield told(f"gateway, {receivers} receivers", cost, flat[20], "± 20 % of 20 receivers, from 5 to 200")
    for few, more in pairwise(FAN):
        further = (flat[more].cpu * more - flat[few].cpu * few) / (more - few)
        yield Row(f"each further receiver, from {few} to {more}", f"{further:.1f} ms/1k")


def journal(seconds: float, repeats: int) -> Iterator[Row]:
    """What of it is the journal."""
    for receivers in (1, 20):
        of = {"receivers": receivers, "messages": messages(receivers, seconds)}
        shares = []
        for _ in range(repeats):  # in pairs, since the machine's speed drifts
            with_it = costs(1, "gateway", "uvloop", **of).cpu
            without = costs(1, "gateway", "uvloop", journaled=False, **of).cpu
            shares.append((with_it - without) / with_it)
        share = statistics.median(shares)
        yield Row(f"journal's share, {receivers} receivers", f"{share:.0%}", "≤ 20 %")


def kernel(seconds: float, repeats: int) -> Iterator[Row]:
    """Gateway and participants in one process, on plain asyncio."""

    def rate(run: Callable[[int, int, str], Coroutine[Any, Any, float]], seconds: float) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(run(20, messages(20, seconds), folder))

    websocket = median(repeats, lambda: rate(over_websocket, seconds / 4))
    yield Row("in one process over WebSocket, 20 receivers", f"{websocket:,.0f} deliveries a CPU second")
    memory = median(repeats, lambda: rate(over_memory, seconds))
    said = f"{memory:,.0f} deliveries a CPU second, {memory / websocket:.1f} ×"
    yield Row("in one process over memory, 20 receivers", said, "≥ 3 × WebSocket; beyond: 5 ×")


def idle(seconds: float, repeats: int) -> Iterator[Row]:
    """What a connection holds that says nothing."""
    held = max(min(int(300 * seconds), 500), 20)
    yield Row(
        f"{held} idle connections, relay", f"{median(repeats, lambda: idle_kib('relay', held)):.0f} KiB each"
    )
    ours = median(repeats, lambda: idle_kib("gateway", held))
    yield Row(f"{held} idle connections, gateway", f"{ours:.0f} KiB each", "≤ 60 KiB more")


def life(seconds: float, repeats: int) -> Iterator[Row]:
    """Starting and stopping."""
    times = [asyncio.run(lifetimes()) for _ in range(repeats)]
    yield Row("start to first welcome", f"{statistics.median(begun for begun, _ in times):.0f} ms", "≤ 50 ms")
    yield Row(
        "stop with 20 clients open", f"{statistics.median(ended for _, ended in times):.0f} ms", "≤ 500 ms"
    )


def check(seconds: float, repeats: int) -> Iterator[Row]:
    """One capability check."""
    times = max(int(50_000 * seconds), 100)
    yield Row(
        "capability check, 20 patterns", f"{median(repeats, lambda: permit_us(times)):.1f} µs", "≤ 5 µs"
    )


PARTS = {part.__name__: part for part in (many, one, fan, journal, kernel, idle, life, check)}


def told(what: str, cost: Cost, control: Cost | None = None, mark: str = "") -> Row:
    relation = f", {cost.cpu / control.cpu:.2f} ×" if control else ""
    return Row(what, f"{cost.cpu:.1f} ms/1k{relation}, {cost.rate:,.0f}/s", mark)


def main(argv: list[str]) -> None:
    """Prints the table."""
    seconds = float(argv[0]) if argv else 3.0
    repeats = int(argv[1]) if len(argv) > 1 else 3
    for part in argv[2:] or PARTS:
        for row in PARTS[part](seconds, repeats):
            print(f"{row.what:46}{row.value:50}{row.mark}".rstrip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
