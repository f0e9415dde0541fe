"""Admission, welcome, presence and leaving.

These rules see no token: the gateway has authenticated the connection before the event.

Spec: §3.6.4, §3.7, §3.8.1, §5.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mew_lab.protocol.envelope import compact
from mew_lab.protocol.kinds import CLOSE_KICKED, CLOSE_TAKEN, CLOSE_UNKNOWN, EXTENSION
from mew_lab.protocol.own import OWN
from mew_lab.protocol.permit import PATTERNS
from mew_lab.space.events import LOG_SINK, NOTE_BYTES, Close, Joined, Left
from mew_lab.space.shares import admissible
from mew_lab.space.state import LiveConnection, Member, is_participant_id
from mew_lab.space.streams import abandon, described_streams
from mew_lab.space.turn import Turn

__all__ = ["depart", "describe_member", "join", "leave", "tell_due", "welcome_anew"]

MAX_CONNECTIONS = 8  # of one participant
REASON = 120  # characters that a close frame takes, with room for what is not ASCII


def describe_member(turn: Turn, connection: LiveConnection) -> dict[str, Any]:
    """The object that describes a participant in welcomes and presences: `{"id", "capabilities"}`."""
    rights = turn.rights(turn.state.members[connection.participant])
    return {"id": connection.runtime_id, "capabilities": list(rights.capabilities.patterns)}


def _member_json(turn: Turn, connection: LiveConnection) -> str:
    """The result of `describe_member` as compact JSON, which every welcome repeats."""
    rights = turn.rights(turn.state.members[connection.participant])
    return f'{{"id":{compact(connection.runtime_id)},"capabilities":{rights.patterns_json}}}'


def welcome_anew(turn: Turn, member: Member) -> None:
    """Welcomes every connection of a member, and its log sinks, again after its rights changed.

    One message may end a right of many members, and each welcome lists every participant. Welcomes that exceed the
    limit of one event are owed, and sent by later ones (`tell_due`).

    Spec: §3.6.1 (step 3), ruling R24.
    """
    due, most = turn.state.due, turn.state.limits.welcome_bytes
    for connection in (*member.connections, *member.sinks):
        if most and turn.welcome_bytes >= most:
            turn.then(lambda name=connection.name: due.setdefault(name, turn.by))  # type: ignore[misc]
        else:
            turn.then(lambda name=connection.name: due.pop(name, None))  # type: ignore[misc]
            turn.welcome_bytes += _welcome(turn, connection, turn.present)


def tell_due(turn: Turn) -> None:
    """Welcomes connections that are owed a welcome: as many as one event may, of one cause."""
    state = turn.state
    if not state.due:
        return
    turn.by = next(iter(state.due.values()))
    turn.record("welcomes_due", participant=turn.by)
    for name, by in state.due.items():
        if by != turn.by or turn.welcome_bytes >= state.limits.welcome_bytes:
            break
        turn.then(lambda name=name: state.due.pop(name))  # type: ignore[misc]
        to = state.connections.get(name) or state.sinks[name]
        turn.welcome_bytes += _welcome(turn, to, turn.present)


def _welcome(turn: Turn, to: LiveConnection, present: Iterable[LiveConnection]) -> int:
    """Welcomes one connection; returns the number of characters."""
    others = [connection for connection in present if connection.runtime_id != to.runtime_id]
    payload: dict[str, Any] = {
        "you": describe_member(turn, to),
        "participants": [describe_member(turn, other) for other in others],
    }
    last: dict[str, Any] = {"active_streams": described_streams(turn)}
    if turn.state.edition >= 4:
        last[EXTENSION] = _extension(turn)
    if to.participant == turn.state.owner and turn.state.journal_head:
        last["journal_head"] = turn.state.journal_head  # an extension: others ignore it
    payload |= last
    # The members have their texts already; they are most of a welcome, so they are copied once.
    participants = ",".join([_member_json(turn, other) for other in others])
    text = f'{{"you":{_member_json(turn, to)},"participants":[{participants}],{compact(last)[1:]}'
    turn.say("system/welcome", payload, to=(to.runtime_id,), privately=(to,), text=text)
    return len(text)


def _extension(turn: Turn) -> dict[str, Any]:
    """What this gateway does beyond the specification: a member of each welcome that others ignore.

    `own` are the kinds that everybody may send about its own messages, `patterns` the additions to the pattern language,
    `message_bytes` the size of the longest message. `notes` is the size of the longest note about a decision or a call.

    Spec: rulings R34, R36, R42.
    """
    state = turn.state
    return {
        "edition": state.edition,
        "own": list(OWN),
        "notes": NOTE_BYTES,
        "patterns": list(PATTERNS),
        "message_bytes": state.message_bytes,
    }


def _refusal(turn: Turn, event: Joined) -> Close | None:
    state = turn.state
    member = state.members.get(event.participant)
    if member is None:
        return Close(event.connection, CLOSE_UNKNOWN, "token or space unknown")
    if member.kicked:
        return Close(event.connection, CLOSE_KICKED, f"{event.participant!r} was removed from this space")
    if not is_participant_id(event.runtime_id):
        return Close(event.connection, CLOSE_TAKEN, f"{event.runtime_id[:64]!r} cannot be a participant id")
    owner = state.runtime_owners.get(event.runtime_id.casefold(), event.participant)
    taken = event.via != LOG_SINK and event.runtime_id in state.live
    if owner != event.participant or taken:
        return Close(event.connection, CLOSE_TAKEN, f"participant id {event.runtime_id!r} is taken")
    if event.via != LOG_SINK and len(member.connections) >= MAX_CONNECTIONS:
        return Close(
            event.connection,
            CLOSE_TAKEN,
            f"{event.participant!r} has {MAX_CONNECTIONS} connections already (limit_exceeded)",
        )
    too_much = admissible(state, member, event.runtime_id) if event.via != LOG_SINK else ""
    if too_much:
        return Close(event.connection, CLOSE_TAKEN, f"{too_much} (limit_exceeded)"[:REASON])
    return None


def join(turn: Turn, event: Joined) -> None:
    """Admits a connection: first one welcome to it, then the join presence to all others.

    A log sink is admitted beside real connections and ends neither a shutdown nor an admission.
    """
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
            runtime_id=event.runtime_id,  # without it no replay could be refused the same
        )
        turn.do(refusal)
        return
    member = state.members[event.participant]
    connection = LiveConnection(event.connection, event.participant, event.runtime_id, event.via)
    present = turn.present
    known = any(other.runtime_id == connection.runtime_id for other in present)

    def admit() -> None:
        if connection.via == LOG_SINK:
            member.sinks.append(connection)
            state.sinks[connection.name] = connection
        else:
            member.connections.append(connection)
            member.admissions += 1
            member.shut_down = False
            state.connections[connection.name] = connection
            state.live[connection.runtime_id] = connection
        state.runtime_owners.setdefault(connection.runtime_id.casefold(), member.name)
        state.aliases[connection.runtime_id] = member.name
        state.refresh_audience()

    turn.then(admit)
    turn.record(
        "joined",
        participant=event.participant,
        connection=event.connection,
        via=event.via,
        verdict="accepted",
        detail=event.runtime_id,
    )
    _welcome(turn, connection, present)
    if not (known and connection.via == LOG_SINK):
        turn.say("system/presence", {"event": "join", "participant": describe_member(turn, connection)})


def leave(turn: Turn, event: Left) -> None:
    """Removes a connection and announces that to the others; an unknown connection is ignored."""
    state = turn.state
    connection = state.connections.get(event.connection) or state.sinks.get(event.connection)
    if connection is None:
        return
    turn.record(
        "left",
        participant=connection.participant,
        connection=connection.name,
        via=connection.via,
        detail=event.reason,
    )
    depart(turn, (connection,))


def depart(turn: Turn, connections: Iterable[LiveConnection]) -> None:
    """Removes connections: sends a leave presence for each id without a connection, then ends their streams.

    Spec: §3.7, §3.10.6.
    """
    leaving = tuple(connections)
    for connection in leaving:
        turn.remove_connection(connection)
    still = {connection.runtime_id for connection in turn.present}
    for id in dict.fromkeys(connection.runtime_id for connection in leaving):
        if id not in still:
            turn.say("system/presence", {"event": "leave", "participant": {"id": id}})
    abandon(turn, leaving)
