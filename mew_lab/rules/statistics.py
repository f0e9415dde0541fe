"""Exact bounds of a rate, and how likely numbers of decisions are under a rate. Pure."""

from __future__ import annotations

import math

__all__ = ["at_least", "upper_bound"]

_STEPS = 60  # halvings of an interval: more than a double can tell apart


def at_least(k: int, n: int, rate: float) -> float:
    """The probability of at least `k` events in `n` trials of this rate."""
    if k <= 0:
        return 1.0
    if rate <= 0.0 or k > n:
        return 0.0
    if rate >= 1.0:
        return 1.0
    if k <= n - k:
        return max(0.0, 1.0 - _sum(0, k - 1, n, rate))
    return min(1.0, _sum(k, n, n, rate))


def _sum(first: int, last: int, n: int, rate: float) -> float:
    odds = math.log(rate), math.log1p(-rate)
    whole = math.lgamma(n + 1)
    terms = (
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * odds[0] + (n - i) * odds[1])
        for i in range(first, last + 1)
    )
    return math.fsum(terms)


def upper_bound(wrong: int, of: int, confidence: float = 0.95) -> float:
    """The one-sided upper bound of Clopper and Pearson of the rate of what is wrong: exact, never too small.

    `wrong` of `of` were wrong. Without any trial nothing is known, so it is 1.
    """
    if of <= 0 or wrong >= of:
        return 1.0
    if wrong == 0:
        return float(1.0 - (1.0 - confidence) ** (1.0 / of))
    low, high = wrong / of, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if 1.0 - at_least(wrong + 1, of, middle) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high
