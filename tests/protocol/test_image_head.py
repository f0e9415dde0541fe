"""The size of a picture, as the formats state it in their first bytes."""

from __future__ import annotations

import struct

import pytest

from mew_lab.protocol.image_head import image_size, image_type

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 2, 3)
FRAME = b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01"
WEBP = b"RIFF\x1a\0\0\0WEBP"


@pytest.mark.parametrize(
    ("mime", "data", "size"),
    [
        ("image/png", PNG, (2, 3)),
        ("image/png", PNG[:18], (0, 0)),
        ("image/png", PNG.replace(b"IHDR", b"IEND"), (0, 0)),
        ("image/gif", b"GIF89a" + struct.pack("<HH", 3, 4), (3, 4)),
        ("image/jpeg", b"\xff\xd8" + FRAME, (9, 7)),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x04ab" + FRAME, (9, 7)),
        ("image/jpeg", b"\xff\xd8\xff\xff\xff\x01\xff\xd0" + FRAME, (9, 7)),
        ("image/jpeg", b"\xff\xd8" + b"ab" * 9, (0, 0)),
        ("image/jpeg", b"\xff\xd8\xff\xc4\x00\x20" + bytes(9), (0, 0)),
        ("image/webp", WEBP + b"VP8X" + bytes(8) + b"\4\0\0\5\0\0", (5, 6)),
        ("image/webp", WEBP + b"VP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 4 | 5 << 14), (5, 6)),
        ("image/webp", WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 5 | 1 << 14, 6), (5, 6)),
        ("image/webp", WEBP + b"VP8 " + bytes(3), (0, 0)),
        ("image/webp", WEBP + b"ALPH", (0, 0)),
    ],
)
def test_the_size_is_the_one_that_the_head_states(mime: str, data: bytes, size: tuple[int, int]) -> None:
    assert image_type(data) in (mime, "")
    assert image_size(mime, data) == size
