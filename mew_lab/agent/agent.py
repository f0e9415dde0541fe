"""Connects a participant and a model: `MEWAgent` receives chat, decides whether to answer, reasons, and answers.

Three rules for changes:
1. No protocol of its own: the participant sends, discovers, calls and proposes.
2. One `Run` for each request, so that concurrent requests share no state; here runs are only begun and ended.
3. A fault of a peer, a tool or a model ends as an answer, an observation or a status, never as an exception that
   stops the agent.

A chat message passes `attention` (whether to answer, for whom) and becomes a `Run`, whose outcome `delivery` sends.

Spec: §3.5, §3.9.5, SDK "Layer 3".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mew_lab.agent import prompts
from mew_lab.agent.attention import (
    PROCESSING,
    AnswerDepths,
    ChatTakers,
    judge,
    read_classification,
)
from mew_lab.agent.contents import PeerContents
from mew_lab.agent.context_window import ContextWindow, Freed, Memory, Remembered
from mew_lab.agent.model import Model, ToolCall, ToolSpec
from mew_lab.agent.models import model_of, with_settings
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.react import Move, Thought
from mew_lab.agent.run import Run, RunOutcome, call_hook, current_run, list_callable_tools
from mew_lab.errors import ConfigError, ModelFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.askers import Askers, Rate, tells_outcome
from mew_lab.sdk.delegates import SpecificationNames
from mew_lab.sdk.delivery import deliver
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.participant import PARTICIPANT_OPTIONS, MEWParticipant
from mew_lab.sdk.settings import Settings
from mew_lab.sdk.signal import Signal, begins_unawaited

__all__ = ["MEWAgent"]

logger = logging.getLogger(__name__)
MAX_QUEUED = 100  # requests that wait while `max_concurrent` are worked on
ALL_SENDERS = 5  # times `questions_per_minute` for all senders together
ENDS_WITHIN = 5.0  # seconds to wait for cancelled work: a model may ignore the cancelling of a reply
ENDING = ("participant/clear", "participant/restart", "participant/shutdown")
OBSERVED = ("chat", "chat/acknowledge", "chat/cancel", "reasoning/start", "reasoning/cancel", *ENDING)


@explains_arguments
class MEWAgent(SpecificationNames, adds_handlers=True):
    """One agent in one space; `async with` starts it, and stops it for good.

    It sends through `participant`, reasons with `model`, and follows `options`. `memory` is the conversation that it
    remembers, `runs` are the requests in work. It has the names and hooks of its participant (`SpecificationNames`).

    Args:
        participant: its participant in the space; None makes one from `gateway`, `space`, `token`, `participant_id` and
            further arguments of `MEWParticipant`, such as `request_timeout` or `reconnect`.
        model: a Model, `"offline"` for the built-in one that follows rules, or the name of a model at a server of the
            chat completions API.
        base_url: the address of that server; None is the default of the `openai` package.
        api_key: the key of that server; None takes OPENAI_API_KEY. Nothing shows it.
        options: see `AgentOptions`. Its fields, and those of `Habits`, may also be passed one by one, such as
            `system_prompt` or `max_iterations`.

    Raises:
        ConfigError: an option is unknown, or does not take its value.

    Spec: SDK "MEWAgent".
    """

    @explains_arguments
    def __init__(
        self,
        participant: MEWParticipant | None = None,
        *,
        model: Model | str | None = None,
        base_url: str | None = None,
        api_key: str | Token | None = None,
        gateway: str = "",
        space: str = "",
        token: str | Token | None = None,
        participant_id: str | None = None,
        options: AgentOptions | None = None,
        **more: Any,
    ) -> None:
        lower = {name: more.pop(name) for name in PARTICIPANT_OPTIONS.intersection(more)}
        if participant is not None and lower:
            which = next(iter(lower))
            raise ConfigError(
                f"Cannot make an agent with both participant= and {which}=: give that to the participant",
                key=which,
            )
        self.participant = participant or MEWParticipant(
            gateway=gateway, space=space, token=token, participant_id=participant_id, **lower
        )
        self.model = model_of(model, base_url=base_url, api_key=api_key)
        self.owns_model = model is None or isinstance(model, str)
        self.options = options or AgentOptions()
        self._rate = self._questions_rate()
        self.configure(**more)
        self.askers = Askers(self.participant, lambda: self.options.obeys)
        self.memory = Memory(mark=self.askers.mark)
        self.runs: dict[asyncio.Task[Any], Run] = {}
        self.tasks = RunningTasks(report=self.participant.client.report)
        self.contents = PeerContents(self.participant)
        self._takers = ChatTakers()
        self._answer_depths = AnswerDepths()
        self._judged = Rate(to_one=30)
        self._refused = Rate()
        self.context_window = ContextWindow(
            self.participant,
            self.memory,
            max_tokens=self.options.max_tokens or self.model.max_tokens,
            stop_work=self.cancel_all,
        )
        self._free = asyncio.Semaphore(self.options.max_concurrent)
        self.reasoning_cancelled = False
        """Whether a participant cancelled its last request."""
        self._started = False
        self._unsubscribe: list[Callable[[], None]] = []
        self._answers: Signal[RunOutcome] = Signal(on_fault=self.participant.client.report)
        self._add_hooks()

    @classmethod
    def from_settings(cls, settings: Settings, **more: Any) -> MEWAgent:
        """An agent from settings (`read_settings`); `more` are arguments of the constructor and override them.

        Spec: SDK "Configuration".
        """
        lower = {name: more.pop(name) for name in PARTICIPANT_OPTIONS.intersection(more)}
        participant = more.pop("participant", None) or MEWParticipant.from_settings(settings, **lower)
        return cls(participant, **{**settings.agent, **more})

    def __repr__(self) -> str:
        return f"<MEWAgent {self.id or 'nobody yet'} with {self.model.name}: {len(self.runs)} at work>"

    async def __aenter__(self) -> MEWAgent:
        await self.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.aclose()

    @property
    def id(self) -> str:
        """Its participant id in the space."""
        return self.participant.client.id

    @property
    def name(self) -> str:
        """The name by which chat addresses it: the option `name`, or its id."""
        return self.options.name or self.id

    @property
    def conversation_history(self) -> Sequence[Remembered]:
        """The messages of `memory`, the oldest first."""
        return self.memory.entries

    def remember(self, envelopes: Iterable[Envelope]) -> None:
        """Takes the conversation of earlier messages of the space, in their order, such as those of its journal.

        To be called once it has joined: what it remembers already stays behind them. Tools of others it asks for anew.

        Spec: SDK "Persistence".
        """
        self.memory.restore(envelopes, me=self.id)
        self.context_window.update_telemetry()

    def ensure_context_headroom(self) -> Freed:
        """Frees 30 % of the context of the model, where the conversation takes more than the rest of it."""
        return self.context_window.ensure_context_headroom()

    def configure(self, **more: Any) -> None:
        """Changes options; running requests keep the old ones.

        Raises:
            ConfigError: an option is unknown, or does not take its value; then nothing is changed.
        """
        before = self.options
        self.options = before.changed(more)
        if self.options.questions_per_minute != before.questions_per_minute:
            self._rate = self._questions_rate()
        if self.options.log_level is not None:
            level = {"warn": "WARNING"}.get(self.options.log_level, self.options.log_level.upper())
            logging.getLogger("mew_lab.agent").setLevel(level)

    def _questions_rate(self) -> Rate:
        each = self.options.questions_per_minute
        return Rate(in_all=ALL_SENDERS * each, to_one=each)

    # --- the hooks that a subclass may replace ---

    def prepare_llm_tools(self, tools: Sequence[Any] | None = None) -> Sequence[ToolSpec]:
        """The tools that the model is shown in the next step. It can call no others.

        By default these are the tools of others that this agent may call or propose, by `participant/tool`, and
        `read_resource` and `get_prompt`, where others have resources or prompts that it may read.

        Args:
            tools: those of others, as `get_available_tools` gives them; None takes all of these.

        Spec: SDK "Tool Preparation and Namespacing" (`prepareLLMTools`).
        """
        return list_callable_tools(self.participant, contents=self.contents, tools=tools)

    async def reason(
        self, request: str, previous_thoughts: Sequence[Thought], *, run: Run | None = None
    ) -> Move:
        """The next move: `CallTools`, `Think`, `FinalAnswer` or `GiveUp` of `mew_lab.agent.react`.

        It asks the model once, with the tools of `prepare_llm_tools`. Spec: SDK "MEWAgent" (`reason`).

        Args:
            request: the text to work on.
            previous_thoughts: the steps so far, each with its calls and their observations.
            run: the work on this request; `run.trace` shows thoughts in the space. A method that replaces this one, or
                one of the two below, may leave it out; None is the work that calls it.

        Raises:
            ModelFailed: the model gave no reply. The sender of the request gets that as the answer.
        """
        return await (run or current_run()).reason(request, previous_thoughts)

    async def act(self, action: str, action_input: Mapping[str, Any], *, run: Run | None = None) -> str:
        """Carries out one action of a move, and returns the observation for the model.

        It is awaited once for each call of a move, for all of them at once. An exception becomes an observation.
        Spec: SDK "MEWAgent" (`act`).

        Args:
            action: "tool_call".
            action_input: `tool` is the `participant/tool`, `arguments` the object of its arguments.
        """
        execute = call_hook(self.execute_llm_tool_call, run or current_run())
        observation: str = await execute(action_input["tool"], action_input["arguments"])
        return observation

    async def execute_llm_tool_call(
        self, namespaced_tool: str, arguments: Mapping[str, Any], *, run: Run | None = None
    ) -> str:
        """Calls `participant/tool` for the model, by request or by proposal, and returns its result as text.

        Spec: SDK "MEWAgent" (`executeLLMToolCall`).
        """
        return await (run or current_run()).execute_tool_call(ToolCall("", namespaced_tool, arguments))

    # --- start and stop ---

    async def start(self) -> None:
        """Joins the space, unless it has joined, and starts to handle messages. A second call does nothing; `connect` is
        the same.

        It also restarts an agent that was shut down, or that lost its connection for good.

        Raises: as `MEWParticipant.start`.
        """
        participant = self.participant
        if not self._started:
            self._started = True
            self._unsubscribe = [
                participant.client.on_message(self._observe, kinds=OBSERVED),
                participant.client.on_disconnected(self._on_disconnected),
                participant.on_chat(self._on_chat),
                *self.context_window.attach(),
            ]
            # Before it joins, so that the participants of its welcome are asked for their tools, too.
            participant.discovery.enable_auto_discovery()
        try:
            await participant.start()
        except BaseException:
            self._detach()
            raise

    @begins_unawaited
    async def stop(self) -> None:
        """Ends all work and leaves the space; `start` joins again. A second call does nothing. `disconnect` is
        the same."""
        # No message begins new work; then the runs end, whose withdraws need the connection that is closed last.
        self._detach()
        await self.cancel_all("shutdown")
        await self.tasks.end(within=ENDS_WITHIN)
        await self.contents.close()
        await self.participant.stop()

    connect, disconnect = start, stop

    async def aclose(self) -> None:
        """Stops for good, and closes a model that the agent made from a name. A second call does nothing."""
        await self.stop()
        if self.owns_model:
            await self.model.aclose()

    def _detach(self) -> None:
        self._started = False
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []

    def _on_disconnected(self, why: object) -> None:
        """Ends all work when the connection is lost for good, because no answer could be sent."""
        if self.participant.client.state == "disconnected":
            self._interrupt(self.runs, "disconnected")
            self.tasks.cancel()

    def on_answer(self, handler: Callable[[RunOutcome], Any]) -> Callable[[], None]:
        """Calls the handler with each outcome of a request; returns a function that removes the handler."""
        return self._answers.add(handler)

    def obey_starters(self, *ids: str) -> None:
        """Names the participants that started the agent; by default it works on their chat requests."""
        self.askers.add_starters(*ids)

    # --- own tools, offered to others ---

    def add_tool(self, tool: Callable[..., Any] | Mapping[str, Any], **options: Any) -> None:
        """Offers a tool to others; see `MEWParticipant.register_tool`."""
        self.participant.register_tool(tool, **options)

    def add_resource(self, uri: str | Mapping[str, Any], content: Any = None, **options: Any) -> None:
        """Offers a resource to others; see `MEWParticipant.register_resource`."""
        self.participant.register_resource(uri, content, **options)

    # --- working ---

    async def ask(self, request: str) -> RunOutcome:
        """Works on a request of this program, without a message; its reasoning is shown in the space.

        Returns:
            The end of the run (`how`) and its text (`text`); nothing is sent as chat.

        Spec: §3.5.1 (autonomous pattern).
        """
        run = self._run(request, None)
        return await self._await_outcome(run) or RunOutcome("stopped", run.stopped)

    async def cancel(self, context: str, reason: str = "cancelled") -> None:
        """Stops the run of that context, as a `reasoning/cancel` of another participant does. Spec: §3.5.5."""
        await self._stop_runs(
            {task: run for task, run in self.runs.items() if run.context == context}, reason
        )

    async def cancel_all(self, reason: str) -> tuple[int, int]:
        """Stops every run; returns how many ended, and how many still clean up."""
        runs = dict(self.runs)
        await self._stop_runs(runs, reason)
        busy = sum(not task.done() for task in runs)
        return len(runs) - busy, busy

    def _interrupt(self, runs: Mapping[asyncio.Task[Any], Run], reason: str) -> None:
        for task, run in tuple(runs.items()):
            run.stop(reason)
            task.cancel(reason)

    async def _stop_runs(self, runs: Mapping[asyncio.Task[Any], Run], reason: str) -> None:
        self._interrupt(runs, reason)
        if runs:
            await asyncio.wait(runs, timeout=ENDS_WITHIN)

    def _run(self, request: str, trigger: Envelope | None) -> Run:
        options = self.options
        id = trigger.id if trigger is not None else ""
        return Run(
            request,
            participant=self.participant,
            model=self.model,
            options=options,
            trigger=trigger,
            context_window=self.context_window,
            before=lambda: self.memory.before(id, length=options.conversation_history_length, me=self.id),
            hooks=self,
            contents=self.contents,
        )

    async def _await_outcome(self, run: Run) -> RunOutcome | None:
        """Runs it as a task of its own and returns the outcome; None when another participant stopped it."""
        task = asyncio.get_running_loop().create_task(self._work(run))
        self.runs[task] = run
        self.reasoning_cancelled = False
        task.add_done_callback(self._discard_run)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # no task waits for it
            run.stop("cancelled")
            task.cancel()
            raise
        return None if run.stopped or task.cancelled() else task.result()

    def _discard_run(self, task: asyncio.Task[Any]) -> None:
        self.runs.pop(task, None)
        task.cancelled() or task.exception()  # its caller may have stopped waiting

    async def _work(self, run: Run) -> RunOutcome:
        async with self._free:
            outcome = await run.work()
        self._answers(outcome)
        if outcome.how == "failed":
            self.participant.telemetry.tell(f"error: {one_line(outcome.text, 300)}")
        return outcome

    # --- incoming messages ---

    def _observe(self, envelope: Envelope) -> None:
        """Handles one message: keeps conversation, records claims of other agents, obeys cancels."""
        if self.memory.observe(envelope):
            self.context_window.update_telemetry()
        self._takers.observe(envelope)
        if envelope.sender == self.id:
            return
        if envelope.kind in ENDING and self.id in envelope.to and not malformed(envelope):
            # At once, before the open calls of a run end and it goes on.
            self._interrupt(self.runs, envelope.kind.removeprefix("participant/"))
        elif envelope.kind in ("reasoning/cancel", "chat/cancel"):
            self._cancel_runs(by=envelope)

    def _is_cancelled(self, run: Run, by: Envelope) -> bool:
        """Whether this message cancels, by the ledger of the participant, the question of the run."""
        ledger = self.participant.ledger
        if by.kind == "reasoning/cancel":
            sequence = ledger.reasoning.get(run.context)
            return sequence is not None and sequence.state == "cancelled" and by.context == run.context
        message = ledger.chats.get(run.trigger.id) if run.trigger is not None else None
        if message is None or run.trigger is None or message.sender != run.trigger.sender:
            return False
        return message.state == "cancelled" and message.id in by.correlation_id

    def _cancel_runs(self, *, by: Envelope) -> None:
        for task, run in tuple(self.runs.items()):
            if self._is_cancelled(run, by):
                self.reasoning_cancelled = True
                run.stop_by(by)
                task.cancel(f"{by.kind} of {by.sender}")

    def _on_chat(self, envelope: Envelope) -> None:
        if tells_outcome(envelope, self.participant.proposals, me=self.id):
            return
        exchange = self._answer_depths.depth(envelope)
        attention = judge(envelope, me=self.id, name=self.name, habits=self.options.habits, exchange=exchange)
        logger.debug("%s: chat %s: %s, %s", self.id, envelope.id, attention.verdict, attention.why)
        if attention.verdict == "ignore":
            return
        now = asyncio.get_running_loop().time()
        if not self.askers.accept(envelope, asked=attention.verdict == "respond", now=now):
            return
        full = len(self.tasks) >= self.options.max_concurrent + MAX_QUEUED
        if attention.verdict == "classify":
            if not full and self._judged.take(envelope.sender, now=now):
                self.tasks.start(self._classify(envelope))
        elif full or not self._rate.take(envelope.sender, now=now):
            self._refuse(envelope, now=now)
        else:
            self.tasks.start(self._respond(envelope))

    # --- answering ---

    async def _classify(self, envelope: Envelope) -> None:
        """Asks the model whether to answer an unaddressed message; the first agent that claims it answers it."""
        habits = self.options.habits
        messages = prompts.attention_messages(
            str(envelope.payload.get("text", "")),
            id=self.id,
            tools=self.prepare_llm_tools(),
            prompts=self.options.templates,
            before=self.memory.before(envelope.id, length=habits.context_window, me=self.id),
        )
        try:
            model = with_settings(self.model, self.options.reply_settings)
            reply = await model.reply(self.context_window.shorten(messages), schema=prompts.ATTENTION)
        except ModelFailed as fault:
            logger.info("%s did not judge chat %s: %s", self.id, envelope.id, fault)
            return
        classification = read_classification(reply.text)
        if classification is None or not classification.above(habits.confidence_threshold):
            return
        if self._takers.taken(envelope.id, by_others_than=self.id):
            return
        if self.participant.chats.cancelled(envelope.id):
            return
        now = asyncio.get_running_loop().time()
        if not self._rate.take(envelope.sender, now=now):
            self._refuse(envelope, now=now)
        elif await self._takers.take(self.participant, envelope):
            await self._respond(envelope, acknowledged=True)

    async def _respond(self, envelope: Envelope, *, acknowledged: bool = False) -> None:
        if self.participant.chats.cancelled(envelope.id):
            return
        if not acknowledged:
            self._acknowledge(envelope, PROCESSING)
        run = self._run(str(envelope.payload.get("text", "")), envelope)
        outcome = await self._await_outcome(run)
        text = outcome.text if outcome is not None else run.excuse
        if text:
            await deliver(
                self.participant,
                text,
                question=envelope,
                on_id=lambda id: self._answer_depths.record(envelope, id),
            )

    def _refuse(self, envelope: Envelope, *, now: float) -> None:
        """Acknowledges with `rate_limited`. This is limited, too, so that a flood of questions causes no other one."""
        if self._refused.take(envelope.sender, now=now):
            self._acknowledge(envelope, "rate_limited")
            logger.warning("%s answers %s no more this minute", self.id, one_line(envelope.sender, 80))

    def _acknowledge(self, envelope: Envelope, status: str) -> None:
        self.participant.sender.quietly(
            "chat/acknowledge", {"status": status}, to=envelope.sender, about=envelope.id
        )

    def status(self) -> Mapping[str, Any]:
        """Its state, model, requests in work, tools it knows, messages and tokens remembered."""
        return {
            "state": self.participant.client.state,
            "model": self.model.name,
            "working_on": len(self.runs),
            "tools": len(self.prepare_llm_tools()),
            "messages_in_context": len(self.memory),
            "tokens": self.memory.tokens,
        }
