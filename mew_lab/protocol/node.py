"""The nodes of a compiled pattern, and the meters that bound the cost of a match.

A node is immutable, keeps the JSON it was compiled from (`source`) and answers whether it holds for a value (`holds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["BUDGET", "SET_BUDGET", "TOO_COSTLY", "Budget", "Meter", "Node", "OverBudget"]

BUDGET = 10_000
"""Steps that one match may take: values visited, and text run through a glob or an expression (R11, threat
7)."""


SET_BUDGET = 50_000
"""Steps that one message may cost against all capabilities of its sender; one takes some 0.3 µs (R24)."""


class OverBudget(Exception):
    """The match has used its budget. It never leaves the pattern language: the owner of the meter answers "no
    match"."""


TOO_COSTLY = (OverBudget, RecursionError)
"""What a maker of a meter catches. The interpreter's stack is a budget too: a long path is walked by as many
generators."""


class Meter:
    """Counts the steps of one match. One meter for a whole capability, so that nested searches do not
    multiply."""

    __slots__ = ("left",)

    GLOB = 512
    """Characters that a glob of several wildcards reads for one step."""
    AFFIX = 512
    """Characters that a glob of one star reads for one step."""
    GUARDED = 512
    """Characters that are searched for something unsafe for one step (R33)."""
    SPELLED = 16
    """Characters for one step to find out whether what is unsafe is spelled out."""
    REGEX = 32_768
    """Instructions x characters that an expression works through for one step."""
    COMPARED = MEMBERS = 1 << 62
    """Characters of two strings, or names of two objects, that are compared for one step."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.left = budget

    @classmethod
    def expression(cls, characters: int, values: int, program_size: int) -> int:
        """Steps of an expression of so many instructions over texts of so many characters together."""
        return characters * program_size // cls.REGEX

    def spend(self, steps: int = 1) -> None:
        """Takes `steps` from the budget.

        Raises:
            OverBudget: when less is left.
        """
        self.left -= steps
        if self.left < 0:
            raise OverBudget


class Budget(Meter):
    """Counts the cost of a whole set of capabilities, or of a whole turn: every step takes about as long.

    An expression is charged at the worst case of google-re2, when its states no longer fit its cache. An expression of
    at most `FEW_INSTRUCTIONS` has so few states that all of them fit, and costs 50 times less.
    """

    __slots__ = ()

    GLOB = 4
    AFFIX = 8_192
    GUARDED = 64
    SPELLED = 1
    REGEX = 64
    FEW_INSTRUCTIONS = 16
    FEW = 64  # characters that such an expression reads for one step
    COMPARED = 4_096
    MEMBERS = 16

    def __init__(self, budget: int = SET_BUDGET) -> None:
        self.left = budget

    @classmethod
    def expression(cls, characters: int, values: int, program_size: int) -> int:
        if program_size <= cls.FEW_INSTRUCTIONS:
            return 2 * values + characters // cls.FEW
        return 2 * values + characters + characters * program_size // cls.REGEX


class Node(ABC):
    """A compiled pattern, or a part of one."""

    __slots__ = ()

    @property
    @abstractmethod
    def source(self) -> object:
        """The JSON this node was compiled from."""

    @abstractmethod
    def holds(self, value: object, meter: Meter) -> bool:
        """Whether `value` matches, charged to `meter`; OverBudget is raised to the owner of the meter."""

    def matches(self, value: object) -> bool:
        """Whether the parsed JSON `value` matches. A match that costs too much counts as no match."""
        try:
            return self.holds(value, Meter())
        except TOO_COSTLY:
            return False
