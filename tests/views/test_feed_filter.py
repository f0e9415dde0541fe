"""The filters that the feed's page cannot evaluate itself: the kernel does, in steps, and the newest of a view counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from seat import Rows_

from mew_lab.errors import FilterError, MewError
from mew_lab.log.filter.fields import FIELDS
from mew_lab.views.feed import widget as feed
from mew_lab.views.feed.row_filter import RowFilter, condition_of, suggest_filters
from mew_lab.views.feed.widget import FeedView

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def envelope(kind: str, sender: str, **more: Any) -> str:
    return json.dumps({"id": f"{sender}-{kind}", "kind": kind, "from": sender, **more})


@pytest.fixture
def log() -> Rows_:
    log = Rows_()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "git_log"}}
    log.add("chat", sender="human", raw=envelope("chat", "human", payload={"text": "Hello"}))
    log.add("mcp/request", raw=envelope("mcp/request", "agent", to=["git"], payload=call))
    log.add("chat", raw=envelope("chat", "agent", payload={"text": "and or"}))
    log.add("mcp/request", raw="no json", verdict="refused", code="invalid_json")
    return log


def ask(page: Any, text: str, n: int = 1, view: str = "v1", zone: Any = 0) -> None:
    page.send({"t": "filter", "view": view, "n": n, "text": text, "zone": zone})


def passed(page: Any, n: int, view: str = "v1") -> set[int]:
    """The rows that the page of this view has taken for the filter with this number."""
    rows: set[int] = set()
    for item in page.of("passed"):
        if item["n"] == n and item["view"] == view:
            rows = (set() if item["first"] else rows - set(item["failed"])) | set(item["seqs"])
    return rows


def test_the_page_knows_the_fields_of_the_language(browser: Callable[..., Any], log: Rows_) -> None:
    assert list(browser(FeedView(log)).appear()["fields"]) == list(FIELDS)


def test_a_filter_gets_the_rows_that_pass_and_then_those_that_arrive(
    browser: Callable[..., Any], log: Rows_
) -> None:
    page = browser(FeedView(log))
    page.appear()
    ask(page, 'kind == chat and payload.text ~ "*"')
    page.until(lambda: passed(page, 1) == {1, 3})
    log.add("chat", raw=envelope("chat", "human", payload={"text": "new"}))
    log.add("chat", raw=envelope("chat", "human", payload={"text": 1}))
    page.until(lambda: passed(page, 1) == {1, 3, 5})
    ask(page, "seq 2..3", n=2)  # the numbers that the reader sees, not those of the journal
    page.until(lambda: passed(page, 2) == {2, 3})
    ask(page, "verdict == refused and code == invalid_json", n=3)
    page.until(lambda: passed(page, 3) == {4})


def test_a_new_filter_of_a_view_ends_the_one_before(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "STEP", 5)
    log = Rows_()
    for _ in range(400):
        log.add()
    page = browser(FeedView(log))
    page.appear()
    for n in range(1, 30):
        ask(page, "kind == chat and seq >= 1", n=n)
    ask(page, "kind == chat and seq <= 300", n=30)
    ask(page, "kind == chat and seq > 390", n=1, view="v2")
    page.until(lambda: passed(page, 30) == set(range(1, 301)))
    page.until(lambda: passed(page, 1, "v2") == set(range(391, 401)))
    numbers = [item["n"] for item in page.of("passed") if item["view"] == "v1"]
    assert numbers == sorted(numbers)  # nothing of an old filter after the first of a new one
    assert len(passed(page, 29)) < 400
    ask(page, "kind == chat and seq != 5", n=31)
    page.until(lambda: len(passed(page, 31)) == 399)
    sent = len(page.of("passed"))
    ask(page, "", n=32)
    log.add()
    page.until(lambda: page.of("rows")[-1]["rows"][-1][0] == 401)
    assert [item for item in page.of("passed")[sent:] if item["view"] == "v1"] == []


def test_a_fault_in_a_filter_is_told_with_its_place(browser: Callable[..., Any], log: Rows_) -> None:
    page = browser(FeedView(log))
    page.appear()
    ask(page, "from == agent and knid == chat")
    page.until(lambda: page.of("unfit"))
    [item] = page.of("unfit")
    assert item["sentence"] == "There is no field knid; did you mean kind?"
    assert (item["start"], item["end"]) == (18, 22)
    ask(page, "diag.severity >= warn", n=2)
    page.until(lambda: len(page.of("unfit")) == 2)
    assert "no diagnosis" in page.of("unfit")[1]["sentence"]


def test_what_may_complete_a_filter_is_told(browser: Callable[..., Any], log: Rows_) -> None:
    page = browser(FeedView(log))
    page.appear()
    ask(page, "kind == chat and from == ")
    page.until(lambda: page.of("suggested"))
    texts = page.of("suggested")[0]["texts"]
    assert texts == ["kind == chat and from == agent", "kind == chat and from == human"]
    assert suggest_filters(log, "payload.params.name == g") == ["payload.params.name == git_log"]


def test_times_of_day_are_those_of_the_reader(log: Rows_) -> None:
    first = log.rows[0]
    log.rows[0] = first._replace(t=datetime(2026, 3, 1, 10, 30, tzinfo=UTC).timestamp())

    def select(text: str, zone: int) -> list[int]:
        return RowFilter(log, text, oldest=1, now=lambda: NOW, zone=zone).step(100).passed

    assert select("time == 10:30", 0) == [1]
    assert select("time == 12:30", 7200) == [1]
    assert select("time < -1h", 0) == [1]


def test_states_follow_the_ledger_and_rows_change_with_them() -> None:
    log = Rows_()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    head = {"protocol": "mew/v0.4"}
    log.add("mcp/request", raw=envelope("mcp/request", "agent", to=["git"], payload=call, **head))
    waiting = RowFilter(log, "state == waiting", oldest=1, now=lambda: NOW, zone=0)
    answered = RowFilter(log, "state == answered and latency < 1h", oldest=1, now=lambda: NOW, zone=0)
    assert waiting.step(10).passed == [1] and answered.step(10).passed == []
    result = {"jsonrpc": "2.0", "id": 1, "result": {}}
    related = {"correlation_id": ["agent-mcp/request"], "to": ["agent"]}
    log.add(
        "mcp/response", sender="git", raw=envelope("mcp/response", "git", payload=result, **related, **head)
    )
    assert waiting.step(10).failed == [1]
    assert answered.step(10).passed == [1]


def test_steps_are_bounded_and_together_judge_each_row_once() -> None:
    log = Rows_()
    for _ in range(100):
        log.add()
    row_filter = RowFilter(log, "kind == chat", oldest=11, now=lambda: NOW, zone=0)
    steps = [row_filter.step(30)]
    while not steps[-1].done:
        steps.append(row_filter.step(30))
    assert [len(step.passed) for step in steps] == [30, 30, 30]
    assert sorted(seq for step in steps for seq in step.passed) == list(range(11, 101))
    assert row_filter.step(30).passed == []


# --- the menu of a cell ---

CONDITIONS = [
    (2, "from", "from == agent"),
    (2, "to", "to == git"),
    (1, "to", "not to exists"),
    (2, "route", "from == agent and to == git"),
    (2, "kind", "kind == mcp/request"),
    (2, "what", "tool == git_log"),
    (1, "what", "kind == chat"),
    (2, "seq", "seq == 2"),
    (4, "verdict", "verdict == refused and code == invalid_json"),
    (2, "context", "not context exists"),
    (2, "follows", "correlation_id == agent-mcp/request"),
]


@pytest.mark.parametrize(("seq", "column", "condition"), CONDITIONS)
def test_the_value_of_a_cell_is_a_filter_that_its_message_passes(
    log: Rows_, seq: int, column: str, condition: str
) -> None:
    assert condition_of(log, seq, column).replace(" and code == pat 0", "") == condition
    if column != "follows":  # that one finds the answers
        found = RowFilter(log, condition_of(log, seq, column), oldest=1, now=lambda: NOW, zone=0).step(100)
        assert seq in found.passed


def test_each_value_is_quoted_where_it_has_to_be() -> None:
    log = Rows_()
    for sender in ["two words", 'q"t', "\u202eevil", "and", "1", "x) or (y", ""]:
        log.add("chat", sender=sender, raw=envelope("chat", sender))
    for seq in range(1, 8):
        condition = condition_of(log, seq, "from")
        assert RowFilter(log, condition, oldest=1, now=lambda: NOW, zone=0).step(100).passed == [seq]
        assert "\u202e" not in condition


def test_a_cell_without_a_condition_is_refused_with_a_sentence(log: Rows_) -> None:
    for seq, column, sentence in [
        (2, "took", "latency > 2s"),
        (99, "from", "no longer held"),
        (1, "x", "no field"),
    ]:
        with pytest.raises(MewError, match=sentence):
            condition_of(log, seq, column)
    with pytest.raises(FilterError):
        RowFilter(log, "kind ==", oldest=1, now=lambda: NOW, zone=0)
