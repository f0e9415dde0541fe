"""What caused an envelope, and what it caused, among the rows that are held."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from mew_lab.lab.rows import Rows
from mew_lab.space.events import Record
from mew_lab.views.feed.detail import Chain, chain_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(*related: str | list[str], capacity: int = 1000) -> Rows:
    """Row n has the id `n` and names these."""
    rows = Rows(lambda: ("demo", 3), capacity=capacity)
    for n, one in enumerate(related, 1):
        ids = one.split() if isinstance(one, str) else one
        text = json.dumps({"id": str(n), "from": "bot", "kind": "chat", "correlation_id": ids})
        rows.observe(Record(n, NOW, "received", "demo", "bot", verdict="accepted", raw=text))
    return rows


def seqs(chain: Chain) -> tuple[list[int], list[int]]:
    return [step.row.seq for step in chain.causes], [step.row.seq for step in chain.effects]


def test_a_chain_goes_back_to_the_first_cause_and_on_to_the_last_effect() -> None:
    # 1 proposal, 2 something else, 3 its fulfilment, 4 the answer, 5 about the something else
    rows = rows_of("", "", "1", "3", "2")
    assert seqs(chain_of(rows, 1)) == ([], [3, 4])
    assert seqs(chain_of(rows, 3)) == ([1], [4])
    assert seqs(chain_of(rows, 4)) == ([1, 3], [])
    assert chain_of(rows, 4).causes[1].of == (1,)


def test_all_that_an_envelope_names_are_causes() -> None:
    rows = rows_of("", "", "1 2", "", "9 2 1")
    assert seqs(chain_of(rows, 3)) == ([1, 2], [])
    assert seqs(chain_of(rows, 2)) == ([], [3, 5])
    assert chain_of(rows, 3).effects == () and chain_of(rows, 5).absent == 1


def test_what_is_not_held_is_counted_and_what_does_not_exist_has_no_chain() -> None:
    rows = rows_of("somewhere-else")
    assert chain_of(rows, 1) == Chain((), (), 0, 1)
    for seq in (0, 2, -1, 10**9):
        assert seqs(chain_of(rows, seq)) == ([], [])


def test_rows_that_were_dropped_are_no_end_of_a_chain() -> None:
    rows = rows_of("", *[str(n) for n in range(1, 30)], capacity=10)
    first = rows.since(0, 1)[0].seq
    assert first > 1
    causes, effects = seqs(chain_of(rows, 25))
    assert causes == list(range(first, 25)) and effects == list(range(26, 31))


def test_a_chain_is_bounded_and_says_how_much_is_left_out() -> None:
    rows = rows_of("", *["1"] * 300)
    chain = chain_of(rows, 1)
    assert len(chain.effects) == 100 and chain.left_out == 200
    rows = rows_of("", *[str(n) for n in range(1, 200)])
    assert len(chain_of(rows, 200).causes) == 50 and chain_of(rows, 200).left_out >= 1


def test_an_envelope_that_names_itself_ends() -> None:
    rows = rows_of("1", "2 1 2")
    assert seqs(chain_of(rows, 1)) == ([], [2]) and seqs(chain_of(rows, 2)) == ([1], [])
