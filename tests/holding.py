"""Measures what an object holds, so that a test of a bound on memory names no attribute of it."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection
from typing import Any

COLLECTIONS = (dict, list, set, frozenset, tuple, deque, str, bytes, bytearray)


def collections_of(*things: Any) -> list[Collection[Any]]:
    """Every collection and every text that these objects of the package hold, directly or through others."""
    seen: dict[int, Any] = {}
    left = list(things)
    while left:
        thing = left.pop()
        is_own = type(thing).__module__.startswith("mew_lab.") or any(thing is one for one in things)
        if id(thing) in seen or not (is_own or isinstance(thing, COLLECTIONS)):
            continue
        seen[id(thing)] = thing
        left += gc.get_referents(thing)
    return [thing for thing in seen.values() if isinstance(thing, COLLECTIONS)]


def most_held(*things: Any) -> int:
    """The entries of the largest table, list or queue that these objects hold."""
    tables = [
        held for held in collections_of(*things) if not isinstance(held, str | bytes | bytearray | tuple)
    ]
    return max(map(len, tables), default=0)


def longest_text(*things: Any) -> int:
    """The characters or bytes of the longest text that these objects hold."""
    texts = [held for held in collections_of(*things) if isinstance(held, str | bytes | bytearray)]
    return max(map(len, texts), default=0)
