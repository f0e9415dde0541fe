"""Counts what a capability would have let through: the newest envelopes of a log are held against it.

Spec: §3.6.1; threat 22.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.protocol.describe import describe
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.visible import one_line

__all__ = ["LOOKED_AT", "Example", "Matches", "matching", "would_match"]

LOOKED_AT = 20_000  # envelopes that a pattern is held against, the newest


class Example(NamedTuple):
    """An envelope that a pattern would have matched, in one line."""

    t: float
    sender: str
    to: tuple[str, ...]
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Matches:
    """How many of the newest `looked_at` envelopes a pattern would have matched; the last three of them."""

    count: int
    examples: tuple[Example, ...]
    looked_at: int

    def __str__(self) -> str:
        said = f"would have matched {self.count} of {self.looked_at} envelopes"
        newest = [f"{one.sender} to {', '.join(one.to) or 'everybody'}: {one.what}" for one in self.examples]
        return "\n  ".join([said + ("; the newest of them:" if newest else ""), *newest])


def would_match(log: Log, pattern: Mapping[str, Any], *, sender: str | None = None) -> Matches:
    """How much of what was logged a capability would have matched, of one sender or of all.

    A proposal counts as the request that it proposes; what the gateway refused counts as well.

    Raises:
        ConfigError: the pattern is none.
    """
    *_, found = _search(log, pattern, sender)
    assert found is not None
    return found


async def matching(log: Log, pattern: Mapping[str, Any], *, sender: str | None = None) -> Matches:
    """The same on the loop, which has its turn after every thousand envelopes."""
    for found in _search(log, pattern, sender):
        if found is not None:
            return found
        await asyncio.sleep(0)
    raise AssertionError("a search ends with what it found")


def _search(log: Log, pattern: Mapping[str, Any], sender: str | None) -> Iterator[Matches | None]:
    """None after each thousand envelopes, at the end what was found."""
    capability = Capability.of(pattern)
    count, looked_at, examples = 0, 0, list[Example]()
    for record in reversed(log.held):
        if record.raw is None:
            continue
        if looked_at == LOOKED_AT:
            break
        looked_at += 1
        if looked_at % 1000 == 0:
            yield None
        members = read_members(record.raw) or {}
        heard = Entry(0, record.now.timestamp(), record.raw, record.verdict, record.code, "", "", members)
        by = str(members.get("from") or record.participant)
        if sender is not None and sender not in (by, record.participant):
            continue
        kind = "mcp/request" if heard.kind == "mcp/proposal" else heard.kind
        if capability.permits(kind, heard.to, heard.payload):
            count += 1
            if len(examples) < 3:
                what = one_line(describe(heard.kind, dict(heard.payload)), 160)
                examples.append(Example(heard.t, by, heard.to, heard.kind, what))
    yield Matches(count, tuple(examples), looked_at)
