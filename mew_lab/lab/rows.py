"""The rows of the feed: one for each of the newest journal records that hold a message.

The number of a row is that of its record in the journal (R37), so the numbers rise and have gaps. When a record arrives,
only its references are read. A row is built when a reader requests it, on the reader's thread.
The loop's thread is the only writer. Readers on any thread get slices of a list that only grows, or of its successor,
so no lock is needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import is_failure
from mew_lab.ledger.reasoning import streamed_id
from mew_lab.log.entries import author, number_after
from mew_lab.log.held_records import excess
from mew_lab.log.line import read_members
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, mapping_of, member, text_of
from mew_lab.protocol.describe import describe
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.text import utf8_size
from mew_lab.sdk.list_pages import LISTED
from mew_lab.space.events import Record, outline

__all__ = ["THOUGHTS", "Row", "Rows", "is_plumbing"]

THOUGHTS = "thoughts of {}"  # the description of a stream that carries the reasoning of a participant

CAPACITY = 20_000
MAX_CHARACTERS = 128 * 1024 * 1024  # characters of the kept texts
MOST_PARSED, MAX_PARSED = 512, 4096  # messages whose members are kept, and characters of one of them
MOST_RELATED = 50
MOST_TOOL = 60  # characters of the name of a tool

# What a space sends to keep itself running. A reader hides it, unless it reports a failure or was refused.
_PLUMBING_KINDS = frozenset(
    {
        "system/welcome",
        "system/presence",
        "participant/request-status",
        "participant/status",
        "chat/acknowledge",
        "capability/grant-ack",
        "space/invite-ack",
    }
)
_PLUMBING_METHODS = frozenset(
    {
        *("initialize", "ping", "completion/complete", "notifications/initialized"),
        *LISTED,
        *(f"notifications/{what}/list_changed" for what in ("tools", "resources", "prompts")),
    }
)
_BAD_NEWS = ("err", "fail", "reject", "denied", "refus", "exist", "crash", "overload")


class Row(NamedTuple):
    """One envelope in the feed. `t` is the time at the gateway in seconds of the epoch, `size` the bytes of its text.

    `correlates` is the `seq` of the row that this one answers, 0 for none; `also` has those of the other messages in
    its `correlation_id`. `verdict` is `accepted`, `refused`, `sent`, or empty where it is unknown. `code` is the error
    code or the deciding pattern in short form. `tool` is the tool that the message calls, or whose answer it is.
    `plumbing` tells messages that only keep the space running; `failed` tells errors, of the protocol or of a tool.
    """

    seq: int
    t: float
    sender: str
    to: tuple[str, ...]
    kind: str
    what: str
    context: str
    correlates: int
    verdict: str
    code: str
    id: str
    size: int
    also: tuple[int, ...] = ()
    tool: str = ""
    plumbing: bool = False
    failed: bool = False


def is_plumbing(
    kind: str, payload: Mapping[str, Any], verdict: str, *, answers_plumbing: bool = False
) -> bool:
    """Whether a message only keeps the space running: a welcome, presence, a status, an acknowledgement, a list request.

    A refused message is none, nor one that reports a failure or a refusal. An answer is plumbing where the message that
    it answers is, which `answers_plumbing` tells.
    """
    if verdict == "refused":
        return False
    if kind == "mcp/response":
        return answers_plumbing and not is_failure(payload) and not unknown_outcome(payload)
    if kind == "mcp/request":
        method = payload.get("method")
        return isinstance(method, str) and method in _PLUMBING_METHODS
    if kind not in _PLUMBING_KINDS:
        return False
    status = payload.get("status")
    return not (isinstance(status, str) and any(word in status.lower() for word in _BAD_NEWS))


class Rows:
    """The newest rows of a space, whose `seq` rises. Keeps 20 000 to 40 000 rows, at most 128 Mi characters.

    Args:
        sign: What stands before a number; see `Log.sign`.
    """

    def __init__(
        self,
        title: Callable[[], tuple[str, int]],
        *,
        sign: str = "#",
        capacity: int = CAPACITY,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self._title = title
        self.sign = sign
        self._capacity = capacity
        self._characters, self._most = 0, max_characters
        # How many records were dropped, and the number of the last of them; the others, and their numbers.
        self._held: tuple[int, int, list[Record], list[int]] = (0, 0, [], [])
        # Members of the newest messages, which are shown next, so that their text is not parsed again for it.
        self._parsed: BoundedDict[int, Mapping[str, Any]] = BoundedDict(MOST_PARSED)
        self._seq_of: dict[str, int] = {}
        # A row that names others -> the first of them, the rest.
        self._ties: dict[int, tuple[int, tuple[int, ...]]] = {}
        # An MCP request or proposal -> its tool, or `_LISTS` where it is plumbing. An answer is shown with them.
        self._calls: dict[int, str] = {}
        self._subscribers: Subscribers[()] = Subscribers()

    @property
    def last_seq(self) -> int:
        """The newest row's seq, 0 before the first."""
        _, dropped, _, numbers = self._held
        return numbers[-1] if numbers else dropped

    def count(self, after: int = 0) -> int:
        """The number of rows after `after`, those included that are no longer held."""
        count, dropped, _, numbers = self._held
        passed_over = after < dropped or after <= 0
        return len(numbers) - bisect_right(numbers, after) + (count if passed_over else 0)

    def since(self, seq: int, limit: int) -> list[Row]:
        """The rows after `seq`, oldest first, at most `limit`; dropped rows are missing at the front."""
        _, _, records, numbers = self._held
        start = bisect_right(numbers, seq)
        # A record is added before its number.
        some = numbers[start : start + limit]
        return [self._row(*pair) for pair in zip(some, records[start : start + len(some)], strict=True)]

    def numbers(self, after: int, limit: int) -> list[int]:
        """The `seq` of each row that `since` returns; no row is built for it."""
        _, _, _, numbers = self._held
        start = bisect_right(numbers, after)
        return numbers[start : start + limit]

    def back(self, seq: int, rows: int) -> int:
        """The number after which the last `rows` rows up to `seq` come, at most `seq`.

        It is the number of a row, or that of the last dropped row where not so many are held.
        """
        _, dropped, _, numbers = self._held
        at = bisect_right(numbers, seq) - rows
        return numbers[at - 1] if at > 0 else min(dropped, seq)

    def ties(self, seq: int) -> list[tuple[int, tuple[int, ...]]]:
        """The rows after `seq` that correlate to others, oldest first, each with the rows that it names."""
        ties = self._ties.copy()
        return [(row, (first, *also) if first else also) for row, (first, also) in ties.items() if row > seq]

    def raw(self, seq: int) -> str:
        """The exact text of that row's envelope; empty when it was dropped."""
        record = self.record(seq)
        return record.raw or "" if record else ""

    def pattern(self, seq: int) -> str:
        """The whole capability that permitted that row's envelope; empty where none did, or it is unknown."""
        record = self.record(seq)
        return record.pattern if record else ""

    def record(self, seq: int) -> Record | None:
        """The record of that row; None when it was dropped."""
        _, _, records, numbers = self._held
        at = bisect_right(numbers, seq) - 1
        return records[at] if at >= 0 and numbers[at] == seq else None

    def title(self) -> tuple[str, int]:
        """The name of the space and the number of its members."""
        return self._title()

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls `on_change` after rows were added; returns a function that ends the subscription."""
        return self._subscribers.add(on_change)

    def observe(self, record: Record, members: Mapping[str, Any] | None = None) -> None:
        """Takes a record; only records that hold a message become rows.

        `members` are those of its message, where known.
        """
        if record.raw is None:
            return
        members = members or read_members(record.raw) or {}
        count, dropped, records, numbers = self._held
        if count and not dropped and not numbers:  # the first one behind those that were passed over
            dropped = max(0, record.seq - 1)
            self._held = (count, dropped, records, numbers)
        seq = number_after(record, numbers[-1] if numbers else dropped)
        if related := members.get("correlation_id"):
            self._tie(seq, related)
        if members.get("kind") in _CALLS and (call := _call_of(members, record.verdict)):
            self._calls[seq] = call
        if len(record.raw) <= MAX_PARSED:
            self._parsed[seq] = members
        records.append(record)
        numbers.append(seq)
        self._characters += len(record.raw)
        if (id := text_of(members.get("id"))) and self._yields(id, record):
            self._seq_of[id] = seq
        cut = self._capacity if len(records) > 2 * self._capacity else 0
        if self._characters > self._most:
            cut = excess(records, self._most // 2)
        if cut:
            dropped = numbers[cut - 1]
            self._characters -= sum(len(old.raw or "") for old in records[:cut])
            self._seq_of = {id: seq for id, seq in self._seq_of.items() if seq > dropped}
            self._ties = {seq: tie for seq, tie in self._ties.items() if seq > dropped}
            self._calls = {seq: call for seq, call in self._calls.items() if seq > dropped}
            self._held = (count + cut, dropped, records[cut:], numbers[cut:])
        self._subscribers.tell()

    def pass_over(self, rows: int) -> None:
        """Counts rows that are not kept; called before the first."""
        self._held = (rows, 0, [], [])

    def _yields(self, id: str, record: Record) -> bool:
        """Whether references to that id mean this record from now on; the first accepted record keeps its id."""
        holder = self.record(self._seq_of.get(id, 0))
        return holder is None or (holder.verdict == "refused" and record.verdict != "refused")

    def _tie(self, seq: int, related: object) -> None:
        first, *others = related[:MOST_RELATED] if isinstance(related, list) else [related]
        rows = (self._seq_of.get(text_of(id), 0) for id in others)
        tie = self._seq_of.get(text_of(first), 0), tuple(sorted({id for id in rows if id}))
        if any(tie):
            self._ties[seq] = tie

    def _starts(self, id: str, sender: str) -> bool:
        """Whether that id is of a sequence of reasoning that this participant started."""
        record = self.record(self._seq_of.get(id, 0)) if id else None
        start = (read_members(record.raw or "") or {}) if record is not None else {}
        return (
            record is not None
            and record.verdict != "refused"
            and start.get("kind") == "reasoning/start"
            and author(record, start) == sender
        )

    def _row(self, seq: int, record: Record) -> Row:
        raw = record.raw or ""
        members = self._parsed.get(seq) or read_members(raw) or {}
        kind, to = text_of(members.get("kind")), members.get("to")
        known = outline(record)
        what = str(known) if known else describe(kind, members.get("payload"))
        if known is None and ("e+" in what or "…" in what):
            # It may show an integer beyond 64 bits, which the fast parser reads as a float.
            what = describe(kind, (read_members(raw, exact=True) or members).get("payload"))
        first, others = self._ties.get(seq, (0, ()))
        payload, sender = mapping_of(members.get("payload")), author(record, members)
        if kind == "stream/request" and self._starts(streamed_id(payload.get("description")), sender):
            what = describe(kind, {**payload, "description": THOUGHTS.format(sender)})
        tool, plumbing, failed = "", False, kind == "system/error"
        if kind in _CALLS:
            tool = self._calls.get(seq, "")
            plumbing = tool == _LISTS
        elif kind == "mcp/response":
            tool = self._calls.get(first, "")
            failed = is_failure(payload)
            plumbing = is_plumbing(kind, payload, record.verdict, answers_plumbing=tool == _LISTS)
        else:
            plumbing = is_plumbing(kind, payload, record.verdict)
        if tool == _LISTS:
            tool = ""
        if tool and failed and what.startswith("Failed: "):
            what = f"{tool} failed: {what[8:]}"
        return Row(  # by position: names cost three times as much, thousands of times a second
            seq,
            record.now.timestamp(),
            sender,
            tuple(text_of(id) for id in to) if isinstance(to, list) else (),
            kind,
            what if members or known else "unreadable message",
            text_of(members.get("context")),
            first,
            record.verdict,
            record.code or _shorten_pattern(record.pattern),
            text_of(members.get("id")),
            known.size if known else utf8_size(raw),
            others,
            tool,
            plumbing,
            failed,
        )


_CALLS = ("mcp/request", "mcp/proposal")
_LISTS = "\n"  # no tool has this name: names are cut to one line


def _call_of(members: Mapping[str, Any], verdict: str) -> str:
    """The tool of a request or proposal; `_LISTS` for plumbing, empty for everything else."""
    payload = mapping_of(members.get("payload"))
    if is_plumbing(str(members.get("kind")), payload, verdict):
        return _LISTS
    return line_of(member(payload, "params", "name"), MOST_TOOL)


@lru_cache(maxsize=1024)  # a space has few patterns and many messages
def _shorten_pattern(pattern: str) -> str:
    """The kinds of a pattern, with `(…)` where it has further conditions."""
    members = read_members(pattern) or {}
    kind = members.get("kind", "")
    word = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return f"{word}(…)" if "payload" in members or "to" in members else word
