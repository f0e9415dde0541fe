"""Where our space does otherwise than the TypeScript gateway did in its captured sessions, and by which ruling.

A row is a fact and not a wish: what it says happens, the given number of times, and the test fails when it happens
no longer, or when something else does. `row` is the ruling (R…), or the row of requirements.csv, that wants it so.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DIVERGENCES", "Divergence"]


class Divergence(NamedTuple):
    """One difference in one capture: what a comparison says of it, how often, by which ruling, and why."""

    capture: str
    what: str
    times: int
    row: str
    why: str


CAPTURES = (
    "1-basic",
    "2-mcp",
    "3-proposals",
    "5-reasoning",
    "7-mcp-bridge",
    "8-typescript-agent",
    "9-typescript-proposals",
    "11-chat-controls",
    "12-stream-controls",
    "15-stream-visibility",
)
BASELINE = 'system/welcome payload.you.capabilities: {"id":"mcp-response","kind":"mcp/response"} only here'
EXTENSION = "system/welcome payload.x-mew-lab: only here"
OPEN = 'stream/open from: "gateway" there, "system:gateway" here'

DIVERGENCES: tuple[Divergence, ...] = (
    *(
        Divergence(
            capture,
            BASELINE,
            3 if capture == "15-stream-visibility" else 1,
            "R9",
            "The welcome states the baseline to everyone; that gateway left it out of a log sink's own welcome.",
        )
        for capture in CAPTURES
    ),
    *(
        Divergence(
            capture,
            EXTENSION,
            3 if capture in ("3-proposals", "9-typescript-proposals", "15-stream-visibility") else 2,
            "R34",
            "Each welcome says what this gateway does beyond the specification; others ignore the member.",
        )
        for capture in CAPTURES
    ),
    Divergence("12-stream-controls", OPEN, 2, "C-4", "The gateway speaks under one name, always."),
    Divergence("15-stream-visibility", OPEN, 1, "C-4", "The gateway speaks under one name, always."),
    Divergence(
        "12-stream-controls",
        "order: stream/open, stream/request there, stream/request, stream/open here",
        2,
        "R1",
        "A cause is delivered before what it causes.",
    ),
    Divergence(
        "15-stream-visibility",
        "stream/request to the sender: only here",
        1,
        "R1",
        "Every envelope is delivered to every participant, by whichever transport it came.",
    ),
    Divergence(
        "15-stream-visibility",
        "system/presence to others: only here",
        3,
        "R8",
        "Whoever comes is announced to all others, log sinks too.",
    ),
    *(
        Divergence(
            capture,
            f"system/error payload.{key}: only here",
            1,
            "R19",
            "A refusal says the same by WebSocket as by HTTP, with the sentence that helps.",
        )
        for capture in ("8-typescript-agent", "9-typescript-proposals")
        for key in ("nearest", "message")
    ),
)
