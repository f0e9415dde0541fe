"""Judges a call by a rule: approve it, say nothing, or never, each with a reason. Pure.

A rule judges in this order: whether it is about the call at all, then what no rule may approve (`never`), what was not
approved before (`approvals`), and its rate. It only ever says yes; a call that it says nothing about waits for a person.

Spec: §9.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mew_lab.rules.approvals import Approvals
from mew_lab.rules.decided_calls import AskedCall
from mew_lab.rules.never import find_never
from mew_lab.rules.rule import ApprovalRule

__all__ = ["HOUR", "RuleJudgement", "judge"]

HOUR = 3600.0  # seconds


class RuleJudgement(NamedTuple):
    """`approve`, `silent` where the rule is not about the call, or `never`; and the reason."""

    says: Literal["approve", "silent", "never"]
    why: str

    def __bool__(self) -> bool:
        return self.says == "approve"


def judge(
    rule: ApprovalRule, call: AskedCall, approvals: Approvals, *, now: float, used: Sequence[float] = ()
) -> RuleJudgement:
    """What a rule says to a call.

    Args:
        approvals: What the owner of the rule has approved so far.
        now: The present time, in seconds; `used` are the times at which the rule approved calls.
    """
    if rule.about != call.about:
        return RuleJudgement("silent", "the rule is about other calls")
    if call.method == "tools/call" and (why := rule.uncovered(call.arguments)):
        return RuleJudgement("silent", why)
    if why := find_never(call):
        return RuleJudgement("never", why)
    if not rule.tool_hash:
        return RuleJudgement("never", "the rule names no description of its tool")
    if call.tool_hash != rule.tool_hash:
        return RuleJudgement("never", "the description of the tool is not the one of the rule")
    if why := approvals.find_new(call):
        return RuleJudgement("never", why)
    if sum(now - HOUR < t for t in used) >= rule.an_hour:
        return RuleJudgement("never", f"the rule has approved {rule.an_hour} calls in an hour")
    return RuleJudgement("approve", rule.text)
