"""Defines an agent that is served as tools: its metadata, the settings of its sessions, its tools and its servers.

The data is checked and starts nothing; `agent_file` reads it from files.

Spec: tools-agent.md "Agent Metadata Structure", TA-1, TA-5, TA-17, TA-28, TA-75.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from mew_lab.agent.react import find_json_object
from mew_lab.bridge.server_entries import ServerEntry
from mew_lab.errors import ConfigError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.permit import Capability
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.signature import BadArguments, GivenSchema
from mew_lab.tools_agent.schema import wire_schema

__all__ = [
    "INCLUDES",
    "MODES",
    "NO_VERSION",
    "PERMISSIONS",
    "AgentDefinition",
    "AgentSettings",
    "Caller",
    "Include",
    "Mode",
    "Permission",
    "ServerDefinition",
    "SessionSettings",
    "ToolDefinition",
    "ToolRule",
]

Mode = Literal["interactive", "autonomous", "tools"]
Permission = Literal["always", "never", "tool"]
Include = Literal["always", "manual", "agent"]
MODES: tuple[Mode, ...] = ("interactive", "autonomous", "tools")
PERMISSIONS: tuple[Permission, ...] = ("always", "never", "tool")
INCLUDES: tuple[Include, ...] = ("always", "manual", "agent")
NO_VERSION = "0.0.0"  # the version of an agent whose file names none


@dataclass(frozen=True)
class SessionSettings:
    """The settings of one session; None takes those of the agent. Spec: TA-40."""

    max_chat_turns: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None


class Caller(NamedTuple):
    """A participant that may call a tool. `call` is what its requests must match; None takes all. Spec: TA-72."""

    id: str
    call: Capability | None = None


@dataclass(frozen=True)
class ToolDefinition:
    """One tool: its description for clients, and the prompt of its calls. `parameters` are unchanged from the file.

    `settings` are those of its sessions. `callers` are the participants that may call it; None lets all. `needs` are
    the tools of others, as `participant/tool`, without which it is not called. `output` is the schema of its results,
    `outputSchema` in the file; None lets a result be any text. `cache` are the seconds for which a result that was only
    read is given again; None never does.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    prompt: str
    settings: SessionSettings = SessionSettings()
    callers: tuple[Caller, ...] | None = None
    needs: tuple[str, ...] = ()
    output: Mapping[str, Any] | None = None
    cache: float | None = None

    @cached_property
    def digest(self) -> str:
        """A hash of all that decides on a call of it: two versions of a tool differ in it. Spec: TA-70."""
        parts = (
            self.name,
            self.description,
            self.parameters,
            self.prompt,
            astuple(self.settings),
            self.needs,
            self.output,
            *(
                () if self.cache is None else (self.cache,)
            ),  # the hash of a tool without one is that of before
        )
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def described(self) -> dict[str, Any]:
        """Its entry in `tools/list`. Spec: TA-17."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": wire_schema(self.parameters),
            **({"outputSchema": wire_schema(self.output)} if self.output is not None else {}),
        }

    @property
    def properties(self) -> Mapping[str, Mapping[str, Any]]:
        """The schema of each parameter."""
        properties: Mapping[str, Mapping[str, Any]] = self.parameters.get("properties") or {}
        return properties

    @property
    def required(self) -> Sequence[str]:
        """The required parameters."""
        required: Sequence[str] = self.parameters.get("required") or ()
        return required

    def refuse_caller(self, request: Envelope) -> str:
        """The reason why its file does not permit a request; empty where it does. Spec: TA-37, TA-72."""
        if self.callers is None:
            return ""
        listed = [caller for caller in self.callers if caller.id == request.sender]
        if not listed:
            return f"its file does not list {one_line(request.sender, 80)} as a caller"
        for caller in listed:
            if caller.call is None or caller.call.permits(request.kind, request.to, request.payload):
                return ""
        return f"its file permits {one_line(request.sender, 80)} only calls that match its entry in callers"

    def faults_of(self, arguments: Mapping[str, Any]) -> list[str]:
        """The faults of the arguments of a call, each with its path. Undeclared arguments are faults unless allowed.

        Spec: TA-28.
        """
        try:
            return _list_faults(self._given, arguments)
        except ConfigError as fault:
            return [f"arguments: they cannot be checked against the schema: {fault}"]

    def read_result(self, text: str) -> tuple[dict[str, Any], list[str]]:
        """The JSON object in an answer of the model, and its faults against `output`, each with its path.

        Spec: TA-75.
        """
        value = find_json_object(text)
        if value is None:
            return {}, ["result: it holds no JSON object"]
        try:
            json.dumps(value, allow_nan=False)
            return value, _list_faults(self._promised, value)
        except (ConfigError, ValueError) as fault:
            return {}, [f"result: it cannot be sent: {fault}"]

    @cached_property
    def _given(self) -> GivenSchema:
        schema = {"additionalProperties": False, **wire_schema(self.parameters)}
        return GivenSchema(schema, name=self.name)

    @cached_property
    def _promised(self) -> GivenSchema:
        return GivenSchema(wire_schema(self.output or {}), name=self.name, root="result")


def _list_faults(schema: GivenSchema, value: Mapping[str, Any]) -> list[str]:
    try:
        schema.bind(value)
    except BadArguments as fault:
        return [f"{violation['path']}: {violation['message']}" for violation in fault.faults]
    return []


@dataclass(frozen=True)
class AgentSettings:
    """The settings of its sessions. `model` is a name for `model_of`, optionally after its provider and a colon.

    `strict_unknown` and `repeats_within`, in seconds, are for its tools and those of the servers that are started with
    it; None where the file does not state them. Spec: ruling R35.
    """

    model: str = "offline"
    tool_permission: Permission = "tool"
    max_chat_turns: int = 20
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    strict_unknown: bool | None = None
    repeats_within: float | None = None

    @property
    def on_repeat(self) -> dict[str, Any]:
        """What the file states about repeats of calls of unknown outcome, as arguments of `MEWParticipant`."""
        stated = {"strict_unknown": self.strict_unknown, "repeats_within": self.repeats_within}
        return {name: value for name, value in stated.items() if value is not None}

    @property
    def needs_address(self) -> bool:
        """Whether the model is one of a provider whose server has to be named."""
        provider, colon, _ = self.model.partition(":")
        return bool(colon) and provider != "openai"

    @property
    def sampling(self) -> dict[str, float]:
        """The sampling figures for the model's replies, as the chat completions API names them. Spec: TA-40."""
        wished = {
            "max_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }
        return {key: value for key, value in wished.items() if value is not None}


class ToolRule(NamedTuple):
    """The rule of a file for one tool of a server; without one, a call needs a person's permission."""

    permission_required: bool = True
    include: Include = "always"


@dataclass(frozen=True)
class ServerDefinition(ServerEntry):
    """One entry of `mcpServers`, with the rules for its tools."""

    defaults: ToolRule = field(default_factory=ToolRule)
    tools: Mapping[str, ToolRule] = field(default_factory=dict)

    def needs_permission(self, tool: str) -> bool:
        """Whether a call needs a person's permission, which is so unless the file states otherwise."""
        return self.tools.get(tool, self.defaults).permission_required

    def in_context(self, tool: str) -> bool:
        """Whether a session has it without a person adding it."""
        return self.tools.get(tool, self.defaults).include != "manual"


@dataclass(frozen=True)
class AgentDefinition:
    """One agent. `document` is the whole content of the file, `source` its origin; `supervisors` is their number."""

    name: str
    mode: Mode = "tools"
    version: str = NO_VERSION
    description: str = ""
    system_prompt: str = ""
    settings: AgentSettings = AgentSettings()
    tools: tuple[ToolDefinition, ...] = ()
    servers: Mapping[str, ServerDefinition] = field(default_factory=dict)
    supervisors: int = 0
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    source: str = ""

    def with_model(self, model: str | None) -> AgentDefinition:
        """The agent with another model; the agent itself where `model` is None."""
        return self if model is None else replace(self, settings=replace(self.settings, model=model))

    def tool(self, name: str) -> ToolDefinition | None:
        """The tool of that name, if any."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @property
    def server_info(self) -> dict[str, str]:
        """`serverInfo` of MCP's `initialize`. Spec: T-1."""
        return {"name": self.name, "version": self.version}
