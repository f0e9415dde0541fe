"""Writes an animated PNG from screenshots: each frame holds only the rectangle that has changed.

The page itself decodes and compares the screenshots, so nothing but a browser is needed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, NamedTuple

from playwright.sync_api import Page as Tab

__all__ = ["Shot", "animate"]

# What differs between a screenshot and the one before: its place, and its pixels as three bytes each.
_COMPARE = """async ([was, now]) => {
  const pixels = async text => {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return { width: image.width, height: image.height, data: context.getImageData(0, 0, image.width, image.height).data };
  };
  const next = await pixels(now), before = was && await pixels(was);
  let left = next.width, top = next.height, right = -1, bottom = -1;
  const old = before && new Uint32Array(before.data.buffer), fresh = new Uint32Array(next.data.buffer);
  for (let y = 0, n = 0; y < next.height; y++) for (let x = 0; x < next.width; x++, n++) {
    if (old && old[n] === fresh[n]) continue;
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    bottom = y;
  }
  if (right < 0) return null;
  const width = right - left + 1, height = bottom - top + 1, rgb = new Uint8Array(width * height * 3);
  for (let y = 0, to = 0; y < height; y++) for (let x = 0, from = ((top + y) * next.width + left) * 4; x < width; x++, from += 4) {
    rgb[to++] = next.data[from]; rgb[to++] = next.data[from + 1]; rgb[to++] = next.data[from + 2];
  }
  const packed = await new Response(new Blob([rgb]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer();
  let text = "";
  for (const byte of new Uint8Array(packed)) text += String.fromCharCode(byte);
  return { left, top, width, height, of: [next.width, next.height], rgb: btoa(text) };
}"""


class Shot(NamedTuple):
    """A screenshot as PNG, and the seconds for which it is shown."""

    png: bytes
    seconds: float


class _Frame(NamedTuple):
    """The changed rectangle of a picture."""

    left: int
    top: int
    width: int
    height: int
    rgb: bytes
    seconds: float


def animate(tab: Tab, shots: list[Shot]) -> bytes:
    """The animated PNG of these screenshots, all of one size, repeated without end.

    Raises:
        ValueError: There are fewer than two different screenshots.
    """
    frames: list[_Frame] = []
    size, was = (0, 0), None
    for shot in shots:
        now = base64.b64encode(shot.png).decode()
        changed: dict[str, Any] | None = tab.evaluate(_COMPARE, [was, now])
        was = now
        if changed is None:
            frames[-1] = frames[-1]._replace(seconds=frames[-1].seconds + shot.seconds)
            continue
        size = (changed["of"][0], changed["of"][1])
        place = (changed[name] for name in ("left", "top", "width", "height"))
        frames.append(_Frame(*place, zlib.decompress(base64.b64decode(changed["rgb"])), shot.seconds))
    if len(frames) < 2:
        raise ValueError("a moving picture needs two different screenshots")
    parts = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))]
    parts.append(_chunk(b"acTL", struct.pack(">II", len(frames), 0)))
    number = 0
    for frame in frames:
        head = struct.pack(
            ">IIIIIHHBB",
            number,
            frame.width,
            frame.height,
            frame.left,
            frame.top,
            int(frame.seconds * 1000),
            1000,
            0,
            0,
        )
        parts.append(_chunk(b"fcTL", head))
        number += 1
        data = _pack(frame)
        if frame is frames[0]:
            parts.append(_chunk(b"IDAT", data))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return b"".join([*parts, _chunk(b"IEND", b"")])


def _pack(frame: _Frame) -> bytes:
    """The rows as PNG stores them: each after the number of its filter, which is none."""
    width = frame.width * 3
    rows = (b"\0" + frame.rgb[n * width : (n + 1) * width] for n in range(frame.height))
    return zlib.compress(b"".join(rows), 9)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
