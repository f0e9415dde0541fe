"""Reads the arguments of a call as a model wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["read_arguments"]


def read_arguments(written: object) -> dict[str, Any] | None:
    """The arguments of a call; None where they are no object, so that its model is told."""
    if isinstance(written, Mapping):
        return dict(written)
    if written is None or written == "":
        return {}
    try:
        arguments = json.loads(written) if isinstance(written, str) else None
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None
