"""Runs work in steps on the running loop, in slices, so that a large message delays nobody else there."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from mew_lab.protocol.steps import SLICE, Steps

__all__ = ["in_slices"]

T = TypeVar("T")


async def in_slices(steps: Steps[T]) -> T:
    """The result of the steps; the loop serves others after each slice, and never where one slice is enough."""
    begin = time.thread_time()
    try:
        while True:
            next(steps)
            if time.thread_time() - begin >= SLICE:
                await asyncio.sleep(0)
                begin = time.thread_time()
    except StopIteration as over:
        result: T = over.value
        return result
