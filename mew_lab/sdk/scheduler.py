"""Schedules the steps of many keys, and holds the intervals of tool discovery.

`KeyedScheduler` runs one task for each key. `Pace` holds the intervals of discovery; `StartSpacing` spaces its first
attempts.

Spec: SDK "Participant Join Flow and Tool Discovery".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

__all__ = ["AT_ONCE", "KeyedScheduler", "NextStep", "Pace", "StartSpacing"]


class NextStep(NamedTuple):
    """The step after a step: `after` seconds from now, after `failures` in a row; and whether its key is settled."""

    after: float
    failures: int = 0
    settled: bool = True


class KeyedScheduler:
    """At most one task for each key, which sleeps until its next step is due. A step that returns None is the last.

    A key is settled once the purpose of its schedule is reached or abandoned; its steps report that.

    Args:
        step: Takes one step of a key, given its failures in a row; returns the next one.
        wait: Sleeps for a number of seconds.
        on_settled: Called when a key is settled, also at the end of its task.
        on_fault: Called with an exception of a step, which ends the task.

    Attributes:
        unsettled: The keys that are scheduled and not settled.
    """

    def __init__(
        self,
        step: Callable[[str, int], Coroutine[Any, Any, NextStep | None]],
        *,
        wait: Callable[[float], Coroutine[Any, Any, object]],
        on_settled: Callable[[], object],
        on_fault: Callable[[Exception], object],
    ) -> None:
        self.unsettled: set[str] = set()
        self._step = step
        self._wait = wait
        self._on_settled = on_settled
        self._on_fault = on_fault
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def schedule(self, key: str, after: float, *, settled: bool = False) -> None:
        """Schedules a step of `key`, in place of an earlier schedule."""
        self.cancel(key)
        if not settled:
            self.unsettled.add(key)
        self._tasks[key] = asyncio.get_running_loop().create_task(self._follow(key, after))

    def cancel(self, key: str) -> None:
        """Ends the task of `key`, if it has one, also during a step."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            self._settle(key)

    def clear(self) -> None:
        """Ends all tasks."""
        for key in tuple(self._tasks):
            self.cancel(key)

    async def close(self) -> None:
        """Ends all tasks and waits for their end."""
        self.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    def _settle(self, key: str) -> None:
        self.unsettled.discard(key)
        self._on_settled()

    async def _follow(self, key: str, after: float) -> None:
        failures = 0
        try:
            while True:
                await self._wait(max(after, 0.0))
                following = await self._step(key, failures)
                if following is None:
                    return
                after, failures = following.after, following.failures
                if following.settled:
                    self._settle(key)
        except Exception as fault:
            self._on_fault(fault)
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
                self._settle(key)


# --- the schedule of discovery ---


class Pace(NamedTuple):
    """The intervals of discovery, in seconds.

    `stagger` is the gap before the second of several starts; each gap is longer by as much, up to `longest`:
    0.1, 0.2, 0.3 … 3. At most `at_once` requests wait for an answer at the same time. One that waits for longer than
    `slow` is not counted, so that silent participants delay no other. `retries` are the waits before each repetition of
    a failed attempt. A list is fresh for `ttl`, then it is requested again. `timeout` is the limit for one page.

    The example of the specification waits 3 to 5 s for each participant, whatever their number. An agent waits 5 s for
    discovery before it thinks, so with two participants it would think without tools. Here the first is asked at
    once, ten within 4.5 s, and from the thirtieth on it is the 3 s of the example: fifty take 104 s. The gaps keep
    many newcomers from asking everybody together. A single newcomer with a user who waits takes `AT_ONCE`.
    """

    stagger: float = 0.1
    longest: float = 3.0
    at_once: int = 32
    slow: float = 0.25
    retries: tuple[float, ...] = (5.0, 10.0, 15.0)
    ttl: float = 300.0
    timeout: float = 10.0


AT_ONCE = Pace(stagger=0.0)
"""The pace of a gate, whose client waits, and of the seats of one lab, which are few: only `at_once` bounds it."""


class StartSpacing:
    """Spaces the first attempts of discovery: assigns each start once, in order. It has no clock."""

    def __init__(self) -> None:
        self._latest = float("-inf")
        self._burst = 0

    def next(self, now: float, pace: Pace, *, waiting: int) -> float:
        """Assigns the next start, as seconds from `now`.

        It is at most `waiting` times the longest gap, where `waiting` is the number of others that wait. So a
        participant that joins and leaves repeatedly cannot delay the others without limit.
        """
        earliest = self._latest + min(pace.stagger * (self._burst + 1), pace.longest)
        earliest = min(earliest, now + waiting * pace.longest)
        if now >= earliest:
            self._burst, self._latest = 0, now
        else:
            self._burst, self._latest = self._burst + 1, earliest
        return self._latest - now
