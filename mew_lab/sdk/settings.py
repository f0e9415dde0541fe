"""How is a participant set up from outside?  File, then environment, then arguments; the later word counts.

It starts nothing. Secrets are a `Token` from the moment they are read, and a value is in no error and no repr.

Spec: SDK "Configuration", threat 26.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError, ProtocolError
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.config import read_yaml
from mew_lab.sdk.connection import address
from mew_lab.sdk.environment import filled, unset
from mew_lab.sdk.options import OPTIONS, option_of, value_of

__all__ = ["MAX_FILE", "Settings", "read_settings"]

MAX_FILE = 1024 * 1024  # bytes
VARIABLES = {
    "MEW_GATEWAY": "gateway",
    "MEW_SPACE": "space",
    "MEW_TOKEN": "token",
    "MEW_PARTICIPANT_ID": "participant_id",
}
AGENT = "MEW_AGENT_CONFIG"
# What the reader says of these faults quotes no value of the file; of the others only the place is told.
TELLABLE = re.compile(r"stands twice|stands inside|nested|aliases unfold|must be text|another document")
PLACE = re.compile(r"line \d+, column \d+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """How one participant is set up: where it joins and as whom, and the options of each layer by name.

    What nobody said is absent from `client`, `participant` and `agent`, so that each layer's own default
    holds. Times are seconds. `agent["api_key"]` is a Token.
    """

    gateway: str = ""
    space: str = ""
    token: Token | None = None
    participant_id: str | None = None
    client: Mapping[str, Any] = field(default_factory=dict)
    participant: Mapping[str, Any] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        where = f"{self.space or 'a space'} at {self.gateway.rpartition('@')[2] or 'no gateway'}"
        said = ", ".join([*self.client, *self.participant, *self.agent]) or "nothing else"
        return (
            f"<Settings of {self.participant_id or 'a participant'} in {where}, token {self.token}: {said}>"
        )

    @property
    def for_client(self) -> dict[str, Any]:
        """The arguments of `MEWClient`."""
        own = {name: getattr(self, name) for name in ("gateway", "space", "token", "participant_id")}
        return {**own, **self.client}


def read_settings(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None, **arguments: Any
) -> Settings:
    """The settings that a file, the environment and arguments make together; the later word counts.

    The file is YAML or JSON and may hold any setting in either spelling; `${NAME}` in its texts is that
    variable. The environment's `MEW_AGENT_CONFIG` is such a file's path, or its JSON text; `MEW_GATEWAY`,
    `MEW_SPACE`, `MEW_TOKEN` and `MEW_PARTICIPANT_ID` count more than what stands there. Prompts are
    put together phase by phase. An argument that is None and a variable that is empty say nothing.

    Args:
        path: the file; None reads none.
        environ: the variables; None takes those of the process.
        arguments: any setting by its name, such as `token` or `max_iterations`.

    Raises:
        ConfigError: with file and key path: what cannot be read, is too large, unknown or of a wrong type, or
        names a variable that is not set.

    Spec: SDK "Configuration".
    """
    environ = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    if path is not None:
        _add(found, _read_file(Path(path), environ))
    written = environ.get(AGENT, "").strip()
    if written.startswith("{"):
        _add(found, _read(_parsed(written, source=AGENT), source=AGENT, environ=environ))
    elif written:
        if not _is_file(Path(written)):
            raise ConfigError(
                f"{AGENT} is neither JSON, which begins with '{{', nor the path of a file", path=AGENT
            )
        _add(found, _read_file(Path(written), environ))
    for variable, name in VARIABLES.items():
        if environ.get(variable):
            _add(found, _read({name: environ[variable]}, source=variable))
    said = {name: value for name, value in arguments.items() if value is not None}
    _add(found, _read(said, source="arguments"))
    parts: dict[str, dict[str, Any]] = {"": {}, "client": {}, "participant": {}, "agent": {}}
    for name, value in found.items():
        parts[OPTIONS[name].part][name] = value
    own = parts.pop("")
    if "gateway" in own:
        address(own["gateway"], own.get("space", ""))  # refuses what is no address, or holds a password
    return Settings(**own, client=parts["client"], participant=parts["participant"], agent=parts["agent"])


def _add(found: dict[str, Any], later: Mapping[str, Any]) -> None:
    for name, value in later.items():
        found[name] = {**found.get(name, {}), **value} if name == "prompts" else value


def _read(
    given: Mapping[str, Any], *, source: str, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The settings of one source by our names; `${NAME}` is filled in where an environment is given."""
    found: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for key, value in given.items():
        name = option_of(key, source=source)
        if name in spelt:
            said = f"{source}: {spelt[name]!r} and {key!r} are the same setting; keep one"
            raise ConfigError(said, path=source, key=key)
        spelt[name] = key
        if environ is not None:
            value = _filled(value, environ, source=source, key=key)
        found[name] = value_of(key, value, source=source)
    return found


def _filled(value: Any, environ: Mapping[str, str], *, source: str, key: str) -> Any:
    if isinstance(value, str):
        missing = unset(value, environ)
        if missing:
            said = f"{source}: {key} asks for the variable {missing[0]}, which is not set; set it"
            raise ConfigError(said, path=source, key=key)
        return filled(value, environ)
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, str, Any]] = ((k, f"{key}.{one_line(k, 40)}", v) for k, v in value.items())
        return {k: _filled(v, environ, source=source, key=at) for k, at, v in pairs}
    if isinstance(value, list):
        return [_filled(one, environ, source=source, key=f"{key}[{at}]") for at, one in enumerate(value)]
    return value


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


def _read_file(path: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    source = one_line(str(path), 300)
    if not _is_file(path):  # a pipe or a device would be read without end
        raise ConfigError(f"{source} cannot be read: there is no such file", path=source)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as fault:
        raise ConfigError(f"{source} cannot be read: {fault.strerror or fault}", path=source) from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"{source} is larger than 1 MiB; no settings are", path=source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeError:
        raise ConfigError(f"{source} is not UTF-8 text", path=source) from None
    return _read(_parsed(text, source=source), source=source, environ=environ)


def _parsed(text: str, *, source: str) -> dict[str, Any]:
    """One mapping, from JSON where the text is that, else from YAML."""
    if text.lstrip().startswith("{"):
        try:
            return read_strict(text, limit=MAX_FILE)
        except ProtocolError:
            pass  # a mapping of YAML may begin so, too, and its reader says what is wrong
    try:
        found = read_yaml(text, path=source)
    except ConfigError as fault:
        if TELLABLE.search(str(fault)):
            raise
        place = PLACE.search(str(fault))
        said = f"{source} is neither YAML nor JSON that is read here{f': see {place[0]}' if place else ''}"
        raise ConfigError(said, path=source) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError(f"{source} must be a mapping of settings, such as `space: demo`", path=source)
    return found
