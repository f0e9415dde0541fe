"""Runs several pieces of work at once as a group: where one fails, the others are cancelled, so none goes on alone.

`asyncio.gather` leaves the siblings of a failed piece running. A call among them would go on to ask a person for
something that nobody waits for any more; one that is cancelled is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["run_all"]

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
