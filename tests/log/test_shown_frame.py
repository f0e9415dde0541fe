"""What the methods of a table of a log make of it prints no control character of a peer."""

from __future__ import annotations

import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mew_lab.log.log import open_log
from mew_lab.log.shown_frame import ShownFrame

UGLY = "a\x1b[31m\u202eb\x07"
FRAME = ShownFrame(
    {
        "from": [UGLY, UGLY, "c"],
        "n": [1, 2, 3],
        "t": pd.to_datetime([1, 2, 3]),
        "to": [[UGLY], [], ["c"]],
    }
)
SUBJECTS = {
    "table": FRAME,
    "texts": FRAME[["from"]],
    "indexed": FRAME.set_index("from")[["n"]],
    "column": FRAME["from"],
    "numbers": FRAME.set_index("from")["n"],
}
# They draw, write files, need more of pandas, or give an index, which is that of pandas.
LEFT_OUT = {"plot", "hist", "boxplot", "style", "to_markdown", "to_clipboard", "info"}
CALLS: dict[str, Any] = {
    "part": lambda one: one.iloc[:2],
    "row": lambda one: one.iloc[0],
    "joined": lambda one: pd.concat([one, one]),
    "counted": lambda one: one.groupby(level=0).size(),
    "all": lambda one: one.describe(include="all"),
}


def made_of(subject: Any) -> dict[str, Any]:
    """What each public method makes that takes no argument."""
    made = {"": subject}
    for name in {*dir(subject)} - LEFT_OUT:
        if name.startswith("_") or name in subject or not callable(method := getattr(subject, name, None)):
            continue
        try:
            made[name] = method()
        except (
            AssertionError,
            AttributeError,
            ImportError,
            KeyError,
            NotImplementedError,
            TypeError,
            ValueError,
        ):
            continue
    return made | {name: call(subject) for name, call in CALLS.items()}


@pytest.mark.threat(47)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_result_of_a_method_prints_a_control_character(subject: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = made_of(SUBJECTS[subject])
    tables = {name: one for name, one in made.items() if isinstance(one, pd.DataFrame | pd.Series)}
    assert len(tables) > 40 and "describe" in tables
    for name, one in tables.items():
        html = one._repr_html_() or "" if isinstance(one, pd.DataFrame) else ""  # type: ignore[operator]
        for text in (str(one), repr(one), one.to_string(), html):
            wrong = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
            assert not wrong, (name, text)


@pytest.mark.threat(47)
def test_the_values_are_unchanged_and_arrays_of_text_print_as_escapes() -> None:
    column = FRAME["from"]
    assert [*column.unique()] == [UGLY, "c"] and column.iloc[0] == UGLY and column.nunique() == 2
    assert [*column.values] == [*column.array] == [UGLY, UGLY, "c"]
    for values in (column.unique(), column.values, column.array):
        for text in (str(values), repr(values)):
            assert text.replace("\n", "").isprintable(), text
    assert [*FRAME["n"].unique()] == [*FRAME["n"].values] == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["requests", "proposals", "decisions", "participants", "verdicts", "chat", "df"]
)
def test_a_wide_frame_shows_five_named_columns_until_others_are_chosen(name: str, shared: Path) -> None:
    log = open_log(shared / "captures" / "3-proposals")
    frame = log.df if name == "df" else log.frame(name)
    head, *_, last = str(frame).splitlines()
    assert len(head.split()) == 5 and set(head.split()) <= set(frame.columns), head
    assert f"and {len(frame.columns) - 5} more columns" in last
    html = frame._repr_html_()
    assert "more columns" in html and all(f"<th>{column}</th>" in html for column in head.split())
    everything = frame.to_string()
    assert all(column in everything for column in frame.columns)
    chosen = frame[list(frame.columns[:9])]
    assert "more columns" not in str(chosen) and frame.columns[8] in chosen.to_string()
    assert "more columns" in str(frame.head(1)) and len(frame.columns) > 8
    assert "more columns" not in str(frame.T)


def test_a_tuple_of_texts_is_shown_as_its_texts_and_stays_a_tuple(shared: Path) -> None:
    log = open_log(shared / "captures" / "3-proposals")
    frame = log.df
    tuples = [*frame["to"]]
    assert {("fulfiller",), ()} <= set(tuples)
    for text in (str(frame), frame.to_string(), str(frame["to"]), str(frame.iloc[1]), frame._repr_html_()):
        assert " fulfiller" in text or "<td>fulfiller</td>" in text
        assert "(fulfiller,)" not in text and " ()" not in text and ">()<" not in text, text
    assert "<td></td>" in (frame._repr_html_() or "")
    assert [*frame["to"]] == tuples


@pytest.mark.parametrize(
    ("several", "shown"),
    [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("",), "''"), (("a, b",), "'a, b'"), ((1, 2), "(1, 2)")],
)
@pytest.mark.parametrize("rows", [1, 500])
def test_each_of_the_first_and_the_last_rows_of_a_table_is_shown_so(
    several: tuple[Any, ...], shown: str, rows: int
) -> None:
    frame = ShownFrame({"n": range(rows), "to": pd.Series([several] * rows, dtype=object)})
    lines = [line for line in str(frame).splitlines()[1:] if line[:1].isdigit()]
    assert {line.split(maxsplit=2)[2:] == ([shown] if shown else []) for line in lines} == {True}
    column = [line for line in str(frame["to"]).splitlines() if line[:1].isdigit()]
    assert {line.split(maxsplit=1)[1:] == ([shown] if shown else []) for line in column} == {True}
    assert [*frame["to"]] == [several] * rows
