"""The checks of views can fail: text that became markup is found, and so is a view that cannot be used."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible, focus_path
from corpus import PAYLOADS, harmless, listen
from playwright.sync_api import Locator
from real_lab import Notebook

SAFE = (
    "<section class=mew aria-label=View><p aria-live=polite>text</p><button type=button>Go</button></section>"
)


def shown(book: Notebook, markup: str) -> Locator:
    """The markup in the page, as a careless view would put it there."""
    book.tab.evaluate(
        "markup => { document.querySelector('#shown')?.remove(); const box = document.createElement('div'); box.id = 'shown';"
        " box.innerHTML = markup; document.querySelector('.jp-Notebook .jp-Cell').append(box); }",
        markup,
    )
    return book.tab.locator("#shown")


def test_there_are_at_least_200_payloads_and_each_is_another() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 200


def test_what_became_markup_is_found(plain: Callable[..., Notebook]) -> None:
    book = plain(["1"])
    asked = listen(book)
    allowed = {"section", "p", "button"}
    harmless(book, shown(book, SAFE), allowed=allowed, asked=asked)
    for markup in ("<b>x</b>", "<p onclick=alert(1)>x</p>", "<p data='data:text/html,x'>x</p>"):
        with pytest.raises(AssertionError):
            harmless(book, shown(book, markup), allowed=allowed, asked=asked)
    shown(book, "<img src=x onerror=window.mewTaken=1>")
    book.page.until(
        lambda: book.tab.evaluate("window.mewTaken === 1"), "the script of a careless view to run"
    )
    with pytest.raises(AssertionError):
        harmless(book, shown(book, SAFE), allowed=allowed, asked=asked)
    book.tab.evaluate("() => { delete window.mewTaken; }")
    shown(book, "<img src='http://127.0.0.1:9/pixel.png'>")
    book.page.until(lambda: bool(asked and "127.0.0.1:9/" in asked[-1]), "the picture to be asked for")
    with pytest.raises(AssertionError):
        harmless(book, shown(book, SAFE), allowed=allowed, asked=asked)


@pytest.mark.slow
def test_what_cannot_be_used_is_found(plain: Callable[..., Notebook]) -> None:
    book = plain(["1"])
    accessible(book, shown(book, SAFE))
    assert focus_path(book, shown(book, SAFE)) == ["button Go"]
    for markup, why in (
        (SAFE.replace("Go", ""), "without a name"),
        (SAFE.replace("type=button", "type=button tabindex=3"), "jumps the order"),
        (SAFE.replace("aria-live=polite", ""), "nothing is announced"),
        (SAFE.replace("<p ", "<p style='color:#bbb;background:#fff' "), "1.9"),
        (SAFE.replace("type=button", "type=button style=margin-left:500px"), "outside at 360 px"),
        (SAFE.replace("<p ", "<table><tr><td>x</td></tr></table><p "), "without headings"),
    ):
        with pytest.raises(AssertionError, match=why):
            accessible(book, shown(book, markup))
    # Fourteen changes of theme, each of which was over before the next.
