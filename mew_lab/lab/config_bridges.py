"""Starts the servers of a file of an MCP client as participants of a space, for a lab and for commands.

Everything but the questions to a person is async and runs on the loop.

Spec: threat 28.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from mew_lab.bridge.config_consents import PARALLEL, AdmittedServer, ConsentStore, Person, admit_servers
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.mcp_config import McpConfig, read_mcp_config
from mew_lab.bridge.server_requests import ASKING
from mew_lab.errors import ConfigError, MewError
from mew_lab.lab.call_check import listed
from mew_lab.lab.decisions.policies import is_at_prompt
from mew_lab.lab.decisions.questions import Questions
from mew_lab.lab.host import Host, capabilities_of
from mew_lab.lab.listing import Listing
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.pending import BEAT, Watch
from mew_lab.protocol.elicitation import ELICIT
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import for_terminal, one_line, visible
from mew_lab.settings.faults import did_you_mean
from mew_lab.tools_agent.home import participant_id

__all__ = [
    "CardPerson",
    "CardWatch",
    "ConfigBridges",
    "StartLines",
    "TypingPerson",
    "admit_file",
    "find_person",
    "list_bridged",
    "participant_ids",
]

RESTARTS = 3
SOON = 0.1  # seconds until a card is shown


class CardWatch(Watch, Protocol):
    """The watch over a wait for a card; `is_silent` is whether no message of its page has come for some seconds."""

    @property
    def is_silent(self) -> bool: ...


class TypingPerson:
    """The person at a terminal or a notebook, who types answers."""

    def show(self, text: str) -> None:
        """Prints some lines, with control characters made visible."""
        print(for_terminal(text), flush=True)

    def allow(self, path: Path, name: str, lines: Sequence[str]) -> bool | None:
        """Prints what would be started, and takes a typed yes."""
        head = f"{visible(str(path))} wants to start the MCP server {one_line(name, 120)!r}, in your name:"
        self.show("\n".join([head, *(f"  {line}" for line in lines)]))
        answer = self.ask("Type yes to allow it, for this file and as it is now: ")
        return None if answer is None else answer.strip().lower() == "yes"

    def ask(self, question: str, *, is_secret: bool = False) -> str | None:
        """The typed answer, without an echo where it is a secret; None where nobody can answer."""
        try:
            return (getpass.getpass if is_secret else input)(for_terminal(question))
        except (EOFError, OSError, RuntimeError):  # no input, or a front end that has none
            return None


class CardPerson(TypingPerson):
    """The person at a notebook: whether a server may be started is a card in the cell that waits; the rest is typed.

    Where no click is handled while a cell waits, and where the card's page stays silent, she types that too.

    Args:
        asked: The questions to this person.
        watch: Shows the question of that id in the cell that waits; None where it cannot be answered there.
    """

    def __init__(
        self, asked: Questions, *, loop: LoopThread, watch: Callable[[str], CardWatch | None]
    ) -> None:
        self._asked = asked
        self._loop = loop
        self._watch = watch
        self._has_page = True

    def allow(self, path: Path, name: str, lines: Sequence[str]) -> bool | None:
        """Shows a card and waits for its answer."""
        if not self._has_page or not self._asked.is_attended:
            return super().allow(path, name, lines)
        id = f"start-{secrets.token_hex(8)}"
        if (watch := self._watch(id)) is not None:
            coming = self._loop.submit(self._asked.ask_to_start(name, id=id, file=str(path), lines=lines))
            step = SOON
            try:
                while not watch.is_silent:
                    try:
                        return coming.result(step)
                    except FutureTimeout:
                        watch.tick()
                        step = BEAT
            finally:
                coming.cancel()
                watch.end()
        self._has_page = False  # the other servers of the file are asked about as text at once
        return super().allow(path, name, lines)


def find_person() -> Person | None:
    """The person who can type an answer here; None in a run without a terminal or a notebook."""
    return TypingPerson() if is_at_prompt(reads_lines=True) else None


class StartLines:
    """What servers that start tell: added on the loop, printed by the thread that waits when it calls this."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()

    def add(self, line: str) -> None:
        """Takes a line, from any thread."""
        self._lines.put(line)

    def __call__(self) -> None:
        while not self._lines.empty():
            print(for_terminal(self._lines.get()), flush=True)


def participant_ids(config: McpConfig) -> dict[str, str]:
    """The participant ids of the servers of a file, by their names there."""
    ids: dict[str, str] = {}
    for name in config.servers:
        ids[name] = participant_id(name, taken={id.lower() for id in ids.values()})
    return ids


def admit_file(
    file: str | Path,
    *,
    person: Person | None = None,
    trusted: Sequence[str] = (),
    only: Sequence[str] = (),
    skipped: Callable[[McpConfig], Mapping[str, str]] = lambda _: {},
    answers: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    writes: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> tuple[dict[str, AdmittedServer], dict[str, str]]:
    """The servers of a file that may be started, by their participant ids, and a sentence for each other one.

    The person at the terminal or the notebook is asked where she has not allowed an entry before.

    Args:
        person: who is asked; by default the one who can type an answer here.
        skipped: gives a sentence for each server that is not wanted, by its name.
        writes: by the names of servers, the tools that write a file, as `McpBridge` has them. The file says nothing of
            that: it comes from others.

    Raises:
        ConfigError: the file cannot be read, `writes` names a server that it does not have, or as `admit_servers`.
    """
    config = read_mcp_config(file)
    marked = writes or {}
    for name in marked:
        if name not in config.servers and name not in config.left_out:
            known = did_you_mean(name, config.servers) or f"there are {listed(list(config.servers))}"
            raise ConfigError(
                f"writes= names {one_line(name, 80)!r}, and {one_line(str(file), 200)} has no such server; {known}",
                key="writes",
            )
    ids = participant_ids(config)
    admitted, left_out = admit_servers(
        config,
        person=person or find_person(),
        store=ConsentStore.beside(config.folder),
        trusted=trusted,
        only=only,
        skipped=skipped(config),
        answers=answers,
        environ=environ,
    )
    return {
        ids[server.name]: server._replace(options={**server.options, "writes": marked[server.name]})
        if server.name in marked
        else server
        for server in admitted
    }, left_out


def list_bridged(tools: Mapping[str, tuple[str, int]], left_out: Mapping[str, str]) -> Listing:
    """The servers of a file: participant and number of tools of each that was bridged, the reason for each other one."""
    rows: list[tuple[object, ...]] = [
        (one_line(name, 80), id, count, "bridged") for name, (id, count) in tools.items()
    ]
    rows += [(one_line(name, 80), "", "", f"left out: {visible(why)}") for name, why in left_out.items()]
    return Listing(
        "servers",
        ("server", "participant", "tools", "state"),
        rows,
        empty="The file names no server.",
        note="\n".join(f"{one_line(name, 80)} is left out: {visible(why)}" for name, why in left_out.items()),
    )


class ConfigBridges:
    """The servers of a file in a space of this process, of a command that serves it.

    A server that does not start or that ends is told of, and the others go on.
    """

    def __init__(self, admitted: Mapping[str, AdmittedServer], *, say: Callable[[str], None]) -> None:
        self._admitted = admitted
        self._say = say
        self._starting: list[asyncio.Task[None]] = []
        self._few = asyncio.Semaphore(PARALLEL)
        self._bridges: list[McpBridge] = []

    def start(
        self, host: Host, *, owner: str, adopt: Callable[[McpBridge], object] = lambda bridge: None
    ) -> None:
        """Begins to start all servers at once. `owner` answers what they ask; `adopt` gets each that has started."""
        for id, server in self._admitted.items():
            self._starting.append(
                asyncio.get_running_loop().create_task(self._start(host, id, server, owner, adopt))
            )

    async def _start(
        self,
        host: Host,
        id: str,
        server: AdmittedServer,
        owner: str,
        adopt: Callable[[McpBridge], object],
    ) -> None:
        try:
            host.enrol_stranger(id, [*capabilities_of("tool"), *ASKING[ELICIT]])
            bridge = McpBridge(
                id,
                server.command,
                **server.options,
                owner=owner,
                restarts=RESTARTS,
                on_start=self._say,
                on_end=self._say,
            )
            self._bridges.append(bridge)
            async with self._few:
                await bridge.start(host.client_for(id))
        except MewError as fault:
            self._say(f"{one_line(server.name, 80)} is left out: {fault}")
        else:
            adopt(bridge)
            tools = count_of(len(bridge.listed.entries), "tool")
            self._say(f"{id}: an MCP server with {tools} ({bridge.command_line})")

    async def stop(self) -> None:
        """Ends all servers."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(bridge.stop() for bridge in self._bridges), return_exceptions=True)
