"""The story in a terminal, with the real MCP server of git."""

from __future__ import annotations

import importlib.util
import secrets
import subprocess
from pathlib import Path

import pytest

from mew_lab.cli import demo
from mew_lab.errors import MewError
from mew_lab.lab.labs import labs
from mew_lab.log.reading import read_journal


def said_by(folder: Path, **how: object) -> list[str]:
    """What the story prints."""
    said: list[str] = []
    demo.show_demo(folder, say=lambda text: said.extend(text.split("\n")), **how)  # type: ignore[arg-type]
    return said


def kinds_of(said: list[str]) -> list[str]:
    """The kinds of the conversation, in order."""
    return [line.split()[5] for line in said if " → " in line]


def test_a_yes_lets_git_answer_and_all_of_it_is_told(tmp_path: Path) -> None:
    message = f"Commit {secrets.token_hex(8)}"
    asked: list[str] = []
    said = said_by(tmp_path, message=message, ask=lambda question: asked.append(question) or True)  # type: ignore[func-returns-value]
    assert asked == ["Approve it?"]
    assert any(line.startswith("  bot asks git to run git_log ") for line in said)
    assert not [line for line in said if line.startswith("    ! ")], "the first card has a false alarm"
    assert "The decision: approved by you (human). The result, from git itself:" in said
    assert any(message in line for line in said if line.startswith("  "))
    assert kinds_of(said)[-3:] == ["mcp/proposal", "mcp/request", "mcp/response"]
    answers = [record for record in read_journal(tmp_path / "journal.jsonl") if record.participant == "git"]
    assert any(message in (record.raw or "") for record in answers)
    assert labs() == {}


def test_a_no_ends_the_proposal_and_git_is_not_asked(tmp_path: Path) -> None:
    said = said_by(tmp_path, ask=lambda question: False)
    assert "The decision: Proposal rejected by human: disagree" in said
    assert not any("Commit history" in line for line in said)
    assert kinds_of(said)[-3:] == ["mcp/proposal", "mcp/reject", "mcp/withdraw"]


def test_where_nobody_is_asked_a_policy_decides_and_it_is_said(tmp_path: Path) -> None:
    said = said_by(tmp_path, ask=None)
    assert "No question is asked here: the policy “approve” decides instead of you." in said
    assert any("approved by the policy “approve” in the name of human" in line for line in said)
    decided = [one.detail for one in read_journal(tmp_path / "journal.jsonl") if one.event == "decided"]
    assert len(decided) == 1
    assert '"by":"policy approve"' in decided[0]


def head(folder: Path) -> str:
    done = subprocess.run(
        ["git", "log", "-1", "--format=%H %an %ae %aI"], cwd=folder, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_repository_is_the_same_whoever_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = head(demo.make_repository(tmp_path / "one", message="x"))
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[user]\n name = Other\n email = o@x\n[commit]\n gpgsign = true\n[core]\n hooksPath = {home}/hooks\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Another")
    monkeypatch.setenv("GIT_DIR", str(home / "elsewhere"))
    second = demo.make_repository(tmp_path / "two", message="x")
    monkeypatch.delenv("GIT_DIR")
    assert head(second) == first
    assert first.endswith("Ada ada@example.org 2026-01-01T12:00:00+00:00")


def test_a_message_that_looks_like_an_option_is_a_message(tmp_path: Path) -> None:
    demo.make_repository(tmp_path / "one", message="--amend\n\nbody")
    done = subprocess.run(
        ["git", "log", "--format=%B"], cwd=tmp_path / "one", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "--amend\n\nbody"


def test_what_git_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(MewError, match=r"git commit failed in .*empty"):
        demo.make_repository(tmp_path / "one", message="")


def test_without_git_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MewError, match="The demo needs git, which is not on PATH"):
        demo.check()


def test_without_the_server_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MewError, match=r'pip install "mew_lab\[lessons\]"'):
        demo.check()
