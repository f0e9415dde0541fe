"""The bucket: time is an argument, so a day costs one literal."""

from __future__ import annotations

import random

import pytest

from mew_lab.gateway.limits import UNREAD, Bucket, Limits, Rates


def passed(bucket: Bucket, now: float, *, size: int = 0, most: int = 10_000) -> int:
    """How many messages are within the rate at one moment."""
    for count in range(most):
        if bucket.wait(now):
            return count
        bucket.take(size, now)
    return most


@pytest.mark.threat(9, 37)
@pytest.mark.ruling("R23")
def test_a_burst_passes_and_then_the_rate_holds() -> None:
    bucket = Bucket(Limits(burst=200, messages_per_second=50), now=0.0)
    assert passed(bucket, 0.0) == 200
    assert passed(bucket, 1.0) == 50


def test_a_quiet_day_saves_no_more_than_one_burst() -> None:
    bucket = Bucket(Limits(burst=200, messages_per_second=50), now=0.0)
    assert passed(bucket, 86_400.0) == 200


@pytest.mark.ruling("R23")
def test_bytes_count_beside_messages() -> None:
    bucket = Bucket(Limits(burst=200, bytes_per_second=1000, burst_bytes=100_000), now=0.0)
    assert passed(bucket, 0.0, size=50_000) == 2
    assert 0.0 < bucket.wait(0.0) <= 0.001
    assert passed(bucket, 1.0, size=1) == 200 - 2 or bucket.wait(1.0) > 0


@pytest.mark.threat(55)
@pytest.mark.ruling("R23")
def test_the_time_of_costly_messages_counts_and_that_of_others_does_not() -> None:
    bucket = Bucket(Limits(loop_share=0.25, burst_time=0.5), now=0.0)
    assert all(bucket.spend(0.004, 0.0) for _ in range(10_000))
    assert bucket.spend(0.3, 0.0)
    assert not bucket.spend(0.3, 0.0)
    assert bucket.wait(0.0) == pytest.approx((0.1 + 0.001) / 0.25)
    assert bucket.wait(0.2) > 0.0
    assert bucket.pause(0.41) < 0.05
    assert bucket.wait(0.5) == bucket.pause(0.5) == 0.0
    bucket.spend(3600.0, 0.5)
    assert bucket.pause(0.5) <= UNREAD


@pytest.mark.ruling("R23")
def test_one_message_never_costs_more_than_the_burst() -> None:
    bucket = Bucket(Limits(bytes_per_second=100_000, burst_bytes=100_000), now=0.0)
    bucket.take(4_000_000_000, 0.0)
    assert bucket.wait(0.0) == pytest.approx(1 / 100_000)


@pytest.mark.ruling("R23")
def test_whatever_is_sent_no_pause_is_longer_than_five_seconds_and_a_rate_that_is_kept_needs_none() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        limits = Limits(
            burst=chance.choice([1, 200, 2000]),
            messages_per_second=10 ** chance.uniform(-9, 6),
            burst_bytes=chance.choice([65536, 16_000_000]),
            bytes_per_second=10 ** chance.uniform(-9, 9),
        )
        now = 0.0
        bucket = Bucket(limits, now)
        for _ in range(200):
            bucket.take(chance.choice([0, 100, 10**6, 10**9]), now)
            pause = bucket.pause(now)
            assert 0.0 <= pause <= UNREAD
            assert (pause == 0.0) == (bucket.wait(now) == 0.0)
            assert bucket.retry_after(now) >= 1
            now += chance.choice([0.0, pause, chance.uniform(0, 10)])
        calm = Bucket(limits, now)
        for _ in range(50):
            now += 1 / limits.messages_per_second + 100 / limits.bytes_per_second
            assert calm.wait(now) == 0.0
            calm.take(100, now)


@pytest.mark.ruling("R23")
def test_over_a_long_time_the_rate_holds_whoever_reads_after_each_pause() -> None:
    bucket = Bucket(Limits(burst=200, messages_per_second=50), now=0.0)
    now, count = 0.0, 0
    while now < 100.0:
        bucket.take(100, now)
        count += 1
        now += bucket.pause(now)
    assert 200 + 50 * 100 - 1 <= count <= 200 + 50 * 101


def test_the_default_burst_is_what_the_rulings_ask_at_least() -> None:
    assert Limits().burst >= 200


def test_a_participant_has_one_bucket_in_each_space() -> None:
    rates = Rates(Limits())
    assert rates.of("one", "anna", 0.0) is rates.of("one", "anna", 5.0)
    assert rates.of("one", "anna", 0.0) is not rates.of("two", "anna", 0.0)
    assert rates.of("one", "anna", 0.0) is not rates.of("one", "bert", 0.0)
