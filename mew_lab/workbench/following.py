"""How does a model of a view see every envelope once, the earlier ones too, without holding anybody up?

A `Follower` is told of each envelope in the order of the journal. Those that come late first get what the log holds in
memory, a few milliseconds at a time, while new ones queue behind; so a view opens at once and fills. Each text is read
once for all that came together. Everything happens on the loop's thread, so a follower needs no lock for what it
writes; what other threads read of it must be replaced, not changed.

It does not know what a follower makes of an envelope.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.space.events import Record

__all__ = ["Follower", "Following", "Heard", "author"]

logger = logging.getLogger(__name__)

AT_ONCE = 1000  # envelopes of which a follower is told in one go
STEP = 16  # envelopes between two looks at the clock
TURN = 0.005  # seconds that those who came late take of the loop, and leave to it
MOST_KINDS = 256
GATHERING = 0.2  # seconds in which they wait for one another
_NOTHING: Mapping[str, Any] = {}


class Heard:
    """One envelope as it was recorded: `seq` is its row in the feed, `t` when the gateway had it (epoch, seconds).

    `members` are those of its JSON object, empty when it holds none; nothing about them is certain but that they are
    JSON. `grant` is the id of the grant that it passed by, where the gateway tells. What is read of the members is the
    empty value where one is absent or of another type.
    """

    __slots__ = (
        "code",
        "context",
        "grant",
        "id",
        "kind",
        "members",
        "pattern",
        "raw",
        "sender",
        "seq",
        "t",
        "verdict",
    )

    def __init__(
        self,
        seq: int,
        t: float,
        raw: str,
        verdict: str,
        code: str,
        pattern: str,
        sender: str,
        members: Mapping[str, Any],
        grant: str = "",
    ) -> None:
        self.seq = seq
        self.t = t
        self.raw = raw
        self.verdict = verdict
        self.code = code
        self.pattern = pattern
        self.sender = sender
        self.members = members
        self.grant = grant
        # Every follower asks for these, of every envelope.
        self.kind = _text(members.get("kind"))
        self.id = _text(members.get("id"))
        self.context = _text(members.get("context"))

    @property
    def to(self) -> tuple[str, ...]:
        return _texts(self.members.get("to"))

    @property
    def correlation_id(self) -> tuple[str, ...]:
        return _texts(self.members.get("correlation_id"))

    @property
    def payload(self) -> Mapping[str, Any]:
        found = self.members.get("payload")
        return found if isinstance(found, dict) else _NOTHING

    @property
    def refused(self) -> bool:
        """Whether the gateway let nobody have it."""
        return self.verdict == "refused"


class Follower(Protocol):
    """What is told of every envelope. `take` is called on the loop's thread; what it raises is logged.

    One that has `kinds`, the beginnings of kinds, is told of those alone.
    """

    def take(self, heard: Heard) -> None: ...


class _Audience:
    """Followers, each told of what concerns it."""

    def __init__(self) -> None:
        self.followers: tuple[Follower, ...] = ()
        self._concerned: dict[str, tuple[Follower, ...]] = {}  # by kind

    def add(self, *followers: Follower) -> None:
        self.followers += followers
        self._concerned.clear()

    def remove(self, follower: Follower) -> None:
        self.followers = tuple(one for one in self.followers if one is not follower)
        self._concerned.clear()

    def tell(self, heard: Heard) -> None:
        concerned = self._concerned.get(heard.kind)
        if concerned is None:
            if len(self._concerned) >= MOST_KINDS:  # anybody may make up kinds
                self._concerned.clear()
            concerned = tuple(
                one for one in self.followers if heard.kind.startswith(getattr(one, "kinds", ("",)))
            )
            self._concerned[heard.kind] = concerned
        for follower in concerned:
            try:
                follower.take(heard)
            except Exception:
                logger.exception("%s: envelope %d was left out", type(follower).__name__, heard.seq)


class _Backlog:
    """Followers that came together, and what they have not heard yet."""

    def __init__(self, records: list[Record], first: int) -> None:
        self.audience = _Audience()
        # Numbered when it is their turn: a tuple for each of a long log would be most of what opening a view costs.
        self.records = records
        self.first = first
        self.told = 0
        self.timer: asyncio.TimerHandle | None = None
        self.begun = False

    @property
    def waiting(self) -> bool:
        return bool(self.audience.followers) and self.told < len(self.records)

    def tell(self, most: int) -> None:
        """Tells all of them of the next so many."""
        for at in range(self.told, min(self.told + most, len(self.records))):
            self.audience.tell(_heard(self.first + at, self.records[at]))
            self.told += 1


class Following:
    """The followers of one live log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last = 0
        self._late: list[_Backlog] = []
        self._live = _Audience()

    def observe(self, record: Record, members: Mapping[str, Any] | None = None) -> None:
        """Takes the next record; only those that hold a message are told. `members` are its message's, where known."""
        if record.raw is None:
            return
        self._last += 1
        for backlog in self._late:
            backlog.records.append(record)
        if self._live.followers:
            self._live.tell(_heard(self._last, record, members))

    def add(self, follower: Follower, *, earlier: bool = True) -> None:
        """Tells it of all that is held (unless not `earlier`), then of what comes. To be called on the loop's thread.

        Of a short log it is told at once. With a long one it waits a moment for others, so that the parts of a control
        room are told together, and then takes half of the loop's time at most.
        """
        if not earlier:
            self._live.add(follower)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # where no loop runs nothing can be held up
            loop = None
        backlog = next((one for one in self._late if not one.begun), None)
        if loop is None or backlog is None:
            held = [record for record in self._log.held if record.raw is not None]
            backlog = _Backlog(held, self._last - len(held) + 1)
            if loop is None or len(held) <= AT_ONCE:
                backlog.audience.add(follower)
                backlog.tell(len(held))
                self._live.add(follower)
                return
            self._late.append(backlog)
        backlog.audience.add(follower)
        if backlog.timer is not None:
            backlog.timer.cancel()
        backlog.timer = loop.call_later(GATHERING, self._go_on, backlog, loop)

    def remove(self, follower: Follower) -> None:
        """Tells it no more."""
        for audience in (self._live, *(one.audience for one in self._late)):
            audience.remove(follower)

    def caught_up(self, follower: Follower) -> bool:
        """Whether it has been told of everything so far."""
        return follower in self._live.followers

    def _go_on(self, backlog: _Backlog, loop: asyncio.AbstractEventLoop) -> None:
        backlog.begun = True
        end = loop.time() + TURN
        while backlog.waiting and loop.time() < end:
            backlog.tell(STEP)
        if backlog.waiting:
            backlog.timer = loop.call_later(TURN, self._go_on, backlog, loop)
            return
        self._late.remove(backlog)
        self._live.add(*backlog.audience.followers)


def _heard(seq: int, record: Record, members: Mapping[str, Any] | None = None) -> Heard:
    raw = record.raw or ""
    if members is None:
        members = read_members(raw) or _NOTHING
    sender = author(record, members)
    when = record.now.timestamp()
    return Heard(seq, when, raw, record.verdict, record.code, record.pattern, sender, members, record.grant)


def author(record: Record, members: Mapping[str, Any]) -> str:
    """Who has sent it. What a refused envelope says of that may be why it was refused."""
    said = "" if record.verdict == "refused" else _text(members.get("from"))
    return said or record.runtime_id or record.participant


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
