"""What several notebooks of the browser tests begin with: a tool that adds, and a bot that may ask for it; and how the
person in them reads a long text to its end."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator

__all__ = ["ADDING", "PROPOSE", "choose", "look_at", "read_through"]

ADDING = """%load_ext mew_lab
import mew_lab
lab = mew_lab.up(journal=None)
@lab.tool
def add(a: int, b: int) -> int:
    "Sum of two numbers."
    return a + b
bot = lab.join("bot", can="proposer")
"""
PROPOSE = 'p = bot.call("notebook/add", {"a": 1, "b": 2})'


def choose(around: Locator, text: str) -> None:
    """Presses an entry of the menu that is open there, as by a mouse."""
    around.get_by_role("menuitem", name=text).first.click()


def look_at(button: Locator) -> None:
    """Brings the whole card of a button into sight: its buttons alone arm nothing."""
    button.evaluate("button => button.closest('li').scrollIntoView({ block: 'center' })")


def read_through(card: Locator, pause: Callable[[float], None]) -> None:
    """Goes on, in each long text of the card, to what was not in sight yet until all of it was."""
    for bar in card.locator(".mew-readbar").all():
        on = bar.locator("button.mew-next")
        for _ in range(400):
            if on.get_attribute("aria-disabled") == "true":
                break
            on.evaluate("button => button.click()")
            pause(0.25)
