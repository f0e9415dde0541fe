"""Exchanges that look like faults and are none: each keeps to the specification, close to where a rule begins.

They are put between the others, so that a planted fault stands among traffic in which a careless rule would find more.
Where an exchange changes the rights or the presence of a participant, it restores them before anybody else speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mew_lab.log.diagnose.chats import LOOP_LENGTH, LOOP_SECONDS
from mew_lab.log.diagnose.messages import SKEW
from mew_lab.protocol.text import timestamp
from mew_lab.space.events import Joined, Left

from .planted import Conversation, Steps, ask_to_call, begin_work, choose, end_work, tell_call

__all__ = ["INNOCENT"]


def answers_under_another_id(c: Conversation) -> Steps:
    """A participant whose connection has another id is asked by its name, and answers under that id (R4, R8b)."""
    payload = c.call()
    id = c.request("anna", payload, to="fern")
    yield
    c.answer(id, payload, "anna", sender="fern")


def answers_everybody(c: Conversation) -> Steps:
    payload = c.call()
    id = c.request("bert", payload)
    yield
    c.send(
        "tool", "mcp/response", {"jsonrpc": "2.0", "id": payload["id"], "result": None}, correlation_id=[id]
    )


def works_as_it_may(c: Conversation) -> Steps:
    """A coding agent that is denied a call only reads the file, asks again, and is told otherwise by a prompt."""
    context, path = begin_work(c), f"/srv/{c.new_id()}/notes"
    for option in "nny":  # what is denied ends as failed, which is no failure
        id = c.new_id()
        told = tell_call(c, context, id, "pending", kind="edit")
        choose(c, *ask_to_call(c, context, told, id, rawInput={"path": path}), option)
        end = "completed" if option == "y" else "failed"
        tell_call(c, context, id, end, asked=True, kind="edit", rawInput={"path": path})
    tell_call(c, context, c.new_id(), "completed", kind="read", rawInput={"path": path})
    tell_call(c, context, c.new_id(), "completed", rawInput={"path": path})  # it was allowed after all
    end_work(c, context)
    context = begin_work(c)
    tell_call(c, context, c.new_id(), "completed", rawInput={"command": f"echo > {path}"})
    end_work(c, context)
    yield


def numbers_its_calls_alike(c: Conversation) -> Steps:
    """The JSON-RPC id is the sender's own: any text or number, the same one for several calls."""
    payloads = [{**c.call(), "id": number} for number in (0, 0, "", "a{0}")]
    ids = [c.request("cora", payload) for payload in payloads]
    yield
    for id, payload in zip(reversed(ids), reversed(payloads), strict=True):
        c.answer(id, payload, "cora")


def reports_progress(c: Conversation) -> Steps:
    payload = c.call()
    id = c.request("anna", payload)
    yield
    told = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 2},
    }
    c.request("tool", told, to="anna", correlation_id=[id])
    yield
    c.answer(id, payload, "anna")


def cancels_a_call(c: Conversation) -> Steps:
    """What was cancelled needs no answer; the cancel names the envelope, or the JSON-RPC id as in MCP."""
    who, payload = c.dice.choice(("anna", "bert")), c.call()
    to = c.dice.choice([["tool"], ["tool", "cora"]])
    id = c.send(who, "mcp/request", payload, to=to)
    yield
    told = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": payload["id"], "reason": "no longer needed"},
    }
    c.send(who, "mcp/request", told, to=to, **c.dice.choice([{"correlation_id": [id]}, {}]))


def refers_to_a_chat(c: Conversation) -> Steps:
    asked = c.send("cora", "chat", {"text": "what is in /srv/../x?"})
    yield
    payload = c.call()
    id = c.request("anna", payload, correlation_id=[asked])
    yield
    c.answer(id, payload, "anna")


def calls_four_times(c: Conversation) -> Steps:
    payload = c.call()
    for _ in range(4):
        id = c.request("bert", payload)
        c.answer(id, payload, "bert")
    yield


def is_rejected_and_approved(c: Conversation) -> Steps:
    """Rejections of some do not end a proposal; another may still approve it."""
    payload = c.call("write")
    proposal = c.propose(payload)
    yield
    c.send("anna", "mcp/reject", {"reason": "busy"}, correlation_id=[proposal])
    c.send("bert", "mcp/reject", {"reason": "<b>{sender}</b>"}, correlation_id=[proposal])
    yield
    id = c.request("cora", payload, correlation_id=[proposal])
    yield
    c.answer(id, payload, "cora")


def gives_up_after_a_rejection(c: Conversation) -> Steps:
    proposal = c.propose(c.call("write"))
    c.send("anna", "mcp/reject", {"reason": "busy"}, correlation_id=[proposal])
    yield
    c.send("dan", "mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=[proposal])


def proposes_the_same_twice(c: Conversation) -> Steps:
    payload = c.call("write")
    first, second = c.propose(payload), c.propose(payload)
    yield
    id = c.request("anna", payload, correlation_id=[second])
    yield
    c.answer(id, payload, "anna")
    c.send("dan", "mcp/withdraw", {"reason": "duplicate"}, correlation_id=[first])


def approves_as_another_json(c: Conversation) -> Steps:
    """The same values in another order, with another JSON-RPC id: that is no edit."""
    payload = c.call("write")
    payload["params"]["arguments"] |= {"mode": 1, "force": False}
    proposal = c.propose(payload)
    yield
    arguments = dict(reversed(payload["params"]["arguments"].items())) | {"mode": 1.0}
    sent = {"id": 99, "jsonrpc": "2.0", "params": {"arguments": arguments, "name": "write"}}
    id = c.request("anna", {**sent, "method": "tools/call"}, correlation_id=[proposal])
    c.answer(id, {"id": 99}, "anna")


def does_itself_what_it_proposed(c: Conversation) -> Steps:
    payload = c.call("write")
    proposal = c.send("anna", "mcp/proposal", payload, to=["tool"])
    yield
    c.send("anna", "mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=[proposal])
    id = c.request("anna", payload)
    yield
    c.answer(id, payload, "anna")


def thinks_twice_at_a_time(c: Conversation) -> Steps:
    first = c.send("anna", "reasoning/start", {"message": "one"})
    second = c.send("anna", "reasoning/start", {"message": ""}, context=first)
    yield
    c.send("anna", "reasoning/thought", {"message": "a"}, context=first)
    c.send("anna", "reasoning/thought", {"message": "b"}, context=f"{first}/{second}")
    c.send("bert", "chat", {"text": "go on"}, context=first)
    yield
    c.send("anna", "reasoning/conclusion", {"message": "b"}, context=second)
    c.send("anna", "reasoning/thought", {"message": "c"}, context=first)
    yield
    c.send("anna", "reasoning/conclusion", {"message": "a"}, context=first)


def calls_while_it_thinks(c: Conversation) -> Steps:
    start = c.send("cora", "reasoning/start", {"message": "why"})
    payload = c.call()
    id = c.request("cora", payload, context=start)
    yield
    c.send("bert", "reasoning/cancel", {"reason": "superseded"}, context=start)
    yield
    c.answer(id, payload, "cora")  # the call goes on, the thoughts do not


def lends_a_stream(c: Conversation) -> Steps:
    stream, request = c.stream("anna")
    c.send("anna", "stream/grant-write", {"stream_id": stream, "participant_id": "cora"})
    yield
    c.frame(stream, "cora")
    c.frame(stream, "anna")
    yield
    c.send("anna", "stream/close", {"reason": "complete"}, correlation_id=[request])


def hands_a_stream_over(c: Conversation) -> Steps:
    stream, _ = c.stream("cora")
    c.send("cora", "stream/transfer-ownership", {"stream_id": stream, "new_owner": "bert"})
    yield
    c.frame(stream, "bert")
    c.send("bert", "stream/close", {"stream_id": stream, "reason": "complete"})


def leaves_with_a_stream(c: Conversation) -> Steps:
    stream, _ = c.stream("gus")
    c.frame(stream, "gus")
    yield
    c.rejoin("gus")


def writes_dots(c: Conversation) -> Steps:
    """Two dots within a name lead nowhere, and a right that constrains no path is not led out of."""
    who, path = c.dice.choice(
        [("eve", "/srv/a..b"), ("eve", "/srv/..hidden"), ("eve", "/srv/x..."), ("anna", "/srv/../etc/passwd")]
    )
    payload = c.call()
    payload["params"]["arguments"] = {"path": path, "note": "see ../readme"}
    id = c.request(who, payload)
    yield
    c.answer(id, payload, who)


def talks_a_little(c: Conversation) -> Steps:
    """As many answers as are no loop yet, at once."""
    last = c.send("anna", "chat", {"text": "0"})
    for n in range(1, LOOP_LENGTH - 1):
        last = c.send(("anna", "bert")[n % 2], "chat", {"text": str(n)}, correlation_id=[last])
    yield


def talks_slowly(c: Conversation) -> Steps:
    last = c.send("cora", "chat", {"text": "0"})
    for n in range(1, LOOP_LENGTH + 3):
        c.wait(LOOP_SECONDS + 0.5)
        last = c.send(("cora", "fern")[n % 2], "chat", {"text": str(n)}, correlation_id=[last])
    yield


def tells_everybody_the_same(c: Conversation) -> Steps:
    for n in range(LOOP_LENGTH + 3):
        c.send(("anna", "bert", "cora")[n % 3], "chat", {"text": "good"})
    yield


def has_a_clock_of_its_own(c: Conversation) -> Steps:
    skew = c.dice.choice([-0.9, 0.9]) * SKEW
    c.send("fern", "chat", {"text": "now"}, skew=skew)
    ts = timestamp(c.stage.now + timedelta(milliseconds=7)).replace("Z", "+00:00")
    c.send("gus", "chat", {"text": "the same time, written otherwise"}, ts=ts)
    yield


def does_what_is_allowed_when_paused(c: Conversation) -> Steps:
    said, proposal = c.send("bert", "chat", {"text": "hi"}), c.propose(c.call("write"))
    c.send("anna", "participant/pause", {"reason": "wait"}, to=["dan"])
    c.send("dan", "chat/acknowledge", {"status": "read"}, correlation_id=[said])
    c.send("dan", "mcp/withdraw", {"reason": "other"}, correlation_id=[proposal])
    c.send("anna", "participant/resume", {}, to=["dan"])
    yield


def speaks_after_its_pause(c: Conversation) -> Steps:
    c.send("anna", "participant/pause", {"timeout_seconds": 1}, to=["dan"])
    c.wait(1.5)
    c.send("dan", "chat", {"text": "back"})
    yield


def returns_after_a_shutdown(c: Conversation) -> Steps:
    c.send("anna", "participant/shutdown", {"reason": "update"}, to=["gus"])
    c.rejoin("gus")
    c.send("gus", "chat", {"text": "back"})
    yield


def takes_back_what_it_gave(c: Conversation) -> Steps:
    """A permission that is revoked at once needs no acknowledgement."""
    id = c.send(
        "anna", "capability/grant", {"recipient": "dan", "capabilities": [{"kind": "x/y"}]}, to=["dan"]
    )
    yield
    c.send("anna", "capability/revoke", {"recipient": "dan", "grant_id": id})


def invites(c: Conversation) -> Steps:
    c.count += 1
    given = {"participant_id": f"guest-{c.count}", "initial_capabilities": [{"kind": "chat"}]}
    c.send("anna", "space/invite", given)
    yield


def comes_under_another_id(c: Conversation) -> Steps:
    c.stage.play(Left("c-eve", "gone"), Joined("c-eve", "eve", "eve-2", "websocket"))
    c.send("eve", "chat", {"text": "it is me"})
    c.rejoin("eve")
    yield


def states_more_than_is_asked(c: Conversation) -> Steps:
    counts: dict[str, Any] = {"tokens": 5.5, "max_tokens": 100, "messages_in_context": 0}
    c.send("bert", "participant/status", {**counts, "latency_ms": 3, "{sender}": None})
    yield


def writes_hostile_text(c: Conversation) -> Steps:
    """Text of peers is text: in ids, in names of tools, in arguments, in what is said."""
    c.count += 1
    odd = c.dice.choice(
        ["{sender}", "%s{0}", "\u202etxt.exe", "<img src=x>", "a/b/../c", "\U0001f600", "x" * 200]
    )
    payload = c.call(odd)
    payload["params"]["arguments"] = {odd: [odd, {"..": "../.."}]}
    named = odd.replace("\u202e", "")  # an id holds no characters that hide others (R6)
    id = c.request("anna", payload, id=f"{named}-{c.count}", x_future={"a": [1]})
    c.send("cora", "chat", {"text": odd, "format": "markdown"}, correlation_id=[id])
    yield
    c.answer(id, payload, "anna")


INNOCENT: tuple[Callable[[Conversation], Steps], ...] = (
    *(answers_under_another_id, answers_everybody, numbers_its_calls_alike, reports_progress),
    *(cancels_a_call, refers_to_a_chat, calls_four_times, is_rejected_and_approved),
    *(gives_up_after_a_rejection, proposes_the_same_twice, approves_as_another_json),
    *(does_itself_what_it_proposed, thinks_twice_at_a_time, calls_while_it_thinks, lends_a_stream),
    *(hands_a_stream_over, leaves_with_a_stream, writes_dots, talks_a_little, talks_slowly),
    *(tells_everybody_the_same, has_a_clock_of_its_own, does_what_is_allowed_when_paused),
    *(speaks_after_its_pause, returns_after_a_shutdown, takes_back_what_it_gave, invites),
    *(comes_under_another_id, states_more_than_is_asked, writes_hostile_text),
    works_as_it_may,
)
