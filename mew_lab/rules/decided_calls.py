"""Decisions on calls as a learner and a card read them, and what was decided on calls like one that is asked for.

Two calls are *equal* where target, method, tool and arguments are the same. They are *alike* where the same participant
asks the same target for the same tool with the same names of arguments; an equal call of that participant is alike, too.

Spec: §2.1, §9.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.text import count_of

__all__ = [
    "AboutKey",
    "AlikeKey",
    "AskedCall",
    "CallHistories",
    "CallHistory",
    "DecidedCall",
    "Verdict",
    "alike_key",
]

Verdict = Literal["approved", "rejected", "undecided"]
AboutKey = tuple[str, str, str]
"""Proposer, target, tool."""
AlikeKey = tuple[str, str, str, tuple[str, ...]]
"""These, and the sorted names of the arguments."""
WEEK = 7  # days within which a weekday names a day


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedCall:
    """One proposal and what became of it.

    Attributes:
        seq: The number of the decision in its log, or of the proposal where nobody decided it.
        t: The time of the decision, in seconds since 1970.
        proposal: The id of the proposal.
        proposer: The participant that proposed it, by its own name; `target` is the one that the call goes to.
        tool_hash: The SHA-256 of the entry of the tool as it was shown, empty where it is not known; `hints` are the
            words for its annotations.
        proposed: The arguments that were proposed; None where they are not known. `sent` are those that were sent.
        edited: Whether other arguments were sent than the proposed ones.
        by: The participant that decided; `how` is the way, such as `click`.
        teaches: Whether a rule may learn from it; otherwise `teaches_not` is the reason.
    """

    seq: int
    t: float
    proposal: str = ""
    proposer: str
    target: str
    method: str = "tools/call"
    tool: str
    tool_hash: str = ""
    hints: tuple[str, ...] = ()
    proposed: Mapping[str, Any] | None
    sent: Mapping[str, Any] | None = None
    verdict: Verdict
    edited: bool = False
    by: str = ""
    how: str = ""
    teaches: bool = True
    teaches_not: str = ""

    @property
    def about(self) -> AboutKey:
        """Who asked whom for which tool."""
        return self.proposer, self.target, self.tool

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """The arguments on which was decided: those that were sent, else the proposed ones."""
        return self.sent if self.sent is not None else self.proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that somebody proposes now, with what its card says of it.

    Attributes:
        proposer: The participant that proposes it, by its own name; `target` is its only addressee, empty for several.
        tool_hash: The SHA-256 of the entry of the tool as the card shows it; empty where it is not known.
        hints: The words for the annotations of the tool.
        warnings: The orange boxes of the card.
        after_unknown: Whether it would repeat a call of which nobody knows whether it took effect.
        has_options: Whether it is the permission of an agent with options (R41).
        rejected: Whether a participant has rejected it.
    """

    proposer: str
    target: str
    method: str = "tools/call"
    tool: str
    arguments: Mapping[str, Any]
    tool_hash: str = ""
    hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    after_unknown: bool = False
    has_options: bool = False
    rejected: bool = False

    @property
    def about(self) -> AboutKey:
        """Who asks whom for which tool."""
        return self.proposer, self.target, self.tool


def alike_key(call: DecidedCall | AskedCall) -> AlikeKey | None:
    """What alike calls have in common; None where the arguments are not known."""
    arguments = call.arguments
    return None if arguments is None else (*call.about, tuple(sorted(map(str, arguments))))


def _equal_key(call: DecidedCall | AskedCall) -> str:
    return equality_key([call.target, call.method, call.tool, call.arguments])


class CallHistory(NamedTuple):
    """The decisions on calls like one: on equal ones, and on alike ones, equal ones included; the oldest first."""

    equal: tuple[DecidedCall, ...]
    alike: tuple[DecidedCall, ...]

    @property
    def approved(self) -> int:
        """How many alike calls were approved, edited ones included."""
        return sum(call.verdict == "approved" for call in self.alike)

    @property
    def rejected(self) -> int:
        """How many alike calls were rejected."""
        return sum(call.verdict == "rejected" for call in self.alike)

    def sentence(self, now: datetime) -> str:
        """Such as `like this: 11 approved, 1 rejected, last on Tuesday`; empty where nobody decided one.

        `now` is the present time; days are those of its time zone.
        """
        decided = [call for call in self.alike if call.verdict != "undecided"]
        if not decided:
            return ""
        edited = sum(call.edited for call in decided)
        parts = [f"{self.approved} approved" + (f" ({edited} edited)" if edited else "")]
        parts += [f"{self.rejected} rejected"] if self.rejected else []
        last = datetime.fromtimestamp(max(call.t for call in decided), now.tzinfo)
        return f"like this: {', '.join(parts)}, last {_day(last, now)}"

    def __str__(self) -> str:
        decided = sum(call.verdict != "undecided" for call in self.alike)
        return f"{count_of(decided, 'decision')} on alike calls, {len(self.equal)} on equal ones"


def _day(then: datetime, now: datetime) -> str:
    days = (now.date() - then.date()).days
    if days <= 0:
        return "today"
    if days == 1:
        return "yesterday"
    return f"on {then:%A}" if days < WEEK else f"on {then:%Y-%m-%d}"


class CallHistories:
    """Decided calls, found by what they are alike to. Decisions may be added as they come."""

    def __init__(self, calls: Iterable[DecidedCall] = ()) -> None:
        self._alike: dict[AlikeKey, list[DecidedCall]] = {}
        self._equal: dict[str, list[DecidedCall]] = {}
        for call in calls:
            self.add(call)

    def add(self, call: DecidedCall) -> None:
        """Adds the next decision."""
        if (key := alike_key(call)) is not None:
            self._alike.setdefault(key, []).append(call)
            self._equal.setdefault(_equal_key(call), []).append(call)

    def of(self, call: DecidedCall | AskedCall, *, but: str = "") -> CallHistory:
        """The history of a call; decisions on the proposal with the id `but` do not count."""
        key = alike_key(call)
        equal: Sequence[DecidedCall] = self._equal.get(_equal_key(call), ())
        alike: Sequence[DecidedCall] = () if key is None else self._alike.get(key, ())
        return CallHistory(
            *(tuple(one for one in found if not but or one.proposal != but) for found in (equal, alike))
        )
