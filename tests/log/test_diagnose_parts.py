"""The diagnosis of a part of a log tells as a note what only the missing part could show, and finds no error that the
whole log has not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.diagnose.diagnosis import Diagnosis, diagnose
from mew_lab.log.export import export_as_peers
from mew_lab.log.log import open_log
from mew_lab.space.events import Record

from ..benchmarks.journals import write_journal
from ..conftest import examples
from .innocent import INNOCENT
from .planted import CLEAN, FAULTS, Conversation, converse
from .stage import keep, observed

ALL = (*CLEAN, *INNOCENT)
# These are as true of the part: nobody answers a request to a participant that is not there, and a loop and another
# clock are told once, at the first message that shows them.
AS_TRUE = {"unanswered-request", "answer-loop", "clock-skew"}


def judged(records: Sequence[Record]) -> set[tuple[str, str, int]]:
    """The findings above a note."""
    return {
        (one.severity, one.rule, one.seq)
        for one in diagnose(records).at_least("warn")
        if one.rule not in AS_TRUE
    }


def conversation(seed: int) -> list[Record]:
    faults = Random(seed).sample(FAULTS, 4) if seed % 2 else []
    return converse(seed, 30, *faults, kinds=ALL)[0]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(12), deadline=None)
def test_a_log_without_its_beginning_has_no_finding_above_a_note_that_the_whole_has_not(seed: int) -> None:
    records = conversation(seed)
    whole, dice = judged(records), Random(seed)
    for cut in dice.sample(range(1, len(records)), 8):
        assert judged(records[cut:]) <= whole, cut


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(12), deadline=None)
def test_a_log_that_misses_lines_has_no_error_that_the_whole_has_not(seed: int) -> None:
    """Only what refers to what is missing is concerned: a rule about a missing answer or leave is a warning, still."""
    records, dice = conversation(seed), Random(seed)
    whole = {one for one in judged(records) if one[0] in ("error", "fatal")}
    for _ in range(8):
        start = dice.randrange(1, len(records))
        part = [*records[:start], *records[start + dice.randint(1, 40) :]]
        found = {one for one in judged(part) if one[0] in ("error", "fatal")}
        assert found <= whole, start


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(8), deadline=None)
def test_a_log_without_its_end_has_no_error_that_the_whole_has_not(seed: int) -> None:
    records, dice = conversation(seed), Random(seed)
    whole = {one for one in judged(records) if one[0] in ("error", "fatal")}
    for cut in dice.sample(range(1, len(records)), 8):
        assert {one for one in judged(records[:cut]) if one[0] in ("error", "fatal")} <= whole, cut


@pytest.mark.parametrize("seed", range(0, 8, 2))  # a planted fault may be one that no space records
def test_the_files_of_the_peers_have_no_error_that_the_journal_has_not(seed: int, tmp_path: Path) -> None:
    """Whole, and without the first lines of the history."""
    records = conversation(seed)
    errors = {one.id for one in diagnose(records).at_least("error")}
    export_as_peers(keep(records, tmp_path / "j.jsonl"), tmp_path)
    history = tmp_path / "envelope-history.jsonl"
    lines = history.read_bytes().splitlines(keepends=True)
    for cut in (0, *Random(seed).sample(range(1, len(lines)), 6)):
        history.write_bytes(b"".join(lines[cut:]))
        found = open_log([history, tmp_path / "capability-decisions.jsonl"]).diagnose("error")
        assert {one.id for one in found} <= errors, (cut, found)


def test_a_clean_journal_of_a_long_session_has_no_finding_above_a_note_without_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j.jsonl"
    write_journal(path, 600_000)
    records = [*open_log(path).records]
    whole = judged(records)
    for cut in Random(1).sample(range(1, len(records)), 40):
        assert judged(records[cut:]) <= whole, cut


def test_a_log_saved_from_a_part_has_the_findings_of_the_part(tmp_path: Path) -> None:
    records = conversation(7)
    for n, cut in enumerate(Random(3).sample(range(1, len(records)), 5)):
        part = observed(records[cut:], space="demo")
        saved = open_log(part.save(tmp_path / f"{n}.jsonl").path)
        assert [(one.severity, one.rule, one.id) for one in saved.diagnose()] == [
            (one.severity, one.rule, one.id) for one in part.diagnose()
        ]


def answers_nothing(c: Conversation) -> None:
    c.send("tool", "mcp/response", {"jsonrpc": "2.0", "id": 1, "result": {}}, correlation_id=["gone"])


def test_a_note_says_that_the_log_is_not_whole_and_the_error_of_a_whole_log_stays() -> None:
    conversation = Conversation(1)
    answers_nothing(conversation)
    [whole] = diagnose(conversation.records)
    assert (whole.severity, whole.rule) == ("error", "response-without-request")
    assert whole.sentence == "tool's response m-1 answers gone, which is no request of this log"
    [part] = diagnose(conversation.records[1:])
    assert (part.severity, part.rule) == ("note", "response-without-request")
    assert part.sentence == (
        "tool's response m-1 answers gone, which is no request of this log; an earlier record may show it, and this log "
        "does not hold all of them"
    )


def test_a_name_that_is_not_the_senders_stays_fatal_where_the_log_shows_whose_it_is() -> None:
    conversation = Conversation(1)
    id = conversation.send("tool", "chat", {"text": "hi"})
    forged = [
        record._replace(raw=record.raw.replace('"from":"tool"', '"from":"anna"'))
        if record.raw is not None and f'"{id}"' in record.raw
        else record
        for record in conversation.records
    ]
    assert (diagnose(forged).worst, diagnose(forged).counts) == ("fatal", {"sender-not-verified": 1})
    joins = next(n for n, record in enumerate(forged) if record.event == "joined")
    assert diagnose(forged[joins:]).worst == "fatal"
    [note] = diagnose(forged[-1:])
    assert (note.severity, note.rule) == ("note", "sender-not-verified")
    assert note.sentence == (
        "chat m-1 says that it comes from anna, and tool sent it; the join of that connection is not in this log"
    )


def test_findings_beyond_the_limit_are_counted_by_their_severity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.log.diagnose.diagnosis.MAX_FINDINGS", 2)
    conversation = Conversation(1)
    for _ in range(5):
        answers_nothing(conversation)
    found = diagnose(conversation.records[1:])
    assert (found.worst, found.unkept) == ("note", {"response-without-request": 3})
    assert found.summary.endswith(": 5 note")
    assert not found.at_least("warn").counts
    assert Diagnosis.of_rows(found.rows, ()).summary == found.summary
