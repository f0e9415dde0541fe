"""A journal is written as the files of the peers, whole or not at all, for its owner alone."""

from __future__ import annotations

import gzip
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mew_lab.cli import main
from mew_lab.errors import JournalError, MewError
from mew_lab.gateway.auth import mint, write_token_file
from mew_lab.log import export
from mew_lab.log.export import export_as_peers
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.peer_files import DECISIONS, HISTORY, JournalLines
from mew_lab.protocol.token import forget
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Joined, Received, Record
from mew_lab.space.opening import opening_record

from .sessions import session

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def journal(folder: Path, *, events: int = 150, rotate_at: int = 40_000) -> Path:
    space = Space("demo", epoch=3)
    kept = Journal(folder / "journal.jsonl", rotate_at=rotate_at)
    kept.append([opening_record(space, NOW)])
    now = NOW
    for event in session(space, 3, events):
        now += timedelta(milliseconds=7)
        kept.append([one for one in space.step(event, now) if type(one) is Record])
    kept.close()
    assert len(kept.paths) > 1
    return kept.paths[0]


def expected(path: Path) -> list[bytes]:
    """What has to stand in both files, made record by record."""
    maker = JournalLines("the journal")
    made = [maker.take(record) for record in open_log(path).records]
    return [
        "".join(line + "\n" for lines in some for line in lines).encode()
        for some in ([one.history for one in made], [one.decisions for one in made])
    ]


def test_both_files_hold_all_lines_of_all_files_of_the_journal(tmp_path: Path) -> None:
    path = journal(tmp_path)
    (tmp_path / "out").mkdir()
    done = export_as_peers(path, tmp_path / "out")
    found = [(tmp_path / "out" / name).read_bytes() for name in (HISTORY, DECISIONS)]
    assert found == expected(path) and all(found)
    assert [done.history_lines, done.decisions_lines] == [one.count(b"\n") for one in found]
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [DECISIONS, HISTORY]
    assert {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "out").iterdir()} == {0o600}


def test_what_is_there_already_is_kept_unless_it_is_forced(tmp_path: Path) -> None:
    path = journal(tmp_path)
    (tmp_path / DECISIONS).write_text("mine")
    with pytest.raises(
        MewError, match=r"capability-decisions.jsonl: it is there already; --force replaces it"
    ):
        export_as_peers(path, tmp_path)
    assert (tmp_path / DECISIONS).read_text() == "mine" and not (tmp_path / HISTORY).exists()
    export_as_peers(path, tmp_path, force=True)
    assert (tmp_path / DECISIONS).read_bytes() == expected(path)[1]


@pytest.mark.threat(27)
@pytest.mark.parametrize("force", [False, True])
def test_no_link_is_followed(tmp_path: Path, force: bool) -> None:
    path, outside = journal(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / HISTORY).symlink_to(outside / "mine")
    with pytest.raises(MewError, match="it is a link; name the folder itself"):
        export_as_peers(path, tmp_path / "link", force=force)
    with pytest.raises(MewError, match="is a link or no regular file"):
        export_as_peers(path, tmp_path, force=force)
    assert {one.name: one.read_text() for one in outside.iterdir()} == {"mine": "mine"}


def test_a_journal_that_does_not_replay_leaves_nothing_behind(tmp_path: Path) -> None:
    path = journal(tmp_path)
    (tmp_path / "out").mkdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:40] + lines[41:]))
    with pytest.raises(MewError, match="#4"):
        export_as_peers(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_journal_that_is_written_meanwhile_gives_what_it_holds_whole(tmp_path: Path) -> None:
    path = journal(tmp_path)
    last = open_log(path).records
    whole = expected(path)
    count = sum(1 for _ in last)
    with max(path.parent.glob("journal*.jsonl"), key=lambda one: one.stat().st_mtime_ns).open("ab") as file:
        file.write(b'{"seq":%d,"now":"2026-01-01T' % count)
    export_as_peers(path, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in (HISTORY, DECISIONS)] == whole


def test_a_long_journal_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "EVERY", 0.0)
    monkeypatch.setattr(export, "CHUNK", 20_000)
    said: list[str] = []
    export_as_peers(journal(tmp_path), tmp_path, progress=said.append)
    shares = [int(one.split()[-2]) for one in said]
    assert shares == sorted(shares) and len(set(shares)) > 2 and shares[-1] == 100


def test_the_command_says_what_it_wrote_or_what_would_help(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal(tmp_path)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert main(["export", "--as", "peers", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {HISTORY} (")
    failing = {
        (): f"cannot write {HISTORY}: it is there already; --force replaces it, --to names a folder",
        (
            "--to",
            str(tmp_path / "none"),
        ): f"cannot write to {tmp_path / 'none'}: there is no such folder; make it first",
        ("--to", str(path)): f"cannot write to {path}: there is no such folder; make it first",
    }
    for more, sentence in failing.items():
        assert main(["export", "--as", "peers", str(path), *more]) == 1
        assert capsys.readouterr().err == f"mew-lab export: {sentence}\n"
    assert main(["export", "--as", "peers", str(tmp_path / "no.jsonl")]) == 1
    assert "Cannot read the journal" in capsys.readouterr().err
    assert main(["export", "--as", "peers", HISTORY, "--to", str(tmp_path)]) == 1
    assert "is a log file of the peers already" in capsys.readouterr().err
    with pytest.raises(JournalError, match="is a log file of the peers already"):
        export_as_peers(HISTORY, tmp_path)


@pytest.mark.threat(1)
def test_a_token_whose_file_is_still_there_is_masked_where_somebody_has_said_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = mint()
    write_token_file(tmp_path / ".mew" / "tokens", "demo", "anna", token)
    space = Space("demo", epoch=3)
    kept = Journal(tmp_path / ".mew" / "demo" / "journal.jsonl")
    kept.append([opening_record(space, NOW)])
    said = f'{{"kind":"chat","payload":{{"text":"{token.reveal()}"}}}}'
    events = [
        Enrolled("anna", ({"kind": "*"},)),
        Joined("c1", "anna", "anna", "memory"),
        Received(said, "c1"),
    ]
    for event in events:
        kept.append([one for one in space.step(event, NOW) if type(one) is Record])
    kept.close()
    secret = token.reveal()
    forget(token)  # as in a process of its own
    assert main(["export", "--as", "peers", str(kept.path), "--to", str(tmp_path)]) == 0
    text = (tmp_path / HISTORY).read_text()
    assert secret not in text and text.count(f'"text":"tok_…{secret[-4:]}"') == 2


def test_a_packed_journal_is_named_as_such(tmp_path: Path) -> None:
    packed = tmp_path / "journal.jsonl.gz"
    packed.write_bytes(gzip.compress(journal(tmp_path).read_bytes()))
    with pytest.raises(JournalError, match=r"journal\.jsonl\.gz: it is packed\. Unpack it"):
        export_as_peers(packed, tmp_path)


def test_the_command_needs_to_be_told_whose_files() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mew_lab.cli", "export", "journal.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "--as" in done.stderr
