"""What a view gets of a card, and what it says of a decided one."""

from __future__ import annotations

from typing import Any

from mew_lab.lab.decisions.cards import Card
from mew_lab.views.approvals.model import card_data, outcome_line


def card(**changes: Any) -> Card:
    values: dict[str, Any] = {
        "id": "p", "seq": 1, "proposer": "bot", "to": ("git",), "method": "tools/call", "tool": "git_log",
        "arguments": (("a", "1"), ("b", '"x"')), "digest": "0" * 64, "since": 0.0,
    }  # fmt: skip
    return Card(**(values | changes))


def test_arguments_are_marked_against_the_last_call_only_when_there_was_one() -> None:
    assert "last" not in card_data(card())["arguments"][0]
    found = card_data(card(last=(("a", "2"), ("c", "3"))))
    assert [one["last"] for one in found["arguments"]] == [["differs", "2"], ["new", ""]]
    assert found["gone"] == ["c 3"]


def test_cards_that_differ_in_values_alone_have_one_shape() -> None:
    first = card_data(card())["shape"]
    assert card_data(card(id="q", arguments=(("b", '"y"'), ("a", "7")), digest="1" * 64))["shape"] == first
    for other in (
        {"proposer": "helper"},
        {"to": ("files",)},
        {"tool": "git_add"},
        {"method": "x"},
        {"arguments": (("a", "1"),)},
        {"arguments": (("a", '"1"'), ("b", '"x"'))},
        {"arguments": (("a", "true"), ("b", '"x"'))},
    ):
        assert card_data(card(**other))["shape"] != first


def test_a_decided_card_says_by_whom_when_and_how_long_it_was_seen() -> None:
    decided = card(state="done", by="human", decided_at=0.0, on_screen=3.21, outcome="3 commits", edited=True)
    said = outcome_line(decided)
    assert said.startswith("fulfilled (edited) by human at ") and said.endswith(
        ", 3.2 s on screen: 3 commits"
    )
    found = card_data(decided)
    assert (found["decision"], found["by"], found["at"], found["onScreen"]) == (
        "fulfilled (edited)",
        "human",
        0.0,
        3.21,
    )
    assert found["arguments"] == [] and card_data(card())["onScreen"] is None
