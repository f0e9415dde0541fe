"""How does one knock at a gateway's door, and what does it mean when it stays shut?

The one place of the client that reveals a token: in the header, and in the join frame. Both go out, because
peers' gateways know only the frame, and ours waits for one that may name a runtime id.

Spec: §5.2, rulings R8, R8b, R8c.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mew_lab.errors import ConfigError, ConnectionLost, MewError, NotAdmitted
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed

__all__ = ["RECONNECT", "Door", "address"]

RECONNECT = frozenset({1001, 1006, 1012})
FINAL = {
    4401: "the token or the space is unknown there. It may have been voided or replaced: "
    "ask the space's owner for the token of this space",
    4403: "it was removed from the space. Ask the space's owner for a new invitation",
    4409: "its id is taken. End the other connection of that id, or join under another one",
}


def address(gateway: str, space: str) -> str:
    """The WebSocket address of a space: `http` becomes `ws`, no path becomes `/ws`, and no secret stands in
    it.

    Raises:
        ConfigError: when `gateway` is no address, or holds a user or password.
    """
    parts = urlsplit(gateway)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.hostname or "@" in parts.netloc:
        shown = gateway.rpartition("@")[2]
        raise ConfigError(
            f"{one_line(shown, 200)!r} is no address of a gateway; it reads like ws://127.0.0.1:8080, "
            "without user and password",
            key="gateway",
        )
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "space"]
    query += [("space", space)] if space else []
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or "/ws", urlencode(query), ""))


class Door(NamedTuple):
    """Where a participant asks to be let in, and as whom."""

    gateway: str
    space: str
    token: Token | None
    participant_id: str | None

    async def open(self, *, timeout: float, heartbeat: float | None) -> Link:
        """A WebSocket on which the welcome is to come.

        Raises:
            ConfigError: the address is none.
            HandshakeRefused, LinkClosed: as the transport says; `explain` makes sentences of them.
        """
        from mew_lab.transport import websocket  # a client within one process needs no network library

        headers = {"Authorization": f"Bearer {self.token.reveal()}"} if self.token else {}
        link = await websocket.connect(
            address(self.gateway, self.space),
            headers=headers,
            open_timeout=timeout,
            ping_interval=heartbeat,
            ping_timeout=heartbeat,
        )
        join = {
            "type": "join",
            "space": self.space,
            "token": self.token.reveal() if self.token else "",
            "participantId": self.participant_id or "",
        }
        with contextlib.suppress(LinkClosed):  # the first `receive` tells why it closed
            await link.send(compact({key: value for key, value in join.items() if value}))
        return link

    def explain(self, fault: HandshakeRefused | LinkClosed, *, name: str, welcomed: bool) -> MewError:
        """A sentence: what was tried, by whom, what would help."""
        where = f"space {self.space!r}" + (f" at {self.gateway}" if self.gateway else "")
        who = f"{name!r}" if name else "a participant"
        if isinstance(fault, HandshakeRefused):
            if fault.status == 401:
                return NotAdmitted(f"Cannot join {where} as {who}: {FINAL[4401]}", space=self.space)
            said = f" ({one_line(fault.body, 200)})" if fault.body else ""
            return ConnectionLost(
                f"Cannot join {where} as {who}: the gateway answered with HTTP {fault.status}{said}. "
                "Check the address, and which hosts and origins the gateway allows"
            )
        reason = f" ({one_line(fault.reason, 200)})" if fault.reason else ""
        if fault.code in FINAL:
            tried = f"{who} can no longer be in {where}" if welcomed else f"Cannot join {where} as {who}"
            return NotAdmitted(
                f"{tried}: {FINAL[fault.code]}{reason}", space=self.space, close_code=fault.code
            )
        # The transport closes with 1011 itself when a ping stays unanswered: that is a broken link, not a
        # fault there.
        code = 1006 if fault.code == 1011 and "keepalive" in fault.reason else fault.code
        if not welcomed:
            return ConnectionLost(
                f"Cannot join {where} as {who}: the link closed with {code}{reason}. "
                "Check the address, and that the gateway runs",
                close_code=code,
            )
        if code in RECONNECT:
            return ConnectionLost(f"{who} lost the connection to {where}: {code}{reason}", close_code=code)
        return ConnectionLost(
            f"The gateway of {where} closed the connection of {who}: {code}{reason}; connect() joins again",
            clean=code == 1000,
            close_code=code,
        )
