"""When a grant ends, in words."""

from __future__ import annotations

import pytest

from mew_lab.lab.decisions.given import Given, end_in_words


@pytest.mark.parametrize(
    ("ends", "uses", "used", "words"),
    [(None, None, 0, ""), (None, 5, 0, "0 of 5 uses"), (None, 1, 1, "1 of 1 uses")],
)
def test_an_end_in_few_words(ends: float | None, uses: int | None, used: int, words: str) -> None:
    assert end_in_words(ends, uses, used) == words


def test_a_time_and_uses_are_both_told() -> None:
    one = Given(id="g", to="bot", patterns=(), reason="", since=0.0, ends=60.0, uses=3, used=1)
    assert one.limited and one.left.startswith("1 of 3 uses, until ") and one.left.count(":") == 2


def test_what_has_no_end_stands_until_it_is_revoked() -> None:
    one = Given(id="g", to="bot", patterns=(), reason="", since=0.0)
    assert not one.limited and one.left == "until it is revoked"
