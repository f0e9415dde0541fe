"""Reads the bytes of a stream as text, as JSON lines, as hexadecimal, as numbers or as pictures.

A reader is fed pieces of data in their order, and gives what a page can show: plain JSON values in which every unseen
character is written as an escape. It never fails: what it cannot read it marks or counts. What a reader keeps between
two pieces is bounded: a line of at most 256 KiB, the rest of a character, of a number, a picture of at most 4 MiB.

A picture is known by its first bytes, whatever was announced. A frame that begins as a PNG, a JPEG, a GIF or a WebP
begins a picture; later frames continue it until it is whole. SVG and HTML are no pictures here: they can hold script. A
picture of more than 4 MiB, or of more pixels than a page should unpack, is not shown, and a sentence says so. Of a
picture nothing but its size is read.

Spec: §3.10.1, §3.10.3.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from mew_lab.protocol.visible import visible
from mew_lab.views.streams.row import FLOATS
from mew_lab.views.ui.image_head import image_size, image_type

__all__ = [
    "HEX_LINES",
    "FrameDecoder",
    "HexReader",
    "JsonReader",
    "NumberReader",
    "Picture",
    "PictureReader",
    "TextReader",
    "last_picture",
]

LINE = 256 * 1024  # bytes of one line; a longer one is broken there, and marked
ROW = 2000  # characters of a line that are shown
HEX_LINES = 1024  # lines of 16 bytes
SERIES = 8
POINTS = 2000


class FrameDecoder(Protocol):
    """Reads one stream in one way."""

    def read(self, data: bytes, *, whole: bool) -> None:
        """The next piece; `whole` says that it is one frame from its beginning to its end."""

    def gap(self, size: int) -> None:
        """So many bytes are missing here."""

    def take(self) -> dict[str, Any]:
        """What has come together since the last time; empty when there is nothing."""


class TextReader:
    """UTF-8 as it comes, also in the middle of a character; line ends and tabs stay, all unseen is written out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""

    def read(self, data: bytes, *, whole: bool) -> None:
        self._text += self._decoder.decode(data)

    def gap(self, size: int) -> None:
        self._text += self._decoder.decode(b"", final=True)
        self._decoder.reset()

    def take(self) -> dict[str, Any]:
        # The first half of a line end waits for the second.
        held = "\r" if self._text.endswith("\r") else ""
        text, self._text = self._text[: len(self._text) - len(held)], held
        return {"text": _spread(text)} if text else {}


class _Lines:
    """Cuts pieces into lines. What a frame leaves unended goes on in the next; a frame without a line end is a line."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._torn = False

    def cut(self, data: bytes, *, whole: bool) -> Iterator[bytes]:
        fresh = not self._rest
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield from self._add(line)
            if not self._torn:
                yield bytes(self._rest)
            self._rest.clear()
            self._torn = False
        yield from self._add(rest)
        if whole and fresh and not lines and self.stands_alone(rest):
            self._rest.clear()
            self._torn = False
            yield rest

    def stands_alone(self, frame: bytes) -> bool:
        return bool(frame)

    def gap(self) -> None:
        """What has begun here does not end where the next piece begins."""
        self._rest.clear()
        self._torn = True

    def _add(self, piece: bytes) -> Iterator[bytes]:
        if self._torn:
            return
        self._rest += piece
        while len(self._rest) > LINE:
            yield bytes(self._rest[:LINE])
            del self._rest[:LINE]


class _JsonLines(_Lines):
    def stands_alone(self, frame: bytes) -> bool:
        return _parse_line(frame) is not None


class JsonReader:
    """One row a line: `[number, well-formed, text, characters left out]`."""

    def __init__(self) -> None:
        self._lines = _JsonLines()
        self._rows: list[list[Any]] = []
        self._count = 0

    def read(self, data: bytes, *, whole: bool) -> None:
        for line in self._lines.cut(data, whole=whole):
            if line.strip():
                self._row(line)

    def gap(self, size: int) -> None:
        self._lines.gap()

    def take(self) -> dict[str, Any]:
        rows, self._rows = self._rows, []
        return {"rows": rows} if rows else {}

    def _row(self, line: bytes) -> None:
        self._count += 1
        parsed = _parse_line(line)
        text = line.strip().decode("utf-8", "replace")
        if parsed is not None:
            try:
                text = json.dumps(parsed[0], ensure_ascii=False)
            except RecursionError:
                parsed = None
        self._rows.append([self._count, parsed is not None, visible(text[:ROW]), max(0, len(text) - ROW)])


def _parse_line(line: bytes) -> tuple[Any] | None:
    """The value in a tuple of one, for it may be null; None where there is none."""
    try:
        return (json.loads(line, parse_constant=_no_constant),)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class HexReader:
    """Lines of 16 bytes: `[offset, hexadecimal, ASCII]`; one that is not full yet comes again with more."""

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._line = b""
        self._data = bytearray()

    def read(self, data: bytes, *, whole: bool) -> None:
        self._data += data
        if (over := len(self._data) - HEX_LINES * 16) > 0:
            self._move(over)

    def gap(self, size: int) -> None:
        self._move(len(self._data) + size)

    def _move(self, size: int) -> None:
        del self._data[:size]
        self._offset += len(self._line) + size
        self._line = b""

    def take(self) -> dict[str, Any]:
        if not self._data:
            return {}
        data = self._line + bytes(self._data)
        self._data.clear()
        lines = []
        for at in range(0, len(data), 16):
            line = data[at : at + 16]
            shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in line)
            lines.append([self._offset + at, line.hex(" "), shown])
        whole = len(data) - len(data) % 16
        self._offset += whole
        self._line = data[whole:]
        return {"lines": lines}


class NumberReader:
    """Points of up to 8 values: a line of numbers, a JSON array or object of them, or floats of 4 or 8 bytes each.

    A line without any is counted, as is a value that is no finite number.
    """

    def __init__(self, format: str = "") -> None:
        self._lines = _Lines()
        self._float = FLOATS.get(format.strip().lower(), "")
        self._rest = b""
        self._names: list[str] = []
        self._told: list[str] = []
        self._points: list[list[float | None]] = []
        self._bad = 0
        self._more = False

    def read(self, data: bytes, *, whole: bool) -> None:
        if self._float:
            data = self._rest + data
            size = struct.calcsize(self._float)
            cut = len(data) - len(data) % size
            self._rest = data[cut:]
            for (value,) in struct.iter_unpack(self._float, data[:cut]):
                self._point({"1": value})
        else:
            for line in self._lines.cut(data, whole=whole):
                if line.strip():
                    self._point(_numbers(line))
        del self._points[:-POINTS]

    def gap(self, size: int) -> None:
        self._lines.gap()
        if self._float:
            width = struct.calcsize(self._float)
            self._rest = self._rest if size % width == 0 else b""

    def take(self) -> dict[str, Any]:
        if not self._more:
            return {}
        self._more = False
        points, self._points = self._points, []
        self._told = list(self._names)
        return {"points": points, "names": self._told, "bad": self._bad}

    def _point(self, values: dict[str, float]) -> None:
        self._more = True
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        if not finite:
            self._bad += 1
            return
        for name in finite:
            if name not in self._names and len(self._names) < SERIES:
                self._names.append(name)
        self._points.append([finite.get(name) for name in self._names])


_BETWEEN = re.compile(r"[\s,;]+")


def _numbers(line: bytes) -> dict[str, float]:
    parsed = _parse_line(line)
    value = parsed[0] if parsed else None
    if isinstance(value, dict):
        return {visible(key[:40]): float(number) for key, number in value.items() if _is_number(number)}
    if isinstance(value, list):
        return {str(n): float(number) for n, number in enumerate(value[:SERIES], 1) if _is_number(number)}
    if value is not None and _is_number(value):
        return {"1": float(value)}
    words = _BETWEEN.split(line[:1000].decode("utf-8", "replace").strip())
    try:
        return {str(n): float(word) for n, word in enumerate(words[:SERIES], 1)}
    except ValueError:
        return {}


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < 10**300


def _spread(text: str) -> str:
    """Visible text that keeps its line ends and tabs."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


MOST_BYTES = 4 * 1024 * 1024
MOST_PIXELS = 25_000_000


class Picture(NamedTuple):
    """One whole picture."""

    type: str
    data: bytes
    width: int
    height: int


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
        type = image_type(data)
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
        shown: dict[str, Any] = {"count": self._count, "note": self._note}
        if self.last is not None:
            shown |= {
                "type": self.last.type,
                "data": base64.b64encode(self.last.data).decode(),
                "width": self.last.width,
                "height": self.last.height,
            }
            self.last = None
        return shown

    def _is_whole(self) -> bool:
        parts = self._parts
        if self._type == "image/png":
            return parts.endswith(b"IEND\xaeB`\x82")
        if self._type == "image/jpeg":
            return parts.endswith(b"\xff\xd9")
        if self._type == "image/gif":
            return parts.endswith(b"\x3b") and len(parts) > 13
        return len(parts) >= 8 + int.from_bytes(parts[4:8], "little")

    def _complete(self) -> None:
        data, type = bytes(self._parts), self._type
        self._parts, self._type = bytearray(), ""
        width, height = image_size(type, data)
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
