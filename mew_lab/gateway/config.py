"""The configuration of a space as checked models; `space_file` reads them from files.

Every model refuses an unknown key, except `x-…`, so that no misspelt setting is silently ignored. A key without a value
counts as absent. No error shows a value that may be a secret.

Spec: §4.1 (profiles), §5.1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)

from mew_lab.errors import ConfigError
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.shares import JournalLimits
from mew_lab.protocol.envelope import MAX_MESSAGE, MOST_MESSAGE
from mew_lab.protocol.filename import MAX_SPACE, is_space_id
from mew_lab.protocol.permit import CLOSED, Capability
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.token import LEAST_TOKEN, Token
from mew_lab.protocol.visible import visible
from mew_lab.settings.faults import Fault, NestedFaults
from mew_lab.space.core import BASELINE
from mew_lab.space.shares import configurable
from mew_lab.space.state import SpaceLimits, is_participant_id

__all__ = [
    "BridgeConfig",
    "Capabilities",
    "Defaults",
    "LimitsConfig",
    "LogsConfig",
    "McpServerConfig",
    "ParticipantConfig",
    "ParticipantId",
    "Section",
    "SpaceConfig",
    "SpaceName",
    "SpaceSettings",
]


MAX_FAULTS = 20  # of one capability


def _participant_id(name: str) -> str:
    if not is_participant_id(name):
        raise ValueError(
            f"{name[:80]!r} cannot be a participant id: 1 to 64 of A-Z a-z 0-9 . _ -, not gateway or system"
        )
    return name


def _space_name(name: str) -> str:
    if not is_space_id(name):
        raise ValueError(
            f"{visible(name[:80])!r} cannot be a space's name: 1 to {MAX_SPACE} characters without control characters"
        )
    return name


def _capability(pattern: dict[str, Any]) -> dict[str, Any]:
    faults = [Fault(fault.key, str(fault)) for fault in _faults_of(pattern)]
    if faults:
        *others, last = faults
        raise NestedFaults([*others, Fault(last.key, refer_to_patterns(last.problem))])
    return pattern


def _faults_of(pattern: Mapping[str, Any]) -> Iterator[ConfigError]:
    """All faults of a capability; the part at fault is taken out, and the rest is checked again."""
    rest = copy.deepcopy(dict(pattern))
    judged: set[str] = set()
    while len(judged) < MAX_FAULTS:
        try:
            Capability.of(rest)
        except ConfigError as fault:
            if fault.key in judged:
                return
            yield fault
            judged.add(fault.key)
            if fault.key == "kind":
                rest["kind"] = "any"
                rest.pop(CLOSED, None)  # it depends on the kind
            else:
                _take_out(rest, fault.key)
        else:
            return


def _take_out(part: Any, wanted: str, key: str = "") -> bool:
    """Removes the value at a key path; in a list a valid element takes its place."""
    for name, inner in list(part.items() if isinstance(part, dict) else enumerate(part)):
        path = f"{key}[{name}]" if isinstance(part, list) else f"{key}.{name}" if key else str(name)
        if path == wanted:
            if isinstance(part, list):
                part[name] = "any"
            else:
                del part[name]
            return True
        if isinstance(inner, dict | list) and _take_out(inner, wanted, path):
            return True
    return False


def _secret(token: object) -> Token:
    if isinstance(token, Token):
        return token
    if not isinstance(token, str):
        raise ValueError("a token is text; put it in quotes")
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > 4096:
        raise ValueError("a token is 1 to 4096 printable ASCII characters without spaces")
    return Token(token)


def _word(value: object) -> object:
    """A word of a command line or environment as text; an integer or a boolean becomes its text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL character, which no program can be given")
    return text


def _variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name[:80]!r} cannot be the name of an environment variable")
    return name


def _inside(path: str) -> str:
    """A file name that stays below its base folder on any system. Links are checked when the file is opened."""
    windows = PureWindowsPath(path)
    outside = PurePosixPath(path).is_absolute() or windows.drive or windows.root or ".." in windows.parts
    if not path or "\0" in path or outside or windows.is_reserved():
        raise ValueError(
            f"{path[:80]!r} is no file below the folder of this file; give a relative path without `..`"
        )
    return path


ParticipantId = Annotated[str, AfterValidator(_participant_id)]
SpaceName = Annotated[str, AfterValidator(_space_name)]
Capabilities = list[Annotated[dict[str, Any], AfterValidator(_capability)]]
Secret = Annotated[Token, PlainValidator(_secret)]
Word = Annotated[str, BeforeValidator(_word), AfterValidator(_without_nul)]
Environment = dict[Annotated[str, AfterValidator(_variable)], Word]
FileBelow = Annotated[str, AfterValidator(_inside)]


class Section(BaseModel):
    """One mapping of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_notes(cls, members: object) -> object:
        if members is None:
            return {}
        if not isinstance(members, dict):
            return members
        return {
            key: value
            for key, value in members.items()
            if value is not None and not str(key).startswith("x-")
        }


class McpServerConfig(Section):
    """The command that starts an MCP server, its environment and folder; or the `url` of one that runs elsewhere.

    `cwd` is relative to the file's folder. `transport` is `http` or `sse`; without it, `sse` where the path of the URL
    ends with `/sse`. `${NAME}` in a header is an environment variable.
    """

    command: Word = ""
    args: list[Word] = Field(default_factory=list, repr=False)
    env: Environment = Field(default_factory=dict, repr=False)
    cwd: Word = ""
    url: Word = ""
    headers: Environment = Field(default_factory=dict, repr=False)
    transport: Literal["", "http", "sse"] = ""


class BridgeConfig(Section):
    """The settings of a bridge; `init_timeout` is in milliseconds, as in other implementations.

    The others are settings of mew_lab alone: `strict_unknown` and `repeats_within`, in seconds (R35). Of results that no
    message can hold, it keeps `result_bytes` of one and `results_bytes` of all, for `results_seconds` (R43). `quorum` of
    the `deciders` must say yes to a call before it is executed (R39). `writes` names the tools that write a file, each
    with its arguments for path and content.
    """

    init_timeout: float | None = Field(default=None, gt=0, le=3_600_000)
    reconnect: bool = False
    max_reconnects: int = Field(default=5, ge=0, le=1000)
    strict_unknown: bool = False
    repeats_within: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    result_bytes: int | None = Field(default=None, ge=0)
    results_bytes: int | None = Field(default=None, ge=0)
    results_seconds: float | None = Field(default=None, gt=0, le=30 * 86_400)
    quorum: int | None = Field(default=None, ge=1)
    deciders: list[ParticipantId] = Field(default_factory=list)
    writes: dict[Word, Annotated[list[Word], Field(min_length=2, max_length=2)]] = Field(default_factory=dict)


class Defaults(Section):
    """`default_to` of other implementations: the participants that their front ends address."""

    chat: list[str] = Field(default_factory=list)


class LimitsConfig(Section):
    """Limits of a space and its port; None is the default of `SpaceLimits`, `Limits` or `JournalLimits`.

    One participant, together with those that it invited, may take one part in `share` of each count of a space; 1
    lets it take all. `rights_bytes` and `capability_bytes` bound the capabilities in a welcome. `welcome_bytes` bounds
    the welcomes that one event sends; the next event sends the others. `steps` and `turn_steps` bound the cost of
    checking one message, and one event.

    The limits of the journal are in bytes, with their defaults in brackets. One participant may cause so many a second
    (2 MiB), so many at once (64 MiB), and `journal_bytes` in all (4 GiB). `journal_floor` (128 MiB) stays free on the
    disk.
    """

    participants: int | None = Field(default=None, ge=1)
    streams: int | None = Field(default=None, ge=0)
    grants: int | None = Field(default=None, ge=0)
    invites: int | None = Field(default=None, ge=0)
    capabilities: int | None = Field(default=None, ge=1)
    rights_bytes: int | None = Field(default=None, ge=1024)
    capability_bytes: int | None = Field(default=None, ge=64)
    welcome_bytes: int | None = Field(default=None, ge=1024)
    steps: int | None = Field(default=None, ge=1000)
    turn_steps: int | None = Field(default=None, ge=20_000)
    handles: int | None = Field(default=None, ge=1)
    runtime_ids: int | None = Field(default=None, ge=1)
    share: int | None = Field(default=None, ge=1)
    connections: int | None = Field(default=None, ge=1)
    unauthenticated: int | None = Field(default=None, ge=1)
    messages_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    burst: int | None = Field(default=None, ge=200)
    bytes_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    burst_bytes: int | None = Field(default=None, ge=64 * 1024)
    journal_bytes_per_second: float | None = Field(default=None, gt=0)
    journal_burst: int | None = Field(default=None, ge=1024 * 1024)
    journal_bytes: int | None = Field(default=None, ge=1024 * 1024)
    journal_floor: int | None = Field(default=None, ge=0)

    @property
    def of_space(self) -> SpaceLimits:
        """The limits that a space enforces."""
        return SpaceLimits(**self._set_values(SpaceLimits._fields))

    @property
    def of_server(self) -> Limits:
        """The limits that a port enforces."""
        return Limits(**self._set_values(field.name for field in fields(Limits)))

    @property
    def of_journal(self) -> JournalLimits:
        """The limits of the journal; `journal_bytes` is their total."""
        settings = {
            "bytes_per_second": self.journal_bytes_per_second,
            "burst": self.journal_burst,
            "total": self.journal_bytes,
            "floor": self.journal_floor,
        }
        return JournalLimits(**{name: value for name, value in settings.items() if value is not None})  # type: ignore[arg-type]

    def _set_values(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name, None)) is not None}


class LogsConfig(Section):
    """The peers' log files written beside the journal; `asked` when the file or the environment names them."""

    envelope_history: bool = True
    capability_decisions: bool = True
    asked: bool = True

    @property
    def any(self) -> bool:
        """Whether at least one of them is written."""
        return self.envelope_history or self.capability_decisions


class ParticipantConfig(Section):
    """One participant of a space: its capabilities, its tokens, and the program that runs as it.

    `command`, `args` and `env` are a program that is started if `auto_start` is true; `mcp_server` is the server that
    a participant of type `mcp-bridge` connects. One of type `acp` is a coding agent: `command` and `args` start it, or
    `command` is the name of a known one, such as `claude`; `files` is the folder of which it may read files by its
    bridge, and write them as people decide; `tools` is the participant by which it uses the tools of the space.
    `output_log` names a file that gets every message to it, from
    the start (`auto_connect`) or from its first HTTP message. Only other programs use `fifo`, `io` and `default_to`.
    """

    capabilities: Capabilities = Field(default_factory=list)
    type: Literal["local", "mcp-bridge", "acp", "key"] = "local"
    tokens: list[Secret] = Field(default_factory=list)
    auto_start: bool | None = None
    command: Word = ""
    args: list[Word] = Field(default_factory=list, repr=False)
    env: Environment = Field(default_factory=dict, repr=False)
    restart_policy: Literal["on-failure", "always", "never"] | None = None
    mcp_server: McpServerConfig | None = None
    bridge_config: BridgeConfig = Field(default_factory=BridgeConfig)
    files: Word = ""
    tools: ParticipantId | None = None
    output_log: FileBelow = ""
    auto_connect: bool = False
    fifo: bool = False
    io: str = ""
    default_to: Defaults = Field(default_factory=Defaults)
    description: str = ""

    @property
    def starts(self) -> bool:
        """Whether its program is started: a bridge or a coding agent unless `auto_start` is false, any other if it is
        true."""
        if self.type in ("mcp-bridge", "acp"):
            return self.auto_start is not False
        return bool(self.auto_start)


class SpaceSettings(Section):
    """The settings of a space besides its participants.

    `owner` cannot be revoked or kicked; `default_participant` is the seat of a person; `baseline` are the capabilities
    that every participant holds besides its own. `hosts` are further names of this gateway, `origins` the web pages
    that may use it. `message_bytes` is the size of the largest message, frames included. A slow reader is cut when more
    than `queue_bytes` wait for it.
    """

    owner: ParticipantId | None = None
    default_participant: ParticipantId | None = None
    baseline: Capabilities = Field(default_factory=lambda: [dict(pattern) for pattern in BASELINE])
    hosts: list[str] = Field(default_factory=list)
    origins: list[str] = Field(default_factory=list)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    message_bytes: int = Field(default=MAX_MESSAGE, ge=1024, le=MOST_MESSAGE)
    queue_bytes: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)


class SpaceConfig(SpaceSettings):
    """One space: its name, its participants, and its limits.

    `logs` are the log files in the peers' format; None writes none. A token of fewer than 16 characters is
    refused unless `short_tokens` allows it.
    """

    name: SpaceName
    participants: dict[ParticipantId, ParticipantConfig] = Field(default_factory=dict)
    logs: LogsConfig | None = None
    short_tokens: bool = False

    @model_validator(mode="after")
    def _refuse_short_tokens(self) -> SpaceConfig:
        short = [
            name
            for name, participant in self.participants.items()
            if any(len(token.reveal()) < LEAST_TOKEN for token in participant.tokens)
        ]
        if short and not self.short_tokens:
            raise ValueError(
                f"a token of {short[0]} has fewer than {LEAST_TOKEN} characters, so it could be guessed; leave tokens "
                "out to have them made, or set short_tokens=True"
            )
        return self

    def check_limits(self) -> SpaceLimits:
        """The limits of the space, checked.

        Raises:
            ConfigError: when its capabilities are too large for a welcome, or too costly to check.
        """
        held = {name: participant.capabilities for name, participant in self.participants.items()}
        configurable(held, self.baseline, self.limits.of_space)
        return self.limits.of_space
