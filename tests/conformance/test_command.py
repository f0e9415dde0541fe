"""`mew-lab conform` as a whole: files, exit statuses, sentences."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mew_lab.cli import main
from mew_lab.cli.conform import conform
from mew_lab.conformance.profile import fresh, read_profile, space_file, write_private, write_profile
from mew_lab.conformance.suite import PASSED

from .conftest import Serve

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "ws://127.0.0.1:1"


class Said:
    """What the command printed."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.err: list[str] = []

    def conform(self, url: str | None = None, **how: Any) -> int:
        return conform(url, **{"tokens": None, "say": self.out.append, "progress": self.err.append, **how})


@pytest.fixture
def said() -> Said:
    return Said()


async def test_a_good_gateway_exits_0_with_the_table(serve: Serve, said: Said, tmp_path: Path) -> None:
    ours = await serve()
    table = tmp_path / "table.json"
    how = {"tokens": ours.tokens_file(tmp_path), "json": table, "only": ["C-1", "P-3.10.7-*"]}
    status = await asyncio.to_thread(said.conform, ours.url, **how)
    assert status == 0
    assert said.out[0].startswith("8 rows of the specification: 8 passed, 0 failed")
    assert said.out[0].endswith("; beside them 1 ruling of this project")
    assert said.err[-1].startswith(f"{len(said.err)}/{len(said.err)} ")
    assert {one["result"] for one in json.loads(table.read_text())} == {PASSED}
    everything = "\n".join([*said.out, *said.err, table.read_text()])
    assert not [one for one in ours.profile.tokens.values() if one.reveal() in everything]


async def test_the_command_as_a_process_prints_the_table_and_its_progress_apart(
    serve: Serve, tmp_path: Path
) -> None:
    ours = await serve()
    words = [
        "conform",
        ours.url,
        "--tokens",
        str(ours.tokens_file(tmp_path)),
        "--only",
        "C-1,C-2",
        "--only",
        "P-3-7",
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mew_lab.cli", *words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = (one.decode() for one in await process.communicate())
    assert process.returncode == 0, err
    assert out.startswith("1 row of the specification: 1 passed, 0 failed, 0 not offered, 0 not testable")
    rows = [line.split()[0] for line in out.splitlines() if line.startswith(("P-", "C-"))]
    assert rows == ["P-3-7", "C-1", "C-2"]
    assert err.splitlines()[-1].startswith("3/3 ")


def test_what_is_written_starts_a_gateway_and_a_run(said: Said, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    assert said.conform(write_space=space) == 0
    tokens = tmp_path / "space.tokens.json"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["space.tokens.json", "space.yaml"]
    profile = read_profile(tokens)
    assert space.read_text() == space_file(profile)
    assert read_profile(space) == profile
    assert any(str(space) in line for line in said.out) and any(str(tokens) in line for line in said.out)
    assert not [one for one in profile.tokens.values() if one.reveal() in "\n".join(said.out)]


@pytest.mark.slow
def test_a_served_space_file_passes_as_two_processes(tmp_path: Path) -> None:
    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "mew_lab.cli", *words]

    how: dict[str, Any] = {"cwd": tmp_path, "text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    files = ["--write-space", "space.yaml", "--write-second", "second.yaml"]
    wrote = subprocess.run(command("conform", *files), check=True, capture_output=True, **how).stdout
    serve = next(line.split() for line in wrote.splitlines() if "mew-lab serve" in line)
    assert serve[:2] == ["mew-lab", "serve"]
    serving = subprocess.Popen(command(*serve[1:]), stdout=subprocess.PIPE, **how)
    try:
        assert serving.stdout is not None
        url = next(line.split()[-1] for line in serving.stdout if "://" in line)  # behind remarks on the file
        words = command("conform", url, "--tokens", "space.tokens.json", "--timeout", "20")
        done = subprocess.run(words, capture_output=True, timeout=50, **how)
    finally:
        serving.terminate()
        serving.communicate(timeout=10)
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[-2000:]
    assert ", 0 failed, 0 not offered, " in done.stdout.split("\n")[0]
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.startswith("P-")}
    assert [rows[row] for row in ("P-2.2-3", "P-3.6-1", "P-3.6-2", "P-3.6-3", "P-3.6-4")] == ["passed"] * 5


def test_tokens_that_are_there_are_kept(said: Said, tmp_path: Path) -> None:
    tokens, first, second = (tmp_path / name for name in ("t.json", "one.yaml", "two.yaml"))
    assert said.conform(write_space=first, tokens=tokens) == 0
    before = read_profile(tokens)
    assert said.conform(write_space=first, write_second=second, tokens=tokens) == 0
    after = read_profile(tokens)
    assert after.second is not None
    assert after._replace(second=None) == before
    assert second.read_text() == space_file(after.second)
    assert said.conform(write_space=first, tokens=tokens) == 0
    assert read_profile(tokens) == after


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a URL is missing; --write-space FILE makes"),
        (["ws://127.0.0.1:1"], "--tokens FILE is missing"),
        (["ws://127.0.0.1:1", "--tokens", "none.json"], "none.json: there is no such file"),
        (["ws://127.0.0.1:1", "--tokens", "text.json"], "text.json: space names no space"),
        (["ws://127.0.0.1:1", "--tokens", "good.json"], "nothing could be reached at ws://127.0.0.1:1"),
        (["nowhere", "--tokens", "good.json"], "'nowhere' is no address of a gateway"),
        (["ws://127.0.0.1:1", "--tokens", "good.json", "--only", "P-99"], "'P-99' is no row"),
        (["ws://127.0.0.1:1", "--tokens", "good.json", "--timeout", "0"], "--timeout takes a number"),
        (["ws://127.0.0.1:1", "--write-space", "s.yaml"], "--write-space takes no URL"),
        (["--write-space", "no/where.yaml"], "could not be written: No such file"),
        (["--write-space", "s.yaml", "--write-second", "s.yaml"], "must have different names"),
        (["--write-space", "s.yaml", "--tokens", "text.json"], "text.json: space names no space"),
    ],
)
def test_what_is_no_run_is_one_sentence_and_exit_2(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_private(tmp_path / "text.json", "a: b\n")
    profile = fresh()
    write_profile(tmp_path / "good.json", profile)
    with pytest.raises(SystemExit) as caught:
        main(["conform", *words])
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mew-lab conform: ") and printed.err.count("\n") == 1
    assert sentence in printed.err
    assert not [one for one in profile.tokens.values() if one.reveal() in printed.err]


async def test_a_table_that_cannot_be_written_is_told_after_the_run(
    serve: Serve, said: Said, tmp_path: Path
) -> None:
    ours = await serve()
    how = {"tokens": ours.tokens_file(tmp_path), "json": tmp_path / "no" / "t.json", "only": ["C-1"]}
    assert await asyncio.to_thread(said.conform, ours.url, **how) == 2
    assert said.out[0].startswith("0 rows of the specification: 0 passed")
    assert "could not be written" in said.err[-1]
