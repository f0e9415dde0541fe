"""How long does one hostile holder stop the others? Prints the loop's longest hold under each of them.

    python tests/benchmarks/bench_holds.py [--seconds N] [NAME …]

The gateway runs in a process of its own, and watches its own loop; each holder comes from outside, with nothing but
its token. `SCALE` (1 by default) makes the attempts smaller, `--seconds` bounds each of them. The mark is 50 ms, which
is printed and not asserted. `longest turn` is the processor time of one event; `loop busy` that of the loop until
others had their turn; `loop held` the same by the clock, with all that the machine did besides. Beside them stand the
longest wait of a victim for the echo of a chat, how often the gateway said `limit_exceeded`, and the most steps that a
turn was charged.

The rows of the second table hold a lab, whose person has its views open and chats: `chat` is the median of what a chat
took, `share` the part of the time that its loop had the processor, `idle loop` what a loop that does nothing was held
beside it, and `being read` how many requests were not read at the end. `flood` beside `trifling` is the last mark: the
person's chat takes at most ten times as long under large proposals as under small ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import websockets

HERE = Path(__file__).parent
SCALE = float(os.environ.get("SCALE", "1"))
HEAVY = str(HERE.parent / "bridge" / "heavy_server.py")  # the MCP server of the attempt `lines`
MARK = 50
PATIENCE = float(os.environ.get("PATIENCE", "90"))  # seconds for the answer to one message
_numbers = itertools.count(1)


def scaled(count: int) -> int:
    return max(int(count * SCALE), 2)


class Holder:
    """One connection from outside: it sends, and reads all that comes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refused = 0
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def open(self, port: int, token: str, runtime_id: str = "") -> Holder:
        self.ws = await websockets.connect(
            f"ws://127.0.0.1:{port}/ws?space=s",
            proxy=None,
            max_size=None,
            additional_headers={"Authorization": f"Bearer {token}"},
            open_timeout=PATIENCE,
            ping_interval=None,
        )
        if runtime_id:
            await self.ws.send(json.dumps({"type": "join", "participantId": runtime_id}))
        async with asyncio.timeout(PATIENCE):
            self.welcome = json.loads(await self.ws.recv())
        self.reading = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.ws:
                if isinstance(text, bytes) or not self.answers:
                    continue
                unread = '"system/error"' in text[:300] and '"correlation_id"' not in text[:300]
                if not unread and not any(id in text for id in self.answers):
                    continue
                said = json.loads(text)
                named = (
                    list(self.answers) if unread else [said.get("id"), *(said.get("correlation_id") or ())]
                )
                for id in named:  # what was never read cannot be named
                    waiting = self.answers.pop(id, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(said)
        for waiting in self.answers.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError(f"{self.name} was cut: {self.ws.close_reason}"))

    async def send(self, kind: str, payload: dict[str, Any], **members: Any) -> dict[str, Any]:
        """Sends, and waits for the echo or the error."""
        id = f"h{os.getpid()}-{next(_numbers)}x"
        return await self.text(id, json.dumps({"id": id, "kind": kind, "payload": payload, **members}))

    async def text(self, id: str, text: str) -> dict[str, Any]:
        self.answers[id] = asyncio.get_running_loop().create_future()
        await self.ws.send(text)
        async with asyncio.timeout(PATIENCE):  # wait_for of Python 3.11 may lose a cancellation
            said = await self.answers[id]
        self.refused += said["payload"].get("error") == "limit_exceeded"
        return said

    async def flood(self, messages: list[tuple[str, dict[str, Any]]]) -> None:
        """Sends all without waiting; then waits for the last."""
        for kind, payload in messages[:-1]:
            await self.ws.send(json.dumps({"id": f"f{next(_numbers)}", "kind": kind, "payload": payload}))
        await self.send(*messages[-1])

    async def close(self) -> None:
        self.reading.cancel()
        self.ws.transport.abort()  # a handshake would wait for whoever does not read any more


class Scene:
    """A gateway from outside."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self.port, self.tokens = port, tokens
        self.here: list[Holder] = []

    async def holder(self, name: str, token: str = "") -> Holder:
        self.here.append(await Holder(name).open(self.port, token or self.tokens[name]))
        return self.here[-1]

    async def again(self, name: str, runtime_id: str) -> Holder:
        """One more connection of somebody, under another id."""
        self.here.append(await Holder(name).open(self.port, self.tokens[name], runtime_id))
        return self.here[-1]

    async def judged(
        self, pattern: Callable[[int], dict[str, Any]], payload: dict[str, Any], count: int
    ) -> None:
        """Somebody with as many costly capabilities as it can be given sends one message."""
        giver, middle = await self.holder("giver"), await self.holder("middle")
        given = 0
        capabilities = [{"kind": "chat", "payload": pattern(n)} for n in range(scaled(count))]
        while capabilities:  # what is refused at once may be given in smaller numbers
            part = capabilities[: max(1, len(capabilities) >> min(given.bit_length(), 3))]
            said = await giver.send("capability/grant", {"recipient": "middle", "capabilities": part})
            if said["kind"] == "system/error" and len(capabilities) > 1:
                capabilities = capabilities[: len(capabilities) // 2]
                continue
            break
        await middle.send("chat", payload)


Attempt = Callable[[Scene], Awaitable[None]]


async def globs(scene: Scene) -> None:
    """Nine hundred globs in the middle of many strings."""
    text = ["abcdeabcde" * 50 for _ in range(scaled(400))]
    await scene.judged(lambda n: {"**": f"*a*b*c*d*e*f{n}"}, {"l": text}, 990)


async def expressions(scene: Scene) -> None:
    """Nine hundred large expressions."""
    text = ["abcabc" * 4000 for _ in range(scaled(40))]
    await scene.judged(lambda n: {"**": f"/(a|b|c){{1,200}}(d|e){{1,100}}z{n}/"}, {"t": text}, 990)


async def paths(scene: Scene) -> None:
    """Deep JSONPath."""
    value = {"a": [{str(at): at for at in range(60)} for _ in range(scaled(60))]}
    await scene.judged(lambda n: {f"$..*..*..*[?@.x{n}]": "no"}, value, 990)


async def negations(scene: Scene) -> None:
    """Negations of globs at any depth."""
    value = {"a": [[["abcabcabc"] * 20] * 20] * scaled(40)}
    await scene.judged(lambda n: {"**": [f"!*z{n}*y", f"*z{n}*y"]}, value, 990)


async def giants(scene: Scene) -> None:
    """Grants of nearly a mebibyte to each."""
    giver = await scene.holder("giver")
    for n in range(scaled(6)):
        text = f"{n}" + "A" * 990_000
        await giver.send(
            "capability/grant",
            {"recipient": f"p{n}", "capabilities": [{"kind": "chat", "payload": {"text": text}}]},
        )


async def trifles(scene: Scene) -> None:
    """Revokes of a trifle while much is held."""
    giver = await scene.holder("giver")
    many = [{"kind": "chat", "payload": {"text": f"t{n}"}} for n in range(990)]
    for n in range(scaled(12)):
        await giver.send("capability/grant", {"recipient": f"p{n}", "capabilities": many[: scaled(990)]})
        await giver.send("capability/grant", {"recipient": f"p{n}", "capabilities": many[: scaled(400)]})
    for _ in range(2):
        said = await giver.send(
            "capability/grant",
            {"recipient": "p0", "capabilities": [{"kind": "chat", "payload": {"text": "zz"}}]},
        )
        await giver.send("capability/revoke", {"recipient": "p0", "grant_id": said.get("id", "")})


async def proposals(scene: Scene) -> None:
    """A flood of proposals."""
    proposer = await scene.holder("proposer")
    body = {"method": "tools/call", "params": {"name": "x", "arguments": {}}}
    await proposer.flood([("mcp/proposal", body)] * scaled(5000))


async def grants(scene: Scene) -> None:
    """A flood of grants."""
    giver = await scene.holder("giver")
    await giver.flood(
        [
            (
                "capability/grant",
                {
                    "recipient": "middle",
                    "capabilities": [{"kind": "chat", "payload": {"text": f"g{n}" * 20}}],
                },
            )
            for n in range(scaled(1500))
        ]
    )


async def invites(scene: Scene) -> None:
    """A flood of invites."""
    inviter = await scene.holder("inviter")
    await inviter.flood([("space/invite", {"participant_id": f"n{n}"}) for n in range(scaled(990))])


async def streams(scene: Scene) -> None:
    """A flood of streams, and of frames that nobody may write."""
    streamer = await scene.holder("streamer")
    await streamer.flood([("stream/request", {"description": "x" * 3000})] * scaled(300))
    for _ in range(scaled(3000)):
        await streamer.ws.send(b"#stream-9999#data")
    await streamer.send("stream/request", {})


async def wide(scene: Scene) -> None:
    """Messages near the limit, of as many values as fit."""
    talker = await scene.holder("talker")
    size = max(int(1_040_000 * SCALE), 1000)
    for unit in ("[],", '{"a":{}},', "[[[[[[]]]]]],", "0.1,", '"",'):
        id = f"w{next(_numbers)}x"
        items = (unit * (size // len(unit)))[:-1]
        await talker.text(id, f'{{"id":"{id}","kind":"chat","payload":{{"t":[{items}]}}}}')


async def deep(scene: Scene) -> None:
    """Messages near the limit, as deep as a message may be."""
    talker = await scene.holder("talker")
    unit = "[" * 60 + "]" * 60 + ","
    id = f"d{next(_numbers)}x"
    items = (unit * (max(int(1_040_000 * SCALE), 1000) // len(unit)))[:-1]
    await talker.text(id, f'{{"id":"{id}","kind":"chat","payload":{{"t":[{items}]}}}}')


async def patterns(scene: Scene) -> None:
    """A revoke by a thousand patterns that overlap all that is held."""
    giver = await scene.holder("giver")
    many = [{"kind": "chat", "payload": {"text": f"t{n}*x*"}} for n in range(scaled(900))]
    for at in range(0, len(many), 300):
        await giver.send("capability/grant", {"recipient": "middle", "capabilities": many[at : at + 300]})
    overlapping = [{"kind": "chat", "payload": {"text": f"*{n}*y"}} for n in range(scaled(900))]
    await giver.send("capability/revoke", {"recipient": "middle", "capabilities": overlapping})


async def chain(scene: Scene) -> None:
    """A kick of who stands at the head of a long delegation."""
    root = await scene.holder("root")
    right = [{"kind": "capability/grant"}, *({"kind": f"k{n}/x"} for n in range(20))]
    await root.send("capability/grant", {"recipient": "middle", "capabilities": right})
    length = scaled(60)
    for n in range(length):
        name = "middle" if n == 0 else f"p{n - 1}"
        holder = await scene.holder(name)
        await holder.send("capability/grant", {"recipient": f"p{n}", "capabilities": right})
    await root.send("space/kick", {"participant_id": "middle"})


async def welcomes(scene: Scene) -> None:
    """Everybody is here, everybody gets something, and the giver is kicked: a welcome to each."""
    root, giver = await scene.holder("root"), await scene.holder("giver")
    for n in range(scaled(60)):
        await scene.holder(f"p{n}")
    for n in range(scaled(60)):
        rights = [{"kind": "chat", "payload": {"text": f"{n}" + "w" * 900}}]
        await giver.send("capability/grant", {"recipient": f"p{n}", "capabilities": rights})
    await root.send("space/kick", {"participant_id": "giver"})


async def heavy(scene: Scene) -> None:
    """The same where a welcome has most of a mebibyte."""
    root, giver = await scene.holder("root"), await scene.holder("giver")
    for n in range(scaled(60)):
        rights = [{"kind": f"k{n}", "payload": {"text": "w" * 13_000}}]
        await root.send("capability/grant", {"recipient": f"p{n}", "capabilities": rights})
    for n in range(scaled(60)):
        await giver.send("capability/grant", {"recipient": f"p{n}", "capabilities": [{"kind": "chat"}]})
    for n in range(scaled(60)):
        await scene.holder(f"p{n}")
    await root.send("space/kick", {"participant_id": "giver"})
    await root.send("capability/revoke", {"recipient": "p0", "capabilities": [{"kind": "k0"}]})


async def nearest(scene: Scene) -> None:
    """Messages that no capability permits, and whose reasons are costly to find."""
    giver, middle = await scene.holder("giver"), await scene.holder("middle")
    payload = {f"f{n}": "*a*b*c*d*e*f" for n in range(6)}
    await giver.send(
        "capability/grant", {"recipient": "middle", "capabilities": [{"kind": "chat", "payload": payload}]}
    )
    text = "abcde" * scaled(200_000 // 5)
    for _ in range(4):
        await middle.send("chat", {f"f{n}": text for n in range(5)})


async def limited(scene: Scene) -> None:
    """Nine hundred rights of some uses: messages, grants and frames by them."""
    giver = await scene.holder("giver")
    rights = [{"kind": "chat", "payload": {"text": f"t{n}*"}} for n in range(scaled(900))]
    rights += [{"kind": "capability/grant"}]
    for one in range(0, len(rights), 30):
        await giver.send(
            "capability/grant",
            {
                "recipient": "middle",
                "capabilities": rights[one : one + 30],
                "max_uses": 100 + one,
                "expires_at": "2100-01-01T00:00:00Z",
            },
        )
    middle = await scene.holder("middle")
    for n in (0, 1, len(rights) - 2):
        await middle.send("chat", {"text": f"t{n}x"})
        await middle.send("chat", {"text": "nothing"})
        await middle.send(
            "capability/grant",
            {"recipient": "p0", "capabilities": [{"kind": "chat", "payload": {"text": f"t{n}y"}}]},
        )
    await middle.send("capability/grant", {"recipient": "p1", "capabilities": rights[: scaled(300)]})


async def crowd(scene: Scene) -> None:
    """One holder with as many connections as it may have, all flooding."""
    many = [await scene.holder("talker") for _ in range(1)]
    for n in range(7):
        many.append(await scene.again("talker", f"talker{n}"))
    await asyncio.gather(*(one.flood([("chat", {"text": "x" * 500})] * scaled(1500)) for one in many))


async def broken(scene: Scene) -> None:
    """Messages near the limit that are no JSON, wrong at their very end, or hold words that are looked for."""
    talker = await scene.holder("talker")
    size = max(int(1_040_000 * SCALE), 1000)
    for begin, unit in (
        ('"a":[', "[],"),
        ('"a":[', "1,"),
        ('"a":[', '"join",'),
        ('"a":"', "\\u0041"),
        ('"a":"', '\\"'),
        ('"a":[', '{"a":1},'),
    ):
        id = f"b{next(_numbers)}x"
        await talker.text(id, f'{{"id":"{id}","kind":"chat","payload":{{{begin}{unit * (size // len(unit))}]')


async def lines(scene: Scene) -> None:
    """A server that is bridged on the loop of the gateway, as in a lab, answers with lines of each shape and size."""
    root = await scene.holder("root")
    for size in (250_000, 900_000, 1_900_000, 7_000_000):
        for shape in ("lists", "nested", "objects", "numbers", "text", "keys"):
            params = {"name": shape, "arguments": {"size": scaled(size)}}
            await root.send("mcp/request", {"method": "tools/call", "params": params}, to=["server"])
    last = {"name": "text", "arguments": {"size": 10}}
    id = f"h{os.getpid()}-last"
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": last}
    envelope = {"id": id, "kind": "mcp/request", "to": ["server"], "payload": payload}
    await root.text(id, json.dumps(envelope))
    root.answers[id] = asyncio.get_running_loop().create_future()
    await root.answers[id]


# --- a lab ------------------------------------------------------------------------------------------------------------

WORDS = "the orchid ledger of Monday says write to mail@evil.test about number 4711 and the gate of Turin "


def call(arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "t", "arguments": arguments, **params}}


def large(of: str) -> dict[str, Any]:
    """Arguments near the limit, of one shape."""
    size = max(int(900_000 * SCALE), 2000)
    values: dict[str, Callable[[], dict[str, Any]]] = {
        "numbers": lambda: {"a": [n + 0.5 for n in range(size // 9)]},
        "lists": lambda: {"a": [[] for _ in range(size // 8)]},
        "keys": lambda: {f"k{n}": n for n in range(size // 16)},
        "quotes": lambda: {f"a{n}": WORDS[n % 60 :] for n in range(size // 450)},
        "names": lambda: {"a": [f"раураl {n}" for n in range(size // 100)]},
        "letters": lambda: {"a": "раураl " * (size // 12)},
        "shell": lambda: {"a": "; ./a " * (size // 6)},
        "prose": lambda: {"a": WORDS * (size // len(WORDS))},
    }
    return values[of]()


def shapes(of: str) -> Attempt:
    async def attempt(scene: Scene) -> None:
        proposer, tool = await scene.holder("proposer"), await scene.holder("tool")
        await tool.send("mcp/response", {"result": {"content": [{"type": "text", "text": WORDS * 900}]}})
        for _ in range(2):
            await proposer.send("mcp/proposal", call(large(of)), to=["anna"])
            await asyncio.sleep(1)  # each holds the loop by itself

    attempt.__doc__ = f"Two proposals of {of}."
    return attempt


async def approved(scene: Scene) -> None:
    """A proposal of each shape, which is approved."""
    proposer, tool = await scene.holder("proposer"), await scene.holder("tool")
    for of in ("numbers", "lists", "keys", "prose"):
        sent = await proposer.send("mcp/proposal", call(large(of)), to=["tool"])
        while sent["kind"] != "mcp/request":  # it names the proposal
            tool.answers[sent["correlation_id"][0] if sent.get("correlation_id") else sent["id"]] = answer = (
                asyncio.get_running_loop().create_future()
            )
            async with asyncio.timeout(PATIENCE):
                sent = await answer


async def addressees(scene: Scene) -> None:
    """Proposals to thirty thousand."""
    proposer = await scene.holder("proposer")
    await proposer.send("mcp/proposal", call({"a": 1}), to=[f"п{n}" for n in range(scaled(30_000))])


async def answers(scene: Scene) -> None:
    """Answers near the limit."""
    tool = await scene.holder("tool")
    for text in (
        WORDS * (scaled(900_000) // len(WORDS)),
        "; ./a " * scaled(150_000),
        "раураl " * scaled(70_000),
    ):
        await tool.send("mcp/response", {"result": {"content": [{"type": "text", "text": text}]}})
        await asyncio.sleep(1)  # each holds the loop by itself


async def tools(scene: Scene) -> None:
    """Lists of many tools, and of one large one, that the person asked for."""
    tool, victim = await scene.holder("tool"), await scene.holder("victim")
    schema = {"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(scaled(30_000))}}
    many = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(scaled(5000))]
    wide = [{"name": "t", "inputSchema": {"type": "object"}, "_meta": large("keys")}]
    for listed in ([{"name": "t", "inputSchema": schema}], many, many[::-1], wide):
        id = f"list{next(_numbers)}x"
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        await victim.text(id, json.dumps({"id": id, "kind": "mcp/request", "to": ["tool"], "payload": body}))
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}
        await tool.send("mcp/response", answer, correlation_id=[id], to=["victim"])
        await asyncio.sleep(1)  # each holds the loop by itself


async def kinds(scene: Scene) -> None:
    """Each other kind that a proposer may send, near the limit."""
    proposer = await scene.holder("proposer")
    for of in ("prose", "numbers", "keys"):
        wide = large(of)
        await proposer.send("chat", {"text": json.dumps(wide)})
        await proposer.send("chat", {"text": "x", **wide})
        await proposer.send("reasoning/start", {"message": json.dumps(wide)})
        await proposer.send("reasoning/thought", {"message": "x", **wide}, context="c")
        await proposer.send("participant/status", wide)
        await proposer.send("mcp/withdraw", {"reason": "other", **wide}, correlation_id=["none"])
        await proposer.send("capability/grant-ack", wide, correlation_id=["none"])


async def flood(scene: Scene) -> None:
    """Large proposals without a pause."""
    proposer, second = await scene.holder("proposer"), await scene.holder("tool")
    await second.send("mcp/response", {"result": {"content": [{"type": "text", "text": WORDS * 900}]}})
    shapes = ("numbers", "quotes", "names", "shell", "prose")
    bodies = [json.dumps(call(large(of))) for of in shapes]  # once, for the processor is the lab's
    while True:
        for body in bodies:
            id = f"l{next(_numbers)}x"
            text = f'{{"id":"{id}","kind":"mcp/proposal","to":["anna"],"payload":{body}}}'
            if body is bodies[-1]:
                await proposer.text(id, text)
            else:
                await proposer.ws.send(text)


async def trifling(scene: Scene) -> None:
    """Small proposals without a pause."""
    proposer = await scene.holder("proposer")
    while True:
        await proposer.flood([("mcp/proposal", call({"a": 1}))] * 50)


LAB: dict[str, Attempt] = {
    **{of: shapes(of) for of in ("numbers", "lists", "keys", "quotes", "names", "letters", "shell", "prose")},
    **{one.__name__: one for one in (approved, addressees, answers, tools, kinds, trifling, flood)},
}

ATTEMPTS: dict[str, Attempt] = {
    one.__name__: one
    for one in (
        globs,
        expressions,
        paths,
        negations,
        giants,
        trifles,
        proposals,
        grants,
        invites,
        streams,
        wide,
        deep,
        patterns,
        chain,
        welcomes,
        heavy,
        nearest,
        limited,
        crowd,
        broken,
        lines,
    )
}


class Child:
    """The process of the gateway; a thread reads what it prints, so that waiting for it can end."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "holds.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines = queue.Queue[str]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def said(self, within: float) -> dict[str, Any] | None:
        """The next line; None where none came."""
        try:
            return dict(json.loads(self.lines.get(timeout=within)))
        except queue.Empty:
            return None

    def ask(self, within: float) -> dict[str, Any] | None:
        """What was longest since the last question; None where the loop is still held."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.said(within)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


async def in_lab(attempt: Attempt, child: Child, seconds: float) -> str:
    """What one row says of a lab."""
    about = child.said(PATIENCE)
    assert about is not None, "the lab did not start"
    scene = Scene(about["port"], about["tokens"])
    child.ask(PATIENCE)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await attempt(scene)
    found = await asyncio.to_thread(child.ask, PATIENCE)
    for one in scene.here:
        await one.close()
    assert found is not None, "the loop is held"
    times = "".join(f"{found[name]:15.0f}" for name in ("busy", "held", "idle"))
    return f"{times}{found['share']:15.2f}{found['chat']:15.1f}{found['unread']:12}"


async def under(attempt: Attempt, child: Child, seconds: float) -> str:
    """What one row says of an attempt."""
    about = child.said(PATIENCE)
    assert about is not None, "the gateway did not start"
    scene = Scene(about["port"], about["tokens"])
    victim = await scene.holder("victim")
    waited, since = [0.0], [0.0]

    async def talk() -> None:
        while True:
            since[0] = time.perf_counter()
            await victim.send("chat", {"text": "hello"})
            waited[0] = max(waited[0], time.perf_counter() - since[0])
            since[0] = 0.0
            await asyncio.sleep(0.01)

    child.ask(PATIENCE)
    talking = asyncio.create_task(talk())
    cut = ""
    try:
        async with asyncio.timeout(seconds):
            await attempt(scene)
    except TimeoutError:
        cut = f"  cut after {seconds:g} s"
    if since[0]:
        waited[0] = max(waited[0], time.perf_counter() - since[0])
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    found = await asyncio.to_thread(child.ask, 2.0)
    refused = sum(one.refused for one in scene.here)
    for one in scene.here:
        await one.close()
    if found is None:
        return f"{f'>{seconds:g} s':>15}{'':15}{'':15}{waited[0] * 1e3:15.0f}{refused:16}{'?':>9}{cut}"
    times = "".join(f"{found[name]:15.0f}" for name in ("turn", "busy", "held"))
    return f"{times}{waited[0] * 1e3:15.0f}{refused:16}{found['steps']:9}{cut}"


def main(argv: list[str]) -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description="How long does one hostile holder stop the others?")
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*ATTEMPTS, *LAB)))
    arguments.add_argument("--seconds", type=float, default=5.0, help="that one attempt may take")
    asked = arguments.parse_args(argv)
    names = asked.names or [*ATTEMPTS, *LAB]
    heads = ("longest turn", "loop busy", "loop held", "victim waited")
    if not LAB.keys() >= set(names):
        print(
            f"{'holder':12}{''.join(f'{one:>15}' for one in heads)}{'limit_exceeded':>16}{'steps':>9}"
            f"  mark ≤ {MARK} ms"
        )
    for name in (name for name in names if name in ATTEMPTS):
        child = Child(str(scaled(64) + 2), *([HEAVY] if name == "lines" else []))
        try:
            print(f"{name:12}{asyncio.run(under(ATTEMPTS[name], child, asked.seconds))}", flush=True)
        finally:
            child.close()
    heads = ("loop busy", "loop held", "idle loop", "share", "chat")
    if not ATTEMPTS.keys() >= set(names):
        print(f"{'in a lab':12}{''.join(f'{one:>15}' for one in heads)}{'being read':>12}  mark ≤ {MARK} ms")
    for name in (name for name in names if name in LAB):
        child = Child("lab", name)
        try:
            print(f"{name:12}{asyncio.run(in_lab(LAB[name], child, asked.seconds))}", flush=True)
        finally:
            child.close()


if __name__ == "__main__":
    main(sys.argv[1:])
