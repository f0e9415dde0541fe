"""Reads the arguments of a call as a model wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mew_lab.protocol.coerce import json_of

__all__ = ["read_arguments"]


def read_arguments(written: object) -> dict[str, Any] | None:
    """The arguments of a call; None where they are no object, so that its model is told."""
    if isinstance(written, Mapping):
        return dict(written)
    if written is None or written == "":
        return {}
    arguments = json_of(written) if isinstance(written, str) else None
    return arguments if isinstance(arguments, dict) else None
