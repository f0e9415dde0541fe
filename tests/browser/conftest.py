"""Tests that drive a real JupyterLab in a real Chromium.

Fixtures, from the one that tests want to the one below all:

`notebook(cells, kernel="here", fresh=False) -> Notebook`
    Writes a notebook of code cells (a cell that starts with `#md ` is text), opens it, and closes it after the
    test. `kernel`: a name that `lab_server.add_kernel` knows; "here" is the interpreter of the tests. A kernel
    is cleaned after a test and used by the next one of the module; `fresh` is for tests that change more of it than
    that takes back, or that need one which never ran anything. The tab and its JupyterLab are the module's; only one
    notebook is open at a time.
`open_notebook(path, kernel="here") -> Notebook`
    The same for an existing .ipynb, of which a copy is opened.
`kernel_of(version) -> str`
    The name of a kernel with exactly that ipykernel, for `notebook(…, kernel=…)`. Slow tier only.
`page`, `lab_server`, `browser`
    What these are made of: one server for the session, one browser for a module (Playwright's sync API
    occupies the thread's event loop while it lives, so asyncio tests of other modules must not find it) and
    in it one tab.

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

import pytest

# tests/ is no package; the modules beside this file are found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

import kernels as other_kernels
from lab_server import LabServer, write_notebook
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from real_lab import Notebook, Page, chromium, find_chromium, new_context


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            # The first test of a module also starts the browser, of the session the server; a busy machine
            # takes its time for both. Each wait has its own, shorter deadline.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(240))
            # A machine that stands still for seconds fails one of a hundred tests of what a person does with a mouse. Where
            # nobody sits before it, the test is run once more, and the summary tells that it was; at a desk it fails.
            if os.environ.get("CI"):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        reason = "no chromium, chromium-browser or google-chrome on PATH"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with sync_playwright() as playwright, chromium(playwright, executable) as running:
        yield running


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[BrowserContext]:
    context = new_context(browser)
    yield context
    context.close()


@pytest.fixture(scope="module")
def one_tab(window: BrowserContext, lab_server: LabServer) -> Iterator[Page]:
    page = Page(window.new_page(), lab_server)
    yield page
    page.ended()
    page.tab.close()


@pytest.fixture
def page(one_tab: Page) -> Page:
    one_tab.errors.clear()
    one_tab.dialogs.clear()
    return one_tab


@pytest.fixture
def notebook(page: Page, lab_server: LabServer) -> Iterator[Callable[..., Notebook]]:
    opened: list[tuple[Notebook, str | None]] = []

    def make(cells: Sequence[str], kernel: str = "here", *, fresh: bool = False) -> Notebook:
        name = f"{secrets.token_hex(4)}.ipynb"
        write_notebook(lab_server.root / name, cells, kernel=kernel)
        book = Notebook(page, name, kernel=None if fresh else page.kernels.pop(kernel, None))
        opened.append((book, None if fresh else kernel))
        return book.open()

    yield make
    for book, kind in opened:
        if kind is None or kind in page.kernels:
            book.close()
        elif (id := book.hand_over()) is not None:
            page.kernels[kind] = id


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
