"""Streams: their owner, their writers, and the receivers of their frames.

An owner, a writer and a target are connections, or log sinks: a name in a payload means the newest connection of
that participant. The gateway's description of a stream wins over that of its request.

Spec: §3.10.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.frames import split
from mew_lab.protocol.text import timestamp
from mew_lab.space.events import FrameReceived, HttpReply, Relay
from mew_lab.space.outcome import Outcome, text_in
from mew_lab.space.refusal import Refusal, refuse_unread
from mew_lab.space.shares import roomy, within
from mew_lab.space.state import LiveConnection, Sender, StreamState
from mew_lab.space.turn import Turn

__all__ = [
    "abandon",
    "close",
    "described_streams",
    "frame",
    "grant_write",
    "open_",
    "refuse_frame",
    "request",
    "revoke_write",
    "transfer_ownership",
]

TOLD_A_SECOND = 10  # refusals of frames; the others of that second are counted in the next one
WINDOW = timedelta(seconds=1)


def described_streams(turn: Turn) -> list[dict[str, Any]]:
    """The active streams as a welcome lists them: every field of the request, overridden by those of the gateway.

    Spec: §3.8.1, §3.10.8.
    """
    return [
        {
            "direction": "upload",
            **stream.fields,
            "stream_id": stream.id,
            "owner": stream.owner.runtime_id,
            "authorized_writers": stream.writer_ids,
            "created": stream.created,
        }
        for stream in turn.streams.values()
    ]


# --- the life of a stream ---


def request(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Opens a stream for the sender, with any addressees of the request.

    Spec: §3.10.1, §3.10.2.
    """
    state, payload = turn.state, envelope.payload
    owner = _speaking(turn, sender)
    if owner is None:
        raise Refusal(
            "not_connected",
            f"{sender.runtime_id} has no connection that could own a stream; connect, then ask again",
            whole=True,
        )
    target = _target(turn, payload.get("target"))
    size = len(envelope.raw)
    if len(state.streams) >= state.limits.streams:
        raise Refusal(
            "limit_exceeded", f"this space has {state.limits.streams} active streams; close some first"
        )
    by = sender.member.name
    within(
        state,
        sender.member,
        sum(1 for stream in state.streams.values() if state.root(stream.by) == state.root(by)),
        state.limits.streams,
        "active streams",
    )
    roomy(state, sender.member, size)

    def open_it() -> HttpReply | None:
        number = state.streams_opened + 1
        turn.then(lambda: setattr(state, "streams_opened", number))
        id = f"stream-{number}"
        encoding = payload.get("encoding")
        opening: dict[str, Any] = {
            "stream_id": id,
            "encoding": encoding if isinstance(encoding, str) else "text",
            "owner": owner.runtime_id,
            "authorized_writers": [owner.runtime_id],
        }
        if target:
            opening["target"] = payload["target"]
        opened = turn.say("stream/open", opening, to=(owner.runtime_id,), correlation=(envelope.id,))
        created = timestamp(turn.now)
        turn.set_stream(
            StreamState(id, owner, (), target, payload, size, created, envelope.id, opened.id, by)
        )
        if sender.connection is not None:
            return None
        return HttpReply(
            200, {"id": opened.id, "status": "stream_opened", "stream_id": id, "timestamp": created}
        )

    return Outcome(open_it)


def open_(turn: Turn, sender: Sender, envelope: Envelope) -> None:
    """Relays a participant's own stream/open like any other message, unless it names an active stream.

    Spec: §3.10.2.
    """
    id = envelope.payload.get("stream_id")
    if isinstance(id, str) and id in turn.streams:
        raise Refusal(
            "unauthorized",
            f"{id} is an active stream of {turn.streams[id].owner.runtime_id}; only the gateway opens it",
            whole=True,
            stream_id=id,
        )


def close(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome | None:
    """Closes the owner's stream; a close that names no active stream is relayed like any other message.

    Spec: §3.10.4.
    """
    stream = _closing(turn, envelope)
    if stream is None:
        return None
    _owned(turn, sender, stream, "close")
    return Outcome(lambda: turn.end_stream(stream))


def _closing(turn: Turn, envelope: Envelope) -> StreamState | None:
    if "stream_id" in envelope.payload:
        id = envelope.payload["stream_id"]
        return turn.streams.get(id) if isinstance(id, str) else None
    named = set(envelope.correlation_id)
    return next((stream for stream in turn.streams.values() if named & {stream.request, stream.opened}), None)


def abandon(turn: Turn, connections: tuple[LiveConnection, ...]) -> None:
    """Ends the streams that connections own, and their right to write to others.

    Spec: §3.10.6.
    """
    for stream in tuple(turn.streams.values()):
        if stream.owner in connections:
            turn.end_stream(stream)
            turn.say(
                "stream/close",
                {"stream_id": stream.id, "reason": "owner_left"},
                correlation=(stream.opened,),
            )
            continue
        silenced = [writer for writer in connections if writer in stream.granted]
        if not silenced:
            continue
        left = stream._replace(
            granted=tuple(writer for writer in stream.granted if writer not in connections)
        )
        turn.set_stream(left)
        for writer in silenced:
            _tell(turn, "stream/write-revoked", left, participant_id=writer.runtime_id, reason="disconnected")


# --- who may write ---


def grant_write(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Grants a participant write access to the owner's stream.

    Spec: §3.10.5.
    """
    stream = _owned(turn, sender, _named(turn, envelope), "grant write access to")
    writer = _party(turn, envelope, "participant_id")
    granted = stream.granted
    if writer not in granted:
        roomy(turn.state, sender.member, 0)
        granted = (*granted, writer)

    def let_write() -> HttpReply | None:
        changed = stream._replace(granted=granted)
        turn.set_stream(changed)
        notice = _tell(
            turn, "stream/write-granted", changed, (envelope.id,), participant_id=writer.runtime_id
        )
        return _answer(sender, notice, "granted", changed)

    return Outcome(let_write)


def revoke_write(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Revokes a participant's write access to the owner's stream, if it has any.

    The name of a participant that is no id of a connection means all its connections that may write. Otherwise an
    older connection with write access could go on writing.

    Spec: §3.10.6, ruling R8c.
    """
    stream = _owned(turn, sender, _named(turn, envelope), "revoke write access to")
    name = text_in(envelope, "participant_id")
    writer = turn.state.reach(name)
    writers: list[LiveConnection | None] = [writer]
    if turn.state.edition >= 2 and writer is not None and writer.runtime_id != name:
        others = [other for other in stream.granted if other.participant == writer.participant]
        writers = [other for other in others if other != stream.owner] or writers
    if writers == [stream.owner]:
        raise Refusal(
            "invalid_operation",
            f"the owner of {stream.id} always may write to it; transfer the stream, or close it",
            whole=True,
            stream_id=stream.id,
        )

    def stop_writing() -> HttpReply | None:
        changed = stream
        for removed in writers:
            changed = _without(changed, removed)
            turn.set_stream(changed)
            id = removed.runtime_id if removed else name
            notice = _tell(turn, "stream/write-revoked", changed, (envelope.id,), participant_id=id)
        return _answer(sender, notice, "revoked", changed)

    return Outcome(stop_writing)


def transfer_ownership(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Transfers the owner's stream; the former owner may write on only with a write grant.

    Spec: §3.10.7.
    """
    stream = _owned(turn, sender, _named(turn, envelope), "transfer")
    owner = _party(turn, envelope, "new_owner")

    def hand_over() -> HttpReply | None:
        changed = stream._replace(owner=owner)
        turn.set_stream(changed)
        parties = {"new_owner": owner.runtime_id, "previous_owner": stream.owner.runtime_id}
        notice = _tell(turn, "stream/ownership-transferred", changed, (envelope.id,), **parties)
        return _answer(sender, notice, "transferred", changed, **parties)

    return Outcome(hand_over)


# --- frames ---


def frame(turn: Turn, sender: Sender, event: FrameReceived) -> None:
    """Relays a frame unchanged, or refuses it.

    Spec: §3.10.3.
    """
    try:
        id = split(event.data)[0]
    except ProtocolError as fault:
        if not event.data.startswith(b"#"):
            about = {"stream_id": "", "size": len(event.data)}
            payload = {"error": "invalid_request", "code": "invalid_frame", "message": str(fault)}
            refuse_unread(turn, sender, "frame", about, payload)
            return
        refuse_frame(turn, sender, event)
        return
    stream = turn.state.streams.get(id)
    if stream is None or sender.connection not in stream.writers:
        refuse_frame(turn, sender, event)
        return
    receivers = turn.state.audience
    if stream.target:
        targets = {target.name for target in stream.target}
        # a log sink hears what its participant hears
        theirs = {target.participant for target in stream.target}
        sinks = {sink.name for sink in turn.state.sinks.values() if sink.participant in theirs}
        receivers = tuple(name for name in receivers if name in targets or name in sinks)
    if receivers:
        turn.do(Relay(event.data, event.text, receivers))


def refuse_frame(turn: Turn, sender: Sender, event: FrameReceived, *, refusal: Refusal | None = None) -> None:
    """Refuses a frame; its sender gets ten errors a second, and then the number of further ones.

    Spec: §3.10.3, §3.10.6.
    """
    id = event.data[1:].split(b"#", 1)[0][:256].decode("ascii", "backslashreplace")[:256]
    payload: dict[str, Any] = {"error": "unauthorized_stream_write", "stream_id": id}
    payload["message"] = f"You are not authorized to write to stream {id}"
    if refusal is not None:
        payload = {**refusal.payload, "stream_id": id}
    name, refused = event.connection, turn.state.refused_frames
    since, reported, unreported = refused.get(name, (turn.now, 0, 0))
    if turn.now - since >= WINDOW:
        since, reported = turn.now, 0
    tell = reported < TOLD_A_SECOND
    if tell and unreported:
        payload["refused_before"] = unreported
    news = (since, reported + 1, 0) if tell else (since, reported, unreported + 1)
    turn.then(lambda: refused.update({name: news}))
    refuse_unread(turn, sender, "frame", {"stream_id": id, "size": len(event.data)}, payload, tell=tell)


# --- finding one's way ---


def _speaking(turn: Turn, sender: Sender) -> LiveConnection | None:
    """The connection of a sender: its own; for HTTP the one that it names, else its newest, else its sink."""
    return sender.connection or turn.state.reach(sender.runtime_id) or turn.state.reach(sender.member.name)


def _named(turn: Turn, envelope: Envelope) -> StreamState:
    id = text_in(envelope, "stream_id")
    stream = turn.streams.get(id)
    if stream is None:
        raise Refusal(
            "stream_not_found", f"there is no active stream {id[:80]!r}", whole=True, stream_id=id[:256]
        )
    return stream


def _owned(turn: Turn, sender: Sender, stream: StreamState, deed: str) -> StreamState:
    if _speaking(turn, sender) != stream.owner:
        raise Refusal(
            "unauthorized",
            f"{sender.runtime_id} cannot {deed} {stream.id}: its owner is {stream.owner.runtime_id}",
            whole=True,
            stream_id=stream.id,
        )
    return stream


def _party(turn: Turn, envelope: Envelope, key: str) -> LiveConnection:
    name = text_in(envelope, key)
    party = turn.state.reach(name)
    if party is None:
        raise Refusal(
            "participant_not_found",
            f"{name[:80]!r} is not in this space now, so it can have no part in a stream",
            whole=True,
            participant_id=name[:256],
        )
    return party


def _target(turn: Turn, value: object) -> tuple[LiveConnection, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refusal("invalid_request", "stream/request: target must be a list of participant ids")
    connections = {name: turn.state.reach(name) for name in value}
    missing = [name[:80] for name, connection in connections.items() if connection is None]
    if missing:
        raise Refusal(
            "target_not_found",
            f"these targets are not in this space now: {', '.join(missing[:10])}",
            whole=True,
            targets=missing[:100],
        )
    return tuple(dict.fromkeys(connection for connection in connections.values() if connection is not None))


def _without(stream: StreamState, writer: LiveConnection | None) -> StreamState:
    return stream._replace(granted=tuple(other for other in stream.granted if other != writer))


def _tell(
    turn: Turn, kind: str, stream: StreamState, correlation: tuple[str, ...] = (), **fields: str
) -> Envelope:
    payload = {"stream_id": stream.id, **fields, "authorized_writers": stream.writer_ids}
    return turn.say(kind, payload, correlation=correlation)


def _answer(
    sender: Sender, notice: Envelope, status: str, stream: StreamState, **fields: str
) -> HttpReply | None:
    if sender.connection is not None:
        return None
    body = {
        "id": notice.id,
        "status": status,
        "stream_id": stream.id,
        "authorized_writers": stream.writer_ids,
    }
    return HttpReply(200, {**body, **fields})
