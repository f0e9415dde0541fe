"""A cell that waits shows all that it comes to wait for, one card after another and several at once, to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import look_at

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
    """Presses a button, once more where it moved under the press: that decides nothing, and a person sees it armed."""
    pressed = card.locator(f"button.{button}")
    for _ in range(3):
        look_at(pressed)
        book.page.until(lambda: pressed.get_attribute("aria-disabled") == "false", f"{button} to arm")
        book.click(pressed)
        with contextlib.suppress(TimeoutError):
            book.page.until(lambda: not pressed.count(), f"{button} to count", deadline=3)
            return


def approve(book: Notebook, cell: int, *texts: str) -> None:
    """Approves the card, opened where it is one of several."""
    card = open_card(book, cell, *texts)
    review = card.locator("button.mew-review-open")
    if review.is_visible():
        book.click(review)
    press(book, card, "mew-approve")


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
    assert line.inner_text().startswith("git/push runs, 0:0")
    book.click(line.get_by_role("button", name="Cancel git/push"))
    book.wait(1)
    assert "OutcomeUnknown" in book.text(1)
    book.page.until(lambda: not line.count(), "the line to go")
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
