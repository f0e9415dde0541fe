"""Approves in this lab the calls that are alike to one that a person approved, where the gateway knows no closed grant.

A grant of that gateway would allow any further arguments. So the closed capability stays here (R34), and each proposal
that it permits is approved by a policy of its own: with a note and a receipt for each call. It ends after its time or
its uses, when it is undone, when the description of its tool changes, and with the lab. Everything runs on the loop's
thread.

Spec: §3.2.1, rulings R29 and R34; threats 22, 41.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mew_lab.lab.decisions.pinned_tools import rests_on
from mew_lab.lab.decisions.policies import Decision, Policy
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import Capability

__all__ = ["AlikeCalls", "AlikeRule"]


@dataclass(slots=True)
class AlikeRule:
    """Calls of one proposer that are approved here. `ends` is seconds of the epoch, `left` the uses that remain; None
    means no limit. `warnings` are those that the person saw: a call of which there are others waits for her."""

    id: str
    proposer: str
    capability: Capability
    warnings: frozenset[str]
    since: float
    ends: float | None
    left: int | None

    @property
    def policy(self) -> Policy:
        """The policy that a decision by this rule names."""
        text = f"approves calls of {self.proposer} that a person allowed here: {compact(self.capability.pattern)}"
        return Policy(f"alike calls ({self.id})", lambda card: Decision("approve"), text=text)


class AlikeCalls:
    """The rules of one lab, the oldest first."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rules: dict[str, AlikeRule] = {}
        self._made = 0

    @property
    def standing(self) -> tuple[AlikeRule, ...]:
        """The rules that have not ended."""
        for rule in tuple(self._rules.values()):
            if (rule.ends is not None and self._clock() >= rule.ends) or rule.left == 0:
                del self._rules[rule.id]
        return tuple(self._rules.values())

    def __contains__(self, id: object) -> bool:
        return id in self._rules

    def allow(
        self,
        proposer: str,
        pattern: Mapping[str, Any],
        *,
        warnings: Iterable[str],
        minutes: float | None,
        uses: int | None,
    ) -> str:
        """Approves from now on what the closed capability permits to propose; returns the id of the rule.

        Raises:
            ConfigError: the pattern is no capability.
        """
        self._made += 1
        id, now = f"alike-{self._made}", self._clock()
        ends = None if minutes is None else now + minutes * 60
        capability = Capability.of(pattern)
        self._rules[id] = AlikeRule(id, proposer, capability, frozenset(warnings), now, ends, uses)
        return id

    def find(
        self, proposer: str, to: Sequence[str], payload: Mapping[str, Any], *, warnings: Iterable[str]
    ) -> AlikeRule | None:
        """The first rule that permits this call of this proposer, with these warnings."""
        seen = set(warnings)
        return next(
            (
                rule
                for rule in self.standing
                if rule.proposer == proposer
                and seen <= rule.warnings
                and rule.capability.permits("mcp/request", to, payload)
            ),
            None,
        )

    def count(self, rule: AlikeRule, uses: int) -> None:
        """Charges a rule some uses; a negative number gives back one that was not made."""
        if rule.left is not None:
            rule.left += -uses

    def end(self, id: str) -> AlikeRule | None:
        """Ends a rule; returns it, None where there is none."""
        return self._rules.pop(id, None)

    def end_of_tools(self, participant: str, tools: Collection[str]) -> None:
        """Ends the rules for tools whose descriptions have changed."""
        for rule in self.standing:
            if rests_on(rule.capability.pattern, participant, tools):
                self.end(rule.id)
