"""Which values does a text hold?  Quoted words, paths, numbers, times, zones, names, each with its place; pure.

It reads a request and what a tool said by the same rules, and knows neither parameters nor tools.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from mew_lab.agent.offline import zones
from mew_lab.agent.offline.vocabulary import plain

__all__ = ["ANAPHOR", "MAX_SEEN", "Found", "Picked", "Text", "find", "ordinal"]

Kind = Literal[
    "quoted", "url", "email", "zone", "datetime", "date", "time", "path", "glob", "hash", "id", "money", "percent",
    "number", "name",
]  # fmt: skip

MAX_SEEN = 20_000  # characters of a text that are read
MAX_FOUND = 400

_NUMBER = r"[-−]?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.\d{1,18})?"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("quoted", r"\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|`[^`\n]{0,2000}`|(?<!\w)'[^'\n]{0,2000}'(?!\w)"),
    ("url", r"\b[a-z][a-z0-9+.-]{1,12}://[^\s<>\"']{1,2000}"),
    ("email", r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}\b"),
    ("zone", zones.NAME.pattern),
    ("datetime", r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z\b| ?[+-]\d\d:?\d\d\b)?"),
    ("date", r"\b\d{4}-\d\d-\d\d\b"),
    (
        "date",
        r"\b(?:yesterday|today|tomorrow|(?:last|next) (?:week|month|year)|"
        r"(?:\d{1,4}|two|three|four|five|six|seven|a) (?:minute|hour|day|week|month|year)s? ago)\b",
    ),
    ("time", r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b)?(?![\d:])"),
    ("time", r"\b(?:1[0-2]|0?[1-9])\s?[ap]\.?m\b|\b(?:noon|midnight)\b"),
    ("glob", r"(?<!\S)(?=\S{0,80}[A-Za-z.])(?:[\w./-]*\*[\w./*-]+|[\w./-]+\*)"),
    ("path", r"(?<![\w/-])(?:~|\.{1,2})?/[\w.+@-][\w./+@~-]*|(?<![\w/-])[A-Za-z]:\\[\w.\\-]+"),
    ("path", r"(?<![\w/.-])[\w-]+(?:/[\w.-]+)*\.(?!com\b|org\b|net\b)[A-Za-z][A-Za-z0-9]{0,5}\b(?![/@(])"),
    ("hash", r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b"),
    ("hash", r"\bHEAD(?:[~^]\d{0,3})*"),
    ("path", r"(?<![\w/.-])[A-Za-z_][\w.-]*(?:/[\w.-]+)+/?(?!\w)"),
    ("id", r"(?<![\w#])#\w{1,40}|\b[A-Z]{1,10}-\d{1,12}\b"),
    ("money", rf"[$€£¥]\s?{_NUMBER}|(?<![\w.]){_NUMBER}\s?[€£]"),
    ("percent", rf"(?<![\w.]){_NUMBER}\s?(?:%|percent\b)"),
    ("number", rf"(?<![\w.$]){_NUMBER}(?![\w]|\.\d)"),
    (
        "number",
        r"\b(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred)\b",
    ),
    (
        "name",
        r"\b[^\W\d_a-z][\w’'-]*+(?!\.[A-Za-z])(?:[ ](?:de |da |of )?[^\W\d_a-z][\w’'-]*+(?!\.[A-Za-z])){0,4}",
    ),
)
_SCAN = re.compile("|".join(f"(?P<k{n}>{pattern})" for n, (_, pattern) in enumerate(_PATTERNS)))
_NUMERALS = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "dozen": 12, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "hundred": 100,
}  # fmt: skip
_BEFORE = re.compile(r"([^\W\d_]+)\W{0,3}$")
_ORDINALS = {
    "first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "fifth": 4, "last": -1,
}  # fmt: skip
_ORDINAL = re.compile(
    rf"\bthe ({'|'.join(_ORDINALS)})(?: (?:one|result|item|entry|hit|match|of (?:them|those|these)))\b"
)
# What points back at something said before; "what time is it" points at nothing.
ANAPHOR = re.compile(
    r"\b(?:(?<!\bis )(?<!\bwas )it|that(?! (?:is|are|was|were|has|have|contains?|says?|say|needs?)\b)|"
    r"this(?! (?:is|week|month|year)\b)|those|them|these|its|"
    r"the (?:result|answer|output|same|above|contents?|text|response|total|sum)|"
    rf"the (?:{'|'.join(_ORDINALS)}) (?:one|result|item|entry|hit|match))\b",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """A value in a text: what kind, what it says without quotes or signs, where, and the word before it."""

    kind: Kind
    text: str
    start: int
    end: int
    before: str = ""

    @property
    def number(self) -> int | float | None:
        """What it counts, a percentage as the number before the sign; None for what is no number."""
        if self.kind not in ("number", "money", "percent"):
            return None
        if self.text.lower() in _NUMERALS:
            return _NUMERALS[self.text.lower()]
        value = float(self.text)
        return int(value) if value.is_integer() and "." not in self.text else value


class Text(NamedTuple):
    """A text with its values."""

    text: str
    values: tuple[Found, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """The text, read."""
        return cls(text, tuple(find(text)))


class Picked(NamedTuple):
    """A value for a parameter and the places in the text that it was read from."""

    value: Any
    places: frozenset[int]


def find(text: str) -> list[Found]:
    """The values in their order; of a long text those of its first 20 000 characters, and at most 400."""
    text = text[:MAX_SEEN]
    found: list[Found] = []
    place = 0
    while len(found) < MAX_FOUND and (match := _SCAN.search(text, place)):
        kind = _PATTERNS[int((match.lastgroup or "k0")[1:])][0]
        value, start, end = match[0], match.start(), match.end()
        if kind == "name":
            end = start + len(match[0].split(" ")[0])
            value = _name(text, value, start)
            end = start + len(value) if value else end
        place = max(end, place + 1)
        if value:
            said = _BEFORE.search(text, max(0, start - 40), start)
            found.append(Found(kind, _cleaned(kind, value), start, end, said[1].lower() if said else ""))
    return found


def _name(text: str, value: str, start: int) -> str:
    """A name; nothing where it begins with a plain word, as a sentence does."""
    parts = value.split(" ")
    if plain(parts[0]) or (start == 0 and len(parts) == 1 and not value.isupper()):
        return ""
    return value.removesuffix("'s").removesuffix("’s").rstrip("'’-")


def _cleaned(kind: Kind, value: str) -> str:
    if kind == "quoted":
        return value[1:-1]
    if kind in ("url", "path"):
        return value.rstrip(".,;:!?)")
    if kind in ("money", "percent", "number"):
        if value.lower() in _NUMERALS:
            return value
        return re.sub(r"[^\d.-]", "", value.replace("−", "-").removesuffix("percent"))
    return _clock(value) if kind == "time" else value


def _clock(value: str) -> str:
    """HH:MM of a time of the day."""
    low = value.lower()
    if low in ("noon", "midnight"):
        return "12:00" if low == "noon" else "00:00"
    hour, minute = (int(part) for part in [*re.findall(r"\d+", low), "0"][:2])
    if "m" in low:
        hour = hour % 12 + (12 if "p" in low else 0)
    return f"{hour:02d}:{minute:02d}"


def ordinal(text: str) -> int | None:
    """Which one is meant by "the second one", counted from 0, the last as -1; None where none is."""
    found = _ORDINAL.search(text.lower())
    return _ORDINALS[found[1]] if found else None
