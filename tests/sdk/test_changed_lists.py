"""Tools that change while a participant is there are told, and others learn of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.sdk.tools import ToolBox

from .conftest import until

CHANGED = "notifications/tools/list_changed"


def told(room: Any) -> list[str]:
    return [
        one.payload["method"] for one in room.sent("mcp/request") if "list_changed" in one.payload["method"]
    ]


def add(a: int, b: int) -> int:
    return a + b


def subtract(a: int, b: int) -> int:
    return a - b


@pytest.mark.req("S-L2-30")
async def test_who_has_listed_the_tools_learns_of_a_new_one_at_once(room: Any) -> None:
    tool, bot = await room.seat("tool", "tool"), await room.seat("bot", "agent")
    tool.tools.add(add)
    assert [one["name"] for one in await bot.discovery.discover_tools("tool")] == ["add"]
    bot.discovery.enable_auto_discovery()
    tool.tools.add(subtract)
    await until(lambda: {one.name for one in bot.discovery.get_available_tools()} == {"add", "subtract"})


async def test_a_cell_that_defines_several_tells_it_once_and_each_list_for_itself(room: Any) -> None:
    tool = await room.seat("tool", "tool")
    tool.tools.add(add)
    tool.tools.add(subtract)
    tool.tools.remove("add")
    tool.tools.add_resource("notes://today", "calm")
    await until(lambda: len(told(room)) == 2)
    assert sorted(told(room)) == ["notifications/resources/list_changed", CHANGED]
    tool.tools.remove("nothing")
    await asyncio.sleep(0)
    assert len(told(room)) == 2
    tool.tools.add(add)
    await until(lambda: len(told(room)) == 3)


async def test_nothing_is_told_before_it_is_there_or_without_the_right(room: Any) -> None:
    box = ToolBox()
    box.add(add)
    await room.seat("tool", "tool", tools=box)
    mute = await room.seat("mute", "observer")
    mute.tools.add(add)
    await asyncio.sleep(0)
    await mute.sender.say_accepted("participant/status", {"messages_in_context": 0})
    assert told(room) == []
