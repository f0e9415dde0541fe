"""A person opens an agent file, builds a tool, writes its prompt, tests it as it is served, undoes, and saves the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from access import accessible
from axe import axe_source, axe_violations
from playwright.sync_api import Locator
from real_lab import Notebook

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")
DOCUMENT = {
    "metadata": {
        "name": "Shop",
        "mode": "tools",
        "of_another_program": [1],
        "tools": [
            {
                "name": "change",
                "description": "Changes something.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "what": {"type": "string", "examples": ["the oil"]},
                        "times": {"type": "integer", "minimum": 1, "maximum": 3},
                    },
                    "required": ["what"],
                },
                "prompt": "Please change {what} {times} times, {whom}.\n",
            }
        ],
    },
    "settings": {"model": "offline", "toolPermission": "tool"},
    "mcpServers": {
        "odd": {
            "command": sys.executable,
            "args": [ODD],
            "serverToolDefaults": {"permissionRequired": False},
        }
    },
}
SCRIPT = [
    {"when": "change {what}", "replies": [{"call": "odd/change"}, {"say": "{what}: {observation}"}]},
]
SETUP = f"""
import json
import mew_lab
from mew_lab.agent.models import ScriptedModel
from mew_lab.tools_agent.agent_file import read_agent_file, save_agent_file
lab = mew_lab.up(journal=None)
save_agent_file(json.loads({json.dumps(json.dumps(DOCUMENT))}), "shop.yaml")
"""
OPEN = f"lab.view.workshop.open_file('shop.yaml', model=ScriptedModel({SCRIPT}))\nlab.view.workshop"
SAVED = "print(json.dumps(read_agent_file('shop.yaml').document['metadata']))"


def shop(book: Notebook, index: int = 1) -> Locator:
    view = book.area(index).locator("section.mew-workshop")
    view.locator("button.mew-tool").first.wait_for()
    view.locator(".mew-pane input").first.wait_for()
    return view


def until(book: Notebook, holds: Callable[[], object], what: str) -> None:
    book.page.until(lambda: bool(holds()), what)


@pytest.mark.slow
def test_a_tool_is_built_and_saved_with_all_that_others_wrote(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, OPEN, SAVED]).run(0).run(1)
    view = shop(book)
    schema = view.get_by_label("The same as JSON Schema")
    # A change in the builder changes the schema beside it, and the reverse.
    view.get_by_label("Name of parameter 1").fill("thing")
    book.tab.keyboard.press("Tab")
    until(book, lambda: '"thing"' in schema.input_value(), "the schema to follow")
    prompt = view.get_by_label("Prompt of a call")
    until(book, lambda: "{thing}" in prompt.input_value(), "the reference to follow")
    view.get_by_label("Type of times").select_option("boolean")
    until(
        book,
        lambda: '"boolean"' in schema.input_value() and "minimum" not in schema.input_value(),
        "the type",
    )
    parsed = json.loads(schema.input_value())
    parsed["properties"]["colour"] = {"type": "string", "enum": ["red", "blue"]}
    schema.fill(json.dumps(parsed))
    until(book, lambda: view.get_by_label("Name of parameter 3").input_value() == "colour", "the builder")
    schema.fill("{")
    until(book, lambda: "was not taken" in view.inner_text(), "the refusal")
    assert view.get_by_label("Name of parameter 3").input_value() == "colour"
    # Undo and redo by the keyboard.
    view.get_by_label("Name", exact=True).focus()
    book.tab.keyboard.press("Control+z")
    until(book, lambda: view.get_by_label("Name of parameter 3").count() == 0, "the undo")
    book.tab.keyboard.press("Control+Shift+z")
    until(book, lambda: view.get_by_label("Name of parameter 3").count() == 1, "the redo")
    # The prompt: the kinds of its references, and the remarks.
    assert view.locator(".mew-token-parameter").all_inner_texts() == ["{thing}", "{times}"]
    assert view.locator(".mew-token-unknown").all_inner_texts() == ["{whom}"]
    assert "{whom} is no parameter" in view.locator(".mew-remarks").inner_text()
    prompt.fill("Please change {thing} {times} times, {colour}.")
    until(book, lambda: not view.locator(".mew-remarks li").count(), "the remarks to go")
    book.tab.keyboard.press("Control+s")
    until(book, lambda: "not saved" not in view.locator(".mew-header").inner_text(), "the file to be saved")
    saved = json.loads(book.run(2).text(2))
    assert saved["of_another_program"] == [1]
    (tool,) = saved["tools"]
    assert tool["prompt"] == "Please change {thing} {times} times, {colour}."
    assert list(tool["parameters"]["properties"]) == ["thing", "times", "colour"]
    assert tool["parameters"]["required"] == ["thing"]


@pytest.mark.slow
def test_a_test_runs_as_the_agent_is_served_and_shows_each_call(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, OPEN]).run(0).run(1)
    view = shop(book)
    run = view.locator("button.mew-run")
    until(book, lambda: run.get_attribute("aria-disabled") == "false", "the samples to fit")
    preview = view.get_by_label("The filled prompt")
    assert preview.inner_text().startswith("Please change the oil 1 times")
    what = view.locator(".mew-form-place").get_by_label("what", exact=True)
    what.fill("a lamp")
    until(book, lambda: preview.inner_text().startswith("Please change a lamp"), "the preview to follow")
    until(book, lambda: run.get_attribute("aria-disabled") == "false", "the check")
    book.click(run)
    result = view.locator(".mew-result")
    until(book, lambda: "Answer" in result.inner_text(), "the answer")
    assert "a lamp 1 times, : changed" in result.inner_text() or "a lamp" in result.inner_text()
    cells = result.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells[1:3] == ["odd/change", "{}"] and cells[4] == "changed"
    assert result.get_attribute("data-context")
    what.fill("")
    until(book, lambda: run.get_attribute("aria-disabled") == "true", "the missing argument to be seen")
    assert "1 argument to correct" in view.locator(".mew-reason").inner_text()
    # A sample is no value: it stands in the empty field, and is not sent.
    times = view.locator(".mew-form-place").get_by_label("times", exact=True)
    assert (times.input_value(), times.get_attribute("placeholder")) == ("", "such as 1")
    view.locator(".mew-form-place input.mew-give").first.focus()
    assert book.page.shot("workshop", book.area(1)).stat().st_size > 5000


@pytest.mark.slow
def test_a_run_with_approvals_waits_for_a_click_and_shows_the_picture_that_came(
    plain: Callable[..., Notebook],
) -> None:
    asking = {**DOCUMENT["mcpServers"]["odd"], "args": [ODD, "painter"], "serverToolDefaults": {}}
    document = json.dumps({**DOCUMENT, "mcpServers": {"odd": asking}})
    save = f"save_agent_file(json.loads({json.dumps(document)}), 'shop.yaml')"
    book = plain([SETUP, save, OPEN, "lab.view.approvals"]).run(0).run(1).run(2).run(3)
    view = shop(book, 2)
    run = view.locator("button.mew-run-asking")
    until(book, lambda: run.get_attribute("aria-disabled") == "false", "the samples to fit")
    book.click(run)
    card = book.area(3).locator("li.mew-card")
    card.first.wait_for()
    assert "waits among the approvals" in view.locator(".mew-reason").inner_text()
    assert view.locator(".mew-result").inner_text() == ""
    assert "odd" in card.first.inner_text() and "change" in card.first.inner_text()
    approve = card.first.locator("button.mew-approve")
    approve.scroll_into_view_if_needed()
    until(book, lambda: approve.get_attribute("aria-disabled") == "false", "the button to arm")
    book.click(approve)
    result = view.locator(".mew-result")
    until(book, lambda: "Answer" in result.inner_text(), "the answer")
    cells = result.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells[1] == "odd/change" and cells[4].startswith("[image/png, ")
    picture = result.locator("img.mew-picture")
    until(book, lambda: picture.evaluate("node => node.naturalWidth") == 1, "the picture")
    assert picture.count() == 1  # of three: the others are SVG, which may hold a script


@pytest.mark.slow
def test_a_file_is_made_and_tools_are_added_copied_and_deleted(plain: Callable[..., Notebook]) -> None:
    book = plain([SETUP, "lab.view.workshop"]).run(0).run(1)
    view = book.area(1).locator("section.mew-workshop")
    view.get_by_text("No agent file is open").wait_for()
    view.get_by_label("Path of an agent file").fill("words.yaml")
    book.click(view.get_by_role("button", name="New file"))
    view = shop(book)
    assert view.locator("button.mew-tool").all_inner_texts()[0].startswith("explain")
    book.click(view.get_by_role("button", name="Add tool"))
    until(book, lambda: view.get_by_label("Name", exact=True).input_value() == "new_tool", "the new tool")
    assert "is missing or blank" in view.locator(".mew-faults").inner_text()
    book.click(view.get_by_role("button", name="Delete"))
    book.click(view.get_by_role("button", name="Delete it"))
    until(book, lambda: view.locator("button.mew-tool").count() == 1, "the tool to go")
    book.click(view.get_by_role("button", name="Duplicate"))
    until(book, lambda: view.get_by_label("Name", exact=True).input_value() == "explain_copy", "the copy")
    book.click(view.get_by_role("button", name="Add parameter"))
    until(book, lambda: view.locator("li.mew-parameter").count() == 2, "the parameter")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_everybody_can_use_it(
    plain: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = axe_source(tmp_path_factory.getbasetemp())
    book = plain([SETUP, OPEN]).run(0).run(1)
    view = shop(book)
    view.locator("details.mew-more").first.locator("summary").click()
    book.click(view.locator("button.mew-run"))
    until(book, lambda: "Answer" in view.locator(".mew-result").inner_text(), "the answer")
    accessible(book, view, pictures="workshop")
    for theme in ("light", "dark"):
        book.page.theme(theme)
        assert axe_violations(view, source) == [], theme
    view.evaluate("r => { r.style.width = '360px'; }")
    assert book.page.shot("workshop-narrow", view).stat().st_size > 5000
