"""Reads the values of a filter: numbers with units, moments, and the escapes of quoted text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from mew_lab.protocol.text import parse_timestamp

__all__ = ["FilterClock", "read_moment", "read_number", "read_quantity", "unescape"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_QUANTITY = re.compile(rf"({_NUMBER.pattern})([A-Za-z]*)")
_AGO = re.compile(r"-([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|min|h|d)")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(\.[0-9]{1,6})?)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]+(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "/": "/"}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_LEAST, _MOST = -(2**63), 2**64 - 1


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class FilterClock:
    """The moment from which a filter counts times such as `-5m`, and the zone of its times of day.

    `now` is called only where the filter needs it. For a file it is the time of the last record.
    """

    now: Callable[[], datetime] = _utc_now
    zone: tzinfo = UTC


def read_number(text: str) -> int | float | None:
    """The number that a text writes as JSON does, integers beyond 64 bits as doubles; None where it writes none.

    Raises:
        OverflowError: it is too large for a double.
    """
    if not _NUMBER.fullmatch(text):
        return None
    if not any(char in text for char in ".eE") and len(text) <= 20 and _LEAST <= int(text) <= _MOST:
        return int(text)
    number = float(text)
    if math.isinf(number):
        raise OverflowError
    return number


def read_quantity(text: str, units: Mapping[str, float]) -> int | float | str:
    """A number with one of these units, or without one; a sentence where the text is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return f"{text[:40]} is no number."
    number, unit = read_number(match[1]), match[2]
    assert number is not None  # the same expression has matched
    if not unit:
        return number
    if unit in units:
        factor = units[unit]
        # 1.5KiB is a whole number, and 500ms the double nearest to half a second.
        product = number / round(1 / factor) if factor < 1 else number * factor
        if math.isinf(product):
            raise OverflowError
        return int(product) if isinstance(product, float) and product.is_integer() and factor > 1 else product
    if not units:
        return f"{unit} is no unit here: this field is a number without one."
    near = [name for name in units if name[0].lower() == unit[0].lower()]
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"{unit} is no unit of this field; units are {', '.join(units)}.{meant}"


def read_moment(text: str, clock: FilterClock) -> datetime | None:
    """The moment that a text means; None where it means none.

    It is ISO 8601 (without an offset in the zone of the clock), a time of day such as 12:30 (the last one that the
    clock showed), or a time ago such as -5m.
    """
    if ago := _AGO.fullmatch(text):
        try:
            return clock.now() - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    if time := _CLOCK.fullmatch(text):
        now = clock.now().astimezone(clock.zone)
        moment = now.replace(
            hour=int(time[1]),
            minute=int(time[2]),
            second=int(time[3] or 0),
            microsecond=round(float(time[4] or 0) * 1_000_000),
        )
        return (moment if moment <= now else moment - timedelta(days=1)).astimezone(UTC)
    if not _DATE.fullmatch(text):
        return None
    try:
        stated = datetime.fromisoformat(text)
    except ValueError:
        return None
    if stated.tzinfo is None:
        stated = stated.replace(tzinfo=clock.zone)
    return parse_timestamp(stated.isoformat())


def unescape(text: str) -> str | int:
    """The text that stands between quotation marks, its escapes (those of JSON) read; else the place of a wrong one."""
    if "\\" not in text:
        return text
    for match in _ESCAPE.finditer(text):
        if len(match[1]) == 1 and match[1] not in _ESCAPES:
            return match.start()
    read = _ESCAPE.sub(
        lambda match: json.loads(f'"{match[0]}"') if len(match[1]) > 1 else _ESCAPES[match[1]], text
    )
    return read.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
