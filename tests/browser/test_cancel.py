"""A call that runs is cancelled in whichever view it stands: by mouse and by keyboard, and only where that is heeded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bare import Bare
from playwright.sync_api import Locator

import mew_lab
from mew_lab.errors import OutcomeUnknown
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect

pytestmark = [pytest.mark.ruling("R35"), pytest.mark.timeout(180)]


class Busy:
    """A lab with a tool that never ends, and pages of its views."""

    def __init__(self, show: Callable[..., Bare]) -> None:
        self.show = show
        self.lab: Lab = mew_lab.up("demo", journal=None)
        self.git = self.lab.join("git", can="tool")
        self.git.participant.register_method("tools/call", self._run)
        self.started = 0

    async def _run(self, params: Any) -> dict[str, Any]:
        self.started += 1
        await asyncio.Event().wait()
        return {}

    def call(self, page: Bare, seat: Any, **how: Any) -> Any:
        before = self.started
        pending = seat.call("git/push", **how)
        page.until(lambda: self.started > before, "the call to run")
        return pending

    def stop(self, page: Bare, within: str) -> Locator:
        button = page.tab.locator(f"{within} .mew-cancel-call").first
        page.until(lambda: button.count() and button.is_visible(), f"a button that cancels, in {within}")
        return button


@pytest.fixture
def busy(bare: Callable[..., Bare]) -> Busy:
    return Busy(bare)


def stand_still(page: Bare) -> None:
    page.pause(0.6)  # a press counts where the rows have not moved for half a second


def ended(page: Bare, pending: Any) -> None:
    """The call was cancelled, and whether it took effect is not known."""
    page.until(lambda: pending.state == "unknown", "the call to end")
    with pytest.raises(OutcomeUnknown):
        pending.result(timeout=1.0)


@pytest.mark.slow
def test_a_row_of_the_feed_cancels_the_call_of_another(busy: Busy) -> None:
    page = busy.show(busy.lab.view.feed)
    pending = busy.call(page, busy.lab.join("carol", can="human"))
    stop = busy.stop(page, "tbody")
    assert stop.get_attribute("aria-label") == "Cancel carol: git/push"
    stand_still(page)
    stop.click()
    ended(page, pending)
    page.until(lambda: page.tab.locator("tbody .mew-cancel-call").count() == 0, "the button to go")
    assert "git was asked to stop" in page.tab.locator(".mew-notices").inner_text()
    assert page.tab.locator(".mew-detail").is_hidden(), "the press opens no row"


@pytest.mark.slow
def test_a_press_that_hits_a_row_because_the_rows_have_moved_cancels_nothing(busy: Busy) -> None:
    page = busy.show(busy.lab.view.feed)
    for n in range(40):
        busy.lab.chat(f"line {n}")
    pending = busy.call(page, busy.lab.me)
    stop = busy.stop(page, "tbody")
    stand_still(page)
    busy.lab.chat("one more")
    page.until(lambda: "one more" in page.tab.locator("tbody").inner_text(), "the row that moves the others")
    stop.click()
    notices = page.tab.locator(".mew-notices")
    page.until(lambda: "so nothing was cancelled" in notices.inner_text(), "what the press met")
    assert pending.state != "unknown"
    stand_still(page)
    stop.click()
    ended(page, pending)


def test_by_keyboard_the_opened_message_cancels_it_and_the_focus_stays(busy: Busy) -> None:
    page = busy.show(busy.lab.view.feed, width=380)
    pending = busy.call(page, busy.lab.me)
    busy.stop(page, "tbody")
    page.tab.locator("table[role=grid]").focus()
    page.tab.keyboard.press("End")
    page.tab.keyboard.press("Enter")
    stop = busy.stop(page, ".mew-detail")
    for _ in range(20):
        page.tab.keyboard.press("Tab")
        if stop.evaluate("node => node === document.activeElement"):
            break
    page.tab.keyboard.press("Enter")
    ended(page, pending)
    page.until(lambda: page.tab.locator(".mew-detail .mew-cancel-call").count() == 0, "the button to go")
    assert page.tab.evaluate("() => document.querySelector('.mew-detail').contains(document.activeElement)")


def test_the_step_of_a_sequence_cancels_its_call_from_the_keyboard(busy: Busy) -> None:
    page = busy.show(busy.lab.view.reasoning)
    bot = busy.lab.join("bot", can="human")
    start = bot.send("reasoning/start", {"message": "I push."})
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "push", "arguments": {}}}
    bot.send("mcp/request", payload, to="git", context=start.id)
    stop = busy.stop(page, ".mew-told")
    stop.focus()
    page.tab.keyboard.press("Enter")
    page.until(lambda: page.tab.locator(".mew-told .mew-cancel-call").count() == 0, "the button to go")
    assert page.tab.evaluate("() => document.activeElement.getAttribute('role')") == "treeitem"


def test_who_may_not_cancel_has_no_button_in_any_view(busy: Busy) -> None:
    busy.lab.enrol("guest", can="human")
    guest = connect(
        busy.lab.url, name="guest-lab", space=busy.lab.space, token_file=busy.lab.token_file("guest")
    )
    page = busy.show(guest.view.feed)
    busy.call(page, busy.lab.me)
    page.until(lambda: "waiting" in page.tab.locator("tbody").inner_text(), "the row of the call")
    page.until(lambda: page.of("running") and page.of("running")[-1]["calls"], "the calls that run")
    busy.lab.chat("after it")
    page.until(lambda: "after it" in page.tab.locator("tbody").inner_text(), "what came after it")
    assert page.of("running")[-1]["calls"][0]["cancel"] is False
    assert page.tab.locator(".mew-cancel-call:visible").count() == 0
    guest.down()


@pytest.mark.slow
def test_where_the_kernel_is_silent_no_call_can_be_cancelled_and_its_seconds_stand(busy: Busy) -> None:
    page = busy.show(busy.lab.view.approvals, beats=True)
    busy.call(page, busy.lab.me)
    busy.stop(page, ".mew-running")
    page.deaf = True
    page.until(lambda: page.tab.locator(".mew-gone").is_visible(), "the silence to be told")
    assert page.tab.locator(".mew-cancel-call:visible").count() == 0
    line = page.tab.locator(".mew-running-call bdi").inner_text()
    page.pause(2.2)  # a clock that goes would have moved twice
    assert (
        line.startswith("git/push runs, ") and page.tab.locator(".mew-running-call bdi").inner_text() == line
    )


@pytest.mark.slow
def test_after_a_cancel_in_the_list_the_keyboard_is_at_the_next_call_then_at_the_cards(busy: Busy) -> None:
    page = busy.show(busy.lab.view.approvals)
    busy.lab.join("bot").call("git/push")
    first, second = busy.call(page, busy.lab.me), busy.call(page, busy.lab.me)
    stops = page.tab.locator(".mew-running .mew-cancel-call:visible")
    page.until(lambda: stops.count() == 2 and page.cards().count() == 1, "both calls, and the card")
    stops.first.focus()
    page.tab.keyboard.press("Enter")
    ended(page, first)
    page.until(lambda: stops.count() == 1, "its button to go")
    assert stops.evaluate("node => node === document.activeElement")
    page.tab.keyboard.press("Enter")
    ended(page, second)
    page.until(lambda: stops.count() == 0, "its button to go")
    assert page.cards().first.evaluate("node => node === document.activeElement")
