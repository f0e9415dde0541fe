"""A person answers what a bridged MCP server asks, in the approvals of a real notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed, read_through

SERVER = Path(__file__).parents[1] / "bridge" / "full_server.py"
SETUP = f"""%load_ext mew_lab
import sys
import mew_lab
from mew_lab.agent.models import ScriptedModel
lab = mew_lab.up(journal=None)
shop = lab.bridge("shop", [sys.executable, {str(SERVER)!r}, "modern"], sampling=ScriptedModel([{{"say": "A short text."}}]))
"""
WORDS = "word " * 30 + "\n" + "line\n" * 90


def question(book: Notebook) -> Locator:
    found = book.area(1).locator("li.mew-question")
    found.wait_for()
    return found


def press(book: Notebook, card: Locator, button: str) -> None:
    pressed = card.locator(f"button.{button}")
    armed(book.page, pressed)
    book.click(pressed)


@pytest.mark.slow
def test_a_form_an_address_and_a_prompt_are_answered_in_the_approvals(
    notebook: Callable[..., Notebook],
) -> None:
    order = "p = lab.call('shop/order', what='<b>pears</b>')"
    sign_in, prompt = "q = lab.call('shop/sign_in')", f"r = lab.call('shop/summarise', text={WORDS!r})"
    results = [f"print({name}.result(10))" for name in "pqr"]
    book = notebook([SETUP, "lab.view.approvals", order, results[0], sign_in, results[1], prompt, results[2]])
    for index in (0, 1, 2):
        book.run(index)

    card = question(book)
    text = card.inner_text()
    assert "The server shop asks you" in text and "How many <b>pears</b>?" in text
    assert "goes to the server shop, and every participant of the space sees it" in text
    assert "your call: order(" in text
    field = card.locator(".mew-field", has_text="size").locator("input, textarea").first
    field.fill("30")
    press(book, card, "mew-accept")
    notice = card.locator(".mew-notice")
    book.page.until(lambda: "nothing was sent, because size must be" in notice.inner_text(), "the fault")
    field.fill("3")
    press(book, card, "mew-accept")
    book.page.until(lambda: book.area(1).locator("li.mew-question button").count() == 0, "the end")
    assert "accept 3" in book.run(3).area(3).inner_text()

    book.tab.mouse.move(0, 0)
    book.tab.evaluate("() => { document.activeElement?.blur(); return null; }")
    book.run(4)
    card = book.area(1).locator("li.mew-question", has_text="open an address")
    card.wait_for()
    assert card.locator(".mew-asked-host").inner_text() == "login.example.org"
    assert card.locator(".mew-asked-url").inner_text() == "https://login.example.org/start?id=7"
    assert card.locator("a").count() == 0
    press(book, card, "mew-decline")
    assert "decline" in book.run(5).area(5).inner_text()

    book.tab.mouse.move(0, 0)
    book.tab.evaluate("() => { document.activeElement?.blur(); return null; }")
    book.run(6)
    card = book.area(1).locator("li.mew-question", has_text="reply of the model")
    card.wait_for()
    accept = card.locator("button.mew-accept")
    assert accept.get_attribute("aria-disabled") == "true", "its prompt is longer than the page"
    texts = card.locator(".mew-asked-text")
    assert texts.filter(has_text="line").last.inner_text().count("line") == 90

    read_through(card, book.page.pause)
    press(book, card, "mew-accept")
    assert "A short text." in book.run(7).area(7).inner_text()
    assert book.page.errors == []
