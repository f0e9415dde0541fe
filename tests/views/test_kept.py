"""Results that were too large for a message, in the views: what a head tells, Load, its progress, its end, and its bounds."""

from __future__ import annotations

import base64
import json
import struct
import time
import zlib
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import picture

from mew_lab.lab.lab import Lab
from mew_lab.protocol.kept import ResultHead, ResultUri
from mew_lab.protocol.text import count_of
from mew_lab.sdk.kept_results import COUNTED, KeptAnswer, holds_more_values
from mew_lab.views.ui import kept as kept_module
from mew_lab.views.ui.kept import draw_kept, pack_kept

pytestmark = [pytest.mark.ruling("R43"), pytest.mark.timeout(120)]
SIZE = 1_500_000


@pytest.fixture
def lab(lab: Lab) -> Lab:
    @lab.tool
    def large(size: int = SIZE) -> str:
        "A text."
        return "é" * (size // 2)

    return lab


@pytest.fixture
def answered(lab: Lab) -> Any:
    """A large call that was proposed by another participant and approved by the person, with its result."""
    clerk = lab.join("clerk", "proposer")
    pending = clerk.propose("notebook/large", {"size": SIZE})
    lab.loop.run(lab.me.participant.approve(pending.id), timeout=20, doing="approving")
    pending.result(60)
    return pending


def texts(value: Any) -> list[str]:
    return [block["text"] for block in value if block["kind"] == "text"]


def seq_of_answer(lab: Lab, at: int = 0) -> int:
    df = lab.log.df
    return int(df["seq"][df["kind"] == "mcp/response"].iloc[at])


def test_the_tools_view_shows_a_head_and_loads_the_result_with_progress(
    lab: Lab, browser: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "TOLD_EVERY", 0.0)
    page = browser(lab.view.tools)
    page.appear()
    page.until(lambda: page.act("find", query="large")["value"]["total"])
    run = page.act("start", tool="notebook/large", text='{"size": 1500000}', how="call")["value"]["run"]
    page.until(lambda: [item for item in page.of("run") if not item["run"]["waits"]])
    found = page.act("result", run=run)["value"]
    assert found["kept"]["size"] == "1.5 MB" and found["kept"]["by"] == "notebook"
    assert 86_000 < found["kept"]["expires"] - time.time() < 86_401, "R43: 24 h by default"
    assert found["kept"]["holds"] == ["text of 750000 characters"]
    loaded = page.act("load", run=run, key="v1 a")
    assert (loaded["t"], loaded["said"]) == ("done", "Loaded 1.5 MB.")
    [text] = texts(loaded["value"])
    assert text.startswith("é" * 50_000 + f"\n… {count_of(700_000, 'more character')}: lab.load(")
    told = page.of("loading")
    assert len(told) > 3 and {item["key"] for item in told} == {"v1 a"}
    counts = [item["bytes"] for item in told]
    assert counts == sorted(counts) and counts[-1] == found["kept"]["bytes"] > counts[0]
    begin = text.partition("lab.load('")[2][:8]
    assert lab.load(begin).text == "é" * 750_000, "the way that the note names"


def test_the_feed_and_the_line_of_a_decided_call_load_it_too(
    lab: Lab, answered: Any, browser: Callable[[Any], Any]
) -> None:
    feed, seq = browser(lab.view.feed), seq_of_answer(lab)
    feed.appear()
    feed.send({"t": "raw", "view": "v1", "seq": seq})
    [item] = feed.until(lambda: feed.of("raw"))
    assert item["loads"] is True and item["kept"]["size"] == "1.5 MB"
    assert texts(feed.act("load", seq=seq, key="v1 1")["value"])[0].startswith("ééé")
    feed.send({"t": "raw", "view": "v1", "seq": seq - 2})
    feed.until(lambda: len(feed.of("raw")) == 2)
    assert feed.of("raw")[1]["kept"] is None
    cards = browser(lab.view.approvals)
    [card] = cards.appear()["cards"]
    assert card["kept"]["holds"] == ["text of 750000 characters"] and "mew-result://" in card["outcome"]
    assert texts(cards.act("load", id=answered.id, key="v1 2")["value"])[0].startswith("ééé")
    for stored in (lab.view.approvals, lab.view.feed):
        assert "ééé" not in picture(stored), "a saved notebook holds the head alone"


def test_what_cannot_be_loaded_is_said_and_what_helps(
    lab: Lab, answered: Any, browser: Callable[[Any], Any]
) -> None:
    page, seq = browser(lab.view.feed), seq_of_answer(lab)
    page.appear()
    for params in ({"seq": 1}, {"seq": 99_999}):
        refused = page.act("load", key="v1 1", **params)
        assert refused["t"] == "failed" and "no longer held" in refused["said"]
    assert page.act("stop_load", key="v1 1")["said"] == "It is not being loaded any more."
    # A call of another participant, by its own right.
    other = lab.join("other", [{"kind": "mcp/*"}])
    other.call("notebook/large").result(60)
    said = page.act("load", seq=seq_of_answer(lab, at=-2), key="v1 1")["said"]
    assert (
        "Only the participants that proposed, sent or approved" in said and "One of these can load it" in said
    )
    lab.loop.call(lab.seats["notebook"].participant.results.store.close)
    said = page.act("load", seq=seq, key="v1 1")["said"]
    assert "has expired" in said and "only another call gives a result again" in said
    lab.leave("notebook")
    assert page.act("load", seq=seq, key="v1 1")["t"] == "failed"
    assert list(lab.view.feed.faults) == [], "each was a refusal, and no failure of the view"


def test_loading_is_cancelled_and_begins_anew(
    lab: Lab, answered: Any, browser: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_module, "TOLD_EVERY", 0.0)
    monkeypatch.setattr("mew_lab.sdk.kept_results.PACE", 300_000)
    page, seq = browser(lab.view.feed), seq_of_answer(lab)
    page.appear()
    job = page.begin("load", seq=seq, key="v1 1")
    page.until(lambda: page.of("loading"))
    assert page.act("load", seq=seq, key="v1 1")["said"] == "It is being loaded already."
    assert page.act("stop_load", key="v1 1")["t"] == "done"
    [ended] = page.until(lambda: page.ended(job))
    assert (ended["t"], ended["said"].partition(".")[0]) == ("failed", "Loading was cancelled")
    monkeypatch.setattr("mew_lab.sdk.kept_results.PACE", 40_000_000)
    assert page.act("load", seq=seq, key="v1 1")["t"] == "done"


# --- what is drawn ---


def kept(method: str = "tools/call", call: str = "0123456789") -> KeptAnswer:
    head = ResultHead(ResultUri("git", "0" * 32), 5, "0" * 64, "2026-01-01T00:00:00Z", 0)
    return KeptAnswer(head, "git", method, call)


def png(width: int, height: int, size: int) -> str:
    """A PNG of so many pixels, with a chunk of so many bytes that no compression makes smaller."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\0\0\0" * width for _ in range(height)))
    parts = (
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        chunk(b"prVt", b"x" * size),
    )
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    ).decode()


def test_a_screenshot_of_some_megabytes_is_drawn() -> None:
    shot = {"type": "image", "data": png(1280, 720, 3_700_000), "mimeType": "image/png"}
    [drawn, note] = draw_kept(json.dumps({"content": [shot]}).encode(), kept())
    assert (drawn.kind, drawn.mime, drawn.text) == ("image", "image/png", shot["data"])
    assert note.text == "In a cell, lab.load('01234567') gives the whole."
    shot["data"] = png(10, 10, 20_000_000)
    [refused, _] = draw_kept(json.dumps({"content": [shot]}).encode(), kept())
    assert refused.kind == "note" and "characters of base64 is not shown" in refused.text


def test_texts_of_64_mb_are_shown_by_their_beginning_with_a_count() -> None:
    for text in ("a,b[{\n" * 10_000_000, '{"a": "' + "x" * 60_000_000 + '"}', '"\\' * 30_000_000):
        began = time.process_time()
        [block, _] = draw_kept(json.dumps({"content": [{"type": "text", "text": text}]}).encode(), kept())
        assert block.kind == "text" and count_of(len(text) - 50_000, "more character") in block.text
        assert len(block.text) < 120_000 and time.process_time() - began < 20


def test_a_result_of_millions_of_values_is_not_parsed() -> None:
    [note] = draw_kept(b'{"content":[' + b"[]," * 20_000_000 + b"1]}", kept())
    assert note.text.startswith("Not drawn, for it holds more than 500000 values")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\,[{\n'),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(alphabet='a"\\,[{', max_size=3), inner, max_size=4)
    ),
    max_leaves=40,
)


def signs(value: Any) -> int:
    """The commas and opening brackets that JSON needs for a value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(0, len(value) - 1) + sum(map(signs, inner))
    return 0


@given(VALUES)
def test_values_are_counted_without_what_strings_hold(value: Any) -> None:
    text, count = json.dumps(value).encode(), signs(value)
    assert not holds_more_values(text, count)
    if count:
        assert holds_more_values(text, count - 1)


def test_values_are_counted_wherever_their_text_is_cut_to_be_counted() -> None:
    value = ["\\", '"', '\\"', "\\\\,[", '",{', "\\" * 5 + '"']
    inner, count = json.dumps(value), 2 + signs(value)
    for place in range(len(inner) + 1):
        text = f'["{"x" * (COUNTED - place)}",{inner}]'.encode()
        assert not holds_more_values(text, count) and holds_more_values(text, count - 1)


def test_no_text_takes_long_to_be_counted() -> None:
    text = b'""' * 5_000_000 + b'"' + b"," * 20_000 + b'"'
    begun = process_time()
    assert not holds_more_values(text, 10_000)
    assert process_time() - begun < 1.5


@given(st.text(alphabet='a"\\,[]{}', max_size=60), st.integers(0, 5))
def test_no_text_stops_the_count(text: str, most: int) -> None:
    assert holds_more_values(text.encode(), most) in (True, False)


HEADS = st.fixed_dictionaries(
    {"uri": st.just(f"mew-result://git/{'0' * 32}"), "sha256": st.just("0" * 64), "size": st.integers(0, 2**70), "parts": st.just(0)},
    optional={
        "expires": st.text(max_size=40) | st.sampled_from(["9999-12-31T23:59:59Z", "2026-13-01T00:00:00Z", 7, None]),
        "holds": st.lists(st.text(max_size=300) | st.integers(), max_size=30) | st.text() | st.integers(),
    },
)  # fmt: skip


@given(HEADS)
def test_what_a_head_tells_is_shown_in_bounds(meta: dict[str, Any]) -> None:
    head = ResultHead.of({"_meta": {"mew-lab/kept": meta}})
    assert head is not None
    told = pack_kept(KeptAnswer(head, "git\u202e", "tools/call", ""))
    assert len(told["holds"]) <= 6 and all(len(text) <= 200 and text.isprintable() for text in told["holds"])
    assert told["by"].isprintable() and (told["expires"] is None or told["expires"] < 1e12)
    json.dumps(told)


def test_a_call_without_a_kept_result_has_nothing_to_load(lab: Lab) -> None:
    small = lab.call("notebook/large", {"size": 2})
    small.result(20)
    calls = lab.me.participant.ledger.calls
    for id in (small.id, "nothing", ""):
        assert lab.loop.call(lambda id=id: KeptAnswer.find(calls, id)) is None  # type: ignore[misc]
