"""Reasoning as a page gets it, and what a page may ask for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from heard import Space
from pages import Deeds, picture

import mew_lab
from mew_lab.sdk.client import StreamData
from mew_lab.views.reasoning.model import ReasoningModel
from mew_lab.views.reasoning.widget import ReasoningView, view_of

ADD = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "note": "x" * 500}}}


class Me:
    """A participant that may cancel whom it likes."""

    def __init__(self) -> None:
        self.client = self.sender = self
        self.participants: dict[str, Any] = {"helper": []}
        self.may = True

    def permitted(self, kind: str, payload: Any, *, to: Any = ()) -> bool:
        return self.may


class Room:
    """A space of thoughts with its view; what a page has done is written down."""

    def __init__(self) -> None:
        self.me = Me()
        self.thoughts = ReasoningModel(self.me)  # type: ignore[arg-type]
        self.space = Space(self.thoughts)
        self.kernel = Deeds("Cancelled.")
        self.view = ReasoningView(
            self.thoughts, submit=self.kernel.submit, raw=lambda seq: self.space.raw.get(seq, ""),
            clock=lambda: datetime(2026, 11, 22, 14, 3, 22, tzinfo=UTC),
        )  # fmt: skip
        self.view.interval = 0.01


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_page_gets_the_sequences_and_the_steps_of_what_is_active(
    room: Room, browser: Callable[..., Any]
) -> None:
    room.space.tell("reasoning/start", {"message": "over"}, id="a")
    room.space.tell("reasoning/conclusion", {"message": "done"}, context="a")
    room.space.tell("reasoning/start", {"message": "rain"}, id="b")
    room.space.tell("mcp/proposal", ADD, id="p", context="b/plan", to=["tools"])
    page = browser(room.view)
    snapshot = page.appear()
    first, second = snapshot["sequences"]
    assert (first["state"], first["may"], second["state"], second["may"]) == (
        "concluded",
        False,
        "active",
        True,
    )
    assert (second["owner"], second["text"], second["open"], second["ended"]) == ("helper", "rain", 1, None)
    (step,) = snapshot["steps"]
    assert (step["key"], step["n"], step["path"], step["call"]["state"]) == (2, 1, ["plan"], "proposed")
    room.space.tell("mcp/reject", {"reason": "unsafe"}, by="human", about="p")
    page.until(lambda: page.of("steps"))
    assert page.of("steps")[-1]["steps"][0]["call"] == {
        "id": "p", "state": "rejected", "by": "human", "ended": 5.0, "result": "unsafe", "claims": [],
    }  # fmt: skip
    assert page.act("steps", key=1, after=0)["value"]["steps"][0]["text"] == "done"


def test_under_load_few_messages_go_out_and_the_newest_state_arrives(
    room: Room, browser: Callable[..., Any]
) -> None:
    room.view.interval = type(room.view).interval
    page = browser(room.view)
    page.appear()
    room.space.tell("reasoning/start", {"message": "busy"}, id="a")
    began, sent, n, breath = time.monotonic(), len(page.batches), 0, threading.Event()
    while time.monotonic() < began + 1:
        n += 1
        room.space.tell("reasoning/thought", {"message": f"thought {n}"}, context="a")
        breath.wait(0.0005)
    room.space.tell("reasoning/conclusion", {"message": "done"}, context="a")

    def newest() -> dict[str, Any]:
        return dict(page.of("sequences")[-1]["sequences"][-1])

    page.until(lambda: page.of("sequences") and newest()["state"] == "concluded")
    gaps = [later - earlier for earlier, later in pairwise(page.moments[sent:])]
    assert len(gaps) >= 2 and min(gaps) >= 1 / 25, "at most 25 messages a second"
    assert newest()["thoughts"] == n and newest()["steps"] == n + 1
    page.until(lambda: page.of("steps") and page.of("steps")[-1]["steps"][-1]["n"] == n + 1)
    assert max(len(json.dumps(batch)) for batch in page.batches) < 500_000


@pytest.mark.req("S-L3-9")
def test_the_end_of_the_stream_beside_it_travels_and_all_of_it_when_asked_for(
    room: Room, browser: Callable[..., Any]
) -> None:
    room.space.tell("reasoning/start", {"message": "rain"}, id="a")
    room.space.tell("stream/request", {}, id="wish", about="a")
    room.space.tell("stream/open", {"stream_id": "stream-3"}, by="system:gateway", about="wish")
    page = browser(room.view)
    page.appear()
    for n in range(100):
        token = json.dumps({"type": "token", "text": f"token {n} "}).encode() + b"\n"
        room.thoughts.frame(StreamData("stream-3", token))
    page.until(
        lambda: page.of("streams") and page.of("streams")[-1]["streams"][0]["text"].endswith("token 99 ")
    )
    assert len(page.of("streams")[-1]["streams"][0]["text"]) <= 600
    whole = page.act("stream", key=1)["value"]["text"]
    assert whole.startswith("token 0 ") and whole.endswith("token 99 ")


def test_the_whole_of_a_step_comes_when_asked_for(room: Room, browser: Callable[..., Any]) -> None:
    room.space.tell("reasoning/start", {"message": "a" * 2000}, id="a")
    room.space.tell("reasoning/thought", {"message": "long\n" * 200 + "\u202e"}, context="a")
    room.space.tell("mcp/request", ADD, id="q", about="a", to=["tools"])
    answer = {"result": {"content": [{"type": "text", "text": "line one\nline two"}]}}
    room.space.tell("mcp/response", answer, by="tools", about="q")
    page = browser(room.view)
    page.appear()
    assert page.act("whole", key=1, n=0)["value"]["text"] == "a" * 2000
    assert page.act("whole", key=1, n=1)["value"]["text"] == "long\n" * 200 + "\\u202e"
    call = page.act("whole", key=1, n=2)["value"]["text"]
    assert '"note": "xxx' in call and call.endswith("\n\nline one\nline two")
    room.space.raw.clear()
    assert "lab.log.df has it" in page.act("whole", key=1, n=1)["said"]


def test_cancelling_sends_the_number_and_the_reason_and_nothing_else(
    room: Room, browser: Callable[..., Any]
) -> None:
    page = browser(room.view)
    page.appear()
    assert page.act("cancel", key=4, reason=" timeout ")["said"] == "Cancelled."
    assert page.act("cancel", key=1, reason=" ")["t"] == "failed"
    assert room.kernel.done == [("cancel", {"key": 4, "reason": "timeout"})]


def test_what_may_be_done_is_told_anew_when_rights_change(room: Room, browser: Callable[..., Any]) -> None:
    room.space.tell("reasoning/start", {"message": "rain"}, id="a")
    page = browser(room.view)
    assert page.appear()["sequences"][0]["may"] is True
    room.me.may = False
    room.thoughts.refresh_active()
    page.until(lambda: page.of("sequences"))
    assert page.of("sequences")[-1]["sequences"][0]["may"] is False


@pytest.mark.threat(17)
def test_what_cannot_be_seen_travels_as_an_escape(room: Room, browser: Callable[..., Any]) -> None:
    hidden = "a\u202eb\u200b"
    room.space.tell("reasoning/start", {"message": hidden}, id=hidden, by=hidden)
    for kind in ("reasoning/thought", "chat", hidden, "reasoning/cancel"):
        payload = {"message": hidden, "text": hidden, "reason": hidden}
        room.space.tell(kind, payload, context=f"{hidden}/in {hidden}", by=hidden, to=[hidden])
    call = {"method": hidden, "params": {"name": hidden, "arguments": {hidden: hidden}}}
    room.space.tell("mcp/proposal", call, about=hidden, by=hidden, id="p")
    room.space.tell("mcp/withdraw", {}, by=f"{hidden}!", about="p")
    room.space.tell("mcp/reject", {"reason": hidden}, by=hidden, about="p")
    snapshot = browser(room.view).appear()
    assert len(snapshot["steps"]) == 5
    assert not set("\u202e\u200b") & set(json.dumps(snapshot, ensure_ascii=False))


@pytest.mark.trap("T-15")
@pytest.mark.threat(3)
def test_the_picture_has_the_last_200_lines_as_text(room: Room) -> None:
    assert 'lab.ask("helper", "…")' in picture(room.view).replace("&quot;", '"')
    hostile = "<img src=x onerror=alert(1)>"
    room.space.tell("reasoning/start", {"message": hostile}, id="a", by=hostile)
    for n in range(240):
        room.space.tell("reasoning/thought", {"message": f"thought {n + 1}."}, context="a", by=hostile)
    room.space.tell("mcp/proposal", ADD, about="a", id="p", by=hostile, to=[hostile])
    room.space.tell("mcp/reject", {"reason": hostile}, by=hostile, about="p")
    html = picture(room.view)
    assert "Reasoning: 1 active, 1 in all" in html
    assert "Not shown: 42 earlier lines" in html
    assert html.count("<tr>") == 201 and "thought 42." in html and "thought 41." not in html
    assert "<img" not in html and "<script" not in html
    assert "rejected by &lt;img" in html
    assert repr(room.view).startswith("Reasoning: 1 active, 0 ended, newest: <img")


@pytest.mark.trap("T-16")
def test_the_view_of_a_lab_hears_what_was_before_and_nothing_once_it_is_closed(
    browser: Callable[..., Any],
) -> None:
    lab = mew_lab.up("reasoning-test", journal=None)
    try:
        lab.send("reasoning/start", {"message": "rain"})
        view = view_of(lab, lab.rows)
        page = browser(view)
        page.until(lambda: repr(view) == "Reasoning: 1 active, 0 ended, newest: human “rain”")
        assert view.badge() == "1 active"
        other = browser(view_of(lab, lab.rows))
        view.close()
        lab.send("reasoning/start", {"message": "rain"})
        other.until(lambda: repr(other.view).startswith("Reasoning: 2 active, 0 ended"))
        assert repr(view) == "Reasoning: 1 active, 0 ended, newest: human “rain”"
        assert not view.faults
    finally:
        lab.down()


def test_what_became_of_a_call_is_told_however_much_is_thought_meanwhile(
    room: Room, browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReasoningView, "interval", 1.0)
    room.space.tell("reasoning/start", {"message": "rain"}, id="a")
    room.space.tell("mcp/proposal", ADD, id="p", context="a", to=["tools"])
    page = browser(room.view)
    page.appear()
    room.space.tell("mcp/reject", {"reason": "unsafe"}, by="human", about="p")
    for other in ("b", "c", "d", "e"):
        room.space.tell("reasoning/start", {"message": "more"}, id=other)
        for n in range(400):
            room.space.tell("reasoning/thought", {"message": f"thought {n}"}, context=other)

    def told() -> list[Any]:
        steps = (step for item in page.of("steps") for step in item["steps"])
        return [one["call"] for one in steps if (one["key"], one["n"]) == (1, 1)]

    assert page.until(told)[-1]["state"] == "rejected"
