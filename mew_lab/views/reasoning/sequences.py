"""What is told of a reasoning, and of each message in it?  One sequence and one step, bounded whatever a peer said.

It does not know which sequence a message belongs to, nor which are held.

Spec: §2 (context), §3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.describe import describe
from mew_lab.protocol.envelope import MAX_ID
from mew_lab.protocol.visible import one_line
from mew_lab.views.reasoning.call_rows import CallRow

__all__ = ["MAX_KIND", "MAX_PATH", "MAX_TEXT", "MAX_TO", "Reasoning", "Step", "parts_of", "text_of"]

MAX_TEXT = 350
MAX_DEPTH = 16  # parts of a context that are looked at
MAX_PATH = 200
MAX_KIND = 128
MAX_TO = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """One sequence as it stands; `key` counts from 1 in order of arrival, `id` is its context.

    `about` is what its start correlates to, `text` what it set out to do. `parent` is the key of the sequence within
    which it began (0: none), `place` the number of its step there. `steps` counts all messages, `dropped` those not
    held any more; `open_calls` wait for an answer or a decision. `by` and `reason` tell of its end, `stream` names the
    stream beside it.
    """

    key: int
    id: str
    owner: str
    started: float
    text: str = ""
    more: bool = False
    seq: int = 0
    about: tuple[str, ...] = ()
    parent: int = 0
    place: int = 0
    path: str = ""
    state: Literal["active", "concluded", "cancelled", "left"] = "active"
    ended: float | None = None
    by: str = ""
    reason: str = ""
    steps: int = 0
    dropped: int = 0
    thoughts: int = 0
    calls: int = 0
    open_calls: int = 0
    stream: str = ""
    streaming: bool = False


def parts_of(context: str) -> list[str]:
    """The first 16 parts of a context that may be ids or names of parts: neither empty nor longer than an id."""
    return [part for part in context.split("/", MAX_DEPTH)[:MAX_DEPTH] if 0 < len(part) <= MAX_ID]


def text_of(heard: Entry) -> tuple[str, bool]:
    """What a message says, in at most 350 characters, and whether it says more."""
    said = heard.payload.get("message" if heard.kind.startswith("reasoning/") else "text")
    if heard.kind != "reasoning/cancel" and isinstance(said, str) and said:
        return one_line(said.strip(), MAX_TEXT), len(said.strip()) > MAX_TEXT
    shown = describe(heard.kind, heard.payload)
    return one_line(shown, MAX_TEXT), heard.kind in ("mcp/request", "mcp/proposal") or "…" in shown
