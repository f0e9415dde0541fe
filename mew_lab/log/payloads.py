"""How does a table hold a hundred thousand payloads without reading them all?  As the texts that they stand
in.

A pandas column type: what is taken out of it is a dict, read at that moment from the exact text that the
table holds anyway, so the column costs a pointer a row. What is done to such a dict changes no table.

Imported by table.py when the first table is made, because it needs pandas.
"""

from __future__ import annotations

import json
from builtins import type as kind_of
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take

from mew_lab.log.line import read_members

__all__ = ["PayloadArray", "PayloadDtype", "read_payload"]


def read_payload(raw: str) -> dict[str, Any]:
    """The payload of the message in `raw`, integers exact; `{}` where it has none."""
    members = read_members(raw)  # bounds the nesting
    if members is None:
        return {}
    try:
        members = json.loads(raw)
    except ValueError:  # an integer of thousands of digits: no envelope has one
        pass
    payload = members.get("payload")
    return payload if isinstance(payload, dict) else {}


@register_extension_dtype
class PayloadDtype(ExtensionDtype):
    """A dict, or None where there is no message."""

    name = "mew_payload"
    type = dict
    kind = "O"
    na_value = None

    @classmethod
    def construct_array_type(cls) -> kind_of[PayloadArray]:
        """The array of this type."""
        return PayloadArray


class PayloadArray(ExtensionArray):
    """Payloads by the exact texts that they stand in."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts  # numpy array of str or None

    @classmethod
    def _from_sequence(cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False) -> PayloadArray:
        texts = (
            json.dumps({"payload": one}, ensure_ascii=False) if isinstance(one, dict) else one
            for one in scalars
        )
        return cls(np.fromiter((t if isinstance(t, str) else None for t in texts), dtype=object))

    @classmethod
    def _from_factorized(cls, values: Any, original: PayloadArray) -> PayloadArray:
        return cls._from_sequence(values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[Any]) -> PayloadArray:
        return cls(np.concatenate([one._texts for one in to_concat]))

    @property
    def dtype(self) -> PayloadDtype:
        return PayloadDtype()

    @property
    def nbytes(self) -> int:
        """Without the texts, which the column `raw` holds."""
        return int(self._texts.nbytes)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, item: Any) -> Any:
        if not isinstance(item, int | np.integer):
            from pandas.api.indexers import check_array_indexer

            return type(self)(self._texts[check_array_indexer(self, item)])
        raw = self._texts[item]
        return None if raw is None else read_payload(raw)

    def __eq__(self, other: Any) -> Any:
        others = [other] * len(self) if isinstance(other, dict) else list(other)
        return np.fromiter((a == b for a, b in zip(self, others, strict=True)), dtype=bool)

    def isna(self) -> Any:
        return np.fromiter((text is None for text in self._texts), dtype=bool)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> PayloadArray:
        return type(self)(take(self._texts, indices, allow_fill=allow_fill, fill_value=None))

    def copy(self) -> PayloadArray:
        return type(self)(self._texts.copy())
