"""Which of the tools that a participant tells are taken?  Names that can be called, in bounds; pure.

Whoever answers `tools/list` may be anybody, and what it tells ends up in front of people and models: what is too
much, cannot be called or cannot be told apart is left out, and a sentence says so.

Spec: SDK "Tool Discovery and State Management", "Tool Preparation and Namespacing".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import utf8_size
from mew_lab.protocol.visible import visible

__all__ = ["MAX_TOOLS", "DiscoveredTool", "Taken", "taken"]

MAX_TOOLS = 500  # of one participant
MAX_NAME = 128  # characters
MAX_DESCRIPTION = 4096  # characters; what is longer is cut
MAX_SCHEMA = 65_536  # bytes of JSON
MAX_ANNOTATIONS = 4096  # bytes of JSON
MAX_BYTES = 2_000_000  # of all entries of one participant


class DiscoveredTool(NamedTuple):
    """A tool of `participant`; it is called as `participant/name`.

    Description, schema and annotations are what the participant says of itself: text to show, never to trust.
    """

    participant: str
    name: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, Any]


class Taken(NamedTuple):
    """The tools, the entries they were made of, and in one sentence what was left out (empty: nothing)."""

    tools: tuple[DiscoveredTool, ...]
    entries: tuple[dict[str, Any], ...]
    omitted: str


def taken(participant: str, entries: Iterable[Mapping[str, Any]]) -> Taken:
    """Reads the entries of `tools/list`; the first of a name stays."""
    tools: dict[str, DiscoveredTool] = {}
    kept: list[dict[str, Any]] = []
    left: Counter[str] = Counter()
    room = MAX_BYTES
    for entry in entries:
        if len(tools) >= MAX_TOOLS:
            left[f"beyond {MAX_TOOLS}"] += 1
            continue
        name, schema = entry.get("name"), entry.get("inputSchema")
        schema = schema if isinstance(schema, dict) else {"type": "object"}
        if not isinstance(name, str) or not _callable(name):
            left["without a name that can be called"] += 1
        elif name in tools:
            left["with the name of another"] += 1
        elif _size(schema) > MAX_SCHEMA:
            left["with a schema that is too large"] += 1
        elif (size := _size(entry)) > room:
            left[f"beyond {MAX_BYTES} bytes"] += 1
        else:
            room -= size
            description = entry.get("description")
            description = description[:MAX_DESCRIPTION] if isinstance(description, str) else ""
            annotations = entry.get("annotations")
            if not isinstance(annotations, dict) or _size(annotations) > MAX_ANNOTATIONS:
                annotations = {}
            tools[name] = DiscoveredTool(participant, name, description, schema, annotations)
            kept.append(dict(entry))
    omitted = ", ".join(f"{count} {why}" for why, count in left.items())
    return Taken(tuple(tools.values()), tuple(kept), f"tools left out: {omitted}" if omitted else "")


def _callable(name: str) -> bool:
    """Whether `participant/name` reads in one way, and a reader sees all of it."""
    return 0 < len(name) <= MAX_NAME and "/" not in name and name == visible(name) and name == name.strip()


def _size(value: object) -> int:
    try:
        return utf8_size(compact(value))
    except ProtocolError:
        return MAX_BYTES + 1
