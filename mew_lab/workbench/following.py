"""How does a model of a view see every envelope once, the earlier ones too, without holding anybody up?

A `Follower` is told of each envelope in the order of the journal. One that comes late first gets what the log holds in
memory, a thousand envelopes a turn of the loop, while new ones queue behind; so a view opens at once and fills. Each
text is read once for all followers. Everything happens on the loop's thread, so a follower needs no lock for what it
writes; what other threads read of it must be replaced, not changed.

It does not know what a follower makes of an envelope.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.space.events import Record

__all__ = ["Follower", "Following", "Heard"]

logger = logging.getLogger(__name__)

CHUNK = 1000
_NOTHING: Mapping[str, Any] = {}


class Heard(NamedTuple):
    """One envelope as it was recorded: `seq` is its row in the feed, `t` when the gateway had it (epoch, seconds).

    `members` are those of its JSON object, empty when it holds none; nothing about them is certain but that they are
    JSON. `grant` is the id of the grant that it passed by, where the gateway tells. The readers below give the empty
    value where a member is absent or of another type.
    """

    seq: int
    t: float
    raw: str
    verdict: str
    code: str
    pattern: str
    sender: str
    members: Mapping[str, Any]
    grant: str = ""

    @property
    def id(self) -> str:
        return _text(self.members.get("id"))

    @property
    def kind(self) -> str:
        return _text(self.members.get("kind"))

    @property
    def context(self) -> str:
        return _text(self.members.get("context"))

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
    """What is told of every envelope. `take` is called on the loop's thread; what it raises is logged."""

    def take(self, heard: Heard) -> None: ...


class Following:
    """The followers of one live log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last = 0
        self._late: dict[Follower, deque[tuple[int, Record]]] = {}
        self._live: list[Follower] = []

    def observe(self, record: Record) -> None:
        """Takes the next record; only those that hold a message are told."""
        if record.raw is None:
            return
        self._last += 1
        for backlog in self._late.values():
            backlog.append((self._last, record))
        if self._live:
            heard = _heard(self._last, record)
            for follower in tuple(self._live):
                _tell(follower, heard)

    def add(self, follower: Follower) -> None:
        """Tells it of all that is held, then of what comes. To be called on the loop's thread."""
        held = [record for record in self._log.held if record.raw is not None]
        self._late[follower] = deque(enumerate(held, self._last - len(held) + 1))
        self._catch_up(follower)

    def remove(self, follower: Follower) -> None:
        """Tells it no more."""
        self._late.pop(follower, None)
        if follower in self._live:
            self._live.remove(follower)

    def caught_up(self, follower: Follower) -> bool:
        """Whether it has been told of everything so far."""
        return follower in self._live

    def _catch_up(self, follower: Follower) -> None:
        while (backlog := self._late.get(follower)) is not None:
            for _ in range(min(CHUNK, len(backlog))):
                _tell(follower, _heard(*backlog.popleft()))
            if not backlog:
                del self._late[follower]
                self._live.append(follower)
                return
            with contextlib.suppress(RuntimeError):  # where no loop runs nothing can be held up
                asyncio.get_running_loop().call_soon(self._catch_up, follower)
                return


def _heard(seq: int, record: Record) -> Heard:
    raw = record.raw or ""
    members = read_members(raw) or _NOTHING
    sender = _text(members.get("from")) or record.participant
    when = record.now.timestamp()
    return Heard(seq, when, raw, record.verdict, record.code, record.pattern, sender, members, record.grant)


def _tell(follower: Follower, heard: Heard) -> None:
    try:
        follower.take(heard)
    except Exception:
        logger.exception("%s: envelope %d was left out", type(follower).__name__, heard.seq)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
