"""What waits for a link: its order, its bounds, its end."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.errors import ConnectionLost
from mew_lab.sdk.connection import MAX_KEPT_BYTES, Outbox

MIB = 1024 * 1024


class Box:
    """An outbox, and what it told of messages that nobody awaits."""

    def __init__(self, *, keep: bool = True) -> None:
        self.lost: list[tuple[int, str]] = []
        self.out = Outbox(keep=keep, lost=lambda count, why: self.lost.append((count, why)))

    def add(self, text: str, *, awaited: bool = False) -> asyncio.Future[None] | None:
        sent = asyncio.get_running_loop().create_future() if awaited else None
        self.out.add(text, sent=sent)
        return sent

    def keep(self, text: str, *, awaited: bool = False, sender: str = "bot") -> asyncio.Future[None]:
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert self.out.keep(text, sent=sent if awaited else None, sender=sender)
        return sent

    def left(self) -> list[str | bytes]:
        found = []
        while (message := self.out.take()) is not None:
            found.append(message)
            self.out.confirm_taken()
        return found


def fault_of(sent: asyncio.Future[None] | None) -> str:
    return str(sent.exception())


async def test_what_was_being_handed_over_is_never_repeated() -> None:
    box = Box()
    sent = [box.keep(text, awaited=True) for text in "abc"]
    box.out.claim("bot")
    assert box.out.take() == "a"
    assert len(box.out) == 3  # what the link is taking is not gone yet
    box.out.interrupt()
    assert "nobody can know whether it arrived" in fault_of(sent[0])
    box.keep("d")
    box.out.claim("bot")
    box.add("e")
    assert box.left() == ["b", "c", "d", "e"] and box.lost == []


async def test_who_sent_on_a_link_that_broke_is_told_and_only_the_rest_is_kept() -> None:
    box = Box()
    box.keep("a")
    box.out.claim("bot")
    sent = box.add("b", awaited=True)
    box.add("c")
    box.out.interrupt()
    box.keep("d")
    assert fault_of(sent) == "the connection ended before this message was sent"
    assert [count for count, _ in box.lost] == [1]
    box.out.claim("bot")
    assert box.left() == ["a", "d"]


@pytest.mark.threat(9)
async def test_only_so_much_is_kept_counted_in_bytes() -> None:
    box = Box()
    for _ in range(7):
        box.keep("é" * (MIB // 2))
    with pytest.raises(ConnectionLost, match="8 MiB"):
        box.out.keep("é" * (MIB // 2) + "x", sent=None, sender="bot")
    box.keep("x" * MIB)
    assert MAX_KEPT_BYTES == 8 * MIB
    with pytest.raises(ConnectionLost, match="8 MiB"):
        box.out.keep("x", sent=None, sender="bot")
    box.out.claim("bot")
    box.out.interrupt()  # the count is taken anew
    with pytest.raises(ConnectionLost, match="8 MiB"):
        box.out.keep("x", sent=None, sender="bot")
