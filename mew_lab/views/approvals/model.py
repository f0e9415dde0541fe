"""Turns a card into the data of a view and into text. The functions are pure.

How it works
------------
`card_data` turns a card into the data for a page. Each argument becomes a row (`argument`). A long value is folded: its
beginning is shown with its size, and the whole value is sent when the reader opens it. Nothing is hidden, and every
cut is marked. Each warning gets a place (`place_warnings`): a warning quotes its cause after a colon, and the quoted
text is searched in the texts that are shown. A warning without a match has no place.

All values are visible text except `id` and `digest`, which the page sends back.

Spec: §3.2; threats 3, 16, 17.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from mew_lab.bridge.written_files import FileDiff
from mew_lab.lab.decisions.cards import (
    FOLD_LINES,
    LONG_NAME,
    MAX_PATH,
    MOST_QUESTION,
    POLICY,
    Card,
    DecidingRule,
    is_folded,
    lines_of,
    whole,
)
from mew_lab.lab.decisions.risks import kind_of, rank_warnings
from mew_lab.protocol.visible import middle, one_line, visible, visible_lines
from mew_lab.sdk.request_rows import ID, is_routine, routine_word, row_name
from mew_lab.views.ui.kept import pack_kept
from mew_lab.views.ui.pictures import clock_time

__all__ = [
    "argument",
    "card_data",
    "compare_lines",
    "decision_words",
    "diff_data",
    "mark",
    "outcome_line",
    "permission_data",
    "place_warnings",
    "result_words",
    "short",
]


def outcome_line(card: Card, *, me: str = "") -> str:
    """The decision about a card, its time and its result, as one line; `me` is the participant that reads it."""
    at = f", {clock_time(card.decided_at)}" if card.decided_at is not None else ""
    result = result_words(card)
    return f"{decision_words(card, me=me)}{at}{f': {result}' if result else ''}"


_DECISIONS = {
    "fulfilled": "Approved",
    "rejected": "Rejected",
    "withdrawn": "Withdrawn",
    "withdrawn after it was sent": "Withdrawn after the approval",
    "lapsed": "Expired",
}


def decision_words(card: Card, *, me: str = "") -> str:
    """The decision about a card and its author, such as `Approved by you after 2.9 s`; without a time of day."""
    words = _DECISIONS.get(card.decision, card.decision)
    if card.choice is not None:
        words = f"Chose {card.choice.quoted}"
    elif card.decision == "rejected" and card.permission is not None:
        words = f"{words} ({card.permission.told_by_rejection})"
    if card.decision == "fulfilled" and card.edited is not False:
        words = f"{words} {'with changes' if card.edited else '(not compared with the proposal)'}"
    if card.rule is not None:
        return f"{words} by {card.rule.name}"
    _, is_policy, policy = card.by.partition(POLICY)
    if is_policy:
        return f"{words} automatically (policy “{one_line(policy, 40)}”)"
    by = "you" if me and card.by == me else one_line(card.by, 64)
    if by == "you" and card.by != me:  # another participant that is called so
        by = "“you”"
    # How long the person looked is told of her own decisions alone.
    after = f" after {card.on_screen:.1f} s" if by and card.on_screen is not None else ""
    return f"{words} by {by}{after}" if by else words


def result_words(card: Card) -> str:
    """What became of a decided card: the result of the call, its failure, or the reason of a rejection."""
    outcome = one_line(card.told, 240)
    return f"tool failed: {outcome}" if card.failed else outcome


SECOND_PRESS = "; a second press of its button, “Approve all the same”, runs it despite that"


def card_data(card: Card, *, me: str = "") -> dict[str, Any]:
    """A card as the views get it: `id` and `digest` to be sent back, everything else visible text."""
    arguments = [argument(name, value, is_retold=name in card.retold) for name, value in card.arguments]
    if not card.is_open:
        arguments = []
    absent: list[str] = []
    if card.last is not None and card.is_open:
        last = dict(card.last)
        for (pointer, value), row in zip(card.arguments, arguments, strict=True):
            if not is_routine(pointer, value):
                row["last"] = mark(pointer, value, last)
        pointers = {pointer for pointer, _ in card.arguments}
        absent = [
            f"{one_line(row_name(pointer), 60)} {one_line(value, 120)}"
            for pointer, value in card.last
            if pointer not in pointers
        ]
    inside = dict(card.inside)
    for (pointer, _), row in zip(card.arguments, arguments, strict=False):
        if pointer in inside:
            row["inside"] = f"inside {one_line(inside[pointer], 60)}/"
    return {
        "id": card.id,
        "seq": card.seq,
        "unmet": card.unmet,
        "digest": card.digest,
        "short": short(card.digest),
        "name": middle(card.id, 28),
        # The title has the ids of the participants, cut, and counts the addressees. The rows have all of them.
        "proposer": card.named(card.proposer),
        "from": visible(card.proposer),
        "to": [card.target] if card.to else [],
        "method": middle(card.method, 60),
        "tool": middle(card.tool, 60),
        "arguments": arguments,
        "gone": absent[:20],
        "shape": sha256(repr(card.shape).encode("utf-8", "replace")).hexdigest()[:24],
        "warnings": place_warnings(
            (*filter(None, [card.refusal, card.repeats]), *rank_warnings(card.warnings)),
            card.arguments if card.is_open else (),
        ),
        "refusal": visible(card.refusal),
        "notices": [
            visible(notice) + (SECOND_PRESS if notice == card.rejected else "") for notice in card.notices
        ]
        if card.is_open
        else [],
        "review": visible(card.review) if card.is_open else "",
        "cancelled": card.is_open and card.caller == "cancelled",
        "rejected": visible(card.rejected) if card.is_open or card.can_be_approved else "",
        # The difference itself is no part of this: a page asks for it when it shows the card.
        "file": file_data(card) if card.is_open and card.file is not None else None,
        "why": visible(card.why),
        "history": visible(card.history) if card.is_open else "",
        "since": card.since,
        "state": card.state,
        "about": visible(card.about),
        "hints": list(card.hints),
        # Of one addressee that lists its tools: the name of a server whose read-only tools may be allowed.
        "readOnly": card.target if "read-only" in card.hints else "",
        "decision": "" if card.is_open else decision_words(card, me=me),
        "by": "" if card.is_open else one_line(card.by, 64),
        "at": None if card.is_open else card.decided_at,
        "onScreen": None if card.is_open else card.on_screen,
        "outcome": "" if card.is_open else one_line(card.outcome, 200),
        "failed": card.failed,
        "sent": card.sent,
        "call": "" if card.is_open else one_line(card.call, 400),
        "kept": None if card.is_open or card.kept is None else pack_kept(card.kept),
        "permission": permission_data(card),
        "rule": None if card.rule is None else rule_data(card.rule),
    }


def rule_data(rule: DecidingRule) -> dict[str, str]:
    """What a page gets of the rule that approved a call: its SHA-256 is sent back to stop it."""
    return {"sha256": rule.sha256, "name": rule.name, "text": one_line(rule.text, MOST_RULE)}


MOST_RULE = 400  # characters of a rule
TONES = {"allow_once": "allow", "allow_always": "always", "reject_once": "reject", "reject_always": "always"}


def permission_data(card: Card) -> dict[str, Any] | None:
    """What a page gets of the permission of an agent; None for any other proposal. An `id` is sent back as it is.

    Options of one name are told apart by their ids. There are none to choose where `Permission.fault` says so.
    """
    if (asked := card.permission) is None:
        return None
    lines, names = card.option_lines, Counter(name for name, _, _ in card.option_lines)
    options = [
        {
            "id": option.id,
            "name": name,
            "about": f"{about} (id {id})" if names[name] > 1 else about,
            "tone": TONES.get(option.kind, "unknown"),
            "isDefault": option == asked.default,
        }
        for option, (name, about, id) in zip(asked.options, lines, strict=True)
    ]
    return {
        "question": one_line(asked.question, MOST_QUESTION).strip() or "no question is stated",
        "options": options if card.is_open and not asked.fault else [],
        "rejection": asked.told_by_rejection,
        "foot": card.foot,
    }


NO_LOCK = "nothing locks the file: it is compared once more when you approve, and may change after that"


def file_data(card: Card) -> dict[str, Any]:
    """What a page gets at first of the file that a call would write: its path, and why the old content is not known."""
    assert card.file is not None
    stated = f"as {card.named(card.proposer)} states it" if card.file.is_stated else ""
    why = "" if card.file.is_known else card.file.why
    return {"path": one_line(card.file.path, MAX_PATH), "why": why, "stated": stated}


def diff_data(diff: FileDiff, path: str, *, at: float, stated: str = "") -> dict[str, Any]:
    """The difference of a file, for a page that shows it at once; `stated` says who states it, where nobody looked."""
    counts = [] if diff.is_new or diff.added is None else [f"+{diff.added:,} −{diff.removed or 0:,}"]
    return {
        "place": one_line(diff.place or path, MAX_PATH),
        "counts": counts,
        "rows": [[sign, visible_lines(text)] for sign, text in diff.rows],
        "why": visible(diff.why),
        "about": stated or f"as it was at {clock_time(at)}; {NO_LOCK}",
    }


def short(digest: str) -> str:
    """The first eight digits of a digest, for a comparison by eye."""
    return f"{digest[:4]} {digest[4:8]}"


TITLED = 40  # characters of a value that the title of a card shows whole
MOST_COMPARED = 400  # lines, and characters of a line, that are compared one by one

Pairs = Sequence[tuple[str, str]]


def argument(pointer: str, value: str, *, is_retold: bool = False) -> dict[str, Any]:
    """One row as the views get it: its pointer, a short unique name, and its value as visible text.

    `routine` marks a row that needs no reading: its value is in the title, is the same in every request, is the id of
    the request, or `is_retold`: the card tells all of it in another form; `what` says in words what it is. `key` is
    equal for equal values. `folded` is the size of a value whose text is only its beginning.
    """
    lines, name, is_cut = lines_of(value), row_name(pointer), is_folded(pointer, value) and not is_retold
    short = pointer == ID or sum(map(len, lines)) <= TITLED
    key = sha256(value.encode("utf-8", "replace")).hexdigest()[:24]
    row = {
        "pointer": visible(pointer),
        "name": middle(name, LONG_NAME),
        "routine": (is_routine(pointer, value) and short and not is_cut) or is_retold,
    }
    if row["routine"]:
        row["what"] = "told above as" if is_retold else routine_word(pointer)
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
    """The comparison of an argument with the last call: `new`, `same` or `differs`, and the earlier value."""
    if name not in last:
        return ["new", ""]
    return ["same", ""] if last[name] == value else ["differs", one_line(last[name], 160)]


def compare_lines(was: str, now: str) -> list[list[str]]:
    """The difference of two values as lines, each with its sign: ` ` in both, `-` before, `+` now.

    More than four equal lines are replaced by their first, their last and a count. The result is empty for values that
    are too long to compare.
    """
    old, new = lines_of(was), lines_of(now)
    if max(len(old), len(new)) > MOST_COMPARED or max(map(len, old + new)) > MOST_COMPARED:
        return []
    rows: list[list[str]] = []
    for how, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            equal = old[a:b]
            rows += (
                [[" ", line] for line in equal]
                if len(equal) <= 4
                else [[" ", equal[0]], ["…", f"{len(equal) - 2} equal lines"], [" ", equal[-1]]]
            )
        else:
            rows += [["-", line] for line in old[a:b]] + [["+", line] for line in new[c:d]]
    return rows


# An invisible character in a quoted text: an escape whose backslash is not itself escaped.
_UNESCAPED = r"(?<!\\)(?:\\\\)*"
_ESCAPED = re.compile(_UNESCAPED + r"(\\(?:[bfr]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}))")
# A warning that gives the number of the character.
_BY_NUMBER = re.compile(r"(?:null byte|control character) in .*: \\u([0-9a-fA-F]{4})")
_BLANK = re.compile(r"\s{60,}")
_SPELT = re.compile(r"\\\\(?:[bfnrt]|u[0-9a-f]{4})|\\\\|\"")  # in an escaped needle
_SHORT = {rf"\\u{ord(c):04x}": re.escape(json.dumps(c)[1:-1]) for c in "\b\f\r\t"}
_READS = re.compile(r" \(reads .*\)\Z")  # the plain form of lookalike letters
SHORTEST = 2  # characters; a shorter text occurs everywhere, so only the named row is searched


def place_warnings(warnings: Sequence[str], arguments: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Each warning as visible text, with the row and the range of characters that it is about.

    `start` and `end` count units of UTF-16, as a page does. `row` is missing where no row matches.
    """
    texts = [(row_name(pointer), whole(pointer, value)) for pointer, value in arguments] if warnings else []
    return [
        {"text": visible(warning), "kind": visible(kind_of(warning))} | _place(visible(warning), texts)
        for warning in warnings
    ]


def _place(warning: str, texts: Sequence[tuple[str, str]]) -> dict[str, int]:
    names = [name for name, _ in texts]
    named = [n for n, name in enumerate(names) if _is_in(warning, name)]
    named = named or [n for n, name in enumerate(names) if _is_of(warning, name)]
    order = [*named, *(n for n in range(len(texts)) if n not in set(named))]
    if place := _unseen(warning, texts, order):
        return place
    for needle in _needles(warning):
        pattern = _as_shown(needle)
        for row in order if len(needle) >= SHORTEST else named:
            if hit := pattern.search(texts[row][1]):
                return _span(texts[row][1], row, *hit.span())
    # The warning is about the row as a whole.
    return {"row": named[0], "start": 0, "end": 0} if named else {}


def _unseen(warning: str, texts: Sequence[tuple[str, str]], order: Sequence[int]) -> dict[str, int]:
    """The place of an invisible character or of white space; empty where the warning is about something else."""
    if by_number := _BY_NUMBER.fullmatch(warning):
        # JSON has a short escape for some of them.
        escape = visible(json.dumps(chr(int(by_number[1], 16)), ensure_ascii=False)[1:-1])
        pattern = re.compile(_UNESCAPED + f"({re.escape(escape)})")
    elif "characters that cannot be seen in " in warning:
        pattern = _ESCAPED
    elif warning.startswith("long white space in "):
        pattern = _BLANK
    else:
        return {}
    for row in order:
        if hit := pattern.search(texts[row][1]):
            return _span(texts[row][1], row, *hit.span(len(hit.groups())))
    return {}


def _own(name: str) -> str:
    return name.rpartition("/")[2] if name.startswith("/") else name


def _is_in(warning: str, name: str) -> bool:
    """Whether the warning says that its cause is in this row."""
    return bool(own := _own(name)) and re.search(f" in {re.escape(own)}(?=[:.[ ]|\\Z)", warning) is not None


def _is_of(warning: str, name: str) -> bool:
    """Whether the warning names this row: by its label, or by the last member that a JSON pointer names."""
    own = _own(name)
    at = f" {warning}".find(f" {own}")
    if not own or at < 0:
        return False
    return f" {warning}"[at + 1 + len(own) :][:1] in ("", ":", ".", "[", " ")


def _needles(warning: str) -> Iterator[str]:
    """The texts that the warning may quote: the rest after each colon, the longest first."""
    at = 0
    while (at := warning.find(": ", at) + 2) > 1:
        quoted = _READS.sub("", warning[at:]).removesuffix("…")
        if quoted:
            yield quoted


def _as_shown(needle: str) -> re.Pattern[str]:
    """A pattern that finds a quoted text in JSON.

    JSON escapes quotes and backslashes, has some shorter escapes, and a line end is shown as a new line. A
    warning spells a line end as `\\n` and does not escape backslashes, so `\\n` in a warning may mean either.
    """
    return re.compile(_SPELT.sub(_in_json, re.escape(needle)))


def _in_json(spelt: re.Match[str]) -> str:
    text = spelt[0]
    if text == '"':
        return r'\\?"'
    if text == r"\\":
        return r"\\\\?"
    if text == r"\\n":
        return r"(?:\n|\\\\?n)"
    short = _SHORT.get(text)
    return rf"(?:\\?{text}|{short})" if short else rf"\\?{text}"


def _span(text: str, row: int, start: int, end: int) -> dict[str, int]:
    first = _units(text[:start])
    return {"row": row, "start": first, "end": first + _units(text[start:end])}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
