"""A link over the network: a WebSocket of the `websockets` library as a Link.

The caller sets the headers, tokens among them. No redirect is followed and no proxy is used, because both would send
these headers to a host that the caller did not name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

from websockets.asyncio.client import connect as _connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from mew_lab.transport.link import HandshakeRefused, LinkClosed

__all__ = ["WebSocketLink", "connect"]

MAX_REASON = 123  # bytes that a close frame can hold beside its code (RFC 6455 §5.5)
ABNORMAL = 1006  # no close frame was seen (RFC 6455 §7.4.1)

# At DEBUG the library logs every request header, the token among them: its level is ours, not the root's.
_log = logging.getLogger("mew_lab.websocket")
_log.setLevel(logging.WARNING)


class WebSocketLink:
    """An open WebSocket as a Link; `connect()` makes one."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Connection) -> None:
        self._socket = socket

    async def send(self, message: str | bytes) -> None:
        """Sends one whole message: `str` as a text frame, `bytes` as a binary one; waits for a slow reader.

        Raises:
            LinkClosed: when either end has closed.
        """
        try:
            await self._socket.send(message)
        except ConnectionClosed as closed:
            raise _link_closed(closed) from None

    async def receive(self) -> str | bytes:
        """The next whole message, in order.

        Raises:
            LinkClosed: when all messages were received and either end has closed.
        """
        try:
            return await self._socket.recv()
        except ConnectionClosed as closed:
            raise _link_closed(closed) from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes both directions; `reason` is cut to the size of a close frame. A second call does nothing."""
        await self._socket.close(code, reason.encode()[:MAX_REASON].decode(errors="ignore"))


def _link_closed(closed: ConnectionClosed) -> LinkClosed:
    frame = closed.rcvd or closed.sent
    return LinkClosed(frame.code, frame.reason) if frame else LinkClosed(ABNORMAL, "")


class _Connect(_connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def connect(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    open_timeout: float = 10.0,
    close_timeout: float = 2.0,
    max_size: int = 4 * 1024 * 1024,
    ping_interval: float | None = 20.0,
    ping_timeout: float | None = 20.0,
) -> WebSocketLink:
    """Opens a WebSocket.

    Args:
        url: `ws://` or `wss://`, without user and password.
        headers: sent with the upgrade request, such as `Authorization`.
        open_timeout: seconds for connecting and the handshake together.
        close_timeout: seconds that `close` waits for the other side.
        max_size: bytes of the longest accepted message; a longer one closes the link with 1009.
        ping_interval: seconds between pings of this side; None sends none.
        ping_timeout: seconds after which an unanswered ping closes the link with 1011.

    Raises:
        ValueError: when `url` is no WebSocket URL, or contains a user or password.
        HandshakeRefused: when the other side answered with an HTTP status.
        LinkClosed: when no host could be reached, or none answered as a WebSocket server.
    """
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a WebSocket URL must hold no user and no password; use a header")
    at = f"{parts.scheme}://{parts.netloc}"
    try:
        socket = await _Connect(
            url,
            additional_headers=headers,
            compression=None,
            proxy=None,
            open_timeout=open_timeout,
            close_timeout=close_timeout,
            max_size=max_size,
            ping_interval=ping_interval,
            ping_timeout=ping_timeout,
            logger=_log,
        )
    except InvalidURI:
        raise ValueError(f"{at!r} is no WebSocket URL: it must begin with ws:// or wss://") from None
    except InvalidStatus as refused:
        response = refused.response
        body = bytes(response.body or b"").decode(errors="replace")
        raise HandshakeRefused(response.status_code, body) from None
    except InvalidHandshake as fault:
        raise LinkClosed(ABNORMAL, f"{at} does not answer as a WebSocket server: {fault}") from None
    except TimeoutError:
        raise LinkClosed(ABNORMAL, f"{at} did not answer within {open_timeout:g} s") from None
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise LinkClosed(ABNORMAL, f"nothing could be reached at {at}: {reason}") from None
    return WebSocketLink(socket)
