"""What waits out of sight calls for the person, once: the title of the page, a line in it, the desktop on request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from bare import Bare
from plain import ADDRESS, Plain
from scenes import ADDING, PROPOSE
from seat import Seat

from mew_lab.views.approvals.widget import ApprovalsView

# Who takes the calls of a page in its place, as the extension of JupyterLab does.
TAKE = """() => { window.taken = [];
  document.addEventListener("mew-attention", (event) => {
    window.taken.push([event.detail.waiting, event.detail.text]);
    if (event.detail.text) event.preventDefault();
  }); }"""
RECORD = """() => { const Shown = window.Notification; window.told = []; document.hasFocus = () => window.front ?? false;
  window.Notification = class extends Shown { constructor(title, more) { super(title, more); told.push([title, more.body]); } }; }"""


class Scene:
    """One seat, whose view stands below the edge of the window unless `above`."""

    def __init__(self, bare: Callable[..., Bare], *, above: bool = False, **how: Any) -> None:
        self.seat = Seat()
        self.page = bare(ApprovalsView(self.seat, me="human", space="garden"), height=400, **how)  # type: ignore[arg-type]
        self.tab = self.page.tab
        self.call = self.tab.locator(".mew-attention-line")
        if not above:
            self.tab.evaluate("document.getElementById('out').style.marginTop = '2000px'")

    def decide(self) -> None:
        for card in self.seat.pending():
            self.seat.put(replace(card, state="done", by="human", decided_at=time.time(), outcome="ok"))

    def wait_title(self, start: str) -> None:
        self.page.until(lambda: self.tab.title().startswith(start), f"the title {start}")

    def rest(self) -> None:
        """Lets pass the time after which a call comes, if one does."""
        self.page.pause(2.5)  # nothing tells of a call that does not come; one comes after 1.5 s


@pytest.fixture
def scene(bare: Callable[..., Bare]) -> Callable[..., Scene]:
    return partial(Scene, bare)


@pytest.mark.slow
def test_a_card_out_of_sight_calls_once_and_its_line_leads_there_and_goes(
    scene: Callable[..., Scene],
) -> None:
    it = scene()
    it.seat.propose("git_log")
    it.seat.propose("git_diff")
    it.wait_title("(2)")
    it.page.until(lambda: it.call.count() == 1, "the line")
    assert "2 requests in garden wait for you." in it.call.inner_text()
    box = it.call.bounding_box()
    assert box and box["y"] > 300 and box["y"] + box["height"] < 400, (
        "in the window, whatever is scrolled away"
    )
    it.call.get_by_role("button", name="Show").click()
    it.page.until(lambda: it.tab.evaluate("scrollY") > 1000, "the card")
    assert it.tab.evaluate("document.activeElement.className").startswith("mew-card"), "its keys act"
    it.page.until(lambda: it.call.count() == 0, "the line to go")
    it.tab.evaluate("scrollTo(0, 0)")
    it.rest()
    assert it.call.count() == 0, "once for the same requests"
    it.seat.propose("git_status")
    it.page.until(lambda: it.call.count() == 1, "the line for what has come since")
    assert "3 requests" in it.call.inner_text()
    it.decide()
    it.page.until(lambda: it.call.count() == 0, "the line to go")
    assert not it.tab.title().startswith("(")


def test_a_card_in_sight_calls_nobody_but_marks_the_title(scene: Callable[..., Scene]) -> None:
    it = scene(above=True)
    it.seat.propose("git_log")
    it.wait_title("(1)")
    it.rest()
    assert it.call.count() == 0


@pytest.mark.slow
def test_two_views_of_the_same_requests_call_once(scene: Callable[..., Scene]) -> None:
    it = scene()
    it.tab.evaluate("document.body.append(Object.assign(document.createElement('div'), { id: 'again' }))")
    it.page.show("again")
    it.seat.propose("git_log")
    it.wait_title("(1)")
    it.page.until(lambda: it.call.count() == 1, "the line")
    it.rest()
    assert it.call.count() == 1 and "1 request in garden waits" in it.call.inner_text()
    it.tab.evaluate("document.getElementById('again').scrollIntoView()")
    it.page.until(lambda: it.call.count() == 0, "the line to go where either view shows it")


@pytest.mark.slow
def test_what_a_front_end_calls_for_by_itself_has_no_line(scene: Callable[..., Scene]) -> None:
    it = scene()
    it.tab.evaluate(TAKE)
    it.seat.propose("git_log", proposer="mallory")
    it.page.until(lambda: len(it.tab.evaluate("taken")) == 2, "the call")
    assert it.tab.evaluate("taken") == [[1, ""], [1, "1 request in garden waits for you."]]
    it.rest()
    assert it.call.count() == 0
    it.decide()
    it.page.until(lambda: it.tab.evaluate("taken").pop() == [0, ""], "the end to be told")


@pytest.mark.slow
def test_a_kernel_that_is_gone_waits_for_nobody(scene: Callable[..., Scene]) -> None:
    it = scene(beats=True)
    it.seat.propose("git_log")
    it.wait_title("(1)")
    it.page.deaf = True
    it.page.until(lambda: not it.tab.title().startswith("("), "the title without a mark")


@pytest.mark.slow
def test_the_desktop_is_told_on_request_what_waits_and_nothing_of_it(plain: Callable[..., Plain]) -> None:
    book = plain([ADDING + "lab.view.approvals", PROPOSE])
    tab = book.tab
    tab.context.grant_permissions(["notifications"], origin=ADDRESS)
    tab.evaluate(RECORD)
    book.run(0)
    button = book.area(0).get_by_role("button", name="Notify me")
    assert button.get_attribute("aria-pressed") == "false"
    book.click(button)
    book.page.until(lambda: button.get_attribute("aria-pressed") == "true", "the setting")
    tab.evaluate("document.querySelector('.jp-Notebook').style.marginTop = '3000px'")
    tab.evaluate("scrollTo(0, 0)")
    book.run(1)
    book.page.until(lambda: tab.evaluate("told.length"), "the notification")
    [[title, body]] = tab.evaluate("told")
    assert title == "mew_lab"
    assert body.startswith("1 request in ") and "add" not in body and "bot" not in body
    tab.evaluate("window.front = true")
    book.execute('bot.call("notebook/add", {"a": 5, "b": 6})')
    book.page.until(lambda: tab.locator(".mew-attention-line", has_text="2 requests").count(), "the line")
    assert len(tab.evaluate("told")) == 1, "who looks at this window sees it there"


def test_a_browser_that_does_not_let_a_page_notify_says_so(scene: Callable[..., Scene]) -> None:
    it = scene(above=True)
    it.tab.get_by_role("button", name="Notify me").click()
    it.page.until(
        lambda: it.tab.locator(".mew-notice", has_text="does not let this page notify you").count(), "why"
    )
    assert it.tab.get_by_role("button", name="Notify me").get_attribute("aria-pressed") == "false"
