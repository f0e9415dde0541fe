"""The starts of discovery: at once for one, spaced for many."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mew_lab.sdk.pacing import Pace, Starts


def spread(count: int, pace: Pace) -> list[float]:
    starts = Starts()
    return [starts.next(0.0, pace, waiting=n) for n in range(count)]


@pytest.mark.req("S-L1-13")
def test_the_first_starts_at_once_and_the_gaps_grow_to_the_longest() -> None:
    assert spread(5, Pace(stagger=1.0, longest=3.0)) == [0, 1, 3, 6, 9]


@pytest.mark.req("S-L1-13")
def test_ten_start_within_the_wait_of_an_agent_and_of_fifty_no_two_are_together() -> None:
    assert spread(10, Pace())[-1] < 5.0
    starts = spread(50, Pace())
    assert starts[-1] > 100 and starts[-1] - starts[-2] == pytest.approx(3.0)
    assert all(later > earlier for earlier, later in pairwise(starts))


def test_a_start_after_a_pause_is_at_once_again() -> None:
    starts, pace = Starts(), Pace(stagger=1.0)
    assert [starts.next(now, pace, waiting=9) for now in (0, 0, 0, 100, 100)] == [0, 1, 3, 0, 1]


@pytest.mark.threat(9)
def test_starts_used_up_by_who_left_do_not_put_off_the_others() -> None:
    starts, pace = Starts(), Pace(stagger=1.0, longest=3.0)
    for _ in range(1000):
        starts.next(0.0, pace, waiting=1000)
    assert starts.next(0.0, pace, waiting=2) == 6.0
    assert starts.next(0.0, pace, waiting=0) == 0.0


def test_by_default_the_repetitions_are_those_of_the_specification() -> None:
    assert Pace().retries == (5.0, 10.0, 15.0)
