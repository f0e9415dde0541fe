"""The labs of this process: creates them, keeps the current one, and ends them when the process ends.

A lab of a space that runs elsewhere sees only what its participant receives. Verdicts, and refusals of other
participants' messages, are missing: the gateway sends those to the sender alone.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

from mew_lab import find_above
from mew_lab.bridge.mcp import McpBridge
from mew_lab.errors import ConfigError, JournalError, MewError
from mew_lab.gateway.auth import token_from
from mew_lab.gateway.space_file import names_file, read_space_file
from mew_lab.lab.decisions.policies import policy_from_environment
from mew_lab.lab.folder_space import find_space
from mew_lab.lab.host import Host
from mew_lab.lab.lab import Lab
from mew_lab.lab.listing import Note
from mew_lab.lab.loop import LoopThread, the_loop
from mew_lab.lab.notification import Notify, notify_from
from mew_lab.lab.resuming import Past, PastCalls, folder_of
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.log.branching import begin_branch
from mew_lab.log.journal import Journal, journal_path
from mew_lab.log.kept_heads import keep_head_of
from mew_lab.log.log import Log
from mew_lab.log.moment import Moment
from mew_lab.protocol.address import Address
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.connection import address
from mew_lab.sdk.result_store import ResultLimits
from mew_lab.sdk.tools import ToolBox
from mew_lab.space.events import TOKEN_PLACEHOLDER, Record

__all__ = ["HostedLab", "close_all", "connect", "current", "forget", "labs", "record_received", "up", "use"]


TIMEOUT = 10.0

logger = logging.getLogger(__name__)

# Written by the functions below, which a person calls one after the other; views only read it.
_labs: dict[str, Lab] = {}
_current: list[str] = []


def labs() -> dict[str, Lab]:
    """The labs that are up, by name."""
    return dict(_labs)


def current() -> Lab:
    """The lab that the magics use.

    Raises:
        MewError: No lab is up.
    """
    if not _current:
        raise MewError(
            "No space is up here; start one with %mew up (mew_lab.up()), or join one with %mew connect URL"
        )
    return _labs[_current[-1]]


def use(name: str) -> Lab:
    """Makes another lab the current one.

    Raises:
        MewError: No lab has that name.
    """
    if name not in _labs:
        raise MewError(f"There is no lab {name[:80]!r}; there are {', '.join(_labs) or 'none'}")
    _current.remove(name)
    _current.append(name)
    return _labs[name]


def forget(lab: Lab) -> None:
    """Removes a lab that is down from the list."""
    if _labs.get(lab.name) is lab:
        del _labs[lab.name]
        _current.remove(lab.name)


def _check_free(name: str) -> None:
    if name in _labs:
        raise MewError(f"A lab {name!r} is up already; %mew down ends it, or choose another name")


def _keep(lab: Lab) -> None:
    if not _labs:
        atexit.register(close_all)
    if (prepare := find_above("prepare")) is not None:
        prepare()
    _labs[lab.name] = lab
    _current.append(lab.name)
    lab.on_down.append(forget)


@contextlib.asynccontextmanager
async def _opening(lab: Lab, *more: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Lists the lab when it is up; closes it where the work fails, so that this leaves no name behind, and does more."""
    try:
        yield
    except BaseException:
        await lab.close()
        for end in more:
            await end()
        raise
    _keep(lab)


@explains_arguments
def up(
    name: str | Path = "demo",
    *,
    as_id: str | None = None,
    auto_start: bool = True,
    journal: str | Path | Literal["auto"] | None = "auto",
    port: int | None = 0,
    resume: str | Path | Moment | None = None,
    heads: Literal["check", "ignore"] = "check",
    timeout: float = TIMEOUT,
    strict_unknown: bool = False,
    repeats_within: float = DAY,
    results: ResultLimits | None = None,
    share_review: bool = False,
    quorum: int | None = None,
    deciders: Sequence[str] = (),
    notify: str | Path | Notify | Literal[False] | None = None,
) -> Lab:
    """Starts a space in this process, on 127.0.0.1, and seats you in it.

    Args:
        name: The name of the space, and of the lab; or a space.yaml (`.yaml`, `.yml`, `.json`, or any `Path`) that
            describes it.
        as_id: Your participant id; default: the file's `default_participant`, or `human`. You own the space unless the
            file names another owner, and are enrolled where it does not name you.
        auto_start: Whether to start the programs of the file.
        journal: A file, `auto` for `.mew/<space>/<utc>.jsonl` in the working directory, or beside the space.yaml;
            None for no journal.
        port: 0 for a free one; None for a space in memory that no other process can reach.
        resume: The journal of a space that ran before; its chain is verified first. The space resumes under its own
            name and owner, in its own file, and on its port where that is free. It has its grants, invitations, pauses
            and history, and the tokens whose files still exist. Connections have ended, and open approvals do not come
            back. Calls that waited for an answer have an unknown outcome. Or a moment, `log.at(seq)`: the space goes on
            from there in a new journal; the old one stays as it is.
        heads: `ignore` resumes a journal for which the heads that were kept elsewhere do not vouch.
        timeout: The time limit of blocking methods, in seconds.
        strict_unknown: Whether a call that may repeat one of unknown outcome is left to a person even where its tool
            says that it only reads, or that a second call does no more than the first. Spec: R35.
        repeats_within: The seconds for which an equal call counts as such a repeat.
        results: How much each participant of this process keeps of results that no message can hold, and how long;
            default: 64 MiB a result, 256 MiB in all, and a day. Spec: R43.
        share_review: Whether the others see which cards you look at, and to which you said yes. Spec: R39.
        quorum: How many of the participants in `deciders` must have said yes before an approval of this lab is sent; see
            `Lab.quorum`.
        notify: The address that is told when something waits for you, the `Path` of a file, readable by you alone, that
            holds it, or a `lab.notification.Notify`; default: what the environment variable MEW_LAB_NOTIFY says. False:
            nobody. A space.yaml cannot set it.

    Raises:
        ConfigError: The name or `timeout` is not valid, the port is not free, or the file has faults; the message has
            all of them.
        HeadsDiffer: The heads that were kept elsewhere do not vouch for the journal of `resume`.
        JournalError: The journal cannot be created or resumed, or was changed after it was written.
        ReplayMismatch: The journal of `resume` differs from what a space would have written.
        MewError: A lab of that name is up already.

    Spec: §3.6, §5.
    """
    settings: dict[str, Any] = {
        "strict_unknown": strict_unknown,
        "repeats_within": repeats_within,
        "results": results,
    }
    reviewing = (share_review, quorum, tuple(deciders))
    told = notify_from(notify)
    if isinstance(resume, Moment):
        _check_free(resume.space)
        resume = _branch(resume, heads)
    if resume is not None:
        return _up_again(
            resume,
            as_id=as_id,
            port=port,
            heads=heads,
            timeout=timeout,
            settings=settings,
            reviewing=reviewing,
            notify=told,
        )
    file = read_space_file(name) if names_file(name) else None
    space = file.config.name if file is not None else str(name)
    folder = file.folder if file is not None else Path.cwd()
    me = as_id or (file and file.config.default_participant) or "human"
    _check_free(space)
    policy = policy_from_environment()
    path = journal_path(folder, space=space, now=datetime.now(UTC)) if journal == "auto" else journal
    loop = the_loop()
    lab = Lab(space, space=space, loop=loop, timeout=timeout, vantage="gateway")
    lab.local.set(**settings)
    lab.set_review(*reviewing)
    lab.notify = told

    async def start() -> Lab:
        kept = Path(path) if path is not None else None
        host = lab.local.host = Host(space, folder=folder, journal=kept, port=port, observe=lab.observe)
        lab.take_log(Log.live(space=space, journal=host.journal))
        async with _opening(lab):
            if file is None:
                await host.open(owner=me, can="human")
            else:
                await host.open_file(file, person=me, fault=lab.fault)
            lab.url = host.url
            participant = lab.local.participant(host.client_for(me), tools=ToolBox(name=me))
            await lab.open(participant, name=me, policy=policy)
            if file is not None and auto_start:
                await host.start_programs(file, tell=logger.info, fault=lab.fault)
        for remark in (*(file.remarks if file is not None else ()), *host.remarks()):
            lab.fault(remark)
        return lab

    return loop.run(start(), timeout=timeout, doing=f"starting the space {space!r}")


def _branch(moment: Moment, heads: Literal["check", "ignore"]) -> Path:
    """Begins a journal with the state of a moment, beside that of the moment; returns its path."""
    if not moment.paths:
        raise JournalError(
            f"Cannot go on from {moment.space} behind #{moment.seq}: its log has no journal of a gateway; open "
            "the journal with open_log, and take the moment of that"
        )
    now = datetime.now(UTC)
    target = journal_path(folder_of(moment.paths[0]), space=moment.space, now=now)
    head = begin_branch(moment.paths, moment.seq, target=target, now=now, with_heads=heads == "check")
    keep_head_of(target, None, head)
    return target


def _up_again(
    path: str | Path,
    *,
    as_id: str | None,
    port: int | None,
    heads: Literal["check", "ignore"],
    timeout: float,
    settings: Mapping[str, Any],
    reviewing: tuple[bool, int | None, Sequence[str]],
    notify: Notify | None,
) -> Lab:
    """Resumes a space that ran before. Its journal is read on this thread: the loop has other spaces to serve.

    `settings` are the arguments of `LocalParticipants.set`, `reviewing` those of `Lab.set_review`.
    """
    policy = policy_from_environment()
    loop = the_loop()
    made: list[Lab] = []
    calls = PastCalls()

    def meet(name: str, journal: Journal) -> None:
        _check_free(name)
        lab = Lab(name, space=name, loop=loop, timeout=timeout, vantage="gateway")
        lab.local.set(**settings)
        lab.set_review(*reviewing)
        lab.notify = notify
        lab.take_log(Log.live(space=name, journal=journal))
        made.append(lab)

    def observe(record: Record) -> None:
        calls.observe(record)
        made[0].observe(record)

    past = Past(
        path,
        heads=heads,
        meet=meet,
        observe=observe,
        pass_over=lambda records, envelopes, unknown: made[0].pass_over(records, envelopes, unknown),
    )
    calls.end()
    (lab,) = made
    decided = lab.log.decided_calls()
    me = as_id or past.owner or "human"

    async def start() -> Lab:
        host = lab.local.host = Host(
            past.name, folder=past.folder, journal=None, port=port, observe=lab.observe, past=past
        )
        async with _opening(lab):
            await host.resume(person=me)
            lab.url = host.url
            participant = lab.local.participant(host.client_for(me), tools=ToolBox(name=me))
            participant.adopt_unknown(calls.unknown)
            await lab.open(participant, name=me, policy=policy, decided=decided)
        for remark in filter(None, (past.remark, *host.remarks())):
            lab.fault(remark)
        return lab

    return loop.run(start(), timeout=timeout, doing=f"resuming the space {past.name!r}")


@explains_arguments
def connect(
    url: str | None = None,
    *,
    space: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    token_env: str | None = None,
    as_id: str | None = None,
    name: str | None = None,
    timeout: float = TIMEOUT,
    strict_unknown: bool = False,
    repeats_within: float = DAY,
    results: ResultLimits | None = None,
    share_review: bool = False,
    quorum: int | None = None,
    deciders: Sequence[str] = (),
    notify: str | Path | Notify | Literal[False] | None = None,
) -> Lab:
    """Joins a space that runs elsewhere; the lab then shows what its participant receives.

    Args:
        url: `ws://host:port/ws`, or without the path. None: the space that runs in the working directory, started by
            `mew-lab up` or `mew-lab serve`; where none does, the one of MEW_GATEWAY, MEW_SPACE and MEW_TOKEN. No token
            goes to a process that is not this user's, or has not answered the id of its run.
        space: The name of the space; needed with a url.
        token: The token; `token_file` (readable by you alone) or `token_env` (name of an environment variable) is
            safer.
        as_id: The participant id of this connection; default: the token's own participant.
        name: The lab's name; default: that of the space.
        strict_unknown, repeats_within, results, share_review, quorum, deciders, notify: As `up` has them.

    Raises:
        ConfigError: There is no token, no space to be found, `url` is no address of a gateway or holds more than that,
            or `repeats_within` is no number of seconds, or a limit of `results` none.
        NotAdmitted: The gateway does not admit it.
        ConnectionLost, NoReply: No gateway answers there.

    Spec: §5.2.
    """
    remark = ""
    if url is None:
        if any(given is not None for given in (token, token_file, token_env)):
            raise ConfigError(
                "A token is given, and no gateway to send it to: give the address, too", key="url"
            )
        url, found, secret, remark = find_space(Path.cwd())
        if space not in (None, found):
            raise ConfigError(
                f"The space here is {found!r}, and not {space!r}; leave the name out", key="space"
            )
        space = found
    else:
        if not space:
            raise ConfigError(f"Cannot join {Address(url)}: give the name of the space there", key="space")
        address(url, space)
        secret = token_from(token, file=token_file, variable=token_env)
    name = name or space
    shown = Address(url)
    _check_free(name)
    policy = policy_from_environment()
    loop = the_loop()
    lab = Lab(name, space=space, loop=loop, timeout=timeout, vantage="participant")
    lab.local.set(strict_unknown=strict_unknown, repeats_within=repeats_within, results=results)
    lab.set_review(share_review, quorum, deciders)
    lab.notify = notify_from(notify)
    lab.url = shown

    async def start() -> Lab:
        client = MEWClient(gateway=url, space=space, token=secret, participant_id=as_id)
        record_received(client, space=space, observe=lab.observe)
        async with _opening(lab, client.disconnect):
            participant = lab.local.participant(client, tools=ToolBox(name=as_id or "human"))
            await lab.open(participant, name=as_id or "", policy=policy)
        if remark:
            lab.fault(remark)
        return lab

    return loop.run(start(), timeout=timeout, doing=f"joining the space {space!r} at {shown}")


class HostedLab:
    """The lab of a program that serves a space on the running loop; it is not among `labs`.

    Args:
        space: The name of the space.
    """

    def __init__(self, space: str) -> None:
        self._lab = Lab(space, space=space, loop=LoopThread.of_running(), timeout=TIMEOUT, vantage="gateway")
        self._lab.local.set(strict_unknown=False, repeats_within=DAY, results=None)
        self._lab.local.keeps_tokens = True
        self._calls = PastCalls()

    @classmethod
    def resume(cls, journal: Path, *, heads: Literal["check", "ignore"]) -> tuple[HostedLab, Past]:
        """The lab of a space that ran before, and what its host continues with. Raises as `Past`."""
        made: list[HostedLab] = []

        def meet(name: str, file: Journal) -> None:
            made.append(cls(name))
            made[0]._lab.take_log(Log.live(space=name, journal=file))

        def observe(record: Record) -> None:
            made[0]._calls.observe(record)
            made[0].observe(record)

        past = Past(
            journal,
            heads=heads,
            meet=meet,
            observe=observe,
            pass_over=lambda records, envelopes, unknown: made[0]._lab.pass_over(records, envelopes, unknown),
        )
        made[0]._calls.end()
        return made[0], past

    def observe(self, record: Record) -> None:
        """Takes the next record of the space, from its host."""
        self._lab.observe(record)

    def take(self, host: Host, *, logs: bool = True) -> None:
        """Takes the host of the space, before it is open; without `logs` the lab has the journal already."""
        self._lab.local.host = host
        if logs:
            self._lab.take_log(Log.live(space=host.name, journal=host.journal))

    async def serve(
        self,
        me: str,
        *,
        port: int,
        origin: str | None,
        share_review: bool = False,
        quorum: int | None = None,
        deciders: Sequence[str] = (),
        notify: Notify | None = None,
    ) -> Note:
        """Seats the person in the open space, and serves the page; returns its first link.

        Args:
            share_review, quorum, deciders, notify: As `up` has them.

        Raises:
            MewError: The person cannot be seated, or the port is not free.
        """
        lab, host = self._lab, self._lab.local.own_host("Cannot serve the page")
        policy = policy_from_environment()
        lab.set_review(share_review, quorum, deciders)
        lab.notify = notify_from(notify)
        lab.url = host.url
        participant = lab.local.participant(host.client_for(me), tools=ToolBox(name=me))
        participant.adopt_unknown(self._calls.unknown)
        await lab.open(participant, name=me, policy=policy)
        # A card warns of a tool that nobody lists, and nobody here asks for the lists otherwise.
        participant.discovery.enable_auto_discovery()
        return await lab.open_page(lab.view.panel, port=port, origin=origin)

    def adopt(self, bridge: McpBridge) -> None:
        """Takes an MCP server that this process has started into the care of its person, who knows its folders."""
        self._lab.local.adopt(bridge)

    @property
    def page(self) -> Any:
        """The server of the page; None before it is served."""
        return self._lab.page

    async def close(self) -> None:
        """Ends the page, leaves the space, and closes its host and its views."""
        await self._lab.close()
        if self.page is not None:
            # Each waits for its writer to end; what is left of them would go on with a loop that ends now.
            await asyncio.to_thread(self._lab.view.close)


def close_all() -> None:
    """Takes every lab down and stops the loop's thread. For the end of the process, and for unloading the extension."""
    loop = the_loop()
    for lab in tuple(_labs.values()):
        with contextlib.suppress(MewError):
            lab.down()
    loop.stop()
    atexit.unregister(close_all)


def record_received(
    client: MEWClient,
    *,
    space: str,
    observe: Callable[[Record], None],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Hands every envelope that the client receives to `observe`."""
    numbers = count(1)

    def take(envelope: Envelope) -> None:
        raw = _without_token(envelope)
        observe(Record(next(numbers), clock(), "received", space, envelope.sender, via="websocket", raw=raw))

    client.on_message(take)


def _without_token(envelope: Envelope) -> str:
    if envelope.kind != "space/invite-ack" or "token" not in envelope.payload:
        return envelope.raw
    payload = {**envelope.payload, "token": TOKEN_PLACEHOLDER}
    return compact({**envelope.members, "payload": payload})
