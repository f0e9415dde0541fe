"""A cell that waits shows all that it comes to wait for, one card after another and several at once, to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe import axe_source, axe_violations
from playwright.sync_api import Error, Locator
from real_lab import Notebook
from scenes import armed

from ..bridge.real_servers import npm_server

SERVER = Path(__file__).parents[1] / "bridge" / "full_server.py"
# `helper` answers a question by four calls: one, another after it, and two at once.
STORY = """%load_ext mew_lab
import asyncio
import mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def water(bed: str) -> str:
    "Waters a bed."
    return f"{bed} is wet"
helper = lab.join("helper", can="agent")
async def answer(asked):
    def call(bed): return helper.participant.call("notebook/water", {"bed": bed}, correlation_id=[asked.id])
    said = [str(await call("north")), str(await call("south"))]
    said += map(str, await asyncio.gather(call("east"), call("west")))
    await helper.participant.chat("; ".join(said), asked.sender, correlation_id=[asked.id])
work = []
helper.participant.on_chat(lambda asked: work.append(asyncio.ensure_future(answer(asked))))
lab.tools();
"""
ASK = "print('answer:', await lab.ask('helper', 'Please water all beds.'))"


def open_card(book: Notebook, cell: int, *texts: str) -> Locator:
    """The open card in the output of that cell that holds all the texts."""
    card = book.area(cell).locator("li.mew-card:not(.mew-past):not([hidden])")
    for text in texts:
        card = card.filter(has_text=text)
    card.first.wait_for()
    return card.first


def press(book: Notebook, card: Locator, button: str) -> None:
    """Presses a button, once more where it moved under the press: that decides nothing, and a person sees it armed.

    It is the button of this very card: when that is decided, the next card may have the same texts.
    """
    pressed: Any = card.locator(f"button.{button}").element_handle()
    for _ in range(3):
        with contextlib.suppress(TimeoutError, Error):
            armed(book.page, pressed)
            book.click(pressed)
            book.page.until(lambda: not pressed.is_visible(), f"{button} to count", deadline=3)
        if not pressed.is_visible():
            return
    raise AssertionError(f"{button} was pressed three times and its card is still open: {card.inner_text()}")


def approve(book: Notebook, cell: int, *texts: str) -> None:
    """Approves the card, opened where it is one of several."""
    card = open_card(book, cell, *texts)
    review = card.locator("button.mew-review-open")
    if review.is_visible():
        book.click(review)
    press(book, card, "mew-approve")


@pytest.mark.slow
def test_a_cell_that_waits_for_an_answer_shows_each_card_on_the_way_to_it(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([STORY, ASK]).run(0)
    book.run(1, wait=False)
    for bed in ("north", "south"):
        approve(book, 1, bed)
    open_card(book, 1, "west")
    approve(book, 1, "east")
    book.area(1).locator("li.mew-past", has_text="east is wet").wait_for()  # its line moves the next card
    approve(book, 1, "west")
    book.wait(1)
    assert "answer: north is wet; south is wet; east is wet; west is wet" in book.text(1)
    assert book.area(1).locator("section.mew-approvals").count() == 1, "one place for the whole story"
    book.page.until(lambda: book.area(1).locator("li.mew-past").count() == 4, "a line for each decision")
    assert book.page.errors == []


BRIDGES = f"""%load_ext mew_lab
import asyncio, sys
import mew_lab
lab = mew_lab.up(journal=None)
for name in ("garden", "shed"):
    lab.bridge(name, [sys.executable, {str(SERVER)!r}, "modern"])
lab.tools();
"""
# `helper` thinks, and answers by four calls: one, then two at once of which the first runs on, then one after that.
HELPER = """from pathlib import Path
helper = lab.join("helper", can="agent")
async def there(name):
    while not Path(name).exists(): await asyncio.sleep(0.05)
async def answer(asked):
    me, about = helper.participant, [asked.id]
    def call(tool, **given): return me.call(tool, given, correlation_id=about, proposal_progress=True)
    first = await me.send_accepted({"kind": "reasoning/start", "payload": {"message": "Adding up"}, "correlation_id": about})
    await there("thought")
    said = [await call("garden/add", a=1, b=2)]
    said += await asyncio.gather(call("garden/hold", path=str(Path("held").resolve())), call("shed/add", a=3, b=4))
    said.append(await call("shed/add", a=5, b=6))
    await me.send_accepted({"kind": "reasoning/conclusion", "payload": {"message": "Done"}, "context": first.id})
    await me.chat("; ".join(map(str, said)), asked.sender, correlation_id=about)
work = []
helper.participant.on_chat(lambda asked: work.append(asyncio.ensure_future(answer(asked))));
"""


def test_three_cells_and_no_view_are_enough_for_four_cards_of_two_bridges(
    notebook: Callable[..., Notebook],
) -> None:
    """The cell that waits tells at each moment what it waits for: who thinks, what is to be decided, what runs."""
    book = notebook([BRIDGES, HELPER, "print('answer:', await lab.ask('helper', 'Please add up.'))"])
    book.run(0).run(1)
    for name in ("thought", "held"):
        (book.page.server.root / name).unlink(missing_ok=True)
    book.run(2, wait=False)
    area = book.area(2)
    book.page.until(lambda: "helper is thinking, 0:0" in area.inner_text(), "who thinks")
    assert not area.locator("li.mew-card").count()
    (book.page.server.root / "thought").touch()
    approve(book, 2, "garden", "add")
    area.locator("li.mew-past", has_text="ran: 3").wait_for()
    open_card(book, 2, "shed", "add")
    approve(book, 2, "hold")
    held = area.locator("li.mew-past", has_text="hold")
    book.page.until(lambda: "0:01" in held.inner_text(), "the seconds of the call that runs")
    assert (
        "◌" in held.inner_text()
        and "✓" not in held.inner_text()
        and "2 of 4 · downloading" in held.inner_text()
    )
    assert held.get_by_role("button", name="Cancel garden/hold").is_visible()
    approve(book, 2, "shed", "add")
    area.locator("li.mew-past", has_text="ran: 7").wait_for()
    assert "runs" in held.inner_text()
    (book.page.server.root / "held").touch()
    book.page.until(
        lambda: "✓" in held.inner_text() and "ran: held" in held.inner_text(), "the end of the call"
    )
    approve(book, 2, "shed", "add")
    book.wait(2)
    assert "answer: 3; held; 7; 11" in book.text(2)
    assert area.locator("section.mew-approvals").count() == 1, "one place for the whole story"
    book.page.until(lambda: "✓ helper answered, 0:" in area.inner_text(), "the end of the story")
    assert "is thinking" not in area.inner_text()
    assert not book.tab.locator(".mew-status-item").is_visible(), "nothing needs anybody"
    assert book.page.errors == []


# `helper` thinks until it is told to stop, and then says so.
THINKS = """%load_ext mew_lab
import asyncio
import mew_lab
lab = mew_lab.up(journal=None)
helper = lab.join("helper", can="agent")
async def answer(asked):
    me, about = helper.participant, [asked.id]
    await me.send_accepted({"kind": "reasoning/start", "payload": {"message": "Adding up"}, "correlation_id": about})
    stopped = asyncio.get_running_loop().create_future()
    me.client.on_message(stopped.set_result, kinds=("reasoning/cancel",))
    await me.chat(f"stopped: {(await stopped).payload['reason']}", asked.sender, correlation_id=about)
work = []
helper.participant.on_chat(lambda asked: work.append(asyncio.ensure_future(answer(asked))));
"""


def test_the_cell_that_waits_cancels_the_reasoning_for_which_it_waits(
    notebook: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Spec: §3.5.5, an affordance to cancel active reasoning on each surface."""
    book = notebook([THINKS, "print('answer:', await lab.ask('helper', 'Please add up.'))"]).run(0)
    book.run(1, wait=False)
    button = book.area(1).get_by_role("button", name="Cancel reasoning of helper")
    button.wait_for()
    view = book.area(1).locator("section.mew-approvals")
    assert axe_violations(view, axe_source(tmp_path_factory.getbasetemp())) == []
    button.press("Enter")
    book.wait(1)
    assert "answer: stopped: superseded" in book.text(1)
    book.page.until(lambda: "✓ helper answered, 0:" in book.area(1).inner_text(), "the end of the story")
    assert not button.count()
    assert book.page.errors == []


@pytest.mark.slow
def test_after_the_end_of_its_kernel_a_cell_offers_no_cancel(notebook: Callable[..., Notebook]) -> None:
    cells = [THINKS, "import os; print('pid', os.getpid())", "await lab.ask('helper', 'Please add up.')"]
    book = notebook(cells, fresh=True).run(0).run(1)
    book.run(2, wait=False)
    button = book.area(2).get_by_role("button", name="Cancel reasoning")
    button.wait_for()
    os.kill(int(book.text(1).split()[-1]), signal.SIGKILL)
    book.area(2).locator(".mew-gone").first.wait_for()
    book.page.until(lambda: not button.is_visible(), "no button that would do nothing")
    book.acknowledge_death()


RUNS = """%load_ext mew_lab
import asyncio
import mew_lab
lab = mew_lab.up(journal=None)
git = lab.join("git", can="tool")
async def push(params):
    from mew_lab.sdk.progress import progress_relay
    await progress_relay(git.participant)(2, 4, "downloading")
    await asyncio.Event().wait()
git.participant.register_method("tools/call", push)
"""
AWAIT = """try:
    await lab.call("git/push")
except Exception as end:
    print(type(end).__name__)"""


@pytest.mark.slow
def test_a_cell_that_waits_for_a_call_shows_how_far_it_has_come_and_cancels_it(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([RUNS, AWAIT]).run(0)
    book.run(1, wait=False)
    line = book.area(1).locator("li.mew-running-call")
    book.page.until(
        lambda: line.count() and "2 of 4 · downloading" in line.inner_text(), "the progress of the call"
    )
    assert line.locator("bdi").inner_text().startswith("git/push runs, 0:0")
    book.page.until(lambda: "0:01" in line.inner_text(), "the end of a call to be worth a line")
    book.click(line.get_by_role("button", name="Cancel git/push"))
    book.wait(1)
    assert "OutcomeUnknown" in book.text(1)
    end = "?\ngit/push ended; it is not known whether it took effect, 0:0"
    book.page.until(lambda: line.inner_text().startswith(end), "the end of the call")
    assert not line.get_by_role("button").is_visible()
    book.page.until(
        lambda: "git/push ended; it is not known" in str(book.outputs(1)[0]["data"].get("text/html")),
        "the stored picture to tell it",
    )
    assert book.page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_a_cell_that_waits_for_a_call_shows_each_question_of_its_server(
    notebook: Callable[..., Notebook], own: bool
) -> None:
    setup = f"""%load_ext mew_lab
import sys
import mew_lab
lab = mew_lab.up(journal=None)
lab.bridge("shop", [sys.executable, {str(SERVER)!r}, "modern"])
who = lab.call if {own} else lab.join("bot", can="proposer").call
"""
    book = notebook([setup, "print(await who('shop/wrap', what='pears'))"]).run(0)
    book.run(1, wait=False)
    if not own:
        approve(book, 1, "wrap")
    for words, field, value in (("How many pears?", "size", "2"), ("How many ribbons", "ribbons", "3")):
        asked = open_card(book, 1, words)
        asked.locator(".mew-field", has_text=field).locator("input, textarea").first.fill(value)
        press(book, asked, "mew-accept")
    book.wait(1)
    assert "pears with 3 ribbons" in book.text(1)
    assert book.page.errors == []


@pytest.mark.slow
def test_a_cell_that_bridges_a_file_shows_a_card_for_each_server(notebook: Callable[..., Notebook]) -> None:
    """Without the extension too: `import mew_lab` is all that a notebook needs. A yes is not asked for again."""
    setup = f"""import json, os, sys, pathlib
import mew_lab
os.environ["XDG_STATE_HOME"] = str(pathlib.Path("state").resolve())
entry = {{"command": sys.executable, "args": [{str(SERVER)!r}]}}
pathlib.Path("project").mkdir()
pathlib.Path("project/.mcp.json").write_text(json.dumps({{"mcpServers": {{"shop": entry, "other": entry}}}}))
lab = mew_lab.up(journal=None)
lab.view.approvals"""
    start = 'lab.bridge_all("project/.mcp.json")'
    book = notebook([setup, start, start]).run(0)
    book.run(1, wait=False)
    card = open_card(book, 1, "Start the MCP server shop?", SERVER.name)
    assert "reads    no variable" in card.inner_text() or "reads" in card.inner_text()
    press(book, card, "mew-accept")
    card = open_card(book, 1, "Start the MCP server other?")
    press(book, card, "mew-decline")
    book.wait(1)
    text = book.text(1)
    assert "bridged" in text and "other is left out: it was not allowed" in text
    book.run(2, wait=False)
    press(book, open_card(book, 2, "Start the MCP server other?"), "mew-accept")
    book.wait(2)
    assert "shop is a participant already" in book.text(2) and "bridged" in book.text(2)
    assert book.page.errors == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_of_four_steps_on_a_repository_and_its_files_shows_no_box(
    notebook: Callable[..., Notebook], tmp_path: Path
) -> None:
    """Three cells, servers of git and of files that others made, and an agent that is asked: each card is plain."""
    garden = tmp_path / "garden"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", garden], check=True)
    (garden / "plan.txt").write_text("Peas\n")
    plan = str(garden / "plan.txt")
    steps = [
        ("files/write_file", {"path": plan, "content": "Peas\nLeeks\n"}),
        ("files/edit_file", {"path": plan, "edits": [{"oldText": "Leeks", "newText": "Onions"}]}),
        ("git/git_add", {"repo_path": str(garden), "files": ["plan.txt"]}),
        ("git/git_commit", {"repo_path": str(garden), "message": "Plan the onions"}),
    ]
    bridges = f"""%load_ext mew_lab
import os, sys
import mew_lab
lab = mew_lab.up(journal=None)
for role in ("AUTHOR", "COMMITTER"):
    os.environ[f"GIT_{{role}}_NAME"], os.environ[f"GIT_{{role}}_EMAIL"] = "g", "g@example.org"
passed = [name for name in os.environ if name.startswith("GIT_")]
lab.bridge("git", [sys.executable, "-m", "mcp_server_git", "--repository", {str(garden)!r}], env=passed)
lab.bridge("files", {[*npm_server("@modelcontextprotocol/server-filesystem"), str(garden)]!r})
"""
    agent = f"""helper = lab.join("helper", can="agent")
async def answer(asked):
    for target, given in {steps!r}:
        await helper.participant.call(target, given, correlation_id=[asked.id])
    await helper.participant.chat("The plan is committed.", asked.sender, correlation_id=[asked.id])
work = []
helper.participant.on_chat(lambda asked: work.append(__import__("asyncio").ensure_future(answer(asked))));
"""
    ask = "print('answer:', await lab.ask('helper', 'Please plan leeks, no, onions, and commit it.'))"
    book = notebook([bridges, agent, ask]).run(0).run(1)
    book.run(2, wait=False)
    for target, _ in steps:
        card = open_card(book, 2, target.split("/")[1])
        assert card.locator(".mew-warning").count() == 0, card.inner_text()
        press(book, card, "mew-approve")
    book.wait(2)
    assert "answer: The plan is committed." in book.text(2)
    assert book.area(2).locator(".mew-warning").count() == 0
    log = subprocess.run(
        ["git", "-C", garden, "show", "HEAD:plan.txt"], check=True, capture_output=True, text=True
    )
    assert log.stdout == "Peas\nOnions\n"
    assert book.page.errors == []
