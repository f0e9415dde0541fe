"""Which messages are dropped, and why."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import answer_fault, first_unknown, malformed, read_payload, unknown_outcome
from mew_lab.protocol.payloads.system import SystemPresence


def why(kind: str, payload: Any = None, related: Any = ("x",), **members: Any) -> str:
    return malformed(
        Envelope.of(
            {
                "id": "m",
                "from": "a",
                "kind": kind,
                "correlation_id": list(related),
                "payload": payload or {},
                **members,
            }
        )
    )


FINE = [
    ("mcp/request", {"method": "tools/list"}),
    ("mcp/request", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}, "extra": 1}),
    ("mcp/request", {"method": "notifications/initialized"}),
    ("mcp/proposal", {"method": "tools/call"}),
    ("mcp/response", {"result": None}),
    ("mcp/response", {"result": 8}),
    ("mcp/response", {"result": {}, "error": None}),
    ("mcp/response", {"error": {"code": -1, "message": "no"}}),
    ("mcp/withdraw", {}),
    ("mcp/reject", {"reason": "a word of one's own"}),
    ("chat", {"text": ""}),
    ("chat", {"text": "x", "format": "markdown"}),
    ("chat/acknowledge", {"status": "seen it"}),
    ("participant/pause", {}),
    ("participant/pause", {"reason": None, "timeout_seconds": 0.5}),
    ("participant/pause", {"timeout_seconds": 1e9, "extra": [1]}),
    ("participant/resume", {"reason": "timeout"}),
    ("participant/request-status", {}),
    ("participant/request-status", {"fields": ["tokens", "latency"]}),
    ("participant/status", {"messages_in_context": 0, "mood": "calm"}),
    ("participant/status", {"messages_in_context": 1, "tokens": 1, "max_tokens": None, "latency_ms": 0.5}),
    ("participant/forget", {"direction": "oldest"}),
    ("participant/forget", {"direction": "newest", "entries": 0}),
    ("participant/compact", {}),
    ("participant/compact-done", {"skipped": True, "reason": "x"}),
    ("participant/clear", {}),
    ("participant/restart", {"model": {"name": "small"}}),
    ("participant/shutdown", {"reason": "later"}),
    ("capability/grant", {"recipient": "a", "capabilities": []}),
    ("capability/revoke", {"recipient": "a", "grant_id": "g"}),
    ("capability/grant-ack", {}),
    ("reasoning/cancel", {}),
    ("reasoning/thought", {"reasoning": "not our business"}),
    ("x-own/kind", {"method": 7}),
]


@pytest.mark.req("P-4.3-5", "P-3.3.3-1", "P-3.4-3", "P-3.1-1")
@pytest.mark.parametrize(("kind", "payload"), FINE, ids=[str(one) for one in FINE])
def test_what_follows_the_specification_is_taken(kind: str, payload: Any) -> None:
    assert why(kind, payload) == ""


@pytest.mark.req("P-8.2-2", "P-8.2-3", "P-4.3-1", "P-4.3-2", "P-7.3-3")
@pytest.mark.parametrize(
    ("kind", "payload", "said"),
    [
        ("mcp/request", {}, "payload.method: Field required"),
        ("mcp/request", {"method": ["x"]}, "payload.method: Input should be a valid string"),
        ("mcp/request", {"method": "x", "params": [1]}, "payload.params: "),
        ("mcp/request", {"method": "x", "id": 1.5}, "payload.id"),
        ("mcp/proposal", {"params": {}}, "payload.method: Field required"),
        ("mcp/proposal", {"method": " \t"}, "payload.method: it is empty"),
        ("mcp/reject", {"reason": {}}, "payload.reason"),
        ("chat", {"text": None}, "payload.text"),
        ("participant/pause", {"timeout_seconds": -1}, "payload.timeout_seconds"),
        ("participant/pause", {"timeout_seconds": 0}, "payload.timeout_seconds"),
        ("participant/pause", {"timeout_seconds": "60"}, "payload.timeout_seconds"),
        ("participant/pause", {"reason": ["x"]}, "payload.reason"),
        ("participant/request-status", {"fields": "tokens"}, "payload.fields"),
        ("participant/request-status", {"fields": [1]}, "payload.fields"),
        ("participant/status", {"tokens": 1}, "payload.messages_in_context: Field required"),
        ("participant/status", {"messages_in_context": -1}, "payload.messages_in_context"),
        ("participant/status", {"messages_in_context": 1, "status": {}}, "payload.status"),
        ("participant/forget", {}, "payload.direction: Field required"),
        ("participant/forget", {"direction": "all"}, "payload.direction"),
        ("participant/forget", {"direction": "oldest", "entries": -1}, "payload.entries"),
        ("participant/compact", {"target_tokens": "many"}, "payload.target_tokens"),
        ("participant/compact-done", {"freed_tokens": "many"}, "payload.freed_tokens"),
        ("capability/grant", {"recipient": "a"}, "payload.capabilities: Field required"),
        ("capability/revoke", {"recipient": "a"}, ""),
        ("capability/grant-ack", {"status": 1}, "payload.status"),
        ("reasoning/cancel", {"reason": 1}, "payload.reason"),
        ("chat", {"text": "x", "format": "html"}, "payload.format"),
    ],
)
def test_what_breaks_its_schema_is_dropped_with_the_place(kind: str, payload: Any, said: str) -> None:
    why_not = why(kind, payload)
    assert why_not and why_not.startswith(said)


@pytest.mark.req("P-3-10", "P-3-12", "P-3-13", "P-3.1.2-1")
@pytest.mark.parametrize(
    "kind", ["mcp/response", "mcp/withdraw", "mcp/reject", "chat/acknowledge", "chat/cancel"]
)
def test_what_must_relate_to_something_and_does_not_is_dropped(kind: str) -> None:
    assert why(kind, {"result": 1}, related=()) == "it does not say in correlation_id what it is about"


@pytest.mark.req("P-8.2-1")
def test_a_message_without_id_or_sender_is_dropped() -> None:
    assert (
        malformed(Envelope.of({"from": "a", "kind": "chat", "payload": {"text": "x"}}))
        == "it has no id or no sender"
    )
    assert (
        malformed(Envelope.of({"id": "a", "kind": "chat", "payload": {"text": "x"}}))
        == "it has no id or no sender"
    )


@pytest.mark.threat(17)
def test_the_reason_is_one_harmless_line() -> None:
    said = why("mcp/request", {"method": {"\x1b[31m" * 100: 1}})
    assert "\x1b" not in said and "\n" not in said and len(said) <= 200


def test_what_the_gateway_sends_is_read_as_far_as_it_fits() -> None:
    payload = {"event": "join", "participant": {"id": "bob", "capabilities": "all"}}
    message = Envelope.of(
        {"id": "m", "from": "system:gateway", "kind": "system/presence", "payload": payload}
    )
    presence = read_payload(message)
    assert isinstance(presence, SystemPresence)
    assert presence.event == "join"
    assert presence.participant is not None and presence.participant.id == "bob"


@pytest.mark.req("P-3.1.2-1", "P-4.3-5")
@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ({"result": None}, ""),
        ({"result": 1, "error": None}, ""),
        ({"error": {"code": -32000, "message": "x", "data": [1]}, "jsonrpc": "2.0", "id": "a"}, ""),
        ({}, "holds neither a result nor an error"),
        ({"error": None}, "holds neither a result nor an error"),
        ({"result": 1, "error": {"code": 1, "message": "x"}}, "holds both a result and an error"),
        ({"error": "no"}, "has an error that is no object: 'no'"),
        ({"error": {"code": "E_NO", "message": "x"}}, "has an error whose code is no integer: 'E_NO'"),
        ({"error": {"code": True, "message": "x"}}, "has an error whose code is no integer: True"),
        ({"error": {"message": "x"}}, "has an error without a code"),
        ({"error": {"code": 1}}, "has an error whose message is no text: None"),
        ({"result": 1, "id": [1]}, "has a member id of another type: [1]"),
        (
            {"error": {"code": "\x1b[2J" + "x" * 5000, "message": "x"}},
            "has an error whose code is no integer: ",
        ),
    ],
)
def test_a_response_that_breaks_json_rpc_is_taken_and_its_fault_is_told_in_bounds(
    payload: Any, fault: str
) -> None:
    assert why("mcp/response", payload) == ""
    told = answer_fault(payload)
    assert told.startswith(fault) if fault else told == ""
    assert len(told) < 160 and "\x1b" not in told


LOST = {"code": -32001, "message": "it ended", "data": {"code": "outcome_unknown", "request": "q-1"}}


@pytest.mark.ruling("R35")
@pytest.mark.parametrize(
    ("payload", "why", "first"),
    [
        ({"result": {}}, "", ""),
        ({"result": {"isError": True}}, "", ""),
        ({"error": {"code": -32000, "message": "x", "data": {"code": "gone", "request": "q-1"}}}, "", ""),
        ({"error": {"code": "NOT_FOUND", "message": "no such tool"}}, "", ""),
        ({"error": {"code": "NOT_FOUND"}}, "whose message is no text", ""),
        ({"error": {"code": "NOT_FOUND", "message": "x"}, "result": {}}, "both a result and an error", ""),
        ({}, "neither a result nor an error", ""),
        ({"error": "as a text"}, "an error that is no object", ""),
        ({"error": LOST}, "says that the outcome is not known", "q-1"),
        ({"error": LOST | {"data": {"code": "outcome_unknown"}}}, "the outcome is not known", ""),
        ({"error": LOST | {"data": {"code": "outcome_unknown", "request": ["q-1"]}}}, "is not known", ""),
    ],
)
def test_what_an_answer_leaves_open_of_its_call_is_told_and_the_call_that_it_repeats(
    payload: Any, why: str, first: str
) -> None:
    told = unknown_outcome(payload)
    assert told.endswith(why) if why == "" or "known" in why else why in told
    assert bool(told) is bool(why) and first_unknown(payload) == first
