"""The small session that ships with the package: whole, private, and with one of everything that a lesson needs.

`tests/notebooks/record_session.py` made it; what it must hold is what that script does.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from mew_lab.log.log import open_log
from mew_lab.log.replay import replay

PATH = Path(str(files("mew_lab") / "data" / "garden.jsonl"))


def test_it_is_small_and_whole_and_replays() -> None:
    assert PATH.stat().st_size <= 300_000
    log = open_log(PATH)
    assert log.faults == () and len(log) > 50
    replay(PATH)  # raises where a fresh space would have recorded something else


def test_it_tells_nothing_of_where_it_was_made() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert not re.search(r"/tmp|/home|/root|/work|\.venv", text)
    assert not re.search(r'"token":"(?!<token>)', text.replace("\\", ""))


def test_it_has_one_of_everything() -> None:
    log = open_log(PATH)
    decisions = log.decisions().query("method == 'tools/call'")
    assert decisions["outcome"].value_counts().to_dict() == {
        "answered": 5,
        "failed": 1,
        "rejected": 1,
        "withdrawn": 1,
        "expired": 1,
    }
    assert decisions["way"].value_counts().to_dict() == {"proposal": 4, "grant": 2, "": 1}
    assert decisions["how"].value_counts().to_dict() == {"click": 4, "": 2, "policy": 1}
    assert (decisions["on_screen"].dropna() >= 2000).all(), "each card was read for some seconds"
    assert [changes for changes in decisions["changes"] if changes] == [("params.arguments.litres: 50 → 5",)]
    assert set(decisions["given_by"]) == {"", "human"}
    proposals = log.proposals()
    assert list(proposals["state"]) == ["answered"] * 3 + ["rejected", "answered", "withdrawn", "open"]
    assert proposals["claims"].sum() == 2, "a withdraw and an approval that guest may not claim"
    assert list(log.grants()["state"]) == ["revoked"]
    assert list(log.reasoning()["state"]) == ["concluded"] and list(log.streams()["state"]) == ["closed"]
    verdicts = log.verdicts()
    assert list(verdicts[verdicts["verdict"] == "refused"]["code"]) == ["capability_violation"]
    assert list(log.frame("telemetry")["tokens"]) == [420, 910, 1640, 2380, 3010, 3350]
