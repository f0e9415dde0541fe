"""Chat as a page gets it, and what a page may ask for."""

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
from mew_lab.sdk.chats import AwaitingChat
from mew_lab.views.chat import widget as chat
from mew_lab.views.chat.model import ChatModel
from mew_lab.views.chat.widget import ChatView, view_of


class Me:
    """A participant called human; what would be sent is written down."""

    id = "human"

    def __init__(self) -> None:
        self.client = self.chats = self.sender = self
        self.queue: dict[str, AwaitingChat] = {}
        self.awaiting = self.queue.get
        self.participants: dict[str, Any] = {"helper": [], "bot": []}
        self.said: list[tuple[str, Any, Any]] = []

    def on_change(self, handler: Any) -> Callable[[], None]:
        self.changed = handler
        return lambda: None

    on_message = on_change

    def permitted(self, kind: str, payload: Any, *, to: Any = ()) -> bool:
        return True


class Room:
    """A talk with its view; acts are done at once, on this thread."""

    def __init__(self) -> None:
        self.me = Me()
        self.talk = ChatModel(self.me)  # type: ignore[arg-type]
        self.space = Space(self.talk)
        self.kernel = Deeds("Done.")
        self.view = ChatView(
            self.talk, submit=self.kernel.submit, raw=lambda seq: self.space.raw.get(seq, ""),
            clock=lambda: datetime(2026, 11, 22, 14, 3, 22, tzinfo=UTC),
        )  # fmt: skip
        self.view.interval = 0.01


@pytest.fixture
def room() -> Room:
    return Room()


def messages(page: Any) -> list[int]:
    return [one["n"] for item in page.of("said") for one in item["messages"]]


def test_a_page_gets_what_was_said_and_then_what_is_new_and_what_changed(
    room: Room, browser: Callable[..., Any]
) -> None:
    room.space.tell("chat", {"text": "one"}, id="c1", by="human", to=["helper"])
    page = browser(room.view)
    snapshot = page.appear()
    assert [(one["n"], one["from"], one["text"], one["missing"]) for one in snapshot["messages"]] == [
        (1, "human", "one", ["helper"])
    ]
    assert snapshot["people"] == [["bot", "bot"], ["helper", "helper"]]
    assert [code for code, _ in snapshot["statuses"]] == ["received", "read"]
    room.space.tell("chat", {"text": "**two**", "format": "markdown"})
    page.until(lambda: messages(page) == [2])
    assert page.of("said")[0]["messages"][0]["nodes"] == [["p", {}, ["strong", {}, "two"]]]
    room.space.tell("chat/acknowledge", {"status": "processing"}, about="c1")
    page.until(lambda: page.of("states"))
    assert page.of("states")[0]["states"][0]["seen"] == [["helper", "processing", 3.0]]
    assert page.of("states")[0]["states"][0]["missing"] == []


def test_markdown_is_formatted_only_where_its_author_asks_for_it(
    room: Room, browser: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "MOST_MARKDOWN", 100)
    room.space.tell("chat", {"text": "*a*"})
    room.space.tell("chat", {"text": "*b*" + "x" * 60, "format": "markdown"})
    room.space.tell("chat", {"text": "*c*" + "x" * 60, "format": "markdown"})
    shown = browser(room.view).appear()["messages"]
    assert [one["nodes"] is not None for one in shown] == [False, False, True]
    assert [one["unformatted"] for one in shown] == [False, True, False]
    assert shown[0]["text"] == "*a*"


def test_under_load_few_messages_go_out_and_what_is_skipped_is_said(
    room: Room, browser: Callable[..., Any]
) -> None:
    room.view.interval = type(room.view).interval
    page = browser(room.view)
    page.appear()
    began, sent, breath = time.monotonic(), len(page.batches), threading.Event()
    n = 0
    while time.monotonic() < began + 1:
        n += 1
        room.space.tell("chat", {"text": "x" * 500})
        breath.wait(0.0005)
    page.until(lambda: messages(page)[-1:] == [n])
    gaps = [later - earlier for earlier, later in pairwise(page.moments[sent:])]
    assert len(gaps) >= 2 and min(gaps) >= 1 / 25, "at most 25 messages a second"
    last = 0
    for item in page.of("said"):
        assert item["after"] == last
        assert item["messages"][0]["n"] == last + item["skipped"] + 1
        assert len(item["messages"]) <= 200
        last = item["messages"][-1]["n"]
    assert max(len(json.dumps(batch)) for batch in page.batches) < 1_000_000


def test_earlier_messages_and_the_rest_of_a_long_one_come_when_asked_for(
    room: Room, browser: Callable[..., Any]
) -> None:
    for n in range(450):
        room.space.tell("chat", {"text": f"message {n + 1}"})
    room.space.tell("chat", {"text": "x" * 70_000 + "\u202e"})
    page = browser(room.view)
    snapshot = page.appear()
    assert [one["n"] for one in snapshot["messages"]] == list(range(252, 452))
    assert (snapshot["messages"][-1]["more"], len(snapshot["messages"][-1]["text"])) == (
        70_001 - 65_536,
        65_536,
    )
    value = page.act("earlier", before=252)["value"]
    assert ([one["n"] for one in value["messages"]], value["more"]) == (list(range(152, 252)), True)
    assert page.act("earlier", before=52)["value"]["more"] is False
    whole = page.act("whole", n=451)["value"]["text"]
    assert (len(whole), whole[-6:]) == (70_006, "\\u202e")
    room.space.raw.clear()
    assert "lab.log.df has it" in page.act("whole", n=451)["said"]


def test_what_a_page_chooses_becomes_one_act_of_the_kernel(room: Room, browser: Callable[..., Any]) -> None:
    page = browser(room.view)
    page.appear()
    assert page.act("say", text="hello", to=["helper"], markdown=True)["said"] == "Done."
    page.act("acknowledge", n=3, status="read")
    page.act("acknowledge all", until=7, status="received")
    page.act("cancel", n=3, reason="duplicate")
    assert room.kernel.done == [
        ("say", {"text": "hello", "to": ["helper"], "markdown": True}),
        ("acknowledge", {"n": 3, "status": "read"}),
        ("acknowledge_all", {"status": "received", "until": 7}),
        ("cancel", {"n": 3, "reason": "duplicate"}),
    ]


@pytest.mark.threat(17)
def test_no_sender_looks_like_another(room: Room, browser: Callable[..., Any]) -> None:
    hidden = "a\u202eb\u200b"
    room.space.tell("chat", {"text": hidden}, by=hidden, id="c1", to=[hidden], context=hidden)
    room.space.tell("chat/acknowledge", {"status": hidden}, by=hidden, about="c1")
    room.space.tell("chat/cancel", {"reason": hidden}, by=hidden, about="c1")
    room.me.participants = {hidden: []}
    snapshot = browser(room.view).appear()
    # The names of the boxes are sent back, so they are as they are; what is shown of them is not.
    assert [shown for _, shown in snapshot.pop("people")] == ["a\\u202eb\\u200b"]
    assert not set("\u202e\u200b") & set(json.dumps(snapshot, ensure_ascii=False))


@pytest.mark.trap("T-15")
@pytest.mark.threat(3)
def test_the_picture_has_the_last_200_messages_as_text(room: Room) -> None:
    assert 'lab.chat("hello") sends one' in picture(room.view).replace("&quot;", '"')
    hostile = "<img src=x onerror=alert(1)>"
    for n in range(249):
        room.space.tell("chat", {"text": f"message {n + 1}."})
    room.space.tell(
        "chat", {"text": f"{hostile}\n**two**", "format": "markdown"}, by=hostile, to=[hostile], id="c"
    )
    room.space.tell("chat/acknowledge", {"status": hostile}, by=hostile, about="c")
    html = picture(room.view)
    assert "Chat: 250 messages, 0 unread" in html
    assert "Not shown: 50 earlier messages" in html
    assert html.count("<tr>") == 201 and "message 51." in html and "message 50." not in html
    assert "<img" not in html and "<script" not in html and "<strong>" not in html
    assert repr(room.view) == "Chat: 250 messages, 0 unread"


@pytest.mark.trap("T-16")
def test_the_view_of_a_lab_hears_what_was_before_and_nothing_once_it_is_closed(
    browser: Callable[..., Any],
) -> None:
    lab = mew_lab.up("chat-test", journal=None)
    try:
        lab.chat("hello")
        view = view_of(lab, lab.rows)
        page = browser(view)
        page.until(lambda: repr(view) == "Chat: 1 message, 0 unread")
        assert view.badge() == ""
        other = browser(view_of(lab, lab.rows))
        view.close()
        lab.chat("hello")
        other.until(lambda: repr(other.view) == "Chat: 2 messages, 0 unread")
        assert repr(view) == "Chat: 1 message, 0 unread"
        assert not view.faults
    finally:
        lab.down()
