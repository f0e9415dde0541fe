"""What a person passes to the verbs of a log: numbers as a frame has them, and values of a wrong type."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import FilterError, JournalError
from mew_lab.log.log import Log, open_log

GARDEN = Path(str(files("mew_lab") / "data" / "garden.jsonl"))

VERBS: dict[str, Callable[[Log, Any], str]] = {
    "follow": lambda log, seq: log.follow(seq).text,
    "audit": lambda log, seq: str(log.audit(seq)),
    "at": lambda log, seq: str(log.at(seq)),
    "select": lambda log, seq: log.select(seq).to_jsonl(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_number_out_of_a_frame_names_the_same_message_as_a_whole_number(verb: str) -> None:
    log = open_log(GARDEN)
    for seq in (log.df["seq"].iloc[20], log.requests()["seq"].iloc[0]):
        assert type(seq) is not int
        assert VERBS[verb](log, seq) == VERBS[verb](log, int(seq))


@pytest.mark.parametrize("which", [None, 1.5, True, [1], b"x", {}])
@pytest.mark.parametrize("verb", VERBS)
def test_a_message_is_named_by_its_id_or_its_seq(verb: str, which: Any) -> None:
    with pytest.raises(JournalError, match="named by"):
        VERBS[verb](open_log(GARDEN), which)


@pytest.mark.parametrize("path", [None, 5, 1.5, b"x.jsonl"])
def test_what_is_no_path_is_no_log(path: Any) -> None:
    with pytest.raises(JournalError, match="Name a file, a folder, a pattern, or a list of them"):
        open_log(path)


@pytest.mark.parametrize("text", [None, 5, b"kind == chat", ["kind"]])
def test_what_is_no_text_is_no_filter(text: Any) -> None:
    log = open_log(GARDEN)
    for part in (log, log.filter("kind == chat")):
        with pytest.raises(FilterError, match="A filter is a text"):
            part.filter(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("latency > 2 s", "2s"), ("not size <= 1 KiB", "1KiB"), ("(latency > 2 ms) or chat", "2ms")],
)
def test_a_unit_apart_from_its_number_is_no_word_to_search_for(text: str, meant: str) -> None:
    with pytest.raises(FilterError, match=f"write {meant}") as raised:
        open_log(GARDEN).filter(text)
    unit = meant.lstrip("12")
    assert text[raised.value.start : raised.value.end] == unit


def test_a_number_and_then_a_word_are_two_conditions() -> None:
    log = open_log(GARDEN)
    ids = [one["id"] for one in log.filter("size > 2 weather")]
    assert ids == [one["id"] for one in log.filter("size > 2 and weather")] != []


def test_an_empty_log_has_no_last_record() -> None:
    with pytest.raises(JournalError, match="has no record #3: it holds none"):
        open_log_of_nothing().at(3)


def open_log_of_nothing() -> Log:
    return Log.live(space="x")
