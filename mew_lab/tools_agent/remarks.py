"""Lists what the author of an agent file should look at: prompts, and members of the file that have no effect here.

A file of another implementation keeps every member when it is saved. A member that guards or informs the agent there and
has no effect here is named with its place, before the agent is served.

Spec: TA-14, TA-25, TA-77.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mew_lab.bridge.server_entries import STARTED
from mew_lab.settings.faults import Fault, did_you_mean, place, printable
from mew_lab.tools_agent.definition import AgentDefinition, ServerDefinition
from mew_lab.tools_agent.template import lint

__all__ = ["list_ignored", "list_remarks"]

_CHAPTERS = (
    "metadata", "settings", "systemPrompt", "rules", "references", "providers", "mcpServers", "supervisors",
)  # fmt: skip
_METADATA = (
    "name", "version", "description", "mode", "tools", "skills", "autonomous", "iconUrl", "documentationUrl",
    "provider", "created", "lastAccessed",
)  # fmt: skip
_SETTINGS = (
    "maxChatTurns", "maxOutputTokens", "temperature", "topP", "theme", "systemPath", "model", "contextTopK",
    "contextTopN", "contextIncludeScore", "toolPermission", "strictUnknown", "repeatsWithin",
)  # fmt: skip
_TOOL = (
    "name",
    "description",
    "parameters",
    "prompt",
    "settings",
    "callers",
    "needs",
    "outputSchema",
    "cache",
)
_SERVER = ("type", "command", "args", "env", "cwd", "url", "headers", "serverToolDefaults", "tools")


def list_remarks(agent: AgentDefinition) -> list[Fault]:
    """The remarks about an agent, each with its place: its prompts, its permissions, and what has no effect."""
    remarks = [
        remark for n, tool in enumerate(agent.tools) for remark in lint(tool, at=place("metadata.tools", n))
    ]
    permission = agent.settings.tool_permission
    if agent.mode == "tools" and permission != "never":
        usable = (
            "no tool" if permission == "always" else "only tools that are marked permissionRequired: false"
        )
        remarks.append(Fault("settings.toolPermission", f"with {permission}, a session may use {usable}"))
    return remarks + list_ignored(agent)


def list_ignored(agent: AgentDefinition) -> list[Fault]:
    """The members of an agent file that have no effect here, each with its place. No value of the file is shown."""
    return [*_misspelt(agent.document), *_chapters(agent), *_servers(agent.servers)]


def _chapters(agent: AgentDefinition) -> Iterator[Fault]:
    document = agent.document
    for n in range(agent.supervisors):
        yield Fault(place("supervisors", n), "no supervisor reviews the prompts and answers of calls here")
    for chapter in ("rules", "references"):
        for n, entry in enumerate(document.get(chapter) or ()):
            include = entry.get("include") or "always"
            if include != "always":
                kind = {"agent": "that the agent would choose", "manual": "that a person would add"}[include]
                yield Fault(
                    place(chapter, n, "include"), f"a session gets no text {kind}; only always is included"
                )
    settings = document.get("settings") or {}
    if settings.get("systemPath"):
        yield Fault("settings.systemPath", "it is not read; programs get the PATH of this process")
    if agent.settings.needs_address:
        yield Fault(
            "settings.model", "its provider is reached by --base-url, the address of a server that has it"
        )
    if document.get("providers"):
        yield Fault("providers", "no key is read from the file; --key-env names a variable that holds it")
    if agent.mode == "tools" and (document.get("metadata") or {}).get("skills"):
        yield Fault("metadata.skills", "an agent of mode tools does not advertise skills")


def _servers(servers: Mapping[str, ServerDefinition]) -> Iterator[Fault]:
    for server in servers.values():
        at = place("mcpServers", server.name)
        if not server.can_start:
            kind = printable(server.type, 40)
            yield Fault(
                place(at, "type"), f"a server of type {kind} is not started, only {', '.join(STARTED)}"
            )
            continue
        chosen = sum(rule.include == "agent" for rule in server.tools.values())
        if server.defaults.include == "agent":
            yield Fault(
                place(at, "serverToolDefaults.include"), "agent counts as always: the agent does not choose"
            )
        elif chosen:
            tools = "1 tool" if chosen == 1 else f"{chosen} tools"
            yield Fault(
                place(at, "tools"), f"include: agent of {tools} counts as always: the agent does not choose"
            )


def _misspelt(document: Mapping[str, Any]) -> Iterator[Fault]:
    """Keys that resemble a known one: nobody reads them. Other unknown keys may be those of another program."""
    metadata, servers = document.get("metadata") or {}, document.get("mcpServers") or {}
    levels: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [
        ("", document, _CHAPTERS),
        ("metadata", metadata, _METADATA),
        ("settings", document.get("settings") or {}, _SETTINGS),
        *((place("metadata.tools", n), tool, _TOOL) for n, tool in enumerate(metadata.get("tools") or ())),
        *((place("mcpServers", name), server, _SERVER) for name, server in servers.items()),
    ]
    for at, level, known in levels:
        for key in level:
            if key not in known and (
                hint := did_you_mean(key, [name for name in known if name not in level])
            ):
                yield Fault(place(at, key), f"there is no such key, so it has no effect; {hint}")
