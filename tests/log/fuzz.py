"""Mutations of files for the fuzzers of readers: of bytes, and of values in lines of JSON.

A mutation is a pure function of its dice, so the number of an example names it.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["VALUES", "mutated"]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**19, 10**400, 1e300, -1e300, 5e-324),
    *(float("nan"), float("inf"), "", " ", "x" * 5000, "\ud800", "\x00", "\x1b[2J", "\u202e", "é", "None", "true"),
    *("9999999999999999999", "1e300", "-1", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00"),
    *("2026-11-21T22:40:01Z", "2026-02-30T25:61:61Z", "0000-00-00", "opened", "received", "unreadable", "refused"),
    *([], [[]], {}, {"": {}}, [None], ["a", 1], {"epoch": "1"}, '{"epoch":1.0}', "{", "[" * 3000, [[[[[]]]]] * 50),
)  # fmt: skip
PIECES = (
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xff\xfe",
    b"{",
    b"}",
    b'"',
    b",",
    b"null",
    b"NaN",
    b"-",
    b"1" * 400,
    b"\\u0000",
    b"\xf0\x9f",
    b" ",
)


def mutated(data: bytes, dice: random.Random, *, lines: bool = True) -> bytes:
    """The data after one to six changes; `lines`: each may be one of a value in a line of JSON."""
    for _ in range(dice.randint(1, 6)):
        data = _change_value(data, dice) if lines and dice.random() < 0.6 else _change_bytes(data, dice)
    return data


def _change_bytes(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    end = min(len(data), at + dice.choice([1, 1, 4, 40, 4000]))
    match dice.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:at] + data[at:end] * dice.choice([2, 3, 50]) + data[end:]
        case 3:
            return data[:at] + dice.choice(PIECES) + data[at:]
        case 4:
            return data[:at] + dice.randbytes(end - at) + data[end:]
        case _:
            other = dice.randrange(len(data) + 1)
            return data[:at] + data[other : other + 200] + data[at:]


def _change_value(data: bytes, dice: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _change_bytes(data, dice)
    lines[at] = json.dumps(_changed(value, dice), separators=(",", ":")).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _changed(value: Any, dice: random.Random) -> Any:
    """The value with one value in it, or in JSON within a text of it, replaced, renamed or left out."""
    if isinstance(value, str) and value[:1] in ("{", "[") and dice.random() < 0.7:
        try:
            return json.dumps(_changed(json.loads(value), dice))
        except (ValueError, RecursionError):
            pass
    if not isinstance(value, dict | list) or not value or dice.random() < 0.1:
        return dice.choice(VALUES)
    key: Any = dice.choice(list(value)) if isinstance(value, dict) else dice.randrange(len(value))
    changed: Any = value.copy()
    match dice.randrange(8):
        case 0:
            del changed[key]
        case 1 if isinstance(changed, dict):
            changed[dice.choice(["seq", "now", "event", "envelope", "text", "epoch", key + "x"])] = (
                changed.pop(key)
            )
        case _:
            changed[key] = _changed(value[key], dice)
    return changed
