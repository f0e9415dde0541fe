"""Reads the settings of a participant from file, environment and arguments; a later source overrides an earlier one.

A secret is a `Token` from the moment it is read, and no error and no repr shows a value.

Spec: SDK "Configuration", threat 26.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.connection import address
from mew_lab.sdk.options import OPTIONS, option_of, value_of
from mew_lab.settings.documents import is_file, read_document, read_file
from mew_lab.settings.environment import fill_settings

__all__ = ["Settings", "read_settings"]

VARIABLES = {
    "MEW_GATEWAY": "gateway",
    "MEW_SPACE": "space",
    "MEW_TOKEN": "token",
    "MEW_PARTICIPANT_ID": "participant_id",
}
AGENT = "MEW_AGENT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """The settings of one participant: gateway, space, token and id, and the options of each layer by name.

    Options that no source sets are absent from `client`, `participant` and `agent`, so the default of each layer holds.
    Times are seconds. `agent["api_key"]` is a Token.
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
        options = ", ".join([*self.client, *self.participant, *self.agent]) or "nothing else"
        return f"<Settings of {self.participant_id or 'a participant'} in {where}, token {self.token}: {options}>"

    @property
    def for_client(self) -> dict[str, Any]:
        """The arguments of `MEWClient`."""
        own = {name: getattr(self, name) for name in ("gateway", "space", "token", "participant_id")}
        return {**own, **self.client}


def read_settings(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None, **arguments: Any
) -> Settings:
    """The settings from a file, the environment and arguments; a later source overrides an earlier one.

    The file is YAML or JSON and may hold any setting in either spelling; `${NAME}` in its texts is replaced by that
    variable. `MEW_AGENT_CONFIG` in the environment is the path of such a file, or its JSON text; `MEW_GATEWAY`,
    `MEW_SPACE`, `MEW_TOKEN` and `MEW_PARTICIPANT_ID` override that file. Prompts are merged phase by phase. An
    argument that is None and a variable that is empty are ignored.

    Args:
        path: the file; None reads none.
        environ: the variables; None takes those of the process.
        arguments: any setting by its name, such as `token` or `max_iterations`.

    Raises:
        ConfigError: a file cannot be read or is too large; a setting is unknown, of a wrong type, or names a variable
            that is not set. The error names the file and the key path.

    Spec: SDK "Configuration".
    """
    environ = os.environ if environ is None else environ
    settings: dict[str, Any] = {}
    if path is not None:
        _add(settings, _read_file(Path(path), environ))
    written = environ.get(AGENT, "").strip()
    if written.startswith("{"):
        _add(settings, _read(_parse(written, AGENT), source=AGENT, environ=environ))
    elif written:
        if not is_file(written):  # not shown: it may be a secret in the wrong variable
            message = f"{AGENT} is neither JSON, which begins with '{{', nor the path of a file"
            raise ConfigError(message, path=AGENT)
        _add(settings, _read_file(written, environ))
    for variable, name in VARIABLES.items():
        if environ.get(variable):
            _add(settings, _read({name: environ[variable]}, source=variable))
    present = {name: value for name, value in arguments.items() if value is not None}
    _add(settings, _read(present, source="arguments"))
    parts: dict[str, dict[str, Any]] = {"": {}, "client": {}, "participant": {}, "agent": {}}
    for name, value in settings.items():
        parts[OPTIONS[name].part][name] = value
    own = parts.pop("")
    if "gateway" in own:
        address(own["gateway"], own.get("space", ""))  # refuses an invalid address and one with a password
    return Settings(**own, client=parts["client"], participant=parts["participant"], agent=parts["agent"])


def _add(settings: dict[str, Any], later: Mapping[str, Any]) -> None:
    for name, value in later.items():
        settings[name] = {**settings.get(name, {}), **value} if name == "prompts" else value


def _read(
    values: Mapping[str, Any], *, source: str, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The settings of one source by their names in Python; `${NAME}` is replaced unless `environ` is None."""
    settings: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for key, value in values.items():
        name = option_of(key, source=source)
        if name in spelt:
            message = f"{source}: {spelt[name]!r} and {key!r} are the same setting; keep one"
            raise ConfigError(message, path=source, key=key)
        spelt[name] = key
        if environ is not None:
            value = fill_settings(value, environ, key=key, source=source)
        settings[name] = value_of(key, value, source=source)
    return settings


def _read_file(path: str | Path, environ: Mapping[str, str]) -> dict[str, Any]:
    source = one_line(str(path), 300)
    return _read(_parse(read_file(path, what="settings file"), source), source=source, environ=environ)


def _parse(text: str, source: str) -> dict[str, Any]:
    document = read_document(text, path=source)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{source} must be a mapping of settings, such as `space: demo`", path=source)
    return document
