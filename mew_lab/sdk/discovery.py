"""Which tools do the others have?  Asks them, in good time and again, and remembers what they told.

It is told who is there; it never proposes, so who may not ask learns nothing. Discovery by itself is opt-in. A
list outlives a lost connection and the failure of a later attempt, but not its participant's leave.

Rules for whoever adds something here:
1. One attempt at a time for each participant (`_asked`): whoever wants the list shares it.
2. One plan at a time for each participant (`_plans`): when the next attempt is due. A plan is settled once an
   attempt has succeeded or the last one failed; only what is not settled is waited for.
3. All of it runs on one loop, so nothing is locked.

Spec: §3.1, SDK "Participant Join Flow and Tool Discovery", "Tool Discovery and State Management", ruling R9.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Literal, NamedTuple

from mew_lab.errors import CapabilityViolation, ConnectionLost, MewError, NoReply
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.payloads.system import SystemPresence
from mew_lab.protocol.permit import read_capabilities
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.asking import Asking
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.discovered import MAX_TOOLS, DiscoveredTool, taken
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.listing import list_tools
from mew_lab.sdk.pacing import Pace, Starts
from mew_lab.sdk.plans import Next, Plans
from mew_lab.sdk.signal import Signal

__all__ = ["Discovery", "DiscoveryStatus", "State", "ToolsChange"]

logger = logging.getLogger(__name__)
State = Literal["not_started", "in_progress", "completed", "failed", "no_tools"]
CHANGED = "notifications/tools/list_changed"

MAX_KNOWN = 1000  # participants
MAX_ERROR = 300  # characters
AT_MOST_EVERY = 1.0  # seconds between two attempts that notifications of one participant cause
PAGES_WITHIN = 6  # times the timeout of one page, for all pages


class DiscoveryStatus(NamedTuple):
    """How far one participant's tools are known.

    `last_attempt` is when it was last asked, `attempts` how often in a row until it told its list, `error` why the
    last attempt failed, or what was left out of the list. `has_tools` may stand beside `failed`: an older list is
    known.
    """

    state: State = "not_started"
    last_attempt: datetime | None = None
    attempts: int = 0
    has_tools: bool = False
    error: str = ""


class ToolsChange(NamedTuple):
    """All tools that a participant has from now on; none when it left."""

    participant: str
    tools: tuple[DiscoveredTool, ...]


@dataclass(slots=True)
class _Known:
    """What is known of one participant; times by the clock of Discovery."""

    status: DiscoveryStatus = field(default_factory=DiscoveryStatus)
    tools: tuple[DiscoveredTool, ...] = ()
    entries: tuple[dict[str, Any], ...] = ()
    told_at: float | None = None
    asked_at: float = float("-inf")
    barred: bool = False
    outdated: bool = False


class Discovery:
    """Whose tools one participant knows.

    `pace` are the figures in force. A participant is worth asking when its capabilities permit `mcp/response`.
    """

    def __init__(
        self,
        client: MEWClient,
        asking: Asking,
        *,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        wait: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep,
    ) -> None:
        self.pace = Pace()
        self._client = client
        self._asking = asking
        self._clock = clock
        self._now = now
        self._wait = wait
        self._auto = False
        self._anew = False  # whether the next welcome follows a lost connection
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Task[list[dict[str, Any]]]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._settled = asyncio.Event()
        self._plans = Plans(self._step, wait=wait, on_settled=self._settled.set, on_fault=client.report)
        self._starts = Starts()
        self._changes: Signal[ToolsChange] = Signal(on_fault=client.report)
        client.on_welcome(self._welcomed)

    # --- what is known ---

    def get_available_tools(self) -> list[DiscoveredTool]:
        """Every tool that is known, participant by participant; a list that is being asked for again counts."""
        return [tool for known in self._known.values() for tool in known.tools]

    def get_discovery_status(self) -> dict[str, DiscoveryStatus]:
        """The status of each participant that is known or worth asking."""
        known = {name: known.status for name, known in self._known.items()}
        return {**dict.fromkeys(self._worth_asking(), DiscoveryStatus()), **known}

    def get_undiscovered_participants(self) -> list[str]:
        """Who is here, is worth asking, and has never told its tools."""
        known = {name for name, known in self._known.items() if known.told_at is not None}
        return [name for name in self._worth_asking() if name not in known]

    def has_discoveries_in_progress(self) -> bool:
        """Whether anybody is being asked or will be soon; a repetition counts, a refresh to come does not."""
        return bool(self._plans.unsettled or self._asked)

    async def wait_for_pending_discoveries(self, max_wait: float) -> bool:
        """Returns once nothing is in progress, at the latest after `max_wait` seconds; whether nothing is."""
        limit = asyncio.ensure_future(self._wait(max_wait))
        try:
            while self.has_discoveries_in_progress() and not limit.done():
                self._settled.clear()
                settled = asyncio.ensure_future(self._settled.wait())
                await asyncio.wait({limit, settled}, return_when=asyncio.FIRST_COMPLETED)
                settled.cancel()
        finally:
            limit.cancel()
        return not self.has_discoveries_in_progress()

    def on_tools_changed(self, handler: Callable[[ToolsChange], Any]) -> Callable[[], None]:
        """Each list that is not what it was, leaves included. The result, when called, ends that."""
        return self._changes.add(handler)

    # --- asking ---

    async def discover_tools(self, participant: str, *, cached: bool = False) -> list[dict[str, Any]]:
        """The entries of a participant's `tools/list` that can be called. Who asks meanwhile shares the request.

        Args:
            cached: whether a list younger than `pace.ttl` will do.

        Raises:
            CapabilityViolation: this participant may not ask; nothing was sent, and nothing is ever proposed.
            ToolFailed, NoReply, ConnectionLost: as a call.
        """
        known = self._known.get(participant)
        if cached and known is not None and self._is_fresh(known):
            return list(known.entries)
        entries = await self._attempt(participant)
        known = self._known.get(participant)
        if self._auto and known is not None:
            due = self._after(known)
            self._plan(participant, due.after, settled=due.settled)
        return entries

    def enable_auto_discovery(self, pace: Pace | None = None) -> None:
        """From now on asks everybody worth asking, again when due, and whoever joins or says that its tools
        changed. What is fresh is asked for when it is no more."""
        self.pace = pace or self.pace
        self._auto = True
        if self._client.state == "ready":
            self._plan_all(again=True)

    def disable_auto_discovery(self) -> None:
        """Asks nobody by itself any more; what is known stays."""
        self._auto = False
        self._plans.clear()

    async def close(self) -> None:
        """Ends everything that runs. What is known stays, and discovery goes on with the next welcome."""
        await self._plans.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    # --- what happens ---

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of who comes and goes, and of lists that changed."""
        dispatcher.on(SystemPresence, self._note_presence)
        dispatcher.on(McpRequest, self._note_request)

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        newcomer = payload.participant
        if not newcomer or newcomer.id == self._client.id:
            return
        if payload.event == "leave":
            self._gone(newcomer.id)
        elif payload.event == "join" and self._auto and _may_answer(newcomer.capabilities or []):
            self._plan(newcomer.id, self._place(newcomer.id))

    def _note_request(self, envelope: Envelope, payload: McpRequest) -> None:
        if payload.method == CHANGED:
            self._outdated(envelope.sender)

    def lost(self) -> None:
        """The connection ended; another may follow."""
        self._anew = True
        self._asked.clear()  # these attempts fail by themselves
        self._plans.clear()

    def _welcomed(self, _: object) -> None:
        for name in tuple(self._known):
            if name not in self._client.participants:
                self._gone(name)
        if self._auto:
            self._plan_all(again=self._anew)
        self._anew = False

    def _outdated(self, name: str) -> None:
        known = self._known.get(name)
        if known is None or known.outdated:
            return  # it was not asked yet, or will be soon because of an earlier notice
        known.outdated = True  # an answer on its way may be older than the notice
        if self._auto:
            earliest = known.asked_at + AT_MOST_EVERY - self._clock()
            self._plan(name, max(earliest, self._start()))

    def _gone(self, name: str) -> None:
        known = self._known.pop(name, None)
        self._asked.pop(name, None)  # it fails by itself, as the call of somebody who left does
        self._plans.drop(name)
        if known is not None and known.tools:
            self._changes(ToolsChange(name, ()))

    # --- plans ---

    def _worth_asking(self) -> list[str]:
        return [name for name, patterns in self._client.participants.items() if _may_answer(patterns)]

    def _is_fresh(self, known: _Known) -> bool:
        told_at = known.told_at
        return told_at is not None and not known.outdated and self._clock() < told_at + self.pace.ttl

    def _start(self) -> float:
        """Seconds until one more may be asked."""
        return self._starts.next(self._clock(), self.pace, waiting=len(self._plans.unsettled))

    def _place(self, newcomer: str) -> float:
        """Seconds before a newcomer is asked: all hear of it at once, so each takes its place by its name."""
        before = sum(name < self._client.id for name in self._client.participants if name != newcomer)
        return self._start() + min(self.pace.stagger * before, self.pace.longest)

    def _plan_all(self, *, again: bool) -> None:
        """Plans whoever has no plan yet; `again` also those who were asked before."""
        for name in self._worth_asking():
            known = self._known.get(name)
            if known is not None and not self._anew and self._is_fresh(known):
                if name not in self._plans:
                    self._plan(name, self.pace.ttl, settled=True)
            elif name not in self._plans.unsettled and (again or known is None or known.barred):
                self._plan(name, self._start())

    def _plan(self, name: str, after: float, *, settled: bool = False) -> None:
        if name not in self._plans and len(self._plans) >= MAX_KNOWN:
            logger.warning(
                "%d participants are asked for their tools already; %s is not", MAX_KNOWN, one_line(name, 80)
            )
            return
        self._plans.make(name, after, settled=settled)

    async def _step(self, name: str, failures: int) -> Next | None:
        try:
            await self._attempt(name)
        except MewError as fault:
            known = self._known.get(name)
            if known is None or known.barred:
                return None
            if failures < len(self.pace.retries):
                return Next(self.pace.retries[failures], failures + 1, settled=False)
            who, why = one_line(name, 80), one_line(str(fault), MAX_ERROR)
            logger.warning("the tools of %s are not known: asked %d times; %s", who, failures + 1, why)
            return None if known.told_at is None else Next(self.pace.ttl)
        known = self._known.get(name)
        return self._after(known) if known is not None else None

    def _after(self, known: _Known) -> Next:
        """When a list that was just told is asked for again."""
        return Next(AT_MOST_EVERY, settled=False) if known.outdated else Next(self.pace.ttl)

    # --- attempts ---

    async def _attempt(self, name: str) -> list[dict[str, Any]]:
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = asyncio.get_running_loop().create_task(self._ask(name))
            self._running.add(asked)
            asked.add_done_callback(lambda done: self._ended(name, done))
        return await asyncio.shield(asked)

    def _ended(self, name: str, asked: asyncio.Task[list[dict[str, Any]]]) -> None:
        self._running.discard(asked)
        asked.cancelled() or asked.exception()  # nobody has to wait for it
        if self._asked.get(name) is asked:
            del self._asked[name]
        self._settled.set()

    async def _ask(self, name: str) -> list[dict[str, Any]]:
        known = self._known.get(name) or _Known()
        if name in self._client.participants and len(self._known) < MAX_KNOWN:  # nobody else's leave is told
            self._known[name] = known
        attempts = 1 if known.status.state in ("completed", "no_tools") else known.status.attempts + 1
        asking = DiscoveryStatus("in_progress", self._now(), attempts, bool(known.tools))
        known.status, known.asked_at, known.outdated = asking, self._clock(), False
        try:
            listed = await self._listed(name)
        except MewError as fault:
            known.barred = isinstance(fault, CapabilityViolation)
            why = f"{'may not ask: ' if known.barred else ''}{one_line(str(fault), MAX_ERROR)}"
            known.status = asking._replace(state="failed", error=why)
            raise
        found = taken(name, listed)
        changed = known.tools != found.tools
        known.tools, known.entries, known.told_at = found.tools, found.entries, self._clock()
        known.barred = False
        state: State = "completed" if found.tools else "no_tools"
        known.status = asking._replace(state=state, has_tools=bool(found.tools), error=found.omitted)
        if changed and found.omitted:
            logger.warning("of %s: %s", one_line(name, 80), found.omitted)
        if changed and self._known.get(name) is known:
            self._changes(ToolsChange(name, found.tools))
        return list(found.entries)

    async def _listed(self, name: str) -> list[dict[str, Any]]:
        limit = self.pace.timeout * PAGES_WITHIN
        try:
            async with asyncio.timeout(limit):
                return await list_tools(self._asking, name, timeout=self.pace.timeout, limit=MAX_TOOLS + 1)
        except MewError:
            raise
        except TimeoutError:
            said = f"{name} has not told all of its tools within {limit:.3g} s"
            raise NoReply(said, after_s=limit, waiting_for=f"{name}/tools/list") from None
        except asyncio.CancelledError:  # only `close` ends an attempt, and others may wait for it
            raise ConnectionLost(f"Discovery was closed before {name} told its tools") from None


def _may_answer(patterns: list[dict[str, Any]]) -> bool:
    """Whether these capabilities permit some `mcp/response`."""
    return any(one.kind.matches("mcp/response") for one in read_capabilities(patterns)[0].capabilities)
