"""Reads the type and the size of a picture from its first bytes.

Nothing but the head of a PNG, a JPEG, a GIF or a WebP is read: a peer sent the rest, and only a browser unpacks it.
"""

from __future__ import annotations

import struct

__all__ = ["PICTURE_TYPES", "image_size", "image_type"]

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types that are known here, in the order in which one of several is chosen."""


def image_type(data: bytes) -> str:
    """The MIME type that the first bytes state; empty for everything but the four."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def image_size(type: str, data: bytes) -> tuple[int, int]:
    """Width and height in pixels as the head of a picture of that MIME type states them; else (0, 0)."""
    try:
        if type == "image/png":
            return struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" else (0, 0)
        if type == "image/gif":
            return struct.unpack("<HH", data[6:10])
        if type == "image/jpeg":
            return _jpeg_size(data)
        return _webp_size(data)
    except struct.error:  # the head is cut off
        return 0, 0


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD7:  # a filling byte, or a segment without a length
            at += 1 if marker == 0xFF else 2
            continue
        height, width = struct.unpack(">HH", data[at + 5 : at + 9])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return width, height
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        width, wide, height, high = struct.unpack("<HBHB", data[24:30])
        return (wide << 16 | width) + 1, (high << 16 | height) + 1
    if chunk == b"VP8L":
        (bits,) = struct.unpack("<I", data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0
