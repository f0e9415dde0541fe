"""Rows of the reasoning view: one for each sequence and one for each step, bounded whatever a peer said.

Which step belongs to which sequence, and how a sequence ended, is the ledger's to say (`ledger.reasoning`).

Spec: §2 (context), §3.5.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.protocol.describe import describe
from mew_lab.protocol.visible import one_line
from mew_lab.views.reasoning.call_rows import CallRow

__all__ = ["MAX_KIND", "MAX_TEXT", "MAX_TO", "SequenceRow", "StepRow", "facts_of", "text_of"]

MAX_TEXT = 350
MAX_KIND = 128
MAX_TO = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One message of a sequence; `n` counts from 1 in it, `seq` is its row in the feed, `t` in seconds of the epoch.

    `path` is the part of the sequence it belongs to, empty for the sequence itself. `more` tells that the text was
    longer; `call` what became of it where it is a call that is followed, `child` the key of the sequence that it begins.
    Kept are 350 characters of its text, 200 of its path, 128 of its kind and of each name, and 8 of its addressees.
    """

    n: int
    seq: int
    t: float
    sender: str
    kind: str
    path: str
    to: tuple[str, ...]
    text: str
    more: bool
    call: CallRow | None = None
    child: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRow(ReasoningSequence):
    """What the ledger knows of a sequence, and what the view adds.

    `text` is what the sequence set out to do, `more` tells that it was longer. `dropped` counts the steps that are not
    held any more, `thoughts` and `calls` count steps of these kinds; `open_calls` wait for an answer or a decision.
    """

    text: str = ""
    more: bool = False
    dropped: int = 0
    thoughts: int = 0
    calls: int = 0
    open_calls: int = 0


_FACTS = tuple(field.name for field in fields(ReasoningSequence))


def facts_of(sequence: ReasoningSequence) -> dict[str, Any]:
    """The members of a row that the ledger gives."""
    return {name: getattr(sequence, name) for name in _FACTS}


def text_of(entry: Entry) -> tuple[str, bool]:
    """What a message says, in at most 350 characters, and whether it says more."""
    message = entry.payload.get("message" if entry.kind.startswith("reasoning/") else "text")
    if entry.kind != "reasoning/cancel" and isinstance(message, str) and message:
        return one_line(message.strip(), MAX_TEXT), len(message.strip()) > MAX_TEXT
    shown = describe(entry.kind, entry.payload)
    return one_line(shown, MAX_TEXT), entry.kind in ("mcp/request", "mcp/proposal") or "…" in shown
