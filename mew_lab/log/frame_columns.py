"""The columns of the frames of a log, as data: what a row of each frame is, and what each column means.

A frame is a name, a line of text and a list of columns. A column is a name, a pandas type, a unit, a line of text and
one function of a row (`log.ledger_rows`). A user may pass another list of columns in place of those in `FRAMES`.

Spec: §3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from operator import attrgetter as _get  # of many rows, in half the time of a lambda
from typing import Any, NamedTuple

from mew_lab.ledger.calls import Proposal, Request, error_text, is_failure, method_of, tool_of
from mew_lab.ledger.entry import Entry
from mew_lab.log.entries import GRANT, SOURCE, RecordedEntry, lacks
from mew_lab.log.ledger_rows import (
    ChatMessageRow,
    DecisionRow,
    ProposalRow,
    ReasoningRow,
    RequestRow,
    StreamFactsRow,
    TelemetryRow,
    VerdictRow,
    whole_number,
)
from mew_lab.protocol.difference import ABSENT, Difference
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
MAX_VALUE = 200  # characters of an edited value, and of an error
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
    """One frame: what a row of it is, and its columns."""

    name: str
    about: str
    columns: tuple[FrameColumn, ...]

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


def _time_at(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _lasted_from(began: Entry, ended: Entry | None) -> float | None:
    return None if ended is None else max(0.0, ended.t - began.t)


def _seq_of(entry: Entry | None) -> int | None:
    return entry.record.seq if isinstance(entry, RecordedEntry) else None


def _sender_of(entry: Entry | None) -> str:
    return "" if entry is None else entry.sender


def _failure_of(response: Entry | None) -> str:
    """The text of an answer that is an error, or tells no outcome, in one line; empty for any other."""
    if response is None:
        return ""
    unknown = unknown_outcome(response.payload)
    if not unknown and not is_failure(response.payload):
        return ""
    return one_line(error_text(response), MAX_VALUE) or (f"its answer {unknown}" if unknown else "error")


def _answered(call: Request | Proposal | None) -> Entry | None:
    """The answer that settled a call; None where there is none, such as of an unknown one."""
    return call.response if call is not None and call.state == "answered" else None


def _failed(call: Request | Proposal | None) -> bool | None:
    answer = _answered(call)
    return None if answer is None else is_failure(answer.payload)


def _resolution(call: Request | Proposal | None) -> str:
    return "" if call is None or call.resolution is None else one_line(str(call.resolution), MAX_VALUE)


def _tool_of_call(entry: Entry) -> str:
    return (tool_of(entry.payload) or "") if method_of(entry.payload) == "tools/call" else ""


def _write(value: Any) -> str:
    """A value as JSON in one line of at most 200 characters."""
    if value is ABSENT:
        return "absent"
    return cut(json.dumps(value, ensure_ascii=False, separators=(",", ":")), MAX_VALUE)


def _write_changes(differences: Iterable[Difference]) -> tuple[str, ...]:
    return tuple(f"{place.path}: {_write(place.proposed)} → {_write(place.sent)}" for place in differences)


def _write_patterns(patterns: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(json.dumps(pattern, ensure_ascii=False, separators=(",", ":")) for pattern in patterns)


def _opening(what: str) -> tuple[FrameColumn, ...]:
    """The columns of the message that a row of `RequestRow`, `ProposalRow` or `ChatMessageRow` begins with."""
    return (
        _count("seq", "", f"the {what}'s place in the journal, as in log.df", _get("opened.record.seq")),
        _time("time", "the time when the gateway received it", _get("opened.record.now")),
        _text("id", "its id", _get("opened.id")),
        _text("from", "its sender", _get("opened.sender")),
        _texts("to", "its addressees, a tuple", _get("opened.to")),
    )


def _call() -> tuple[FrameColumn, ...]:
    return (
        _text("method", "its MCP method", lambda r: method_of(r.opened.payload)),
        _text("tool", "the tool that it calls", lambda r: _tool_of_call(r.opened)),
        _text("context", "its context", _get("opened.context")),
    )


# --- requests ---


def _claims(row: RequestRow | ProposalRow) -> int:
    return 0 if row.call is None else len(row.call.claims)


def _own_response(row: RequestRow) -> Entry | None:
    return None if row.call is None else row.call.response


REQUESTS = FrameSpec(
    "requests",
    "one row for each request, refused ones and notifications too",
    (
        *_opening("request"),
        *_call(),
        _text(
            "state",
            "`waiting`, `answered`, `unknown` (whether it took effect), `resolved` (a person found out), `sent` (a "
            "notification), `refused` (by the gateway, or because it came too late), `claimed` (its id is another's)",
            _get("state"),
        ),
        _seconds(
            "latency", "from the request to its answer", lambda r: _lasted_from(r.opened, _answered(r.call))
        ),
        _text("answered_by", "the participant that answered it", lambda r: _sender_of(_own_response(r))),
        _number("answer", "", "the answer's place in the journal", lambda r: _seq_of(_own_response(r))),
        _count(
            "answers",
            "messages",
            "addressees that answered it, at most 5",
            lambda r: 0 if r.call is None else len(r.call.answers),
        ),
        _maybe(
            "failed",
            "whether the answer is an error, of the protocol or of the tool; missing where the outcome is unknown",
            lambda r: _failed(r.call),
        ),
        _text(
            "error",
            "the text of that error, or of an answer that tells no outcome, in one line",
            lambda r: _failure_of(_own_response(r)),
        ),
        _text(
            "resolution",
            "what a person found out about an unknown outcome, in one line",
            lambda r: _resolution(r.call),
        ),
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
        _count("claims", "messages", "messages that refer to it and changed nothing", _claims),
    ),
)


# --- proposals ---


def _decider(row: ProposalRow) -> str:
    call = row.call
    if call is None:
        return ""
    return call.by or (call.rejections[0].by if call.rejections else "")


def _proposal_reason(row: ProposalRow) -> str:
    call = row.call
    if call is None:
        return ""
    return call.reason or (call.rejections[0].reason if call.rejections else "")


def _edited(row: ProposalRow) -> bool | None:
    return None if row.call is None or row.call.request is None else row.call.edited


def _changes(row: ProposalRow) -> tuple[str, ...]:
    return _write_changes((row.call.difference or ()) if row.call is not None else ())


def _proposal_response(row: ProposalRow) -> Entry | None:
    return None if row.call is None else row.call.response


def _fulfilment(row: ProposalRow) -> Entry | None:
    return None if row.call is None else row.call.request


def _answer_latency(row: ProposalRow) -> float | None:
    request = _fulfilment(row)
    return None if request is None else _lasted_from(request, _answered(row.call))


PROPOSALS = FrameSpec(
    "proposals",
    "one row for each proposal, refused ones too",
    (
        *_opening("proposal"),
        *_call(),
        _text(
            "state",
            "`open`, `rejected`, `fulfilled` (approved), `answered`, `unknown` (whether it took effect), "
            "`resolved` (a person found out), `withdrawn`, `refused` (by the gateway), `claimed`",
            _get("state"),
        ),
        _seconds(
            "latency",
            "from the proposal to the first decision on it",
            lambda r: None if r.pair is None else r.pair.seconds,
        ),
        _text(
            "decided_by",
            "the participant that approved or withdrew it, or was the first to reject it",
            _decider,
        ),
        _text(
            "policy",
            "the policy that decided for that participant; empty where a person did",
            lambda r: r.note.policy if r.note else "",
        ),
        _number(
            "on_screen",
            "ms",
            "how long the card was shown before the click",
            lambda r: r.note.on_screen if r.note else None,
        ),
        _text(
            "request", "the id of the request that approved it", lambda r: getattr(_fulfilment(r), "id", "")
        ),
        _maybe(
            "edited",
            "whether that request differs from the proposal; missing where they were too large to compare",
            _edited,
        ),
        _texts("changes", "what was edited, a tuple of “place: proposed → sent”", _changes),
        _text(
            "answered_by",
            "the participant that answered that request",
            lambda r: _sender_of(_proposal_response(r)),
        ),
        _number("answer", "", "the answer's place in the journal", lambda r: _seq_of(_proposal_response(r))),
        _seconds("answer_latency", "from that request to its answer", _answer_latency),
        _maybe(
            "failed",
            "whether the answer is an error; missing where the outcome is unknown",
            lambda r: _failed(r.call),
        ),
        _text(
            "error",
            "the text of that error, or of an answer that tells no outcome, in one line",
            lambda r: _failure_of(_proposal_response(r)),
        ),
        _text(
            "resolution",
            "what a person found out about an unknown outcome, in one line",
            lambda r: _resolution(r.call),
        ),
        _count(
            "rejections",
            "messages",
            "rejections of it, by whomever",
            lambda r: 0 if r.call is None else len(r.call.rejections),
        ),
        _text("reason", "the reason of its withdrawal, or else of the first rejection", _proposal_reason),
        _text("code", "the reason of a refusal by the gateway", _get("opened.code")),
        _count(
            "claims",
            "messages",
            "messages that refer to it and changed nothing, such as a foreign withdraw",
            _claims,
        ),
    ),
)


# --- decisions ---


def _outcome(row: DecisionRow) -> str:
    if row.request is None:
        return "rejected"
    told = row.request.told
    if told is None:
        return row.request.state
    return "failed" if told.failed else told.state


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


def _decided_by(row: DecisionRow) -> str:
    return row.entry.sender if row.proposals else ""


def _called(row: DecisionRow) -> Entry:
    """The request, or the proposal that was rejected."""
    return row.entry if row.request is not None else row.proposals[0].opened


def _decision_latency(row: DecisionRow) -> float | None:
    return _lasted_from(row.proposals[0].opened, row.entry) if row.proposals else None


def _decision_response(row: DecisionRow) -> Entry | None:
    return None if row.request is None else row.request.response


def _told(row: DecisionRow) -> Request | Proposal | None:
    return None if row.request is None else row.request.told


DECISIONS = FrameSpec(
    "decisions",
    "one row for each request that reached its target, by whatever right, and for each rejection of a proposal",
    (
        _count(
            "seq", "", "the place of the request or the rejection in the journal", _get("entry.record.seq")
        ),
        _time("time", "the time when the gateway received it", _get("entry.record.now")),
        _text("id", "the id of the request or the rejection", _get("entry.id")),
        _text("from", "its sender", _get("entry.sender")),
        _texts("to", "the targets of the call, a tuple", lambda r: _called(r).to),
        _text("method", "the MCP method of the call", lambda r: method_of(_called(r).payload)),
        _text("tool", "the tool of the call", lambda r: _tool_of_call(_called(r))),
        _flag(
            "executed",
            "whether the call was sent to its target and did not come too late; false for a rejection",
            lambda r: r.request is not None and r.request.state != "refused",
        ),
        _text(
            "outcome",
            "`answered`, `failed`, `unknown` (whether it took effect), `resolved` (a person found out), `waiting`, "
            "`sent` (a notification), `refused` (it came too late), `claimed` (its id is another's), `rejected`",
            _outcome,
        ),
        _seconds(
            "latency", "from the request to its answer", lambda r: _lasted_from(r.entry, _answered(_told(r)))
        ),
        _text(
            "error",
            "the text of a failure, or of an answer that tells no outcome, in one line",
            lambda r: _failure_of(_decision_response(r)),
        ),
        _text(
            "resolution",
            "what a person found out about an unknown outcome, in one line",
            lambda r: _resolution(_told(r)),
        ),
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
        _count(
            "proposals", "proposals", "how many proposals the message decided", lambda r: len(r.proposals)
        ),
        _text(
            "proposer",
            "the sender of that proposal",
            lambda r: r.proposals[0].opened.sender if r.proposals else "",
        ),
        _text(
            "decided_by",
            "the participant that approved or rejected it; empty where no proposal was decided",
            _decided_by,
        ),
        _text(
            "how",
            "click, typed (by a person), script or policy; empty without a receipt",
            lambda r: r.note.how if r.note else "",
        ),
        _text(
            "receipt",
            "noted (by its lab, here), reported (by its sender), or empty: what was shown is not recorded",
            _receipt,
        ),
        _text(
            "policy",
            "the name of the policy; empty where a person decided",
            lambda r: r.note.policy if r.note else "",
        ),
        _text("policy_text", "the text of the policy", lambda r: r.note.policy_text if r.note else ""),
        _text(
            "digest",
            "the SHA-256 of what was shown, of the edit where it was edited",
            lambda r: r.note.digest if r.note else "",
        ),
        _number(
            "on_screen",
            "ms",
            "how long it was shown before the click",
            lambda r: r.note.on_screen if r.note else None,
        ),
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
        _text("reason", "the reason of a rejection", lambda r: r.rejection.reason if r.rejection else ""),
    ),
)


# --- reasoning, streams, participants, grants, verdicts, chat ---


def _sequence_seconds(row: ReasoningRow) -> float | None:
    ended = row.sequence.ended
    return None if ended is None else max(0.0, ended - row.sequence.started)


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
            lambda r: _time_at(r.sequence.started),
        ),
        _text("id", "the id of its start, which is the context of its messages", _get("sequence.id")),
        _text("from", "the participant that reasons", _get("sequence.owner")),
        _text("state", "active, concluded, cancelled, left", _get("sequence.state")),
        _seconds("seconds", "from its start to its end", _sequence_seconds),
        _time("ended", "the time of its end", lambda r: _time_at(r.sequence.ended)),
        _text("ended_by", "the participant that ended it", _get("sequence.by")),
        _text("reason", "the reason of a cancel", _get("sequence.reason")),
        _count("steps", "messages", "messages that belong to it, its start aside", _get("sequence.steps")),
        _texts("about", "the ids that its start correlates to, a tuple", _get("sequence.about")),
        _text("parent", "the id of the sequence within which it began", _get("parent")),
        _text("path", "the part of the parent in which it began", _get("sequence.path")),
        _text("stream", "the id of the stream beside it", _get("sequence.stream")),
    ),
)


def _described(row: StreamFactsRow, name: str) -> str:
    value = row.facts.fields.get(name)
    return one_line(value, MAX_VALUE) if isinstance(value, str) else ""


def _stream_ended(row: StreamFactsRow) -> float | None:
    return row.facts.t if row.facts.state == "closed" else None


def _stream_seconds(row: StreamFactsRow) -> float | None:
    ended = _stream_ended(row)
    return None if ended is None or row.opened is None else max(0.0, ended - row.opened)


STREAMS = FrameSpec(
    "streams",
    "one row for each stream, requested ones that were never opened too",
    (
        _number("seq", "", "the place of the message by which it became known", _get("seq")),
        _time("time", "the time of that message", lambda r: _time_at(r.began)),
        _text("id", "the id that its frames carry; empty before it is opened", _get("facts.id")),
        _text("request", "the id of its request", _get("facts.request_id")),
        _text("from", "its owner", _get("facts.owner")),
        _texts("to", "the recipients of its frames, a tuple; empty for everybody", _get("facts.target")),
        _text("state", "requested, refused, open, closed", _get("facts.state")),
        _text("direction", "as its request states it", lambda r: _described(r, "direction")),
        _text("description", "as its request states it", lambda r: _described(r, "description")),
        _texts("writers", "the participants that may write, a tuple, the owner first", _get("facts.writers")),
        _time("opened", "the time when it was opened", lambda r: _time_at(r.opened)),
        _time("ended", "the time when it was closed", lambda r: _time_at(_stream_ended(r))),
        _seconds("seconds", "how long it was open", _stream_seconds),
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
        _flag("present", "whether it is present at the end", lambda r: bool(r.member and r.member.ids)),
        _flag(
            "paused",
            "whether it is under a pause that nobody has ended; its time may be over",
            lambda r: bool(r.member and r.member.pause),
        ),
        _flag(
            "shut_down",
            "whether it was shut down and has not joined since",
            lambda r: bool(r.member and r.member.shut_down),
        ),
        _flag(
            "removed",
            "whether it was removed and has not joined since",
            lambda r: bool(r.member and r.member.removed),
        ),
        _count("joins", "connections", "connections that it had", _get("joins")),
        _time("first", "the time of the first message by it or about it", lambda r: _time_at(r.first)),
        _time("last", "the time of its last message", lambda r: _time_at(r.last)),
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
            lambda r: _write_patterns(r.member.capabilities if r.member else ()),
        ),
    ),
)

GRANTS = FrameSpec(
    "grants",
    "one row for each permission that a participant gave with `capability/grant`",
    (
        _count("seq", "", "its place in the journal", _get("seq")),
        _time("time", "the time when it was given", lambda r: _time_at(r.grant.t)),
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
            lambda r: _write_patterns(r.grant.capabilities),
        ),
        _texts(
            "left",
            "those of them that are left of it, a tuple",
            lambda r: _write_patterns(r.grant.left if r.grant.stands else ()),
        ),
        _text("reason", "the reason that was stated with it", _get("grant.reason")),
        _time(
            "ended", "the time of its revoke, or of the removal that ended it", lambda r: _time_at(r.ended)
        ),
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
        _time("last_use", "the time of the last of them", lambda r: _time_at(r.last_use)),
        _texts(
            "acknowledged_by",
            "the participants that acknowledged it, a tuple",
            lambda r: tuple(a.by for a in r.grant.acknowledged),
        ),
    ),
)


def _member(row: VerdictRow, name: str) -> str:
    value = row.members.get(name)
    return value if isinstance(value, str) else ""


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
        _text("kind", "its kind; empty where its text is not kept", lambda r: _member(r, "kind")),
        _text("id", "its id; empty where its text is not kept", lambda r: _member(r, "id")),
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


def _chat_text(row: ChatMessageRow) -> str:
    text = row.opened.payload.get("text")
    return text if isinstance(text, str) else ""


def _chat_format(row: ChatMessageRow) -> str:
    value = row.opened.payload.get("format")
    return value if isinstance(value, str) else "plain"


def _chat_latency(row: ChatMessageRow) -> float | None:
    times = [receipt.t for receipt in row.message.receipts] if row.message is not None else []
    return max(0.0, min(times) - row.opened.t) if times else None


CHAT = FrameSpec(
    "chat",
    "one row for each chat message",
    (
        *_opening("message"),
        _text("text", "its text", _chat_text),
        _text("format", "plain or markdown", _chat_format),
        _text(
            "state",
            "open, cancelled (by its author), repeated (its id is taken)",
            lambda r: "repeated" if r.message is None else r.message.state,
        ),
        _text("reason", "the reason of that cancel", lambda r: r.message.reason if r.message else ""),
        _texts(
            "acknowledged_by",
            "the participants that acknowledged it, a tuple",
            lambda r: tuple(x.by for x in r.message.receipts) if r.message else (),
        ),
        _seconds(
            "latency", "from the message to the earliest acknowledgement that still counts", _chat_latency
        ),
        _texts(
            "dismissed_by",
            "the participants that took it off their own queue, a tuple",
            lambda r: tuple(x.by for x in r.message.dismissed) if r.message else (),
        ),
    ),
)


def _latency_ms(row: TelemetryRow) -> float | None:
    value = row.opened.payload.get("latency_ms")
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else None


def _telemetry(name: str) -> Callable[[TelemetryRow], int | None]:
    return lambda row: whole_number(row.opened.payload.get(name))


def _status_text(row: TelemetryRow) -> str:
    value = row.opened.payload.get("status")
    return one_line(value, MAX_VALUE) if isinstance(value, str) else ""


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
        _text("status", "its status in a word, as it states it", _status_text),
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

FRAMES: dict[str, FrameSpec] = {
    frame.name: frame
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
