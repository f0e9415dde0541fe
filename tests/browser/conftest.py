"""Tests that drive a real JupyterLab in a real Chromium.

Fixtures, from the one that tests want to the one below all:

`notebook(cells, kernel="here") -> Notebook`
    Writes a notebook of code cells (a cell that starts with `#md ` is text), opens it in a fresh tab with a
    fresh kernel, and ends both after the test. `kernel`: a name that `lab_server.add_kernel` knows; "here" is
    the interpreter of the tests.
`open_notebook(path, kernel="here") -> Notebook`
    The same for an existing .ipynb, of which a copy is opened.
`kernel_of(version) -> str`
    The name of a kernel with exactly that ipykernel, for `notebook(…, kernel=…)`. Slow tier only.
`page`, `lab_server`, `browser`
    What these are made of: one server for the session, one browser for a module (Playwright's sync API
    occupies the thread's event loop while it lives, so asyncio tests of other modules must not find it), one
    tab for a test.

A `Notebook` can `run(n)`, `run(n, wait=False)`, `run_all()`, `wait(n)`, `text(n)`, `outputs(n)`, `area(n)` (a
Playwright locator), `click(locator)` (mouse, at coordinates), `save()`, `reload()`, `interrupt()`; its
`.page` can `theme("dark")`, `shot(name)`, `shots(name)` (light and dark, into shots/), `until(probe, what)`;
`.tab` is Playwright's own page.

Without a Chromium on PATH these tests are skipped with a reason; where the environment variable CI is set
they fail.
"""

from __future__ import annotations

import os
import secrets
import shutil
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


@pytest.fixture
def page(window: BrowserContext, lab_server: LabServer) -> Iterator[Page]:
    tab = window.new_page()
    yield Page(tab, lab_server)
    tab.close()


@pytest.fixture
def notebook(page: Page, lab_server: LabServer) -> Iterator[Callable[..., Notebook]]:
    opened: list[Notebook] = []

    def make(cells: Sequence[str], kernel: str = "here") -> Notebook:
        name = f"{secrets.token_hex(4)}.ipynb"
        write_notebook(lab_server.root / name, cells, kernel=kernel)
        opened.append(Notebook(page, name))
        return opened[-1].open()

    yield make
    for book in opened:
        book.close()


@pytest.fixture
def open_notebook(page: Page, lab_server: LabServer) -> Iterator[Callable[..., Notebook]]:
    opened: list[Notebook] = []

    def make(path: Path) -> Notebook:
        name = f"{secrets.token_hex(4)}-{path.name}"
        shutil.copy(path, lab_server.root / name)
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
