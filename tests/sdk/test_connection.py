"""How a link stays up: attempts, their limits, what is final, and that nothing is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mew_lab.errors import ConnectionLost, MewError, NotAdmitted
from mew_lab.sdk.connection import MAX_UNSENT, Connection, ConnectionHooks, RetryPolicy
from mew_lab.transport.link import HandshakeRefused, Link, LinkClosed
from mew_lab.transport.memory import MemoryLink, pair

from .conftest import until


class Stage:
    """Plays the other side: `ends` are our ends of the links that were opened; `doors` what opening does, in order."""

    def __init__(
        self,
        *doors: Exception | None,
        attempts: int = 3,
        welcome: float = 10.0,
        greet: bool = True,
        keep: bool = False,
    ) -> None:
        self.doors = list(doors)
        self.ends: list[MemoryLink] = []
        self.taken: list[str | bytes] = []
        self.told: list[Any] = []
        self.waited: list[float] = []
        self.greet = greet
        self.hold: asyncio.Event | None = None
        self.room: asyncio.Event | None = None  # what holds back the next message
        self.connection = Connection(
            ConnectionHooks(
                open=self.open,
                take=self.take,
                explain=self.explain,
                up=lambda: self.told.append("up"),
                down=lambda error: self.told.append(("down", self.connection.state, error)),
                retrying=lambda n: self.told.append(("retrying", n)),
            ),
            retry=RetryPolicy(attempts, 1.0, welcome),
            keep=keep,
            wait=self.wait,
        )

    async def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        if self.hold:
            await self.hold.wait()
        await asyncio.sleep(0)

    async def open(self) -> Link:
        fault = self.doors.pop(0) if self.doors else None
        if fault:
            raise fault
        here, there = pair()
        self.ends.append(there)
        if self.greet:
            there.put("welcome")
        return here

    def take(self, message: str | bytes) -> None:
        self.taken.append(message)
        if self.room is not None:

            async def until_there_is_room(room: asyncio.Event = self.room) -> None:
                await room.wait()

            self.connection.hold(until_there_is_room)
        if message == "welcome":
            self.connection.ready("me")

    def explain(self, fault: HandshakeRefused | LinkClosed) -> MewError:
        if isinstance(fault, HandshakeRefused) or fault.code in (4401, 4403, 4409):
            return NotAdmitted("no", close_code=getattr(fault, "code", 4401))
        return ConnectionLost(f"closed {fault.code}", close_code=fault.code)


Made = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def stage() -> Any:
    stages: list[Stage] = []

    async def make(*doors: Exception | None, start: bool = True, **options: Any) -> Stage:
        made = Stage(*doors, **options)
        stages.append(made)
        if start:
            await made.connection.start()
        return made

    yield make
    for made in stages:
        await made.connection.stop()


@pytest.mark.req("S-L1-5")
async def test_start_returns_when_welcomed_and_stop_closes(stage: Made) -> None:
    made = await stage()
    assert (made.connection.state, made.told, made.connection.failure) == ("ready", ["up"], None)
    await made.connection.start()
    assert len(made.ends) == 1
    await made.connection.stop()
    assert made.connection.state == "disconnected" and made.told[1:] == [("down", "disconnected", None)]
    assert made.connection.failure is None
    with pytest.raises(LinkClosed) as closed:
        await made.ends[0].receive()
    assert closed.value.code == 1000
    await made.connection.stop()


async def test_delays_are_counted_anew_after_each_welcome_and_never_beyond_half_a_minute(stage: Made) -> None:
    made = await stage(None, *[LinkClosed(1006)] * 6, attempts=8)
    made.ends[0].shut(1006)
    await until(lambda: len(made.ends) == 2 and made.connection.state == "ready")
    assert made.waited == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    made.ends[1].shut(1006)
    await until(lambda: len(made.ends) == 3 and made.connection.state == "ready")
    assert made.waited[7:] == [1.0]


@pytest.mark.parametrize("code", [4401, 4403, 4409, 1000, 1008, 1009, 1011])
async def test_other_closings_are_final(stage: Made, code: int) -> None:
    made = await stage()
    made.ends[0].shut(code)
    await until(lambda: made.connection.state == "disconnected")
    assert made.waited == [] and getattr(made.connection.failure, "close_code", None) == code
    assert isinstance(made.connection.failure, NotAdmitted if code > 4000 else ConnectionLost)


async def test_a_refusal_while_it_tries_again_is_final(stage: Made) -> None:
    made = await stage(None, HandshakeRefused(401))
    made.ends[0].shut(1012)
    await until(lambda: made.connection.state == "disconnected")
    assert isinstance(made.connection.failure, NotAdmitted) and len(made.waited) == 1


@pytest.mark.parametrize(
    "fault", [LinkClosed(1006), HandshakeRefused(401), ConnectionLost("no"), OSError("odd")]
)
async def test_the_first_attempt_has_no_second(stage: Made, fault: Exception) -> None:
    made = await stage(fault, start=False)
    with pytest.raises(MewError) as caught:
        await made.connection.start()
    assert made.waited == [] and made.connection.state == "disconnected"
    assert made.connection.failure is caught.value
    await made.connection.start()  # but a caller may try again
    assert made.connection.state == "ready" and made.connection.failure is None


async def test_a_link_that_closes_before_the_welcome_is_told_to_who_starts(stage: Made) -> None:
    made = await stage(start=False, greet=False)
    starting = asyncio.ensure_future(made.connection.start())
    await until(lambda: made.ends)
    made.ends[0].shut(4401)
    with pytest.raises(NotAdmitted):
        await starting


async def test_a_start_that_is_cancelled_leaves_nothing_open(stage: Made) -> None:
    made = await stage(start=False, greet=False)
    starting = asyncio.ensure_future(made.connection.start())
    await until(lambda: made.ends)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert made.ends[0].closed is not None and made.connection.state == "disconnected"


async def test_stop_ends_a_wait_between_attempts(stage: Made) -> None:
    made = await stage(None, *[LinkClosed(1006)] * 9)
    made.hold = asyncio.Event()
    made.ends[0].shut(1006)
    await until(lambda: made.waited)
    again = asyncio.ensure_future(made.connection.start())  # waits for the attempts that are under way
    await asyncio.sleep(0)
    assert not again.done()
    await made.connection.stop()
    with pytest.raises(ConnectionLost, match="disconnected before the welcome"):
        await again
    assert made.connection.state == "disconnected" and made.connection.failure is None


async def test_what_is_kept_goes_out_after_the_welcome_and_not_before(stage: Made) -> None:
    made = await stage(keep=True)
    made.hold = asyncio.Event()
    made.ends[0].shut(1006)
    await until(lambda: made.waited)
    for text in "abc":
        made.connection.post(text, sender="me")
    made.greet = False
    made.hold.set()
    await until(lambda: len(made.ends) == 2 and made.connection.state == "joined")
    made.connection.post("d", sender="me")
    receiving = asyncio.create_task(made.ends[1].receive())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not receiving.done()
    receiving.cancel()
    made.greet = True
    made.ends[1].shut(1006)  # before it was welcomed: nothing of it has gone anywhere
    await until(lambda: len(made.ends) == 3 and made.connection.state == "ready")
    made.connection.post("e", sender="me")
    assert [await made.ends[2].receive() for _ in range(5)] == list("abcde")


async def test_what_arrived_as_the_link_broke_is_not_sent_again(
    stage: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await stage(keep=True)
    send = MemoryLink.send

    async def breaks(self: MemoryLink, message: Any) -> None:
        await send(self, message)
        if message == "b":
            self.shut(1006)
            raise LinkClosed(1006)

    monkeypatch.setattr(MemoryLink, "send", breaks)
    sent = [asyncio.get_running_loop().create_future() for _ in "abc"]
    for text, future in zip("abc", sent, strict=True):
        made.connection.post(text, sent=future, sender="me")
    await asyncio.wait(sent)
    assert [await made.ends[0].receive() for _ in range(2)] == ["a", "b"]
    await until(lambda: len(made.ends) == 2 and made.connection.state == "ready")
    made.connection.post("d", sender="me")
    assert await made.ends[1].receive() == "d"
    assert sent[0].exception() is None
    assert "nobody can know whether it arrived" in str(sent[1].exception())
    assert str(sent[2].exception()) == "the connection ended before this message was sent"


@pytest.mark.threat(9)
async def test_a_link_that_takes_nothing_is_not_fed_without_end(stage: Made) -> None:
    made = await stage()
    with pytest.raises(ConnectionLost, match="10000 messages wait already"):
        for _ in range(MAX_UNSENT + 200):
            made.connection.post("x")


async def test_stop_first_sends_what_was_posted(stage: Made) -> None:
    made = await stage()
    made.connection.post("last words")
    await made.connection.stop()
    assert await made.ends[0].receive() == "last words"


async def test_a_writer_that_fails_closes_the_link(stage: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await stage(attempts=0)

    async def broken(self: Any, message: Any) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(MemoryLink, "send", broken)
    made.connection.post("x")
    await until(lambda: made.connection.state == "disconnected")
    assert getattr(made.connection.failure, "close_code", None) == 1011


async def test_who_is_told_of_a_message_may_hold_back_what_comes_next(stage: Made) -> None:
    made = await stage()
    made.room = asyncio.Event()
    for message in ("one", "two"):
        made.ends[0].put(message)
    await until(lambda: "one" in made.taken)
    for _ in range(20):
        await asyncio.sleep(0)
    assert made.taken == ["welcome", "one"]
    made.room.set()
    await until(lambda: "two" in made.taken)
    made.room.clear()
    made.ends[0].put("three")
    await until(lambda: "three" in made.taken)
    await made.connection.stop()  # nobody makes room any more
    assert made.connection.state == "disconnected"
