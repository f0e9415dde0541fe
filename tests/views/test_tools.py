"""The Tools view without a browser: what it sends, what it takes, what it leaves in a saved notebook."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from pages import bundle, picture

from mew_lab.lab.lab import Lab
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.views.tools.model import ToolCatalog, ToolList, ToolOwner
from mew_lab.views.tools.widget import PAGE, ToolsView, view_of
from mew_lab.views.ui import acts

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def lab(lab: Lab) -> Lab:
    @lab.tool
    def add(a: int, b: int = 2) -> int:
        "Sum of two numbers."
        return a + b

    return lab


class Page:
    """A view's page: each act gives what the view was told of it."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.act = browser.act
        browser.appear()

    def value(self, name: str, **given: Any) -> Any:
        told = self.act(name, **given)
        assert told["t"] == "done", told
        return told["value"]

    def run(self, number: int) -> dict[str, Any]:
        """That call as it was told last, once it has ended."""

        def probe() -> Any:
            told = [item["run"] for item in self.browser.of("run") if item["run"]["number"] == number]
            return told[-1] if told and not told[-1]["waits"] else None

        found: dict[str, Any] = self.browser.until(probe)
        return found


@pytest.fixture
def page(lab: Lab, browser: Callable[[Any], Any]) -> Page:
    view = view_of(lab)
    one = Page(browser(view))
    one.browser.until(lambda: view.badge() == "1")
    return one


def test_nobody_is_asked_for_tools_before_the_view_is_shown(lab: Lab, browser: Callable[[Any], Any]) -> None:
    asked = "tools/list"
    before = str(lab.log.df["what"].tolist()).count(asked)
    view = view_of(lab)
    assert str(lab.log.df["what"].tolist()).count(asked) == before
    Page(browser(view))
    end = time.monotonic() + 20
    while view.badge() != "1":
        assert time.monotonic() < end


def test_a_tool_is_found_filled_in_called_and_its_result_read(page: Page) -> None:
    found = page.value("find", query="sum")
    assert (found["total"], [row["target"] for row in found["rows"]]) == (1, ["notebook/add"])
    assert found["rows"][0]["arguments"] == [["a", "integer", True], ["b", "integer", False]]
    assert found["rows"][0]["may"] == "call"
    form = page.value("form", tool="notebook/add")
    assert [(one["key"], one["kind"], one.get("default")) for one in form["plan"]["members"]] == [
        ("a", "integer", None),
        ("b", "integer", "2"),
    ]
    checked = page.value("check", tool="notebook/add", text='{"a": "x"}')
    assert checked["faults"] == [{"path": ["a"], "shown": ["a"], "said": "must be an integer"}]
    assert (checked["call"], checked["propose"]) == (True, True)
    started = page.value("start", tool="notebook/add", text='{"a": 40}', how="call")
    run = page.run(started["run"])
    assert run["said"].startswith("answered in 0.") and run["said"].endswith(" s by notebook")
    assert (run["target"], run["brief"], run["proposed"]) == ("notebook/add", '{"a": 40}', False)
    assert page.value("result", run=started["run"])[0] == {"kind": "text", "text": "42", "mime": ""}
    assert page.value("again", run=started["run"]) == {"tool": "notebook/add", "text": '{"a": 40}'}


def test_a_proposal_is_withdrawn(page: Page, lab: Lab) -> None:
    started = page.value("start", tool="notebook/add", text='{"a": 40}', how="propose")
    page.browser.until(
        lambda: any(item["run"]["said"] == "waits for a human" for item in page.browser.of("run"))
    )
    assert page.act("stop", run=started["run"])["said"] == "The proposal of notebook/add is withdrawn."
    assert page.run(started["run"])["said"].startswith("withdrawn by human after 0.")
    assert "mcp/withdraw" in lab.log.df["kind"].tolist()


@pytest.mark.threat(5, 14)
def test_what_a_page_makes_up_is_refused_and_nothing_is_sent(page: Page, lab: Lab) -> None:
    before = len(lab.log)
    refusals = [
        page.act("start", tool="notebook/add", text='{"a": "x"}', how="call"),
        page.act("start", tool="notebook/add", text='{"a": 1}', how="shout"),
        page.act("start", tool="notebook/none", text="{}", how="call"),
        page.act("start", tool=["notebook/add"], text={}, how=7),
        page.act("start", tool="notebook/add", text="[1]", how="call"),
        page.act("check", tool="notebook/add", text="{"),
        page.act("form", tool="../etc"),
        page.act("result", run=True),
        page.act("again", run="1"),
        page.act("stop", run=99),
        page.act("ask", participant="nobody"),
    ]
    assert [one["t"] for one in refusals] == ["failed"] * len(refusals)
    assert all(one["said"].rstrip(".") and "Error" not in one["said"] for one in refusals), refusals
    stale = page.act("start", nonce="0" * 32, tool="notebook/add", text='{"a": 1}', how="call")
    assert stale["said"] == acts.STALE
    assert len(lab.log) == before and not page.browser.view.faults


class Still:
    """A catalog that shows what it is given."""

    def __init__(self, lab: Lab, catalogue: ToolList) -> None:
        self.catalog = ToolCatalog(lab.me.participant, following=lab.following)
        self.catalog.listed = catalogue
        self.opened: list[float] = []

    def view(self) -> ToolsView:
        async def open_(patience: float = 0.0) -> None:
            self.opened.append(patience)

        self.catalog.open = open_  # type: ignore[method-assign]
        return ToolsView(self.catalog, submit=asyncio_future)


def asyncio_future(work: Any) -> Any:
    from concurrent.futures import Future

    future: Future[Any] = Future()
    try:
        future.set_result(asyncio.run(work))
    except Exception as fault:
        future.set_exception(fault)
    return future


def tools(count: int, **more: Any) -> tuple[DiscoveredTool, ...]:
    about = more.get("about", "Does something.")
    schema = more.get(
        "schema", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    )
    return tuple(
        DiscoveredTool("git", f"tool_{n:04}", about, schema, more.get("hints", {})) for n in range(count)
    )


def test_the_list_comes_in_pages_and_a_snapshot_is_small(lab: Lab, browser: Callable[[Any], Any]) -> None:
    people = tuple(ToolOwner(f"p-{n}", "failed", 0, "e" * 300) for n in range(1000))
    one = Page(browser(Still(lab, ToolList(1, tools(5000), people)).view()))
    snapshot = one.browser.of("snapshot")[-1]
    assert len(json.dumps(snapshot)) < 50_000
    assert (snapshot["total"], len(snapshot["people"]), snapshot["more_people"]) == (5000, 40, 960)
    found = one.value("find", query="tool", start=4950)
    assert (found["total"], len(found["rows"]), found["rows"][0]["name"]) == (5000, 50, "tool_4950")
    assert len(one.value("find", query="")["rows"]) == PAGE
    assert one.value("find", query=7, start="x")["total"] == 5000


def test_a_storm_of_changes_is_few_messages(lab: Lab, browser: Callable[[Any], Any]) -> None:
    still = Still(lab, ToolList(1, tools(5), ()))
    view = still.view()
    one = Page(browser(view))
    began, count = time.monotonic(), len(one.browser.batches)
    for n in range(2, 4000):
        still.catalog.listed = ToolList(n, tools(5), ())
        view.wake()
        if n % 40 == 0:
            time.sleep(0.005)
    one.browser.until(
        lambda: one.browser.of("catalogue") and one.browser.of("catalogue")[-1]["version"] == 3999
    )
    seconds = time.monotonic() - began
    assert len(one.browser.batches) - count <= 10 * seconds + 2


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.threat(3, 17)
def test_the_still_picture_is_a_table_of_text_whatever_the_tools_say(lab: Lab) -> None:
    schema = {
        "type": "object",
        "properties": {HOSTILE: {"type": HOSTILE, "description": HOSTILE}},
        "required": [HOSTILE],
    }
    catalogue = ToolList(
        3,
        tools(250, about=HOSTILE, schema=schema, hints={"readOnlyHint": True}),
        (ToolOwner(HOSTILE, "failed", 0, HOSTILE),),
        7,
    )
    view = Still(lab, catalogue).view()
    texts = Texts()
    texts.feed(picture(view))
    assert texts.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "br"}
    assert "Tools: " in texts.words and "250 tools" in texts.words
    assert "57 more tools are not shown" in texts.words
    assert "onerror=alert(1)>\\u202e" in texts.words and "\u202e" not in texts.words
    assert "(required)" in texts.words and "read-only" in texts.words
    assert repr(view) == "Tools: 250 known, 0 calls made here"


def test_an_empty_picture_says_what_would_fill_it(lab: Lab) -> None:
    view = Still(lab, ToolList()).view()
    assert "lab.bridge(NAME, COMMAND) brings an MCP server" in picture(view)
    assert view.badge() == ""


def test_displayed_it_waits_a_moment_so_that_its_picture_holds_what_is_there(lab: Lab) -> None:
    view = view_of(lab)
    data = bundle(view)
    assert "Sum of two numbers." in data["text/html"]
    assert data["text/plain"] == "Tools: 1 known (notebook 1), 0 calls made here"
    view.close()


def test_badges_say_only_what_a_tool_said_of_itself(lab: Lab, browser: Callable[[Any], Any]) -> None:
    hints = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": "yes", "idempotentHint": 1}
    one = Page(browser(Still(lab, ToolList(1, tools(1, hints=hints), ())).view()))
    assert one.value("find", query="")["rows"][0]["badges"] == ["writes", "destroys"]
