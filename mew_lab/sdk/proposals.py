"""What became of each proposal?  Reads every envelope of a space, in order, and decides nothing else.

Three rules for whoever adds something here:
1. Pure: no clock, no loop, no sending. The proposer's waiting calls and a human's approval view read the
   same book.
2. What a peer claims is not what happened: only the proposer withdraws, only the first fitting
   `mcp/request` of somebody else fulfils, only its addressee answers. The rest is kept beside the proposal
   as a claim.
3. What is executed is what was shown: `shown` reads the proposal's own text again, strictly, and both the
   digest and the fulfilment are made of it.

Spec: §3.2, §3.3, rulings R17, R18.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.protocol.envelope import Envelope, digest, read_strict
from mew_lab.sdk.difference import Difference, differences

__all__ = ["Change", "Claim", "Proposal", "ProposalBook", "Rejection", "fulfilment", "requested", "shown"]

State = Literal["open", "rejected", "fulfilled", "answered", "withdrawn"]

MAX_PROPOSALS = 10_000
MAX_WEIGHT = 64 * 1024 * 1024  # characters of all proposals and answers together
MAX_REMARKS = 100  # rejections, and claims, kept of one proposal


class Rejection(NamedTuple):
    """One participant's no. `reason` is its own word, any string; empty when it gave none."""

    by: str
    reason: str


class Claim(NamedTuple):
    """An envelope about a proposal that is not believed; `why` completes "not believed: …"."""

    id: str
    kind: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """One proposal and what is known of it: a snapshot, never changed; the book holds the newest.

    `to` and `payload` are the proposal's own. `seq` is the place of its envelope among all that the book saw.
    `by` is who decided it: the fulfiller, or the proposer that withdrew; `reason` is the withdraw's.
    `request` is the fulfilment and `response` its answer, both only when believed. `edited` when something
    but `jsonrpc` and the JSON-RPC `id` differs between the proposal and the request; `difference` says
    where. `anew` when its proposer had used the id before, for another proposal.
    """

    id: str
    proposer: str
    to: tuple[str, ...]
    payload: dict[str, Any]
    envelope: Envelope
    seq: int
    state: State = "open"
    request: Envelope | None = None
    by: str = ""
    reason: str = ""
    edited: bool = False
    difference: tuple[Difference, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    response: Envelope | None = None
    claims: tuple[Claim, ...] = ()
    uncertain: bool = False
    anew: bool = False

    @property
    def method(self) -> str:
        """The MCP method proposed, such as `tools/call`."""
        return str(self.payload["method"])

    @property
    def tool(self) -> str:
        """The tool's name; empty where the method has none."""
        return _tool(self.payload) or ""

    @property
    def fulfilment(self) -> str | None:
        """The id of the request that fulfilled it."""
        return self.request.id if self.request else None

    @property
    def decided(self) -> bool:
        """Whether nothing can change it any more but its answer: fulfilled, answered or withdrawn."""
        return self.state not in ("open", "rejected")

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form of `shown(envelope)`: what a person approves.

        Raises:
            LocalProtocolError: when its text can be read in two ways, so that nobody may approve it.
        """
        return digest(shown(self.envelope))


class Change(NamedTuple):
    """What one envelope did to one proposal."""

    what: Literal["proposed", "rejected", "withdrawn", "fulfilled", "answered", "claimed"]
    proposal: Proposal


def shown(envelope: Envelope) -> dict[str, Any]:
    """`{"id", "from", "to", "payload"}` of a proposal, read strictly from its exact text.

    A client reads quickly and lets the gateway be strict; here, where a person decides, it is read once more.

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


def requested(proposal: Proposal, *, id: str) -> dict[str, Any]:
    """`{"to", "payload"}` of the request that would fulfil `proposal`, made of its own text.

    The JSON-RPC id is `id`, never one of the proposer's choice, and a notification has none; `jsonrpc` is
    added where the proposal has none. Raises as `shown`.
    """
    what = shown(proposal.envelope)
    rest = {key: value for key, value in what["payload"].items() if key not in ("jsonrpc", "id")}
    own: dict[str, Any] = {"jsonrpc": what["payload"].get("jsonrpc", "2.0")}
    if not str(rest.get("method", "")).startswith("notifications/"):
        own["id"] = id
    return {"to": what["to"], "payload": {**own, **rest}}


def fulfilment(proposal: Proposal, *, id: str, to: Sequence[str] | None = None) -> dict[str, Any]:
    """The `mcp/request` that fulfils `proposal`: same `to`, same payload, correlated to it.

    `id` is the request's own, `to` its addressees where the proposal names none; elsewhere it is left out.

    Raises:
        LocalProtocolError: when `to` is missing or not allowed, or the text can be read in two ways.

    Spec: §3.2.1, ruling R17.
    """
    what = requested(proposal, id=id)
    addressees: list[str] = what["to"]
    if addressees and to is not None and set(to) != set(addressees):
        raise LocalProtocolError(
            f"proposal {proposal.id} is addressed to {', '.join(addressees)}; a fulfilment cannot go to "
            f"{', '.join(to) or 'nobody'} instead. Reject it and let it be proposed anew",
            section="§3.2.1",
        )
    if not addressees and not to:
        raise LocalProtocolError(
            f"proposal {proposal.id} from {proposal.proposer} names no addressee: "
            "say who is to execute it with to=",
            section="§3.2.1",
        )
    return {
        "id": id,
        "kind": "mcp/request",
        "to": addressees or list(to or ()),
        "correlation_id": [proposal.id],
        "payload": what["payload"],
    }


def _tool(payload: dict[str, Any]) -> str | None:
    params = payload.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def _misfit(proposal: Proposal, request: Envelope) -> str:
    """Why `request` is not the outcome of `proposal`; empty when it is, unless one came before."""
    if request.sender == proposal.proposer:
        return "it comes from the proposer itself"
    if not request.to:
        return "it is addressed to nobody"
    if proposal.to and set(request.to) != set(proposal.to):
        return "it has other addressees"
    if request.payload.get("method") != proposal.method:
        return "it has another method"
    if _tool(request.payload) != _tool(proposal.payload):
        return "it names another tool"
    return ""


class ProposalBook:
    """Every proposal of a space, as one participant sees it.

    Holds at most `limit` proposals and `MAX_WEIGHT` characters; what is decided goes first, the oldest first.
    """

    def __init__(self, *, limit: int = MAX_PROPOSALS) -> None:
        self._limit = limit
        self._undecided: OrderedDict[str, Proposal] = OrderedDict()
        self._decided: OrderedDict[str, Proposal] = OrderedDict()
        self._fulfilments: dict[str, list[str]] = {}  # id of a believed request -> its proposals
        self._weight = 0
        self._seq = 0
        self._rules: dict[str, Callable[[Envelope], Iterator[Change]]] = {
            "mcp/proposal": self._proposed,
            "mcp/request": self._requested,
            "mcp/response": self._responded,
            "mcp/withdraw": self._withdrawn,
            "mcp/reject": self._rejected,
        }

    def __len__(self) -> int:
        return len(self._undecided) + len(self._decided)

    def __iter__(self) -> Iterator[Proposal]:
        """All proposals, in the order in which they were proposed."""
        return iter(sorted([*self._undecided.values(), *self._decided.values()], key=lambda one: one.seq))

    def get(self, id: str) -> Proposal | None:
        """What is known of this proposal now; None when it was never seen, or long ago."""
        return self._undecided.get(id) or self._decided.get(id)

    def open(self) -> list[Proposal]:
        """Those that nobody has decided or rejected yet, the oldest first."""
        return [one for one in self._undecided.values() if one.state == "open"]

    def observe(self, envelope: Envelope) -> tuple[Change, ...]:
        """Takes note of one envelope; to be called for each of the space, in order, own echoes included."""
        self._seq += 1
        rule = self._rules.get(envelope.kind)
        if rule is None:
            return ()
        changes = tuple(rule(envelope))
        self._evict()
        return changes

    def interrupted(self) -> None:
        """The connection broke: what is undecided may be decided unseen, and must not be fulfilled again."""
        for id, proposal in self._undecided.items():
            self._undecided[id] = replace(proposal, uncertain=True)

    # --- one rule a kind ---

    def _proposed(self, envelope: Envelope) -> Iterator[Change]:
        if not envelope.id or not envelope.sender or not isinstance(envelope.payload.get("method"), str):
            return
        known = self.get(envelope.id)
        if known is not None:
            if known.proposer != envelope.sender:  # an id names the first that took it
                yield self._claim(known, envelope, "the proposal's id is taken")
                return
            self._forget(known)
        yield self._keep(
            "proposed",
            Proposal(
                id=envelope.id,
                proposer=envelope.sender,
                to=envelope.to,
                payload=envelope.payload,
                envelope=envelope,
                seq=self._seq,
                anew=known is not None,
            ),
        )

    def _requested(self, request: Envelope) -> Iterator[Change]:
        self._fulfilments.pop(request.id, None)  # a request that takes an id anew takes its answers too
        for proposal in self._related(request):
            why = self._too_late(proposal) or _misfit(proposal, request)
            if why:
                yield self._claim(proposal, request, why)
                continue
            difference = differences(
                {"to": sorted(proposal.to), **_asked(proposal.payload)},
                {"to": sorted(request.to), **_asked(request.payload)},
            )
            self._fulfilments.setdefault(request.id, []).append(proposal.id)
            yield self._keep(
                "fulfilled",
                replace(
                    proposal,
                    state="fulfilled",
                    request=request,
                    by=request.sender,
                    edited=bool(difference),
                    difference=difference,
                ),
            )

    def _responded(self, response: Envelope) -> Iterator[Change]:
        fulfilled = (one for id in response.correlation_id for one in self._fulfilments.get(id, ()))
        for id in dict.fromkeys(fulfilled):
            proposal = self.get(id)
            if proposal is None or proposal.request is None:
                continue
            if proposal.response is not None:
                yield self._claim(proposal, response, "it was answered before")
            elif response.sender not in proposal.request.to:
                yield self._claim(proposal, response, "its sender was not asked")
            else:
                yield self._keep("answered", replace(proposal, state="answered", response=response))
        for proposal in self._related(response):
            yield self._claim(proposal, response, "an answer belongs to a request, not to a proposal")

    def _withdrawn(self, withdraw: Envelope) -> Iterator[Change]:
        for proposal in self._related(withdraw):
            foreign = "only its proposer can withdraw it" if withdraw.sender != proposal.proposer else ""
            why = foreign or self._too_late(proposal)
            if why:
                yield self._claim(proposal, withdraw, why)
            else:
                yield self._keep(
                    "withdrawn",
                    replace(proposal, state="withdrawn", by=withdraw.sender, reason=_reason(withdraw)),
                )

    def _rejected(self, reject: Envelope) -> Iterator[Change]:
        for proposal in self._related(reject):
            why = self._too_late(proposal)
            if why:
                yield self._claim(proposal, reject, why)
                continue
            rejections = (*proposal.rejections, Rejection(reject.sender, _reason(reject)))[:MAX_REMARKS]
            yield self._keep("rejected", replace(proposal, state="rejected", rejections=rejections))

    # --- keeping ---

    def _related(self, envelope: Envelope) -> Iterator[Proposal]:
        for id in dict.fromkeys(envelope.correlation_id):
            proposal = self.get(id)
            if proposal is not None:
                yield proposal

    @staticmethod
    def _too_late(proposal: Proposal) -> str:
        if proposal.state == "withdrawn":
            return "it comes after the withdraw"
        return f"{proposal.by} fulfilled it before" if proposal.decided else ""

    def _claim(self, proposal: Proposal, envelope: Envelope, why: str) -> Change:
        claims = (*proposal.claims, Claim(envelope.id, envelope.kind, envelope.sender, why))[:MAX_REMARKS]
        return self._keep("claimed", replace(proposal, claims=claims))

    def _keep(self, what: Any, proposal: Proposal) -> Change:
        old = self.get(proposal.id)
        self._weight += _weight(proposal) - (_weight(old) if old else 0)
        if proposal.decided:
            self._undecided.pop(proposal.id, None)
            self._decided[proposal.id] = proposal
        else:
            self._undecided[proposal.id] = proposal
        return Change(what, proposal)

    def _forget(self, proposal: Proposal) -> None:
        self._undecided.pop(proposal.id, None)
        self._decided.pop(proposal.id, None)
        fulfilled = self._fulfilments.get(proposal.fulfilment or "", [])
        if proposal.id in fulfilled:
            fulfilled.remove(proposal.id)
            if not fulfilled:
                del self._fulfilments[proposal.fulfilment or ""]
        self._weight -= _weight(proposal)

    def _evict(self) -> None:
        while len(self) > 1 and (len(self) > self._limit or self._weight > MAX_WEIGHT):
            self._forget(next(iter(self._decided.values() or self._undecided.values())))


def _asked(payload: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in payload.items() if key not in ("jsonrpc", "id")}


def _reason(envelope: Envelope) -> str:
    reason = envelope.payload.get("reason", "")
    return reason if isinstance(reason, str) else ""


def _weight(proposal: Proposal) -> int:
    known = (proposal.envelope, proposal.request, proposal.response)
    return sum(len(envelope.raw) for envelope in known if envelope)
