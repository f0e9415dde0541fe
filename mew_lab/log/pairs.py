"""How long did questions wait for their answers?  Requests for responses, proposals for somebody's decision.

Read one envelope after the other, in order. What a peer claims is not what happened: only an addressee answers a
request, only somebody else than the proposer fulfils or rejects a proposal, only the proposer withdraws it; the first
that does so counts. Refused envelopes and notifications wait for nobody. It has no clock and draws nothing.

Spec: §3.1, §3.2, §3.3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from mew_lab.log.chains import MOST_RELATED

__all__ = ["MOST_OPEN", "PAIRED", "Asked", "Pair", "Pairing", "Said", "Spread", "pairs_of", "spread"]

MOST_OPEN = 5000
PAIRED = frozenset({"mcp/request", "mcp/response", "mcp/proposal", "mcp/reject", "mcp/withdraw"})
Strip = Literal["request", "decision"]
How = Literal["answered", "fulfilled", "rejected", "withdrawn"]


class Said(Protocol):
    """What must be known of an envelope; a `Step` knows it, and so does what a view's model hears."""

    @property
    def seq(self) -> int: ...
    @property
    def t(self) -> float: ...
    @property
    def id(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def to(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> str: ...
    @property
    def correlation_id(self) -> tuple[str, ...]: ...
    @property
    def payload(self) -> Mapping[str, Any]: ...
    @property
    def refused(self) -> bool: ...


class Asked(NamedTuple):
    """A question that waits: its number, when it came, who asked whom."""

    seq: int
    t: float
    sender: str
    to: tuple[str, ...]


class Pair(NamedTuple):
    """A question with its answer. `seq` and `t` are the answer's, `asked` and `asker` the question's, `by` answered."""

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


class Pairing:
    """Matches answers to questions; at most `most` of either kind wait, the oldest are given up.

    `requests` and `proposals` are what waits now, the oldest first.
    """

    def __init__(self, *, most: int = MOST_OPEN) -> None:
        self._most = most
        self.requests: OrderedDict[str, Asked] = OrderedDict()
        self.proposals: OrderedDict[str, Asked] = OrderedDict()

    def take(self, said: Said) -> list[Pair]:
        """What this envelope answers."""
        if said.refused:
            return []
        kind = said.kind
        if kind == "mcp/response":
            return self._answered(said)
        if kind == "mcp/request":
            pairs = self._decided(said, "fulfilled") if self.proposals else []
            if not str(said.payload.get("method")).startswith("notifications/"):
                self._wait(self.requests, said)
            return pairs
        if kind == "mcp/proposal":
            self._wait(self.proposals, said)
        elif kind in ("mcp/reject", "mcp/withdraw"):
            return self._decided(said, "rejected" if kind == "mcp/reject" else "withdrawn")
        return []

    def _wait(self, waiting: OrderedDict[str, Asked], said: Said) -> None:
        id = said.id
        if not id or id in waiting:
            return
        waiting[id] = Asked(said.seq, said.t, said.sender, said.to)
        if len(waiting) > self._most:
            waiting.popitem(last=False)

    def _answered(self, said: Said) -> list[Pair]:
        pairs = []
        for id in said.correlation_id[:MOST_RELATED]:
            asked = self.requests.get(id)
            if asked is not None and (not asked.to or said.sender in asked.to):
                del self.requests[id]
                pairs.append(_pair("request", asked, said, "answered"))
        return pairs

    def _decided(self, said: Said, how: How) -> list[Pair]:
        pairs = []
        for id in said.correlation_id[:MOST_RELATED]:
            asked = self.proposals.get(id)
            if asked is None or (said.sender == asked.sender) != (how == "withdrawn"):
                continue
            if how == "fulfilled" and asked.to and set(said.to) != set(asked.to):
                continue
            del self.proposals[id]
            pairs.append(_pair("decision", asked, said, how))
        return pairs


def _pair(strip: Strip, asked: Asked, said: Said, how: How) -> Pair:
    seconds = max(0.0, said.t - asked.t)
    return Pair(strip, asked.seq, asked.sender, said.seq, said.t, seconds, how, said.sender)


def pairs_of(steps: Iterable[Said]) -> tuple[list[Pair], Pairing]:
    """All pairs among the envelopes, in the order of the answers, and what still waits at the end."""
    pairing, pairs = Pairing(), list[Pair]()
    for step in steps:
        if step.kind in PAIRED:
            pairs += pairing.take(step)
    return pairs, pairing
