"""One loop, one thread, and ordinary code that reaches it."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mew_lab.errors import CannotWait, NoReply
from mew_lab.lab.loop import LoopThread, the_loop


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread("test")
    yield loop
    loop.stop()


async def nothing() -> str:
    return threading.current_thread().name


def test_nothing_starts_before_it_is_used(loop: LoopThread) -> None:
    before = {*threading.enumerate()}
    assert not loop.running and {*threading.enumerate()} <= before
    assert loop.call(lambda: "here") == "here"
    assert not loop.running
    assert loop.run(nothing(), timeout=5, doing="nothing") == "test"
    assert loop.running and len({*threading.enumerate()} - before) == 1


def test_there_is_one_loop_for_the_process() -> None:
    assert the_loop() is the_loop()


def test_it_can_be_stopped_twice_and_used_again(loop: LoopThread) -> None:
    assert loop.run(nothing(), timeout=5, doing="nothing") == "test"
    before = threading.active_count()
    loop.stop()
    loop.stop()
    assert threading.active_count() == before - 1
    assert loop.run(nothing(), timeout=5, doing="nothing") == "test"


def test_stopping_ends_what_runs(loop: LoopThread) -> None:
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    loop.submit(forever())
    loop.call(lambda: None)
    loop.stop()
    assert ended.wait(5)


@pytest.mark.trap("T-8")
def test_work_starts_in_an_empty_context(loop: LoopThread) -> None:
    cell: contextvars.ContextVar[str] = contextvars.ContextVar("cell", default="none")
    cell.set("cell 7")

    async def seen() -> tuple[str, str]:
        inner = asyncio.get_running_loop().create_task(asyncio.sleep(0, cell.get()))
        return cell.get(), await inner

    assert loop.run(seen(), timeout=5, doing="looking") == ("none", "none")
    heard: list[str] = []
    loop.post(lambda: heard.append(cell.get()))
    loop.call(lambda: None)
    assert heard == ["none"]


def test_a_blocking_verb_on_the_loop_itself_raises_at_once(loop: LoopThread) -> None:
    async def inside() -> str:
        return loop.run(nothing(), timeout=5, doing="seating 'bot'")

    with pytest.raises(CannotWait, match="seating 'bot': this blocks"):
        loop.run(inside(), timeout=5, doing="outside")
    assert loop.run(_current(loop), timeout=5, doing="looking") is True


async def _current(loop: LoopThread) -> bool:
    return loop.is_current()


def test_what_takes_too_long_is_cancelled_and_says_so(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(NoReply, match=r"Waiting for tea took longer than 0\.05 s") as caught:
        loop.run(slow(), timeout=0.05, doing="waiting for tea")
    assert isinstance(caught.value, TimeoutError)
    assert cancelled.wait(5)


def test_a_time_out_of_the_work_itself_keeps_its_own_words(loop: LoopThread) -> None:
    async def late() -> None:
        raise NoReply("nobody came", after_s=1, waiting_for="tea")

    with pytest.raises(NoReply, match="nobody came"):
        loop.run(late(), timeout=5, doing="x")


def test_an_interrupt_cancels_the_work(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    real = loop.submit

    def submit(work: Any) -> Any:
        future = real(work)
        if work.__name__ == "slow":
            monkeypatch.setattr(future, "result", lambda timeout: (_ for _ in ()).throw(KeyboardInterrupt))
        return future

    monkeypatch.setattr(loop, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        loop.run(slow(), timeout=5, doing="x")
    assert cancelled.wait(5)


@pytest.mark.trap("T-25")
async def test_without_threads_verbs_give_a_task_to_await(
    monkeypatch: pytest.MonkeyPatch, loop: LoopThread
) -> None:
    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_threads)
    me = threading.current_thread().name
    assert await loop.run(nothing(), timeout=5, doing="x") == me  # type: ignore[misc]
    assert loop.threadless and not loop.running
    future = loop.submit(nothing())
    assert await asyncio.wrap_future(future) == me
    heard: list[int] = []
    loop.post(lambda: heard.append(1))
    assert heard == [1]

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await asyncio.wrap_future(loop.submit(fails()))


@pytest.mark.trap("T-25")
def test_without_threads_and_without_a_loop_the_error_says_what_to_write(
    monkeypatch: pytest.MonkeyPatch, loop: LoopThread
) -> None:
    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_threads)
    with pytest.raises(CannotWait, match="inside `async def`"):
        loop.run(nothing(), timeout=5, doing="x")


@pytest.mark.trap("T-7")
def test_the_loop_goes_on_while_the_main_thread_computes(loop: LoopThread) -> None:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.01)

    task = loop.submit(beat())
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        sum(range(1000))
    task.cancel()
    assert len(beats) >= 20


@pytest.mark.parametrize("view", ["tools", "panel"])
def test_a_program_ends_that_still_holds_a_view(view: str) -> None:
    program = f"import mew_lab; lab = mew_lab.up('demo', journal=None); held = lab.view.{view}; lab.down()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
