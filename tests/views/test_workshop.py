"""The workshop without a browser: what it shows of a file, what it does when asked, and what it leaves in a notebook."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import picture

from mew_lab.agent.models import ScriptedModel
from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.lab import Lab
from mew_lab.tools_agent.agent_file import read_agent_file, save_agent_file
from mew_lab.tools_agent.home import Home
from mew_lab.views.workshop.model import AgentDraft
from mew_lab.views.workshop.widget import WorkshopView, view_of

ODD = str(Path(__file__).resolve().parents[1] / "bridge" / "odd_server.py")
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
TOOL = {
    "name": "change",
    "description": "Changes something.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    "prompt": "Please change {what}.",
}
DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "Shop", "mode": "tools", "tools": [TOOL]},
    "settings": {"model": "offline", "toolPermission": "tool"},
    "mcpServers": {
        "odd": {
            "command": sys.executable,
            "args": [ODD],
            "serverToolDefaults": {"permissionRequired": False},
            "tools": {"die": {"permissionRequired": True}},
        }
    },
}
SCRIPT = [{"when": "change {what}", "replies": [{"call": "odd/change"}, {"say": "{what}: {observation}"}]}]


class Page:
    """A view's page: each act gives what the view was told of it."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        browser.appear()

    def value(self, name: str, /, **given: Any) -> Any:
        told = self.browser.act(name, **given)
        assert told["t"] == "done", told
        return told["value"]

    def refused(self, name: str, /, **given: Any) -> str:
        told = self.browser.act(name, **given)
        assert told["t"] == "failed", told
        return str(told["said"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_agent_file(DOCUMENT, tmp_path / "shop.yaml")
    return tmp_path / "shop.yaml"


@pytest.fixture
def shop(lab: Lab, file: Path) -> WorkshopView:
    view = view_of(lab)
    view.open_file(file, model=ScriptedModel(SCRIPT))
    return view


@pytest.fixture
def page(shop: WorkshopView, browser: Callable[[Any], Any]) -> Page:
    return Page(browser(shop))


def test_an_edit_is_made_shown_undone_and_saved(page: Page, shop: WorkshopView, file: Path) -> None:
    page.value("edit", tool=0, op="rename", name="what", text="thing", references=True)
    detail = page.value("tool", tool=0)
    assert detail["prompt"] == "Please change {thing}." and detail["tokens"][1] == ["{thing}", "parameter"]
    assert shop.badge() == "unsaved"
    page.value("undo")
    assert page.value("tool", tool=0)["prompt"] == TOOL["prompt"]
    page.value("redo")
    page.value("save")
    assert read_agent_file(file).tools[0].prompt == "Please change {thing}." and shop.badge() == ""
    page.browser.until(lambda: [item for item in page.browser.of("draft") if not item["changed"]])


def test_a_value_that_is_true_and_then_1_is_a_change() -> None:
    draft = AgentDraft({"x": True})
    assert draft.change("x", lambda document: document.update(x=1) or "set") == "set"
    assert draft.changed and draft.undoable == "set" and draft.document["x"] is not True


def test_the_schema_of_results_is_set_shown_and_removed(page: Page, shop: WorkshopView, file: Path) -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def set_output(text: str) -> Any:
        return page.value("edit", op="schema", tool=0, key="outputSchema", text=text)

    assert page.value("tool", tool=0)["output"] == ""
    set_output(json.dumps(output))
    assert json.loads(page.value("tool", tool=0)["output"]) == output
    assert "was not taken" in page.refused("edit", op="schema", tool=0, key="outputSchema", text="{")
    shop.save()
    assert read_agent_file(file).tools[0].output == output
    set_output(" ")
    shop.save()
    assert read_agent_file(file).document == DOCUMENT
    assert "schemas" in page.refused("edit", op="schema", tool=0, key="prompt", text="{}")


def test_a_test_gives_the_history_and_the_answer_and_keeps_the_servers(
    page: Page, shop: WorkshopView
) -> None:
    first = page.value("run", tool=0, text='{"what": "the oil"}')
    assert (first["text"], first["error"], first["prompt"]) == (
        "the oil: changed", False, "Please change the oil.",
    )  # fmt: skip
    (call,) = first["calls"]
    assert (call["tool"], call["arguments"], call["answer"]) == ("odd/change", "{}", "changed") and call["id"]
    assert first["id"].startswith("test-change-") and first["context"] and "script" in first["stats"]
    # A changed prompt is tested at once, by the same agent.
    page.value("edit", tool=0, op="text", key="prompt", text="Now change {what}!")
    assert page.value("run", tool=0, text='{"what": "x"}')["prompt"] == "Now change x!"


def test_a_picture_of_a_tool_is_shown_beside_its_call_and_nothing_that_could_hold_a_script(
    page: Page, shop: WorkshopView, file: Path
) -> None:
    painter = {**DOCUMENT["mcpServers"]["odd"], "args": [ODD, "painter"]}
    save_agent_file({**DOCUMENT, "mcpServers": {"odd": painter}}, file)
    shop.open_file(file, model=ScriptedModel(SCRIPT))
    (call,) = page.value("run", tool=0, text='{"what": "x"}')["calls"]
    assert call["answer"].startswith("[image/png, 70 bytes]\n")
    kinds = [(block["kind"], block["mime"]) for block in call["pictures"]]
    assert kinds == [("image", "image/png"), ("note", ""), ("note", "")]
    assert base64.b64decode(call["pictures"][0]["text"]).startswith(b"\x89PNG")
    assert "<svg" not in json.dumps(call["pictures"]) and "PHN2" not in json.dumps(call["pictures"])


def test_a_field_that_nobody_filled_shows_a_sample_and_a_required_one_is_named(
    page: Page, shop: WorkshopView
) -> None:
    tool = page.value("tool", tool=0)
    assert tool["samples"] == "{}"
    assert [(field["key"], field["sample"]) for field in tool["plan"]["members"]] == [
        ("what", "such as text")
    ]
    assert tool["preview"] == "Please change text."
    empty = page.value("preview", tool=0, text=tool["samples"])
    assert empty["preview"] == "Please change text."
    assert [(fault["shown"], fault["said"]) for fault in empty["faults"]] == [(["what"], "is required")]


def test_a_failed_test_tells_why(page: Page, shop: WorkshopView) -> None:
    wrong = page.value("run", tool=0, text="{}")
    assert wrong["error"] and wrong["text"].startswith("Invalid arguments for change: ")
    page.value("edit", tool=0, op="text", key="description", text=" ")
    assert "metadata.tools[0].description" in page.refused("run", tool=0, text="{}")
    assert "cannot be read" in page.refused("run", tool=0, text="{")


def test_a_test_has_the_tools_that_the_served_agent_has(page: Page, shop: WorkshopView, file: Path) -> None:
    class Noting(ScriptedModel):
        def __init__(self) -> None:
            super().__init__(SCRIPT)
            self.offered: list[list[str]] = []

        async def reply(self, messages: Any, *, tools: Any = (), **how: Any) -> Any:
            self.offered.append([tool.name for tool in tools])
            return await super().reply(messages, tools=tools, **how)

    tested, served = Noting(), Noting()
    shop.open_file(file, model=tested)
    page.value("run", tool=0, text='{"what": "x"}')

    async def serve() -> None:
        async with Home(read_agent_file(file), model=served, folder=file.parent) as home:
            await home.agent.call("change", {"what": "x"})

    asyncio.run(serve())
    assert tested.offered == served.offered and "odd/die" not in tested.offered[0]
    assert "odd/change" in tested.offered[0]


def test_a_run_with_approvals_waits_for_the_person_at_each_call_that_needs_a_permission(
    lab: Lab, page: Page, shop: WorkshopView, file: Path
) -> None:
    script = [{"when": "change {what}", "replies": [{"call": "odd/env"}, {"say": "It says: {observation}"}]}]
    gated = {**DOCUMENT["mcpServers"]["odd"], "tools": {"env": {"permissionRequired": True}}}
    save_agent_file({**DOCUMENT, "mcpServers": {"odd": gated}}, file)
    shop.open_file(file, model=ScriptedModel(script))
    assert "there is no tool odd/env" in page.value("run", tool=0, text='{"what": "x"}')["calls"][0]["answer"]
    job = page.browser.begin("run", tool=0, text='{"what": "x"}', interactive=True)
    (proposal,) = page.browser.until(lambda: lab.me.participant.proposals.open())
    assert proposal.sender == "test-change" and proposal.payload["params"]["name"] == "env"
    lab.reject(proposal.id, reason="not today")
    (told,) = page.browser.until(lambda: page.browser.ended(job))
    (call,) = told["value"]["calls"]
    assert "not today" in call["answer"] and call["id"] == proposal.id and not told["value"]["error"]
    assert set(lab.seats) == {"human"}  # the agent and the server of its file have left


def test_a_preview_is_checked_against_the_schema(page: Page) -> None:
    checked = page.value("preview", tool=0, text='{"what": ""}')
    assert checked == {"preview": "Please change {what}.", "faults": []}
    (fault,) = page.value("preview", tool=0, text='{"what": 3}')["faults"]
    assert fault["path"] == ["what"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(page: Page, shop: WorkshopView, file: Path) -> None:
    page.value("edit", tool=0, op="text", key="description", text="Mine.")
    save_agent_file({**DOCUMENT, "x-theirs": 1}, file)
    assert "has changed since it was opened" in page.refused("save")
    assert read_agent_file(file).document["x-theirs"] == 1
    page.value("open", file=str(file))
    assert not shop.draft.changed


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("# mine\n{}", True),
        ("{}  # mine", True),
        ("{}\n# mine", True),
        ("metadata: {name: 'a # b', description: c#d}\nsystemPrompt: |\n  # A heading\n", False),
        ("{}", False),
    ],
)
def test_that_comments_are_lost_is_told_before_the_file_is_saved(
    page: Page, shop: WorkshopView, tmp_path: Path, text: str, has: bool
) -> None:
    file = tmp_path / "words.yaml"
    file.write_text(text)
    assert ("comments" in shop.open_file(file)) == has
    page.browser.until(lambda: [item for item in page.browser.of("draft") if item["name"] == "words.yaml"])
    assert bool(page.browser.of("draft")[-1]["notes"]) == has


def test_an_undo_after_a_save_is_an_unsaved_change_and_two_labs_do_not_overwrite_each_other(
    lab: Lab, page: Page, shop: WorkshopView, file: Path
) -> None:
    other = view_of(lab)
    other.open_file(file)
    page.value("edit", tool=0, op="text", key="prompt", text="Mine {what}.")
    page.value("save")
    page.value("undo")
    assert shop.badge() == "unsaved" and read_agent_file(file).tools[0].prompt == "Mine {what}."
    page.value("save")
    assert read_agent_file(file).tools[0].prompt == TOOL["prompt"]
    page.value("redo")
    page.value("save")
    other.draft.set_text(0, "prompt", "Theirs {what}.")
    with pytest.raises(MewError, match="has changed since it was opened"):
        other.save()
    assert read_agent_file(file).tools[0].prompt == "Mine {what}."


def test_a_draft_with_faults_is_not_saved(page: Page, file: Path) -> None:
    before = file.read_bytes()
    page.value("edit", tool=0, op="add-tool")
    assert "metadata.tools[1].prompt" in page.refused("save")
    assert file.read_bytes() == before


def test_a_file_with_faults_is_opened_and_one_that_is_none_is_not(shop: WorkshopView, tmp_path: Path) -> None:
    (tmp_path / "faulty.yaml").write_text("metadata: {tools: [{name: a b}]}")
    assert shop.open_file(tmp_path / "faulty.yaml") == "Opened faulty.yaml with 1 tool."
    with pytest.raises(ConfigError, match="no such file"):
        shop.open_file(tmp_path / "none.yaml")
    with pytest.raises(MewError, match=r"faulty\.yaml has"):
        shop.save()


def test_nothing_is_done_while_nothing_is_open(
    lab: Lab, browser: Callable[[Any], Any], tmp_path: Path
) -> None:
    page = Page(browser(view_of(lab)))
    for act, params in (("save", {}), ("run", {"tool": 0, "text": "{}"}), ("edit", {"op": "add", "tool": 0})):
        assert "No agent file is open" in page.refused(act, **params)
    page.value("new", file=str(tmp_path / "words.yaml"))
    assert page.value("tool", tool=0)["name"] == "explain"
    assert "is there already" in page.refused("new", file=str(tmp_path / "words.yaml"))


def test_the_picture_shows_hostile_text_as_text(shop: WorkshopView, file: Path) -> None:
    shop.draft.set_text(0, "description", HOSTILE)
    html = picture(shop)
    assert "<img" not in html and "\u202e" not in html and "change" in html
    assert json.dumps(HOSTILE) not in repr(shop)
