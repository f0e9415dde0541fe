"""How many of which participants must say yes to a call: the setting of an executor, or of a lab.

Spec: ruling R39.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mew_lab.errors import ConfigError
from mew_lab.protocol.visible import one_line

__all__ = ["Quorum"]

MAX_DECIDERS = 100


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of these participants must have said yes to a call.

    Attributes:
        count: At least 1.
        deciders: Their names, each once. A name that nobody is enrolled under could be taken as the name of a connection
            by somebody else, so name participants that are enrolled.
    """

    count: int
    deciders: tuple[str, ...]

    @classmethod
    def of(cls, count: object, deciders: Collection[str] | None, *, key: str = "quorum") -> Quorum | None:
        """The quorum that a setting states; None where `count` is None and nobody is named.

        Raises:
            ConfigError: The count is none, or is greater than the number of deciders; or nobody is named.
        """
        if count is None and not deciders:
            return None
        if isinstance(count, Quorum):
            return cls.of(count.count, deciders or count.deciders, key=key)
        if isinstance(deciders, str) or not all(isinstance(one, str) and one for one in deciders or ()):
            raise ConfigError(f"The deciders of a {key} are a list of names of participants", key="deciders")
        names = tuple(dict.fromkeys(deciders or ()))
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigError(
                f"Cannot set the {key} to {count!r:.40}: it is how many deciders must say yes, from 1",
                key=key,
            )
        if not count <= len(names) <= MAX_DECIDERS:
            raise ConfigError(
                f"A {key} of {count} needs {count} to {MAX_DECIDERS} deciders, and {len(names)} are named: "
                f'deciders=["ada", "ben"] names those whose yes counts',
                key="deciders",
            )
        return cls(count, names)

    def count_yes(self, names: Collection[str], *, proposer: str) -> tuple[str, ...]:
        """Those of `names` whose yes counts, for a call that `proposer` asks for."""
        return tuple(one for one in self.deciders if one in names and one != proposer)

    def describe_missing(self, yes: Collection[str], *, proposer: str) -> str:
        """Such as `1 more yes of ben, cy (2 of ada, ben, cy must say yes)`; empty where none is missing."""
        left = self.count - len(self.count_yes(yes, proposer=proposer))
        if left <= 0:
            return ""
        missing = self.find_missing(yes, proposer=proposer)
        of = f" of {_list(missing)}" if missing else ", and nobody is left who could say it"
        return f"{left} more yes{of} ({self})"

    def find_missing(self, yes: Collection[str], *, proposer: str) -> tuple[str, ...]:
        """The deciders whose yes would count and was not said."""
        return tuple(one for one in self.deciders if one not in yes and one != proposer)

    def __str__(self) -> str:
        return f"{self.count} of {_list(self.deciders)} must say yes"


def _list(names: Sequence[str]) -> str:
    return ", ".join(one_line(name, 64) for name in names)
