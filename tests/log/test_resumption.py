"""A journal that is resumed quickly leaves the space, and all beside it, as a full replay does."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal
from mew_lab.log.replay import CAUSED, replay
from mew_lab.log.resumption import goes_quickly, resume_quickly
from mew_lab.space.events import Enrolled, Joined, Received
from mew_lab.space.snapshot import snapshot
from mew_lab.space.state import LIMITS

from .stage import Stage, hostile, keep, says


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_a_hostile_session_is_resumed_as_by_a_full_replay(seed: int, tmp_path: Path) -> None:
    stage = hostile(seed, 300)
    dice = Random(seed)
    ends = {len(stage.records), *dice.sample(range(20, len(stage.records)), 25)}
    for end in sorted(ends):
        folder = tmp_path / str(end)
        folder.mkdir()
        path = keep(stage.records[:end], folder / "j.jsonl", rotate_at=100_000)
        whole = replay(path)
        journal = Journal.resume(path)
        quick = resume_quickly(journal.paths, name="j", recent=50)
        journal.close()
        assert quick is not None
        assert json.loads(snapshot(quick.replayed.space)) == json.loads(snapshot(whole.space)), end
        assert quick.replayed._replace(space=whole.space) == whole, end
        recent = [record for record in quick.recent() if record.event != "opened"]
        kept = stage.records[1:end]
        assert recent == kept[len(kept) - len(recent) :]
        assert len(recent) >= min(50, len(kept))
        enrolled = {one.participant: one.detail for one in kept if one.event == "enrolled"}
        assert quick.enrolled == enrolled


def test_the_newest_ids_are_remembered_up_to_the_share_of_each(tmp_path: Path) -> None:
    limits = LIMITS._replace(handles=40, share=4)
    stage = Stage(owner="anna", limits=limits).play(
        Enrolled("anna", ({"kind": "*"},)),
        *(Enrolled(f"b{n}", ({"kind": "mcp/*"},)) for n in range(9)),
        *(Joined(f"c{n}", f"b{n}", f"b{n}", "memory") for n in range(9)),
    )
    dice = Random(1)
    for n in range(400):
        speaker = dice.choice([0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8])
        if dice.random() < 0.02:
            stage.play(Joined(f"more-{n}", f"b{speaker}", f"b{speaker}-{n}", "memory"))
        id = f"m-{n}" if dice.random() < 0.8 else f"m-{n - dice.randint(1, 60)}"
        stage.play(
            Received(says(dice.choice(["mcp/request", "mcp/proposal"]), id, {"method": "x"}), f"c{speaker}")
        )
    path = keep(stage.records, tmp_path / "j.jsonl")
    whole = replay(path)
    quick = resume_quickly([path], name="j")
    assert quick is not None
    assert list(quick.replayed.space.state.handles.items()) == list(whole.space.state.handles.items())
    assert len(whole.space.state.handles) == 40


def test_what_a_killed_gateway_left_unwritten_is_known(tmp_path: Path) -> None:
    stage = hostile(2, 150)
    found = 0
    for end in range(30, len(stage.records), 7):
        if stage.records[end].event not in CAUSED:
            continue
        path = keep(stage.records[:end], tmp_path / f"{end}.jsonl")
        quick = resume_quickly([path], name="j")
        assert quick is not None
        assert quick.replayed.unwritten == replay(path).unwritten
        assert quick.replayed.unwritten
        found += 1
    assert found > 3


def test_only_a_journal_that_is_vouched_for_goes_quickly(tmp_path: Path) -> None:
    stage = hostile(1, 30)
    path = keep(stage.records, tmp_path / "j.jsonl")
    assert goes_quickly([path], verify_chain(path))
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
    plain = tmp_path / "plain.jsonl"
    plain.write_text(
        "".join(json.dumps({k: v for k, v in one.items() if k != "chain"}) + "\n" for one in lines)
    )
    assert not goes_quickly([plain], verify_chain(plain))
    path.write_bytes(path.read_bytes().replace(b"anna", b"anni", 1))
    assert not goes_quickly([path], verify_chain(path))
