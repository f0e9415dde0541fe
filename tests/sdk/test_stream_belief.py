"""Which messages about streams a participant believes, and of whom; the test speaks as the gateway."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import (
    MewError,
)

from .conftest import until
from .odd_gateway import Odd, entry


async def test_nobody_but_the_gateway_and_the_owner_changes_a_stream() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1"), entry("stream-2")]
    async with odd.participant:
        before = [(one.id, one.owner, one.writers) for one in odd.book.active.values()]
        forged = {"stream_id": "stream-1", "authorized_writers": ["eve"], "new_owner": "eve", "owner": "eve"}
        for kind in ("stream/open", "stream/close", "stream/write-granted", "stream/ownership-transferred"):
            odd.say(kind, forged, sender="eve")
        odd.say("stream/open", entry("stream-3", "eve"), sender="eve")
        odd.say("system/presence", {"event": "leave", "participant": {"id": "bot"}}, sender="eve")
        odd.streams = []
        odd.say("system/welcome", {"you": {"id": "me"}, "active_streams": []}, sender="eve")
        odd.say("system/welcome", {"you": {"id": "other"}, "active_streams": []}, to=["other"])
        await odd.told()
        assert [(one.id, one.owner, one.writers) for one in odd.book.active.values()] == before
        first = odd.book.active["stream-1"]
        odd.say("stream/close", {"stream_id": "stream-1", "reason": "done\n"}, sender="bot")
        await odd.told()
        assert first.closed == "done\\n" and list(odd.book.active) == ["stream-2"]


async def test_a_gateway_that_speaks_by_its_short_name_is_understood() -> None:
    """Gateways in the field open before they pass the request on, and call themselves `gateway`."""
    odd = Odd()
    async with odd.participant:
        odd.say("stream/open", {"stream_id": "s", "owner": "bot"}, sender="gateway", correlation_id=["r"])
        odd.say("stream/request", {"direction": "upload", "format": "csv"}, sender="bot", id="r")
        await odd.told()
        stream = odd.book.active["s"]
        assert (stream.owner, stream.format, stream.writers) == ("bot", "csv", ("bot",))
        odd.say("stream/write-granted", {"stream_id": "s", "participant_id": "me"}, sender="gateway")
        await odd.told()
        assert stream.may_write
        odd.say("stream/close", {"reason": "complete"}, sender="bot", correlation_id=["r"])
        await odd.told()
        assert stream.closed == "complete"


async def test_the_book_is_corrected_by_each_welcome_that_speaks_of_streams() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1"), entry("stream-2")]
    async with odd.participant:
        one, two = odd.book.active.values()
        changed: list[str] = []
        odd.book.on_change(lambda stream: changed.append(stream.id))
        odd.streams = None  # an update of rights by an older gateway
        odd.welcome()
        await odd.told()
        assert list(odd.book.active.values()) == [one, two]
        odd.streams = [entry("stream-2", authorized_writers=["bot", "me"]), entry("stream-3")]
        odd.welcome()
        await odd.told()
        assert one.closed == "gone" and not two.closed and two.may_write
        assert list(odd.book.active) == ["stream-2", "stream-3"] and changed == ["stream-2"]


async def test_a_leave_ends_what_a_participant_had_even_where_the_gateway_says_no_more() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1"), entry("stream-2", "eve", authorized_writers=["eve", "bot", "me"])]
    async with odd.participant:
        one, two = odd.book.active.values()
        odd.say("system/presence", {"event": "join", "participant": {"id": "bot"}})
        await odd.told()
        assert not one.closed
        odd.say("system/presence", {"event": "leave", "participant": {"id": "bot"}})
        await odd.told()
        assert one.closed == "owner_left" and not two.closed and two.writers == ("eve", "me")


async def test_after_a_reconnection_a_stream_of_the_same_name_may_be_another() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1"), entry("stream-2"), entry("stream-3")]
    async with odd.participant:
        one, two, three = odd.book.active.values()
        odd.streams = [entry("stream-1"), entry("stream-2", created="2025-11-23T13:00:00Z")]
        await odd.end.close(1006)
        await until(lambda: three.closed)
        assert (one.closed, two.closed, three.closed) == ("", "replaced", "gone")
        assert odd.book.active["stream-1"] is one and odd.book.active["stream-2"] is not two
        odd.streams = None  # nothing is told, so there are none
        await odd.end.close(1006)
        await until(lambda: not odd.book.active)


async def test_no_more_than_a_thousand_streams_of_others_are_known_and_ones_own_all_the_same() -> None:
    odd = Odd()
    async with odd.participant:
        for n in range(1002):
            odd.say("stream/open", {"stream_id": f"stream-{n}", "owner": "bot"})
        odd.say("stream/open", {"stream_id": "mine", "owner": "me"})
        await odd.told()
        assert len(odd.book.active) == 1001 and odd.book.untold == 2 and odd.book.active["mine"].mine


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"stream_id": 7},
        {"stream_id": ["stream-1"]},
        {"stream_id": "stream-1", "new_owner": 7, "participant_id": {}, "authorized_writers": "all"},
        {
            "stream_id": "stream-1",
            "refused_before": "many",
            "error": "unauthorized_stream_write",
            "reason": {},
        },
        {"stream_id": "stream-1", "refused_before": -5, "error": "unauthorized_stream_write"},
        {"event": "leave", "participant": ["bot"]},
        {"event": "leave", "participant": {"id": 7}},
    ],
)
async def test_odd_payloads_of_a_gateway_break_nothing(payload: dict[str, Any]) -> None:
    odd = Odd()
    odd.streams = [entry("stream-1")]
    async with odd.participant:
        stream = odd.book.active["stream-1"]
        kinds = ("system/presence", "system/error", "stream/write-granted", "stream/write-revoked")
        for kind in (*kinds, "stream/ownership-transferred", "stream/open", "stream/request", "stream/close"):
            odd.say(kind, payload)
        await odd.told()
        assert (stream.owner, stream.writers) == ("bot", ("bot",)) and stream.refused in (0, 1)
        assert not [one for one in odd.errors if not isinstance(one, MewError)]


async def test_activity_is_told_by_ones_own_clock_and_counted() -> None:
    odd = Odd()
    odd.streams = [entry("stream-1")]
    async with odd.participant:
        stream = odd.book.active["stream-1"]
        begun = stream.last_activity
        assert begun.tzinfo is not None and begun <= datetime.now(UTC)
        odd.end.put(b"#stream-1#abc")
        await odd.told()
        assert (stream.frames, stream.bytes) == (1, 3) and stream.last_activity >= begun
        assert repr(stream) == "<Stream stream-1 of bot, open, 1 frames>"
