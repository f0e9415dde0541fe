"""Works on one request: asks the model, makes the calls that it wants, and asks again, until there is an answer.

How it works, from top to bottom:

1. `Run.work` begins the trace, waits for tools that are being discovered, and lets the model measure its context.
2. Each turn of the loop gets a move from `reason`. A move with calls makes them at once, 32 at a time
   (`execute_tool_call`), and the observations become the history of the next turn.
3. A run ends in one of four ways: an answer, giving up, a failure of the model, or a cancel by a participant. A cancel
   takes effect at the next point where the run waits, and withdraws every open call.

Each run has its own steps, trace and calls, so that concurrent runs share no state. The parts that an agent may replace
are `Hooks`.

Every outcome of a call is an observation as text: a result, the tool's error, a rejection, a missing right, a timeout.
None is raised, because the model decides what follows. The participant discovers tools and chooses between request and
proposal.

Spec: §3.5, SDK "Complete ReAct Flow", "Loop Termination Conditions", "Tool Preparation and Namespacing", "Error Handling
in ReAct Loop".
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, Protocol

from mew_lab.agent import prompts
from mew_lab.agent.contents import Gate, PeerContents, content_request
from mew_lab.agent.context_window import ContextWindow
from mew_lab.agent.model import Message, Model, Reply, ToolCall, ToolSpec, estimate_prompt, estimate_tokens
from mew_lab.agent.models import with_settings
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.quotes import MAX_QUOTES, ToolOutputs
from mew_lab.agent.react import CallTools, FinalAnswer, GiveUp, Move, Observation, Think, Thought, next_move
from mew_lab.agent.reply_text import is_quoted, split_calls
from mew_lab.errors import MewError, ModelFailed, OutcomeUnknown, StillRunning
from mew_lab.protocol.content import for_model, read_parts, size_text
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import abridge
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.delivery import is_paused, ready_to_send
from mew_lab.sdk.group import run_all
from mew_lab.sdk.kept_results import KeptAnswer, holds_more_values, parse_result
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.trace import Trace
from mew_lab.settings.faults import kind_of

__all__ = [
    "CUT_NOTE",
    "ERROR",
    "Asks",
    "CallRecord",
    "Gate",
    "Hooks",
    "Run",
    "RunOutcome",
    "SilenceNotice",
    "call_hook",
    "current_run",
    "list_callable_tools",
]

logger = logging.getLogger(__name__)


Asks = Callable[[str, Mapping[str, Any]], bool]

ERROR = "Error: "
TEXT_CALL_NOTE = (
    "\n(The model wrote a call as text, so it was not made. "
    "The option text_calls=True takes such calls as proposals.)"
)
QUOTED = (
    "a call in the text of a reply may not repeat what a tool or a participant wrote; "
    "say in words what you want to do"
)
# Whether the call in work stood in a text.
_FROM_TEXT: ContextVar[bool] = ContextVar("from_text", default=False)
_CURRENT: ContextVar[Run] = ContextVar("run")
UNKNOWN = "Outcome unknown: "
MAX_TOOLS = 128  # what the usual APIs take
MAX_DESCRIPTION = 2000
MAX_CALLS = 32  # of one step at a time: a participant answers a limited number of requests at once
MAX_LOADED = 16 << 20  # bytes of a result that was too large for a message; a model reads a part of it
MAX_VALUES = 200_000  # in such a result
CONTENTS_WITHIN = 2.0  # seconds to wait for the lists of resources and prompts
CUT_NOTE = "\n(This answer was cut off: it reached the greatest length of the model's reply.)"


class SilenceNotice:
    """Calls `notice(seconds)` while a model is silent: after `first` seconds, then whenever the silence has doubled."""

    def __init__(self, first: float | None, notice: Callable[[float], None]) -> None:
        self._after, self._notice = first, notice
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> SilenceNotice:
        self._started = asyncio.get_running_loop().time()
        self._arm()
        return self

    async def __aexit__(self, *fault: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the notices, because the model has sent something, or the reply is over."""
        self._after = None
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._after is not None:
            self._timer = asyncio.get_running_loop().call_at(self._started + self._after, self._notify)

    def _notify(self) -> None:
        if self._after is not None:
            self._notice(self._after)
            self._after *= 2
            self._arm()


class CallRecord(NamedTuple):
    """One tool call of a run: its answer as the model read it, the id of its message, its time and its whole result.

    `id` is empty and `result` None where nothing was sent or nothing came.
    """

    call: ToolCall
    observation: str
    id: str = ""
    seconds: float = 0.0
    result: Any = None


class RunOutcome(NamedTuple):
    """The end of a run, and the text for the sender of the request."""

    how: Literal["answered", "gave_up", "failed", "stopped"]
    text: str


def current_run() -> Run:
    """The run that works in this task.

    Raises:
        LookupError: none does.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise LookupError("no run of an agent works here; it is given as run=") from None


def call_hook(hook: Callable[..., Any], run: Run) -> Callable[..., Any]:
    """The hook with `run` where it takes that; the specification's own signatures have none."""
    return partial(hook, run=run) if _takes_run(getattr(hook, "__func__", hook)) else hook


@lru_cache
def _takes_run(hook: Callable[..., Any]) -> bool:
    parameters = inspect.signature(hook).parameters
    return "run" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


class Hooks(Protocol):
    """The parts of a run that an agent may replace; see the methods of `MEWAgent`. Spec: SDK "MEWAgent"."""

    def prepare_llm_tools(self) -> Sequence[ToolSpec]: ...

    async def reason(
        self, request: str, previous_thoughts: Sequence[Thought], *, run: Run | None = None
    ) -> Move: ...

    async def act(self, action: str, action_input: Mapping[str, Any], *, run: Run | None = None) -> str: ...


class Run:
    """One request in work. `context` is the id of its `reasoning/start`, `thoughts` its steps so far, and `records`
    its tool calls in the order of their ends.

    Args:
        trigger: the message of the request; None for work without one.
        context_window: counts the tokens of each exchange with the model, and makes prompts fit.
        before: the conversation before the request.
        gate: restricts its tools beyond the participant's rights; None restricts nothing further.
        hooks: prepares its tools, reasons and acts in its place; None leaves this to `Run`.
        contents: the resources and prompts of the others, for the model to read; None offers none.
        asks: whether a call of a tool, by its name and arguments, has to be approved by a person; it is a proposal
            then. None lets the capabilities decide.
        shares_context: whether its calls and their answers carry its `context`.
        on_step: called with a text at each step.
    """

    def __init__(
        self,
        request: str,
        *,
        participant: MEWParticipant,
        model: Model,
        options: AgentOptions,
        trigger: Envelope | None = None,
        context_window: ContextWindow,
        before: Callable[[], Sequence[Message]] = tuple,
        gate: Gate | None = None,
        hooks: Hooks | None = None,
        contents: PeerContents | None = None,
        asks: Asks | None = None,
        shares_context: bool = False,
        on_step: Callable[[str], object] | None = None,
    ) -> None:
        self.request = request
        self.records: list[CallRecord] = []
        self._shares_context = shares_context
        self._on_step = on_step
        self.trigger = trigger
        self.thoughts: list[Thought] = []
        self._outputs = ToolOutputs(request)
        self.trace = Trace(participant, enabled=options.reasoning_enabled, stream=options.reasoning_stream)
        self._participant = participant
        self._model = with_settings(model, options.reply_settings)
        self._options = options
        self._hooks = hooks
        self._contents = contents
        self._asks = asks
        self._tools: Sequence[ToolSpec] = ()  # of the step that is being taken
        self._before = before
        self._gate = gate
        self._context_window = context_window
        self.stopped = ""  # why it was stopped; empty while it was not
        self.final_response = ""  # once there is an answer
        self.excuse = ""  # the answer to the participant that asked, where it was stopped; may be empty
        self._numbers = itertools.count(1)
        self._free = asyncio.Semaphore(MAX_CALLS)

    @property
    def context(self) -> str:
        """The id of its `reasoning/start`; empty before it, and where reasoning is off."""
        return self.trace.id

    # The names of the specification's context of a loop, `ReActContext`.

    @property
    def original_envelope(self) -> Envelope | None:
        """The message of the request; None for work without one."""
        return self.trigger

    @property
    def iteration(self) -> int:
        """The number of steps so far."""
        return len(self.thoughts)

    @property
    def about(self) -> tuple[str, ...]:
        """The ids that its calls correlate to: its reasoning, or without that the message of the request."""
        if self.context:
            return (self.context,)
        return self._trigger_id

    @property
    def _trigger_id(self) -> tuple[str, ...]:
        return (self.trigger.id,) if self.trigger is not None else ()

    def stop(self, reason: str) -> None:
        """Marks it as stopped by its agent and ends the trace with the reason. The agent cancels the task itself."""
        self.excuse = self.stopped = self.stopped or f"Stopped: {reason}."
        self.trace.cancel(reason, about=self._trigger_id)

    def stop_by(self, envelope: Envelope) -> None:
        """Marks it as stopped by another participant: by `reasoning/cancel`, or by `chat/cancel` of the question.

        The sender of the request still waits, so it gets that as the answer, even where it cancelled the reasoning
        itself. Only a cancelled question gets no answer. Spec: §3.4.2, §3.5.5.
        """
        reason = one_line(str(envelope.payload.get("reason") or "no reason given"), 200)
        self.stopped = self.stopped or f"Stopped: {envelope.sender} cancelled it ({reason})."
        if envelope.kind == "reasoning/cancel":
            self.trace.mark_ended()  # that message ends the sequence: nothing more is sent in it
            self.excuse = self.stopped
        else:
            self.trace.cancel("superseded", about=self._trigger_id)
            self.excuse = ""

    async def work(self) -> RunOutcome:
        """Works until there is an outcome. The trace is ended and its stream closed in any case."""
        reason = "cancelled"
        try:
            await self._wait_until_allowed()
            self.trace.start(f"Working on: {one_line(self.request, 300)}", about=self._trigger_id)
            await self._discover()
            await self._measure()
            outcome = await self._loop()
            reason = "complete" if outcome.how != "failed" else "error"
            return outcome
        finally:
            await asyncio.shield(self.trace.close(reason))

    async def _discover(self) -> None:
        """Waits for the lists of what the others offer, at most as long as the option says."""
        within = self._options.discovery_wait
        waits: list[Coroutine[Any, Any, object]] = [
            self._participant.discovery.wait_for_pending_discoveries(within)
        ]
        if self._contents is not None:
            waits.append(self._contents.refresh(min(within, CONTENTS_WITHIN)))
        await run_all(waits)

    async def _loop(self) -> RunOutcome:
        _CURRENT.set(self)
        reason = self.reason if self._hooks is None else call_hook(self._hooks.reason, self)
        try:
            while True:
                move = await reason(self.request, self.thoughts)
                await self._wait_until_allowed()
                most = self._options.max_iterations
                if len(self.thoughts) >= most and not isinstance(move, FinalAnswer | GiveUp):
                    # Else a replaced `reason` might never end.
                    move = GiveUp(f"there was no answer after {most} steps")
                if isinstance(move, FinalAnswer):
                    return await self._finish(move)
                if isinstance(move, GiveUp):
                    return await self._give_up(move)
                await self._step(move)
        except ModelFailed as fault:
            self.trace.cancel("error", about=self._trigger_id)
            logger.warning("%s could not think: %s", self._participant.client.id, fault)
            return RunOutcome("failed", mask(f"I cannot answer now: {fault}"))
        except Exception as fault:  # a fault of this package or of a model; the agent goes on
            self.trace.cancel("error", about=self._trigger_id)
            logger.exception("working on a request failed")
            return RunOutcome("failed", f"I cannot answer now: {type(fault).__name__} inside the agent")

    async def _wait_until_allowed(self) -> None:
        """Waits while the participant is paused or its link is broken; ends a run that was stopped."""
        await ready_to_send(self._participant)
        if self.stopped:
            raise asyncio.CancelledError(self.stopped)

    async def reason(self, request: str, previous_thoughts: Sequence[Thought]) -> Move:
        """Asks the model for one reply, and reads the next move in it.

        Raises:
            ModelFailed: there was no reply.
        """
        options = self._options
        hooks = self._hooks
        self._tools = (
            list_callable_tools(self._participant, gate=self._gate, contents=self._contents)
            if hooks is None
            else hooks.prepare_llm_tools()
        )
        reply = await self._ask_model(request, previous_thoughts)
        await self._wait_until_allowed()
        return next_move(
            previous_thoughts, reply, format=options.reasoning_format, max_iterations=options.max_iterations
        )

    async def _step(self, move: Think | CallTools) -> None:
        if isinstance(move, Think):
            self.trace.thought(move.reasoning or move.observation or "Thinking on.")
            self.thoughts.append(
                Thought(move.reasoning, observations=(move.observation,) if move.observation else ())
            )
            return
        sources = self._list_sources() if any(call.text for call in move.calls) else []
        # The answer of a tool must find its call.
        calls = tuple(
            call if call.id else call._replace(id=f"call_{next(self._numbers)}")
            for call in [
                call._replace(arguments={}, fault=QUOTED)
                if call.text and is_quoted(call.text, sources)
                else call
                for call in move.calls
            ]
        )
        text = move.reasoning or f"Calling {', '.join(one_line(call.name, 120) for call in calls)}."
        self.trace.thought(text, action="tool_call", **self._list_quotes(calls))
        self._report_step(text)
        observations = await run_all(self._observe_when_free(call) for call in calls)
        await self._wait_until_allowed()
        for call, observation in zip(calls, observations, strict=True):
            self._outputs.add(call.name, observation)
        self.thoughts.append(Thought(move.reasoning, calls, tuple(observations)))

    def _list_sources(self) -> list[str]:
        """The texts of tools and participants that the model was shown, for calls that it writes as text."""
        told = [message.content for message in self._before() if message.role != "assistant"]
        tools = [
            f"{tool.name}: {tool.description}\n{json.dumps(tool.parameters, ensure_ascii=False)}"
            for tool in self._tools
        ]
        answers = [answer for thought in self.thoughts for answer in thought.observations]
        return [self.request, *told, *tools, *answers]

    def _report_step(self, text: str) -> None:
        if self._on_step is not None:
            self._on_step(mask(text))

    def _list_quotes(self, calls: Sequence[ToolCall]) -> dict[str, list[str]]:
        """Lists the arguments with text that comes only from a tool, for the approver. Spec: threat 29."""
        quotes = [
            f"{one_line(call.name, 120)}: {line}"
            for call in calls
            for line in self._outputs.list_quotes(call.arguments)
        ][:MAX_QUOTES]
        return {"from_tool_output": quotes} if quotes else {}

    async def _observe_when_free(self, call: ToolCall) -> str:
        async with self._free:
            return await self._observe(call)

    async def _observe(self, call: ToolCall) -> str:
        _FROM_TEXT.set(bool(call.text))  # for the task of this call alone, whatever a hook makes of it
        if self._hooks is None or call.fault:
            return await self.execute_tool_call(call)
        try:
            action_input = {"tool": call.name, "arguments": call.arguments}
            observation: str = await call_hook(self._hooks.act, self)("tool_call", action_input)
            return observation
        except Exception as fault:  # of an overridden method: an observation like any other
            logger.exception("an overridden step of %s failed", self._participant.client.id)
            return f"{ERROR}{one_line(call.name, 120)}: {one_line(mask(str(fault)), 300)}"

    async def execute_tool_call(self, call: ToolCall) -> str:
        """Makes one call, by request or proposal as the participant may, and returns the observation.

        That is its result or its failure, as text of at most about `max_observation` characters. When it is cancelled
        while it waits, it ends the call: a proposal is withdrawn.
        """
        began = asyncio.get_running_loop().time()
        observation, id, result = await self._execute(call)
        taken = asyncio.get_running_loop().time() - began
        self.records.append(CallRecord(call, observation, id, taken, result))
        return observation

    async def _execute(self, call: ToolCall) -> tuple[str, str, Any]:
        """The observation, the id of the message, and its result; empty and None where nothing was sent or came."""
        participant, limit = self._participant, self._options.max_observation
        names = [tool.name for tool in self._tools]
        unfit = call.fault
        if not isinstance(call.arguments, Mapping):  # of a custom model
            unfit = f"its arguments are {kind_of(call.arguments)}, and no object"
        if unfit:
            return f"{ERROR}{one_line(call.name, 120)} was not called: {one_line(unfit, 500)}", "", None
        if call.name not in names:
            some = ", ".join(names[:20]) or "none"
            return f"{ERROR}there is no tool {one_line(call.name, 120)}. Tools here: {some}", "", None
        if self._gate is not None and (refused := self._gate(call.name, call.arguments)):
            return abridge(f"{ERROR}{refused}", limit), "", None
        how: dict[str, Any] = {
            "timeout": self._options.call_timeout,
            "correlation_id": self.about,
            "context": self.context if self._shares_context and self.context else None,
            "propose": _FROM_TEXT.get() or (self._asks is not None and self._asks(call.name, call.arguments)),
        }
        while True:
            open_call: Call | None = None
            result: Any = None
            try:
                reading = content_request(call.name, call.arguments)
                open_call = (
                    participant.call(call.name, call.arguments, progress=True, proposal_progress=True, **how)
                    if reading is None
                    else participant.mcp_request(*reading, **how)
                )
                result, remark = await _load_whole(participant, open_call.id, await open_call)
                raw = result.raw if isinstance(result, ToolResult) else result
                images = getattr(self._model, "images", False) is True
                if reading is None:
                    content = for_model(read_parts(raw), images=images)
                else:
                    parts = read_parts(raw, reading[1]["method"])
                    content = for_model(parts, images=images, empty="(nothing to read)")
                text = abridge(mask(f"{content.text}{remark}"), limit)
                return Observation.of(text, content.pictures), open_call.id, result
            except asyncio.CancelledError:
                if open_call is not None:
                    await asyncio.shield(_withdraw(open_call))
                raise
            except MewError as fault:
                if not is_paused(fault):
                    head = UNKNOWN if isinstance(fault, OutcomeUnknown | StillRunning) else ERROR
                    return abridge(mask(f"{head}{fault}"), limit), open_call.id if open_call else "", None
            except Exception as fault:  # a custom model may return arguments that are no JSON
                why, name = one_line(mask(str(fault)), 300), one_line(call.name, 120)
                if open_call is None:
                    return f"{ERROR}{name} was not called: {why}", "", None
                told = f"{UNKNOWN}{name} was called, and its answer cannot be read: {why}"
                return told, open_call.id, result
            await ready_to_send(participant)  # nothing was done: the call is repeated after the pause

    # --- the model ---

    async def _measure(self) -> None:
        """Lets the model measure the length of its context, unless an option sets it."""
        measure = getattr(self._model, "measure", None)
        if measure is not None and self._options.max_tokens is None:
            await measure()
            self._context_window.set_limit(self._model.max_tokens)

    async def _ask_model(self, request: str, thoughts: Sequence[Thought]) -> Reply:
        tools, schema = self._tools, None
        if self._options.reasoning_format == "scratchpad":
            observed = any(thought.calls for thought in thoughts)
            choice = self._options.tool_choice
            # A choice that forces a call holds until the first observation, else there would never be an answer.
            schema = prompts.step_schema(tools, tool_choice=None if observed and choice != "none" else choice)
        messages = self._messages(request, thoughts)
        over = self._context_window.excess(messages)
        if over:
            remembered = estimate_prompt(self._before())
            if remembered:  # else nothing of the conversation stands in the prompt
                self._context_window.ensure_context_headroom(max(0, remembered - over))
            messages = self._context_window.shorten(self._messages(request, thoughts))
        return await self._reply(messages, tools=tools, schema=schema)

    async def _reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        async with SilenceNotice(self._options.silence_notice, self._announce_silence) as notice:

            def note_piece(piece: str) -> None:
                notice.end()
                self.trace.token(piece)

            began = asyncio.get_running_loop().time()
            reply = await self._model.reply(messages, tools=tools, schema=schema, on_text=note_piece)
            if reply.usage is not None:
                taken = asyncio.get_running_loop().time() - began
                self.trace.measure(**reply.usage._asdict(), seconds=taken)
        return self._count(messages, reply)

    def _announce_silence(self, seconds: float) -> None:
        """Reports that the work goes on, because the space sees only the start of the reasoning."""
        text = f"Waiting for the model: it has sent nothing for {seconds:g} s."
        self._report_step(text)
        if self.trace.id:
            self.trace.thought(text)
        else:
            self._participant.telemetry.tell(f"waiting for the model for {seconds:g} s")

    def _messages(self, request: str, thoughts: Sequence[Thought]) -> list[Message]:
        return prompts.step_messages(
            request,
            thoughts,
            id=self._participant.client.id,
            tools=self._tools,
            prompts=self._options.templates,
            format=self._options.reasoning_format,
            before=self._before(),
        )

    async def _word_answer(self, draft: str) -> str:
        """Words the answer by one more reply of the model, which is shown no tools."""
        messages = self._context_window.shorten(
            prompts.response_messages(
                self.request,
                self.thoughts,
                id=self._participant.client.id,
                prompts=self._options.templates,
                draft=draft,
            )
        )
        reply = await self._reply(messages)
        await self._wait_until_allowed()
        text = reply.text.strip()
        return f"{text}{CUT_NOTE}" if text and reply.cut else text

    def _count(self, messages: Sequence[Message], reply: Reply) -> Reply:
        counted = sum(reply.usage) if reply.usage is not None else 0
        self._context_window.record_usage(counted or estimate_prompt(messages) + estimate_tokens(reply.text))
        return reply

    # --- the ends ---

    async def _finish(self, move: FinalAnswer) -> RunOutcome:
        text = move.text
        if self._options.templates.respond:
            text = await self._word_answer(text) or text
        elif move.cut:
            text += CUT_NOTE
        elif self._options.reasoning_format == "native" and split_calls(text)[1]:
            text += TEXT_CALL_NOTE
        steps = sum(len(thought.calls) for thought in self.thoughts)
        used = f"after {steps} tool call{'s' if steps != 1 else ''}" if steps else "without a tool"
        self.trace.conclude(move.reasoning or f"Ready to respond, {used}.")
        self.final_response = text
        return RunOutcome("answered", text)

    async def _give_up(self, move: GiveUp) -> RunOutcome:
        text = f"I stopped without an answer: {move.reason}."
        if any(thought.calls for thought in self.thoughts):
            worded = await self._word_answer(f"({text} Say what is known and what is not.)")
            text = f"{text} {worded}" if worded else text
        self.trace.conclude(f"Stopped: {move.reason}.")
        return RunOutcome("gave_up", text)


# --- tools ---


def list_callable_tools(
    participant: MEWParticipant,
    *,
    gate: Gate | None = None,
    contents: PeerContents | None = None,
    tools: Sequence[Any] | None = None,
) -> list[ToolSpec]:
    """Lists the tools that a model is shown: tools of others that may be called or proposed, and pass the gate.

    Args:
        contents: adds the tools that read the resources and prompts of others; None adds none.
        tools: the tools of others, as discovery gives them; None takes all of these.

    Spec: SDK "Tool Preparation and Namespacing".
    """
    specs = []
    for tool in participant.discovery.get_available_tools() if tools is None else tools:
        payload = {"method": "tools/call", "params": {"name": tool.name}}
        if (
            not tool.is_for_models
            or tool.participant == participant.client.id
            or not any(
                participant.can_send(kind, payload, tool.participant)
                for kind in ("mcp/request", "mcp/proposal")
            )
        ):
            continue
        if gate is not None and gate(f"{tool.participant}/{tool.name}", None):
            continue
        description = abridge(tool.description.strip(), MAX_DESCRIPTION)
        text = (
            f"{description} (tool of {tool.participant})" if description else f"A tool of {tool.participant}"
        )
        specs.append(ToolSpec(f"{tool.participant}/{tool.name}", text, tool.input_schema))
    own = contents.list_tools(gate) if contents is not None else []
    return own + sorted(specs, key=lambda spec: spec.name)[: MAX_TOOLS - len(own)]


async def _load_whole(participant: MEWParticipant, id: str, result: Any) -> tuple[Any, str]:
    """The whole of a result that was too large for a message, with a remark on where it is kept.

    The remark says why where it cannot be loaded, or is too large for a model; the result is its head then.

    Args:
        id: that of the request or the proposal.
    """
    kept = KeptAnswer.find(participant.ledger.calls, id)
    if kept is None:
        return result, ""
    head = kept.head
    if head.size > MAX_LOADED:
        return result, f"\n[not loaded, for it has more than {MAX_LOADED} bytes; a person can load it]"
    try:
        data = await participant.results.load_data(head, by=kept.by)
        if await asyncio.to_thread(holds_more_values, data, MAX_VALUES):
            return result, f"\n[not loaded, for it holds more than {MAX_VALUES} values; a person can load it]"
        whole = await in_slices(parse_result(data))
    except MewError as fault:
        return result, f"\n[{one_line(str(fault), 300)}]"
    remark = (
        f"the whole result, {size_text(head.size)}, is kept as {head.uri} until {one_line(head.expires, 40)}"
    )
    return ToolResult(whole) if isinstance(result, ToolResult) else whole, f"\n[{remark}]"


async def _withdraw(call: Call) -> None:
    try:
        await call.withdraw("cancelled")
    except MewError:  # it ended meanwhile, or the connection did
        pass
