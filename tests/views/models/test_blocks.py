"""A tool's result is shown as what it is; a picture is believed by its bytes alone."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from mew_lab.views.tools.blocks import Block, blocks, picture_of


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", 13)
        + b"IHDR"
        + struct.pack(">II", width, height)
        + b"\x08\x06\0\0\0"
    )


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab" + b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01\x01\x11\x00"
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 4) + b"\0\0\0;"
WEBP = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (4).to_bytes(3, "little") + (5).to_bytes(3, "little")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def text_of(body: bytes) -> str:
    return base64.b64encode(body).decode()


@pytest.mark.parametrize(
    ("body", "mime"),
    [(png(2, 3), "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_a_picture_is_what_its_first_bytes_say(body: bytes, mime: str) -> None:
    assert picture_of(text_of(body)) == Block("image", text_of(body), mime)


@pytest.mark.threat(3, 9)
@pytest.mark.parametrize(
    "data",
    [text_of(SVG), text_of(b""), text_of(b"%PDF-1.7"), "no base64!", 7, None, text_of(png(100_000, 100_000)),
     text_of(png(0, 5)), "A" * 2_000_001, text_of(b"\x89PNG\r\n\x1a\n"), text_of(b"\xff\xd8\xff")],
)  # fmt: skip
def test_what_is_no_bearable_picture_is_a_line_of_text(data: Any) -> None:
    block = picture_of(data)
    assert block.kind == "note" and "not shown" in block.text


def test_text_is_text_and_json_in_it_is_laid_out() -> None:
    raw = {
        "content": [
            {"type": "text", "text": "two\nlines"},
            {"type": "text", "text": '{"a":[1]}'},
            {"type": "text", "text": "{no json"},
        ]
    }
    assert blocks(raw) == [
        Block("text", "two\nlines"), Block("json", '{\n  "a": [\n    1\n  ]\n}'), Block("text", "{no json"),
    ]  # fmt: skip


def test_a_structured_value_is_shown_once() -> None:
    same = {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}
    assert len(blocks(same)) == 1
    more = {"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}}
    assert blocks(more)[1] == Block("json", '{\n  "a": 1\n}')


def test_every_other_part_is_named() -> None:
    raw = {"content": [
        {"type": "audio", "data": "x"}, {"type": "resource", "resource": {"uri": "file:///a", "blob": "x"}},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "its text"}},
        {"type": "resource_link", "uri": "file:///c"}, "nonsense",
    ]}  # fmt: skip
    assert [(block.kind, block.text) for block in blocks(raw)] == [
        ("note", "A part of type audio is not shown."),
        ("note", "A resource that is not text is not shown: file:///a"),
        ("text", "its text"),
        ("note", "A link to a resource: file:///c"),
        ("note", "A part of type None is not shown."),
    ]


@pytest.mark.threat(9, 17)
def test_a_result_is_visible_and_bounded() -> None:
    assert (
        blocks({"content": [{"type": "text", "text": "a\u202eb\x1b[31m"}]})[0].text == "a\\u202eb\\u001b[31m"
    )
    (long,) = blocks({"content": [{"type": "text", "text": "x" * 60_000}]})
    assert long.text.endswith("… 10 000 more characters: lab.log.df has all") and len(long.text) < 50_100
    assert blocks({"content": [{"type": "text", "text": "x"}] * 70})[-1].text == "Not shown: 20 more parts."


@pytest.mark.trap("T-14")
def test_a_text_of_json_keeps_the_digits_that_came() -> None:
    text = '{"a": 1.00000000000000000001, "b": 1e3, "c": %s}' % ("7" * 400)
    (block,) = blocks({"content": [{"type": "text", "text": text}]})
    assert block.kind == "json"
    assert "1.00000000000000000001" in block.text and "1e3" in block.text and "7" * 400 in block.text


@pytest.mark.trap("T-14")
@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e400}', "[-Infinity]", '["\\ud800"]'])
def test_a_text_that_looks_like_json_and_is_none_is_shown_as_it_came(text: str) -> None:
    assert blocks({"content": [{"type": "text", "text": text}]}) == [Block("text", text)]


@pytest.mark.trap("T-14")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ({"a": float("-inf")}, "{'a': -inf}"),
        ("\ud800", "'\\ud800'"),
    ],
)
def test_a_structured_value_that_json_cannot_say_is_shown_as_python_writes_it(value: Any, shown: str) -> None:
    raw = {"content": [{"type": "text", "text": "beside it"}], "structuredContent": value}
    assert blocks(raw) == [Block("text", "beside it"), Block("text", shown)]
    (huge,) = blocks(10**5000)
    assert "<int without a text" in huge.text


def test_true_is_not_one() -> None:
    raw = {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": True}}
    assert [block.text for block in blocks(raw)] == ['{\n  "a": 1\n}', '{\n  "a": true\n}']


@pytest.mark.parametrize("raw", [None, 7, "text", [1], {"tools": []}, {"content": "no list"}])
def test_a_result_of_another_shape_is_shown_as_json(raw: Any) -> None:
    assert [block.kind for block in blocks(raw)] == ["json"]
