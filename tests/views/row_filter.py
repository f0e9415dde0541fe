"""The rule of the feed's filter, written a second time: the reference for views/feed/filter.js.

A filter reads the columns of a row, not its payload.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.protocol.visible import visible

Predicate = Callable[[Row], bool]

FIELDS = ("from", "to", "kind", "context", "verdict")
MOST_CHARACTERS, MOST_TERMS = 500, 50

_TERM = re.compile(r'[ \t\r\n]*(-?)(?:([A-Za-z]+):)?("[^"]*"|[^ \t\r\n"]*)')


class _Term(NamedTuple):
    without: bool
    field: str
    wanted: str

    def holds(self, texts: dict[str, str]) -> bool:
        return (self.wanted in texts[self.field]) is not self.without


def compile_filter(text: str) -> Predicate:
    """A predicate that accepts the rows with all words of the text, in any order, case-insensitively.

    `-word` excludes the rows with that word. `"two words"` matches exactly this text. `from:x`, `to:x`, `kind:x`,
    `context:x` and `verdict:x` search one column alone. The text of a row is the displayed one, with escapes for
    invisible characters. An empty filter accepts every row.

    Args:
        text: At most 500 characters and 50 words.

    Raises:
        MewError: the filter is malformed; the message quotes the word and says what is allowed.
    """
    terms = _terms(text)

    def matches(row: Row) -> bool:
        if not terms:
            return True
        texts = _texts(row)
        return all(term.holds(texts) for term in terms)

    return matches


def _terms(text: str) -> tuple[_Term, ...]:
    if len(text) > MOST_CHARACTERS:
        raise MewError(f"A filter has at most {MOST_CHARACTERS} characters.")
    terms: list[_Term] = []
    at, end = 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        match = _TERM.match(text, at)
        assert match is not None  # it matches nothing, too
        at = match.end()
        sign, field, value = match[1], match[2] or "", match[3]
        if at < len(text) and text[at] == '"' and not value:
            raise MewError('A quotation mark is not closed: add ".')
        if field and field.lower() not in FIELDS:
            known = ", ".join(f"{name}:" for name in FIELDS)
            raise MewError(
                f'The feed has no field "{field}:", only {known}. To search for the text, put it in quotes.'
            )
        wanted = value.strip('"').lower()
        if not wanted:
            raise MewError(f'"{sign}{field + ":" if field else ""}" needs a word after it.')
        terms.append(_Term(bool(sign), field.lower(), wanted))
        if len(terms) > MOST_TERMS:
            raise MewError(f"A filter has at most {MOST_TERMS} words.")
    return tuple(terms)


def _texts(row: Row) -> dict[str, str]:
    texts = {
        "from": visible(row.sender),
        "to": visible(", ".join(row.to)),
        "kind": visible(row.kind),
        "context": visible(row.context),
        "verdict": f"{row.verdict} {visible(row.code)}".strip(),
    }
    everything = f"{row.seq} {texts['from']} {texts['to']} {texts['kind']} {visible(row.what)}"
    texts[""] = f"{everything} {texts['context']} {texts['verdict']}"
    return {name: text.lower() for name, text in texts.items()}
