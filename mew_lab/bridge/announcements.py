"""Tells MCP clients that a list has changed, in both forms of the protocol.

A client of the handshake era has a session, to which notifications are sent. A client of the 2026-07-28 revision listens
with `subscriptions/listen`, which the library serves. Changes of one moment are announced once, and at most once in
`ANNOUNCE_EVERY` seconds, whatever the participants of the space send. A client that does not read is told no more, and
holds up no other.

Spec: MCP "List Changed Notification", 2026-07-28 "Subscriptions".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from mcp import types
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

from mew_lab.sdk.group import run_all

__all__ = ["AnnouncingServer", "ListAnnouncer", "Listed"]

Listed = Literal["tools", "resources", "prompts"]
ANNOUNCE_EVERY = 0.5  # seconds
TAKE_WITHIN = 5.0  # seconds in which a session takes an announcement
MAX_SESSIONS = 256
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
        self._sessions: deque[ServerSession] = deque(maxlen=MAX_SESSIONS)
        self._changed: dict[Listed, None] = {}
        self._task: asyncio.Task[None] | None = None

    def register(self, server: Server[Any]) -> None:
        """Adds the sessions of a server as they are opened."""

        async def note(context: Any, params: Any) -> None:
            self._sessions.append(context.session)

        server.add_notification_handler("notifications/initialized", types.NotificationParams, note)

    def announce(self, listed: Listed) -> None:
        """Announces that a list has changed, soon."""
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
                await run_all(self._tell(session, listed) for session in tuple(self._sessions))
            await asyncio.sleep(ANNOUNCE_EVERY)

    async def _tell(self, session: ServerSession, listed: Listed) -> None:
        """Tells one session, and forgets it where it reads nothing; the library drops what an ended one would get."""
        try:
            async with asyncio.timeout(TAKE_WITHIN):
                await _SENDERS[listed](session)
        except TimeoutError:
            with contextlib.suppress(ValueError):  # it was the oldest of too many meanwhile
                self._sessions.remove(session)


_SENDERS = {
    "tools": ServerSession.send_tool_list_changed,
    "resources": ServerSession.send_resource_list_changed,
    "prompts": ServerSession.send_prompt_list_changed,
}
