"""Offers a space to MCP clients as one MCP server: `McpGate` calls, or proposes and waits for a person.

How it works
------------
The gate is one participant of the space, and the client speaks through it. A tool call of the client becomes a request
where the participant may send it, else a proposal that waits for a person. So the space decides what the client may do,
and the gate has no rights of its own to give.

- `offers` names the tools of the other participants, `sdk/peer_lists` reads their resources and prompts, and
  `announcements` tells the client when a list has changed.
- The first list has the tools of all participants that answer within `DISCOVER_WITHIN` of their request or of the last
  answer of another, as on a busy machine answers come one by one. Where the gate before this one
  has left its lists (`list_memory`), these stand in for the answers, so the first list waits for nobody. Over stdio,
  `early_answers` has answered the first requests before.
- `waiting_calls` keeps the calls while they wait, `client_request` is one request of the client while it waits.
- An answer after `answer_after` seconds says that the call is pending, with its id. A client that sends its request
  again by itself is told to do so. Any other gets a result that says so in its first line (`PENDING_LINE`) and in
  `_meta`. The same call made again attaches to it where nobody else holds it, and so does the tool `proposal_result`.
- A cancellation by the client's own time limit leaves its call as it is. Any other one withdraws it, or is passed on to
  the executor where it runs.
- What an approved call reports of its progress is for the participant that approved it, and everybody sees it. So the
  gate gives its client the progress of the decision first and that of the tool after it.
- `kept_for_clients` gives the client results that no message of the space can hold.
- Everything that is no clear approval is a refusal: a rejection, silence, a malformed call, a lost connection. A refusal
  is a tool error with a sentence that a model can read.

Reading a resource and getting a prompt wait as a call does. They have no results that could say that they are pending,
so this is an error with the code `PENDING`.

Spec: §3.1, §3.2, §3.3, rulings R17, R18; MCP "Tools", "Resources", "Prompts", 2026-07-28 "Multi Round-Trip Requests".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from mcp import MCPError, types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types.version import LATEST_HANDSHAKE_VERSION

from mew_lab.bridge.announcements import AnnouncingServer, ListAnnouncer, Listed
from mew_lab.bridge.call_memory import CallMemory, RememberedCall
from mew_lab.bridge.caller_status import CallerStatus
from mew_lab.bridge.client_request import ClientRequest, TimeLimits, is_time_out, request_key
from mew_lab.bridge.client_results import (
    LISTS,
    as_offered,
    known_members,
    misfit,
    refused,
    result_misfit,
    text_result,
)
from mew_lab.bridge.kept_for_clients import KeptForClients
from mew_lab.bridge.library_log import quiet_library
from mew_lab.bridge.list_memory import ListMemory
from mew_lab.bridge.offers import (
    GATE,
    PENDING,
    PENDING_LINE,
    PROPOSAL,
    REFUSED,
    RESULT,
    STATE,
    WITHDRAW,
    OfferedTool,
    OfferedTools,
    offered_entry,
    offered_uri,
    own_uri,
)
from mew_lab.bridge.waiting_calls import CallOutcome, WaitingCall, WaitingCalls, call_key
from mew_lab.errors import MewError, ProtocolError, ToolFailed
from mew_lab.ledger.unknown_calls import has_effect, may_repeat
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import list_of, member
from mew_lab.protocol.content import raw_text
from mew_lab.protocol.intake import OUTCOME_UNKNOWN
from mew_lab.protocol.json_schema import Validator
from mew_lab.protocol.kept import is_result_uri
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.discovery import DiscoveredTool, ToolReading
from mew_lab.sdk.group import RunningTasks, run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.peer_lists import METHODS, PeerEntry, PeerLists
from mew_lab.sdk.scheduler import AT_ONCE
from mew_lab.sdk.tools import INVALID_PARAMS, METHOD_NOT_FOUND
from mew_lab.settings.waiting import (
    ANSWER_AFTER,
    DECIDE_WITHIN,
    GRACE,
    RUN_WITHIN,
    WITHDRAW_AFTER,
    check_seconds,
    told_answer_after,
)
from mew_lab.version import VERSION

__all__ = ["PENDING", "REFUSED", "McpGate"]

logger = logging.getLogger(__name__)
DISCOVER_WITHIN = (
    2.0  # seconds without an answer that a list waits for a participant that was not asked before
)
KEEP_AFTER = 2.0  # seconds after a change before the lists are kept
COMPLETE_WITHIN = 5.0  # seconds for the completions of an argument
MAX_SHOWN = 300  # characters of a peer's words in one of our sentences
MAX_VIOLATIONS = 5
MAX_LEFT_OUT = 1000  # participants of which a list left something out
MAX_REQUESTS = 1000  # that a cancellation may name

_INSTRUCTIONS = (
    "These are the tools of the participants of a MEW space. A person may have to approve a call before it is executed. "
    f"An answer that says that a call waits is no result: make the same call again, or call {RESULT} with the id in the "
    "answer. A rejected call must not be repeated unless the person asks for it."
)
_OWN_TOOLS = [
    {
        "name": RESULT,
        "description": "Waits for the result of a call that was answered as pending, and returns it.",
        "inputSchema": {
            "type": "object",
            "properties": {"proposal": {"type": "string", "description": "The id in the pending answer."}},
            "required": ["proposal"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": WITHDRAW,
        "description": "Withdraws a pending call, so that it will not be executed.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "proposal": {"type": "string", "description": "The id in the pending answer."},
                "reason": {"type": "string", "description": "Why it is no longer needed."},
            },
            "required": ["proposal"],
        },
        "annotations": {"destructiveHint": False},
    },
]

_NOT_KNOWN = (
    "The gate ended while {what} waited, and the withdrawal of proposal {id} {so}. Whether it was approved and executed "
    "before is not known here; the log of the space tells. The same call made again is a new call"
)


class McpGate:
    """A space as one MCP server; `server` is the server of the MCP library, for any transport.

    Args:
        participant: the participant that speaks for the client; the gate starts and stops it.
        answer_after: seconds after which a request is answered as pending; where they are the usual ones, those that a
            capability of the participant tells (`x-answer-after`) come before them.
        decide_within: seconds after which a proposal that nobody decided is refused.
        run_within: seconds after which an approved call that its tool has not answered ends as unknown.
        grace: seconds that a call of a client that is gone still waits for it.
        withdraw_after: seconds after which a call that its client cancelled is withdrawn.
        memory: what outlives a crash of this process; None keeps nothing.
        lists: the lists of tools that the gate before this one has read; None keeps none.
        bare_names: the participant whose tools have their own names for clients, without its name; empty for none.

    Raises:
        ConfigError: one of these times is not above 0, or is longer than 30 days.
    """

    def __init__(
        self,
        participant: MEWParticipant,
        *,
        answer_after: float = ANSWER_AFTER,
        decide_within: float = DECIDE_WITHIN,
        run_within: float = RUN_WITHIN,
        grace: float = GRACE,
        withdraw_after: float = WITHDRAW_AFTER,
        memory: CallMemory | None = None,
        lists: ListMemory | None = None,
        bare_names: str = "",
    ) -> None:
        times = {"answer_after": answer_after, "decide_within": decide_within, "run_within": run_within}
        for key, seconds in {**times, "grace": grace, "withdraw_after": withdraw_after}.items():
            check_seconds(seconds, key=key)
        self.participant = participant
        self._kept = KeptForClients(participant.results)
        self.calls = WaitingCalls(
            participant.ledger.calls,
            decide_within=decide_within,
            run_within=run_within,
            grace=grace,
            withdraw_after=withdraw_after,
            status=CallerStatus(participant),
            cancel=participant.cancel,
            memory=memory,
            load=self._kept.load,
        )
        self._requests: BoundedDict[object, ClientRequest] = BoundedDict(MAX_REQUESTS)
        self._limits = TimeLimits()
        self._memory = memory
        self._answer_after = answer_after
        self._left_out: BoundedDict[tuple[str, str], str] = BoundedDict(MAX_LEFT_OUT)  # the sentences
        self._tools = OfferedTools(
            bare=bare_names, report=lambda who, text: self._report_left_out("names", who, text)
        )
        self._list_memory = lists
        self._remembered: dict[str, ToolReading] = {}  # of participants that have not answered this gate yet
        self._was_served = False  # whether lists were remembered when it started
        self._is_settled = False  # whether the first answers have come, or were waited for
        self._tasks = RunningTasks()
        self._keeping: asyncio.Task[None] | None = None
        self.announcer = ListAnnouncer()
        self._lists = PeerLists(participant, on_change=self.announcer.announce)
        self.server = _make_server(self, ttl=answer_after + grace)

    async def __aenter__(self) -> McpGate:
        await self.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Joins the space, and asks the participants for their tools; raises as `MEWParticipant.start`."""
        self.participant.on_change(self.calls.note_change)
        self.participant.unknown_changed.add(self.calls.note_change)
        self.participant.ledger.calls.hold_all_requests()  # a call repeats one of unknown outcome, whoever sent that
        self.participant.client.on_message(self.calls.note_response, kinds=["mcp/response"])
        self.participant.on_ready(lambda _: self.calls.resume())
        self.participant.discovery.on_tools_changed(lambda _: self._note_tools())
        self.participant.rights.on_capabilities_changed(lambda _: self._note_rights())
        remembered = {} if self._list_memory is None else await self._list_memory.load()
        await self.participant.start()
        discovery = self.participant.discovery
        discovery.enable_auto_discovery(AT_ONCE)
        self._remembered = {
            name: remembered[name] for name in discovery.get_undiscovered_participants() if name in remembered
        }
        self._was_served = bool(self._remembered)
        self._tasks.start(self._settle())
        for name in self._remembered:
            self._tasks.start(self._confirm(name))
        await self._restore()
        if why := self._instruct():
            logger.warning("%s", why)

    def _note_rights(self) -> None:
        self._instruct()
        self._note_tools()

    def _instruct(self) -> str:
        """Writes the instructions for the clients that come now; returns what is missing, or an empty text."""
        why = self.why_no_lists()
        self.server.instructions = f"{_INSTRUCTIONS} {why}." if why else _INSTRUCTIONS
        return why

    def why_no_lists(self) -> str:
        """A sentence where the participant may not ask what the others offer; else empty."""
        if self.participant.can_send("mcp/request", {"method": "tools/list"}):
            return ""
        name = one_line(self.participant.client.id, 80)
        return (
            f"{name} may not send tools/list in this space, so it has no tools of others to offer; the owner can enrol "
            "it with the profile agent, or grant it that request"
        )

    async def _settle(self) -> None:
        """Waits for the first answers; from then on, a change is announced as it comes, and those before it at once."""
        await self.participant.discovery.wait_for_first_answers(DISCOVER_WITHIN)
        self._is_settled = True
        self._note_tools()
        self._tools.note_listed(self._tools.now)  # of clients that listen and have not listed

    async def _confirm(self, name: str) -> None:
        """Takes the list of a participant in place of the remembered one; none where it gives none."""
        with contextlib.suppress(MewError):
            await self.participant.discovery.discover_tools(name, cached=True)
        self._remembered.pop(name, None)
        self._note_tools()

    async def _restore(self) -> None:
        """Withdraws what waited when a gate was killed, and keeps what its client does not know yet."""
        if self._memory is None:
            return
        calls = await asyncio.to_thread(self._memory.load, max_age=self.calls.decide_within)
        waited = [call for call in calls if call.waits]
        # All at once: a gateway that does not answer is waited for once, and the client of this gate meanwhile.
        ends = dict(zip((call.id for call in waited), await run_all(map(self._end, waited)), strict=True))
        for call in calls:
            if call.waits:
                call = call._replace(refusal=_NOT_KNOWN.format(what=call.what, id=call.id, so=ends[call.id]))
            self.calls.restore(call, is_unknown=call.id in ends)

    async def _end(self, call: RememberedCall) -> str:
        """Withdraws a proposal of before a crash; returns what came of it."""
        try:
            await self.participant.sender.say_accepted(
                "mcp/withdraw", {"reason": "gate_restarted"}, about=call.id
            )
        except MewError:  # it was a request, or the gateway did not take it
            return "is not confirmed"
        return "was accepted now"

    async def stop(self) -> None:
        """Withdraws the undecided calls and leaves the space."""
        await self._tasks.end()
        await self.calls.close()
        await self._lists.close()
        await self.announcer.close()
        if self._list_memory is not None:
            self._list_memory.keep_last(self.participant.discovery.get_whole_lists())
        await self.participant.stop()
        if self._memory is not None:
            await asyncio.to_thread(self._memory.close)

    # --- lists ---

    async def list_tools(
        self, version: str = LATEST_HANDSHAKE_VERSION, *, request: ClientRequest | None = None
    ) -> types.ListToolsResult:
        """The tools of the participants that the client's participant may call or propose, and the gate's own."""
        await self.wait_for_first_list()
        end = self._begin_list(request, "tools")
        self._read_tools()
        shows_pages = request is not None and request.shows_pages
        described = [
            (tool.tool, self._describe(tool, version, request))
            for tool in self._tools
            if shows_pages or tool.tool.is_for_models
        ]
        offered = [(tool.participant, tool.name, entry, entry) for tool, entry in described]
        entries = [*self._own_tools(), *self._fitting("tools/list", offered, version)]
        end()
        return types.ListToolsResult.model_validate({"tools": entries})

    @staticmethod
    def _describe(tool: OfferedTool, version: str, request: ClientRequest | None) -> dict[str, Any]:
        """A tool's entry for a client; without its further members where MCP does not allow one of them."""
        whole = tool.described(with_results=request is not None and request.takes_rounds)
        return tool.described(with_more=False) if misfit("tools/list", whole, version) else whole

    def _begin_list(self, request: ClientRequest | None, listed: Listed) -> Callable[[], None]:
        """Begins the answer to a client with a list; what is returned is called when the list is whole.

        From the answer on the client is told of changes, those included that come while it is on its way.
        """
        since = self.announcer.count(listed)

        def end() -> None:
            tools = self._tools.now

            def note() -> None:
                if request is not None and (session := request.notified) is not None:
                    self.announcer.note(session, listed, since=since)
                if listed == "tools":
                    self._tools.note_listed(tools)
                    self._announce_tools()

            if request is None:
                note()
            else:
                request.when_delivered(note)

        return end

    def note_other_list(self, listed: Listed) -> None:
        """Notes that a client has got another list than the one that this gate has answered with."""
        if listed == "tools":
            self._tools.note_listed(self._tools.now, is_other=True)
            self._announce_tools()
        else:
            self.announcer.announce(listed)

    async def wait_for_first_list(self) -> None:
        """Waits until each participant has answered, or was waited for; not at all where their lists are remembered."""
        if self._is_settled or not self._was_served:
            await self.participant.discovery.wait_for_first_answers(DISCOVER_WITHIN)

    def _own_tools(self) -> list[dict[str, Any]]:
        if not (why := self.why_no_lists()):
            return _OWN_TOOLS
        first, *others = _OWN_TOOLS
        return [{**first, "description": f"{first['description']} There are no other tools: {why}."}, *others]

    def _fitting(
        self, method: str, offered: Iterable[tuple[str, str, Mapping[str, Any], dict[str, Any]]], version: str
    ) -> list[dict[str, Any]]:
        """The entries that a client of that revision of MCP may be sent.

        Each participant of which some are left out is a fault that names the first of them.

        Args:
            offered: the participant, its name of the entry, the entry as it came, and under its name for clients.
        """
        fitting: list[dict[str, Any]] = []
        left_out: dict[str, list[str]] = {}
        for participant, name, own, entry in offered:
            if reason := misfit(method, own, version) or (
                own is not entry and misfit(method, entry, version)
            ):
                left_out.setdefault(participant, []).append(f"{one_line(name, 80)}, because of {reason}")
            else:
                fitting.append(entry)
        for participant, reasons in left_out.items():
            more = f"; and {len(reasons) - 1} more of it" if len(reasons) > 1 else ""
            sentence = (
                f"The {method} of MCP clients leaves out {one_line(participant, 80)}/{reasons[0]}, which MCP {version} "
                f"does not allow{more}"
            )
            self._report_left_out(method, participant, sentence)
        return fitting

    def _report_left_out(self, what: str, participant: str, sentence: str) -> None:
        if self._left_out.get((what, participant)) != sentence:
            self._left_out[what, participant] = sentence
            self.participant.client.report(ProtocolError(sentence))

    def _note_tools(self) -> None:
        """Announces a difference from the list that a client has; before the first answers have come, none is."""
        self._read_tools()
        self._announce_tools()
        if (
            self._is_settled
            and self._list_memory is not None
            and (self._keeping is None or self._keeping.done())
        ):
            self._keeping = self._tasks.start(self._keep(self._list_memory))

    def _announce_tools(self) -> None:
        if self._is_settled and self._tools.take_change():
            self.announcer.announce("tools")

    async def _keep(self, memory: ListMemory) -> None:
        await asyncio.sleep(KEEP_AFTER)  # changes come in numbers
        await memory.keep(self.participant.discovery.get_whole_lists())

    async def list_entries(
        self, method: str, version: str = LATEST_HANDSHAKE_VERSION, *, request: ClientRequest | None = None
    ) -> dict[str, Any]:
        """The result of a list of resources, resource templates or prompts, under the names for clients."""
        end = self._begin_list(request, "prompts" if method == "prompts/list" else "resources")
        offered = [
            (
                peer.participant,
                str(peer.entry.get("name")),
                peer.entry,
                as_offered(offered_entry(peer), peer.participant),
            )
            for peer in await self._lists.read(method)
        ]
        end()
        return {METHODS[method]: self._fitting(method, offered, version)}

    def _read_tools(self) -> None:
        """Reads the discovered tools, and of participants that have not answered yet the remembered ones."""
        discovery = self.participant.discovery
        tools = discovery.get_available_tools()
        if self._remembered:
            awaited = discovery.get_undiscovered_participants()
            self._remembered = {name: self._remembered[name] for name in awaited if name in self._remembered}
            tools += [tool for reading in self._remembered.values() for tool in reading.tools]
        offered = []
        for tool in tools:
            payload = {"method": "tools/call", "params": {"name": tool.name, "arguments": {}}}
            requests = self.participant.can_send("mcp/request", payload, tool.participant)
            if requests or self.participant.can_send("mcp/proposal", payload, tool.participant):
                offered.append((tool, not requests))
        self._tools.put(offered)

    # --- calls ---

    async def call_tool(
        self, request: ClientRequest, name: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a tool call, an error that a model can read, or that the call is pending.

        Raises:
            MCPError: no tool has that name.
        """
        if name in (RESULT, WITHDRAW):
            return await self._call_own_tool(request, name, arguments)
        try:
            tool = await self._find_tool(name)
        except MewError as fault:
            return refused(str(fault))
        if tool is None:
            raise MCPError(INVALID_PARAMS, self._tools.why_absent(name))
        payload = {"method": "tools/call", "params": {"name": tool.tool.name, "arguments": dict(arguments)}}
        try:
            waiting = self._find_or_begin(
                request,
                tool.tool.participant,
                payload,
                what=tool.target,
                check=lambda: _check_arguments(tool, arguments),
                may_repeat=may_repeat(tool.tool.annotations or {}),
            )
        except MewError as fault:
            return refused(str(fault))
        return await self._answer(request, waiting, name)

    def name_of(self, participant: str, tool: str) -> str:
        """The name that clients call a tool by; empty where it is not offered."""
        return next((one.name for one in self._tools if one.is_of(participant, tool)), "")

    async def _find_tool(self, name: str) -> OfferedTool | None:
        """The tool of that name as its participant lists it; None where it lists none.

        Raises:
            MewError: its participant does not list its tools, so that only an earlier list is known.
        """
        self._read_tools()
        tool = self._tools.find(name)
        if tool is None:  # its participant may have joined just now
            await self.participant.discovery.wait_for_first_answers(DISCOVER_WITHIN)
        elif tool.tool.participant in self._remembered:
            await self._check_offer(tool.tool)
        else:
            return tool
        self._read_tools()
        return self._tools.find(name)

    async def _check_offer(self, tool: DiscoveredTool) -> None:
        try:
            await self.participant.discovery.discover_tools(tool.participant, cached=True)
        except MewError as fault:
            what = one_line(f"{tool.participant}/{tool.name}", MAX_SHOWN)
            raise MewError(
                f"{what} was not called: it is known from an earlier list alone, and a new one did not come: {fault}"
            ) from None

    async def request(
        self, request: ClientRequest, participant: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any] | types.InputRequiredResult:
        """The result of a request that reads a resource or gets a prompt of a participant, as it came.

        Raises:
            MCPError: it was refused, failed, or is pending.
        """
        self._check_present(participant)
        try:
            payload = {"method": method, "params": dict(params)}
            waiting = self._find_or_begin(request, participant, payload, what=f"{participant}/{method}")
        except MewError as fault:
            raise MCPError(REFUSED, str(fault)) from None
        outcome = await self._outcome(request, waiting)
        if isinstance(outcome, types.InputRequiredResult):
            return outcome
        if outcome is None:
            text = f"{waiting.describe()}. Make the same request again to wait on"
            raise MCPError(PENDING, text, data={"proposal": waiting.id})
        if outcome.refusal or not isinstance(outcome.result, dict):
            data = {"code": OUTCOME_UNKNOWN} if outcome.is_unknown else None
            why = outcome.refusal or f"{waiting.what} gave no result"
            raise MCPError(outcome.code or REFUSED, why, data=data)
        return outcome.result

    async def get_prompt(
        self, request: ClientRequest, name: str, arguments: Mapping[str, str]
    ) -> dict[str, Any] | types.InputRequiredResult:
        """The result of `prompts/get`; raises as `request`."""
        peer = await self._find_prompt(name)
        params = {"name": peer.entry["name"], "arguments": dict(arguments)}
        return await self.request(request, peer.participant, "prompts/get", params)

    async def _find_prompt(self, name: str) -> PeerEntry:
        """The prompt of that name for clients; raises MCPError where there is none."""
        for peer in await self._lists.read("prompts/list"):
            if not misfit("prompts/list", peer.entry) and offered_entry(peer)["name"] == name:
                return peer
        raise MCPError(INVALID_PARAMS, f"There is no prompt {one_line(name, 80)}; list the prompts")

    async def complete(self, params: types.CompleteRequestParams) -> dict[str, Any]:
        """The result of `completion/complete` by the participant of the prompt or template; nobody is asked for it.

        Raises:
            MCPError: there is none, or it gives no completions now.
        """
        if isinstance(params.ref, types.PromptReference):
            peer = await self._find_prompt(params.ref.name)
            participant, ref = peer.participant, {"type": "ref/prompt", "name": peer.entry["name"]}
        else:
            participant, uri = self._find_own(params.ref.uri)
            ref = {"type": "ref/resource", "uri": uri}
        self._check_present(participant)
        asked = params.model_dump(
            by_alias=True, mode="json", exclude_none=True, include={"argument", "context"}
        )
        payload = {"method": "completion/complete", "params": {"ref": ref, **asked}}
        try:
            result = await self.participant.correlations.call(
                (participant,), payload, timeout=COMPLETE_WITHIN, kind="mcp/request"
            )
        except MewError as fault:
            if isinstance(fault, ToolFailed) and fault.code == METHOD_NOT_FOUND:
                return {"completion": {"values": []}}
            raise MCPError(REFUSED, one_line(str(fault), MAX_SHOWN)) from None
        return as_offered(result, participant) if isinstance(result, dict) else {}

    def _check_present(self, participant: str) -> None:
        if participant not in self.participant.client.participants:
            raise MCPError(INVALID_PARAMS, f"No participant {one_line(participant, 80)} is in the space now")

    def _find_own(self, uri: str) -> tuple[str, str]:
        """The participant of a resource, and its own address; raises MCPError where it is none of those offered."""
        own = own_uri(uri)
        if own is None:
            raise MCPError(INVALID_PARAMS, f"There is no resource {one_line(uri, 80)}; list the resources")
        return own

    async def read_resource(
        self, request: ClientRequest, uri: str
    ) -> dict[str, Any] | types.InputRequiredResult:
        """The result of `resources/read`; raises as `request`."""
        own = self._find_own(uri)
        result: dict[str, Any] | types.InputRequiredResult
        if is_result_uri(own[1]):
            result = await self._kept.read(own[1])
        else:
            result = await self.request(request, own[0], "resources/read", {"uri": own[1]})
        if isinstance(result, types.InputRequiredResult):
            return result
        return {
            **result,
            "contents": [
                {**content, "uri": offered_uri(own[0], content["uri"])}
                for content in list_of(result.get("contents"))
                if isinstance(member(content, "uri"), str)
            ],
        }

    def _find_or_begin(
        self,
        request: ClientRequest,
        participant: str,
        payload: Mapping[str, Any],
        *,
        what: str,
        check: Callable[[], None] = lambda: None,
        may_repeat: bool = False,
    ) -> WaitingCall:
        """The call that a request attaches to: a waiting one, or a new one named `what`, which `check` allows.

        Args:
            may_repeat: whether a second call does no more than the first, as its tool says.

        Raises:
            MewError: a new call cannot be sent, or the state of the request is that of another call, of one that
                another request has taken, or of one whose outcome its client has.
        """
        key = call_key(participant, payload)
        waiting = self.calls.by_id(request.id) if request.id else self.calls.take(key, request.session)
        if request.id and (waiting is None or waiting.key != key):
            raise MewError(
                f"The call {one_line(request.id, 80)} is not known any more. It was not sent again"
            )
        if request.id and waiting is not None and waiting.holder != request.holder:
            raise MewError(
                f"Another request has taken over {waiting.what}, which this one was too late for. It was not sent again"
            )
        if request.id and waiting is not None and waiting.delivered:
            raise MewError(
                f"{waiting.what} has ended, and this client has its outcome, so it was not sent again. {RESULT} with "
                f"proposal {waiting.id} gives the outcome once more"
            )
        if waiting is not None:
            return waiting
        check()
        if self.calls.is_full:
            raise MewError(
                f"{self.calls.most} calls wait already, so this one was not sent; withdraw some, or wait"
            )
        kind = None if may_repeat else self._kind_of_repeat(key, participant, payload, what=what)
        self._check_rights(participant, payload, kind)
        is_own = kind is None and self.participant.can_send("mcp/request", payload, participant)
        call = self.participant.correlations.call(
            (participant,),
            payload,
            what=what,
            timeout=self.calls.run_within if is_own else None,
            resilient=True,
            kind=kind,
            progress=request.wants_progress,
            proposal_progress=request.wants_progress,
        )
        logger.info("%s sent %s as %s %s", self.participant.client.id, call.what, call.kind, call.id)
        return self.calls.begin(key, call, session=request.session)

    def _check_rights(
        self, participant: str, payload: Mapping[str, Any], kind: Literal["mcp/proposal"] | None
    ) -> None:
        """Raises a MewError where a proposal could not be withdrawn after its rejection."""
        asks = kind is not None or not self.participant.can_send("mcp/request", payload, participant)
        if asks and not self.participant.can_send("mcp/withdraw"):
            raise MewError(
                f"{self.participant.client.id} may propose calls of {participant} but not withdraw them, so a refusal "
                "could not be kept; ask the owner of the space to allow mcp/withdraw"
            )

    def _kind_of_repeat(
        self, key: str, participant: str, payload: Mapping[str, Any], *, what: str
    ) -> Literal["mcp/proposal"] | None:
        """As what a call is sent that repeats one of unknown outcome: a person decides. None for any other call.

        Raises:
            MewError: it may be sent by own right alone.

        Spec: R35.
        """
        if not has_effect(payload["method"]):
            return None
        # also of before a crash, and those that only this gate gave up on
        first = self.calls.find_unknown(key)
        if not first:
            found = self.participant.unknown_calls.find((participant,), payload, time.time())
            first = found.request.id if found is not None else ""
        if not first:
            return None
        if self.participant.can_send("mcp/proposal", payload, participant):
            return "mcp/proposal"
        raise MewError(
            f"{what} was not sent: the same call was sent before, as {one_line(first, 80)}, and whether that took "
            f"effect is not known. {self.participant.client.id} may not propose it, so nobody can decide"
        )

    async def _outcome(
        self, request: ClientRequest, waiting: WaitingCall
    ) -> CallOutcome | types.InputRequiredResult | None:
        """The outcome of a call, that its client sends the request again, or None where it is pending."""
        self._requests[request.key] = request
        if not await request.wait(
            self.calls, waiting, seconds=request.answer_after or self._find_answer_after()
        ):
            self._forget(request)
            if not request.may_return or request.is_gone:
                return None
            self.calls.expect_return(waiting)
            return request.next_round(waiting)
        self._forget(request)
        request.when_delivered(lambda: self.calls.note_delivered(waiting))
        return waiting.outcome

    def _find_answer_after(self) -> float:
        """The seconds after which a request that says nothing of it is answered as pending."""
        told = told_answer_after(self.participant.client.capabilities.patterns)
        return told if told is not None and self._answer_after == ANSWER_AFTER else self._answer_after

    async def _answer(
        self, request: ClientRequest, waiting: WaitingCall, name: str
    ) -> types.CallToolResult | types.InputRequiredResult:
        outcome = await self._outcome(request, waiting)
        if isinstance(outcome, types.InputRequiredResult):
            return outcome
        if outcome is not None:
            return _result_of(outcome, waiting, request.version)
        tool = self._tools.find(name)
        has_schema = request.takes_rounds and tool is not None and "outputSchema" in tool.described()
        return _pending(waiting, name, is_error=has_schema)

    def _forget(self, request: ClientRequest) -> None:
        if self._requests.get(request.key) is request:
            del self._requests[request.key]

    async def note_cancelled(self, context: Any, params: types.CancelledNotificationParams) -> None:
        """Notes that a client cancelled a request: because of its own time limit, or because it does not want it."""
        id = params.request_id
        request = None if id is None else self._requests.pop(request_key(context, id), None)
        if request is not None:
            is_known = self._limits.note(request.client, request.seconds)
            if not is_known and not is_time_out(params.reason):
                request.cancel(self.calls)

    # --- the gate's own tools ---

    async def _call_own_tool(
        self, request: ClientRequest, name: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult | types.InputRequiredResult:
        id, reason = arguments.get("proposal"), arguments.get("reason", "no_longer_needed")
        if not isinstance(id, str) or not isinstance(reason, str):
            return refused(f"{name} needs `proposal`, the id in a pending answer, as a string")
        waiting = self.calls.by_id(id)
        is_next_round = waiting is not None and (request.id, request.holder) == (waiting.id, waiting.holder)
        if waiting is None or not (is_next_round or waiting.is_of(request.session)):
            return refused(f"There is no call {one_line(id, 80)} of this client; it may have ended long ago")
        if name == RESULT:
            if not is_next_round and (request.session is None or waiting.session is not request.session):
                self.calls.hand_over(waiting, request.session)
            return await self._answer(request, waiting, name)
        return await self._withdraw(waiting, one_line(reason, MAX_SHOWN))

    async def _withdraw(self, waiting: WaitingCall, reason: str) -> types.CallToolResult:
        what = waiting.what
        if waiting.decided:
            why = "has ended" if waiting.ended.is_set() else "is running"
            return refused(f"{what} {why}, so it cannot be withdrawn; {RESULT} has its result")
        if not await self.calls.withdraw(
            waiting, f"{what} was withdrawn on request, and not executed", reason=reason
        ):
            return text_result(
                f"The withdrawal of {what} is not confirmed; {RESULT} tells what becomes of it"
            )
        return text_result(
            f"The withdrawal of {what} was accepted; {RESULT} tells whether an approval came first"
        )


def _make_server(gate: McpGate, *, ttl: float) -> Server[Any]:
    """The server of the MCP library that passes its requests to a gate."""
    quiet_library()

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return await gate.list_tools(context.protocol_version, request=ClientRequest(context))

    async def call_tool(
        context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await gate.call_tool(ClientRequest(context), params.name, params.arguments or {})

    async def list_entries(context: Any, params: Any) -> Any:
        entries = await gate.list_entries(
            context.method, context.protocol_version, request=ClientRequest(context)
        )
        return LISTS[context.method].model_validate(entries)

    async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> Any:
        result = await gate.read_resource(ClientRequest(context), params.uri)
        return _model_of(types.ReadResourceResult, "resources/read", result, context.protocol_version)

    async def get_prompt(context: Any, params: types.GetPromptRequestParams) -> Any:
        result = await gate.get_prompt(ClientRequest(context), params.name, params.arguments or {})
        return _model_of(types.GetPromptResult, "prompts/get", result, context.protocol_version)

    async def complete(context: Any, params: types.CompleteRequestParams) -> Any:
        result = await gate.complete(params)
        return _model_of(types.CompleteResult, "completion/complete", result, context.protocol_version)

    server = AnnouncingServer(
        GATE,
        version=VERSION,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_entries,
        on_list_resource_templates=list_entries,
        on_read_resource=read_resource,
        on_list_prompts=list_entries,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscriptions_listen=gate.announcer.listen,
    )
    server.add_notification_handler(
        "notifications/cancelled", types.CancelledNotificationParams, gate.note_cancelled
    )
    security = RequestStateSecurity.ephemeral(ttl=ttl)
    server.middleware.append(RequestStateBoundary(security, default_audience="mew-lab"))

    async def hold_handshake(ctx: Any, call_next: Any) -> Any:
        # Some clients begin their turn with what the server offers soon after the handshake, and list only once.
        # They wait longer for an answer to the list than for the handshake.
        if ctx.method == "initialize":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(gate.wait_for_first_list(), DISCOVER_WITHIN)
        return await call_next(ctx)

    server.middleware.append(hold_handshake)
    return server


def _model_of(model: Any, method: str, result: Any, version: str) -> Any:
    """The result of a participant as the library takes it.

    Raises:
        MCPError: MCP does not allow it in the revision of the client.
    """
    if isinstance(result, types.InputRequiredResult):
        return result
    known = known_members(result)
    if reason := result_misfit(method, known, version):
        raise MCPError(
            REFUSED, f"The participant answered with a result that MCP {version} does not allow: {reason}"
        )
    return model.model_validate(known)


def _check_arguments(tool: OfferedTool, arguments: Mapping[str, Any]) -> None:
    """Checks the arguments before a person is asked. What only our reading of the schema refuses, the tool judges.

    Raises:
        ProtocolError: they do not fit the schema of the tool.
    """
    violations = Validator(tool.tool.input_schema, of_peer=True).validate(dict(arguments)).violations
    if violations:
        shown = one_line("; ".join(map(str, violations[:MAX_VIOLATIONS])), MAX_SHOWN)
        raise ProtocolError(
            f"The arguments do not fit the schema of {tool.target}, so nobody was asked: {shown}"
        )


def _result_of(outcome: CallOutcome, waiting: WaitingCall, version: str) -> types.CallToolResult:
    """The result for the client; that of another method than `tools/call` as JSON. One that MCP does not allow is an
    error."""
    if outcome.refusal:
        meta = {STATE: "unknown", PROPOSAL: waiting.id} if outcome.is_unknown else None
        return text_result(outcome.refusal, is_error=True, meta=meta)
    if not waiting.is_tool:
        return text_result(raw_text(outcome.result)[0])
    known = known_members(outcome.result)
    if reason := result_misfit("tools/call", known, version):
        return refused(
            f"{waiting.what} was executed, but its result is none that MCP {version} allows: {reason}"
        )
    return types.CallToolResult.model_validate(known)


def _pending(waiting: WaitingCall, name: str, *, is_error: bool = False) -> types.CallToolResult:
    """The answer for a client that should not wait longer.

    Args:
        is_error: whether its client has the schema of the results, which an error alone need not follow.
    """
    again = "call it again with the same arguments, or " if name != RESULT else ""
    return text_result(
        f"{PENDING_LINE}\n{waiting.describe()}. To wait on, {again}call {RESULT} with proposal {waiting.id}; "
        f"{WITHDRAW} takes it back.",
        is_error=is_error,
        meta={STATE: "pending", PROPOSAL: waiting.id},
    )
