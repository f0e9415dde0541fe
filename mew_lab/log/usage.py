"""Reads what a status says of the use of a model: tokens and cost, of one answer or of the session so far.

Agents write it in several spellings. What a status does not say is None: nothing is computed from prices or lengths.

Spec: §3.9.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["ModelUsage", "usage_of"]

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CACHED = ("cache_read_input_tokens", "cached_input_tokens")
_DOLLARS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?) USD")


class ModelUsage(NamedTuple):
    """The use of a model as a status has it.

    Attributes:
        model: The name of the model; empty where it is not stated.
        input: The tokens that the model read for one answer, those from a cache included, and `cached` are these alone.
        output: The tokens that it wrote.
        cost: The price of one answer in dollars, and `total_cost` that of the session so far.
    """

    model: str = ""
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cost: float | None = None
    total_cost: float | None = None

    @property
    def tokens(self) -> int | None:
        """The tokens of one answer; None where it does not say how many were written."""
        return None if self.output is None else (self.input or 0) + self.output


def usage_of(payload: Mapping[str, Any]) -> ModelUsage:
    """The use that a status states."""
    model, total = payload.get("model"), _price(payload.get("total_cost_usd"))
    if (
        total is None
        and isinstance(stated := payload.get("cost"), str)
        and (found := _DOLLARS.fullmatch(stated))
    ):
        total = _price(float(found[1]))
    read = [value for name in _INPUT if (value := _count(payload.get(name))) is not None]
    cached = [value for name in _CACHED if (value := _count(payload.get(name))) is not None]
    return ModelUsage(
        model if isinstance(model, str) else "",
        _count(sum(read)) if read else None,
        _count(payload.get("output_tokens")),
        cached[0] if cached else None,
        _price(payload.get("cost_usd")),
        total,
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _price(value: object) -> float | None:
    if type(value) not in (int, float):
        return None
    price = float(value)  # type: ignore[arg-type]
    return price if math.isfinite(price) and price >= 0 else None
