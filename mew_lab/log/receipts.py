"""Checks the consent receipt of each request that carries out a proposal.

A receipt is the note `decided` that a lab writes into the journal before it sends anything (ruling R29): the proposal,
the request, the digest of what was shown, the person or the policy, and how it was shown.

How it works
------------
Each request that the gateway relayed gets one of five places, in the order of the records:

    consented     it names proposals of other participants, and each has a receipt that fits
    own right     it names no proposal of another participant: its sender needed a capability, and no decision
    other call    it names a proposal, but has another method, tool or addressees: no receipt can cover it
    without       it names a proposal and is the proposed call, and no receipt fits
    unknown       it names a message that is not in the log, and the log does not go back to the start of its space

A receipt fits when it stands between the proposal and the request, was written by the sender of the request, names the
request, states how it was shown, and has the digest of what was sent. It covers one request alone.

Spec: §3.2.1, rulings R17 and R29.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from mew_lab.errors import MewError
from mew_lab.ledger.calls import RPC_MEMBERS, CallLedger, Proposal, other_call, shown
from mew_lab.ledger.entry import Entry
from mew_lab.log.decision_note import DECIDED, DecisionNote, read_decision_note
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.line import read_members
from mew_lab.log.reading import holds_opening
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.miss import quote
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["CheckedRequest", "ConsentReceipt", "Consents", "check_consents", "read_receipt"]

MAX_PROPOSALS, MAX_WEIGHT = 100_000, 256 * 1024 * 1024  # held at a time, and their characters
MAX_LISTED = 50  # requests of one place in the text of a result
_WAYS = {"click": "by a click", "typed": "typed", "policy": "by the policy"}
FORGOTTEN = "its proposal is too far back: more of them are open than are held at a time"


class ConsentReceipt(NamedTuple):
    """A note `decided`, and its record: its time, and the participant that decided."""

    record: Record
    note: DecisionNote

    @property
    def decider(self) -> str:
        """The participant that decided, or the policy in its name."""
        who = one_line(self.record.participant, 60) or "a participant without a name"
        return who if self.note.by == "human" else f"{one_line(self.note.by, 60) or 'nobody'} of {who}"


class CheckedRequest(NamedTuple):
    """A request of a log that refers to something, and what was found about it.

    `proposal` is the proposal, or the unknown message, that it names. `receipt` is its receipt where it is consented;
    otherwise `why` is the reason why none covers it.
    """

    seq: int
    id: str
    sender: str
    proposal: str
    receipt: ConsentReceipt | None = None
    why: str = ""

    def __str__(self) -> str:
        text = f"record {self.seq}: request {quote(self.id)} of {one_line(self.sender, 60)} for {quote(self.proposal)}"
        why = f"decided by {self.receipt.decider}" if self.receipt else self.why
        return f"{text}: {why}" if why else text


class Consents(NamedTuple):
    """The result: the place of each request that the gateway relayed.

    `own_right` counts requests by sender; see the module for the others. `unused` are approvals whose request was not
    relayed, and `receipts` counts all.
    """

    consented: tuple[CheckedRequest, ...]
    own_right: Mapping[str, int]
    other_calls: tuple[CheckedRequest, ...]
    without: tuple[CheckedRequest, ...]
    unknown: tuple[CheckedRequest, ...]
    unused: tuple[ConsentReceipt, ...]
    receipts: int

    @property
    def requests(self) -> int:
        """The number of requests that the gateway relayed."""
        lists = (self.consented, self.other_calls, self.without, self.unknown)
        return sum(map(len, lists)) + sum(self.own_right.values())

    def __str__(self) -> str:
        lines = [f"{count_of(self.requests, 'request')} in this log"]
        if self.consented:
            lines.append(
                f"{len(self.consented)} for proposals, decided beforehand, and what was sent is what was shown:"
            )
            lines += [f"  {line}" for line in _count_deciders(self.consented)]
        if self.own_right:
            counts = sorted(self.own_right.items(), key=lambda item: (-item[1], item[0]))
            shown = ", ".join(f"{one_line(name, 60)} {count}" for name, count in counts[:MAX_LISTED])
            more = f" and {len(counts) - MAX_LISTED} more" if len(counts) > MAX_LISTED else ""
            lines.append(f"{sum(self.own_right.values())} by the sender's own right: {shown}{more}")
        lines += _listed(self.other_calls, "for a proposal, but another call than the proposed one:")
        lines += _listed(self.without, "for proposals, without a receipt that fits:")
        lines += _listed(self.unknown, "that may be for proposals from before this log:")
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
        ways = [f"{counts[how]} {text}" for how, text in _WAYS.items() if counts[how]]
        times = [receipt.note.on_screen / 1000 for receipt in given if receipt.note.on_screen is not None]
        if times:
            ways.append(f"on screen {min(times):.1f} to {max(times):.1f} s")
        edited = sum(receipt.note.edited for receipt in given)
        if edited:
            ways.append(f"{edited} edited")
        lines.append(f"{len(given)} by {decider}: {', '.join(ways)}")
    return lines


def check_consents(
    records: Iterable[Record], *, complete: bool = True, limit: int = MAX_PROPOSALS
) -> Consents:
    """Checks the receipts of all requests of a log, in the order of its records.

    Args:
        complete: Whether the log holds every message of its space from its first record on. That a journal was pruned,
            is a branch, or begins later, is read from its records.
        limit: How many proposals are held at a time. A request for an earlier one is `without`.
    """
    check = _ConsentCheck(complete=complete, limit=limit)
    for record in records:
        check.take(record)
    return check.end()


class _ConsentCheck:
    def __init__(self, *, complete: bool, limit: int) -> None:
        self._may_be_complete, self._limit = complete, limit
        self._own_right: Counter[str] = Counter()
        self._consented: list[CheckedRequest] = []
        self._other_calls: list[CheckedRequest] = []
        self._without: list[CheckedRequest] = []
        self._unknown: list[CheckedRequest] = []
        self._unused: list[ConsentReceipt] = []
        self._count = 0
        self._last_seq: int | None = 0  # of the last record; None behind the first one that is no `opened`
        self._begin(complete=complete)

    def _begin(self, *, complete: bool) -> None:
        """Begins a run of a space: proposals and receipts of an earlier run are none of this one."""
        self._complete = complete
        self._ledger = CallLedger(limit=self._limit, weight=MAX_WEIGHT)
        self._proposers: dict[str, str] = {}  # of all proposals by id, those that the ledger forgot too
        self._receipts: dict[str, list[ConsentReceipt]] = {}  # by proposal, those that cover no request yet
        self._used: dict[str, set[str]] = {}  # by proposal, the requests that its receipts cover
        self._unsent: dict[tuple[str, str], ConsentReceipt] = {}  # approvals by participant and request

    def take(self, record: Record) -> None:
        if record.event == "opened":
            self._open(record)
            return
        if self._last_seq is not None:  # the first record: earlier ones may have been lost from memory
            self._complete = self._complete and record.seq <= self._last_seq + 1
            self._last_seq = None
        if record.event == DECIDED:
            receipt = read_receipt(record)
            if receipt is not None:
                self._take_receipt(receipt)
            return
        if record.raw is None or record.verdict == "refused":
            return
        entry = RecordedEntry(record)
        if entry.kind == "mcp/request":
            self._unsent.pop((_sender(entry), entry.id), None)
            self._take_request(entry)
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
        self._last_seq = record.seq
        self._begin(complete=self._may_be_complete and holds_opening(about))

    def end(self) -> Consents:
        return Consents(
            consented=tuple(self._consented),
            own_right=dict(self._own_right),
            other_calls=tuple(self._other_calls),
            without=tuple(self._without),
            unknown=tuple(self._unknown),
            unused=(*self._unused, *self._unsent.values()),
            receipts=self._count,
        )

    def _take_receipt(self, receipt: ConsentReceipt) -> None:
        self._count += 1
        self._receipts.setdefault(receipt.note.proposal, []).append(receipt)
        if receipt.note.decision == "approve":
            self._unsent[receipt.record.participant, receipt.note.request] = receipt

    def _take_request(self, entry: RecordedEntry) -> None:
        sender = _sender(entry)
        foreign = [
            id for id in dict.fromkeys(entry.correlation_id) if self._proposers.get(id, sender) != sender
        ]
        if not foreign:
            strange = [id for id in entry.correlation_id if id not in self._proposers]
            if strange and not self._complete:
                self._unknown.append(CheckedRequest(entry.record.seq, entry.id, sender, strange[0]))
            else:
                self._own_right[sender] += 1
            return
        held = {id: self._ledger.proposals.get(id) for id in foreign}
        addressees = frozenset(entry.to)
        for id, proposal in held.items():
            why = "" if proposal is None else other_call(proposal, entry, addressees)
            if why:
                self._other_calls.append(CheckedRequest(entry.record.seq, entry.id, sender, id, why=why))
                return
        covering: dict[str, ConsentReceipt] = {}
        for id, proposal in held.items():
            found = FORGOTTEN if proposal is None else self._find_receipt(entry, proposal)
            if isinstance(found, str):
                self._without.append(CheckedRequest(entry.record.seq, entry.id, sender, id, why=found))
                return
            covering[id] = found
        for id, receipt in covering.items():
            self._receipts[id].remove(receipt)
            self._used.setdefault(id, set()).add(entry.id)
        self._consented.append(
            CheckedRequest(entry.record.seq, entry.id, sender, foreign[0], covering[foreign[0]])
        )

    def _find_receipt(self, entry: RecordedEntry, proposal: Proposal) -> ConsentReceipt | str:
        """The receipt that covers the request, or the reason why none does."""
        receipts = self._receipts.get(proposal.id, [])
        fitting = [one for one in receipts if one.note.request == entry.id and one.note.decision == "approve"]
        if not fitting:
            if entry.id in self._used.get(proposal.id, ()):
                return "its receipt covers an earlier request with this id"
            return _describe_missing(receipts, self._used.get(proposal.id, ()))
        receipt = fitting[-1]
        sender = _sender(entry)
        if receipt.record.participant != sender:
            return f"{receipt.decider} decided it, and {one_line(sender, 60)} sent it"
        if not receipt.note.how:
            return "its receipt does not say how it was shown: on a screen, as text or to a policy"
        return _find_difference(entry, proposal, receipt) or receipt


def _describe_missing(receipts: Sequence[ConsentReceipt], used: Collection[str]) -> str:
    approved = [*used, *(one.note.request for one in receipts if one.note.decision == "approve")]
    if approved:
        return f"another request was approved, {', '.join(map(quote, approved[-3:]))}"
    return f"{receipts[-1].decider} rejected it" if receipts else "it has no receipt"


def _sender(entry: Entry) -> str:
    """The participant that sent it, under whichever id; where a log does not tell it, the id."""
    return (entry.record.participant if isinstance(entry, RecordedEntry) else "") or entry.sender


def _find_difference(entry: RecordedEntry, proposal: Proposal, receipt: ConsentReceipt) -> str:
    """The reason why what was sent is not what was shown; empty where it is."""
    try:
        before, request = shown(proposal.envelope), shown(entry.envelope)
    except MewError:
        return "it or its proposal can be read in two ways, so nobody can say what was shown"
    sent, proposed = dict(request["payload"]), dict(before["payload"])
    to = tuple(before["to"])
    if tuple(entry.to) != (to or receipt.note.to):
        return "it was sent to others than those that were shown"
    edited = {**before, "payload": {**proposed, "params": sent["params"]}} if "params" in sent else before
    for name in (*RPC_MEMBERS, "params"):
        sent.pop(name, None)
        proposed.pop(name, None)
    if sent != proposed or ("params" in before["payload"]) > ("params" in entry.payload):
        return "what was sent is not what was shown: it differs beside the params"
    what = digest(edited)
    if what != receipt.note.digest:
        return (
            f"what was sent is not what was shown: its digest is {what[:12]}, and that of the receipt is "
            f"{one_line(receipt.note.digest, 64)[:12]}"
        )
    if (what != proposal.digest) != receipt.note.edited:
        return (
            "its receipt says that it was edited"
            if receipt.note.edited
            else "its receipt does not say that it was edited"
        )
    return ""


def read_receipt(record: Record) -> ConsentReceipt | None:
    """The receipt in a record `decided`; None where its note is damaged."""
    note = read_decision_note(record)
    return ConsentReceipt(record, note) if note is not None else None
