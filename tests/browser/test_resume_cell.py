"""After the end of a kernel a view gives the cell that goes on with its space, and that cell does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bare import Bare
from real_lab import Notebook
from scenes import ADDING, PROPOSE
from seat import Seat

from mew_lab.views.approvals.widget import ApprovalsView

UP = ADDING.replace("mew_lab.up(journal=None)", "mew_lab.up('beds')")
GONE = "The kernel of this view is gone."


def restart(book: Notebook) -> None:
    """As a person restarts the kernel, without the question."""
    book.tab.evaluate(
        """async () => { const { sessionContext } = jupyterapp.shell.currentWidget;
             await sessionContext.session.kernel.restart(); return null; }"""
    )


@pytest.mark.slow
def test_a_button_inserts_the_cell_that_resumes_the_space_in_the_next_kernel(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([UP + PROPOSE, "lab.view.approvals", "print('further down')"], fresh=True)
    book.run(0).run(1)
    book.area(1).locator("li.mew-card").first.wait_for()  # the view knows its space
    restart(book)
    banner = book.area(1).locator(".mew-gone").first
    book.page.until(lambda: GONE in banner.inner_text(), "the end of the kernel to be told")
    assert "open requests do not come back" in banner.inner_text()
    book.click(banner.get_by_role("button", name="Insert the cell that resumes it"))
    book.page.until(lambda: "It stands below this cell; run it." in banner.inner_text(), "the cell")
    source = book.in_cell("return cell.model.sharedModel.getSource();", 2)
    assert source.startswith("%load_ext mew_lab\nimport mew_lab\nlab = mew_lab.up(resume='.mew/beds/")
    book.run(2)
    book.execute("assert lab.space == 'beds' and any(one['kind'] == 'mcp/proposal' for one in lab.log)")
    assert book.area(2).locator("section.mew-approvals").count() == 1
    assert "further down" in book.run(3).text(3)


@pytest.mark.parametrize("journal", [True, False])
def test_where_no_cell_can_be_inserted_its_text_is_copied_and_without_a_journal_the_top_is_named(
    bare: Callable[..., Bare], journal: bool
) -> None:
    view = ApprovalsView(Seat())  # type: ignore[arg-type]
    if journal:
        view.resume_cell = "import mew_lab\nlab = mew_lab.up(resume='.mew/beds/1.jsonl')"
    page = bare(view, beats=True)
    page.until(lambda: page.of("snapshot"), "the view")
    page.deaf = True
    banner = page.tab.locator(".mew-gone")
    page.tab.evaluate("window.mewKernel = { status: 'dead' }")
    page.deaf = False
    page.show()
    page.until(lambda: GONE in banner.inner_text(), "the end of the kernel to be told")
    if not journal:
        assert banner.inner_text() == f"{GONE} Run the notebook from the top."
        return
    page.until(lambda: banner.get_by_role("button").count() == 1, "the button")
    banner.get_by_role("button").click()
    assert view.resume_cell in banner.inner_text()
    assert banner.get_by_role("button", name="Copy the cell").count() == 1
