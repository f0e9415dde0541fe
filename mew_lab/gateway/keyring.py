"""Collects the tokens of a space file: from the file, the environment and token files, or fresh ones.

Every participant has one token of its own, from the environment variable `MEW_TOKEN_<ID>` or from a token file. Where
neither has one, it is minted and written to a file that only its owner can read. The tokens in the list `tokens` of the
file are valid as well. All tokens go into a `Tokens`; no participant is admitted here.

Spec: §5.1, §5.2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.gateway.auth import Tokens, mint, read_token_file, remark_tracked, token_path, write_token_file
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.protocol.token import LEAST_TOKEN, Token
from mew_lab.settings.faults import Fault, faults_error
from mew_lab.transport.folder import find_tracked, hide

__all__ = ["Key", "issue", "remarks", "variable"]


class Key(NamedTuple):
    """A participant's own token, and its file; None where the token is from the environment."""

    token: Token
    file: Path | None


def variable(participant: str) -> str:
    """The name of the environment variable for the participant's token: `MEW_TOKEN_MY_BOT` for `my-bot`."""
    return f"MEW_TOKEN_{participant.upper().replace('-', '_')}"


def issue(file: SpaceFile, tokens: Tokens, *, environ: Mapping[str, str] = os.environ) -> dict[str, Key]:
    """Adds every token of the file's participants to `tokens`; returns each participant's own.

    Raises:
        ConfigError: with every fault: a token file that cannot be used, a token that two participants have.
    """
    space = file.config.name
    keys: dict[str, Key] = {}
    faults: list[Fault] = []
    for name, participant in file.config.participants.items():
        source = variable(name)
        try:
            for token in participant.tokens:
                source = f"participants.{name}.tokens"
                tokens.add(space, name, token)
            source = variable(name)
            key = keys[name] = _own(file, name, environ)
            source = str(key.file or source)
            tokens.add(space, name, key.token)
        except ConfigError as fault:
            faults.append(Fault(source, str(fault)))
    if faults:
        raise faults_error(faults, file.path)
    hide(file.folder / ".mew")
    return keys


def _own(file: SpaceFile, participant: str, environ: Mapping[str, str]) -> Key:
    secret = environ.get(variable(participant), "")
    if secret:
        return Key(Token(secret), None)
    space, kept = file.config.name, file.folder / ".mew" / "tokens"
    for path in (
        token_path(kept, space, participant),
        file.path.parent / "tokens" / f"{participant}.token",  # where other implementations keep them
    ):
        if os.path.lexists(path):
            return Key(read_token_file(path), path)
    token = mint()
    return Key(token, write_token_file(kept, space, participant, token))


def remarks(keys: Mapping[str, Key]) -> Iterator[str]:
    """Sentences about tokens that others may have or guess, each with the way to another one."""
    tracked = set(find_tracked(key.file for key in keys.values() if key.file is not None))
    for name, key in keys.items():
        place = f"in {key.file}" if key.file is not None else f"from {variable(name)}"
        if len(key.token.reveal()) < LEAST_TOKEN:
            another = "delete the file" if key.file is not None else "unset the variable"
            yield (
                f"the token of {name}, {place}, has fewer than {LEAST_TOKEN} characters, so it could be guessed; "
                f"{another}, and one is made at the next start"
            )
        if key.file is not None and key.file in tracked:
            yield f"the token of {name}, {place}, {remark_tracked(key.file)}"
