"""The participants of this process in one space: seats, bridges and agents, with their token files.

Everything is async and runs on the loop.

Spec: §3.6.4, §5.1.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Model
from mew_lab.agent.options import AgentOptions
from mew_lab.bridge.acp import AcpBridge
from mew_lab.bridge.acp_tools import AgentTools
from mew_lab.bridge.config_consents import PARALLEL, AdmittedServer
from mew_lab.bridge.mcp import McpBridge
from mew_lab.bridge.server_requests import ASKING
from mew_lab.bridge.written_files import FileWrite, find_write
from mew_lab.errors import ConfigError, MewError, ProtocolError
from mew_lab.lab.agent_seat import AgentSeat
from mew_lab.lab.approver_seat import APPROVER, ApproverSeat
from mew_lab.lab.call_check import hint, listed
from mew_lab.lab.coding_agent_seat import CodingAgentSeat
from mew_lab.lab.decisions.running_calls import fulfilled_by, may_cancel
from mew_lab.lab.host import Host, capabilities_of, join_line
from mew_lab.lab.mcp_access import McpSeat, open_mcp_seat, with_lists
from mew_lab.lab.seat import Seat
from mew_lab.lab.session import Session
from mew_lab.lab.standing import logical
from mew_lab.lab.tools_agent_seat import ToolsAgentSeat, session_capabilities
from mew_lab.ledger.unknown_calls import UnknownCall, check_repeats_within
from mew_lab.log.entries import entries_of
from mew_lab.log.numbering import complete_id
from mew_lab.protocol.elicitation import CREATE_MESSAGE, ELICIT
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.correlations import cancellation_of
from mew_lab.sdk.discovery import ToolReading, read_tools
from mew_lab.sdk.group import run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.result_store import ResultLimits
from mew_lab.sdk.scheduler import AT_ONCE
from mew_lab.sdk.tools import ToolBox
from mew_lab.settings.environment import state_folder
from mew_lab.tools_agent.definition import AgentDefinition
from mew_lab.tools_agent.home import bridge_arguments, startable_servers
from mew_lab.tools_agent.member import ToolsAgent

__all__ = ["NOTEBOOK_SEAT", "Can", "LocalParticipants"]

NOTEBOOK_SEAT = "notebook"
Can = str | Sequence[Mapping[str, Any]]
AnySeat = TypeVar("AnySeat", bound=Seat)
MAX_EARLIER = 5_000  # records that an agent reads again, by far more than it remembers of them
ANEW = 2.0  # seconds that a doubted call waits for a newer list of tools


class LocalParticipants:
    """The participants that this process brings to a space. `host` is None where the space runs elsewhere."""

    def __init__(self, session: Session, *, fault: Callable[[str], None]) -> None:
        self.host: Host | None = None
        self.seats: dict[str, Seat] = {}
        self._settings: dict[str, Any] = {}
        self.keeps_tokens = False
        """Whether the tokens of a space of this process outlive it."""
        self._session = session
        self._fault = fault
        self._bridges: dict[str, McpBridge] = {}
        self._listed: dict[str, list[dict[str, Any]]] = {}  # as other participants listed their tools last

    def own_host(self, doing: str) -> Host:
        """The host of the space, where it runs in this process.

        Raises:
            MewError: The space runs elsewhere.
        """
        if self.host is None:
            raise MewError(
                f"{doing}: the space {self._session.space!r} runs elsewhere, and only its own gateway can enrol "
                "participants; ask its owner for a token"
            )
        return self.host

    def tools_of(self, name: str) -> list[dict[str, Any]] | None:
        """The tools that a participant of this process lists; None for any other participant."""
        seat = self.seats.get(name)
        box = seat.participant.tools if seat else None
        return [tool.described for tool in box.tools.values()] if isinstance(box, ToolBox) else None

    def listed_by(self, name: str) -> ToolReading | None:
        """The tools of a participant of this process, those of a bridged server included; None for any other."""
        if (bridge := self._bridges.get(name)) is not None:
            return bridge.listed
        own = self.tools_of(name)
        return None if own is None else read_tools(name, own)

    def folders_of(self, name: str) -> Sequence[str]:
        """The folders that a person gave to a server that is bridged here, but none that holds a home or more."""
        if (bridge := self._bridges.get(name)) is None:
            return ()
        given = [*([bridge.cwd] if bridge.cwd is not None else []), *bridge.folders]
        paths = [path for folder in given for path in (folder.absolute(), folder.resolve())]
        return tuple(dict.fromkeys(map(str, filter(_is_narrow, paths))))

    def find_write(self, to: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> FileWrite | None:
        """The file that a call would write, as far as it is known; None for a call that writes none."""
        [name, *others] = {*to} or {""}
        started = {} if self.host is None else self.host.servers
        server = None if others else self._bridges.get(name) or started.get(name)
        write = None if server is None else server.find_write(tool, arguments)
        if write is None:
            return find_write(tool, arguments)
        return replace(write, roots=tuple(root for root in write.roots if _is_narrow(root.resolve())))

    def note_tools(self, name: str, tools: list[dict[str, Any]]) -> None:
        """Keeps the tools that a participant listed."""
        self._listed[name] = tools

    async def known_tools(self, name: str, anew: bool) -> Sequence[Mapping[str, Any]] | None:
        """The tools of a participant as far as they are known; with `anew`, as it lists them now. None: unknown."""
        own = self.tools_of(name)
        if own is not None:
            return own or None  # without tools it may answer requests by other means
        if anew:
            try:
                tools = await self._session.me.participant.list_tools(name, timeout=ANEW)
            except MewError:
                self._listed.pop(name, None)
                return None
            self.note_tools(name, tools)
        return self._listed.get(name) or None

    def all_known_tools(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The tools of the participants that are here, as far as they are known: `participant/tool`, and the entry."""
        me = self._session.me.participant
        found: dict[str, Mapping[str, Any]] = {
            f"{tool.participant}/{tool.name}": {"name": tool.name, "inputSchema": tool.input_schema}
            for tool in me.discovery.get_available_tools()
        }
        for name in me.client.participants:
            tools = self.tools_of(name)
            for tool in tools if tools is not None else self._listed.get(name, ()):
                found[f"{name}/{tool.get('name')}"] = tool
        return sorted(found.items())

    def _check_free(self, name: str, doing: str) -> Host:
        host = self.own_host(doing)
        if name in self.seats:
            raise MewError(
                f"{doing}: a participant named {name[:80]!r} already exists. "
                f"Use another name, or lab.leave({name[:80]!r})"
            )
        return host

    def _enrol(self, name: str, can: Can, doing: str, *, tools: ToolBox | None = None) -> MEWParticipant:
        """Enrols a participant of a free name, not connected yet."""
        host = self._check_free(name, f"Cannot {doing} {name[:80]!r}")
        host.enrol(name, can)
        return self.participant(host.client_for(name), tools=tools or ToolBox(name=name))

    def participant(self, client: MEWClient, *, tools: ToolBox) -> MEWParticipant:
        """A participant of this process, which notes what it has executed."""
        participant = MEWParticipant(
            client, tools=tools, state=self.find_state, logical=self._name_participant, **self._settings
        )
        self._hasten(participant)
        participant.adopt_unknown(self._unknown_calls())
        return participant

    def _name_participant(self, id: str) -> str:
        """The participant that an id means: one person with two connections has one yes (R39)."""
        return logical(self._session, id)

    def _hasten(self, participant: MEWParticipant) -> None:
        """Has a participant ask all others for their tools at once, where the space is that of this process.

        The participants of one process are few. In a space that runs elsewhere, many may join at the same time.
        """
        if self.host is not None:
            participant.discovery.pace = AT_ONCE

    def set(self, *, strict_unknown: bool, repeats_within: float, results: ResultLimits | None) -> None:
        """Sets what the participants take for a repeat of a call of unknown outcome, and how much each keeps of results
        that no message can hold; before any participant is made.

        Raises:
            ConfigError: `repeats_within` is no number of seconds, or a limit is none.

        Spec: rulings R35, R43.
        """
        within = check_repeats_within(repeats_within)
        limits = (ResultLimits() if results is None else results).checked()
        self._settings = {"strict_unknown": bool(strict_unknown), "repeats_within": within, "results": limits}

    def _unknown_calls(self) -> Iterable[UnknownCall]:
        """The calls whose outcome this lab does not know: a participant that it starts repeats none of them."""
        return self._session.me.participant.unknown_calls if self.seats else ()

    def _earlier(self, id: str) -> Iterator[Envelope]:
        """The newest messages so far of a space that went on, where the participant was in it before."""
        host = self._session.host
        if host is None or host.since is None:
            return
        since = host.since
        held = self._session.log.held
        if not any(record.participant == id and record.now <= since for record in held):
            return
        for entry in entries_of(record for record in held[-MAX_EARLIER:] if not record.to):
            if not entry.refused:
                with contextlib.suppress(ProtocolError):
                    yield entry.envelope

    def find_state(self) -> Path | None:
        """The user's folder for state; None where a server that is bridged here is given access to it."""
        return state_folder(
            outside=[folder for bridge in self._bridges.values() for folder in bridge.folders]
        )

    async def take(self, participant: MEWParticipant, *, name: str, what: str) -> Seat:
        """Connects a participant and seats it under `name`, or under the id in its welcome."""
        seat = Seat(self._session, participant, name=name, what=what)
        participant.client.on_error(lambda error: self._fault(f"{seat.name}: {error}"))
        await participant.start()
        seat.name = name or participant.client.id
        return self._seat(seat)

    def _seat(self, seat: AnySeat) -> AnySeat:
        """Takes a seat into the list of those of this process."""
        seat.tools_of = self.known_tools
        self.seats[seat.name] = seat
        return seat

    async def join(self, name: str, can: Can, *, what: str = "seat", tools: ToolBox | None = None) -> Seat:
        """Enrols, connects and seats a participant."""
        participant = self._enrol(name, can, "seat", tools=tools)
        return await self.take(participant, name=name, what=what)

    async def approver(self, name: str) -> ApproverSeat:
        """Enrols, connects and seats a participant that sends what the rules of the person approve."""
        doing = "seat the approver"
        self._check_free(name, f"Cannot {doing} {name[:80]!r}")
        ApproverSeat.check_name(self._session, name)
        seat = ApproverSeat(self._session, self._enrol(name, APPROVER, doing), name=name)
        seat.participant.client.on_error(lambda error: self._fault(f"{name}: {error}"))
        try:
            await seat.open()
        except BaseException:
            await seat.aclose()
            raise
        return self._seat(seat)

    def adopt(self, bridge: McpBridge) -> None:
        """Takes a started MCP server of this process that has no seat: its person knows its folders and files."""
        self._bridges[bridge.name] = bridge

    def owns_bridge(self, name: str) -> bool:
        """Whether a participant is an MCP server that was bridged here."""
        return name in self._bridges

    def bridge_of(self, name: str) -> McpBridge:
        """The bridge of that participant.

        Raises:
            MewError: It was not bridged here.
        """
        if name not in self._bridges:
            bridged = listed(list(self._bridges))
            raise MewError(
                f"{name[:80]!r} was not bridged here{hint(name, self._bridges)}; bridged are {bridged}"
            )
        return self._bridges[name]

    async def bridge(
        self,
        name: str,
        command: list[str] | str,
        *,
        can: Can,
        elicitation: bool = True,
        sampling: Model | None = None,
        **options: Any,
    ) -> Seat:
        """Starts an MCP server and seats it; `options` are those of `McpBridge`.

        `sampling` is the model whose replies the server may ask for.
        """
        host = self._check_free(name, f"Cannot bridge {name[:80]!r}")
        session = self._session
        bridge = McpBridge(
            name,
            command,
            owner=session.me.participant.client.id,
            elicitation=elicitation,
            sampling=sampling is not None,
            state=self.find_state,
            unknown=self._unknown_calls(),
            logical=self._name_participant,
            **self._settings | options,
            on_end=lambda why: self._end_bridge(name, why),
        )
        asking = [*(ASKING[ELICIT] if elicitation else []), *(ASKING[CREATE_MESSAGE] if sampling else [])]
        host.enrol(name, [*capabilities_of(can), *asking])
        if sampling is not None:
            session.asked.models[name] = sampling
        participant = await bridge.start(host.client_for(name))
        self._bridges[name] = bridge
        self._listed[name] = list(bridge.listed.entries)
        what = f"MCP server: {bridge.command_line}"
        return self._seat(Seat(self._session, participant, name=name, what=what))

    async def coding_agent(
        self,
        name: str,
        agent: str | Sequence[str],
        *,
        can: Can,
        tools: bool = False,
        ask_once: bool = False,
        **options: Any,
    ) -> CodingAgentSeat:
        """Starts a coding agent that speaks ACP and seats it; `options` are those of `AcpBridge`.

        With `tools` it gets the tools of the space by a gate of its own, which ends with it, as its token does. With
        `ask_once` a permission of the person counts for the call at that gate, too.

        Raises:
            ConfigError: it has no tools to be asked about once; or as `AcpBridge`.
        """
        host, me = self._check_free(name, f"Cannot start {name[:80]!r}"), self._session.me
        if ask_once and not tools:
            raise ConfigError(
                "ask_once=True is about calls of tools of the space; add tools=True", key="ask_once"
            )
        # Both are enrolled once the agent runs: an enrolment stays, and one that never starts shall leave nothing.
        gate_name, own, gate_tools = f"{name}-tools", None, None
        if tools:
            self._check_free(gate_name, f"Cannot serve MCP clients as {gate_name[:80]!r}")
            own = self.participant(host.client_for(gate_name), tools=ToolBox(name=gate_name))
            gate_tools = AgentTools(own, on_join=lambda: host.enrol(gate_name, with_lists("proposer")))
        bridge = AcpBridge(
            name,
            agent,
            starters=(me.name, me.participant.client.id, NOTEBOOK_SEAT),
            tools=gate_tools,
            state=self.find_state,
            logical=self._name_participant,
            on_join=lambda: host.enrol(name, can),
            on_end=lambda why: self._end_bridge(name, why),
            **options,
        )
        participant = await bridge.start(host.client_for(name))
        gate = None
        if own is not None:
            own.client.on_error(lambda error: self._fault(f"{gate_name}: {error}"))
            gate = self._seat(Seat(self._session, own, name=gate_name, what=f"tools of {name}"))
        if ask_once:
            self._session.decisions.once.attach(gate_name, bridge.take_allowed)
        return self._seat(CodingAgentSeat(self._session, participant, name=name, bridge=bridge, gate=gate))

    def _forget_gate(self, seat: Seat | None) -> None:
        """Forgets the gate of a coding agent that has ended, and the permissions that count there."""
        if isinstance(seat, CodingAgentSeat) and seat.gate is not None:
            self.seats.pop(seat.gate.name, None)
            self._session.decisions.once.detach(seat.gate.name)

    async def bridge_each(self, servers: Mapping[str, AdmittedServer], **options: Any) -> dict[str, str]:
        """Starts several servers at once and seats them; returns a sentence for each that does not start.

        Args:
            servers: The servers by their participant ids; the sentences are by their names in the file.
            options: Those of `bridge`.
        """

        few = asyncio.Semaphore(PARALLEL)
        host = self.own_host("Cannot bridge the servers of a file")

        async def start(id: str, server: AdmittedServer) -> str:
            try:
                host.enrol_stranger(id, [*capabilities_of(options["can"]), *ASKING[ELICIT]])
                async with few:
                    await self.bridge(id, server.command, **server.options, **options)
            except MewError as fault:
                return str(fault)
            return ""

        sentences = await run_all(start(id, server) for id, server in servers.items())
        return {server.name: why for server, why in zip(servers.values(), sentences, strict=True) if why}

    async def agent(
        self, name: str, can: Can, model: Model, options: Mapping[str, Any], *, owns_model: bool
    ) -> AgentSeat:
        """Enrols, connects and seats an agent; invalid options are refused before it is enrolled.

        With `owns_model` the model is closed with the agent.
        """
        AgentOptions.of(options)
        participant = self._enrol(name, can, "seat the agent")
        agent = MEWAgent(participant, model=model, **options)
        agent.owns_model = owns_model
        me = self._session.me
        agent.obey_starters(me.name, me.participant.client.id, NOTEBOOK_SEAT)
        participant.client.on_error(lambda error: self._fault(f"{name}: {error}"))
        await agent.start()
        agent.remember(self._earlier(agent.id))
        return self._seat(AgentSeat(self._session, agent, name=name))

    async def tools_agent(
        self,
        definition: AgentDefinition,
        name: str,
        can: Can | None,
        model: Model,
        *,
        file: Path,
        owns_model: bool,
        limits: Mapping[str, Any],
        on_start: Callable[[str], object] | None = None,
    ) -> ToolsAgentSeat:
        """Enrols, connects and seats an agent of tools, and the servers of its file as participants.

        A server whose name is seated already is not started: the participant of that name takes its place. `can` is
        that of the agent; None lets it call the tools of these servers.

        Raises:
            MewError: a server does not start, or the agent cannot be served; what was started has ended then.
        """
        host = self._check_free(name, f"Cannot seat the agent {name[:80]!r}")
        servers = startable_servers(definition, name)
        started: list[str] = []
        try:
            host.enrol(name, session_capabilities(tuple(servers)) if can is None else can)
            agent = ToolsAgent(
                replace(definition, servers=servers),
                host.client_for(name),
                model=model,
                settings=self._settings,
                **limits,
            )
            for server_name, server in servers.items():
                if server_name not in self.seats:
                    command, options = bridge_arguments(server, file.parent)
                    options |= definition.settings.on_repeat
                    await self.bridge(server_name, command, can="tool", on_start=on_start, **options)
                    started.append(server_name)
            agent.participant.adopt_unknown(self._unknown_calls())
            self._hasten(agent.participant)
            agent.participant.client.on_error(lambda error: self._fault(f"{name}: {error}"))
            await agent.start()
        except BaseException:
            for server_name in started:
                await self.leave(server_name)
            if owns_model:
                await model.aclose()
            raise
        seat = ToolsAgentSeat(
            self._session, agent, name=name, file=file, model=model, servers=tuple(started),
            owns_model=owns_model,
        )  # fmt: skip
        return self._seat(seat)

    async def serve_mcp(self, name: str, can: Can, *, port: int, bare_names: str, **limits: float) -> McpSeat:
        """Enrols and seats a participant that MCP clients speak through, and serves it."""
        participant = self._enrol(name, with_lists(can), "serve MCP clients as")
        participant.client.on_error(lambda error: self._fault(f"{name}: {error}"))
        seat = await open_mcp_seat(
            self._session,
            participant,
            folder=self.own_host("Cannot serve MCP clients").folder / ".mew",
            name=name,
            port=port,
            state=self.find_state,
            bare_names=bare_names,
            **limits,
        )
        return self._seat(seat)

    def _end_bridge(self, name: str, why: str) -> None:
        self._bridges.pop(name, None)
        self._session.asked.models.pop(name, None)
        seat = self.seats.pop(name, None)
        self._forget_gate(seat)
        if seat is not None and not self._session.closed:
            self._fault(why)

    async def leave(self, name: str) -> None:
        """Makes one of them leave the space; a bridge's server ends with it, and so do the servers of an agent file."""
        seat = self.seats.pop(name, None)
        if seat is None:
            seated = listed(list(self.seats))
            raise MewError(f"{name[:80]!r} has no seat here{hint(name, self.seats)}; seated are {seated}")
        self._listed.pop(name, None)
        self._session.asked.models.pop(name, None)
        bridge = self._bridges.pop(name, None)
        await (bridge.stop() if bridge else _leave(seat))
        self._forget_gate(seat)
        for server in seat.servers if isinstance(seat, ToolsAgentSeat) else ():
            if server in self.seats:
                await self.leave(server)

    async def withdraw(self, proposal: str, reason: str) -> str:
        """Withdraws the one open proposal of a seat whose id begins with `proposal`; returns one sentence.

        Raises:
            MewError: There is none, or the ids of several begin so; or as `withdraw` of a participant.

        Spec: §3.3.1.
        """
        own = {call.id: seat for seat in self.seats.values() for call in seat.participant.own_proposals()}
        if (id := complete_id(proposal, own)) is not None:
            await own[id].participant.withdraw(id, reason)
            return f"{own[id].name} has withdrawn {id} ({reason})"
        raise MewError(
            f"Cannot withdraw {proposal[:80]!r}: no open proposal of a seat of this process begins with that id"
        )

    async def cancel(self, call: str, reason: str) -> str:
        """Cancels the call that runs whose id, or that of its proposal, begins with `call`; returns one sentence.

        Its requester sends the cancel, else its proposer, else the person of the lab.

        Raises:
            MewError: It does not run, or the ids of several begin so; or as `cancel` of a participant.
        """
        me = self._session.me
        calls = me.participant.ledger.calls
        waiting = [one.id for one in calls.requests if one.state == "waiting"]
        fulfilled = {one.id: one for one in calls.proposals if one.state == "fulfilled"}
        id = complete_id(call, [*fulfilled, *waiting]) or call
        request = me.participant.find_running(id)
        seat = await self.cancel_request(request, reason)
        target = ", ".join(one_line(name, 64) for name in request.to[:3])
        return (
            f"{target} was asked by {seat.name} to stop {one_line(id, 80)} ({one_line(reason, 120)}). The outcome is "
            "its answer if one still comes, else it is not known"
        )

    async def cancel_request(self, request: Envelope, reason: str) -> Seat:
        """Cancels a call that runs; returns the seat that sent the cancel. Raises as `cancel` of a participant."""
        me = self._session.me
        decided = fulfilled_by(me.participant, request)
        draft = cancellation_of(request, reason)
        seat = next((one for one in self._concerned(request) if one.participant.can_send(draft)), None)
        seat = seat or self.seats[me.name]
        # Every participant knows the proposals; a request is known to its sender and to the person of the lab.
        await seat.participant.cancel(decided[0].id if decided else request.id, reason)
        return seat

    def may_cancel(self, request: Envelope) -> bool:
        """Whether one of this process asked for that call, or the person may cancel it."""
        return bool(self._concerned(request)) or may_cancel(self._session.me.participant, request)

    def _concerned(self, request: Envelope) -> list[Seat]:
        """The seats here that sent or proposed a call."""
        by_id = {seat.participant.client.id: seat for seat in self.seats.values()}
        decided = fulfilled_by(self._session.me.participant, request)
        names = (request.sender, *(one.proposer for one in decided))
        return [by_id[name] for name in names if name in by_id]

    def join_line(self, name: str, *, url: str, space: str) -> str:
        """The shell line with which another process joins as `name`."""
        again = {"as": f"{name}-2"} if name in self.seats else {}
        return join_line(url, space=space, token_file=str(self.token_file(name)), **again)

    def token_file(self, name: str) -> Path:
        """The file with a token of that participant, written at the first call."""
        return self.own_host(f"Cannot write a token of {name[:80]!r}").token_file(name)

    async def close(self) -> None:
        """Closes bridges, seats and the host together; never raises for parts that are closed already."""
        # Bridges at once, because each waits for its server to end; then the seats, that of the human last.
        bridges, self._bridges = self._bridges, {}
        await asyncio.gather(*(self._quietly(bridge.stop()) for bridge in bridges.values()))
        for name, seat in reversed(self.seats.items()):
            if name not in bridges:
                await self._quietly(_leave(seat))
        if self.host is not None:
            await self._quietly(self.host.close())
            for key in () if self.keeps_tokens else self.host.minted.values():
                if key.file is not None:
                    key.file.unlink(missing_ok=True)

    async def _quietly(self, work: Awaitable[object]) -> None:
        try:
            await work
        except MewError as fault:
            self._fault(str(fault))


def _is_narrow(folder: Path) -> bool:
    """Whether a folder holds less than a home, or what a system has at its top."""
    return len(folder.parts) > 2 and not Path.home().is_relative_to(folder)


async def _leave(seat: Seat) -> None:
    if isinstance(seat, AgentSeat):
        await seat.agent.aclose()
    elif isinstance(seat, CodingAgentSeat):
        await seat.bridge.stop()
    elif isinstance(seat, ToolsAgentSeat | McpSeat | ApproverSeat):
        await seat.aclose()
    else:
        await seat.participant.stop()
