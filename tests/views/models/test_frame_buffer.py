"""What is held of streams is their newest frames, within bounds that count everything."""

from __future__ import annotations

from mew_lab.views.streams.frame_buffer import FRAME_COST, FrameBuffer, FramePosition, FrameStore


def filled(shelf: FrameStore, *frames: bytes) -> FrameBuffer:
    held = FrameBuffer()
    for data in frames:
        shelf.add(held, data)
    return held


def test_all_that_came_is_there_in_order() -> None:
    clock = iter([10.0, 11.5, 12.0])
    shelf = FrameStore(clock=lambda: next(clock))
    held = filled(shelf, b"one", b"", b"three")
    everything = [b"one", b"", b"three"], FramePosition(0, 0), FramePosition(3, 8), [10.0, 11.5, 12.0]
    assert shelf.everything(held) == everything
    assert shelf.first(held) == [b"one", b"", b"three"] and shelf.first(held, 1) == [b"one"]
    assert shelf.after(held, FramePosition(1, 3), most=1000) == (
        [b"", b"three"],
        FramePosition(1, 3),
        FramePosition(3, 8),
        [11.5, 12.0],
    )
    assert shelf.after(held, FramePosition(3, 8), most=1000) == (
        [],
        FramePosition(3, 8),
        FramePosition(3, 8),
        [],
    )


def test_of_one_stream_the_oldest_frames_go_first_and_their_bytes_are_counted() -> None:
    shelf = FrameStore(each=2 * (10 + FRAME_COST))
    held = filled(shelf, b"a" * 10, b"b" * 10, b"c" * 10)
    everything = shelf.everything(held)
    assert everything[:3] == ([b"b" * 10, b"c" * 10], FramePosition(1, 10), FramePosition(3, 30))
    assert len(everything.times) == 2
    assert shelf.cost == 2 * (10 + FRAME_COST)


def test_empty_frames_are_not_free() -> None:
    shelf = FrameStore(each=100 * FRAME_COST)
    held = filled(shelf, *[b""] * 1000)
    assert len(shelf.everything(held).frames) == 100


def test_a_reader_gets_the_newest_that_fit_and_the_newest_in_any_case() -> None:
    shelf = FrameStore()
    held = filled(shelf, b"a" * 100, b"b" * 100, b"c" * 100)
    assert shelf.after(held, FramePosition(), most=2 * (100 + FRAME_COST)).frames == [b"b" * 100, b"c" * 100]
    assert shelf.after(held, FramePosition(), most=1)[:3] == (
        [b"c" * 100],
        FramePosition(2, 200),
        FramePosition(3, 300),
    )


def test_who_holds_most_gives_way_when_all_together_are_too_many() -> None:
    shelf = FrameStore(together=3_000_000)
    quiet = filled(shelf, b"important")
    flood = FrameBuffer()
    for _ in range(100):
        shelf.add(flood, b"x" * 100_000)
        assert shelf.cost <= 3_000_000
    assert shelf.everything(quiet).frames == [b"important"]
    assert shelf.everything(flood).start.bytes > 0
    assert shelf.everything(flood).end == FramePosition(100, 10_000_000)


def test_what_is_forgotten_makes_room() -> None:
    shelf = FrameStore()
    held = filled(shelf, b"a" * 10)
    shelf.forget(held)
    assert shelf.cost == 0 and shelf.everything(held) == (
        [],
        FramePosition(1, 10),
        FramePosition(1, 10),
        [],
    )
