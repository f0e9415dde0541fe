"""A tool returns what a notebook shows, and each reader gets a picture, a table, a text or a resource."""

from __future__ import annotations

import asyncio
import base64
import struct
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mew_lab
from mew_lab.protocol.content import for_model, for_page, read_parts
from mew_lab.protocol.envelope import compact
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.tools import ToolBox

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2, 3) + b"\x08\x06\0\0\0"
SHOWN = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}


async def returned(make: Callable[[], Any]) -> dict[str, Any]:
    """What a caller of a tool gets that returns the value of `make()`."""
    box = ToolBox()
    box.add(lambda: make(), name="t")
    return await box.answer("tools/call", {"name": "t"})


async def content(make: Callable[[], Any]) -> list[dict[str, Any]]:
    result = await returned(make)
    assert result["isError"] is False, result
    return list(result["content"])


class Png:
    def _repr_png_(self) -> Any:
        return PNG


class EncodedPng:
    def _repr_png_(self) -> Any:
        return base64.encodebytes(PNG).decode(), {"width": 2}


class Bundle:
    def __init__(self, *data: Any) -> None:
        self.data = data

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.data if len(self.data) > 1 else self.data[0]


class Figure:
    """A figure as matplotlib has it; `axes` know it."""

    def savefig(self, file: Any, *, format: str, bbox_inches: str) -> None:
        assert (format, bbox_inches) == ("png", "tight")
        file.write(PNG)


@pytest.mark.parametrize(
    "value",
    [
        Png(), EncodedPng(), Figure(), PNG, bytearray(PNG), (PNG, "image/png"),
        Bundle({"image/png": base64.b64encode(PNG).decode(), "text/plain": "<Picture>"}),
        Bundle({"image/png": PNG}, {"image/png": {"width": 2}}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_what_a_notebook_draws_is_a_picture(value: Any) -> None:
    assert await content(lambda: value) == [SHOWN]


async def test_several_values_are_their_parts_in_their_order_and_a_figure_comes_once() -> None:
    figure = Figure()
    mixed = ["The beds:", figure, {"north": 41}, None, figure, b"RIFF0000WAVE"]
    assert await content(lambda: mixed) == [
        {"type": "text", "text": "The beds:"}, SHOWN, {"type": "text", "text": '{"north":41}'},
        {"type": "text", "text": "null"},
        {"type": "audio", "data": base64.b64encode(b"RIFF0000WAVE").decode(), "mimeType": "audio/wav"},
    ]  # fmt: skip
    assert await returned(lambda: ToolResult.of("x", figure, error=True)) == {
        "content": [{"type": "text", "text": "x"}, SHOWN], "isError": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "block"),
    [
        ((b"{}", "application/json"), {"uri": "result:1", "mimeType": "application/json", "text": "{}"}),
        ((b"<svg/>", "image/svg+xml"), {"uri": "result:1", "mimeType": "image/svg+xml", "text": "<svg/>"}),
        (b"%PDF-1.7", {"uri": "result:1", "mimeType": "application/pdf", "blob": "JVBERi0xLjc="}),
        (b"\xff\x00", {"uri": "result:1", "mimeType": "application/octet-stream", "blob": "/wA="}),
        ((b"\xff", "text/plain"), {"uri": "result:1", "mimeType": "text/plain", "blob": "/w=="}),
    ],
)
async def test_bytes_are_a_resource_of_their_type(value: Any, block: dict[str, Any]) -> None:
    assert await content(lambda: value) == [{"type": "resource", "resource": block}]


async def test_a_table_is_csv_for_a_model_and_a_table_for_a_person() -> None:
    frame = pd.DataFrame({"bed": ["north", "south, wet"], "moisture": [41, 62]})
    result = await returned(lambda: frame)
    assert for_model(read_parts(result)).text == 'bed,moisture\nnorth,41\n"south, wet",62\n'
    (block,) = for_page(read_parts(result))
    assert block.rows == (("bed", "moisture"), ("north", "41"), ("south, wet", "62"))
    named = await content(lambda: pd.Series([1, 2], index=["a", "b"], name="n"))
    assert named[0]["resource"]["text"] == ",n\na,1\nb,2\n"
    assert await content(lambda: pd.DataFrame({"a": []})) == [
        {"type": "text", "text": "A table of 0 rows and 1 column."}
    ]


@pytest.mark.parametrize(
    ("frame", "rows", "columns", "said"),
    [
        (lambda: pd.DataFrame({"a": range(10_000)}), 200, 1, "the first 200 of 10 000 rows."),
        (lambda: pd.DataFrame([range(150)]), 1, 100, "the first 100 of 150 columns."),
        (lambda: pd.DataFrame({"a": ["x" * 9_000] * 50}), 6, 1, "the first 6 of 50 rows."),
    ],
)
async def test_a_large_table_is_cut_with_a_count(
    frame: Callable[[], Any], rows: int, columns: int, said: str
) -> None:
    table, note = await content(frame)
    lines = table["resource"]["text"].strip().split("\n")
    assert len(lines) == rows + 1 and len(lines[0].split(",")) == columns
    assert note["text"].endswith(said)


async def test_one_cell_larger_than_a_table_may_be_is_cut_with_a_count() -> None:
    table, note = await content(lambda: pd.DataFrame({"a": ["x" * 500_000]}))
    assert len(table["resource"]["text"]) == 100_000
    assert note["text"] == "The table is cut: it shows the first 100000 of 500 003 characters."


async def test_a_dict_of_the_shape_of_a_result_is_that_result_and_any_other_is_a_value() -> None:
    whole = {
        "content": [{"type": "text", "text": "hi"}],
        "structuredContent": {"a": 1},
        "isError": True,
        "_meta": {"k": 1},
    }
    assert await returned(lambda: whole) == whole
    raw = {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
    assert await returned(lambda: raw) == {"isError": False, "content": [SHOWN]}
    held = {"uri": "a:b", "blob": b"\x00"}
    assert (await content(lambda: {"content": [{"type": "resource", "resource": held}]}))[0]["resource"][
        "blob"
    ] == "AA=="
    for value in (
        {"content": []}, {"content": "x"}, {"content": [{"type": "paragraph", "text": "x"}]}, {"content": [3]},
        {"content": [{"type": "image", "data": 3, "mimeType": "image/png"}]},
        {"content": [{"type": "text", "text": "x"}], "title": "a page"},
    ):  # fmt: skip
        assert (await returned(lambda value=value: value))["structuredContent"] == value


async def test_objects_of_the_mcp_library_are_what_they_say() -> None:
    from mcp import types

    text = types.TextContent(type="text", text="hi")
    assert await returned(lambda: types.CallToolResult(content=[text], is_error=True)) == {
        "content": [{"type": "text", "text": "hi"}], "isError": True,
    }  # fmt: skip
    assert await content(lambda: [text, Png()]) == [{"type": "text", "text": "hi"}, SHOWN]


async def test_what_fails_while_it_is_drawn_is_an_error_of_the_tool() -> None:
    class Broken:
        def _repr_png_(self) -> bytes:
            raise ValueError("no ink")

    result = await returned(Broken)
    assert result == {"content": [{"type": "text", "text": "ValueError: no ink"}], "isError": True}


async def test_an_object_that_answers_to_any_name_draws_nothing() -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *a, **k: b"made up"

        def __str__(self) -> str:
            return "anything"

    assert await content(Anything) == [{"type": "text", "text": "anything"}]
    assert (await content(lambda: Bundle({"text/plain": "a model"})))[0]["text"] == "a model"
    assert (await content(lambda: [Png]))[0]["text"].startswith("[")


async def test_a_drawing_holds_up_no_other_call() -> None:
    loop = asyncio.get_running_loop()
    begun, go = asyncio.Event(), threading.Event()

    class Slow:
        def _repr_png_(self) -> bytes:
            loop.call_soon_threadsafe(begun.set)
            assert go.wait(10)
            return PNG

    box = ToolBox()
    box.add(Slow, name="slow")
    box.add(lambda: "quick", name="quick")
    slow = asyncio.ensure_future(box.answer("tools/call", {"name": "slow"}))
    await asyncio.wait_for(begun.wait(), 10)
    quick = await box.answer("tools/call", {"name": "quick"})
    go.set()
    assert quick["content"][0]["text"] == "quick" and (await slow)["content"] == [SHOWN]


ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.binary(max_size=9), st.builds(object),
        st.sampled_from([PNG, Png(), Figure(), Bundle({}), Bundle(3), Bundle(()), pd.DataFrame({"a": [1]}), pd.Series([b"x"])]),
        st.tuples(st.binary(max_size=9), st.sampled_from(["text/plain", "audio/x", "image/png", "no type", ""])),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner)
    | st.dictionaries(st.sampled_from(["content", "type", "text", "isError", "data", "resource"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(ANY)
async def test_whatever_a_tool_returns_its_caller_gets_a_result_of_mcp(value: Any) -> None:
    result = await returned(lambda: value)
    compact(result)
    assert isinstance(result["content"], list) and isinstance(result["isError"], bool)
    assert all(isinstance(block["type"], str) for block in result["content"])


def test_a_tool_result_is_a_public_name() -> None:
    assert mew_lab.ToolResult is ToolResult


# --- the libraries themselves, where they are installed ---


async def test_a_figure_of_matplotlib_and_its_axes_are_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for value in (pyplot.figure, lambda: pyplot.subplots()[1], pyplot.subplots):
        (block,) = await content(value)
        assert block["type"] == "image" and for_page(read_parts({"content": [block]}))[0].mime == "image/png"
    pyplot.close("all")


async def test_a_picture_of_pillow_is_drawn() -> None:
    image = pytest.importorskip("PIL.Image")
    (block,) = await content(lambda: image.new("RGB", (4, 5)))
    assert block["mimeType"] == "image/png" and for_page(read_parts({"content": [block]}))[0].kind == "image"


@pytest.mark.slow  # polars is no dependency of the tests
async def test_a_frame_of_polars_is_a_table() -> None:
    polars = pytest.importorskip("polars")
    (block,) = await content(lambda: polars.DataFrame({"a": [1, 2], "b": [[1], [2]]}))
    assert block["resource"]["text"] == "a,b\n1,[1]\n2,[2]\n"
