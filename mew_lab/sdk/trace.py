"""Shows the reasoning of an agent in the space: the `reasoning/*` messages of one sequence, and a stream beside them.

The id of `reasoning/start` is the context of the messages that follow. Where a stream is permitted, they are also
written to it as JSON lines, with each piece of the model's text as it arrives. If the stream fails or lags, the
reasoning goes on.

Spec: §3.5, §3.10.1, SDK "Streaming Reasoning Transparency".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Trace"]

logger = logging.getLogger(__name__)
MAX_WAITING = 1000  # lines that the link has not taken yet; the oldest are dropped
MAX_MESSAGE = 4000  # characters of a thought
STREAM_WITHIN = 5.0  # seconds for the gateway to open the stream
LAST_LINES = 2.0  # seconds for sending the last lines
CLOSED = None


class Trace:
    """One sequence of reasoning. `id` is its context: the id of its start, empty before and where it is off."""

    def __init__(self, participant: MEWParticipant, *, enabled: bool, stream: bool) -> None:
        self.id = ""
        self.stream_id = ""
        self.ended = False
        self._participant = participant
        self._enabled = enabled
        self._wants_stream = stream
        self._measured: dict[str, Any] = {}  # what the next thought or conclusion says of its cost
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(MAX_WAITING)
        self._mirror: asyncio.Task[None] | None = None

    def start(self, message: str, *, about: Sequence[str]) -> None:
        """Begins the sequence. Spec: §3.5.2."""
        sent = self._say("reasoning/start", {"message": message}, about=about) if self._enabled else None
        if sent is None:
            return
        self.id = sent
        wish = {"direction": "upload", "description": f"reasoning:{self.id}"}
        if self._wants_stream and self._participant.can_send("stream/request", wish, "gateway"):
            self._mirror = asyncio.get_running_loop().create_task(self._mirror_lines())

    def measure(self, *, input_tokens: int, output_tokens: int, seconds: float) -> None:
        """Keeps the cost of a reply of the model, as its server counted it, for the next thought or conclusion."""
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self._measured = {"usage": usage, "duration_ms": round(1000 * seconds)}

    def thought(self, message: str, **more: Any) -> str:
        """Sends one step; returns its id, empty where it was not sent. `more` stands in its payload beside the message.

        Spec: §3.5.3.
        """
        if not self.id or self.ended:
            return ""
        text = one_line(message, MAX_MESSAGE)
        measured, self._measured = self._measured, {}
        sent = self._say("reasoning/thought", {"message": text, **measured, **more}, context=self.id)
        self._line({"type": "thought", "message": text})
        return sent or ""

    def token(self, piece: str) -> None:
        """Sends one piece of the model's text, to the stream alone."""
        if self._mirror is not None:
            self._line({"type": "token", "text": piece})

    def conclude(self, message: str) -> None:
        """Ends the sequence. Spec: §3.5.4."""
        if self.id and not self.ended:
            self.ended = True
            payload = {"message": one_line(message, MAX_MESSAGE), **self._measured}
            self._say("reasoning/conclusion", payload, context=self.id)
            self._line({"type": "status", "status": "concluded"})

    def cancel(self, reason: str, *, about: Sequence[str] = ()) -> None:
        """Ends the sequence without a conclusion, by a `reasoning/cancel`. Spec: §3.5.5."""
        if self.id and not self.ended:
            self.ended = True
            self._say("reasoning/cancel", {"reason": reason}, context=self.id, about=about)

    def mark_ended(self) -> None:
        """Marks the sequence as ended by another participant: nothing more is sent in its context."""
        self.ended = True

    async def close(self, reason: str = "complete") -> None:
        """Closes the stream, after its last lines where it ends well."""
        mirror, self._mirror = self._mirror, None
        if mirror is None:
            return
        if reason != "complete":
            mirror.cancel(reason)
        else:
            self._line(CLOSED)
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(LAST_LINES):
                await mirror

    def _say(
        self, kind: str, payload: dict[str, Any], *, context: str = "", about: Sequence[str] = ()
    ) -> str | None:
        sent = self._participant.sender.quietly(kind, payload, context=context or None, about=about)
        return None if sent is None else sent.id

    def _line(self, line: dict[str, Any] | None) -> None:
        if self._mirror is None and line is not CLOSED:
            return None
        while True:
            try:
                return self._lines.put_nowait(line)
            except asyncio.QueueFull:
                self._lines.get_nowait()

    async def _mirror_lines(self) -> None:
        reason = "complete"
        try:
            async with asyncio.timeout(STREAM_WITHIN):
                stream = await self._participant.streams.request_stream(
                    "upload",
                    description=f"reasoning:{self.id}",
                    content_type="application/x-ndjson",
                    format="jsonl",
                    correlation_id=(self.id,),
                )
        except (MewError, TimeoutError) as fault:
            logger.info("reasoning %s has no stream: %s", self.id, fault)
            return
        self.stream_id = stream.id
        try:
            while (line := await self._lines.get()) is not None:
                await stream.write_json({"context": self.id, **line})
        except asyncio.CancelledError:
            reason = "cancelled"
            raise
        except MewError as fault:
            logger.info("the stream of reasoning %s ended: %s", self.id, fault)
        finally:
            with contextlib.suppress(MewError):
                await stream.close(reason)
