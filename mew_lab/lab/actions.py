"""What may the human of a lab have another participant do, and what came of it?  One verb a deed.

Each deed is a message; whether it may be sent is known beforehand, so that a view can say why not. What the others
then do about it is theirs to tell.

Spec: §3.6.7, §3.9, ruling R14.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.session import Session
from mew_lab.lab.standing import Standing
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.visible import one_line

__all__ = ["DEEDS", "Deed", "Steering"]

MOST_REASON = 300
MOST_NUMBER = 10**12


class Deed(NamedTuple):
    """One row: the kind of its message, what it does, and whether it takes something away for good."""

    kind: str
    about: str
    grave: bool = False
    absent: bool = False  # whether it also makes sense for who is not here


DEEDS: Mapping[str, Deed] = {
    "status": Deed("participant/request-status", "asks how it is"),
    "pause": Deed("participant/pause", "it sends nothing new until it is resumed", absent=True),
    "resume": Deed("participant/resume", "ends its pause", absent=True),
    "forget": Deed("participant/forget", "it drops context from one end"),
    "compact": Deed("participant/compact", "it summarises its context"),
    "clear": Deed("participant/clear", "it erases its whole context", grave=True),
    "restart": Deed("participant/restart", "it goes back to its baseline", grave=True),
    "shutdown": Deed("participant/shutdown", "it ends all activity and leaves", grave=True, absent=True),
    "kick": Deed("space/kick", "it is put out, and its tokens are void", grave=True, absent=True),
}


class Steering:
    """The deeds of one lab's human; `do` and `against` are called on the loop's thread."""

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

    def against(self, deed: str, target: Standing) -> str:
        """Why the human may not, or need not, do this to `target`; empty when nothing speaks against it."""
        row, me = DEEDS[deed], self._session.me.participant
        if self._session.closed or me.client.state != "ready":
            return "You are not connected to the space."
        if me.client.id in (target.name, *target.ids) or target.name == self._session.me.name:
            return "This is you; the controls are for others."
        if deed == "kick" and target.owner:
            return f"{target.name} owns this space, so it cannot be removed."
        if deed == "resume" and not target.paused_by and target.certain:
            return "It is not paused."
        if not target.ids and not row.absent:
            return "It is not here, so nobody would answer."
        held = me.client.capabilities
        if self._judged[0] is not held:  # a welcome has changed what one may do
            self._judged = held, {}
        known = self._judged[1]
        if (deed, target.name) not in known:
            known[deed, target.name] = self._barred(deed, target.name, held)
        return known[deed, target.name]

    def _barred(self, deed: str, name: str, held: CapabilitySet) -> str:
        kind = DEEDS[deed].kind
        payload = {"participant_id": name} if deed == "kick" else {}
        to = () if deed == "kick" else (name,)
        if held.permit(kind, to, payload).allowed:
            return ""
        me = self._session.me.name
        help = f": lab.enrol({me!r}, can=…) changes that" if self._session.host else ""
        return f"You ({me}) do not hold {kind} for {one_line(name, 64)}{help}."

    async def do(self, deed: str, target: str, given: Mapping[str, Any]) -> str:
        """Does it; one sentence about what came of it.

        Args:
            given: `reason` (text), `timeout_seconds`, `direction` (`oldest` or `newest`), `entries`, `target_tokens`:
                what the deed knows of them, None or absent for its default.

        Raises:
            MewError: the deed or a value is none; or as the message was refused or not answered.

        Spec: §3.6.7, §3.9.
        """
        verb = self._verbs.get(deed)
        if verb is None or not target:
            raise MewError(f"there is no deed {one_line(deed, 40)!r} for {one_line(target, 64)!r}")
        return await verb(target, given)

    async def _status(self, target: str, given: Mapping[str, Any]) -> str:
        told = await self._session.me.participant.telemetry.request_participant_status(target)
        word = f", {one_line(str(told.status), 60)}" if told.status else ""
        tokens = f", {told.tokens} tokens" if told.tokens is not None else ""
        return f"{target}: {told.messages_in_context} messages in context{tokens}{word}"

    async def _pause(self, target: str, given: Mapping[str, Any]) -> str:
        seconds = _number(given, "timeout_seconds", least=0.001)
        await self._controls.pause(target, timeout_seconds=seconds, reason=_reason(given))
        if seconds is None:
            return f"{target} is paused until somebody resumes it"
        until = self._clock() + timedelta(seconds=seconds)
        return f"{target} is paused until {until:%H:%M:%S} UTC"

    async def _resume(self, target: str, given: Mapping[str, Any]) -> str:
        await self._controls.resume(target, reason=_reason(given))
        return f"{target} may send again"

    async def _forget(self, target: str, given: Mapping[str, Any]) -> str:
        direction = str(given.get("direction") or "oldest")
        entries = _whole(given, "entries", least=1)
        await self._controls.forget(target, direction=direction, entries=entries)
        return f"{target} was asked to forget the {direction} {entries if entries is not None else 'part'}"

    async def _compact(self, target: str, given: Mapping[str, Any]) -> str:
        wanted = _whole(given, "target_tokens", least=1)
        done = await self._controls.compact(target, reason=_reason(given), target_tokens=wanted)
        if done.skipped:
            return f"{target} had nothing to compact{f': {done.reason}' if done.reason else ''}"
        return (
            f"{target} has compacted: {done.freed_tokens} tokens and {done.freed_messages} messages are free"
        )

    async def _clear(self, target: str, given: Mapping[str, Any]) -> str:
        await self._controls.clear(target, reason=_reason(given))
        return f"{target} was asked to erase its context"

    async def _restart(self, target: str, given: Mapping[str, Any]) -> str:
        await self._controls.restart(target, _because(given))
        return f"{target} was asked to restart"

    async def _shutdown(self, target: str, given: Mapping[str, Any]) -> str:
        await self._controls.shutdown(target, _because(given))
        return f"{target} was told to shut down"

    async def _kick(self, target: str, given: Mapping[str, Any]) -> str:
        payload = {"participant_id": target, **_because(given)}
        await self._session.me.participant.saying.say_accepted("space/kick", payload)
        return f"{target} was removed, and its tokens are void"

    @property
    def _controls(self) -> Any:
        return self._session.me.participant.controls


def _reason(given: Mapping[str, Any]) -> str | None:
    reason = given.get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MOST_REASON):
        raise MewError(f"a reason is a text of at most {MOST_REASON} characters")
    return reason or None


def _because(given: Mapping[str, Any]) -> dict[str, Any]:
    reason = _reason(given)
    return {} if reason is None else {"reason": reason}


def _number(given: Mapping[str, Any], name: str, *, least: float) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= MOST_NUMBER:
        raise MewError(f"{name.replace('_', ' ')} is a number above 0; {one_line(str(value), 40)!r} is none")
    return float(value)


def _whole(given: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = _number(given, name, least=least)
    if value is not None and value != int(value):
        raise MewError(f"{name.replace('_', ' ')} is a whole number; {value} is none")
    return None if value is None else int(value)
