"""What is sent when somebody decides on a proposal, and when is nothing?  Pure: the book in, a draft out,
or an error.

First decision wins: whoever comes after a withdraw, a fulfilment or one's own rejection is told so, and
nothing is sent. What is sent is built from the proposal that the book holds, never from what a view says.

Spec: §3.2.1, §3.3, rulings R17, R18.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from mew_lab.errors import LocalProtocolError, ProposalEnded, ProposalRejected, ProposalWithdrawn
from mew_lab.ledger.calls import CallIndex, Proposal
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.edits import edited
from mew_lab.sdk.fulfilment import fulfilment
from mew_lab.sdk.request_rows import Rows, faithful

__all__ = ["approval", "rejection", "withdrawal"]


def approval(
    book: CallIndex[Proposal],
    id: str,
    *,
    me: str,
    digest: str | None,
    to: Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    request_id: str,
    rows: Rows | None = None,
) -> dict[str, Any]:
    """The `mcp/request` with which `me` fulfils the proposal, with other `params` where they are given.

    Args:
        request_id: the id of the request.
        rows: what the person who decides was shown of the request: it must be exactly what they rebuild.

    Raises:
        ProposalEnded: it was withdrawn, fulfilled, or rejected by `me` before.
        LocalProtocolError: it is unknown, its own, cannot be shown faithfully, is not what was shown, or may
            have been decided unseen.
    """
    proposal = _undecided(book, id, me=me, verb="approve")
    if proposal.uncertain:
        raise LocalProtocolError(
            f"Cannot approve proposal {id}: the connection broke since it was made, and somebody may have "
            "fulfilled it meanwhile. Reject it, and let it be proposed anew",
            code="uncertain",
            section="§3.2.1",
        )
    if digest is None and proposal.anew:
        raise LocalProtocolError(
            f"Cannot approve proposal {one_line(id, 80)} by its id alone: {proposal.proposer} has used that id "
            "before, for another proposal. Look at it, and name its digest",
            code="id_used_before",
            section="§3.2.1",
        )
    edit = None if params is None else edited(proposal, params)
    meant = edit.digest if edit else proposal.digest
    if digest is not None and not hmac.compare_digest(
        digest.encode("utf-8", "surrogatepass"), meant.encode()
    ):
        raise LocalProtocolError(
            f"Cannot approve proposal {id}: what was shown is not what is proposed; look at it again",
            code="digest_mismatch",
            section="§3.2.1",
        )
    draft = fulfilment(proposal, id=request_id, to=to)
    if edit:
        draft["payload"] = {**draft["payload"], "params": edit.params}
    if rows is not None and (why := faithful(rows, draft)):
        raise LocalProtocolError(
            f"Cannot approve proposal {one_line(id, 80)}: {why}. Nothing was sent; reject it",
            code="rows_mismatch",
            section="§3.2.1",
        )
    return draft


def rejection(book: CallIndex[Proposal], id: str, *, me: str, reason: str) -> dict[str, Any]:
    """The `mcp/reject` of `me`, addressed to the proposer.

    Raises:
        ProposalEnded: it was withdrawn, fulfilled, or rejected by `me` before.
        LocalProtocolError: it is unknown, or its own.
    """
    proposal = _undecided(book, id, me=me, verb="reject")
    return {
        "kind": "mcp/reject",
        "to": [proposal.proposer],
        "correlation_id": [id],
        "payload": {"reason": reason},
    }


def withdrawal(book: CallIndex[Proposal], id: str, *, me: str, reason: str) -> dict[str, Any]:
    """The `mcp/withdraw` of the proposer.

    Raises:
        ProposalEnded: it was withdrawn or fulfilled before.
        LocalProtocolError: it is unknown, or somebody else's.
    """
    proposal = book.get(id)
    if proposal is None or proposal.proposer != me:
        whose = f"it is {proposal.proposer}'s" if proposal else "it is not known here"
        said = f"Cannot withdraw proposal {one_line(id, 80)} as {me!r}: {whose}"
        raise LocalProtocolError(said, section="§3.3.1")
    _refuse_decided(proposal, "withdraw")
    return {"kind": "mcp/withdraw", "correlation_id": [id], "payload": {"reason": reason}}


def _undecided(book: CallIndex[Proposal], id: str, *, me: str, verb: str) -> Proposal:
    proposal = book.get(id)
    if proposal is None:
        said = f"Cannot {verb} proposal {one_line(id, 80)}: it is not known here"
        raise LocalProtocolError(said, section="§3.2.1")
    if proposal.proposer == me:
        said = f"Cannot {verb} proposal {id} as {me!r}: it is its own; withdraw() takes it back"
        raise LocalProtocolError(said, section="§3.2.1")
    _refuse_decided(proposal, verb)
    mine = [one for one in proposal.rejections if one.by == me]
    if mine:
        raise ProposalRejected(proposal=id, by=me, reason=one_line(mine[0].reason, 300))
    return proposal


def _refuse_decided(proposal: Proposal, verb: str) -> None:
    if proposal.state == "withdrawn":
        raise ProposalWithdrawn(proposal=proposal.id, by=proposal.by, reason=one_line(proposal.reason, 300))
    if proposal.decided:
        said = f"Cannot {verb} proposal {proposal.id}: {proposal.by} fulfilled it before"
        raise ProposalEnded(said, proposal=proposal.id, by=proposal.by)
