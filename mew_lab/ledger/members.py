"""Tracks the participants of a space: which are present, paused, shut down or removed.

How it works
------------
`MemberLedger.observe` takes every entry of a space, in order, and returns what it changed. A `Membership` is a
snapshot: it never changes, and the ledger holds the newest one of each participant.

- a participant is present from a `join` presence of the gateway, or a welcome that lists it, until its `leave`
  presence; a welcome lists every participant that is present;
- `participant/pause`, `participant/resume` and `participant/shutdown` act on the participants in `to`: the gateway
  relays only what it enforces, so a relayed one holds;
- a resume by the paused participant itself changes nothing (R14);
- a pause outlives a new connection, a shutdown does not; a resume or restart by another participant also ends the
  shutdown of a participant without a connection;
- `space/kick` removes a participant until it joins again.

One participant may have several connections, each with an id of its own. `logical` maps such an id to the name of the
participant; by default each id is a participant. There is no clock: the reader compares the end of a pause with its
own (`PauseFacts.holds`).

Spec: §3.6.7, §3.7, §3.8.1, §3.9.1, §3.9.2, §3.9.9, §3.9.10, rulings R8c, R14, R15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, list_of
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.kinds import EXTENSION, GATEWAY

__all__ = [
    "GATEWAYS",
    "MEMBER_KINDS",
    "MemberChange",
    "MemberLedger",
    "Membership",
    "PauseFacts",
    "Welcome",
    "described_member",
    "read_extension",
    "read_welcome",
]

GATEWAYS = frozenset({GATEWAY, "gateway"})  # other gateways also send under the short name
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
MAX_MEMBERS = 2000  # those who have left too: a participant may join under ever new ids
MAX_REASON = 300  # characters of the reason of a pause
LONGEST = 1e15  # seconds; a longer pause counts as one without an end


class Welcome(NamedTuple):
    """The content of a welcome.

    `patterns` are the capabilities of its addressee `id`, `participants` the others; `extension` is what the gateway
    does beyond the specification, empty for other gateways (R34).
    """

    id: str
    patterns: list[dict[str, Any]]
    participants: dict[str, list[dict[str, Any]]]
    extension: Mapping[str, Any]


class PauseFacts(NamedTuple):
    """A pause: its sender, reason, begin and end; `until` is None where it lasts until a resume.

    `since` and `until` are seconds since the epoch where entries carry a time, else meaningless. `since` is None where
    the begin was not seen.
    """

    by: str
    reason: str
    since: float | None
    until: float | None

    def holds(self, now: float) -> bool:
        """Whether it is in force at the time `now`, in seconds since the epoch."""
        return self.until is None or now < self.until


class Membership(NamedTuple):
    """One participant and its state.

    Attributes:
        name: The participant; the id of its connection where the name is not known.
        ids: The ids of its connections, the newest last; empty while it is absent.
        capabilities: Its patterns as the gateway sent them last.
        came: Whether it was ever present; a participant that is only invited was not.
        pause: The last pause without a resume; it may have ended since.
        shut_down: Whether it was shut down and has not joined since.
        removed: Whether it was kicked and has not joined since.
        since: The time of its last join or leave, as `Entry.t`; None where only a welcome listed it.
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
    """The change of one participant by one entry; `told` means that a welcome listed new capabilities or ids."""

    what: Literal["joined", "left", "invited", "told", "paused", "resumed", "shut_down", "revived", "removed"]
    member: Membership
    entry: Entry | None = None


class MemberLedger:
    """The participants of a space, as one participant or one journal saw them.

    Every participant that is present is held, and the newest 2000 that are absent.

    Args:
        me: The id of the observing participant: only its own welcomes count. None for a journal.
        logical: Maps the id of a connection to the name of its participant.
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
        """The participants that are present, in the order of their arrival, then those that are absent."""
        return iter((*self._present.values(), *self._absent.values()))

    def get(self, name: str) -> Membership | None:
        """The participant of this name or connection id; None where it is unknown or forgotten."""
        return self._find(self._logical(name))

    @property
    def present(self) -> dict[str, Membership]:
        """The participants that are present, by the ids of their connections."""
        return {id: member for member in self for id in member.ids}

    def observe(self, entry: Entry) -> tuple[MemberChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        rule = self._rules.get(entry.kind)
        if rule is None or entry.refused:
            return ()
        if entry.kind.startswith("system/") and entry.sender not in GATEWAYS:
            return ()
        return tuple(rule(entry))

    def interrupt(self) -> tuple[MemberChange, ...]:
        """Marks every participant as absent until the next welcome, because the connection ended."""
        here = [member for member in self if member.ids]
        return tuple(self._keep("left", member._replace(ids=()), None) for member in here)

    # --- one rule a kind ---

    def _on_welcome(self, entry: Entry) -> Iterator[MemberChange]:
        welcome = read_welcome(entry)
        if welcome is None or self.me not in (None, welcome.id):
            return
        patterns_by_id = {welcome.id: welcome.patterns, **welcome.participants}
        ids: dict[str, list[str]] = {}
        for id in patterns_by_id:
            ids.setdefault(self._logical(id), []).append(id)
        for member in self:
            if member.ids and member.name not in ids:
                yield self._keep("left", member._replace(ids=(), since=entry.t), entry)
        for name, present in ids.items():
            known = self._find(name) or Membership(name=name)
            earlier = [id for id in known.ids if id in present]
            now = (*earlier, *(id for id in present if id not in earlier))
            capabilities = tuple(patterns_by_id[now[-1]])
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
        pause = PauseFacts(
            entry.sender,
            line_of(entry.payload.get("reason"), MAX_REASON),
            entry.t,
            entry.t + float(seconds) if ends and seconds is not None else None,
        )
        for member in self._addressed(entry):
            yield self._keep("paused", member._replace(pause=pause), entry)

    def _on_resume(self, entry: Entry) -> Iterator[MemberChange]:
        sender = self._logical(entry.sender)
        for member in self._addressed(entry):
            if member.name == sender:  # a participant cannot end its own pause
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

    # --- storage ---

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


# --- reading of members in payloads ---


def read_welcome(message: Entry | Envelope) -> Welcome | None:
    """The content of a welcome; None where it names no participant, or another than its addressee.

    Spec: §3.8.1.
    """
    you = described_member(message.payload.get("you"))
    if you is None or (message.to and you[0] not in message.to):
        return None
    members = map(described_member, list_of(message.payload.get("participants")))
    present = {item[0]: item[1] for item in members if item and item[0] != you[0]}
    return Welcome(you[0], you[1], present, read_extension(message.payload.get(EXTENSION)))


def read_extension(value: object) -> Mapping[str, Any]:
    """What a gateway says about itself in `x-mew-lab`, without the known members that have another form; empty where
    `value` is no object.

    Spec: ruling R34.
    """
    members = value if isinstance(value, dict) else {}
    fits = (name for name, member in members.items() if name not in FORMS or FORMS[name](member))
    return MappingProxyType({name: members[name] for name in fits})


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


FORMS: Mapping[str, Callable[[object], bool]] = {
    "edition": _is_count,
    "own": _is_names,
    "patterns": _is_names,
    "message_bytes": _is_count,
    "notes": _is_count,
}


def described_member(value: object) -> tuple[str, list[dict[str, Any]]] | None:
    """The id and the patterns of a `{"id", "capabilities"}`; None where `value` has another form. Spec: §3.7."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return None
    patterns = value.get("capabilities")
    listed = patterns if isinstance(patterns, list) else ()
    return value["id"], [pattern for pattern in listed if isinstance(pattern, dict)]
