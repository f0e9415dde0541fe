"""The families of kinds, by which views distinguish messages. One table of data.

A family has a label and an accent from the Okabe-Ito palette, one for light and one for dark grounds. Colour never
carries meaning alone: the label stands beside it or in its tooltip. A kind without a row belongs to `system`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

__all__ = ["FAMILIES", "Family", "family_index", "family_of"]


class Family(NamedTuple):
    """One family: its name, its label, its accent on light and on dark grounds."""

    name: str
    label: str
    light: str
    dark: str


FAMILIES: tuple[Family, ...] = (
    Family("chat", "Chat", "#56B4E9", "#56B4E9"),
    Family("mcp", "Call", "#0072B2", "#4FA3D9"),
    Family("proposal", "Proposal", "#E69F00", "#E69F00"),
    Family("error", "Error", "#D55E00", "#D55E00"),
    Family("reasoning", "Reasoning", "#CC79A7", "#CC79A7"),
    Family("capability", "Permission", "#009E73", "#009E73"),
    Family("participant", "Status", "#8A7E72", "#8A7E72"),
    Family("stream", "Stream", "#B8A200", "#F0E442"),
    Family("system", "System", "#707070", "#9A9A9A"),
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
