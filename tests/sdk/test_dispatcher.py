"""Which handlers a message reaches, with which payload, and what is dropped before it reaches any."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.payloads.chat import Chat
from mew_lab.protocol.payloads.controls import ParticipantPause
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.reasoning import ReasoningThought
from mew_lab.protocol.payloads.system import SystemError, SystemPresence
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.dispatcher import Dispatcher


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(MEWClient(space="demo", participant_id="me"))


def envelope(kind: str, payload: Any, sender: str = "peer", **members: Any) -> Envelope:
    return Envelope.of({"id": "m", "from": sender, "kind": kind, "payload": payload, **members})


def test_a_handler_gets_the_envelope_and_its_payload_as_the_model_of_its_kind(dispatcher: Dispatcher) -> None:
    told: list[tuple[Envelope, Chat]] = []
    dispatcher.on(Chat, lambda envelope, payload: told.append((envelope, payload)))
    chat = envelope("chat", {"text": "hi", "mood": {"calm": True}})
    dispatcher.dispatch(chat)
    dispatcher.dispatch(envelope("chat/cancel", {}, correlation_id=["m"]))
    [(first, payload)] = told
    assert first is chat and isinstance(payload, Chat) and (payload.text, payload.format) == ("hi", "plain")
    assert payload.mood == {"calm": True}  # type: ignore[attr-defined]


def test_handlers_are_called_in_the_order_in_which_they_were_added(dispatcher: Dispatcher) -> None:
    told: list[str] = []
    dispatcher.on_any(lambda envelope: told.append(f"any {envelope.kind}"))
    dispatcher.on(Chat, lambda envelope, payload: told.append(f"first {payload.text}"))
    dispatcher.on(McpRequest, lambda envelope, payload: told.append(payload.method))
    dispatcher.on_any(lambda envelope: told.append("any more"))
    dispatcher.dispatch(envelope("chat", {"text": "x"}))
    dispatcher.on(Chat, lambda envelope, payload: told.append(f"late {payload.text}"))
    dispatcher.dispatch(envelope("chat", {"text": "y"}))
    dispatcher.dispatch(envelope("x-own/kind", {"method": 7}))
    assert told == [
        *("any chat", "first x", "any more"),
        *("any chat", "first y", "any more", "late y"),
        *("any x-own/kind", "any more"),
    ]


@pytest.mark.req("P-8.2-1", "P-8.2-2", "P-8.2-5", "P-4.3-4")
def test_a_malformed_message_reaches_nobody_and_is_counted_against_its_sender(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    dispatcher.on_any(told.append)
    dispatcher.on(Chat, lambda envelope, payload: told.append(payload))
    with caplog.at_level(logging.WARNING, "mew_lab"):
        for _ in range(3):
            dispatcher.dispatch(envelope("chat", {"text": 7}))
    assert told == [] and dispatcher.misbehaviour == {"peer": 3} and dispatcher.count == 0
    assert [record.getMessage() for record in caplog.records] == [
        "chat of peer was dropped: payload.text: Input should be a valid string"
    ]


def test_an_entry_handler_is_told_of_every_message_once_and_before_all_others(
    dispatcher: Dispatcher,
) -> None:
    told: list[tuple[Any, ...]] = []
    dispatcher.on(Chat, lambda envelope, payload: told.append(("chat", envelope.id)))
    dispatcher.on_entry(lambda entry: told.append((entry.seq, entry.id, entry.malformed)))
    dispatcher.dispatch(envelope("chat", {"text": "x"}, id="good"))
    dispatcher.dispatch(envelope("chat", {"text": 7}, id="bad"))
    dispatcher.dispatch(envelope("system/presence", {"event": "leave"}, GATEWAY, id="gone"))
    assert told == [(1, "good", False), ("chat", "good"), (2, "bad", True), (3, "gone", False)]


def test_an_own_message_is_told_as_echo_even_where_it_is_malformed_and_is_not_counted(
    dispatcher: Dispatcher,
) -> None:
    echoes: list[str] = []
    told: list[str] = []
    dispatcher.on_echo(lambda envelope: echoes.append(envelope.id))
    dispatcher.on(Chat, lambda envelope, payload: told.append(envelope.id))
    dispatcher.dispatch(envelope("chat", {"text": 7}, "me", id="bad"))
    dispatcher.dispatch(envelope("chat", {"text": "x"}, "me", id="good"))
    dispatcher.dispatch(envelope("chat", {"text": "x"}, "peer", id="other"))
    assert (echoes, told) == (["bad", "good"], ["good", "other"]) and dispatcher.misbehaviour == {}


def test_what_only_the_gateway_may_say_is_believed_of_the_gateway_alone(dispatcher: Dispatcher) -> None:
    told: list[str] = []
    dispatcher.on(SystemPresence, lambda envelope, payload: told.append(payload.event))
    dispatcher.on(ParticipantPause, lambda envelope, payload: told.append("pause"))
    presence = {"event": "leave", "participant": {"id": "eve"}}
    dispatcher.dispatch(envelope("system/presence", presence, "eve"))
    dispatcher.dispatch(envelope("participant/pause", {}, GATEWAY))
    assert told == []
    dispatcher.dispatch(envelope("system/presence", presence, GATEWAY))
    dispatcher.dispatch(envelope("participant/pause", {}, "eve"))
    assert told == ["leave", "pause"]


def test_what_a_gateway_says_is_read_as_far_as_it_follows_the_specification(dispatcher: Dispatcher) -> None:
    told: list[Any] = []
    dispatcher.on(
        SystemError, lambda envelope, payload: told.append((payload.error, payload.code, payload.message))
    )
    dispatcher.on(SystemPresence, lambda envelope, payload: told.append((payload.event, payload.participant)))
    dispatcher.dispatch(envelope("system/error", {"code": "paused", "message": ["x"]}, GATEWAY))
    dispatcher.dispatch(envelope("system/presence", {"event": "join"}, GATEWAY))
    assert told == [(None, "paused", None), ("join", None)]
    assert dispatcher.misbehaviour == {}


def test_a_model_is_built_once_for_an_envelope_and_only_where_somebody_reads_it(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    validate = Payload.model_validate.__func__  # type: ignore[attr-defined]

    def counting(cls: type[Payload], *about: Any, **how: Any) -> Any:
        built.append(cls.__name__)
        return validate(cls, *about, **how)

    monkeypatch.setattr(Payload, "model_validate", classmethod(counting))
    dispatcher.on_any(lambda envelope: None)
    dispatcher.dispatch(envelope("reasoning/thought", {"message": "hm"}, context="c"))
    assert built == []
    for _ in range(2):
        dispatcher.on(Chat, lambda envelope, payload: None)
        dispatcher.on(ReasoningThought, lambda envelope, payload: None)
    dispatcher.dispatch(envelope("chat", {"text": "x"}))
    dispatcher.dispatch(envelope("reasoning/thought", {"message": "hm"}, context="c"))
    assert built == ["Chat", "ReasoningThought"]


@pytest.mark.threat(9)
def test_senders_of_malformed_messages_are_counted_in_bounds(dispatcher: Dispatcher) -> None:
    for number in range(10_005):
        dispatcher.dispatch(envelope("chat", {}, f"n{number}"))
    assert len(dispatcher.misbehaviour) == 10_001 and dispatcher.misbehaviour["others"] == 5
