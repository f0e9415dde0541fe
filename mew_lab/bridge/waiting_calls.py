"""Keeps the calls of one MCP client while they wait for a person, and their outcomes until the client has them.

How it works
------------
A client that waits for a person may give up at its own time limit and call again. So a call does not belong to the
request that began it: requests attach to it and detach.

    begin ── waiting ──────────────── ended ── delivered
               │ ▲                      ▲
       detach  ▼ │  attach              │ withdrawn: after the grace, a cancellation or a request, or undecided in time
             alone ─────────────────────┘

1. A call is known by its key: method, target and arguments (`call_key`). Several calls may have one key. A call is
   *held* by the request that is attached to it, by the state of its next round, or by the live session that used it
   last. A repeat takes the oldest call with its key that no request, no state and no other session holds (`take`), and
   nothing is sent to the space. Each repeat takes one call. Where there is none, it is a new call. What a restarted
   process remembers is held by nobody.
2. A call that ended while nobody was attached keeps its outcome for the repeat that takes it, for `decide_within`
   seconds. Once an outcome was delivered, no repeat takes it.
3. A request whose client is gone, or gave up at its time limit, leaves its call alone. A proposal that stays alone for
   `grace` seconds is withdrawn; what runs goes on, and its outcome is kept. An answer that the call is still pending
   leaves it waiting. A client that was told to send its request again at once is gone if it does not.
4. A proposal whose client cancelled it is withdrawn after `withdraw_after` seconds, and a repeat within that time takes
   it. `CallerStatus` tells the space of both, so that no card looks as if somebody waited. A call that runs is cancelled
   at its executor at once, also one whose approval crossed the cancellation. It ends with its answer where one still
   comes, else it is unknown, and a repeat takes that.
5. A call that is not decided within `decide_within` seconds is withdrawn: silence is a refusal. A withdrawal that the
   gateway does not take is sent again, and after as long a time the call ends as unknown: it may still be approved.
6. An approved call that its tool has not answered within `run_within` ends, and its place is free: it goes on, and
   whether it took effect is not known. A repeat of it is not sent by own right (R35). An answer that arrives later
   takes the place of that outcome.
7. A proposal still stands after a rejection, so another person could approve it. It is withdrawn at once, and the client
   gets the rejection as soon as the space has the withdrawal, or the result if an approval came first. An approval that
   crosses the withdrawal cannot be undone; the client is told of it.

Everything runs on one loop, so nothing is locked.

Spec: §3.2, §3.3, rulings R17, R18, R35.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeGuard

from mew_lab.bridge.call_memory import CallMemory, RememberedCall
from mew_lab.bridge.caller_status import CallerStatus
from mew_lab.bridge.client_results import without_own_words
from mew_lab.bridge.delivery import ClientSession
from mew_lab.bridge.offers import EDITED
from mew_lab.errors import MewError, OutcomeUnknown, ProposalWithdrawn, StillRunning, ToolFailed
from mew_lab.ledger.calls import CallerState, CallLedger, Change
from mew_lab.ledger.unknown_calls import DAY
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.content import raw_text
from mew_lab.protocol.difference import equality_key
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import SENT_UNKNOWN
from mew_lab.protocol.kept import ResultHead
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.progress import Progress
from mew_lab.sdk.results import ToolResult, result_of

__all__ = ["CallOutcome", "WaitingCall", "WaitingCalls", "call_key"]

logger = logging.getLogger(__name__)
MAX_OPEN = 200  # calls of one client at once
MAX_ENDED = 100  # ended calls whose outcome is kept; each may be as large as a message
MAX_ENDED_BYTES = 32 * 1024 * 1024  # of their results that were larger than a message
MAX_UNKNOWN = 1000  # calls of unknown outcome that are recognised
MAX_REASON = 300  # characters
RETURN_WITHIN = 5.0  # seconds in which a client sends its next round, else it is told to be gone
WITHDRAW_AGAIN = 30.0  # seconds after which a withdrawal that was not confirmed is sent again
SETTLE = 2.0  # seconds in which the last withdrawals are sent
CROSSING = (
    0.5  # seconds in which an approval that crossed a withdrawal arrives, so that the client is told of it
)
_MISSED = (
    "Whether {what} was executed is not known: the connection to the space was lost while it waited. It is withdrawn "
    "now, and the log of the space tells whether it was approved before"
)


def call_key(participant: str, payload: Mapping[str, Any]) -> str:
    """The key by which a repeat of a call is recognised: equal for equal calls of that participant."""
    return equality_key([participant, payload])


class CallOutcome(NamedTuple):
    """The end of a call: the `result` as the participant sent it (JSON), or the sentence why there is none.

    `code` is the JSON-RPC code of an error with which the participant answered. `is_unknown` if the call may have taken
    effect, which the sentence says (R35).
    """

    result: Any = None
    refusal: str = ""
    code: int | None = None
    is_unknown: bool = False


class WaitingCall:
    """One call for a client: `id` is that of its proposal or request, `what` its name; `call` is None after a crash.

    `session` is the session that used it last. `holder` is renewed where another request takes the call, so that what
    was sent for an earlier one is recognised.
    """

    def __init__(self, key: str, *, id: str, what: str, is_tool: bool, call: Call | None = None) -> None:
        self.key = key
        self.id = id
        self.what = what
        self.size = 0  # bytes of its result, where that was larger than a message
        self.is_tool = is_tool
        self.call = call
        self.outcome: CallOutcome | None = None
        self.delivered = False
        self.ended = asyncio.Event()
        self.attached = 0
        self.session: ClientSession | None = None
        self.holder = ""
        self.returns_until = -math.inf  # the loop's time until which its next round holds it
        self.caller: CallerState = ""
        self.progress: Progress | None = None  # what the participant reported last
        self.reported = asyncio.Event()  # set at the next report, which puts another in its place
        self.why = ""  # the reason of a withdrawal, as a sentence for the client
        self.unconfirmed_since = math.inf  # the loop's time since which its withdrawal is not confirmed
        self.timers: dict[str, asyncio.TimerHandle] = {}

    def is_free_for(self, session: ClientSession | None) -> bool:
        """Whether no request, no state of a round and no other live session holds it."""
        if self.attached or asyncio.get_running_loop().time() < self.returns_until:
            return False
        return self.session is None or self.session is session or not self.session.is_live

    def is_of(self, session: ClientSession | None) -> bool:
        """Whether a request of that session may name it by its id."""
        return (session is not None and self.session is session) or self.is_free_for(session)

    def note_progress(self, progress: Progress) -> None:
        """Notes what its participant reports of it."""
        self.progress = progress
        self.reported.set()
        self.reported = asyncio.Event()

    @property
    def decided(self) -> bool:
        """Whether it may be running, so that it cannot be withdrawn."""
        call = self.call
        return call is None or call.kind == "mcp/request" or call.state == "fulfilled" or call.done

    def describe(self) -> str:
        """A sentence about a call that has not ended."""
        what, call = one_line(self.what, MAX_REASON), self.call
        if call is None or call.kind == "mcp/request":
            return f"{what} is running"
        if call.state == "fulfilled":
            return f"{call.by} has approved {what}, and it is running"
        if self.why:
            return f"The withdrawal of {what} is not confirmed"
        return f"{what} waits for a person's approval"


class WaitingCalls:
    """The calls of one client.

    Args:
        ledger: the calls of the space as the participant saw them.
        decide_within: seconds after which an undecided proposal is withdrawn.
        run_within: seconds after which an approved call that its tool has not answered ends as unknown.
        grace: seconds after which a call that no request is attached to is withdrawn.
        withdraw_after: seconds after which a call that its client cancelled is withdrawn.
        status: tells the space which of them have no client any more.
        cancel: cancels the call of that id which runs, for that reason, at its executor.
        memory: what outlives a crash of this process; None keeps nothing.
        load: gives the result for the client, of one that came and the name of the call; None takes it as it came.
        most: the number of calls that may wait at once.
    """

    def __init__(
        self,
        ledger: CallLedger,
        *,
        decide_within: float,
        run_within: float,
        grace: float,
        withdraw_after: float,
        status: CallerStatus,
        cancel: Callable[[str, str], Awaitable[object]],
        memory: CallMemory | None = None,
        load: Callable[[Any, str], Awaitable[Any]] | None = None,
        most: int = MAX_OPEN,
    ) -> None:
        self.decide_within = decide_within
        self.run_within = run_within
        self._ledger = ledger
        self.grace = grace
        self._withdraw_after = withdraw_after
        self._status = status
        self._cancel_running = cancel
        self.most = most
        self._memory = memory
        self._load = load
        self._by_key: dict[str, dict[str, WaitingCall]] = {}  # waiting, or ended and not delivered, by id
        self._by_id: dict[str, WaitingCall] = {}
        self._ended: dict[str, WaitingCall] = {}  # by id, the oldest first
        # by id: key, since when
        self._unknown: BoundedDict[str, tuple[str, float]] = BoundedDict(MAX_UNKNOWN)
        self._tasks = RunningTasks()

    @property
    def is_full(self) -> bool:
        """Whether as many calls wait as may."""
        return len(self._by_id) - len(self._ended) >= self.most

    def take(self, key: str, session: ClientSession | None) -> WaitingCall | None:
        """The oldest call with this key that is free for a request of `session`, which holds it from now on.

        None where it is a new call. A call that is being withdrawn because its client cancelled it is not taken.
        """
        for waiting in self._by_key.get(key, {}).values():
            is_leaving = waiting.caller == "cancelled" and waiting.why
            if not is_leaving and waiting.is_free_for(session):
                self.hand_over(waiting, session)
                return waiting
        return None

    def hand_over(self, waiting: WaitingCall, session: ClientSession | None) -> None:
        """Gives a call to another request, of `session`: what was sent for an earlier one serves no more."""
        waiting.session, waiting.holder = session, secrets.token_hex(6)
        waiting.returns_until = -math.inf

    def by_id(self, id: str) -> WaitingCall | None:
        """The call of that id, waiting or ended; None if it is not known."""
        return self._by_id.get(id)

    def begin(self, key: str, call: Call, *, session: ClientSession | None) -> WaitingCall:
        """Keeps a call that was sent to the space for a request of `session`."""
        is_tool = call.payload.get("method") == "tools/call"
        waiting = WaitingCall(key, id=call.id, what=call.what, is_tool=is_tool, call=call)
        call.on_progress(waiting.note_progress)
        self.hand_over(waiting, session)
        self._keep(waiting)
        self._remember(waiting)
        self._tasks.start(self._follow(waiting, call))
        if not waiting.decided:
            self._set_timer(waiting, "decide", self.decide_within, self._expire)
        return waiting

    def restore(self, remembered: RememberedCall, *, is_unknown: bool = False) -> None:
        """Keeps the outcome of a call of before a crash for the next request with its key, of any session."""
        call = remembered
        waiting = WaitingCall(call.key, id=call.id, what=call.what, is_tool=call.is_tool)
        self._keep(waiting)
        self._end(waiting, CallOutcome(call.result, call.refusal, is_unknown=is_unknown))

    def _keep(self, waiting: WaitingCall) -> None:
        self._by_id[waiting.id] = waiting
        self._by_key.setdefault(waiting.key, {})[waiting.id] = waiting

    @contextmanager
    def attach(self, waiting: WaitingCall) -> Iterator[None]:
        """Attaches a request to a call for the time of the block; an exception in it means that its client is gone."""
        self._clear_timer(waiting, "alone")
        self._clear_timer(waiting, "return")
        waiting.attached += 1
        waiting.returns_until = -math.inf
        self._note_caller(waiting, "")
        try:
            yield
        except BaseException:
            waiting.attached -= 1
            self._leave_alone(waiting, self.grace)
            self._note_gone(waiting)
            raise
        waiting.attached -= 1

    def expect_return(self, waiting: WaitingCall) -> None:
        """Withdraws a call unless its next round attaches to it within the grace; until then the round holds it."""
        if not waiting.attached and not waiting.ended.is_set():
            waiting.returns_until = asyncio.get_running_loop().time() + self.grace
            self._leave_alone(waiting, self.grace)
            self._set_timer(waiting, "return", RETURN_WITHIN, self._note_gone)

    def note_cancelled(self, waiting: WaitingCall) -> None:
        """Withdraws a call that its client cancelled, unless a repeat attaches to it before; cancels one that runs."""
        if waiting.attached or waiting.ended.is_set():
            return
        if waiting.decided:
            self._tasks.start(self._cancel(waiting))
            return
        if waiting.why:
            return
        self._note_caller(waiting, "cancelled")
        seconds = self._withdraw_after if self._status.can_tell(waiting.id) else 0.0
        self._leave_alone(waiting, seconds)

    def _leave_alone(self, waiting: WaitingCall, seconds: float) -> None:
        if not waiting.attached and not waiting.ended.is_set():
            self._set_timer(waiting, "alone", seconds, self._leave)

    def _note_gone(self, waiting: WaitingCall) -> None:
        if not waiting.attached:
            self._note_caller(waiting, "gone")

    def _note_caller(self, waiting: WaitingCall, caller: CallerState) -> None:
        waiting.caller = "" if waiting.decided or waiting.ended.is_set() else caller
        self._status.note(waiting.id, waiting.caller)

    def note_delivered(self, waiting: WaitingCall) -> None:
        """Notes that the client has the outcome, so the next request with its key is a new call."""
        waiting.delivered = True
        self._release(waiting)

    def note_change(self, change: Change) -> None:
        """Withdraws a proposal that was rejected; gives an approved one its time to run, and takes its late answer."""
        if change.what in ("answered", "resolved"):
            self._settle(change.call.id)
        waiting = self._by_id.get(change.call.id)
        if waiting is None or waiting.ended.is_set():
            return
        if change.what == "fulfilled":
            self._set_timer(waiting, "run", self.run_within, self._give_up)
            if waiting.caller == "cancelled" and not waiting.attached:
                self._tasks.start(self._cancel(waiting))
        elif change.what == "reopened":  # a quorum was missing, so it waits again (R39)
            self._clear_timer(waiting, "run")
            self._set_timer(waiting, "decide", self.decide_within, self._expire)
        if change.what != "rejected" or waiting.why:
            return
        by, reason = change.proposal.rejections[-1]
        stated = f": {one_line(reason, MAX_REASON)}" if reason else ", without a reason"
        waiting.why = f"{one_line(by, MAX_REASON)} rejected {waiting.what}{stated}. It was not executed"
        self._tasks.start(self._withdraw(waiting, "rejected"))

    def note_response(self, envelope: Envelope) -> None:
        """Takes the late answer to a request, which the ledger has observed before."""
        for id in envelope.correlation_id if self._unknown else ():
            request = self._ledger.requests.get(id)
            if request is not None and request.state == "answered":
                self._settle(id)

    async def withdraw(self, waiting: WaitingCall, why: str, *, reason: str = "no_longer_needed") -> bool:
        """Withdraws an undecided call; `why` is the sentence with which it ends. Returns whether that was accepted."""
        if waiting.decided:
            return True
        waiting.why = waiting.why or why
        return await self._withdraw(waiting, reason)

    def resume(self) -> None:
        """Sends the withdrawals and the status again that were due while there was no connection."""
        self._status.resume()
        for waiting in tuple(self._by_id.values()):
            if waiting.why and not waiting.ended.is_set() and not waiting.decided:
                self._tasks.start(self._withdraw(waiting, "no_longer_needed"))

    async def close(self) -> None:
        """Withdraws all undecided calls at once, and waits shortly until the space has the withdrawals."""
        self._status.close()
        undecided = [
            waiting for waiting in self._by_id.values() if not waiting.ended.is_set() and not waiting.decided
        ]
        for waiting in undecided:
            self._tasks.start(self.withdraw(waiting, f"The gate ended, so {waiting.what} was withdrawn"))
        ends = [asyncio.ensure_future(waiting.ended.wait()) for waiting in undecided]
        if ends:
            await asyncio.wait(ends, timeout=SETTLE)
        for waiting in tuple(self._by_id.values()):
            if waiting.outcome is not None and waiting.outcome.refusal:
                self._release(waiting)  # the next client need not hear of it
            for name in tuple(waiting.timers):
                self._clear_timer(waiting, name)
        for end in ends:
            end.cancel()
        await self._tasks.end()

    # --- the life of a call ---

    async def _follow(self, waiting: WaitingCall, call: Call) -> None:
        try:
            outcome = self._outcome_of(waiting, await self._load_whole(waiting, await call))
        except ProposalWithdrawn as fault:
            await asyncio.sleep(CROSSING)
            outcome = CallOutcome(refusal=self._describe_withdrawal(waiting, str(fault)))
        except MewError as fault:
            if _has_result(fault):
                outcome = self._outcome_of(waiting, await self._load_whole(waiting, fault.data))
            else:
                outcome = self._outcome_of_fault(waiting, fault)
        if not waiting.ended.is_set():
            self._end(waiting, outcome)

    async def _load_whole(self, waiting: WaitingCall, result: Any) -> Any:
        """The whole of a result that was kept because no message could hold it; any other as it is."""
        plain = _json_of(result)
        if self._load is not None and (head := ResultHead.of(plain)) is not None:
            plain = await self._load(plain, waiting.what)
            waiting.size = min(head.size, MAX_ENDED_BYTES)
        return plain

    def _outcome_of(self, waiting: WaitingCall, result: Any) -> CallOutcome:
        try:
            plain = without_own_words(_json_of(result), waiting.what, is_tool=waiting.is_tool)
        except RecursionError:  # of one that no message could hold; those of messages are not so deep
            what = one_line(waiting.what, MAX_REASON)
            why = f"{what} was executed, but its result is nested too deeply to be given to this client"
            return CallOutcome(refusal=why)
        return CallOutcome(self._with_edit(waiting.id, plain))

    def _outcome_of_fault(self, waiting: WaitingCall, fault: MewError) -> CallOutcome:
        if _has_result(fault):
            return self._outcome_of(waiting, fault.data)
        is_unknown = isinstance(fault, OutcomeUnknown | StillRunning)
        code = fault.code if isinstance(fault, ToolFailed) else None
        return CallOutcome(refusal=str(fault), code=code, is_unknown=is_unknown)

    def _find_answer(self, waiting: WaitingCall) -> CallOutcome | None:
        """The outcome of a call whose answer the ledger has; None where it has none."""
        if waiting.call is None:  # of before a crash: another participant may have its id now
            return None
        call = self._ledger.requests.get(waiting.id) or self._ledger.proposals.get(waiting.id)
        if call is None or call.state != "answered" or call.response is None:
            return None
        try:
            result = result_of(call.response.payload, method=call.method, what=waiting.what)
        except MewError as fault:
            return self._outcome_of_fault(waiting, fault)
        return self._outcome_of(waiting, result)

    def _settle(self, id: str) -> None:
        """Ends that the outcome of a call is unknown, where it is: an answer has come, or somebody found it out."""
        if self._unknown.pop(id, None) is None:
            return
        if self._memory is not None:
            self._memory.settle(id)
        waiting = self._by_id.get(id)
        if waiting is not None:
            waiting.outcome = self._find_answer(waiting) or waiting.outcome
            if self._may_be_taken(waiting):
                self._remember(waiting)

    def _give_up(self, waiting: WaitingCall) -> None:
        """Ends the wait for the answer to an approved call, which goes on: its outcome is not known. Spec: R35."""
        assert waiting.call is not None
        why = f"{waiting.describe()}, but no answer came within {self.run_within:g} s. {SENT_UNKNOWN}"
        self._end(waiting, CallOutcome(refusal=why, is_unknown=True))
        waiting.call.end_call("timeout")

    def find_unknown(self, key: str) -> str:
        """The id of a call with this key whose outcome is not known, for a day; empty where there is none."""
        now = asyncio.get_running_loop().time()
        for id, (known, since) in self._unknown.items():
            if known == key and now - since < DAY:
                return id
        remembered = self._memory.find_unknown(key) if self._memory is not None else None
        return remembered.id if remembered is not None else ""

    def _end(self, waiting: WaitingCall, outcome: CallOutcome) -> None:
        if outcome.is_unknown:  # its answer may have come meanwhile
            outcome = self._find_answer(waiting) or outcome
        waiting.outcome = outcome
        if outcome.is_unknown:
            self._unknown[waiting.id] = waiting.key, asyncio.get_running_loop().time()
            if self._memory is not None:
                self._memory.note_unknown(waiting.id)
        for name in tuple(waiting.timers):
            self._clear_timer(waiting, name)
        if waiting.caller == "cancelled" and self._is_withdrawn(waiting):
            self._release(waiting)  # its client wants nothing of it any more
        elif self._may_be_taken(waiting):
            self._remember(waiting)
        self._ended[waiting.id] = waiting
        self._make_room()
        if not waiting.delivered:
            self._set_timer(waiting, "keep", self.decide_within, self._release)
        waiting.ended.set()
        self._note_caller(waiting, "")

    def _make_room(self) -> None:
        """Forgets ended calls where there are too many, or their results are too large.

        One that no repeat can take goes first, then an unknown one: a repeat of that is recognised all the same, and
        one of any other is executed again. What a restarted gate remembers has its bound in the memory, and so much of
        it may be there at once that none counts here.
        """
        able = [one for one in self._ended.values() if one.call is not None or not self._may_be_taken(one)]

        def worth(one: WaitingCall) -> tuple[bool, bool]:
            return self._may_be_taken(one), one.outcome is not None and not one.outcome.is_unknown

        while len(able) > MAX_ENDED or sum(one.size for one in able) > MAX_ENDED_BYTES:
            large = able if len(able) > MAX_ENDED else [one for one in able if one.size > 0]
            waiting = min(large, key=worth)  # the oldest of those that are worth the least
            able.remove(waiting)
            del self._ended[waiting.id], self._by_id[waiting.id]
            self._release(waiting)

    def _may_be_taken(self, waiting: WaitingCall) -> bool:
        """Whether a repeat may still take it, or will once it is free."""
        return waiting.id in self._by_key.get(waiting.key, ())

    def _release(self, waiting: WaitingCall) -> None:
        """Lets no further repeat take a call."""
        self._clear_timer(waiting, "keep")
        alike = self._by_key.get(waiting.key, {})
        if alike.pop(waiting.id, None) is None:
            return
        if not alike:
            del self._by_key[waiting.key]
        if self._memory is not None:
            self._memory.drop(waiting.id)

    def _is_withdrawn(self, waiting: WaitingCall) -> bool:
        """Whether a call was withdrawn and certainly not executed."""
        proposal = self._ledger.proposals.get(waiting.id)
        if proposal is None or proposal.uncertain or proposal.state != "withdrawn":
            return False
        return all(claim.kind != "mcp/request" for claim in proposal.claims)

    def _describe_withdrawal(self, waiting: WaitingCall, fault: str) -> str:
        """A sentence for the client about a withdrawn proposal, with what makes it doubtful that it was not executed."""
        proposal = self._ledger.proposals.get(waiting.id)
        if proposal is None or proposal.uncertain:
            return _MISSED.format(what=waiting.what)
        for claim in proposal.claims:
            if claim.kind == "mcp/request":
                by = one_line(claim.by, MAX_REASON)
                return f"{waiting.why or fault}. But {by} sent the call all the same, so it may have been executed"
        return waiting.why or fault

    def _with_edit(self, id: str, result: Any) -> Any:
        """The result of a call; where a person changed its arguments before the approval, it ends with what was sent.

        That stands in its `_meta`, too, where no participant can write it.
        """
        proposal = self._ledger.proposals.get(id)
        content = member(result, "content")
        if (
            proposal is None
            or proposal.request is None
            or proposal.edited is False
            or not isinstance(content, list)
        ):
            return result
        arguments = member(proposal.request.payload, "params", "arguments")
        text = f"{one_line(proposal.by, MAX_REASON)} approved this call with other arguments: {raw_text(arguments)[0]}"
        return {
            **result,
            "content": [*content, {"type": "text", "text": text}],
            "_meta": {**mapping_of(result.get("_meta")), EDITED: text},
        }

    def _expire(self, waiting: WaitingCall) -> None:
        if not waiting.decided:
            what, within = waiting.what, self.decide_within
            waiting.why = (
                waiting.why
                or f"Nobody decided on {what} within {within:g} s, so it was refused and not executed"
            )
            self._tasks.start(self._withdraw(waiting, "timeout"))

    def _leave(self, waiting: WaitingCall) -> None:
        if not waiting.decided and not waiting.attached:
            what, is_cancelled = waiting.what, waiting.caller == "cancelled"
            why = "Its client cancelled" if is_cancelled else f"The client was gone for {self.grace:g} s, so"
            waiting.why = waiting.why or f"{why} {what}{', so it' if is_cancelled else ''} was withdrawn"
            self._tasks.start(self._withdraw(waiting, "client_cancelled" if is_cancelled else "client_gone"))

    async def _withdraw(self, waiting: WaitingCall, reason: str) -> bool:
        if waiting.call is None or waiting.decided:  # an approval came first
            return True
        try:
            await waiting.call.withdraw(reason)
        except MewError as fault:  # such as not connected; `resume` sends it again
            logger.warning("the withdrawal of %s is not confirmed: %s", waiting.what, fault)
            if not waiting.ended.is_set() and not waiting.decided:  # an approval may have come meanwhile
                self._withdraw_again(waiting, reason)
            return False
        return True

    async def _cancel(self, waiting: WaitingCall) -> None:
        if not waiting.is_tool:
            self._release(waiting)  # a repeat reads again
        try:
            await self._cancel_running(waiting.id, "client_cancelled")
        except MewError as fault:  # it has ended, or this participant may not; then it goes on
            logger.warning("%s goes on, though its client cancelled it: %s", waiting.what, fault)

    def _withdraw_again(self, waiting: WaitingCall, reason: str) -> None:
        """Sends a withdrawal again that was not confirmed; ends the call where that has been so for too long."""
        now = asyncio.get_running_loop().time()
        waiting.unconfirmed_since = min(waiting.unconfirmed_since, now)
        if now < waiting.unconfirmed_since + self.decide_within:
            self._set_timer(
                waiting, "again", WITHDRAW_AGAIN, lambda one: self._tasks.start(self._withdraw(one, reason))
            )
            return
        assert waiting.call is not None
        why = f"{waiting.describe()}, so it may still be approved. {SENT_UNKNOWN}"
        self._end(waiting, CallOutcome(refusal=why, is_unknown=True))
        waiting.call.end_call(reason)

    def _remember(self, waiting: WaitingCall) -> None:
        if self._memory is not None:
            outcome = waiting.outcome or CallOutcome()
            about = (waiting.key, waiting.id, waiting.what, waiting.is_tool)
            call = RememberedCall(*about, outcome.result, outcome.refusal)
            self._memory.put(call)

    # --- timers and tasks ---

    def _set_timer(self, waiting: WaitingCall, name: str, seconds: float, then: Any) -> None:
        self._clear_timer(waiting, name)
        waiting.timers[name] = asyncio.get_running_loop().call_later(seconds, then, waiting)

    def _clear_timer(self, waiting: WaitingCall, name: str) -> None:
        timer = waiting.timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def _has_result(fault: MewError) -> TypeGuard[ToolFailed]:
    """Whether it has a result that the tool marked as an error, which stays a result; any other error is a sentence."""
    return isinstance(fault, ToolFailed) and fault.code is None and isinstance(fault.data, dict)


def _json_of(result: Any) -> Any:
    return result.raw if isinstance(result, ToolResult) else result
