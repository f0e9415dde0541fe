"""When does a lesson give the same ids and times every time?  When MEW_LAB_SEED is set; nothing else reads it.

Without it the clock is the wall's and ids are random. With it every clock starts at the same moment and moves one
millisecond at each look, and ids follow from the seed and from who makes them. Tokens are random always.
"""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import NamedTuple

__all__ = ["Source", "source"]

VARIABLE = "MEW_LAB_SEED"
START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)


class Source(NamedTuple):
    """Where one owner takes its times and its ids from."""

    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    new_epoch: Callable[[], int]


def source(owner: str) -> Source:
    """The times and ids of one owner: a gateway, or one participant."""
    seed = os.environ.get(VARIABLE, "")
    if not seed:
        return Source(lambda: datetime.now(UTC), lambda: str(uuid.uuid4()), lambda: secrets.randbits(64))
    root = sha256(f"{seed}/{owner}".encode()).digest()
    looks, made = count(), count(1)
    space = uuid.UUID(bytes=root[:16])
    return Source(
        lambda: START + timedelta(milliseconds=next(looks)),
        lambda: str(uuid.uuid5(space, str(next(made)))),
        lambda: int.from_bytes(root[16:24]),
    )
