"""Serves the panel of a lab as a page of its own, on one port of this machine.

The process that holds the lab decides; the page gets and sends only what the views of a notebook do, over the
WebSocket `/ui/ws`. How it works. `new_link` makes a link with a code in its fragment. The page posts the code to
`/ui/session`, and gets the secret of a session, which is the first frame of its WebSocket. Every request passes the
same checks first: `Host` names this server, `Origin` is the page's own, and there is no query, in which a secret would
be logged on its way.

The port belongs to the page alone: the endpoints of the space stand on another one, and refuse every web page. Beside
the page, `/ui/control` lets the person's own shell ask for a link or end the sessions, by a token in a file.

Spec: ruling R38; threats 24, 25.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from mew_lab.errors import ConfigError, ProtocolError
from mew_lab.gateway.admission import Hosts, bearer
from mew_lab.gateway.http_server import HttpServer, admit
from mew_lab.lab.listing import Note
from mew_lab.protocol.envelope import read_strict
from mew_lab.protocol.text import count_of
from mew_lab.protocol.token import Token, forget
from mew_lab.transport.listener import PATIENCE, LimitedLog
from mew_lab.views.page.assets import make_assets
from mew_lab.views.page.link import PageLink
from mew_lab.views.page.sessions import CODE_LIFE, PageSession, PageSessions
from mew_lab.views.page.socket import MOST_BYTES, NOT_SIGNED_IN, Message, PageSocket, Receive, Send
from mew_lab.views.ui.live import LiveView

__all__ = ["HEADERS", "PageServer", "check_origin"]

logger = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
NAMES: Final = (HOST, "localhost", "[::1]")
BODY: Final = 1024  # bytes of a body, and of the first frame
REFUSAL_DELAY: Final = 0.05  # seconds that the answer to a wrong code or secret waits
ENDS_WITHIN: Final = 0.2
SOCKETS: Final = 8  # of one session at once
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:]+", re.ASCII)
EXPIRED: Final = (
    "This link was used already, or is older than two minutes. Ask for another one where the space runs."
)


def check_origin(origin: str) -> str:
    """The origin under which an owner's proxy serves the page, such as `https://lab.example.org`.

    Raises:
        ConfigError: It is no origin of https.
    """
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = (parts.hostname or "") if parts.scheme == "https" else ""
    own = f"https://{f'[{host}]' if ':' in host else host}{f':{port}' if port is not None else ''}"
    if origin.lower().removesuffix("/") != own or not _HOST.fullmatch(host):
        raise ConfigError(
            f"The page cannot be served as {origin[:80]!r}: an origin is https:// and the name of your proxy, such as "
            "https://lab.example.org, without a path",
            key="ui-origin",
        )
    return own.removesuffix(":443")


class PageServer:
    """The page of one space. To be made where the views may be made, and used on the loop.

    Args:
        panel: The panel of the space; its parts are the other views of the page.
        space: The name of the space.
        port: 0 takes a free one.
        origin: Another origin under which the page is reached, by a proxy of the owner.
    """

    def __init__(self, panel: LiveView, *, space: str, port: int = 0, origin: str | None = None) -> None:
        self.port = port
        self.sessions = PageSessions()
        self._origin = check_origin(origin) if origin is not None else None
        self._space = space
        self._parts: Mapping[str, LiveView] = {"panel": panel, **panel.parts}
        self._assets = make_assets(self._parts)
        self._hosts = Hosts(port)
        self._origins: Mapping[str, str] = {}
        self._control: Token | None = None
        self._counts: dict[PageSession, int] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="mew_lab-page")
        self._log = LimitedLog(logger)
        self._server = HttpServer(self, frame_bytes=MOST_BYTES)
        self._running = False

    # --- for its owner ---

    async def start(self) -> None:
        """Listens on the loopback.

        Raises:
            ConfigError: The port cannot be used.
        """
        self.port = self._server.bind(HOST, self.port)
        proxied = self._origin.removeprefix("https://") if self._origin is not None else None
        self._hosts = Hosts(self.port, allowed=[proxied] if proxied is not None else [])
        own = {f"http://{name}:{self.port}": f"{name}:{self.port}" for name in NAMES}
        self._origins = own | ({self._origin: proxied} if self._origin and proxied else {})
        await self._server.start()
        self._running = True

    async def stop(self) -> None:
        """Frees the port, and ends the sessions; a second call does nothing.

        An open page is not signed out: it says that its server is gone.
        """
        if self._running:
            self._running = False
            await self._server.stop(within=ENDS_WITHIN)
            self.sessions.end_all()
            self._worker.shutdown(wait=False)
            if self._control is not None:
                forget(self._control)

    def allow_control(self) -> Token:
        """Lets who has this token ask for links and end sessions, from another process."""
        self._control = Token(f"{self.port}.{secrets.token_urlsafe(32)}")
        return self._control

    def new_link(self, *, port: int = 0, origin: str | None = None) -> PageLink:
        """A link for one browser; its code is good for one use within two minutes.

        Raises:
            ConfigError: The page has another port or origin than these.
        """
        if (port and port != self.port) or (origin is not None and check_origin(origin) != self._origin):
            raise ConfigError(
                f"The page of {self._space} is served already, on port {self.port} as "
                f"{self._origin or f'http://{HOST}:{self.port}'}; leave port and origin out, or stop the space first",
                key="port" if port else "ui-origin",
            )
        base = self._origin or f"http://{HOST}:{self.port}"
        return PageLink(f"{base}/ui#{self.sessions.new_code()}", space=self._space, seconds=CODE_LIFE)

    def end_sessions(self) -> Note:
        """Ends every session, so that each open page needs another link."""
        count = self.sessions.end_all()
        return Note(f"Ended {count_of(count, 'session')} of the page of {self._space}; every link is void")

    # --- requests ---

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one request (ASGI)."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        upgrades = scope["type"] == "websocket"
        kind = "websocket.http.response" if upgrades else "http.response"
        answer = partial(_answer, send, kind=kind)
        path, method = scope["path"], scope.get("method", "")
        refused = self._find_refusal(
            headers, scope["query_string"], acts=upgrades or method == "POST", path=path
        )
        if refused is not None:
            return await answer(*refused)
        if upgrades:
            if path != "/ui/ws":
                return await answer(404, "there is nothing at this address")
            return await self._serve_socket(scope, receive, send)
        if path == "/ui/session" and method == "POST":
            return await self._sign_in(headers, receive, answer)
        if path == "/ui/control" and method == "POST":
            return await self._obey(headers, receive, answer)
        found = self._assets.get(path) if method == "GET" else None
        if found is None:
            return await answer(404, "there is nothing at this address; the page is at /ui")
        return await answer(200, found.body, media=found.media)

    def _find_refusal(
        self, headers: Mapping[str, str], query: bytes, *, acts: bool, path: str
    ) -> tuple[int, str] | None:
        """Status and sentence of a refusal; None accepts the request."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return 421, f"this server is not {host[:80]!r}; name it by its own address"
        if query:
            return 400, "nothing here takes a query: what it held is to be taken as known to others"
        if path == "/ui/control":
            return (403, "this is not for web pages") if origin is not None else None
        if origin is None:
            return (403, "only the page itself may do this") if acts else None
        if self._origins.get(origin.lower()) != host.lower():
            return 403, f"pages of {origin[:80]!r} may not use this server"
        return None

    async def _sign_in(self, headers: Mapping[str, str], receive: Receive, answer: Answer) -> None:
        members = await _read_json(headers, receive)
        code = members.get("code") if members is not None else None
        if not isinstance(code, str):
            return await answer(400, 'send {"code": …} as application/json')
        secret = self.sessions.exchange(code)
        if secret is None:
            self._log.warn("sign-ins with a code that was wrong, used or old, since the last such line: %d")
            await asyncio.sleep(REFUSAL_DELAY)
            return await answer(403, EXPIRED)
        self._expire(secret)
        return await answer(200, json.dumps({"session": secret}), media="application/json")

    def _expire(self, secret: str) -> None:
        """Ends the session when its person did nothing for long."""
        session = self.sessions.find(secret)
        if session is not None:
            asyncio.get_running_loop().call_later(session.left + 0.1, self._expire, secret)

    async def _obey(self, headers: Mapping[str, str], receive: Receive, answer: Answer) -> None:
        token = bearer(headers.get("authorization"))
        if token is None or token != self._control:
            await asyncio.sleep(REFUSAL_DELAY)
            return await answer(403, "this is not the token of this page")
        members = await _read_json(headers, receive) or {}
        acts: dict[object, Callable[[], Note]] = {"link": self.new_link, "end": self.end_sessions}
        act = acts.get(members.get("act"))
        if act is None:
            return await answer(400, 'send {"act": "link"} or {"act": "end"} as application/json')
        made = act()
        return await answer(
            200,
            json.dumps({"said": str(made), "url": getattr(made, "url", "")}),
            media="application/json",
        )

    async def _serve_socket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # the request itself
        await send({"type": "websocket.accept", "headers": list(HEADERS)})
        session = await self._find_session(receive)
        if session is None:
            await asyncio.sleep(REFUSAL_DELAY)
            return await send(_closing(NOT_SIGNED_IN, "there is no such session; sign in by a link"))
        if self._counts.get(session, 0) >= SOCKETS or not admit(scope, session):
            return await send(_closing(1013, f"a session has at most {SOCKETS} open pages; close one"))
        socket = PageSocket(self._parts, session, send=send, worker=self._worker)
        end = partial(socket.close, NOT_SIGNED_IN, "this session has ended")
        session.on_end.append(end)
        self._counts[session] = self._counts.get(session, 0) + 1
        socket.put(json.dumps({"welcome": self._space}))
        try:
            await socket.run(receive)
        finally:
            if end in session.on_end:
                session.on_end.remove(end)
            self._counts[session] -= 1
            if not self._counts[session]:
                del self._counts[session]
        return None

    async def _find_session(self, receive: Receive) -> PageSession | None:
        try:
            async with asyncio.timeout(PATIENCE):
                text = (await receive()).get("text") or ""
            secret = read_strict(text, limit=BODY).get("session")
        except (TimeoutError, ProtocolError):
            return None
        return self.sessions.find(secret) if isinstance(secret, str) else None


Answer = Callable[..., Coroutine[Any, Any, None]]


async def _answer(
    send: Send, status: int, body: str | bytes, *, media: str = "text/plain", kind: str
) -> None:
    data = body.encode() if isinstance(body, str) else body
    headers = [
        *HEADERS,
        (b"cache-control", b"no-store"),
        (b"content-type", f"{media}; charset=utf-8".encode()),
        (b"content-length", str(len(data)).encode()),
        *([(b"connection", b"close")] if status != 200 else []),
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": data})


def _closing(code: int, reason: str) -> Message:
    return {"type": "websocket.close", "code": code, "reason": reason}


async def _read_json(headers: Mapping[str, str], receive: Receive) -> Mapping[str, Any] | None:
    """The object in the body of a request; None where it is none, too long, or not sent as JSON."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                parts.append(message.get("body", b""))
                if message["type"] != "http.request" or sum(map(len, parts)) > BODY:
                    return None
                if not message.get("more_body", False):
                    return read_strict(b"".join(parts), limit=BODY)
    except (TimeoutError, ProtocolError):
        return None
