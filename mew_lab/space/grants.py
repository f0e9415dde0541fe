"""Grants and revokes capabilities: the host's enrolment, grants, revokes, and the ends of grants.

How it works. Five events change the rights of a member:

```
Enrolled            enrol      the host's capabilities replace the configured ones; granted ones stay
capability/grant    grant      the granter must hold what it grants, or the message is refused
capability/revoke   revoke     by grant id in the whole space, or by patterns from one recipient
GrantEnded          end_due    ends the grants whose time is over, a portion for each event
accepted message    spend      costs a limited right one use; the last use ends its grant
```

Whenever a member loses rights, also by a kick, `let_fall` follows. It removes the dependent rights that lapse, records
each, and sends a new welcome to every member that lost a right.

A revoke by patterns takes a held capability when the patterns cover it, and also when that cannot be decided. A
capability that allows more stays, and the sender is informed (`revoke_partial`). Revokes and ends are never refused
because of their cost. No revoke takes a right of the owner.

Spec: §3.6.1, §3.6.2, §3.6.4, §3.6.8, rulings R13, R24 and R25.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mew_lab.protocol.covers import disjoint, possesses
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.node import OverBudget
from mew_lab.protocol.permit import Capability
from mew_lab.space.ends import read_end, rests_on, standing
from mew_lab.space.events import Enrolled
from mew_lab.space.membership import welcome_anew
from mew_lab.space.names import free_name, is_free
from mew_lab.space.outcome import Outcome, capabilities_in, named, text_in, too_costly
from mew_lab.space.refusal import Refusal, complain
from mew_lab.space.rights import End, Held, Rights, lapsed, lapsed_of, possession
from mew_lab.space.shares import configured_size, described_bytes, fits, within
from mew_lab.space.state import Member, Sender, SpaceLimits, State, is_participant_id
from mew_lab.space.turn import Turn

__all__ = [
    "end_due",
    "enrol",
    "grant",
    "let_fall",
    "protect",
    "require_room",
    "revoke",
    "spend",
]

PORTION = 500
"""Capabilities that one event ends at most, unless one grant has more."""
PORTION_BYTES = 4 * 1024 * 1024
"""Bytes of the welcomes that tell of it."""


def protect(turn: Turn, member: Member, deed: str) -> None:
    """Refuses to take a right from the owner of the space: the configuration alone decides about its rights.

    Raises:
        Refusal: when `member` is the owner.
    """
    if member.name == turn.state.owner:
        raise Refusal(
            "owner_protected",
            f"{member.name!r} owns this space, so it cannot be {deed}; only the configuration decides about it",
        )


def require_room(rights: Rights, limits: SpaceLimits, member: str) -> Rights:
    """Returns the rights, if one participant may hold as many.

    Raises:
        Refusal: when they are more than one participant may hold.
    """
    if len(rights.held) > limits.capabilities or sum(map(len, rights.texts)) > limits.description_bytes:
        raise Refusal(
            "limit_exceeded",
            f"{member!r} would hold more than this space allows: {limits.capabilities} capabilities or "
            f"{limits.description_bytes} bytes of them; revoke some first",
        )
    return rights


def enrol(turn: Turn, event: Enrolled) -> None:
    """Gives a participant the capabilities of its host; a member that is connected learns them at once.

    The rights that it was granted stay. Rights that others hold only through it may fall.

    Raises:
        ValueError: when nobody can be called so, or the name is another participant's, or in use as its runtime id.
        ConfigError: when a capability is none.
    """
    state, name = turn.state, event.participant
    if not is_participant_id(name):
        raise ValueError(
            f"{name!r} cannot be a participant id: 1 to 64 of A-Z a-z 0-9 . _ -, not starting with a sign, "
            "and not gateway or system"
        )
    owner = state.runtime_owners.get(name.casefold(), name)
    if owner != name and not is_free(turn, name, owner):
        raise ValueError(f"{name!r} cannot be enrolled: the name belongs to participant {owner!r}")
    capabilities = [
        Capability.of(pattern, key=f"[{at}]", edition=state.edition)
        for at, pattern in enumerate(event.capabilities)
    ]
    configured = state.configured_rights(capabilities)
    configured_size([*capabilities, *state.baseline], "", state.limits)
    turn.record(
        "enrolled", participant=name, detail=compact([dict(pattern) for pattern in event.capabilities])
    )
    member = state.members.get(name)
    if member is None:
        newcomer = Member(name, configured)
        turn.bring_in(newcomer)
        free_name(turn, name)
        return
    turn.then(lambda: setattr(member, "kicked", False))
    turn.then(lambda: setattr(member, "inviter", ""))
    granted = [held for held in member.rights.held if held.grant]
    turn.give(member, Rights([*configured.held, *granted]))
    let_fall(turn, also=(name,))


def grant(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Grants capabilities to the recipient: only those that the granter possesses.

    Spec: §3.6.1, §3.6.8.
    """
    state, giver = turn.state, sender.member
    recipient = named(state, text_in(envelope, "recipient"))
    if state.grants >= state.limits.grants:
        raise Refusal("limit_exceeded", f"this space has had {state.limits.grants} grants, and takes no more")
    share = ("grants", state.root(giver.name))
    within(state, giver, state.taken[share], state.limits.grants, "grants")
    end = read_end(envelope, recipient=recipient.name, now=turn.now) if state.edition else End(recipient.name)
    rights_of_giver = standing(state, giver.name, turn.now, meter=turn.meter)
    capabilities = capabilities_in(envelope, "capabilities", edition=state.edition, meter=turn.meter)
    try:
        for capability in capabilities:
            coverage = possession(rights_of_giver.capabilities, capability, turn.meter)
            if coverage.answer != "yes":
                raise Refusal(
                    "cannot_grant",
                    f"{sender.runtime_id} cannot grant {compact(capability.pattern)[:200]}, because it does not "
                    f"hold it: {coverage.reason}",
                )
        end = end._replace(rests_on=rests_on(rights_of_giver, state.ends, capabilities, meter=turn.meter))
    except OverBudget:
        raise too_costly(sender, envelope, "whether the sender holds what it gives") from None
    limited = end != End(recipient.name)
    held = [Held(capability, envelope.id, giver.name, False, limited) for capability in capabilities]
    rights = require_room(Rights([*recipient.rights.held, *held]), state.limits, recipient.name)
    fits(state, giver, recipient, rights, capabilities)

    def add() -> None:
        turn.give(recipient, rights)
        turn.then(lambda: setattr(state, "grants", state.grants + 1))
        if limited:
            turn.limit_grant(envelope.id, end)
        turn.then(lambda: state.taken.update((share,)))
        welcome_anew(turn, recipient)

    return Outcome(add)


def revoke(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Revokes capabilities of the recipient: those of a grant, or all that patterns match.

    Spec: §3.6.2, §3.6.8.
    """
    payload = envelope.payload
    by_grant = payload.get("grant_id") is not None
    if not by_grant and payload.get("capabilities") is None:
        raise Refusal(
            "invalid_request", f"{envelope.kind} requires a grant_id or capabilities in its payload"
        )
    recipient = named(turn.state, text_in(envelope, "recipient")) if "recipient" in payload else None
    taken: list[tuple[Member, Held]] = []
    overlapping: list[Held] = []
    if by_grant:
        taken += _held_under(turn, text_in(envelope, "grant_id"), recipient)
    if payload.get("capabilities") is not None:
        if recipient is None:
            raise Refusal(
                "invalid_request", f"{envelope.kind} by patterns requires a recipient in its payload"
            )
        try:
            patterns = capabilities_in(envelope, "capabilities", edition=0, meter=turn.meter)
        except Refusal as refusal:
            if refusal.code != "limit_exceeded":
                raise
            patterns = []  # a revoke is never refused for what it costs: what cannot be decided falls
            taken += [(recipient, held) for held in recipient.rights.held]
        for held in recipient.rights.held if patterns else ():
            match _overlap(turn, patterns, held.capability):
                case "all":
                    taken.append((recipient, held))
                case "part":
                    overlapping.append(held)
    for member, _ in taken:
        protect(turn, member, "deprived of a right")
    if recipient is not None:
        protect(turn, recipient, "deprived of a right")

    def take() -> None:
        losing: dict[str, list[Held]] = {}
        for member, held in taken:
            losing.setdefault(member.name, []).append(held)
        for name, lost in losing.items():
            member = turn.state.members[name]
            turn.give(member, member.rights.without(lost))
        let_fall(turn, also=losing)
        if overlapping:
            _tell_partial(turn, sender, envelope, overlapping)

    return Outcome(take)


def let_fall(turn: Turn, *, also: Iterable[str] = (), gone: str = "") -> None:
    """Removes the rights that no longer stand, and welcomes every member that lost a right, `also` included.

    `gone` is a member that lost all rights; it gets no welcome.

    Spec: §3.6.8 (Revocations take effect immediately).
    """
    members, ends = turn.members, turn.state.upholding(turn.ends)
    rights = {name: turn.rights(member) for name, member in members.items()}
    fallen = (
        lapsed(rights, ends) if turn.meter is None else lapsed_of(rights, (*also, gone), ends, turn.meter)
    )
    for name, lost in fallen.items():
        turn.give(members[name], turn.rights(members[name]).without(lost))
        _tell_lapsed(turn, name, lost)
    for name in dict.fromkeys((*also, *fallen)):
        welcome_anew(turn, members[name])


def spend(turn: Turn, held: Held) -> None:
    """Charges an accepted message to a limited grant: one use of it, and of each grant that it rests on.

    Spec: §3.6.1, ruling R25.
    """
    ends = turn.ends
    over: list[str] = []
    for id in (held.grant, *ends[held.grant].rests_on):
        end = ends.get(id)
        if end is None or end.uses is None:
            continue
        left = end._replace(uses=end.uses - 1)
        turn.limit_grant(id, left)
        if not left.uses:
            over.append(id)
    if over:
        _end(turn, over)


def end_due(turn: Turn) -> None:
    """Ends the grants whose time is over, as a revoke would; of many, a portion for each event.

    Spec: §3.6.2, rulings R13 and R25.
    """
    over = _portion(turn.state, turn.state.over(turn.now))
    if over:
        turn.record("grant_ended", detail=compact(list(over)))
        _end(turn, over)


def _portion(state: State, over: Sequence[str]) -> Sequence[str]:
    """The first grants, as many as one event may end; the next event ends the others."""
    if state.limits.rights_bytes == 0 or not over:
        return over
    ends = state.ends
    recipients = max(1, PORTION_BYTES // max(1, described_bytes(state)))
    names = list(dict.fromkeys(ends[id].recipient for id in over))[:recipients]
    held = Counter(
        right.grant for name in names for right in state.members[name].rights.held if right.limited
    )
    taken: list[str] = []
    count = 0
    for id in over:
        if ends[id].recipient in names:
            count += held[id]
            if taken and count > PORTION:
                break
            taken.append(id)
    return taken


def _end(turn: Turn, ids: Collection[str]) -> None:
    losing: dict[str, list[Held]] = {}
    ending = set(ids)
    members, ends = turn.members, turn.ends
    for name in dict.fromkeys(ends[id].recipient for id in ids):
        held = turn.rights(members[name]).held
        losing[name] = [right for right in held if right.limited and right.grant in ending]
    for name, lost in losing.items():
        member = members[name]
        turn.give(member, turn.rights(member).without(lost))
        _tell_lapsed(turn, name, lost)
    let_fall(turn, also=[name for name, lost in losing.items() if lost])


def _tell_lapsed(turn: Turn, name: str, lost: Iterable[Held]) -> None:
    for held in lost:
        pattern = compact(held.capability.pattern)
        turn.record("lapsed", participant=name, pattern=pattern, detail=held.granter, grant=held.grant)


def _held_under(turn: Turn, grant_id: str, recipient: Member | None) -> list[tuple[Member, Held]]:
    """All that is held under a grant or an invite, wherever in the space."""
    matches = [
        (member, held)
        for member in turn.state.members.values()
        for held in member.rights.held
        if held.grant == grant_id and recipient in (None, member)
    ]
    if not matches:
        whose = f" of {recipient.name!r}" if recipient else ""
        raise Refusal(
            "grant_not_found",
            f"there is no grant {grant_id[:80]!r}{whose} that is still held; the id of the capability/grant "
            "is its grant_id",
            grant_id=grant_id[:256],
        )
    return matches


def _overlap(turn: Turn, patterns: list[Capability], held: Capability) -> str:
    """Whether a held capability falls under the patterns: `all` of it, a `part`, or nothing (``)."""
    # An undecided right is revoked: it is safer to take too much than too little. Both are read by the rules before
    # NARROW, so that no revoke takes less than it did by them (R33).
    try:
        touching = [capability for capability in patterns if not disjoint(capability, held, meter=turn.meter)]
        if not touching:
            return ""
        return "part" if possesses(touching, held.loose, meter=turn.meter).answer == "no" else "all"
    except OverBudget:
        return "all"


def _tell_partial(turn: Turn, sender: Sender, envelope: Envelope, remaining: list[Held]) -> None:
    patterns: list[dict[str, Any]] = [held.capability.pattern for held in remaining]
    complain(
        turn,
        sender,
        {
            "error": "revoke_partial",
            "remaining": patterns,
            "message": f"{len(patterns)} held capabilities allow some of what was revoked and more besides, so "
            "they remain; revoke them by their own patterns to take them away whole",
        },
        (envelope.id,),
    )
