"""The roster tells who is here and lets the human steer them; every click has its effect on the wire."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator
from real_lab import Notebook

SETUP = """
import json, threading, time, mew_lab
lab = mew_lab.up('demo', journal=None)
lab.enrol(lab.me.name, 'admin')
agent = lab.join('agent', can='agent')
helper = lab.join('helper')
view = lab.view.roster
"""
SHOW = "view"
SCENE = """
lab.join('weather-service', can='tool')
reader = lab.join('reader', can='observer')
git = lab.join('git', can='tool')
agent.send('participant/status', {'messages_in_context': 14, 'tokens': 7440, 'max_tokens': 8000, 'status': 'near_limit', 'latency_ms': 120})
helper.send('participant/status', {'messages_in_context': 3, 'tokens': 1210, 'max_tokens': 8000, 'status': 'active'})
git.send('participant/status', {'messages_in_context': 0, 'status': 'idle', 'latency_ms': 12})
lab.loop.submit(view._members.steering.do('pause', 'helper', {'timeout_seconds': 42, 'reason': 'the build is broken'})).result(5)
lab.leave('reader')
"""


def root(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-roster")


def row(book: Notebook, index: int, name: str) -> Locator:
    return root(book, index).locator(f"li.mew-row[data-id='{name}']")


def test_pictures_of_the_roster(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, SCENE, SHOW]).run(0).run(1).run(2)
    row(book, 2, "git").wait_for()
    book.page.until(
        lambda: row(book, 2, "reader").get_attribute("data-presence") == "left", "the reader to leave"
    )
    for path in book.page.shots("roster", book.area(2)):
        assert path.stat().st_size > 5000
    book.click(row(book, 2, "agent").locator("button.mew-may"))
    book.click(row(book, 2, "agent").locator("button.mew-menu-button"))
    book.click(root(book, 2).locator("button.mew-invite"))
    book.page.shots("roster-menu", book.area(2))
    root(book, 2).evaluate("r => { r.style.width = '360px'; }")
    book.click(row(book, 2, "helper").locator("button.mew-menu-button"))
    book.click(row(book, 2, "helper").locator("[data-deed=clear]"))
    book.page.shots("roster-360", book.area(2))
