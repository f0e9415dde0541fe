"""Checks invites and kicks, and that credentials reach only their participant.

Spec: §3.6.5, §3.6.6, §3.6.7, §7.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mew_lab.conformance.session import CheckGroup, CheckSession, all_in
from mew_lab.conformance.wire import NotObserved, WireMessage, WirePeer
from mew_lab.protocol.token import Token

__all__ = ["checks", "invite"]

checks = CheckGroup()
STARTER = [{"kind": "mcp/proposal"}, {"kind": "chat"}]


class Invited(NamedTuple):
    """The participant that an invite made, with its credentials."""

    name: str
    message: dict[str, Any]
    ack: WireMessage | None
    token: str


async def invite(session: CheckSession, by: WirePeer, **payload: Any) -> Invited:
    """Invites a participant of a new name with the starter rights, or as `payload` says."""
    name = session.new_name()
    invitation = {"participant_id": name, "initial_capabilities": STARTER, "reason": "conformance", **payload}
    message = session.message("space/invite", invitation)
    mark = by.mark
    await by.attempt(message)
    ack = next(iter(by.received("space/invite-ack", since=mark)), None)
    token = ack.payload.get("token") if ack else None
    return Invited(name, message, ack, token if isinstance(token, str) else "")


@checks.shows(
    "P-3.6.6-1", "P-3.6.6-2", "P-3.6.6-3", "P-3.6.6-5", "P-3.6.5-2", "P-3.6.5-3", "P-3.6.5-4", "P-3.6.5-5",
    "P-7.3-1", "C-11",
)  # fmt: skip
async def check_an_invite_makes_a_participant(session: CheckSession) -> None:
    admin, human, observer = await session.join_all("admin", "human", "observer")
    marks = [(peer, peer.mark) for peer in (human, observer)]
    email = f"{session.new_id()}@example.invalid"
    name, message, ack, token = await invite(session, admin, email=email)
    members = ack.members if ack else {}
    right = (
        ack is not None
        and members.get("from") == "system:gateway"
        and members.get("to") == [admin.id]
        and ack.related == [message["id"]]
        and ack.payload.get("participant_id") == name
    )
    session.report(right, f"the inviter was answered with {members or 'no invite-ack'}", "P-3.6.6-1")
    status = ack.payload.get("status") if ack else None
    session.report(status == "created", f"the status of a new invite was {status!r}", "P-3.6.6-2")
    url = ack.payload.get("connection_url") if ack else None
    if url is None:
        session.cannot_tell("the gateway sends no connection_url, which is allowed", "P-3.6.6-5")
    else:
        reachable = isinstance(url, str) and url.startswith(("ws://", "wss://"))
        session.report(reachable, f"connection_url was {url!r}", "P-3.6.6-5")
    inboxes = []
    for peer, mark in marks:
        await peer.settle()
        inboxes.append(peer.inbox[mark:])
    acks = any(received.kind == "space/invite-ack" for inbox in inboxes for received in inbox)
    session.report(
        ack is not None and not acks, "the invite-ack did not go to the inviter alone", "P-3.6.6-3 P-3.6.5-4"
    )
    events = [
        [received.payload.get("event") for received in inbox if received.participant == name]
        for inbox in inboxes
    ]
    session.report(all(events), "no presence announced an invite to the others", "P-3.6.5-5")
    session.report(
        all("invited" in names for names in events), f"the events of the presences were {events}", "C-11"
    )
    leaked = any(email in str(received.raw) for inbox in inboxes for received in inbox)
    session.report(not leaked, "the email of an invite was relayed", "C-11")
    if not token:
        nobody = "the invite-ack had no token, so the new participant could not join"
        session.report(False, nobody, "P-3.6.5-2 P-3.6.5-3 P-7.3-1")
        return
    peer = await session.join(name, token=Token(token))
    session.report(peer.id == name, f"the token of the invite made its bearer {peer.id!r}", "P-3.6.5-2")
    held = all_in(STARTER, peer.capabilities)
    session.report(
        held,
        f"the participant that was invited with {STARTER} was welcomed with {peer.capabilities}",
        "P-3.6.5-3",
    )
    proposed = await peer.attempt(session.message("mcp/proposal", {"method": "tools/list"}))
    acted = await peer.attempt(session.message("mcp/request", {"method": "tools/list"}))
    starts = not proposed.refused and acted.refused
    session.report(
        starts,
        "a new participant with the starter rights could not propose, or could act",
        "P-7.3-1 P-3.6.5-3",
    )


@checks.shows("P-3.6.6-4", "P4-3.6.4-1")
async def check_the_token_is_sent_to_the_inviter_alone(session: CheckSession) -> None:
    admin, human, observer = await session.join_all("admin", "human", "observer")
    invited = await invite(session, admin)
    if not invited.token:
        raise NotObserved("the invite-ack had no token")
    peer = await session.join(invited.name, token=Token(invited.token))
    late = await session.join("reader")
    copies = [received for received in admin.inbox if invited.token in str(received.raw)]
    for other in (human, observer, peer, late):
        await other.settle()
        leaked = any(invited.token in str(received.raw) for received in other.inbox)
        session.report(not leaked, f"{other.role} received the token of an invite")
    session.report(len(copies) == 1, f"the inviter received the token {len(copies)} times", "P-3.6.6-4")
    history = await session.get(f"/participants/human/messages?space={session.profile.space}", role="human")
    session.report(
        invited.token not in history.text, "the token stands in another's message history", "P-3.6.6-4"
    )


@checks.shows("C-11", "P-3.6.6-2")
async def check_a_known_name_is_not_invited_again(session: CheckSession) -> None:
    (admin,) = await session.join_all("admin")
    first = await invite(session, admin)
    for name in (first.name, "human", "observer"):
        again = await invite(session, admin, participant_id=name)
        status = again.ack.payload.get("status") if again.ack else None
        detail = f"inviting {name!r} again was answered with {status!r}"
        session.report(status == "already_exists", detail, "C-11")
        known = again.ack is None or status in ("created", "already_exists", "error")
        session.report(known, detail, "P-3.6.6-2")
        session.report(not again.token, f"inviting {name!r} again brought a token", "C-11")


@checks.shows("P-3.6.5-7")
async def check_an_invite_needs_the_right_to_invite(session: CheckSession) -> None:
    human, reader = await session.join_all("human", "reader")
    invited = await invite(session, human)
    refused = any(invited.message["id"] in received.related for received in human.received("system/error"))
    session.report(
        refused and invited.ack is None, "an invite by a participant that may not invite was accepted"
    )
    hidden = await session.hidden(invited.message["id"], reader)
    session.report(hidden, "an invite by a participant that may not invite was delivered")


@checks.shows("P-3.6.7-1", "C-11")
async def check_a_kick_ends_the_membership(session: CheckSession) -> None:
    admin, human = await session.join_all("admin", "human")
    invited = await invite(session, admin)
    if not invited.token:
        raise NotObserved("the invite of the participant to kick had no token")
    peer = await session.join(invited.name, token=Token(invited.token))
    await peer.settle()
    await human.settle()
    mark = human.mark
    kick = session.message("space/kick", {"participant_id": invited.name, "reason": "conformance"})
    outcome = await admin.attempt(kick)
    session.report(not outcome.refused, f"admin's kick was refused ({outcome.code})", "P-3.6.7-1")
    try:
        closed = await peer.wait_closed()
        session.report(True, "", "P-3.6.7-1")
        session.report(
            closed.code == 4403, f"the connection of the kicked participant closed with {closed.code}", "C-11"
        )
    except NotObserved as fault:
        session.report(False, str(fault))
    await human.settle()
    left = any(received.is_leave_of(invited.name) for received in human.inbox[mark:])
    session.report(left, "the others received no leave presence for a kicked participant", "P-3.6.7-1")
    try:
        back = await session.join(invited.name, token=Token(invited.token))
        session.report(False, f"{back.id!r} came back with its old token after it was kicked", "C-11")
    except NotObserved:
        session.report(True, "", "C-11")


@checks.shows("P-3.6.7-2")
async def check_a_kick_needs_the_right_to_kick(session: CheckSession) -> None:
    # lister, as no later check needs it, should it be kicked
    human, lister, admin = await session.join_all("human", "lister", "admin")
    kick = session.message("space/kick", {"participant_id": "lister", "reason": "conformance"})
    outcome = await session.expect_refusal(human, kick, admin)
    session.report(outcome.refused, "a kick by a participant that may not kick was accepted")
    try:
        await lister.settle()
        there = True
    except NotObserved:
        there = False
    session.report(there, "a kick by a participant that may not kick took effect")
