"""Statistics of the decided cards: shares by person and policy, and time on screen. Pure.

A person who approves every proposal within two seconds no longer reads them. Only the human of the lab is measured, and
only on proposals that a view showed. Spec: threat 30.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mew_lab.lab.decisions.cards import POLICY, Card
from mew_lab.protocol.visible import one_line

__all__ = ["QUICK", "describe_hurry", "describe_shares"]

QUICK = 2.0  # seconds on screen
MANY = 5


def _decided(cards: Sequence[Card]) -> list[Card]:
    return [card for card in cards if card.decision in ("fulfilled", "rejected")]


def describe_shares(cards: Sequence[Card], *, me: str) -> str:
    """The shares of the decisions by person, rule and policy, as one line; empty before the first decision."""
    decided = _decided(cards)
    deciders: Counter[str] = Counter()
    for card in decided:
        _, is_policy, policy = card.by.partition(POLICY)
        deciders[
            card.rule.name
            if card.rule is not None
            else f"policy {one_line(policy, 40)}"
            if is_policy
            else "you"
            if card.by == me
            else one_line(card.by, 40)
        ] += 1
    mine = deciders.pop("you", 0)
    others = [f"{count} by {name}" for name, count in deciders.most_common(3)]
    if len(deciders) > 3:
        others.append(f"{len(deciders) - 3} more decided the rest")
    return "; ".join([f"{mine} of {len(decided)} decided by you", *others]) if decided else ""


def describe_hurry(cards: Sequence[Card], *, me: str) -> str:
    """A sentence when the last five or more approvals of `me` were on screen for under 2 s each; else empty."""
    mine = [card for card in _decided(cards) if card.decision == "fulfilled" and card.by == me]
    quick = 0
    for card in sorted(mine, key=lambda card: card.decided_at or 0.0, reverse=True):
        if card.on_screen is None or card.on_screen >= QUICK:
            break
        quick += 1
    return f"You approved the last {quick} in under {QUICK:g} s each." if quick >= MANY else ""
