"""Streams in a real page: seen as they run, looked into in five ways, opened, granted, given away, saved and closed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from access import accessible, focus_path
from playwright.sync_api import Locator
from real_lab import Notebook

SETUP = """
import os, tempfile; os.chdir(tempfile.mkdtemp())
import json, math, struct, zlib
import mew_lab
%load_ext mew_lab
lab = mew_lab.up(journal=None)
lab.view.streams  # frames are kept from now on
def seat(name): return lab.join(name, can=[{"kind": "stream/*"}, {"kind": "chat"}])
def run(work): return lab.loop.run(work, timeout=20, doing="a scene")
def request(seat, direction="upload", **said): return run(seat.participant.streams.request_stream(direction, **said))
def write(stream, *frames):
    for one in frames: run(stream.write(one))
def wire(kind): return [one for one in lab.log if one.get("kind") == kind]
def chunk(name, data): return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
def png(width, height):
    row = lambda y: b"\\0" + bytes(c for x in range(width) for c in (30 + x, 120, 30 + y))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(b"".join(map(row, range(height))))) + chunk(b"IEND", b"")
"""
SHOW = "lab.view.streams"


def row(book: Notebook, id: str) -> Locator:
    exact = re.compile(rf"(^|\s){re.escape(id)}$")
    return book.view(1).locator(".mew-scroller tbody tr", has=book.tab.get_by_role("button", name=exact))


def press(book: Notebook, name: str) -> None:
    book.click(book.view(1).get_by_role("button", name=name, exact=True))


def chosen(book: Notebook, id: str) -> Locator:
    """Opens the stream of that id; what is on it."""
    row(book, id).wait_for()
    button = row(book, id).get_by_role("button")
    if button.get_attribute("aria-expanded") != "true":
        book.click(button)
        book.page.until(lambda: button.get_attribute("aria-expanded") == "true", f"{id} to be opened")
    return book.view(1).locator(".mew-content")


def until_text(book: Notebook, node: Locator, text: str) -> None:
    book.page.until(lambda: text in node.inner_text(), f"{text!r} in the page")


def python(book: Notebook, index: int, code: str) -> str:
    """What a cell prints that is written now."""
    book.write(index, code)
    book.run(index)
    return book.text(index)


@pytest.mark.slow
@pytest.mark.req("P-3.10.4-2")
def test_what_is_clicked_is_on_the_wire_and_a_refusal_is_the_gateways_sentence(
    plain: Callable[..., Notebook],
) -> None:
    book = plain([SETUP + "bot = seat('bot')", SHOW, "None"]).run(0).run(1)
    book.view(1).get_by_text("No streams yet.").wait_for()
    press(book, "Open a stream…")
    form = book.view(1).locator("form")
    form.get_by_label("Description").fill("Notes for everybody")
    form.get_by_label("Content type").fill("text/plain")
    press(book, "Open")
    row(book, "stream-1").wait_for()
    said = python(book, 2, "print(wire('stream/request')[-1]['payload'])")
    assert (
        said
        == "{'direction': 'upload', 'description': 'Notes for everybody', 'content_type': 'text/plain'}\n"
    )
    # It is open below the table already, and its owner's buttons are there.
    people = book.view(1).get_by_label("Participant")
    for name, kind, key in (
        ("Allow writing", "stream/grant-write", "participant_id"),
        ("Revoke writing", "stream/revoke-write", "participant_id"),
    ):
        people.select_option("bot")
        press(book, name)
        writers = "human, bot" if name == "Allow writing" else "human"
        book.page.until(
            lambda writers=writers: row(book, "stream-1").locator(".mew-writers").inner_text() == writers,
            "writers",
        )
        assert "'bot'" in python(book, 2, f"print(wire({kind!r})[-1]['payload'][{key!r}].__repr__())")
    # A name that is not here any more by the time of the click: the gateway says so, and it stays until dismissed.
    people.evaluate("s => s.append(new Option('ghost', 'ghost'))")
    people.select_option("ghost")
    press(book, "Allow writing")
    notice = book.view(1).locator(".mew-notice")
    until_text(book, notice, "'ghost' is not in this space now, so it can have no part in a stream")
    book.click(notice.get_by_role("button", name="Dismiss"))
    assert notice.count() == 0
    # What came is saved where the kernel runs, under a name of its own.
    python(
        book, 2, "write(lab.me.participant.streams.active['stream-1'], b'first line\\n', b'second line\\n')"
    )
    until_text(book, book.view(1).locator(".mew-content"), "second line")
    press(book, "Save to file")
    until_text(book, book.view(1).locator(".mew-notice"), "Wrote 23 bytes of stream-1 to ")
    files = python(book, 2, "print([(p, open(p, 'rb').read()) for p in os.listdir()])")
    assert "stream-1-" in files and ".txt', b'first line\\nsecond line\\n')" in files
    press(book, "Dismiss")
    # Given away, it is somebody else's to close.
    people.select_option("bot")
    press(book, "Transfer")
    book.page.until(
        lambda: row(book, "stream-1").locator(".mew-owner").inner_text() == "bot", "the new owner"
    )
    assert not book.view(1).get_by_role("button", name="Close stream").is_visible()
    assert "'bot'" in python(
        book, 2, "print(repr(wire('stream/transfer-ownership')[-1]['payload']['new_owner']))"
    )
    press(book, "Open a stream…")
    book.tab.keyboard.press("Enter")  # what the first field, which has the keyboard, is for
    row(book, "stream-2").wait_for()
    book.page.until(
        lambda: book.view(1).locator(".mew-name .mew-id").inner_text() == "stream-2",
        "the new one to be chosen",
    )
    press(book, "Close stream")
    until_text(book, row(book, "stream-2"), "closed: complete")
    assert "'complete'" in python(book, 2, "print(repr(wire('stream/close')[-1]['payload']['reason']))")
    assert python(book, 2, "print(len(lab.view.streams.faults))") == "0\n"


@pytest.mark.slow
def test_a_stream_is_read_as_what_it_is_or_as_one_wishes(plain: Callable[..., Notebook]) -> None:
    scene = """
bot = seat('bot')
lines = request(bot, description="events", content_type="application/x-ndjson", format="jsonl")
temps = request(bot, description="garden", content_type="text/plain", format="numbers")
photo = request(bot, description="camera", content_type="image/png")
"""
    book = plain([SETUP + scene, SHOW, "None"]).run(0).run(1)
    content = chosen(book, "stream-1")
    python(
        book, 2, r"""write(lines, b'{"plant":"basil","dry":true}\n{"pla', b'nt":"mint"}\n', b'{broken\n')"""
    )
    until_text(book, content, '{"plant": "mint"}')
    until_text(book, content, "not JSON")
    assert content.locator(".mew-bad").count() == 1
    press(book, "indent")
    until_text(book, content, '{\n  "plant": "basil",\n  "dry": true\n}')
    press(book, "text")
    until_text(book, content, '{"plant":"basil","dry":true}')
    press(book, "hex")
    until_text(book, content, "00000000  7b 22 70 6c 61 6e 74")
    # A pause holds the page, not the stream.
    press(book, "text")
    until_text(book, content, "{broken")
    press(book, "Pause")
    python(book, 2, r"write(lines, b'while paused\n')")
    book.page.until(lambda: row(book, "stream-1").locator(".mew-frames").inner_text() == "4", "the count")
    assert "while paused" not in content.inner_text()
    press(book, "Resume")
    until_text(book, content, "while paused")
    # More than a page can bear is skipped, and said.
    python(book, 2, "write(lines, *[b'z' * 9_999 + b'\\n'] * 100)")
    until_text(book, book.view(1).locator(".mew-note"), "bytes skipped")
    content = chosen(book, "stream-2")
    python(book, 2, "write(temps, *[b'%f %f\\n' % (20 + math.sin(n / 9), 40 - n / 10) for n in range(100)])")
    until_text(book, content.locator(".mew-legend"), "30.1")
    plot = content.get_by_role("img")
    assert plot.get_attribute("aria-label") == "Plot of 100 points, from 19 to 40"
    ink = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    assert plot.evaluate(ink)
    # The axis has times, and the pointer or the keys read the values of a point.
    assert re.fullmatch(r"\d\d:\d\d:\d\d", content.locator(".mew-ticks span").first.inner_text())
    readout = content.locator(".mew-readout")
    box = plot.bounding_box()
    assert box is not None
    book.tab.mouse.move(box["x"] + box["width"] - 1, box["y"] + 20)
    until_text(book, readout, "2 30.1")
    plot.focus()
    book.tab.keyboard.press("Home")
    until_text(book, readout, "1 20 · 2 40")
    # What has only numbers is a curve, whatever its type says; the reader may still read the text.
    python(
        book,
        2,
        "plain = request(bot, description='soil', content_type='text/plain'); write(plain, b'1\\n2\\n3\\n')",
    )
    python(book, 2, "counts = request(bot, description='counts', content_type='text/x-numbers')")
    content = chosen(book, "stream-5")
    assert content.get_by_role("img").get_attribute("aria-label") == "Plot without points so far"
    content = chosen(book, "stream-4")
    until_text(book, content.locator(".mew-legend"), "last")
    press(book, "text")
    until_text(book, content, "1\n2\n3")
    # A closed stream has nothing to pause; what was held back by then is shown on request.
    press(book, "Pause")
    python(book, 2, "write(plain, b'4 at last\\n')")
    python(book, 2, "run(plain.close())")
    until_text(book, book.view(1).locator(".mew-why"), "Closed: read-only.")
    assert "at last" not in content.inner_text()
    press(book, "Resume")
    until_text(book, content, "4 at last")
    assert not book.view(1).get_by_role("button", name="Pause").is_visible()
    content = chosen(book, "stream-3")
    python(book, 2, "image = png(40, 30); write(photo, image[:50], image[50:])")
    until_text(book, content, "image/png, 40 × 30")
    shown = content.locator("img")
    assert shown.get_attribute("src").startswith("blob:")  # type: ignore[union-attr]
    book.page.until(
        lambda: shown.evaluate("i => [i.naturalWidth, i.naturalHeight]") == [40, 30], "the picture"
    )
    python(book, 2, 'write(photo, b\'<svg xmlns="x" onload="alert(1)"></svg>\')')
    until_text(book, content, "No picture")
    assert book.page.dialogs == [] and book.page.errors == []


SCENE = """
weather, camera, builder, scribe = map(seat, ("weather-service", "garden-camera", "builder", "scribe"))
aggregator = seat("aggregator")
temps = request(weather, description="Temperature and humidity of the greenhouse, once a second", content_type="application/x-ndjson", format="jsonl")
build = request(builder, description="Log of the nightly build", content_type="text/plain")
photo = request(camera, description="The tomato bed, every ten seconds", content_type="image/png")
upload = request(scribe, description="Export of the garden diary", content_type="application/json", format="jsonl", target=["aggregator"], expected_size_bytes=10485760)
notes = request(lab.me, "download", description="Questions from everybody", content_type="text/plain")
run(notes.grant_write("scribe")); run(notes.grant_write("builder"))
old = request(builder, description="Log of the build before", content_type="text/plain"); write(old, b"done\\n"); run(old.close())
try: request(scribe, description="For the archive", target=["archive"])
except mew_lab.errors.MewError: pass
write(temps, *[json.dumps({"t": round(21 + 2 * math.sin(n / 30), 2), "humidity": round(55 + 8 * math.cos(n / 50), 1), "at": f"2026-05-01T06:{n // 60 % 60:02}:{n % 60:02}Z"}) + "\\n" for n in range(300)])
write(temps, b"sensor 2: no answer\\n")
write(build, *[f"[{n:3}/240] compiling mew_lab/space/part_{n}.py\\n" for n in range(1, 180)])
write(build, b"warning: \\x1b[33mline 40: unused name\\x1b[0m\\n")
write(photo, png(96, 64))
write(upload, b"{}")
write(notes, b"Shall we water the basil today?\\n")
None
"""


@pytest.mark.slow
def test_it_can_be_used_without_a_mouse_at_any_width_in_both_themes(
    notebook: Callable[..., Notebook],
) -> None:
    book = notebook([SETUP + SCENE, SHOW]).run(0).run(1)
    row(book, "stream-1").wait_for()
    book.page.until(lambda: book.view(1).locator(".mew-scroller tbody tr").count() == 7, "seven rows")
    assert not book.view(1).get_by_role("alert").filter(visible=True).count(), (
        "streams that ended end no view"
    )
    book.page.shot("streams-list", book.area(1))
    until_text(book, chosen(book, "stream-1"), "sensor 2")
    book.tab.mouse.move(5, 5)
    book.page.shot("streams-json", book.area(1))
    press(book, "numbers")
    until_text(book, book.view(1).locator(".mew-content"), "humidity")
    accessible(book, book.view(1), pictures="streams-numbers")
    until_text(book, chosen(book, "stream-2"), "unused name")
    book.page.shot("streams-text", book.area(1))
    chosen(book, "stream-5")
    book.page.shot("streams-mine", book.area(1))
    press(book, "Open a stream…")
    accessible(book, book.view(1), pictures="streams-form")
    press(book, "Cancel")
    until_text(book, chosen(book, "stream-3"), "96 × 64")
    book.page.shot("streams-picture", book.area(1))
    # By keys alone: into the table, down two rows, open, and on to what may be done there.
    press(book, "Hide")
    opener = row(book, "stream-3").get_by_role("button")
    assert book.view(1).locator(".mew-content").count() == 0
    assert book.view(1).get_by_role("button", name="Hide").count() == 0
    assert opener.get_attribute("aria-expanded") == "false"
    assert opener.evaluate("b => b === document.activeElement"), "the keyboard is back at its row"
    stops = focus_path(book, book.view(1))
    rows = [stop for stop in stops if re.match(r"button .*stream-\d", stop)]
    assert len(rows) == 1 and "stream-3" in rows[0], "the table is one stop"
    row(book, "stream-3").get_by_role("button").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        book.tab.keyboard.press(key)
    book.page.until(
        lambda: book.view(1).locator(".mew-name .mew-id").inner_text() == "stream-5", "the fifth to be open"
    )
    stops = focus_path(book, book.view(1))
    for name in (
        "Participant",
        "Allow writing",
        "Revoke writing",
        "Transfer",
        "Close stream",
        "hex",
        "Pause",
        "Save to file",
    ):
        assert any(name in stop for stop in stops), (name, stops)
    book.view(1).get_by_role("button", name="hex").focus()
    for key in ("d", "d", "Enter"):
        book.tab.keyboard.press(key)
    until_text(book, book.view(1).locator(".mew-content"), "53 68 61 6c 6c")
    assert book.tab.locator(".jp-Notebook .jp-Cell").count() == 2
    assert book.page.errors == []


@pytest.mark.slow
@pytest.mark.trap("T-13")
def test_a_view_that_comes_back_shows_the_same_and_goes_on(notebook: Callable[..., Notebook]) -> None:
    book = (
        notebook([SETUP + "stream = request(seat('bot'), content_type='text/plain')", SHOW, "None"])
        .run(0)
        .run(1)
    )
    row(book, "stream-1").wait_for()
    book.save()
    book.reload()
    content = chosen(book, "stream-1")
    python(book, 2, "write(stream, 'after the reload')")
    until_text(book, content, "after the reload")
    found: dict[str, Any] = book.save()
    output = found["cells"][1]["outputs"][0]["data"]
    assert "".join(output["text/plain"]) == "Streams: 1 open, 0 requested, 0 closed"
    assert "stream-1" in "".join(output["text/html"])
