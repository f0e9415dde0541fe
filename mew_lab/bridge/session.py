"""Opens an MCP session with a server, a process or one at a URL: the official client; payloads are unchanged.

Loading the library takes a while, so `mcp` loads this module in a thread.

Spec: §3.1, MCP 2025-11-25 and 2026-07-28 (lifecycle, stdio).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import httpx2
from mcp import ClientSession, MCPError, types
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from mew_lab.bridge.http_client import connect
from mew_lab.bridge.library_log import quiet_library, warn_rarely
from mew_lab.bridge.message_reader import MessageReader, find_unread
from mew_lab.bridge.offers import APPS, GATE, PENDING, PROPOSAL, RESULT, STATE
from mew_lab.bridge.process import LineJudge, ServerProcess
from mew_lab.bridge.remote import RemoteServer
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.elicitation import CREATE_MESSAGE, ELICIT
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import OUTCOME_UNKNOWN
from mew_lab.protocol.kept import KEPT_METHODS
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import MAX_TOOLS, needs_task
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.list_pages import LISTED
from mew_lab.sdk.progress import OnProgress
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.result_store import UnreadResult
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.tools import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from mew_lab.version import VERSION

__all__ = ["McpSession", "OnNotification", "OnRequest", "open_session"]

logger = logging.getLogger(__name__)


OnNotification = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class OnRequest(Protocol):
    """What answers the requests of a server: its result, or an RpcError. `methods` are those that it is offered."""

    @property
    def methods(self) -> frozenset[str]: ...

    async def answer(
        self, method: str, params: Mapping[str, Any], *, about: Envelope | None = None
    ) -> dict[str, Any]: ...


HANDSHAKE_VERSION = "2025-11-25"  # the last revision with `initialize`, which is that of MCP in a space
MODERN_MEMBERS = frozenset({"resultType", "ttlMs", "cacheScope"})
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LISTS = ("tools", "resources", "prompts")
RELISTEN = (1.0, 30.0)  # seconds before a lost subscription is opened again: at first, at most
# The clients of a gate may show the pages of a server; one of the field lists them only where that is declared.
EXTENSIONS = {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}
MODERN_META = "io.modelcontextprotocol/"
INPUT_REQUIRED = "input_required"
INPUT_MEMBERS = ("inputResponses", "requestState")  # of a request; the bridge's own, never a requester's
MAX_ROUNDS = 100  # requests of one call that a server answers by asking for input
MAX_INPUTS = 10  # questions of one such answer
MOST_LISTED = 16 * 1024 * 1024  # bytes of a list
POLL = (0.05, 5.0)  # seconds before a call is repeated that needs no input: at first, at most
TASK_RESULT = "tasks/result"
MADE_WITHIN = 60.0  # seconds in which a server tells the id of a task whose caller is gone
CANCEL_WITHIN = 5.0  # seconds in which a server takes the cancellation of a task


class _AnyResult(types.Result, extra="allow"):
    """Any result of a request."""


_results: ContextVar[list[dict[str, Any]] | None] = ContextVar("_results", default=None)


class _RawDispatcher(JSONRPCDispatcher):
    """Keeps results as the server sent them: the library refuses a result with a content type that it does not know.

    It does so for each item in turn, which may take it seconds. So it gets a result only where it needs one.
    """

    def __init__(self, read: Any, write: Any, unread: MutableMapping[str, UnreadResult]) -> None:
        super().__init__(read, write)
        self._unread = unread

    async def send_raw_request(self, method: str, *request: Any, **options: Any) -> dict[str, Any]:
        result = await super().send_raw_request(method, *request, **options)
        if (unread := find_unread(result, self._unread)) is not None:  # as a mapping it is empty
            result = unread
        if (results := _results.get()) is None:
            return result
        results.append(result if isinstance(result, UnreadResult) else dict(result))
        return _known_tools(result) if method == "tools/list" else {}


class McpSession:
    """A session with a server of either era.

    `initialized` is the result of `initialize` as plain JSON. A server of the revision 2026-07-28 has no such method;
    it is made of the result of `server/discover` then, and `modern` is true.
    """

    def __init__(
        self, session: ClientSession, on_notification: OnNotification, on_request: OnRequest
    ) -> None:
        self._session = session
        self._on_notification = on_notification
        self._on_request = on_request
        self.initialized: dict[str, Any] = {}
        self.modern = False
        self._log_level = ""
        self._run_as_task: BoundedDict[str, None] = BoundedDict(MAX_TOOLS, refresh=True)  # tools
        self._cancelling = RunningTasks()
        self._followed: dict[str, asyncio.Task[None]] = {}  # URI -> its subscription, at a modern server

    async def negotiate(self, *, discover_first: bool = False) -> None:
        """Agrees on a revision of MCP: by `initialize`, or by `server/discover` where that fails.

        A server that knows the revision 2026-07-28 alone refuses `initialize`, or answers it with that revision.

        Args:
            discover_first: asks `server/discover` first, as that revision would have it over HTTP.

        Raises:
            RpcError: the server refuses both, or has no revision in common with this client.
        """
        ways = [("initialize", self._initialize), ("server/discover", self._discover)]
        code, failed = INTERNAL_ERROR, []
        for method, way in reversed(ways) if discover_first else ways:
            try:
                await way()
                return
            except MCPError as refusal:
                code = refusal.code
                failed.append(f"refused `{method}` ({code}: {_line(refusal.message)})")
            except (RuntimeError, ValueError) as fault:
                code = INTERNAL_ERROR
                failed.append(f"answered `{method}` with an invalid result: {_line(fault)}")
        raise RpcError(code, " and ".join(failed))

    async def _initialize(self) -> None:
        answer = await self._session.initialize()
        self.initialized = answer.model_dump(by_alias=True, mode="json", exclude_unset=True)

    async def _discover(self) -> None:
        found = await self._session.discover()
        plain = found.model_dump(by_alias=True, mode="json", exclude_unset=True)
        self.modern = True
        self.initialized = {
            "protocolVersion": HANDSHAKE_VERSION,
            "capabilities": plain.get("capabilities", {}),
            "serverInfo": (plain.get("_meta") or {}).get(f"{MODERN_META}serverInfo")
            or {"name": "", "version": ""},
            **({"instructions": found.instructions} if found.instructions is not None else {}),
        }

    async def request(
        self, method: str, params: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """The result of a request, as the server sent it. A cancelled task cancels it at the server, too.

        What only the revision 2026-07-28 has (`resultType`, cache hints, its members of `_meta`) is left out. Where such
        a server asks for input first, `on_request` answers, and the call goes on with the answers. A call that is
        pending at a gate of ours is waited on.

        Args:
            on_progress: awaited with each progress that the server reports: done, total and a text.

        Raises:
            RpcError: the error of the server.
        """
        if not self._is_gate:
            return await self._complete(method, params, on_progress)
        loop, wait = asyncio.get_running_loop(), POLL[0]
        while True:
            begun, result = loop.time(), {}
            try:
                result = await self._complete(method, params, on_progress)
            except RpcError as refusal:
                if not (refusal.code == PENDING and isinstance(refusal.data, Mapping)):
                    raise
            else:
                if (proposal := _pending_at_gate(result)) is None:
                    return result
                params = {"name": RESULT, "arguments": {"proposal": proposal}}
            if loop.time() - begun < wait:  # a gate waits by itself
                await asyncio.sleep(wait)
                wait = min(2 * wait, POLL[1])

    @property
    def _is_gate(self) -> bool:
        """Whether the server says that it is a gate of ours: then a call that is pending there has no result yet."""
        return bool(member(self.initialized, "serverInfo", "name") == GATE)

    async def _complete(
        self, method: str, params: Mapping[str, Any], on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """The result of a request, after the input that the server asks for. Raises as `request`."""
        if method == "tools/call" and params.get("name") in self._run_as_task:
            return await self._run_task(params, on_progress)
        result = await self._send(method, params, on_progress)
        if not self.modern or isinstance(result, UnreadResult):
            return result
        given, wait = dict(params), POLL[0]
        for _ in range(MAX_ROUNDS):
            if result.get("resultType") != INPUT_REQUIRED:
                return _without_modern_members(result)
            inputs, state = result.get("inputRequests") or {}, result.get("requestState")
            given = {name: value for name, value in params.items() if name not in INPUT_MEMBERS}
            given |= {} if state is None else {"requestState": state}
            if inputs:
                given["inputResponses"] = await self._answer_inputs(method, inputs)
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, POLL[1])
            result = await self._send(method, given, on_progress)
        raise RpcError(
            INTERNAL_ERROR,
            f"The MCP server asked for input {MAX_ROUNDS} times to answer {method}, and never did",
        )

    async def _run_task(self, params: Mapping[str, Any], on_progress: OnProgress | None) -> dict[str, Any]:
        """The result of a call that the server runs as a task, which ends with its caller. Raises as `request`.

        Spec: MCP 2025-11-25 (Tasks): the answer to `tasks/result` comes when the task has ended.
        """
        loop = asyncio.get_running_loop()
        making = loop.create_task(self._send("tools/call", {**params, "task": {}}, on_progress))
        try:
            made = await asyncio.shield(making)
        except asyncio.CancelledError:
            self._cancelling.start(self._cancel_unnamed_task(making))
            raise
        id = None if isinstance(made, UnreadResult) else member(made, "task", "taskId")
        if not isinstance(id, str):
            return made  # it has run at once
        try:
            return await self._send(TASK_RESULT, {"taskId": id}, None)
        except asyncio.CancelledError:
            self._cancelling.start(self._cancel_task(id))
            raise

    async def _cancel_unnamed_task(self, making: asyncio.Task[dict[str, Any]]) -> None:
        """Cancels a task of whose id its server has not told yet: without it, the server goes on."""
        with contextlib.suppress(Exception):  # it was not made, or the server has ended
            async with asyncio.timeout(MADE_WITHIN):
                made = await making
            await self._cancel_task(made["task"]["taskId"])

    async def _cancel_task(self, id: str) -> None:
        with contextlib.suppress(Exception):  # it has ended, or the server has
            async with asyncio.timeout(CANCEL_WITHIN):
                await self._send("tasks/cancel", {"taskId": id}, None)

    def _take_tasks(self, listed: dict[str, Any]) -> dict[str, Any]:
        """A list of tools in which none requires a task: those are run as tasks here, where the server can run tasks."""
        declared = member(self.initialized, "capabilities", "tasks", "requests", "tools", "call")
        tools = listed.get("tools")
        if not isinstance(declared, Mapping) or not isinstance(tools, list):
            return listed
        plain = []
        for tool in tools:
            if needs_task(tool):
                self._run_as_task[str(tool.get("name"))] = None
                tool = {name: member for name, member in tool.items() if name != "execution"}
            elif isinstance(tool, dict):
                self._run_as_task.pop(str(tool.get("name")), None)
            plain.append(tool)
        return {**listed, "tools": plain}

    async def _answer_inputs(self, method: str, inputs: Any) -> dict[str, Any]:
        """The answers to the questions that a server has in place of a result; all of them are asked at once.

        Raises:
            RpcError: a question is malformed, not offered to the server, or was not approved.

        Spec: MCP 2026-07-28 (InputRequiredResult).
        """
        if not isinstance(inputs, Mapping) or len(inputs) > MAX_INPUTS:
            raise RpcError(
                INTERNAL_ERROR,
                f"The MCP server asked more than {MAX_INPUTS} questions at once to answer {method}",
            )
        asked: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for key, request in inputs.items():
            name = member(request, "method")
            if not isinstance(name, str) or name not in self._on_request.methods:
                wanted = one_line(str(name), 80)
                raise RpcError(
                    INTERNAL_ERROR,
                    f"The MCP server asks for {wanted} to answer {method}, which it was not offered",
                )
            asked[key] = name, mapping_of(request.get("params"))
        about = ASKED.get()
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(self._answer_input(name, given, about))
                for key, (name, given) in asked.items()
            }
        answers = {key: task.result() for key, task in tasks.items()}
        for answer in answers.values():
            if isinstance(answer, RpcError):
                raise answer
        return answers

    async def _answer_input(
        self, method: str, params: Mapping[str, Any], about: Envelope | None
    ) -> dict[str, Any] | RpcError:
        try:
            return await self._on_request.answer(method, params, about=about)
        except RpcError as refusal:  # returned: a group of tasks would wrap it
            return refusal

    async def _send(
        self, method: str, params: Mapping[str, Any], on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Sends one request; its result as the server sent it. Raises as `request`."""
        own = dict(params)
        if self._log_level:
            own["_meta"] = {**mapping_of(own.get("_meta")), f"{MODERN_META}logLevel": self._log_level}
        request = types.Request[dict[str, Any], str](method=method, params=own)
        results: list[dict[str, Any]] = []
        kept = _results.set(results)
        try:
            if self.modern and method == "tools/list":
                # The library keeps which arguments of a tool go into headers, too.
                await self._session.list_tools(params=types.PaginatedRequestParams.model_validate(own))
            else:
                await self._session.send_request(request, _AnyResult, progress_callback=on_progress)
        except MCPError as fault:
            raise RpcError(fault.code, fault.message, data=fault.data) from None
        except ValueError:  # the library does not know a part of the result
            if not results:
                raise
        finally:
            _results.reset(kept)
        result = results[-1]
        if isinstance(result, UnreadResult) and method in LISTED and result.size <= MOST_LISTED:
            result = await self._read_list(result, LISTED[method])
        elif isinstance(result, UnreadResult) and method not in (*KEPT_METHODS, TASK_RESULT):
            why = f"The MCP server sent an answer of {result.size} bytes, which is too large for {method}"
            raise RpcError(INTERNAL_ERROR, why, data={"code": OUTCOME_UNKNOWN})
        if method != "tools/list":
            return result
        return _without_invalid_headers(result) if self.modern else self._take_tasks(result)

    async def _read_list(self, unread: UnreadResult, member: str) -> dict[str, Any]:
        """A list that is too costly to parse in one piece; what no message can hold is left out, and told of.

        Raises:
            RpcError: it is no list of entries, or cannot be read.
        """
        path, judge = unread.take(), LineJudge()
        try:
            found = await judge.split_list(path, member)
            lines = (await asyncio.to_thread(path.read_bytes)).split(b"\n") if found else []
        except OSError as fault:
            raise RpcError(INTERNAL_ERROR, f"The list cannot be read: {fault.strerror or fault}") from None
        finally:
            path.unlink(missing_ok=True)
            await judge.close()
        if not found:
            how = "takes too long to read" if found is None else f"has no member {member} with entries"
            raise RpcError(INTERNAL_ERROR, f"The MCP server sent a list of {unread.size} bytes, and it {how}")
        if found["count"]:
            names = ", ".join(one_line(name, 60) for name in found["omitted"])
            text = f"{found['count']} {member} left out, because they are too large or too many: {names}"
            warning = {"level": "warning", "logger": "mew_lab", "data": text}
            await self._on_notification("notifications/message", warning)
        return await in_slices(_parse_list(lines, member))

    async def announce_roots(self) -> None:
        """Tells the server that the roots have changed. One of the revision 2026-07-28 asks each time anyway."""
        if not self.modern:
            await self._session.send_notification(types.RootsListChangedNotification())

    async def set_log_level(self, level: object) -> None:
        """Has the server send log messages of at least this level.

        Raises:
            RpcError: there is no such level, or the server refuses.

        Spec: MCP 2025-11-25 (logging/setLevel), 2026-07-28 (the level is a member of each request).
        """
        if not isinstance(level, str) or level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"Invalid params: level must be one of {', '.join(LEVELS)}")
        if self.modern:
            self._log_level = level
        else:
            await self.request("logging/setLevel", {"level": level})

    async def subscribe(self, uri: str) -> None:
        """Has the server report updates of a resource, as `on_notification` gets them.

        Raises:
            RpcError: the server refuses.

        Spec: MCP 2025-11-25 (resources/subscribe), 2026-07-28 (subscriptions/listen).
        """
        if not self.modern:
            await self.request("resources/subscribe", {"uri": uri})
            return
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()

        async def ignore() -> None:
            pass

        self._followed[uri] = loop.create_task(self._follow(opened, ignore, resource_subscriptions=[uri]))
        try:
            await opened
        except MCPError as fault:
            del self._followed[uri]
            raise RpcError(fault.code, fault.message, data=fault.data) from None

    async def unsubscribe(self, uri: str) -> None:
        """Ends a subscription.

        Raises:
            RpcError: the server refuses.
        """
        if not self.modern:
            await self.request("resources/unsubscribe", {"uri": uri})
        elif (task := self._followed.pop(uri, None)) is not None:
            task.cancel()

    async def listen(self) -> None:
        """Has a server of the revision 2026-07-28 report changes of its lists, as `on_notification` gets them.

        A server of an older revision reports them without being asked. Spec: MCP 2026-07-28 (subscriptions/listen).
        """
        declared = self.initialized["capabilities"]
        lists = [name for name in LISTS if (declared.get(name) or {}).get("listChanged")]
        if not self.modern or not lists:
            return

        async def report() -> None:  # what changed while there was no subscription is not known
            for name in lists:
                await self._on_notification(f"notifications/{name}/list_changed", {})

        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        await self._follow(
            opened,
            report,
            tools_list_changed="tools" in lists,
            prompts_list_changed="prompts" in lists,
            resources_list_changed="resources" in lists,
        )

    async def _follow(
        self, opened: asyncio.Future[None], on_gap: Callable[[], Awaitable[None]], **notifications: Any
    ) -> None:
        """Keeps one `subscriptions/listen` open, and opens it again when it is lost; returns when it is refused.

        Args:
            opened: set at the first opening, or to the refusal.
            on_gap: awaited after each later one.
        """
        wait = RELISTEN[0]
        while True:
            try:
                async with listen(self._session, **notifications) as events:
                    if opened.done():
                        await on_gap()
                    else:
                        opened.set_result(None)
                    wait = RELISTEN[0]
                    async for _ in events:
                        pass  # each is also a notification
            except MCPError as refusal:
                if not opened.done():
                    opened.set_exception(refusal)
                logger.debug("subscriptions/listen was refused: %s", refusal)
                return
            except SubscriptionLost as lost:
                logger.debug("a subscription was lost: %s", lost)
            await asyncio.sleep(wait)
            wait = min(2 * wait, RELISTEN[1])

    def close(self) -> None:
        """Ends the subscriptions."""
        for task in (*self._followed.values(), *self._cancelling):
            task.cancel()


def _parse_list(lines: list[bytes], member: str) -> Steps[dict[str, Any]]:
    """The list of which each line has an entry, but for the first, which has the other members."""
    entries = []
    for line in lines[1:]:
        entries.append(json.loads(line))
        yield
    return {**json.loads(lines[0]), member: entries}


def _pending_at_gate(result: Mapping[str, Any]) -> str | None:
    """The id of the proposal for which a result of a gate of ours says that it is pending; None for any other."""
    meta = mapping_of(result.get("_meta"))
    proposal = meta.get(PROPOSAL)
    return proposal if isinstance(proposal, str) and meta.get(STATE) == "pending" else None


def _without_modern_members(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result without the members that MCP had not before the revision 2026-07-28."""
    plain = {name: value for name, value in result.items() if name not in MODERN_MEMBERS}
    meta = plain.get("_meta")
    if isinstance(meta, Mapping):
        plain["_meta"] = {name: value for name, value in meta.items() if not name.startswith(MODERN_META)}
        if not plain["_meta"]:
            del plain["_meta"]
    return plain


def _without_invalid_headers(listed: Mapping[str, Any]) -> dict[str, Any]:
    """A list of tools without those that would put an argument into a header that cannot be.

    Spec: MCP 2026-07-28 (x-mcp-header: a client rejects such a tool).
    """
    tools = listed.get("tools")
    if not isinstance(tools, list):
        return dict(listed)
    kept = []
    for tool in tools:
        if isinstance(tool, Mapping) and (why := find_invalid_x_mcp_header(tool.get("inputSchema"))):
            name = one_line(str(tool.get("name")), 80)
            warn_rarely("x-mcp-header", f"tool {name} is left out: {_line(why)}")
        else:
            kept.append(tool)
    return {**listed, "tools": kept}


def _known_tools(listed: Mapping[str, Any]) -> dict[str, Any]:
    """A list of tools for the library, which refuses all of them for one that it does not know."""
    tools = listed.get("tools")
    return (
        {**listed, "tools": [tool for tool in tools if _is_known(tool)]}
        if isinstance(tools, list)
        else dict(listed)
    )


def _is_known(tool: object) -> bool:
    try:
        types.Tool.model_validate(tool)
    except (ValueError, RecursionError):
        return False
    return True


def _line(fault: object) -> str:
    return one_line(str(fault).splitlines()[0] if str(fault) else type(fault).__name__, 200)


def _callbacks(on_request: OnRequest) -> dict[str, Any]:
    """The callbacks of the library for the requests that the server is offered; it declares those that are given."""

    def answering(method: str, result_type: type[Any]) -> Callable[..., Awaitable[Any]]:
        async def answer(context: Any, params: Any = None) -> Any:
            given = (
                {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_unset=True)
            )
            try:
                return result_type.model_validate(await on_request.answer(method, given), by_name=False)
            except RpcError as refusal:
                return types.ErrorData(code=refusal.code, message=refusal.message, data=refusal.data)
            except ValueError as fault:
                return types.ErrorData(
                    code=INTERNAL_ERROR, message=f"the answer is malformed: {_line(fault)}"
                )

        return answer

    kinds = {
        "elicitation_callback": (ELICIT, types.ElicitResult),
        "sampling_callback": (CREATE_MESSAGE, types.CreateMessageResult),
        "list_roots_callback": ("roots/list", types.ListRootsResult),
    }
    return {
        name: answering(method, result_type)
        for name, (method, result_type) in kinds.items()
        if method in on_request.methods
    }


@asynccontextmanager
async def open_session(
    server: ServerProcess | RemoteServer,
    *,
    on_notification: OnNotification,
    on_request: OnRequest,
    at_end: Callable[[], None],
) -> AsyncIterator[McpSession]:
    """Opens a session with a running server, and ends the server on exit, if it is a process.

    Args:
        on_notification: awaited with the method and the params of each notification of the server.
        on_request: answers the requests of the server; its methods are declared as capabilities.
        at_end: called when the server has ended the session.

    Raises:
        RpcError: the server lives, and refuses to open a session; the text is what it did.
        EOFError: the server ended, or cannot be reached; its `describe_end` tells.
    """
    quiet_library()
    ended = False
    refusal: Exception | None = None

    def end() -> None:
        nonlocal ended
        ended = True
        at_end()

    async def pass_notification(message: Any) -> None:
        if isinstance(message, types.Notification):
            plain = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            await on_notification(plain["method"], plain.get("params") or {})

    try:
        async with (
            connect(server, end) if isinstance(server, RemoteServer) else _lines(server, end) as (
                read,
                write,
            ),
            ClientSession(
                dispatcher=_RawDispatcher(
                    read, write, server.unread if isinstance(server, RemoteServer) else {}
                ),
                message_handler=pass_notification,
                **_callbacks(on_request),
                extensions=EXTENSIONS,
                client_info=types.Implementation(name="mew_lab", version=VERSION),
            ) as session,
        ):
            opened = McpSession(session, on_notification, on_request)
            try:
                await opened.negotiate(
                    discover_first=isinstance(server, RemoteServer) and server.transport == "http"
                )
            except RpcError as fault:
                refusal = EOFError() if ended or server.fault else fault
            else:
                listening = asyncio.get_running_loop().create_task(opened.listen())
                try:
                    yield opened
                finally:
                    opened.close()
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
    except* (OSError, httpx2.HTTPError) as lost:
        leaf: BaseException = lost
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        server.fault = server.fault or _line(leaf)
        refusal = EOFError()
    finally:
        end()
        await server.stop()
    if refusal is not None:  # not raised inside, where the library would make it a group of exceptions
        raise refusal


@asynccontextmanager
async def _lines(process: ServerProcess, at_end: Callable[[], None]) -> AsyncIterator[MessageStream]:
    async with create_client_server_memory_streams() as (ours, (to_server, from_server)):
        loop = asyncio.get_running_loop()

        judge = LineJudge()
        reader = MessageReader(process.spool, process.command[0], judge)

        async def read() -> None:
            try:
                async for line in process.lines():
                    for message in await reader.read(line):
                        await from_server.send(SessionMessage(message))
            finally:
                at_end()
                await from_server.aclose()  # wakes all requests that wait for an answer

        async def write() -> None:
            async for item in to_server:
                if isinstance(item, SessionMessage):
                    reader.note_sent(item.message)
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
            await judge.close()
            await asyncio.gather(*pumps, return_exceptions=True)
