"""May this participant send now?  The pause it is under, the shutdown it was told, and the guard that holds back.

Who may pause whom is a matter of capabilities, which the gateway judges. What is held back, and when it may go,
is decided here; what is done about it (a status, an answer that waited) is told to whoever has this.

Spec: §3.9.1, §3.9.2, §3.9.10, ruling R14.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import WHILE_PAUSED
from mew_lab.protocol.payloads.controls import ParticipantPause
from mew_lab.protocol.payloads.system import SystemError
from mew_lab.protocol.text import parse_timestamp
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient

__all__ = ["Pause", "Pausing"]

MARGIN = 0.05  # seconds after its end: the gateway's clock decides, and it may be a little slower than ours
FAR = 1e8  # seconds, three years: no timer is set for what is farther away
MAX_REASON = 300


class Pause(NamedTuple):
    """`by` whom and why; `until` None until somebody resumes; `id` of the message, empty where it was not seen.

    Spec: §3.9.1.
    """

    by: str
    reason: str
    until: datetime | None
    id: str

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        until = "until it is resumed" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"paused by {self.by}{why}, {until}"


class Pausing:
    """The pause of one participant; `state` is None while it is active.

    Args:
        hold: told True when requests are to be kept, and False when they may be answered again.
        expired: told the pause whose time was over.
        clock: the time in UTC.
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
        """Returns when there is no pause; at once when there is none."""
        await self._active.wait()

    def asked(self, envelope: Envelope, payload: ParticipantPause) -> Pause:
        """A `participant/pause` begins to hold; it replaces an earlier one."""
        seconds = payload.timeout_seconds
        until = None if seconds is None else self._after(seconds)
        reason = one_line(payload.reason or "", MAX_REASON)
        return self._begin(Pause(envelope.sender, reason, until, envelope.id), seconds)

    def enforced(self, refusal: Envelope, payload: SystemError) -> Pause | None:
        """The gateway refused a message because of a pause; None when that pause is known."""
        if self.state is not None:
            return None
        until = parse_timestamp(
            getattr(payload, "paused_until", None)
        )  # ours says it, the specification does not
        seconds = None if until is None else max(0.0, (until - self._clock()).total_seconds())
        reason = one_line(payload.message or "", MAX_REASON)
        return self._begin(Pause(refusal.sender, reason, until, ""), seconds)

    def end(self) -> Pause | None:
        """The pause is over, and was this one; None when there was none. What was held is let go by `release`."""
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
        """Next to nothing may be sent from now on, until `readmitted`."""
        self.over_by = by
        self._hold(True)

    def readmitted(self) -> None:
        """A shutdown is over; a pause outlives a reconnect."""
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
        except OverflowError:  # beyond the calendar is never
            return None

    def _guard(self, kind: str) -> None:
        if kind in WHILE_PAUSED:
            return
        name = self._client.id
        if self.over_by:
            said = f"Cannot send {kind} as {name!r}: it was shut down by {self.over_by}; start() joins again"
            raise LocalProtocolError(said, code="shut_down", section="§3.9.10")
        if self.state is not None:
            said = (
                f"Cannot send {kind} as {name!r}: it was {self.state}. wait_active() waits for the end, or let "
                "somebody who may send participant/resume"
            )
            raise LocalProtocolError(said, code="paused", section="§3.9.1")
