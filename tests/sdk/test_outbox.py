"""What waits for a link: its order, its bounds, its end."""

from __future__ import annotations

import asyncio

import pytest

from mew_lab.errors import ConnectionLost
from mew_lab.sdk.connection import MAX_KEPT, MAX_KEPT_BYTES, Outbox

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
    assert sent is not None
    return str(sent.exception())


async def test_they_go_in_the_order_in_which_they_came() -> None:
    box = Box()
    first = box.add("1", awaited=True)
    box.add("2")
    assert len(box.out) == 2 and box.left() == ["1", "2"] and len(box.out) == 0
    assert first is not None and first.done() and first.exception() is None


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


async def test_where_nothing_is_kept_everything_ends_with_the_link() -> None:
    box = Box(keep=False)
    sent = box.add("a", awaited=True)
    box.add("b")
    box.add("c")
    box.out.interrupt()
    assert fault_of(sent) == "the connection ended before this message was sent"
    assert box.lost == [(2, "the connection ended before this message was sent")] and box.left() == []
    assert not box.out.keep("d", sent=None, sender="bot")


async def test_what_has_no_sender_is_never_kept() -> None:
    assert not Box().out.keep("#s#x", sent=None, sender="")


@pytest.mark.threat(9)
async def test_only_so_many_are_kept() -> None:
    box = Box()
    for number in range(MAX_KEPT):
        box.keep(str(number))
    with pytest.raises(ConnectionLost, match="takes 1000 messages and 8 MiB"):
        box.out.keep("one more", sent=None, sender="bot")
    assert len(box.left()) == 1000


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


async def test_what_another_name_wrote_is_refused_aloud() -> None:
    box = Box()
    sent = box.keep("a", awaited=True, sender="bot-1")
    box.keep("b", sender="bot-1")
    box.keep("c", sender="bot-2")
    box.out.claim("bot-2")
    why = "it was written as 'bot-1', and the gateway calls this client 'bot-2' now"
    assert fault_of(sent) == why and box.lost == [(1, why)] and box.left() == ["c"]


async def test_at_the_end_everybody_is_told() -> None:
    box = Box()
    sent = box.keep("a", awaited=True)
    box.keep("b")
    box.out.end("it is over")
    assert fault_of(sent) == "it is over" and box.lost == [(1, "it is over")] and box.left() == []


async def test_who_cancels_before_it_was_sent_does_not_send_it() -> None:
    box = Box()
    box.keep("a", awaited=True).cancel()
    box.keep("b")
    assert box.left() == ["b"]
