"""What does a space of our own need to run?  Gateway, server, journal, tokens and bridges, opened and closed as one.

Runs on the loop; it knows no human, no view and no sync code.

Spec: §3.6, §5.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.auth import write_token_file
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.local import attach
from mew_lab.gateway.server import Server
from mew_lab.log.journal import Journal
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.space.events import Record
from mew_lab.transport.link import Link
from mew_lab.workbench.seed import source

__all__ = ["Host", "capabilities_of"]


def capabilities_of(can: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The patterns that `can` means: a list of them as it is, or the name of a profile.

    Raises:
        ConfigError: when there is no such profile.
    """
    if isinstance(can, str):
        if can not in PROFILES:
            raise ConfigError(
                f"there is no profile {can[:40]!r}; take one of {', '.join(PROFILES)}, or give a list of patterns",
                key="can",
            )
        return [dict(one) for one in PROFILES[can]]
    return [dict(one) for one in can]


class Host:
    """One space that runs here. `url` is where others reach it, empty when it is not served.

    Raises:
        JournalError: when the journal cannot be made.
    """

    def __init__(
        self,
        name: str,
        *,
        folder: Path,
        journal: Path | None,
        host: str = "127.0.0.1",
        port: int | None = 0,
        observe: Callable[[Record], None] | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        given = source(f"gateway of {name}")
        epoch = given.new_epoch()
        self.gateway = Gateway(clock=given.clock, new_epoch=lambda: epoch, observe=observe)
        self.journal = Journal(journal) if journal is not None else None
        self.url = ""
        self._at = (host, port)
        self._server: Server | None = None

    async def open(self, *, owner: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Opens the space with its owner, and the port; or leaves nothing behind.

        Raises:
            ConfigError: when the name, the profile or the port is not to be had.
            JournalError: when the journal cannot be written.
        """
        try:
            config = SpaceConfig.model_validate(
                {
                    "name": self.name,
                    "owner": owner,
                    "participants": {owner: {"capabilities": capabilities_of(can)}},
                }
            )
        except ValueError as fault:
            raise ConfigError(f"cannot open the space {self.name!r}: {_first_fault(fault)}") from None
        try:
            self.gateway.add_space(config, journal=self.journal)
            host, port = self._at
            if port is not None:
                await self._serve(host, port)
        except BaseException:
            await self.close()
            raise

    async def _serve(self, host: str, port: int) -> None:
        server = Server(self.gateway, host=host, port=port)
        try:
            found = await server.start()
        except NotImplementedError:  # a platform without sockets: the space still runs in memory
            return
        self._server = server
        self.url = f"ws://{host}:{found}/ws"

    def enrol(self, participant: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Lets a participant join.

        Raises:
            ConfigError: when the name or a capability cannot be.
        """
        try:
            self.gateway.enrol(self.name, participant, capabilities_of(can))
        except ValueError as fault:
            raise ConfigError(f"cannot enrol {participant[:80]!r} in {self.name!r}: {fault}") from None

    def token_file(self, participant: str) -> Path:
        """Mints a token for the participant and writes it where only the owner of this process can read it."""
        token: Token = self.gateway.tokens.mint(self.name, participant)
        return write_token_file(self.folder / ".mew" / "tokens", self.name, participant, token)

    def client_for(self, participant: str) -> MEWClient:
        """A client of this process that speaks as that participant, not connected yet."""
        given = source(participant)

        async def connect() -> Link:
            return attach(self.gateway, self.name, participant)

        return MEWClient(space=self.name, connect_link=connect, clock=given.clock, new_id=given.new_id)

    async def close(self) -> None:
        """Closes port, connections and journal. Closing twice is harmless."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()
        self.gateway.close()
        if self.journal is not None:
            with contextlib.suppress(MewError):
                self.journal.close()


def _first_fault(fault: ValueError) -> str:
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(fault, "errors", None)
    if errors is None:
        return str(fault)
    first = errors()[0]
    return str(first.get("msg", fault)).removeprefix("Value error, ")
