"""What does a space do with what happens?  `Space.step(event, now) -> effects`, and nothing beside it.

Two rules for whoever adds something here:
1. No clock, no randomness, no I/O: what a rule needs comes with the event or with `now`.
2. A peer's fault is an effect, never an exception.

A text message runs down one line, and the first that objects ends it: strict reading, shape and version, identity,
reserved kinds, capability, handles, the rule of its kind, routing. What is checked is what is sent.

Spec: §3, §4, §5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import MAX_MESSAGE, Envelope, compact, complete, read_draft
from mew_lab.protocol.kinds import ACTED_ON, HANDLES, is_reserved
from mew_lab.protocol.permit import Verdict
from mew_lab.space.events import (
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    Joined,
    Left,
    Limited,
    Oversize,
    Received,
    Reply,
)
from mew_lab.space.membership import enrol, join, leave
from mew_lab.space.state import Connection, Handle, Member, State
from mew_lab.space.turn import Turn, timestamp

__all__ = ["BASELINE", "RULES", "Refusal", "Space"]

BASELINE: tuple[dict[str, Any], ...] = ({"kind": "mcp/response"},)

# HTTP statuses of refusals; 400 for all others. Spec: §5.3.
STATUSES = {
    "capability_violation": 403,
    "identity_mismatch": 403,
    "duplicate_id": 409,
    "message_too_large": 413,
    "unsupported_kind": 501,
}


class Sender(NamedTuple):
    """Who speaks, on which connection or none, and under which id."""

    member: Member
    runtime_id: str
    connection: Connection | None
    via: str


class Refusal(Exception):
    """Control flow within one step: the message is refused. Never leaves this module."""

    def __init__(self, error: str, message: str, *, code: str = "", pattern: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.code = code or error
        self.pattern = pattern
        self.fields = fields


def _refuse_unbuilt(turn: Turn, sender: Sender, envelope: Envelope) -> None:
    """A kind that the gateway must act on is refused aloud rather than passed on without its effect."""
    raise Refusal(
        "unsupported_kind",
        f"{envelope.kind} is not supported by this gateway yet, so it was not delivered to anybody",
    )


Rule = Callable[[Turn, Sender, Envelope], None]
RULES: Mapping[str, Rule] = dict.fromkeys(ACTED_ON, _refuse_unbuilt)


class Space:
    """One space: its members, what they may do, and the one order of its messages.

    `plan` says what an event leads to, and `Plan.commit` makes it so; `step` does both. Time enters only as `now`,
    which never runs backwards. `epoch` is a 64-bit number that makes this run's ids its own.
    """

    def __init__(
        self,
        name: str,
        *,
        epoch: int,
        participants: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
        baseline: Iterable[Mapping[str, Any]] = BASELINE,
        limit: int = MAX_MESSAGE,
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.limit = limit
        self.state = State(baseline)
        self._own_ids = f"gw-{epoch:016x}-"
        for participant, capabilities in (participants or {}).items():
            turn = Turn(self.state, space=name, epoch=epoch, now=datetime.min)
            enrol(turn, Enrolled(participant, tuple(capabilities)))
            turn.commit()
        self.state.records = 0

    def step(self, event: Event, now: datetime) -> tuple[Effect, ...]:
        """What is to be done about `event`, with every change made.

        Raises:
            ValueError: for an `Enrolled` that names an impossible participant; the host's fault, not a peer's.
        """
        turn = self.plan(event, now)
        turn.commit()
        return turn.effects

    def plan(self, event: Event, now: datetime) -> Turn:
        """What is to be done about `event`, with nothing changed until `commit()`."""
        turn = Turn(self.state, space=self.name, epoch=self.epoch, now=now)
        match event:
            case Received():
                self._received(turn, event)
            case Enrolled():
                enrol(turn, event)
            case Joined():
                join(turn, event)
            case Left():
                leave(turn, event)
            case FrameReceived():
                self._frame(turn, event)
            case Oversize():
                self._oversize(turn, event)
            case Limited():
                self._limited(turn, event)
            case _:
                turn.record(event.event, participant=event.participant, detail=event.detail)
        return turn

    # --- text messages ---

    def _sender(self, event: Received) -> Sender | None:
        if event.connection is None:
            member = self.state.members.get(event.participant)
            if member is None:
                return None
            return Sender(member, event.runtime_id or event.participant, None, event.via)
        connection = self.state.connections.get(event.connection)
        if connection is None:
            return None
        return Sender(
            self.state.members[connection.participant], connection.runtime_id, connection, connection.via
        )

    def _received(self, turn: Turn, event: Received) -> None:
        sender = self._sender(event)
        if sender is None:  # its connection was closed while the message was on its way
            if event.connection is None:
                turn.do(Reply(403, {"error": "Invalid token for participant"}))
            return
        text = event.text if isinstance(event.text, str) else event.text.decode("utf-8", "replace")
        envelope: Envelope | None = None
        members: dict[str, Any] = {}
        try:
            draft = read_draft(event.text, limit=self.limit)
            members = draft.members
            self._check_identity(turn, sender, members)
            envelope = complete(
                draft,
                id=turn.new_id() if "id" not in members else "",
                ts=timestamp(turn.now) if "ts" not in members else "",
                sender=sender.runtime_id,
                to=self._resolved(members),
            )
            verdict = self._check_capability(sender, envelope)
            self._check_handle(turn, sender, envelope)
            rule = RULES.get(envelope.kind)
            if rule:
                rule(turn, sender, envelope)
        except ProtocolError as fault:
            error = fault.code if fault.code == "unsupported_protocol" else "invalid_request"
            self._refuse(turn, sender, Refusal(error, str(fault), code=fault.code), text, envelope, members)
        except Refusal as refusal:
            self._refuse(turn, sender, refusal, text, envelope, members)
        else:
            self._route(turn, sender, envelope, verdict, text)

    def _check_identity(self, turn: Turn, sender: Sender, members: Mapping[str, Any]) -> None:
        claimed = members.get("from", sender.runtime_id)
        if claimed != sender.runtime_id:
            raise Refusal(
                "identity_mismatch",
                f"from says {str(claimed)[:80]!r}, but this connection speaks as {sender.runtime_id!r}; "
                "leave from out, or send your own id",
            )
        if members.get("id", "").startswith(self._own_ids):
            raise Refusal(
                "reserved_id", "ids that begin like this gateway's own are reserved; choose another id"
            )
        kind = members["kind"]
        if is_reserved(kind):
            raise Refusal(
                "invalid_request",
                f"{kind[:80]} is reserved for the gateway. Use capability/grant instead.",
                code="reserved_kind",
            )

    def _resolved(self, members: Mapping[str, Any]) -> tuple[str, ...] | None:
        to = members.get("to")
        if not to:
            return None
        resolved = tuple(self.state.address(name) for name in to)
        return resolved if resolved != tuple(to) else None

    def _check_capability(self, sender: Sender, envelope: Envelope) -> Verdict:
        to = tuple(self.state.logical(name) for name in envelope.to)
        verdict = sender.member.capabilities.permit(envelope.kind, to, envelope.payload)
        if not verdict.allowed:
            held = list(sender.member.capabilities.patterns)
            raise Refusal(
                "capability_violation",
                f"Participant {sender.runtime_id} lacks capability for {envelope.kind[:80]}",
                pattern=verdict.nearest,
                attempted_kind=envelope.kind,
                your_capabilities=held,
                nearest=verdict.nearest,
            )
        return verdict

    def _check_handle(self, turn: Turn, sender: Sender, envelope: Envelope) -> None:
        if envelope.kind not in HANDLES:
            return
        mine = Handle(sender.member.name, sender.member.admissions)
        taken = self.state.handles.get(envelope.id)
        if taken is not None and (taken.participant != mine.participant or taken.admission == mine.admission):
            raise Refusal(
                "duplicate_id",
                f"the id {envelope.id[:80]!r} already names an earlier message of {taken.participant!r}; "
                "send it again under a fresh id",
            )
        turn.then(lambda: self.state.take_handle(envelope.id, mine))

    def _route(self, turn: Turn, sender: Sender, envelope: Envelope, verdict: Verdict, text: str) -> None:
        turn.record(
            "received",
            participant=sender.member.name,
            connection=sender.connection.name if sender.connection else "",
            via=sender.via,
            verdict="accepted",
            pattern=sender.member.texts[verdict.index or 0],
            received=text if text != envelope.raw else None,
            raw=envelope.raw,
        )
        receivers = tuple(self.state.connections)
        if receivers:
            turn.do(Deliver(envelope, receivers))
        if sender.connection is None:
            turn.do(Reply(200, {"id": envelope.id, "status": "accepted", "timestamp": timestamp(turn.now)}))

    def _refuse(
        self,
        turn: Turn,
        sender: Sender,
        refusal: Refusal,
        text: str,
        envelope: Envelope | None,
        members: Mapping[str, Any],
    ) -> None:
        turn.record(
            "received",
            participant=sender.member.name,
            connection=sender.connection.name if sender.connection else "",
            via=sender.via,
            verdict="refused",
            code=refusal.code,
            detail=refusal.pattern or refusal.message,
            raw=text,
        )
        payload: dict[str, Any] = {"error": refusal.error}
        if refusal.code != refusal.error:
            payload["code"] = refusal.code
        payload.update(refusal.fields)
        payload["message"] = refusal.message
        named = envelope.id if envelope else members.get("id", "")
        self._complain(turn, sender, payload, (named,) if isinstance(named, str) and named else ())
        if sender.connection is None:
            body: dict[str, Any] = {
                key: payload[key] for key in ("error", "code", "message") if key in payload
            }
            turn.do(Reply(STATUSES.get(refusal.code, 400), body))

    def _complain(
        self, turn: Turn, sender: Sender, payload: dict[str, Any], correlation: tuple[str, ...] = ()
    ) -> None:
        """system/error to the connection that sent it; for HTTP, to all connections of the poster."""
        to = (sender.connection,) if sender.connection else tuple(sender.member.connections)
        if not to:
            return  # nobody to tell but the caller of the HTTP request, who gets the reply
        turn.say(
            "system/error",
            payload,
            connections=[one.name for one in to],
            to=tuple(one.runtime_id for one in to),
            correlation=correlation,
            private=True,
        )

    # --- what is no text message ---

    def _frame(self, turn: Turn, event: FrameReceived) -> None:
        if event.data.startswith(b"#"):
            stream_id = event.data[1:257].split(b"#", 1)[0].decode("ascii", "replace")
            message = f"You are not authorized to write to stream {stream_id}"
            payload: dict[str, Any] = {"error": "unauthorized_stream_write", "stream_id": stream_id}
        else:
            stream_id = ""
            message = "a binary message must begin with #streamId#"
            payload = {"error": "invalid_request", "code": "invalid_frame"}
        about = {"stream_id": stream_id, "size": len(event.data)}
        self._refuse_unread(turn, "frame", event.connection, about, {**payload, "message": message})

    def _oversize(self, turn: Turn, event: Oversize) -> None:
        message = f"the message has {event.size} bytes; this gateway takes at most {self.limit}"
        payload = {"error": "invalid_request", "code": "message_too_large", "message": message}
        about = {"size": event.size, "sha256": event.sha256}
        self._refuse_unread(turn, "oversize", event.connection, about, payload)

    def _limited(self, turn: Turn, event: Limited) -> None:
        message = (
            f"{event.messages} messages were refused, because too many came in too short a time; send slower"
        )
        payload = {"error": "limit_exceeded", "messages": event.messages, "message": message}
        self._refuse_unread(turn, "limited", event.connection, {"messages": event.messages}, payload)

    def _refuse_unread(
        self, turn: Turn, what: str, connection: str, about: dict[str, Any], payload: dict[str, Any]
    ) -> None:
        """Refuses what was never read as an envelope, and so cannot be quoted."""
        sender = self._sender(Received("", connection))
        if sender is None:
            return
        turn.record(
            what,
            participant=sender.member.name,
            connection=connection,
            via=sender.via,
            verdict="refused",
            code=payload.get("code", payload["error"]),
            detail=compact(about),
        )
        self._complain(turn, sender, payload)
