"""A log of files, or one that grows: read in the order received, saved whole or not at all."""

from __future__ import annotations

import gc
import json
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import pytest

from mew_lab.errors import JournalError
from mew_lab.log.build import Reached, add_lines
from mew_lab.log.journal import Journal, read_journal
from mew_lab.log.log import Log, SavedLog, open_log
from mew_lab.log.table import Column
from mew_lab.space.events import Record

from .stage import keep, observed

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)


def record(seq: int, text: str = "hi") -> Record:
    raw = json.dumps({"kind": "chat", "id": f"m-{seq}", "payload": {"text": text}})
    now = NOW + timedelta(milliseconds=seq)
    return Record(seq, now, "received", "demo", "bot", "c1", "memory", "accepted", raw=raw)


JOINED = Record(1, NOW, "joined", "demo", "bot", detail="bot-1")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    journal = Journal(tmp_path / "session.jsonl", epoch=7)
    journal.append([JOINED, record(2), record(3)])
    journal.close()
    return journal.path


def test_a_file_is_a_log(session: Path) -> None:
    log = open_log(session)
    assert (log.space, log.vantage) == ("demo", "gateway")
    assert list(log.df["id"]) == ["m-2", "m-3"]
    assert len(log) == 2
    assert [members["id"] for members in log] == ["m-2", "m-3"]
    assert [one.event for one in log.records] == ["opened", "joined", "received", "received"]
    assert log.faults == ()
    assert repr(log) == "<Log of demo: 2 messages, seen as a gateway>"


def test_opening_reads_no_further_than_it_must(session: Path) -> None:
    log = open_log(str(session))
    assert repr(log) == "<Log of demo: not read yet, seen as a gateway>"
    assert len(log) == 2
    assert not hasattr(log, "_repr_html_")


def test_a_log_of_large_files_keeps_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)

    def alive() -> int:
        gc.collect()
        return sum(type(one) is Record for one in gc.get_objects())

    journal = Journal(tmp_path / "j.jsonl")
    journal.append(record(seq) for seq in range(500))
    before = alive()
    log = open_log(journal.path, index=False)
    assert len(log.df) == len(log) == 500
    assert alive() - before < 50
    held = list(log.records)
    assert alive() - before == len(held) == 501


def test_columns_and_events_of_your_own(session: Path) -> None:
    frame = open_log(session).table([Column("event", "object", "", lambda e: e.record.event)], events=True)
    assert list(frame["event"]) == ["opened", "joined", "received", "received"]


def test_a_table_of_yours_changes_no_log(session: Path) -> None:
    log = open_log(session)
    mine = log.df
    mine["mine"] = 1
    assert "mine" not in log.df.columns
    assert len(log.df.drop(index=0)) == 1
    assert len(log.df) == 2


def test_rotated_files_are_one_log_whether_named_by_the_first_or_by_the_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=1500)
    for seq in range(1, 61):
        journal.append([record(seq)])
    journal.close()
    assert len(journal.paths) > 10  # so that -10 must follow -9, not -1
    expected = [f"m-{seq}" for seq in range(1, 61)]
    for place in (journal.paths[0], tmp_path):
        log = open_log(place)
        assert list(log.df["id"]) == expected
        assert len(log) == 60
    assert list(open_log(journal.paths[1]).df["id"]) != expected


def test_a_stranger_beside_a_journal_is_not_its_continuation(session: Path) -> None:
    keep([record(50)], session.with_name("session-2.jsonl"))
    session.with_name("session-3.jsonl").write_text("no journal\n")
    assert list(open_log(session).df["id"]) == ["m-2", "m-3"]
    session.with_name("session-2.jsonl").write_text("no journal\n")
    assert list(open_log(session).df["id"]) == ["m-2", "m-3"]


def test_a_folder_may_hold_other_things(session: Path) -> None:
    (session.parent / "notes.jsonl").write_text("hello\n")
    (session.parent / "empty.jsonl").touch()
    (session.parent / "token").touch()
    assert len(open_log(session.parent)) == 2


def test_a_folder_without_a_journal_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"There is no journal in .*\. Name a folder"):
        open_log(tmp_path)
    with pytest.raises(JournalError, match="Cannot read the journal"):
        open_log(tmp_path / "absent.jsonl")


@pytest.mark.trap("T-27")
def test_faults_are_told_as_sentences_and_the_rest_is_read(session: Path) -> None:
    lines = len(session.read_bytes().splitlines())
    with session.open("ab") as file:
        file.write(b'garbage\n{"seq":9,"now')
    log = open_log(session)
    assert log.faults == (
        f"session.jsonl: 1 line could not be read: line {lines + 1} is not a whole record",
        "session.jsonl: the last line is torn and was left out",
    )
    assert list(log.df["id"]) == ["m-2", "m-3"]


@pytest.mark.threat(33)
def test_nothing_is_sorted_by_what_senders_claim(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    claims = ["2036-01-01T00:00:00Z", "2016-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    for seq, ts in enumerate(claims, 1):
        raw = json.dumps({"kind": "chat", "id": f"m-{seq}", "ts": ts})
        journal.append([record(seq)._replace(raw=raw)])
    log = open_log(journal.path)
    log.save(tmp_path / "saved.jsonl")
    for one in (log, open_log(tmp_path / "saved.jsonl")):
        assert list(one.df["ts"]) == claims
        assert [members["ts"] for members in one] == claims


# --- saving ---


def test_a_saved_log_is_the_log(session: Path, tmp_path: Path) -> None:
    log = open_log(session)
    saved = log.save(tmp_path / "copy.jsonl")
    assert saved == SavedLog(tmp_path / "copy.jsonl", 2, "")
    assert str(saved) == f"Saved 2 messages to {tmp_path / 'copy.jsonl'}."
    assert stat.S_IMODE(saved.path.stat().st_mode) == 0o600
    assert open_log(saved.path).df.equals(log.df)
    opened, *rest = read_journal(saved.path)
    assert json.loads(opened.detail) == {"format": 1, "epoch": 7, "vantage": "gateway"}
    assert rest == list(log.records)[1:]


def test_saving_replaces_what_stood_there_also_the_log_itself(session: Path) -> None:
    before = list(open_log(session).records)
    open_log(session).save(session)
    assert list(open_log(session).records) == before
    assert [path.name for path in session.parent.iterdir()] == ["session.jsonl"]


def test_what_a_participant_could_not_see_is_said(tmp_path: Path) -> None:
    log = Log.live(space="demo", vantage="participant")
    log.observe(record(1)._replace(verdict=""))
    saved = log.save(tmp_path / "seen.jsonl")
    assert "refused messages" in saved.unseen
    assert str(saved).endswith(saved.unseen)
    again = open_log(saved.path)
    assert again.vantage == "participant"
    assert list(again.df["verdict"]) == [""]
    assert json.loads(next(read_journal(saved.path)).detail)["unseen"] == saved.unseen


def test_a_journal_torn_within_its_first_line_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text('{"seq":0,"now":"2026')
    log = open_log(tmp_path / "j.jsonl")
    assert (len(log), log.space, len(log.df)) == (0, "", 0)
    assert log.faults == ("j.jsonl: the last line is torn and was left out",)


def test_an_empty_log_can_be_saved_and_opened(tmp_path: Path) -> None:
    Log.live(space="demo").save(tmp_path / "none.jsonl")
    log = open_log(tmp_path / "none.jsonl")
    assert (len(log), log.space, list(log.df["id"])) == (0, "demo", [])


def test_a_place_that_cannot_be_written_leaves_all_as_it_was(session: Path, tmp_path: Path) -> None:
    log = open_log(session)
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", tmp_path / "absent" / "x.jsonl", Path(), tmp_path / "a\0b"):
        with pytest.raises(JournalError, match="Cannot save the log to"):
            log.save(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "session.jsonl"]


def test_a_log_that_fails_half_way_leaves_the_old_file(session: Path, tmp_path: Path) -> None:
    log = open_log(session)
    target = tmp_path / "old.jsonl"
    target.write_text("precious")
    session.write_text("no journal any more\n")
    with pytest.raises(JournalError, match="is not a journal"):
        log.save(target)
    assert target.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.jsonl", "session.jsonl"]


@pytest.mark.threat(27)
def test_saving_over_a_link_replaces_the_link(session: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link.jsonl").symlink_to(victim)
    open_log(session).save(tmp_path / "link.jsonl")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "link.jsonl").is_symlink()


# --- live ---


def test_a_live_log_grows_and_its_table_with_it() -> None:
    log = Log.live(space="demo")
    assert (len(log), len(log.df)) == (0, 0)
    log.observe(JOINED)
    log.observe(record(2))
    assert list(log.df["id"]) == ["m-2"]
    log.observe(JOINED._replace(seq=3, event="left"))
    assert list(log.df["id"]) == ["m-2"]
    log.observe(record(4))
    assert list(log.df["id"]) == ["m-2", "m-4"]
    assert list(log.df.index) == [0, 1]
    assert str(log.df["payload"].dtype) == "mew_payload"
    assert len(log) == 2
    assert [one.seq for one in log.records] == [1, 2, 3, 4]
    assert log.faults == ()
    assert repr(log) == "<Log of demo: 2 messages, seen as a gateway>"


def test_a_list_of_records_taken_stays_as_it_was() -> None:
    log = Log.live()
    log.observe(record(1))
    taken = list(log.records)
    log.observe(record(2))
    assert [one.seq for one in taken] == [1]


@pytest.mark.threat(9)
@pytest.mark.parametrize("often", [1, 700, 10_000])
def test_old_records_leave_the_memory_and_come_back_from_the_journal(tmp_path: Path, often: int) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=200_000)
    log = Log.live(space="demo", journal=journal, max_records=100)
    for seq in range(1, 4001):
        journal.append([record(seq)])
        log.observe(record(seq))
        if seq % often == 0 and seq < 200 * often:
            assert len(log.df) == seq
    assert len(log.held) < 100 + 25 + 1024 + 1
    assert len(journal.paths) > 1
    assert list(log.df["seq"]) == list(range(1, 4001))
    assert [one.seq for one in log.records if one.event != "opened"] == list(range(1, 4001))
    assert len(log) == 4000


@pytest.mark.parametrize("rotate_at", [100_000, 10**9])
def test_a_table_grows_by_what_came_since_though_that_has_left_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotate_at: int
) -> None:
    read = [0]

    def counted(*given: Any) -> tuple[Reached, int]:
        reached, rows = add_lines(*given)
        read[0] += rows
        return reached, rows

    monkeypatch.setattr("mew_lab.log.index.add_lines", counted)
    journal = Journal(tmp_path / "j.jsonl", rotate_at=rotate_at)
    log = Log.live(space="demo", journal=journal, max_records=100)
    for seq in range(1, 12_001):
        journal.append([record(seq)])
        log.observe(record(seq))
        if seq == 10_000:
            assert len(log.df) == 10_000
            read[0] = 0
    assert list(log.df["seq"]) == list(range(1, 12_001))
    assert 0 < read[0] <= 2000 + 3 * len(journal.paths), "only what came since is read"
    assert log.df.equals(open_log(journal.paths[0]).df)


def large_tables() -> int:
    """How many tables of fifty rows and more this process holds."""
    return sum(isinstance(one, pandas.DataFrame) and len(one) >= 50 for one in gc.get_objects())


def test_a_large_table_is_let_go_with_the_last_that_was_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.log.answers.FRAME_ROWS", 50)
    gc.collect()
    others = large_tables()
    log = Log.live(space="demo")
    for seq in range(1, 51):
        log.observe(record(seq))
    first = log.df
    assert len(first) == 50
    log.observe(record(51))
    first, second = log.df, log.df
    del first
    assert large_tables() > others, "the other is still in use"
    assert len(second) == 51
    del second
    assert large_tables() == others
    assert list(log.df["seq"]) == list(range(1, 52))


def test_what_the_journal_already_holds_but_the_log_has_not_seen_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    log = Log.live(journal=journal, max_records=10)
    for seq in range(1, 2001):
        journal.append([record(seq)])
        log.observe(record(seq))
    journal.append([record(2001)])
    assert len(log.df) == 2000
    log.observe(record(2001))
    assert list(log.df["seq"])[-2:] == [2000, 2001]


def test_without_a_journal_the_newest_are_kept() -> None:
    log = Log.live(max_records=10)
    for seq in range(1, 3001):
        log.observe(record(seq))
    seqs = list(log.df["seq"])
    assert len(seqs) >= 10
    assert seqs == list(range(3001 - len(seqs), 3001))
    assert len(log) == 3000


@pytest.mark.threat(9)
def test_large_messages_leave_the_memory_by_their_size(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    log = Log.live(space="demo", journal=journal, max_characters=100_000)
    for seq in range(1, 101):
        one = record(seq)
        one = one._replace(raw=json.dumps(json.loads(one.raw or "") | {"more": "x" * 9_900}))
        journal.append([one])
        log.observe(one)
        held = sum(len(kept.raw or "") for kept in log.held)
        assert held <= 110_000
    assert 4 <= len(log.held) <= 11 and log.held[-1].seq == 100
    assert list(log.df["seq"]) == list(range(1, 101)) and len(log) == 100
    huge = record(101)._replace(raw="x" * 300_000)
    journal.append([huge])
    log.observe(huge)
    assert [one.seq for one in log.held] == [101], "what came last can always be looked at"


def test_a_table_can_be_taken_while_another_thread_observes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    log = Log.live(journal=journal, max_records=200)
    done = threading.Event()

    def run() -> None:
        for seq in range(1, 6001):
            journal.append([record(seq)])
            log.observe(record(seq))
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not done.is_set():
            seqs = list(log.df["seq"])
            assert seqs == list(range(1, len(seqs) + 1))
    finally:
        thread.join(60)
    assert list(log.df["seq"]) == list(range(1, 6001))


def test_a_saved_live_log_opens_as_it_was_seen(tmp_path: Path) -> None:
    log = observed((JOINED, record(2), record(3)), space="demo")
    saved = log.save(tmp_path / "live.jsonl")
    again = open_log(saved.path).df
    assert list(again["place"]) == [3, 4], "the copy begins with a line of its own"
    assert again.drop(columns="place").equals(log.df.drop(columns="place"))


def test_the_peers_folder_is_one_log(shared: Path) -> None:
    log = open_log(shared / "captures" / "8-typescript-agent")
    assert log.space == "scenario-8-typescript-agent"
    refused = [one for one in log.records if one.verdict == "refused"]
    assert [json.loads(one.detail)["required_capability"] for one in refused] == ["chat/acknowledge"]
    accepted = log.df[log.df["verdict"] == "accepted"]
    assert (accepted["pattern"] != "").all()
    assert log.faults == ()


def test_the_peers_log_saved_is_ours(shared: Path, tmp_path: Path) -> None:
    for session in sorted((shared / "captures").iterdir()):
        log = open_log(session)
        saved = log.save(tmp_path / f"{session.name}.jsonl")
        again = open_log(saved.path)
        # The copy begins with a line of its own, so each place is one more.
        assert again.df.drop(columns="place").equals(log.df.drop(columns="place"))
        assert [one for one in again.records if one.event != "opened"] == list(log.records)
