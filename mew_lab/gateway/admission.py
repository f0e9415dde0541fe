"""Checks requests before admission: `Host`, `Origin`, bearer token, join frame. It has no side effects.

A request must name this gateway in `Host`; else a web page could reach it through a name of its own. Its `Origin` must
be configured. Space, token and id of a request are read here; `auth.Tokens` finds the participant of a token.

Spec: §5.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.gateway.auth import Tokens
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.token import Token, mask

__all__ = ["Hosts", "Identity", "JoinFrame", "bearer", "identify", "read_join", "without_join"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
LATE_JOIN = '{"kind":"system/join"}'
_PLAIN_ESCAPE = re.compile(r"\\u(00(?:2d|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a]))", re.IGNORECASE)
MISSING_BEARER = "Missing or invalid authorization header"


class Hosts:
    """The names under which this gateway may be addressed: loopback names with its port, and configured ones.

    A configured name without a port matches any port. Names are compared without regard to case.
    """

    def __init__(self, port: int, *, allowed: Iterable[str] = (), bound: str = "") -> None:
        ours = set(LOOPBACK)
        if bound and bound not in {"0.0.0.0", "::", ""}:  # the literal address that the server listens on
            ours.add(f"[{bound}]" if ":" in bound else bound.lower())
        self._any_port = {name.lower() for name in allowed}
        self._exact = {f"{name}:{port}" for name in ours} | self._any_port
        if port == 80:  # the default port, which a client leaves out
            self._exact |= ours

    def __contains__(self, host: str) -> bool:
        host = host.lower()
        name, _, port = host.rpartition(":")
        return host in self._exact or (port.isdigit() and name in self._any_port)


def bearer(authorization: str | None) -> Token | None:
    """The bearer token in an `Authorization` header; None when it has none."""
    scheme, _, secret = (authorization or "").strip().partition(" ")
    secret = secret.strip()
    return Token(secret, remember=False) if scheme.lower() == "bearer" and secret else None


class JoinFrame(NamedTuple):
    """The members of a join frame; empty where they are absent."""

    space: str
    token: Token | None
    runtime_id: str


class Identity(NamedTuple):
    """The participant and the space to which a token belongs."""

    space: str
    participant: str


def _claimed(members: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The members of a join frame of either form; None when the message is no join frame."""
    if members.get("type") == "join":
        return members
    if members.get("kind") == "system/join":
        return mapping_of(members.get("payload"))
    return None


def read_join(text: str, *, limit: int) -> JoinFrame | None:
    """The join frame in a text; None when the text is no join frame of at most `limit` bytes.

    Raises:
        ProtocolError: when space, token or participant id is not a string.
    """
    try:
        members = _claimed(read_strict(text, limit=limit))
    except ProtocolError:
        return None
    if members is None:
        return None
    values = [members.get(key) or "" for key in ("space", "token", "participantId")]
    if not all(isinstance(value, str) for value in values):
        raise ProtocolError("space, token and participantId of a join frame must be strings", section="§5.2")
    space, secret, runtime_id = values
    return JoinFrame(space, Token(secret, remember=False) if secret else None, runtime_id)


def without_join(text: str, *, limit: int) -> str:
    """An ordinary message unchanged; of a late join frame, which holds a token, only the kind.

    In a text that is not strict JSON, known secrets are masked, because the journal keeps refused messages.

    Spec: §5.2.
    """
    # Any JSON spelling of these letters contains one of the two; most messages return here.
    if "join" not in text and "\\u" not in text:
        return text
    try:
        return text if _claimed(read_strict(text, limit=limit)) is None else LATE_JOIN
    except ProtocolError:
        plain = _PLAIN_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "\\u" in text else text
        masked = mask(plain)
        return mask(text) if masked == plain else masked


def identify(tokens: Tokens, token: Token, *, spaces: Collection[str], requested: str) -> Identity | None:
    """The identity of a token in the space `requested`; where that is empty, in the only space that knows the token."""
    identities = [
        Identity(space, participant)
        for space in spaces
        if requested in ("", space) and (participant := tokens.participant_of(space, token)) is not None
    ]
    return identities[0] if len(identities) == 1 else None
