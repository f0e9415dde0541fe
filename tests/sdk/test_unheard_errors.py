"""An error that no caller gets reaches somebody: a handler of `on_error`, else the exception handler of the loop."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation
from mew_lab.protocol.payloads.chat import Chat
from mew_lab.protocol.token import Token
from mew_lab.sdk.client import MAX_UNHEARD
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Room, until

SECRET = "tok-" + "s3cret" * 6


def fail(*_: object) -> None:
    raise ValueError(f"a handler of mine, {SECRET}")


async def fail_later(*_: object) -> None:
    fail()


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    """What the exception handler of the loop is given."""
    yield []


HANDLERS: dict[str, Callable[[MEWParticipant, Callable[..., Any]], object]] = {
    "client.on_message": lambda one, handler: one.client.on_message(handler),
    "client.on_message, kinds": lambda one, handler: one.client.on_message(handler, kinds=["chat"]),
    "client.on_disconnected": lambda one, handler: one.client.on_disconnected(handler),
    "client.on_state": lambda one, handler: one.client.on_state(handler),
    "on_chat": lambda one, handler: one.on_chat(handler),
    "dispatcher.on_any": lambda one, handler: one.dispatcher.on_any(handler),
    "dispatcher.on_entry": lambda one, handler: one.dispatcher.on_entry(handler),
    "dispatcher.on": lambda one, handler: one.dispatcher.on(Chat, lambda chat, payload: handler(chat)),
    "chats.on_change": lambda one, handler: one.chats.on_change(handler),
}


@pytest.mark.parametrize(
    ("name", "handler"),
    [(name, handler) for name in HANDLERS for handler in (fail, fail_later)],
)
async def test_a_failing_handler_is_shown_masked_where_nobody_listens(
    room: Room, name: str, handler: Callable[..., Any], heard: list[dict[str, Any]]
) -> None:
    Token(SECRET)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    git, me = await room.seat("git", "human"), await room.seat("me", "human")
    HANDLERS[name](me, handler)
    await git.chat("hello")
    if name in ("client.on_disconnected", "client.on_state"):
        await me.stop()
    await until(lambda: heard)
    assert "me in demo: A handler failed: ValueError: a handler of mine" in heard[0]["message"]
    assert SECRET not in str(heard) and "exception" not in heard[0]


async def test_an_error_without_secrets_comes_with_its_traceback_and_a_handler_gets_it_alone(
    room: Room, heard: list[dict[str, Any]]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    git, me = await room.seat("git", "human"), await room.seat("me", "human")
    me.on_chat(lambda envelope: 1 / 0)
    await git.chat("one")
    await until(lambda: heard)
    assert isinstance(heard[0]["exception"], ZeroDivisionError)
    errors: list[Exception] = []
    remove = me.client.on_error(errors.append)
    await git.chat("two")
    await until(lambda: errors)
    assert len(heard) == 1 and isinstance(errors[0], ZeroDivisionError)
    remove()
    await git.chat("three")
    await until(lambda: len(heard) == 2)


async def test_a_refusal_of_what_nobody_waits_for_is_shown_in_one_line(
    room: Room, heard: list[dict[str, Any]]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    me = await room.seat("me", [{"kind": "chat"}])
    await me.client.send({"kind": "mcp/request", "to": ["git"], "payload": {"method": "tools/list"}})
    await until(lambda: heard)
    assert "mcp/request" in heard[0]["message"] and "\n" not in heard[0]["message"]
    assert "exception" not in heard[0]
    with pytest.raises(CapabilityViolation):
        await me.send_accepted({"kind": "mcp/request", "payload": {}})
    assert len(heard) == 1


async def test_of_a_flood_only_the_first_are_shown(room: Room, heard: list[dict[str, Any]]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))
    git, me = await room.seat("git", "human"), await room.seat("me", "human")
    seen: list[object] = []
    me.on_chat(seen.append)
    me.on_chat(lambda envelope: 1 / 0)
    for n in range(MAX_UNHEARD + 10):
        await git.chat(str(n))
    await until(lambda: len(seen) == MAX_UNHEARD + 10)
    assert len(heard) == MAX_UNHEARD
    assert "further errors are not shown" in heard[-1]["message"]


def test_a_program_sees_it_on_stderr() -> None:
    program = """
        import asyncio
        from mew_lab.gateway.config import SpaceConfig
        from mew_lab.gateway.gateway import Gateway
        from mew_lab.gateway.local import attach
        from mew_lab.sdk.client import MEWClient

        async def main():
            gateway = Gateway()
            gateway.add_space(SpaceConfig(name="demo"))
            gateway.enrol("demo", "me", [{"kind": "chat"}])
            async def link():
                return attach(gateway, "demo", "me")
            async with MEWClient(space="demo", connect_link=link) as me:
                me.on_message(lambda envelope: 1 / 0)
                await me.send({"kind": "chat", "payload": {"text": "hi"}})
                await asyncio.sleep(0.2)
            gateway.close()

        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
    assert "A handler failed: ZeroDivisionError" in ended.stderr
    assert io.StringIO(ended.stderr).read().count("Traceback") == 1
