"""Text that every room writes and reads: cut to a length, measured in bytes, names of participants, timestamps.

How text is shown to a person, with every hidden character as an escape, is in `visible`.

Spec: §3 (`ts`); RFC 3339.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

__all__ = [
    "MAX_NAME",
    "compared",
    "cut",
    "cut_middle",
    "cut_names",
    "local_time",
    "parse_rfc3339",
    "parse_timestamp",
    "timestamp",
    "utf8_size",
]

MAX_NAME = 128  # characters of a participant's id; our gateway gives 64 at most, others may give longer ones

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ](?:[01]\d|2[0-3]):[0-5]\d:)([0-5]\d|60)(\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


# --- length ---


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` characters, the end cut with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_middle(text: str, limit: int) -> str:
    """The text in at most `limit` characters, shortened in its middle so that both ends can be compared."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) + head + 1 - limit :]}"


def utf8_size(text: str) -> int:
    """Bytes of the text as UTF-8; half a surrogate pair, which UTF-8 cannot say, counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# --- names of participants in an envelope ---
# An envelope may name a thousand participants, and each name may be as long as the envelope.


def cut_names(names: Sequence[str], *, most: int) -> tuple[str, ...]:
    """The first `most` of them, to be shown: each in at most 128 characters. One that was cut equals nobody's."""
    return tuple(cut(one, MAX_NAME) for one in names[:most])


def compared(names: Sequence[str], *, most: int) -> tuple[str, ...] | None:
    """Each of them once and whole; None if they are more than `most`, or one is longer than 128 characters."""
    different = tuple(dict.fromkeys(names))
    if len(different) > most or any(len(one) > MAX_NAME for one in different):
        return None
    return different


# --- time ---


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as it stands in `ts`. `moment` is in UTC."""
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def local_time(seconds: float) -> str:
    """`14:03:22` in the time zone of this machine, for a moment in seconds of the epoch."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%H:%M:%S}"


def parse_rfc3339(text: object) -> datetime | None:
    """The time in UTC that an RFC 3339 timestamp of any offset says; None for anything else.

    A leap second is the first moment of the next minute. Digits after the sixth of a second are cut off.
    """
    found = _RFC3339.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    minute, second, fraction, offset = found.groups(default="")
    leap = second == "60"
    try:
        moment = datetime.fromisoformat(f"{minute}{'59' if leap else second}{fraction}{offset}".upper())
        return moment.astimezone(UTC) + timedelta(seconds=leap)
    except (ValueError, OverflowError):  # a day that no month has, a year beyond ours
        return None


def parse_timestamp(text: object) -> datetime | None:
    """The time in UTC that a text in any form of ISO 8601 says, without an offset as UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None or moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
