"""The Tools view without a browser: what it sends, what it takes, what it leaves in a saved notebook."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pages import bundle, picture

from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.sdk.discovery import DiscoveredTool
from mew_lab.sdk.progress import read_progress
from mew_lab.views.tools.model import ToolCatalog, ToolList, ToolOwner
from mew_lab.views.tools.offers import expand_template
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

    def ask_until_known(self, participant: str, tools: int) -> None:
        """Asks a participant that may have answered an earlier question before it had its tools."""
        said = f"known tools: {tools}."
        self.browser.until(lambda: self.act("ask", participant=participant)["said"].endswith(said))

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
    assert page.value("result", run=started["run"])["blocks"][0] == {
        "kind": "text",
        "text": "42",
        "mime": "",
        "rows": (),
    }
    assert page.value("again", run=started["run"]) == {
        "what": "tool",
        "tool": "notebook/add",
        "text": '{"a": 40}',
    }


def test_a_proposal_is_withdrawn(page: Page, lab: Lab) -> None:
    started = page.value("start", tool="notebook/add", text='{"a": 40}', how="propose")
    page.browser.until(
        lambda: any(item["run"]["said"] == "waiting for approval" for item in page.browser.of("run"))
    )
    assert page.act("stop", run=started["run"])["said"] == "The proposal of notebook/add is withdrawn."
    assert page.run(started["run"])["said"].startswith("withdrawn by human after 0.")
    assert "mcp/withdraw" in lab.log.df["kind"].tolist()


def test_the_form_of_a_peers_tool_asks_for_no_default_and_leaves_what_is_in_doubt_to_the_tool(
    page: Page, lab: Lab
) -> None:
    odd = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")
    lab.bridge("odd", [sys.executable, odd, "defaults"])
    page.ask_until_known("odd", 3)
    fits, doubted, lacks = (
        page.value("check", tool="odd/shot", text=text) for text in ('{"name": "a"}', '{"name": "a b"}', "{}")
    )
    assert (fits["faults"], fits["notes"]) == ([], [])
    assert doubted["faults"] == [] and "which the tool judges: name must contain" in doubted["notes"][0]
    assert [(fault["path"], fault["said"]) for fault in lacks["faults"]] == [(["name"], "is required")]
    refused = page.act("start", tool="odd/shot", text="{}", how="call")
    assert refused["t"] == "failed" and "name is required" in refused["said"]
    started = page.value("start", tool="odd/shot", text='{"name": "a"}', how="call")
    page.run(started["run"])
    assert json.loads(page.value("result", run=started["run"])["blocks"][0]["text"]) == {"name": "a"}


@pytest.mark.threat(5, 14)
def test_what_a_page_makes_up_is_refused_and_nothing_is_sent(page: Page, lab: Lab) -> None:
    before = len(lab.log)
    refusals = [
        page.act("start", tool="notebook/add", text='{"a": "x"}', how="call"),
        page.act("start", tool="notebook/add", text='{"a": 1}', how="shout"),
        page.act("start", tool="notebook/none", text="{}", how="call"),
        page.act("start", tool="notebook/add", text="[1]", how="call"),
        page.act("check", tool="notebook/add", text="{"),
        page.act("form", tool="../etc"),
        page.act("result", run=99),
        page.act("again", run=99),
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


def test_a_schema_that_says_true_and_then_1_is_another_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seat, default = lab.join("mail", "tool"), [True]

    async def answer(method: str, params: Any) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"a": {"default": default[0]}}}
        return {"tools": [{"name": "send", "inputSchema": schema}]}

    monkeypatch.setattr(seat.participant.tools, "answer", answer)
    catalog = ToolCatalog(lab.me.participant, following=lab.following)
    lab.loop.run(catalog.open(0.1), timeout=20, doing="opening")
    for said in (True, 1, 1.5):
        default[0] = said
        discovery = lab.me.participant.discovery
        lab.loop.run(discovery.discover_tools("mail"), timeout=20, doing="asking")
        end = time.monotonic() + 20
        while (tool := catalog.tool("mail/send")) is None or repr(
            tool.input_schema["properties"]["a"]["default"]
        ) != repr(said):
            assert time.monotonic() < end
            time.sleep(0.01)
    lab.loop.run(catalog.close(), timeout=20, doing="closing")


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
    assert "Not shown: 57 more tools" in texts.words
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
    assert one.value("find", query="")["rows"][0]["badges"] == ["writes", "destructive"]


class Server:
    """An MCP server without a process: it answers as a test says, and reports the progress of its calls."""

    def __init__(self, lab: Lab, name: str = "files") -> None:
        self.seat = lab.join(name, can="tool")
        self.asked: list[str] = []
        self.cancelled = 0
        self.report: dict[str, Any] | None = None
        lab.loop.call(lambda: setattr(self.seat.participant.tools, "answer", self.answer))
        self.lab = lab

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        self.asked.append(method)
        match method:
            case "tools/list":
                return {"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}
            case "resources/list":
                return {
                    "resources": [{"uri": "file:///a.txt", "name": "a", "mimeType": "text/plain", "size": 3}]
                }
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "file:///{path}", "name": "any file"}]}
            case "prompts/list":
                return {"prompts": [{"name": "review", "arguments": [{"name": "code", "required": True}]}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"read {params['uri']} {HOSTILE}"}]}
            case "prompts/get":
                said = {"type": "text", "text": f"Review {params['arguments']['code']}."}
                return {"description": HOSTILE, "messages": [{"role": "user", "content": said}]}
            case "tools/call":
                token = params["_meta"]["progressToken"]
                report = {"progressToken": token, "progress": 2, "total": 4, "message": f"step {HOSTILE}"}
                await self.seat.participant.notify("notifications/progress", report, to="human")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
        raise AssertionError(method)


def test_resources_and_prompts_are_listed_when_their_tab_is_opened_and_read(page: Page, lab: Lab) -> None:
    server = Server(lab)
    page.ask_until_known("files", 2)
    assert not {*server.asked} - {"tools/list"}
    assert page.act("ask", tab="resources")["said"] == "2 resources of 1 participant"
    found = page.value("find", tab="resources", query="")
    assert [(row["what"], row["target"], row["may"], row["badges"]) for row in found["rows"]] == [
        ("resource", "files/file:///a.txt", "call", ["text/plain", "3 bytes"]),
        ("template", "files/file:///{path}", "call", ["template"]),
    ]
    assert page.value("find", tab="resources", query="any fil")["total"] == 1
    told = page.browser.until(lambda: [item for item in page.browser.of("offers") if item["total"] == 2])
    states = {name: state for name, _, state, _, _ in told[-1]["people"]}
    # A participant without resources has none, and that is no fault.
    assert states == {"files": "ready", "notebook": "none"}
    started = page.value("start", what="resource", tool="files/file:///a.txt", text="{}", how="call")
    page.run(started["run"])
    [block] = page.value("result", run=started["run"])["blocks"]
    assert (
        block["kind"] == "text" and block["text"] == "read file:///a.txt <img src=x onerror=alert(1)>\\u202e"
    )
    # A template asks for its variables, and encodes what they hold.
    form = page.value("form", what="template", tool="files/file:///{path}")
    assert [(one["key"], one["required"]) for one in form["plan"]["members"]] == [("path", True)]
    missing = page.value("check", what="template", tool="files/file:///{path}", text="{}")
    assert [fault["said"] for fault in missing["faults"]] == ["is required"]
    started = page.value(
        "start", what="template", tool="files/file:///{path}", text='{"path": "a b/c"}', how="call"
    )
    page.run(started["run"])
    assert page.value("result", run=started["run"])["blocks"][0]["text"].startswith("read file:///a%20b%2Fc ")
    assert page.act("ask", tab="prompts")["said"] == "1 prompt of 1 participant"
    started = page.value("start", what="prompt", tool="files/review", text='{"code": "x = 1"}', how="call")
    page.run(started["run"])
    assert [block["text"] for block in page.value("result", run=started["run"])["blocks"]] == [
        "<img src=x onerror=alert(1)>\\u202e", "user:", "Review x = 1.",
    ]  # fmt: skip
    assert page.value("again", run=started["run"]) == {
        "what": "prompt",
        "tool": "files/review",
        "text": '{"code": "x = 1"}',
    }
    # What a page makes up is refused.
    for made_up in ({"what": "prompt", "tool": "files/none"}, {"what": "nothing", "tool": "files/review"}):
        assert page.act("start", text="{}", how="call", **made_up)["t"] == "failed"


def test_progress_is_believed_of_the_tool_alone_and_a_call_is_cancelled_on_the_wire(
    page: Page, lab: Lab
) -> None:
    server, other = Server(lab), lab.join("other", can="admin")
    page.ask_until_known("files", 2)
    started = page.value("start", tool="files/slow", text="{}", how="call")
    number = started["run"]

    def progress() -> Any:
        told = [item["run"]["progress"] for item in page.browser.of("run") if item["run"]["number"] == number]
        return told[-1] if told else None

    assert page.browser.until(progress) == [2.0, 4.0, "step <img src=x onerror=alert(1)>\\u202e"]
    [call] = [entry for entry in lab.log if entry.get("payload", {}).get("method") == "tools/call"]
    report = {"progressToken": call["payload"]["params"]["_meta"]["progressToken"], "progress": 4, "total": 4}
    payload = {"jsonrpc": "2.0", "method": "notifications/progress", "params": report}
    other.send("mcp/request", payload, to="human", correlation_id=call["id"])
    said = "files was asked to stop. The outcome is its answer if one still comes, else it is not known."
    assert page.act("stop", run=number)["said"] == said
    ended = page.run(number)
    assert ended["said"].startswith("sent; whether it took effect is not known") and ended["progress"] is None
    page.browser.until(lambda: server.cancelled)
    assert "notifications/cancelled" in str(lab.log.df["what"].tolist())
    assert progress() is None
    told = [item["run"]["progress"] for item in page.browser.of("run")]
    assert [4.0, 4.0, ""] not in told


@pytest.mark.parametrize(
    "params", [{}, {"progress": True}, {"progress": "1"}, {"progress": -1}, {"progress": float("nan")}, []]
)
def test_a_progress_that_is_no_number_is_none(params: Any) -> None:
    assert read_progress({"method": "notifications/progress", "params": params}) is None


@pytest.mark.parametrize("total", [None, 0, -3, True, "9", float("inf")])
def test_a_total_that_is_no_number_is_not_known(total: Any) -> None:
    read = read_progress({"method": "notifications/progress", "params": {"progress": 1, "total": total}})
    assert read is not None and read[1] == (1.0, None, "")


def test_a_template_is_filled_in_as_rfc_6570_has_it() -> None:
    assert expand_template("x:{a}/{+b}", {"a": "ä /", "b": "c/d?"}) == "x:%C3%A4%20%2F/c/d?"
    with pytest.raises(MewError, match="“b” is required"):
        expand_template("{a}{b}", {"a": ""})
