"""Conditions on one argument of a call: what they permit, how they read, and how they stand in a capability.

How it works
------------
    exactly one of some values    mode "r" or "rb"
    below a folder                path below docs/            path below docs/ ending in .md
    with an ending                path ending in .md
    below a host                  url below https://api.example.org/
    in a domain                   url in domain example.org   to at example.org
    a number in a range           bytes from 1 to 2000
    a text of a length            note a text of at most 300 characters   name a word of at most 12 characters
    anything of a type            query any text              limit any number

A condition that is wider than its values judges the text more strictly than a glob (R33). A value of more than 1,000
characters that is no prose satisfies none of them, nor does one with a control or an invisible character, a letter that
looks like another one, an escape (`%2e`), a backslash, a variable or a character of a shell: only its exact value does.
In a path below a folder and in a name with an ending stands no blank, comma, colon or bracket, and no name begins with a
hyphen: a program might read a second path or an option. Paths are text here: links are the target's affair.

`text` and `read_condition` are inverse to each other. `pattern` is None where no capability is as narrow as the
condition: numbers and lengths cannot stand in a closed one (R34).

Spec: §4.1, rulings R11, R33, R34.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from mew_lab.protocol.coerce import is_number
from mew_lab.protocol.difference import are_equal, equality_key
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.strings import GUARD_PATH, is_unsafe

__all__ = [
    "MAX_VALUE",
    "Anything",
    "Below",
    "Between",
    "Condition",
    "Ending",
    "InDomain",
    "NoCondition",
    "OneOf",
    "TextOf",
    "folder_of",
    "has_blank",
    "is_path",
    "is_plain",
    "quoted",
    "read_condition",
    "read_value",
    "read_word",
    "top_folder",
]

MAX_VALUES: Final = 8  # of one condition
MAX_VALUE: Final = 1_000  # characters of a value as JSON
# In Windows, `GIT~1` is the short name of `.git`, `c:x` a file in the present folder of a drive, and `.. ` means `..`.
# Each expression begins with the characters that it looks for, or at the start, so that a long text is searched fast.
_RISKY: Final = re.compile(
    r"[\\$`;|<>\"'*{}\x00-\x1f\x7f-\x9f%~](?:(?<![%~])|(?<=%)(?:[0-9A-Fa-f]{2}|\w+%)|(?<=~)(?=\d)|(?<![^/]~)(?<=~))"
)
_DRIVE: Final = re.compile(r"[A-Za-z]:(?!/)")
_DOTS: Final = re.compile(r"/ *\.[. ]*(?:/|\Z)")
_ELSEWHERE: Final = re.compile(
    r"\s*(?:[~/\\]|\.\.\s*(?:\Z|[/\\])|\$[A-Za-z_{(]|%\w+%|[A-Za-z]:\S|file:)|.*[/\\]\s*\.\.\s*(?:\Z|[/\\])"
)
# A program that splits its input, or has options, may read more in such a path than one path.
_SEVERAL: Final = re.compile(r"[&()!#\[\]?^,:-](?<![^/]-)")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
_URL: Final = re.compile(r"https://(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d{1,5})?(?:[/?#]|\Z)")
_MAIL: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}@(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)\Z")
_WORD: Final = re.compile(r"[^\W_](?:[\w.:@+-]*\w)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w./:@+-]*")
_BARE: Final = re.compile(r"[\w./:@+=()\[\]#&-]+(?<![.:])|[\w./:@+=()\[\]#&-]*/")
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=lambda pairs: _unique(pairs), parse_constant=lambda name: _refuse(name)
)
_BLANKS: Final = frozenset(" \t\n")
_NO_BLANKS: Final = str.maketrans("", "", "\t\n")


class NoCondition(ValueError):
    """A text that states no condition; the message says what was expected, `at` where."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


@lru_cache(4096)
def is_plain(text: str) -> bool:
    """Whether a text is not long, and has nothing that could mean something else to its target than it reads."""
    if len(text) > MAX_VALUE or _RISKY.search(text) or _DRIVE.match(text) or _DOTS.search(f"/{text}"):
        return False
    if is_unsafe(text.replace("://", ":/", 1) if _SCHEME.match(text) else text, GUARD_PATH):
        return False
    return text.isascii() or all(map(_is_own, text))


def has_blank(text: str) -> bool:
    """Whether a text has a blank, a line feed, or another character of that kind."""
    return text != "" and text.split(None, 1) != [text]


def _is_own(c: str) -> bool:
    """Whether a character reads as itself: ASCII, or a composed Latin letter."""
    if c.isascii():
        return True
    return (
        unicodedata.name(c, "").startswith("LATIN ") and unicodedata.normalize("NFKC", c) == c and c.isalpha()
    )


def _is_prose(text: str) -> bool:
    """Whether a text has no hidden character."""
    if text.translate(_NO_BLANKS).isprintable():
        return True
    return all(c in _BLANKS or unicodedata.category(c)[0] != "C" for c in text)


def is_path(value: object) -> bool:
    """Whether a value reads as a path or an address rather than as prose.

    A line that begins at a root, a home, a drive or a variable, or that goes up, reads as one, whatever follows.
    """
    if not isinstance(value, str):
        return False
    if ("/" in value or "\\" in value) and not has_blank(value):
        return True
    return "\n" not in value and _ELSEWHERE.match(value) is not None


def top_folder(path: str) -> str:
    """The highest folder of a path, of an address its host, with its last slash; empty where there is none."""
    scheme = path.find("://")
    return path[: path.find("/", scheme + 3 if scheme > 0 else 1) + 1]


def folder_of(path: str) -> str:
    """The folder of a path with its last slash; empty where there is none."""
    return path[: path.rfind("/") + 1]


@dataclass(frozen=True, slots=True)
class Condition:
    """What an argument must be."""

    form: ClassVar[str] = ""
    width: ClassVar[int] = 0  # a condition of less width is narrower than one of more with the same decisions

    def holds(self, value: object) -> bool:
        """Whether a value of the argument satisfies it."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """What a person reads behind the name of the argument."""
        raise NotImplementedError

    @property
    def data(self) -> dict[str, Any]:
        """The condition as JSON."""
        raise NotImplementedError

    @property
    def pattern(self) -> Any:
        """The same in a capability; None where none is as narrow."""
        return None


@dataclass(frozen=True, slots=True)
class OneOf(Condition):
    """One of some values, of any type. `keys` are their equality keys."""

    form: ClassVar[str] = "one of"
    values: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(map(equality_key, self.values))

    def holds(self, value: object) -> bool:
        return any(are_equal(one, value) for one in self.values)

    @property
    def text(self) -> str:
        return " or ".join(map(compact, self.values))

    @property
    def data(self) -> dict[str, Any]:
        return {"one of": list(self.values)}

    @property
    def pattern(self) -> Any:
        patterns = [_literal(value) for value in self.values]
        if any(pattern is None for pattern in patterns):
            return None
        return patterns[0] if len(patterns) == 1 else patterns


def _literal(value: Any) -> Any:
    """A pattern that only this value matches; None where there is none."""
    if isinstance(value, str):
        if not value or (not re.search(r"[*?]", value) and value[0] not in "!/"):
            return value
        expression = f"/{re.escape(value)}/"
        return expression if len(expression) <= 256 and value.isascii() else None
    # A pattern of null matches only a present null; an object would be a pattern of its members.
    return value if is_number(value) or isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Below(Condition):
    """A path or an address below a folder, perhaps with an ending. `folder` ends with a slash."""

    form: ClassVar[str] = "below"
    width: ClassVar[int] = 1
    folder: str
    ending: str = ""

    def holds(self, value: object) -> bool:
        if not isinstance(value, str) or not value.startswith(self.folder):
            return False
        # The query of an address is no path: it holds no blank alone.
        rest = value[len(self.folder) :]
        path, mark, query = rest.partition("?") if _SCHEME.match(value) else (rest, "", "")
        return (
            value.endswith(self.ending)
            and not f"/{rest}".endswith(f"/{self.ending}")
            and not value.endswith("/")
            and not has_blank(path)
            and not _SEVERAL.search(f"/{path}")
            and not (mark and has_blank(query))
            and is_plain(value)
        )

    @property
    def text(self) -> str:
        ending = f" ending in {quoted(self.ending)}" if self.ending else ""
        return f"below {quoted(self.folder)}{ending}"

    @property
    def data(self) -> dict[str, Any]:
        return {"below": self.folder} | ({"ending": self.ending} if self.ending else {})

    @property
    def pattern(self) -> Any:
        text = f"{self.folder}**{self.ending}"
        return None if "?" in text or (text[0] in "!/" and text[-1] == "/") else text


@dataclass(frozen=True, slots=True)
class Ending(Condition):
    """A text with an ending such as `.md`, in any folder that was approved before."""

    form: ClassVar[str] = "ending in"
    width: ClassVar[int] = 2
    ending: str

    def holds(self, value: object) -> bool:
        return (
            isinstance(value, str)
            and value.endswith(self.ending)
            and len(value) > len(self.ending)
            and not has_blank(value[value.rfind("/") + 1 :])
            and not _SEVERAL.search(value[value.rfind("/") + 1 :])
            and is_plain(value)
            and not value[: -len(self.ending)].endswith("/")
        )

    @property
    def text(self) -> str:
        return f"ending in {quoted(self.ending)}"

    @property
    def data(self) -> dict[str, Any]:
        return {"ending": self.ending}

    @property
    def pattern(self) -> Any:
        return f"**{self.ending}"


@dataclass(frozen=True, slots=True)
class InDomain(Condition):
    """An https address of a domain and what is below it, or, with `mail`, an address of mail at exactly this domain."""

    form: ClassVar[str] = "in domain"
    width: ClassVar[int] = 2
    domain: str
    mail: bool = False

    def holds(self, value: object) -> bool:
        if not isinstance(value, str) or not is_plain(value):
            return False
        found = (_MAIL if self.mail else _URL).match(value)
        if found is None:
            return False
        host = found["host"]
        return host == self.domain or (not self.mail and host.endswith(f".{self.domain}"))

    @property
    def text(self) -> str:
        return f"at {quoted(self.domain)}" if self.mail else f"in domain {quoted(self.domain)}"

    @property
    def data(self) -> dict[str, Any]:
        return {"at" if self.mail else "in domain": self.domain}

    @property
    def pattern(self) -> Any:
        # `https://*.example.org/` also matches an address whose query names the domain.
        return None


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """A number from `low` to `high`; a whole one where both are whole."""

    form: ClassVar[str] = "from"
    width: ClassVar[int] = 3
    low: int | float
    high: int | float

    def holds(self, value: object) -> bool:
        if not is_number(value):
            return False
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        return self.low <= value <= self.high and (not whole or isinstance(value, int) or value.is_integer())

    @property
    def text(self) -> str:
        return f"from {compact(self.low)} to {compact(self.high)}"

    @property
    def data(self) -> dict[str, Any]:
        return {"from": self.low, "to": self.high}


@dataclass(frozen=True, slots=True)
class TextOf(Condition):
    """A text of at most so many characters: prose, or with `word` one word that is no path."""

    form: ClassVar[str] = "a text"
    width: ClassVar[int] = 4
    most: int
    word: bool = False

    def holds(self, value: object) -> bool:
        if not isinstance(value, str) or len(value) > self.most:
            return False
        if self.word:
            return _WORD.fullmatch(value) is not None and is_plain(value)
        return _is_prose(value) and not is_path(value)

    @property
    def text(self) -> str:
        return f"a {'word' if self.word else 'text'} of at most {self.most} characters"

    @property
    def data(self) -> dict[str, Any]:
        return {"word" if self.word else "text": self.most}


@dataclass(frozen=True, slots=True)
class Anything(Condition):
    """Any value of a type, for tools that only read: `text`, `number`."""

    form: ClassVar[str] = "any"
    width: ClassVar[int] = 5
    type: str

    def holds(self, value: object) -> bool:
        if self.type == "text":
            return isinstance(value, str) and _is_prose(value)
        return is_number(value)

    @property
    def text(self) -> str:
        return f"any {self.type}"

    @property
    def data(self) -> dict[str, Any]:
        return {"any": self.type}

    @property
    def pattern(self) -> Any:
        return "*" if self.type == "text" else None


# --- reading ---


def quoted(text: str) -> str:
    """A word of a sentence: as it is where that can be read back, else as JSON."""
    return (
        text
        if _BARE.fullmatch(text) and not text.startswith(('"', "[")) and text.isascii()
        else compact(text)
    )


def read_word(sentence: str, at: int, what: str) -> tuple[str, int]:
    """The word of a sentence at a place, plain or as JSON, and the place behind it.

    Raises:
        NoCondition: there is none.
    """
    if sentence.startswith('"', at):
        value, end = read_value(sentence, at)
        if not isinstance(value, str) or not value:
            raise NoCondition(f"{what} is a text", at)
        return value, end
    found = re.compile(r"[^\s,\"]+").match(sentence, at)
    word = found[0].rstrip(":") if found else ""
    if not word or not _BARE.fullmatch(word) or not word.isascii():
        raise NoCondition(f"here stands {what}; write it in double quotes where it has other characters", at)
    return word, at + len(word)


def read_value(sentence: str, at: int) -> tuple[Any, int]:
    """The JSON value of a sentence at a place, and the place behind it.

    Raises:
        NoCondition: there is none.
    """
    try:
        value, end = _DECODER.raw_decode(sentence, at)
        compact(value)
    except (ValueError, RecursionError):
        raise NoCondition('here stands a value as JSON, such as "r" or 12', at) from None
    except Exception:
        raise NoCondition("this value cannot be written as JSON", at) from None
    return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


def _refuse(name: str) -> Any:
    raise ValueError(name)


_FORMS: Final = re.compile(
    r"(?P<below>below )|(?P<ending>ending in )|(?P<domain>in domain )|(?P<at>at )|(?P<range>from )"
    r"|a (?P<type>text|word) of at most (?P<most>[1-9]\d{0,6}) characters|any (?P<any>text|number)(?![\w-])"
)


def read_condition(sentence: str, at: int) -> tuple[Condition, int]:
    """The condition of a sentence at a place, and the place behind it.

    Raises:
        NoCondition: there is none; the message says what was expected.
    """
    found = _FORMS.match(sentence, at)
    if found is None:
        return _read_values(sentence, at)
    end = found.end()
    if found["type"]:
        return TextOf(int(found["most"]), word=found["type"] == "word"), end
    if found["any"]:
        return Anything(found["any"]), end
    if found["range"]:
        return _read_range(sentence, end)
    word, after = read_word(sentence, end, f"what follows {found[0].strip()!r}")
    if found["below"]:
        if not word.endswith("/"):
            raise NoCondition(f"a folder ends with a slash: {word[:60]}/", end)
        if not is_plain(word):
            raise NoCondition("no rule can be below such a folder: its name could lead elsewhere", end)
        if sentence.startswith(" ending in ", after):
            ending, after = read_word(sentence, after + len(" ending in "), "an ending")
            return Below(word, _checked_ending(ending, after)), after
        return Below(word), after
    if found["ending"]:
        return Ending(_checked_ending(word, end)), after
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", word):
        raise NoCondition("a domain is written in small letters, such as example.org", end)
    return InDomain(word, mail=bool(found["at"])), after


def _checked_ending(word: str, at: int) -> str:
    if "/" in word or not is_plain(word) or not word:
        raise NoCondition("an ending has no slash, such as .md", at)
    return word


def _read_range(sentence: str, at: int) -> tuple[Condition, int]:
    low, after = read_value(sentence, at)
    if not sentence.startswith(" to ", after):
        raise NoCondition("a range reads: from 1 to 2000", after)
    high, end = read_value(sentence, after + len(" to "))
    if not (is_number(low) and is_number(high) and low <= high):
        raise NoCondition("a range goes from a number to a number that is not smaller", at)
    return Between(low, high), end


def _read_values(sentence: str, at: int) -> tuple[Condition, int]:
    values: list[Any] = []
    while True:
        value, after = read_value(sentence, at)
        if len(compact(value)) > MAX_VALUE:
            raise NoCondition(f"a value has at most {MAX_VALUE} characters", at)
        values.append(value)
        if len(values) > MAX_VALUES:
            raise NoCondition(f"a condition names at most {MAX_VALUES} values", at)
        if not sentence.startswith(" or ", after):
            break
        at = after + len(" or ")
    return OneOf(tuple(values)), after
