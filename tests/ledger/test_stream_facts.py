"""What the wire tells of a stream, and what of it is not believed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.streams import (
    MAX_STREAMS,
    StreamFacts,
    StreamLedger,
    described_streams,
    is_stream_id,
    opened_stream,
)
from mew_lab.protocol.envelope import Envelope

AT = datetime(2025, 11, 23, 12, tzinfo=UTC)
EXAMPLE = {  # §3.10.8
    "stream_id": "stream-42",
    "owner": "character-server",
    "authorized_writers": ["character-server", "player1"],
    "direction": "upload",
    "created": "2025-11-23T12:00:00Z",
    "content_type": "application/json",
    "format": "seacat/character-position-v1",
    "metadata": {"character_id": "character-player1"},
}


def entry_of(kind: str, payload: dict[str, Any], **members: Any) -> Entry:
    members = {"id": "m", "ts": "2025-11-23T12:00:00Z", "kind": kind, "payload": payload, **members}
    return Entry.of(Envelope.of(members), 1)


def requested(payload: dict[str, Any], sender: str) -> StreamFacts:
    ledger = StreamLedger()
    [change] = ledger.observe(entry_of("stream/request", payload, **{"from": sender}))
    return change.stream


def test_the_example_of_the_specification_is_read_whole() -> None:
    [facts] = described_streams({"active_streams": [EXAMPLE]}) or []
    assert facts.id == "stream-42" and facts.owner == "character-server" and facts.created == AT
    assert facts.writers == ("character-server", "player1") and facts.target == ()
    assert facts.fields == {key: EXAMPLE[key] for key in ("direction", "content_type", "format", "metadata")}


@pytest.mark.req("P-3.10.8-2", "P-3.10.8-1")
@pytest.mark.parametrize("writers", [None, [], "player1", [7]])
def test_where_no_writer_is_named_the_owner_alone_is(writers: Any) -> None:
    entry = {**EXAMPLE, "authorized_writers": writers}
    if writers is None:
        del entry["authorized_writers"]
    [facts] = described_streams({"active_streams": [entry]}) or []
    assert facts.writers == ("character-server",)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "stream-1",
        {},
        {"stream_id": "stream-1"},
        {"owner": "bot"},
        {"stream_id": "stream-1", "owner": 7},
        {"stream_id": "stream-1", "owner": ""},
        {"stream_id": 1, "owner": "bot"},
        {"stream_id": "", "owner": "bot"},
        {"stream_id": "a#b", "owner": "bot"},
        {"stream_id": "é", "owner": "bot"},
        {"stream_id": "s" * 257, "owner": "bot"},
    ],
)
def test_what_is_no_stream_is_left_out(entry: Any) -> None:
    assert [stream.id for stream in described_streams({"active_streams": [entry, EXAMPLE]}) or []] == [
        "stream-42"
    ]


@pytest.mark.req("P-3.8.1-4")
def test_a_welcome_without_a_list_of_streams_says_nothing_of_them_and_an_empty_one_that_there_are_none() -> (
    None
):
    assert described_streams({}) is None and described_streams({"active_streams": "all"}) is None
    assert described_streams({"active_streams": []}) == []


def test_no_more_streams_are_read_than_a_participant_knows() -> None:
    many = [{**EXAMPLE, "stream_id": f"stream-{n}"} for n in range(MAX_STREAMS + 5)]
    assert len(described_streams({"active_streams": many}) or []) == MAX_STREAMS == 1000


def test_an_open_is_described_by_its_request_and_the_gateway_has_the_last_word() -> None:
    asked = {"direction": "upload", "target": ["aggregator"], "owner": "eve", "schema": 3, "encoding": "x"}
    request = requested(asked, "agent-1")
    opened = {"stream_id": "stream-42", "encoding": "binary", "owner": "agent-1", "target": ["aggregator"]}
    facts = opened_stream(entry_of("stream/open", opened, to=["agent-1"]), request)
    assert facts is not None
    assert (facts.owner, facts.writers, facts.target) == ("agent-1", ("agent-1",), ("aggregator",))
    assert facts.fields == {"direction": "upload", "schema": 3, "encoding": "binary"} and facts.created == AT


def test_an_open_without_an_owner_belongs_to_who_asked_or_else_to_whom_it_is_addressed() -> None:
    """The example of §3.10.2 names no owner."""
    opened = entry_of("stream/open", {"stream_id": "stream-42", "encoding": "binary"}, to=["agent-1"])
    facts = opened_stream(opened, None)
    assert facts is not None and facts.owner == "agent-1"
    facts = opened_stream(opened, requested({}, "agent-2"))
    assert facts is not None and facts.owner == "agent-2"
    assert opened_stream(entry_of("stream/open", {"stream_id": "stream-42"}), None) is None


@pytest.mark.parametrize(
    ("created", "moment"),
    [("2025-11-23T12:00:00.000Z", AT), ("2025-11-23T12:00:00", AT), ("today", None), (7, None), (None, None)],
)
def test_a_moment_that_cannot_be_read_is_none(created: Any, moment: datetime | None) -> None:
    [facts] = described_streams({"active_streams": [{**EXAMPLE, "created": created}]}) or []
    assert facts.created == moment


def test_an_id_is_1_to_256_ascii_characters_without_a_mark() -> None:
    assert is_stream_id("stream-1") and is_stream_id("s" * 256)
    assert not any(map(is_stream_id, ["", "#", "s" * 257, "é", None, 1, b"s"]))


@pytest.mark.threat(9)
def test_a_flood_of_requests_costs_its_sender_alone() -> None:
    ledger = StreamLedger()
    ledger.observe(entry_of("stream/request", {"direction": "upload"}, id="mine", **{"from": "bot"}))
    gone = [
        change.stream.owner
        for n in range(500)
        for change in ledger.observe(
            entry_of("stream/request", {"direction": "upload"}, id=f"e{n}", **{"from": "eve"})
        )
        if change.what == "refused"
    ]
    assert ledger.requests["mine"].owner == "bot"
    assert len(ledger.requests) == 100 and set(gone) == {"eve"}
