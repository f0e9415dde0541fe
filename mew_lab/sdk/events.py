"""Who wants to be told of what a client lives through?  Messages, frames, states, errors: by callback or iterator.

It knows no connection: whoever has one tells. Each `on_…` returns a function that ends it.

Spec: SDK "Events", "Stream Support".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.connection import State
from mew_lab.sdk.signal import Signal, Subscription

__all__ = ["Events", "StreamData"]


class StreamData(NamedTuple):
    """One frame of a stream, without its prefix."""

    stream_id: str
    data: bytes


class Events:
    """Those who asked to be told; what they raise goes to `on_error`."""

    def __init__(self) -> None:
        self._errors: Signal[Exception] = Signal()
        self._messages: Signal[Envelope] = Signal(on_fault=self._errors)
        self._welcomes: Signal[dict[str, Any]] = Signal(on_fault=self._errors)
        self._connects: Signal[None] = Signal(on_fault=self._errors)
        self._disconnects: Signal[MewError | None] = Signal(on_fault=self._errors)
        self._attempts: Signal[int] = Signal(on_fault=self._errors)
        self._states: Signal[State] = Signal(on_fault=self._errors)
        self._frames: dict[str | None, Signal[StreamData]] = {}  # by stream; None: of all streams

    def on_message(self, handler: Callable[[Envelope], Any]) -> Callable[[], None]:
        """Every envelope of the space, in the gateway's order, own echoes included."""
        return self._messages.add(handler)

    def on_welcome(self, handler: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
        """The payload of each welcome to this client: at every admission, and when its rights change."""
        return self._welcomes.add(handler)

    def on_connected(self, handler: Callable[[None], Any]) -> Callable[[], None]:
        """A link is open; the welcome is still to come."""
        return self._connects.add(handler)

    def on_disconnected(self, handler: Callable[[MewError | None], Any]) -> Callable[[], None]:
        """The link is closed, and why; None after `disconnect()`. Another attempt may follow."""
        return self._disconnects.add(handler)

    def on_reconnecting(self, handler: Callable[[int], Any]) -> Callable[[], None]:
        """Another attempt is about to be made; its number, counted from 1."""
        return self._attempts.add(handler)

    def on_error(self, handler: Callable[[Exception], Any]) -> Callable[[], None]:
        """What nobody else is told of: a malformed message, a handler that raised, an unawaited refusal."""
        return self._errors.add(handler)

    def on_state(self, handler: Callable[[State], Any]) -> Callable[[], None]:
        """Each new state, in order, none left out."""
        return self._states.add(handler)

    def on_stream_data(
        self, handler: Callable[[StreamData], Any], *, stream_id: str | None = None
    ) -> Callable[[], None]:
        """Every frame of every stream, or of the one named; the former are told first. Spec: SDK "Stream Support"."""
        told = self._frames.setdefault(stream_id, Signal(on_fault=self._errors))
        remove = told.add(handler)

        def end() -> None:
            remove()
            if not told and self._frames.get(stream_id) is told:
                del self._frames[stream_id]

        return end

    def report(self, error: Exception) -> None:
        """Hands an error to whoever asked by `on_error`."""
        self._errors(error)

    def messages(self, *, limit: int = 10_000) -> Subscription[Envelope]:
        """Every envelope from now on, for `async for`; goes on over reconnections, ends with the client.

        A reader that falls more than `limit` behind gets a MewError instead of a silent gap.
        """
        return self._messages.subscribe(limit=limit)

    # --- for whoever has the connection ---

    def _tell_frame(self, frame: StreamData) -> None:
        for signal in (self._frames.get(None), self._frames.get(frame.stream_id)):
            if signal is not None:
                signal(frame)
