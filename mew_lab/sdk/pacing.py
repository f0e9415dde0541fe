"""When may the next participant be asked for its tools?  Figures, and the starts that they space; pure.

It knows no participant but by how many there are.

Spec: SDK "Participant Join Flow and Tool Discovery".
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Pace", "Starts"]


class Pace(NamedTuple):
    """How discovery takes its time, in seconds.

    `stagger` is the gap before the second of several starts; the gaps grow by as much each, up to `longest`:
    0.1, 0.2, 0.3 … 3. `retries` are the waits before each repetition of a failed attempt, `ttl` how long a list
    counts as fresh (then it is asked for again), `timeout` how long one page may take.

    The specification's example waits 3 to 5 s for each participant whatever their number. An agent waits 5 s for
    discovery before it thinks, so with two participants it would think without tools. Here the first is asked at
    once, ten within 4.5 s, and from the thirtieth on it is the 3 s of the example: fifty take 104 s.
    """

    stagger: float = 0.1
    longest: float = 3.0
    retries: tuple[float, ...] = (5.0, 10.0, 15.0)
    ttl: float = 300.0
    timeout: float = 10.0


class Starts:
    """The starts that were given out, in order."""

    def __init__(self) -> None:
        self._latest = float("-inf")
        self._burst = 0

    def next(self, now: float, pace: Pace, *, waiting: int) -> float:
        """Seconds from `now` until one more may start; it is given out with that.

        While `waiting` others wait it is at most `waiting` times the longest gap: who comes and goes without end
        uses up starts, and shall not put off everybody else's.
        """
        earliest = self._latest + min(pace.stagger * (self._burst + 1), pace.longest)
        earliest = min(earliest, now + waiting * pace.longest)
        if now >= earliest:
            self._burst, self._latest = 0, now
        else:
            self._burst, self._latest = self._burst + 1, earliest
        return self._latest - now
