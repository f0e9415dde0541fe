"""What does speaking cost?  Two participants and agents in one process, over memory and over WebSocket.

    python tests/benchmarks/bench_sdk.py [seconds] [repeats] [call|stream|step|many …]

`seconds` says roughly how long each measurement takes; all parts run unless some are named. Gateway and participants
share one process and one loop, as in a kernel, so a ratio compares the ways and not the machines. A figure is the
median of the repeats. The model of the agents answers at once, so that what is left is ours.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import served

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Message, Reply, ToolCall, ToolSpec
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox
from mew_lab.transport.link import Link

ALL = [{"kind": "*"}]
STEP_MARK = 5.0  # milliseconds of an agent's step beyond its model
AGENTS = 50
HEARTBEAT = 2.0  # seconds between two pings of a WebSocket client; one that is not answered ends it


class Row(NamedTuple):
    """One line of the printed table."""

    what: str
    value: str
    mark: str = ""


class Scene:
    """A gateway in this process, and participants over one of the two links."""

    def __init__(self, over: str) -> None:
        self.gateway = Gateway()
        self.gateway.add_space(SpaceConfig(name="bench"))
        self.over = over
        self.server: Server | None = None
        self.port = 0
        self.made: list[MEWParticipant | MEWAgent] = []

    def participant(self, name: str, **tools: Callable[..., Any]) -> MEWParticipant:
        self.gateway.enrol("bench", name, ALL)
        box = ToolBox(name=name)
        for tool, function in tools.items():
            box.add(function, name=tool)
        if self.server is not None:
            token = self.gateway.tokens.mint("bench", name)
            client = MEWClient(
                f"ws://127.0.0.1:{self.port}", space="bench", token=token, heartbeat_interval=HEARTBEAT
            )
        else:

            async def link() -> Link:
                return attach(self.gateway, "bench", name)

            client = MEWClient(space="bench", connect_link=link)
        participant = MEWParticipant(client, tools=box)
        self.made.append(participant)
        return participant


@asynccontextmanager
async def scene(over: str) -> AsyncIterator[Scene]:
    made = Scene(over)
    if over == "websocket":
        made.server = Server(made.gateway, limits=served.UNLIMITED)
        made.port = await made.server.start()
    try:
        yield made
    finally:
        for one in reversed(made.made):
            await one.stop()
        if made.server is not None:
            await made.server.stop()


async def echo(text: str) -> str:
    """Gives back what it gets."""
    return text


# --- calls --------------------------------------------------------------------------------------------------


async def round_trip(over: str, count: int) -> float:
    """Seconds of one request and its answer, one after the other."""
    async with scene(over) as made:
        tool, human = made.participant("tool", echo=echo), made.participant("human")
        await tool.start()
        await human.start()
        await human.call("tool/echo", {"text": "warm"})
        begun = time.perf_counter()
        for _ in range(count):
            await human.call("tool/echo", {"text": "x" * 200})
        return (time.perf_counter() - begun) / count


async def a_second(over: str, count: int) -> float:
    """Messages a second that one participant says and another hears."""
    async with scene(over) as made:
        speaker, hearer = made.participant("speaker"), made.participant("hearer")
        await speaker.start()
        await hearer.start()
        heard, done = 0, asyncio.Event()

        def hear(_: object) -> None:
            nonlocal heard
            heard += 1
            if heard == count:
                done.set()

        hearer.on_chat(hear)
        begun = time.perf_counter()
        for _ in range(count):
            await speaker.chat("x" * 200)
        await done.wait()
        return count / (time.perf_counter() - begun)


def call(seconds: float, repeats: int) -> Iterator[Row]:
    count = max(2, int(1500 * seconds))
    memory = median(repeats, lambda: round_trip("memory", count))
    socket = median(repeats, lambda: round_trip("websocket", count))
    yield Row("request and answer over memory", f"{memory * 1e3:.2f} ms")
    yield Row("the same over WebSocket", f"{socket * 1e3:.2f} ms = {socket / memory:.1f} × memory")


def stream(seconds: float, repeats: int) -> Iterator[Row]:
    count = max(2, int(8000 * seconds))
    memory = median(repeats, lambda: a_second("memory", count))
    socket = median(repeats, lambda: a_second("websocket", count))
    yield Row("messages of two participants over memory", f"{memory:.0f}/s")
    yield Row("the same over WebSocket", f"{socket:.0f}/s: memory is {memory / socket:.1f} ×")


# --- agents -------------------------------------------------------------------------------------------------


class AtOnce:
    """A model that calls a tool so many times and answers; it takes no time, and adds up what it took all the same."""

    name = "at once"
    max_tokens = 100_000

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.taken = 0.0

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        begun = time.perf_counter()
        done = sum(message.role == "tool" for message in messages)
        calls = (ToolCall("", "tool/echo", {"text": f"step {done}"}),) if done < self.steps else ()
        reply = Reply("the answer", tool_calls=calls)
        self.taken += time.perf_counter() - begun
        return reply

    async def aclose(self) -> None:
        pass


async def a_step(steps: int) -> float:
    """Seconds of one step beyond the model's and the bare call's own time."""
    async with scene("memory") as made:
        tool, human = made.participant("tool", echo=echo), made.participant("human")
        await tool.start()
        await human.start()
        model = AtOnce(steps)
        agent = MEWAgent(made.participant("agent"), model=model, max_iterations=steps + 1)
        made.made[-1] = agent
        await agent.start()
        await agent.participant.discovery.wait_for_pending_discoveries(10.0)
        await agent.participant.call("tool/echo", {"text": "warm"})
        begun = time.perf_counter()
        for _ in range(steps):
            await agent.participant.call("tool/echo", {"text": "step"})
        bare = time.perf_counter() - begun
        begun = time.perf_counter()
        outcome = await agent.ask("Go")
        assert outcome.how == "answered", outcome
        return (time.perf_counter() - begun - model.taken - bare) / (steps + 1)


def step(seconds: float, repeats: int) -> Iterator[Row]:
    count = max(2, int(300 * seconds))
    beyond = median(repeats, lambda: a_step(count)) * 1e3
    yield Row("a step of an agent beyond model and call", f"{beyond:.2f} ms", f"≤ {STEP_MARK:g} ms")


async def at_once(agents: int) -> tuple[float, int, float]:
    """Seconds until all have answered, how many lost their connection, and the longest time that the loop was held."""
    async with scene("websocket") as made:
        tool, human = made.participant("tool", echo=echo), made.participant("human")
        await tool.start()
        await human.start()
        lost, names = 0, []
        for n in range(agents):
            agent = MEWAgent(made.participant(f"agent-{n}"), model=AtOnce(2), discovery_wait=0)
            made.made[-1] = agent

            def down(_: object) -> None:
                nonlocal lost
                lost += 1

            agent.participant.client.on_disconnected(down)
            await agent.start()
            await agent.participant.discovery.discover_tools("tool")  # the others have none
            names.append(f"agent-{n}")
        longest, watching = 0.0, True

        async def watch() -> None:
            nonlocal longest
            while watching:
                before = time.perf_counter()
                await asyncio.sleep(0.01)
                longest = max(longest, time.perf_counter() - before - 0.01)

        watcher = asyncio.get_running_loop().create_task(watch())
        begun = time.perf_counter()
        await asyncio.gather(*(human.ask("Go", name, timeout=120.0) for name in names))
        took = time.perf_counter() - begun
        watching = False
        await watcher
        return took, lost, longest


def many(seconds: float, repeats: int) -> Iterator[Row]:
    count = AGENTS if seconds >= 0.5 else 3
    took, lost, longest = asyncio.run(at_once(count))
    yield Row(
        f"{count} agents over WebSocket answer at once, two calls each",
        f"{took:.2f} s, loop held at most {longest * 1e3:.0f} ms",
    )
    yield Row("heartbeats missed meanwhile", str(lost), "0")


# --- the table ----------------------------------------------------------------------------------------------


def median(repeats: int, run: Callable[[], Coroutine[Any, Any, float]]) -> float:
    return statistics.median(asyncio.run(run()) for _ in range(repeats))


PARTS: Mapping[str, Callable[[float, int], Iterator[Row]]] = {
    "call": call,
    "stream": stream,
    "step": step,
    "many": many,
}


def main(argv: list[str]) -> None:
    numbers = [word for word in argv if word not in PARTS]
    seconds = float(numbers[0]) if numbers else 2.0
    repeats = int(numbers[1]) if len(numbers) > 1 else 5
    for part in [word for word in argv if word in PARTS] or PARTS:
        for row in PARTS[part](seconds, repeats):
            print(", ".join(one for one in row if one), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
