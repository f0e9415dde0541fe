"""An invitation brings a token that is held as a secret, and every refusal its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, Refused
from mew_lab.lab.invitations import Invitation, invite
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.profiles import STARTER
from mew_lab.protocol.token import Token


def ask(lab: Lab, name: str, patterns: Any = None) -> Invitation:
    return lab.loop.submit(invite(lab.me.participant, name, patterns, reason="a second pair of eyes")).result(
        8
    )


@pytest.mark.req("P-3.6.5-2", "P-3.6.5-3")
def test_who_the_owner_invites_joins_with_the_token_and_holds_the_starter_profile(lab: Lab) -> None:
    invitation = ask(lab, "reviewer")
    assert isinstance(invitation.token, Token) and invitation.url == lab.url
    far = connect(invitation.url, space=lab.space, token=invitation.token.reveal(), name="far")
    assert far.me.name == "reviewer"
    held = [json.dumps(one) for one in far.me.capabilities]
    assert [one for one in map(json.dumps, STARTER) if one not in held] == []


@pytest.mark.req("P-3.6.5-1")
def test_capabilities_of_ones_own_are_given(lab: Lab) -> None:
    ask(lab, "reader", PROFILES["observer"])
    (sent,) = [one for one in lab.log if one.get("kind") == "space/invite"]
    assert sent["payload"] == {
        "participant_id": "reader",
        "initial_capabilities": PROFILES["observer"],
        "reason": "a second pair of eyes",
    }


@pytest.mark.threat(1)
def test_threat_01_the_token_stands_in_no_log_repr_or_error(lab: Lab) -> None:
    invitation = ask(lab, "reviewer")
    secret = invitation.token.reveal()
    assert secret not in repr(invitation) and secret not in str(lab.log.df.to_dict())
    assert not any(secret in (record.raw or "") + record.detail for record in lab.log.records)


@pytest.mark.threat(1)
def test_threat_01_nor_in_the_log_of_who_invites_from_elsewhere(lab: Lab) -> None:
    lab.enrol("visitor", can="admin")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    invitation = ask(far, "reviewer")
    secret = invitation.token.reveal()
    assert len(secret) > 20
    acks = [record.raw or "" for record in far.log.records if "space/invite-ack" in (record.raw or "")]
    assert len(acks) == 1 and secret not in acks[0] and "<token>" in acks[0]
    assert not any(secret in far.rows.raw(row.seq) for row in far.rows.since(0, 10000))


@pytest.mark.parametrize(
    ("name", "code"),
    [("reviewer", "already_exists"), ("HUMAN", "already_exists"), ("two words", "invalid_request")],
)
def test_a_name_that_cannot_be_is_refused_with_the_reason(lab: Lab, name: str, code: str) -> None:
    ask(lab, "reviewer")
    with pytest.raises(Refused) as refused:
        ask(lab, name)
    assert refused.value.code == code


def test_who_may_not_invite_is_told_so(lab: Lab) -> None:
    helper = lab.join("helper")
    with pytest.raises(CapabilityViolation, match="space/invite"):
        lab.loop.submit(invite(helper.participant, "friend")).result(20)


def test_nobody_is_given_more_than_the_inviter_holds(lab: Lab) -> None:
    host = lab.join("host", can=[{"kind": "space/invite"}, {"kind": "chat"}])
    with pytest.raises(Refused) as refused:
        lab.loop.submit(invite(host.participant, "friend", [{"kind": "space/kick"}])).result(20)
    assert refused.value.code == "cannot_grant"
