"""Rules about streams and their frames.

Spec: §3.10, rulings R5, R10, R16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS
from mew_lab.ledger.streams import StreamChange
from mew_lab.log.diagnose.findings import (
    OF_OUR_GATEWAY,
    OF_SPACES,
    Rule,
    RuleContext,
    RuleFamily,
    changes_of,
    word,
)
from mew_lab.log.line import read_members
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.space.events import Record

__all__ = ["STREAM_RULES", "StreamRules"]

MAX_STREAMS = 10_000

AFTER_CLOSE = Rule(
    "frame-after-close",
    "error",
    "P-3.10.4-3",
    "{sender} sent data to {about} after it was closed ({reason}); the gateway refused it",
    OF_OUR_GATEWAY,
)
NO_RIGHT = Rule(
    "frame-without-right",
    "warn",
    "",
    "{sender} sent data to {about} without the right to write there; the gateway refused it",
    OF_OUR_GATEWAY,
)
NO_STREAM = Rule(
    "frame-without-stream",
    "warn",
    "",
    "{sender} sent data to {about}, which is no stream of this space",
    OF_OUR_GATEWAY,
    needs_whole=True,
)
NO_DIRECTION = Rule(
    "stream-without-direction",
    "warn",
    "P-3.10.1-1",
    "{sender}'s request {id} for a stream does not say its direction, upload or download",
    OF_SPACES,
)
UNOPENED = Rule(
    "stream-not-opened",
    "warn",
    "P-3.10.1-7",
    "{sender}'s request {id} for a stream was not answered by the gateway",
    OF_SPACES,
)
OWN_OPEN = Rule(
    "foreign-stream-open",
    "warn",
    "P-3.10.1-9",
    "{sender} announced the stream {about} itself; only the gateway opens streams",
    OF_SPACES,
)
CLOSE_NOTHING = Rule(
    "close-without-stream",
    "warn",
    "P-3.10.4-1",
    "{sender}'s close {id} names no open stream, or one of another owner; it closes nothing",
    OF_SPACES,
)
CLOSE_UNKNOWN = CLOSE_NOTHING._replace(needs_whole=True)
LEFT_OPEN = Rule(
    "open-stream",
    "note",
    "",
    "the stream {about} of {sender} was still open at the end of the log",
    OF_SPACES,
)

STREAM_RULES: Final = (
    *(AFTER_CLOSE, NO_RIGHT, NO_STREAM, NO_DIRECTION, UNOPENED, OWN_OPEN, CLOSE_NOTHING, LEFT_OPEN),
)


class StreamRules(RuleFamily):
    """The rules about streams."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {
            "stream/request": self._on_request,
            "stream/open": self._on_open,
            "stream/close": self._on_close,
        }
        self.changes = {StreamChange: self._on_change}
        self.refusals = self._on_refusal
        self._requested: BoundedDict[str, Mark] = BoundedDict(MAX_STREAMS)
        self._open: BoundedDict[str, Mark] = BoundedDict(MAX_STREAMS)

    def finish(self) -> None:
        for mark in self._requested.values():
            self.report(UNOPENED, mark, sender=word(mark.sender), id=word(mark.id))
        for id, mark in self._open.items():
            stream = self.context.ledger.streams.get(id)
            owner = stream.owner if stream is not None else mark.sender
            self.report(LEFT_OPEN, mark, about=word(id), sender=word(owner))

    def _on_request(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if entry.payload.get("direction") not in ("upload", "download"):
            self.report(NO_DIRECTION, entry, sender=word(entry.sender), id=word(entry.id))

    def _on_open(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if entry.sender not in GATEWAYS:
            id = entry.payload.get("stream_id")
            about = word(id) if isinstance(id, str) else "without an id"
            self.report(OWN_OPEN, entry, sender=word(entry.sender), about=about)

    def _on_close(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        if (
            not any(True for _ in changes_of(changes, StreamChange, "closed"))
            and entry.sender not in GATEWAYS
        ):
            rule = CLOSE_NOTHING if self._knows(entry) else CLOSE_UNKNOWN
            self.report(rule, entry, sender=word(entry.sender), id=word(entry.id))

    def _knows(self, entry: PlacedEntry) -> bool:
        """Whether all that a close names is in the log."""
        if "stream_id" in entry.payload:
            return self.context.ledger.streams.get(entry.payload["stream_id"]) is not None
        return all(self.context.ids.get(id) is not None for id in entry.correlation_id)

    def _on_change(self, change: StreamChange, entry: PlacedEntry) -> None:
        stream = change.stream
        if change.what == "requested" and stream.request_id == entry.id:
            self._requested[entry.id] = entry.mark
        elif change.what in ("opened", "refused"):
            self._requested.pop(stream.request_id, None)
            if change.what == "opened":
                self._open[stream.id] = entry.mark
        elif change.what == "closed":
            self._open.pop(stream.id, None)

    def _on_refusal(self, record: Record, _: PlacedEntry | None, place: int) -> None:
        if record.event != "frame" or record.code != "unauthorized_stream_write":
            return
        id = (read_members(record.detail) or {}).get("stream_id")
        stream = self.context.ledger.streams.get(id)
        sender = record.runtime_id or record.participant
        mark = Mark(place, record.seq, record.now, "", sender, ())
        about = {"sender": word(sender), "about": word(id if isinstance(id, str) else "")}
        if stream is None:
            self.report(NO_STREAM, mark, **about)
        elif stream.state == "closed":
            self.report(AFTER_CLOSE, mark, **about, reason=word(stream.reason))
        else:
            self.report(NO_RIGHT, mark, **about)
