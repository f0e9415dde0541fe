"""A space that a folder keeps in the background: started, found, looked at and ended by commands without an address."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import mew_lab
from mew_lab.cli import main
from mew_lab.cli.background import program_lines
from mew_lab.gateway.space_file import parse_space_file
from mew_lab.lab.folder_space import find_running, read_record
from mew_lab.lab.labs import close_all

from ..waiting import alive, eventually
from .test_cli import ENVIRONMENT, Process

pytestmark = pytest.mark.timeout(180)
WITHIN = 120.0  # seconds of a command on a busy machine


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def spawn(folder: Path, *words: str, **more: str) -> Done:
    """A command as a process of its own; nobody can be asked there."""
    done = subprocess.run(
        [sys.executable, "-m", "mew_lab.cli", *words],
        cwd=folder,
        env={**ENVIRONMENT, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def run(folder: Path, *words: str, **more: str) -> Done:
    """The same in this process, where it takes a tenth of the time."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", io.StringIO())
        for name, value in more.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(words)
    return Done(status, out.getvalue(), err.getvalue())


def failure(done: Done) -> str:
    """The one sentence with which a command has failed."""
    assert done.returncode == 1, done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert "Traceback" not in done.stdout
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose space, if one is left, is ended."""
    place = tmp_path / "garden"
    place.mkdir()
    yield place
    for record in tmp_path.rglob("run.json"):
        pid = json.loads(record.read_text()).get("pid")
        if pid != os.getpid() and alive(pid):
            os.kill(pid, signal.SIGTERM)
            eventually(lambda pid=pid: not alive(pid))


def test_a_space_is_started_found_looked_at_and_ended_without_an_address(folder: Path) -> None:
    up = spawn(folder, "up", "--enrol", "bot=proposer")
    assert up.returncode == 0, up.stderr
    record, token = find_running(folder)
    assert up.stdout.splitlines()[0] == (
        f"space demo is up at {record.url}, in process {record.pid}; its log is {folder}/.mew/run.log"
    )
    for word in ("mew-lab join", "%mew connect", "mew-lab tail", "mew-lab status", "mew-lab down"):
        assert word in up.stdout
    assert (folder / ".mew").stat().st_mode & 0o777 == 0o700
    for name in ("run.json", "run.log"):
        assert (folder / ".mew" / name).stat().st_mode & 0o777 == 0o600
    assert os.getsid(record.pid) != os.getsid(0), "it would end with the terminal"

    second = failure(run(folder, "up"))
    assert second.startswith(f"mew-lab up: The space 'demo' runs in {folder} already, since ")
    assert "mew-lab status shows it, mew-lab down ends it" in second
    assert find_running(folder).record == record

    status = run(folder, "status")
    lines = status.stdout.splitlines()
    assert lines[0].startswith(f"space demo at {record.url}, in process {record.pid} since 20")
    assert [line.split(maxsplit=1) for line in lines[1:3]] == [["human", "not here"], ["bot", "not here"]]
    assert lines[3] == "nothing waits for an approval"

    down = run(folder, "down")
    assert down.stdout == f"space demo is down: process {record.pid} has ended\n"
    assert not alive(record.pid)
    assert not (folder / ".mew" / "run.json").exists()
    for command in ("down", "status", "join", "tail"):
        assert f"No space runs in {folder}; start one with mew-lab up" in failure(run(folder, command))
    printed = up.stdout + second + status.stdout + down.stdout
    assert token.reveal() not in printed
    assert token.reveal() not in (folder / ".mew" / "run.log").read_text()


def test_whoever_is_in_the_folder_joins_watches_and_decides(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(folder, "up", "--enrol", "bot=proposer").returncode == 0
    url = find_running(folder).record.url
    bot = mew_lab.connect(
        url, space="demo", token_file=folder / ".mew/tokens/demo/bot.token", name="of the bot"
    )
    watch = Process(["tail", "--as", "human-2"], folder)
    join = Process(["join"], folder)
    try:
        watch.until("Welcome, human")
        join.until("^You are human in demo")
        join.type("hello from the folder")
        watch.until("hello from the folder")
        monkeypatch.chdir(folder)
        lab = mew_lab.connect(as_id="human-3", name="here")
        assert (lab.space, lab.url) == ("demo", url)
        pending = bot.me.propose("human/look", {"at": "the north bed"})
        join.until("It needs your approval")
        status = run(folder, "status").stdout
        assert "1 proposal waits for an approval:" in status
        assert f"  {pending.id[:4]}  bot asks human: look" in status
        assert [line.split() for line in status.splitlines() if line.startswith("  human")] == [
            ["human", "here"]
        ]
        assert status.endswith(
            "/approve ID shows one, in a mew-lab join that was open when it was proposed\n"
        )
        lab.reject(pending.id, "not today")
        join.until("not today")
        eventually(lambda: "nothing waits for an approval" in run(folder, "status").stdout, within=WITHIN)
    finally:
        join.kill()
        watch.kill()
        close_all()


def test_a_served_space_is_found_as_one_of_the_background(folder: Path) -> None:
    serve = Process(["serve", "--space", "garden"], folder)
    try:
        serve.until("^human: ")
        eventually((folder / ".mew/run.json").exists)
        assert "space garden at " in run(folder, "status").stdout
        assert "The space 'garden' runs in" in failure(run(folder, "up"))
        run(folder, "down")
        assert serve.ends() == 0
        assert serve.lines[-1].startswith("space garden is down; the journal stays in ")
    finally:
        serve.kill()


def test_two_that_start_at_once_start_one_space(folder: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = [*pool.map(lambda _: spawn(folder, "up"), range(3))]
    assert sorted(one.returncode for one in done) == [0, 1, 1]
    for one in done:
        if one.returncode:
            assert "runs in" in failure(one) or "Another mew-lab up starts a space" in failure(one)
    find_running(folder)


def test_a_port_that_is_taken_is_a_sentence_and_leaves_nothing(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = failure(run(folder, "up", "--port", str(port)))
    assert said.startswith(f"mew-lab up: The space in {folder} was not started: ") and str(port) in said
    assert not (folder / ".mew/run.json").exists()


def test_a_space_that_was_killed_is_told_and_the_next_one_starts(folder: Path) -> None:
    assert run(folder, "up").returncode == 0
    record = find_running(folder).record
    os.kill(record.pid, signal.SIGKILL)
    eventually(lambda: not alive(record.pid))
    said = failure(run(folder, "down"))
    assert f"process {record.pid}, which run.json names, has ended or is another one" in said
    assert run(folder, "up").returncode == 0
    assert find_running(folder).record.run != record.run


@pytest.mark.threat(26)
def test_a_folder_that_was_copied_while_its_space_ran_leads_to_no_space(folder: Path) -> None:
    """As a clone of a repository that holds `.mew`, or an unpacked archive."""
    assert run(folder, "up").returncode == 0
    record = find_running(folder).record
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    for command in ("status", "down", "join"):
        assert f"No space runs in {copy}: its run.json is a copy of that of another" in failure(
            run(copy, command)
        )
    assert find_running(folder).record == record
    folder.rename(moved := folder.parent / "moved")
    assert find_running(moved).record == record
    moved.rename(folder)
    (copy / ".mew").chmod(0o755)
    for command in ("up", "status", "down", "join"):
        assert f"run: chmod 700 {copy}/.mew" in failure(run(copy, command))
    (copy / ".mew").chmod(0o700)
    os.kill(record.pid, signal.SIGKILL)
    eventually(lambda: not alive(record.pid))
    for command in ("status", "down", "join"):
        told = failure(run(folder, command))
        assert (
            f"No space runs in {folder}: process {record.pid}" in told
            and "has ended or is another one" in told
        )


def test_down_signals_no_process_but_the_one_of_the_record(folder: Path) -> None:
    assert run(folder, "up").returncode == 0
    path = folder / ".mew/run.json"
    members = json.loads(path.read_text())
    bystander = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        path.write_text(json.dumps({**members, "pid": bystander.pid}))
        assert f"process {bystander.pid}, which run.json names" in failure(run(folder, "down"))
        assert bystander.poll() is None
    finally:
        path.write_text(json.dumps(members))
        bystander.communicate()
    assert run(folder, "down").returncode == 0


def test_a_process_that_does_not_end_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mew_lab.cli import background

    assert run(folder, "up").returncode == 0
    record = read_record(folder)
    os.kill(record.pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(background, "ENDS_WITHIN", 0.5)
        monkeypatch.chdir(folder)
        assert main(["down"]) == 1
        told = capsys.readouterr().err
        assert (
            f"its process {record.pid} still runs after 0.5 s" in told and f"kill -KILL {record.pid}" in told
        )
    finally:
        os.kill(record.pid, signal.SIGCONT)
    eventually(lambda: not alive(record.pid))


# --- a file with programs --------------------------------------------------------------------------------------------

FILE = """
space: {id: desk, owner: human}
participants:
  human: {capabilities: [{kind: "*"}]}
  cat:
    type: local
    command: /bin/cat
    args: ["-u"]
    env: {LD_LIBRARY_PATH: /nowhere}
    auto_start: true
"""
HIDDEN = "with LD_LIBRARY_PATH"


def write(folder: Path, text: str = FILE, name: str = "space.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.threat(28)
def test_programs_of_a_file_are_shown_and_start_only_when_they_were_allowed(
    folder: Path, tmp_path: Path
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    write(folder)
    refused = run(folder, "up", **state)
    assert "cat: /bin/cat -u" in refused.stdout and HIDDEN in refused.stdout
    assert "nobody can be asked here; read them, then add --yes, or --no-auto-start" in failure(refused)
    assert not (folder / ".mew").exists(), "nothing was begun"
    allowed = run(folder, "up", "--yes", **state)
    assert allowed.returncode == 0, allowed.stderr
    assert "cat: /bin/cat -u" in allowed.stdout
    assert run(folder, "down", **state).returncode == 0
    again = run(folder, "up", **state)
    assert again.returncode == 0, "a yes holds for the file as it is"
    run(folder, "down", **state)
    write(folder, FILE.replace('"-u"', '"-n"'))
    assert "not allowed yet" in failure(run(folder, "up", **state))
    assert run(folder, "up", "--no-auto-start", **state).returncode == 0


def test_a_person_is_asked_and_her_no_starts_nothing(folder: Path, tmp_path: Path) -> None:
    import pty

    write(folder)
    screen, side = pty.openpty()
    asked = Process(["up"], folder, stdin=side, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    os.close(side)
    try:
        asked.until("cat: /bin/cat -u")
        os.write(screen, b"no\n")
        assert asked.ends(within=WITHIN) == 1
        assert "Nothing was started" in asked.lines[-1]
        assert not (folder / ".mew").exists()
    finally:
        asked.kill()
        os.close(screen)


@pytest.mark.parametrize(
    ("participants", "seat"),
    [
        ("{}", "human"),
        ("{clock: {type: mcp-bridge, mcp_server: {command: /bin/cat}}}", "human"),
        ("{clock: {type: mcp-bridge, mcp_server: {command: /bin/cat}}, ann: {}, ben: {}}", "ann"),
    ],
)
def test_a_file_without_an_owner_has_a_person_all_the_same(
    folder: Path, participants: str, seat: str
) -> None:
    write(folder, f"space: {{id: desk}}\nparticipants: {participants}\n")
    up = run(folder, "up", "--no-auto-start")
    assert up.returncode == 0, up.stderr
    assert find_running(folder).record.person == seat


@pytest.mark.threat(1)
def test_a_token_of_the_environment_stays_there(folder: Path) -> None:
    variable = {"MEW_TOKEN_HUMAN": "a-token-of-the-environment-0123456789"}
    write(folder, "space: {id: desk}\nparticipants: {human: {}}\n")
    assert run(folder, "up", **variable).returncode == 0
    assert "space desk at " in run(folder, "status", **variable).stdout
    assert "is in no file: set the variable MEW_TOKEN_HUMAN" in failure(run(folder, "status"))
    assert all(
        variable["MEW_TOKEN_HUMAN"] not in path.read_text()
        for path in (folder / ".mew").rglob("*.*")
        if path.is_file()
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_each_address_of_the_loopback_is_one_that_can_be_joined(folder: Path, host: str) -> None:
    if host == "::1":
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("there is no IPv6 here")
    serve = Process(["serve", "--host", host], folder)
    try:
        serve.until("^human: ")
        eventually((folder / ".mew/run.json").exists)
        assert run(folder, "status").stdout.startswith("space demo at ws://")
    finally:
        serve.kill()


def test_the_file_of_the_folder_is_found_and_two_of_them_are_a_question(folder: Path) -> None:
    write(folder, "space: {id: desk}\nparticipants: {human: {}}\n", ".mew/space.yaml")
    assert run(folder, "up").returncode == 0
    assert find_running(folder).record.space == "desk"
    run(folder, "down")
    write(folder)
    assert "name the one that is meant" in failure(run(folder, "up"))


def test_a_space_of_another_folder_says_how_it_is_reached(folder: Path, tmp_path: Path) -> None:
    write(folder, "space: {id: desk}\nparticipants: {human: {}}\n")
    up = run(tmp_path, "up", str(folder / "space.yaml"))
    assert f"cd {folder} && mew-lab join" in up.stdout
    assert run(tmp_path, "status", "--dir", str(folder)).returncode == 0
    assert run(tmp_path, "down", "--dir", str(folder)).returncode == 0


def lines_of(folder: Path, args: str) -> str:
    server = f"some: {{type: mcp-bridge, mcp_server: {{command: npx, args: {args}}}}}"
    text = f"space: {{id: desk}}\nparticipants: {{human: {{}}, {server}}}\n"
    return "\n".join(program_lines(parse_space_file(text, path=folder / "space.yaml")))


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("[-y, some-server]", True),
        ("[-y, 'some-server@latest']", True),
        ("[-y, '@some/server']", True),
        ("[-y, '@some/server@^1.2.3']", True),
        ("[-y, '@some/server@1.2.3']", False),
        ("[-y, 'some-server@1.2.3', work]", False),
        ("['some-server==1.2.3']", False),
    ],
)
def test_a_command_that_is_not_pinned_is_remarked_on(tmp_path: Path, args: str, told: bool) -> None:
    assert ("takes the newest version" in lines_of(tmp_path, args)) is told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("['@some/server@1.2.3', work]", False),
        ("['@some/server@1.2.3', .]", True),
        ("['@some/server@1.2.3', './']", True),
        ("['@some/server@1.2.3', 'mcp,filesystem,./']", True),
        ("['@some/server@1.2.3', '..']", True),
        ("['@some/server@1.2.3', /]", True),
        ("['@some/server@1.2.3', .mew]", True),
        ("['@some/server@1.2.3', .mew/tokens]", True),
        ("['@some/server@1.2.3', .mew/tokens/desk]", True),
        ("['@some/server@1.2.3', .mew/agents]", False),
    ],
)
def test_a_server_that_could_read_the_tokens_is_remarked_on(tmp_path: Path, args: str, told: bool) -> None:
    assert ("leads to the tokens in .mew" in lines_of(tmp_path, args)) is told


def test_all_of_a_command_is_shown_and_what_it_hides_is_visible(tmp_path: Path) -> None:
    long = "x" * 5000
    shown = lines_of(tmp_path, json.dumps(["a@1.2.3", long, "b\u202e\x1b[2J"]))
    assert long in shown and shown.replace("\n", "").isprintable()


def test_a_file_with_faults_starts_nothing(folder: Path) -> None:
    write(folder, "space: {id: desk, ownr: human}\n")
    done = run(folder, "up")
    assert done.returncode == 1 and "ownr" in done.stderr
    assert not (folder / ".mew").exists()


def test_the_time_is_told_as_a_date(folder: Path) -> None:
    assert run(folder, "up").returncode == 0
    since = run(folder, "status").stdout.partition(" since ")[2].partition(";")[0]
    began = time.mktime(time.strptime(since, "%Y-%m-%d %H:%M:%S"))
    assert abs(time.time() - began) < 120
