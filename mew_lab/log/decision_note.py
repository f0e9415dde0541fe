"""Reads the notes on a decision: `decided`, which a lab writes into the journal before it sends a decision, and
`reported`, which a participant of another process sends to the gateway. The latter may also say what became of a call.
`reviewed` says, after its decision, that a call which a rule covers had waited for a person.

Spec: §9.4, rulings R29, R42.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mew_lab.ledger.calls import CallIndex, CallLedger, Change, Request
from mew_lab.log.line import read_members
from mew_lab.protocol.coerce import member
from mew_lab.protocol.decision_ways import APPROVER, WAYS
from mew_lab.space.events import REPORTED, Record

__all__ = [
    "DECIDED",
    "DESPITE",
    "REVIEWED",
    "RULE_EVENT",
    "DecisionNote",
    "ReceiptFile",
    "ReceiptOption",
    "ReceiptRule",
    "ReceiptTool",
    "ResolutionNote",
    "ReviewNote",
    "read_decision_note",
    "read_resolution",
    "read_review",
    "resolve_reported",
]

DECIDED = "decided"
"""The event of a record that holds the note of a lab."""
REVIEWED = "reviewed"
"""The event of a record of a decided review."""
RULE_EVENT = "rule"
"""The event of a record of a change in the life of a rule."""
VERDICTS: Final = ("approved", "edited", "rejected", "undecided")
STATED: Final = frozenset({"editor", "script", "rule", APPROVER})  # that nothing else of a note tells
DESPITE: Final = frozenset({"rejected", "unknown"})
MAX_SIZE = 2**63 - 1  # bytes of a file; more is a damaged note
_DIGEST = re.compile("[0-9a-f]{64}")
MAX_MILLISECONDS = 1e12  # of a card on a screen; more is a damaged note


class ReceiptFile(NamedTuple):
    """A file before a call wrote it: its absolute path, its size in bytes, and its SHA-256.

    Size and digest are None and empty where there was no such file, or it was not read.
    """

    path: str
    size: int | None
    sha256: str


class ReceiptOption(NamedTuple):
    """An option that a decision chose, by its id; its name may be cut."""

    id: str
    name: str


class ReceiptTool(NamedTuple):
    """The tool of a call as its card showed it: the SHA-256 of its entry in the list of tools, and its hints.

    The digest is empty where the list has several entries of its name.
    """

    sha256: str
    hints: tuple[str, ...]


class ReceiptRule(NamedTuple):
    """The rule that made a decision: the SHA-256 of its canonical JSON, and its text, which may be cut."""

    sha256: str
    text: str


class DecisionNote(NamedTuple):
    """What a lab noted when a person or a policy decided a proposal there.

    Attributes:
        proposal: The id of the proposal; `decision` is `approve` or `reject`, and `request` the id of the request that
            an approval sent.
        by: `human`, or the policy as `policy NAME`; `policy` is its name and `policy_text` its text.
        digest: The SHA-256 of what was shown, of an edit where it was edited.
        on_screen: For how many milliseconds the view that was clicked had shown it; None where nobody clicked.
        how: `click`, `typed` by a person, `editor` where a person answered the question of one, `script`, `policy`,
            `rule` or `approver`; empty where the note does not say.
        reason: The reason of a rejection.
        edited: Whether other params were sent than the proposed ones.
        to: The addressees to whom it was sent.
        despite: What the approval disregarded on purpose: `rejected`, `unknown`.
        option: The option that was chosen of the permission of an agent; None where there was none.
        permission: The id of the proposal by which the person permitted an agent that call; empty where the decision
            counts none.
        file: The file that the call writes, as it was when the approval was sent; None where it was not looked for.
        tool: The tool as the card showed it; None where the note does not say.
        rule: The rule that decided; None where none did.
        rules_of: The person whose rule an approver ran; empty for any other decision. No report states it.
        reported: Whether the participant reported it. Such a note never counts as seen on a screen.
    """

    proposal: str
    decision: str
    request: str
    by: str
    digest: str
    on_screen: int | None
    how: str
    policy: str
    policy_text: str
    reason: str
    edited: bool
    to: tuple[str, ...]
    despite: tuple[str, ...]
    option: ReceiptOption | None
    permission: str
    file: ReceiptFile | None
    tool: ReceiptTool | None
    rule: ReceiptRule | None
    rules_of: str
    reported: bool


def read_decision_note(record: Record) -> DecisionNote | None:
    """The note in a record `decided` or `reported`; None where there is none, or it is damaged."""
    members = read_members(record.detail) or {}
    decision, proposal = members.get("decision"), _text(members.get("proposal"))
    if decision not in ("approve", "reject") or not proposal:
        return None
    policy = members.get("policy")
    policy = policy if isinstance(policy, dict) else {}
    reported = record.event == REPORTED
    shown = None if reported else members.get("on_screen")
    is_time = (
        isinstance(shown, int | float) and not isinstance(shown, bool) and 0 <= shown <= MAX_MILLISECONDS
    )
    stated, rule = _text(members.get("how")), _rule(members.get("rule"))
    if reported or stated in STATED:
        how = stated if stated in WAYS else ""
    else:
        typed = _text(members.get("typed")) or (decision == "reject" and stated == "typed")
        by_person = "typed" if typed else "click" if is_time else ""
        how = "rule" if rule is not None else "policy" if policy else by_person
    return DecisionNote(
        proposal=proposal,
        decision=decision,
        request=_text(members.get("request")),
        by=_text(members.get("by")),
        digest=_text(members.get("digest")),
        on_screen=int(shown) if is_time and shown is not None else None,
        how=how,
        policy=_text(policy.get("name")),
        policy_text=_text(policy.get("text")),
        reason=_text(members.get("reason")),
        edited=members.get("edited") is True,
        to=_texts(members.get("to")),
        despite=tuple(word for word in _texts(members.get("despite")) if word in DESPITE),
        option=_option(members.get("option")),
        permission=_text(member(members.get("permission"), "proposal")),
        file=_file(members.get("file")),
        tool=_tool(members.get("tool")),
        rule=rule,
        rules_of=_text(members.get("rules_of")) if how == APPROVER and not reported else "",
        reported=reported,
    )


class ReviewNote(NamedTuple):
    """A call that waited for a person although a rule covers it: its proposal, the rule, and what was decided.

    `verdict` is `approved`, `edited`, `rejected` or `undecided`.
    """

    proposal: str
    rule: ReceiptRule
    verdict: str


def read_review(record: Record) -> ReviewNote | None:
    """The review in a record `reviewed`; None where there is none, or it is damaged."""
    members = (read_members(record.detail) or {}) if record.event == REVIEWED else {}
    rule, verdict = _rule(members.get("rule")), _text(members.get("verdict"))
    if rule is None or verdict not in VERDICTS:
        return None
    return ReviewNote(_text(members.get("proposal")), rule, verdict)


class ResolutionNote(NamedTuple):
    """What a participant reported about a call of unknown outcome: whether it `happened`, and a note.

    `to` are the targets for which the gateway took it.
    """

    request: str
    to: tuple[str, ...]
    happened: bool
    by: str
    note: str


def read_resolution(
    record: Record, calls: CallIndex[Request], logical: Callable[[str], str] = str
) -> ResolutionNote | None:
    """The resolution in a record `reported`; None where there is none, or it is about no call to its targets."""
    members = (read_members(record.detail) or {}) if record.event == REPORTED else {}
    id, to, happened = members.get("request"), members.get("to"), members.get("happened")
    call = calls.get(id) if isinstance(id, str) else None
    if call is None or not isinstance(to, list) or not isinstance(happened, bool):
        return None
    stated = tuple(name for name in to if isinstance(name, str))
    if not {*map(logical, call.to)} <= {*map(logical, stated)}:
        return None
    return ResolutionNote(call.id, stated, happened, record.participant, _text(members.get("note")))


def resolve_reported(
    calls: CallLedger, record: Record, logical: Callable[[str], str] = str
) -> tuple[Change, ...]:
    """Takes a record `reported` that says what became of a call of unknown outcome; returns what it changed."""
    found = read_resolution(record, calls.requests, logical)
    return () if found is None else calls.resolve(found.request, found.happened, found.by, found.note)


def _file(told: object) -> ReceiptFile | None:
    if not isinstance(told, dict) or not (path := _text(told.get("path"))):
        return None
    size, digest = told.get("size"), _text(told.get("sha256"))
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MAX_SIZE
    return ReceiptFile(path, size if is_size else None, digest if _DIGEST.fullmatch(digest) else "")


def _tool(told: object) -> ReceiptTool | None:
    if not isinstance(told, dict):
        return None
    digest = _text(told.get("sha256"))
    return ReceiptTool(digest if _DIGEST.fullmatch(digest) else "", _texts(told.get("hints")))


def _rule(told: object) -> ReceiptRule | None:
    if not isinstance(told, dict) or not _DIGEST.fullmatch(digest := _text(told.get("sha256"))):
        return None
    return ReceiptRule(digest, _text(told.get("text")))


def _option(told: object) -> ReceiptOption | None:
    if not isinstance(told, dict) or not (id := _text(told.get("id"))):
        return None
    return ReceiptOption(id, _text(told.get("name")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()
