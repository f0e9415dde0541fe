"""Rules about permissions: refused messages with their nearest permission, grants, and `..` under a pattern.

Spec: §3.6, §4.1, §4.2, rulings R5, R11, R12 and the last section of the rulings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mew_lab.errors import MewError
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import Grant, GrantChange
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.log.diagnose.findings import (
    OF_GATEWAYS,
    OF_OUR_GATEWAY,
    Rule,
    RuleContext,
    RuleFamily,
    changes_of,
    refused_mark,
    word,
)
from mew_lab.log.line import read_members
from mew_lab.log.record_ledger import Mark, PlacedEntry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.node import TOO_COSTLY, Meter, Node
from mew_lab.protocol.pattern import AnyOf, Field, Glob, ObjectPattern, compile_pattern
from mew_lab.protocol.permit import CapabilitySet, read_capabilities
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record, outline

__all__ = ["PermissionRules"]

MAX_PATTERNS = 2000
MAX_SETS = 500
MAX_GRANTS = 10_000
MAX_NEAREST = 200  # characters
MAX_STRINGS = 1000  # of one payload that are looked at
_CLIMBS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)").search

DENIED = Rule("denied", "warn", "{sender} may not send {what}: {nearest}", "S-SEC-3", OF_GATEWAYS)
NOT_SENDER = Rule(
    "claimed-other-sender", "error", "{sender} sent {what} in another's name: {why}", "P-4.1-2", OF_GATEWAYS
)
RESERVED_KIND = Rule(
    "reserved-kind", "error", "{sender} sent {what}, which only the gateway may send", "P-4.1-7", OF_GATEWAYS
)
GAVE_TOO_MUCH = Rule(
    "grant-beyond-own",
    "error",
    "{sender} gave a permission that it does not have itself, in {what}: {why}",
    "P-3.6.8-2",
    OF_GATEWAYS,
)
REFUSED = Rule(
    "refused-message", "warn", "the gateway refused {what} of {sender} ({code}): {why}", holds=OF_GATEWAYS
)
LIMITED = Rule(
    "rate-limited",
    "note",
    "{sender} sent faster than it may, so the gateway slowed it down",
    holds=OF_OUR_GATEWAY,
)
UNACKNOWLEDGED = Rule(
    "grant-not-acknowledged",
    "note",
    "{recipient} did not acknowledge the permissions that {sender} gave it in {id}",
    "P-3.6.3-1",
)
ACKNOWLEDGED_NOTHING = Rule(
    "acknowledge-without-grant",
    "note",
    "{sender}'s acknowledgement {id} names no grant that was given to it",
    "P-3.6.3-1",
)
CLIMBS = Rule(
    "dotdot-under-glob",
    "error",
    "{sender}'s {kind} {id} has {value} at {path}, which the pattern {pattern} matched; .. may lead out of it",
    holds=OF_GATEWAYS,
)

_BY_CODE: Mapping[str, Rule] = {
    "identity_mismatch": NOT_SENDER,
    "reserved_kind": RESERVED_KIND,
    "cannot_grant": GAVE_TOO_MUCH,
}
_UNREAD: Mapping[str, str] = {"joined": "a connection", "frame": "data", "oversize": "a too large message"}
# Other families report these.
_ELSEWHERE = frozenset({"paused", "shut_down", "duplicate_id", "unauthorized_stream_write"})


class PermissionRules(RuleFamily):
    """The rules about permissions."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self.always = self._on_message
        self.kinds = {"capability/grant-ack": self._on_acknowledge}
        self.changes = {GrantChange: self._on_change}
        self.refusals = self._on_refusal
        self.events = {"limited": self._on_limited}
        self._patterns: BoundedDict[str, Node | None] = BoundedDict(MAX_PATTERNS)
        self._sets: BoundedDict[str, tuple[object, CapabilitySet]] = BoundedDict(MAX_SETS)
        self._granted: BoundedDict[str, tuple[Mark, str]] = BoundedDict(MAX_GRANTS)

    def finish(self) -> None:
        for mark, recipient in self._granted.values():
            self.report(UNACKNOWLEDGED, mark, recipient=word(recipient))

    # --- `..` under a pattern ---

    def _on_message(self, entry: PlacedEntry, _: Sequence[LedgerChange]) -> None:
        # A dot-dot in the text is rare, and so is a wildcard behind a payload.
        if not entry.pattern or '"payload"' not in entry.pattern or ".." not in entry.raw:
            return
        if entry.pattern not in self._patterns:
            self._patterns[entry.pattern] = _compile(entry.pattern)
        node = self._patterns[entry.pattern]
        if node is None:
            return
        for path, value, glob in _globs(node, entry.payload, "payload", Meter()):
            if _CLIMBS(value):
                self.report(CLIMBS, entry, path=word(path), value=word(value), pattern=word(glob))
                return

    # --- refusals ---

    def _on_refusal(self, record: Record, entry: PlacedEntry | None, place: int) -> None:
        code = record.code
        if code in _ELSEWHERE or record.event == "limited":
            return
        why = self._explain(record)
        kind, id = ("", "") if entry is None else (entry.kind, entry.id)
        peers = read_members(record.detail) if record.detail.startswith("{") and code else None
        if peers is not None and not kind:  # a decision of another gateway, without the message
            kind, id = _text(peers.get("required_capability")), _text(peers.get("envelope_id"))
        mark = refused_mark(record, place, id)
        what = (
            f"{word(kind)} {word(id) if id else ''}".rstrip()
            if kind
            else _UNREAD.get(record.event, "a message")
        )
        if code == "capability_violation":
            nearest = self._nearest(mark.sender, kind, entry) if peers is not None or not why else why
            nearest = nearest or (
                "no permission is near" if peers is None else "what it held is not recorded"
            )
            self.report(DENIED, mark, what=what, nearest=nearest)
        else:
            self.report(
                _BY_CODE.get(code, REFUSED), mark, what=what, code=word(code), why=why or "no reason is given"
            )

    def _explain(self, record: Record) -> str:
        known = outline(record)
        return one_line(known.why if known is not None else record.detail, MAX_NEAREST)

    def _nearest(self, sender: str, kind: str, entry: Entry | None) -> str:
        """The sentence about the nearest permission that the sender was told it has; empty where none is known."""
        member = self.context.ledger.members.get(sender)
        if member is None or not kind:
            return ""
        held = self._sets.get(member.name)
        if held is None or held[0] is not member.capabilities:
            # A log of ours has its reason; those of others are judged by the language that they know.
            held = member.capabilities, read_capabilities(member.capabilities, edition=0)[0]
            self._sets[member.name] = held
        verdict = held[1].permit(kind, entry.to if entry else (), entry.payload if entry else None)
        return one_line(verdict.nearest, MAX_NEAREST)

    def _on_limited(self, record: Record, place: int) -> None:
        self.report(LIMITED, refused_mark(record, place))

    # --- grants ---

    def _on_change(self, change: GrantChange, entry: PlacedEntry) -> None:
        grant = change.item
        if not isinstance(grant, Grant):
            return
        if change.what == "granted":
            self._granted[grant.id] = entry.mark, grant.recipient
        elif change.what in ("acknowledged", "revoked", "ended"):
            self._granted.pop(grant.id, None)

    def _on_acknowledge(self, entry: PlacedEntry, changes: Sequence[LedgerChange]) -> None:
        if not any(True for _ in changes_of(changes, GrantChange, "acknowledged")):
            # Permissions that an invitation gave are acknowledged, too.
            known = [self.context.ids.get(id) for id in entry.correlation_id]
            if not any(found is not None and found[1] == "space/invite" for found in known):
                self.report(ACKNOWLEDGED_NOTHING, entry)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _compile(text: str) -> Node | None:
    """The pattern over the payload of a capability as JSON; None where it has none or cannot be read."""
    payload = (read_members(text) or {}).get("payload")
    try:
        return compile_pattern(payload, key="payload", paths=False) if isinstance(payload, dict) else None
    except MewError:
        return None


def _globs(node: Node, value: Any, path: str, meter: Meter) -> Iterator[tuple[str, str, str]]:
    """The strings of `value` that a glob of the pattern matched: path, string, glob."""
    try:
        if isinstance(node, Glob):
            if isinstance(value, str) and node.accepts(value, meter):
                yield path, value, node.source
        elif isinstance(node, AnyOf):
            if any(not isinstance(one, Glob) and one.holds(value, meter) for one in node.alternatives):
                return  # it is permitted as it is
            for one in node.alternatives:
                yield from _globs(one, value, path, meter)
        elif isinstance(node, ObjectPattern) and isinstance(value, dict):
            for member in node.members:
                if isinstance(member, Field):
                    if member.name in value:
                        yield from _globs(member.pattern, value[member.name], f"{path}.{member.name}", meter)
                else:
                    for below, text in _strings(value, path):
                        yield from _globs(member.pattern, text, below, meter)
    except TOO_COSTLY:
        return


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The first 1000 strings in a value, with their paths; without recursion, because payloads may be deep."""
    waiting: list[tuple[str, Any]] = [(path, value)]
    for _ in range(MAX_STRINGS):
        if not waiting:
            return
        at, item = waiting.pop()
        if isinstance(item, str):
            yield at, item
        elif isinstance(item, dict):
            waiting += [(f"{at}.{key}"[:200], below) for key, below in list(item.items())[:MAX_STRINGS]]
        elif isinstance(item, list):
            waiting += [(f"{at}[{n}]"[:200], below) for n, below in enumerate(item[:MAX_STRINGS])]
