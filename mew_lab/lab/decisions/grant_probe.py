"""Finds the messages that a grant would newly allow, in the log and from the pattern itself.

From the log it counts the envelopes of the grantee that the pattern allows and that the grantee may not send now, and
its proposals that could have been requests. From the pattern it computes the smallest message that is newly allowed,
even if none was ever sent. The rule of the gateway is applied first: a participant grants only what it holds itself.

Everything runs on the loop, a few milliseconds a turn. Spec: §3.6.8, §4.1, §4.2; threat 22.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.decisions.grant_preview import TEXT_ALONE
from mew_lab.lab.decisions.limited_grants import Example
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.lab.standing import find_kept, logical, standings
from mew_lab.log.line import read_members
from mew_lab.protocol.covers import possesses
from mew_lab.protocol.describe import describe, reword_refusal
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.pattern import judges_paths, warnings
from mew_lab.protocol.permit import CLOSED, NARROW, Capability, CapabilitySet, read_capabilities
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.visible import one_line
from mew_lab.protocol.witness import witness
from mew_lab.space.events import Record

__all__ = ["Probe", "describe_effect", "find_grant_obstacle", "probe", "read_pattern"]

LOOKED_AT = 100_000  # the newest envelopes of all participants
TURN = 0.004  # seconds of one turn of the loop
MOST_TEXT = 20_000  # characters of a pattern
EXAMPLES = 3
_PROPOSAL, _REQUEST = "mcp/proposal", "mcp/request"

Allowed = Callable[[str, Sequence[str], dict[str, Any]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The effect of a grant.

    Of `looked_at` logged envelopes of the grantee, `fresh` would be newly allowed, and the gateway refused `refused` of
    these when they were sent. `already` counts the envelopes that the pattern and the held capabilities both allow.
    `proposals` counts proposals that could have been requests. `examples` has at most three, the refused ones first.
    `smallest` is a message that is newly allowed, empty when none was found. `adds` is whether the pattern allows more
    than the held capabilities, as far as is known. `barred` is the reason why the human may not grant it.
    """

    phrase: str
    adds: bool
    fresh: int
    refused: int
    already: int
    proposals: int
    looked_at: int
    examples: tuple[Example, ...]
    smallest: str
    barred: str
    warnings: tuple[str, ...]


def read_pattern(text: str) -> dict[str, Any]:
    """The capability pattern in a text that a person has written.

    Raises:
        MewError: the text is not a capability; the message names the place.

    Spec: §4.1.
    """
    if len(text) > MOST_TEXT:
        raise MewError(f"A pattern of more than {MOST_TEXT} characters is too long for a person to check.")
    try:
        pattern = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise MewError(refer_to_patterns(f"This is not JSON: {one_line(str(fault), 200)}")) from None
    if not isinstance(pattern, dict):
        raise MewError(refer_to_patterns('A permission is one object, such as {"kind": "chat"}.'))
    try:
        Capability.of(pattern)
    except ConfigError as fault:
        why = one_line(reword_refusal(str(fault)), 300)
        raise MewError(refer_to_patterns(f"{fault.key or 'pattern'}: {why}")) from None
    return pattern


def find_grant_obstacle(session: Session, pattern: Mapping[str, Any]) -> str:
    """The reason why the human of the lab may not grant a pattern; empty when the gateway would accept it.

    Spec: §3.6.8, ruling R12.
    """
    me = session.me
    if session.closed or me.participant.client.state != "ready":
        return "You are not connected to the space."
    client = me.participant.client
    held = client.capabilities
    if pattern.get(CLOSED) is True and client.pattern_edition < NARROW:
        return f"The gateway of this space ignores {CLOSED}, so any other arguments would be allowed too."
    if not held.permit("capability/grant", (), {"recipient": "somebody"}).allowed:
        return "You don't have permission to grant anything (capability/grant)."
    wanted = Capability.of(pattern, edition=client.pattern_edition)
    if kept := find_kept(held, wanted):
        return kept
    possession = possesses(held.capabilities, wanted)
    if possession:
        return ""
    beyond = f" Your permissions do not allow {_message(possession.witness)}." if possession.witness else ""
    why = one_line(reword_refusal(possession.reason), 300)
    return f"You may not grant this: you ({me.name}) do not hold it yourself: {why}.{beyond}"


async def probe(
    session: Session, grantee: str, text: str, *, wanted: Callable[[], bool] = lambda: True
) -> Probe:
    """Computes the effect of granting the pattern in `text` to `grantee`; stops early when `wanted` returns False.

    Raises:
        MewError: the text is not a pattern, or no participant has the name `grantee`.
    """
    pattern = read_pattern(text)
    standing = next((standing for standing in standings(session) if standing.name == grantee), None)
    if standing is None:
        raise MewError(f"No participant of this space is called {one_line(grantee, 64)!r}")
    edition = session.me.participant.client.pattern_edition
    held, _ = read_capabilities([dict(right.pattern) for right in standing.rights], edition=edition)
    capability = Capability.of(pattern, edition=edition)
    adds = not possesses(held.capabilities, capability)
    await asyncio.sleep(0)
    smallest = witness(capability, held.capabilities) if adds else None
    obstacle = find_grant_obstacle(session, pattern)
    await asyncio.sleep(0)
    search = _Search(grantee, capability, held, lambda name: logical(session, name))
    turn = perf_counter()
    looked_at = 0
    for record in reversed(session.log.held):
        if record.raw is None:
            continue
        looked_at += 1
        if looked_at > LOOKED_AT:
            break
        if record.participant == grantee and record.event == "received":
            search.take(record)
        if looked_at % 64 == 0 and perf_counter() - turn > TURN:
            await asyncio.sleep(0)
            if not wanted():
                break
            turn = perf_counter()
    return Probe(
        phrase=phrase(pattern),
        adds=adds,
        fresh=search.fresh,
        refused=search.refused,
        already=search.already,
        proposals=search.proposals,
        looked_at=search.looked_at,
        examples=search.examples,
        smallest=_message(smallest) if smallest else "",
        barred=obstacle,
        warnings=(*(one_line(warning, 200) for warning in warnings(pattern)[:4]), *_tell_paths(capability)),
    )


def _tell_paths(capability: Capability) -> tuple[str, ...]:
    """What a glob over paths does not judge, where the capability has one."""
    return (TEXT_ALONE,) if judges_paths(capability.payload) else ()


class _Search:
    """Counts over the envelopes of one sender, the newest first."""

    def __init__(
        self, grantee: str, capability: Capability, held: CapabilitySet, name_of: Callable[[str], str]
    ) -> None:
        self.fresh = self.refused = self.already = self.proposals = self.looked_at = 0
        self._grantee = grantee
        self._name_of = name_of
        self._new = _by_kind((capability,))
        self._old = _by_kind(held.capabilities)
        self._refused: list[Example] = []
        self._others: list[Example] = []
        self._proposed: list[Example] = []

    @property
    def examples(self) -> tuple[Example, ...]:
        """At most three examples: refused envelopes, then others, then proposals."""
        return (*self._refused, *self._others, *self._proposed)[:EXAMPLES]

    def take(self, record: Record) -> None:
        """Counts one envelope of the grantee."""
        members = read_members(record.raw or "")
        if members is None:
            return
        self.looked_at += 1
        kind, payload, to = members.get("kind"), members.get("payload"), members.get("to")
        if not isinstance(kind, str):
            return
        body = payload if isinstance(payload, dict) else {}
        names = [self._name_of(name) for name in to if isinstance(name, str)] if isinstance(to, list) else []
        if self._new(kind, names, body):
            if self._old(kind, names, body):
                self.already += 1
                return
            self.fresh += 1
            if record.verdict == "refused":
                self.refused += 1
                self._keep(self._refused, record, kind, names, body)
            else:
                self._keep(self._others, record, kind, names, body)
        elif kind == _PROPOSAL and self._new(_REQUEST, names, body) and not self._old(_REQUEST, names, body):
            self.proposals += 1
            self._keep(self._proposed, record, kind, names, body)

    def _keep(
        self, book: list[Example], record: Record, kind: str, to: list[str], payload: dict[str, Any]
    ) -> None:
        if len(book) < EXAMPLES:
            text = one_line(describe(kind, payload), 160)
            book.append(Example(record.now.timestamp(), self._grantee, tuple(to), kind, text))


def _by_kind(capabilities: Sequence[Capability]) -> Allowed:
    """A function that returns whether one of the capabilities permits a message; it keeps those that match each kind."""
    known: dict[str, tuple[Capability, ...]] = {}

    def allowed(kind: str, to: Sequence[str], payload: dict[str, Any]) -> bool:
        matching = known.get(kind)
        if matching is None:
            matching = tuple(capability for capability in capabilities if capability.kind.matches(kind))
            if len(known) < 1000:
                known[kind] = matching
        return any(capability.permits_body(to, payload) for capability in matching)

    return allowed


def _message(message: Mapping[str, Any]) -> str:
    """A message as one line of JSON, without its empty members; empty when it has none."""
    try:
        return one_line(compact({key: value for key, value in message.items() if value not in ([], {})}), 400)
    except MewError:
        return ""


def describe_effect(result: Probe, name: str) -> list[str]:
    """The effect of a grant to the participant `name`, in plain sentences."""
    lines: list[str] = []
    if not result.adds:
        lines.append(f"It adds nothing: {name} may already send all of this.")
    else:
        were = (
            "It was"
            if result.fresh == 1
            else f"{result.refused} of them {'was' if result.refused == 1 else 'were'}"
        )
        refused = f" {were} refused." if result.refused else ""
        lines.append(f"{_tell_past(result, name)} would newly be allowed.{refused}")
    if result.proposals:
        many = "proposal" if result.proposals == 1 else "proposals"
        lines.append(f"{result.proposals} past {many} would have run without asking you.")
    if result.already and result.adds:
        lines.append(f"Its permissions already allow {result.already} more.")
    return lines


def _tell_past(result: Probe, name: str) -> str:
    """How many of the past messages of a participant are concerned, as the subject of a sentence."""
    sent = f"past message{'' if result.looked_at == 1 else 's'}"
    if not result.looked_at:
        return f"No past message of {name}"
    if not result.fresh:
        return f"None of {name}'s {result.looked_at} {sent}"
    if result.fresh == result.looked_at:
        return f"{name}'s {sent}" if result.fresh == 1 else f"All {result.looked_at} of {name}'s {sent}"
    return f"{result.fresh} of {name}'s {result.looked_at} {sent}"
