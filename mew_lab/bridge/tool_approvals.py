"""Has the tool calls of an agent framework approved in a space, while the framework goes on executing them.

A framework that asks a person before it calls a tool has pending calls. `ToolApprovals` makes a proposal of each, from
one participant, the *proposer*, to a second one, the *host*, which offers these tools to the space under their names.
Whoever approves the proposal sends the request to the host, as with any proposal (§3.2.1). The arguments of that
request are those which the framework must execute: a person may have edited them.

The host answers that the call is approved and who executes it. A request of which no proposal of this object is open
is an error, so that no approval counts twice and nobody can order a call that the framework did not ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import ConnectionLost, MewError, ProposalEnded
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.group import run_all
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED

__all__ = ["PendingCall", "ToolApprovals", "ToolDecision"]

ANY_OBJECT = {"type": "object"}


class ToolDecision(NamedTuple):
    """The decision about one pending call.

    Attributes:
        approved: Whether the tool may be executed.
        arguments: What it may be executed with, as the accepted request says it; the proposed ones if not approved.
        edited: Whether these differ from the proposed ones.
        reason: Why it was not approved, in words for the model; empty if it was.
        decided: Whether a participant decided it; else it could not be asked for, or was approved in a form that it
            does not take.
    """

    approved: bool
    arguments: dict[str, Any]
    edited: bool = False
    reason: str = ""
    decided: bool = True


class PendingCall(NamedTuple):
    """A call that a framework has not executed yet, with the name and the arguments that its model gave.

    Attributes:
        arguments: No object where the model wrote none: the call is refused then, and the reason says so.
        description: What the card says of the tool.
        schema: The JSON Schema of the arguments; None takes any object.
    """

    name: Any
    arguments: Any
    description: str = ""
    schema: Mapping[str, Any] | None = None


class ToolApprovals:
    """Proposes pending calls and returns the decisions.

    Args:
        proposer: A started participant that may send `mcp/proposal`, such as one of the profile `proposer`.
        host: A started participant that may send `mcp/response`, such as one of the profile `tool`. Its tools are
            added as calls of them are proposed.
        on_loop: Runs a coroutine on the loop of the two participants; None if `decide` is awaited there.
    """

    def __init__(
        self,
        proposer: MEWParticipant,
        host: MEWParticipant,
        *,
        on_loop: Callable[[Coroutine[Any, Any, ToolDecision]], Awaitable[ToolDecision]] | None = None,
    ) -> None:
        self._on_loop = on_loop
        self._proposer = proposer
        self._host = host
        # a proposal -> tool, arguments once approved
        self._open: dict[str, tuple[str, dict[str, Any] | None]] = {}
        self._offered: dict[str, tuple[str, Mapping[str, Any]]] = {}  # a tool -> its description and schema

    async def decide(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        description: str = "",
        schema: Mapping[str, Any] | None = None,
    ) -> ToolDecision:
        """Proposes one call and waits for the decision. A caller that is cancelled withdraws its proposal.

        Args:
            name: The tool, in the characters that MCP allows.
            description: What the card says of the tool.
            schema: The JSON Schema of its arguments, to which an edit must keep; None takes any object.

        Raises:
            CapabilityViolation: the proposer may not propose it.
            ConfigError: the name or the schema is not fit for a tool.
            ConnectionLost: there is no connection.
        """
        work = self._decide(name, dict(arguments), description, schema or ANY_OBJECT)
        return await (work if self._on_loop is None else self._on_loop(work))

    async def _decide(
        self, name: str, proposed: dict[str, Any], description: str, schema: Mapping[str, Any]
    ) -> ToolDecision:
        self._offer(name, description, schema)
        call = self._proposer.propose(f"{self._host.client.id}/{name}", proposed)
        self._open[call.id] = (name, None)
        try:
            await call
            approved = self._open[call.id][1]
        except ProposalEnded as end:
            return ToolDecision(False, proposed, reason=str(end))
        except asyncio.CancelledError:
            await call.withdraw()
            raise
        finally:
            del self._open[call.id]
        if approved is None:
            return ToolDecision(False, proposed, reason="The answer to the approval came from elsewhere.")
        return ToolDecision(True, approved, edited=not are_equal(approved, proposed))

    async def decide_all(self, calls: Sequence[PendingCall]) -> list[ToolDecision]:
        """The decisions about the calls of one run, in their order; all are asked for at once.

        A call that cannot be asked for is refused, and the others go on. Where the whole cannot go on, because the
        caller is cancelled or there is no connection, the proposals of the others are withdrawn.

        Raises:
            ConnectionLost: there is no connection.
        """
        return await run_all(map(self._decide_or_refuse, calls))

    async def _decide_or_refuse(self, call: PendingCall) -> ToolDecision:
        arguments = call.arguments
        if not isinstance(call.name, str):
            return ToolDecision(False, {}, reason="Not approved: the call names no tool.", decided=False)
        if not isinstance(arguments, Mapping):
            reason = f"Not approved: the arguments of {one_line(call.name, 128)} are no JSON object. Call it with one."
            return ToolDecision(False, {}, reason=reason, decided=False)
        try:
            return await self.decide(call.name, arguments, description=call.description, schema=call.schema)
        except ConnectionLost:
            raise
        except MewError as fault:
            return ToolDecision(False, dict(arguments), reason=f"Not approved: {fault}", decided=False)

    def _offer(self, name: str, description: str, schema: Mapping[str, Any]) -> None:
        offered = self._offered.get(name)
        if offered is not None and offered[0] == description and are_equal(offered[1], schema):
            return

        async def note_approval(**arguments: Any) -> str:
            return self._note_approval(name, arguments)

        self._host.register_tool(note_approval, name=name, description=description, input_schema=schema)
        self._offered[name] = (description, schema)

    def _note_approval(self, name: str, arguments: dict[str, Any]) -> str:
        request = ASKED.get()
        for id in request.correlation_id if request is not None else ():
            proposal = self._host.proposals.get(id)
            # Else it is a request by its sender's own right, which names the proposal beside (R17).
            fulfils = request is not None and proposal is not None and proposal.fulfilment == request.id
            if fulfils and self._open.get(id) == (name, None):
                self._open[id] = (name, arguments)
                return f"Approved. {self._proposer.client.id} executes the call itself."
        raise PermissionError(f"No open proposal of {self._proposer.client.id} asks for this call of {name}.")
