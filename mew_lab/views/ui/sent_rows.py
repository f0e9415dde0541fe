"""Tells what has changed of the rows of a view since its last message: by comparing them, or by what was noted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from mew_lab.views.ui.pictures import MOST_ROWS

__all__ = ["ChangedKeys", "RowNews", "SentRows"]

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")


class RowNews(NamedTuple, Generic[Key, Row]):
    """The rows that are new or changed, each with the row that the pages have (or None); and the keys of those gone.

    `is_cut` is whether there is more for the next message.
    """

    changed: list[tuple[Row, Row | None]]
    gone: list[Key]
    is_cut: bool


class SentRows(Generic[Key, Row]):
    """The rows that the pages of a view have, by key; only the writer uses it.

    Args:
        most: How many rows one message may have.
    """

    def __init__(self, *, most: int = MOST_ROWS) -> None:
        self._most = most
        self._held: dict[Key, Row] = {}

    def take(self, rows: Mapping[Key, Row]) -> RowNews[Key, Row]:
        """What is new in `rows`; it counts as sent."""
        fresh = [(key, row) for key, row in rows.items() if self._held.get(key) != row]
        gone = [key for key in self._held if key not in rows]
        is_cut = max(len(fresh), len(gone)) > self._most
        del fresh[self._most :], gone[self._most :]
        changed = [(row, self._held.get(key)) for key, row in fresh]
        self._held.update(fresh)
        for key in gone:
            del self._held[key]
        return RowNews(changed, gone, is_cut)


class ChangedKeys(Generic[Key]):
    """The keys of what has changed since they were last taken, each once, in order.

    Any thread adds a key once the change is made, and the writer reads what it stands for after taking it. So no change
    is lost, and no lock is needed: each step is one of the interpreter.
    """

    def __init__(self) -> None:
        self._keys: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Key) -> None:
        """Notes a change."""
        self._keys[key] = None

    def take(self, most: int | None = None) -> list[Key]:
        """The first `most` keys, or all."""
        keys = list(self._keys)[:most]
        for key in keys:
            del self._keys[key]
        return keys
