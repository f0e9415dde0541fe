"""Makes the table of the tool calls of coding agents: the same columns for each way in which a log has them.

An agent's own session has its calls as requests. In the journal of a space, an agent that speaks the Agent Client
Protocol tells of its calls in its reasoning: the newest state of each, and whether it asked for permission of it. It
names no tool, only the kind of a call. The proposal of a permission refers to a message about its call. What a log does
not have is missing here.

Spec: §3.5, ruling R41.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from mew_lab.ledger.options import PermissionRequest, decision_of, read_permission
from mew_lab.log.numbering import numbered
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["tool_calls_of"]

MAX_CALLS: Final = 200_000
MAX_TEXT: Final = 200
_STATES: Final = {"completed": "answered", "failed": "failed", "pending": "waiting", "in_progress": "waiting"}


class CallLog(Protocol):
    """The log of which the calls are told."""

    vantage: Any

    @property
    def sign(self) -> str: ...
    @property
    def records(self) -> Iterable[Record]: ...
    def requests(self) -> pd.DataFrame: ...
    def proposals(self) -> pd.DataFrame: ...
    def decisions(self) -> pd.DataFrame: ...


class AgentToolCall(NamedTuple):
    """A tool call: its number, time and agent, its tool, and what became of it.

    `asked` says whether somebody was asked about it, as far as the log tells; `latency` are seconds to its end.
    `decision` is the newest one on it, such as `allowed` or `rejected`, and `decided_by` the participant that made it;
    both are empty where there is none.
    """

    seq: int
    time: Any
    agent: str
    id: str
    tool: str
    title: str
    state: str
    latency: float | None
    asked: bool | None
    decision: str = ""
    decided_by: str = ""


def tool_calls_of(log: CallLog) -> pd.DataFrame:
    """The tool calls, one row for each, in the order in which they began."""
    import pandas as pd

    from mew_lab.log.shown_frame import ShownFrame

    rows = sorted(_requested(log) if log.vantage == "agent" else _told(log), key=lambda row: row.seq)
    types = {"seq": "int64", "time": "datetime64[us, UTC]", "latency": "float64", "asked": "boolean"}
    made = {
        name: pd.Series([getattr(row, name) for row in rows], dtype=types.get(name, "object"))
        for name in AgentToolCall._fields
    }
    return ShownFrame(made)


def _requested(log: CallLog) -> Iterable[AgentToolCall]:
    """The calls of an agent's own session; one with a recorded decision began with its proposal."""
    requests, proposals = log.requests(), log.proposals()
    carried_out = set(proposals["request"]) - {""}
    for row in requests.to_dict("records"):
        if row["id"] not in carried_out and row["method"] == "tools/call":
            yield _row(row, row["from"], row["state"], row["failed"], row["latency"], None)
    answers = {row["id"]: row for row in requests.to_dict("records")}
    for row in proposals.to_dict("records"):
        answer = answers.get(row["request"], {})
        latency = answer.get("latency") if answer else None
        call = _row(row, row["from"], row["state"], row["failed"], latency, True)
        if row["state"] == "rejected" or row["request"]:
            decision = "rejected" if row["state"] == "rejected" else "allowed"
            call = call._replace(decision=decision, decided_by=row["decided_by"])
        yield call


def _row(
    row: dict[Any, Any], agent: str, state: str, failed: Any, latency: Any, asked: bool | None
) -> AgentToolCall:
    ended = "failed" if state == "answered" and failed is True else state
    known = latency if isinstance(latency, float) and latency == latency else None
    return AgentToolCall(row["seq"], row["time"], agent, row["id"], row["tool"], "", ended, known, asked)


def _told(log: CallLog) -> Iterable[AgentToolCall]:
    """The calls that agents tell in their reasoning."""
    calls: dict[tuple[str, str], AgentToolCall] = {}
    shown: BoundedDict[str, tuple[str, str]] = BoundedDict(MAX_CALLS)  # a message about a call -> its key
    questions: BoundedDict[str, tuple[tuple[str, str], PermissionRequest]] = BoundedDict(MAX_CALLS)
    for entry in numbered(log.records, sign=log.sign):
        if entry.kind == "mcp/proposal" and entry.verdict != "refused":
            about = next((shown[id] for id in entry.correlation_id if id in shown), None)
            asked_for = read_permission(entry.sender, entry.to, entry.payload)
            if about is not None and about[0] == entry.sender and asked_for is not None:
                questions[entry.id] = about, asked_for
            continue
        told = entry.payload.get("tool_call") if entry.kind == "reasoning/thought" else None
        if type(told) is not dict or type(id := told.get("id")) is not str or entry.verdict == "refused":
            continue
        status, asked = told.get("status"), told.get("asked")
        shown[entry.id] = entry.sender, id
        before = calls.get((entry.sender, id))
        if before is None and len(calls) >= MAX_CALLS:
            continue
        state = _STATES.get(status, "waiting") if isinstance(status, str) else "waiting"
        began = entry.t if before is None else before.time.timestamp()
        calls[entry.sender, id] = AgentToolCall(
            entry.seq if before is None else before.seq,
            entry.record.now if before is None else before.time,
            entry.sender,
            one_line(id, MAX_TEXT),
            _line(told.get("kind")) or "tool",
            _line(told.get("title")),
            state,
            None if state == "waiting" else max(0.0, entry.t - began),
            asked if type(asked) is bool else None,
        )
    for row in log.decisions().to_dict("records") if questions else ():
        key, permission = questions.get(row["proposal"], (("", ""), None))
        if permission is None or key not in calls or row["proposer"] != key[0] or row["outcome"] == "failed":
            continue
        decision = decision_of(permission.find(row["option"]), is_rejected=row["outcome"] == "rejected")
        if decision and row["decided_by"]:
            calls[key] = calls[key]._replace(decision=decision, decided_by=row["decided_by"])
    return calls.values()


def _line(value: object) -> str:
    return one_line(value, MAX_TEXT) if isinstance(value, str) else ""
