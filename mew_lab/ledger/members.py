"""Tracks who is in a space, and who of them is paused, shut down or removed.

How it works
------------
`MemberLedger.observe` takes every entry of a space, in order, and returns what it changed. A `Membership` is a
snapshot: it never changes, and the ledger holds the newest one of each participant.

- a participant is present by the join presence of the gateway, or by a welcome that lists it, until its leave presence;
  a welcome is right about everybody;
- `participant/pause`, `participant/resume` and `participant/shutdown` act on the participants in `to`: the gateway
  relays only what it enforces, so a relayed one holds;
- a resume by the paused participant itself changes nothing (R14);
- a pause outlives a new connection, a shutdown does not; a participant without a connection is also freed from it by a
  resume or restart of another;
- `space/kick` removes a participant until it joins again.

One participant may have several connections, each with an id of its own. `logical` gives the participant that an id
means; an observer that does not know it takes each id for a participant. There is no clock: a pause with an end is
over when the reader's clock says so (`PauseFacts.holds`).

Spec: §3.6.7, §3.7, §3.8.1, §3.9.1, §3.9.2, §3.9.9, §3.9.10, rulings R8c, R14, R15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.visible import one_line

__all__ = [
    "GATEWAYS",
    "MEMBER_KINDS",
    "MemberChange",
    "MemberLedger",
    "Membership",
    "PauseFacts",
    "Welcome",
    "described_member",
    "read_welcome",
]

GATEWAYS = frozenset({GATEWAY, "gateway"})  # gateways in the field also speak by the short name
MEMBER_KINDS = frozenset(
    {
        *(
            "system/welcome",
            "system/presence",
            "participant/pause",
            "participant/resume",
            "participant/restart",
        ),
        *("participant/shutdown", "space/kick"),
    }
)
MAX_MEMBERS = 2000
MAX_REASON = 300  # characters of the reason of a pause
LONGEST = 1e15  # seconds; a longer pause has no end that anybody lives to see


class Welcome(NamedTuple):
    """What one welcome tells: `participants` are the others, `patterns` the capabilities of its addressee `id`."""

    id: str
    patterns: list[dict[str, Any]]
    participants: dict[str, list[dict[str, Any]]]


class PauseFacts(NamedTuple):
    """A pause: by whom and why, since when, and until when; `until` is None until somebody resumes.

    `since` and `until` are seconds of the epoch where entries carry a time, else of no meaning; `since` is None where
    nobody saw it begin.
    """

    by: str
    reason: str
    since: float | None
    until: float | None

    def holds(self, now: float) -> bool:
        """Whether it is in force at that time."""
        return self.until is None or now < self.until


class Membership(NamedTuple):
    """What is known of one participant.

    Attributes:
        name: The participant; the id of its connection where more is not known.
        ids: Those of its connections, the newest last; empty while it is not here.
        capabilities: Its patterns, as the gateway told them last.
        came: Whether it was ever here; a participant that is only invited was not.
        pause: The last pause that nobody resumed; it may be over by now.
        shut_down: Whether it was shut down and has not joined since.
        removed: Whether it was kicked and has not joined since.
        since: When it last came or went, as `Entry.t`; None where only a welcome told of it.
    """

    name: str
    ids: tuple[str, ...] = ()
    capabilities: tuple[dict[str, Any], ...] = ()
    came: bool = False
    pause: PauseFacts | None = None
    shut_down: bool = False
    removed: bool = False
    since: float | None = None


class MemberChange(NamedTuple):
    """What one entry did to one participant; `told` is a welcome that says other capabilities or ids."""

    what: Literal["joined", "left", "invited", "told", "paused", "resumed", "shut_down", "revived", "removed"]
    member: Membership
    entry: Entry | None = None


class MemberLedger:
    """The participants of a space, as one participant or one journal saw them.

    None that is here is forgotten; of the others the newest 2000 are held.

    Args:
        me: The id of the participant that sees them: only its own welcomes count. None for a journal.
        logical: The participant that an id means.
    """

    def __init__(self, *, me: str | None = None, logical: Callable[[str], str] = str) -> None:
        self.me = me
        self._logical = logical
        self._present: dict[str, Membership] = {}
        self._absent: BoundedDict[str, Membership] = BoundedDict(MAX_MEMBERS, refresh=True)
        self._rules: Mapping[str, Callable[[Entry], Iterator[MemberChange]]] = {
            "system/welcome": self._on_welcome,
            "system/presence": self._on_presence,
            "participant/pause": self._on_pause,
            "participant/resume": self._on_resume,
            "participant/restart": self._on_restart,
            "participant/shutdown": self._on_shutdown,
            "space/kick": self._on_kick,
        }

    def __len__(self) -> int:
        return len(self._present) + len(self._absent)

    def __iter__(self) -> Iterator[Membership]:
        """Those that are here, in the order in which they came, and then the others."""
        return iter((*self._present.values(), *self._absent.values()))

    def get(self, name: str) -> Membership | None:
        """What is known of the participant that this name or id means; None when it was never seen, or long ago."""
        return self._find(self._logical(name))

    @property
    def present(self) -> dict[str, Membership]:
        """Those that are here, by the ids of their connections."""
        return {id: member for member in self for id in member.ids}

    def observe(self, entry: Entry) -> tuple[MemberChange, ...]:
        """Takes note of one entry; to be called for each of the space, in order, own echoes included."""
        rule = self._rules.get(entry.kind)
        if rule is None or entry.refused:
            return ()
        if entry.kind.startswith("system/") and entry.sender not in GATEWAYS:
            return ()
        return tuple(rule(entry))

    def interrupt(self) -> tuple[MemberChange, ...]:
        """The connection ended: nobody is known to be here until the next welcome."""
        here = [member for member in self if member.ids]
        return tuple(self._keep("left", member._replace(ids=()), None) for member in here)

    # --- one rule a kind ---

    def _on_welcome(self, entry: Entry) -> Iterator[MemberChange]:
        welcome = read_welcome(entry)
        if welcome is None or self.me not in (None, welcome.id):
            return
        told = {welcome.id: welcome.patterns, **welcome.participants}
        ids: dict[str, list[str]] = {}
        for id in told:
            ids.setdefault(self._logical(id), []).append(id)
        for member in self:
            if member.ids and member.name not in ids:
                yield self._keep("left", member._replace(ids=(), since=entry.t), entry)
        for name, present in ids.items():
            known = self._find(name) or Membership(name=name)
            kept = [id for id in known.ids if id in present]
            now = (*kept, *(id for id in present if id not in kept))
            capabilities = tuple(told[now[-1]])
            if known.came and (known.ids, known.capabilities) == (now, capabilities):
                continue
            yield self._keep("told", known._replace(ids=now, capabilities=capabilities, came=True), entry)

    def _on_presence(self, entry: Entry) -> Iterator[MemberChange]:
        described = described_member(entry.payload.get("participant"))
        if described is None:
            return
        id, patterns = described
        event, known = entry.payload.get("event"), self._known(id)
        others = tuple(other for other in known.ids if other != id)
        if event == "join":
            joined = known._replace(
                ids=(*others, id),
                capabilities=tuple(patterns),
                came=True,
                shut_down=False,
                removed=False,
                since=entry.t,
            )
            yield self._keep("joined", joined, entry)
        elif event == "leave":
            yield self._keep("left", known._replace(ids=others, since=entry.t), entry)
        elif event == "invited":
            invited = known._replace(capabilities=tuple(patterns), removed=False, since=entry.t)
            yield self._keep("invited", invited, entry)

    def _on_pause(self, entry: Entry) -> Iterator[MemberChange]:
        seconds = entry.payload.get("timeout_seconds")
        ends = isinstance(seconds, int | float) and math.isfinite(seconds) and seconds <= LONGEST
        reason = entry.payload.get("reason")
        pause = PauseFacts(
            entry.sender,
            one_line(reason, MAX_REASON) if isinstance(reason, str) else "",
            entry.t,
            entry.t + float(seconds) if ends and seconds is not None else None,
        )
        for member in self._addressed(entry):
            yield self._keep("paused", member._replace(pause=pause), entry)

    def _on_resume(self, entry: Entry) -> Iterator[MemberChange]:
        sender = self._logical(entry.sender)
        for member in self._addressed(entry):
            if member.name == sender:  # nobody ends its own pause
                continue
            if member.pause is not None:
                yield self._keep("resumed", member._replace(pause=None), entry)
        yield from self._on_restart(entry)

    def _on_restart(self, entry: Entry) -> Iterator[MemberChange]:
        sender = self._logical(entry.sender)
        for member in self._addressed(entry):
            if member.shut_down and not member.ids and member.name != sender:
                yield self._keep("revived", member._replace(shut_down=False), entry)

    def _on_shutdown(self, entry: Entry) -> Iterator[MemberChange]:
        for member in self._addressed(entry):
            yield self._keep("shut_down", member._replace(shut_down=True), entry)

    def _on_kick(self, entry: Entry) -> Iterator[MemberChange]:
        name = entry.payload.get("participant_id")
        if isinstance(name, str):
            yield self._keep("removed", self._known(name)._replace(removed=True, capabilities=()), entry)

    # --- keeping ---

    def _known(self, id: str) -> Membership:
        name = self._logical(id)
        return self._find(name) or Membership(name=name)

    def _find(self, name: str) -> Membership | None:
        return self._present.get(name) or self._absent.get(name)

    def _addressed(self, entry: Entry) -> Iterator[Membership]:
        for name in dict.fromkeys(map(self._logical, entry.to[:MAX_MEMBERS])):
            yield self._known(name)

    def _keep(self, what: Any, member: Membership, entry: Entry | None) -> MemberChange:
        before, now = (self._absent, self._present) if member.ids else (self._present, self._absent)
        before.pop(member.name, None)
        now[member.name] = member
        return MemberChange(what, member, entry)


# --- what the wire tells of a participant ---


def read_welcome(message: Entry | Envelope) -> Welcome | None:
    """What a welcome tells; None when it names nobody, or is addressed to another than it names.

    Spec: §3.8.1.
    """
    you = described_member(message.payload.get("you"))
    if you is None or (message.to and you[0] not in message.to):
        return None
    others = message.payload.get("participants")
    members = (described_member(item) for item in (others if isinstance(others, list) else ()))
    return Welcome(you[0], you[1], {item[0]: item[1] for item in members if item and item[0] != you[0]})


def described_member(told: object) -> tuple[str, list[dict[str, Any]]] | None:
    """The id and the patterns of one `{"id", "capabilities"}`; None when it is none. Spec: §3.7."""
    if not isinstance(told, dict) or not isinstance(told.get("id"), str):
        return None
    patterns = told.get("capabilities")
    listed = patterns if isinstance(patterns, list) else ()
    return told["id"], [pattern for pattern in listed if isinstance(pattern, dict)]
