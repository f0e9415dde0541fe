"""Connects an MCP server to a space: `McpBridge` runs it, forwards requests to it, and leaves when it ends.

The server answers each request to the participant, and its results are sent unchanged. The progress that it reports is
relayed to the requester, and a cancelled request is cancelled at the server. It is started once: when it
ends, open requests are answered with an error, and the participant leaves.

Spec: §3.1, §3.1.2, threat 28.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mew_lab.bridge.process import ServerProcess
from mew_lab.errors import MewError
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.progress import OnProgress, progress_relay
from mew_lab.sdk.tools import METHOD_NOT_FOUND, RpcError

if TYPE_CHECKING:
    from mew_lab.bridge.session import McpSession

__all__ = ["McpBridge"]

logger = logging.getLogger(__name__)
PASSED_ON = frozenset(
    {
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
    }
)
RELAYED = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
    }
)
CAPABILITIES: Mapping[str, frozenset[str]] = {
    "tools": frozenset({"listChanged"}),
    "resources": frozenset({"listChanged"}),
    "prompts": frozenset({"listChanged"}),
}  # of a server, that PASSED_ON and RELAYED serve
ENDED = -32000
SETTLE = 1.0  # seconds for sending the last answers
MAX_PAGES = 100


class McpBridge:
    """One MCP server as the participant `name`.

    `command_line` is the exact command, known before the start. `listed` are the tools that the server listed when it
    started, `annotations` the hints in their descriptions, by tool.

    Args:
        command: the program and its arguments; `python` as the program is this interpreter. env: names of environment
        variables to pass on, besides PATH, HOME, LANG, TMPDIR and SYSTEMROOT; or the variables
            themselves, names and values.
        cwd: the working directory of the server; None takes that of this process.
        on_end: called with a sentence when the server ends without `stop()`.
        start_timeout: seconds in which the server must answer `initialize`.

    Raises:
        ConfigError: when there is no command, or a named variable is not set.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Sequence[str] | Mapping[str, str] = (),
        cwd: str | Path | None = None,
        on_end: Callable[[str], None] | None = None,
        start_timeout: float = 20.0,
    ) -> None:
        self.name = name
        self.listed: list[dict[str, Any]] = []
        self.annotations: dict[str, dict[str, Any]] = {}
        self.participant: MEWParticipant | None = None
        self._process = ServerProcess(command, cwd=Path(cwd) if cwd is not None else Path.cwd(), env=env)
        self._on_end = on_end
        self._start_timeout = start_timeout
        self._session: McpSession | None = None
        self._life: asyncio.Task[None] | None = None
        self._silent = asyncio.Event()  # the server writes no more
        self._leave = asyncio.Event()
        self._stopping = False
        self._watching: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<McpBridge {self.name}: {self.command_line}>"

    @property
    def command_line(self) -> str:
        """The exact command in shell syntax."""
        return self._process.command_line

    @property
    def pid(self) -> int:
        """The process id of the server; 0 before its start."""
        return self._process.pid

    async def start(self, client: MEWClient) -> MEWParticipant:
        """Starts the server, then joins the space with it; returns the participant.

        Raises:
            MewError: the server does not start or answer; the error has its command and its last line of stderr.
            NotAdmitted, ConnectionLost, NoReply: the space does not admit the participant; the server is ended.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[McpSession] = loop.create_future()
        try:
            await self._process.start()
            self._life = loop.create_task(self._hold_session(ready))
            async with asyncio.timeout(self._start_timeout):
                self._session = await ready
                await self._read_annotations(self._session)
            self.participant = MEWParticipant(client, tools=self)
            await self.participant.start()
        except TimeoutError:
            await self.stop()
            raise MewError(
                f"Cannot bridge {self.name!r}: {self.command_line} did not answer `initialize` within "
                f"{self._start_timeout:g} s. Is it an MCP server that uses stdio?"
            ) from None
        except RpcError:  # only where it has ended
            how = await self._process.describe_end()
            await self.stop()
            raise MewError(f"Cannot bridge {self.name!r} with {self.command_line}: it {how}") from None
        except BaseException:
            await self.stop()
            raise
        client.on_disconnected(lambda error: self._on_disconnected(client, error))
        self._watching = loop.create_task(self._watch())
        return self.participant

    async def stop(self) -> None:
        """Leaves the space, and ends the server and its child processes. A second call does nothing."""
        self._stopping = True
        watching = self._watching
        if watching is not None and watching is not asyncio.current_task():
            watching.cancel()
        if self.participant is not None:
            await self.participant.stop()
        self._leave.set()
        if self._life is not None:
            if self._session is None:  # still in the handshake, where nothing waits for `_leave`
                self._life.cancel()
            await asyncio.wait({self._life})
        await self._process.stop()

    # --- answering ---

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The server's result, unchanged.

        Raises:
            RpcError: the error of the server; -32601 for a method that is not passed on; -32000 when the server has
                ended.
        """
        session = self._session
        if method == "ping":
            return {}
        if method == "initialize" and session is not None:
            return _passed_on(session.initialized)
        if method not in PASSED_ON or session is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 80)}")
        own, on_progress = self._with_progress(params)
        try:
            return await session.request(method, own, on_progress=on_progress)
        except RpcError:
            if not self._silent.is_set():
                raise
            raise RpcError(ENDED, await self._describe_end()) from None

    def _with_progress(self, params: Mapping[str, Any]) -> tuple[Mapping[str, Any], OnProgress | None]:
        """The params for the server, and what relays its progress to the requester; None where none is wanted.

        The server gets a token of the session, for two requesters may choose the same one.
        """
        relay = None if self.participant is None else progress_relay(self.participant)
        if relay is None:
            return params, None
        rest = {name: value for name, value in params["_meta"].items() if name != "progressToken"}
        own = {name: value for name, value in params.items() if name != "_meta"}
        return ({**own, "_meta": rest} if rest else own), relay

    async def _describe_end(self) -> str:
        return f"the MCP server of participant {self.name} {await self._process.describe_end()}"

    async def _read_annotations(self, session: McpSession) -> None:
        """Reads the annotations of the server's tools; a server without tools is accepted as well."""
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            try:
                page = await session.request("tools/list", params)
            except RpcError:
                if self._silent.is_set():
                    raise
                return
            for tool in page.get("tools") or ():
                self.listed.append(tool)
                if tool.get("annotations"):
                    self.annotations[tool["name"]] = tool["annotations"]
            if not page.get("nextCursor"):
                return
            params = {"cursor": page["nextCursor"]}

    # --- the life of the server ---

    async def _hold_session(self, ready: asyncio.Future[McpSession]) -> None:
        """Opens and closes the session in one task, as the library requires."""
        try:
            open_session = await asyncio.to_thread(_load)
            async with open_session(
                self._process, on_notification=self._relay, at_end=self._silent.set
            ) as session:
                if not ready.done():
                    ready.set_result(session)
                await self._leave.wait()
        except Exception as fault:
            if ready.done():
                logger.debug("the session of %s ended with a fault: %s", self.name, fault)
                return
            how = (
                await self._process.describe_end()
                if isinstance(fault, EOFError)
                else one_line(str(fault), 600)
            )
            ready.set_exception(MewError(f"Cannot bridge {self.name!r} with {self.command_line}: it {how}"))

    async def _relay(self, method: str, params: Mapping[str, Any]) -> None:
        participant = self.participant
        if method not in RELAYED or participant is None:
            return
        payload = {"jsonrpc": "2.0", "method": method}
        if participant.can_send("mcp/request", payload):
            with contextlib.suppress(MewError):
                await participant.notify(method)

    async def _watch(self) -> None:
        """Waits for the end of the server, answers the open requests, leaves, and reports the reason."""
        await self._silent.wait()
        why = await self._describe_end()
        if self.participant is not None:
            await self.participant.stop(settle=SETTLE)
        await self.stop()
        self._report_end(f"{why} ({self.command_line})")

    def _on_disconnected(self, client: MEWClient, error: MewError | None) -> None:
        if client.state == "disconnected" and not self._stopping and not self._silent.is_set():
            why = f"participant {self.name} left the space, so its MCP server was ended: {error or 'disconnected'}"
            if self._watching is not None:
                self._watching.cancel()
            self._watching = asyncio.get_running_loop().create_task(self._end(why))

    async def _end(self, why: str) -> None:
        await self.stop()
        self._report_end(why)

    def _report_end(self, why: str) -> None:
        logger.info("%s", why)
        if self._on_end is not None:
            self._on_end(why)


def _passed_on(initialized: Mapping[str, Any]) -> dict[str, Any]:
    """The server's result of `initialize`, with the capabilities that the bridge passes on, and no others."""
    declared = initialized.get("capabilities")
    capabilities = {
        name: {key: flag for key, flag in part.items() if key in flags}
        for name, flags in CAPABILITIES.items()
        if isinstance(declared, Mapping) and isinstance(part := declared.get(name), Mapping)
    }
    return {**initialized, "capabilities": capabilities}


def _load() -> Any:
    from mew_lab.bridge.session import open_session

    return open_session
