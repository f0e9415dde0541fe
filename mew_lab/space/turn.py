"""What is one step going to do?  Collects effects and changes while rules decide; `commit` makes the changes.

Nothing is changed before every rule has decided, so a rule that raises leaves no half-state, and a host that
cannot write its journal may drop a turn as if the event had never come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from mew_lab.protocol.envelope import PROTOCOL, Envelope, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.space.events import Deliver, Effect, Record
from mew_lab.space.state import State

__all__ = ["Turn", "timestamp"]


def timestamp(now: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as it stands in `ts`."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


class Turn:
    """The plan of one step."""

    __slots__ = ("_changes", "_effects", "_messages", "_records", "epoch", "now", "space", "state")

    def __init__(self, state: State, *, space: str, epoch: int, now: datetime) -> None:
        self.state = state
        self.space = space
        self.epoch = epoch
        self.now = now
        self._effects: list[Effect] = []
        self._changes: list[Callable[[], object]] = []
        self._messages = state.messages
        self._records = state.records

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What is to be done, in order."""
        return tuple(self._effects)

    def commit(self) -> None:
        """Makes the changes. To be called once, and not after another turn of the same space was made."""
        self.state.messages = self._messages
        self.state.records = self._records
        for change in self._changes:
            change()

    def do(self, effect: Effect) -> None:
        """Adds a duty."""
        self._effects.append(effect)

    def then(self, change: Callable[[], object]) -> None:
        """Adds a change of state, made at commit."""
        self._changes.append(change)

    def record(self, event: str, **fields: Any) -> None:
        """Adds a line of the journal."""
        self._records += 1
        self._effects.append(Record(seq=self._records, now=self.now, event=event, space=self.space, **fields))

    def new_id(self) -> str:
        """The next id of the gateway's own: derived from the epoch and a counter, so a replay gives the same."""
        self._messages += 1
        return f"gw-{self.epoch:016x}-{self._messages}"

    def say(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        connections: Iterable[str],
        to: tuple[str, ...] = (),
        correlation: tuple[str, ...] = (),
        private: bool = False,
    ) -> Envelope:
        """The gateway speaks: recorded, then delivered to these connections.

        Spec: §3.7, §3.8.
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
        members["payload"] = payload
        envelope = Envelope(members, raw=compact(members))
        receivers = tuple(connections)
        self.record(
            "sent", participant=GATEWAY, verdict="sent", raw=envelope.raw, to=receivers if private else ()
        )
        if receivers:
            self.do(Deliver(envelope, receivers))
        return envelope
