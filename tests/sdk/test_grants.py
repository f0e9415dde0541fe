"""The book of grants: what was given, who took note, what was taken back."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.grants import Acknowledgement, Grants

CHAT = {"kind": "chat"}


def said(kind: str, sender: str, payload: dict[str, Any], *, id: str = "m", **more: Any) -> Envelope:
    base = {"protocol": "mew/v0.4", "ts": "2026-01-01T12:00:00.000Z", "id": id, "from": sender}
    return Envelope.of({**base, "kind": kind, "payload": payload, **more})


def granted(id: str = "grant-789", **payload: Any) -> Envelope:
    given = {"recipient": "bot", "capabilities": [CHAT], **payload}
    return said("capability/grant", "human", given, id=id, to=["bot-1"])


def ack(sender: str, status: Any = "accepted", about: str = "grant-789") -> Envelope:
    return said("capability/grant-ack", sender, {"status": status}, correlation_id=[about])


@pytest.mark.req("P-3.6.1-2")
def test_a_grant_is_noted_with_recipient_capabilities_and_reason() -> None:
    book = Grants()
    book.observe(granted(reason="Demonstrated safe file handling"))
    [grant] = book
    assert (grant.id, grant.granter, grant.recipient, grant.to) == ("grant-789", "human", "bot", ("bot-1",))
    assert (grant.capabilities, grant.reason) == ((CHAT,), "Demonstrated safe file handling")
    assert book.given_by("human") == [grant] and book.given_by("bot") == []


@pytest.mark.req("P-3.6.3-1")
def test_only_a_recipient_takes_note_under_either_of_its_names() -> None:
    book = Grants()
    book.observe(granted())
    assert book.observe(ack("stranger")) is None
    assert book.observe(ack("bot", about="another")) is None
    book.observe(ack("bot-1"))
    book.observe(ack("bot-1", "read"))
    book.observe(ack("bot", 7))
    grant = book.get("grant-789")
    assert grant is not None
    assert grant.acknowledged == (Acknowledgement("bot-1", "read"), Acknowledgement("bot", ""))


@pytest.mark.req("P-3.6.2-4")
def test_a_revoke_by_id_marks_its_grant_and_one_by_patterns_marks_none() -> None:
    book = Grants()
    book.observe(granted())
    book.observe(
        said("capability/revoke", "human", {"recipient": "bot", "capabilities": [CHAT]}, id="revoke-456")
    )
    [grant] = book
    assert grant.revoked_by == ""
    by_patterns = book.revocation("revoke-456")
    assert by_patterns is not None and (by_patterns.grant_id, by_patterns.capabilities) == ("", (CHAT,))
    book.observe(said("capability/revoke", "admin", {"grant_id": "grant-789", "reason": "Task completed"}))
    [grant] = book
    assert grant.revoked_by == "admin"
    by_id = book.revocation("m")
    assert by_id is not None and (by_id.recipient, by_id.reason) == ("bot", "Task completed")


def test_what_the_gateway_kept_is_noted() -> None:
    book = Grants()
    book.observe(said("capability/revoke", "human", {"recipient": "bot", "capabilities": [CHAT]}))
    book.kept("m", [{"kind": "*"}, 7])
    revocation = book.revocation("m")
    assert revocation is not None and revocation.remaining == ({"kind": "*"},)
    assert book.kept("unknown", []) is None


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    "payload", [{"recipient": 7}, {"recipient": ""}, {"capabilities": None}, {"capabilities": ["chat"]}]
)
def test_an_odd_grant_is_none_and_an_id_is_noted_once(payload: Any) -> None:
    book = Grants()
    assert book.observe(granted(**payload)) is None and len(book) == 0
    book.observe(granted())
    assert book.observe(granted(recipient="other")) is None
    assert [one.recipient for one in book] == ["bot"]


@pytest.mark.threat(9)
def test_the_book_is_bounded_in_entries_and_bytes() -> None:
    book = Grants()
    for n in range(1001):
        book.observe(granted(f"g{n}"))
        book.observe(said("capability/revoke", "human", {"recipient": "bot", "grant_id": "x"}, id=f"r{n}"))
    assert (len(book), book.get("g0"), book.revocation("r0")) == (1000, None, None)
    for n in range(5):
        book.observe(granted(f"big{n}", x="y" * 1_000_000))
    assert [one.id for one in book] == ["big2", "big3", "big4"]
