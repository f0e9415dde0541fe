"""What lies in `.mew` is opened there and nowhere else, and only where nobody else may write."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mew_lab.transport.files import AppendedFile, FileLock, list_names, read_small, remove, replace_small
from mew_lab.transport.folder import open_below

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and modes are those of POSIX")
WRITE = os.O_WRONLY | os.O_CREAT


def _link(place: Path, elsewhere: Path) -> None:
    place.symlink_to(elsewhere)


def _open_to_all(place: Path, elsewhere: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


def _file(place: Path, elsewhere: Path) -> None:
    place.write_text("")


@pytest.mark.threat(27)
@pytest.mark.parametrize("part", [".mew", ".mew/tokens", ".mew/tokens/demo"])
@pytest.mark.parametrize("make", [_link, _open_to_all, _file])
def test_nothing_is_opened_below_a_folder_that_is_a_link_or_open_to_all(
    tmp_path: Path, make: Callable[[Path, Path], None], part: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tokens" / "demo").mkdir(parents=True)
    root = tmp_path / "root"
    (root / part).parent.mkdir(parents=True)
    make(root / part, elsewhere)
    name = ".mew/tokens/demo/x"
    attempts: list[Callable[[], object]] = [
        lambda: os.close(open_below(root / name, WRITE, make=True)),
        lambda: os.close(open_below(root / name, os.O_RDONLY, make=True)),
        lambda: read_small(root, name, most=9),
        lambda: replace_small(root / ".mew", name.removeprefix(".mew/"), b"x"),
        lambda: list_names(root, ".mew/tokens/demo", most=9),
        lambda: FileLock(root, name),
        lambda: remove(root, name),
        AppendedFile(root, name, fault=lambda sentence: None).place,
    ]
    for attempt in attempts:
        with pytest.raises(OSError, match=r"put a folder of yours there|run: chmod o-w") as refused:
            attempt()
        assert str(root / part) in str(refused.value)
    assert [one for one in elsewhere.rglob("*") if not one.is_dir()] == []


@pytest.mark.threat(27)
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".mew").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="belongs to somebody else"):
        open_below(tmp_path / ".mew" / "x", WRITE)
    with pytest.raises(OSError, match="belongs to somebody else"):
        replace_small(tmp_path, ".mew/x", b"")


@pytest.mark.threat(27)
def test_a_file_that_is_a_link_is_not_followed_and_others_are_the_users_business(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / ".mew").mkdir(mode=0o700)
    (tmp_path / ".mew" / "x").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        open_below(tmp_path / ".mew" / "x", os.O_RDONLY)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.close(open_below(tmp_path / "link", os.O_RDONLY))


@pytest.mark.threat(27)
def test_folders_that_are_made_are_their_owners_alone_and_used_again(tmp_path: Path) -> None:
    for flags in (WRITE, os.O_RDONLY):
        os.close(open_below(tmp_path / ".mew" / "a" / f"{datetime.now(UTC).year}", flags, make=True))
    assert {one.stat().st_mode & 0o777 for one in (tmp_path / ".mew", tmp_path / ".mew" / "a")} == {0o700}
