"""The stream beside a reasoning is shown as text, whatever is in it, and costs a bounded memory."""

from __future__ import annotations

import json

import pytest

from mew_lab.views.reasoning import model as module
from mew_lab.views.reasoning.model import Mirror


def line(**members: object) -> bytes:
    return json.dumps(members).encode() + b"\n"


def said(*frames: bytes) -> str:
    mirror = Mirror()
    for frame in frames:
        mirror.take(frame)
    return mirror.text


@pytest.mark.req("S-L3-8")
def test_tokens_make_a_text_and_thoughts_are_lines_of_their_own() -> None:
    frames = (
        line(context="r", type="token", text="It "),
        line(context="r", type="token", text="rains.\nMuch."),
        line(context="r", type="thought", message="Take a coat"),
        line(context="r", type="status", status="concluded"),
    )
    assert said(*frames) == "It rains.\nMuch.\nTake a coat\n"


def test_a_line_may_come_in_pieces_and_a_frame_may_hold_several() -> None:
    whole = line(type="token", text="grün ") + line(type="token", text="é")
    utf8 = json.dumps({"type": "token", "text": "ü"}, ensure_ascii=False).encode() + b"\n"
    cut = utf8.index("ü".encode()) + 1
    assert said(whole[:9], whole[9:], utf8[:cut], utf8[cut:]) == "grün éü"


def test_what_is_no_json_is_taken_as_it_is() -> None:
    assert said(b"plain ", b"text\nand more\n") == "plain text\nand more\n"
    assert said(b"[1, 2]\n", b"\xff\xfe\n", b"{broken\n") == "[1, 2]\n\ufffd\ufffd\n{broken\n"
    assert said(line(type="token", text=7), line(other=1), b"[" * 5000 + b"\n") == "[" * 5000 + "\n"


def test_the_newest_is_kept_and_what_never_ends_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror()
    for n in range(3000):
        mirror.take(line(type="token", text=f"{n:09} "))
    assert (len(mirror.text), mirror.total) == (20_000, 30_000)
    assert mirror.text.endswith("000002999 ")
    endless = Mirror()
    for _ in range(200):
        endless.take(b"{" + b"x" * 1000)
    assert endless.total >= 200 * 1001 - (module.MAX_LINE + 1001), "no more than a line waits for its end"
    assert len(endless.text) <= module.MAX_MIRRORED
