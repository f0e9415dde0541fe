"""The plan of one step: collects effects and changes while rules decide; `commit` makes the changes.

Nothing is changed before every rule has decided, so a rule that raises leaves no partial state. A host that cannot
write its journal may drop a turn as if the event had never come. Later rules see the plans of earlier ones: `rights`,
`streams`, `present` and `audience` give the planned state.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from mew_lab.protocol.envelope import PROTOCOL, Envelope, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.node import Budget
from mew_lab.protocol.text import timestamp
from mew_lab.space.events import Deliver, Effect, Record
from mew_lab.space.rights import End, Rights
from mew_lab.space.state import LiveConnection, Member, State, StreamState

__all__ = ["Turn"]


class Turn:
    """The plan of one step."""

    def __init__(self, state: State, *, space: str, epoch: int, now: datetime) -> None:
        self.state = state
        self.space = space
        self.epoch = epoch
        self.now = now
        # Of all that is judged in this turn; None where a journal tells of no budget.
        self.meter = Budget(state.limits.turn_steps) if state.limits.turn_steps else None
        self.by = ""  # the participant that causes it; empty for the host, and for time
        self.welcome_bytes = 0  # of the welcomes that tell anew what is held
        self._effects: list[Effect] = []
        self._changes: list[Callable[[], object]] = []
        self._messages = state.messages
        self._records = state.records
        self._rights: dict[str, Rights] | None = None
        self._ends: dict[str, End] = {}
        self._newcomers: dict[str, Member] = {}
        self._streams: dict[str, StreamState] | None = None
        self._gone: set[str] | None = None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects to carry out, in order."""
        return tuple(self._effects)

    def commit(self) -> None:
        """Makes the changes. Call it once, and not after another turn of the same space was made."""
        state = self.state
        state.messages = self._messages
        state.records = self._records
        for change in self._changes:
            change()
        state.members.update(self._newcomers)
        state.ends.update(self._ends)
        for name, rights in (self._rights or {}).items():
            state.members[name].rights = rights
        if self._rights and state.ends:
            self._forget_ends(self._rights)
        if self._streams is not None:
            state.streams = self._streams
        if self._gone is not None:
            for name in self._gone:
                self._forget(name)
            state.refresh_audience()

    def _forget_ends(self, changed: dict[str, Rights]) -> None:
        """Forgets the ends of grants that are no longer held."""
        held = {right.grant for rights in changed.values() for right in rights.held if right.limited}
        ends = self.state.ends
        self.state.forget_ends(
            [id for id, end in ends.items() if end.recipient in changed and id not in held]
        )

    def _forget(self, name: str) -> None:
        state = self.state
        state.refused_frames.pop(name, None)
        state.due.pop(name, None)
        connection = state.connections.pop(name, None)
        if connection is None:
            sink = state.sinks.pop(name)
            state.members[sink.participant].sinks.remove(sink)
            return
        state.members[connection.participant].connections.remove(connection)
        del state.live[connection.runtime_id]

    def do(self, effect: Effect) -> None:
        """Adds an effect."""
        self._effects.append(effect)

    def then(self, change: Callable[[], object]) -> None:
        """Adds a change of state, made at commit."""
        self._changes.append(change)

    def record(self, event: str, **fields: Any) -> None:
        """Adds a line of the journal."""
        self._records += 1
        self._effects.append(Record(seq=self._records, now=self.now, event=event, space=self.space, **fields))

    # --- how things will stand ---

    def rights(self, member: Member) -> Rights:
        """The rights that the member will hold."""
        return (self._rights or {}).get(member.name, member.rights)

    def give(self, member: Member, rights: Rights) -> None:
        """Sets the rights that the member will hold."""
        self._rights = {**(self._rights or {}), member.name: rights}

    @property
    def members(self) -> Mapping[str, Member]:
        """All participants of the planned state; by the rules before edition 3, those of the present state."""
        members = self.state.members
        return {**members, **self._newcomers} if self._newcomers and self.state.edition >= 3 else members

    def bring_in(self, newcomer: Member) -> None:
        """Adds a participant."""
        self._newcomers[newcomer.name] = newcomer

    @property
    def ends(self) -> Mapping[str, End]:
        """The ends of grants in the planned state."""
        return ChainMap(self._ends, self.state.ends) if self._ends else self.state.ends

    def limit_grant(self, grant: str, end: End) -> None:
        """Sets how the grant will end."""
        self._ends[grant] = end

    @property
    def streams(self) -> dict[str, StreamState]:
        """The streams that will be active, in order of their opening; not to be changed."""
        return self.state.streams if self._streams is None else self._streams

    def set_stream(self, stream: StreamState) -> None:
        """Adds or replaces an active stream."""
        self._streams = {**self.streams, stream.id: stream}

    def end_stream(self, stream: StreamState) -> None:
        """Removes a stream from the active ones."""
        self._streams = {id: other for id, other in self.streams.items() if id != stream.id}

    def remove_connection(self, connection: LiveConnection) -> None:
        """Removes a connection or log sink."""
        self._gone = {*(self._gone or ()), connection.name}

    @property
    def present(self) -> tuple[LiveConnection, ...]:
        """The connections that will be present, and one log sink for each id without a connection."""
        state, removed = self.state, self._gone or ()
        here = tuple(
            connection for connection in state.connections.values() if connection.name not in removed
        )
        ids = {connection.runtime_id for connection in here}
        sinks: dict[str, LiveConnection] = {}
        for sink in state.sinks.values():
            if sink.name not in removed and sink.runtime_id not in ids:
                sinks.setdefault(sink.runtime_id, sink)
        return (*here, *sinks.values())

    @property
    def audience(self) -> tuple[str, ...]:
        """The names of all connections and log sinks that will receive messages to everybody."""
        if self._gone is None:
            return self.state.audience
        return tuple(name for name in self.state.audience if name not in self._gone)

    # --- the gateway's own words ---

    def new_id(self) -> str:
        """Returns the next id of a gateway message, from the epoch and a counter, so that a replay gives the same."""
        self._messages += 1
        return f"gw-{self.epoch:016x}-{self._messages}"

    @property
    def messages(self) -> int:
        """The number of ids that the gateway will have assigned to its own messages."""
        return self._messages

    def skip_to(self, messages: int) -> None:
        """Sets the counter of ids from a record of this step.

        Raises:
            ValueError: when no step could have reached it.
        """
        if not self._messages <= messages <= self._messages + 1:
            raise ValueError(
                f"it says {messages} messages of the gateway's own, where {self._messages} were sent"
            )
        self._messages = messages

    def compose(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        to: tuple[str, ...] = (),
        correlation: tuple[str, ...] = (),
        text: str = "",
    ) -> Envelope:
        """Makes an envelope of the gateway, without sending it.

        `text` is the payload as compact JSON, where it is known.
        """
        members: dict[str, Any] = {
            "protocol": PROTOCOL,
            "id": self.new_id(),
            "ts": timestamp(self.now),
            "from": GATEWAY,
        }
        if to:
            members["to"] = list(to)
        members["kind"] = kind
        if correlation:
            members["correlation_id"] = list(correlation)
        raw = f'{compact(members)[:-1]},"payload":{text}}}' if text else ""
        members["payload"] = payload
        return Envelope(members, raw=raw or compact(members))

    def say(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        to: tuple[str, ...] = (),
        correlation: tuple[str, ...] = (),
        privately: Iterable[LiveConnection] | None = None,
        secret: bool = False,
        text: str = "",
    ) -> Envelope:
        """Sends a message of the gateway: records it, then delivers it to all, or `privately` to some connections.

        `text` is the payload as compact JSON, where it is known.

        Spec: §3.7, §3.8.
        """
        envelope = self.compose(kind, payload, to=to, correlation=correlation, text=text)
        only = None if privately is None else tuple(connection.name for connection in privately)
        self.record("sent", participant=GATEWAY, verdict="sent", raw=envelope.raw, to=only or ())
        receivers = self.audience if only is None else only
        if receivers:
            self.do(Deliver(envelope, receivers, secret))
        return envelope
