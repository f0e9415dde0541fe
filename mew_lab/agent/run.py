"""How is one request worked on?  The loop around `next_move`: ask the model, make the calls, until there is an answer.

Each run has its own steps, its own trace and its own calls, so that several at once do not meet. It ends in one
of four ways: an answer, giving up, a model that failed, or somebody's cancelling, which takes effect at the next
point where it waits, and takes back every call that is open.

Spec: §3.5, SDK "Complete ReAct Flow", "Loop Termination Conditions".
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from mew_lab.agent import prompts
from mew_lab.agent.calling import Gate, executed, offered
from mew_lab.agent.delivery import ready_to_send
from mew_lab.agent.headroom import Headroom
from mew_lab.agent.memory import estimate
from mew_lab.agent.model import Message, Model, Reply, ToolCall, ToolSpec
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.quotes import MAX_QUOTES, Outputs
from mew_lab.agent.react import Answer, CallTools, GiveUp, Think, Thought, next_move
from mew_lab.agent.trace import Trace
from mew_lab.errors import ModelFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Outcome", "Run"]

logger = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """How a run ended, and the words for whoever asked."""

    how: Literal["answered", "gave_up", "failed", "stopped"]
    text: str


class Run:
    """One request in work. `context` is the id of its `reasoning/start`, `thoughts` its steps so far.

    Args:
        trigger: the message that asks; None for work that nobody asked for in the space.
        headroom: counts what the model takes, and makes it fit.
        before: the conversation before the request.
        gate: which tools it may use, beside what the participant may send; None leaves it at that.
    """

    def __init__(
        self,
        request: str,
        *,
        participant: MEWParticipant,
        model: Model,
        options: AgentOptions,
        trigger: Envelope | None = None,
        headroom: Headroom,
        before: Callable[[], Sequence[Message]] = tuple,
        gate: Gate | None = None,
    ) -> None:
        self.request = request
        self.trigger = trigger
        self.thoughts: list[Thought] = []
        self._outputs = Outputs(request)
        self.trace = Trace(participant, enabled=options.reasoning_enabled, stream=options.reasoning_stream)
        self._participant = participant
        self._model = model
        self._options = options
        self._before = before
        self._gate = gate
        self._headroom = headroom
        self.stopped = ""  # why it was stopped, where somebody did
        self.excuse = ""  # what whoever asked is told then; nothing where they did it
        self._numbers = itertools.count(1)

    @property
    def context(self) -> str:
        """The id of its `reasoning/start`; empty before it, and where reasoning is off."""
        return self.trace.id

    @property
    def about(self) -> tuple[str, ...]:
        """What its calls correlate to: its reasoning, which names the message that asked; else that message."""
        if self.context:
            return (self.context,)
        return self._trigger_id

    @property
    def _trigger_id(self) -> tuple[str, ...]:
        return (self.trigger.id,) if self.trigger is not None else ()

    def stop(self, reason: str) -> None:
        """Its agent ends it: that is said, and nothing more follows. Its task is the agent's to cancel."""
        self.excuse = self.stopped = self.stopped or f"Stopped: {reason}."
        self.trace.cancel(reason, about=self._trigger_id)

    def stopped_by(self, envelope: Envelope) -> None:
        """Somebody else ends it, by `reasoning/cancel` or by taking the question back."""
        reason = one_line(str(envelope.payload.get("reason") or "no reason given"), 200)
        self.stopped = self.stopped or f"Stopped: {envelope.sender} cancelled it ({reason})."
        if envelope.kind == "reasoning/cancel":
            self.trace.cancelled()  # that message ends the sequence: nothing more is said in it
        else:
            self.trace.cancel("superseded", about=self._trigger_id)
        asked = self.trigger.sender if self.trigger is not None else ""
        self.excuse = self.stopped if envelope.sender != asked else ""

    async def work(self) -> Outcome:
        """Works until there is an outcome; the trace is ended, and its stream closed, whatever happens."""
        reason = "cancelled"
        try:
            await self._may_go_on()
            self.trace.start(f"Working on: {one_line(self.request, 300)}", about=self._trigger_id)
            await self._participant.discovery.wait_for_pending_discoveries(self._options.discovery_wait)
            outcome = await self._loop()
            reason = "complete" if outcome.how != "failed" else "error"
            return outcome
        finally:
            await asyncio.shield(self.trace.close(reason))

    async def _loop(self) -> Outcome:
        options = self._options
        try:
            while True:
                tools = offered(self._participant, gate=self._gate)
                reply = await self._asked(tools)
                await self._may_go_on()
                move = next_move(
                    self.thoughts,
                    reply,
                    format=options.reasoning_format,
                    max_iterations=options.max_iterations,
                )
                if isinstance(move, Answer):
                    return await self._answered(move)
                if isinstance(move, GiveUp):
                    return await self._gave_up(move)
                await self._step(move, tools)
        except ModelFailed as fault:
            self.trace.cancel("error", about=self._trigger_id)
            logger.warning("%s could not think: %s", self._participant.client.id, fault)
            return Outcome("failed", mask(f"I cannot answer now: {fault}"))
        except Exception as fault:  # a fault of ours, or of a model that keeps no promise; the agent goes on
            self.trace.cancel("error", about=self._trigger_id)
            logger.exception("working on a request failed")
            return Outcome("failed", f"I cannot answer now: {type(fault).__name__} inside the agent")

    async def _may_go_on(self) -> None:
        """A pause and a broken link hold it up where it stands; what was stopped goes no further."""
        await ready_to_send(self._participant)
        if self.stopped:
            raise asyncio.CancelledError(self.stopped)

    async def _step(self, move: Think | CallTools, tools: Sequence[ToolSpec]) -> None:
        if isinstance(move, Think):
            self.trace.thought(move.reasoning or move.observation or "Thinking on.")
            self.thoughts.append(
                Thought(move.reasoning, observations=(move.observation,) if move.observation else ())
            )
            return
        # What a tool answers must find the call that asked.
        calls = tuple(
            call if call.id else call._replace(id=f"call_{next(self._numbers)}") for call in move.calls
        )
        said = move.reasoning or f"Calling {', '.join(one_line(call.name, 120) for call in calls)}."
        self.trace.thought(said, action="tool_call", **self._quoted(calls))
        observations = await asyncio.gather(*(self._called(call, tools) for call in calls))
        await self._may_go_on()
        for call, said in zip(calls, observations, strict=True):
            self._outputs.add(call.name, said)
        self.thoughts.append(Thought(move.reasoning, calls, tuple(observations)))

    def _quoted(self, calls: Sequence[ToolCall]) -> dict[str, list[str]]:
        """Which arguments hold text that only a tool has said: whoever decides shall know. Spec: threat 29."""
        found = [
            f"{one_line(call.name, 120)}: {line}"
            for call in calls
            for line in self._outputs.quoted_in(call.arguments)
        ][:MAX_QUOTES]
        return {"from_tool_output": found} if found else {}

    async def _called(self, call: ToolCall, tools: Sequence[ToolSpec]) -> str:
        return await executed(
            self._participant,
            call,
            known=tools,
            about=self.about,
            timeout=self._options.call_timeout,
            limit=self._options.max_observation,
            gate=self._gate,
        )

    # --- the model ---

    async def _asked(self, tools: Sequence[ToolSpec]) -> Reply:
        schema = prompts.STEP if self._options.reasoning_format == "scratchpad" else None
        messages = self._messages(tools)
        over = self._headroom.over(messages)
        if over:
            said = sum(estimate(message.content) for message in self._before())
            if said:  # else nothing of the conversation stands in the prompt
                self._headroom.ensure_context_headroom(max(0, said - over))
            messages = self._headroom.cut(self._messages(tools))
        reply = await self._model.reply(messages, tools=tools, schema=schema, on_text=self.trace.token)
        return self._counted(messages, reply)

    def _messages(self, tools: Sequence[ToolSpec]) -> list[Message]:
        return prompts.for_step(
            self.request,
            self.thoughts,
            id=self._participant.client.id,
            tools=tools,
            prompts=self._options.templates,
            format=self._options.reasoning_format,
            before=self._before(),
        )

    async def _worded(self, draft: str) -> str:
        """The answer in one more reply of the model, which is shown no tools."""
        messages = self._headroom.cut(
            prompts.for_response(
                self.request,
                self.thoughts,
                id=self._participant.client.id,
                prompts=self._options.templates,
                draft=draft,
            )
        )
        reply = await self._model.reply(messages, on_text=self.trace.token)
        await self._may_go_on()
        return self._counted(messages, reply).text.strip()

    def _counted(self, messages: Sequence[Message], reply: Reply) -> Reply:
        estimated = sum(estimate(message.content) for message in messages) + estimate(reply.text)
        counted = sum(reply.usage) if reply.usage is not None else 0
        self._headroom.used(counted or estimated)
        return reply

    # --- the ends ---

    async def _answered(self, move: Answer) -> Outcome:
        text = move.text
        if self._options.templates.respond:
            text = await self._worded(text) or text
        steps = sum(len(thought.calls) for thought in self.thoughts)
        used = f"after {steps} tool call{'s' if steps != 1 else ''}" if steps else "without a tool"
        self.trace.conclude(move.reasoning or f"Ready to respond, {used}.")
        return Outcome("answered", text)

    async def _gave_up(self, move: GiveUp) -> Outcome:
        text = f"I stopped without an answer: {move.reason}."
        if any(thought.calls for thought in self.thoughts):
            worded = await self._worded(f"({text} Say what is known and what is not.)")
            text = f"{text} {worded}" if worded else text
        self.trace.conclude(f"Stopped: {move.reason}.")
        return Outcome("gave_up", text)
