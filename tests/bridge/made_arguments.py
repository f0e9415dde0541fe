"""Arguments for a tool of which only its schema is known: its required members, with values of a person's kind.

A path leads into a folder of the test, and an address to a page without a network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = "data:text/html,<title>t</title><h1>Hello</h1><input>"
FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "ann@example.invalid",
    "time": "03:04:05Z",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# The first of them that fits a pattern is taken.
TEXTS = ["x", "1", "a1", "A1", "0" * 24, "12:00", "#000000", "/x", *FORMATS.values(), PAGE]


def make_arguments(tool: str, schema: Mapping[str, Any], folder: Path) -> Any:
    """A value of the schema of a tool of this name."""

    def make(part: Any, name: str) -> Any:
        part = part if isinstance(part, Mapping) else {}
        if "$ref" in part:
            part = {**resolve(schema, part["$ref"]), **part}
        for inner in part.get("allOf", ()):
            part = {**inner, **part, "required": [*part.get("required", ()), *inner.get("required", ())]}
        for keyword in ("const", "default"):
            if keyword in part:
                return part[keyword]
        for keyword in ("enum", "examples"):
            if part.get(keyword):
                return part[keyword][0]
        for keyword in ("anyOf", "oneOf"):
            if part.get(keyword) and "properties" not in part:
                return make(part[keyword][0], name)
        kind = part.get("type", "object" if "properties" in part else "string")
        kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
        if kind == "object":
            members = part.get("properties", {})
            return {member: make(members.get(member), member) for member in part.get("required", ())}
        if kind == "array":
            return [make(part.get("items"), name) for _ in range(max(1, part.get("minItems", 1)))]
        if kind in ("integer", "number"):
            least = max(part.get("minimum", 1), part.get("exclusiveMinimum", 0) + 1)
            return min(least, part.get("maximum", least))
        return {"boolean": False, "null": None}.get(kind, make_text(part, tool, name, folder))

    return make(schema, "")


def make_text(part: Mapping[str, Any], tool: str, name: str, folder: Path) -> str:
    """A text for a member of this name of the arguments of a tool."""
    if part.get("format") in FORMATS:
        return FORMATS[part["format"]]
    if pattern := part.get("pattern"):
        return next((text for text in TEXTS if re.search(pattern, text)), "x")
    if part.get("format") in ("uri", "url") or re.search("ur[il]", name, re.IGNORECASE):
        return PAGE
    if re.search("path|file|dir|folder|cwd", name, re.IGNORECASE):
        is_folder = re.search("dir|folder|cwd|repo|tree|search|list", f"{tool} {name}", re.IGNORECASE)
        return str(folder if is_folder else folder / "readme.txt")
    return "x".ljust(part.get("minLength", 1), "x")[: part.get("maxLength", 1000)]


def resolve(schema: Mapping[str, Any], reference: str) -> Any:
    """What a reference to a part of the schema names."""
    part: Any = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        part = part[int(step)] if isinstance(part, Sequence) else part[step]
    return part
