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
from mew_lab.lab.lab_stream import purpose_of
from mew_lab.lab.session import Seated
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.permit import PROFILES

__all__ = ["KnowingLab", "Named", "known_names", "short_id"]

MOST_TEXT = 200  # characters of a message

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


def _options(lab: KnowingLab) -> list[Named]:
    """The options of the agents that ask for a permission."""
    asking = [(card, card.permission) for card in lab.decisions.pending() if card.permission is not None]
    return [
        (one.id, f"{one.quoted} of {card.named(card.proposer)}")
        for card, asked in asking
        for one in asked.options
    ]


def _calls(lab: KnowingLab) -> list[Named]:
    """The calls that run."""
    running = lab.decisions.running.open()
    return [(one.id, f"call of {', '.join(one.envelope.to[:3])}") for one in running]


def _tools(lab: KnowingLab) -> list[Named]:
    return [(name, str(tool.get("description") or "tool")) for name, tool in lab.known_tools()]


def _questions(lab: KnowingLab) -> list[Named]:
    return [(question.id, f"question of {question.server}") for question in lab.asked.pending()]


def _chats(lab: KnowingLab) -> list[Named]:
    """The messages that wait for an acknowledgement of this person."""
    return [(chat.id, f"{chat.sender}: {chat.text[:MOST_TEXT]}") for chat in lab.me.participant.chats.pending]


def _own_chats(lab: KnowingLab) -> list[Named]:
    return [(chat.id, f"you: {chat.text[:MOST_TEXT]}") for chat in lab.me.participant.chats.unacknowledged]


def _to_acknowledge(lab: KnowingLab) -> list[Named]:
    waiting = _chats(lab)
    senders = dict.fromkeys(chat.sender for chat in lab.me.participant.chats.pending)
    return [("all", f"all {len(waiting)}"), *((name, "its messages") for name in senders), *waiting]


def _reasoning(lab: KnowingLab) -> list[Named]:
    active = lab.me.participant.ledger.reasoning.active()
    owners = dict.fromkeys(sequence.owner for sequence in active)
    return [*((name, "its reasoning") for name in owners), *((one.id, f"of {one.owner}") for one in active)]


def _streams(lab: KnowingLab) -> list[Named]:
    me = lab.me.participant
    return [
        (
            stream.id,
            f"of {stream.owner}: "
            f"{purpose_of(me.ledger.reasoning, stream.owner, stream.description) or stream.direction}",
        )
        for stream in me.streams.active.values()
    ]


def _grants(lab: KnowingLab) -> list[Named]:
    grants = [grant for grant in lab.me.participant.rights.grants if grant.stands]
    return [(grant.id, f"{grant.granter} to {grant.recipient}") for grant in grants]


def _permissions(lab: KnowingLab) -> list[Named]:
    kinds = [kind for kind, row in KINDS.items() if row.sender == "participant"]
    return [*((name, "profile") for name in PROFILES), *_tools(lab), *((kind, "kind") for kind in kinds)]


_SOURCES: Mapping[str, Callable[[KnowingLab], Iterable[Named]]] = {
    "participant": _participants,
    "proposal": _proposals,
    "option": _options,
    "call": _calls,
    "tool": _tools,
    "question": _questions,
    "cancel": lambda lab: [*_calls(lab), *_own_chats(lab), *_chats(lab)],
    "chat": _to_acknowledge,
    "reasoning": _reasoning,
    "stream": _streams,
    "grant": _grants,
    "permission": _permissions,
    "profile": lambda lab: [(name, "profile") for name in PROFILES],
    "target": lambda lab: [*_participants(lab), ("none", "everybody again")],
}
