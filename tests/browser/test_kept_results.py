"""A result that was too large for a message: Load by keyboard in a narrow window, its progress, Cancel, and a kernel that is gone."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bare import Bare
from lab_server import wait_until
from playwright.sync_api import Locator

import mew_lab
from mew_lab.lab.lab import Lab
from mew_lab.protocol.envelope import MAX_ID

pytestmark = [pytest.mark.ruling("R43"), pytest.mark.timeout(180)]
WIDTH = 380
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Kept:
    """A lab with one decided call whose result is kept, and a view of it on a narrow page."""

    def __init__(self, bare: Callable[..., Bare], part: str, id: str = "") -> None:
        self.lab: Lab = mew_lab.up("demo", journal=None)

        @self.lab.tool
        def shot() -> Any:
            "A picture and a text."
            data = base64.b64encode(PIXEL + bytes(1_200_000)).decode()
            text = {"type": "text", "text": "<img src=x onerror=alert(1)>" + "x" * 60_000}
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}, text]}

        self.clerk = self.lab.join("clerk", "proposer")
        self.run(id)
        self.page = bare(getattr(self.lab.view, part), width=WIDTH, height=900)
        self.tab = self.page.tab

    def run(self, id: str = "") -> None:
        """Has the call proposed and approved, by that id where it is given."""
        call = {"method": "tools/call", "params": {"name": "shot", "arguments": {}}}
        chosen = {"id": id} if id else {}
        draft = {"kind": "mcp/proposal", "to": ["notebook"], "payload": call, **chosen}

        me = self.lab.me.participant

        async def run() -> str:
            sent = await self.clerk.participant.send_accepted(draft)
            await me.approve(sent.id)
            return sent.id

        sent = self.lab.loop.run(run(), timeout=20, doing="approving")
        wait_until(lambda: (one := me.proposals.get(sent)) and one.response, "the answer", pause=time.sleep)

    def row(self) -> Locator:
        """The element of the kept result in the feed: its row is opened first."""
        row = self.tab.locator("tr[data-seq] .mew-what", has_text="It was executed").first
        self.page.until(row.count, "the row of the answer")
        row.click()
        return self.found()

    def found(self) -> Locator:
        kept = self.tab.locator(".mew-kept")
        self.page.until(kept.count, "the kept result")
        return kept.first

    def press(self, button: Locator) -> None:
        button.focus()
        self.tab.keyboard.press("Enter")

    def said(self, kept: Locator, text: str) -> None:
        self.page.until(lambda: text in kept.locator(".mew-kept-said").inner_text(), text)


@pytest.fixture
def kept(bare: Callable[..., Bare]) -> Callable[..., Kept]:
    return partial(Kept, bare)


@pytest.mark.parametrize("part", ["approvals", "feed"])
def test_a_result_is_loaded_and_drawn_by_keyboard_in_a_narrow_window(
    kept: Callable[..., Kept], part: str
) -> None:
    one = kept(part)
    element = one.row() if part == "feed" else one.found()
    told = element.locator(".mew-kept-about").inner_text()
    assert told.startswith("This result has 1.7 MB, too large for a message. notebook keeps it until ")
    assert "image (image/png) of 1600096 characters" in told
    load = element.get_by_role("button", name="Load the result of 1.7 MB")
    one.press(load)
    one.said(element, "Loaded 1.7 MB.")
    picture = element.locator("img.mew-picture")
    one.page.until(lambda: picture.evaluate("p => p.naturalWidth") == 1, "the picture to be drawn")
    assert picture.get_attribute("src", timeout=1000).startswith("blob:")  # type: ignore[union-attr]
    text = element.locator("pre.mew-block").inner_text()
    assert text.startswith("<img src=x onerror=alert(1)>xxx") and "more characters: lab.load('" in text
    assert not load.is_visible() and element.locator("progress").is_hidden()
    assert one.tab.evaluate("() => document.querySelector('.mew-blocks').contains(document.activeElement)")
    wide = element.evaluate(
        "node => Math.max(...[...node.querySelectorAll('*')].map(n => n.getBoundingClientRect().right))"
    )
    assert wide <= WIDTH, "nothing stands outside of the window"


def test_cancel_is_beside_it_and_load_begins_anew(
    kept: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.views.ui.kept.TOLD_EVERY", 0.0)
    one = kept("approvals")
    element = one.found()
    monkeypatch.setattr("mew_lab.sdk.kept_results.PACE", 200_000)
    one.press(element.locator("button.mew-kept-load"))
    one.said(element, "kB of 1.7 MB")
    assert 0 < element.locator("progress").evaluate("bar => bar.value / bar.max") < 1
    one.tab.keyboard.press("Tab")
    assert one.tab.evaluate("() => document.activeElement.textContent") == "Cancel"
    one.tab.keyboard.press("Enter")
    one.said(element, "Loading was cancelled.")
    assert one.tab.evaluate("() => document.activeElement.textContent") == "Load", "the focus is not lost"
    monkeypatch.setattr("mew_lab.sdk.kept_results.PACE", 40_000_000)
    one.tab.keyboard.press("Enter")
    one.said(element, "Loaded 1.7 MB.")


def test_without_a_kernel_it_says_so(kept: Callable[..., Kept]) -> None:
    one = kept("approvals")
    element = one.found()
    one.page.deaf = True
    one.press(element.locator("button.mew-kept-load"))
    one.said(element, "Loading…")
    one.page.deaf = False
    one.lab.down()
    one.said(element, "so this cannot be loaded now")
    one.press(element.locator("button.mew-kept-load"))
    one.said(element, "so this cannot be loaded now")
    assert element.locator("button.mew-kept-stop").is_hidden()


@pytest.mark.slow
def test_a_long_id_of_a_peer_hinders_no_load(kept: Callable[..., Kept]) -> None:
    one = kept("approvals", id="p" * MAX_ID)
    element = one.found()
    one.press(element.locator("button.mew-kept-load"))
    one.said(element, "Loaded 1.7 MB.")
