"""The participants of a space as rows with presence, status and capabilities.

What each participant does at present is read from the ledgers of calls and of reasoning. Its presence is read from the
space if that runs here, else from `ledger.members`, which also has reasons and times. The model keeps the last
`participant/status` of each. Rows are replaced, never changed, so any thread may read `rows`. They keep the order in
which participants became known, and a participant that left keeps its row. Bounds: 1000 participants, 2000 statuses, and
a length for each text.

The model sends nothing; `lab.actions` and `lab.invitations` do.

Spec: §3.7, §3.9.1, §3.9.4, rulings R14, R15.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple
from zlib import crc32

from mew_lab.lab.actions import ACTIONS, Agents, ParticipantActions
from mew_lab.lab.sentences import sentence
from mew_lab.lab.session import Session
from mew_lab.lab.standing import ParticipantKind, ParticipantStanding, classify, logical, standings
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import CALL_KINDS, Change, Proposal, Request
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.ledger.members import MEMBER_KINDS, PauseFacts
from mew_lab.ledger.reasoning import ENDS, ReasoningChange
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.describe import describe
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import read_capabilities
from mew_lab.protocol.visible import one_line
from mew_lab.views.ui.debounce import Debounce

__all__ = [
    "IDLE",
    "Activity",
    "MemberRow",
    "MemberStatus",
    "RosterModel",
    "summarize",
]

MOST_VALUE = 120  # characters of another metric
MOST_KEPT = 2000  # statuses that are kept
MOST_TEXT = 300
NEAR_LIMIT = 0.9  # of max_tokens: SDK "Context Usage & Status Telemetry"
GATHERED = 0.1  # seconds; changes within this time cause one refresh
LONGEST_NAP = 3600.0
GONE = ("left", "removed")
HUES = 8  # the colours of agents in view.css
_STANDARD = ("messages_in_context", "tokens", "max_tokens", "latency_ms", "status")


class MemberStatus(NamedTuple):
    """The last status that a participant sent, at `at` (seconds of the epoch); None for absent members. Spec: §3.9.4."""

    at: float
    status: str
    messages: int | None
    tokens: int | None
    max_tokens: int | None
    latency_ms: float | None
    more: tuple[tuple[str, str], ...]

    @property
    def usage(self) -> float | None:
        """The used part of the context, 1.0 for all of it; None when it is not known."""
        if self.tokens is None or not self.max_tokens:
            return None
        return self.tokens / self.max_tokens

    @property
    def near_limit(self) -> bool:
        """Whether at least nine tenths of the context are used."""
        return (self.usage or 0.0) >= NEAR_LIMIT


class Activity(NamedTuple):
    """What a participant does at present, as the ledger tells.

    `waiting`: a proposal of it is open; `thinking`: a sequence of reasoning is; `failed`: the last call that it sent or
    answered has failed. `since` is the begin (seconds of the epoch), `about` the tool or the error.
    """

    state: Literal["idle", "thinking", "waiting", "failed"]
    since: float = 0.0
    about: str = ""


IDLE: Final = Activity("idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """The present state of one participant.

    `presence` is `here`, `paused`, `shut down`, `left`, `removed` or `invited` (it has never joined). `since` is the
    time of its last change, if it is known. `ids` are the ids of its connections. `against` has the actions that the
    human may not perform on it, each with the reason. `chips` has its permissions in short, `kind` tells what it
    is, `doing` what it does at present. `hue` is the number of its colour, below `HUES`.
    """

    name: str
    you: bool
    what: str
    presence: str
    since: float | None
    ids: tuple[str, ...]
    sentence: str
    patterns: tuple[str, ...]
    status: MemberStatus | None
    paused: PauseFacts | None
    against: Mapping[str, str]
    chips: tuple[str, ...] = ()
    kind: ParticipantKind = "other"
    doing: Activity = IDLE
    hue: int = 0


class RosterModel:
    """The participants of one lab's space. Made on any thread, followed on the loop's."""

    kinds = (*sorted(MEMBER_KINDS | ENDS | CALL_KINDS), "participant/status", "capability/", "space/")

    def __init__(
        self,
        session: Session,
        *,
        steering: ParticipantActions | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rows: tuple[MemberRow, ...] = ()
        self.agents = Agents((), ())
        self.steering = steering or ParticipantActions(session)
        self._session = session
        self._clock = clock
        self._statuses: BoundedDict[str, MemberStatus] = BoundedDict(MOST_KEPT, refresh=True)
        self._ledger = Ledger()  # that of the feed, once an envelope has come
        self._failures: BoundedDict[str, Activity] = BoundedDict(MOST_KEPT, refresh=True)
        self._hues: BoundedDict[str, int] = BoundedDict(MOST_KEPT, refresh=True)
        self.changed: Subscribers[()] = Subscribers()
        self._soon = Debounce(self.refresh)

    # --- for any thread ---

    def find(self, name: str) -> MemberRow | None:
        """The row of the participant with that name; None when it is not known."""
        return next((row for row in self.rows if row.name == name), None)

    # --- from the log, on the loop's thread ---

    def take(self, entry: Entry) -> None:
        """Updates the rows soon by one envelope of the log."""
        if entry.refused or entry.kind.startswith(("mcp/", "reasoning/")):
            return  # `take_changes` has what matters of them
        if entry.kind == "participant/status":
            self._statuses[self._who(entry.sender)] = _status(entry)
        self.refresh_soon()

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Updates the rows soon where reasoning or a proposal began or ended, or a call was answered."""
        self._ledger = ledger
        for change in changes:
            if isinstance(change, ReasoningChange):
                self.refresh_soon()
            if not isinstance(change, Change):
                continue
            call = change.call
            if change.what in ("answered", "resolved") and call.method == "tools/call":
                failed = _failure(call, change.entry)
                for name in {self._who(call.sender), self._who(change.entry.sender)}:
                    if failed is not None:
                        self._failures[name] = failed
                    elif name in self._failures:
                        del self._failures[name]
            elif not isinstance(call, Proposal):
                continue
            self.refresh_soon()

    def _who(self, id: str) -> str:
        return logical(self._session, id)

    # --- rows ---

    def refresh_soon(self) -> None:
        """Rebuilds `rows` in a moment: an envelope is reported before its effects are complete."""
        self._soon.within(GATHERED)

    def refresh(self) -> None:
        """Rebuilds `rows`; calls the subscribers if a row has changed."""
        self._soon.cancel()
        now = self._clock().timestamp()
        everybody = standings(self._session)
        by_name = {standing.name: standing for standing in (*everybody, *self._former())}
        activities = self._activities()
        # Rows do not move: a known participant keeps its place.
        order = dict.fromkeys((*(row.name for row in self.rows if row.name in by_name), *by_name))
        rows = self._coloured([self._row(by_name[name], now, activities.get(name, IDLE)) for name in order])
        ends = [row.paused.until for row in rows if row.paused and row.paused.until is not None]
        if ends:
            self._soon.within(min(max(min(ends) - now + 0.01, GATHERED), LONGEST_NAP))
        agents = self.steering.agents(everybody)
        if rows != self.rows or agents != self.agents:
            self.rows, self.agents = rows, agents
            self.changed.tell()

    def _coloured(self, rows: Sequence[MemberRow]) -> tuple[MemberRow, ...]:
        """The rows with their colours: an agent keeps its own, which was one that the fewest agents here had."""
        uses = Counter(self._hues[row.name] for row in rows if row.name in self._hues)
        here = Counter(
            self._hues[row.name] for row in rows if row.name in self._hues and row.presence not in GONE
        )
        for row in rows:
            if row.kind == "agent" and row.name not in self._hues:
                first = crc32(
                    row.name.encode("utf-8", "surrogatepass")
                )  # the same in each space, where it is free
                wished = [(first + n) % HUES for n in range(HUES)]
                self._hues[row.name] = hue = min(wished, key=lambda hue: (here[hue], uses[hue]))
                uses[hue] += 1
                here[hue] += 1
        return tuple(replace(row, hue=self._hues.get(row.name, 0)) for row in rows)

    def _activities(self) -> dict[str, Activity]:
        """What each participant does; what concerns the human first, so a wait goes before a thought."""
        activities = dict(self._failures)
        for sequence in reversed(self._ledger.reasoning.active()):
            activities[self._who(sequence.owner)] = Activity("thinking", sequence.started)
        for proposal in reversed(self._ledger.calls.proposals.open()):
            about = one_line(proposal.tool or proposal.method, 60)
            activities[self._who(proposal.sender)] = Activity("waiting", proposal.entry.t, about)
        return activities

    def _former(self) -> Iterator[ParticipantStanding]:
        """The participants that have left a space that runs elsewhere, with their last capabilities."""
        here = self._session.me.participant.client.participants
        for member in self._ledger.members if self._session.host is None else ():
            row = self.find(member.name)
            if row is not None and not row.you and member.came and not member.ids and member.name not in here:
                yield ParticipantStanding(member.name, (), (), row.patterns, certain=False)

    def _row(self, standing: ParticipantStanding, now: float, doing: Activity) -> MemberRow:
        member = self._ledger.members.get(standing.name)
        paused, shut_down = self._find_pause(standing, now)
        kicked = standing.kicked or (
            not standing.certain and not standing.ids and member is not None and member.removed
        )
        against = {
            action: why
            for action in ACTIONS
            if (why := self.steering.find_obstacle(action, self._with_pause(standing, paused)))
        }
        presence = (
            "removed" if kicked
            else "invited" if not standing.came and not standing.ids
            else "shut down" if shut_down
            else "left" if not standing.ids
            else "paused" if paused
            else "here"
        )  # fmt: skip
        seat = self._session.seats.get(standing.name)
        return MemberRow(
            name=standing.name,
            you=standing.name == self._session.me.name,
            what=seat.what if seat is not None else "elsewhere",
            presence=presence,
            since=member.since if member is not None else None,
            ids=standing.ids,
            sentence=_sentence(standing.texts),
            patterns=standing.texts,
            status=self._statuses.get(standing.name),
            paused=None if kicked else paused,
            against=against,
            chips=summarize(standing.texts),
            kind=classify(self._session, standing),
            doing=doing if presence == "here" and standing.name != self._session.me.name else IDLE,
        )

    def _find_pause(self, standing: ParticipantStanding, now: float) -> tuple[PauseFacts | None, bool]:
        member = self._ledger.members.get(standing.name)
        known_pause = member.pause if member is not None else None
        if standing.certain:
            if not standing.paused_by:
                return None, standing.shut_down
            known = known_pause if known_pause is not None and known_pause.by == standing.paused_by else None
            since, reason = (known.since, known.reason) if known is not None else (None, "")
            paused: PauseFacts | None = PauseFacts(standing.paused_by, reason, since, standing.until)
        else:
            paused = known_pause
        shut_down = standing.shut_down if standing.certain else member is not None and member.shut_down
        return paused if paused is not None and paused.holds(now) else None, shut_down

    @staticmethod
    def _with_pause(standing: ParticipantStanding, paused: PauseFacts | None) -> ParticipantStanding:
        return standing._replace(paused_by=paused.by if paused else "")


# The permissions in one or two words, the strongest first.
_WORDS: Final[Sequence[tuple[str, str]]] = (
    ("mcp/request", "Call tools"),
    ("mcp/proposal", "Propose"),
    ("capability/grant", "Manage permissions"),
    ("participant/pause", "Control participants"),
    ("space/invite", "Invite"),
    ("space/kick", "Remove"),
    ("chat", "Chat"),
    ("reasoning/start", "Reason"),
    ("stream/request", "Stream"),
    ("mcp/response", "Answer calls"),
)


@lru_cache(maxsize=2000)
def summarize(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The permissions in one or two words each, the strongest first; a permission with conditions on tools says so."""
    held, _ = read_capabilities([json.loads(pattern) for pattern in patterns], edition=0)
    words = []
    for kind, word in _WORDS:
        matching = [capability for capability in held.capabilities if capability.kind.matches(kind)]
        if kind == "mcp/request":
            calling = [methods for capability in matching if (methods := _methods(capability.pattern)) != []]
            if not calling:
                continue
            if None not in calling:
                word = "Call some tools"
        if matching:
            words.append(word)
    return tuple(words)


def _methods(pattern: Mapping[str, Any]) -> list[str] | None:
    """The methods under which a pattern lets tools be called; None where it has no conditions."""
    payload = pattern.get("payload")
    if not (isinstance(payload, Mapping) and payload) and "to" not in pattern:
        return None
    method = payload.get("method", "*") if isinstance(payload, Mapping) else "*"
    several = method if isinstance(method, list) else [method]
    return [
        name for name in several if isinstance(name, str) and name in ("tools/call", "tools/*", "*", "**")
    ]


@lru_cache(maxsize=2000)
def _sentence(patterns: tuple[str, ...]) -> str:
    return one_line(sentence([json.loads(pattern) for pattern in patterns]), 600)


def _failure(call: Request | Proposal, answer: Entry) -> Activity | None:
    """The failure that an answer reports of a call; None where it succeeded."""
    if not call.failed:
        return None
    what = one_line(describe("mcp/response", answer.payload), 120).removeprefix("Failed: ")
    return Activity("failed", answer.t, f"{one_line(call.tool or call.method, 60)}: {what}")


def _status(entry: Entry) -> MemberStatus:
    payload = entry.payload
    more = [
        (one_line(name, 40), _format_value(value)) for name, value in payload.items() if name not in _STANDARD
    ]
    return MemberStatus(
        entry.t,
        _text(payload.get("status")),
        _count(payload.get("messages_in_context")),
        _count(payload.get("tokens")),
        _count(payload.get("max_tokens")),
        _number(payload.get("latency_ms")),
        tuple(more[:8]),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
        return None
    return float(value) if math.isfinite(value) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: object) -> str:
    return one_line(value, MOST_TEXT) if isinstance(value, str) else ""


def _format_value(value: object) -> str:
    return one_line(value if isinstance(value, str) else compact(value), MOST_VALUE)
