"""Listings read well as text and await to themselves."""

from __future__ import annotations

import pytest

from mew_lab.lab.listing import Listing, Note, SentEnvelope
from mew_lab.protocol.envelope import Envelope


def test_a_listing_is_an_aligned_table() -> None:
    listing = Listing("people", ("name", "age"), [("Ada", 36), ("Grace Hopper", 85)], note="two of them")
    assert str(listing) == "people\nname          age\nAda           36\nGrace Hopper  85\ntwo of them"
    assert repr(listing) == str(listing)
    assert (len(listing), listing[1], list(listing)) == (
        2,
        ("Grace Hopper", 85),
        [("Ada", 36), ("Grace Hopper", 85)],
    )
    assert listing


def test_an_empty_listing_says_what_would_fill_it() -> None:
    listing = Listing("", ("name",), [], empty="nobody is here")
    assert str(listing) == "nobody is here" and not listing


@pytest.mark.trap("T-14")
def test_control_characters_never_reach_a_terminal() -> None:
    listing = Listing("", ("name",), [("\x1b[31mred\r\n\u202e",), ("x" * 500,)])
    assert "\x1b" not in str(listing) and "\u202e" not in str(listing)
    assert len(str(listing).split("\n")) == 3
    assert max(len(line) for line in str(listing).split("\n")) <= 60


@pytest.mark.trap("T-14")
def test_more_rows_than_a_person_reads_are_counted_and_reachable() -> None:
    listing = Listing("tools", ("tool",), [(f"t{n}",) for n in range(10_000)], note="the note")
    told = str(listing).split("\n")
    assert len(told) == 1 + 1 + 500 + 1 + 1
    assert told[2] == "t9500" and told[-3] == "t9999"
    assert told[-2:] == ["Not shown: 9 500 earlier rows; .rows has all", "the note"]
    assert listing.rows[0] == ("t0",)


async def test_they_await_to_themselves() -> None:
    sent = SentEnvelope(Envelope.of({"kind": "chat", "id": "m1", "from": "me", "to": ["you"]}))
    for value in (Listing("", (), []), Note("done"), sent):
        assert await value is value
    assert str(sent) == "chat to you as me (m1)" and sent.id == "m1"
    assert repr(Note("done")) == "done"
