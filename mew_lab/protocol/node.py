"""What can every node of a compiled pattern do, and what may one match cost?

A node is immutable, knows the JSON it was compiled from (`source`) and answers one question (`holds`). It
does not know which other nodes exist, nor where in a message its value came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["BUDGET", "TOO_COSTLY", "Meter", "Node", "OverBudget"]

BUDGET = 10_000
"""Steps that one match may take: values visited, and text run through a glob or an expression (R11, threat
7)."""


class OverBudget(Exception):
    """The match has cost its budget. Never leaves the pattern language: whoever made the meter answers "no
    match"."""


TOO_COSTLY = (OverBudget, RecursionError)
"""What a maker of a meter catches. The interpreter's stack is a budget too: a long path is walked by as many
generators."""


class Meter:
    """Counts the steps of one match. One meter for a whole capability, so that nested searches do not
    multiply."""

    __slots__ = ("left",)

    def __init__(self, budget: int = BUDGET) -> None:
        self.left = budget

    def spend(self, steps: int = 1) -> None:
        """Takes `steps` from the budget.

        Raises:
            OverBudget: when less is left.
        """
        self.left -= steps
        if self.left < 0:
            raise OverBudget


class Node(ABC):
    """A compiled pattern, or a part of one."""

    __slots__ = ()

    @property
    @abstractmethod
    def source(self) -> object:
        """The JSON this node was compiled from."""

    @abstractmethod
    def holds(self, value: object, meter: Meter) -> bool:
        """Whether `value` matches, paid from `meter`; OverBudget goes up to the maker of the meter."""

    def matches(self, value: object) -> bool:
        """Whether `value`, as a JSON reader gives it, matches. A match that costs too much is no match."""
        try:
            return self.holds(value, Meter())
        except TOO_COSTLY:
            return False
