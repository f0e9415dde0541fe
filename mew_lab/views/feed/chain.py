"""Finds what caused an envelope and what it caused: the rows before and after it that `correlation_id` ties to it.

One pass over the rows that name others, on demand; nothing is kept for it. It says what names what; whether a claim is
believed is the ledger's to say (`mew_lab.ledger`).

Spec: §2 (correlation_id).
"""

from __future__ import annotations

from typing import NamedTuple

from mew_lab.lab.rows import Row, Rows
from mew_lab.log.line import read_members

__all__ = ["Chain", "ChainLink", "chain_of"]

MOST_CAUSES, MOST_EFFECTS = 50, 100


class ChainLink(NamedTuple):
    """A row of a chain; `of` are the rows of it that this one names."""

    row: Row
    of: tuple[int, ...]


class Chain(NamedTuple):
    """`causes` and `effects` of one row, in the order received.

    `left_out` counts what was too much (beyond 50 causes, 100 effects), `absent` the envelopes that the row names and
    that are not held.
    """

    causes: tuple[ChainLink, ...]
    effects: tuple[ChainLink, ...]
    left_out: int = 0
    absent: int = 0


def chain_of(rows: Rows, seq: int) -> Chain:
    """The chain of the row of that number among the rows that are held; an empty one when it is not held itself."""
    held = rows.since(seq - 1, 1)
    if not held or held[0].seq != seq:
        return Chain((), ())
    row, left_out = held[0], 0
    causes: dict[int, Row] = {}
    names = [row]
    while names:
        for one in _named(names.pop()):
            found = rows.since(one - 1, 1)
            if one in causes or not found or found[0].seq != one:
                continue
            if len(causes) == MOST_CAUSES:
                left_out, names = left_out + 1, []
                break
            causes[one] = found[0]
            names.append(found[0])
    effects: dict[int, Row] = {}
    caused = {seq}
    for later, named in rows.ties(seq):
        if not caused.isdisjoint(named):
            caused.add(later)
            if len(effects) == MOST_EFFECTS:
                left_out += 1
            elif (found := rows.since(later - 1, 1)) and found[0].seq == later:
                effects[later] = found[0]
    ends = {seq, *causes, *effects}
    return Chain(
        tuple(_link(causes[one], ends) for one in sorted(causes)),
        tuple(_link(one, ends) for one in effects.values()),
        left_out,
        _absent(rows.raw(seq), len(_named(row))),
    )


def _named(row: Row) -> tuple[int, ...]:
    return ((row.correlates,) if row.correlates else ()) + row.also


def _link(row: Row, ends: set[int]) -> ChainLink:
    return ChainLink(row, tuple(one for one in _named(row) if one in ends))


def _absent(raw: str, found: int) -> int:
    named = (read_members(raw) or {}).get("correlation_id")
    ids = {one for one in named if isinstance(one, str)} if isinstance(named, list) else set()
    return max(0, len(ids) - found)
