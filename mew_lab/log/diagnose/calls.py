"""Rules about requests, proposals and answers.

The ledger says which answer counts, who decided a proposal, and why a message changes nothing (`Claim.why`). These
rules say which of that is a fault.

Spec: §3.1 to §3.3, rulings R5, R17, R18.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from mew_lab.ledger.calls import Change, Proposal, Request, error_text, method_of, tool_of
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS
from mew_lab.ledger.unknown_calls import UnknownCalls
from mew_lab.log.decision_note import DECIDED, DecisionNote, read_decision_note
from mew_lab.log.diagnose.findings import (
    OF_ALL,
    RecentIds,
    Rule,
    RuleContext,
    RuleFamily,
    changes_of,
    word,
    words,
)
from mew_lab.log.receipts import misfit
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.intake import answer_fault, first_unknown, malformed, unknown_outcome
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["CallRules"]

MAX_WAITING = 100_000  # requests without an answer, and as many undecided proposals
MAX_IDS = 100_000  # of requests and proposals that are remembered, at least
MAX_COMPARED = 50  # open proposals of the same tool, or waiting requests, that a request is compared with
REPEATED = 5  # equal calls in a row
MAX_CALLERS = 2000
MAX_REPEATED = 16 * 1024  # characters of a call that is compared with the one before it
MAX_ERROR = 120  # characters of an error in a sentence

UNANSWERED = Rule(
    "unanswered-request",
    "warn",
    "{sender}'s request {id} to {to} was not answered by the end of the log, {seconds:.1f} s later",
)
FAN_OUT = Rule(
    "fan-out-unanswered",
    "warn",
    "{sender}'s request {id} went to {count} participants, and {missing} did not answer it",
)
NO_REQUEST = Rule(
    "response-without-request",
    "error",
    "{sender}'s response {id} answers {about}, which is no request of this log",
    "P-3-10",
    needs_whole=True,
)
NO_REFERENCE = Rule(
    "response-without-reference",
    "error",
    "{sender}'s response {id} does not say in correlation_id which request it answers",
    "P-3.1.2-1",
)
NOT_ASKED = Rule(
    "answer-from-not-asked",
    "warn",
    "{sender} answered request {about}, which was addressed to {to}; the answer does not count",
)
ANSWERED_TWICE = Rule(
    "answered-twice", "warn", "{sender} answered request {about} again; only the first answer counts"
)
ANSWERED_PROPOSAL = Rule(
    "answer-to-proposal",
    "error",
    "{sender} answered proposal {about}; an answer belongs to the request that approves it",
    "P-3.2.1-5",
)
NOTIFICATION_ANSWERED = Rule(
    "answer-to-notification",
    "note",
    "{sender} answered {about}, which is a notification and waits for nothing",
)
UNLINKED = Rule(
    "approval-without-reference",
    "warn",
    "{sender} sent the call that {proposer} proposed in {about}, but its correlation_id does not name the proposal",
    "P-3.2.1-3",
)
UNDECIDED = Rule(
    "undecided-proposal",
    "warn",
    "{sender}'s proposal {id} was neither approved, rejected nor withdrawn by the end of the log",
    "P-3.3.2-4",
)
# No row says that somebody has to decide a proposal that is addressed to everybody.
UNDECIDED_BY_ALL = UNDECIDED._replace(requirement="")
FOREIGN_WITHDRAW = Rule(
    "foreign-withdraw",
    "error",
    "{sender} withdrew proposal {about} of {proposer}; only {proposer} can, so it changes nothing",
    "S-L2-20",
)
LATE_WITHDRAW = Rule("late-withdraw", "note", "{sender} withdrew proposal {about} after it was over: {why}")
LATE_REJECT = Rule("late-reject", "note", "{sender} rejected proposal {about} after it was over: {why}")
WITHDRAW_NOTHING = Rule(
    "withdraw-without-proposal",
    "warn",
    "{sender}'s withdraw {id} names no proposal of this log",
    "P-3-12",
    needs_whole=True,
)
REJECT_NOTHING = Rule(
    "reject-without-proposal",
    "warn",
    "{sender}'s reject {id} names no proposal of this log",
    "P-3-13",
    needs_whole=True,
)
EDITED = Rule(
    "edited-approval",
    "warn",
    "{sender} approved proposal {about} with {count} of its values changed, first at {path}",
    "C-23",
)
EDITED_KNOWINGLY = EDITED._replace(
    severity="note", sentence=f"{EDITED.sentence}; {{sender}} made the edit, as its receipt says"
)
APPROVED_TWICE = Rule(
    "approved-twice",
    "warn",
    "{sender} sent proposal {about} again as a request, though {why}; the call may run twice",
    "C-22",
)
APPROVED_LATE = Rule(
    "approved-late",
    "note",
    "{sender} sent proposal {about} again as a request, though {why}; it was refused by the executor, {executor}",
    "C-22",
)
AFTER_WITHDRAW = Rule(
    "approved-after-withdraw", "error", "{sender} approved proposal {about} after {proposer} had withdrawn it"
)
NOT_AS_PROPOSED = Rule(
    "approval-of-other-call",
    "warn",
    "{sender}'s request {id} refers to proposal {about} and does not approve it: {why}",
)
TO_NOBODY = Rule(
    "request-to-nobody", "warn", "{sender}'s request {id} is addressed to nobody, so no answer counts"
)
RPC_ID = Rule(
    "rpc-id-differs",
    "error",
    "{sender}'s response {id} has the JSON-RPC id {got}, and request {about} has {wanted}",
    "P-3.1.2-2",
)
RPC_REQUEST = Rule(
    "request-without-rpc-members",
    "note",
    "{sender}'s request {id} has no {missing} in its payload",
    "P-3.1.1-1",
    OF_ALL,
)
RPC_RESPONSE = Rule(
    "response-without-rpc-members",
    "note",
    "{sender}'s response {id} has no {missing} in its payload",
    "P-3.1.2-2",
    OF_ALL,
)
ELSEWHERE = Rule(
    "answer-addressed-elsewhere",
    "note",
    "{sender}'s response {id} is addressed to {to}, and not to {requester}, which asked",
    "P-3.1.2-4",
)
FAILED = Rule("failed-call", "note", "{sender} answered request {about} with an error: {error}")
MALFORMED = Rule(
    "malformed-call",
    "warn",
    "{sender}'s {kind} {id} has another shape than its kind, so participants ignore it: {why}",
    "P-3-21",
)
MALFORMED_ANSWER = Rule(
    "malformed-answer", "warn", "{sender}'s answer {id} to request {about} {why}", "P-3-21", OF_ALL
)
UNKNOWN = Rule(
    "unknown-outcome",
    "warn",
    "{sender} answered that it is not known whether request {about} took effect: {error}",
    holds=OF_ALL,
)
REPEATED_UNKNOWN = Rule(
    "repeated-unknown",
    "warn",
    "{sender}'s request {id} repeats {about} of {first}, of which nobody knew whether it took effect; it may run twice",
    holds=OF_ALL,
)
REPEATED_CALL = Rule(
    "repeated-call", "note", "{sender} sent the same call to {to} {count} times in a row", holds=OF_ALL
)


class _FanOut:
    """A request to several participants: those that have not answered yet."""

    def __init__(self, mark: Mark) -> None:
        self.mark = mark
        self.missing = dict.fromkeys(mark.to)


class _LateApproval(NamedTuple):
    """A request for a proposal that was fulfilled before."""

    mark: Mark
    others: tuple[str, ...]
    why: str


class CallRules(RuleFamily):
    """The rules about calls."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.kinds = {
            "mcp/request": self._on_request,
            "mcp/proposal": self._on_proposal,
            "mcp/response": self._on_response,
            "mcp/withdraw": self._on_withdraw,
            "mcp/reject": self._on_reject,
            "system/presence": lambda _, changes: self._follow_unknown(changes),
        }
        self.events = {DECIDED: self._on_decided}
        # The receipts of people for edited approvals, by sender, request and proposal.
        self._edits: BoundedDict[tuple[str, str, str], DecisionNote] = BoundedDict(MAX_WAITING)
        self._unknown = UnknownCalls()
        # Requests that repeat an unknown call -> that call and its sender; until an executor says that it did not run.
        self._repeats: BoundedDict[str, tuple[Mark, str, str]] = BoundedDict(
            MAX_WAITING, on_forget=lambda _, repeat: self._report_repeat(repeat)
        )
        self._waiting: BoundedDict[str, Mark] = BoundedDict(
            MAX_WAITING, on_forget=lambda _, mark: self._report_unanswered_request(mark)
        )
        self._fan_outs: BoundedDict[str, _FanOut] = BoundedDict(
            MAX_WAITING, on_forget=lambda _, fan_out: self._report_fan_out(fan_out)
        )
        self._undecided: BoundedDict[str, Mark] = BoundedDict(
            MAX_WAITING, on_forget=lambda _, mark: self._report_undecided_proposal(mark)
        )
        # method, tool -> ids of its undecided proposals, the oldest first
        self._proposed: dict[tuple[str, str], dict[str, None]] = {}
        self._calls: BoundedDict[str, tuple[PlacedEntry, int]] = BoundedDict(MAX_CALLERS)
        self._ids = RecentIds(MAX_IDS)  # of requests and proposals
        # Requests that came too late, until their executor answers: what is reported of them depends on that.
        self._late: BoundedDict[str, _LateApproval] = BoundedDict(
            MAX_WAITING, on_forget=lambda _, late: self._report_approved_twice(late)
        )

    def finish(self) -> None:
        for repeat in self._repeats.values():
            self._report_repeat(repeat)
        for mark in self._waiting.values():
            self._report_unanswered_request(mark)
        for fan_out in self._fan_outs.values():
            self._report_fan_out(fan_out)
        for mark in self._undecided.values():
            self._report_undecided_proposal(mark)
        for late in self._late.values():
            self._report_approved_twice(late)

    # --- one step a kind ---

    def _on_decided(self, record: Record, _place: int) -> None:
        note = read_decision_note(record)
        if note is not None and note.decision == "approve" and note.edited and note.by == "human":
            self._edits[record.participant, note.request, note.proposal] = note

    def _on_request(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        self._ids.add(entry.id, entry.sender, entry.kind)
        if entry.malformed:
            self._report_malformed_call(entry)
            return
        method = method_of(entry.payload)
        waits = not method.startswith("notifications/")
        self._check_rpc(entry, RPC_REQUEST, waits=waits)
        if method == "notifications/cancelled":
            self._forget_call(entry)
        for change in changes_of(changes, Change, "requested"):
            if waits and not entry.to:
                self.report(TO_NOBODY, entry)
            elif waits and len(set(entry.to)) > 1:
                self._fan_outs[entry.id] = _FanOut(entry.mark)
            elif waits and not self._is_absent(entry.to[0]):
                self._waiting[change.call.id] = entry.mark
        approves = False
        for change in changes_of(changes, Change, "fulfilled"):
            approves = True
            proposal: Proposal = change.call
            self._forget_proposal(proposal.id)
            if proposal.difference:
                note = self._edits.pop((entry.record.participant, entry.id, proposal.id), None)
                self.report(
                    EDITED if note is None or misfit(note, entry, proposal) else EDITED_KNOWINGLY,
                    entry,
                    proposal.id,
                    count=len(proposal.difference),
                    path=word(proposal.difference[0].path),
                )
        for change in changes_of(changes, Change, "claimed"):
            if isinstance(change.call, Proposal):
                approves = True
                self._judge_approval(change.call, entry)
        if not approves and self._undecided and waits:
            self._match_proposals(entry, method)
        self._count_repeats(entry, method)
        now = entry.record.now.timestamp()
        first = self._unknown.find(entry.to, entry.payload, now, but=entry.id) if changes else None
        if first is not None:
            self._repeats[entry.id] = entry.mark, first.request.id, first.request.sender
        self._follow_unknown(changes)

    def _on_proposal(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        self._ids.add(entry.id, entry.sender, entry.kind)
        if entry.malformed:
            self._report_malformed_call(entry)
            return
        for change in changes_of(changes, Change, "proposed"):
            self._forget_proposal(entry.id)
            self._undecided[entry.id] = entry.mark
            key = change.call.method, change.call.tool
            self._proposed.setdefault(key, {})[entry.id] = None

    def _on_response(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        about = entry.correlation_id
        if not about:
            self.report(NO_REFERENCE, entry)
            return
        if entry.malformed:
            self._report_malformed_call(entry)
            return
        fault = answer_fault(entry.payload)
        unclear = ", so it is not known whether that took effect" if unknown_outcome(entry.payload) else ""
        if fault:  # it ends its request all the same
            self.report(MALFORMED_ANSWER, entry, *about, about=words(about), why=fault + unclear)
        elif entry.payload.get("jsonrpc") != "2.0" or "id" not in entry.payload:
            self._check_rpc(entry, RPC_RESPONSE)
        calls = [change for change in changes if isinstance(change, Change)]
        for change in calls:
            if isinstance(change.call, Request) and change.what in ("answered", "unknown"):
                self._judge_answer(change.call, entry)
        self._follow_unknown(calls)
        answers = any(change.what in ("answered", "unknown") for change in calls)
        late = [self._fan_outs[id] for id in about if id in self._fan_outs]
        further = False  # an answer of a further addressee of a request to several
        for fan_out in late:
            if entry.sender in fan_out.missing:
                further = True
                del fan_out.missing[entry.sender]
                if not fan_out.missing:
                    del self._fan_outs[fan_out.mark.id]
        if not answers and not further:
            for change in calls:
                if change.what == "claimed":
                    self._judge_claimed_answer(change.call, entry)
        is_known = calls or any(self._is_forgotten(id) for id in about)
        if not is_known and not any(map(self._ids.get, about)):
            self._report_no_request(entry)

    def _report_repeat(self, repeat: tuple[Mark, str, str] | None) -> None:
        if repeat is not None:
            mark, id, first = repeat
            self.report(REPEATED_UNKNOWN, mark, id, first=word(first))

    def _follow_unknown(self, changes: Sequence[LedgerChange]) -> None:
        for change in changes:
            if isinstance(change, Change):
                self._unknown.follow(change, change.entry.t)

    def _on_withdraw(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        self._judge_end(entry, changes, WITHDRAW_NOTHING)

    def _on_reject(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        self._judge_end(entry, changes, REJECT_NOTHING)

    # --- judgements ---

    def _judge_end(self, entry: PlacedEntry, changes: Sequence[LedgerChange], nothing: Rule) -> None:
        """Judges a withdraw or a reject."""
        if entry.malformed and entry.correlation_id:
            self._report_malformed_call(entry)
            return
        calls = [change for change in changes if isinstance(change, Change)]
        known = [self._ids.get(id) for id in entry.correlation_id]
        if not calls and not any(found is not None and found[1] == "mcp/proposal" for found in known):
            self.report(nothing, entry)
        for change in calls:
            proposal = change.call
            if change.what in ("withdrawn", "rejected"):
                self._forget_proposal(proposal.id)
            if change.what != "claimed" or not isinstance(proposal, Proposal):
                continue
            if nothing is REJECT_NOTHING:
                self.report(LATE_REJECT, entry, proposal.id, why=_why(proposal, entry))
            elif entry.sender != proposal.proposer:
                self.report(FOREIGN_WITHDRAW, entry, proposal.id, proposer=word(proposal.proposer))
            else:
                self.report(LATE_WITHDRAW, entry, proposal.id, why=_why(proposal, entry))

    def _judge_approval(self, proposal: Proposal, entry: PlacedEntry) -> None:
        """Judges a request that refers to a proposal and does not decide it."""
        why = _why(proposal, entry)
        if proposal.state == "withdrawn":
            self.report(AFTER_WITHDRAW, entry, proposal.id, proposer=word(proposal.proposer))
        elif proposal.decided:
            others = (proposal.id, proposal.fulfilment or "")
            self._late[entry.id] = _LateApproval(entry.mark, others, why)
        else:
            self.report(NOT_AS_PROPOSED, entry, proposal.id, why=why)

    def _judge_answer(self, request: Request, entry: PlacedEntry) -> None:
        """Judges the answer that counts."""
        self._waiting.pop(request.id, None)
        late = self._late.pop(request.id, None)
        if late is not None and request.state == "refused":
            self.report(APPROVED_LATE, late.mark, *late.others, why=late.why, executor=word(entry.sender))
        elif late is not None:
            self._report_approved_twice(late)
        repeat = self._repeats.pop(request.id, None)
        if not first_unknown(entry.payload):
            self._report_repeat(repeat)
        asked, answered = request.payload.get("id"), entry.payload.get("id")
        if "id" in request.payload and "id" in entry.payload and not are_equal(asked, answered):
            self.report(
                RPC_ID,
                entry,
                request.id,
                got=word(repr(answered)),
                wanted=word(repr(asked)),
            )
        logical = self.context.logical
        if (
            entry.to
            and request.sender not in entry.to
            and logical(request.sender) not in map(logical, entry.to)
        ):
            self.report(ELSEWHERE, entry, request.id, requester=word(request.sender))
        unclear = request.state == "unknown" and not answer_fault(entry.payload)
        if (request.failed and request.state != "refused") or unclear:
            error = one_line(error_text(entry), MAX_ERROR) or "without a message"
            self.report(FAILED if request.failed else UNKNOWN, entry, request.id, error=error)

    def _judge_claimed_answer(self, call: Request | Proposal, entry: PlacedEntry) -> None:
        """Judges an answer that changes nothing."""
        request = call.entry if isinstance(call, Request) else call.request
        if isinstance(call, Proposal) and call.id in entry.correlation_id:
            self.report(ANSWERED_PROPOSAL, entry, call.id)
        elif request is None:
            return
        elif entry.sender not in request.to:
            if request.to:  # of a request to nobody, nobody was asked
                self.report(NOT_ASKED, entry, request.id, to=words(request.to))
        elif isinstance(call, Request) and call.state == "sent":
            self.report(NOTIFICATION_ANSWERED, entry, call.id)
        else:
            self.report(ANSWERED_TWICE, entry, request.id)

    def _match_proposals(self, entry: PlacedEntry, method: str) -> None:
        """Finds the undecided proposal that a request carries out without naming it."""
        key = method, tool_of(entry.payload) or ""
        ids = self._proposed.get(key)
        if not ids:
            return
        for id in list(reversed(ids))[:MAX_COMPARED]:
            proposal = self.context.ledger.calls.proposals.get(id)
            if proposal is None or proposal.proposer == entry.sender:
                continue
            if not are_equal(proposal.payload.get("params"), entry.payload.get("params")):
                continue
            if proposal.to and set(proposal.to) != set(entry.to):
                continue
            self._forget_proposal(id)
            self.report(UNLINKED, entry, id, proposer=word(proposal.proposer))
            return

    def _count_repeats(self, entry: PlacedEntry, method: str) -> None:
        if method != "tools/call" or len(entry.raw) > MAX_REPEATED:
            return
        last, count = self._calls.get(entry.sender, (None, 0))
        same = (
            last is not None
            and last.to == entry.to
            and are_equal(last.payload.get("params"), entry.payload.get("params"))
        )
        count = count + 1 if same else 1
        self._calls[entry.sender] = entry, count
        if count == REPEATED:
            self.report(REPEATED_CALL, entry, count=REPEATED)

    def _check_rpc(self, entry: PlacedEntry, rule: Rule, *, waits: bool = True) -> None:
        missing = [] if entry.payload.get("jsonrpc") == "2.0" else ['jsonrpc "2.0"']
        if waits and "id" not in entry.payload:
            missing.append("id")
        if missing:
            self.report(rule, entry, missing=" and no ".join(missing))

    def _report_no_request(self, entry: PlacedEntry) -> None:
        self.report(NO_REQUEST, entry, *entry.correlation_id, about=words(entry.correlation_id))

    def _report_malformed_call(self, entry: PlacedEntry) -> None:
        why = malformed(entry) or "its members have other types than those of an envelope"
        self.report(MALFORMED, entry, *entry.correlation_id, why=why)

    def _report_unanswered_request(self, mark: Mark) -> None:
        seconds = max(0.0, (self.context.now() - mark.time).total_seconds())
        self.report(UNANSWERED, mark, seconds=seconds)

    def _report_undecided_proposal(self, mark: Mark) -> None:
        self.report(UNDECIDED if mark.to else UNDECIDED_BY_ALL, mark)

    def _report_approved_twice(self, late: _LateApproval) -> None:
        self.report(APPROVED_TWICE, late.mark, *late.others, why=late.why)

    def _report_fan_out(self, fan_out: _FanOut) -> None:
        mark = fan_out.mark
        self.report(FAN_OUT, mark, count=len(set(mark.to)), missing=words(tuple(fan_out.missing)))

    # --- storage ---

    def _forget_call(self, entry: PlacedEntry) -> None:
        """Forgets what a `notifications/cancelled` of its sender names, by envelope or, as in MCP, by JSON-RPC id."""
        params = entry.payload.get("params")
        called = params.get("requestId") if isinstance(params, dict) else None
        for id in entry.correlation_id or self._find_called(entry.sender, called):
            request = self.context.ledger.calls.requests.get(id)
            if request is not None and request.sender == entry.sender:
                self._waiting.pop(id, None)
                self._fan_outs.pop(id, None)

    def _find_called(self, sender: str, called: object) -> tuple[str, ...]:
        """The id of the newest waiting request of a participant that has this JSON-RPC id; empty where there is none."""
        if not isinstance(called, str | int):
            return ()
        for id in chain(
            *(islice(reversed(table), MAX_COMPARED) for table in (self._waiting, self._fan_outs))
        ):
            request = self.context.ledger.calls.requests.get(id)
            if (
                request is not None
                and request.sender == sender
                and are_equal(request.payload.get("id"), called)
            ):
                return (id,)
        return ()

    def _forget_proposal(self, id: str) -> None:
        mark = self._undecided.pop(id, None)
        if mark is None:
            return
        proposal = self.context.ledger.calls.proposals.get(id)
        keys = [(proposal.method, proposal.tool)] if proposal is not None else list(self._proposed)
        for key in keys:
            ids = self._proposed.get(key, {})
            ids.pop(id, None)
            if not ids:
                self._proposed.pop(key, None)

    def _is_forgotten(self, id: str) -> bool:
        """Whether an answer belongs to a request that the ledger had to forget."""
        return self._waiting.pop(id, None) is not None

    def _is_absent(self, name: str) -> bool:
        """Whether a participant is known to be absent; the rules of participants report a request to it."""
        if name in GATEWAYS:
            return False
        member = self.context.ledger.members.get(name)
        return not member.ids if member is not None else self.context.whole()


def _why(call: Request | Proposal, entry: PlacedEntry) -> str:
    """The reason that the ledger gives why a message does not change a call."""
    reasons = (claim.why for claim in reversed(call.claims) if claim.id == entry.id)
    return word(next(reasons, "it is over"))
