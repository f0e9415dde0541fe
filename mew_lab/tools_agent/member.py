"""Lets an agent of tools take part in a space, as a participant whose MCP tools are the agent's.

It answers `initialize`, `tools/list` and `tools/call` that are addressed to it, and never carries out a proposal. A call
that one of its own sessions has caused is refused, so that mutual calls of agents end.

A tool that needs tools of others is listed while somebody offers them.

Spec: tools-agent.md "MCP Server Project", TA-18, TA-29, TA-34, TA-38, TA-39, TA-46 to TA-48, TA-70, TA-71.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mew_lab.agent.model import Model
from mew_lab.errors import ConfigError
from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovery import CHANGED, ToolsChange
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.progress import OnProgress, progress_relay
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.tools import INVALID_PARAMS, MCP_VERSION, METHOD_NOT_FOUND, RpcError, unknown_outcome_error
from mew_lab.settings.environment import state_folder
from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition
from mew_lab.tools_agent.executor import CONTEXT, VERSION, Execution, Executor, UnknownTool

__all__ = ["ToolsAgent"]

logger = logging.getLogger(__name__)

MAX_STEP = 500  # characters of a step
MAX_STEPS = 64  # from a request back to its causes
LAST_ANSWERS = 1.0  # seconds for the answers of the sessions that were ended
ENDING = ("participant/clear", "participant/restart", "participant/shutdown")


class _Steps:
    """Reports the steps of one call as progress, in their order; all are reported when the block ends."""

    def __init__(self, report: OnProgress | None) -> None:
        self._report = report
        self._reports: asyncio.Queue[str | None] = asyncio.Queue()

    def note(self, text: str) -> None:
        """Reports one step."""
        self._reports.put_nowait(text)

    async def __aenter__(self) -> _Steps:
        self._task = asyncio.get_running_loop().create_task(self._send())
        return self

    async def __aexit__(self, *fault: object) -> None:
        self._reports.put_nowait(None)
        await asyncio.wait({self._task}, timeout=LAST_ANSWERS)
        self._task.cancel()

    async def _send(self) -> None:
        steps = 0
        while (text := await self._reports.get()) is not None:
            steps += 1
            if self._report is not None:
                try:
                    await self._report(steps, None, one_line(text, MAX_STEP))
                except (
                    Exception
                ) as fault:  # of a transport; the answer tells the caller what came of the call
                    logger.debug("a step was not reported: %s", fault)


class ToolsAgent:
    """An agent of tools in one space; `async with` joins and leaves.

    `agent` is its definition; it sends through `participant`, and `executor` runs the calls.

    Args:
        model: the model of its sessions; it is not closed here.
        without_supervisors: whether an agent with supervisors is served; they have no effect.
        settings: arguments of its `MEWParticipant`, such as `strict_unknown` and `results`; those of the file win.
        limits: arguments of `Executor`, such as `deadline`.

    Raises:
        ConfigError: the agent is of another mode, has no tools, or has supervisors.
    """

    def __init__(
        self,
        agent: AgentDefinition,
        client: MEWClient,
        *,
        model: Model,
        without_supervisors: bool = False,
        settings: Mapping[str, Any] = MappingProxyType({}),
        **limits: Any,
    ) -> None:
        self._without_supervisors = without_supervisors
        self._check_servable(agent)
        self.agent = agent
        self.changed: Signal[str] = Signal(on_fault=client.report)
        own: dict[str, Any] = {**settings, **agent.settings.on_repeat}
        self.participant = MEWParticipant(client, tools=self, state=state_folder, **own)
        self.participant.ledger.calls.hold_all_requests()  # the causes of a call lead through those of others
        self.executor = Executor(agent, self.participant, model=model, **limits)
        self._listed = self._list_names()
        self.participant.discovery.on_tools_changed(self._on_tools_changed)
        client.on_message(self._observe, kinds=("reasoning/cancel", "mcp/request", *ENDING))

    def __repr__(self) -> str:
        return f"<ToolsAgent {self.agent.name}: {len(self.agent.tools)} tools, {len(self.executor.sessions)} sessions>"

    async def __aenter__(self) -> ToolsAgent:
        await self.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Joins the space and discovers the tools of the others; raises as `MEWParticipant.start`."""
        self.participant.discovery.enable_auto_discovery()
        await self.participant.start()

    async def stop(self) -> None:
        """Ends the sessions, answers their callers and leaves the space. A second call does nothing."""
        await self.executor.end("the agent leaves")
        await self.executor.close()
        await self.participant.stop(settle=LAST_ANSWERS)

    def replace(self, agent: AgentDefinition) -> None:
        """Serves another definition from now on and announces it; running calls keep the old one.

        Raises:
            ConfigError: as when it was made; nothing is changed then.

        Spec: TA-18.
        """
        self._check_servable(agent)
        self.agent = agent
        self.executor.replace(agent)
        self._listed = self._list_names()
        self.changed("tools")

    @property
    def available(self) -> tuple[ToolDefinition, ...]:
        """The tools whose needs somebody offers now: those that are listed. Spec: TA-71."""
        return tuple(tool for tool in self.agent.tools if not self.executor.missing(tool))

    # --- answering ---

    async def answer(
        self, method: str, params: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """The result of an MCP request.

        Args:
            on_progress: awaited with each step of a call; None takes the sender of the request that is answered,
                where it asked for that.

        Raises:
            RpcError: -32601 for another method, -32602 for an unknown tool or arguments that are no object;
                `outcome_unknown` for a call that took longer than its deadline.
        """
        if method == "initialize":
            return self.initialized(params.get("protocolVersion"))
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [self._describe(tool) for tool in self.available]}
        if method == "tools/call":
            report = on_progress or progress_relay(self.participant)
            async with _Steps(report) as steps:
                execution = await self.call(
                    params.get("name"),
                    params.get("arguments"),
                    continues=text_of(member(params, "_meta", CONTEXT)),
                    on_step=steps.note,
                )
            if execution.overdue:  # what its model called may have taken effect (R35)
                raise unknown_outcome_error(execution.text)
            return execution.result
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {one_line(method, 80)}")

    def initialized(self, version: object = None) -> dict[str, Any]:
        """The answer to `initialize`; without a description there are no instructions. Spec: T-1, TA-3, TA-4."""
        answer: dict[str, Any] = {
            "protocolVersion": version if isinstance(version, str) else MCP_VERSION,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": self.agent.server_info,
        }
        return {**answer, "instructions": self.agent.description} if self.agent.description else answer

    async def call(
        self,
        name: object,
        arguments: object = None,
        *,
        continues: str = "",
        on_step: Callable[[str], object] | None = None,
        fresh: bool = False,
    ) -> Execution:
        """Runs one call; None as `arguments` means no arguments.

        Args:
            continues: the context of an earlier call of the same caller, whose conversation goes on.
            on_step: called with a text at each step of the session.
            fresh: whether the call is run, even where its tool keeps results.

        Raises:
            RpcError: -32602 for an unknown tool, or arguments that are no object.
        """
        if not isinstance(arguments, Mapping | None):
            raise RpcError(
                INVALID_PARAMS, f"Invalid arguments for {one_line(str(name), 128)}: they must be an object"
            )
        request = ASKED.get()
        if request is not None and self._is_circular(request):
            who = one_line(request.sender, 80)
            text = f"{one_line(str(name), 128)}: the call of {who} was refused, as a call that waits for it caused it"
            return Execution(str(name), text, is_error=True)
        try:
            return await self.executor.execute(
                str(name), arguments, trigger=request, continues=continues, on_step=on_step, fresh=fresh
            )
        except UnknownTool as fault:
            raise RpcError(INVALID_PARAMS, str(fault)) from None

    def _describe(self, tool: ToolDefinition) -> dict[str, Any]:
        """The entry of a tool in `tools/list`, with its version. Spec: TA-17, TA-70."""
        return {**tool.described, "_meta": {VERSION: self.executor.version_of(tool)}}

    def _list_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.available)

    # --- incoming messages ---

    def _on_tools_changed(self, change: ToolsChange) -> None:
        """Announces the tools where those of another participant have changed the list. Spec: TA-71, TA-73."""
        self.executor.cache.forget(change.participant)
        if (listed := self._list_names()) != self._listed:
            self._listed = listed
            self.changed("tools")

    def _observe(self, envelope: Envelope) -> None:
        if envelope.sender == self.participant.client.id:
            return
        if envelope.kind == "mcp/request":
            if member(envelope.payload, "method") == CHANGED:  # its new list is not known yet
                self.executor.cache.forget(envelope.sender)
        elif envelope.kind == "reasoning/cancel":
            self.executor.cancel(envelope)
        elif (
            envelope.kind in ENDING and self.participant.client.id in envelope.to and not malformed(envelope)
        ):
            for task, run in tuple(self.executor.sessions.items()):
                run.stop(envelope.kind.removeprefix("participant/"))
                task.cancel(envelope.kind)

    def _is_circular(self, request: Envelope) -> bool:
        """Whether a session of this agent is among the causes of the request. Spec: TA-39."""
        ours = {run.context for run in self.executor.sessions.values() if run.context}
        ours |= {run.trigger.id for run in self.executor.sessions.values() if run.trigger is not None}
        ids = list(request.correlation_id)
        for _ in range(MAX_STEPS):
            if not ids:
                return False
            if ours & set(ids):
                return True
            ids = [before for id in ids for before in self._causes_of(id)][:MAX_STEPS]
        return True

    def _causes_of(self, id: str) -> tuple[str, ...]:
        """The ids to which a request, or the start of a sequence, correlates; empty for any other message."""
        ledger = self.participant.ledger
        request, sequence = ledger.calls.requests.get(id), ledger.reasoning.get(id)
        if request is not None:
            return request.envelope.correlation_id
        return sequence.about if sequence is not None else ()

    def _check_servable(self, agent: AgentDefinition) -> None:
        refusals = (
            (
                agent.mode != "tools",
                "metadata.mode",
                f"is {agent.mode}; only an agent of mode tools is served",
            ),
            (not agent.tools, "metadata.tools", "is empty; an agent that is served has a tool at least"),
            (
                agent.supervisors > 0 and not self._without_supervisors,
                "supervisors",
                f"names {agent.supervisors}; no supervisor reviews calls here, so the agent is served only with "
                "without_supervisors=True or --without-supervisors",
            ),
        )
        for refused, key, reason in refusals:
            if refused:
                message = f"{agent.source or agent.name}: {key} {reason}"
                raise ConfigError(message, path=agent.source, key=key)
