"""Tells the space, in the status of a participant, which of its proposals have no client behind them any more.

A gate proposes for a client that may cancel its call or be gone. `participant/status` then has the member `x-calls`,
from the id of a proposal to `cancelled` or `gone`. Each status has all of them, so one that is not named has its client
again. At most one status is sent a second, with at most `MAX_CALLERS` ids.

Spec: §3.9.4.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from mew_lab.ledger.calls import CALLERS, MAX_CALLERS, CallerState
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["CallerStatus"]

AT_MOST_EVERY = 1.0  # seconds between two statuses
AT_ONCE = 0.02  # seconds in which changes of one moment become one status


class CallerStatus:
    """The states of the callers of one participant's proposals."""

    def __init__(self, participant: MEWParticipant) -> None:
        self._participant = participant
        self._states: dict[str, CallerState] = {}  # the newest last
        self._told: dict[str, CallerState] = {}
        self._told_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def note(self, id: str, state: CallerState) -> None:
        """Notes the state of the caller of a proposal, and tells it soon; empty where it waits."""
        if self._states.get(id, "") == state:
            return
        self._states.pop(id, None)
        if state:
            self._states[id] = state
        self._tell_soon()

    def can_tell(self, id: str) -> bool:
        """Whether the space can be told of this proposal."""
        payload = self._participant.telemetry.build_status_payload()
        return id in self._chosen() and self._participant.can_send(
            "participant/status", {**payload, CALLERS: {id: "cancelled"}}
        )

    def resume(self) -> None:
        """Tells what could not be told while there was no connection."""
        self._tell_soon()

    def close(self) -> None:
        """Tells nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _chosen(self) -> dict[str, CallerState]:
        """Those that are told: the cancelled ones first, then the newest of those that are gone."""
        newest = list(self._states.items())[::-1]
        newest.sort(key=lambda item: item[1] != "cancelled")
        return dict(newest[:MAX_CALLERS])

    def _tell_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time() + AT_ONCE, self._told_at + AT_MOST_EVERY)
            self._timer = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._timer = None
        chosen = self._chosen()
        if chosen == self._told:
            return
        self._told_at = asyncio.get_running_loop().time()
        member: dict[str, Any] = {CALLERS: chosen}
        if self._participant.telemetry.tell(**member) is not None:
            self._told = chosen
