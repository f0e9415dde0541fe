"""Counts and durations as they come: each envelope once, and no more kept than was promised."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from heard import Space

from mew_lab.ledger.entry import Entry
from mew_lab.protocol.families import FAMILIES
from mew_lab.views.timeline import model as module
from mew_lab.views.timeline.model import KindCounts, TrafficStats

NAMES = [one.name for one in FAMILIES]
START = 1_767_225_600.0  # a full minute


CALL = {"method": "tools/call", "params": {"name": "git_log"}}
ANSWER = {"result": {"content": []}}


def heard(
    seq: int, t: float, kind: Any = "chat", sender: str = "bot", verdict: str = "accepted", **members: Any
) -> Entry:
    said = {"id": f"e{seq}", "from": sender, "kind": kind} | members
    return Entry(seq, START + t, json.dumps(said), verdict, "", "", sender, said)


def counts(**many: int) -> tuple[int, ...]:
    return tuple(many.get(name, 0) for name in NAMES)


def test_every_envelope_is_counted_in_its_second_and_minute_by_its_family() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    for seq, (t, kind) in enumerate(
        [(0.1, "chat"), (0.9, "mcp/proposal"), (1.0, "chat"), (61.0, "x/y"), (61.5, None)], 1
    ):
        tell(heard(seq, t, kind))
    s = int(START)
    assert stats.seconds() == [
        KindCounts(s, counts(chat=1, proposal=1)),
        KindCounts(s + 1, counts(chat=1)),
        KindCounts(s + 61, counts(system=2)),
    ]
    assert stats.minutes() == [
        KindCounts(s, counts(chat=2, proposal=1)),
        KindCounts(s + 60, counts(system=2)),
    ]
    assert stats.seconds(after=s + 1) == [KindCounts(s + 61, counts(system=2))]
    assert (stats.count, stats.now) == (5, START + 61.5)


def test_a_clock_that_goes_back_loses_no_envelope() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    for seq, t in enumerate([10, 3, 10], 1):
        tell(heard(seq, t))
    assert stats.seconds() == [KindCounts(int(START) + 10, counts(chat=3))]


def test_no_more_is_kept_than_an_hour_of_seconds_a_day_of_minutes_and_5000_points() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    for n in range(6000):
        tell(heard(2 * n + 1, 60 * n, "mcp/request", to=["git"], id=f"q{n}", payload=CALL))
        tell(
            heard(
                2 * n + 2, 60 * n + 1, "mcp/response", sender="git", correlation_id=[f"q{n}"], payload=ANSWER
            )
        )
    assert (len(stats.seconds()), len(stats.minutes()), len(stats.pairs("request"))) == (3600, 1440, 5000)
    assert stats.answered("request") == 6000 and stats.spread("request").of == 5000
    assert len(stats.pairs("request", 10)) == 10 and stats.pairs("request", 0) == []
    assert len(stats.series(86_400).counts) <= 240


def test_requests_and_decisions_are_told_apart_and_what_waits_has_an_age() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    call = {"payload": CALL, "to": ["git"]}
    tell(heard(1, 0, "mcp/proposal", **call))
    tell(heard(2, 1, "mcp/proposal", **call))
    tell(heard(3, 4.1, "mcp/request", sender="human", correlation_id=["e1"], **call))
    tell(heard(4, 4.3, "mcp/response", sender="git", correlation_id=["e3"], payload=ANSWER))
    (decision,) = stats.pairs("decision")
    (request,) = stats.pairs("request")
    assert (decision.how, decision.by, round(decision.seconds, 3)) == ("fulfilled", "human", 4.1)
    assert (request.asked, round(request.seconds, 3)) == (3, 0.2)
    assert [(one.seq, one.t - START) for one in stats.waiting("decision")] == [(2, 1.0)]
    assert stats.waiting("request") == []


def test_a_notification_and_a_lying_payload_wait_for_nobody() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    tell(heard(1, 0, "mcp/request", payload={"method": "notifications/x"}))
    tell(heard(2, 0, "mcp/request", verdict="refused"))
    tell(heard(3, 0, "mcp/request", payload="text", correlation_id={"a": 1}))
    tell(heard(4, 0, "mcp/request", payload=CALL))
    assert [one.seq for one in stats.waiting("request")] == [4]


def test_a_series_ends_with_the_last_envelope_and_has_at_most_240_parts() -> None:
    stats = TrafficStats()
    tell = Space(stats).hand_on
    assert stats.series(300).counts == ()
    for n in range(1000):
        tell(heard(n + 1, n))
    last = stats.series(300)
    assert last.step == 2.0 and sum(last.totals) in (300, 301)
    assert last.first + last.step * len(last.counts) > START + 999
    assert sum(stats.series(3600).totals) == sum(stats.series(86_400).totals) == 1000


def test_who_subscribed_is_told_of_each_until_the_end() -> None:
    stats, told = TrafficStats(), list[int]()
    tell = Space(stats).hand_on
    end = stats.changed.add(lambda: told.append(stats.count))
    tell(heard(1, 0))
    tell(heard(2, 0))
    end()
    end()
    tell(heard(3, 0))
    assert told == [1, 2]


def test_a_thousand_a_second_cost_next_to_nothing() -> None:
    """A test of order: the figure is printed, and a hundred times the mark is a fault of another kind."""
    kinds = ["chat", "mcp/request", "mcp/response", "reasoning/thought", "participant/status"]
    said = [
        heard(n, n / 1000, kinds[n % 5], to=["git"], correlation_id=[f"e{n - 1}"]) for n in range(1, 20_001)
    ]
    stats = TrafficStats()
    tell = Space(stats).hand_on
    began = time.process_time()
    for one in said:
        tell(one)
    cost = (time.process_time() - began) / len(said)
    print(f"\ntake: {cost * 1e6:.2f} µs an envelope (mark 3)")
    assert cost < 3e-4


def test_the_module_says_its_bounds() -> None:
    document = module.__doc__ or ""
    for bound in (module.SECONDS, module.MINUTES, module.POINTS):
        assert str(bound) in document
    assert timedelta(minutes=module.MINUTES) == timedelta(days=1)
    assert datetime.fromtimestamp(START, UTC).second == 0
