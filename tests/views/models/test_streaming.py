"""The streams of a space as its human has them: a real gateway, real participants, frames over real links."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from heard import Space

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.lab.seat import Seat
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.streams import MAX_REQUESTS
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams import model as module
from mew_lab.views.streams.frame_buffer import FramePosition
from mew_lab.views.streams.model import StreamsModel
from mew_lab.views.streams.row import MAX_TEXT, StreamRow

from ...holding import most_held

STREAMS = [{"kind": "stream/*"}]


def eventually(what: Callable[[], Any], *, deadline: float = 10.0) -> Any:
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        threading.Event().wait(0.01)
    raise AssertionError("it never came true")


def follow(lab: Lab) -> StreamsModel:
    streaming = StreamsModel(lab.me.participant)
    lab.loop.call(lambda: streaming.follow(lab.following))
    return streaming


def request(seat: Seat, direction: str = "upload", **said: Any) -> Stream:
    work = seat.participant.streams.request_stream(direction, **said)
    return seat.lab.loop.run(work, timeout=10, doing="requesting a stream")


def do(seat: Seat, work: Any) -> Any:
    return seat.lab.loop.run(work, timeout=10, doing="acting on a stream")


def write(seat: Seat, stream: Stream, *frames: bytes) -> None:
    for data in frames:
        do(seat, stream.write(data))


def only(streaming: StreamsModel) -> StreamRow:
    [row] = streaming.rows()
    return row


def held(streaming: StreamsModel, row: StreamRow) -> list[bytes]:
    frames = streaming.buffer(row.key)
    assert frames is not None
    return streaming.frames.everything(frames).frames


@pytest.fixture
def weather(lab: Lab) -> Seat:
    return lab.join("weather-service", can=STREAMS)


@pytest.mark.req("P-3.10.4-2")
def test_a_stream_is_a_row_from_its_request_to_its_end(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    stream = request(
        weather, description="Temperature of the garden", content_type="application/x-ndjson", format="jsonl"
    )
    row = eventually(lambda: streaming.open_row(stream.id))
    assert only(streaming) is row
    assert (row.state, row.owner, row.writers, row.target) == (
        "open",
        "weather-service",
        ("weather-service",),
        (),
    )
    assert (row.description, row.kind, row.mine, row.may) == (
        "Temperature of the garden",
        "json",
        False,
        frozenset(),
    )
    write(weather, stream, b'{"t": 20}\n', b'{"t": 21}\n')
    eventually(lambda: streaming.traffic(row.key)[:2] == (2, 20))
    assert streaming.traffic(row.key)[2] == 10.0  # 20 bytes within the last two seconds
    assert held(streaming, row) == [b'{"t": 20}\n', b'{"t": 21}\n']
    do(weather, stream.close("cancelled"))
    closed = eventually(lambda: (row := only(streaming)).state == "closed" and row)
    assert (closed.key, closed.reason, streaming.open_row(stream.id)) == (row.key, "cancelled", None)
    assert held(streaming, closed), "what came can still be looked at"


def test_who_writes_and_who_owns_is_what_the_gateway_said_last(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    stream = request(weather)
    row = eventually(lambda: streaming.open_row(stream.id))
    do(weather, stream.grant_write("human"))
    eventually(lambda: only(streaming).writers == ("weather-service", "human"))
    do(weather, stream.transfer_ownership("human"))
    mine = eventually(lambda: (row := only(streaming)).mine and row)
    assert (mine.key, mine.owner) == (row.key, "human")
    assert mine.may == {"close", "grant-write", "revoke-write", "transfer-ownership"}


def test_rights_that_go_away_take_the_deeds_with_them(lab: Lab) -> None:
    streaming = follow(lab)
    request(lab.me)
    assert only(streaming).may and streaming.may_request()
    other = lab.join("boss", can="admin")
    with pytest.raises(Exception, match="owner"):  # who runs the space keeps every right
        other.send("capability/revoke", {"recipient": "human", "capabilities": STREAMS}, to="human")
    visitor = lab.join("visitor", can=STREAMS)
    theirs = StreamsModel(visitor.participant)
    lab.loop.call(lambda: theirs.follow(lab.following))
    request(visitor)
    mine = eventually(lambda: next((row for row in theirs.rows() if row.mine), None))
    assert mine.may
    other.send("capability/revoke", {"recipient": "visitor", "capabilities": STREAMS}, to="visitor")
    eventually(lambda: theirs.row(mine.key).may == frozenset() and not theirs.may_request())  # type: ignore[union-attr]


def test_frames_for_others_do_not_come_here_and_the_row_says_so(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    lab.join("aggregator", can=STREAMS)
    stream, open = request(weather, target="aggregator"), request(weather)
    write(weather, stream, b"secret")
    write(weather, open, b"for all")
    row = eventually(lambda: streaming.open_row(open.id))
    eventually(lambda: streaming.traffic(row.key)[0] == 1)
    other = streaming.open_row(stream.id)
    assert other is not None and other.target == ("aggregator",) and not other.reaches
    assert streaming.traffic(other.key) == (0, 0, 0.0)


def test_a_request_that_the_gateway_refused_says_why(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    with pytest.raises(Exception, match="nobody"):
        request(weather, target="nobody", description="for nobody")
    row = eventually(lambda: (row := only(streaming)).state == "refused" and row)
    assert (row.id, row.owner, row.description) == ("", "weather-service", "for nobody")
    assert row.target == ("nobody",)
    assert "nobody" in eventually(lambda: only(streaming).reason)


def test_streams_that_were_over_before_anybody_looked_are_told_by_the_log(lab: Lab, weather: Seat) -> None:
    first, second = request(weather, description="first"), request(weather, description="second")
    write(weather, second, b"unheard")
    do(weather, first.close())
    eventually(lambda: not lab.me.participant.streams.active.get(first.id))
    eventually(lambda: lab.me.participant.streams.active[second.id].frames == 1)
    streaming = follow(lab)
    rows = eventually(
        lambda: len(streaming.rows()) == 2 and {row.description: row for row in streaming.rows()}
    )
    assert (rows["first"].state, rows["first"].reason) == ("closed", "complete")
    assert rows["second"].state == "open"
    write(weather, second, b"heard")
    eventually(lambda: streaming.traffic(rows["second"].key)[:2] == (2, 12))
    assert held(streaming, rows["second"]) == [b"heard"]


def test_who_comes_late_has_the_streams_of_the_welcome(lab: Lab, weather: Seat) -> None:
    stream = request(
        weather, description="began early", content_type="text/plain", target=["weather-service"]
    )
    late = lab.join("late", can=STREAMS)
    streaming = StreamsModel(late.participant)
    lab.loop.call(lambda: streaming.follow(connect_following(lab)))
    row = only(streaming)
    assert (row.id, row.late, row.state) == (stream.id, True, "open")
    assert (row.owner, row.description, row.content_type) == ("weather-service", "began early", "text/plain")
    assert (row.target, row.reaches) == (("weather-service",), False)
    do(weather, stream.close())
    eventually(lambda: only(streaming).state == "closed")


def connect_following(lab: Lab) -> Any:
    """A log that begins now, as that of a space that runs elsewhere."""
    from mew_lab.lab.entry_feed import EntryFeed
    from mew_lab.log.log import Log

    return EntryFeed(Log.live(space=lab.space))


def test_the_end_of_a_connection_is_the_end_of_what_is_known(lab: Lab, weather: Seat) -> None:
    request(weather)
    late = lab.join("late", can=STREAMS)
    streaming = StreamsModel(late.participant)
    lab.loop.call(lambda: streaming.follow(connect_following(lab)))
    late.leave()
    assert eventually(lambda: (row := only(streaming)).state == "closed" and row).reason == "disconnected"


def test_owner_left_is_the_reason_when_it_left(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    request(weather)
    weather.leave()
    assert eventually(lambda: (row := only(streaming)).state == "closed" and row).reason == "owner_left"


def test_who_stops_is_told_no_more(lab: Lab, weather: Seat) -> None:
    streaming = follow(lab)
    stream = request(weather)
    row = eventually(lambda: streaming.open_row(stream.id))
    told: list[int] = []
    leave = streaming.changed.add(lambda: told.append(1))
    write(weather, stream, b"x")
    eventually(lambda: told)
    leave()
    lab.loop.call(streaming.stop)
    write(weather, stream, b"y")
    eventually(lambda: lab.me.participant.streams.active[stream.id].frames == 2)
    assert streaming.traffic(row.key)[0] == 1


# --- hostile ---


def heard(seq: int, kind: str, sender: str = "mallory", *, refused: bool = False, **members: Any) -> Entry:
    members = {
        "protocol": "mew/v0.4",
        "id": f"e-{seq}",
        "ts": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
        "from": sender,
        "kind": kind,
        "payload": {},
    } | members
    return Entry(
        seq, float(seq), json.dumps(members), "refused" if refused else "accepted", "", "", sender, members
    )


def opened(seq: int, id: str, about: str = "") -> Entry:
    payload = {"stream_id": id, "owner": "mallory", "authorized_writers": ["mallory"]}
    return heard(
        seq, "stream/open", "system:gateway", payload=payload, correlation_id=[about] if about else []
    )


@pytest.fixture
def ears(lab: Lab) -> StreamsModel:
    return StreamsModel(lab.me.participant)


@pytest.fixture
def tell(ears: StreamsModel) -> Callable[[Entry], None]:
    """Hands an entry to the ledger, and what it made of it to the rows."""
    return Space(ears).hand_on


def test_a_participants_own_word_opens_nothing_and_closes_nothing(
    ears: StreamsModel, tell: Callable[[Entry], None]
) -> None:
    tell(opened(1, "stream-1"))
    forged = heard(2, "stream/open", "mallory", payload={"stream_id": "stream-9", "owner": "human"})
    for entry in (
        forged,
        heard(3, "stream/close", "eve", payload={"stream_id": "stream-1"}),
        heard(4, "stream/close", "mallory", refused=True, payload={"stream_id": "stream-1"}),
        heard(
            5, "stream/ownership-transferred", "eve", payload={"stream_id": "stream-1", "new_owner": "eve"}
        ),
    ):
        tell(entry)
    assert (only(ears).id, only(ears).state, only(ears).owner) == ("stream-1", "open", "mallory")
    tell(heard(6, "stream/close", "mallory", payload={"stream_id": "stream-1", "reason": "error"}))
    assert (only(ears).state, only(ears).reason) == ("closed", "error")


def test_ten_thousand_streams_are_bounded_and_what_is_left_out_is_counted(
    ears: StreamsModel, tell: Callable[[Entry], None]
) -> None:
    for n in range(10_000):
        tell(opened(2 * n + 1, f"stream-{n}"))
        tell(heard(2 * n + 2, "stream/close", "mallory", payload={"stream_id": f"stream-{n}"}))
    rows = ears.rows()
    assert len(rows) == module.MOST_OVER and rows[-1].id == "stream-9999"
    assert ears.over_left_out == 10_000 - module.MOST_OVER
    assert most_held(ears) < 5000


def test_requests_without_an_answer_are_bounded(ears: StreamsModel, tell: Callable[[Entry], None]) -> None:
    for n in range(700):
        tell(heard(n, "stream/request", payload={"description": "x" * 1000}))
    rows = ears.rows()
    assert sum(row.state == "requested" for row in rows) == MAX_REQUESTS
    assert len(rows) <= MAX_REQUESTS + module.MOST_OVER
    tell(heard(700, "stream/request", payload={"description": "x" * 1_000_000}))
    assert all(len(row.description) == MAX_TEXT for row in ears.rows())


@pytest.mark.parametrize(
    "payload",
    [
        {"description": 7, "content_type": ["x"], "format": None, "direction": {}, "expected_size_bytes": -1},
        {"target": "nobody", "metadata": [], "expected_size_bytes": True},
        [],
        None,
        "text",
    ],
)
def test_a_request_of_any_shape_is_a_row(
    ears: StreamsModel, tell: Callable[[Entry], None], payload: Any
) -> None:
    tell(heard(1, "stream/request", payload=payload))
    row = only(ears)
    assert (row.description, row.content_type, row.direction, row.expected) == ("", "", "upload", None)


def test_ids_that_repeat_are_new_streams(ears: StreamsModel, tell: Callable[[Entry], None]) -> None:
    tell(opened(1, "stream-1"))
    tell(opened(2, "stream-1"))
    assert [(row.state, row.reason) for row in ears.rows()] == [("closed", "replaced"), ("open", "")]


def test_a_space_that_runs_elsewhere_has_the_same_rows(lab: Lab, weather: Seat) -> None:
    away = up("elsewhere", port=0, journal=None)
    token = away.token_file()
    assert token.exists()
    visitor_token = away.enrol("visitor", can=STREAMS)
    assert visitor_token
    other = connect(away.url, space="elsewhere", token_file=away.token_file("visitor"), name="far")
    streaming = follow(other)
    stream = request(away.me, description="seen from afar")
    row = eventually(lambda: streaming.open_row(stream.id))
    write(away.me, stream, b"hello")
    eventually(lambda: streaming.traffic(row.key)[:2] == (1, 5))
    assert (row.description, row.owner, len(streaming.rows())) == ("seen from afar", "human", 1)
    frames = streaming.buffer(row.key)
    assert frames is not None and frames.end == FramePosition(1, 5)
