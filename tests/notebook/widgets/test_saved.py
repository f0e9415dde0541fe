"""What somebody sees who was only given the file."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter, MarkdownExporter

ROOT = Path(__file__).parents[3]
CELL = f"""
import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "browser")!r}]
from seat import Rows_, Seat
from mew_lab.notebook.widgets.approvals import ApprovalsView
from mew_lab.notebook.widgets.feed import FeedView
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
    assert "asks git to run git_commit" in text
    assert "object at 0x" not in text


@pytest.mark.trap("T-23")
def test_the_file_holds_nothing_that_could_decide(executed: nbformat.NotebookNode, folder: Path) -> None:
    nonce = (folder / "nonce").read_text()
    assert len(nonce) == 32
    assert nonce not in json.dumps(executed)
