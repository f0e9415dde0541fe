"""Frames: the first two marks count, and every byte behind them survives."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mew_lab.errors import LocalProtocolError, ProtocolError
from mew_lab.protocol.frames import join, split

ids = st.text(st.characters(max_codepoint=127, exclude_characters="#"), min_size=1, max_size=256)


@pytest.mark.req("P-3.10.3-1", "P-3.10.3-2")
@given(stream_id=ids, data=st.binary())
@example(stream_id="stream-1", data=b"#stream-2#\n\r\n\x00\xff#")
@example(stream_id="stream-1", data=b"")
def test_what_was_joined_is_split_into_the_same(stream_id: str, data: bytes) -> None:
    assert split(join(stream_id, data)) == (stream_id, data)


@pytest.mark.req("P-3.10.3-2")
@given(data=st.binary(max_size=400))
@example(data=b"#" + b"a" * 256 + b"#")
@example(data=b"#a##")
def test_any_bytes_are_split_losslessly_or_refused(data: bytes) -> None:
    try:
        stream_id, rest = split(data)
    except ProtocolError:
        return
    length = len(data) - len(rest) - 2
    assert data == b"#" + data[1 : 1 + length] + b"#" + rest
    assert 1 <= length <= 256 and b"#" not in data[1 : 1 + length]
    assert stream_id.isascii() and 1 <= len(stream_id) <= 256


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"#stream-1#data", ("stream-1", b"data")),
        (b"#stream-1#", ("stream-1", b"")),
        (b"#s#a#b#", ("s", b"a#b#")),
        (b"#s##", ("s", b"#")),
        (b"#s#\n#t#", ("s", b"\n#t#")),
        (b"#s\n#\xff\x00", ("s\n", b"\xff\x00")),
        (b"#" + b"i" * 256 + b"#d", ("i" * 256, b"d")),
        ("#ströme#d".encode(), ("str\\xc3\\xb6me", b"d")),
        (b"#" + b"\xff" * 256 + b"#d", ("\\xff" * 64, b"d")),
    ],
)
def test_a_frame_is_split_at_its_second_mark(data: bytes, expected: tuple[str, bytes]) -> None:
    assert split(data) == expected


@pytest.mark.threat(23)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#",
        b"##",
        b"##data",
        b"###",
        b"#stream-1",
        b"stream-1#data",
        b" #stream-1#data",
        b"a#b#c",
        b"{}",
        b"\x00",
        b"\xef\xbb\xbf#s#d",
        b"#" + b"i" * 257 + b"#d",
        b"#" + b"i" * 100_000,
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="#stream#data") as fault:
        split(data)
    assert fault.value.code == "invalid_frame" and fault.value.section == "§3.10.3"
    assert fault.value.raw.isascii() and len(fault.value.raw) <= 1032


@pytest.mark.threat(23)
@pytest.mark.parametrize("stream_id", ["", "a#b", "#", "ströme", "i" * 257, "\ud800"])
def test_an_id_that_no_reader_would_find_again_is_not_sent(stream_id: str) -> None:
    with pytest.raises(LocalProtocolError, match="without '#'") as fault:
        join(stream_id, b"data")
    assert fault.value.code == "invalid_frame"
