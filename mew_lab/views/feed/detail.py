"""What the feed tells of an opened row: its exact text, the same laid out, why it passed, its chain.

All of it is made when somebody asks, for one row. It does not know who asks.
"""

from __future__ import annotations

from typing import Any

from mew_lab.lab.rows import Row, Rows, members_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.views.feed.chain import Chain, ChainLink, chain_of
from mew_lab.views.ui.layout import lay_out

__all__ = ["SHOWN", "detail", "why"]

SHOWN = 64 * 1024
LAID_OUT = 300_000
GONE = "The text is not held here any more: lab.log.df has it."


def detail(source: Rows, seq: int, *, whole: bool) -> dict[str, Any]:
    """The opened row; of its text the first 64 Ki characters, unless the whole is wanted.

    What is laid out ends at 300 000 characters in any case.
    """
    raw = source.raw(seq)
    part = raw if whole else raw[:SHOWN]
    chain = chain_of(source, seq)
    held = source.since(seq - 1, 1)
    row = held[0] if held and held[0].seq == seq else None
    sentence, pattern = why(source, row, chain) if row else ("", "")
    return {
        "text": visible(part) or GONE,
        "pretty": lay_out(part, LAID_OUT),
        "more": len(raw) - len(part),
        "why": sentence,
        "pattern": pattern,
        "causes": [_packed(step) for step in chain.causes],
        "effects": [_packed(step) for step in chain.effects],
        "left": chain.left_out,
        "absent": chain.absent,
    }


def why(source: Rows, row: Row, chain: Chain | None = None) -> tuple[str, str]:
    """Why the gateway let an envelope pass or not, as a sentence, and the whole pattern that let it."""
    who = one_line(row.sender, 64)
    pattern = visible(source.pattern(row.seq))
    if row.verdict == "sent":
        return "Sent by the gateway itself.", ""
    if row.verdict == "accepted":
        if pattern:
            return f"Accepted: {who} holds a capability that permits it.", pattern
        return "Accepted by the gateway.", ""
    if row.verdict == "refused":
        answers = (chain or chain_of(source, row.seq)).effects
        told = next((step.row for step in answers if step.row.kind == "system/error"), None)
        message = _message(source.raw(told.seq)) if told else ""
        near = f"Nearest: {pattern}." if pattern else ""
        said = (f"Refused: {one_line(row.code, 64)}.", one_line(message, 400), near)
        return " ".join(filter(None, said)), ""
    return "The verdict is not known here: this log was taken by a participant.", ""


def _message(raw: str) -> str:
    payload = (members_of(raw) or {}).get("payload")
    message = payload.get("message") if isinstance(payload, dict) else None
    return message if isinstance(message, str) else ""


def _packed(step: ChainLink) -> list[Any]:
    row = step.row
    return [
        row.seq,
        round(row.t, 3),
        visible(row.sender),
        visible(row.kind),
        visible(row.what),
        list(step.of),
    ]
