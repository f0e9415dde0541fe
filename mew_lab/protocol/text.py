"""Measures, cuts and reads text: lengths, bytes, names of participants and tools, timestamps.

These functions escape nothing. `visible` writes text for a person, with every hidden character as an escape, and cuts
it by the functions of this module.

Spec: §3 (`ts`); RFC 3339; SDK "Tool Preparation and Namespacing".
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

__all__ = [
    "MAX_CLIENT_NAME",
    "MAX_NAME",
    "TOOL_NAME",
    "ToolNames",
    "abridge",
    "client_names",
    "compared",
    "count_of",
    "cut",
    "cut_middle",
    "cut_names",
    "elapsed",
    "fold",
    "letters",
    "local_time",
    "mend_surrogates",
    "parse_rfc3339",
    "parse_timestamp",
    "timestamp",
    "utf8_size",
    "write_rfc3339",
]

MAX_NAME = 128  # characters of a participant's id; our gateway gives 64 at most, others may give longer ones

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ](?:[01]\d|2[0-3]):[0-5]\d:)([0-5]\d|60)(\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


# --- length ---


def count_of(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 participant`, `2 participants`, `12 800 messages`."""
    number = f"{count:,}".replace(",", " ")  # a narrower space would be shown as an escape in a view
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def elapsed(seconds: float) -> str:
    """A time that passes, as minutes and seconds: `0:05`, `75:00`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes}:{rest:02}"


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` characters, the end cut with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_middle(text: str, limit: int) -> str:
    """The text in at most `limit` characters, shortened in its middle so that both ends can be compared."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) + head + 1 - limit :]}"


def abridge(text: str, limit: int) -> str:
    """The text in at most about `limit` characters: beginning and end, with the number of omitted characters between."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[len(text) - limit // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


def mend_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that it can be sent as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf8_size(text: str) -> int:
    """The bytes of the text as UTF-8; half a surrogate pair, which UTF-8 does not have, counts three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# --- names of participants in an envelope ---
# An envelope may name a thousand participants, and each name may be as long as the envelope.


def cut_names(names: Sequence[str], *, most: int) -> tuple[str, ...]:
    """The first `most` names for display, each in at most 128 characters. A name that was cut equals no real name."""
    return tuple([cut(name, MAX_NAME) for name in names[:most]])


def compared(names: Sequence[str], *, most: int) -> tuple[str, ...] | None:
    """Each name once, uncut; None if there are more than `most`, or one is longer than 128 characters."""
    different = tuple(dict.fromkeys(names))
    if len(different) > most or any(len(name) > MAX_NAME for name in different):
        return None
    return different


# --- time ---


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as it stands in `ts`. `moment` is in UTC."""
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def write_rfc3339(moment: datetime, *, timespec: str = "auto") -> str:
    """RFC 3339 in UTC; `timespec` is the precision, as for `datetime.isoformat`. `moment` has a time zone."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def local_time(seconds: float) -> str:
    """`14:03:22` in the time zone of this machine, for a moment in seconds of the epoch."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%H:%M:%S}"


def parse_rfc3339(text: object) -> datetime | None:
    """The time in UTC of an RFC 3339 timestamp of any offset; None for any other text.

    A leap second is the first moment of the next minute. Digits after the sixth of a second are cut off.
    """
    match = _RFC3339.match(text) if isinstance(text, str) else None
    if match is None:
        return None
    minute, second, fraction, offset = match.groups(default="")
    leap = second == "60"
    try:
        moment = datetime.fromisoformat(f"{minute}{'59' if leap else second}{fraction}{offset}".upper())
        return moment.astimezone(UTC) + timedelta(seconds=leap)
    except (ValueError, OverflowError):  # a day that no month has, a year beyond ours
        return None


def parse_timestamp(text: object) -> datetime | None:
    """The time in UTC of a text in any form of ISO 8601, without an offset as UTC; None for any other text."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None or moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# --- names of tools ---

TOOL_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}\Z", re.ASCII)  # what a tool of ours may be called
MAX_API_NAME = 64  # characters of a name that an API of models takes
_HASHED = 8  # characters of the hash that tells apart what reads the same
_FITS = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_API_NAME}}}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
# Its first underscore was the slash, so two of these never read the same.
_PLAIN = re.compile(r"[a-zA-Z0-9-]+/[a-zA-Z0-9_-]+")


class ToolNames:
    """Maps names of tools (`participant/tool`) to names that an API of models accepts, and back, one to one.

    Such an API accepts at most 64 characters of `[a-zA-Z0-9_-]`. `wire[name]` is the name for the API, `name[wire]`
    that of the tool. Distinct names stay distinct.

    A slash becomes an underscore, as in the specification. A name gets a short hash at its end if it is too long, has
    characters that an API does not accept, or equals another one. The order of the names does not matter; a name whose
    participant has no underscore keeps its form when others are added.
    """

    def __init__(self, names: Iterable[str]) -> None:
        wire: dict[str, str] = {}
        taken: set[str] = set()
        # Those that keep their form come first: nobody may choose a name that takes it from them.
        distinct = sorted(set(names), key=lambda name: (_keeps(name) is None, name))
        alike = Counter(_readable(name) for name in distinct)
        for name in distinct:
            form = _keeps(name) or _form(name, alone=alike[_readable(name)] == 1, taken=taken)
            wire[name] = form
            taken.add(form)
        self.wire: Mapping[str, str] = MappingProxyType(wire)
        self.name: Mapping[str, str] = MappingProxyType({form: name for name, form in wire.items()})


def _readable(name: str) -> str:
    return name.replace("/", "_")


def _keeps(name: str) -> str | None:
    form = _readable(name)
    return form if len(form) <= MAX_API_NAME and _PLAIN.fullmatch(name) else None


def _form(name: str, *, alone: bool, taken: set[str]) -> str:
    form = _readable(name)
    if alone and _FITS.fullmatch(form) and form not in taken:
        return form
    stem = _FOREIGN.sub("_", form)[: MAX_API_NAME - _HASHED - 1] or "tool"
    texts = (f"{salt}:{name}" if salt else name for salt in itertools.count())
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts)
    return next(form for digest in digests if (form := f"{stem}-{digest[:_HASHED]}") not in taken)


# An MCP client puts a prefix before a name, such as `mcp__demo__`, and passes both on to an API of models.
MAX_CLIENT_NAME = 44
_CUT_PARTICIPANT, _CUT_TOOL = 8, 26  # with the hash and the signs between them that is MAX_CLIENT_NAME
_HASH_AT_END = re.compile(rf"-[0-9a-f]{{{_HASHED}}}\Z")


def client_names(participant: str, tool: str, *, bare: bool = False) -> tuple[str, ...]:
    """The names of `participant/tool` for MCP clients, the first of which is the better one.

    `git/git_log` becomes `git_git_log`. A name that is longer than `MAX_CLIENT_NAME`, has other characters, or could be
    read as that of another participant has both parts cut and a hash at its end. Only such names end like that. So two
    names are the same where an attacker searched for the hash, or where one of them is `bare`.

    Args:
        bare: whether the tool's own name comes first, where it can be used.
    """
    full = f"{participant}/{tool}"
    form = tool if bare else _readable(full)
    fits = (_FITS.fullmatch(form) if bare else _PLAIN.fullmatch(full)) and len(form) <= MAX_CLIENT_NAME
    parts = _FOREIGN.sub("_", participant)[:_CUT_PARTICIPANT], _FOREIGN.sub("_", tool)[:_CUT_TOOL]
    digits = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    hashed = f"{'_'.join(parts)}-{digits}"
    return (form, hashed) if fits and not _HASH_AT_END.search(form) else (hashed,)


# --- likeness ---

_LOOK_ALIKE = dict(
    zip(
        map(ord, "аеорсухіјѕԁһӏвнкмтαορνικυτηωϲ"),
        map(ord, "aeopcyxijsdhlbhkmtaopvikutnwc"),
        strict=True,
    )
)
_MAX_FOLDS = 20_000  # characters; texts of peers may hold all of Unicode, one after the other


class _Folds(dict[int, int | None]):
    """The folded form of each character that is not ASCII; filled as they come."""

    def __missing__(self, code: int) -> int | None:
        category = unicodedata.category(chr(code))
        hidden = category in ("Mn", "Me", "Cf", "Cs", "Co", "Cn") or (
            category == "Cc" and code not in (9, 10, 13)
        )
        shown = None if hidden else _LOOK_ALIKE.get(code, code)
        if len(self) < _MAX_FOLDS:
            self[code] = shown
        return shown


_FOLDS = _Folds()
_LETTERS = re.compile(r"[^\W_]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def fold(text: str) -> str:
    """The text without case, accents, look-alikes, widths and invisible characters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).casefold().translate(_FOLDS)
        text = unicodedata.normalize("NFC", text)
    else:
        text = text.lower()
    return _CONTROLS.sub("", text)


def letters(text: str) -> str:
    """The letters and digits of the folded text in a row: two texts with the same ones read alike."""
    return "".join(_LETTERS.findall(fold(text)))
