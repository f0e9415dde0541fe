"""What one grant of a person is, and when it ends, in words.

Spec: §3.6.1, ruling R25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mew_lab.protocol.text import local_time

__all__ = ["ENDS_HERE", "Given", "end_in_words"]

ENDS_HERE = (
    "This grant ends only while this notebook runs: the gateway of this space may not know ends of grants."
)


def end_in_words(ends: float | None, uses: int | None, used: int) -> str:
    """When a grant ends, in few words; empty where it has no end. `ends` is seconds of the epoch."""
    words = [] if uses is None else [f"{used} of {uses} uses"]
    if ends is not None:
        words.append(f"until {local_time(ends)}")
    return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A grant of this person. `ends` is seconds of the epoch, `uses` how many there may be; None is without end."""

    id: str
    to: str
    patterns: tuple[Mapping[str, Any], ...]
    reason: str
    since: float
    ends: float | None = None
    uses: int | None = None
    used: int = 0
    state: Literal["stands", "revoking", "revoked"] = "stands"
    why: str = ""

    @property
    def limited(self) -> bool:
        """Whether it ends by itself."""
        return self.ends is not None or self.uses is not None

    @property
    def left(self) -> str:
        """When it ends, in few words."""
        return end_in_words(self.ends, self.uses, self.used) or "until it is revoked"
