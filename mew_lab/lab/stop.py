"""Stops what a lab sets going, at once, and goes on again.

How it works. `stop` acts in this order, and tells in one line each what was seen to happen and what not:

1. Rules for alike calls, and the policy, decide nothing; no card can be approved and no question answered. One switch
   does this, in the gate that every approval passes (`decisions/gate.py`); it also refuses the calls of the lab's seats.
2. An approval that is on its way reaches the space, so that its call is cancelled like the others.
3. The calls that run are cancelled, each by the seat that asked for it, else by the person where she may.
4. The agents are paused; while the lab is stopped, also each that joins, or that is there after a break of the
   connection. A pause that would end by itself becomes one without end, and `go` gives it its end back.

It waits for the gateway at most `WITHIN`; what is not seen by then goes on in the background, and its line says so. `go`
lists what it will undo, and does it when it is repeated where the list was shown. Calls are never made again.

A stop is of this lab and its person. Others get the ordinary messages: a cancel, a pause. The log has a record of each
stop (`stopped`) and of each going on (`gone_on`), with the calls that were cancelled and the agents.

Spec: §3.9.1, §3.9.2, MCP "Cancellation", rulings R14, R35.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mew_lab.lab.actions import ParticipantActions
from mew_lab.lab.call_check import listed
from mew_lab.lab.listing import Listing
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.lab.subscribers import Subscribers, wait_while
from mew_lab.ledger.calls import method_of, tool_of
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import count_of, local_time
from mew_lab.protocol.visible import middle, one_line
from mew_lab.sdk.group import RunningTasks

__all__ = ["GONE_ON", "STOPPED", "LabStop", "StopReport"]

# The events of the two records.
STOPPED, GONE_ON = "stopped", "gone_on"

WITHIN = 0.8  # seconds that `stop` waits for the gateway and for the calls that it has cancelled
SENT_WITHIN = 0.3  # of them, for approvals that are on their way
ENDED_WITHIN = 0.2  # of them, for the ends of calls whose cancel was accepted
GO_WITHIN = 5.0  # seconds that `go` waits for the gateway
MANY_ALIKE = 4  # calls, or agents, of which the same was seen have one line
MOST_TOLD = 20  # calls, or agents, that have a line each
MOST_KINDS = 5  # kinds of outcomes by which the others are counted
MOST_SHOWN = 100  # pages and texts of which it is known that they have shown the list
REASON = "stopped"


class StopReport(Listing):
    """What a stop or its end has done, a line each; `rows` has them as pairs."""

    def __str__(self) -> str:
        lines = [f"  {what}: {seen}" for what, seen in self.rows]
        return "\n".join(filter(None, [self.title, *lines, self.note if lines else self.empty]))

    __repr__ = __str__


class CallCanceller(Protocol):
    """Cancels calls as the seats of this process, as `LocalParticipants` does."""

    async def cancel_request(self, request: Envelope, reason: str) -> Seat:
        """Cancels a call that runs; returns the seat that sent the cancel."""

    def may_cancel(self, request: Envelope) -> bool:
        """Whether one of this process asked for that call, or the person may cancel it."""


class LabStop:
    """Stops one lab and goes on with it. To be used on the loop; `text` and `changed` on any thread.

    `note(event, detail)` writes a record into the log.
    """

    def __init__(
        self,
        session: Session,
        calls: CallCanceller,
        *,
        note: Callable[[str, dict[str, Any]], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.changed: Subscribers[()] = Subscribers()
        self._session = session
        self._calls = calls
        self._note = note
        self._clock = clock
        self._actions = ParticipantActions(session)
        # The agents that a stop has paused, or may have, and the end of the pause that each had before; 0 for none.
        self._paused: dict[str, float] = {}
        self._cancelled = 0
        self._end_joins: Callable[[], object] = lambda: None
        # Where the list of what `go` undoes was shown.
        self._shown: BoundedDict[str, None] = BoundedDict(MOST_SHOWN)
        # Each failure stands in a line of the listing, or is told when it comes later.
        self._tasks = RunningTasks(report=lambda fault: None)
        self._resuming: dict[str, asyncio.Task[str]] = {}

    @property
    def text(self) -> str:
        """Who stopped the lab and when; empty while it is not stopped."""
        return self._session.decisions.gate.stopped

    # --- stopping ---

    async def stop(self) -> StopReport:
        """Stops everything at once; a second stop acts on what has come since. Returns what was seen to happen."""
        end = asyncio.get_running_loop().time() + WITHIN
        decisions = self._session.decisions
        self._shown.clear()
        if not self.text:
            at = local_time(self._clock())
            decisions.gate.stopped = f"Stopped by {one_line(self._session.me.name, 64)} at {at}"
            self._paused, self._cancelled = {}, 0
            me = self._session.me.participant
            ends = (
                me.client.on_message(self._take_join, kinds=("system/presence",)),
                me.on_welcome(self._take_welcome),
            )
            self._end_joins = lambda: [end() for end in ends]
            self.changed.tell()
        rows = self._tell_switched_off()
        if deciding := await self._wait_for_decisions():
            rows.append(
                ("approvals on their way", f"{deciding} not seen to end yet; stop again to cancel them")
            )
        requests, foreign = self._running()
        cancels = [self._tasks.start(self._cancel(request)) for request in requests]
        pausing = self._agents_to_pause()
        self._paused |= pausing
        names = list(pausing)
        pauses = [self._tasks.start(self._pause(name)) for name in names]
        if tasks := [*cancels, *pauses]:
            _, late = await asyncio.wait(tasks, timeout=max(0.0, end - asyncio.get_running_loop().time()))
            for task in late:
                task.add_done_callback(self._tell_late)
        await self._wait_for_ends(requests, until=end)
        rows += self._tell_calls(requests, cancels, foreign)
        self._cancelled += len(requests)
        is_here = self._session.me.participant.client.state == "ready"
        none = "none was running" if is_here else "not connected; those that are there then are paused"
        rows += _tell_each("agent", names, [_seen(task) for task in pauses]) or [("agents", none)]
        for name, task in zip(names, pauses, strict=True):
            if task.done() and not task.cancelled() and task.exception() is not None:
                self._paused.pop(name, None)
        self._note(
            STOPPED, {"cancelled": [request.id for request in requests], "pausing": names, "foreign": foreign}
        )
        self.changed.tell()
        gate = decisions.gate
        return StopReport(
            self.text, ("what", "seen"), rows, note=f"{gate.to_go_on} lists what that would undo"
        )

    def _tell_switched_off(self) -> list[tuple[str, str]]:
        decisions = self._session.decisions
        rules, policy = decisions.alike.standing, decisions.policy
        adopted = decisions.rules.stop_all()
        taken = decisions.review.take_back_all()
        decisions.once.clear()
        waiting = self._waiting()
        yes = f"; {count_of(taken, 'yes', 'yes')} of yours taken back" if taken else ""
        told = [f"{count_of(len(rules), 'rule')} for alike calls suspended"] if rules else []
        told += [f"{count_of(adopted, 'adopted rule')} suspended until you adopt it again"] if adopted else []
        return [
            ("rules", "; ".join(told) or "none was there"),
            ("policy", f"“{one_line(policy.name, 80)}” decides nothing" if policy else "none was there"),
            ("cards", f"{waiting} cannot be approved; rejecting and withdrawing still work{yes}"),
        ]

    def _waiting(self) -> str:
        """What waits for the person, as a phrase."""
        cards = sum(card.is_open for card in self._session.decisions.pending())
        asked = sum(question.is_open for question in self._session.asked.pending())
        questions = f" and {count_of(asked, 'question')}" if asked else ""
        return f"{count_of(cards, 'open proposal')}{questions}"

    async def _wait_for_decisions(self) -> int:
        """Waits until the approvals that had passed the gate are sent or refused; returns how many are not yet."""
        queue = self._session.decisions.queue
        until = asyncio.get_running_loop().time() + SENT_WITHIN
        await wait_while(lambda: bool(queue.deciding), queue.subscribers.add, until=until)
        return len(queue.deciding)

    def _running(self) -> tuple[list[Envelope], int]:
        """The calls that run and can be cancelled from here, and the number of the others that run."""
        me = self._session.me.participant
        found = {request.id: request.envelope for request in self._session.decisions.running.open()}
        for seat in self._session.seats.values():  # those that the gateway has not returned yet
            for id, sent in seat.participant.correlations.waiting("mcp/request").items():
                if not self._is_known(id) and has_effect(method_of(sent.payload)):
                    found[id] = sent
        requests = [request for request in found.values() if me.client.id not in request.to]
        mine = [request for request in requests if self._calls.may_cancel(request)]
        return mine, len(requests) - len(mine)

    async def _cancel(self, request: Envelope) -> str:
        seat = await self._calls.cancel_request(request, REASON)
        return f"asked to stop by {seat.name}"

    async def _pause(self, name: str) -> str:
        return await self._actions.perform("pause", name, {"reason": REASON})

    def _agents_to_pause(self) -> dict[str, float]:
        """The agents that run, that `go` is resuming, or whose pause ends by itself; with that end, else 0."""
        resuming, self._resuming = self._resuming, {}
        for task in resuming.values():
            task.cancel()
        running = dict.fromkeys([*self._actions.agents().running, *resuming], 0.0)
        return running | self._actions.find_timed_pauses()

    def _take_join(self, envelope: Envelope) -> None:
        """Pauses the agent that has joined, once the members say that it is here."""
        if envelope.payload.get("event") == "join":
            joined = str(envelope.payload.get("participant", {}).get("id"))
            asyncio.get_running_loop().call_soon(self._pause_who_came, joined)

    def _take_welcome(self, *_: object) -> None:
        """Pauses all agents after a break of the connection: they may have come, and the gateway may be another one."""
        asyncio.get_running_loop().call_soon(self._pause_who_came)

    def _pause_who_came(self, name: str = "") -> None:
        if not self.text:
            return
        here = self._agents_to_pause()
        here |= {
            agent: self._paused[agent] for agent in self._actions.agents().paused if agent in self._paused
        }
        for agent in here if not name else here.keys() & {name}:
            self._paused.setdefault(agent, here[agent])
            self._tasks.start(self._pause(agent)).add_done_callback(self._tell_late)

    async def _wait_for_ends(self, requests: Sequence[Envelope], *, until: float) -> None:
        """Waits a moment for the ends of calls that were cancelled."""
        running = self._session.decisions.running
        ids = {request.id for request in requests}
        until = min(until, asyncio.get_running_loop().time() + ENDED_WITHIN)
        await wait_while(
            lambda: any(request.id in ids for request in running.open()), running.changed.add, until=until
        )

    def _tell_calls(
        self, requests: Sequence[Envelope], cancels: Sequence[asyncio.Task[str]], foreign: int
    ) -> list[tuple[str, str]]:
        running = self._session.decisions.running
        open_ids = {request.id for request in running.open()}
        seen = []
        for request, task in zip(requests, cancels, strict=True):
            told = _seen(task)
            if task.done() and not task.cancelled() and task.exception() is None:
                ended = request.id not in open_ids and self._is_known(request.id)
                told += f"; {running.end_of(request.id).text}" if ended else "; unknown until it answers"
            seen.append(told)
        rows = _tell_each("call", [_name(request) for request in requests], seen)
        if not rows:
            rows = [("calls", "none was running that could be cancelled from here")]
        if foreign:
            rows.append(
                (
                    "calls of others",
                    f"{foreign} not cancelled: neither yours nor of a participant that you may remove",
                )
            )
        return rows

    def _is_known(self, id: str) -> bool:
        return self._session.me.participant.ledger.calls.requests.get(id) is not None

    # --- going on ---

    async def go(self, shown_in: str = "") -> StopReport:
        """Lists what going on undoes; where that list was shown before (`shown_in`), does it and tells what was seen."""
        decisions = self._session.decisions
        if not self.text:
            return StopReport(
                "", ("what", "seen"), [], empty="This lab is not stopped, so there is nothing to go on with."
            )
        if shown_in not in self._shown:
            self._shown[shown_in] = None
            return StopReport(
                f"{self.text}. Going on would undo this",
                ("what", "becomes"),
                [
                    *self._tell_undo(),
                    *_tell_each("agent", list(self._paused), [self._tell_end(name) for name in self._paused]),
                ],
                note="Repeat it to go on.",
            )
        stopped, paused = self.text, self._paused
        names = list(paused)
        rows = self._tell_undo()
        decisions.gate.stopped = ""
        self._end_joins()
        self._shown.clear()
        self._paused, began = {}, self._clock()
        decisions.set_policy(decisions.policy)  # which judges what has come meanwhile
        self._resuming = tasks = {
            name: self._tasks.start(self._resume(name, end)) for name, end in paused.items()
        }
        self.changed.tell()
        if tasks:
            await asyncio.wait(tasks.values(), timeout=GO_WITHIN)
        rows += _tell_each("agent", names, [_seen(task) for task in tasks.values()])
        if self._resuming is tasks:
            self._resuming = {}
        self._note(GONE_ON, {"resumed": [name for name, end in paused.items() if end <= began]})
        return StopReport(f"Going on; {stopped[:1].lower()}{stopped[1:]}", ("what", "seen"), rows)

    def _tell_undo(self) -> list[tuple[str, str]]:
        decisions = self._session.decisions
        rules, policy = decisions.alike.standing, decisions.policy
        rows = [("rules", f"{count_of(len(rules), 'rule')} for alike calls in force again")] if rules else []
        if policy is not None:
            rows.append(
                ("policy", f"“{one_line(policy.name, 80)}” decides again, what has come meanwhile too")
            )
        rows.append(("cards", f"{self._waiting()} can be approved again"))
        if self._cancelled:
            rows.append(("calls", f"{count_of(self._cancelled, 'cancelled call')} not made again"))
        return rows

    async def _resume(self, name: str, end: float) -> str:
        left = end - self._clock()
        if left > 0:
            return await self._actions.perform(
                "pause", name, {"timeout_seconds": left, "reason": "as before the stop"}
            )
        return await self._actions.perform("resume", name, {"reason": "going on"})

    def _tell_end(self, name: str) -> str:
        end = self._paused[name]
        return f"paused until {local_time(end)}, as before" if end > self._clock() else "resumed"

    def _tell_late(self, task: asyncio.Task[str]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._session.fault(f"The stop was not seen to reach all: {one_line(str(fault), 300)}")


def _name(request: Envelope) -> str:
    tool = tool_of(request.payload) or method_of(request.payload)
    return middle("/".join([", ".join(request.to[:3]), tool]), 100)


def _seen(task: asyncio.Task[str]) -> str:
    """What was seen of a cancel, a pause or a resume so far."""
    if not task.done():
        return "sent, and not seen to be accepted yet"
    if task.cancelled():
        return "not done, because the lab was stopped again"
    fault = task.exception()
    return task.result() if fault is None else f"not done: {one_line(str(fault), 300)}"


def _tell_each(what: str, names: Sequence[str], seen: Sequence[str]) -> list[tuple[str, str]]:
    """A line for each of the names, one for several of which the same was seen; then one that counts the others."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, told in zip(names, seen, strict=True):
        alike.setdefault(told.removeprefix(f"{name} "), []).append((name, told))
    rows: list[tuple[str, str]] = []
    for told, group in alike.items():
        if len(group) < MANY_ALIKE:
            rows += [(f"{what} {one_line(name, 120)}", one) for name, one in group]
        else:
            each = listed(list(dict.fromkeys(name for name, _ in group)))
            rows.append((count_of(len(group), what), f"each {told} ({each})"))
    rest = Counter(told for _, told in rows[MOST_TOLD:])
    others = "; ".join(f"{count}: {one_line(told, 120)}" for told, count in rest.most_common(MOST_KINDS))
    return [*rows[:MOST_TOLD], *([(f"{len(rows) - MOST_TOLD} more {what}s", others)] if others else [])]
