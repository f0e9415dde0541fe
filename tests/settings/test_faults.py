"""Faults of settings have a key path, a sentence and no value; a name is spelt out where one is near."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from mew_lab.settings.faults import (
    Fault,
    NestedFaults,
    did_you_mean,
    faults_error,
    kind_of,
    model_faults,
    place,
)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    mode: Literal["fast", "slow"] = "fast"
    count: int = 0
    patterns: list[str] = []

    @field_validator("patterns")
    @classmethod
    def _judge(cls, patterns: list[str]) -> list[str]:
        if "bad" in patterns:
            raise NestedFaults(
                [Fault("[0].kind", "it is bad"), Fault("kind", "it is worse"), Fault("", "it is odd")]
            )
        return patterns


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parts: dict[str, list[Part]]


def faults_of(part: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"parts": {"bot": [part]}})
    return [str(fault) for fault in model_faults(caught.value, root=Whole)]


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"cuont": 1}, "parts.bot[0].cuont: there is no such key here; did you mean 'count'?"),
        (
            {"zzz": 1},
            "parts.bot[0].zzz: there is no such key here; known are mode, count, patterns, and x-… for notes of your own",
        ),
        ({"mode": "slwo"}, "parts.bot[0].mode: it must be 'fast' or 'slow'; did you mean 'slow'?"),
        ({"count": "canary"}, "parts.bot[0].count: it must be a whole number, not text"),
        ({"count": 1.5}, "parts.bot[0].count: it must be a whole number, not a number with a fraction"),
        (["canary"], "parts.bot[0]: it must be a mapping of keys to values, not a list"),
    ],
)
def test_each_fault_of_a_model_has_its_place_and_what_would_help(part: object, sentence: str) -> None:
    assert faults_of(part) == [sentence]


def test_the_faults_within_one_value_are_told_one_by_one() -> None:
    at = "parts.bot[0].patterns"
    assert faults_of({"patterns": ["bad"]}) == [
        f"{at}[0].kind: it is bad",
        f"{at}.kind: it is worse",
        f"{at}: it is odd",
    ]


def test_an_error_has_all_faults_a_line_each_and_the_first_key() -> None:
    error = faults_error([Fault("a.b", "it is odd"), Fault("", "it is empty")], "space.yaml")
    assert str(error) == "space.yaml has 2 faults:\n- a.b: it is odd\n- it is empty"
    assert (error.path, error.key) == ("space.yaml", "a.b")
    many = str(faults_error([Fault("a", "odd")] * 60, "f")).split("\n")
    assert (many[0], len(many), many[-1]) == ("f has 60 faults:", 52, "- and 10 more")


def test_a_key_path_shows_what_would_hide_and_is_short() -> None:
    assert place("", "participants", "bot", "tokens", 0) == "participants.bot.tokens[0]"
    assert place("a", "b\n\x1b\u202e\ud800", 3) == "a.b\\n\\x1b\\u202e\\ud800[3]"
    assert place("", "Größe") == "Größe"
    assert len(place("", "k" * 1_000_000)) == 80


def test_a_hint_names_the_nearest_or_is_empty() -> None:
    assert did_you_mean("spce", ["space", "token"]) == "did you mean 'space'?"
    assert did_you_mean("zzz", ["space", "token"]) == ""


def test_each_kind_of_value_has_its_words() -> None:
    values = [None, True, {}, [], (), 1.5, 1, "a", object()]
    words = "nothing|true or false|a mapping|a list|a list|a number with a fraction|a number|text|this"
    assert [kind_of(value) for value in values] == words.split("|")
