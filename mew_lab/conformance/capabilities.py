"""Checks that a gateway delivers only messages that a capability permits: default deny, examples, reserved kinds.

Spec: §3.8.2, §4.1, §4.2, §5.4, §9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mew_lab.conformance.session import CheckGroup, CheckSession, all_in
from mew_lab.conformance.streams import request_stream

__all__ = ["Case", "checks", "judge"]

checks = CheckGroup()


class Case(NamedTuple):
    """One message, and whether the role may send it."""

    role: str
    allowed: bool
    kind: str
    payload: dict[str, Any] | None = None
    to: tuple[str, ...] = ()


async def judge(session: CheckSession, rows: str, *cases: Case) -> None:
    """Sends each message: an allowed one must arrive, any other must be refused and arrive nowhere."""
    roles = list(dict.fromkeys(["admin", "spare", *(case.role for case in cases)]))
    peers = dict(zip(roles, await session.join_all(*roles), strict=True))
    for role, allowed, kind, payload, to in cases:
        witness = peers["spare" if role == "admin" else "admin"]
        message = session.message(kind, payload, **({"to": list(to)} if to else {}))
        outcome = await peers[role].attempt(message)
        arrived = await session.reaches(message["id"], witness)
        what = f"{kind} with payload {payload}" + (f" to {list(to)}" if to else "")
        if allowed:
            right = arrived and not outcome.refused
            detail = f"{role} may send {what}, but it was refused ({outcome.code})"
        else:
            right = outcome.refused and not arrived
            detail = f"{role} may not send {what}, but it was {'delivered' if arrived else 'not answered by an error'}"
        session.report(right, detail, rows)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """The payload of a tools/call."""
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@checks.shows("P-4.1-4", "P-4.1-10", "P-8.1-5")
async def check_a_wildcard_covers_a_namespace(session: CheckSession) -> None:
    await judge(
        session,
        "P-4.1-4 P-4.1-10 P-8.1-5",
        *(Case("human", True, f"mcp/{verb}", LIST) for verb in ("request", "response", "proposal", "reject")),
        Case("human", True, "chat", {"text": "hi"}),
        Case("human", False, "mcp"),
        Case("human", False, "mcpx/request", LIST),
        Case("human", False, "reasoning/start", {"message": "x"}),
    )


@checks.shows("P-4.1-5", "C-13")
async def check_an_exact_kind_is_that_kind_alone(session: CheckSession) -> None:
    await judge(
        session,
        "P-4.1-5 C-13",
        Case("proposer", True, "chat", {"text": "hi"}),
        Case("proposer", False, "chat/acknowledge", {"status": "received"}),
        Case("proposer", False, "chat/cancel", {"reason": "duplicate"}),
        Case("proposer", False, "chats", {}),
        Case("proposer", False, "Chat", {}),
    )


@checks.shows("P-4.1-6", "P-4.1-12")
async def check_nested_patterns_bind_the_fields_they_name(session: CheckSession) -> None:
    await judge(
        session,
        "P-4.1-6 P-4.1-12",
        Case("reader", True, "mcp/request", call("read_file", path="/x")),
        Case("reader", True, "mcp/request", call("read_", deep={"a": [1]}) | {"more": True}),
        Case("reader", False, "mcp/request", call("write_file")),
        Case("reader", False, "mcp/request", call("xread_file")),
        Case("reader", False, "mcp/request", LIST),
        Case("reader", False, "mcp/request", {"method": "tools/call"}),
        Case("reader", False, "mcp/request", {"method": "tools/call", "params": {}}),
        Case("reader", False, "mcp/request", {"method": ["tools/call"], "params": {"name": "read_file"}}),
        Case("reader", False, "mcp/request"),
    )


@checks.shows("P-4.1-11", "P-2.1-2")
async def check_a_right_to_propose_permits_no_request(session: CheckSession) -> None:
    await judge(
        session,
        "P-4.1-11 P-2.1-2",
        Case("proposer", True, "mcp/proposal", call("delete_all")),
        Case("proposer", True, "mcp/response", {"result": {}}),
        Case("proposer", False, "mcp/request", call("delete_all")),
        Case("proposer", False, "mcp/request", LIST, ("human",)),
    )


@checks.shows("P-9.3-1")
async def check_a_read_only_set_lists_and_does_nothing_else(session: CheckSession) -> None:
    await judge(
        session,
        "P-9.3-1",
        Case("lister", True, "mcp/request", LIST),
        Case("lister", True, "mcp/request", {"method": "resources/list"}),
        Case("lister", False, "mcp/request", call("list")),
        Case("lister", False, "mcp/request", {"method": "resources/read", "params": {"uri": "x/list"}}),
        Case("lister", False, "chat", {"text": "hi"}),
    )


@checks.shows("P-4.2-1", "P-4.2-3", "P-4.2-4", "P-5.4-1", "P-8.1-6", "P-4.2-8", "P-4.2-9")
async def check_any_match_allows_and_none_denies(session: CheckSession) -> None:
    await judge(
        session,
        "P-4.2-1 P-5.4-1 P-8.1-6",
        Case("reader", True, "mcp/request", call("read_file")),
        Case("reader", True, "mcp/response", {"result": {}}),
        Case("reader", True, "chat", {"text": "hi"}),
        Case("reader", False, "mcp/proposal", LIST),
    )
    await session.close()
    await judge(
        session,
        "P-4.2-3 P-4.2-4 P-5.4-1 P-8.1-6",
        *(
            Case("observer", False, kind, LIST)
            for kind in ("chat", "mcp/request", "new/kind", "stream/close")
        ),
    )
    await session.close()
    await judge(
        session,
        "P-4.2-8",
        Case("human", True, "mcp/request", call("anything")),
        Case("admin", True, "mcp/request", call("anything")),
    )
    await session.close()
    await judge(
        session,
        "P-4.2-9",
        Case("admin", True, "chat", {"text": "hi", "format": "plain"}),
        Case("admin", True, "mcp/request", LIST, ("spare",)),
        Case("admin", True, "participant/clear", {"reason": "conformance"}, ("spare",)),
        Case("admin", True, "reasoning/start", {"message": "why?"}),
        Case("admin", True, "new/kind", {"text": "hi"}),
        Case("admin", False, "system/anything", {}),
    )


@checks.shows("P-3.8.2-1", "P-3.8.2-2")
async def check_a_violation_is_explained_to_the_violator_alone(session: CheckSession) -> None:
    human, proposer, reader = await session.join_all("human", "proposer", "reader")
    message = session.message("mcp/request", call("delete_all"), to=["human"])
    outcome = await proposer.attempt(message)
    error = outcome.error
    payload = error.payload if error else {}
    right = (
        error is not None
        and payload.get("error") == "capability_violation"
        and payload.get("attempted_kind") == "mcp/request"
        and error.related == [message["id"]]
    )
    session.report(
        right, f"the violation was answered with {error.members if error else 'no error'}", "P-3.8.2-1"
    )
    held = payload.get("your_capabilities")
    right = isinstance(held, list) and all_in(session.configured("proposer"), held)
    session.report(
        right, f"your_capabilities, which should list the capabilities of proposer, was {held}", "P-3.8.2-1"
    )
    hidden = await session.hidden(message["id"], human, reader)
    session.report(hidden, "the violating message was delivered", "P-3.8.2-2")


@checks.shows("P-4.1-8", "P-4.1-9")
async def check_system_kinds_are_the_gateways_own(session: CheckSession) -> None:
    admin, human, observer = await session.join_all("admin", "human", "observer")
    payload = {"event": "join", "participant": {"id": "ghost"}, "error": "x", "you": {"id": "human"}}
    for kind in ("welcome", "presence", "error", "register", "heartbeat", "made-up", "a/b", ""):
        message = session.message(f"system/{kind}", payload)
        outcome = await admin.attempt(message)
        for peer in (human, observer):
            await peer.settle()
        # By its id: a forged system/error is a system/error to look at.
        reached = any(received.id == message["id"] for peer in (human, observer) for received in peer.inbox)
        right = outcome.refused and not reached
        session.report(
            right,
            f"a participant's own system/{kind} was {'delivered' if reached else 'not refused'}",
            "P-4.1-8",
        )
        if kind in ("welcome", "presence", "error"):
            session.report(not reached, f"a participant made a system/{kind}", "P-4.1-9")


@checks.shows("C-5")
async def check_other_gateway_kinds_are_reserved_too(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    words = (
        "space/invite-ack",
        *(f"stream/{event}" for event in ("write-granted", "write-revoked", "ownership-transferred")),
    )
    for kind in words:
        message = session.message(kind, {"stream_id": "stream-1", "status": "created"})
        outcome = await session.expect_refusal(admin, message, human)
        session.report(outcome.refused, f"a participant's own {kind} was accepted")
    outcome = await admin.attempt(session.message("system/register", {}))
    session.report(
        outcome.refused_with("invalid_request"), f"system/register was answered with {outcome.code!r}"
    )
    own = session.message("stream/open", {"stream_id": session.new_id("stream")}, to=["human"])
    await admin.attempt(own)
    reached = await session.reaches(own["id"], human)
    session.report(reached, "a participant's own stream/open of a stream that is not active was not relayed")
    answer = await request_stream(session, admin)
    real = answer.payload.get("stream_id") if answer else None
    if isinstance(real, str):
        false = session.message("stream/open", {"stream_id": real, "owner": "admin"}, to=["human"])
        outcome = await session.expect_refusal(admin, false, human)
        session.report(outcome.refused, "a participant's own stream/open of an active stream was relayed")
