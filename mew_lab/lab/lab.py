"""`Lab`: one space, seen and controlled by one human from synchronous or asynchronous code.

How it works. A lab connects its parts and decides nothing itself. The parts run on the thread of one event loop
(`loop.py`). Every public method is a plain function for any other thread. It runs on the loop, blocks until it is done,
and returns a value that also awaits to itself, so `lab.who()` and `await lab.who()` are both legal.

- `observe` takes each record of the space, from the gateway or from the connection, and passes it to `log`, to `rows`
  for the feed, and to `following`, which feeds the models of the views.
- `local` has the participants of this process (`me`, seats, bridges, agents), and the `host` if the space runs here.
- `decisions` has the proposals to be decided by the human, `asked` the questions of MCP servers to her; `granting` the
  grants that she gave.
- `report` makes the listings from a `Session`, the part of a lab that other modules use.
- `view` comes from a higher room at its first use.

`labs.py` creates labs and keeps the list of them.

Spec: §3.2, §3.4, §3.6.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Never, TypeVar
from urllib.parse import urlsplit

from mew_lab import find_above
from mew_lab.agent.attention import Habits
from mew_lab.agent.model import Model
from mew_lab.agent.models import model_of
from mew_lab.agent.options import AgentOptions
from mew_lab.bridge.config_consents import PARALLEL, Person
from mew_lab.bridge.mcp_config import McpConfig
from mew_lab.bridge.process import start_seconds
from mew_lab.bridge.remote import is_url
from mew_lab.errors import ConfigError, MewError, NoSuchName, NoSuchParticipant
from mew_lab.lab import report
from mew_lab.lab.actions import ParticipantActions
from mew_lab.lab.agent_seat import AgentSeat, list_agents
from mew_lab.lab.call_check import hint, listed, name_absent
from mew_lab.lab.chat_acts import cancel_chat, find_chat
from mew_lab.lab.coding_agent_seat import CodingAgentSeat
from mew_lab.lab.config_bridges import (
    CardPerson,
    StartLines,
    admit_file,
    find_person,
    list_bridged,
    participant_ids,
)
from mew_lab.lab.decisions.decisions import HumanDecisions
from mew_lab.lab.decisions.kept_rules import RuleStore
from mew_lab.lab.decisions.limited_grants import LimitedGrants
from mew_lab.lab.decisions.policies import Policy, policy_from_environment
from mew_lab.lab.decisions.questions import OpenQuestions, Question, Questions, as_content
from mew_lab.lab.decisions.shared_reviews import NOT_SHARED
from mew_lab.lab.decisions.text import READ_WITHIN, Approvable, Proposals, approve, reject
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.host import Host, capabilities_of
from mew_lab.lab.html_report import report_log
from mew_lab.lab.invitations import MAILED_WITHIN, invite_to_file, read_mail
from mew_lab.lab.lab_rules import LabRules
from mew_lab.lab.lab_stream import LabStream, list_streams
from mew_lab.lab.listing import Listing, Note, SentEnvelope
from mew_lab.lab.local_participants import NOTEBOOK_SEAT, Can, LocalParticipants
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.mcp_access import McpSeat
from mew_lab.lab.notification import Notifier, Notify, Waiting
from mew_lab.lab.participant_verbs import Losses, ParticipantVerbs, find_standing
from mew_lab.lab.pending import Pending, proposal_of
from mew_lab.lab.proposals import LabProposal, follow_proposals
from mew_lab.lab.rows import Rows
from mew_lab.lab.seat import Seat, add_tool
from mew_lab.lab.session import Echo, check_up, run_work
from mew_lab.lab.standing import logical, standings
from mew_lab.lab.stop import LabStop
from mew_lab.lab.tool_approvals import LabToolApprovals
from mew_lab.lab.tools_agent_seat import ToolsAgentSeat
from mew_lab.ledger.calls import CallLedger
from mew_lab.log.decision_note import read_resolution
from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.log.numbering import complete_id, name_of
from mew_lab.log.reading import Vantage
from mew_lab.protocol.address import is_this_machine
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.kept import ResultHead
from mew_lab.protocol.text import count_of
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import one_line
from mew_lab.rules.decided_calls import DecidedCall
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.result_store import ResultLimits
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.tools import ToolBox
from mew_lab.settings.waiting import (
    ANSWER_AFTER,
    DECIDE_WITHIN,
    GRACE,
    RUN_WITHIN,
    TOLD_ANSWER_AFTER,
    WITHDRAW_AFTER,
    check_seconds,
)
from mew_lab.space.events import REPORTED, Record
from mew_lab.tools_agent.agent_file import read_agent_file
from mew_lab.tools_agent.home import model_for, participant_id

__all__ = ["Lab"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

JOINED_WITHIN = 15.0  # seconds for a server that has answered to join the space
SERVED_WITHIN = 30.0  # seconds; the library of MCP loads for a while
LOADED_WITHIN = 120.0  # seconds for a result that was too large for a message
INVITED_WITHIN = 10.0  # seconds
CANCELLED = ("mcp/proposal", "mcp/request", "chat")  # kinds that `cancel` takes
DISCOVERY = 3.0  # seconds that `tools` waits for a participant's answer

# The members that a person at a prompt uses; Tab and `dir` show these. The others are for the rooms above.
NAMES = (
    "acknowledge agent agents allow_sampling answer approve ask bridge bridge_all call cancel chat coding_agent "
    "decide down end_ui enrol faults go granting history invite join join_line leave load log me name of on_proposal "
    "pause_all proposals propose questions quorum reject report resolve resume_all rules save seat seats send serve_mcp "
    "serve_ui set_roots share_review space status stop stream streams timeout token_file tool tool_approvals tools "
    "tools_agent undo url view who withdraw"
)


class _Elsewhere:
    """Stands for what a person writes as `lab.feed` or `lab.pause`: says where it is."""

    # And no `__getattr__` in the lab: IPython evaluates nothing of an object that has one while a person types, so a Tab
    # behind `lab.view.` would offer nothing.

    def __init__(self, what: str, where: str) -> None:
        self._what, self._where = what, where

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, lab: object, owner: type | None = None) -> Never:
        raise NoSuchName(
            f"A lab has no {self.name!r}; {self._what} of that name is {self._where}.{self.name}"
        )


def _in_view() -> _Elsewhere:
    return _Elsewhere("the part", "lab.view")


def _of_participant() -> _Elsewhere:
    return _Elsewhere("the method", "lab.of(NAME)")


class _NamesOnly(type):
    """`dir` of the class itself, which a completer adds to that of the object."""

    def __dir__(cls) -> Iterable[str]:
        return [*NAMES.split(), *dir(object)]


@explains_arguments
class Lab(metaclass=_NamesOnly):
    """One space seen by one human. Get one from `up` or `connect`.

    `me` is the human's seat, `seats` all seats of this process by name, `log` the envelopes so far. The views use
    `decisions`, `rows` and `granting`. `timeout` limits a blocking method, in seconds.
    """

    def __init__(self, name: str, *, space: str, loop: LoopThread, timeout: float, vantage: Vantage) -> None:
        self.name = name
        self.space = space
        self.loop = loop
        self.timeout = check_seconds(timeout, key="timeout")
        self.vantage = vantage
        self.url = ""
        self.me: Seat
        self.faults: list[str] = []
        self.fault_count = 0
        self.log: Log
        self.following: EntryFeed
        self.take_log(Log.live(space=space, vantage=vantage))
        self.rows = Rows(lambda: (self.space, self._members()), sign=self.log.sign)
        self.local = LocalParticipants(self, fault=self.fault)
        self.granting: LimitedGrants = LimitedGrants(self)
        self.stopping = LabStop(self, self.local, note=self._note)
        self._losses = Losses()
        self.decisions: HumanDecisions
        self.asked: Questions
        self.notify: Notify | None = None
        self._notifier: Notifier | None = None
        self._shares_review = False
        self._quorum: Quorum | None = None
        self.closed = False
        self.page: Any = None  # the server of its page, where there is one
        self.on_down: list[Callable[[Lab], None]] = []  # called by `down`
        self.seen = Echo()

    def _start_notifier(self, notify: Notify) -> None:
        def waiting() -> Waiting:
            cards = [card for card in self.decisions.pending() if card.state == "open"]
            asked = [one for one in self.asked.pending() if one.is_open]
            since = [*(card.since for card in cards), *(one.since for one in asked)]
            return Waiting(cards, len(asked), min(since, default=time.time()))

        notifier = Notifier(notify, space=self.space, waiting=waiting, fault=self.fault)
        self.decisions.subscribe(lambda card: notifier.note(card.id, card.state == "open"))
        self.asked.subscribe(lambda question: notifier.note(question.id, question.is_open))
        self._notifier = notifier

    def set_review(self, share_review: bool, quorum: int | None, deciders: Sequence[str]) -> None:
        """Sets what `up` and `connect` were told, before the human is seated; raises as the setter of `quorum`."""
        asked = Quorum.of(quorum, deciders)
        if asked is not None and not share_review:
            raise ConfigError(NOT_SHARED, key="quorum")
        self._shares_review, self._quorum = bool(share_review), asked

    @property
    def share_review(self) -> bool:
        """Whether the others see which cards you look at, and to which you said yes; off unless you set it.

        Everybody in the space sees it, the proposer of a call too.
        """
        return self._shares_review

    @share_review.setter
    def share_review(self, shares: bool) -> None:
        self._set_review(bool(shares), self._quorum if shares else None)

    @property
    def quorum(self) -> Quorum | None:
        """How many of which participants must have said yes before an approval of this lab is sent; None: you alone.

        Set it to a number and names, such as `(2, ["ada", "ben", "cy"])`. It binds this lab alone: each card says who
        can send the call without it. An executor enforces its own (`bridge(…, quorum=2, deciders=[…])`).

        Raises:
            ConfigError: The number is no count of the names, or this lab does not share its reviews.
        """
        return self._quorum

    @quorum.setter
    def quorum(self, asked: Quorum | tuple[int, Sequence[str]] | None) -> None:
        if isinstance(asked, tuple) and len(asked) == 2:
            asked = Quorum.of(asked[0], asked[1])
        if asked is not None and not isinstance(asked, Quorum):
            raise ConfigError(
                f"Cannot set the quorum to {one_line(repr(asked), 60)}: it is a number and the names of those whose yes "
                'counts, such as (2, ["ada", "ben", "cy"]), or None',
                key="quorum",
            )
        self._set_review(self._shares_review, asked)

    def _set_review(self, shares: bool, quorum: Quorum | None) -> None:
        self._check_up("setting what is shared of the reviews")
        self.loop.call(lambda: self.decisions.set_review(shares=shares, quorum=quorum))
        self._shares_review, self._quorum = shares, quorum

    def _quorum_of(self, name: str) -> Quorum | None:
        if (seat := self.seats.get(name)) is not None:
            return seat.participant.quorum
        return None if self.host is None else self.host.quorums.get(name)

    @property
    def host(self) -> Host | None:
        """The host of the space in this process; None when it runs elsewhere."""
        return self.local.host

    @property
    def seats(self) -> dict[str, Seat]:
        """The participants of this process, by name."""
        return self.local.seats

    # --- set up and torn down on the loop ---

    def take_log(self, log: Log) -> None:
        """Takes the log that the space is written to, before its first record."""
        self.log = log
        self.following = EntryFeed(log, logical=lambda id: logical(self, id))

    def observe(self, record: Record) -> None:
        """Takes the next record of the space."""
        self.log.observe(record)
        members = read_members(record.raw) or {} if record.raw is not None else None
        self.rows.observe(record, members)
        self.following.observe(record, members)
        if record.event == REPORTED:
            self._take_resolution(record)

    def _take_resolution(self, record: Record) -> None:
        for seat in self.seats.values():
            me = seat.participant
            found = read_resolution(record, me.ledger.calls.requests, lambda id: logical(self, id))
            if found is not None:
                me.resolve(found.request, found.happened, by=found.by, note=found.note)

    def pass_over(self, records: int, envelopes: int, unknown: int) -> None:
        """Counts records of before that stay in the journal, and the messages among them; called before the first."""
        self.log.pass_over(records, envelopes, unknown)
        self.rows.pass_over(envelopes)

    async def open(
        self, me: MEWParticipant, *, name: str, policy: Policy | None, decided: Iterable[DecidedCall] = ()
    ) -> None:
        """Seats the human; called once, before all other methods.

        Args:
            decided: What was decided before, where the space was resumed.
        """
        self.decisions = HumanDecisions(
            me,
            loop=self.loop,
            note=self._note,
            reports=lambda: self.host is None,
            logical=lambda id: logical(self, id),
            folders=self.local.folders_of,
            find_write=self.local.find_write,
            fault=self.fault,
            enforced=self._quorum_of,
        )
        self.decisions.review.set(shares=self._shares_review, quorum=self._quorum)
        for one in decided:
            if one.verdict != "undecided":
                self.decisions.past.add(replace(one, teaches=one.teaches and one.by == name))
        self.asked = Questions(
            me,
            loop=self.loop,
            gate=self.decisions.gate,
            note=self._note,
            owns=self.local.owns_bridge,
            decided_by_policy=self.decisions.queue.was_decided_by_policy,
            attended=lambda: policy_from_environment() is None,
            clock=time.time,
        )
        if self.notify is not None:
            self._start_notifier(self.notify)
        self.decisions.tools.attach(local=self.local.listed_by, changed=self._take_changed_tools)
        me.client.on_message(self.seen.take)
        # All who listen are there before it joins: a proposal may be the first message behind the welcome.
        self.me = await self.local.take(me, name=name, what="you")
        if self.host is not None:
            place = str(self.host.folder.resolve())
        elif is_this_machine(urlsplit(str(self.url)).hostname or ""):
            # A port of this machine is another space's after the next start: the folder tells them apart.
            place = f"this machine, from {Path.cwd()}"
        else:
            place = str(self.url)
        store = RuleStore(self._find_state, person=self.me.name, place=place, space=self.space)
        self.decisions.rules.attach(store, owner=self.me.name)
        self.decisions.set_policy(policy)

    def _take_changed_tools(self, participant: str, changes: Mapping[str, str]) -> None:
        self.decisions.rules.take_change(participant, changes)
        self.granting.on_changed_tools(participant, changes)

    def _find_state(self) -> Path | None:
        """The folder of what this person keeps outside the project; None where it would lie within that."""
        folder = self.local.find_state()
        project = None if self.host is None else self.host.folder.resolve()
        if folder is None or project is None or Path.home().resolve().is_relative_to(project):
            return folder  # a space in the home itself is the user's own, and her state folder lies below it
        return None if folder.is_relative_to(project) else folder

    feed, approvals, panel, roster = _in_view(), _in_view(), _in_view(), _in_view()
    grants, reasoning, timeline = _in_view(), _in_view(), _in_view()
    pause, resume, forget = _of_participant(), _of_participant(), _of_participant()
    compact, clear, restart = _of_participant(), _of_participant(), _of_participant()
    shutdown, kick, grant = _of_participant(), _of_participant(), _of_participant()
    revoke, cancel_reasoning = _of_participant(), _of_participant()

    def __dir__(self) -> Iterable[str]:
        return dir(type(self))

    async def close(self) -> None:
        """Closes seats, bridges and the host; never raises for parts that are closed already."""
        if not self.closed:
            self.closed = True
            if self._notifier is not None:
                self._notifier.close()
            if self.seats:
                self.decisions.queue.close()
                self.decisions.rules.close()
            if self.page is not None:
                await self.page.stop()
            try:
                await self.granting.close()
            finally:
                await self.local.close()

    def fault(self, text: str) -> None:
        """Records a sentence about a failure in the background; `faults` has the last 20, masked."""
        logger.warning("%s: %s", self.name, text)
        self.faults = [*self.faults[-19:], mask(text)]
        self.fault_count += 1

    def _note(self, event: str, detail: dict[str, Any]) -> None:
        if self.host is not None:
            self.host.gateway.note(self.space, event, participant=self.me.name, detail=compact(detail))
        else:
            seq, now, text = self.rows.last_seq, datetime.now(UTC), compact(detail)
            self.observe(Record(seq, now, event, self.space, self.me.name, detail=text))

    def _members(self) -> int:
        return len(self.me.participant.client.participants) + 1 if self.seats else 0

    def _check_up(self, doing: str) -> None:
        check_up(self, doing)

    def _run(
        self,
        work: Coroutine[Any, Any, T],
        doing: str,
        *,
        timeout: float | None = None,
        idle: Callable[[], object] | None = None,
        awaitable: bool = True,
    ) -> T:
        return run_work(self, work, doing, timeout=timeout, idle=idle, awaitable=awaitable)

    def _tell(self, work: Coroutine[Any, Any, str], doing: str) -> Note:
        async def tell() -> Note:
            return Note(await work)

        if self.closed:
            work.close()
        return self._run(tell(), doing)

    # --- who takes part ---

    def join(self, name: str, can: Can | None = None, *, rules_of: str | None = None) -> Seat:
        """Seats another participant of this process, with the patterns of a profile or your own list.

        With `rules_of` it is an approver (§9.4). It sends, in its own name, what your adopted rules approve, and has the
        permissions of these rules alone, by grants of yours that end with them. Reviews wait for you as ever. It
        approves nothing of its own, nor of an agent that obeys it. `lab.leave(name)` ends it.

        Args:
            can: A profile or a list of patterns; default: `proposer`. An approver has none but those of the rules.
            rules_of: Your own name: the rules of nobody else can be read here.

        Raises:
            ConfigError: The name, `can` or `rules_of` is not valid.
            MewError: It is seated already, another participant has the name of an approver, or the space runs elsewhere.
        """
        if rules_of is None:
            return self._run(self.local.join(name, "proposer" if can is None else can), f"seating {name!r}")
        doing = f"Cannot seat the approver {one_line(str(name), 64)!r}"
        if rules_of != self.me.name:
            raise ConfigError(
                f"{doing} for the rules of {one_line(str(rules_of), 64)!r}: this lab has those of {self.me.name}, its "
                f"person, and the rules of others are kept by them alone; use rules_of={self.me.name!r}",
                key="rules_of",
            )
        if can is not None:
            raise ConfigError(
                f"{doing} with can=: it has the permissions of the rules, and no others", key="can"
            )
        return self._run(self.local.approver(name), f"seating {name!r}")

    def enrol(self, name: str, can: Can = "agent", *, answer_after: float | None = None) -> Note:
        """Enrols a participant of another process: writes its token file and returns the shell line that joins.

        An agent, or `mew-lab mcp` for a coding agent, needs the right to ask for the tools of the others. The profile
        `agent` has it, and `proposer` has it not.

        Args:
            answer_after: Seconds after which `mew-lab mcp` with this token answers a call that still waits as pending;
                None leaves it to that. It stands as `x-answer-after` in the first permission; so it may in an invite.

        Raises:
            ConfigError: The name, `can` or `answer_after` is not valid.
        """

        async def enrol() -> Note:
            given = capabilities_of(can)
            if answer_after is not None:
                told = {TOLD_ANSWER_AFTER: check_seconds(answer_after, key="answer_after")}
                given = [{**given[0], **told}, *given[1:]] if given else given
            self.local.own_host(f"Cannot enrol {name[:80]!r}").enrol(name, given)
            return Note(self._join_line(name))

        return self._run(enrol(), f"enrolling {name!r}")

    def token_file(self, name: str | None = None) -> Path:
        """The file with a token of the participant `name` (default: yours), written at the first call."""
        self._check_up("writing a token")
        return self.loop.call(lambda: self.local.token_file(name or self.me.name))

    def join_line(self, name: str | None = None) -> str:
        """The shell line with which another process joins as `name`; a participant seated here gets a second id."""
        self._check_up("writing a token")
        return self.loop.call(lambda: self._join_line(name or self.me.name))

    def _join_line(self, name: str) -> str:
        return self.local.join_line(name, url=self.url, space=self.space)

    def bridge(
        self,
        name: str,
        command: str | Sequence[str],
        *,
        env: Sequence[str] | Mapping[str, str] = (),
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        transport: str | None = None,
        can: Can = "tool",
        restarts: int = 3,
        elicitation: bool = True,
        sampling: Model | str | bool = False,
        roots: Sequence[str | Path] | None = None,
        writes: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,
        strict_unknown: bool | None = None,
        repeats_within: float | None = None,
        results: ResultLimits | None = None,
        quorum: int | None = None,
        deciders: Sequence[str] = (),
    ) -> Seat:
        """Connects an MCP server as participant `name`; its tools are then tools of the space.

        Args:
            command: Program and arguments, as a list or as one line in shell syntax; `python` as the program is this
                interpreter. Or the URL of a server that runs elsewhere.
            env: Names of environment variables to pass on, besides PATH, HOME, LANG, TMPDIR and SYSTEMROOT; or a mapping
                of names to values.
            cwd: Its working directory; default: that of this process.
            headers: Headers of a server at a URL, such as `{"Authorization": "Bearer ${NAME}"}`, where `${NAME}` is
                an environment variable.
            transport: `http` or `sse`, for a server at a URL; default: `sse` where its path ends with `/sse`.
            restarts: How often within a minute a server that ends by itself is started again, before it leaves.
            elicitation: Whether the server may ask the person who decided a call for more. Its questions appear among
                the approvals, and in `questions()`.
            sampling: A model, or the name of one (True: the built-in one), whose replies the server may ask for; you
                approve each of its prompts. False offers none.
            roots: The folders that the server is told of, if it asks; None offers none.
            writes: The tools that write a file: for each, the names of its arguments with the path and the content, such
                as `{"save": ("path", "content")}`. Their cards show what would change in the file. Some servers are
                known without it.
            timeout: Seconds to wait for the server's first answers. Default: 30, or 300 where the command is one that
                downloads what it runs, such as npx or uvx. A start that takes long shows the server's error output.
            strict_unknown: Whether it refuses by own right to repeat a call of unknown outcome, even where the tool
                says that it only reads, or that a second call does no more than the first. None: as the lab.
            repeats_within: The seconds for which an equal call counts as such a repeat. None: as the lab.
            results: How much is kept of results that no message can hold, and how long. None: as the lab.
            quorum: How many of the participants in `deciders` must have said yes before a call is executed, each in a
                lab with `share_review`. A call for which too few have is refused, names them, and uses nothing up.

        Raises:
            ConfigError: `quorum` is no count of the deciders.
            MewError: The server does not start or answer; with the end of its error output.
        """
        asks: dict[str, Any] = {
            "elicitation": elicitation,
            "sampling": _sampling_model(sampling),
            "roots": roots,
            "restarts": restarts,
            "can": can,
            "on_start": (told := StartLines()).add,
        }
        settings = {
            "start_timeout": timeout,
            "results": results,
            "strict_unknown": strict_unknown,
            "repeats_within": repeats_within,
            "writes": writes,
            "quorum": quorum,
            "deciders": deciders or None,
        }
        asks |= {name: value for name, value in settings.items() if value is not None}
        if isinstance(command, str) and is_url(command):
            words: list[str] = []
            work = self.local.bridge(name, command, headers=headers, transport=transport, **asks)
        else:
            folder = Path(cwd) if cwd is not None else Path.cwd()
            words = _split_command(name, command) if isinstance(command, str) else list(command)
            work = self.local.bridge(name, words, env=env, cwd=folder, **asks)
        within = (start_seconds(words) if timeout is None else timeout) + JOINED_WITHIN
        return self._run(work, f"bridging {name!r}", timeout=within, idle=told)

    def coding_agent(
        self,
        agent: str | Sequence[str],
        name: str = "",
        *,
        env: Sequence[str] | Mapping[str, str] = (),
        cwd: str | Path | None = None,
        can: Can = "agent",
        mode: str | None = None,
        session: str = "",
        obeys: Sequence[str] | None = None,
        turns: int | None = None,
        minutes: float | None = None,
        tokens: int | None = None,
        reasons: bool = False,
        files: str | Path | None = None,
        tools: bool = False,
        ask_once: bool = False,
        restarts: int = 3,
        timeout: float | None = None,
    ) -> CodingAgentSeat:
        """Starts a coding agent that speaks the Agent Client Protocol, as a participant of the space.

        What you write to it is its prompt. What it asks permission for is among the approvals, with its own options. It
        asks by its own rules: what it does not ask about runs with your rights.

        Args:
            agent: `claude`, `codex`, `gemini`, `opencode` or `qwen`; or the program and arguments of another, as a list.
            name: Its participant id. Default: the name of a known agent, or that of the program.
            env: Names of environment variables to pass on, or names and values, besides those that a known agent gets.
            cwd: The folder in which it works; default: that of this process.
            mode: The mode to set. Default: the one that asks most, where that is known.
            session: The id of an earlier session to go on with.
            obeys: The participants whose chat is a prompt: ids, or `*`. Default: you, and each participant that may call
                any tool itself.
            turns, minutes, tokens: What it may do before it asks whether to go on.
            reasons: Whether the reason of a rejection goes to it as its next prompt.
            files: The folder of which it may read files by this lab, and write them as you decide: each write is a card
                with its difference. Default: it is offered none. It may have ways of its own to touch files.
            tools: Whether it gets the tools of the space, as another participant, `NAME-tools`, whose calls are
                proposals. By its own rules it may ask for its own permission besides.
            ask_once: With `tools`, whether your permission counts for the call of that tool, too. It does once, within
                60 s, where you allowed that very call once, and its card has no warning.
            restarts: How often within a minute it is started again when it ends by itself, before it leaves.
            timeout: Seconds in which it must begin a session. Default: 30, or 300 where its command may download it.

        Raises:
            ConfigError: The agent is not known, a variable is not set, or a limit is none.
            MewError: It does not start, with the end of its error output; or the name is taken.
        """
        words = agent if isinstance(agent, str) else list(map(str, agent))
        id = name or (agent if isinstance(agent, str) else Path(words[0]).stem if words else "")
        work = self.local.coding_agent(
            id,
            words,
            can=can,
            env=env,
            cwd=Path(cwd) if cwd is not None else Path.cwd(),
            mode=mode,
            session=session,
            obeys=obeys,
            turns=turns,
            minutes=minutes,
            tokens=tokens,
            reasons=reasons,
            files=files,
            tools=tools,
            ask_once=ask_once,
            restarts=restarts,
            start_timeout=timeout,
            on_start=(told := StartLines()).add,
        )
        patience = start_seconds(words if isinstance(words, list) else ()) if timeout is None else timeout
        return self._run(work, f"starting {id!r}", timeout=patience + JOINED_WITHIN, idle=told)

    def bridge_all(
        self,
        file: str | Path = ".mcp.json",
        *,
        only: Sequence[str] = (),
        trust: Sequence[str] = (),
        inputs: Mapping[str, str] | None = None,
        can: Can = "tool",
        restarts: int = 3,
        timeout: float | None = None,
        writes: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        quorum: int | None = None,
        deciders: Sequence[str] = (),
    ) -> Listing:
        """Connects the MCP servers of the file of a client, such as `.mcp.json` or `.vscode/mcp.json`.

        A card shows what a server would run, and the names of the variables that it reads, the first time and whenever
        its entry changes. Where no card can be pressed while the cell waits, you type yes. A server that cannot be used
        is left out with a sentence, and so is one whose name is seated already. Run it again after a change of the file.

        Args:
            only: The names of some servers of the file; default: all.
            trust: The digests of entries that are allowed, for a run without a person.
            inputs: Answers to `${input:…}`, by id; you are asked for the others.
            can: The rights of each server in the space.
            restarts: As in `bridge`.
            timeout: As in `bridge`, for each server.
            writes: As in `bridge`, by the names of servers: `{"files": {"save": ("path", "content")}}`.
            quorum, deciders: As in `bridge`, for each server.

        Raises:
            ConfigError: The file cannot be read, a name or a digest is none, or `quorum` is no count of the deciders.
            MewError: The space runs elsewhere.
        """
        self._check_up(f"bridging the servers of {file}")
        self.loop.call(lambda: self.local.own_host(f"Cannot bridge the servers of {str(file)[:200]}"))
        enforced = Quorum.of(quorum, deciders)

        def seated(config: McpConfig) -> dict[str, str]:
            ids = participant_ids(config)
            return {
                name: f"{id} is a participant already; lab.leave({id!r}) ends it"
                for name, id in ids.items()
                if id in self.seats
            }

        admitted, left_out = admit_file(
            file,
            person=self._person(),
            trusted=trust,
            only=only,
            skipped=seated,
            answers=inputs,
            environ=os.environ,
            writes=writes,
        )
        told = StartLines()
        options: dict[str, Any] = {"can": can, "restarts": restarts, "on_start": told.add}
        if timeout is not None:
            options["start_timeout"] = timeout
        if enforced is not None:
            options |= {"quorum": enforced.count, "deciders": enforced.deciders}
        commands = [server.command for server in admitted.values()]
        starts = [start_seconds([] if isinstance(command, str) else command) for command in commands]
        rounds = len(admitted) // PARALLEL + 1
        within = (max(starts, default=0.0) if timeout is None else timeout) * rounds + JOINED_WITHIN
        doing = f"bridging the servers of {file}"
        work = self.local.bridge_each(admitted, **options)
        failed = self._run(work, doing, timeout=within, idle=told, awaitable=False)
        tools = {
            server.name: (id, len(self.local.bridge_of(id).listed.entries))
            for id, server in admitted.items()
            if self.local.owns_bridge(id)
        }
        return list_bridged(tools, {**left_out, **failed})

    def _person(self) -> Person | None:
        """Who is asked whether a server may be started: by a card where this cell can show one, else by text."""
        typing, watch = find_person(), find_above("watch_question")
        if typing is None or watch is None or self.loop.threadless:
            return typing
        return CardPerson(self.asked, loop=self.loop, watch=lambda id: watch(self, id))

    def set_roots(self, name: str, roots: Sequence[str | Path]) -> Note:
        """Names other roots for the server that was bridged as `name`, and tells it that they have changed.

        Raises:
            ConfigError: A folder does not exist, or it was bridged without roots.
            MewError: It was not bridged here.
        """

        async def change() -> Note:
            await self.local.bridge_of(name).set_roots(roots)
            return Note(f"{name} has {count_of(len(roots), 'root')} now")

        return self._run(change(), f"changing the roots of {name!r}")

    def allow_sampling(self, name: str, model: Model | str | bool = True) -> Note:
        """Lets a server that another process has bridged ask for replies of a model, as `bridge(sampling=…)` does.

        You approve each of its prompts. False ends it.
        """
        thinks = _sampling_model(model)
        if thinks is None:
            self.loop.call(lambda: self.asked.models.pop(name, None))
            return Note(f"{name} may not ask for replies of a model")
        self.loop.call(lambda: self.asked.models.update({name: thinks}))
        return Note(f"{name} may ask for replies of {thinks.name}; you approve each")

    def tool_approvals(self, name: str) -> LabToolApprovals:
        """Seats `name`, which proposes the pending tool calls of an agent framework, and `name-tools`, which has them.

        Pass it to `run` of `mew_lab.bridge.frameworks.pydantic_ai`, `.openai_agents` or `.langgraph`: each call that
        needs an approval becomes a card here.

        Raises:
            MewError: One of both is seated already, or the space runs elsewhere.
        """
        return LabToolApprovals(self.join(name), self.join(f"{name}-tools", "tool"), self.loop)

    def agent(
        self,
        name: str,
        *,
        model: Model | str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        can: Can = "agent",
        **options: Any,
    ) -> AgentSeat:
        """Seats an agent: it receives messages, publishes its reasoning, calls tools or proposes calls, and answers.

        For an agent that is seated already, options alone change it, as `%%agent` does.

        Args:
            model: A model's name at a server of the chat completions API; `"offline"` (the default), the built-in
                model, which follows rules; or any Model.
            base_url: That server's address; default: that of the `openai` package.
            api_key: Its key; default: OPENAI_API_KEY. It is shown nowhere.
            options: See `AgentOptions`, such as `system_prompt` or `max_iterations`.

        Raises:
            ConfigError: An option, the model or `can` is not valid.
            MewError: The name is seated already, or the space runs elsewhere.
        """
        _check_agent_options(options)
        seated = self.seats.get(name)
        if (
            isinstance(seated, AgentSeat)
            and options
            and (model, base_url, api_key, can) == (*[None] * 3, "agent")
        ):
            seated.configure(**options)
            return seated
        thinks = model_of(model, base_url=base_url, api_key=api_key)  # here: its library loads for a second
        seating = self.local.agent(name, can, thinks, options, owns_model=thinks is not model)
        return self._run(seating, f"starting the agent {name!r}")

    def tools_agent(
        self,
        file: str | Path,
        *,
        name: str | None = None,
        model: Model | str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        can: Can | None = None,
        **limits: Any,
    ) -> ToolsAgentSeat:
        """Seats the agent of an agent file: its tools are tools of the space, and so are those of its servers.

        The servers of the file are started as participants. When the agent is seated already, the file is read again.

        Args:
            file: An agent file, YAML or JSON.
            name: The participant id of the agent; default: made from the name in the file.
            model: A Model, or the name of one; default: that of the file.
            base_url: The address of a server of the chat completions API that has the model.
            api_key: Its key; default: OPENAI_API_KEY. It is shown nowhere.
            can: A profile or patterns; default: those of an agent that may call the tools of the file's servers.
            limits: See `Executor`, such as `deadline`; and `without_supervisors`.

        Raises:
            ConfigError: The file has faults, each with its place, or the agent cannot be served.
            MewError: A server does not start, the name is seated already, or the space runs elsewhere.
        """
        path = Path(file).absolute()
        definition = read_agent_file(path).with_model(model if isinstance(model, str) else None)
        name = name or participant_id(definition.name, taken=())
        seated = self.seats.get(name)
        if isinstance(seated, ToolsAgentSeat) and seated.file == path and model is base_url is can is None:
            seated.reload()
            return seated
        given = None if isinstance(model, str) else model
        thinks = given or model_for(definition, base_url=base_url, api_key=api_key)
        told = StartLines()
        work = self.local.tools_agent(
            definition,
            name,
            can,
            thinks,
            file=path,
            owns_model=given is None,
            limits=limits,
            on_start=told.add,
        )
        # Its servers are started one after another.
        starts = sum(
            start_seconds(server.command) for server in definition.servers.values() if server.can_start
        )
        within = max(self.timeout, SERVED_WITHIN, starts + JOINED_WITHIN)
        return self._run(work, f"starting the agent of {path.name}", timeout=within, idle=told)

    def serve_mcp(
        self,
        name: str = "coder",
        *,
        can: Can = "proposer",
        port: int = 0,
        bare_names: str = "",
        answer_after: float = ANSWER_AFTER,
        decide_within: float = DECIDE_WITHIN,
        run_within: float = RUN_WITHIN,
        grace: float = GRACE,
        withdraw_after: float = WITHDRAW_AFTER,
    ) -> McpSeat:
        """Offers the space to MCP clients on this machine, such as a coding agent, as one server over HTTP.

        The clients take part as `name`. What it may not send is proposed, and waits for your approval.

        Args:
            port: 0 takes a free one.
            bare_names: The participant whose tools have their own names for the clients, without its name before them.
            answer_after: Seconds after which a call that still waits is answered as pending.
            decide_within: Seconds after which a call that nobody decided is refused.
            run_within: Seconds after which an approved call that its tool has not answered ends as unknown.
            grace: Seconds that a call still waits for a client that is gone.
            withdraw_after: Seconds after which a call that its client cancelled is withdrawn.

        Raises:
            ConfigError: The name, `can` or a limit is not valid, or the port is taken.
            MewError: The name is seated already, or the space runs elsewhere.
        """
        limits = {
            "answer_after": answer_after,
            "decide_within": decide_within,
            "run_within": run_within,
            "grace": grace,
            "withdraw_after": withdraw_after,
        }
        work = self.local.serve_mcp(name, can, port=port, bare_names=bare_names, **limits)
        return self._run(work, f"serving MCP clients as {name!r}", timeout=max(self.timeout, SERVED_WITHIN))

    def agents(self) -> Listing:
        """The agents of this process as a listing: state, model, current work."""
        return self.loop.call(lambda: list_agents(self))

    def of(self, name: str) -> ParticipantVerbs:
        """What you do to the participant of that name: `lab.of("coder").pause(minutes=5)`.

        Raises:
            NoSuchParticipant: Nobody is known by that name; the error has the nearest one.
        """
        self._check_up("looking for a participant")

        def find() -> ParticipantVerbs:
            found = find_standing(self, name)
            if found is None:
                names = [standing.name for standing in standings(self)]
                raise NoSuchParticipant(
                    f"Cannot do anything to {one_line(name, 64)!r}: {name_absent([name], names)}",
                    waiting_for=name,
                )
            return ParticipantVerbs(
                self, found.name, granting=self.granting, losses=self._losses, find_id=self._find_id
            )

        return self.loop.call(find)

    def invite(
        self,
        name: str,
        can: Can | None = None,
        *,
        mail: str | None = None,
        reason: str = "",
        timeout: float = INVITED_WITHIN,
    ) -> Note:
        """Invites a participant: writes its token to a file that you alone can read, returns the shell line that joins.

        `lab.of(name).kick()` takes the invitation back.

        Args:
            can: A profile or a list of patterns; default: what each may be given, to chat and to propose.
            mail: An address that gets that line, without the token, by the command that the environment variable
                MEW_LAB_MAIL names as a JSON list of words, such as `["sendmail", "-t", "-i"]`.
            timeout: Seconds to wait for the gateway.

        Raises:
            ConfigError: No command for mail is set, or `mail` is no address; nobody is invited.
            Refused: The name is known already, or you may not give these permissions.
            CapabilityViolation: You may not invite.
        """
        within = check_seconds(timeout, key="timeout") + self.timeout + (MAILED_WITHIN if mail else 0.0)
        doing = f"inviting {name[:80]!r}"

        async def ask() -> Note:
            patterns = None if can is None else capabilities_of(can)
            to = None if mail is None else read_mail(mail)
            return Note(await invite_to_file(self, name, patterns, reason=reason, timeout=timeout, mail=to))

        return self._run(ask(), doing, timeout=within)

    def leave(self, name: str) -> Note:
        """Makes one of this process's participants leave the space."""

        async def leave() -> Note:
            if name == self.me.name:
                raise MewError("You are the human of this lab: lab.down() ends it")
            seat = self.seats.get(name)
            await self.local.leave(name)
            changed = f". {seat.left_behind}" if isinstance(seat, Seat) and seat.left_behind else ""
            return Note(f"{name} has left {self.space}{changed}")

        return self._run(leave(), f"leaving as {name!r}")

    def pause_all(self, reason: str | None = None) -> Note:
        """Pauses all agents of the space until `resume_all`; tools and people go on."""
        return self._tell(ParticipantActions(self).pause_all(reason=reason), "pausing the agents")

    def resume_all(self, reason: str | None = None) -> Note:
        """Resumes the agents that you have paused."""
        return self._tell(ParticipantActions(self).resume_all(reason=reason), "resuming the agents")

    def tool(
        self, function: Callable[..., Any] | None = None, /, *, seat: Seat | str | None = None, **options: Any
    ) -> Any:
        """Decorator: makes a typed function a tool of the seat `notebook`, or of `seat` or the one of that name.

        Running the cell again replaces the tool. It may return what a notebook shows: a figure, a DataFrame, several of
        them; see `mew_lab.ToolResult.of`.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            holder = self.seat(seat) if isinstance(seat, str) else seat or self.seats.get(NOTEBOOK_SEAT)
            if holder is not None:
                holder.tool(function, **options)
                return function
            box = ToolBox(name=NOTEBOOK_SEAT)  # it comes with its first tool
            add_tool(box, function, options, loop=self.loop)
            joining = self.local.join(NOTEBOOK_SEAT, "tool", what="tools of this notebook", tools=box)
            self._run(joining, "seating the notebook's tools", awaitable=False)
            return function

        return register if function is None else register(function)

    # --- speaking ---

    def seat(self, name: str | None) -> Seat:
        """The seat of that name; default: yours.

        Raises:
            MewError: No participant of this process has that name.
        """
        if name is None:
            return self.me
        if name not in self.seats:
            seated = listed(list(self.seats))
            raise MewError(f"{name[:80]!r} has no seat here{hint(name, self.seats)}; seated are {seated}")
        return self.seats[name]

    def chat(self, text: str, to: str | Sequence[str] = (), *, as_id: str | None = None) -> SentEnvelope:
        """Sends a chat message to all participants, or to those in `to`."""
        return self.seat(as_id).chat(text, to)

    def send(
        self, kind: str, payload: Mapping[str, Any] | None = None, *, as_id: str | None = None, **more: Any
    ) -> SentEnvelope:
        """Sends an envelope of any kind; see `Seat.send`."""
        return self.seat(as_id).send(kind, payload, **more)

    def stream(self, which: str | None = None, *, as_id: str | None = None, **options: Any) -> LabStream:
        """Opens a stream that you own, or takes the open one of that id; see `Seat.stream`."""
        return self.seat(as_id).stream(which, **options)

    def streams(self) -> Listing:
        """The open streams: owner, writers, recipients; `lab.stream(id)` reads one, `lab.view.streams` shows them."""
        self._check_up("listing the streams")
        return self.loop.call(lambda: list_streams(self.me))

    def call(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Calls `participant/tool` as yourself; see `Seat.call`."""
        return self.me.call(target, arguments, **kw)

    def ask(self, name: str | Sequence[str], text: str, *, timeout: float | None = None) -> Pending:
        """Sends a question to a participant, such as an agent, as yourself; see `Seat.ask`."""
        return self.me.ask(text, name, timeout=timeout)

    def propose(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Proposes a call of `participant/tool` as yourself; see `Seat.propose`."""
        return self.me.propose(target, arguments, **kw)

    # --- deciding ---

    @property
    def decide(self) -> Policy | None:
        """The policy that decides instead of you; None when you decide."""
        return self.decisions.policy

    @decide.setter
    def decide(self, policy: Policy | None) -> None:
        _check_policy(policy)
        self.loop.call(lambda: self.decisions.set_policy(policy))

    def on_proposal(self, function: Callable[[LabProposal], object]) -> Callable[[], None]:
        """Calls a function with each proposal of another participant, and with each change of its state.

        It gets a `mew_lab.Proposal`: of each that is open, at once and as they come, and again when its state or its
        warnings change. It runs on the loop of the lab, where nothing may block: write `await lab.approve(…)` there, in
        a coroutine function. What it raises is logged.

        Returns:
            A function that ends this; a second call of it does nothing.

        Raises:
            ConfigError: It is no function.
            MewError: It needs more than one argument.
        """
        self._check_up("listening for proposals")
        return self.loop.call(
            lambda: follow_proposals(self.decisions, self.me.participant.proposals.get, function)
        )

    def approve(
        self,
        proposal: Approvable | Pending,
        *,
        to: str | Sequence[str] | None = None,
        digest: str = "",
        despite: str | Sequence[str] = (),
        option: str = "",
    ) -> Note:
        """Approves a proposal as yourself: sends its request, correlated to it.

        A large one that is still being read is waited for, up to 10 s.

        Args:
            proposal: An entry of `proposals()`; or a Pending, an id or its beginning, or a number such as `#13`, for
                which the whole card is shown first.
            to: The target, for a proposal that names none; it is then marked as edited.
            digest: For an id, 8 characters of the shown digest; without it, approve twice.
            despite: `rejected` approves it although a participant has rejected it; `unknown` approves a repeat of a call
                of which it is not known whether it took effect. Nothing approves what was withdrawn.
            option: The option that you choose where an agent asks for a permission: its id or its name. Without it, it
                is the only one that allows it once; where there is none, or several, nothing is chosen.
        """
        target = (to,) if isinstance(to, str) else tuple(to or ())
        named = self._name(proposal, "approve")
        over = (despite,) if isinstance(despite, str) else tuple(despite)
        done = approve(self.decisions, named, digest=digest, target=target, despite=over, option=option)
        return self._run(done, "approving a proposal", timeout=READ_WITHIN + self.timeout)

    def _name(
        self, proposal: Approvable | Pending, doing: str, kinds: tuple[str, ...] = ("mcp/proposal",)
    ) -> Approvable:
        """The proposal, with the id that a number names (R37).

        Raises:
            MewError: The number is of no message of these kinds.
        """
        if isinstance(proposal, Pending):
            return proposal_of(proposal, doing)
        if not isinstance(proposal, str):
            return proposal
        which = name_of(proposal)
        if isinstance(which, str):
            return which
        record = self.rows.record(which)
        members = (read_members(record.raw or "") or {}) if record is not None else {}
        if members.get("kind") not in kinds or not isinstance(members.get("id"), str):
            raise MewError(
                f"Cannot {doing} {one_line(str(proposal), 40)}: no {' and no '.join(kinds)} has this number here; "
                + (
                    "lab.proposals() lists what is open"
                    if "mcp/proposal" in kinds
                    else "lab.log lists the messages"
                )
            )
        return str(members["id"])

    def _id(
        self, call: str | Pending, doing: str, kinds: tuple[str, ...] = ("mcp/proposal", "mcp/request")
    ) -> str:
        """The id of a call: that of its Pending, the one that a number names, or the given one or its beginning."""
        return call.id if isinstance(call, Pending) else str(self._name(call, doing, kinds))

    def reject(self, proposal: Approvable | Pending, reason: str = "disagree") -> Note:
        """Rejects a proposal, given and waited for as for `approve`, with a reason: a standard code or any text."""
        named = self._name(proposal, "reject")
        done = reject(self.decisions, named, reason)
        return self._run(done, "rejecting a proposal", timeout=READ_WITHIN + self.timeout)

    def questions(self) -> OpenQuestions:
        """The open questions of MCP servers to you. Printing them shows them whole."""
        return self.loop.call(lambda: OpenQuestions(self.asked))

    def answer(
        self, question: Question | str, values: Mapping[str, Any] | None = None, *, action: str = "accept"
    ) -> Note:
        """Answers a question of an MCP server.

        Args:
            question: An entry of `questions()`, or an id or its beginning, whose text must have been printed first.
            values: Those of a form, by field.
            action: `accept` (for an address: you have opened it, or will), `decline`, or `cancel` to dismiss it.

        Raises:
            NotApproved: It was not shown yet; the error shows it.
            MewError: It is not open any more, or the values do not fit.
        """

        async def send() -> Note:
            named = self.asked.find(question) if isinstance(question, str) else question
            done = self.asked.carry_out(
                named.id, digest=named.digest, action=action, content=as_content(values)
            )
            return Note(await done)

        return self._run(send(), "answering a question")

    def withdraw(self, proposal: str | Pending, reason: str = "no_longer_needed") -> Note:
        """Withdraws a proposal of one of this process's seats, given by its Pending, its id or its number."""
        id = self._id(proposal, "withdraw", kinds=("mcp/proposal",))
        return self._tell(self.local.withdraw(id, reason), f"withdrawing {id[:80]!r}")

    def cancel(self, call: str | Pending | SentEnvelope, reason: str | None = None) -> Note:
        """Cancels a call that runs, or a chat message.

        A call is yours, that of another seat of this process, or, as the owner, that of anybody. Its target may go on
        all the same. The outcome is its answer where one still comes, else it is not known. A message of one of your
        seats is cancelled for everybody, another one that waits for you for you alone.

        Args:
            call: Its Pending, the id or the number of the request, of the proposal or of the message, or the beginning
                of that id.
            reason: Any text; default: `no_longer_needed` for a call, `handled_elsewhere` for a message.

        Raises:
            MewError: It does not run, or none of your seats may cancel it.
        """
        id = call.id if isinstance(call, SentEnvelope) else self._id(call, "cancel", kinds=CANCELLED)
        return self._tell(self._cancel(id, reason), f"cancelling {id[:80]!r}")

    async def _cancel(self, id: str, reason: str | None) -> str:
        everybody = dict.fromkeys([self.me, *self.seats.values()])
        found = find_chat([seat.participant for seat in everybody], id)
        if found is not None:
            (me, chat), why = found, reason or "handled_elsewhere"
            author, message = me.chats.author(chat), me.ledger.chats.get(chat)
            mine = author == me.client.id
            await cancel_chat(me, chat, message.to if message is not None and mine else (author,), why)
            whom = "for everybody" if mine else f"for {me.client.id} alone"
            return f"The message {one_line(chat, 80)} is cancelled {whom} ({one_line(why, 120)})."
        return await self.local.cancel(id, reason or "no_longer_needed")

    def acknowledge(
        self, message: str | SentEnvelope = "", *, status: str = "received", as_id: str | None = None
    ) -> Note:
        """Acknowledges a chat message that waits for you, by its id or number; default: all of them."""
        named = message if not isinstance(message, str) or not message else self._find_id(message)
        return self.seat(as_id).acknowledge(named, status=status)

    def _find_id(self, which: str, doing: str = "acknowledge", kinds: tuple[str, ...] = ("chat",)) -> str:
        return str(self._name(which, doing, kinds))

    def resolve(self, call: str | Pending, *, happened: bool, note: str = "") -> Note:
        """Records what you found out about a call whose outcome is unknown; it is in your name, with your note.

        Args:
            call: Its Pending, the id or the number of the request or of the proposal, or the beginning of that id.
            happened: Whether the call took effect.
            note: What you found out, and how; at most 1000 characters.

        Raises:
            MewError: There is no such call, its outcome is known, or you may send no request to its target.
        """
        id = self._id(call, "resolve")
        if not isinstance(happened, bool):
            raise MewError(f"Cannot resolve {id[:80]!r}: happened is True or False, and not {happened!r:.40}")

        return self._run(self.record_outcome(id, happened, note), f"resolving {id[:80]!r}")

    async def record_outcome(self, id: str, happened: bool, note: str = "") -> Note:
        """Records what this person found out about that proposal or request; see `resolve`."""
        me = self.me.participant
        calls = me.ledger.calls
        id = _complete_call(calls, id)
        proposal = calls.proposals.get(id)
        sent = proposal.request if proposal is not None else None
        request = calls.requests.get(id if sent is None else sent.id)
        if request is None and proposal is not None and sent is None:
            raise MewError(
                f"Cannot resolve {id[:80]!r}: it is a proposal that nobody approved, so nothing was sent; there is "
                "nothing to find out"
            )
        if request is None:
            raise MewError(
                f"Cannot resolve {id[:80]!r}: no call with this id is known here; lab.log.requests() lists them"
            )
        if request.state not in ("unknown", "resolved"):
            raise MewError(
                f"Cannot resolve {id[:80]!r}: it is {request.state}; only a call of unknown outcome is resolved"
            )
        await me.report_outcome(request.id, request.to, happened=happened, note=note)
        if self.host is None:  # its journal is elsewhere, or takes no such reports
            detail = {"about": "resolution", "request": request.id, "to": list(request.to)}
            self._note(REPORTED, {**detail, "happened": happened, "note": note})
        found = "it happened" if happened else "it did not happen"
        return Note(f"Recorded in your name, {self.me.name}: {found}")

    def load(self, call: str | Pending, *, timeout: float = LOADED_WITHIN) -> Any:
        """The whole result of an answered call, of whoever; one that was too large for a message is loaded.

        Its participant gives it to those that proposed, sent or approved the call, until it expires.

        Args:
            call: Its Pending, the id or the number of the request or of the proposal, or the beginning of that id.
            timeout: Seconds that loading may take.

        Raises:
            MewError: There is no such call, it has no result, or that cannot be loaded.
        """
        id = self._id(call, "load")

        async def load() -> Any:
            me = self.me.participant
            response = _response_to(me.ledger.calls, id)
            result = None if response is None else response.payload.get("result")
            if response is None or result is None:
                raise MewError(
                    f"Cannot load the result of {id[:80]!r}: no answer with a result is known here"
                )
            head = ResultHead.of(result)
            whole = result if head is None else await me.results.load(head, by=response.sender)
            return ToolResult(whole) if isinstance(whole, dict) and "content" in whole else whole

        return self._run(load(), f"loading the result of {id[:80]!r}", timeout=timeout)

    def stop(self) -> Listing:
        """Stops everything that this lab sets going, at once; returns what was seen to happen, one line each.

        Rules and the policy decide nothing, no card can be approved and no question answered, calls that run are
        cancelled, agents are paused. Rejecting, withdrawing and cancelling still work. It takes at most about a second;
        a second stop acts on what has come since.
        """
        return self._run(self.stopping.stop(), "stopping")

    def go(self) -> Listing:
        """Lists what going on after `stop` undoes; called once more, does it and returns what was seen to happen.

        The policy decides again, cards can be approved, agents that the stop has paused are resumed. Calls that were
        cancelled are not made again.
        """
        return self._run(self.stopping.go(), "going on")

    @property
    def rules(self) -> LabRules:
        """Your rules: those that your decisions suggest, and those that you have tried or adopted, with their evidence.

        `lab.rules.try_(3)` lets one judge in silence, `lab.rules.adopt(3)` lets it approve calls, `lab.rules.stop(3)`
        ends that. Each approval by a rule has its receipt, and some calls that it covers wait for you all the same.
        """
        self._check_up("listing the rules")
        return LabRules(self, self._losses)

    def undo(self) -> Note:
        """Revokes the permission that you gave last. MewError when none is in force."""
        return self._tell(self.granting.undo(), "revoking the permission given last")

    # --- looking ---

    def proposals(self, *, all: bool = False) -> Proposals:
        """The open proposals, each with everything that would be sent; with `all`, the decided ones too."""
        return self.loop.call(lambda: report.proposals(self, all=all))

    def history(self) -> Listing:
        """The decisions so far: time, proposal, decision, participant and outcome."""
        return self.loop.call(lambda: report.history(self))

    def who(self) -> Listing:
        """The participants of the space, and what each may send."""
        self._check_up("listing the participants")
        return self.loop.call(lambda: report.who(self))

    def status(self) -> Listing:
        """The state of the lab: address, members, envelopes, open proposals, policy, failures."""
        return self.loop.call(lambda: report.status(self))

    def tools(self, participant: str | None = None) -> Listing:
        """The tools of every participant that answers within a few seconds, or of `participant`."""

        async def ask() -> Listing:
            found = await report.gather_tools(self, participant, patience=DISCOVERY)
            asked = (
                [participant] if participant is not None else list(self.me.participant.client.participants)
            )
            for name in {*asked} - {*found.silent, *found.failed}:
                self.local.note_tools(name, [tool for who, tool in found.listed if who == name])
            return report.tools(found)

        return self._run(ask(), "asking for tools")

    def known_tools(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The tools that are known without asking anybody: pairs of `participant/tool` and its description."""
        return self.loop.call(self.local.all_known_tools)

    def save(self, path: str | Path) -> Note:
        """Writes the log so far to a file that `mew_lab.open_log` opens."""
        replaced = " It replaces an earlier file." if Path(path).is_file() else ""
        return Note(f"{self.log.save(path)}{replaced}")

    def report(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        filter: str = "",
        redact: Sequence[str] = (),
        redact_where: str = "",
        secrets: str = "mask",
    ) -> Note:
        """Writes the session so far as one HTML page: decisions, calls, chat, reasoning, messages.

        The page needs no network and runs no script. It holds arguments and results, as the log does, and calls
        everybody by name. `mew_lab.open_log(file).report(path)` does it for a saved session.

        Args:
            path: The file, such as `session.html`; its owner alone can read it.
            overwrite: Whether an existing file may be replaced.
            filter: The messages that the page holds, such as `kind ~ "mcp/*"`; empty for all.
            redact: Values that are replaced by `[redacted]` wherever they stand.
            redact_where: A filter of messages of which only kind, sender, addressees, method and tool stay.
            secrets: Likely secrets are masked and counted; `keep` leaves them.

        Raises:
            ConfigError: The file exists, or cannot be written; or a value is none.
            FilterError: A filter is none.
        """
        cards, me, roles = self.loop.call(
            lambda: (
                self.decisions.decided(),
                self.me.participant.client.id or self.me.name,
                {seat.name: _role(seat.what) for seat in self.seats.values()},
            )
        )
        said = report_log(
            self.log,
            path,
            filter=filter,
            redact=redact,
            redact_where=redact_where,
            secrets=secrets,
            overwrite=overwrite,
            again="lab.report({path!r}, overwrite=True)",
            cards=cards,
            me=me,
            roles=roles,
        )
        return Note(said)

    @cached_property  # a property would not be completed: IPython evaluates none while a person types
    def view(self) -> Any:
        """The views of this lab; `lab.view.panel` is all of them."""
        return find_above("Views")(self)

    def serve_ui(self, *, port: int = 0, origin: str | None = None) -> Note:
        """Serves the panel as a page of its own, for a browser without Jupyter, and returns a link to it.

        The page decides in your name, as the views of a notebook do. It listens on 127.0.0.1 alone. Each link is for one
        browser, and good for two minutes; call this again for another one. A browser stays signed in for 12 hours
        after the last thing that was done in it, until `end_ui`, or until the space is down.

        Args:
            port: The port; 0 for a free one. A forwarded port must have the same number at both ends.
            origin: The address of a TLS proxy of yours that leads here, such as `https://lab.example.org`.

        Raises:
            ConfigError: The port is not free, `origin` is none of https, or the page is served already with another one.
        """
        self._check_up("serving the page")
        if self.page is None:
            view = self.view.panel  # made on the calling thread, as all views are
            return self._run(self.open_page(view, port=port, origin=origin), "serving the page")
        return self.loop.call(lambda: self._link(port, origin))

    async def open_page(self, panel: Any, *, port: int = 0, origin: str | None = None) -> Note:
        """Starts the server of the page, on the loop, and returns its first link; see `serve_ui`."""
        page = find_above("PageServer")(panel, space=self.space, port=port, origin=origin)
        await page.start()
        self.page = page
        return self._link(0, None)

    def _link(self, port: int, origin: str | None) -> Note:
        link: Note = self.page.new_link(port=port, origin=origin)
        return link

    def end_ui(self) -> Note:
        """Signs every browser out of the page, and makes its links void; `serve_ui` gives new ones."""
        page = self.page
        if page is None:
            return Note(f"{self.name} serves no page, so there is no session to end")
        note: Note = self.loop.call(page.end_sessions)
        return note

    def down(self) -> Note:
        """Ends the space, or leaves one that runs elsewhere; returns a sentence with the proposals still pending."""
        if self.closed:
            return Note(f"{self.name} is down already")
        note = self.loop.call(lambda: report.farewell(self))
        try:
            self.loop.run(self.close(), timeout=max(self.timeout, 10.0), doing=f"taking {self.name!r} down")
        finally:
            for callback in self.on_down:
                callback(self)
        return note

    def __repr__(self) -> str:
        state = "down" if self.closed else count_of(self._members(), "participant")
        messages = count_of(len(self.log), "message")
        return f"<Lab {self.name}: space {self.space} at {self.url or 'in memory'}, {state}, {messages}>"


def _response_to(calls: CallLedger, id: str) -> Envelope | None:
    """The response to that request or proposal, or to the one whose id begins so; None where there is none."""
    id = _complete_call(calls, id)
    proposal = calls.proposals.get(id)
    if proposal is not None:
        return None if proposal.response is None else proposal.response.envelope
    request = calls.requests.get(id)
    return None if request is None or request.response is None else request.response.envelope


def _complete_call(calls: CallLedger, id: str) -> str:
    """The id of the proposal or request that it is or that alone begins with it; itself where there is none.

    Raises:
        JournalError: several begin so; a peer may choose an id that begins as another.
    """
    ids = [call.id for index in (calls.proposals, calls.requests) for call in index]
    return complete_id(id, ids) or id


def _role(what: str) -> str:
    """What a seat is, for a reader who sat in none."""
    return "person" if what == "you" else what


def _sampling_model(sampling: Model | str | bool | None) -> Model | None:
    """The model that may reply to a server; None for none."""
    if sampling is None or sampling is False:
        return None
    return model_of(None if sampling is True else sampling)


def _split_command(name: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise ConfigError(f"Cannot bridge {name[:80]!r}: the command {command[:80]!r}: {fault}") from None
    if not words:
        raise ConfigError(
            f"Cannot bridge {name[:80]!r}: the command is empty; it takes a program and its arguments"
        )
    return words


def _check_agent_options(options: Mapping[str, Any]) -> None:
    """Refuses an unknown option with the nearest one, the arguments of `Lab.agent` itself included."""
    known = [*AgentOptions.__dataclass_fields__, *Habits._fields]
    for key in options:
        if key not in known:
            nearest = hint(key, ["model", "base_url", "api_key", "can", *known])
            raise ConfigError(
                f"An agent has no option {key[:80]!r}{nearest}; help(lab.agent) tells the rest", key=key
            )


def _check_policy(policy: object) -> None:
    """Refuses what is no policy, which would be noticed only when it has to decide."""
    if policy is None or isinstance(policy, Policy):
        return
    makers = {"approve": "Policy.approve()", "deny": "Policy.deny()", "reject": "Policy.deny()"}
    if isinstance(policy, str):
        maker = makers.get(policy.lower(), "Policy.approve()")
        what = f"not {policy[:40]!r}; did you mean lab.decide = {maker}?"
    elif isinstance(policy, type):
        what = f"not the class {policy.__name__}; did you mean {policy.__name__}.approve()?"
    elif callable(policy):
        what = (
            "not a function. Give it a name: Policy('name', function), where function(card) returns "
            "Decision('approve'), Decision('reject', 'why') or None; Decision is in mew_lab.lab.decisions.policies"
        )
    else:
        what = f"not {type(policy).__name__}; such as Policy.approve() or Policy.deny('reason')"
    raise ConfigError(f"lab.decide takes a Policy, or None where you decide, {what}", key="decide")
