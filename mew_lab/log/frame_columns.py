"""The columns of the frames of a log, as data: what a row of each frame is, and what each column means.

A frame is a name, a line of text and a list of columns. A column is a name, a pandas type, a unit, a line of text and
one function of a row (`log.ledger_rows`). A user may pass another list of columns in place of those in `FRAMES`.

Spec: §3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter as _get  # of many rows, in half the time of a lambda
from typing import Any, NamedTuple

from mew_lab.ledger.calls import Proposal, Request, error_text, is_failure, method_of, tool_of
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.options import PermissionOption, chosen_option
from mew_lab.ledger.unknown_calls import arguments_of, call_key
from mew_lab.log.decision_note import ReceiptTool
from mew_lab.log.entries import GRANT, SOURCE, lacks, owner_of, seconds_between
from mew_lab.log.ledger_rows import (
    ChatMessageRow,
    DecisionRow,
    ProposalRow,
    RequestRow,
    TelemetryRow,
    VerdictRow,
    whole_number,
)
from mew_lab.log.listed_tools import ToolEntry
from mew_lab.log.receipts import misfit
from mew_lab.log.usage import ModelUsage, usage_of
from mew_lab.protocol.decision_ways import WAYS
from mew_lab.protocol.difference import ABSENT
from mew_lab.protocol.families import FAMILIES
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.text import cut
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import outline

__all__ = ["FRAMES", "FrameColumn", "FrameSpec", "describe_frames"]

_SOURCE = (
    "the origin of that permission: `configuration`, `grant`, `invitation`, `given` (one of these two; which is not "
    "recorded), `own` where it needed none; empty where not recorded"
)
_OPTION_ID = "the id of the option that it chose of the permission of an agent; empty where there is none"
MAX_VALUE = 200  # characters of an edited value, and of an error
MAX_ARGUMENTS = 16_384  # characters of a message whose arguments a row holds
_TIME = "datetime64[us, UTC]"


class FrameColumn(NamedTuple):
    """One column of a frame.

    `dtype` is the pandas name of its type: `object` for text (`""` where there is none) and tuples; `Int64`, `boolean`,
    `float64` and times are missing where a value is not known. `unit` is empty where a value has none. `about` is one
    line on its meaning. `value` is the function of a row. `several` is set where it returns a tuple of texts.
    """

    name: str
    dtype: str
    unit: str
    about: str
    value: Callable[[Any], Any]
    several: bool = False


class FrameSpec(NamedTuple):
    """One frame: what a row of it is, and its columns; `shown` are those that a wide one displays by default."""

    name: str
    about: str
    columns: tuple[FrameColumn, ...]
    shown: tuple[str, ...] = ()

    def __str__(self) -> str:
        wide = max(len(column.name) for column in self.columns)
        lines = [f"log.{self.name}(): {self.about}"]
        for column in self.columns:
            unit = f" [{column.unit}]" if column.unit else ""
            lines.append(f"  {column.name:{wide}}  {column.about}{unit}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


# --- columns by their types ---


def _text(name: str, about: str, value: Callable[[Any], str]) -> FrameColumn:
    return FrameColumn(name, "object", "", about, value)


def _texts(name: str, about: str, value: Callable[[Any], tuple[str, ...]]) -> FrameColumn:
    return FrameColumn(name, "object", "", about, value, several=True)


def _time(name: str, about: str, value: Callable[[Any], datetime | None]) -> FrameColumn:
    return FrameColumn(name, _TIME, "UTC", about, value)


def _seconds(name: str, about: str, value: Callable[[Any], float | None]) -> FrameColumn:
    return FrameColumn(name, "float64", "s", about, value)


def _count(name: str, unit: str, about: str, value: Callable[[Any], int]) -> FrameColumn:
    return FrameColumn(name, "int64", unit, about, value)


def _number(name: str, unit: str, about: str, value: Callable[[Any], int | None]) -> FrameColumn:
    return FrameColumn(name, "Int64", unit, about, value)


def _flag(name: str, about: str, value: Callable[[Any], bool]) -> FrameColumn:
    return FrameColumn(name, "bool", "", about, value)


def _maybe(name: str, about: str, value: Callable[[Any], bool | None]) -> FrameColumn:
    return FrameColumn(name, "boolean", "", about, value)


# --- values of several frames ---


def _at(path: str, missing: Any = "") -> Callable[[Any], Any]:
    """A function of a row: the attribute at this path, or `missing` where one on the way to it is None."""
    *before, last = path.split(".")

    def value(row: Any) -> Any:
        for name in before:
            row = getattr(row, name)
            if row is None:
                return missing
        return getattr(row, last)

    return value


def _len(path: str) -> Callable[[Any], int]:
    several = _at(path, ())
    return lambda row: len(several(row))


def _names(path: str) -> Callable[[Any], tuple[str, ...]]:
    """The participants that sent the receipts at a path."""
    several = _at(path, ())
    return lambda row: tuple(one.by for one in several(row))


def _moment(path: str) -> Callable[[Any], datetime | None]:
    """The time at a path, which is in seconds since 1970."""
    seconds = _at(path)
    return lambda row: _time_at(seconds(row))


def _between(began: str, ended: str) -> Callable[[Any], float | None]:
    """The seconds from one time to another, which is missing where one of them is not known."""
    first, last = _at(began, None), _at(ended, None)

    def lasted(row: Any) -> float | None:
        start, end = first(row), last(row)
        return None if start is None or end is None else max(0.0, end - start)

    return lasted


def _has(path: str) -> Callable[[Any], bool]:
    value = _at(path, None)
    return lambda row: bool(value(row))


def _member(path: str, name: str, missing: str = "") -> Callable[[Any], str]:
    """The member of that name of the object at a path, where it is a text."""
    members = _get(path)

    def text(row: Any) -> str:
        value = members(row).get(name)
        return value if isinstance(value, str) else missing

    return text


def _line(path: str, name: str) -> Callable[[Any], str]:
    """The same in one line of at most 200 characters."""
    text = _member(path, name)
    return lambda row: one_line(text(row), MAX_VALUE)


def _time_at(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _answered(call: Request | Proposal | None) -> Entry | None:
    """The answer that settled a call; None where there is none, such as of an unknown one."""
    return call.response if call is not None and call.state == "answered" else None


def _latency(began: str, call: str) -> Callable[[Any], float | None]:
    """The seconds from the message at one path to the answer that settled the call at another."""
    opened, settled = _at(began, None), _at(call, None)

    def lasted(row: Any) -> float | None:
        first, answer = opened(row), _answered(settled(row))
        return None if first is None or answer is None else seconds_between(first, answer)

    return lasted


def _failed(row: RequestRow | ProposalRow) -> bool | None:
    answer = _answered(row.call)
    return None if answer is None else is_failure(answer.payload)


def _write(value: Any) -> str:
    """A value as JSON in one line of at most 200 characters."""
    return "absent" if value is ABSENT else cut(_json(value), MAX_VALUE)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _patterns(path: str) -> Callable[[Any], tuple[str, ...]]:
    several = _at(path, ())
    return lambda row: tuple(map(_json, several(row)))


def _opening(what: str) -> tuple[FrameColumn, ...]:
    """The columns of the message that a row of `RequestRow`, `ProposalRow` or `ChatMessageRow` begins with."""
    return (
        _count("seq", "", f"the {what}'s place in the journal, as in log.df", _get("opened.record.seq")),
        _time("time", "the time when the gateway received it", _get("opened.record.now")),
        _text("id", "its id", _get("opened.id")),
        _text("from", "its sender", _get("opened.sender")),
        _texts("to", "its addressees, a tuple", _get("opened.to")),
    )


def _call(of: Callable[[Any], Entry], method: str, tool: str) -> tuple[FrameColumn, ...]:
    """The columns of the call in a message, which `of` gives of a row."""

    def called(row: Any) -> str:
        payload = of(row).payload
        return (tool_of(payload) or "") if method_of(payload) == "tools/call" else ""

    return _text("method", method, lambda row: method_of(of(row).payload)), _text("tool", tool, called)


def _error(call: str, about: str) -> FrameColumn:
    response = _at(f"{call}.response", None)

    def error(row: Any) -> str:
        answer = response(row)
        if answer is None:
            return ""
        unknown = unknown_outcome(answer.payload)
        if not unknown and not is_failure(answer.payload):
            return ""
        return one_line(error_text(answer), MAX_VALUE) or (f"its answer {unknown}" if unknown else "error")

    return _text("error", f"the text of {about}, or of an answer that tells no outcome, in one line", error)


def _resolution(call: str) -> FrameColumn:
    found = _at(f"{call}.resolution", None)

    def resolution(row: Any) -> str:
        value = found(row)
        return "" if value is None else one_line(str(value), MAX_VALUE)

    return _text("resolution", "what a person found out about an unknown outcome, in one line", resolution)


_CALL = (
    *_call(_get("opened"), "its MCP method", "the tool that it calls"),
    _text("context", "its context", _get("opened.context")),
)


# --- requests ---


REQUESTS = FrameSpec(
    "requests",
    "one row for each request, refused ones and notifications too",
    (
        *_opening("request"),
        *_CALL,
        _text(
            "state",
            "`waiting`, `answered`, `unknown` (whether it took effect), `resolved` (a person found out), `sent` (a "
            "notification), `refused` (by the gateway, or because it came too late), `claimed` (its id is another's)",
            _get("state"),
        ),
        _seconds("latency", "from the request to its answer", _latency("opened", "call")),
        _text("answered_by", "the participant that answered it", _at("call.response.sender")),
        _number("answer", "", "the answer's place in the journal", _at("call.response.record.seq", None)),
        _count("answers", "messages", "addressees that answered it, at most 5", _len("call.answers")),
        _maybe(
            "failed",
            "whether the answer is an error, of the protocol or of the tool; missing where the outcome is unknown",
            _failed,
        ),
        _error("call", "that error"),
        _resolution("call"),
        _texts(
            "proposals",
            "the ids of the proposals that it approved, a tuple",
            lambda r: tuple(p.opened.id for p in r.proposals),
        ),
        _text("code", "the reason of a refusal by the gateway", _get("opened.code")),
        _text("pattern", "the permission that let it pass, as JSON", _get("opened.pattern")),
        _text(
            "grant",
            "the id of the message that gave that permission; empty where there was none or it is not recorded",
            _get("opened.grant"),
        ),
        _text("source", _SOURCE, _get("origin.source")),
        _count("claims", "messages", "messages that refer to it and changed nothing", _len("call.claims")),
    ),
)


# --- proposals ---


def _of_decision(row: ProposalRow, name: str) -> str:
    """What the ledger says of the decision on a proposal, or of the first rejection."""
    call = row.call
    if call is None:
        return ""
    text = getattr(call, name) or (getattr(call.rejections[0], name) if call.rejections else "")
    return str(text)


def _edited(row: ProposalRow) -> bool | None:
    return None if row.call is None or row.call.request is None else row.call.edited


def _changes(row: ProposalRow) -> tuple[str, ...]:
    places = (row.call.difference or ()) if row.call is not None else ()
    return tuple(f"{place.path}: {_write(place.proposed)} → {_write(place.sent)}" for place in places)


def _option(row: ProposalRow | None) -> PermissionOption | None:
    """The option that the decision on a permission chose: a request, or a rejection that means one. Spec: R41."""
    call = row.call if row is not None else None
    asked = call.permission if call is not None else None
    if call is None or asked is None:
        return None
    return asked.rejection if call.was_rejected else call.choice


PROPOSALS = FrameSpec(
    "proposals",
    "one row for each proposal, refused ones too",
    (
        *_opening("proposal"),
        *_CALL,
        _text(
            "state",
            "`open`, `rejected`, `fulfilled` (approved), `answered`, `unknown` (whether it took effect), "
            "`resolved` (a person found out), `withdrawn`, `refused` (by the gateway), `claimed`",
            _get("state"),
        ),
        _seconds("latency", "from the proposal to the first decision on it", _at("pair.seconds", None)),
        _text(
            "decided_by",
            "the participant that approved or withdrew it, or was the first to reject it",
            lambda r: _of_decision(r, "by"),
        ),
        _text(
            "policy",
            "the policy that decided for that participant; empty where a person did",
            _at("note.policy"),
        ),
        _number(
            "on_screen", "ms", "how long the card was shown before the click", _at("note.on_screen", None)
        ),
        _text("request", "the id of the request that approved it", _at("call.request.id")),
        _text("option", _OPTION_ID, lambda r: option.id if (option := _option(r)) else ""),
        _text("option_name", "its name", lambda r: option.name if (option := _option(r)) else ""),
        _maybe(
            "edited",
            "whether that request differs from the proposal; missing where they were too large to compare",
            _edited,
        ),
        _texts("changes", "what was edited, a tuple of “place: proposed → sent”", _changes),
        _text("answered_by", "the participant that answered that request", _at("call.response.sender")),
        _number("answer", "", "the answer's place in the journal", _at("call.response.record.seq", None)),
        _seconds("answer_latency", "from that request to its answer", _latency("call.request", "call")),
        _maybe("failed", "whether the answer is an error; missing where the outcome is unknown", _failed),
        _error("call", "that error"),
        _resolution("call"),
        _count("rejections", "messages", "rejections of it, by whomever", _len("call.rejections")),
        _text(
            "reason",
            "the reason of its withdrawal, or else of the first rejection",
            lambda r: _of_decision(r, "reason"),
        ),
        _text("code", "the reason of a refusal by the gateway", _get("opened.code")),
        _count(
            "claims",
            "messages",
            "messages that refer to it and changed nothing, such as a foreign withdraw",
            _len("call.claims"),
        ),
    ),
)


# --- decisions ---


def _chosen(row: DecisionRow) -> PermissionOption | None:
    if not row.is_decided:
        return None
    for call in (one.call for one in row.proposals):
        asked = call.permission if call is not None else None
        if asked is not None:
            return asked.rejection if row.request is None else chosen_option(asked, row.entry.payload)
    return None


def _outcome(row: DecisionRow) -> str:
    if row.request is None:
        return "rejected" if row.rejection is not None else _undecided(row)
    told = row.request.told
    if told is None:
        return row.request.state
    return "failed" if told.failed else told.state


def _undecided(row: DecisionRow) -> str:
    call = row.proposals[0].call
    if call is not None and call.state == "withdrawn":
        return "withdrawn"
    return "expired" if row.left or (call is not None and call.caller) else "open"


def _way(row: DecisionRow) -> str:
    if row.request is None:
        return ""
    if row.proposals:
        return "proposal"
    if row.entry.grant or lacks(row.entry.record, GRANT):
        return "grant"
    return "own" if row.entry.pattern and not lacks(row.entry.record, SOURCE) else ""


def _decision_edited(row: DecisionRow) -> bool | None:
    if row.request is None or not row.proposals:
        return None
    each = [_edited(proposal) for proposal in row.proposals]
    return True if any(each) else None if None in each else False


def _receipt(row: DecisionRow) -> str:
    return "" if row.note is None else "reported" if row.note.reported else "noted"


def _called(row: DecisionRow) -> Entry:
    """The request, or the proposal that was rejected."""
    return row.entry if row.request is not None else row.proposals[0].opened


def _decision_latency(row: DecisionRow) -> float | None:
    return seconds_between(row.proposals[0].opened, row.entry) if row.proposals and row.is_decided else None


def _proposed(row: DecisionRow) -> Entry | None:
    return row.proposals[0].opened if row.proposals else None


def _arguments(entry: Entry | None) -> str:
    """The arguments of a call as JSON; empty where there is no call, or they are too long."""
    if entry is None or len(entry.raw) > MAX_ARGUMENTS:
        return ""
    return _json(arguments_of(entry.payload))


def _tool(row: DecisionRow) -> ReceiptTool | ToolEntry | None:
    """The tool as it was shown: as the receipt states it, else as it was listed last before the proposal."""
    if row.note is not None and row.note.tool is not None:
        return row.note.tool
    return row.proposals[0].listed if row.proposals else row.listed


def _why_not(row: DecisionRow) -> str:
    """Why a rule learns nothing from a row; empty where it is a decision of a person."""
    if not row.proposals:
        return "it decided no proposal"
    if not row.is_decided:
        return "nobody decided it"
    call = row.proposals[0].call
    if call is None or call.permission is not None:
        return "it is a question with options"
    if row.note is None:
        return "no receipt tells how it was decided"
    if row.note.reported:
        return "a participant reported it itself"
    if (way := WAYS.get(row.note.how)) is None:
        return "its receipt does not tell how it was decided"
    if way.teaches_not or _called(row).payload.get("method") != "tools/call":
        return way.teaches_not or "it calls no tool"
    # A rejection sends nothing that could differ, and makes no rule wider.
    return misfit(row.note, row.entry, call) if row.request is not None else ""


DECISIONS = FrameSpec(
    "decisions",
    "one row for each request that reached its target, by whatever right, each rejection of a proposal, and each "
    "proposal that nobody decided",
    (
        _count(
            "seq",
            "",
            "the place of the request, the rejection or the undecided proposal in the journal",
            _get("entry.record.seq"),
        ),
        _time("time", "the time when the gateway received it", _get("entry.record.now")),
        _text("id", "the id of the request, the rejection or the undecided proposal", _get("entry.id")),
        _text("from", "its sender", _get("entry.sender")),
        _texts("to", "the targets of the call, a tuple", lambda r: _called(r).to),
        _text("target", "the participant that it goes to; empty for none or several", _get("target")),
        *_call(_called, "the MCP method of the call", "the tool of the call"),
        _text(
            "arguments",
            f"the arguments that were sent, as JSON; empty without a request, or over {MAX_ARGUMENTS} characters",
            lambda r: _arguments(r.entry if r.request is not None else None),
        ),
        _text(
            "proposed",
            "the arguments that were proposed, in the same form",
            lambda r: _arguments(_proposed(r)),
        ),
        _text(
            "call_digest",
            "the same for all calls of one method and tool with equal arguments; of the sent call, else the proposed",
            lambda r: call_key(_called(r).payload),
        ),
        _text(
            "tool_hash",
            "the SHA-256 of the tool's entry as it was shown, else as listed before; empty where none is known",
            lambda r: tool.sha256 if (tool := _tool(r)) else "",
        ),
        _texts(
            "tool_hints",
            "what that entry says of the tool, a tuple of `read-only`, `writes data`, `destructive`",
            lambda r: tool.hints if (tool := _tool(r)) else (),
        ),
        _flag(
            "executed",
            "whether the call was sent to its target and did not come too late; false for a rejection",
            lambda r: r.request is not None and r.request.state != "refused",
        ),
        _text(
            "outcome",
            "`answered`, `failed`, `unknown` (whether it took effect), `resolved` (a person found out), `waiting`, "
            "`sent` (a notification), `refused` (it came too late), `claimed` (its id is another's), `rejected`; of an "
            "undecided proposal `open`, `withdrawn`, `expired` (its proposer, or the program behind it, is gone)",
            _outcome,
        ),
        _seconds("latency", "from the request to its answer", _latency("entry", "request.told")),
        _error("request", "a failure"),
        _resolution("request.told"),
        _text(
            "way",
            "why it was executed: `own` (a configured permission), `grant`, `proposal`; empty where not recorded",
            _way,
        ),
        _text("pattern", "the permission that let the message pass, as JSON", _get("entry.pattern")),
        _text("source", _SOURCE, _get("origin.source")),
        _text(
            "profile",
            "the profile with which its sender was configured; empty for any other list",
            _get("origin.profile"),
        ),
        _text(
            "grant",
            "the id of the message that gave it; empty where there was none or it is not recorded (see `source`)",
            _get("entry.grant"),
        ),
        _text("given_by", "the participant that gave it", _get("origin.giver")),
        _text("given_for", "the reason that was stated with it", _get("origin.reason")),
        _number("given_at", "", "its place in the journal", _get("origin.seq")),
        _text(
            "proposal",
            "the id of the proposal that was decided; of the first where there are several",
            lambda r: r.proposals[0].opened.id if r.proposals else "",
        ),
        _count("proposals", "proposals", "how many proposals the message decided", _len("proposals")),
        _text(
            "proposer",
            "the sender of that proposal",
            lambda r: r.proposals[0].opened.sender if r.proposals else "",
        ),
        _text(
            "participant",
            "the participant that proposed it, whatever the id of its connection is",
            lambda r: owner_of(r.proposals[0].opened) if r.proposals else "",
        ),
        _text(
            "decided_by",
            "the participant that approved or rejected it; empty where no proposal was decided",
            lambda r: r.entry.sender if r.proposals and r.is_decided else "",
        ),
        _text(
            "how",
            "click, typed (by a person), editor, script, policy, rule or approver; empty without a receipt",
            _at("note.how"),
        ),
        _flag(
            "teaches", "whether a rule may learn from it: a person decided it here", lambda r: not _why_not(r)
        ),
        _text("teaches_not", "the reason why not; empty where it teaches", _why_not),
        _text(
            "receipt",
            "noted (by its lab, here), reported (by its sender), or empty: what was shown is not recorded",
            _receipt,
        ),
        _text("policy", "the name of the policy; empty where a person decided", _at("note.policy")),
        _text("policy_text", "the text of the policy", _at("note.policy_text")),
        _text("rule", "the SHA-256 of the rule that decided; empty where none did", _at("note.rule.sha256")),
        _text("rule_text", "the text of that rule", _at("note.rule.text")),
        _text(
            "rules_of",
            "the person whose rule it is, where an approver that she has seated decided; else empty",
            _at("note.rules_of"),
        ),
        _text("option", _OPTION_ID, lambda r: option.id if (option := _chosen(r)) else ""),
        _text("option_name", "its name", lambda r: option.name if (option := _chosen(r)) else ""),
        _text("digest", "the SHA-256 of what was shown, of the edit where it was edited", _at("note.digest")),
        _number("on_screen", "ms", "how long it was shown before the click", _at("note.on_screen", None)),
        _text(
            "old_file",
            "the path of the file that the call writes, by the receipt; empty where none is known",
            _at("note.file.path"),
        ),
        _number(
            "old_size",
            "bytes",
            "its size when the approval was sent; missing where there was no such file, or it was not read",
            _at("note.file.size", None),
        ),
        _text("old_sha256", "its SHA-256 at that time; empty where it was not read", _at("note.file.sha256")),
        _seconds("decision_latency", "from the proposal to this decision", _decision_latency),
        _maybe(
            "edited",
            "whether the request differs from a proposal; missing without one, or where they were too large to compare",
            _decision_edited,
        ),
        _texts(
            "changes",
            "what was edited, a tuple of “place: proposed → sent”",
            lambda r: tuple(c for p in (r.proposals if r.request else ()) for c in _changes(p)),
        ),
        _text("reason", "the reason of a rejection", _at("rejection.reason")),
    ),
)


# --- reasoning, streams, participants, grants, verdicts, chat ---


REASONING = FrameSpec(
    "reasoning",
    "one row for each sequence of reasoning",
    (
        _number(
            "seq",
            "",
            "the place of its start in the journal; missing where the log begins behind it",
            _get("seq"),
        ),
        _time(
            "time",
            "the time of its start, or of the first message that was seen of it",
            _moment("sequence.started"),
        ),
        _text("id", "the id of its start, which is the context of its messages", _get("sequence.id")),
        _text("from", "the participant that reasons", _get("sequence.owner")),
        _text("state", "active, concluded, cancelled, left", _get("sequence.state")),
        _seconds("seconds", "from its start to its end", _between("sequence.started", "sequence.ended")),
        _time("ended", "the time of its end", _moment("sequence.ended")),
        _text("ended_by", "the participant that ended it", _get("sequence.by")),
        _text("reason", "the reason of a cancel", _get("sequence.reason")),
        _count("steps", "messages", "messages that belong to it, its start aside", _get("sequence.steps")),
        _texts("about", "the ids that its start correlates to, a tuple", _get("sequence.about")),
        _text("parent", "the id of the sequence within which it began", _get("parent")),
        _text("path", "the part of the parent in which it began", _get("sequence.path")),
        _text("stream", "the id of the stream beside it", _get("sequence.stream")),
    ),
)

STREAMS = FrameSpec(
    "streams",
    "one row for each stream, requested ones that were never opened too",
    (
        _number("seq", "", "the place of the message by which it became known", _get("seq")),
        _time("time", "the time of that message", _moment("began")),
        _text("id", "the id that its frames carry; empty before it is opened", _get("facts.id")),
        _text("request", "the id of its request", _get("facts.request_id")),
        _text("from", "its owner", _get("facts.owner")),
        _texts("to", "the recipients of its frames, a tuple; empty for everybody", _get("facts.target")),
        _text("state", "requested, refused, open, closed", _get("facts.state")),
        _text("direction", "as its request states it", _line("facts.fields", "direction")),
        _text("description", "as its request states it", _line("facts.fields", "description")),
        _texts("writers", "the participants that may write, a tuple, the owner first", _get("facts.writers")),
        _time("opened", "the time when it was opened", _moment("opened")),
        _time("ended", "the time when it was closed", _moment("closed")),
        _seconds("seconds", "how long it was open", _between("opened", "closed")),
        _text("ended_by", "the participant that closed it, or refused it", _get("facts.by")),
        _text("reason", "the reason of its close or refusal", _get("facts.reason")),
        _count(
            "refused_frames",
            "frames",
            "frames that the gateway reported as refused",
            _get("facts.refused_frames"),
        ),
    ),
)

PARTICIPANTS = FrameSpec(
    "participants",
    "one row for each participant that was ever present or sent a message",
    (
        _text("participant", "its name", _get("name")),
        _text(
            "profile", "the profile with which it was configured; empty for any other list", _get("profile")
        ),
        _flag("present", "whether it is present at the end", _has("member.ids")),
        _flag(
            "paused",
            "whether it is under a pause that nobody has ended; its time may be over",
            _has("member.pause"),
        ),
        _flag("shut_down", "whether it was shut down and has not joined since", _has("member.shut_down")),
        _flag("removed", "whether it was removed and has not joined since", _has("member.removed")),
        _count("joins", "connections", "connections that it had", _get("joins")),
        _time("first", "the time of the first message by it or about it", _moment("first")),
        _time("last", "the time of its last message", _moment("last")),
        _count("sent", "messages", "messages by it that were accepted", _get("sent")),
        _count("refused", "messages", "messages by it that were refused", _get("refused")),
        _count("addressed", "messages", "messages to it by name", _get("addressed")),
        _count("requests", "messages", "requests by it that were accepted", _get("requests")),
        _count("proposals", "messages", "proposals by it that were accepted", _get("proposals")),
        _number("tokens", "tokens", "in its context, by its last status", _get("tokens")),
        _number("max_tokens", "tokens", "that its context can hold, by its last status", _get("max_tokens")),
        _texts(
            "permissions",
            "its permissions as the gateway sent them last, a tuple of JSON texts",
            _patterns("member.capabilities"),
        ),
    ),
)

GRANTS = FrameSpec(
    "grants",
    "one row for each permission that a participant gave with `capability/grant`",
    (
        _count("seq", "", "its place in the journal", _get("seq")),
        _time("time", "the time when it was given", _moment("grant.t")),
        _text("id", "its id", _get("grant.id")),
        _text("from", "the participant that gave it", _get("grant.granter")),
        _text("recipient", "the participant that got it", _get("grant.recipient")),
        _text(
            "state",
            "stands, revoked, ended; one that stands may have ended unseen, at its own end",
            _get("grant.state"),
        ),
        _texts(
            "permissions",
            "the permissions that it gave, a tuple of JSON texts",
            _patterns("grant.capabilities"),
        ),
        _texts(
            "left",
            "those of them that are left of it, a tuple",
            lambda r: tuple(map(_json, r.grant.left if r.grant.stands else ())),
        ),
        _text("reason", "the reason that was stated with it", _get("grant.reason")),
        _time("ended", "the time of its revoke, or of the removal that ended it", _moment("ended")),
        _text(
            "ended_by",
            "the participant that revoked it, or removed its recipient or giver",
            _get("grant.revoked_by"),
        ),
        _text("expires_at", "the end that was stated with it, as a text", _get("grant.expires_at")),
        _number(
            "max_uses",
            "messages",
            "the uses that were stated with it",
            lambda r: whole_number(r.grant.max_uses),
        ),
        _number(
            "uses",
            "messages",
            "messages that it let pass; missing where the log does not record by which grant some passed",
            _get("uses"),
        ),
        _time("last_use", "the time of the last of them", _moment("last_use")),
        _texts(
            "acknowledged_by",
            "the participants that acknowledged it, a tuple",
            _names("grant.acknowledged"),
        ),
    ),
)


def _why(row: VerdictRow) -> str:
    if row.record.verdict != "refused":
        return ""
    known = outline(row.record)
    return one_line(known.why if known is not None else row.record.detail, 2 * MAX_VALUE)


VERDICTS = FrameSpec(
    "verdicts",
    "one row for each message of a participant that the gateway accepted or refused",
    (
        _count("seq", "", "its place in the journal", _get("record.seq")),
        _time("time", "the time when the gateway received it", _get("record.now")),
        _text("participant", "the participant that the gateway authenticated", _get("record.participant")),
        _text("kind", "its kind; empty where its text is not kept", _member("members", "kind")),
        _text("id", "its id; empty where its text is not kept", _member("members", "id")),
        _text("verdict", "accepted or refused", _get("record.verdict")),
        _text("code", "the reason of a refusal", _get("record.code")),
        _text("why", "that reason in words", _why),
        _text("pattern", "the permission that let it pass, as JSON", _get("record.pattern")),
        _text("source", _SOURCE, _get("origin.source")),
        _text("profile", "the profile with which its sender was configured", _get("origin.profile")),
        _text(
            "grant",
            "the id of the message that gave it; empty where there was none or it is not recorded (see `source`)",
            _get("record.grant"),
        ),
        _text("given_by", "the participant that gave it", _get("origin.giver")),
    ),
)


def _chat_latency(row: ChatMessageRow) -> float | None:
    times = [receipt.t for receipt in row.message.receipts] if row.message is not None else []
    return max(0.0, min(times) - row.opened.t) if times else None


CHAT = FrameSpec(
    "chat",
    "one row for each chat message",
    (
        *_opening("message"),
        _text("text", "its text", _member("opened.payload", "text")),
        _text("format", "plain or markdown", _member("opened.payload", "format", "plain")),
        _text(
            "state",
            "open, cancelled (by its author), repeated (its id is taken)",
            _at("message.state", "repeated"),
        ),
        _text("reason", "the reason of that cancel", _at("message.reason")),
        _texts(
            "acknowledged_by",
            "the participants that acknowledged it, a tuple",
            _names("message.receipts"),
        ),
        _seconds(
            "latency", "from the message to the earliest acknowledgement that still counts", _chat_latency
        ),
        _texts(
            "dismissed_by",
            "the participants that took it off their own queue, a tuple",
            _names("message.dismissed"),
        ),
    ),
)


def _latency_ms(row: TelemetryRow) -> float | None:
    value = row.opened.payload.get("latency_ms")
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else None


def _usage(row: TelemetryRow) -> ModelUsage:
    return usage_of(row.opened.payload)


def _telemetry(name: str) -> Callable[[TelemetryRow], int | None]:
    return lambda row: whole_number(row.opened.payload.get(name))


TELEMETRY = FrameSpec(
    "telemetry",
    "one row for each status that a participant sent",
    (
        _count("seq", "", "its place in the journal", _get("opened.record.seq")),
        _time("time", "the time when the gateway received it", _get("opened.record.now")),
        _text("from", "the participant that sent it", _get("opened.sender")),
        _number("tokens", "tokens", "in its context", _telemetry("tokens")),
        _number("max_tokens", "tokens", "that its context can hold", _telemetry("max_tokens")),
        _number("messages_in_context", "messages", "in its context", _telemetry("messages_in_context")),
        _seconds("latency", "of its last answer, as it states it", _latency_ms),
        _text("status", "its status in a word, as it states it", _line("opened.payload", "status")),
        _text(
            "model", "the model of an answer, as it states it", lambda r: one_line(_usage(r).model, MAX_VALUE)
        ),
        _number("input_tokens", "tokens", "that the model read for one answer", lambda r: _usage(r).input),
        _number("cached_tokens", "tokens", "of these, read from a cache", lambda r: _usage(r).cached),
        _number("output_tokens", "tokens", "that the model wrote", lambda r: _usage(r).output),
        FrameColumn(
            "cost", "float64", "USD", "of one answer, where it is recorded", lambda r: _usage(r).cost
        ),
        FrameColumn(
            "total_cost",
            "float64",
            "USD",
            "of its session so far, where recorded",
            lambda r: _usage(r).total_cost,
        ),
    ),
)

TRAFFIC = FrameSpec(
    "traffic",
    "one row for each second and family of kinds in which messages came",
    (
        _time("time", "the second", lambda r: _time_at(r[0][0])),
        _text(
            "family",
            "`chat`, `mcp`, `proposal`, `error`, `reasoning`, `capability`, `participant`, `stream` or `system`",
            lambda r: FAMILIES[r[0][1]].name,
        ),
        _count("messages", "messages", "messages of that family in that second", lambda r: r[1]),
    ),
)

TALK = FrameSpec(
    "talk",
    "one row for each sender and addressee",
    (
        _text("from", "the sender", lambda r: r[0][0]),
        _text("to", "the addressee; empty for a message to everybody", lambda r: r[0][1]),
        _count("messages", "messages", "messages from one to the other", lambda r: r[1]),
    ),
)

_SHOWN = {
    "requests": ("seq", "from", "tool", "state", "latency"),
    "proposals": ("seq", "from", "tool", "state", "decided_by"),
    "decisions": ("seq", "from", "tool", "outcome", "decided_by"),
    "reasoning": ("seq", "from", "state", "seconds", "steps"),
    "streams": ("seq", "from", "state", "description", "seconds"),
    "participants": ("participant", "present", "sent", "refused", "proposals"),
    "grants": ("seq", "from", "recipient", "state", "uses"),
    "verdicts": ("seq", "participant", "kind", "verdict", "code"),
    "chat": ("seq", "from", "to", "text", "state"),
    "telemetry": ("seq", "from", "model", "tokens", "cost"),
}  # of a frame of more than eight columns, those that are displayed unless others are chosen

FRAMES: dict[str, FrameSpec] = {
    frame.name: frame._replace(shown=_SHOWN.get(frame.name, ()))
    for frame in (
        REQUESTS,
        PROPOSALS,
        DECISIONS,
        REASONING,
        STREAMS,
        PARTICIPANTS,
        GRANTS,
        VERDICTS,
        CHAT,
        TELEMETRY,
        TRAFFIC,
        TALK,
    )
}


def describe_frames() -> str:
    """All frames with all columns and units, as Markdown."""
    parts = []
    for frame in FRAMES.values():
        rows = "\n".join(
            f"| `{c.name}` | {c.dtype} | {c.unit} | {c.about.replace('|', ' ')} |" for c in frame.columns
        )
        head = "| column | type | unit | meaning |\n|---|---|---|---|\n"
        parts.append(f"**`{frame.name}`**: {frame.about}\n\n{head}{rows}")
    return "\n\n".join(parts)
