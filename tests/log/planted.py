"""Conversations of a real space, clean or with one planted fault at a random place.

The clean conversation is made of exchanges that a well-behaved participant would hold, in random order and interleaved.
A fault is a few messages of its own, put between two of them. It names the rules that a reader of the specification
would expect about its messages.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from mew_lab.protocol.text import timestamp
from mew_lab.space.events import Enrolled, FrameReceived, Joined, Left, Limited, Received, Record

from .stage import Stage

ANY = {"kind": "*"}
GUARDED = {"kind": "mcp/request", "payload": {"params": {"arguments": {"path": "/srv/**"}}}}
ENROLLED = {
    "anna": [ANY],
    "bert": [ANY],
    "cora": [ANY],
    "tool": [ANY],
    "dan": [{"kind": ["chat", "chat/acknowledge", "mcp/proposal", "mcp/withdraw", "capability/grant-ack"]}],
    "eve": [GUARDED, {"kind": "chat"}],
    "fern": [ANY],
    "gus": [ANY],
}
RUNTIME_IDS = {"fern": "fern-1"}  # of connections that have another id than their participant


class Expected(NamedTuple):
    """A rule that is to be found about the message with this id; an empty id is a record without a message."""

    rule: str
    id: str


class Conversation:
    """A conversation in a real space. Every message has a `ts` of its own clock, as clients write it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.stage = Stage(
            edition=3
        )  # in later ones no glob matches a `..` (R33), so it could not be planted
        self.count = 0
        for name, can in ENROLLED.items():
            self.stage.play(Enrolled(name, tuple(can)))
        for name in ENROLLED:
            self.stage.play(Joined(f"c-{name}", name, RUNTIME_IDS.get(name, name), "websocket"))

    @property
    def records(self) -> list[Record]:
        return self.stage.records

    def new_id(self) -> str:
        self.count += 1
        return f"m-{self.count}"

    def send(self, sender: str, kind: str, payload: Any, *, skew: float = 0.0, **members: Any) -> str:
        """Sends a message and returns its id."""
        id = members.pop("id", "") or self.new_id()
        ts = timestamp(self.stage.now + timedelta(seconds=skew))
        envelope = {"id": id, "kind": kind, "ts": ts, **members, "payload": payload}
        self.stage.play(Received(json.dumps(envelope), f"c-{sender}"))
        return id

    def wait(self, seconds: float) -> None:
        self.stage.now += timedelta(seconds=seconds)

    def call(self, name: str = "read") -> dict[str, Any]:
        self.count += 1
        return {
            "jsonrpc": "2.0",
            "id": self.count,
            "method": "tools/call",
            "params": {"name": name, "arguments": {"path": f"/srv/{self.count}"}},
        }

    def request(self, sender: str, payload: dict[str, Any], to: str = "tool", **members: Any) -> str:
        return self.send(sender, "mcp/request", payload, to=[to], **members)

    def answer(self, request: str, payload: dict[str, Any], to: str, sender: str = "tool") -> str:
        result = {"jsonrpc": "2.0", "id": payload["id"], "result": {"content": []}}
        return self.send(sender, "mcp/response", result, to=[to], correlation_id=[request])

    def propose(self, payload: dict[str, Any]) -> str:
        return self.send("dan", "mcp/proposal", payload, to=["tool"])

    def rejoin(self, name: str) -> None:
        self.stage.play(Left(f"c-{name}", "gone"), Joined(f"c-{name}", name, name, "websocket"))

    def frame(self, stream: str, sender: str) -> None:
        self.stage.play(FrameReceived(f"c-{sender}", f"#{stream}#data".encode(), False))

    def stream(self, sender: str) -> tuple[str, str]:
        """Opens a stream; returns its id and that of its request."""
        id = self.send(sender, "stream/request", {"direction": "upload"})
        opened = next(
            json.loads(record.raw)
            for record in reversed(self.records)
            if record.raw is not None and '"stream/open"' in record.raw
        )
        return opened["payload"]["stream_id"], id


Steps = Iterator[None]
_PEOPLE = ("anna", "bert", "cora")


# --- exchanges without a fault; each `yield` is a place for messages of others ---


def greets(c: Conversation) -> Steps:
    first = c.send(c.dice.choice(_PEOPLE), "chat", {"text": "hello"})
    yield
    c.send("dan", "chat/acknowledge", {"status": "received"}, correlation_id=[first])


def calls(c: Conversation) -> Steps:
    who, payload = c.dice.choice((*_PEOPLE, "eve")), c.call()
    id = c.request(who, payload)
    yield
    c.answer(id, payload, who)


def notifies(c: Conversation) -> Steps:
    c.request("tool", {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}, to="anna")
    yield


def asks_two(c: Conversation) -> Steps:
    payload = c.call("list")
    id = c.send("anna", "mcp/request", payload, to=["tool", "bert"])
    yield
    c.answer(id, payload, "anna")
    yield
    c.answer(id, payload, "anna", sender="bert")


def proposes(c: Conversation) -> Steps:
    payload = c.call("write")
    proposal = c.propose(payload)
    yield
    who = c.dice.choice(_PEOPLE)
    id = c.request(who, payload, correlation_id=[proposal])
    yield
    c.answer(id, payload, who)


def rejects(c: Conversation) -> Steps:
    proposal = c.propose(c.call("write"))
    yield
    c.send("anna", "mcp/reject", {"reason": "unsafe"}, correlation_id=[proposal])


def withdraws(c: Conversation) -> Steps:
    proposal = c.propose(c.call("write"))
    yield
    c.send("dan", "mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=[proposal])


def thinks(c: Conversation) -> Steps:
    who = c.dice.choice(_PEOPLE)
    start = c.send(who, "reasoning/start", {"message": "why"})
    yield
    c.send(who, "reasoning/thought", {"message": "so"}, context=start)
    yield
    if c.dice.random() < 0.5:
        c.send(who, "reasoning/conclusion", {"message": "thus"}, context=start)
    else:
        c.send("tool", "reasoning/cancel", {"reason": "timeout"}, context=start)


def streams(c: Conversation) -> Steps:
    who = c.dice.choice(_PEOPLE)
    stream, _ = c.stream(who)
    yield
    c.frame(stream, who)
    yield
    c.send(who, "stream/close", {"stream_id": stream, "reason": "complete"})


def reports(c: Conversation) -> Steps:
    asked = c.send("anna", "participant/request-status", {}, to=["bert"])
    yield
    status = {"tokens": 5, "max_tokens": 100, "messages_in_context": 3}
    c.send("bert", "participant/status", status, correlation_id=[asked])


def grants(c: Conversation) -> Steps:
    given = {"recipient": "dan", "capabilities": [{"kind": f"x/{c.new_id()}"}]}
    id = c.send("anna", "capability/grant", given, to=["dan"])
    yield
    c.send("dan", "capability/grant-ack", {"status": "accepted"}, correlation_id=[id])


def pauses(c: Conversation) -> Steps:
    c.send("anna", "participant/pause", {"reason": "wait"}, to=["dan"])
    c.send("anna", "participant/resume", {}, to=["dan"])
    yield


def returns(c: Conversation) -> Steps:
    """A participant that nobody talks to leaves and comes again."""
    c.rejoin("eve")
    yield


CLEAN: tuple[Callable[[Conversation], Steps], ...] = (
    *(greets, calls, notifies, asks_two, proposes, rejects, withdraws, thinks, streams, reports, grants),
    *(pauses, returns),
)


# --- planted faults ---


def two_and_one_answer(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.send("anna", "mcp/request", payload, to=["tool", "bert"])
    c.answer(id, payload, "anna")
    return [Expected("fan-out-unanswered", id)]


def answer_of_another(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    wrong = c.answer(id, payload, "anna", sender="cora")
    c.answer(id, payload, "anna")
    return [Expected("answer-from-not-asked", wrong)]


def answered_again(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    c.answer(id, payload, "anna")
    return [Expected("answered-twice", c.answer(id, payload, "anna"))]


def proposal_answered(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    answer = c.answer(proposal, payload, "dan")
    c.send("anna", "mcp/reject", {"reason": "busy"}, correlation_id=[proposal])
    return [Expected("answer-to-proposal", answer)]


def approved_without_reference(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    c.propose(payload)
    id = c.request("anna", payload)
    c.answer(id, payload, "anna")
    return [Expected("approval-without-reference", id)]


def withdrawn_by_another(c: Conversation) -> list[Expected]:
    proposal = c.propose(c.call("write"))
    foreign = c.send("bert", "mcp/withdraw", {"reason": "other"}, correlation_id=[proposal])
    c.send("dan", "mcp/withdraw", {"reason": "other"}, correlation_id=[proposal])
    return [Expected("foreign-withdraw", foreign)]


def edited(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    changed = {**payload, "params": {**payload["params"], "arguments": {"path": "/etc/passwd"}}}
    id = c.request("anna", changed, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    return [Expected("edited-approval", id)]


def approved_twice(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    first = c.request("anna", payload, correlation_id=[proposal])
    second = c.request("bert", payload, correlation_id=[proposal])
    c.answer(first, payload, "anna")
    c.answer(second, payload, "bert")
    return [Expected("approved-twice", second)]


def approved_after_withdraw(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    c.send("dan", "mcp/withdraw", {"reason": "other"}, correlation_id=[proposal])
    id = c.request("anna", payload, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    return [Expected("approved-after-withdraw", id)]


def another_call_approved(c: Conversation) -> list[Expected]:
    proposal, payload = c.propose(c.call("write")), c.call("delete")
    id = c.request("anna", payload, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    c.send("anna", "mcp/reject", {"reason": "unsafe"}, correlation_id=[proposal])
    return [Expected("approval-of-other-call", id)]


def other_rpc_id(c: Conversation) -> list[Expected]:
    id = c.request("anna", c.call())
    return [Expected("rpc-id-differs", c.answer(id, {"id": "another"}, "anna"))]


def failing(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    error = {"jsonrpc": "2.0", "id": payload["id"], "error": {"code": -32000, "message": "no such file"}}
    answer = c.send("tool", "mcp/response", error, to=["anna"], correlation_id=[id])
    return [Expected("failed-call", answer)]


def _lose(c: Conversation, sender: str, payload: dict[str, Any], **data: str) -> tuple[str, str]:
    """A call to the tool whose outcome the tool does not know; the ids of the request and of the answer."""
    id = c.request(sender, payload)
    error = {"code": -32001, "message": "it ended", "data": {"code": "outcome_unknown", **data}}
    answer = {"jsonrpc": "2.0", "id": payload["id"], "error": error}
    return id, c.send("tool", "mcp/response", answer, to=[sender], correlation_id=[id])


def lost_call(c: Conversation) -> list[Expected]:
    first, answer = _lose(c, "anna", (payload := c.call()))
    again = {**c.call(), "params": payload["params"]}
    _, refused = _lose(c, "bert", again, request=first)  # it says that it did not run again
    return [Expected("unknown-outcome", answer), Expected("unknown-outcome", refused)]


def lost_call_sent_again(c: Conversation) -> list[Expected]:
    payload = c.call()
    _, answer = _lose(c, "anna", payload)
    again = {**c.call(), "params": payload["params"]}
    id = c.request("bert", again)
    c.answer(id, again, "bert")
    other = c.call()
    c.answer(c.request("bert", other), other, "bert")
    return [Expected("unknown-outcome", answer), Expected("repeated-unknown", id)]


def without_rpc(c: Conversation) -> list[Expected]:
    payload = c.call()
    del payload["jsonrpc"]
    id = c.request("anna", payload)
    c.answer(id, payload, "anna")
    return [Expected("request-without-rpc-members", id)]


def the_same_again(c: Conversation) -> list[Expected]:
    payload, id = c.call(), ""
    for _ in range(5):
        id = c.request("cora", payload)
        c.answer(id, payload, "cora")
    return [Expected("repeated-call", id)]


def thought_after_cancel(c: Conversation) -> list[Expected]:
    start = c.send("anna", "reasoning/start", {"message": "why"})
    c.send("bert", "reasoning/cancel", {"reason": "timeout"}, context=start)
    late = c.send("anna", "reasoning/thought", {"message": "so"}, context=start)
    return [Expected("thought-after-cancel", late)]


def thought_after_conclusion(c: Conversation) -> list[Expected]:
    start = c.send("anna", "reasoning/start", {"message": "why"})
    c.send("anna", "reasoning/conclusion", {"message": "thus"}, context=start)
    late = c.send("anna", "reasoning/thought", {"message": "so"}, context=start)
    return [Expected("thought-after-conclusion", late)]


def frame_after_close(c: Conversation) -> list[Expected]:
    stream, _ = c.stream("anna")
    c.send("anna", "stream/close", {"stream_id": stream, "reason": "complete"})
    c.frame(stream, "anna")
    return [Expected("frame-after-close", "")]


def frame_of_another(c: Conversation) -> list[Expected]:
    stream, _ = c.stream("anna")
    c.frame(stream, "cora")
    c.send("anna", "stream/close", {"stream_id": stream, "reason": "complete"})
    return [Expected("frame-without-right", "")]


def without_direction(c: Conversation) -> list[Expected]:
    id = c.send("anna", "stream/request", {"description": "pictures"})
    c.send("anna", "stream/close", {"reason": "complete"}, correlation_id=[id])
    return [Expected("stream-without-direction", id)]


def paused(c: Conversation) -> list[Expected]:
    c.send("anna", "participant/pause", {"reason": "wait"}, to=["dan"])
    id = c.send("dan", "chat", {"text": "still here"})
    c.send("anna", "participant/resume", {}, to=["dan"])
    return [Expected("sent-while-paused", id)]


def id_of_another(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    c.answer(id, payload, "anna")
    c.request("bert", payload, id=id)
    return [Expected("id-taken", id)]


def id_again(c: Conversation) -> list[Expected]:
    id = c.send("anna", "chat", {"text": "one"})
    c.send("anna", "chat", {"text": "two"}, id=id)
    return [Expected("id-reuse", id)]


def wrong_clock(c: Conversation) -> list[Expected]:
    skew = c.dice.choice([-3600.0, -20.0, 7.0, 1e6])
    return [Expected("clock-skew", c.send("tool", "chat", {"text": "now"}, skew=skew))]


def denied(c: Conversation) -> list[Expected]:
    payload = c.call()
    payload["params"]["arguments"]["path"] = "/etc/passwd"
    return [Expected("denied", c.request("eve", payload))]


def beyond_own(c: Conversation) -> list[Expected]:
    c.send(
        "anna",
        "capability/grant",
        {"recipient": "dan", "capabilities": [{"kind": "capability/grant"}]},
        id="g",
    )
    c.send("dan", "capability/grant-ack", {}, correlation_id=["g"])
    wide = {"recipient": "eve", "capabilities": [{"kind": "mcp/*"}]}
    id = c.send("dan", "capability/grant", wide, to=["eve"])
    c.send("anna", "capability/revoke", {"recipient": "dan", "grant_id": "g"})
    return [Expected("grant-beyond-own", id)]


def dotdot(c: Conversation) -> list[Expected]:
    payload = c.call()
    payload["params"]["arguments"]["path"] = "/srv/../etc/passwd"
    id = c.request("eve", payload)
    c.answer(id, payload, "eve")
    return [Expected("dotdot-under-glob", id)]


def loop(c: Conversation) -> list[Expected]:
    ids = [c.send("anna", "chat", {"text": "0"})]
    for n in range(1, 13):
        who = ("anna", "bert")[n % 2]
        ids.append(c.send(who, "chat", {"text": str(n)}, correlation_id=ids[-1:]))
    return [Expected("answer-loop", ids[9])]


def in_anothers_name(c: Conversation) -> list[Expected]:
    id = c.new_id()
    c.send("cora", "chat", {"text": "I am anna"}, id=id, **{"from": "anna"})
    return [Expected("claimed-other-sender", id)]


def late_withdraw(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    id = c.request("anna", payload, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    late = c.send("dan", "mcp/withdraw", {"reason": "other"}, correlation_id=[proposal])
    return [Expected("late-withdraw", late)]


def late_reject(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    id = c.request("anna", payload, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    late = c.send("bert", "mcp/reject", {"reason": "unsafe"}, correlation_id=[proposal])
    return [Expected("late-reject", late)]


def notification_answered(c: Conversation) -> list[Expected]:
    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    id = c.request("anna", told)
    return [Expected("answer-to-notification", c.answer(id, {"id": 1}, "anna"))]


def answered_elsewhere(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    return [Expected("answer-addressed-elsewhere", c.answer(id, payload, "bert"))]


def answer_without_rpc(c: Conversation) -> list[Expected]:
    id = c.request("anna", c.call())
    answer = c.send("tool", "mcp/response", {"result": {}}, to=["anna"], correlation_id=[id])
    return [Expected("response-without-rpc-members", answer)]


def foreign_conclusion(c: Conversation) -> list[Expected]:
    start = c.send("anna", "reasoning/start", {"message": "why"})
    wrong = c.send("bert", "reasoning/conclusion", {"message": "thus"}, context=start)
    c.send("anna", "reasoning/conclusion", {"message": "thus"}, context=start)
    return [Expected("foreign-conclusion", wrong)]


def late_cancel(c: Conversation) -> list[Expected]:
    start = c.send("anna", "reasoning/start", {"message": "why"})
    c.send("anna", "reasoning/conclusion", {"message": "thus"}, context=start)
    return [Expected("late-cancel", c.send("bert", "reasoning/cancel", {"reason": "x"}, context=start))]


def without_messages(c: Conversation) -> list[Expected]:
    start = c.send("anna", "reasoning/start", {})
    thought = c.send("anna", "reasoning/thought", {}, context=start)
    end = c.send("anna", "reasoning/conclusion", {}, context=start)
    return [
        Expected("start-without-message", start),
        Expected("thought-without-message", thought),
        Expected("conclusion-without-message", end),
    ]


def frame_of_no_stream(c: Conversation) -> list[Expected]:
    c.frame("stream-999", "anna")
    return [Expected("frame-without-stream", "")]


def left_open(c: Conversation) -> list[Expected]:
    stream, _ = c.stream("anna")
    opened = next(
        json.loads(record.raw)["id"]
        for record in reversed(c.records)
        if record.raw is not None and f'"stream_id":"{stream}"' in record.raw
    )
    return [Expected("open-stream", opened)]


def shut_down(c: Conversation) -> list[Expected]:
    c.send("anna", "participant/shutdown", {}, to=["dan"])
    id = c.send("dan", "chat", {"text": "still here"})
    c.rejoin("dan")
    return [Expected("sent-after-shutdown", id)]


def slowed(c: Conversation) -> list[Expected]:
    c.stage.play(Limited("c-anna", 3))
    return [Expected("rate-limited", "")]


def one_reference(c: Conversation) -> list[Expected]:
    first = c.send("anna", "chat", {"text": "hi"})
    id = c.send("bert", "chat/acknowledge", {"status": "read"}, correlation_id=first)
    return [Expected("correlation-no-list", id)]


# --- the same rules, broken in another way ---


def edited_by_a_further_argument(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    arguments = {**payload["params"]["arguments"], "force": True}
    changed = {**payload, "params": {**payload["params"], "arguments": arguments}}
    id = c.request("bert", changed, correlation_id=[proposal])
    c.answer(id, payload, "bert")
    return [Expected("edited-approval", id)]


def approved_twice_and_refused(c: Conversation) -> list[Expected]:
    """The executor carries out one approval, and refuses the other (R32)."""
    payload = c.call("write")
    proposal = c.propose(payload)
    first = c.request("anna", payload, correlation_id=[proposal])
    second = c.request("bert", payload, correlation_id=[proposal])
    c.answer(first, payload, "anna")
    data = {"code": "already_fulfilled", "by": "anna", "request": first}
    error = {"code": -32001, "message": "Not executed: already approved by anna", "data": data}
    refusal = {"jsonrpc": "2.0", "id": payload["id"], "error": error}
    c.send("tool", "mcp/response", refusal, to=["bert"], correlation_id=[second])
    return [Expected("approved-late", second)]


def approved_twice_by_the_same(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    first = c.request("anna", payload, correlation_id=[proposal])
    c.answer(first, payload, "anna")
    second = c.request("anna", payload, correlation_id=[proposal])
    c.answer(second, payload, "anna")
    return [Expected("approved-twice", second)]


def withdrawn_by_its_target(c: Conversation) -> list[Expected]:
    payload = c.call("write")
    proposal = c.propose(payload)
    foreign = c.send("tool", "mcp/withdraw", {"reason": "busy"}, correlation_id=[proposal])
    id = c.request("anna", payload, correlation_id=[proposal])
    c.answer(id, payload, "anna")
    return [Expected("foreign-withdraw", foreign)]


def cancelled_by_another(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": payload["id"]}}
    c.request("bert", told, correlation_id=[id])
    return [Expected("unanswered-request", id)]


def cancelled_one_of_two_alike(c: Conversation) -> list[Expected]:
    """Two calls have the same JSON-RPC id: the newer one is cancelled, the other waits."""
    payload = c.call()
    id = c.request("anna", payload)
    c.request("anna", {**c.call(), "id": payload["id"]})
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": payload["id"]}}
    c.request("anna", told)
    return [Expected("unanswered-request", id)]


def answered_by_an_error_with_a_text_for_a_code(c: Conversation) -> list[Expected]:
    payload = c.call()
    id = c.request("anna", payload)
    error = {"jsonrpc": "2.0", "id": payload["id"], "error": {"code": "NOT_FOUND", "message": "no such tool"}}
    answer = c.send("tool", "mcp/response", error, to=["anna"], correlation_id=[id])
    return [Expected("failed-call", answer), Expected("malformed-answer", answer)]


def thought_after_its_own_cancel(c: Conversation) -> list[Expected]:
    start = c.send("cora", "reasoning/start", {"message": "why"})
    c.send("cora", "reasoning/cancel", {"reason": "superseded"}, context=start)
    c.send("anna", "reasoning/start", {"message": "mine"}, context=start, id=(mine := c.new_id()))
    late = c.send("cora", "reasoning/thought", {"message": "so"}, context=start)
    c.send("anna", "reasoning/conclusion", {"message": "thus"}, context=mine)
    return [Expected("thought-after-cancel", late)]


def frame_after_its_owner_left(c: Conversation) -> list[Expected]:
    stream, _ = c.stream("gus")
    c.rejoin("gus")
    c.frame(stream, "gus")
    return [Expected("frame-after-close", "")]


def id_of_anothers_chat(c: Conversation) -> list[Expected]:
    id = c.send("anna", "chat", {"text": "one"})
    c.send("bert", "chat", {"text": "two"}, id=id)
    return [Expected("id-reuse", id)]


def dotdot_at_the_end(c: Conversation) -> list[Expected]:
    payload = c.call()
    payload["params"]["arguments"]["path"] = c.dice.choice(["/srv/x/..", "/srv/..", "/srv/a/..\\b"])
    id = c.request("eve", payload)
    c.answer(id, payload, "eve")
    return [Expected("dotdot-under-glob", id)]


def loop_of_three(c: Conversation) -> list[Expected]:
    """Each of three agents answers what another one said last."""
    ids = [c.send("anna", "chat", {"text": "0"})]
    for n in range(1, 13):
        ids.append(c.send(("anna", "bert", "cora")[n % 3], "chat", {"text": str(n)}, correlation_id=ids[-1:]))
    return [Expected("answer-loop", ids[9])]


def loop_without_references(c: Conversation) -> list[Expected]:
    ids = []
    for n in range(12):
        who, other = ("fern", "gus") if n % 2 else ("gus", "fern")
        ids.append(c.send(who, "chat", {"text": str(n)}, to=[RUNTIME_IDS.get(other, other)]))
    return [Expected("answer-loop", ids[9])]


# --- what a real space never lets happen, and so is written into its records ---


def forge(c: Conversation, sender: str, kind: str, payload: Any, *, owner: str = "", **about: Any) -> str:
    """Writes a record as if the gateway had accepted, or sent, a message."""
    id = c.new_id()
    envelope = {"protocol": "mew/v0.4", "id": id, "from": sender, "kind": kind, "payload": payload}
    last = c.records[-1]
    who = owner or sender
    fields = {"participant": who, "via": "websocket", "verdict": "accepted", **about}
    c.records.append(Record(last.seq, c.stage.now, "received", "demo", raw=json.dumps(envelope), **fields))
    return id


def spoke_when_gone(c: Conversation) -> list[Expected]:
    gone = {"event": "leave", "participant": {"id": "eve"}}
    back = {"event": "join", "participant": {"id": "eve", "capabilities": []}}
    forge(c, "system:gateway", "system/presence", gone, verdict="sent")
    id = forge(c, "eve", "chat", {"text": "boo"})
    forge(c, "system:gateway", "system/presence", back, verdict="sent")
    return [Expected("message-from-absent", id)]


def not_announced(c: Conversation) -> list[Expected]:
    others = [{"id": "anna", "capabilities": []}]
    welcome = {"you": {"id": "gast", "capabilities": []}, "participants": others}
    others += [{"id": name, "capabilities": []} for name in ENROLLED if name != "anna"]
    id = forge(c, "system:gateway", "system/welcome", welcome, verdict="sent")
    forge(c, "gast", "chat", {"text": "hi"})
    return [Expected("join-not-announced", id)]


# A message that is a fault alone: the name of the fault, the rule, and the message.
_ALONE: dict[str, tuple[str, Callable[[Conversation], str]]] = {
    "unanswered": ("unanswered-request", lambda c: c.request("anna", c.call())),
    "answer_to_nothing": ("response-without-request", lambda c: c.answer("gone-1", {"id": 1}, "anna")),
    "answer_without_reference": (
        "response-without-reference",
        lambda c: c.send("tool", "mcp/response", {"jsonrpc": "2.0", "id": 1, "result": {}}, to=["anna"]),
    ),
    "undecided": ("undecided-proposal", lambda c: c.propose(c.call("write"))),
    "withdraw_of_nothing": (
        "withdraw-without-proposal",
        lambda c: c.send("dan", "mcp/withdraw", {"reason": "other"}, correlation_id=["gone-2"]),
    ),
    "reject_of_nothing": (
        "reject-without-proposal",
        lambda c: c.send("anna", "mcp/reject", {"reason": "other"}, correlation_id=["gone-3"]),
    ),
    "request_to_nobody": ("request-to-nobody", lambda c: c.send("anna", "mcp/request", c.call())),
    "absent_addressee": ("addressee-absent", lambda c: c.request("anna", c.call(), to="nobody")),
    "thought_without_context": (
        "thought-without-context",
        lambda c: c.send("anna", "reasoning/thought", {"message": "so"}),
    ),
    "thought_without_start": (
        "reasoning-without-start",
        lambda c: c.send("anna", "reasoning/thought", {"message": "so"}, context="never-began"),
    ),
    "unfinished": ("unfinished-reasoning", lambda c: c.send("anna", "reasoning/start", {"message": "why"})),
    "own_open": ("foreign-stream-open", lambda c: c.send("anna", "stream/open", {"stream_id": "mine"})),
    "status_without_counts": (
        "status-without-counts",
        lambda c: c.send("bert", "participant/status", {"tokens": 5, "max_tokens": 100}),
    ),
    "status_not_told": (
        "status-request-unanswered",
        lambda c: c.send("anna", "participant/request-status", {}, to=["cora"]),
    ),
    "not_acknowledged": (
        "grant-not-acknowledged",
        lambda c: c.send(
            "anna", "capability/grant", {"recipient": "dan", "capabilities": [{"kind": "x/y"}]}, to=["dan"]
        ),
    ),
    "reserved": ("reserved-kind", lambda c: c.send("anna", "system/presence", {"event": "join"})),
    "unknown_kind": ("unknown-kind", lambda c: c.send("cora", "mcp/telepathy", {})),
    "no_chat": (
        "acknowledge-without-chat",
        lambda c: c.send("anna", "chat/acknowledge", {"status": "read"}, correlation_id=["gone-4"]),
    ),
    "malformed_call": ("malformed-call", lambda c: c.send("anna", "mcp/request", {"method": 7}, to=["tool"])),
    "conclusion_without_context": (
        "conclusion-without-context",
        lambda c: c.send("anna", "reasoning/conclusion", {"message": "thus"}),
    ),
    "cancel_of_nothing": (
        "cancel-without-reasoning",
        lambda c: c.send("anna", "reasoning/cancel", {"reason": "timeout"}, context="never"),
    ),
    "close_of_nothing": (
        "close-without-stream",
        lambda c: c.send("anna", "stream/close", {"reason": "complete"}),
    ),
    "status_without_tokens": (
        "status-without-tokens",
        lambda c: c.send("bert", "participant/status", {"messages_in_context": 3, "tokens": True}),
    ),
    "never_compacted": (
        "compact-unanswered",
        lambda c: c.send("anna", "participant/compact", {}, to=["cora"]),
    ),
    "grant_not_known": (
        "acknowledge-without-grant",
        lambda c: c.send("dan", "capability/grant-ack", {}, correlation_id=["gone-5"]),
    ),
    "refused": ("refused-message", lambda c: c.send("anna", "participant/pause", {}, to=[])),
    "cancelled_no_chat": (
        "cancel-without-chat",
        lambda c: c.send("anna", "chat/cancel", {"reason": "timeout"}, correlation_id=["gone-6"]),
    ),
    "unreadable_time": ("time-unreadable", lambda c: c.send("anna", "chat", {"text": "hi"}, ts="yesterday")),
    "answer_to_a_chat": (
        "response-without-request",
        lambda c: c.answer(c.send("anna", "chat", {"text": "hi"}), {"id": 1}, "anna"),
    ),
    "nobody_of_three_answers": (
        "fan-out-unanswered",
        lambda c: c.send("anna", "mcp/request", c.call(), to=["tool", "bert", "fern"]),
    ),
    "status_with_a_text_for_a_count": (
        "status-without-counts",
        lambda c: c.send(
            "bert", "participant/status", {"tokens": 5, "max_tokens": 9, "messages_in_context": "3"}
        ),
    ),
    "denied_kind": ("denied", lambda c: c.request("dan", c.call())),
}
# And those that no space of ours records.
_FORGED: dict[str, tuple[str, Callable[[Conversation], str]]] = {
    "false_sender": ("sender-not-verified", lambda c: forge(c, "anna", "chat", {"text": "hi"}, owner="cora")),
    "reserved_accepted": (
        "reserved-kind-accepted",
        lambda c: forge(c, "cora", "system/presence", {"event": "x"}),
    ),
    "ack_forged": ("reserved-kind-accepted", lambda c: forge(c, "cora", "space/invite-ack", {})),
    "joined_twice": (
        "joined-twice",
        lambda c: forge(
            c,
            "system:gateway",
            "system/presence",
            {"event": "join", "participant": {"id": "eve", "capabilities": []}},
            verdict="sent",
        ),
    ),
    "left_unseen": (
        "left-without-join",
        lambda c: forge(
            c,
            "system:gateway",
            "system/presence",
            {"event": "leave", "participant": {"id": "ghost"}},
            verdict="sent",
        ),
    ),
    "stream_not_opened": (
        "stream-not-opened",
        lambda c: forge(c, "cora", "stream/request", {"direction": "upload"}),
    ),
}


def _alone(
    name: str, rule: str, send: Callable[[Conversation], str]
) -> Callable[[Conversation], list[Expected]]:
    def fault(c: Conversation) -> list[Expected]:
        return [Expected(rule, send(c))]

    fault.__name__ = name
    return fault


def begin_work(c: Conversation) -> str:
    """A coding agent begins a turn; returns its context."""
    return c.send("gus", "reasoning/start", {"message": "Working on: a shed"})


def tell_call(
    c: Conversation, context: str, id: str, status: str, *, asked: bool = False, **more: Any
) -> str:
    """It tells of a tool call, as the bridge of an ACP agent does."""
    call = {"id": id, "kind": "execute", "title": f"make {id}", "status": status, "asked": asked, **more}
    return c.send("gus", "reasoning/thought", {"message": id, "tool_call": call}, context=context)


def ask_to_call(c: Conversation, context: str, told: str, id: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """It asks for permission of a call; returns the id of the proposal, and its payload."""
    options = [
        {"id": "y", "name": "Yes", "kind": "allow_once"},
        {"id": "n", "name": "No", "kind": "reject_once"},
    ]
    payload = c.call("permission")
    payload["params"]["arguments"] = {"question": f"make {id}", "options": options, "kind": "edit", **more}
    proposal = c.send("gus", "mcp/proposal", payload, to=["gus"], context=context, correlation_id=[told])
    return proposal, payload


def choose(c: Conversation, proposal: str, payload: dict[str, Any], option: str) -> None:
    arguments = {**payload["params"]["arguments"], "option": option}
    sent = {**payload, "params": {**payload["params"], "arguments": arguments}}
    request = c.request("anna", sent, to="gus", correlation_id=[proposal])
    c.answer(request, payload, "anna", sender="gus")


def fails_again_and_again(c: Conversation) -> list[Expected]:
    context, ids = begin_work(c), [c.new_id() for _ in range(3)]
    last = [tell_call(c, context, id, "failed", kind="fetch") for id in ids][-1]
    tell_call(c, context, c.new_id(), "completed", kind="fetch")
    return [Expected("repeated-failure", last), *end_work(c, context)]


def makes_the_same_call_again(c: Conversation) -> list[Expected]:
    context = begin_work(c)
    last = [tell_call(c, context, c.new_id(), "completed", title="make it") for _ in range(5)][-1]
    return [Expected("repeated-call", last), *end_work(c, context)]


def goes_around(c: Conversation, deny: Callable[[str, dict[str, Any]], object]) -> list[Expected]:
    """A call is denied, and then another one does the same without a question."""
    context, id, path = begin_work(c), c.new_id(), f"/srv/{c.new_id()}/notes"
    told = tell_call(c, context, id, "pending", kind="edit")
    deny(*ask_to_call(c, context, told, id, rawInput={"path": path}))
    tell_call(c, context, id, "failed", asked=True, kind="edit", rawInput={"path": path})
    last = tell_call(c, context, c.new_id(), "completed", rawInput={"command": f"echo > {path}"})
    return [Expected("denied-then-otherwise", last), *end_work(c, context)]


def goes_around_a_rejection(c: Conversation) -> list[Expected]:
    return goes_around(
        c, lambda proposal, _: c.send("anna", "mcp/reject", {"reason": "unsafe"}, correlation_id=[proposal])
    )


def goes_around_an_option(c: Conversation) -> list[Expected]:
    return goes_around(c, lambda proposal, payload: choose(c, proposal, payload, "n"))


def end_work(c: Conversation, context: str) -> list[Expected]:
    c.send("gus", "reasoning/conclusion", {"message": "Done."}, context=context)
    c.send("anna", "chat", {"text": "next"}, to=["gus"])
    return []


FAULTS: tuple[Callable[[Conversation], list[Expected]], ...] = (
    *(_alone(name, *fault) for name, fault in _ALONE.items()),
    *(two_and_one_answer, answer_of_another, answered_again, proposal_answered),
    *(approved_without_reference, withdrawn_by_another, edited, approved_twice, approved_after_withdraw),
    *(another_call_approved, other_rpc_id, failing, without_rpc, the_same_again, thought_after_cancel),
    *(thought_after_conclusion, frame_after_close, frame_of_another, without_direction, paused),
    *(id_of_another, id_again, wrong_clock, denied, beyond_own, dotdot, loop, in_anothers_name),
    *(late_withdraw, late_reject, notification_answered, answered_elsewhere, answer_without_rpc),
    *(foreign_conclusion, late_cancel, without_messages, frame_of_no_stream, left_open, shut_down),
    *(slowed, one_reference, spoke_when_gone, not_announced, edited_by_a_further_argument),
    *(approved_twice_by_the_same, withdrawn_by_its_target, approved_twice_and_refused),
    *(cancelled_by_another, cancelled_one_of_two_alike, answered_by_an_error_with_a_text_for_a_code),
    *(lost_call, lost_call_sent_again, thought_after_its_own_cancel, frame_after_its_owner_left),
    *(id_of_anothers_chat, dotdot_at_the_end, loop_of_three, loop_without_references),
    *(fails_again_and_again, makes_the_same_call_again, goes_around_a_rejection, goes_around_an_option),
    *(_alone(name, *fault) for name, fault in _FORGED.items()),
)


def converse(
    seed: int,
    exchanges: int,
    *faults: Callable[[Conversation], list[Expected]],
    kinds: Sequence[Callable[[Conversation], Steps]] = CLEAN,
) -> tuple[list[Record], list[Expected]]:
    """A conversation of so many exchanges with each of the faults at a random place, and what is to be found in it."""
    c = Conversation(seed)
    running: list[Steps] = []
    left = exchanges
    planted_at: dict[int, list[Callable[[Conversation], list[Expected]]]] = {}
    for fault in faults:
        planted_at.setdefault(c.dice.randrange(exchanges), []).append(fault)
    expected: list[Expected] = []
    while left or running:
        c.wait(c.dice.choice([0.01, 0.3, 2.0]))
        if left and (not running or c.dice.random() < 0.4):
            left -= 1
            for fault in planted_at.get(left, ()):
                expected += fault(c)
            running.append(c.dice.choice(kinds)(c))
        at = c.dice.randrange(len(running))
        if next(running[at], "done") == "done":
            del running[at]
    return c.records, expected
