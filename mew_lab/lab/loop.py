"""The one event loop of this process, and the only place where synchronous code meets asynchronous code.

How it works. One daemon thread with one event loop owns every gateway, participant and bridge, so none of them needs a
lock. `run` blocks the calling thread until a coroutine is done; `submit` returns a future; `call` reads live state;
`post` does not wait. On the loop's own thread `run` returns an `Underway` to await, where its caller passes that on.
Work starts in an empty context: a task that one notebook cell starts must not print into that cell for ever. Where
threads do not exist (WebAssembly) the running loop is used instead, and blocking functions return a task to await.

The one lock guards the start of the thread: two threads may need the first loop at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Generic, TypeVar

from mew_lab.errors import CannotWait, NoReply

__all__ = ["LoopThread", "Underway", "the_loop"]

T = TypeVar("T")
IDLE = 0.2  # seconds between two calls of `idle`


class Underway(Generic[T]):
    """The work of a blocking method that was called on the loop's own thread: `await` it for its value.

    It has begun. Code that takes it for the value itself is told to await it.
    """

    def __init__(self, task: asyncio.Task[T], *, doing: str) -> None:
        self._task = task
        self._doing = doing

    def __await__(self) -> Generator[Any, None, T]:
        return self._task.__await__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise CannotWait(
            f"{self._doing}: this was called on the loop that does the work, so its value is not here yet; "
            "write `await` before it"
        )

    def __str__(self) -> str:
        return f"{self._doing}: under way; write `await` before it"

    __repr__ = __str__


class LoopThread:
    """An event loop in a daemon thread, started at its first use."""

    def __init__(self, name: str = "mew_lab") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.threadless = False

    @classmethod
    def of_running(cls) -> LoopThread:
        """The loop that runs on the calling thread, which others have started and end."""
        adopted = cls()
        adopted._loop, adopted._thread = asyncio.get_running_loop(), threading.current_thread()
        return adopted

    @property
    def running(self) -> bool:
        """Whether the thread was started and not stopped."""
        return self._thread is not None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is not None:
                return self._loop
            if sys.is_finalizing():  # a thread that is started now never runs, and its start waits for ever
                raise RuntimeError("The interpreter is ending.")
            loop = asyncio.new_event_loop()
            ready = threading.Event()

            def serve() -> None:
                asyncio.set_event_loop(loop)
                loop.call_soon(ready.set)
                loop.run_forever()

            thread = threading.Thread(target=serve, name=self._name, daemon=True)
            try:
                # A new thread copies no context, so the loop keeps nothing of the calling cell.
                thread.start()
            except RuntimeError:
                loop.close()
                self.threadless = True
                raise
            ready.wait()
            self._loop, self._thread = loop, thread
            return loop

    def _find_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of the thread, which is started where it is not yet; None where none can be."""
        with contextlib.suppress(RuntimeError):
            return None if self.threadless else self._start()
        return None

    def is_current(self) -> bool:
        """Whether the calling code runs on this loop's own thread."""
        return self._thread is not None and threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts `work` on the loop and returns at once. Cancelling the future cancels the work.

        Raises:
            CannotWait: There are no threads here, and no loop runs.
        """
        if (loop := self._find_loop()) is not None:
            return contextvars.Context().run(asyncio.run_coroutine_threadsafe, work, loop)
        future: Future[T] = Future()
        self._here(work).add_done_callback(lambda task: _pass_on(task, future))
        return future

    def _here(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts `work` as a task of the running loop, where threads do not exist."""
        try:
            return asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        except RuntimeError:
            work.close()
            raise CannotWait(
                "There are no threads here and no event loop runs; call this inside `async def` and await it"
            ) from None

    def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        timeout: float,
        doing: str,
        idle: Callable[[], object] | None = None,
        awaitable: bool = False,
    ) -> T:
        """Runs `work` on the loop and returns its result; blocks up to `timeout` seconds.

        Where there are no threads, returns a task to await instead.

        Args:
            idle: called on the calling thread some times a second while it waits, and once more at the end, such as to
                print what the work tells.
            awaitable: Whether the caller passes the result on as it is, so that on the loop's own thread it may be an
                `Underway` to await.

        Raises:
            NoReply: It took longer; the work is cancelled, and may have taken effect.
            CannotWait: It was called on the loop's own thread, and is not `awaitable`.
        """
        if self.is_current() and awaitable:
            return Underway(self._here(_end_within(work, timeout, doing)), doing=doing)  # type: ignore[return-value]
        if self.is_current():
            work.close()
            raise CannotWait(
                f"{doing}: this blocks, and it was called on the loop that has to do the work; "
                "use the awaitable form on `seat.participant` there"
            )
        if self._find_loop() is None and self.threadless:
            return self._here(work)  # type: ignore[return-value]
        future = self.submit(work)
        try:
            return future.result(timeout) if idle is None else _wait_idly(future, timeout, idle)
        except FutureTimeout:
            if future.done():  # the time-out of the work itself, with its own message
                raise
            self._cancel(future)
            raise _took_too_long(timeout, doing) from None
        except KeyboardInterrupt:
            self._cancel(future)
            raise

    def _cancel(self, future: Future[Any]) -> None:
        """Cancels the work and waits until it has cleaned up."""
        future.cancel()
        with contextlib.suppress(FutureTimeout):
            # some turns of the loop: the cancelled task runs its `finally`
            self.submit(asyncio.sleep(0.05)).result(2.0)

    def call(self, function: Callable[[], T], *, timeout: float = 10.0) -> T:
        """Calls a plain function on the loop's thread and returns its result; for snapshots of live state."""
        if self.threadless or self._thread is None or self.is_current():
            return function()

        async def snapshot() -> T:
            return function()

        return self.submit(snapshot()).result(timeout)

    def post(self, function: Callable[[], object]) -> None:
        """Calls a plain function on the loop soon, without waiting for it."""
        if self._loop is not None and not self.threadless:
            contextvars.Context().run(self._loop.call_soon_threadsafe, function)
        else:
            function()

    def stop(self, *, timeout: float = 2.0) -> None:
        """Stops the thread and closes the loop; the next use starts a new one. Does nothing when none runs."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        if thread.is_alive():
            with contextlib.suppress(RuntimeError, FutureTimeout):
                asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
        if not thread.is_alive():
            loop.close()


def _took_too_long(timeout: float, doing: str) -> NoReply:
    return NoReply(
        f"{doing[:1].upper()}{doing[1:]} took longer than {timeout:g} s, so the wait was ended. It may have "
        "taken effect: look before you try again with a longer `lab.timeout`",
        after_s=timeout,
        waiting_for=doing,
    )


async def _end_within(work: Coroutine[Any, Any, T], timeout: float, doing: str) -> T:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():  # the time-out of the work itself, with its own message
            raise
        raise _took_too_long(timeout, doing) from None


def _wait_idly(future: Future[T], timeout: float, idle: Callable[[], object]) -> T:
    """The result of a future; `idle` is called meanwhile."""
    end = time.monotonic() + timeout
    try:
        while (left := end - time.monotonic()) > IDLE and not future.done():
            wait({future}, IDLE)
            idle()
        return future.result(max(left, 0.0))
    finally:
        idle()


def _pass_on(task: asyncio.Task[T], future: Future[T]) -> None:
    if task.cancelled():
        future.cancel()
    elif fault := task.exception():
        future.set_exception(fault)
    else:
        future.set_result(task.result())


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


_the_loop = LoopThread()


def the_loop() -> LoopThread:
    """The one loop of this process."""
    return _the_loop
