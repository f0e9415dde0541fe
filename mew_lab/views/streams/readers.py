"""Reads the bytes of a stream as text, as JSON lines, as hexadecimal, as numbers or as pictures.

A reader takes pieces of data in their order, and returns plain JSON values for a page, with every invisible character as
an escape. It never raises: it marks or counts the data that it cannot read. Between two pieces it keeps at most a line
of 256 KiB, the rest of a character or a number, or a picture of 4 MiB.

The first bytes decide whether data is a picture, not the announced type. A frame that begins as a PNG, JPEG, GIF or WebP
begins a picture; later frames continue it until it is whole. SVG and HTML are never shown as pictures, because they can
hold script. A picture of more than 4 MiB, or of too many pixels for a page, is replaced by a sentence. Only the size of
a picture is read.

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

from mew_lab.protocol.image_head import image_size, image_type
from mew_lab.protocol.visible import visible
from mew_lab.views.streams.row import FLOATS

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
    """Reads the frames of one stream as one kind of content."""

    def read(self, data: bytes, *, whole: bool) -> None:
        """Reads the next piece; `whole` is whether it is one complete frame."""

    def gap(self, size: int) -> None:
        """Notes that `size` bytes are missing at this place."""

    def take(self) -> dict[str, Any]:
        """The content that was read since the last call; empty when there is none."""


class TextReader:
    """Decodes UTF-8, also across pieces; line ends and tabs stay, other invisible characters become escapes."""

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
    """Cuts pieces into lines. A frame without a line end is a line; else the next frame continues the last line."""

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
        """Drops the line that was begun, for the next piece does not continue it."""
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
    """Makes one row of each line: `[number, well-formed, text, characters left out]`."""

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
    """The value of the line in a tuple of one, for it may be null; None when the line is not JSON."""
    try:
        return (json.loads(line, parse_constant=_no_constant),)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class HexReader:
    """Makes lines of 16 bytes: `[offset, hexadecimal, ASCII]`; a line that is not full returns with more bytes."""

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
    """Makes points of up to 8 values from lines of numbers, JSON arrays or objects of numbers, or binary floats.

    Binary floats have 4 or 8 bytes. A line without a number is counted as bad, and so is a value that is not finite.
    `at` is when the frame that is read next has arrived, in seconds of the epoch; each point has that time.
    """

    def __init__(self, format: str = "") -> None:
        self._lines = _Lines()
        self._float = FLOATS.get(format.strip().lower(), "")
        self._rest = b""
        self._names: list[str] = []
        self._told: list[str] = []
        self._points: list[list[float | None]] = []
        self._times: list[float] = []
        self._bad = 0
        self.at = 0.0
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
        del self._points[:-POINTS], self._times[:-POINTS]

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
        times, self._times = self._times, []
        self._told = list(self._names)
        return {"points": points, "times": times, "names": self._told, "bad": self._bad}

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
        self._times.append(round(self.at, 2))


MAX_SAMPLE = 4096  # bytes
LEAST_LINES = 3


def is_numeric(frames: Iterable[bytes]) -> bool:
    """Whether the first bytes of a stream are lines of numbers alone: at least 3 whole lines."""
    sample = b""
    for data in frames:
        sample += data[: MAX_SAMPLE - len(sample)]
        if len(sample) >= MAX_SAMPLE:
            break
    lines = [line for line in sample.split(b"\n")[:-1] if line.strip()]
    return len(lines) >= LEAST_LINES and all(_numbers(line) for line in lines)


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
    columns = _BETWEEN.split(line[:1000].decode("utf-8", "replace").strip())
    try:
        return {str(n): float(column) for n, column in enumerate(columns[:SERIES], 1)}
    except ValueError:
        return {}


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < 10**300


def _spread(text: str) -> str:
    """The text with its line ends and tabs, and with escapes for other invisible characters."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


MOST_BYTES = 4 * 1024 * 1024
MOST_PIXELS = 25_000_000


class Picture(NamedTuple):
    """A whole picture; `width` and `height` are in pixels."""

    type: str
    data: bytes
    width: int
    height: int


class PictureReader:
    """Keeps the last whole picture, and counts those before it."""

    def __init__(self) -> None:
        self.last: Picture | None = None
        self._parts = bytearray()
        self._type = ""
        self._count = 0
        self._note = ""
        self._fresh = False

    def read(self, data: bytes, *, whole: bool) -> None:
        """Reads the next frame."""
        type = image_type(data)
        if type:
            self._parts, self._type = bytearray(data), type
        elif self._type:
            self._parts += data
        else:
            self._say(
                f"No picture: no PNG, JPEG, GIF or WebP begins with {data[:8].hex(' ') or 'an empty frame'}."
            )
            return
        if len(self._parts) > MOST_BYTES:
            self._drop(f"A picture of more than {MOST_BYTES // 1024 // 1024} MiB is not shown.")
        elif self._is_whole():
            self._complete()

    def gap(self, size: int) -> None:
        """Drops the picture that was begun."""
        self._parts, self._type = bytearray(), ""

    def take(self) -> dict[str, Any]:
        """The last picture as base64 with its type and size, or a note with the reason why there is none."""
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
