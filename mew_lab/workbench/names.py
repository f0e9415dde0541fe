"""How much is kept of the names in an envelope, and which of them can be compared later?

An envelope may name a thousand participants, and each name may be as long as the envelope. Nobody is called so: what
is longer than a name can be is shown cut, which makes it equal to nobody's, and never compared. It does not know who
takes part.

Spec: §3.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["MAX_NAME", "compared", "cut", "cut_names"]

MAX_NAME = 128  # characters; our gateway gives names of 64 at most, others may give longer ones


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` characters, the end cut with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_names(names: Sequence[str], *, most: int) -> tuple[str, ...]:
    """The first `most` of them, to be shown: each in at most 128 characters."""
    return tuple(cut(one, MAX_NAME) for one in names[:most])


def compared(names: Sequence[str], *, most: int) -> tuple[str, ...] | None:
    """Each of them once and whole; None where they are more than `most`, or one is longer than 128 characters."""
    different = tuple(dict.fromkeys(names))
    if len(different) > most or any(len(one) > MAX_NAME for one in different):
        return None
    return different
