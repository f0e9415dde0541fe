"""What a stream brought becomes a new file under a name of ours; a peer chooses nothing of it."""

from __future__ import annotations

import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mew_lab.errors import MewError
from mew_lab.views.streams.actions import file_name, write_new
from mew_lab.views.streams.row import Kind

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "first", "name"),
    [
        ("text", b"hi", "stream-3-20260102-120000.txt"),
        ("json", b"{}", "stream-3-20260102-120000.jsonl"),
        ("hex", b"\x00", "stream-3-20260102-120000.bin"),
        ("image", b"GIF89a", "stream-3-20260102-120000.gif"),
        ("image", b"<svg>", "stream-3-20260102-120000.bin"),
    ],
)
def test_the_name_says_which_stream_when_and_what(kind: Kind, first: bytes, name: str) -> None:
    assert file_name("stream-3", kind, first=first, now=NOON) == name


@pytest.mark.threat(3)
@pytest.mark.parametrize(
    "id",
    ["../../etc/passwd", "/etc/passwd", "C:\\x", "..", "", "con", "a\nb", "<img src=x>", "x" * 500, ".ssh"],
)
def test_no_part_of_a_path_comes_from_an_id(id: str) -> None:
    name = file_name(id, "text", first=b"", now=NOON)
    assert re.fullmatch(r"stream-[A-Za-z0-9._-]{0,60}-20260102-120000\.txt", name)
    assert Path(name).name == name


def test_the_file_is_new_ours_alone_and_holds_the_frames(tmp_path: Path) -> None:
    first = write_new(tmp_path, "stream-1.txt", [b"one", b"two"])
    second = write_new(tmp_path, "stream-1.txt", [b"three"])
    assert (first.name, first.read_bytes()) == ("stream-1.txt", b"onetwo")
    assert (second.name, second.read_bytes()) == ("stream-1-2.txt", b"three")
    assert stat.S_IMODE(first.stat().st_mode) == 0o600


def test_a_link_that_waits_under_the_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "stream-1.txt").symlink_to(victim)
    (tmp_path / "stream-1-2.txt").symlink_to(tmp_path / "nowhere")
    assert write_new(tmp_path, "stream-1.txt", [b"data"]).name == "stream-1-3.txt"
    assert victim.read_text() == "mine" and not (tmp_path / "nowhere").exists()


def test_a_folder_that_takes_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MewError, match=r"Cannot write .*gone.*No such file"):
        write_new(tmp_path / "gone", "stream-1.txt", [b""])
