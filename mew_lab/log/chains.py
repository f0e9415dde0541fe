"""Which envelopes belong together?  From a question to all that came of it, whatever the peers claim.

Envelopes hang together by `correlation_id`, and by `context`, whose last part names the reasoning that they belong to.
An `Exchange` is everything that hangs together with one envelope, the nearest first. Ids are claims: they may name
nothing, each other in a ring, or what somebody else said before; so an id names the first accepted envelope that took
it, rings are walked once, and everything is bounded. It has no clock and draws nothing.

Spec: §3 (correlation_id, context), §3.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.line import read_members
from mew_lab.protocol.describe import describe
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["MOST_HELD", "MOST_SHOWN", "Chains", "Exchange", "Step", "chains_of", "steps_of"]

MOST_HELD = 20_000
MOST_SHOWN = 200
MOST_RELATED = 32  # of what one envelope claims to belong to


class Step(NamedTuple):
    """One envelope in an exchange. `seq` counts envelopes from 1, as the feed does; `t` is the epoch in seconds."""

    seq: int
    t: float
    id: str
    sender: str
    to: tuple[str, ...]
    kind: str
    correlation_id: tuple[str, ...]
    context: str
    verdict: str
    code: str
    raw: str

    @property
    def refused(self) -> bool:
        """Whether the gateway let nobody have it."""
        return self.verdict == "refused"

    @property
    def payload(self) -> Mapping[str, Any]:
        """Read again from the text at each call."""
        found = (read_members(self.raw) or {}).get("payload")
        return found if isinstance(found, dict) else {}

    @property
    def what(self) -> str:
        """What it says, in one line."""
        return describe(self.kind, self.payload) if self.kind else "unreadable message"

    @classmethod
    def read(cls, record: Record, seq: int) -> Step:
        """The step that a record with a message is."""
        raw = record.raw or ""
        members = read_members(raw) or {}
        return cls(
            seq,
            record.now.timestamp(),
            _text(members.get("id")),
            _text(members.get("from")) or record.participant,
            _texts(members.get("to")),
            _text(members.get("kind")),
            _texts(members.get("correlation_id"))[:MOST_RELATED],
            _text(members.get("context")),
            record.verdict,
            record.code,
            raw,
        )


@dataclass(frozen=True)
class Exchange:
    """What hangs together with `selected`, in the order received; `left_out` more were further away."""

    selected: Step
    steps: tuple[Step, ...]
    left_out: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the steps, in their order."""
        return tuple(step.id for step in self.steps)

    @cached_property
    def participants(self) -> tuple[str, ...]:
        """Everybody who sends or is named as addressee, by first appearance."""
        found: dict[str, None] = {}
        for step in self.steps:
            for who in (step.sender, *step.to):
                found.setdefault(who)
        return tuple(found)

    @property
    def seconds(self) -> float:
        """From the first to the last step."""
        return max(0.0, self.steps[-1].t - self.steps[0].t)

    def __repr__(self) -> str:
        count = "1 envelope" if len(self.steps) == 1 else f"{len(self.steps)} envelopes"
        return f"<Exchange of {count} in {self.seconds:.2f} s around #{self.selected.seq}>"


class Chains:
    """The newest envelopes, at most `most`, by what they belong to."""

    def __init__(self, *, most: int = MOST_HELD) -> None:
        self._most = most
        self._held: dict[int, Step] = {}  # by seq
        self._order: deque[int] = deque()
        self._named: dict[str, Step] = {}
        self._about: dict[str, deque[int]] = {}  # id -> the seqs of what claims to belong to it

    def add(self, step: Step) -> None:
        """Takes the next envelope, in the order received."""
        if step.seq in self._held:
            return
        self._held[step.seq] = step
        self._order.append(step.seq)
        named = self._named.get(step.id)
        if step.id and (named is None or (named.refused and not step.refused)):
            self._named[step.id] = step
        for id in _claims(step):
            self._about.setdefault(id, deque()).append(step.seq)
        while len(self._held) > self._most:
            self._drop(self._held.pop(self._order.popleft()))

    def _drop(self, step: Step) -> None:
        if self._named.get(step.id) is step:
            del self._named[step.id]
        for id in _claims(step):
            related = self._about[id]
            related.popleft()
            if not related:
                del self._about[id]

    def __len__(self) -> int:
        return len(self._held)

    def find(self, which: str | int) -> Step | None:
        """The envelope with that id, or that number in the feed; None when it is not held."""
        if isinstance(which, int):
            return self._held.get(which)
        found = self._named.get(which)
        if found is None and which.removeprefix("#").isascii() and which.removeprefix("#").isdigit():
            found = self._held.get(int(which.removeprefix("#")[:18]))
        return found

    def belongs(self, step: Step, seqs: frozenset[int]) -> bool:
        """Whether the step claims to belong to one of these, or one of these claimed to belong to it."""
        return any(near.seq in seqs for near in self._near(step))

    def exchange(self, which: str | int, *, most: int = MOST_SHOWN) -> Exchange:
        """Everything that hangs together with the envelope of that id or number, at most `most` steps.

        Raises:
            JournalError: when there is no such envelope, or it is not held any more.
        """
        start = self.find(which)
        if start is None:
            named = f"#{which}" if isinstance(which, int) else f"“{one_line(which, 60)}”"
            first = self._order[0] if self._order else 0
            held = f"the {len(self._held)} from #{first} on are held" if self._held else "none is held"
            raise JournalError(
                f"Cannot show the exchange of {named}: no such envelope; {held}. "
                "Give the id of one, or its number in the feed."
            )
        seen, queue = {start.seq: start}, deque([start])
        while queue:
            for near in self._near(queue.popleft()):
                if near.seq not in seen:
                    seen[near.seq] = near
                    queue.append(near)
        nearest = list(seen.values())[:most]
        steps = tuple(sorted(nearest, key=lambda step: step.seq))
        return Exchange(start, steps, len(seen) - len(steps))

    def _near(self, step: Step) -> Iterator[Step]:
        for id in _claims(step):
            if (parent := self._named.get(id)) is not None:
                yield parent
        # What claims to belong to an id belongs to whoever has the id, not to one that took it later.
        if step.id and self._named.get(step.id) is step:
            for seq in self._about.get(step.id, ()):
                yield self._held[seq]


def steps_of(records: Iterable[Record]) -> Iterator[Step]:
    """The envelopes among the records, numbered from 1 as in the feed."""
    seq = 0
    for record in records:
        if record.raw is not None:
            seq += 1
            yield Step.read(record, seq)


def chains_of(records: Iterable[Record], *, most: int = 200_000) -> Chains:
    """The envelopes of a log (`log.records`) by what they belong to; of more than `most` the newest."""
    chains = Chains(most=most)
    for step in steps_of(records):
        chains.add(step)
    return chains


def _claims(step: Step) -> Iterable[str]:
    if not step.context:
        return step.correlation_id
    return dict.fromkeys((*step.correlation_id, step.context.rpartition("/")[2]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return (
        tuple(dict.fromkeys(one for one in value if isinstance(one, str))) if isinstance(value, list) else ()
    )
