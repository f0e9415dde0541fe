"""Builds the columns of a journal by one statement of DuckDB; what it does not vouch for is read by `read_line`.

How it works
------------
    a file ── read_ndjson_objects ── the statement ── rows in `lines`
                                                        │ vouched = false
                                     `read_line` ───────┘ reads these lines again, and replaces their rows

- The statement vouches for a row where the line begins with the header that `write_line` writes for its members, ends
  with its message or its chain, has no member twice, and where each member that becomes a column is a text without
  escapes.
- DuckDB trims lines, leaves out blank ones, and gives no text of a broken one. Where its texts and the line feeds do
  not add up to the file, offsets and lengths come from `_find_lines`, and a row of another length is not vouched for.
- Lines that were appended are copied into a file of their own, because DuckDB reads a file from its beginning. Few of
  them, and a file whose name is no text, are read by `read_line` alone.

DuckDB takes some texts for JSON that no reader of ours takes: a line with `NaN`, `Infinity` or a comma before a bracket
is not vouched for, nor one with more than `MAX_DEPTH` brackets. What remains, such as `nan` or `1e999` in a payload, no
gateway of ours writes, and `verify` finds it: the index has a message where another reader has a line that it cannot
read.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import duckdb
import numpy as np

from mew_lab.log.entries import RecordedEntry, is_message
from mew_lab.log.line import CHAIN_BYTES, MARK, read_line, read_members
from mew_lab.log.peers import PeerLine
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.log.references import BrokenReference, Restorer, refers
from mew_lab.log.table import COLUMNS
from mew_lab.protocol.envelope import MAX_DEPTH
from mew_lab.space.events import OUTLINE, Record, outline

__all__ = ["LINE_TABLE", "Reached", "add_lines", "add_records", "is_text", "literal_path", "quote_text"]

FEW: Final = 64 * 1024  # bytes of lines that `read_line` reads in less time than the statement
PART: Final = 1 << 20  # bytes of a file that are read or copied at a time
BATCH: Final = 8192  # rows that are inserted at a time
TOLD: Final = 0.05  # seconds between two reports

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_LINE_FEED: Final = 10
_BLANK: Final = np.isin(np.arange(256), [*b" \t\n\r\x0b\x0c"])
_Array = np.ndarray[Any, np.dtype[np.int64]]

_LISTS: Final = tuple(column.name for column in COLUMNS if column.several)
_VALUES: Final[dict[str, Callable[[RecordedEntry], Any]]] = {
    **{column.name: column.value for column in COLUMNS if column.dtype in ("object", "str")},
    "space": lambda entry: entry.record.space,
    "runtime_id": lambda entry: entry.record.runtime_id,
    **{column.name: column.value for column in COLUMNS if column.name in ("seq", "size")},
    "message": lambda entry: is_message(entry.record),
}
"""What stands in the columns of a row, as functions of its entry; the statement gives the same."""
_TEXTS: Final = tuple(name for name in _VALUES if name not in (*_LISTS, "seq", "size", "message"))

_COLUMNS: Final = (
    *("place BIGINT", "file INTEGER", "start BIGINT", "length BIGINT", "body INTEGER", "size BIGINT", "seq BIGINT"),
    *('"time" TIMESTAMPTZ', "message BOOLEAN", "vouched BOOLEAN"),
    *(f'"{name}" VARCHAR' for name in _TEXTS),
    *(f'"{name}" VARCHAR[]' for name in _LISTS),
)  # fmt: skip
LINE_TABLE: Final = f"""
CREATE TABLE lines ({", ".join(_COLUMNS)});
"""
"""The statement that creates the table.

`lines` has a row for each line that is not blank. `start` and `length` are in bytes, and `length` is 0 where a record
comes from no line. `body` is the offset of the message in its line, and 0 where its exact text is not in it (as in a
line that refers to another one, which is shorter than `size`).
"""


class Reached(NamedTuple):
    """How far a file has been read.

    `end` is the offset after the last line, and `lines` is the number of lines before it. `torn` is the length of a torn
    line after it.
    """

    end: int = 0
    lines: int = 0
    torn: int = 0


class _Line(NamedTuple):
    """A line that is read by `read_line`: the place of its row, its number in the file, its offset and its length."""

    place: int
    number: int
    start: int
    length: int


# --- the statement ---

_HEAD: Final = (
    *("event", "space", "participant", "connection", "via", "verdict", "code", "pattern", "detail"),
)
_MESSAGE: Final = {
    **{name: f'x.envelope."{name}"' for name in ("from", "kind", "id", "ts", "context")},
    "method": "x.envelope.payload.method",
    "tool": "x.envelope.payload.params.name",
}
_SEVERAL: Final = {name: f'x.envelope."{name}"' for name in ("to", "correlation_id")}
_STRUCTURE: Final = {
    **dict.fromkeys(("now", *_HEAD, "grant", "runtime_id", "chain"), "VARCHAR"),
    "seq": "BIGINT",
    "received": "JSON",
    "to": ["VARCHAR"],
    "envelope": {
        **dict.fromkeys(("protocol", "from", "kind", "id", "ts", "context", *_SEVERAL), "JSON"),
        "payload": {"jsonrpc": "JSON", "id": "JSON", "method": "JSON", "params": {"name": "JSON"}},
    },
}
_OBJECTS: Final = ["$", "$.envelope", "$.envelope.payload", "$.envelope.payload.params"]
_TEXT: Final = r'"[^"\\]*"'
_LIST: Final = rf"\[({_TEXT}(,{_TEXT})*)?\]"
_UNREAD: Final = ("NaN", "Infinity", ",}", ",]")


def _statement() -> str:
    # A text of JSON is seen with its quotation marks, so that a number is none.
    texts = {name: f"coalesce({value}[2:-2], '')" for name, value in _MESSAGE.items()}
    lists = {
        name: f"""CASE WHEN {value} <> '[]' THEN string_split({value}[3:-3], '","') ELSE [] END"""
        for name, value in _SEVERAL.items()
    }
    values = {name: f'x."{name}"' for name in _HEAD}
    values |= {name: rf"""replace(x.{name}, '"', '\"')""" for name in ("pattern", "detail")}
    envelope: Any = _STRUCTURE["envelope"]
    head = "".join(f""", '","{name}":"', {value}""" for name, value in values.items())
    conditions = [
        "starts_with(json, head)",
        "ends_with(json, tail)",
        f"coalesce(strlen(x.chain) = {CHAIN_BYTES - 12}, true)",
        f"length < {LINE_LIMIT}",
        f"NOT starts_with(x.detail, '{OUTLINE}')",  # of a message of which only the beginning was kept
        "x.seq >= 0",
        'strlen(x.now) = 27 AND "time" IS NOT NULL',
        """(x.received IS NULL OR starts_with(x.received, '"'))""",
        *(f"""coalesce(starts_with({value}, '"'), true)""" for value in _MESSAGE.values()),
        rf"NOT contains(concat({', '.join(_MESSAGE.values())}), '\')",
        f"regexp_full_match(concat_ws(',', {', '.join(_SEVERAL.values())}), '({_LIST}(,{_LIST})?)?')",
        # No member stands twice: there are as many as are known, or no two are the same, which takes longer to see.
        f"len(k[1]) = {len(_HEAD) + 4} + {_count('x.to', 'x.grant', 'x.runtime_id', 'x.chain')}",
        f"CASE WHEN len(k[2]) = {_count(*(f'x.envelope.{name}' for name in envelope))} THEN true "
        "ELSE len(list_distinct(k[2])) = len(k[2]) END",
        "CASE WHEN NOT list_contains(k[3], 'method') "
        f"OR len(k[3]) = {_count(*(f'x.envelope.payload.{name}' for name in envelope['payload']))} THEN true "
        "ELSE len(list_distinct(k[3])) = len(k[3]) END",
        f"""CASE WHEN {_MESSAGE["method"]} IS DISTINCT FROM '"tools/call"' THEN true """
        "ELSE len(list_distinct(k[4])) = len(k[4]) END",
        *(f"NOT contains(json, '{text}')" for text in _UNREAD),
        f"2 * length - strlen(replace(json, '[', '')) - strlen(replace(json, '{{', '')) <= {MAX_DEPTH}",
    ]
    columns = {
        "place": "$place + row_number() OVER ()",
        "file": "$file",
        "start": "$start + sum(length + 1) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - length - 1",
        "length": "length",
        "body": "strlen(head) - 1",
        "size": "length - strlen(head) + 2 - strlen(tail)",
        "seq": "x.seq",
        "time": '"time"',
        "message": "true",
        "vouched": f"coalesce({' AND '.join(conditions)}, false)",
        **{name: f'x."{name}"' for name in _HEAD},
        **{name: f"""coalesce(x."{name}", '')""" for name in ("grant", "runtime_id")},
        **texts,
        "tool": f"""CASE WHEN {_MESSAGE["method"]} = '"tools/call"' THEN {texts["tool"]} ELSE '' END""",
        **lists,
        "receivers": 'coalesce(x."to", [])',
    }
    terms = ", ".join(f'{term} AS "{name}"' for name, term in columns.items())
    return f"""
INSERT INTO lines BY NAME SELECT {terms} FROM (
    SELECT *,
        concat('{{"seq":', x.seq, ',"now":"', x.now{head}, '","received":', coalesce(x.received, 'null'),
            ',"to":["' || array_to_string(x."to", '","') || '"]', ',"grant":"' || x."grant" || '"',
            ',"runtime_id":"' || x.runtime_id || '"', ',"envelope":{{') AS head,
        concat('}}', ',"chain":"' || x.chain || '"', '}}') AS tail,
        CASE WHEN substr(x.now, 20, 1) = '.' AND ends_with(x.now, 'Z') AND x.now[1:1] <> '0'
            THEN make_timestamptz(epoch_us(try_strptime(x.now, '%Y-%m-%dT%H:%M:%S.%fZ'))) END AS "time"
    FROM (
        SELECT json, strlen(json) AS length, from_json(json, '{json.dumps(_STRUCTURE)}') AS x,
            json_keys(json, {_OBJECTS}) AS k
        FROM read_ndjson_objects(
            $path, ignore_errors=true, maximum_object_size={LINE_LIMIT}, compression='uncompressed'
        )
    )
)
"""


def _count(*values: str) -> str:
    """The number of these values that there are, in SQL."""
    quoted = (re.sub(r"[^.]+$", r'"\g<0>"', value) for value in values)
    return "(" + " + ".join(f"({value} IS NOT NULL)::INTEGER" for value in quoted) + ")"


_STATEMENT: Final = _statement()


def quote_text(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def literal_path(path: str) -> str:
    """A path as a pattern of DuckDB that only it matches."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


# --- adding rows ---


def add_lines(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    file: IO[bytes],
    number: int,
    place: int,
    first: Reached,
    folder: Path,
    tell: Callable[[int], None],
) -> tuple[Reached, int]:
    """Adds the rows of the lines of a file from where it has been read; returns how far it is read, and their number.

    The last line of a file needs no line feed, and may be torn.

    Args:
        path: The file; `file` is the same file, which may have become longer, and `number` is its number in the log.
        place: The place of the row before.
        folder: A private folder.
        tell: Called from time to time with the offset that is reached; what it raises ends the reading.

    Raises:
        OSError: when the file cannot be read.
        duckdb.Error: when the rows cannot be stored.
    """
    end, torn = _find_end(file, first.end)
    if end == first.end:
        return Reached(end, first.lines, torn), 0
    part = _FilePart(connection, file, number, place, first, end)
    try:
        is_short = end - first.end < FEW or not is_text(path)
        lines = part.read_all(tell) if is_short else part.read(path, folder, tell)
    except BaseException:
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        with suppress(duckdb.Error):
            part.drop()
        raise
    tell(end)
    return Reached(end, first.lines + lines, torn), part.rows


class _FilePart:
    """The reading of the lines between two offsets of a file.

    Attributes:
        rows: The number of rows that were added.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        file: IO[bytes],
        number: int,
        place: int,
        first: Reached,
        end: int,
    ) -> None:
        self.rows = 0
        self._connection = connection
        self._file = file
        self._number = number
        self._place = place
        self._first = first
        self._end = end
        self._restorer = Restorer(file)
        self._before = _BEGINNING  # the time of the row before
        if first.end:
            found = connection.execute(
                'SELECT epoch_us("time") FROM lines WHERE place = ?', [place]
            ).fetchall()
            self._before = _EPOCH + int(found[0][0]) * _MICROSECOND if found else _BEGINNING

    def read(self, path: Path, folder: Path, tell: Callable[[int], None]) -> int:
        """Adds the rows by the statement, and reads those that it does not vouch for; returns the number of lines."""
        copy = folder / f"lines-{secrets.token_hex(6)}" if self._first.end else None
        try:
            if copy is not None:
                self._copy(copy)
            given = {
                "path": literal_path(str(copy or path.absolute())),
                "file": self._number,
                "place": self._place,
                "start": self._first.end,
            }
            try:
                self._run(given, tell)
            except (duckdb.InvalidInputException, duckdb.OutOfMemoryException):
                # A line is longer than DuckDB reads, or than fits in its memory once for each of its threads.
                return self.read_all(tell)
            if copy is None and not self._is_at(path):  # DuckDB may have read the file that stands there now
                self.drop()
                return self.read_all(tell)
        finally:
            if copy is not None:
                copy.unlink(missing_ok=True)
        numbers: Sequence[int] | _Array
        rows: int
        rows, texts, reached = self._ask(
            "SELECT count(*), count(length), max(start + length) FROM lines WHERE place > ? AND start < ?",
            self._place,
            self._end,
        )[0]
        if rows == texts and reached == self._end - self._has_feed():
            self._connection.execute("DELETE FROM lines WHERE place > ?", [self._place + rows])
            numbers, lines = range(1, rows + 1), rows
        else:
            found = _find_lines(self._file, self._first.end, self._end)
            [(rows,)] = self._ask("SELECT count(*) FROM lines WHERE place > ?", self._place)
            if rows < len(found.numbers):
                self.drop()
                return self.read_all(tell)
            self._correct(found)
            rows, numbers, lines = len(found.numbers), found.numbers, found.lines
        self.rows = rows
        odd = self._ask(
            'SELECT o.place, o.start, o.length, epoch_us(p."time") FROM lines o '
            "LEFT JOIN lines p ON p.place = o.place - 1 WHERE o.place > ? AND NOT o.vouched ORDER BY o.place",
            self._place,
        )
        # Rows that were deleted where they were inserted would all be inserted a second time by the commit.
        self._connection.execute("BEGIN")
        self._connection.execute("DELETE FROM lines WHERE place > ? AND NOT vouched", [self._place])
        self._add(
            (_Line(place, int(numbers[place - self._place - 1]), start, length), time)
            for place, start, length, time in odd
        )
        self._connection.execute("COMMIT")
        return lines

    def drop(self) -> None:
        """Drops the rows that were added."""
        self._connection.execute("DELETE FROM lines WHERE place > ?", [self._place])

    def read_all(self, tell: Callable[[int], None]) -> int:
        """Adds the rows of all lines by `read_line`; returns the number of lines."""
        found = _find_lines(self._file, self._first.end, self._end)
        lines = zip(found.numbers.tolist(), found.starts.tolist(), found.lengths.tolist(), strict=True)

        def told() -> Iterator[tuple[_Line, int | None]]:
            for place, line in enumerate(lines, self._place + 1):
                yield _Line(place, *line), None
                if place % BATCH == 0:
                    tell(line[1])

        self._add(told())
        self.rows = len(found.numbers)
        return found.lines

    def _run(self, given: dict[str, Any], tell: Callable[[int], None]) -> None:
        """Runs the statement in a thread, so that it can be told how far it is, and an interrupt ends it."""
        faults = list[BaseException]()

        def run() -> None:
            try:
                self._connection.execute(_STATEMENT, given)
            except BaseException as fault:
                faults.append(fault)

        thread = threading.Thread(target=run, name="log index", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(TOLD)
                part = min(max(self._connection.query_progress(), 0.0), 99.0) / 100
                tell(self._first.end + int(part * (self._end - self._first.end)))
        except BaseException:
            while thread.is_alive():
                self._connection.interrupt()
                thread.join(TOLD)
            raise
        for fault in faults:
            raise fault

    def _is_at(self, path: Path) -> bool:
        """Whether the file that is read is still the one at the path."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def _ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def _has_feed(self) -> bool:
        self._file.seek(self._end - 1)
        return self._file.read(1) == b"\n"

    def _copy(self, target: Path) -> None:
        self._file.seek(self._first.end)
        left = self._end - self._first.end
        with target.open("xb") as copy:
            while left > 0 and (data := self._file.read(min(PART, left))):
                copy.write(data)
                left -= len(data)

    def _correct(self, found: _FoundLines) -> None:
        """Sets offsets and lengths of the rows of the statement, which are those of the lines in their order."""
        connection, count = self._connection, len(found.numbers)
        connection.execute("DELETE FROM lines WHERE place > ?", [self._place + count])
        places = np.arange(self._place + 1, self._place + count + 1)
        connection.register("found", {"at": places, "begin": found.starts, "size": found.lengths})
        connection.execute(
            "UPDATE lines SET start = found.begin, length = found.size, "
            "vouched = vouched AND coalesce(lines.length = found.size, false) FROM found WHERE place = found.at"
        )
        connection.unregister("found")

    # --- rows by `read_line` ---

    def _add(self, lines: Iterator[tuple[_Line, int | None]]) -> None:
        """Adds the rows of lines, each with the time of the row before, where that is not one of these lines."""
        last = -1
        while batch := list(islice(lines, BATCH)):
            rows = list[_Row]()
            for line, time in batch:
                if line.place != last + 1 and time is not None:
                    self._before = _EPOCH + time * _MICROSECOND
                last = line.place
                rows.append(self._row(line))
            _insert(self._connection, rows, self._number)

    def _row(self, line: _Line) -> _Row:
        number, short, data = line.number + self._first.lines, False, b""
        read = PeerLine(number, None)
        if line.length < LINE_LIMIT:
            self._file.seek(line.start)
            data = self._file.read(line.length)
            read = PeerLine(number, data)
            if short := refers(data):
                try:
                    read = PeerLine(number, self._restorer.restore(data, line.start))
                except BrokenReference as fault:
                    read = PeerLine(number, None, str(fault))
        record = read_line(read.data) if read.data is not None else None
        body = 0
        if record is None:
            record = read.unreadable(self._before)
        elif not short and record.raw is not None and outline(record) is None and (at := data.find(MARK)) > 0:
            body = at + len(MARK)  # else its text does not stand in it, or only the beginning of it
        self._before = record.now
        return _Row(line.place, line.start, line.length, body, record)


class _Row(NamedTuple):
    """A row by the reader of records."""

    place: int
    start: int
    length: int
    body: int
    record: Record


def add_records(connection: duckdb.DuckDBPyConnection, records: Sequence[Record], place: int) -> None:
    """Adds the rows of records to a table that is of no file; `place` is that of the row before."""
    _insert(connection, [_Row(at, 0, 0, 0, record) for at, record in enumerate(records, place + 1)], -1)


def _insert(connection: duckdb.DuckDBPyConnection, rows: Sequence[_Row], file: int) -> None:
    entries = [RecordedEntry(row.record) for row in rows]
    batch: dict[str, Any] = {
        **{
            name: np.array([getattr(row, name) for row in rows])
            for name in ("place", "start", "length", "body")
        },
        "time": np.array([(row.record.now - _EPOCH) // _MICROSECOND for row in rows], dtype=np.int64),
    }
    terms = [*batch, f"{file} AS file", "false AS vouched"]
    terms[terms.index("time")] = 'make_timestamptz("time") AS "time"'
    for name, value in _VALUES.items():
        values = list(map(value, entries))
        term = f'"{name}"'
        if name in _LISTS:
            values = [json.dumps(texts) if texts else None for texts in values]
            term = f"""coalesce(from_json({term}::JSON, '["VARCHAR"]'), []) AS {term}"""
        is_text = name in _LISTS or name in _TEXTS
        batch[name] = np.array([*values, None], dtype=object)[:-1] if is_text else np.array(values)
        terms.append(term)
    connection.register("batch", batch)
    connection.execute(f"INSERT INTO lines BY NAME SELECT {', '.join(terms)} FROM batch")
    connection.unregister("batch")


# --- lines of a file ---


class _FoundLines(NamedTuple):
    """The lines of a part of a file that are not blank: their numbers from 1, offsets and lengths without line feeds.

    `lines` is the number of all of them.
    """

    numbers: _Array
    starts: _Array
    lengths: _Array
    lines: int


def _find_lines(file: IO[bytes], start: int, end: int) -> _FoundLines:
    file.seek(start)
    feeds, begins, at, is_first = list[_Array](), list[_Array](), start, True
    while data := file.read(min(PART, end - at)):
        octets = np.frombuffer(data, dtype=np.uint8)
        is_feed = octets == _LINE_FEED
        feeds.append(np.flatnonzero(is_feed) + at)
        begins.append(np.flatnonzero(np.concatenate(([is_first], is_feed[:-1])) & _BLANK[octets]) + at)
        at, is_first = at + len(data), bool(is_feed[-1])
    ends = np.concatenate(feeds)
    if not len(ends) or ends[-1] != end - 1:
        ends = np.append(ends, end)  # the last line has no line feed
    starts = np.concatenate(([start], ends[:-1] + 1))
    lengths = ends - starts
    is_blank = np.zeros(len(ends), dtype=bool)
    for line in np.searchsorted(starts, np.concatenate(begins)).tolist():
        file.seek(starts[line])
        is_blank[line] = not file.read(int(lengths[line])).strip() if lengths[line] < LINE_LIMIT else False
    numbers = np.flatnonzero(~is_blank)
    return _FoundLines(numbers + 1, starts[numbers], lengths[numbers], len(ends))


def _find_end(file: IO[bytes], start: int) -> tuple[int, int]:
    """The offset after the last whole line of a file, and the length of the torn line after it."""
    end = at = file.seek(0, os.SEEK_END)
    rest = b""
    while at > start and len(rest) <= LINE_LIMIT:
        begin = max(start, at - PART)
        file.seek(begin)
        data = file.read(at - begin)
        if (cut := data.rfind(b"\n") + 1) or begin == start:
            rest = data[cut:] + rest
            break
        rest, at = data + rest, begin
    if not rest or len(rest) > LINE_LIMIT or read_members(rest) is not None:
        return end, 0
    return end - len(rest), len(rest)


def is_text(path: Path) -> bool:
    """Whether DuckDB can be told the path."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True
