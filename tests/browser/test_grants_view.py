"""The grants editor says what a grant would change before it is given; every click has its effect on the wire."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator
from real_lab import Notebook

SETUP = """
import json, threading, time, mew_lab
from mew_lab.errors import MewError
lab = mew_lab.up('demo', journal=None)
agent = lab.join('agent', can='agent')
helper = lab.join('helper')
git = lab.join('git', can='tool')
view = lab.view.grants
"""
SHOW = "view"
SCENE = """
lab.join('weather-service', can='tool'); lab.join('reader', can='observer')
agent.chat('The tests have passed, shall I commit?')
agent.propose('git/git_log', {'repo_path': '.'})
agent.propose('git/git_commit', {'repo_path': '.', 'message': 'Fix typo in README'})
from mew_lab.protocol.envelope import compact
def refused():
    client = agent.participant.client
    client.post({'kind': 'mcp/request', 'to': ['git'], 'payload': {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'git_log', 'arguments': {'repo_path': '..'}}}})
lab.loop.call(refused)
grant = lambda to, p, **kw: lab.loop.submit(lab.granting.grant(to, [p], **kw)).result(5)
grant('helper', {'kind': 'mcp/request', 'payload': {'method': 'tools/call', 'params': {'name': 'git_status'}}}, minutes=10)
"""


def root(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-grants")


def test_pictures_of_the_grants(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SETUP, SCENE, SHOW]).run(0).run(1).run(2)
    view = root(book, 2)
    view.locator("tr[data-origin=granted]").wait_for()
    for path in book.page.shots("grants", book.area(2)):
        assert path.stat().st_size > 5000
    book.click(view.locator("button.mew-new"))
    view.locator("select[aria-label='who gets it']").select_option("agent")
    view.locator("select[aria-label='MCP method']").select_option("tools/call")
    view.locator("input[aria-label=tool]").fill("git_*")
    view.locator("code", has_text="smallest").or_(view.locator(".mew-answer code")).first.wait_for()
    book.click(view.locator("button.mew-may").first)
    book.page.shots("grants-form", book.area(2))
    view.evaluate("r => { r.style.width = '360px'; }")
    book.page.shots("grants-360", book.area(2))
