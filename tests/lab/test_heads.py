"""Heads of the journal's chain are kept beside the tokens, and tell what a chain alone cannot."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mew_lab.cli import main
from mew_lab.errors import JournalError
from mew_lab.lab.heads import HeadKeeper
from mew_lab.lab.labs import up
from mew_lab.lab.resuming import Past
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.kept_heads import heads_path, keep_pruned, kept_heads
from mew_lab.log.prune import prune
from mew_lab.space.events import Noted, Record

pytestmark = pytest.mark.threat(44)


def a_session(messages: int = 5) -> tuple[Path, str]:
    """The journal of a lab that was up and is down, and the head that its owner was welcomed with."""
    lab = up("demo", port=None)
    journal = lab.host.journal.path if lab.host is not None and lab.host.journal is not None else None
    assert journal is not None
    for n in range(messages):
        lab.chat(f"message {n}")
    welcome = next(one for one in lab.log if one["kind"] == "system/welcome")
    lab.down()
    return journal, str(welcome["payload"]["journal_head"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_lab_keeps_heads_that_a_verification_finds_again(tmp_path: Path) -> None:
    journal, welcomed = a_session()
    file = heads_path(tmp_path, "demo")
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent == tmp_path / ".mew" / "tokens" / "demo"
    heads = kept_heads(journal)
    found = verify_chain(journal, heads)
    assert found.flaw is None and found.kept == len(heads) >= 2
    assert found.behind == 0, "the last head is that of the end"
    assert welcomed in journal.read_text()


def test_a_status_shows_eight_digits(tmp_path: Path) -> None:
    lab = up("demo", port=None)
    assert lab.host is not None and lab.host.journal is not None
    rows = dict(lab.status().rows)
    assert rows["journal head"] == lab.host.journal.head.chain[:8].decode()
    lab.down()


def test_replay_and_audit_name_what_nothing_vouches_for(capsys: pytest.CaptureFixture[str]) -> None:
    journal, _ = a_session()
    assert main(["replay", str(journal)]) == 0
    assert "lines in one chain" in capsys.readouterr().out
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines, 1) if b"message 3" in line)
    journal.write_bytes(whole.replace(b"message 3", b"message 9"))
    for words in (
        ["replay", str(journal)],
        ["audit", str(journal), "5"],
        ["journal", "verify", str(journal)],
    ):
        with pytest.raises(SystemExit) as status:
            main(words)
        assert status.value.code == 1
        assert f"line {at} of {journal.name} is not vouched for" in capsys.readouterr().out
    journal.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(SystemExit):
        main(["journal", "verify", str(journal)])
    assert "the end of the journal is missing" in capsys.readouterr().out


def test_the_heads_of_another_place_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, _ = a_session()
    file = heads_path(tmp_path, "demo").rename(tmp_path / "copy")
    assert main(["journal", "verify", str(journal)]) == 0
    assert "no head was kept elsewhere" in capsys.readouterr().out
    assert main(["journal", "verify", str(journal), "--heads", str(file)]) == 0
    assert "kept heads found" in capsys.readouterr().out
    assert main(["journal", "verify", str(journal), "--heads", "none"]) == 1


async def test_a_head_is_kept_each_while_and_only_when_it_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    keeper = HeadKeeper(journal, tmp_path, every=0.01, fault=pytest.fail)
    from mew_lab.space.core import Space

    space = Space("demo", epoch=7)
    file = heads_path(tmp_path, "demo")

    def append() -> None:
        from datetime import UTC, datetime

        journal.append(
            [one for one in space.step(Noted("x", "", ""), datetime.now(UTC)) if hasattr(one, "seq")]
        )

    append()
    keeper.start()
    assert len(file.read_text().splitlines()) == 1
    await asyncio.sleep(0.05)
    assert len(file.read_text().splitlines()) == 1
    append()
    async with asyncio.timeout(20):
        while len(file.read_text().splitlines()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    append()
    keeper.stop()
    assert [len(line.split(" ")) for line in file.read_text().splitlines()] == [4, 4, 4]
    assert verify_chain(journal.path, kept_heads(journal.path, file)).kept == 3


async def test_a_file_that_cannot_be_written_is_told_once_and_hinders_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    file = heads_path(tmp_path, "demo")
    file.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("")
    file.symlink_to(tmp_path / "elsewhere")
    faults: list[str] = []
    keeper = HeadKeeper(journal, tmp_path, fault=faults.append)
    keeper.start()
    keeper.keep()
    keeper.stop()
    assert len(faults) == 1 and "not kept" in faults[0]
    assert (tmp_path / "elsewhere").read_text() == ""


async def test_half_a_line_is_taken_away_and_a_readable_file_closed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7)
    file = heads_path(tmp_path, "demo")
    file.parent.mkdir(parents=True)
    file.write_text(f"2026-11-22T00:00:00+00:00 {7:016x} 0 {'0' * 64}\n2026-11-2")
    file.chmod(0o644)
    HeadKeeper(journal, tmp_path, fault=pytest.fail).keep()
    assert len(file.read_text().splitlines()) == 2 and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.ruling("R31")
def test_a_lab_goes_on_from_a_pruned_journal(tmp_path: Path) -> None:
    lab = up("demo")
    assert lab.host is not None and lab.host.journal is not None
    lab.host.journal.rotate_at = 4000
    lab.enrol("bot", "proposer")
    lab.join("boss", can="admin")
    lab.send("capability/grant", {"recipient": "bot", "capabilities": [{"kind": "chat"}]}, as_id="boss")
    for n in range(20):
        lab.chat(f"message {n} " + "a" * 200)
    journal, url = lab.host.journal.paths[0], lab.url
    state = {name: member.rights.texts for name, member in lab.host.core.state.members.items()}  # type: ignore[union-attr]
    lab.down()
    done = prune(journal, agree=lambda goes: True, heads=kept_heads(journal))
    assert done is not None and done.head is not None
    with pytest.raises(
        JournalError, match="it is a snapshot, and heads of this journal were kept, but none after it"
    ):
        Past(journal)
    keep_pruned(journal, None, done.head)
    assert len(list(journal.parent.glob("*.jsonl"))) == 2
    past = Past(journal)
    assert str(past.port) in url and past.is_enrolled("bot", past_of("proposer"))
    past.journal.close()
    again = up(resume=journal)
    try:
        assert again.url == url
        assert again.host is not None and again.host.core is not None
        now = {name: member.rights.texts for name, member in again.host.core.state.members.items()}
        assert now == state
        again.chat("after")
    finally:
        again.down()
    assert verify_chain(journal, kept_heads(journal)).flaw is None
    assert main(["replay", str(journal)]) == 0


def past_of(profile: str) -> list[dict[str, object]]:
    from mew_lab.lab.host import capabilities_of

    return capabilities_of(profile)


@pytest.mark.ruling("R31")
def test_prune_asks_and_shows_what_goes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lab = up("demo", port=None)
    assert lab.host is not None and lab.host.journal is not None
    lab.host.journal.rotate_at = 3000
    for n in range(20):
        lab.chat(f"message {n} " + "a" * 200)
    journal = lab.host.journal.paths[0]
    assert main(["journal", "prune", str(journal), "--yes"]) == 1
    assert "another process is writing it" in capsys.readouterr().err
    lab.down()
    before = sorted(journal.parent.iterdir())
    assert main(["journal", "prune", str(journal)]) == 1
    told = capsys.readouterr()
    assert "give --yes" in told.err and journal.name in told.out and "KiB" in told.out
    assert sorted(journal.parent.iterdir()) == before
    assert main(["journal", "prune", str(journal), "--keep", "2", "--yes"]) == 0
    assert "Deleted " in capsys.readouterr().out
    assert len(sorted(journal.parent.glob("*.jsonl"))) == 3
    for keep in ("1", "0"):
        assert main(["journal", "verify", str(journal)]) == 0
        told = capsys.readouterr().out
        assert "the last of" in told and "0 lines before the end" in told
        assert main(["journal", "prune", str(journal), "--keep", keep, "--yes"]) == 0
        file = heads_path(tmp_path, "demo")
        assert f"Its head is kept in {file}" in capsys.readouterr().out
        assert file.stat().st_mode & 0o777 == 0o600
    assert main(["journal", "verify", str(journal)]) == 0
    assert "0 lines before the end" in capsys.readouterr().out
    for words in (["--keep", "-1"], ["--keep", "x"]):
        with pytest.raises(SystemExit) as status:
            main(["journal", "prune", str(journal), *words])
        assert status.value.code == 2


@pytest.mark.threat(27)
@pytest.mark.parametrize("link", ["tokens", "tokens/demo"])
def test_no_head_is_kept_where_a_link_in_mew_leads(tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / ".mew" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=1)
    journal.append([Record(1, datetime.now(UTC), "noted", "demo")])
    told: list[str] = []
    HeadKeeper(journal, tmp_path, fault=told.append).keep()
    journal.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(told) == 1 and "is a link or no folder" in told[0]
