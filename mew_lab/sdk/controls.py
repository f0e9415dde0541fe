"""What do others tell this participant to do, and what does it tell them?  Pause, forget, compact, shut down.

A pause or a resume acts at once. What takes work (forget, compact, clear, restart, shut down) is carried out by a
task, one after another in the order of the space, each by its hook; the report comes after the hook. What a
context is, only the hooks know. Who may control whom is a matter of capabilities alone: a control is believed as
it comes, one's own included.

Spec: §3.9, §3.5.5, SDK "Participant Control Lifecycle", ruling R14.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.controls import (
    ParticipantClear,
    ParticipantCompact,
    ParticipantForget,
    ParticipantPause,
    ParticipantRestart,
    ParticipantResume,
    ParticipantShutdown,
)
from mew_lab.protocol.payloads.mcp import McpResponse
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.system import SystemError
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.answering import Answering
from mew_lab.sdk.asking import Asking
from mew_lab.sdk.chats import Chats
from mew_lab.sdk.commands import Commands, Compacted
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.pausing import Pause, Pausing
from mew_lab.sdk.sender import MessageSender, Names
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.streams import Streams
from mew_lab.sdk.telemetry import Telemetry

__all__ = ["Compacted", "Controls", "Pause"]

logger = logging.getLogger(__name__)
MAX_ORDERS = 64  # controls that wait for their turn; a shutdown always finds a place
Model = TypeVar("Model", bound=Payload)


class Controls(Commands):
    """The controls of one participant: those that it obeys (`on_…`), and those that it sends (`pause` …).

    Spec: §3.9.
    """

    def __init__(
        self,
        saying: MessageSender,
        telemetry: Telemetry,
        *,
        asking: Asking,
        answering: Answering,
        chats: Chats,
        streams: Streams,
    ) -> None:
        super().__init__(saying)
        self._telemetry = telemetry
        self._asking = asking
        self._answering = answering
        self._chats = chats
        self._streams = streams
        self._client = saying.client
        self._pausing = Pausing(self._client, hold=answering.hold, expired=self._expired)
        self._paused: Signal[Pause] = Signal(on_fault=self._client.report)
        self._resumed: Signal[Pause] = Signal(on_fault=self._client.report)
        self._orders: deque[tuple[Envelope, Callable[[], Coroutine[Any, Any, None]]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._leaving: list[Callable[[Envelope | None], Any]] = []
        self._here = False
        self._ending = False
        self._hooks: dict[str, Callable[..., Any]] = {
            "participant/forget": self._drop,
            "participant/clear": lambda: self._drop("oldest", None),
            "participant/restart": lambda payload: self._drop("oldest", None),
        }

    # --- obeying: the hooks ---

    @property
    def pause_state(self) -> Pause | None:
        """The pause that this participant is under; None while it is active. Spec: §3.9.1."""
        return self._pausing.state

    async def wait_active(self) -> None:
        """Returns when this participant is not paused; at once when it is not. Spec: §3.9.2."""
        await self._pausing.wait_active()

    def on_pause(self, handler: Callable[[Pause], Any]) -> Callable[[], None]:
        """Each pause that begins to hold."""
        return self._paused.add(handler)

    def on_resume(self, handler: Callable[[Pause], Any]) -> Callable[[], None]:
        """Each pause that is over, by somebody's word or by its time."""
        return self._resumed.add(handler)

    def on_forget(self, hook: Callable[[str, int | None], Any]) -> Callable[[], None]:
        """`hook(direction, entries)` drops context from the `oldest` or the `newest` end, sync or async.

        There is one hook a control; it takes the place of the one before, and calling the result puts that back.
        Without one, a participant drops its counts. What a hook raises is reported, also in its status.

        Spec: §3.9.5.
        """
        return self._hook("participant/forget", hook)

    def on_compact(self, hook: Callable[[str | None, int | None], Any]) -> Callable[[], None]:
        """`hook(reason, target_tokens)` gives `Compacted`, or None when there was nothing to do; as `on_forget`.

        Spec: §3.9.6.
        """
        return self._hook("participant/compact", hook)

    def on_clear(self, hook: Callable[[], Any]) -> Callable[[], None]:
        """`hook()` erases the whole context, scratchpads and memories; as `on_forget`. Spec: §3.9.8."""
        return self._hook("participant/clear", hook)

    def on_restart(self, hook: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
        """`hook(payload)` goes back to the baseline, after what is open was ended; as `on_forget`. Spec: §3.9.9."""
        return self._hook("participant/restart", hook)

    def on_shutdown(self, hook: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
        """`hook(payload)` ends all activity; then the participant leaves, even if it raises; as `on_forget`.

        Spec: §3.9.10.
        """
        return self._hook("participant/shutdown", hook)

    def on_leaving(self, handler: Callable[[Envelope | None], Any]) -> Callable[[], None]:
        """Told, and awaited, before the participant leaves for good: the shutdown, or None when it stops itself."""
        self._leaving.append(handler)
        return lambda: self._leaving.remove(handler)

    # --- what is received ---

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of the controls that this participant obeys, and of the gateway's word about a pause."""
        super().register(dispatcher)
        dispatcher.on(SystemError, self._note_error)
        dispatcher.on(McpResponse, self._note_response)
        dispatcher.on(ParticipantPause, self._obey_pause)
        dispatcher.on(ParticipantResume, self._obey_resume)
        dispatcher.on(ParticipantForget, self._order(self._forget))
        dispatcher.on(ParticipantCompact, self._order(self._compact))
        dispatcher.on(ParticipantClear, self._order(self._clear))
        dispatcher.on(ParticipantRestart, self._order(self._restart))
        dispatcher.on(ParticipantShutdown, self._order(self._shut_down))

    def _note_error(self, envelope: Envelope, payload: SystemError) -> None:
        if (payload.code or payload.error) == "paused":
            self._enforced(envelope, payload)

    def _note_response(self, envelope: Envelope, payload: McpResponse) -> None:
        if envelope.sender == self._client.id:
            self._answering.echoed(envelope.id)

    def _obey_pause(self, envelope: Envelope, payload: ParticipantPause) -> None:
        if self._client.id in envelope.to:
            self._begun(self._pausing.asked(envelope, payload), about=envelope.id)

    def _obey_resume(self, envelope: Envelope, payload: ParticipantResume) -> None:
        me = self._client.id
        if me in envelope.to and envelope.sender != me:  # nobody ends its own pause
            self._over(about=envelope.id)

    def readmitted(self, welcome: object) -> None:
        """The space has let this participant in, for the first time or again."""
        self._here = True
        if not self._ending:
            self._pausing.readmitted()
        if self.pause_state is not None:  # who resumed it meanwhile sees that it did not hear that
            self._telemetry.tell("paused")

    async def left(self) -> None:
        """Tells those who wait for it that the participant leaves by itself; what was ordered is not done any more."""
        await self._farewell(None)
        self._orders.clear()
        worker = self._worker
        if worker is not None and worker is not asyncio.current_task():
            worker.cancel()
            await asyncio.wait({worker})
        if self._ending:
            self._ending, self._telemetry.condition = False, None

    # --- pausing ---

    def _begun(self, pause: Pause, *, about: Names = ()) -> None:
        self._telemetry.condition = "paused"
        self._telemetry.tell("paused", about=about)
        self._paused(pause)

    def _enforced(self, refusal: Envelope, payload: SystemError) -> None:
        pause = self._pausing.enforced(refusal, payload)
        if pause is not None:
            self._begun(pause)
        for id in refusal.correlation_id:
            self._answering.paused(id)

    def _expired(self, pause: Pause) -> None:
        about = pause.id or ()
        self._saying.quietly("participant/resume", {"reason": "timeout"}, to=self._client.id, about=about)
        self._over(about=about)

    def _over(self, *, about: Names) -> None:
        ended = self._pausing.end()
        if ended is not None:
            self._telemetry.condition = None
            self._telemetry.tell("active", about=about)
            self._pausing.release()
            self._resumed(ended)

    # --- carrying out ---

    def _order(
        self, act: Callable[[Envelope, Model], Coroutine[Any, Any, None]]
    ) -> Callable[[Envelope, Model], None]:
        """A handler that has `act` carried out, in its turn, where the control is addressed to this participant."""

        def take(envelope: Envelope, payload: Model) -> None:
            if self._client.id in envelope.to:
                self._take(envelope, lambda: act(envelope, payload))

        return take

    def _take(self, envelope: Envelope, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if envelope.kind == "participant/shutdown":
            if self._pausing.over_by:
                return
            self._pausing.end()
            self._pausing.shut_down(one_line(envelope.sender, 80))
        elif len(self._orders) >= MAX_ORDERS:
            logger.warning("%s of %s is not done: %d wait", envelope.kind, envelope.sender, MAX_ORDERS)
            if envelope.kind == "participant/compact":
                self._done(envelope, Compacted(skipped=True, reason=f"{MAX_ORDERS} controls wait already"))
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
                self._failed(envelope, fault)

    async def _forget(self, envelope: Envelope, payload: ParticipantForget) -> None:
        await self._run(envelope, payload.direction, payload.entries)
        self._telemetry.tell("forgotten", about=envelope.id)

    async def _compact(self, envelope: Envelope, payload: ParticipantCompact) -> None:
        freed = Compacted(skipped=True, reason="there is nothing to compact")
        if envelope.kind in self._hooks:
            self._telemetry.tell("compacting", about=envelope.id)
            try:
                freed = await self._run(envelope, payload.reason, payload.target_tokens) or freed
                if not isinstance(freed, Compacted):
                    raise TypeError(f"a compact hook gives Compacted or None, not a {type(freed).__name__}")
            except Exception as fault:
                self._done(envelope, Compacted(skipped=True, reason=_said(fault)))
                raise
        self._done(envelope, freed)
        if not freed.skipped:
            self._telemetry.report_compaction(
                freed_tokens=freed.freed_tokens, freed_messages=freed.freed_messages, about=envelope.id
            )
        elif envelope.kind in self._hooks:
            self._telemetry.tell(self._telemetry.condition or "active", about=envelope.id)

    def _done(self, envelope: Envelope, freed: Compacted) -> None:
        payload: dict[str, Any] = {"skipped": True, "reason": freed.reason or "nothing was freed"}
        if not freed.skipped:
            payload = {"freed_tokens": freed.freed_tokens, "freed_messages": freed.freed_messages}
            payload["status"] = "compacted"
        self._saying.quietly("participant/compact-done", payload, to=envelope.sender, about=envelope.id)

    async def _clear(self, envelope: Envelope, payload: ParticipantClear) -> None:
        await self._run(envelope)
        self._telemetry.set_context_usage(tokens=0, messages=0)
        self._telemetry.tell("cleared", about=envelope.id)

    async def _restart(self, envelope: Envelope, payload: ParticipantRestart) -> None:
        self._asking.withdraw_all("restart")
        await self._close_streams("restart")
        await self._run(envelope, envelope.payload)
        self._telemetry.tell("restarted", about=envelope.id)

    async def _shut_down(self, envelope: Envelope, payload: ParticipantShutdown) -> None:
        self._telemetry.condition = "shutting_down"
        self._telemetry.tell("shutting_down", about=envelope.id)
        self._ending = True
        await self._answering.stop()
        try:
            await self._run(envelope, envelope.payload)
        except Exception as fault:
            self._failed(envelope, fault)
        await self._farewell(envelope)
        self._asking.withdraw_all("shutdown")
        await self._close_streams("shutdown")
        self._saying.quietly(
            "chat/acknowledge", {"status": "shut_down"}, to=envelope.sender, about=envelope.id
        )
        self._orders.clear()
        self._ending, self._telemetry.condition = False, None
        await self._client.disconnect()

    # --- means ---

    def _hook(self, kind: str, hook: Callable[..., Any]) -> Callable[[], None]:
        before = self._hooks.get(kind)
        self._hooks[kind] = hook

        def restore() -> None:
            if self._hooks.get(kind) is hook:
                del self._hooks[kind]
                if before is not None:
                    self._hooks[kind] = before

        return restore

    async def _run(self, envelope: Envelope, *arguments: Any) -> Any:
        hook = self._hooks.get(envelope.kind)
        result = hook(*arguments) if hook is not None else None
        return await result if inspect.isawaitable(result) else result

    async def _farewell(self, envelope: Envelope | None) -> None:
        here, self._here = self._here, False
        for handler in tuple(self._leaving) if here else ():
            try:
                result = handler(envelope)
                if inspect.isawaitable(result):
                    await result
            except Exception as fault:
                self._client.report(fault)

    def _failed(self, envelope: Envelope, fault: Exception) -> None:
        self._client.report(fault)
        self._telemetry.tell(f"error: {_said(fault)}", about=envelope.id)

    async def _close_streams(self, reason: str) -> None:
        try:
            await self._streams.close_all(reason)
        except Exception as fault:  # what could not be closed closes when its owner leaves
            self._client.report(fault)

    def _drop(self, direction: Literal["oldest", "newest"], entries: int | None) -> None:
        """What a plain participant forgets: what it counted, and chats that await its acknowledgement."""
        counted = self._telemetry
        dropped = counted.messages if entries is None else min(entries, counted.messages)
        share = counted.tokens * dropped // counted.messages if counted.messages else counted.tokens
        counted.record_context_usage(tokens=-share, messages=-dropped)
        self._chats.drop(direction, entries)


def _said(fault: Exception) -> str:
    return one_line(mask(f"{type(fault).__name__}: {fault}"), 200)
