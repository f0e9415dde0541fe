"""A journal is cut behind a snapshot: it replays, is gone on with, and its chain holds as before."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.cli import main
from mew_lab.errors import JournalError, MewError, ReplayMismatch
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.line import write_line
from mew_lab.log.log import open_log
from mew_lab.log.prune import Pruned, prune
from mew_lab.log.reading import first_record, read_journal
from mew_lab.log.replay import replay
from mew_lab.space.events import Enrolled, Joined, Noted, Received
from mew_lab.space.snapshot import snapshot

from ..conftest import examples
from .stage import Stage, says
from .test_integrity import Kept, KeptHead, lines_of, write

pytestmark = pytest.mark.ruling("R31")
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def yes(goes: Pruned) -> bool:
    return True


def cut(kept: Kept, keep: int = 1) -> Pruned:
    done = prune(kept.path, keep=keep, agree=yes, heads=tuple(kept.heads), clock=lambda: NOW)
    assert done is not None and done.head is not None
    kept.heads.append(done.head)
    return done


def state_of(path: Path) -> dict[str, object]:
    told: dict[str, object] = json.loads(snapshot(replay(path).space))
    return told


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_what_is_left_replays_to_the_same_space(tmp_path: Path, keep: int) -> None:
    kept = write(tmp_path, 3)
    before, records = state_of(kept.path), [one for one in open_log(kept.path).records if one.seq]
    sizes = {path: path.stat().st_size for path in kept.files}
    done = cut(kept, keep)
    assert done.files == kept.files[: len(kept.files) - keep]
    assert done.bytes == sum(sizes[path] for path in done.files) and str(done.records) in str(done)
    assert sorted(tmp_path.iterdir()) == sorted({kept.path, *kept.files[len(kept.files) - keep :]})
    after = state_of(kept.path)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"records"}  # by the note of it
    left = [one for one in open_log(kept.path).records if one.seq]
    assert left[:-1] == records[len(records) - len(left) + 1 :] and left[-1].event == "pruned"
    assert verify_chain(kept.path, kept.heads).flaw is None
    assert kept.path.stat().st_mode & 0o777 == 0o600


def test_the_snapshot_names_the_last_record_that_was_deleted_and_heads_of_the_others_are_looked_for(
    tmp_path: Path,
) -> None:
    kept = write(tmp_path, 3)
    *_, last = [one.seq for one in read_journal(kept.files[-3])]
    cut(kept, 2)
    opened = first_record(kept.path)
    assert opened is not None and json.loads(opened.detail)["pruned"]["seq"] == last
    integrity = verify_chain(kept.path, [*kept.heads, KeptHead(NOW, last + 1, "0" * 64)])
    assert integrity.flaw is not None and "is not in the chain" in integrity.flaw.why
    assert verify_chain(kept.path, [*kept.heads, KeptHead(NOW, last - 1, "0" * 64)]).flaw is None


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3), st.lists(st.integers(0, 2), max_size=3))
def test_it_is_gone_on_with_and_cut_again(
    tmp_path_factory: pytest.TempPathFactory, seed: int, keep: int, again: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    kept = write(folder, seed % 1000, events=30, rotate_at=6000)
    heads = kept.heads
    for nth, keeping in enumerate([keep, *again]):
        try:
            prune(kept.path, keep=keeping, agree=yes, heads=tuple(heads), clock=lambda: NOW)
        except JournalError as fault:
            assert "nothing is left to delete" in str(fault)
        replayed = replay(kept.path)
        space, now = replayed.space, max(NOW, replayed.last)
        journal = Journal.resume(kept.path, rotate_at=6000)
        for n in range(20):
            text = says("chat", f"again-{nth}-{n}", {"text": "a" * 300})
            event = Received(text, "c2") if n else Enrolled("bot", ({"kind": "*"},))
            journal.append([one for one in space.step(event, now) if hasattr(one, "seq")])
            heads.append(KeptHead(now, journal.head.seq, journal.head.chain.decode()))
        journal.close()
        found = verify_chain(kept.path, heads)
        assert found.flaw is None, found
        assert snapshot(replay(kept.path).space) == snapshot(space)
        names = [path.name for path in journal.paths]
        assert len(names) == len(set(names))


def test_only_who_agrees_deletes(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    shown: list[Pruned] = []

    def no(goes: Pruned) -> bool:
        shown.append(goes)
        return False

    assert prune(kept.path, agree=no) is None
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert all(path.name in str(shown[0]) for path in kept.files[:2])


def test_not_while_somebody_writes_it(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    journal = Journal.resume(kept.path)
    with pytest.raises(JournalError, match="another process is writing it"):
        cut(kept)
    journal.close()
    cut(kept)


def test_not_what_nothing_vouches_for(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    lines = lines_of(kept.files[1])
    kept.files[1].write_bytes(b"".join([*lines[:1], lines[1].replace(b"a", b"b", 1), *lines[2:]]))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(JournalError, match=f"line 2 of {kept.files[1].name} is not vouched for"):
        cut(kept)
    assert sorted(tmp_path.iterdir()) == before


def test_not_what_does_not_replay(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=1500)
    stage = Stage(epoch=1).play(Enrolled("ada", ({"kind": "*"},)), Joined("c1", "ada", "ada", "memory"))
    for n in range(10):
        stage.play(Received(says("chat", f"m-{n}"), "c1"))
    for record in stage.records:
        journal.append([record._replace(code="x") if record.seq == 5 else record])
    journal.close()
    with pytest.raises(MewError):
        prune(journal.paths[0], agree=yes)


def test_with_one_file_there_is_nothing_to_delete_but_all(tmp_path: Path) -> None:
    kept = write(tmp_path, 3, events=3, rotate_at=3000)
    for _ in range(2):
        with pytest.raises(JournalError, match="nothing is left to delete"):
            cut(kept, keep=9)
    cut(kept, keep=1)
    with pytest.raises(JournalError, match="nothing is left to delete"):
        cut(kept, keep=1)


def test_an_old_journal_without_a_chain_can_be_cut(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    for path in kept.files:
        path.write_bytes(b"".join(line[:-77] + b"}\n" for line in lines_of(path)))
    before = state_of(kept.path)
    prune(kept.path, agree=yes, clock=lambda: NOW)
    after = state_of(kept.path)
    assert {key for key in before if before[key] != after[key]} == {"records"}
    found = verify_chain(kept.path)
    assert found.flaw is None and found.unchained > 0 and found.chained > 0


@pytest.mark.threat(44)
def test_a_snapshot_that_was_changed_is_named(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    cut(kept)
    lines = lines_of(kept.path)
    kept.path.write_bytes(b"".join([lines[0], lines[1].replace(b"chat", b"chut", 1), *lines[2:]]))
    flaw = verify_chain(kept.path).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (kept.path, 2)


@pytest.mark.threat(44)
def test_a_snapshot_written_anew_with_a_chain_is_named_by_the_note_of_it(tmp_path: Path) -> None:
    from .test_integrity import rechained

    kept = write(tmp_path, 3)
    cut(kept)
    lines = lines_of(kept.path)
    chain = json.loads(json.loads(lines[0])["detail"])["pruned"]["chain"]
    lines[1] = lines[1].replace(b"chat", b"chut", 1)
    kept.path.write_bytes(b"".join(rechained(lines, chain)))
    flaw = verify_chain(kept.path).flaw
    assert flaw is not None and flaw.path == kept.path and "snapshot" in flaw.why


@pytest.mark.threat(44)
def test_a_snapshot_of_something_else_does_not_fit_what_follows(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    cut(kept)
    lines = lines_of(kept.path)
    chain = json.loads(json.loads(lines[0])["detail"])["pruned"]["chain"]
    kept.path.write_bytes(kept.path.read_bytes().replace(chain.encode(), b"0" * 64))
    assert verify_chain(kept.path).flaw is not None


@pytest.mark.threat(44)
@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_head_that_a_prune_gives_vouches_for_what_is_left(tmp_path: Path, keep: int) -> None:
    kept = write(tmp_path, 3)
    cut(kept, keep)
    found = verify_chain(kept.path, kept.heads)
    assert (found.flaw, found.behind, found.latest) == (None, 0, NOW)
    assert "kept head" in str(found)


@pytest.mark.threat(44)
@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_snapshot_that_somebody_else_made_is_not_vouched_for(tmp_path: Path, keep: int) -> None:
    """The very files that a prune makes, of another state, by a writer of the journal that has no place for heads."""
    kept = write(tmp_path, 3)
    cut(kept._replace(heads=list(kept.heads)), keep)
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (kept.path, 1) and "none after it" in flaw.why


@pytest.mark.threat(44)
def test_a_snapshot_that_says_it_stands_for_all_heads_is_not_vouched_for(tmp_path: Path) -> None:
    from .test_integrity import rechained

    kept = write(tmp_path, 3)
    cut(kept, 0)
    lines = lines_of(kept.path)
    chain = json.loads(json.loads(lines[0])["detail"])["pruned"]["chain"]
    seq = json.loads(json.loads(lines[0])["detail"])["pruned"]["seq"]
    forged = lines[0].replace(f'\\"seq\\":{seq}'.encode(), b'\\"seq\\":999999')
    assert forged != lines[0]
    kept.path.write_bytes(
        b"".join(rechained([forged, lines[1].replace(b"chat", b"chut", 1), *lines[2:]], chain))
    )
    flaw = verify_chain(kept.path, kept.heads).flaw
    assert flaw is not None and flaw.path == kept.path


@pytest.mark.threat(44)
def test_a_snapshot_without_a_note_of_it_is_not_vouched_for(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    whole = kept.files[-1].read_bytes()
    cut(kept)
    kept.files[-1].write_bytes(whole)  # as it was: nothing in it tells of a snapshot
    flaw = verify_chain(kept.path).flaw
    assert flaw is not None and flaw.path == kept.path and "no later note" in flaw.why


@pytest.mark.parametrize("keep", [0, 1])
def test_a_kill_before_the_snapshot_takes_its_place_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    """The note may stand there already; it tells of no snapshot that is there, and the next prune goes through."""
    kept = write(tmp_path, 3)

    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        cut(kept, keep)
    assert all(path.exists() for path in kept.files)
    assert verify_chain(kept.path, kept.heads).flaw is None
    cut(kept, keep)
    assert verify_chain(kept.path, kept.heads).flaw is None


def test_a_kill_between_snapshot_and_deletion_leaves_a_journal_that_goes_on(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    left = {path: path.read_bytes() for path in kept.files[1:-1]}
    before = state_of(kept.path)
    cut(kept)
    for path, data in left.items():
        path.write_bytes(data)
    after = state_of(kept.path)
    assert {key for key in before if before[key] != after[key]} == {"records"}
    assert verify_chain(kept.path, kept.heads).flaw is None
    journal = Journal.resume(kept.path, rotate_at=1000)
    stage = Stage(epoch=2).play(*[Noted("x", "", "a" * 300)] * 5)
    for record in stage.records[1:]:
        journal.append([record])
    journal.close()


def test_what_a_killed_gateway_left_unwritten_is_written_first(tmp_path: Path) -> None:
    kept = write(tmp_path, 3)
    last = kept.files[-1]
    lines = lines_of(last)
    last.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    cut(kept._replace(heads=[]))
    replay(kept.path)
    assert verify_chain(kept.path).flaw is None and not verify_chain(kept.path).torn


def test_a_snapshot_longer_than_a_line_stands_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.log.replay.PART", 100)
    kept = write(tmp_path, 3)
    before = state_of(kept.path)
    cut(kept)
    assert len(lines_of(kept.path)) > 10
    after = state_of(kept.path)
    assert {key for key in before if before[key] != after[key]} == {"records"}
    lines = lines_of(kept.path)
    kept.path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(MewError):
        replay(kept.path)


def test_a_record_called_snapshot_elsewhere_is_a_note_like_any(tmp_path: Path) -> None:
    stage = Stage(epoch=1).play(Noted("snapshot", "ada", '{"state":{}}'), Noted("x", "", ""))
    (tmp_path / "j.jsonl").write_bytes(b"".join(map(write_line, stage.records)))
    assert replay(tmp_path / "j.jsonl").events == 2


def test_random_places(tmp_path: Path) -> None:
    random = Random(4)
    for n in range(5):
        folder = tmp_path / str(n)
        folder.mkdir()
        kept = write(folder, random.randrange(1000), events=80, rotate_at=random.choice([5000, 20_000]))
        cut(kept, random.randrange(len(kept.files)))
        assert verify_chain(kept.path, kept.heads).flaw is None


@pytest.mark.parametrize("parts", ['\\"x\\"', "null", "-1", "0", "9", "true", "[]"])
def test_a_snapshot_that_does_not_tell_its_parts_is_no_journal_to_go_on_from(
    tmp_path: Path, parts: str
) -> None:
    kept = write(tmp_path, 3)
    cut(kept)
    data = kept.path.read_bytes()
    assert data.count(b'\\"parts\\":1') == 1
    kept.path.write_bytes(data.replace(b'\\"parts\\":1', b'\\"parts\\":' + parts.encode()))
    with pytest.raises((JournalError, ReplayMismatch)):
        replay(kept.path)


def test_a_file_that_could_not_be_deleted_is_not_counted_as_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kept, unlink = write(tmp_path, 3), Path.unlink
    held = kept.files[1]

    def hold(path: Path, missing_ok: bool = False) -> None:
        if path == held:
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", hold)
    assert main(["journal", "prune", str(kept.path), "--keep", "1", "--yes"]) == 0
    told = capsys.readouterr()
    assert f"Deleted {len(kept.files) - 2} file" in told.out
    assert f"{held} could not be deleted; nothing reads it" in told.err
    assert held.exists()
