"""What an MCP server tells by itself, for the participants of a space: updates of resources, and bounded log messages.

A server has one client, the bridge; a space has many participants. So the bridge subscribes once for all of them, and
passes the log of a server on at a rate that leaves the space readable.

Spec: §3.1; MCP 2025-11-25 "Resources", "Logging".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import cut
from mew_lab.sdk.tools import INVALID_PARAMS, RpcError

__all__ = ["ChangeLimit", "LogLimit", "Subscriptions"]

MAX_URIS = 200  # subscribed at once
EVERY = 0.2  # seconds between two notifications of the same change
BURST = 20  # log messages at once
A_SECOND = 5.0  # log messages, for as long as it takes
MAX_DATA = 16_384  # characters of the data of one log message
SERVER_ERROR = -32000


class Subscriptions:
    """Who subscribed to which resource of one server.

    Args:
        subscribe: has the server report updates of a URI; `unsubscribe` ends that.
    """

    def __init__(
        self, *, subscribe: Callable[[str], Awaitable[None]], unsubscribe: Callable[[str], Awaitable[None]]
    ) -> None:
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._subscribers: dict[str, set[str]] = {}

    async def add(self, uri: object, subscriber: str) -> None:
        """Subscribes a participant to a resource.

        Raises:
            RpcError: it is no URI, there are too many, or the server refuses.
        """
        uri = _uri(uri)
        if uri not in self._subscribers:
            if len(self._subscribers) >= MAX_URIS:
                raise RpcError(
                    SERVER_ERROR, f"{MAX_URIS} resources are subscribed to already; unsubscribe from one"
                )
            await self._subscribe(uri)
        self._subscribers.setdefault(uri, set()).add(subscriber)

    async def remove(self, uri: object, subscriber: str) -> None:
        """Ends the subscription of a participant, and that at the server after the last one.

        Raises:
            RpcError: it is no URI, or the server refuses.
        """
        uri = _uri(uri)
        subscribers = self._subscribers.get(uri, set())
        subscribers.discard(subscriber)
        if not subscribers and self._subscribers.pop(uri, None) is not None:
            await self._unsubscribe(uri)

    async def subscribers(self, uri: object, here: Collection[str]) -> list[str]:
        """The subscribers of a resource that are in the space; those that left are no longer subscribed.

        A server may report an update of a part of a resource, by a longer URI than that of the subscription.
        """
        found: set[str] = set()
        for known in [one for one in self._subscribers if isinstance(uri, str) and uri.startswith(one)]:
            for gone in self._subscribers[known] - set(here):
                await self.remove(known, gone)
            found |= self._subscribers.get(known, set())
        return sorted(found)

    async def renew(self) -> None:
        """Subscribes to all resources again, at a server that has forgotten them; what it refuses is dropped."""
        for uri in list(self._subscribers):
            try:
                await self._subscribe(uri)
            except RpcError:
                del self._subscribers[uri]


class ChangeLimit:
    """Bounds equal notifications of change: at most one in `EVERY` seconds, and one after the last change."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._sent: BoundedDict[str, float] = BoundedDict(2 * MAX_URIS)

    async def wait(self, change: str) -> bool:
        """Returns true when a notification of this change may be sent; false at once where one waits already."""
        if change in self._waiting:
            return False
        loop = asyncio.get_running_loop()
        self._waiting.add(change)
        try:
            await asyncio.sleep(max(0.0, self._sent.get(change, -EVERY) + EVERY - loop.time()))
        finally:
            self._waiting.discard(change)
        self._sent[change] = loop.time()
        return True


class LogLimit:
    """Bounds the log messages of one server, in number and in size. What it leaves out is counted and reported."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = 0.0
        self._omitted = 0

    def take(self, params: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
        """The params of the messages to send for one `notifications/message` of the server: none, one, or two.

        Args:
            now: seconds of a clock that never goes back.
        """
        self._left = min(BURST, self._left + (now - self._at) * A_SECOND)
        self._at = now
        if self._left < 1:
            self._omitted += 1
            return []
        self._left -= 1
        messages = [_bounded(params)]
        if self._omitted:
            count, self._omitted = self._omitted, 0
            text = f"{count} log messages of this server were left out: more than {A_SECOND:g} a second"
            messages.insert(0, {"level": "warning", "logger": "mew_lab", "data": text})
        return messages


def _bounded(params: Mapping[str, Any]) -> dict[str, Any]:
    data = params.get("data")
    text = data if isinstance(data, str) else compact(data)
    return dict(params) if len(text) <= MAX_DATA else {**params, "data": cut(text, MAX_DATA)}


def _uri(uri: object) -> str:
    if not isinstance(uri, str) or not 1 <= len(uri) <= 4096:
        raise RpcError(INVALID_PARAMS, "Invalid params: uri must be a text of 1 to 4096 characters")
    return uri
