"""The state of a space. Data without decisions.

Spec: §3.6.4 (names), §3.10 (streams); `rights` holds the capabilities of members.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.protocol.node import SET_BUDGET
from mew_lab.protocol.permit import Capability, CapabilitySet
from mew_lab.space.rights import End, Held, Rights

__all__ = [
    "EDITION",
    "LIMITS",
    "UNBOUNDED",
    "Handle",
    "LiveConnection",
    "Member",
    "PauseState",
    "Sender",
    "SpaceLimits",
    "State",
    "StreamState",
    "is_participant_id",
]

EDITION = 4
"""The number of the rules of a space. A journal names it, so that a journal of an earlier version is replayed exactly.

0: names in payloads were matched unchanged, a runtime id was never freed, a grant had no end of its own, integers of
more than 64 bits were accepted, an invite was not acknowledged to a log sink, and the cost of judging was not bounded.

1: all new welcomes were sent in the event that caused them, a number beyond a double was `invalid_json`, a revoke of
write access by a participant's name reached only one connection, and a participant that was invited again counted to
its last inviter.

2: a grant by a right of limited uses stood by any other right of its granter when these uses were spent, and a
participant that was invited by a last use kept its dependent rights.

3: a welcome did not say what this gateway does beyond the specification (`x-mew-lab`), a withdraw of an own proposal, or
a cancel of an own chat message, needed a capability, a glob matched any part of a path (R33), and `x-closed` was a
remark (R34). No participant could report a decision, or what became of a call (R42).
"""
OWN_CHATS, CHATS = 1000, 20_000
"""The ids of chat messages that are remembered: of one participant, and of all."""
TURN_BUDGET = 120_000
"""The steps of one event: reading a value of the message costs one."""
_PARTICIPANT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)
_RESERVED_NAMES = frozenset({"gateway", "system"})


def is_participant_id(name: str) -> bool:
    """Whether it is a valid name of a participant: 1 to 64 of A–Z a–z 0–9 `.` `_` `-`, and no name of the gateway."""
    return bool(_PARTICIPANT_ID.match(name)) and name.casefold() not in _RESERVED_NAMES


class SpaceLimits(NamedTuple):
    """The bounds of one space; a message that exceeds them is refused with `limit_exceeded`.

    Participants, active streams, grants and invites are counted per space, capabilities per participant;
    `description_bytes` bounds the requests of active streams together, and the capabilities of one participant, since
    welcomes repeat them. `rights_bytes` bounds the capabilities of all participants together for the same reason,
    `capability_bytes` one of them: a welcome has at most both sums. After `welcome_bytes` of new welcomes in one event
    the others are told by later events.

    `steps` bounds the cost of one message against its sender's capabilities. `turn_steps` bounds the cost of one
    event, reading included. 0 means the rules of journals that were written before there was a budget. One participant
    may take 1/`share` of each count of a space.
    """

    participants: int = 1000
    streams: int = 256
    grants: int = 10_000
    invites: int = 1000
    capabilities: int = 1000
    description_bytes: int = 1024 * 1024
    rights_bytes: int = 1024 * 1024
    capability_bytes: int = 16 * 1024
    welcome_bytes: int = 1024 * 1024
    steps: int = SET_BUDGET
    turn_steps: int = TURN_BUDGET
    handles: int = 100_000
    runtime_ids: int = 10_000
    connections: int = 512
    share: int = 8


UNBOUNDED = {
    "rights_bytes": 0,
    "capability_bytes": 0,
    "welcome_bytes": 0,
    "steps": 0,
    "turn_steps": 0,
    "share": 1,
}
"""The limits of a journal without these members: there were none when it was written."""
LIMITS = SpaceLimits()


class LiveConnection(NamedTuple):
    """One live connection, or a log sink. `runtime_id` is its id in `from` and `you.id`."""

    name: str
    participant: str
    runtime_id: str
    via: str


class Handle(NamedTuple):
    """An id that is taken: by which participant, in which of its admissions.

    A `lasting` one is the id of a grant or an invite, which is never forgotten. `proposal` is whether it names one; a
    snapshot of an earlier edition does not say it.
    """

    participant: str
    admission: int
    lasting: bool = False
    proposal: bool = False


class PauseState(NamedTuple):
    """A pause: its end, None for one that lasts until a resume, and the participant that set it."""

    until: datetime | None
    by: str


class StreamState(NamedTuple):
    """One active stream. Its parties are connections or log sinks; `target` empty is everybody.

    `granted` are the connections with a write grant, in order; `fields` is the payload of the request; `request` and
    `opened` are the ids that a close may name.
    """

    id: str
    owner: LiveConnection
    granted: tuple[LiveConnection, ...]
    target: tuple[LiveConnection, ...]
    fields: Mapping[str, Any]
    size: int
    created: str
    request: str
    opened: str
    by: str = ""  # the participant that requested it, also after a transfer

    @property
    def writers(self) -> tuple[LiveConnection, ...]:
        """The connections that may write, the owner first."""
        return (self.owner, *(writer for writer in self.granted if writer != self.owner))

    @property
    def writer_ids(self) -> list[str]:
        """The ids of the writers, as in `authorized_writers`."""
        return list(dict.fromkeys(writer.runtime_id for writer in self.writers))


class Member:
    """A logical participant: its rights, and its connections (the newest last)."""

    __slots__ = (
        "admissions",
        "connections",
        "inviter",
        "kicked",
        "name",
        "pause",
        "rights",
        "shut_down",
        "sinks",
    )

    def __init__(self, name: str, rights: Rights, *, inviter: str = "") -> None:
        self.name = name
        self.inviter = inviter  # empty for a participant of the configuration
        self.rights = rights
        self.connections: list[LiveConnection] = []
        self.sinks: list[LiveConnection] = []
        self.admissions = 0
        self.pause: PauseState | None = None
        self.shut_down = False
        self.kicked = False

    @property
    def capabilities(self) -> CapabilitySet:
        """The set of its capabilities of all origins."""
        return self.rights.capabilities


class Sender(NamedTuple):
    """The sender of a message: its member, its id, and its connection, None over HTTP."""

    member: Member
    runtime_id: str
    connection: LiveConnection | None
    via: str

    @property
    def recorded(self) -> dict[str, str]:
        """The members of a record that name it; `runtime_id` where only the record tells under which one it spoke."""
        name = self.member.name
        if self.connection is not None:
            return {"participant": name, "connection": self.connection.name, "via": self.via}
        posing = self.runtime_id if self.runtime_id != name else ""
        return {"participant": name, "via": self.via, "runtime_id": posing}


class State:
    """The data that a step reads and a commit changes."""

    def __init__(
        self,
        baseline: Iterable[Mapping[str, Any]],
        *,
        owner: str = "",
        limit: int = MAX_MESSAGE,
        limits: SpaceLimits = LIMITS,
        edition: int = EDITION,
    ) -> None:
        self.edition = edition
        self.owner = owner  # the participant that cannot be revoked or kicked
        self.message_bytes = limit  # bytes of the longest message
        self.limits = limits
        self.baseline = tuple(Capability.of(pattern, edition=edition) for pattern in baseline)
        self.members: dict[str, Member] = {}
        self.connections: dict[str, LiveConnection] = {}  # in order of arrival: the order of delivery
        self.sinks: dict[str, LiveConnection] = {}
        self.audience: tuple[str, ...] = ()  # receivers of messages to everybody: connections, then log sinks
        self.due: dict[str, str] = {}  # connections that are owed a welcome -> the participant that caused it
        self.runtime_owners: dict[str, str] = {}  # casefolded name or runtime id -> participant
        self.aliases: dict[str, str] = {}  # runtime id as it was written -> participant
        self.live: dict[str, LiveConnection] = {}  # runtime id -> connection
        self.handles: OrderedDict[str, Handle] = OrderedDict()
        self.handles_of: dict[str, OrderedDict[str, None]] = {}  # participant -> its handles, oldest first
        self.lasting: dict[str, Handle] = {}  # ids of grants and invites: never forgotten
        self.chats: OrderedDict[str, tuple[str, ...]] = OrderedDict()  # id of a chat -> its senders, R36
        # participant -> the ids of its chats, oldest first
        self.chats_of: dict[str, OrderedDict[str, None]] = {}
        self.grants = 0
        self.ends: dict[str, End] = {}  # grants that are held and end by themselves
        self.next_end: datetime | None = None  # the first `expires_at` of them
        self.invites = 0
        self.taken: Counter[tuple[str, str]] = Counter()  # (what, root) -> how many grants or invites
        self.streams: dict[str, StreamState] = {}
        self.streams_opened = 0
        self.refused_frames: dict[str, tuple[datetime, int, int]] = {}  # connection -> window, told, untold
        self.messages = 0  # gateway envelopes made so far
        self.records = 0  # journal records made so far
        self.journal_head = ""  # the content of the last note

    def configured_rights(self, capabilities: Iterable[Capability]) -> Rights:
        """The rights of a participant with these configured capabilities: them, and the baseline."""
        return Rights(Held(capability) for capability in (*capabilities, *self.baseline))

    def advance(self, edition: int) -> None:
        """Switches to the rules of a later edition, and to its limits where the journal has none.

        All capabilities are read by them. One that they refuse keeps its meaning.
        """
        self.edition = edition
        self.baseline = tuple(Capability.kept(held.pattern, edition=edition) for held in self.baseline)
        for member in self.members.values():
            member.rights = Rights(
                held._replace(capability=Capability.kept(held.capability.pattern, edition=edition))
                for held in member.rights.held
            )
        bounds = {name: getattr(LIMITS, name) for name in UNBOUNDED}
        set_names = {name for name, none in UNBOUNDED.items() if getattr(self.limits, name) != none}
        self.limits = self.limits._replace(
            **{name: most for name, most in bounds.items() if name not in set_names}
        )

    def refresh_audience(self) -> None:
        """Updates the audience after a connection or a sink was added or removed."""
        self.audience = (*self.connections, *self.sinks)

    def forget_ends(self, ids: Iterable[str]) -> None:
        """Forgets the ends of these grants."""
        for id in ids:
            self.ends.pop(id, None)
        self.next_end = min((end.expires_at for end in self.ends.values() if end.expires_at), default=None)

    def upholding(self, ends: Mapping[str, End]) -> Mapping[str, End]:
        """The part of `ends` that limits what a right upholds; empty by the rules before edition 3."""
        return ends if self.edition >= 3 else {}

    def over(self, now: datetime) -> tuple[str, ...]:
        """The grants whose time is over and that are still held, in the order of the grants."""
        if self.next_end is None or now < self.next_end:
            return ()
        return tuple(id for id, end in self.ends.items() if end.expires_at and end.expires_at <= now)

    def holders(self, name: str) -> tuple[LiveConnection, ...]:
        """The connections, log sinks and parties of streams whose runtime id is this name in any spelling."""
        streams = [
            connection for stream in self.streams.values() for connection in (*stream.writers, *stream.target)
        ]
        everybody = (*self.connections.values(), *self.sinks.values(), *streams)
        return tuple(
            connection for connection in everybody if connection.runtime_id.casefold() == name.casefold()
        )

    def handle(self, id: str) -> Handle | None:
        """The handle of an id; None when it is not taken, or forgotten."""
        return self.lasting.get(id) or self.handles.get(id)

    def take_handle(self, id: str, handle: Handle) -> None:
        """Records the participant that took an id. Beyond the limit the oldest is forgotten; beyond a participant's
        share its own oldest, but never a lasting one."""
        before = self.handles.pop(id, None)
        if before is not None:
            self.handles_of[before.participant].pop(id, None)
        if handle.lasting:
            self.lasting[id] = handle
            return
        self.handles[id] = handle
        own = self.handles_of.setdefault(handle.participant, OrderedDict())
        own[id] = None
        limits = self.limits
        if limits.share > 1 and len(own) > max(1, limits.handles // limits.share):
            del self.handles[own.popitem(last=False)[0]]
        elif len(self.handles) > limits.handles:
            oldest, whose = self.handles.popitem(last=False)
            del self.handles_of[whose.participant][oldest]

    def forget_ids(self) -> None:
        """Forgets the ids that messages have taken, but the lasting ones: a replay of a part does not know them."""
        for ids in (self.handles, self.handles_of, self.chats, self.chats_of):
            ids.clear()

    def take_chat(self, id: str, participant: str) -> None:
        """Records the sender of a chat message. Several may use one id. Beyond a limit the oldest is forgotten."""
        own = self.chats_of.get(participant)
        if own is None:
            own = self.chats_of[participant] = OrderedDict()
        senders = self.chats.pop(id, None)
        if senders is not None:
            own.pop(id, None)
        self.chats[id] = (participant,) if senders is None else tuple(dict.fromkeys((*senders, participant)))
        own[id] = None
        if len(own) > OWN_CHATS:
            oldest, _ = own.popitem(last=False)
            others = self.chats[oldest]
            if len(others) == 1:
                del self.chats[oldest]
            else:
                self.chats[oldest] = tuple(name for name in others if name != participant)
        if len(self.chats) > CHATS:
            oldest, senders = self.chats.popitem(last=False)
            for name in senders:
                del self.chats_of[name][oldest]

    def owns(self, participant: str, id: str, kind: str) -> bool:
        """Whether a remembered message of this kind, `mcp/proposal` or `chat`, is of this participant alone. R36."""
        handle = self.handle(id)
        if kind == "mcp/proposal":
            return handle is not None and handle.participant == participant and handle.proposal
        return self.chats.get(id) == (participant,) and (handle is None or handle.participant == participant)

    def root(self, name: str) -> str:
        """The participant of the configuration that brought `name` in, through others or by itself."""
        return self.inviters(name)[-1]

    def inviters(self, name: str) -> list[str]:
        """`name`, its inviter, the inviter's inviter and so on, up to a participant of the configuration."""
        chain = {name: None}
        while (member := self.members.get(name)) and member.inviter and member.inviter not in chain:
            name = member.inviter
            chain[name] = None
        return list(chain)

    def logical(self, name: str) -> str:
        """The logical participant that a runtime id or name in `to` means; the name itself when unknown.

        An id without a connection means the participant that used it last, until another is enrolled under that name.
        """
        return self.aliases.get(name, name)

    def participant(self, name: str) -> Member | None:
        """The participant of a name, connected or not: a present or former runtime id, or the name of a participant."""
        return self.members.get(self.aliases.get(name, name))

    def reach(self, name: str) -> LiveConnection | None:
        """The connection that a name means now, else the log sink; None for an absent participant. Spec: §3.6.4."""
        if name in self.live:
            return self.live[name]
        member = self.members.get(name)
        if member is None:
            return None
        return next(iter((*member.connections[::-1], *member.sinks)), None)

    def address(self, name: str) -> str:
        """The present runtime id of a name in `to`: the name itself unless its participant uses another id."""
        if name in self.live:
            return name
        member = self.members.get(name)
        return member.connections[-1].runtime_id if member and member.connections else name
