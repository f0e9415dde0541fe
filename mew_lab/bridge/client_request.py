"""One request of an MCP client to a gate, while it waits: its progress, its cancellation, its earlier rounds.

A client of the 2026-07-28 revision need not hold one request open. Where it takes that (`takes_rounds`), it is told
`input_required` with a state, and sends the request again with that state. The library signs the state and checks that
it comes back with the same request, so here it is plain text: the id of the call, the number of the round, and the
holder for which the state was made.

A client that cancels a request does not want the call any more, or its own time limit is over, and then it may ask
again. `notifications/cancelled` has no member for that, so the words of its reason decide (`is_time_out`), or a time
after which this client has given up before (`TimeLimits`). A connection that ends without a word counts as a client that
is gone.

Spec: MCP "Progress", "Cancellation", 2026-07-28 "Multi Round-Trip Requests".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp import MCPError, types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import coerce_request_id
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mew_lab.bridge.delivery import ANSWER_DELIVERY, STDIO, STDIO_ANSWERS, AnswerDelivery, ClientSession
from mew_lab.bridge.offers import ANSWER_AFTER_KEY, APPS
from mew_lab.bridge.waiting_calls import WaitingCall, WaitingCalls
from mew_lab.errors import ConfigError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import is_number, mapping_of, member
from mew_lab.sdk.progress import Progress, token_of
from mew_lab.sdk.tools import INVALID_PARAMS
from mew_lab.settings.waiting import check_seconds

__all__ = ["MAX_ROUNDS", "TIME_OUTS", "ClientRequest", "TimeLimits", "is_time_out", "request_key"]

TAKES_ROUNDS = frozenset({"fastmcp", "mew_lab"})  # names of clients that take rounds, whatever they declare
PROGRESS_EVERY = 5.0  # seconds; a client that resets its limit at each progress waits on
MAX_ROUNDS = 8  # clients give up after ten; the last answer must be one that a model can read
MAX_CLIENTS = 64  # whose time limits are remembered
MAX_LIMITS = 16  # of one client
SHORTEST_LIMIT = 1.0  # seconds; nobody gives a person less
SAME_LIMIT = 0.03  # two times that differ by this part are one limit
MAX_READ = 500  # characters of a reason

TIME_OUTS: Final[Mapping[str, str]] = {
    "Python mcp": r"timed out after \S+s",
    "TypeScript @modelcontextprotocol/sdk": (
        r"(\w+: )?MCP error -32001: (Request timed out|Maximum total timeout exceeded)"
    ),
    "TypeScript @modelcontextprotocol/client": r"\w*Error: (Request timed out|Maximum total timeout exceeded)",
    "JavaScript AbortSignal.timeout": r"TimeoutError: (The operation was aborted due to timeout|.*timed out\.?)",
    "Rust rmcp": r"request timeout",
    "Go go-sdk": r"context deadline exceeded",
    "Java langchain4j": r"Timeout",
}
"""Patterns of the reasons with which clients cancel a request because their own time limit is over, by the client."""

_TIME_OUT = re.compile("|".join(f"(?:{pattern})" for pattern in TIME_OUTS.values()), re.IGNORECASE)


def is_time_out(reason: str | None) -> bool:
    """Whether the reason of a cancellation is that of a known client whose time limit is over."""
    return reason is not None and _TIME_OUT.fullmatch(reason[:MAX_READ].strip()) is not None


class TimeLimits:
    """The times after which each client has given up, by its name and version."""

    def __init__(self) -> None:
        self._seen: BoundedDict[str, list[float]] = BoundedDict(MAX_CLIENTS, refresh=True)

    def note(self, client: str, seconds: float) -> bool:
        """Notes that a client gave up after so many seconds; returns whether it has done so before."""
        if seconds < SHORTEST_LIMIT:
            return False
        limits = self._seen.get(client, [])
        known = [limit for limit in limits if math.isclose(limit, seconds, rel_tol=SAME_LIMIT)]
        if not known:
            self._seen[client] = [*limits, seconds][-MAX_LIMITS:]
        return bool(known)


class _ClientGone(Exception):
    """Raised where the connection of a request has ended."""


class ClientRequest:
    """One request.

    Attributes:
        id: the id of the call that its state names, empty where it has none; `holder` is for whom that was made.
        session: the session of its client; None over HTTP in the latest revision, which has no sessions.
        client: the name and version of its client, as that states them.
        key: what a cancellation names it by.
        answer_after: seconds after which it is answered as pending, as it says itself; None where it does not.

    Raises:
        MCPError: what it says is no number of seconds above 0, up to 30 days.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        state = (context.params or {}).get("requestState")
        parts = state.split(" ") if isinstance(state, str) else []
        self.id, round, self.holder = parts if len(parts) == 3 else ("".join(parts[:1]), "0", "")
        self._round = int(round) if round.isdecimal() else 0
        self.session, self.client = _session_of(context), _client_of(context)
        self.key = request_key(context, context.request_id)
        self.answer_after = _answer_after(context.params)
        self._begun = asyncio.get_running_loop().time()
        self._was_cancelled = False
        self._left: WaitingCall | None = None  # the call from which a cancellation detached it
        web = context.request  # None where the transport is not HTTP
        self._before_tool = 0.0  # what was reported last before the tool reported anything
        self._reported = -1.0
        self.is_gone = False  # whether its connection has ended
        self._delivery: AnswerDelivery | None = web.scope.get(ANSWER_DELIVERY) if web is not None else None

    @property
    def version(self) -> str:
        """The revision of MCP in which its client is answered."""
        return str(self._context.protocol_version)

    @property
    def notified(self) -> ServerSession | None:
        """The session over which its client is notified; None in the latest revision, where a client listens itself."""
        is_modern = self._context.protocol_version in MODERN_PROTOCOL_VERSIONS
        session: ServerSession = self._context.session
        return None if is_modern or session.client_params is None else session

    @property
    def takes_rounds(self) -> bool:
        """Whether its client sends a request again by itself where its result is `input_required`.

        Any client of the latest revision should, but one without a handler for what such a result asks for may fail at
        it. So it counts where the client declares a capability that needs such results, has sent a request again, or
        is known for it.
        """
        if self._context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return False
        declared: types.ClientCapabilities | None = self._context.session.client_capabilities
        asked = declared and (declared.elicitation, declared.sampling, declared.roots)
        may_be_asked = asked is not None and asked != (None, None, None)
        return bool(self._round or may_be_asked or self.client.partition(" ")[0] in TAKES_ROUNDS)

    @property
    def shows_pages(self) -> bool:
        """Whether its client declares that it shows pages of MCP Apps."""
        declared: types.ClientCapabilities | None = self._context.session.client_capabilities
        return declared is not None and APPS in (declared.extensions or {})

    @property
    def wants_progress(self) -> bool:
        """Whether its client wants to be told of progress."""
        return token_of(self._context.params) is not None

    async def wait(self, calls: WaitingCalls, waiting: WaitingCall, *, seconds: float) -> bool:
        """Waits for the end of a call, at most `seconds`, and reports progress; returns whether it ended."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        told: Progress | None = None
        events = [waiting.ended, *([self._delivery.gone] if self._delivery else [])]
        tasks = {loop.create_task(event.wait()) for event in events}
        try:
            with calls.attach(waiting):
                while True:
                    if self._delivery is not None and self._delivery.gone.is_set():
                        raise _ClientGone
                    left = begun + seconds - loop.time()
                    is_over = waiting.ended.is_set() or left <= 0
                    is_new = waiting.progress is not told
                    told = waiting.progress
                    if is_new:
                        await self._report(waiting, loop.time() - begun)
                    if is_over:
                        break
                    if not is_new and not await _happened(
                        tasks, waiting.reported, within=min(PROGRESS_EVERY, left)
                    ):
                        await self._report(waiting, loop.time() - begun)
        except _ClientGone:  # its answer reaches nobody
            self.is_gone = True
            return False
        except asyncio.CancelledError:
            self._left = waiting
            if self._was_cancelled:
                self._pass_on_cancellation(calls)
            raise
        finally:
            for task in tasks:
                task.cancel()
        return waiting.ended.is_set()

    def cancel(self, calls: WaitingCalls) -> None:
        """Notes that its client does not want the call any more. This may come before or after the end of `wait`."""
        self._was_cancelled = True
        self._pass_on_cancellation(calls)

    def _pass_on_cancellation(self, calls: WaitingCalls) -> None:
        if self._left is not None:
            calls.note_cancelled(self._left)

    @property
    def seconds(self) -> float:
        """The seconds since it came."""
        return asyncio.get_running_loop().time() - self._begun

    def when_delivered(self, then: Callable[[], None]) -> None:
        """Calls `then` when the answer was sent; at once where the transport does not say so."""
        if self._delivery is None:
            STDIO_ANSWERS.when_sent(self._context.request_id, then)
        else:
            self._delivery.when_sent(then)

    @property
    def may_return(self) -> bool:
        """Whether its client sends it again by itself when it is told to."""
        return self.takes_rounds and self._round < MAX_ROUNDS

    def next_round(self, waiting: WaitingCall) -> types.InputRequiredResult:
        """The answer that makes its client send it again."""
        return types.InputRequiredResult(request_state=f"{waiting.id} {self._round + 1} {waiting.holder}")

    async def _report(self, waiting: WaitingCall, seconds: float) -> None:
        """Reports the seconds of waiting, and from the first report of the tool on, what that reports.

        The reported number increases each time, as MCP demands. So the tool counts on from the last second, and where
        it reports nothing new the number is the next one that is larger.
        """
        at_least = math.nextafter(self._reported, math.inf)
        progress = waiting.progress
        if progress is None:
            self._before_tool = self._reported = max(seconds, at_least)
            await self._context.session.report_progress(self._reported, None, waiting.describe())
            return
        done, total, message = progress
        self._reported = max(self._before_tool + done, at_least)
        known = None if total is None else max(self._before_tool + total, self._reported)
        await self._context.session.report_progress(self._reported, known, message or waiting.describe())


def request_key(context: Any, id: str | int) -> tuple[ClientSession | None, str | int]:
    """What one request of a client is known by; as for the library, `"7"` and 7 are one id."""
    return _session_of(context), coerce_request_id(id)


def _session_of(context: Any) -> ClientSession | None:
    """The session of the client of a request or notification."""
    if context.request is None:
        return STDIO
    delivery: AnswerDelivery | None = context.request.scope.get(ANSWER_DELIVERY)
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return None if delivery is None or is_modern else delivery.session


def _answer_after(params: Mapping[str, Any] | None) -> float | None:
    meta = mapping_of(member(params, "_meta"))
    if ANSWER_AFTER_KEY not in meta:
        return None
    seconds = meta[ANSWER_AFTER_KEY]
    if is_number(seconds):
        with contextlib.suppress(ConfigError):
            return check_seconds(seconds, key=ANSWER_AFTER_KEY)
    why = f"{ANSWER_AFTER_KEY} in _meta is no number of seconds above 0, up to 30 days"
    raise MCPError(INVALID_PARAMS, f"Invalid params: {why}. Nothing was sent")


def _client_of(context: Any) -> str:
    params: types.InitializeRequestParams | None = context.session.client_params
    return f"{params.client_info.name} {params.client_info.version}" if params is not None else ""


async def _happened(tasks: set[asyncio.Task[Any]], event: asyncio.Event, *, within: float) -> bool:
    """Whether one of the tasks ended or the event was set, for which this waits at most `within` seconds."""
    setting = asyncio.get_running_loop().create_task(event.wait())
    try:
        done, _ = await asyncio.wait({*tasks, setting}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        setting.cancel()
    return bool(done)
