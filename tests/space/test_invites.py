"""Invites and kicks: who may come, with what, who learns the token, and how somebody is put out."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.space.events import TOKEN_PLACEHOLDER, Close, Deliver, HttpReply, Mint, Void
from mew_lab.space.state import SpaceLimits

from .stage import Stage, Step, patterns

BASE = {"kind": "mcp/response"}


def invited(stage: Stage, inviter: str, name: str, **payload: Any) -> Step:
    return stage.send(inviter, "space/invite", {"participant_id": name, **payload})


# --- who is let in ---


@pytest.mark.req("P-3.6.5-3")
def test_an_invited_participant_may_post_though_it_never_connected() -> None:
    stage = Stage(alice="*")
    assert stage.post("new", "chat").reply.status == 403
    invited(stage, "alice", "new", initial_capabilities=patterns(["chat"]))
    posted = stage.post("new", "chat")
    assert (posted.reply.status, posted.hearers) == (200, {"alice"})


@pytest.mark.req("P-3.6.5-7")
def test_an_invite_by_who_may_not_invite_makes_nobody() -> None:
    stage = Stage(alice="*", eve=["space/kick", "chat"])
    refused = invited(stage, "eve", "new")
    assert refused.error["error"] == "capability_violation" and refused.hearers == {"eve"}
    assert refused.of(Mint) == []
    assert stage.join("new").closed == {"new": 4401}
    assert invited(stage, "alice", "new").of(Mint) == [Mint("new")]  # the name is still free


# --- who learns of it ---


@pytest.mark.req("P-3.6.5-4", "P-3.6.6-1", "P-3.6.6-3", "P-3.6.6-2")
def test_the_acknowledgement_goes_to_the_inviter_alone() -> None:
    stage = Stage(alice="*", ben=["space/invite"], absent=["ben"])
    stage.join("ben", as_="client-3", on="c3")
    step = stage.send("c3", "space/invite", {"participant_id": "new"}, id="invite-123")
    assert step.told("space/invite-ack") == {"c3"}
    ack = step.said("space/invite-ack")
    assert (ack.sender, ack.to, ack.correlation_id) == ("system:gateway", ("client-3",), ("invite-123",))
    assert ack.payload == {"status": "created", "participant_id": "new", "token": TOKEN_PLACEHOLDER}


@pytest.mark.req("P-3.6.6-4")
@pytest.mark.threat(6)
def test_a_space_never_holds_a_token_and_only_what_goes_to_the_inviter_may_carry_one() -> None:
    stage = Stage(alice="*", ben=[])
    step = invited(stage, "alice", "new")
    secret = [one for one in step.effects if isinstance(one, Deliver | HttpReply) and one.secret]
    assert [(one.envelope.kind, one.connections) for one in secret] == [("space/invite-ack", ("alice",))]
    assert step.effects.index(Mint("new")) < step.effects.index(secret[0])
    assert step.kinds("ben") == ["space/invite", "system/presence"]
    assert all("token" not in one.payload for one in step.heard("ben"))


@pytest.mark.req("P-3.6.6-3")
def test_by_http_the_posters_own_connections_are_acknowledged_too_but_not_its_log() -> None:
    stage = Stage(alice="*", ben=[])
    stage.sink("alice", on="log")
    step = stage.post("alice", "space/invite", {"participant_id": "new"})
    assert step.told("space/invite-ack") == {"alice"}


# --- who is known already (R15) ---


@pytest.mark.req("P-3.6.6-2", "C-11")
@pytest.mark.parametrize("name", ["alice", "ALICE", "ben", "client-3", "Client-3"])
@pytest.mark.threat(7)
def test_whoever_is_known_is_not_invited_again_and_no_token_is_made(name: str) -> None:
    stage = Stage(alice="*", ben=[], absent=["ben"])
    stage.join("ben", as_="client-3", on="ben")
    step = stage.send("alice", "space/invite", {"participant_id": name}, id="i1")
    assert step.of(Mint) == []
    assert step.hearers == {"alice"}
    ack = step.said("space/invite-ack")
    assert (ack.to, ack.correlation_id) == (("alice",), ("i1",))
    assert (ack.payload["status"], ack.payload["participant_id"]) == ("already_exists", name)
    assert "token" not in ack.payload


# --- with what (R12) ---


def test_an_empty_list_is_an_empty_list() -> None:
    stage = Stage(alice="*")
    invited(stage, "alice", "new", initial_capabilities=[])
    assert stage.held("new") == [BASE]


@pytest.mark.req("P-3.6.2-1")
def test_the_id_of_an_invite_is_the_id_of_a_grant() -> None:
    stage = Stage(alice="*")
    stage.send("alice", "space/invite", {"participant_id": "new"}, id="i1")
    stage.join("new")
    assert stage.send("new", "chat").record.grant == "i1"
    assert stage.revoke("alice", grant_id="i1").accepted
    assert stage.held("new") == [BASE]


def test_a_space_takes_so_many_invites_and_so_many_participants() -> None:
    stage = Stage(alice="*", limits=SpaceLimits(invites=1))
    assert invited(stage, "alice", "one").accepted
    assert invited(stage, "alice", "two").error["error"] == "limit_exceeded"
    stage = Stage(alice="*", ben=[], limits=SpaceLimits(participants=3))
    assert invited(stage, "alice", "one").accepted
    assert invited(stage, "alice", "two").error["error"] == "limit_exceeded"


# --- kick ---


@pytest.mark.req("P-3.6.7-1")
def test_who_is_kicked_is_closed_loses_its_tokens_and_is_seen_to_leave() -> None:
    stage = Stage(alice="*", ben=["chat"], cat=[])
    stage.join("ben", as_="ben-2")
    step = stage.send("alice", "space/kick", {"participant_id": "ben", "reason": "rude"})
    assert step.closed == {"ben": 4403, "ben-2": 4403}
    assert all("rude" in one.reason and not one.drop for one in step.of(Close))
    assert step.of(Void) == [Void("ben")]
    assert step.kinds("cat") == ["space/kick", "system/presence", "system/presence"]
    left = [one.payload for one in step.heard("cat", "system/presence")]
    assert left == [{"event": "leave", "participant": {"id": name}} for name in ("ben", "ben-2")]
    assert step.kinds("ben") == ["space/kick"]  # it hears why, and nothing after


@pytest.mark.req("P-3.6.7-2")
def test_a_kick_by_who_may_not_kick_puts_nobody_out() -> None:
    stage = Stage(alice="*", ben=["chat"], eve=["space/invite"])
    step = stage.send("eve", "space/kick", {"participant_id": "ben"})
    assert step.error["error"] == "capability_violation" and step.hearers == {"eve"}
    assert step.closed == {} and step.of(Void) == []
    assert stage.send("ben", "chat").hearers == {"alice", "ben", "eve"}
    assert stage.send("alice", "space/kick", {"participant_id": "ben"}).closed == {"ben": 4403}


@pytest.mark.req("P-3.6.4-3")
def test_a_kick_takes_the_runtime_id_too() -> None:
    stage = Stage(alice="*", ben=[], absent=["ben"])
    stage.join("ben", as_="client-3", on="c3")
    assert stage.send("alice", "space/kick", {"participant_id": "client-3"}).closed == {"c3": 4403}


@pytest.mark.req("P-3.6.2-1")
def test_with_a_kicked_participant_falls_what_it_gave() -> None:
    stage = Stage(alice="*", ben=["capability/grant", "chat"], cat=[])
    stage.grant("ben", "cat", "chat")
    step = stage.send("alice", "space/kick", {"participant_id": "ben"})
    [welcome] = step.heard("cat", "system/welcome")
    assert welcome.payload["you"]["capabilities"] == [BASE]
    assert not stage.send("cat", "chat").accepted


def test_a_kicked_participant_is_nobody_until_it_is_invited_or_enrolled_anew() -> None:
    stage = Stage(alice="*", ben=["chat"])
    stage.send("alice", "space/kick", {"participant_id": "ben"})
    assert (
        stage.send("alice", "space/kick", {"participant_id": "ben"}).error["error"] == "participant_not_found"
    )
    assert stage.grant("alice", "ben", "chat").error["error"] == "participant_not_found"
    step = invited(stage, "alice", "ben", initial_capabilities=[])
    assert step.of(Mint) == [Mint("ben")]
    assert stage.held("ben") == [BASE]  # what it held before is gone
    stage.send("alice", "space/kick", {"participant_id": "ben"})
    stage.enrol("ben", ["chat"])
    assert stage.join("ben").kinds("ben") == ["system/welcome"]
    assert stage.send("ben", "chat").accepted
