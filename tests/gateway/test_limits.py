"""The bucket: time is an argument, so a day costs one literal."""

from __future__ import annotations

import pytest

from mew_lab.gateway.limits import Bucket, Limits, Rates


@pytest.mark.threat(9)
def test_a_burst_passes_and_then_the_rate_holds() -> None:
    bucket = Bucket(Limits(burst=200, messages_per_second=50), now=0.0)
    assert [bucket.take(0.0) for _ in range(201)] == [True] * 200 + [False]
    assert [bucket.take(1.0) for _ in range(51)] == [True] * 50 + [False]


def test_a_quiet_day_saves_no_more_than_one_burst() -> None:
    bucket = Bucket(Limits(burst=200, messages_per_second=50), now=0.0)
    assert [bucket.take(86_400.0) for _ in range(201)] == [True] * 200 + [False]


def test_the_default_burst_is_what_the_rulings_ask_at_least() -> None:
    assert Limits().burst >= 200
    assert Limits().unauthenticated == 64


def test_who_sends_too_much_is_told_ten_times_a_second_with_the_count_since() -> None:
    bucket = Bucket(Limits(burst=1, messages_per_second=1e-9), now=0.0)
    assert bucket.take(0.0)
    told = []
    for millisecond in range(250):
        assert not bucket.take(millisecond / 1000)
        told.append(bucket.to_tell(millisecond / 1000))
    assert [count for count in told if count] == [1, 100, 100]


def test_a_participant_has_one_bucket_in_each_space() -> None:
    rates = Rates(Limits())
    assert rates.of("one", "anna", 0.0) is rates.of("one", "anna", 5.0)
    assert rates.of("one", "anna", 0.0) is not rates.of("two", "anna", 0.0)
    assert rates.of("one", "anna", 0.0) is not rates.of("one", "bert", 0.0)
