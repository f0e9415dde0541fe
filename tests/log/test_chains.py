"""What hangs together is found, whatever the peers claim."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.errors import JournalError
from mew_lab.log.chains import MOST_RELATED, Chains, chains_of
from mew_lab.log.entries import entries_of, entry_of
from mew_lab.space.events import Record

from ..holding import most_held

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(
    n: int, id: str, *about: str, verdict: str = "accepted", raw: str | None = None, **members: Any
) -> Record:
    said: dict[str, Any] = {"id": id, "from": "bot", "kind": "chat", "to": [], "payload": {}} | members
    if about:
        said["correlation_id"] = list(about)
    text = json.dumps(said) if raw is None else raw
    return Record(n, START + timedelta(seconds=n), "envelope", "demo", "bot", verdict=verdict, raw=text)


def ids(records: list[Record], which: str | int, **more: Any) -> tuple[str, ...]:
    return chains_of(records).exchange(which, **more).ids


@pytest.mark.req("P-3.2.1-8")
@pytest.mark.parametrize("which", range(2, 9))
def test_an_approval_of_several_steps_is_one_trail_with_who_did_what_wherever_one_begins(which: int) -> None:
    """A proposal is rejected, proposed anew, passed on by one who may only propose, fulfilled and answered."""
    story = [
        ("p1", "bot", "mcp/proposal", ()),
        ("no", "alice", "mcp/reject", ("p1",)),
        ("p2", "bot", "mcp/proposal", ("no",)),
        ("p3", "lead", "mcp/proposal", ("p2",)),
        ("yes", "alice", "mcp/request", ("p3",)),
        ("work", "git", "mcp/request", ("yes",)),
        ("done", "git", "mcp/response", ("yes",)),
    ]
    records = [record(1, "before", **{"from": "eve"})]
    for n, (id, who, kind, about) in enumerate(story, 2):
        records += [record(n, id, *about, kind=kind, **{"from": who})]
    records += [record(9, "after", **{"from": "eve"})]
    trail = chains_of(records).exchange(which)
    assert [(one.id, one.sender, one.kind, one.correlation_id) for one in trail.steps] == story


@pytest.mark.parametrize("which", ["env-req-1", "env-fulfill-1", "env-fulfill-resp-1", 3, "3"])
@pytest.mark.req("P-3.2.1-8")
def test_proposal_fulfilment_and_response_are_one_exchange_from_wherever_one_begins(which: str | int) -> None:
    records = [
        record(1, "before"),
        record(2, "env-req-1", kind="mcp/proposal"),
        record(3, "env-fulfill-1", "env-req-1", kind="mcp/request"),
        record(4, "between"),
        record(5, "env-fulfill-resp-1", "env-fulfill-1", kind="mcp/response"),
    ]
    assert ids(records, which) == ("env-req-1", "env-fulfill-1", "env-fulfill-resp-1")


def test_reasoning_belongs_to_what_it_began_with_by_its_context() -> None:
    records = [
        record(1, "req-123"),
        record(2, "reason-start-1", "req-123", kind="reasoning/start"),
        record(3, "thought-1", kind="reasoning/thought", context="reason-start-1"),
        record(4, "sub", kind="reasoning/start", context="reason-start-1"),
        record(5, "thought-2", kind="reasoning/thought", context="reason-start-1/sub"),
        record(6, "elsewhere", kind="reasoning/thought", context="another"),
    ]
    assert ids(records, "thought-2") == ("req-123", "reason-start-1", "thought-1", "sub", "thought-2")
    assert ids(records, "elsewhere") == ("elsewhere",)
    parts = [*records, record(7, "part", kind="reasoning/thought", context="reason-start-1/plan/first")]
    assert ids(parts, "part")[-2:] == ("thought-2", "part"), (
        "a part belongs to the sequence that it is a part of"
    )


def test_ids_that_name_each_other_in_a_ring_or_themselves_are_walked_once() -> None:
    records = [record(1, "a", "c"), record(2, "b", "a"), record(3, "c", "b"), record(4, "d", "d")]
    assert ids(records, "b") == ("a", "b", "c")
    assert ids(records, "d") == ("d",)


def test_an_id_that_names_nothing_connects_nothing() -> None:
    records = [record(1, "a", "nowhere"), record(2, "b", "elsewhere")]
    assert ids(records, "a") == ("a",)


def test_an_id_taken_twice_names_the_first_accepted_one() -> None:
    records = [
        record(1, "p", verdict="refused", **{"from": "eve"}),
        record(2, "p"),
        record(3, "p", **{"from": "eve"}),
        record(4, "answer", "p"),
    ]
    found = chains_of(records).exchange("answer")
    assert [step.seq for step in found.steps] == [2, 4]
    assert [step.seq for step in chains_of(records).exchange(3).steps] == [3]


def test_what_is_too_much_is_left_out_from_afar_and_counted() -> None:
    chain = [record(1, "e1"), *(record(n, f"e{n}", f"e{n - 1}") for n in range(2, 1001))]
    found = chains_of(chain).exchange("e500", most=5)
    assert found.ids == ("e498", "e499", "e500", "e501", "e502")
    assert found.left_out == 995
    claims = record(1001, "liar", *(f"e{n}" for n in range(1, 900)))
    whole = chains_of([*chain, claims]).exchange("liar", most=2000)
    assert len(whole.steps) == 1001, "what the liar claims hangs together already"
    alone = chains_of([*(record(n, f"e{n}") for n in range(1, 1001)), claims])
    assert len(alone.exchange("liar", most=2000).steps) == 1 + MOST_RELATED


def test_only_the_newest_are_held_and_what_was_dropped_leaves_nothing_behind() -> None:
    chains = Chains(most=10)
    for step in entries_of(record(n, f"e{n}", f"e{n - 1}") for n in range(1, 101)):
        chains.add(step)
        chains.add(step)
    assert len(chains) == 10
    assert chains.find("e90") is None and chains.find(90) is None
    assert chains.exchange("e100").ids == tuple(f"e{n}" for n in range(91, 101))
    assert most_held(chains) <= 11


@pytest.mark.threat(9)
def test_threat_09_long_envelopes_are_held_up_to_so_many_characters_and_the_last_always() -> None:
    chains = Chains(most=100, characters=3000)
    for entry in entries_of(record(n, f"m{n}", payload={"text": "x" * 900}) for n in range(1, 10)):
        chains.add(entry)
    assert [entry and entry.id for entry in map(chains.find, range(1, 10))] == [None] * 6 + ["m7", "m8", "m9"]
    chains.add(entry_of(record(10, "m10", payload={"text": "x" * 9000}), 10))
    assert len(chains) == 1 and chains.find(10) is not None


@pytest.mark.parametrize("which", ["nobody", 99, "#99", "", "²"])
def test_an_envelope_that_is_not_there_is_an_error_that_says_what_is(which: str | int) -> None:
    with pytest.raises(JournalError, match="1 held, from #1 on"):
        chains_of([record(1, "a")]).exchange(which)


def test_records_without_a_message_leave_a_gap_and_unreadable_ones_have_a_number() -> None:
    note = Record(1, START, "decided", "demo", "human")
    broken = record(3, "", raw="{nothing")
    steps = list(entries_of([note, record(2, "a"), broken, record(4, "b")]))
    assert [(step.seq, step.id) for step in steps] == [(2, "a"), (3, ""), (4, "b")]
    assert (steps[1].sender, steps[1].what, dict(steps[1].payload)) == ("bot", "unreadable message", {})


def test_an_exchange_tells_who_took_part_and_how_long() -> None:
    records = [record(1, "a", to=["git"]), record(5, "b", "a", **{"from": "git"}, to=["bot", "helper"])]
    found = chains_of(records).exchange("a")
    assert found.participants == ("bot", "git", "helper")
    assert found.seconds == 4.0
    assert repr(found) == "<Exchange of 2 messages in 4.00 s around #1>"


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.lists(st.sampled_from("abcdef"), max_size=4)),
        min_size=1,
        max_size=30,
    )
)
def test_no_claims_break_it(said: list[tuple[str, list[str]]]) -> None:
    chains = Chains(most=8)
    for step in entries_of(record(n, id, *about) for n, (id, about) in enumerate(said, 1)):
        chains.add(step)
    for seq in range(1, len(said) + 1):
        if chains.find(seq) is None:
            continue
        found = chains.exchange(seq, most=3)
        assert any(step.seq == seq for step in found.steps)
        assert len(found.steps) <= 3
        whole = chains.exchange(seq, most=100)
        assert len(found.steps) + found.left_out == len(whole.steps)
        for step in whole.steps:
            assert chains.exchange(step.seq, most=100).steps == whole.steps


def test_a_step_is_made_of_its_record_alone() -> None:
    refused = Record(
        7, START, "envelope", "demo", "eve", verdict="refused", code="capability_violation",
        raw='{"id": 3, "kind": ["x"], "to": "git", "correlation_id": "q", "payload": []}',
    )  # fmt: skip
    step = entry_of(refused, 7)
    assert (step.id, step.kind, step.sender, step.to, step.correlation_id) == (
        "",
        "",
        "eve",
        ("git",),
        ("q",),
    )
    assert step.refused and step.code == "capability_violation"
