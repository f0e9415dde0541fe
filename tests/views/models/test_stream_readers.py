"""Bytes of a stream become what a page can show; nothing makes a reader fail, nothing unseen stays unseen.

A picture is shown when its own bytes say that it is one of four kinds, and whole.
"""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.protocol.image_head import image_size, image_type
from mew_lab.views.streams.readers import (
    HEX_LINES,
    LINE,
    MOST_BYTES,
    POINTS,
    ROW,
    FrameDecoder,
    HexReader,
    JsonReader,
    NumberReader,
    PictureReader,
    TextReader,
    is_numeric,
    last_picture,
)
from mew_lab.views.streams.row import kind_of


def read(reader: FrameDecoder, *frames: bytes) -> FrameDecoder:
    for data in frames:
        reader.read(data, whole=True)
    return reader


# --- text ---


def test_a_character_that_is_split_over_frames_is_one_character() -> None:
    reader = TextReader()
    assert read(reader, "häuser"[:1].encode() + b"\xc3").take() == {"text": "h"}
    assert read(reader, b"\xa4user").take() == {"text": "äuser"}


@pytest.mark.threat(17)
def test_what_cannot_be_seen_in_text_is_written_out() -> None:
    reader = read(TextReader(), "a\u202eb \x1b[31m \U000e0041\ttab\r\nnext\rlone".encode())
    assert reader.take() == {"text": "a\\u202eb \\u001b[31m \\U000e0041\ttab\nnext\\rlone"}


def test_bytes_that_are_no_text_are_replaced_and_a_gap_ends_a_character() -> None:
    assert read(TextReader(), b"a\xff\xfeb").take() == {"text": "a\ufffd\ufffdb"}
    reader = read(TextReader(), b"\xc3")
    reader.gap(5)
    assert read(reader, b"x").take() == {"text": "\ufffdx"}


# --- JSON lines ---


def test_each_line_is_a_row_whether_or_not_it_is_json() -> None:
    reader = read(JsonReader(), b'{"a":1}\n\n[1,\n{"b":', b'"x"}\n')
    assert reader.take() == {
        "rows": [[1, True, '{"a": 1}', 0], [2, False, "[1,", 0], [3, True, '{"b": "x"}', 0]]
    }


def test_a_frame_that_is_one_value_needs_no_line_end() -> None:
    assert read(JsonReader(), b'{"a":1}', b"null").take() == {
        "rows": [[1, True, '{"a": 1}', 0], [2, True, "null", 0]]
    }


@pytest.mark.parametrize("line", [b"NaN", b"\x00\xff", b"{", b"[" * 100_000, b"1" * 5000, b"'a'"])
def test_what_is_no_json_is_marked(line: bytes) -> None:
    [[number, good, text, more]] = read(JsonReader(), line + b"\n").take()["rows"]
    assert (number, good) == (1, False)
    assert len(text) <= 6 * ROW and more == max(0, len(line) - ROW)


@pytest.mark.threat(17)
def test_a_string_of_a_json_line_hides_nothing() -> None:
    [[_, _, text, _]] = read(JsonReader(), b'{"a":"x\\u202ey\\ud800"}\n').take()["rows"]
    assert text == '{"a": "x\\u202ey\\ud800"}'


def test_a_line_without_an_end_is_broken_not_kept() -> None:
    reader = JsonReader()
    for _ in range(5):
        reader.read(b"x" * LINE, whole=True)
    assert len(reader.take()["rows"]) >= 4


def test_after_a_gap_reading_goes_on_with_the_next_line() -> None:
    reader = read(JsonReader(), b'{"a": 1')
    reader.gap(100)
    assert read(reader, b'rest"}\n{"b": 2}\n').take() == {"rows": [[1, True, '{"b": 2}', 0]]}
    reader.gap(100)
    assert read(reader, b'{"c": 3}').take() == {"rows": [[2, True, '{"c": 3}', 0]]}


# --- hexadecimal ---


def test_hexadecimal_has_offset_bytes_and_characters() -> None:
    reader = read(HexReader(), b"MEW Protocol v0.", b"4\x00\xff")
    assert reader.take() == {
        "lines": [
            [0, "4d 45 57 20 50 72 6f 74 6f 63 6f 6c 20 76 30 2e", "MEW Protocol v0."],
            [16, "34 00 ff", "4··"],
        ]
    }
    assert read(reader, b"!").take() == {"lines": [[16, "34 00 ff 21", "4··!"]]}


def test_offsets_are_right_behind_a_gap_and_only_the_last_16_kib_are_kept() -> None:
    reader = read(HexReader(), b"abc")
    reader.take()
    reader.gap(97)
    assert read(reader, b"Z").take()["lines"] == [[100, "5a", "Z"]]
    reader = read(HexReader(), b"x" * 100_000)
    lines = reader.take()["lines"]
    assert len(lines) == HEX_LINES and lines[-1][0] + len(lines[-1][2]) == 100_000


# --- numbers ---


def test_numbers_come_as_lines_frames_arrays_and_objects() -> None:
    reader = read(NumberReader(), b"1\n2.5\n", b"-3e2", b"4, 5; 6\n", b"[7, 8]")
    assert reader.take()["points"] == [[1], [2.5], [-300], [4, 5, 6], [7, 8, None]]


def test_an_object_names_its_series_and_other_members_are_left_out() -> None:
    reader = NumberReader()
    reader.at = 12.346
    found = read(reader, b'{"t": 20.5, "at": "noon", "ok": true, "rh": 40}\n{"rh": 41}\n').take()
    points = [[20.5, 40], [None, 41]]
    assert found == {"names": ["t", "rh"], "points": points, "times": [12.35, 12.35], "bad": 0}


@pytest.mark.parametrize(
    ("frames", "numeric"),
    [
        ([b"1\n2\n", b"3\n"], True),
        ([b"1 2\n3,4\n", b"5;6\n7"], True),
        ([b"[1, 2]\n" * 3], True),
        ([b"1\n2\n3"], False),  # the third line may go on
        ([b"1\n2\nthree\n4\n"], False),
        ([b"\n\n\n"], False),
        ([], False),
        ([b"9" * 5000], False),
    ],
)
def test_lines_of_numbers_alone_are_told_from_text(frames: list[bytes], numeric: bool) -> None:
    assert is_numeric(frames) is numeric


@pytest.mark.parametrize(
    "line", [b"hot", b"NaN", b"inf", b"1e999", b"true", b"null", b"{}", b"1" * 400, b"[[1]]"]
)
def test_what_is_no_finite_number_is_counted(line: bytes) -> None:
    found = read(NumberReader(), line + b"\n").take()
    assert (found["points"], found["bad"]) == ([], 1)


def test_floats_of_a_binary_format_may_be_split_anywhere() -> None:
    data = struct.pack("<3d", 1.5, -2.0, 3.25)
    assert read(NumberReader("float64"), data[:5], data[5:]).take()["points"] == [[1.5], [-2.0], [3.25]]
    assert read(NumberReader("float32"), struct.pack("<f", 0.5)).take()["points"] == [[0.5]]


def test_series_and_points_are_bounded() -> None:
    many = b"{%s}\n" % b",".join(b'"%d":1' % n for n in range(100))
    found = read(NumberReader(), many, b"1\n" * (POINTS + 500)).take()
    assert len(found["names"]) == 8 and len(found["points"]) == POINTS


# --- all ---


@given(st.lists(st.binary(max_size=60), max_size=12), st.integers(0, 12))
def test_nothing_makes_a_reader_fail(frames: list[bytes], gap: int) -> None:
    for make in (TextReader, JsonReader, HexReader, NumberReader, lambda: NumberReader("float32")):
        reader = make()
        for n, data in enumerate(frames):
            if n == gap:
                reader.gap(7)
            reader.read(data, whole=n % 2 == 0)
            reader.take()


@given(st.binary(max_size=300), st.integers(1, 40))
def test_text_does_not_depend_on_where_frames_were_cut(data: bytes, size: int) -> None:
    whole = read(TextReader(), data, b"end").take()["text"]
    cut = read(TextReader(), *(data[n : n + size] for n in range(0, len(data), size)), b"end").take()["text"]
    assert whole == cut


@pytest.mark.parametrize(
    ("content_type", "format", "kind"),
    [
        ("application/json", "jsonl", "json"),
        ("application/x-ndjson", "", "json"),
        ("application/json; charset=utf-8", "", "json"),
        ("application/x-game-positions", "binary-vector3", "hex"),
        ("application/octet-stream", "", "hex"),
        ("text/plain", "utf8-newline-delimited", "text"),
        ("text/plain", "numbers", "numbers"),
        ("", "float32", "numbers"),
        ("image/PNG", "", "image"),
        ("image/webp", "", "image"),
        ("video/mp4", "", "hex"),
        ("", "", "text"),
        ("<img src=x>", "<svg>", "text"),
    ],
)
def test_content_type_and_format_choose_the_first_look(content_type: str, format: str, kind: str) -> None:
    assert kind_of(content_type, format) == kind


@pytest.mark.threat(3)
@pytest.mark.parametrize("content_type", ["image/svg+xml", "text/html", "application/xhtml+xml", "text/xml"])
def test_markup_is_text(content_type: str) -> None:
    assert kind_of(content_type, "") == "text"


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int = 2, height: int = 1) -> bytes:
    """As RFC 2083 has it: 8 bits, RGB."""
    rows = (
        b"".join(b"\x00" + b"\xff\x80\x00" * width for _ in range(height)) if width * height < 10_000 else b""
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x10\x00\x20\x01\x01\x11\x00" + b"scan" + b"\xff\xd9"
)
WEBP_BODY = (
    b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + (63).to_bytes(3, "little") + (31).to_bytes(3, "little")
)
WEBP = b"RIFF" + struct.pack("<I", len(WEBP_BODY)) + WEBP_BODY


@pytest.mark.parametrize(
    ("data", "type", "size"),
    [
        (png(2, 1), "image/png", (2, 1)),
        (GIF, "image/gif", (1, 1)),
        (JPEG, "image/jpeg", (32, 16)),
        (WEBP, "image/webp", (64, 32)),
    ],
)
def test_a_whole_picture_is_told_by_its_bytes(data: bytes, type: str, size: tuple[int, int]) -> None:
    reader = PictureReader()
    reader.read(data, whole=True)
    shown = reader.take()
    assert (shown["type"], shown["width"], shown["height"]) == (type, *size)
    assert base64.b64decode(shown["data"]) == data
    assert reader.take() == {}


def test_a_picture_in_pieces_is_shown_when_it_is_whole_and_the_last_one_counts() -> None:
    reader, data = PictureReader(), png(3, 3)
    reader.read(png(1, 1), whole=True)
    for at in range(0, len(data), 10):
        reader.read(data[at : at + 10], whole=True)
    assert (shown := reader.take())["count"] == 2 and shown["width"] == 3
    found = last_picture([b"tail of one before", GIF, data[:20], data[20:], JPEG[:9]])
    assert found == ("image/png", data, 3, 3) and last_picture([b"x"]) is None


@pytest.mark.threat(3)
@pytest.mark.parametrize("data", [b"<svg onload=alert(1)>", b"<!doctype html>", b"", b"GIF89b", b"\x89PNG"])
def test_what_is_no_picture_is_never_given_out_as_one(data: bytes) -> None:
    reader = PictureReader()
    reader.read(data, whole=True)
    shown = reader.take()
    assert "data" not in shown and shown["note"].startswith("No picture")
    assert image_type(data) == ""


def test_a_picture_that_would_fill_the_memory_is_not_shown() -> None:
    reader = PictureReader()
    reader.read(png(50_000, 50_000), whole=True)
    assert reader.take() == {"count": 0, "note": "A picture of 50000 × 50000 pixels is not shown."}
    reader.read(png()[:20] + b"x" * MOST_BYTES, whole=True)
    assert "more than 4 MiB" in reader.take()["note"]


def test_a_gap_in_a_picture_is_no_picture() -> None:
    reader, data = PictureReader(), png(3, 3)
    reader.read(data[:20], whole=True)
    reader.gap(10)
    reader.read(data[30:], whole=True)
    assert "data" not in reader.take()


@pytest.mark.parametrize("type", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_a_torn_head_has_no_size(type: str) -> None:
    for data in (b"", b"\xff\xd8\xff", b"\xff\xd8\xff\xc0\x00", b"GIF89a", b"RIFF12"):
        assert image_size(type, data) == (0, 0)
    assert image_size("image/jpeg", b"\xff\xd8" + b"\xff\xd0" * 20) == (0, 0)
    for chunk in (b"VP8X", b"VP8L", b"VP8 "):
        assert image_size("image/webp", b"RIFF1234WEBP" + chunk + b"1234") == (0, 0)
