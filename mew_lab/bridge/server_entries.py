"""Reads the entry of one MCP server in a file: a program with its environment, or an address with its headers.

Agent files and the files of MCP clients have entries of this form. Each adds members of its own.

Spec: tools-agent.md "Tool Serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mew_lab.bridge.remote import RemoteServer
from mew_lab.errors import ConfigError
from mew_lab.settings.faults import place
from mew_lab.settings.members import MemberReader

__all__ = ["STARTED", "TRANSPORTS", "ServerEntry", "ServerReader"]

# of servers at a URL, by their type
TRANSPORTS: Mapping[str, str] = {"streamable-http": "http", "http": "http", "sse": "sse"}
STARTED = ("stdio", *TRANSPORTS)  # the types of servers that are started


@dataclass(frozen=True)
class ServerEntry:
    """One server as its file has it: a program, or the address of a server that runs elsewhere.

    `env`, `headers`, the arguments of `command` and the query of `url` may hold secrets.
    """

    name: str
    type: str
    command: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def can_start(self) -> bool:
        """Whether it is of a type that is started here."""
        return self.type in STARTED


class ServerReader(MemberReader):
    """Reads the entries of servers."""

    def server(self, name: str, entry: Mapping[str, Any], at: str) -> ServerEntry:
        """The server of an entry; unknown members are left alone.

        Args:
            at: the place of the entry.
        """
        command, url = self.text(entry, "command", at), self.text(entry, "url", at)
        kind = self.text(entry, "type", at) or ("streamable-http" if url and not command else "stdio")
        if kind == "stdio" and not command:
            self.fault(place(at, "command"), "it is missing: name the program that is the server")
        args = self.words(entry, "args", at)
        headers = self.texts(entry, "headers", at)
        if kind in TRANSPORTS:
            self._check_address(url, headers, at)
        return ServerEntry(
            name=name,
            type=kind,
            command=(command, *args) if command else (),
            env=self.texts(entry, "env", at),
            cwd=self.text(entry, "cwd", at) or None,
            url=url,
            headers=headers,
        )

    def _check_address(self, url: str, headers: Iterable[str], at: str) -> None:
        """Checks the address of a server, and the names of its headers. Variables are filled in when it is started."""
        if not url:
            self.fault(place(at, "url"), "it is missing: give the address of the server")
        elif "${" not in url:
            try:
                RemoteServer(url, headers=dict.fromkeys(headers, ""))
            except ConfigError as fault:
                self.fault(place(at, fault.key), str(fault))
