"""Connects an MCP server to a space: `McpBridge` runs it, forwards requests to it, and leaves when it ends.

The server answers each request to the participant, and its results are sent unchanged. The progress that it reports is
relayed to the requester, and a cancelled request is cancelled at the server. What the server itself asks goes to a
person (`server_requests`). It is started once: when it ends, open requests are answered with an error, and the
participant leaves.

Spec: §3.1, §3.1.2, threat 28.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mew_lab.bridge.process import (
    TOLD,
    TOLD_LINES,
    RestartLimit,
    ServerProcess,
    end_and_report,
    start_seconds,
    tell_start,
)
from mew_lab.bridge.remote import RemoteServer, is_lost_answer
from mew_lab.bridge.server_requests import ServerRequests, root_of
from mew_lab.bridge.server_run import ServerRun
from mew_lab.bridge.subscriptions import ChangeLimit, LogLimit, Subscriptions
from mew_lab.bridge.written_files import WRITING_TOOLS, FileWrite, check_writes, find_written
from mew_lab.errors import ConfigError, MewError
from mew_lab.ledger.unknown_calls import DAY, UnknownCall, check_repeats_within, has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import CHANGED, ToolReader, ToolReading
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.progress import OnProgress, progress_relay
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.result_store import ResultLimits, ResultStore
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.tools import METHOD_NOT_FOUND, RpcError, unknown_outcome_error
from mew_lab.settings.environment import state_folder

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
        "completion/complete",
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
    "resources": frozenset({"listChanged", "subscribe"}),
    "prompts": frozenset({"listChanged"}),
    "completions": frozenset(),
    "logging": frozenset(),
}  # of a server, that the bridge passes on
LOGGED = "notifications/message"
UPDATED = "notifications/resources/updated"
ENDED = -32000
CLOSED = (-32000, "Connection closed")  # code and message of the library where the session ended
MAX_READINGS = 32  # lists of several pages of which the next page is awaited
SETTLE = 1.0  # seconds for sending the last answers
ASK_AGAIN_AFTER = (1.0, 5.0, 30.0)  # seconds, each time that the server gave no list of its tools


class McpBridge:
    """One MCP server as the participant `name`.

    `command_line` is the exact command, known before the start. `listed` are the tools that the server listed last: when
    it started, said that they had changed, or was asked by a participant. Where it gives no list then, the last one
    stays, and it is asked again a few times. `cwd` is the folder in which it runs; None for one at a URL.

    Args:
        command: the program and its arguments, where `python` as the program is this interpreter; or, as one text, the
            URL of a server that runs elsewhere.
        env: names of environment variables to pass on, besides PATH, HOME, LANG, TMPDIR and SYSTEMROOT; or the
            variables themselves, names and values.
        headers, transport: of a server at a URL, as `RemoteServer` has them.
        cwd: the working directory of the server; None takes that of this process.
        on_end: called with a sentence when the server ends without `stop()`.
        start_timeout: seconds in which the server must answer `initialize`; None: 30, or 300 where the command is one
            that downloads what it runs, such as npx or uvx.
        on_start: called with a sentence or a line of the server's stderr, while its start takes long.
        restarts: how often within a minute a server that ends by itself is started again, before the participant
            leaves.
        owner: the participant that answers for the server where no person decided its call; empty for nobody.
        elicitation: whether the server may ask the person who decided a call for more, by a form or an address.
        sampling: whether the server may ask for replies of the owner's model; she approves each.
        roots: the folders that the server is told of, if it asks; None offers none.
        writes: the tools that write a file, besides those known by the name of the server: for each, the names of its
            arguments with the path and the content.
        state: as `MEWParticipant` has it; None is the user's folder, where the server is not given that.
        strict_unknown, repeats_within, logical: as `MEWParticipant` has them.
        quorum, deciders: how many of which participants must have said yes to a call, as `ToolBox` has them.
        results: as `MEWParticipant` has them.
        unknown: the calls of unknown outcome in the journal of its space; None where nobody here has that.

    Raises:
        ConfigError: when there is no command, a named variable is not set, a root does not exist, `writes` names no
            pair of arguments or is given for a URL, `repeats_within` is no number of seconds, `quorum` is no count of
            the deciders, or as `RemoteServer`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        env: Sequence[str] | Mapping[str, str] = (),
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        transport: str | None = None,
        on_end: Callable[[str], None] | None = None,
        start_timeout: float | None = None,
        on_start: Callable[[str], object] | None = None,
        restarts: int = 0,
        owner: str = "",
        elicitation: bool = True,
        sampling: bool = False,
        roots: Sequence[str | Path] | None = None,
        writes: Mapping[str, Sequence[str]] | None = None,
        state: Callable[[], Path | None] | None = None,
        strict_unknown: bool = False,
        repeats_within: float = DAY,
        unknown: Iterable[UnknownCall] | None = None,
        results: ResultLimits | None = None,
        quorum: int | None = None,
        deciders: Collection[str] = (),
        logical: Callable[[str], str] = str,
    ) -> None:
        self.name = name
        within = check_repeats_within(repeats_within)
        self._on_repeat: dict[str, Any] = {"strict_unknown": strict_unknown, "repeats_within": within}
        self.quorum = Quorum.of(quorum, deciders)
        self._logical = logical
        self._unknown = None if unknown is None else tuple(unknown)
        self._state = state or (lambda: state_folder(outside=self.folders))
        self._results = ResultStore(self._state, results)
        self.listed = ToolReading()
        # The lists that participants read page by page: a list is whole when one of them has its last page.
        self._readings: BoundedDict[str, ToolReader] = BoundedDict(MAX_READINGS, refresh=True)
        self.participant: MEWParticipant | None = None
        folder = Path(cwd) if cwd is not None else Path.cwd()
        named = () if isinstance(command, str) else command[1:]
        self._named = [path for word in named if _is_folder(path := folder / word.rpartition("=")[2])]
        self.cwd = None if isinstance(command, str) else folder
        self._requests = ServerRequests(
            owner=owner, elicitation=elicitation, sampling=sampling, roots=roots, report=self._warn
        )

        def new_run() -> ServerRun:
            server = (
                RemoteServer(command, headers=headers, transport=transport, spool=self._results)
                if isinstance(command, str)
                else ServerProcess(command, cwd=folder, env=env, spool=self._results)
            )
            return ServerRun(server, name=name, on_notification=self._relay, on_request=self._requests)

        self._new_run = new_run
        self._run = new_run()
        self._restarts = RestartLimit(restarts)
        self._on_end = on_end
        words = () if isinstance(command, str) else command
        self._start_timeout = start_seconds(words) if start_timeout is None else start_timeout
        self._on_start = on_start
        self._stopping = False
        self._watching: asyncio.Task[None] | None = None
        self._asking_again: asyncio.Task[None] | None = None
        self._log_limit = LogLimit()
        self._change_limit = ChangeLimit()
        self._log_level: object = None
        self._subscriptions = Subscriptions(
            subscribe=lambda uri: self._opened().subscribe(uri),
            unsubscribe=lambda uri: self._opened().unsubscribe(uri),
        )
        self._writes = check_writes(name, writes, runs_here=self.cwd is not None)
        self._own: dict[str, Callable[[McpSession, Mapping[str, Any]], Awaitable[None]]] = {
            "logging/setLevel": self._set_log_level,
            "resources/subscribe": lambda _, params: self._change_subscription(params, subscribes=True),
            "resources/unsubscribe": lambda _, params: self._change_subscription(params, subscribes=False),
        }

    def __repr__(self) -> str:
        return f"<McpBridge {self.name}: {self.command_line}>"

    @property
    def command_line(self) -> str:
        """The exact command in shell syntax, or the URL without its query."""
        return self._run.server.command_line

    @property
    def folders(self) -> list[Path]:
        """The folders to which the server is given access: its roots, and those that its command names."""
        return [*self._named, *self._rooted]

    @property
    def _rooted(self) -> list[Path]:
        uris = [root["uri"] for root in self._requests.roots or ()]
        return [Path(url2pathname(urlsplit(uri).path)) for uri in uris]

    @property
    def pid(self) -> int:
        """The process id of the server; 0 before its start, and for one at a URL."""
        return self._run.server.pid

    def hints_of(self, tool: str) -> Mapping[str, Any]:
        """The annotations that the server gave of a tool; empty where it gave none."""
        return next((known.annotations for known in self.listed.tools if known.name == tool), {})

    def find_write(self, tool: str, arguments: Mapping[str, Any]) -> FileWrite | None:
        """The file that a call of a server in this process' care would write; None where none is known.

        A server that knows roots takes these in place of the folders that its command names. Of several such folders one
        may be there for another reason, so a relative path then means no known file.
        """
        if self.cwd is None:
            return None
        if (marked := self._writes.get(tool)) is not None:
            return find_written(marked, arguments, roots=[self.cwd, *self.folders], base=self.cwd)
        session = self._run.session
        name = "" if session is None else text_of(member(session.initialized, "serverInfo", "name"))
        known = WRITING_TOOLS.get(name, {}).get(tool)
        rooted, named = self._rooted, self._named
        base = rooted[0] if rooted else named[0] if len(named) == 1 else None
        return known and find_written(known, arguments, roots=rooted or named, base=base)

    async def start(self, client: MEWClient) -> MEWParticipant:
        """Starts the server, then joins the space with it; returns the participant.

        Raises:
            MewError: the server does not start or answer; the error has its command and its last lines of stderr.
            NotAdmitted, ConnectionLost, NoReply: the space does not admit the participant; the server is ended.
        """
        try:
            await self._open()
            self.participant = self._requests.participant = MEWParticipant(
                client,
                tools=self,
                state=self._state,
                results=self._results,
                logical=self._logical,
                **self._on_repeat,
            )
            if self._unknown is not None:
                self.participant.adopt_unknown(self._unknown)
            await self.participant.start()
        except BaseException:
            await self.stop()
            raise
        client.on_disconnected(lambda error: self._on_disconnected(client, error))
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        return self.participant

    async def stop(self) -> None:
        """Leaves the space, and ends the server and its child processes. A second call does nothing."""
        self._stopping = True
        watching = self._watching
        if watching is not None and watching is not asyncio.current_task():
            watching.cancel()
        if self._asking_again is not None:
            self._asking_again.cancel()
        if self.participant is not None:
            await self.participant.stop()
        await self._run.stop()
        self._results.close()

    async def _open(self) -> None:
        """Starts the server, opens a session with it, and reads its tools; a failure ends it. Raises as `start`."""
        run = self._run
        telling = None
        if self._on_start is not None and isinstance(run.server, ServerProcess):
            telling = asyncio.get_running_loop().create_task(
                tell_start(run.server, self.name, self._on_start, within=self._start_timeout)
            )
        try:
            async with asyncio.timeout(self._start_timeout):
                session = await run.start()
                if not await self._read_tools(session):
                    self._ask_again()
        except TimeoutError:
            await run.stop()
            kind, said = "", ""
            if isinstance(run.server, ServerProcess):
                kind = " that uses stdio"
                last = [one_line(line.strip(), TOLD) for line in run.server.stderr_since(0)[0][-TOLD_LINES:]]
                said = f" Its last lines: {' | '.join(last)}" if last else ""
            raise MewError(
                f"Cannot bridge {self.name!r}: {self.command_line} did not answer `initialize` within "
                f"{self._start_timeout:g} s. Is it an MCP server{kind}?{said}"
            ) from None
        except RpcError:  # only where it has ended
            how = await run.server.describe_end()
            await run.stop()
            raise MewError(f"Cannot bridge {self.name!r} with {self.command_line}: it {how}") from None
        except BaseException:
            await run.stop()
            raise
        finally:
            if telling is not None:
                telling.cancel()

    # --- answering ---

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The server's result, unchanged.

        Raises:
            RpcError: the error of the server; -32601 for a method that is not passed on; -32000 when the server has
                ended; `outcome_unknown` where it ended or gave no correct answer after it got a call (R35).
        """
        if method == "ping":
            return {}
        if method not in PASSED_ON and method not in self._own and method != "initialize":
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 80)}")
        run, session = self._run, self._opened()
        if method == "initialize":
            return _passed_on(session.initialized)
        own, on_progress = self._with_progress(params)
        if run.ended.is_set():  # nothing was sent
            raise RpcError(ENDED, await self._describe_end(run))
        try:
            if method in self._own:
                await self._own[method](session, params)
                return {}
            with self._requests.during(ASKED.get(), method):
                result = await session.request(method, own, on_progress=on_progress)
            if method == "tools/list":
                await self._read_page(params.get("cursor"), result)
            return result
        except RpcError as fault:
            if run.ended.is_set() and (fault.code, fault.message) == CLOSED:
                why = await self._describe_end(run)
                lost, ended = f"{why}, after it got the call", RpcError(ENDED, why)
            elif unknown_outcome({"error": fault.payload()}):
                lost, ended = fault.message, RpcError(fault.code, fault.message)
            elif isinstance(run.server, RemoteServer) and is_lost_answer(fault.code, fault.message):
                lost = f"the MCP server of participant {self.name} broke off its answer, or gave none that can be read"
                ended = RpcError(fault.code, lost)
            else:
                raise  # the error that the server gave
            raise (unknown_outcome_error(lost) if has_effect(method) else ended) from None
        except (RuntimeError, ValueError) as fault:
            if not has_effect(method):
                raise
            logger.warning(
                "%s gave an answer that MCP does not have: %s", self.name, one_line(str(fault), 200)
            )
            why = f"the MCP server of participant {self.name} gave a malformed answer"
            raise unknown_outcome_error(why) from None

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

    async def _describe_end(self, run: ServerRun) -> str:
        return f"the MCP server of participant {self.name} {await run.server.describe_end()}"

    async def _read_tools(self, session: McpSession) -> bool:
        """Reads the server's tools, of which it may have none. Returns false where it gave no whole list.

        Raises:
            RpcError: the server has ended.
        """
        reader = ToolReader(self.name)
        while True:
            try:
                page = await session.request(
                    "tools/list", {"cursor": reader.next_cursor} if reader.next_cursor else {}
                )
                await in_slices(reader.take(page))
            except RpcError as refusal:
                if self._run.ended.is_set():
                    raise
                if self.listed.tools:
                    return False
                self.listed = reader.reading()
                return refusal.code == METHOD_NOT_FOUND
            if not reader.next_cursor:
                self.listed = reader.reading()
                return True

    async def _read_tools_anew(self) -> bool:
        """Reads the tools of a server that runs. Returns false where it gave no list."""
        with contextlib.suppress(RpcError, TimeoutError, RuntimeError, ValueError):
            async with asyncio.timeout(self._start_timeout):
                return self._run.session is not None and await self._read_tools(self._run.session)
        return False

    def _ask_again(self) -> None:
        """Reads the tools again later, and announces them where the server lists them then."""

        async def ask() -> None:
            for wait in ASK_AGAIN_AFTER:
                await asyncio.sleep(wait)
                if await self._read_tools_anew():
                    if self.participant is not None:
                        await self._notify(self.participant, CHANGED)
                    return

        if self._asking_again is not None:
            self._asking_again.cancel()
        self._asking_again = asyncio.get_running_loop().create_task(ask())

    async def _read_page(self, cursor: object, page: Mapping[str, Any]) -> None:
        """Reads a page of the server's tools that a participant asked for; its last one completes a list."""
        asked = ASKED.get()
        who = "" if asked is None else asked.sender
        reader = self._readings.pop(who, None) if cursor else ToolReader(self.name)
        if reader is None or (cursor and reader.next_cursor != cursor):
            return
        await in_slices(reader.take(page))
        if reader.next_cursor:
            self._readings[who] = reader
        else:
            self.listed = reader.reading()

    # --- what the server asks ---

    async def set_roots(self, roots: Sequence[str | Path]) -> None:
        """Names other roots, and tells the server. Raises ConfigError where roots are not offered to it."""
        if self._requests.roots is None:
            raise ConfigError(
                f"{self.name} was bridged without roots, so it is not offered any; bridge it anew with roots=[…]",
                key="roots",
            )
        self._requests.roots = [root_of(root) for root in roots]
        if self._run.session is not None:
            await self._run.session.announce_roots()

    async def note_left_out(self, text: str) -> None:
        """Warns of entries of a list that no message can hold."""
        await self._warn(text)

    async def _warn(self, text: str) -> None:
        """Reports a sentence about the server as a log message of it."""
        logger.info("%s: %s", self.name, text)
        await self._relay(LOGGED, {"level": "warning", "logger": "mew_lab", "data": text})

    # --- the life of the server ---

    def _opened(self) -> McpSession:
        """The open session.

        Raises:
            RpcError: the server is being started again.
        """
        if self._run.session is None:
            text = f"the MCP server of participant {self.name} is being started again; ask again later"
            raise RpcError(ENDED, text)
        return self._run.session

    async def _set_log_level(self, session: McpSession, params: Mapping[str, Any]) -> None:
        await session.set_log_level(params.get("level"))
        self._log_level = params.get("level")

    async def _change_subscription(self, params: Mapping[str, Any], *, subscribes: bool) -> None:
        asked = ASKED.get()
        assert asked is not None  # only a request is answered
        change = self._subscriptions.add if subscribes else self._subscriptions.remove
        await change(params.get("uri"), asked.sender)

    async def _relay(self, method: str, params: Mapping[str, Any]) -> None:
        """Passes a notification of the server on, as far as the participant may send it."""
        participant = self.participant
        if participant is None:
            return
        if method in RELAYED:
            if await self._change_limit.wait(method):
                if method == CHANGED and not await self._read_tools_anew():
                    self._ask_again()
                await self._notify(participant, method)
        elif method == LOGGED:
            for message in self._log_limit.take(params, asyncio.get_running_loop().time()):
                await self._notify(participant, LOGGED, message)
        elif method == UPDATED:
            here = participant.client.participants
            to = await self._subscriptions.subscribers(params.get("uri"), here)
            if to and await self._change_limit.wait(f"{UPDATED} {params['uri']}"):
                await self._notify(participant, UPDATED, {"uri": params["uri"]}, to=to)

    @staticmethod
    async def _notify(
        participant: MEWParticipant,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        to: Sequence[str] = (),
    ) -> None:
        payload = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        if participant.can_send("mcp/request", payload):
            with contextlib.suppress(MewError):
                await participant.notify(method, params, to=to)

    async def _watch(self) -> None:
        """Starts a server that has ended again, up to the limit; then answers what is open, leaves, and reports why."""
        why = ""
        while not why:
            await self._run.ended.wait()
            why = await self._start_again(await self._describe_end(self._run))
        if self.participant is not None:
            await self.participant.stop(settle=SETTLE)
        await end_and_report(self.stop, f"{why} ({self.command_line})", self._on_end)

    async def _start_again(self, why: str) -> str:
        """Starts the server again. Returns a sentence where the limit is reached, else an empty text."""
        reported = why
        while True:
            if (remark := self._restarts.note_end()) is not None:
                return why + remark
            await self._run.stop()
            self._run = self._new_run()
            await self._restarts.pause()
            try:
                await self._open()
            except MewError as fault:
                why = str(fault)
                continue
            await self._renew()
            if self.participant is not None:
                text = f"{reported}; it was started again"
                logger.info("%s", text)
                warning = {"level": "warning", "logger": "mew_lab", "data": text}
                await self._notify(self.participant, LOGGED, warning)
                for method in RELAYED:  # the new server may offer others
                    await self._notify(self.participant, method)
            return ""

    async def _renew(self) -> None:
        """Has a server that was started again send the log messages and updates that were asked for."""
        if self._log_level is not None:
            with contextlib.suppress(RpcError):
                await self._opened().set_log_level(self._log_level)
        await self._subscriptions.renew()

    def _on_disconnected(self, client: MEWClient, error: MewError | None) -> None:
        if client.state == "disconnected" and not self._stopping and not self._run.ended.is_set():
            why = f"participant {self.name} left the space, so its MCP server was ended: {error or 'disconnected'}"
            if self._watching is not None:
                self._watching.cancel()
            self._watching = asyncio.get_running_loop().create_task(
                end_and_report(self.stop, why, self._on_end)
            )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a word of a command may be anything
        return False


def _passed_on(initialized: Mapping[str, Any]) -> dict[str, Any]:
    """The server's result of `initialize`, with the capabilities that the bridge passes on, and no others."""
    declared = initialized.get("capabilities")
    capabilities = {
        name: {key: flag for key, flag in part.items() if key in flags}
        for name, flags in CAPABILITIES.items()
        if isinstance(declared, Mapping) and isinstance(part := declared.get(name), Mapping)
    }
    return {**initialized, "capabilities": capabilities}
