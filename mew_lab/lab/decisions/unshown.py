"""Rejects the proposals that no person can be shown, and tells their proposers why.

Such a proposal is no call: its `params` are no object, or it names no method (`protocol.intake`). No ledger holds it and
no card shows it, so without an answer its proposer would wait for ever.

Several labs may look on. The participants that may reject answer in the order of their ids: each waits a step longer
than the one before it, and drops what another has rejected meanwhile. A lab that may not reject tells its own person.
One rejection names all such proposals of a proposer that came in between, so that a flood costs few messages.

Everything runs on the loop's thread, so there is no lock.

Spec: §3.2.1, §3.3.2, §8.2.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import malformed
from mew_lab.protocol.permit import permits_some
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["UnshownProposals"]

GATHERING = 0.25  # seconds in which the proposals of one proposer are gathered
# Seconds that each further participant waits for those before it: longer than a rejection takes to reach all.
STEP = 1.0
MAX_RANK = 60
MAX_NAMED = 100  # ids of one proposer that wait for their rejection; further ones are counted
MAX_KNOWN = 5000  # ids that were rejected here, or by another
MAX_COMPLAINED = 1000  # proposers


class _Unshown(NamedTuple):
    sender: str
    proposer: str  # the participant behind the sender
    why: str


class UnshownProposals:
    """The proposals that nobody can be shown, until their rejection is sent.

    Args:
        logical: The participant that an id means.
        run: Starts a coroutine on the loop.
        fault: Receives a sentence about what could not be told to a proposer.
    """

    def __init__(
        self,
        me: MEWParticipant,
        *,
        logical: Callable[[str], str],
        run: Callable[[Coroutine[Any, Any, None]], object],
        fault: Callable[[str], None],
    ) -> None:
        self._me = me
        self._logical = logical
        self._run = run
        self._fault = fault
        self._waiting: dict[str, _Unshown] = {}
        # proposer -> those that the next rejection names, or others named
        self._named: Counter[str] = Counter()
        self._unnamed: Counter[str] = Counter()  # proposer -> those whose ids are not kept
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._known: BoundedDict[str, None] = BoundedDict(MAX_KNOWN)
        self._complained: BoundedDict[str, None] = BoundedDict(MAX_COMPLAINED)
        me.client.on_message(self._observe)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the proposals that nobody has rejected yet."""
        return tuple(self._waiting)

    def _observe(self, envelope: Envelope) -> None:
        if envelope.kind == "mcp/proposal":
            why = malformed(envelope)
            if why and envelope.sender != self._me.client.id:
                self._take(envelope, why)
            elif not why and self._waiting:
                self._waiting.pop(envelope.id, None)  # a rejection would now be one of this proposal
        elif envelope.kind in ("mcp/reject", "mcp/withdraw") and self._waiting:
            for id in envelope.correlation_id:
                unshown = self._waiting.get(id)
                if unshown and (envelope.sender == unshown.sender) == (envelope.kind == "mcp/withdraw"):
                    del self._waiting[id]

    def _take(self, envelope: Envelope, why: str) -> None:
        id, proposer = envelope.id, self._logical(envelope.sender)
        if not id or id in self._known:
            return
        if self._named[proposer] >= MAX_NAMED:
            self._unnamed[proposer] += 1
            return
        self._known[id] = None
        self._named[proposer] += 1
        self._waiting[id] = _Unshown(envelope.sender, proposer, why)
        if proposer not in self._timers:
            delay = GATHERING + STEP * self._rank()
            loop = asyncio.get_running_loop()
            self._timers[proposer] = loop.call_later(delay, self._answer, proposer)

    def _rank(self) -> int:
        """How many participants that may reject come before this one; all of them, where it may not."""
        client = self._me.client
        may = self._me.can_send("mcp/reject", {"reason": "invalid"})
        before = sum(
            permits_some(patterns, "mcp/reject") and not (may and client.id < id)
            for id, patterns in client.participants.items()
        )
        return min(before, MAX_RANK)

    def _answer(self, proposer: str) -> None:
        """Sends one rejection of all that wait of a proposer, unless others have rejected them."""
        del self._timers[proposer], self._named[proposer]
        more = self._unnamed.pop(proposer, 0)
        unshown = {id: one for id, one in self._waiting.items() if one.proposer == proposer}
        for id in unshown:
            del self._waiting[id]
        if not unshown or self._me.client.state == "disconnected":
            return
        others = f"; {count_of(more, 'further one')}, not named here, cannot be shown either" if more else ""
        why = next(iter(unshown.values())).why
        reason = (
            f"invalid: it cannot be shown to a person, so nobody can approve it ({why}); propose it again with a "
            f"method, and params that are an object{others}"
        )
        to = tuple(dict.fromkeys(one.sender for one in unshown.values()))
        if self._me.can_send("mcp/reject", {"reason": reason}, to=to):
            self._run(self._reject(proposer, to, tuple(unshown), reason))
        else:
            self._complain(proposer, next(iter(unshown)), why, "this participant may not send mcp/reject")

    async def _reject(self, proposer: str, to: tuple[str, ...], ids: tuple[str, ...], reason: str) -> None:
        try:
            await self._me.sender.say_accepted("mcp/reject", {"reason": reason}, to=to, about=ids)
        except MewError as fault:
            self._complain(proposer, ids[0], reason, str(fault))

    def _complain(self, proposer: str, id: str, why: str, hindrance: str) -> None:
        """Tells the own person, once for each proposer."""
        if proposer in self._complained:
            return
        self._complained[proposer] = None
        self._fault(
            f"{one_line(proposer, 80)} proposed {one_line(id, 80)}, which cannot be shown, and it is not confirmed that "
            f"this was told to it: {one_line(hindrance, 200)}. It may wait for ever ({one_line(why, 200)})"
        )
