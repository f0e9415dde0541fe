"""A filter in a person's words; the browser runs the same table of cases (tests/browser/test_feed_view.py)."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.views.feed import row_filter
from mew_lab.views.feed.row_filter import compile_filter

CASES = json.loads((Path(__file__).parents[1] / "filter_cases.json").read_text("utf-8"))


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


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('kind:chat or __import__("os").system("touch here")', False),
        ("__import__", False),
        ("field:__import__('os')", True),
        ("__class__:x", False),
        ("__import__:os", False),
        ("{seq.__class__}", False),
        ("%(seq)s", False),
        ("lambda:0", True),
    ],
)
def test_threat_32_a_filter_is_words_to_look_for_and_never_code(
    text: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if refused:  # what stands before a colon is a column, and there are five
        with pytest.raises(MewError, match='The feed has no field "'):
            compile_filter(text)
    else:
        meant = compile_filter(text)
        assert not any(map(meant, ROWS))
        said = ROWS[0]._replace(what=text)
        assert meant(said._replace(kind="chat")) or "kind:" in text
    assert list(tmp_path.iterdir()) == []
    called = {
        node.func.id
        for node in ast.walk(ast.parse(inspect.getsource(row_filter)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "getattr", "__import__", "globals"}
