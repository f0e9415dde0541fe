"""Parses the lines of a journal into columns: what the index of a journal stores of each line.

Most lines of a journal repeat the header of another line except for its number and its time, and their messages repeat
sender, addressees, kind, method and tool. Both groups of values are stored once each and numbered; a row holds the two
numbers. A line whose header was not seen before is read by `read_line`, so the rows are those of the reference reader.

A row takes about 5 µs. `read_columns` parses the lines of an open file. This module opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO, Any, NamedTuple

from mew_lab.ledger.calls import method_of, tool_of
from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.log.line import CHAIN_BYTES, read_line, read_members
from mew_lab.log.peers import PeerLine
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.log.references import BrokenReference, Restorer, refers
from mew_lab.protocol.text import utf8_size
from mew_lab.space.events import Record, outline

__all__ = [
    "BATCH",
    "ColumnParser",
    "Columns",
    "Header",
    "Reached",
    "Subject",
    "read_columns",
    "record_columns",
]

CHUNK = 256 * 1024  # bytes that are read at a time
BATCH = 8192
"""Rows that are stored at a time, at least."""

NUMBERED = 8192
"""Headers and subjects that are remembered at a time; equal ones get a second number after that."""
LONG_HEADER = 1000  # bytes; a longer header is not remembered

_SEQ = b'{"seq":'
_NOW = b',"now":"'
_EVENT = b'Z","event":'
_MARK = b',"envelope":'
_CHAIN = b',"chain":"'
_ZERO, _POINT, _QUOTE, _BRACE = b'0."}'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BEGINNING = datetime.min.replace(tzinfo=UTC)


class Header(NamedTuple):
    """The members of a record that other records repeat; `message` is whether it is a message or a refusal of one."""

    event: str
    space: str
    participant: str
    connection: str
    via: str
    verdict: str
    code: str
    pattern: str
    grant: str
    runtime_id: str
    detail: str
    receivers: tuple[str, ...]
    message: bool


class Subject(NamedTuple):
    """The members of a message that other messages repeat; `from` is in `source`, and `to` in `addressees`."""

    source: str
    addressees: tuple[str, ...]
    kind: str
    method: str
    tool: str


class Columns(NamedTuple):
    """The columns of some rows, each a list of the same length, and the headers and subjects numbered since then.

    `time` is in microseconds since 1970, `start` and `length` are in bytes, and `length` is 0 where a record comes
    from no line. `body` is the offset of the message in its line, and 0 where its exact text is not in it (as in a line
    that refers to another one, which is shorter than `size`). `size` is
    the size of the message in bytes, and 0 for a record without one.
    """

    start: list[int]
    length: list[int]
    body: list[int]
    seq: list[int]
    time: list[int]
    header: list[int]
    subject: list[int]
    size: list[int]
    id: list[str]
    ts: list[str]
    context: list[str]
    correlation_id: list[tuple[str, ...]]
    headers: list[tuple[int, Header]]
    subjects: list[tuple[int, Subject]]


def _new_columns() -> Columns:
    return Columns([], [], [], [], [], [], [], [], [], [], [], [], [], [])


def microseconds(time: datetime) -> int:
    """The time in microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def _is_usual(line: bytes, event: int) -> bool:
    """Whether a line begins with `{"seq":`, a number, `,"now":"` and a time of 26 characters, up to `event`."""
    comma = event - 34
    digits = line[7:comma]
    return (
        7 < comma < 26
        and line[:7] == _SEQ
        and digits.isdigit()
        and (digits[0] != _ZERO or comma == 8)
        and line[comma : comma + 8] == _NOW
        and line[comma + 27] == _POINT
        and line[comma + 28 : event].isdigit()
    )


_UNREADABLE = Header("", "", "", "", "", "", "", "", "", "", "", (), False)
_NOBODY = Subject("", (), "", "", "")


class ColumnParser:
    """Parses lines in their order; it remembers the numbers of headers and subjects.

    Attributes:
        unreadable: The number of lines that are no record; each has a row of event `unreadable`.
        last: The time of the last row.
        next_header: The next number of a header; `next_subject` likewise.
    """

    def __init__(self, *, headers: int = 0, subjects: int = 0, last: datetime = _BEGINNING) -> None:
        self.unreadable = 0
        self.last = last
        self.next_header, self.next_subject = headers, subjects
        self._header_numbers: dict[Header, int] = {}
        self._subject_numbers: dict[tuple[Any, ...], int] = {}
        self._known: dict[bytes, int] = {}  # bytes of a header from its event on: its number
        self._second, self._second_us = b"", 0
        self._restorer: Restorer | None = None

    def read_from(self, file: IO[bytes]) -> None:
        """The lines to come are of this file, in which those are looked up to which they refer."""
        self._restorer = Restorer(file)

    def parse(self, lines: Iterable[bytes], start: int, number: int, rows: Columns | None = None) -> Columns:
        """The rows of lines without their line feeds, which follow each other in the file; blank lines have none.

        Args:
            start: The offset of the first line in its file.
            number: The number of the first line in its file, from 1.
            rows: Rows to which these are added.
        """
        rows = _new_columns() if rows is None else rows
        add_start, add_length, add_body, add_seq, add_time, add_header, add_subject, add_size = (
            column.append for column in rows[:8]
        )
        add_id, add_ts, add_context, abouts = (
            rows.id.append,
            rows.ts.append,
            rows.context.append,
            rows.correlation_id,
        )
        known, numbers, find = self._known, self._subject_numbers, bytes.find
        none: tuple[str, ...] = ()
        time = microseconds(self.last)
        for count, line in enumerate(lines, number):
            here, length = start, len(line)
            start += length + 1
            # What follows is `read_line` for the usual line. Each condition that fails leads to `_read_slowly`.
            # Helpers are written out here: they would double the time of a line.
            event = find(line, _EVENT, 42, 70)
            mark = find(line, _MARK, event, event + LONG_HEADER) if event > 0 else -1
            header = known.get(line[event:mark]) if mark > 0 else None
            if header is not None and line[-1] == _BRACE:
                comma = event - 34
                digits, fraction = line[7:comma], line[comma + 28 : event]
                if (
                    line[:7] == _SEQ
                    and digits.isdigit()
                    and (digits[0] != _ZERO or comma == 8)
                    and fraction.isdigit()
                    and (
                        line[comma : comma + 28] == self._second
                        or self._read_second(line[comma : comma + 28])
                    )
                ):
                    chained = line[-CHAIN_BYTES : 10 - CHAIN_BYTES] == _CHAIN and line[-2] == _QUOTE
                    body = line[mark + 12 : -CHAIN_BYTES if chained else -1]
                    members = read_members(body)
                    if members is not None:
                        get = members.get
                        kind, source, to, payload = get("kind"), get("from"), get("to"), get("payload")
                        id, ts, context, about = get("id"), get("ts"), get("context"), get("correlation_id")
                        if to:
                            one = type(to) is list and len(to) == 1 and type(to[0]) is str
                            addressees = (to[0],) if one else _texts(to)
                        else:
                            addressees = none
                        if about:
                            one = type(about) is list and len(about) == 1 and type(about[0]) is str
                            abouts.append((about[0],) if one else _texts(about))
                        else:
                            abouts.append(none)
                        method = tool = ""
                        if type(payload) is dict and "method" in payload:
                            method = method_of(payload)
                            if method == "tools/call":
                                tool = tool_of(payload) or ""
                        subject = (
                            source if type(source) is str else "",
                            addressees,
                            kind if type(kind) is str else "",
                            method,
                            tool,
                        )
                        subject_number = numbers.get(subject)
                        if subject_number is None:
                            subject_number = self._number_subject(Subject(*subject), rows)
                        time = self._second_us + int(fraction)
                        add_start(here)
                        add_length(length)
                        add_body(mark + 12)
                        add_seq(int(digits))
                        add_time(time)
                        add_header(header)
                        add_subject(subject_number)
                        add_size(len(body))
                        add_id(id if type(id) is str else "")
                        add_ts(ts if type(ts) is str else "")
                        add_context(context if type(context) is str else "")
                        continue
            if line and not line.isspace():
                self.last = _EPOCH + time * _MICROSECOND
                self._read_slowly(PeerLine(count, line), here, length, rows)
                time = microseconds(self.last)
        self.last = _EPOCH + time * _MICROSECOND
        return rows

    def go_on(self, *, headers: int, subjects: int, last: datetime) -> None:
        """Goes on after rows that another parser has parsed, with so many headers and subjects of their own."""
        self.next_header += headers
        self.next_subject += subjects
        self.last = last

    def add_unreadable(self, line: PeerLine, start: int, length: int, rows: Columns | None = None) -> Columns:
        """The row of a line that is too long to be read; added to `rows`, where there are some."""
        rows = _new_columns() if rows is None else rows
        self._append_unreadable(line, start, length, rows)
        return rows

    def _read_slowly(self, line: PeerLine, start: int, length: int, rows: Columns) -> None:
        is_short = line.data is not None and refers(line.data)
        line = self._restore(line, start) if is_short else line
        record = read_line(line.data) if line.data is not None else None
        if record is None:
            self._append_unreadable(line, start, length, rows)
            return
        number = self.append(record, start, length, rows)
        self.last = record.now
        if is_short:  # its text does not stand in it
            return
        data = line.data or b""
        whole = outline(record) is None  # of the others, the size is not that of the text that was kept
        if whole and record.raw is not None and (at := data.find(_MARK)) > 0:
            rows.body[-1] = at + len(_MARK)
        event = data.find(_EVENT, 42, 70)
        mark = data.find(_MARK, event, event + LONG_HEADER) if event > 0 else -1
        if mark < 0 or not whole or not _is_usual(data, event):
            return
        key = data[event:mark]
        # A member that stands twice, or is spelt with an escape, could be another number or time of the line.
        if b'"seq"' not in key and b'"now"' not in key and b"\\u" not in key:
            if len(self._known) >= NUMBERED:
                self._known.clear()
            self._known[key] = number

    def _restore(self, line: PeerLine, start: int) -> PeerLine:
        assert self._restorer is not None and line.data is not None
        try:
            return line._replace(data=self._restorer.restore(line.data, start))
        except BrokenReference as fault:
            return line._replace(data=None, why=str(fault))

    def _append_unreadable(self, line: PeerLine, start: int, length: int, rows: Columns) -> None:
        self.unreadable += 1
        record = line.unreadable(self.last)
        # A file may have millions of them, each with a sentence of its own: it is numbered without being remembered.
        number = self.next_header
        self.next_header += 1
        rows.headers.append((number, _UNREADABLE._replace(event=record.event, detail=record.detail)))
        subject = self._subject_numbers.get(_NOBODY)
        if subject is None:
            subject = self._number_subject(_NOBODY, rows)
        rows.start.append(start)
        rows.length.append(length)
        rows.time.append(microseconds(self.last))
        rows.header.append(number)
        rows.subject.append(subject)
        for numbers in (rows.body, rows.seq, rows.size):
            numbers.append(0)
        for texts in (rows.id, rows.ts, rows.context):
            texts.append("")
        rows.correlation_id.append(())

    def append(self, record: Record, start: int, length: int, rows: Columns) -> int:
        """Appends the row of a record; returns the number of its header."""
        header = Header(
            record.event,
            record.space,
            record.participant,
            record.connection,
            record.via,
            record.verdict,
            record.code,
            record.pattern,
            record.grant,
            record.runtime_id,
            record.detail,
            record.to,
            is_message(record),
        )
        number = self._header_numbers.get(header)
        if number is None:
            if len(self._header_numbers) >= NUMBERED:
                self._header_numbers.clear()
            number = self._header_numbers[header] = self.next_header
            self.next_header += 1
            rows.headers.append((number, header))
        entry = RecordedEntry(record)
        source, ts = entry.members.get("from"), entry.members.get("ts")
        method = method_of(entry.payload)
        subject = Subject(
            source if type(source) is str else "",
            entry.to,
            entry.kind,
            method,
            (tool_of(entry.payload) or "") if method == "tools/call" else "",
        )
        subject_number = self._subject_numbers.get(subject)
        if subject_number is None:
            subject_number = self._number_subject(subject, rows)
        rows.start.append(start)
        rows.length.append(length)
        rows.body.append(0)
        rows.seq.append(record.seq)
        rows.time.append(microseconds(record.now))
        rows.header.append(number)
        rows.subject.append(subject_number)
        rows.size.append(size_of(record))
        rows.id.append(entry.id)
        rows.ts.append(ts if type(ts) is str else "")
        rows.context.append(entry.context)
        rows.correlation_id.append(entry.correlation_id)
        return number

    def _number_subject(self, subject: Subject, rows: Columns) -> int:
        if len(self._subject_numbers) >= NUMBERED:
            self._subject_numbers.clear()
        number = self._subject_numbers[subject] = self.next_subject
        self.next_subject += 1
        rows.subjects.append((number, subject))
        return number

    def _read_second(self, text: bytes) -> bool:
        """Remembers the second in `,"now":"2026-11-21T22:40:01.`; false for a text like a 30th of February."""
        name = text[8:27]
        try:
            second = datetime.fromisoformat(name.decode("ascii")).replace(tzinfo=UTC)
        except ValueError:
            return False
        # Other forms of ISO 8601 are read as well.
        if text != b"%b%b." % (_NOW, second.isoformat()[:19].encode()):
            return False
        self._second, self._second_us = text, microseconds(second)
        return True


class Reached(NamedTuple):
    """How far a file has been read.

    `end` is the offset after the last line, and `lines` is the number of lines before it. `torn` is the length of a torn
    line after it.
    """

    end: int = 0
    lines: int = 0
    torn: int = 0


def read_columns(
    file: IO[bytes], parser: ColumnParser, first: Reached, limit: int | None = None
) -> Iterator[tuple[Reached, Columns | None]]:
    """Parses the lines of a file in parts; yields how far it has come, and the rows whenever there are many.

    Args:
        first: How far the file has been read before.
        limit: The offset where it ends, and a line that goes on there is left out. None for the end of the file, where
            the last line needs no line feed, and may be torn.
    """
    start, count, _ = first
    parser.read_from(file)
    file.seek(start)
    rest = b""
    torn = 0
    rows: Columns | None = None
    while data := file.read(CHUNK if limit is None else max(0, min(CHUNK, limit - file.tell()))):
        data = rest + data if rest else data
        if cut := data.rfind(b"\n") + 1:
            rest = data[cut:]
            lines = data[: cut - 1].split(b"\n")
            rows = _parse_all(parser, lines, start, count + 1, rows)
            start, count = start + cut, count + len(lines)
        elif len(data) > LINE_LIMIT:
            length = _skip_line(file, start, len(data))
            rows = parser.add_unreadable(PeerLine(count + 1, None), start, length, rows)
            start, count, rest = start + length, count + 1, b""
        else:
            rest = data
            continue
        is_batch = rows is not None and len(rows.seq) >= BATCH
        yield Reached(start, count), rows if is_batch else None
        rows = None if is_batch else rows
    if rest and limit is None:
        if len(rest) > LINE_LIMIT:
            rows = parser.add_unreadable(PeerLine(count + 1, None), start, len(rest), rows)
            start, count = start + len(rest), count + 1
        elif read_members(rest) is None:
            torn = len(rest)
        else:
            rows = parser.parse([rest], start, count + 1, rows)
            start, count = start + len(rest), count + 1
    yield Reached(start, count, torn), rows


def _parse_all(
    parser: ColumnParser, lines: list[bytes], start: int, number: int, rows: Columns | None
) -> Columns | None:
    """Adds the rows of some lines; a line that is too long has a row that says so."""
    if max(map(len, lines)) < LINE_LIMIT:
        return parser.parse(lines, start, number, rows)
    for line in lines:
        if len(line) < LINE_LIMIT:
            rows = parser.parse([line], start, number, rows)
        else:
            rows = parser.add_unreadable(PeerLine(number, None), start, len(line), rows)
        start, number = start + len(line) + 1, number + 1
    return rows


def _skip_line(file: IO[bytes], start: int, length: int) -> int:
    """Reads to the end of a line that is too long; returns its length with its line feed."""
    while data := file.readline(CHUNK):
        length += len(data)
        if data.endswith(b"\n"):
            break
    file.seek(start + length)
    return length


def record_columns(parser: ColumnParser, records: Sequence[Record]) -> Columns:
    """The rows of records that come from no line."""
    rows = _new_columns()
    for record in records:
        parser.unreadable += record.event == "unreadable"
        parser.append(record, 0, 0, rows)
    return rows


def size_of(record: Record) -> int:
    """The size of the message of a record in bytes; 0 where it has none."""
    if (known := outline(record)) is not None:
        return known.size
    return utf8_size(record.raw) if record.raw is not None else 0


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple([text for text in value if isinstance(text, str)]) if isinstance(value, list) else ()
