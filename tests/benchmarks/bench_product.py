"""What does the product cost as it ships?  `mew-lab serve` and `mew_lab.up()`, beside a bare relay, driven from outside.

    python tests/benchmarks/bench_product.py [--quick] [--repeats N] [--messages N] [many|one|tokens|kernel|memory …]

Each server is started as a user starts it, with a space.yaml: its journal and the peers' log files are on, unless a row
says otherwise. Messages are written one by one, at most 50 of them on their way, unless a row says `packed`. Figures are
processor time of the server's process for a thousand deliveries; that of the processes that it started, such as the
follower that writes the peers' log files, stands beside. Server and relay are driven in turn; a ratio is the median of
the repeats' ratios. An echo to the sender is no delivery. The marks are those of relay.py with uvloop; a ratio on a busy
machine moves by a fifth. `--messages` says after how many messages `memory` looks; all parts run unless some are named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import load
import psutil
import uvloop
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

HERE = Path(__file__).parent
WINDOW = 50  # messages on their way
RATE = 1000  # messages a second that pass while a cell waits
START = 60.0  # seconds that a server may take to start
SPACE = {
    "id": "bench",
    "limits": {  # every check is on; only the numbers are out of the way
        "messages_per_second": 1_000_000,
        "burst": 1_000_000,
        "bytes_per_second": 1 << 40,
        "burst_bytes": 1 << 40,
        "journal_bytes_per_second": 1 << 40,
        "journal_burst": 1 << 40,
        "journal_bytes": 1 << 40,
    },
}
CAPABILITIES = [{"kind": "chat"}, {"kind": "chat/*"}, {"kind": "mcp/request"}, {"kind": "participant/status"}]
UP = """
import sys, time, mew_lab
lab = mew_lab.up("space.yaml", port=int(sys.argv[1]))
while True:
    time.sleep(3600)
"""
PLAIN = """
import sys
sys.modules["uvloop"] = None  # as where it is not installed
from mew_lab.cli import main
raise SystemExit(main())
"""
IN_KERNEL = """
import statistics, sys, time, mew_lab
lab = mew_lab.up("space.yaml", port=int({port}))
lab.join("bert")
@lab.tool
def add(a: int, b: int) -> int:
    return a + b
lab.bridge("clock", ["python", "-m", "mcp_server_time"])
lab.call("notebook/add", {{"a": 1, "b": 2}}).result()
"""
CALLS = """
times = []
for number in range({count}):
    began = time.perf_counter()
    lab.call("notebook/add", {{"a": number, "b": 1}}).result()
    times.append(time.perf_counter() - began)
times.sort()
print(times[len(times) // 2], times[len(times) * 99 // 100])
"""


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    value: str
    mark: str = ""


class Sizes(NamedTuple):
    """How much is driven: messages of each shape, and how often."""

    many: int = 2000
    most: int = 300
    one: int = 6000
    ping: int = 3000
    seconds: float = 5.0
    calls: int = 300
    memory: int = 100_000
    repeats: int = 3


QUICK = Sizes(many=20, most=3, one=40, ping=20, seconds=0.3, calls=5, memory=200, repeats=1)


class Cost(NamedTuple):
    """Milliseconds of the processor for a thousand deliveries: of the server, and of the processes that it started."""

    own: float
    others: float


def token(number: int) -> str:
    """The token of participant p<number>, or of nobody."""
    return f"benchmark-token-{number:06}"


def seconds_of(process: psutil.Process) -> float:
    """Processor seconds of a process so far."""
    try:  # to the nanosecond, where Linux tells it
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except OSError:
        times = process.cpu_times()
        return float(times.user + times.system)


class Served:
    """A server in a process of its own, as a user starts it.

    Args:
        command: its words; `PORT` stands for the port.
        participants: how many the space has, p0 and so on.
        tokens: how many tokens it knows in all.
        environment: what is set beside this process's own.
    """

    def __init__(
        self, command: Sequence[str], participants: int, tokens: int = 0, **environment: str
    ) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.participants = participants
        write_space(Path(self.folder.name), participants, tokens)
        self.port = free_port()
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [word.replace("PORT", str(self.port)) for word in command],
            cwd=self.folder.name,
            env={**clean_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.process = psutil.Process(self._process.pid)
        self._token = token(0) if participants else None
        uvloop.run(self._welcomed())
        self.welcome = time.perf_counter() - began

    async def _welcomed(self) -> None:
        async with asyncio.timeout(START):
            while True:
                if self._process.poll() is not None:
                    raise SystemExit(f"{self._process.args} ended with {self._process.returncode}")
                try:
                    first = await load.connect(self.port, self._token)
                except OSError:
                    await asyncio.sleep(0.005)
                    continue
                first.close()
                return

    def used(self) -> tuple[float, float]:
        """Processor seconds so far: its own, and those of the processes that it started."""
        others = 0.0
        for child in self.process.children(recursive=True):
            try:
                others += seconds_of(child)
            except psutil.NoSuchProcess:
                continue
        return seconds_of(self.process), others

    @property
    def resident(self) -> float:
        """MiB of memory that it holds."""
        return float(self.process.memory_info().rss) / (1 << 20)

    def end(self) -> None:
        started = self.process.children(recursive=True) if self.process.is_running() else []
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        psutil.wait_procs(started, timeout=10)  # a follower writes its last lines in the folder
        self.folder.cleanup()


def clean_environment() -> dict[str, str]:
    """This process's own, without what switches the peers' log files or a lesson's times."""
    switches = ("GATEWAY_LOGGING", "ENVELOPE_HISTORY", "CAPABILITY_DECISIONS")
    kept = {key: word for key, word in os.environ.items() if key not in switches and key[:8] != "MEW_LAB_"}
    return {**kept, "PYTHONPATH": str(HERE.parent.parent)}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def write_space(folder: Path, participants: int, tokens: int) -> None:
    """A space.yaml of so many participants; JSON is YAML too."""
    people: dict[str, Any] = {
        f"p{n}": {"tokens": [token(n)], "capabilities": CAPABILITIES} for n in range(participants)
    }
    if tokens > participants:
        people["absent"] = {"tokens": [token(n) for n in range(participants, tokens)], "capabilities": []}
    people["human"] = {"capabilities": [{"kind": "*"}]}
    (folder / "space.yaml").write_text(json.dumps({"space": SPACE, "participants": people}))


@contextmanager
def served(what: str, participants: int, *, tokens: int = 0, peers: bool = True) -> Iterator[Served]:
    """`serve`, `plain` (`serve` without the extra `fast`), `up` or `relay`, with a space of so many participants."""
    words = ["serve", "--space-config", "space.yaml", "--port", "PORT"]
    commands = {
        "serve": [sys.executable, "-m", "mew_lab.cli", *words],
        "plain": [sys.executable, "-c", PLAIN, *words],
        "up": [sys.executable, "-c", UP, "PORT"],
        "relay": [sys.executable, str(HERE / "relay.py"), "PORT"],
    }
    switches = {} if peers else {"GATEWAY_LOGGING": "false"}
    started = Served(commands[what], 0 if what == "relay" else participants, tokens, **switches)
    try:
        yield started
    finally:
        started.end()


# --- driving -------------------------------------------------------------------------------------------------


async def joined(server: Served, count: int) -> list[load.Counter]:
    """So many connections, each of which has heard of all that came after it."""
    known = server.participants > 0
    ends = [await load.connect(server.port, token(n) if known else None) for n in range(count)]
    for place, end in enumerate(ends):
        await end.wait(len(ends) - place if known else 0)
    return ends


async def drive(server: Served, *, receivers: int, messages: int, packed: bool = False) -> Cost:
    """One sender, so many receivers."""
    ends = await joined(server, receivers + 1)
    before = [end.count for end in ends]
    frames = [load.masked(load.chat(n, "p0")) for n in range(messages)]
    own, others = server.used()
    ends[0].send(frames, window=min(WINDOW, messages), packed=packed)
    await asyncio.gather(*(end.wait(count + messages) for end, count in zip(ends, before, strict=True)))
    return await parted(server, ends, own, others, messages * receivers)


async def ping_pong(server: Served, *, messages: int) -> Cost:
    """Two that answer each other: one message is on its way."""
    ends = await joined(server, 2)
    own, others = server.used()
    for n in range(messages):
        for who, end in enumerate(ends):
            counts = [end.count for end in ends]
            end.send([load.masked(load.chat(n, f"p{who}"))], window=1, packed=False)
            await asyncio.gather(*(end.wait(count + 1) for end, count in zip(ends, counts, strict=True)))
    return await parted(server, ends, own, others, 2 * messages)


async def parted(
    server: Served, ends: Sequence[load.Counter], own: float, others: float, deliveries: int
) -> Cost:
    if server.process.children():
        await asyncio.sleep(0.3)  # a follower is 0.2 s behind
    now, now_others = server.used()
    for end in ends:
        end.close()
    return Cost((now - own) * 1e6 / deliveries, (now_others - others) * 1e6 / deliveries)


class Case(NamedTuple):
    """One row beside the relay's."""

    what: str
    server: Served
    packed: bool = False
    mark: str = ""


def beside_relay(
    shape: str, receivers: int, sizes: Sizes, relay: Served, cases: Sequence[Case]
) -> Iterator[Row]:
    """Drives the relay and each case in turn; a case that is packed has a relay that is packed to stand beside."""

    def run(server: Served, packed: bool) -> Cost:
        if shape == "ping-pong":
            return uvloop.run(ping_pong(server, messages=sizes.ping))
        number = {1: sizes.one, 20: sizes.many, 200: sizes.most}[receivers]
        return uvloop.run(drive(server, receivers=receivers, messages=number, packed=packed))

    relays: dict[bool, list[Cost]] = {packed: [] for packed in sorted({case.packed for case in cases})}
    found: list[list[Cost]] = [[] for _ in cases]
    for server in {relay, *(case.server for case in cases)}:
        run(server, False)  # the first is slower
    for _ in range(sizes.repeats):
        for packed, runs in relays.items():
            runs.append(run(relay, packed))
        for case, runs in zip(cases, found, strict=True):
            runs.append(run(case.server, case.packed))
    for packed, runs in relays.items():
        own = statistics.median(one.own for one in runs)
        yield Row(f"{shape}, relay{', packed' if packed else ''}", f"{own:.1f} ms/1k")
    for case, runs in zip(cases, found, strict=True):
        ratio = statistics.median(
            mine.own / theirs.own for mine, theirs in zip(runs, relays[case.packed], strict=True)
        )
        own, others = (statistics.median(one[at] for one in runs) for at in (0, 1))
        beside = f", other processes {others:.1f}" if others else ""
        yield Row(f"{shape}, {case.what}", f"{own:.1f} ms/1k{beside}, {ratio:.2f} ×", case.mark)


# --- the parts -----------------------------------------------------------------------------------------------


def many(sizes: Sizes) -> Iterator[Row]:
    """One sender, twenty receivers, and two hundred."""
    with served("relay", 0) as relay:
        for receivers, shape in ((20, "1 → 20"), (200, "1 → 200")):
            with ExitStack() as started:
                shipped = started.enter_context(served("serve", receivers + 1))
                cases = [Case("mew-lab serve", shipped, mark="≤ 0.8 ×; beyond: 0.6 ×")]
                if receivers == 20:
                    without = started.enter_context(served("serve", receivers + 1, peers=False))
                    cases.append(Case("without the peers' files", without))
                    cases.append(
                        Case("a plain install", started.enter_context(served("plain", receivers + 1)))
                    )
                    cases.append(Case("mew_lab.up()", started.enter_context(served("up", receivers + 1))))
                    cases.append(Case("mew-lab serve, packed", shipped, packed=True))
                yield from beside_relay(shape, receivers, sizes, relay, cases)


def one(sizes: Sizes) -> Iterator[Row]:
    """One sender, one receiver; and a message at a time."""
    with ExitStack() as started:
        relay = started.enter_context(served("relay", 0))
        shipped = started.enter_context(served("serve", 2))
        without = started.enter_context(served("serve", 2, peers=False))
        plain = started.enter_context(served("plain", 2))
        up = started.enter_context(served("up", 2))
        for shape, mark in (("1 → 1", "≤ 2.5 ×; beyond: 1.9 ×"), ("ping-pong", "≤ 2.0 ×; beyond: 1.5 ×")):
            cases = [
                Case("mew-lab serve", shipped, mark=mark),
                Case("without the peers' files", without, mark="the peers' files add ≤ 3 %"),
                Case("a plain install", plain),
                Case("mew_lab.up()", up),
            ]
            if shape == "1 → 1":
                cases.append(Case("mew-lab serve, packed", shipped, packed=True))
            yield from beside_relay(shape, 1, sizes, relay, cases)


def tokens(sizes: Sizes) -> Iterator[Row]:
    """What tokens cost that are only known."""
    with ExitStack() as started:
        relay = started.enter_context(served("relay", 0))
        few = started.enter_context(served("serve", 2))
        known = started.enter_context(served("serve", 2, tokens=300))
        cases = [Case("2 known tokens", few), Case("300 known tokens", known, mark="≤ 5 % more than 2")]
        yield from beside_relay("1 → 1", 1, sizes, relay, cases)


def memory(sizes: Sizes) -> Iterator[Row]:
    """What a long session holds, and how long a start takes."""
    with served("serve", 21) as server:
        yield Row("start to first welcome", f"{server.welcome * 1e3:.0f} ms")
        yield Row("resident at the start", f"{server.resident:.1f} MiB")
        done = 0
        while done < sizes.memory:
            part = min(10_000, sizes.memory - done)
            uvloop.run(drive(server, receivers=20, messages=part))
            done += part
        yield Row(f"after {done:,} messages, 20 receivers", f"{server.resident:.1f} MiB", "beyond: 60 MiB")


# --- in a kernel ---------------------------------------------------------------------------------------------


class Kernel:
    """An IPython kernel in a process of its own, with a space inside: three seats and one bridge."""

    def __init__(self, folder: Path) -> None:
        write_space(folder, 2, 0)
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager.start_kernel(
            env={**clean_environment(), "IPYTHONDIR": str(folder / "ipython")},
            cwd=str(folder),
            stderr=subprocess.DEVNULL,  # it complains of its own connection
        )
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START)
        self.process = psutil.Process(int(self.run("import os; print(os.getpid())")))
        self.port = free_port()
        self.run(IN_KERNEL.format(port=self.port))

    def run(self, code: str) -> str:
        """Runs a cell to its end; gives what it printed."""
        text = ""
        sent = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=START)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                text += content["text"]
            elif message["msg_type"] == "error":
                raise SystemExit("\n".join(content["traceback"]))
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text

    def waits(self, seconds: float) -> list[float]:
        """How long a cell takes that does nothing, over and over."""
        found: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            self.run("pass")
            found.append(time.perf_counter() - began)
        return sorted(found)

    def end(self) -> None:
        self.client.stop_channels()
        started = self.process.children(recursive=True)
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        psutil.wait_procs(started, timeout=10)  # a follower writes its last lines in the folder


async def passing(port: int, seconds: float, waits: Any) -> tuple[int, list[float]]:
    """So many messages a second for so long, while cells run in a thread."""
    sender = await load.connect(port, token(0))
    loop = asyncio.get_running_loop()
    cells = loop.run_in_executor(None, waits, seconds)
    began, sent = time.perf_counter(), 0
    while not cells.done():
        due = int((time.perf_counter() - began) * RATE)
        for number in range(sent, due):
            sender.send([load.masked(load.chat(number, "p0"))], window=1, packed=False)
        sent = due
        await asyncio.sleep(0.005)
    sender.close()
    return sent, await cells


def kernel(sizes: Sizes) -> Iterator[Row]:
    """A space inside a notebook: three seats, one bridge."""
    with tempfile.TemporaryDirectory() as folder:
        started = Kernel(Path(folder))
        try:
            alone = seconds_of(started.process)
            quiet = started.waits(sizes.seconds)
            idle = seconds_of(started.process) - alone
            sent, busy = uvloop.run(passing(started.port, sizes.seconds, started.waits))
            used = seconds_of(started.process) - alone - idle
            p50, p99 = map(float, started.run(CALLS.format(count=sizes.calls)).split())
        finally:
            started.end()
    per_cell = idle / len(quiet)
    message = (used - per_cell * len(busy)) / max(sent, 1)
    yield Row("in a kernel, 3 seats and a bridge", f"{message * 1e6:.0f} µs of the processor a message")
    for what, waits in (("nothing passes", quiet), (f"{RATE:,} messages/s pass", busy)):
        told = f"p50 {waits[len(waits) // 2] * 1e3:.1f} ms, p95 {waits[len(waits) * 95 // 100] * 1e3:.1f} ms"
        yield Row(f"wait of a cell while {what}", told, "p95 ≤ 150 ms" if waits is busy else "")
    yield Row("call of a tool in the kernel", f"p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms")


PARTS = {part.__name__: part for part in (many, one, tokens, kernel, memory)}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="so little that the figures say nothing")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--messages", type=int, help="of the part memory")
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    asked = parser.parse_args()
    sizes = QUICK if asked.quick else Sizes()
    sizes = sizes._replace(repeats=asked.repeats or sizes.repeats, memory=asked.messages or sizes.memory)
    for part in asked.parts or PARTS:
        for row in PARTS[part](sizes):
            print(f"{row.what:44}{row.value:54}{row.mark}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
