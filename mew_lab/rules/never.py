"""What no rule approves, whatever it says: by the kind of the call, its card, its tool, and names of protected files.

Spec: §9.4, rulings R35, R41; threats 16, 17, 41.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from mew_lab.protocol.text import fold
from mew_lab.protocol.tool_hints import DESTRUCTIVE
from mew_lab.rules.decided_calls import AskedCall

__all__ = ["PROTECTED", "find_never", "names_protected"]

PROTECTED: Final = (
    *(".mew", "space.yaml", "space.yml", ".mcp.json", ".vscode", ".zed", ".idea", ".cursor", ".windsurf"),
    *(".claude", "claude.md", ".codex", "agents.md", ".gemini", "gemini.md", ".qwen", "qwen.md"),
    *(".opencode", "opencode.json", ".git", "git~1", ".gitmodules", ".gitattributes"),
    *(".husky", ".github/workflows", ".envrc", ".ssh"),
)  # fmt: skip
"""Files and folders that settings of agents, of their clients and of this package stand in, or programs that run by
themselves, beside `mew-rules.yaml`."""
MAX_PARTS = 10_000  # texts of one call
MAX_CHARACTERS = 200_000
MAX_DECODED = 3
_DOTTED: Final = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, PROTECTED))})(?![a-z0-9])")
_RULES: Final = re.compile(r"mew[-_. ]?rules")
_SPACES: Final = re.compile(r"[\s'\"]+")
_SLASHES: Final = re.compile(r"[\\/\u2044\u2215\u29f8\uff0f]+(?:\.[\\/]+)*")


def names_protected(arguments: Any) -> str:
    """The protected name that some key or text of the arguments holds, as it stands, escaped or disguised; else empty.

    Arguments that are too large to be looked through count as naming one.
    """
    size = 0
    for number, text in enumerate(_texts(arguments)):
        size += len(text)
        if number >= MAX_PARTS or size > MAX_CHARACTERS:
            return "what is too large to be looked through"
        if name := _find(text):
            return name
    return ""


def _find(text: str) -> str:
    for _ in range(MAX_DECODED):
        plain = _SLASHES.sub("/", fold(text).replace("․", ".").replace("。", "."))
        for form in (plain, _SPACES.sub("", plain)):
            found = _DOTTED.search(form) or _RULES.search(form)
            if found is not None:
                return found[0]
        decoded = unquote(text)
        if decoded == text:
            break
        text = decoded
    return ""


def _texts(value: Any) -> Iterator[str]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from map(str, value)
            rest += value.values()
        elif isinstance(value, list | tuple):
            rest += value
            # A path may stand in a list segment by segment.
            if value and all(isinstance(part, str) for part in value):
                yield "/".join(value)


def find_never(call: AskedCall) -> str:
    """The reason why no rule approves this call; empty where nothing of it stands against that."""
    if call.has_options:
        return "it is a permission with options, of which a person chooses"
    if call.method != "tools/call":
        return "it calls no tool"
    if not call.target:
        return "it has no one target"
    if call.after_unknown:
        return "it would repeat a call of which nobody knows whether it took effect"
    if call.rejected:
        return "a participant has rejected it"
    if call.warnings:
        return "its card has a warning"
    if DESTRUCTIVE in call.hints:
        return "its tool is destructive, as the tool says itself"
    if not call.tool_hash:
        return "the description of its tool is not known"
    if name := names_protected(call.arguments):
        return f"its arguments name {name}, where settings of agents stand"
    return ""
