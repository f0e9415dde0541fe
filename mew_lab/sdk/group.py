"""Runs work beside the task that begins it: as a group that fails as a whole, in the background, in a thread.

`asyncio.gather` leaves the siblings of a failed piece running. A call among them would go on to ask a person for
something that nobody waits for any more; one that is cancelled is withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["RunningTasks", "run_all", "run_aside"]

T = TypeVar("T")


async def run_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results, in the order of the work.

    Raises:
        Exception: what the first of them raised; the others were cancelled, and have ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failed:
        first: BaseException = failed
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return [task.result() for task in tasks]


class RunningTasks(set[asyncio.Task[Any]]):
    """Tasks in the background, each until it ends: one without a reference may be collected while it runs.

    Args:
        report: Called with an exception that a task raises; None leaves it to those that await the task.
    """

    def __init__(self, *, report: Callable[[Exception], object] | None = None) -> None:
        super().__init__()
        self._report = report

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs the work as one of these tasks."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self._note_end)
        return task

    def cancel(self) -> set[asyncio.Task[Any]]:
        """Cancels all of them but the calling one, and returns them."""
        others = {*self} - {asyncio.current_task()}
        for task in others:
            task.cancel()
        return others

    async def end(self, *, within: float | None = None) -> None:
        """Cancels all of them but the calling one, and waits for their ends; at most for so many seconds."""
        if others := self.cancel():
            ended, _ = await asyncio.wait(others, timeout=within)
            for task in ended:
                task.cancelled() or task.exception()  # marks it as retrieved

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self.discard(task)
        if self._report is not None and not task.cancelled():
            fault = task.exception()
            if isinstance(fault, Exception):
                self._report(fault)


def run_aside(work: Callable[[], T], *, name: str) -> asyncio.Future[T]:
    """Runs `work`, which may take its time, in a thread of that name; where there are none, as in a browser, at once.

    A daemon thread: the end of the process waits for none. What would end a loop or a generator there is a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if not done.done():  # else nobody waits any more
            done.set_exception(error) if error else done.set_result(value)

    def body() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as fault:
            fatal = isinstance(fault, StopIteration) or not isinstance(fault, Exception)
            error = RuntimeError(f"{type(fault).__name__}: {fault}") if fatal else fault
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(tell, value, error)

    try:
        threading.Thread(target=body, name=name, daemon=True).start()
    except RuntimeError:
        body()
    return done
