"""A pandas column of payloads that are parsed one by one from the texts of their messages.

A value of it is a dict, parsed on access from the exact text, which the table holds anyway; so the column costs a
pointer for each row. A change to such a dict changes no table.

table.py imports this module when the first table is made, because it needs pandas.
"""

from __future__ import annotations

import json
from builtins import type as kind_of
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take
from pandas.api.indexers import check_array_indexer

from mew_lab.log.line import read_members

__all__ = ["PayloadArray", "PayloadDtype", "read_payload"]


def read_payload(raw: str) -> dict[str, Any]:
    """The payload of the message in `raw`, integers exact; `{}` where it has none."""
    if read_members(raw) is None:  # this bounds the nesting, and the digits that a number may have
        return {}
    payload = json.loads(raw).get("payload")
    return payload if isinstance(payload, dict) else {}


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


class PayloadArray(ExtensionArray):
    """An array of payloads, stored as the exact texts of their messages."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts  # numpy array of str or None

    @classmethod
    def of_messages(cls, raws: Sequence[str | None]) -> PayloadArray:
        """The payloads of the messages with these exact texts."""
        return cls(np.fromiter(raws, dtype=object, count=len(raws)))

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

    def _cast_pointwise_result(self, values: Any) -> Any:
        # The results of a function are seldom payloads; without this, pandas would expect dicts.
        return pd.Series(list(values)).array

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Any]) -> PayloadArray:
        return cls(np.concatenate([array._texts for array in to_concat]))

    @property
    def dtype(self) -> PayloadDtype:
        return PayloadDtype()

    @property
    def nbytes(self) -> int:
        """The bytes of the array, without the texts, which the column `raw` holds."""
        return int(self._texts.nbytes)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, item: Any) -> Any:
        if not isinstance(item, int | np.integer):
            return type(self)(self._texts[check_array_indexer(self, item)])
        raw = self._texts[item]
        return None if raw is None else read_payload(raw)

    def __eq__(self, other: Any) -> Any:
        others = [other] * len(self) if isinstance(other, dict) else list(other)
        return np.fromiter((a == b for a, b in zip(self, others, strict=True)), dtype=bool)

    def isna(self) -> Any:
        return np.fromiter((text is None for text in self._texts), dtype=bool)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> PayloadArray:
        texts = take(self._texts, indices, allow_fill=allow_fill, fill_value=None)
        if allow_fill:
            texts[np.asarray(indices) == -1] = None  # pandas fills in a NaN in any case
        return type(self)(texts)

    def copy(self) -> PayloadArray:
        return type(self)(self._texts.copy())
