"""The meter: what a match may cost."""

from __future__ import annotations

import pytest

from mew_lab.protocol.node import BUDGET, Meter, Node, OverBudget


def test_the_budget_can_be_spent_and_not_a_step_more() -> None:
    meter = Meter()
    meter.spend(BUDGET)
    with pytest.raises(OverBudget):
        meter.spend()


def test_a_match_that_costs_too_much_is_no_match() -> None:
    class Costly(Node):
        @property
        def source(self) -> object:
            return None

        def holds(self, value: object, meter: Meter) -> bool:
            meter.spend(BUDGET + 1)
            return True

    assert Costly().matches("a") is False
    assert Costly().source is None
