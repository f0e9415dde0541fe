"""`mew-lab join`: takes part in a space from a terminal. A typed line is a chat message, an envelope or a command.

`slash_commands.py` is the table of the commands; here is what each does. In a terminal a prompt reads the lines; where
the input or the output goes elsewhere, lines are read and printed as they come.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mew_lab.cli import shell
from mew_lab.cli.slash_commands import (
    HELP,
    WIDTH,
    SlashWords,
    explain,
    read_command,
    read_words,
    tell_help,
    tell_usage,
)
from mew_lab.cli.slash_completion import Suggestion, complete_line
from mew_lab.cli.terminal import Console, TypedLines
from mew_lab.errors import MewError, NoReply, NotApproved, ProtocolError
from mew_lab.lab.call_check import hint, listed, name_absent
from mew_lab.lab.decisions.cards import Card, type_in_terminal
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.questions import Question, Questions
from mew_lab.lab.decisions.text import Proposals, tell_card
from mew_lab.lab.known_names import KnowingLab, known_names, short_id
from mew_lab.lab.lab_stream import LabStream
from mew_lab.lab.labs import close_all, connect
from mew_lab.lab.listing import Listing
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.participant_verbs import ParticipantVerbs
from mew_lab.lab.report import tell_left_paused
from mew_lab.lab.seat import Seat
from mew_lab.lab.shared_options import PERSON, add_shared, person_arguments
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.sdk.client import StreamData

__all__ = ["FUNCTIONS", "HELP", "Quit", "TypedLast", "Verbs", "add_options", "obey", "run", "tell_status"]

MOST_TOLD = 1000  # proposals of which a person was told
MOST_NAMED = 5
MOST_PAUSE = 7 * 24 * 3600.0  # seconds
MOST_FRAMES = 20  # frames of streams that are shown a second
MOST_FRAME = 200  # bytes of a frame that are shown


class Quit(Exception):
    """Raised by `/quit`."""


class SeenLab(KnowingLab, Protocol):
    """A lab as the prompt sees it."""

    @property
    def loop(self) -> LoopThread: ...


class Verbs(Protocol):
    """The person's seat, and the methods of a lab that a typed line can call."""

    @property
    def me(self) -> Seat: ...
    @property
    def decisions(self) -> HumanDecisions: ...
    def approve(
        self,
        proposal: str,
        *,
        to: Sequence[str] | None,
        digest: str,
        despite: Sequence[str],
        option: str,
    ) -> object: ...
    def reject(self, proposal: str, reason: str) -> object: ...
    def withdraw(self, proposal: str, reason: str) -> object: ...
    def cancel(self, call: str, reason: str | None) -> object: ...
    def of(self, name: str) -> ParticipantVerbs: ...
    def acknowledge(self, message: str, *, status: str) -> object: ...
    def invite(self, name: str, can: str | None) -> object: ...
    def stream(self, which: str | None = None, **options: Any) -> LabStream: ...
    def streams(self) -> Listing: ...
    def undo(self) -> object: ...
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
        calls = _Calls(lab.decisions)
        lab.decisions.subscribe(calls.take)
        colour, shown = shell.use_colour(options), TypedLast()
        prompt = open_prompt(lab, shown, colour=colour)
        console = Console(
            lab.rows, client, url=lab.url, say=shell.say, colour=colour, brief=prompt is not None
        )
        client.on_stream_data(StreamFrames(shown, shell.say).take)
        for line in console.lines(reading=True if prompt is None else prompt):
            try:
                if answer := obey(lab, line, shown):
                    shell.say(answer)
            except Quit:
                break
            except NotApproved as told:  # its lines are what would be sent, and are read
                shell.warn(str(told))
            except MewError as fault:
                shell.tell_failure("join", str(fault))
            except KeyboardInterrupt:
                if prompt is None:
                    raise
                shell.warn("Not waited for any longer; what was sent may still take effect")
            console.exact = shown.exact
        if left := lab.loop.call(lambda: tell_left_paused(lab)):
            shell.say(f"{left}; /resume NAME ends it, when you are here again")
    finally:
        close_all()


def open_prompt(lab: SeenLab, shown: TypedLast, *, colour: bool) -> TypedLines | None:
    """The prompt of a terminal, with the tools of all participants asked for; None where there is no terminal."""
    if not shell.is_terminal():
        return None
    from mew_lab.cli.prompt import LinePrompt  # only here: it takes a while to load

    names = _LabNames(lab)
    prompt = LinePrompt(
        complete=lambda line: complete_line(line, names),
        status=lambda width: tell_status(lab, shown),
        message=lambda: tell_prompt(lab, shown),
        colour=colour,
    )
    lab.loop.call(lab.me.participant.discovery.enable_auto_discovery)
    return prompt


class _LabNames:
    """The names of a lab, for the completion."""

    def __init__(self, lab: KnowingLab) -> None:
        self._lab = lab

    def names(self, source: str) -> Iterable[Suggestion]:
        """The names of a source of the table of commands."""
        return (Suggestion(*named) for named in known_names(self._lab, source))

    def schema(self, tool: str) -> object:
        """The schema of the arguments of a tool, where its participant has listed it."""
        return dict(self._lab.known_tools()).get(tool, {}).get("inputSchema")


def tell_prompt(lab: KnowingLab, shown: TypedLast) -> str:
    """What stands before the typed line: the person, and to whom a chat message goes."""
    to = f" → {one_line(', '.join(shown.to), 24)}" if shown.to else ""
    return f"{middle(lab.me.participant.client.id, 16)}{to}> "


def tell_status(lab: KnowingLab, shown: TypedLast) -> str:
    """The state of the space as one line: what waits for the person first, then who is there."""
    me, decisions = lab.me.participant, lab.decisions
    cards = [card for card in decisions.pending() if card.is_open and decisions.is_mine(card)]
    asked = [question for question in lab.asked.pending() if question.is_open]
    here = [name for name in sorted(me.client.participants) if name != me.client.id]
    reasoning = me.ledger.reasoning.active()
    parts = [
        "stopped: /go" if decisions.gate.stopped else "",
        "paused" if me.controls.pause_state is not None else "",
        "" if me.client.state == "ready" else "connecting again",
        f"{len(cards)} to approve: /approve {short_id(decisions, cards[0])}" if cards else "",
        f"{count_of(len(asked), 'question')}: /answer {middle(asked[0].id, 12)}" if asked else "",
        "nothing waits" if not cards and not asked else "",
        f"{middle(reasoning[0].owner, 16)} reasons: /reason-cancel" if reasoning else "",
        f"{len(me.chats.pending)} to /ack" if me.chats.pending else "",
        f"{len(here) + 1} here: you{''.join(f', {name}' for name in here)}",
        "verbose" if shown.exact else "",
    ]
    return " · ".join(filter(None, parts))


class _Calls:
    """Calls the person for each proposal that waits for this person's decision, once; rings where none waited before."""

    def __init__(self, decisions: HumanDecisions) -> None:
        self._decisions = decisions
        self._told = BoundedDict[str, None](MOST_TOLD)
        self._waiting = BoundedDict[str, None](MOST_TOLD)

    def take(self, card: Card) -> None:
        """Takes the new state of a card."""
        if card.state != "open":
            self._waiting.pop(card.id, None)
            return
        if card.id in self._told or not self._decisions.is_mine(card):
            return
        self._told[card.id] = None
        id = visible(short_id(self._decisions, card))
        shell.say(
            f"{card.request}. It needs your approval: /approve {id} shows the call, /reject {id} rejects it"
        )
        if not self._waiting:
            shell.ring()
        self._waiting[card.id] = None


class StreamFrames:
    """Shows frames of streams while `/streams` has them on: so many a second, and the number of the others."""

    def __init__(
        self, shown: TypedLast, say: Callable[[str], object], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shown = shown
        self._say = say
        self._clock = clock
        self._second, self._told, self._untold = 0, 0, 0

    def take(self, frame: StreamData) -> None:
        """Takes the next frame of any stream."""
        if not self._shown.frames:
            return
        if (second := int(self._clock())) != self._second:
            self._second, self._told = second, 0
        if self._told >= MOST_FRAMES:
            self._untold += 1
            return
        self._told += 1
        others = f" ({count_of(self._untold, 'frame')} before it not shown)" if self._untold else ""
        self._untold = 0
        text = one_line(frame.data[:MOST_FRAME].decode(errors="replace"), MOST_FRAME)
        self._say(f"{one_line(frame.stream_id, 60)}: {count_of(len(frame.data), 'byte')}: {text}{others}")


def _show_question(asked: Questions, question: Question) -> None:
    if question.is_open:
        text, id = asked.tell(question), visible(question.id)
        shell.say(f"{text}\n/answer {id} JSON answers it; /help lists the other answers")


@dataclass
class TypedLast:
    """What the lines typed before have left: what `/approve` has shown, and what `/target` and `/verbose` have set.

    `id` and `digest` are of the card that `/approve` without an id has shown last; empty for nothing. `to` are the
    addressees of what is typed, none for all; with `exact` each message is shown whole, with `frames` those of streams
    as they come.
    """

    id: str = ""
    digest: str = ""
    to: tuple[str, ...] = ()
    exact: bool = False
    frames: bool = False


def obey(verbs: Verbs, line: str, shown: TypedLast | None = None) -> str:
    """Carries out a typed line; returns the text to print. `shown` is what earlier lines have left.

    Raises:
        Quit: The line is `/quit` or `/exit`.
        MewError: The line cannot be carried out; the message says why.
    """
    line = line.strip()
    seat, shown = verbs.me, TypedLast() if shown is None else shown
    if line.startswith("{"):
        draft = read_strict(line)
        if shown.to and draft.get("kind") == "chat" and "to" not in draft:
            draft["to"] = list(shown.to)
        seat.check_draft(draft)
        sent = seat.run(seat.participant.send_accepted(draft))
        return f"sent {sent.id}"
    if not line.startswith("/") or line.startswith("//"):
        if line:
            seat.chat(line.removeprefix("/") if line.startswith("//") else line, shown.to)
        return ""
    if line == "/exit":
        raise Quit
    name, rest = read_command(line[1:])
    return str(FUNCTIONS[name](verbs, read_words(name, rest), shown))


def _read_object(words: SlashWords, text: str) -> dict[str, object]:
    """The JSON object that is typed behind a command; empty where nothing is."""
    try:
        return read_strict(text) if text else {}
    except ProtocolError as fault:
        raise MewError(
            f'/{words.name} takes an object of JSON, such as {{"path": "a.txt"}}, not {one_line(text, 40)!r}: '
            f"{str(fault).replace('the message', 'it', 1)}{tell_usage(words.name)}"
        ) from None


def _approve(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    if not words["ID"]:
        return _approve_only(verbs, shown)
    more, digest = words.all("PARTICIPANT|OPTION"), words["D"]
    asks = False
    with contextlib.suppress(MewError):  # `approve` says what is wrong with it
        asks = bool(more) and verbs.decisions.card(words["ID"], digest=digest).permission is not None
    to, option = (None, " ".join(more)) if asks else (more or None, "")
    return verbs.approve(words["ID"], to=to, digest=digest, despite=words.all("WHAT"), option=option)


def _quit(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    raise Quit


def _help(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    name = words["COMMAND"].removeprefix("/")
    width = shell.width() or WIDTH
    return explain(read_command(name)[0], width) if name else tell_help(width)


def _target(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    names = words.all("PARTICIPANT|none")
    present = [*verbs.me.participant.client.participants]
    if names in (["none"], ["all"]):
        shown.to = ()
    elif names and names != ["show"]:
        if absent := [name for name in names if name not in present]:
            raise MewError(f"Cannot write to it alone: {name_absent(absent, present)}; /target none ends it")
        shown.to = tuple(dict.fromkeys(names))
    return f"What you type goes to {listed(shown.to)} alone" if shown.to else "What you type goes to all"


def _verbose(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    shown.exact = {"on": True, "off": False}.get(words["on|off"], not shown.exact)
    return "Each message is shown whole" if shown.exact else "Each message is shown as one line"


def _approve_only(verbs: Verbs, shown: TypedLast) -> object:
    """Shows the only proposal that waits for this person; approves it where the last such command has shown this one."""
    decisions = verbs.decisions
    open_cards = [card for card in decisions.pending() if card.is_open and decisions.is_mine(card)]
    if len(open_cards) != 1:
        ids = ", ".join(f"/approve {visible(short_id(decisions, card))}" for card in open_cards[:MOST_NAMED])
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
    return verbs.approve(card.id, to=None, digest=card.digest, despite=(), option="")


def _of(verbs: Verbs, words: SlashWords) -> ParticipantVerbs:
    try:
        return verbs.of(words["PARTICIPANT"])
    except NoReply as fault:  # perhaps because the words stand in another order
        raise MewError(f"{fault}{tell_usage(words.name)}") from None


def _tell_status(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    if not words["PARTICIPANT"]:
        return verbs.status()
    return _of(verbs, words).status(fields=words.all("FIELD"))


def _pause(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    seconds = words.number("SECONDS")
    if seconds is not None and not 0 < seconds <= MOST_PAUSE:
        raise MewError(
            f"/pause takes SECONDS above 0 and at most {MOST_PAUSE:g}, not {seconds:g}{tell_usage('pause')}; "
            "without them the pause has no end"
        )
    minutes = None if seconds is None else seconds / 60
    return _of(verbs, words).pause(minutes=minutes, reason=words["REASON"])


def _acknowledge(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    waiting, which = verbs.me.participant.chats.pending, words["ID|PARTICIPANT|all"]
    status = words["STATUS"] or "received"
    if not waiting:
        raise MewError("No message waits for your acknowledgement, so nothing was sent")
    if not which and len(waiting) > 1:
        raise MewError(
            f"{len(waiting)} messages wait for your acknowledgement, so say which: /ack all, or "
            f"{listed([f'/ack {name}' for name in dict.fromkeys(chat.sender for chat in waiting)])}"
        )
    if which == "all":
        return verbs.acknowledge("", status=status)
    ids = [chat.id for chat in waiting if not which or chat.sender == which] or [which]
    if ids == [which] and not any(chat.id.startswith(which.removeprefix("id:")) for chat in waiting):
        if which.isdecimal():
            raise MewError(f"/ack takes a number as the line of the message shows it, such as ~{which}")
        if which[0] not in "#~" and (near := hint(which, [chat.sender for chat in waiting])):
            raise MewError(f"No message of {one_line(which, 60)!r} waits{near}{tell_usage('ack')}")
    told = [str(verbs.acknowledge(id, status=status)) for id in ids]
    return told[0] if len(told) == 1 else f"{len(told)} messages of {one_line(which, 64)} acknowledged"


def _cancel_reasoning(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    """Without a participant or an id it is the only reasoning that goes on; what is typed is then the reason."""
    active = verbs.me.participant.ledger.reasoning.active()
    which, reason = words["PARTICIPANT|ID"], words["REASON"]
    if not active:
        raise MewError("No reasoning goes on that could be cancelled, so nothing was sent")
    named = [one for one in active if which and (one.owner == which or one.id.startswith(which))]
    if not named:
        known = [*(one.owner for one in active), *(one.id for one in active)]
        if which and (near := hint(which, known)):
            raise MewError(
                f"No reasoning of {one_line(which, 60)!r} goes on{near}{tell_usage('reason-cancel')}"
            )
        which, reason = "", f"{which} {reason}".strip()
        named = active
    owners = list(dict.fromkeys(one.owner for one in named))
    if len(owners) > 1:
        raise MewError(
            f"{len(owners)} participants reason, so say whose is meant: "
            f"{listed([f'/reason-cancel {name}' for name in owners])}"
        )
    is_id = bool(which) and which != owners[0]
    verbs_of = verbs.of(owners[0])
    return verbs_of.cancel_reasoning(which if is_id else None, reason=reason or "cancelled")


def _grant(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    what = words["PARTICIPANT/TOOL|KIND|PROFILE|JSON"]
    minutes, uses = words.number("N"), words.whole("COUNT")
    if what.startswith("{"):
        return _of(verbs, words).grant(_read_object(words, what), minutes=minutes, uses=uses)
    if what in PROFILES:
        return _of(verbs, words).grant(what, minutes=minutes, uses=uses)
    if what in KINDS:
        return _of(verbs, words).grant({"kind": what}, minutes=minutes, uses=uses)
    if " " in what or "/" not in what:
        raise MewError(
            f"/grant does not know what to give by {one_line(what, 60)!r}{hint(what, [*PROFILES, *KINDS])}: name a "
            'tool as participant/tool, a kind, a profile, or a pattern such as {"kind": "chat"}'
        )
    return _of(verbs, words).grant(tool=what, minutes=minutes, uses=uses)


def _revoke(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    what = words["ID|JSON"]
    return _of(verbs, words).revoke(_read_object(words, what) if what.startswith("{") else what or None)


def _request_stream(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    stream = verbs.stream(
        direction=words["upload|download"],
        to=_of(verbs, words).name,
        description=words["DESCRIPTION"] or None,
        expected_size_bytes=words.whole("BYTES"),
    )
    id = visible(stream.id)
    return f"{id} is open: /stream write {id} TEXT writes to it, /stream close {id} closes it"


def _list_streams(verbs: Verbs, words: SlashWords, shown: TypedLast) -> object:
    if words["on|off"]:
        shown.frames = words["on|off"] == "on"
    streams = verbs.streams()
    streams.empty = "No stream is open; /stream request opens one"
    streams.note = f"Frames are {'' if shown.frames else 'not '}shown as they come"
    return streams


def _list_proposals(verbs: Verbs) -> Proposals:
    listed = verbs.proposals()
    listed.to_see = "/approve {id}"
    if listed:
        listed.note = "/approve ID shows the call, and typed again sends it; /reject ID [REASON] rejects it"
    return listed


# What each command of the table does.
FUNCTIONS: Mapping[str, Callable[[Verbs, SlashWords, TypedLast], object]] = {
    "approve": _approve,
    "reject": lambda verbs, words, _: verbs.reject(words["ID"], words["REASON"] or "disagree"),
    "withdraw": lambda verbs, words, _: verbs.withdraw(words["ID"], words["REASON"] or "no_longer_needed"),
    "cancel": lambda verbs, words, _: verbs.cancel(words["ID"], words["REASON"] or None),
    "reason-cancel": _cancel_reasoning,
    "ack": _acknowledge,
    "stop": lambda verbs, *_: verbs.stop(),
    "go": lambda verbs, *_: verbs.go(),
    "propose": lambda verbs, words, _: verbs.me.propose(
        words["PARTICIPANT/TOOL"], _read_object(words, words["JSON"])
    ),
    "call": lambda verbs, words, _: verbs.me.call(
        words["PARTICIPANT/TOOL"], _read_object(words, words["JSON"])
    ),
    "answer": lambda verbs, words, _: verbs.answer(
        words["ID"], _read_object(words, words["JSON"]), action="accept"
    ),
    "decline": lambda verbs, words, _: verbs.answer(words["ID"], None, action="decline"),
    "dismiss": lambda verbs, words, _: verbs.answer(words["ID"], None, action="cancel"),
    "questions": lambda verbs, *_: verbs.questions(),
    "proposals": lambda verbs, *_: _list_proposals(verbs),
    "who": lambda verbs, *_: verbs.who(),
    "tools": lambda verbs, words, _: verbs.tools(words["PARTICIPANT"] or None),
    "status": _tell_status,
    "pause": _pause,
    "resume": lambda verbs, words, _: _of(verbs, words).resume(reason=words["REASON"]),
    "forget": lambda verbs, words, _: _of(verbs, words).forget(
        words.whole("COUNT"), direction=words["oldest|newest"] or "oldest"
    ),
    "compact": lambda verbs, words, _: _of(verbs, words).compact(
        tokens=words.whole("TOKENS"), reason=words["REASON"]
    ),
    "clear": lambda verbs, words, _: _of(verbs, words).clear(reason=words["REASON"]),
    "restart": lambda verbs, words, _: _of(verbs, words).restart(reason=words["REASON"]),
    "shutdown": lambda verbs, words, _: _of(verbs, words).shutdown(reason=words["REASON"]),
    "kick": lambda verbs, words, _: _of(verbs, words).kick(reason=words["REASON"]),
    "invite": lambda verbs, words, _: verbs.invite(words["NAME"], words["PROFILE"] or None),
    "grant": _grant,
    "revoke": _revoke,
    "undo": lambda verbs, *_: verbs.undo(),
    "stream request": _request_stream,
    "stream write": lambda verbs, words, _: verbs.stream(words["ID"]).write(words["TEXT"]),
    "stream close": lambda verbs, words, _: verbs.stream(words["ID"]).close(words["REASON"] or "complete"),
    "streams": _list_streams,
    "target": _target,
    "verbose": _verbose,
    "help": _help,
    "quit": _quit,
}
