"""Applies the effects of a space in their order; decides nothing.

This is the only place where a token enters a message: the answer to the inviter.

Spec: §3.6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mew_lab.gateway.auth import Tokens
from mew_lab.gateway.delivery import Frame, Peer
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.token import Token
from mew_lab.space.events import Close, Deliver, Effect, HttpReply, Mint, Relay, Void

__all__ = ["apply_effects"]


def apply_effects(
    effects: Iterable[Effect], *, space: str, peers: Mapping[str, Peer], tokens: Tokens, url: str
) -> tuple[Effect, ...]:
    """Delivers, closes, mints and voids as the effects state; returns them, with the token in the reply to an inviter.

    `url` is the address for an invited participant; empty while nothing serves the gateway.
    """
    token: Token | None = None
    done: list[Effect] = []
    for effect in effects:
        if type(effect) is Deliver:
            envelope = effect.envelope
            raw = _write_with_token(envelope, token, url) if effect.secret and token else envelope.raw
            _put(peers, Frame(raw), effect.connections)
        elif type(effect) is Relay:
            frame = Frame(effect.data.decode()) if effect.text else Frame(data=effect.data)
            _put(peers, frame, effect.connections)
        elif type(effect) is Close:
            peer = peers.get(effect.connection)
            if peer is not None:
                peer.close(effect.code, effect.reason, drop=effect.drop)
        elif type(effect) is Mint:
            tokens.void(space, effect.participant)
            token = tokens.mint(space, effect.participant)
        elif type(effect) is Void:
            tokens.void(space, effect.participant)
        elif type(effect) is HttpReply and effect.secret and token:
            effect = effect._replace(body=_add_token(effect.body, token, url))
        done.append(effect)
    return tuple(done)


def _put(peers: Mapping[str, Peer], frame: Frame, connections: Iterable[str]) -> None:
    for name in connections:
        peer = peers.get(name)
        if peer is not None:
            peer.put(frame)


def _write_with_token(envelope: Envelope, token: Token, url: str) -> str:
    return compact({**envelope.members, "payload": _add_token(envelope.payload, token, url)})


def _add_token(payload: Mapping[str, Any], token: Token, url: str) -> dict[str, Any]:
    return {**payload, "token": token.reveal(), **({"connection_url": url} if url else {})}
