"""Reads an agent from its file and saves it: YAML or JSON, in the format of other tools. Reports all faults at once.

The chapters are `metadata`, `settings`, `systemPrompt`, `rules`, `references`, `mcpServers`, `supervisors`. All others
(`providers`, dates) are kept and saved unchanged, and so are unknown keys; `remarks` lists what has no effect. Each
fault has its key path, and shows no value that may be a secret.

Spec: tools-agent.md "Tool Serialization", TA-1, TA-2, TA-5, TA-6, TA-13 to TA-16.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mew_lab.bridge.server_entries import ServerReader
from mew_lab.errors import ConfigError
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.text import TOOL_NAME
from mew_lab.protocol.visible import one_line
from mew_lab.settings.documents import read_document, read_file, write_yaml
from mew_lab.settings.faults import Fault, faults_error, place
from mew_lab.settings.members import HALF, is_writable
from mew_lab.tools_agent.definition import (
    INCLUDES,
    MODES,
    NO_VERSION,
    PERMISSIONS,
    AgentDefinition,
    AgentSettings,
    Caller,
    Include,
    Mode,
    Permission,
    ServerDefinition,
    SessionSettings,
    ToolDefinition,
    ToolRule,
)
from mew_lab.tools_agent.schema import faults_of_schema
from mew_lab.transport.scratch import written_beside

__all__ = [
    "check_agent",
    "parse_agent",
    "read_agent_document",
    "read_agent_file",
    "save_agent_file",
    "write_first_file",
]


MAX_FILE = 16 * 1024 * 1024  # bytes: such files hold the vectors of tool descriptions
MAX_VALUES = 1_000_000  # most of them the numbers of those vectors
MAX_CACHE = 86_400  # seconds for which a result is given again
MAX_MILLISECONDS = 1e12  # of a time, about 30 years
FIRST: Mapping[str, Any] = {
    "version": "0.1.0",
    "mode": "tools",
    "tools": [
        {
            "name": "explain",
            "description": "Explains a term in a few words.",
            "parameters": {
                "type": "object",
                "properties": {"term": {"type": "string", "examples": ["entropy"]}},
                "required": ["term"],
            },
            "prompt": "Explain {term} in at most three sentences.\n",
        }
    ],
}
FIRST_SETTINGS = {"model": "offline", "toolPermission": "tool"}


def read_agent_file(path: str | Path) -> AgentDefinition:
    """The agent of a file, YAML or JSON.

    Raises:
        ConfigError: it cannot be read, or has faults; the message lists all of them, one per line, with key paths.
    """
    return parse_agent(read_agent_document(path), source=one_line(str(path), 300))


def read_agent_document(path: str | Path) -> Any:
    """The content of an agent file as plain data; it may have faults.

    Raises:
        ConfigError: it cannot be read, or is neither YAML nor JSON.
    """
    text = read_file(path, what="agent file", limit=MAX_FILE)
    return read_document(text, path=one_line(str(path), 300), max_values=MAX_VALUES)


def save_agent_file(document: Mapping[str, Any], path: str | Path) -> AgentDefinition:
    """Writes an agent, as JSON where the name ends in `.json`, else as YAML; returns it as it is read again.

    The old file stays until the new one is complete; an agent with faults is not written. An existing file keeps its
    permissions, and a link its target; a new file is readable by its owner alone, since it may hold secrets.

    Raises:
        ConfigError: it has faults, as in `parse_agent`, or is larger than an agent file may be.
        OSError: it cannot be written; the old file is unchanged.
    """
    path = Path(path)
    source = one_line(str(path), 300)
    parse_agent(document, source=source)
    if path.suffix.lower() == ".json":
        text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    else:
        text = write_yaml(dict(document))
    try:
        content = text.encode()
    except UnicodeEncodeError:
        message = f"{source} is not written: a text in it has half of a character, which no file can hold"
        raise ConfigError(message, path=source) from None
    if len(content) > MAX_FILE:
        message = (
            f"{source} is not written: it would be larger than {MAX_FILE >> 20} MiB, and could not be read"
        )
        raise ConfigError(message, path=source)
    agent = parse_agent(read_document(text, path=source, max_values=MAX_VALUES), source=source)
    path = path.resolve()
    with written_beside(path, durably=True) as file:
        file.write(content)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))  # noqa: PTH101 its name is not known here
    return agent


def write_first_file(path: str | Path) -> AgentDefinition:
    """Writes the file of a new agent with one small tool, named after the file; returns the agent.

    Raises:
        ConfigError: there is a file already.
        OSError: it cannot be written.
    """
    path = Path(path)
    if path.exists():
        source = one_line(str(path), 300)
        raise ConfigError(f"{source} is there already; edit it, or name another file", path=source)
    return save_agent_file({"metadata": {"name": path.stem, **FIRST}, "settings": FIRST_SETTINGS}, path)


def parse_agent(document: object, *, source: str = "this agent") -> AgentDefinition:
    """The agent that a document describes.

    Raises:
        ConfigError: with all faults, one per line, each with its key path.
    """
    reader = _AgentReader()
    agent = reader.agent(document, source=source)
    if reader.faults:
        raise faults_error(reader.faults, source)
    return agent


def check_agent(document: object) -> list[Fault]:
    """The faults of a document, each with its place; none where it is an agent."""
    reader = _AgentReader()
    reader.agent(document, source="")
    return reader.faults


class _AgentReader(ServerReader):
    """Reads a document, and collects its faults."""

    def agent(self, document: object, *, source: str) -> AgentDefinition:
        whole = self.mapping(document, "", what="an agent file")
        metadata = self.mapping(whole.get("metadata", {}), "metadata")
        listed = metadata.get("tools")
        return AgentDefinition(
            name=self.text(metadata, "name", "metadata", needed=True),
            mode=self.mode(metadata),
            version=self.text(metadata, "version", "metadata") or NO_VERSION,
            description=self.text(metadata, "description", "metadata"),
            system_prompt=self.system_prompt(whole),
            settings=self.settings(self.mapping(whole.get("settings") or {}, "settings")),
            tools=tuple(self.tools(self.sequence(listed, "metadata.tools"))),
            servers=self.servers(self.mapping(whole.get("mcpServers") or {}, "mcpServers")),
            supervisors=len(self.sequence(whole.get("supervisors"), "supervisors")),
            document=whole,
            source=source,
        )

    # --- pieces ---

    def number(
        self,
        of: Mapping[str, Any],
        key: str,
        low: float,
        high: float,
        *,
        whole: bool = False,
        at: str = "settings",
    ) -> Any:
        """A number, which may be written as text, too; `at` is the place of the mapping."""
        value = of.get(key)
        if value is None:
            return None
        try:
            number = float(value) if isinstance(value, int | float | str) else None
        except ValueError:
            number = None
        fits = number is not None and low <= number <= high and not (whole and number != int(number))
        if not fits or isinstance(value, bool):
            kind = "a whole number" if whole else "a number"
            self.fault(place(at, key), f"this must be {kind} from {low:g} to {high:g}")
            return None
        assert number is not None
        return int(number) if whole else number

    # --- chapters ---

    def mode(self, metadata: Mapping[str, Any]) -> Mode:
        """The mode; without `mode` tools decide, then skills or `autonomous`; else it is interactive."""
        if metadata.get("mode") is not None:
            return cast(Mode, self.choice(metadata, "mode", "metadata", MODES, "tools"))
        if isinstance(metadata.get("tools"), list):
            return "tools"
        autonomous = self.flag(metadata, "autonomous", "metadata", False)
        has_skills = bool(self.sequence(metadata.get("skills"), "metadata.skills"))
        return "autonomous" if autonomous or has_skills else "interactive"

    def settings(self, chapter: Mapping[str, Any]) -> AgentSettings:
        permission = self.choice(chapter, "toolPermission", "settings", PERMISSIONS, "tool")
        within, strict = (
            self.number(chapter, "repeatsWithin", 0, MAX_MILLISECONDS),
            chapter.get("strictUnknown"),
        )
        return AgentSettings(
            model=self.text(chapter, "model", "settings").strip() or "offline",
            tool_permission=cast(Permission, permission),
            max_chat_turns=self.number(chapter, "maxChatTurns", 1, 1000, whole=True) or 20,
            max_output_tokens=self.number(chapter, "maxOutputTokens", 1, 10_000_000, whole=True),
            temperature=self.number(chapter, "temperature", 0, 2),
            top_p=self.number(chapter, "topP", 0, 1),
            strict_unknown=None if strict is None else self.flag(chapter, "strictUnknown", "settings", False),
            repeats_within=None if within is None else within / 1000,
        )

    def session_settings(self, value: object, at: str) -> SessionSettings:
        """The settings of one tool's sessions."""
        if value is None:
            return SessionSettings()
        chapter = self.mapping(value, at)
        return SessionSettings(
            self.number(chapter, "maxChatTurns", 1, 1000, whole=True, at=at),
            self.number(chapter, "maxOutputTokens", 1, 10_000_000, whole=True, at=at),
            self.number(chapter, "temperature", 0, 2, at=at),
        )

    def names(self, value: object, at: str, what: str) -> tuple[str, ...]:
        """A list of names; `what` describes one of them."""
        listed = self.sequence(value, at)
        for n, name in enumerate(listed):
            if not isinstance(name, str) or not name.strip():
                self.fault(place(at, n), f"this must be {what}")
        return tuple(str(name) for name in listed)

    def callers(self, value: object, at: str) -> tuple[Caller, ...]:
        """The participants that may call a tool: ids, or objects of an id and the payload that a call must match."""
        callers = []
        for n, item in enumerate(self.sequence(value, at)):
            here = place(at, n)
            entry = item if isinstance(item, Mapping) else {"id": item}
            for key in entry:  # a misspelt payload must not permit every call
                if key not in ("id", "payload"):
                    self.fault(
                        place(here, str(key)), "there is no such key: a caller has an id and a payload"
                    )
            id, call = entry.get("id"), None
            if not isinstance(id, str) or not id.strip():
                self.fault(
                    place(here, "id") if item is entry else here, "this must be the id of a participant"
                )
            if "payload" in entry:
                try:
                    call = Capability.of({"kind": "mcp/request", "payload": entry["payload"]})
                except ConfigError as fault:
                    self.fault(place(here, fault.key), refer_to_patterns(str(fault)))
            callers.append(Caller(str(id), call))
        return tuple(callers)

    def needs(self, value: object, at: str) -> tuple[str, ...]:
        """The tools of others without which a tool is not called."""
        needs = self.names(value, at, "a tool of a participant")
        for n, name in enumerate(needs):
            if not all(name.partition("/")):
                self.fault(place(at, n), "this must be of the form participant/tool")
        return needs

    def system_prompt(self, whole: Mapping[str, Any]) -> str:
        """The opening of each session: the prompt, and the rules and references that are always included."""
        texts = [self.text(whole, "systemPrompt", "")]
        for chapter in ("rules", "references"):
            entries = []
            for n, value in enumerate(self.sequence(whole.get(chapter), chapter)):
                at = place(chapter, n)
                entry = self.mapping(value, at)
                if self.choice(entry, "include", at, INCLUDES, "always") == "always":
                    level = entry.get("priorityLevel")
                    level = level if isinstance(level, int) else 500
                    entries.append((level, self.text(entry, "text", at)))
            texts += [text for _, text in sorted(entries, key=lambda entry: entry[0])]
        return "\n\n".join(text.strip() for text in texts if text.strip())

    def tools(self, listed: Sequence[Any]) -> list[ToolDefinition]:
        tools: list[ToolDefinition] = []
        first: dict[str, str] = {}
        for n, value in enumerate(listed):
            at = place("metadata.tools", n)
            entry = self.mapping(value, at)
            if not isinstance(value, Mapping):
                continue
            tool = ToolDefinition(
                name=self.text(entry, "name", at, needed=True),
                description=self.text(entry, "description", at, needed=True),
                parameters=entry.get("parameters", {}),
                prompt=self.text(entry, "prompt", at, needed=True),
                settings=self.session_settings(entry.get("settings"), place(at, "settings")),
                callers=None
                if entry.get("callers") is None
                else self.callers(entry["callers"], place(at, "callers")),
                needs=self.needs(entry.get("needs"), place(at, "needs")),
                output=entry.get("outputSchema"),
                cache=self.number(entry, "cache", 0, MAX_CACHE, at=at) or None,
            )
            if tool.name and not TOOL_NAME.match(tool.name):
                message = f"{tool.name[:80]!r} cannot name a tool: it takes 1 to 128 of A-Z a-z 0-9 . _ -"
                self.fault(place(at, "name"), message)
            if tool.name in first:
                self.fault(place(at, "name"), f"{tool.name!r} is the name of {first[tool.name]}, too")
            elif tool.name:
                first[tool.name] = at
            self.schema(entry.get("parameters"), place(at, "parameters"))
            if tool.output is not None:
                self.schema(tool.output, place(at, "outputSchema"))
            tools.append(tool)
        return tools

    def schema(self, value: object, at: str) -> None:
        """Checks the schema of the parameters or the results of a tool."""
        self.faults += faults_of_schema(value, at=at)
        if not is_writable(json.dumps(value, ensure_ascii=False)):
            self.fault(at, HALF)

    def servers(self, chapter: Mapping[str, Any]) -> dict[str, ServerDefinition]:
        servers = {}
        for name, value in chapter.items():
            at = place("mcpServers", name)
            entry = self.mapping(value, at)
            server = self.server(name, entry, at)
            defaults = self.rule(entry.get("serverToolDefaults"), place(at, "serverToolDefaults"), ToolRule())
            tools = self.mapping(entry.get("tools") or {}, place(at, "tools"))
            servers[name] = ServerDefinition(
                **vars(server),
                defaults=defaults,
                tools={
                    key: self.rule(rule, place(at, "tools", key), defaults) for key, rule in tools.items()
                },
            )
        return servers

    def rule(self, value: object, at: str, default: ToolRule) -> ToolRule:
        if value is None:
            return default
        entry = self.mapping(value, at)
        return ToolRule(
            self.flag(entry, "permissionRequired", at, default.permission_required),
            cast(Include, self.choice(entry, "include", at, INCLUDES, default.include)),
        )
