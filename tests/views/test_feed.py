from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import picture
from seat import Rows_

from mew_lab.errors import MewError
from mew_lab.lab.rows import Rows
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.space.events import Record
from mew_lab.views.feed import widget as feed
from mew_lab.views.feed.calls import CallStates
from mew_lab.views.feed.widget import FeedView
from mew_lab.views.ui.pictures import clock_time


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


def test_a_view_with_nothing_gets_the_newest_rows_first_and_then_the_earlier_ones_backwards(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RING", 1000)
    monkeypatch.setattr(feed, "CHUNK", 300)
    monkeypatch.setattr(feed, "FIRST", 200)
    log = Rows_()
    for _ in range(5000):
        log.add()
    page = browser(FeedView(log))
    snapshot = page.appear()
    assert (snapshot["start"], snapshot["oldest"]) == (4800, 4001)
    page.until(lambda: len(page.of("earlier")) == 3)
    assert sequence(page.of("rows")) == list(range(4801, 5001))
    assert [sequence([item]) for item in page.of("earlier")] == [
        list(range(4501, 4801)),
        list(range(4201, 4501)),
        list(range(4001, 4201)),
    ]
    log.add()
    page.until(lambda: sequence(page.of("rows"))[-1] == 5001)
    assert page.of("rows")[-1]["after"] == 5000 and len(page.of("earlier")) == 3


def test_a_view_that_was_away_for_longer_than_is_held_begins_anew_without_asking_twice(
    browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RING", 100)
    log = Rows_()
    for _ in range(1000):
        log.add()
    page = browser(FeedView(log))
    assert page.appear("v1", 950)["start"] == 950
    page.until(lambda: sequence(page.of("rows")) == list(range(951, 1001)))
    away = page.appear("v2", 500)
    page.until(lambda: len(page.of("rows")) == 2)
    assert away["start"] == 900 == page.of("rows")[1]["after"]


# How far each record of a message is from the one before: others lie between, or are lost.
STEPS = st.lists(st.just(1) | st.integers(1, 9) | st.integers(1, 10**12), max_size=150)


def held_of(items: list[dict[str, Any]], most: int) -> list[int]:
    """The rows that a page holds once it has taken these items, as view.js takes them."""
    held, floor, last = list[int](), 0, 0
    for item in items:
        if item["t"] == "snapshot":
            held, floor, last = [], item["start"], item["start"]
        elif item["t"] == "rows":
            new = sequence([item])
            assert item["after"] == last
            held, last = ([] if item["gap"] else held) + new, new[-1]
        elif item["t"] == "earlier":
            assert item["upto"] == floor
            held, floor = sequence([item]) + held, item["after"]
    assert held == sorted(set(held))
    return held[-most:]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, later=STEPS, passed_over=st.booleans(), back=st.integers(0, 39))
def test_a_view_holds_the_last_messages_and_each_once_whatever_their_numbers(
    browser: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    steps: list[int],
    later: list[int],
    passed_over: bool,
    back: int,
) -> None:
    for name, value in {"RING": 40, "CHUNK": 7, "FIRST": 10, "STEP": 9}.items():
        monkeypatch.setattr(feed, name, value)
    log, numbers, newest = Rows(lambda: ("demo", 1), capacity=40), list[int](), 1
    log.pass_over(passed_over)

    def add(steps: list[int]) -> None:
        nonlocal newest
        for step in steps:
            newest += step
            numbers.append(newest)
            raw = json.dumps({"id": f"m{newest}", "from": "bot", "kind": "chat"})
            log.observe(Record(newest, datetime.now(UTC), "received", "demo", "bot", "accepted", raw=raw))

    add(steps)
    view = FeedView(log)
    view.interval = 0.0
    page = browser(view)
    count = page.appear()["earlier"]
    page.until(lambda: held_of(page.items, 40) == numbers[-40:])
    assert count == len(numbers) + passed_over * bool(steps) - len(numbers[-40:])
    add(later)
    page.until(lambda: held_of(page.items, 40) == numbers[-40:])
    assert log.count() == len(numbers) + passed_over

    # What was lost on the way comes again: the rows behind one, and those before it.
    if back >= len(numbers):
        return
    place, oldest = len(numbers) - 1 - back, max(0, len(numbers) - 40)
    sent = len(page.items)
    page.appear("v1", numbers[place])
    page.until(lambda: sequence(page.of("rows"))[-1] == newest)
    page.send({"t": "earlier", "view": "v1", "upto": numbers[place]})
    page.until(
        lambda: any(item["t"] == "earlier" and item["after"] < numbers[oldest] for item in page.items[sent:])
    )
    again = {kind: [item for item in page.items[sent:] if item["t"] == kind] for kind in ("rows", "earlier")}
    assert sequence(again["rows"]) == numbers[place + 1 :]
    assert sequence(again["earlier"][::-1]) == numbers[oldest : place + 1]
    # A filter judges the same rows, however far their numbers are apart.
    page.send({"t": "filter", "view": "v1", "n": 1, "text": "kind == chat and seq >= 0", "zone": 0})
    page.until(lambda: sorted(sequence_of_passed(page)) == numbers[oldest:])


def sequence_of_passed(page: Any) -> list[int]:
    return [seq for item in page.of("passed") for seq in item["seqs"]]


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
    html = picture(view)
    assert "· 4 participants · 250 messages" in html
    assert html.count("<tr>") == 201
    assert "50 earlier messages not shown" in html
    assert "row number 51." in html and "row number 50." not in html
    assert "<img" not in html and "<script" not in html
    assert clock_time(1763733802.0) in html
    assert repr(FeedView(Rows_())) == "Messages of demo: 0 messages, 4 participants"


def test_the_picture_has_the_newest_messages_however_far_their_numbers_are_apart() -> None:
    log = Rows(lambda: ("demo", 1))
    for number in range(7, 10**8, 10**6):
        raw = json.dumps({"id": f"m{number}", "from": "bot", "kind": "chat"})
        log.observe(Record(number, datetime.now(UTC), "received", "demo", "bot", "accepted", raw=raw))
    assert re.findall("#([0-9]+)<", picture(FeedView(log))) == [
        str(number) for number in range(7, 10**8, 10**6)
    ]


def test_an_empty_feed_says_what_would_fill_it() -> None:
    assert 'lab.chat("hello") sends one' in picture(FeedView(Rows_())).replace("&quot;", '"')


# --- what a person chooses, and what code reads of it ---


def test_the_columns_travel_with_the_snapshot_and_when_they_change(browser: Callable[..., Any]) -> None:
    view = FeedView(Rows_())
    page = browser(view)
    snapshot = page.appear()
    assert snapshot["columns"] == ["seq", "time", "route", "what", "took", "finding"]
    view.columns = ["what", "context"]  # type: ignore[assignment]
    [item] = page.until(lambda: page.of("columns"))
    assert (item["columns"], item["chosen"]) == (["what", "context"], True)
    assert {one["name"]: one["title"] for one in item["known"]}["context"] == "Context"
    with pytest.raises(MewError, match="no column 'sender'"):
        view.columns = ["sender"]  # type: ignore[assignment]
    assert [one.name for one in view.columns] == ["what", "context"]
    assert '<th scope="col"' in picture(view) or "No messages yet" in picture(view)


def test_the_picture_has_the_columns_that_were_chosen() -> None:
    log = Rows_()
    log.add(context="c/1", correlates=0, t=1763733802.0)
    log.add(correlates=1)
    view = FeedView(log)
    view.columns = ["time", "context", "what"]  # type: ignore[assignment]
    html = picture(view)
    assert html.count("<th ") == 3 and ">Time<" in html and clock_time(1763733802.0) in html
    assert ">c/1<" in html and "⇠#1" in html and ">agent<" not in html


def test_the_selection_is_the_envelopes_of_the_rows_that_the_last_view_chose(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    for n in range(5):
        log.add(what=f"no. {n + 1}")
    log.add(raw="no envelope")
    view = FeedView(log)
    page = browser(view)
    page.appear()
    assert view.selection == []
    page.send({"t": "select", "view": "v1", "seqs": [4, 2, 6, 2]})
    assert [one["id"] for one in view.selection] == ["e-2", "e-4"]
    assert view.selection[0]["payload"] == {"text": "no. 2"}
    page.send({"t": "select", "view": "v2", "seqs": [5]})
    assert [one["id"] for one in view.selection] == ["e-5"]
    page.send({"t": "select", "view": "v2", "seqs": []})
    assert view.selection == []


@pytest.mark.parametrize("seqs", [None, "1", {"1": 1}, [0], [7], [-1], ["1"], [True], [1.0], [[1]]])
def test_a_selection_of_what_is_no_row_changes_nothing(browser: Callable[..., Any], seqs: Any) -> None:
    log = Rows_()
    log.add()
    view = FeedView(log)
    page = browser(view)
    page.send({"t": "select", "view": "v1", "seqs": [1]})
    page.send({"t": "select", "view": "v1", "seqs": seqs})
    assert [one["id"] for one in view.selection] == ["e-1"] and list(view.faults) == []


# --- what is asked for, and acts ---


def test_the_verdict_of_a_row_is_told_to_the_view_that_points_at_it(browser: Callable[..., Any]) -> None:
    log = Rows_()
    log.add(sender="bot")
    log.patterns[1] = '{"kind":"chat"}'
    page = browser(FeedView(log))
    page.appear()
    page.send({"t": "why", "view": "v1", "seq": 1})
    [item] = page.until(lambda: page.of("why"))
    assert (item["view"], item["seq"]) == ("v1", 1)
    assert item["text"] == 'Accepted: bot has a permission that allows it.\n{"kind":"chat"}'


class Desk_:
    def __init__(self) -> None:
        self.saved: Future[str] = Future()

    def save(self) -> Future[str]:
        return self.saved

    def as_id(self, sender: str) -> str | None:
        return sender if sender == "bot" else None


def test_copies_are_the_exact_text_and_a_line_of_python(browser: Callable[..., Any]) -> None:
    log = Rows_()
    raw = '{ "kind":"chat", "from":"bot", "payload":{"text":"a\u202eb"} }'
    log.add(raw=raw, sender="bot")
    page = browser(FeedView(log, desk=Desk_()))
    page.appear()
    assert page.act("json", seq=1)["value"] == raw
    line = page.act("python", seq=1)["value"]
    assert line == "lab.send('chat', {'text': 'a\\u202eb'}, as_id='bot')"
    for seq in (0, 2):
        assert page.act("json", seq=seq)["t"] == "failed"
    log.add(raw="no envelope")
    failed = page.act("python", seq=2)
    assert failed["t"] == "failed" and "Copy it as JSON instead" in failed["said"]


def test_selected_rows_are_copied_with_the_numbers_of_the_feed(browser: Callable[..., Any]) -> None:
    log = Rows_()
    for n in range(1, 4):
        log.add(
            raw=json.dumps({"id": f"m{n}", "kind": "chat", "from": "bot", "payload": {"text": f"no {n}"}})
        )
    page = browser(FeedView(log))
    page.appear()
    copied = {
        form: page.act("copy", form=form, seqs=[3, 1, 3])
        for form in ("jsonl", "markdown", "mermaid", "python")
    }
    assert copied["markdown"]["said"] == "2 messages copied as Markdown."
    assert "## #1 " in copied["markdown"]["value"] and "## #3 " in copied["markdown"]["value"]
    assert "no 2" not in "".join(one["value"] for one in copied.values())
    assert [json.loads(line)["seq"] for line in copied["jsonl"]["value"].splitlines()] == [101, 103]
    assert copied["mermaid"]["value"].startswith("sequenceDiagram\n") and "no 3" in copied["mermaid"]["value"]
    assert copied["python"]["value"].count("lab.send(") == 2
    for form, seqs in (
        ("exec", [1]),
        ("jsonl", []),
    ):
        assert page.act("copy", form=form, seqs=seqs)["t"] == "failed"
    assert page.act("copy", form="jsonl", seqs=[4])["value"] == ""


def test_saving_says_where_the_file_is_or_why_there_is_none(browser: Callable[..., Any]) -> None:
    desk = Desk_()
    page = browser(FeedView(Rows_(), desk=desk))
    page.appear()
    desk.saved.set_result("Saved 3 envelopes to demo.jsonl.")
    assert page.act("save")["said"] == "Saved 3 envelopes to demo.jsonl."
    lonely = browser(FeedView(Rows_()))
    lonely.appear()
    assert "no log to save" in lonely.act("save")["said"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {"t": "why"},
        {"t": "why", "view": 1, "seq": 1},
        {"t": "raw", "view": "v", "seq": True},
        {"t": "select"},
        {"t": ["raw"], "view": "v", "seq": 1},
        {"t": "act", "view": "v", "job": "x"},
        {"t": "act", "job": 1},
    ],
)
def test_what_no_view_would_send_leaves_no_fault(browser: Callable[..., Any], message: Any) -> None:
    log = Rows_()
    log.add()
    view = FeedView(log)
    page = browser(view)
    page.appear()
    page.send(message)
    log.add()
    page.until(lambda: sequence(page.of("rows"))[-1:] == [2])
    assert list(view.faults) == [] and page.of("why") == [] and page.of("raw") == []


def test_at_most_25_messages_a_second_whatever_comes(browser: Callable[..., Any]) -> None:
    log = Rows_()
    page = browser(FeedView(log))
    page.appear()
    for n in range(30_000):
        log.add()
        if n % 100 == 0:
            page.send({"t": "raw", "view": "v1", "seq": 1})
            page.send({"t": "why", "view": "v1", "seq": 1})
    page.until(lambda: sequence(page.of("rows"))[-1:] == [30_000])
    moments = page.moments
    assert max(sum(1 for later in moments if one <= later < one + 1) for one in moments) <= 25


# --- calls ---


def test_the_state_of_a_call_travels_with_its_row_and_again_when_it_changes(
    browser: Callable[..., Any],
) -> None:
    log, calls = Rows_(), CallStates()
    ledger = Ledger()

    def say(seq: int, sender: str, kind: str, payload: dict[str, Any], **members: Any) -> None:
        whole = {"id": f"e-{seq}", "from": sender, "kind": kind, "payload": payload, **members}
        entry = Entry(seq, float(seq), json.dumps(whole), "accepted", "", "", sender, whole)
        log.add(kind, sender=sender, raw=entry.raw)
        calls.take_changes(ledger.observe(entry), ledger)

    say(1, "human", "mcp/request", {"method": "tools/call", "params": {"name": "x"}}, to=["git"])
    page = browser(FeedView(log, calls=calls, me="human"))
    assert page.appear()["me"] == "human"
    [item] = page.until(lambda: page.of("rows"))
    assert item["rows"][0][14] == ["waiting", 0.0, 0]
    say(2, "git", "mcp/response", {"result": {}}, to=["human"], correlation_id=["e-1"])
    page.until(lambda: [1, "answered", 1.0, 0] in [call for one in page.of("calls") for call in one["calls"]])
    # A view that lost a message has its rows already, and gets the states of all of them.
    assert page.appear("v1", 2)["calls"] == [[1, "answered", 1.0, 0]]


def test_plumbing_and_failures_are_marked_and_a_picture_leaves_plumbing_out(
    browser: Callable[..., Any],
) -> None:
    log = Rows_()
    log.add(what="hello there")
    log.add("system/presence", "git joined", plumbing=True)
    log.add("system/error", "too much", failed=True, tool="git_log")
    view = FeedView(log)
    page = browser(view)
    page.appear()
    [item] = page.until(lambda: page.of("rows"))
    assert [row[11:14] for row in item["rows"]] == [["e-1", "", 0], ["e-2", "", 1], ["e-3", "git_log", 2]]
    html = picture(view)
    assert "hello there" in html and "too much" in html and "git joined" not in html
    assert "Plumbing is not shown: 1 message." in html
