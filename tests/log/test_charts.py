"""Pictures of a log: what is drawn is what was said, and is bounded."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mew_lab.log import charts
from mew_lab.log.charts import MOST_BARS, Series, frontier_of, series_of
from mew_lab.log.drawing import Drawing
from mew_lab.log.log import Log, open_log
from mew_lab.rules.backtests import learned_frontier
from mew_lab.space.events import Record

from ..rules.test_never import call
from ..rules.test_never import decided as decided_call

START = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = "{http://www.w3.org/2000/svg}"


def log_of(*said: tuple[float, dict[str, Any]]) -> Log:
    log = Log.live(space="demo")
    for n, (t, members) in enumerate(said, 1):
        raw = json.dumps({"id": f"e{n}", "from": "bot", "kind": "chat", "to": []} | members)
        log.observe(
            Record(n, START + timedelta(seconds=t), "envelope", "demo", "bot", verdict="accepted", raw=raw)
        )
    return log


def paths(drawing: Drawing, css: str) -> list[str]:
    root = ElementTree.fromstring(drawing.svg())
    return [node.get("d", "") for node in root.iter(f"{SPACE}path") if css in node.get("class", "").split()]


def test_counts_are_by_second_and_family() -> None:
    series = series_of([(10.2, "chat"), (10.9, "chat"), (12.0, "mcp/request"), (12.1, "system/error")])
    assert (series.first, series.step, len(series.counts)) == (10.0, 1.0, 3)
    assert [sum(one) for one in series.counts] == [2, 0, 2]
    assert sum(series.totals) == 4


@pytest.mark.parametrize("span", [0, 1, 239, 240, 3600, 86_400, 10**9, 2.5e11])
def test_bars_are_at_most_240_however_long_the_log(span: float) -> None:
    series = series_of([(1.5, "chat"), (1.5 + span, "chat")])
    assert 1 <= len(series.counts) <= MOST_BARS
    assert sum(series.totals) == 2
    assert charts.rate_of(series).svg()


def test_the_rate_is_a_mean_of_messages_per_second() -> None:
    log = log_of(*((n / 10, {}) for n in range(40)), (2.5, {"kind": "mcp/request"}))
    drawing = charts.rate(log)
    assert drawing.lines == ("41 messages in 4 s: chat 40, mcp 1",)
    assert paths(drawing, "is-chat")[0].count("M") == 4 and paths(drawing, "is-mcp")[0].count("M") == 1
    labels = [node.text for node in ElementTree.fromstring(drawing.svg()).iter(f"{SPACE}text")]
    assert "20" in labels, "the scale reaches over 11 a second"


def test_latency_has_a_strip_each_for_answers_and_decisions() -> None:
    log = log_of(
        (0, {"kind": "mcp/request", "to": ["git"], "payload": {"method": "tools/call"}}),
        (0.25, {"kind": "mcp/response", "from": "git", "correlation_id": ["e1"], "payload": {"result": {}}}),
        (1, {"kind": "mcp/proposal", "to": ["git"], "payload": {"method": "tools/call"}}),
        (5.1, {"kind": "mcp/reject", "from": "human", "correlation_id": ["e3"], "payload": {}}),
        (6, {"kind": "mcp/proposal", "to": ["git"], "payload": {"method": "tools/call"}}),
    )
    drawing = charts.latency(log)
    assert drawing.lines == (
        "Requests: median 250 ms, p95 250 ms, of 1",
        "Decisions: median 4.1 s, p95 4.1 s, of 1; 1 waiting",
    )
    assert len(paths(drawing, "dots")) == 1 and paths(drawing, "is-error")[0].endswith("l-6 6")


def test_who_talks_to_whom_counts_every_pair_once_an_envelope() -> None:
    log = log_of(
        (0, {"to": ["git", "git", "human"]}),
        (1, {}),
        (2, {"from": "system:gateway", "to": ["bot"]}),
        (3, {"to": ["system:gateway"]}),
    )
    assert set(charts.talk(log).lines) == {
        "bot → git: 1",
        "bot → human: 1",
        "bot → everybody: 1",
        "gateway → bot: 1",
        "bot → gateway: 1",
    }


def test_a_crowd_is_cut_to_the_busiest_and_said() -> None:
    drawing = charts.talk(log_of(*((n, {"from": f"p{n % 40}"}) for n in range(100))))
    assert drawing.lines[-1] == "28 participants with fewer messages are not shown"
    assert len(ElementTree.fromstring(drawing.svg()).findall(f"{SPACE}line")) == 12


@pytest.mark.parametrize("chart", [charts.rate, charts.latency, charts.talk, charts.decisions, charts.tokens])
def test_an_empty_log_says_so(chart: Any) -> None:
    assert re.search("Nothing was|No messages|No participant has", str(chart(log_of())))


def test_an_exchange_that_never_ended_in_time_is_drawn_within_its_strip() -> None:
    pairs = [
        charts.Pair("request", 1, "a", 2, 0.0, seconds, "answered", "b") for seconds in (0.0, 1e-9, 1e12)
    ]
    drawing = charts.latency_of(pairs)
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.-]+)h0", paths(drawing, "dots")[0])]
    assert all(24 <= y <= 116 for y in heights)


def test_a_saved_session_is_drawn_like_the_live_one(tmp_path: Path) -> None:
    log = log_of((0, {}), (1, {"kind": "mcp/request", "to": ["git"]}), (3, {"from": "git"}))
    log.save(tmp_path / "session.jsonl")
    opened = open_log(tmp_path / "session.jsonl")
    for chart in (charts.rate, charts.latency, charts.talk):
        assert chart(opened).svg() == chart(log).svg()


def test_no_series_is_no_bar() -> None:
    assert charts.rate_of(Series(0.0, 1.0, ())).lines == ("No messages yet.",)


def test_a_bar_stands_for_messages_per_second_however_long_it_lasts() -> None:
    rest = (0,) * 7
    drawing = charts.rate_of(Series(0.0, 10.0, ((20, 10, *rest), (10, 0, *rest))))
    labels = [node.text for node in ElementTree.fromstring(drawing.svg()).iter(f"{SPACE}text")]
    assert "3" in labels, "30 messages in 10 s are 3 a second, the top of the scale"
    (chat, less), (mcp,) = (
        [
            tuple(map(float, one))
            for one in re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+v-([\d.]+)", paths(drawing, css)[0])
        ]
        for css in ("is-chat", "is-mcp")
    )
    assert chat[1] == pytest.approx(2 * less[1], abs=0.2) == pytest.approx(2 * mcp[1], abs=0.2)
    assert mcp[0] == pytest.approx(chat[0] - chat[1], abs=0.2), "it stands on the one before"


CALL = {"method": "tools/call", "params": {"name": "add"}}


def decided() -> Log:
    """Two decisions of human, of 2 s and 8 s, the second with an edit; one rejection by eve after 50 ms."""
    return log_of(
        *((0, {"kind": "mcp/proposal", "to": ["git"], "payload": CALL}) for _ in range(3)),
        (0.05, {"kind": "mcp/reject", "from": "eve", "correlation_id": ["e1"], "payload": {}}),
        (
            2,
            {
                "kind": "mcp/request",
                "from": "human",
                "to": ["git"],
                "correlation_id": ["e2"],
                "payload": CALL,
            },
        ),
        (
            8,
            {
                "kind": "mcp/request",
                "from": "human",
                "to": ["git"],
                "correlation_id": ["e3"],
                "payload": {**CALL, "params": {"name": "add", "arguments": {"a": 1}}},
            },
        ),
    )


def test_decision_times_have_a_strip_for_each_that_decided() -> None:
    drawing = charts.decisions(decided())
    assert drawing.lines == ("human: median 2 s, of 2, p95 8 s", "eve: median 50 ms, of 1, p95 50 ms")
    assert len(paths(drawing, "dots")) == 1 and paths(drawing, "is-error")[0].endswith("l-6 6")
    assert len(paths(drawing, "is-participant")) == 1, "the approval with an edit"


def test_a_policy_is_a_decider_of_its_own() -> None:
    log = log_of((0, {"kind": "mcp/proposal", "to": ["git"], "payload": CALL}))
    note = {"proposal": "e1", "decision": "approve", "by": "policy calm", "request": "q"}
    detail = json.dumps({**note, "policy": {"name": "calm", "text": "approves all"}})
    log.observe(Record(2, START, "decided", "demo", "human", detail=detail))
    raw = {
        "id": "q",
        "from": "human",
        "kind": "mcp/request",
        "to": ["git"],
        "correlation_id": ["e1"],
        "payload": CALL,
    }
    now = START + timedelta(seconds=1)
    log.observe(Record(3, now, "received", "demo", "human", verdict="accepted", raw=json.dumps(raw)))
    assert charts.decisions(log).lines == ("human, policy calm: median 1 s, of 1, p95 1 s",)


def test_tokens_are_a_line_for_each_participant() -> None:
    def status(t: float, name: str, tokens: Any, most: Any = None) -> tuple[float, dict[str, Any]]:
        return t, {
            "from": name,
            "kind": "participant/status",
            "payload": {"tokens": tokens, "max_tokens": most},
        }

    log = log_of(
        status(0, "bot", 100, 8000),
        status(5, "bot", 900, 8000),
        status(9, "bot", 300, 8000),
        status(4, "eve", 10**30),
        status(6, "eve", "many"),
        status(7, "ann", 40),
    )
    drawing = charts.tokens(log)
    assert drawing.lines == (
        "bot: 300 of 8000 tokens at last, at most 900",
        "ann: 40 tokens at last, at most 40",
    )
    assert [path.count("L") for path in paths(drawing, "arrow")] == [2, 0]


def test_each_rule_of_a_frontier_has_its_number_and_its_words_and_nothing_is_cut_by_a_border() -> None:
    made = [
        decided_call(n, call(arguments={"path": f"{folder}/f{n}.{ending}"}))
        for n, (folder, ending) in enumerate([("docs", "md"), ("src", "py"), ("long/" * 30, "txt")] * 120)
    ]
    found = learned_frontier(made)
    assert len(found.points) > 1
    drawing = frontier_of(found)
    root = ElementTree.fromstring(drawing.svg())
    texts = [(node.text or "", node) for node in root.iter(f"{SPACE}text")]
    words = [text for text, _ in texts]
    for point in found.points:
        assert str(point.rules) in words
        assert any(
            text.startswith(f"{point.rules}  When coder asks files to run edit with path") for text in words
        )
    width = 5.5  # of a character, at least, in pixels
    for text, node in texts:
        x, of = float(node.get("x", "")), {"middle": 0.5, "end": 0.0}.get(node.get("text-anchor", ""), 1.0)
        assert x + of * width * len(text) <= drawing.width and float(node.get("y", "")) <= drawing.height, (
            text
        )


def test_charts_of_a_file_read_it_once(tmp_path: Path) -> None:
    decided().save(tmp_path / "session.jsonl")
    log = open_log(tmp_path / "session.jsonl")
    first = log.charts.rate().svg()
    (tmp_path / "session.jsonl").unlink()
    assert "human" in str(log.charts.talk()) and "p95" in str(log.charts.latency())
    assert "eve" in str(log.charts.decisions()) and "No participant" in str(log.charts.tokens())
    assert log.charts.rate().svg() == first


@pytest.mark.parametrize("chart", [charts.decisions, charts.tokens])
def test_what_a_peer_writes_cannot_become_markup(chart: Any) -> None:
    name = "<script>alert(1)</script>"
    log = log_of(
        (0, {"kind": "mcp/proposal", "to": ["git"], "payload": CALL}),
        (1, {"kind": "mcp/reject", "from": name, "correlation_id": ["e1"], "payload": {}}),
        (2, {"kind": "participant/status", "from": name, "payload": {"tokens": 5}}),
    )
    drawing = chart(log)
    assert "<script" not in drawing.svg() and ElementTree.fromstring(drawing.svg()) is not None
