"""What several notebooks of the browser tests begin with: a tool that adds, and a bot that may ask for it."""

from __future__ import annotations

__all__ = ["ADDING", "PROPOSE"]

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
