"""Runs spaces: feeds each event to its space, records the plan, commits it, applies its effects.

One gateway belongs to one event loop, and every method is called on that loop; that is why there is no lock. A
transport (`sockets`, `routes`, `local`) authenticates, then hands over a `Peer` for each connection. The gateway
decides nothing about a message. Every event passes through `_feed`:

```
transport ── receive / post / admit / leave ──▶ _feed          an event that arrives meanwhile waits in the queue
_turn      space.plan(event, now)                              pure; the space does not change
           Record effects ──▶ journal, then `observe`          refused or failed: `journal_refusals`, and no commit
           turn.commit()                                       the space changes
_apply     Record ──▶ ring; other effects ──▶ apply_effects    peers, tokens
```

An event that the journal cannot take is refused and leaves no trace in the space. Events that have happened already,
such as the end of a connection, are committed at once and written later (`owed`). The timer of each space (`WakeTimer`)
feeds the ends of grants and the welcomes that are due.

Spec: §3.6, §4.2, §5.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from mew_lab.errors import JournalError, NotAdmitted
from mew_lab.gateway.auth import Tokens
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.delivery import Peer
from mew_lab.gateway.effects import apply_effects
from mew_lab.gateway.hosted_space import AT_ONCE, HostedSpace, JournalFile, Recorder
from mew_lab.gateway.journal_refusals import (
    JOURNAL_MESSAGE,
    NO_ROOM,
    answer_unrecorded,
    note_refused,
    note_unrecorded,
    refuse_over_share,
)
from mew_lab.gateway.ring import Page
from mew_lab.gateway.shares import JournalLimits, journal_bytes, payer
from mew_lab.protocol.envelope import find_id
from mew_lab.protocol.kinds import CLOSE_TAKEN, HANDLES
from mew_lab.space.core import Space, resumption_note
from mew_lab.space.events import (
    HAPPENED,
    JOURNAL_HEAD,
    REPORTED,
    Close,
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    HttpReply,
    Joined,
    Left,
    Noted,
    Oversize,
    Received,
    Record,
    Reported,
    WelcomesDue,
)
from mew_lab.space.opening import opening_record
from mew_lab.space.reports import KeptResolution, Resolutions
from mew_lab.space.turn import Turn

__all__ = ["Gateway", "Recorder"]


class Gateway:
    """Several isolated spaces, their connections and their journals.

    Args:
        clock: Returns the wall time in UTC.
        new_epoch: Returns 64 random bits for each space.
        observe: Called with every record after it was journaled, before its message is delivered.

    Attributes:
        connection_url: The address in an invitation; empty while nothing serves this gateway.
        before_post: Called with space and participant before an HTTP message is taken, so that a waiting log sink is
            attached first.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_epoch: Callable[[], int] = lambda: secrets.randbits(64),
        observe: Callable[[Record], None] | None = None,
    ) -> None:
        self.tokens = Tokens()
        self.observe = observe
        self.connection_url = ""
        self.before_post: Callable[[str, str], object] = lambda space, participant: None
        self.started = clock()
        self._clock = clock
        self._new_epoch = new_epoch
        self._spaces: dict[str, HostedSpace] = {}

    # --- spaces and participants ---

    @property
    def spaces(self) -> tuple[str, ...]:
        """The names of the spaces that run here."""
        return tuple(self._spaces)

    def add_space(self, config: SpaceConfig, *, journal: Recorder | None = None) -> Space:
        """Opens a space.

        Raises:
            ValueError: when a space of that name runs here already.
            JournalError: when the journal cannot be written.
        """
        if config.name in self._spaces:
            raise ValueError(f"a space {config.name!r} runs in this gateway already; choose another name")
        space = Space(
            config.name,
            epoch=self._new_epoch(),
            owner=config.owner or "",
            baseline=config.baseline,
            limit=config.message_bytes,
            limits=config.check_limits(),
        )
        limits = config.limits.of_journal
        hosted = HostedSpace(space, journal, queue_bytes=config.queue_bytes, wake=self._wake, limits=limits)
        hosted.last = self._clock()
        self._write(hosted, [opening_record(space, hosted.last)])
        self._spaces[config.name] = hosted
        for name, participant in config.participants.items():
            self.enrol(config.name, name, participant.capabilities)
        return space

    def resume_space(
        self,
        space: Space,
        *,
        since: datetime,
        connections: int,
        journal: Recorder | None = None,
        queue_bytes: int = SpaceConfig.model_fields["queue_bytes"].default,
        used: Mapping[str, int] | None = None,
        limits: JournalLimits | None = None,
        resolutions: Resolutions | None = None,
    ) -> None:
        """Resumes a space in the state of its last record, without its former connections.

        Args:
            since: The time of its last record: its time never runs backwards.
            connections: The highest number in a name of its connections, so that no name repeats.
            used: How many bytes of the journal each participant has caused before.
            limits: The limits of the journal; the standard ones unless given.
            resolutions: What participants reported of its calls before.

        Raises:
            ValueError: when a space of that name runs here already.
            JournalError: when the journal cannot be written.
        """
        if space.name in self._spaces:
            raise ValueError(f"a space {space.name!r} runs in this gateway already; choose another name")
        hosted = HostedSpace(
            space,
            journal,
            queue_bytes=queue_bytes,
            wake=self._wake,
            since=since,
            used=used,
            limits=limits,
            resolutions=resolutions,
        )
        hosted.connections = connections
        self._feed(hosted, resumption_note(space.state.owner))
        self._spaces[space.name] = hosted
        for name in (*space.state.connections, *space.state.sinks):
            self._feed(hosted, Left(name, "the gateway was started anew"))

    def enrol(self, space: str, participant: str, capabilities: Sequence[Mapping[str, Any]]) -> None:
        """Enrols a participant, or changes its capabilities; a connected one gets a new welcome.

        Raises:
            ValueError: when the name is no participant id.
            ConfigError: when a capability is not a pattern.
            JournalError: when the journal cannot be written.
        """
        self._feed(self._spaces[space], Enrolled(participant, tuple(capabilities)))

    def participants(self, space: str) -> list[dict[str, Any]]:
        """The enrolled participants: `{"id", "connected", "capabilities"}` each, as `GET /participants` answers."""
        return [
            {
                "id": member.name,
                "connected": bool(member.connections),
                "capabilities": list(member.capabilities.patterns),
            }
            for member in self._spaces[space].space.state.members.values()
        ]

    def runtime_ids(self, space: str, participant: str) -> tuple[str, ...]:
        """The ids under which the participant is connected now, the newest last."""
        member = self._spaces[space].space.state.members.get(participant)
        return tuple(connection.runtime_id for connection in member.connections) if member else ()

    def connections(self, space: str | None = None) -> int:
        """The number of live connections, in one space or in all."""
        names = self._spaces if space is None else (space,)
        return sum(len(self._spaces[name].space.state.connections) for name in names)

    def history(
        self, space: str, participant: str, *, after: datetime | None, limit: int | None = None
    ) -> Page | None:
        """The recent envelopes that the participant may see, as `Ring.since` gives them. Spec: §5.3."""
        return self._spaces[space].ring.since(after, participant=participant, limit=limit)

    def watch(self, space: str, participant: str, call: Callable[[], object]) -> Callable[[], None]:
        """Calls `call` once, as `Ring.watch` does."""
        return self._spaces[space].ring.watch(participant, call)

    def logical(self, space: str, name: str) -> str:
        """The participant to which a runtime id or a name refers."""
        return self._spaces[space].space.state.logical(name)

    def time(self, space: str) -> datetime:
        """The time of an event in the space if it came now; it never runs backwards."""
        return max(self._spaces[space].last, self._clock())

    def message_bytes(self, space: str) -> int:
        """The size of the longest message that the space takes, in bytes."""
        return self._spaces[space].space.limit

    def queue_bytes(self, space: str) -> int:
        """The number of bytes that may wait for one reader of the space."""
        return self._spaces[space].queue_bytes

    # --- connections ---

    def holder(self, space: str, runtime_id: str) -> Peer | None:
        """The connection that has this runtime id; a newcomer with this id is admitted only when it does not answer."""
        hosted = self._spaces[space]
        connection = hosted.space.state.live.get(runtime_id)
        return hosted.peers.get(connection.name) if connection else None

    def replace(self, space: str, runtime_id: str) -> None:
        """Drops the connection that has this runtime id (4409): it did not answer, and a new one takes its place."""
        hosted = self._spaces[space]
        connection = hosted.space.state.live.get(runtime_id)
        if connection:
            peer = hosted.peers.get(connection.name)
            if peer:
                peer.close(CLOSE_TAKEN, "replaced by a new connection of the same participant", drop=True)
            self.leave(space, connection.name, "replaced")

    def admit(
        self, space: str, participant: str, peer: Peer, *, runtime_id: str | None = None, via: str = "memory"
    ) -> str:
        """Admits an authenticated connection: it gets a welcome, the others a presence.

        Returns:
            The connection's name within the space.

        Raises:
            NotAdmitted: with the close code for the wire.
        """
        hosted = self._spaces[space]
        hosted.connections += 1
        name = f"c{hosted.connections}"
        hosted.peers[name] = peer
        event = Joined(name, participant, runtime_id or participant, via)
        if (
            participant == hosted.space.state.owner
            and isinstance(hosted.journal, JournalFile)
            and not hosted.owed
        ):
            self._feed(hosted, Noted(JOURNAL_HEAD, participant, hosted.journal.head[1].decode()))
        try:
            effects = self._feed(hosted, event)
        except JournalError:
            hosted.peers.pop(name, None)
            raise NotAdmitted(
                f"cannot admit {participant!r} to {space!r}: {JOURNAL_MESSAGE}", space=space, close_code=1013
            ) from None
        for effect in effects:
            if type(effect) is Close and effect.connection == name:
                hosted.peers.pop(name, None)
                raise NotAdmitted(
                    f"cannot admit {participant!r} to {space!r}: {effect.reason}",
                    space=space,
                    close_code=effect.code,
                )
        return name

    def receive(self, space: str, connection: str, message: str | bytes) -> None:
        """Takes a message that a connection received."""
        hosted = self._spaces.get(space)
        if hosted is None:
            return
        limit = hosted.space.state.message_bytes
        if len(message) * 4 > limit:  # a character has at most four bytes
            data = message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass")
            if len(data) > limit:
                self._feed(
                    hosted, Oversize(connection, len(data), sha256(data).hexdigest(), id=find_id(message))
                )
                return
        if isinstance(message, bytes):
            self._feed(hosted, FrameReceived(connection, message, False))
        elif message.startswith("#"):
            self._feed(hosted, FrameReceived(connection, message.encode("utf-8", "replace"), True))
        else:
            self._feed(hosted, Received(message, connection))

    def post(self, space: str, name: str, text: str | bytes) -> HttpReply:
        """Takes a message by HTTP from an authenticated participant that posts as `name`. Spec: §5.3."""
        hosted = self._spaces[space]
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        who = (self.logical(space, name), name)
        self.before_post(space, who[0])
        event: Event = (
            Oversize(None, len(data), sha256(data).hexdigest(), *who, id=find_id(text))
            if len(data) > hosted.space.limit
            else Received(text, None, *who)
        )
        for effect in self._feed(hosted, event):
            if type(effect) is HttpReply:
                return effect
        raise AssertionError("a post always has a reply")

    def report(self, space: str, name: str, text: str | bytes, *, via: str = "http") -> HttpReply:
        """Takes a note of an authenticated participant about a decision or a call of its own. Spec: ruling R42."""
        hosted = self._spaces.get(space)
        if hosted is None:
            return HttpReply(404, {"error": "not_found", "message": f"no space {space[:80]!r} runs here"})
        participant = self.logical(space, name)
        if via == "http":
            self.before_post(space, participant)
        for effect in self._feed(hosted, Reported(participant, text, via)):
            if type(effect) is HttpReply:
                return effect
        raise AssertionError("a note always has a reply")

    def find_resolution(
        self, space: str, name: str, request: str, to: Collection[str]
    ) -> KeptResolution | None:
        """What was reported of a request to `to` that an authenticated participant may have executed.

        None where nothing was, or the participant is not one of its addressees. Spec: rulings R35, R42.
        """
        hosted = self._spaces.get(space)
        if hosted is None or self.logical(space, name) not in {self.logical(space, one) for one in to}:
            return None
        return hosted.resolutions.find(request, to, hosted.space.state.logical)

    def leave(self, space: str, connection: str, reason: str = "") -> None:
        """Removes a connection that ended for any reason; does nothing when it was removed before."""
        hosted = self._spaces.get(space)
        if hosted is not None:
            hosted.peers.pop(connection, None)
            left = hosted.space.state.connections.get(connection)
            if left is not None and hosted.shares is not None:
                note_refused(hosted, left.participant)
            self._feed(hosted, Left(connection, reason))

    def note(self, space: str, event: str, *, participant: str, detail: str) -> None:
        """Writes a note into the journal that belongs to no message, such as the policy that decided a proposal."""
        self._feed(self._spaces[space], Noted(event, participant, detail))

    def close(self, code: int = 1012, reason: str = "the gateway stops") -> None:
        """Closes every connection and removes every space."""
        for name, hosted in list(self._spaces.items()):
            for connection, peer in list(hosted.peers.items()):
                peer.close(code, reason)
                self.leave(name, connection, reason)
            hosted.timer.cancel()
            self.tokens.void_space(name)
            del self._spaces[name]
            hosted.ring.end()

    # --- the path of every event ---

    def _feed(self, hosted: HostedSpace, event: Event) -> tuple[object, ...]:
        """Plans, records, commits and applies an event. An event that arrives during another one is queued."""
        if hosted.busy:
            hosted.queue.append(event)
            return ()
        hosted.busy = True
        try:
            effects = self._turn(hosted, event)
            while hosted.queue:
                self._turn(hosted, hosted.queue.popleft())
        finally:
            hosted.busy = False
        return effects

    def _turn(self, hosted: HostedSpace, event: Event) -> tuple[object, ...]:
        now = hosted.last = max(hosted.last, self._clock())
        if hosted.space.state.over(now) and isinstance(event, (Received, Joined, Enrolled)):
            self._turn(hosted, GrantEnded())  # its timer is late
        if hosted.space.state.due and not hosted.timer.waits and type(event) is not WelcomesDue:
            self._turn(hosted, WelcomesDue())  # without a loop there is no timer
        turn = hosted.space.plan(event, now)
        records = [effect for effect in turn.effects if type(effect) is Record]
        shares, share, size = hosted.shares, None, 0
        if shares is not None and (records or hosted.room is not None):
            size = journal_bytes(records)
            if who := payer(event, hosted.space.state):
                share = shares.of(who, now)
                if size and (why := share.exceeded(now)) and not isinstance(event, HAPPENED):
                    return refuse_over_share(hosted, event, turn, who, why)
        try:
            if size and hosted.room is not None and hosted.room.low(size) and not isinstance(event, HAPPENED):
                raise JournalError(f"Cannot go on with the journal of {hosted.space.name}: {NO_ROOM}")
            self._write_owed(hosted)
            self._write(hosted, records)
        except JournalError as fault:
            answer = answer_unrecorded(hosted, event, turn, fault)
            self._set_timer(hosted)
            return answer
        if share is not None:
            share.charge(size)
            if share.messages:
                note_refused(hosted, who)
        note_unrecorded(hosted)
        turn.commit()
        self._set_timer(hosted)
        return self._apply(hosted, turn)

    def _set_timer(self, hosted: HostedSpace) -> None:
        state = hosted.space.state
        hosted.timer.set(AT_ONCE if state.due else state.next_end, self._clock)

    def _wake(self, hosted: HostedSpace) -> None:
        if hosted.space.state.over(max(hosted.last, self._clock())):
            self._feed(hosted, GrantEnded())
        elif hosted.space.state.due:
            self._feed(hosted, WelcomesDue())
        self._set_timer(hosted)

    def _write(self, hosted: HostedSpace, records: list[Record]) -> None:
        if hosted.journal is not None:
            hosted.journal.append(records)
        if self.observe is not None:
            for record in records:
                self.observe(record)

    def _write_owed(self, hosted: HostedSpace) -> None:
        """Records and delivers the turns that waited for space on the disk, in order."""
        while hosted.owed:
            turn = hosted.owed[0]
            self._write(hosted, [effect for effect in turn.effects if type(effect) is Record])
            self._apply(hosted, hosted.owed.pop(0))

    def _apply(self, hosted: HostedSpace, turn: Turn) -> tuple[Effect, ...]:
        for effect in turn.effects:
            if type(effect) is Record:
                hosted.ring.take(effect)
                if effect.event == REPORTED:
                    hosted.resolutions.take(effect)
            elif type(effect) is Deliver and effect.envelope.kind in HANDLES and hosted.resolutions:
                hosted.resolutions.forget(effect.envelope.id)
        return apply_effects(
            turn.effects,
            space=hosted.space.name,
            peers=hosted.peers,
            tokens=self.tokens,
            url=self.connection_url,
        )
