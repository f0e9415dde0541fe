"""A program beside us: what it is given, how it is read, how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mew_lab.bridge.process import ServerProcess, environment
from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.token import Token

from .conftest import alive, until


def python(code: str, cwd: Path, **options: object) -> ServerProcess:
    return ServerProcess(["python", "-c", code], cwd=cwd, **options)  # type: ignore[arg-type]


@pytest.mark.threat(28)
def test_only_named_variables_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "SHELL", "TERM", "USER", "CANARY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.delenv("TMPDIR", raising=False)
    variables = environment(["CANARY"])
    assert (
        set(variables) <= {"PATH", "HOME", "LANG", "SYSTEMROOT", "CANARY"} and variables["CANARY"] == "secret"
    )
    assert "CANARY" not in environment()
    assert set(environment({"WRITTEN": "out"})) == {*environment(), "WRITTEN"}
    with pytest.raises(ConfigError) as caught:
        environment(["NOT\x1bSET"])
    assert "\x1b" not in str(caught.value) and caught.value.key == "NOT\x1bSET"


def test_the_first_word_python_is_this_interpreter(tmp_path: Path) -> None:
    assert ServerProcess(["python", "-m", "a b"], cwd=tmp_path).command_line == f"{sys.executable} -m 'a b'"
    assert ServerProcess(["python3"], cwd=tmp_path).command == ["python3"]
    with pytest.raises(ConfigError):
        ServerProcess([""], cwd=tmp_path)


@pytest.mark.threat(28)
async def test_no_file_descriptor_of_ours_is_handed_on(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        import os

        os.set_inheritable(file.fileno(), True)
        code = "import os; print(*sorted(map(int, os.listdir('/proc/self/fd'))))"
        process = python(code, tmp_path)
        await process.start()
        [line] = [line async for line in process.lines()]
        assert str(file.fileno()) not in line.decode().split() or file.fileno() <= 3
        await process.stop()


@pytest.mark.threat(28)
async def test_a_line_that_does_not_end_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.bridge.process.ENDLESS", 1 << 23)
    process = python(
        "import sys, time; sys.stdout.write('x' * (2 ** 23 + 2 ** 21)); sys.stdout.flush(); time.sleep(60)",
        tmp_path,
    )
    await process.start()
    assert [line async for line in process.lines()] == []
    assert await process.describe_end() == f"wrote a line of more than {1 << 23} bytes"
    await process.stop()
    assert not alive(process.pid)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (
            "import sys; sys.stderr.write('a\\n\\nlast\\x1b[2J\\n\\n'); sys.exit(4)",
            r"ended (exit 4); its last lines: a | last\u001b[2J",
        ),
        ("pass", "ended (exit 0)"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ],
)
async def test_how_it_ended_is_a_few_words(tmp_path: Path, code: str, how: str) -> None:
    process = python(code, tmp_path)
    await process.start()
    assert [line async for line in process.lines()] == []
    assert await process.describe_end() == how
    await process.stop()


@pytest.mark.usefixtures("short_grace")
async def test_one_that_closed_its_output_and_goes_on_is_said_to_have_done_so(tmp_path: Path) -> None:
    process = python("import os, time; os.close(1); time.sleep(60)", tmp_path)
    await process.start()
    assert [line async for line in process.lines()] == []
    assert await process.describe_end() == "closed its output"
    await process.stop()


@pytest.mark.threat(28)
@pytest.mark.usefixtures("short_grace")
async def test_one_that_will_not_end_is_ended(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
    process = python(code, tmp_path)
    await process.start()
    assert await anext(process.lines()) == b"x\n"
    await process.stop()
    await until(lambda: not alive(process.pid))


@pytest.mark.threat(1)
async def test_a_secret_in_its_last_words_is_masked(tmp_path: Path) -> None:
    secret = Token("canary-secret-0123456789")
    process = python(f"import sys; sys.exit('bad key {secret.reveal()}')", tmp_path)
    await process.start()
    assert [line async for line in process.lines()] == []
    assert await process.describe_end() == f"ended (exit 1): bad key {secret}"
    await process.stop()


async def test_what_cannot_be_started_is_a_sentence(tmp_path: Path) -> None:
    for command, cwd, sentence in (
        (["no-such-program"], tmp_path, "there is no program 'no-such-program' on PATH"),
        (["python"], tmp_path / "nowhere", "there is no folder"),
        ([str(tmp_path)], tmp_path, "Permission denied"),
        (["python", "a\0b"], tmp_path, "null byte"),
    ):
        process = ServerProcess(command, cwd=cwd)
        with pytest.raises(MewError, match=sentence):
            await process.start()
        await process.stop()


DEAF = "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
GRANDCHILD = DEAF + "print('up', flush=True)\ntime.sleep(600)"
SERVER = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {GRANDCHILD!r}], start_new_session=True, stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "import os; print(os.getpid(), child.pid, flush=True)\n" + DEAF + "time.sleep(600)"
)
KERNEL = f"""
import asyncio, os, sys
from pathlib import Path
from mew_lab.bridge.process import ServerProcess

async def main():
    process = ServerProcess(["python", "-c", {SERVER!r}], cwd=Path.cwd())
    await process.start()
    print((await anext(process.lines())).decode().strip(), flush=True)
    if "forked" in sys.argv and os.fork() == 0:
        import time
        print(os.getpid(), flush=True)
        time.sleep(600)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.threat(43)
@pytest.mark.skipif(os.name != "posix", reason="no process groups")
@pytest.mark.parametrize("forked", [False, True], ids=["", "with a forked child that holds our sockets"])
async def test_it_ends_with_its_grandchildren_when_this_process_is_killed(
    tmp_path: Path, forked: bool
) -> None:
    kernel = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", KERNEL, *(["forked"] if forked else [])], cwd=tmp_path, stdout=subprocess.PIPE
    )
    loop = asyncio.get_running_loop()
    server, grandchild = map(int, (await loop.run_in_executor(None, kernel.stdout.readline)).split())
    child = int(await loop.run_in_executor(None, kernel.stdout.readline)) if forked else 0
    assert alive(server) and alive(grandchild)
    kernel.kill()
    kernel.wait()
    kernel.stdout.close()
    await until(lambda: not alive(server) and not alive(grandchild))
    if forked:
        os.kill(child, signal.SIGKILL)


@pytest.mark.threat(43)
@pytest.mark.skipif(os.name != "posix", reason="no process groups")
@pytest.mark.usefixtures("short_grace")
async def test_what_it_started_and_put_into_a_session_of_its_own_ends_with_it(tmp_path: Path) -> None:
    process = python(SERVER, tmp_path)
    await process.start()
    server, grandchild = map(int, (await anext(process.lines())).split())
    assert process.pid == server
    await process.stop()
    await until(lambda: not alive(server) and not alive(grandchild))


@pytest.mark.threat(43)
@pytest.mark.skipif(os.name != "posix", reason="no process groups")
async def test_one_that_lost_its_keeper_is_ended(tmp_path: Path) -> None:
    process = python("import os, time; print(os.getppid(), flush=True); time.sleep(600)", tmp_path)
    await process.start()
    os.kill(int(await anext(process.lines())), signal.SIGKILL)
    await until(lambda: not alive(process.pid))
    assert await process.describe_end() == "was ended by signal 9"
    await process.stop()
