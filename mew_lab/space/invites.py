"""`space/invite` and `space/kick`: invites participants, and removes them.

These rules see no token. An invite has the effect `Mint`, and its acknowledgement holds a placeholder; a kick has the
effect `Void`.

Spec: §3.6.5, §3.6.6, §3.6.7.
"""

from __future__ import annotations

from typing import Any

from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.kinds import CLOSE_KICKED
from mew_lab.protocol.node import OverBudget
from mew_lab.protocol.permit import Capability, CapabilitySet
from mew_lab.protocol.profiles import STARTER
from mew_lab.space.ends import rests_on, standing
from mew_lab.space.events import TOKEN_PLACEHOLDER, Close, HttpReply, Mint, Void
from mew_lab.space.grants import let_fall, protect, require_room
from mew_lab.space.membership import depart
from mew_lab.space.names import free_name, is_known
from mew_lab.space.outcome import Outcome, capabilities_in, named, text_in, too_costly
from mew_lab.space.refusal import Refusal
from mew_lab.space.rights import End, Held, Rights, possession
from mew_lab.space.shares import fits, within
from mew_lab.space.state import Member, Sender, is_participant_id
from mew_lab.space.turn import Turn

__all__ = ["invite", "kick"]

_STARTER = CapabilitySet(STARTER)


def invite(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Invites a new participant, with the starter profile or capabilities that the inviter itself could grant.

    Without `initial_capabilities` it gets the starter profile. The `email` of the invitation is relayed to nobody.

    Spec: §3.6.5, §3.6.8, §7.3.
    """
    state, name = turn.state, text_in(envelope, "participant_id")
    if not is_participant_id(name):
        raise Refusal(
            "invalid_request",
            "participant_id contains invalid characters, or is a name of the gateway: 1 to 64 of A-Z a-z 0-9 . _ - "
            "are allowed",
        )
    member = state.members.get(name)
    if is_known(turn, name) and not (member and member.kicked):
        raise Refusal(
            "already_exists",
            f"{name} is known in this space already; nobody was invited and no token was made",
            kind="space/invite-ack",
            status="already_exists",
            participant_id=name,
        )
    if state.invites >= state.limits.invites:
        raise Refusal(
            "limit_exceeded", f"this space has had {state.limits.invites} invites, and takes no more"
        )
    if len(state.members) >= state.limits.participants:
        raise Refusal(
            "limit_exceeded", f"this space has {state.limits.participants} participants, and takes no more"
        )
    share = ("invites", state.root(sender.member.name))
    within(state, sender.member, state.taken[share], state.limits.invites, "invites")
    wanted = (
        capabilities_in(envelope, "initial_capabilities", edition=state.edition, empty=True, meter=turn.meter)
        if "initial_capabilities" in envelope.payload
        else list(_STARTER.capabilities)
    )
    giver = standing(state, sender.member.name, turn.now, meter=turn.meter)
    try:
        granted = [
            held for capability in wanted for held in _granted(turn, sender, giver, envelope, capability)
        ]
        from_giver = [held.capability for held in granted if not held.rooted]
        end = End(name, rests_on=rests_on(giver, state.ends, from_giver, meter=turn.meter))
    except OverBudget:
        raise too_costly(sender, envelope, "whether the sender holds what it gives") from None
    limited = end != End(name)
    granted = [held if held.rooted else held._replace(limited=limited) for held in granted]
    rights = require_room(Rights([*granted, *state.configured_rights(()).held]), state.limits, name)
    # A participant that is invited again by one that it had invited counts to its first inviter.
    back = state.edition >= 2 and member is not None and name in state.inviters(sender.member.name)
    newcomer = Member(name, rights, inviter=member.inviter if member and back else sender.member.name)
    fits(state, sender.member, Member(name, Rights()), rights, [held.capability for held in granted])
    newcomer.admissions = member.admissions if member else 0

    def bring_in() -> HttpReply | None:
        turn.bring_in(newcomer)
        free_name(turn, name)
        turn.then(lambda: setattr(state, "invites", state.invites + 1))
        if limited:
            turn.limit_grant(envelope.id, end)
        turn.then(lambda: state.taken.update((share,)))
        turn.do(Mint(name))
        ack = {"status": "created", "participant_id": name, "token": TOKEN_PLACEHOLDER}
        inviter = sender.member
        sinks = inviter.sinks if state.edition >= 1 else []
        here = (sender.connection,) if sender.connection else tuple(inviter.connections or sinks)
        turn.say(
            "space/invite-ack",
            ack,
            to=tuple(connection.runtime_id for connection in here),
            correlation=(envelope.id,),
            privately=here,
            secret=True,
        )
        participant = {"id": name, "capabilities": list(rights.capabilities.patterns)}
        turn.say("system/presence", {"event": "invited", "participant": participant})
        return HttpReply(200, {"id": envelope.id, **ack}, secret=True) if sender.connection is None else None

    return Outcome(bring_in, _without_email(envelope))


def _granted(
    turn: Turn, sender: Sender, rights: Rights, envelope: Envelope, capability: Capability
) -> list[Held]:
    """The rights of a requested capability: those in the starter profile stand by themselves."""
    giver = sender.member
    granted = []
    for single in _singles(capability, turn.state.edition):
        starter = possession(_STARTER, single, turn.meter).answer == "yes"
        if not starter:
            coverage = possession(rights.capabilities, single, turn.meter)
            if coverage.answer != "yes":
                raise Refusal(
                    "cannot_grant",
                    f"{sender.runtime_id} cannot invite somebody with {compact(single.pattern)[:200]}, which is neither "
                    f"in the starter profile nor its own: {coverage.reason}",
                )
        granted.append(Held(single, envelope.id, giver.name, starter))
    return (
        [Held(capability, envelope.id, giver.name, True)] if all(held.rooted for held in granted) else granted
    )


def _singles(capability: Capability, edition: int) -> list[Capability]:
    kind = capability.pattern["kind"]
    if not isinstance(kind, list):
        return [capability]
    return [Capability.of({**capability.pattern, "kind": single}, edition=edition) for single in kind]


def _without_email(envelope: Envelope) -> Envelope | None:
    if "email" not in envelope.payload:
        return None
    payload = {key: value for key, value in envelope.payload.items() if key != "email"}
    members: dict[str, Any] = {**envelope.members, "payload": payload}
    return Envelope(members, raw=compact(members))


def kick(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Removes a participant: its connections close, its tokens and rights end, and dependent rights lapse.

    Spec: §3.6.7.
    """
    member = named(turn.state, text_in(envelope, "participant_id"))
    protect(turn, member, "removed")
    reason = envelope.payload.get("reason")
    why = f"removed by {sender.runtime_id}" + (f": {reason}" if isinstance(reason, str) and reason else "")

    def put_out() -> None:
        here = (*member.connections, *member.sinks)
        for connection in here:
            turn.do(Close(connection.name, CLOSE_KICKED, why))
        turn.do(Void(member.name))
        turn.give(member, Rights())
        turn.then(lambda: setattr(member, "kicked", True))
        depart(turn, here)
        let_fall(turn, gone=member.name)

    return Outcome(put_out)
