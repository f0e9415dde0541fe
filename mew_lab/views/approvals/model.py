"""Tells of a card in words and as the data of a view.  Pure: a card in, text out.

How it works
------------
`card_data` makes of a card what a page gets. Each argument becomes a row (`argument`): what is long is folded, so that
its beginning stands there with its size, and the whole is sent when somebody opens it; nothing is hidden, and nothing
is cut in silence. Each warning gets the place that it means (`place_warnings`): a warning quotes its cause after a
colon, and the quoted text is looked for among the texts that are shown. A warning that quotes nothing that is shown has
no place. `card_table` draws the cards for a saved notebook.

All of it is visible text but `id` and `digest`, which are sent back. It knows no view and no decision under way.

Spec: §3.2; threats 3, 16, 17.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from mew_lab.lab.decisions.cards import FOLD_LINES, LONG_NAME, Card, is_folded, lines_of, whole
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.request_rows import ID, is_routine, row_name
from mew_lab.views.ui.live import INSTALL
from mew_lab.views.ui.pictures import clock_time, picture

__all__ = [
    "argument",
    "card_data",
    "card_table",
    "compare_lines",
    "mark",
    "outcome_line",
    "place_warnings",
    "short",
]


def outcome_line(card: Card) -> str:
    """What became of a card, by whom and when."""
    by = f" by {one_line(card.by, 64)}" if card.by else ""
    at = f" at {clock_time(card.decided_at)}" if card.decided_at is not None else ""
    seen = "" if card.on_screen is None else f", {card.on_screen:.1f} s on screen"
    outcome = f": {one_line(card.outcome, 200)}" if card.outcome else ""
    return f"{card.decision}{' (edited)' if card.edited else ''}{by}{at}{seen}{outcome}"


def card_data(card: Card) -> dict[str, Any]:
    """A card as the views get it: `id` and `digest` to be sent back, everything else visible text."""
    arguments = [argument(name, value) for name, value in card.arguments] if card.is_open else []
    gone: list[str] = []
    if card.last is not None and card.is_open:
        last = dict(card.last)
        for (pointer, value), row in zip(card.arguments, arguments, strict=True):
            if not is_routine(pointer, value):
                row["last"] = mark(pointer, value, last)
        here = {pointer for pointer, _ in card.arguments}
        gone = [
            f"{one_line(row_name(pointer), 60)} {one_line(value, 120)}"
            for pointer, value in card.last
            if pointer not in here
        ]
    return {
        "id": card.id,
        "seq": card.seq,
        "digest": card.digest,
        "short": short(card.digest),
        "name": middle(card.id, 28),
        # The title: ids beside the participants that chose them, names cut, addressees counted. Rows have all of it.
        "proposer": card.named(card.proposer),
        "from": visible(card.proposer),
        "to": [card.target] if card.to else [],
        "method": middle(card.method, 60),
        "tool": middle(card.tool, 60),
        "arguments": arguments,
        "gone": gone[:20],
        "shape": sha256(repr(card.shape).encode("utf-8", "replace")).hexdigest()[:24],
        "warnings": place_warnings(
            (*card.warnings, *([card.refusal] if card.refusal else [])),
            card.arguments if card.is_open else (),
        ),
        "refusal": visible(card.refusal),
        "why": visible(card.why),
        "since": card.since,
        "state": card.state,
        "past": "" if card.is_open else outcome_line(card),
        "decision": "" if card.is_open else f"{card.decision}{' (edited)' if card.edited else ''}",
        "by": "" if card.is_open else one_line(card.by, 64),
        "at": None if card.is_open else card.decided_at,
        "onScreen": None if card.is_open else card.on_screen,
        "outcome": "" if card.is_open else one_line(card.outcome, 200),
    }


def card_table(cards: Sequence[Card], *, moment: datetime) -> str:
    """The cards as a plain table, without anything to press."""
    rows = [
        (
            "waits" if card.is_open else card.state,
            card.request,
            "\n".join(
                f"{one_line(row_name(at), 60)}  {one_line(value, 300)}" for at, value in card.arguments
            ),
            "\n".join(card.warnings),
            short(card.digest),
            clock_time(card.since),
            "" if card.is_open else outcome_line(card),
        )
        for card in cards
    ]
    title = f"Approvals as of {clock_time(moment)}, {sum(card.is_open for card in cards)} open, {len(cards)} in all"
    notes = [
        ""
        if cards
        else "Nothing was proposed yet. bot.call(…) of a participant that may only propose fills this.",
        f"A picture: nothing can be decided here. The live view {INSTALL}. Until then: %mew approve ID.",
    ]
    columns = ("state", "request", "arguments", "warnings", "digest", "since", "decision")
    return picture(title, columns, rows, notes=filter(None, notes), code=("arguments", "digest"))


def short(digest: str) -> str:
    """The beginning of a digest, to be compared by eye."""
    return f"{digest[:4]} {digest[4:8]}"


TITLED = 40  # characters of a value that the title of a card shows whole
MOST_COMPARED = 400  # lines, and characters of a line, that are compared one by one

Pairs = Sequence[tuple[str, str]]


def argument(pointer: str, value: str) -> dict[str, Any]:
    """One row as the views get it: its pointer, a short name that no other row has, and its value as visible text.

    `routine` marks what needs no reading: what the title says whole, or every request says, and the request's own id;
    `key` is equal for equal values. What is `folded` is a beginning.
    """
    lines, name, is_cut = lines_of(value), row_name(pointer), is_folded(pointer, value)
    short = pointer == ID or sum(map(len, lines)) <= TITLED
    key = sha256(value.encode("utf-8", "replace")).hexdigest()[:24]
    row = {
        "pointer": visible(pointer),
        "name": middle(name, LONG_NAME),
        "routine": is_routine(pointer, value) and short and not is_cut,
    }
    if not is_cut:
        return row | {"text": "\n".join(lines), "key": key}
    structure = value[:1] in "[{"
    head = [one_line(value, 160)] if structure else [one_line(line, 160) for line in lines[:2]]
    size = (
        f"{len(lines) - 2} {'items' if value[:1] == '[' else 'fields'}"
        if structure
        else f"{len(lines)} lines"
    )
    if len(lines) <= FOLD_LINES:
        size = f"{sum(map(len, lines))} characters"
    if len(name) > LONG_NAME:
        size += f" under a name of {len(name)} characters"
    return row | {"text": "\n".join(head), "folded": size, "key": key}


def mark(name: str, value: str, last: Mapping[str, str]) -> list[str]:
    """How an argument compares with that of the last call: what kind of difference, and what it was."""
    if name not in last:
        return ["new", ""]
    return ["same", ""] if last[name] == value else ["differs", one_line(last[name], 160)]


def compare_lines(was: str, now: str) -> list[list[str]]:
    """Two values as lines, each with its sign: ` ` in both, `-` before, `+` now; what is equal and far off is left
    out and counted. Empty where it is too much to compare: then both stand there whole."""
    old, new = lines_of(was), lines_of(now)
    if max(len(old), len(new)) > MOST_COMPARED or max(map(len, old + new)) > MOST_COMPARED:
        return []
    rows: list[list[str]] = []
    for how, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            same = old[a:b]
            rows += (
                [[" ", line] for line in same]
                if len(same) <= 4
                else [[" ", same[0]], ["…", f"{len(same) - 2} equal lines"], [" ", same[-1]]]
            )
        else:
            rows += [["-", line] for line in old[a:b]] + [["+", line] for line in new[c:d]]
    return rows


# What was invisible, as a text in quotes shows it: an escape whose backslash is not itself escaped.
_UNESCAPED = r"(?<!\\)(?:\\\\)*"
_ESCAPED = re.compile(_UNESCAPED + r"(\\(?:[bfr]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}))")
# A warning that says which character it is, by its number.
_BY_NUMBER = re.compile(r"(?:null byte|control character) in .*: \\u([0-9a-fA-F]{4})")
_BLANK = re.compile(r"\s{60,}")
_SPELT = re.compile(r"\\\\(?:[bfnrt]|u[0-9a-f]{4})|\\\\|\"")  # in an escaped needle
_SHORT = {rf"\\u{ord(c):04x}": re.escape(json.dumps(c)[1:-1]) for c in "\b\f\r\t"}
_READS = re.compile(r" \(reads .*\)\Z")  # what letters in disguise look like
SHORTEST = 2  # characters: what is shorter stands everywhere, and is looked for in the row that is named


def place_warnings(warnings: Sequence[str], arguments: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Each warning as visible text with the row, and the first and the last character in it, that it means.

    The characters are counted as a page counts them, in units of UTF-16. `row` is missing where nothing was found.
    """
    texts = [(row_name(pointer), whole(pointer, value)) for pointer, value in arguments] if warnings else []
    return [{"text": visible(warning)} | _place(visible(warning), texts) for warning in warnings]


def _place(warning: str, texts: Sequence[tuple[str, str]]) -> dict[str, int]:
    names = [name for name, _ in texts]
    named = [n for n, name in enumerate(names) if _is_in(warning, name)]
    named = named or [n for n, name in enumerate(names) if _is_of(warning, name)]
    order = [*named, *(n for n in range(len(texts)) if n not in set(named))]
    if place := _unseen(warning, texts, order):
        return place
    for needle in _needles(warning):
        shown = _as_shown(needle)
        for row in order if len(needle) >= SHORTEST else named:
            if hit := shown.search(texts[row][1]):
                return _span(texts[row][1], row, *hit.span())
    # It means the row, and no characters of it.
    return {"row": named[0], "start": 0, "end": 0} if named else {}


def _unseen(warning: str, texts: Sequence[tuple[str, str]], order: Sequence[int]) -> dict[str, int]:
    """The place of what has no shape of its own: an escape, or blanks; empty where that is not what is warned of."""
    if by_number := _BY_NUMBER.fullmatch(warning):
        # JSON has a short escape for some of them.
        shown = visible(json.dumps(chr(int(by_number[1], 16)), ensure_ascii=False)[1:-1])
        what = re.compile(_UNESCAPED + f"({re.escape(shown)})")
    elif "characters that cannot be seen in " in warning:
        what = _ESCAPED
    elif warning.startswith("long white space in "):
        what = _BLANK
    else:
        return {}
    for row in order:
        if hit := what.search(texts[row][1]):
            return _span(texts[row][1], row, *hit.span(len(hit.groups())))
    return {}


def _own(name: str) -> str:
    return name.rpartition("/")[2] if name.startswith("/") else name


def _is_in(warning: str, name: str) -> bool:
    """Whether the warning says of something that it stands in this row."""
    return bool(own := _own(name)) and re.search(f" in {re.escape(own)}(?=[:.[ ]|\\Z)", warning) is not None


def _is_of(warning: str, name: str) -> bool:
    """Whether the warning names this row: by its label, or by the last member that a JSON pointer names."""
    own = _own(name)
    at = f" {warning}".find(f" {own}")
    if not own or at < 0:
        return False
    return f" {warning}"[at + 1 + len(own) :][:1] in ("", ":", ".", "[", " ")


def _needles(warning: str) -> Iterator[str]:
    """What the warning may quote: all after a colon; the longest first."""
    at = 0
    while (at := warning.find(": ", at) + 2) > 1:
        quoted = _READS.sub("", warning[at:]).removesuffix("…")
        if quoted:
            yield quoted


def _as_shown(needle: str) -> re.Pattern[str]:
    """What finds a quoted text where JSON shows it.

    There a quote and a backslash are escaped, some escapes are shorter, and the text goes on in the next line after each
    line end. A warning spells a line end as `\\n` and leaves a backslash as it is, so `\\n` there may mean either.
    """
    return re.compile(_SPELT.sub(_in_json, re.escape(needle)))


def _in_json(spelt: re.Match[str]) -> str:
    text = spelt[0]
    if text == '"':
        return r'\\?"'
    if text == r"\\":
        return r"\\\\?"
    if text == r"\\n":
        return r"(?:\\n\n?|\\\\n)"
    short = _SHORT.get(text)
    return rf"(?:\\?{text}|{short})" if short else rf"\\?{text}"


def _span(text: str, row: int, start: int, end: int) -> dict[str, int]:
    first = _units(text[:start])
    return {"row": row, "start": first, "end": first + _units(text[start:end])}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
