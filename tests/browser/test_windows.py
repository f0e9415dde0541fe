"""Several windows and several kernels look at one space: one decision, seen by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from lab_server import LabServer, write_notebook
from playwright.sync_api import Locator
from real_lab import Notebook, Page
from scenes import ADDING, PROPOSE, armed


def card(book: Notebook, index: int) -> Locator:
    return book.area(index).locator("section.mew-approvals li.mew-card").first


def approve(book: Notebook, index: int) -> None:
    button = card(book, index).locator("button.mew-approve")
    armed(book.page, button)
    book.click(button)


@pytest.fixture
def second_window(page: Page, lab_server: LabServer) -> Iterator[Page]:
    second = Page(page.tab.context.new_page(), lab_server)
    yield second
    second.tab.close()


@pytest.mark.slow
@pytest.mark.trap("T-13")
@pytest.mark.threat(18)
def test_two_windows_on_one_kernel_decide_once(
    notebook: Callable[..., Notebook], second_window: Page
) -> None:
    book = notebook([ADDING, "lab.view.approvals", PROPOSE, "print(await p)"]).run(0).run(1).run(2)
    card(book, 1).wait_for()
    book.save()
    other = Notebook(second_window, book.path).open()
    card(other, 1).locator("button.mew-approve").wait_for()
    book.run(3, wait=False)
    approve(other, 1)
    assert book.wait(3).text(3).strip().endswith("3")
    for one in (book, other):
        one.page.until(lambda one=one: card(one, 1).locator("button").count() == 0, "the card to collapse")
        assert "Approved by you after" in card(one, 1).inner_text()
    book.tab.bring_to_front()


@pytest.mark.slow
@pytest.mark.threat(18)
def test_two_kernels_on_one_space_see_whose_decision_it_was(
    notebook: Callable[..., Notebook], second_window: Page, lab_server: LabServer
) -> None:
    enrol = 'lab.enrol("colleague", can="human")\nprint(lab.url, lab.token_file("colleague"))'
    book = notebook([ADDING, "lab.view.approvals", enrol, PROPOSE, "print(await p)"]).run(0).run(1).run(2)
    url, token = book.text(2).split()[-2:]
    connect = f"%load_ext mew_lab\n%mew connect {url} --space demo --token-file {token} --name there"
    name = book.path.replace(".ipynb", "-there.ipynb")
    write_notebook(lab_server.root / name, [connect, "lab.view.approvals"], kernel="here")
    other = Notebook(second_window, name).open().run(0).run(1)
    try:
        book.run(3)
        card(other, 1).wait_for()
        book.run(4, wait=False)
        approve(other, 1)
        assert book.wait(4).text(4).strip().endswith("3")
        for one in (book, other):
            one.page.until(
                lambda one=one: card(one, 1).locator("button").count() == 0, "the card to collapse"
            )
            assert f"Approved by {'you' if one is other else 'colleague'}" in card(one, 1).inner_text()
    finally:
        other.close()
    book.tab.bring_to_front()
