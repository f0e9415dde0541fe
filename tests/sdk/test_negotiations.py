"""What becomes of a request that the gateway answers late, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.errors import (
    ConnectionLost,
    NoReply,
)

from .odd_gateway import Odd


@pytest.mark.req("S-L2-43", "P-3.10.4-2")
async def test_a_stream_that_opens_too_late_is_closed_at_once() -> None:
    odd = Odd()
    async with odd.participant:
        with pytest.raises(NoReply, match=r"within 0\.02 s"):
            await odd.book.request_stream(timeout=0.02)
        asked = await odd.sent("stream/request")
        asking = asyncio.create_task(odd.book.request_stream())
        again = await odd.sent("stream/request")
        assert set(odd.book.pending) == {again.id}
        odd.end.put(again.raw)
        await odd.told()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert odd.book.pending == {}
        for id, request in (("s1", asked), ("s2", again)):
            odd.say(
                "stream/open", {"stream_id": id, "owner": "me"}, id=f"o-{id}", correlation_id=[request.id]
            )
        for id, reason in (("s1", "timeout"), ("s2", "cancelled")):
            close = await odd.sent("stream/close")
            assert close.payload == {"stream_id": id, "reason": reason}
            assert close.correlation_id == (f"o-{id}",)


async def test_a_request_ends_with_the_connection() -> None:
    odd = Odd()
    async with odd.participant:
        asking = asyncio.create_task(odd.book.request_stream())
        asked = await odd.sent("stream/request")
        odd.end.put(asked.raw)  # accepted, but not answered
        await odd.told()
        await odd.end.close(1006)
        with pytest.raises(ConnectionLost, match="ended before the gateway answered stream/request"):
            await asking


async def test_requests_that_were_given_up_without_end_are_forgotten() -> None:
    odd = Odd()
    async with odd.participant:
        negotiations = odd.book._negotiations
        for n in range(1100):
            negotiations._give_up(f"r{n}", "stream/open", "timeout")
        assert len(negotiations.given_up) == 1000 and "r1099" in negotiations.given_up
