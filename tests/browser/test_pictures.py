"""The pictures of the README can be made from what is here: see make_pictures.py, which keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from make_pictures import BUSY, LESSON, film_lesson, take_card, take_panel, take_timeline
from real_lab import Notebook


@pytest.mark.slow
def test_the_pictures_of_the_readme_show_a_busy_space(notebook: Callable[..., Notebook]) -> None:
    book = notebook(BUSY)
    usual = book.tab.viewport_size
    assert usual is not None
    book.tab.set_viewport_size({"width": 1800, "height": 1200})
    try:
        for n in (0, 1):
            book.run(n)
            assert "Error" not in book.text(n), book.text(n)
        assert book.text(1).split() == ["7", "8"]
        take_panel(book)
        panel = book.area(2).locator("section.mew-panel")
        # The one that would do harm comes first, with its warnings.
        first = panel.locator("section.mew-approvals li.mew-card:not([hidden], .mew-past)").first
        assert "rm -rf" in first.inner_text() and first.locator(".mew-warning").count() >= 2
        take_card(book)
        card = book.area(3).locator("li.mew-card:not([hidden])", has_text="secrets/reports.md").first
        # What differs from the last similar call, and what looks dangerous.
        assert "last time" in card.inner_text() and card.locator(".mew-warning").count()
        take_timeline(book)
    finally:
        book.tab.set_viewport_size(usual)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_moving_picture_is_the_lesson_itself(open_notebook: Callable[[Path], Notebook]) -> None:
    book = open_notebook(LESSON)
    data = film_lesson(book)
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) < 3_000_000
    # The edited call was made, not the proposed one.
    assert "5 litres on the north bed" in book.area(7).inner_text()
    assert "50 litres" not in book.area(7).inner_text()
