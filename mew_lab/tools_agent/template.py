"""Makes the prompt of a tool call: `fill_prompt` fills the template in one pass, for a preview and for a call.

An inserted text is never filled again. Only declared parameters, parts of them that their schemas declare, and the
tool's own properties are replaced; every other brace is unchanged. `{trip.city}` and `{stops[0]}` are parts of a value,
and `{zone?UTC}` has a text for a missing value. It differs from `agent.prompts.fill_template` where authors of agent
files need more: `{{` for a brace, values that are no text, parts of values, previews and defaults.

Spec: tools-agent.md "Prompt Template Syntax", TA-19 to TA-27, TA-57, TA-69.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mew_lab.settings.faults import Fault
from mew_lab.tools_agent.definition import ToolDefinition

__all__ = ["TokenKind", "fill_prompt", "lint", "rename_references", "tokens"]

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_BRACE = {"{{": "{", "}}": "}"}
_WORD = re.compile(r"[^\W\d][\w.\[\]-]*(?:\?.*)?\Z", re.DOTALL)
_PATH = re.compile(r"([^.\[\]]+)((?:\.[^.\[\]]+|\[\d{1,6}\])+)")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MISSING = object()


class _Reference(NamedTuple):
    """A place of a template: a parameter, the path of a part of it, that part's schema, and the text without a value."""

    parameter: str
    path: tuple[str | int, ...]
    schema: Any
    default: str


def _find_part(value: Any, path: tuple[str | int, ...]) -> Any:
    """The part of a value; `_MISSING` where it has none."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(str(step), _MISSING)
        else:
            inside = isinstance(value, list) and isinstance(step, int) and step < len(value)
            value = value[step] if inside else _MISSING
    return value


def _default_of(schema: Any) -> Any:
    return schema.get("default", _MISSING) if isinstance(schema, Mapping) else _MISSING


def _read_reference(key: str, tool: ToolDefinition) -> _Reference | None:
    """What the text between braces refers to; None where it is no parameter and no declared part of one."""
    name, _, default = (key, "", "") if key in tool.properties else key.partition("?")
    if name in tool.properties:
        return _Reference(name, (), tool.properties[name], default)
    match = _PATH.fullmatch(name)
    if match is None or match[1] not in tool.properties:
        return None
    path: tuple[str | int, ...] = tuple(
        word if word else int(number) for word, number in _STEP.findall(match[2])
    )
    schema: Any = tool.properties[match[1]]
    for step in path:
        schema = _part_of(schema, step)
    return None if schema is None or schema is False else _Reference(match[1], path, schema, default)


def _part_of(schema: Any, step: str | int) -> Any:
    """The schema of a member or an item; None where there is none, and one without rules where it is not declared."""
    if not isinstance(schema, Mapping) or "type" not in schema:
        return None if schema is None or schema is False else {}
    if schema["type"] == "object" and isinstance(step, str):
        properties = schema.get("properties") or {}
        return properties[step] if step in properties else schema.get("additionalProperties", not properties)
    if schema["type"] == "array" and isinstance(step, int):
        items = schema.get("items", {})
        if isinstance(items, list):
            return items[step] if step < len(items) else None
        return items
    return None


def fill_prompt(
    template: str, arguments: Mapping[str, Any], *, tool: ToolDefinition, preview: bool = False
) -> str:
    """The prompt of a template with these arguments.

    `{param}` is the argument, and `{param.member}` or `{param[0]}` a part of it. `{name}` is the tool's name unless a
    parameter has that name; `{tool.name}` and `{tool.description}` are always those of the tool. `{{` and `}}` are
    braces. A text is inserted unchanged, any other value as JSON. A parameter without an argument gets its schema's
    default, else the text after `?` as in `{param?text}`, else nothing; in a preview it stays `{param}`, and so does an
    empty text.

    Spec: T-4, T-5, TA-19 to TA-24, TA-69.
    """
    own = {"name": tool.name, "tool.name": tool.name, "tool.description": tool.description}

    def value_of(place: re.Match[str]) -> str:
        whole, key = place[0], place[1]
        if key is None:
            return _BRACE[whole]
        reference = _read_reference(key, tool)
        if reference is None:
            return own.get(key, whole)
        absent = _MISSING if preview else _default_of(tool.properties[reference.parameter])
        value = _find_part(arguments.get(reference.parameter, absent), reference.path)
        if preview:
            return whole if value in (_MISSING, None, "") else _text(value)
        if value is _MISSING:
            value = _default_of(reference.schema)
        return reference.default if value is _MISSING else _text(value)

    return _PLACE.sub(value_of, template)


TokenKind = Literal["text", "parameter", "tool", "unknown", "escaped", "loose"]


def tokens(tool: ToolDefinition) -> list[tuple[str, TokenKind]]:
    """The prompt of a tool in pieces, in order: together they are the prompt.

    A piece is plain `text`, a reference to a `parameter` or to the `tool` itself, an `unknown` name in braces, an
    `escaped` brace, or `loose`: braces that hold no name.

    Spec: TA-58.
    """
    pieces: list[tuple[str, TokenKind]] = []
    end = 0
    for found in _PLACE.finditer(tool.prompt):
        if found.start() > end:
            pieces.append((tool.prompt[end : found.start()], "text"))
        pieces.append((found[0], _kind_of(found[1], tool)))
        end = found.end()
    if end < len(tool.prompt):
        pieces.append((tool.prompt[end:], "text"))
    return pieces


def _kind_of(key: str | None, tool: ToolDefinition) -> TokenKind:
    if key is None:
        return "escaped"
    if _read_reference(key, tool) is not None:
        return "parameter"
    if key in ("name", "tool.name", "tool.description"):
        return "tool"
    return "unknown" if _WORD.match(key) else "loose"


def rename_references(tool: ToolDefinition, name: str, to: str) -> tuple[str, int]:
    """The prompt of a tool in which references to the parameter `name` are to `to`, and their number. Spec: TA-57."""
    count = 0

    def rename(place: re.Match[str]) -> str:
        nonlocal count
        reference = None if place[1] is None else _read_reference(place[1], tool)
        if reference is None or reference.parameter != name:
            return place[0]
        count += 1
        return f"{{{to}{place[1].removeprefix(name)}}}"

    return _PLACE.sub(rename, tool.prompt), count


def lint(tool: ToolDefinition, *, at: str = "") -> list[Fault]:
    """Lists warnings about the prompt of a tool for its author; a tool with warnings still works.

    They are about references to no parameter, parameters that the prompt does not use, a parameter that hides the
    tool's name, braces without a name, and braces without a partner.

    Spec: TA-21, TA-24, TA-25.
    """
    path = f"{at}.prompt" if at else "prompt"
    used = set()
    findings = []
    for key in dict.fromkeys(place[1] for place in _PLACE.finditer(tool.prompt) if place[1] is not None):
        token, reference = _kind_of(key, tool), _read_reference(key, tool)
        if reference is not None:
            used.add(reference.parameter)
        elif token == "unknown":
            findings.append(f"{{{key}}} is no parameter of the tool, so it stays as it is")
        elif token == "loose":
            findings.append(f"the braces around {key[:40]!r} hold no name, so they stay as they are")
    for key in tool.properties:
        if key not in used:
            kind = "required" if key in tool.required else "declared"
            findings.append(f"the parameter {key[:80]} is {kind}, but the prompt does not use it")
    if "name" in tool.properties:
        findings.append("{name} is the parameter here; the tool's name is {tool.name}")
    rest = _PLACE.sub("", tool.prompt)
    if "{" in rest or "}" in rest:
        findings.append(
            "there is a brace without a partner; it stays as it is, and {{ or }} marks it as intended"
        )
    return [Fault(path, finding) for finding in findings]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
