"""When an agent answers, and why two of them do not talk for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.attention import (
    MAX_EXCHANGE,
    AnswerDepths,
    Habits,
    Rate,
    judge,
    mentions,
    read_classification,
    tells_outcome,
)
from mew_lab.protocol.envelope import PROTOCOL, Envelope

from ..ledger.book import Book

NAMED = {"me": "helper-1", "name": "Helper"}


def chat(text: str, **more: Any) -> Envelope:
    members = {
        "protocol": PROTOCOL,
        "id": "m1",
        "ts": "2026-01-01T00:00:00Z",
        "from": "human",
        "kind": "chat",
    }
    return Envelope.of(members | {"payload": {"text": text}} | more)


def verdict(message: Envelope, **more: Any) -> str:
    return judge(message, **NAMED, habits=Habits(**more.pop("habits", {})), **more).verdict


@pytest.mark.req("S-CH-1")
def test_a_message_of_its_own_is_ignored_even_when_it_names_itself() -> None:
    assert verdict(chat("Helper?", **{"from": "helper-1", "to": ["helper-1"]})) == "ignore"


@pytest.mark.req("S-CH-2")
def test_with_auto_respond_off_nothing_is_answered() -> None:
    for message in (chat("hello", to=["helper-1"]), chat("helper, hello"), chat("why?")):
        assert verdict(message, habits={"auto_respond": False}) == "ignore"


@pytest.mark.req("S-CH-3")
def test_what_is_addressed_to_it_is_answered() -> None:
    assert verdict(chat("hello", to=["helper-1"])) == "respond"
    assert verdict(chat("hello", to=["other", "helper-1"])) == "respond"
    assert verdict(chat("hello", to=["helper-1"], context="somebody's")) == "respond"


@pytest.mark.req("S-CH-4")
@pytest.mark.parametrize("text", ["helper-1, what is it?", "ask HELPER.", "@helper", "(Helper)"])
def test_its_name_or_id_in_the_text_is_a_mention(text: str) -> None:
    assert verdict(chat(text)) == "respond"


@pytest.mark.parametrize("text", ["helpers", "helper-10 did it", "my-helper", "a.helper"])
def test_a_longer_word_is_no_mention(text: str) -> None:
    assert not mentions(text, ("helper-1", "Helper"))
    assert verdict(chat(text)) == "classify"


@pytest.mark.req("S-CH-5")
def test_what_is_addressed_to_nobody_is_a_question_for_the_model() -> None:
    assert verdict(chat("what time is it?")) == "classify"
    assert verdict(chat("nice weather")) == "classify"


def test_what_is_addressed_to_others_or_within_others_reasoning_is_theirs() -> None:
    assert verdict(chat("what time is it?", to=["clock"])) == "ignore"
    assert verdict(chat("what time is it?", context="reason-1")) == "ignore"


@pytest.mark.req("S-CH-6")
def test_the_defaults_are_those_of_the_specification() -> None:
    assert Habits()._asdict() == {
        "auto_respond": True,
        "respond_to_questions": True,
        "respond_to_mentions": True,
        "respond_to_direct": True,
        "confidence_threshold": 0.5,
        "context_window": 10,
    }


def test_each_kind_of_attention_can_be_switched_off() -> None:
    assert verdict(chat("x", to=["helper-1"]), habits={"respond_to_direct": False}) == "ignore"
    assert verdict(chat("helper: x"), habits={"respond_to_mentions": False}) == "ignore"
    assert verdict(chat("x?"), habits={"respond_to_questions": False}) == "ignore"
    assert verdict(chat("x"), habits={"respond_to_questions": False}) == "classify"


@pytest.mark.req("S-CH-5")
def test_only_a_yes_above_the_threshold_counts() -> None:
    def said(should: bool, confidence: float) -> bool:
        found = read_classification(
            json.dumps({"shouldRespond": should, "confidence": confidence, "reason": "r"})
        )
        assert found is not None
        return found.above(0.5)

    assert said(True, 0.51) and not said(True, 0.5) and not said(False, 0.9)


@pytest.mark.parametrize(
    "text",
    ["", "yes", "{", "[]", '{"shouldRespond": "yes", "confidence": 1}', '{"shouldRespond": true}',
     '{"shouldRespond": true, "confidence": 7}', '{"shouldRespond": true, "confidence": true}',
     '{"shouldRespond": true, "confidence": NaN}', '{"a":' * 2000 + "}"],
)  # fmt: skip
def test_a_classification_that_cannot_be_read_is_none(text: str) -> None:
    assert read_classification(text) is None


@given(st.text())
def test_any_text_is_read_without_a_fault(text: str) -> None:
    read_classification(text)
    mentions(text, ("helper",))


def test_answers_to_answers_come_to_an_end() -> None:
    exchanges = AnswerDepths()
    message, rounds = chat("hello", to=["helper-1"]), 0
    while verdict(message, exchange=exchanges.depth(message)) == "respond":
        rounds += 1
        exchanges.record(message, f"a{rounds}")
        message = chat("thanks, and you?", id=f"b{rounds}", to=["helper-1"], correlation_id=[f"a{rounds}"])
    assert rounds == MAX_EXCHANGE
    assert verdict(chat("a new question", to=["helper-1"])) == "respond"


@pytest.mark.req("S-CH-7")
def test_answers_a_minute_are_limited_for_one_and_for_all() -> None:
    rate = Rate(in_all=5, to_one=3)
    assert [rate.take("a", now=float(n)) for n in range(4)] == [True, True, True, False]
    assert [rate.take("b", now=4.0 + n) for n in range(3)] == [True, True, False]
    assert not rate.take("a", now=59.0)
    assert rate.take("a", now=60.0)


def test_what_tells_how_a_proposal_of_ours_was_fulfilled_wants_no_answer_and_a_question_about_it_does() -> (
    None
):
    book = Book()
    call = {"method": "tools/call", "params": {"name": "git_log"}}
    for id, sender, kind, about in (
        ("p", "helper-1", "mcp/proposal", []),
        ("other", "bot", "mcp/proposal", []),
        ("r", "human", "mcp/request", ["p", "other"]),
    ):
        members = {
            "id": id,
            "from": sender,
            "kind": kind,
            "to": ["git"],
            "correlation_id": about,
            "payload": call,
        }
        book.observe(Envelope.of(members))

    def tells(*about: str) -> bool:
        return tells_outcome(chat("Approved with changes", correlation_id=list(about)), book, me="helper-1")

    assert tells("r", "p")
    assert not tells("p") and not tells("r") and not tells() and not tells("r", "other")
