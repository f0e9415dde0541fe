"""Payload models: every kind of the specification, its examples as they stand there, and whatever else a
sender adds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mew_lab.protocol.payloads import MODELS
from mew_lab.protocol.payloads.mcp import REASON_CODES
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.space_management import SpaceInviteAck
from mew_lab.protocol.payloads.system import (
    ActiveStream,
    ParticipantInfo,
    SystemError,
    SystemPresence,
    SystemWelcome,
)

STREAM = {
    "stream_id": "stream-42",
    "owner": "agent-1",
    "direction": "upload",
    "created": "2025-01-09T10:00:00Z",
}
CAPABILITIES = [{"kind": "mcp/proposal"}, {"kind": "chat"}]
CALL = {"name": "dangerous_operation", "arguments": {"target": "production"}}

# The payloads of the specification's examples; where it has none, what its text says.
EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("mcp/request", {"jsonrpc": "2.0", "id": 42, "method": "tools/call", "params": CALL}),
    ("mcp/request", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ("mcp/response", {"jsonrpc": "2.0", "id": 42, "result": {"content": [{"type": "text", "text": "done"}]}}),
    ("mcp/response", {"jsonrpc": "2.0", "id": "a", "error": {"code": -32601, "message": "no", "data": [1]}}),
    ("mcp/response", {"result": None}),
    ("mcp/proposal", {"method": "tools/call", "params": CALL}),
    ("mcp/withdraw", {"reason": "no_longer_needed"}),
    ("mcp/withdraw", {}),
    ("mcp/reject", {"reason": "unsafe"}),
    ("mcp/reject", {"reason": "the moon is in the wrong house"}),
    ("chat", {"text": "Hello everyone!", "format": "plain"}),
    ("chat", {"text": ""}),
    ("chat/acknowledge", {"status": "received"}),
    ("chat/cancel", {"reason": "handled elsewhere"}),
    ("reasoning/start", {"message": "Analyzing…"}),
    ("reasoning/thought", {"message": "YAML."}),
    ("reasoning/conclusion", {"message": "Safe."}),
    ("reasoning/cancel", {"reason": "superseded"}),
    ("capability/grant", {"recipient": "a", "capabilities": CAPABILITIES, "reason": "careful"}),
    ("capability/revoke", {"recipient": "a", "grant_id": "grant-789", "reason": "done"}),
    (
        "capability/revoke",
        {"recipient": "a", "capabilities": [{"kind": "mcp/request", "payload": {"method": "tools/*"}}]},
    ),
    ("capability/grant-ack", {"status": "accepted"}),
    (
        "space/invite",
        {
            "participant_id": "n",
            "email": "a@example.com",
            "initial_capabilities": CAPABILITIES,
            "reason": "r",
        },
    ),
    (
        "space/invite-ack",
        {"status": "created", "participant_id": "n", "token": "t", "connection_url": "ws://localhost/ws"},
    ),
    ("space/kick", {"participant_id": "misbehaving-agent", "reason": "Repeated capability violations"}),
    ("system/presence", {"event": "join", "participant": {"id": "new-agent", "capabilities": CAPABILITIES}}),
    ("system/presence", {"event": "leave", "participant": {"id": "new-agent"}}),
    ("system/presence", {"event": "invited", "participant": {"id": "new-agent"}}),
    (
        "system/welcome",
        {"you": {"id": "n", "capabilities": []}, "participants": [{"id": "a"}], "active_streams": [STREAM]},
    ),
    ("system/welcome", {"you": {"id": "n", "capabilities": CAPABILITIES}, "participants": []}),
    (
        "system/error",
        {"error": "capability_violation", "attempted_kind": "mcp/request", "your_capabilities": CAPABILITIES},
    ),
    ("participant/pause", {"reason": "rate_limit", "timeout_seconds": 60}),
    ("participant/pause", {}),
    ("participant/resume", {}),
    ("participant/request-status", {"fields": ["tokens", "latency"]}),
    (
        "participant/status",
        {"tokens": 12345, "max_tokens": 20000, "messages_in_context": 128, "latency_ms": 350},
    ),
    ("participant/forget", {"direction": "oldest", "entries": 10}),
    ("participant/compact", {"reason": "token_pressure", "target_tokens": 16000}),
    ("participant/compact-done", {"freed_tokens": 2048, "freed_messages": 12, "status": "compacted"}),
    ("participant/compact-done", {"skipped": True, "reason": "nothing to do"}),
    ("participant/clear", {}),
    ("participant/restart", {}),
    ("participant/shutdown", {}),
    (
        "stream/request",
        {
            "direction": "upload",
            "expected_size_bytes": 10485760,
            "description": "d",
            "format": "jsonl",
            "target": ["a"],
            "content_type": "application/json",
            "metadata": {"compression": "gzip"},
        },
    ),
    ("stream/request", {"direction": "download", "target": None}),
    ("stream/open", {"stream_id": "stream-42", "encoding": "binary", "target": ["aggregator"]}),
    ("stream/close", {"reason": "complete"}),
    ("stream/grant-write", {"stream_id": "stream-42", "participant_id": "player1", "reason": "claimed"}),
    ("stream/revoke-write", {"stream_id": "stream-42", "participant_id": "player1"}),
    ("stream/transfer-ownership", {"stream_id": "stream-42", "new_owner": "ai-agent", "reason": "permanent"}),
    (
        "stream/write-granted",
        {"stream_id": "stream-42", "participant_id": "player1", "authorized_writers": ["a"]},
    ),
    (
        "stream/write-revoked",
        {"stream_id": "stream-42", "participant_id": "player1", "authorized_writers": ["a"]},
    ),
    ("stream/ownership-transferred", {"stream_id": "stream-42", "new_owner": "b", "previous_owner": "a"}),
]

REQUIRED = {
    "mcp/request": {"method"},
    "mcp/proposal": {"method"},
    "chat": {"text"},
    "reasoning/start": {"message"},
    "reasoning/thought": {"message"},
    "reasoning/conclusion": {"message"},
    "capability/grant": {"recipient", "capabilities"},
    "capability/revoke": {"recipient"},
    "space/invite": {"participant_id", "initial_capabilities"},
    "space/invite-ack": {"status", "participant_id"},
    "space/kick": {"participant_id"},
    "system/presence": {"event", "participant"},
    "system/welcome": {"you", "participants"},
    "system/error": {"error"},
    "participant/status": {"messages_in_context"},
    "participant/forget": {"direction"},
    "stream/request": {"direction"},
    "stream/open": {"stream_id"},
    "stream/grant-write": {"stream_id", "participant_id"},
    "stream/revoke-write": {"stream_id", "participant_id"},
    "stream/transfer-ownership": {"stream_id", "new_owner"},
    "stream/write-granted": {"stream_id"},
    "stream/write-revoked": {"stream_id"},
    "stream/ownership-transferred": {"stream_id"},
}


@pytest.mark.req("P-3-8")
def test_each_of_the_forty_kinds_has_a_model_with_its_own_name() -> None:
    assert len(MODELS) == 40
    assert {kind for kind, _ in EXAMPLES} == set(MODELS)
    for kind, model in MODELS.items():
        assert model.__name__ == kind.replace("/", " ").replace("-", " ").title().replace(" ", "")
        assert "Spec: §3" in (model.__doc__ or "")


@pytest.mark.req("P-3-21", "P-3.1.1-1", "P-3.2-2", "P-3.6.1-2", "P-3.10.1-6", "P-3.9.4-4")
@pytest.mark.parametrize(("kind", "payload"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_an_example_comes_back_as_it_was_with_what_was_added(kind: str, payload: dict[str, Any]) -> None:
    added = {**payload, "x-custom": {"deep": [1, None, "a"]}, "another": 1.5}
    for given_payload in (payload, added):
        read = MODELS[kind].model_validate(given_payload)
        assert read.model_dump(exclude_unset=True) == given_payload
        assert json.loads(read.model_dump_json(exclude_unset=True)) == given_payload


@pytest.mark.req("P-3.4-1", "P-3.5.2-1", "P-3.7-3", "P-3.9.4-3", "P-3.10.1-1", "P-3.8.1-5", "P-3.6.5-1")
@pytest.mark.parametrize("kind", list(MODELS))
def test_what_the_specification_requires_is_required_and_nothing_else(kind: str) -> None:
    required = {name for name, one in MODELS[kind].model_fields.items() if one.is_required()}
    assert required == REQUIRED.get(kind, set())


@pytest.mark.parametrize(
    ("kind", "payload", "at"),
    [
        ("mcp/request", {"method": 1}, "method"),
        ("mcp/request", {"method": "a", "params": []}, "params"),
        ("mcp/response", {"error": {"code": "x", "message": "m"}}, "error"),
        ("chat", {"text": 1}, "text"),
        ("chat", {"text": None}, "text"),
        ("chat", {"text": "a", "format": "html"}, "format"),
        ("capability/grant", {"recipient": "a", "capabilities": {"kind": "chat"}}, "capabilities"),
        ("capability/grant", {"recipient": "a", "capabilities": ["chat"]}, "capabilities"),
        ("capability/revoke", {"recipient": "a"}, None),
        ("space/invite-ack", {"status": "maybe", "participant_id": "a"}, "status"),
        ("participant/pause", {"timeout_seconds": 0}, "timeout_seconds"),
        ("participant/pause", {"timeout_seconds": -1.5}, "timeout_seconds"),
        ("participant/pause", {"timeout_seconds": float("inf")}, "timeout_seconds"),
        ("participant/pause", {"timeout_seconds": True}, "timeout_seconds"),
        ("participant/pause", {"timeout_seconds": "60"}, "timeout_seconds"),
        ("participant/status", {"messages_in_context": -1}, "messages_in_context"),
        ("participant/status", {"messages_in_context": "1"}, "messages_in_context"),
        ("participant/forget", {"direction": "middle"}, "direction"),
        ("stream/request", {"direction": "sideways"}, "direction"),
        ("stream/request", {"direction": "upload", "target": "a"}, "target"),
        ("system/welcome", {"you": {}, "participants": []}, "you"),
        (
            "system/welcome",
            {"you": {"id": "a"}, "participants": [], "active_streams": [{}]},
            "active_streams",
        ),
    ],
)
def test_what_breaks_the_specification_is_named(kind: str, payload: dict[str, Any], at: str | None) -> None:
    with pytest.raises(ValidationError) as fault:
        MODELS[kind].model_validate(payload)
    assert fault.value.errors()[0]["loc"][:1] == ((at,) if at else ())


@pytest.mark.req("P-3.4-3")
def test_chat_without_a_format_is_plain() -> None:
    assert MODELS["chat"].model_validate({"text": "*a*"}).model_dump()["format"] == "plain"


@pytest.mark.req("P-3.3.3-1", "P-3.3.3-2")
@settings(deadline=None)
@given(reason=st.text())
def test_any_reason_is_accepted_as_it_is(reason: str) -> None:
    for kind in ("mcp/withdraw", "mcp/reject"):
        assert MODELS[kind].model_validate({"reason": reason}).model_dump() == {"reason": reason}


@pytest.mark.req("P-3.3.3-1")
def test_the_suggested_reasons_are_the_twelve_of_the_specification() -> None:
    assert tuple(REASON_CODES) == (
        "disagree",
        "inappropriate",
        "unsafe",
        "busy",
        "incapable",
        "policy",
        "duplicate",
        "invalid",
        "timeout",
        "resource_limit",
        "no_longer_needed",
        "other",
    )


@pytest.mark.req("P-3.10.8-1", "P-3.10.8-2", "P-3.10.8-3")
def test_the_owner_always_writes() -> None:
    assert ActiveStream.model_validate(STREAM).writers == ("agent-1",)
    assert ActiveStream.model_validate({**STREAM, "authorized_writers": []}).writers == ("agent-1",)
    assert ActiveStream.model_validate({**STREAM, "authorized_writers": ["b", "agent-1"]}).writers == (
        "agent-1",
        "b",
    )


@pytest.mark.threat(1)
def test_the_token_of_an_invite_is_not_in_the_repr() -> None:
    ack = SpaceInviteAck(status="created", participant_id="n", token="canary-token")
    assert "canary" not in repr(ack) and "canary" not in str(ack)
    assert ack.token == "canary-token"


def test_a_payload_that_was_read_does_not_change() -> None:
    chat = MODELS["chat"].model_validate({"text": "a"})
    with pytest.raises(ValidationError):
        chat.text = "b"  # type: ignore[attr-defined]


def test_nothing_loads_the_models_unasked() -> None:
    code = "import sys, mew_lab, mew_lab.protocol, mew_lab.protocol.permit; print('pydantic' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


# --- what a gateway says, as far as it fits ---


@pytest.mark.parametrize(("kind", "payload"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_what_follows_the_specification_is_read_whole(kind: str, payload: dict[str, Any]) -> None:
    assert MODELS[kind].read(payload).model_dump(exclude_unset=True) == payload


def test_what_does_not_fit_is_left_out_wherever_it_stands() -> None:
    bob = {"id": "bob", "capabilities": [{"kind": "chat"}, "junk", 7, {"kind": "mcp/*"}], "mood": [1]}
    presence = SystemPresence.read({"event": "join", "participant": bob, "extra": 1})
    assert isinstance(presence.participant, ParticipantInfo)
    assert presence.participant.capabilities == [{"kind": "chat"}, {"kind": "mcp/*"}]
    assert bob["capabilities"] == [
        {"kind": "chat"},
        "junk",
        7,
        {"kind": "mcp/*"},
    ]  # what came is left as it was
    assert presence.model_dump()["extra"] == 1 and presence.participant.model_dump()["mood"] == [1]
    welcome = SystemWelcome.read({"you": {"id": "me"}, "participants": [{"capabilities": []}, {"id": "bob"}]})
    assert [one.id for one in welcome.participants] == ["bob"]


def test_what_lacks_a_required_member_is_read_without_it() -> None:
    error = SystemError.read({"code": "paused", "message": ["x"], "paused_until": 5})
    assert (error.error, error.code, error.message) == (None, "paused", None)
    assert error.model_dump()["paused_until"] == 5
    assert SystemPresence.read({"event": "leave", "participant": {"capabilities": []}}).participant is None


@given(
    kind=st.sampled_from(sorted(MODELS)),
    payload=st.dictionaries(
        st.sampled_from(["id", "event", "error", "participant", "you", "participants", "capabilities"]),
        st.recursive(
            st.none() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "capabilities"]), inner),
        ),
    ),
)
def test_any_payload_can_be_read_and_is_not_changed(kind: str, payload: dict[str, Any]) -> None:
    before = json.dumps(payload)
    model = MODELS[kind].read(payload)
    assert isinstance(model, MODELS[kind]) and json.dumps(payload) == before
    assert all(hasattr(model, name) for name in MODELS[kind].model_fields)


def test_a_fault_within_a_part_that_is_left_out_is_no_further_fault() -> None:
    class Part(Payload):
        optional: int | None = None
        required: int

    class Whole(Payload):
        part: Part | None = None
        other: str = ""

    whole = Whole.read({"part": {"optional": "x"}, "other": "kept"})
    assert (whole.part, whole.other) == (None, "kept")
