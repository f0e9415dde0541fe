from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from seat import Rows_

from mew_lab.notebook.widgets import feed
from mew_lab.notebook.widgets.feed import FeedView


def sequence(items: list[dict[str, Any]]) -> list[int]:
    return [row[0] for item in items for row in item["rows"]]


def test_every_row_is_sent_once_in_order_and_each_message_says_what_it_follows(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    page = browser(FeedView(log))
    page.appear()
    for _ in range(5000):
        log.add()
    page.until(lambda: sequence(page.of("rows"))[-1:] == [5000])
    assert sequence(page.of("rows")) == list(range(1, 5001))
    follows = 0
    for item in page.of("rows"):
        assert item["after"] == follows
        follows = item["rows"][-1][0]


def test_a_view_that_lost_a_message_gets_everything_after_its_last_row_again(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    page = browser(FeedView(log))
    page.appear()
    for _ in range(300):
        log.add()
    page.until(lambda: sequence(page.of("rows"))[-1:] == [300])
    sent = len(page.of("rows"))
    page.appear("v1", 120)
    page.until(lambda: len(page.of("rows")) > sent)
    assert page.of("rows")[sent]["after"] == 120
    assert sequence(page.of("rows")[sent:]) == list(range(121, 301))


@pytest.mark.trap("T-13")
def test_a_second_view_is_brought_up_to_date_and_the_first_sees_no_new_row(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    for _ in range(40):
        log.add()
    page = browser(FeedView(log))
    assert page.appear("a")["last"] == 40
    page.until(lambda: page.of("rows"))
    page.appear("b")
    page.until(lambda: len(page.of("rows")) == 2)
    assert page.of("rows")[0] == page.of("rows")[1]


def test_what_no_view_could_hold_is_not_sent(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RING", 100)
    log = Rows_()
    for _ in range(1000):
        log.add()
    page = browser(FeedView(log))
    snapshot = page.appear()
    assert (snapshot["last"], snapshot["ring"]) == (1000, 100)
    page.until(lambda: page.of("rows"))
    assert sequence(page.of("rows")) == list(range(901, 1001))


def test_a_view_from_another_life_of_the_log_begins_anew(browser: Callable[..., Any]) -> None:
    log = Rows_()
    log.add()
    page = browser(FeedView(log))
    assert page.appear("v1", 5000)["start"] == 0
    page.until(lambda: sequence(page.of("rows")) == [1])


@pytest.mark.trap("T-11")
def test_a_row_costs_the_same_bytes_whatever_has_been_sent_before(browser: Callable[..., Any]) -> None:
    log = Rows_()
    page = browser(FeedView(log))
    page.appear()

    def bytes_a_row(count: int) -> float:
        before, seen = log.last_seq, len(page.batches)
        for n in range(count):
            log.add(what=f"“message {n % 10}”")
        page.until(lambda: sequence(page.of("rows"))[-1:] == [before + count])
        return sum(len(json.dumps(batch)) for batch in page.batches[seen:]) / count

    early = bytes_a_row(500)
    bytes_a_row(25_000)
    late = bytes_a_row(500)
    assert 0.8 < late / early < 1.2


def test_the_head_is_sent_when_it_has_changed(browser: Callable[..., Any]) -> None:
    log = Rows_(members=2)
    page = browser(FeedView(log))
    assert page.appear()["members"] == 2
    log.members = 3
    log.add("system/presence", "git joined")
    assert page.until(lambda: page.of("head")) == [{"t": "head", "space": "demo", "members": 3}]


def test_the_exact_text_is_sent_to_the_view_that_opened_the_row_and_cut_at_64_kib(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    log.add(raw="x" * 70_000)
    page = browser(FeedView(log))
    page.appear()
    page.send({"t": "raw", "view": "v1", "seq": 1})
    item = page.until(lambda: page.of("raw"))[0]
    assert (len(item["text"]), item["more"], item["view"]) == (65_536, 70_000 - 65_536, "v1")
    page.send({"t": "raw", "view": "v1", "seq": 1, "all": True})
    page.until(lambda: len(page.of("raw")) == 2)
    assert len(page.of("raw")[1]["text"]) == 70_000


@pytest.mark.parametrize("seq", [0, -1, 2, "1", None, 10**9])
def test_a_row_that_is_not_there_is_not_looked_for(browser: Callable[..., Any], seq: Any) -> None:
    log = Rows_()
    log.add()
    view = FeedView(log)
    page = browser(view)
    page.appear()
    page.send({"t": "raw", "view": "v1", "seq": seq})
    log.add()
    page.until(lambda: sequence(page.of("rows"))[-1:] == [2])
    assert page.of("raw") == [] and list(view.faults) == []


@pytest.mark.threat(17)
def test_what_cannot_be_seen_travels_as_an_escape(browser: Callable[..., Any]) -> None:
    log = Rows_()
    hidden = "a\u202eb"
    log.add(hidden, hidden, sender=hidden, to=(hidden,), context=hidden, code=hidden)
    page = browser(FeedView(log))
    page.appear()
    row = page.until(lambda: page.of("rows"))[0]["rows"][0]
    assert "\u202e" not in json.dumps(row, ensure_ascii=False)
    assert row[2:7] == ["a\\u202eb"] * 5


@pytest.mark.trap("T-15")
@pytest.mark.threat(3)
def test_the_picture_has_the_last_200_rows_as_text() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    log = Rows_(hostile)
    for n in range(249):
        log.add(what=f"row number {n + 1}.")
    log.add(hostile, hostile, sender=hostile, to=(hostile,), code=hostile, t=1763733802.0)
    view = FeedView(log, clock=lambda: datetime(2026, 11, 21, 14, 3, 22, tzinfo=UTC))
    html = view._static_html()
    assert "4 members, as of 14:03:22 UTC, 250 envelopes" in html
    assert html.count("<tr>") == 201
    assert "50 earlier envelopes are not shown" in html
    assert "row number 51." in html and "row number 50." not in html
    assert "<img" not in html and "<script" not in html
    assert "14:03:22 UTC" in html
    assert repr(FeedView(Rows_())) == "Feed of demo: 0 envelopes, 4 members"


def test_an_empty_feed_says_what_would_fill_it() -> None:
    assert 'lab.chat("hello") fills this' in FeedView(Rows_())._static_html().replace("&quot;", '"')
