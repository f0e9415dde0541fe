"""What stands on the card of a proposal, and what was it like the last time?  Pure but for what it remembers.

It decides nothing and sends nothing. A card is made once, from the proposal's own text, and compared with the last
request for the same tool of the same target that went through the space before it.

Spec: §3.2; threats 14, 16, 35.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from mew_lab.errors import MewError, ToolFailed
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.risks import alike, risks, risks_of_title
from mew_lab.lab.decisions.sources import Sources
from mew_lab.ledger.calls import Proposal
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.decisions import rebuild_proposed
from mew_lab.sdk.request_rows import (
    Rows,
    argument_of,
    find_mismatch,
    is_routine,
    row_name,
    rows_of,
)
from mew_lab.sdk.results import result_of

__all__ = ["LastCalls", "answer_of", "card_of", "dangers", "details"]

MAX_CALLS = 500  # targets and tools whose last call is remembered
MAX_TEXT = 200_000  # characters of one call; of a longer one nothing is remembered
MOST_BESIDE = 10  # remarks about the request itself

_PARAMS = "/payload/params"
_EXPECTED = ("/payload", "/payload/jsonrpc", "/payload/id", "/payload/method", _PARAMS)
_OF_A_CALL = (f"{_PARAMS}/name", f"{_PARAMS}/arguments", f"{_PARAMS}/_meta")


def details(rows: Rows) -> Rows:
    """The rows that say more than the title of a card."""
    return tuple(row for row in rows if not is_routine(*row))


def values_of(rows: Rows) -> dict[str, Any]:
    """The values by the names under which they are shown, and the names of arguments that are shown otherwise."""
    values = {row_name(pointer): json.loads(text) for pointer, text in rows}
    for pointer, _ in rows:
        name = argument_of(pointer)
        if name is not None and name != row_name(pointer):
            values.setdefault(f"name of {row_name(pointer)}", name)
    return values


def dangers(rows: Rows) -> tuple[str, ...]:
    """What is risky in anything that would be sent but the ids that are ours."""
    return risks(values_of(tuple(row for row in rows if row[0] != "/payload/id")))


class LastCalls:
    """The arguments of the last request for each tool of each target; the 500 that were used last."""

    def __init__(self) -> None:
        self._last: BoundedDict[tuple[Any, ...], Rows] = BoundedDict(MAX_CALLS, refresh=True)

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        payload = envelope.payload
        method = payload.get("method")
        if envelope.kind != "mcp/request" or not isinstance(method, str) or len(envelope.raw) > MAX_TEXT:
            return
        params = payload.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        tool = name if isinstance(name, str) else ""
        rows = details(rows_of({"to": envelope.to, "payload": payload}))
        key = (tuple(sorted(envelope.to)), method, tool)
        self._last[key] = rows

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
    request_id: str,
    logical: Callable[[str], str] = lambda id: id,
    present: Iterable[str] = (),
    why: str = "",
) -> Card | None:
    """The card of a new proposal; None when its text can be read in two ways, so that nobody may approve it.

    `request_id` is the id under which the request will be sent; `logical` gives the participant that an id means;
    `present` are the ids of those that are in the space.
    """
    try:
        request = rebuild_proposed(proposal, id=request_id)
        digest = proposal.digest
        rows = rows_of(request)
    except MewError:
        return None
    names = {id: logical(id) for id in (proposal.proposer, *proposal.to)}
    title = risks_of_title(
        tool=proposal.tool, method=proposal.method, to=proposal.to, proposer=proposal.proposer
    )
    warnings = (
        *of_the_tool,
        *_beside(proposal, rows, names),
        *title,
        *alike((proposal.proposer, *proposal.to), "participant", among=present),
        *alike(filter(None, (argument_of(pointer) for pointer, _ in rows)), "argument"),
        *sources.quoted_in(values_of(details(rows)), by=proposal.proposer),
        *dangers(rows),
    )
    return Card(
        id=proposal.id,
        seq=proposal.seq,
        proposer=proposal.proposer,
        to=proposal.to,
        method=proposal.method,
        tool=proposal.tool,
        arguments=rows,
        digest=digest,
        since=since,
        warnings=warnings,
        last=last,
        participants=tuple((id, name) for id, name in names.items() if id != name),
        request_id=request_id,
        refusal=find_mismatch(rows, request),
        why=why,
    )


def _beside(proposal: Proposal, rows: Rows, names: dict[str, str]) -> tuple[str, ...]:
    """What is unusual in the request itself, rather than in its arguments."""
    found = []
    if proposal.anew:
        found.append("another proposal under the same id: its proposer has used the id before")
    if any(names[one] == names[proposal.proposer] for one in proposal.to):
        found.append("the proposer is one of those who would run it: its answer may be taken for the outcome")
    said = dict(rows)
    if (version := said.get("/payload/jsonrpc")) not in ('"2.0"', None):
        found.append(f"the member jsonrpc is {one_line(version, 40)}; the protocol wants “2.0”")
    call = proposal.method == "tools/call"
    for pointer, _ in rows:
        known = pointer in _EXPECTED or argument_of(pointer) is not None or pointer == "/to"
        inside = pointer.startswith(f"{_PARAMS}/") and (not call or pointer in _OF_A_CALL)
        if not known and not inside:
            found.append(f"sent beside the call: {one_line(row_name(pointer), 60)}")
    return (*found[:MOST_BESIDE], *(["more is sent beside the call"] if len(found) > MOST_BESIDE else []))


def answer_of(response: Envelope, *, method: str, what: str) -> str:
    """What an answer says, as one line."""
    try:
        result = result_of(response.payload, method=method, what=what)
    except ToolFailed as fault:
        return one_line(str(fault), 160)
    text = result if isinstance(result, str) else getattr(result, "text", None)
    text = text or compact(response.payload.get("result"))
    return one_line(text, 160)
