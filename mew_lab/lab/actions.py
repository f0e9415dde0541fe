"""The actions by which the human of a lab controls other participants: pause, clear, shut down, remove and so on.

Each action is one message. `find_obstacle` gives the reason beforehand why it may not be sent. `perform` returns one
sentence about the outcome, as far as the other participant reports it. `pause_all` and `resume_all` act on all agents.
A gateway of ours carries out a pause and a removal itself (R14, R15); of another one only the acceptance is known.

Spec: §3.6.7, §3.9, rulings R14, R15.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.call_check import listed
from mew_lab.lab.session import Session
from mew_lab.lab.standing import ParticipantStanding, classify, standings
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line

__all__ = ["ACTIONS", "Action", "Agents", "ParticipantActions"]

MOST_REASON = 300
MOST_NUMBER = 10**12


class Action(NamedTuple):
    """One action: the kind of its message, its effect as a sentence, and whether the effect cannot be undone."""

    kind: str
    about: str
    verb: str
    grave: bool = False
    absent: bool = False  # whether it also makes sense for a participant that is not connected


ACTIONS: Mapping[str, Action] = {
    "status": Action(
        "participant/request-status", "asks for its status, such as the used context", "ask for the status of"
    ),
    "pause": Action("participant/pause", "it sends nothing new until it is resumed", "pause", absent=True),
    "resume": Action("participant/resume", "ends its pause", "resume", absent=True),
    "forget": Action(
        "participant/forget", "it drops messages from one end of its context", "shorten the context of"
    ),
    "compact": Action(
        "participant/compact", "it summarizes its context to free room", "compact the context of"
    ),
    "clear": Action("participant/clear", "it erases its whole context", "clear the context of", grave=True),
    "restart": Action("participant/restart", "it returns to its initial state", "restart", grave=True),
    "shutdown": Action(
        "participant/shutdown", "it ends all activity and leaves", "shut down", grave=True, absent=True
    ),
    "kick": Action(
        "space/kick", "it leaves at once, and its tokens become invalid", "remove", grave=True, absent=True
    ),
}


class Agents(NamedTuple):
    """The connected agents that run, and those that this human has paused, by name."""

    running: tuple[str, ...]
    paused: tuple[str, ...]


class ParticipantActions:
    """The actions available to the human of one lab. Call `perform` and `find_obstacle` on the loop's thread."""

    def __init__(
        self, session: Session, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._session = session
        self._clock = clock
        self._judged: tuple[Any, dict[tuple[str, str], str]] = (None, {})

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
        return f"You don't have permission to {ACTIONS[action].verb} {one_line(name, 64)} ({kind})."

    def may_remove(self) -> bool:
        """Whether the human may remove participants at all; an exception of one participant aside."""
        client = self._session.me.participant.client
        return client.capabilities.permit("space/kick", (), {"participant_id": "somebody"}).allowed

    async def perform(self, action: str, target: str, options: Mapping[str, Any]) -> str:
        """Takes the action on `target`; returns one sentence about the outcome.

        Args:
            options: `reason` (text), `timeout_seconds`, `direction` (`oldest` or `newest`), `entries`, `target_tokens`:
                an action ignores those that it does not take; None or absent means the default.

        Raises:
            MewError: There is no such action, a value is not valid, or the message was refused or not answered.

        Spec: §3.6.7, §3.9.
        """
        if action not in ACTIONS or not target:
            raise MewError(f"There is no action {one_line(action, 40)!r} for {one_line(target, 64)!r}")
        # The method of each action below has its name.
        perform: Callable[[str, Mapping[str, Any]], Awaitable[str]] = getattr(self, f"_{action}")
        return await perform(target, options)

    def agents(self, participants: Sequence[ParticipantStanding] | None = None) -> Agents:
        """The connected agents: those that run, and those that the human has paused; of `participants`, or of all."""
        running: list[str] = []
        paused: list[str] = []
        me = self._session.me
        for standing in standings(self._session) if participants is None else participants:
            if not standing.ids or standing.shut_down or classify(self._session, standing) != "agent":
                continue
            pause = self._find_pause(standing)
            if not pause:
                running.append(standing.name)
            elif pause in (me.name, me.participant.client.id):
                paused.append(standing.name)
        return Agents(tuple(running), tuple(paused))

    def _find_pause(self, standing: ParticipantStanding) -> str:
        """The participant that has paused this one; empty without a pause. Elsewhere, the messages tell it."""
        now = self._clock().timestamp()
        if standing.certain:
            return standing.paused_by if standing.until is None or standing.until > now else ""
        member = self._session.me.participant.client.members.get(standing.name)
        pause = member.pause if member is not None else None
        return pause.by if pause is not None and pause.holds(now) else ""

    async def pause_all(self, *, reason: str | None = None) -> str:
        """Pauses each agent that runs, until it is resumed; tools and people go on. Returns one sentence.

        Raises:
            MewError: A pause was refused; the sentence says which agents are paused by then.

        Spec: §3.9.1.
        """
        running = self.agents().running
        if not running:
            return "No agent is running, so nothing was paused"
        await self._each("pause", running, reason)
        return f"{count_of(len(running), 'agent')} {'paused' if self._enforced else 'asked to pause'}: {listed(running)}"

    async def resume_all(self, *, reason: str | None = None) -> str:
        """Resumes each agent that this human has paused; pauses by others stay. Returns one sentence.

        Raises:
            MewError: A resume was refused; the sentence says which agents are resumed by then.

        Spec: §3.9.2.
        """
        paused = self.agents().paused
        if not paused:
            return "No agent is paused by you, so nothing was resumed"
        await self._each("resume", paused, reason)
        return f"{count_of(len(paused), 'agent')} {'resumed' if self._enforced else 'asked to go on'}: {listed(paused)}"

    async def _each(self, action: str, names: Sequence[str], reason: str | None) -> None:
        """One message for each participant, so that the refusal of one does not spare the others."""
        send = self._controls.pause if action == "pause" else self._controls.resume
        words = _reason({"reason": reason})
        outcomes = await asyncio.gather(*(send(name, reason=words) for name in names), return_exceptions=True)
        refused = [
            (name, fault)
            for name, fault in zip(names, outcomes, strict=True)
            if isinstance(fault, BaseException)
        ]
        if not refused:
            return
        for _, fault in refused:
            if not isinstance(fault, MewError):
                raise fault
        done = len(names) - len(refused)
        failed = "; ".join(
            f"{one_line(name, 64)}: {one_line(str(fault), 200)}" for name, fault in refused[:5]
        )
        raise MewError(
            f"Cannot {action} {len(refused)} of {count_of(len(names), 'agent')} ({done} done). {failed}"
        )

    async def _status(self, target: str, options: Mapping[str, Any]) -> str:
        status = await self._session.me.participant.telemetry.request_participant_status(target)
        word = f", {one_line(str(status.status), 60)}" if status.status else ""
        tokens = f", {count_of(status.tokens, 'token')}" if status.tokens is not None else ""
        return f"{target}: {count_of(status.messages_in_context, 'message')} in context{tokens}{word}"

    async def _pause(self, target: str, options: Mapping[str, Any]) -> str:
        seconds = _number(options, "timeout_seconds", least=0.001)
        await self._controls.pause(target, timeout_seconds=seconds, reason=_reason(options))
        done = "is paused" if self._enforced else "was asked to pause"
        if seconds is None:
            return f"{target} {done} until it is resumed"
        until = self._clock() + timedelta(seconds=seconds)
        return f"{target} {done} until {local_time(until.timestamp())}"

    async def _resume(self, target: str, options: Mapping[str, Any]) -> str:
        await self._controls.resume(target, reason=_reason(options))
        return f"{target} {'may send again' if self._enforced else 'was asked to go on'}"

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
        messages = count_of(done.freed_messages, "message")
        return f"{target} has freed {count_of(done.freed_tokens, 'token')} and {messages}"

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
        if self._enforced:
            return f"{target} was removed, and its tokens are invalid"
        return f"The gateway accepted the removal of {target}"

    @property
    def _enforced(self) -> bool:
        """Whether the gateway is one of ours, which carries out what it accepts."""
        return bool(self._session.me.participant.client.extension)

    @property
    def _controls(self) -> Any:
        return self._session.me.participant.controls


def _reason(options: Mapping[str, Any]) -> str | None:
    reason = options.get("reason")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MOST_REASON):
        raise MewError(f"A reason must be a text of at most {MOST_REASON} characters")
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
