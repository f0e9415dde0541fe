"""Words for what a tool says of itself in the annotations of its entry in a list. Such a statement may be false.

Spec: §3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["DESTRUCTIVE", "READ_ONLY", "WRITES", "hint_words"]

READ_ONLY: Final = "read-only"
WRITES: Final = "writes data"
DESTRUCTIVE: Final = "destructive"


def hint_words(annotations: Mapping[str, Any]) -> tuple[str, ...]:
    """The words for these annotations; a tool that says two things that exclude each other is the worse one."""
    if annotations.get("destructiveHint") is True:
        return (DESTRUCTIVE,)
    if annotations.get("readOnlyHint") is False:
        return (WRITES,)
    return (READ_ONLY,) if annotations.get("readOnlyHint") is True else ()
