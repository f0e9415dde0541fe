"""Draws the cards for a saved notebook: what waits first, in full, then what was decided last. Nothing can be pressed.
Open questions of servers stand above the cards, as in the live view.

All of a card is text: the request, its warnings, its arguments and what differs from the last similar call. A person
decides nothing by a picture, so long values are cut, and each cut is marked.
"""

from __future__ import annotations

from collections.abc import Sequence

from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.questions import Question, question_lines
from mew_lab.lab.decisions.risks import kind_of, rank_warnings
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line
from mew_lab.sdk.request_rows import is_routine, row_name
from mew_lab.views.approvals.model import mark, outcome_line, short
from mew_lab.views.ui.pictures import box, clock_time, element, picture

__all__ = ["draw_cards"]

MOST_OPEN, MOST_DECIDED, MOST_LINES = 20, 3, 100  # cards in full, and decided ones as a line
MOST_ROWS = 20  # arguments of a card
MOST_TEXT = 30  # lines of a question

_FRAME = (
    "border:1px solid rgba(128,128,128,.45);border-radius:4px;padding:8px 12px;margin:4px 0;max-width:720px"
)
_META = "font-size:12px;opacity:.75"
_WARNING = "font-size:12px;border-left:3px solid #D55E00;padding:4px 8px;margin:4px 0"
_NAME = "padding:2px 8px 2px 0;font-size:12px;text-align:left;vertical-align:top;opacity:.75"
_VALUE = "padding:2px 8px 2px 0;font-family:monospace;font-size:12px;text-align:left;vertical-align:top"
_OPTION = (
    "font-size:12px;border:1px solid rgba(128,128,128,.45);border-radius:4px;padding:4px 8px;margin:4px 0"
)
_LINE = "font-size:12px;padding:2px 0"


def draw_cards(
    cards: Sequence[Card],
    *,
    questions: Sequence[Question] = (),
    me: str = "",
    decided: int = MOST_LINES,
    titled: bool = True,
    told: Sequence[str] = (),
) -> str:
    """The cards and questions as HTML without script and links; of decided ones at most the newest `decided`.

    `me` decides here. `told` are lines above them.
    """
    asked = [question for question in questions if question.is_open]
    waiting = sorted((card for card in cards if card.is_open), key=lambda card: (not card.warnings, card.seq))
    past = sorted(
        (card for card in cards if not card.is_open), key=lambda card: (card.decided_at or 0.0, card.seq)
    )[::-1]
    if not cards and not questions and not told:
        return picture("Approvals", (), (), notes=["Nothing to approve. Requests that need you appear here."])
    title = box(
        f"Approvals: {len(waiting) + len(asked)} open, {len(past)} decided",
        "font-weight:600;margin:4px 0",
        "div",
    )
    parts = [title] if titled else []
    parts += [box(one_line(line, 300), _LINE, "div") for line in told]
    parts += [_question(question) for question in asked]
    parts += [_card(card, me) for card in waiting[:MOST_OPEN]]
    # Without anything open the last decisions are what was seen last.
    full = 0 if waiting else min(decided, MOST_DECIDED)
    parts += [_card(card, me) for card in past[:full]]
    lines = past[full : max(full, decided)]
    parts += [box(f"{card.request}: {outcome_line(card, me=me)}", _LINE, "div") for card in lines]
    ended = [question for question in questions if not question.is_open][:decided]
    parts += [box(f"{question.request}: {_ending(question)}", _LINE, "div") for question in ended]
    hidden = len(waiting[MOST_OPEN:]) + len(past) - full - len(lines)
    if hidden > 0:
        parts.append(
            box(f"{hidden} more not shown: lab.proposals() and %mew history have all.", _META, "div")
        )
    return element("div", *parts)


def _question(question: Question) -> str:
    title, *lines = question_lines(question)
    cut = [f"… {count_of(len(lines) - MOST_TEXT, 'more line')}"] if len(lines) > MOST_TEXT else []
    text = "\n".join(one_line(line, 300) for line in [*lines[:MOST_TEXT], *cut])
    return element(
        "div",
        box(title, "font-size:15px;font-weight:600", "div"),
        box(text, "font-size:12px;white-space:pre-wrap", "div"),
        box(
            f"Waiting since {clock_time(question.since)}",
            "font-size:13px;font-weight:600;margin-top:4px",
            "div",
        ),
        style=_FRAME,
    )


def _ending(question: Question) -> str:
    words = question.state + (f" at {clock_time(question.decided_at)}" if question.decided_at else "")
    return f"{words}; {question.outcome}" if question.outcome else words


def _card(card: Card, me: str) -> str:
    wants = (
        [
            box(f"{card.named(card.proposer)} wants to run ", "font-weight:600"),
            box(middle(card.tool or card.method, 60), "font-family:monospace;font-weight:600", "code"),
        ]
        if card.permission is None
        else [box(card.request, "font-weight:600")]
    )
    title = element("div", *wants, style="font-size:15px")
    about = " · ".join(
        (
            *([f"on {card.target}"] if card.permission is None else []),
            *card.hints,
            middle(card.id, 28),
            f"digest {short(card.digest)}",
        )
    )
    rows = [row for row in card.arguments if not is_routine(*row) and row[0] not in card.retold]
    last = dict(card.last) if card.last is not None else None
    shown = "".join(_row(pointer, value, last) for pointer, value in rows[:MOST_ROWS])
    parts = [title, box(about, _META, "div")]
    warned = [*filter(None, [card.refusal, card.repeats]), *rank_warnings(card.warnings)]
    parts += [box(f"⚠ {one_line(text[:1].upper() + text[1:], 300)}", _WARNING, "div") for text in warned[:1]]
    if warned[1:]:
        kinds = ", ".join(dict.fromkeys(map(kind_of, warned[1:])))
        parts.append(box(f"{count_of(len(warned) - 1, 'hint')}: {one_line(kinds, 200)}", _META, "div"))
    if shown:
        parts.append(element("table", element("tbody", shown), style="border-collapse:collapse"))
    if len(rows) > MOST_ROWS:
        parts.append(box(count_of(len(rows) - MOST_ROWS, "more argument"), _META, "div"))
    if card.permission is not None:
        parts += [box(f"{name}: {about}", _OPTION, "div") for name, about, _ in card.option_lines]
        parts.append(box(f"Rejection: {card.permission.told_by_rejection}. {card.foot}", _META, "div"))
    if card.writes:
        parts.append(box(f"W{card.writes[1:]}", _META, "div"))
    if card.why:
        parts.append(box(f"Why: {one_line(card.why, 300)}", _META, "div"))
    waits = "Waiting" if card.is_read else "Being read"
    state = f"{waits} since {clock_time(card.since)}" if card.is_open else outcome_line(card, me=me)
    parts.append(box(state, "font-size:13px;font-weight:600;margin-top:4px", "div"))
    return element("div", *parts, style=_FRAME)


def _row(pointer: str, value: str, last: dict[str, str] | None) -> str:
    cells = [
        element("th", box(one_line(row_name(pointer), 60)), style=_NAME),
        element("td", box(one_line(value, 300)), style=_VALUE),
    ]
    compared, was = mark(pointer, value, last) if last is not None else ("same", "")
    note = {"differs": f"≠ last time: {was}", "new": "new"}.get(compared, "")
    cells.append(element("td", box(note), style=_NAME))
    return element("tr", *cells)
