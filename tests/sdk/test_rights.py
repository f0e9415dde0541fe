"""Grants in a real space: acknowledged once and when they hold, given and taken back, and told of."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, LocalProtocolError, Refused
from mew_lab.ledger.grants import Acknowledgement, Grant
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.rights import CapabilitiesChange
from mew_lab.sdk.tools import ToolBox

from .conftest import Room, settle, until
from .odd_gateway import Odd

CALL = {"kind": "mcp/request", "payload": {"method": "tools/call"}}
ACK = {"kind": "capability/grant-ack"}


@pytest.fixture
async def human(room: Room) -> MEWParticipant:
    return await room.seat("human")


@pytest.fixture
async def bot(room: Room, human: MEWParticipant) -> MEWParticipant:
    return await room.seat("bot", "proposer")


def changes(participant: MEWParticipant) -> list[CapabilitiesChange]:
    told: list[CapabilitiesChange] = []
    participant.rights.on_capabilities_changed(told.append)
    return told


def of(envelopes: list[Envelope]) -> list[tuple[Any, ...]]:
    return [(one.sender, one.to, one.correlation_id, one.payload) for one in envelopes]


async def acknowledged(participant: MEWParticipant, grant: Grant) -> tuple[Acknowledgement, ...]:
    await until(lambda: (one := participant.rights.grants.get(grant.id)) and one.acknowledged)
    found = participant.rights.grants.get(grant.id)
    return found.acknowledged


# --- acknowledging ---


@pytest.mark.req("P-3.6.1-10", "P-3.6.3-1", "P-3.6.1-2")
async def test_a_grant_is_acknowledged_to_its_granter_once_it_is_held(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    held_then: list[bool] = []
    human.client.on_message(
        lambda one: one.kind == ACK["kind"] and held_then.append(CALL in bot.client.capabilities.patterns)
    )
    grant = await human.rights.grant("bot", [CALL], reason="Demonstrated safe file handling")
    assert (grant.granter, grant.recipient, grant.capabilities) == ("human", "bot", (CALL,))
    assert grant.reason == "Demonstrated safe file handling"
    assert await acknowledged(human, grant) == (Acknowledgement("bot", "accepted"),)
    assert await acknowledged(bot, grant) == (Acknowledgement("bot", "accepted"),)
    await human.rights.grant("bot", [CALL])
    await settle()
    first, second = room.sent(ACK["kind"])
    assert of([first]) == [("bot", ("human",), (grant.id,), {"status": "accepted"})]
    assert second.correlation_id != first.correlation_id and held_then == [True, True]
    [sent, _] = room.sent("capability/grant")
    assert (sent.to, sent.id) == (("bot",), grant.id)


@pytest.mark.req("P-3.6.1-10", "P-3.6.3-1")
async def test_a_grant_by_the_logical_name_reaches_a_participant_with_another_id(
    room: Room, human: MEWParticipant
) -> None:
    bot = await room.seat("bot", "proposer", runtime_id="client-123")
    for draft in (
        {"to": ["bot"], "payload": {"recipient": "bot", "capabilities": [CALL]}},
        {"payload": {"recipient": "bot", "capabilities": [{"kind": "stream/request"}]}},
        {"payload": {"recipient": "bot", "capabilities": [{"kind": "stream/request"}]}},
        {"payload": {"recipient": "client-123", "capabilities": [{"kind": "reasoning/*"}]}},
    ):
        sent = await human.send_accepted({"kind": "capability/grant", **draft})
        await settle()
        assert room.sent(ACK["kind"])[-1].correlation_id == (sent.id,)
    assert len(room.sent(ACK["kind"])) == 4
    assert bot.can_send("stream/request")


@pytest.mark.req("P-3.6.1-10")
async def test_a_grant_that_comes_before_its_welcome_is_acknowledged_after_it() -> None:
    """Other gateways tell of the grant first, and of the rights in the welcome that follows."""
    odd = Odd()

    def welcome(*patterns: dict[str, Any]) -> None:
        payload = {
            "you": {"id": "me", "capabilities": [ACK, *patterns]},
            "participants": [],
            "active_streams": [],
        }
        odd.say("system/welcome", payload, to=["me"])

    acknowledged: list[bool] = []
    async with odd.participant:
        welcome()
        odd.client.add_guard(lambda kind: acknowledged.append(CALL in odd.client.capabilities.patterns))
        grant = {"recipient": "me", "capabilities": [CALL]}
        odd.say("capability/grant", grant, "human", id="grant-1", to=["me"])
        await odd.told()
        assert acknowledged == []
        welcome(CALL)
        sent = await odd.sent("capability/grant-ack")
    assert (sent.to, sent.correlation_id, sent.payload) == (("human",), ("grant-1",), {"status": "accepted"})
    assert acknowledged == [True]


async def test_a_grant_to_somebody_else_is_not_acknowledged(room: Room, human: MEWParticipant) -> None:
    bot = await room.seat("bot", [{"kind": "chat"}, ACK])
    room.enrol("absent", "observer")
    room.enrol("other", "observer")
    await room.seat("other", [{"kind": "chat"}])
    for recipient in ("other", "absent"):
        await human.send_accepted(
            {"kind": "capability/grant", "payload": {"recipient": recipient, "capabilities": [CALL]}}
        )
    await human.rights.grant("bot", [CALL])
    await until(lambda: bot.can_send("mcp/request", {"method": "tools/call"}))
    await settle()
    granted = room.sent("capability/grant")
    assert of(room.sent(ACK["kind"])) == [("bot", ("human",), (granted[2].id,), {"status": "accepted"})]


@pytest.mark.parametrize(
    ("recipient", "granted"), [("other", {"kind": "stream/request"}), ("absent", {"kind": "chat"})]
)
async def test_rights_that_come_from_the_host_are_not_taken_for_anothers_grant(
    room: Room, human: MEWParticipant, recipient: str, granted: dict[str, Any]
) -> None:
    bot = await room.seat("bot", [{"kind": "chat"}, ACK])
    room.enrol("absent", "observer")
    await room.seat("other", [{"kind": "chat"}])
    await human.send_accepted(
        {"kind": "capability/grant", "payload": {"recipient": recipient, "capabilities": [granted]}}
    )
    room.enrol("bot", [{"kind": "chat"}, ACK, {"kind": "stream/request"}])
    await until(lambda: bot.can_send("stream/request"))
    await settle()
    assert room.sent(ACK["kind"]) == []


async def test_of_two_grants_to_names_that_nobody_bears_the_last_explains_the_welcome(
    room: Room, human: MEWParticipant
) -> None:
    await room.seat("bot", "proposer", runtime_id="client-123")
    room.enrol("absent", "observer")
    for recipient in ("absent", "bot"):
        last = await human.send_accepted(
            {
                "kind": "capability/grant",
                "payload": {"recipient": recipient, "capabilities": [{"kind": "stream/request"}]},
            }
        )
    await settle()
    assert of(room.sent(ACK["kind"])) == [("client-123", ("human",), (last.id,), {"status": "accepted"})]


async def test_who_may_not_acknowledge_says_nothing_and_holds_it_all_the_same(
    room: Room, human: MEWParticipant
) -> None:
    errors: list[Exception] = []
    mute = await room.seat("mute", [{"kind": "chat"}])
    mute.client.on_error(errors.append)
    await human.rights.grant("mute", [CALL])
    await until(lambda: mute.can_send("mcp/request", {"method": "tools/call"}))
    await settle()
    assert room.sent(ACK["kind"]) == [] and errors == []
    grant = await human.rights.grant("mute", [ACK])  # the grant itself permits it
    assert (await acknowledged(human, grant))[0].by == "mute"


# --- told of changes ---


async def test_each_welcome_that_changes_the_rights_is_told(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    told = changes(bot)
    grant = await human.rights.grant("bot", [CALL])
    await until(lambda: told)
    assert CALL not in told[0].before and told[0].after == (*told[0].before, CALL)
    await human.rights.grant("bot", [CALL])  # nothing new
    await human.rights.revoke("bot", grant_id=grant.id)  # the second still stands
    await human.rights.revoke("bot", capabilities=[CALL])
    await until(lambda: len(told) == 2)
    assert CALL in told[1].before and CALL not in told[1].after
    assert not bot.can_send("mcp/request", {"method": "tools/call"})


async def test_a_right_to_true_and_then_to_1_are_two_rights() -> None:
    odd = Odd()
    told = changes(odd.participant)
    async with odd.participant:
        for value in (True, 1, 1):
            right = {"kind": "chat", "payload": {"x": value}}
            payload = {"you": {"id": "me", "capabilities": [right]}, "participants": [], "active_streams": []}
            odd.say("system/welcome", payload, to=["me"])
        await odd.told()
    assert [repr(change.after[0]["payload"]) for change in told] == ["{'x': True}", "{'x': 1}"]


async def test_rights_that_changed_while_the_connection_was_lost_are_told(
    room: Room, human: MEWParticipant
) -> None:
    bot = room.prepare("bot", "proposer", client={"reconnect_delay": 0.0})
    told = changes(bot)
    await bot.start()
    welcomes: list[Any] = []
    bot.client.on_welcome(welcomes.append)
    await room.links["bot"].close(1001)
    await until(lambda: len(welcomes) == 1)
    assert told == []  # the same as before
    bot.client.on_disconnected(lambda _: room.enrol("bot", [{"kind": "chat"}]))
    await room.links["bot"].close(1001)
    await until(lambda: told)
    assert told[0].before[0] == {"kind": "chat"} and len(told[0].before) > len(told[0].after)
    assert told[0].after == ({"kind": "chat"}, {"kind": "mcp/response"})


# --- giving and taking ---


async def test_what_one_does_not_hold_is_refused_and_says_why(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    with pytest.raises(Refused, match="cannot grant") as caught:
        await human.rights.grant("bot", [{"kind": "space/kick"}])
    assert caught.value.code == "cannot_grant"
    with pytest.raises(Refused):
        await human.rights.grant("nobody", [CALL])
    with pytest.raises(CapabilityViolation):
        await bot.rights.grant("human", [{"kind": "chat"}])
    with pytest.raises(Refused) as caught:
        await human.rights.revoke("bot", grant_id="never-given")
    assert caught.value.code == "grant_not_found"
    with pytest.raises(LocalProtocolError, match="name a grant_id, or patterns"):
        await human.rights.revoke("bot")
    assert len(human.rights.grants) == 0


@pytest.mark.req("P-3.6.2-4")
async def test_a_revoke_names_recipient_and_reason_and_marks_the_grant(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    grant = await human.rights.grant("bot", [CALL])
    revoked = await human.rights.revoke("bot", grant_id=grant.id, reason="Task completed")
    [sent] = room.sent("capability/revoke")
    assert sent.payload == {"recipient": "bot", "grant_id": grant.id, "reason": "Task completed"}
    assert (revoked.id, revoked.by, revoked.grant_id) == (sent.id, "human", grant.id)
    await until(lambda: (one := bot.rights.grants.get(grant.id)) and one.revoked_by == "human")
    bare = await human.rights.revoke("bot", capabilities=[{"kind": "chat"}])
    assert room.sent("capability/revoke")[1].payload == {
        "recipient": "bot",
        "capabilities": [{"kind": "chat"}],
    }
    assert bare.reason == ""


@pytest.mark.req("P-3.6.2-4", "P-8.2-1")
async def test_a_revoke_without_a_recipient_which_the_gateway_carries_out_ends_the_grant_here_too(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    grant = await human.rights.grant("bot", [CALL])
    await until(lambda: bot.can_send("mcp/request", {"method": "tools/call"}))
    await human.client.send({"kind": "capability/revoke", "payload": {"grant_id": grant.id}})
    await until(lambda: not bot.can_send("mcp/request", {"method": "tools/call"}))
    for ledger in (human.rights.grants, bot.rights.grants):
        await until(lambda ledger=ledger: (known := ledger.get(grant.id)) and known.state == "revoked")
    await until(lambda: bot.misbehaviour["human"] == 1)


async def test_what_a_revoke_by_patterns_leaves_is_told_to_the_revoker(
    room: Room, human: MEWParticipant, caplog: pytest.LogCaptureFixture
) -> None:
    await room.seat("bot", [{"kind": "reasoning/*"}])
    revoked = await human.rights.revoke("bot", capabilities=[{"kind": "reasoning/cancel"}])
    await until(lambda: (one := human.rights.grants.revocation(revoked.id)) and one.remaining)
    found = human.rights.grants.revocation(revoked.id)
    assert found is not None and found.remaining == ({"kind": "reasoning/*"},)
    assert "bot keeps 1 permissions that overlap what was revoked" in caplog.text


@pytest.mark.threat(19)
async def test_a_call_in_flight_whose_right_is_revoked_ends_with_the_gateways_refusal(
    room: Room, human: MEWParticipant, bot: MEWParticipant
) -> None:
    tools = ToolBox()
    ran: list[str] = []
    tools.add(lambda: ran.append("x"), name="run")
    await room.seat("git", "tool", tools=tools)
    grant = await human.rights.grant("bot", [CALL])
    await until(lambda: bot.can_send("mcp/request", {"method": "tools/call"}))
    payload = {"recipient": "bot", "grant_id": grant.id}
    await human.client.send({"kind": "capability/revoke", "payload": payload})
    call = bot.call("git/run")  # as far as it knows, it may
    with pytest.raises(CapabilityViolation, match="it holds mcp/proposal, not mcp/request") as caught:
        await call
    assert caught.value.envelope is not None and caught.value.envelope.sender == "system:gateway"
    assert (call.kind, ran, room.sent("mcp/request")) == ("mcp/request", [], [])
