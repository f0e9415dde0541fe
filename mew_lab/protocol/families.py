"""The families of kinds, by which views distinguish messages. One table of data.

A family has a glyph of two letters and an accent from the Okabe-Ito palette, one for light and one for dark grounds.
Colour never carries meaning without the glyph. A kind without a row belongs to `system`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = ["FAMILIES", "Family", "family_index", "family_of"]


class Family(NamedTuple):
    """One family: its name, its glyph, its accent on light and on dark grounds."""

    name: str
    glyph: str
    light: str
    dark: str


FAMILIES: tuple[Family, ...] = (
    Family("chat", "CH", "#56B4E9", "#56B4E9"),
    Family("mcp", "MC", "#0072B2", "#4FA3D9"),
    Family("proposal", "PR", "#E69F00", "#E69F00"),
    Family("error", "ER", "#D55E00", "#D55E00"),
    Family("reasoning", "RE", "#CC79A7", "#CC79A7"),
    Family("capability", "CA", "#009E73", "#009E73"),
    Family("participant", "PA", "#8A7E72", "#8A7E72"),
    Family("stream", "ST", "#B8A200", "#F0E442"),
    Family("system", "SY", "#707070", "#9A9A9A"),
)

_PLACE = {family.name: place for place, family in enumerate(FAMILIES)}
# How a kind of the family begins; the first row that fits counts.
STARTS: tuple[tuple[str, str], ...] = (
    ("chat", "chat"),
    ("mcp/request", "mcp"),
    ("mcp/response", "mcp"),
    ("mcp/proposal", "proposal"),
    ("mcp/reject", "error"),
    ("mcp/withdraw", "error"),
    ("mcp/", "mcp"),
    ("system/error", "error"),
    ("reasoning/", "reasoning"),
    ("capability/", "capability"),
    ("space/", "capability"),
    ("participant/", "participant"),
    ("stream/", "stream"),
)


@lru_cache(maxsize=1024)  # a space has few kinds and many messages
def family_index(kind: str) -> int:
    """The index of the kind's family in `FAMILIES`."""
    return next((_PLACE[name] for start, name in STARTS if kind.startswith(start)), _PLACE["system"])


def family_of(kind: str) -> Family:
    """The family of a kind, known or not."""
    return FAMILIES[family_index(kind)]
