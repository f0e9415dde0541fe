"""Passes what an MCP server asks of its client (a form, a reply of a model, its roots) to a person of the space.

How it works
------------
A question becomes an `mcp/request` of the bridged participant with the server's own method and params, addressed to one
person, and correlated to the call that it belongs to. Her participant shows it and answers with an `mcp/response`. So
the question and the answer stand in the stream and in the journal, like any other call.

- Who is asked: the sender of the call, who decided it. A sender that has no such method (an agent, or a person whose
  policy decided) hands the question on to the *owner* of the bridge. A reply of a model is asked of the owner alone,
  whose model it is.
- Which call: a server of 2026-07-28 asks in its result of one call. An older one does not say. If all calls that it is
  working on are of one sender, she is asked; else the owner. Without a call, nobody is.
- What comes of it: a question that nobody can answer is declined at once. One whose call has ended, whose person has
  left or who does not answer in time is cancelled. Each such end is reported in one sentence.
- Roots are what the owner named, and are answered here.

Spec: §3.1, MCP 2025-11-25 and 2026-07-28 (elicitation, sampling, roots, input_required).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mew_lab.errors import ConfigError, MewError, NoReply, OutcomeUnknown, ProtocolError, ToolFailed
from mew_lab.protocol.elicitation import (
    ASKED_AS,
    CREATE_MESSAGE,
    DECIDER,
    ELICIT,
    OWNER,
    Elicitation,
    read_answer,
    read_elicitation,
)
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

__all__ = ["ASKING", "ServerRequests", "root_of"]

ASKING: Mapping[str, list[dict[str, Any]]] = {
    method: [{"kind": "mcp/request", "payload": {"method": [method, "notifications/cancelled"]}}]
    for method in (ELICIT, CREATE_MESSAGE)
}
"""What a bridged participant must be allowed to send, for each method of its server."""

ROOTS = "roots/list"
CAUSES = frozenset({"tools/call", "prompts/get", "resources/read"})  # what a person decides
MAX_OPEN = 8  # questions of one server that wait at once
MAX_OF_A_CALL = 20
MAX_CALLS = 20  # that a question names
MAX_QUESTION = 256 * 1024  # characters
ANSWER_WITHIN = 3600.0  # seconds
LATE = 60.0  # seconds
DECLINED = -1  # the code of MCP for a sampling request that a person rejects


class _Unanswered(Exception):
    """Nobody has answered; `action` is what the server is told of a form."""

    def __init__(self, why: str, *, action: str) -> None:
        super().__init__(why)
        self.action = action


class ServerRequests:
    """The questions of one server.

    Args:
        owner: the participant that is asked where no person decided; empty for nobody.
        elicitation, sampling: whether the server is offered these.
        roots: the folders or URIs that the server may know; None offers no roots.
        report: awaited with a sentence about each question that was not answered.
        answer_within: seconds that a person has.
    """

    def __init__(
        self,
        *,
        owner: str = "",
        elicitation: bool = False,
        sampling: bool = False,
        roots: Sequence[str | Path] | None = None,
        report: Callable[[str], Awaitable[None]],
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        self.participant: MEWParticipant | None = None
        self.roots = None if roots is None else [root_of(root) for root in roots]
        self._owner = owner
        self._report = report
        self._answer_within = answer_within
        on = {ELICIT: elicitation, CREATE_MESSAGE: sampling, ROOTS: roots is not None}
        self.methods = frozenset(method for method, is_on in on.items() if is_on)
        self._calls: dict[str, Envelope] = {}  # the calls that the server is working on, by id
        self._asked: dict[str, int] = {}  # a call -> how many questions it has led to
        self._open: dict[Call, frozenset[str]] = {}  # a question -> its calls
        self._ended: dict[Call, str] = {}  # a question that ends here -> why

    @contextmanager
    def during(self, request: Envelope | None, method: str) -> Iterator[None]:
        """A context in which the server is working on a call; its questions end with it."""
        if request is None or method not in CAUSES:
            yield
            return
        self._calls[request.id] = request
        try:
            yield
        finally:
            del self._calls[request.id]
            self._asked.pop(request.id, None)
            for question, calls in tuple(self._open.items()):
                if calls.isdisjoint(self._calls):
                    self._end(question, "the call that it belonged to has ended")

    async def answer(
        self, method: str, params: Mapping[str, Any], *, about: Envelope | None = None
    ) -> dict[str, Any]:
        """The result of a request of the server.

        Args:
            about: the call that it belongs to, where the server says so.

        Raises:
            RpcError: the method is not offered, its params are malformed, or a sampling request was not approved.
        """
        if method not in self.methods:
            raise RpcError(METHOD_NOT_FOUND, f"{one_line(method, 80)} is not offered to this server")
        if method == ROOTS:
            return {"roots": list(self.roots or ())}
        asked = None
        if method == ELICIT:
            try:
                asked = read_elicitation(params)
            except ProtocolError as fault:
                raise RpcError(INVALID_PARAMS, f"Invalid params: the question {fault}") from None
        try:
            return await self._ask(method, params, asked, [about] if about else list(self._calls.values()))
        except _Unanswered as fault:
            await self._report(f"A question of the MCP server ({method}) was not answered: {fault}")
            if asked is not None:
                return {"action": fault.action}
            raise RpcError(DECLINED, str(fault)) from None

    async def _ask(
        self, method: str, params: Mapping[str, Any], asked: Elicitation | None, calls: Sequence[Envelope]
    ) -> dict[str, Any]:
        if not calls:
            raise _Unanswered("it belongs to no call, so nobody decided it", action="decline")
        if len(self._open) >= MAX_OPEN:
            raise _Unanswered(f"{MAX_OPEN} questions of this server wait already", action="decline")
        if len(compact(params)) > MAX_QUESTION:
            raise _Unanswered(f"it has more than {MAX_QUESTION} characters", action="decline")
        newest = calls[-1]
        self._asked[newest.id] = self._asked.get(newest.id, 0) + 1
        if self._asked[newest.id] > MAX_OF_A_CALL:
            raise _Unanswered(f"its call has led to {MAX_OF_A_CALL} questions already", action="decline")
        why = "nobody is here to answer it"
        for person, role in self._persons(method, calls):
            try:
                result = await self._ask_person(person, role, method, params, calls)
            except ToolFailed as refusal:
                why = str(refusal)
                if refusal.code == METHOD_NOT_FOUND:
                    continue  # no person, or one who has not decided this call herself
                raise _Unanswered(why, action="decline") from None
            except OutcomeUnknown as unclear:  # no correct answer, or the person left
                raise _Unanswered(str(unclear), action="cancel") from None
            except NoReply as silence:
                why = str(silence)
                if silence.after_s == 0:  # the person is not here
                    continue
                raise _Unanswered(why, action="cancel") from None
            except MewError as fault:  # it may not be asked, or the connection is lost
                raise _Unanswered(str(fault), action="decline") from None
            return self._checked(asked, result, person)
        raise _Unanswered(why, action="decline")

    def _persons(self, method: str, calls: Sequence[Envelope]) -> list[tuple[str, str]]:
        """Who may answer and why, in the order in which they are asked."""
        senders = {call.sender for call in calls}
        persons = [(sender, DECIDER) for sender in senders if len(senders) == 1 and method == ELICIT]
        return [*persons, *([(self._owner, OWNER)] if self._owner else [])]

    async def _ask_person(
        self, person: str, role: str, method: str, params: Mapping[str, Any], calls: Sequence[Envelope]
    ) -> Any:
        if self.participant is None:
            raise _Unanswered("the server has not joined the space yet", action="decline")
        own = {name: value for name, value in params.items() if name != "_meta"}
        question = self.participant.correlations.call(
            [person],
            {"method": method, "params": {**own, "_meta": {ASKED_AS: role}}},
            what=f"{method} of {person}",
            timeout=self._answer_within + LATE,  # the limit below comes first, and tells the person
            kind="mcp/request",
            about=[call.id for call in calls[-MAX_CALLS:]],
        )
        self._open[question] = frozenset(call.id for call in calls)
        try:
            async with asyncio.timeout(self._answer_within):
                return await question
        except NoReply:
            if question in self._ended:
                raise _Unanswered(self._ended[question], action="cancel") from None
            raise
        except TimeoutError:
            why = f"{person} did not answer {method} within {self._answer_within:g} s"
            raise _Unanswered(why, action="cancel") from None
        finally:
            if not question.done:  # the server, or the caller, has cancelled it
                self._end(question, "it was cancelled")
            del self._open[question]
            self._ended.pop(question, None)

    def _end(self, question: Call, why: str) -> None:
        self._ended[question] = why
        question.end_call(why)

    @staticmethod
    def _checked(asked: Elicitation | None, result: Any, person: str) -> dict[str, Any]:
        if asked is not None:
            try:
                return read_answer(asked, result)
            except ProtocolError as fault:
                why = f"the answer of {person} does not fit: {fault}"
                raise _Unanswered(why, action="cancel") from None
        if not isinstance(result, dict):
            raise _Unanswered(f"the answer of {person} is no message", action="cancel")
        return result


def root_of(root: str | Path) -> dict[str, str]:
    """A root as MCP has it: the `file` URI of a folder, and its name. A text that is a `file` URI stays as it is.

    Raises:
        ConfigError: the folder does not exist.
    """
    text = str(root)
    if text.startswith("file://"):
        return {"uri": text, "name": text.rstrip("/").rpartition("/")[2]}
    folder = Path(root).expanduser().resolve()
    if not folder.exists():
        raise ConfigError(f"{one_line(text, 200)!r} cannot be a root: there is no such folder", key="roots")
    return {"uri": folder.as_uri(), "name": folder.name}
