"""The lesson about agents, the saved notebook, in a real browser: one question, two cards, two clicks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from real_lab import Notebook
from scenes import look_at

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "02-agents.ipynb"
CELLS = nbformat.read(LESSON, 4).cells


def number(beginning: str) -> int:
    """The place of the one code cell that begins so."""
    (found,) = [
        n for n, cell in enumerate(CELLS) if cell.cell_type == "code" and cell.source.startswith(beginning)
    ]
    return found


@pytest.mark.slow
@pytest.mark.req("P-9.1-1")
def test_an_agent_answers_after_two_clicks(open_notebook: Callable[[Path], Notebook]) -> None:
    book = open_notebook(LESSON)
    book.tab.evaluate("async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    code = [n for n, cell in enumerate(CELLS) if cell.cell_type == "code"]
    waiting = number("print(await p)")
    for n in code[: code.index(waiting)]:
        assert "Error" not in book.run(n).text(n), book.text(n)
    book.run(waiting, wait=False)
    for tool in ("git_log", "convert_time"):
        card = book.area(waiting).locator(".mew-card:not(.mew-past)").filter(has_text=tool)  # where one looks
        button = card.locator("button.mew-approve")
        look_at(button)
        book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the button to arm")  # noqa: B023
        assert book.running(waiting)
        book.click(button)
    book.wait(waiting)
    assert "Water the beans" in book.text(waiting) and "17:00" in book.text(waiting)
    for n in code[code.index(waiting) + 1 :]:
        said = book.run(n).text(n)
        assert "Traceback" not in said and "Error: " not in said.replace("Error: Proposal rejected", ""), said
    assert book.text(code[-1]).startswith("demo is down")
    assert book.page.errors == [] and book.page.dialogs == []
