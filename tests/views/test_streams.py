"""The streams view without a browser: what is sent, how much, what a page may ask for, and what a saved notebook shows."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from heard import Space
from pages import picture

from mew_lab.lab.lab import Lab
from mew_lab.lab.seat import Seat
from mew_lab.ledger.entry import Entry
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams.widget import StreamsView, view_of
from mew_lab.views.ui.pictures import MOST_ROWS

STREAMS = [{"kind": "stream/*"}]
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"
SHOWN = "<img src=x onerror=alert(1)>\\u202e\\u001b[31m"


@pytest.fixture
def bot(lab: Lab) -> Seat:
    return lab.join("bot", can=STREAMS)


class Page:
    """A page that shows the view of a real lab."""

    def __init__(self, browser: Any, lab: Lab) -> None:
        self.browser, self.lab = browser, lab
        self.view: StreamsView = browser.view
        self.act = browser.act

    def request(self, seat: Seat, direction: str = "upload", **said: Any) -> Stream:
        work = seat.participant.streams.request_stream(direction, **said)
        stream = self.lab.loop.run(work, timeout=10, doing="requesting a stream")
        self.browser.until(lambda: self.view.streaming.open_row(stream.id))
        return stream

    def write(self, stream: Stream, *frames: bytes) -> None:
        async def write() -> None:
            for data in frames:
                await stream.write(data)

        self.lab.loop.run(write(), timeout=20, doing="writing")

    def key(self, stream: Stream) -> int:
        row = self.view.streaming.open_row(stream.id)
        assert row is not None
        return row.key

    def rows(self) -> dict[int, dict[str, Any]]:
        """The rows as a view would have them now."""
        rows: dict[int, dict[str, Any]] = {}
        for item in self.browser.items:
            if item["t"] in ("snapshot", "rows"):
                rows |= {row["key"]: row for row in item["rows"]}
            for key in item.get("keys", []):
                rows.pop(key, None)
        return rows

    def shown(self) -> list[dict[str, Any]]:
        return list(self.browser.of("shown"))

    def text(self) -> str:
        return "".join(item.get("text", "") for item in self.shown())

    def look(self, key: int, kind: str | None = None, view: str = "v1") -> None:
        self.browser.send({"t": "look", "view": view, "key": key, "kind": kind})


@pytest.fixture
def page(lab: Lab, browser: Callable[[Any], Any]) -> Page:
    return Page(browser(view_of(lab)), lab)


def test_a_view_gets_the_rows_there_are_and_then_only_what_changes(page: Page, bot: Seat) -> None:
    first = page.request(bot, description="first", content_type="text/plain")
    snapshot = page.browser.appear()
    [row] = snapshot["rows"]
    assert (row["id"], row["owner"], row["description"], row["state"]) == (first.id, "bot", "first", "open")
    assert (snapshot["open"], snapshot["ended"], snapshot["mayRequest"]) == (1, 0, True)
    page.browser.until(lambda: page.browser.of("rows"))
    before = len(page.browser.of("rows"))
    page.write(first, b"12345")
    page.browser.until(
        lambda: [row["key"], 1, 5, 2] in [c for i in page.browser.of("counts") for c in i["counts"]]
    )
    second = page.request(bot)
    page.browser.until(lambda: page.key(second) in page.rows())
    fresh = [one["id"] for item in page.browser.of("rows")[before:] for one in item["rows"]]
    assert first.id not in fresh, "frames alone send no row again"


def test_a_stream_that_carries_reasoning_is_told_as_the_thoughts_of_its_owner(page: Page, lab: Lab) -> None:
    bot, eve = lab.join("bot", can="admin"), lab.join("eve", can="admin")
    start = bot.send("reasoning/start", {"message": "Which bed is dry?"}).id
    known = page.request(bot, description=f"reasoning:{start}")
    other = page.request(eve, description=f"reasoning:{start}")
    shown = {page.key(known): "thoughts of bot", page.key(other): f"reasoning:{start}"}
    page.browser.appear()
    page.browser.until(lambda: {key: row["description"] for key, row in page.rows().items()} == shown)
    assert "thoughts of bot" in picture(page.view)


def test_only_the_view_that_opened_a_stream_gets_its_bytes(page: Page, bot: Seat) -> None:
    stream = page.request(bot, content_type="text/plain")
    page.write(stream, "ä\u202e".encode())
    page.browser.appear("v1")
    page.browser.appear("v2")
    page.look(page.key(stream), view="v2")
    page.browser.until(page.shown)
    assert [(item["view"], item["kind"], item["text"]) for item in page.shown()] == [
        ("v2", "text", "ä\\u202e")
    ]
    page.look(page.key(stream), kind="hex", view="v1")
    page.browser.until(lambda: len(page.shown()) == 2)
    assert page.shown()[1]["lines"] == [[0, "c3 a4 e2 80 ae", "·····"]]
    page.browser.send({"t": "bye", "view": "v2"})
    page.write(stream, b"later")
    page.browser.until(lambda: len(page.shown()) == 3)
    assert page.shown()[2]["view"] == "v1"


def test_a_paused_view_gets_nothing_until_it_goes_on(page: Page, bot: Seat) -> None:
    stream = page.request(bot)
    page.browser.appear()
    page.look(page.key(stream))
    page.write(stream, b"seen, ")
    page.browser.until(lambda: page.text() == "seen, ")
    page.browser.send({"t": "pause", "view": "v1", "on": True})
    page.write(stream, b"held")
    key = page.key(stream)
    page.browser.until(
        lambda: [key, 2] in [count[:2] for item in page.browser.of("counts") for count in item["counts"]]
    )
    assert page.text() == "seen, "
    page.browser.send({"t": "pause", "view": "v1", "on": False})
    page.browser.until(lambda: page.text() == "seen, held")


def test_under_load_there_are_at_most_25_messages_a_second_and_each_byte_is_shown_or_told(
    page: Page, bot: Seat
) -> None:
    streams = [page.request(bot) for _ in range(8)]
    page.browser.appear()
    page.look(page.key(streams[0]))
    page.write(streams[0], b"x")
    page.browser.until(page.text)
    sent, began = len(page.browser.batches), time.monotonic()
    total = 1
    while time.monotonic() < began + 1.5:
        for stream in streams:
            page.write(stream, *[b"x" * 1000] * 20)
        total += 20_000

    def told() -> int:
        skipped = max((item.get("skipped", 0) for item in page.shown()), default=0)
        return skipped + len(page.text())

    page.browser.until(lambda: told() == total)
    seconds = page.browser.moments[-1] - began
    assert len(page.browser.batches) - sent <= 25 * seconds
    assert len(page.text()) <= 256 * 1024 * (seconds + 1) + 20_000
    moments = page.browser.moments[sent:]
    assert min(later - earlier for earlier, later in itertools.pairwise(moments)) >= 1 / 25
    assert len(page.browser.threads) == 1, "one writer"


def test_a_list_too_long_shows_her_own_and_the_newest_and_counts_the_rest(page: Page, bot: Seat) -> None:
    mine = page.request(page.lab.me)
    # Each of them has a share of the streams that a space may have.
    bots = [bot, *(page.lab.join(f"bot-{n}", can=STREAMS) for n in range(2, 9))]
    for n in range(MOST_ROWS + 5):
        last = page.request(bots[n % len(bots)], description="d" * 1000)
    snapshot = page.browser.appear()
    ids = [row["id"] for row in snapshot["rows"]]
    assert len(ids) == MOST_ROWS and snapshot["leftOut"] == 6
    assert mine.id in ids and last.id in ids and "stream-2" not in ids
    assert [row["key"] for row in snapshot["rows"]] == sorted(row["key"] for row in snapshot["rows"])
    assert len(json.dumps(snapshot)) < 200_000


# --- what a page asks for ---


def test_every_deed_of_a_row_reaches_the_gateway(page: Page, bot: Seat) -> None:
    page.browser.appear()
    told = page.act("open", direction="upload", description=" notes ", content_type="", format="", target="")
    assert (told["t"], told["said"]) == ("done", "stream-1 is open; you own it.")
    key = told["value"]["key"]
    assert page.act("grant", key=key, participant="bot")["said"] == "bot may now write to stream-1."
    stream = page.lab.me.participant.streams.active["stream-1"]
    assert (stream.description, stream.writers) == ("notes", ("human", "bot"))
    assert page.act("revoke", key=key, participant="bot")["said"] == "bot may no longer write to stream-1."
    assert stream.writers == ("human",)
    page.write(stream, b"a\n", b"b\n")
    page.browser.until(lambda: page.view.streaming.traffic(key)[0] == 2)
    saved = page.act("save", key=key, kind="json")
    assert re.fullmatch(r"Wrote 4 bytes of stream-1 to .*/stream-1-\d{8}-\d{6}\.jsonl\.", saved["said"])
    assert [path.read_bytes() for path in Path.cwd().glob("stream-1-*.jsonl")] == [b"a\nb\n"]
    assert page.act("transfer", key=key, participant="bot")["said"] == "stream-1 belongs to bot now."
    assert page.act("close", key=page.act("open")["value"]["key"])["said"] == "stream-2 is closed."


@pytest.mark.req("P-3.10.5-1")
def test_a_refusal_is_the_gateways_own_sentence(page: Page, bot: Seat) -> None:
    page.browser.appear()
    key = page.key(page.request(bot))
    assert "human cannot close stream-1: its owner is bot" in page.act("close", key=key)["said"]
    for name in ("grant", "revoke", "transfer"):
        refused = page.act(name, key=key, participant="human")
        assert refused["t"] == "failed" and "its owner is bot" in refused["said"]
    mine = page.act("open")["value"]["key"]
    told = page.act("grant", key=mine, participant="ghost")
    assert told["t"] == "failed" and "'ghost' is not in this space now" in told["said"]
    assert "always may write" in page.act("revoke", key=mine, participant="human")["said"]
    page.act("close", key=mine)
    assert "is closed (complete), so nothing was sent" in page.act("close", key=mine)["said"]
    assert "Cannot save that stream: none of its frames are held" in page.act("save", key=mine)["said"]
    assert page.view.faults.maxlen and not page.view.faults


@pytest.mark.threat(3)
def test_no_path_comes_from_a_page(page: Page) -> None:
    page.browser.appear()
    key = page.act("open")["value"]["key"]
    page.write(page.lab.me.participant.streams.active["stream-1"], b"x")
    page.browser.until(lambda: page.view.streaming.traffic(key)[0] == 1)
    for wrong in ({"kind": "../../x"}, {"folder": "/tmp"}, {"file": "../evil"}, {"path": "/tmp/evil"}):
        assert page.act("save", key=key, **wrong)["t"] == "failed"
    told = page.act("save", key=key)
    assert Path(told["said"].split(" to ")[1].rstrip(".")).parent == Path.cwd()


def test_an_act_on_no_stream_is_refused_with_a_sentence(page: Page) -> None:
    page.browser.appear()
    for name, more in (
        ("close", {}),
        ("save", {}),
        ("grant", {"participant": "bot"}),
        ("transfer", {"participant": ""}),
    ):
        assert page.act(name, key=99, **more)["t"] == "failed"
    assert not page.view.faults


# --- hostile, and what is left when nobody is there ---


@pytest.mark.threat(3, 17)
def test_every_text_of_a_row_is_visible_text(page: Page, bot: Seat) -> None:
    said = {"description": HOSTILE, "content_type": HOSTILE, "format": HOSTILE, "encoding": HOSTILE}
    page.request(bot, **said, metadata={HOSTILE: 1})
    [row] = page.browser.appear()["rows"]
    assert [row[name] for name in ("description", "type", "format", "encoding")] == [SHOWN] * 4
    space = Space(page.view.streaming)
    # Another gateway may let a stream, a participant and a reason be called anything.
    id = "<img src=x onerror=alert(1)>"
    names = {"stream_id": id, "owner": HOSTILE, "authorized_writers": [HOSTILE], "target": [HOSTILE]}
    for n, (kind, payload) in enumerate(
        [("stream/open", names), ("stream/close", {"stream_id": id, "reason": HOSTILE})], 1000
    ):
        heard = told(n, kind, payload)
        page.lab.loop.call(lambda heard=heard: space.hand_on(heard))
    other = page.browser.until(
        lambda: next((r for r in page.rows().values() if r["state"] == "closed"), None)
    )
    assert (other["id"], other["owner"], other["writers"], other["target"]) == (id, SHOWN, [SHOWN], [SHOWN])
    assert other["reason"] == SHOWN
    asked = told(1009, "stream/request", {})
    error = {"error": "target_not_found", "message": HOSTILE}
    refused = told(1010, "system/error", error, correlation_id=[asked.id])
    page.lab.loop.call(lambda: (space.hand_on(asked), space.hand_on(refused)))
    last = page.browser.until(
        lambda: next((r for r in page.rows().values() if r["state"] == "refused"), None)
    )
    assert last["reason"] == SHOWN
    assert "\u202e" not in json.dumps(page.browser.items, ensure_ascii=False)


def told(seq: int, kind: str, payload: dict[str, Any], **more: Any) -> Entry:
    """What a gateway said, as the log has it."""
    members = {
        "protocol": "mew/v0.4",
        "id": f"gw-{seq}",
        "ts": "2026-01-01T00:00:00Z",
        "from": "system:gateway",
    }
    members |= {"kind": kind, "payload": payload} | more
    return Entry(seq, 1767225600.0, json.dumps(members), "sent", "", "", "system:gateway", members)


@pytest.mark.threat(3, 4)
def test_the_picture_in_a_saved_notebook_is_text_and_says_what_was_looked_at(page: Page, bot: Seat) -> None:
    stream = page.request(bot, description=HOSTILE, content_type="text/plain")
    page.write(stream, HOSTILE.encode() + b"\nsecond <b>line</b>\n")
    page.browser.appear()
    page.look(page.key(stream))
    page.browser.until(page.text)
    html = picture(page.view)
    assert "Streams: 1 open, 0 closed" in html
    assert "second &lt;b&gt;line&lt;/b&gt;" in html and "&lt;img src=x" in html
    assert not re.search(r"<(?!/?(div|b|table|thead|tbody|tr|th|td|br)\b)", html)
    assert repr(page.view) == "Streams: 1 open, 0 requested, 0 closed"
    for kind, said in (
        ("json", "as JSON lines: the last 2 lines"),
        ("hex", "00000000  3c 69 6d 67"),
        ("numbers", "as numbers"),
        ("image", "no picture"),
    ):
        page.look(page.key(stream), kind=kind)
        page.browser.until(lambda said=said: said in picture(page.view))


def test_an_empty_picture_says_what_would_fill_it(page: Page) -> None:
    assert "request_stream(" in picture(page.view)
    assert page.view.badge() == ""


def test_a_snapshot_asked_for_while_a_cell_computes_is_answered_by_another_thread(
    page: Page, bot: Seat
) -> None:
    page.request(bot)
    done: Future[Any] = Future()
    threading.Thread(target=lambda: done.set_result(page.browser.appear()), daemon=True).start()
    assert done.result(10)["open"] == 1
