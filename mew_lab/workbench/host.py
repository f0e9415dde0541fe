"""What does a space of our own need to run?  Gateway, server, journal, tokens and programs, opened and closed as one.

Runs on the loop; it knows no human, no view and no sync code.

Spec: §3.6, §5.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway.auth import write_token_file
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.keyring import Key, issue
from mew_lab.gateway.local import attach
from mew_lab.gateway.processes import Processes
from mew_lab.gateway.programs import programs_of
from mew_lab.gateway.server import Server
from mew_lab.gateway.sinks import AppendedFile, Sinks
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.log.journal import Journal
from mew_lab.log.peer_files import DECISIONS, HISTORY, PeerFiles
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.space.core import Space
from mew_lab.space.events import Record
from mew_lab.transport.link import Link
from mew_lab.workbench.heads import HeadKeeper
from mew_lab.workbench.resuming import SERVED, Past
from mew_lab.workbench.seed import source

__all__ = ["Host", "capabilities_of"]

logger = logging.getLogger(__name__)

# How a bridge is started: by this interpreter, with this very package, and with nothing from its folder.
BRIDGE = (sys.executable, "-P", "-m", "mew_lab.cli", "bridge")
BRIDGE_ENV = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}


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
        past: Past | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        given = source(f"gateway of {name}")
        epoch = given.new_epoch()
        self.gateway = Gateway(clock=given.clock, new_epoch=lambda: epoch, observe=observe)
        self.gateway.tokens.on_mint = self._keep
        self.journal = Journal(journal) if journal is not None else None
        self._past = past
        self.core: Space | None = past.space if past is not None else None
        """The space itself, to be read only; None before it is open."""
        if past is not None:
            self.journal = past.journal
        self.url = ""
        self.keys: dict[str, Key] = {}
        """The own token of each participant that a space.yaml names, or that is left from before."""
        self.minted: dict[str, Key] = {}
        """Those that were minted since, for seats and for the invited."""
        self._heads: HeadKeeper | None = None
        self._at = (host, port)
        self._server: Server | None = None
        self._processes: Processes | None = None

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
        await self._open(config)

    async def open_file(
        self, file: SpaceFile, *, person: str | None = None, fault: Callable[[str], object] = logger.warning
    ) -> None:
        """Opens the space that a space.yaml describes, and the port; or leaves nothing behind. Starts no program.

        Args:
            person: who runs it, enrolled as a human where the file does not name it; the owner where the file
                names none.
            fault: is given a sentence when an `output_log` or a log in the peers' format cannot be written.

        Raises:
            ConfigError: when a token, the person's id or the port cannot be.
            JournalError: when the journal cannot be written.
        """
        config = file.config
        if person is not None:
            owned: dict[str, Any] = {"owner": config.owner or person}
            if person not in config.participants:
                human = ParticipantConfig(capabilities=capabilities_of("human"))
                owned["participants"] = {**config.participants, person: human}
            try:
                config = SpaceConfig.model_validate({**dict(config), **owned})
            except ValueError as wrong:
                raise ConfigError(f"cannot open the space {self.name!r}: {_first_fault(wrong)}") from None
        self.keys = issue(file._replace(config=config), self.gateway.tokens)
        self._log_as_peers(file, fault)
        sinks = Sinks(self.gateway, file, fault=fault)
        await self._open(config, sinks.open)

    def _log_as_peers(self, file: SpaceFile, fault: Callable[[str], object]) -> None:
        """Has the log files of the peers written beside our journal, as far as the file wants them."""
        logs = file.config.logs
        if logs is not None:
            history, decisions = (
                AppendedFile(file.logs.parent, f"logs/{name}", fault=fault).append if wanted else None
                for name, wanted in ((HISTORY, logs.envelope_history), (DECISIONS, logs.capability_decisions))
            )
            self.gateway.observe_turn = PeerFiles(history=history, decisions=decisions).observe

    async def resume(self, *, person: str) -> None:
        """Goes on with the space that ran before, on its port where that is free; or leaves nothing behind.

        Args:
            person: who runs it, enrolled as a human where the space does not know it.

        Raises:
            ConfigError: when the person's id or the port cannot be.
            JournalError: when the journal cannot be written.
        """
        past = self._past
        assert past is not None
        try:
            self.gateway.resume_space(
                past.space,
                since=past.since,
                connections=past.connections,
                journal=self.journal,
                used=past.used,
            )
            self._keep_heads()
            self.keys = past.keys()
            for name, key in self.keys.items():
                self.gateway.tokens.add(self.name, name, key.token)
            if person not in past.space.state.members:
                self.enrol(person, "human")
            config, (host, port) = SpaceConfig(name=self.name, owner=past.owner or None), self._at
            if port == 0 and past.port:
                with contextlib.suppress(ConfigError):  # somebody else has it by now
                    return await self._serve(config, host, past.port)
            if port is not None:
                await self._serve(config, host, port)
        except BaseException:
            await self.close()
            raise

    async def _open(self, config: SpaceConfig, first: Callable[[], None] = lambda: None) -> None:
        """Opens space and port; `first` is called when the space is there, before anybody can come."""
        try:
            try:
                self.core = self.gateway.add_space(config, journal=self.journal)
            except ValueError as wrong:  # two participants of one name
                raise ConfigError(f"cannot open the space {self.name!r}: {wrong}") from None
            first()
            self._keep_heads()
            host, port = self._at
            if port is not None:
                await self._serve(config, host, port)
        except BaseException:
            await self.close()
            raise

    def _keep_heads(self) -> None:
        """Has the head of the journal's chain kept beside the tokens while the space runs."""
        if self.journal is not None:
            self._heads = HeadKeeper(self.journal, self.folder, fault=logger.warning)
            self._heads.start()

    async def _serve(self, config: SpaceConfig, host: str, port: int) -> None:
        server = Server(
            self.gateway,
            host=host,
            port=port,
            allowed_hosts=config.hosts,
            allowed_origins=config.origins,
            limits=config.limits.of_server,
        )
        try:
            found = await server.start()
        except NotImplementedError:  # a platform without sockets: the space still runs in memory
            return
        self._server = server
        self.url = f"ws://{host}:{found}/ws"
        self.gateway.note(
            self.name, SERVED, participant=config.owner or "", detail=compact({"host": host, "port": found})
        )

    async def start_programs(
        self, file: SpaceFile, *, tell: Callable[[str], object], fault: Callable[[str], object]
    ) -> None:
        """Starts what the file wants to be run beside the space; each is ended with it.

        Args:
            tell: is given the exact command of each before it is started.
            fault: is given a sentence when one cannot be started, or ends.

        Raises:
            ConfigError: on a system where programs cannot be ended for certain.
        """
        if self._server is None:
            if any(one.starts for one in file.config.participants.values()):
                fault("no program is started: this space is in memory alone, where none could reach it")
            return
        programs = programs_of(
            file, self.keys, url=self.url, port=self._server.port, bridge=BRIDGE, bridge_env=BRIDGE_ENV
        )

        def noted(say: Callable[[str], object]) -> Callable[[str, str], object]:
            def both(participant: str, sentence: str) -> None:
                self.gateway.note(self.name, "program", participant=participant, detail=sentence)
                say(f"{participant}: {sentence}")

            return both

        self._processes = Processes(programs, tell=noted(tell), fault=noted(fault))
        await self._processes.start()

    def enrol(self, participant: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Lets a participant join.

        Raises:
            ConfigError: when the name or a capability cannot be.
        """
        capabilities = capabilities_of(can)
        if self._past is not None and self._past.enrolled(participant, capabilities):
            return
        try:
            self.gateway.enrol(self.name, participant, capabilities)
        except ValueError as fault:
            raise ConfigError(f"cannot enrol {participant[:80]!r} in {self.name!r}: {fault}") from None

    def token_file(self, participant: str) -> Path:
        """A file with a token of the participant that only the owner of this process can read; made where none is.

        Raises:
            ConfigError: when it cannot be written.
        """
        for keys in (self.keys, self.minted):
            key = keys.get(participant)
            if key is not None and key.file is not None and self._opens(participant, key):
                return key.file
        token = self.gateway.tokens.mint(self.name, participant)
        if participant not in self.minted or self.minted[participant].token is not token:
            self._write(participant, token)
        file = self.minted[participant].file
        assert file is not None
        return file

    def _opens(self, participant: str, key: Key) -> bool:
        return self.gateway.tokens.whose(self.name, key.token.reveal()) == participant

    def _keep(self, space: str, participant: str, token: Token) -> None:
        """Writes a token that was minted, for us or for who was invited, so that it outlives this process."""
        try:
            self._write(participant, token)
        except ConfigError as fault:
            logger.warning("%s: %s", space, fault)

    def _write(self, participant: str, token: Token) -> None:
        file = write_token_file(self.folder / ".mew" / "tokens", self.name, participant, token)
        self.minted[participant] = Key(token, file)

    def client_for(self, participant: str) -> MEWClient:
        """A client of this process that speaks as that participant, not connected yet."""
        given = source(participant)

        async def connect() -> Link:
            return attach(self.gateway, self.name, participant)

        return MEWClient(space=self.name, connect_link=connect, clock=given.clock, new_id=given.new_id)

    async def close(self) -> None:
        """Ends programs, port, connections and journal. Closing twice is harmless."""
        if self._processes is not None:
            processes, self._processes = self._processes, None
            await processes.stop()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()
        self.gateway.close()
        if self._heads is not None:
            heads, self._heads = self._heads, None
            heads.stop()
        if self.journal is not None:
            with contextlib.suppress(MewError):
                self.journal.close()


def _first_fault(fault: ValueError) -> str:
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(fault, "errors", None)
    if errors is None:
        return str(fault)
    first = errors()[0]
    return str(first.get("msg", fault)).removeprefix("Value error, ")
