"""How long is the way to the first approval?  The newcomer's path, timed: clone, install, the first lesson, the first click.

    python tests/benchmarks/newcomer.py TREE [--python PYTHON]

TREE is a checkout; what is committed there is cloned into a temporary folder. An environment is made for it with the extra
`lessons`; how long that takes depends on the cache of packages, so it is told apart. `--python` names an interpreter with
JupyterLab and the dependencies, and no environment is made. Then JupyterLab is started and shows an empty notebook, which is
the measure; it is started again and opened at the first lesson, whose cells are run by Shift+Enter up to the one that waits.
The card is approved as soon as its button is armed, and Shift+Enter runs the rest.

Words are those of the README up to its first command and of the lesson up to and including the cell that waits. Reading is
reckoned at 200 words a minute, of the text alone. A Chromium must be on PATH. The marks: at most 4 times the empty
notebook without the install, 190 words and no warning. The status is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "browser"))

from lab_server import wait_until
from playwright.sync_api import sync_playwright
from real_lab import Notebook, Page, find_chromium, launch

LESSON = "notebooks/01-first-space.ipynb"
MOST_TIMES, MOST_WORDS = 4, 190
WAITS = re.compile(r"\bawait p\b")
WORDS_A_MINUTE = 200


class Before(NamedTuple):
    """What stands before the first click: words of text, words of code, cells of code, all cells."""

    text: int
    code: int
    code_cells: int
    cells: int
    waiting: int


class Server(NamedTuple):
    """A running JupyterLab, as `Page` wants it."""

    url: str
    token: str
    root: Path


def read_lesson(lesson: Path) -> Before:
    """Counts what stands before the first click."""
    cells: list[dict[str, Any]] = json.loads(lesson.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    waiting = next(
        n for n, cell in enumerate(cells) if cell["cell_type"] == "code" and WAITS.search(sources[n])
    )
    words = {"markdown": 0, "code": 0}
    for cell, source in zip(cells[: waiting + 1], sources, strict=False):
        words[cell["cell_type"]] += len(source.split())
    code = sum(cell["cell_type"] == "code" for cell in cells[: waiting + 1])
    return Before(words["markdown"], words["code"], code, waiting + 1, waiting)


def read_front(front: Path) -> int:
    """Counts the words of the README up to and including the command that opens the first lesson."""
    text = front.read_text("utf-8")
    return len(text[: text.index(LESSON) + len(LESSON)].split())


@contextlib.contextmanager
def served(python: str, tree: Path, folder: Path) -> Iterator[Server]:
    """A JupyterLab of that interpreter in that folder, with settings of nobody."""
    token = secrets.token_hex(16)
    names = ("runtime", "config", "data", "ipython", "home", "workspaces", "settings")
    for name in names:
        (folder / name).mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "MEW_", "PYTHON"))}
    mine = {
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "IPYTHONDIR": str(folder / "ipython"),
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(tree),
    }
    command = [
        *(python, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"),
        *("--expose-app-in-browser", f"--ServerApp.root_dir={tree}", f"--IdentityProvider.token={token}"),
        *("--LabApp.news_url=", "--YDocExtension.disable_rtc=True"),
    ]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=kept | mine, stdout=log, stderr=log, cwd=tree, start_new_session=True
        )

    def url() -> str:
        if process.poll() is not None:
            raise RuntimeError((folder / "server.log").read_text()[-2000:])
        for path in (folder / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):
                return str(json.loads(path.read_text())["url"]).rstrip("/")
        return ""

    try:
        yield Server(wait_until(url, "JupyterLab to start", deadline=120, pause=time.sleep), token, tree)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(15)


def approve_first(book: Notebook, lesson: Before) -> tuple[float, float, int]:
    """Runs the lesson by Shift+Enter and approves its first card.

    Returns:
        The seconds until the button was armed, those until the cell had ended then, and how many warnings the card had.
    """
    cells = book.tab.evaluate(
        "() => jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.type)"
    )
    # A saved lesson has outputs and numbers already.
    book.tab.evaluate("async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    active = "() => jupyterapp.shell.currentWidget.content.activeCellIndex"
    book.click(book.tab.locator(".jp-Notebook .jp-Cell").first)
    began = time.monotonic()

    def go_on(numbers: range) -> None:
        for n in numbers:
            book.page.until(lambda n=n: book.tab.evaluate(active) == n, f"cell {n} to be active")  # type: ignore[misc]
            book.tab.keyboard.press("Shift+Enter")
            if cells[n] == "code" and n != lesson.waiting:
                book.wait(n, deadline=120)

    go_on(range(lesson.waiting + 1))
    card = book.tab.locator(
        ".jp-Notebook li.mew-card:visible", has=book.tab.locator("button.mew-approve:visible")
    ).first
    button = card.locator("button.mew-approve")
    button.wait_for()
    card.evaluate("card => card.scrollIntoView({ block: 'center' })")
    book.page.until(lambda: button.get_attribute("aria-disabled") != "true", "the button to arm")
    armed = time.monotonic() - began
    warnings = card.locator(".mew-warning").count()
    book.click(button)
    book.wait(lesson.waiting, deadline=60)
    ended = time.monotonic() - began - armed
    go_on(range(lesson.waiting + 1, len(cells)))
    return armed, ended, warnings


def timed(name: str, work: Callable[[], Any]) -> tuple[str, float]:
    """How long something takes."""
    began = time.monotonic()
    work()
    return name, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="Times the newcomer's path to the first approval.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--python", help="an interpreter that has JupyterLab and the dependencies")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no chromium, chromium-browser or google-chrome on PATH: the path ends in a browser")
    rows: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree, python = folder / "mew_lab", arguments.python

        def run(*command: str) -> None:
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        rows.append(
            timed("clone", lambda: run("git", "clone", "--quiet", str(arguments.tree.resolve()), str(tree)))
        )
        if python is None:
            python = str(folder / "venv" / "bin" / "python")

            def install() -> None:
                run("python3", "-m", "venv", str(folder / "venv"))
                run(python, "-m", "pip", "install", "--quiet", f"{tree}[lessons]")

            rows.append(timed("install (told apart)", install))
        lesson = read_lesson(tree / LESSON)
        words = read_front(tree / "README.md") + lesson.text
        empty = folder / "empty"
        empty.mkdir()
        nothing = json.loads((tree / LESSON).read_text("utf-8"))
        (tree / "empty.ipynb").write_text(json.dumps(nothing | {"cells": []}))
        began = time.monotonic()
        with served(python, tree, empty) as server, sync_playwright() as playwright:
            browser = launch(playwright, chromium)
            try:
                Notebook(Page(browser.new_page(), server), "empty.ipynb").open()  # type: ignore[arg-type]
                measure = time.monotonic() - began
            finally:
                browser.close()
        began = time.monotonic()
        with served(python, tree, folder) as server, sync_playwright() as playwright:
            browser = launch(playwright, chromium)
            try:
                page = Page(browser.new_page(), server)  # type: ignore[arg-type]
                book = Notebook(page, LESSON).open()
                rows.append(("JupyterLab shows the lesson", time.monotonic() - began))
                armed, ended, warnings = approve_first(book, lesson)
                rows.append(("cells run, the card is armed", armed))
                rows.append(("click, and the cell has ended", ended))
            finally:
                browser.close()
    for name, seconds in rows:
        print(f"{name:32} {seconds:6.1f} s")
    machine = sum(seconds for name, seconds in rows if "told apart" not in name)
    reading = lesson.text / WORDS_A_MINUTE * 60
    print(f"{'machine, without the install':32} {machine:6.1f} s")
    print(f"{'an empty notebook':32} {measure:6.1f} s")
    print(f"{'reading, 200 words a minute':32} {reading:6.1f} s")
    print(
        f"before the first click: {lesson.text} words of text, {lesson.code} of code, "
        f"{lesson.code_cells} cells of code, {lesson.cells} cells in all"
    )
    marks = (
        (f"{machine / measure:.1f} times the empty notebook", machine <= MOST_TIMES * measure, MOST_TIMES),
        (f"{words} words with the README", words <= MOST_WORDS, MOST_WORDS),
        (f"{warnings} warnings", not warnings, 0),
    )
    for said, held, most in marks:
        print(f"{said} (at most {most}{'' if held else ': missed'})")
    raise SystemExit(not all(held for _, held, _ in marks))


if __name__ == "__main__":
    main()
