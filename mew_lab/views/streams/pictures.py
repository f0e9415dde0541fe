"""Finds the last whole picture that a stream brought, by its first bytes, whatever was announced.

A frame that begins as a PNG, a JPEG, a GIF or a WebP begins a picture; later frames continue it until it is whole. SVG
and HTML are no pictures here: they can hold script. A picture of more than 4 MiB, or of more pixels than a page should
unpack, is not shown, and a sentence says so. Of a picture nothing but its size is read.

Spec: §3.10.3.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["Picture", "PictureReader", "last_picture", "picture_type", "size_of"]

MOST_BYTES = 4 * 1024 * 1024
MOST_PIXELS = 25_000_000


class Picture(NamedTuple):
    """One whole picture."""

    type: str
    data: bytes
    width: int
    height: int


def picture_type(data: bytes) -> str:
    """The MIME type that the first bytes tell; empty for all but the four."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def size_of(type: str, data: bytes) -> tuple[int, int]:
    """Width and height in pixels, as the picture's head states them; (0, 0) where it states none."""
    try:
        if type == "image/png":
            return (_big(data[16:20]), _big(data[20:24])) if data[12:16] == b"IHDR" else (0, 0)
        if type == "image/gif":
            return _little(data[6:8]), _little(data[8:10])
        if type == "image/jpeg":
            return _jpeg(data)
        return _webp(data)
    except IndexError:
        return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 2 + max(2, _big(data[at + 2 : at + 4]))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    if chunk == b"VP8L":
        bits = _little(data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 ":
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes | bytearray) -> int:
    return int.from_bytes(data, "little")


class PictureReader:
    """The last whole picture; those before it are counted."""

    def __init__(self) -> None:
        self.last: Picture | None = None
        self._parts = bytearray()
        self._type = ""
        self._count = 0
        self._note = ""
        self._fresh = False

    def read(self, data: bytes, *, whole: bool) -> None:
        """The next frame."""
        type = picture_type(data)
        if type:
            self._parts, self._type = bytearray(data), type
        elif self._type:
            self._parts += data
        else:
            self._say(
                f"No picture: a PNG, JPEG, GIF or WebP begins otherwise than {data[:8].hex(' ') or 'empty'}."
            )
            return
        if len(self._parts) > MOST_BYTES:
            self._drop(f"A picture of more than {MOST_BYTES // 1024 // 1024} MiB is not shown.")
        elif self._is_whole():
            self._complete()

    def gap(self, size: int) -> None:
        """A picture in the making is lost."""
        self._parts, self._type = bytearray(), ""

    def take(self) -> dict[str, Any]:
        """The last picture as base64 with its type and size, or why there is none."""
        if not self._fresh:
            return {}
        self._fresh = False
        found: dict[str, Any] = {"count": self._count, "note": self._note}
        if self.last is not None:
            found |= {
                "type": self.last.type,
                "data": base64.b64encode(self.last.data).decode(),
                "width": self.last.width,
                "height": self.last.height,
            }
            self.last = None
        return found

    def _is_whole(self) -> bool:
        parts = self._parts
        if self._type == "image/png":
            return parts.endswith(b"IEND\xaeB`\x82")
        if self._type == "image/jpeg":
            return parts.endswith(b"\xff\xd9")
        if self._type == "image/gif":
            return parts.endswith(b"\x3b") and len(parts) > 13
        return len(parts) >= 8 + _little(parts[4:8])

    def _complete(self) -> None:
        data, type = bytes(self._parts), self._type
        self._parts, self._type = bytearray(), ""
        width, height = size_of(type, data)
        if not 0 < width * height <= MOST_PIXELS:
            self._say(f"A picture of {width} × {height} pixels is not shown.")
            return
        self._count += 1
        self.last, self._note, self._fresh = Picture(type, data, width, height), "", True

    def _drop(self, note: str) -> None:
        self._parts, self._type = bytearray(), ""
        self._say(note)

    def _say(self, note: str) -> None:
        if note != self._note:
            self._note, self._fresh = note, True


def last_picture(frames: Iterable[bytes]) -> Picture | None:
    """The last whole picture among frames that follow each other."""
    reader = PictureReader()
    for data in frames:
        reader.read(data, whole=True)
    return reader.last
