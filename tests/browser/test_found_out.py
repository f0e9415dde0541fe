"""A call of unknown outcome, with a real MCP server that ends during the call: a person records what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from real_lab import Notebook

SERVER = Path(__file__).parent.parent / "lab" / "paying_server.py"
SETUP = """%load_ext mew_lab
import mew_lab
from mew_lab.errors import OutcomeUnknown
lab = mew_lab.up(journal=None)
lab.bridge("bank", ["python", {server!r}, {account!r}])
clerk = lab.join("clerk", can="proposer")
"""
LOSE = """
first = clerk.propose("bank/pay", {"amount": 7})
while not lab.proposals():
    pass
lab.approve(lab.proposals()[0])
try:
    first.result(20)
except OutcomeUnknown as lost:
    print(lost)
"""


@pytest.mark.ruling("R35", "R42")
@pytest.mark.slow
def test_what_a_person_found_out_about_a_lost_payment_is_recorded_by_keyboard_and_its_card_says_by_whom(
    plain: Callable[..., Notebook], tmp_path: Path
) -> None:
    (tmp_path / "dies").touch()
    setup = SETUP.format(server=str(SERVER), account=str(tmp_path / "account"))
    told = "print(lab.log.proposals().set_index('id').loc[first.id]['resolution'])"
    book = plain([setup, "lab.view.approvals", LOSE, told])
    for index in range(3):
        book.run(index)
    assert "Whether it took effect is not known." in book.text(2)
    line = book.area(1).locator("li.mew-card.mew-past")
    opener = line.get_by_role("button", name="What happened?")
    opener.wait_for()
    assert "Whether it took effect is not known." in line.inner_text()
    opener.focus()
    book.tab.keyboard.press("Enter")
    line.get_by_label("What you found out").wait_for()
    book.tab.keyboard.press("Escape")
    book.page.until(lambda: opener.get_attribute("aria-expanded") == "false", "the form to close")
    book.tab.keyboard.press("Enter")
    book.tab.keyboard.type("the ledger has it")
    book.tab.keyboard.press("Shift+Tab")
    book.tab.keyboard.press("Shift+Tab")
    book.tab.keyboard.press("Enter")  # It took effect
    found = "found out: it happened (human: the ledger has it)"
    book.page.until(lambda: found in line.inner_text(), "the line to say who found what")
    assert opener.count() == 0
    assert book.run(3).text(3).strip() == "happened (human: the ledger has it)"
