"""The names that a lab knows without asking anybody: what a completion offers, on any thread.

Each source gives pairs of a name and a few words about it. Names and words come from peers, as they sent them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.questions import Questions
from mew_lab.lab.session import Seated
from mew_lab.protocol.permit import PROFILES

__all__ = ["KnowingLab", "Named", "known_names", "short_id"]

Named = tuple[str, str]


class KnowingLab(Protocol):
    """What names are read from; a `Lab` is one."""

    @property
    def me(self) -> Seated: ...
    @property
    def decisions(self) -> HumanDecisions: ...
    @property
    def asked(self) -> Questions: ...
    def known_tools(self) -> list[tuple[str, Mapping[str, Any]]]: ...


def short_id(decisions: HumanDecisions, card: Card) -> str:
    """The beginning of its proposal's id that means this card alone. Spec: R37."""
    for length in (4, 8, 12):
        with contextlib.suppress(MewError):
            if decisions.card(card.id[:length]).id == card.id:
                return card.id[:length]
    return card.id


def known_names(lab: KnowingLab, source: str) -> Iterable[Named]:
    """The names of one source; none of a source that is not known."""
    find = _SOURCES.get(source)
    return () if find is None else find(lab)


def _participants(lab: KnowingLab) -> list[Named]:
    return [(name, "participant") for name in sorted(lab.me.participant.client.participants)]


def _proposals(lab: KnowingLab) -> list[Named]:
    return [(short_id(lab.decisions, card), card.request) for card in lab.decisions.pending()]


def _calls(lab: KnowingLab) -> list[Named]:
    """The calls that run."""
    running = lab.decisions.running.open()
    return [(one.id, f"call of {', '.join(one.envelope.to[:3])}") for one in running]


def _tools(lab: KnowingLab) -> list[Named]:
    return [(name, str(tool.get("description") or "tool")) for name, tool in lab.known_tools()]


def _questions(lab: KnowingLab) -> list[Named]:
    return [(question.id, f"question of {question.server}") for question in lab.asked.pending()]


_SOURCES: Mapping[str, Callable[[KnowingLab], Iterable[Named]]] = {
    "participant": _participants,
    "proposal": _proposals,
    "call": _calls,
    "tool": _tools,
    "question": _questions,
    "profile": lambda lab: [(name, "profile") for name in PROFILES],
    "target": lambda lab: [*_participants(lab), ("none", "everybody again")],
}
