"""What is an agent?  `MEWAgent` has a participant and a model: it hears, decides whether to answer, thinks, answers.

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
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mew_lab.agent import prompts
from mew_lab.agent.attention import Exchanges, Rate, judge, read_classification
from mew_lab.agent.calling import offered
from mew_lab.agent.claims import PROCESSING, Claims
from mew_lab.agent.headroom import Headroom
from mew_lab.agent.memory import Memory
from mew_lab.agent.model import Model
from mew_lab.agent.models import model_of
from mew_lab.agent.options import AgentOptions
from mew_lab.agent.run import Outcome, Run
from mew_lab.errors import ModelFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.token import Token
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.handlers import Handlers
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.settings import Settings

__all__ = ["MEWAgent"]

logger = logging.getLogger(__name__)
MAX_QUEUED = 100  # requests that wait while `max_concurrent` are worked on


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
        self.configure(**more)
        self.memory = Memory()
        self.runs: dict[asyncio.Task[Any], Run] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._claims = Claims()
        self._exchanges = Exchanges()
        self._rate = Rate()
        self.headroom = Headroom(
            self.participant,
            self.memory,
            max_tokens=self.options.max_tokens or self.model.max_tokens,
            ended=self.cancel_all,
        )
        self._free = asyncio.Semaphore(self.options.max_concurrent)
        self._started = False
        self._off: list[Callable[[], None]] = []
        self._answers: Handlers[Outcome] = Handlers(on_fault=self.participant.client.report)

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
        if more:
            now = {name: getattr(self.options, name) for name in self.options.__dataclass_fields__}
            habits = now.pop("habits")._asdict()
            self.options = AgentOptions.of({**now, **habits, **more})
        if self.options.log_level is not None:
            level = {"warn": "WARNING"}.get(self.options.log_level, self.options.log_level.upper())
            logging.getLogger("mew_lab.agent").setLevel(level)

    # --- coming and going ---

    async def start(self) -> None:
        """Joins the space where that is still to do, and begins to hear; twice is harmless.

        Raises: as `MEWParticipant.start`.
        """
        if self._started:
            return
        self._started = True
        participant = self.participant
        self._off = [
            participant.client.on_message(self._heard),
            participant.on_chat(self._on_chat),
        ]
        self.headroom.take()
        participant.discovery.enable_auto_discovery()
        try:
            if participant.client.state != "ready":
                await participant.start()
        except BaseException:
            self._let_go()
            raise

    async def stop(self) -> None:
        """Ends what it works on and leaves the space; `start` brings it back. Twice is harmless."""
        self._let_go()
        await self.cancel_all("shutdown")
        for task in tuple(self._tasks):
            task.cancel()
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

    def on_answer(self, handler: Callable[[Outcome], Any]) -> Callable[[], None]:
        """Each outcome of a request; the result, when called, ends that."""
        return self._answers.add(handler)

    # --- own tools; what a model is shown are those of others ---

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Offers a typed function to others as a tool; see `ToolBox.add`."""
        self.participant.tools.add(function, **options)

    def add_resource(self, uri: str, content: Any, **options: Any) -> None:
        """Offers a resource to others; see `ToolBox.add_resource`."""
        self.participant.tools.add_resource(uri, content, **options)

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
        for task, run in tuple(self.runs.items()):
            if run.context == context:
                await self._ended(task, run, reason)

    async def cancel_all(self, reason: str) -> None:
        """Stops every run."""
        for task, run in tuple(self.runs.items()):
            await self._ended(task, run, reason)

    async def _ended(self, task: asyncio.Task[Any], run: Run, reason: str) -> None:
        run.stop(reason)
        task.cancel(reason)
        await asyncio.wait({task})

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
        )

    async def _outcome(self, run: Run) -> Outcome | None:
        """How a run ended; None when it was stopped. It goes on as a task of its own, which others may stop."""
        task = asyncio.get_running_loop().create_task(self._worked(run))
        self.runs[task] = run
        task.add_done_callback(lambda done: self.runs.pop(done, None))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        return None if task.cancelled() else task.result()

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
        if envelope.kind == "reasoning/cancel" and envelope.context:
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
        exchange = self._exchanges.depth(envelope)
        attention = judge(envelope, me=self.id, name=self.name, habits=self.options.habits, exchange=exchange)
        logger.debug("%s: chat %s: %s, %s", self.id, envelope.id, attention.verdict, attention.why)
        if attention.verdict == "respond":
            self._spawn(self._respond(envelope))
        elif attention.verdict == "classify":
            self._spawn(self._classify(envelope))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            fault = None if done.cancelled() else done.exception()
            if isinstance(fault, Exception):
                self.participant.client.report(fault)

        task.add_done_callback(ended)

    # --- answering ---

    async def _classify(self, envelope: Envelope) -> None:
        """Asks the model whether an unaddressed message is ours, and lets the first agent that takes it have it."""
        habits = self.options.habits
        messages = prompts.for_attention(
            str(envelope.payload.get("text", "")),
            id=self.id,
            tools=offered(self.participant),
            prompts=self.options.prompts,
            before=self.memory.before(envelope.id, length=habits.context_window, me=self.id),
        )
        try:
            reply = await self.model.reply(self.headroom.cut(messages), schema=prompts.ATTENTION)
        except ModelFailed as fault:
            logger.info("%s did not judge chat %s: %s", self.id, envelope.id, fault)
            return
        said = read_classification(reply.text)
        if said is None or not said.above(habits.confidence_threshold):
            return
        if self._claims.taken(envelope.id, by_others_than=self.id):
            return
        if await self._claims.take(self.participant, envelope):
            await self._respond(envelope, acknowledged=True)

    async def _respond(self, envelope: Envelope, *, acknowledged: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        full = len(self.runs) >= self.options.max_concurrent + MAX_QUEUED
        if full or not self._rate.take(envelope.sender, now=now):
            self._acknowledge(envelope, "rate_limited")
            logger.warning("%s answers %s no more this minute", self.id, envelope.sender)
            return
        if not acknowledged:
            self._acknowledge(envelope, PROCESSING)
        run = self._run(str(envelope.payload.get("text", "")), envelope)
        outcome = await self._outcome(run)
        text = outcome.text if outcome is not None else run.excuse
        if not text:
            return
        sent = self.participant.saying.quietly(
            "chat", {"text": text}, to=envelope.sender, about=envelope.id, context=envelope.context
        )
        if sent is not None:
            self._exchanges.answered(envelope, sent.id)

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
            "tools": len(offered(self.participant)),
            "messages_in_context": len(self.memory),
            "tokens": self.memory.tokens,
        }
