"""What does a space remember?  Data without decisions."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import CapabilitySet

__all__ = ["Connection", "Handle", "Member", "State", "is_participant_id"]

MAX_HANDLES = 100_000
_PARTICIPANT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)
_RESERVED_NAMES = frozenset({"gateway", "system"})


def is_participant_id(name: str) -> bool:
    """Whether a participant may be called so: 1 to 64 of A–Z a–z 0–9 `.` `_` `-`, and not the gateway's names."""
    return bool(_PARTICIPANT_ID.match(name)) and name.casefold() not in _RESERVED_NAMES


class Connection(NamedTuple):
    """One live connection. `runtime_id` is what stands in `from` and `you.id`."""

    name: str
    participant: str
    runtime_id: str
    via: str


class Handle(NamedTuple):
    """Who took an id, and in which of its admissions."""

    participant: str
    admission: int


class Member:
    """A logical participant: what it may do, and where it is now (newest connection last)."""

    __slots__ = ("admissions", "capabilities", "connections", "name", "texts")

    def __init__(self, name: str, capabilities: CapabilitySet) -> None:
        self.name = name
        self.connections: list[Connection] = []
        self.admissions = 0
        self.hold(capabilities)

    def hold(self, capabilities: CapabilitySet) -> None:
        """Gives it these capabilities instead of what it held."""
        self.capabilities = capabilities
        self.texts = tuple(compact(one) for one in capabilities.patterns)  # as records quote them


class State:
    """Everything that a step reads, and that a commit changes."""

    def __init__(self, baseline: Iterable[Mapping[str, Any]]) -> None:
        self.baseline: tuple[dict[str, Any], ...] = tuple(dict(one) for one in baseline)
        self.members: dict[str, Member] = {}
        self.connections: dict[str, Connection] = {}  # in order of arrival: the order of delivery
        self.runtime_owners: dict[str, str] = {}  # casefolded name or runtime id -> participant, for life
        self.live: dict[str, Connection] = {}  # runtime id -> connection
        self.handles: OrderedDict[str, Handle] = OrderedDict()
        self.messages = 0  # gateway envelopes made so far
        self.records = 0  # journal records made so far

    def capability_set(self, patterns: Iterable[Mapping[str, Any]]) -> CapabilitySet:
        """The patterns with the baseline after them, each once."""
        own = [dict(one) for one in patterns]
        return CapabilitySet([*own, *(one for one in self.baseline if one not in own)])

    def take_handle(self, id: str, handle: Handle) -> None:
        """Remembers who took an id; the oldest is forgotten beyond the limit."""
        self.handles.pop(id, None)
        self.handles[id] = handle
        if len(self.handles) > MAX_HANDLES:
            self.handles.popitem(last=False)

    def logical(self, name: str) -> str:
        """The logical participant that a runtime id or name in `to` means; the name itself when unknown."""
        connection = self.live.get(name)
        return connection.participant if connection else name

    def address(self, name: str) -> str:
        """The runtime id that a name in `to` means now: itself unless it is a logical name living elsewhere."""
        if name in self.live:
            return name
        member = self.members.get(name)
        return member.connections[-1].runtime_id if member and member.connections else name
