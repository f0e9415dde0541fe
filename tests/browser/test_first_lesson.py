"""The first lesson itself, the saved notebook, in a real browser: from top to bottom, with one click in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from real_lab import Notebook
from scenes import armed

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "01-first-space.ipynb"
CELLS = nbformat.read(LESSON, 4).cells


def number(beginning: str) -> int:
    """The place of the one code cell that begins so."""
    (found,) = [
        n for n, cell in enumerate(CELLS) if cell.cell_type == "code" and cell.source.startswith(beginning)
    ]
    return found


@pytest.mark.slow
@pytest.mark.trap("T-1", "T-15", "T-18")
@pytest.mark.req("P-9.1-1")
def test_the_lesson_runs_from_top_to_bottom_with_one_click(open_notebook: Callable[[Path], Notebook]) -> None:
    book = open_notebook(LESSON)
    pictures = [book.area(n).locator("table").last for n in (number("%mew feed"), number("%mew history"))]
    assert "Wants to run water" in (pictures[0].text_content() or "")  # as saved: nothing was run yet
    assert "water" in (pictures[1].text_content() or "")
    card = book.area(number("p = bot.call")).locator(".mew-stored")
    assert "bot wants to run water" in card.inner_text() and "Snapshot of" in card.inner_text()
    book.tab.evaluate("async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    code = [n for n, cell in enumerate(CELLS) if cell.cell_type == "code"]
    waiting, feed = number("p = bot.call"), number("%mew feed")
    # All cells are run at once: the one that waits shows the card, and says that it waits.
    book.tab.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); return null; }")
    button = book.area(waiting).locator("button.mew-approve")
    book.page.until(lambda: button.count() == 1, "the card")
    assert "This cell waits for you" in book.text(waiting)
    assert book.area(waiting).locator(".mew-warning").count() == 0
    armed(book.page, button)
    assert book.running(waiting)
    before = time.monotonic()
    book.click(button)
    book.wait(waiting)
    print(f"\nclick to result in the lesson: {time.monotonic() - before:.2f} s (mark 1 s)")
    assert "50 litres on the north bed" in book.text(waiting)
    table = book.area(feed).locator("section.mew-feed")
    book.wait(code[-1])
    for n in code:
        assert "Error" not in book.text(n), book.text(n)
    assert book.text(code[-1]).startswith("demo is down: 17 messages")
    book.page.until(lambda: table.get_attribute("data-rows") == "21", "that all four have left")
    assert book.page.errors == [] and book.page.dialogs == []
