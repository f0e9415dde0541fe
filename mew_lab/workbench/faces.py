"""What stands on the card of a proposal, and what was it like the last time?  Pure but for what it remembers.

It decides nothing and sends nothing. A card is made once, from the proposal's own text, and compared with the last
request for the same tool of the same target that went through the space before it.

Spec: §3.2; threats 14, 16.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mew_lab.errors import MewError, ToolFailed
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.proposals import Proposal, shown
from mew_lab.sdk.results import result_of
from mew_lab.workbench.cards import Card
from mew_lab.workbench.risks import risks, risks_of_title
from mew_lab.workbench.sources import Sources

__all__ = ["LastCalls", "arguments_of", "card_of", "outcome_of", "written"]

MAX_CALLS = 500  # targets and tools whose last call is remembered
MAX_TEXT = 200_000  # characters of one call; of a longer one nothing is remembered

Rows = tuple[tuple[str, str], ...]


def written(value: Any) -> str:
    """A JSON value as the text that a card holds."""
    return json.dumps(value, ensure_ascii=False)


def arguments_of(payload: Mapping[str, Any], *, tool: str) -> dict[str, Any]:
    """Everything that will be sent, one row each: a tool's arguments by name, all else under its path."""
    rows: dict[str, Any] = {}
    rest: list[tuple[str, Any]] = []
    for key, value in payload.items():
        if key == "params" and isinstance(value, Mapping):
            for name, inner in value.items():
                if name == "arguments" and isinstance(inner, Mapping):
                    rows.update(inner)
                elif name != "name" or inner != tool:
                    rest.append((f"params.{name}", inner))
        elif key not in ("jsonrpc", "id", "method"):
            rest.append((key, value))
    for name, value in rest:
        rows[name if name not in rows else f"{name} (beside the arguments)"] = value
    return rows


class LastCalls:
    """The arguments of the last request for each tool of each target; the 500 that were used last."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[Any, ...], Rows] = OrderedDict()

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        payload = envelope.payload
        method = payload.get("method")
        if envelope.kind != "mcp/request" or not isinstance(method, str) or len(envelope.raw) > MAX_TEXT:
            return
        params = payload.get("params")
        name = params.get("name") if isinstance(params, Mapping) else None
        tool = name if isinstance(name, str) else ""
        rows = tuple((key, written(value)) for key, value in arguments_of(payload, tool=tool).items())
        key = (tuple(sorted(envelope.to)), method, tool)
        self._last[key] = rows
        self._last.move_to_end(key)
        if len(self._last) > MAX_CALLS:
            self._last.popitem(last=False)

    def of(self, proposal: Proposal) -> Rows | None:
        """The last call like the proposed one; None when there was none."""
        return self._last.get((tuple(sorted(proposal.to)), proposal.method, proposal.tool))


def card_of(
    proposal: Proposal,
    *,
    since: float,
    of_the_tool: tuple[str, ...],
    sources: Sources,
    last: Rows | None,
    why: str = "",
) -> Card | None:
    """The card of a new proposal; None when its text can be read in two ways, so that nobody may approve it."""
    try:
        payload = shown(proposal.envelope)["payload"]
        digest = proposal.digest
    except MewError:
        return None
    arguments = arguments_of(payload, tool=proposal.tool)
    title = risks_of_title(
        tool=proposal.tool, method=proposal.method, to=proposal.to, proposer=proposal.proposer
    )
    return Card(
        id=proposal.id,
        seq=proposal.seq,
        proposer=proposal.proposer,
        to=proposal.to,
        method=proposal.method,
        tool=proposal.tool,
        arguments=tuple((name, written(value)) for name, value in arguments.items()),
        digest=digest,
        since=since,
        warnings=(
            *of_the_tool,
            *title,
            *sources.quoted_in(arguments, by=proposal.proposer),
            *risks(arguments),
        ),
        last=last,
        why=why,
    )


def outcome_of(proposal: Proposal) -> str:
    """What came of it, as one line; empty while there is no answer."""
    if proposal.response is None:
        return ""
    try:
        what = proposal.tool or proposal.method
        result = result_of(proposal.response.payload, method=proposal.method, what=what)
    except ToolFailed as fault:
        return one_line(str(fault), 160)
    text = result if isinstance(result, str) else getattr(result, "text", None) or compact(result)
    return one_line(text, 160)
