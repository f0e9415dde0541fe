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

FIELDS = ("from", "to", "kind", "tool", "id", "context", "verdict", "since")
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
ASKED = ("", "kind", "id", "verdict")
MOST_CHARACTERS, MOST_TERMS = 500, 50

_TERM = re.compile(r'[ \t\r\n]*(-?)(?:([A-Za-z]+):)?("[^"]*"|[^ \t\r\n"]*)')


class _Term(NamedTuple):
    without: bool
    field: str
    wanted: str
    since: float = 0.0

    def holds(self, row: Row, texts: dict[str, str]) -> bool:
        if self.field == "since":
            return (row.t >= self.since) is not self.without
        return (self.wanted in texts[self.field]) is not self.without


def compile_filter(text: str, now: float = 0.0, zone: int = 0) -> Predicate:
    """A predicate that accepts the rows with all words of the text, in any order, case-insensitively.

    `-word` excludes the rows with that word. `"two words"` matches exactly this text. `from:x`, `to:x`, `kind:x`,
    `tool:x`, `id:x`, `context:x` and `verdict:x` search one column alone. `since:5m` and `since:21:37` mean the time;
    `now` is in seconds of the epoch, `zone` the seconds by which the reader's clock is ahead of UTC. The text of a row is the displayed one, with escapes for
    invisible characters. An empty filter accepts every row.

    Args:
        text: At most 500 characters and 50 words.

    Raises:
        MewError: the filter is malformed; the message quotes the word and says what is allowed.
    """
    terms = _terms(text, now, zone)

    def matches(row: Row) -> bool:
        if not terms:
            return True
        texts = _texts(row)
        return all(term.holds(row, texts) for term in terms)

    return matches


def asks(text: str) -> bool:
    """Whether a filter asks for rows by what they are, so that plumbing is shown, too."""
    return any(not term.without and term.field in ASKED for term in _terms(text, 0.0, 0))


def _since(wanted: str, now: float, zone: int) -> float:
    if ago := re.fullmatch(r"([0-9]{1,6})(s|m|min|h|d)", wanted):
        return now - int(ago[1]) * UNITS[ago[2]]
    clock = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", wanted)
    parts = [int(part or 0) for part in clock.groups()] if clock else [99, 0, 0]
    if parts[0] > 23 or parts[1] > 59 or parts[2] > 59:
        raise MewError(f'"since:{wanted}" is no time: write since:5m, since:90s, since:2h or since:21:37.')
    midnight = (now + zone) // 86400 * 86400 - zone
    moment = midnight + parts[0] * 3600 + parts[1] * 60 + parts[2]
    return moment if moment <= now else moment - 86400


def _terms(text: str, now: float, zone: int) -> tuple[_Term, ...]:
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
                f'Messages have no field "{field}:", only {known}. To search for the text, put it in quotes.'
            )
        wanted = value.strip('"').lower()
        if not wanted:
            raise MewError(f'"{sign}{field + ":" if field else ""}" needs a word after it.')
        since = _since(wanted, now, zone) if field.lower() == "since" else 0.0
        terms.append(_Term(bool(sign), field.lower(), wanted, since))
        if len(terms) > MOST_TERMS:
            raise MewError(f"A filter has at most {MOST_TERMS} words.")
    return tuple(terms)


def _texts(row: Row) -> dict[str, str]:
    texts = {
        "from": visible(row.sender),
        "to": visible(", ".join(row.to)),
        "kind": visible(row.kind),
        "tool": visible(row.tool),
        "id": visible(row.id[:80]),
        "context": visible(row.context),
        "verdict": f"{row.verdict} {visible(row.code)}".strip(),
    }
    everything = f"{row.seq} {texts['from']} {texts['to']} {texts['kind']} {visible(row.what)}"
    texts[""] = f"{everything} {texts['context']} {texts['verdict']}"
    return {name: text.lower() for name, text in texts.items()}
