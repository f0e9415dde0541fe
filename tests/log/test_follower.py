"""The follower writes every line once and in order, whatever happens to it, to the journal or to its files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ReplayMismatch
from mew_lab.log import follower
from mew_lab.log.follower import POSITION, PeerLogFollower, Position, register
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.peer_files import DECISIONS, HISTORY, JournalLines
from mew_lab.space.core import Space
from mew_lab.space.events import Record
from mew_lab.space.opening import opening_record
from mew_lab.transport.files import Place

from ..user_rights import bound_by_modes
from .sessions import session

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


class Written:
    """A journal that is written as far as one wants."""

    def __init__(self, folder: Path, name: str = "journal", *, seed: int = 5, events: int = 150) -> None:
        self.space = Space("demo", epoch=seed)
        self.journal = Journal(folder / f"{name}.jsonl", rotate_at=60_000)
        self.journal.append([opening_record(self.space, NOW)])
        self.first = self.journal.paths[0]
        self._events = session(self.space, seed, events)
        self._now = NOW

    def go_on(self, events: int) -> bool:
        """Writes so many more events; says whether that was all."""
        for _ in range(events):
            event = next(self._events, None)
            if event is None:
                return True
            self._now += timedelta(milliseconds=7)
            self.journal.append([one for one in self.space.step(event, self._now) if type(one) is Record])
        return False


def lines_of(*journals: Path) -> tuple[str, str]:
    """What has to stand in both files in the end."""
    texts = ["", ""]
    for path in journals:
        maker = JournalLines("the journal")
        for record in open_log(path).records:
            for at, some in enumerate(maker.take(record)):
                texts[at] += "".join(line + "\n" for line in some)
    return texts[0], texts[1]


def found(folder: Path) -> tuple[str, str]:
    """What stands in both files, with those that were put aside."""
    texts = []
    for name in (HISTORY, DECISIONS):
        paths = [*(folder / f"{name}.{number}" for number in range(9, 0, -1)), folder / name]
        texts.append("".join(path.read_bytes().decode() for path in paths if path.exists()))
    return texts[0], texts[1]


def follow(
    root: Path,
    journal: Path,
    *,
    while_: Callable[[], bool] = lambda: True,
    faults: list[str] | None = None,
    **more: Any,
) -> PeerLogFollower:
    """Runs a follower; whenever it would wait, `while_` goes on, until it says that all is over."""
    told: list[str] = []
    over: list[bool] = []

    def ended(seconds: float) -> bool:
        if not over and while_():
            over.append(True)
        return bool(over)

    one = PeerLogFollower(
        journal,
        root=root,
        folder="logs",
        fault=(told if faults is None else faults).append,
        ended=ended,
        **more,
    )
    try:
        one.run()
    finally:
        one.close()
    assert faults is not None or told == []
    return one


def test_the_files_grow_with_the_journal_and_are_the_owners_alone(tmp_path: Path) -> None:
    one = Written(tmp_path)
    lengths: list[int] = []

    def more() -> bool:
        lengths.append(sum(map(len, found(tmp_path / "logs"))))
        return one.go_on(10)

    follow(tmp_path, one.first, while_=more)
    assert found(tmp_path / "logs") == lines_of(one.first)
    assert len(one.journal.paths) > 1 and len(set(lengths)) > 10
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "logs").iterdir()}
    assert modes == {HISTORY: 0o600, DECISIONS: 0o600, POSITION: 0o700}
    (position,) = (tmp_path / "logs" / POSITION).iterdir()
    assert position.name == "journal.jsonl" and stat.S_IMODE(position.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [HISTORY, DECISIONS])
def test_only_what_is_wanted_is_written(tmp_path: Path, name: str) -> None:
    one = Written(tmp_path)
    one.go_on(1000)
    follow(tmp_path, one.first, history=name == HISTORY, decisions=name == DECISIONS)
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {name, POSITION}
    expected = lines_of(one.first)
    assert found(tmp_path / "logs") == ((expected[0], "") if name == HISTORY else ("", expected[1]))


def test_the_next_journal_is_written_behind_the_last(tmp_path: Path) -> None:
    one, other = Written(tmp_path), Written(tmp_path, "later", seed=6)
    for written in (one, other):
        written.go_on(60)
        follow(tmp_path, written.first)
    assert found(tmp_path / "logs") == lines_of(one.first, other.first)


# --- kills -------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a kill: nothing in the follower may take it for a fault that it can mend."""


CALLS = ("write", "replace", "unlink", "ftruncate")


class Killer:
    """Kills at a call of the operating system that changes something: before it, after it, or in the middle of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = float("inf")
        self._real = {name: getattr(os, name) for name in CALLS}
        for name in CALLS:
            monkeypatch.setattr(os, name, self._deadly(name))

    def _deadly(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*words: Any, **more: Any) -> Any:
            steps = 3 if name == "write" else 2
            before, self.left = self.left, self.left - steps
            if before <= 0:
                raise Killed
            if self.left > 0:
                return real(*words, **more)
            if before == 1:  # before the call
                raise Killed
            if name == "write" and before == 2:
                real(words[0], words[1][: len(words[1]) // 2])
                raise Killed
            real(*words, **more)
            raise Killed

        return call


def moments(total: int, times: int) -> Iterator[int]:
    yield from range(1, total + 1, max(1, total // times))


def killed_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, batch: int, times: int, **more: Any
) -> int:
    """Follows a journal once for each of so many moments, with a kill in it; gives how many moments there are."""
    killer = Killer(monkeypatch)
    monkeypatch.setattr(follower, "BATCH", batch)
    one = Written(tmp_path, events=120)
    killer.left = float("inf")
    one.go_on(1000)
    expected = lines_of(one.first)
    killer.left = start = 10.0**9
    follow(tmp_path, one.first, **more)
    total = int(start - killer.left)
    assert found(tmp_path / "logs") == expected
    for at in moments(total, times):
        root = tmp_path / f"at-{at}"
        root.mkdir()
        killer.left = at
        with pytest.raises(Killed):
            follow(root, one.first, **more)
        monkeypatch.setattr(follower, "BATCH", batch // 7)  # its batches end elsewhere
        killer.left = 1 + at % 40
        with contextlib.suppress(Killed):
            follow(root, one.first, **more)
        killer.left = float("inf")
        follow(root, one.first, **more)
        monkeypatch.setattr(follower, "BATCH", batch)
        assert found(root / "logs") == expected, f"killed at step {at} of {total}"
    return total


def test_killed_at_any_moment_it_goes_on_without_a_line_twice_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed_everywhere(tmp_path, monkeypatch, batch=30_000, times=12) > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_every_moment_with_files_that_are_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "KEPT", 9)
    assert killed_everywhere(tmp_path, monkeypatch, batch=20_000, times=10**6, rotate_at=60_000) > 100


def test_killed_again_and_again_it_comes_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "BATCH", 5_000)
    monkeypatch.setattr(follower, "KEPT", 9)
    killer = Killer(monkeypatch)
    one = Written(tmp_path)
    kills = 0
    for at in range(1, 10_000):
        killer.left = 12 + at % 17

        def more() -> bool:
            left, killer.left = killer.left, float("inf")
            over = one.go_on(5)
            killer.left = left
            return over

        try:
            follow(tmp_path, one.first, while_=more, rotate_at=80_000)
        except Killed:
            kills += 1
        else:
            break
    assert kills > 20
    assert found(tmp_path / "logs") == lines_of(one.first)


def test_what_a_killed_gateway_and_follower_left_is_written_before_the_next_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "BATCH", 5_000)
    one, other = Written(tmp_path), Written(tmp_path, "later", seed=6)
    killer = Killer(monkeypatch)
    one.go_on(1000)
    killer.left = 60
    with pytest.raises(Killed):
        follow(tmp_path, one.first)
    killer.left = float("inf")
    other.go_on(1000)
    follow(tmp_path, other.first)
    assert found(tmp_path / "logs") == lines_of(one.first, other.first)


def test_journals_whose_followers_never_ran_are_written_in_their_order(tmp_path: Path) -> None:
    """The first two gateways were killed with their followers before these had read anything."""
    made = [Written(tmp_path, name, seed=seed) for seed, name in enumerate(("z", "a", "m"))]
    for begun, one in enumerate(made):
        one.go_on(40)
        register(tmp_path, "logs", one.first, begun=begun)
        one.journal.close()
    follow(tmp_path, made[2].first)
    assert found(tmp_path / "logs") == lines_of(*(one.first for one in made))
    assert [path.name for path in (tmp_path / "logs" / POSITION).iterdir()] == [
        "m.jsonl"
    ]  # of those none is left


def test_a_journal_that_a_gateway_writes_is_not_thought_finished(tmp_path: Path) -> None:
    one, other = Written(tmp_path), Written(tmp_path, "other", seed=6)
    one.go_on(30)
    other.go_on(30)
    register(tmp_path, "logs", one.first, begun=1)
    register(tmp_path, "logs", other.first, begun=2)
    so_far = lines_of(one.first)
    other.journal.close()
    follow(tmp_path, other.first)
    between = lines_of(other.first)
    one.go_on(1000)
    follow(tmp_path, one.first)
    written = found(tmp_path / "logs")
    for at, text in enumerate(lines_of(one.first)):
        assert written[at] == so_far[at] + between[at] + text.removeprefix(so_far[at])


def test_a_journal_that_is_gone_is_said_once(tmp_path: Path) -> None:
    register(tmp_path, "logs", tmp_path / "gone.jsonl", begun=1)
    one = Written(tmp_path)
    one.go_on(30)
    faults: list[str] = []
    for _ in range(2):
        follow(tmp_path, one.first, faults=faults)
    assert faults == [
        "the rest of gone.jsonl is missing in the log files of the peers: it is no longer beside this journal; "
        "mew-lab export --as peers makes them from the journal"
    ]


@pytest.mark.sampled
@pytest.mark.threat(27)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"no json",
        b'{"begun":1,"epoch":5,"seq":-1,"places":{},"done":true}',
        b"[" * 9_000,
        b"x" * 100_000,
    ],
)
def test_a_position_that_is_none_is_no_hindrance(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "logs" / POSITION).mkdir(parents=True)
    for name in ("journal.jsonl", "other.jsonl", "other.jsonl.new"):
        (tmp_path / "logs" / POSITION / name).write_bytes(data)
    one = Written(tmp_path)
    one.go_on(1000)
    follow(tmp_path, one.first)
    assert found(tmp_path / "logs") == lines_of(one.first)


@pytest.mark.threat(27)
def test_positions_that_somebody_else_has_packed_lead_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "logs").mkdir(parents=True)
    private = Written(tmp_path, "private")
    private.go_on(50)
    (root / "link.jsonl").symlink_to(private.first)
    register(root, "logs", Path("link.jsonl"), begun=1)
    (root / "logs" / POSITION / "away.jsonl").symlink_to(private.first)
    one = Written(root, seed=6)
    one.go_on(50)
    faults: list[str] = []
    follow(root, one.first, faults=faults)
    assert found(root / "logs") == lines_of(one.first)
    assert len(faults) == 1 and "link.jsonl" in faults[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "logs").mkdir()
    (elsewhere / "logs" / POSITION).symlink_to(tmp_path / "root")
    faults.clear()
    follow(elsewhere, one.first, faults=faults)
    assert found(elsewhere / "logs") == lines_of(one.first)
    assert {path.name for path in root.iterdir()} <= {
        "journal.jsonl",
        "journal-2.jsonl",
        "link.jsonl",
        "logs",
    }


def test_a_follower_leaves_the_journal_of_a_later_gateway_to_the_follower_of_that_one(tmp_path: Path) -> None:
    one, later = Written(tmp_path), Written(tmp_path, "later")
    one.go_on(20)
    register(tmp_path, "logs", one.first, begun=1)
    register(tmp_path, "logs", later.first, begun=2)
    later.first.rename(tmp_path / "aside")  # its gateway has registered it, and begins it
    follow(tmp_path, one.first)
    assert found(tmp_path / "logs") == lines_of(one.first)
    (tmp_path / "aside").rename(later.first)
    later.go_on(20)
    assert (tmp_path / "logs" / POSITION / later.first.name).exists()
    follow(tmp_path, later.first)
    assert found(tmp_path / "logs") == lines_of(one.first, later.first)


@pytest.mark.parametrize("registered", [True, False])
def test_a_follower_that_starts_after_its_gateway_has_ended_writes_nothing_that_another_wrote(
    registered: bool, tmp_path: Path
) -> None:
    one = Written(tmp_path)
    one.go_on(50)
    if registered:
        register(tmp_path, "logs", one.first, begun=1)
    else:
        follow(tmp_path, one.first)
        (tmp_path / "logs" / POSITION / one.first.name).unlink()  # as the follower of a later gateway does
    orders = {
        "journal": str(one.first),
        "root": str(tmp_path),
        "folder": "logs",
        "history": True,
        "decisions": True,
    }
    bell, rung = os.pipe()
    os.close(rung)
    done = subprocess.run(
        [sys.executable, "-m", "mew_lab.log.follower"],
        input=json.dumps({**orders, "bell": bell}) + "\n",
        text=True, capture_output=True, pass_fds=(bell,), timeout=60, check=True,
    )  # fmt: skip
    os.close(bell)
    assert (done.stdout, done.stderr) == ("", "")
    assert found(tmp_path / "logs") == lines_of(one.first)


def test_a_position_is_read_as_it_is_written() -> None:
    one = Position(7, 2**63 + 1, 7, {HISTORY: Place(1, 2, 3), DECISIONS: Place(4, 5, 6)}, True)
    assert Position.read(bytes(one)) == one


# --- what others do ----------------------------------------------------------------------------------------------


def empty(path: Path) -> None:
    os.truncate(path, 0)


def remove(path: Path) -> None:
    path.unlink()


def exchange(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.write_text("of somebody else\n")


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.sampled
@pytest.mark.parametrize("what", [empty, remove, exchange, remove_folder])
@pytest.mark.parametrize("killed", [False, True])
def test_a_file_that_others_change_goes_on_with_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Callable[[Path], None], killed: bool
) -> None:
    monkeypatch.setattr(follower, "KEEP", 0.0)  # the lines that a position lacks are looked for in the file
    one = Written(tmp_path)
    path = tmp_path / "logs" / HISTORY
    before: list[str] = []

    def more() -> bool:
        if not before and path.exists() and path.stat().st_size > 20_000:
            before.append(path.read_bytes().decode())
            what(path)
            if killed:
                raise Killed
        return one.go_on(10)

    if killed:
        with pytest.raises(Killed):
            follow(tmp_path, one.first, while_=more)
    follow(tmp_path, one.first, while_=more)
    expected = lines_of(one.first)[0]
    after = path.read_bytes().decode().removeprefix("of somebody else\n")
    if killed and what is remove_folder:  # with it went where it had stopped
        assert after == expected
    else:
        assert before[0] + after == expected


@pytest.mark.threat(27)
def test_a_link_in_the_place_of_a_file_is_not_followed_and_what_is_left_out_is_counted(
    tmp_path: Path,
) -> None:
    one = Written(tmp_path)
    one.go_on(1000)
    (tmp_path / "logs").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "logs" / HISTORY).symlink_to(tmp_path / "mine")
    faults: list[str] = []
    follow(tmp_path, one.first, faults=faults)
    assert (tmp_path / "mine").read_text() == "mine"
    expected = lines_of(one.first)
    assert (tmp_path / "logs" / DECISIONS).read_bytes().decode() == expected[1]
    count = expected[0].count("\n")
    assert len(faults) == 2 and f"{HISTORY} cannot be written: " in faults[0]
    assert faults[-1] == (
        f"{tmp_path / 'logs' / HISTORY}: {count} lines were left out; mew-lab export --as peers makes them from the "
        "journal"
    )


@pytest.mark.threat(27)
@pytest.mark.parametrize("way", ["link", "file", "unwritable"])
def test_a_folder_that_cannot_be_used_is_said_and_nothing_else_happens(tmp_path: Path, way: str) -> None:
    one = Written(tmp_path)
    one.go_on(1000)
    (tmp_path / "outside").mkdir()
    if way == "link":
        (tmp_path / "logs").symlink_to(tmp_path / "outside")
    elif way == "file":
        (tmp_path / "logs").write_text("no folder")
    else:
        (tmp_path / "logs").mkdir(mode=0o500)
    faults: list[str] = []
    with bound_by_modes():
        follow(tmp_path, one.first, faults=faults)
    assert list((tmp_path / "outside").iterdir()) == []
    assert sum("cannot be written: " in one for one in faults) == 3  # both files and the position
    assert sum("lines were left out" in one for one in faults) == 2


def test_lines_for_which_the_disk_had_no_room_are_counted_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Written(tmp_path)
    faults: list[str] = []
    write, room = os.write, [60_000]
    state = ["room"]

    def more() -> bool:
        if state[0] == "full" and any("cannot be written" in sentence for sentence in faults):
            state[0] = "room again"
            monkeypatch.setattr(os, "write", write)
        if state[0] == "room" and sum(map(len, found(tmp_path / "logs"))) > 20_000:
            state[0] = "full"

            def short(fd: int, data: bytes) -> int:
                done = write(fd, data[: room[0]])
                room[0] -= done
                return done

            monkeypatch.setattr(os, "write", short)
        left = os.write
        monkeypatch.setattr(os, "write", write)  # the journal has another disk
        over = one.go_on(3)
        monkeypatch.setattr(os, "write", left)
        return over

    follow(tmp_path, one.first, while_=more, faults=faults)
    assert state[0] == "room again"
    expected, written = lines_of(one.first), found(tmp_path / "logs")
    missing = 0
    for text, there in zip(expected, written, strict=True):
        rest = iter(text.splitlines())
        assert all(line in rest for line in there.splitlines())  # in order, none twice, none torn
        missing += text.count("\n") - there.count("\n")
    counted = [int(one.split("again; ")[1].split()[0]) for one in faults if "is written again" in one]
    assert missing == sum(counted) > 0


# --- the journal -------------------------------------------------------------------------------------------------


def test_what_a_full_disk_took_in_part_and_gave_back_is_not_written(tmp_path: Path) -> None:
    one = Written(tmp_path)
    one.go_on(30)
    fork = [tmp_path / "journal.jsonl"]
    calls: list[int] = []

    def more() -> bool:
        calls.append(1)
        if len(calls) == 1:  # an event whose last record is missing, with its whole first one
            whole = fork[0].read_bytes()
            size = len(whole)
            one.go_on(20)
            grown = fork[0].read_bytes()
            with fork[0].open("r+b") as file:
                file.truncate(size + grown[size:].index(b"\n") + 1)
            calls.append(size)
            more.rest = grown  # type: ignore[attr-defined]
            return False
        if len(calls) == 3:  # taken back, and then something else is written
            os.truncate(fork[0], calls[1])
            return False
        if len(calls) == 4:
            with fork[0].open("r+b") as file:
                file.write(more.rest)  # type: ignore[attr-defined]
            return False
        return one.go_on(10)

    follow(tmp_path, one.first, while_=more)
    assert found(tmp_path / "logs") == lines_of(one.first)


def test_a_journal_that_no_space_would_have_written_ends_it_with_a_sentence(tmp_path: Path) -> None:
    one = Written(tmp_path)
    one.go_on(100)
    one.journal.close()
    lines = one.first.read_bytes().splitlines(keepends=True)
    one.first.write_bytes(b"".join(lines[:30] + lines[32:]))
    with pytest.raises(ReplayMismatch, match="#32 of"):
        follow(tmp_path, one.first)
    expected = lines_of_first(one.first, 30)
    assert expected[0].startswith(found(tmp_path / "logs")[0])


def lines_of_first(path: Path, records: int) -> tuple[str, str]:
    maker = JournalLines("the journal")
    texts = ["", ""]
    for record in list(open_log(path).records)[:records]:
        for at, some in enumerate(maker.take(record)):
            texts[at] += "".join(line + "\n" for line in some)
    return texts[0], texts[1]


def test_files_are_put_aside_by_size_and_the_oldest_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "BATCH", 5_000)
    monkeypatch.setattr(follower, "KEPT", 2)
    one = Written(tmp_path)
    one.go_on(1000)
    follow(tmp_path, one.first, rotate_at=30_000)
    names = {path.name for path in (tmp_path / "logs").iterdir()}
    assert {HISTORY, f"{HISTORY}.1", f"{HISTORY}.2"} <= names and f"{HISTORY}.3" not in names
    assert all(path.stat().st_size < 30_000 + 5_000 + 20_000 for path in (tmp_path / "logs").iterdir())
    written = found(tmp_path / "logs")
    expected = lines_of(one.first)
    assert expected[0].endswith(written[0]) and len(written[0]) < len(expected[0])
    assert expected[1].endswith(written[1])
