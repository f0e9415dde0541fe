"""What is told of a card, in words and as the data of a view?  Pure: a card in, text out.

All of it is visible text but `id` and `digest`, which are sent back. It knows no view and no decision under way.

Spec: §3.2; threats 3, 16, 17.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from mew_lab.notebook.widgets.faces import short
from mew_lab.notebook.widgets.live import INSTALL
from mew_lab.notebook.widgets.marks import placed
from mew_lab.notebook.widgets.pictures import clock_time, picture
from mew_lab.notebook.widgets.values import argument, folded, mark
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.workbench.cards import Card

__all__ = ["past", "shown", "still", "unopened"]


def past(card: Card) -> str:
    """What became of a card, by whom and when."""
    by = f" by {one_line(card.by, 64)}" if card.by else ""
    at = f" at {clock_time(card.decided_at)}" if card.decided_at is not None else ""
    seen = "" if card.on_screen is None else f", {card.on_screen:.1f} s on screen"
    outcome = f": {one_line(card.outcome, 200)}" if card.outcome else ""
    return f"{card.decision}{' (edited)' if card.edited else ''}{by}{at}{seen}{outcome}"


def unopened(arguments: Sequence[tuple[str, str]], opened: set[int]) -> str:
    """Why what is folded and was not opened may not be approved; empty when all of it was."""
    closed = sorted(folded(arguments) - opened)
    names = ", ".join(one_line(arguments[n][0], 40) for n in closed[:3])
    return f"Not approved: {names} was not opened. Open what is folded first." if closed else ""


def shown(card: Card) -> dict[str, Any]:
    """A card as the views get it: `id` and `digest` to be sent back, everything else visible text."""
    arguments = [argument(name, value) for name, value in card.arguments] if card.is_open else []
    gone: list[str] = []
    if card.last is not None and card.is_open:
        last = dict(card.last)
        for (name, value), row in zip(card.arguments, arguments, strict=True):
            row["last"] = mark(name, value, last)
        here = {name for name, _ in card.arguments}
        gone = [
            f"{one_line(name, 60)} {one_line(value, 120)}" for name, value in card.last if name not in here
        ]
    return {
        "id": card.id,
        "seq": card.seq,
        "digest": card.digest,
        "short": short(card.digest),
        "name": middle(card.id, 28),
        "proposer": visible(card.proposer),
        "to": [visible(one) for one in card.to],
        "method": visible(card.method),
        "tool": visible(card.tool),
        "arguments": arguments,
        "gone": gone[:20],
        "shape": sha256(repr(card.shape).encode("utf-8", "replace")).hexdigest()[:24],
        "warnings": placed(card.warnings, card.arguments if card.is_open else ()),
        "why": visible(card.why),
        "since": card.since,
        "state": card.state,
        "past": "" if card.is_open else past(card),
        "decision": "" if card.is_open else f"{card.decision}{' (edited)' if card.edited else ''}",
        "by": "" if card.is_open else one_line(card.by, 64),
        "at": None if card.is_open else card.decided_at,
        "onScreen": None if card.is_open else card.on_screen,
        "outcome": "" if card.is_open else one_line(card.outcome, 200),
    }


def still(cards: Sequence[Card], *, moment: datetime) -> str:
    """The cards as a plain table, without anything to press."""
    rows = [
        (
            "waits" if card.is_open else card.state,
            card.request,
            "\n".join(f"{one_line(name, 60)}  {one_line(value, 300)}" for name, value in card.arguments)
            or "none",
            "\n".join(card.warnings),
            short(card.digest),
            clock_time(card.since),
            "" if card.is_open else past(card),
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
