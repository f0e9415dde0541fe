"""The columns of the feed as data."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.rows import Row
from mew_lab.log.diagnose.findings import LogFinding
from mew_lab.views.feed.calls import CallState
from mew_lab.views.feed.columns import COLUMNS, DEFAULT, HOVERS, VALUES, FeedColumn, RowFacts, select_columns
from mew_lab.views.ui.pictures import clock_time


def test_columns_are_chosen_by_name_in_any_order() -> None:
    assert [one.name for one in select_columns(["what", "seq"])] == ["what", "seq"]
    assert select_columns(DEFAULT) == tuple(COLUMNS[name] for name in DEFAULT)


def test_a_column_of_ones_own_has_another_width() -> None:
    [one] = select_columns([COLUMNS["what"]._replace(width=300, title="said")])
    assert (one.name, one.width, one.title) == ("what", 300, "said")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (["sender"], "no column 'sender'; there are seq, time, elapsed, route,"),
        ("seq", "columns is a list of names"),
        ([], "at least one column"),
        (["seq", "seq"], "each of them once"),
        ([None], "no column None"),
        ([FeedColumn("price", "price", 10)], "no column 'price'"),
        ([COLUMNS["what"]._replace(hover="price")], "A tooltip cannot show 'price'"),
    ],
)
def test_what_is_no_column_is_named_with_those_that_there_are(wanted: Any, reason: str) -> None:
    with pytest.raises(MewError) as refused:
        select_columns(wanted)
    assert reason in str(refused.value)


def test_the_names_of_the_table_are_those_of_the_values() -> None:
    assert set(VALUES) == set(COLUMNS) - {"follows"}
    assert {one.hover for one in COLUMNS.values()} <= {"", *HOVERS}


def test_a_value_is_what_the_row_says() -> None:
    row = Row(
        3, 1764000000.0, "bot", ("git", "files"), "chat", "“hi”", "c/1", 2, "refused", "paused", "m3", 120
    )
    finding = LogFinding("warn", "id-reuse", "C-15", "The id is taken.", 3, 3, None, "m3")
    facts = RowFacts(lambda _: CallState("answered", 0.044), lambda _: (finding,))
    shown = {name: value(row, facts) for name, value in VALUES.items()}
    assert shown == {
        "seq": "#3",
        "time": clock_time(1764000000.0),
        "elapsed": clock_time(1764000000.0),
        "route": "bot → git, files",
        "took": "44 ms",
        "finding": "warn: The id is taken.",
        "from": "bot",
        "to": "git, files",
        "kind": "chat",
        "what": "Denied (paused): “hi” ⇠#2",
        "context": "c/1",
        "verdict": "✗ paused",
        "size": "120",
    }
