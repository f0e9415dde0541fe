"""Tests that drive a real JupyterLab in a real Chromium.

Fixtures, from the one that tests want to the one below all:

`notebook(cells, kernel="here", fresh=False) -> Notebook`
    Writes a notebook of code cells (a cell that starts with `#md ` is text), opens it, and closes it after the
    test. `kernel`: a name that `lab_server.add_kernel` knows; "here" is the interpreter of the tests. A kernel
    is cleaned after a test and used by the next one, of whichever module; `fresh` is for tests that change more of it
    than that takes back, or that need one which never ran anything. Only one notebook is open at a time.
`plain(cells) -> Plain`
    Cells that run in this process, and their views on a page that is no JupyterLab: for most of what a person does.
`bare(view, **how) -> Bare`
    One view of this process alone on a page: what is lost, and what a person sees of it. What went wrong in the page or
    in the view fails the test.
`open_notebook(path, kernel="here") -> Notebook`
    The same for an existing .ipynb, of which a copy is opened.
`kernel_of(version) -> str`
    The name of a kernel with exactly that ipykernel, for `notebook(…, kernel=…)`. Slow tier only.
`page`, `lab_server`
    What these are made of: one server for a process of tests, and one Chromium with one tab, in which JupyterLab is
    loaded once. After a module its documents, styles and storage are taken away, and where something else is left the
    tab is replaced; a Chromium that has ended is started anew for the next test.
`window`
    A browser context of the module's own, for pages that are no JupyterLab.

A `Notebook` can `run(n)`, `run(n, wait=False)`, `run_all()`, `wait(n)`, `text(n)`, `outputs(n)`, `area(n)` (a
Playwright locator), `click(locator)` (mouse, at coordinates), `save()`, `reload()`, `interrupt()`; its
`.page` can `theme("dark")`, `shot(name)`, `shots(name)` (light and dark, into shots/), `until(probe, what)`;
`.tab` is Playwright's own page.

Without a Chromium on PATH these tests are skipped with a reason; where the environment variable CI is set
they fail.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

# tests/ is no package; the modules beside this file are found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

import kernels as other_kernels
from bare import Bare
from lab_server import LabServer, write_notebook
from plain import Plain
from playwright.sync_api import BrowserContext
from real_lab import Notebook, Page, SharedBrowser, find_chromium

from mew_lab.lab.labs import close_all


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            # The first test of a module also starts the browser, of the session the server; a busy machine
            # takes its time for both. Each wait has its own, shorter deadline.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


SHARED = SharedBrowser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Ends the browser after the last of these tests that this process runs, before asyncio tests need the event loop."""
    try:
        yield
    finally:
        if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
            SHARED.close()


@pytest.fixture(scope="session")
def shared_browser() -> SharedBrowser:
    return SHARED


@pytest.fixture(scope="session")
def executable() -> str:
    path = find_chromium()
    if path is None:
        reason = "no chromium, chromium-browser or google-chrome on PATH"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="module")
def tidied() -> Iterator[None]:
    yield
    SHARED.tidy()


@pytest.fixture
def window(tidied: None, executable: str) -> BrowserContext:
    return SHARED.window(executable)


@pytest.fixture
def page(tidied: None, executable: str, lab_server: LabServer) -> Page:
    page = SHARED.page(executable, lab_server)
    page.errors.clear()
    page.dialogs.clear()
    return page


@pytest.fixture
def notebook(page: Page, lab_server: LabServer) -> Iterator[Callable[..., Notebook]]:
    opened: list[tuple[Notebook, str | None]] = []

    def make(cells: Sequence[str], kernel: str = "here", *, fresh: bool = False) -> Notebook:
        name = f"{secrets.token_hex(4)}.ipynb"
        write_notebook(lab_server.root / name, cells, kernel=kernel)
        book = Notebook(page, name, kernel=None if fresh else lab_server.kernels.pop(kernel, None))
        opened.append((book, None if fresh else kernel))
        return book.open()

    yield make
    lab_server.preferences.unlink(missing_ok=True)  # what a test has set is not set for the next one
    for book, kind in opened:
        if kind is None:
            book.close()
            page.ended()  # what the page says of this kernel's end is no fault of the next test
        elif kind in lab_server.kernels:
            book.close()
        elif (id := book.hand_over()) is not None:
            lab_server.kernels[kind] = id


@pytest.fixture
def plain(window: BrowserContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Plain]]:
    opened: list[Plain] = []

    def make(cells: Sequence[str]) -> Plain:
        opened.append(Plain(window, cells))
        # A cell that changes what is of the process leaves it so to every later test, unless it does it by this.
        opened[-1].shell.push({"monkeypatch": monkeypatch})
        return opened[-1]

    yield make
    for book in opened:
        book.close()
    assert [book.page.errors for book in opened] == [[]] * len(opened)


@pytest.fixture
def bare(window: BrowserContext) -> Iterator[Callable[..., Bare]]:
    shown: list[Bare] = []

    def show(view: Any, **how: Any) -> Bare:
        shown.append(Bare(window, view, **how))
        return shown[-1]

    yield show
    for page in shown:
        page.close()
    close_all()
    assert [(page.errors, list(page.view.faults)) for page in shown] == [([], [])] * len(shown)


@pytest.fixture
def open_notebook(page: Page, lab_server: LabServer) -> Iterator[Callable[..., Notebook]]:
    opened: list[Notebook] = []

    def make(path: Path, kernel: str = "here") -> Notebook:
        name = f"{secrets.token_hex(4)}-{path.name}"
        content = json.loads(path.read_text("utf-8"))
        content["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        (lab_server.root / name).write_text(json.dumps(content), "utf-8")
        opened.append(Notebook(page, name))
        return opened[-1].open()

    yield make
    for book in opened:
        book.close()


@pytest.fixture
def kernel_of(lab_server: LabServer) -> Callable[[str], str]:
    def name(version: str) -> str:
        return lab_server.add_kernel(f"ipykernel-{version}", other_kernels.python_with_ipykernel(version))

    return name
