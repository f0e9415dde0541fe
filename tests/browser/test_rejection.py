"""A rejection in one go, by keyboard, and what its row offers for some seconds after it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from real_lab import Notebook
from scenes import ADDING, PROPOSE, armed

CHATS = "import json\nmessages = [json.loads(record.raw) for record in lab.log.held if record.raw]\nprint(json.dumps([one for one in messages if one['kind'] == 'chat']))"


@pytest.mark.slow
def test_after_a_rejection_its_row_asks_the_proposer_again_for_ten_seconds(
    plain: Callable[..., Notebook],
) -> None:
    both = f"{PROPOSE}\nq = bot.call('notebook/add', {{'a': 5, 'b': 2}})"
    book = plain([ADDING, "lab.view.approvals", both, CHATS]).run(0).run(1).run(2)
    area = book.area(1)
    for number in (1, 2):
        card = area.locator("li.mew-card:not(.mew-past)").first
        armed(book.page, card.locator("button.mew-reject"))
        card.focus()
        book.tab.keyboard.press("r")
        book.tab.keyboard.type("add them by yourself")
        book.tab.keyboard.press("Enter")
        book.page.until(lambda number=number: area.locator("li.mew-past").count() == number, "the rejection")
    offers = area.locator("button.mew-ask-again")
    assert offers.count() == 2
    offers.first.click()
    book.page.until(lambda: "was asked to propose add again" in area.inner_text(), "the answer")
    book.page.until(lambda: offers.count() == 1, "the offer that was taken to be gone")
    [chat] = json.loads(book.run(3).text(3))
    digest = book.shell.user_ns["lab"].decisions.decided()[-1].digest
    assert chat["to"] == ["bot"] and digest in chat["payload"]["text"] and len(chat["correlation_id"]) == 1
    # The other offer ends by itself.
    book.page.until(lambda: offers.count() == 0, "the end of the offer")
    assert area.locator(".mew-past-rejection:empty").count() == 0


def test_the_keys_of_a_reason_decide_nothing_and_a_double_click_sends_none(
    plain: Callable[..., Notebook],
) -> None:
    several = "\n".join(f"bot.call('notebook/add', {{'a': {n}, 'b': 2}})" for n in range(4)) + "; None"
    book = plain([ADDING, PROPOSE, several, "lab.view.approvals"]).run(0).run(1).run(2).run(3)
    area = book.area(3)
    group = area.locator("li.mew-group")
    group.wait_for()
    group.focus()
    book.tab.keyboard.press("r")
    book.tab.keyboard.type("as a rule")
    field = group.locator(".mew-words input")
    assert field.input_value() == "as a rule", "the key that opened it is no part of the reason"
    book.tab.keyboard.press("Escape")
    button = armed(book.page, group.locator("button.mew-reject-all"))
    x, y = book.centre(button)
    book.tab.mouse.dblclick(x, y)
    decided = book.shell.user_ns["lab"].decisions.decided
    assert not decided()
    if group.locator(".mew-words").is_hidden():
        group.focus()
        book.tab.keyboard.press("r")
    book.tab.keyboard.press("Enter")
    book.page.until(lambda: len(decided()) == 5, "the rejections")
    assert {card.outcome for card in decided()} == {"as a rule"}
