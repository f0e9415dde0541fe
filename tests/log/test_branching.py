"""A space goes on from any point of a journal, in a new one, with the state that it had there."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from mew_lab.errors import JournalError
from mew_lab.log.branching import begin_branch
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.replay import Player, replay
from mew_lab.log.resumption import resume_quickly
from mew_lab.space.events import Enrolled, Joined
from mew_lab.space.snapshot import snapshot

from .stage import hostile, keep


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_begins_with_the_state_of_its_place(seed: int, tmp_path: Path) -> None:
    stage = hostile(seed, 200)
    path = keep(stage.records, tmp_path / "j.jsonl", rotate_at=120_000)
    files = Journal.resume(path)
    paths = files.paths
    files.close()
    before = [one.read_bytes() for one in paths]
    for seq in Random(seed).sample(range(20, len(stage.records)), 8):
        player = Player("whole")
        for record in stage.records[: seq + 1]:
            player.take(record)
        target = tmp_path / f"branch-{seq}.jsonl"
        begin_branch(paths, seq, target=target, now=stage.now)
        begun = replay(target)
        assert json.loads(snapshot(begun.space)) == json.loads(snapshot(player.space))
        assert begun.space.epoch != stage.space.epoch, "no id of the gateway comes twice"
        assert (begun.void, begun.connections) == (player.end().void, player.end().connections)
        assert verify_chain(target).flaw is None
        quick = resume_quickly([target], name="branch")
        assert quick is None or json.loads(snapshot(quick.replayed.space)) == json.loads(
            snapshot(begun.space)
        )
        if begun.unwritten == ():
            at = open_log(target).at(begun.space.state.records)
            assert {one.participant for one in at.members} == set(player.space.state.members)
    assert [one.read_bytes() for one in paths] == before


def test_a_branch_goes_on_and_is_continued_by_further_files(tmp_path: Path) -> None:
    stage = hostile(1, 120)
    path = keep(stage.records, tmp_path / "j.jsonl")
    target = tmp_path / "branch.jsonl"
    begin_branch([path], 60, target=target, now=stage.now)
    space = replay(target).space
    journal = Journal.resume(target, rotate_at=40_000)
    now = stage.now
    for n in range(60):
        now += timedelta(milliseconds=5)
        for event in (
            Enrolled(f"new-{n}", ({"kind": "*"},)),
            Joined(f"n{n}", f"new-{n}", f"new-{n}", "memory"),
        ):
            journal.append([one for one in space.step(event, now) if type(one).__name__ == "Record"])
    paths = journal.paths
    journal.close()
    assert len(paths) > 1
    assert json.loads(snapshot(replay(target).space)) == json.loads(snapshot(space))
    quick = resume_quickly(paths, name="branch")
    assert quick is not None
    assert json.loads(snapshot(quick.replayed.space)) == json.loads(snapshot(space))


def test_a_journal_that_was_changed_has_no_branches(tmp_path: Path) -> None:
    stage = hostile(1, 60)
    path = keep(stage.records, tmp_path / "j.jsonl")
    whole = path.read_bytes()
    with pytest.raises(JournalError, match="it has no event there"):
        begin_branch([path], 10**6, target=tmp_path / "b.jsonl", now=stage.now)
    path.write_bytes(whole.replace(b"anna", b"anni", 1))
    with pytest.raises(JournalError, match=r"Cannot go on from #40 .* is not vouched for"):
        begin_branch([path], 40, target=tmp_path / "b.jsonl", now=stage.now)
    assert not (tmp_path / "b.jsonl").exists()
