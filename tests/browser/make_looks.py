"""Shoots every part of the control room for looking at: light and dark, 1600, 1200 and 360 px wide; empty, busy, and full.

    python tests/browser/make_looks.py FOLDER [--only PART …]

The files are named `<part>-<empty|busy|full>-<width>-<light|dark>.png`, such as `panel-busy-1600-light.png`. They are for eyes,
and are not kept. Part of it may be beside a mock-up, so widths are those of the part, not of the window.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from make_pictures import SCENE, WAITING, make_room, opened, settle
from playwright.sync_api import Locator
from real_lab import Notebook
from test_workshop_view import DOCUMENT, SCRIPT

from mew_lab.views.views import PARTS

WIDTHS = (1600, 1200, 360)
EMPTY = "%load_ext mew_lab\nimport mew_lab\nlab = mew_lab.up('workshop', journal=None)"
# The workshop has a file open, of a tool with two parameters and a model that answers from a script.
OPEN_FILE = f"""
import json
from mew_lab.agent.models import ScriptedModel
from mew_lab.tools_agent.agent_file import save_agent_file
save_agent_file(json.loads({json.dumps(json.dumps(DOCUMENT))}), "shop.yaml")
lab.view.workshop.open_file("shop.yaml", model=ScriptedModel({SCRIPT}))
"""
# Forty participants, with names of every length, of whom twelve wait for a decision.
CROWD = """
crowd = [lab.join(f"worker-{n:02}" + "-of-the-second-shift" * (n % 3), can="proposer") for n in range(40 - len(lab.who()))]
asked = [seat.call("notebook/run_tests", {"path": f"tests/{n}", "quick": n % 2 == 0}) for n, seat in enumerate(crowd[:12])]
for seat in crowd: seat.chat(f"This is {seat.name}.")
while len(lab.proposals()) < 19: pass
print(len(lab.who()))
"""
# What is opened before a part is shot: the tools have a form only when one is chosen.
OPENED = {"tools": "[role=option], .mew-tool", "streams": "tbody tr", "feed": "tbody tr:last-child"}


def show(book: Notebook, cell: int, part: str) -> Locator:
    """The part as the value of that cell, drawn."""
    book.run(cell)
    section = book.area(cell).locator(f"section.mew-{part}").first
    section.wait_for()
    return section


def shoot(book: Notebook, part: str, section: Locator, state: str, folder: Path) -> int:
    """All shots of a part in that state; how many there are."""
    for theme in ("light", "dark"):
        book.page.theme(theme)
        for width in WIDTHS:
            section.evaluate(
                "(node, width) => { node.style.width = width + 'px'; node.scrollIntoView({ block: 'start' }); }",
                width,
            )
            # A part lays itself out anew when its width changes.
            book.page.pause(0.2)
            settle(book)
            section.screenshot(path=folder / f"{part}-{state}-{width}-{theme}.png")
    book.page.theme("light")
    section.evaluate("node => { node.style.width = ''; }")
    return 2 * len(WIDTHS)


def main() -> None:
    parser = argparse.ArgumentParser(description="Shoots every part of the control room for looking at.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), default=sorted(PARTS))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    parts, count = arguments.only, 0
    for state, setup in (
        ("empty", [EMPTY]),
        ("busy", [SCENE, WAITING, OPEN_FILE]),
        ("full", [SCENE, WAITING, CROWD, OPEN_FILE]),
    ):
        with opened({"width": 1800, "height": 1200}) as open_book:
            book = open_book([*setup, *(f"lab.view.{part}" for part in parts)])
            make_room(book)
            for n in range(len(setup)):
                book.run(n)
                faults = book.area(n).locator("[data-mime-type='application/vnd.jupyter.error']")
                if faults.count():
                    raise SystemExit(faults.first.inner_text())
            for n, part in enumerate(parts, len(setup)):
                section = show(book, n, part)
                if state != "empty" and part in OPENED and section.locator(OPENED[part]).count():
                    section.locator(OPENED[part]).first.click(force=True)
                count += shoot(book, part, section, state, arguments.folder)
                print(f"{part}, {state}", flush=True)
    print(f"{count} pictures in {arguments.folder}")


if __name__ == "__main__":
    main()
