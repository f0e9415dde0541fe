"""What the timeline sends: what is new, seldom, bounded; what it saves: pictures and words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from corpus import PAYLOADS
from pages import picture

from mew_lab.errors import JournalError, NoSuchName
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.rows import Rows
from mew_lab.log.chains import chains_of
from mew_lab.log.drawing import THEME, Drawing
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record
from mew_lab.views.timeline.exchanges import ExchangeSelection
from mew_lab.views.timeline.model import TrafficStats
from mew_lab.views.timeline.widget import MOST_POINTS, TimelineView

from ..log.agent_sessions import claude_story

GARDEN = Path(str(files("mew_lab") / "data" / "garden.jsonl"))
START = datetime(2026, 11, 21, 14, 3, tzinfo=UTC)


class Space:
    """A space's log, rows and models, with nobody in it."""

    def __init__(self, loop: LoopThread, name: str = "demo") -> None:
        self.log = Log.live(space=name)
        self.following = EntryFeed(self.log)
        self.rows = Rows(lambda: (name, 2))
        self.stats = TrafficStats()
        self.following.add(self.stats)
        self.count = 0
        self.loop = loop
        self.view = TimelineView(
            self.stats,
            ExchangeSelection(self.following),
            self.rows,
            loop=loop,
            me="human",
            clock=lambda: START,
        )

    def say(
        self, id: str, *about: str, t: float = 0.0, verdict: str = "accepted", code: str = "", **members: Any
    ) -> None:
        self.count += 1
        said = {
            "id": id,
            "from": "bot",
            "kind": "chat",
            "correlation_id": list(about),
            "to": [],
            "payload": {"text": "hello"},
        }
        moment = START + timedelta(seconds=t)
        record = Record(
            self.count, moment, "envelope", verdict=verdict, code=code, raw=json.dumps(said | members)
        )
        self.log.observe(record)
        self.rows.observe(record)
        self.loop.call(lambda: self.following.observe(record))

    def call(self, n: int, t: float = 0.0) -> None:
        self.say(
            f"q{n}",
            t=t,
            kind="mcp/request",
            to=["git"],
            payload={"method": "tools/call", "params": {"name": "git_log"}},
        )
        self.say(f"a{n}", f"q{n}", t=t + 0.1, kind="mcp/response", payload={"result": {}}, **{"from": "git"})

    def decide(self) -> None:
        self.say(
            "p1",
            kind="mcp/proposal",
            to=["git"],
            payload={"method": "tools/call", "params": {"name": "git_commit"}},
        )
        self.say(
            "p2",
            t=1,
            kind="mcp/proposal",
            to=["git"],
            payload={"method": "tools/call", "params": {"name": "git_log"}},
        )
        self.say("r1", "p1", t=4.1, kind="mcp/reject", payload={"reason": "unsafe"}, **{"from": "human"})


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    running = LoopThread("test-timeline")
    yield running
    running.stop()


@pytest.fixture
def space(loop: LoopThread) -> Space:
    return Space(loop)


def test_a_snapshot_has_all_counts_points_and_what_waits(space: Space, browser: Callable[..., Any]) -> None:
    space.call(1)
    space.decide()
    snapshot = browser(space.view).appear()
    at = int(START.timestamp())
    assert snapshot["seconds"] == [[at, [[1, 2], [2, 1]]], [at + 1, [[2, 1]]], [at + 4, [[3, 1]]]]
    assert snapshot["minutes"] == [[at, [[1, 2], [2, 2], [3, 1]]]]
    (point,) = snapshot["points"]["decision"]
    assert point == [3, "bot", 5, at + 4.1, 4.1, "rejected", "human", "Wants to run git_commit()"]
    told = snapshot["told"]["decision"]
    assert (told["of"], told["p50"], told["mine"], told["waiting"]) == (1, pytest.approx(4.1), 1, 1)
    assert told["oldest"] == [[4, at + 1.0, "bot", "Wants to run git_log()"]]
    assert snapshot["told"]["request"]["of"] == 1 and snapshot["exchange"] == {"drawing": None}
    assert [label for _, label in snapshot["families"]] == [
        "Chat",
        "Call",
        "Proposal",
        "Error",
        "Reasoning",
        "Permission",
        "Status",
        "Stream",
        "System",
    ]


def test_only_what_is_new_is_sent(space: Space, browser: Callable[..., Any]) -> None:
    for n in range(100):
        space.call(n, t=n)
    page = browser(space.view)
    page.appear()
    page.until(lambda: page.of("stats"))
    space.say("new", t=200)
    item = page.until(lambda: [one for one in page.of("stats") if one["count"] == 201])[-1]
    at = int(START.timestamp())
    assert [start for start, _ in item["seconds"]] == [at + 99, at + 200], "the last one may have grown"
    assert item["points"] == {"request": [], "decision": []}


def test_at_most_five_messages_a_second_under_load_and_bounded_ones(
    space: Space, browser: Callable[..., Any]
) -> None:
    page = browser(space.view)
    page.appear()
    for n in range(1000):
        space.call(n, t=n / 1000)
    page.until(lambda: page.of("stats") and page.of("stats")[-1]["count"] == 2000)
    worst = max(sum(1 for other in page.moments if t <= other < t + 1) for t in page.moments)
    assert worst <= 5
    assert all(len(one["points"]["request"]) <= MOST_POINTS for one in page.of("stats"))
    assert len(page.appear("v2")["points"]["request"]) == MOST_POINTS
    assert max(len(json.dumps(batch)) for batch in page.batches) < 200_000
    assert not space.view.faults


def test_quiet_spaces_send_nothing(space: Space, browser: Callable[..., Any]) -> None:
    space.say("a")
    page = browser(space.view)
    page.appear()
    page.until(lambda: page.of("stats"))
    before = len(page.of("stats"))
    space.view.wake()
    space.view.post({"t": "mark"})
    page.until(lambda: page.of("mark"))
    assert len(page.of("stats")) == before


def test_a_view_selects_an_exchange_by_id_or_number_and_gets_its_drawing(
    space: Space, browser: Callable[..., Any]
) -> None:
    space.decide()
    page = browser(space.view)
    page.appear()
    for which in ("r1", " p1 ", "#1", "1"):
        assert page.act("select", which=which)["said"].endswith("2 messages.")
    item = page.until(lambda: page.of("exchange"))[-1]
    assert item["drawing"]["title"] == "Exchange of 2 messages in 4.1 s around #1"
    assert [row[0] for row in item["steps"]] == ["#1", "#3"]
    assert page.appear("v2")["exchange"]["chosen"] == 1
    page.act("clear")
    assert page.until(lambda: [one for one in page.of("exchange") if one["drawing"] is None])
    assert space.view.diagram is None


@pytest.mark.sampled
@pytest.mark.parametrize("which", ["nobody", "", "  ", "x" * 1001, "9" * 900, "-1", "²"])
def test_what_names_no_envelope_is_refused_with_a_sentence(
    space: Space, browser: Callable[..., Any], which: Any
) -> None:
    space.decide()
    page = browser(space.view)
    page.appear()
    told = page.act("select", which=which)
    assert told["t"] == "failed" and told["said"].startswith("Cannot show")
    assert not space.view.faults


def test_code_selects_and_gets_the_diagram_for_its_cell(space: Space) -> None:
    space.decide()
    drawing = space.view.select("r1")
    assert isinstance(drawing, Drawing) and space.view.diagram == drawing
    assert "→ git: mcp/proposal Wants to run git_commit()" in str(drawing)
    with pytest.raises(JournalError, match="no such message"):
        space.view.select("nobody")
    assert "median 4.1 s" in str(space.view.latency) and "3 messages" in str(space.view.rate)


@pytest.mark.threat(3, 17)
def test_threat_03_what_travels_and_what_is_saved_is_text_whatever_was_said(
    loop: LoopThread, browser: Callable[..., Any]
) -> None:
    space = Space(loop, PAYLOADS[0])
    space.say("first")
    for n, one in enumerate((*PAYLOADS[:40], "a\u202eb\u2066")):
        space.say(
            one,
            "first",
            **{"from": one},
            kind=one if n % 2 else "mcp/proposal",
            to=[one],
            payload={"text": one, "method": one},
            context=one,
            verdict="refused" if n % 3 else "accepted",
            code=one,
        )
    space.view.select("first")
    page = browser(space.view)
    sent = json.dumps(page.appear(), ensure_ascii=False)
    assert "\u202e" not in sent and "\\\\u202e" in sent
    html = picture(space.view)
    tree = ElementTree.fromstring(re.sub(r"(<(?:br|img)\b[^>]*)>", r"\1/>", html))
    assert {node.tag for node in tree.iter()} <= {
        "div",
        "b",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "img",
        "br",
        "style",
    }
    assert {name for node in tree.iter() for name in node.attrib} <= {"style", "scope", "alt", "src", "class"}
    assert {node.text for node in tree.iter("style")} <= {re.sub("<[^>]+>", "", THEME)}, "our own rule alone"
    assert all(node.get("src", "").startswith("data:image/svg+xml;base64,") for node in tree.iter("img"))


@pytest.mark.trap("T-15")
def test_the_picture_tells_when_how_much_and_shows_the_exchange(space: Space) -> None:
    space.call(1)
    space.decide()
    space.view.select("p1")
    html = picture(space.view)
    assert "demo, timeline: 5 messages; median decision 4.1 s of 1, 1 waiting" in html
    assert html.count("<img") == 3 and "<svg" not in html and "<script" not in html
    assert "Exchange of 2 messages in 4.1 s around #3" in html and "unsafe" in html
    assert repr(space.view) == "Timeline of demo: 5 messages; median decision 4.1 s of 1, 1 waiting"


def test_an_empty_timeline_says_what_would_fill_it(space: Space) -> None:
    html = picture(space.view).replace("&quot;", '"')
    assert 'lab.chat("hello") sends one' in html and "<img" not in html


# --- of a log from files ------------------------------------------------------------------------------------------------


def sums(beats: list[list[Any]]) -> int:
    return sum(count for _, counts in beats for _, count in counts)


@pytest.mark.parametrize("which", ["garden", 1, 2, 3])
def test_a_log_from_files_has_the_times_and_exchanges_of_all_its_messages(
    browser: Callable[..., Any], tmp_path: Path, which: str | int
) -> None:
    log = open_log(GARDEN if which == "garden" else claude_story(int(which)).write(tmp_path / "s.jsonl"))
    page = browser(log.view.timeline)
    snapshot = page.appear()
    frame, requests = log.df, log.requests()
    assert snapshot["count"] == sums(snapshot["seconds"]) == len(frame)
    assert snapshot["ended"] == pytest.approx([*log.records][-1].now.timestamp(), abs=0.001)
    points = snapshot["points"]["request"]
    answered = requests[requests["latency"].notna()]
    assert sorted(point[0] for point in points) == sorted(answered["seq"])
    assert sorted(point[4] for point in points) == pytest.approx(sorted(answered["latency"]), abs=0.001)
    chains = chains_of(log.records)
    for seq in frame["seq"].sample(min(20, len(frame)), random_state=0):
        page.act("select", which=f"{log.sign}{seq}")
        item = page.until(lambda seq=seq: [one for one in page.of("exchange") if one.get("chosen") == seq])[
            -1
        ]
        expected = chains.exchange(int(seq))
        assert [row[0] for row in item["steps"]] == [f"{log.sign}{step.seq}" for step in expected.steps]
    page.act("select", which=f"{log.sign}999999")
    page.until(lambda: "999999" in str(page.of("failed")))


def test_a_log_of_a_running_space_has_no_timeline_of_its_own() -> None:
    with pytest.raises(NoSuchName, match=r"Other parts are those of lab\.view"):
        _ = Log.live(space="demo").view.timeline
