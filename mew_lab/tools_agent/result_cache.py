"""Keeps results for so many seconds, each with the participants whose lists of tools it rests on.

`Executor` decides what is kept, and asks again before it gives a kept result away. A change in the list of a participant
forgets what rests on it. The module knows neither tools nor calls; its clocks are given.

Spec: TA-73.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic, time
from typing import Generic, TypeVar

from mew_lab.protocol.bounded import BoundedDict

__all__ = ["MAX_RESULT", "CachedResult", "ResultCache"]

MAX_KEPT = 200  # results
MAX_RESULT = 262_144  # characters of one result; a longer one is not kept
MAX_CHARACTERS = 8_000_000  # of all results

V = TypeVar("V")


@dataclass(frozen=True)
class CachedResult(Generic[V]):
    """One result. `at` is when it was made, in seconds of the epoch; it rests on the lists of `participants`."""

    value: V
    at: float
    ends_at: float
    participants: frozenset[str]
    size: int


class ResultCache(Generic[V]):
    """The newest results by their keys. `changes` counts what has been forgotten because of a change."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, now: Callable[[], float] = time) -> None:
        self.changes = 0
        self._clock = clock
        self._now = now
        self._kept: BoundedDict[str, CachedResult[V]] = BoundedDict(
            MAX_KEPT, refresh=True, max_size=MAX_CHARACTERS, size_of=lambda kept: kept.size
        )

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: str) -> CachedResult[V] | None:
        """The result of a key that is still good."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() >= kept.ends_at:
            del self._kept[key]
            return None
        return kept

    def keep(self, key: str, value: V, *, seconds: float, participants: Iterable[str], size: int) -> None:
        """Keeps a result of `size` characters; one that is too long is not kept."""
        if size <= MAX_RESULT:
            ends_at = self._clock() + seconds
            self._kept[key] = CachedResult(value, self._now(), ends_at, frozenset(participants), size)

    def forget(self, participant: str) -> None:
        """Forgets what rests on the list of a participant."""
        self.changes += 1
        for key in [key for key, kept in self._kept.items() if participant in kept.participants]:
            del self._kept[key]

    def clear(self) -> None:
        """Forgets everything."""
        self.changes += 1
        self._kept.clear()
