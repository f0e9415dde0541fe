"""Programs beside a gateway: restarted as their policy says, and gone when the gateway goes, whatever takes it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mew_lab.gateway.processes import Processes
from mew_lab.gateway.programs import Program
from mew_lab.protocol.token import Token

from ..waiting import alive, until

WAITS = "import time; print('up', flush=True); time.sleep(1000)"


class Told:
    """What is told of the programs, and who is asked to stop at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.faults: list[str] = []
        self.running: list[Processes] = []

    def program(self, code: str, *, name: str = "bot", **more: Any) -> Program:
        given: dict[str, Any] = {
            "participant": name,
            "command": (sys.executable, "-u", "-c", code),
            "cwd": self.folder,
            "env": {"PATH": os.environ["PATH"]},
            "log": self.folder / "logs" / f"{name}.log",
        }
        return Program(**(given | more))

    async def start(self, *programs: Program, **how: Any) -> Processes:
        how = {"first_delay": 0.01, "grace": 2.0, **how}
        self.running.append(Processes(programs, tell=self.tell, fault=self.fault, **how))
        await self.running[-1].start()
        return self.running[-1]

    def tell(self, name: str, sentence: str) -> None:
        self.said.append(f"{name} {sentence}")

    def fault(self, name: str, sentence: str) -> None:
        self.faults.append(sentence)
        self.tell(name, sentence)

    def log(self, name: str = "bot") -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    made = Told(tmp_path)
    yield made
    for one in made.running:
        await one.stop()


async def test_they_run_when_start_returns_and_are_gone_when_stop_does(told: Told) -> None:
    both = await told.start(told.program(WAITS), told.program(WAITS, name="eve"))
    pids = list(both.pids.values())
    assert set(both.pids) == {"bot", "eve"} and all(map(alive, pids))
    await until(lambda: "up" in told.log() and "up" in told.log("eve"))
    await both.stop()
    assert not any(map(alive, pids))
    assert both.pids == {}
    await both.stop()


@pytest.mark.threat(28)
async def test_the_exact_command_is_told_before_its_first_start(told: Told) -> None:
    token = Token("canary-secret-9876")
    command = (sys.executable, "-c", "import sys; print(sys.argv)", "a b", token.reveal())
    await told.start(told.program("", command=command, secrets=(token,)))
    assert told.said[0] == f"bot starting {sys.executable} -c 'import sys; print(sys.argv)' 'a b' tok_…9876"
    await until(lambda: len(told.said) == 2)
    assert token.reveal() not in told.log() + "".join(told.said)
    assert "'a b', 'tok_…9876'" in told.log()


async def test_one_that_cannot_be_started_is_a_sentence_and_hinders_nobody(told: Told) -> None:
    both = await told.start(
        told.program("", command=("no-such-program",), name="none"),
        told.program(WAITS, cwd=told.folder / "nowhere", name="lost"),
        told.program(WAITS),
    )
    await until(lambda: len(told.said) == 5)
    log = told.folder / "logs" / "none.log"
    expected = f"none cannot be started: no-such-program: No such file or directory; its output is in {log}"
    assert expected in told.said
    assert any(f"lost cannot be started: {told.folder / 'nowhere'}: No such file" in one for one in told.said)
    assert set(both.pids) == {"bot"}


@pytest.mark.parametrize(
    ("restart", "status", "lives"),
    [("never", 3, 1), ("on-failure", 0, 1), ("on-failure", 3, 3), ("always", 0, 3)],
)
async def test_a_program_is_started_again_as_its_policy_says(
    told: Told, restart: str, status: int, lives: int
) -> None:
    program = told.program(f"print('life'); raise SystemExit({status})", restart=restart, restarts=2)
    await told.start(program)
    await until(lambda: "its output is in" in told.said[-1])
    assert told.log().count("life") == lives
    ended = f"bot ended (exit {status})"
    again = [f"{ended}; restart 1 of 2 in 0.01 s", f"{ended}; restart 2 of 2 in 0.02 s"][: lives - 1]
    last = "; given up after 2 restarts; its output is" if lives == 3 else "; its output is"
    assert told.said[1:] == [*again, f"{ended}{last} in {program.log}"]
    assert bool(told.faults) == (status != 0 or lives == 3)


async def test_one_that_ran_for_long_enough_counts_as_well_again(told: Told) -> None:
    await told.start(told.program("raise SystemExit(1)", restart="always", restarts=1), calm=0.0)
    await until(lambda: len(told.said) > 4)
    assert set(told.said[1:5]) == {"bot ended (exit 1); restart 1 of 1 in 0.01 s"}


async def test_a_stop_does_not_wait_for_a_restart(told: Told) -> None:
    one = await told.start(told.program("raise SystemExit(1)", restart="always"), first_delay=1000.0)
    await until(lambda: "restart 1" in told.said[-1])
    async with asyncio.timeout(5):
        await one.stop()


@pytest.mark.threat(28)
async def test_one_whose_keeper_is_killed_is_ended_and_told(told: Told) -> None:
    one = await told.start(told.program(WAITS))
    pid = one.pids["bot"]
    os.kill(parent(pid), signal.SIGKILL)
    await until(lambda: not alive(pid) and len(told.said) == 2)
    assert told.said[1].startswith("bot has lost its keeper, and was ended")


OWNER = """
import asyncio, os, sys
from pathlib import Path
from mew_lab.gateway.processes import Processes
from mew_lab.gateway.programs import Program

async def main():
    folder = Path(sys.argv[1])
    program = Program(participant="bot", command=(sys.executable, "-c", sys.argv[2]), cwd=folder,
        env={"PATH": os.environ["PATH"]}, log=folder / "logs" / "bot.log")
    running = Processes([program], tell=print, fault=print, grace=0.5)
    await running.start()
    print("pid", running.pids["bot"], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.threat(28)
def test_when_the_gateway_is_killed_its_programs_are_gone(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS
    words = [sys.executable, "-c", OWNER, str(tmp_path), deaf]
    root = str(Path(__file__).resolve().parents[2])
    environ = os.environ | {"PYTHONPATH": root}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as owner:
        assert owner.stdout is not None
        pid = next(int(line.split()[1]) for line in owner.stdout if line.startswith("pid "))
        assert alive(pid)
        owner.kill()
    asyncio.run(until(lambda: not alive(pid)))


@pytest.mark.threat(27)
async def test_a_folder_of_logs_that_is_a_link_is_not_written(told: Told) -> None:
    (told.folder / "elsewhere").mkdir()
    (told.folder / "logs").symlink_to(told.folder / "elsewhere")
    await told.start(told.program(WAITS))
    await until(lambda: len(told.said) == 2)
    assert "is a link; logs are kept in a folder of their own" in told.said[1]
    assert list((told.folder / "elsewhere").iterdir()) == []
