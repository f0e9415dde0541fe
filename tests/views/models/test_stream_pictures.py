"""A picture is shown when its own bytes say that it is one of four kinds, and whole."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from mew_lab.views.streams.readers import MOST_BYTES, PictureReader, last_picture, picture_type, size_of


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
    assert picture_type(data) == ""


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
        assert size_of(type, data) == (0, 0)
    assert size_of("image/jpeg", b"\xff\xd8" + b"\xff\xd0" * 20) == (0, 0)
