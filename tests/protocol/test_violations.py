"""The sentences of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, Refused
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.violations import refusal, require, violation

CALL = {"method": "tools/call", "params": {"name": "git_log"}}


def of(kind: str, *held: Any, payload: Any = None, to: tuple[str, ...] = ("git",)) -> str:
    return str(
        violation(kind, payload=payload or CALL, to=to, name="agent", capabilities=CapabilitySet(held))
    )


@pytest.mark.req("S-ERR-4")
def test_the_sentence_says_what_was_tried_and_what_would_help() -> None:
    assert of("mcp/request", {"kind": "mcp/proposal"}) == (
        'Cannot call git/git_log as "agent": it holds mcp/proposal, not mcp/request for tools/call. '
        'Use agent.call(…) to propose it, or grant {"kind": "mcp/request", "payload": {"method": "tools/call"}}.'
    )
    assert of("mcp/proposal", {"kind": "mcp/request"}) == (
        'Cannot propose git/git_log as "agent": it holds mcp/request, not mcp/proposal. '
        'Use agent.call(…) to request it, or grant {"kind": "mcp/proposal"}.'
    )
    assert "it holds neither mcp/request nor mcp/proposal for tools/call" in of("mcp/request")
    assert of("mcp/request", payload={"method": "tools/list"}, to=()).startswith(
        'Cannot call tools/list as "agent"'
    )


def test_a_method_in_another_kind_makes_no_call_of_it() -> None:
    assert of("chat", payload={"method": "tools/call", "text": "x"}).startswith(
        "Cannot send chat as 'agent': it does not hold it."
    )


def test_other_kinds_get_the_nearest_capability() -> None:
    said = of("chat", {"kind": "chat/acknowledge"}, payload={"text": "x"})
    assert said.startswith("Cannot send chat as 'agent': it does not hold it.") and said.endswith(
        'Grant {"kind": "chat"}.'
    )


@pytest.mark.threat(17)
def test_a_hostile_name_is_harmless_in_a_sentence() -> None:
    said = of("mcp/request", payload={"method": "a\x1b[2J" * 100, "params": {"name": "b\u202e" * 500}})
    assert "\x1b" not in said and "\u202e" not in said and len(said) < 700


def test_require_is_silent_where_it_is_permitted() -> None:
    require(CapabilitySet([{"kind": "chat"}]), {"kind": "chat", "payload": {}}, name="a")
    with pytest.raises(CapabilityViolation) as caught:
        require(
            CapabilitySet([{"kind": "chat"}]), {"kind": "chat/cancel", "payload": {}, "to": ["b"]}, name="a"
        )
    assert caught.value.attempted_kind == "chat/cancel" and caught.value.capabilities == ({"kind": "chat"},)


def error(payload: Any) -> Envelope:
    return Envelope.of({"id": "e", "from": "system:gateway", "kind": "system/error", "payload": payload})


@pytest.mark.req("S-ERR-4")
@pytest.mark.parametrize(
    ("payload", "code", "said"),
    [
        (
            {"error": "duplicate_id", "message": "taken"},
            "duplicate_id",
            "The gateway refused chat of 'a': taken (duplicate_id)",
        ),
        (
            {"error": "invalid_request", "code": "reserved_kind"},
            "reserved_kind",
            "refused chat of 'a': reserved_kind (reserved_kind)",
        ),
        ({}, "invalid_request", "invalid_request (invalid_request)"),
        ({"error": "x", "message": "\x1b[2J"}, "x", "\\u001b[2J (x)"),
    ],
)
def test_an_error_of_the_gateway_is_said_with_its_code(payload: Any, code: str, said: str) -> None:
    sent = Envelope.of({"id": "c", "from": "a", "kind": "chat", "payload": {"text": "x"}})
    refused = refusal(error(payload), sent=sent, name="a", capabilities=CapabilitySet([]))
    assert type(refused) is Refused and refused.code == code and str(refused).endswith(said)
    assert refused.envelope is not None


def test_a_violation_of_an_unknown_message_is_one_all_the_same() -> None:
    payload = {"error": "capability_violation", "attempted_kind": "chat", "your_capabilities": []}
    refused = refusal(error(payload), sent=None, name="a", capabilities=CapabilitySet([]))
    assert isinstance(refused, CapabilityViolation) and refused.attempted_kind == "chat"
