"""Executes one fulfilment of each proposal: the first that the ledger accepted, also after a restart.

How it works
------------
Several participants may approve one proposal at the same moment, each before it sees the request of the others. All see
these requests in one order (R1), so the executor knows the first one. It executes that one and refuses the others.
`Executions.take` judges each request of the participant before it goes to the `RequestServer`:

    it names no proposal, or another call than the proposed one      an ordinary request
    too few deciders say yes to it now, where there is a quorum      refused, and uses nothing up
    it is the fulfilment that the ledger accepted                    executed, once it is written down
    its proposal was fulfilled before                                refused, after the answer of the executed one
    its proposal was withdrawn                                       refused
    its proposal was never seen here                                 executed once, if this is written down; else refused
    it has the id of one that is not answered yet                    passed over where it is the same, else refused

What was executed is written into an `ExecutionFile` before it is executed. So a participant that starts again still
knows it, although it has seen neither the proposal nor its fulfilment. The outcome of what it did not answer is unknown:
it refuses a request by its sender's own right that repeats such a call (R35). A participant without a file remembers
only within its process, and refuses to execute proposals that it has not seen.

The refusal comes after the answer of the executed request, because peers take the first answer to any request about
their proposal as its outcome.

Spec: §3.2.1, rulings R1, R6, R17, R32, R35, R39.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from mew_lab.ledger.calls import (
    ALREADY_FULFILLED,
    WITHDRAWN,
    CallIndex,
    Change,
    Proposal,
    find_ended,
    method_of,
    tool_of,
)
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.unknown_calls import call_key, has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.connection import identify_gateway
from mew_lab.sdk.group import run_aside
from mew_lab.sdk.request_server import SERVER_ERROR, RequestServer
from mew_lab.sdk.tools import RpcError
from mew_lab.transport.files import replace_small, sync_folder

__all__ = ["ExecutionFile", "Executions", "SpaceIdentity"]

logger = logging.getLogger(__name__)
MAX_EXECUTED = 10_000  # proposals; beyond that, the participant with the most loses its oldest
MAX_SEEN = 10_000  # ids of messages that are no proposals
MAX_LATE = 1_000  # refusals that wait for an answer
MAX_ID = 256  # characters of an id as it is noted; of a longer one its digest is
MAX_TO = 16  # addressees that a report can name; of a request to more, it names not all
MAX_LINE = 32 * 1024  # bytes, more than such ids and addressees take
REFUSED_WITHIN = 240.0  # seconds; peers give up on a proposal after 300
NOT_EXECUTED = -32001
THREAD = "mew-lab-executions"  # which writes, so that the loop waits for no disk


class Executed(NamedTuple):
    """One executed fulfilment.

    Attributes:
        proposer: The proposer; empty where the proposal was not seen.
        proposal: The id of the proposal, and `request` that of the fulfilment, which `by` has sent.
        call: The digest of its method and tool: a request for another call is none of this proposal.
        answered: Whether an answer was sent that tells its outcome.
        same: The digest of its method, tool and arguments, by which a repeat is known (R35). Empty where it changes
            nothing, where a person found out what became of it, and in lines of earlier versions.
        at: When it was noted, in seconds.
        to: The addressees of the request, as far as a report of what became of it can name them.
        epoch: The run of the space in which it was executed, and `address` that of its gateway; empty where it is not
            known, and in lines of earlier versions.
    """

    proposer: str
    proposal: str
    request: str
    by: str
    call: str
    answered: bool = False
    same: str = ""
    at: float = 0.0
    to: tuple[str, ...] = ()
    epoch: str = ""
    address: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """By which it is held: another space of the same name may have a proposal of the same id."""
        return self.proposal, self.epoch or self.address

    @property
    def owner(self) -> str:
        """The participant to whose share it counts."""
        return self.proposer or self.by


class SpaceIdentity(NamedTuple):
    """What tells a space from another of its name: the epoch of its run, which a resumed space keeps, and the address of
    its gateway, however it is spelt, which a space that starts anew keeps. Either is empty where it is not known."""

    epoch: str = ""
    address: str = ""


class ExecutionFile:
    """The file of one participant in which executed fulfilments are kept: one JSON object a line, private.

    Each line is on the disk when `write` returns. Several processes may use the file, and several spaces of one name:
    each sees what was executed in a space of the same epoch or address, and what earlier versions noted without either.

    Args:
        folder: The folder, made where it is missing; `name` is the participant and its space.
        space: Which space of that name it is, now.
    """

    def __init__(self, folder: Path, *name: str, space: Callable[[], SpaceIdentity] = SpaceIdentity) -> None:
        self._space = space
        self.path = folder / "executions" / f"{hashlib.sha256(compact(name).encode()).hexdigest()[:32]}.jsonl"
        self._executed: BoundedDict[tuple[str, str], Executed] = BoundedDict(
            MAX_EXECUTED, owner_of=lambda one: one.owner
        )
        self._lock = threading.Lock()  # of this object; the lock of the file is between processes
        self._read: tuple[int, int] = (0, 0)  # the inode that was read, and so many bytes of it
        self._lines = 0

    def find(self, proposal: str) -> Executed | None:
        """What was executed of a proposal, by whichever process; None where nothing was.

        Raises:
            OSError: the file cannot be read.
        """
        if not self.path.exists():
            return None
        with self._open() as file:
            self._catch_up(file)
            mine = self._mine()
            for space in (mine.epoch or mine.address, ""):
                if (found := self._executed.get((proposal, space))) is not None:
                    return found
            return next((one for one in self._own() if one.proposal == proposal), None)

    def unanswered(self) -> list[Executed]:
        """What was executed, by whichever process, and has no answer that tells its outcome, the oldest first.

        Raises:
            OSError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        with self._open() as file:
            self._catch_up(file)
            return [one for one in self._own() if one.same and not one.answered]

    def _mine(self) -> SpaceIdentity:
        mine = self._space()
        return mine._replace(address=identify_gateway(mine.address))

    def tag(self, executed: Executed) -> Executed:
        """The entry as one of this space."""
        mine = self._mine()
        return executed._replace(epoch=mine.epoch, address=mine.address)

    def _own(self) -> Iterator[Executed]:
        """What was executed in this space, or may have been."""
        mine = self._mine()
        for one in self._executed.values():
            is_told = any(mine) and bool(one.epoch or one.address)
            if not is_told or one.epoch == mine.epoch != "" or one.address == mine.address != "":
                yield one

    def settle(self, request: str) -> None:
        """Notes that somebody found out what became of a request.

        Raises:
            OSError: the file cannot be read or written.
        """
        settled = [one._replace(same="") for one in self.unanswered() if one.request == request]
        if settled:
            self.write(settled)

    def write(self, executed: list[Executed], *, durably: bool = True) -> None:
        """Appends entries.

        Raises:
            OSError: they are not on the disk.
        """
        with self._open() as file:
            self._catch_up(file)
            os.lseek(file, 0, os.SEEK_END)
            data = _write_lines(executed)
            if os.write(file, data) != len(data):
                raise OSError(0, "the disk is full")
            if durably and executed:
                os.fsync(file)
            self._catch_up(file)
            if self._lines > 4 * MAX_EXECUTED:
                self._compact()

    @contextmanager
    def _open(self) -> Iterator[int]:
        """The open file, which no other thread or process changes meanwhile."""
        with self._lock, self._open_alone() as file:
            yield file

    @contextmanager
    def _open_alone(self) -> Iterator[int]:
        made = not self.path.exists()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = (
            os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        while True:
            file = os.open(self.path, flags, 0o600)
            try:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(0, f"{self.path} is no plain file")
                if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
                    os.fchmod(file, 0o600)
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                if self._is_at_path(status):  # another process may have replaced it before the lock
                    if made:
                        sync_folder(self.path.parent)
                    yield file
                    return
            finally:
                os.close(file)

    def _is_at_path(self, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(self.path.lstat(), status)
        except FileNotFoundError:
            return False

    def _catch_up(self, file: int) -> None:
        """Reads what was appended since the last time; a line that is no entry is left out."""
        status = os.fstat(file)
        inode, done = self._read
        if inode != status.st_ino or status.st_size < done:
            done, self._lines = 0, 0
        os.lseek(file, done, os.SEEK_SET)
        rest = b""
        while data := os.read(file, 1 << 20):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._lines += 1
                if (executed := _read_line(line)) is not None:
                    self._executed.pop(executed.key, None)  # the newest is the last to be forgotten
                    self._executed[executed.key] = executed
            if len(rest) > MAX_LINE:
                rest = rest[-MAX_LINE:]
        self._read = status.st_ino, status.st_size
        if rest:  # half a line of a process that was killed: the next one begins anew
            os.write(file, b"\n")
            self._read = status.st_ino, status.st_size + 1

    def _compact(self) -> None:
        """Replaces the file by one with the entries that are kept."""
        data = _write_lines(self._executed.values())
        replace_small(self.path.parent, self.path.name, data, durably=True)
        self._read, self._lines = (self.path.stat().st_ino, len(data)), len(self._executed)


def _write_lines(executed: Iterable[Executed]) -> bytes:
    return "".join(compact(one._asdict()) + "\n" for one in executed).encode("utf-8", "surrogatepass")


def _read_line(line: bytes) -> Executed | None:
    if len(line) > MAX_LINE:
        return None
    try:
        executed = Executed(**json.loads(line.decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, RecursionError):
        return None
    *texts, answered, same, at, to, epoch, address = executed
    if not isinstance(to, list) and to != ():
        return None
    if not all(isinstance(text, str) for text in (*texts, same, *to, epoch, address)) or not isinstance(
        answered, bool
    ):
        return None
    if not isinstance(at, int | float) or isinstance(at, bool):
        return None
    return executed._replace(to=tuple(to), address=identify_gateway(address))


class _Execution:
    """The execution of one request: it is written down before; `over` is called with it afterwards."""

    def __init__(
        self, executed: list[Executed], file: ExecutionFile | None, over: Callable[[_Execution], None]
    ) -> None:
        self.executed = executed if file is None else list(map(file.tag, executed))
        self.is_over = False
        self.answered = False
        self._file = file
        self._over = over

    async def begin(self) -> None:
        if self._file is None:
            return
        try:
            await run_aside(partial(self._file.write, self.executed), name=THREAD)
        except OSError as fault:
            why = f"Not executed: it could not be noted in {self._file.path}, so it might run twice: {fault}"
            raise RpcError(SERVER_ERROR, why) from None

    def end(self, answered: bool) -> None:
        self.is_over, self.answered = True, answered
        self._over(self)
        if answered and self._file is not None:
            marked = [executed._replace(answered=True) for executed in self.executed]
            # Where it fails, it is known only that it may have been answered. Nobody waits for it.
            noted = run_aside(partial(self._file.write, marked, durably=False), name=THREAD)
            noted.add_done_callback(lambda done: done.cancelled() or done.exception())


class _Late:
    """A request that came too late, and is refused when it is known what became of `about`.

    That is the execution, or the id of the proposal where others execute it.
    """

    def __init__(self, refuse: Callable[..., None], about: _Execution | str) -> None:
        self.refuse = refuse
        self.about = about
        self.due: asyncio.TimerHandle | None = None


class Executions:
    """The executions of one participant.

    Args:
        proposals: The proposals of its ledger, which has observed a request before it comes here.
        server: Executes requests, and sends refusals.
        name: The id of the participant.
        file: Where executed fulfilments are kept, made at the first one; None keeps them in memory alone.
        take_own: Executes or refuses a request by its sender's own right; returns whether it is executed now.
        judge: The refusal of a request for which a quorum is missing; None where none is. It gets the proposals that the
            request fulfils, and whether it may fulfil one that was not seen.
        reopen: Called with a fulfilment that was so refused: for the ledger, it has used nothing up.
    """

    def __init__(
        self,
        *,
        proposals: CallIndex[Proposal],
        server: RequestServer,
        name: Callable[[], str],
        file: Callable[[], ExecutionFile | None],
        take_own: Callable[[Envelope, McpRequest], bool],
        judge: Callable[[Envelope, Sequence[Proposal], bool], RpcError | None] = lambda request, of, unseen: (
            None
        ),
        reopen: Callable[[Entry], object] = lambda request: None,
    ) -> None:
        self._execute_own = take_own
        self._judge = judge
        self._reopen = reopen
        self._proposals = proposals
        self._server = server
        self._name = name
        self._make_file = file
        self._file: ExecutionFile | None = None
        self._has_file = True  # until it turns out that there is none
        self._is_checked = False
        self._executed: BoundedDict[str, _Execution] = BoundedDict(
            MAX_EXECUTED, owner_of=lambda one: one.executed[0].owner
        )
        self._replaced: BoundedDict[str, _Execution] = BoundedDict(
            MAX_EXECUTED, owner_of=lambda one: one.executed[0].owner
        )
        self._seen: BoundedDict[str, None] = BoundedDict(MAX_SEEN)
        self._late: dict[_Late, None] = {}
        self._lost: list[Executed] = []  # executed before this process, and never answered
        self.reads_lost = True
        """Whether the file tells those; not where the journal of the space does, for others may bear its name."""

    def observe(self, entry: Entry) -> None:
        """Records a message of the space, after the ledger."""
        # Every message of the space passes here.
        if entry.kind != "mcp/proposal":
            self._seen[entry.id] = None

    def follow(self, change: Change) -> None:
        """Records a change of a proposal."""
        if change.what == "proposed":  # an id that was executed before names another proposal now
            before = self._executed.pop(_short(change.call.id), None)
            if before is not None and before.executed[0].same:
                self._replaced[_short(change.call.id)] = before
        elif change.what in ("answered", "unknown", "forgotten"):
            unknown = change.what == "forgotten" or change.call.response is None
            self._refuse_waiting(change.call.id, unknown=unknown)

    def take(self, request: Envelope, payload: McpRequest) -> bool:
        """Executes a request to this participant, or refuses it, now or later; returns whether it is executed."""
        if (running := self._server.find(request.sender, request.id)) is not None:
            return self._take_again(request, payload, running)
        if not request.correlation_id or payload.method.startswith("notifications/"):
            return self._take_own(request, payload)
        ids = list(dict.fromkeys(request.correlation_id))
        known = [proposal for id in ids if (proposal := self._proposals.get(id)) is not None]
        ended = find_ended(known, request, (self._name(),))
        if ended is not None and ended.state != "withdrawn":
            return self._refuse_late(request, payload, ended)
        if (replaced := self._find_replaced(request, known)) is not None:
            return self._refuse_executed(request, payload, replaced)
        fulfilled: list[tuple[str, str]] = []  # proposer, proposal
        seen: list[Proposal] = []
        for proposal in known:
            if proposal.request is None or proposal.request.envelope is not request:
                continue
            if (before := self._executed.get(_short(proposal.id))) is not None:  # the same request once more
                return self._refuse_executed(request, payload, before)
            fulfilled.append((proposal.proposer, proposal.id))
            seen.append(proposal)
        held = {proposal.id for proposal in known}
        for id in ids:
            if id in held:
                continue
            unseen = self._judge_unseen(request, payload, id)
            if unseen is None:
                return False
            if unseen:
                fulfilled.append(("", id))
        if ended is not None and not fulfilled:
            return self._refuse_withdrawn(request, payload, ended)
        if not fulfilled:
            return self._take_own(request, payload)
        if (lacking := self._judge(request, seen, len(fulfilled) > len(seen))) is not None:
            self._server.refuse(request, payload, lacking)
            for proposal in seen[:1]:
                assert proposal.request is not None
                self._reopen(proposal.request)
            return False
        call, by = _digest_call(request), request.sender
        same = call_key(request.payload) if has_effect(payload.method) else ""
        executed = [
            Executed(
                _short(proposer),
                _short(id),
                _short(request.id),
                _short(by),
                call,
                same=same,
                at=time.time(),
                to=tuple(map(_short, request.to[: MAX_TO + 1])),
            )
            for proposer, id in fulfilled
        ]
        execution = _Execution(
            executed, self._usable(), lambda over: self._refuse_waiting(over, unknown=not over.answered)
        )
        for one in executed:
            self._executed[one.proposal] = execution  # by the id as it is noted
        self._server.take(request, payload, guard=execution)
        return True

    def _take_own(self, request: Envelope, payload: McpRequest) -> bool:
        if (lacking := self._judge(request, (), False)) is not None:
            self._server.refuse(request, payload, lacking)
            return False
        return self._execute_own(request, payload)

    def _find_replaced(self, request: Envelope, known: list[Proposal]) -> _Execution | None:
        """The execution of an earlier proposal, where a request approves that one, and not the one that has its id now.

        It was on its way when the proposer took the id anew (R6). As an edit of the new proposal, it would run again.
        """
        for proposal in known:
            replaced = self._replaced.get(_short(proposal.id))
            same = "" if replaced is None else replaced.executed[0].same
            if same and same == call_key(request.payload) and same != call_key(proposal.payload):
                return replaced
        return None

    def _take_again(self, request: Envelope, payload: McpRequest, running: Envelope) -> bool:
        """Takes a request under the id of one that is not answered yet; its sender may have joined anew since (R6)."""
        is_sent_again = running.correlation_id == request.correlation_id and are_equal(
            running.payload, request.payload
        )
        if not is_sent_again:  # nobody could tell their answers apart
            id, sender = one_line(request.id, 80), one_line(request.sender, 80)
            why = f"Not executed: request {id} of {sender} still runs, and has the same id; send it under another id"
            self._answer(request, payload, why, {"code": "duplicate_id"})
        return False

    def find_lost(self, payload: Mapping[str, Any], since: float) -> Executed | None:
        """The call that this one repeats, of those that an earlier process executed since then and did not answer."""
        self._opened()
        if not self._lost:
            return None
        same = call_key(payload)
        return next((one for one in self._lost if one.same == same and one.at >= since), None)

    def settle(self, request_id: str) -> None:
        """Takes that somebody found out what became of a request."""
        request = _short(request_id)
        self._lost = [one for one in self._lost if one.request != request]
        if (file := self._opened()) is not None:
            # Where it fails, a repeat is refused after a restart, until it is too old. Nobody waits for it.
            noted = run_aside(partial(file.settle, request), name=THREAD)
            noted.add_done_callback(lambda done: done.cancelled() or done.exception())

    def stop(self) -> None:
        """Sends none of the refusals that still wait."""
        for late in self._late:
            if late.due is not None:
                late.due.cancel()
        self._late.clear()

    # --- ids of which no proposal is held ---

    def _judge_unseen(self, request: Envelope, payload: McpRequest, id: str) -> bool | None:
        """Whether a request may be the fulfilment of an unseen proposal; None where it was refused."""
        call = _digest_call(request)
        before = self._executed.get(_short(id))
        if before is not None:
            if call != before.executed[0].call:
                return False
            self._refuse_executed(request, payload, before)
            return None
        file = self._opened()
        written: Executed | None = None
        if file is not None:
            try:
                written = file.find(_short(id))
            except OSError as fault:
                self._go_without(fault)
        if written is not None:
            if call != written.call:
                return False
            self._refuse(request, payload, by=written.by, first=written.request, unknown=not written.answered)
            return None
        if id in self._seen or _is_context(id, request):
            return False
        if self._usable() is None:
            me, of = one_line(self._name(), 80), one_line(id, 80)
            why = f"Not executed: {me} has not seen proposal {of}, so it may have been executed before; propose it again"
            self._answer(request, payload, why, {"code": "proposal_not_seen"})
            return None
        return True

    def _opened(self) -> ExecutionFile | None:
        """The file of what was executed; None where there is none."""
        if self._file is None and self._has_file:
            self._file = self._make_file()
            self._has_file = self._file is not None
            if self._file is not None and self.reads_lost:
                try:
                    self._lost = self._file.unanswered()
                except OSError as fault:
                    self._go_without(fault)
        return self._file

    def _usable(self) -> ExecutionFile | None:
        """The file, once it could be opened for writing; None where there is none."""
        file = self._opened()
        if file is not None and not self._is_checked:
            try:
                file.write([])
            except OSError as fault:
                self._go_without(fault)
        self._is_checked = True
        return self._file

    def _go_without(self, fault: OSError) -> None:
        if self._file is not None:
            logger.warning(
                "%s cannot be used, so %s executes only proposals that it has seen: %s",
                self._file.path,
                self._name(),
                fault,
            )
        self._file, self._has_file = None, False

    # --- refusing ---

    def _refuse_late(self, request: Envelope, payload: McpRequest, proposal: Proposal) -> bool:
        """Refuses a request whose proposal another request has fulfilled."""
        execution = self._executed.get(_short(proposal.id))
        if execution is not None:
            return self._refuse_executed(request, payload, execution)
        assert proposal.request is not None
        refuse = partial(self._refuse, request, payload, by=proposal.by, first=proposal.request.id)
        if proposal.response is not None:
            refuse(unknown=False)
        else:
            self._put_off(_Late(refuse, proposal.id))
        return False

    def _refuse_executed(self, request: Envelope, payload: McpRequest, execution: _Execution) -> bool:
        first = execution.executed[0]
        refuse = partial(self._refuse, request, payload, by=first.by, first=first.request)
        if execution.is_over:
            refuse(unknown=not execution.answered)
        else:
            self._put_off(_Late(refuse, execution))
        return False

    def _put_off(self, late: _Late) -> None:
        """Refuses a request when it is known what became of the executed one, or when its peer is about to give up."""
        self._late[late] = None
        end = partial(self._refuse_now, late, unknown=True)
        late.due = asyncio.get_running_loop().call_later(REFUSED_WITHIN, end)
        if len(self._late) > MAX_LATE:
            end()

    def _refuse_waiting(self, about: _Execution | str, *, unknown: bool) -> None:
        for late in [late for late in self._late if late.about == about]:
            self._refuse_now(late, unknown=unknown)

    def _refuse_now(self, late: _Late, *, unknown: bool) -> None:
        del self._late[late]
        if late.due is not None:
            late.due.cancel()
        late.refuse(unknown=unknown)

    def _refuse_withdrawn(self, request: Envelope, payload: McpRequest, proposal: Proposal) -> bool:
        # The approval crossed the withdraw, and the proposer was told that nothing runs.
        proposer, id = one_line(proposal.proposer, 80), one_line(proposal.id, 80)
        why = f"Not executed: {proposer} withdrew proposal {id} before its approval arrived"
        self._answer(request, payload, why, {"code": WITHDRAWN, "by": proposal.proposer}, code=SERVER_ERROR)
        return False

    def _refuse(self, request: Envelope, payload: McpRequest, *, by: str, first: str, unknown: bool) -> None:
        who, id = one_line(by, 80), one_line(first, 80)
        why = f"Not executed: already approved by {who}, whose request {id} was executed instead"
        if unknown:
            why = (
                f"Not executed: already approved by {who}; whether its request {id} took effect is not known"
            )
        data: dict[str, Any] = {"code": ALREADY_FULFILLED, "by": by, "request": first}
        self._answer(request, payload, why, {**data, "unknown": True} if unknown else data)

    def _answer(
        self,
        request: Envelope,
        payload: McpRequest,
        why: str,
        data: dict[str, Any],
        *,
        code: int = NOT_EXECUTED,
    ) -> None:
        self._server.refuse(request, payload, RpcError(code, why, data=data))


def _is_context(id: str, request: Envelope) -> bool:
    """Whether an id is that of the reasoning to which a request belongs, which is no proposal."""
    context = request.context or ""
    return context == id or context.startswith(f"{id}/")


def _short(id: str) -> str:
    return id if len(id) <= MAX_ID else hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def _digest_call(request: Envelope) -> str:
    """The digest of the method and the tool of a request."""
    text = compact([method_of(request.payload), tool_of(request.payload)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
