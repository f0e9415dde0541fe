"""Lets the person at an editor talk with one agent of a space, and decide the proposals that wait for that person.

How it works. The editor speaks the Agent Client Protocol, and takes the space for an agent. A prompt is a chat message
to the agent, and a turn ends with the agent's answer. What the agent reasons, its plan and its calls are updates of the
session to whose prompt they belong. Other chat of the agent to the person goes to the session that was used last.

Each proposal that the person may approve is a question in the editor: in the session to which it belongs, else in the
one that was used last. The question shows the text card of a terminal, whole. It offers to approve or to reject once,
or the options of an agent (R41) whose kinds are known, and gives no permission. What one press may not decide offers to
reject, and to leave it to mew-lab:

- a card that is too long for a question (`MAX_TEXT`, `MAX_LINES`);
- a repeat of a call of unknown outcome (R35), and what somebody has rejected (R32);
- a call whose client is gone, that names no target, or for which a quorum was missing.

What a rule or a policy of this lab decides is no question: the person is asked once these had their turn, and left it
open. A question that ends elsewhere is withdrawn; an editor that does not know that may show it on, and an answer to it
is told to come too late.

A question of an MCP server is a form in an editor that shows forms, and an address in any, with the text that a
terminal shows. What the editor cannot show whole is left to the owner of the server, and the person is told so.

An answer is a decision for what was asked, by its digest; the first decision wins (R32), and a later one is told so. An
answer that comes faster than a card is armed counts for nothing, and the question is put once more. The receipt says
`editor`, and has no time on a screen.

Everything runs on the loop of the lab, so there is no lock.

Spec: §3.2, §3.4, §3.5, MCP and ACP "Elicitation", rulings R29, R32, R35, R41.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from mew_lab.errors import MewError
from mew_lab.lab.actions import cancel_sequence
from mew_lab.lab.call_check import name_absent
from mew_lab.lab.decisions import cards
from mew_lab.lab.decisions.cards import MOST_NAME, Card, answer_of
from mew_lab.lab.decisions.questions import Question
from mew_lab.lab.decisions.text import card_lines, decided_line, tell_card
from mew_lab.lab.proposals import LabProposal
from mew_lab.lab.session import Session
from mew_lab.lab.standing import logical
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, mapping_of, text_of
from mew_lab.protocol.elicitation import ACTIONS
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible_lines
from mew_lab.sdk.calls import Call
from mew_lab.sdk.group import RunningTasks

__all__ = ["Editor", "EditorChoice", "EditorSessions", "choices_of"]

logger = logging.getLogger(__name__)

# A question is read in one go: at five lines of 40 characters a second more than a minute, in a narrow panel.
MAX_LINES = 200
MAX_TEXT = 10_000  # characters
MAX_SESSIONS = 50
MAX_PLACES = 10_000  # ids of messages that belong to a session
MAX_ROWS = 1_000  # calls whose row may change
MAX_CONSIDERED = 1_000  # open cards, for the next question
AT_ONCE = 8  # questions that wait for an answer
MAX_LATE = 100  # withdrawn questions, which the editor may still answer
MOST_ASKED = 3  # times that one proposal is asked about
SETTLED = 0.1  # seconds after which an editor knows its new session
MAX_CHAT = 200_000  # characters of a message of the agent
MAX_THOUGHT = 4_000
MAX_TITLE = 300
MAX_CALL = 2_000  # characters of the arguments of a call
MAX_ENTRIES = 200  # of a plan

KINDS = ("chat", "participant/status", "mcp/request", "mcp/response")
REASONING = ("reasoning/start", "reasoning/thought", "reasoning/conclusion", "reasoning/cancel")
SHOWN_METHODS = ("tools/call", "resources/read", "prompts/get")
OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
ONCE = ("allow_once", "reject_once")
TOOL_KINDS = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
)
STATUSES = frozenset({"pending", "in_progress", "completed", "failed"})
STATUS_OF = {
    "open": "pending",
    "deciding": "pending",
    "fulfilled": "in_progress",
    "done": "completed",
    "resolved": "completed",
}  # of a card; of any other state: failed
ENDED_ELSEWHERE = {
    "accepted": "it was answered elsewhere",
    "declined": "it was declined elsewhere",
    "cancelled": "it was dismissed elsewhere",
}  # by the state of a question of a server; of any other state its outcome says why
OF_THE_OWNER = "so the owner of that server is asked: in a notebook, on a page, or in mew-lab join"
ELSEWHERE = "Decide it in mew-lab: on its card in a notebook or on a page, or in mew-lab join"


class EditorChoice(NamedTuple):
    """An option of a question: its id there, its name and kind, and what it decides; nothing where that is empty.

    `option` is the id of the chosen option of an agent (R41).
    """

    id: str
    name: str
    kind: str
    decision: str = ""
    option: str = ""


class Editor(Protocol):
    """The editor."""

    def update(self, session: str, update: Mapping[str, Any]) -> None:
        """Shows an update of a session, in the words of the Agent Client Protocol."""

    async def ask(
        self,
        session: str,
        tool_call: Mapping[str, Any],
        options: Sequence[EditorChoice],
        withdrawn: asyncio.Event,
    ) -> str | None:
        """Asks the person about a call; returns the id of the chosen option, None where none was chosen.

        When `withdrawn` is set, nobody waits for an answer any more, and the editor is told so.
        """

    @property
    def shows_forms(self) -> bool:
        """Whether it shows forms for a person to fill in."""

    async def fill_in(
        self, session: str, message: str, schema: Mapping[str, Any], withdrawn: asyncio.Event
    ) -> Mapping[str, Any] | None:
        """Has the person fill in a form; returns its `action` and `content`, None where it was not answered.

        `withdrawn`: as in `ask`.
        """


@dataclass
class _PromptTurn:
    """A prompt that is worked on. `over` is set when its cancel was sent."""

    call: Call
    is_cancelled: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class _ProposalRow:
    """A proposal as a row of a session: its place and the text of its card."""

    session: str
    call_id: str
    text: str


class _EditorQuestion(NamedTuple):
    """A question that the editor has.

    Attributes:
        session: Where it is shown.
        task: Waits for its answer.
        withdrawn: Is set when it ends elsewhere.
    """

    session: str
    task: asyncio.Task[None]
    withdrawn: asyncio.Event


class _CardQuestion(NamedTuple):
    """A card as the editor is asked about it: its title, its text, and the options."""

    title: str
    text: str
    choices: tuple[EditorChoice, ...]


_Key = tuple[str, int]  # a proposal: its id, and its number, because an id may be used again (R6)


class EditorSessions:
    """The sessions of one editor with the agent `name`, as the person of `session`.

    Args:
        on_proposal: Calls a function with each proposal, as `lab.on_proposal` does.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        editor: Editor,
        *,
        on_proposal: Callable[[Callable[[LabProposal], object]], Callable[[], None]],
    ) -> None:
        self._session = session
        self._name = name
        self._editor = editor
        self._listen = on_proposal
        self._decisions = session.decisions
        self._me = session.me.participant
        self._turns: dict[str, _PromptTurn | None] = {}  # session -> its turn
        self._current = ""  # the session that was used last
        self._places: BoundedDict[str, str] = BoundedDict(MAX_PLACES)  # id of a message -> session
        self._rows: BoundedDict[_Key, _ProposalRow] = BoundedDict(MAX_ROWS)
        self._calls: BoundedDict[str, str] = BoundedDict(MAX_ROWS)  # own calls of the agent -> session
        self._steps: BoundedDict[tuple[str, str], None] = BoundedDict(MAX_ROWS)  # tool calls in thoughts
        self._asking: dict[_Key, _EditorQuestion] = {}  # about cards
        self._passed: dict[str, _EditorQuestion] = {}  # open questions of servers, by their ids
        self._late: dict[asyncio.Task[None], None] = {}  # of what is decided
        self._asked: BoundedDict[_Key, int] = BoundedDict(MAX_PLACES)  # how often
        self._tasks = RunningTasks(report=self._report)
        self._ends: list[Callable[[], None]] = []

    def open(self) -> None:
        """Begins to follow the space. To be called on the loop."""
        self._ends = [
            self._me.client.on_message(self._observe, kinds=(*KINDS, *REASONING)),
            self._listen(self._take_proposal),
            self._decisions.left_open.add(self._consider),
            self._session.asked.subscribe(self._take_question),
        ]

    async def close(self) -> None:
        """Ends it; what the editor was asked stays open in the space, and no prompt is cancelled."""
        for end in self._ends:
            end()
        self._turns.clear()
        await self._tasks.end(within=1.0)

    def _report(self, fault: Exception) -> None:
        logger.error("%s", one_line(f"{type(fault).__name__}: {fault}", 300), exc_info=fault)

    # --- what the editor asks for ---

    @property
    def title(self) -> str:
        """What the editor calls the agent."""
        return f"{one_line(self._name, 64)} in {one_line(self._session.space, 64)}"

    def begin_session(self) -> str:
        """Begins a session; returns its id.

        Raises:
            MewError: There are too many.
        """
        if len(self._turns) >= MAX_SESSIONS:
            raise MewError(f"No session was begun: {MAX_SESSIONS} are open, so close one first")
        id = f"mew-{self._me.client.new_id()}"
        self._turns[id] = None
        self._current = self._current or id
        asyncio.get_running_loop().call_later(SETTLED, self._ask_next)
        return id

    def end_session(self, session: str) -> None:
        """Ends a session, and cancels its turn.

        Raises:
            MewError: There is none.
        """
        self._find(session)
        self.cancel(session)
        del self._turns[session]
        for key, asked in tuple(self._asking.items()):
            if (row := self._rows.get(key)) is not None and row.session == session:
                asked.task.cancel()
                del self._asking[key], self._rows[key]
        if self._current == session:
            self._current = next(reversed(self._turns), "")
        self._ask_next()

    async def prompt(self, session: str, text: str) -> str:
        """Sends a prompt to the agent; returns `end_turn` after its answer, or `cancelled`.

        Raises:
            MewError: A turn goes on in this session, or nothing was sent.
        """
        running = self._find(session)
        if running is not None and not running.is_cancelled:
            raise MewError(
                "Not sent: a turn goes on in this session, which takes one prompt at a time; cancel it first"
            )
        if not text.strip():
            raise MewError("Not sent: the prompt holds no text")
        here = [*self._me.client.participants]
        if self._name not in here:
            raise MewError(f"Not sent: {name_absent([self._name], here)}")
        turn = self._turns[session] = _PromptTurn(self._me.ask(text, [self._name]))
        self._current = session
        self._places[turn.call.id] = session
        answer = asyncio.ensure_future(turn.call.outcome())
        over = asyncio.ensure_future(turn.over.wait())
        try:
            await asyncio.wait({answer, over}, return_when=asyncio.FIRST_COMPLETED)
            if turn.is_cancelled:
                await over
                return "cancelled"
            if (fault := answer.exception()) is not None:
                self._say(session, self._explain(fault))
            return "end_turn"
        finally:
            for waiting in (answer, over):
                waiting.cancel()
            if self._turns.get(session) is turn:
                self._turns[session] = None

    def _explain(self, fault: BaseException) -> str:
        if not isinstance(fault, MewError):
            raise fault
        gone = self._name not in self._me.client.participants and self._me.client.state == "ready"
        left = f"{one_line(self._name, 64)} has left {one_line(self._session.space, 64)}. " if gone else ""
        return f"{left}{visible_lines(str(fault))}"

    def cancel(self, session: str) -> None:
        """Cancels the turn of a session: its prompt, and what the agent reasons about it; does nothing without one."""
        turn = self._turns.get(session)
        if turn is not None and not turn.is_cancelled:
            turn.is_cancelled = True
            self._tasks.start(self._cancel(turn, session))

    async def _cancel(self, turn: _PromptTurn, session: str) -> None:
        try:
            await turn.call.withdraw("cancelled")
            for sequence in self._me.ledger.reasoning.active():
                if self._is_agent(sequence.owner) and turn.call.id in sequence.about:
                    await cancel_sequence(self._me, sequence, "cancelled")
        except MewError as fault:
            self._say(session, f"The cancel was not sent whole: {visible_lines(str(fault))}")
        finally:
            turn.over.set()

    def _find(self, session: str) -> _PromptTurn | None:
        if session not in self._turns:
            raise MewError(f"There is no session {one_line(session, 80)!r} here; begin one")
        return self._turns[session]

    # --- what the agent does ---

    def _is_agent(self, id: str) -> bool:
        return logical(self._session, id) == self._name

    def _say(self, session: str, text: str) -> None:
        self._update(session, "agent_message_chunk", content=_block(f"{text}\n\n"))

    def _think(self, session: str, text: str) -> None:
        if text.strip():
            text = visible_lines(text[:MAX_THOUGHT])
            self._update(session, "agent_thought_chunk", content=_block(f"{text}\n\n"))

    def _update(self, session: str, name: str, /, **more: Any) -> None:
        if session in self._turns:
            self._editor.update(session, {"sessionUpdate": name, **more})

    def _place_of(self, envelope: Envelope) -> str:
        """The session to which a message belongs, by what it refers to; empty where it belongs to none."""
        context = envelope.context.split("/") if envelope.context else []
        for id in (*envelope.correlation_id, *context):
            if (session := self._places.get(id)) in self._turns:
                return session or ""
        return ""

    def _observe(self, envelope: Envelope) -> None:
        kind = envelope.kind
        if kind == "mcp/response":
            for id in envelope.correlation_id:
                if id in self._calls:
                    self._end_call(id)
            return
        if not self._is_agent(envelope.sender):
            return
        session = self._place_of(envelope)
        if kind == "chat":
            self._take_chat(envelope, session)
        elif kind == "participant/status":
            self._take_status(envelope.payload)
        elif session and kind == "mcp/request":
            self._begin_call(envelope, session)
        elif session:
            if kind == "reasoning/start":
                self._places[envelope.id] = session
            self._take_reasoning(envelope.payload, session)

    def _take_chat(self, envelope: Envelope, session: str) -> None:
        to = {logical(self._session, id) for id in envelope.to}
        is_for_me = self._me.client.id in envelope.to or self._session.me.name in to
        if not session and (is_for_me or not (to or envelope.correlation_id)):
            session = self._current
        if text := text_of(envelope.payload.get("text")):
            more = f"\n[{len(text) - MAX_CHAT} characters more are left out]" if len(text) > MAX_CHAT else ""
            self._say(session, visible_lines(text[:MAX_CHAT]) + more)

    def _take_status(self, payload: Mapping[str, Any]) -> None:
        used, size = payload.get("tokens"), payload.get("max_tokens")
        if type(used) is int and type(size) is int and used >= 0 and size > 0:
            for session, turn in self._turns.items():
                if turn is not None:
                    self._update(session, "usage_update", used=used, size=size)

    def _take_reasoning(self, payload: Mapping[str, Any], session: str) -> None:
        if isinstance(payload.get("plan"), list):
            self._take_plan(payload["plan"], session)
        elif isinstance(payload.get("tool_call"), Mapping):
            self._take_step(payload["tool_call"], session)
        else:
            self._think(session, text_of(payload.get("message")) or text_of(payload.get("reason")))

    def _take_plan(self, told: Sequence[Any], session: str) -> None:
        entries = []
        for entry in map(mapping_of, told[:MAX_ENTRIES]):
            status, priority = entry.get("status"), entry.get("priority")
            entries.append(
                {
                    "content": line_of(entry.get("content"), 1000),
                    "status": status if status in ("pending", "in_progress", "completed") else "pending",
                    "priority": priority if priority in ("high", "medium", "low") else "medium",
                }
            )
        self._update(session, "plan", entries=entries)

    def _take_step(self, call: Mapping[str, Any], session: str) -> None:
        """Takes a state of a tool call of a coding agent, as its thoughts tell it."""
        id = f"step-{line_of(call.get('id'), 200)}"
        kind, status = call.get("kind"), call.get("status")
        not_asked = ", not asked" if status in ("completed", "failed") and call.get("asked") is False else ""
        row = {
            "toolCallId": id,
            "title": f"{line_of(call.get('title'), MAX_TITLE) or 'untitled'}{not_asked}",
            "kind": kind if kind in TOOL_KINDS else "other",
            "status": status if status in STATUSES else "in_progress",
        }
        given = call.get("rawInput")
        content = [_text_content(_shown_json(given))] if given is not None else []
        is_new = (session, id) not in self._steps
        self._steps[session, id] = None
        self._update(session, "tool_call" if is_new else "tool_call_update", **row, content=content)

    def _begin_call(self, envelope: Envelope, session: str) -> None:
        """Shows a call that the agent makes by its own right."""
        payload = envelope.payload
        method = text_of(payload.get("method"))
        if method not in SHOWN_METHODS or envelope.id in self._calls:
            return
        params = mapping_of(payload.get("params"))
        what = text_of(params.get("name")) or text_of(params.get("uri")) or method
        self._calls[envelope.id] = session
        self._places[envelope.id] = session
        self._update(
            session,
            "tool_call",
            toolCallId=f"call-{envelope.id}",
            title=f"{one_line(', '.join(envelope.to) or 'anybody', 80)}/{one_line(what, 80)}",
            kind="other",
            status="in_progress",
            content=[_text_content(_shown_json(params.get("arguments") or {}))],
        )

    def _end_call(self, id: str) -> None:
        request = self._me.ledger.calls.requests.get(id)
        if request is None or request.response is None or request.state == "waiting":
            return
        session = self._calls.pop(id)
        found = answer_of(
            request.response.envelope, method=request.method, what=request.tool or request.method
        )
        is_done = request.state == "answered" and not found.failed
        self._update(
            session,
            "tool_call_update",
            toolCallId=f"call-{id}",
            status="completed" if is_done else "failed",
            content=[_text_content(found.text)],
        )

    # --- proposals ---

    def _take_proposal(self, proposal: LabProposal) -> None:
        card = self._decisions.queue.find(proposal.id)
        if card is None or (card.digest, card.state) != (proposal.digest, proposal.state):
            return  # it has changed since; that is told, too
        key = (card.id, card.seq)
        row = self._rows.get(key)
        if card.state == "open":
            if row is None and (known := self._me.proposals.get(card.id)) and self._place_of(known.envelope):
                self._add_row(card)
            # Rules and the policy judge a card after this change of it was told, and before the loop's next turn.
            asyncio.get_running_loop().call_soon(self._consider, card)
            return
        if card.state != "deciding":  # a question may be open about a row that was forgotten
            self._put_aside(key)
        if row is None:
            return
        told = "" if card.state == "deciding" else decided_line(card)
        self._tell(card, row, told)

    def _add_row(self, card: Card) -> _ProposalRow | None:
        """Adds the row of a proposal to the session in which it is shown; None where it is shown in none yet."""
        proposal = self._me.proposals.get(card.id)
        if proposal is None or proposal.seq != card.seq:
            return None
        session = self._place_of(proposal.envelope)
        if not session and self._decisions.is_mine(card):
            session = self._current
        if session not in self._turns:
            return None
        row = self._rows[card.id, card.seq] = _ProposalRow(
            session, f"proposal-{card.seq}-{card.id}", _shown_card(card)[0]
        )
        self._update(session, "tool_call", **self._row(card, row, ""))
        return row

    def _row(self, card: Card, row: _ProposalRow, told: str) -> dict[str, Any]:
        status = "failed" if card.failed else STATUS_OF.get(card.state, "failed")
        content = [_text_content(text) for text in (row.text, told) if text]
        return {
            "toolCallId": row.call_id,
            "title": _title(card),
            "kind": "other",
            "status": status,
            "content": content,
        }

    def _tell(self, card: Card, row: _ProposalRow, told: str) -> None:
        self._update(row.session, "tool_call_update", **self._row(card, row, told))

    def _consider(self, card: Card) -> None:
        """Asks the editor about a card that is open and left to the person, where that is still to be done."""
        key = (card.id, card.seq)
        if key in self._asking or len(self._asking) >= AT_ONCE or self._asked.get(key, 0) >= MOST_ASKED:
            return
        now = self._decisions.queue.find(card.id)
        if now is None or (now.seq, now.state) != (card.seq, "open") or not self._turns:
            return
        if self._decisions.is_automatic(now) or not self._decisions.is_mine(now):
            return
        row = self._rows.get(key) or self._add_row(now)
        if row is None:
            return
        self._asked[key] = self._asked.get(key, 0) + 1
        withdrawn = asyncio.Event()
        task = self._tasks.start(self._ask(now, row, withdrawn))
        asked = self._asking[key] = _EditorQuestion(row.session, task, withdrawn)

        def end(_: object) -> None:
            if self._asking.get(key) is asked:
                del self._asking[key]
                self._ask_next()

        task.add_done_callback(end)

    def _ask_next(self) -> None:
        """Asks about the oldest open cards, as long as there is room for a question."""
        if not self._turns:
            return
        waiting = (card for card in self._decisions.pending() if card.state == "open")
        for card in islice(waiting, MAX_CONSIDERED):
            if len(self._asking) >= AT_ONCE:
                return
            self._consider(card)

    def _put_aside(self, key: _Key) -> None:
        """Withdraws the question about what is decided, and makes room for another one."""
        if (asked := self._asking.pop(key, None)) is not None:
            self._withdraw(asked)
            asyncio.get_running_loop().call_soon(self._ask_next)

    def _withdraw(self, asked: _EditorQuestion) -> None:
        """Withdraws a question at the editor, which may still answer it."""
        asked.withdrawn.set()
        self._late[asked.task] = None
        asked.task.add_done_callback(lambda task: self._late.pop(task, None))
        if len(self._late) > MAX_LATE:
            oldest = next(iter(self._late))
            del self._late[oldest]
            oldest.cancel()

    async def _ask(self, card: Card, row: _ProposalRow, withdrawn: asyncio.Event) -> None:
        try:
            question = await self._question(card)
        except MewError as fault:  # it was decided meanwhile
            self._tell(card, row, str(fault))
            return
        row.text = question.text
        self._tell(card, row, "")
        asked = {**self._row(card, row, ""), "title": question.title}
        began = asyncio.get_running_loop().time()
        chosen = await self._editor.ask(row.session, asked, question.choices, withdrawn)
        took = asyncio.get_running_loop().time() - began
        choice = next((one for one in question.choices if one.id == chosen), None)
        if withdrawn.is_set():
            if choice is None or not choice.decision:
                return  # its row tells what became of it
            took = math.inf  # that it was decided is told, however fast the answer came
        told = await self._carry_out(card, question, choice, took)
        now = self._decisions.queue.find(card.id)
        if now is not None and now.seq == card.seq:
            self._tell(now, row, told)

    async def _carry_out(
        self, card: Card, question: _CardQuestion, choice: EditorChoice | None, took: float
    ) -> str:
        """Carries out the answer of the editor to a question; returns one sentence."""
        key = (card.id, card.seq)
        if choice is None or not choice.decision:
            self._asked[key] = MOST_ASKED
            return ELSEWHERE if choice is not None else f"Nothing was decided here. {ELSEWHERE}"
        is_approval = choice.decision == "approve"
        if is_approval and took < cards.ARMING:
            return f"Not approved: nobody reads it within {took:.2f} s. {self._what_follows(key)}"
        now = self._decisions.queue.find(card.id)
        if is_approval and now is not None and now.is_open and _shown_card(now) != _shown_card(card):
            return f"Not approved: more is known of it now. {self._what_follows(key)}"
        try:
            self._decisions.queue.check_same(card)
            told = await self._decisions.carry_out(
                card.id,
                digest=card.digest,
                decision=choice.decision,
                in_editor=True,
                option=choice.option,
            )
        except MewError as fault:
            return str(fault)
        # Another decision may have come first in the gateway's order, and the answer of the tool before this.
        now = self._decisions.queue.find(card.id)
        return told if now is None or now.is_open else decided_line(now)

    def _what_follows(self, key: _Key) -> str:
        left = MOST_ASKED - self._asked.get(key, 0)
        return "It is asked once more." if left > 0 else ELSEWHERE

    async def _question(self, card: Card) -> _CardQuestion:
        """The question about a card; its text counts as shown where it holds the whole card.

        Raises:
            MewError: It is not open any more.
        """
        why = _obstacle(card)
        text, is_whole = _shown_card(card)
        if is_whole and not why:
            text = await tell_card(self._decisions, card)
            if not (is_whole := _fits(text)):
                self._decisions.gate.forget_views(card.id, texts=True)
                text = _cut(text)
        if not is_whole:
            why = why or "its card is too long for an editor"
        if why:
            text = f"{text}\n\nIt cannot be approved here: {why}. {ELSEWHERE}"
        return _CardQuestion(_title(card), text, choices_of(card, only_reject=bool(why)))

    # --- questions of servers ---

    def _take_question(self, question: Question) -> None:
        if question.is_open and question.kind in ("form", "url"):
            places = (row.session for (id, _), row in self._rows.items() if id in question.about)
            session = next((place for place in places if place in self._turns), self._current)
            withdrawn = asyncio.Event()
            task = self._tasks.start(self._pass_on(question, session, withdrawn))
            self._passed[question.id] = _EditorQuestion(session, task, withdrawn)
        elif (asked := self._passed.pop(question.id, None)) is not None:
            self._withdraw(asked)
            if question.kind == "url":
                status = "completed" if question.state == "accepted" else "failed"
                self._update(asked.session, "tool_call_update", **_question_row(question, status))
            why = ENDED_ELSEWHERE.get(question.state) or one_line(question.outcome, MAX_TITLE)
            self._say(
                asked.session,
                f"Withdrawn: {visible_lines(question.request)}, and {visible_lines(why)}. An answer here is not sent.",
            )

    async def _pass_on(self, question: Question, session: str, withdrawn: asyncio.Event) -> None:
        """Passes a question on to the editor, in the session of its call; or leaves it to the owner of the server."""
        asked, text = self._session.asked, self._session.asked.tell(question)
        can_be_shown = session in self._turns and _fits(text)
        if question.kind == "form":
            can_be_shown = can_be_shown and self._editor.shows_forms
        for _ in range(MOST_ASKED if can_be_shown else 0):
            if withdrawn.is_set():
                return
            began = asyncio.get_running_loop().time()
            action, content = await self._let_answer(session, question, text, withdrawn)
            took = asyncio.get_running_loop().time() - began
            if withdrawn.is_set():
                if action != "cancel":
                    self._say(
                        session, f"Not sent, because it came too late: your answer to “{question.request}”"
                    )
                return
            if action == "accept" and took < cards.ARMING:
                self._say(session, f"Not answered: nobody reads it within {took:.2f} s.")
                continue
            shown = self._passed.pop(question.id)  # what ends it from here on is this answer
            try:
                told = await asked.carry_out(
                    question.id, digest=question.digest, action=action, content=content, in_editor=True
                )
            except MewError as fault:
                told = str(fault)
                if any(one.id == question.id for one in asked.pending()):
                    self._passed[question.id] = shown
                    self._say(session, visible_lines(told))
                    continue
            self._say(session, visible_lines(told))
            return
        if self._passed.pop(question.id, None) is None:
            return  # it has ended
        why = "It was not answered here" if can_be_shown else "This editor does not show it whole"
        asked.pass_on(question.id, f"nobody answered in the editor of {one_line(self._me.client.id, 60)}")
        self._say(session, f"{visible_lines(question.request)}. {why}, {OF_THE_OWNER}")

    async def _let_answer(
        self, session: str, question: Question, text: str, withdrawn: asyncio.Event
    ) -> tuple[str, object]:
        """What the person does with a question, `accept`, `decline` or `cancel`, and the content of a form."""
        assert question.asked is not None
        if question.kind == "form":
            schema = question.asked.schema
            # A value that the server proposes is not sent unless a person writes it.
            fields = {
                name: {key: value for key, value in mapping_of(about).items() if key != "default"}
                for name, about in mapping_of(schema.get("properties")).items()
            }
            form = {**schema, "properties": fields}
            answer = await self._editor.fill_in(session, _fenced(text), form, withdrawn)
            action = text_of(mapping_of(answer).get("action"))
            return (action if action in ACTIONS else "cancel"), mapping_of(answer).get("content")
        row = {**_question_row(question, "pending"), "content": [_text_content(text)]}
        self._update(session, "tool_call", **row)
        options = (
            EditorChoice("accept", "Accept", "allow_once"),
            EditorChoice("decline", "Decline", "reject_once"),
        )
        chosen = await self._editor.ask(session, row, options, withdrawn)
        if not withdrawn.is_set():
            ended = {**row, "status": "completed" if chosen == "accept" else "failed"}
            self._update(session, "tool_call_update", **ended)
        return (chosen if chosen in ACTIONS else "cancel"), None


def _question_row(question: Question, status: str) -> dict[str, Any]:
    """The row of a question that is no form, without its content."""
    return {
        "toolCallId": f"question-{question.id}",
        "title": one_line(question.request, MAX_TITLE),
        "kind": "other",
        "status": status,
    }


def _obstacle(card: Card) -> str:
    """Why one press may not approve a card, which completes "It cannot be approved here: …"; empty where it may."""
    if card.refusal:
        return card.refusal
    if card.repeats:
        return "it may run a call twice"
    if card.rejected:
        return "it was rejected before"
    if card.caller:
        return "its client does not wait for it"
    if card.unmet:
        return "its executor wants the yes of others, too"
    return "" if card.to else "it names no target"


def choices_of(card: Card, *, only_reject: bool) -> tuple[EditorChoice, ...]:
    """The options of a question. Nothing that a client may choose by itself allows more than this one call."""
    reject = EditorChoice("reject", "Reject", "reject_once", "reject")
    leave = EditorChoice("leave", "Decide in mew-lab", "reject_once")
    if only_reject:
        return (reject, leave)
    if (asked := card.permission) is None:
        return (EditorChoice("approve", "Approve once", "allow_once", "approve"), reject)
    known = [
        EditorChoice(f"option-{n}", one_line(one.name, MOST_NAME), one.kind, "approve", one.id)
        for n, one in enumerate(asked.options, 1)
        if one.kind in OPTION_KINDS
    ]
    if not known or known[0].kind not in ONCE:  # many clients have the first one at hand
        return (leave, *known)
    is_whole = len(known) == len(asked.options) and any(one.kind == "reject_once" for one in known)
    return tuple(known) if is_whole else (*known, leave)


def _title(card: Card) -> str:
    """The title of a question: a warning first."""
    warnings = tuple(filter(None, (card.repeats, card.refusal, *card.warnings)))
    if not warnings:
        return one_line(card.request, MAX_TITLE)
    more = f" (and {count_of(len(warnings) - 1, 'more warning')})" if len(warnings) > 1 else ""
    return f"Warning: {one_line(warnings[0], MAX_TITLE)}{more}. {one_line(card.request, MAX_TITLE)}"


def _shown_card(card: Card) -> tuple[str, bool]:
    """The card as a text that an editor can show, and whether that is all of it; else its long rows are cut."""
    if sum(len(name) + len(value) for name, value in card.arguments) <= MAX_TEXT:
        text = "\n".join(card_lines(card))
        if _fits(text):
            return text, True
    return _cut("\n".join(card_lines(card, cut=True))), False


def _fits(text: str) -> bool:
    return len(text) <= MAX_TEXT and text.count("\n") < MAX_LINES


def _cut(text: str) -> str:
    lines = text[:MAX_TEXT].split("\n")[:MAX_LINES]
    shown = "\n".join(lines)
    return shown if len(shown) == len(text) else f"{shown}\n[cut: {len(text) - len(shown)} characters more]"


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _text_content(text: str) -> dict[str, Any]:
    """A text that an editor shows as it is: editors read text as Markdown, and nothing in a fence is that."""
    return {"type": "content", "content": _block(_fenced(text))}


def _fenced(text: str) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{visible_lines(text)}\n{fence}"


def _shown_json(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), MAX_CALL)
