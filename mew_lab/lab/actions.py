"""The actions by which the human of a lab controls other participants: pause, clear, shut down, remove and so on.

Each action is one message. `find_obstacle` gives the reason beforehand why it may not be sent. `perform` returns one
sentence about the outcome, as far as the other participant reports it.

Spec: §3.6.7, §3.9, ruling R14.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.session import Session
from mew_lab.lab.standing import ParticipantStanding
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.visible import one_line

__all__ = ["ACTIONS", "Action", "ParticipantActions"]

MOST_REASON = 300
MOST_NUMBER = 10**12


class Action(NamedTuple):
    """One action: the kind of its message, its effect as a sentence, and whether the effect cannot be undone."""

    kind: str
    about: str
    grave: bool = False
    absent: bool = False  # whether it also makes sense for a participant that is not connected


ACTIONS: Mapping[str, Action] = {
    "status": Action("participant/request-status", "requests its status"),
    "pause": Action("participant/pause", "it sends nothing new until it is resumed", absent=True),
    "resume": Action("participant/resume", "ends its pause", absent=True),
    "forget": Action("participant/forget", "it drops context from one end"),
    "compact": Action("participant/compact", "it summarises its context"),
    "clear": Action("participant/clear", "it erases its whole context", grave=True),
    "restart": Action("participant/restart", "it returns to its baseline state", grave=True),
    "shutdown": Action("participant/shutdown", "it ends all activity and leaves", grave=True, absent=True),
    "kick": Action("space/kick", "it is removed, and its tokens become invalid", grave=True, absent=True),
}


class ParticipantActions:
    """The actions available to the human of one lab. Call `perform` and `find_obstacle` on the loop's thread."""

    def __init__(
        self, session: Session, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._session = session
        self._clock = clock
        self._judged: tuple[Any, dict[tuple[str, str], str]] = (None, {})
        self._verbs: Mapping[str, Callable[[str, Mapping[str, Any]], Awaitable[str]]] = {
            "status": self._status,
            "pause": self._pause,
            "resume": self._resume,
            "forget": self._forget,
            "compact": self._compact,
            "clear": self._clear,
            "restart": self._restart,
            "shutdown": self._shutdown,
            "kick": self._kick,
        }

    def find_obstacle(self, action: str, target: ParticipantStanding) -> str:
        """The reason why the human may not or need not take this action on `target`; empty when there is none."""
        row, me = ACTIONS[action], self._session.me.participant
        if self._session.closed or me.client.state != "ready":
            return "You are not connected to the space."
        if me.client.id in (target.name, *target.ids) or target.name == self._session.me.name:
            return "This is you; these actions are for other participants."
        if action == "kick" and target.owner:
            return f"{target.name} owns this space, so it cannot be removed."
        if action == "resume" and not target.paused_by and target.certain:
            return "It is not paused."
        if not target.ids and not row.absent:
            return "It is not connected, so it would not answer."
        held = me.client.capabilities
        if self._judged[0] is not held:  # a welcome has changed the rights
            self._judged = held, {}
        known = self._judged[1]
        if (action, target.name) not in known:
            known[action, target.name] = self._why_barred(action, target.name, held)
        return known[action, target.name]

    def _why_barred(self, action: str, name: str, held: CapabilitySet) -> str:
        kind = ACTIONS[action].kind
        payload = {"participant_id": name} if action == "kick" else {}
        to = () if action == "kick" else (name,)
        if held.permit(kind, to, payload).allowed:
            return ""
        me = self._session.me.name
        help = f": lab.enrol({me!r}, can=…) changes that" if self._session.host else ""
        return f"You ({me}) do not hold {kind} for {one_line(name, 64)}{help}."

    async def perform(self, action: str, target: str, options: Mapping[str, Any]) -> str:
        """Takes the action on `target`; returns one sentence about the outcome.

        Args:
            options: `reason` (text), `timeout_seconds`, `direction` (`oldest` or `newest`), `entries`, `target_tokens`:
                an action ignores those that it does not take; None or absent means the default.

        Raises:
            MewError: There is no such action, a value is not valid, or the message was refused or not answered.

        Spec: §3.6.7, §3.9.
        """
        verb = self._verbs.get(action)
        if verb is None or not target:
            raise MewError(f"there is no action {one_line(action, 40)!r} for {one_line(target, 64)!r}")
        return await verb(target, options)

    async def _status(self, target: str, options: Mapping[str, Any]) -> str:
        status = await self._session.me.participant.telemetry.request_participant_status(target)
        word = f", {one_line(str(status.status), 60)}" if status.status else ""
        tokens = f", {status.tokens} tokens" if status.tokens is not None else ""
        return f"{target}: {status.messages_in_context} messages in context{tokens}{word}"

    async def _pause(self, target: str, options: Mapping[str, Any]) -> str:
        seconds = _number(options, "timeout_seconds", least=0.001)
        await self._controls.pause(target, timeout_seconds=seconds, reason=_reason(options))
        if seconds is None:
            return f"{target} is paused until it is resumed"
        until = self._clock() + timedelta(seconds=seconds)
        return f"{target} is paused until {until:%H:%M:%S} UTC"

    async def _resume(self, target: str, options: Mapping[str, Any]) -> str:
        await self._controls.resume(target, reason=_reason(options))
        return f"{target} may send again"

    async def _forget(self, target: str, options: Mapping[str, Any]) -> str:
        direction = str(options.get("direction") or "oldest")
        entries = _whole(options, "entries", least=1)
        await self._controls.forget(target, direction=direction, entries=entries)
        return f"{target} was asked to forget the {direction} {entries if entries is not None else 'part'}"

    async def _compact(self, target: str, options: Mapping[str, Any]) -> str:
        wanted = _whole(options, "target_tokens", least=1)
        done = await self._controls.compact(target, reason=_reason(options), target_tokens=wanted)
        if done.skipped:
            return f"{target} had nothing to compact{f': {done.reason}' if done.reason else ''}"
        return (
            f"{target} has compacted: {done.freed_tokens} tokens and {done.freed_messages} messages are free"
        )

    async def _clear(self, target: str, options: Mapping[str, Any]) -> str:
        await self._controls.clear(target, reason=_reason(options))
        return f"{target} was asked to erase its context"

    async def _restart(self, target: str, options: Mapping[str, Any]) -> str:
        await self._controls.restart(target, _because(options))
        return f"{target} was asked to restart"

    async def _shutdown(self, target: str, options: Mapping[str, Any]) -> str:
        await self._controls.shutdown(target, _because(options))
        return f"{target} was asked to shut down"

    async def _kick(self, target: str, options: Mapping[str, Any]) -> str:
        payload = {"participant_id": target, **_because(options)}
        await self._session.me.participant.sender.say_accepted("space/kick", payload)
        return f"{target} was removed, and its tokens are invalid"

    @property
    def _controls(self) -> Any:
        return self._session.me.participant.controls


def _reason(options: Mapping[str, Any]) -> str | None:
    reason = options.get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MOST_REASON):
        raise MewError(f"a reason must be a text of at most {MOST_REASON} characters")
    return reason or None


def _because(options: Mapping[str, Any]) -> dict[str, Any]:
    reason = _reason(options)
    return {} if reason is None else {"reason": reason}


def _number(options: Mapping[str, Any], name: str, *, least: float) -> float | None:
    value = options.get(name)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= MOST_NUMBER:
        raise MewError(f"{name.replace('_', ' ')} must be a number above 0, not {one_line(str(value), 40)!r}")
    return float(value)


def _whole(options: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = _number(options, name, least=least)
    if value is not None and value != int(value):
        raise MewError(f"{name.replace('_', ' ')} must be a whole number, not {value}")
    return None if value is None else int(value)
