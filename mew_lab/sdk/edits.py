"""What would be sent if a person changed what is proposed, and said yes to that?  Pure: a proposal in, data out.

Only `params` can be changed, and not the tool's name in it: with another target, method or tool it would be no
fulfilment but something that nobody proposed. What is confirmed has a digest of its own, made of the changed bytes.

Spec: §3.2.1, ruling R17; threat 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import LocalProtocolError
from mew_lab.ledger.calls import Proposal, shown
from mew_lab.protocol.difference import Difference, differences
from mew_lab.protocol.envelope import compact, digest, read_strict

__all__ = ["Edit", "edited"]


class Edit(NamedTuple):
    """A changed proposal: `digest` is the SHA-256 of the canonical form of what is shown of it, `params` a copy."""

    digest: str
    params: dict[str, Any]
    difference: tuple[Difference, ...]


def edited(proposal: Proposal, params: Mapping[str, Any]) -> Edit:
    """The proposal with other `params`, which are read as strictly as a message is.

    Raises:
        LocalProtocolError: they are no JSON, name another tool, or change nothing.
    """
    before = shown(proposal.envelope)
    text = compact({"params": dict(params)})
    after = read_strict(text, limit=4 * len(text) + 1)["params"]
    old = before["payload"].get("params")
    name = old.get("name") if isinstance(old, dict) else None
    if isinstance(name, str) and after.get("name") != name:
        raise LocalProtocolError(
            f"Cannot edit proposal {proposal.id}: it is for {name}, and a fulfilment cannot run another tool. "
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
