"""Runs one call of a tool as a session of its own that ends as one result: `Executor.execute`.

How it works: the arguments are checked, and the tool's prompt is filled with them. A session is one `Run` of the
agent's loop over that prompt. It sees no other session, waits for no person, and uses the tools that the settings
allow: `gate` decides which tools the model is shown and which it may call. Every failure is a result marked as an
error, with the reason as its text. The module uses neither MCP servers nor files.

Spec: tools-agent.md "Chat Session Handler", TA-26 to TA-47.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from mew_lab.agent.context_window import ContextWindow, Memory
from mew_lab.agent.model import Message, Model, Reply, ToolCall, ToolSpec
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.run import CUT_NOTE, Run, RunOutcome
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition
from mew_lab.tools_agent.template import fill_prompt

__all__ = ["Execution", "Executor", "UnknownTool"]

ENDS_WITHIN = 5.0  # seconds that a stopped session has to end
CONTEXT, TURNS = "mew-lab/context", "mew-lab/turns"


class UnknownTool(Exception):
    """The agent has no such tool. It is no MewError, because it is sent as a JSON-RPC error."""


@dataclass(frozen=True)
class Execution:
    """One call and its outcome.

    `context` is that of the session and `prompt` the text for the model. `turns` holds each text of the model, `calls`
    each tool that it called with the tool's answer.
    """

    tool: str
    text: str
    is_error: bool = False
    context: str = ""
    prompt: str = ""
    turns: tuple[str, ...] = ()
    calls: tuple[tuple[ToolCall, str], ...] = ()

    @property
    def result(self) -> dict[str, Any]:
        """The MCP CallToolResult; texts before the last stand in `_meta`. Spec: T-9, TA-41, TA-46."""
        meta: dict[str, Any] = {CONTEXT: self.context} if self.context else {}
        if len(self.turns) > 1:
            meta[TURNS] = list(self.turns)
        result = {"content": [{"type": "text", "text": self.text}], "isError": self.is_error}
        return {**result, "_meta": meta} if meta else result


class _RecordingModel:
    """A model for one session, which keeps each reply."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.max_tokens = model.max_tokens
        self.replies: list[Reply] = []
        self._model = model

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        reply = await self._model.reply(messages, tools=tools, schema=schema, on_text=on_text)
        self.replies.append(reply)
        return reply

    async def measure(self) -> None:
        """Lets the model measure the length of its context, where it can."""
        measure = getattr(self._model, "measure", None)
        if measure is not None:
            await measure()
            self.max_tokens = self._model.max_tokens

    async def aclose(self) -> None:
        """Does nothing: the session does not own the model."""


class Executor:
    """Runs the calls of one agent's tools. `sessions` holds the running sessions, by their tasks.

    Args:
        participant: the sessions send through it, and use the tools that it has discovered.
        texts: the texts of the model that form the result: the `last`, or `all` of them in order.
        propose: whether sessions also use tools that the participant may only propose, and so wait for people.
        max_concurrent: sessions at once; further calls wait in the order of their arrival.
        max_waiting: calls that wait; further calls are refused.
        deadline: seconds that one call may take, its waiting included.
    """

    def __init__(
        self,
        agent: AgentDefinition,
        participant: MEWParticipant,
        *,
        model: Model,
        texts: Literal["last", "all"] = "last",
        propose: bool = False,
        max_concurrent: int = 8,
        max_waiting: int = 100,
        deadline: float = 300.0,
    ) -> None:
        self.agent = agent
        self.sessions: dict[asyncio.Task[RunOutcome], Run] = {}
        self._participant = participant
        self._model = model
        self._texts = texts
        self._propose = propose
        self._free = asyncio.Semaphore(max_concurrent)
        self._max_calls = max_concurrent + max_waiting
        self._deadline = deadline

    # --- which tools a session has ---

    def gate(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """The reason why a session may not use `participant/tool`, by its name or with these arguments; else ''.

        With `toolPermission` `always`, every tool needs a person's permission, so no tool is left. With `tool`, a tool
        needs it unless the agent file allows it for its server; for a participant that the file does not name, the
        capabilities decide. With `never` no tool needs it. In each case the participant must be permitted to send
        the request.

        Spec: T-6, TA-31 to TA-33.
        """
        permission = self.agent.settings.tool_permission
        owner, _, tool = name.partition("/")
        server = self.agent.servers.get(owner)
        shown = one_line(name, 120)
        if permission == "always":
            return f"{shown} may not be called: in this agent every tool needs a person's permission"
        if server is not None and not server.in_context(tool):
            return f"{shown} may not be called: only a person adds it to a session"
        if permission == "tool" and server is not None and server.needs_permission(tool):
            return f"{shown} may not be called: it needs a person's permission, and a session has none"
        params = {"name": tool} if arguments is None else {"name": tool, "arguments": dict(arguments)}
        request = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}
        if not self._propose and not self._participant.can_send("mcp/request", request, owner):
            return (
                f"{shown} may not be called: {self._participant.client.id} is not permitted to request that"
            )
        return ""

    # --- calls ---

    async def execute(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, trigger: Envelope | None = None
    ) -> Execution:
        """Runs one call to its end.

        Args:
            trigger: the request of the space; None where the call came from elsewhere.

        Raises:
            UnknownTool: the agent has no such tool.
        """
        tool = self.agent.tool(name)
        if tool is None:
            known = ", ".join(known_tool.name for known_tool in self.agent.tools) or "none"
            raise UnknownTool(f"Unknown tool: {one_line(name, 128)}. Tools here: {known}")
        given = arguments or {}
        if faults := tool.faults_of(given):
            return Execution(name, f"Invalid arguments for {name}: {'; '.join(faults)}", is_error=True)
        if len(self.sessions) >= self._max_calls:
            text = f"{name} was not called: {len(self.sessions)} calls run or wait already; ask again later"
            return Execution(name, text, is_error=True)
        prompt = fill_prompt(tool.prompt, given, tool=tool)
        return await self._run_session(tool, prompt, trigger)

    async def _run_session(self, tool: ToolDefinition, prompt: str, trigger: Envelope | None) -> Execution:
        participant, settings = self._participant, self.agent.settings
        model = _RecordingModel(self._model)
        run = Run(
            prompt,
            participant=participant,
            model=model,
            options=AgentOptions(
                system_prompt=self.agent.system_prompt, max_iterations=settings.max_chat_turns - 1
            ),
            trigger=trigger,
            context_window=ContextWindow(
                participant, Memory(), max_tokens=model.max_tokens, stop_work=self.end
            ),
            gate=self.gate,
        )
        task = asyncio.get_running_loop().create_task(self._run_when_free(run))
        self.sessions[task] = run
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=self._deadline)
            if not task.done():
                run.stop(f"it took longer than {self._deadline:g} s")
        finally:
            if not task.done():
                run.stop("the call was cancelled")
                task.cancel()
                await asyncio.wait({task}, timeout=ENDS_WITHIN)
        outcome = None if run.stopped or task.cancelled() else task.result()
        return self._make_execution(tool, prompt, run, model.replies, outcome)

    async def _run_when_free(self, run: Run) -> RunOutcome:
        async with self._free:
            return await run.work()

    def _forget(self, task: asyncio.Task[RunOutcome]) -> None:
        self.sessions.pop(task, None)
        task.cancelled() or task.exception()

    def _make_execution(
        self,
        tool: ToolDefinition,
        prompt: str,
        run: Run,
        replies: Sequence[Reply],
        outcome: RunOutcome | None,
    ) -> Execution:
        turns = tuple(text for reply in replies if (text := reply.text.strip()))
        calls = tuple(
            (call, observation)
            for thought in run.thoughts
            for call, observation in zip(thought.calls, thought.observations, strict=False)
        )
        if outcome is not None and outcome.how == "answered" and not (replies and replies[-1].cut):
            text, is_error = "\n\n".join(turns) if self._texts == "all" else outcome.text, False
        else:
            cut = any(reply.cut for reply in replies)
            text, is_error = _describe_failure(tool.name, run, outcome, turns, cut=cut), True
        return Execution(
            tool.name,
            mask(text),
            is_error,
            context=run.context or f"call-{uuid4().hex}",
            prompt=prompt,
            turns=tuple(mask(turn) for turn in turns),
            calls=calls,
        )

    # --- ends ---

    def cancel(self, envelope: Envelope) -> None:
        """Ends the session that a `reasoning/cancel` ends in the ledger; its caller gets the reason. Spec: TA-47."""
        sequence = self._participant.ledger.reasoning.get(envelope.context or "")
        if sequence is None or sequence.state != "cancelled":
            return
        for task, run in tuple(self.sessions.items()):
            if run.context == sequence.id:
                run.stop_by(envelope)
                task.cancel(envelope.kind)

    async def end(self, reason: str) -> None:
        """Stops every session; each caller gets the reason."""
        stopped = dict(self.sessions)
        for task, run in stopped.items():
            run.stop(reason)
            task.cancel(reason)
        if stopped:
            await asyncio.wait(stopped, timeout=ENDS_WITHIN)


def _describe_failure(
    name: str, run: Run, outcome: RunOutcome | None, turns: Sequence[str], *, cut: bool
) -> str:
    """The reason of a failed call, and its progress. Spec: T-10, TA-42."""
    if outcome is None:
        reason = run.stopped
    else:
        reason = outcome.text.replace(CUT_NOTE, "")  # a cut is reported once, below
        if outcome.how == "answered":
            return f"{name}: the answer was cut off where the model's greatest length is. It began: {reason}"
        if cut:
            reason += " A reply of the model was cut off where its greatest length is."
    before = [turn for turn in turns if turn not in reason]
    return f"{name}: {reason}" + (f" Said before: {before[-1]}" if before else "")
