"""Checks the form of messages in both directions: a gateway accepts every envelope, and nothing else.

Spec: §3, §3.5.6, §6.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mew_lab.conformance.session import CheckGroup, CheckSession

__all__ = ["checks"]

checks = CheckGroup()

RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)

# Every kind of §3 that a participant may send and on which the gateway does not act itself, with a payload.
PASSED_ON: dict[str, dict[str, Any]] = {
    "mcp/request": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    "mcp/response": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "mcp/proposal": {"method": "tools/list"},
    "mcp/withdraw": {"reason": "no_longer_needed"},
    "mcp/reject": {"reason": "unsafe"},
    "chat": {"text": "hello", "format": "plain"},
    "chat/acknowledge": {"status": "received"},
    "chat/cancel": {"reason": "duplicate"},
    "reasoning/start": {"message": "because"},
    "reasoning/thought": {"message": "of"},
    "reasoning/conclusion": {"message": "this"},
    "reasoning/cancel": {"reason": "superseded"},
    "capability/grant-ack": {"status": "accepted"},
    "participant/request-status": {"fields": ["tokens"]},
    "participant/status": {"messages_in_context": 0},
    "participant/forget": {"direction": "oldest", "entries": 1},
    "participant/compact": {"target_tokens": 100},
    "participant/compact-done": {"skipped": True},
    "participant/clear": {},
    "participant/restart": {},
}


@checks.shows("P-3-1")
async def check_one_message_is_one_json_object(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    good = json.dumps(session.chat("one"))
    before = human.mark
    for bad in (f"{good}{good}", f"[{good}]", "hello", '"chat"', "5", "null", "", "{", good[:-1]):
        outcome = await admin.attempt(bad)
        session.report(outcome.refused, f"the text {bad[:30]!r} was not answered by system/error")
    await human.settle()
    passed_on = [
        received for received in human.inbox[before:] if not str(received.kind).startswith("system/")
    ]
    session.report(not passed_on, "a text that is no JSON object reached a participant")
    odd = [received.raw for received in [*admin.inbox, *human.inbox] if not isinstance(received.kind, str)]
    session.report(not odd, f"the gateway sent a text that is no envelope: {odd[:1]}")


@checks.shows("P-3-2", "P-6.1-1")
async def check_another_version_is_refused(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    for version in ("mew/v0.3", "mew/v0.40", "MEW/V0.4", "", 4, None):
        outcome = await session.expect_refusal(admin, session.chat("hello") | {"protocol": version}, human)
        session.report(outcome.refused, f"a message with protocol {version!r} was accepted")
    chat = session.chat("hello")
    del chat["protocol"]
    await admin.attempt(chat)
    await human.settle()
    versions = {received.members.get("protocol") for received in [*admin.inbox, *human.inbox]}
    session.report(versions == {"mew/v0.4"}, f"messages arrived with protocol {versions}", "P-3-2")


@checks.shows("P-3-4", "P-3-6", "P-3-9", "P-3-17", "P-3-21", "P-6.4-1")
async def check_members_have_their_types(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    wrong: dict[str, dict[str, list[Any]]] = {
        "P-3-6": {"to": ["human", [1], {}, ["human", None], 1]},
        "P-3-9": {"correlation_id": [7, [7], {}]},
        "P-3-17": {"context": [5, ["a"], {}]},
        "P-3-21": {"payload": [[], "text", 5]},
    }
    for row, members in wrong.items():
        for member, values in members.items():
            for value in values:
                outcome = await session.expect_refusal(admin, session.chat() | {member: value}, human)
                session.report(outcome.refused, f"a message with {member} = {value!r} was accepted", row)
    await admin.attempt(session.message("no payload but a context", context="parent/child/grandchild"))
    single = session.chat("about one") | {"correlation_id": "m-1"}
    several = session.chat("about two", correlation_id=["m-1", "m-2"])
    for message in (single, several):
        await admin.attempt(message)
    await session.join("reader")  # so that the gateway makes messages of its own
    await admin.attempt(session.message("system/forbidden"))
    await human.settle()
    got = {received.id: received.members.get("correlation_id") for received in human.inbox}
    arrays = {
        received.id: received.members["correlation_id"]
        for received in human.inbox
        if "correlation_id" in received.members
    }
    right = all(isinstance(value, list) for value in arrays.values()) and got.get(several["id"]) == [
        "m-1",
        "m-2",
    ]
    session.report(right, f"correlation ids arrived as {arrays}", "P-3-9")
    wrapped = got.get(single["id"])
    session.report(not isinstance(wrapped, str), f"a correlation_id 'm-1' arrived as {wrapped!r}", "P-6.4-1")
    made = [
        received
        for received in [*admin.inbox, *human.inbox]
        if str(received.members.get("from", "")).endswith("gateway")
    ]
    stamps = {str(received.members.get("ts")) for received in made}
    session.report(
        bool(stamps) and all(map(RFC3339.match, stamps)), f"the gateway's ts were {stamps}", "P-3-4"
    )
    to = [received.members["to"] for received in made if "to" in received.members]
    session.report(all(isinstance(value, list) for value in to), f"the gateway's `to` were {to}", "P-3-6")
    payloads = all(isinstance(received.members.get("payload"), dict) for received in made)
    session.report(payloads, "the gateway sent a payload that is no object", "P-3-21")
    contexts = [received.members["context"] for received in human.inbox if "context" in received.members]
    session.report(contexts == ["parent/child/grandchild"], f"a context arrived as {contexts}", "P-3-17")


@checks.shows("P-3-8", "P-3.9.3-1")
async def check_the_kinds_of_the_specification_are_passed_on(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    for kind, payload in PASSED_ON.items():
        message = session.message(kind, payload, to=["human"], context="reason-1", correlation_id=["m-1"])
        outcome = await admin.attempt(message)
        rows = "P-3-8 P-3.9.3-1" if kind == "participant/request-status" else "P-3-8"
        arrived = not outcome.refused and await session.reaches(message["id"], human)
        session.report(
            arrived, f"a message of kind {kind} did not arrive ({outcome.code or 'no error'})", rows
        )
    for bad in ("", 5, None, ["chat"]):
        outcome = await session.expect_refusal(admin, session.chat() | {"kind": bad}, human)
        session.report(outcome.refused, f"a message of kind {bad!r} was accepted", "P-3-8")


@checks.shows("P-3-14")
async def check_an_error_names_its_cause(session: CheckSession) -> None:
    (observer,) = await session.join_all("observer")
    for message in (
        session.chat(),
        session.chat() | {"protocol": "mew/v0.3"},
        session.message("system/forbidden"),
    ):
        mark = observer.mark
        await observer.attempt(message)
        errors = [received.related for received in observer.received("system/error", since=mark)]
        named = errors == [[message["id"]]]
        session.report(named, f"the errors that {message['id']} caused name {errors} as their cause")


@checks.shows("P-7.1-2", "P-4.2-5", "P-4.2-6", "P-4.2-7", "P-8.1-10", "C-17", "C-20")
async def check_payloads_are_data(session: CheckSession) -> None:
    human, admin, reader = await session.join_all("human", "admin", "reader")

    async def passes(message: dict[str, Any], rows: str, what: str) -> None:
        sender = admin if message["kind"].startswith("participant") else human
        outcome = await sender.attempt(message)
        arrived = not outcome.refused and await session.reaches(message["id"], reader)
        session.report(arrived, f"{what} did not arrive ({outcome.code or 'no error'})", rows)

    lazy = "P-7.1-2 P-4.2-5 P-4.2-6 P-8.1-10"
    await passes(
        session.message("mcp/request", {"method": "no/such", "params": 5}), lazy, "an unknown MCP method"
    )
    await passes(session.message("mcp/request", {"nothing": "of MCP"}), lazy, "a payload that is no JSON-RPC")
    await passes(
        session.message("mcp/response", {"jsonrpc": "1.0", "id": {}}), lazy, "an odd JSON-RPC version"
    )
    mismatch = session.message("chat", {"jsonrpc": "2.0", "id": 1, "method": "tools/call"})
    await passes(mismatch, "P-4.2-7 C-17", "a chat with the payload of a request")
    await passes(session.message("chat", {}), "C-17", "a chat without text")
    bare = session.message("participant/clear", to=["reader"])
    del bare["payload"]
    await passes(bare, "C-20", "a participant/clear without payload")
    shapeless = session.chat()
    del shapeless["kind"]
    outcome = await session.expect_refusal(human, shapeless, reader)
    session.report(outcome.refused, "a message without a kind was accepted", "P-7.1-2")


@checks.shows("P-3.5.6-1", "P-3.5.6-4", "P-3.5.6-5")
async def check_contexts_stay_apart(session: CheckSession) -> None:
    admin, worker, human = await session.join_all("admin", "worker", "human")
    starts = {peer.role: session.message("reasoning/start", {"message": "?"}) for peer in (admin, worker)}
    sent: dict[str, str] = {}
    for step in range(3):
        for peer in (admin, worker):
            if step == 0:
                await peer.attempt(starts[peer.role])
            context = "/".join([starts[peer.role]["id"], *(f"part {n}" for n in range(step))])
            thought = session.message("reasoning/thought", {"message": str(step)}, context=context)
            sent[thought["id"]] = context
            await peer.attempt(thought)
    await human.settle()
    got = {received.id: received.members.get("context") for received in human.inbox if received.id in sent}
    session.report(set(got) == set(sent), "not every message with a context arrived", "P-3.5.6-1")
    session.report(got == sent, f"paths of contexts arrived as {sorted(map(str, got.values()))}", "P-3.5.6-4")
    senders = {
        str(received.members.get("from")): str(received.members.get("context")).split("/")[0]
        for received in human.inbox
        if received.id in sent
    }
    apart = senders == {role: start["id"] for role, start in starts.items()}
    session.report(
        apart, f"the contexts of two concurrent sequences of reasoning were {senders}", "P-3.5.6-5"
    )
