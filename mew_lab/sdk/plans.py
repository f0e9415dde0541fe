"""When is what done again?  A task for each name that sleeps until its next step is due.

What a step is, and what follows from it, its maker says; a plan only knows whether it is settled: whether what it
was made for has happened, or will not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

__all__ = ["Next", "Plans"]


class Next(NamedTuple):
    """What follows a step: another one `after` seconds; `failures` in a row so far; whether it is settled now."""

    after: float
    failures: int = 0
    settled: bool = True


class Plans:
    """At most one plan a name. A step that gives None is the last of its plan.

    Args:
        step: the next step of a name, given its failures in a row.
        wait: sleeps for some seconds.
        on_settled: called when a name is settled, its plan's end included.
        on_fault: called with what a step raises; that ends its plan.
    """

    def __init__(
        self,
        step: Callable[[str, int], Coroutine[Any, Any, Next | None]],
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

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def make(self, name: str, after: float, *, settled: bool = False) -> None:
        """From now on this is the plan of `name`: its first step `after` seconds. `settled` plans are not awaited."""
        self.drop(name)
        if not settled:
            self.unsettled.add(name)
        self._tasks[name] = asyncio.get_running_loop().create_task(self._follow(name, after))

    def drop(self, name: str) -> None:
        """Ends the plan of `name`, if it has one. A step on its way is not awaited any more."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            self._settle(name)

    def clear(self) -> None:
        """Ends all plans."""
        for name in tuple(self._tasks):
            self.drop(name)

    async def close(self) -> None:
        """Ends all plans, and returns when they have ended."""
        self.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    def _settle(self, name: str) -> None:
        self.unsettled.discard(name)
        self._on_settled()

    async def _follow(self, name: str, after: float) -> None:
        failures = 0
        try:
            while True:
                await self._wait(max(after, 0.0))
                following = await self._step(name, failures)
                if following is None:
                    return
                after, failures = following.after, following.failures
                if following.settled:
                    self._settle(name)
        except Exception as fault:
            self._on_fault(fault)
        finally:
            if self._tasks.get(name) is asyncio.current_task():
                del self._tasks[name]
                self._settle(name)
