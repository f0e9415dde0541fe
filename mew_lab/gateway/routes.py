"""The HTTP routes of a gateway, one method each.

HTTP uses the same pipeline as WebSocket: the gateway takes the body of a request, and its reply is the answer. Host and
Origin of a request are checked before.

Spec: §5.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from datetime import datetime
from email.utils import formatdate
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mew_lab.gateway.admission import MISSING_BEARER, Identity, bearer, identify, without_join
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.http_server import admit
from mew_lab.gateway.limits import Limits, Rates
from mew_lab.gateway.openapi import DESCRIPTION
from mew_lab.gateway.ring import MAX_ENVELOPES, MAX_WAIT, Page
from mew_lab.gateway.rotation import Rotation
from mew_lab.gateway.sockets import ENOUGH, OVERSIZE
from mew_lab.protocol.envelope import MAX_ID, is_id
from mew_lab.protocol.text import parse_rfc3339, write_rfc3339
from mew_lab.space.events import NOTE_BYTES

__all__ = ["Routes", "refusal"]

FEATURES = ("capabilities", "context", "validation", "http-io")
BAD_TOKEN = "Invalid token for participant"
TOO_FAST = "too many messages in too short a time; send slower"
NOT_AN_ENVELOPE = frozenset({"invalid_json", "invalid_envelope"})
BODIES = 4  # bodies of requests of one participant that are read at once; others wait unread
TOLD = ("request", "happened", "by", "note")  # of a resolution
MAX_TO = 16  # targets: those of a note
CHUNK = 64 * 1024  # characters of a page that are encoded together

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Routes:
    """The HTTP half of one server, as an ASGI application.

    `refusal_delay` delays the answer to a wrong token. `run` identifies this run of the gateway.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        limits: Limits,
        rates: Rates,
        refusal_delay: Callable[[], Awaitable[None]],
        rotation: Rotation | None = None,
        run: str = "",
    ) -> None:
        self._gateway = gateway
        self._run = run
        self._limits = limits
        self._rates = rates
        self._refusal_delay = refusal_delay
        self._reading: defaultdict[Identity, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(BODIES)
        )
        self._rotation = rotation or Rotation()
        self._opened = time.monotonic()
        self._polls: set[asyncio.Future[None]] = set()  # those that wait for news
        self._stopped = False
        self._app = Starlette(
            routes=[
                Route("/ws", self._not_upgraded),
                Route("/health", self._health),
                Route("/openapi.json", self._openapi),
                Route("/participants", self._participants),
                Route("/participants/{id}/messages", self._mail, methods=["GET", "POST"]),
                Route("/participants/{id}/notes", self._notes, methods=["GET", "POST"]),
            ],
            exception_handlers={HTTPException: _as_json},
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI)."""
        await self._app(scope, receive, send)

    def stop(self) -> None:
        """Answers what waits for news: the gateway is about to stop."""
        self._stopped = True
        for poll in self._polls:
            _wake(poll)

    async def _not_upgraded(self, request: Request) -> Response:
        return refusal(426, "upgrade_required", "this is a WebSocket address", upgrade="websocket")

    async def _openapi(self, request: Request) -> Response:
        return _answer(DESCRIPTION)

    async def _health(self, request: Request) -> Response:
        return _answer(
            {
                "status": "ok",
                "spaces": len(self._gateway.spaces),
                "clients": self._gateway.connections(),
                "uptime": round(time.monotonic() - self._opened, 1),
                "features": FEATURES,
                "run": self._run,
            }
        )

    async def _participants(self, request: Request) -> Response:
        identity = await self._identity(request)
        self._check_rate(identity)
        answer = _answer({"participants": self._gateway.participants(identity.space)})
        self._count(identity, len(answer.body))
        return answer

    async def _mail(self, request: Request) -> Response:
        return await (self._post if request.method == "POST" else self._messages)(request)

    async def _post(self, request: Request) -> Response:
        """Takes one message by HTTP.

        Spec: §5.3.
        """
        identity = await self._owner(request)
        body = await self._json(request, identity, OVERSIZE * self._gateway.message_bytes(identity.space))
        time = asyncio.get_running_loop().time
        began = time()
        body = _without_join(body, limit=self._gateway.message_bytes(identity.space))
        reply = self._gateway.post(identity.space, request.path_params["id"], body)
        now = time()
        self._rotation.spend(now - began)
        self._rates.of(*identity, now).spend(now - began, now)
        await asyncio.sleep(0)  # delivery queues write at the end of a turn, and the answer is to come last
        answer = reply.body
        if answer.get("code") in NOT_AN_ENVELOPE:  # as other implementations answer
            answer = {**answer, "error": answer["message"]}
        return _answer(answer, status=reply.status)

    async def _notes(self, request: Request) -> Response:
        return await (self._report if request.method == "POST" else self._resolution)(request)

    async def _resolution(self, request: Request) -> Response:
        """Answers an executor that asks what was reported of a call that it may have executed.

        Spec: rulings R35, R42.
        """
        identity = await self._owner(request)
        query = request.query_params
        id, to = query.get("request", ""), query.getlist("to")
        if not is_id(id) or not 0 < len(to) <= MAX_TO:
            raise HTTPException(
                400, f"name one request (1 to {MAX_ID} characters) and all its targets (1 to {MAX_TO}) as to"
            )
        self._count(identity, 0)
        found = self._gateway.find_resolution(identity.space, identity.participant, id, to)
        about = None if found is None else {name: getattr(found, name) for name in TOLD}
        return _answer({"resolution": about})

    async def _report(self, request: Request) -> Response:
        """Takes a note about a decision or a call of the participant's own; it is delivered to nobody.

        Spec: ruling R42.
        """
        identity = await self._owner(request)
        body = await self._json(request, identity, NOTE_BYTES)
        reply = self._gateway.report(identity.space, request.path_params["id"], body)
        return _answer(reply.body, status=reply.status)

    async def _json(self, request: Request, identity: Identity, limit: int) -> str | bytes:
        """The body of a request that counts as one message of its participant."""
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise HTTPException(415, "Content-Type must be application/json")
        self._check_rate(identity)  # before the body: that of a refused request is not read
        body = await self._body(request, identity, limit=limit)
        self._count(identity, len(body))
        if self._rotation.over:
            await self._rotation.wait(identity)
        return body

    async def _messages(self, request: Request) -> Response:
        """Answers a participant that polls with recent envelopes: all that are kept, or those after `since`.

        Where there are none and the request has `wait`, the answer waits so many seconds for the first. The token is
        checked again then.

        Spec: §5.3 (rulings on retrieval).
        """
        identity = await self._owner(request)
        query = request.query_params
        after = _moment(query["since"]) if "since" in query else None
        limit = _limit(query["limit"]) if "limit" in query else None
        wait = _wait(query["wait"]) if "wait" in query else 0.0
        self._check_rate(identity)
        page = self._gateway.history(*identity, after=after, limit=limit)
        if wait and page is not None and not page.texts and not self._stopped:
            await self._await_news(request, identity, wait)
            identity = await self._owner(request)
            page = self._gateway.history(*identity, after=after, limit=limit)
        self._count(identity, sum(map(len, page.texts)) if page is not None else 0)
        if page is None:
            return refusal(
                410,
                "gone",
                "messages received after that time are not kept any more; leave since out to get all that are",
            )
        return _Messages(page, within=self._limits.body)

    async def _await_news(self, request: Request, identity: Identity, seconds: float) -> None:
        """Waits for a message that the participant may see, for so long, or until the client or the gateway goes."""
        poll: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = self._gateway.watch(*identity, lambda: _wake(poll))
        gone = asyncio.ensure_future(_await_end(request))
        self._polls.add(poll)
        try:
            await asyncio.wait({poll, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._polls.discard(poll)
            forget()
            gone.cancel()

    # --- reading a request ---

    async def _identity(self, request: Request) -> Identity:
        token = bearer(request.headers.get("authorization"))
        if token is None:
            raise HTTPException(401, MISSING_BEARER, {"www-authenticate": "Bearer"})
        requested = request.query_params.get("space", "")
        identity = identify(self._gateway.tokens, token, spaces=self._gateway.spaces, requested=requested)
        if identity is None:
            await self._refusal_delay()
            raise HTTPException(403, BAD_TOKEN)
        if not admit(request.scope, identity):
            raise HTTPException(503, "limit_exceeded", {"retry-after": "1"})
        return identity

    async def _owner(self, request: Request) -> Identity:
        """The identity of the token, which must belong to the participant in the path."""
        identity = await self._identity(request)
        if self._gateway.logical(identity.space, request.path_params["id"]) != identity.participant:
            raise HTTPException(403, BAD_TOKEN)
        return identity

    def _check_rate(self, identity: Identity) -> None:
        now = asyncio.get_running_loop().time()
        bucket = self._rates.of(*identity, now)
        if bucket.wait(now):
            raise HTTPException(429, "limit_exceeded", {"retry-after": str(bucket.retry_after(now))})

    def _count(self, identity: Identity, size: int) -> None:
        """Counts a request with a body of `size` bytes; refuses it when its participant is above its rate."""
        self._check_rate(identity)
        now = asyncio.get_running_loop().time()
        self._rates.of(*identity, now).take(size, now)

    async def _body(self, request: Request, identity: Identity, *, limit: int) -> str | bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body), self._reading[identity]:
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise HTTPException(413, f"a message of over {limit} bytes")
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {self._limits.body:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None
        body = b"".join(parts)
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body  # the space reports the fault


def _without_join(body: str | bytes, *, limit: int) -> str | bytes:
    """A body that may be journaled: of a join frame, which holds a token, only the kind."""
    if isinstance(body, str):
        return without_join(body, limit=limit)
    return without_join(body.decode("utf-8", "surrogateescape"), limit=limit).encode(
        "utf-8", "surrogateescape"
    )


def _moment(text: str) -> datetime:
    """The time of an RFC 3339 timestamp with any offset; any other text is refused (400)."""
    # A plus that was not escaped in the URL arrives as a blank.
    moment = parse_rfc3339(f"{text[:-6]}+{text[-5:]}" if text[-6:-5] == " " else text)
    if moment is not None:
        return moment
    message = "since must be an RFC 3339 timestamp such as 2026-01-09T10:00:00Z"
    raise HTTPException(400, f"{message}, and not {text[:40]!r}")


def _wait(text: str) -> float:
    if re.fullmatch(r"[0-9.eE+-]{1,20}", text):
        with contextlib.suppress(ValueError):
            if 0 <= (seconds := float(text)) <= MAX_WAIT:
                return seconds
    raise HTTPException(400, f"wait must be a number of seconds from 0 to {MAX_WAIT}, and not {text[:40]!r}")


async def _await_end(request: Request) -> None:
    """Waits until the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _wake(poll: asyncio.Future[None]) -> None:
    if not poll.done():
        poll.set_result(None)


def _limit(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) <= MAX_ENVELOPES:
        return int(text)
    raise HTTPException(400, f"limit must be a number from 1 to {MAX_ENVELOPES}, and not {text[:40]!r}")


# --- answers -----------------------------------------------------------------------------------------


class _Messages(Response):
    """A page of exact texts, sent in parts, so that a slow reader does not keep all of it in memory."""

    media_type = "application/json"

    def __init__(self, page: Page, *, within: float) -> None:
        self._page = page
        self._within = within
        self.status_code = 200
        self.background = None
        self.init_headers({"date": formatdate(usegmt=True)})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(self._within):
                for part in self._parts():
                    await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            pass  # the answer is incomplete, so the server closes the connection

    def _parts(self) -> Iterator[str]:
        chunk, size = ['{"messages":['], 0
        for at, text in enumerate(self._page.texts):
            chunk.append(f",{text}" if at else text)
            size += len(text)
            if size > CHUNK:
                yield "".join(chunk)
                chunk, size = [], 0
        following = write_rfc3339(self._page.next, timespec="microseconds")
        chunk.append(f'],"next":"{following}","more":{"true" if self._page.more else "false"}}}')
        yield "".join(chunk)


def _answer(body: Mapping[str, Any], *, status: int = 200, **headers: str) -> JSONResponse:
    return JSONResponse(body, status, {"date": formatdate(usegmt=True), **headers})


def refusal(status: int, error: str, message: str = "", **headers: str) -> JSONResponse:
    """A refusal as an answer; the connection closes after it, because the body is not read."""
    body = {"error": error, "message": message} if message else {"error": error}
    return _answer(body, status=status, connection="close", **headers)


async def _as_json(request: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, HTTPException)
    message = {429: TOO_FAST, 503: ENOUGH}.get(fault.status_code, "")
    return refusal(fault.status_code, fault.detail, message, **(fault.headers or {}))
