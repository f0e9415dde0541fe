"""One participant's connection to one space: identity, welcome, members, sending, receiving.

How it works
------------
`connect` opens a link through a `Connection` and returns after the welcome. Each message that the link receives goes
through `_take`:

- a frame goes to the handlers of `on_stream_data`;
- an envelope is parsed once and goes to the handlers of `on_message`;
- before that, a welcome of the gateway sets the `id` and the `capabilities` of this client, and the ledger `members`
  sets the other `participants`.

`send` and `post` complete a draft, run the guards, and put the text into the outbox of the connection.

Two rules for changes:
1. The client does not interpret messages: modules above define a request, a proposal or a chat. It reads only messages
   about members, through `ledger.members`.
2. Handlers run in order on the reading task, so they must return at once. A handler that takes time is a coroutine,
   which gets a task of its own.

Spec: §3, §3.7, §3.8.1, §4.1, SDK "Layer 1", "Events", rulings R1, R8.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from mew_lab.errors import (
    ConnectionLost,
    LocalProtocolError,
    MewError,
    ProtocolError,
    RemoteProtocolError,
)
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.members import MEMBER_KINDS, MemberLedger, Welcome, read_welcome
from mew_lab.protocol import frames
from mew_lab.protocol.address import Address
from mew_lab.protocol.envelope import MAX_DEPTH, MAX_MESSAGE, PROTOCOL, Envelope, compact, too_deep
from mew_lab.protocol.kept import EDITION_OF_KEPT, reads_result
from mew_lab.protocol.kinds import GATEWAY, is_reserved
from mew_lab.protocol.own import MAX_REASON, OWN, is_modest
from mew_lab.protocol.permit import CapabilitySet, edition_of, read_capabilities
from mew_lab.protocol.text import cut, timestamp, utf8_size
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments, unexplained
from mew_lab.sdk.connection import Connection, ConnectionHooks, Endpoint, RetryPolicy, State
from mew_lab.sdk.signal import (
    Sending,
    Signal,
    Subscription,
    at_once,
    begins_unawaited,
    fit_handler,
    require_loop,
)
from mew_lab.settings.faults import did_you_mean
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed

if TYPE_CHECKING:
    from mew_lab.sdk.settings import Settings

__all__ = ["STREAM_DATA", "MEWClient", "StreamData", "complete_draft"]

DIRECTIONS = ("upload", "download")
NOTE_TIMEOUT = 5.0  # seconds
logger = logging.getLogger(__name__)
MAX_UNHEARD = 100  # errors that are shown where nothing handles them: peers may cause any number
STREAM_DATA = "stream/data"  # what a guard gets for a frame, which has no kind
EVENTS: Mapping[str, str] = {
    **{
        name: f"on_{name}"
        for name in ("connected", "disconnected", "message", "welcome", "error", "reconnecting", "state")
    },
    STREAM_DATA: "on_stream_data",
}


class StreamData(NamedTuple):
    """One frame of a stream, without its prefix."""

    stream_id: str
    data: bytes

    @property
    def payload(self) -> bytes:
        """`data`, as the specification names it. Spec: SDK "Stream Support"."""
        return self.data


@explains_arguments
class MEWClient:
    """One participant's connection to one space.

    `id` is its id in the space, `capabilities` are its own, `participants` the others that are present (id ->
    capabilities), `members` the ledger of all participants. `extension` is what its last welcome says that the gateway
    does beyond the specification (`x-mew-lab`), empty for other gateways. `epoch` tells a run of its space from others
    (R6), empty where the gateway is none of mew_lab. `failure` is the error that disconnected it
    for good (None until then, and after `disconnect()`).

    Args:
        gateway: an address such as `ws://127.0.0.1:8080`; with `connect_link` it only appears in messages.
        token: wrapped at once, so that no message or repr can show it.
        participant_id: a runtime id of the caller's choice; None takes the participant's name.
        capabilities: the capabilities that are assumed until the welcome.
        reconnect: whether a link that broke (1001, 1006, 1012) is opened again.
        heartbeat_interval: seconds between pings of the WebSocket; None sends none.
        max_reconnect_attempts: the number of attempts in a row before it gives up.
        reconnect_delay: seconds before the first attempt; doubled for each further one, up to 30.
        while_down: `queue` keeps messages while the client reconnects, up to 1000 and 8 MiB, and sends them in
            order after the next welcome. Id, time and sender are those of the call; a message is refused if the
            gateway then gives the client another id. `refuse` raises at once.
        open_timeout: seconds for opening the link, and again for the welcome.
        max_message: bytes of the longest message, where the gateway does not say in its welcome what it accepts.
        connect_link: opens a link that is admitted already, such as one within this process.
        post_note: takes a note of such a participant, and returns the HTTP status of its answer.
        find_note: returns what was reported of a request to such a participant, and to others; None where nothing was.

    Spec: SDK "Layer 1".
    """

    @explains_arguments
    def __init__(
        self,
        gateway: str = "",
        *,
        space: str = "",
        token: str | Token | None = None,
        participant_id: str | None = None,
        capabilities: Iterable[Mapping[str, Any]] = (),
        reconnect: bool = True,
        heartbeat_interval: float | None = 20.0,
        max_reconnect_attempts: int = 10,
        reconnect_delay: float = 1.0,
        while_down: Literal["refuse", "queue"] = "refuse",
        open_timeout: float = 10.0,
        max_message: int = MAX_MESSAGE,
        connect_link: Callable[[], Awaitable[Link]] | None = None,
        post_note: Callable[[str], int] | None = None,
        find_note: Callable[[str, Sequence[str]], Mapping[str, Any] | None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._errors: Signal[Exception] = Signal()
        self._unheard = 0  # errors without a handler
        self._messages: Signal[Envelope] = Signal(on_fault=self.report)
        self._messages_of: dict[str, Signal[Envelope]] = {}  # by kind
        self._welcomes: Signal[dict[str, Any]] = Signal(on_fault=self.report)
        self._connects: Signal[None] = Signal(on_fault=self.report)
        self._disconnects: Signal[MewError | None] = Signal(on_fault=self.report)
        self._attempts: Signal[int] = Signal(on_fault=self.report)
        self._states: Signal[State] = Signal(on_fault=self.report)
        self._frames: dict[str | None, Signal[StreamData]] = {}  # by stream; None: of all streams
        if not isinstance(gateway, str):
            raise TypeError(f"the address of a gateway is a text, not a {type(gateway).__name__}")
        self.gateway = Address(gateway)
        self.space = space
        self.id = participant_id or ""
        self.capabilities = CapabilitySet(capabilities)
        self.participants: dict[str, list[dict[str, Any]]] = {}
        self.members = MemberLedger(me=self.id)
        self.extension: Mapping[str, Any] = {}
        self.epoch = ""
        self._endpoint = Endpoint(self.gateway, space, Token(token) if token else None, participant_id)
        self._max_message = max_message
        self._post_note = post_note
        self._find_note = find_note
        self._takes_http = connect_link is None
        self._clock = clock
        self.new_id = new_id
        self._guards: list[Callable[[str], None]] = []
        self._middleware: list[Callable[[Envelope], Envelope | bool | None]] = []
        self._connection = Connection(
            ConnectionHooks(
                open=connect_link
                or (lambda: self._endpoint.open(timeout=open_timeout, heartbeat=heartbeat_interval)),
                take=self._take,
                explain=self._explain,
                up=lambda: self._connects(None),
                down=self._down,
                retrying=self._attempts,
                became=self._states,
                lost=self._lost,
            ),
            retry=RetryPolicy(max_reconnect_attempts if reconnect else 0, reconnect_delay, open_timeout),
            keep=while_down == "queue",
            wait=wait,
        )

    @classmethod
    def from_settings(cls, settings: Settings, **options: Any) -> MEWClient:
        """A client from settings; `options` are arguments of the constructor and override them."""
        return cls(**{**settings.for_client, **options})

    def __repr__(self) -> str:
        return f"<MEWClient {self.id or 'nobody yet'} in {self.space or 'a space'}: {self.state}>"

    async def __aenter__(self) -> MEWClient:
        await self.connect()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.disconnect()

    # --- the loop ---

    @unexplained
    def check_loop(self) -> None:
        """Checks that the caller runs on the loop of the connection; any loop may open one.

        Raises:
            CannotWait: it runs on another loop, or on none, where it would wait for ever.
        """
        loop = self._connection.loop
        if loop is not None:
            require_loop(loop, self.id or "This participant")

    def call_soon(self, function: Callable[[], object]) -> None:
        """Calls `function` soon on the loop of the connection, from whichever thread; not at all where none is open."""
        loop = self._connection.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(function)

    # --- joining and leaving ---

    @property
    def pattern_edition(self) -> int:
        """The edition by whose rules the gateway reads patterns, as far as its welcome says (R33, R34)."""
        return edition_of(self.extension.get("patterns", ()))

    @property
    def message_bytes(self) -> int:
        """The bytes of the longest message or frame that the gateway accepts, as its last welcome says."""
        told: int = self.extension.get("message_bytes", self._max_message)
        return told

    @property
    def state(self) -> State:
        """`disconnected`, `connecting`, `connected` (link open), `joined` (join sent) or `ready` (welcomed)."""
        return self._connection.state

    @property
    def failure(self) -> MewError | None:
        """The error that disconnected it for good; None until then, and after `disconnect()`."""
        return self._connection.failure

    async def connect(self) -> None:
        """Joins the space; returns after the welcome, or at once if it has joined.

        Raises:
            NotAdmitted: the token or the space is unknown, or the id is taken.
            ConnectionLost: the gateway could not be reached, or the link broke before the welcome.
            NoReply: no welcome came in time.
            ConfigError: the address is invalid.
        """
        self.check_loop()
        await self._connection.start()

    @begins_unawaited
    async def disconnect(self) -> None:
        """Leaves the space, also where it is not awaited.

        Posted messages are sent first, if the link takes them within a second.
        """
        self.check_loop()
        await self._connection.stop()

    # --- handlers; each `on_…` returns a function that removes the handler ---

    def on_message(
        self, handler: Callable[[Envelope], Any], *, kinds: Collection[str] | None = None
    ) -> Callable[[], None]:
        """Calls `handler` with every envelope of the space, in the gateway's order, own echoes included.

        Args:
            kinds: Only envelopes of these kinds, after the handlers of every envelope. A handler of few kinds costs the
                other messages nothing.
        """
        if kinds is None:
            return self._messages.add(handler)
        handler = fit_handler(handler)  # before anything is added
        signals = [self._messages_of.setdefault(kind, Signal(on_fault=self.report)) for kind in kinds]
        removals = [signal.add(handler) for signal in signals]

        def remove() -> None:
            for end in removals:
                end()

        return remove

    def on_welcome(self, handler: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
        """Calls `handler` with the payload of each welcome: at every admission, and when its rights change."""
        return self._welcomes.add(handler)

    def on_connected(self, handler: Callable[[None], Any]) -> Callable[[], None]:
        """Calls `handler` when a link is open, before the welcome."""
        return self._connects.add(handler)

    def on_disconnected(self, handler: Callable[[MewError | None], Any]) -> Callable[[], None]:
        """Calls `handler` when a link closed, with the error, or None after `disconnect()`; it may reconnect."""
        return self._disconnects.add(handler)

    def on_reconnecting(self, handler: Callable[[int], Any]) -> Callable[[], None]:
        """Calls `handler` before each attempt to reconnect, with its number from 1."""
        return self._attempts.add(handler)

    def on_error(self, handler: Callable[[Exception], Any]) -> Callable[[], None]:
        """Calls `handler` with errors that no caller gets: malformed messages, faults of handlers, refusals.

        Without a handler they go to the exception handler of the loop (`report`).
        """
        return self._errors.add(handler)

    def on_state(self, handler: Callable[[State], Any]) -> Callable[[], None]:
        """Calls `handler` with each new state, in order and without gaps."""
        return self._states.add(handler)

    def on_stream_data(
        self, handler: Callable[[StreamData], Any], *, stream_id: str | None = None
    ) -> Callable[[], None]:
        """Calls `handler` with every frame, or those of one stream; handlers of all streams run first.

        Spec: SDK "Stream Support".
        """
        handler = fit_handler(handler)
        signal = self._frames.setdefault(stream_id, Signal(on_fault=self.report))
        remove = signal.add(handler)

        def end() -> None:
            remove()
            if not signal and self._frames.get(stream_id) is signal:
                del self._frames[stream_id]

        return end

    def on(self, event: str, handler: Callable[..., Any]) -> Callable[[], None]:
        """Calls `handler` with each event of that name, such as `message`, `stream/data` or `stream/data/<id>`.

        Raises:
            LocalProtocolError: there is no such event.

        Spec: SDK "Events", "Stream Support".
        """
        if event.startswith(f"{STREAM_DATA}/"):
            return self.on_stream_data(handler, stream_id=event.removeprefix(f"{STREAM_DATA}/"))
        if event not in EVENTS:
            hint = did_you_mean(event, EVENTS) or f"there are {', '.join(EVENTS)}"
            raise LocalProtocolError(
                f"Cannot listen to {one_line(event, 60)!r}: it is no event of a client; {hint}"
            )
        add: Callable[[Callable[..., Any]], Callable[[], None]] = getattr(self, EVENTS[event])
        return add(handler)

    def report(self, error: Exception) -> None:
        """Passes an error to the handlers of `on_error`; without any, to the exception handler of the loop.

        That one writes to stderr unless the program has set another. It gets the traceback of an error of the program's
        own handlers, and of at most 100 errors of a client.
        """
        if self._errors:
            self._errors(error)
            return
        self._unheard += 1
        if self._unheard > MAX_UNHEARD:
            return
        what = (
            str(error)
            if isinstance(error, MewError)
            else f"A handler failed: {type(error).__name__}: {error}"
        )
        message = mask(f"{self.id or 'A participant'} in {self.space or 'a space'}: {what}")
        if self._unheard == MAX_UNHEARD:
            message += " (its further errors are not shown; on_error gets all)"
        context: dict[str, Any] = {"message": message}
        trace = "".join(traceback.format_exception(error))
        if not isinstance(error, MewError) and mask(trace) == trace:
            context["exception"] = error
        try:
            asyncio.get_running_loop().call_exception_handler(context)
        except RuntimeError:  # no loop runs here
            logger.error(message)

    def messages(self, *, limit: int = 10_000) -> Subscription[Envelope]:
        """A subscription to every envelope from now on, across reconnections, until the client disconnects.

        A reader that falls more than `limit` envelopes behind gets a MewError.
        """
        self.check_loop()
        return self._messages.subscribe(limit=limit)

    # --- sending ---

    @at_once
    def send(self, draft: Envelope | Mapping[str, Any]) -> Coroutine[Any, Any, Envelope]:
        """Sends a message. Awaiting it, which need not be done, gives it as it was sent once the link has taken it.

        The members `protocol`, `id`, `ts` and `from` are added where the draft lacks them. Only the echo shows that
        the gateway accepted the message. A message whose `send` is cancelled before the link takes it is not sent.

        Raises:
            LocalProtocolError: it is no envelope, not JSON, or this client may not send it.
            ConnectionLost: there is no connection and no queue (`while_down`), or the connection ended before the
                link took the message.
        """
        return self.hand_over(draft)

    @unexplained
    def hand_over(self, draft: Envelope | Mapping[str, Any]) -> Sending[Envelope]:
        """Like `send`, for callers on the loop of the connection."""
        loop = require_loop(self._connection.loop, self.id or "This participant")
        envelope = self.complete(draft)
        sent: asyncio.Future[None] = loop.create_future()
        self._put(envelope, sent)
        return Sending(sent, envelope, self._unsent, self.report)

    def post(self, draft: Envelope | Mapping[str, Any]) -> Envelope:
        """Like `send`, without waiting until the link has taken it; `send` and `post` keep their order.

        If a connection ends, `on_error` reports how many posted messages the link had not taken.

        Raises:
            LocalProtocolError: it is no envelope, not JSON, or this client may not send it.
            ConnectionLost: there is no connection and no queue (`while_down`).
        """
        self.check_loop()
        envelope = self.complete(draft)
        self._put(envelope, None)
        return envelope

    @unexplained
    def complete(self, draft: Envelope | Mapping[str, Any]) -> Envelope:
        """The envelope that this client would send for a draft.

        Raises:
            LocalProtocolError: it is no envelope, not JSON, or this client may not send it.

        Spec: §3.
        """
        members = draft.members if isinstance(draft, Envelope) else draft
        id = "" if members.get("id") else self.new_id()
        return complete_draft(draft, id=id, now=self._clock(), sender=self.id, limit=self.message_bytes)

    @unexplained
    def fit(self, draft: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The draft as this client may send it; None where it may not.

        A capability permits it as it is. Without one, this gateway may still let everybody end messages of its own,
        with a short reason, and ask for a kept result. Whether the messages in `correlation_id` are its own is not
        checked here.

        Spec: §4.1, rulings R36, R43.
        """
        kind, payload, to = draft["kind"], draft["payload"], draft.get("to") or ()
        if self.capabilities.permit(kind, to, payload).allowed:
            return draft
        if self.extension.get("edition", 0) >= EDITION_OF_KEPT and reads_result(
            kind, payload, to, draft.get("correlation_id") or ()
        ):
            return draft
        if kind not in OWN or kind not in self.extension.get("own", ()):
            return None
        reason = payload.get("reason")
        short = {**payload, "reason": cut(reason, MAX_REASON)} if isinstance(reason, str) else payload
        about = draft.get("correlation_id") or ("",)
        return {**draft, "payload": short} if is_modest(short, about) else None

    @at_once
    def send_stream_data(self, stream_id: str, data: bytes | str) -> Coroutine[Any, Any, None]:
        """Writes one frame to a stream, as `send` does; a text as UTF-8. The gateway decides about the right.

        Raises:
            LocalProtocolError: the id is invalid, the frame is too large, or a guard refuses it.
            ConnectionLost: there is no connection, or it ended before the link took the frame.

        Spec: §3.10.3.
        """
        loop = require_loop(self._connection.loop, self.id or "This participant")
        try:
            frame = frames.join(stream_id, data.encode() if isinstance(data, str) else data)
        except UnicodeEncodeError:
            raise LocalProtocolError(
                f"Cannot write a text to {one_line(stream_id, 60)} as {self.id!r}: it holds half a character (a lone "
                "surrogate). Write bytes"
            ) from None
        if len(frame) > self.message_bytes:
            raise LocalProtocolError(
                f"Cannot write {len(frame)} bytes to {stream_id} at once as {self.id!r}: a frame takes at most "
                f"{self.message_bytes}. Write less at once",
                code="message_too_large",
            )
        for guard in tuple(self._guards):
            guard(STREAM_DATA)
        sent: asyncio.Future[None] = loop.create_future()
        self._connection.post(frame, sent=sent)
        return Sending(sent, None, lambda _, lost: lost, self.report)

    async def send_note(self, note: Mapping[str, Any]) -> bool:
        """Reports a decision or what became of a call to the gateway; False where the gateway takes no such notes.

        Raises:
            MewError: the gateway did not take it, or did not answer.

        Spec: ruling R42.
        """
        self.check_loop()
        most = self.extension.get("notes")
        if not most or not (self._post_note or self._takes_http):
            return False
        text = compact(dict(note))
        what = f"A note of {self.id!r} on {one_line(str(note.get('request')), 80)}"
        if utf8_size(text) > most:
            raise MewError(
                f"{what} was not sent: it has {utf8_size(text)} bytes, and the gateway takes {most}"
            )
        try:
            if self._post_note is not None:
                status = self._post_note(text)
            else:
                status = await asyncio.to_thread(
                    self._endpoint.post_note, self.id, text, timeout=NOTE_TIMEOUT
                )
        except OSError as fault:
            raise MewError(
                f"{what} was not taken: the gateway did not answer ({one_line(str(fault), 100)})"
            ) from None
        if status != 200:
            raise MewError(f"{what} was not taken: the gateway answered {status}")
        return True

    async def find_note(self, request: str, to: Sequence[str]) -> Mapping[str, Any] | None:
        """What was reported of a request to `to`, of which this participant is one: `happened`, `by` and `note`.

        None where nothing was, or this gateway keeps no such reports.

        Raises:
            MewError: the gateway did not answer.

        Spec: rulings R35, R42.
        """
        self.check_loop()
        if not self.extension.get("notes") or not (self._find_note or self._takes_http):
            return None
        if self._find_note is not None:
            return self._find_note(request, to)
        find = partial(self._endpoint.find_note, self.id, request, to, timeout=NOTE_TIMEOUT)
        try:
            status, body = await asyncio.to_thread(find)
        except OSError as fault:
            raise MewError(
                f"{self.id!r} cannot learn what became of request {one_line(request, 80)}: the gateway did not "
                f"answer ({one_line(str(fault), 100)})"
            ) from None
        try:
            found = orjson.loads(body)["resolution"] if status == 200 else None
        except (ValueError, LookupError, TypeError):
            return None
        if not isinstance(found, dict) or not isinstance(found.get("happened"), bool):
            return None
        return found if isinstance(found.get("by"), str) else None

    def hold(self, until: Callable[[], Awaitable[None]]) -> None:
        """Stops reading from the link until `until()` is done, so that the gateway waits. Handlers call it."""
        self._connection.hold(until)

    def add_guard(self, guard: Callable[[str], None]) -> Callable[[], None]:
        """Calls `guard(kind)` before each message goes out (`stream/data` for a frame). An exception of the guard
        stops the message. Returns a function that removes the guard."""
        guard = fit_handler(guard)
        self._guards.append(guard)
        return lambda: self._guards.remove(guard)

    def add_middleware(self, function: Callable[[Envelope], Envelope | bool | None]) -> Callable[[], None]:
        """Calls `function(envelope)` with each message that arrives, before any handler.

        It returns None to pass the message on, another envelope to pass on in its place, or False to drop it. Who is in
        the space, and one's own rights, follow the messages that arrived, whatever it returns. A message on which it
        raises is passed on, and the exception goes to `on_error`. Returns a function that removes it.

        Spec: SDK "Plugin System".
        """
        function = fit_handler(function)
        self._middleware.append(function)
        return lambda: self._middleware.remove(function)

    def _put(self, envelope: Envelope, sent: asyncio.Future[None] | None) -> None:
        for guard in tuple(self._guards):
            guard(envelope.kind)
        try:
            self._connection.post(envelope.raw, sent=sent, sender=self.id)
        except ConnectionLost as lost:
            raise self._unsent(envelope, self.failure or lost, "It was not sent; ") from None

    def _unsent(self, envelope: Envelope, why: MewError, so: str = "") -> ConnectionLost:
        again = (
            "connect() joins again"
            if self.state == "disconnected"
            else "the connection is made again by itself"
        )
        return ConnectionLost(
            f"Cannot send {envelope.kind} to space {self.space!r} as {self.id!r}: {why}. {so}{again}",
            close_code=getattr(why, "close_code", None),
        )

    def _lost(self, count: int, why: str) -> None:
        subject = f"{count} message{'s' if count > 1 else ''} that {self.id!r} posted to space {self.space!r}"
        self.report(ConnectionLost(f"{subject} may be missing there: {why}"))

    # --- receiving ---

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes) or message.startswith("#"):
            self._take_frame(message)
            return
        try:
            envelope = Envelope.from_members(orjson.loads(message), raw=message)
        except (ValueError, ProtocolError) as fault:
            error = f"The gateway sent {self.id!r} no envelope; it was ignored: {one_line(str(fault), 200)}"
            self.report(RemoteProtocolError(error, raw=message))
            return
        if envelope.kind in MEMBER_KINDS:
            self._note_members(envelope)
        if self._middleware:
            passed = self._pass_through(envelope)
            if passed is None:
                return
            envelope = passed
        self._messages(envelope)
        of_kind = self._messages_of.get(envelope.kind)
        if of_kind is not None:
            of_kind(envelope)

    def _pass_through(self, envelope: Envelope) -> Envelope | None:
        """The message as the middleware passes it on; None where it drops it."""
        for function in tuple(self._middleware):
            try:
                result = function(envelope)
            except Exception as fault:
                self.report(fault)
                continue
            if result is False:
                return None
            if isinstance(result, Envelope):
                envelope = result
        return envelope

    def _take_frame(self, message: str | bytes) -> None:
        data = message.encode("utf-8", "replace") if isinstance(message, str) else message
        try:
            frame = StreamData(*frames.split(data))
        except ProtocolError as fault:
            self.report(
                RemoteProtocolError(f"The gateway sent {self.id!r} no frame; it was ignored: {fault}")
            )
            return
        for signal in (self._frames.get(None), self._frames.get(frame.stream_id)):
            if signal is not None:
                signal(frame)

    def _note_members(self, envelope: Envelope) -> None:
        if envelope.kind.startswith("system/") and envelope.sender != GATEWAY:
            return
        welcome = read_welcome(envelope) if envelope.kind == "system/welcome" else None
        if welcome is not None and (self.state != "ready" or welcome.id == self.id):
            self.id = self.members.me = welcome.id
            self.epoch = _read_epoch(envelope.id)
        else:
            welcome = None  # to another participant; the ledger ignores it
        for change in self.members.observe(Entry.of(envelope, 0)):
            member = change.member
            if member.ids and member.name != self.id:
                self.participants[member.name] = list(member.capabilities)
            else:
                self.participants.pop(member.name, None)
        if welcome is not None:
            self._admit(welcome, envelope.payload)

    def _admit(self, welcome: Welcome, payload: dict[str, Any]) -> None:
        self.extension = welcome.extension
        self.capabilities, faults = read_capabilities(welcome.patterns, edition=self.pattern_edition)
        for fault in faults:
            self.report(RemoteProtocolError(f"A permission of {self.id!r} cannot be read: {fault}"))
        self._connection.ready(self.id)
        self._welcomes(payload)

    # --- events of the connection ---

    def _explain(self, fault: HandshakeRefused | LinkClosed) -> MewError:
        return self._endpoint.explain(fault, name=self.id, welcomed=self.state == "ready")

    def _down(self, error: MewError | None) -> None:
        self.members.interrupt()
        self.participants = {}
        self._disconnects(error)
        if self.state == "disconnected":
            self._messages.close()


# --- drafts ---


def complete_draft(
    draft: Envelope | Mapping[str, Any], *, id: str, now: datetime, sender: str, limit: int
) -> Envelope:
    """The envelope of a draft; a complete envelope is returned unchanged, with its text.

    `protocol`, `id`, `ts` and `from` are added where they are missing; a single `to` or `correlation_id` becomes a
    list. `limit` is the size in bytes of the longest message that the gateway accepts.

    Raises:
        LocalProtocolError: it is no envelope, not JSON, too large, or this sender may not send it.

    Spec: §3.
    """
    draft_members = draft.members if isinstance(draft, Envelope) else draft
    members = {"protocol": PROTOCOL, "id": "", "ts": timestamp(now), "from": sender, **draft_members}
    members["id"] = members["id"] or id
    for key in ("to", "correlation_id"):
        value = members.get(key)
        if value is None:
            members.pop(key, None)
        else:
            members[key] = [value] if isinstance(value, str) else list(value)
    kind = members.get("kind")
    if members["from"] != sender:
        raise LocalProtocolError(
            f"Cannot send {kind} from {members['from']!r}: this is {sender!r}; leave `from` out",
            code="identity_mismatch",
            section="§4.1",
        )
    if isinstance(kind, str) and is_reserved(kind):
        raise LocalProtocolError(
            f"Cannot send {kind} as {sender!r}: it is reserved for the gateway",
            code="reserved_kind",
            section="§4.1",
        )
    if kind == "stream/request":
        _check_direction(members.get("payload"), sender)
    try:
        same = isinstance(draft, Envelope) and members == draft.members
        envelope = draft if isinstance(draft, Envelope) and same else Envelope.of(members)
    except ProtocolError as fault:
        message = f"Cannot send {one_line(str(kind), 80)} as {sender!r}: {fault}"
        raise LocalProtocolError(message, code=fault.code, section=fault.section) from None
    size = utf8_size(envelope.raw)
    if size > limit:  # the gateway could not say to which message its refusal belongs
        raise LocalProtocolError(
            f"Cannot send {envelope.kind} as {sender!r}: it has {size} bytes, and a message takes "
            f"at most {limit}. Send less at once",
            code="message_too_large",
        )
    if too_deep(envelope.raw):  # nor here
        raise LocalProtocolError(
            f"Cannot send {envelope.kind} as {sender!r}: it is nested more than {MAX_DEPTH} levels deep",
            code="invalid_json",
        )
    return envelope


def _check_direction(payload: Any, sender: str) -> None:
    """Refuses a direction that the specification does not know; others deliver it, and no reader can use it."""
    direction = payload.get("direction", "upload") if isinstance(payload, Mapping) else "upload"
    if direction not in DIRECTIONS:
        hint = did_you_mean(direction, DIRECTIONS) if isinstance(direction, str) else ""
        raise LocalProtocolError(
            f"Cannot request a stream as {sender!r} with the direction {one_line(f'{direction!r:.100}', 60)}: it is "
            f"'upload' or 'download'{f'; {hint}' if hint else ''}",
            section="§3.10.1",
        )


def _read_epoch(id: str) -> str:
    """The epoch in the id of a message of a gateway of ours, `gw-<epoch>-<number>`; empty where it has none."""
    start, _, rest = id.partition("-")
    epoch, _, number = rest.partition("-")
    return epoch if start == "gw" and len(epoch) == 16 and epoch.isalnum() and number.isdecimal() else ""
