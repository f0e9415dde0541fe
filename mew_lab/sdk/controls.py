"""The controls of one participant (§3.9): those that it obeys, those that it sends, and the pause that it is under.

How it works
------------
A pause or a resume acts at once: `PauseGuard` refuses messages that may not be sent, and requests of others are kept
until the pause is over. Other controls (forget, compact, clear, restart, shutdown) are carried out by one task, in the
order of the space, each by its hook; the report follows the hook. Only the hooks know the context.

Capabilities decide about controls, and the gateway enforces them. So every control that arrives is obeyed, own ones
included. Sending a control returns once the gateway has accepted it; the target then reports its state by telemetry.

Spec: §3.9, §3.5.5, SDK "Participant Control Lifecycle", ruling R14.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import WHILE_PAUSED
from mew_lab.protocol.payloads.controls import (
    ParticipantClear,
    ParticipantCompact,
    ParticipantCompactDone,
    ParticipantForget,
    ParticipantPause,
    ParticipantRestart,
    ParticipantResume,
    ParticipantShutdown,
)
from mew_lab.protocol.payloads.mcp import McpResponse
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.system import SystemError
from mew_lab.protocol.text import parse_timestamp
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.chats import Chats
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.correlations import Correlations
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.request_server import RequestServer
from mew_lab.sdk.sender import MessageSender, Names, given
from mew_lab.sdk.signal import Signal, at_once, fit_handler
from mew_lab.sdk.streams import Streams
from mew_lab.sdk.telemetry import Telemetry

__all__ = ["FAR", "Compacted", "Controls", "Pause"]

logger = logging.getLogger(__name__)
MAX_ORDERS = 64  # controls that wait for their turn; a shutdown is always accepted
MAX_PAUSES = 1000  # participants with the id of the message that paused them
MAX_REASON = 300
MARGIN = 0.05  # seconds after its end: the clock of the gateway decides, and it may be late
FAR = 1e8  # seconds, three years: no timer is set beyond
Model = TypeVar("Model", bound=Payload)


class Compacted(NamedTuple):
    """The result of a compaction; `skipped` when there was nothing to do, with the `reason`.

    Spec: §3.9.7.
    """

    freed_tokens: int = 0
    freed_messages: int = 0
    skipped: bool = False
    reason: str = ""


class Pause(NamedTuple):
    """A pause: its sender `by`, its reason and end; `until` is None without an end. `id` is empty if it was not seen.

    Spec: §3.9.1.
    """

    by: str
    reason: str
    until: datetime | None
    id: str

    def __str__(self) -> str:
        why = f" ({one_line(self.reason, 200)})" if self.reason else ""
        until = "until it is resumed" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"paused by {one_line(self.by)}{why}, {until}"


class PauseGuard:
    """The pause of one participant; `state` is None while it is active.

    Its guard at the client refuses messages that may not be sent during a pause or after a shutdown.

    Args:
        hold: Called with True to keep incoming requests, and with False to answer them again.
        expired: Called with a pause that reached its end.
        clock: The time in UTC.
    """

    def __init__(
        self,
        client: MEWClient,
        *,
        hold: Callable[[bool], None],
        expired: Callable[[Pause], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.state: Pause | None = None
        self.over_by = ""
        self._client = client
        self._hold = hold
        self._expired = expired
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._active = asyncio.Event()
        self._active.set()
        client.add_guard(self._guard)

    async def wait_active(self) -> None:
        """Waits until there is no pause."""
        self._client.check_loop()
        await self._active.wait()

    def begin(self, envelope: Envelope, payload: ParticipantPause) -> Pause:
        """Begins the pause of a `participant/pause`, in place of an earlier one; returns it."""
        seconds = payload.timeout_seconds
        until = None if seconds is None else self._after(seconds)
        reason = one_line(payload.reason or "", MAX_REASON)
        return self._begin(Pause(envelope.sender, reason, until, envelope.id), seconds)

    def begin_enforced(self, refusal: Envelope, payload: SystemError) -> Pause | None:
        """Begins a pause that only a refusal of the gateway showed; None when a pause is known already."""
        if self.state is not None:
            return None
        # an extension of the gateway of mew_lab
        until = parse_timestamp(getattr(payload, "paused_until", None))
        seconds = None if until is None else max(0.0, (until - self._clock()).total_seconds())
        reason = one_line(payload.message or "", MAX_REASON)
        return self._begin(Pause(refusal.sender, reason, until, ""), seconds)

    def end(self) -> Pause | None:
        """Ends the pause and returns it; None when there was none. `release` then lets requests be answered."""
        ended, self.state = self.state, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._active.set()
        return ended

    def release(self) -> None:
        """Lets requests be answered again, unless a pause or a shutdown holds them."""
        if self.state is None and not self.over_by:
            self._hold(False)

    def shut_down(self, by: str) -> None:
        """Refuses nearly all messages until `readmit`."""
        self.over_by = by
        self._hold(True)

    def readmit(self) -> None:
        """Ends a shutdown; a pause goes on."""
        self.over_by = ""
        self.release()

    def _begin(self, pause: Pause, seconds: float | None) -> Pause:
        self.end()
        self.state = pause
        self._active.clear()
        self._hold(True)
        if seconds is not None and seconds < FAR:
            self._timer = asyncio.get_running_loop().call_later(seconds + MARGIN, self._expired, pause)
        return pause

    def _after(self, seconds: float) -> datetime | None:
        try:
            return self._clock() + timedelta(seconds=seconds)
        except OverflowError:  # beyond the calendar: without an end
            return None

    def _guard(self, kind: str) -> None:
        if kind in WHILE_PAUSED:
            return
        name = self._client.id
        if self.over_by:
            message = (
                f"Cannot send {kind} as {name!r}: it was shut down by {self.over_by}; start() joins again"
            )
            raise LocalProtocolError(message, code="shut_down", section="§3.9.10")
        if self.state is not None:
            message = (
                f"Cannot send {kind} as {name!r}: it was {self.state}. wait_active() waits for the end; a "
                "participant with that capability can end it by participant/resume"
            )
            raise LocalProtocolError(message, code="paused", section="§3.9.1")


@explains_arguments
class Controls:
    """The controls of one participant: those that it obeys (`on_…`), and those that it sends (`pause` …).

    Spec: §3.9.
    """

    def __init__(
        self,
        sender: MessageSender,
        telemetry: Telemetry,
        *,
        correlations: Correlations,
        request_server: RequestServer,
        chats: Chats,
        streams: Streams,
    ) -> None:
        self._sender = sender
        self._pauses: BoundedDict[str, str] = BoundedDict(MAX_PAUSES)
        self._telemetry = telemetry
        self._correlations = correlations
        self._request_server = request_server
        self._chats = chats
        self._streams = streams
        self._client = sender.client
        self._guard = PauseGuard(self._client, hold=request_server.hold, expired=self._end_by_time)
        self._paused: Signal[Pause] = Signal(on_fault=self._client.report)
        self._resumed: Signal[Pause] = Signal(on_fault=self._client.report)
        self._orders: deque[tuple[Envelope, Callable[[], Coroutine[Any, Any, None]]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._leaving: list[Callable[[Envelope | None], Any]] = []
        self._here = False
        self._ending = False
        self._hooks: dict[str, Callable[..., Any]] = {}
        self._keepers: dict[str, Callable[..., Any]] = {}  # of the context, besides which a hook is called
        self._defaults: Mapping[str, Callable[..., Any]] = {
            "participant/forget": self._drop,
            "participant/clear": lambda: self._drop("oldest", None),
            "participant/restart": lambda payload: self._drop("oldest", None),
        }

    # --- controls that it obeys ---

    @property
    def pause_state(self) -> Pause | None:
        """The pause of this participant; None while it is active. Spec: §3.9.1."""
        return self._guard.state

    async def wait_active(self) -> None:
        """Waits until this participant is not paused. Spec: §3.9.2."""
        await self._guard.wait_active()

    def on_pause(self, handler: Callable[[Pause], object]) -> Callable[[], None]:
        """Calls `handler` with each pause that begins."""
        return self._paused.add(handler)

    def on_resume(self, handler: Callable[[Pause], object]) -> Callable[[], None]:
        """Calls `handler` with each pause that ended, by a resume or by its time."""
        return self._resumed.add(handler)

    def on_forget(self, hook: Callable[[str, int | None], object]) -> Callable[[], None]:
        """Sets the hook of forget: `hook(direction, entries)` drops context from the `oldest` or the `newest` end.

        It may be a coroutine function. Each control has one hook; calling the result restores the former one.
        Without a hook, a participant drops its counts. Exceptions of a hook are reported, also in the status.

        Spec: §3.9.5.
        """
        return self._set(self._hooks, "participant/forget", hook, 2)

    def on_compact(self, hook: Callable[[str | None, int | None], object]) -> Callable[[], None]:
        """Sets the hook of compact: `hook(reason, target_tokens)` returns `Compacted`, or None; as `on_forget`.

        Spec: §3.9.6.
        """
        return self._set(self._hooks, "participant/compact", hook, 2)

    def on_clear(self, hook: Callable[[], object]) -> Callable[[], None]:
        """Sets the hook of clear: `hook()` erases the whole context; as `on_forget`. Spec: §3.9.8."""
        return self._set(self._hooks, "participant/clear", hook, 0)

    def on_restart(self, hook: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Sets the hook of restart: `hook(payload)` restores the baseline, after open calls ended; as `on_forget`.

        Spec: §3.9.9.
        """
        return self._set(self._hooks, "participant/restart", hook, 1)

    def on_shutdown(self, hook: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Sets the hook of shutdown: `hook(payload)` ends all activity; then the participant leaves; as `on_forget`.

        Spec: §3.9.10.
        """
        return self._set(self._hooks, "participant/shutdown", hook, 1)

    def keep_context(self, kind: str, keeper: Callable[..., Any]) -> Callable[[], None]:
        """Sets what keeps the context in place of the counts here; it is called before the hook of that control.

        It gets what the hook gets. Calling the result restores the former one.
        """
        return self._set(self._keepers, kind, keeper, 2)

    def on_leaving(self, handler: Callable[[Envelope | None], object]) -> Callable[[], None]:
        """Calls and awaits `handler` before the participant leaves, with the shutdown or None if it stops itself."""
        handler = fit_handler(handler)
        self._leaving.append(handler)
        return lambda: self._leaving.remove(handler)

    # --- controls that it sends: each returns once the gateway accepted it, `compact` once it is done ---

    async def pause(
        self, target: str, *, timeout_seconds: float | None = None, reason: str | None = None
    ) -> Envelope:
        """Pauses `target` until it is resumed, or for `timeout_seconds`; raises as `resume`.

        Spec: §3.9.1.
        """
        payload = given(timeout_seconds=timeout_seconds, reason=reason)
        sent = await self._sender.say_accepted("participant/pause", payload, to=target)
        self._pauses[target] = sent.id  # a logical name, which the echo replaced
        return sent

    async def resume(self, target: str, *, reason: str | None = None) -> Envelope:
        """Ends the pause of `target`; returns once the gateway has accepted it.

        Raises:
            Refused: the gateway refused it, such as for an unknown `target`.
            CapabilityViolation: this participant may not send it.
            LocalProtocolError: this participant is paused itself, or the message is invalid.
            NoReply: the gateway neither accepted nor refused it.
            ConnectionLost: there is no connection.

        Spec: §3.9.2.
        """
        about = self._pauses.pop(target, ())
        return await self._sender.say_accepted(
            "participant/resume", given(reason=reason), to=target, about=about
        )

    async def forget(self, target: str, *, direction: str = "oldest", entries: int | None = None) -> Envelope:
        """Makes `target` drop context from one end, `oldest` or `newest`; raises as `resume`. Spec: §3.9.5."""
        if direction not in ("oldest", "newest"):
            message = (
                f"Cannot ask {target} to forget the {one_line(direction, 40)!r}: it is 'oldest' or 'newest'"
            )
            raise LocalProtocolError(message, section="§3.9.5")
        payload = given(direction=direction, entries=entries)
        return await self._sender.say_accepted("participant/forget", payload, to=target)

    async def compact(
        self,
        target: str,
        *,
        reason: str | None = None,
        target_tokens: int | None = None,
        timeout: float = 60.0,
    ) -> Compacted:
        """Makes `target` compact its context; waits for its report and returns it.

        Raises:
            NoReply: no report came within `timeout` seconds, or `target` is absent.
            Refused, LocalProtocolError, ConnectionLost: as `resume`.

        Spec: §3.9.6, §3.9.7.
        """
        payload = given(reason=reason, target_tokens=target_tokens)
        request = self._sender.complete("participant/compact", payload, to=target)
        answered = self._sender.correlations.send_answered
        _, done = await answered(request, answer=ParticipantCompactDone, timeout=timeout)
        return Compacted(
            done.freed_tokens or 0,
            done.freed_messages or 0,
            done.skipped or False,
            one_line(done.reason or "", MAX_REASON),
        )

    async def clear(self, target: str, *, reason: str | None = None) -> Envelope:
        """Makes `target` erase all its context; raises as `resume`. Spec: §3.9.8."""
        return await self._sender.say_accepted("participant/clear", given(reason=reason), to=target)

    async def restart(self, target: str, payload: Mapping[str, Any] | None = None) -> Envelope:
        """Makes `target` restore its baseline, with the hints `payload`; raises as `resume`. Spec: §3.9.9."""
        return await self._sender.say_accepted("participant/restart", payload or {}, to=target)

    async def shutdown(self, target: str, payload: Mapping[str, Any] | None = None) -> Envelope:
        """Makes `target` end all activity and leave; raises as `resume`. Spec: §3.9.10."""
        return await self._sender.say_accepted("participant/shutdown", payload or {}, to=target)

    @at_once
    def cancel_reasoning(
        self, context: str, *, to: Names = (), reason: str = "cancelled", correlation_id: Names = ()
    ) -> Coroutine[Any, Any, Envelope]:
        """Cancels a sequence of reasoning of any participant; `context` is the id of its `reasoning/start`.

        Args:
            reason: a code of the deployment, such as `timeout`, `superseded`, `error`.
            correlation_id: the request or proposal that caused it.

        Raises:
            CapabilityViolation: this participant may not send it.
            ConnectionLost: there is no connection.

        Spec: §3.5.5.
        """
        return self._sender.hand_over(
            "reasoning/cancel", {"reason": reason}, to=to, about=correlation_id, context=context
        )

    # --- what is received ---

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of the controls that this participant obeys, and of refusals because of a pause."""
        dispatcher.on(ParticipantPause, self._note_pause)
        dispatcher.on(ParticipantResume, self._note_resume)
        dispatcher.on(SystemError, self._note_error)
        dispatcher.on(McpResponse, self._note_response)
        dispatcher.on(ParticipantPause, self._obey_pause)
        dispatcher.on(ParticipantResume, self._obey_resume)
        dispatcher.on(ParticipantForget, self._order(self._forget))
        dispatcher.on(ParticipantCompact, self._order(self._compact))
        dispatcher.on(ParticipantClear, self._order(self._clear))
        dispatcher.on(ParticipantRestart, self._order(self._restart))
        dispatcher.on(ParticipantShutdown, self._order(self._shut_down))

    def _note_pause(self, envelope: Envelope, payload: ParticipantPause) -> None:
        for target in envelope.to:
            self._pauses.pop(target, None)  # the latest goes last
            self._pauses[target] = envelope.id

    def _note_resume(self, envelope: Envelope, payload: ParticipantResume) -> None:
        for target in envelope.to:
            self._pauses.pop(target, None)

    def _note_error(self, envelope: Envelope, payload: SystemError) -> None:
        if (payload.code or payload.error) == "paused":
            self._follow_refusal(envelope, payload)
            return
        for id in envelope.correlation_id:
            self._request_server.replace(id, payload.message or payload.code or payload.error)

    def _note_response(self, envelope: Envelope, payload: McpResponse) -> None:
        if envelope.sender == self._client.id:
            self._request_server.echo(envelope.id)

    def _obey_pause(self, envelope: Envelope, payload: ParticipantPause) -> None:
        if self._client.id in envelope.to:
            self._begin_pause(self._guard.begin(envelope, payload), about=envelope.id)

    def _obey_resume(self, envelope: Envelope, payload: ParticipantResume) -> None:
        me = self._client.id
        if me in envelope.to and envelope.sender != me:  # a participant cannot end its own pause
            self._end_pause(about=envelope.id)

    def readmit(self, welcome: object) -> None:
        """Ends a shutdown after an admission, the first one or a reconnection."""
        self._here = True
        if not self._ending:
            self._guard.readmit()
        if self.pause_state is not None:  # a resume that came meanwhile was missed: others see that
            self._telemetry.tell("paused")

    async def leave(self) -> None:
        """Calls the handlers of `on_leaving`, because the participant leaves by itself, and drops pending controls."""
        self._client.check_loop()
        await self._farewell(None)
        self._orders.clear()
        worker = self._worker
        if worker is not None and worker is not asyncio.current_task():
            worker.cancel()
            await asyncio.wait({worker})
        if self._ending:
            self._ending, self._telemetry.condition = False, None

    # --- pausing ---

    def _begin_pause(self, pause: Pause, *, about: Names = ()) -> None:
        self._telemetry.condition = "paused"
        self._telemetry.tell("paused", about=about)
        self._paused(pause)

    def _follow_refusal(self, refusal: Envelope, payload: SystemError) -> None:
        pause = self._guard.begin_enforced(refusal, payload)
        if pause is not None:
            self._begin_pause(pause)
        for id in refusal.correlation_id:
            self._request_server.keep(id)

    def _end_by_time(self, pause: Pause) -> None:
        about = pause.id or ()
        self._sender.quietly("participant/resume", {"reason": "timeout"}, to=self._client.id, about=about)
        self._end_pause(about=about)

    def _end_pause(self, *, about: Names) -> None:
        ended = self._guard.end()
        if ended is not None:
            self._telemetry.condition = None
            self._telemetry.tell("active", about=about)
            self._guard.release()
            self._resumed(ended)

    # --- carrying out ---

    def _order(
        self, act: Callable[[Envelope, Model], Coroutine[Any, Any, None]]
    ) -> Callable[[Envelope, Model], None]:
        """A handler that queues `act` where the control is addressed to this participant."""

        def take(envelope: Envelope, payload: Model) -> None:
            if self._client.id in envelope.to:
                self._take(envelope, lambda: act(envelope, payload))

        return take

    def _take(self, envelope: Envelope, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if envelope.kind == "participant/shutdown":
            if self._guard.over_by:
                return
            self._guard.end()
            self._guard.shut_down(one_line(envelope.sender, 80))
        elif len(self._orders) >= MAX_ORDERS:
            logger.warning("%s of %s is not done: %d wait", envelope.kind, envelope.sender, MAX_ORDERS)
            if envelope.kind == "participant/compact":
                self._say_compacted(
                    envelope, Compacted(skipped=True, reason=f"{MAX_ORDERS} controls wait already")
                )
            return
        self._orders.append((envelope, act))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._carry_out())

    async def _carry_out(self) -> None:
        while self._orders:
            envelope, act = self._orders.popleft()
            try:
                await act()
            except Exception as fault:
                self._report_failure(envelope, fault)

    async def _forget(self, envelope: Envelope, payload: ParticipantForget) -> None:
        await self._run(envelope, payload.direction, payload.entries)
        self._telemetry.tell("forgotten", about=envelope.id)

    async def _compact(self, envelope: Envelope, payload: ParticipantCompact) -> None:
        freed = Compacted(skipped=True, reason="there is nothing to compact")
        if acts := any(self._acting(envelope.kind)):
            self._telemetry.tell("compacting", about=envelope.id)
            try:
                freed = await self._run(envelope, payload.reason, payload.target_tokens) or freed
                if not isinstance(freed, Compacted):
                    raise TypeError(f"a compact hook gives Compacted or None, not a {type(freed).__name__}")
            except Exception as fault:
                self._say_compacted(envelope, Compacted(skipped=True, reason=_sentence(fault)))
                raise
        self._say_compacted(envelope, freed)
        if not freed.skipped:
            self._telemetry.report_compaction(
                freed_tokens=freed.freed_tokens, freed_messages=freed.freed_messages, about=envelope.id
            )
        elif acts:
            self._telemetry.tell(self._telemetry.condition or "active", about=envelope.id)

    def _say_compacted(self, envelope: Envelope, freed: Compacted) -> None:
        payload: dict[str, Any] = {"skipped": True, "reason": freed.reason or "nothing was freed"}
        if not freed.skipped:
            payload = {"freed_tokens": freed.freed_tokens, "freed_messages": freed.freed_messages}
            payload["status"] = "compacted"
        self._sender.quietly("participant/compact-done", payload, to=envelope.sender, about=envelope.id)

    async def _clear(self, envelope: Envelope, payload: ParticipantClear) -> None:
        await self._run(envelope)
        self._telemetry.set_context_usage(tokens=0, messages=0)
        self._telemetry.tell("cleared", about=envelope.id)

    async def _restart(self, envelope: Envelope, payload: ParticipantRestart) -> None:
        self._correlations.withdraw_all("restart")
        await self._close_streams("restart")
        await self._run(envelope, envelope.payload)
        self._telemetry.tell("restarted", about=envelope.id)

    async def _shut_down(self, envelope: Envelope, payload: ParticipantShutdown) -> None:
        self._telemetry.condition = "shutting_down"
        self._telemetry.tell("shutting_down", about=envelope.id)
        self._ending = True
        await self._request_server.stop()
        try:
            await self._run(envelope, envelope.payload)
        except Exception as fault:
            self._report_failure(envelope, fault)
        await self._farewell(envelope)
        self._correlations.withdraw_all("shutdown")
        await self._close_streams("shutdown")
        self._sender.quietly(
            "chat/acknowledge", {"status": "shut_down"}, to=envelope.sender, about=envelope.id
        )
        self._orders.clear()
        self._ending, self._telemetry.condition = False, None
        await self._client.disconnect()

    # --- hooks and reports ---

    def _set(
        self, hooks: dict[str, Callable[..., Any]], kind: str, hook: Callable[..., Any], most: int
    ) -> Callable[[], None]:
        before = hooks.get(kind)
        fitted = hooks[kind] = fit_handler(hook, most)

        def restore() -> None:
            if hooks.get(kind) is fitted:
                del hooks[kind]
                if before is not None:
                    hooks[kind] = before

        return restore

    def _acting(self, kind: str) -> Iterator[Callable[..., Any]]:
        """What carries out a control: the keeper of the context and the hook; without either, the default."""
        found = [hooks[kind] for hooks in (self._keepers, self._hooks) if kind in hooks]
        yield from found or [act for of, act in self._defaults.items() if of == kind]

    async def _run(self, envelope: Envelope, *arguments: Any) -> Any:
        """Carries out a control; returns the first result that is not None."""
        results = []
        for act in self._acting(envelope.kind):
            result = act(*arguments)
            results.append(await result if inspect.isawaitable(result) else result)
        return next((result for result in results if result is not None), None)

    async def _farewell(self, envelope: Envelope | None) -> None:
        here, self._here = self._here, False
        for handler in tuple(self._leaving) if here else ():
            try:
                result = handler(envelope)
                if inspect.isawaitable(result):
                    await result
            except Exception as fault:
                self._client.report(fault)

    def _report_failure(self, envelope: Envelope, fault: Exception) -> None:
        self._client.report(fault)
        self._telemetry.tell(f"error: {_sentence(fault)}", about=envelope.id)

    async def _close_streams(self, reason: str) -> None:
        try:
            await self._streams.close_all(reason)
        except Exception as fault:  # the gateway closes the others when their owner leaves
            self._client.report(fault)

    def _drop(self, direction: Literal["oldest", "newest"], entries: int | None) -> None:
        """Drops the counts and the chats that await an acknowledgement: the default hook of forget."""
        usage = self._telemetry
        dropped = usage.messages if entries is None else min(entries, usage.messages)
        share = usage.tokens * dropped // usage.messages if usage.messages else usage.tokens
        usage.record_context_usage(tokens=-share, messages=-dropped)
        self._chats.drop(direction, entries)


def _sentence(fault: Exception) -> str:
    return one_line(mask(f"{type(fault).__name__}: {fault}"), 200)
