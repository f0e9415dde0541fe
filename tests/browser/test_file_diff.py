"""What a person sees of a file that a call would change, and what becomes of the press where the file is another one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import PAYLOADS, harmless, listen
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import armed

SERVER = Path(__file__).parent.parent / "bridge" / "saving_server.py"
OLD = "".join(f"bed {n}: beans\n" for n in range(1, 41))
NEW = OLD.replace("bed 20: beans", "bed 20: peas").replace("bed 21: beans\n", "")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with a plan of forty beds, given to a server."""
    folder = tmp_path / "work" / "garden"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text(OLD)
    return folder


def cells(folder: Path, *more: str) -> list[str]:
    start = f"""%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
lab.bridge("notes", [{sys.executable!r}, {str(SERVER)!r}], cwd={str(folder)!r}, writes={{"save": ("path", "content")}})
bot = lab.join("bot", can="proposer")
new = {NEW!r}
"""
    return [start, "lab.view.approvals", *more]


def propose(path: str = "plan.txt") -> str:
    return f'p = bot.call("notes/save", {{"path": {path!r}, "content": new}})'


def card(book: Notebook) -> Locator:
    return book.area(1).locator("li.mew-card").first


@pytest.mark.threat(14)
def test_a_card_shows_what_changes_in_a_file_and_a_press_writes_that(
    plain: Callable[..., Notebook], notes: Path
) -> None:
    book = plain(cells(notes, propose())).run(0).run(1).run(2)
    diff = card(book).locator(".mew-filediff")
    diff.wait_for()
    assert diff.locator("del").all_inner_texts() == ["- bed 20: beans\n", "- bed 21: beans\n"]
    assert diff.locator("ins").all_inner_texts() == ["+ bed 20: peas\n"]
    assert "… 16 equal lines" in diff.inner_text() and "bed 1:" not in diff.inner_text()
    shown = card(book).locator(".mew-file").inner_text()
    assert "plan.txt inside garden/" in shown and "+1 −2" in shown and "nothing locks the file" in shown
    # The value of 39 lines is shown by the difference: it may stay folded.
    assert card(book).locator("button.mew-open").text_content() == "Expand all 39 lines"
    book.click(armed(book.page, card(book).locator("button.mew-approve")))
    outcome = book.area(1).locator(".mew-past .mew-outcome")
    book.page.until(lambda: "saved plan.txt" in outcome.first.inner_text(), "the answer")
    assert (notes / "plan.txt").read_text() == NEW


@pytest.mark.threat(14)
def test_a_file_that_changed_meanwhile_is_shown_anew_before_it_is_written(
    plain: Callable[..., Notebook], notes: Path
) -> None:
    book = plain(cells(notes, propose(), "print(p.state)")).run(0).run(1).run(2)
    button = armed(book.page, card(book).locator("button.mew-approve"))
    (notes / "plan.txt").write_text(OLD + "bed 41: leeks\n")
    book.click(button)
    told = card(book).locator(".mew-notice")  # it stays; the notice of the card ends with the new comparison
    book.page.until(lambda: "has changed since it was shown" in told.inner_text(), "the refusal")
    removed = card(book).locator(".mew-filediff del")
    book.page.until(lambda: "- bed 41: leeks" in "".join(removed.all_inner_texts()), "the new comparison")
    assert "open" in book.run(3).text(3) and "leeks" in (notes / "plan.txt").read_text()
    book.click(armed(book.page, button))
    outcome = book.area(1).locator(".mew-past .mew-outcome")
    book.page.until(lambda: "saved plan.txt" in outcome.first.inner_text(), "the answer")
    assert (notes / "plan.txt").read_text() == NEW


@pytest.mark.slow
def test_the_cell_that_waits_shows_the_change_and_takes_the_yes_by_keyboard(
    notebook: Callable[..., Notebook], notes: Path
) -> None:
    start, *_ = cells(notes)
    book = notebook([start, propose(), "print(await p)"]).run(0).run(1)
    book.run(2, wait=False)
    one = book.area(2).locator("li.mew-card").first
    one.locator(".mew-filediff ins").first.wait_for()
    armed(book.page, one.locator("button.mew-approve"))
    one.focus()
    book.tab.keyboard.press("a")
    book.wait(2)
    assert "saved plan.txt" in book.text(2) and (notes / "plan.txt").read_text() == NEW


@pytest.mark.slow
def test_what_cannot_be_compared_says_why_and_is_read_whole(
    plain: Callable[..., Notebook], notes: Path
) -> None:
    (notes / "way.txt").symlink_to(notes / "plan.txt")
    book = plain(cells(notes, propose("way.txt"))).run(0).run(1).run(2)
    told = card(book).locator(".mew-filewhy")
    told.wait_for()
    assert "it is a link" in told.inner_text() and card(book).locator(".mew-filediff").count() == 0
    button = card(book).locator("button.mew-open")
    assert button.inner_text() == "Expand all 39 lines to approve"


@pytest.mark.threat(3)
@pytest.mark.slow
def test_hostile_lines_of_a_file_are_lines_of_text(plain: Callable[..., Notebook], notes: Path) -> None:
    lines = [payload.replace("\n", " ") for payload in PAYLOADS]
    (notes / "plan.txt").write_bytes("\n".join(lines).encode("utf-8", "replace"))
    (notes / "new.txt").write_bytes("\n".join(reversed(lines)).encode("utf-8", "replace"))
    read = f"new = open({str(notes / 'new.txt')!r}, newline='').read()"
    book = plain([*cells(notes, f"{read}\n{propose()}")]).run(0).run(1)
    asked = listen(book)
    book.run(2)
    diff = card(book).locator(".mew-filediff")
    diff.wait_for()
    assert diff.locator("ins").count() > 100 and "<img src=x" in diff.inner_text()
    allowed = "header kbd div section span b bdi ul li table tbody tr th td button input i del ins".split()
    harmless(book, book.area(1).locator("section.mew"), allowed=allowed, asked=asked)
