"""Which value does a turn of phrase give?  A place, a language, a sum, a name, what is to be said; pure.

These values have no form of their own: the words around them tell that they are meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from mew_lab.agent.offline import zones
from mew_lab.agent.offline.finding import ANAPHOR, Found, Picked, Text
from mew_lab.agent.offline.vocabulary import plain, stem
from mew_lab.agent.offline.wants import Want

__all__ = ["called", "expression", "languages", "money", "place", "wording"]

_PLACE_WORDS = {"in", "for", "at", "of", "near", "to", "from", "around", "is"}
_LANGUAGES = {
    "english": "en", "french": "fr", "german": "de", "spanish": "es", "italian": "it", "japanese": "ja",
    "chinese": "zh", "portuguese": "pt", "dutch": "nl", "polish": "pl", "russian": "ru", "korean": "ko",
}  # fmt: skip
_CURRENCIES = {
    "dollar": "USD", "euro": "EUR", "pound": "GBP", "yen": "JPY", "franc": "CHF", "$": "USD", "€": "EUR",
    "£": "GBP", "¥": "JPY",
}  # fmt: skip


def expression(text: Text) -> Picked | None:
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


def languages(text: Text, code: bool) -> Iterator[tuple[Found, str]]:
    before = ""
    for word in re.finditer(r"[^\W\d_]+", text.text):
        known = _LANGUAGES.get(word[0].lower())
        if known:
            said = known if code else word[0].capitalize()
            yield Found("name", said, word.start(), word.end(), before), said
        before = word[0].lower()


def money(text: Text) -> Iterator[tuple[Found, str]]:
    before = ""
    for word in re.finditer(r"[A-Za-z]+|[$€£¥](?=\s?\d)", text.text):
        code = word[0] if re.fullmatch("[A-Z]{3}", word[0]) and not plain(word[0]) else None
        said = code or _CURRENCIES.get(word[0]) or _CURRENCIES.get(stem(word[0]))
        if said:
            yield Found("name", said, word.start(), word.end(), before), said
        before = word[0].lower()


def place(text: Text, used: Set[int]) -> Picked | None:
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


def wording(wanted: Want, text: Text, used: Set[int], *, loose: bool) -> Picked | None:
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


def called(wanted: Want, text: Text, used: Set[int]) -> Picked | None:
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
