"""Brings a coding agent that speaks the Agent Client Protocol into a space: `AcpBridge` runs it as a participant.

How it works
------------
Chat from a participant that the agent obeys is a prompt; in the middle of a turn it waits. A turn is one sequence of
reasoning (`acp_turn`) and one chat with the words of the agent. What the agent asks permission for is a proposal to
itself (`acp_permissions`), at any time. A `chat/cancel` or `reasoning/cancel` ends the turn, and the questions of it are
withdrawn. At a limit of turns, minutes or tokens the turn is cancelled, and the agent asks whether to go on.

What it does not promise: an agent asks by its own rules. The bridge sets the mode that asks most, says so in the status,
and marks tool calls that ran without a question. What the agent does not ask about runs with the rights of the user.

An agent that ends by itself is started again, up to a limit, in the same session where it can resume one.

Spec: Agent Client Protocol 1; §3.1.2, §3.4, §3.5, §3.9.4; rulings R32, R41; threats 28, 42.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mew_lab.bridge.acp_agents import agent_of, find_agent, variables_of
from mew_lab.bridge.acp_files import FILE_METHODS, AgentFiles, FileRequests
from mew_lab.bridge.acp_modes import (
    NOT_KNOWN_TO_ASK,
    SET_CONFIG_OPTION,
    SET_MODE,
    AgentChoice,
    mode_schema,
    option_schema,
    quote_word,
    read_modes,
    read_options_of_session,
)
from mew_lab.bridge.acp_once import TOLD_BEFORE
from mew_lab.bridge.acp_permissions import Effect, PermissionDecision, Permissions, read_options
from mew_lab.bridge.acp_tools import AgentTools
from mew_lab.bridge.acp_turn import TurnReport, masked
from mew_lab.bridge.process import (
    RestartLimit,
    ServerProcess,
    end_and_report,
    environment,
    start_seconds,
    tell_start,
)
from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.coerce import is_number, line_of, list_of, mapping_of, member, text_of
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.payloads.mcp import REASON_CODES
from mew_lab.protocol.text import count_of, elapsed
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.askers import Askers, mentions, tells_outcome
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.delivery import deliver, ready_to_send
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, ToolBox
from mew_lab.sdk.trace import Trace

if TYPE_CHECKING:
    from mew_lab.bridge.acp_connection import AgentConnection

__all__ = ["AcpBridge", "WorkLimits"]

logger = logging.getLogger(__name__)
MAX_QUEUED = 100  # prompts that wait
MAX_HISTORY = 1000  # messages of an earlier session that are kept
MAX_OPTIONS_TOLD = 20  # in a status
MAX_REASON = 1000  # characters of a reason that the agent is told
CANCELLED_WITHIN = 15.0  # seconds in which a cancelled turn must end; then the agent is ended
CLOSED_WITHIN = 2.0  # seconds for the agent to close its session
TOLD_WITHIN = 3.0  # seconds for telling the asker that the agent has ended
QUIET = 1.0  # seconds after which what came outside a turn is told
SHOWN = 80  # characters of a prompt in a sentence
CANCELLED: Mapping[str, Any] = {"outcome": {"outcome": "cancelled"}}
GO_ON = "Go on."
ENDING = ("participant/clear", "participant/restart", "participant/shutdown")


class WorkLimits:
    """How much an agent may do before it asks whether to go on; None sets no limit.

    Args:
        turns: prompts that it works on; `minutes` of work; `tokens` as the agent itself counts them.

    Raises:
        ConfigError: a limit is not above 0.
    """

    def __init__(
        self, *, turns: int | None = None, minutes: float | None = None, tokens: int | None = None
    ) -> None:
        for name, limit in (("turns", turns), ("minutes", minutes), ("tokens", tokens)):
            if limit is not None and not (is_number(limit) and limit > 0):
                raise ConfigError(
                    f"{name}={limit!r} must be a number above 0, or None for no limit", key=name
                )
        self._turns, self._seconds = turns, None if minutes is None else 60.0 * minutes
        self._tokens = tokens
        self._counted = self._spent = 0  # tokens as told last, and at the last renewal
        self._began = 0.0
        self.renew()

    def renew(self) -> None:
        """Begins anew, because somebody said that it may go on."""
        self._worked_turns, self._worked = 0, 0.0
        self._spent = self._counted
        self._began = time.monotonic()

    def begin_turn(self) -> None:
        self._worked_turns += 1
        self._began = time.monotonic()

    def end_turn(self) -> None:
        self._worked += time.monotonic() - self._began
        self._began = time.monotonic()

    def count_tokens(self, counted: int) -> None:
        """Records how many tokens the session has taken, as the agent says."""
        self._counted = max(self._counted, counted)

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the turn may go on; None without a limit."""
        if self._seconds is None:
            return None
        return max(0.0, self._seconds - self._worked - (time.monotonic() - self._began))

    def find_limit(self, *, in_turn: bool) -> str:
        """The limit that is reached, such as `50 turns`; empty where none is."""
        if self._turns is not None and not in_turn and self._worked_turns >= self._turns:
            return count_of(self._turns, "turn")
        worked = self._worked + (time.monotonic() - self._began if in_turn else 0.0)
        if self._seconds is not None and worked >= self._seconds:
            return f"{elapsed(self._seconds)} of work"
        if self._tokens is not None and self._counted - self._spent >= self._tokens:
            return count_of(self._tokens, "token")
        return ""


class _Prompt(NamedTuple):
    """What the agent works on next; `chat` is the message that asks for it, None where none does."""

    text: str
    chat: Envelope | None


class _Turn:
    """The turn that is worked on. `why` says why it was cancelled; empty while it was not."""

    def __init__(self, prompt: _Prompt, report: TurnReport) -> None:
        self.prompt = prompt
        self.report = report
        self.why = ""
        self.by_others = False  # a participant has ended its reasoning, or its question
        self.limit = ""
        self.impatient: asyncio.TimerHandle | None = None


class AcpBridge:
    """One coding agent as the participant `name`.

    `mode` is the mode that the agent is in, `session` the id of its session, `history` what was said in that before.
    `tools` is its gate to the tools of the space; `commands` are its slash commands, and `config` its options, as it
    tells them.

    Args:
        agent: the name of a known agent (`acp_agents.AGENTS`), or a program and its arguments.
        env: names of environment variables to pass on, or names and values, besides those that a known agent gets.
        cwd: the folder in which it works; that of this process by default.
        session: the id of an earlier session to go on with.
        mode: the mode to set; None is the one that asks most, as far as that is known.
        obeys: the participants whose chat is a prompt: ids, or `*` for anybody. None means those in `starters`, and
            each participant that may call any tool itself.
        turns, minutes, tokens: what it may do before it asks whether to go on (`WorkLimits`).
        reasons: whether the reason of a rejection goes to the agent as its next prompt.
        files: the folder of which it may read files by this side, and write them as people decide; None offers it none.
        tools: its gate to the tools of the space, which begins and ends with it; None gives it none.
        restarts: how often within a minute an agent that ends by itself is started again, before it leaves.
        start_timeout: seconds in which it must begin a session; None: 30, or 300 where its command may download it.
        on_join: called once its session has begun, before its participant joins, such as to enrol it.
        on_end: called with a sentence when it ends without `stop()`; `on_start` as `McpBridge` has it.
        state, logical: as `MEWParticipant` has them.

    Raises:
        ConfigError: the agent is not known, a named variable is not set, or a limit is none.
    """

    def __init__(
        self,
        name: str,
        agent: str | Sequence[str],
        *,
        env: Sequence[str] | Mapping[str, str] = (),
        cwd: str | Path | None = None,
        session: str = "",
        mode: str | None = None,
        obeys: Sequence[str] | None = None,
        starters: Sequence[str] = (),
        turns: int | None = None,
        minutes: float | None = None,
        tokens: int | None = None,
        reasons: bool = False,
        files: str | Path | None = None,
        tools: AgentTools | None = None,
        restarts: int = 3,
        start_timeout: float | None = None,
        on_join: Callable[[], object] = lambda: None,
        on_end: Callable[[str], object] | None = None,
        on_start: Callable[[str], object] | None = None,
        state: Callable[[], Path | None] | None = None,
        logical: Callable[[str], str] = str,
    ) -> None:
        self.name = name
        self.known = agent_of(agent) if isinstance(agent, str) else find_agent(agent)
        command = self.known.command if isinstance(agent, str) and self.known else tuple(agent)
        environment(env)  # a variable that is not set is told before anything starts
        given = (
            dict(env) if isinstance(env, Mapping) else {variable: os.environ[variable] for variable in env}
        )
        variables = variables_of(self.known) | given
        self.cwd = Path(cwd).absolute() if cwd is not None else Path.cwd()
        self.budget = WorkLimits(turns=turns, minutes=minutes, tokens=tokens)
        self.participant: MEWParticipant | None = None
        self.mode = ""
        self.session = session
        self.history: list[tuple[str, str]] = []
        self.commands: list[str] = []
        self.config: dict[str, Any] = {}
        self._modes: list[str] = []
        self._wanted = mode if mode is not None else (self.known.mode if self.known else "")
        self._obeys, self._starters = obeys, tuple(starters)
        self._askers: Askers | None = None
        self._reasons = reasons
        self._files = None
        if files is not None:
            offered = self.known.files if self.known is not None else ("read", "write")
            if not offered:
                raise ConfigError(
                    f"files= has no use for {self.name!r}: that agent writes its files itself, whatever is decided here",
                    key="files",
                )
            self._files = FileRequests(
                AgentFiles(files),
                offered=offered,
                report=self._report,
                refusal=self._refuse_files,
                ask=self._ask_of_file,
            )
        self.tools = tools
        self._cancelled = 0  # turns
        self._state, self._logical = state, logical

        def new_process() -> ServerProcess:
            return ServerProcess(command, cwd=self.cwd, env=variables)

        self._new_process = new_process
        self.process = new_process()
        self._start_timeout = start_seconds(command) if start_timeout is None else start_timeout
        self._on_join, self._on_end, self._on_start = on_join, on_end, on_start
        self._restarts = RestartLimit(restarts)
        self._connection: AgentConnection | None = None
        self._hello: Mapping[str, Any] = {}
        self._cost = ""
        self._replaying = False
        self._stopping = False
        self._queue: deque[_Prompt] = deque()
        self._wake = asyncio.Event()
        self._is_open = asyncio.Event()
        self._renews_session = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._turn: _Turn | None = None
        self._outside: TurnReport | None = None  # what comes when no turn is worked on
        self._outside_due: asyncio.TimerHandle | None = None
        self._last_asker: Envelope | None = None
        self._permissions: Permissions | None = None
        self._tasks = RunningTasks()
        self._working: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AcpBridge {self.name}: {self.command_line}>"

    @property
    def command_line(self) -> str:
        """The exact command in shell syntax, but for secrets among its arguments."""
        return self.process.command_line

    @property
    def pid(self) -> int:
        """The process id of the agent; 0 before its start."""
        return self.process.pid

    @property
    def rule(self) -> str:
        """By which rule the agent asks, for its status."""
        mode = quote_word(self.mode) if self.mode else "unknown"
        return f"asks by its own rules: mode {mode}; what it does not ask about runs with your rights"

    @property
    def warning(self) -> str:
        """A sentence where the mode is not known to ask; empty where it is."""
        if not self.mode or (self.known is not None and self.mode in self.known.asks):
            return ""
        return NOT_KNOWN_TO_ASK.format(mode=quote_word(self.mode))

    @property
    def busy(self) -> bool:
        """Whether it works on a prompt."""
        return self._turn is not None

    def obeys(self, sender: str) -> bool:
        """Whether the chat of a participant is a prompt; of nobody before it has joined."""
        return self._askers is not None and self._askers.obeyed(sender)

    @property
    def span(self) -> Hashable:
        """To what a permission for a call at its gate is bound: session, process, and no turn cancelled since."""
        return self.session, self.pid, self._cancelled

    def take_allowed(self, participant: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """The permission that counts for that call at its gate, by its proposal, and is used up; empty for none."""
        if self.tools is None:
            return ""
        return self.tools.take_allowed(
            participant, tool, arguments, span=self.span, now=asyncio.get_running_loop().time()
        )

    async def start(self, client: MEWClient) -> MEWParticipant:
        """Starts the agent, then joins the space with it; returns the participant.

        Raises:
            MewError: the agent does not start, or begins no session; the error has its command and its last lines.
            NotAdmitted, ConnectionLost, NoReply: the space does not admit the participant; the agent is ended.
        """
        participant = self.participant = MEWParticipant(
            client, tools=ToolBox(name=self.name), state=self._state, logical=self._logical
        )
        self._permissions = Permissions(participant)
        askers = self._askers = Askers(participant, lambda: self._obeys)
        askers.add_starters(*self._starters)
        telemetry = participant.telemetry
        telemetry.automatic = False
        telemetry.add_metric("mode", lambda: mask(line_of(self.mode, 80)) or None)
        telemetry.add_metric("rule", lambda: mask(self.rule))
        telemetry.add_metric("warning", lambda: mask(self.warning) or None)
        telemetry.add_metric("session", lambda: mask(line_of(self.session, 80)) or None)
        telemetry.add_metric("commands", lambda: len(self.commands) or None)
        telemetry.add_metric("history", lambda: len(self.history) or None)
        telemetry.add_metric("cost", lambda: self._cost or None)
        telemetry.add_metric("config", self._tell_config)
        try:
            await self._open()
            self._on_join()
            await participant.start()
        except BaseException:
            await self.stop()
            raise
        participant.on_chat(self._on_chat)
        client.on_message(self._observe, kinds=("chat/cancel", "reasoning/cancel", *ENDING))
        client.on_disconnected(lambda error: self._on_disconnected(client, error))
        telemetry.tell("active")
        loop = asyncio.get_running_loop()
        self._working = loop.create_task(self._work())
        self._watching = loop.create_task(self._watch())
        return participant

    async def stop(self) -> None:
        """Cancels its work, leaves the space, and ends the agent and its child processes. A second call does nothing."""
        self._stopping = True
        for task in (self._working, self._watching):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if self._outside_due is not None:
            self._outside_due.cancel()
        connection, self._connection = self._connection, None
        if self._turn is not None and self._permissions is not None:
            self._permissions.cancel_all("the agent was stopped")
            if connection is not None:
                await connection.cancel(self.session)
            self._turn.report.trace.cancel("the agent was stopped")
        if self._permissions is not None and self.participant is not None:
            await self._permissions.close()
        if self.participant is not None:
            await self.participant.stop()
        try:
            if self.tools is not None:
                await self.tools.close()
        finally:
            await self._close_agent(connection)

    async def _close_agent(self, connection: AgentConnection | None) -> None:
        if connection is None:
            await self.process.stop()
            return
        if not connection.ended.is_set() and self.session and self._can("close"):
            with contextlib.suppress(RpcError, EOFError, TimeoutError):
                async with asyncio.timeout(CLOSED_WITHIN):
                    await connection.close_session(self.session)
        await connection.close()

    async def cancel(self, reason: str = "cancelled") -> bool:
        """Cancels its turn, if it works on one, and drops the prompts that wait; returns whether it did."""
        self._queue.clear()
        if self._turn is None:
            return False
        self._cancel_turn(self._turn, reason)
        return True

    # --- its sessions ---

    async def sessions(self) -> list[dict[str, str]]:
        """The sessions that the agent keeps of its folder, with `id`, `title` and `updated`.

        Raises:
            MewError: it keeps no list, or did not give it.
        """
        if not self._can("list"):
            raise MewError(f"{self.name} keeps no list of its sessions ({self.command_line})")
        try:
            found = await self._opened().list_sessions(str(self.cwd))
        except (RpcError, EOFError) as fault:
            raise MewError(f"{self.name} did not list its sessions: {one_line(str(fault), 300)}") from None
        return [
            {
                "id": one["sessionId"],
                "title": line_of(one.get("title"), 200),
                "updated": line_of(one.get("updatedAt"), 40),
            }
            for one in found
        ]

    async def set_mode(self, mode: str) -> str:
        """Sets the mode of the agent, which decides what it asks about."""
        if mode not in self._modes:
            known = mask(", ".join(self._modes)) or "none"
            raise ValueError(f"{self.name} has no mode {one_line(mode, 80)!r}; it has {known}")
        await self._set_mode(mode)
        self._tell_status("mode")
        return mask(self.rule)

    async def set_config_option(self, option: str, value: str | bool) -> str:
        """Sets an option of the agent, such as its model."""
        if option not in self.config:
            known = mask(", ".join(self.config)) or "none"
            raise ValueError(f"{self.name} has no option {one_line(option, 80)!r}; it has {known}")
        answer = await self._opened().set_config_option(self.session, option, value)
        self._take_config(answer.get("configOptions"))
        self._tell_status("config")
        return mask(f"{option} is {self.config.get(option)}")

    def _opened(self) -> AgentConnection:
        if self._connection is None or self._connection.ended.is_set():
            raise MewError(f"{self.name} is being started again; try again later")
        return self._connection

    def _can(self, what: str) -> bool:
        """Whether the agent has an ability of sessions: `list`, `resume`, `close` or `load`."""
        abilities = mapping_of(self._hello.get("agentCapabilities"))
        if what == "load":
            return abilities.get("loadSession") is True
        return member(abilities, "sessionCapabilities", what) is not None

    # --- the life of the agent ---

    async def _open(self) -> None:
        """Starts the agent and begins a session, or goes on with one. Raises as `start`."""
        connection_type = await asyncio.to_thread(_load)
        process = self.process
        connection = connection_type(
            process,
            on_update=self._take_update,
            on_request=self._answer,
            on_unread=self._report_unread,
            reads_files=self._files is not None and "read" in self._files.offered,
            writes_files=self._files is not None and "write" in self._files.offered,
        )
        telling = None
        if self._on_start is not None:
            work = tell_start(process, self.name, self._on_start, within=self._start_timeout)
            telling = asyncio.get_running_loop().create_task(work)
        try:
            async with asyncio.timeout(self._start_timeout):
                self._hello = await connection.open()
                self._connection = connection
                if self.tools is not None:
                    await self.tools.open()
                await self._begin_session(connection)
        except BaseException as fault:
            why = await self._explain(fault, process)
            self._connection = None
            await connection.close()
            if why:
                raise MewError(f"Cannot start {self.name!r} with {process.command_line}: {why}") from None
            raise
        finally:
            if telling is not None:
                telling.cancel()
        self._is_open.set()
        self._wake.set()

    async def _explain(self, fault: BaseException, process: ServerProcess) -> str:
        """Why a start failed, with what would help; empty for what is no fault of the agent."""
        hint = f". Known of it: {self.known.remark}" if self.known is not None and self.known.remark else ""
        if isinstance(fault, TimeoutError):
            return f"it began no session within {self._start_timeout:g} s{hint}"
        if isinstance(fault, EOFError):
            return f"it {await process.describe_end()}{hint}"
        if isinstance(fault, RpcError):
            ways = [
                line_of(mapping_of(way).get("name"), 60) for way in list_of(self._hello.get("authMethods"))
            ]
            needs = "authenti" in fault.message.lower() and any(ways)
            sign_in = (
                f"; sign in with the agent itself first ({', '.join(filter(None, ways))})" if needs else ""
            )
            detail = text_of(member(fault.data, "details")) or text_of(fault.data)
            said = f"{fault.message}: {detail}" if detail else fault.message
            return f"it refused: {one_line(mask(said), 300)}{sign_in}{hint}"
        if isinstance(fault, MewError):
            missing = "there is no program" in str(fault) and self.known is not None
            return f"{fault}; {self.known.install} installs it" if missing and self.known else str(fault)
        return ""

    async def _begin_session(self, connection: AgentConnection) -> None:
        id = self.session
        told = await self._go_on(connection, id) if id else None
        if told is None:
            told = await connection.new_session(str(self.cwd), self._offered_servers())
            self.session = told["sessionId"]
        modes = mapping_of(told.get("modes"))
        self.mode = text_of(modes.get("currentModeId"))
        choices = read_modes(modes)
        self._modes = [one.id for one in choices]
        self._take_config(told.get("configOptions"))
        self._offer_tools(choices, read_options_of_session(told.get("configOptions")))
        if self._wanted and self._wanted != self.mode:
            await self._set_mode(self._wanted)

    def _offer_tools(self, modes: Sequence[AgentChoice], options: Sequence[AgentChoice]) -> None:
        """Offers the tools that set the mode and the options, with what the agent says of these."""
        assert self.participant is not None
        asking = self.known.asks if self.known is not None else ()
        modes = modes or next((one.values for one in options if one.is_mode), ())
        schemas = {SET_MODE: mode_schema(modes, asking), SET_CONFIG_OPTION: option_schema(options, asking)}
        functions: Sequence[Callable[..., Any]] = (self.set_mode, self.set_config_option)
        for function in functions:
            schema = masked(schemas[function.__name__])
            known = self.participant.tools.tools.get(function.__name__)
            if known is None or not are_equal(known.described["inputSchema"], schema):
                self.participant.register_tool(function, input_schema=schema)

    def _tell_config(self) -> str | None:
        """The options as they are, for the status: JSON as text, for a metric is one value."""
        told = {
            one_line(id, 40): value if isinstance(value, bool) else line_of(value, 80)
            for id, value in list(self.config.items())[:MAX_OPTIONS_TOLD]
        }
        return mask(json.dumps(told, ensure_ascii=False)) if told else None

    async def _go_on(self, connection: AgentConnection, id: str) -> dict[str, Any] | None:
        """Goes on with a session; None where an agent that was started again has lost it.

        Raises:
            MewError: it can neither load nor resume the one that was asked for.
            RpcError, EOFError: it did not.
        """
        cwd, is_restart = str(self.cwd), self._is_open.is_set()
        try:
            if self._can("resume") and (is_restart or not self._can("load")):
                return await connection.resume_session(id, cwd, self._offered_servers())
            if self._can("load"):
                self._replaying, self.history = True, []
                try:
                    return await connection.load_session(id, cwd, self._offered_servers())
                finally:
                    self._replaying = False
                    self.budget.renew()  # what was taken before is not of this budget
        except RpcError:
            if not is_restart:
                raise
        if not is_restart:
            raise MewError("it can neither load nor resume an earlier session")
        return None

    def _offered_servers(self) -> list[dict[str, Any]]:
        """The MCP servers that it is told of."""
        takes = member(self._hello, "agentCapabilities", "mcpCapabilities", "http") is True
        return [] if self.tools is None else [self.tools.entry(http=takes)]

    async def _set_mode(self, mode: str) -> None:
        if mode in self._modes:
            await self._opened().set_mode(self.session, mode)
            self.mode = mode
        elif mode in self._values_of.get("mode", ()):
            answer = await self._opened().set_config_option(self.session, "mode", mode)
            self._take_config(answer.get("configOptions"))
        else:
            logger.info("%s has no mode %s", self.name, one_line(mode, 40))

    def _take_config(self, options: object) -> None:
        self._values_of: dict[str, tuple[str, ...]] = {}
        self.config = {}
        for option in map(mapping_of, list_of(options)[:100]):
            id = line_of(option.get("id"), 80)
            self.config[id] = option.get("currentValue")
            values = (text_of(mapping_of(one).get("value")) for one in list_of(option.get("options")))
            self._values_of[id] = tuple(values)
        if isinstance(mode := self.config.get("mode"), str):
            self.mode = mode
            if not self._modes:
                self._modes = list(self._values_of["mode"])

    def _report_unread(self, what: str) -> None:
        logger.info("%s: %s", self.name, what)
        self._report().tell(f"{self.name}: {what}")

    async def _watch(self) -> None:
        """Starts an agent that has ended again, up to the limit; then leaves, and reports why."""
        why = ""
        while not why:
            connection = self._connection
            assert connection is not None
            await connection.ended.wait()
            why = await self._start_again(f"{self.name} {await self.process.describe_end()}", connection)
        with contextlib.suppress(TimeoutError):  # the asker is told first
            async with asyncio.timeout(TOLD_WITHIN):
                await self._is_idle.wait()
                if self._tasks:
                    await asyncio.wait(self._tasks)
        await end_and_report(self.stop, f"{why} ({self.command_line})", self._on_end)

    async def _start_again(self, why: str, connection: AgentConnection) -> str:
        """Starts the agent again. Returns a sentence where the limit is reached, else an empty text."""
        reported = why
        while True:
            if self._permissions is not None:
                self._permissions.cancel_all("the agent has ended")
            await connection.close()
            if (remark := self._restarts.note_end()) is not None:
                return why + remark
            self.process = self._new_process()
            await self._restarts.pause()
            before = self.session
            try:
                await self._open()
            except MewError as fault:
                why = str(fault)
                continue
            went_on = (
                "in the same session"
                if self.session == before
                else "in a new session, which knows nothing of before"
            )
            logger.info("%s; it was started again %s", reported, went_on)
            self._tell_status("restarted")
            if self._last_asker is not None and self.session != before:
                self._say(f"{reported}. I was started again {went_on}.", self._last_asker)
            return ""

    def _on_disconnected(self, client: MEWClient, error: MewError | None) -> None:
        if client.state == "disconnected" and not self._stopping:
            why = f"participant {self.name} left the space, so its agent was ended: {error or 'disconnected'}"
            self._stopping = True
            self._tasks.start(end_and_report(self.stop, why, self._on_end))

    def _tell_status(self, status: str) -> None:
        if self.participant is not None:
            self.participant.telemetry.tell(status)

    # --- prompts ---

    def _on_chat(self, envelope: Envelope) -> None:
        participant = self.participant
        assert participant is not None
        if tells_outcome(envelope, participant.proposals, me=participant.client.id):
            return
        text = str(envelope.payload.get("text", ""))
        me = participant.client.id
        if me not in envelope.to and (envelope.to or not mentions(text, (me, self.name))):
            return
        assert self._askers is not None  # it has joined
        if not self._askers.accept(envelope, asked=True, now=asyncio.get_running_loop().time()):
            return
        if len(self._queue) >= MAX_QUEUED:
            self._acknowledge(envelope, "rate_limited")
            return
        if self._turn is not None or self._queue:
            self._acknowledge(envelope, "queued")
        self._queue.append(_Prompt(text, envelope))
        self._wake.set()

    def _acknowledge(self, envelope: Envelope, status: str) -> None:
        assert self.participant is not None
        self.participant.sender.quietly(
            "chat/acknowledge", {"status": status}, to=envelope.sender, about=envelope.id
        )

    def _observe(self, envelope: Envelope) -> None:
        """Ends the turn where its question or its reasoning is cancelled, or its context dropped."""
        participant, turn = self.participant, self._turn
        assert participant is not None
        if envelope.sender == participant.client.id:
            return
        if envelope.kind in ENDING:
            if participant.client.id in envelope.to and not malformed(envelope):
                self._queue.clear()
                self._renews_session = envelope.kind != "participant/shutdown"
                if turn is not None:
                    self._cancel_turn(turn, envelope.kind.removeprefix("participant/"))
            return
        if turn is None or not self._is_cancelled(turn, envelope):
            return
        turn.by_others = True
        if envelope.kind == "reasoning/cancel":
            turn.report.trace.mark_ended()
        self._cancel_turn(turn, f"{envelope.kind} of {one_line(envelope.sender, 64)}")

    def _is_cancelled(self, turn: _Turn, by: Envelope) -> bool:
        """Whether this message cancels, by the ledger of the participant, the turn."""
        assert self.participant is not None
        ledger = self.participant.ledger
        if by.kind == "reasoning/cancel":
            sequence = ledger.reasoning.get(turn.report.trace.id)
            is_ended = sequence is not None and sequence.state == "cancelled"
            return is_ended and by.context == turn.report.trace.id
        chat = turn.prompt.chat
        message = ledger.chats.get(chat.id) if chat is not None else None
        if message is None or chat is None or message.sender != chat.sender:
            return False
        return message.state == "cancelled" and message.id in by.correlation_id

    def _cancel_turn(self, turn: _Turn, why: str) -> None:
        if turn.why:
            return
        turn.why = why
        self._cancelled += 1
        assert self._permissions is not None
        self._permissions.cancel_all(why)
        if (connection := self._connection) is not None:
            self._tasks.start(connection.cancel(self.session))
        process = self.process

        def end() -> None:
            logger.warning("%s did not end a cancelled turn, so it is ended", self.name)
            self._tasks.start(process.stop())

        turn.impatient = asyncio.get_running_loop().call_later(CANCELLED_WITHIN, end)

    async def _work(self) -> None:
        """Works on the prompts, one after the other."""
        participant = self.participant
        assert participant is not None
        while True:
            self._wake.clear()
            if self._queue and self._connection is not None and not self._connection.ended.is_set():
                if not await ready_to_send(participant):
                    return
                if self._renews_session:
                    await self._renew_session()
                if self._queue:
                    await self._take_prompt(self._queue.popleft())
                continue
            await self._wake.wait()

    async def _renew_session(self) -> None:
        self._renews_session = False
        with contextlib.suppress(RpcError, EOFError, MewError):
            self.session, self.history = "", []
            await self._begin_session(self._opened())
            self._tell_status("active")

    async def _take_prompt(self, prompt: _Prompt) -> None:
        participant, chat = self.participant, prompt.chat
        assert participant is not None
        if chat is not None and participant.chats.cancelled(chat.id):
            return
        limit = self.budget.find_limit(in_turn=False)
        if limit and not await self._ask_to_go_on(limit, None, chat):
            return
        if chat is not None:
            self._acknowledge(chat, "processing")
            self._last_asker = chat
        self._end_outside()
        trace = Trace(participant, enabled=True, stream=False)
        trace.start(
            f"Working on: {one_line(mask(prompt.text), SHOWN)}", about=[chat.id] if chat is not None else []
        )
        turn = self._turn = _Turn(prompt, TurnReport(trace))
        self._is_idle.clear()
        self.budget.begin_turn()
        try:
            end = await self._await_turn(turn)
        finally:
            self.budget.end_turn()
            if turn.impatient is not None:
                turn.impatient.cancel()
            self._turn = None
        self._end_turn(turn, end)
        self._is_idle.set()
        if turn.limit:
            await self._ask_to_go_on(turn.limit, prompt, chat)
        self._tell_status("active")

    async def _await_turn(self, turn: _Turn) -> Mapping[str, Any] | str:
        """The answer of the agent to a prompt, or a sentence where there is none."""
        connection = self._connection
        assert connection is not None
        work = asyncio.get_running_loop().create_task(connection.prompt(self.session, turn.prompt.text))
        try:
            while True:
                await asyncio.wait({work}, timeout=self.budget.seconds_left if not turn.why else None)
                if work.done():
                    break
                self._check_budget()
            answer: dict[str, Any] = work.result()
        except RpcError as refusal:
            return f"{self.name} answered with an error: {one_line(mask(refusal.message), 500)}"
        except EOFError:
            return f"{self.name} {await self.process.describe_end()}"
        finally:
            work.cancel()
        used = member(answer, "usage", "totalTokens")
        if isinstance(used, int):
            self.budget.count_tokens(used)
        return answer

    def _check_budget(self) -> None:
        turn = self._turn
        if turn is not None and not turn.why and (limit := self.budget.find_limit(in_turn=True)):
            turn.limit = limit
            self._cancel_turn(turn, f"it has reached its limit of {limit}")

    def _end_turn(self, turn: _Turn, end: Mapping[str, Any] | str) -> None:
        report, trace, chat = turn.report, turn.report.trace, turn.prompt.chat
        words = report.take_words()
        why = end if isinstance(end, str) else line_of(end.get("stopReason"), 40)
        if turn.why or why == "cancelled":
            if self._permissions is not None:
                self._permissions.cancel_all("the turn was cancelled")
            trace.cancel(turn.why or "cancelled by the agent")
            if turn.by_others or turn.limit:
                return
            words = f"Cancelled: {turn.why or 'by the agent'}."
        elif isinstance(end, str):
            trace.cancel(why)
            words = f"{words}\n\n{why}" if words else why
        else:
            trace.conclude("Done." if why == "end_turn" else f"Stopped: {why}.")
            if why != "end_turn":
                words = f"{words}\n\n[stopped: {why}]".strip()
            words = words or "Done, without a word."
        self._say(words, chat)

    def _say(self, text: str, chat: Envelope | None) -> None:
        """Sends the words of the agent, to the asker where there is one."""
        participant = self.participant
        assert participant is not None
        if chat is None:
            participant.sender.quietly("chat", {"text": mask(text)})
        else:
            self._tasks.start(deliver(participant, text, question=chat, on_id=lambda id: None))

    async def _ask_to_go_on(self, limit: str, prompt: _Prompt | None, chat: Envelope | None) -> bool:
        """Asks whether the agent may go on after a limit; goes on with the cancelled prompt, where there is one."""
        assert self._permissions is not None
        options = [
            {"id": "go_on", "name": "Go on", "kind": "allow_once"},
            {"id": "stop", "name": "Stop", "kind": "reject_once"},
        ]
        question = f"{self.name} has reached its limit of {limit}. Go on?"
        decision = await self._permissions.ask({"question": question, "options": options})
        if decision.option != "go_on":
            self._say(f"Stopped: the limit of {limit} is reached.", chat)
            return False
        self.budget.renew()
        if prompt is not None:
            self._queue.appendleft(_Prompt(GO_ON, chat))
            self._wake.set()
        return True

    # --- what the agent sends ---

    def _report(self) -> TurnReport:
        """What shows the work of the agent now: the turn, or what comes outside one."""
        if self._turn is not None:
            return self._turn.report
        if self._outside is None:
            assert self.participant is not None
            trace = Trace(self.participant, enabled=True, stream=False)
            if self.participant.client.state == "ready":
                trace.start("Working outside a turn", about=())
            self._outside = TurnReport(trace)
        if self._outside_due is not None:
            self._outside_due.cancel()
        self._outside_due = asyncio.get_running_loop().call_later(QUIET, self._end_outside)
        return self._outside

    def _end_outside(self) -> None:
        """Tells what came outside a turn, once nothing more comes or the next turn begins."""
        report, self._outside = self._outside, None
        if self._outside_due is not None:
            self._outside_due.cancel()
            self._outside_due = None
        if report is not None:
            words = report.take_words()
            report.trace.conclude("Done outside a turn.")
            if words:
                self._say(words, None)

    def _take_update(self, session: str, update: Mapping[str, Any]) -> None:
        if self.session and session != self.session:
            logger.info("%s sent an update of another session", self.name)
            return
        kind = update.get("sessionUpdate")
        if kind == "usage_update":
            self._take_usage(update)
        elif kind == "current_mode_update":
            self._take_mode(text_of(update.get("currentModeId"), 200))
        elif kind == "config_option_update":
            before = self.mode
            self._take_config(update.get("configOptions"))
            self._tell_change(before)
        elif kind == "available_commands_update":
            names = (
                line_of(mapping_of(one).get("name"), 80) for one in list_of(update.get("availableCommands"))
            )
            self.commands = list(filter(None, names))[:1000]
        elif self._replaying:
            self._keep_history(kind, update)
        elif kind in ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"):
            self._report().take(update)

    def _keep_history(self, kind: object, update: Mapping[str, Any]) -> None:
        """Keeps what an earlier session said; it is neither chat nor reasoning of now."""
        who = {"user_message_chunk": "user", "agent_message_chunk": "agent", "tool_call": "tool"}.get(
            str(kind)
        )
        text = text_of(update.get("title") if who == "tool" else member(update, "content", "text"), 100_000)
        if who is None or not text:
            return
        if self.history and self.history[-1][0] == who != "tool":
            self.history[-1] = (who, (self.history[-1][1] + text)[:100_000])
        elif len(self.history) < MAX_HISTORY:
            self.history.append((who, text))

    def _take_mode(self, mode: str) -> None:
        before, self.mode = self.mode, mode
        self._tell_change(before)

    def _tell_change(self, before: str) -> None:
        """Tells that the agent has changed its mode by itself."""
        is_news = self._is_open.is_set() and not self._replaying
        if self.mode != before and self.participant is not None and is_news:
            now = f"The mode is {line_of(self.mode, 80)} now; it was {line_of(before, 80) or 'unknown'}"
            warning: dict[str, Any] = {"warning": self.warning} if self.warning else {}
            self._report().tell(f"{now}; {self.warning}" if warning else now, **warning)
            self._tell_status("mode")

    def _take_usage(self, update: Mapping[str, Any]) -> None:
        assert self.participant is not None
        used, size = update.get("used"), update.get("size")
        telemetry = self.participant.telemetry
        if isinstance(size, int) and 0 < size < 1 << 53:
            telemetry.max_tokens = size
        if isinstance(used, int) and 0 <= used < 1 << 53:
            telemetry.set_context_usage(tokens=used)
            self.budget.count_tokens(used)
        cost = mapping_of(update.get("cost"))
        if is_number(amount := cost.get("amount")):
            self._cost = f"{amount:g} {line_of(cost.get('currency'), 10)}".strip()
        self._check_budget()

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Answers what the agent asks.

        Raises:
            RpcError: it is none of what this side offers.
        """
        if method == "session/request_permission":
            return await self._ask_permission(params)
        if self._files is not None and method in FILE_METHODS:
            return await self._files.answer(method, params)
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 80)}")

    async def _ask_permission(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        call = params.get("toolCall")
        try:
            options = read_options(params.get("options"))
        except ValueError as fault:
            self._report().tell(f"{self.name} asked for a permission that cannot be shown: {fault}")
            raise RpcError(INVALID_PARAMS, str(fault)) from None
        if not isinstance(call, Mapping) or params.get("sessionId") != self.session:
            raise RpcError(INVALID_PARAMS, "it names no tool call of the session")
        assert self._permissions is not None and self.participant is not None
        turn = self._turn
        if (
            self._replaying
            or self._stopping
            or self.participant.client.state != "ready"
            or (turn and turn.why)
        ):
            return CANCELLED
        report = self._report()
        id = text_of(call.get("toolCallId"), 256)
        arguments = masked(self._show(call, options, report.call_of(id)))
        about = report.note_question(id, call)
        context = report.trace.id or None if not report.trace.ended else None
        span = self.span
        decision = await self._permissions.ask(arguments, context=context, about=about)
        if self.tools is not None and decision.proposal and decision.option is not None and span == self.span:
            now = asyncio.get_running_loop().time()
            self.tools.allowed.note(decision.proposal, arguments, decision.option, span=span, now=now)
        self._follow(decision, arguments, turn)
        if decision.option is None:
            return CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": decision.option}}

    def _refuse_files(self, session: object) -> str:
        """Why the agent may touch no file now; empty where it may."""
        assert self.participant is not None
        if session != self.session or self._replaying:
            return "Refused: it is not for the session that is worked on"
        if self._stopping or (self._turn is not None and self._turn.why):
            return "Refused: the turn was cancelled"
        return (
            "" if self.participant.client.state == "ready" else "Refused: there is no connection to the space"
        )

    async def _ask_of_file(self, arguments: dict[str, Any], effect: Effect) -> PermissionDecision:
        """Asks about a write; the decision may come from the one whose turn it is, or any other that may."""
        assert self._permissions is not None
        trace = self._report().trace
        return await self._permissions.ask(
            masked({**arguments, "mode": line_of(self.mode, 80)}),
            context=trace.id or None if not trace.ended else None,
            effect=effect,
        )

    def _show(
        self, call: Mapping[str, Any], options: Sequence[Mapping[str, str]], told: Mapping[str, Any]
    ) -> dict[str, Any]:
        """All that a permission request shows, as the arguments of its proposal.

        `told_before` is what the agent said of that call before, and does not say in the request.
        """
        shown = {name: value for name, value in call.items() if value is not None and name != "toolCallId"}
        title = text_of(call.get("title")) or text_of(told.get("title"))
        question = title or f"{self.name} asks for a permission without a title"
        before = {name: value for name, value in told.items() if name not in shown and name != "status"}
        return {
            **shown,
            "question": question,
            "options": list(options),
            "mode": line_of(self.mode, 80),
            **({TOLD_BEFORE: before} if before else {}),
        }

    def _follow(self, decision: PermissionDecision, arguments: Mapping[str, Any], turn: _Turn | None) -> None:
        """Tells what became of a question where the agent is sent no option, or a reason is to be passed on."""
        question = one_line(arguments["question"], 200)
        if decision.option is None and not (turn and turn.why):
            how = f"{one_line(decision.by, 64)} rejected it" if decision.rejected else decision.reason
            self._report().tell(f"No option was sent for {question}: {one_line(how, 300)}")
        reason = decision.reason.strip()
        if self._reasons and decision.rejected and reason and reason not in REASON_CODES:
            text = f"{decision.by} rejected “{question}”: {reason[:MAX_REASON]}"
            self._queue.appendleft(_Prompt(text, turn.prompt.chat if turn is not None else self._last_asker))
            self._wake.set()


def _load() -> Any:
    from mew_lab.bridge.acp_connection import AgentConnection

    return AgentConnection
