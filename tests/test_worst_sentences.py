"""Forty sentences and labels that were measured as hard to read: none of them is said any more.

Each row is a part of the old text that no better one has, as the code would write it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

PACKAGE = Path(__file__).parents[1] / "mew_lab"

# The rooms that are read; `views` stands for all folders of the views.
ROOMS = (
    "lab",
    "notebook",
    "cli",
    "sdk",
    "agent",
    "log",
    "views",
)

FORTY = (
    "told nothing of itself",
    " members · ",
    "open what is folded first",
    "arms in ",
    "not seen yet",
    "with warnings ▸",
    "{left} alike",
    "} alike: ${",
    "fulfilled by {",
    " on screen\"}",
    "fulfils it",
    "What is proposed on the way waits for you",
    "Nothing waits for you.",
    "A picture: nothing can be decided here",
    "It is a picture: run the cell",
    "The kernel has not taken it yet",
    "} left, ",
    "another process joins with",
    "Acknowledge all ${",
    "Say something; @ names",
    "Ask again",
    "repeatable",
    "Still needed:",
    '} over`',
    "what it is for",
    "\"greatest\"",
    "nothing can be done about it but to look",
    "say who writes, or give it away",
    "everybody holds it",
    "here stands what it would change",
    "that it may not send now",
    "could have been sent as requests",
    "Arguments that do not stand here",
    "It is marked as edited, and",
    "Press a point above, or give the id",
    "You ({name}) do not hold",
    "it is here already; choose another name",
    "names no tool: it reads",
    "it does not know ",
    "Who is here stands on the left",
    "over the wire alone",
    "tells how it fares",
)  # fmt: skip


@pytest.mark.parametrize("sentence", FORTY)
def test_a_worst_sentence_is_said_nowhere(sentence: str) -> None:
    said = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for room in ROOMS
        for path in sorted([*(PACKAGE / room).rglob("*.py"), *(PACKAGE / room).rglob("*.js")])
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if sentence in line and not line.lstrip().startswith(("//", "#"))
    ]
    assert said == []
