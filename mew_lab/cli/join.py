"""`mew-lab join`: takes part in a space from a terminal. A typed line is a chat message, an envelope or a command."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mew_lab.cli import shell
from mew_lab.cli.terminal import Console
from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.cards import Card, type_in_terminal
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.questions import Question, Questions
from mew_lab.lab.decisions.text import Proposals, tell_card
from mew_lab.lab.labs import close_all, connect
from mew_lab.lab.seat import Seat
from mew_lab.lab.shared_options import PERSON, add_shared, person_arguments
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.visible import visible
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["HELP", "Quit", "TypedLast", "Verbs", "add_options", "obey", "run"]

MOST_TOLD = 1000  # proposals of which a person was told
MOST_NAMED = 5

HELP = """\
TEXT                            sends a chat message to all participants
{"kind": …}                     sends this message as JSON
/approve [ID] [digest=D] [despite=WHAT] [PARTICIPANT]
                                approves a proposal: the first time shows its card, the second approves it;
                                without ID it is the only one that waits;
                                or at once with the first 8 characters of the shown digest;
                                despite=rejected approves what a participant has rejected, despite=unknown a repeat of
                                a call of which nobody knows whether it took effect;
                                PARTICIPANT is the target of a proposal that names none
/reject ID [REASON]             rejects a proposal
/withdraw ID [REASON]           withdraws your own proposal
/cancel ID [REASON]             cancels a call that runs: yours, one that you proposed, or any as the owner
/stop                           stops everything at once: nothing is approved, calls are cancelled, agents paused
/go                             goes on: lists what that undoes, and typed again does it
/propose PARTICIPANT/TOOL JSON  proposes a tool call
/call PARTICIPANT/TOOL JSON     calls a tool, or proposes the call where you may only propose
/answer ID [JSON]               answers a question of an MCP server; JSON has the values of its form
/decline ID  /dismiss ID        says no to it, or dismisses it without an answer
/questions  /proposals  /who  /tools [PARTICIPANT]  /status
/quit                           leaves the space; //TEXT sends a text that begins with a slash
For an ID its beginning will do, such as the four characters that are told."""


class Quit(Exception):
    """Raised by `/quit`."""


class Verbs(Protocol):
    """The person's seat, and the methods of a lab that a typed line can call."""

    @property
    def me(self) -> Seat: ...
    @property
    def decisions(self) -> HumanDecisions: ...
    def approve(
        self, proposal: str, *, to: Sequence[str] | None, digest: str, despite: Sequence[str]
    ) -> object: ...
    def reject(self, proposal: str, reason: str) -> object: ...
    def withdraw(self, proposal: str, reason: str) -> object: ...
    def cancel(self, call: str, reason: str) -> object: ...
    def stop(self) -> object: ...
    def go(self) -> object: ...
    def proposals(self) -> Proposals: ...
    def questions(self) -> object: ...
    def answer(self, question: str, values: Mapping[str, object] | None, *, action: str) -> object: ...
    def who(self) -> object: ...
    def tools(self, participant: str | None) -> object: ...
    def status(self) -> object: ...


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "ws://… of the gateway; default: the space that runs in this folder, else that of MEW_GATEWAY"
    parser.add_argument("url", metavar="URL", nargs="?", help=about)
    shell.add_elsewhere(parser)
    add_shared(parser, PERSON)
    parser.add_argument("--no-color", action="store_true", help="prints no colours")


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The space cannot be joined, or the connection is lost for good.
    """
    if options.url is not None:
        shell.check_address(options.url, options)
    try:
        lab = connect(
            options.url,
            space=options.space,
            token_file=options.token_file,
            token_env=options.token_env,
            as_id=options.as_id,
            **person_arguments(options),
        )
        client = lab.me.participant.client
        shell.say(f"You are {client.id} in {lab.space}; /help lists the commands.")
        lab.asked.subscribe(lambda question: _show_question(lab.asked, question))
        lab.decisions.type_it, lab.decisions.tells_changes = type_in_terminal, True
        lab.decisions.gate.to_go_on = "/go"
        calls = _Calls(lab.me.participant, lab.decisions)
        lab.decisions.subscribe(calls.take)
        console = Console(lab.rows, client, url=lab.url, say=shell.say, colour=shell.use_colour(options))
        shown = TypedLast()
        for line in console.lines(reading=True):
            try:
                if answer := obey(lab, line, shown):
                    shell.say(answer)
            except Quit:
                return
            except NotApproved as told:  # its lines are what would be sent, and are read
                shell.warn(str(told))
            except MewError as fault:
                shell.tell_failure("join", str(fault))
    finally:
        close_all()


class _Calls:
    """Calls the person for each proposal that waits for this person's decision, once; rings where none waited before."""

    def __init__(self, me: MEWParticipant, decisions: HumanDecisions) -> None:
        self._me = me
        self._decisions = decisions
        self._told = BoundedDict[str, None](MOST_TOLD)
        self._waiting = BoundedDict[str, None](MOST_TOLD)

    def take(self, card: Card) -> None:
        """Takes the new state of a card."""
        if card.state != "open":
            self._waiting.pop(card.id, None)
            return
        if card.id in self._told or not _is_mine(self._me, card):
            return
        self._told[card.id] = None
        id = visible(_short_id(self._decisions, card))
        shell.say(
            f"{card.request}. It needs your approval: /approve {id} shows the call, /reject {id} rejects it"
        )
        if not self._waiting:
            shell.ring()
        self._waiting[card.id] = None


def _is_mine(me: MEWParticipant, card: Card) -> bool:
    """Whether another participant proposed it, and this person may approve it."""
    proposal = me.proposals.get(card.id)
    if proposal is None or card.proposer == me.client.id:
        return False
    return me.can_send("mcp/request", proposal.payload, to=proposal.to)


def _short_id(decisions: HumanDecisions, card: Card) -> str:
    """The beginning of its proposal's id that means this card alone. Spec: R37."""
    for length in (4, 8, 12):
        with contextlib.suppress(MewError):
            if decisions.card(card.id[:length]).id == card.id:
                return card.id[:length]
    return card.id


def _show_question(asked: Questions, question: Question) -> None:
    if question.is_open:
        text, id = asked.tell(question), visible(question.id)
        shell.say(f"{text}\n/answer {id} JSON answers it; /help lists the other answers")


@dataclass
class TypedLast:
    """What `/approve` without an id has shown last: the id and the digest of the card; empty for nothing."""

    id: str = ""
    digest: str = ""


def obey(verbs: Verbs, line: str, shown: TypedLast | None = None) -> str:
    """Carries out a typed line; returns the text to print. `shown` is what earlier lines have shown.

    Raises:
        Quit: The line is `/quit` or `/exit`.
        MewError: The line cannot be carried out; the message says why.
    """
    line = line.strip()
    seat = verbs.me
    if line.startswith("{"):
        draft = read_strict(line)
        seat.check_draft(draft)
        sent = seat.run(seat.participant.send_accepted(draft))
        return f"sent {sent.id}"
    if not line.startswith("/") or line.startswith("//"):
        if line:
            seat.chat(line.removeprefix("/") if line.startswith("//") else line)
        return ""
    word, _, rest = line[1:].partition(" ")
    if word in ("quit", "exit"):
        raise Quit
    if word == "help":
        return HELP
    if word not in _VERBS:
        raise MewError(f"There is no command /{word[:40]}; /help lists the commands")
    verb = _VERBS[word]
    if word == "approve" and not rest.strip():
        return str(_approve_only(verbs, TypedLast() if shown is None else shown))
    first, _, more = rest.strip().partition(" ")
    if verb.needs and not first:
        raise MewError(f"/{word} needs {verb.needs}")
    return str(verb.call(verbs, first, more.strip()))


class _Verb(NamedTuple):
    needs: str  # the argument that must follow it, for the error without it
    call: Callable[[Verbs, str, str], object]


def _read_arguments(text: str) -> dict[str, object]:
    return read_strict(text) if text else {}


def _approve(verbs: Verbs, id: str, more: str) -> object:
    words = more.split()
    digests = [word.removeprefix("digest=") for word in words if word.startswith("digest=")]
    despite = [word.removeprefix("despite=") for word in words if word.startswith("despite=")]
    to = [word for word in words if not word.startswith(("digest=", "despite="))]
    return verbs.approve(id, to=to or None, digest=digests[0] if digests else "", despite=despite)


def _approve_only(verbs: Verbs, shown: TypedLast) -> object:
    """Shows the only proposal that waits for this person; approves it where the last such command has shown this one."""
    decisions, me = verbs.decisions, verbs.me.participant
    open_cards = [card for card in decisions.pending() if card.is_open and _is_mine(me, card)]
    if len(open_cards) != 1:
        ids = ", ".join(f"/approve {visible(_short_id(decisions, card))}" for card in open_cards[:MOST_NAMED])
        raise MewError(
            f"{len(open_cards)} proposals wait for you, so say which: {ids}; /proposals lists them"
            if open_cards
            else "No proposal waits for your approval; /approve ID shows another one"
        )
    [card] = open_cards
    was_shown = (shown.id, shown.digest) == (card.id, card.digest) and decisions.gate.was_shown_whole(card)
    if card.is_read and not was_shown:
        # Another command may have shown it before: what is meant now is seen now.
        told = verbs.me.run(tell_card(decisions, card))
        shown.id, shown.digest = card.id, card.digest
        raise NotApproved(
            f"Not approved yet: this is what would be sent.\n{told}\nTo approve it, repeat /approve.",
            code="not_shown",
        )
    return verbs.approve(card.id, to=None, digest=card.digest, despite=())


def _list_proposals(verbs: Verbs) -> Proposals:
    listed = verbs.proposals()
    listed.to_see = "/approve {id}"
    if listed:
        listed.note = "/approve ID shows the call, and typed again sends it; /reject ID [REASON] rejects it"
    return listed


_VERBS: Mapping[str, _Verb] = {
    "approve": _Verb("the id of a proposal", _approve),
    "reject": _Verb("the id of a proposal", lambda verbs, id, why: verbs.reject(id, why or "disagree")),
    "withdraw": _Verb(
        "the id of a proposal", lambda verbs, id, why: verbs.withdraw(id, why or "no_longer_needed")
    ),
    "cancel": _Verb("the id of a call", lambda verbs, id, why: verbs.cancel(id, why or "no_longer_needed")),
    "stop": _Verb("", lambda verbs, _, __: verbs.stop()),
    "go": _Verb("", lambda verbs, _, __: verbs.go()),
    "propose": _Verb(
        "participant/tool", lambda verbs, name, text: verbs.me.propose(name, _read_arguments(text))
    ),
    "call": _Verb("participant/tool", lambda verbs, name, text: verbs.me.call(name, _read_arguments(text))),
    "answer": _Verb(
        "the id of a question",
        lambda verbs, id, text: verbs.answer(id, _read_arguments(text), action="accept"),
    ),
    "decline": _Verb("the id of a question", lambda verbs, id, _: verbs.answer(id, None, action="decline")),
    "dismiss": _Verb("the id of a question", lambda verbs, id, _: verbs.answer(id, None, action="cancel")),
    "questions": _Verb("", lambda verbs, _, __: verbs.questions()),
    "proposals": _Verb("", lambda verbs, _, __: _list_proposals(verbs)),
    "who": _Verb("", lambda verbs, _, __: verbs.who()),
    "tools": _Verb("", lambda verbs, name, _: verbs.tools(name or None)),
    "status": _Verb("", lambda verbs, _, __: verbs.status()),
}
