"""Runs one call of a tool as a session of its own that ends as one result: `Executor.execute`.

How it works: the arguments are checked, and the tool's prompt is filled with them. A session is one `Run` of the
agent's loop over that prompt. It sees no other session, waits for no person, and uses the tools that the settings
allow: `gate` decides which tools the model is shown and which it may call. Every failure is a result marked as an
error, with the reason as its text. A tool with an `output` has results as data; an answer of the model that does not
fit is asked for once more. The module uses neither MCP servers nor files.

A tool with `cache` may answer an equal call of the same caller with the result of before, for so many seconds. Such a
result is kept where the tool needs, and its session called, nothing but tools that are listed as read-only, each by the
agent's own right and without a failure. A hit runs no session, proposes nothing and says that it is one: it is no sign
that anything was called. The caller counts because the model is told who calls.

Spec: tools-agent.md "Chat Session Handler", TA-26 to TA-47, TA-73, TA-75.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from mew_lab.agent.contents import PeerContents, content_request
from mew_lab.agent.context_window import ContextWindow, Memory
from mew_lab.agent.model import Message, Model, Reply, ReplySettings, ToolSpec, Usage
from mew_lab.agent.models import with_settings
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.react import FILTERED
from mew_lab.agent.run import CUT_NOTE, CallRecord, Run, RunOutcome
from mew_lab.errors import ProtocolError
from mew_lab.ledger.unknown_calls import only_reads
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member
from mew_lab.protocol.envelope import Envelope, canonical, digest
from mew_lab.protocol.text import abridge, local_time, timestamp
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.results import ToolResult
from mew_lab.tools_agent.definition import AgentDefinition, ToolDefinition
from mew_lab.tools_agent.result_cache import ResultCache
from mew_lab.tools_agent.template import fill_prompt

__all__ = ["CACHED", "CONTEXT", "VERSION", "Execution", "Executor", "UnknownTool"]

ENDS_WITHIN = 5.0  # seconds that a stopped session has to end
CONTEXT, TURNS, VERSION, CACHED = "mew-lab/context", "mew-lab/turns", "mew-lab/tool", "mew-lab/cached"
MAX_HISTORY = 200  # calls that are remembered
MAX_CONTEXTS = 100  # sessions that can be continued
MAX_EXCHANGES = 10  # of one session, for the next call
MAX_UNFIT = 2000  # characters of an answer that did not fit
CONTINUES_WITHIN = 600.0  # seconds after its end in which a session can be continued


class UnknownTool(Exception):
    """The agent has no such tool. It is no MewError, because it is sent as a JSON-RPC error."""


@dataclass(frozen=True)
class Execution:
    """One call and its outcome.

    `context` is that of the session and `prompt` the text for the model. `turns` holds each text of the model, `calls`
    each tool that it called, with the answer as the model read it and as it came. `model` is the model's name,
    `seconds` the time of the session and `usage` the tokens that the model counted, None where it counted none.
    `version` holds the version of the agent and the hash of the tool. `caller` sent the `request` with this id; both
    are empty for a call from elsewhere.
    `structured` is the result as data, whose JSON is the text; None where the tool has no schema of results. `overdue`
    tells that it was stopped because it took longer than its deadline. `cached_at` is when the result was made, in
    seconds of the epoch, where it was given again without a session; None for a call that was run.

    Spec: TA-45, TA-64, TA-73.
    """

    tool: str
    text: str
    is_error: bool = False
    context: str = ""
    prompt: str = ""
    turns: tuple[str, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    model: str = ""
    seconds: float = 0.0
    usage: Usage | None = None
    version: Mapping[str, str] = field(default_factory=dict)
    caller: str = ""
    request: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    structured: Mapping[str, Any] | None = None
    overdue: bool = False
    cached_at: float | None = None

    @property
    def from_cache(self) -> str:
        """`from the cache, 12:03` for a result that was given again; empty for a call that was run."""
        return "" if self.cached_at is None else f"from the cache, {local_time(self.cached_at)[:5]}"

    @property
    def result(self) -> dict[str, Any]:
        """The MCP CallToolResult; texts before the last stand in `_meta`. Spec: T-9, TA-41, TA-46."""
        meta: dict[str, Any] = {CONTEXT: self.context} if self.context else {}
        if self.version:
            meta[VERSION] = dict(self.version)
        if len(self.turns) > 1:
            meta[TURNS] = list(self.turns)
        texts = [self.text]
        if self.cached_at is not None:
            texts.append(f"({self.from_cache})")
            meta[CACHED] = {"at": timestamp(datetime.fromtimestamp(self.cached_at, UTC))}
        content = [{"type": "text", "text": text} for text in texts]
        result: dict[str, Any] = {"content": content, "isError": self.is_error}
        if self.structured is not None:
            result["structuredContent"] = dict(self.structured)
        return {**result, "_meta": meta} if meta else result

    @property
    def results(self) -> list[Any]:
        """The results of the tools that the model called, each as it came; None where none came. Spec: TA-45."""
        return [
            record.result.raw if isinstance(record.result, ToolResult) else record.result
            for record in self.calls
        ]


class _CachedCall(NamedTuple):
    """A result that may be given again, and the calls of its session: each tool with its arguments."""

    execution: Execution
    calls: tuple[tuple[str, Mapping[str, Any]], ...]


class _Conversation(NamedTuple):
    """What was said in the sessions of one context: pairs of a prompt and its answer."""

    caller: str
    exchanges: tuple[tuple[str, str], ...]
    ends_at: float

    def messages(self) -> list[Message]:
        return [
            message
            for prompt, answer in self.exchanges
            for message in (Message("user", prompt), Message("assistant", answer))
        ]


class _SessionCall(NamedTuple):
    """A call that is run: its tool, the prompt, its request, the conversation before it, the receiver of its steps."""

    tool: ToolDefinition
    prompt: str
    trigger: Envelope | None
    before: _Conversation | None
    on_step: Callable[[str], object] | None


class _SessionModel:
    """The model of one session: it keeps each reply, and gives no more than `max_replies`.

    An answer that does not fit the schema of the tool's results is asked for once more, with its faults.

    Spec: TA-40, TA-44, TA-75.
    """

    def __init__(self, model: Model, *, max_replies: int, tool: ToolDefinition) -> None:
        self.name = model.name
        self.max_tokens = model.max_tokens
        self.replies: list[Reply] = []
        self._model = model
        self._max_replies = max_replies
        self._tool = tool
        self._corrected = False

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        if len(self.replies) >= self._max_replies:  # the loop asks once more for the words of its end
            return Reply()
        reply = await self._model.reply(messages, tools=tools, schema=schema, on_text=on_text)
        self.replies.append(reply)
        if faults := self._faults_to_correct(reply):
            self._corrected = True
            request = (
                f"That does not fit: {'; '.join(faults)}. Answer again with the whole JSON object alone."
            )
            messages = [*messages, Message("assistant", reply.text), Message("user", request)]
            return await self.reply(messages, tools=tools, schema=schema, on_text=on_text)
        return reply

    def _faults_to_correct(self, reply: Reply) -> list[str]:
        """The faults of an answer for which the model is asked once more; empty where it is not asked."""
        is_answer = bool(reply.text.strip()) and not reply.tool_calls and not reply.cut
        if self._tool.output is None or self._corrected or not is_answer:
            return []
        return self._tool.read_result(reply.text)[1] if len(self.replies) < self._max_replies else []

    @property
    def usage(self) -> Usage | None:
        """The tokens that the model counted so far; None where it counted none."""
        counted = [reply.usage for reply in self.replies if reply.usage is not None]
        return Usage(*map(sum, zip(*counted, strict=True))) if counted else None

    async def measure(self) -> None:
        """Lets the model measure the length of its context, where it can."""
        measure = getattr(self._model, "measure", None)
        if measure is not None:
            await measure()
            self.max_tokens = self._model.max_tokens

    async def aclose(self) -> None:
        """Does nothing: the session does not own the model."""


class Executor:
    """Runs the calls of one agent's tools.

    `sessions` holds the running sessions, by their tasks, and `history` the last 200 calls, the oldest first.

    Args:
        participant: the sessions send through it, and use the tools that it has discovered.
        texts: the texts of the model that form the result: the `last`, or `all` of them in order.
        propose: whether sessions also use tools that the participant may only propose, and so wait for people.
        interactive: whether sessions also use tools that need a person's permission by the agent file: each such call
            is a proposal. It includes `propose`.
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
        interactive: bool = False,
        max_concurrent: int = 8,
        max_waiting: int = 100,
        deadline: float = 300.0,
    ) -> None:
        self.agent = agent
        self.sessions: dict[asyncio.Task[RunOutcome], Run] = {}
        self.contents = PeerContents(participant)
        self.history: deque[Execution] = deque(maxlen=MAX_HISTORY)
        self.cache: ResultCache[_CachedCall] = ResultCache()
        self._conversations: BoundedDict[str, _Conversation] = BoundedDict(MAX_CONTEXTS)
        self._participant = participant
        self._model = model
        self._texts = texts
        self._propose = propose or interactive
        self._interactive = interactive
        self._free = asyncio.Semaphore(max_concurrent)
        self._max_calls = max_concurrent + max_waiting
        self._deadline = deadline

    # --- which tools a session has ---

    def gate(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """The reason why a session may not use `participant/tool`, by its name or with these arguments; else ''.

        With `toolPermission` `always`, every tool needs a person's permission, so no tool is left unless a person is
        asked (`interactive`). With `tool`, a tool
        needs it unless the agent file allows it for its server; for a participant that the file does not name, the
        capabilities decide. With `never` no tool needs it. In each case the participant must be permitted to send
        the request.

        For `read_resource` and `get_prompt` the defaults of the server count, and the capabilities for that request.

        Spec: T-6, TA-31 to TA-33.
        """
        given = arguments or {}
        owner, tool, request = _request_of(name, given)
        server = self.agent.servers.get(owner)
        shown = one_line(name, 120)
        if server is not None and not server.in_context(tool):
            return f"{shown} may not be called: only a person adds it to a session"
        if not self._interactive and self.needs_approval(name, given):
            if self.agent.settings.tool_permission == "always":
                return f"{shown} may not be called: in this agent every tool needs a person's permission"
            return f"{shown} may not be called: it needs a person's permission, and a session has none"
        if not self._propose and not self._participant.can_send("mcp/request", request, owner):
            return (
                f"{shown} may not be called: {self._participant.client.id} is not permitted to request that"
            )
        return ""

    def needs_approval(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the agent file demands a person's permission for each call of a tool. Spec: T-6, TA-65."""
        permission = self.agent.settings.tool_permission
        owner, tool, _ = _request_of(name, arguments)
        server = self.agent.servers.get(owner)
        return permission == "always" or (
            permission == "tool" and server is not None and server.needs_permission(tool)
        )

    def missing(self, tool: ToolDefinition) -> list[str]:
        """The tools that it needs and that no participant offers now. Spec: TA-71."""
        if not tool.needs:
            return []
        offered = {
            f"{other.participant}/{other.name}" for other in self._participant.discovery.get_available_tools()
        }
        return [one_line(need, 120) for need in tool.needs if need not in offered]

    def version_of(self, tool: ToolDefinition) -> dict[str, str]:
        """The version of the agent, and the hash of a tool. Spec: TA-70."""
        return {"version": self.agent.version, "hash": tool.digest}

    # --- calls ---

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        trigger: Envelope | None = None,
        continues: str = "",
        on_step: Callable[[str], object] | None = None,
        fresh: bool = False,
    ) -> Execution:
        """Runs one call to its end, or gives the result of an equal one again where the tool's `cache` allows it.

        Args:
            trigger: the request of the space; None where the call came from elsewhere.
            continues: the context of an earlier call of the same caller, whose conversation goes on; empty for none.
            on_step: called with a text at each step of the session.
            fresh: whether the call is run in any case.

        Raises:
            UnknownTool: the agent has no such tool.
        """
        tool = self.agent.tool(name)
        if tool is None:
            known = ", ".join(known_tool.name for known_tool in self.agent.tools) or "none"
            raise UnknownTool(f"Unknown tool: {one_line(name, 128)}. Tools here: {known}")
        given, caller = arguments or {}, trigger.sender if trigger is not None else ""
        before = self._conversation(continues, caller) if continues else None
        if refusal := self._refuse(tool, given, trigger):
            done = Execution(name, refusal, is_error=True)
        elif continues and before is None:
            text = f"{name} was not called: there is no session {one_line(continues, 80)} that this caller can continue"
            done = Execution(name, text, is_error=True)
        else:
            key = "" if continues else _cache_key(tool, caller, given)
            kept = None if fresh or not key else self._find_result(tool, key)
            if kept is not None:
                done = kept
                if on_step is not None:
                    on_step(done.from_cache)
            else:
                prompt, changes = fill_prompt(tool.prompt, given, tool=tool), self.cache.changes
                done = await self._run_session(_SessionCall(tool, prompt, trigger, before, on_step))
                self._keep_conversation(done, caller, before)
                if key and changes == self.cache.changes:
                    self._keep_result(tool, key, done)
        request = trigger.id if trigger is not None else ""
        self.history.append(replace(done, caller=caller, request=request, arguments=dict(given)))
        return self.history[-1]

    def _conversation(self, context: str, caller: str) -> _Conversation | None:
        """The conversation of a context, for the participant that called there; None for any other. Spec: TA-68."""
        known = self._conversations.get(context)
        expired = known is not None and asyncio.get_running_loop().time() >= known.ends_at
        return None if known is None or known.caller != caller or expired else known

    def _keep_conversation(self, done: Execution, caller: str, before: _Conversation | None) -> None:
        if not done.is_error:
            exchanges = ((*before.exchanges,) if before else ()) + ((done.prompt, done.text),)
            ends_at = asyncio.get_running_loop().time() + CONTINUES_WITHIN
            self._conversations[done.context] = _Conversation(caller, exchanges[-MAX_EXCHANGES:], ends_at)

    # --- results that are given again ---

    def replace(self, agent: AgentDefinition) -> None:
        """Runs the calls of another definition from now on."""
        self.agent = agent
        self.cache.clear()

    def _find_result(self, tool: ToolDefinition, key: str) -> Execution | None:
        kept = self.cache.find(key)
        if kept is None or not self._only_reads(tool, kept.value.calls):
            return None
        return replace(kept.value.execution, cached_at=kept.at)

    def _keep_result(self, tool: ToolDefinition, key: str, done: Execution) -> None:
        """Keeps the result of a call that only read, and in which nothing failed or is unknown. Spec: TA-73."""
        calls = tuple((record.call.name, dict(record.call.arguments)) for record in done.calls)
        answered = all(
            isinstance(each.result, ToolResult) and member(each.result.raw, "isError") is not True
            for each in done.calls
        )
        if done.is_error or done.overdue or not answered or not self._only_reads(tool, calls):
            return
        # What is given again is the result alone: no session that could be continued, and no calls.
        plain = replace(done, context="", prompt="", turns=(), calls=(), usage=None, seconds=0.0)
        self.cache.keep(
            key,
            _CachedCall(plain, calls),
            seconds=tool.cache or 0.0,
            participants={name.partition("/")[0] for name in (*tool.needs, *(name for name, _ in calls))},
            size=len(done.text) + len(canonical([done.structured, calls])),
        )

    def _only_reads(self, tool: ToolDefinition, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
        """Whether all that a tool needs and has called is listed as read-only, and called without a person now."""
        listed = {
            f"{other.participant}/{other.name}": other.annotations
            for other in self._participant.discovery.get_available_tools()
        }
        return all(
            only_reads(listed.get(name, {})) for name in (*tool.needs, *(name for name, _ in calls))
        ) and all(self._is_own_right(name, arguments) for name, arguments in calls)

    def _is_own_right(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a session calls a tool by the agent's own right, without a person's permission."""
        owner, _, request = _request_of(name, arguments)
        permitted = self._participant.can_send("mcp/request", request, owner)
        return permitted and not self.needs_approval(name, arguments) and not self.gate(name, arguments)

    def _refuse(self, tool: ToolDefinition, arguments: Mapping[str, Any], trigger: Envelope | None) -> str:
        """The reason why a call is not run; empty where it is. Spec: TA-28, TA-37, TA-50, TA-72."""
        if trigger is not None and (reason := tool.refuse_caller(trigger)):
            return f"{tool.name} was not called: {reason}"
        if missing := self.missing(tool):
            return f"{tool.name} was not called: it needs {', '.join(missing)}, which nobody offers now"
        if faults := tool.faults_of(arguments):
            return f"Invalid arguments for {tool.name}: {'; '.join(faults)}"
        if len(self.sessions) >= self._max_calls:
            return (
                f"{tool.name} was not called: {len(self.sessions)} calls run or wait already; ask again later"
            )
        return ""

    async def _run_session(self, call: _SessionCall) -> Execution:
        loop, tool = asyncio.get_running_loop(), call.tool
        began = loop.time()
        most = self._max_turns(tool)
        own = ReplySettings(tool.settings.temperature, tool.settings.max_output_tokens)
        model = _SessionModel(with_settings(self._model, own), max_replies=most, tool=tool)
        run = self._make_run(call, model)
        task = loop.create_task(self._run_when_free(run))
        self.sessions[task] = run
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=self._deadline)
            overdue = not task.done()
            if overdue:
                run.stop(f"it took longer than {self._deadline:g} s")
        finally:
            if not task.done():
                run.stop("the call was cancelled")
                task.cancel()
                await asyncio.wait({task}, timeout=ENDS_WITHIN)
        outcome = None if run.stopped or task.cancelled() else task.result()
        execution = self._make_execution(tool, run, model, outcome, seconds=loop.time() - began)
        return replace(execution, overdue=overdue)

    def _max_turns(self, tool: ToolDefinition) -> int:
        return tool.settings.max_chat_turns or self.agent.settings.max_chat_turns

    def _make_run(self, call: _SessionCall, model: _SessionModel) -> Run:
        tool, prompt, trigger, before, on_step = call
        caller = f"This call came from the participant {trigger.sender}." if trigger is not None else ""
        form = ""
        if tool.output is not None:
            schema = json.dumps(tool.described["outputSchema"], ensure_ascii=False)
            form = f"Your answer is one JSON object alone, which fits this JSON Schema: {schema}"
        opening = "\n\n".join(text for text in (self.agent.system_prompt, caller, form) if text)
        return Run(
            prompt,
            participant=self._participant,
            model=model,
            options=AgentOptions(
                system_prompt=opening,
                max_iterations=self._max_turns(tool) - 1,
            ),
            trigger=trigger,
            context_window=ContextWindow(
                self._participant, Memory(), max_tokens=model.max_tokens, stop_work=self.end
            ),
            before=before.messages if before is not None else tuple,
            gate=self.gate,
            contents=self.contents,
            asks=self.needs_approval if self._interactive else None,
            shares_context=True,
            on_step=on_step,
        )

    async def _run_when_free(self, run: Run) -> RunOutcome:
        async with self._free:
            return await run.work()

    def _forget(self, task: asyncio.Task[RunOutcome]) -> None:
        self.sessions.pop(task, None)
        task.cancelled() or task.exception()

    def _make_execution(
        self,
        tool: ToolDefinition,
        run: Run,
        model: _SessionModel,
        outcome: RunOutcome | None,
        *,
        seconds: float,
    ) -> Execution:
        replies = model.replies
        turns = tuple(text for reply in replies if (text := reply.text.strip()))
        structured: dict[str, Any] | None = None
        broken = bool(replies) and (replies[-1].cut or replies[-1].filtered)
        if outcome is not None and outcome.how == "answered" and not broken:
            text, is_error = "\n\n".join(turns) if self._texts == "all" else outcome.text, False
            if tool.output is not None:
                text, structured = _read_answer(tool, mask(outcome.text))
                is_error = structured is None
        else:
            cut = any(reply.cut for reply in replies)
            text, is_error = self._describe_failure(tool, run, outcome, turns, cut=cut), True
        return Execution(
            tool.name,
            mask(text),
            is_error,
            context=run.context or f"call-{uuid4().hex}",
            prompt=run.request,
            turns=tuple(mask(turn) for turn in turns),
            calls=_list_calls(run),
            model=model.name,
            seconds=seconds,
            usage=model.usage,
            version=self.version_of(tool),
            structured=structured,
        )

    def _describe_failure(
        self,
        tool: ToolDefinition,
        run: Run,
        outcome: RunOutcome | None,
        turns: Sequence[str],
        *,
        cut: bool,
    ) -> str:
        """The reason of a failed call, and its progress. Spec: T-10, TA-42, TA-44."""
        most = self._max_turns(tool)
        if outcome is None:
            reason = run.stopped
        elif outcome.how == "gave_up" and len(run.thoughts) >= most - 1:
            reason = f"I stopped without an answer: there was none in {most} turns, the maxChatTurns of this agent."
        else:
            reason = outcome.text.replace(CUT_NOTE, "")  # a cut is reported once, below
            if outcome.how == "answered" and FILTERED in reason:
                return f"{tool.name}: {reason}"
            if outcome.how == "answered":
                return f"{tool.name}: the answer was cut off where the model's greatest length is. It began: {reason}"
        if cut:
            reason += " A reply of the model was cut off where its greatest length is."
        before = [turn for turn in turns if turn not in reason]
        return f"{tool.name}: {reason}" + (f" Said before: {before[-1]}" if before else "")

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

    async def close(self) -> None:
        """Ends the requests for lists of resources and prompts; after `end`, when the agent leaves."""
        await self.contents.close()


def _cache_key(tool: ToolDefinition, caller: str, arguments: Mapping[str, Any]) -> str:
    """The key of the result of a call; empty where its tool keeps none."""
    if not tool.cache:
        return ""
    try:
        return digest([tool.name, tool.digest, caller, arguments])
    except ProtocolError:
        return ""


def _request_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The participant of a call, its tool (empty for a resource or a prompt), and the request for it."""
    rpc = {"jsonrpc": "2.0", "id": 0}
    if (reading := content_request(name, arguments)) is not None:
        return reading[0], "", {**rpc, **reading[1]}
    owner, _, tool = name.partition("/")
    params = {"name": tool, **({"arguments": dict(arguments)} if arguments else {})}
    return owner, tool, {**rpc, "method": "tools/call", "params": params}


def _read_answer(tool: ToolDefinition, text: str) -> tuple[str, dict[str, Any] | None]:
    """The text of a result and its data; a reason and None where the answer does not fit. Spec: TA-75."""
    value, faults = tool.read_result(text)
    if not faults:
        return json.dumps(value, ensure_ascii=False), value
    reason = f"{tool.name}: the answer does not fit its outputSchema: {'; '.join(faults)}"
    return f"{reason}. It was: {abridge(text, MAX_UNFIT)}", None


def _list_calls(run: Run) -> tuple[CallRecord, ...]:
    """The tool calls of a run in the order in which the model asked for them."""
    known = {id(record.call): record for record in run.records}
    return tuple(
        known.get(id(call), CallRecord(call, observation))
        for thought in run.thoughts
        for call, observation in zip(thought.calls, thought.observations, strict=False)
    )
