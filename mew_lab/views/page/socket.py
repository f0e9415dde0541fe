"""Connects one open page to the views: passes on what it sends, and sends it what they say.

A frame in either direction is a JSON object with the name of a `part` and the `message` of its view. Nothing else
reaches a view, and a view decides about a message as about one of a notebook. What goes out is masked, so that no token
of the space goes with it, and the acts that show one are refused here.

Spec: ruling R38.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final

from mew_lab.errors import ProtocolError
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.envelope import MAX_MESSAGE, read_strict
from mew_lab.protocol.token import mask
from mew_lab.views.page.sessions import PageSession
from mew_lab.views.ui.live import LiveView

__all__ = ["MOST_BYTES", "NOT_SIGNED_IN", "PageSocket"]

MOST_BYTES: Final = 4 * MAX_MESSAGE  # of one frame of the page: an edit may hold a whole message
MOST_WAITING: Final = 32 * 1024 * 1024  # bytes that a page has not taken yet
NOT_SIGNED_IN, TOO_SLOW, MALFORMED = 4401, 1013, 1008  # codes of a close
# What a page sends by itself, and its person has not done.
PASSIVE: Final = frozenset({"ping", "snapshot", "bye", "seen"})
WITHHELD: Final = {
    (
        "roster",
        "reveal",
    ): "The token of a participant is never sent to this page. Where the space runs, it is in a file below "
    ".mew/tokens; a notebook shows it, too."
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]


class _PartOutlet:
    """The outlet of one view in one page."""

    def __init__(self, name: str, put: Callable[[str], object]) -> None:
        self._name = name
        self._put = put

    def send(self, content: dict[str, Any], /) -> None:
        """Takes a message of the view, on its writer's thread."""
        self._put(mask(json.dumps({"part": self._name, "message": content}, ensure_ascii=False)))


class PageSocket:
    """One open page. To be used on the loop of the server.

    Args:
        parts: The views by name.
        worker: Runs what the views do with a message, one after the other, so that none holds the loop.
    """

    def __init__(
        self, parts: Mapping[str, LiveView], session: PageSession, *, send: Send, worker: Executor
    ) -> None:
        self._parts = parts
        self._session = session
        self._send = send
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._outlets: dict[str, _PartOutlet] = {}
        self._waiting: deque[str] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._close: tuple[int, str] | None = None

    async def run(self, receive: Receive) -> None:
        """Drives it to its end."""
        sender = asyncio.create_task(self._send_all())
        try:
            while self._close is None:
                taking = asyncio.ensure_future(receive())
                await asyncio.wait({taking, sender}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    with suppress(asyncio.CancelledError):
                        await taking
                    break
                message = taking.result()
                if message["type"] != "websocket.receive":
                    break
                await self._take(message.get("text"))
        finally:
            for name, outlet in self._outlets.items():
                self._parts[name].detach(outlet)
            if self._close is None:
                sender.cancel()
            await asyncio.wait({sender}, timeout=1.0)

    def close(self, code: int, reason: str) -> None:
        """Closes it once it has been sent what waits before."""
        self._close = self._close or (code, reason)
        self._news.set()

    async def _take(self, text: str | None) -> None:
        try:
            members = read_strict(text or "", limit=MOST_BYTES)
        except ProtocolError:
            return self.close(MALFORMED, "a frame is a JSON object")
        name, message = str(members.get("part")), mapping_of(members.get("message"))
        view = self._parts.get(name)
        if view is None or message is None:
            return None
        if name not in self._outlets:
            outlet = self._outlets[name] = _PartOutlet(name, self._put_from_thread)
            view.attach(outlet)
        kind = str(message.get("t"))
        if kind not in PASSIVE:
            self._session.use()
        if kind == "act" and (why := WITHHELD.get((name, str(message.get("act"))))):
            to = {"view": message.get("view"), "job": message.get("job")}
            view.post({"t": "failed", **to, "said": why, "value": None})
        else:
            await self._loop.run_in_executor(self._worker, view.receive, dict(message), self._outlets[name])
        return None

    def _put_from_thread(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self.put, text)

    def put(self, text: str) -> None:
        """Sends a frame after those that wait; a page that leaves too many unread is closed."""
        self._waiting.append(text)
        self._size += len(text)
        if self._size > MOST_WAITING:
            self._waiting.clear()
            self.close(TOO_SLOW, "the page did not take what was sent")
        self._news.set()

    async def _send_all(self) -> None:
        with suppress(OSError, RuntimeError):  # the page has gone, which `receive` tells
            while True:
                while self._waiting:
                    text = self._waiting.popleft()
                    self._size -= len(text)
                    await self._send({"type": "websocket.send", "text": text})
                if self._close is not None:
                    code, reason = self._close
                    await self._send({"type": "websocket.close", "code": code, "reason": reason})
                    return
                self._news.clear()
                await self._news.wait()
