"""The playground of the permissions in a real JupyterLab: tried, listed, and given only by the form that gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from access import accessible
from axe import axe_source, axe_violations
from real_lab import Notebook
from test_grants_view import root

SETUP = """
import mew_lab
from mew_lab.errors import CapabilityViolation, Refused
lab = mew_lab.up("demo", journal=None)
bot = lab.join("bot", can="proposer")
bot.chat("hello")
for tool in ("read", "write"):
    try: bot.send("mcp/request", {"method": "tools/call", "params": {"name": tool}}, to="human")
    except (Refused, CapabilityViolation): pass
lab.view.grants
"""
GIVEN = "print(sum(m['kind'] == 'capability/grant' for m in lab.log if 'kind' in m))"


@pytest.mark.slow
def test_other_permissions_are_tried_before_one_is_given(
    plain: Callable[..., Notebook], tmp_path_factory: pytest.TempPathFactory
) -> None:
    book = plain([SETUP, GIVEN, GIVEN]).run(0)
    view = root(book, 0)
    book.page.until(lambda: view.get_attribute("data-link") == "connected", "the view")
    book.click(view.get_by_role("button", name="What if…"))
    form = view.get_by_role("group", name="What if", exact=True)
    form.get_by_label("Whose permissions").select_option("bot")
    form.get_by_label("What it would hold").select_option("observer")
    denied = form.get_by_role("region", name="Denied instead")
    book.page.until(lambda: denied.locator("li").count() >= 1, "the answer")
    assert "Each message is judged alone" in form.inner_text()
    assert not form.get_by_role("button", name="Grant…").is_visible()

    # A pattern is judged while it is written; a fault is a sentence.
    form.get_by_label("What it would hold").select_option("a pattern besides")
    text = form.get_by_label("Supposed pattern as JSON")
    text.fill('{"kind": "mcp/request"')
    book.page.until(lambda: "This is not JSON" in form.inner_text(), "the fault")
    text.fill('{"kind": "mcp/request", "payload": {"method": "tools/call"}}')
    allowed = form.get_by_role("region", name="Allowed instead")
    book.page.until(lambda: allowed.count() == 1 and allowed.locator("li").count() == 2, "both calls")

    accessible(book, view)
    source = axe_source(tmp_path_factory.getbasetemp())
    for theme in ("light", "dark"):
        book.page.theme(theme)
        assert axe_violations(view, source) == []
    book.page.theme("light")

    # Nothing is given yet; the form that gives takes the pattern over.
    book.run(1)
    assert book.text(1).strip() == "0"
    book.click(form.get_by_role("button", name="Grant…"))
    give = view.locator("button.mew-give")
    book.page.until(lambda: give.get_attribute("aria-disabled") == "false", "the effect")
    assert view.get_by_label("Who is allowed").input_value() == "bot"
    book.click(give)
    book.page.until(lambda: view.locator("tr[data-origin=granted]").count() == 1, "the permission")
    book.run(2)
    assert book.text(2).strip() == "1"
