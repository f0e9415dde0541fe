"""Every lesson as a person plays it: one that clicks at once, one that takes 20 s for each card, one that never clicks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Error
from real_lab import Notebook

LESSONS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
PATIENCE = 8.0  # seconds that a cell waits for a person that never clicks, before it is interrupted
ENDED = ("KeyboardInterrupt", "CancelledError")
OPEN = "li.mew-card:not(.mew-past):not([hidden])"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Person:
    """Reads the cards that are open on the page, and decides about each `after` so many seconds; None: never.

    It rejects what has a warning, and approves the rest.
    """

    def __init__(self, book: Notebook, after: float | None) -> None:
        self.book, self.after = book, after
        self.since: float | None = None  # when the card that is next was seen first
        self.decided = 0

    def act(self) -> None:
        """One look at the page, and a press where it is time for one."""
        card = self.book.tab.locator(f"{OPEN}:visible").first
        if self.after is None or not card.count():
            self.since = None if not card.count() else self.since
            return
        self.since = self.since or time.monotonic()
        waited = time.monotonic() - self.since
        if waited < self.after:
            return
        try:
            # Into the card, out of a table of alike ones, and to what a fold or a scroller holds back.
            for way in ("mew-review-open", "mew-unfold", "mew-open", "mew-next"):
                further = card.locator(f"button.{way}:visible:not([aria-disabled=true])")
                if further.count():
                    self.book.click(further.first)
                    return
            way = "mew-reject" if card.locator(".mew-warning:visible").count() else "mew-approve"
            if card.locator("button.mew-reject-words:visible").count():
                way = "mew-reject-words"
            elif card.locator("button.mew-option").count():  # an agent asks: its only option that allows once
                way = "mew-option.mew-primary"
            button = card.locator(f"button.{way}:visible").first
            button.evaluate(
                "button => button.closest('li').scrollIntoView({ block: 'center' })", timeout=2000
            )
            button.scroll_into_view_if_needed(timeout=2000)  # a card may be taller than its place
            if button.get_attribute("aria-disabled", timeout=2000) != "true":
                self.book.click(button)
                if way != "mew-reject":  # that opens the place for the reason
                    self.decided, self.since = self.decided + 1, None
        except Error:  # it was decided, or has moved, meanwhile
            return


def play(book: Notebook, person: Person, cells: Iterable[int]) -> list[int]:
    """Runs the cells one after the other; the numbers of those that were interrupted."""
    interrupted = []
    leaves = person.after is None
    for n in cells:
        book.run(n, wait=False)
        began = time.monotonic()
        while book.running(n) or book.count(n) is None:
            if not leaves:
                person.act()
            book.page.pause(0.1)
            waited = time.monotonic() - began
            assert waited < 450, f"cell {n} never ended: {book.text(n)}"
            asks = book.tab.locator(OPEN).count() > 0  # else the cell is at work
            if leaves and asks and waited > PATIENCE and n not in interrupted:
                assert book.tab.title().startswith("("), f"cell {n} waits, and nobody is called"
                book.interrupt()
                interrupted.append(n)
    return interrupted


@pytest.mark.parametrize("after", [0.0, 20.0, None], ids=["at once", "after 20 s", "never"])
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_works_whenever_a_person_clicks(
    open_notebook: Callable[[Path], Notebook], lesson: Path, after: float | None
) -> None:
    book = open_notebook(lesson)
    book.tab.evaluate("async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    cells = enumerate(nbformat.read(lesson, 4).cells)
    code = {n: cell.source for n, cell in cells if cell.cell_type == "code"}
    person = Person(book, after)
    interrupted = play(book, person, code)
    failed = {
        n: [output["ename"] for output in book.outputs(n) if output["output_type"] == "error"] for n in code
    }
    print(f"\n{lesson.stem}: {person.decided} cards, interrupted {interrupted}")
    assert {n: names for n, names in failed.items() if names and n not in interrupted} == {}
    assert all(name in ENDED for n in interrupted for name in failed[n])
    assert after is None or not interrupted
    # The exercise in reading is decided to its last card; not each of the planted ones has a warning.
    exercise = next((n for n, source in code.items() if "training.plant(" in source), None)
    if exercise is not None and after is not None:
        score = book.text(exercise + 1)
        assert "caught" in score and "still open" not in score, score
    assert "is down" in book.text(max(code)) or "%mew up" not in lesson.read_text()
    assert book.page.errors == []
