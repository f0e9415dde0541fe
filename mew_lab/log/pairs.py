"""Measures how long calls waited: requests for their answers, proposals for somebody's decision.

What counts as an answer or a decision is the ledger's to say (`ledger.calls`); of a proposal the first decision counts.
There is no clock here; refused envelopes and notifications wait for nobody.

Spec: §3.1, §3.2, §3.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from mew_lab.ledger.calls import CALL_KINDS, CallLedger, Change, Proposal
from mew_lab.ledger.entry import Entry

__all__ = ["MOST_OPEN", "WEIGHT", "How", "Pair", "Spread", "Strip", "pair_of", "pairs_of", "spread"]

MOST_OPEN = 5000
WEIGHT = 8 * 1024 * 1024  # characters of the calls that wait, and of some that do not any more
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
    """How long it took: `of` how many, half of them at most `p50` seconds, nineteen of twenty at most `p95`."""

    of: int
    p50: float
    p95: float


def spread(seconds: Iterable[float]) -> Spread:
    """Nearest-rank percentiles; zeros where there is nothing."""
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
        if change.what != "answered":
            return None
    began = call.entry
    seconds = max(0.0, entry.t - began.t)
    return Pair(strip, began.seq, began.sender, entry.seq, entry.t, seconds, how, entry.sender)


def pairs_of(entries: Iterable[Entry]) -> tuple[list[Pair], CallLedger]:
    """All pairs among the entries, in the order of the answers, and the ledger, which holds what still waits."""
    ledger, pairs = CallLedger(limit=MOST_OPEN, weight=WEIGHT), list[Pair]()
    for entry in entries:
        if entry.kind in CALL_KINDS:
            pairs += filter(None, map(pair_of, ledger.observe(entry)))
    return pairs, ledger
