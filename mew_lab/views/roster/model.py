"""Who is in the space, how is each of them, and what may it do?  The model behind the roster.

Who is here, paused or shut down is read from the space where it runs here, and followed from what is heard where it
runs elsewhere. What a participant says of itself (`participant/status`) is kept, the last word of each. Rows are
replaced, never changed, so any thread may read `rows`; they keep the order in which participants came to be known,
and who has left stays in it. At most 1000 participants, 2000 statuses and pauses; sentences in bounded length.

It sends nothing (see `steering`), and knows no view.

Spec: §3.7, §3.9.1, §3.9.4, ruling R14.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from mew_lab.lab.actions import ACTIONS, ParticipantActions
from mew_lab.lab.debounce import Debounce
from mew_lab.lab.sentences import sentence
from mew_lab.lab.session import Session
from mew_lab.lab.standing import Standing, logical, standings
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import one_line

__all__ = ["Member", "Members", "Paused", "Told"]

MOST_KEPT = 2000  # statuses, pauses and departures that are remembered
MOST_TEXT = 300
NEAR_LIMIT = 0.9  # of max_tokens: SDK "Context Usage & Status Telemetry"
GATHERED = 0.1  # seconds in which changes become one
LONGEST_NAP = 3600.0
_STANDARD = ("messages_in_context", "tokens", "max_tokens", "latency_ms", "status")


class Told(NamedTuple):
    """What a participant last said of itself, at `at` (epoch, seconds). None: it does not tell. Spec: §3.9.4."""

    at: float
    status: str
    messages: int | None
    tokens: int | None
    max_tokens: int | None
    latency_ms: float | None
    more: tuple[tuple[str, str], ...]

    @property
    def usage(self) -> float | None:
        """The part of the context that is used; None where it is not known."""
        if self.tokens is None or not self.max_tokens:
            return None
        return self.tokens / self.max_tokens

    @property
    def near_limit(self) -> bool:
        """Whether nine tenths of the context or more are used."""
        return (self.usage or 0.0) >= NEAR_LIMIT


class Paused(NamedTuple):
    """A pause in force: by whom and why, since when and until when (epoch, seconds; None: until it is resumed)."""

    by: str
    reason: str
    since: float | None
    until: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One participant as it is now.

    `presence` is `here`, `paused`, `shut down`, `left`, `removed` or `invited` (it never came); `since` when that
    last changed, as far as it was heard. `ids` are those of its connections. `against` names the deeds that the
    human may not do to it, with the reason.
    """

    name: str
    you: bool
    what: str
    presence: str
    since: float | None
    ids: tuple[str, ...]
    sentence: str
    patterns: tuple[str, ...]
    told: Told | None
    paused: Paused | None
    against: Mapping[str, str]


class Members:
    """The participants of one lab's space. Made on any thread, `follow`ed on the loop's."""

    kinds = ("system/presence", "system/welcome", "participant/", "capability/", "space/")

    def __init__(
        self,
        session: Session,
        *,
        steering: ParticipantActions | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rows: tuple[Member, ...] = ()
        self.steering = steering or ParticipantActions(session)
        self._session = session
        self._clock = clock
        self._told: BoundedDict[str, Told] = BoundedDict(MOST_KEPT, refresh=True)
        self._paused: BoundedDict[str, Paused] = BoundedDict(MOST_KEPT, refresh=True)
        self._shut_down: BoundedDict[str, None] = BoundedDict(MOST_KEPT, refresh=True)
        self._since: BoundedDict[str, float] = BoundedDict(MOST_KEPT, refresh=True)
        # Of a space that runs elsewhere.
        self._gone: BoundedDict[str, Standing] = BoundedDict(MOST_KEPT, refresh=True)
        self._removed: BoundedDict[str, None] = BoundedDict(MOST_KEPT, refresh=True)
        self._subscribers: Subscribers[()] = Subscribers()
        self._soon = Debounce(self.refresh)

    # --- for views ---

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back, on the loop's thread, after `rows` were replaced; returns what ends it."""
        return self._subscribers.add(on_change)

    def find(self, name: str) -> Member | None:
        """The participant of that name."""
        return next((one for one in self.rows if one.name == name), None)

    # --- what is heard, on the loop's thread ---

    def take(self, heard: Entry) -> None:
        """Takes note of one envelope that the gateway let pass."""
        kind = heard.kind
        if heard.refused:
            return
        if kind == "participant/status":
            self._told[self._who(heard.sender)] = _told(heard)
        elif kind == "system/presence" and heard.sender == GATEWAY:
            self._present(heard)
        elif kind == "participant/pause":
            for name in self._addressed(heard):
                self._paused[name] = _pause(heard)
        elif kind == "participant/resume":
            for name in self._addressed(heard):
                if name != self._who(heard.sender):  # nobody ends its own pause
                    self._paused.pop(name, None)
        elif kind == "participant/shutdown":
            for name in self._addressed(heard):
                self._shut_down[name] = None
        elif kind == "space/kick" and isinstance(one := heard.payload.get("participant_id"), str):
            self._removed[self._who(one)] = None
        self.refresh_soon()

    def _present(self, heard: Entry) -> None:
        one = heard.payload.get("participant")
        id = one.get("id") if isinstance(one, Mapping) else None
        if not isinstance(id, str) or not isinstance(one, Mapping):
            return
        name, event = self._who(id), heard.payload.get("event")
        self._since[name] = heard.t
        if event == "join":
            self._shut_down.pop(name, None)
            self._removed.pop(name, None)
            self._gone.pop(name, None)
        elif event == "leave" and self._session.host is None and (before := self.find(name)) is not None:
            self._gone[name] = Standing(name, (), (), before.patterns, certain=False)

    def _addressed(self, heard: Entry) -> tuple[str, ...]:
        return tuple(self._who(name) for name in heard.to[:MOST_KEPT])

    def _who(self, id: str) -> str:
        return logical(self._session, id)

    # --- rows ---

    def refresh_soon(self) -> None:
        """Has `rows` made anew in a moment: an envelope is told before what it does is done."""
        self._soon.within(GATHERED)

    def refresh(self) -> None:
        """Makes `rows` anew; tells the subscribers where something is different."""
        self._soon.cancel()
        now = self._clock().timestamp()
        found = standings(self._session)
        here = {one.name for one in found}
        found += [one for name, one in self._gone.items() if name not in here]
        by_name = {one.name: one for one in found}
        # Places do not move: who was known stands where it stood.
        order = dict.fromkeys((*(row.name for row in self.rows if row.name in by_name), *by_name))
        rows = tuple(self._row(by_name[name], now) for name in order)
        ends = [row.paused.until for row in rows if row.paused and row.paused.until is not None]
        if ends:
            self._soon.within(min(max(min(ends) - now + 0.01, GATHERED), LONGEST_NAP))
        if rows != self.rows:
            self.rows = rows
            self._subscribers.tell()

    def _row(self, one: Standing, now: float) -> Member:
        paused, shut_down = self._held_back(one, now)
        kicked = one.kicked or (not one.certain and not one.ids and one.name in self._removed)
        against = {
            deed: why
            for deed in ACTIONS
            if (why := self.steering.find_obstacle(deed, self._judged(one, paused)))
        }
        presence = (
            "removed" if kicked
            else "invited" if not one.came and not one.ids
            else "shut down" if shut_down
            else "left" if not one.ids
            else "paused" if paused
            else "here"
        )  # fmt: skip
        seat = self._session.seats.get(one.name)
        return Member(
            name=one.name,
            you=one.name == self._session.me.name,
            what=seat.what if seat is not None else "elsewhere",
            presence=presence,
            since=self._since.get(one.name),
            ids=one.ids,
            sentence=_sentence(one.texts),
            patterns=one.texts,
            told=self._told.get(one.name),
            paused=None if kicked else paused,
            against=against,
        )

    def _held_back(self, one: Standing, now: float) -> tuple[Paused | None, bool]:
        heard = self._paused.get(one.name)
        if one.certain:
            if not one.paused_by:
                return None, one.shut_down
            known = heard if heard is not None and heard.by == one.paused_by else Paused("", "", None, None)
            paused = Paused(one.paused_by, known.reason, known.since, one.until)
        elif heard is None:
            return None, one.name in self._shut_down
        else:
            paused = heard
        over = paused.until is not None and now >= paused.until
        return None if over else paused, one.shut_down or one.name in self._shut_down

    @staticmethod
    def _judged(one: Standing, paused: Paused | None) -> Standing:
        return one._replace(paused_by=paused.by if paused else "")


@lru_cache(maxsize=2000)
def _sentence(patterns: tuple[str, ...]) -> str:
    return one_line(sentence([json.loads(one) for one in patterns]), 600)


def _pause(heard: Entry) -> Paused:
    seconds = _number(heard.payload.get("timeout_seconds"))
    return Paused(
        heard.sender,
        _text(heard.payload.get("reason")),
        heard.t,
        None if seconds is None else heard.t + seconds,
    )


def _told(heard: Entry) -> Told:
    payload = heard.payload
    more = [(one_line(name, 40), _figure(value)) for name, value in payload.items() if name not in _STANDARD]
    return Told(
        heard.t,
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


def _figure(value: object) -> str:
    return one_line(value if isinstance(value, str) else compact(value), 60)
