"""Makes the table of a journal from its index: the same rows and values as `to_frame` makes from the records.

Columns that rows repeat are taken from the numbered headers and subjects. The payload, the exact text and the
description of a message are read from the journal on access, so a million rows take about a second.

Spec: §3.6.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.line import read_members
from mew_lab.log.line_columns import ColumnParser, Columns, Header, Subject
from mew_lab.log.payloads import LineTexts, PayloadArray, TextArray
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.reading import LineReader, open_regular
from mew_lab.log.shown_frame import ShownFrame
from mew_lab.log.table import COLUMNS, describe_entry
from mew_lab.protocol.describe import describe

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["head_frame", "line_frame"]

HEAD_BYTES = 1 << 20  # that are read at a time for the first rows

_HEADER = (
    "event",
    "verdict",
    "code",
    "pattern",
    "grant",
    "participant",
    "connection",
    "via",
    "detail",
    "receivers",
)
_SUBJECT = {"from": "source", "to": "addressees", "kind": "kind", "method": "method", "tool": "tool"}


def line_frame(
    index: LogIndex,
    where: str = "",
    parameters: Sequence[Any] = (),
    *,
    places: np.ndarray[Any, Any] | None = None,
) -> pd.DataFrame:
    """The table of the messages in an index of journals, of those for which a condition holds, or of those in some rows.

    Args:
        where: A condition in SQL on the columns of `entries`, with `?` for each of `parameters`.
    """
    headers, subjects = index.numbered()
    rows = index.frame_columns(where, parameters, places=places)
    return _make_frame(rows, headers, subjects, index.reader)


def head_frame(path: Path, messages: int) -> pd.DataFrame | None:
    """The table of the first messages of a journal, from its first bytes; None where it has fewer.

    It needs no index, so the first rows of a large journal are there at once.
    """
    parser = ColumnParser()
    parts: list[Columns] = []
    found, start, number = 0, 0, 1
    with open_regular(path) as file, rare_collection:
        parser.read_from(file)
        while found < messages:
            data = file.read(HEAD_BYTES)
            cut = data.rfind(b"\n") + 1
            if not cut:
                return None
            file.seek(start + cut)
            lines = data[: cut - 1].split(b"\n")
            columns = parser.parse(lines, start, number)
            parts.append(columns)
            start, number = start + cut, number + len(lines)
            message = {n: header.message for part in parts for n, header in part.headers}
            found += sum(message[n] for n in columns.header)
    joined: list[Any] = [[value for part in parts for value in part[n]] for n in range(len(Columns._fields))]
    whole = Columns(*joined)
    chosen = [row for row, n in enumerate(whole.header) if message[n]][:messages]
    rows: dict[str, Any] = {
        "place": np.array(chosen, dtype=np.int64) + 1,
        "file": np.zeros(len(chosen), dtype=np.int64),
    }
    for name in ("start", "length", "body", "seq", "time", "header", "subject", "size"):
        rows[name] = np.array(getattr(whole, name), dtype=np.int64)[chosen]
    for name in ("id", "ts", "context", "correlation_id"):
        values = getattr(whole, name)
        rows[name] = _repeated([values[row] for row in chosen])
    headers = {name: [getattr(header, name) for _, header in whole.headers] for name in Header._fields}
    subjects = {name: [getattr(subject, name) for _, subject in whole.subjects] for name in Subject._fields}
    return _make_frame(rows, headers, subjects, LineReader((path,)))


def _make_frame(
    rows: dict[str, Any], headers: dict[str, list[Any]], subjects: dict[str, list[Any]], reader: LineReader
) -> pd.DataFrame:
    values: dict[str, Any] = {name: rows[name] for name in ("place", "seq", "size")}
    values["time"] = pd.DatetimeIndex(rows["time"].astype("datetime64[us]")).tz_localize("UTC")
    values["id"], values["ts"], values["context"] = (_text(rows[name]) for name in ("id", "ts", "context"))
    for name in _HEADER:
        values[name] = _repeated(headers[name])[rows["header"]]
    for name, member in _SUBJECT.items():
        values[name] = _repeated(subjects[member])[rows["subject"]]
    counts = np.fromiter(map(len, headers["receivers"]), dtype=np.int64, count=len(headers["receivers"]))
    values["deliveries"] = counts[rows["header"]]
    values["correlation_id"] = rows["correlation_id"]
    values |= _texts(reader, rows)
    for column in COLUMNS:
        if column.dtype == "object":  # pandas would look at each value to find a type
            values[column.name] = pd.Series(values[column.name], dtype=object, copy=False)
    return ShownFrame({column.name: values[column.name] for column in COLUMNS}, copy=False)


def _text(values: Any) -> Any:
    if not isinstance(values, np.ndarray):  # of pyarrow
        dtype: Any = pd.StringDtype("pyarrow", na_value=np.nan)
        return dtype.__from_arrow__(values)
    return pd.Series(values, dtype="str")


def _repeated(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The values as an array of objects; a list becomes a tuple."""
    return np.fromiter(
        (tuple(value) if isinstance(value, list) else value for value in values),
        dtype=object,
        count=len(values),
    )


def _texts(reader: LineReader, rows: dict[str, Any]) -> dict[str, Any]:
    spans = np.array([rows[name] for name in ("file", "start", "length", "body", "size")]).T

    def read(span: Sequence[int]) -> str | None:
        return reader.text(*span)

    def read_what(span: Sequence[int]) -> str:
        file, start, length, body, _ = span
        if not body:
            record = reader.record(file, start, length)
            return describe_entry(RecordedEntry(record)) if record is not None else ""
        members = read_members(reader.text(*span) or "") or {}
        kind, payload = members.get("kind"), members.get("payload")
        return describe(kind, payload) if type(kind) is str else ""

    raw = LineTexts(read, spans)
    return {
        "raw": TextArray(raw),
        "payload": PayloadArray(raw),
        "what": TextArray(LineTexts(read_what, spans)),
    }
