"""The lesson about the control room, the saved notebook, in a real browser: the panel decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator
from real_lab import Notebook
from scenes import look_at

ARMED = "all => all.some(one => one.getAttribute('aria-disabled') === 'false')"
LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "03-control-room.ipynb"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.req("P-9.1-1")
def test_the_control_room_of_the_lesson_decides(
    open_notebook: Callable[[Path], Notebook], tmp_path: Path
) -> None:
    lesson = nbformat.read(LESSON, 4)
    starts = [cell.source.splitlines()[0] if cell.cell_type == "code" else "" for cell in lesson.cells]
    # Who reads all eight would reject the bad ones; here a policy rejects all, as somebody very careful.
    no = nbformat.v4.new_code_cell("lab.decide = mew_lab.Policy.deny()")
    lesson.cells.insert(starts.index("while lab.proposals():"), no)
    lesson.cells[1].source += "\nimport mew_lab"
    path = tmp_path / LESSON.name
    nbformat.write(lesson, path)

    book = open_notebook(path)
    book.tab.evaluate("async () => { await jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    panel, answer = starts.index("%mew panel"), starts.index("print(await p)")
    training = starts.index("while lab.proposals():") + 1
    for n, cell in enumerate(lesson.cells):
        if cell.cell_type != "code":
            continue
        if n == answer:
            book.run(n, wait=False)
            button = book.area(panel).locator("button.mew-approve")

            def approved(n: int = n, button: Locator = button) -> bool:
                # A card that has been decided has no button any more.
                if button.evaluate_all(ARMED):
                    book.click(button)
                return not book.running(n)

            look_at(button)
            book.page.until(approved, "the click to be taken")
            book.wait(n)
        else:
            book.run(n)
        said = book.text(n)
        assert "Traceback" not in said and "Error: " not in said, said
    assert "50 litres on the north bed" in book.text(answer)
    assert "2 of 2 planted ones caught" in book.text(training)
    assert book.page.errors == [] and book.page.dialogs == []
