"""Drafts the messages that decide a proposal: a fulfilment, a rejection and a withdraw.

The functions are pure: they take proposals as the ledger holds them, and return a draft or raise an error. That of an
approval pauses while it reads a large proposal, and checks once more at its end that nobody has decided meanwhile.

- The first decision wins. After a withdraw or a fulfilment, a further decision raises an error and nothing is sent.
- After a rejection, only an approval that is said to be made despite it is sent (R32).
- A request is made of the text of the proposal that the ledger holds, never of the content of a view. So the executed
  request is the one that was shown. Its JSON-RPC id is the decider's own.
- The choice among the options of a permission is added to what was shown, and is no edit (R41).
- Only `params` of a proposal can be edited, without the name of the tool: a request with another target, method or tool
  fulfils no proposal. An edit has a digest of its own, made of the changed bytes.

Spec: §3.2.1, §3.3, rulings R17, R18; threat 14.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from mew_lab.errors import LocalProtocolError, ProposalEnded, ProposalRejected, ProposalWithdrawn
from mew_lab.ledger.calls import CallIndex, Proposal, shown
from mew_lab.ledger.options import OPTION, find_choice_fault
from mew_lab.protocol.coerce import member
from mew_lab.protocol.difference import Difference, differences
from mew_lab.protocol.envelope import compact, digest, read_canonical, read_strict
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.request_rows import Rows, read_mismatch

__all__ = [
    "Edit",
    "choose_option",
    "digest_of_choice",
    "draft_approval",
    "draft_fulfilment",
    "draft_rejection",
    "draft_withdrawal",
    "edit_proposal",
    "rebuild_proposed",
    "request_of",
]


class Edit(NamedTuple):
    """A changed proposal: `digest` is the SHA-256 of the canonical form of its shown members, `params` a copy."""

    digest: str
    params: dict[str, Any]
    difference: tuple[Difference, ...]


def edit_proposal(proposal: Proposal, params: Mapping[str, Any]) -> Edit:
    """The edit that replaces the `params` of a proposal. They are parsed as strictly as a message.

    Raises:
        LocalProtocolError: the `params` are no JSON, name another tool, or change nothing.
    """
    before = shown(proposal.envelope)
    text = compact({"params": dict(params)})
    after = read_strict(text, limit=4 * len(text) + 1)["params"]
    old = before["payload"].get("params")
    name = member(old, "name")
    if isinstance(name, str) and after.get("name") != name:
        raise LocalProtocolError(
            f"Cannot edit proposal {proposal.id}: it is for {name}, and an approval cannot run another tool. "
            "Reject it and let it be proposed anew",
            section="§3.2.1",
        )
    difference = differences({"params": old} if old is not None else {}, {"params": after})
    if not difference:
        raise LocalProtocolError(
            f"Cannot edit proposal {proposal.id}: nothing is changed; approve it as it is", section="§3.2.1"
        )
    what = {**before, "payload": {**before["payload"], "params": after}}
    return Edit(digest(what), after, difference)


def rebuild_proposed(proposal: Proposal, *, id: str) -> dict[str, Any]:
    """The `{"to", "payload"}` of the request that would fulfil `proposal`, made of its own text.

    The JSON-RPC id is `id`, never that of the proposer; a notification has none. `jsonrpc` is added where the
    proposal has none. Raises as `shown`.
    """
    return request_of(shown(proposal.envelope), id=id)


def request_of(proposed: Mapping[str, Any], *, id: str) -> dict[str, Any]:
    """The same, of what `shown` has read of the proposal."""
    rest = {key: value for key, value in proposed["payload"].items() if key not in ("jsonrpc", "id")}
    own: dict[str, Any] = {"jsonrpc": proposed["payload"].get("jsonrpc", "2.0")}
    if not str(rest.get("method", "")).startswith("notifications/"):
        own["id"] = id
    return {"to": proposed["to"], "payload": {**own, **rest}}


def draft_fulfilment(
    proposal: Proposal,
    *,
    id: str,
    to: Sequence[str] | None = None,
    proposed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The `mcp/request` that fulfils `proposal`: same `to`, same payload, correlated to it.

    Args:
        id: That of the request.
        to: Its addressees, only needed where the proposal names none.
        proposed: What `shown` has read of the proposal, where it was read already.

    Raises:
        LocalProtocolError: when `to` is missing or not allowed, or the text can be read in two ways.

    Spec: §3.2.1, ruling R17.
    """
    what = request_of(shown(proposal.envelope) if proposed is None else proposed, id=id)
    addressees: list[str] = what["to"]
    if addressees and to is not None and set(to) != set(addressees):
        raise LocalProtocolError(
            f"proposal {proposal.id} is addressed to {', '.join(addressees)}; an approval cannot send it to "
            f"{', '.join(to) or 'nobody'} instead. Reject it and let it be proposed anew",
            section="§3.2.1",
        )
    if not addressees and not to:
        raise LocalProtocolError(
            f"proposal {proposal.id} from {proposal.proposer} names no addressee: "
            "name the participant that executes it with to=",
            section="§3.2.1",
        )
    return {
        "id": id,
        "kind": "mcp/request",
        "to": addressees or list(to or ()),
        "correlation_id": [proposal.id],
        "payload": what["payload"],
    }


def draft_approval(
    proposals: CallIndex[Proposal],
    id: str,
    *,
    me: str,
    digest: str | None,
    to: Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    request_id: str,
    rows: Rows | None = None,
    despite: Collection[str] = (),
    option: str = "",
) -> Steps[dict[str, Any]]:
    """The `mcp/request` with which `me` fulfils the proposal, with `params` in place of its own unless None.

    Between its pauses the proposals may change; what it returns may be sent as long as they do not change again.

    Args:
        request_id: the id of the request.
        rows: the rows of the request that the deciding person was shown; they must rebuild it exactly.
        despite: `rejected` approves it although a participant has rejected it.
        option: the id of the option that is chosen of the permission of an agent (R41).

    Raises:
        ProposalEnded: it was withdrawn, fulfilled, or rejected before.
        LocalProtocolError: it has no such option, is unknown, one of `me`, cannot be shown faithfully, differs from what
            was shown, was cancelled by the client of its proposer, or may have been decided while the connection was
            down.
    """
    by_id = digest is None
    proposal = _approvable(proposals, id, me=me, despite=despite, by_id=by_id)
    proposed = shown(proposal.envelope)
    yield
    if why := find_choice_fault(proposal.permission, option, is_edited=params is not None):
        message = f"Cannot approve proposal {one_line(id, 80)}: {why}. Nothing was chosen; name an option of the list"
        raise LocalProtocolError(message, code="option", section="§3.2.1")
    edit = None if params is None else edit_proposal(proposal, params)
    if digest is not None:
        current = edit.digest if edit else sha256((yield from read_canonical(proposed))).hexdigest()
        if not hmac.compare_digest(digest.encode("utf-8", "surrogatepass"), current.encode()):
            raise _differs(id)
    draft = draft_fulfilment(proposal, id=request_id, to=to, proposed=proposed)
    if edit:
        draft["payload"] = {**draft["payload"], "params": edit.params}
    if rows is not None and (why := (yield from read_mismatch(rows, draft))):
        raise LocalProtocolError(
            f"Cannot approve proposal {one_line(id, 80)}: {why}. Nothing was sent; reject it",
            code="rows_mismatch",
            section="§3.2.1",
        )
    now = _approvable(proposals, id, me=me, despite=despite, by_id=by_id)
    if now.envelope is not proposal.envelope:
        raise _differs(id)
    if option:
        draft["payload"] = {**draft["payload"], "params": choose_option(draft["payload"]["params"], option)}
    return draft


def choose_option(params: Mapping[str, Any], option: str) -> dict[str, Any]:
    """The `params` of the permission of an agent with the choice of an option, by its id."""
    return {**params, "arguments": {**params["arguments"], OPTION: option}}


def digest_of_choice(proposal: Proposal, option: str) -> str:
    """The digest to which a yes to a permission says yes: where it means the only `allow_once`, that of the proposal.

    Spec: R39, R41.
    """
    permission = proposal.permission
    if permission is None or permission.default == permission.find(option):
        return proposal.digest
    before = shown(proposal.envelope)
    params = choose_option(before["payload"]["params"], option)
    return digest({**before, "payload": {**before["payload"], "params": params}})


def _differs(id: str) -> LocalProtocolError:
    return LocalProtocolError(
        f"Cannot approve proposal {id}: what was shown is not what is proposed; look at it again",
        code="digest_mismatch",
        section="§3.2.1",
    )


def _approvable(
    proposals: CallIndex[Proposal], id: str, *, me: str, despite: Collection[str], by_id: bool
) -> Proposal:
    """The proposal, which `me` may approve now; raises as `draft_approval`."""
    proposal = _undecided(proposals, id, me=me, verb="approve")
    if proposal.rejections and "rejected" not in despite:
        by, reason = proposal.rejections[-1]
        stated = one_line(reason, 300) or "no reason given"
        raise ProposalEnded(
            f"Cannot approve proposal {one_line(id, 80)}: {one_line(by, 80)} rejected it ({stated}). "
            'approve(…, despite="rejected") approves it all the same',
            proposal=id,
            by=by,
            reason=reason,
        )
    if proposal.uncertain:
        raise LocalProtocolError(
            f"Cannot approve proposal {id}: the connection broke since it was made, and it may have "
            "been approved meanwhile. Reject it, and let it be proposed anew",
            code="uncertain",
            section="§3.2.1",
        )
    if proposal.caller == "cancelled":
        raise LocalProtocolError(
            f"Cannot approve proposal {one_line(id, 80)}: the client for which {proposal.proposer} made it has "
            "cancelled it. If that client asks again, it can be approved",
            code="cancelled_by_client",
            section="§3.2.1",
        )
    if by_id and proposal.anew:
        raise LocalProtocolError(
            f"Cannot approve proposal {one_line(id, 80)} by its id alone: {proposal.proposer} has used that id "
            "before, for another proposal. Look at it, and name its digest",
            code="id_used_before",
            section="§3.2.1",
        )
    return proposal


def draft_rejection(proposals: CallIndex[Proposal], id: str, *, me: str, reason: str) -> dict[str, Any]:
    """The `mcp/reject` of `me`, addressed to the proposer.

    Raises:
        ProposalEnded: it was withdrawn, fulfilled, or rejected by `me` before.
        LocalProtocolError: it is unknown, or one of `me`.
    """
    proposal = _undecided(proposals, id, me=me, verb="reject")
    mine = [rejection for rejection in proposal.rejections if rejection.by == me]
    if mine:
        raise ProposalRejected(proposal=id, by=me, reason=one_line(mine[0].reason, 300))
    return {
        "kind": "mcp/reject",
        "to": [proposal.proposer],
        "correlation_id": [id],
        "payload": {"reason": reason},
    }


def draft_withdrawal(proposals: CallIndex[Proposal], id: str, *, me: str, reason: str) -> dict[str, Any]:
    """The `mcp/withdraw` of the proposer.

    Raises:
        ProposalEnded: it was withdrawn or fulfilled before.
        LocalProtocolError: it is unknown, or that of another participant.
    """
    proposal = proposals.get(id)
    if proposal is None or proposal.proposer != me:
        whose = f"it is {proposal.proposer}'s" if proposal else "it is not known here"
        message = f"Cannot withdraw proposal {one_line(id, 80)} as {me!r}: {whose}"
        raise LocalProtocolError(message, section="§3.3.1")
    _refuse_decided(proposal, "withdraw")
    return {"kind": "mcp/withdraw", "correlation_id": [id], "payload": {"reason": reason}}


def _undecided(proposals: CallIndex[Proposal], id: str, *, me: str, verb: str) -> Proposal:
    proposal = proposals.get(id)
    if proposal is None:
        message = f"Cannot {verb} proposal {one_line(id, 80)}: it is not known here"
        raise LocalProtocolError(message, section="§3.2.1")
    if proposal.proposer == me:
        message = f"Cannot {verb} proposal {id} as {me!r}: it is its own; withdraw() takes it back"
        raise LocalProtocolError(message, section="§3.2.1")
    _refuse_decided(proposal, verb)
    return proposal


def _refuse_decided(proposal: Proposal, verb: str) -> None:
    if proposal.state == "withdrawn":
        raise ProposalWithdrawn(proposal=proposal.id, by=proposal.by, reason=one_line(proposal.reason, 300))
    if proposal.decided:
        chose = f" with the option {choice.quoted}" if (choice := proposal.choice) else ""
        message = f"Cannot {verb} proposal {proposal.id}: {proposal.by} approved it before{chose}"
        raise ProposalEnded(message, proposal=proposal.id, by=proposal.by)
