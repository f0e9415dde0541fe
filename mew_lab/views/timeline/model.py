"""Statistics of the traffic: messages per second, and how long requests and proposals wait.

Kept, whatever the load: the counts by family of the last 3600 seconds and the last 1440 minutes in which something was
said, and the newest 5000 answered questions of either kind. What waits is read from the ledger of calls that the feed
keeps. One writer, the loop's thread; other threads get copies, each made in one step that the interpreter does not
divide.

It draws nothing and does not know what belongs together beyond a question and its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import CallLedger, Change
from mew_lab.ledger.entry import Entry
from mew_lab.log.charts import MOST_BARS, Series
from mew_lab.log.pairs import Pair, Spread, pair_of, spread
from mew_lab.protocol.families import FAMILIES, family_index

__all__ = ["KindCounts", "TrafficStats"]

SECONDS, MINUTES, POINTS = 3600, 1440, 5000
_STEPS = (1, 2, 5, 10, 15, 30, 60)


class KindCounts(NamedTuple):
    """What was said from `start` on (epoch, seconds), for a second or a minute: counts in the order of `FAMILIES`."""

    start: int
    counts: tuple[int, ...]


class TrafficStats:
    """Follows a space and its calls.

    `count` is how many envelopes there were, `now` when the last one came (epoch, seconds).
    """

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0
        self._second, self._minute = 0, 0
        self._this_second = self._this_minute = [0] * len(FAMILIES)
        self._seconds: deque[tuple[int, list[int]]] = deque(maxlen=SECONDS)
        self._minutes: deque[tuple[int, list[int]]] = deque(maxlen=MINUTES)
        self._calls = CallLedger()  # the one of the feed, once that has told of a call
        self._pairs: dict[str, deque[Pair]] = {
            "request": deque(maxlen=POINTS),
            "decision": deque(maxlen=POINTS),
        }
        self._answered = {"request": 0, "decision": 0}
        self._subscribers: Subscribers[()] = Subscribers()

    def take(self, entry: Entry) -> None:
        """Counts the next envelope."""
        second = int(entry.t)
        if second > self._second:
            self._turn(second)
        place = family_index(entry.kind)
        self._this_second[place] += 1
        self._this_minute[place] += 1
        self.count += 1
        self.now = entry.t
        self._subscribers.tell()

    def take_changes(self, changes: tuple[Change, ...], calls: CallLedger) -> None:
        """Measures the calls that the next envelope answers or decides."""
        self._calls = calls
        for pair in filter(None, map(pair_of, changes)):
            self._pairs[pair.strip].append(pair)
            self._answered[pair.strip] += 1

    def _turn(self, second: int) -> None:
        self._second, self._this_second = second, [0] * len(FAMILIES)
        self._seconds.append((second, self._this_second))
        if second - second % 60 > self._minute:
            self._minute, self._this_minute = second - second % 60, [0] * len(FAMILIES)
            self._minutes.append((self._minute, self._this_minute))

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back after each envelope, on the loop's thread; returns what ends it."""
        return self._subscribers.add(on_change)

    # --- for any thread ---

    def seconds(self, after: int = 0) -> list[KindCounts]:
        """The seconds that began after that moment and in which something was said, oldest first."""
        return _beats(self._seconds, after)

    def minutes(self, after: int = 0) -> list[KindCounts]:
        """The same by minutes."""
        return _beats(self._minutes, after)

    def answered(self, strip: str) -> int:
        """How many questions of that kind (`request` or `decision`) were answered so far."""
        return self._answered[strip]

    def pairs(self, strip: str, limit: int = POINTS) -> list[Pair]:
        """The newest answered questions of that kind, oldest first."""
        return list(self._pairs[strip])[-limit:] if limit > 0 else []

    def spread(self, strip: str) -> Spread:
        """How long the newest 5000 of that kind took."""
        return spread(pair.seconds for pair in self.pairs(strip))

    def waiting(self, strip: str) -> list[Entry]:
        """The calls of that kind that wait for an answer or a decision now, oldest first."""
        calls = self._calls
        waiting = calls.requests.open() if strip == "request" else calls.proposals.open()
        return [call.entry for call in waiting]

    def series(self, seconds: int) -> Series:
        """The counts of the last so many seconds up to the last envelope, in at most 240 equal parts."""
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
                for place, count in enumerate(beat.counts):
                    part[place] += count
        return Series(float(first), float(step), tuple(map(tuple, counts)))


def _beats(held: deque[tuple[int, list[int]]], after: int) -> list[KindCounts]:
    return [KindCounts(start, tuple(counts)) for start, counts in list(held) if start > after]
