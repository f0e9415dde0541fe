"""Pause, resume, shutdown and their ends: the participants that are held back, and the kinds that they may still send.

Capabilities decide about the right to control a participant, before these rules. A deadline takes effect with the next
message: no event marks its passing.

Spec: §3.9.1, §3.9.2, §3.9.9, §3.9.10.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import AFTER_SHUTDOWN, WHILE_PAUSED
from mew_lab.protocol.text import timestamp
from mew_lab.space.outcome import Outcome, named
from mew_lab.space.refusal import Refusal
from mew_lab.space.state import Member, PauseState, Sender
from mew_lab.space.turn import Turn

__all__ = ["held_back", "pause", "restart", "resume", "shutdown"]


def held_back(member: Member, kind: str, now: datetime) -> Refusal | None:
    """The reason why a member may not send this kind now, with any capabilities; None when it may.

    A stream frame asks with the kind ``.
    """
    if member.shut_down and kind not in AFTER_SHUTDOWN:
        return Refusal(
            "shut_down",
            f"{member.name} was shut down and may send only {', '.join(sorted(AFTER_SHUTDOWN))} until it joins again",
        )
    pause = member.pause
    if pause is None or kind in WHILE_PAUSED or (pause.until is not None and now >= pause.until):
        return None
    until = timestamp(pause.until) if pause.until else ""
    fields: dict[str, Any] = {"paused_until": until} if until else {}
    return Refusal(
        "paused",
        f"{member.name} was paused by {pause.by}, " + (f"until {until}" if until else "until it is resumed"),
        **fields,
    )


def pause(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Pauses the addressees until they are resumed or the time is over; a later pause replaces an earlier one.

    Spec: §3.9.1.
    """
    members = _addressed(turn, envelope)
    seconds = envelope.payload.get("timeout_seconds")
    until: datetime | None = None
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise Refusal("invalid_request", f"{envelope.kind}: timeout_seconds must be a number above 0")
        try:
            until = turn.now + timedelta(seconds=seconds)
        except OverflowError:  # beyond the calendar
            until = datetime.max.replace(tzinfo=UTC)
    new = PauseState(until, sender.runtime_id)

    def hold() -> None:
        for member in members:
            turn.then(lambda member=member: setattr(member, "pause", new))  # type: ignore[misc]

    return Outcome(hold)


def resume(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Resumes the addressees. A paused participant cannot end its own pause.

    Spec: §3.9.2.
    """
    members = [member for member in _addressed(turn, envelope) if member is not sender.member]

    def let_go() -> None:
        for member in members:
            turn.then(lambda member=member: setattr(member, "pause", None))  # type: ignore[misc]
        _revive(turn, members)

    return Outcome(let_go)


def restart(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Relays the message unchanged; also ends the shutdown of participants without a connection. Grants stay.

    Spec: §3.9.9, §3.9.10.
    """
    participants = [turn.state.participant(name) for name in envelope.to]
    members = [member for member in participants if member is not None and member is not sender.member]
    return Outcome(lambda: _revive(turn, members))


def shutdown(turn: Turn, sender: Sender, envelope: Envelope) -> Outcome:
    """Shuts the addressees down: they may send almost nothing until they join again.

    Spec: §3.9.10.
    """
    members = _addressed(turn, envelope)

    def stop() -> None:
        for member in members:
            turn.then(lambda member=member: setattr(member, "shut_down", True))  # type: ignore[misc]

    return Outcome(stop)


def _revive(turn: Turn, members: list[Member]) -> None:
    """Ends a shutdown where no admission can: for participants that only post by HTTP."""
    for member in members:
        if not member.connections:
            turn.then(lambda member=member: setattr(member, "shut_down", False))  # type: ignore[misc]


def _addressed(turn: Turn, envelope: Envelope) -> list[Member]:
    if not envelope.to:
        raise Refusal(
            "invalid_request", f"{envelope.kind} must say in `to` whom it means; it is never for all"
        )
    return list(
        {member.name: member for member in (named(turn.state, name) for name in envelope.to)}.values()
    )
