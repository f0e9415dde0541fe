"""The grants editor's model tells who holds what by whose gift, and gives and takes as the gateway allows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rooms import Watch

from mew_lab.errors import MewError
from mew_lab.lab.decisions.limited_grants import ENDS_HERE
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect
from mew_lab.views.grants.model import Holding, Holdings

PUSH = '{"kind":"mcp/request","payload":{"method":"tools/call","params":{"name":"git_push"}}}'


class Room:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.holdings = Holdings(lab, lab.granting)
        self.until = Watch(lab, self.holdings).until

    def of(self, holder: str, pattern: str = "") -> list[Holding]:
        return [row for row in self.holdings.rows if row.holder == holder and pattern in row.pattern]

    def grant(self, to: str, text: str, **limits: float) -> str:
        granted = self.lab.loop.submit(self.holdings.grant(to, text, **limits)).result(20)  # type: ignore[arg-type]
        return granted.sentence

    def recorded_at(self, id: str) -> float:
        """When the gateway wrote down the message of that id, in seconds of the epoch."""
        found = (
            record for record in self.lab.log.records if record.raw and json.loads(record.raw).get("id") == id
        )
        return next(found).now.timestamp()

    def revoke(self, row: Holding) -> str:
        return self.lab.loop.submit(self.holdings.revoke(row.key)).result(20)


@pytest.fixture
def room(lab: Lab) -> Room:
    lab.join("agent", can="observer")
    return Room(lab)


def test_what_was_configured_and_what_everybody_holds_are_told_apart(room: Room) -> None:
    assert [(row.pattern, row.origin) for row in room.of("agent")] == [
        ('{"kind":"chat/acknowledge"}', "configured"),
        ('{"kind":"capability/grant-ack"}', "configured"),
        ('{"kind":"participant/status"}', "configured"),
        ('{"kind":"mcp/response"}', "everybody"),  # the baseline of ruling R9
    ]
    assert room.of("agent")[0].phrase == "acknowledge chats"


@pytest.mark.req("P-3.6.1-3")
def test_a_grant_stands_with_who_gave_it_and_when_and_its_id(room: Room) -> None:
    assert room.grant("agent", PUSH) == "agent may now call the tool git_push with any arguments"
    (row,) = room.until(lambda: room.of("agent", "git_push"))
    (sent,) = [entry for entry in room.lab.log if entry.get("kind") == "capability/grant"]
    assert (row.origin, row.granter, row.grant) == ("granted", "human", sent["id"])
    assert sent["payload"]["recipient"] == "agent" and row.since == room.recorded_at(sent["id"])
    assert room.lab.seats["agent"].participant.can_send(
        "mcp/request", {"method": "tools/call", "params": {"name": "git_push"}}
    )


def test_a_grant_for_a_while_says_until_when(room: Room) -> None:
    assert room.grant("agent", PUSH, uses=3).endswith("for 3 uses")
    (row,) = room.until(lambda: room.of("agent", "git_push"))
    assert room.until(lambda: room.of("agent", "git_push")[0].ends) == "0 of 3 uses", row


def test_a_grant_is_revoked_by_its_id(room: Room) -> None:
    room.grant("agent", PUSH)
    (row,) = room.until(lambda: room.of("agent", "git_push"))
    assert room.revoke(row).startswith("The permission of agent is revoked: ")
    room.until(lambda: not room.of("agent", "git_push"))
    (sent,) = [entry for entry in room.lab.log if entry.get("kind") == "capability/revoke"]
    assert sent["payload"]["grant_id"] == row.grant


def test_what_was_configured_is_revoked_by_its_pattern(room: Room) -> None:
    (row,) = room.of("agent", "participant/status")
    assert room.revoke(row) == "The permission of agent is revoked: report its status"
    room.until(lambda: not room.of("agent", "participant/status"))
    assert not room.lab.seats["agent"].participant.can_send("participant/status")


def test_a_grant_that_somebody_else_gave_is_shown_and_can_be_revoked(room: Room) -> None:
    boss = room.lab.join("boss", can="human")
    work = boss.participant.rights.grant("agent", [{"kind": "chat"}])
    room.lab.loop.submit(work).result(20)
    (row,) = room.until(lambda: room.of("agent", '{"kind":"chat"}'))
    assert row.granter == "boss"
    room.revoke(row)
    room.until(lambda: not room.of("agent", '{"kind":"chat"}'))


def test_what_rests_on_an_invitation_can_be_revoked(room: Room) -> None:
    room.lab.enrol("human", can="admin")
    payload = {"participant_id": "reader", "initial_capabilities": [{"kind": "chat"}]}
    room.lab.send("space/invite", payload)
    (row,) = room.until(lambda: room.of("reader", '{"kind":"chat"}'))
    assert (row.origin, row.granter, row.since) == ("granted", "human", room.recorded_at(row.grant))
    room.revoke(row)
    room.until(lambda: not room.of("reader", '{"kind":"chat"}'))


def test_what_the_owner_holds_stays_and_the_row_says_why(room: Room) -> None:
    (row, *_) = room.of("human", "participant/")
    assert (
        row.against
        == "human owns this space, so its permissions cannot be revoked; change the configuration."
    )
    with pytest.raises(MewError, match="owns this space"):
        room.revoke(row)


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"kind":"space/kick"}', "You may not grant this"), ("[]", "one object"), ('{"kind":""}', "kind")],
)
def test_what_may_not_be_granted_is_never_sent(room: Room, text: str, said: str) -> None:
    with pytest.raises(MewError, match=said):
        room.grant("agent", text)
    assert [entry for entry in room.lab.log if entry.get("kind") == "capability/grant"] == []


def test_the_gateways_refusal_is_told(room: Room) -> None:
    with pytest.raises(MewError, match="nobody"):
        room.grant("nobody", PUSH)


def test_a_row_that_is_gone_is_not_revoked(room: Room) -> None:
    with pytest.raises(MewError, match="no longer held"):
        room.revoke(Holding(key="x", holder="agent", pattern="{}", phrase="", origin="granted"))


def test_of_a_space_that_runs_elsewhere_it_shows_what_was_told(lab: Lab) -> None:
    lab.join("agent", can="observer")
    lab.enrol("visitor", can="human")
    far = connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far")
    room = Room(far)
    assert {row.origin for row in room.of("agent")} == {"told"}
    room.grant("agent", '{"kind":"chat"}')
    (row,) = room.until(lambda: room.of("agent", '{"kind":"chat"}'))
    assert (row.origin, row.granter) == ("granted", "visitor")
    room.revoke(row)
    room.until(lambda: not room.of("agent", '{"kind":"chat"}'))


@pytest.mark.ruling("R25")
@pytest.mark.threat(38)
def test_a_grant_to_a_space_elsewhere_is_said_to_end_only_with_this_notebook(lab: Lab) -> None:
    lab.join("agent", can="observer")
    lab.enrol("visitor", can="human")
    far = Room(connect(lab.url, space=lab.space, token_file=lab.token_file("visitor"), name="far"))
    told = far.grant("agent", '{"kind":"chat"}', uses=2)
    assert told.endswith("for 2 uses. " + ENDS_HERE)
    here = Room(lab)
    row = here.until(lambda: [row for row in here.of("agent", '{"kind":"chat"}') if row.ends])[0]
    assert row.ends == "0 of 2 uses"


@pytest.mark.ruling("R25")
def test_the_end_and_the_uses_of_a_grant_stand_in_its_row_whoever_gave_it(room: Room) -> None:
    boss = room.lab.join("boss", can=[{"kind": "*"}])
    room.lab.join("worker", can=[{"kind": "capability/grant-ack"}])
    payload = {"recipient": "worker", "capabilities": [{"kind": "chat"}], "max_uses": 3}
    boss.send("capability/grant", {**payload, "expires_at": "2999-01-01T00:00:00Z"})
    row = room.until(lambda: room.of("worker", '{"kind":"chat"}'))[0]
    assert row.ends.startswith("0 of 3 uses, until ")
    room.lab.seats["worker"].send("chat", {"text": "one"})
    room.until(lambda: room.of("worker", '{"kind":"chat"}')[0].ends.startswith("1 of 3 uses"))
