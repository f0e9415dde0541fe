"""What is held of streams is their newest frames, within bounds that count everything."""

from __future__ import annotations

from mew_lab.views.streams.held_frames import FRAME_COST, HeldFrames, Mark, Shelf


def filled(shelf: Shelf, *frames: bytes) -> HeldFrames:
    held = HeldFrames()
    for data in frames:
        shelf.add(held, data)
    return held


def test_all_that_came_is_there_in_order() -> None:
    shelf = Shelf()
    held = filled(shelf, b"one", b"", b"three")
    assert shelf.everything(held) == ([b"one", b"", b"three"], Mark(0, 0), Mark(3, 8))
    assert shelf.after(held, Mark(1, 3), most=1000) == ([b"", b"three"], Mark(1, 3), Mark(3, 8))
    assert shelf.after(held, Mark(3, 8), most=1000) == ([], Mark(3, 8), Mark(3, 8))


def test_of_one_stream_the_oldest_frames_go_first_and_their_bytes_are_counted() -> None:
    shelf = Shelf(each=2 * (10 + FRAME_COST))
    held = filled(shelf, b"a" * 10, b"b" * 10, b"c" * 10)
    assert shelf.everything(held) == ([b"b" * 10, b"c" * 10], Mark(1, 10), Mark(3, 30))
    assert shelf.cost == 2 * (10 + FRAME_COST)


def test_empty_frames_are_not_free() -> None:
    shelf = Shelf(each=100 * FRAME_COST)
    held = filled(shelf, *[b""] * 1000)
    assert len(shelf.everything(held).frames) == 100


def test_a_reader_gets_the_newest_that_fit_and_the_newest_in_any_case() -> None:
    shelf = Shelf()
    held = filled(shelf, b"a" * 100, b"b" * 100, b"c" * 100)
    assert shelf.after(held, Mark(), most=2 * (100 + FRAME_COST)).frames == [b"b" * 100, b"c" * 100]
    assert shelf.after(held, Mark(), most=1) == ([b"c" * 100], Mark(2, 200), Mark(3, 300))


def test_who_holds_most_gives_way_when_all_together_are_too_many() -> None:
    shelf = Shelf(together=3_000_000)
    quiet = filled(shelf, b"important")
    flood = HeldFrames()
    for _ in range(100):
        shelf.add(flood, b"x" * 100_000)
        assert shelf.cost <= 3_000_000
    assert shelf.everything(quiet).frames == [b"important"]
    assert shelf.everything(flood).start.bytes > 0
    assert shelf.everything(flood).end == Mark(100, 10_000_000)


def test_what_is_forgotten_makes_room() -> None:
    shelf = Shelf()
    held = filled(shelf, b"a" * 10)
    shelf.forget(held)
    assert shelf.cost == 0 and shelf.everything(held) == ([], Mark(1, 10), Mark(1, 10))
