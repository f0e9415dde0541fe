"""One life of an MCP server: from its start, with one open session, to its end.

The library wants a session to be opened and closed in one task, which is `_hold` here.

Spec: MCP 2025-11-25 "Lifecycle".
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from mew_lab.bridge.process import ServerProcess
from mew_lab.bridge.remote import RemoteServer
from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line

if TYPE_CHECKING:
    from mew_lab.bridge.session import McpSession, OnNotification, OnRequest

__all__ = ["ServerRun"]

logger = logging.getLogger(__name__)


class ServerRun:
    """A server that is started once. `ended` is set when it has ended; `session` is None before it is open.

    Args:
        name: the participant that the server is, for errors.
        on_notification: awaited with the method and the params of each notification of the server.
        on_request: answers the requests of the server.
    """

    def __init__(
        self,
        server: ServerProcess | RemoteServer,
        *,
        name: str,
        on_notification: OnNotification,
        on_request: OnRequest,
    ) -> None:
        self.server = server
        self.session: McpSession | None = None
        self.ended = asyncio.Event()
        self._name = name
        self._on_notification = on_notification
        self._on_request = on_request
        self._leave = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    async def start(self) -> McpSession:
        """Starts the server and opens the session.

        Raises:
            MewError: the server does not start, ends, or refuses; the error has its command and what it did.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[McpSession] = loop.create_future()
        await self.server.start()
        self._life = loop.create_task(self._hold(ready))
        self.session = await ready
        return self.session

    async def stop(self) -> None:
        """Closes the session, and ends the server and its child processes. A second call does nothing."""
        self._leave.set()
        if self._life is not None:
            if self.session is None:  # still in the handshake, where nothing waits for `_leave`
                self._life.cancel()
            await asyncio.wait({self._life})
        await self.server.stop()

    async def _hold(self, ready: asyncio.Future[McpSession]) -> None:
        try:
            open_session = await asyncio.to_thread(_load)
            async with open_session(
                self.server,
                on_notification=self._on_notification,
                on_request=self._on_request,
                at_end=self.ended.set,
            ) as session:
                if not ready.done():
                    ready.set_result(session)
                await self._leave.wait()
        except Exception as fault:
            if ready.done():
                logger.debug("the session of %s ended with a fault: %s", self._name, fault)
                return
            ended = isinstance(fault, EOFError)
            how = await self.server.describe_end() if ended else one_line(str(fault), 600)
            ready.set_exception(
                MewError(f"Cannot bridge {self._name!r} with {self.server.command_line}: it {how}")
            )


def _load() -> Any:
    from mew_lab.bridge.session import open_session

    return open_session
