"""Has the people of a space answer the permission requests of an ACP agent: each is a proposal of the agent to itself.

How it works
------------
`Permissions.ask` proposes the call `permission` from the participant to itself. Its arguments are all that the agent
showed, and the options among which it lets choose. A participant that decides sends the request with one more argument,
`option`. The ledger and the executor of the participant take the first such request alone (R17, R32), and it comes to
`_take`, which gives the option to the agent, unchanged.

    no option      the only one of kind `allow_once`; none or several of these: an error, and nothing is chosen
    mcp/reject     the only one of kind `reject_once`; none or several of these: no option is sent
    an edit        an error, and nothing is chosen: ACP cannot carry it

After such an error the proposal is used up, so the agent's question is proposed anew.

Spec: rulings R17, R32, R41.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mew_lab.errors import MewError, OutcomeUnknown, ProposalRejected, ToolFailed
from mew_lab.ledger.options import OPTION, TOOL, find_choice_fault, read_arguments
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.difference import are_equal
from mew_lab.sdk.calls import Call
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.request_server import ASKED

__all__ = ["PERMISSION", "Effect", "PermissionDecision", "Permissions", "read_options"]

PERMISSION = TOOL
MAX_OPEN = 32  # questions of one agent that wait at once
MAX_ANEW = 20  # times that one question is proposed again after an answer that chose nothing
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["question", "options"],
    "properties": {
        "question": {"type": "string"},
        "options": {"type": "array", "items": {"type": "object", "required": ["id", "name", "kind"]}},
        "option": {"type": "string", "description": "the id of the option that is chosen"},
    },
}
DESCRIPTION = (
    "Answers a permission request of this agent. Only the agent itself asks; a decision adds `option`, the id of one of "
    "the options."
)


Effect = Callable[[str], Awaitable[None]]
"""Does what an option means, before its choice is answered. Raises ValueError where it could not be done."""


class PermissionDecision(NamedTuple):
    """What became of a question.

    Attributes:
        option: The id that the agent is sent; None where it is sent none.
        by: The participant that decided; empty where nobody did.
        reason: Why it was rejected, or not asked for.
        rejected: Whether a participant rejected it.
        proposal: The id of the proposal that a request fulfilled; empty where none did.
    """

    option: str | None
    by: str = ""
    reason: str = ""
    rejected: bool = False
    proposal: str = ""


def read_options(options: object) -> list[dict[str, str]]:
    """The options of a permission request, in their order.

    Raises:
        ValueError: they are no list of options with a name and an id; the error says so.
    """
    read = []
    for option in options if isinstance(options, list) else ():
        id, name, kind = (mapping_of(option).get(key) for key in ("optionId", "name", "kind"))
        if not isinstance(id, str) or not isinstance(name, str):
            raise ValueError("an option of the permission request lacks its id or its name")
        read.append({"id": id, "name": name, "kind": kind if isinstance(kind, str) else ""})
    if not read:
        raise ValueError("the permission request has no options")
    return read


class _Question:
    """A question that waits, its newest proposal and its decision."""

    def __init__(self, arguments: Mapping[str, Any], effect: Effect | None) -> None:
        self.arguments = arguments
        self.effect = effect
        self.asked = read_arguments(arguments)
        self.decision: asyncio.Future[PermissionDecision] = asyncio.get_running_loop().create_future()

    def decide(self, decision: PermissionDecision) -> None:
        if not self.decision.done():
            self.decision.set_result(decision)


class Permissions:
    """The open questions of one agent. It offers the tool `permission` of the participant, which answers them."""

    def __init__(self, participant: MEWParticipant) -> None:
        self._participant = participant
        self._open: dict[str, _Question] = {}  # by the id of the proposal
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._withdrawing = RunningTasks()
        participant.register_tool(self._take, name=PERMISSION, description=DESCRIPTION, input_schema=SCHEMA)

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self,
        arguments: Mapping[str, Any],
        *,
        context: str | None = None,
        about: Sequence[str] = (),
        effect: Effect | None = None,
    ) -> PermissionDecision:
        """Proposes a question and waits for the decision. A caller that is cancelled withdraws it.

        Args:
            arguments: what the agent showed, with `question` and `options` (`read_options`).
            context: the reasoning that led to it, and `about` the messages that it refers to.
            effect: called with the option that a request chose, before that is answered.
        """
        if len(self._open) >= MAX_OPEN:
            return PermissionDecision(None, reason=f"{MAX_OPEN} questions of this agent wait already")
        question = _Question(arguments, effect)
        for _ in range(MAX_ANEW):
            decision = await self._propose(question, context, about)
            if decision is not None:
                return decision
        return PermissionDecision(None, reason=f"{MAX_ANEW} answers chose no option")

    async def _propose(
        self, question: _Question, context: str | None, about: Sequence[str]
    ) -> PermissionDecision | None:
        """Proposes it once; returns None where an answer chose nothing, so that the proposal is used up."""
        me = self._participant.client.id
        try:
            call = self._participant.call(
                f"{me}/{PERMISSION}", question.arguments, propose=True, context=context, correlation_id=about
            )
        except MewError as fault:
            return PermissionDecision(None, reason=f"it could not be asked: {fault}")
        self._open[call.id] = question
        self._none_open.clear()
        ended = asyncio.ensure_future(call.outcome())
        try:
            await asyncio.wait({ended, question.decision}, return_when=asyncio.FIRST_COMPLETED)
            if not question.decision.done():
                return self._read_end(call, question, ended)
            return question.decision.result()
        finally:
            _ = ended.cancel() or ended.cancelled() or ended.exception()  # nobody else reads it
            del self._open[call.id]
            if not self._open:
                self._none_open.set()
            if not call.done and call.state in ("open", "rejected"):
                self._withdrawing.start(_withdraw(call))

    @staticmethod
    def _read_end(call: Call, question: _Question, ended: asyncio.Future[Any]) -> PermissionDecision | None:
        try:
            ended.result()
        except ProposalRejected as fault:
            option = question.asked.rejection
            return PermissionDecision(option.id if option else None, fault.by, fault.reason, rejected=True)
        except (ToolFailed, OutcomeUnknown):
            return None
        except MewError as fault:
            return PermissionDecision(None, call.by, reason=str(fault))
        return None

    def cancel_all(self, reason: str) -> int:
        """Ends all open questions without an option, and withdraws their proposals; returns how many."""
        for question in tuple(self._open.values()):
            question.decide(PermissionDecision(None, reason=reason))
        return len(self._open)

    async def close(self) -> None:
        """Waits until the last proposals are withdrawn."""
        self.cancel_all("the agent has ended")
        await self._none_open.wait()
        if self._withdrawing:
            await asyncio.wait(self._withdrawing, timeout=2.0)

    async def _take(self, **arguments: Any) -> dict[str, Any]:
        """Answers a request for `permission`: only as the fulfilment of an open question."""
        request = ASKED.get()
        question, fulfilled = None, ""
        for id in request.correlation_id if request is not None else ():
            proposal = self._participant.proposals.get(id)
            # Else it is a request by its sender's own right, which names the proposal beside.
            if request is not None and proposal is not None and proposal.fulfilment == request.id:
                question, fulfilled = self._open.get(id), id
        if question is None or question.decision.done():
            raise PermissionError(
                "no open question of this agent is answered by it: the agent asks, and a decision fulfils its proposal"
            )
        option = arguments.pop(OPTION, None)
        if not are_equal(arguments, question.arguments):
            raise ValueError(
                "nothing was chosen: only `option` can be added, the agent takes no changed call"
            )
        chosen = question.asked.default if option is None else question.asked.find(option)
        if chosen is None:
            named = option if isinstance(option, str) else ""
            raise ValueError(f"nothing was chosen, because {find_choice_fault(question.asked, named)}")
        assert request is not None
        question.decide(PermissionDecision(chosen.id, request.sender, proposal=fulfilled))
        if question.effect is not None:
            await question.effect(chosen.id)
        return {"option": chosen.id, "name": chosen.name}


async def _withdraw(call: Call) -> None:
    with contextlib.suppress(MewError):
        await call.withdraw("cancelled")
