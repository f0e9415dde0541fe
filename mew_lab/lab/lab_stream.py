"""`LabStream`: an open stream of a seat of this process, for synchronous and asynchronous code of any thread.

The stream itself lives on the loop. Frames are read there, one at a time, in order: a wait that ends without a frame
loses none, because the next wait goes on with the same read.

Spec: §3.10, ruling R16.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, TypeVar

from mew_lab.errors import CannotWait, MewError, NoReply
from mew_lab.lab.call_check import listed
from mew_lab.lab.listing import Listing, Note, Settled
from mew_lab.lab.rows import THOUGHTS
from mew_lab.lab.session import Seated, Session, run_work
from mew_lab.ledger.reasoning import ReasoningLedger
from mew_lab.log.numbering import complete_id
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.arguments import explains_arguments
from mew_lab.sdk.reader import FrameReader
from mew_lab.sdk.stream import Stream
from mew_lab.settings.waiting import check_seconds

__all__ = ["LabStream", "StreamFrame", "list_streams", "open_stream", "purpose_of", "take_stream"]

T = TypeVar("T")


class StreamFrame(bytes, Settled):
    """The bytes of one frame of a stream."""


@explains_arguments
class LabStream(Settled):
    """An open stream: write to it, read it with `for` or `async for`, let others write, transfer and close it.

    Frames of another's stream are kept for reading from the moment at which it was taken, those of an own upload from
    the first read. `with` and `async with` close an own stream at the end.
    """

    def __init__(self, session: Session, seat: Seated, stream: Stream) -> None:
        self.stream = stream
        self._session = session
        self._seat = seat
        self._reader: FrameReader | None = None
        self._next: Future[StreamFrame | None] | None = None
        if not stream.mine or stream.direction == "download":
            self._reader = stream.read()

    # --- what it is ---

    @property
    def id(self) -> str:
        """The id that its frames carry."""
        return self.stream.id

    @property
    def owner(self) -> str:
        """The participant that requested it, or to which it was transferred."""
        return self.stream.owner

    @property
    def writers(self) -> tuple[str, ...]:
        """The participants that may write, the owner first."""
        return self.stream.writers

    @property
    def targets(self) -> tuple[str, ...]:
        """The recipients of its frames; empty for everybody."""
        return self.stream.target

    @property
    def closed(self) -> str:
        """The reason of its close; empty while it is open."""
        return self.stream.closed

    # --- what its owner and its writers do ---

    def write(self, data: bytes | str, *, timeout: float | None = None) -> Note:
        """Writes one frame, a text as UTF-8.

        Raises:
            LocalProtocolError: It is closed, this seat may not write to it, or the frame is too large.
        """

        async def write() -> Note:
            await self.stream.write(data)
            size = len(data.encode()) if isinstance(data, str) else len(data)
            return Note(f"{count_of(size, 'byte')} sent to {self.id}")

        return self._run(write(), "writing to", timeout)

    def grant(self, participant: str, *, reason: str | None = None, timeout: float | None = None) -> Note:
        """Lets a participant write to it; only its owner may. Spec: §3.10.5."""
        doing = f"granting {one_line(participant, 64)} to write to"

        async def grant() -> Note:
            await self.stream.grant_write(participant, reason=reason)
            return Note(f"{one_line(participant, 64)} may write to {self.id}")

        return self._run(grant(), doing, timeout)

    def revoke(self, participant: str, *, reason: str | None = None, timeout: float | None = None) -> Note:
        """Takes the write access of a participant; `grant` gives it again. Spec: §3.10.6."""
        doing = f"revoking the write access of {one_line(participant, 64)} to"

        async def revoke() -> Note:
            await self.stream.revoke_write(participant, reason=reason)
            return Note(f"{one_line(participant, 64)} may no longer write to {self.id}")

        return self._run(revoke(), doing, timeout)

    def transfer(self, participant: str, *, reason: str | None = None, timeout: float | None = None) -> Note:
        """Makes a participant its owner. You may write on only with a grant of the new owner. Spec: §3.10.7."""
        doing = f"transferring to {one_line(participant, 64)}"

        async def transfer() -> Note:
            await self.stream.transfer_ownership(participant, reason=reason)
            return Note(
                f"{one_line(participant, 64)} owns {self.id} now; {self._seat.name} is no writer of it"
            )

        return self._run(transfer(), doing, timeout)

    def close(self, reason: str = "complete", *, timeout: float | None = None) -> Note:
        """Closes an own stream; readers get the frames that came before. Spec: §3.10.4."""

        async def close() -> Note:
            ended = self.stream.closed
            await self.stream.close(reason)
            return Note(
                f"{self.id} was closed already: {ended}" if ended else f"{self.id} is closed ({reason})"
            )

        return self._run(close(), "closing", timeout)

    # --- reading ---

    def read(self, *, timeout: float | None = None) -> StreamFrame:
        """The next frame.

        Raises:
            NoReply: No frame came within `timeout` seconds (default: those of the lab). None is lost.
            MewError: The stream is closed and all was read, or frames were missed.
        """
        within = self._seconds(timeout)
        if self._session.loop.is_current() or self._session.loop.threadless:
            return run_work(
                self._session, self._read_within(within), f"reading {self.id}", timeout=within + 1
            )
        waited = self._pull()
        try:
            return self._check_frame(self._take(waited, within))
        except FutureTimeout:
            if waited.done():
                raise
            raise self._nothing_came(within) from None

    def __iter__(self) -> Iterator[StreamFrame]:
        if self._session.loop.is_current() or self._session.loop.threadless:
            raise CannotWait(
                f"`for` would block the loop that has to bring the frames of {self.id}; write `async for` here"
            )
        while True:
            data = self._take(self._pull(), None)
            if data is None:
                return
            yield data

    async def __aiter__(self) -> AsyncIterator[StreamFrame]:
        while (data := await self._read_on()) is not None:
            yield data

    async def _read_on(self) -> StreamFrame | None:
        """The next frame, on any loop. A cancelled wait leaves the read for the next one."""
        waited = self._pull()
        with suppress(Exception):  # which `_take` raises; a wait that is cancelled takes nothing
            await asyncio.shield(asyncio.wrap_future(waited))
        return self._take(waited, None)

    async def _read_within(self, within: float) -> StreamFrame:
        try:
            async with asyncio.timeout(within):
                return self._check_frame(await self._read_on())
        except TimeoutError:
            raise self._nothing_came(within) from None

    def _check_frame(self, frame: StreamFrame | None) -> StreamFrame:
        if frame is None:
            raise MewError(f"Cannot read {self.id} on: it is closed ({self.closed}), and all of it was read")
        return frame

    def _pull(self) -> Future[StreamFrame | None]:
        if self._next is None:
            self._next = self._session.loop.submit(self._read_one())
        return self._next

    def _take(self, waited: Future[StreamFrame | None], timeout: float | None) -> StreamFrame | None:
        """The frame of a read, or its error; the next wait reads on then. An interrupt takes nothing."""
        try:
            data = waited.result(timeout)
        except Exception:
            if waited.done():
                self._next = None
            raise
        self._next = None
        return data

    async def _read_one(self) -> StreamFrame | None:
        if self._reader is None:
            self._reader = self.stream.read()
        async for data in self._reader:
            return StreamFrame(data)
        return None

    def _nothing_came(self, within: float) -> NoReply:
        return NoReply(
            f"No frame of {self.id} came within {within:g} s; it is {self.closed or 'open'}, and read again goes on",
            after_s=within,
            waiting_for=self.id,
        )

    def _seconds(self, timeout: float | None) -> float:
        return self._session.timeout if timeout is None else check_seconds(timeout, key="timeout")

    def _run(self, work: Coroutine[Any, Any, T], doing: str, timeout: float | None) -> T:
        try:
            within = self._seconds(timeout)
        except MewError:
            work.close()
            raise
        return run_work(self._session, work, f"{doing} {self.id} as {self._seat.name!r}", timeout=within)

    # --- leaving a block ---

    def __enter__(self) -> LabStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if self.stream.mine and kind is None:
            self.close()
        elif self.stream.mine:
            with suppress(MewError):  # the caller must see the exception of the block
                self.close("error")

    async def __aenter__(self) -> LabStream:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if self.stream.mine and kind is None:
            await self.close()
        elif self.stream.mine:
            with suppress(MewError):  # the caller must see the exception of the block
                await self.close("error")

    def __repr__(self) -> str:
        state = f"closed: {one_line(self.closed, 60)}" if self.closed else "open"
        to = f" to {one_line(', '.join(self.targets), 120)}" if self.targets else ""
        return f"<LabStream {one_line(self.id, 60)} of {one_line(self.owner, 64)}{to}, {state}>"


async def open_stream(session: Session, seat: Seated, **fields: Any) -> LabStream:
    """Requests a stream as that seat; takes and raises as `Streams.request_stream`. Spec: §3.10.1."""
    return LabStream(session, seat, await seat.participant.streams.request_stream(**fields))


async def take_stream(session: Session, seat: Seated, which: str) -> LabStream:
    """The open stream whose id is or begins with `which`, as that seat sees it.

    Raises:
        MewError: There is no such open stream.
    """
    active = seat.participant.streams.active
    id = which if which in active else complete_id(which, active)
    if id is None:
        open_ones = f"open are {listed(list(active))}" if active else "none is open"
        raise MewError(f"No open stream is called {one_line(which, 60)!r}; {open_ones}")
    return LabStream(session, seat, active[id])


def purpose_of(reasoning: ReasoningLedger, owner: str, description: str | None) -> str:
    """What a stream is for: its description, or whose thoughts it carries where its owner began that sequence."""
    return THOUGHTS.format(owner) if reasoning.streamed(owner, description) else description or ""


def list_streams(seat: Seated) -> Listing:
    """The open streams that a seat sees, as a listing. To be called on the loop."""
    rows: list[tuple[Any, ...]] = [
        (
            stream.id,
            stream.owner,
            stream.direction,
            ", ".join(stream.writers),
            ", ".join(stream.target) or "everybody",
            purpose_of(seat.participant.ledger.reasoning, stream.owner, stream.description),
            stream.frames,
        )
        for stream in seat.participant.streams.active.values()
    ]
    columns = ("id", "owner", "direction", "writers", "to", "description", "frames")
    return Listing("open streams", columns, rows, empty="no stream is open; lab.stream() opens one")
