"""Discovers the tools of the other participants: requests their lists on a schedule and keeps the answers.

How it works
------------
1. One attempt at a time for each participant (`_asked`), shared by all callers that want the list.
2. One task at a time for each participant (`_schedule`) sleeps until its next attempt. A participant is settled once an
   attempt has succeeded or the last one failed; `wait_for_pending_discoveries` waits for the others.
3. `ToolReader` takes from a list the entries that are callable and unambiguous, within bounds.

Discovery never proposes, so a participant that may not send the request learns nothing. Without
`enable_auto_discovery` only `discover_tools` sends requests. A list outlives a lost connection and the failure of a
later attempt, but not the leave of its participant. Everything runs on one loop, so nothing is locked.

Spec: §3.1, SDK "Participant Join Flow and Tool Discovery", "Tool Discovery and State Management", ruling R9.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from mew_lab.errors import CapabilityViolation, ConnectionLost, MewError, NoReply, ProtocolError
from mew_lab.protocol.coerce import list_of, member, text_of
from mew_lab.protocol.envelope import Envelope, read_canonical
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.payloads.system import SystemPresence
from mew_lab.protocol.permit import permits_some
from mew_lab.protocol.steps import Steps, finish
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.correlations import Correlations
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.scheduler import KeyedScheduler, NextStep, Pace, StartSpacing
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.slices import in_slices

__all__ = [
    "CHANGED",
    "MAX_TOOLS",
    "CachedTools",
    "DiscoveredTool",
    "Discovery",
    "DiscoveryStatus",
    "State",
    "ToolReader",
    "ToolReading",
    "ToolsChange",
    "Written",
    "list_tools",
    "may_answer",
    "needs_task",
    "read_tools",
]

logger = logging.getLogger(__name__)
State = Literal["not_started", "in_progress", "completed", "failed", "no_tools"]
CHANGED = "notifications/tools/list_changed"

MAX_KNOWN = 1000  # participants
MAX_ERROR = 300  # characters
MAX_TOOLS = 500  # of one participant
MAX_ENTRIES = 2 * MAX_TOOLS  # of one list that are looked at
NOT_LOOKED_AT = f"beyond the first {MAX_ENTRIES} of the list"
MAX_NAME = 128  # characters
MAX_EXAMPLE = 60  # characters of a name in the sentence about what was left out
MAX_DESCRIPTION = 4096  # characters; what is longer is cut
MAX_SCHEMA = 131_072  # bytes of JSON
MAX_ANNOTATIONS = 4096  # bytes of JSON
MORE = ("title", "icons", "outputSchema", "_meta")  # each of MAX_SCHEMA bytes of JSON at most
MAX_BYTES = 4_000_000  # of all entries of one participant
BEYOND = f"beyond {MAX_TOOLS}"
AT_MOST_EVERY = 1.0  # seconds between two attempts that notifications of one participant cause
MAX_PAGES = 100  # bounds a list without an end
PAGES_WITHIN = 6  # times the timeout of one page, for all pages
TIMES_LONGER = 5  # than usual that first answers are waited for, while they come one after the other


class DiscoveredTool(NamedTuple):
    """A tool of `participant`; it is called as `participant/name`.

    All but its name are claims of the participant: they may be shown, never trusted. `more` has further members of its
    entry as they came, those of `MORE`.
    """

    participant: str
    name: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, Any]
    more: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_for_models(self) -> bool:
        """Whether a model may be shown it; its participant may say that only its pages call it (MCP Apps)."""
        visibility = member(self.more, "_meta", "ui", "visibility")
        return not isinstance(visibility, list) or "model" in visibility


class DiscoveryStatus(NamedTuple):
    """The state of the discovery of one participant's tools.

    `last_attempt` is the time of the last request, `attempts` the number of requests in a row until a list came, and
    `error` the reason of the last failure or the entries that were left out. `has_tools` may be true in state
    `failed`, where an older list is known.
    """

    state: State = "not_started"
    last_attempt: datetime | None = None
    attempts: int = 0
    has_tools: bool = False
    error: str = ""


class CachedTools(NamedTuple):
    """The tools of a participant that are kept: the time of their list, and the seconds for which it counts as fresh."""

    participant: str
    tools: tuple[DiscoveredTool, ...]
    timestamp: datetime
    ttl: float


class ToolsChange(NamedTuple):
    """All tools that a participant has from now on; none when it left."""

    participant: str
    tools: tuple[DiscoveredTool, ...]


@dataclass(slots=True)
class _Known:
    """The discovery of one participant; times by the clock of Discovery."""

    status: DiscoveryStatus = field(default_factory=DiscoveryStatus)
    reading: ToolReading = field(default_factory=lambda: ToolReading())
    told_at: float | None = None
    asked_at: float = float("-inf")
    barred: bool = False
    outdated: bool = False


@explains_arguments
class Discovery:
    """The tools of other participants that one participant has discovered.

    `pace` holds the intervals in force. Only participants whose capabilities permit `mcp/response` are asked.
    """

    def __init__(
        self,
        client: MEWClient,
        correlations: Correlations,
        *,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        wait: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep,
    ) -> None:
        self.pace = Pace()
        self._client = client
        self._correlations = correlations
        self._clock = clock
        self._now = now
        self._wait = wait
        self._auto = False
        self._anew = False  # whether the next welcome follows a lost connection
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Task[list[dict[str, Any]]]] = {}
        self._running = RunningTasks()
        self._settled = asyncio.Event()
        self._answered_at = float("-inf")
        self._schedule = KeyedScheduler(
            self._step, wait=wait, on_settled=self._settled.set, on_fault=client.report
        )
        self._starts = StartSpacing()
        self._slots = asyncio.Semaphore(self.pace.at_once)
        self._changes: Signal[ToolsChange] = Signal(on_fault=client.report)
        client.on_welcome(self._on_welcome)

    # --- discovered tools ---

    def get_available_tools(self) -> list[DiscoveredTool]:
        """Every known tool, grouped by participant. A list stays while it is being requested again."""
        return [tool for known in self._known.values() for tool in known.reading.tools]

    @property
    def discovered_tools(self) -> dict[str, tuple[DiscoveredTool, ...]]:
        """The known tools by the name of their participant, those without any left out."""
        return {name: known.reading.tools for name, known in self._known.items() if known.reading.tools}

    @property
    def participant_discovery_status(self) -> dict[str, DiscoveryStatus]:
        """`get_discovery_status()`."""
        return self.get_discovery_status()

    @property
    def tool_cache(self) -> list[CachedTools]:
        """The list of each participant that has sent one, with its time; `pace.ttl` is its `ttl`.

        Spec: SDK "Tool Discovery and State Management".
        """
        now, clock = self._now(), self._clock()
        return [
            CachedTools(
                name, known.reading.tools, now - timedelta(seconds=clock - known.told_at), self.pace.ttl
            )
            for name, known in self._known.items()
            if known.told_at is not None
        ]

    def get_whole_lists(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """The callable entries of each participant that has listed its tools to the end, by name."""
        return {
            name: known.reading.entries for name, known in self._known.items() if known.told_at is not None
        }

    def get_discovery_status(self) -> dict[str, DiscoveryStatus]:
        """The status of each participant that was asked or may be asked, by name."""
        known = {name: known.status for name, known in self._known.items()}
        return {**dict.fromkeys(self._worth_asking(), DiscoveryStatus()), **known}

    def get_undiscovered_participants(self) -> list[str]:
        """The participants that are present, may be asked, and have never sent a list of tools."""
        known = {name for name, known in self._known.items() if known.told_at is not None}
        return [name for name in self._worth_asking() if name not in known]

    def has_discoveries_in_progress(self) -> bool:
        """Whether a request runs or is due; a retry counts, a later refresh does not."""
        return bool(self._schedule.unsettled or self._asked)

    async def wait_for_pending_discoveries(self, max_wait: float) -> bool:
        """Waits until nothing is in progress, at most `max_wait` seconds; returns whether that is so."""
        end = self._clock() + max_wait
        await self._wait_as_long_as(
            lambda: end - self._clock() if self.has_discoveries_in_progress() else 0.0
        )
        return not self.has_discoveries_in_progress()

    async def wait_for_first_answers(self, max_wait: float) -> None:
        """Waits until each participant that may be asked has answered or failed once.

        A participant is waited for until `max_wait` seconds have passed since its request and since the last answer of
        another, and `TIMES_LONGER` times as long at most. So the call takes no longer than that either.
        """
        begun = self._clock()

        def until(name: str) -> float:
            known, asked_at = self._known.get(name), begun
            if known is not None:
                if known.status.state != "in_progress" or known.status.attempts > 1:
                    return begun
                asked_at = known.asked_at
            # On a busy machine answers come late and one by one; one that waits for its turn is no silence.
            longest = min(asked_at, begun) + TIMES_LONGER * max_wait
            return min(max(asked_at, self._answered_at) + max_wait, longest)

        def left() -> float:
            awaited = map(until, (*self._schedule.unsettled, *self._asked))
            return max(awaited, default=begun) - self._clock()

        await self._wait_as_long_as(left)

    async def _wait_as_long_as(self, left: Callable[[], float]) -> None:
        """Waits for so many seconds; how many are left is asked again wherever an attempt ends, and at their end."""
        self._client.check_loop()
        while (seconds := left()) > 0:
            self._settled.clear()
            ends = [asyncio.ensure_future(each) for each in (self._wait(seconds), self._settled.wait())]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()

    def on_tools_changed(self, handler: Callable[[ToolsChange], object]) -> Callable[[], None]:
        """Calls `handler` with each list that changed, also by a leave. Returns a function that removes it."""
        return self._changes.add(handler)

    # --- asking ---

    async def discover_tools(self, participant: str, *, cached: bool = False) -> list[dict[str, Any]]:
        """The callable entries of a participant's `tools/list`. Concurrent callers share one request.

        Args:
            cached: whether a list younger than `pace.ttl` may be returned.

        Raises:
            CapabilityViolation: this participant may not send the request; discovery never proposes it.
            ToolFailed, NoReply, ConnectionLost: as a call.
        """
        self._client.check_loop()
        known = self._known.get(participant)
        if cached and known is not None and self._is_fresh(known):
            return list(known.reading.entries)
        entries = await self._attempt(participant)
        known = self._known.get(participant)
        if self._auto and known is not None:
            due = self._after(known)
            self._plan(participant, due.after, settled=due.settled)
        return entries

    def enable_auto_discovery(self, pace: Pace | None = None) -> None:
        """Requests the tools of every participant that may be asked, and again when they join, report a change,
        or their list is older than `pace.ttl`."""
        self.pace = pace or self.pace
        self._slots = asyncio.Semaphore(self.pace.at_once)
        self._auto = True
        if self._client.state == "ready":
            self._plan_all(again=True)

    def disable_auto_discovery(self) -> None:
        """Stops automatic requests. Known lists stay."""
        self._auto = False
        self._schedule.clear()

    async def close(self) -> None:
        """Ends all attempts and schedules. Known lists stay; discovery resumes with the next welcome."""
        self._client.check_loop()
        await self._schedule.close()
        await self._running.end()

    # --- events ---

    def register(self, dispatcher: Dispatcher) -> None:
        """Adds the handlers of presence and of changed lists."""
        dispatcher.on(SystemPresence, self._note_presence)
        dispatcher.on(McpRequest, self._note_request)

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        newcomer = payload.participant
        if not newcomer or newcomer.id == self._client.id:
            return
        if payload.event == "leave":
            self._forget(newcomer.id)
        elif payload.event == "join" and self._auto and may_answer(newcomer.capabilities or []):
            self._plan(newcomer.id, self._place(newcomer.id))

    def _note_request(self, envelope: Envelope, payload: McpRequest) -> None:
        if payload.method == CHANGED:
            self._mark_stale(envelope.sender)

    def lost(self) -> None:
        """Clears attempts and schedules, because the connection ended."""
        self._anew = True
        self._asked.clear()  # these attempts fail by themselves
        self._schedule.clear()

    def _on_welcome(self, _: object) -> None:
        for name in tuple(self._known):
            if name not in self._client.participants:
                self._forget(name)
        if self._auto:
            self._plan_all(again=self._anew)
        self._anew = False

    def _mark_stale(self, name: str) -> None:
        known = self._known.get(name)
        if known is None or known.outdated:
            return  # it was not asked yet, or an earlier notice has scheduled the request
        known.outdated = True  # an answer on its way may be older than the notice
        if self._auto:
            earliest = known.asked_at + AT_MOST_EVERY - self._clock()
            self._plan(name, max(earliest, self._start()))

    def _forget(self, name: str) -> None:
        known = self._known.pop(name, None)
        self._asked.pop(name, None)  # it fails by itself, as a call to a participant that left does
        self._schedule.cancel(name)
        if known is not None and known.reading.tools:
            self._changes(ToolsChange(name, ()))

    # --- plans ---

    def _worth_asking(self) -> list[str]:
        return [name for name, patterns in self._client.participants.items() if may_answer(patterns)]

    def _is_fresh(self, known: _Known) -> bool:
        told_at = known.told_at
        return told_at is not None and not known.outdated and self._clock() < told_at + self.pace.ttl

    def _start(self) -> float:
        """Seconds until the next participant may be asked."""
        return self._starts.next(self._clock(), self.pace, waiting=len(self._schedule.unsettled))

    def _place(self, newcomer: str) -> float:
        """Seconds before a newcomer is asked. All participants learn of it at once, so their names order them."""
        before = sum(name < self._client.id for name in self._client.participants if name != newcomer)
        return self._start() + min(self.pace.stagger * before, self.pace.longest)

    def _plan_all(self, *, again: bool) -> None:
        """Schedules each participant that is not scheduled; with `again` also those that were asked before."""
        for name in self._worth_asking():
            known = self._known.get(name)
            if known is not None and not self._anew and self._is_fresh(known):
                if name not in self._schedule:
                    self._plan(name, self.pace.ttl, settled=True)
            elif name not in self._schedule.unsettled and (again or known is None or known.barred):
                self._plan(name, self._start())

    def _plan(self, name: str, after: float, *, settled: bool = False) -> None:
        if name not in self._schedule and len(self._schedule) >= MAX_KNOWN:
            logger.warning(
                "the tools of %d participants are requested already, so those of %s are not",
                MAX_KNOWN,
                one_line(name, 80),
            )
            return
        self._schedule.schedule(name, after, settled=settled)

    async def _step(self, name: str, failures: int) -> NextStep | None:
        try:
            await self._attempt(name)
        except MewError as fault:
            known = self._known.get(name)
            if known is None or known.barred:
                return None
            if failures < len(self.pace.retries):
                return NextStep(self.pace.retries[failures], failures + 1, settled=False)
            who, why = one_line(name, 80), one_line(str(fault), MAX_ERROR)
            logger.warning("the tools of %s are not known after %d requests; %s", who, failures + 1, why)
            return None if known.told_at is None else NextStep(self.pace.ttl)
        known = self._known.get(name)
        return self._after(known) if known is not None else None

    def _after(self, known: _Known) -> NextStep:
        """The next request of a list that has just arrived."""
        return NextStep(AT_MOST_EVERY, settled=False) if known.outdated else NextStep(self.pace.ttl)

    # --- attempts ---

    async def _attempt(self, name: str) -> list[dict[str, Any]]:
        attempt = self._asked.get(name)
        if attempt is None:
            attempt = self._asked[name] = self._running.start(self._ask(name))
            attempt.add_done_callback(lambda task: self._on_answer(name, task))
        return await asyncio.shield(attempt)

    def _on_answer(self, name: str, attempt: asyncio.Task[list[dict[str, Any]]]) -> None:
        attempt.cancelled() or attempt.exception()  # marks it as retrieved: it need not be awaited
        if self._asked.get(name) is attempt:
            del self._asked[name]
        self._answered_at = self._clock()
        self._settled.set()

    async def _ask(self, name: str) -> list[dict[str, Any]]:
        known = self._known.get(name) or _Known()
        if name in self._client.participants and len(self._known) < MAX_KNOWN:  # of others no leave comes
            self._known[name] = known
        attempts = 1 if known.status.state in ("completed", "no_tools") else known.status.attempts + 1
        asking = DiscoveryStatus("in_progress", self._now(), attempts, bool(known.reading.tools))
        known.status, known.asked_at, known.outdated = asking, self._clock(), False
        try:
            reading = await self._listed(name)
        except MewError as fault:
            known.barred = isinstance(fault, CapabilityViolation)
            why = f"{'may not ask: ' if known.barred else ''}{one_line(str(fault), MAX_ERROR)}"
            known.status = asking._replace(state="failed", error=why)
            raise
        changed = known.reading.written != reading.written  # a name is part of what is written of it
        news = reading.omitted if reading.omitted != known.reading.omitted else ""
        known.reading, known.told_at, known.barred = reading, self._clock(), False
        state: State = "completed" if reading.tools else "no_tools"
        known.status = asking._replace(state=state, has_tools=bool(reading.tools), error=reading.omitted)
        if news:
            logger.warning("of %s: %s", one_line(name, 80), news)
        if changed and self._known.get(name) is known:
            self._changes(ToolsChange(name, reading.tools))
        return list(reading.entries)

    async def _listed(self, name: str) -> ToolReading:
        limit = self.pace.timeout * PAGES_WITHIN
        try:
            async with asyncio.timeout(limit), self._slot():
                return await list_tools(self._correlations, name, timeout=self.pace.timeout)
        except MewError:
            raise
        except TimeoutError:
            message = f"{name} has not listed all of its tools within {limit:.3g} s"
            raise NoReply(message, after_s=limit, waiting_for=f"{name}/tools/list") from None
        except asyncio.CancelledError:  # only `close` ends an attempt, and others may wait for it
            raise ConnectionLost(f"Discovery was closed before {name} listed its tools") from None

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Holds one of the `pace.at_once` places of requests, at most for `pace.slow` seconds."""
        slots, is_held = self._slots, True
        await slots.acquire()

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                slots.release()

        timer = asyncio.get_running_loop().call_later(self.pace.slow, release)
        try:
            yield
        finally:
            timer.cancel()
            release()


def may_answer(patterns: list[dict[str, Any]]) -> bool:
    """Whether these capabilities permit some `mcp/response`."""
    return permits_some(patterns, "mcp/response")


# --- lists of tools ---


async def list_tools(correlations: Correlations, participant: str, *, timeout: float | None) -> ToolReading:
    """Requests the list of a participant's tools, page by page.

    Args:
        timeout: seconds for each page.

    Raises:
        CapabilityViolation: the request is not permitted; it is never proposed.
        ToolFailed, NoReply, ConnectionLost: as a call.
    """
    reader = ToolReader(participant)
    params: dict[str, Any] = {}
    while True:
        payload = {"method": "tools/list", **({"params": params} if params else {})}
        answer = await correlations.call((participant,), payload, timeout=timeout, kind="mcp/request")
        await in_slices(reader.take(answer))
        if not reader.next_cursor:
            return reader.reading()
        params = {"cursor": reader.next_cursor}


class Written(NamedTuple):
    """What a list says of one name: the digest of its first entry, that of all of them, and their number."""

    first: str
    whole: str
    times: int

    def is_same(self, now: Written, *, whole: bool) -> bool:
        """Whether `now` says the same; a list that is not `whole` may still lack further entries of the name."""
        return self == now if whole or now.times >= self.times else self.first == now.first


class ToolReading(NamedTuple):
    """The tools of a list, and of each its entry and what the list says of its name.

    `omitted` is a sentence about the entries that were left out; empty where there are none.
    """

    tools: tuple[DiscoveredTool, ...] = ()
    entries: tuple[dict[str, Any], ...] = ()
    written: tuple[Written, ...] = ()
    omitted: str = ""


def read_tools(participant: str, entries: Iterable[object]) -> ToolReading:
    """Reads the entries of a participant's `tools/list`, within bounds."""
    reader = ToolReader(participant)
    finish(reader.take({"tools": list(entries)}))
    return reader.reading()


class ToolReader:
    """Reads one list of a participant's tools, page by page, within bounds.

    The list is untrusted and is shown to people and models. Entries beyond the bounds, with a name that cannot be
    called, or with a name that is taken are left out. `next_cursor` is that of the next page; empty where the list has
    ended, or no further page is worth asking for. Everything that reads such lists reads them here, so that what is
    shown, compared and called is the same.
    """

    def __init__(self, participant: str) -> None:
        self.participant = participant
        self.next_cursor = ""
        self._tools: dict[str, DiscoveredTool] = {}
        self._entries: list[dict[str, Any]] = []
        self._first: list[str] = []
        self._hashes: dict[str, Any] = {}  # of all entries that have the name
        self._names: Counter[str] = Counter()
        self._omissions: Counter[str] = Counter()
        self._examples: dict[str, str] = {}  # the first name that was left out, by the reason
        self._room = MAX_BYTES
        self._read = 0  # entries
        self._followed: set[str] = set()

    def take(self, result: object) -> Steps[None]:
        """Takes the result of one request. A result that holds no list of tools ends the list as an empty page."""
        entries, cursor = list_of(member(result, "tools")), member(result, "nextCursor")
        room = max(0, MAX_ENTRIES - self._read)
        for entry in entries[:room]:
            yield from self._take(entry)
            yield
        if len(entries) > room:
            self._omissions[NOT_LOOKED_AT] += len(entries) - room
        self._read += len(entries)
        is_new = isinstance(cursor, str) and cursor not in self._followed
        is_full = (
            len(self._tools) >= MAX_TOOLS or self._read >= MAX_ENTRIES or len(self._followed) >= MAX_PAGES - 1
        )
        self.next_cursor = cursor if isinstance(cursor, str) and is_new and not is_full else ""
        self._followed.add(self.next_cursor)

    def reading(self) -> ToolReading:
        """What was read so far."""
        reasons = []
        for why, count in self._omissions.items():
            example = self._examples.get(why, "")
            reasons.append(f"{count} {why}{f' (such as {example})' if example else ''}")
        omitted = f"tools left out: {', '.join(reasons)}" if reasons else ""
        written = tuple(
            Written(first, self._hashes[name].hexdigest(), self._names[name])
            for name, first in zip(self._tools, self._first, strict=True)
        )
        return ToolReading(tuple(self._tools.values()), tuple(self._entries), written, omitted)

    def _take(self, entry: object) -> Steps[None]:
        if not isinstance(entry, dict):
            self._omit("that are no objects")
            return
        name, schema = entry.get("name"), entry.get("inputSchema")
        schema = schema if isinstance(schema, dict) else {"type": "object"}
        if not isinstance(name, str) or not _callable(name):
            self._omit("without a name that can be called", name)
            return
        if needs_task(entry):
            self._omit("that run only as a task, which nothing here can start", name)
            return
        is_known = name in self._tools
        if not is_known and len(self._tools) >= MAX_TOOLS:
            self._omit(BEYOND, name)
            return
        self._names[name] += 1
        text = yield from _canonical(entry)
        if is_known:
            self._omit("with the name of another", name)
        elif text is None:
            self._omit("that cannot be written as JSON", name)
        elif len(text) > MAX_SCHEMA and (yield from _size(schema)) > MAX_SCHEMA:
            self._omit("with a schema that is too large", name)
        elif len(text) > self._room:
            self._omit(f"beyond {MAX_BYTES} bytes", name)
        else:
            description = text_of(entry.get("description"), MAX_DESCRIPTION)
            annotations = entry.get("annotations")
            if not isinstance(annotations, dict) or (yield from _size(annotations)) > MAX_ANNOTATIONS:
                annotations = {}
            more = {key: entry[key] for key in MORE if key in entry}
            for key in tuple(more) if len(text) > MAX_SCHEMA else ():
                if (yield from _size(more[key])) > MAX_SCHEMA:
                    del more[key]
            known = DiscoveredTool(self.participant, name, description, schema, annotations, more)
            self._tools[name] = known
            self._entries.append(dict(entry))
            self._first.append(sha256(text).hexdigest())
        counted = self._hashes.setdefault(name, sha256())
        if text is not None and len(text) <= self._room:  # an entry that was left out counts as well
            self._room -= len(text)
            counted.update(text)
        counted.update(b"\0")

    def _omit(self, why: str, name: object = None) -> None:
        self._omissions[why] += 1
        if isinstance(name, str) and name and why not in self._examples:
            self._examples[why] = one_line(name, MAX_EXAMPLE)


def needs_task(entry: object) -> bool:
    """Whether the entry of a tool says that it runs only as a task (MCP 2025-11-25, Tasks)."""
    return bool(member(entry, "execution", "taskSupport") == "required")


def _callable(name: str) -> bool:
    """Whether `participant/name` is unambiguous and has no invisible characters."""
    return 0 < len(name) <= MAX_NAME and "/" not in name and name == visible(name) and name == name.strip()


def _canonical(entry: object) -> Steps[bytes | None]:
    try:
        return (yield from read_canonical(entry))
    except ProtocolError:
        return None


def _size(value: object) -> Steps[int]:
    written = yield from _canonical(value)
    return MAX_BYTES + 1 if written is None else len(written)
