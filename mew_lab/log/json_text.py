"""Reads and writes JSON with orjson, or where that is not installed, as in a page, with the standard library.

Both take the same texts: no `NaN`, no lone surrogate, nothing but UTF-8; an integer beyond 64 bits is read as a float.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, NoReturn

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

__all__ = ["read_json", "write_json"]

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 64) - 1


def _read(text: str | bytes) -> Any:
    whole = text if isinstance(text, str) else text.decode()
    try:
        value = _DECODER.decode(whole)
        json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _read_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def _read_int(digits: str) -> int | float:
    # Python reads no integer of very many digits.
    value = int(digits) if len(digits) <= 21 else None
    return value if value is not None and _LEAST <= value <= _MOST else _read_float(digits)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_int=_read_int, parse_float=_read_float)


def _write(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_write_time).encode()
    except UnicodeEncodeError as fault:
        raise TypeError(str(fault)) from None  # as orjson has it


def _write_time(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return value.isoformat().replace("+00:00", "Z")


read_json = _read if orjson is None else orjson.loads
"""The value of a JSON text; raises `ValueError` where it is none."""

write_json: Callable[[Any], bytes] = (
    _write if orjson is None else partial(orjson.dumps, option=orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC)
)
"""A value as compact JSON in UTF-8, times in UTC with a `Z`; raises `TypeError` where a text is no valid Unicode."""
