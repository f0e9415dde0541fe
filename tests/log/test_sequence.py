"""An exchange as a diagram: a lifeline a participant, an arrow an envelope."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from mew_lab.log.chains import Exchange, chains_of
from mew_lab.log.drawing import Drawing
from mew_lab.log.sequence import MOST_LIFELINES, sequence
from mew_lab.space.events import Record

START = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "{http://www.w3.org/2000/svg}"


def exchange(*said: dict[str, Any], code: str = "") -> Exchange:
    records = [
        Record(
            n, START + timedelta(seconds=n), "envelope", participant="bot", verdict=one.pop("verdict", "accepted"), code=code,
            raw=json.dumps({"id": f"e{n}", "from": "bot", "kind": "chat", "correlation_id": ["e1"], "payload": {"text": "hello"}} | one),
        )
        for n, one in enumerate(said, 1)
    ]  # fmt: skip
    return chains_of(records).exchange("e1")


def rows(drawing: Drawing) -> list[ElementTree.Element]:
    return ElementTree.fromstring(drawing.svg()).findall(f"{SPACE}g")


def css(row: ElementTree.Element) -> str:
    return " ".join(node.get("class", "") for node in row.iter())


def heads(drawing: Drawing) -> list[str]:
    root = ElementTree.fromstring(drawing.svg())
    return [node.text or "" for node in root.findall(f"{SPACE}text") if "strong" in node.get("class", "")]


def test_each_participant_has_a_lifeline_and_each_envelope_a_row_with_number_time_and_words() -> None:
    drawing = sequence(
        exchange({"to": ["git"]}, {"from": "git", "to": ["bot"]}, {"from": "system:gateway", "to": ["bot"]})
    )
    assert heads(drawing) == ["bot", "git", "gateway"]
    first, second, _ = rows(drawing)
    assert [node.text for node in second.iter(f"{SPACE}text")] == [
        "#2",
        "+1.000 s",
        "chat",
        "↳#1 “hello”",
    ]
    assert first.get("data-seq") == "1"
    assert str(drawing).splitlines()[2] == "#2 +1.000 s git → bot: chat “hello”"


def test_what_was_refused_is_dashed_and_reaches_nobody() -> None:
    drawing = sequence(exchange({"to": ["git"], "verdict": "refused"}, code="capability_violation"))
    (row,) = rows(drawing)
    paths = [node.get("d", "") for node in row.iter(f"{SPACE}path") if "dashed" in node.get("class", "")]
    assert paths == ["M176 56 H246.4"], "it must end before the lifeline of git at 304"
    assert "cross" in css(row) and "is-error" in css(row)
    assert any("✗ capability_violation" in (node.text or "") for node in row.iter())
    assert "✗ refused: capability_violation" in str(drawing)


def test_what_is_addressed_to_nobody_goes_to_everybody_with_a_ring_at_each() -> None:
    _, second = rows(sequence(exchange({"to": ["git", "helper"]}, {})))
    assert css(second).count("ring") == 2 and "dotted" in css(second)


def test_many_addressees_are_one_line_with_a_head_at_each() -> None:
    first, _ = rows(sequence(exchange({"to": ["git", "helper", "human"]}, {"from": "human", "to": ["bot"]})))
    assert sum(" l-8 -4 v8 z" in node.get("d", "") for node in first.iter(f"{SPACE}path")) == 3


@pytest.mark.parametrize("verdict", ["accepted", "refused"])
def test_what_somebody_tells_herself_is_a_loop(verdict: str) -> None:
    (row,) = rows(sequence(exchange({"to": ["bot"], "verdict": verdict})))
    assert any("h24 v10 h-18" in node.get("d", "") for node in row.iter(f"{SPACE}path"))
    assert ("cross" in css(row)) == (verdict == "refused")


def test_a_crowd_shares_the_last_lifeline_and_the_diagram_says_so() -> None:
    drawing = sequence(exchange({"to": [f"p{n}" for n in range(5000)]}))
    assert (
        len(heads(drawing)) == MOST_LIFELINES and heads(drawing)[-1] == f"{5001 - MOST_LIFELINES + 1} others"
    )
    assert drawing.width < 3000 and len(drawing.svg()) < 20_000


def test_what_was_left_out_is_said() -> None:
    whole = chains_of(
        Record(
            n,
            START,
            "envelope",
            verdict="accepted",
            raw=json.dumps({"id": f"e{n}", "from": "a", "kind": "chat", "correlation_id": ["e1"]}),
        )
        for n in range(1, 301)
    ).exchange("e1")
    drawing = sequence(whole)
    assert len(rows(drawing)) == 200
    assert drawing.lines[-1] == "100 more related messages are not shown."


def test_an_unreadable_message_has_its_row() -> None:
    found = chains_of([Record(1, START, "envelope", participant="eve", verdict="refused", raw="{")]).exchange(
        1
    )
    assert "unreadable message" in sequence(found).svg()


def test_a_narrow_diagram_fits_a_phone_and_says_all_that_the_wide_one_does() -> None:
    what = "a long sentence that needs more than a line of any diagram " * 3
    some = exchange(
        {"to": ["git"], "payload": {"text": what}}, {"from": "git", "to": ["bot"]}, {"from": "human"}
    )
    wide, narrow = sequence(some), sequence(some, narrow=True)
    assert narrow.width <= 360 < wide.width and narrow.lines == wide.lines
    for drawing in (wide, narrow):
        first, second, _ = rows(drawing)
        sentence = [node.text or "" for node in first.iter(f"{SPACE}text") if "halo" in node.get("class", "")]
        assert len([line for line in sentence if "sentence" in line or "diagram" in line]) >= 2, (
            "it is wrapped"
        )
        # No line of a message runs into the next message.
        lowest = max(float(node.get("y", 0)) for node in first.iter(f"{SPACE}text"))
        highest = min(float(node.get("y", 0)) for node in second.iter(f"{SPACE}text"))
        assert lowest < highest
    assert all(float(node.get("x", 0)) < narrow.width for node in rows(narrow)[0].iter(f"{SPACE}text"))


def test_the_kind_of_a_message_does_not_run_over_its_lifelines() -> None:
    row, _ = rows(sequence(exchange({"kind": "reasoning/conclusion", "to": ["git"]}, {"kind": "chat"})))
    words = [node.text for node in row.iter(f"{SPACE}text")]
    assert "conclusion" in words and "reasoning/conclusion" not in words
