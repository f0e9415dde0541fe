"""What an agent remembers, and what trimming leaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.agent.context_window import MAX_ENTRIES, Memory
from mew_lab.agent.model import Message, estimate_tokens
from mew_lab.protocol.envelope import PROTOCOL, Envelope
from mew_lab.protocol.text import abridge


def chat(id: str, text: str, sender: str = "human", **more: Any) -> Envelope:
    members = {"protocol": PROTOCOL, "id": id, "ts": "2026-01-01T00:00:00Z", "from": sender, "kind": "chat"}
    return Envelope.of(members | {"payload": {"text": text}} | more)


def told(*texts: str) -> Memory:
    memory = Memory()
    for n, text in enumerate(texts):
        memory.observe(chat(f"m{n}", text, sender="me" if n % 2 else "human"))
    return memory


@pytest.mark.req("S-L3-26")
def test_the_last_n_messages_before_the_request_are_in_the_prompt_and_none_by_default() -> None:
    memory = told("one", "two", "three", "four")
    assert memory.before("m3", length=2, me="me") == [
        Message("assistant", "two"),
        Message("user", "human: three"),
    ]
    assert memory.before("m3", length=0, me="me") == []
    assert len(memory.before("unknown", length=9, me="me")) == 4


@pytest.mark.req("P-3-19", "P-3.5.6-2", "P-3.8.1-9")
def test_others_reasoning_and_welcomes_are_not_remembered() -> None:
    memory = Memory()
    memory.observe(chat("a", "thinking aloud", context="reason-1"))
    memory.observe(chat("b", "a welcome", kind="system/welcome", **{"from": "system:gateway"}))
    memory.observe(chat("c", "a thought", kind="reasoning/thought"))
    assert len(memory) == 0


@pytest.mark.parametrize(
    ("direction", "entries", "left"),
    [("oldest", 1, ["b", "c"]), ("newest", 2, ["a"]), ("oldest", 9, []), ("oldest", -1, ["a", "b", "c"]),
     ("oldest", None, ["c"]), ("newest", None, ["a"])],
)  # fmt: skip
def test_forgetting_trims_one_end(direction: str, entries: int | None, left: list[str]) -> None:
    memory = told("a", "b", "c")
    before = memory.tokens
    freed = memory.forget(direction, entries)
    assert [one.text for one in memory.entries] == left
    assert (freed.messages, freed.tokens) == (3 - len(left), before - memory.tokens)


def test_compacting_drops_the_oldest_until_the_rest_fits() -> None:
    memory = told("x" * 400, "y" * 40, "z" * 40)
    freed = memory.compact(40)
    assert [one.text[0] for one in memory.entries] == ["y", "z"] and freed.messages == 1
    assert memory.compact(40).messages == 0
    assert memory.clear().messages == 2 and memory.tokens == 0


def test_a_flood_is_bounded() -> None:
    memory = told(*("x" for _ in range(MAX_ENTRIES + 5)))
    memory.observe(chat("big", "x" * 1_000_000))
    assert len(memory) == MAX_ENTRIES and memory.tokens < 200_000


@given(st.text(), st.integers(min_value=30, max_value=500))
def test_what_is_shortened_keeps_both_ends_and_says_how_much_is_gone(text: str, limit: int) -> None:
    short = abridge(text, limit)
    assert short == text if len(text) <= limit else len(short) <= limit + 60
    assert short[:10] == text[:10] and short[-5:] == text[-5:]
    assert estimate_tokens(text) >= len(text.encode("utf-8", "surrogatepass")) / 4
