"""The rows of the reasoning view: one for each sequence, step and call, with bounds for every text of a peer. Pure.

The ledger decides which step belongs to which sequence and how a sequence ended (`ledger.reasoning`), and knows the
state of a call (`ledger.calls`). `row_of` makes the row of a new call, and `apply_change` the row after a change.

Spec: §2 (context), §3.2.1, §3.3, §3.5, ruling R17.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mew_lab.ledger.calls import Change, Proposal, Request
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.options import decision_of
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.protocol.coerce import line_of, mapping_of
from mew_lab.protocol.describe import describe
from mew_lab.protocol.text import cut, cut_names
from mew_lab.protocol.visible import one_line

__all__ = [
    "CALL",
    "MAX_KIND",
    "MAX_NAMES",
    "MAX_TEXT",
    "CallRow",
    "CallState",
    "SequenceRow",
    "StepRow",
    "WorkRow",
    "apply_change",
    "cost_of",
    "decision_on",
    "read_work",
    "row_of",
    "text_of",
]

MAX_CLAIMS = 5  # of one call
MAX_TO = 16  # addressees of a call
MAX_TOOL = 256  # characters of a method, or of a tool's name
RESULT = 200  # characters of a result that are kept
TAKEN = "its id was taken by a later call"

CallState = Literal[
    "proposed", "waiting", "answered", "failed", "unknown", "resolved", "rejected", "withdrawn", "refused"
]
_CLAIMS = {
    "mcp/request": "to approve it",
    "mcp/response": "to answer it",
    "mcp/reject": "to reject it",
    "mcp/withdraw": "to withdraw it",
    "mcp/proposal": "its id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """The present state of one call; a change makes a new row with the same id.

    `state` is `proposed` before a decision and `waiting` before the answer. `by` is the participant that decided,
    `ended` the time of the end in seconds of the epoch. `result` is one line of the answer, or the reason; `result_seq`
    is the number of the feed's row with the whole answer. `claims` holds claims of other participants without effect.
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
        """Whether the call has not ended."""
        return self.state in ("proposed", "waiting")


def row_of(call: Request | Proposal) -> CallRow:
    """The row of a call that was just sent, that the gateway has refused, or that came too late."""
    entry = call.entry
    row = CallRow(
        id=call.id,
        sender=entry.sender,
        to=cut_names(call.to, most=MAX_TO),
        method=cut(call.method, MAX_TOOL),
        tool=cut(call.tool, MAX_TOOL),
        state="proposed" if isinstance(call, Proposal) else "waiting",
    )
    if call.state != "refused":
        return row
    if entry.refused:
        return replace(row, state="refused", by="the gateway", ended=entry.t, result=one_line(entry.code))
    assert isinstance(call, Request)  # a proposal never comes too late
    why = one_line(f"{call.late}; not executed", RESULT)
    return replace(row, state="refused", by="its executor", ended=entry.t, result=why)


def apply_change(row: CallRow, change: Change) -> CallRow:
    """The row of a call after one change of it."""
    entry, call = change.entry, change.call
    match change.what:
        case "fulfilled":
            return replace(row, state="waiting", by=entry.sender, ended=None, result="")
        case "answered":
            answer = one_line(describe(entry.kind, entry.payload), RESULT)
            if call.state == "refused":  # its row has said so since it came
                return row
            state: CallState = "failed" if call.failed else "answered"
            return replace(row, state=state, ended=entry.t, result=answer, result_seq=entry.seq)
        case "unknown":
            why = one_line(describe(entry.kind, entry.payload), RESULT) if call.response is not None else ""
            seq = entry.seq if call.response is not None else 0
            return replace(row, state="unknown", ended=entry.t, result=why, result_seq=seq)
        case "resolved":
            return replace(row, state="resolved", result=one_line(str(call.resolution), RESULT))
        case "withdrawn" if row.state == "rejected":  # its proposer gives up
            return row
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


MAX_TEXT = 350
MAX_KIND = 128
MAX_NAMES = 8


SIGNS = {"completed": "✓", "failed": "✗"}
DOING = "◌"
ENTRIES = 50  # of a plan that are shown
CALL = "call "  # begins the key of a tool call


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """What a thought of a coding agent tells of its work: a tool call in a state, or its plan.

    `key` is equal for the messages of one call or of the plan, so that one row shows the newest of them. `sign` and
    `state` are those of a call, `entries` the plan: pairs of a sign and a line, `left` how many more there are.
    `decision` is the newest one on a call, such as `allowed by ada`, as the ledger has it. `warning` is why it is to be
    seen, such as a call that ran without a question.
    """

    key: str = ""
    sign: str = ""
    state: str = ""
    text: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    left: int = 0
    decision: str = ""
    warning: str = ""


def read_work(entry: Entry) -> WorkRow | None:
    """What a message tells of the work of a coding agent; None for any other message. Each text is visible."""
    if entry.kind != "reasoning/thought":
        return None
    call, plan, warning = (entry.payload.get(name) for name in ("tool_call", "plan", "warning"))
    if isinstance(call, Mapping) and isinstance(id := call.get("id"), str):
        state = line_of(call.get("status"), 20) or "pending"
        kind = line_of(call.get("kind"), 40)
        title = line_of(call.get("title"), MAX_TEXT) or "untitled"
        asked = call.get("asked") is not False or state not in SIGNS
        return WorkRow(
            key=f"{CALL}{cut(id, 256)}",
            sign=SIGNS.get(state, DOING),
            state=state,
            text=f"{kind}: {title}" if kind else title,
            warning="" if asked else "not asked",
        )
    if isinstance(plan, list):
        entries = [mapping_of(one) for one in plan[:ENTRIES]]
        lines = [
            (SIGNS.get(line_of(one.get("status"), 20), DOING), line_of(one.get("content"), MAX_TEXT))
            for one in entries
        ]
        return WorkRow(key="plan", entries=tuple(lines), left=max(0, len(plan) - ENTRIES))
    if isinstance(warning, str) and warning:
        return WorkRow(warning=one_line(warning, MAX_TEXT))
    return None


def decision_on(proposal: Proposal) -> str:
    """The decision on a permission and its participant, such as `allowed by ada`; empty where there is none."""
    by = proposal.rejections[0].by if proposal.was_rejected else proposal.by
    option = None if proposal.failed else proposal.choice
    decision = decision_of(option, is_rejected=proposal.was_rejected)
    return f"{decision} by {one_line(by, 64)}" if decision else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One message of a sequence. `n` counts from 1 in the sequence, `seq` is its row in the feed, `t` is in seconds of
    the epoch.

    `path` is the part of the sequence that it belongs to, empty for the sequence itself. `more` is whether the text was
    cut. `call` is the row of a followed call, `child` the key of the sequence that the message starts. `id` is the id of
    the message; `work` what it tells of the work of a coding agent, `into` the step whose row shows that, 0 for its own.
    `tokens` and `took` (seconds) are what its participant reports of its cost. A step has at
    most 350 characters of text, 200 of path, 128 of kind and of each name, and 8 addressees.
    """

    n: int
    seq: int
    t: float
    sender: str
    kind: str
    path: str
    to: tuple[str, ...]
    text: str
    more: bool
    call: CallRow | None = None
    child: int = 0
    id: str = ""
    tokens: int | None = None
    took: float | None = None
    work: WorkRow | None = None
    into: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRow:
    """One sequence: its `facts` in the ledger, and the members that the view adds.

    `text` is the message of its start, `more` whether that was cut. `dropped` counts the steps that are no longer held;
    `thoughts` and `calls` count steps of these kinds. `open_calls` counts the calls without an answer or a decision.
    `tokens` is the sum of what its steps report; None where none does.
    """

    facts: ReasoningSequence
    text: str = ""
    more: bool = False
    dropped: int = 0
    thoughts: int = 0
    calls: int = 0
    open_calls: int = 0
    tokens: int | None = None


def cost_of(entry: Entry) -> tuple[int | None, float | None]:
    """The tokens and the seconds that a message of reasoning reports of its step; None for what it does not report.

    Tokens are a number `tokens`, or an object `usage` with `total_tokens`, or with those of input and output under the
    names of the usual servers. Seconds are `duration_ms`.
    """
    if not entry.kind.startswith("reasoning/"):
        return None, None
    usage, tokens = entry.payload.get("usage"), _count(entry.payload.get("tokens"))
    if isinstance(usage, Mapping):
        total = _count(usage.get("total_tokens"))
        parts = [
            _count(usage.get("input_tokens", usage.get("prompt_tokens"))),
            _count(usage.get("output_tokens", usage.get("completion_tokens"))),
        ]
        known = [part for part in parts if part is not None]
        tokens = total if total is not None else sum(known) if known else tokens
    taken = entry.payload.get("duration_ms")
    if isinstance(taken, bool) or not isinstance(taken, int | float) or not 0 <= taken < 1e10:
        return tokens, None
    return tokens, taken / 1000


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else None


def text_of(entry: Entry) -> tuple[str, bool]:
    """The text of a message in at most 350 characters, and whether the message has more."""
    message = entry.payload.get("message" if entry.kind.startswith("reasoning/") else "text")
    if entry.kind != "reasoning/cancel" and isinstance(message, str) and message:
        return one_line(message.strip(), MAX_TEXT), len(message.strip()) > MAX_TEXT
    shown = describe(entry.kind, entry.payload)
    return one_line(shown, MAX_TEXT), entry.kind in ("mcp/request", "mcp/proposal") or "…" in shown
