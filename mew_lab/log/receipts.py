"""Checks the consent receipt of each request that carries out a proposal.

A receipt is the record of one decision: who or which policy decided which proposal, when, how, and the digest of what
was shown. A lab writes it into the journal of its gateway before it sends anything: the note `decided` (ruling R29). A
participant of another process reports its own to the gateway after it has sent the request: the note `reported` (R42).
What such a report says is the participant's own account, so it never counts as seen on a screen.

How it works
------------
Each request that the gateway relayed gets one of seven places, in the order of the records:

    consented     it names proposals of other participants, and each has a receipt here that fits
    reported      the same, but its sender reported a receipt that fits
    elsewhere     its sender decided it in another process, and left no receipt: what was shown is not recorded
    own right     it names no proposal of another participant: its sender needed a capability, and no decision
    other call    it names a proposal, but has another method, tool or addressees: no receipt can cover it
    without       it names a proposal, and nobody decided it: a receipt does not fit, or is missing where decisions of
                  its sender leave one
    unknown       it may be for a proposal that is not in the log: the log begins later, or lacks contents of messages

A receipt fits when it stands between the proposal and the request, was written by the sender of the request, names the
request, states how it was shown, and has the digest of what was sent. It covers one request alone. A report stands
behind the request; it need not have a digest. One that counts a permission of an agent fits only where its sender gave
that permission as a person, for once, at most 60 s before, and no other receipt has counted it. One of an approver fits
only where the person whose rules it runs has given its sender a permission in this run. A request that a rule decided
is told with the rule; a lab notes after the decision that a call which a rule covers had waited for a person, so that
the share of these can be counted.

The decisions of participants in the process of the gateway (`memory`) leave receipts in its journal. Where a log does
not tell the transport, those of a participant do that has left one in this run.

Spec: §3.2.1, rulings R17, R29, R42.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.ledger.calls import RPC_MEMBERS, CallLedger, Proposal, other_call, shown
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.options import ALLOW_ONCE, chosen_option, without_choice
from mew_lab.log.decision_note import (
    DECIDED,
    DESPITE,
    REVIEWED,
    DecisionNote,
    ReviewNote,
    read_decision_note,
    read_review,
)
from mew_lab.log.entries import GRANT, PAYLOAD, SOURCE, RecordedEntry, lacks
from mew_lab.log.line import read_members
from mew_lab.log.reading import holds_opening
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.decision_ways import APPROVER, WAYS
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.miss import quote
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import REPORTED, Record

__all__ = ["CheckedRequest", "ConsentReceipt", "Consents", "check_consents", "misfit", "read_receipt"]

MAX_PROPOSALS, MAX_WEIGHT = 100_000, 256 * 1024 * 1024  # held at a time, and their characters
MAX_IDS = 1_000_000  # of messages, in a log that may not be complete
MOST_OPTIONS = 5  # of one decider that are named, and so many permissions
PERMITTED_FOR = timedelta(seconds=60)
MAX_LISTED = 50  # requests of one place in the text of a result
MAX_RULE = 400  # characters of a rule there
NO_RECEIPT = "it has no receipt"
FORGOTTEN = "its proposal is too far back: more of them are open than are held at a time"


class ConsentReceipt(NamedTuple):
    """A note `decided`, or a reported one, and its record: its time, and the participant that decided."""

    record: Record
    note: DecisionNote
    reported: bool = False

    @property
    def decider(self) -> str:
        """The participant that decided, or the policy in its name."""
        who = one_line(self.record.participant, 60) or "a participant without a name"
        if self.note.rules_of:
            return f"{who}, {one_line(self.note.by, 60)} of {one_line(self.note.rules_of, 60)}"
        return who if self.note.by == "human" else f"{one_line(self.note.by, 60) or 'nobody'} of {who}"


class CheckedRequest(NamedTuple):
    """A request of a log that refers to something, and what was found about it.

    `proposal` is the proposal, or the unknown message, that it names. `receipt` is its receipt where it is consented or
    reported; otherwise `why` is the reason why none covers it. `sign` stands before its number, as in `Log.sign`.
    """

    seq: int
    id: str
    sender: str
    proposal: str
    receipt: ConsentReceipt | None = None
    why: str = ""
    sign: str = "#"

    def __str__(self) -> str:
        sender = one_line(self.sender, 60)
        text = f"{self.sign}{self.seq}: request {quote(self.id)} of {sender} for {quote(self.proposal)}"
        reported = ", as it reported" if self.receipt and self.receipt.reported else ""
        why = f"decided by {self.receipt.decider}{reported}" if self.receipt else self.why
        return f"{text}: {why}" if why else text


class Consents(NamedTuple):
    """The result: the place of each request that the gateway relayed.

    `own_right` counts requests by sender; of these, `granted` counts those by a grant or an invitation, and `unrecorded`
    those of which the log does not say whether the permission was granted. See the module for the others. `unused` are
    approvals whose request was not relayed, and `receipts` counts all. `reviews` are the calls of rules that waited for
    a person, as their labs noted it after each decision.
    """

    consented: tuple[CheckedRequest, ...]
    reported: tuple[CheckedRequest, ...]
    elsewhere: tuple[CheckedRequest, ...]
    own_right: Mapping[str, int]
    granted: Mapping[str, int]
    unrecorded: Mapping[str, int]
    other_calls: tuple[CheckedRequest, ...]
    without: tuple[CheckedRequest, ...]
    unknown: tuple[CheckedRequest, ...]
    unused: tuple[ConsentReceipt, ...]
    receipts: int
    reviews: tuple[ReviewNote, ...] = ()

    @property
    def requests(self) -> int:
        """The number of requests that the gateway relayed."""
        decided = (self.consented, self.reported, self.elsewhere)
        lists = (*decided, self.other_calls, self.without, self.unknown)
        return sum(map(len, lists)) + sum(self.own_right.values())

    def __str__(self) -> str:
        lines = [f"{count_of(self.requests, 'request')} in this log"]
        if self.consented:
            lines.append(
                f"{len(self.consented)} for proposals, each approved before it was sent, and sent as it was approved:"
            )
            lines += [f"  {line}" for line in _count_deciders(self.consented)]
            lines += _list_rules(self.consented, self.reviews)
        if self.reported:
            lines.append(
                f"{len(self.reported)} for proposals, with receipts that the deciders reported themselves:"
            )
            lines += [f"  {line}" for line in _count_deciders(self.reported)]
            lines += _list_rules(self.reported, ())
        if self.elsewhere:
            lines.append(
                f"{len(self.elsewhere)} for proposals, decided elsewhere: by whom is known, and not what was shown:"
            )
            senders = Counter(one_line(request.sender, 60) for request in self.elsewhere)
            lines += [f"  {count} by {name}" for name, count in senders.most_common(MAX_LISTED)]
            lines += [f"  … and by {len(senders) - MAX_LISTED} more"] * (len(senders) > MAX_LISTED)
        if self.own_right:
            counts = sorted(self.own_right.items(), key=lambda item: (-item[1], item[0]))
            shown = ", ".join(f"{one_line(name, 60)} {count}" for name, count in counts[:MAX_LISTED])
            more = f" and {len(counts) - MAX_LISTED} more" if len(counts) > MAX_LISTED else ""
            given, unknown = sum(self.granted.values()), sum(self.unrecorded.values())
            of_these = f", {given} of them by a grant" if given else ""
            if unknown:
                of_these += f", of {unknown} it is not recorded whether by a grant"
            lines.append(f"{sum(self.own_right.values())} by the sender's own right{of_these}: {shown}{more}")
        lines += _listed(self.other_calls, "for a proposal, but another call than the proposed one:")
        lines += _listed(self.without, "for proposals, and nobody decided that: no receipt fits:")
        lines += _listed(self.unknown, "that may be for proposals that are not recorded in this log:")
        if self.unused:
            names = ", ".join(quote(receipt.note.request) for receipt in self.unused[:3])
            more = f" and {len(self.unused) - 3} more" if len(self.unused) > 3 else ""
            approvals = count_of(len(self.unused), "approval")
            lines.append(f"{approvals} whose request was not relayed: {names}{more}")
        return "\n".join(lines)


def _listed(requests: Sequence[CheckedRequest], about: str) -> list[str]:
    lines = [f"{len(requests)} {about}"] if requests else []
    lines += [f"  {request}" for request in requests[:MAX_LISTED]]
    return lines + [f"  … and {len(requests) - MAX_LISTED} more"] * (len(requests) > MAX_LISTED)


def _count_deciders(requests: Sequence[CheckedRequest]) -> list[str]:
    """One line for each decider: how many requests it decided, and how."""
    receipts: dict[str, list[ConsentReceipt]] = {}
    for request in requests:
        assert request.receipt is not None
        receipts.setdefault(request.receipt.decider, []).append(request.receipt)
    lines = []
    for decider, given in sorted(receipts.items(), key=lambda item: -len(item[1])):
        counts = Counter(receipt.note.how for receipt in given)
        ways = [f"{counts[how]} {way.told}" for how, way in WAYS.items() if counts[how]]
        times = [receipt.note.on_screen / 1000 for receipt in given if receipt.note.on_screen is not None]
        if times:
            ways.append(f"on screen {min(times):.1f} to {max(times):.1f} s")
        edited = sum(receipt.note.edited for receipt in given)
        if edited:
            ways.append(f"{edited} edited")
        options = Counter(receipt.note.option.name for receipt in given if receipt.note.option)
        ways += [f"{count} “{one_line(name, 40)}”" for name, count in options.most_common(MOST_OPTIONS)]
        permissions = [quote(receipt.note.permission) for receipt in given if receipt.note.permission]
        ways += [f"by the permission {permission}" for permission in permissions[:MOST_OPTIONS]]
        if (more := len(permissions) - MOST_OPTIONS) > 0:
            ways.append(f"and by {count_of(more, 'more permission')}")
        for what in sorted(DESPITE):
            if times_despite := sum(what in receipt.note.despite for receipt in given):
                ways.append(f"{times_despite} despite={what}")
        lines.append(f"{len(given)} by {decider}: {', '.join(ways)}")
    return lines


def _list_rules(requests: Sequence[CheckedRequest], reviews: Sequence[ReviewNote]) -> list[str]:
    """Each rule with its words, the numbers of the requests that it decided, and how its reviews ended."""
    texts: dict[str, str] = {}
    decided: dict[str, list[str]] = {}
    for request in requests:
        if request.receipt is not None and (rule := request.receipt.note.rule) is not None:
            texts.setdefault(rule.sha256, rule.text)
            decided.setdefault(rule.sha256, []).append(f"{request.sign}{request.seq}")
    ended: dict[str, Counter[str]] = {}
    for review in reviews:
        texts.setdefault(review.rule.sha256, review.rule.text)
        ended.setdefault(review.rule.sha256, Counter())[review.verdict] += 1
    lines = []
    for sha256, text in texts.items():
        numbers = decided.get(sha256, [])
        more = f" and {len(numbers) - MAX_LISTED} more" if len(numbers) > MAX_LISTED else ""
        automatic = (
            f"{len(numbers)} decided by it: {', '.join(numbers[:MAX_LISTED])}{more}" if numbers else ""
        )
        counts = ended.get(sha256, Counter())
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        waited = f"{counts.total()} more waited for a person: {verdicts}" if counts else ""
        lines.append(f"  rule {sha256[:12]}, “{one_line(text, MAX_RULE)}”")
        lines.append(f"    {'; '.join(filter(None, [automatic, waited]))}")
    return lines


def check_consents(
    records: Iterable[Record], *, complete: bool = True, limit: int = MAX_PROPOSALS, sign: str = "#"
) -> Consents:
    """Checks the receipts of all requests of a log, in the order of its records.

    Args:
        complete: Whether the log holds every message of its space from its first record on. That a journal was pruned,
            is a branch, or begins later, is read from its records.
        limit: How many proposals are held at a time. A request for an earlier one is `without`.
        sign: What stands before a number; see `Log.sign`.
    """
    check = _ConsentCheck(complete=complete, limit=limit, sign=sign)
    for record in records:
        check.take(record)
    return check.end()


class _ConsentCheck:
    def __init__(self, *, complete: bool, limit: int, sign: str) -> None:
        self._may_be_complete, self._limit, self._sign = complete, limit, sign
        self._own_right: Counter[str] = Counter()
        self._consented: list[CheckedRequest] = []
        self._other_calls: list[CheckedRequest] = []
        self._without: list[tuple[int, CheckedRequest]] = []
        self._unknown: list[CheckedRequest] = []
        self._unused: list[ConsentReceipt] = []
        self._reported: list[tuple[int, CheckedRequest]] = []
        self._elsewhere: list[tuple[int, CheckedRequest]] = []
        self._order = 0
        self._opened = self._keeps_notes = False
        self._granted: Counter[str] = Counter()
        self._unrecorded: Counter[str] = Counter()
        self._count = 0
        self._reviews: list[ReviewNote] = []
        self._missing: dict[tuple[str, str], _Missing] = {}
        self._last_seq: int | None = 0  # of the last record; None behind the first one that is no `opened`
        self._begin(complete=complete)

    def _begin(self, *, complete: bool) -> None:
        """Begins a run of a space: proposals and receipts of an earlier run are none of this one."""
        self._place_missing()
        self._complete = complete
        self._noted: set[str] = set()  # participants that have left a receipt here
        self._seen: BoundedDict[str, None] = BoundedDict(MAX_IDS)  # ids, where the log may not be complete
        self._ledger = CallLedger(limit=self._limit, weight=MAX_WEIGHT)
        self._proposers: dict[str, str] = {}  # of all proposals by id, those that the ledger forgot too
        self._receipts: dict[str, list[ConsentReceipt]] = {}  # by proposal, those that cover no request yet
        self._used: dict[
            str, dict[str, str]
        ] = {}  # by proposal, the requests that receipts cover -> their senders
        # by whom and when permissions of agents were given for once that no receipt has counted yet, by proposal
        self._permissions: BoundedDict[str, tuple[str, datetime]] = BoundedDict(self._limit)
        self._unsent: dict[tuple[str, str], ConsentReceipt] = {}  # approvals by participant and request
        self._granted_to: BoundedDict[tuple[str, str], None] = BoundedDict(
            self._limit
        )  # givers and recipients

    def take(self, record: Record) -> None:
        if record.event == "opened":
            self._open(record)
            return
        if self._last_seq is not None:  # the first record: earlier ones may have been lost from memory
            self._complete = self._complete and self._opened and record.seq <= self._last_seq + 1
            self._last_seq = None
        if record.event in (DECIDED, REPORTED):
            receipt = read_receipt(record)
            if receipt is not None:
                (self._take_report if receipt.reported else self._take_receipt)(receipt)
            return
        if record.event == REVIEWED:
            if (review := read_review(record)) is not None:
                self._reviews.append(review)
            return
        if record.raw is None or record.verdict == "refused":
            return
        entry = RecordedEntry(record)
        if not self._complete:
            self._seen[entry.id] = None
        if entry.kind == "mcp/request":
            self._unsent.pop((_sender(entry), entry.id), None)
            self._take_request(entry)
        elif entry.kind == "capability/grant":
            if isinstance(recipient := entry.payload.get("recipient"), str):
                self._granted_to[_sender(entry), recipient] = None
        elif entry.kind == "mcp/proposal" and any(
            change.what == "proposed" for change in self._ledger.observe(entry)
        ):
            self._proposers[entry.id] = _sender(entry)
            # What was decided before was another proposal with this id (R6).
            self._receipts.pop(entry.id, None)
            self._used.pop(entry.id, None)

    def _open(self, record: Record) -> None:
        about = read_members(record.detail) or {}
        if "previous" in about:  # a later file of the same run
            return
        self._unused += self._unsent.values()
        self._last_seq, self._opened = record.seq, True
        # Logs in other forms have no notes, and no epoch of a run.
        self._keeps_notes = type(about.get("epoch")) is int
        self._begin(complete=self._may_be_complete and holds_opening(about))

    def end(self) -> Consents:
        self._place_missing()
        return Consents(
            consented=tuple(self._consented),
            reported=_in_order(self._reported),
            elsewhere=_in_order(self._elsewhere),
            own_right=dict(self._own_right),
            granted=dict(self._granted),
            unrecorded=dict(self._unrecorded),
            other_calls=tuple(self._other_calls),
            without=_in_order(self._without),
            unknown=tuple(self._unknown),
            unused=(*self._unused, *self._unsent.values()),
            receipts=self._count,
            reviews=tuple(self._reviews),
        )

    def _take_receipt(self, receipt: ConsentReceipt) -> None:
        self._count += 1
        self._noted.add(receipt.record.participant)
        self._receipts.setdefault(receipt.note.proposal, []).append(receipt)
        if receipt.note.decision == "approve":
            self._unsent[receipt.record.participant, receipt.note.request] = receipt

    def _checked(
        self, entry: RecordedEntry, proposal: str, receipt: ConsentReceipt | None = None, *, why: str = ""
    ) -> CheckedRequest:
        return CheckedRequest(entry.record.seq, entry.id, _sender(entry), proposal, receipt, why, self._sign)

    def _take_request(self, entry: RecordedEntry) -> None:
        sender = _sender(entry)
        foreign = [
            id for id in dict.fromkeys(entry.correlation_id) if self._proposers.get(id, sender) != sender
        ]
        if not foreign:
            bare = lacks(entry.record, PAYLOAD)
            strange = [
                id
                for id in entry.correlation_id
                if id not in self._proposers and (bare or id not in self._seen)
            ]
            if strange and not self._complete:
                self._unknown.append(self._checked(entry, strange[0]))
            else:
                self._count_own_right(entry.record, sender)
            return
        held = {id: self._ledger.proposals.get(id) for id in foreign}
        addressees = frozenset(entry.to)
        for id, proposal in held.items():
            why = "" if proposal is None else other_call(proposal, entry, addressees)
            if why:
                self._other_calls.append(self._checked(entry, id, why=why))
                return
        covering: dict[str, ConsentReceipt] = {}
        for id, proposal in held.items():
            found = (
                _Misfit(FORGOTTEN, missing=True) if proposal is None else self._find_receipt(entry, proposal)
            )
            if isinstance(found, _Misfit):
                checked = self._checked(entry, id, why=found.why)
                if found.missing:
                    self._note_missing(entry, checked, held, expected=found.expected)
                else:
                    self._add(self._without, checked)
                return
            covering[id] = found
        for id, receipt in covering.items():
            self._receipts[id].remove(receipt)
            self._used.setdefault(id, {})[entry.id] = sender
            self._permissions.pop(receipt.note.permission, None)
            if receipt.note.how in ("click", "typed") and _allows_once(receipt.note, held[id]):
                self._permissions[id] = sender, entry.record.now
        self._consented.append(self._checked(entry, foreign[0], covering[foreign[0]]))

    def _count_own_right(self, record: Record, sender: str) -> None:
        self._own_right[sender] += 1
        if record.grant or lacks(record, GRANT):
            self._granted[sender] += 1
        elif not record.pattern or lacks(record, SOURCE):
            self._unrecorded[sender] += 1

    def _find_receipt(self, entry: RecordedEntry, proposal: Proposal) -> ConsentReceipt | _Misfit:
        """The receipt that covers the request, or the reason why none does."""
        receipts, sender = self._receipts.get(proposal.id, []), _sender(entry)
        fitting = [one for one in receipts if one.note.request == entry.id and one.note.decision == "approve"]
        if not fitting:
            used = self._used.get(proposal.id, {})
            repeated = "its receipt covers an earlier request with this id" if entry.id in used else ""
            decided = sender in used.values() or any(one.record.participant == sender for one in receipts)
            return _Misfit(repeated or _describe_missing(receipts, used), missing=True, expected=decided)
        receipt = fitting[-1]
        if receipt.record.participant != sender:
            return _Misfit(f"{receipt.decider} decided it, and {one_line(sender, 60)} sent it")
        if not receipt.note.how:
            return _Misfit("its receipt does not say how it was shown: on a screen, as text or to a policy")
        why = misfit(receipt.note, entry, proposal) or self._find_uncounted(receipt, entry)
        why = why or self._find_undelegated(receipt.note, entry)
        return _Misfit(why) if why else receipt

    def _find_uncounted(self, receipt: ConsentReceipt, entry: RecordedEntry) -> str:
        """Why the permission that a receipt counts does not count; empty where it does, or it counts none."""
        if not (id := receipt.note.permission) or (not self._complete and id not in self._proposers):
            return ""
        by, at = self._permissions.get(id, ("", entry.record.now))
        if by == _sender(entry) and entry.record.now - at <= PERMITTED_FOR:
            return ""
        who = one_line(_sender(entry), 60)
        return f"its receipt counts the permission {quote(id)}, which no person of {who} gave for it alone within 60 s"

    def _find_undelegated(self, note: DecisionNote, entry: RecordedEntry) -> str:
        """Why an approver did not run the rules of a person; empty where it did, or nothing here tells."""
        if note.how != APPROVER or (note.rules_of, _sender(entry)) in self._granted_to or not self._complete:
            return ""
        whose = f"rules of {one_line(note.rules_of, 60)}, who" if note.rules_of else "rules of nobody, who"
        return f"its receipt is of an approver for {whose} has given {one_line(_sender(entry), 60)} no permission here"

    # --- receipts that are missing, and those that come by a report ---

    def _note_missing(
        self,
        entry: RecordedEntry,
        checked: CheckedRequest,
        held: Mapping[str, Proposal | None],
        *,
        expected: bool,
    ) -> None:
        """Keeps a request without a receipt until its sender reports one, or the run of the space ends."""
        via, sender = entry.record.via, checked.sender
        expected = expected or (via == "memory" and self._keeps_notes) or (not via and sender in self._noted)
        sent = {id: _compare(entry, proposal) for id, proposal in held.items() if proposal is not None}
        if (sender, entry.id) in self._missing or len(self._missing) >= self._limit:
            self._add(self._without if expected else self._elsewhere, checked)
        else:
            self._order += 1
            self._missing[sender, entry.id] = _Missing(checked, self._order, expected, sent)

    def _take_report(self, report: ConsentReceipt) -> None:
        self._count += 1
        key = report.record.participant, report.note.request
        missing = self._missing.get(key)
        sent = missing.sent.get(report.note.proposal) if missing is not None else None
        if missing is None or sent is None:
            return
        if why := sent.misfit(report.note):
            self._without.append((missing.order, missing.checked._replace(why=why)))
            del self._missing[key]
            return
        del missing.sent[report.note.proposal]
        if not missing.sent and missing.checked.why != FORGOTTEN:
            self._reported.append((missing.order, missing.checked._replace(receipt=report, why="")))
            del self._missing[key]

    def _place_missing(self) -> None:
        for missing in self._missing.values():
            placed = self._without if missing.expected else self._elsewhere
            placed.append((missing.order, missing.checked))
        self._missing.clear()

    def _add(self, placed: list[tuple[int, CheckedRequest]], checked: CheckedRequest) -> None:
        self._order += 1
        placed.append((self._order, checked))


def _allows_once(note: DecisionNote, proposal: Proposal | None) -> bool:
    """Whether a decision chose the option of a permission that allows it once."""
    asked = proposal.permission if proposal is not None else None
    chosen = asked.find(note.option.id) if asked is not None and note.option is not None else None
    return chosen is not None and chosen.kind == ALLOW_ONCE


def _describe_missing(receipts: Sequence[ConsentReceipt], used: Collection[str]) -> str:
    approved = [*used, *(one.note.request for one in receipts if one.note.decision == "approve")]
    if approved:
        return f"another request was approved, {', '.join(map(quote, approved[-3:]))}"
    return f"{receipts[-1].decider} rejected it" if receipts else NO_RECEIPT


def _sender(entry: Entry) -> str:
    """The participant that sent it, under whichever id; where a log does not tell it, the id."""
    return (entry.record.participant if isinstance(entry, RecordedEntry) else "") or entry.sender


class _Misfit(NamedTuple):
    """The reason why no receipt covers a request.

    `missing` is set where none names it, `expected` where its sender left one about another request for the proposal.
    """

    why: str
    missing: bool = False
    expected: bool = False


class _Missing(NamedTuple):
    """A request without a receipt: whether decisions of its sender leave one here, and what was sent, by proposal.

    `order` is its place among these.
    """

    checked: CheckedRequest
    order: int
    expected: bool
    sent: dict[str, _Sent]


class _Sent(NamedTuple):
    """What a request sent of a proposal: its digest, its addressees, and those of the proposal.

    `option` is the id of the option that it chooses of a permission (R41). `why` is the reason why it cannot be what was
    shown, whatever the receipt says; empty where it can.
    """

    why: str = ""
    digest: str = ""
    edited: bool = False
    to: tuple[str, ...] = ()
    proposed_to: tuple[str, ...] = ()
    option: str = ""

    def misfit(self, note: DecisionNote) -> str:
        """The reason why what was sent is not what was shown, according to a receipt; empty where it is."""
        if self.why:
            return self.why
        if self.to != (self.proposed_to or note.to):
            return "it was sent to others than those that were shown"
        if self.digest != note.digest and (note.digest or not note.reported):
            return (
                f"what was sent is not what was shown: its digest is {self.digest[:12]}, and that of the receipt is "
                f"{one_line(note.digest, 64)[:12]}"
            )
        if self.option != (note.option.id if note.option else ""):
            chosen = f"the option {quote(note.option.id)}" if note.option else "no option"
            sent = f"the option {quote(self.option)}" if self.option else "none"
            return f"its receipt names {chosen}, and what was sent chooses {sent}"
        if self.edited != note.edited:
            return (
                "its receipt says that it was edited"
                if note.edited
                else "its receipt does not say that it was edited"
            )
        return ""


def _compare(entry: RecordedEntry, proposal: Proposal) -> _Sent:
    """What a request sent of a proposal."""
    try:
        before, request = shown(proposal.envelope), shown(entry.envelope)
    except MewError:
        return _Sent("it or its proposal can be read in two ways, so nobody can say what was shown")
    sent, proposed, option = dict(request["payload"]), dict(before["payload"]), None
    if (asked := proposal.permission) is not None:
        option, sent = chosen_option(asked, sent), without_choice(asked, sent)
    edited = {**before, "payload": {**proposed, "params": sent["params"]}} if "params" in sent else before
    for name in (*RPC_MEMBERS, "params"):
        sent.pop(name, None)
        proposed.pop(name, None)
    if not are_equal(sent, proposed) or ("params" in before["payload"]) > ("params" in entry.payload):
        return _Sent("what was sent is not what was shown: it differs beside the params")
    what = digest(edited)
    chosen = option.id if option is not None else ""
    return _Sent("", what, what != proposal.digest, tuple(entry.to), tuple(before["to"]), chosen)


def misfit(note: DecisionNote, entry: RecordedEntry, proposal: Proposal) -> str:
    """Why what the note says was shown is not what the request sent of a proposal; empty where it is."""
    return _compare(entry, proposal).misfit(note)


def read_receipt(record: Record) -> ConsentReceipt | None:
    """The receipt in a record `decided` or `reported`; None where there is none, or its note is damaged."""
    note = read_decision_note(record)
    return ConsentReceipt(record, note, record.event == REPORTED) if note is not None else None


def _in_order(requests: list[tuple[int, CheckedRequest]]) -> tuple[CheckedRequest, ...]:
    return tuple(request for _, request in sorted(requests, key=lambda pair: pair[0]))
