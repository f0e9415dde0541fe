"""Reads a server's answer piece by piece: bytes in, a filled `Assembly` or a refusal out; pure.

An answer is an event stream, or one JSON text where a server knows no streams. It knows no connection.

Spec: SDK "Layer 3".
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from mew_lab.agent.chunks import MAX_LINE, Assembly, Events, TooLong
from mew_lab.agent.redaction import Redaction
from mew_lab.agent.refusals import Refusal, of_error
from mew_lab.protocol.visible import one_line

__all__ = ["Reading", "broken"]


class Reading:
    """One answer as it is read: events, or one JSON text. `over` when no more is wanted."""

    def __init__(self, assembly: Assembly, redaction: Redaction, *, whole: bool) -> None:
        self._assembly = assembly
        self._redaction = redaction
        self._whole = bytearray() if whole else None
        self._events = Events()
        self._head = b""
        self.over = False
        self.refusal: Refusal | None = None

    def take(self, piece: bytes | None) -> None:
        """The next bytes; None at the end."""
        try:
            if piece is None:
                self._end()
            elif self._whole is None:
                self._head = self._head or piece[:200]
                self._take(self._events.feed(piece))
            else:
                self._whole += piece
                if len(self._whole) > MAX_LINE:
                    raise TooLong(f"it has more than {MAX_LINE} bytes")
        except TooLong as err:
            self._refuse(Refusal(f"its answer was cut: {err}"))

    def _end(self) -> None:
        self.over = True
        if self._whole is None:
            self._take(self._events.end(), last=True)
        else:
            self._add(bytes(self._whole).decode("utf-8", "replace"))
        if self.refusal is not None or self._assembly.finished:
            return
        if self._assembly.begun and self._whole is None:
            self._refuse(broken(self._assembly))
        elif not self._assembly.begun:
            self._refuse(self._nonsense(self._head or bytes(self._whole or b"")))

    def _take(self, events: Iterable[str], *, last: bool = False) -> None:
        for data in events:
            if self.over and not last:
                return
            if data.startswith("[DONE]"):
                self.over = True
                if not self._assembly.begun:
                    self._refuse(self._nonsense(self._head))
            elif not last or self._complete(data):
                self._add(data)

    def _complete(self, data: str) -> bool:
        """Whether the last event, which no empty line ended, was not cut."""
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            return False
        return True

    def _add(self, data: str) -> None:
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict):
            self._refuse(self._nonsense(data[:200].encode("utf-8", "replace")))
        elif chunk.get("error"):
            self._refuse(of_error(chunk["error"], redaction=self._redaction))
        else:
            self._assembly.add(chunk)

    def _nonsense(self, head: bytes) -> Refusal:
        if not head.strip():
            return Refusal(
                "its answer was empty",
                "Its server may have failed while it answered: see its log.",
                empty=True,
            )
        begins = one_line(self._redaction.complaint(head.decode("utf-8", "replace")), 80)
        return Refusal(
            f"what it answered is no chat completion: {begins!r}",
            "Check base_url=: most servers want it to end in /v1.",
        )

    def _refuse(self, refusal: Refusal) -> None:
        self.over = True
        self.refusal = self.refusal or refusal


def broken(assembly: Assembly) -> Refusal:
    return Refusal(f"the stream broke off after {assembly.text_length} characters", "Try again.", broken=True)
