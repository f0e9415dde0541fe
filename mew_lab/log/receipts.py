"""Checks that each request that carries out a proposal was decided beforehand: its consent receipt.

A receipt is the note `decided` that a lab writes into the journal before it sends anything (ruling R29): the proposal,
the request, the digest of what was shown, the person or the policy, and how it was shown. A request needs one when it
refers to a proposal of another participant, also where it is no fulfilment. The receipt must stand between the two,
be of the participant that sent the request, and name it; and what was sent must have the digest of what was shown.

A request that a participant sends by its own right, without a proposal, needs none.

Spec: §3.2.1, rulings R17 and R29.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.ledger.calls import CallLedger, Proposal, shown
from mew_lab.ledger.entry import Entry
from mew_lab.log.entries import RecordedEntry
from mew_lab.log.line import read_members
from mew_lab.protocol.envelope import digest
from mew_lab.protocol.miss import quote
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["ConsentReceipt", "Consents", "Unconsented", "check_consents", "read_receipt"]

DECIDED = "decided"
_MOST, _WEIGHT = 100_000, 256 * 1024 * 1024  # proposals that are held, and their characters
_OWN = ("jsonrpc", "id")  # members of a request that are its sender's own
_KINDS = frozenset({"mcp/proposal", "mcp/request", "mcp/withdraw", "mcp/reject"})


class ConsentReceipt(NamedTuple):
    """A note `decided` as the journal holds it, and its record.

    `by` is `human`, or `policy` and its name; `on_screen` is in milliseconds, None where no view showed it. `how` is
    `click`, `typed` or `policy`; empty where the note does not say.
    """

    record: Record
    proposal: str
    decision: str
    by: str
    digest: str
    request: str
    edited: bool
    to: tuple[str, ...]
    on_screen: int | None
    how: str


class Unconsented(NamedTuple):
    """A request that carries out a proposal without a receipt for it, or with one that does not fit; and the reason."""

    seq: int
    id: str
    sender: str
    proposal: str
    why: str

    def __str__(self) -> str:
        return (
            f"record {self.seq}: request {quote(self.id)} of {quote(self.sender)[1:-1]} for proposal "
            f"{quote(self.proposal)}: {self.why}"
        )


class Consents(NamedTuple):
    """The result: how many requests carry out proposals, how many receipts there are, and the requests without one."""

    requests: int
    receipts: int
    without: tuple[Unconsented, ...]

    def __str__(self) -> str:
        if not self.requests:
            return "no request carries out a proposal, so none needed a decision"
        carried = f"{count_of(self.requests, 'request')} for proposals"
        if not self.without:
            return f"{carried}: each was decided beforehand, and what was sent is what was shown"
        lines = "\n  ".join(map(str, self.without))
        return f"{carried}: {len(self.without)} without a decision that fits\n  {lines}"


def check_consents(records: Iterable[Record]) -> Consents:
    """Checks the receipts of all requests of a log, in the order of its records."""
    check = _ConsentCheck()
    for record in records:
        check.take(record)
    return Consents(check.requests, check.receipts, tuple(check.without))


class _ConsentCheck:
    def __init__(self) -> None:
        self._ledger = CallLedger(limit=_MOST, weight=_WEIGHT)
        self._decided: dict[str, list[ConsentReceipt]] = {}  # by proposal, in order
        self._used: set[str] = set()
        self.requests = self.receipts = 0
        self.without: list[Unconsented] = []

    def take(self, record: Record) -> None:
        if record.event == DECIDED:
            receipt = read_receipt(record)
            if receipt is not None:
                self.receipts += 1
                self._decided.setdefault(receipt.proposal, []).append(receipt)
            return
        if record.raw is None or record.verdict == "refused":
            return
        entry = RecordedEntry(record)
        if entry.kind not in _KINDS:
            return
        proposals = self._ledger.proposals
        if entry.kind == "mcp/request":
            named = [proposals.get(id) for id in dict.fromkeys(entry.correlation_id)]
            carried_out = [one for one in named if one is not None and _sender(one.entry) != _sender(entry)]
            for proposal in carried_out:
                self.requests += 1
                why = self._judge(entry, proposal)
                if why:
                    self.without.append(
                        Unconsented(
                            record.seq, entry.id, record.participant or entry.sender, proposal.id, why
                        )
                    )
            if not carried_out:
                return
        self._ledger.observe(entry)

    def _judge(self, entry: RecordedEntry, proposal: Proposal) -> str:
        """The reason why no receipt covers the request; empty where one does."""
        receipts = [one for one in self._decided.get(proposal.id, ()) if one.record.seq > proposal.seq]
        if not receipts:
            return "nobody decided it"
        mine = [one for one in receipts if one.request == entry.id and one.decision == "approve"]
        if not mine:
            approved = [one.request for one in receipts if one.decision == "approve"]
            if not approved:
                return f"it was rejected by {one_line(receipts[-1].by, 60)}"
            return f"another request was approved, {', '.join(quote(one) for one in approved[-3:])}"
        receipt = mine[-1]
        if receipt.record.participant != entry.record.participant:
            return (
                f"it was decided by {one_line(receipt.record.participant, 60)}, and sent by "
                f"{one_line(entry.record.participant, 60)}"
            )
        if entry.id in self._used:
            return "its decision was used for an earlier request already"
        if not receipt.how:
            return "its decision does not say how it was shown: on a screen, as text or to a policy"
        self._used.add(entry.id)
        return _find_difference(entry, proposal, receipt)


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
    if tuple(entry.to) != (to or receipt.to):
        return "it was sent to others than those that were shown"
    edited = {**before, "payload": {**proposed, "params": sent["params"]}} if "params" in sent else before
    for name in (*_OWN, "params"):
        sent.pop(name, None)
        proposed.pop(name, None)
    if sent != proposed or ("params" in before["payload"]) > ("params" in entry.payload):
        return "what was sent is not what was shown: it differs beside the params"
    what = digest(edited)
    if what != receipt.digest:
        return (
            f"what was sent is not what was shown: its digest is {what[:12]}, and that of the decision is "
            f"{one_line(receipt.digest, 64)[:12]}"
        )
    if (what != proposal.digest) != receipt.edited:
        return (
            "its decision says that it was edited"
            if receipt.edited
            else "its decision does not say that it was edited"
        )
    return ""


def read_receipt(record: Record) -> ConsentReceipt | None:
    """The receipt in a note; None where it names no proposal."""
    detail: Mapping[str, Any] = read_members(record.detail) or {}

    def text(name: str) -> str:
        value = detail.get(name)
        return value if isinstance(value, str) else ""

    if not text("proposal"):
        return None
    to, on_screen = detail.get("to"), detail.get("on_screen")
    shown_for = on_screen if type(on_screen) is int and on_screen >= 0 else None
    how = "policy" if isinstance(detail.get("policy"), dict) else "typed" if text("typed") else ""
    return ConsentReceipt(
        record,
        text("proposal"),
        text("decision"),
        text("by"),
        text("digest"),
        text("request"),
        detail.get("edited") is True,
        tuple(name for name in to if isinstance(name, str)) if isinstance(to, list) else (),
        shown_for,
        how or ("click" if shown_for is not None else ""),
    )
