"""pandas columns of values that are read one by one on access: payloads, exact texts, descriptions.

A value of a payload column is a dict, parsed on access from the exact text of its message. A text column of a log of
files holds the offsets of lines instead of texts, and reads a line on access. So a frame of a million rows costs some
bytes a row. A change to such a dict changes no table.

table.py and line_frame.py import this module when the first table is made, because it needs pandas.
"""

from __future__ import annotations

import json
from builtins import type as kind_of
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take
from pandas.api.indexers import check_array_indexer
from pandas.core.strings.object_array import ObjectStringArrayMixin

from mew_lab.log.line import read_members

__all__ = ["LineTexts", "PayloadArray", "PayloadDtype", "TextArray", "TextDtype", "read_payload"]


def read_payload(raw: str) -> dict[str, Any]:
    """The payload of the message in `raw`, integers exact; `{}` where it has none."""
    if read_members(raw) is None:  # this bounds the nesting, and the digits that a number may have
        return {}
    payload = json.loads(raw).get("payload")
    return payload if isinstance(payload, dict) else {}


class LineTexts:
    """A sequence of texts that are read on access, each from a span of a file.

    Args:
        read: Reads the text of one row of `spans`; None where it has none.
        spans: An array of integers with a row for each text.
    """

    def __init__(self, read: Callable[[Sequence[int]], str | None], spans: np.ndarray[Any, Any]) -> None:
        self.read = read
        self.spans = spans

    @property
    def nbytes(self) -> int:
        """The bytes of the spans."""
        return int(self.spans.nbytes)

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int | np.integer):
            span = self.spans[item].tolist()
            return None if span[0] < 0 else self.read(span)
        return LineTexts(self.read, self.spans[item])


def _take(texts: Any, indices: Any, allow_fill: bool) -> Any:
    if isinstance(texts, LineTexts):
        positions = np.asarray(indices, dtype=np.intp)
        if not allow_fill:
            return LineTexts(texts.read, texts.spans[positions])
        if len(positions) and (positions.min() < -1 or positions.max() >= len(texts)):
            raise (ValueError if positions.min() < -1 else IndexError)("a position is out of bounds")
        spans = np.full((len(positions), texts.spans.shape[1]), -1, dtype=np.int64)
        spans[positions >= 0] = texts.spans[positions[positions >= 0]]
        return LineTexts(texts.read, spans)
    taken = take(texts, indices, allow_fill=allow_fill, fill_value=None)
    if allow_fill:
        taken[np.asarray(indices) == -1] = None  # pandas fills in a NaN in any case
    return taken


def _concatenate(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, LineTexts) and part.read == parts[0].read for part in parts):
        return LineTexts(parts[0].read, np.concatenate([part.spans for part in parts]))
    return np.concatenate([_to_objects(part) for part in parts])


def _to_objects(texts: Any) -> np.ndarray[Any, Any]:
    if isinstance(texts, LineTexts):
        return np.fromiter((texts[n] for n in range(len(texts))), dtype=object, count=len(texts))
    return np.asarray(texts, dtype=object)


def _find_missing(texts: Any) -> Any:
    if isinstance(texts, LineTexts):
        return texts.spans[:, 0] < 0
    return np.fromiter((text is None for text in texts), dtype=bool, count=len(texts))


@register_extension_dtype
class TextDtype(ExtensionDtype):
    """The pandas type of a text that is read on access: a str, or None where there is no message."""

    name = "mew_text"
    type = str
    kind = "O"
    na_value = None

    @classmethod
    def construct_array_type(cls) -> kind_of[TextArray]:
        """The class of the arrays of this type."""
        return TextArray

    def __from_arrow__(self, array: Any) -> TextArray:
        return TextArray(np.array(array.to_pylist(), dtype=object))


class _MessageArray(ExtensionArray):
    """An array of what is made of texts: of objects in memory, or of spans of files."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts  # numpy array of str or None, or LineTexts

    @classmethod
    def _from_factorized(cls, values: Any, original: Any) -> Self:
        return cls(np.asarray(values, dtype=object))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Any]) -> Self:
        return cls(_concatenate([array._texts for array in to_concat]))

    def _cast_pointwise_result(self, values: Any) -> Any:
        # The results of a function are seldom of this type; without this, pandas would expect that.
        return pd.Series(list(values)).array

    @property
    def nbytes(self) -> int:
        """The bytes of the array, without texts."""
        return int(self._texts.nbytes)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int | np.integer):
            return self._read(self._texts[item])
        return type(self)(self._texts[check_array_indexer(self, item)])

    def __eq__(self, other: Any) -> Any:
        others = [other] * len(self) if isinstance(other, str | dict) or other is None else list(other)
        return np.fromiter((a == b for a, b in zip(self, others, strict=True)), dtype=bool)

    def __arrow_array__(self, type: Any = None) -> Any:
        import pyarrow

        texts = [None if text is None else self._write(text) for text in _to_objects(self._texts)]
        return pyarrow.array(texts, pyarrow.large_string())

    def isna(self) -> Any:
        return _find_missing(self._texts)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        return type(self)(_take(self._texts, indices, allow_fill))

    def copy(self) -> Self:
        return type(self)(self._texts if isinstance(self._texts, LineTexts) else self._texts.copy())

    @staticmethod
    def _read(text: str | None) -> Any:
        """The value that is made of a text."""
        return text

    @staticmethod
    def _write(text: str) -> str:
        """The value that is made of a text, as a text that a Parquet file can hold."""
        return (
            text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
        )  # of half surrogate pairs


class TextArray(_MessageArray, ObjectStringArrayMixin):  # type: ignore[misc]  # its type is not published
    """An array of texts."""

    @classmethod
    def _from_sequence(cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False) -> TextArray:
        if isinstance(scalars, TextArray):
            return cls(scalars._texts)
        return cls(
            np.fromiter((None if _is_missing(text) else str(text) for text in scalars), object, len(scalars))
        )

    @property
    def dtype(self) -> TextDtype:
        return TextDtype()

    def __setitem__(self, key: Any, value: Any) -> None:
        texts = _to_objects(self._texts).copy()
        texts[check_array_indexer(self, key)] = value
        self._texts = texts

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return _to_objects(self._texts)


def _is_missing(text: Any) -> bool:
    return text is None or (isinstance(text, float) and text != text)


@register_extension_dtype
class PayloadDtype(ExtensionDtype):
    """The pandas type of a payload: a dict, or None where there is no message."""

    name = "mew_payload"
    type = dict
    kind = "O"
    na_value = None

    @classmethod
    def construct_array_type(cls) -> kind_of[PayloadArray]:
        """The class of the arrays of this type."""
        return PayloadArray

    def __from_arrow__(self, array: Any) -> PayloadArray:
        return PayloadArray.of_payloads(array.to_pylist())


class PayloadArray(_MessageArray):
    """An array of payloads, stored as the exact texts of their messages."""

    @classmethod
    def of_messages(cls, raws: Sequence[str | None]) -> PayloadArray:
        """The payloads of the messages with these exact texts."""
        return cls(np.fromiter(raws, dtype=object, count=len(raws)))

    @classmethod
    def of_payloads(cls, payloads: Sequence[str | None]) -> PayloadArray:
        """The payloads that stand as JSON in some texts, as `to_parquet` writes them."""
        return cls.of_messages([None if text is None else f'{{"payload":{text}}}' for text in payloads])

    @classmethod
    def _from_sequence(cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False) -> PayloadArray:
        if not all(payload is None or isinstance(payload, dict) for payload in scalars):
            raise TypeError("payloads are dicts")
        return cls.of_messages(
            [
                None if payload is None else json.dumps({"payload": payload}, ensure_ascii=False)
                for payload in scalars
            ]
        )

    @property
    def dtype(self) -> PayloadDtype:
        return PayloadDtype()

    @staticmethod
    def _read(text: str | None) -> Any:
        return None if text is None else read_payload(text)

    @staticmethod
    def _write(text: str) -> str:
        return json.dumps(read_payload(text), ensure_ascii=True, separators=(",", ":"))
