"""Reads the requirements that bind a gateway: the section, the level and a short statement of each.

`requirements.csv` beside this module is the project's one table of requirements, those of other parties among them.
Ids are `P-` for the text of the protocol, with its section, `C-` for a ruling where that text is open, `S-` for
requirements of the SDK's text on gateways. A gateway's row of level MUST NOT states the prohibited behaviour. `unseen`
is the reason why a row cannot be tested from outside; it is empty where a check shows it.

Spec: all sections.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["GROUPS", "MAY", "MUST", "REQUIREMENTS", "ROWS", "RULING", "SHOULD", "SpecRow", "group_of"]

MUST, SHOULD, MAY, RULING = GROUPS = ("MUST", "SHOULD", "MAY", "ruling")
REQUIREMENTS = Path(__file__).with_name("requirements.csv")
# the first in a source; some sources name a chapter by its title
_SECTION = re.compile(r"§[\d.]+|R\d+[a-z]?|\w+$")


class SpecRow(NamedTuple):
    """One requirement. `section` is the section of the specification, or the ruling."""

    id: str
    section: str
    level: str
    statement: str
    unseen: str = ""


def group_of(level: str) -> str:
    """The group in which rows of a level are counted: a prohibition with its demand, a decision as a ruling."""
    return RULING if level == "DECISION" else level.removesuffix(" NOT")


def _read_rows() -> tuple[SpecRow, ...]:
    with REQUIREMENTS.open(encoding="utf-8", newline="") as file:
        return tuple(
            SpecRow(
                row["id"],
                _SECTION.findall(row["source"])[0],
                row["level"].removesuffix("(implied)"),
                row["statement"],
                row["unseen"],
            )
            for row in csv.DictReader(file)
            if row["binds"] in ("gateway", "all")
        )


ROWS = _read_rows()
