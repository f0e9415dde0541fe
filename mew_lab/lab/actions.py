"""The actions by which the human of a lab controls other participants: pause, clear, shut down, remove and so on.

Each action is one message. `find_obstacle` gives the reason beforehand why it may not be sent. `perform` returns one
sentence about the outcome, as far as it was seen: with `within` it waits so long for the report of the participant, or
until that has left. `pause_all` and `resume_all` act on all agents. A gateway of ours carries out a pause and a removal
itself (R14, R15); of another one only the acceptance is known. `cancel_sequence` ends reasoning.

Spec: §3.5.5, §3.6.7, §3.9, rulings R14, R15.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.call_check import listed
from mew_lab.lab.session import Session
from mew_lab.lab.standing import ParticipantStanding, classify, logical, standings
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import CapabilitySet
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["ACTIONS", "Action", "Agents", "ParticipantActions", "cancel_sequence", "may_cancel_sequence"]

MOST_REASON = 300
MOST_NUMBER = 10**12
MOST_REPORTS = 200  # statuses of others that are kept while a report is waited for


class Action(NamedTuple):
    """One action: the kind of its message, its effect as a sentence, and whether the effect cannot be undone.

    `report` is the status by which a participant tells that it has done it, and `done` what that means. `loses` is what
    nothing brings back, empty where nothing is lost.
    """

    kind: str
    about: str
    verb: str
    grave: bool = False
    absent: bool = False  # whether it also makes sense for a participant that is not connected
    report: str = ""
    done: str = ""
    loses: str = ""


ACTIONS: Mapping[str, Action] = {
    "status": Action(
        "participant/request-status", "asks for its status, such as the used context", "ask for the status of"
    ),
    "pause": Action(
        "participant/pause",
        "it sends nothing new until it is resumed",
        "pause",
        absent=True,
        report="paused",
        done="it is paused",
    ),
    "resume": Action(
        "participant/resume", "ends its pause", "resume", absent=True, report="active", done="it goes on"
    ),
    "cancel_reasoning": Action(
        "reasoning/cancel", "ends the reasoning that goes on", "cancel the reasoning of"
    ),
    "forget": Action(
        "participant/forget",
        "it drops messages from one end of its context",
        "shorten the context of",
        report="forgotten",
        done="it has forgotten them",
        loses="the messages that it drops",
    ),
    "compact": Action(
        "participant/compact", "it summarizes its context to free room", "compact the context of"
    ),
    "clear": Action(
        "participant/clear",
        "it erases its whole context",
        "clear the context of",
        grave=True,
        report="cleared",
        done="it has erased its context",
        loses="its whole context",
    ),
    "restart": Action(
        "participant/restart",
        "it returns to its initial state",
        "restart",
        grave=True,
        report="restarted",
        done="it has restarted",
        loses="its context, its open calls and its streams",
    ),
    "shutdown": Action(
        "participant/shutdown",
        "it ends all activity and leaves",
        "shut down",
        grave=True,
        absent=True,
        report="shutting_down",
        done="it shuts down",
        loses="its context, its open calls and its streams, until it joins again",
    ),
    "kick": Action(
        "space/kick",
        "it leaves at once, and its tokens become invalid",
        "remove",
        grave=True,
        absent=True,
        loses="its tokens, its open calls, its streams, and the permissions that rest on what it gave",
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

    async def perform(
        self, action: str, target: str, options: Mapping[str, Any], *, within: float = 0.0
    ) -> str:
        """Takes the action on `target`; returns one sentence about the outcome.

        Args:
            options: `reason` (text), `timeout_seconds`, `direction` (`oldest` or `newest`), `entries`, `target_tokens`:
                an action ignores those that it does not take; None or absent means the default.
            within: The seconds to wait until it is seen that the participant has done it, where the gateway does not
                do it itself; 0 waits for an answer only where the action has one.

        Raises:
            MewError: There is no such action, a value is not valid, or the message was refused or not answered.

        Spec: §3.6.7, §3.9.
        """
        if action not in ACTIONS or not target:
            raise MewError(f"There is no action {one_line(action, 40)!r} for {one_line(target, 64)!r}")
        # The method of each action below has its name.
        act: Callable[[str, Mapping[str, Any]], Awaitable[_Performed]] = getattr(self, f"_{action}")
        if not within or action in ("status", "compact"):
            return (await act(target, {**options, "timeout": within} if within else options)).sentence
        reports = _Reports(self._session, target)
        try:
            done = await act(target, options)
            if done.envelope is None or (self._enforced and action in ("pause", "resume", "kick")):
                return done.sentence
            reports.about(done.envelope)
            return f"{done.sentence}: {await self._seen(action, reports, within)}"
        finally:
            reports.close()

    async def _seen(self, action: str, reports: _Reports, within: float) -> str:
        """What was seen of an action within so many seconds, as the end of a sentence."""
        row, leaves = ACTIONS[action], action in ("shutdown", "kick")
        try:
            async with asyncio.timeout(within):
                while not reports.failed and not (
                    reports.has_left if leaves else row.report in reports.words
                ):
                    await reports.wait()
        except TimeoutError:
            pass
        if leaves and reports.has_left:
            return "it has left"
        if reports.failed:
            return f"it says {reports.failed}"
        if row.report and row.report in reports.words:
            return f"it says that {row.done}" + (f", and has not left within {within:g} s" if leaves else "")
        nothing = "it was not seen to leave" if action == "kick" else f"it has not said that {row.done}"
        return f"{nothing} within {within:g} s"

    def agents(self, participants: Sequence[ParticipantStanding] | None = None) -> Agents:
        """The connected agents: those that run, and those that the human has paused; of `participants`, or of all."""
        running: list[str] = []
        paused: list[str] = []
        me = self._session.me
        for standing in standings(self._session) if participants is None else participants:
            if not standing.ids or standing.shut_down or classify(self._session, standing) != "agent":
                continue
            pause = self.find_pause(standing)
            if not pause:
                running.append(standing.name)
            elif pause in (me.name, me.participant.client.id):
                paused.append(standing.name)
        return Agents(tuple(running), tuple(paused))

    def find_pause(self, standing: ParticipantStanding) -> str:
        """The participant that has paused this one; empty without a pause. Elsewhere, the messages tell it."""
        now = self._clock().timestamp()
        if standing.certain:
            return standing.paused_by if standing.until is None or standing.until > now else ""
        member = self._session.me.participant.client.members.get(standing.name)
        pause = member.pause if member is not None else None
        return pause.by if pause is not None and pause.holds(now) else ""

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises a MewError where an option of an action is not valid."""
        _reason(options)
        _number(options, "timeout_seconds", least=0.001)
        for name in ("entries", "target_tokens"):
            _whole(options, name, least=1)

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

    async def _status(self, target: str, options: Mapping[str, Any]) -> _Performed:
        timeout = {"timeout": options["timeout"]} if "timeout" in options else {}
        status = await self._session.me.participant.telemetry.request_participant_status(target, **timeout)
        word = f", {one_line(str(status.status), 60)}" if status.status else ""
        tokens = f", {count_of(status.tokens, 'token')}" if status.tokens is not None else ""
        return _Performed(
            f"{target}: {count_of(status.messages_in_context, 'message')} in context{tokens}{word}"
        )

    async def _pause(self, target: str, options: Mapping[str, Any]) -> _Performed:
        seconds = _number(options, "timeout_seconds", least=0.001)
        sent = await self._controls.pause(target, timeout_seconds=seconds, reason=_reason(options))
        done = "is paused" if self._enforced else "was asked to pause"
        if seconds is None:
            return _Performed(f"{target} {done} until it is resumed", sent)
        until = self._clock() + timedelta(seconds=seconds)
        return _Performed(f"{target} {done} until {local_time(until.timestamp())}", sent)

    async def _resume(self, target: str, options: Mapping[str, Any]) -> _Performed:
        sent = await self._controls.resume(target, reason=_reason(options))
        return _Performed(f"{target} {'may send again' if self._enforced else 'was asked to go on'}", sent)

    def find_reasoning(self, name: str) -> list[ReasoningSequence]:
        """The sequences of reasoning of a participant that go on."""
        active = self._session.me.participant.ledger.reasoning.active()
        return [sequence for sequence in active if logical(self._session, sequence.owner) == name]

    async def _cancel_reasoning(self, target: str, options: Mapping[str, Any]) -> _Performed:
        me, reason = self._session.me.participant, _reason(options) or "cancelled"
        told = [await cancel_sequence(me, sequence, reason) for sequence in self.find_reasoning(target)]
        if not told:
            raise MewError(f"Cannot cancel the reasoning of {target}: none goes on, so nothing was sent")
        return _Performed("\n".join(told))

    async def _forget(self, target: str, options: Mapping[str, Any]) -> _Performed:
        direction = str(options.get("direction") or "oldest")
        entries = _whole(options, "entries", least=1)
        sent = await self._controls.forget(target, direction=direction, entries=entries)
        part = entries if entries is not None else "part"
        return _Performed(f"{target} was asked to forget the {direction} {part}", sent)

    async def _compact(self, target: str, options: Mapping[str, Any]) -> _Performed:
        wanted = _whole(options, "target_tokens", least=1)
        timeout = {"timeout": options["timeout"]} if "timeout" in options else {}
        done = await self._controls.compact(target, reason=_reason(options), target_tokens=wanted, **timeout)
        if done.skipped:
            return _Performed(f"{target} had nothing to compact{f': {done.reason}' if done.reason else ''}")
        messages = count_of(done.freed_messages, "message")
        return _Performed(f"{target} has freed {count_of(done.freed_tokens, 'token')} and {messages}")

    async def _clear(self, target: str, options: Mapping[str, Any]) -> _Performed:
        sent = await self._controls.clear(target, reason=_reason(options))
        return _Performed(f"{target} was asked to erase its context", sent)

    async def _restart(self, target: str, options: Mapping[str, Any]) -> _Performed:
        sent = await self._controls.restart(target, _because(options))
        return _Performed(f"{target} was asked to restart", sent)

    async def _shutdown(self, target: str, options: Mapping[str, Any]) -> _Performed:
        sent = await self._controls.shutdown(target, _because(options))
        return _Performed(f"{target} was asked to shut down", sent)

    async def _kick(self, target: str, options: Mapping[str, Any]) -> _Performed:
        payload = {"participant_id": target, **_because(options)}
        sent = await self._session.me.participant.sender.say_accepted("space/kick", payload)
        if self._enforced:
            return _Performed(f"{target} was removed, and its tokens are invalid", sent)
        return _Performed(f"The gateway accepted the removal of {target}", sent)

    @property
    def _enforced(self) -> bool:
        """Whether the gateway is one of ours, which carries out what it accepts."""
        return bool(self._session.me.participant.client.extension)

    @property
    def _controls(self) -> Any:
        return self._session.me.participant.controls


class _Performed(NamedTuple):
    """An action that the gateway has accepted: one sentence, and the message of which the effect is not yet seen."""

    sentence: str
    envelope: Envelope | None = None


class _Reports:
    """The statuses by which a participant answers a message of this person, and whether it has left meanwhile."""

    def __init__(self, session: Session, target: str) -> None:
        self._session = session
        self._target = target
        self._names: set[str] = {target}
        self._message = ""
        self._told: deque[Envelope] = deque(maxlen=MOST_REPORTS)
        self._left: deque[str] = deque(maxlen=MOST_REPORTS)
        self._news = asyncio.Event()
        client = session.me.participant.client
        self._end = client.on_message(self._take, kinds=("participant/status", "system/presence"))

    def about(self, sent: Envelope) -> None:
        """Says which message the reports are about; its echo names the target as its connection is called."""
        self._message = sent.id
        self._names.update(sent.to)

    def close(self) -> None:
        """Ends the listening."""
        self._end()

    async def wait(self) -> None:
        """Waits for the next message that may matter."""
        self._news.clear()
        await self._news.wait()

    @property
    def has_left(self) -> bool:
        """Whether the participant has left."""
        return any(map(self._is_target, self._left))

    @property
    def words(self) -> list[str]:
        """The statuses of the participant about that message, in their order."""
        about = [told for told in self._told if self._message in told.correlation_id]
        return [str(told.payload.get("status")) for told in about if self._is_target(told.sender)]

    @property
    def failed(self) -> str:
        """What it tells of a failure; empty for none."""
        return next((one_line(word, 200) for word in self.words if word.startswith("error")), "")

    def _is_target(self, id: str) -> bool:
        return id in self._names or logical(self._session, id) == self._target

    def _take(self, envelope: Envelope) -> None:
        if envelope.kind == "participant/status":
            self._told.append(envelope)
        else:
            member = envelope.payload.get("participant")
            if envelope.payload.get("event") == "leave" and isinstance(member, Mapping):
                self._left.append(str(member.get("id")))
        self._news.set()


async def cancel_sequence(me: MEWParticipant, sequence: ReasoningSequence, reason: str) -> str:
    """Cancels a sequence of reasoning; returns one sentence once the gateway has accepted the message.

    Raises:
        CapabilityViolation: `me` may not cancel it.
        Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

    Spec: §3.5.5.
    """
    await me.sender.say_accepted(
        "reasoning/cancel",
        {"reason": reason},
        to=_owner_present(me, sequence),
        about=sequence.about,
        context=sequence.id,
    )
    return f"The reasoning of {sequence.owner} was cancelled ({one_line(reason, 80)})."


def may_cancel_sequence(me: MEWParticipant, sequence: ReasoningSequence) -> bool:
    """Whether this participant may cancel that sequence, whatever the reason. Spec: §3.5.5, §4.1."""
    return me.sender.permitted("reasoning/cancel", {"reason": "superseded"}, to=_owner_present(me, sequence))


def _owner_present(me: MEWParticipant, sequence: ReasoningSequence) -> tuple[str, ...]:
    # A participant handles a message addressed to it in any context; one that has left cannot be addressed.
    return (sequence.owner,) if sequence.owner in me.client.participants else ()


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
