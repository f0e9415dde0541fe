"""Speaks the Agent Client Protocol with one editor, as its agent, over stdin and stdout.

The official library has the messages. `EditorLink` answers the editor's requests by an `EditorAgent`, and sends updates
and questions in the order in which they are told. An editor that does not read holds up nothing: beyond `MAX_UNSENT`
bytes updates are left out, and their number is told when there is room again.

Sessions are begun and closed, and nothing of them is kept, so that they can neither be loaded nor listed.

Spec: Agent Client Protocol, version 1.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    CancelNotification,
    CloseSessionRequest,
    CreateFormSessionElicitationRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionNotification,
)
from pydantic import BaseModel, RootModel, ValidationError

from mew_lab.bridge.acp_connection import AcpPeer
from mew_lab.bridge.early_answers import write_all
from mew_lab.bridge.process import GrowingLine, LongLine
from mew_lab.bridge.stdio import StdinChunks, StdoutLines
from mew_lab.errors import MewError
from mew_lab.protocol.coerce import line_of, mapping_of, text_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from mew_lab.version import VERSION

__all__ = ["EditorAgent", "EditorLink", "EditorOption", "StdioLines"]

logger = logging.getLogger(__name__)
MAX_UNSENT = 16 * 1024 * 1024  # bytes of updates that the editor has not read
REFUSED = -32000  # a request that is understood, and cannot be carried out


class _FormAnswer(RootModel[dict[str, Any]]):
    """What an editor answers to a form, as it came: the models know some actions alone."""


class EditorOption(Protocol):
    """An option of a question: its id in this question, its name, and its kind in the protocol's words."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...


class EditorAgent(Protocol):
    """What an editor's requests reach. Each of its methods may raise a MewError, whose sentence the editor gets."""

    @property
    def title(self) -> str:
        """What an editor calls it."""

    def begin_session(self) -> str:
        """Begins a session; returns its id."""

    async def prompt(self, session: str, text: str) -> str:
        """Works on a prompt; returns why the turn ended: `end_turn` or `cancelled`."""

    def cancel(self, session: str) -> None:
        """Ends the turn of a session."""

    def end_session(self, session: str) -> None:
        """Ends a session."""


class StdioLines:
    """The lines of stdin, and those of stdout, which carries nothing else until `close`."""

    def __init__(self) -> None:
        self._input = StdinChunks()
        self._output = StdoutLines(lambda descriptor, line: write_all(descriptor, line.encode()))
        self.lost = self._output.lost

    async def lines(self) -> AsyncIterator[bytes | LongLine]:
        """The lines of the editor, until it ends; of a long one only both ends are kept."""
        line = GrowingLine(None)
        while chunk := await self._input.take():
            first, *more = chunk.split(b"\n")
            line.add(first)
            for piece in more:
                yield line.take()
                line.add(piece)
        if line.size:
            yield line.take()

    def post(self, line: bytes) -> asyncio.Future[None]:
        """Writes one line behind the others; the future is done when the operating system has taken it."""
        return self._output.post(f"{line.decode()}\n")

    async def write(self, line: bytes) -> None:
        """Writes one line, as `post`, and waits until the operating system has taken it."""
        await self.post(line)

    def close(self) -> None:
        """Gives stdout back."""
        self._output.close()


class PostingLines(Protocol):
    """Lines in both directions, as `StdioLines` has them."""

    def lines(self) -> AsyncIterator[bytes | LongLine]: ...
    def post(self, line: bytes) -> asyncio.Future[None]: ...
    async def write(self, line: bytes) -> None: ...


class EditorLink:
    """One editor. `ended` is set when it has closed its end.

    Args:
        on_unread: called with a sentence about a line that is not read.
    """

    def __init__(self, lines: PostingLines, *, on_unread: Callable[[str], object]) -> None:
        self._lines = lines
        self._peer = AcpPeer(
            lines, on_request=self._answer, on_notification=self._take_notification, on_unread=on_unread
        )
        self.ended = self._peer.ended
        self.editor = ""
        self.shows_forms = False
        """Whether the editor says that it shows forms for a person to fill in."""
        self._agent: asyncio.Future[EditorAgent] = asyncio.get_running_loop().create_future()
        self._unsent = self._left_out = 0

    def open(self) -> None:
        """Begins to read. Requests wait until `serve` or `refuse` is called."""
        self._peer.open()

    def serve(self, agent: EditorAgent) -> None:
        """Answers the requests by this agent, from now on."""
        self._agent.set_result(agent)

    def refuse(self, why: MewError) -> None:
        """Refuses all requests with this error."""
        self._agent.set_exception(why)
        self._agent.exception()  # marks it as retrieved: perhaps nobody asks

    async def drain(self, *, within: float) -> None:
        """Waits until the editor has the answers to its requests, for so many seconds at most."""
        await self._peer.drain(within=within)

    async def close(self) -> None:
        """Ends the connection; a second call does nothing."""
        if not self._agent.done():
            self._agent.cancel()
        await self._peer.close()

    # --- to the editor ---

    def update(self, session: str, update: Mapping[str, Any]) -> None:
        """Sends an update of a session, in the words of the protocol, behind all that was sent before."""
        if self.ended.is_set():
            return
        if self._unsent > MAX_UNSENT:
            self._left_out += 1
            return
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            text = f"[{left_out} updates were left out, because the editor did not read them]\n\n"
            self._post(
                session,
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}},
            )
        self._post(session, update)

    def _post(self, session: str, update: Mapping[str, Any]) -> None:
        told = SessionNotification.model_validate({"sessionId": session, "update": update})
        params = told.model_dump(mode="json", by_alias=True, exclude_none=True)
        message = {"jsonrpc": "2.0", "method": CLIENT_METHODS["session_update"], "params": params}
        line = json.dumps(message).encode()
        self._unsent += len(line)

        def note_sent(_: object) -> None:
            self._unsent -= len(line)

        self._lines.post(line).add_done_callback(note_sent)

    async def ask(
        self,
        session: str,
        tool_call: Mapping[str, Any],
        options: Sequence[EditorOption],
        withdrawn: asyncio.Event,
    ) -> str | None:
        """Asks the person for permission of a tool call; returns the id of the chosen option.

        None means that nothing was chosen: the turn was cancelled, the editor has ended, or its answer is none. When
        `withdrawn` is set, the request is cancelled; an editor that does not know that may answer it all the same.
        """
        asked = RequestPermissionRequest.model_validate(
            {
                "sessionId": session,
                "toolCall": tool_call,
                "options": [{"optionId": one.id, "name": one.name, "kind": one.kind} for one in options],
            }
        )
        method = CLIENT_METHODS["session_request_permission"]
        try:
            answer = await self._peer.ask_until(withdrawn, method, asked, RequestPermissionResponse)
        except (RpcError, EOFError) as fault:
            logger.info("a question was not answered: %s", one_line(str(fault), 300))
            return None
        outcome = mapping_of(answer.get("outcome"))
        return text_of(outcome.get("optionId")) if outcome.get("outcome") == "selected" else None

    async def fill_in(
        self, session: str, message: str, schema: Mapping[str, Any], withdrawn: asyncio.Event
    ) -> Mapping[str, Any] | None:
        """Has the person fill in a form of flat fields; returns the `action` and the `content` of the answer.

        None means that there is none: the editor cannot show it, has ended, or refuses. `withdrawn`: as in `ask`.
        """
        try:
            asked = CreateFormSessionElicitationRequest.model_validate(
                {"sessionId": session, "message": message, "mode": "form", "requestedSchema": schema}
            )
            method = CLIENT_METHODS["elicitation_create"]
            return await self._peer.ask_until(withdrawn, method, asked, _FormAnswer)
        except (RpcError, EOFError, ValidationError) as fault:
            logger.info("a form was not answered: %s", one_line(str(fault), 300))
            return None

    # --- from the editor ---

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        agent = await self._ready()
        try:
            return _dump(await self._carry_out(agent, method, params))
        except ValidationError as fault:
            where = ".".join(map(str, fault.errors()[0]["loc"]))
            raise RpcError(
                INVALID_PARAMS, f"{one_line(method, 80)} has no params of the protocol ({where})"
            ) from None
        except RpcError:
            raise
        except MewError as fault:
            raise RpcError(REFUSED, str(fault)) from None

    async def _ready(self) -> EditorAgent:
        try:
            return await asyncio.shield(self._agent)
        except MewError as fault:
            raise RpcError(REFUSED, str(fault)) from None

    async def _carry_out(
        self, agent: EditorAgent, method: str, params: Mapping[str, Any]
    ) -> BaseModel | None:
        if method == AGENT_METHODS["initialize"]:
            editor = InitializeRequest.model_validate(params)
            about, able = editor.client_info, editor.client_capabilities
            self.editor = line_of(about.name, 60) if about is not None else ""
            forms = able.elicitation.form if able is not None and able.elicitation is not None else None
            self.shows_forms = forms is not None
            return InitializeResponse(
                protocol_version=PROTOCOL_VERSION,
                agent_capabilities=AgentCapabilities(
                    load_session=False,
                    session_capabilities=SessionCapabilities(close=SessionCloseCapabilities()),
                ),
                agent_info=Implementation(name="mew_lab", title=agent.title, version=VERSION),
            )
        if method == AGENT_METHODS["session_new"]:
            asked = NewSessionRequest.model_validate(params)
            if asked.mcp_servers:
                logger.warning("the MCP servers of the editor are not used: the agent runs elsewhere")
            return NewSessionResponse(session_id=agent.begin_session())
        if method == AGENT_METHODS["session_prompt"]:
            prompt = PromptRequest.model_validate(params)
            blocks = [block.model_dump(mode="json", by_alias=True) for block in prompt.prompt]
            text = "\n\n".join(filter(None, map(_text_of, blocks)))
            stop = await agent.prompt(prompt.session_id, text)
            return PromptResponse.model_validate({"stopReason": stop})
        if method == AGENT_METHODS["session_close"]:
            agent.end_session(CloseSessionRequest.model_validate(params).session_id)
            return None
        raise RpcError(METHOD_NOT_FOUND, f"There is no method {one_line(method, 80)} here")

    def _take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method != AGENT_METHODS["session_cancel"]:
            logger.info("the editor sent a %s that is not read", one_line(method, 80))
            return
        try:
            session = CancelNotification.model_validate(params).session_id
        except ValidationError:
            logger.info("the editor cancelled a session without its id")
            return
        if self._agent.done() and not self._agent.cancelled() and self._agent.exception() is None:
            self._agent.result().cancel(session)


def _dump(answer: BaseModel | None) -> dict[str, Any]:
    return {} if answer is None else answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text_of(block: Mapping[str, Any]) -> str:
    """A block of a prompt as text; what a chat message cannot hold is named."""
    kind = block.get("type")
    if kind == "text":
        return text_of(block.get("text"))
    if kind == "resource_link":
        return f"[{line_of(block.get('name'), 200)}]({line_of(block.get('uri'), 2000)})"
    if kind == "resource":
        resource = mapping_of(block.get("resource"))
        uri = line_of(resource.get("uri"), 2000)
        text = text_of(resource.get("text"))
        return f"{uri}:\n\n{text}" if text else f"[{uri}, whose content is no text, is left out]"
    return f"[{line_of(kind, 40)} {line_of(block.get('mimeType'), 80)} is left out: a chat message holds text alone]"
