"""Tracks what became of each request and proposal of a space.

How it works
------------
`CallLedger.observe` takes every entry of a space, in order, and returns what it changed. A `Request` or a `Proposal` is
a snapshot: it never changes, and the ledger holds the newest one of each id.

    proposal   open ─┬─ rejected ─┐ (a participant rejected it; it still stands)
                     ├────────────┴─ fulfilled ─┬─ answered
                     └─ withdrawn      ┆        └─ unknown ─┬─ answered
               open ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┘ its only addressee says that a quorum is missing, and used nothing up (R39)
    request    waiting ─┬─ answered                         └─ resolved ── answered
                        └─ unknown, and on as a proposal; a notification is `sent` and waits for nothing
    either     refused                      the gateway refused the envelope and relayed it to no participant
    request    refused ── answered          it came after the end of its proposal; its executor carried it out
               refused ── unknown           its executor was gone before it refused it

A message counts only where its sender may decide what it claims (R17, R18):

- a proposal is withdrawn by its proposer alone;
- it is fulfilled by the first `mcp/request` of another participant that correlates to it and has the same method, tool
  name and addressees. Where the proposal had no addressees, the request may have any, but at least one. The option that
  it chooses of a permission is no difference from the proposal (R41);
- a request is answered by the first `mcp/response` of a participant that it is addressed to, and with it the proposals
  that it fulfilled;
- where the only addressee of a fulfilment answers that a quorum is missing, the proposal is as if that request had never
  come: the next request that came for it takes its place, or a withdraw or a rejection that came meanwhile holds, or it
  is open again (R39);
- a request for the same call as a proposal that is fulfilled or withdrawn is `refused`: executors of ours carry out one
  request of a proposal (R32). It is `answered` if an executor answers anything but a refusal all the same;
- only the proposer of a proposal tells that the program behind it has cancelled the call or is gone (`x-calls` of its
  status). This decides nothing: a reader that approves looks at `Proposal.caller`;
- every other message that refers to a call is kept beside it as a `Claim`, as is every message after its end.

A call is `unknown` where its request went out and no message tells whether it took effect (R35): its answer says so
or is no correct answer, its only addressee left while it waited, or the connection of the observing participant broke.
So is an approval that its only addressee never got, once that has joined anew: it may get another approval of the same
proposal. So is a late request that nobody refused before its only addressee left: an executor that has started again
may have seen neither the proposal nor its fulfilment, and executed it. A call stays unknown until a true answer comes,
or a person says what happened (`resolve`).

An id names the first proposal that took it, and its proposer may take it anew (R6): then the earlier one is forgotten.
The same holds for requests. Where another request takes the id of a fulfilment, nothing answers the proposal any more,
so it is unknown; the same approval, sent once more, changes nothing. Messages that no participant acts on
(`protocol.intake`) are ignored.

The module has no clock, runs no loop and sends nothing. So waiting calls, approval cards, views, the frames of a log
and a replay all apply the same rules.

Spec: §3.1, §3.2, §3.3, rulings R6, R17, R18, R32, R35.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.members import GATEWAYS, described_member
from mew_lab.ledger.options import (
    PermissionOption,
    PermissionRequest,
    chosen_option,
    read_permission,
    without_choice,
)
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.content import MAX_SHOWN_PARTS, for_line, holds_content, read_parts
from mew_lab.protocol.difference import Difference, differences
from mew_lab.protocol.envelope import MAX_MESSAGE, Envelope, digest, read_strict
from mew_lab.protocol.intake import answer_fault, unknown_outcome
from mew_lab.protocol.visible import one_line

__all__ = [
    "ALREADY_FULFILLED",
    "CALLERS",
    "CALL_KINDS",
    "MAX_CALLERS",
    "QUORUM_MISSING",
    "RPC_MEMBERS",
    "CallIndex",
    "CallLedger",
    "CallerState",
    "Change",
    "Claim",
    "Proposal",
    "Rejection",
    "Request",
    "Resolution",
    "error_text",
    "find_ended",
    "is_failure",
    "is_late_refusal",
    "is_quorum_missing",
    "method_of",
    "other_call",
    "shown",
    "tool_of",
    "unasked",
]

ALREADY_FULFILLED, WITHDRAWN = "already_fulfilled", "withdrawn"  # `error.data.code` of an executor's refusal
QUORUM_MISSING = "quorum_missing"  # the same, where too few deciders have said yes (R39)

CALL_KINDS = frozenset(
    {"mcp/request", "mcp/response", "mcp/proposal", "mcp/reject", "mcp/withdraw", "system/presence"}
)
RPC_MEMBERS = ("jsonrpc", "id")  # of the payload of a request: its sender's own, so no part of the call
CALLERS = "x-calls"  # a member of a status
MAX_CALLERS = 32  # ids of one status that count
MAX_TELLERS = 1000  # participants whose last such status is kept
MAX_CALLS = 10_000  # requests, and as many proposals
MAX_WEIGHT = 64 * 1024 * 1024  # characters of all proposals, their fulfilments and answers
OF_REQUESTS = 4  # requests may take 1/4 of it: they are needed until they are answered
MAX_REMARKS = 100  # rejections, and claims, kept of one call
MAX_COMPARED = (
    2 * MAX_MESSAGE
)  # characters of proposals and their fulfilment, for one request: one large pair
MAX_ANSWERS = 5  # kept of one request
MAX_REASON = 1000  # characters
NO_QUORUM = "a quorum was missing"  # `Request.late` of a request that used nothing up
MAX_ERROR = 2000  # characters of the text of a result that is an error
OVERHEAD = 100  # characters for which a remark counts at least
SHARE = MAX_WEIGHT // MAX_CALLS  # characters for which a call counts when the shares of senders are compared


CallerState = Literal["", "cancelled", "gone"]
"""What a proposer tells of the program for which it proposes; empty where it waits, or nothing was told."""


class Rejection(NamedTuple):
    """One rejection of a proposal. `reason` is any string of at most 1000 characters; empty where there is none."""

    by: str
    reason: str


class Resolution(NamedTuple):
    """What a participant found out about a call whose outcome was unknown: whether it `happened`, and a note."""

    happened: bool
    by: str
    note: str = ""

    def __str__(self) -> str:
        """Such as `happened (ada: the invoice is there)`."""
        what = "happened" if self.happened else "did not happen"
        by = one_line(self.by)
        return f"{what} ({by}: {one_line(self.note, MAX_REASON)})" if self.note else f"{what} ({by})"


class Claim(NamedTuple):
    """An envelope that refers to a call and does not change it; `why` completes "not believed: …"."""

    id: str
    kind: str
    by: str
    why: str


class _Tracked(Protocol):
    """The fields that a request and a proposal have in common."""

    @property
    def entry(self) -> Entry: ...
    @property
    def state(self) -> str: ...
    @property
    def response(self) -> Entry | None: ...


class TrackedCall:
    """The common part of a request and a proposal: what their messages say."""

    __slots__ = ()

    @property
    def id(self: _Tracked) -> str:
        return self.entry.id

    @property
    def seq(self: _Tracked) -> int:
        """Its place among all entries that the ledger observed."""
        return self.entry.seq

    @property
    def sender(self: _Tracked) -> str:
        return self.entry.sender

    @property
    def to(self: _Tracked) -> tuple[str, ...]:
        return self.entry.to

    @property
    def payload(self: _Tracked) -> Mapping[str, Any]:
        return self.entry.payload

    @property
    def envelope(self: _Tracked) -> Envelope:
        return self.entry.envelope

    @property
    def method(self: _Tracked) -> str:
        """The MCP method, such as `tools/call`; empty where a refused envelope names none."""
        return method_of(self.entry.payload)

    @property
    def tool(self: _Tracked) -> str:
        """The name of the tool; empty where the method has none."""
        return tool_of(self.entry.payload) or ""

    @property
    def failed(self: _Tracked) -> bool:
        """Whether the answer is an error: of the protocol, or of the tool (`isError`)."""
        return self.state == "answered" and self.response is not None and is_failure(self.response.payload)


# Fields and members stand in two classes each, because a NamedTuple takes no other base.
class _RequestFields(NamedTuple):
    entry: Entry
    state: Literal["waiting", "answered", "unknown", "resolved", "sent", "refused"] = "waiting"
    answers: tuple[Entry, ...] = ()
    response: Entry | None = None
    claims: tuple[Claim, ...] = ()
    late: str = ""
    resolution: Resolution | None = None


class Request(_RequestFields, TrackedCall):
    """One `mcp/request` and its state.

    Attributes:
        entry: The envelope itself.
        state: `waiting`, `answered`, `unknown`, `resolved`, `sent` for a notification, `refused` by the gateway, or
            because of `late`.
        answers: The first answer of each addressee, at most 5 of them. `response` is the earliest; the others are also
            among the claims.
        response: The answer that counts; None before it came. For an unknown call it tells why, where there is one.
        resolution: What a participant found out about it while it was unknown; None where nobody did.
        claims: The envelopes that refer to it and do not change it, at most 100.
        late: Why it was not executed, such as "already approved by human", where its proposal ended before it came, or
            "a quorum was missing" (R39); empty where nothing is known against it.
    """

    __slots__ = ()

    @property
    def decided(self) -> bool:
        """Whether nobody waits for its answer any more; that of an unknown call, or a late one, may still come."""
        return self.state != "waiting"

    @property
    def weight(self) -> int:
        """The characters that the ledger holds of it."""
        weight = len(self.entry.raw)
        for answer in self.answers:
            weight += len(answer.raw)
        return weight + _weigh(self.claims) if self.claims else weight


class _ProposalFields(NamedTuple):
    entry: Entry
    state: Literal[
        "open", "rejected", "fulfilled", "answered", "unknown", "resolved", "withdrawn", "refused"
    ] = "open"
    request: Entry | None = None
    by: str = ""
    reason: str = ""
    difference: tuple[Difference, ...] | None = ()
    rejections: tuple[Rejection, ...] = ()
    uncertain: bool = False
    anew: bool = False
    caller: CallerState = ""
    response: Entry | None = None
    claims: tuple[Claim, ...] = ()
    resolution: Resolution | None = None
    later: tuple[Entry, ...] = ()
    unmet: int = 0


class Proposal(_ProposalFields, TrackedCall):
    """One `mcp/proposal` and its state.

    Attributes:
        entry: The envelope itself.
        state: `open`, `rejected`, `fulfilled`, `answered`, `unknown`, `resolved`, `withdrawn`, `refused` by the
            gateway.
        request: The fulfilment; None before it came. `response` is the answer to it.
        by: The participant that decided it: the fulfiller, or the proposer that withdrew it. `reason` is the reason of
            the withdrawal.
        difference: The places where the request differs from the proposal, except `jsonrpc`, the JSON-RPC `id` and a
            choice among the options of a permission; None where they were not compared, because the request refers to
            too large proposals.
        uncertain: Whether the connection broke while it was undecided, so that a decision may have been missed.
        anew: Whether its proposer had used the id before, for another proposal.
        caller: What its proposer told last of the program for which it proposes, while it was undecided.
        resolution: What a participant found out about it while it was unknown; None where nobody did.
        claims: The envelopes that refer to it and do not change it, at most 100.
        later: The requests that came while another one fulfilled it, at most 5, the earliest first: one takes the place
            of that if a quorum was missing for it.
        unmet: How many requests were sent for it for which a quorum was missing (R39).
    """

    __slots__ = ()

    @property
    def proposer(self) -> str:
        return self.entry.sender

    @property
    def fulfilment(self) -> str | None:
        """The id of the request that fulfilled it."""
        return self.request.id if self.request else None

    @property
    def permission(self) -> PermissionRequest | None:
        """The question of an agent with its options (R41); None for any other proposal."""
        return read_permission(self.entry.sender, self.entry.to, self.entry.payload)

    @property
    def choice(self) -> PermissionOption | None:
        """The option that its fulfilment chose; None where there is none."""
        if self.request is None or (permission := self.permission) is None:
            return None
        return chosen_option(permission, self.request.payload)

    @property
    def resilient(self) -> bool:
        """Whether its proposer goes on waiting after a rejection, as it says in the envelope (R32)."""
        return self.entry.members.get("x-resilient") is True

    @property
    def was_rejected(self) -> bool:
        """Whether a rejection ended it: a proposer that gives up then withdraws it."""
        return self.state == "rejected" or (self.state == "withdrawn" and bool(self.rejections))

    @property
    def edited(self) -> bool | None:
        """Whether the request differs from the proposal; None where they were not compared."""
        return None if self.difference is None else bool(self.difference)

    @property
    def decided(self) -> bool:
        """Whether it is fulfilled, answered, withdrawn or refused, so that only its answer may still come."""
        return self.state not in ("open", "rejected")

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form of `shown(envelope)`, which is what a person approves.

        Raises:
            LocalProtocolError: when its text can be read in two ways and so must not be approved.
        """
        return digest(shown(self.envelope))

    @property
    def weight(self) -> int:
        """The characters that the ledger holds of it."""
        weight = len(self.entry.raw)
        if self.request is not None:
            weight += len(self.request.raw)
        if self.response is not None:
            weight += len(self.response.raw)
        for request in self.later:
            weight += len(request.raw)
        return weight + _weigh(self.claims) + _weigh(self.rejections)


class Change(NamedTuple):
    """The change of one call by one entry; `entry` is that entry, or the call's own where no entry made the change.

    `caller` is a change of `Proposal.caller` alone.
    `reopened` reports a proposal whose fulfilment used nothing up, because a quorum was missing (R39). Its state is that
    of now; where another request took that one's place, `fulfilled` follows.
    `forgotten` reports an undecided or unanswered proposal that the ledger dropped for lack of room.
    """

    what: Literal[
        "requested",
        "proposed",
        "rejected",
        "withdrawn",
        "fulfilled",
        "answered",
        "unknown",
        "resolved",
        "claimed",
        "caller",
        "reopened",
        "refused",
        "forgotten",
    ]
    call: Request | Proposal
    entry: Entry

    @property
    def proposal(self) -> Proposal:
        """The proposal that changed. `call` must be a proposal."""
        assert isinstance(self.call, Proposal)
        return self.call


def shown(envelope: Envelope) -> dict[str, Any]:
    """`{"id", "from", "to", "payload"}` of a proposal, read strictly from its exact text.

    A client parses leniently, for the gateway has parsed strictly. Before a person decides, the text is parsed
    strictly once more.

    Raises:
        LocalProtocolError: when the text is not strict JSON.
    """
    try:
        members = read_strict(envelope.raw, limit=4 * len(envelope.raw) + 1)
    except Exception as fault:
        raise LocalProtocolError(
            f"proposal {envelope.id} from {envelope.sender} cannot be shown faithfully, so it cannot be "
            f"approved: {fault}",
            code="invalid_json",
            section="§3.2.1",
            raw=envelope.raw,
        ) from None
    return {
        "id": members["id"],
        "from": members["from"],
        "to": members.get("to") or [],
        "payload": members.get("payload") or {},
    }


def method_of(payload: Mapping[str, Any]) -> str:
    """The MCP method of a payload; empty where it names none."""
    method = payload.get("method")
    return method if isinstance(method, str) else ""


def tool_of(payload: Mapping[str, Any]) -> str | None:
    """The string `params.name` of a payload; None where it is absent or not a string."""
    params = payload.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def unasked(sender: str, addressees: Collection[str]) -> str:
    """The reason why an answer of `sender` to a request to `addressees` does not count; empty where it counts."""
    return "" if sender in addressees else "its sender was not asked"


C = TypeVar("C", bound="Request | Proposal")
R = TypeVar("R", bound=Rejection | Claim)


class CallIndex(Generic[C]):
    """The calls of one kind by id. Only the ledger changes it.

    Attributes:
        limit: The number of calls that may be held; `max_weight` is the limit of their characters.
        weight: The characters that are held.
        is_over: Whether a limit is exceeded by more than one call.
    """

    def __init__(self, *, limit: int, max_weight: int) -> None:
        self.weight = 0
        self.is_over = False
        self.limit = limit
        self.max_weight = max_weight
        self._undecided: dict[str, C] = {}
        self._decided: dict[str, C] = {}
        self._weights: dict[str, int] = {}  # of each call, as it was put
        self._decided_by_sender: dict[str, dict[str, None]] = {}  # sender -> ids, the oldest decision first
        self._shares: dict[str, int] = {}  # sender -> characters of its calls, each counted with SHARE

    def __len__(self) -> int:
        return len(self._weights)

    def __iter__(self) -> Iterator[C]:
        """All calls that are held, in the order of their arrival."""
        return iter(sorted([*self._undecided.values(), *self._decided.values()], key=lambda call: call.seq))

    def get(self, id: str) -> C | None:
        """The newest state of the call; None where the id is unknown or forgotten."""
        return self._undecided.get(id) or self._decided.get(id)

    @property
    def undecided(self) -> list[C]:
        """The calls without a final state, the oldest first."""
        return list(self._undecided.values())

    def open(self) -> list[C]:
        """The calls in state `open` or `waiting`, the oldest first."""
        return [call for call in self.undecided if call.state in ("open", "waiting")]

    # --- for the ledger ---

    def put(self, call: C) -> None:
        # Each request and answer of a space passes here, at each participant.
        id, sender, weight = call.entry.id, call.entry.sender, call.weight
        held = self._weights.get(id)
        added = weight - (held or 0)
        self._weights[id] = weight
        self._shares[sender] = self._shares.get(sender, 0) + (added + SHARE if held is None else added)
        self._add_weight(added)
        if call.decided:
            self._undecided.pop(id, None)
            self._decided[id] = call
            self._decided_by_sender.setdefault(sender, {})[id] = None
        else:
            self._undecided[id] = call

    def drop(self, call: C) -> None:
        id, sender = call.entry.id, call.entry.sender
        self._undecided.pop(id, None)
        if self._decided.pop(id, None) is not None:
            ids = self._decided_by_sender[sender]
            del ids[id]
            if not ids:
                del self._decided_by_sender[sender]
        weight = self._weights.pop(id)
        self._shares[sender] -= weight + SHARE
        if not self._shares[sender]:
            del self._shares[sender]
        self._add_weight(-weight)

    def _add_weight(self, added: int) -> None:
        self.weight += added
        calls = len(self._weights)
        self.is_over = calls > 1 and (calls > self.limit or self.weight > self.max_weight)

    @property
    def first(self) -> C:
        """The call to forget first: from the largest sender, its oldest decided call, else its oldest call."""
        sender = max(self._shares, key=self._shares.__getitem__)
        if sender in self._decided_by_sender:
            return self._decided[next(iter(self._decided_by_sender[sender]))]
        return next(call for call in self._undecided.values() if call.entry.sender == sender)


class CallLedger:
    """Every request and proposal of a space, as one participant or one journal saw them.

    A participant reads each message of the space, but holds only the requests that it sends and those that are addressed
    to it, unless one of its parts needs those between others as well (`hold_all_requests`). Proposals concern everybody
    and are always held, with their fulfilments and answers.

    Args:
        me: The id of the observing participant; None for a journal, which holds all requests.
        limit: How many requests, and how many proposals, are held. The sender with the most loses calls first: its
            oldest decided ones, then its oldest. So no sender drives out the calls of others.
        weight: The characters held of proposals; requests get a quarter of it.
    """

    def __init__(self, *, me: str | None = None, limit: int = MAX_CALLS, weight: int = MAX_WEIGHT) -> None:
        self.me = me
        self._holds_all = me is None
        self.requests: CallIndex[Request] = CallIndex(limit=limit, max_weight=weight // OF_REQUESTS)
        self.proposals: CallIndex[Proposal] = CallIndex(limit=limit, max_weight=weight)
        self._fulfilments: dict[str, list[str]] = {}  # id of a believed request -> its proposals
        self._told_of: BoundedDict[str, tuple[str, ...]] = BoundedDict(MAX_TELLERS, refresh=True)
        self._awaited: dict[str, dict[str, None]] = {}  # only addressee -> ids of the requests that await it
        self._rules: dict[str, Callable[[Entry], Iterator[Change]]] = {
            "mcp/proposal": self._on_proposal,
            "mcp/request": self._on_request,
            "mcp/response": self._on_response,
            "mcp/withdraw": self._on_withdraw,
            "mcp/reject": self._on_reject,
            "participant/status": self._on_status,
            "system/presence": self._on_presence,
        }

    def observe(self, entry: Entry) -> tuple[Change, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        rule = self._rules.get(entry.kind)
        if rule is None:
            return ()
        if entry.verdict == "refused":
            return tuple(self._on_refusal(entry))
        if entry.malformed:
            return ()
        changes = tuple(rule(entry))
        while self.requests.is_over:
            self._drop_request(self.requests.first)
        if self.proposals.is_over:
            changes += tuple(self._evict_proposals(entry))
        return changes

    def hold_all_requests(self) -> None:
        """Holds the requests between others, too, from the next entry on."""
        self._holds_all = True

    def interrupt(self) -> tuple[Change, ...]:
        """Records that the connection broke: own calls that were sent are unknown, undecided proposals uncertain.

        The latter may have been decided in the meantime and must not be fulfilled again. For a journal, whose gateway
        ended, the calls of all are unknown.
        """
        for proposal in self.proposals.undecided:
            self.proposals.put(proposal._replace(uncertain=True))
        awaited = {id: self.requests.get(id) for ids in self._awaited.values() for id in ids}
        late = [one for one in awaited.values() if one is not None and one.late]
        own = [one for one in (*self.requests.undecided, *late) if self.me in (None, one.sender)]
        changes = [change for one in own for change in self._lose(one.id, one.entry)]
        for proposal in self.proposals:
            if proposal.state == "fulfilled" and proposal.request and self.me in (None, proposal.proposer):
                changes += self._lose(proposal.request.id, proposal.request)
        return tuple(changes)

    def adopt(self, request: Entry) -> tuple[Change, ...]:
        """Takes a call of unknown outcome from before the first entry; returns nothing where its id is taken.

        As for any unknown call, a true answer or a resolution ends it.
        """
        if self.requests.get(request.id) is not None:
            return ()
        change = self._keep("unknown", Request(request, state="unknown"), request)
        while self.requests.is_over:
            self._drop_request(self.requests.first)
        return (change,)

    def resolve(self, request_id: str, happened: bool, by: str, note: str = "") -> tuple[Change, ...]:
        """Records what a participant found out about an unknown call; returns the changes, none for any other call.

        A later resolution takes the place of an earlier one, and a true answer that of any.

        Args:
            request_id: The id of the request that went out.
            happened: Whether it took effect.
            by: The participant that found out.
            note: How it found out, at most 1000 characters.

        Spec: R35, R42.
        """
        found = Resolution(happened, by, note[:MAX_REASON])
        return tuple(
            self._keep("resolved", call._replace(state="resolved", resolution=found), call.entry)
            for call in self._calls_of(request_id)
            if call.state in ("unknown", "resolved")
        )

    # --- one rule a kind ---

    def _on_refusal(self, entry: Entry) -> Iterator[Change]:
        if entry.kind == "mcp/request":
            yield Change("refused", Request(entry, state="refused"), entry)
        elif entry.kind == "mcp/proposal":
            yield Change("refused", Proposal(entry, state="refused"), entry)

    def _on_proposal(self, entry: Entry) -> Iterator[Change]:
        if not entry.id or not entry.sender or not method_of(entry.payload):
            return
        known = self.proposals.get(entry.id)
        if known is not None:
            if known.proposer != entry.sender:  # an id names the first that took it
                yield self._claim(known, entry, "the proposal's id is taken")
                return
            self._forget(known)
        yield self._keep("proposed", Proposal(entry, anew=known is not None), entry)

    def _on_request(self, entry: Entry) -> Iterator[Change]:
        related = self._related(entry) if entry.correlation_id else []
        ended = find_ended(related, entry, entry.to)
        known = self.requests.get(entry.id)
        sent_again = ended is not None and (ended.fulfilment, ended.by) == (entry.id, entry.sender)
        if entry.id in self._fulfilments and not sent_again:  # the answers to both cannot be told apart
            for call in self._calls_of(entry.id):
                if isinstance(call, Proposal) and call.state == "fulfilled":
                    self._stop_awaiting(call.request)
                    yield self._keep("unknown", call._replace(state="unknown"), entry)
            del self._fulfilments[entry.id]
        if known is not None and known.sender != entry.sender:  # an id names the first that took it
            yield self._claim(known, entry, "the request's id is taken")
        elif known is not None and sent_again:
            yield self._claim(known, entry, "it was sent before")
        elif known is not None or self._holds_all or entry.sender == self.me or self.me in entry.to:
            if known is not None:
                self._drop_request(known)
            waits = _is_answered(entry)
            if ended is not None and waits:
                how = "withdrawn" if ended.state == "withdrawn" else "already approved"
                chose = f" with the option {choice.quoted}" if (choice := ended.choice) else ""
                request = Request(entry, state="refused", late=f"{how} by {ended.by}{chose}")
            else:
                request = Request(entry, state="waiting" if waits else "sent")
            yield self._keep("requested", request, entry)
            if waits:
                self._await(entry)
        room = MAX_COMPARED
        addressees = frozenset[str]()
        for proposal in related:
            addressees = addressees or frozenset(entry.to)  # made once, however many proposals there are
            why = _too_late(proposal) or _misfit(proposal, entry, addressees)
            if not why and ended is not None:
                why = f"it also approves {ended.id}, which {ended.by} fulfilled before"
            if why:
                if _may_come_later(proposal, entry, addressees):
                    proposal = proposal._replace(later=(*proposal.later, entry))
                yield self._claim(proposal, entry, why)
                continue
            # Messages are read by one task, so what one of them costs has a bound.
            room -= len(proposal.entry.raw) + len(entry.raw)
            yield self._fulfil(proposal, entry, _compare(proposal, entry) if room >= 0 else None)

    def _fulfil(
        self, proposal: Proposal, request: Entry, difference: tuple[Difference, ...] | None
    ) -> Change:
        self._fulfilments.setdefault(request.id, []).append(proposal.id)
        if _is_answered(request):
            self._await(request)
        fulfilled = proposal._replace(
            state="fulfilled", request=request, by=request.sender, difference=difference
        )
        return self._keep("fulfilled", fulfilled, request)

    def reopen(self, refusal: Entry, request_id: str) -> Iterator[Change]:
        """Takes that a request used nothing up: the proposals that it fulfilled are as if it had never come.

        An executor calls it as soon as it refuses; the others know it from `refusal`, the answer of that executor.

        Spec: R39.
        """
        request = self.requests.get(request_id)
        if request is not None and request.state == "waiting":
            self._stop_awaiting(request.entry)
            self.requests.put(request._replace(state="refused", late=NO_QUORUM))
        for id in tuple(self._fulfilments.pop(request_id, ())):
            proposal = self.proposals.get(id)
            if proposal is None or proposal.request is None or proposal.state != "fulfilled":
                continue
            self._stop_awaiting(proposal.request)
            yield from self._reopen(proposal, refusal)

    def _reopen(self, proposal: Proposal, refusal: Entry) -> Iterator[Change]:
        """Applies what came while a request fulfilled it that used nothing up, in the order in which it counts."""
        rejections = proposal.rejections
        for claim in proposal.claims:
            if claim.kind == "mcp/reject":
                rejections = _add_remark(rejections, Rejection(claim.by, ""))
        is_withdrawn = any(
            claim.kind == "mcp/withdraw" and claim.by == proposal.proposer for claim in proposal.claims
        )
        opened = proposal._replace(
            state="withdrawn" if is_withdrawn else "rejected" if rejections else "open",
            request=None,
            by=proposal.proposer if is_withdrawn else "",
            difference=(),
            rejections=rejections,
            later=(),
            unmet=proposal.unmet + 1,
        )
        self.proposals.drop(proposal)  # it is decided no more
        yield self._keep("reopened", opened, refusal)
        if is_withdrawn or not proposal.later:
            return
        request, *rest = proposal.later
        held = self.requests.get(request.id)
        if held is not None and held.late and held.response is None:
            self.requests.drop(held)
            self.requests.put(held._replace(state="waiting", late=""))
        yield self._fulfil(opened._replace(later=tuple(rest)), request, _compare(proposal, request))

    def _on_response(self, entry: Entry) -> Iterator[Change]:
        if is_quorum_missing(entry):
            for id in dict.fromkeys(entry.correlation_id):
                if self._is_refused_by(id, entry.sender):
                    yield from self.reopen(entry, id)
        for id in dict.fromkeys(entry.correlation_id):
            request = self.requests.get(id)
            if request is None:
                continue
            tells = request.state == "refused" or _is_late(request)
            if tells and not unasked(entry.sender, request.to):
                yield self._answer_late(request, entry)
            elif why := _answered_before(request, entry):
                yield self._claim(_add_answer(request, entry), entry, why)
            elif why := unasked(entry.sender, request.to):
                yield self._claim(request, entry, why)
            else:
                answers = _put_answer(request.answers, entry) if request.answers else (entry,)
                yield self._answer(request._replace(answers=answers), entry)
        for id in self._find_fulfilled(entry):
            proposal = self.proposals.get(id)
            if proposal is None or proposal.request is None:
                continue
            why = _answered_before(proposal, entry) or unasked(entry.sender, proposal.request.to)
            yield self._claim(proposal, entry, why) if why else self._answer(proposal, entry)
        for proposal in self._related(entry):
            yield self._claim(proposal, entry, "an answer belongs to a request, not to a proposal")

    def _is_refused_by(self, request_id: str, sender: str) -> bool:
        """Whether a participant is the only one that was asked by a request, so that nobody has executed it."""
        proposals = (self.proposals.get(id) for id in self._fulfilments.get(request_id, ()))
        return any(
            proposal is not None
            and proposal.state == "fulfilled"
            and proposal.request is not None
            and set(proposal.request.to) == {sender}
            for proposal in proposals
        )

    def _on_withdraw(self, entry: Entry) -> Iterator[Change]:
        for proposal in self._related(entry):
            foreign = "only its proposer can withdraw it" if entry.sender != proposal.proposer else ""
            why = foreign or _too_late(proposal)
            if why:
                yield self._claim(proposal, entry, why)
            else:
                withdrawn = proposal._replace(state="withdrawn", by=entry.sender, reason=_reason(entry))
                yield self._keep("withdrawn", withdrawn, entry)

    def _on_reject(self, entry: Entry) -> Iterator[Change]:
        for proposal in self._related(entry):
            why = _too_late(proposal)
            if why:
                yield self._claim(proposal, entry, why)
                continue
            rejections = _add_remark(proposal.rejections, Rejection(entry.sender, _reason(entry)))
            yield self._keep("rejected", proposal._replace(state="rejected", rejections=rejections), entry)

    def _on_status(self, entry: Entry) -> Iterator[Change]:
        """Takes over `x-calls`, which names all callers that do not wait; a status without it changes nothing."""
        told = entry.payload.get(CALLERS)
        if not isinstance(told, dict):
            return
        now: dict[str, CallerState] = {
            id: state for id, state in islice(told.items(), MAX_CALLERS) if state in ("cancelled", "gone")
        }
        for id in dict.fromkeys((*self._told_of.get(entry.sender, ()), *now)):
            proposal, state = self.proposals.get(id), now.get(id, "")
            if proposal is None or proposal.proposer != entry.sender or proposal.decided:
                continue
            if proposal.caller != state:
                yield self._keep("caller", proposal._replace(caller=state), entry)
        self._told_of[entry.sender] = tuple(now)

    def _on_presence(self, entry: Entry) -> Iterator[Change]:
        event = entry.payload.get("event")
        if entry.sender not in GATEWAYS or event not in ("join", "leave"):
            return
        member = described_member(entry.payload.get("participant"))
        if member is None:
            return
        for id in tuple(self._awaited.get(member[0], ())):
            if event == "leave" or id in self._fulfilments:
                yield from self._lose(id, entry)
            elif (request := self.requests.get(id)) is not None and request.late:
                self._stop_awaiting(request.entry)  # its addressee was not there, so it never got the request
        if event == "leave":
            self._awaited.pop(member[0], None)

    # --- storage ---

    def _answer(self, call: Request | Proposal, entry: Entry) -> Change:
        """Records the answer of an addressee: the outcome, or that it is not known."""
        if self._awaited:
            self._stop_awaiting(call.entry if isinstance(call, Request) else call.request)
        if unknown_outcome(entry.payload):
            return self._keep("unknown", call._replace(state="unknown", response=entry), entry)
        return self._keep("answered", call._replace(state="answered", response=entry), entry)

    def _lose(self, request_id: str, entry: Entry) -> Iterator[Change]:
        """Records that nothing tells the outcome of a request that went out."""
        for call in self._calls_of(request_id):
            request = call.entry if isinstance(call, Request) else call.request
            is_open = call.state in ("waiting", "fulfilled") or (isinstance(call, Request) and _is_late(call))
            if is_open and request is not None and _is_answered(request):
                self._stop_awaiting(request)
                yield self._keep("unknown", call._replace(state="unknown"), entry)

    def _calls_of(self, request_id: str) -> Iterator[Request | Proposal]:
        """The request, where it is held, and the proposals that it fulfilled."""
        request = self.requests.get(request_id)
        if request is not None:
            yield request
        for id in tuple(self._fulfilments.get(request_id, ())):
            proposal = self.proposals.get(id)
            if proposal is not None:
                yield proposal

    def _await(self, request: Entry) -> None:
        if len(set(request.to)) == 1:
            self._awaited.setdefault(request.to[0], {})[request.id] = None

    def _stop_awaiting(self, request: Entry | None) -> None:
        if request is None or not request.to or (waiting := self._awaited.get(request.to[0])) is None:
            return
        waiting.pop(request.id, None)
        if not waiting:
            del self._awaited[request.to[0]]

    def _drop_request(self, request: Request) -> None:
        self.requests.drop(request)
        if request.id not in self._fulfilments:
            self._stop_awaiting(request.entry)

    def _related(self, entry: Entry) -> list[Proposal]:
        if not len(self.proposals):
            return []
        known = [self.proposals.get(id) for id in dict.fromkeys(entry.correlation_id)]
        return [proposal for proposal in known if proposal is not None]

    def _answer_late(self, request: Request, entry: Entry) -> Change:
        """Records an answer to a request that came too late: a refusal, or that an executor carried it out."""
        self._stop_awaiting(request.entry)
        refuses, known = is_late_refusal(entry), request.response
        if known is not None and (refuses or not is_late_refusal(known)):
            return self._claim(_add_answer(request, entry), entry, "it was answered before")
        answers = (*request.answers, entry)[:MAX_ANSWERS]
        if not refuses and unknown_outcome(entry.payload):
            unknown = request._replace(state="unknown", answers=answers, response=entry)
            return self._keep("unknown", unknown, entry)
        state: Literal["refused", "answered"] = "refused" if refuses else "answered"
        return self._keep("answered", request._replace(state=state, answers=answers, response=entry), entry)

    def _find_fulfilled(self, entry: Entry) -> Iterable[str]:
        """The ids of the proposals that the requests fulfilled to which an entry correlates."""
        if not self._fulfilments:
            return ()
        return dict.fromkeys(
            proposal_id for id in entry.correlation_id for proposal_id in self._fulfilments.get(id, ())
        )

    def _claim(self, call: Request | Proposal, entry: Entry, why: str) -> Change:
        claims = _add_remark(call.claims, Claim(entry.id, entry.kind, entry.sender, why))
        return self._keep("claimed", call._replace(claims=claims), entry)

    def _keep(self, what: Any, call: Request | Proposal, entry: Entry) -> Change:
        if isinstance(call, Request):
            self.requests.put(call)
        else:
            self.proposals.put(call)
        return Change(what, call, entry)

    def _forget(self, proposal: Proposal) -> None:
        self.proposals.drop(proposal)
        fulfilled = self._fulfilments.get(proposal.fulfilment or "", [])
        if proposal.id in fulfilled:
            fulfilled.remove(proposal.id)
            if not fulfilled:
                del self._fulfilments[proposal.fulfilment or ""]
                if proposal.fulfilment and self.requests.get(proposal.fulfilment) is None:
                    self._stop_awaiting(proposal.request)

    def _evict_proposals(self, entry: Entry) -> Iterator[Change]:
        while self.proposals.is_over:
            proposal = self.proposals.first
            self._forget(proposal)
            if proposal.state in ("open", "rejected", "fulfilled"):
                yield Change("forgotten", proposal, entry)


def _answered_before(call: Request | Proposal, entry: Entry) -> str:
    """The reason why a further answer does not count; empty where the call still lacks a true one."""
    if call.state in ("waiting", "fulfilled"):
        return ""
    if call.state in ("unknown", "resolved"):
        return "it does not tell the outcome either" if unknown_outcome(entry.payload) else ""
    return "it was answered before" if call.response else "a notification waits for nothing"


def _is_late(request: Request) -> bool:
    """Whether a request came after the end of its proposal, and no answer tells yet what its executor did with it."""
    return bool(request.late) and request.state != "answered" and request.response is None


def _put_answer(answers: tuple[Entry, ...], entry: Entry) -> tuple[Entry, ...]:
    """The answers with that of `entry`, which takes the place of an earlier one of its sender."""
    others = [answer for answer in answers if answer.sender != entry.sender]
    return (*others[: MAX_ANSWERS - 1], entry)


def _add_answer(request: Request, entry: Entry) -> Request:
    """The request with a further answer, if it is the first of that addressee and the limit is not reached."""
    senders = [answer.sender for answer in request.answers]
    if (
        not senders
        or len(senders) >= MAX_ANSWERS
        or entry.sender in senders
        or unasked(entry.sender, request.to)
    ):
        return request
    return request._replace(answers=(*request.answers, entry))


def _add_remark(remarks: tuple[R, ...], remark: R) -> tuple[R, ...]:
    """The remarks with a further one. Beyond the limit, the sender with the most loses its oldest."""
    if len(remarks) < MAX_REMARKS:
        return (*remarks, remark)
    senders = [known.by for known in (remark, *remarks)]
    most = max(senders, key=senders.count)  # among equals, that of `remark` loses one
    kept = [*remarks, remark]
    del kept[next(n for n, known in enumerate(kept) if known.by == most)]
    return tuple(kept)


def _compare(proposal: Proposal, request: Entry) -> tuple[Difference, ...]:
    sent = (
        request.payload if (asked := proposal.permission) is None else without_choice(asked, request.payload)
    )
    return differences(
        {"to": sorted(proposal.to), **_without_rpc_members(proposal.payload)},
        {"to": sorted(request.to), **_without_rpc_members(sent)},
    )


def _misfit(proposal: Proposal, request: Entry | Envelope, addressees: frozenset[str]) -> str:
    """The reason why `request` does not fulfil `proposal`; empty where it does. Earlier decisions are not checked."""
    if request.sender == proposal.proposer:
        return "it comes from the proposer itself"
    return other_call(proposal, request, addressees)


def other_call(proposal: Proposal, request: Entry | Envelope, addressees: frozenset[str]) -> str:
    """The reason why `request`, to these addressees, is another call than the proposed one; empty where it is the same.

    Other arguments make no other call: they are an edit (R17).
    """
    if not addressees:
        return "it is addressed to nobody"
    if proposal.to and addressees != set(proposal.to):
        return "it has other addressees"
    if method_of(request.payload) != proposal.method:
        return "it has another method"
    if tool_of(request.payload) != tool_of(proposal.payload):
        return "it names another tool"
    return ""


def find_ended(
    proposals: Iterable[Proposal], request: Entry | Envelope, addressees: Collection[str]
) -> Proposal | None:
    """The ended proposal for which a request to these addressees comes too late; None where there is none.

    Executors of ours do not execute such a request (R32). Two decisions, or one and a withdraw, may be on their way at
    once. All members see them in one order (R1), so all find the same proposal. A request that fulfils another proposal
    is executed although one that it names was withdrawn, for nothing was executed for that one.
    """
    withdrawn: Proposal | None = None
    fulfils = False
    for proposal in proposals:
        if proposal.request is not None and (
            proposal.request is request or proposal.request.envelope is request
        ):
            fulfils = True
        elif not _proposes(proposal, request, addressees):
            continue
        elif proposal.request is not None:
            return proposal
        elif proposal.state == "withdrawn":
            withdrawn = proposal
        else:
            fulfils = fulfils or not _misfit(proposal, request, frozenset(request.to))
    return None if fulfils else withdrawn


def _proposes(proposal: Proposal, request: Entry | Envelope, addressees: Collection[str]) -> bool:
    """Whether a request asks one of these addressees for the proposed call, whatever its other addressees are."""
    if method_of(request.payload) != proposal.method or tool_of(request.payload) != tool_of(proposal.payload):
        return False
    return bool(addressees) and (not proposal.to or not set(proposal.to).isdisjoint(addressees))


def is_late_refusal(response: Entry) -> bool:
    """Whether an answer says that the request was not executed: it came after the end of its proposal, or used nothing
    up for lack of a quorum."""
    return _refusal_code(response) in (ALREADY_FULFILLED, WITHDRAWN, QUORUM_MISSING)


def is_quorum_missing(response: Entry) -> bool:
    """Whether an answer says that too few deciders have said yes, so that the request used nothing up (R39)."""
    return _refusal_code(response) == QUORUM_MISSING


def _refusal_code(response: Entry) -> object:
    error = response.payload.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    return data.get("code") if isinstance(data, dict) else None


def _may_come_later(proposal: Proposal, request: Entry, addressees: frozenset[str]) -> bool:
    """Whether a request would fulfil a proposal that another one fulfils, of which the answer has not come."""
    return (
        proposal.state == "fulfilled"
        and len(proposal.later) < MAX_ANSWERS
        and request.id not in (proposal.fulfilment, *(one.id for one in proposal.later))
        and _is_answered(request)
        and not _misfit(proposal, request, addressees)
    )


def _is_answered(request: Entry) -> bool:
    """Whether a request has an answer: a notification has none."""
    return not method_of(request.payload).startswith("notifications/")


def _too_late(proposal: Proposal) -> str:
    if proposal.state == "withdrawn":
        return "it comes after the withdraw"
    return f"{proposal.by} fulfilled it before" if proposal.decided else ""


def _without_rpc_members(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in RPC_MEMBERS}


def _reason(entry: Entry) -> str:
    reason = entry.payload.get("reason", "")
    return reason[:MAX_REASON] if isinstance(reason, str) else ""


def _weigh(remarks: tuple[Rejection, ...] | tuple[Claim, ...]) -> int:
    """The characters of rejections or claims beside a call."""
    return sum(OVERHEAD + sum(map(len, remark)) for remark in remarks) if remarks else 0


def is_failure(payload: Mapping[str, Any]) -> bool:
    """Whether the answer in a response is an error, of the protocol or of the tool (`isError`).

    An answer that leaves open whether the call took effect is none (R35, `protocol.intake.unknown_outcome`).
    """
    if unknown_outcome(payload):
        return False
    result = payload.get("result")
    return payload.get("error") is not None or (isinstance(result, Mapping) and result.get("isError") is True)


def error_text(response: Entry) -> str:
    """The message of an answer that is an error, for an error of a tool its result in a line; empty without any."""
    error = response.payload.get("error")
    if error is not None or answer_fault(response.payload):
        message = error.get("message") if isinstance(error, dict) else error
        return message if isinstance(message, str) else ""
    result = response.payload.get("result")
    return (
        for_line(read_parts(result, most=MAX_SHOWN_PARTS), MAX_ERROR)
        if holds_content(result) == "tools/call"
        else ""
    )
