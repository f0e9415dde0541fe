"""Statistics of the traffic: messages per second, and how long requests and proposals wait.

The model holds the counts by family of the last 3600 seconds and the last 1440 minutes with traffic, and the newest 5000
answered requests and 5000 decided proposals. The waiting calls are read from the ledger of calls that the feed keeps.
Only the loop's thread writes; other threads get copies, each made in one step that the interpreter does not divide.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import Change
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.log.charts import MOST_BARS, Series
from mew_lab.log.pairs import Pair, Spread, pair_of, spread
from mew_lab.protocol.families import FAMILIES, family_index

__all__ = ["KindCounts", "TrafficStats"]

SECONDS, MINUTES, POINTS = 3600, 1440, 5000
_STEPS = (1, 2, 5, 10, 15, 30, 60)


class KindCounts(NamedTuple):
    """The counts of a second or minute in the order of `FAMILIES`; `start` is in seconds of the epoch."""

    start: int
    counts: tuple[int, ...]


class TrafficStats:
    """The statistics of one space, from its envelopes and its calls.

    `count` is the number of envelopes, `now` the time of the last one in seconds of the epoch.
    """

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0
        self._second, self._minute = 0, 0
        self._this_second = self._this_minute = [0] * len(FAMILIES)
        self._seconds: deque[tuple[int, list[int]]] = deque(maxlen=SECONDS)
        self._minutes: deque[tuple[int, list[int]]] = deque(maxlen=MINUTES)
        self._ledger = Ledger()  # that of the feed, once an envelope has come
        self._pairs: dict[str, deque[Pair]] = {
            "request": deque(maxlen=POINTS),
            "decision": deque(maxlen=POINTS),
        }
        self._answered = {"request": 0, "decision": 0}
        self.changed: Subscribers[()] = Subscribers()

    def take(self, entry: Entry) -> None:
        """Counts the next envelope."""
        second = int(entry.t)
        if second > self._second:
            self._turn(second)
        index = family_index(entry.kind)
        self._this_second[index] += 1
        self._this_minute[index] += 1
        self.count += 1
        self.now = entry.t
        self.changed.tell()

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Adds the durations of the calls that the next envelope answers or decides."""
        self._ledger = ledger
        for change in changes:
            if isinstance(change, Change) and (pair := pair_of(change)) is not None:
                self._pairs[pair.strip].append(pair)
                self._answered[pair.strip] += 1

    def _turn(self, second: int) -> None:
        self._second, self._this_second = second, [0] * len(FAMILIES)
        self._seconds.append((second, self._this_second))
        if second - second % 60 > self._minute:
            self._minute, self._this_minute = second - second % 60, [0] * len(FAMILIES)
            self._minutes.append((self._minute, self._this_minute))

    # --- for any thread ---

    def seconds(self, after: int = 0) -> list[KindCounts]:
        """The seconds with traffic that began after `after` (seconds of the epoch), oldest first."""
        return _beats(self._seconds, after)

    def minutes(self, after: int = 0) -> list[KindCounts]:
        """The minutes with traffic that began after `after` (seconds of the epoch), oldest first."""
        return _beats(self._minutes, after)

    def answered(self, strip: str) -> int:
        """The number of answered requests (`request`) or decided proposals (`decision`) so far."""
        return self._answered[strip]

    def pairs(self, strip: str, limit: int = POINTS) -> list[Pair]:
        """The newest answered requests or decided proposals, oldest first."""
        return list(self._pairs[strip])[-limit:] if limit > 0 else []

    def spread(self, strip: str) -> Spread:
        """The distribution of the durations of the newest 5000 pairs, in seconds."""
        return spread(pair.seconds for pair in self.pairs(strip))

    def waiting(self, strip: str) -> list[Entry]:
        """The requests without an answer, or the proposals without a decision, oldest first."""
        calls = self._ledger.calls
        waiting = calls.requests.open() if strip == "request" else calls.proposals.open()
        return [call.entry for call in waiting]

    def series(self, seconds: int) -> Series:
        """The counts of the last `seconds` up to the last envelope, in at most 240 equal parts."""
        if not self.count:
            return Series(0.0, 1.0, ())
        fine = seconds <= SECONDS
        held = self.seconds() if fine else self.minutes()
        end = int(self.now)
        first = max(end - seconds + 1, held[0].start)
        units = _STEPS if fine else tuple(60 * unit for unit in _STEPS)
        step = next((unit for unit in units if (end - first) / unit < MOST_BARS - 1), units[-1])
        first -= first % step
        counts = [[0] * len(FAMILIES) for _ in range((end - first) // step + 1)]
        for beat in held:
            if first <= beat.start <= end:
                part = counts[(beat.start - first) // step]
                for index, count in enumerate(beat.counts):
                    part[index] += count
        return Series(float(first), float(step), tuple(map(tuple, counts)))


def _beats(held: deque[tuple[int, list[int]]], after: int) -> list[KindCounts]:
    return [KindCounts(start, tuple(counts)) for start, counts in list(held) if start > after]
