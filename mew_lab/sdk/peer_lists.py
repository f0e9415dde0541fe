"""Reads the resources, resource templates and prompts that the participants of a space offer, and keeps the lists.

A list is asked for when somebody wants it, of participants whose capabilities permit `mcp/response`. It is kept until
its participant announces a change or leaves, or it is `MAX_AGE` seconds old. A participant that does not answer in time,
or has no such list, offers nothing. One that answers later than its reader waits is a change.

Spec: §3.1; MCP "Resources", "Prompts".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import MewError, ProtocolError
from mew_lab.protocol.coerce import list_of, member
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.payloads.system import SystemPresence
from mew_lab.sdk.discovery import may_answer
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.list_pages import LISTED
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["METHODS", "PeerEntry", "PeerLists"]

METHODS = {method: member for method, member in LISTED.items() if method != "tools/list"}
MAX_AGE = 300.0  # seconds, as a peer need not tell that its list has changed
ANSWER_WITHIN = 5.0  # seconds
WAIT = 2.0  # seconds that a reader waits for those that have not answered
ASK_AGAIN = 10.0  # seconds after a failure
MAX_PAGES = 20  # bounds a list without an end
MAX_ENTRIES = 500  # of one list
MAX_BYTES = 500_000  # of one list
_CHANGED = re.compile(r"notifications/(resources|prompts)/list_changed")


class PeerEntry(NamedTuple):
    """An entry of a list of `participant`, as it came."""

    participant: str
    entry: Mapping[str, Any]


class PeerLists:
    """The lists of the other participants. `on_change` is called with `resources` or `prompts`."""

    def __init__(
        self, participant: MEWParticipant, *, on_change: Callable[[Any], None] = lambda listed: None
    ) -> None:
        self._participant = participant
        self._on_change = on_change
        self._kept: dict[tuple[str, str], tuple[float, list[PeerEntry]]] = {}
        self._asked: dict[tuple[str, str], asyncio.Task[list[PeerEntry]]] = {}
        self._running = RunningTasks()
        participant.dispatcher.on(McpRequest, self._note_request)
        participant.dispatcher.on(SystemPresence, self._note_presence)

    async def read(self, method: str) -> list[PeerEntry]:
        """The entries of one list of every participant, by the names of the participants."""
        present = self._participant.client.participants
        names = sorted(name for name, patterns in present.items() if may_answer(patterns))
        tasks = [self._ask(name, method) for name in names]
        if not tasks:
            return []
        answered, late = await asyncio.wait(tasks, timeout=WAIT)
        for task in late:
            task.add_done_callback(lambda done: self._note_late(done, method))
        return [entry for task in tasks if task in answered for entry in task.result()]

    async def close(self) -> None:
        """Ends the requests that wait for an answer."""
        await self._running.end()

    def _ask(self, participant: str, method: str) -> asyncio.Task[list[PeerEntry]]:
        """The one task that reads that list now, for all readers."""
        key = (participant, method)
        if (task := self._asked.get(key)) is None:
            task = self._asked[key] = self._running.start(self._read_of(*key))
            task.add_done_callback(lambda done: self._note_end(key, done))
        return task

    def _note_end(self, key: tuple[str, str], task: asyncio.Task[list[PeerEntry]]) -> None:
        if self._asked.get(key) is task:
            del self._asked[key]

    def _note_late(self, done: asyncio.Task[list[PeerEntry]], method: str) -> None:
        if not done.cancelled() and done.exception() is None and done.result():
            self._on_change("prompts" if method == "prompts/list" else "resources")

    def kept(self, method: str) -> list[PeerEntry]:
        """The entries of that list that were read last, without asking anybody."""
        return [entry for key in sorted(self._kept) if key[1] == method for entry in self._kept[key][1]]

    async def _read_of(self, participant: str, method: str) -> list[PeerEntry]:
        now = asyncio.get_running_loop().time()
        kept = self._kept.get((participant, method))
        if kept is not None and now - kept[0] < MAX_AGE:
            return kept[1]
        if not self._participant.can_send("mcp/request", {"method": method}, participant):
            return []
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                entries = await self._pages(participant, method)
        except (MewError, TimeoutError):
            entries, now = [], now - MAX_AGE + ASK_AGAIN
        if self._asked.get((participant, method)) is asyncio.current_task():  # else it has changed meanwhile
            self._kept[participant, method] = (now, entries)
        return entries

    async def _pages(self, participant: str, method: str) -> list[PeerEntry]:
        entries: list[PeerEntry] = []
        params: dict[str, Any] = {}
        room = MAX_BYTES
        for _ in range(MAX_PAGES):
            payload = {"method": method, **({"params": params} if params else {})}
            answer = await self._participant.mcp_request(participant, payload, timeout=ANSWER_WITHIN)
            cursor = member(answer, "nextCursor")
            for entry in list_of(member(answer, METHODS[method])):
                room -= _size(entry)
                if room < 0 or len(entries) >= MAX_ENTRIES:
                    return entries
                if isinstance(entry, dict):
                    entries.append(PeerEntry(participant, entry))
            if not isinstance(cursor, str):
                break
            params = {"cursor": cursor}
        return entries

    # --- events ---

    def _note_request(self, envelope: Envelope, payload: McpRequest) -> None:
        changed = _CHANGED.fullmatch(payload.method or "")
        if changed:
            self._forget(envelope.sender, changed[1])
            self._on_change(changed[1])

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        if payload.event in ("join", "leave") and payload.participant is not None:
            for listed in ("resources", "prompts"):
                self._forget(payload.participant.id, listed)
                self._on_change(listed)

    def _forget(self, participant: str, listed: str) -> None:
        for method in METHODS:
            if method.startswith(listed):
                self._kept.pop((participant, method), None)
                self._asked.pop((participant, method), None)


def _size(entry: Any) -> int:
    try:
        return len(compact(entry))
    except ProtocolError:
        return MAX_BYTES + 1
