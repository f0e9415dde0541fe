"""How does a link stay up?  One task that opens, reads, and opens again; one that writes. It knows no
envelope.

What waits to be sent stands in the outbox, and goes out only after the welcome.

Spec: SDK "State Management", ruling R8c.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from mew_lab.errors import ConnectionLost, MewError, NoReply
from mew_lab.sdk.door import RECONNECT
from mew_lab.sdk.outbox import BROKEN, Outbox
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed

__all__ = ["Connection", "Owner", "Patience", "State"]

logger = logging.getLogger(__name__)
State = Literal["disconnected", "connecting", "connected", "joined", "ready"]

MAX_DELAY = 30.0  # seconds between two attempts, however many there were
FLUSH = 1.0  # seconds that `stop` waits for what was posted before it


class Patience(NamedTuple):
    """How long and how often: `delay` doubles from attempt to attempt; 0 `attempts` never tries again."""

    attempts: int = 10
    delay: float = 1.0
    welcome: float = 10.0


class Owner(NamedTuple):
    """What a connection needs of whoever has it."""

    open: Callable[[], Awaitable[Link]]
    take: Callable[[str | bytes], None]
    explain: Callable[[HandshakeRefused | LinkClosed], MewError]
    up: Callable[[], None]
    down: Callable[[MewError | None], None]
    retrying: Callable[[int], None]
    became: Callable[[State], None] = lambda state: None
    lost: Callable[[int, str], None] = lambda count, why: None


class Connection:
    """The life between `start` and `stop`: sessions, and the attempts between them."""

    def __init__(
        self,
        owner: Owner,
        *,
        patience: Patience,
        keep: bool = False,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.state: State = "disconnected"
        self.failure: MewError | None = None
        self._owner = owner
        self._patience = patience
        self._wait = wait
        self._link: Link | None = None
        self._runner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._welcomed = False  # once at least since `start`
        self._leaving = False
        self._outbox = Outbox(keep=keep, lost=owner.lost)
        self._unsent = asyncio.Event()
        self._sent = asyncio.Event()
        self._held: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        """Opens, and returns when `ready` was called; at once when it was before.

        Raises:
            MewError: as the owner explains it, when the first attempt fails; there is no second one.
        """
        if self._runner is None:
            self.failure = None
            self._leaving = self._welcomed = False
            self._ready = asyncio.get_running_loop().create_future()
            self._runner = asyncio.get_running_loop().create_task(self._run())
        assert self._ready is not None
        ready = self._ready
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            if not ready.done():
                await self.stop()
            raise

    async def stop(self) -> None:
        """Closes for good. What was posted before is sent first, if the link takes it within a second."""
        self._leaving = True
        runner, link = self._runner, self._link
        if link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH):
                    while self._outbox and self.state == "ready":
                        self._sent.clear()
                        await self._sent.wait()
            await link.close(1000, "leaving")
        if runner is not None and runner is not asyncio.current_task():
            runner.cancel()
            await asyncio.wait({runner})

    def ready(self, sender: str = "") -> None:
        """The other side has let us in, and calls us `sender`; what was kept goes out, before anything new."""
        if self.state != "ready":
            self._outbox.claim(sender)
        self._welcomed = True
        self._become("ready")
        self._unsent.set()
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def post(
        self, message: str | bytes, *, sent: asyncio.Future[None] | None = None, sender: str = ""
    ) -> None:
        """Puts a message behind all that were posted before; `sent` is done when the link has taken it.

        Where the connection keeps, one with a `sender` may also be posted while another link is awaited.

        Raises:
            ConnectionLost: when there is no link, or too much waits already.
        """
        if self.state == "ready":
            self._outbox.add(message, sent=sent)
            self._unsent.set()
        elif (
            self.state == "disconnected"
            or self._leaving
            or not self._outbox.keep(message, sent=sent, sender=sender)
        ):
            raise ConnectionLost(f"not connected (state {self.state})")

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._owner.became(state)

    def hold(self, until: Callable[[], Awaitable[None]]) -> None:
        """Takes nothing more from the link until `until()` is done; for whoever is told of a message, right then."""
        self._held = until

    # --- the reading task ---

    async def _run(self) -> None:
        attempt = 0
        error: MewError | None = None
        try:
            while True:
                error = await self._session()
                if self.state == "ready":
                    attempt = 0
                if not self._welcomed or not self._worth_another(error):
                    return
                if attempt >= self._patience.attempts:
                    if attempt:
                        error = ConnectionLost(f"{error}. Gave up after {attempt} attempts", close_code=1006)
                    return
                self._down(error, "connecting")
                attempt += 1
                self._owner.retrying(attempt)
                await self._wait(min(self._patience.delay * 2 ** (attempt - 1), MAX_DELAY))
        except asyncio.CancelledError:
            error = None
        finally:
            self._end(None if self._leaving else error)

    def _worth_another(self, error: MewError) -> bool:
        if isinstance(error, ConnectionLost):
            return error.close_code in RECONNECT
        return isinstance(error, NoReply)

    async def _session(self) -> MewError:
        """Opens a link and reads until it ends; why it did."""
        self._become("connecting")
        try:
            link = await self._owner.open()
        except MewError as fault:
            return fault
        except (HandshakeRefused, LinkClosed) as fault:
            return self._owner.explain(fault)
        except Exception as fault:
            return ConnectionLost(f"opening the link failed: {type(fault).__name__}: {fault}")
        self._link = link
        self._become("connected")
        self._owner.up()
        self._become("joined")
        writer = asyncio.get_running_loop().create_task(self._write(link))
        try:
            async with asyncio.timeout(self._patience.welcome) as limit:
                while True:
                    self._owner.take(await link.receive())
                    if self._held is not None:
                        until, self._held = self._held, None
                        await until()
                    if limit.when() is not None and self._is_ready():
                        limit.reschedule(None)
        except LinkClosed as closed:
            return self._owner.explain(closed)
        except TimeoutError:
            return NoReply(
                f"no welcome came within {self._patience.welcome:g} s of opening the link; "
                "is it a MEW gateway?",
                after_s=self._patience.welcome,
                waiting_for="system/welcome",
            )
        finally:
            writer.cancel()
            await link.close(1000)

    def _is_ready(self) -> bool:
        return self.state == "ready"

    def _down(self, error: MewError | None, state: State) -> None:
        was_up = self.state in ("connected", "joined", "ready")
        self._link = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
        if state == "disconnected":
            self._outbox.end(f"{BROKEN}: {error}" if error else BROKEN)
        else:
            self._outbox.interrupted()
        self._become(state)
        self._sent.set()
        if was_up or state == "disconnected":
            self._owner.down(error)

    def _end(self, error: MewError | None) -> None:
        self._runner = None
        self.failure = error
        self._down(error, "disconnected")
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error or ConnectionLost("disconnected before the welcome", clean=True))
            self._ready.exception()  # it is told to whoever waits, and to nobody else

    # --- the writing task ---

    async def _write(self, link: Link) -> None:
        try:
            while True:
                while self.state == "ready" and (message := self._outbox.take()) is not None:
                    await link.send(message)
                    self._outbox.taken()
                self._sent.set()
                self._unsent.clear()
                await self._unsent.wait()
        except LinkClosed:
            pass  # the reading task learns it too, and says why
        except Exception:
            logger.exception("writing failed")
            await link.close(1011, "writing failed")
