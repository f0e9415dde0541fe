"""A space that runs in this process: gateway, server, journal, tokens and programs, opened and closed as one.

With MEW_LAB_SEED set, clocks and ids are derived from the seed, so that a lesson's output is the same each time. Runs
on the loop.

Spec: §3.6, §5.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shlex
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mew_lab.bridge.written_files import StartedServer
from mew_lab.errors import ConfigError, MewError
from mew_lab.gateway import keyring
from mew_lab.gateway.auth import write_token_file
from mew_lab.gateway.config import ParticipantConfig, SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.keyring import Key, issue
from mew_lab.gateway.local import attach
from mew_lab.gateway.processes import Processes
from mew_lab.gateway.programs import programs_of
from mew_lab.gateway.server import Server
from mew_lab.gateway.sinks import Sinks
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.lab.call_check import hint
from mew_lab.lab.heads import HeadKeeper
from mew_lab.lab.peer_logs import PeerLogs
from mew_lab.lab.resuming import SERVED, SETTINGS, Past
from mew_lab.log.child_process import PACKAGE
from mew_lab.log.journal import Journal
from mew_lab.log.peer_files import DECISIONS, HISTORY
from mew_lab.protocol.describe import reword_refusal
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.profiles import OWNER, PROFILES, refer_to_patterns
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.quorum import Quorum
from mew_lab.space.core import Space
from mew_lab.space.events import Record
from mew_lab.transport.link import Link

__all__ = ["Generators", "Host", "capabilities_of", "join_line", "make_generators"]


VARIABLE = "MEW_LAB_SEED"
START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
# a clock beyond them is wrong
OLDEST, NEWEST = datetime(2025, 1, 1, tzinfo=UTC), datetime(2075, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)  # a record may be that much later than the clock, which may have been set back


class Generators(NamedTuple):
    """The clock and the id generators of one owner."""

    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    new_epoch: Callable[[], int]


def make_generators(owner: str) -> Generators:
    """The clock and the id generators of a gateway or of one participant."""
    seed = os.environ.get(VARIABLE, "")
    if not seed:
        return Generators(lambda: datetime.now(UTC), lambda: str(uuid.uuid4()), lambda: secrets.randbits(64))
    root = sha256(f"{seed}/{owner}".encode()).digest()
    looks, made = count(), count(1)
    space = uuid.UUID(bytes=root[:16])
    return Generators(
        lambda: START + timedelta(milliseconds=next(looks)),
        lambda: str(uuid.uuid5(space, str(next(made)))),
        lambda: int.from_bytes(root[16:24]),
    )


logger = logging.getLogger(__name__)

# A bridge is started by this interpreter, with this package, and without modules from its folder.
BRIDGE = (sys.executable, "-P", "-m", "mew_lab.cli", "bridge")
BRIDGE_ENV = {"PYTHONPATH": str(PACKAGE)}


def capabilities_of(can: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The patterns for `can`: the list itself, or the patterns of the profile of that name.

    Raises:
        ConfigError: There is no such profile.
    """
    if isinstance(can, str):
        if can not in PROFILES:
            raise ConfigError(
                f"There is no profile {can[:40]!r}{hint(can, PROFILES)}; take one of {', '.join(PROFILES)}, "
                'or give a list of patterns, such as [{"kind": "chat"}]',
                key="can",
            )
        return [dict(pattern) for pattern in PROFILES[can]]
    takes = f"can= takes a profile ({', '.join(PROFILES)}) or a list of patterns"
    if isinstance(can, Mapping) or not isinstance(can, Iterable):
        nearest = (
            f"; did you mean [{json.dumps(can, default=str)[:200]}]?" if isinstance(can, Mapping) else ""
        )
        raise ConfigError(f"{takes}, not {type(can).__name__}{nearest}", key="can")
    patterns = list(can)
    for pattern in patterns:
        if isinstance(pattern, str):
            meant = [{"kind": text} if isinstance(text, str) else text for text in patterns]
            raise ConfigError(
                f"{takes}; {pattern[:80]!r} is no pattern (did you mean {json.dumps(meant, default=str)[:200]}?)",
                key="can",
            )
        if not isinstance(pattern, Mapping):
            raise ConfigError(
                f'{takes} such as {{"kind": "chat"}}, not of {type(pattern).__name__}', key="can"
            )
    return [dict(pattern) for pattern in patterns]


def capabilities_of_owner(can: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The patterns for the owner of a space: as `can` says; the profile `human` also invites and removes participants.

    Raises:
        ConfigError: There is no such profile.
    """
    more = OWNER if can == "human" else []
    return [*capabilities_of(can), *(dict(pattern) for pattern in more)]


def join_line(url: str, **options: str) -> str:
    """The shell line with which another process joins a space; names are quoted."""
    words = ["mew-lab", "join", url]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        words += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
    return shlex.join(words)


class Host:
    """One space that runs here. `url` is its address, empty when it is not served.

    Args:
        beside: Another host, not open yet. The space then runs in that host's gateway and on its port, and opens and
            closes with it. Journal, tokens and programs are still its own.
        logs: A folder below the file's log folder, for the logs of the programs and those in the peers' format.

    Raises:
        JournalError: The journal cannot be created.
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
        beside: Host | None = None,
        logs: str = "",
    ) -> None:
        self.name = name
        self.folder = folder
        generators = make_generators(f"gateway of {name}")
        self._clock = generators.clock
        self._epoch = generators.new_epoch()
        self._epochs: list[int] = [] if beside is None else beside._epochs  # for the next space to be added
        self.gateway: Gateway = (
            Gateway(clock=generators.clock, new_epoch=self._epochs.pop, observe=observe)
            if beside is None
            else beside.gateway
        )
        if beside is not None:
            beside._others.append(self)
            port = None
        self._first = beside is None
        self._others: list[Host] = []
        self._logs = logs
        mint = self.gateway.tokens.on_mint

        def keep_token(space: str, participant: str, token: Token) -> None:
            if space == name:
                self._keep(space, participant, token)
            elif mint is not None:
                mint(space, participant, token)

        self.gateway.tokens.on_mint = keep_token
        self.journal = Journal(journal) if journal is not None else None
        self._past = past
        self.since = past.since if past is not None else None
        """The time of the last record of before, where the space ran before."""
        self.core: Space | None = past.space if past is not None else None
        """The space itself, to be read only; None before it is open."""
        if past is not None:
            self.journal = past.journal
        self.url = ""
        self.run = ""
        """Identifies this run: the gateway answers it to anybody; empty where the space is not served."""
        self.keys: dict[str, Key] = {}
        """The token of each participant from a space.yaml, or from an earlier run."""
        self.minted: dict[str, Key] = {}
        """The tokens minted since, for seats and for invited participants."""
        self.servers: dict[str, StartedServer] = {}
        """The MCP servers that the programs of a space.yaml have started, by participant."""
        self.quorums: dict[str, Quorum] = {}
        """The quorums that these programs enforce."""
        self._heads: HeadKeeper | None = None
        self._at = (host, port)
        self._server: Server | None = None
        self._port = 0
        self._config: SpaceConfig | None = None
        self._processes: Processes | None = None
        self._sinks: Sinks | None = None
        self._logs_as_peers: PeerLogs | None = None

    def remarks(self) -> list[str]:
        """Sentences about the tokens and the clock of an open space that may not be as its host means."""
        now = self._clock()
        past = self._past
        told = [*keyring.remarks(self.keys)]
        if os.environ.get(VARIABLE):
            return told
        if not OLDEST <= now <= NEWEST:
            told.append(
                f"the clock of this machine says {now:%Y-%m-%d}, which is hardly right: records get that time, and "
                "permissions end by it. Set the clock, then begin a new journal: a space never goes back in time"
            )
        if past is not None and past.since > now + AHEAD:
            told.append(
                f"the last record of {past.path} is of {past.since:%Y-%m-%d %H:%M}, which this machine's clock has not "
                "reached. Until then the space stays at that time, and no permission ends by time. Begin a new journal, "
                "or go on from a moment before: mew_lab.up(resume=mew_lab.open_log(…).at(…))"
            )
        return told

    async def open(self, *, owner: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Opens the space with its owner, and the port; on an error it cleans up.

        An owner with the profile `human` may also invite and remove participants.

        Raises:
            ConfigError: The name or the profile is not valid, or the port is not free.
            JournalError: The journal cannot be written.
        """
        participants = {owner: {"capabilities": capabilities_of_owner(can)}}
        await self._open(self._read_config(owner=owner, participants=participants))

    def _read_config(self, **members: Any) -> SpaceConfig:
        try:
            return SpaceConfig.model_validate({"name": self.name, **members})
        except ValueError as fault:
            raise ConfigError(f"Cannot open the space {self.name!r}: {_first_fault(fault)}") from None

    async def open_file(
        self, file: SpaceFile, *, person: str | None = None, fault: Callable[[str], object] = logger.warning
    ) -> None:
        """Opens the space of a space.yaml, and the port; on an error it cleans up. Starts no program.

        Args:
            person: The participant that runs the space. It is enrolled as a human where the file does not name it, and
                is the owner where the file names none.
            fault: Receives a sentence when an `output_log` or a log in the peers' format cannot be written.

        Raises:
            ConfigError: A token or the person's id is not valid, or the port is not free.
            JournalError: The journal cannot be written.
        """
        config = file.config
        if person is not None:
            owned: dict[str, Any] = {"owner": config.owner or person}
            if person not in config.participants:
                owns = config.owner in (None, person)
                capabilities = (capabilities_of_owner if owns else capabilities_of)("human")
                human = ParticipantConfig(capabilities=capabilities)
                owned["participants"] = {**config.participants, person: human}
            config = self._read_config(**{**dict(config), **owned})
        logs = self._peer_logs(file, fault)
        self.keys = issue(file._replace(config=config), self.gateway.tokens)
        self._sinks = Sinks(self.gateway, file, fault=fault)
        if logs is not None:
            self._logs_as_peers = logs
            logs.register()
            for key in self.keys.values():
                logs.hide(key.token)
        await self._open(config, self._sinks.open)
        if logs is not None and self.journal is not None:
            self.journal.on_append = logs.wake
            await logs.start()

    def _peer_logs(self, file: SpaceFile, fault: Callable[[str], object]) -> PeerLogs | None:
        """The writer of the log files in the peers' format; None where the file or a missing journal excludes them.

        Raises:
            ConfigError: The file explicitly asks for them, and there is no journal as their source.
        """
        logs = file.config.logs
        if logs is None or not logs.any:
            return None
        if self.journal is None:
            reason = "the log files in the peers' format are made from the journal, and this space keeps none"
            if logs.asked:
                raise ConfigError(
                    f"{reason}; give it a journal, or set gateway_logging.enabled to false",
                    path=str(file.path),
                    key="gateway_logging",
                )
            fault(f"{HISTORY} and {DECISIONS} are not written: {reason}")
            return None
        return PeerLogs(
            self.journal.path,
            root=file.logs.parent,
            folder=str(PurePosixPath("logs", self._logs)),
            history=logs.envelope_history,
            decisions=logs.capability_decisions,
            secrets=[
                token for participant in file.config.participants.values() for token in participant.tokens
            ],
            fault=fault,
        )

    async def resume(self, *, person: str) -> None:
        """Resumes a space that ran before, on its port where that is free; on an error it cleans up.

        Args:
            person: The participant that runs the space, enrolled as a human where the space does not know it.

        Raises:
            ConfigError: The person's id is not valid, or the port is not free.
            JournalError: The journal cannot be written.
        """
        past = self._past
        assert past is not None
        try:
            config = past.config()
            self.gateway.resume_space(
                past.space,
                since=past.since,
                connections=past.connections,
                journal=self.journal,
                used=past.used,
                resolutions=past.resolutions,
                queue_bytes=config.queue_bytes,
                limits=config.limits.of_journal,
            )
            self._keep_heads()
            self.keys = past.keys()
            for name, key in self.keys.items():
                self.gateway.tokens.add(self.name, name, key.token)
            if person not in past.space.state.members:
                self.enrol(person, "human")
            host, port = self._at
            if port == 0 and past.port:
                with contextlib.suppress(ConfigError):  # another process uses the port now
                    return await self._serve(config, host, past.port)
            if port is not None:
                await self._serve(config, host, port)
        except BaseException:
            await self.close()
            raise

    async def _open(self, config: SpaceConfig, first: Callable[[], None] = lambda: None) -> None:
        """Opens space and port; calls `first` between the two, before any participant can join."""
        try:
            try:
                self._epochs.append(self._epoch)
                self.core = self.gateway.add_space(config, journal=self.journal)
            except ValueError as wrong:  # two participants of one name
                raise ConfigError(f"Cannot open the space {self.name!r}: {wrong}") from None
            self._config = config
            first()
            self._keep_heads()
            host, port = self._at
            if port is not None:
                await self._serve(config, host, port)
        except BaseException:
            await self.close()
            raise

    def _keep_heads(self) -> None:
        """Writes the heads of the journal's chain beside the tokens while the space runs."""
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
            bound_port = await server.start()
        except NotImplementedError:  # a platform without sockets: the space still runs in memory
            return
        self._server = server
        for space_host in (self, *self._others):
            space_host.url = self.gateway.connection_url
            space_host.run = server.run
            space_host._port = bound_port
            own = space_host._config or config
            detail: dict[str, Any] = {"host": host, "port": bound_port}
            if settings := own.model_dump(include=SETTINGS, exclude_defaults=True):
                detail["settings"] = settings
            self.gateway.note(space_host.name, SERVED, participant=own.owner or "", detail=compact(detail))

    async def start_programs(
        self, file: SpaceFile, *, tell: Callable[[str], object], fault: Callable[[str], object]
    ) -> None:
        """Starts the programs of the file; each ends with the space.

        Args:
            tell: Receives the exact command of each before it is started.
            fault: Receives a sentence when one cannot be started, or ends.

        Raises:
            ConfigError: This system has no reliable way to end the programs.
        """
        if not self._port:
            if any(participant.starts for participant in file.config.participants.values()):
                fault("no program is started: this space is in memory only, where no program can reach it")
            return
        programs = programs_of(
            file,
            self.keys,
            url=self.url,
            port=self._port,
            bridge=BRIDGE,
            bridge_env=BRIDGE_ENV,
            logs=self._logs,
        )

        def with_note(say: Callable[[str], object]) -> Callable[[str, str], object]:
            def both(participant: str, sentence: str) -> None:
                self.gateway.note(self.name, "program", participant=participant, detail=sentence)
                say(f"{participant}: {sentence}")

            return both

        for program in programs:
            participant = file.config.participants[program.participant]
            if participant.type == "mcp-bridge":
                self._note_bridge(program.participant, participant, program.cwd)
        self._processes = Processes(programs, tell=with_note(tell), fault=with_note(fault))
        await self._processes.start()

    def _note_bridge(self, name: str, participant: ParticipantConfig, cwd: Path) -> None:
        settings, server = participant.bridge_config, participant.mcp_server
        if (quorum := Quorum.of(settings.quorum, settings.deciders)) is not None:
            self.quorums[name] = quorum
        if server is not None and server.command:
            self.servers[name] = StartedServer.of(name, cwd=cwd, words=server.args, writes=settings.writes)

    def enrol(self, participant: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Enrols a participant with its capabilities, so that it can join.

        Raises:
            ConfigError: The name or a capability is not valid.
        """
        capabilities = capabilities_of(can)
        if self._past is not None and self._past.is_enrolled(participant, capabilities):
            return
        try:
            self.gateway.enrol(self.name, participant, capabilities)
        except ConfigError as fault:  # a pattern
            why = refer_to_patterns(reword_refusal(str(fault)))
            raise ConfigError(
                f"Cannot enrol {participant[:80]!r}: can{fault.key}: {why}", key=fault.key
            ) from None
        except ValueError as fault:
            why = reword_refusal(str(fault))
            raise ConfigError(f"Cannot enrol {participant[:80]!r} in {self.name!r}: {why}") from None

    def enrol_stranger(self, participant: str, can: str | Sequence[Mapping[str, Any]]) -> None:
        """Enrols a participant whose name a file of others has chosen: never in the place of another participant.

        One that is not connected and has the same permissions, such as from an earlier run, is that one again.

        Raises:
            ConfigError: There is another participant of that name; or as `enrol`.
        """
        capabilities = capabilities_of(can)
        for member in self.gateway.participants(self.name):
            same = member["capabilities"] == capabilities and not member["connected"]
            if member["id"].lower() == participant.lower() and not same:
                raise ConfigError(
                    f"{participant!r} is another participant of {self.name!r} already; name the server otherwise in "
                    "its file",
                    key=participant,
                )
        self.enrol(participant, capabilities)

    def token_file(self, participant: str) -> Path:
        """The file with a token of the participant, readable by this process's user alone; written where there is none.

        Raises:
            ConfigError: It cannot be written.
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
        return self.gateway.tokens.participant_of(self.name, key.token.reveal()) == participant

    def _keep(self, space: str, participant: str, token: Token) -> None:
        """Writes a minted token, of a seat or of an invited participant, to a file that outlives this process."""
        if self._logs_as_peers is not None:
            self._logs_as_peers.hide(token)
        try:
            self._write(participant, token)
        except ConfigError as fault:
            logger.warning("%s: %s", space, fault)

    def _write(self, participant: str, token: Token) -> None:
        file = write_token_file(self.folder / ".mew" / "tokens", self.name, participant, token)
        self.minted[participant] = Key(token, file)

    def client_for(self, participant: str) -> MEWClient:
        """A client of this process that speaks as that participant, not connected yet."""
        generators = make_generators(participant)

        async def connect() -> Link:
            return attach(self.gateway, self.name, participant)

        def find_note(request: str, to: Sequence[str]) -> Mapping[str, Any] | None:
            found = self.gateway.find_resolution(self.name, participant, request, to)
            return None if found is None else found._asdict()

        return MEWClient(
            space=self.name,
            connect_link=connect,
            post_note=lambda note: self.gateway.report(self.name, participant, note, via="memory").status,
            find_note=find_note,
            clock=generators.clock,
            new_id=generators.new_id,
        )

    async def close(self) -> None:
        """Closes programs, port, connections and journal, also those of the hosts beside it. Idempotent.

        A host beside another one closes its programs alone: its space closes with the other host's port.
        """
        for space_host in (self, *self._others):
            if space_host._processes is not None:
                processes, space_host._processes = space_host._processes, None
                await processes.stop()
        if not self._first:
            return
        # The programs went first, so that they are ended and do not see a gateway that is gone. Then the port, so that
        # nobody joins a space that closes; the last head, of the whole journal; the journal; and at last the writer of
        # the peers' logs, which ends when it has read the closed journal.
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()
        self.gateway.close()
        for space_host in (self, *self._others):
            if space_host._sinks is not None:
                space_host._sinks.close()
            if space_host._heads is not None:
                heads, space_host._heads = space_host._heads, None
                heads.stop()
            if space_host.journal is not None:
                with contextlib.suppress(MewError):
                    space_host.journal.close()
        for space_host in (self, *self._others):
            if space_host._logs_as_peers is not None:
                await space_host._logs_as_peers.stop()


def _first_fault(fault: ValueError) -> str:
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(fault, "errors", None)
    if errors is None:
        return str(fault)
    first = errors()[0]
    return str(first.get("msg", fault)).removeprefix("Value error, ")
