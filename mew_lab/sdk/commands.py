"""What does this participant tell others to do?  The controls that it sends; it obeys none.

Whether it may is a matter of capabilities. Each returns once the gateway has taken it, and `compact` once it is
done; what the others then say of themselves is telemetry.

Spec: §3.9, §3.5.5, ruling R14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.controls import ParticipantPause, ParticipantResume
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.replies import Replies
from mew_lab.sdk.sender import MessageSender, Names

__all__ = ["Commands", "Compacted"]

MAX_PAUSES = 1000  # participants of whom it is remembered which message paused them
MAX_REASON = 300


class Compacted(NamedTuple):
    """What a compaction freed; `skipped` when there was nothing to do, and `reason` why.

    Spec: §3.9.7.
    """

    freed_tokens: int = 0
    freed_messages: int = 0
    skipped: bool = False
    reason: str = ""


class Commands:
    """The controls that one participant sends. Spec: §3.9."""

    def __init__(self, saying: MessageSender) -> None:
        self._saying = saying
        self._compactions = Replies(saying, question="participant/compact", answer="participant/compact-done")
        self._pauses: BoundedDict[str, str] = BoundedDict(MAX_PAUSES)

    async def pause(
        self, target: str, *, timeout_seconds: float | None = None, reason: str | None = None
    ) -> Envelope:
        """Asks `target` to send nothing new until it is resumed, or for `timeout_seconds`; raises as `resume`.

        Spec: §3.9.1.
        """
        payload = _given(timeout_seconds=timeout_seconds, reason=reason)
        sent = await self._saying.say_accepted("participant/pause", payload, to=target)
        self._pauses[target] = sent.id  # a logical name, which stands in its echo no more
        return sent

    async def resume(self, target: str, *, reason: str | None = None) -> Envelope:
        """Ends the pause of `target`, and names it if it was seen; returns once the gateway has taken it.

        Raises:
            Refused: the gateway refused it: `target` is unknown, say (CapabilityViolation: it may not be sent).
            LocalProtocolError: this participant is paused itself, or the message is none.
            NoReply: the gateway said neither yes nor no.
            ConnectionLost: there is no connection.

        Spec: §3.9.2.
        """
        about = self._pauses.pop(target, ())
        return await self._saying.say_accepted(
            "participant/resume", _given(reason=reason), to=target, about=about
        )

    async def forget(self, target: str, *, direction: str = "oldest", entries: int | None = None) -> Envelope:
        """Asks `target` to drop context from one end, `oldest` or `newest`; raises as `resume`. Spec: §3.9.5."""
        if direction not in ("oldest", "newest"):
            said = (
                f"Cannot ask {target} to forget the {one_line(direction, 40)!r}: it is 'oldest' or 'newest'"
            )
            raise LocalProtocolError(said, section="§3.9.5")
        payload = _given(direction=direction, entries=entries)
        return await self._saying.say_accepted("participant/forget", payload, to=target)

    async def compact(
        self,
        target: str,
        *,
        reason: str | None = None,
        target_tokens: int | None = None,
        timeout: float = 60.0,
    ) -> Compacted:
        """Asks `target` to free headroom, and waits until it says what that freed.

        Raises:
            NoReply: it did not say so within `timeout` seconds, or is not there.
            Refused, LocalProtocolError, ConnectionLost: as `resume`.

        Spec: §3.9.6, §3.9.7.
        """
        payload = _given(reason=reason, target_tokens=target_tokens)
        done = (await self._compactions.ask(target, payload, timeout=timeout)).payload
        return Compacted(
            done.get("freed_tokens") or 0,
            done.get("freed_messages") or 0,
            done.get("skipped") or False,
            one_line(done.get("reason") or "", MAX_REASON),
        )

    async def clear(self, target: str, *, reason: str | None = None) -> Envelope:
        """Asks `target` to erase all its context; raises as `resume`. Spec: §3.9.8."""
        return await self._saying.say_accepted("participant/clear", _given(reason=reason), to=target)

    async def restart(self, target: str, payload: Mapping[str, Any] | None = None) -> Envelope:
        """Asks `target` to go back to its baseline; `payload` are hints it understands. As `resume`. Spec: §3.9.9."""
        return await self._saying.say_accepted("participant/restart", payload or {}, to=target)

    async def shutdown(self, target: str, payload: Mapping[str, Any] | None = None) -> Envelope:
        """Asks `target` to end all activity and leave; raises as `resume`. Spec: §3.9.10."""
        return await self._saying.say_accepted("participant/shutdown", payload or {}, to=target)

    async def cancel_reasoning(
        self, context: str, *, to: Names = (), reason: str = "cancelled", correlation_id: Names = ()
    ) -> Envelope:
        """Ends a sequence of reasoning, one's own or another's; `context` is the id of its `reasoning/start`.

        Args:
            reason: a word of the deployment, such as `timeout`, `superseded`, `error`.
            correlation_id: the request or proposal that caused it.

        Raises:
            CapabilityViolation: this participant may not.
            ConnectionLost: there is no connection.

        Spec: §3.5.5.
        """
        return await self._saying.say(
            "reasoning/cancel", {"reason": reason}, to=to, about=correlation_id, context=context
        )

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of what follows from these controls."""
        dispatcher.on_any(self._compactions.observe)
        dispatcher.on(ParticipantPause, self._note_pause)
        dispatcher.on(ParticipantResume, self._note_resume)

    def _note_pause(self, envelope: Envelope, payload: ParticipantPause) -> None:
        for target in envelope.to:
            self._pauses.pop(target, None)  # the latest goes last
            self._pauses[target] = envelope.id

    def _note_resume(self, envelope: Envelope, payload: ParticipantResume) -> None:
        for target in envelope.to:
            self._pauses.pop(target, None)

    def lost(self) -> None:
        """The connection ended; another may follow."""
        self._compactions.lost()


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
