"""What does the feed show?  Turns journal records into rows as they come, and keeps the newest of them.

One writer, the loop's thread; readers on any thread get slices of a list that only grows, or of its successor, so no
lock is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mew_lab.protocol.describe import describe
from mew_lab.space.events import Record
from mew_lab.workbench.cards import Row
from mew_lab.workbench.subscribers import Subscribers

__all__ = ["LiveRows"]

CAPACITY = 20_000
MOST_RELATED = 50


class LiveRows:
    """The newest rows of a space; implements `cards.Rows`."""

    def __init__(self, title: Callable[[], tuple[str, int]], *, capacity: int = CAPACITY) -> None:
        self._title = title
        self._capacity = capacity
        self._kept: tuple[int, list[tuple[Row, Record]]] = (
            0,
            [],
        )  # how many were dropped before, and the rest
        self._seq_of: dict[str, int] = {}
        self._subscribers: Subscribers[()] = Subscribers()

    @property
    def last_seq(self) -> int:
        """The newest row's seq, 0 before the first."""
        dropped, rows = self._kept
        return dropped + len(rows)

    def since(self, seq: int, limit: int) -> list[Row]:
        """The rows after `seq`, oldest first, at most `limit`."""
        dropped, rows = self._kept
        start = max(0, seq - dropped)
        return [row for row, _ in rows[start : start + limit]]

    def raw(self, seq: int) -> str:
        """The exact text of that row's envelope; empty when it is not held any more."""
        record = self._record(seq)
        return record.raw or "" if record else ""

    def pattern(self, seq: int) -> str:
        """The whole capability that let that row's envelope pass; empty where none did, or it is not known."""
        record = self._record(seq)
        return record.pattern if record else ""

    def _record(self, seq: int) -> Record | None:
        dropped, rows = self._kept
        at = seq - dropped - 1
        return rows[at][1] if 0 <= at < len(rows) else None

    def title(self) -> tuple[str, int]:
        """The name of the space and the number of its members."""
        return self._title()

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back after rows were added; returns what ends it."""
        return self._subscribers.add(on_change)

    def observe(self, record: Record) -> None:
        """Takes a record; only those that hold a message become rows."""
        if record.raw is None:
            return
        dropped, rows = self._kept
        row = self._row(dropped + len(rows) + 1, record)
        rows.append((row, record))
        if row.id:
            self._seq_of[row.id] = row.seq
        if len(rows) > 2 * self._capacity:
            for old, _ in rows[: self._capacity]:
                if self._seq_of.get(old.id) == old.seq:
                    del self._seq_of[old.id]
            self._kept = (dropped + self._capacity, rows[self._capacity :])
        self._subscribers.tell()

    def _row(self, seq: int, record: Record) -> Row:
        raw = record.raw or ""
        members = _members(raw)
        kind, payload = _text(members.get("kind")), members.get("payload")
        related = members.get("correlation_id")
        first = related[0] if isinstance(related, list) and related else related
        to = members.get("to")
        return Row(
            seq=seq,
            t=record.now.timestamp(),
            sender=_text(members.get("from")) or record.participant,
            to=tuple(_text(one) for one in to) if isinstance(to, list) else (),
            kind=kind,
            what=describe(kind, payload if isinstance(payload, dict) else {})
            if members
            else "unreadable message",
            context=_text(members.get("context")),
            correlates=self._seq_of.get(_text(first), 0),
            verdict=record.verdict,
            code=record.code or _in_a_word(record.pattern),
            id=_text(members.get("id")),
            size=len(raw.encode("utf-8", "replace")),
            also=self._also(related) if isinstance(related, list) and len(related) > 1 else (),
        )

    def _also(self, related: list[Any]) -> tuple[int, ...]:
        seqs = (self._seq_of.get(_text(one), 0) for one in related[1:MOST_RELATED])
        return tuple(sorted({seq for seq in seqs if seq}))


@lru_cache(maxsize=1024)  # a space has few patterns and many messages
def _in_a_word(pattern: str) -> str:
    """The kinds of a pattern; `(…)` where it is narrowed further."""
    members = _members(pattern)
    kind = members.get("kind", "")
    word = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return f"{word}(…)" if "payload" in members or "to" in members else word


def _members(raw: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
