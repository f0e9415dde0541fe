"""Who watches a stream sees what is held, then what comes, as much as a page can bear; the rest is told."""

from __future__ import annotations

import json
import struct
import zlib

from mew_lab.views.streams.frame_buffer import FrameBuffer, FrameStore
from mew_lab.views.streams.row import Kind
from mew_lab.views.streams.watch import RATE, StreamWatch


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int) -> bytes:
    """One row of pixels, as RFC 2083 has it."""
    head = struct.pack(">IIBBBBB", width, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00" + b"\xff\x80\x00" * width)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


class Scene:
    """A stream, a clock, and one who watches."""

    def __init__(self, kind: Kind = "text", *frames: bytes) -> None:
        self.shelf, self.held, self.now = FrameStore(), FrameBuffer(), 0.0
        self.write(*frames)
        self.watch = StreamWatch(self.shelf, self.held, kind, clock=lambda: self.now)

    def write(self, *frames: bytes) -> None:
        for data in frames:
            self.shelf.add(self.held, data)


def test_it_begins_with_what_is_held_and_goes_on_with_what_comes() -> None:
    scene = Scene("text", b"one ", b"two ")
    assert scene.watch.next() == {"before": 0, "text": "one two "}
    assert scene.watch.next() == {} and not scene.watch.waits
    scene.write(b"three")
    assert scene.watch.waits
    assert scene.watch.next() == {"text": "three"}


def test_what_came_before_the_last_256_kib_is_told() -> None:
    scene = Scene("text", *[b"x" * 1024] * 1000)
    shown = scene.watch.next()
    assert shown["before"] + len(shown["text"]) == 1000 * 1024
    assert 0 < len(shown["text"]) <= RATE == 256 * 1024


def test_on_average_no_more_than_256_kib_a_second_are_shown_and_every_byte_is_shown_or_told() -> None:
    scene = Scene("text", b"begin ")
    sent = len(scene.watch.next()["text"])
    told = 0
    for _ in range(100):  # ten seconds with 1 MiB each
        scene.now += 0.1
        scene.write(*[b"y" * 1024] * 102)
        shown = scene.watch.next()
        sent += len(json.dumps(shown))
        told = shown.get("skipped", told)
    assert sent <= RATE * 11.5
    assert told > 100 * 102 * 1024 - RATE * 12


def test_a_frame_that_is_too_large_is_shown_by_its_end() -> None:
    scene = Scene("text", b"a")
    scene.watch.next()
    scene.now = 1.0
    scene.write(b"x" * 600_000 + b"the end")
    shown = scene.watch.next()
    assert shown["text"].endswith("the end")
    assert shown["skipped"] + len(shown["text"]) == 600_007


def test_escapes_are_paid_for_so_garbage_cannot_flood_a_page() -> None:
    scene = Scene("text")
    scene.watch.next()
    sent = 0
    for _ in range(100):
        scene.now += 0.1
        scene.write(b"\x01" * 50_000)
        sent += len(json.dumps(scene.watch.next()))
    assert sent <= RATE * 10 + 7 * RATE


def test_a_pause_shows_nothing_and_afterwards_what_fits() -> None:
    scene = Scene("text", b"a")
    scene.watch.next()
    scene.watch.paused = True
    scene.write(b"b")
    assert scene.watch.next() == {} and not scene.watch.waits
    scene.watch.paused = False
    assert scene.watch.next() == {"text": "b"}


def test_hexadecimal_shows_the_last_16_kib_without_calling_the_rest_skipped() -> None:
    scene = Scene("hex", b"a")
    scene.watch.next()
    scene.now = 5.0
    scene.write(*[b"z" * 1000] * 100)
    shown = scene.watch.next()
    assert "skipped" not in shown
    offset, _, text = shown["lines"][-1]
    assert offset + len(text) == 100_001


def test_a_picture_is_never_torn_and_the_next_waits_until_it_is_paid() -> None:
    heavy = png(2)[:-12] + b"\x00" * 600_000 + png(2)[-12:]
    scene = Scene("image", heavy[:300_000], heavy[300_000:])
    assert scene.watch.next()["count"] == 1
    scene.write(png(1), png(3))
    scene.now = 0.5
    assert scene.watch.next() == {}
    scene.now = 20.0
    shown = scene.watch.next()
    assert (shown["count"], shown["width"]) == (3, 3)
