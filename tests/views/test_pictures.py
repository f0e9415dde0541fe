from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter

from mew_lab.views.ui.pictures import clock_time, picture, snapshot


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
    assert "Not shown: 3 earlier rows." in html


def test_without_rows_there_is_no_table() -> None:
    assert "<table" not in picture("t", ["c"], [], notes=["Nothing yet."])


def test_only_long_words_may_be_broken_so_that_short_ones_keep_their_column() -> None:
    def row(text: str) -> str:
        return picture("t", ["c"], [[text]], code=["c"]).partition("<tbody>")[2]

    assert "overflow-wrap" not in row("system:gateway and words, many of them, one after the other")
    assert "overflow-wrap:anywhere" in row("a " + "x" * 200)
    assert "word-break" not in row("a " + "x" * 200)


def test_a_time_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEW_LAB_SEED", raising=False)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert clock_time(0) == "05:30:00"
        drawn = snapshot("<b>x</b>", datetime(2026, 7, 1, 12, 0, tzinfo=UTC), ended=True)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (
        "Snapshot of 2026-07-01 17:45 · run the notebook from the top for the live view · the space has stopped<"
        in drawn
    )
    assert drawn.endswith("<b>x</b></div>")


def test_a_time_says_its_zone_where_runs_must_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEW_LAB_SEED", "1")
    assert clock_time(0) == "00:00:00 UTC"
    assert "Snapshot of 2026-07-01 12:00 UTC · run" in snapshot("", datetime(2026, 7, 1, 12, 0, tzinfo=UTC))
    cest = timezone(timedelta(hours=2))
    assert clock_time(datetime(2026, 7, 1, 16, 3, 22, tzinfo=cest)) == "14:03:22 UTC"
    assert clock_time(datetime(2026, 7, 1, 16, 3, 22, tzinfo=UTC)) == "16:03:22 UTC"


ROOT = Path(__file__).parents[2]
CELL = f"""
import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "browser")!r}]
from seat import Rows_, Seat
from mew_lab.views.approvals.widget import ApprovalsView
from mew_lab.views.feed.widget import FeedView
log, seat = Rows_(), Seat()
log.add(what="a row that was there"); seat.propose("git_commit")
view = ApprovalsView(seat)
display(FeedView(log), view)
open("nonce", "w").write(view._nonce)
None
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def executed(folder: Path) -> nbformat.NotebookNode:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    where = {"metadata": {"path": str(folder)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEW_LAB_RENDER", "html")
        NotebookClient(book, timeout=50, kernel_name="python3", resources=where).execute()
    return book


@pytest.mark.trap("T-15")
@pytest.mark.parametrize("exporter", [HTMLExporter, MarkdownExporter])
def test_an_executed_notebook_is_exported_with_its_rows(
    executed: nbformat.NotebookNode, exporter: type[HTMLExporter]
) -> None:
    text, _ = exporter().from_notebook_node(executed)
    assert "a row that was there" in text
    assert re.search(r"wants to run .*git_commit", text)
    assert "object at 0x" not in text


@pytest.mark.trap("T-23")
def test_the_file_holds_nothing_that_could_decide(executed: nbformat.NotebookNode, folder: Path) -> None:
    nonce = (folder / "nonce").read_text()
    assert len(nonce) == 32
    assert nonce not in json.dumps(executed)
