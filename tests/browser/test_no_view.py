"""A page that shows no view calls the person to what waits, too; a view of the same kernel then does it alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from real_lab import Notebook
from scenes import ADDING, PROPOSE

MORE = 'q = bot.call("notebook/add", {"a": 5, "b": 6})'


@pytest.mark.slow
def test_what_waits_calls_though_the_page_shows_no_view(notebook: Callable[..., Notebook]) -> None:
    book = notebook([ADDING, "print('working')", "lab.view.approvals"]).run(0)
    book.execute(PROPOSE)
    toast = book.tab.locator(".Toastify__toast", has_text="wait")
    item = book.tab.locator("#jp-main-statusbar .mew-status-item")
    book.page.until(lambda: item.is_visible() and item.inner_text() == "1 needs you", "the count")
    book.page.until(lambda: book.tab.title().startswith("(1)"), "the title")
    book.page.until(lambda: toast.count() == 1, "the notification")
    assert "1 request in demo waits for you." in toast.inner_text() and "add" not in toast.inner_text()
    book.click(toast.get_by_role("button", name="Show"))
    line = book.tab.locator(".mew-attention-line")
    book.page.until(lambda: line.count() == 1, "the line")
    assert "Run %mew approvals in a cell" in line.inner_text()
    book.click(line.get_by_role("button", name="Dismiss"))
    book.run(2)
    book.page.until(lambda: book.area(2).locator("li.mew-card").count() == 1, "the card")
    book.execute(MORE)
    book.page.until(
        lambda: item.inner_text() == "2 need you", "one count, of the view and the caller together"
    )
    book.execute("for one in list(lab.proposals()): lab.reject(one)")
    book.page.until(lambda: not item.is_visible(), "the count to go")
    assert book.page.errors == []
