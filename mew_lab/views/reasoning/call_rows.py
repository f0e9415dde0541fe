"""Says in words what the ledger knows of a call: one row for each call that was made while somebody reasoned.

`row_of` makes the row of a new call, `changed` the next one after each change of the ledger. Both are pure, and a row is
bounded whatever a peer has said.

Spec: §3.2.1, §3.3, ruling R17.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mew_lab.ledger.calls import Change, Proposal, Request
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.describe import describe
from mew_lab.protocol.text import cut, cut_names
from mew_lab.protocol.visible import one_line

__all__ = ["CallRow", "CallState", "changed", "row_of"]

MAX_CLAIMS = 5  # kept of one call
MAX_TO = 16  # addressees of a call
MAX_WORD = 256  # characters of a method, or of a tool's name
RESULT = 200  # characters of a result that are kept
TAKEN = "its id was taken by a later call"

CallState = Literal["proposed", "waiting", "answered", "failed", "rejected", "withdrawn", "refused"]
_CLAIMS = {
    "mcp/request": "to fulfil it",
    "mcp/response": "to answer it",
    "mcp/reject": "to reject it",
    "mcp/withdraw": "to withdraw it",
    "mcp/proposal": "its id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call as it stands; a change is a new row with the same id.

    `state` is `proposed` while nobody has decided, `waiting` while the tool has not answered. `by` is who decided,
    `ended` when it ended (epoch, seconds), `result` one line of the answer or the reason, `result_seq` the row of the
    feed with the whole of it. `claims` are what others said about it that nobody has to believe.
    """

    id: str
    sender: str
    to: tuple[str, ...]
    method: str
    tool: str
    state: CallState
    by: str = ""
    ended: float | None = None
    result: str = ""
    result_seq: int = 0
    claims: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in ("proposed", "waiting")


def row_of(call: Request | Proposal) -> CallRow:
    """The row of a call that was just made, or that the gateway has refused."""
    entry = call.entry
    row = CallRow(
        id=call.id,
        sender=entry.sender,
        to=cut_names(call.to, most=MAX_TO),
        method=cut(call.method, MAX_WORD),
        tool=cut(call.tool, MAX_WORD),
        state="proposed" if isinstance(call, Proposal) else "waiting",
    )
    if call.state != "refused":
        return row
    return replace(row, state="refused", by="the gateway", ended=entry.t, result=one_line(entry.code))


def changed(row: CallRow, change: Change) -> CallRow:
    """The row after a change of its call."""
    entry, call = change.entry, change.call
    match change.what:
        case "fulfilled":
            return replace(row, state="waiting", by=entry.sender, ended=None, result="")
        case "answered":
            answer = one_line(describe(entry.kind, entry.payload), RESULT)
            state: CallState = "failed" if call.failed else "answered"
            return replace(row, state=state, ended=entry.t, result=answer, result_seq=entry.seq)
        case "rejected" | "withdrawn" as state:
            return replace(row, state=state, by=entry.sender, ended=entry.t, result=_reason(entry))
        case "claimed" if len(row.claims) < MAX_CLAIMS:
            claim = f"{one_line(entry.sender, 64)} claims {_CLAIMS[entry.kind]}"
            return replace(row, claims=(*row.claims, claim))
        case "proposed" | "requested" if row.is_open:
            return replace(row, state="withdrawn", by=entry.sender, ended=entry.t, result=TAKEN)
    return row


def _reason(entry: Entry) -> str:
    reason = entry.payload.get("reason")
    return one_line(reason, RESULT) if isinstance(reason, str) else ""
