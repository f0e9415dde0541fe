"""`Session`: the members of a lab that its parts need, so that only the façade and the magics take a whole `Lab`.

A `Lab` is a `Session`. A part takes the session, and other objects (such as the grants) as arguments of their own, so
no part knows the module that connects all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mew_lab.errors import MewError
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.questions import Questions
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.listing import Note
from mew_lab.lab.loop import LoopThread
from mew_lab.log.log import Log
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.participant import MEWParticipant

if TYPE_CHECKING:
    from mew_lab.lab.host import Host  # its import would load the server of the gateway (T-17)

__all__ = ["Echo", "Seated", "Session", "check_up", "run_work"]

T = TypeVar("T")


# Seconds: a verb returns when its message is in the log, so that the next line of a cell finds it there; a slow gateway
# must not hold the cell for longer.
SEEN_WITHIN = 1.0
MAX_SEEN = 1000


class Echo:
    """The ids that one participant has received."""

    def __init__(self) -> None:
        self._ids: BoundedDict[str, None] = BoundedDict(MAX_SEEN)
        self._news = asyncio.Event()

    def take(self, envelope: Envelope) -> None:
        """Records the id of a received message."""
        self._ids[envelope.id] = None
        self._news.set()

    async def wait(self, id: str, *, unless: Callable[[], bool]) -> None:
        """Returns when that message was received, when `unless` holds, or after a second.

        A refused message is never received.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                while id not in self._ids and not unless():
                    self._news.clear()
                    await self._news.wait()


class Seated(Protocol):
    """One participant of this process: its id, a description of its role, and the participant itself."""

    @property
    def name(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def participant(self) -> MEWParticipant: ...


class Session(Protocol):
    """One space seen by one human.

    Attributes:
        name: The lab's name; `space` is the name of the space, `url` its address, empty in memory.
        me: The human's seat; `seats` are all seats of this process, by name.
        log: The records so far; `following` feeds new ones to the views.
        decisions: The proposals for the human; `asked` are the questions of servers.
        host: Runs the space here; None when it runs elsewhere.
        loop: The thread of all async code; `timeout` limits a blocking method, in seconds.
        faults: Failures in the background, as sentences.
        closed: Whether it is down.
        seen: The human's own envelopes that were received back.
    """

    @property
    def name(self) -> str: ...
    @property
    def space(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def me(self) -> Seated: ...
    @property
    def seats(self) -> Mapping[str, Seated]: ...
    @property
    def log(self) -> Log: ...
    @property
    def following(self) -> EntryFeed: ...
    @property
    def decisions(self) -> HumanDecisions: ...
    @property
    def asked(self) -> Questions: ...
    @property
    def host(self) -> Host | None: ...
    @property
    def loop(self) -> LoopThread: ...
    @property
    def timeout(self) -> float: ...
    @property
    def faults(self) -> Sequence[str]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def seen(self) -> Echo: ...

    def fault(self, text: str) -> None:
        """Records a sentence about a failure in the background."""

    async def record_outcome(self, id: str, happened: bool, note: str = "") -> Note:
        """Records what this person found out about a call of unknown outcome. MewError when it may not, or is known."""

    def leave(self, name: str) -> Note:
        """Makes a participant of this process leave the space."""


def check_up(session: Session, doing: str) -> None:
    """Raises a MewError where the lab is down."""
    if session.closed:
        raise MewError(f"{doing}: the lab {session.name!r} is down; start one with mew_lab.up() or %mew up")


def run_work(
    session: Session,
    work: Coroutine[Any, Any, T],
    doing: str,
    *,
    timeout: float | None = None,
    idle: Callable[[], object] | None = None,
    awaitable: bool = True,
) -> T:
    """Runs the work of a blocking method and returns its result; on the loop's own thread, an `Underway` to await.

    Args:
        timeout: Seconds; default: those of the lab.
        idle, awaitable: As `LoopThread.run`.

    Raises:
        MewError: The lab is down; or as the work, and as `LoopThread.run`.
    """
    try:
        check_up(session, doing)
    except MewError:
        work.close()
        raise
    return session.loop.run(
        work, timeout=timeout or session.timeout, doing=doing, idle=idle, awaitable=awaitable
    )
