"""`mew-lab join`: takes part in a space from a terminal. A typed line is a chat message, an envelope or a command."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mew_lab.cli import shell
from mew_lab.cli.terminal import Console
from mew_lab.errors import MewError, NotApproved
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.questions import Question, Questions
from mew_lab.lab.decisions.text import Proposals
from mew_lab.lab.labs import close_all, connect
from mew_lab.lab.seat import Seat
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.visible import visible
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["HELP", "Quit", "Verbs", "add_options", "obey", "run"]

MOST_TOLD = 1000  # proposals of which a person was told

HELP = """\
TEXT                            sends a chat message to all participants
{"kind": …}                     sends this message as JSON
/approve ID [digest=D] [despite=WHAT] [PARTICIPANT]
                                approves a proposal: the first time shows its card, the second approves it;
                                or at once with the first 8 characters of the shown digest;
                                despite=rejected approves what a participant has rejected, despite=unknown a repeat of
                                a call of which nobody knows whether it took effect;
                                PARTICIPANT is the target of a proposal that names none
/reject ID [REASON]             rejects a proposal
/withdraw ID [REASON]           withdraws your own proposal
/cancel ID [REASON]             cancels a call that runs: yours, one that you proposed, or any as the owner
/propose PARTICIPANT/TOOL JSON  proposes a tool call
/call PARTICIPANT/TOOL JSON     calls a tool, or proposes the call where you may only propose
/answer ID [JSON]               answers a question of an MCP server; JSON has the values of its form
/decline ID  /dismiss ID        says no to it, or dismisses it without an answer
/questions  /proposals  /who  /tools [PARTICIPANT]  /status
/quit                           leaves the space; //TEXT sends a text that begins with a slash"""


class Quit(Exception):
    """Raised by `/quit`."""


class Verbs(Protocol):
    """The person's seat, and the methods of a lab that a typed line can call."""

    @property
    def me(self) -> Seat: ...
    def approve(
        self, proposal: str, *, to: Sequence[str] | None, digest: str, despite: Sequence[str]
    ) -> object: ...
    def reject(self, proposal: str, reason: str) -> object: ...
    def withdraw(self, proposal: str, reason: str) -> object: ...
    def cancel(self, call: str, reason: str) -> object: ...
    def proposals(self) -> Proposals: ...
    def questions(self) -> object: ...
    def answer(self, question: str, values: Mapping[str, object] | None, *, action: str) -> object: ...
    def who(self) -> object: ...
    def tools(self, participant: str | None) -> object: ...
    def status(self) -> object: ...


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and what runs it."""
    parser.set_defaults(run=run)
    parser.add_argument("url", metavar="URL", help="ws://… of the gateway")
    shell.add_elsewhere(parser)
    parser.add_argument("--no-color", action="store_true", help="prints no colours")


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The space cannot be joined, or the connection is lost for good.
    """
    shell.check_address(options.url, options)
    try:
        lab = connect(
            options.url,
            space=options.space,
            token_file=options.token_file,
            token_env=options.token_env,
            as_id=options.as_id,
        )
        client = lab.me.participant.client
        shell.say(f"You are {client.id} in {lab.space}; /help lists the commands.")
        lab.asked.subscribe(lambda question: _show_question(lab.asked, question))
        open_cards = BoundedDict[str, None](MOST_TOLD)
        me, decisions = lab.me.participant, lab.decisions
        decisions.subscribe(lambda card: _show_open(me, decisions, card, open_cards))
        console = Console(lab.rows, client, url=lab.url, say=shell.say, colour=shell.use_colour(options))
        for line in console.lines(reading=True):
            try:
                if answer := obey(lab, line):
                    shell.say(answer)
            except Quit:
                return
            except NotApproved as told:  # its lines are what would be sent, and are read
                shell.warn(str(told))
            except MewError as fault:
                shell.tell_failure("join", str(fault))
    finally:
        close_all()


def _show_open(
    me: MEWParticipant, decisions: HumanDecisions, card: Card, told: BoundedDict[str, None]
) -> None:
    """Says once how to decide on a proposal that waits for this person."""
    proposal = me.proposals.get(card.id)
    if card.state != "open" or card.id in told or proposal is None or card.proposer == me.client.id:
        return
    told[card.id] = None
    if me.can_send("mcp/request", proposal.payload, to=proposal.to):
        id, who = visible(_short_id(decisions, card)), visible(card.proposer)
        shell.say(f"{who} waits for your decision: /approve {id} shows the call, /reject {id} rejects it")


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


def obey(verbs: Verbs, line: str) -> str:
    """Carries out a typed line; returns the text to print.

    Raises:
        Quit: The line is `/quit` or `/exit`.
        MewError: The line cannot be carried out; the message says why.
    """
    line = line.strip()
    seat = verbs.me
    if line.startswith("{"):
        sent = seat.run(seat.participant.send_accepted(read_strict(line)))
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
