"""Keeps the last delivered envelopes of a space, bounded, for participants that poll by HTTP.

Each is kept under the time at which the gateway received it, whatever its `ts`. Of the rules of the space, this module
knows only which kinds are private to their addressee.

Spec: §5.3 (rulings on retrieval).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import utf8_size
from mew_lab.space.events import Record

__all__ = ["BEGINNING", "MAX_BYTES", "MAX_ENVELOPES", "MAX_WAIT", "Page", "Ring"]

# Of one space; its participants fill it, and one that polls less often is told that messages are gone (410).
MAX_ENVELOPES = 10_000
MAX_BYTES = 16 * 1024 * 1024
MAX_WAIT = 60  # seconds for which a poll may wait for news; many proxies end a silent request then
PRIVATE = frozenset({"system/welcome", "system/error", "space/invite-ack"})  # ruling R1
DELIVERED = frozenset({"accepted", "sent"})  # the verdicts of delivered envelopes
BEGINNING = datetime.min.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)


class Page(NamedTuple):
    """Exact texts in order, the `since` of the next page, and whether that page has texts already."""

    texts: tuple[str, ...]
    next: datetime
    more: bool


class _SentEnvelope(NamedTuple):
    at: datetime
    text: str
    size: int
    only: frozenset[str] | None  # the participants that may see it; None for all


_PAYLOAD = ',"payload":'  # cannot occur within a JSON string, where quotes are escaped


class Ring:
    """The last envelopes of one space, bounded in number and in bytes.

    Times are unique: envelopes of one microsecond are kept a microsecond apart. So a poll from the time of any envelope
    misses none and repeats none. `participant_of` maps a runtime id to its participant. Envelopes from before `begins`
    are not held. Records hold a placeholder instead of a token.

    A participant that waits for news (`watch`) costs nothing until a message comes that it may see.
    """

    __slots__ = (
        "_bytes",
        "_forgotten",
        "_kept",
        "_last",
        "_max_bytes",
        "_max_envelopes",
        "_participant_of",
        "_watchers",
    )

    def __init__(
        self,
        participant_of: Callable[[str], str],
        *,
        max_envelopes: int = MAX_ENVELOPES,
        max_bytes: int = MAX_BYTES,
        begins: datetime = BEGINNING,
    ) -> None:
        self._participant_of = participant_of
        self._max_envelopes = max_envelopes
        self._max_bytes = max_bytes
        self._kept: deque[_SentEnvelope] = deque()
        self._bytes = 0
        self._watchers: dict[str, list[Callable[[], object]]] = {}  # of each participant, the first first
        self._last = self._forgotten = begins

    def take(self, record: Record) -> None:
        """Keeps the envelope of a record, if it was delivered; forgets the oldest."""
        text = record.raw
        if text is None or record.verdict not in DELIVERED:
            return
        only = self._addressees(text) if record.participant == GATEWAY else None
        at = record.now if record.now > self._last else self._last + TICK
        self._last = at
        size = utf8_size(text)
        self._kept.append(_SentEnvelope(at, text, size, only))
        self._bytes += size
        while self._bytes > self._max_bytes or len(self._kept) > self._max_envelopes:
            oldest = self._kept.popleft()
            self._bytes -= oldest.size
            self._forgotten = oldest.at
        if self._watchers:
            self._wake(self._watchers if only is None else only)

    def watch(self, participant: str, call: Callable[[], object]) -> Callable[[], None]:
        """Calls `call` once, with the next envelope that the participant may see, or at the end of the space.

        Returns the function that takes this back.
        """
        self._watchers.setdefault(participant, []).append(call)

        def forget() -> None:
            if call in (calls := self._watchers.get(participant, [])):
                calls.remove(call)
                if not calls:
                    del self._watchers[participant]

        return forget

    def end(self) -> None:
        """Calls all that watch, because no message follows."""
        self._wake(self._watchers)

    def _wake(self, participants: Iterable[str]) -> None:
        for participant in tuple(participants):
            for call in self._watchers.pop(participant, ()):
                call()

    def _addressees(self, text: str) -> frozenset[str] | None:
        """The addressees of a message of the gateway; None when it is for all.

        The kind decides, not the record's receivers: a private message without a receiver stays private.
        """
        head, rest, _ = text.partition(_PAYLOAD)  # the gateway writes it last, and a welcome has a long one
        members = json.loads(f"{head}}}" if rest else text)
        if members["kind"] not in PRIVATE:
            return None
        return frozenset(map(self._participant_of, members.get("to", ())))

    def since(self, after: datetime | None, *, participant: str, limit: int | None = None) -> Page | None:
        """The envelopes received strictly after `after` that `participant` may see, the oldest first.

        Args:
            after: None for all that are kept.
            limit: the maximum number of envelopes; None for no limit.

        Returns:
            None when some of them are no longer kept.
        """
        if after is not None and after < self._forgotten:
            return None
        page: list[_SentEnvelope] = []
        for kept in reversed(self._kept):
            if after is not None and kept.at <= after:
                break
            if kept.only is None or participant in kept.only:
                page.append(kept)
        page.reverse()
        if limit is not None and len(page) > limit:
            del page[limit:]
            return Page(tuple(kept.text for kept in page), page[-1].at, True)
        return Page(tuple(kept.text for kept in page), max(after or self._last, self._last), False)
