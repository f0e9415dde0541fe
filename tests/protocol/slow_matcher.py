"""The pattern language written down as slowly and plainly as it can be said: what the fast matcher is
compared with.

No compilation, no budget, no sharing of code with mew_lab. Globs by trying every split, searches by
collecting lists, regular expressions by the standard library (so only harmless ones may be asked), JSONPath
by its library's own walk.
"""

from __future__ import annotations

import re
from typing import Any

import jsonpath_rfc9535


def slow_match(pattern: Any, value: Any) -> bool:
    """Whether `value` matches a pattern of a payload."""
    if isinstance(pattern, list):
        return any(slow_match(one, value) for one in pattern)
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(_member(name, one, value) for name, one in pattern.items())
    if isinstance(pattern, str):
        return isinstance(value, str) and slow_string(pattern, value)
    if pattern is None:
        return value is None
    if isinstance(pattern, bool):
        return isinstance(value, bool) and pattern == value
    return isinstance(value, (int, float)) and not isinstance(value, bool) and pattern == value


def slow_string(pattern: str, text: str, *, kind: bool = False) -> bool:
    """Whether `text` matches a string pattern."""
    if len(pattern) >= 3 and pattern.startswith("/") and pattern.endswith("/"):
        return re.fullmatch(pattern[1:-1], text) is not None
    if pattern.startswith("!"):
        return not _plain(pattern[1:], text, kind)
    return _plain(pattern, text, kind)


def slow_permit(capability: dict[str, Any], kind: str, to: list[str], payload: dict[str, Any]) -> bool:
    """Whether one capability permits a message."""
    kinds = capability["kind"] if isinstance(capability["kind"], list) else [capability["kind"]]
    if not any(slow_string(one, kind, kind=True) for one in kinds):
        return False
    if "to" in capability and (not to or not all(slow_match(capability["to"], one) for one in to)):
        return False
    return slow_match(capability.get("payload", {}), payload)


def _plain(pattern: str, text: str, kind: bool) -> bool:
    if pattern == "*":
        return True
    if kind and pattern.endswith("/*"):
        pattern += "*"
    return _glob(pattern, text)


def _glob(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern.startswith("**"):
        return any(_glob(pattern[2:], text[at:]) for at in range(len(text) + 1))
    if pattern.startswith("*"):
        return any(_glob(pattern[1:], text[at:]) for at in range(len(text) + 1) if "/" not in text[:at])
    if pattern.startswith("?"):
        return bool(text) and text[0] != "/" and _glob(pattern[1:], text[1:])
    return text.startswith(pattern[0]) and _glob(pattern[1:], text[1:])


def _member(name: str, pattern: Any, value: dict[str, Any]) -> bool:
    if name.startswith("$"):
        return _among(pattern, jsonpath_rfc9535.find(name, value).values())
    if name == "**":
        return _among(pattern, _below(value))
    if name == "*":
        return _among(pattern, list(value.values()))
    if "*" in name or "?" in name:
        return _among(pattern, [member for key, member in value.items() if _glob(name, key)])
    return name in value and slow_match(pattern, value[name])


def _among(pattern: Any, selected: list[Any]) -> bool:
    if isinstance(pattern, list):
        return any(_among(one, selected) for one in pattern)
    if isinstance(pattern, str) and pattern.startswith("!"):
        strings = [one for one in selected if isinstance(one, str)]
        return bool(strings) and not any(_plain(pattern[1:], one, False) for one in strings)
    return any(slow_match(pattern, one) for one in selected)


def _below(value: Any) -> list[Any]:
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for part in parts for found in (part, *_below(part))]
