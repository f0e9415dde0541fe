"""How are a space's wishes carried out?  In their order, and nothing is decided.

The one place where a token enters a message: on its way to the inviter, and only there.

Spec: §3.6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mew_lab.gateway.auth import Tokens
from mew_lab.gateway.outbox import Frame, Peer
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.token import Token
from mew_lab.space.events import Close, Deliver, Effect, HttpReply, Mint, Relay, Void

__all__ = ["carry_out"]


def carry_out(
    effects: Iterable[Effect], *, space: str, peers: Mapping[str, Peer], tokens: Tokens, url: str
) -> tuple[Effect, ...]:
    """Delivers, closes, mints and voids; returns the effects, a reply that has to carry a token with it in place.

    `url` is where the invited may connect, empty where nobody can.
    """
    token: Token | None = None
    done: list[Effect] = []
    for effect in effects:
        if type(effect) is Deliver:
            envelope = effect.envelope
            raw = _told(envelope, token, url) if effect.secret and token else envelope.raw
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
            effect = effect._replace(body=_filled(effect.body, token, url))
        done.append(effect)
    return tuple(done)


def _put(peers: Mapping[str, Peer], frame: Frame, connections: Iterable[str]) -> None:
    for name in connections:
        peer = peers.get(name)
        if peer is not None:
            peer.put(frame)


def _told(envelope: Envelope, token: Token, url: str) -> str:
    return compact({**envelope.members, "payload": _filled(envelope.payload, token, url)})


def _filled(said: Mapping[str, Any], token: Token, url: str) -> dict[str, Any]:
    return {**said, "token": token.reveal(), **({"connection_url": url} if url else {})}
