"""The page of `mew-lab open --ui` on the session of a coding agent: its messages, calls and times, wide and on a phone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe import axe_source, axe_violations
from lab_server import DEADLINE, wait_until
from playwright.sync_api import BrowserContext, Locator
from playwright.sync_api import Page as Tab

from ..log.agent_sessions import ClaudeStory, claude_story


class SessionPage:
    """A tab on the page that `mew-lab open FILE --ui` serves, a process of its own."""

    def __init__(self, window: BrowserContext, story: ClaudeStory, folder: Path, **how: Any) -> None:
        path = story.write(folder / "session.jsonl")
        words = [sys.executable, "-m", "mew_lab.cli", "open", str(path), "--ui"]
        self.program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.program.stdout is not None
        found = re.search(r"http://\S+/ui#\S+", self.program.stdout.readline())
        assert found is not None and window.browser is not None
        self.context = window.browser.new_context(**how)
        self.tab: Tab = self.context.new_page()
        self.tab.set_default_timeout(DEADLINE * 1000)
        self.errors: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.tab.goto(found[0])

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        return wait_until(probe, what, pause=lambda s: self.tab.wait_for_timeout(s * 1000))

    def tab_to(self, target: Locator) -> None:
        """Presses Tab until the element has the focus."""
        for _ in range(80):
            if target.evaluate("node => node === node.getRootNode().activeElement"):
                return
            self.tab.keyboard.press("Tab")
        raise AssertionError(f"not reached by Tab: {target}")

    def look(self, name: str) -> None:
        """Keeps a picture for the one who looks at it."""
        if folder := os.environ.get("MEW_LAB_LOOKS"):
            self.tab.screenshot(path=str(Path(folder) / f"{name}.png"))

    def close(self) -> None:
        self.context.close()
        self.program.send_signal(signal.SIGINT)
        self.program.wait(20)


@pytest.fixture
def opened(window: BrowserContext, tmp_path: Path) -> Iterator[Callable[..., SessionPage]]:
    pages: list[SessionPage] = []

    def make(story: ClaudeStory, **how: Any) -> SessionPage:
        pages.append(SessionPage(window, story, tmp_path, **how))
        return pages[-1]

    yield make
    for page in pages:
        page.close()
    assert [page.errors for page in pages] == [[]] * len(pages)


def seen_whole(row: Locator, feed: Locator) -> bool:
    """Whether a row stands within the list, whose other part may have been scrolled away."""
    box, room = row.bounding_box(), feed.locator(".mew-scroller").bounding_box()
    assert box is not None and room is not None
    return box["y"] >= room["y"] and box["y"] + box["height"] <= room["y"] + room["height"] + 1


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (360, "light")])
def test_a_session_has_its_messages_its_calls_and_its_times(
    opened: Callable[..., SessionPage], tmp_path: Path, width: int, scheme: str
) -> None:
    story = claude_story(5)
    page = opened(story, viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab, name = page.tab, f"session-{width}-{scheme}"
    tab.get_by_role("tab", name="Messages").wait_for()
    titles = [one.split("\n")[0] for one in tab.get_by_role("tab").all_inner_texts()]
    assert [re.sub(r"\W*\d+$", "", title) for title in titles] == ["Messages", "Timeline", "State"]
    messages = sum(story.kinds.values())
    feed = tab.locator("section.mew-feed")
    page.until(
        lambda: f"{messages} messages" in (tab.locator("header").first.text_content() or ""), "all messages"
    )
    calls = story.kinds["mcp/request"]
    shown = re.compile(r"^(Bash|Read|Edit|water)\(command=")
    page.until(lambda: feed.get_by_text(shown).count(), "the calls of tools")
    page.look(f"{name}-feed")

    # By keyboard alone: the arrow leads to the timeline, and Enter on a point shows the exchange of that call.
    page.tab_to(tab.get_by_role("tab", name="Messages"))
    tab.keyboard.press("ArrowRight")
    timeline = tab.locator("section.mew-timeline")
    page.until(lambda: timeline.is_visible() and timeline.locator(".mew-chart path.filled").count(), "bars")
    head = timeline.locator(".mew-strip-request").inner_text()
    assert f"of {calls}" in head and "waiting" not in head, head
    page.look(f"{name}-timeline")
    points = timeline.get_by_role("slider", name="How long requests waited")
    page.tab_to(points)
    tab.keyboard.press("End")
    tab.keyboard.press("Enter")
    page.until(lambda: timeline.locator(".mew-stage g[data-seq]").count() >= 2, "the exchange")
    drawn = timeline.locator(".mew-stage").text_content() or ""
    assert "mcp/request" in drawn and "mcp/response" in drawn
    assert "lab." not in timeline.inner_text(), "there is no lab here"
    timeline.locator(".mew-stage").scroll_into_view_if_needed()
    page.look(f"{name}-exchange")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")

    # From the table of the exchange back to the message.
    page.tab_to(timeline.locator("summary"))
    tab.keyboard.press("Enter")
    page.tab_to(timeline.get_by_role("region", name="Messages of the exchange").get_by_role("button").first)
    tab.keyboard.press("Enter")
    page.until(lambda: feed.is_visible() and feed.locator(".mew-detail").count(), "the message")
    row = feed.locator("[data-seq][aria-selected=true]")
    page.until(lambda: row.count() and seen_whole(row, feed), "the row in sight above its message")
    page.look(f"{name}-message")
    if width == 360:
        assert axe_violations(tab.locator("section.mew-panel"), axe_source(tmp_path)) == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
