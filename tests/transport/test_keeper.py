"""A keeper runs one program, writes down what it says, and leaves nothing of it behind."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.transport import keeper
from mew_lab.transport.keeper import MAX_LINE, LogFile

from ..waiting import alive, eventually

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z: ")


class Kept:
    """One keeper, and what it reports."""

    def __init__(self, folder: Path, code: str, *args: str, grace: float = 10.0, **orders: Any) -> None:
        self.log = folder / "bot.log"
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", keeper.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={},
        )
        given = {
            "argv": [sys.executable, "-u", "-c", code, *args],
            "cwd": str(folder),
            "env": {"PATH": os.environ["PATH"]},
            "log": str(self.log),
            "secrets": [],
            "grace": grace,
            **orders,
        }
        self.process.stdin.write(json.dumps(given).encode() + b"\n")
        self.process.stdin.flush()

    def report(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.process.stdout.readline() or "null")
        return said

    def let_go(self) -> None:
        """As if whoever gave the orders had died."""
        self.process.stdin.close()

    def lines(self) -> list[str]:
        return [STAMP.sub("", line) for line in self.log.read_text().splitlines()]

    def wait_for(self, line: str) -> None:
        eventually(lambda: self.log.exists() and line in self.lines())


Keep = Callable[..., Kept]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    kept: list[Kept] = []

    def begin(code: str, *args: str, **orders: Any) -> Kept:
        kept.append(Kept(tmp_path, code, *args, **orders))
        return kept[-1]

    yield begin
    for one in kept:
        one.let_go()
        try:
            one.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.stdout.close()


def test_it_reports_start_and_end_and_writes_what_is_said(keep: Keep) -> None:
    one = keep(
        "import sys; print('out'); print('err', file=sys.stderr); print('no end', end=''); sys.exit(3)"
    )
    assert set(one.report()) == {"pid"}
    assert one.report() == {"exit": 3}
    one.process.wait(20)
    assert one.lines() == ["out", "err", "no end"]
    assert all(STAMP.match(line) for line in one.log.read_text().splitlines())
    assert stat.S_IMODE(one.log.stat().st_mode) == 0o600


def test_what_cannot_be_started_is_reported(keep: Keep) -> None:
    assert keep("", argv=["no-such-program"]).report() == {
        "fault": "no-such-program: No such file or directory"
    }
    assert keep("", cwd="/no/such/folder").report() == {"fault": "/no/such/folder: No such file or directory"}
    assert keep("", argv=["a\0b"]).report() == {"fault": "embedded null byte"}


FAMILY = """
import os, subprocess, sys, time
inner = "import time; print('x', flush=True); time.sleep(1000)"
same = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE)
own = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE, start_new_session=True)
for one in (same, own):
    one.stdout.readline()
print("pids", os.getpid(), same.pid, own.pid)
"""


def family(one: Kept) -> list[int]:
    eventually(lambda: one.log.exists() and any(line.startswith("pids ") for line in one.lines()))
    (line,) = [line for line in one.lines() if line.startswith("pids ")]
    return [int(pid) for pid in line.split()[1:]]


@pytest.mark.threat(28)
@pytest.mark.parametrize("stubborn", [False, True])
def test_when_its_giver_is_gone_the_program_and_all_it_started_are_ended(keep: Keep, stubborn: bool) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    one = keep(deaf + FAMILY + "time.sleep(1000)", grace=0.3)
    pids = family(one)
    assert all(map(alive, pids))
    one.let_go()
    one.process.wait(20)
    eventually(lambda: not any(map(alive, pids)))


@pytest.mark.threat(28)
def test_what_a_program_leaves_behind_is_ended_with_it(keep: Keep) -> None:
    one = keep(FAMILY)
    pids = family(one)
    one.report()
    assert one.report() == {"exit": 0}
    eventually(lambda: not any(map(alive, pids)))


def test_a_program_is_asked_before_it_is_ended(keep: Keep) -> None:
    code = (
        "import signal, sys, time\n"
        "def bye(*_): print('bye'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye); print('ready'); time.sleep(1000)"
    )
    one = keep(code)
    one.wait_for("ready")
    one.report()
    one.let_go()
    assert one.report() == {"exit": 0}
    assert one.lines() == ["ready", "bye"]


def test_a_signal_that_ends_it_is_told(keep: Keep) -> None:
    one = keep("import time; time.sleep(1000)")
    os.kill(one.report()["pid"], signal.SIGKILL)
    assert one.report() == {"exit": -signal.SIGKILL}


@pytest.mark.threat(28)
def test_it_hands_on_no_file_no_session_and_no_variable_of_ours(keep: Keep) -> None:
    code = (
        "import os; print(sorted(os.environ)); print(sorted(os.listdir('/proc/self/fd')) );"
        "print(os.read(0, 1)); print(os.getsid(0) == os.getppid())"
    )
    one = keep(code)
    one.report()
    assert one.report() == {"exit": 0}
    environ, files, stdin, session = one.lines()
    assert set(json.loads(environ.replace("'", '"'))) <= {"PATH", "LC_CTYPE"}
    assert (
        len(json.loads(files.replace("'", '"'))) == 4
    )  # stdin, stdout, stderr, and the folder that is listed
    assert (stdin, session) == ("b''", "True")


def test_a_keeper_whose_giver_says_nothing_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", keeper.__file__], input=b"", capture_output=True, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, b"")


# --- its log -----------------------------------------------------------------------------------------------------


def said(path: Path) -> list[str]:
    return [STAMP.sub("", line) for line in path.read_text().splitlines()]


@pytest.mark.threat(1)
def test_a_token_in_the_log_is_masked(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), secrets=["canary-secret-1234"])
    log.write(b"my token is canary-")
    log.write(b"secret-1234!\n")
    assert said(tmp_path / "log") == ["my token is tok_…1234!"]


@pytest.mark.threat(28)
def test_a_line_without_end_costs_neither_memory_nor_disk(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"))
    for _ in range(200):
        log.write(b"x" * MAX_LINE)
    log.write(b"y\nshort\n")
    first, second = said(tmp_path / "log")
    assert (first, second) == ("x" * MAX_LINE + " …", "short")


def test_a_log_that_is_emptied_or_taken_away_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(str(path))
    log.write(b"one\n")
    path.write_text("")
    log.write(b"two\n")
    assert said(path) == ["two"]
    path.unlink()
    log.write(b"three\n")
    assert said(path) == ["three"]


@pytest.mark.threat(27)
def test_a_log_that_is_a_link_or_a_pipe_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none/at/all"):
        LogFile(str(tmp_path / name)).write(b"line\n")
    assert (tmp_path / "target").read_text() == "mine"


def test_a_full_log_is_put_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MAX_LOG", 100)
    log = LogFile(str(tmp_path / "log"))
    for n in range(9):
        log.write(b"%d" % n * 30 + b"\n")
    kept = said(tmp_path / "log.1") + (said(tmp_path / "log") if (tmp_path / "log").exists() else [])
    assert kept == [str(n) * 30 for n in range(9)][-len(kept) :]
    assert 3 <= len(kept) <= 6
