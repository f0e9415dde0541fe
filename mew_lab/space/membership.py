"""Who is here?  Enrolment, admission, welcome, presence and leaving.

It never sees a token: by the time an event comes, a door has decided whose connection it is.

Spec: §3.6.4, §3.7, §3.8.1, §5.2.
"""

from __future__ import annotations

from typing import Any

from mew_lab.protocol.envelope import compact
from mew_lab.space.events import Close, Enrolled, Joined, Left
from mew_lab.space.state import Connection, Member, is_participant_id
from mew_lab.space.turn import Turn

__all__ = ["CLOSE_TAKEN", "enrol", "join", "leave"]

CLOSE_TAKEN = 4409
CLOSE_UNKNOWN = 4401
MAX_CONNECTIONS = 8  # of one participant


def _described(connection: Connection, member: Member) -> dict[str, Any]:
    return {"id": connection.runtime_id, "capabilities": list(member.capabilities.patterns)}


def enrol(turn: Turn, event: Enrolled) -> None:
    """The host gives a participant its capabilities; a member that is connected learns them at once.

    Raises:
        ValueError: when nobody can be called so, or another participant is or was.
    """
    state, name = turn.state, event.participant
    if not is_participant_id(name):
        raise ValueError(
            f"{name!r} cannot be a participant id: 1 to 64 of A-Z a-z 0-9 . _ -, not starting with a sign, "
            "and not gateway or system"
        )
    owner = state.runtime_owners.get(name.casefold(), name)
    if owner != name:
        raise ValueError(f"{name!r} cannot be enrolled: the name belongs to participant {owner!r}")
    capabilities = state.capability_set(event.capabilities)
    member = state.members.get(name)
    turn.record("enrolled", participant=name, detail=compact([dict(one) for one in event.capabilities]))
    if member is None:
        turn.then(lambda: state.members.update({name: Member(name, capabilities)}))
        turn.then(lambda: state.runtime_owners.setdefault(name.casefold(), name))
        return
    turn.then(lambda: member.hold(capabilities))
    for connection in member.connections:
        _welcome(turn, connection, list(capabilities.patterns), tuple(state.connections.values()))


def _welcome(
    turn: Turn, to: Connection, capabilities: list[dict[str, Any]], present: tuple[Connection, ...]
) -> None:
    others = [_described(one, turn.state.members[one.participant]) for one in present if one.name != to.name]
    turn.say(
        "system/welcome",
        {
            "you": {"id": to.runtime_id, "capabilities": capabilities},
            "participants": others,
            "active_streams": [],
        },
        connections=(to.name,),
        to=(to.runtime_id,),
        private=True,
    )


def _refusal(turn: Turn, event: Joined) -> Close | None:
    state = turn.state
    member = state.members.get(event.participant)
    if member is None:
        return Close(event.connection, CLOSE_UNKNOWN, "token or space unknown")
    if not is_participant_id(event.runtime_id):
        return Close(event.connection, CLOSE_TAKEN, f"{event.runtime_id[:64]!r} cannot be a participant id")
    owner = state.runtime_owners.get(event.runtime_id.casefold(), event.participant)
    if owner != event.participant or event.runtime_id in state.live:
        return Close(event.connection, CLOSE_TAKEN, f"participant id {event.runtime_id!r} is taken")
    if len(member.connections) >= MAX_CONNECTIONS:
        return Close(
            event.connection,
            CLOSE_TAKEN,
            f"{event.participant!r} has {MAX_CONNECTIONS} connections already (limit_exceeded)",
        )
    return None


def join(turn: Turn, event: Joined) -> None:
    """Admits a connection: one welcome to it, before anything else; then the join presence to all others."""
    state = turn.state
    refusal = _refusal(turn, event)
    if refusal:
        turn.record(
            "joined",
            participant=event.participant,
            connection=event.connection,
            via=event.via,
            verdict="refused",
            code=str(refusal.code),
            detail=refusal.reason,
        )
        turn.do(refusal)
        return
    member = state.members[event.participant]
    connection = Connection(event.connection, event.participant, event.runtime_id, event.via)

    def admit() -> None:
        member.connections.append(connection)
        member.admissions += 1
        state.connections[connection.name] = connection
        state.live[connection.runtime_id] = connection
        state.runtime_owners.setdefault(connection.runtime_id.casefold(), member.name)

    turn.then(admit)
    turn.record(
        "joined",
        participant=event.participant,
        connection=event.connection,
        via=event.via,
        verdict="accepted",
        detail=event.runtime_id,
    )
    present = tuple(state.connections.values())
    _welcome(turn, connection, list(member.capabilities.patterns), present)
    turn.say(
        "system/presence",
        {"event": "join", "participant": _described(connection, member)},
        connections=[one.name for one in present],
    )


def leave(turn: Turn, event: Left) -> None:
    """Forgets a connection and tells the others; a connection that never was is no event at all."""
    state = turn.state
    connection = state.connections.get(event.connection)
    if connection is None:
        return
    member = state.members[connection.participant]

    def forget() -> None:
        member.connections.remove(connection)
        del state.connections[connection.name]
        del state.live[connection.runtime_id]

    turn.then(forget)
    turn.record(
        "left",
        participant=connection.participant,
        connection=connection.name,
        via=connection.via,
        detail=event.reason,
    )
    turn.say(
        "system/presence",
        {"event": "leave", "participant": {"id": connection.runtime_id}},
        connections=[one for one in state.connections if one != connection.name],
    )
