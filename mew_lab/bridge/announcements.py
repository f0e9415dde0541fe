"""Tells MCP clients that a list has changed, in both forms of the protocol.

A client of the handshake era has a session, to which notifications are sent once it has listed. A client of the
2026-07-28 revision listens with `subscriptions/listen`, which the library serves. Changes of one moment are announced
once, and at most once in `ANNOUNCE_EVERY` seconds, whatever the participants of the space send. A client that does not
read is told no more, and holds up no other.

Spec: MCP "List Changed Notification", 2026-07-28 "Subscriptions".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)

from mew_lab.protocol.bounded import BoundedDict
from mew_lab.sdk.group import run_all

__all__ = ["AnnouncingServer", "ListAnnouncer", "Listed"]

Listed = Literal["tools", "resources", "prompts"]
ANNOUNCE_EVERY = 0.5  # seconds; each makes every client read its lists anew
TAKE_WITHIN = 5.0  # seconds in which a session takes an announcement; one that does not read is told no more
MAX_SESSIONS = 256  # that are told; the oldest gives way, as not every end of one is seen
_EVENTS: Mapping[Listed, ServerEvent] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}


class AnnouncingServer(Server[Any]):
    """A server of the MCP library that declares `listChanged` for all that it lists, over any transport."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *rest: Any, **more: Any
    ) -> InitializationOptions:
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options or every, *rest, **more)


class ListAnnouncer:
    """Announces changes of lists to all clients of a server; `close` ends it."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        # Those that have listed it: a client that is told before its first list would list twice.
        self._sessions: Mapping[Listed, BoundedDict[int, ServerSession]] = {
            listed: BoundedDict(MAX_SESSIONS) for listed in _EVENTS
        }
        self._counts: dict[Listed, int] = dict.fromkeys(_EVENTS, 0)
        self._changed: dict[Listed, None] = {}
        self._task: asyncio.Task[None] | None = None

    def count(self, listed: Listed) -> int:
        """How often a change of that list was announced; for `note`."""
        return self._counts[listed]

    def note(self, session: ServerSession, listed: Listed, *, since: int) -> None:
        """Adds the session of a client that has got a list; it is told of what was announced `since` that was made."""
        self._sessions[listed][id(session.client_params)] = session
        if self._counts[listed] != since:
            self.announce(listed)

    def announce(self, listed: Listed) -> None:
        """Announces that a list has changed, soon."""
        self._counts[listed] += 1
        self._changed[listed] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._announce())

    async def close(self) -> None:
        """Ends the streams of the clients that listen."""
        self.listen.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _announce(self) -> None:
        while self._changed:
            changed, self._changed = self._changed, {}
            for listed in changed:
                await self._bus.publish(_EVENTS[listed])
                await run_all(self._tell(*pair, listed) for pair in tuple(self._sessions[listed].items()))
            await asyncio.sleep(ANNOUNCE_EVERY)

    async def _tell(self, key: int, session: ServerSession, listed: Listed) -> None:
        """Tells one session, and forgets it where it reads nothing; the library drops what an ended one would get."""
        try:
            async with asyncio.timeout(TAKE_WITHIN):
                await _SENDERS[listed](session)
        except TimeoutError:
            for sessions in self._sessions.values():
                sessions.pop(key, None)


_SENDERS = {
    "tools": ServerSession.send_tool_list_changed,
    "resources": ServerSession.send_resource_list_changed,
    "prompts": ServerSession.send_prompt_list_changed,
}
