from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mew_lab.notebook.widgets.pictures import clock_time, picture


@pytest.mark.threat(3)
def test_every_text_is_escaped() -> None:
    hostile = "\"'><b>&amp;\u202e"
    html = picture(hostile, [hostile], [[hostile]], notes=[hostile], code=[hostile])
    assert html.count("&quot;&#x27;&gt;&lt;b&gt;&amp;amp;\\u202e") == 4


def test_lines_of_a_cell_are_lines_and_no_other_control_is() -> None:
    assert "one<br>two\\u000d" in picture("t", ["c"], [["one\ntwo\r"]]).replace("\\r", "\\u000d")


def test_at_most_200_rows_are_shown_and_the_rest_is_counted() -> None:
    html = picture("t", ["c"], [[f"row {n}."] for n in range(1, 204)])
    assert "row 4." in html and "row 3." not in html
    assert "3 earlier rows are not shown." in html


def test_without_rows_there_is_no_table() -> None:
    assert "<table" not in picture("t", ["c"], [], notes=["Nothing yet."])


def test_a_time_says_its_zone() -> None:
    assert clock_time(0) == "00:00:00 UTC"
    cest = timezone(timedelta(hours=2))
    assert clock_time(datetime(2026, 7, 1, 16, 3, 22, tzinfo=cest)) == "14:03:22 UTC"
    assert clock_time(datetime(2026, 7, 1, 16, 3, 22, tzinfo=UTC)) == "16:03:22 UTC"
