"""What a person does after a decision: the notebook goes on by its own keys, wherever the card stood."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import ADDING, PROPOSE, armed

SERVER = Path(__file__).parents[1] / "bridge" / "full_server.py"
WAIT, NEXT, LAST = "print('the sum is', await p)", "print('went on')", "print('and on')"
MORE = f'{PROPOSE}\nq = bot.call("notebook/add", {{"a": 5, "b": 6}})'
HOSTS = {"approvals": ("lab.view.approvals", 1), "panel": ("%mew panel", 1), "waiting cell": ("None", 3)}


def walk(book: Notebook, cells: int) -> None:
    """Runs the first cells as a person does, by Shift+Enter; the last of them may wait."""
    book.click(book.tab.locator(".jp-Cell .cm-content").first)
    for n in range(cells):
        book.page.until(lambda n=n: active(book) == n, f"cell {n} to be the active one")  # type: ignore[misc]
        book.tab.keyboard.press("Shift+Enter")
        book.page.until(
            lambda n=n: book.count(n) is not None or book.running(n),  # type: ignore[misc]
            f"cell {n} to begin",
        )
        if n < cells - 1:
            book.wait(n)


def active(book: Notebook) -> int:
    return int(book.tab.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex"))


def armed_card(book: Notebook, cell: int) -> Locator:
    """The first open card in the output of that cell, once it can be approved."""
    card = book.area(cell).locator("li.mew-card:not(.mew-past):not([hidden]):not(.mew-brief)").first
    button = card.locator("button.mew-approve")
    button.wait_for()
    armed(book.page, button)
    return card


def approve(book: Notebook, cell: int, by: str) -> None:
    card = armed_card(book, cell)
    if by == "click":
        book.click(card.locator("button.mew-approve"))
    else:
        book.click(card.locator(".mew-says"))
        book.page.until(lambda: card.evaluate("card => card === document.activeElement"), "the focus")
        armed_card(book, cell)
        book.tab.keyboard.press("a")


@pytest.mark.sampled
@pytest.mark.parametrize("by", ["click", "key"])
@pytest.mark.parametrize("host", HOSTS)
def test_after_an_approval_shift_enter_runs_the_next_cell(
    notebook: Callable[..., Notebook], host: str, by: str
) -> None:
    view, place = HOSTS[host]
    book = notebook([ADDING, view, PROPOSE, WAIT, NEXT, LAST])
    walk(book, 4)
    approve(book, place, by)
    book.wait(3)
    waited = book.count(3)
    for cell, said in ((4, "went on"), (5, "and on")):
        book.tab.keyboard.press("Shift+Enter")
        book.wait(cell)
        assert said in book.text(cell)
    assert book.count(3) == waited, "no cell has run twice"
    assert "the sum is 3" in book.text(3)
    assert book.page.errors == []


@pytest.mark.parametrize("by", ["click", "key"])
@pytest.mark.sampled(2)
def test_with_more_cards_open_the_keys_of_the_notebook_act_on_it_and_decide_nothing(
    notebook: Callable[..., Notebook], by: str
) -> None:
    book = notebook([ADDING, "lab.view.approvals", MORE, WAIT, NEXT, LAST, "print(q.state)"])
    walk(book, 4)
    approve(book, 1, by)
    book.wait(3)
    card = armed_card(book, 1)
    book.page.until(lambda: card.evaluate("card => card === document.activeElement"), "the next card's focus")
    # Even with the armed button under the finger.
    card.locator("button.mew-approve").focus()
    book.tab.keyboard.press("Control+Enter")
    book.wait(4)
    assert active(book) == 4
    card.locator("button.mew-approve").focus()
    book.tab.keyboard.press("Shift+Enter")
    book.page.until(lambda: active(book) == 5, "the next cell to be the active one")
    # What is typed into a field of a card is its own.
    book.click(card.locator("button.mew-edit"))
    field = card.locator(".mew-face-edit").locator("textarea, input").first
    field.wait_for()
    field.focus()
    book.tab.keyboard.press("Shift+Enter")
    assert book.run(6).text(6).strip() == "open"
    assert book.count(5) is None
    assert book.page.errors == []


@pytest.mark.slow
def test_after_a_rejection_shift_enter_runs_the_next_cell(
    notebook: Callable[..., Notebook],
) -> None:
    refused = "try: print(await p)\nexcept Exception as error: print(type(error).__name__)"
    book = notebook([ADDING, "None", PROPOSE, refused, NEXT])
    walk(book, 4)
    card = armed_card(book, 3)
    book.click(card.locator(".mew-says"))
    armed_card(book, 3)
    book.tab.keyboard.press("r")
    book.tab.keyboard.type("not now")
    book.tab.keyboard.press("Enter")
    book.wait(3)
    assert "ProposalRejected" in book.text(3)
    book.tab.keyboard.press("Shift+Enter")
    book.wait(4)
    assert "went on" in book.text(4)


@pytest.mark.slow
def test_after_the_last_answer_to_a_server_shift_enter_runs_the_next_cell(
    notebook: Callable[..., Notebook],
) -> None:
    setup = f"""%load_ext mew_lab
import sys
import mew_lab
lab = mew_lab.up(journal=None)
lab.bridge("shop", [sys.executable, {str(SERVER)!r}, "modern"])
"""
    book = notebook([setup, "print(await lab.call('shop/order', what='pears'))", NEXT])
    walk(book, 2)
    asked = book.area(1).locator("li.mew-question")
    asked.wait_for()
    asked.evaluate("card => card.scrollIntoView({ block: 'center' })")
    asked.locator(".mew-field", has_text="size").locator("input, textarea").first.fill("2")
    button = asked.locator("button.mew-accept")
    book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the answer to arm")
    book.click(button)
    book.wait(1)
    assert "accept 2" in book.text(1)
    book.tab.keyboard.press("Shift+Enter")
    book.wait(2)
    assert "went on" in book.text(2)


@pytest.mark.parametrize("way", ["click", "Tab"])
@pytest.mark.sampled(2)
def test_a_card_shows_its_keys_while_they_act_on_it_and_else_how_to_get_them(
    notebook: Callable[..., Notebook], way: str
) -> None:
    book = notebook([ADDING, "None", PROPOSE, WAIT, NEXT])
    walk(book, 4)
    card = armed_card(book, 3)
    caps = card.locator("kbd")
    hint = book.area(3).get_by_text("Click or Tab here for keys")
    hint.wait_for()
    assert [cap.is_visible() for cap in caps.all()] == [False, False], "here A would insert a cell"
    if way == "click":
        book.click(hint)
    else:  # as from the cell that waits, which is above its card
        book.tab.keyboard.press("ArrowUp")
        book.page.until(lambda: active(book) == 3, "the waiting cell to be the active one")
        for _ in range(10):
            book.tab.keyboard.press("Tab")
            if card.evaluate("card => card === document.activeElement"):
                break
    assert card.evaluate("card => card === document.activeElement")
    assert [cap.is_visible() for cap in caps.all()] == [True, True] and not hint.is_visible()
    assert [cap.get_attribute("data-key") for cap in caps.all()] == ["R", "A"]
    cells = book.tab.evaluate("() => jupyterapp.shell.currentWidget.content.widgets.length")
    armed_card(book, 3)
    book.tab.keyboard.press("a")
    book.wait(3)
    assert "the sum is 3" in book.text(3)
    assert book.tab.evaluate("() => jupyterapp.shell.currentWidget.content.widgets.length") == cells
