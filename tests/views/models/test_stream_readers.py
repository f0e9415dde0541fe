"""Bytes of a stream become what a page can show; nothing makes a reader fail, nothing unseen stays unseen."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.views.streams.readers import (
    HEX_LINES,
    LINE,
    POINTS,
    ROW,
    FrameDecoder,
    HexReader,
    JsonReader,
    NumberReader,
    TextReader,
)


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
    found = read(NumberReader(), b'{"t": 20.5, "at": "noon", "ok": true, "rh": 40}\n{"rh": 41}\n').take()
    assert found == {"names": ["t", "rh"], "points": [[20.5, 40], [None, 41]], "bad": 0}


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
