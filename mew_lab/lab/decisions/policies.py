"""Policies: rules that decide proposals instead of the human; every decision names its policy.

Pure: a policy judges a card and returns a decision. `decisions.py` carries it out and writes the policy's name into
the journal beside each decision.
"""

from __future__ import annotations

import builtins
import inspect
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.lab.decisions.cards import Card

__all__ = ["Decision", "Policy", "is_at_prompt", "is_decision", "policy_from_environment"]

VARIABLE = "MEW_LAB_DECIDE"
MAX_TEXT = 4000  # characters of a policy's description


class Decision(NamedTuple):
    """`approve` or `reject`, and the reason of a rejection."""

    decision: str
    reason: str = ""


def is_decision(value: object) -> bool:
    """Whether the value that a policy returned is a valid decision; a policy may be any code."""
    return (
        isinstance(value, Decision)
        and value.decision in ("approve", "reject")
        and isinstance(value.reason, str)
    )


class Policy:
    """Decides open proposals instead of a human. `judge` returns a Decision on a card, or None to leave it open.

    `text` describes the policy in the note of each decision; its default is the source of `judge`.
    """

    def __init__(self, name: str, judge: Callable[[Card], Decision | None], *, text: str = "") -> None:
        self.name = name
        self.judge = judge
        self.text = text or _source(judge)

    def __repr__(self) -> str:
        return f"<Policy {self.name}>"

    @classmethod
    def approve(cls) -> Policy:
        """Approves every proposal. For lessons and tests of spaces without danger."""
        return cls("approve", lambda card: Decision("approve"), text="approves every proposal")

    @classmethod
    def deny(cls, reason: str = "policy") -> Policy:
        """Rejects every proposal, with this reason."""
        return cls("deny", lambda card: Decision("reject", reason), text=f"rejects every proposal: {reason}")

    @classmethod
    def raising(cls) -> Policy:
        """Decides nothing: a call that would wait for a human where there is none raises instead."""
        return cls("raise", lambda card: None, text="decides nothing")

    @property
    def decides(self) -> bool:
        """Whether the policy decides anything; `raise` does not."""
        return self.name != "raise"


def _source(judge: Callable[[Card], Decision | None]) -> str:
    try:
        return inspect.getsource(judge)[:MAX_TEXT]
    except (OSError, TypeError):
        return repr(judge)[:MAX_TEXT]


def policy_from_environment() -> Policy | None:
    """The policy that MEW_LAB_DECIDE names (`approve`, `deny` or `raise`); None when it is unset.

    Raises:
        ConfigError: It has another value.
    """
    word = os.environ.get(VARIABLE, "")
    if not word:
        return None
    makers = {"approve": Policy.approve, "deny": Policy.deny, "raise": Policy.raising}
    if word not in makers:
        raise ConfigError(
            f"{VARIABLE} is {word[:40]!r}; it must be approve, deny or raise",
            path="environment",
            key=VARIABLE,
        )
    return makers[word]()


def is_at_prompt(*, reads_lines: bool) -> bool:
    """Whether a person may have typed what runs here: in a notebook, or at Python's prompt.

    Args:
        reads_lines: Whether this program asks for lines at its own terminal, where it has one. The terminal of a
            script that asks for none tells nothing.
    """
    asks_elsewhere = not isinstance(builtins.input, BuiltinFunctionType)  # a kernel asks its front end
    at_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    return asks_elsewhere or hasattr(sys, "ps1") or (reads_lines and at_terminal)
