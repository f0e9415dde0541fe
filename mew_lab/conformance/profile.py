"""Holds the participants of a conformance run: roles with fixed capabilities, and the small file of their tokens.

The file is JSON (and so YAML), readable by its owner alone. The same roles can be written as a space.yaml to start a
gateway with them.

Spec: §4.1 (example capability sets), §5.1.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import ConfigError
from mew_lab.protocol.token import Token
from mew_lab.settings.documents import read_file, read_yaml
from mew_lab.transport.scratch import written_beside

__all__ = [
    "ROLES",
    "SECOND_ROLES",
    "Profile",
    "fresh",
    "read_profile",
    "space_file",
    "write_private",
    "write_profile",
]

Capabilities = tuple[Mapping[str, Any], ...]


def _kinds(*kinds: str) -> Capabilities:
    return tuple({"kind": kind} for kind in kinds)


_STREAMS = _kinds("stream/*", "chat", "capability/grant-ack")

ROLES: Mapping[str, Capabilities] = {
    # The three example sets of §4.1, the read-only one of §9.3, and an empty one.
    "admin": _kinds("*"),
    "human": _kinds("mcp/*", "chat"),
    "proposer": _kinds("mcp/proposal", "mcp/response", "chat"),
    "reader": (
        {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}},
        {"kind": "mcp/response"},
        {"kind": "chat"},
    ),
    "lister": ({"kind": "mcp/request", "payload": {"method": "*/list"}},),
    "observer": (),
    # The pattern language.
    "matcher": (
        {
            "kind": "mcp/request",
            "payload": {"method": "tools/call", "params": {"name": "/(read|list)_[a-z]+/"}},
        },
        {
            "kind": "mcp/request",
            "payload": {"method": "resources/read", "params": {"uri": ["file:///a/*", "file:///b/**"]}},
        },
        {"kind": "mcp/request", "payload": {"method": "prompts/get", "$.params.labels[*]": "safe"}},
        {
            "kind": "mcp/request",
            "payload": {"method": "math/run", "params": {"n": [1, 2], "sure": True, "none": None}},
        },
        {"kind": "mcp/request", "payload": {"method": "deep/find", "params": {"**": "needle"}}},
        {"kind": "mcp/proposal", "payload": {"method": "!tools/call"}},
        {"kind": "chat", "to": "admin"},
        {"kind": "below/*"},
        {"kind": "one/*/end"},
    ),
    # Delegation: its own rights to grant.
    "granter": _kinds("capability/grant", "space/invite", "lent/*", "chat"),
    "streamer": _STREAMS,
    "player": _STREAMS,
    "viewer": _STREAMS,
    # Targets of controls, grants and kicks.
    "worker": _kinds(
        "chat",
        "chat/*",
        "mcp/*",
        "reasoning/*",
        "stream/*",
        "participant/status",
        "participant/resume",
        "participant/compact-done",
        "capability/grant-ack",
    ),
    "spare": _kinds("chat", "capability/grant-ack", "yielded/*"),
}

# The same names as in the first space, with other rights.
SECOND_ROLES: Mapping[str, Capabilities] = {
    "admin": _kinds("*"),
    "human": _kinds("chat", "stream/*"),
}

SPACE = "conformance"
SECOND = "conformance-2"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)


class Profile(NamedTuple):
    """The tokens of one run; `second` is another space on the same gateway, or None."""

    space: str
    tokens: Mapping[str, Token]
    second: Profile | None = None


def fresh(space: str = SPACE, *, second: bool = False) -> Profile:
    """New tokens for every role."""

    def mint_participants(roles: Mapping[str, Capabilities]) -> dict[str, Token]:
        return {role: Token(secrets.token_urlsafe(32)) for role in roles}

    return Profile(
        space, mint_participants(ROLES), Profile(SECOND, mint_participants(SECOND_ROLES)) if second else None
    )


def space_file(profile: Profile) -> str:
    """The text of a space.yaml that enrols every role with its token; JSON, one participant per line."""
    roles = SECOND_ROLES if set(profile.tokens) == set(SECOND_ROLES) else ROLES
    lines = [
        f"    {json.dumps(role)}: "
        + json.dumps({"tokens": [token.reveal()], "capabilities": list(roles.get(role, ()))})
        for role, token in profile.tokens.items()
    ]
    space = json.dumps({"id": profile.space, "name": "for mew-lab conform"})
    return f'{{\n  "space": {space},\n  "participants": {{\n' + ",\n".join(lines) + "\n  }\n}\n"


def write_profile(path: Path, profile: Profile) -> None:
    """Writes the tokens to a file for its owner alone; `read_profile` reads it."""

    def to_document(profile: Profile) -> dict[str, Any]:
        return {
            "space": profile.space,
            "tokens": {role: token.reveal() for role, token in profile.tokens.items()},
        }

    text = to_document(profile) | ({"second": to_document(profile.second)} if profile.second else {})
    write_private(path, json.dumps(text, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Writes a file with tokens: only its owner may read it, and a link there is not followed.

    Raises:
        ConfigError: when it cannot be written.
    """
    try:
        with written_beside(path) as file:
            file.write(text.encode())
    except OSError as fault:
        raise ConfigError(f"{path} could not be written: {fault.strerror}", path=str(path)) from None


def read_profile(path: Path | str) -> Profile:
    """The tokens in a file: `space`, `tokens` by role, and optionally `second` with the same two.

    A space.yaml with the roles is read as well: the first token of each participant counts.

    Raises:
        ConfigError: when it cannot be read, others than its owner may read it, or a role has no token.
    """
    path = Path(path)
    text = read_file(path, what="tokens file")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(
            f"the tokens file {path} can be read by others than its owner; run: chmod 600 {path}",
            path=str(path),
        )
    document = read_yaml(text, path=str(path))
    if not isinstance(document, dict):
        raise ConfigError(f"the tokens file {path} holds no mapping", path=str(path))
    second = document.get("second")
    profile = _profile(document, ROLES, path, key="")
    return profile._replace(second=_profile(second, SECOND_ROLES, path, key="second.")) if second else profile


def _profile(document: Any, roles: Mapping[str, Capabilities], path: Path, *, key: str) -> Profile:
    def wrong(what: str, where: str) -> ConfigError:
        help_ = "mew-lab conform --write-space FILE --tokens FILE writes both files"
        return ConfigError(
            f"the tokens file {path}: {key}{where} {what}; {help_}", path=str(path), key=key + where
        )

    if not isinstance(document, dict):
        raise wrong("is no mapping", "")
    space = document.get("space")
    tokens = document.get("tokens")
    if isinstance(space, dict):  # a space.yaml
        space = space.get("id")
        named = document.get("participants")
        tokens = {
            role: next(iter(settings.get("tokens") or ()), None) if isinstance(settings, dict) else None
            for role, settings in (named.items() if isinstance(named, dict) else ())
        }
    if not isinstance(space, str) or not _NAME.match(space):
        raise wrong("names no space", "space")
    if not isinstance(tokens, dict):
        raise wrong("is no mapping of roles to tokens", "tokens")
    missing = [role for role in roles if not isinstance(tokens.get(role), str) or not tokens[role]]
    if missing:
        raise wrong(f"has no token for {', '.join(missing)}", "tokens")
    return Profile(space, {role: Token(tokens[role]) for role in roles})
