"""Whether the gateway took a message: the echo, the refusal, silence, the end of the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.errors import ConnectionLost, LocalProtocolError, NoReply, Refused
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.accepting import Accepting
from mew_lab.sdk.client import MEWClient
from mew_lab.transport.link import Link
from mew_lab.transport.memory import MemoryLink, pair

CHAT = {"kind": "chat", "payload": {"text": "x"}}


class Silent:
    """A gateway that welcomes and then says nothing by itself."""

    def __init__(self) -> None:
        self.end: MemoryLink
        self.client = MEWClient(space="demo", connect_link=self.open, new_id=lambda: "m1", reconnect=False)
        self.accepting = Accepting(self.client)

    async def open(self) -> Link:
        here, self.end = pair()
        self.end.put('{"from":"system:gateway","kind":"system/welcome","payload":{"you":{"id":"me"}}}')
        return here

    def send(self, draft: Any = CHAT, *, timeout: float = 10.0) -> asyncio.Task[Envelope]:
        return asyncio.ensure_future(self.accepting.send(draft, timeout=timeout))

    async def sent(self) -> Envelope:
        await self.end.receive()
        found = self.accepting.sent("m1")
        assert found is not None
        return found


async def test_the_echo_is_the_answer() -> None:
    silent = Silent()
    async with silent.client:
        sending = silent.send()
        echo = await silent.sent()
        silent.accepting.echoed(Envelope.of({"id": "other", "kind": "chat"}))
        assert not sending.done()
        silent.accepting.echoed(echo)
        silent.accepting.echoed(echo)
        assert await sending is echo and silent.accepting.sent("m1") is None


async def test_a_refusal_is_raised_once() -> None:
    silent = Silent()
    async with silent.client:
        sending = silent.send()
        await silent.sent()
        assert not silent.accepting.refused("other", Refused("no", code="x"))
        assert silent.accepting.refused("m1", Refused("no", code="x"))
        with pytest.raises(Refused):
            await sending
        assert not silent.accepting.refused("m1", Refused("no", code="x"))


async def test_silence_and_the_end_of_the_connection_are_told() -> None:
    silent = Silent()
    async with silent.client:
        with pytest.raises(NoReply, match=r"The gateway neither took nor refused chat of 'me' within 0.01 s"):
            await silent.send(timeout=0.01)
        await silent.end.receive()
        sending = silent.send()
        await silent.sent()
        silent.accepting.lost(ConnectionLost("broke", close_code=1006))
        with pytest.raises(ConnectionLost, match="ended before chat of 'me' was accepted") as caught:
            await sending
        assert caught.value.close_code == 1006


async def test_what_cannot_be_sent_is_not_awaited() -> None:
    silent = Silent()
    with pytest.raises(ConnectionLost):
        await silent.send()
    async with silent.client:
        with pytest.raises(LocalProtocolError):
            await silent.send({"kind": "system/x"})
    assert silent.accepting.sent("m1") is None
