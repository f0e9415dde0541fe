"""The control room in Jupyter Notebook 7, the other front end: the same widgets, the same clicks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import httpx
import pytest
from lab_server import LabServer, write_notebook
from playwright.sync_api import BrowserContext
from real_lab import Page
from scenes import ADDING, PROPOSE, armed

CELLS = [ADDING + PROPOSE, "%mew panel", "print('the sum is', await p)", "print('it goes on')"]
RUN = 3  # of them, by hand before the approval


@pytest.fixture
def page_of(window: BrowserContext, lab_server: LabServer) -> Iterator[Callable[[str], Page]]:
    page = Page(window.new_page(), lab_server)

    def show(name: str) -> Page:
        page.tab.goto(
            f"{lab_server.url}/notebooks/{name}?token={lab_server.token}", wait_until="domcontentloaded"
        )
        return page

    yield show
    page.tab.close()
    # This front end does not hand its application out: the kernels end through the server's own interface.
    headers = {"Authorization": f"token {lab_server.token}"}
    for session in httpx.get(f"{lab_server.url}/api/sessions", headers=headers).json():
        httpx.delete(f"{lab_server.url}/api/sessions/{session['id']}", headers=headers)


def begin(page: Page, index: int) -> None:
    """Runs that code cell by its keys.

    Keys that come before the kernel is there run nothing and select the next cell, so the cell is selected each time.
    """
    cell = page.tab.locator(".jp-CodeCell").nth(index)

    def begun() -> bool:
        if not cell.locator(".jp-InputPrompt").inner_text().strip("[]: "):
            cell.locator(".cm-content").click()
            page.tab.keyboard.press("Shift+Enter")
            page.pause(0.5)  # a key that was taken shows by then; a second one would run the cell again
        return bool(cell.locator(".jp-InputPrompt").inner_text().strip("[]: "))

    page.until(begun, f"cell {index} to begin")


@pytest.mark.slow
def test_the_control_room_decides_in_notebook_7(
    page_of: Callable[[str], Page], lab_server: LabServer
) -> None:
    name = f"{secrets.token_hex(4)}.ipynb"
    write_notebook(lab_server.root / name, CELLS, kernel="here")
    page = page_of(name)
    for n in range(RUN):
        begin(page, n)
    room = page.tab.locator("section.mew-panel")
    room.locator("section.mew-feed").wait_for()
    button = room.locator("button.mew-approve")
    button.wait_for()
    armed(page, button)
    button.click()
    page.until(lambda: "the sum is 3" in page.tab.locator(".jp-Notebook").inner_text(), "the sum")
    # The notebook goes on by its own keys.
    page.tab.keyboard.press("Shift+Enter")
    page.until(
        lambda: (
            "it goes on" in page.tab.locator(".jp-Cell").nth(RUN).locator(".jp-OutputArea").first.inner_text()
        ),
        "the next cell",
    )


@pytest.mark.slow
def test_in_notebook_7_a_card_out_of_sight_calls_by_its_notification(
    page_of: Callable[[str], Page], lab_server: LabServer
) -> None:
    name = f"{secrets.token_hex(4)}.ipynb"
    far = "#md " + "\n\n".join(f"Line {n}" for n in range(80))
    write_notebook(lab_server.root / name, [ADDING, "lab.view.approvals", far, PROPOSE], kernel="here")
    page = page_of(name)
    for n in range(3):
        begin(page, n)
    toast = page.tab.locator(".Toastify__toast", has_text="1 request in demo waits for you.")
    page.until(lambda: toast.count() == 1, "the notification")
    assert page.tab.title().startswith("(1)")
    toast.get_by_role("button", name="Show").click()
    card = page.tab.locator("li.mew-card:not(.mew-past)").first
    page.until(lambda: card.evaluate("card => card === document.activeElement"), "the focus on the card")
