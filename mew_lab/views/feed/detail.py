"""Computes the details of an opened row: its exact text, its layout, the reason of its verdict, and its chain.

The chain of an envelope consists of the rows that `correlation_id` links to it: its causes and its effects. A link is
only a claim of its sender; `mew_lab.ledger` decides which claims count.

The details are computed on request, for one row, in one pass over the rows that refer to others. Nothing is stored.

Spec: §2 (correlation_id).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mew_lab.lab.rows import Row, Rows
from mew_lab.log.line import read_members
from mew_lab.protocol.content import holds_content
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.kept import ResultHead
from mew_lab.protocol.layout import lay_out
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.kept_results import KeptAnswer
from mew_lab.views.ui.kept import pack_kept

__all__ = ["SHOWN", "Chain", "ChainLink", "chain_of", "detail", "kept_of", "why"]

MOST_CAUSES, MOST_EFFECTS = 50, 100


class ChainLink(NamedTuple):
    """A row of a chain; `of` are the numbers of the rows of the chain that it correlates to."""

    row: Row
    of: tuple[int, ...]


class Chain(NamedTuple):
    """The `causes` and the `effects` of one row, in the order received.

    `left_out` counts the rows beyond 50 causes and 100 effects. `absent` counts the envelopes that the row correlates
    to and that are not held.
    """

    causes: tuple[ChainLink, ...]
    effects: tuple[ChainLink, ...]
    left_out: int = 0
    absent: int = 0


def chain_of(rows: Rows, seq: int) -> Chain:
    """The chain of the row of that number among the held rows; an empty chain when the row itself is not held."""
    held = rows.since(seq - 1, 1)
    if not held or held[0].seq != seq:
        return Chain((), ())
    row, left_out = held[0], 0
    causes: dict[int, Row] = {}
    names = [row]
    while names:
        for number in _named_rows(names.pop()):
            match = rows.since(number - 1, 1)
            if number in causes or not match or match[0].seq != number:
                continue
            if len(causes) == MOST_CAUSES:
                left_out, names = left_out + 1, []
                break
            causes[number] = match[0]
            names.append(match[0])
    effects: dict[int, Row] = {}
    caused = {seq}
    for later, named in rows.ties(seq):
        if not caused.isdisjoint(named):
            caused.add(later)
            if len(effects) == MOST_EFFECTS:
                left_out += 1
            elif (match := rows.since(later - 1, 1)) and match[0].seq == later:
                effects[later] = match[0]
    ends = {seq, *causes, *effects}
    return Chain(
        tuple(_link(causes[number], ends) for number in sorted(causes)),
        tuple(_link(effect, ends) for effect in effects.values()),
        left_out,
        _count_absent(rows.raw(seq), len(_named_rows(row))),
    )


def _named_rows(row: Row) -> tuple[int, ...]:
    return ((row.correlates,) if row.correlates else ()) + row.also


def _link(row: Row, ends: set[int]) -> ChainLink:
    return ChainLink(row, tuple(number for number in _named_rows(row) if number in ends))


def _count_absent(raw: str, held: int) -> int:
    named = (read_members(raw) or {}).get("correlation_id")
    ids = {id for id in named if isinstance(id, str)} if isinstance(named, list) else set()
    return max(0, len(ids) - held)


SHOWN = 64 * 1024
LAID_OUT = 300_000
GONE = "The text is no longer held in this view; lab.log.df has it."


def detail(source: Rows, seq: int, *, whole: bool) -> dict[str, Any]:
    """The details of the row of that number, with the first 64 Ki characters of its text, or with the whole text.

    The layout ends at 300 000 characters in any case.
    """
    raw = source.raw(seq)
    part = raw if whole else raw[:SHOWN]
    chain = chain_of(source, seq)
    held = source.since(seq - 1, 1)
    row = held[0] if held and held[0].seq == seq else None
    sentence, pattern = why(source, row, chain) if row else ("", "")
    kept = kept_of(raw) if row and row.kind == "mcp/response" else None
    return {
        "text": visible(part) or GONE,
        "pretty": lay_out(part, LAID_OUT),
        "more": len(raw) - len(part),
        "why": sentence,
        "pattern": pattern,
        "causes": [_pack(step) for step in chain.causes],
        "effects": [_pack(step) for step in chain.effects],
        "left": chain.left_out,
        "absent": chain.absent,
        "kept": kept and pack_kept(kept),
    }


def kept_of(raw: str) -> KeptAnswer | None:
    """What the text of a response tells of a result that is kept; None where it holds its result, or is no response."""
    members = read_members(raw) or {}
    payload, sender, about = (members.get(name) for name in ("payload", "from", "correlation_id"))
    result = payload.get("result") if isinstance(payload, dict) else None
    head = ResultHead.of(result)
    if head is None or not isinstance(sender, str):
        return None
    id = about[0] if isinstance(about, list) and about and isinstance(about[0], str) else ""
    return KeptAnswer(head, sender, holds_content(result) or "tools/call", id)


def why(source: Rows, row: Row, chain: Chain | None = None) -> tuple[str, str]:
    """The reason of the gateway's verdict as a sentence, and the pattern of the capability that permitted the row."""
    who = one_line(row.sender, 64)
    pattern = visible(source.pattern(row.seq))
    if row.verdict == "sent":
        return "Sent by the gateway itself.", ""
    if row.verdict == "accepted":
        if pattern:
            return f"Accepted: {who} has a permission that allows it.", pattern
        return "Accepted by the gateway.", ""
    if row.verdict == "refused":
        answers = (chain or chain_of(source, row.seq)).effects
        error = next((step.row for step in answers if step.row.kind == "system/error"), None)
        message = _message(source.raw(error.seq)) if error else ""
        near = f"Nearest: {reword_refusal(pattern)}." if pattern else ""
        parts = (f"Refused: {one_line(row.code, 64)}.", one_line(reword_refusal(message), 400), near)
        return " ".join(filter(None, parts)), ""
    return "The verdict is not known: no gateway recorded this log.", ""


def _message(raw: str) -> str:
    payload = (read_members(raw) or {}).get("payload")
    message = payload.get("message") if isinstance(payload, dict) else None
    return message if isinstance(message, str) else ""


def _pack(step: ChainLink) -> list[Any]:
    row = step.row
    return [
        row.seq,
        round(row.t, 3),
        visible(row.sender),
        visible(row.kind),
        visible(row.what),
        list(step.of),
    ]
