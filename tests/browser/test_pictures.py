"""The pictures of the README can be made from what is here: see make_pictures.py, which keeps them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from make_pictures import BUSY, KEPT, LESSON, film_lesson, take_card, take_timeline
from real_lab import Notebook


def approves(picture: bytes) -> bool:
    """Whether the first frame has a button *Approve* that is armed, by the points of its colour."""
    length = int.from_bytes(picture[(at := picture.index(b"IDAT")) - 4 : at])
    return zlib.decompress(picture[at + 4 :][:length]).count(b"\x00\x66\x4b") > 500


def test_the_moving_picture_begins_with_the_card() -> None:
    """Mail, print and a reader without motion show the first frame alone."""
    assert approves((KEPT / "first-approval.png").read_bytes())


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
        take_card(book)
        card = book.area(2).locator("li.mew-card:not([hidden])", has_text="secrets/reports.md").first
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
    assert approves(data)
    # The edited call was made, not the proposed one.
    assert "5 litres on the north bed" in book.area(7).inner_text()
    assert "50 litres" not in book.area(7).inner_text()
