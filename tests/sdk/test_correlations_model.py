"""Random conversations against the table of waits, compared with a slow reading of the whole history.

The gateway is in the hand of the test, and so is time. After every step the state of each wait is what `verdict` says,
which knows nothing but the history and the rules of the specification (§3.1 to §3.4, §3.8.2, §3.9.3, §3.10, R17, R18).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from mew_lab.errors import MewError
from mew_lab.protocol.payloads.controls import ParticipantStatus
from mew_lab.protocol.payloads.streams import StreamWriteGranted
from mew_lab.sdk.calls import Call
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.transport.link import Link
from mew_lab.transport.memory import MemoryLink, pair

GATEWAY = "system:gateway"
OTHERS = ("a", "b", "eve")
BEHIND = {"svc": "a"}  # a logical name, and the participant that has it now
ACCEPTED_WITHIN, GRACE = 10.0, 2.0
CALLS = ("request", "proposal", "resilient", "question")
SORTS = (*CALLS, "echo", "reply", "settle")
PAYLOAD = {"method": "tools/call", "params": {"name": "look", "arguments": {}}}

Event = dict[str, Any]


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on which time passes when a test says so."""

    now = 0.0

    def time(self) -> float:
        return self.now


# --- the slow reading ---


def members_of(history: Sequence[Event]) -> set[str]:
    here = set(OTHERS)
    for event in history:
        if event["op"] == "join":
            here.add(event["who"])
        elif event["op"] == "leave":
            here.discard(event["who"])
    return here


def verdict(history: Sequence[Event], wait: int) -> str:
    """How the wait has ended by now: what it was given, or the name of the error; empty while it is open."""
    begun = next(n for n, event in enumerate(history) if event["op"] == "send" and event["wait"] == wait)
    sent = history[begun]
    sort, id = sent["sort"], sent["id"]
    proposed = sort in ("proposal", "resilient")
    asked = GATEWAY if sort == "settle" else sent["to"]
    accepted = decided = taken = executing = False
    fulfilment, reasoning = "", set()
    limit = sent["at"] + sent["timeout"] if sent["timeout"] else None
    if sort == "reply":
        limit = sent["at"] + min(sent["timeout"], ACCEPTED_WITHIN)
    for n in range(begun + 1, len(history)):
        event = history[n]
        op = event["op"]
        absent = asked not in members_of(history[: n + 1])
        if op == "time":
            if limit is not None and event["now"] >= limit:
                return "StillRunning" if executing or (sort == "request" and accepted) else "NoReply"
        elif op in ("break", "stop"):
            if executing or sort == "request":
                return "OutcomeLost"
            if op == "stop" or not proposed:
                return "ConnectionLost"
        elif op == "forge" and event["id"] == id:
            taken = taken or not accepted  # an id names the first that used it
        elif op == "echo" and event["id"] == id and accepted:
            decided, fulfilment = False, ""  # its own sender takes an id anew (R6)
        elif op == "echo" and event["id"] == id:
            accepted = True
            if sort == "echo":
                return id
            if sort != "settle":
                asked = event["to"]
                if asked not in members_of(history[:n]):
                    return "NoReply"
            if sort == "reply":
                limit = sent["at"] + sent["timeout"]
                if event["now"] >= limit:
                    return "NoReply"
        elif op == "error" and event["sender"] == GATEWAY and id in event["about"]:
            return "Refused"
        elif op == "leave" and absent and accepted:
            if sort == "request" or (proposed and executing):
                return "OutcomeUnknown"
            if sort in ("question", "reply"):
                return "NoReply"
        elif op == "withdraw" and event["wait"] == wait:
            if sort in ("request", "question") or (proposed and executing):
                return "NoReply"
            if proposed and accepted and not taken:
                return "ProposalWithdrawn"
        elif op == "cancel" and event["wait"] == wait and sort not in CALLS:
            return "CancelledError"
        elif op == "restart":
            if sort == "request" or (proposed and executing):
                return "NoReply"
            if proposed:
                return "ProposalWithdrawn"
        elif op == "say" and event["good"]:
            kind, sender = event["kind"], event["sender"]
            about = id in event["about"]
            honest = sender == asked
            if sort == "request" and kind == "mcp/response" and about and honest:
                return event["id"]
            if sort == "question" and about and honest:
                if kind == "chat":
                    return event["id"]
                if kind == "chat/acknowledge" and event["status"] == "declined":
                    return "NoReply"
                if kind == "reasoning/start":
                    reasoning.add(event["id"])
            if sort == "question" and kind == "reasoning/cancel" and event["context"] in reasoning:
                limit = event["now"] + GRACE
            if sort == "reply" and kind == "participant/status" and about and honest:
                return event["id"]
            if sort == "settle" and kind == "stream/write-granted" and about and sender == GATEWAY:
                return event["id"]
            if not proposed or not accepted or taken:
                continue
            if kind == "mcp/request" and about and not decided:
                if sender != "me" and event["tool"] == "look" and event["to"] == asked:
                    decided, executing, fulfilment = True, True, event["id"]
                    if absent:
                        return "NoReply"
            elif kind == "mcp/response" and decided and fulfilment in event["about"] and honest:
                return event["id"]
            elif kind == "mcp/reject" and about and not decided and sort == "proposal":
                return "ProposalRejected"
            elif kind == "mcp/withdraw" and about and not decided and sender == "me":
                return "ProposalWithdrawn"
    return ""


# --- the real thing ---


class Stage:
    """A participant, its gateway, and what has happened."""

    def __init__(self) -> None:
        self.here, self.end = MemoryLink(), MemoryLink()
        self.client = MEWClient(space="demo", connect_link=self.open, reconnect_delay=0.0)
        self.participant = MEWParticipant(self.client, request_timeout=None)
        self.table = self.participant.correlations
        self.history: list[Event] = []
        self.waits: list[tuple[str, asyncio.Task[Any]]] = []
        self.ended: dict[int, str] = {}
        self.calls: dict[int, Call] = {}
        self.ids = iter(range(10**9))

    async def open(self) -> Link:
        self.here, self.end = pair()
        everybody = [{"id": who, "capabilities": []} for who in sorted(members_of(self.history))]
        you = {"id": "me", "capabilities": [{"kind": "*"}]}
        self.put("system/welcome", {"you": you, "participants": everybody}, GATEWAY, to=["me"])
        return self.here

    def put(self, kind: str, payload: Any, sender: str, *, id: str = "", **members: Any) -> str:
        id = id or f"m{next(self.ids)}"
        said = {"protocol": "mew/v0.4", "ts": "2026-01-01T00:00:00Z", "id": id, "from": sender, "kind": kind}
        self.end.put(json.dumps({**said, "payload": payload, **members}))
        return id

    async def settle(self) -> None:
        """Everything that can run without time has run. The gateway accepts each end of a message whose time is over."""
        for _ in range(25):
            await asyncio.sleep(0)
            while self.here.unread:
                raw = str(await self.end.receive())
                sent = json.loads(raw)
                if sent["kind"] in ("mcp/withdraw", "chat/cancel"):
                    self.end.put(raw)

    async def step(self, op: str, *given: Any) -> None:
        event = getattr(self, f"do_{op}")(*given)
        if event is not None:
            loop = asyncio.get_running_loop()
            self.history.append({"op": op, "now": loop.time(), **event})
        await self.settle()
        if op == "stop":
            await self.participant.stop()
        self.compare()

    def compare(self) -> None:
        for n, (_, task) in enumerate(self.waits):
            if task.done():
                self.ended.setdefault(n, outcome(task))
                assert outcome(task) == self.ended[n]
            assert self.ended.get(n, "") == verdict(self.history, n), (n, self.history)
        assert len(self.table) == sum(not task.done() for _, task in self.waits)

    # --- what may happen ---

    def do_send(self, sort: str, to: str, timeout: float) -> Event | None:
        n, table, start = len(self.waits), self.table, asyncio.ensure_future
        limit = timeout or None
        if sort in ("request", "proposal", "resilient"):
            kind = "mcp/request" if sort == "request" else "mcp/proposal"
            stays = sort == "resilient"
            call = table.call((to,), PAYLOAD, what="look", timeout=limit, kind=kind, resilient=stays)
            id, task = call.id, start(call.outcome())
            self.calls[n] = call
        elif sort == "question":
            call = table.ask("?", (to,), timeout=limit)
            id, task = call.id, start(call.outcome())
            self.calls[n] = call
        else:
            kind, payload = {
                "echo": ("chat", {"text": "x"}),
                "reply": ("participant/request-status", {}),
                "settle": ("stream/grant-write", {"stream_id": "s"}),
            }[sort]
            to = "gateway" if sort == "settle" else to
            timeout = timeout or 15.0
            envelope = self.client.complete({"kind": kind, "to": [to], "payload": payload})
            id = envelope.id
            if sort == "echo":
                task = start(table.send_accepted(envelope, timeout=timeout))
            elif sort == "reply":
                task = start(table.send_answered(envelope, answer=ParticipantStatus, timeout=timeout))
            else:
                task = start(
                    table.send_settled(
                        envelope,
                        answer=StreamWriteGranted,
                        timeout=timeout,
                        read=lambda payload: payload.stream_id,
                    )
                )
        self.waits.append((id, task))
        now = asyncio.get_running_loop().time()
        return {"wait": n, "sort": sort, "id": id, "to": to, "timeout": timeout, "at": now}

    def _sent(self, wait: int) -> Event | None:
        sends = [event for event in self.history if event["op"] == "send"]
        return sends[wait % len(sends)] if sends else None

    def do_echo(self, wait: int) -> Event | None:
        sent = self._sent(wait)
        if sent is None:
            return None
        kinds = {"request": "mcp/request", "proposal": "mcp/proposal", "resilient": "mcp/proposal"}
        kind = kinds.get(sent["sort"], "chat")
        to = BEHIND.get(sent["to"], sent["to"])
        payload = {"jsonrpc": "2.0", "id": 1, **PAYLOAD} if kind in kinds.values() else {"text": "x"}
        self.put(kind, payload, "me", id=sent["id"], to=[to])
        return {"id": sent["id"], "to": to}

    def do_say(self, wait: int, other: int, kind: str, sender: str, good: bool, odd: bool) -> Event | None:
        one, two = self._sent(wait), self._sent(other)
        if one is None or two is None:
            return None
        about = [one["id"], one["id"], two["id"]] if odd else [one["id"]]
        said = [event for event in self.history if event["op"] == "say" and one["id"] in event["about"]]
        event: Event = {"kind": kind, "sender": sender, "good": good, "about": about}
        members: Event = {"correlation_id": about, "to": ["me"]}
        id = f"m{next(self.ids)}"
        payload: Event = {}
        if kind == "mcp/response":
            about += [past["id"] for past in said if past["kind"] == "mcp/request"]
            payload = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": id}]}}
        elif kind == "mcp/request":
            event["tool"], event["to"] = ("look" if not odd else "drop"), BEHIND.get(one["to"], one["to"])
            payload = {"jsonrpc": "2.0", "id": 1, **PAYLOAD, "params": {"name": event["tool"]}}
            members["to"] = [event["to"]]
        elif kind == "chat":
            payload = {"text": id}
        elif kind == "chat/acknowledge":
            event["status"] = "read" if odd else "declined"
            payload = {"status": event["status"]}
        elif kind == "reasoning/cancel":
            starts = [past["id"] for past in said if past["kind"] == "reasoning/start"]
            event["context"] = members["context"] = starts[-1] if starts else "nothing"
            payload = {"reason": "enough"}
        elif kind == "participant/status":
            payload = {"messages_in_context": 1}
        elif kind == "stream/write-granted":
            payload = {"stream_id": id}
        elif kind in ("mcp/reject", "mcp/withdraw"):
            payload = {"reason": "disagree"}
        if not good:
            payload = {key: [] for key in payload}  # nothing of it is what the specification says
            good = event["good"] = kind == "reasoning/start"  # its payload is empty
        self.put(kind, payload, sender, id=id, **members)
        return {**event, "id": id}

    def do_forge(self, wait: int, sender: str) -> Event | None:
        sent = self._sent(wait)
        if sent is None:
            return None
        self.put("mcp/proposal", PAYLOAD, sender, id=sent["id"], to=["a"])
        return {"id": sent["id"]}

    def do_error(self, wait: int, other: int, sender: str) -> Event | None:
        one, two = self._sent(wait), self._sent(other)
        if one is None or two is None:
            return None
        about = [one["id"], "unknown", two["id"]] if wait % 2 else [one["id"]]
        self.put("system/error", {"error": "limit_exceeded"}, sender, correlation_id=about)
        return {"sender": sender, "about": about}

    def do_withdraw(self, wait: int) -> Event | None:
        sent = self._sent(wait)
        if sent is None or sent["sort"] not in CALLS:
            return None
        asyncio.ensure_future(self.calls[sent["wait"]].withdraw())  # noqa: RUF006
        return {"wait": sent["wait"]}

    def do_cancel(self, wait: int) -> Event | None:
        sent = self._sent(wait)
        if sent is None or sent["sort"] in CALLS:
            return None
        self.waits[sent["wait"]][1].cancel()
        return {"wait": sent["wait"]}

    def do_leave(self, who: str) -> Event:
        self.put("system/presence", {"event": "leave", "participant": {"id": who}}, GATEWAY)
        return {"who": who}

    def do_join(self, who: str) -> Event:
        participant = {"id": who, "capabilities": []}
        self.put("system/presence", {"event": "join", "participant": participant}, GATEWAY)
        return {"who": who}

    def do_time(self, seconds: float) -> Event:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.now += seconds
        return {}

    def do_break(self) -> Event:
        asyncio.ensure_future(self.end.close(1006))  # noqa: RUF006
        return {}

    def do_restart(self) -> Event:
        self.table.withdraw_all("restart")
        return {}

    def do_stop(self) -> Event:
        return {}


def outcome(task: asyncio.Task[Any]) -> str:
    """What a wait gave: the id of the answer, or the name of the error."""
    if task.cancelled():
        return "CancelledError"
    if (fault := task.exception()) is not None:
        assert isinstance(fault, MewError), fault
        return type(fault).__name__
    result = task.result()
    if isinstance(result, tuple):  # the envelope and the payload of a reply
        result = result[0]
    return str(getattr(result, "id", "") or result)


async def play(steps: Sequence[tuple[Any, ...]]) -> None:
    stage = Stage()
    await stage.participant.start()
    for step in steps:
        await stage.step(*step)
    await stage.step("stop")
    assert len(stage.table) == 0 and len(stage.ended) == len(stage.waits)


def conversations() -> some.SearchStrategy[list[tuple[Any, ...]]]:
    waits = some.integers(0, 5)
    kinds = ("mcp/response", "mcp/request", "mcp/reject", "mcp/withdraw", "chat", "chat/acknowledge")
    others = ("reasoning/start", "reasoning/cancel", "participant/status", "stream/write-granted")
    senders = some.sampled_from(("a", "a", "b", "eve", "me", GATEWAY))
    tells = (
        waits,
        waits,
        some.sampled_from((*kinds, *others)),
        senders,
        some.sampled_from((True, True, False)),
    )
    times = some.sampled_from((0.5, 2.0, 6.0))
    step = some.one_of(
        some.tuples(
            some.just("send"), some.sampled_from(SORTS), some.sampled_from(("a", "b", "svc")),
            some.sampled_from((0.0, 1.0, 5.0, 15.0)),
        ),
        some.tuples(some.just("echo"), waits),
        some.tuples(some.just("forge"), waits, some.sampled_from(("a", "eve"))),
        some.tuples(some.just("say"), *tells, some.booleans()),
        some.tuples(some.just("say"), *tells, some.booleans()),
        some.tuples(some.just("error"), waits, waits, some.sampled_from((GATEWAY, "eve"))),
        some.tuples(some.sampled_from(("withdraw", "cancel")), waits),
        some.tuples(some.sampled_from(("leave", "join")), some.sampled_from(OTHERS)),
        some.tuples(some.just("time"), times),
        some.sampled_from((("break",), ("restart",))),
    )  # fmt: skip
    return some.lists(step, min_size=3, max_size=30)


ASKED = [("send", "request", "svc", 0.0), ("send", "question", "a", 5.0), ("send", "proposal", "a", 0.0)]
HEARD = [("echo", 0), ("echo", 1), ("echo", 2)]


def say(wait: int, kind: str, sender: str, *, odd: bool = False) -> tuple[Any, ...]:
    return ("say", wait, wait, kind, sender, True, odd)


@pytest.mark.threat(13, 9)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([*ASKED, *HEARD, say(0, "mcp/response", "eve"), say(0, "mcp/response", "a")])
@example([*ASKED, ("leave", "b"), *HEARD])
@example([*ASKED, *HEARD, say(1, "chat/acknowledge", "eve"), say(1, "chat/acknowledge", "a")])
@example([*ASKED, *HEARD, say(1, "reasoning/start", "a"), say(1, "reasoning/cancel", "eve"), ("time", 2.0)])
@example(
    [*ASKED, *HEARD, say(2, "mcp/request", "b"), say(2, "mcp/response", "eve"), say(2, "mcp/response", "a")]
)
@example([*ASKED, *HEARD, ("break",), say(2, "mcp/request", "b"), ("leave", "a")])
@example([*ASKED, ("forge", 2, "eve"), *HEARD, say(2, "mcp/reject", "b"), say(2, "mcp/request", "b")])
@example(
    [
        ("send", "reply", "svc", 15.0),
        ("echo", 0),
        ("time", 6.0),
        ("time", 6.0),
        say(0, "participant/status", "a"),
    ]
)
@example([("send", "settle", "a", 5.0), *(say(0, "stream/write-granted", who) for who in ("a", GATEWAY))])
@example([("send", "echo", "a", 5.0), ("error", 0, 0, "eve"), ("error", 0, 0, GATEWAY)])
@example([("send", "resilient", "a", 0.0), ("echo", 0), say(0, "mcp/reject", "b"), ("restart",)])
@given(steps=conversations())
def test_every_wait_ends_once_as_the_specification_says(steps: list[tuple[Any, ...]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play(steps))
