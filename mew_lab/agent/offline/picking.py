"""Which value of a text does a parameter want?  `pick` and `numbers`: one text, one parameter; pure.

Which texts are asked, and in which order, is not known here (`filling`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from mew_lab.agent.offline import zones
from mew_lab.agent.offline.finding import ANAPHOR, Found, find
from mew_lab.agent.offline.vocabulary import plain, stem, stemmed
from mew_lab.agent.offline.wants import Want, stems_of_name

__all__ = ["Picked", "Text", "labelled", "left", "numbers", "pick"]


_PATHLIKE = re.compile(r"[~.\w /\\:-]{0,400}(?:[/\\][^/\\\n]{0,100}|\.\w{1,5})")
_FOLDERS = stemmed("directory folder dir repo repository")
_FILES = stemmed("file files filename")
_TAKEN_FROM = re.compile(r"\b(?:subtract|take|deduct)\b.*\bfrom\b", re.IGNORECASE)
_TO_WORDS = {"to", "into", "towards", "until", "before", "till", "by"}
_FROM_WORDS = {"from", "of", "since", "after"}
_PLACE_WORDS = {"in", "for", "at", "of", "near", "to", "from", "around", "is"}
_LANGUAGES = {
    "english": "en", "french": "fr", "german": "de", "spanish": "es", "italian": "it", "japanese": "ja",
    "chinese": "zh", "portuguese": "pt", "dutch": "nl", "polish": "pl", "russian": "ru", "korean": "ko",
}  # fmt: skip
_CURRENCIES = {
    "dollar": "USD", "euro": "EUR", "pound": "GBP", "yen": "JPY", "franc": "CHF", "$": "USD", "€": "EUR",
    "£": "GBP", "¥": "JPY",
}  # fmt: skip


class Text(NamedTuple):
    """A text with its values. `used` are the places of those that are taken."""

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


def labelled(wanted: Want, text: str) -> Picked | None:
    """What stands after the parameter's own word: "branch called x", "ticket 17", "count=3"; None for nothing."""
    value = r"\s*(\"[^\"\n]{0,2000}\"|“[^”\n]{0,2000}”|`[^`\n]{0,2000}`|'[^'\n]{0,2000}'(?!\w)|[\w#./~^@+-]+)"
    found = re.search(rf"(?<!\w){re.escape(wanted.key[:80])}\s*[=:]{value}", text) if wanted.key else None
    if found:
        return Picked(_bare(found[1]), frozenset({found.start(1)}))
    for word in re.finditer(r"[^\W\d_]+", text):
        if stem(word[0]) not in wanted.labels:
            continue
        after = re.compile(rf"\s*(called|named|is|=|:|number|no\.|to|by|of)?{value}").match(text, word.end())
        if not after or after[1] == "of" or plain(after[2].strip(".")):
            continue
        if after[2][0] in "\"“`'" or after[1] or re.search(r"[\d#_./~^-]", after[2].rstrip(".")):
            return Picked(_bare(after[2]), frozenset({after.start(2)}))
    return None


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "\"“`'" and len(value) > 1 else value.rstrip(".,").lstrip("#")


def numbers(wanted: Want, text: Text) -> Iterator[Picked]:
    """The numbers that a parameter may take, in their order; a percentage as a share unless percent is asked for."""
    found = [one for one in text.values if one.number is not None]
    if len(found) > 1 and _TAKEN_FROM.search(text.text, 0, 1000):
        found.reverse()
    percent = re.search(
        r"%|\bpercent|\bpct\b", f"{wanted.key} {wanted.about}".replace("_", " "), re.IGNORECASE
    )
    if percent:
        found.sort(key=lambda one: one.kind != "percent")
    for one in found:
        value = one.number
        if one.kind == "percent" and not percent and value is not None:
            value = float(f"{value / 100:.12g}")
        yield Picked(value, frozenset({one.start}))


def pick(wanted: Want, text: Text, used: Set[int], *, role: str, loose: bool = False) -> Picked | None:
    """The value of a role in a text, the taken ones left out.

    Args:
        loose: take also what only might be meant; for a parameter that must be given.
    """
    if role == "zone":
        return _best(wanted, text, used, list(_zones(text, wanted)))
    if role == "expression":
        return _expression(text)
    if role == "language":
        code = re.search(r"\bcode|iso", wanted.about, re.IGNORECASE) is not None
        return _best(wanted, text, used, list(_languages(text, code)))
    if role == "currency":
        return _best(wanted, text, used, list(_money(text)))
    if role == "place":
        return _place(text, used)
    if role == "text":
        return _wording(wanted, text, used, loose=loose)
    if role == "name":
        return _called(wanted, text, used) if loose else None
    kinds = _KINDS.get(role)
    if kinds is None:
        return None
    found = [(one, _shaped(role, one, wanted)) for one in text.values if one.kind in kinds]
    return _best(wanted, text, used, [(one, said) for one, said in found if said is not None], loose)


_KINDS: Mapping[str, tuple[str, ...]] = {
    "email": ("email",), "url": ("url",), "path": ("path", "quoted"), "id": ("id", "hash"), "pattern": ("glob",),
    "datetime": ("datetime", "date"), "time": ("time", "datetime"),
}  # fmt: skip


def _shaped(role: str, one: Found, wanted: Want) -> str | None:
    if role == "time":
        return one.text if one.kind == "time" else one.text[11:16]
    if role == "id":
        return one.text.lstrip("#")
    if one.kind == "quoted":
        return one.text if _PATHLIKE.fullmatch(one.text) else None
    return one.text


def left(wanted: Want, text: Text, used: Set[int], *, kinds: Sequence[str]) -> Picked | None:
    """What no other parameter took: the kinds in their order, and of each the one on the parameter's side."""
    for kind in kinds:
        found = [(one, one.text) for one in text.values if one.kind == kind]
        best = _best(wanted, text, used, found, True)
        if best:
            return best
    return None


def _best(
    wanted: Want, text: Text, used: Set[int], found: Sequence[tuple[Found, str]], loose: bool = False
) -> Picked | None:
    """The value that stands on the parameter's side of "from … to …"; else the first."""
    free = [(one, said) for one, said in found if one.start not in used]
    best, most = None, -1
    for one, said in free:
        points = _side(wanted, text, one, alone=len(free) == 1) + _folder_or_file(wanted, one)
        if one.kind in ("date", "datetime") and wanted.end and "datetime" in wanted.roles:
            right = {"between", *_FROM_WORDS} if wanted.end == "from" else {"and", *_TO_WORDS}
            points = 5 if one.before in right else 1 if loose else -1
        if points > most:
            best, most = Picked(said, frozenset({one.start})), points
    return best


def _side(wanted: Want, text: Text, one: Found, *, alone: bool) -> int:
    """How much a value's place speaks for its end of a pair; a zone beside a time is where that time is."""
    clock = one.kind != "time" and any(
        other.kind == "time" and 0 <= one.start - other.end <= 6 for other in text.values
    )
    if wanted.end == "from":
        aimed = one.before in _TO_WORDS or (one.before == "in" and alone and not clock)
        return 2 + 4 * clock + 2 * (one.before in _FROM_WORDS) - 9 * aimed
    if wanted.end == "to":
        return 2 + 3 * (one.before in _TO_WORDS) - 2 * (one.before in _FROM_WORDS) - 2 * clock
    return 2


def _folder_or_file(wanted: Want, one: Found) -> int:
    if one.kind != "path":
        return 0
    file = re.search(r"\.(?!git$)\w{1,6}$", one.text) is not None
    names = wanted.labels | set(stems_of_name(wanted.key))
    if names & _FOLDERS:
        return -9 if file else 1
    return 2 * file if names & _FILES else 0


def _zones(text: Text, wanted: Want) -> Iterator[tuple[Found, str]]:
    """Zones by their own names and by places; the offset of a time where nothing else says it."""
    seen = False
    for one in text.values:
        zone = zones.zone_of(one.text) if one.kind in ("zone", "name") else None
        for part in one.text.split(" ") if one.kind == "name" and zone is None else ():
            zone = zone or zones.zone_of(part)
        if zone:
            seen = True
            yield one, _utc(zone, wanted)
    for after in re.finditer(r"\b(in|for|at|to|from)\s+([a-z]+)(?:\s+([a-z]+))?(?:\s+([a-z]+))?", text.text):
        parts = [part for part in after.groups()[1:] if part]
        for size in (3, 2, 1):
            zone = zones.zone_of(" ".join(parts[:size])) if size <= len(parts) else None
            if zone:
                seen = True
                yield Found("name", zone, after.start(2), after.end(2), after[1]), _utc(zone, wanted)
                break
    for one in text.values if not seen else ():
        offset = re.search(r"(?:Z|[+-]\d\d:?\d\d)$", one.text) if one.kind == "datetime" else None
        zone = zones.zone_of_offset(offset[0]) if offset else None
        if zone:
            yield one, _utc(zone, wanted)


def _utc(zone: str, wanted: Want) -> str:
    return "UTC" if zone == "Etc/UTC" and "UTC" in wanted.about and "Etc/UTC" not in wanted.about else zone


def _expression(text: Text) -> Picked | None:
    share = re.search(r"(\d[\d.]*)\s?(?:%|percent)\D{0,20}?(?:of|on|for)\s+[$€£]?\s?(\d[\d.]*)", text.text)
    if share:
        return Picked(
            f"{float(f'{float(share[1].rstrip(chr(46))) / 100:.12g}')} * {share[2].rstrip('.')}", frozenset()
        )
    said = text.text
    for sign, worded in (
        ("+", "plus"),
        ("-", "minus"),
        ("*", "times|multiplied by|×"),
        ("/", "divided by|÷"),
    ):
        said = re.sub(
            rf"\s*(?:\b(?:{worded})\b|{worded if len(worded) == 1 else '(?!)'})\s*", f" {sign} ", said
        )
    found = max(re.findall(r"[-(\d][\d\s.()+*/^-]*[\d)]", said), key=len, default="")
    return Picked(found.strip(), frozenset()) if re.search(r"\d\s*[-+*/^]", found) else None


def _languages(text: Text, code: bool) -> Iterator[tuple[Found, str]]:
    before = ""
    for word in re.finditer(r"[^\W\d_]+", text.text):
        known = _LANGUAGES.get(word[0].lower())
        if known:
            said = known if code else word[0].capitalize()
            yield Found("name", said, word.start(), word.end(), before), said
        before = word[0].lower()


def _money(text: Text) -> Iterator[tuple[Found, str]]:
    before = ""
    for word in re.finditer(r"[A-Za-z]+|[$€£¥](?=\s?\d)", text.text):
        code = word[0] if re.fullmatch("[A-Z]{3}", word[0]) and not plain(word[0]) else None
        said = code or _CURRENCIES.get(word[0]) or _CURRENCIES.get(stem(word[0]))
        if said:
            yield Found("name", said, word.start(), word.end(), before), said
        before = word[0].lower()


def _place(text: Text, used: Set[int]) -> Picked | None:
    names = [one for one in text.values if one.kind == "name" and one.start not in used]
    for one in (*(one for one in names if one.before in _PLACE_WORDS), *names):
        return Picked(one.text, frozenset({one.start}))
    small: Picked | None = None
    for after in re.finditer(r"\b(?:in|for|at|near)\s+(?=((?:[^\W\d_]+[ ]?){1,3}))", text.text):
        parts: list[str] = []
        for part in after[1].split():
            if plain(part) or part.lower() in _WHEN:
                break
            parts.append(part)
        if parts:
            said = Picked(" ".join(parts).title(), frozenset({after.start(1)}))
            if zones.zone_of(said.value):
                return said
            small = small or said
    return small


_WHEN = {
    "today",
    "tomorrow",
    "yesterday",
    "tonight",
    "now",
    "right",
    "currently",
    "next",
    "last",
    "morning",
    "week",
}


def _wording(wanted: Want, text: Text, used: Set[int], *, loose: bool) -> Picked | None:
    """What is to be said, searched or translated: what is quoted, or what stands after the words for it."""
    for one in text.values:
        if one.kind == "quoted" and one.start not in used and loose:
            return Picked(one.text, frozenset({one.start}))
    after = re.search(
        r"\b(?:saying|that says|says|search(?:ing)?(?: \w+){0,3}? (?:for|about)|look(?:ing)? (?:up|for)|about|"
        r"(?:translate|summari[sz]e|find|search|google|remember|note)(?: (?:the|that|down|for))?|:)\s+(.+)",
        text.text,
        re.IGNORECASE | re.DOTALL,
    )
    if not after or not loose or ANAPHOR.match(after[1]):
        return None
    said = re.sub(r"^to (?:find|search for|look up)\s+", "", after[1])
    said = re.sub(r"\s+(?:to|into)\s+[A-Z]\w+\s*$", "", said).strip(" .!?")
    said = re.sub(
        r"\s+(?:on|in|from|using|with|at)\s+(?:the\s+)?(?:web|internet|online|[./~]\S*)\s*$", "", said
    ).strip()
    return Picked(said, frozenset()) if said else None


def _called(wanted: Want, text: Text, used: Set[int]) -> Picked | None:
    """A name that is given as one: after "called", as "the main branch", after "to"."""
    for pattern in (
        r"(?:called|named)\s+[\"'“`]?(?P<name>[\w./-]+)",
        r"(?P<name>[\w./-]+)\s+(?P<label>[^\W\d_]+)",
        r"(?P<label>[^\W\d_]*[^\W\d_s])\s+(?P<name>\w[\w./-]*)(?=\s+(?:in|of|at|on|from|for|with|and)\b|\W*$)",
        r"(?:to|as|for|with|against)\s+(?:the\s+)?(?P<name>[\w.-][\w./-]*\w)",
    ):
        for found in re.finditer(rf"(?<![\w./-]){pattern}", text.text):
            parts = found.groupdict()
            meant = "label" not in parts or stem(parts["label"]) in wanted.labels
            if (
                meant
                and not plain(parts["name"])
                and parts["name"].lower() not in _ANY
                and found.start("name") not in used
            ):
                return Picked(parts["name"].rstrip("."), frozenset({found.start("name")}))
    names = [one for one in text.values if one.kind in ("quoted", "name", "id") and one.start not in used]
    return Picked(names[0].text, frozenset({names[0].start})) if names else None


_ANY = {
    "new",
    "last",
    "all",
    "current",
    "remote",
    "local",
    "other",
    "every",
    "latest",
    "first",
    "existing",
    "git",
}
