"""What is told of a reasoning is short, and a context has parts that can be ids."""

from __future__ import annotations

from typing import Any

import pytest
from heard import Space

from mew_lab.ledger.reasoning import parts_of
from mew_lab.views.reasoning.rows import text_of


@pytest.mark.parametrize(
    ("context", "parts"),
    [
        ("", []),
        ("//", []),
        ("r", ["r"]),
        ("/r//plan/", ["r", "plan"]),
        ("x" * 256 + "/" + "y" * 257, ["x" * 256]),
        ("a/" * 100_000, ["a"] * 16),
    ],
)
def test_parts_are_neither_empty_nor_longer_than_an_id_and_sixteen_at_most(
    context: str, parts: list[str]
) -> None:
    assert parts_of(context) == parts


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        ("reasoning/thought", {"message": " Look at\nthe sky "}, ("Look at\\nthe sky", False)),
        ("reasoning/thought", {"message": "x" * 351}, ("x" * 349 + "…", True)),
        ("reasoning/thought", {"message": "x" * 350}, ("x" * 350, False)),
        ("chat", {"text": "Who knows?"}, ("Who knows?", False)),
    ],
)
def test_a_message_is_told_in_one_line(kind: str, payload: Any, told: tuple[str, bool]) -> None:
    assert text_of(Space().tell(kind, payload)) == told
