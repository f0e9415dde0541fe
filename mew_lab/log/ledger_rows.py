"""Passes the records of a log through the ledger, and keeps a row for each thing that the ledger tracks.

How it works
------------
`LedgerPass.observe` takes every record of a log, in order. The changes of the ledger make rows: a `RequestRow` for each
request, a `ProposalRow` for each proposal, and so on. A row holds the newest state that the ledger has reported of it.
So this module applies no rule of its own to a call, a chat, a stream or a sequence of reasoning.

The ledger forgets old calls and messages, because it is bounded. A row of something that it has forgotten cannot change
any more. `LedgerPass.settle` returns such rows and drops them, so that a log may be larger than the memory.

Beside the ledger, three things of a record are used:

- `pattern` and `grant` tell what let a message pass. The grants of the ledger, and the invitations, tell who gave it;
- a note `decided` of the lab, or `reported` by the participant itself, tells how a person or a policy decided. It
  belongs to the message of the same participant that it names, and to no other; a report stands behind that message;
- `participant` is the name of a participant whose connections have ids of their own.

`MessageStates` computes the state, the latency and the deciding participant of each message, for the columns of an
index. `LedgerPass` gives it the changes of its own ledger, where both are wanted.

In this module the `seq` of an entry is the place of its record among all records, so that a change of the ledger leads
back to one message; `entry.record.seq` is its place in the journal.

Spec: §3.1 to §3.10; rulings R6, R17, R18.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

from mew_lab.ledger.calls import Change, Proposal, Rejection, Request, method_of, other_call, tool_of
from mew_lab.ledger.chats import ChatChange, ChatMessage
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import Grant, GrantChange
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.ledger.members import GATEWAYS, MemberChange, Membership
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningSequence
from mew_lab.ledger.streams import StreamChange, StreamFacts
from mew_lab.log.decision_note import DECIDED, DecisionNote, read_decision_note
from mew_lab.log.entries import GRANT, SOURCE, RecordedEntry, lacks, owner_of, seconds_between
from mew_lab.log.line import read_members
from mew_lab.log.listed_tools import METHOD, ListedTools, ToolEntry
from mew_lab.log.pairs import Pair, pair_of
from mew_lab.log.rare_collection import rare_collection
from mew_lab.log.record_ledger import RecordLedger
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.families import family_index
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.profiles import OWNER
from mew_lab.space.events import OWN_MESSAGE, REPORTED, Record

__all__ = [
    "ChatMessageRow",
    "DecisionRow",
    "GrantRow",
    "LedgerPass",
    "LedgerRow",
    "MessageState",
    "MessageStates",
    "ParticipantRow",
    "PermissionOrigin",
    "ProposalRow",
    "ReasoningRow",
    "RequestRow",
    "StreamFactsRow",
    "TelemetryRow",
    "VerdictRow",
    "ledger_columns",
    "whole_number",
]

_place = attrgetter("place")
_TOLD = ("answered", "resolved", "unknown")
MAX_NOTES = 10_000  # notes whose message has not come yet
SETTLE_ROWS = 16_384  # new rows after which those that cannot change are settled
SETTLE_CHARACTERS = 64 * 1024 * 1024  # and the characters of their messages


class PermissionOrigin(NamedTuple):
    """The origin of the permission by which a message passed.

    `source` is `configuration`, `grant`, `invitation`, `given` where it is one of these two and the log does not record
    which, `own` where it needed none (R36), or empty where it is not known. `giver` gave the grant or the invitation of
    record `seq`, for the reason `reason`. `profile` is the profile with which a participant was configured.
    """

    source: str = ""
    giver: str = ""
    seq: int | None = None
    reason: str = ""
    profile: str = ""


UNKNOWN_ORIGIN, GIVEN = PermissionOrigin(), PermissionOrigin("given")
CONFIGURED, OWN = PermissionOrigin("configuration"), PermissionOrigin("own")


@dataclass(slots=True, eq=False)
class LedgerRow:
    """A row of any frame. `place` is its place among all rows of that frame, from 0."""

    place: int = field(default=0, init=False)
    settled: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class RequestRow(LedgerRow):
    """One `mcp/request`: its record, its newest state, the proposals that it fulfilled, and its note.

    `claimed` is set for a request under an id that another participant's request has taken: `call` is None then.
    """

    opened: RecordedEntry
    call: Request | None
    origin: PermissionOrigin
    note: DecisionNote | None = None
    proposals: list[ProposalRow] = field(default_factory=list)

    @property
    def state(self) -> str:
        """The state in the ledger's words; `claimed` where its id is another participant's."""
        return "claimed" if self.call is None else self.call.state

    @property
    def told(self) -> Request | Proposal | None:
        """The call whose state is that of the request: its own, or a proposal that it fulfilled, where that has more.

        The ledger forgets an old request while a proposal of it still stands.
        """
        calls = (self.call, *(row.call for row in self.proposals))
        known = [call for call in calls if call is not None]
        return next((call for call in known if call.state in _TOLD), self.call)

    @property
    def response(self) -> Entry | None:
        """The answer that counts, for it or for a proposal that it fulfilled."""
        told = self.told
        return None if told is None else told.response


@dataclass(slots=True, eq=False)
class ProposalRow(LedgerRow):
    """One `mcp/proposal`: its record, its newest state, its first decision, and the note of that.

    The row of its fulfilment refers to it, and it does not refer back: rows in a cycle would stay until they are looked
    for (`rare_collection`).
    """

    opened: RecordedEntry
    call: Proposal | None
    pair: Pair | None = None
    note: DecisionNote | None = None
    listed: ToolEntry | None = None

    @property
    def state(self) -> str:
        """The state in the ledger's words; `claimed` where its id is another participant's."""
        return "claimed" if self.call is None else self.call.state


@dataclass(slots=True, eq=False)
class DecisionRow(LedgerRow):
    """One executed call, one rejection of a proposal, or one proposal that nobody decided.

    `entry` is the request, the rejection, or the proposal. `target` is the participant that a call with one addressee
    goes to, and `listed` what that had said of the tool of a request. `left` says that the proposer of an undecided one
    is gone.
    """

    entry: RecordedEntry
    origin: PermissionOrigin
    proposals: list[ProposalRow]
    rejected: DecisionNote | None = None
    request: RequestRow | None = None
    rejection: Rejection | None = None
    target: str = ""
    listed: ToolEntry | None = None
    left: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether it is of a call or a rejection; an undecided proposal has neither."""
        return self.request is not None or self.rejection is not None

    @property
    def note(self) -> DecisionNote | None:
        """The note on this decision."""
        return self.rejected if self.request is None else self.request.note


@dataclass(slots=True, eq=False)
class ChatMessageRow(LedgerRow):
    """One chat message; `message` is None for one under an id that is taken."""

    opened: RecordedEntry
    message: ChatMessage | None


@dataclass(slots=True, eq=False)
class ReasoningRow(LedgerRow):
    """One sequence of reasoning; `seq` is the record of its start, None where that was not seen."""

    sequence: ReasoningSequence
    seq: int | None
    parent: str = ""


@dataclass(slots=True, eq=False)
class StreamFactsRow(LedgerRow):
    """One stream; `seq` is the record by which it became known."""

    facts: StreamFacts
    seq: int | None
    began: float
    opened: float | None = None

    @property
    def closed(self) -> float | None:
        """The time when it was closed."""
        return self.facts.t if self.facts.state == "closed" else None


@dataclass(slots=True, eq=False)
class GrantRow(LedgerRow):
    """One grant; `uses` counts the accepted messages that it let pass, `last_use` is the time of the newest.

    `uses` is None where the log does not record by which grant some message of its recipient passed.
    """

    grant: Grant
    seq: int
    ended: float | None = None
    uses: int | None = 0
    last_use: float | None = None


@dataclass(slots=True, eq=False)
class ParticipantRow(LedgerRow):
    """One participant with its newest state, and how many messages it sent and got."""

    name: str
    member: Membership | None = None
    profile: str = ""
    joins: int = 0
    first: float | None = None
    last: float | None = None
    sent: int = 0
    refused: int = 0
    addressed: int = 0
    requests: int = 0
    proposals: int = 0
    tokens: int | None = None
    max_tokens: int | None = None


@dataclass(slots=True, eq=False)
class TelemetryRow(LedgerRow):
    """One `participant/status`."""

    opened: RecordedEntry


@dataclass(slots=True, eq=False)
class VerdictRow(LedgerRow):
    """One message that a participant sent to the gateway; `members` are empty where its text is not kept."""

    record: Record
    members: Mapping[str, Any]
    origin: PermissionOrigin


class LedgerPass:
    """Rows of everything that happened in a log, made in one pass.

    Args:
        verdicts: Whether it also makes a row for the verdict on each message, which takes most of the memory.
        states: The states that it keeps up to date, too.
        source: The ledger, where other readers share it.

    Attributes:
        rows: The rows that may still change, by frame, in order.
        traffic: How many messages came in each second, by family: (second, index of the family) -> messages.
        talk: How many messages came from each sender to each addressee; empty for everybody.
        places: The number of records so far.
        due: Whether `settle` should be called, to limit the memory.
    """

    def __init__(
        self,
        *,
        verdicts: bool = False,
        states: MessageStates | None = None,
        source: RecordLedger | None = None,
    ) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in _SETTLED}
        self.traffic: dict[tuple[int, int], int] = {}
        self.talk: dict[tuple[str, str], int] = {}
        self.places = 0
        self.due = False
        self._verdicts = verdicts
        self._states = states
        self._source = RecordLedger() if source is None else source
        self._ledger, self._names = self._source.ledger, self._source.names
        self._counts: Counter[str] = Counter()  # rows of each frame
        self._added = 0
        self._weight = 0
        self._requests: dict[str, RequestRow] = {}  # the newest of each id that is not settled
        self._proposals: dict[str, ProposalRow] = {}
        self._chats: dict[str, ChatMessageRow] = {}
        self._sequences: dict[int, ReasoningRow] = {}
        self._streams: dict[str, StreamFactsRow] = {}
        self._stream_requests: dict[
            str, StreamFactsRow
        ] = {}  # those that are not opened, by id of the request
        self._grants: dict[str, GrantRow] = {}
        self._counted: dict[str, GrantRow] = {}  # those that stand and whose uses are known
        self._participants: dict[str, ParticipantRow] = {}
        self._origins: dict[str, PermissionOrigin] = {}  # id of a grant or an invitation -> its origin
        self._profiles: dict[str, PermissionOrigin] = {}  # participant -> that of its configured permissions
        self._notes: BoundedDict[tuple[str, str, str], DecisionNote] = BoundedDict(MAX_NOTES)
        self._listed = ListedTools()
        self._undecided: dict[
            str, dict[str, DecisionRow]
        ] = {}  # by proposer, the rows of its open proposals by id
        self._rejections: dict[tuple[str, str], DecisionRow] = {}  # the newest of a participant of a proposal
        self._rules: Mapping[type, Callable[[Any, RecordedEntry], None]] = {
            Change: self._on_call,
            ChatChange: self._on_chat,
            ReasoningChange: self._on_reasoning,
            StreamChange: self._on_stream,
            MemberChange: self._on_member,
            GrantChange: self._on_grant,
        }

    def observe(self, record: Record) -> None:
        """Records the next record of the log."""
        self.places += 1
        self._source.observe(record, self.places)
        entry = self._source.entry
        if entry is None:
            self._on_event(record)
            for change in self._source.changes:  # by a report of what became of a call
                if isinstance(change, Change) and isinstance(change.entry, RecordedEntry):
                    self._on_call(change, change.entry)
                if self._states is not None:
                    self._states.apply(change)
            return
        kind = entry.kind
        self._count(entry)
        if self._verdicts and record.verdict in ("accepted", "refused"):
            self._add("verdicts", VerdictRow(record, entry.members, self._origin_of(record)))
        if kind == "participant/status" and not entry.refused:
            self._on_status(entry)
        elif kind == "space/invite" and record.verdict == "accepted" and entry.id:
            origin = PermissionOrigin("invitation", entry.sender, record.seq)
            self._origins.setdefault(entry.id, origin)
        for change in self._source.changes:
            self._rules[type(change)](change, entry)
            if self._states is not None:
                self._states.apply(change)

    def settle(self) -> dict[str, list[Any]]:
        """Drops the rows that cannot change any more, and returns them by frame, in order."""
        self.due, self._added, self._weight = False, 0, 0
        dropped: dict[str, list[Any]] = {}
        for name, is_settled in _SETTLED.items():
            if is_settled is None:
                continue
            kept: list[Any] = []
            done: list[Any] = []
            for row in self.rows[name]:
                row.settled = is_settled(self, row)
                (done if row.settled else kept).append(row)
            if done:
                self.rows[name], dropped[name] = kept, done
        indexes: tuple[dict[Any, Any], ...] = (self._requests, self._proposals, self._chats)
        for index in (*indexes, self._streams, self._stream_requests, self._rejections):
            for id in [id for id, row in index.items() if row.settled]:
                del index[id]
        for proposer, rows in [*self._undecided.items()]:
            for id in [id for id, row in rows.items() if row.settled]:
                self._drop_open_row(proposer, id)
        return dropped

    # --- records without a message ---

    def _on_event(self, record: Record) -> None:
        if record.verdict == "refused" and record.participant:
            self._participant(record.participant, record.now.timestamp()).refused += 1
            if self._verdicts:
                self._add("verdicts", VerdictRow(record, {}, UNKNOWN_ORIGIN))
        if record.event == "enrolled":
            origin = PermissionOrigin("configuration", profile=_profile_of(record.detail))
            self._profiles[record.participant] = origin
            if record.participant in self._participants:
                self._participants[record.participant].profile = origin.profile
        elif record.event == "opened" and "previous" not in (read_members(record.detail) or {}):
            for undecided in self._undecided.values():  # another run of the space: nobody waits for them
                for row in undecided.values():
                    row.left = True
        elif record.event in (DECIDED, REPORTED):
            note = read_decision_note(record)
            if note is not None and note.reported:
                self._on_report(note, record.participant)
            elif note is not None:
                id = note.request if note.decision == "approve" else note.proposal
                self._notes[record.participant, note.decision, id] = note

    def _on_report(self, note: DecisionNote, participant: str) -> None:
        """Takes the receipt that the sender of a request reported, where the request is the call of that proposal, or
        that of a rejection."""
        row, proposed = self._requests.get(note.request), self._proposals.get(note.proposal)
        if note.decision == "reject":
            rejection = self._rejections.get((participant, note.proposal))
            if rejection is not None:
                rejection.rejected = rejection.rejected or note
                for proposal in rejection.proposals:
                    proposal.note = proposal.note or note
            return
        if row is None or row.opened.record.participant != participant:
            return
        if proposed is None or proposed.opened.record.participant == participant or proposed.call is None:
            return
        entry = row.opened
        if note.proposal not in entry.correlation_id or other_call(proposed.call, entry, frozenset(entry.to)):
            return
        row.note = row.note or note
        for proposal in row.proposals:
            if proposal.opened.id == note.proposal:
                proposal.note = proposal.note or note

    # --- one rule a chapter of the ledger ---

    def _on_call(self, change: Change, entry: RecordedEntry) -> None:
        call = change.call
        if isinstance(call, Request):
            self._on_request(change, call, entry)
        else:
            self._on_proposal(change, call, entry)

    def _on_request(self, change: Change, call: Request, entry: RecordedEntry) -> None:
        if change.what in ("requested", "refused"):
            self._open_request(entry, call)
        elif change.what == "claimed" and entry.kind == "mcp/request":
            self._open_request(entry, None)
            self._update_request(call)
        else:
            self._update_request(call)
            if change.what == "answered" and call.method == METHOD:
                self._listed.take(owner_of(entry), call)

    def _open_request(self, entry: RecordedEntry, call: Request | None) -> None:
        record = entry.record
        row = RequestRow(entry, call, self._origin_of(record))
        self._add("requests", row, len(entry.raw))
        if call is not None and not entry.refused:
            self._requests[entry.id] = row
        if entry.refused or not entry.to:
            return
        row.note = self._notes.pop((record.participant, "approve", entry.id), None)
        target, listed = self._target_of(entry)
        decision = DecisionRow(entry, row.origin, row.proposals, request=row, target=target, listed=listed)
        self._add("decisions", decision)

    def _update_request(self, call: Request) -> None:
        row = self._requests.get(call.id)
        if row is not None and row.opened is call.entry:
            row.call = call

    def _on_proposal(self, change: Change, call: Proposal, entry: RecordedEntry) -> None:
        if change.what in ("proposed", "refused"):
            row = ProposalRow(entry, call)
            self._add("proposals", row, len(entry.raw))
            if change.what == "proposed":
                self._proposals[call.id] = row
                row.listed = self._target_of(entry)[1]
                self._add_open_row(row)
            return
        known = self._proposals.get(call.id)
        if known is not None and known.opened is call.entry:
            before, known.call = known.call, call
            known.pair = known.pair or pair_of(change)
            if change.what == "fulfilled":
                self._on_fulfilment(known)
            elif change.what == "reopened":
                self._on_reopening(known, before)
            elif change.what == "rejected":
                self._on_rejection(known, call, entry)
        if change.what == "claimed" and entry.kind == "mcp/proposal":
            self._add("proposals", ProposalRow(entry, None), len(entry.raw))

    def _on_fulfilment(self, proposal: ProposalRow) -> None:
        assert proposal.call is not None and proposal.call.request is not None
        # The request itself was observed before: just now, or while another one fulfilled the proposal (R39).
        fulfilment = proposal.call.request
        request = self.rows["requests"][-1]
        if request.opened is not fulfilment:
            request = self._requests[fulfilment.id]
        assert request.opened is fulfilment
        request.proposals.append(proposal)
        self._end_open_row(proposal)
        if request.note is not None and request.note.proposal == proposal.opened.id:
            proposal.note = request.note

    def _on_reopening(self, proposal: ProposalRow, before: Proposal | None) -> None:
        """Takes the proposal from the request that used nothing up, whose row says why it was not executed."""
        fulfilment = None if before is None else before.request
        row = None if fulfilment is None else self._requests.get(fulfilment.id)
        if row is not None and row.opened is fulfilment:
            row.proposals[:] = [one for one in row.proposals if one is not proposal]
            if proposal.note is row.note:
                proposal.note = None
        if proposal.call is not None and not proposal.call.rejections:
            self._add_open_row(proposal)

    def _add_open_row(self, proposal: ProposalRow) -> None:
        entry = proposal.opened
        target, origin = self._target_of(entry)[0], self._origin_of(entry.record)
        row = DecisionRow(entry, origin, [proposal], target=target)
        self._add("decisions", row, len(entry.raw))
        self._undecided.setdefault(owner_of(entry), {})[entry.id] = row

    def _end_open_row(self, proposal: ProposalRow) -> None:
        """Drops the row of a proposal that is decided now."""
        owner, id = owner_of(proposal.opened), proposal.opened.id
        row = self._undecided.get(owner, {}).get(id)
        if row is None or row.proposals[0] is not proposal:
            return
        self._drop_open_row(owner, id)
        rows = self.rows["decisions"]  # in the order of their places
        at = bisect_left(rows, row.place, key=_place)
        if at < len(rows) and rows[at] is row:
            del rows[at]

    def _drop_open_row(self, owner: str, id: str) -> None:
        rows = self._undecided[owner]
        del rows[id]
        if not rows:
            del self._undecided[owner]

    def _target_of(self, entry: RecordedEntry) -> tuple[str, ToolEntry | None]:
        """The participant that a call with one addressee goes to, and what it had said last of the tool."""
        to = entry.to
        if len(to) != 1:
            return "", None
        target = self._names.get(to[0], to[0])
        tool = tool_of(entry.payload) if method_of(entry.payload) == "tools/call" else None
        return target, None if tool is None else self._listed.find(target, tool)

    def _on_rejection(self, proposal: ProposalRow, call: Proposal, entry: RecordedEntry) -> None:
        note = self._notes.pop((entry.record.participant, "reject", call.id), None)
        if proposal.note is None:
            proposal.note = note
        origin, reason = self._origin_of(entry.record), entry.payload.get("reason")
        rejection = Rejection(entry.sender, reason if isinstance(reason, str) else "")
        target = self._target_of(proposal.opened)[0]
        row = DecisionRow(entry, origin, [proposal], note, rejection=rejection, target=target)
        self._end_open_row(proposal)
        self._add("decisions", row, len(entry.raw))
        self._rejections[entry.record.participant, call.id] = row

    def _on_chat(self, change: ChatChange, entry: RecordedEntry) -> None:
        if change.what == "repeated":
            self._add("chat", ChatMessageRow(entry, None), len(entry.raw))
        elif change.what == "said":
            row = self._chats[change.id] = ChatMessageRow(entry, change.message)
            self._add("chat", row, len(entry.raw))
        elif change.message is not None and change.id in self._chats:
            self._chats[change.id].message = change.message

    def _on_reasoning(self, change: ReasoningChange, entry: RecordedEntry) -> None:
        sequence = change.sequence
        if change.what == "began":
            parent = self._sequences.get(sequence.parent)
            row = ReasoningRow(
                sequence, entry.record.seq if sequence.seq else None, parent.sequence.id if parent else ""
            )
            self._sequences[sequence.key] = row
            self._add("reasoning", row)
        elif sequence.key in self._sequences:
            self._sequences[sequence.key].sequence = sequence

    def _on_stream(self, change: StreamChange, entry: RecordedEntry) -> None:
        facts = change.stream
        row = self._streams.get(facts.id)
        if row is None or row.facts.state == "closed":
            row = self._stream_requests.pop(facts.request_id, None)
        if row is None or row.facts.state == "refused":
            row = StreamFactsRow(facts, entry.record.seq, entry.t)
            self._add("streams", row)
        row.facts = facts
        if change.what == "opened":
            row.opened = entry.t
        if facts.id:
            self._streams[facts.id] = row
        else:
            self._stream_requests[facts.request_id] = row

    def _on_member(self, change: MemberChange, entry: RecordedEntry) -> None:
        row = self._participant(change.member.name, entry.t)
        before = row.member
        row.member = change.member
        if change.member.ids and (before is None or len(change.member.ids) > len(before.ids)):
            row.joins += len(change.member.ids) - (0 if before is None else len(before.ids))
        if bool(change.member.ids) is not (before is not None and bool(before.ids)):
            for undecided in self._undecided.get(change.member.name, {}).values():
                undecided.left = not change.member.ids

    def _on_grant(self, change: GrantChange, entry: RecordedEntry) -> None:
        grant = change.item
        if not isinstance(grant, Grant):
            return
        if change.what == "granted":
            row = self._grants[grant.id] = self._counted[grant.id] = GrantRow(grant, entry.record.seq)
            self._add("grants", row)
            self._origins[grant.id] = PermissionOrigin("grant", grant.granter, entry.record.seq, grant.reason)
        elif grant.id in self._grants:
            row = self._grants[grant.id]
            row.grant = grant
            if not grant.stands and row.ended is None:
                row.ended = entry.t
                self._counted.pop(grant.id, None)

    # --- counts ---

    def _on_status(self, entry: RecordedEntry) -> None:
        self._add("telemetry", TelemetryRow(entry), len(entry.raw))
        row = self._participants.get(entry.record.participant or entry.sender)
        if row is not None:
            row.tokens = whole_number(entry.payload.get("tokens"))
            row.max_tokens = whole_number(entry.payload.get("max_tokens"))

    def _count(self, entry: RecordedEntry) -> None:
        # Every message of a log passes here, so counts are kept in plain dicts.
        moment = math.floor(entry.t), family_index(entry.kind)
        self.traffic[moment] = self.traffic.get(moment, 0) + 1
        to, talk = entry.to, self.talk
        for addressee in to if len(to) == 1 else dict.fromkeys(to) if to else ("",):
            talk[entry.sender, addressee] = talk.get((entry.sender, addressee), 0) + 1
        if entry.grant and entry.verdict == "accepted":
            grant = self._grants.get(entry.grant)
            if grant is not None:
                grant.uses = None if grant.uses is None else grant.uses + 1
                grant.last_use = entry.t
        elif self._counted and entry.verdict not in ("refused", "sent") and _may_be_granted(entry.record):
            # By any of them: such logs name connections, which may be those of any recipient.
            for counted in self._counted.values():
                counted.uses = counted.last_use = None
            self._counted.clear()
        if entry.verdict == "sent" or entry.sender in GATEWAYS:
            return
        name = entry.record.participant or entry.sender
        row = self._participants.get(name) or self._participant(name, entry.t)
        row.last = entry.t
        if entry.refused:
            row.refused += 1
            return
        row.sent += 1
        if entry.kind == "mcp/request":
            row.requests += 1
        elif entry.kind == "mcp/proposal":
            row.proposals += 1
        for id in to if len(to) < 2 else {self._names.get(id, id) for id in to}:
            addressed = self._participants.get(self._names.get(id, id))
            if addressed is not None:
                addressed.addressed += 1

    def _participant(self, name: str, t: float) -> ParticipantRow:
        row = self._participants.get(name)
        if row is None:
            profile = self._profiles.get(name, UNKNOWN_ORIGIN).profile
            row = self._participants[name] = ParticipantRow(name, profile=profile, first=t)
            self._add("participants", row)
        return row

    def _origin_of(self, record: Record) -> PermissionOrigin:
        if record.grant:
            return self._origins.get(record.grant, GIVEN)
        if lacks(record, GRANT):
            return GIVEN
        if record.detail == OWN_MESSAGE:
            return OWN
        if not record.pattern or lacks(record, SOURCE):
            return UNKNOWN_ORIGIN
        return self._profiles.get(record.participant, CONFIGURED)

    def _add(self, frame: str, row: LedgerRow, characters: int = 0) -> None:
        row.place = self._counts[frame]
        self._counts[frame] += 1
        self.rows[frame].append(row)
        self._added += 1
        self._weight += characters
        self.due = self.due or self._added > SETTLE_ROWS or self._weight > SETTLE_CHARACTERS

    # --- which rows can change ---

    def _is_request_settled(self, row: RequestRow) -> bool:
        if row.call is None or row.opened.refused:
            return all(proposal.settled for proposal in row.proposals)
        held = self._ledger.calls.requests.get(row.opened.id)
        gone = held is None or held.entry is not row.opened
        return gone and all(self._is_proposal_settled(proposal) for proposal in row.proposals)

    def _is_proposal_settled(self, row: ProposalRow) -> bool:
        held = self._ledger.calls.proposals.get(row.opened.id) if row.call is not None else None
        return held is None or held.entry is not row.opened

    def _is_decision_settled(self, row: DecisionRow) -> bool:
        calls: list[LedgerRow] = [*row.proposals, *([row.request] if row.request else [])]
        return all(call.settled for call in calls)

    def _is_chat_settled(self, row: ChatMessageRow) -> bool:
        held = self._ledger.chats.get(row.opened.id) if row.message is not None else None
        return held is None or self._chats.get(row.opened.id) is not row

    def _is_stream_settled(self, row: StreamFactsRow) -> bool:
        return row.facts.state == "closed" or (row.facts.state == "refused" and not row.facts.id)


def _always(_: LedgerPass, __: LedgerRow) -> bool:
    return True


# Frames in the order in which they are settled: a decision after its calls. Rows that hold no message stay (None).
_SETTLED: Final[Mapping[str, Callable[[LedgerPass, Any], bool] | None]] = {
    "requests": LedgerPass._is_request_settled,
    "proposals": LedgerPass._is_proposal_settled,
    "decisions": LedgerPass._is_decision_settled,
    "reasoning": None,
    "streams": LedgerPass._is_stream_settled,
    "participants": None,
    "grants": None,
    "verdicts": _always,
    "chat": LedgerPass._is_chat_settled,
    "telemetry": _always,
}


def _may_be_granted(record: Record) -> bool:
    """Whether a message may have passed by a grant that its record does not name."""
    unknown = not record.pattern and record.detail != OWN_MESSAGE
    return unknown or lacks(record, GRANT) or lacks(record, SOURCE)


def whole_number(value: object) -> int | None:
    """An integer of a message that fits into 64 bits; None for anything else."""
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _profile_of(detail: str) -> str:
    """The name of the profile whose permissions an `enrolled` lists, those of an owner aside; empty for other lists."""
    enrolled = read_members(f'{{"can":{detail}}}') or {}
    listed = enrolled.get("can")
    if not isinstance(listed, list):
        return ""
    own = [pattern for pattern in listed if pattern not in OWNER]
    return next((name for name, patterns in PROFILES.items() if patterns in (listed, own)), "")


# --- the columns of an index ---


class MessageState(NamedTuple):
    """What the ledger knows of what one message opened.

    Attributes:
        place: The place of the record among all records of the log, from 1; unique, unlike `seq`.
        state: Of the request, proposal, chat message, sequence of reasoning, stream or grant that the message opened,
            in the ledger's word; `claimed` for a call under an id that another participant's call has taken.
        latency: Seconds from a request to its answer, or from a proposal to its first decision; None before that.
        decided_by: The participant that fulfilled or withdrew a proposal, or was the first to reject it; empty for
            everything else.
    """

    place: int
    state: str
    latency: float | None = None
    decided_by: str = ""


class MessageStates:
    """Computes the `MessageState` of each message that opens something, as the records come."""

    def __init__(self) -> None:
        self._source = RecordLedger()
        self._place = 0
        self._changed: dict[
            int, tuple[str, float | None, str]
        ] = {}  # of each place, the rest of a MessageState
        self._rejected: BoundedDict[int, float] = BoundedDict(MAX_NOTES)  # latency of the first rejection
        self._requested: BoundedDict[str, int] = BoundedDict(MAX_NOTES)  # id of a stream's request -> place
        self._granted: BoundedDict[str, int] = BoundedDict(MAX_NOTES)

    def observe(self, record: Record) -> None:
        """Records the next record of the log."""
        self._place += 1
        self._source.observe(record, self._place)
        for change in self._source.changes:
            self.apply(change)

    def take(self) -> list[MessageState]:
        """The newest state of each message whose state has changed since the last call, in the order of the log."""
        changed, self._changed = self._changed, {}
        return [MessageState(place, *changed[place]) for place in sorted(changed)]

    def apply(self, change: LedgerChange) -> None:
        """Records a change of a ledger, in whose entries `seq` is the place of the record."""
        if isinstance(change, Change):
            self._apply_call(change)
        elif isinstance(change, ChatChange):
            if change.message is not None and change.what in ("said", "cancelled"):
                self._set(change.message.seq, change.message.state)
        elif isinstance(change, ReasoningChange):
            if change.sequence.seq and change.what != "stepped":
                self._set(change.sequence.seq, change.sequence.state)
        elif isinstance(change, StreamChange):
            entry, stream = change.entry, change.stream
            if entry is not None and entry.kind == "stream/request" and entry.id == stream.request_id:
                self._requested[entry.id] = entry.seq
            self._set(self._requested.get(stream.request_id, 0), stream.state)
        elif isinstance(change, GrantChange) and isinstance(change.item, Grant):
            if change.what == "granted":
                self._granted[change.item.id] = change.entry.seq
            self._set(self._granted.get(change.item.id, 0), change.item.state)

    def _apply_call(self, change: Change) -> None:
        call, entry = change.call, change.entry
        if change.what == "claimed":
            if (
                entry.kind in ("mcp/request", "mcp/proposal")
                and entry.id == call.id
                and entry is not call.entry
            ):
                self._set(entry.seq, "claimed")
        elif isinstance(call, Proposal):
            pair = pair_of(change)
            if change.what == "rejected" and pair is not None:
                self._rejected[call.seq] = pair.seconds
            by = call.by or (call.rejections[0].by if call.rejections else "")
            if call.rejections:
                latency = self._rejected.get(call.seq)
            elif call.request is not None:
                latency = seconds_between(call.entry, call.request)
            else:
                latency = None if pair is None else pair.seconds
            self._set(call.seq, call.state, latency, by)
        else:
            response = call.response if call.state == "answered" else None
            latency = None if response is None else seconds_between(call.entry, response)
            self._set(call.seq, call.state, latency)

    def _set(self, place: int, state: str, latency: float | None = None, by: str = "") -> None:
        if place:
            self._changed[place] = state, latency, by


def ledger_columns(records: Iterable[Record]) -> Iterator[MessageState]:
    """The final state of each message that opens a request, a proposal or anything else that the ledger tracks."""
    states = MessageStates()
    with rare_collection:
        for record in records:
            states.observe(record)
        changed = states.take()
    yield from changed
