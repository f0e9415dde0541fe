"""Makes the table of a journal from its index: the same rows and values as `to_frame` makes from the records.

The payload, the exact text and the description of a message are read from the journal on access, so a million rows take
about a second.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mew_lab.log.entries import RecordedEntry
from mew_lab.log.line import read_members
from mew_lab.log.payloads import LineTexts, PayloadArray, TextArray
from mew_lab.log.reading import LineReader
from mew_lab.log.shown_frame import ShownFrame
from mew_lab.log.table import COLUMNS, describe_entry
from mew_lab.protocol.describe import describe

if TYPE_CHECKING:
    from mew_lab.log.index import LogIndex

__all__ = ["line_frame"]

_Array = np.ndarray[Any, Any]

_NUMBERS = ("place", "seq", "size")
_SPANS = ("file", "start", "length", "body", "size")
_TEXTS = tuple(column.name for column in COLUMNS if column.dtype == "str")
_SHARED = tuple(column.name for column in COLUMNS if column.dtype == "object" and not column.several)
_LISTS = ("to", "receivers")  # of which many rows have the same


def line_frame(
    index: LogIndex,
    where: str = "message",
    parameters: Sequence[Any] = (),
    *,
    places: np.ndarray[Any, Any] | None = None,
) -> pd.DataFrame:
    """The table of the messages in an index of journals, of those for which a condition holds, or of those in some rows.

    Args:
        where: A condition in SQL on the columns of `lines`, with `?` for each of `parameters`.
    """
    numbers = [*dict.fromkeys((*_NUMBERS, *_SPANS))]
    terms = [
        *numbers,
        'epoch_us("time")',
        *_TEXTS,
        *(f'"{name}"' for name in _SHARED),
        *(f"""CASE WHEN len("{name}") > 0 THEN to_json("{name}")::VARCHAR ELSE '' END""" for name in _LISTS),
        "CASE WHEN len(correlation_id) = 1 THEN correlation_id[1] "
        "WHEN len(correlation_id) > 1 THEN to_json(correlation_id)::VARCHAR END",
        "len(correlation_id) > 1",
    ]
    parts = index.parts(terms, where, parameters, places=places)
    rows: dict[str, Any] = {"place": _numbers(next(parts))}
    order = _order(rows["place"])
    in_order: Callable[[Any], Any] = (
        (lambda values: values) if order is None else lambda values: values[order]
    )
    rows["place"] = in_order(rows["place"])
    rows |= {name: in_order(_numbers(next(parts))) for name in numbers[1:]}
    values: dict[str, Any] = {name: rows[name] for name in _NUMBERS}
    times = in_order(_numbers(next(parts))).astype("datetime64[us]")
    values["time"] = pd.DatetimeIndex(times).tz_localize("UTC")
    values |= {name: _text(next(parts), order) for name in _TEXTS}
    values |= {name: in_order(_shared(next(parts))) for name in _SHARED}
    values |= {name: in_order(_shared(next(parts), _tuple)) for name in _LISTS}
    values["correlation_id"] = in_order(_answered(next(parts), _numbers(next(parts))))
    values["deliveries"] = np.fromiter(map(len, values["receivers"]), dtype=np.int64, count=len(times))
    values |= _lines(index.reader, rows)
    for column in COLUMNS:
        if column.dtype == "object":  # pandas would look at each value to find a type
            values[column.name] = pd.Series(values[column.name], dtype=object, copy=False)
    return ShownFrame({column.name: values[column.name] for column in COLUMNS}, copy=False)


def _numbers(values: Any) -> _Array:
    return values if isinstance(values, np.ndarray) else np.asarray(values.to_numpy())


def _order(places: _Array) -> _Array | None:
    """The order of the rows by their places; None where they have it: a scan keeps it, and to sort takes longer."""
    return None if (places[1:] > places[:-1]).all() else np.argsort(places)


def _text(values: Any, order: _Array | None) -> Any:
    if isinstance(values, np.ndarray):
        return pd.Series(values if order is None else values[order], dtype="str")
    dtype: Any = pd.StringDtype("pyarrow", na_value=np.nan)
    return dtype.__from_arrow__(values if order is None else values.take(order))


def _shared(values: Any, read: Callable[[str], Any] = str) -> _Array:
    """The values as an array of objects, of which equal ones are one."""
    if isinstance(values, np.ndarray):
        texts = values.tolist()
        known = {text: read(text) for text in set(texts)}
        return _objects([known[text] for text in texts])
    encoded = values.combine_chunks().dictionary_encode()
    values = _objects([read(text) for text in encoded.dictionary.to_pylist()])
    return np.asarray(values[encoded.indices.to_numpy()])


def _answered(texts: Any, several: _Array) -> _Array:
    """The ids that each row answers, from one id as it is, or several as JSON; hardly two rows have the same."""
    found = texts if isinstance(texts, np.ndarray) else texts.to_numpy()
    answers = np.empty(len(found), dtype=object)
    answers.fill(())
    present = np.flatnonzero(found != None)  # noqa: E711 - of each element
    answers[present] = _objects([(text,) for text in found[present].tolist()])
    for row in np.flatnonzero(several).tolist():
        answers[row] = _tuple(found[row])
    return answers


def _tuple(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def _objects(values: list[Any]) -> _Array:
    return np.fromiter(values, dtype=object, count=len(values))


def _lines(reader: LineReader, rows: dict[str, Any]) -> dict[str, Any]:
    spans = np.array([rows[name] for name in _SPANS]).T

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
