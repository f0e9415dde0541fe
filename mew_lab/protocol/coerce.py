"""Reads what a peer may have sent with another type than the specification gives it. Nothing here raises.

A member of another type counts as absent: as None, an empty text, an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from mew_lab.protocol.visible import one_line

__all__ = ["is_number", "json_of", "line_of", "list_of", "mapping_of", "member", "text_of", "texts_of"]


def member(value: object, *path: str) -> Any:
    """The member at a path of keys through nested objects; None where there is none, or no object on the way."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def mapping_of(value: object) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: object) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def text_of(value: object, limit: int | None = None) -> str:
    """A text, of which at most `limit` characters are kept; empty for anything else."""
    return value[:limit] if isinstance(value, str) else ""


def line_of(value: object, limit: int) -> str:
    """A text as one visible line of at most `limit` characters; empty for anything else."""
    return one_line(value, limit) if isinstance(value, str) else ""


def texts_of(value: object) -> tuple[str, ...]:
    """The texts in a list; none of anything else."""
    return tuple([text for text in value if isinstance(text, str)]) if isinstance(value, list) else ()


def json_of(text: str | bytes, other: Any = None) -> Any:
    """The value of a JSON text; `other` for a text that is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return other


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number of JSON, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
