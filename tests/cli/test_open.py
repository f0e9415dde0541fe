"""`mew-lab open` finds the log and opens it in a notebook that runs; `mew-lab cache clear` deletes indexes."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.cli import main
from mew_lab.cli.open import latest_session, notebook_of
from mew_lab.errors import ConfigError
from mew_lab.log import files
from mew_lab.log.log import open_log

from ..log.agent_sessions import claude_story, codex_story

GARDEN = Path(mew_lab.__file__).parent / "data" / "garden.jsonl"


def aged(path: Path, hours: int) -> Path:
    when = path.stat().st_mtime - 3600 * hours
    os.utime(path, (when, when))
    return path


def test_the_newest_session_of_the_folder_is_found_and_no_other(tmp_path: Path) -> None:
    folder = Path("/home/ann/garden")
    claude, codex = tmp_path / "claude", tmp_path / "codex"
    environ = {"CLAUDE_CONFIG_DIR": str(claude), "CODEX_HOME": str(codex)}
    sessions = claude / "projects" / "-home-ann-garden"
    aged(claude_story(1, turns=1).write(sessions / "old.jsonl"), 5)
    newest = aged(claude_story(2, turns=1).write(sessions / "new.jsonl"), 2)
    claude_story(3, turns=1).write(sessions / "agent-abc.jsonl")
    claude_story(3, turns=1).write(claude / "projects" / "-home-ann" / "other.jsonl")
    assert latest_session("claude", folder, environ) == newest

    day = codex / "sessions" / "2026" / "11" / "03"
    aged(codex_story(1, turns=1).write(day / "rollout-1.jsonl"), 5)
    newest = aged(codex_story(2, turns=1).write(day / "rollout-2.jsonl"), 2)
    elsewhere = codex_story(3, turns=1).text().replace("/home/ann/garden", "/home/ann/shed")
    (day / "rollout-3.jsonl").write_text(elsewhere)
    assert latest_session("codex", folder, environ) == newest
    for agent in ("claude", "codex"):
        with pytest.raises(ConfigError, match=f"no session of {agent}"):
            latest_session(agent, Path("/nowhere"), environ)


def test_the_path_is_printed_and_what_is_no_log_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = claude_story(1, turns=1).write(tmp_path / "s.jsonl")
    assert main(["open", str(path), "--where"]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    (tmp_path / "x.jsonl").write_text("no log\n")
    assert main(["open", str(tmp_path / "x.jsonl")]) == 1
    assert "is not a journal" in capsys.readouterr().err


def test_the_notebook_runs_on_a_session_and_writes_nothing_beside_it(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    path = claude_story(1, turns=2).write(tmp_path / 'it\'s a "session".jsonl')
    notebook = nbformat.from_dict(notebook_of(path))
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.outputs for cell in notebook.cells)
    assert "seen as an agent" in str(notebook.cells[0].outputs) or "as the agent saw" in str(
        notebook.cells[0].outputs
    )
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_the_cache_is_cleared_and_a_log_opens_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "LARGE", 1000)
    path = Path(shutil.copy(GARDEN, tmp_path / "garden.jsonl"))
    log = open_log(path)
    expected = len(log.requests())
    log.index.stop_passes()
    kept = [one for one in (tmp_path / "cache" / "mew-lab" / "logs").iterdir() if one.is_file()]
    assert kept
    assert {one.stat().st_mode & 0o777 for one in kept} == {0o600}
    assert main(["cache", "clear"]) == 0
    assert f"Deleted {len(kept)} file" in capsys.readouterr().out
    assert not any(one.is_file() for one in (tmp_path / "cache" / "mew-lab" / "logs").iterdir())
    assert len(open_log(path).requests()) == expected


def test_a_page_on_a_log_signs_in_once_and_shows_its_messages_and_states(tmp_path: Path) -> None:
    path = claude_story(1).write(tmp_path / "s.jsonl")
    words = [sys.executable, "-m", "mew_lab.cli", "open", str(path), "--ui"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert program.stdout is not None
        line = program.stdout.readline()
        found = re.search(r"http://(127\.0\.0\.1:\d+)/ui#(\S+)", line)
        assert line.startswith("The page of garden, for one browser") and found is not None
        address, code = found.groups()
        origin = f"http://{address}"

        def post(code: str, own: str = origin) -> tuple[int, dict[str, Any]]:
            connection = http.client.HTTPConnection(address, timeout=20)
            headers = {"Origin": own, "Content-Type": "application/json"}
            connection.request("POST", "/ui/session", json.dumps({"code": code}), headers)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if answer.status == 200 else {}

        assert post(code, "http://evil.test")[0] == 403
        status, session = post(code)
        assert status == 200 and post(code)[0] != 200  # a second use
        for name in ("panel", "feed", "moments"):
            connection = http.client.HTTPConnection(address, timeout=20)
            connection.request("GET", f"/ui/{name}.js")
            assert connection.getresponse().status == 200
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("GET", "/ui/approvals.js")
        assert connection.getresponse().status == 404
        assert len(next(iter(session.values()))) >= 22
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 0
    finally:
        program.kill()
        program.wait(10)
    assert [one.name for one in tmp_path.iterdir()] == ["s.jsonl"]
