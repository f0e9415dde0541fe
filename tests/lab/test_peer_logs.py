"""The process beside a gateway: it keeps up, ends with the gateway, is started again, and loses nothing by a kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.lab.peer_logs import PeerLogs
from mew_lab.log.export import export_as_peers
from mew_lab.log.follower import KEPT
from mew_lab.log.journal import Journal
from mew_lab.log.peer_files import DECISIONS, HISTORY
from mew_lab.protocol.token import Token

from ..faults.conftest import ENVIRONMENT, Ear, chat
from ..waiting import alive, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are killed by signals here")
PEOPLE = {name: {"capabilities": [{"kind": "*"}]} for name in ("ada", "bob", "cyd")}


class Site:
    """A gateway with a journal, whose peers' log files a process of its own keeps."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.journal = Journal(folder / "journal.jsonl", rotate_at=300_000)
        self.gateway = Gateway()
        self.gateway.add_space(
            SpaceConfig.model_validate({"name": "demo", "participants": PEOPLE}), journal=self.journal
        )
        self.logs = PeerLogs(
            self.journal.path,
            root=folder,
            folder="logs",
            history=True,
            decisions=True,
            fault=self.faults.append,
            **{"first_delay": 0.01, **more},
        )
        self.logs.register()
        self.journal.on_append = self.logs.wake
        self.said = 0

    def say(self, count: int, **more: Any) -> None:
        for _ in range(count):
            self.said += 1
            name = ("ada", "bob", "cyd")[self.said % 3]
            kind = "chat" if self.said % 5 else "system/x"
            message = {
                "id": f"m-{self.said}",
                "kind": kind,
                "payload": {"n": self.said, "text": "forty letters and not one token in them"},
                **more,
            }
            self.gateway.post("demo", name, json.dumps(message))

    def text(self, name: str = HISTORY) -> str:
        path = self.folder / "logs" / name
        return path.read_text() if path.exists() else ""

    async def end(self) -> None:
        self.gateway.close()
        self.journal.close()
        await self.logs.stop()

    def check(self) -> None:
        """The files are what an export gives, line by line."""
        out = self.folder / "out"
        out.mkdir()
        export_as_peers(self.journal.paths[0], out)
        for name in (HISTORY, DECISIONS):
            assert self.text(name).splitlines() == (out / name).read_text().splitlines()


Begin = Callable[..., Any]


@pytest.fixture
async def begin(tmp_path: Path) -> AsyncIterator[Begin]:
    made: list[Site] = []

    async def start(**more: Any) -> Site:
        made.append(Site(tmp_path, **more))
        await made[-1].logs.start()
        return made[-1]

    yield start
    for one in made:
        await one.end()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
async def test_it_writes_a_backlog_at_a_low_priority_and_a_new_line_at_that_of_the_gateway(
    begin: Begin,
) -> None:
    one = await begin()
    for _ in range(20):
        one.say(1)
        await until(lambda: f'"m-{one.said}"' in one.text())
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities(one.logs.pid) == {own}
    # A machine that is busy may feed it so slowly that nothing is behind: then more is said.
    seen = set[int]()
    while seen != {own, min(19, own + 10)}:
        one.say(3000)
        await until(lambda: seen.update(priorities(one.logs.pid)) or f'"m-{one.said}"' in one.text())
        seen.update(priorities(one.logs.pid))
    assert os.getpriority(os.PRIO_PROCESS, one.logs.pid) == own
    await one.end()
    one.check()
    assert one.faults == []


def priorities(pid: int) -> set[int]:
    """Of the threads of a process."""
    return {os.getpriority(os.PRIO_PROCESS, int(one.name)) for one in Path(f"/proc/{pid}/task").iterdir()}


async def test_a_process_that_does_not_read_its_bell_never_keeps_the_gateway_waiting(begin: Begin) -> None:
    one = await begin()
    one.say(1)
    await until(lambda: '"m-1"' in one.text())
    os.kill(one.logs.pid, signal.SIGSTOP)
    for _ in range(100_000):  # more than a pipe holds
        one.logs.wake()
    one.say(5)
    os.kill(one.logs.pid, signal.SIGCONT)
    await until(lambda: '"m-6"' in one.text())
    await one.end()
    one.logs.wake()  # nobody is there, and nothing comes of it
    one.check()
    assert one.faults == []


async def test_it_ends_with_the_gateway_when_all_is_written(begin: Begin) -> None:
    one = await begin()
    one.say(3000)
    pid = one.logs.pid
    await one.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    one.check()
    assert one.faults == []


async def test_it_is_started_again_and_says_so(begin: Begin) -> None:
    one = await begin()
    first = one.logs.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: one.logs.pid not in (None, first))
    assert one.faults == [
        "the writer of the peers' log files was ended by signal 9; it is restarted in 0.01 s"
    ]
    one.say(10)
    await one.end()
    one.check()


async def test_it_is_not_started_again_and_again_without_a_pause(begin: Begin) -> None:
    one = await begin(first_delay=0.2)
    for kills in range(1, 4):
        await until(lambda: one.logs.pid is not None)
        os.kill(one.logs.pid, signal.SIGKILL)
        await until(lambda kills=kills: len(one.faults) == kills)
    assert [sentence.split(" in ")[-1] for sentence in one.faults] == ["0.2 s", "0.4 s", "0.8 s"]


async def test_what_it_cannot_replay_is_said_and_it_stays_ended(begin: Begin) -> None:
    one = await begin()
    one.say(5)
    await until(lambda: '"m-5"' in one.text())
    with one.journal.path.open("ab") as file:
        file.write(b"\n{}\n")
    await until(lambda: one.logs.pid is None)
    assert (await until(lambda: one.faults))[0].startswith(
        "the log files of the peers are not written any more: Cannot read the journal"
    )
    assert len(one.faults) == 1
    one.say(1)  # the gateway does not care


async def test_what_it_cannot_replay_ends_it_also_where_lines_were_left_out(
    begin: Begin, tmp_path: Path
) -> None:
    (tmp_path / "logs").symlink_to(tmp_path)
    one = await begin()
    one.say(5)
    await until(lambda: len(one.faults) >= 3)  # the position and both files
    with one.journal.path.open("ab") as file:
        file.write(b"\n{}\n")
    await until(lambda: sum("lines were left out" in sentence for sentence in one.faults) == 2)
    await until(lambda: one.logs.pid is None)
    await one.end()
    assert not [sentence for sentence in one.faults if "restarted" in sentence]


def shown(pid: int) -> str:
    """What everybody on the machine, and its owner, may see of a process."""
    return "".join(Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "environ"))


async def test_one_that_does_not_end_in_time_is_ended_and_the_next_one_writes_what_it_left(
    begin: Begin, tmp_path: Path
) -> None:
    one = await begin(grace=0.3)
    one.logs.register()
    one.say(20)
    await until(lambda: '"m-20"' in one.text())
    os.kill(one.logs.pid, signal.SIGSTOP)
    one.say(20)
    pid = one.logs.pid
    await one.end()
    assert not alive(pid) and one.logs.pid is None
    assert len(one.faults) == 1 and "the time limit was reached" in one.faults[0]
    later = Journal(tmp_path / "later.jsonl")
    again = PeerLogs(
        later.path, root=tmp_path, folder="logs", history=True, decisions=True, fault=one.faults.append
    )
    again.register()
    later.close()
    await again.start()
    await again.stop()
    one.check()
    assert len(one.faults) == 1


@pytest.mark.threat(1)
async def test_a_token_that_somebody_says_stands_in_no_line_whenever_it_was_made(begin: Begin) -> None:
    one = await begin(secrets=[Token("token-of-a-space-yaml")])
    minted = Token("token-that-was-minted-later")
    one.logs.hide(minted)
    escaped = minted.reveal().replace("t", "\\u0074")
    for text in ("token-of-a-space-yaml", minted.reveal(), escaped):
        for kind in ("chat", "system/x"):
            one.gateway.post("demo", "ada", f'{{"kind":"{kind}","payload":{{"text":"{text}"}}}}')
    seen = shown(one.logs.pid)
    await one.end()
    told = one.text() + one.text(DECISIONS) + seen
    assert minted.reveal() not in told and "token-of-a-space-yaml" not in told
    assert told.count('"text":"tok_…') == 6


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
async def test_on_a_full_disk_lines_are_left_out_counted_and_said_and_the_gateway_goes_on(
    begin: Begin,
) -> None:
    one = await begin()
    one.say(50)
    await until(lambda: '"m-50"' in one.text())
    size = (one.folder / "logs" / HISTORY).stat().st_size
    _, hard = resource.prlimit(one.logs.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(one.logs.pid, resource.RLIMIT_FSIZE, (size + 1000, hard))
    one.say(50)
    await until(lambda: one.faults)
    assert f"{HISTORY} cannot be written: " in one.faults[0]
    resource.prlimit(one.logs.pid, resource.RLIMIT_FSIZE, (hard, hard))
    one.say(50)
    await until(lambda: f'"m-{one.said}"' in one.text())
    await one.end()
    out = one.folder / "out"
    out.mkdir()
    export_as_peers(one.journal.paths[0], out)
    missing = {}
    for name in (HISTORY, DECISIONS):
        whole, there = (out / name).read_text().splitlines(), one.text(name).splitlines()
        rest = iter(whole)
        assert all(line in rest for line in there)  # in order, none twice, none torn
        missing[name] = len(whole) - len(there)
        counted = [one for one in one.faults if f"{name} is written again; " in one]
        assert sum(int(one.split("again; ")[1].split()[0]) for one in counted) == missing[name]
    assert missing[HISTORY] > 0


# --- kills under load --------------------------------------------------------------------------------------------


async def follower_killed(one: Site, times: int, dice: random.Random) -> None:
    for kills in range(1, times + 1):
        await until(lambda: one.logs.pid is not None)
        for _ in range(dice.randint(1, 40)):
            one.say(dice.randint(1, 30))
            await asyncio.sleep(0)
        await asyncio.sleep(dice.random() * 0.4)  # it may be reading, or in the middle of a write
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.logs.pid, signal.SIGKILL)
        await until(lambda kills=kills: len(one.faults) >= kills)
    await one.end()
    one.check()
    assert one.text().count("\n") > times * 20


KILLS = [3, pytest.param(50, marks=pytest.mark.slow)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", KILLS)
async def test_killed_under_load_no_line_is_missing_and_none_is_there_twice(begin: Begin, kills: int) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    # On a busy machine most of it is still to be written after the last kill.
    await follower_killed(await begin(longest_delay=0.01, grace=240), kills, random.Random(seed))


SPACE = {"space": {"id": "demo"}, "participants": PEOPLE}


class Served:
    """`mew-lab serve --space-config`, as a user starts it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.port = 0

    @classmethod
    async def start(cls, folder: Path) -> Served:
        (folder / "space.yaml").write_text(json.dumps(SPACE))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mew_lab.cli", "serve", "--space-config", "space.yaml",
            cwd=folder, env=ENVIRONMENT, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        made = cls(process, folder)
        async with asyncio.timeout(30):
            while line := (await process.stdout.readline()).decode():
                if line.startswith("space "):
                    made.port = int(line.split(":")[-1].split("/")[0])
                if line.startswith("cyd: "):
                    break
        return made

    def followers(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError):
            return [int(one) for one in path.read_text().split()]
        return []

    async def join(self, name: str) -> Ear:
        token = (self.folder / ".mew/tokens/demo" / f"{name}.token").read_text().strip()
        return await Ear.join(self.port, token)


LOOKS = 8  # processes that look for a line after an answer, each begun when the one before has ended


def post(served: Served, name: str, kind: str, payload: dict[str, Any]) -> None:
    token = (served.folder / ".mew/tokens/demo" / f"{name}.token").read_text().strip()
    request = Request(
        f"http://127.0.0.1:{served.port}/participants/{name}/messages",
        json.dumps({"kind": kind, "payload": payload}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def stands(served: Served, *patterns: str) -> bool:
    """Whether a line of the history has all of these texts, for a script that looks at once."""
    path = served.folder / "logs" / HISTORY
    for _ in range(LOOKS):
        found = subprocess.run(["grep", "-F", patterns[0], path], capture_output=True, text=True, check=False)
        if any(all(pattern in line for pattern in patterns) for line in found.stdout.splitlines()):
            return True
    return False


def missing_lines(served: Served, run: int) -> list[str]:
    """Gives a stream to another participant, as a script does; the kinds whose lines did not stand in time."""
    stream, missing = f"stream-{run}", []

    def look(kind: str, *patterns: str) -> None:
        if not stands(served, f'"kind":"{kind}"', *patterns):
            missing.append(kind)

    post(served, "ada", "chat", {"text": f"run {run}"})
    look("chat", f'"run {run}"')
    post(served, "ada", "stream/request", {"direction": "upload", "description": f"positions {run}"})
    look("stream/request", f'"positions {run}"')
    look("stream/open", f'"stream_id":"{stream}"')
    about = {"stream_id": stream, "participant_id": "bob"}
    for asked, told, payload in (
        ("stream/grant-write", "stream/write-granted", about),
        ("stream/revoke-write", "stream/write-revoked", about),
        (
            "stream/transfer-ownership",
            "stream/ownership-transferred",
            {"stream_id": stream, "new_owner": "bob"},
        ),
    ):
        post(served, "ada", asked, payload)
        look(asked, f'"stream_id":"{stream}"')
        look(told, f'"stream_id":"{stream}"')
    post(served, "bob", "stream/close", {"stream_id": stream})
    look("stream/close", f'"stream_id":"{stream}"')
    return missing


@pytest.mark.timeout(120)
@pytest.mark.slow
async def test_a_script_that_looks_right_after_an_answer_finds_the_line_in_twenty_of_twenty_runs(
    tmp_path: Path,
) -> None:
    served = await Served.start(tmp_path)
    try:
        ears = [await served.join(name) for name in ("ada", "bob")]
        await until(lambda: (tmp_path / "logs" / HISTORY).is_file())
        await asyncio.to_thread(stands, served, '"bob"')
        for first in range(1, 101, 20):  # a busy machine makes some of the lines late
            runs = range(first, first + 20)
            missing = [await asyncio.to_thread(missing_lines, served, run) for run in runs]
            if not any(missing):
                break
    finally:
        served.process.terminate()
        await served.process.wait()
    assert missing == [[]] * 20 and len(ears) == 2


async def gateway_killed(folder: Path, times: int, dice: random.Random) -> None:
    """Kills the gateway, the follower or both, in the middle of a load; then ends in order, and compares."""
    for round_ in range(times + 1):
        served = await Served.start(folder)
        pids: list[int] = []
        try:
            ears = [await served.join(name) for name in PEOPLE]
            await until(served.followers)
            pids = served.followers()
            for n in range(dice.randint(5, 60)):
                for ear, name in zip(ears, PEOPLE, strict=True):
                    ear.say(*(chat(n * 10 + m, sender=f"{name}-{round_}") for m in range(10)))
                await asyncio.sleep(dice.random() * 0.01)
            victims = dice.choice(["gateway", "follower", "both"]) if round_ < times else ""
            if victims in ("follower", "both"):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if victims in ("gateway", "both"):
                served.process.kill()
            else:
                served.process.terminate()
            await served.process.wait()
        finally:
            if served.process.returncode is None:
                served.process.kill()
                await served.process.wait()
        if dice.random() < 0.5:  # else the next one begins while the last is still writing
            await until(lambda pids=pids: not any(map(alive, pids)))
    await until(lambda: not any(map(alive, pids)))
    texts = {HISTORY: "", DECISIONS: ""}
    journals = sorted((folder / ".mew" / "demo").glob("*.jsonl"))
    assert len(journals) == times + 1
    out = folder / "out"
    out.mkdir()
    for path in journals:
        export_as_peers(path, out, force=True)
        for name in texts:
            texts[name] += (out / name).read_text()
    for name, text in texts.items():
        aside = [
            folder / "logs" / f"{name}.{n}" for n in range(KEPT, 0, -1)
        ]  # a long load fills more than one
        written = [path.read_text() for path in (*aside, folder / "logs" / name) if path.exists()]
        assert "".join(written).splitlines() == text.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are found by /proc")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [3, 50])
async def test_a_gateway_that_is_killed_has_all_lines_written_after_it(tmp_path: Path, kills: int) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    await gateway_killed(tmp_path, kills, random.Random(seed))
