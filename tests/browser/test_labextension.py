"""What the extension of JupyterLab adds: a notification whose button leads to what waits, and a count in the status bar."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from lab_server import ROOT
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, PROPOSE, armed

from mew_lab.version import VERSION

MORE = 'q = bot.call("notebook/add", {"a": 5, "b": 6})'
FAR = ["#md " + "\n\n".join(f"Line {n}" for n in range(80))]


def notification(book: Notebook) -> Locator:
    return book.tab.locator(".Toastify__toast", has_text="wait")


def item(book: Notebook) -> Locator:
    return book.tab.locator("#jp-main-statusbar .mew-status-item")


def put_behind(book: Notebook) -> None:
    """Opens a tab in front of the notebook."""
    book.page.until(lambda: not notification(book).count(), "the notification of before to be gone")
    book.tab.evaluate("() => { jupyterapp.commands.execute('launcher:create'); return null; }")
    book.page.until(lambda: not book.tab.locator(".jp-Notebook").is_visible(), "another tab in front")


def test_the_description_of_the_extension_fits_the_package() -> None:
    described = json.loads((ROOT / "mew_lab/labextension/package.json").read_text())
    assert described["version"] == VERSION
    script = ROOT / "mew_lab/labextension" / described["jupyterlab"]["_build"]["load"]
    assert len(script.read_text().splitlines()) <= 100


@pytest.mark.slow
def test_a_notification_leads_to_the_card_from_another_tab_and_the_status_bar_counts(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([ADDING, "lab.view.approvals", *FAR, "print('end')"]).run(0).run(1)
    item_of_bar = item(book)
    assert not item_of_bar.is_visible()
    kernel = book.tab.evaluate("() => jupyterapp.shell.currentWidget.id")
    book.execute(PROPOSE)
    book.execute(MORE)
    book.page.until(lambda: item_of_bar.inner_text() == "2 need you", "the count")
    assert not notification(book).count(), "its cards are in sight"
    approve = book.area(1).locator("button.mew-approve").first
    book.click(armed(book.page, approve))
    book.page.until(lambda: item_of_bar.inner_text() == "1 needs you", "the count")
    put_behind(book)
    book.tab.evaluate(
        """async ([id, code]) => { for (const w of jupyterapp.shell.widgets('main')) if (w.id === id)
             await w.sessionContext.session.kernel.requestExecute({ code }).done; return null; }""",
        [kernel, MORE],
    )
    toast = notification(book)
    # One that called for the first request alone may still be on its way out.
    book.page.until(
        lambda: ["2 requests in " in text for text in toast.all_inner_texts()] == [True], "the notification"
    )
    assert "add" not in toast.inner_text()
    assert not book.tab.locator(".mew-attention-line").count(), "one call, not two"
    book.click(toast.get_by_role("button", name="Show"))
    book.page.until(lambda: book.tab.locator(".jp-Notebook").is_visible(), "the notebook in front")
    card = book.area(1).locator("li.mew-card:not(.mew-past):not([hidden])").first
    book.page.until(lambda: card.evaluate("card => card === document.activeElement"), "the focus on the card")
    book.page.until(lambda: not toast.count(), "the notification to go")
    book.execute("for one in list(lab.proposals()): lab.reject(one)")
    book.page.until(lambda: not item_of_bar.is_visible(), "the count to go")
    assert book.page.errors == []


@pytest.mark.slow
def test_the_item_of_the_status_bar_leads_to_a_card_that_was_scrolled_away(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([ADDING + PROPOSE, "lab.view.approvals", *FAR, "print('end')"]).run(0).run(1)
    item_of_bar = item(book)
    book.page.until(lambda: item_of_bar.is_visible(), "the count")
    book.in_cell("cell.node.scrollIntoView(); return null;", 3)
    book.run(3)
    book.click(item_of_bar)
    card = book.area(1).locator("li.mew-card:not(.mew-past):not([hidden])").first
    book.page.until(lambda: card.evaluate("card => card === document.activeElement"), "the focus on the card")
    box = card.bounding_box()
    assert box is not None and 0 < box["y"] < 900


def test_a_cell_that_waits_calls_from_behind_another_tab(notebook: Callable[..., Notebook]) -> None:
    book = notebook([ADDING + PROPOSE, "print('the sum is', await p)"]).run(0)
    book.run(1, wait=False)
    put_behind(book)
    toast = notification(book)
    book.page.until(lambda: toast.count() == 1, "the notification")
    book.page.until(lambda: book.tab.title().startswith("(1)"), "the mark of the title")
    book.click(toast.get_by_role("button", name="Show"))
    book.page.until(lambda: book.tab.locator(".jp-Notebook").is_visible(), "the notebook in front")
    book.click(armed(book.page, book.area(1).locator("button.mew-approve")))
    book.wait(1)
    assert "the sum is 3" in book.text(1)
    book.page.until(lambda: not book.tab.title().startswith("("), "the title without a mark")
    book.page.until(lambda: not toast.count(), "the notification to go")
