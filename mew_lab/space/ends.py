"""Ends of grants: reads them from a payload, and decides which grants a message costs a use. Changes nothing.

A `capability/grant` may state its end in its payload: `expires_at`, a time, and `max_uses`, a number of messages. A
right that is granted on from a grant of limited uses also costs these uses, so granting on multiplies nothing.

Spec: §3.6.1, ruling R25.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mew_lab.protocol.covers import disjoint, possesses
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.node import Meter
from mew_lab.protocol.permit import Capability
from mew_lab.space.refusal import Refusal
from mew_lab.space.rights import End, Held, Rights, lapsed, lapsed_of
from mew_lab.space.state import State

__all__ = ["by_end", "read_end", "rests_on", "soonest", "standing"]

MOST_USES = 2**53 - 1  # what every reader of JSON reads alike
MAX_CHAIN = 16  # grants of some uses that one grant may rest on
FOR_EVER = datetime.max.replace(tzinfo=UTC)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def read_end(envelope: Envelope, *, recipient: str, now: datetime) -> End:
    """The end that a grant states; an `End` without limits where it states none.

    Raises:
        Refusal: `invalid_expires_at`, `expires_in_past` or `invalid_max_uses`.
    """
    payload = envelope.payload
    until, uses = payload.get("expires_at"), payload.get("max_uses")
    expires_at = None if until is None else _time(envelope, until)
    if expires_at is not None and expires_at <= now:
        raise Refusal(
            "invalid_request",
            f"{envelope.kind}: expires_at, {until}, is over already; give a time to come, or leave it out",
            code="expires_in_past",
        )
    if uses is not None and (type(uses) is not int or not 1 <= uses <= MOST_USES):
        raise Refusal(
            "invalid_request",
            f"{envelope.kind}: max_uses must be a whole number from 1 to {MOST_USES}; leave it out for no limit",
            code="invalid_max_uses",
        )
    return End(recipient, expires_at, uses, uses)


def _time(envelope: Envelope, text: object) -> datetime:
    try:
        if isinstance(text, str) and _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Refusal(
        "invalid_request",
        f"{envelope.kind}: expires_at must be a time of RFC 3339 with its offset, such as 2026-01-01T12:00:00Z",
        code="invalid_expires_at",
    )


def soonest(ends: Mapping[str, End], held: Held) -> tuple[bool, datetime, float]:
    """The sort key of a held right: one without an end first, then by the time of its end, then by remaining uses."""
    end = ends.get(held.grant) if held.limited else None
    if end is None:
        return False, FOR_EVER, 0
    chain = [end, *(link for id in end.rests_on if (link := ends.get(id)))]
    uses = [link.uses for link in chain if link.uses is not None]
    until = min((link.expires_at for link in chain if link.expires_at), default=None)
    if until is None and not uses:  # what it rested on is gone, and it stands by another right
        return False, FOR_EVER, 0
    return True, until or FOR_EVER, min(uses, default=MOST_USES)


def by_end(rights: Rights, ends: Mapping[str, End]) -> Callable[[int], Any] | None:
    """The order in which `CapabilitySet.permit` tries capabilities; None where none of them ends by itself."""
    if not rights.limited:
        return None
    return lambda at: min(soonest(ends, held) for held in rights.origins[at])


def standing(state: State, name: str, now: datetime, *, meter: Meter | None) -> Rights:
    """Returns the rights that a member may use now, without grants that are over and whose event is still to come.

    The search for dependent rights is charged to `meter`; a right that is undecided when it ends does not stand.
    """
    over = frozenset(state.over(now))
    if not over:
        return state.members[name].rights
    members = state.members
    asked = {name: None}  # and on whose rights its own rest, directly or through others
    waiting = [name]
    while waiting:
        for granter in members[waiting.pop()].rights.resting:
            if granter in members and granter not in asked:
                asked[granter] = None
                waiting.append(granter)
    left = {
        participant: rights.without([held for held in rights.held if held.limited and held.grant in over])
        if (rights := members[participant].rights).limited
        else rights
        for participant in asked
    }
    losers = dict.fromkeys(state.ends[id].recipient for id in over)
    ends = state.upholding(state.ends)
    fallen = lapsed(left, ends) if meter is None else lapsed_of(left, losers, ends, meter)
    return left[name].without(fallen.get(name, ()))


def rests_on(
    rights: Rights, ends: Mapping[str, End], granted: Sequence[Capability], *, meter: Meter | None
) -> tuple[str, ...]:
    """Returns the grants of limited uses on whose right the holder of `rights` grants `granted`.

    A capability rests on none of them where a right without limited uses covers it. Otherwise it rests on the
    longest-lived grant that covers it. Where only several cover it together, it rests on all grants that overlap it:
    a search for the fewest would cost too much.

    Raises:
        Refusal: `limit_exceeded` when they are more than a grant may rest on.
        OverBudget: when `meter` ends first.
    """
    if not rights.limited:
        return ()
    counted: dict[str, list[Capability]] = {}
    free: list[Capability] = []
    for held in sorted(rights.held, key=lambda held: soonest(ends, held)):
        end = ends.get(held.grant) if held.limited else None
        if end is not None and end.counted:
            counted.setdefault(held.grant, []).append(held.capability)
        else:
            free.append(held.capability)
    needed: dict[str, None] = {}
    for capability in granted if counted else ():
        if _covered(free, capability, meter):
            continue
        longest = next((id for id in reversed(counted) if _covered(counted[id], capability, meter)), None)
        touching = (
            [longest] if longest else [id for id in counted if _touches(counted[id], capability, meter)]
        )
        needed |= dict.fromkeys(two for id in touching for two in (id, *ends[id].rests_on))
        if len(needed) > MAX_CHAIN:
            raise Refusal(
                "limit_exceeded",
                f"this grant would rest on more than {MAX_CHAIN} grants of some uses; have it given by a participant "
                "that holds it without a limit",
            )
    return tuple(needed)


def _covered(held: Sequence[Capability], granted: Capability, meter: Meter | None) -> bool:
    return possesses(held, granted, meter=meter).answer == "yes"


def _touches(held: Sequence[Capability], granted: Capability, meter: Meter | None) -> bool:
    return not all(disjoint(capability, granted, meter=meter) for capability in held)
