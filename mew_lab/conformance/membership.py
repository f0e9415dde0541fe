"""Do invites and kicks do what they say, and do credentials stay with whom they are for?

Spec: §3.6.5, §3.6.6, §3.6.7, §7.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mew_lab.conformance.stage import Chapter, Stage, all_in
from mew_lab.conformance.wire import Entry, Guest, Unmet
from mew_lab.protocol.token import Token
from mew_lab.transport.link import HandshakeRefused

__all__ = ["chapter"]

chapter = Chapter()
STARTER = [{"kind": "mcp/proposal"}, {"kind": "chat"}]


class Invited(NamedTuple):
    """What an invite has led to."""

    name: str
    invite: dict[str, Any]
    ack: Entry | None
    token: str


async def _invite(stage: Stage, by: Guest, **payload: Any) -> Invited:
    name = stage.new_name()
    told = {"participant_id": name, "initial_capabilities": STARTER, "reason": "conformance", **payload}
    invite = stage.message("space/invite", told)
    mark = by.mark
    await by.attempt(invite)
    ack = next((one for one in by.inbox[mark:] if one.kind == "space/invite-ack"), None)
    token = ack.payload.get("token") if ack else None
    return Invited(name, invite, ack, token if isinstance(token, str) else "")


@chapter.shows(
    "P-3.6.6-1", "P-3.6.6-2", "P-3.6.6-3", "P-3.6.6-5", "P-3.6.5-2", "P-3.6.5-3", "P-3.6.5-4", "P-3.6.5-5",
    "P-7.3-1", "C-11",
)  # fmt: skip
async def an_invite_makes_a_participant(stage: Stage) -> None:
    admin, human, observer = await stage.seats("admin", "human", "observer")
    marks = [(guest, guest.mark) for guest in (human, observer)]
    email = f"{stage.new_id()}@example.invalid"
    name, invite, ack, token = await _invite(stage, admin, email=email)
    members = ack.members if ack else {}
    right = (
        ack is not None
        and members.get("from") == "system:gateway"
        and members.get("to") == [admin.id]
        and ack.related == [invite["id"]]
        and ack.payload.get("participant_id") == name
    )
    stage.claim("P-3.6.6-1", right, f"the inviter was answered with {members or 'no invite-ack'}")
    status = ack.payload.get("status") if ack else None
    stage.claim("P-3.6.6-2", status == "created", f"the status of a new invite was {status!r}")
    url = ack.payload.get("connection_url") if ack else None
    if url is None:
        stage.cannot_tell("P-3.6.6-5", "the gateway sends no connection_url, which is allowed")
    else:
        reachable = isinstance(url, str) and url.startswith(("ws://", "wss://"))
        stage.claim("P-3.6.6-5", reachable, f"connection_url was {url!r}")
    told = []
    for guest, mark in marks:
        await guest.settle()
        told.append(guest.inbox[mark:])
    acks = any(one.kind == "space/invite-ack" for heard in told for one in heard)
    stage.claim(
        "P-3.6.6-3 P-3.6.5-4", ack is not None and not acks, "the invite-ack did not go to the inviter alone"
    )
    events = [
        [one.payload.get("event") for one in heard if one.kind == "system/presence" and _about(one) == name]
        for heard in told
    ]
    stage.claim("P-3.6.5-5", all(events), "an invite was not told to the others by a presence")
    stage.claim("C-11", all("invited" in one for one in events), f"the events of the presences were {events}")
    leaked = any(email in str(one.raw) for heard in told for one in heard)
    stage.claim("C-11", not leaked, "the email of an invite was relayed")
    if not token:
        nobody = "the invite brought no token, so nobody could join with it"
        stage.claim("P-3.6.5-2 P-3.6.5-3 P-7.3-1", False, nobody)
        return
    guest = await stage.join(name, token=Token(token))
    stage.claim("P-3.6.5-2", guest.id == name, f"the token of the invite made its bearer {guest.id!r}")
    held = all_in(STARTER, guest.capabilities)
    stage.claim("P-3.6.5-3", held, f"who was invited with {STARTER} was welcomed with {guest.capabilities}")
    asked = await guest.attempt(stage.message("mcp/proposal", {"method": "tools/list"}))
    acted = await guest.attempt(stage.message("mcp/request", {"method": "tools/list"}))
    starts = not asked.refused and acted.refused
    stage.claim(
        "P-7.3-1 P-3.6.5-3",
        starts,
        "a new participant with the starter rights could not propose, or could act",
    )


def _about(presence: Entry) -> Any:
    who = presence.payload.get("participant")
    return who.get("id") if isinstance(who, dict) else None


@chapter.shows("P-3.6.6-4", "P4-3.6.4-1")
async def the_token_is_told_to_nobody_else(stage: Stage) -> None:
    admin, human, observer = await stage.seats("admin", "human", "observer")
    invited = await _invite(stage, admin)
    if not invited.token:
        raise Unmet("the invite brought no token")
    guest = await stage.join(invited.name, token=Token(invited.token))
    late = await stage.join("reader")
    copies = [one for one in admin.inbox if invited.token in str(one.raw)]
    for other in (human, observer, guest, late):
        await other.settle()
        leaked = any(invited.token in str(one.raw) for one in other.inbox)
        stage.claim("P-3.6.6-4 P4-3.6.4-1", not leaked, f"{other.role} received the token of an invite")
    stage.claim("P-3.6.6-4", len(copies) == 1, f"the inviter received the token {len(copies)} times")
    history = await stage.get(f"/participants/human/messages?space={stage.profile.space}", role="human")
    stage.claim(
        "P-3.6.6-4", invited.token not in history.text, "the token stands in another's message history"
    )


@chapter.shows("C-11", "P-3.6.6-2")
async def a_known_name_is_not_invited_again(stage: Stage) -> None:
    (admin,) = await stage.seats("admin")
    first = await _invite(stage, admin)
    for name in (first.name, "human", "observer"):
        again = await _invite(stage, admin, participant_id=name)
        status = again.ack.payload.get("status") if again.ack else None
        said = f"inviting {name!r} again was answered with {status!r}"
        stage.claim("C-11", status == "already_exists", said)
        known = again.ack is None or status in ("created", "already_exists", "error")
        stage.claim("P-3.6.6-2", known, said)
        stage.claim("C-11", not again.token, f"inviting {name!r} again brought a token")


@chapter.shows("P-3.6.5-7")
async def only_who_may_invite_invites(stage: Stage) -> None:
    human, reader = await stage.seats("human", "reader")
    invited = await _invite(stage, human)
    refused = any(one.kind == "system/error" and invited.invite["id"] in one.related for one in human.inbox)
    stage.claim(
        "P-3.6.5-7", refused and invited.ack is None, "an invite by somebody who may not invite was accepted"
    )
    hidden = await stage.hidden(invited.invite["id"], reader)
    stage.claim("P-3.6.5-7", hidden, "an invite by somebody who may not invite was delivered")


@chapter.shows("P-3.6.7-1", "C-11")
async def a_kick_ends_the_membership(stage: Stage) -> None:
    admin, human = await stage.seats("admin", "human")
    invited = await _invite(stage, admin)
    if not invited.token:
        raise Unmet("the invite of somebody to kick brought no token")
    guest = await stage.join(invited.name, token=Token(invited.token))
    await guest.settle()
    await human.settle()
    mark = human.mark
    kick = stage.message("space/kick", {"participant_id": invited.name, "reason": "conformance"})
    outcome = await admin.attempt(kick)
    stage.claim("P-3.6.7-1", not outcome.refused, f"admin's kick was refused ({outcome.code})")
    try:
        closed = await guest.ended()
        stage.claim("P-3.6.7-1", True, "")
        stage.claim(
            "C-11", closed.code == 4403, f"the connection of who was kicked closed with {closed.code}"
        )
    except Unmet as fault:
        stage.claim("P-3.6.7-1 C-11", False, str(fault))
    await human.settle()
    left = any(
        one.kind == "system/presence" and one.payload.get("event") == "leave" and _about(one) == invited.name
        for one in human.inbox[mark:]
    )
    stage.claim("P-3.6.7-1", left, "the others were not told by a leave presence that somebody was kicked")
    try:
        back = await stage.join(invited.name, token=Token(invited.token))
        stage.claim("C-11", False, f"{back.id!r} came back with its old token after it was kicked")
    except (Unmet, HandshakeRefused):
        stage.claim("C-11", True, "")


@chapter.shows("P-3.6.7-2")
async def only_who_may_kick_kicks(stage: Stage) -> None:
    # lister, since no check that follows needs it, should it be gone
    human, lister, admin = await stage.seats("human", "lister", "admin")
    kick = stage.message("space/kick", {"participant_id": "lister", "reason": "conformance"})
    outcome = await stage.refuses(human, kick, admin)
    stage.claim("P-3.6.7-2", outcome.refused, "a kick by somebody who may not kick was accepted")
    try:
        await lister.settle()
        there = True
    except Unmet:
        there = False
    stage.claim("P-3.6.7-2", there, "a kick by somebody who may not kick took effect")
