"""`Seat`: one participant of this process, for synchronous code.

Methods that need no answer of another participant block and return their result. `call`, `propose` and `ask` return a
`Pending` at once. `seat.participant` is the participant itself, with its awaitable methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Never, TypeAlias, TypeVar

from mew_lab.errors import LocalProtocolError, MewError, NoSuchName, NoSuchParticipant
from mew_lab.lab.call_check import find_fault, hint, name_absent
from mew_lab.lab.chat_acts import acknowledge_waiting
from mew_lab.lab.lab_stream import LabStream, open_stream, take_stream
from mew_lab.lab.listing import Note, SentEnvelope, Settled
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.pending import Pending
from mew_lab.lab.session import Session, check_up, run_work
from mew_lab.ledger.calls import method_of
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.kinds import KINDS
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.sender import tool_call
from mew_lab.sdk.signature import Signature
from mew_lab.sdk.tools import ToolBox
from mew_lab.settings.waiting import check_seconds

__all__ = ["Seat", "add_tool"]

T = TypeVar("T")

MARGIN = 1.0  # seconds by which a blocking wait outlasts the time limit of its work, which says more
PRESENCE_CHECKS, PRESENCE_EVERY = 10, 0.02  # times, and seconds between two

ToolsOf: TypeAlias = Callable[[str, bool], Awaitable[Sequence[Mapping[str, Any]] | None]]
"""The tools of a participant as far as they are known; with True, as it lists them now. None where unknown."""


async def _unknown_tools(_participant: str, _anew: bool) -> None:
    """No tools are known."""


@explains_arguments
class Seat(Settled):
    """One participant of a space, thread-safe. `name` is its id, `participant` the MEWParticipant inside."""

    def __init__(
        self, session: Session, participant: MEWParticipant, *, name: str, what: str = "seat"
    ) -> None:
        self.lab = session
        self.participant = participant
        self.name = name
        self.what = what
        self.tools_of: ToolsOf = _unknown_tools

    @property
    def _loop(self) -> LoopThread:
        return self.lab.loop

    @property
    def capabilities(self) -> tuple[dict[str, Any], ...]:
        """The patterns of the messages that it may send, from its welcome and later changes."""
        return tuple(dict(pattern) for pattern in self.participant.client.capabilities.patterns)

    def call(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Calls `participant/tool`: by a request if this seat may send it, else by a proposal. Returns at once.

        Raises:
            CapabilityViolation: It may send neither.
            LocalProtocolError: The participant has no such tool, or the tool does not take these arguments.
            NoSuchParticipant: No participant of that name is here.
        """
        return self._start(target, arguments, kw, propose=False)

    def propose(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Proposes a call of `participant/tool`, even if this seat may send the request. Returns at once."""
        return self._start(target, arguments, kw, propose=True)

    def _start(
        self, target: str, arguments: Mapping[str, Any] | None, more: dict[str, Any], *, propose: bool
    ) -> Pending:
        doing = f"Cannot {'propose' if propose else 'call'} {one_line(str(target), 80)} as {self.name!r}"
        self._check_here(doing)
        every = {**(arguments or {}), **more}

        async def start() -> Pending:
            # A proposal is read before anything runs, and may be about what is not listed.
            if not propose:
                await self._check_call(target, every, doing)
                self._check_going(target, every, doing)
            call = self.participant.call(target, every, propose=propose, progress=True)
            await self.lab.seen.wait(call.id, unless=lambda: call.done)
            return Pending(call, self._loop, seat=self.name, complete=self._complete)

        return self._loop.run(start(), timeout=self.lab.timeout, doing=doing.replace("Cannot ", "", 1))

    async def _complete(self, result: Any) -> Any:
        """The whole of a result; what came in its place where it cannot be loaded, with a fault that says why."""
        try:
            return await self.participant.results.complete(result)
        except MewError as fault:
            self.participant.client.report(fault)
            return result

    def _check_going(self, target: str, arguments: Mapping[str, Any], doing: str) -> None:
        """Raises where the lab was stopped, and the call would be a request; a proposal waits for somebody."""
        to, payload = tool_call(target, arguments)
        if self.participant.can_send("mcp/request", payload, to):
            self.lab.decisions.gate.check_sending(doing)

    def _check_here(self, doing: str) -> None:
        """Raises one sentence where the lab is down, or this seat has left the space."""
        check_up(self.lab, doing)
        if self.lab.seats.get(self.name) is not self and self.participant.client.state == "disconnected":
            raise MewError(
                f"{doing}: {self.name!r} has left the space; seat it again, such as with lab.join({self.name!r})"
            )

    async def _check_call(self, target: str, arguments: Mapping[str, Any], doing: str) -> None:
        """Raises where the tool is known and the call does not fit it; an old list is asked for again first."""
        participant, _, tool = target.partition("/") if isinstance(target, str) else ("", "", "")
        if not participant or not tool:
            raise LocalProtocolError(
                f"{one_line(str(target), 80)!r} is not a full tool name. Use participant/tool, "
                f"e.g. {await self._full_name(str(target))!r}; lab.tools() lists them"
            )
        await self._check_present([participant], doing)
        payload = {"method": "tools/call", "params": {"name": tool, "arguments": dict(arguments)}}
        checked = arguments if self.participant.can_send("mcp/request", payload, participant) else None
        tools = await self.tools_of(participant, False)
        if tools is None or not find_fault(target, checked, tools):
            return
        tools = await self.tools_of(participant, True)
        if tools is not None and (fault := find_fault(target, checked, tools)):
            raise LocalProtocolError(f"{doing}: {fault}", section="§3.1")

    async def _full_name(self, tool: str) -> str:
        """The full name of a known tool of that name; else an example."""
        for participant in sorted(self.participant.client.participants):
            for known in await self.tools_of(participant, False) or ():
                if known.get("name") == tool:
                    return f"{participant}/{tool}"
        return "git/git_log"

    def _absent(self, names: Sequence[str]) -> list[str]:
        """Those of the names that nobody has who is here now, as the human's own connection knows it."""
        client = self.lab.me.participant.client
        return [name for name in names if name != client.id and name not in client.participants]

    async def _check_present(self, names: Sequence[str], doing: str) -> None:
        """Raises where nobody has one of the names, so that no answer can come."""
        for _ in range(PRESENCE_CHECKS):  # who has just joined may not be announced yet
            if not (absent := self._absent(names)):
                return
            await asyncio.sleep(PRESENCE_EVERY)
        absent = self._absent(names)
        if absent and len(absent) == len(names):
            here = [*self.lab.me.participant.client.participants, self.lab.me.participant.client.id]
            others = [name for name in here if name != self.participant.client.id]
            raise NoSuchParticipant(f"{doing}: {name_absent(absent, others)}", waiting_for=", ".join(absent))

    def ask(self, text: str, to: str | Sequence[str], *, timeout: float | None = None) -> Pending:
        """Sends a chat question, for example to an agent, and returns at once; the result is the text of the answer.

        Args:
            timeout: Seconds until the question is cancelled with a `chat/cancel`; None for no limit.

        Raises:
            NoSuchParticipant: No participant of that name is here.
        """
        names = [to] if isinstance(to, str) else list(to)
        doing = f"Cannot ask {', '.join(one_line(str(name), 80) for name in names)} as {self.name!r}"
        self._check_here(doing)

        async def start() -> Pending:
            await self._check_present(names, doing)
            call = self.participant.ask(text, names, timeout=timeout)
            await self.lab.seen.wait(call.id, unless=lambda: call.done)
            return Pending(call, self._loop, seat=self.name)

        return self._loop.run(start(), timeout=self.lab.timeout, doing=doing.replace("Cannot ", "", 1))

    def chat(self, text: str, to: str | Sequence[str] = ()) -> SentEnvelope:
        """Sends a chat message to all participants, or to those in `to`, and waits until the gateway has accepted it.

        Raises:
            Refused: The gateway refused it; with the gateway's message.
        """
        return self.send("chat", {"text": text}, to=to)

    def send(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        to: str | Sequence[str] = (),
        correlation_id: str | Sequence[str] = (),
        context: str | None = None,
    ) -> SentEnvelope:
        """Sends an envelope of any kind and waits until the gateway has accepted it.

        Raises:
            Refused: The gateway refused it; with the gateway's message.
        """
        draft: dict[str, Any] = {"kind": kind, "payload": dict(payload or {})}
        for key, value in (("to", to), ("correlation_id", correlation_id)):
            if value:
                draft[key] = [value] if isinstance(value, str) else list(value)
        if context is not None:
            draft["context"] = context

        doing = f"Cannot send {one_line(str(kind), 80)} as {self.name!r}"
        self._check_here(doing)

        async def speak() -> SentEnvelope:
            self.check_draft(draft)
            unknown = kind not in KINDS and not kind.startswith("system/")
            if unknown and not self.participant.can_send(draft) and (nearest := hint(kind, KINDS)):
                # A violation would advise a permission for that kind, which nobody wants for a slip of the pen.
                raise LocalProtocolError(f"{doing}: there is no kind {kind!r}{nearest}")
            envelope = await self.participant.send_accepted(draft)
            absent = self._absent(envelope.to) if envelope.to else []
            client = self.lab.me.participant.client
            here = {*client.participants, client.id} - {self.participant.client.id}
            return SentEnvelope(envelope, note=name_absent(absent, here) if absent else "")

        return run_work(self.lab, speak(), doing.replace("Cannot ", "", 1))

    def check_draft(self, draft: Mapping[str, Any]) -> None:
        """Raises a MewError where the lab was stopped, and the message would be a request that may have an effect."""
        payload = draft.get("payload")
        if (
            draft.get("kind") == "mcp/request"
            and isinstance(payload, Mapping)
            and has_effect(method_of(payload))
        ):
            self.lab.decisions.gate.check_sending(f"Cannot send mcp/request as {self.name!r}")

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float | None = None) -> T:
        """Runs a coroutine of `participant`, such as writing a stream, and returns its result.

        Args:
            work: A coroutine object; it runs on the loop of the participant.
            timeout: Time limit in seconds; default: `lab.timeout`.

        Raises:
            NoReply: It took longer; it is then cancelled.
        """
        doing = f"running {getattr(work, '__qualname__', 'work')} as {self.name!r}"
        return self._loop.run(work, timeout=timeout or self.lab.timeout, doing=doing, awaitable=True)

    def acknowledge(self, message: str | SentEnvelope = "", *, status: str = "received") -> Note:
        """Acknowledges a chat message that awaits it, given by its id or the beginning of that; default: all of them.

        Raises:
            MewError: No such message awaits an acknowledgement of this seat; or the gateway refused it.

        Spec: §3.4.1.
        """
        id = message.id if isinstance(message, SentEnvelope) else message

        async def acknowledge() -> Note:
            return Note(await acknowledge_waiting(self.participant, id, status))

        doing = f"acknowledging as {self.name!r}"
        self._check_here(f"Cannot acknowledge as {self.name!r}")
        return run_work(self.lab, acknowledge(), doing)

    def stream(
        self,
        which: str | None = None,
        *,
        direction: str = "upload",
        to: str | Sequence[str] = (),
        description: str | None = None,
        content_type: str | None = None,
        format: str | None = None,
        expected_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> LabStream:
        """Opens a stream that this seat owns; or, with its id or the beginning of that, takes one that is open.

        Args:
            which: The id of an open stream; the other arguments are for a new one.
            direction: `upload`: you write. `download`: you read, and `grant` lets others write.
            to: The recipients of its frames; empty for everybody.

        Raises:
            MewError: No open stream has that id; or the gateway opened none, such as for an unknown recipient.

        Spec: §3.10.
        """
        doing = f"Cannot {'take' if which is not None else 'open'} a stream as {self.name!r}"
        self._check_here(doing)
        fields = {
            "description": description,
            "content_type": content_type,
            "format": format,
            "expected_size_bytes": expected_size_bytes,
            "metadata": metadata,
        }
        asked = {name: value for name, value in fields.items() if value is not None}
        if which is not None and (asked or to or direction != "upload"):
            raise MewError(
                f"{doing}: {one_line(which, 60)!r} is open already, so nothing else can be said of it"
            )
        within = self.lab.timeout if timeout is None else check_seconds(timeout, key="timeout")
        work = (
            take_stream(self.lab, self, which)
            if which is not None
            else open_stream(self.lab, self, direction=direction, target=to, timeout=within, **asked)
        )
        return run_work(self.lab, work, doing.replace("Cannot ", "", 1), timeout=within + MARGIN)

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Decorator: makes a typed function a tool of this seat; running the cell again replaces the tool.

        It may return what a notebook shows: a figure, a DataFrame, several of them; see `mew_lab.ToolResult.of`.

        Args:
            options: Those of `ToolBox.add`, such as `name` and `description`.

        Raises:
            MewError: The tools of this seat come from elsewhere, such as those of a bridged server.
        """
        box = self.participant.tools
        if not isinstance(box, ToolBox):
            raise MewError(
                f"Cannot add a tool to {self.name!r}: its tools come from elsewhere ({self.what}); "
                'lab.tool adds it to the seat "notebook", and lab.join makes another seat'
            )

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            add_tool(box, function, options, loop=self._loop)
            return function

        return register if function is None else register(function)

    def obeys(self, name: str) -> bool:
        """Whether it works on what a participant asks it in chat, as its own settings say."""
        return False

    @property
    def left_behind(self) -> str:
        """What is otherwise in the space once it has left, as a sentence; empty where there is nothing to tell."""
        return ""

    def leave(self) -> Note:
        """Leaves the space; the others receive a leave presence."""
        return self.lab.leave(self.name)

    def __getattr__(self, name: str) -> Never:
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        if (
            name.startswith("_") or name in known
        ):  # a display asks for many of these; a property has failed itself
            raise AttributeError(name, name=name, obj=self)
        own = one_line(self.__dict__.get("name", ""), 64)
        raise NoSuchName(
            f"The seat {own!r} has no {one_line(name, 40)!r}{hint(name, known)}; it has {', '.join(known)}"
        )

    def __repr__(self) -> str:
        return f"<Seat {self.name} in {self.lab.name}: {self.participant.client.state}>"


def add_tool(
    box: ToolBox, function: Callable[..., Any], options: Mapping[str, Any], *, loop: LoopThread
) -> None:
    """Adds a function to the tools of a seat; `options` are those of `ToolBox.add`."""
    # Read once on this thread: the first reading loads a schema library, and the loop must not wait for it.
    Signature(function, name=str(options.get("name") or getattr(function, "__name__", "tool")))
    loop.call(lambda: box.add(function, **options))
