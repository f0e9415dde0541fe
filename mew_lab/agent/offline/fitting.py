"""Does a value keep to a schema, and what is the least that does?  Pure.

The schema is a stranger's: its depth is bounded, its regular expressions are never run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["allowed", "as_number", "least"]


def as_number(value: object, *, whole: bool) -> int | float | None:
    """The value as a number, whole if it must be; None where it is none."""
    if isinstance(value, str):
        if not re.fullmatch(r"-?\d{1,18}(?:\.\d{1,18})?", value):
            return None
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if whole and isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value


def allowed(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value keeps within the bounds that a schema sets for it."""

    def bound(name: str) -> float | None:
        limit = schema.get(name)
        return limit if isinstance(limit, (int, float)) and not isinstance(limit, bool) else None

    measured = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if measured is not None:
        low, high, above, below = (
            bound(n) for n in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        )
        return not (
            (low is not None and measured < low)
            or (high is not None and measured > high)
            or (above is not None and measured <= above)
            or (below is not None and measured >= below)
        )
    if isinstance(value, str):
        least, most = bound("minLength"), bound("maxLength")
        return (least is None or len(value) >= least) and (most is None or len(value) <= most)
    return True


def least(schema: object, *, depth: int = 0) -> Any:
    """The least value that fits a schema, as far as sixty levels of it say what fits."""
    if not isinstance(schema, Mapping) or depth > 60:
        return {} if depth == 0 else None
    if "const" in schema:
        return schema["const"]
    options = schema.get("enum")
    if isinstance(options, Sequence) and not isinstance(options, str) and options:
        return options[0]
    for several in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(several)
        if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
            return least(choices[0], depth=depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    lowest = schema.get("minimum", 0)
    sizes = {name: schema[name] for name in ("minLength", "minItems") if isinstance(schema.get(name), int)}
    if kind == "string":
        return "-" * min(sizes.get("minLength", 0), 1000)
    if kind in ("integer", "number"):
        return lowest if isinstance(lowest, (int, float)) else 0
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    if kind == "array":
        return [
            least(schema.get("items"), depth=depth + 1)
            for _ in range(min(sizes.get("minItems", 0), 20 if depth < 3 else 1))
        ]
    given, needed = schema.get("properties"), schema.get("required")
    shapes = given if isinstance(given, Mapping) else {}
    keys = [key for key in needed[:64] if isinstance(key, str)] if isinstance(needed, list) else []
    return {key: least(shapes.get(key), depth=depth + 1) for key in (keys if depth < 8 else keys[:1])}
