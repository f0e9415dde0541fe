"""Makes the request that fulfils a proposal: what is executed is what was shown.

Spec: §3.2.1, ruling R17.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.calls import Proposal, shown

__all__ = ["fulfilment", "requested"]


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
