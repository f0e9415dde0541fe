"""What comes true after a while: a test waits for it and for nothing longer, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


async def until(holds: Callable[[], Any], *, what: str = "", within: float = 40.0) -> Any:
    """The first true value of `holds`, within so many seconds; other tasks of the loop run meanwhile."""
    end = time.monotonic() + within
    while not (value := holds()):
        assert time.monotonic() < end, f"never happened: {what or holds}"
        await asyncio.sleep(0.001)
    return value


def eventually(holds: Callable[[], Any], *, within: float = 40.0) -> Any:
    """The first true value of `holds`, within so many seconds, where other threads or processes bring it about."""
    end = time.monotonic() + within
    while not (value := holds()):
        assert time.monotonic() < end, f"never happened: {holds}"
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
