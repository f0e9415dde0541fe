"""Decides the effects of each event of a space: `Space.plan` returns them, and `commit` changes the state.

Two rules for changes:
1. No clock, no randomness, no I/O: all input of a rule comes with the event or with `now`.
2. A peer's fault is an effect, never an exception.

How it works. `plan` makes a `Turn` and passes it to the code for the type of the event. That code reads the state and
the planned state of the turn, and adds effects and changes to the turn. Nothing changes before `Turn.commit`, so a rule
that raises leaves no partial state. A gateway writes the `Record` effects into its journal, commits, and carries out
the other effects. The same events at the same times give the same effects: a replay of a journal relies on that.

A text message passes these checks in order, and the first that fails refuses it (`_receive`):

```
_pay_reading         limit_exceeded: so many values that reading alone costs the budget of the turn
read_strict          JSON that two readers could understand differently; a message that is too long
check_shape          another version of the protocol; a member of a wrong type
_check_identity      identity_mismatch, reserved_id, reserved_kind
held_back            paused, shut_down
complete             no check: missing members are inserted into the text, names in `to` become runtime ids
_check_capability    capability_violation; limit_exceeded, when it costs too much to judge; R36 and R43 need none
_check_handle        duplicate_id
RULES[kind]          the kinds on which the gateway acts; a rule raises a `Refusal` or returns an `Outcome`
```

A refused message causes a record and a `system/error`, and over HTTP a reply. An accepted message causes its record and
its delivery, the effects of its `Outcome`, and one use of a limited right.
The text that was checked is the text that is sent.

An `edition` numbers the rules that a space obeys. A journal is replayed by the edition in which it was written, and
the note `resumed` advances a space that goes on from it.

Spec: §3, §4, §5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import (
    MAX_MESSAGE,
    Draft,
    Envelope,
    check_shape,
    compact,
    complete,
    find_id,
    read_strict,
    values_in,
)
from mew_lab.protocol.kept import EDITION_OF_KEPT, reads_result
from mew_lab.protocol.kinds import HANDLES, is_reserved
from mew_lab.protocol.node import Budget, OverBudget
from mew_lab.protocol.own import MAX_IDS, MAX_REASON, OWN, is_modest
from mew_lab.protocol.permit import Verdict
from mew_lab.protocol.text import timestamp
from mew_lab.space import controls, grants, invites, streams
from mew_lab.space.ends import by_end, soonest, standing
from mew_lab.space.events import (
    JOURNAL_HEAD,
    OWN_MESSAGE,
    RESUMED,
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    HttpReply,
    Joined,
    Left,
    Limited,
    Noted,
    Oversize,
    Received,
    RefusedBefore,
    Reported,
    WelcomesDue,
)
from mew_lab.space.membership import join, leave, tell_due
from mew_lab.space.names import naming_participants
from mew_lab.space.outcome import Rule
from mew_lab.space.refusal import Refusal, refuse, refuse_again, refuse_unread
from mew_lab.space.reports import report
from mew_lab.space.rights import Held, Rights
from mew_lab.space.state import EDITION, LIMITS, Handle, Sender, SpaceLimits, State
from mew_lab.space.turn import Turn

__all__ = ["BASELINE", "RULES", "Space", "resumption_note"]

BASELINE: tuple[dict[str, Any], ...] = ({"kind": "mcp/response"},)
LASTING = frozenset({"capability/grant", "space/invite"})  # kinds whose ids name a grant


# What the gateway does with the kinds on which it acts itself; exactly those of the table of kinds.
RULES: Mapping[str, Rule] = {
    "capability/grant": grants.grant,
    "capability/revoke": grants.revoke,
    "space/invite": invites.invite,
    "space/kick": invites.kick,
    "participant/pause": controls.pause,
    "participant/resume": controls.resume,
    "participant/restart": controls.restart,
    "participant/shutdown": controls.shutdown,
    "stream/request": streams.request,
    "stream/open": streams.open_,
    "stream/close": streams.close,
    "stream/grant-write": streams.grant_write,
    "stream/revoke-write": streams.revoke_write,
    "stream/transfer-ownership": streams.transfer_ownership,
}


def resumption_note(owner: str) -> Noted:
    """The note that a space resumes from its journal, by the rules of this version."""
    return Noted(RESUMED, owner, compact({"edition": EDITION}))


def _read_leniently(text: str, limit: int, edition: int) -> dict[str, Any]:
    try:
        return read_strict(text, limit=limit, any_integer=edition < 2, numbers=edition < 2)
    except ProtocolError:
        return {}


class Space:
    """Holds one space: its members, their rights, and the one order of its messages.

    `plan` gives the turn of an event, and `Turn.commit` makes its changes; `step` does both. Time enters only as
    `now`, which never runs backwards.

    Args:
        epoch: A 64-bit number that makes the ids of this run unique.
        owner: The participant that cannot be revoked or kicked.
        limit: Bytes of the longest message.
        edition: The number of the rules that the space obeys.
    """

    def __init__(
        self,
        name: str,
        *,
        epoch: int,
        owner: str = "",
        participants: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
        baseline: Iterable[Mapping[str, Any]] = BASELINE,
        limit: int = MAX_MESSAGE,
        limits: SpaceLimits = LIMITS,
        edition: int = EDITION,
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.state = State(baseline, owner=owner, limit=limit, limits=limits, edition=edition)
        self._own_ids = f"gw-{epoch:016x}-"
        for participant, capabilities in (participants or {}).items():
            turn = Turn(self.state, space=name, epoch=epoch, now=datetime.min)
            grants.enrol(turn, Enrolled(participant, tuple(capabilities)))
            turn.commit()
        self.state.records = 0

    @property
    def limit(self) -> int:
        """Bytes of the longest message."""
        return self.state.message_bytes

    def step(self, event: Event, now: datetime) -> tuple[Effect, ...]:
        """Plans `event`, makes every change and returns the effects to carry out, in order.

        Raises:
            ValueError: for an `Enrolled` that names an impossible participant; the host's fault, not a peer's.
        """
        turn = self.plan(event, now)
        turn.commit()
        return turn.effects

    def plan(self, event: Event, now: datetime) -> Turn:
        """Returns the turn of `event`: its effects and its changes, with nothing changed until `commit()`."""
        turn = Turn(self.state, space=self.name, epoch=self.epoch, now=now)
        match event:
            case Received():
                self._receive(turn, event)
            case Enrolled():
                grants.enrol(turn, event)
            case Joined():
                join(turn, event)
            case Left():
                leave(turn, event)
            case FrameReceived():
                self._receive_frame(turn, event)
            case Oversize():
                self._receive_oversize(turn, event)
            case Limited():
                self._limit_rate(turn, event)
            case GrantEnded():
                grants.end_due(turn)
            case WelcomesDue():
                tell_due(turn)
            case Reported():
                report(turn, event)
            case RefusedBefore():
                self._repeat_refusal(turn, event)
            case _:
                turn.record(event.event, participant=event.participant, detail=event.detail)
                if event.event == RESUMED and _edition(event.detail) > self.state.edition:
                    turn.then(lambda: self.state.advance(_edition(event.detail)))
                if event.event == JOURNAL_HEAD:
                    turn.then(lambda: setattr(self.state, "journal_head", event.detail))
        return turn

    # --- text messages ---

    def _sender(self, event: Received | Oversize | FrameReceived | Limited) -> Sender | None:
        """The sender; None for a connection that has ended, and for a participant that was removed meanwhile."""
        if event.connection is None:
            member = self.state.members.get(event.participant)
            if member is None or member.kicked:
                return None
            return Sender(member, event.runtime_id or event.participant, None, event.via)
        connection = self.state.connections.get(event.connection)
        if connection is None:
            return None
        return Sender(
            self.state.members[connection.participant], connection.runtime_id, connection, connection.via
        )

    def _receive(self, turn: Turn, event: Received) -> None:
        sender = self._sender(event)
        if sender is None:  # its connection was closed while the message was on its way
            if event.connection is None:
                turn.do(HttpReply(403, {"error": "Invalid token for participant"}))
            return
        turn.by = sender.member.name
        text = event.text if isinstance(event.text, str) else event.text.decode("utf-8", "surrogateescape")
        envelope: Envelope | None = None
        members: dict[str, Any] = {}
        try:
            self._pay_reading(turn, sender, text)
            edition = self.state.edition
            members = read_strict(
                event.text, limit=self.state.message_bytes, any_integer=edition == 0, early_floats=edition < 2
            )
            check_shape(members, raw=text)
            draft = Draft(text, members)
            self._check_identity(sender, members)
            held_back = controls.held_back(sender.member, members["kind"], turn.now)
            if held_back:
                raise held_back
            envelope = complete(
                draft,
                id=turn.new_id() if "id" not in members else "",
                ts=timestamp(turn.now) if "ts" not in members else "",
                sender=sender.runtime_id,
                to=self._resolve_addressees(members),
            )
            right = self._check_capability(turn, sender, envelope)
            handle = self._check_handle(sender, envelope)
            rule = RULES.get(envelope.kind)
            outcome = rule(turn, sender, envelope) if rule else None
        except ProtocolError as fault:
            if fault.code == "message_too_large":  # only its size and digest are kept
                data = text.encode("utf-8", "surrogateescape")
                who = (event.participant, event.runtime_id, event.via)
                self._receive_oversize(
                    turn, Oversize(event.connection, len(data), sha256(data).hexdigest(), *who, find_id(text))
                )
                return
            if fault.code == "invalid_number":  # what it is called can be read all the same
                members = _read_leniently(text, self.state.message_bytes, self.state.edition)
            error = fault.code if fault.code == "unsupported_protocol" else "invalid_request"
            refuse(turn, sender, Refusal(error, str(fault), code=fault.code), text, envelope, members)
        except Refusal as refusal:
            refuse(turn, sender, refusal, text, envelope, members)
        else:
            if handle is not None:
                id, taken = envelope.id, handle
                turn.then(lambda: self.state.take_handle(id, taken))
            if envelope.kind == "chat":
                turn.then(partial(self.state.take_chat, envelope.id, sender.member.name))
            self._route(turn, sender, (outcome and outcome.relayed) or envelope, right, text)
            reply = outcome.then() if outcome else None
            if right is not None and right.limited:
                grants.spend(turn, right)
            if sender.connection is None:
                accepted = {"id": envelope.id, "status": "accepted", "timestamp": timestamp(turn.now)}
                turn.do(reply or HttpReply(200, accepted))

    def _check_identity(self, sender: Sender, members: Mapping[str, Any]) -> None:
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

    def _resolve_addressees(self, members: Mapping[str, Any]) -> tuple[str, ...] | None:
        to = members.get("to")
        if not to:
            return None
        resolved = tuple(self.state.address(name) for name in to)
        return resolved if resolved != tuple(to) else None

    def _pay_reading(self, turn: Turn, sender: Sender, text: str) -> None:
        """Refuses a message with so many values that reading alone costs the budget of the turn."""
        if turn.meter is None or len(text) > self.state.message_bytes:
            return
        values = values_in(text)
        try:
            turn.meter.spend(values)
        except OverBudget:
            raise Refusal(
                "limit_exceeded",
                f"the message of {sender.runtime_id} holds about {values} values, and one may hold "
                f"{self.state.limits.turn_steps}; send it in several messages, or large data as text or as a stream",
            ) from None

    def _judge(self, turn: Turn, sender: Sender, rights: Rights, envelope: Envelope) -> Verdict:
        """Judges whether the sender may send the message, charged to the turn and to the budget of one capability
        set."""
        to = tuple(map(self.state.logical, envelope.to))
        payload = naming_participants(self.state, envelope)
        held, order, meter = rights.capabilities, by_end(rights, self.state.ends), turn.meter
        if meter is None or not self.state.limits.steps:
            return held.permit_each(envelope.kind, to, payload, order=order)
        meter.left -= len(to)
        allowance = max(0, min(self.state.limits.steps, meter.left))
        own = Budget(allowance)
        verdict = held.permit(envelope.kind, to, payload, order=order, meter=own)
        meter.left -= allowance - max(own.left, 0)
        if verdict.exceeded:
            raise Refusal(
                "limit_exceeded",
                f"judging this {envelope.kind[:80]} by the capabilities of {sender.member.name!r} costs more than the "
                f"{self.state.limits.steps} steps that one message may; send a smaller message, or have capabilities "
                "revoked that search (`**`, `$..`, wildcards in the middle, regular expressions)",
            )
        return verdict

    def _check_capability(self, turn: Turn, sender: Sender, envelope: Envelope) -> Held | None:
        """Returns the capability that permits the message, with its origin; None where it needs none.

        It needs none to end messages of its own, and to ask for a kept result.

        Of several origins it is one without an end, else the one that ends first. No use is spent on what needs none.

        Spec: §4.2, rulings R25, R36, R43.
        """
        rights, ends = standing(self.state, sender.member.name, turn.now, meter=turn.meter), self.state.ends
        verdict = self._judge(turn, sender, rights, envelope)
        right = None
        if verdict.allowed:
            origins = rights.origins[verdict.index or 0]
            ordered = rights.limited
            right = min(origins, key=partial(soonest, ends)) if ordered else origins[0]
        if (right is None or right.limited) and (
            self._is_own(sender, envelope) or self._reads_result(envelope)
        ):
            return None
        if right is None:
            held = list(rights.capabilities.patterns)
            raise Refusal(
                "capability_violation",
                f"Participant {sender.runtime_id} lacks capability for {envelope.kind[:80]}{self._own_hint(envelope)}",
                pattern=verdict.nearest,
                attempted_kind=envelope.kind,
                your_capabilities=held,
                nearest=verdict.nearest,
            )
        return right

    def _own_hint(self, envelope: Envelope) -> str:
        if envelope.kind not in OWN or self.state.edition < 4:
            return ""
        return (
            f"; without it a participant may end only its own {OWN[envelope.kind]} messages, up to {MAX_IDS} at once, "
            f"with a reason of at most {MAX_REASON} characters"
        )

    def _is_own(self, sender: Sender, envelope: Envelope) -> bool:
        """Whether the message does no more than to end own messages, which everybody may. Spec: ruling R36."""
        ends = OWN.get(envelope.kind)
        if ends is None or self.state.edition < 4 or not is_modest(envelope.payload, envelope.correlation_id):
            return False
        name = sender.member.name
        return all(self.state.owns(name, id, ends) for id in envelope.correlation_id)

    def _reads_result(self, envelope: Envelope) -> bool:
        """Whether the message does no more than to ask for a kept result, which everybody may. Spec: ruling R43."""
        return self.state.edition >= EDITION_OF_KEPT and reads_result(
            envelope.kind, envelope.payload, envelope.to, envelope.correlation_id
        )

    def _check_handle(self, sender: Sender, envelope: Envelope) -> Handle | None:
        """Returns the handle that the message takes; None for a kind whose ids are not referred to.

        An accepted message takes its id once. A participant may reuse its own id after a new admission, but never the
        id of a grant or an invite.
        """
        if envelope.kind not in HANDLES:
            return None
        mine = Handle(
            sender.member.name,
            sender.member.admissions,
            lasting=envelope.kind in LASTING,
            proposal=envelope.kind == "mcp/proposal",
        )
        taken = self.state.handle(envelope.id)
        if taken is not None and (
            taken.lasting
            or mine.lasting
            or taken.participant != mine.participant
            or taken.admission == mine.admission
        ):
            raise Refusal(
                "duplicate_id",
                f"the id {envelope.id[:80]!r} already names an earlier message of {taken.participant!r}; "
                "send it again under a fresh id",
            )
        return mine

    def _route(self, turn: Turn, sender: Sender, envelope: Envelope, right: Held | None, text: str) -> None:
        turn.record(
            "received",
            **sender.recorded,
            verdict="accepted",
            pattern=right.capability.text if right else "",
            detail="" if right else OWN_MESSAGE,
            received=text if text != envelope.raw else None,
            raw=envelope.raw,
            grant=right.grant if right else "",
        )
        receivers = self.state.audience
        if receivers:
            turn.do(Deliver(envelope, receivers))

    # --- what is no text message ---

    def _receive_frame(self, turn: Turn, event: FrameReceived) -> None:
        sender = self._sender(event)
        if sender is None:
            return
        held_back = controls.held_back(sender.member, "", turn.now)
        if held_back:
            streams.refuse_frame(turn, sender, event, refusal=held_back)
        else:
            streams.frame(turn, sender, event)

    def _receive_oversize(self, turn: Turn, event: Oversize) -> None:
        sender = self._sender(event)
        if sender is None:
            if event.connection is None:
                turn.do(HttpReply(403, {"error": "Invalid token for participant"}))
            return
        message = f"the message has {event.size} bytes; this gateway takes at most {self.limit}"
        payload = {"error": "invalid_request", "code": "message_too_large", "message": message}
        about = {"size": event.size, "sha256": event.sha256, **({"id": event.id} if event.id else {})}
        refuse_unread(turn, sender, "oversize", about, payload, named=event.id)

    def _repeat_refusal(self, turn: Turn, event: RefusedBefore) -> None:
        record = event.record
        runtime_id = record.runtime_id or record.participant
        who = Received("", record.connection or None, record.participant, runtime_id, record.via)
        sender = self._sender(who)
        if sender is not None:
            refuse_again(turn, sender, record)

    def _limit_rate(self, turn: Turn, event: Limited) -> None:
        sender = self._sender(event)
        if sender is None:
            return
        message = (
            f"{event.messages} messages were refused, because too many came in too short a time; send slower"
        )
        payload = {"error": "limit_exceeded", "messages": event.messages, "message": message}
        refuse_unread(turn, sender, "limited", {"messages": event.messages}, payload)


def _edition(detail: str) -> int:
    """The edition that a note of a resumed space names; 0 where it names none, as in earlier versions."""
    try:
        edition = read_strict(detail).get("edition")
    except ProtocolError:
        return 0
    return edition if type(edition) is int else 0
