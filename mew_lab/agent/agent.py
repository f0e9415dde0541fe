"""Joins a participant and a model: `MEWAgent` hears, decides whether to answer, thinks, and answers.

Three rules for whoever adds something here:
1. No protocol of its own: what is sent, discovered, called or proposed is the participant's to do.
2. One run for each request (`run`), so that several at once do not meet; here they are only begun and ended.
3. Whatever a peer, a tool or a model does ends as an answer, an observation or a status, never as an exception
   that stops the agent.

Spec: §3.5, §3.9.5, SDK "Layer 3".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mew_lab.agent import prompts
from mew_lab.agent.askers import Askers
from mew_lab.agent.attention import Exchanges, Rate, judge, read_classification, tells_outcome
from mew_lab.agent.calling import offered
from mew_lab.agent.claims import PROCESSING, Claims
from mew_lab.agent.delivery import deliver
from mew_lab.agent.headroom import Headroom
from mew_lab.agent.memory import Memory
from mew_lab.agent.model import Model, ToolCall, ToolSpec
from mew_lab.agent.models import model_of, with_settings
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.react import Move, Thought
from mew_lab.agent.run import Outcome, Run
from mew_lab.agent.tasks import Tasks
from mew_lab.errors import ModelFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.settings import Settings
from mew_lab.sdk.signal import Signal

__all__ = ["MEWAgent"]

logger = logging.getLogger(__name__)
MAX_QUEUED = 100  # requests that wait while `max_concurrent` are worked on
ALL_SENDERS = 5  # times `questions_per_minute` that all senders together may ask
ENDS_WITHIN = 5.0  # seconds that whoever ends work waits for it: a model may hold on to a cancelled reply
ENDING = ("participant/clear", "participant/restart", "participant/shutdown")


class MEWAgent:
    """One agent in one space; `async with` starts it, and stops it for good.

    `participant` is what it speaks through, `model` what it thinks with, `options` how it works, `memory` the
    conversation that it remembers, `runs` the requests that it works on now.

    Args:
        participant: who it is in the space; None makes one from `gateway`, `space`, `token`, `participant_id`.
        model: a Model, `"offline"` for the built-in one that follows rules, or the name of a model of a server
            that speaks the chat completions API.
        base_url: that server's address; None is the default of the `openai` package.
        api_key: that server's key; None takes OPENAI_API_KEY. It is shown nowhere.
        options: see `AgentOptions`, whose fields, and those of `Habits`, may also be given one by one, such as
            `system_prompt` or `max_iterations`.

    Raises:
        ConfigError: an option is unknown, or a value is not what it takes.

    Spec: SDK "MEWAgent".
    """

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
        self.participant = participant or MEWParticipant(
            gateway=gateway, space=space, token=token, participant_id=participant_id
        )
        self.model = model_of(model, base_url=base_url, api_key=api_key)
        self.owns_model = model is None or isinstance(model, str)
        self.options = options or AgentOptions()
        self._rate = self._questions_rate()
        self.configure(**more)
        self.askers = Askers(self.participant, lambda: self.options.obeys)
        self.memory = Memory(mark=self.askers.mark)
        self.runs: dict[asyncio.Task[Any], Run] = {}
        self._tasks = Tasks(report=self.participant.client.report)
        self._claims = Claims()
        self._exchanges = Exchanges()
        self._judged = Rate(to_one=30)
        self._refused = Rate()
        self.headroom = Headroom(
            self.participant,
            self.memory,
            max_tokens=self.options.max_tokens or self.model.max_tokens,
            ended=self.cancel_all,
        )
        self._free = asyncio.Semaphore(self.options.max_concurrent)
        self._started = False
        self._off: list[Callable[[], None]] = []
        self._answers: Signal[Outcome] = Signal(on_fault=self.participant.client.report)

    @classmethod
    def from_settings(cls, settings: Settings, **more: Any) -> MEWAgent:
        """An agent as the settings say (`read_settings`); `more` are arguments of the constructor, and win.

        Spec: SDK "Configuration".
        """
        participant = more.pop("participant", None) or MEWParticipant.from_settings(settings)
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
        """What the space calls it."""
        return self.participant.client.id

    @property
    def name(self) -> str:
        """What it is called in speech."""
        return self.options.name or self.id

    def configure(self, **more: Any) -> None:
        """Changes options; what is being worked on keeps the old ones.

        Raises:
            ConfigError: an option is unknown, or a value is not what it takes; then nothing is changed.
        """
        before = self.options
        if more:
            now = {name: getattr(self.options, name) for name in self.options.__dataclass_fields__}
            habits = now.pop("habits")._asdict()
            self.options = AgentOptions.of({**now, **habits, **more})
        if self.options.questions_per_minute != before.questions_per_minute:
            self._rate = self._questions_rate()
        if self.options.log_level is not None:
            level = {"warn": "WARNING"}.get(self.options.log_level, self.options.log_level.upper())
            logging.getLogger("mew_lab.agent").setLevel(level)

    def _questions_rate(self) -> Rate:
        each = self.options.questions_per_minute
        return Rate(in_all=ALL_SENDERS * each, to_one=each)

    # --- what a subclass may replace ---

    def prepare_llm_tools(self) -> Sequence[ToolSpec]:
        """The tools that the model is shown in the next step.

        Those of others that this agent may call, or propose to call, by `participant/tool`. What is not among them
        cannot be called. Spec: SDK "Tool Preparation and Namespacing" (`prepareLLMTools`).
        """
        return offered(self.participant)

    async def reason(self, request: str, previous_thoughts: Sequence[Thought], *, run: Run) -> Move:
        """The next move: `CallTools`, `Think`, `Answer` or `GiveUp` of `mew_lab.agent.react`.

        It asks the model once, with the tools of `prepare_llm_tools`. Spec: SDK "MEWAgent" (`reason`).

        Args:
            request: the text to work on.
            previous_thoughts: the steps so far, each with its calls and what came of them.
            run: the work on this request; `run.trace` shows thoughts in the space.

        Raises:
            ModelFailed: the model gave no reply; whoever asked is told.
        """
        return await run.reason(request, previous_thoughts)

    async def act(self, action: str, action_input: Mapping[str, Any], *, run: Run) -> str:
        """Carries out one action of a move, and returns the observation for the model.

        It is awaited once for each call of a move, for all of them at once. An exception becomes an observation.
        Spec: SDK "MEWAgent" (`act`).

        Args:
            action: "tool_call".
            action_input: `tool` is the `participant/tool`, `arguments` the object of its arguments.
        """
        return await self.execute_llm_tool_call(action_input["tool"], action_input["arguments"], run=run)

    async def execute_llm_tool_call(
        self, namespaced_tool: str, arguments: Mapping[str, Any], *, run: Run
    ) -> str:
        """Calls `participant/tool` for the model, by request or by proposal, and returns what came of it in words.

        Spec: SDK "MEWAgent" (`executeLLMToolCall`).
        """
        return await run.execute_tool_call(ToolCall("", namespaced_tool, arguments))

    # --- coming and going ---

    async def start(self) -> None:
        """Joins the space where that is still to do, and begins to hear; twice is harmless.

        It also brings back an agent that was shut down, or cut off for good.

        Raises: as `MEWParticipant.start`.
        """
        participant = self.participant
        if not self._started:
            self._started = True
            self._off = [
                participant.client.on_message(self._heard),
                participant.client.on_disconnected(self._cut_off),
                participant.on_chat(self._on_chat),
                *self.headroom.take(),
            ]
            participant.discovery.enable_auto_discovery()
        try:
            await participant.start()
        except BaseException:
            self._let_go()
            raise

    async def stop(self) -> None:
        """Ends what it works on and leaves the space; `start` brings it back. Twice is harmless."""
        self._let_go()
        await self.cancel_all("shutdown")
        await self._tasks.end(within=ENDS_WITHIN)
        await self.participant.stop()

    async def aclose(self) -> None:
        """Stops for good: lets go of the model, too, where it was made here of a word. Twice is harmless."""
        await self.stop()
        if self.owns_model:
            await self.model.aclose()

    def _let_go(self) -> None:
        self._started = False
        for off in self._off:
            off()
        self._off = []

    def _cut_off(self, why: object) -> None:
        """Without a way back nobody can hear what comes of the work."""
        if self.participant.client.state == "disconnected":
            for task, run in tuple(self.runs.items()):
                run.stop("disconnected")
                task.cancel("disconnected")
            self._tasks.cancel()

    def on_answer(self, handler: Callable[[Outcome], Any]) -> Callable[[], None]:
        """Each outcome of a request; the result, when called, ends that."""
        return self._answers.add(handler)

    # --- own tools; what a model is shown are those of others ---

    def add_tool(self, tool: Callable[..., Any] | Mapping[str, Any], **options: Any) -> None:
        """Offers a tool to others; see `MEWParticipant.register_tool`."""
        self.participant.register_tool(tool, **options)

    def add_resource(self, uri: str, content: Any, **options: Any) -> None:
        """Offers a resource to others; see `MEWParticipant.register_resource`."""
        self.participant.register_resource(uri, content, **options)

    # --- working ---

    async def ask(self, request: str) -> Outcome:
        """Works on a request that no message of the space makes, in sight of everybody.

        Returns:
            How it ended (`how`), and the words (`text`); nothing is sent as chat.

        Spec: §3.5.1 (autonomous pattern).
        """
        run = self._run(request, None)
        return await self._outcome(run) or Outcome("stopped", run.stopped)

    async def cancel(self, context: str, reason: str = "cancelled") -> None:
        """Stops the run of that context, as `reasoning/cancel` from somebody else does. Spec: §3.5.5."""
        await self._ended({task: run for task, run in self.runs.items() if run.context == context}, reason)

    async def cancel_all(self, reason: str) -> None:
        """Stops every run."""
        await self._ended(dict(self.runs), reason)

    async def _ended(self, runs: Mapping[asyncio.Task[Any], Run], reason: str) -> None:
        for task, run in runs.items():
            run.stop(reason)
            task.cancel(reason)
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
            headroom=self.headroom,
            before=lambda: self.memory.before(id, length=options.conversation_history_length, me=self.id),
            hooks=self,
        )

    async def _outcome(self, run: Run) -> Outcome | None:
        """How a run ended; None when it was stopped. It goes on as a task of its own, which others may stop."""
        task = asyncio.get_running_loop().create_task(self._worked(run))
        self.runs[task] = run
        task.add_done_callback(self._is_over)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # nobody waits for it any more
            run.stop("cancelled")
            task.cancel()
            raise
        return None if run.stopped or task.cancelled() else task.result()

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        self.runs.pop(task, None)
        task.cancelled() or task.exception()  # who began it may be gone

    async def _worked(self, run: Run) -> Outcome:
        async with self._free:
            outcome = await run.work()
        self._answers(outcome)
        if outcome.how == "failed":
            self.participant.telemetry.tell(f"error: {one_line(outcome.text, 300)}")
        return outcome

    # --- hearing ---

    def _heard(self, envelope: Envelope) -> None:
        """Everything: the conversation is kept, what others take on is noted, a cancelling is obeyed."""
        self.memory.hear(envelope)
        self._claims.observe(envelope)
        self.headroom.counted()
        if envelope.sender == self.id:
            return
        if envelope.kind in ENDING and self.id in envelope.to and not malformed(envelope):
            for task, run in tuple(self.runs.items()):  # before what it waits for ends and it goes on
                run.stop(envelope.kind.removeprefix("participant/"))
                task.cancel(envelope.kind)
        elif envelope.kind == "reasoning/cancel" and envelope.context:
            self._cancelled(lambda run: run.context == envelope.context, by=envelope)
        elif envelope.kind == "chat/cancel":
            about = {(id, envelope.sender) for id in envelope.correlation_id}
            self._cancelled(
                lambda run: run.trigger is not None and (run.trigger.id, run.trigger.sender) in about,
                by=envelope,
            )

    def _cancelled(self, which: Callable[[Run], bool], *, by: Envelope) -> None:
        for task, run in tuple(self.runs.items()):
            if which(run):
                run.stopped_by(by)
                task.cancel(f"{by.kind} of {by.sender}")

    def _on_chat(self, envelope: Envelope) -> None:
        if tells_outcome(envelope, self.participant.proposals, me=self.id):
            return
        exchange = self._exchanges.depth(envelope)
        attention = judge(envelope, me=self.id, name=self.name, habits=self.options.habits, exchange=exchange)
        logger.debug("%s: chat %s: %s, %s", self.id, envelope.id, attention.verdict, attention.why)
        if attention.verdict == "ignore":
            return
        now = asyncio.get_running_loop().time()
        if not self.askers.accept(envelope, asked=attention.verdict == "respond", now=now):
            return
        full = len(self._tasks) >= self.options.max_concurrent + MAX_QUEUED
        if attention.verdict == "classify":
            if not full and self._judged.take(envelope.sender, now=now):
                self._tasks.begin(self._classify(envelope))
        elif full or not self._rate.take(envelope.sender, now=now):
            self._refuse(envelope, now=now)
        else:
            self._tasks.begin(self._respond(envelope))

    # --- answering ---

    async def _classify(self, envelope: Envelope) -> None:
        """Asks the model whether an unaddressed message is ours, and lets the first agent that takes it have it."""
        habits = self.options.habits
        messages = prompts.for_attention(
            str(envelope.payload.get("text", "")),
            id=self.id,
            tools=self.prepare_llm_tools(),
            prompts=self.options.templates,
            before=self.memory.before(envelope.id, length=habits.context_window, me=self.id),
        )
        try:
            model = with_settings(self.model, self.options.reply_settings)
            reply = await model.reply(self.headroom.cut(messages), schema=prompts.ATTENTION)
        except ModelFailed as fault:
            logger.info("%s did not judge chat %s: %s", self.id, envelope.id, fault)
            return
        said = read_classification(reply.text)
        if said is None or not said.above(habits.confidence_threshold):
            return
        if self._claims.taken(envelope.id, by_others_than=self.id):
            return
        if self.participant.chats.cancelled(envelope.id):
            return
        now = asyncio.get_running_loop().time()
        if not self._rate.take(envelope.sender, now=now):
            self._refuse(envelope, now=now)
        elif await self._claims.take(self.participant, envelope):
            await self._respond(envelope, acknowledged=True)

    async def _respond(self, envelope: Envelope, *, acknowledged: bool = False) -> None:
        if self.participant.chats.cancelled(envelope.id):
            return
        if not acknowledged:
            self._acknowledge(envelope, PROCESSING)
        run = self._run(str(envelope.payload.get("text", "")), envelope)
        outcome = await self._outcome(run)
        text = outcome.text if outcome is not None else run.excuse
        if text:
            await deliver(
                self.participant,
                text,
                question=envelope,
                named=lambda id: self._exchanges.answered(envelope, id),
            )

    def _refuse(self, envelope: Envelope, *, now: float) -> None:
        """Says so, but not without end: whoever asks in a storm would get one in return."""
        if self._refused.take(envelope.sender, now=now):
            self._acknowledge(envelope, "rate_limited")
            logger.warning("%s answers %s no more this minute", self.id, one_line(envelope.sender, 80))

    def _acknowledge(self, envelope: Envelope, status: str) -> None:
        self.participant.saying.quietly(
            "chat/acknowledge", {"status": status}, to=envelope.sender, about=envelope.id
        )

    def status(self) -> Mapping[str, Any]:
        """How it is: state, model, requests in work, tools it knows, messages and tokens remembered."""
        return {
            "state": self.participant.client.state,
            "model": self.model.name,
            "working_on": len(self.runs),
            "tools": len(self.prepare_llm_tools()),
            "messages_in_context": len(self.memory),
            "tokens": self.memory.tokens,
        }
