"""A saved notebook shows what was last seen: the stored picture follows the live view, and leaves it alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from real_lab import Notebook
from scenes import ADDING, PROPOSE, armed


def stored(book: Notebook, cell: int) -> str:
    """The HTML that the saved file has for a cell."""
    outputs: list[dict[str, Any]] = book.save()["cells"][cell]["outputs"]
    return "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)


@pytest.mark.trap("T-15")
@pytest.mark.parametrize("part", [pytest.param("panel", marks=pytest.mark.slow), "approvals"])
@pytest.mark.slow
def test_a_decision_stands_in_the_file_and_the_live_view_is_not_drawn_anew(
    notebook: Callable[..., Notebook], part: str
) -> None:
    book = notebook([ADDING, f"lab.view.{part}", PROPOSE, "lab.down()"]).run(0).run(1)
    live = book.area(1).locator(f"section.mew-{part}")
    live.wait_for()
    live.evaluate("node => { window.live = node; }")
    book.run(2)
    button = book.area(1).locator("button.mew-approve")
    armed(book.page, button)
    book.click(button)
    book.page.until(
        lambda: "1 decided" in stored(book, 1) or "by human" in stored(book, 1), "the decision in the file"
    )
    html = stored(book, 1)
    assert "wants to run" in html and "add" in html and "Snapshot of " in html and "anywidget" not in html
    assert " hidden" not in html.split(">", 1)[0]
    # The picture was replaced; the live view is the same element, alone on the page.
    assert live.evaluate("node => node === window.live && node.isConnected")
    assert (
        book.area(1)
        .locator(".mew-stored")
        .evaluate_all("all => all.length > 0 && all.every(one => one.offsetParent === null)")
    )
    # A live view that was restored with the page and never met a kernel leaves its place to the picture.
    live.evaluate(
        "n => { for (const one of [n, ...n.querySelectorAll('[data-met]')]) one.removeAttribute('data-met'); }"
    )
    book.area(1).locator(".mew-stored").first.wait_for(state="visible")
    assert not live.is_visible()
    live.evaluate("node => node.setAttribute('data-met', '')")
    book.area(1).locator(".mew-stored").first.wait_for(state="hidden")
    book.run(3)
    assert "stopped" in stored(book, 1).split("</div>", 1)[0]
    assert live.evaluate("node => node === window.live && node.isConnected")

    # Without its kernel the file shows the picture, and nothing that could be pressed.
    book.tab.evaluate(
        "async () => { await jupyterapp.shell.currentWidget.sessionContext.shutdown(); return null; }"
    )
    book.reload()
    picture = book.area(1).locator(".mew-stored")
    picture.wait_for(state="visible")
    assert "Snapshot of " in picture.inner_text() and "wants to run" in picture.inner_text()
    # JupyterLab says under it that the live view has no model any more: the picture tells how to get one.
    missing = book.area(1).locator(".jp-OutputArea-output.jupyter-widgets")
    missing.wait_for(state="attached")
    assert missing.text_content() == "Error displaying widget: model not found"
    missing.wait_for(state="hidden")
    pressed = book.area(1).locator(".jp-OutputArea-output :is(button, input, select, a, form)")
    assert pressed.locator("visible=true").count() == 0
    book.page.shot(f"saved-{part}", book.area(1))
    assert book.page.errors == [] and book.page.dialogs == []
