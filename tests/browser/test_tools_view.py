"""A person finds a tool, fills in its form, calls or proposes it, and reads what it gave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SPACE = """
import json
import mew_lab
lab = mew_lab.up(journal=None)
git = lab.join("git", can="tool")
weather = lab.join("weather-service", can="tool")
notes = lab.join("notes", can="tool")
bot = lab.join("bot", can="proposer")
helper = lab.join("helper", can="agent")
observer = lab.join("observer", can="observer")

def offer(seat, name, about, schema, run, **annotations):
    tool = {"name": name, "description": about, "inputSchema": schema, "execute": run}
    lab.loop.call(lambda: seat.participant.tools.add(tool, annotations=annotations or None))

def text(value):
    return value
"""
SCENE = (
    SPACE
    + f"""
offer(git, "git_log", "Shows the last commits of a repository, the newest first.", {{
    "type": "object", "required": ["repo_path"], "additionalProperties": False, "properties": {{
        "repo_path": {{"type": "string", "description": "The folder that holds the repository."}},
        "max_count": {{"type": "integer", "minimum": 1, "maximum": 500, "default": 10, "description": "How many commits at most."}},
        "since": {{"type": "string", "format": "date", "description": "Only commits after this day."}}}}}},
    lambda repo_path, max_count=10, since=None: text("4f1c2a  Add tests\\n88f2b0  Fix typo in README\\n1c0d3e  First commit"), readOnlyHint=True)
offer(git, "git_commit", "Records the staged changes.\\nIt writes to the repository and cannot be undone by itself.", {{
    "type": "object", "required": ["repo_path", "message"], "properties": {{
        "repo_path": {{"type": "string"}}, "message": {{"type": "string", "minLength": 3, "maxLength": 2000}},
        "files": {{"type": "array", "items": {{"type": "string"}}, "minItems": 1, "description": "Only these."}},
        "author": {{"type": "string"}}, "sign": {{"type": "boolean"}}, "amend": {{"type": "boolean", "default": False}}}}}},
    lambda **kw: text("recorded"), readOnlyHint=False, destructiveHint=True)
offer(weather, "forecast", "Tells the weather of the next days at a place.", {{
    "type": "object", "required": ["place", "unit"], "properties": {{
        "place": {{"anyOf": [{{"type": "string", "title": "name"}}, {{"type": "object", "title": "coordinates", "required": ["lat", "lon"],
            "properties": {{"lat": {{"type": "number", "minimum": -90, "maximum": 90}}, "lon": {{"type": "number"}}}}}}]}},
        "unit": {{"enum": ["celsius", "fahrenheit"], "description": "Of the temperatures."}},
        "days": {{"type": "integer", "minimum": 1, "maximum": 7, "default": 3}},
        "hours": {{"type": "array", "prefixItems": [{{"type": "integer", "title": "from"}}, {{"type": "integer", "title": "until"}}], "items": False}},
        "extra": {{"type": "object", "additionalProperties": {{"type": "number"}}}},
        "nothing": {{"type": "null"}}, "version": {{"const": 2}}}}}},
    lambda **kw: {{"days": [{{"sky": "clear", "high": 21.5}}]}}, readOnlyHint=True, openWorldHint=True)
offer(notes, "count_notes", "How many notes there are.", {{"type": "object", "properties": {{}}, "additionalProperties": False}}, lambda: text("12"), readOnlyHint=True)
boxed = weather.participant.tools.answer
async def answer(method, params):
    if method == "tools/call" and params["name"] == "chart":
        table = {{"uri": "t:1", "mimeType": "text/csv", "text": "day,high\\nMonday,<img src=x>\\n"}}
        picture = {{"type": "image", "data": "{PIXEL}", "mimeType": "image/svg+xml"}}
        return {{"content": [picture, {{"type": "resource", "resource": table}}]}}
    return await boxed(method, params)
offer(weather, "chart", "Draws the temperatures.", {{"type": "object"}}, lambda: None, readOnlyHint=True)
lab.loop.call(lambda: setattr(weather.participant.tools, "answer", answer))
def fail(words):
    raise LookupError("no such note")
offer(notes, "search_notes", "Finds notes that hold all the words.", {{"type": "object", "required": ["words"], "properties": {{"words": {{"type": "string"}}}}}}, fail, readOnlyHint=True)
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
"""
)
SHOW = "lab.view.tools"
CALLS = """
for record in lab.log.held:
    said = json.loads(record.raw or "{}")
    if said.get("kind") in ("mcp/request", "mcp/proposal", "mcp/withdraw") and said["from"] in ("human", "bot") and "tools/list" not in record.raw:
        print(said["from"], said["kind"], ",".join(said.get("to", [])), json.dumps(said["payload"].get("params", {}).get("arguments")))
"""

# Somebody whose list cannot be had at first, who never tells that it changed, and who answers no call.
SILENT = """
import asyncio
finding = lab.me.participant.discovery
finding.pace = finding.pace._replace(retries=(600.0,))
shelf = []
async def silent(method, params):
    if method != "tools/list":
        await asyncio.Event().wait()
    if not shelf:
        raise RuntimeError("the shelf is empty")
    return {"tools": [{"name": name, "description": "In the archive.", "inputSchema": {"type": "object"}} for name in shelf]}
from mew_lab.sdk.tools import ToolBox
box = ToolBox(name="archive")
box.answer = silent
lab.loop.run(lab.local.join("archive", "tool", what="an archive", tools=box), timeout=20, doing="seating the archive")
def asked():
    told = [json.loads(one.raw or "{}") for one in lab.log.held]
    names = [one["to"][0] for one in told if one.get("from") == "human" and one.get("payload", {}).get("method") == "tools/list"]
    print(json.dumps({name: names.count(name) for name in sorted(set(names))}))
"""
TELLS = (
    "shelf.append('find'); asked()",
    "shelf[:] = ['find', 'read']; asked()",
    "told = [json.loads(one.raw) for one in lab.log.held if one.raw and 'notifications/' in one.raw]\n"
    "print([one['payload']['method'] for one in told if one['kind'] == 'mcp/request' and one.get('to') == ['archive']][-1])",
)


def tool(book: Notebook, index: int, name: str) -> Locator:
    return book.view(index).locator(f"button.mew-tool[data-target='{name}']")


def listed(book: Notebook, index: int, name: str) -> None:
    """Waits until the tool is in the list; what is there instead becomes the failure's text."""
    try:
        tool(book, index, name).wait_for()
    except Exception as fault:
        fault.add_note(f"{book.view(index).inner_text()[:2000]} {book.text(0)} {book.page.errors}")
        raise


def choose(book: Notebook, index: int, name: str) -> Locator:
    """Clicks the tool and waits for its form."""
    listed(book, index, name)
    book.click(tool(book, index, name))
    pane = book.view(index).locator(".mew-pane")
    pane.locator(".mew-pane-name", has_text=name).wait_for()
    return pane


def field(book: Notebook, index: int, name: str) -> Locator:
    return book.view(index).get_by_label(name, exact=True)


def ready(book: Notebook, button: Locator) -> Locator:
    book.page.until(lambda: button.get_attribute("aria-disabled") == "false", "the button to be allowed")
    return button


def ended(book: Notebook, index: int, number: int, said: str) -> None:
    row = book.view(index).locator(f"table.mew-calls tr[data-number='{number}'] .mew-became")
    book.page.until(lambda: row.count() and said in row.inner_text(), f"call {number} to be {said}")


def sent(book: Notebook, index: int) -> list[str]:
    """The calls that are on the wire, as `from kind to arguments`."""
    book.run(index)
    return book.text(index).strip().splitlines()


def said_of_asking(book: Notebook, index: int) -> dict[str, int]:
    """How often each participant was asked for its tools, by the wire."""
    book.run(index)
    return dict(json.loads(book.text(index)))


@pytest.mark.slow
def test_a_tool_is_found_called_and_its_result_read_and_used_again(notebook: Callable[..., Notebook]) -> None:
    book = notebook([SCENE, SHOW, CALLS, SILENT, *TELLS]).run(0).run(1)
    one = book.view(1)
    listed(book, 1, "notebook/add")
    assert one.locator(".mew-counts-line .mew-pill").all_inner_texts() == ["7 tools", "4 participants"]
    one.get_by_role("searchbox").fill("commits repo_path")
    book.page.until(lambda: one.locator("button.mew-tool").count() == 1, "the search to narrow")
    assert one.locator("mark").first.inner_text().lower() in ("commits", "repo_path")
    choose(book, 1, "git/git_log")
    # Required and empty: nothing may be pressed, and the reason stands beside it.
    call = one.locator("button.mew-call")
    book.page.until(lambda: "repo_path" in one.locator(".mew-reason").inner_text(), "the reason")
    assert call.get_attribute("aria-disabled") == "true"
    field(book, 1, "repo_path").fill("./garden")
    field(book, 1, "max_count").fill("900")
    fault = one.locator(".mew-field-integer .mew-fault")
    book.page.until(lambda: fault.inner_text() == "must be at most 500", "the fault at its field")
    assert field(book, 1, "max_count").get_attribute("aria-invalid") == "true"
    assert call.get_attribute("aria-disabled") == "true"
    field(book, 1, "max_count").fill("3")
    book.click(ready(book, call))
    ended(book, 1, 1, "answered in")
    one.locator("pre.mew-block", has_text="Add tests").wait_for()
    assert "by git" in one.locator(".mew-result-head").inner_text()
    rows = one.get_by_role("button", name="Open in Messages").get_attribute("title") or ""
    assert re.fullmatch(r"#\d+, answer #\d+", rows)
    one.get_by_role("searchbox").fill("")
    # A failed one is marked, a picture is shown as what its bytes are.
    choose(book, 1, "notes/search_notes")
    field(book, 1, "words").fill("tulips")
    book.click(ready(book, call))
    ended(book, 1, 2, "failed after")
    assert "no such note" in one.locator(".mew-error-text").inner_text()
    choose(book, 1, "weather-service/chart")
    book.click(ready(book, call))
    picture = one.locator("img.mew-picture")
    picture.wait_for()
    assert picture.get_attribute("src", timeout=1000).startswith("blob:")
    book.page.until(lambda: picture.evaluate("p => p.naturalWidth") == 1, "the picture to be drawn")
    table = one.locator("table.mew-result-table")
    assert table.locator("th").all_inner_texts() == ["day", "high"]
    assert table.locator("td").all_inner_texts() == ["Monday", "<img src=x>"]
    accessible(book, one)
    book.click(one.get_by_role("button", name="Use the arguments of call 1 again"))
    book.page.until(
        lambda: field(book, 1, "max_count").count() and field(book, 1, "max_count").input_value() == "3",
        "the arguments to be back",
    )
    assert field(book, 1, "repo_path").input_value() == "./garden"
    one.locator("pre.mew-block", has_text="Add tests").wait_for()
    # Who writes on elsewhere before the answer comes goes on there.
    leaves = "(b, to) => b.addEventListener('click', () => to.focus(), { once: true })"
    search, cell = one.get_by_role("searchbox"), book.tab.locator(".jp-Notebook .cm-content").first
    for button, to, name in (
        (one.get_by_role("button", name="Use the arguments of call 2 again"), cell, "notes/search_notes"),
        (tool(book, 1, "weather-service/chart"), search, "weather-service/chart"),
        (one.get_by_role("button", name="Show the result of call 1"), cell, "git/git_log"),
    ):
        button.evaluate(leaves, to.element_handle())
        book.click(button)
        one.locator(".mew-pane-name", has_text=name).wait_for()
        assert to.evaluate("n => n === document.activeElement"), name
    # All of it is for everybody: a form, what it gave, and the calls so far.
    accessible(book, one, pictures="tools")
    path = focus_path(book, one)
    names = " | ".join(path)
    for stop in (
        "Search tools",
        "Refresh",
        "Tools",
        "git/git_log",
        "Send max_count",
        "Edit as JSON",
        "Call",
        "Propose",
    ):
        assert stop in names, names
    assert sum(stop.startswith("button ") and "/" in stop for stop in path) == 1, "the list is one stop"
    assert sent(book, 2) == [
        'human mcp/request git {"repo_path": "./garden", "max_count": 3}',
        'human mcp/request notes {"words": "tulips"}',
        "human mcp/request weather-service {}",
    ]
    # A participant that did not list its tools shows why, and is asked again alone; the focus stays in its line.
    book.run(3)
    line = one.locator("li.mew-person", has_text="archive")
    book.page.until(lambda: line.count() and "Internal error" in line.inner_text(), "the failure")
    assert "did not list its tools" in line.inner_text()
    ask = one.get_by_role("button", name="Request the tools of archive")
    book.click(ask)
    one.get_by_role("alert").filter(has_text="archive/tools/list failed: Internal error").wait_for()
    book.page.until(lambda: ask.count() and ask.evaluate("b => b === document.activeElement"), "the keyboard")
    asked = said_of_asking(book, 4)
    book.click(ask)
    listed(book, 1, "archive/find")
    assert line.count() == 0
    again = one.get_by_role("button", name="Refresh", exact=True)
    book.page.until(lambda: again.evaluate("b => b === document.activeElement"), "the keyboard at Refresh")
    after = said_of_asking(book, 5)
    assert after == asked | {"archive": asked["archive"] + 1}
    # Everybody is asked anew: what one offers since then, and never told of, is there.
    assert tool(book, 1, "archive/read").count() == 0
    book.click(again)
    listed(book, 1, "archive/read")
    book.page.until(
        lambda: said_of_asking(book, 5) == {name: count + 1 for name, count in after.items()}, "one each"
    )
    # A call that is cancelled is so at its target, as MCP has it; of what it did nobody knows.
    choose(book, 1, "archive/find")
    book.click(ready(book, call))
    ended(book, 1, 4, "running")
    before = sent(book, 2)
    book.click(one.get_by_role("button", name="Cancel call", exact=True))
    ended(book, 1, 4, "sent; whether it took effect is not known")
    why = one.locator(".mew-error-text").inner_text()
    assert why.startswith("archive/find: It was cancelled while it ran, and may have taken effect")
    assert one.get_by_role("button", name="Cancel call", exact=True).count() == 0
    book.page.until(
        lambda: one.locator(".mew-result-head").evaluate("h => h === document.activeElement"), "the keyboard"
    )
    assert sent(book, 2) == [*before, "human mcp/request archive null"]
    book.run(6)
    assert book.text(6).strip() == "notifications/cancelled"


CHOICES = """
offer(notes, "deploy", "Puts it somewhere.", {
    "type": "object", "required": ["where", "how", "scale"], "properties": {
        "where": {"oneOf": [{"const": 1, "title": "Production"}, {"const": 2, "title": "Development"}]},
        "how": {"anyOf": [
            {"type": "object", "title": "by copy", "properties": {"kind": {"const": "copy"}}, "required": ["kind"]},
            {"type": "object", "title": "by link", "properties": {"kind": {"const": "link"}}, "required": ["kind"]}]},
        "scale": {"enum": ["small", "large"], "default": "small"}}}, lambda **kw: text("put"))
offer(notes, "find_note", "By its number or its name.", {"type": "object", "anyOf": [
    {"title": "by number", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    {"title": "by name", "properties": {"name": {"type": "string"}}, "required": ["name"]}]}, lambda **kw: text("found"))
listing = notes.participant.tools.answer
async def take_all(method, params):  # as a server that fills in its defaults
    return {"content": [{"type": "text", "text": "done"}]} if method == "tools/call" else await listing(method, params)
lab.loop.call(lambda: setattr(notes.participant.tools, "answer", take_all))
"""


@pytest.mark.slow
@pytest.mark.req("T-11")
def test_no_choice_is_made_for_a_person_and_what_has_a_default_may_be_left_out(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SCENE + CHOICES, SHOW, CALLS]).run(0).run(1)
    one = book.view(1)
    pane = choose(book, 1, "notes/deploy")
    book.page.until(lambda: "are required" in one.inner_text(), "both choices to be asked for")
    assert "“where”, “how” are required." in pane.inner_text()
    assert one.locator("button.mew-call").get_attribute("aria-disabled") == "true"
    for name in ("where", "Which form how has"):
        assert field(book, 1, name).evaluate("box => box.selectedOptions[0].textContent") == "choose…"
    field(book, 1, "where").select_option(label="Development (2)")
    field(book, 1, "Which form how has").select_option(label="by link")
    book.click(ready(book, one.locator("button.mew-call")))
    ended(book, 1, 1, "answered in")
    choose(book, 1, "notes/find_note")
    assert "takes no arguments" not in pane.inner_text()
    field(book, 1, "id").fill("7")
    book.click(ready(book, one.locator("button.mew-call")))
    ended(book, 1, 2, "answered in")
    assert sent(book, 2) == [
        'human mcp/request notes {"where": 2, "how": {"kind": "link"}}',
        'human mcp/request notes {"id": 7}',
    ]


@pytest.mark.slow
@pytest.mark.req("T-11")
def test_each_field_of_a_form_gives_what_was_filled_in_to_the_digit(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SCENE, SHOW, CALLS]).run(0).run(1)
    one = book.view(1)
    choose(book, 1, "weather-service/forecast")
    assert one.locator(".mew-field-variants .mew-required").first.inner_text() == "required"
    one.get_by_label("Which form place has").select_option("1")
    field(book, 1, "lat").fill("12.50")
    field(book, 1, "lon").fill("north")
    book.page.until(
        lambda: "Write a number" in one.locator(".mew-form").inner_text(), "the number to be refused"
    )
    assert one.locator("button.mew-call").get_attribute("aria-disabled") == "true"
    field(book, 1, "lon").fill("-1234567890123456789")
    field(book, 1, "unit").select_option(label="celsius")
    one.get_by_label("Send hours", exact=True).check()
    field(book, 1, "from").fill("6")
    field(book, 1, "until").fill("18")
    one.get_by_label("Send extra", exact=True).check()
    # Playwright's own click waits until the button stands still: the form grows above it.
    one.get_by_role("button", name="Add a member to extra").click()
    field(book, 1, "value").wait_for()
    book.tab.keyboard.type("wind")
    field(book, 1, "value").fill("1e3")
    field(book, 1, "days").fill("99")
    book.page.until(lambda: "must be at most 7" in one.locator(".mew-form").inner_text(), "the fault")
    accessible(book, one)
    field(book, 1, "days").fill("3")
    one.get_by_label("Send nothing", exact=True).check()
    one.get_by_label("Send version", exact=True).check()
    book.click(ready(book, one.locator("button.mew-call")))
    ended(book, 1, 1, "answered in")
    # A list: added, moved, taken away; a text that is empty but given; true, false or not given.
    choose(book, 1, "git/git_commit")
    field(book, 1, "repo_path").fill(".")
    field(book, 1, "message").fill("ab")
    book.page.until(
        lambda: "must have at least 3 characters" in one.locator(".mew-form").inner_text(),
        "the short text to be refused",
    )
    field(book, 1, "message").fill("Fix typo\nin README")
    one.get_by_label("Send files", exact=True).check()
    add = one.get_by_role("button", name="Add an item to files")
    for name in ("a.py", "b.py", "c.py"):
        add.click()  # which waits until it stands still: the item before it may have got a fault below it
        book.tab.keyboard.type(name)
    book.click(one.get_by_role("button", name="Move item 3 of files up"))
    book.click(one.get_by_role("button", name="Remove item 1 of files"))
    field(book, 1, "sign").select_option(label="true")
    one.get_by_label("Send author", exact=True).check()
    # The same as JSON, changed there, and back: what the form cannot hold stays JSON, and is refused where it stands.
    book.click(one.get_by_role("button", name="Edit as JSON"))
    text = field(book, 1, "Arguments as JSON")
    assert json.loads(text.input_value()) == {
        "repo_path": ".", "message": "Fix typo\nin README", "files": ["c.py", "b.py"], "sign": True, "author": "",
    }  # fmt: skip
    text.fill(text.input_value().replace('"sign": true', '"sign": true, "amend": 12345678901234567890'))
    book.click(one.get_by_role("button", name="Edit as form"))
    book.page.until(lambda: "must be a boolean" in one.locator(".mew-form").inner_text(), "the fault")
    assert field(book, 1, "amend").input_value() == "12345678901234567890"
    field(book, 1, "amend").fill("true")
    book.click(ready(book, one.locator("button.mew-call")))
    ended(book, 1, 2, "answered in")
    assert sent(book, 2) == [
        'human mcp/request weather-service {"place": {"lat": 12.5, "lon": -1234567890123456789}, "unit": "celsius", '
        '"days": 3, "hours": [6, 18], "extra": {"wind": 1000.0}, "nothing": null, "version": 2}',
        'human mcp/request git {"repo_path": ".", "message": "Fix typo\\nin README", "files": ["c.py", "b.py"], '
        '"author": "", "sign": true, "amend": true}',
    ]


@pytest.mark.slow
@pytest.mark.req("T-5", "T-11")
def test_who_may_only_propose_proposes_by_keyboard_withdraws_and_sees_an_approval(
    plain: Callable[..., Notebook],
) -> None:
    setup = (
        SCENE
        + """
from mew_lab.views.tools.widget import ToolsView
from mew_lab.views.tools.model import ToolCatalog
catalog = ToolCatalog(helper.participant, following=lab.following)
from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition
numbers = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
view = ToolsView(catalog, submit=lab.loop.submit)
view.show_prompts("notebook", AgentDefinition("adder", tools=(ToolDefinition("add", "Adds.", numbers, "Add {a} to {b}."),)))
"""
    )
    book = (
        plain(
            [
                setup,
                "view",
                "waiting = lab.proposals(); lab.approve(waiting[-1])",
                "lab.leave('notebook')",
                CALLS.replace('"bot"', '"helper"'),
            ]
        )
        .run(0)
        .run(1)
    )
    one = book.view(1)
    listed(book, 1, "notebook/add")
    assert tool(book, 1, "notebook/add").locator(".mew-badge-may").inner_text() == "propose only"
    search = one.get_by_role("searchbox")
    search.focus()
    book.tab.keyboard.type("sum")
    book.page.until(lambda: one.locator("button.mew-tool").count() == 1, "the search to narrow")
    for key in ("ArrowDown", "Enter"):
        book.tab.keyboard.press(key)
    one.locator(".mew-pane-name", has_text="notebook/add").wait_for()
    # The first field has the keyboard; keys stay out of JupyterLab.
    book.page.until(
        lambda: book.tab.evaluate("document.activeElement?.tagName") == "INPUT",
        "the keyboard to be in the form",
    )
    book.tab.keyboard.type("20")
    preview = one.locator(".mew-preview pre")
    book.page.until(lambda: preview.count() and preview.inner_text() == "Add 20 to {b}.", "the filled prompt")
    book.tab.keyboard.press("Tab")
    book.tab.keyboard.type("22")
    book.page.until(lambda: preview.inner_text() == "Add 20 to 22.", "the filled prompt")
    assert "You may only propose it." in one.locator(".mew-may").inner_text()
    assert not one.locator("button.mew-call").is_visible()
    propose = ready(book, one.locator("button.mew-propose"))
    for _ in range(3):  # past the switch to JSON and the prompt, which can be scrolled
        book.tab.keyboard.press("Tab")
    assert propose.evaluate("b => b === document.activeElement")
    book.tab.keyboard.press("Enter")
    ended(book, 1, 1, "waiting for approval")
    book.click(one.get_by_role("button", name="Withdraw call", exact=True))
    ended(book, 1, 1, "withdrawn by helper after")
    book.click(ready(book, propose))
    ended(book, 1, 2, "waiting for approval")
    book.run(2)
    ended(book, 1, 2, "by human")
    one.locator("pre.mew-block", has_text="42").first.wait_for()
    # Its participant gone, a result can still be read.
    book.run(3)
    book.page.until(lambda: one.locator("button.mew-tool").count() == 0, "the tool to go")
    choose_other = one.get_by_role("searchbox")
    choose_other.fill("")
    choose(book, 1, "git/git_log")
    book.click(one.get_by_role("button", name="Show the result of call 2"))
    one.locator("pre.mew-block", has_text="42").first.wait_for()
    assert "no longer known" in one.locator(".mew-pane").inner_text()
    assert sent(book, 4)[:1] == ['helper mcp/proposal notebook {"a": 20, "b": 22}']


SERVER = """
import asyncio
files = lab.join("files", can="tool")
async def serve(method, params):
    if method == "tools/list":
        return {"tools": [{"name": "count", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "required": ["folder"], "properties": {"folder": {"type": "string"}}}}]}
    if method == "resources/list":
        return {"resources": [{"uri": "file:///notes.txt", "name": "notes", "mimeType": "text/plain"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "file:///{name}", "name": "any file"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "review", "description": "Asks for a review.", "arguments": [{"name": "code", "required": True}]}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "in " + params["uri"]}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "Review " + params["arguments"]["code"]}}]}
    token = params["_meta"]["progressToken"]
    await files.participant.notify("notifications/progress", {"progressToken": token, "progress": 3, "total": 4, "message": "reading"}, to="human")
    await asyncio.Event().wait()
lab.loop.call(lambda: setattr(files.participant.tools, "answer", serve))
files.participant.tools.hints_of = lambda tool: {"readOnlyHint": True}  # so it may run again after it was cancelled (R35)
"""


@pytest.mark.slow
def test_progress_is_drawn_and_a_running_call_is_cancelled_and_run_again(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SPACE + SERVER, SHOW, CALLS]).run(0).run(1)
    one = book.view(1)
    book.click(one.get_by_role("button", name="Refresh", exact=True))
    choose(book, 1, "files/count")
    call = one.locator("button.mew-call")
    book.page.until(lambda: "“folder” is required." in one.locator(".mew-reason").inner_text(), "the reason")
    fault = one.locator(".mew-field-string .mew-fault")
    assert not fault.is_visible()
    # A press leads to the field that is missing, and marks it.
    book.click(call)
    book.page.until(lambda: fault.is_visible() and fault.inner_text() == "“folder” is required", "the mark")
    assert field(book, 1, "folder").evaluate("f => f === document.activeElement && f.ariaInvalid === 'true'")
    assert sent(book, 2) == []
    field(book, 1, "folder").fill("notes")
    ready(book, call)
    book.tab.keyboard.press("Control+Enter")
    row = one.locator("table.mew-calls tr[data-number='1']")
    bar = row.get_by_role("progressbar")
    book.page.until(lambda: bar.count() and bar.get_attribute("aria-valuenow") == "75", "the progress")
    assert row.locator(".mew-progress-text").inner_text() == "3 of 4 (75 %) · reading"
    book.click(one.get_by_role("button", name="Cancel call 1"))
    ended(book, 1, 1, "sent; whether it took effect is not known")
    assert not bar.is_visible()
    book.click(one.get_by_role("button", name="Run call 1 again"))
    ended(book, 1, 2, "running")
    book.click(one.get_by_role("button", name="Cancel call 2"))
    ended(book, 1, 2, "sent; whether it took effect is not known")
    once = ['human mcp/request files {"folder": "notes"}', "human mcp/request files null"]
    assert sent(book, 2) == once * 2


@pytest.mark.slow
def test_resources_and_prompts_have_tabs_of_their_own(plain: Callable[..., Notebook]) -> None:
    book = plain([SPACE + SERVER, SHOW]).run(0).run(1)
    one = book.view(1)
    book.click(one.get_by_role("button", name="Refresh", exact=True))
    listed(book, 1, "files/count")
    tabs = one.get_by_role("radio")
    book.click(tabs.nth(1))
    listed(book, 1, "files/file:///notes.txt")
    assert one.locator(".mew-counts-line").inner_text().split("\n") == ["2 resources", "1 participant"]
    book.click(tool(book, 1, "files/file:///notes.txt"))
    one.locator(".mew-pane-address", has_text="file:///notes.txt").wait_for()
    call = one.locator("button.mew-call")
    assert call.inner_text() == "Read"
    book.click(ready(book, call))
    one.locator("pre.mew-block", has_text="in file:///notes.txt").wait_for()
    book.click(tool(book, 1, "files/file:///{name}"))
    field(book, 1, "name").fill("a b")
    book.click(ready(book, call))
    text = one.locator("pre.mew-block", has_text="in file:///a%20b")
    text.wait_for()
    # What it gave can be copied.
    book.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy = one.get_by_role("button", name="Copy this part of the result")
    book.click(copy)
    book.page.until(lambda: copy.inner_text() == "Copied", "the text to be copied")
    assert book.tab.evaluate("navigator.clipboard.readText()") == "in file:///a%20b"
    tabs.nth(1).focus()
    book.tab.keyboard.press("ArrowRight")
    choose(book, 1, "files/review")
    field(book, 1, "code").fill("x = 1")
    book.click(ready(book, call))
    one.locator("pre.mew-block", has_text="Review x = 1").wait_for()
    assert tabs.evaluate_all("t => t.map(b => b.innerText.replace(/\\s+/, ' '))") == [
        "Tools 1",
        "Resources 2",
        "Prompts 1",
    ]
    accessible(book, one)
