"""Rules about streams and their frames.

Spec: §3.10, rulings R5, R10, R16.
"""

from __future__ import annotations

from collections.abc import Sequence

from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS
from mew_lab.ledger.streams import StreamChange
from mew_lab.log.diagnose.findings import (
    OF_OUR_GATEWAY,
    Rule,
    RuleContext,
    RuleFamily,
    changes_of,
    refused_mark,
    word,
)
from mew_lab.log.line import read_members
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.space.events import Record

__all__ = ["StreamRules"]

MAX_STREAMS = 10_000

AFTER_CLOSE = Rule(
    "frame-after-close",
    "error",
    "{sender} sent data to {about} after it was closed ({reason}); the gateway refused it",
    "P-3.10.4-3",
    OF_OUR_GATEWAY,
)
NO_RIGHT = Rule(
    "frame-without-right",
    "warn",
    "{sender} sent data to {about} without the right to write there; the gateway refused it",
    holds=OF_OUR_GATEWAY,
)
NO_STREAM = Rule(
    "frame-without-stream",
    "warn",
    "{sender} sent data to {about}, which is no stream of this space",
    holds=OF_OUR_GATEWAY,
    needs_whole=True,
)
NO_DIRECTION = Rule(
    "stream-without-direction",
    "warn",
    "{sender}'s request {id} for a stream {about}",
    "P-3.10.1-1",
)
UNOPENED = Rule(
    "stream-not-opened",
    "warn",
    "{sender}'s request {id} for a stream was not answered by the gateway",
    "P-3.10.1-7",
)
OWN_OPEN = Rule(
    "foreign-stream-open",
    "warn",
    "{sender} announced the stream {about} itself; only the gateway opens streams",
    "P-3.10.1-9",
)
CLOSE_NOTHING = Rule(
    "close-without-stream",
    "warn",
    "{sender}'s close {id} names no open stream, or one of another owner; it closes nothing",
    "P-3.10.4-1",
)
CLOSE_UNKNOWN = CLOSE_NOTHING._replace(needs_whole=True)
LEFT_OPEN = Rule("open-stream", "note", "the stream {about} of {sender} was still open at the end of the log")


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
            self.report(UNOPENED, mark)
        for id, mark in self._open.items():
            stream = self.context.ledger.streams.get(id)
            owner = stream.owner if stream is not None else mark.sender
            self.report(LEFT_OPEN, mark, about=word(id), sender=word(owner))

    def _on_request(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        direction = entry.payload.get("direction")
        if direction not in ("upload", "download"):
            about = "does not say its direction, upload or download"
            if isinstance(direction, str):
                about = f"has the direction {word(direction)}, which is neither upload nor download"
            self.report(NO_DIRECTION, entry, about=about)

    def _on_open(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        if entry.sender not in GATEWAYS:
            id = entry.payload.get("stream_id")
            about = word(id) if isinstance(id, str) else "without an id"
            self.report(OWN_OPEN, entry, about=about)

    def _on_close(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        if (
            not any(True for _ in changes_of(changes, StreamChange, "closed"))
            and entry.sender not in GATEWAYS
        ):
            rule = CLOSE_NOTHING if self._knows(entry) else CLOSE_UNKNOWN
            self.report(rule, entry)

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
        mark, about = refused_mark(record, place), word(id if isinstance(id, str) else "")
        if stream is None:
            self.report(NO_STREAM, mark, about=about)
        elif stream.state == "closed":
            self.report(AFTER_CLOSE, mark, about=about, reason=word(stream.reason))
        else:
            self.report(NO_RIGHT, mark, about=about)
