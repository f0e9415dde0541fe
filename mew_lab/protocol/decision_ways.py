"""Names the ways in which a proposal is decided, as receipts and reports state them, and which of them teach a rule.

Spec: §9.4, rulings R29, R42.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["APPROVER", "PERSON", "WAYS", "DecisionWay"]

APPROVER: Final = "approver"


class DecisionWay(NamedTuple):
    """What is said of decisions made in one way, and why no rule learns from them; empty where a person made them."""

    told: str
    teaches_not: str = ""


WAYS: Final[Mapping[str, DecisionWay]] = MappingProxyType(
    {
        "click": DecisionWay("by a click"),
        "typed": DecisionWay("typed by a person"),
        "editor": DecisionWay("in an editor", "an editor passed it on, which may answer by itself"),
        "script": DecisionWay("by a script", "a script decided it"),
        "policy": DecisionWay("by the policy", "a policy decided it"),
        "rule": DecisionWay("by a rule", "a rule decided it"),
        APPROVER: DecisionWay("by an approver", "an approver decided it"),
    }
)
PERSON: Final = frozenset(how for how, way in WAYS.items() if not way.teaches_not)
"""The ways in which a person decides."""
