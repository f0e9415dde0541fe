"""`mew-lab rules`: candidates with their evidence from a journal, what a file of rules would have decided, and a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from mew_lab.cli import main

from ..log.decided_sessions import DecidedSession
from ..log.stage import keep

RULE = "When coder asks files to run read_file with path below docs/, and nothing else: approve"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    session = DecidedSession()
    session.list_tools()
    for n in range(60):
        session.wait(300)
        path = f"{'docs' if n % 3 else 'secrets'}/{n}.md"
        proposal = session.propose(path=path)
        if n % 3:
            session.approve(proposal, path=path)
        else:
            session.reject(proposal)
    return keep(session.stage.records, tmp_path_factory.mktemp("rules") / "j.jsonl")


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    found, told = main(["rules", *words]), capsys.readouterr()
    assert found == status, told.err
    return told.out if not status else told.err


def test_a_journal_that_is_not_whole_is_refused_unless_that_is_asked(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:40] + lines[41:]))
    assert "does not verify" in printed(capsys, str(cut), status=1)
    assert "1. When coder asks files to run read_file" in printed(capsys, str(cut), "--unverified")


def test_it_prints_candidates_with_their_evidence_and_the_frontier(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "frontier.svg"
    text = printed(capsys, str(journal), "--frontier", str(picture))
    assert f"1. {RULE.replace('docs/', 'docs/ ending in .md')}" in text
    assert "40 of 40, wrong in at most 8 %; at most 8 an hour, for 30 days or 200 calls; rule " in text
    assert "learned from 30 decisions; of 30 decisions it would have made 20, 0 of them wrong" in text
    assert picture.read_text().startswith("<svg ") and "Rules: what they cover" in picture.read_text()
    assert "is there already" in printed(capsys, str(journal), "--frontier", str(picture), status=1)


def test_a_file_of_rules_is_tried_and_its_faults_are_told(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mew-rules.yaml"
    gone = RULE.replace("read_file", "drop_all")
    path.write_text(f"rules:\n  - {RULE}\n  - {gone}\n  - rule: '{RULE}'\n    tool: {'ab' * 32}\n")
    text = printed(capsys, str(journal), "--rules", str(path))
    assert "of 60 decisions it would have made 39, 0 of them wrong" in text
    assert "no call of files/drop_all by coder is in this log" in text
    assert "files describes read_file otherwise by now" in text
    path.write_text("rules:\n  - approve all\n  - 3\n")
    assert "a rule is a sentence" in printed(capsys, str(journal), "--rules", str(path), status=1)
    path.write_text("rules:\n  - approve all\n")
    assert "this is no rule" in printed(capsys, str(journal), "--rules", str(path), status=1)


def test_a_journal_without_decisions_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = DecidedSession()
    session.propose(path="docs/a")
    path = keep(session.stage.records, tmp_path / "j.jsonl")
    assert "No decision in this log teaches a rule" in printed(capsys, str(path), "--frontier")
