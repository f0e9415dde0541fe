"""Keeps on disk the last whole lists of tools that a gate has read, for the first answer of the next gate of its token.

A client that starts its turn at once has the tools in its first list then, although their participants have not
answered yet. What the file says is read as a list of a peer, and is only a claim: a tool is called after its
participant has listed it anew. A file that cannot be read or written costs this memory and nothing else. It is
readable by its user alone, and no link on the way to it is followed below the user's folder.

Spec: §3.1, SDK "Tool Discovery and State Management", threat 27.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import compact, digest
from mew_lab.protocol.text import MAX_NAME
from mew_lab.protocol.token import Token
from mew_lab.sdk.discovery import ToolReader, ToolReading
from mew_lab.sdk.slices import in_slices
from mew_lab.transport.files import read_small, replace_small

__all__ = ["ListMemory"]

logger = logging.getLogger(__name__)
FOLDER = "lists"  # in the user's folder
MAX_FILE = 8 * 1024 * 1024  # bytes
MAX_PARTICIPANTS = 256

Entries = Sequence[Mapping[str, Any]]


class ListMemory:
    """The file of one token in one space.

    Args:
        state: gives the user's folder for state, each time; None where nothing may be kept.
        space: the name of the space.
        token: what the gate, or the clients of it, are known by.
        name: the participant that the gate asks to be; empty for that of the token.
    """

    def __init__(self, state: Callable[[], Path | None], *, space: str, token: Token, name: str = "") -> None:
        self._state = state
        self._name = f"{FOLDER}/{digest(['lists', space, token.reveal(), name])[:32]}.json"
        self._kept: dict[str, Entries] = {}  # those that were in the file, too: they may join later
        self._text = ""

    async def load(self) -> dict[str, ToolReading]:
        """The list of each participant, the last one that was whole; empty where nothing can be read."""
        self._kept, self._text = await asyncio.to_thread(self._read)
        readings = {}
        for name, entries in self._kept.items():
            reader = ToolReader(name)
            await in_slices(reader.take({"tools": entries}))
            readings[name] = reader.reading()
        return readings

    async def keep(self, lists: Mapping[str, Entries]) -> None:
        """Keeps the whole lists of these participants in place of their earlier ones."""
        self._take(lists)
        fitting = await asyncio.to_thread(self._write, tuple(self._kept.items()))
        self._forget_others(fitting)

    def keep_last(self, lists: Mapping[str, Entries]) -> None:
        """As `keep`, at once: at the end of a process no thread can be started."""
        self._take(lists)
        self._forget_others(self._write(tuple(self._kept.items())))

    def _take(self, lists: Mapping[str, Entries]) -> None:
        # The newest come last, and the oldest are left out first.
        earlier = {name: entries for name, entries in self._kept.items() if name not in lists}
        self._kept = earlier | dict(lists)

    def _forget_others(self, fitting: Set[str]) -> None:
        """Forgets those that the file has no room for: whoever joins under many names fills no memory."""
        self._kept = {name: entries for name, entries in self._kept.items() if name in fitting}

    def _read(self) -> tuple[dict[str, Entries], str]:
        folder = self._state()
        if folder is None or not folder.is_dir():
            return {}, ""
        try:
            text = read_small(folder, self._name, most=MAX_FILE).decode()
            found = json.loads(text)
        except FileNotFoundError:
            return {}, ""
        except (OSError, ValueError, RecursionError) as fault:
            logger.info("the lists of tools in %s are not used: %s", folder / self._name, _why(fault))
            return {}, ""
        return dict(_lists_in(found)), text

    def _write(self, lists: Sequence[tuple[str, Entries]]) -> Set[str]:
        """Writes the newest lists that the file has room for; returns their names."""
        parts: dict[str, str] = {}
        room = MAX_FILE - 2
        for name, entries in reversed(lists[-MAX_PARTICIPANTS:]):
            try:
                part = f"{compact(name)}:{compact(list(entries))}"
            except ProtocolError:
                continue
            if (size := len(part.encode()) + 1) <= room:
                room -= size
                parts[name] = part
        text = f"{{{','.join(reversed(parts.values()))}}}"
        folder = self._state()
        if folder is None or text == self._text:
            return parts.keys()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_small(folder, self._name, text.encode())
            self._text = text
        except OSError as fault:
            logger.info("the lists of tools are not kept in %s: %s", folder / self._name, _why(fault))
        return parts.keys()


def _lists_in(found: object) -> Iterator[tuple[str, Entries]]:
    for name, entries in found.items() if isinstance(found, dict) else ():
        if len(name) <= MAX_NAME and isinstance(entries, list):
            yield name, entries


def _why(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else "") or type(fault).__name__
