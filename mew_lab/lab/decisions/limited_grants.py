"""Gives grants in the name of one human, ends limited ones, and counts the logged envelopes that a pattern matches.

A grant that is limited in minutes or uses states its end in its payload. Where the space runs here its gateway applies
that end, also after this process is gone, and this module only reads its state. The gateway of another process may not
know such ends. There the uses are counted here too, and the grant is revoked when it has ended and when the lab goes
down. A use is then an envelope that the grant could have let through. The revoke follows the last permitted use, so
envelopes that the holder sent in between pass too. A revoke that fails is a fault of the lab, and is repeated every ten
seconds until it succeeds.

Everything runs on the loop's thread, except `would_match`, which any thread may call.

Spec: §3.6.1, §3.6.2, ruling R25; threat 22.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mew_lab.errors import ConfigError, MewError, Refused
from mew_lab.lab.decisions.pinned_tools import rests_on
from mew_lab.lab.sentences import phrase
from mew_lab.lab.session import Session
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import Revocation
from mew_lab.log.entries import entry_of
from mew_lab.log.line import read_members
from mew_lab.log.log import Log
from mew_lab.protocol.describe import describe, reword_refusal
from mew_lab.protocol.permit import NARROW, Capability, CapabilitySet
from mew_lab.protocol.profiles import refer_to_patterns
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import RunningTasks, run_all

if TYPE_CHECKING:
    from mew_lab.ledger.grants import Grant

__all__ = [
    "ENDS_HERE",
    "LOOKED_AT",
    "MOST_MINUTES",
    "Example",
    "GivenGrant",
    "LimitedGrants",
    "Matches",
    "end_in_words",
    "is_minutes",
]


ENDS_HERE = (
    "This permission ends only while this lab is up: the gateway of this space may not end permissions."
)


def is_minutes(value: float) -> bool:
    """Whether it is a time that a permission or a pause may last."""
    return not isinstance(value, bool) and math.isfinite(value) and 0 < value <= MOST_MINUTES


def end_in_words(ends: float | None, uses: int | None, used: int) -> str:
    """The end of a grant as a short text; empty where it has none. `ends` is seconds of the epoch."""
    words = [] if uses is None else [f"{used} of {count_of(uses, 'use')}"]
    if ends is not None:
        words.append(f"until {local_time(ends)}")
    return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenGrant:
    """A grant of this person. `ends` is seconds of the epoch, `uses` the permitted number; None means no limit."""

    id: str
    to: str
    patterns: tuple[Mapping[str, Any], ...]
    reason: str
    since: float
    ends: float | None = None
    uses: int | None = None
    used: int = 0
    state: Literal["stands", "revoking", "revoked"] = "stands"
    why: str = ""

    @property
    def limited(self) -> bool:
        """Whether it ends by itself."""
        return self.ends is not None or self.uses is not None

    @property
    def left(self) -> str:
        """The end of the grant as a short text."""
        return end_in_words(self.ends, self.uses, self.used) or "until it is revoked"


LOOKED_AT = 20_000  # envelopes that a pattern is held against, the newest


class Example(NamedTuple):
    """An envelope that a pattern would have matched, in one line."""

    t: float
    sender: str
    to: tuple[str, ...]
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Matches:
    """The number of the newest `looked_at` envelopes that a pattern would have matched, and the last three of them."""

    count: int
    examples: tuple[Example, ...]
    looked_at: int

    def __str__(self) -> str:
        summary = f"would have matched {self.count} of {self.looked_at} envelopes"
        newest = [
            f"{example.sender} to {', '.join(example.to) or 'everybody'}: {example.what}"
            for example in self.examples
        ]
        return "\n  ".join([summary + ("; the newest of them:" if newest else ""), *newest])


def _search(log: Log, pattern: Mapping[str, Any], sender: str | None) -> Iterator[Matches | None]:
    """Yields None after each thousand envelopes, and the matches at the end."""
    capability = Capability.of(pattern)
    count, looked_at, examples = 0, 0, list[Example]()
    for record in reversed(log.held):
        if record.raw is None:
            continue
        if looked_at == LOOKED_AT:
            break
        looked_at += 1
        if looked_at % 1000 == 0:
            yield None
        members = read_members(record.raw) or {}
        entry = entry_of(record, 0, members)
        by = str(members.get("from") or record.participant)
        if sender is not None and sender not in (by, record.participant):
            continue
        kind = "mcp/request" if entry.kind == "mcp/proposal" else entry.kind
        if capability.permits(kind, entry.to, entry.payload):
            count += 1
            if len(examples) < 3:
                what = one_line(describe(entry.kind, dict(entry.payload)), 160)
                examples.append(Example(entry.t, by, entry.to, entry.kind, what))
    yield Matches(count, tuple(examples), looked_at)


ROUNDED = 0.1  # seconds by which the end that a gateway was told may lie before the one that is kept here

logger = logging.getLogger(__name__)

KEPT = 500  # grants that are remembered; those that are over go first
MOST_MINUTES = 7 * 24 * 60
AT_THE_END = 3.0  # seconds for the last revokes of a lab
AGAIN = 10.0  # seconds until a revoke that failed is tried once more
# Seconds after the end of a grant, until its state is read: the gateway's timer of that moment may run after this one.
LOOK = 0.05
TAKING = frozenset({"capability/revoke", "space/kick"})


class LimitedGrants:
    """The grants that the human of one lab has given through it. `given` may be read from any thread."""

    def __init__(
        self, session: Session, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._session = session
        self._clock = clock
        self._given: dict[str, GivenGrant] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._revokes = RunningTasks()
        # Own grants that the followed log has shown. The ledger follows the connection, which is ahead of the log.
        self._logged: set[str] = set()
        self._of_session: set[str] = set()  # those that end with this lab
        self._unanswered = 0  # grants of some uses that the gateway has not taken yet
        self._meanwhile: deque[Entry] = deque(maxlen=1000)
        self._follows = False
        self._attached = False
        self._looking = False
        # Grant (empty: others) -> why it was revoked, since the last look. The ledger holds no reason of a kick.
        self._reasons: dict[str, str] = {}
        self.on_change: Subscribers[GivenGrant] = Subscribers()
        self.on_tool_change: Subscribers[()] = Subscribers()

    @property
    def given(self) -> tuple[GivenGrant, ...]:
        """The grants given here, oldest first; at most 500."""
        return tuple(self._given.values())

    def __contains__(self, id: object) -> bool:
        """Whether the grant, or the rule for alike calls, was given here and is still recorded."""
        return id in self._given or id in self._session.decisions.alike

    @property
    def knows_closed(self) -> bool:
        """Whether the gateway of the space gives closed capabilities as closed ones (R34)."""
        return self._session.me.participant.client.pattern_edition >= NARROW

    @property
    def kept(self) -> bool:
        """Whether the gateway applies the ends of grants, so that this module need not."""
        return self._session.host is not None

    async def grant(
        self,
        to: str,
        patterns: Iterable[Mapping[str, Any]],
        *,
        minutes: float | None = None,
        uses: int | None = None,
        reason: str = "",
        session: bool = False,
    ) -> str:
        """Grants capabilities to `to`; returns the id of the grant once the gateway has accepted it.

        Args:
            minutes: The minutes after which it ends; None for no such limit.
            uses: The number of envelopes after which it ends; None for no such limit.
            session: Whether it also ends when this lab goes down.

        Raises:
            ConfigError: A pattern is not valid.
            MewError: `minutes` or `uses` is not valid; or as `OwnCapabilities.grant`.

        Spec: §3.6.1.
        """
        wanted = tuple(dict(pattern) for pattern in patterns)
        try:
            CapabilitySet(wanted)
        except ConfigError as fault:
            why = refer_to_patterns(reword_refusal(str(fault)))
            raise ConfigError(f"Cannot grant to {to[:80]!r}: {why}", key=fault.key) from None
        if not wanted:
            raise MewError(f"Cannot grant an empty list to {to[:80]!r}: give at least one pattern")
        if minutes is not None and not is_minutes(minutes):
            raise MewError(f"Cannot grant for {minutes} minutes: give more than 0 and at most {MOST_MINUTES}")
        if uses is not None and (isinstance(uses, bool) or uses < 1):
            raise MewError(f"Cannot grant {uses} uses: give at least one, or leave it out for no limit")
        limited = minutes is not None or uses is not None
        self._attach()
        sender, rights = self._session.me.participant.sender, self._session.me.participant.rights
        until = None if minutes is None else self._time() + timedelta(minutes=minutes)
        envelope = rights.complete_grant(to, wanted, reason=reason or None, expires_at=until, max_uses=uses)
        grant = GivenGrant(
            id=envelope.id, to=to, patterns=wanted, reason=reason, since=self._now(), uses=uses
        )
        try:
            async with self._listen(limited if self.kept else uses is not None):
                await sender.send_accepted(envelope)
        except Refused:
            raise
        except BaseException:
            # It was said to have failed, and it may have been taken all the same.
            self._put(grant)
            self._begin_revoke(grant.id, "the gateway did not acknowledge the permission")
            raise
        if session:
            self._of_session.add(grant.id)
        since = self._now()
        if until is not None and minutes is not None and self.kept:
            since = until.timestamp() - minutes * 60
        grant = replace(grant, since=since, ends=None if minutes is None else since + minutes * 60)
        self._put(grant)
        if self.kept:
            if limited:
                self._look_at(grant.id, minutes)
            return grant.id
        for entry in tuple(self._meanwhile) if uses is not None else ():
            self._count(grant.id, entry)
        if minutes is not None:
            loop = asyncio.get_running_loop()
            self._timers[grant.id] = loop.call_later(
                minutes * 60, self._begin_revoke, grant.id, f"its {minutes:g} min are over"
            )
        return grant.id

    def _time(self) -> datetime:
        """The gateway's time, which decides when a grant ends."""
        host = self._session.host
        return self._clock() if host is None else host.gateway.time(host.name)

    def _now(self) -> float:
        return self._clock().timestamp()

    @contextlib.asynccontextmanager
    async def _listen(self, counted: bool) -> AsyncIterator[None]:
        """Collects the envelopes that arrive meanwhile: a grant may be used before its acknowledgement arrives here."""
        if not counted:
            yield
            return
        if not self._follows:
            self._follows = True
            self._session.following.add(self, earlier=False)
        if not self._unanswered:
            self._meanwhile.clear()
        self._unanswered += 1
        try:
            yield
        except BaseException:
            asyncio.get_running_loop().call_soon(self._follow_no_more)
            raise
        finally:
            self._unanswered -= 1

    async def revoke(self, grant_id: str, *, reason: str = "") -> None:
        """Revokes a grant of any granter, or ends a rule for alike calls of this lab.

        Raises:
            MewError: No such grant was seen in this space; or as `OwnCapabilities.revoke`.

        Spec: §3.6.2.
        """
        if self._session.decisions.alike.end(grant_id) is not None:
            return
        known, grant = self._session.me.participant.rights.grants.get(grant_id), self._given.get(grant_id)
        recipient = grant.to if grant else known.recipient if known else None
        if recipient is None:
            raise MewError(f"Cannot revoke {grant_id[:80]!r}: no such grant was seen here")
        await self._session.me.participant.rights.revoke(recipient, grant_id=grant_id, reason=reason or None)
        self._end(grant_id, reason or "revoked by you")

    async def undo(self) -> str:
        """Ends the newest grant, or rule for alike calls, that was given here and is in force; returns one sentence.

        Raises:
            MewError: None is in force; or as `revoke`.

        Spec: §3.6.2.
        """
        grant = next((grant for grant in reversed(self.given) if grant.state == "stands"), None)
        rule = next(reversed(self._session.decisions.alike.standing), None)
        if rule is not None and (grant is None or rule.since >= grant.since):
            await self.revoke(rule.id)
            return one_line(
                f"alike calls of {rule.proposer} are no longer approved here: {phrase(rule.capability.pattern)}",
                600,
            )
        if grant is None:
            raise MewError(
                "There is nothing to undo: no permission that you gave is in force; %mew grants lists all of them"
            )
        await self.revoke(grant.id)
        what = "; ".join(phrase(pattern) for pattern in grant.patterns)
        return one_line(
            f"the permission that {grant.to} got at {local_time(grant.since)} is revoked: {what}", 600
        )

    def would_match(self, pattern: Mapping[str, Any], *, sender: str | None = None) -> Matches:
        """Counts the logged envelopes, of one sender or of all, that a capability would have matched; for any thread.

        A proposal counts as the request that it proposes; refused envelopes count as well.

        Raises:
            ConfigError: The pattern is not valid.
        """
        return next(filter(None, _search(self._session.log, pattern, sender)))

    async def count_matches(self, pattern: Mapping[str, Any], *, sender: str | None = None) -> Matches:
        """Like `would_match`, for the loop: other tasks run after every thousand envelopes."""
        for matches in _search(self._session.log, pattern, sender):
            if matches is not None:
                return matches
            await asyncio.sleep(0)
        raise AssertionError("a search ends with its matches")

    def on_changed_tools(self, participant: str, changes: Mapping[str, str]) -> None:
        """Revokes the grants given here, and ends the rules, for tools whose descriptions have changed.

        The grants of others are ended by them alone. Spec: threat 41.

        Args:
            changes: The tools of the participant, and the difference of each as text.
        """
        self._session.decisions.alike.end_of_tools(participant, changes)
        for grant in self.given:
            tools = (rests_on(pattern, participant, changes) for pattern in grant.patterns)
            if grant.state == "stands" and (tool := next(filter(None, tools), "")):
                why = f"the tool {participant}/{tool} changed: {changes[tool]}"
                self._begin_revoke(grant.id, one_line(why, 300))
        self.on_tool_change.tell()

    async def close(self) -> None:
        """Revokes the grants that nothing else would end; called before the lab leaves its space. Never raises."""
        for timer in self._timers.values():
            timer.cancel()
        over = [
            grant.id
            for grant in self.given
            if grant.state != "revoked"
            and (grant.why or (grant.limited and not self.kept) or grant.id in self._of_session)
        ]
        await run_all(map(self._revoke_at_close, over))

    async def _revoke_at_close(self, id: str) -> None:
        why = "the lab of its granter went down"
        try:
            async with asyncio.timeout(AT_THE_END):
                await self.revoke(id, reason=why)
        except (MewError, TimeoutError) as fault:
            if _is_gone(fault):
                self._end(id, why)
            else:
                self._session.fault(
                    f"the permission {id} may still be in force at the end: {fault or 'no answer in time'}"
                )

    # --- what ends a grant ---

    def take(self, entry: Entry) -> None:
        """Takes every envelope and counts the uses of grants that have a number of them."""
        if self.kept:
            if entry.kind in TAKING and not entry.refused:
                self._take_note(entry)
            if not self._looking:  # the space has changed when this envelope's turn is over
                self._looking = True
                asyncio.get_running_loop().call_soon(self._look)
            return
        if entry.refused:
            return
        if entry.kind == "capability/grant" and entry.sender == self._session.me.participant.client.id:
            self._logged.add(entry.id)
        if self._unanswered:
            self._meanwhile.append(entry)
        for grant in self.given:
            self._count(grant.id, entry)

    def _count(self, id: str, entry: Entry) -> None:
        grant = self._given[id]
        if grant.uses is None or grant.state == "revoked" or not self._by(grant, entry):
            return
        self._put(replace(grant, used=grant.used + 1))
        if grant.used + 1 >= grant.uses:
            self._begin_revoke(
                grant.id, f"its {grant.uses} {'use is' if grant.uses == 1 else 'uses are'} over"
            )

    def _take_note(self, entry: Entry) -> None:
        grant_id, reason = entry.payload.get("grant_id"), entry.payload.get("reason")
        why = one_line(reason, 300) if isinstance(reason, str) and reason else f"revoked by {entry.sender}"
        if len(self._reasons) < KEPT:
            self._reasons[grant_id if isinstance(grant_id, str) else ""] = why

    def _look_at(self, id: str, minutes: float | None) -> None:
        """Reads the state of a grant from its gateway, now and when its time is over."""
        self._look()
        grant = self._given.get(id)
        if grant is None or grant.state == "revoked" or minutes is None or self._session.closed:
            return
        loop = asyncio.get_running_loop()
        self._timers[id] = loop.call_later(minutes * 60 + LOOK, self._look_at, id, LOOK)

    def _look(self) -> None:
        """Takes over from the gateway which grants have ended, and how often the others were used."""
        self._looking, reasons = False, self._reasons
        self._reasons = {}
        core = self._session.host.core if self._session.host is not None else None
        if core is None:
            return
        for grant in self.given:
            if not grant.limited or grant.state == "revoked":
                continue
            end = core.state.ends.get(grant.id)
            if end is None:
                self._end(grant.id, self._why(grant, reasons))
            elif end.max_uses is not None and end.uses is not None and end.max_uses - end.uses != grant.used:
                self._put(replace(grant, used=end.max_uses - end.uses))

    def _why(self, grant: GivenGrant, reasons: Mapping[str, str]) -> str:
        if grant.why or grant.id in reasons:
            return grant.why or reasons[grant.id]
        if grant.ends is not None and self._now() >= grant.ends - ROUNDED:
            return f"its {round((grant.ends - grant.since) / 60, 6):g} min are over"
        if grant.uses is None or reasons:
            return "it was taken back, or what it rested on"
        self._put(replace(grant, used=grant.uses))
        return f"its {grant.uses} {'use is' if grant.uses == 1 else 'uses are'} over"

    def _by(self, grant: GivenGrant, entry: Entry) -> bool:
        """Whether this grant could have permitted the envelope."""
        return (
            grant.id in self._logged
            and entry.sender == grant.to
            and CapabilitySet(grant.patterns).permit(entry.kind, entry.to, entry.payload).allowed
        )

    def _begin_revoke(self, id: str, why: str) -> None:
        grant = self._given.get(id)
        if grant is None or grant.state != "stands":
            return
        self._put(replace(grant, state="revoking", why=why))
        self._revokes.start(self._take_back(id, why))

    async def _take_back(self, id: str, why: str) -> None:
        try:
            await self.revoke(id, reason=why)
        except MewError as fault:
            if _is_gone(fault):  # a kick, or a revoke by patterns, took it along
                return self._end(id, why)
            grant = self._given[id]
            self._put(replace(grant, state="stands", why=f"{why}, but no revoke is confirmed: {fault}"))
            self._session.fault(
                f"the permission {id} of {grant.to} may still be in force although {why}: {fault}"
            )
            if not self._session.closed:
                self._timers[id] = asyncio.get_running_loop().call_later(AGAIN, self._begin_revoke, id, why)

    def _end(self, id: str, why: str) -> None:
        if (timer := self._timers.pop(id, None)) is not None:
            timer.cancel()
        grant = self._given.get(id)
        if grant is not None and grant.state != "revoked":
            self._put(replace(grant, state="revoked", why=why))
        self._follow_no_more()

    def _follow_no_more(self) -> None:
        counted = any(
            (grant.limited if self.kept else grant.uses) and grant.state != "revoked" for grant in self.given
        )
        if self._follows and not counted and not self._unanswered:
            self._session.following.remove(self)
            self._follows = False
            self._logged.clear()

    def _attach(self) -> None:
        if not self._attached:
            self._attached = True
            self._session.me.participant.rights.on_grants_changed(self._on_grants_changed)

    def _on_grants_changed(self, entry: Grant | Revocation) -> None:
        if isinstance(entry, Revocation) and entry.grant_id in self._given:
            self._end(entry.grant_id, entry.reason or f"revoked by {entry.by}")

    def _put(self, grant: GivenGrant) -> None:
        self._given[grant.id] = grant
        if len(self._given) > KEPT:
            # What ends some day is kept until it has.
            over = [old.id for old in self.given if old.state == "revoked"]
            over += [old.id for old in self.given if not old.limited]
            for old in over[:1]:
                del self._given[old]
        self.on_change.tell(grant)


def _is_gone(fault: BaseException) -> bool:
    """Whether a revoke failed because the grant no longer exists."""
    return isinstance(fault, Refused) and fault.code == "grant_not_found"
