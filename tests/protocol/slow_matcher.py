"""The pattern language written down as slowly and plainly as it can be said: what the fast matcher is
compared with.

No compilation, no budget, no sharing of code with mew_lab. Globs by trying every split, searches by
collecting lists, regular expressions by the standard library (so only harmless ones may be asked), JSONPath
by its library's own walk.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import jsonpath_rfc9535


def slow_match(pattern: Any, value: Any, *, paths: bool = True) -> bool:
    """Whether `value` matches a pattern of a payload; with `paths` by R33 too."""
    if isinstance(pattern, list):
        return any(slow_match(one, value, paths=paths) for one in pattern)
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            _member(name, one, value, paths) for name, one in pattern.items()
        )
    if isinstance(pattern, str):
        return isinstance(value, str) and slow_string(pattern, value, paths=paths)
    if pattern is None:
        return value is None
    if isinstance(pattern, bool):
        return isinstance(value, bool) and pattern == value
    return isinstance(value, (int, float)) and not isinstance(value, bool) and pattern == value


def slow_string(pattern: str, text: str, *, kind: bool = False, paths: bool = False) -> bool:
    """Whether `text` matches a string pattern."""
    if len(pattern) >= 3 and pattern.startswith("/") and pattern.endswith("/"):
        return re.fullmatch(pattern[1:-1], text) is not None
    guard = _guard(pattern.removeprefix("!")) if paths else ""
    unsafe = [one for one in _unsafe(text) if guard == "path" or (guard and one[0] == "backslash")]
    if pattern.startswith("!"):
        return not unsafe and not _plain(pattern[1:], text, kind)
    if not unsafe:
        return _plain(pattern, text, kind)
    return any(
        all(_is_spelled(one, alignment) for one in unsafe) for alignment in _alignments(pattern, text, 0)
    )


def _guard(pattern: str) -> str:
    if pattern in ("*", "**") or not ("*" in pattern or "?" in pattern):
        return ""
    return "path" if "/" in pattern or "**" in pattern else "backslash"


def _unsafe(text: str) -> list[tuple[str, int, int]]:
    """All that is unsafe in a text, with its place; of a segment without its slashes."""
    found = [("backslash", at, at + 1) for at, one in enumerate(text) if one == "\\"]
    found += [("control", at, at + 1) for at, one in enumerate(text) if unicodedata.category(one) == "Cc"]
    at, segments = 0, text.split("/")
    for number, segment in enumerate(segments):
        if segment in (".", ".."):
            found.append(("segment", at, at + len(segment)))
        if not segment and 0 < number < len(segments) - 1:
            found.append(("nothing", at, at))
        at += len(segment) + 1
    return found


def _alignments(pattern: str, text: str, at: int) -> Iterator[list[tuple[int, int]]]:
    """For each way in which a glob matches what begins at `at`: what its wildcards match. Of stars in a row all beyond
    two are superfluous."""
    if not pattern:
        if at == len(text):
            yield []
        return
    pattern = re.sub(r"^\*{3,}", "**", pattern)
    wild = "**" if pattern.startswith("**") else pattern[0] if pattern[0] in "*?" else ""
    rest = pattern[len(wild or pattern[0]) :]
    if not wild:
        if text[at : at + 1] == pattern[0]:
            yield from _alignments(rest, text, at + 1)
        return
    for end in range(at + (wild == "?"), (at + 1 if wild == "?" else len(text)) + 1):
        if end <= len(text) and (wild == "**" or "/" not in text[at:end]):
            yield from ([(at, end), *more] for more in _alignments(rest, text, end))


def _is_spelled(unsafe: tuple[str, int, int], alignment: list[tuple[int, int]]) -> bool:
    """Whether literals alone match it: no wildcard matches a part of it, nor nothing within it or at its edge.

    Of a segment that is nothing, a wildcard that begins or ends there is no literal either.
    """
    what, at, behind = unsafe
    if what == "nothing":
        return not any(start <= at <= end for start, end in alignment)
    within = (what == "segment" and start == end and at <= start <= behind for start, end in alignment)
    return not any(within) and not any(start < behind and end > at for start, end in alignment)


def slow_permit(
    capability: dict[str, Any], kind: str, to: list[str], payload: dict[str, Any], *, paths: bool = True
) -> bool:
    """Whether one capability permits a message; with `paths` by the rules from edition 4 on."""
    kinds = capability["kind"] if isinstance(capability["kind"], list) else [capability["kind"]]
    if not any(slow_string(one, kind, kind=True) for one in kinds):
        return False
    if "to" in capability and (
        not to or not all(slow_match(capability["to"], one, paths=False) for one in to)
    ):
        return False
    if paths and capability.get("x-closed") is True:
        return _closed(capability["payload"], payload, "payload")
    return slow_match(capability.get("payload", {}), payload, paths=paths)


def _closed(pattern: Any, value: Any, place: str) -> bool:
    """Whether a value matches a closed pattern (R34), of a payload, its `params`, their `_meta`, or below them."""
    if isinstance(pattern, list):
        return any(_closed(one, value, place) for one in pattern)
    if not isinstance(pattern, dict):
        return slow_match(pattern, value)
    if not isinstance(value, dict):
        return False
    literal = [name for name in pattern if not ("*" in name or "?" in name)]
    for name, one in pattern.items():
        within = _place_below(place, name)
        if name in literal:
            if name not in value or not _member_closed(one, value[name], within):
                return False
        elif not any(
            _some_closed(alternative, _named_by(name, value).values(), within)
            and all(
                _names_all(alternative, item)
                for key, item in _named_by(name, value).items()
                if key not in literal and within
            )
            for alternative in (one if isinstance(one, list) else [one])
        ):
            return False
    return all(_may_stand(pattern, name, item, place) for name, item in value.items())


def _place_below(place: str, name: str) -> str:
    if place == "payload":
        return "params" if name == "params" else ""
    return "_meta" if place == "params" and name == "_meta" else "below"


def _member_closed(pattern: Any, value: Any, place: str) -> bool:
    return _closed(pattern, value, place) if place else slow_match(pattern, value)


def _some_closed(pattern: Any, values: Any, place: str) -> bool:
    if isinstance(pattern, str) and pattern.startswith("!"):
        return _among(pattern, list(values), True)
    return any(_member_closed(pattern, one, place) for one in values)


def _named_by(glob: str, value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if glob == "*" or _glob(glob, name)}


def _may_stand(pattern: dict[str, Any], name: str, item: Any, place: str) -> bool:
    if any(key == name or (("*" in key or "?" in key) and _named_by(key, {name: item})) for key in pattern):
        return True
    if place == "payload":
        return name in ("jsonrpc", "id")
    if place == "params" and name == "arguments":
        return bool(item == {} and isinstance(item, dict))
    if place == "params" and name == "_meta":
        return isinstance(item, dict) and all(_may_stand({}, one, item[one], "_meta") for one in item)
    if place == "_meta" and name == "progressToken":
        is_number = isinstance(item, (int, float)) and not isinstance(item, bool)
        return is_number or (isinstance(item, str) and len(item) <= 64)
    return False


def _names_all(pattern: Any, value: Any) -> bool:
    if isinstance(value, list):
        return all(_names_all(pattern, item) for item in value)
    if not isinstance(value, dict) or not value:
        return True
    if isinstance(pattern, list):
        return any(_names_all(one, value) for one in pattern)
    if not isinstance(pattern, dict):
        return False
    literal = [name for name in pattern if not ("*" in name or "?" in name)]
    for name, item in value.items():
        if name in literal:
            if not _names_all(pattern[name], item):
                return False
            continue
        naming = [one for key, one in pattern.items() if key not in literal and _named_by(key, {name: item})]
        if not naming:
            return False
    # One alternative of a list under a key that is a glob has to name all that it selects.
    for key, one in pattern.items():
        if key not in literal:
            items = [item for name, item in _named_by(key, value).items() if name not in literal]
            if not all(_names_all(one, item) for item in items):
                return False
    return True


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


def _member(name: str, pattern: Any, value: dict[str, Any], paths: bool) -> bool:
    if name.startswith("$"):
        return _among(pattern, jsonpath_rfc9535.find(name, value).values(), paths)
    if name == "**":
        return _among(pattern, _below(value), paths)
    if name == "*":
        return _among(pattern, list(value.values()), paths)
    if "*" in name or "?" in name:
        return _among(pattern, [member for key, member in value.items() if _glob(name, key)], paths)
    return name in value and slow_match(pattern, value[name], paths=paths)


def _among(pattern: Any, selected: list[Any], paths: bool) -> bool:
    if isinstance(pattern, list):
        return any(_among(one, selected, paths) for one in pattern)
    if isinstance(pattern, str) and pattern.startswith("!"):
        strings = [one for one in selected if isinstance(one, str)]
        return bool(strings) and all(slow_string(pattern, one, paths=paths) for one in strings)
    return any(slow_match(pattern, one, paths=paths) for one in selected)


def _below(value: Any) -> list[Any]:
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for part in parts for found in (part, *_below(part))]
