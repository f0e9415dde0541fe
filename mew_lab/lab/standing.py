"""The standing of each participant in a space: presence, pause, shutdown, removal and rights. To be read on the loop.

Where the space runs here, its own state is read. Elsewhere the sources are messages to this participant: its own
rights, those of the others as they joined, and the grants in its ledger. Pauses of others are in `ledger.members`.

Spec: §3.6, §3.8.1, rulings R8c, R13, R14.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from mew_lab.lab.decisions.limited_grants import end_in_words
from mew_lab.lab.session import Session
from mew_lab.protocol.covers import covered
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability, CapabilitySet, read_capabilities
from mew_lab.protocol.profiles import OWNER
from mew_lab.space.core import Space
from mew_lab.space.rights import End

__all__ = [
    "HeldRight",
    "ParticipantKind",
    "ParticipantStanding",
    "classify",
    "find_kept",
    "logical",
    "standings",
]

MOST = 1000  # participants; the default limit of a space


ParticipantKind = Literal["you", "agent", "tools", "other"]


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


def classify(session: Session, standing: ParticipantStanding) -> ParticipantKind:
    """What a participant is, as far as its rights tell: you, an agent, a provider of tools, or another one.

    An agent proposes or reasons, and does not control others. A provider of tools answers requests and proposes none.
    A participant that controls others is a human or a supervisor: `other`.

    Spec: §4.1 (Example Capability Sets).
    """
    if standing.name == session.me.name:
        return "you"
    return _classify(standing.texts)


@lru_cache(maxsize=2000)
def _classify(texts: tuple[str, ...]) -> ParticipantKind:
    held, _ = read_capabilities([json.loads(text) for text in texts], edition=0)
    may = {
        kind for kind in _TELLING if any(capability.kind.matches(kind) for capability in held.capabilities)
    }
    if "participant/pause" in may:
        return "other"
    if may & {"mcp/proposal", "reasoning/start"}:
        return "agent"
    # Each participant may answer; a provider of tools also declines requests, or reports a change of its tools. An
    # approver (§9.4) sends calls alone.
    reports = held.permit("mcp/request", (), {"method": "notifications/tools/list_changed"}).allowed
    return "tools" if reports or "mcp/reject" in may else "other"


def find_kept(held: CapabilitySet, wanted: Capability) -> str:
    """The reason why the owner of a space keeps a capability to itself; empty for any other one.

    The gateway lets a participant pass on all that it holds. Who invites and removes follows from who opened the space,
    so no grant and no invitation that is made here passes it on.

    Spec: §3.6.8, ruling R12.
    """
    passed_on = [capability for capability in held.capabilities if capability.pattern not in OWNER]
    if len(passed_on) == len(held.capabilities) or covered(passed_on, wanted):
        return ""
    if not covered(held.capabilities, wanted):
        return ""
    return (
        "You may not grant this: only the owner of a space invites and removes participants. For a second "
        "participant that does, use lab.enrol(name, can='admin')."
    )


_TELLING = ("participant/pause", "mcp/proposal", "reasoning/start", "mcp/reject")


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
