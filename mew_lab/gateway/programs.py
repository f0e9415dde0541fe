"""Derives the programs of a space.yaml: command line, environment and token of each.

A program gets a clean environment with the variables that the file names and its own token. `${PORT}`, `${SPACE}` and
`${TOKEN}` in its arguments are replaced as other implementations do. This module starts nothing; its caller passes the
command of a bridge.

Spec: threat 28.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mew_lab.gateway.config import ParticipantConfig
from mew_lab.gateway.keyring import Key, variable
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line
from mew_lab.settings.environment import fill_variables, inherited_environment

__all__ = ["RESTARTS", "Program", "programs_of"]

RESTARTS = 5  # in a row
HEADER = "MEW_LAB_HEADER_"  # and a number: the variables with the headers of a server at a URL


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that runs as one participant. Its arguments and its environment may hold its token."""

    participant: str
    command: tuple[str, ...] = field(repr=False)
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    log: Path
    restart: str = "never"
    restarts: int = RESTARTS
    secrets: tuple[Token, ...] = ()

    @property
    def command_line(self) -> str:
        """The exact command in shell syntax; only known secrets are masked."""
        return one_line(mask(shlex.join(self.command)), 500)


def programs_of(
    file: SpaceFile,
    keys: Mapping[str, Key],
    *,
    url: str,
    port: int,
    bridge: Sequence[str],
    bridge_env: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    logs: str = "",
) -> list[Program]:
    """The programs of a space.yaml: the agents that it starts, coding agents among them, and its MCP bridges.

    Args:
        keys: each participant's own token.
        url: the address of the gateway, and `port` its port.
        bridge: the command that connects an MCP server to a space, and `bridge_env` its environment.
        environ: the variables for `${NAME}` in the file's `env`; `${NAME}` of an unset one stays.
        logs: a folder for their logs, below that of the file's logs.
    """
    programs = []
    for name, participant in file.config.participants.items():
        if not participant.starts:
            continue
        token = keys[name].token
        variables = {
            **inherited_environment(environ),
            **_fill_environment(participant.env, environ),
            variable(name): token.reveal(),
        }
        program = Program(
            participant=name,
            command=(),
            cwd=file.folder,
            env=variables,
            log=file.logs / logs / f"{name}.log",
            restart=participant.restart_policy or "never",
            secrets=(token, *participant.tokens),
        )
        words = (*bridge, url, "--space", file.config.name, "--as", name, "--token-env", variable(name))
        if participant.type == "acp":
            owner = file.config.owner or file.config.default_participant
            if participant.tools is not None:
                key = keys[participant.tools].token
                variables = {**program.env, variable(participant.tools): key.reveal()}
                program = replace(program, env=variables, secrets=(*program.secrets, key))
            programs.append(
                _coding_agent(program, participant, words=words, owner=owner, more=bridge_env or {})
            )
        elif participant.type == "mcp-bridge":
            programs.append(
                _bridge(program, participant, words=words, more=bridge_env or {}, environ=environ)
            )
        else:
            programs.append(_agent(program, participant, space=file.config.name, port=port, token=token))
    return programs


def _agent(
    program: Program, participant: ParticipantConfig, *, space: str, port: int, token: Token
) -> Program:
    values = {"PORT": str(port), "SPACE": space, "TOKEN": token.reveal()}
    words = (
        sys.executable if participant.command == "python" else participant.command,
        *(_replace_once(word, values) for word in participant.args),
    )
    return replace(program, command=words, env={**program.env, **values})


def _coding_agent(
    program: Program,
    participant: ParticipantConfig,
    *,
    words: Sequence[str],
    owner: str | None,
    more: Mapping[str, str],
) -> Program:
    """The program of a coding agent that speaks ACP; the owner of the space is the one that it obeys."""
    options = [word for name in participant.env for word in ("--env", name)]
    options += ["--files", participant.files] if participant.files else []
    options += ["--owner", owner] if owner else []
    if (tools := participant.tools) is not None:
        options += ["--tools-as", tools, "--tools-token-env", variable(tools)]
    command = (*words, "--acp", *options, "--", participant.command, *participant.args)
    return replace(program, command=command, env={**program.env, **more})


def _bridge(
    program: Program,
    participant: ParticipantConfig,
    *,
    words: Sequence[str],
    more: Mapping[str, str],
    environ: Mapping[str, str],
) -> Program:
    server, settings = participant.mcp_server, participant.bridge_config
    assert server is not None  # the file was checked
    env = {**program.env, **_fill_environment(server.env, environ)}
    env_options = [word for name in (*participant.env, *server.env) for word in ("--env", name)]
    wait = [] if settings.init_timeout is None else ["--init-timeout", f"{settings.init_timeout / 1000:g}"]
    if settings.strict_unknown:
        wait += ["--strict-unknown"]
    if settings.repeats_within is not None:
        wait += ["--repeats-within", repr(settings.repeats_within)]
    for name in ("result_bytes", "results_bytes", "results_seconds"):
        if (value := getattr(settings, name)) is not None:
            wait += [f"--{name.replace('_', '-')}", repr(value)]
    if settings.quorum is not None:
        wait += ["--quorum", repr(settings.quorum)]
        wait += [word for name in settings.deciders for word in ("--decider", name)]
    if server.url:
        # A header may be a secret, and the arguments of a process can be read by every user.
        variables = {f"{HEADER}{at}": value for at, value in enumerate(server.headers.values())}
        env |= _fill_environment(variables, environ)
        headers = [f"{name}: ${{{at}}}" for name, at in zip(server.headers, variables, strict=True)]
        options = [word for header in headers for word in ("--header", header)]
        transport = ("--transport", server.transport) if server.transport else ()
        command = (*words, *wait, *options, *transport, "--", server.url)
    else:
        command = (*words, *wait, *env_options, "--", server.command, *server.args)
    restart = participant.restart_policy or ("on-failure" if settings.reconnect else "never")
    return replace(
        program,
        command=command,
        env={**env, **more},
        cwd=program.cwd / server.cwd,
        restart=restart,
        restarts=settings.max_reconnects if settings.reconnect else RESTARTS,
    )


def _fill_environment(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    return {name: fill_variables(value, environ) for name, value in env.items()}


def _replace_once(word: str, values: Mapping[str, str]) -> str:
    """A word with its first `${PORT}`, `${SPACE}` and `${TOKEN}` replaced, as other implementations do."""
    for name, value in values.items():
        word = word.replace(f"${{{name}}}", value, 1)
    return word
