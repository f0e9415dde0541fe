"""Planted proposals: what is caught, what is missed, and that neither harms."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card
from mew_lab.lab.decisions.risks import risks
from mew_lab.lab.lab import Lab
from mew_lab.lab.training import ANSWER, FAMILIES, HARMLESS, Training

from .looking import approve


def planted(training: Training) -> dict[str, str]:
    return {id: one.family for id, one in training.planted.items()}


def shown(lab: Lab, id: str) -> Card:
    return lab.decisions.card(id)


@pytest.mark.threat(30)
def test_threat_30_what_was_caught_and_missed_is_counted_with_its_base(lab: Lab) -> None:
    training = Training(lab)
    assert "12 proposals of trainer wait for you" in str(training.plant(12, seed=4))
    assert len(lab.proposals()) == 12
    bad = [id for id, family in planted(training).items() if family]
    good = [id for id, family in planted(training).items() if not family]
    assert 4 <= len(bad) <= 6
    assert training.score().note == "0 of 0 planted ones caught; 12 still open"
    assert {row[1] for row in training.score()} == {"?"}, "nothing is told before the decision"
    for id in bad[1:]:
        lab.reject(id, "unsafe")
    approve(lab, bad[0])
    approve(lab, good[0])
    lab.reject(good[1])
    score = training.score()
    assert score.note.startswith(f"{len(bad) - 1} of {len(bad)} planted ones caught; 1 harmless one rejected")
    assert [row[2] for row in score].count("missed") == 1


@pytest.mark.threat(30)
def test_threat_30_an_approved_planted_one_does_nothing_and_says_so(lab: Lab) -> None:
    training = Training(lab)
    training.plant(12, seed=4)
    for wanted, answer in ((True, ANSWER), (False, HARMLESS)):
        id = next(id for id, family in planted(training).items() if bool(family) is wanted)
        approve(lab, id)
        told: list[Any] = []
        while not told:
            records = [json.loads(record.raw) for record in lab.log.held if record.raw]
            [request] = [
                one for one in records if one.get("correlation_id") == [id] and one["kind"] == "mcp/request"
            ]
            told = [one for one in records if one.get("correlation_id") == [request["id"]]]
        assert answer in json.dumps(told[0]["payload"])


def test_the_same_seed_plants_the_same(lab: Lab) -> None:
    one, two, other = Training(lab), Training(lab), Training(lab)
    one.plant(8, seed=1)
    two.plant(8, seed=1)
    other.plant(8, seed=2)
    calls = [[each.call for each in training.planted.values()] for training in (one, two, other)]
    assert calls[0] == calls[1] != calls[2]
    with pytest.raises(MewError, match="at least 2"):
        one.plant(1)


def test_harmless_ones_are_without_warning_but_for_the_address(lab: Lab) -> None:
    training = Training(lab)
    training.plant(50, seed=1)
    harmless = [one.call for one in training.planted.values() if not one.family]
    assert len(harmless) >= 25
    for tool, arguments in harmless:
        assert tool == "fetch" or risks(arguments) == ()


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("force push", "wrong recipient")]
)
def test_what_has_a_shape_is_named_on_its_card(family: str) -> None:
    for seed in range(10):
        assert risks(FAMILIES[family](random.Random(seed))[1]), family


def test_without_anything_planted_it_says_how(lab: Lab) -> None:
    assert "Training(lab).plant(10)" in str(Training(lab).score())
