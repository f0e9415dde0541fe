"""The tools of another participant, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mew_lab.errors import NoReply, ToolFailed
from mew_lab.sdk.tools import RpcError

from .conftest import Room


class Pages:
    """Answers `tools/list` as a test says."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[Any] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(dict(params))
        return self._answer(params)  # type: ignore[no-any-return]


async def listed(room: Room, answer: Any) -> tuple[list[Any], Pages]:
    pages = Pages(answer)
    await room.seat("git", "tool", tools=pages)
    human = await room.seat("human")
    return await human.list_tools("git"), pages


async def test_pages_are_followed_to_the_last(room: Room) -> None:
    def answer(params: Mapping[str, Any]) -> Any:
        at = int(params.get("cursor", 0))
        return {"tools": [{"name": f"t{at}"}], **({"nextCursor": str(at + 1)} if at < 2 else {})}

    tools, pages = await listed(room, answer)
    assert [tool["name"] for tool in tools] == ["t0", "t1", "t2"]
    assert pages.asked == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.threat(9)
async def test_a_list_without_end_ends(room: Room) -> None:
    named = ({"name": f"t{n}"} for n in range(1000))
    tools, pages = await listed(room, lambda params: {"tools": [next(named)], "nextCursor": "again"})
    assert len(tools) == len(pages.asked) == 2
    numbers = iter(range(1000))
    room.gateway.close()
    other = Room()
    tools, pages = await listed(
        other, lambda params: {"tools": [next(named)], "nextCursor": str(next(numbers))}
    )
    assert len(tools) == len(pages.asked) == 100
    for seat in other.seated:
        await seat.stop()


@pytest.mark.threat(9)
async def test_a_circle_of_cursors_is_gone_round_once(room: Room) -> None:
    named = ({"name": f"t{n}"} for n in range(10))
    tools, pages = await listed(
        room,
        lambda params: {
            "tools": [next(named)],
            "nextCursor": {"a": "b", "b": "a"}.get(params.get("cursor"), "a"),
        },
    )
    assert pages.asked == [{}, {"cursor": "a"}, {"cursor": "b"}] and len(tools) == 3


@pytest.mark.req("P-4.3-5", "S-L2-29")
@pytest.mark.parametrize(
    "odd", [{}, {"tools": None}, {"tools": {"a": 1}}, {"tools": [1, "x"]}, {"tools": [], "nextCursor": 7}]
)
async def test_an_odd_answer_is_no_tools(room: Room, odd: Any) -> None:
    assert (await listed(room, lambda params: odd))[0] == []


@pytest.mark.req("S-L2-29")
async def test_no_tools_is_told_from_no_answer(room: Room) -> None:
    def fails(params: Any) -> Any:
        raise RpcError(-32601, "Method not found")

    with pytest.raises(ToolFailed):
        await listed(room, fails)
    with pytest.raises(NoReply):
        await room.seated[-1].list_tools("nobody")
