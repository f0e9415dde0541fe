"""Opens an MCP session with a server process: the official client over lines of JSON; payloads are unchanged.

Loading the library takes a while, so `mcp` loads this module in a thread.

Spec: §3.1, MCP 2025-06-18 (stdio).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mcp import Client, ClientSession, MCPError, types
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from mew_lab.bridge.process import ServerProcess
from mew_lab.sdk.tools import INTERNAL_ERROR, RpcError
from mew_lab.version import VERSION

__all__ = ["McpSession", "OnProgress", "open_session"]

logger = logging.getLogger(__name__)
# The library logs unexpected messages of a server to its own logger, which would print them into a cell.
_library = logging.getLogger("mcp")
_library.addHandler(logging.NullHandler())
_library.propagate = False


class OnProgress(Protocol):
    """What takes the progress of a request: how much is done, of how much if that is known, and a text."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class _RawResult(types.Result, extra="allow"):
    """Any result, with every member kept under its own name."""


class McpSession:
    """An initialised session. `initialized` is the result of `initialize` from the server, as plain JSON."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        answer = session.initialize_result
        self.initialized: dict[str, Any] = (
            answer.model_dump(by_alias=True, mode="json", exclude_unset=True) if answer else {}
        )

    async def request(
        self, method: str, params: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """The result of a request, exactly as the server sent it. A cancelled task cancels it at the server, too.

        Args:
            on_progress: awaited with each progress that the server reports: done, total and a text.

        Raises:
            RpcError: the error of the server, or an internal error where its result is not valid MCP.
        """
        request = types.Request[dict[str, Any], str](method=method, params=dict(params))
        try:
            result = await self._session.send_request(request, _RawResult, progress_callback=on_progress)
        except MCPError as fault:
            raise RpcError(fault.code, fault.message, data=fault.data) from None
        except (
            ValueError
        ) as fault:  # pydantic: the protocol version of the session does not allow this result
            reason = str(fault).splitlines()[0]
            raise RpcError(
                INTERNAL_ERROR,
                f"The MCP server answered {method} with a result that MCP does not allow: {reason}",
            ) from None
        members = dict(result.model_extra or {})
        return members if result.meta is None else {"_meta": result.meta, **members}


@asynccontextmanager
async def open_session(
    process: ServerProcess, *, on_notification: Callable[[str], Awaitable[None]], at_end: Callable[[], None]
) -> AsyncIterator[McpSession]:
    """Opens a session with a running process, and ends the process on exit.

    Args:
        on_notification: awaited with the method of each notification of the server.
        at_end: called when the output of the server has ended.
    """

    async def pass_notification(message: Any) -> None:
        method = getattr(message, "method", None)
        if isinstance(method, str):
            await on_notification(method)

    client = Client(
        _transport(process, at_end),
        mode="legacy",
        cache=None,
        message_handler=pass_notification,
        client_info=types.Implementation(name="mew_lab", version=VERSION),
    )
    try:
        async with client:
            yield McpSession(client.session)
    finally:
        await process.stop()


@asynccontextmanager
async def _transport(process: ServerProcess, at_end: Callable[[], None]) -> AsyncIterator[MessageStream]:
    async with create_client_server_memory_streams() as (ours, (to_server, from_server)):
        loop = asyncio.get_running_loop()

        async def read() -> None:
            try:
                async for line in process.lines():
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        logger.debug("a line of %s is no JSON-RPC message", process.command[0])
                    else:
                        await from_server.send(SessionMessage(message))
            finally:
                at_end()
                await from_server.aclose()  # wakes all requests that wait for an answer

        async def write() -> None:
            async for item in to_server:
                if isinstance(item, SessionMessage):
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    try:
                        await process.write(text.encode())
                    except OSError:  # the server no longer reads; its output shows how it ended
                        return

        pumps = [loop.create_task(read()), loop.create_task(write())]
        try:
            yield ours
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
