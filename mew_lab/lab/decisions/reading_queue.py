"""Reads messages on the loop in slices, so that a large message of one participant delays nobody else.

How it works. A reading is a generator of steps (`protocol.steps`). It begins at once: a small message is read in one
piece, and a larger one for one slice. What is longer waits here: one slice at a time runs, and after it the loop has at
least as long for others. Each participant has an allowance of processor time, which fills with a tenth of the time.
Whoever has most of it left is read first, so one that sends much waits behind those that send little; the readings of
one participant keep their order.

Texts that others may quote, and lists of tools, come before all else, for a card is compared with what was said before
it. A large text of a participant whose allowance is used up before its turn comes is not read at all.

Everything runs on the loop's thread. Spec: threats 37, 54.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, NamedTuple

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.steps import SLICE, Steps

__all__ = ["ReadingQueue"]

SHARE = 0.1  # of the time, for one participant
ALLOWANCE = 0.1  # seconds that a participant has at first, and at most
FREE = 0.002  # seconds of a first slice that cost nothing: small messages have the limits of the gateway
SMALL = 4_000  # characters of a message that is read in one piece, and of a text that is read in any case
MAX_PARTICIPANTS = 1_000


class _Reading(NamedTuple):
    who: str
    steps: Steps[Any]
    done: Callable[[Any], object]
    leave: Callable[[], object] | None = (
        None  # called in place of reading it, where its participant has no time left
    )


class ReadingQueue:
    """The readings that are not at their end."""

    def __init__(self) -> None:
        self._texts: deque[_Reading] = deque()
        # participant -> its readings, the oldest first
        self._waiting: dict[str, dict[Hashable, _Reading]] = {}
        self._whose: dict[Hashable, str] = {}
        self._left: BoundedDict[str, tuple[float, float]] = BoundedDict(MAX_PARTICIPANTS, refresh=True)
        self._timer: asyncio.TimerHandle | None = None
        self._rests_until = 0.0  # the loop's time before which the next slice does not run

    def __len__(self) -> int:
        return len(self._texts) + len(self._whose)

    def add(
        self, who: str, key: Hashable, steps: Steps[Any], done: Callable[[Any], object], *, size: int
    ) -> bool:
        """Begins a reading; returns whether it is at its end already. Then, or later, `done` gets its result."""
        reading = _Reading(who, steps, done)
        if (
            not self._texts
            and who not in self._waiting
            and self._allowance(who) > 0
            and self._run(reading, free=FREE, whole=size <= SMALL)
        ):
            return True
        self._waiting.setdefault(who, {})[key] = reading
        self._whose[key] = who
        self._wake()
        return False

    def add_text(
        self, who: str, steps: Steps[None], size: int, *, leave: Callable[[], object] | None
    ) -> None:
        """Begins to read what cards are compared with; calls `leave` where the participant may not have it read.

        Without `leave` it is read in any case.
        """
        is_small = size <= SMALL
        reading = _Reading("" if is_small else who, steps, lambda _: None, None if is_small else leave)
        if self._texts or not self._read_text(reading):
            self._texts.append(reading)
            self._wake()

    def _read_text(self, text: _Reading) -> bool:
        """Runs a slice of a text, or leaves it unread; returns whether that was its end."""
        is_new = getgeneratorstate(text.steps) == GEN_CREATED
        if text.leave is not None and is_new and self._allowance(text.who) <= 0:
            text.steps.close()
            text.leave()
            return True
        return self._run(text)

    def drop(self, key: Hashable) -> None:
        """Ends a reading whose result is not needed any more; does nothing when there is none."""
        who = self._whose.pop(key, None)
        if who is not None:
            self._waiting[who].pop(key).steps.close()
            if not self._waiting[who]:
                del self._waiting[who]

    def _allowance(self, who: str) -> float:
        """The seconds that a participant has left; below zero after a slice that took more."""
        left, at = self._left.get(who, (ALLOWANCE, 0.0))
        return min(ALLOWANCE, left + (time.monotonic() - at) * SHARE)

    def _run(self, reading: _Reading, *, free: float = 0.0, whole: bool = False) -> bool:
        """Runs one slice, or the whole; returns whether the reading is at its end."""
        begin = time.thread_time()
        is_over, result = False, None
        try:
            while whole or time.thread_time() - begin < SLICE:
                next(reading.steps)
        except StopIteration as over:
            is_over, result = True, over.value
        took = time.thread_time() - begin - free
        if reading.who and took > 0:
            self._left[reading.who] = (self._allowance(reading.who) - took, time.monotonic())
        if is_over:
            reading.done(result)
        return is_over

    def _wake(self, seconds: float = 0.0) -> None:
        """Lets the next slice run after so many seconds at the latest, yet not before the rest after the last one."""
        if not len(self):
            return
        loop = asyncio.get_running_loop()
        at = max(loop.time() + seconds, self._rests_until)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._turn)

    def _turn(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        begin, pause = loop.time(), 0.0
        try:
            if self._texts:
                text = self._texts.popleft()
                if not self._read_text(text):
                    self._texts.appendleft(text)
            elif self._waiting:
                who = max(self._waiting, key=self._allowance)
                if (left := self._allowance(who)) <= 0:
                    pause = max(-left / SHARE, SLICE)
                else:
                    key, reading = next(iter(self._waiting[who].items()))
                    self._run(reading._replace(done=lambda result: self._end(key, result)))
        finally:
            now = loop.time()
            self._rests_until = now + (now - begin)
            self._wake(pause)

    def _end(self, key: Hashable, result: Any) -> None:
        reading = self._waiting[self._whose[key]][key]
        self.drop(key)
        reading.done(result)

    def close(self) -> None:
        """Ends all readings."""
        if self._timer is not None:
            self._timer.cancel()
        for reading in (*self._texts, *(one for held in self._waiting.values() for one in held.values())):
            reading.steps.close()
        self._texts.clear()
        self._waiting.clear()
        self._whose.clear()
