"""Callbacks of the views of a model, called in the order of subscription when the model has changed.

The caller does not wait, so no callback may be a coroutine function. The tuple of callbacks is replaced, never changed:
a call needs no lock, and may happen thousands of times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVarTuple

__all__ = ["Subscribers", "wait_while"]

logger = logging.getLogger(__name__)
Arguments = TypeVarTuple("Arguments")


class Subscribers(Generic[*Arguments]):
    """Callbacks with the parameters `Arguments`. Any thread may add one, end one and call all of them."""

    __slots__ = ("_callbacks", "_replacing")

    def __init__(self) -> None:
        self._callbacks: tuple[Callable[[*Arguments], object], ...] = ()
        # Two changes at once must not replace each other's tuple; a call takes the present one. The lock is reentrant,
        # because a view that is collected while another one is removed here is removed as well.
        self._replacing = threading.RLock()

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[*Arguments], object]) -> Callable[[], None]:
        """Adds a callback; returns a function that removes it again, and that may be called twice."""
        with self._replacing:
            self._callbacks = (*self._callbacks, callback)
        held = [callback]

        def end() -> None:
            with self._replacing:
                if held:
                    left = list(self._callbacks)
                    with contextlib.suppress(ValueError):
                        left.remove(held.pop())
                    self._callbacks = tuple(left)

        return end

    def clear(self) -> None:
        """Removes all callbacks."""
        with self._replacing:
            self._callbacks = ()

    def tell(self, *what: *Arguments) -> None:
        """Calls all callbacks on this thread. An exception of one is logged and does not stop the others."""
        for callback in self._callbacks:
            try:
                callback(*what)
            except Exception:
                name = getattr(callback, "__qualname__", type(callback).__name__)
                logger.exception("%s could not take a change", name)


async def wait_while(
    holds: Callable[[], bool],
    subscribe: Callable[[Callable[[object], object]], Callable[[], None]],
    *,
    until: float,
) -> None:
    """Returns once `holds` is false, looked at after each change, or at the loop's time `until`."""
    changed = asyncio.Event()
    end = subscribe(lambda _: changed.set())
    try:
        async with asyncio.timeout_at(until):
            while holds():
                changed.clear()
                await changed.wait()
    except TimeoutError:
        pass
    finally:
        end()
