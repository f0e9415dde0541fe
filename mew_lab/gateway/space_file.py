"""Reads a space.yaml and checks it completely: returns a `SpaceFile`, or raises one error with every fault.

The keys are those of other implementations, so that their files are read unchanged, and some extensions. A key that
only other programs use is checked and ignored. This module opens one file and starts nothing.

Spec: §4.1 (profiles), §5.1.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from mew_lab.gateway.config import (
    Capabilities,
    Defaults,
    LogsConfig,
    ParticipantConfig,
    ParticipantId,
    Section,
    SpaceConfig,
    SpaceName,
    SpaceSettings,
)
from mew_lab.protocol.coerce import list_of
from mew_lab.protocol.pattern import search_remarks, warnings
from mew_lab.protocol.token import LEAST_TOKEN, Token, mask
from mew_lab.protocol.visible import one_line
from mew_lab.settings.documents import read_document, read_file
from mew_lab.settings.faults import Fault, did_you_mean, faults_error, model_faults, place

__all__ = ["SpaceFile", "names_file", "parse_space_file", "read_space_file"]

YES = frozenset({"true", "1", "yes", "on", "y", "enabled"})
NO = frozenset({"false", "0", "no", "off", "n", "disabled"})


class SpaceFile(NamedTuple):
    """The contents of a space.yaml. `remarks` are sentences about settings that may have an unintended meaning."""

    path: Path
    config: SpaceConfig
    remarks: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The base of the file's relative paths: its folder, or the parent of the folder `.mew` that holds it."""
        beside = self.path.parent
        return beside.parent if beside.name == ".mew" else beside

    @property
    def logs(self) -> Path:
        """The folder of logs, next to the file."""
        return self.path.parent / "logs"

    @property
    def commands(self) -> dict[str, list[str]]:
        """The words of each command that starts with the space, by participant; of a bridge to a URL, that URL."""
        commands = {}
        for name, participant in self.config.participants.items():
            if participant.starts:
                server = participant.mcp_server
                words = [server.command, *server.args] if server else [participant.command, *participant.args]
                commands[name] = [server.url.partition("?")[0]] if server and server.url else words
        return commands

    @property
    def command_lines(self) -> tuple[str, ...]:
        """The commands that start with the space, to be shown before they run."""
        lines = []
        for name, words in self.commands.items():
            text = words[0] if len(words) == 1 else shlex.join(words)
            lines.append(f"{name}: {one_line(mask(text), 500)}")
        return tuple(lines)


# --- the shape of the file ---------------------------------------------------------------------------------------


class _Switch(Section):
    enabled: bool = True


class _Logging(Section):
    enabled: bool = True
    envelope_history: _Switch = Field(default_factory=_Switch)
    capability_decisions: _Switch = Field(default_factory=_Switch)


class _Routing(Section):
    default_to: Defaults = Field(default_factory=Defaults)


class _FileDefaults(Section):
    capabilities: Capabilities = Field(default_factory=list)
    routing: _Routing = Field(default_factory=_Routing)


class _Space(SpaceSettings):
    id: SpaceName
    name: str = ""
    description: str = ""
    ui_theme: str = ""


class _File(Section):
    space: _Space
    participants: dict[ParticipantId, ParticipantConfig] = Field(default_factory=dict)
    defaults: _FileDefaults = Field(default_factory=_FileDefaults)
    gateway_logging: _Logging = Field(default_factory=_Logging)


# --- reading -----------------------------------------------------------------------------------------------------


def read_space_file(path: str | os.PathLike[str], *, environ: Mapping[str, str] = os.environ) -> SpaceFile:
    """The space described by a YAML or JSON file.

    `environ` may switch the peers' log files: GATEWAY_LOGGING, ENVELOPE_HISTORY, CAPABILITY_DECISIONS.

    Raises:
        ConfigError: when the file cannot be read, or with all its faults, each with its key path.
    """
    text = read_file(Path(path), what="space file")
    return parse_space_file(text, path=Path(path).absolute(), environ=environ)


def names_file(name: str | os.PathLike[str]) -> bool:
    """Whether the text is the path of a space.yaml rather than the name of a space."""
    return not isinstance(name, str) or name.endswith((".yaml", ".yml", ".json"))


def parse_space_file(text: str, *, path: Path, environ: Mapping[str, str] = os.environ) -> SpaceFile:
    """Like `read_space_file`, for a text that was read already; `path` names its source."""
    document = read_document(text, path=str(path))
    faults: list[Fault] = []
    file: _File | None = None
    try:
        file = _File.model_validate({} if document is None else document)
    except ValidationError as fault:
        faults += model_faults(fault, root=_File)
    faults += _faults_between_keys(document)
    switches, more = _switches(environ)
    faults += more
    if file is None or faults:
        raise faults_error(faults, path)
    return SpaceFile(path, _config(file, switches), tuple(_remarks(document)))


def _config(file: _File, switches: Mapping[str, bool]) -> SpaceConfig:
    standard = {"capabilities": file.defaults.capabilities}
    participants = {
        name: participant
        if "capabilities" in participant.model_fields_set
        else participant.model_copy(update=standard)
        for name, participant in file.participants.items()
    }
    logging = file.gateway_logging
    logs = LogsConfig(
        envelope_history=switches.get("ENVELOPE_HISTORY", logging.envelope_history.enabled),
        capability_decisions=switches.get("CAPABILITY_DECISIONS", logging.capability_decisions.enabled),
        asked="gateway_logging" in file.model_fields_set or bool(switches),
    )
    settings = {name: getattr(file.space, name) for name in SpaceSettings.model_fields}
    return SpaceConfig(
        name=file.space.id,
        short_tokens=True,  # other implementations use them, so this is only a remark
        participants=participants,
        logs=logs if switches.get("GATEWAY_LOGGING", logging.enabled) else None,
        **settings,
    )


def _switches(environ: Mapping[str, str]) -> tuple[dict[str, bool], list[Fault]]:
    """The switches of the peers' log files in the environment, read as other implementations do."""
    switches, faults = {}, []
    for name in ("GATEWAY_LOGGING", "ENVELOPE_HISTORY", "CAPABILITY_DECISIONS"):
        word = environ.get(name, "").strip().lower()
        if word in YES | NO:
            switches[name] = word in YES
        elif word:
            faults.append(
                Fault(name, "this environment variable has no boolean value; set it to true or false")
            )
    return switches, faults


def _remarks(document: object) -> Iterator[str]:
    for key, patterns in _capability_lists(document):
        yield from warnings(patterns, key=key)
        yield from search_remarks(patterns, key=key)
    for name, participant in _participants(document).items():
        for at, token in enumerate(list_of(participant.get("tokens"))):
            if isinstance(token, str) and len(token) < LEAST_TOKEN:
                short = f"it has fewer than {LEAST_TOKEN} characters, so it could be guessed"
                yield f"participants.{name}.tokens[{at}]: {short}; leave tokens out, and one is made"
        if participant.get("auto_connect") and not participant.get("output_log"):
            yield f"participants.{name}.auto_connect: it does nothing without output_log"


# --- faults that concern several keys ----------------------------------------------------------------------------


def _mapping(value: object, key: str = "") -> dict[str, Any]:
    inner = value.get(key) if key and isinstance(value, dict) else value
    return inner if isinstance(inner, dict) else {}


def _participants(document: object) -> dict[str, dict[str, Any]]:
    return {name: _mapping(participant) for name, participant in _mapping(document, "participants").items()}


def _capability_lists(document: object) -> Iterator[tuple[str, object]]:
    yield "space.baseline", _mapping(document, "space").get("baseline")
    yield "defaults.capabilities", _mapping(document, "defaults").get("capabilities")
    for name, participant in _participants(document).items():
        yield f"participants.{name}.capabilities", participant.get("capabilities")


def _faults_between_keys(document: object) -> Iterator[Fault]:
    """Faults between keys, found in the file as written, so that no other fault hides them."""
    participants = _participants(document)
    folded: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, participant in participants.items():
        first = folded.setdefault(name.casefold(), name)
        if first != name:
            yield Fault(
                place("participants", name),
                f"its name differs only in case from {first!r}; choose another id",
            )
        yield from _shared_tokens(name, participant.get("tokens"), owners)
        yield from _unstartable(name, participant)
        yield from _undecidable(name, participant, participants)
        yield from _unusable_tools(name, participant, participants)
    space = _mapping(document, "space")
    for key in ("owner", "default_participant"):
        named = space.get(key)
        if isinstance(named, str) and named not in participants:
            hint = did_you_mean(named, participants) or "name one that is"
            yield Fault(f"space.{key}", f"{named[:80]!r} is none of the participants; {hint}")


def _shared_tokens(name: str, tokens: object, owners: dict[str, str]) -> Iterator[Fault]:
    for at, token in enumerate(list_of(tokens)):
        if isinstance(token, str) and owners.setdefault(token, name) != name:
            shown = Token(token, remember=False)
            problem = f"the token {shown} is {owners[token]!r}'s too, so it identifies no participant"
            key = place("participants", name, "tokens", at)
            yield Fault(key, f"{problem}; give each participant its own")


def _unusable_tools(
    name: str, participant: dict[str, Any], participants: Mapping[str, dict[str, Any]]
) -> Iterator[Fault]:
    """Faults of the participant by which a coding agent uses the tools of the space."""
    tools, key = participant.get("tools"), place("participants", name, "tools")
    if tools is not None and participant.get("type") != "acp":
        yield Fault(key, "it is for a coding agent, of the type acp")
    elif isinstance(tools, str) and (tools == name or tools not in participants):
        hint = did_you_mean(tools, set(participants) - {name}) or "name one that is"
        yield Fault(key, f"{tools[:80]!r} is none of the other participants; {hint}")
    elif isinstance(tools, str) and participants[tools].get("command"):
        yield Fault(key, f"{tools[:80]!r} is a program already; name a participant of the agent's own")


def _undecidable(name: str, participant: dict[str, Any], participants: Collection[str]) -> Iterator[Fault]:
    """Faults of a quorum that nobody could reach, and of files that nobody here could read."""
    settings = _mapping(participant, "bridge_config")
    deciders, key = settings.get("deciders"), place("participants", name, "bridge_config")
    named = {one for one in list_of(deciders) if isinstance(one, str)}
    for one in sorted(named - set(participants)):
        hint = did_you_mean(one, participants) or "name one that is"
        yield Fault(place(key, "deciders"), f"{one[:80]!r} is none of the participants; {hint}")
    count = settings.get("quorum")
    if (isinstance(count, int) and count > len(named)) or (named and count is None):
        problem = f"it is how many of the deciders must say yes, and {len(named)} are named"
        yield Fault(place(key, "quorum"), problem)
    if settings.get("writes") and _mapping(participant, "mcp_server").get("url"):
        problem = "it is for a server that is started here; the files of one at a URL are not known here"
        yield Fault(place(key, "writes"), problem)


def _unstartable(name: str, participant: dict[str, Any]) -> Iterator[Fault]:
    if participant.get("files") and participant.get("type") != "acp":
        yield Fault(place("participants", name, "files"), "only a participant of type acp has it")
    if participant.get("type") == "mcp-bridge":
        server = participant.get("mcp_server")
        if isinstance(server, dict) and bool(server.get("command")) == bool(server.get("url")):
            problem = (
                "it takes a command that starts the server or the url of one that runs elsewhere, one of both"
            )
            yield Fault(place("participants", name, "mcp_server"), problem)
        if server is None and participant.get("auto_start") is not False:
            problem = "an mcp-bridge needs it: a mapping with command and args of the MCP server"
            yield Fault(place("participants", name, "mcp_server"), problem)
    elif participant.get("type") == "acp" and not participant.get("command"):
        problem = "an acp needs it: the program of a coding agent, or the name of a known one, such as claude"
        yield Fault(place("participants", name, "command"), problem)
    elif participant.get("auto_start") is True and not participant.get("command"):
        yield Fault(
            place("participants", name, "command"), "auto_start needs it: the program that is to be started"
        )
