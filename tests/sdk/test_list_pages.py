"""Lists that are longer than a message come in pages: nothing is lost, and all pages are of one state of the list."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.protocol.envelope import MAX_MESSAGE
from mew_lab.sdk import list_pages
from mew_lab.sdk.list_pages import LISTED, PagedLists
from mew_lab.sdk.tools import INVALID_PARAMS, RpcError

ROOM = 4096


class Source:
    """Answers with what it is told to, and with another list each time where `drifts`."""

    def __init__(self, result: Any, *, drifts: bool = False) -> None:
        self.result = result
        self.drifts = drifts
        self.asked: list[Mapping[str, Any]] = []

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        self.asked.append(params)
        result = self.result.get(params.get("cursor")) if "by cursor" in self.result else self.result
        if self.drifts:
            [member] = [name for name in result if name in LISTED.values()]
            entries = [{**entry, "at": len(self.asked)} for entry in result[member]]
            return {**result, member: entries}
        return result


def paged(source: Source, left_out: list[str] | None = None, room: int = ROOM) -> PagedLists:
    async def note(text: str) -> None:
        if left_out is not None:
            left_out.append(text)

    return PagedLists(source, room=lambda: room, on_left_out=note)


async def read_all(lists: PagedLists, method: str = "tools/list") -> list[dict[str, Any]]:
    """The pages of a list, each of which fits into a message."""
    pages, params = list[dict[str, Any]](), dict[str, Any]()
    while True:
        page = await lists.answer(method, params)
        assert len(json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()) < ROOM
        pages.append(page)
        if "nextCursor" not in page:
            return pages
        params = {"cursor": page["nextCursor"]}


def entries(sizes: list[int]) -> list[dict[str, Any]]:
    return [{"name": f"t{n}", "description": "é" * (size // 2)} for n, size in enumerate(sizes)]


@given(
    st.lists(st.integers(0, 2800), max_size=30),
    st.sampled_from(sorted(LISTED)),
    st.sampled_from(
        [
            {},
            {"_meta": {"a": "b" * 200}},
            {"nextCursor": "theirs"},
            {"nextCursor": "", "x": [1]},
            {"ttlMs": 5},
        ]
    ),
)
@example([2700] * 4, "tools/list", {})
def test_the_pages_hold_each_entry_once_in_its_order_and_as_many_as_fit(
    sizes: list[int], method: str, others: dict[str, Any]
) -> None:
    async def check() -> None:
        member, listed = LISTED[method], entries(sizes)
        source = Source(
            {"by cursor": True, None: {member: listed, **others}, "theirs": {member: [{"name": "z"}]}}
        )
        source.result[""] = {member: [{"name": "z"}]}
        pages = await read_all(paged(source), method)
        more = [{"name": "z"}] if "nextCursor" in others else []
        assert [entry for page in pages for entry in page[member]] == listed + more
        own = pages[: len(pages) - len(more)]
        assert len(source.asked) == 1 + len(more)
        for page, following in itertools.pairwise(own):
            with_one_more = {**page, member: [*page[member], following[member][0]]}
            size = len(json.dumps(with_one_more, ensure_ascii=False, separators=(",", ":")).encode())
            assert size > ROOM - ROOM // 4  # another entry would not have fitted
        assert all(page.get("_meta") == others.get("_meta") for page in own)

    asyncio.run(check())


async def test_a_list_that_fits_is_passed_on_as_it_came() -> None:
    result = {"tools": entries([10, 20]), "nextCursor": "theirs", "x": 1}
    assert await paged(Source(result)).answer("tools/list", {}) == result
    for odd in ({}, {"tools": 3}, {"tools": None}, [], None, "x"):
        assert (
            await paged(Source(odd) if isinstance(odd, dict) else Fixed(odd)).answer("tools/list", {}) == odd
        )
    call = Source({"tools": entries([5000])})
    assert await paged(call).answer("tools/call", {}) == call.result


class Fixed:
    def __init__(self, result: Any) -> None:
        self.result = result

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        return self.result


async def test_a_list_that_changes_each_time_is_read_in_one_state_by_each_of_several() -> None:
    lists = paged(Source({"tools": entries([900] * 12)}, drifts=True))
    readers = [read_all(lists) for _ in range(list_pages.MAX_KEPT)]
    for n, pages in enumerate(await asyncio.gather(*readers), 1):
        read = [tool for page in pages for tool in page["tools"]]
        assert len(read) == 12 and {tool["at"] for tool in read} == {n}


async def test_equal_lists_of_many_readers_are_kept_once() -> None:
    source = Source({"tools": entries([900] * 12)})
    lists = paged(source)
    first = [await lists.answer("tools/list", {}) for _ in range(40)]
    assert len({page["nextCursor"] for page in first}) == 1
    assert (await lists.answer("tools/list", {"cursor": first[0]["nextCursor"]}))["tools"]


async def test_a_cursor_that_is_not_kept_is_refused_and_a_strange_one_is_the_answerers() -> None:
    source = Source({"tools": entries([900] * 12)}, drifts=True)
    lists = paged(source)
    cursor = (await lists.answer("tools/list", {}))["nextCursor"]
    for _ in range(list_pages.MAX_KEPT):
        await lists.answer("tools/list", {})
    late = cursor.rpartition(":")[0]
    for bad in (cursor, f"{late}:999999", f"mew-lab-page:{'0' * 32}:1"):
        with pytest.raises(RpcError, match="is not kept any more; ask for the list anew") as refused:
            await lists.answer("tools/list", {"cursor": bad})
        assert refused.value.code == INVALID_PARAMS
    asked = len(source.asked)
    for strange in ("theirs", "", 3, None, {"a": 1}, f"{late}:0", f"{late}:x", f"x{cursor}"):
        await lists.answer("tools/list", {"cursor": strange})
    assert len(source.asked) == asked + 8
    with pytest.raises(RpcError, match="of a list of prompts"):  # a cursor is of one method
        await lists.answer("prompts/list", {"cursor": cursor})


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "bad", "description": "x" * ROOM},
        {"name": "bad", "description": "\ud800"},
        {"name": "bad", "x": float("nan")},
        {"name": "bad", "x": 2**64},
        {"name": "bad", "x": json.loads("[" * 62 + "]" * 62)},
        {"name": "bad", "x": b"x"},
    ],
)
async def test_an_entry_that_no_message_can_hold_costs_no_other(bad: dict[str, Any]) -> None:
    left_out: list[str] = []
    listed = [*entries([1000] * 3), bad, *entries([1000] * 3)]
    pages = await read_all(paged(Source({"tools": listed}), left_out))
    assert [tool for page in pages for tool in page["tools"]] == entries([1000] * 3) * 2
    assert left_out == ["tools left out, because no message can hold them: bad"]


async def test_ten_thousand_tools_come_in_pages() -> None:
    source = Source({"tools": entries([400] * 10_000)})
    lists = paged(source, room=MAX_MESSAGE)
    count, params = 0, dict[str, Any]()
    while True:
        page = await lists.answer("tools/list", params)
        count += len(page["tools"])
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert count == 10_000 and len(source.asked) == 1
