"""The questions of servers in the pictures that a saved notebook holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pages import Page, picture

from mew_lab.lab.lab import Lab

SERVER = Path(__file__).parents[1] / "bridge" / "full_server.py"


def test_the_card_of_a_proposal_has_the_questions_that_it_led_to_and_no_others(
    lab: Lab, browser: Callable[[Any], Page]
) -> None:
    lab.bridge("shop", [sys.executable, str(SERVER), "modern"])
    bot = lab.join("bot")
    plums, pears = bot.call("shop/order", what="<i>plums</i>"), bot.call("shop/order", what="pears")
    shown = lab.proposals()
    assert "plums" in str(shown) and "pears" in str(shown)
    for entry in shown:
        lab.approve(entry)
    browser(lab.view.approvals).until(lambda: len(lab.asked.pending()) == 2)
    pictures = {one.id: picture(lab.view.card(one.id)) for one in (plums, pears)}
    assert "How many &lt;i&gt;plums&lt;/i&gt;?" in pictures[plums.id]
    assert "How many pears?" in pictures[pears.id] and "plums" not in pictures[pears.id]
    assert all(name in picture(lab.view.approvals) for name in ("plums", "pears", "2 open, 2 decided"))
    of_pears = next(one for one in lab.asked.pending() if pears.id in one.about)
    lab.answer(of_pears, action="decline")
    assert str(pears.result(20)) == "decline"
    after = picture(lab.view.card(pears.id))
    assert "How many" not in after and "The server shop asks you: declined at" in after
