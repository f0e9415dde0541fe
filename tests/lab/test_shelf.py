"""Cards in order, and when they are too many."""

from __future__ import annotations

from dataclasses import replace

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.shelf import Shelf


def card(id: str, text: str = "") -> Card:
    return Card(
        id=id,
        seq=1,
        proposer="bot",
        to=("git",),
        method="tools/call",
        tool="git_log",
        arguments=(("x", text),),
        digest="0" * 64,
        since=0.0,
    )


def test_they_stand_in_the_order_in_which_they_came_and_a_change_keeps_its_place() -> None:
    shelf = Shelf(3)
    assert shelf.first is None
    for id in "abc":
        shelf.put(card(id))
    shelf.put(replace(card("a"), state="deciding"))
    assert list(shelf.cards) == ["a", "b", "c"] and not shelf.is_over
    assert shelf.first is not None and shelf.first.state == "deciding"
    shelf.put(card("d"))
    assert shelf.is_over
    shelf.drop("a")
    shelf.drop("nothing")
    assert list(shelf.cards) == ["b", "c", "d"] and not shelf.is_over


def test_what_they_show_is_counted_and_a_change_of_a_card_counts_nothing() -> None:
    shelf = Shelf(100, size=1000)
    shelf.put(card("big", "x" * 5000))
    assert not shelf.is_over
    shelf.put(card("small"))
    assert shelf.is_over
    shelf.drop("big")
    for state in ("deciding", "open") * 1000:
        shelf.put(replace(card("small"), state=state))
    shelf.put(card("other"))
    assert not shelf.is_over
    shelf.put(replace(card("third"), last=(("x", "y" * 999),)))
    assert shelf.is_over
