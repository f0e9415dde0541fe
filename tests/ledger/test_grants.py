"""The ledger of grants: what was given, who acknowledged it, what was revoked or ended."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import Acknowledgement, GrantLedger
from mew_lab.protocol.envelope import Envelope

CHAT = {"kind": "chat"}


def entry_of(kind: str, sender: str, payload: dict[str, Any], *, id: str = "m", **more: Any) -> Entry:
    base = {"protocol": "mew/v0.4", "ts": "2026-01-01T12:00:00.000Z", "id": id, "from": sender}
    return Entry.of(Envelope.of({**base, "kind": kind, "payload": payload, **more}), 1)


def granted(id: str = "grant-789", **payload: Any) -> Entry:
    given = {"recipient": "bot", "capabilities": [CHAT], **payload}
    return entry_of("capability/grant", "human", given, id=id, to=["bot-1"])


def ack(sender: str, status: Any = "accepted", about: str = "grant-789") -> Entry:
    return entry_of("capability/grant-ack", sender, {"status": status}, correlation_id=[about])


@pytest.mark.req("P-3.6.1-2")
def test_a_grant_is_noted_with_recipient_capabilities_and_reason() -> None:
    ledger = GrantLedger()
    ledger.observe(granted(reason="Demonstrated safe file handling"))
    [grant] = ledger
    assert (grant.id, grant.granter, grant.recipient, grant.to) == ("grant-789", "human", "bot", ("bot-1",))
    assert (grant.capabilities, grant.reason) == ((CHAT,), "Demonstrated safe file handling")
    assert ledger.given_by("human") == [grant] and ledger.given_by("bot") == []


@pytest.mark.req("P-3.6.3-1")
def test_only_a_recipient_acknowledges_under_either_of_its_names() -> None:
    ledger = GrantLedger()
    ledger.observe(granted())
    assert ledger.observe(ack("stranger")) == ()
    assert ledger.observe(ack("bot", about="another")) == ()
    ledger.observe(ack("bot-1"))
    ledger.observe(ack("bot-1", "read"))
    ledger.observe(ack("bot", 7))
    grant = ledger.get("grant-789")
    assert grant is not None
    assert grant.acknowledged == (Acknowledgement("bot-1", "read"), Acknowledgement("bot", ""))


@pytest.mark.req("P-3.6.2-4")
@pytest.mark.ruling("R13")
def test_a_revoke_by_id_ends_its_grant_and_one_by_patterns_what_it_names() -> None:
    ledger = GrantLedger()
    ledger.observe(granted())
    other = {"recipient": "bot", "capabilities": [{"kind": "chat/*"}, {"kind": "chat", "payload": {"a": 1}}]}
    ledger.observe(entry_of("capability/revoke", "human", other, id="revoke-456"))
    [grant] = ledger
    assert grant.stands and grant.revoked_by == ""  # whether it fell, the gateway alone knows
    by_patterns = ledger.revocation("revoke-456")
    assert by_patterns is not None and by_patterns.grant_id == ""
    ledger.observe(
        entry_of("capability/revoke", "admin", {"grant_id": "grant-789", "reason": "Task completed"})
    )
    [grant] = ledger
    assert (grant.state, grant.revoked_by) == ("revoked", "admin")
    by_id = ledger.revocation("m")
    assert by_id is not None and (by_id.recipient, by_id.reason) == ("bot", "Task completed")


@pytest.mark.ruling("R13")
def test_of_two_capabilities_a_revoke_by_patterns_takes_the_one_that_it_names() -> None:
    ledger = GrantLedger()
    number, truth = {"kind": "chat", "payload": {"n": 1}}, {"kind": "chat", "payload": {"n": True}}
    ledger.observe(granted(capabilities=[CHAT, number]))
    for patterns, left in (([CHAT], (number,)), ([truth], (number,)), ([number], ())):
        revoke = {"recipient": "bot", "capabilities": patterns}
        ledger.observe(entry_of("capability/revoke", "human", revoke, id="r"))
        [grant] = ledger
        assert grant.left == left and grant.stands is bool(left)


@pytest.mark.parametrize("removed", ["bot", "human"])
def test_the_removal_of_its_recipient_or_its_granter_ends_a_grant(removed: str) -> None:
    ledger = GrantLedger()
    ledger.observe(granted())
    ledger.observe(entry_of("space/kick", "admin", {"participant_id": "somebody"}))
    assert [grant.stands for grant in ledger] == [True]
    ledger.observe(entry_of("space/kick", "admin", {"participant_id": removed}))
    assert [(grant.state, grant.revoked_by) for grant in ledger] == [("ended", "admin")]


def test_what_the_gateway_kept_is_told_by_the_gateway_alone() -> None:
    ledger = GrantLedger()
    ledger.observe(entry_of("capability/revoke", "human", {"recipient": "bot", "capabilities": [CHAT]}))
    partial = {"error": "revoke_partial", "remaining": [{"kind": "*"}, 7]}
    ledger.observe(entry_of("system/error", "eve", partial, correlation_id=["m"]))
    ledger.observe(entry_of("system/error", "system:gateway", partial, correlation_id=["unknown"]))
    revocation = ledger.revocation("m")
    assert revocation is not None and revocation.remaining == ()
    ledger.observe(entry_of("system/error", "system:gateway", partial, correlation_id=["m"]))
    revocation = ledger.revocation("m")
    assert revocation is not None and revocation.remaining == ({"kind": "*"},)


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    "payload", [{"recipient": 7}, {"recipient": ""}, {"capabilities": None}, {"capabilities": ["chat"]}]
)
def test_an_odd_grant_is_none_and_an_id_is_noted_once(payload: Any) -> None:
    ledger = GrantLedger()
    assert ledger.observe(granted(**payload)) == () and len(ledger) == 0
    ledger.observe(granted())
    assert ledger.observe(granted(recipient="other")) == ()
    assert [one.recipient for one in ledger] == ["bot"]


@pytest.mark.threat(9)
def test_the_ledger_is_bounded_in_entries_and_bytes() -> None:
    ledger = GrantLedger()
    for n in range(1001):
        ledger.observe(granted(f"g{n}"))
        ledger.observe(
            entry_of("capability/revoke", "human", {"recipient": "bot", "grant_id": "x"}, id=f"r{n}")
        )
    assert (len(ledger), ledger.get("g0"), ledger.revocation("r0")) == (1000, None, None)
    for n in range(5):
        ledger.observe(granted(f"big{n}", x="y" * 1_000_000))
    assert [one.id for one in ledger] == ["big2", "big3", "big4"]


def test_a_grant_and_an_invitation_are_known_with_the_time_of_their_message() -> None:
    ledger = GrantLedger(limit=2)

    def told(seq: int, kind: str, verdict: str = "accepted", **payload: Any) -> None:
        members = {"id": f"m{seq}", "from": "human", "kind": kind, "payload": payload}
        ledger.observe(Entry(seq, 1000.0 + seq, "", verdict, "", "", "human", members))

    told(1, "capability/grant", recipient="bot", capabilities=[CHAT])
    told(2, "space/invite", participant_id="guest")
    told(3, "space/invite", "refused", participant_id="guest")
    told(4, "capability/grant", "refused", recipient="bot", capabilities=[CHAT])
    assert [ledger.given_at(f"m{seq}") for seq in range(1, 5)] == [1001.0, 1002.0, None, None]
    assert [grant.id for grant in ledger] == ["m1"], "an invitation is no grant"
    for seq in (5, 6):
        told(seq, "space/invite", participant_id="guest")
    assert [ledger.given_at(f"m{seq}") for seq in (1, 2, 5, 6)] == [1001.0, None, 1005.0, 1006.0]
