"""The ledger of chat messages is bounded, and one that chats without end drives nobody's messages out."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.ledger.chats import ChatChange, ChatLedger
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.envelope import Envelope


class Chat:
    """A ledger that is told of envelopes."""

    def __init__(self, **bounds: int) -> None:
        self.ledger = ChatLedger(**bounds)
        self._count = 0

    def tell(
        self, sender: str, kind: str, payload: dict[str, Any], *about: str, id: str = ""
    ) -> list[ChatChange]:
        self._count += 1
        members = {"id": id or f"e{self._count}", "from": sender, "kind": kind, "payload": payload}
        envelope = Envelope.of({**members, "correlation_id": list(about)})
        return list(self.ledger.observe(Entry.of(envelope, self._count)))


@pytest.mark.threat(9, 42)
def test_one_that_chats_without_end_drives_nobodys_messages_out() -> None:
    chat = Chat(limit=2000)
    chat.tell("human", "chat", {"text": "x"}, id="first")
    for n in range(3000):
        chat.tell(f"p{n % 7}", "chat", {"text": "x"})
    assert len(chat.ledger) == 2000 and chat.ledger.get("first") is not None


@pytest.mark.threat(9)
def test_what_is_held_is_bounded_in_characters_and_in_remarks() -> None:
    chat = Chat(weight=100_000)
    chat.tell("human", "chat", {"text": "short"}, id="first")
    for _ in range(100):
        chat.tell("eve", "chat", {"text": "x" * 900_000})
    assert 20 <= len(chat.ledger) <= 25 and chat.ledger.get("first") is not None
    for n in range(300):
        chat.tell(f"p{n}", "chat/acknowledge", {"status": "s" * 900}, "first")
        chat.tell(f"p{n}", "chat/cancel", {"reason": "r" * 900}, "first")
    held = chat.ledger.get("first")
    assert held is not None and (len(held.receipts), len(held.dismissed)) == (200, 200)
    assert {len(one.status) for one in held.receipts} == {80}


@pytest.mark.threat(9)
def test_authors_share_the_characters_evenly_whatever_they_sent_before() -> None:
    chat = Chat(weight=3000)  # six messages of 400 characters
    for sender in ("eve", "human"):
        for _ in range(100):
            chat.tell(sender, "chat", {"text": "x" * 400})
    held = [message.sender for message in chat.ledger]
    assert (held.count("eve"), held.count("human")) == (3, 3)


@pytest.mark.threat(9)
def test_what_others_acknowledge_counts_for_the_author() -> None:
    chat = Chat(weight=10_000)
    chat.tell("eve", "chat", {"text": "x"}, id="eve's")
    for _ in range(20):
        chat.tell("human", "chat", {"text": "x"})
    for n in range(200):
        chat.tell(f"p{n}", "chat/acknowledge", {"status": "s" * 80}, "eve's")
    assert [message.sender for message in chat.ledger] == ["human"] * 20


@pytest.mark.req("P-3.4.1-1", "P-3.4.2-1")
def test_each_entry_tells_what_it_changed() -> None:
    chat = Chat()
    told = [
        chat.tell("human", "chat", {"text": "x"}, id="c"),
        chat.tell("eve", "chat", {"text": "x"}, id="c"),
        chat.tell("human", "chat/acknowledge", {}, "c"),
        chat.tell("bot", "chat/acknowledge", {}, "c", "c", "nobody"),
        chat.tell("eve", "chat/cancel", {}, "c"),
        chat.tell("human", "chat/cancel", {}, "c"),
        chat.tell("human", "chat/cancel", {}, "c"),
        chat.tell("ann", "chat/acknowledge", {}, "c"),
        chat.tell("ann", "chat", {"text": 7}),
    ]
    assert [[(change.what, change.id) for change in changes] for changes in told] == [
        [("said", "c")],
        [("repeated", "c")],
        [("claimed", "c")],
        [("acknowledged", "c"), ("unknown", "nobody")],
        [("dismissed", "c")],
        [("cancelled", "c")],
        [("claimed", "c")],
        [("claimed", "c")],
        [],
    ]
