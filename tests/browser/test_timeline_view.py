"""The timeline in a real JupyterLab over a real space: rates, durations, and what came of what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

UP = """
import os, tempfile; os.chdir(tempfile.mkdtemp())
import mew_lab
lab = mew_lab.up(journal=None)
git = lab.join("git", can="tool")
@lab.tool(seat=git)
def git_log(repo_path: str) -> str:
    "The commits."
    return "3 commits, the last is 4f1c2ab “Add the pond”"
@lab.tool(seat=git)
def git_commit(repo_path: str, message: str) -> str:
    "Commits what is staged."
    return "Committed with hash 4f1c2ab"
helper = lab.join("helper", can="proposer")
"""
SCENE = """
import time
reviewer, weather = lab.join("reviewer", can="proposer"), lab.join("weather-service", can="proposer")
asked = lab.chat("Please commit the typo fix once the tests pass.")
start = helper.send("reasoning/start", {"message": "The tests pass; a commit is asked for."}, correlation_id=asked.id)
helper.send("reasoning/thought", {"message": "I may propose only; git has git_commit."}, context=start.id)
try: helper.send("mcp/request", {"method": "tools/call", "params": {"name": "git_log", "arguments": {}}}, to="git", context=start.id)
except mew_lab.errors.MewError as refusal: pass
commit = {"method": "tools/call", "params": {"name": "git_commit", "arguments": {"repo_path": ".", "message": "Fix typo in README"}}}
p = helper.send("mcp/proposal", commit, to="git", context=start.id)
for n in range(12):
    reviewer.chat(f"Line {n} of the review: nothing to say about it.")
    if n % 3 == 0: lab.me.call("git/git_log", {"repo_path": "."}).result(timeout=20)
    time.sleep(.1)
q = reviewer.call("git/git_commit", {"repo_path": ".", "message": "Reformat everything"})
weather.chat("Rain from three o'clock on.", to="human")
lab.reject(q.id, "disagree")
lab.approve(lab.proposals()[-1])
helper.send("reasoning/conclusion", {"message": "It is done."}, context=start.id)
helper.send("chat", {"text": "It is committed as 4f1c2ab."}, to="human", correlation_id=asked.id)
r = helper.call("git/git_commit", {"repo_path": ".", "message": "Add the pond to the map"})
"""
SHOW = "lab.view.timeline"


def shown(book: Notebook, index: int) -> Locator:
    """The view, when it has painted something."""
    here = book.view(index)
    book.page.until(lambda: here.get_attribute("data-count"), "the first envelopes")
    return here


def spanned(here: Locator) -> float:
    """How many seconds the bars show together, by what the chart says of itself."""
    said = re.search(r"a bar is (\d+) (s|min)", here.inner_text())
    rate = here.get_by_role("slider", name="Messages per second")
    assert said is not None
    each = int(said[1]) * (60 if said[2] == "min" else 1)
    return (int(rate.get_attribute("aria-valuemax") or 0) + 1) * each


def heads(here: Locator) -> list[str]:
    return here.locator(".mew-stage svg > text.strong").all_text_contents()


def chosen(book: Notebook, here: Locator, seq: str) -> None:
    book.page.until(lambda: here.get_attribute("data-chosen") == seq, f"the exchange of #{seq}")


@pytest.mark.slow
def test_pictures_of_the_timeline_and_it_can_be_used_by_everybody(plain: Callable[..., Notebook]) -> None:
    book = plain([UP, SCENE, SHOW, "lab.view.timeline.select(p.id)"]).run(0).run(1).run(2).run(3)
    assert "Error" not in book.text(1), book.text(1)
    here = shown(book, 2)
    here.locator(".mew-stage svg").wait_for()
    assert book.page.shot("timeline", book.area(2)).stat().st_size > 5000
    accessible(book, here, pictures="timeline")
    path = focus_path(book, here)
    assert [one for one in path if one.startswith("div")] == [
        "div Messages per second",
        "div How long requests waited for their answers",
        "div How long proposals waited for a decision",
        "div Sequence diagram",
    ]
    assert [one for one in path if one.startswith("button")][:3] == [
        "button Fit",
        "button 5 min",
        "button 1 h",
    ]
    assert "input Number or id of a message" in path and any(one.startswith("summary") for one in path)
    assert book.area(3).locator("img").evaluate("i => i.complete && i.naturalWidth > 500")


@pytest.mark.slow
@pytest.mark.trap("T-26")
def test_points_families_and_times_are_chosen_by_mouse_and_by_keyboard(
    notebook: Callable[..., Notebook],
) -> None:
    tell = "print(len(lab.log), q.id, p.id, lab.view.timeline.diagram)"
    book = notebook([UP, SCENE, SHOW, tell, tell]).run(0).run(1).run(2).run(3)
    before, q, p, _ = book.text(3).split(maxsplit=3)
    here = shown(book, 2)
    # By mouse: a family away and back, another time, a point, what waits, nothing.
    chip = here.get_by_role("button", name="Chat")
    bars = here.locator(".mew-chart path.filled.is-chat")
    assert bars.count() == 1
    book.click(chip)
    book.page.until(lambda: bars.count() == 0, "the chat to go")
    assert chip.get_attribute("aria-pressed") == "false"
    book.click(chip)
    book.page.until(lambda: bars.count() == 1, "the chat to come back")
    for name, low, high in (("1 h", 3600, 3680), ("Fit", 1, 60), ("5 min", 300, 310), ("Fit", 1, 60)):
        book.click(here.get_by_role("button", name=name, exact=True))
        book.page.until(lambda low=low, high=high: low <= spanned(here) < high, f"{name} to be shown")  # type: ignore[misc]
        pressed = here.locator(".mew-spans button[aria-pressed=true]")
        assert pressed.all_inner_texts() == [name]
    strip = here.locator(".mew-strip-decision")
    assert "of 2, 2 by you · 1 waiting" in strip.inner_text()
    book.click(strip.get_by_role("button", name="oldest"))
    book.page.until(lambda: here.get_attribute("data-chosen"), "the exchange that waits")
    assert heads(here) == ["helper", "git"] and here.locator(".mew-stage g[data-seq]").count() == 1
    # It grows when it is decided; who reads its table by keyboard stays there.
    book.click(here.locator("summary"))
    table = here.get_by_role("region", name="Messages of the exchange")
    go = table.locator("tbody button").first.element_handle()
    assert go is not None
    go.focus()
    told = table.locator("tbody tr").count()
    # From no cell, for to run one takes the keyboard.
    kernel = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    book.tab.evaluate(f"code => {{ {kernel}.requestExecute({{ code }}); }}", 'lab.reject(r.id, "busy")')
    book.page.until(lambda: here.locator(".mew-stage g[data-seq]").count() == 3, "its end to join")
    assert "mcp/reject" in (here.locator(".mew-stage").text_content() or "")
    assert table.locator("tbody tr").count() == told + 2
    assert go.evaluate("n => n === document.activeElement")
    assert here.locator("summary").inner_text() == f"The {told + 2} messages as a table"
    book.page.until(lambda: "waiting" not in strip.inner_text(), "nothing to wait any more")
    # A point under the mouse is the fulfilled proposal.
    drawn = strip.locator("path.dots.is-capability")
    at = re.match(r"M([\d.]+) ([\d.]+)", drawn.get_attribute("d") or "")
    edge = strip.locator("svg").bounding_box()
    assert at is not None and edge is not None
    book.tab.mouse.click(edge["x"] + float(at[1]), edge["y"] + float(at[2]))
    book.page.until(lambda: here.locator(".mew-stage g[data-seq]").count() == 10, "the exchange of the point")
    assert "approved by human" in strip.inner_text()
    book.click(here.get_by_role("button", name="Clear"))
    book.page.until(lambda: here.locator(".mew-stage").is_hidden(), "the diagram to go")
    # By keyboard: a bar is read, a point is chosen, an id is typed.
    rate = here.get_by_role("slider", name="Messages per second")
    rate.focus()
    book.tab.keyboard.press("Home")
    assert ": " in (rate.get_attribute("aria-valuetext") or "") and rate.get_attribute("aria-valuenow") == "0"
    decisions = here.get_by_role("slider", name="How long proposals waited")
    decisions.focus()
    book.tab.keyboard.press("Home")
    assert "rejected by human" in (decisions.get_attribute("aria-valuetext") or "")
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: heads(here) == ["reviewer", "git", "human"], "the exchange of the first decision")
    field = here.get_by_role("textbox")
    field.fill(p)
    book.click(here.get_by_role("button", name="Show exchange"))
    book.page.until(lambda: heads(here) == ["human", "helper", "git", "gateway"], "the exchange of that id")
    assert here.locator(".mew-stage g[data-seq]").count() == 10
    assert here.locator(".mew-stage path.dashed").count() == 1
    field.fill("nobody")
    field.press("Enter")
    here.get_by_role("alert").wait_for()
    assert "no such message" in here.get_by_role("alert").inner_text()
    book.run(4)
    after, _, _, rest = book.text(4).split(maxsplit=3)
    assert rest.startswith("Exchange of 10 messages")
    # The view itself said nothing in the space: the rejection came, and the withdrawal by its proposer.
    assert int(after) == int(before) + 2 and q
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 5 and book.page.errors == []


@pytest.mark.slow
def test_a_time_that_is_marked_is_zoomed_and_filters_the_messages(plain: Callable[..., Notebook]) -> None:
    book = plain([UP, SCENE, SHOW, "lab.view.feed"]).run(0).run(1).run(2).run(3)
    here, feed = shown(book, 2), book.area(3).locator("section.mew-feed")
    book.page.until(lambda: feed.get_attribute("data-last"), "the messages")
    rate = here.get_by_role("slider", name="Messages per second")
    seconds = spanned(here)
    assert seconds < 120, "the charts show the session, and no empty time after it"
    # With the keyboard: two bars.
    rate.focus()
    for key in ("Home", "Shift+ArrowRight"):
        book.tab.keyboard.press(key)
    chosen_time = here.get_by_role("group", name="The selected time")
    chosen_time.wait_for()
    book.tab.keyboard.press("Escape")
    chosen_time.wait_for(state="hidden")

    def rows() -> int:
        return int(feed.locator("table").get_attribute("aria-rowcount") or 0)

    # With the mouse: the first half.
    box = rate.bounding_box()
    assert box is not None
    book.tab.mouse.move(box["x"] + 56, box["y"] + 60)
    book.tab.mouse.down()
    book.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=5)
    book.tab.mouse.up()
    chosen_time.wait_for()
    whole = rows()
    book.click(chosen_time.get_by_role("button", name="Show messages"))
    chip = feed.get_by_role("button", name="Remove the time")
    chip.wait_for()
    book.page.until(lambda: rows() < whole, "the messages of that time alone")
    book.click(chip)
    book.page.until(lambda: rows() >= whole, "all messages")
    book.click(chosen_time.get_by_role("button", name="Zoom in"))
    book.page.until(lambda: spanned(here) < seconds, "the half of it")
    book.click(here.get_by_role("button", name="Reset zoom"))
    book.page.until(lambda: spanned(here) == seconds, "the whole again")
    # A message of the list is shown here, with its exchange.
    assert feed.evaluate("(r) => r.querySelector('.mew-text') !== null")
    book.click(feed.locator(".mew-text", has_text="Wants to run git_commit").first)
    book.click(feed.get_by_role("button", name="Show in timeline"))
    here.locator(".mew-stage svg").wait_for()
    book.click(here.locator("summary"))
    book.click(here.get_by_role("button", name=re.compile(r"^#\d+$")).first)
    book.page.until(lambda: feed.locator("tr[aria-selected=true]").count() == 1, "the message")


@pytest.mark.slow
def test_a_notebook_that_nobody_trusts_keeps_the_pictures(
    notebook: Callable[..., Notebook], open_notebook: Callable[..., Notebook], tmp_path: Path
) -> None:
    """JupyterLab takes SVG out of such a page, and leaves images: the pictures are images."""
    book = notebook([UP, SCENE, "lab.view.timeline.select(p.id)", SHOW]).run_all()
    shown(book, 3)
    # The picture may be seen once the live view had its time to come.
    book.page.until(lambda: " hidden>" not in json.dumps(book.outputs(3)), "the picture without its cover")
    saved = book.save()
    del saved["cells"][3]["outputs"][1]  # the live view
    outputs = saved["cells"][3]["outputs"][0]["data"]
    assert "<img" in "".join(outputs["text/html"]) and "Timeline of demo" in "".join(outputs["text/plain"])
    outputs["text/html"] = "".join(outputs["text/html"]) + "<svg><text>drawn</text></svg>"
    for cell in saved["cells"]:
        cell["metadata"].pop("trusted", None)
    saved["metadata"].pop("signature", None)
    copy = tmp_path / "copy.ipynb"
    copy.write_text(json.dumps(saved), "utf-8")
    book.close()
    again = open_notebook(copy)
    # Beside the output, JupyterLab has an icon of its own for what is tall, which is SVG too.
    kept = again.area(3).locator(".jp-OutputArea-output")
    again.page.until(lambda: kept.locator("img").count() == 3, "the pictures")
    # Were this notebook trusted, the drawing beside the pictures would stay, and the test would show nothing.
    again.page.until(lambda: kept.locator("svg").count() == 0, "the drawing to be taken out")
    assert again.area(2).locator("img").count() == 1
    for index in (2, 3):
        assert again.area(index).locator("img").first.evaluate("i => i.complete && i.naturalWidth > 300")
    assert "mcp/proposal" in again.area(3).inner_text()
