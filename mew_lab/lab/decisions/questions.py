"""The questions of MCP servers to a person: forms, addresses to open, requests for a reply of the lab's model.

One kind is asked by this process: whether a server of a file may be started (`ask_to_start`). Its answer goes to the
caller, and no message is sent.

How it works. A bridged server's question arrives as an `mcp/request` to this person's participant
(`bridge.server_requests`). `Questions` makes a `Question` of it, data like a card, and waits. The answer goes through
`carry_out`, which checks what was shown (the same `Gate` as that of approvals), validates the values, and writes a note
into the journal before the answer is sent. The answer is the `mcp/response` to that request.

A question is refused at once where nobody sits (a headless run), where this person has not decided the call that it
belongs to, and where too many wait. It ends when the server cancels it, when its call ends, or when the server leaves.

Everything runs on the loop's thread; `pending`, `decided` and `decide` may be called from any thread.

Spec: §3.1, MCP "Elicitation", "Sampling"; ruling R29; threats 14, 16, 17.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from typing import Any, Literal

from mew_lab.agent.model import Message, Model
from mew_lab.errors import MewError, NotApproved, ProtocolError
from mew_lab.lab.decisions.cards import Click
from mew_lab.lab.decisions.gate import Gate
from mew_lab.lab.decisions.risks import MAX_ALIKE, alike, risks
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.subscribers import Subscribers
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member
from mew_lab.protocol.elicitation import (
    ACTIONS,
    ASKED_AS,
    CREATE_MESSAGE,
    ELICIT,
    OWNER,
    Elicitation,
    answer_faults,
    choices_of,
    read_elicitation,
)
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import middle, one_line, visible, visible_json
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.tools import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

__all__ = [
    "OpenQuestions",
    "Question",
    "Questions",
    "find_more",
    "more_of",
    "question_lines",
    "read_prompt",
    "sent_to",
]

MAX_OPEN = 32
MAX_OF_ONE = 8  # of one server
MAX_DECIDED = 100
MAX_CALL = 300  # characters of a call on a question
MAX_QUESTION = 256 * 1024  # characters of its params as JSON
MAX_PROMPT = 100_000  # characters that are sent to a model
MAX_MESSAGES = 200
REFUSED = -32000
REJECTED = -1  # the code of MCP for a sampling request that a person rejects

Note = Callable[[str, dict[str, Any]], None]
QuestionState = Literal["open", "accepted", "declined", "cancelled", "ended"]
_STATES: Mapping[str, QuestionState] = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}
_NAME = re.compile(r"\w[\w.-]{0,200}")
CONFIRMED_WITHIN = 3.0  # seconds for the gateway to accept an answer
_VERBS = {"accept": "Answered", "decline": "Declined", "cancel": "Dismissed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a server; a change is a new Question with the same id and digest.

    `asked` is the form or the address; None for a request to the model, whose full text is `prompt`: pairs of a role and
    a text. `calls` are the calls that it belongs to, in words; `about` has their ids and those of the proposals that
    they fulfil. `digest` is the sha-256 (hex) of its params. `more` are those params that are no part of the form, the
    address or the prompt. `outcome` is one line.
    `since` and `decided_at` are seconds of the epoch. `file` is the file that names the server, where the question is
    whether it may be started.
    """

    id: str
    seq: int
    server: str
    calls: tuple[str, ...]
    about: tuple[str, ...]
    digest: str
    since: float
    asked: Elicitation | None = None
    prompt: tuple[tuple[str, str], ...] = ()
    model: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    state: QuestionState = "open"
    outcome: str = ""
    decided_at: float | None = None
    file: str = ""

    @property
    def kind(self) -> str:
        """`form`, `url`, `sampling` or `start`."""
        if self.file:
            return "start"
        return "sampling" if self.asked is None else "url" if self.asked.url else "form"

    @property
    def is_open(self) -> bool:
        """Whether it still waits for an answer."""
        return self.state == "open"

    @property
    def request(self) -> str:
        """Who asks for what, as one line."""
        server = one_line(self.server, 60)
        if self.kind == "start":
            return f"Start the MCP server {server}? {middle(self.file, 200)} wants to, in your name"
        if self.kind == "sampling":
            return f"The server {server} asks for a reply of the model {one_line(self.model, 60)}"
        if self.kind == "url":
            return f"The server {server} asks you to open an address"
        return f"The server {server} asks you"

    @property
    def to_read(self) -> tuple[tuple[str, str], ...]:
        """Everything that a person reads before she answers, as rows of names and JSON texts."""
        texts: tuple[tuple[str, Any], ...] = self.prompt
        if self.asked is not None:
            schema = self.asked.schema
            fields = tuple(schema.get("properties", {}).items())
            whole = tuple((key, value) for key, value in schema.items() if key != "properties")
            texts = (("message", self.asked.message), ("url", self.asked.url), *whole, *fields)
        rows = (*texts, *self.more.items())
        return tuple(
            (f"/payload/params/{n}/{name}", compact(text)) for n, (name, text) in enumerate(rows) if text
        )

    @property
    def reads(self) -> int:
        """The characters that are read beside these rows."""
        return 0


@dataclass(slots=True)
class _Waiting:
    question: Question
    params: Mapping[str, Any]
    answer: asyncio.Future[dict[str, Any]] = field(repr=False)


class Questions:
    """The questions to one person.

    Args:
        gate: What was shown of cards and questions.
        note: Writes the answer and its author into the journal before it is sent.
        owns: Whether a participant is a bridge of this lab, whose owner the person is.
        decided_by_policy: Whether a policy, and not the person, decided a proposal.
        attended: Whether a person sits here at all.
        clock: Seconds of the epoch.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        loop: LoopThread,
        gate: Gate,
        note: Note,
        owns: Callable[[str], bool],
        decided_by_policy: Callable[[str], bool],
        attended: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self.models: dict[str, Model] = {}  # a server that may ask for replies -> the model that gives them
        self.gate = gate
        self._me = me
        self._loop = loop
        self._note = note
        self._owns = owns
        self._decided_by_policy = decided_by_policy
        self._attended = attended
        self._clock = clock
        self._seq = count(1)
        self._open: dict[str, _Waiting] = {}
        self._past: BoundedDict[str, Question] = BoundedDict(MAX_DECIDED)
        self._subscribers: Subscribers[Question] = Subscribers()
        me.register_method(ELICIT, self._elicit)
        me.register_method(CREATE_MESSAGE, self._sample)
        me.client.on_message(self._observe)

    # --- reading ---

    def pending(self) -> list[Question]:
        """The open questions, the oldest first."""
        return [waiting.question for waiting in tuple(self._open.values())]

    def decided(self) -> list[Question]:
        """The last ended questions, the oldest first; at most 100."""
        return list(self._past.values())

    def subscribe(self, on_change: Callable[[Question], None]) -> Callable[[], None]:
        """Calls `on_change` with each new state of a question; returns a function that ends the subscription."""
        return self._subscribers.add(on_change)

    def find(self, prefix: str) -> Question:
        """The open question whose id is `prefix` or begins with it.

        Raises:
            MewError: There is none, or more than one.
        """
        found = [question for question in self.pending() if question.id.startswith(prefix)]
        exact = [question for question in found if question.id == prefix]
        if len(exact or found) == 1:
            return (exact or found)[0]
        named = ", ".join(one_line(question.id, 100) for question in (found or self.pending())[:10])
        why = "more than one begins so" if found else "there is no such open question here"
        raise MewError(f"Cannot answer {prefix[:80]!r}: {why}; open: {named or 'none is open'}")

    def tell(self, question: Question) -> str:
        """The whole question as text; from now on it counts as shown."""
        text = "\n".join(question_lines(question))
        if question.id in self._open:
            self.gate.record_whole(question)
        return text

    # --- answering ---

    def decide(
        self, id: str, *, digest: str, action: str, content: object = None, click: Click | None = None
    ) -> Future[str]:
        """Answers by a click; see `carry_out`."""
        return self._loop.submit(
            self.carry_out(id, digest=digest, action=action, content=content, click=click)
        )

    async def carry_out(
        self,
        id: str,
        *,
        digest: str,
        action: str,
        content: object = None,
        click: Click | None = None,
        in_editor: bool = False,
    ) -> str:
        """Answers an open question: `accept`, `decline` or `cancel`; returns one sentence.

        Args:
            digest: The digest of what was shown.
            content: The values of an accepted form.
            click: The click that decides; None for a typed answer, whose question a text must have shown.
            in_editor: Whether the person answered in an editor, which was given the whole text.

        Returns once the gateway has accepted the answer; the sentence says so where it does not within some seconds.

        Raises:
            NotApproved: It was not shown, or not for long enough; nothing was sent.
            MewError: It is not open, or the values do not fit; nothing was sent.
        """
        waiting = self._open.get(id)
        if waiting is None or waiting.answer.done():
            raise MewError(f"The question {id[:80]!r} is not open any more, so nothing was sent")
        question = waiting.question
        if action not in ACTIONS:
            raise MewError(f"A question is answered by {', '.join(ACTIONS)}, not by {action!r:.60}")
        if not hmac.compare_digest(digest.encode("utf-8", "replace"), question.digest.encode()):
            raise NotApproved(
                f"{question.request}: what was shown is not what is asked", code="digest_mismatch"
            )
        if action == "accept":
            self.gate.check_going(question, done="answered")
        result: dict[str, Any] = {"action": action}
        note: dict[str, Any] = {"question": id, "action": action, "by": "human", "digest": digest}
        if click is not None:
            decision = "approve" if action == "accept" else "reject"
            seconds = self.gate.check_click(question, click, digest=digest, decision=decision)
            note["on_screen"] = round(seconds * 1000)
        elif action == "accept" and not self.gate.was_shown_whole(question):
            raise NotApproved(
                f"Not answered yet: this is what is asked.\n{self.tell(question)}\nTo answer it, repeat the command.",
                code="not_shown",
            )
        else:
            note["editor" if in_editor else "typed"] = "yes"
        if action == "accept" and question.kind == "form":
            assert question.asked is not None
            if why := answer_faults(question.asked, content):
                raise MewError(f"{question.request}: nothing was sent, because {why}")
            result["content"] = content
            note["answer"] = sha256(compact(content).encode("utf-8", "surrogatepass")).hexdigest()
        if click is not None:
            self.gate.record_decided(question, click)
        if question.kind == "start":  # no message of the space is concerned
            waiting.answer.set_result(result)
            return f"{_VERBS[action]}: {question.request}"
        self._note("answered", note)
        sent = await self._send(waiting, result)
        remark = "" if sent else "; the gateway has not confirmed the answer"
        return f"{_VERBS[action]}: {question.request}{remark}"

    def pass_on(self, id: str, why: str) -> None:
        """Refuses an open question that cannot be shown here, so that the owner of its bridge is asked instead."""
        waiting = self._open.get(id)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(RpcError(METHOD_NOT_FOUND, why))

    async def _send(self, waiting: _Waiting, result: dict[str, Any]) -> bool:
        """Answers a question; returns whether the gateway has accepted that, of a prompt whether its model is asked."""
        accepted, client, id = asyncio.Event(), self._me.client, waiting.question.id

        def observe(envelope: Envelope) -> None:
            if envelope.sender == client.id and id in envelope.correlation_id:
                accepted.set()

        stop = client.on_message(observe, kinds=["mcp/response"])
        try:
            waiting.answer.set_result(result)
            if waiting.question.kind == "sampling" and result["action"] == "accept":
                return True
            async with asyncio.timeout(CONFIRMED_WITHIN if client.state == "ready" else 0):
                await accepted.wait()
        except TimeoutError:
            return False
        finally:
            stop()
        return True

    # --- asked by this process ---

    async def ask_to_start(self, server: str, *, id: str, file: str, lines: Sequence[str]) -> bool:
        """Asks the person whether a server of a file may be started; `lines` say all of what that would be.

        Cancelling it ends the question.
        """
        asked = Elicitation("\n".join(lines), {"type": "object", "properties": {}})
        whole = compact([file, server, list(lines)])
        question = Question(
            id=id,
            seq=next(self._seq),
            server=server,
            calls=(),
            about=(id,),
            digest=sha256(whole.encode("utf-8", "surrogatepass")).hexdigest(),
            since=self._clock(),
            asked=asked,
            warnings=risks({"what it runs": asked.message}),
            file=file,
        )
        result = await self._wait(question, {})
        self._put(replace(question, state=_STATES[result["action"]], decided_at=self._clock()))
        return bool(result["action"] == "accept")

    @property
    def is_attended(self) -> bool:
        """Whether a person sits here who may be asked."""
        return self._attended()

    # --- asked by a server ---

    async def _elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers `elicitation/create`."""
        request = self._admit(params)
        try:
            asked = read_elicitation(params)
        except ProtocolError as fault:
            raise RpcError(INVALID_PARAMS, f"Invalid params: the question {fault}") from None
        question = self._question(request, params, asked=asked, warnings=_warnings(asked))
        result = await self._wait(question, params)
        self._put(replace(question, state=_STATES[result["action"]], decided_at=self._clock()))
        return result

    async def _sample(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers `sampling/createMessage`: the model replies once the person has approved the prompt."""
        request = self._admit(params)
        model = self.models.get(request.sender)
        if model is None:
            name = one_line(request.sender, 60)
            raise RpcError(
                REFUSED, f"no model may reply to {name} here; lab.allow_sampling({name!r}) allows it"
            )
        prompt = read_prompt(params)
        found = tuple(risks({f"{role} {n}": text for n, (role, text) in enumerate(prompt, 1)}))
        question = self._question(request, params, prompt=prompt, model=model.name, warnings=found)
        result = await self._wait(question, params)
        question = replace(question, state=_STATES[result["action"]], decided_at=self._clock())
        if result["action"] != "accept":
            self._put(question)
            raise RpcError(REJECTED, "The person rejected the sampling request")
        self._put(replace(question, outcome="the model replies"))
        try:
            reply = await model.reply([Message(_role(role), text) for role, text in prompt])
        except MewError as fault:
            self._put(replace(question, outcome=f"the model has failed: {one_line(str(fault), 200)}"))
            raise RpcError(REFUSED, f"The model has failed: {one_line(str(fault), 200)}") from None
        except asyncio.CancelledError:
            self._put(replace(question, outcome="cancelled while the model replied"))
            raise
        self._put(replace(question, outcome=f"the model replied: {one_line(reply.text, 200)}"))
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.text},
            "model": model.name,
            "stopReason": "maxTokens" if reply.cut else "endTurn",
        }

    def _admit(self, params: Mapping[str, Any]) -> Envelope:
        """The request that is being answered, if a person can be asked about it.

        Raises:
            RpcError: she cannot; the owner of the bridge may be asked instead where the code is -32601.
        """
        request = ASKED.get()
        assert request is not None  # only a request is answered
        me = one_line(self._me.client.id, 60)
        as_owner = member(params, "_meta", ASKED_AS) == OWNER
        if not as_owner and not self._decided_here(request):
            raise RpcError(METHOD_NOT_FOUND, f"{me} has not decided the call that this question belongs to")
        if not self._attended():
            raise RpcError(REFUSED, f"nobody sits at {me}: it runs without a person")
        mine = sum(one.question.server == request.sender for one in self._open.values())
        if len(self._open) >= MAX_OPEN or mine >= MAX_OF_ONE or request.id in self._open:
            raise RpcError(REFUSED, f"{len(self._open)} questions wait for {me} already")
        return request

    def _decided_here(self, request: Envelope) -> bool:
        """Whether the person herself sent one of the calls that the question belongs to, and no policy for her."""
        for id in request.correlation_id:
            call = self._me.ledger.calls.requests.get(id)
            if call is None or call.sender != self._me.client.id or request.sender not in call.to:
                continue
            if not any(map(self._decided_by_policy, call.envelope.correlation_id)):
                return True
        return False

    def _question(self, request: Envelope, params: Mapping[str, Any], **more: Any) -> Question:
        own = {name: value for name, value in params.items() if name != "_meta"}
        if len(compact(own)) > MAX_QUESTION:
            raise RpcError(
                INVALID_PARAMS,
                f"Invalid params: the question has more than {MAX_QUESTION} characters, so it cannot be shown whole",
            )
        calls = [self._me.ledger.calls.requests.get(id) for id in request.correlation_id[:20]]
        known = [call for call in calls if call is not None]
        told = tuple(_describe_call(call, me=self._me.client.id) for call in known)
        about = dict.fromkeys(
            id for call in known for id in (call.envelope.id, *call.envelope.correlation_id)
        )
        warnings = more.pop("warnings")
        if not self._owns(request.sender) and not self._decided_here(request):
            warnings = ("no decision of yours has led to this question", *warnings)
        return Question(
            id=request.id,
            seq=next(self._seq),
            server=request.sender,
            calls=told,
            about=tuple(about),
            digest=sha256(compact(own).encode("utf-8", "surrogatepass")).hexdigest(),
            since=self._clock(),
            warnings=warnings,
            more=find_more(own, more.get("asked")),
            **more,
        )

    async def _wait(self, question: Question, params: Mapping[str, Any]) -> dict[str, Any]:
        waiting = _Waiting(question, params, asyncio.get_running_loop().create_future())
        self._open[question.id] = waiting
        self._subscribers.tell(question)
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            asking = "the cell" if question.kind == "start" else one_line(question.server, 60)
            self._end(question, f"{asking} does not wait for an answer any more")
            raise
        except RpcError as left:
            self._end(question, left.message)
            raise
        finally:
            del self._open[question.id]
            self.gate.forget(question.id)

    def _end(self, question: Question, why: str) -> None:
        self._put(replace(question, state="ended", outcome=why, decided_at=self._clock()))

    def _put(self, question: Question) -> None:
        self._past.pop(question.id, None)
        self._past[question.id] = question
        self._subscribers.tell(question)

    def _observe(self, envelope: Envelope) -> None:
        """Ends the questions of a participant that leaves."""
        if envelope.kind != "system/presence" or envelope.sender != GATEWAY or not self._open:
            return
        left = member(envelope.payload, "participant", "id")
        if envelope.payload.get("event") != "leave":
            return
        for waiting in tuple(self._open.values()):
            question = waiting.question
            if question.server == left and not question.file and not waiting.answer.done():
                waiting.answer.set_exception(
                    RpcError(REFUSED, f"{one_line(waiting.question.server, 60)} has left")
                )


class OpenQuestions(tuple[Question, ...]):
    """The open questions; `str` shows all of them whole, and then they count as shown."""

    _questions: Questions

    def __new__(cls, questions: Questions) -> OpenQuestions:
        made = super().__new__(cls, questions.pending())
        made._questions = questions
        return made

    def __str__(self) -> str:
        if not self:
            return "No server asks anything. A question that needs you appears here."
        lines = [f"[{n}] {self._questions.tell(question)}" for n, question in enumerate(self)]
        return "\n".join([*lines, "lab.answer(lab.questions()[0], {…}) answers the entry [0]"])

    def __repr__(self) -> str:
        return f"<{len(self)} open questions; print them to read them>"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(str(self))


def question_lines(question: Question) -> list[str]:
    """The lines of a question, each whole: who asks, for which call, the warnings, and all that is asked.

    A text of the server's is set in by four blanks, so that none of its lines passes for one of ours.
    """
    lines = [f"{visible(question.request)}   ({visible(question.id)})"]
    lines += [f"  for {visible(call)}" for call in question.calls]
    lines += [f"  ! {visible(warning)}" for warning in question.warnings]
    also = [f"  also in the question: {name} {value}" for name, value in more_of(question)]
    asked = question.asked
    if asked is None:
        for role, text in question.prompt:
            lines += [f"  {role}:", *_indented(text)]
        return [*lines, *also, "  Accepted, this is sent to the model, and its reply to the server."]
    lines += ["  message:", *_indented(asked.message)]
    if asked.url:
        address = [f"  host  {visible(asked.host)}", f"  {visible(asked.url)}"]
        return [*lines, *address, *also, "  Nothing is opened here."]
    for name in ("title", "description"):
        if name in asked.schema:
            lines += [f"  {name} of the form:", *_indented(asked.schema[name])]
    required = asked.schema.get("required")
    for name, field_schema in asked.schema["properties"].items():
        must = " (required)" if isinstance(required, list) and name in required else ""
        lines.append(f"  {_as_name(name)}{must}  {_as_text(field_schema)}")
        if "default" in field_schema:
            lines.append(
                f"    not sent unless you write it; the tool's default: {_as_text(field_schema['default'])}"
            )
    return [*lines, *also, f"  {sent_to(question)}"]


def find_more(params: Mapping[str, Any], asked: Elicitation | None) -> dict[str, Any]:
    """The params, and the members in them, that a question does not show in a place of their own."""
    if asked is None:
        own = {"messages", "systemPrompt"} if isinstance(params.get("systemPrompt"), str) else {"messages"}
        plain = all(
            set(message) <= {"role", "content"}
            and all(set(block) <= {"type", "text"} for block in _blocks_of(message))
            for message in params["messages"]
        )
        return {name: value for name, value in params.items() if name not in own or not plain}
    if asked.url:
        return {name: value for name, value in params.items() if name not in ("message", "mode", "url")}
    more = {
        name: value for name, value in params.items() if name not in ("message", "mode", "requestedSchema")
    }
    fields, required = asked.schema["properties"], asked.schema.get("required")
    known = isinstance(required, list) and all(isinstance(name, str) and name in fields for name in required)
    shown = {"type", "properties", "title", "description"} | ({"required"} if known else set())
    form = {name: value for name, value in asked.schema.items() if name not in shown}
    return more | ({"requestedSchema": form} if form else {})


def _blocks_of(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [content]


def more_of(question: Question) -> list[tuple[str, str]]:
    """What else the question has, as visible names and JSON."""
    return [(_as_name(name), _as_text(value)) for name, value in question.more.items()]


def _indented(text: object) -> list[str]:
    lines = text if isinstance(text, str) else compact(text)
    return [f"    {visible(line)}" for line in lines.split("\n")]


def _as_name(name: str) -> str:
    """A name of the server's: as JSON where it has more than one word, so that it cannot pass for words of ours."""
    return name if _NAME.fullmatch(name) and visible(name) == name else _as_text(name)


def _as_text(value: object) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False))


def sent_to(question: Question) -> str:
    """Where the answer goes, as a sentence."""
    server = one_line(question.server, 60)
    if question.kind == "start":
        return "It is allowed for this file and for this entry as it is now. Any change of the entry asks you again."
    return f"What you enter goes to the server {server}, and every participant of the space sees it."


def _describe_call(call: Any, *, me: str) -> str:
    arguments = member(call.payload, "params", "arguments")
    shown = one_line(compact(arguments), MAX_CALL) if arguments else ""
    whose = "your call" if call.sender == me else f"the call of {one_line(call.sender, 60)}"
    return f"{whose}: {one_line(call.tool or call.method, 60)}({shown})"


def _warnings(asked: Elicitation) -> tuple[str, ...]:
    if asked.url:
        return (*asked.remarks, *risks({"message": asked.message}))
    names = ", ".join(one_line(name, 40) for name in asked.secrets[:5])
    seen = "what you enter is seen by every participant and kept in the journal"
    secrets = [f"{names} looks like a secret: {seen}"] if names else []
    whole = [f"the question asks for a secret: {seen}"] if asked.is_secret else []
    fields = asked.schema["properties"]
    likeness = alike(fields, "the field")
    choices = [
        line
        for name, member in fields.items()
        for line in alike([str(value) for _, value in choices_of(member) or ()], f"in {one_line(name, 40)},")
    ]
    return (*secrets, *whole, *likeness, *choices[:MAX_ALIKE], *risks(asked.texts))


def read_prompt(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What would be sent to the model, as pairs of a role and a text.

    Raises:
        RpcError: it is malformed, too long, or holds more than text.
    """
    messages, system = params.get("messages"), params.get("systemPrompt")
    if params.get("tools"):
        raise RpcError(INVALID_PARAMS, "Invalid params: tools are not offered in sampling here")
    if not isinstance(messages, list) or not messages or len(messages) > MAX_MESSAGES:
        raise RpcError(INVALID_PARAMS, f"Invalid params: messages must be a list of 1 to {MAX_MESSAGES}")
    prompt: list[tuple[str, str]] = [("system", system)] if isinstance(system, str) and system else []
    for message in messages:
        role = message.get("role") if isinstance(message, Mapping) else None
        for block in _blocks_of(message) if isinstance(message, Mapping) else [None]:
            text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
            if role not in ("user", "assistant") or not isinstance(text, str):
                raise RpcError(
                    INVALID_PARAMS, "Invalid params: a message has a role and text; the model takes no other"
                )
            prompt.append((role, text))
    if not any(text for _, text in prompt):
        raise RpcError(INVALID_PARAMS, "Invalid params: the messages have no text")
    if sum(len(text) for _, text in prompt) > MAX_PROMPT:
        raise RpcError(INVALID_PARAMS, f"Invalid params: the messages have more than {MAX_PROMPT} characters")
    return tuple(prompt)


def _role(role: str) -> Literal["system", "user", "assistant"]:
    return "system" if role == "system" else "assistant" if role == "assistant" else "user"


def as_content(values: Mapping[str, Any] | Sequence[Any] | None) -> object:
    """The values of a form as JSON has them."""
    return dict(values) if isinstance(values, Mapping) else {} if values is None else values
