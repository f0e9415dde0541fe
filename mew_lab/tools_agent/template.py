"""Makes the prompt of a tool call: `fill_prompt` fills the template in one pass, for a preview and for a call.

An inserted text is never filled again. Only declared parameters and the tool's own properties are replaced; every other
brace is unchanged. It differs from `agent.prompts.fill_template` where authors of agent files need more: `{{` for a
brace, values that are no text, previews and defaults.

Spec: tools-agent.md "Prompt Template Syntax", TA-19 to TA-27.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from mew_lab.settings.faults import Fault
from mew_lab.tools_agent.definition import ToolDefinition

__all__ = ["TokenKind", "fill_prompt", "lint", "references", "tokens"]

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_BRACE = {"{{": "{", "}}": "}"}
_WORD = re.compile(r"[^\W\d][\w.-]*\Z")


def fill_prompt(
    template: str, arguments: Mapping[str, Any], *, tool: ToolDefinition, preview: bool = False
) -> str:
    """The prompt of a template with these arguments.

    `{param}` is the argument. `{name}` is the tool's name unless a parameter has that name; `{tool.name}` and
    `{tool.description}` are always those of the tool. `{{` and `}}` are braces. A text is inserted unchanged, any other
    value as JSON. A parameter without an argument gets its schema's default, else nothing; in a preview it stays
    `{param}`, and so does an empty text.

    Spec: T-4, T-5, TA-19 to TA-24.
    """
    own = {"name": tool.name, "tool.name": tool.name, "tool.description": tool.description}

    def value_of(place: re.Match[str]) -> str:
        whole, key = place[0], place[1]
        if key is None:
            return _BRACE[whole]
        if key in tool.properties:
            value = arguments.get(key)
            if preview:
                return whole if value is None or value == "" else _text(value)
            if key not in arguments:
                value = tool.properties[key].get("default", "")
            return _text(value)
        return own.get(key, whole)

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
    if key in tool.properties:
        return "parameter"
    if key in ("name", "tool.name", "tool.description"):
        return "tool"
    return "unknown" if _WORD.match(key) else "loose"


def references(template: str) -> list[str]:
    """The texts between single braces that could be names, each once, in order."""
    keys = (place[1] for place in _PLACE.finditer(template) if place[1] is not None)
    return list(dict.fromkeys(keys))


def lint(tool: ToolDefinition, *, at: str = "") -> list[Fault]:
    """Lists warnings about the prompt of a tool for its author; a tool with warnings still works.

    They are about references to no parameter, parameters that the prompt does not use, a parameter that hides the
    tool's name, braces without a name, and braces without a partner.

    Spec: TA-21, TA-24, TA-25.
    """
    path = f"{at}.prompt" if at else "prompt"
    used = references(tool.prompt)
    findings = []
    for key in used:
        if key in tool.properties or key in ("name", "tool.name", "tool.description"):
            continue
        if _WORD.match(key):
            findings.append(f"{{{key}}} is no parameter of the tool, so it stays as it is")
        else:
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
