"""The participant of a space: `MEWParticipant` has a client, and calls, proposes, decides, answers and chats.

How it works
------------
A `Dispatcher` passes on each message of the space, with its typed payload. First the ledger observes the message, and
its changes go to rights, streams and waiting calls. Then the other parts get it (telemetry, discovery, controls, chats).
Last, `tools` answers a request to this participant. `_register` shows the order.

Three rules for changes:
1. No transport and no decisions: it speaks the protocol correctly, and its user decides which messages to send.
2. The ledger decides which messages count (`ledger`, `proposals`); here its changes are only passed on.
3. Everything runs on one loop and one reading task, so nothing here is locked, and nothing here may block.

Spec: §3.1 to §3.4, §4.3, §8.2, SDK "Layer 2".
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mew_lab.errors import ConfigError, LocalProtocolError, MewError, ProposalEnded, Refused
from mew_lab.ledger.calls import Change, Proposal, method_of, tool_of
from mew_lab.ledger.chats import ChatChange
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import GrantChange
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.ledger.options import PermissionOption, PermissionRequest
from mew_lab.ledger.reasoning import ReasoningChange
from mew_lab.ledger.streams import StreamChange
from mew_lab.ledger.unknown_calls import DAY, UnknownCall, UnknownCalls, has_effect, may_repeat
from mew_lab.protocol.envelope import MAX_MESSAGE, Envelope
from mew_lab.protocol.payloads.mcp import McpProposal, McpRequest
from mew_lab.protocol.payloads.system import SystemError, SystemPresence
from mew_lab.protocol.permit import read_capabilities
from mew_lab.protocol.token import Token
from mew_lab.protocol.violations import refusal
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.calls import Call
from mew_lab.sdk.chats import Chats
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.controls import Controls
from mew_lab.sdk.correlations import Correlations, cancellation_of
from mew_lab.sdk.decisions import draft_approval, draft_rejection, draft_withdrawal
from mew_lab.sdk.delegates import SpecificationNames
from mew_lab.sdk.discovery import Discovery, list_tools
from mew_lab.sdk.dispatcher import Dispatcher
from mew_lab.sdk.executions import ExecutionFile, Executions, SpaceIdentity
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.kept_results import KeptResults
from mew_lab.sdk.list_pages import PagedLists
from mew_lab.sdk.options import client_options
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.repeats import FirstCall, Repeats
from mew_lab.sdk.request_rows import Rows
from mew_lab.sdk.request_server import AnswerMethod, MethodAnswerer, RequestServer
from mew_lab.sdk.result_store import ResultLimits, ResultStore
from mew_lab.sdk.reviews import Reviews, judge_quorum
from mew_lab.sdk.rights import OwnCapabilities
from mew_lab.sdk.sender import ACCEPTED_WITHIN, MessageSender, Names, given, names, tool_call
from mew_lab.sdk.settings import Settings
from mew_lab.sdk.signal import Signal, at_once, begins_unawaited, fit_handler
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.streams import Streams
from mew_lab.sdk.telemetry import Telemetry
from mew_lab.sdk.tools import Answerer, RpcError, ToolBox

__all__ = ["PARTICIPANT_OPTIONS", "Call", "MEWParticipant"]

logger = logging.getLogger(__name__)
BY_SCRIPT: Mapping[str, Any] = MappingProxyType({"how": "script", "by": "a script"})
NOTES_WITHIN = 2.0  # seconds that `stop` waits for notes that are on their way


@explains_arguments
class MEWParticipant(SpecificationNames, adds_handlers=True):
    """One participant of one space; `async with` joins and leaves.

    `client` is its connection, `tools` answers requests, `proposals` are those of the ledger, `correlations` the
    messages that await an answer. Its other parts are `discovery` (tools of others), `chats` (messages that await an
    acknowledgement), `streams`, `results` (those that no message can hold), `rights` (grants), `controls` (pause and
    the rest of §3.9) and `telemetry`. `sender` sends messages that have no method of their own. The names that the
    specification puts on a participant are here, too (`SpecificationNames`).

    An `on_…` method of a subclass that needs no argument besides `self` is a hook, such as `async def on_ready(self)`.

    Args:
        client: the connection; None makes one from `gateway`, `space`, `token`, `participant_id` and `options`.
        options: further arguments of `MEWClient`, such as `reconnect` or `heartbeat_interval`.
        tools: a ToolBox, or another object that answers MCP requests.
        request_timeout: the default timeout of a request in seconds; None waits without a limit. A proposal waits
            for people, so only the timeout of its call limits it.
        state: gives the folder in which it notes which proposals it has executed, so that it executes none again after
            a restart. Without one, it remembers them within this process, and executes only proposals that it has
            seen (R32).
        strict_unknown: whether it refuses to repeat a call of unknown outcome even where its tool says that it only
            reads, or that a second call does no more than the first. Spec: R35.
        repeats_within: the seconds in which such a call counts as a repeat.
        quorum: how many of which participants must have said yes to a call before it is executed; None takes that of
            its `tools`, else one decision is enough. Spec: R39.
        logical: maps the id of a connection to the name of its participant; by default each id is a participant.
        results: how much it keeps of results that no message can hold, and how long; or the store that has them.
            They stand below `state`, and without that it keeps none. Spec: R43.

    Spec: SDK "Layer 2".
    """

    @explains_arguments
    def __init__(
        self,
        client: MEWClient | None = None,
        *,
        gateway: str = "",
        space: str = "",
        token: str | Token | None = None,
        participant_id: str | None = None,
        tools: Answerer | None = None,
        request_timeout: float | None = 300.0,
        state: Callable[[], Path | None] | None = None,
        strict_unknown: bool = False,
        repeats_within: float = DAY,
        results: ResultStore | ResultLimits | None = None,
        quorum: Quorum | None = None,
        logical: Callable[[str], str] = str,
        **options: Any,
    ) -> None:
        if client is not None and (options or gateway):
            which = next(iter(options), "gateway")
            raise ConfigError(
                f"Cannot make a participant with both client= and {one_line(which, 60)}=: give that to the client",
                key=which,
            )
        if options:
            options = client_options(options, PARTICIPANT_OPTIONS, source="The options of a participant")
        self.client = client or MEWClient(
            gateway, space=space, token=token, participant_id=participant_id, **options
        )
        self.tools: Any = tools if tools is not None else ToolBox()
        self.ledger = Ledger(me=self.client.id, members=self.client.members)
        self.proposals = self.ledger.calls.proposals
        self.quorum = quorum if quorum is not None else getattr(self.tools, "quorum", None)
        self.reviews = Reviews(
            present=lambda id: id == self.client.id or id in self.client.participants,
            logical=logical,
            on_fault=self.client.report,
        )
        self.strict_unknown = strict_unknown
        self.unknown_calls = UnknownCalls(within=repeats_within)
        self.correlations = Correlations(
            self.client, proposals=self.proposals, request_timeout=request_timeout
        )
        self.sender = MessageSender(self.client, self.correlations, self.ledger)
        self.streams = Streams(self.sender, self.ledger.streams)
        store = results if isinstance(results, ResultStore) else ResultStore(state, results)
        self.results = KeptResults(
            self.client, self.correlations, self.streams, proposals=self.proposals, store=store
        )
        pages = PagedLists(self.tools, room=self._find_room, on_left_out=self._note_left_out)
        self._answerer = MethodAnswerer(pages)
        self._answerer.read_result = self.results.answer
        self.request_server = RequestServer(
            self._answerer, post=self.client.post, keeper=self.results, may_cancel=self._may_cancel
        )
        self._repeats = Repeats(
            server=self.request_server,
            find=self._find_first,
            ask=lambda first: self.client.find_note(first.request, first.to),
            resolve=self._take_report,
            executed=lambda request: self._requests(request),
        )
        self._executions = Executions(
            proposals=self.proposals,
            server=self.request_server,
            name=lambda: self.client.id or "",
            file=lambda: self._make_execution_file(state),
            take_own=self._repeats.take,
            judge=self._judge_quorum,
            reopen=lambda request: self._follow(tuple(self.ledger.calls.reopen(request, request.id))),
        )
        self._deciding: set[str] = set()
        self._notes = RunningTasks()  # that are on their way
        self.dispatcher = Dispatcher(self.client)
        self._admitted = False
        self._ready: Signal[dict[str, Any]] = Signal(on_fault=self.client.report)
        self._joins: Signal[dict[str, Any]] = Signal(on_fault=self.client.report)
        self._changes: Signal[Change] = Signal(on_fault=self.client.report)
        self.unknown_changed: Signal[Change] = Signal(on_fault=self.client.report)
        self._requests: Signal[Envelope] = Signal(on_fault=self.client.report)
        self._proposed: Signal[Envelope] = Signal(on_fault=self.client.report)
        # Before the parts, so that `on_ready` comes before the effects of a welcome.
        self.client.on_connected(self._on_connected)
        self.client.on_welcome(self._on_welcome)
        self.client.on_disconnected(self._on_disconnected)
        self.discovery = Discovery(self.client, self.correlations)
        self.chats = Chats(self.sender, self.ledger.chats)
        self.telemetry = Telemetry(self.sender)
        self.rights = OwnCapabilities(self.sender, self.ledger.grants)
        self.controls = Controls(
            self.sender,
            self.telemetry,
            correlations=self.correlations,
            request_server=self.request_server,
            chats=self.chats,
            streams=self.streams,
        )
        self._changed_lists: set[str] = set()  # `tools`, `resources`: to be announced
        changed = getattr(self.tools, "changed", None)
        if changed is not None:
            changed.add(self._note_changed_list)
        self._ready.add(self.controls.readmit)
        self._register()
        self._add_hooks()

    def _register(self) -> None:
        """Adds all handlers. Their order matters: the ledger observes a message before the parts get it."""
        dispatcher = self.dispatcher
        dispatcher.on_echo(self.correlations.echo)
        dispatcher.on_entry(self._note_entry)
        dispatcher.on(SystemError, self._note_error)
        dispatcher.on(SystemPresence, self._note_presence)
        self.telemetry.register(dispatcher)
        self.reviews.register(dispatcher)
        self.discovery.register(dispatcher)
        self.controls.register(dispatcher)
        self.chats.register(dispatcher)
        dispatcher.on_any(self.correlations.observe)
        dispatcher.on(McpRequest, self._take_request)
        dispatcher.on(McpProposal, self._take_proposal)

    @classmethod
    def from_settings(
        cls, settings: Settings, *, tools: Answerer | None = None, **options: Any
    ) -> MEWParticipant:
        """A participant from settings; `options` are arguments of `MEWClient` and override them."""
        client = MEWClient.from_settings(settings, **options)
        return cls(client, tools=tools, **settings.participant)

    def __repr__(self) -> str:
        return f"<MEWParticipant {self.client.id or 'nobody yet'} in {self.client.space or 'a space'}>"

    async def __aenter__(self) -> MEWParticipant:
        await self.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Joins the space; raises as `MEWClient.connect`. `connect` is the same."""
        self.results.store.sweep()
        await self.client.connect()

    @begins_unawaited
    async def stop(self, *, settle: float = 0.0) -> None:
        """Stops answering and leaves the space; running answers may still take `settle` seconds. `disconnect` is the
        same."""
        if self._notes:
            await asyncio.wait(self._notes, timeout=NOTES_WITHIN)
        await self.controls.leave()
        self._repeats.stop()
        await self.request_server.stop(settle=settle)
        await self.results.stop()
        self._executions.stop()
        await self.client.disconnect()
        await self.discovery.close()

    connect, disconnect = start, stop

    def _find_room(self) -> int:
        """The bytes of a message that both this client and its gateway take."""
        told = self.client.extension.get("message_bytes")
        return min(told, MAX_MESSAGE) if isinstance(told, int) else MAX_MESSAGE

    async def _note_left_out(self, text: str) -> None:
        if (note := getattr(self.tools, "note_left_out", None)) is not None:
            await note(text)
        else:
            logger.warning("%s: %s", one_line(self.client.id or "", 80), text)

    # --- handlers; each method returns a function that removes the handler ---

    def on_ready(self, handler: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Calls `handler` with the welcome of each admission, also after a broken link; not when rights change."""
        return self._ready.add(handler)

    def on_shutdown(self, handler: Callable[[Envelope | None], object]) -> Callable[[], None]:
        """Calls and awaits `handler` before it leaves for good, with the `participant/shutdown` or None."""
        return self.controls.on_leaving(handler)

    def on_chat(self, handler: Callable[[Envelope], object]) -> Callable[[], None]:
        """Calls `handler` with each well-formed chat message of another participant."""
        return self.chats.on_chat(handler)

    def on_mcp_request(self, handler: Callable[[Envelope], object]) -> Callable[[], None]:
        """Calls `handler` with each request or notification that this participant executes; `tools` answers it."""
        return self._requests.add(handler)

    def on_mcp_proposal(self, handler: Callable[[Envelope], object]) -> Callable[[], None]:
        """Calls `handler` with each well-formed proposal of another participant, with any addressees."""
        return self._proposed.add(handler)

    def on_participant_join(self, handler: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Calls `handler` with the `{"id", "capabilities"}` of each participant that joins later."""
        return self._joins.add(handler)

    def on_change(self, handler: Callable[[Change], object]) -> Callable[[], None]:
        """Calls `handler` with each change of a proposal in the ledger of calls."""
        return self._changes.add(handler)

    @property
    def misbehaviour(self) -> Counter[str]:
        """The number of malformed messages by sender. Spec: §8.2."""
        return self.dispatcher.misbehaviour

    # --- tools and resources ---

    def register_tool(self, tool: Callable[..., Any] | Mapping[str, Any], **options: Any) -> None:
        """Offers a typed function, or `{"name", "description", "inputSchema", "execute"}`; see `ToolBox.add`."""
        self.tools.add(tool, **options)

    def register_resource(self, uri: str | Mapping[str, Any], content: Any = None, **options: Any) -> None:
        """Offers a text, bytes, or the result of a function; see `ToolBox.add_resource`."""
        self.tools.add_resource(uri, content, **options)

    def register_method(self, method: str, answer: AnswerMethod) -> None:
        """Answers requests of an MCP method by `answer(params)`, in place of `tools`.

        It may take its time, returns the result, or raises an RpcError. It is cancelled when the requester cancels.
        """
        self._answerer.methods[method] = fit_handler(answer)

    # --- calls ---

    def can_send(
        self, kind: str | Mapping[str, Any], payload: Mapping[str, Any] | None = None, to: Names = ()
    ) -> bool:
        """Whether a capability permits it; `kind` may also be a partial envelope.

        A withdraw of an own proposal and a cancel of an own chat message need none at a gateway of ours.

        Spec: §4.1, ruling R36.
        """
        if isinstance(kind, str):
            return self.sender.permitted(kind, payload or {}, to=to)
        about = kind.get("correlation_id") or ()
        return self.sender.permitted(
            kind["kind"], kind.get("payload") or {}, to=kind.get("to") or (), about=about
        )

    def call(
        self,
        target: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        resilient: bool = False,
        correlation_id: Names = (),
        context: str | None = None,
        propose: bool = False,
        progress: bool = False,
        proposal_progress: bool = False,
    ) -> Call:
        """Calls `participant/tool`: by a request if this participant may send it, else by a proposal. Awaiting the
        returned call gives the result.

        Args:
            timeout: seconds until it ends (a proposal is withdrawn); None takes `request_timeout` for a request,
                and no limit for a proposal.
            resilient: whether a proposal goes on waiting after a rejection; another participant may fulfil it.
            correlation_id: the messages that it is about, such as the reasoning that led to it.
            context: the sequence that it belongs to, as the answer does then.
            propose: whether it is a proposal even where a request is permitted.
            progress: whether a request asks for reports of its progress, which `Call.progress` has and everybody sees.
            proposal_progress: the same for a proposal.

        Raises:
            CapabilityViolation: this participant may send neither.
            LocalProtocolError: `target` is not of the form `participant/tool`, or is this participant itself.
            ConnectionLost: there is no connection.

        Spec: §3.1.1, §3.2.
        """
        to, payload = tool_call(target, arguments)
        return self.correlations.call(
            to,
            payload,
            what=target,
            timeout=timeout,
            resilient=resilient,
            kind="mcp/proposal" if propose else None,
            about=names(correlation_id),
            context=context,
            progress=progress,
            proposal_progress=proposal_progress,
        )

    def propose(
        self,
        target: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        resilient: bool = False,
    ) -> Call:
        """Like `call`, but always as a proposal. Spec: §3.2."""
        return self.call(target, arguments, timeout=timeout, resilient=resilient, propose=True)

    def mcp_request(
        self,
        to: Names,
        payload: Mapping[str, Any],
        *,
        timeout: float | None = None,
        resilient: bool = False,
        correlation_id: Names = (),
        context: str | None = None,
        propose: bool = False,
    ) -> Call:
        """Any MCP request (`{"method", "params"}`), routed and described as by `call`. Spec: §3.1.1, §3.2."""
        return self.correlations.call(
            names(to),
            payload,
            timeout=timeout,
            resilient=resilient,
            kind="mcp/proposal" if propose else None,
            about=names(correlation_id),
            context=context,
        )

    async def list_tools(self, participant: str, *, timeout: float | None = 10.0) -> list[dict[str, Any]]:
        """The tools of another participant: the callable entries of its `tools/list`, of all pages.

        Raises:
            CapabilityViolation: this participant may not send the request.
            ToolFailed, NoReply, ConnectionLost: as a call.
        """
        return list((await list_tools(self.correlations, participant, timeout=timeout)).entries)

    async def wait_for_pending_discoveries(self, *, timeout: float) -> bool:
        """Waits until no discovery of tools is in progress, at most `timeout` seconds; returns whether that is so."""
        return await self.discovery.wait_for_pending_discoveries(timeout)

    @at_once
    def notify(
        self, method: str, params: Mapping[str, Any] | None = None, *, to: Names = ()
    ) -> Coroutine[Any, Any, Envelope]:
        """Sends an MCP notification (`notifications/…`), which has no answer; raises as `chat`. Spec: §3.1."""
        payload = given(jsonrpc="2.0", method=method, params=None if params is None else dict(params))
        return self.sender.hand_over("mcp/request", payload, to=to)

    # --- chat; these messages are sent at once, whether they are awaited or not ---

    @at_once
    def chat(
        self,
        text: str,
        to: Names = (),
        *,
        format: str | None = None,
        correlation_id: Names = (),
        context: str | None = None,
    ) -> Coroutine[Any, Any, Envelope]:
        """Sends a chat to everybody, or to the participants in `to`. `format` is `plain` or `markdown`. Spec: §3.4.

        Raises:
            CapabilityViolation: this participant may not chat.
        """
        return self.sender.hand_over(
            "chat", given(text=text, format=format), to=to, about=correlation_id, context=context
        )

    def ask(self, text: str, to: Names, *, timeout: float | None = None) -> Call:
        """Sends `text` as a chat, such as to an agent; awaiting the returned call gives the text of the answer.

        Args:
            timeout: seconds until it is withdrawn by a `chat/cancel`; None waits without a limit.

        Raises:
            CapabilityViolation: this participant may not chat.
            LocalProtocolError: it is addressed to nobody.
            ConnectionLost: there is no connection.

        Spec: §3.4, §3.5.1.
        """
        return self.correlations.ask(text, names(to), timeout=timeout)

    @at_once
    def acknowledge_chat(
        self, message_id: str, to: Names = (), status: str = "received"
    ) -> Coroutine[Any, Any, Envelope]:
        """Acknowledges a chat message. Spec: §3.4.1."""
        sent = self.sender.hand_over("chat/acknowledge", {"status": status}, to=to, about=message_id)
        self.chats.settle(message_id, "acknowledged")
        return sent

    @at_once
    def cancel_chat(
        self, message_id: str, to: Names = (), reason: str = "handled_elsewhere"
    ) -> Coroutine[Any, Any, Envelope]:
        """Cancels a chat message, so that it needs no attention. Spec: §3.4.2."""
        sent = self.sender.hand_over("chat/cancel", {"reason": reason}, to=to, about=message_id)
        self.chats.settle(message_id, "cancelled")
        return sent

    async def send_accepted(
        self, draft: Envelope | Mapping[str, Any], *, timeout: float = ACCEPTED_WITHIN
    ) -> Envelope:
        """Sends any message and waits until the gateway has accepted it; returns its echo.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway neither accepted nor refused it.
            ConnectionLost: there is no connection, or it ended meanwhile.
        """
        return await self.correlations.send_accepted(draft, timeout=timeout)

    # --- decisions ---

    def own_proposals(self) -> list[Proposal]:
        """The undecided proposals of this participant, the oldest first."""
        return [
            proposal
            for proposal in self.proposals
            if proposal.proposer == self.client.id and not proposal.decided
        ]

    async def approve(
        self,
        proposal_id: str,
        *,
        digest: str | None = None,
        to: Names | None = None,
        params: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        rows: Rows | None = None,
        despite: Names = (),
        option: str = "",
        receipt: Mapping[str, Any] | None = BY_SCRIPT,
    ) -> Envelope:
        """Fulfils a proposal of another by a request made of its own bytes; returns the request once accepted.

        Args:
            digest: the digest that the deciding person was shown (`Proposal.digest`, `Edit.digest`); None skips the
                check.
            to: the addressees, where the proposal names none; it is then marked as edited.
            params: replaces the proposed `params`, for the same tool; it is then marked as edited.
            request_id: the id of the request; None makes a new one.
            rows: the rows of the request that the person was shown; they must rebuild it exactly.
            despite: `rejected` approves it although a participant has rejected it.
            option: the id of the option that is chosen of the permission of an agent; empty means the only one of the
                kind `allow_once` (R41).
            receipt: how it was decided, for a gateway that takes receipts (R42): `how` is `click`, `typed`, `script`,
                `policy`, `rule` or `approver`, `by` says who or which policy or rule. None where the decision is noted
                elsewhere.

        Raises:
            ProposalEnded: it was withdrawn, fulfilled or rejected before, so nothing was sent; or another decision
                reached the space first, so that executors of ours refuse the request.
            LocalProtocolError: it is unknown, an own one, or differs from what was shown.
            CapabilityViolation: this participant may not send the request.

        Spec: §3.2.1, ruling R17.
        """
        steps = draft_approval(
            self.proposals,
            proposal_id,
            me=self.client.id,
            digest=digest,
            to=None if to is None else names(to),
            params=params,
            request_id=request_id or self.client.new_id(),
            rows=rows,
            despite=names(despite),
            option=option,
        )
        sent = await self._decide(proposal_id, await in_slices(steps))
        if receipt is not None:
            note: dict[str, Any] = {"about": "receipt", "proposal": proposal_id, "decision": "approve"}
            note |= {"request": sent.id, "edited": params is not None, **receipt}
            note |= self._tell_option(proposal_id, lambda asked: asked.chosen(option))
            if digest is not None:
                note["digest"] = digest
            if to is not None:
                note["to"] = list(names(to))
            self._report_quietly(note)
        request = self.ledger.calls.requests.get(sent.id)
        if request is not None and request.envelope is sent and request.late:
            ended = self.proposals.get(proposal_id)
            by = "" if ended is None else ended.by
            raise ProposalEnded(
                f"Proposal {one_line(proposal_id, 80)}: {request.late}; not executed",
                proposal=proposal_id,
                by=by,
            )
        return sent

    async def reject(
        self,
        proposal_id: str,
        reason: str = "disagree",
        *,
        receipt: Mapping[str, Any] | None = BY_SCRIPT,
    ) -> Envelope:
        """Rejects a proposal of another with a standard code or any text; `receipt`, and what it raises, as `approve`.

        Spec: §3.3.2, ruling R42.
        """
        draft = draft_rejection(self.proposals, proposal_id, me=self.client.id, reason=reason)
        sent = await self._decide(proposal_id, draft)
        if receipt is not None:
            note = {"about": "receipt", "proposal": proposal_id, "decision": "reject", **receipt}
            self._report_quietly(note | self._tell_option(proposal_id, lambda asked: asked.rejection))
        return sent

    def _tell_option(
        self, proposal_id: str, find: Callable[[PermissionRequest], PermissionOption | None]
    ) -> dict[str, dict[str, str]]:
        """What a receipt says of the option that a decision chose; nothing where there is none."""
        proposal = self.proposals.get(proposal_id)
        asked = None if proposal is None else proposal.permission
        option = None if asked is None else find(asked)
        return {} if option is None else {"option": option.receipt}

    async def withdraw(self, proposal_id: str, reason: str = "no_longer_needed") -> Envelope:
        """Withdraws an own proposal; raises as `approve`, also where an approval came first. Spec: §3.3.1, R18."""
        draft = draft_withdrawal(self.proposals, proposal_id, me=self.client.id, reason=reason)
        sent = await self._decide(proposal_id, draft)
        proposal = self.proposals.get(proposal_id)
        if proposal is not None and proposal.request is not None:
            message = (
                f"{proposal.by} approved proposal {proposal_id} before its withdraw arrived; it may have run"
            )
            raise ProposalEnded(message, proposal=proposal_id, by=proposal.by)
        return sent

    def find_running(self, call_id: str) -> Envelope:
        """The request that runs, by its id or by that of the proposal that it fulfils.

        Raises:
            MewError: there is none, or it has ended; the error says how.
        """
        label = one_line(call_id, 80)
        proposal, request = self.proposals.get(call_id), self.ledger.calls.requests.get(call_id)
        if proposal is not None:
            if proposal.state == "fulfilled" and proposal.request is not None:
                return proposal.request.envelope
            raise MewError(f"Cannot cancel {label}: it does not run; the proposal is {proposal.state}")
        if request is None:  # unless it was just sent: its cancellation comes after it
            if (sent := self.correlations.waiting("mcp/request").get(call_id)) is not None:
                return sent
            raise MewError(f"Cannot cancel {label}: no call of that id is known here")
        if request.state != "waiting":
            raise MewError(f"Cannot cancel {label}: it does not run any more; it is {request.state}")
        return request.envelope

    async def cancel(self, call_id: str, reason: str = "no_longer_needed") -> Envelope:
        """Cancels a call that runs; returns the message once accepted.

        Its executor, where it is one of ours, heeds the requester, the proposer and a participant that may remove it
        from the space. The outcome of the call is its answer where one still comes, else it is unknown (R35).

        Args:
            call_id: the id of the request, or of the proposal that it fulfils.

        Raises:
            MewError: there is no such call, or it has ended.
            CapabilityViolation: this participant may not send the message.
        """
        self.client.check_loop()
        request = self.find_running(call_id)
        sent = await self.send_accepted(self.sender.require(cancellation_of(request, reason)))
        related = (self.proposals.get(id) for id in request.correlation_id)
        fulfilled = [one.id for one in related if one is not None and one.fulfilment == request.id]
        for id in (request.id, *fulfilled):
            self.correlations.limit_after_cancel(id, reason)
        return sent

    async def report_outcome(self, request: str, to: Names, *, happened: bool, note: str = "") -> bool:
        """Reports what a person found out about a call whose outcome is unknown.

        Args:
            to: the targets of the request.
            happened: whether the call took effect.
            note: what was found out, and how; at most 1000 characters.

        Returns:
            Whether this gateway takes such reports.

        Raises:
            MewError: the gateway did not take it, or did not answer.

        Spec: ruling R42.
        """
        about = {"about": "resolution", "request": request, "to": list(names(to)), "happened": happened}
        return await self.client.send_note({**about, "note": note} if note else about)

    def _report_quietly(self, note: dict[str, Any]) -> None:
        """Reports a note in the background: the decision is made, whatever becomes of the note."""

        async def send() -> None:
            try:
                await self.client.send_note(note)
            except MewError as fault:
                self.client.report(fault)

        if self.client.extension.get("notes"):
            self._notes.start(send())

    async def _decide(self, id: str, draft: dict[str, Any]) -> Envelope:
        fitting = self.sender.require(draft)
        if id in self._deciding:
            message = f"Proposal {id} is being decided by {self.client.id} already; that is on its way"
            raise ProposalEnded(message, proposal=id, by=self.client.id)
        if self.client.state == "ready":  # else nothing is sent
            self._deciding.add(id)
        try:
            sent = await self.send_accepted(fitting)
        except (Refused, LocalProtocolError):
            self._deciding.discard(id)
            raise  # after any other end it may have been executed, so it is not decided again
        self._deciding.discard(id)
        return sent

    # --- announcements of own lists ---

    def _note_changed_list(self, what: str) -> None:
        """Schedules the announcement for the next turn of the loop: a cell that defines ten tools announces once."""
        if self.client.state == "disconnected":
            return
        is_first = not self._changed_lists
        self._changed_lists.add(what)
        if is_first:
            self.client.call_soon(self._announce_lists)

    def _announce_lists(self) -> None:
        """Announces the lists that changed, if this participant may. Spec: §3.1, MCP "List Changed"."""
        changed, self._changed_lists = sorted(self._changed_lists), set()
        for what in changed:
            payload = {"jsonrpc": "2.0", "method": f"notifications/{what}/list_changed"}
            self.sender.quietly("mcp/request", payload)

    # --- what is received ---

    def _on_connected(self, _: None) -> None:
        self._admitted = False

    def _on_welcome(self, welcome: dict[str, Any]) -> None:
        self.ledger.rename(self.client.id)
        if not self._admitted:  # later ones only report changed rights
            self._admitted = True
            self._ready(welcome)

    def _note_error(self, envelope: Envelope, payload: SystemError) -> None:
        if not self.correlations.refuse(envelope):
            name, capabilities = self.client.id, self.client.capabilities
            self.client.report(refusal(envelope, sent=None, name=name, capabilities=capabilities))

    def _note_presence(self, envelope: Envelope, payload: SystemPresence) -> None:
        if payload.event == "join" and payload.participant and payload.participant.id != self.client.id:
            self._joins(envelope.payload["participant"])

    def _note_entry(self, entry: Entry) -> None:
        """Passes a message, malformed or not, to the ledger, and its changes to the parts."""
        changes = self.ledger.observe(entry)
        self._executions.observe(entry)
        if changes:  # most messages between others change nothing
            self._follow(changes)

    def _follow(self, changes: tuple[LedgerChange, ...]) -> None:
        chats: list[ChatChange] = []
        streams: list[StreamChange] = []
        for change in changes:
            if isinstance(change, ChatChange):
                chats.append(change)
            elif isinstance(change, Change):
                if isinstance(change.call, Proposal):
                    self._executions.follow(change)
                    self.correlations.follow(change)
                self._follow_call(change)
            elif isinstance(change, StreamChange):
                streams.append(change)
            elif isinstance(change, GrantChange):
                self.rights.follow(change)
            elif isinstance(change, ReasoningChange) and change.what == "cancelled":
                self.correlations.cancel_questions(change)
        if chats:
            self.chats.follow(chats)
        if streams:
            self.streams.follow(streams)

    def _follow_call(self, change: Change) -> None:
        if isinstance(change.call, Proposal):
            self._changes(change)
        self._note_unknown(change, time.time())

    def _note_unknown(self, change: Change, now: float) -> None:
        if self.unknown_calls.follow(change, now):
            self.unknown_changed(change)

    def adopt_unknown(self, calls: Iterable[UnknownCall]) -> None:
        """Takes the calls of unknown outcome from before it joins, where the journal of the space tells them.

        To be called before it joins. Its own notes of earlier executions then tell of none. Spec: R35.
        """
        self._executions.reads_lost = False
        for call in calls:
            for change in self.ledger.calls.adopt(call.request):
                self._note_unknown(change, call.since)

    def resolve(self, request_id: str, happened: bool, *, by: str, note: str = "") -> bool:
        """Takes what a participant found out about a call of unknown outcome; returns whether it was one. Spec: R42."""
        changes = self.ledger.calls.resolve(request_id, happened, by, note)
        for change in changes:
            self._follow_call(change)
        self.unknown_calls.drop(request_id)  # also where the ledger has forgotten it
        self._executions.settle(request_id)
        return bool(changes)

    def _take_report(self, first: FirstCall, found: Mapping[str, Any]) -> None:
        self.resolve(first.request, found["happened"], by=found["by"], note=str(found.get("note", "")))

    def _take_request(self, envelope: Envelope, payload: McpRequest) -> None:
        if (
            envelope.sender != self.client.id
            and self.client.id in envelope.to
            and self._executions.take(envelope, payload)
        ):
            self._requests(envelope)

    def _may_cancel(self, sender: str, request: Envelope) -> bool:
        """Whether it may cancel a request of another: it proposed the call, or may remove this participant anyway.

        The owner of a space may; no message says who that is.
        """
        for id in request.correlation_id:
            proposal = self.proposals.get(id)
            fulfilment = None if proposal is None or proposal.proposer != sender else proposal.request
            if fulfilment is not None and (fulfilment.id, fulfilment.sender) == (request.id, request.sender):
                return True
        held, _ = read_capabilities(
            self.client.participants.get(sender, ()), edition=self.client.pattern_edition
        )
        return held.permit("space/kick", (), {"participant_id": self.client.id or ""}).allowed

    def _judge_quorum(
        self, request: Envelope, proposals: Sequence[Proposal], unseen: bool
    ) -> RpcError | None:
        """The refusal of a request for which a quorum is missing; None where none is. Spec: R39."""
        if self.quorum is None or not has_effect(method_of(request.payload)):
            return None
        return judge_quorum(self.quorum, self.reviews, request, proposals, unseen=unseen)

    def _find_first(self, request: Envelope, payload: McpRequest) -> FirstCall | None:
        """The call of unknown outcome that a request repeats; None where it repeats none. Spec: R35."""
        if not has_effect(payload.method):
            return None
        tool = tool_of(request.payload)
        hints = getattr(self.tools, "hints_of", None)
        if not self.strict_unknown and tool and hints is not None and may_repeat(hints(tool)):
            return None
        now = time.time()
        if (found := self.unknown_calls.find(request.to, request.payload, now, but=request.id)) is not None:
            return FirstCall(found.request.id, found.request.sender, found.request.to)
        if lost := self._executions.find_lost(request.payload, now - self.unknown_calls.within):
            return FirstCall(lost.request, lost.by, lost.to or (self.client.id,))
        return None

    def _make_execution_file(self, state: Callable[[], Path | None] | None) -> ExecutionFile | None:
        folder = state() if state is not None else None
        if folder is None:
            return None
        identity = partial(SpaceIdentity, address=self.client.gateway)
        return ExecutionFile(
            folder,
            self.client.space or "",
            self.client.id or "",
            space=lambda: identity(epoch=self.client.epoch),
        )

    def _take_proposal(self, envelope: Envelope, payload: McpProposal) -> None:
        if envelope.sender != self.client.id:
            self._proposed(envelope)

    def _on_disconnected(self, error: MewError | None) -> None:
        ended = self.ledger.interrupt(for_good=self.client.state == "disconnected")
        for change in ended:
            if isinstance(change, Change):
                self._follow_call(change)
        self.correlations.lose(error)
        self.telemetry.lost()
        self.reviews.lose()
        self.rights.lost()
        self.streams.lost([change for change in ended if isinstance(change, StreamChange)])
        self.discovery.lost()


PARTICIPANT_OPTIONS = frozenset(
    name
    for kind in (MEWParticipant, MEWClient)
    for name, parameter in inspect.signature(kind).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
)
"""The names of the arguments of a participant, those of its client among them."""
