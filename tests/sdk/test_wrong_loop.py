"""Whatever of a participant is used on another loop than its own raises at once, and says how to go there."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mew_lab.errors import CannotWait
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.tools import ToolBox

from .conftest import Room, until

OWN = {  # what belongs to no connection, or is a part that a user has no business with
    (ToolBox, "answer"),
    (MEWParticipant, "__aexit__"),
    (MEWClient, "__aexit__"),
}
INNER = {"request_server", "executions"}
VALUES: dict[str, Any] = {
    "capabilities": [{"kind": "chat"}],
    "data": b"x",
    "draft": {"kind": "chat", "payload": {"text": "hi"}},
    "payload": {"text": "hi"},
    "kind": "chat",
    "max_wait": 60.0,
    "timeout": 60.0,
}
SYNC: dict[str, Callable[[MEWParticipant], object]] = {
    "call": lambda one: one.call("git/log"),
    "propose": lambda one: one.propose("git/log"),
    "mcp_request": lambda one: one.mcp_request("git", {"method": "tools/list"}),
    "ask": lambda one: one.ask("hi", "git"),
    "client.post": lambda one: one.client.post({"kind": "chat", "payload": {"text": "hi"}}),
    "client.messages": lambda one: one.client.messages(),
}


def methods(participant: MEWParticipant) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each public method of the participant, its client and its parts that is awaited or may be."""
    parts = {"": participant}
    parts |= {name: part for name, part in vars(participant).items() if not name.startswith("_")}
    for where, part in parts.items():
        if where in INNER or not type(part).__module__.startswith("mew_lab.sdk"):
            continue
        for name in dir(type(part)):
            function = inspect.getattr_static(type(part), name)
            public = not name.startswith("_") or name in ("__aenter__", "__aexit__")
            awaits = inspect.iscoroutinefunction(function) or "Coroutine" in str(
                getattr(function, "__annotations__", {}).get("return")
            )
            if public and awaits and (type(part), name) not in OWN:
                yield f"{where}.{name}".lstrip("."), getattr(part, name)


def filled(method: Callable[..., Any], participant: MEWParticipant) -> dict[str, Any]:
    values = {**VALUES, "envelope": participant.client.complete(VALUES["draft"])}
    return {
        name: values.get(name, "somebody")
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    } | ({"answer": None, "read": None} if method.__name__ in ("send_answered", "send_settled") else {})


def elsewhere(work: Callable[[], Any]) -> BaseException | None:
    """What a coroutine function, run by another thread on a loop of its own, raises; None where it raises nothing."""
    ended: list[BaseException | None] = []

    async def limited() -> None:
        async with asyncio.timeout(5.0):
            result = work()
            if inspect.isawaitable(result):
                await result

    def run() -> None:
        try:
            asyncio.run(limited())
        except BaseException as fault:
            ended.append(fault)
        else:
            ended.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return ended[0]


async def test_each_method_says_so_at_once(room: Room) -> None:
    me = await room.seat("me", "human")
    git = await room.seat("git", "human", tools=ToolBox())
    theirs, mine = git.propose("me/look"), me.propose("git/look")
    await until(lambda: me.proposals.get(theirs.id) and me.proposals.get(mine.id))
    found = dict(methods(me))
    assert {
        "chat",
        "start",
        "client.send",
        "streams.request_stream",
        "controls.pause",
        "rights.grant",
    } <= set(found)
    for name, method in found.items():
        arguments = filled(method, me)

        def use(method: Any = method, arguments: Any = arguments) -> Any:
            keep = {key: value for key, value in arguments.items() if value is not None}
            if method.__name__ in ("send_answered", "send_settled"):
                from mew_lab.protocol.payloads.controls import ParticipantStatus

                keep |= {"answer": ParticipantStatus}
                keep |= {"read": str} if method.__name__ == "send_settled" else {}
            if method.__name__ in ("approve", "reject", "withdraw"):
                keep["proposal_id"] = mine.id if method.__name__ == "withdraw" else theirs.id
            if method.__name__ == "revoke":
                keep["grant_id"] = "g"
            return method(**keep)

        fault = await asyncio.to_thread(elsewhere, use)
        assert isinstance(fault, CannotWait), (name, fault)
        assert "seat.run" in str(fault), name
    assert me.client.state == "ready"


@pytest.mark.parametrize("name", SYNC)
async def test_what_is_not_awaited_says_so_too(room: Room, name: str) -> None:
    me = await room.seat("me", "human")
    before = len(room.records)
    fault = await asyncio.to_thread(elsewhere, lambda: (SYNC[name](me), None)[1])
    assert isinstance(fault, CannotWait), fault

    def without_a_loop() -> None:
        with pytest.raises((CannotWait, RuntimeError)):
            SYNC[name](me)

    await asyncio.to_thread(without_a_loop)
    assert len(room.records) == before


async def test_an_answer_or_a_message_that_is_awaited_elsewhere_says_so(room: Room) -> None:
    await room.seat("git", "human")
    me = await room.seat("me", "human")
    stream = await me.streams.request_stream()
    things: dict[str, Callable[[], Any]] = {
        "call": lambda: me.call("git/log").outcome(),
        "messages": lambda: anext(me.client.messages()),
        "frames": lambda: anext(stream.read()),
        "write": lambda: stream.write(b"x"),
        "close": lambda: stream.close(),
        "withdraw": lambda: call.withdraw(),
    }
    call, inbox, reader = me.propose("git/log"), me.client.messages(), stream.read()
    things |= {
        "a call made there": lambda: call.outcome(),
        "an inbox made there": lambda: anext(inbox),
        "a reader made there": lambda: anext(reader),
    }
    for name, use in things.items():
        fault = await asyncio.to_thread(elsewhere, use)
        assert isinstance(fault, CannotWait), (name, fault)


async def test_a_tool_that_another_thread_adds_is_announced(room: Room) -> None:
    me = await room.seat("me", "human")
    await asyncio.to_thread(lambda: me.register_tool(lambda: "pong", name="ping"))
    await until(lambda: any("list_changed" in one.raw for one in room.sent("mcp/request")))


async def test_after_it_has_left_it_may_join_on_any_loop(room: Room) -> None:
    me = await room.seat("me", "human")
    await me.stop()

    def again() -> None:
        async def visit() -> None:
            await me.start()
            await me.chat("hello")
            await me.stop()

        asyncio.run(visit())

    await asyncio.to_thread(again)
    assert [one.payload["text"] for one in room.sent("chat")] == ["hello"]
