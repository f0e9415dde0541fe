"""Follows what became of each request and proposal, for the column that says how long it took.

The ledger (`ledger.calls`) decides which answers and decisions count. Only the loop's thread writes; the writer of the
feed reads single values, and takes the changes from a queue.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.calls import CALL_KINDS, Change, Proposal
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.protocol.bounded import BoundedDict

__all__ = ["CallState", "CallStates"]

MOST_STATES = 40_000


class CallState(NamedTuple):
    """The state of the call in one row.

    Attributes:
        state: `waiting`, `answered`, `failed`, `unknown` (whether it took effect), `resolved` (a person found out),
            `approved`, `rejected`, `withdrawn`, `refused` because it came after the end of its proposal, or empty where
            no call is known.
        seconds: The time to the answer, or to the first decision on a proposal; 0 while it waits.
        approves: Whether the request of this row approves a proposal.
    """

    state: str
    seconds: float = 0.0
    approves: bool = False


class CallStates:
    """The states of the newest calls by the numbers of their rows; a follower of `session.following`."""

    kinds = tuple(sorted(CALL_KINDS))

    def __init__(self) -> None:
        self._states: BoundedDict[int, CallState] = BoundedDict(MOST_STATES)
        self._waiting: BoundedDict[str, int] = BoundedDict(MOST_STATES)  # the rows of requests, by their ids
        self._changed: deque[int] = deque(maxlen=MOST_STATES)
        self.changed: Subscribers[()] = Subscribers()

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Takes the changes of calls by one message."""
        for change in changes:
            if isinstance(change, Change):
                self._take_change(change)
        if changes:
            self.changed.tell()

    def _take_change(self, change: Change) -> None:
        call, what = change.call, change.what
        known = self._states.get(call.seq) or CallState("")
        since = max(0.0, change.entry.t - call.entry.t)
        if what in ("requested", "proposed"):
            if call.state == "refused":  # it came too late, and its executor will say so
                self._put(call.seq, CallState("refused"))
                return
            if call.decided:  # a notification waits for nothing
                return
            state = known._replace(state="waiting", seconds=0.0)
            if what == "requested":
                self._waiting[call.id] = call.seq
        elif what == "withdrawn" and known.state == "rejected":  # its proposer gives up
            return
        elif what in ("rejected", "withdrawn", "fulfilled"):
            word = "approved" if what == "fulfilled" else what
            # Once decided, the first decision says how long it took.
            state = CallState(word, known.seconds if known.state == "rejected" else since)
            if what == "fulfilled":
                self._put(change.entry.seq, self._known(change.entry.seq)._replace(approves=True))
        elif what == "answered":
            if isinstance(call, Proposal):
                if not call.failed and known.state not in ("unknown", "resolved"):
                    return
                state = known._replace(state="failed" if call.failed else "approved")
            elif call.state == "refused":
                return
            else:
                state = known._replace(state="failed" if call.failed else "answered", seconds=since)
        elif what in ("unknown", "resolved"):
            state = known._replace(state=what)
            if what == "unknown" and not isinstance(call, Proposal):
                state = state._replace(seconds=since)
        elif what == "forgotten":
            state = CallState("")
        elif what == "reopened":  # a quorum was missing, so its approval used nothing up (R39)
            state = CallState(call.state if call.decided or call.state == "rejected" else "waiting")
        else:
            return
        self._put(call.seq, state)

    def _known(self, seq: int) -> CallState:
        return self._states.get(seq) or CallState("")

    def _put(self, seq: int, state: CallState) -> None:
        self._states[seq] = state
        self._changed.append(seq)

    # --- for the writer ---

    def get(self, seq: int) -> CallState | None:
        """The state of the call in that row; None where the row holds no call."""
        return self._states.get(seq)

    def row_of(self, request: str) -> int:
        """The row of the request of that id, which waits; 0 where it has none."""
        seq = self._waiting.get(request, 0)
        state = self._states.get(seq)
        return seq if state is not None and state.state == "waiting" else 0

    def drain(self) -> list[tuple[int, CallState]]:
        """The calls that have changed since the last time, each once."""
        seqs = dict.fromkeys(self._changed.popleft() for _ in range(len(self._changed)))
        return [(seq, state) for seq in seqs if (state := self._states.get(seq)) is not None]

    def between(self, first: int, last: int) -> list[tuple[int, CallState]]:
        """The states of the rows from `first` to `last`."""
        return [(seq, state) for seq, state in tuple(self._states.items()) if first <= seq <= last]
