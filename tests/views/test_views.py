"""The views of a lab: made at first use, one of each."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient
from pages import Page

import mew_lab
from mew_lab.lab.lab import Lab
from mew_lab.views.ui.live import LiveView
from mew_lab.views.views import PARTS, Views, close_views


@pytest.fixture
def lab() -> Iterator[Lab]:
    up = mew_lab.up("views", journal=None, port=None)
    yield up
    up.down()


@pytest.mark.trap("T-16")
def test_every_part_is_made_once_of_its_lab_and_ends_once(lab: Lab) -> None:
    looks = Views(lab)
    assert [looks.made(name) for name in PARTS] == [None] * len(PARTS)
    made = {name: getattr(looks, name) for name in PARTS}
    for name, view in made.items():
        assert isinstance(view, LiveView) and view.title == name
        assert getattr(looks, name) is view is looks.made(name)
        assert view.widget is view.widget and view.widget.comm is not None
    close_views()
    close_views()
    assert [view.widget.comm for view in made.values()] == [None] * len(PARTS)
    assert [looks.made(name) for name in PARTS] == [None] * len(PARTS)


def test_the_parts_of_the_panel_are_those_of_the_lab(lab: Lab) -> None:
    parts = [part["name"] for part in Page(lab.view.panel).appear()["parts"]]
    assert {*parts, "panel", "workshop"} == set(PARTS)  # a workshop is about a file, not about the space
    assert lab.view.panel.parts == {name: getattr(lab.view, name) for name in parts}
    close_views()


def test_no_part_takes_the_place_of_what_the_connection_reads_in_a_snapshot(lab: Lab) -> None:
    bot = lab.join("bot", can=[{"kind": "*"}])

    async def work() -> None:
        stream = await bot.participant.streams.request_stream("upload")
        await stream.close()
        await bot.participant.chat("Hello", "human")
        await bot.participant.sender.say("reasoning/start", {"message": "looks"})

    lab.loop.run(work(), timeout=20, doing="filling the parts")
    pages = {name: Page(getattr(lab.view, name)) for name in PARTS}
    pages["streams"].until(lambda: pages["streams"].appear()["ended"] == 1)
    for name, page in pages.items():
        snapshot = page.appear()
        assert (snapshot["over"], snapshot["view"]) == ("", "v1"), name
    lab.down()
    for name, page in pages.items():
        assert "has stopped" in page.until(lambda page=page: page.of("over"))[0]["text"], name
        assert "has stopped" in page.appear()["over"], name
    close_views()


def test_a_lab_that_is_gone_is_not_kept() -> None:
    session = SimpleNamespace(on_down=[], closed=False)
    views = Views(session)  # type: ignore[arg-type]
    kept = weakref.ref(views)
    del views
    assert kept() is None and len(session.on_down) == 1


def test_a_part_that_there_is_not_names_those_that_there_are() -> None:
    one = Views(SimpleNamespace(on_down=[], closed=False))  # type: ignore[arg-type]
    with pytest.raises(
        AttributeError, match=r"no 'rooster' .did you mean 'roster'..; its parts are approvals, chat, feed"
    ):
        _ = one.rooster
    assert set(PARTS) <= set(dir(one))


UP = """
import sys, time
import mew_lab
lab = mew_lab.up(journal=None, port=None)
"""
LOADED = """
from mew_lab.views.views import PARTS
end = time.monotonic() + 60
missing = list(PARTS)
while missing and time.monotonic() < end:
    missing = [name for name in PARTS if f"mew_lab.views.{name}.widget" not in sys.modules]
    time.sleep(0.02)
missing, [name for name in PARTS if lab.view.made(name)]
"""


def test_a_kernel_loads_the_parts_while_nobody_asks_for_them() -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in (UP, LOADED)]
    book = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(book, timeout=90, kernel_name="python3").execute()
    assert book.cells[1].outputs[0]["data"]["text/plain"] == "([], [])"


def test_a_script_loads_no_part_that_it_does_not_ask_for() -> None:
    code = """
import sys, threading, mew_lab, IPython
lab = mew_lab.up(journal=None, port=None)
print([name for name in sys.modules if name.startswith(("mew_lab.views.approvals", "ipywidgets"))])
print([one.name for one in threading.enumerate() if one.name == "mew_lab-views"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[]\n[]\n", done.stderr
