"""Tells of a card in words and as the data of a view.  Pure: a card in, text out.

All of it is visible text but `id` and `digest`, which are sent back. It knows no view and no decision under way.

Spec: §3.2; threats 3, 16, 17.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from mew_lab.lab.decisions.cards import Card
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.request_rows import is_routine, row_name
from mew_lab.views.approvals.faces import short
from mew_lab.views.approvals.marks import place_warnings
from mew_lab.views.approvals.values import argument, mark
from mew_lab.views.ui.live import INSTALL
from mew_lab.views.ui.pictures import clock_time, picture

__all__ = ["past", "shown", "still"]


def past(card: Card) -> str:
    """What became of a card, by whom and when."""
    by = f" by {one_line(card.by, 64)}" if card.by else ""
    at = f" at {clock_time(card.decided_at)}" if card.decided_at is not None else ""
    seen = "" if card.on_screen is None else f", {card.on_screen:.1f} s on screen"
    outcome = f": {one_line(card.outcome, 200)}" if card.outcome else ""
    return f"{card.decision}{' (edited)' if card.edited else ''}{by}{at}{seen}{outcome}"


def shown(card: Card) -> dict[str, Any]:
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
            "\n".join(
                f"{one_line(row_name(at), 60)}  {one_line(value, 300)}" for at, value in card.arguments
            ),
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
