"""Results that no message can hold, in a lab: the cell gets the whole, and so does the person who approved the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError, MewError, NotApproved, OutcomeUnknown
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import connect, up
from mew_lab.sdk.result_store import ResultLimits

pytestmark = [pytest.mark.ruling("R43"), pytest.mark.timeout(120)]
SIZE = 3_000_000


@pytest.fixture
def large(lab: Lab) -> Any:
    """A tool `notebook/large` in the lab's space."""

    @lab.tool
    def large(size: int = SIZE) -> str:
        "A text."
        return "é" * size

    return large


def test_the_cell_that_calls_gets_the_whole(lab: Lab, large: Any) -> None:
    pending = lab.call("notebook/large")
    result = pending.result(60)
    assert result.text == "é" * SIZE and pending.state == "answered"
    assert pending.result(60) is result, "it is loaded once"
    assert lab.load(pending).text == result.text
    assert "it forgets 1 result too large for a message (6,0" in str(lab.down())


def test_the_one_that_proposed_and_the_one_that_approved_get_it_and_a_small_one_stays_as_it_is(
    lab: Lab, large: Any
) -> None:
    clerk = lab.join("clerk", "proposer")
    pending = clerk.propose("notebook/large", {"size": SIZE})
    with pytest.raises(NotApproved):
        lab.approve(pending.id)
    lab.approve(pending.id)
    assert pending.result(60).text == "é" * SIZE
    assert lab.load(pending.id[:6]).text == "é" * SIZE
    small = lab.call("notebook/large", {"size": 3})
    assert small.result(20).text == "ééé" and lab.load(small).text == "ééé"
    for wrong in ("nothing", "#999999"):
        with pytest.raises(MewError):
            lab.load(wrong)


def test_where_it_cannot_be_loaded_the_answer_says_where_it_was_kept(
    lab: Lab, large: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.sdk.kept_results.MOST_READ", 1000)
    faults = len(lab.faults)
    pending = lab.call("notebook/large")
    result = pending.result(60)
    assert (
        result.text.startswith("It was executed. The result has 6000")
        and "mew-result://notebook/" in result.text
    )
    assert len(lab.faults) == faults + 1 and "at most 1000 are read" in str(lab.faults[-1])
    with pytest.raises(MewError, match="at most 1000 are read"):
        lab.load(pending)


def test_the_participants_of_a_lab_keep_what_it_is_told_to_keep(tmp_path: Path) -> None:
    limits = ResultLimits(result=2_000_000, total=3_000_000, seconds=60)
    server = Path(__file__).parent.parent / "bridge" / "heavy_server.py"
    lab = up("limited", journal=None, results=limits)
    other = connect(
        lab.url, space="limited", token_file=lab.token_file(), as_id="again", name="elsewhere", results=limits
    )
    try:
        lab.bridge("heavy", ["python", str(server)])
        lab.bridge("roomy", ["python", str(server)], results=ResultLimits())
        seats = [lab.me, lab.seat("notebook") if "notebook" in lab.seats else lab.join("bot"), other.me]
        for seat in (*seats, lab.seats["heavy"]):
            assert seat.participant.results.store.limits == limits, seat.name
        assert lab.seats["roomy"].participant.results.store.limits == ResultLimits()
        with pytest.raises(OutcomeUnknown, match="longer than 2065536 bytes"):
            lab.call("heavy/text", {"size": 2_500_000}).result(60)
        assert lab.call("roomy/text", {"size": 2_500_000}).result(60).raw["content"]
    finally:
        other.down()
        lab.down()
    for bad in (ResultLimits(result=-1), ResultLimits(seconds=0)):
        with pytest.raises(ConfigError):
            up("bad", journal=None, port=None, results=bad)
        with pytest.raises(ConfigError):
            connect("ws://127.0.0.1:1/ws", space="bad", token="x", results=bad)


def test_a_bridge_keeps_what_it_is_told_to_keep(lab: Lab, tmp_path: Path) -> None:
    server = Path(__file__).parent.parent / "bridge" / "heavy_server.py"
    lab.bridge("heavy", ["python", str(server)], results=ResultLimits(seconds=60, total=10_000_000))
    assert len(lab.call("heavy/text", {"size": 2_500_000}).result(60).raw["content"]) > 100_000
    for bad in (
        ResultLimits(result=-1),
        ResultLimits(seconds=0),
        ResultLimits(total=True),
        ResultLimits(seconds=1e9),
    ):
        with pytest.raises(ConfigError):
            lab.bridge("bad", ["python", str(server)], results=bad)
