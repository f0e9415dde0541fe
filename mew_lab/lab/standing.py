"""The standing of each participant in a space: presence, pause, shutdown, removal and rights. To be read on the loop.

Where the space runs here, its own state is read. Elsewhere the sources are messages to this participant: its own
rights, those of the others as they joined, and the grants in its ledger. Pauses of others are in `ledger.members`.

Spec: §3.6, §3.8.1, rulings R8c, R13, R14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.lab.decisions.limited_grants import end_in_words
from mew_lab.lab.session import Session
from mew_lab.protocol.envelope import compact
from mew_lab.space.core import Space
from mew_lab.space.rights import End

__all__ = ["HeldRight", "ParticipantStanding", "logical", "standings"]

MOST = 1000  # participants; the default limit of a space


class HeldRight(NamedTuple):
    """A capability of a participant.

    `grant` is the id of its grant or invite, empty for a configured one; `baseline` marks a capability of every
    participant; `ends` is its own end as a short text.
    """

    pattern: Mapping[str, Any]
    grant: str = ""
    granter: str = ""
    baseline: bool = False
    ends: str = ""


class ParticipantStanding(NamedTuple):
    """The standing of one participant.

    `ids` are those of its connections, the newest last; `texts` its patterns as JSON, each once. `until` (epoch,
    seconds) is None for a pause without end, and has no meaning where `paused_by` is empty. `certain` tells whether the
    state comes from the space itself.
    """

    name: str
    ids: tuple[str, ...]
    rights: tuple[HeldRight, ...]
    texts: tuple[str, ...]
    paused_by: str = ""
    until: float | None = None
    shut_down: bool = False
    kicked: bool = False
    came: bool = True
    owner: bool = False
    certain: bool = True


def standings(session: Session) -> list[ParticipantStanding]:
    """All participants, in the order in which they became known; at most 1000. To be called on the loop's thread."""
    core = session.host.core if session.host is not None else None
    return (_read_messages(session) if core is None else _read_state(core))[:MOST]


def logical(session: Session, name: str) -> str:
    """The participant that an id means."""
    core = session.host.core if session.host is not None else None
    return name if core is None else core.state.logical(name)


def _read_state(core: Space) -> list[ParticipantStanding]:
    baseline = {id(capability) for capability in core.state.baseline}
    participants = []
    for member in tuple(core.state.members.values()):
        rights = tuple(
            HeldRight(
                right.capability.pattern,
                right.grant,
                right.granter,
                id(right.capability) in baseline,
                _ends(core, right.grant) if right.limited else "",
            )
            for right in member.rights.held
        )
        until = member.pause.until.timestamp() if member.pause and member.pause.until else None
        participants.append(
            ParticipantStanding(
                member.name,
                tuple(connection.runtime_id for connection in member.connections),
                rights,
                member.rights.texts,
                member.pause.by if member.pause else "",
                until,
                member.shut_down,
                member.kicked,
                member.admissions > 0,
                member.name == core.state.owner,
            )
        )
    return participants


def _ends(core: Space, grant: str) -> str:
    end = core.state.ends.get(grant, End(""))
    limits = end_in_words(
        end.expires_at.timestamp() if end.expires_at else None,
        end.max_uses,
        (end.max_uses or 0) - (end.uses or 0),
    )
    resting = f"with {', '.join(end.rests_on)}" if end.rests_on else ""
    return ", ".join(filter(None, (limits, resting)))


def _read_messages(session: Session) -> list[ParticipantStanding]:
    me = session.me.participant
    mine = tuple(map(HeldRight, me.client.capabilities.patterns))
    here = (me.client.id,) if me.client.state == "ready" else ()
    participants = [ParticipantStanding(me.client.id, here, mine, _texts(mine), certain=False)]
    granted: dict[str, list[HeldRight]] = {}
    for grant in me.rights.grants:
        if grant.stands:
            rights = [HeldRight(pattern, grant.id, grant.granter) for pattern in grant.left]
            granted.setdefault(grant.recipient, []).extend(rights)
    for name, patterns in tuple(me.client.participants.items()):
        held = (*map(HeldRight, patterns), *granted.get(name, ()))
        participants.append(ParticipantStanding(name, (name,), held, _texts(held), certain=False))
    return participants


def _texts(rights: tuple[HeldRight, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(compact(right.pattern) for right in rights))
