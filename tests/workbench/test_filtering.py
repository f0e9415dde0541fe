"""A filter in a person's words; the browser runs the same table of cases (tests/browser/test_feed_view.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.workbench.cards import Row
from mew_lab.workbench.filtering import compile_filter

CASES = json.loads((Path(__file__).parent / "filter_cases.json").read_text("utf-8"))


def row_of(members: dict[str, Any]) -> Row:
    return Row(**members | {"t": 0.0, "correlates": 0, "id": "", "size": 0, "to": tuple(members["to"])})


ROWS = [row_of(members) for members in CASES["rows"]]


@pytest.mark.parametrize(("text", "expected"), CASES["meant"])
def test_the_rows_that_are_meant(text: str, expected: list[int]) -> None:
    meant = compile_filter(text)
    assert [row.seq for row in ROWS if meant(row)] == expected


@pytest.mark.parametrize(("text", "reason"), CASES["refused"])
def test_what_cannot_be_understood_says_where_and_what_would_do(text: str, reason: str) -> None:
    with pytest.raises(MewError) as refused:
        compile_filter(text)
    assert reason in str(refused.value)


def test_a_filter_is_bounded() -> None:
    assert compile_filter("a" * 500)(ROWS[0]) is False
    assert compile_filter(" ".join("a" * 50))(ROWS[0]) is True
    with pytest.raises(MewError, match="500 characters"):
        compile_filter("a" * 501)
    with pytest.raises(MewError, match="50 words"):
        compile_filter(" ".join("a" * 51))
