"""Measures the times from requests to their answers and from proposals to their decisions.

The ledger (`ledger.calls`) determines answers and decisions; the first decision on a proposal counts. This module has
no clock; refused envelopes and notifications have no answer.

Spec: §3.1, §3.2, §3.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from mew_lab.ledger.calls import CALL_KINDS, CallLedger, Change, Proposal
from mew_lab.ledger.entry import Entry
from mew_lab.log.entries import seconds_between

__all__ = ["MOST_OPEN", "WEIGHT", "How", "Pair", "Spread", "Strip", "pair_of", "pairs_of", "spread"]

MOST_OPEN = 5000
WEIGHT = 8 * 1024 * 1024  # characters of the open calls, and of some that have ended
Strip = Literal["request", "decision"]
How = Literal["answered", "fulfilled", "rejected", "withdrawn"]
_DECISIONS: dict[str, How] = {"fulfilled": "fulfilled", "rejected": "rejected", "withdrawn": "withdrawn"}


class Pair(NamedTuple):
    """A call with its answer or decision.

    `seq` and `t` are those of the answer, `asked` is the number of the call, `asker` sent it, `by` answered.
    """

    strip: Strip
    asked: int
    asker: str
    seq: int
    t: float
    seconds: float
    how: How
    by: str


class Spread(NamedTuple):
    """The spread of `of` durations: half of them last at most `p50` seconds, 95 % at most `p95`."""

    of: int
    p50: float
    p95: float


def spread(seconds: Iterable[float]) -> Spread:
    """The nearest-rank percentiles of durations; zeros where there are none."""
    values = sorted(seconds)
    if not values:
        return Spread(0, 0.0, 0.0)
    rank = [max(0, -(-len(values) * percent // 100) - 1) for percent in (50, 95)]
    return Spread(len(values), values[rank[0]], values[rank[1]])


def pair_of(change: Change) -> Pair | None:
    """The pair that a change of the ledger completes: an answered request, or the first decision on a proposal."""
    call, entry = change.call, change.entry
    how: How | None
    if isinstance(call, Proposal):
        strip: Strip = "decision"
        how = _DECISIONS.get(change.what)
        if how is None or len(call.rejections) > (how == "rejected"):
            return None
    else:
        strip, how = "request", "answered"
        # A refusal waits for the answer of another request (R32).
        if change.what != "answered" or call.state != "answered":
            return None
    began = call.entry
    seconds = seconds_between(began, entry)
    if seconds is None:
        return None
    return Pair(strip, began.seq, began.sender, entry.seq, entry.t, seconds, how, entry.sender)


def pairs_of(entries: Iterable[Entry]) -> tuple[list[Pair], CallLedger]:
    """All pairs among the entries, in the order of the answers, and the ledger with the open calls."""
    ledger, pairs = CallLedger(limit=MOST_OPEN, weight=WEIGHT), list[Pair]()
    for entry in entries:
        if entry.kind in CALL_KINDS:
            pairs += filter(None, map(pair_of, ledger.observe(entry)))
    return pairs, ledger
