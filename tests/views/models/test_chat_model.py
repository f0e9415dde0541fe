"""What was said stands with who has seen it, and a person can answer, acknowledge and call off."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from heard import Space

from mew_lab.errors import CapabilityViolation, MewError
from mew_lab.lab.lab import Lab
from mew_lab.ledger.chats import MAX_MESSAGES, MAX_STATUS
from mew_lab.sdk.chats import AwaitingChat, QueueChange
from mew_lab.views.chat import model as module
from mew_lab.views.chat.model import ChatModel, ChatRow

from ...holding import most_held


class Deaf:
    """A participant called human whose queue a test fills."""

    id = "human"
    participants: dict[str, Any] = {}

    def __init__(self) -> None:
        self.client = self.chats = self
        self.queue: dict[str, AwaitingChat] = {}
        self.awaiting = self.queue.get

    def arrive(self, id: str, by: str) -> None:
        self.queue[id] = AwaitingChat(id, by, "", datetime.now(UTC), False)
        self.changed(QueueChange("arrived", id, by))

    def on_change(self, handler: Any) -> Callable[[], None]:
        self.changed = handler
        return lambda: None

    def on_message(self, handler: Any) -> Callable[[], None]:
        return lambda: None


@pytest.fixture
def me() -> Deaf:
    return Deaf()


@pytest.fixture
def talk(me: Deaf) -> ChatModel:
    return ChatModel(me)  # type: ignore[arg-type]


@pytest.fixture
def space(talk: ChatModel) -> Space:
    return Space(talk)


@pytest.mark.req("P-3.4-1", "P-3.4-2", "P-3.4-3", "P-3.4-4")
def test_a_message_says_who_whom_and_how_and_is_plain_unless_it_says_markdown(
    talk: ChatModel, space: Space
) -> None:
    space.tell("chat", {"text": "Hello"}, id="c1", context="r1")
    space.tell("chat", {"text": "*Hi*", "format": "markdown"}, by="human", to=["helper"], about="c1")
    space.tell("chat", {"text": "for you", "format": "html"}, to=["human"])
    first, second, third = talk.messages()
    assert (first.n, first.sender, first.to, first.text, first.context) == (1, "helper", (), "Hello", "r1")
    assert [row.markdown for row in talk.messages()] == [False, True, False]
    assert (second.mine, second.answers, second.addressed) == (True, 1, False)
    assert (third.addressed, third.mine) == (True, False)


@pytest.mark.req("P-3.4.1-1")
def test_an_acknowledgement_stands_under_its_message_with_whose_is_missing(
    talk: ChatModel, space: Space
) -> None:
    space.tell("chat", {"text": "Go"}, by="human", id="c1", to=["helper", "bot"])
    assert talk.messages()[0].missing == ("helper", "bot")
    space.tell("chat/acknowledge", {"status": "received"}, about="c1")
    space.tell("chat/acknowledge", {"status": "processing"}, about="c1")
    (row,) = talk.messages()
    assert [(seen.by, seen.status, seen.t) for seen in row.seen] == [("helper", "processing", 3.0)]
    assert row.missing == ("bot",)


@pytest.mark.req("P-3.4.2-1", "P-3.4.2-2")
def test_its_author_calls_a_message_off_and_what_others_say_is_a_claim(talk: ChatModel, space: Space) -> None:
    space.tell("chat", {"text": "Look"}, id="c1")
    space.tell("chat/cancel", {"reason": "handled_elsewhere"}, by="mallory", about="c1")
    (row,) = talk.messages()
    assert (row.cancelled, row.claims) == ("", ("mallory",))
    space.tell("chat/cancel", {"reason": "duplicate"}, about="c1")
    (row,) = talk.messages()
    assert (row.cancelled, row.reason) == ("helper", "duplicate")


def test_who_took_an_id_first_keeps_it_and_what_was_refused_was_not_said(
    talk: ChatModel, space: Space
) -> None:
    space.tell("chat", {"text": "mine"}, id="c1")
    space.tell("chat", {"text": "also c1"}, id="c1", by="mallory")
    space.tell("chat", {"text": "unheard"}, verdict="refused")
    space.tell("chat/acknowledge", {"status": "read"}, by="bot", about="c1")
    assert [(row.text, len(row.seen)) for row in talk.messages()] == [("mine", 1), ("also c1", 0)]


def test_only_the_first_message_of_an_id_awaits_whatever_the_queue_hears_when(
    talk: ChatModel, space: Space, me: Deaf
) -> None:
    me.arrive("c1", "helper")
    space.tell("chat", {"text": "first"}, id="c1")
    space.tell("chat", {"text": "same id"}, id="c1", by="mallory")
    assert [row.text for row in talk.queue] == ["first"]
    space.tell("chat", {"text": "first, heard late"}, id="c2", by="bot")
    me.arrive("c2", "helper")
    assert [row.text for row in talk.queue] == ["first"], "the queue means a message of helper"
    for n in range(2000):
        space.tell("chat", {"text": str(n)}, by="human")
    space.tell("chat", {"text": "same id"}, id="c1", by="mallory")
    assert talk.queue == [], "the one that awaits is not held any more"


def test_names_and_contexts_count_and_are_cut_so_that_nobody_is_called_so(
    talk: ChatModel, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "x" * 900_000
    space.tell("chat", {"text": "hi"}, to=["human", long, *["bot"] * 500], context=long)
    (row,) = talk.messages()
    assert (row.addressed, len(row.to), len(row.to[1]), len(row.context)) == (True, 200, 128, 300)
    assert row.to[:3] == ("human", "x" * 127 + "…", "bot")
    space.tell("chat", {"text": "hi"}, to=[*["n" * 900] * 500, "human"])
    assert talk.messages()[-1].addressed, "whoever stands far behind is addressed, too"
    monkeypatch.setattr(module, "MAX_CHARACTERS", 500_000)
    for _ in range(60):
        space.tell("chat", {"text": "x" * 5000}, to=["n" * 200] * 300, context="c" * 500)
    held = talk.messages(limit=9999)
    assert len(held) == 500_000 // (5000 + 200 * 128 + 300)
    space.tell("chat", {"text": "hi"}, id=long)
    space.tell("chat", {"text": "hi"}, by=long)
    assert talk.last == 62, "what nobody can have sent is not told"


def test_memory_is_bounded_in_messages_in_text_and_in_acknowledgements(
    talk: ChatModel, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(12_300):
        space.tell("chat", {"text": f"message {n}"})
    assert (talk.last, len(talk.messages(limit=9999)), talk.messages(limit=9999)[0].n) == (
        12_300,
        2000,
        10_301,
    )
    assert most_held(talk) == MAX_MESSAGES, "the ledger holds more than the view"
    space.tell("chat", {"text": "x" * 70_000}, id="long")
    (row,) = talk.messages(limit=1)
    assert (len(row.text), row.more) == (65_536, 70_000 - 65_536)
    for n in range(300):
        space.tell("chat/acknowledge", {"status": "s" * 999}, by=f"p{n}", about="long")
    (row,) = talk.messages(limit=1)
    assert len(row.seen) == 200 and len(row.seen[0].status) <= MAX_STATUS
    monkeypatch.setattr(module, "MAX_CHARACTERS", 200_000)
    for _ in range(10):
        space.tell("chat", {"text": "x" * 65_536})
    assert len(talk.messages(limit=9999)) == 3


def test_pages_go_backwards_from_the_newest(talk: ChatModel, space: Space) -> None:
    for n in range(10):
        space.tell("chat", {"text": str(n)})
    assert [row.n for row in talk.messages(limit=3)] == [8, 9, 10]
    assert [row.n for row in talk.messages(before=8, limit=3)] == [5, 6, 7]
    assert [row.n for row in talk.messages(after=9)] == [10]
    assert talk.messages(before=1) == [] and talk.message(99) is None


@pytest.mark.parametrize("wrong", [{"text": 7}, {"text": None}, {}, {"status": 3}, {"reason": []}])
def test_payloads_of_the_wrong_shape_do_no_harm(talk: ChatModel, space: Space, wrong: Any) -> None:
    space.tell("chat", {"text": "hello"}, id="c1")
    for kind in ("chat", "chat/acknowledge", "chat/cancel"):
        space.tell(kind, wrong, about="c1")
    assert [row.text for row in talk.messages()] == ["hello"]


# --- in a real space ---


class Watched:
    """The talk of a lab's human, and waiting for what it will hold."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.changed = threading.Event()
        self.talk = lab.loop.call(
            lambda: ChatModel(lab.me.participant, on_change=lambda n: self.changed.set())
        )
        lab.loop.call(lambda: lab.following.add(self.talk))

    def until(self, probe: Callable[[], Any]) -> Any:
        for _ in range(200):
            if value := self.lab.loop.call(probe):
                return value
            self.changed.wait(0.05)
            self.changed.clear()
        raise AssertionError("it never happened")

    def do(self, work: Any) -> Any:
        return self.lab.loop.submit(work).result(10)

    @property
    def last(self) -> ChatRow:
        return self.talk.messages(limit=1)[0]

    def sent(self, kind: str) -> list[dict[str, Any]]:
        raws = (json.loads(self.lab.rows.raw(row.seq)) for row in self.lab.rows.since(0, 1000))
        return [envelope for envelope in raws if envelope["kind"] == kind and envelope["from"] == "human"]


@pytest.fixture
def here(lab: Lab) -> Iterator[Watched]:
    watched = Watched(lab)
    yield watched
    lab.loop.call(watched.talk.close)


@pytest.mark.req("P-3.4.1-4", "P-3.4.1-5", "S-L2-33")
def test_the_queue_is_emptied_by_one_acknowledgement_a_message_up_to_what_was_shown(
    lab: Lab, here: Watched
) -> None:
    bot, helper = lab.join("bot", can="proposer"), lab.join("helper", can="proposer")
    messages = [bot.chat("one", "human"), helper.chat("two"), bot.chat("three")]
    here.until(lambda: len(here.talk.queue) == 3)
    assert [(row.text, row.addressed) for row in here.talk.queue] == [
        ("one", True), ("two", False), ("three", False),
    ]  # fmt: skip
    until = here.talk.queue[1].n
    assert here.do(here.talk.acknowledge_all("read", until=until)) == "2 messages acknowledged (read)."
    assert [row.text for row in here.talk.queue] == ["three"]
    sent = here.sent("chat/acknowledge")
    assert [(envelope["correlation_id"], envelope["to"], envelope["payload"]) for envelope in sent] == [
        ([messages[0].id], ["bot"], {"status": "read"}),
        ([messages[1].id], ["helper"], {"status": "read"}),
    ]
    assert [row.id for row in lab.me.participant.chats.pending] == [messages[2].id]


def test_one_message_is_acknowledged_once(lab: Lab, here: Watched) -> None:
    lab.join("bot", can="proposer").chat("look", "human")
    row = here.until(lambda: next(iter(here.talk.queue), None))
    assert here.do(here.talk.acknowledge(row.n, "received")) == "Acknowledged to bot (received)."
    assert [(seen.by, seen.status) for seen in here.last.seen] == [("human", "received")]
    with pytest.raises(MewError, match="no longer awaits your acknowledgement"):
        here.do(here.talk.acknowledge(row.n))
    with pytest.raises(MewError, match="no longer held in this view"):
        here.do(here.talk.acknowledge(99))
    with pytest.raises(MewError, match="is a word or a few"):
        here.do(here.talk.acknowledge_all(" "))
        here.do(here.talk.cancel(row.n, " "))


@pytest.mark.req("P-3.4.2-1", "P-3.4.2-2", "P-3.4.2-3")
def test_an_own_message_and_one_that_waits_are_called_off(lab: Lab, here: Watched) -> None:
    bot = lab.join("bot", can="proposer")
    mine = lab.chat("Never mind?", "bot")
    theirs = bot.chat("Anybody?")
    here.until(lambda: here.talk.queue and here.talk.last == 2)
    assert here.do(here.talk.cancel(1, "duplicate")) == "The message of human was cancelled (duplicate)."
    here.do(here.talk.cancel(2))
    assert here.talk.queue == []
    assert [(row.cancelled, row.reason) for row in here.talk.messages()] == [
        ("human", "duplicate"), ("human", "handled_elsewhere"),
    ]  # fmt: skip
    sent = here.sent("chat/cancel")
    assert [(envelope["correlation_id"], envelope["to"]) for envelope in sent] == [
        ([mine.id], ["bot"]),
        ([theirs.id], ["bot"]),
    ]
    with pytest.raises(MewError, match="already"):
        here.do(here.talk.cancel(1))


def test_nobodys_message_is_acknowledged_or_called_off_by_way_of_another_that_bears_its_id(
    lab: Lab, here: Watched
) -> None:
    bot, mallory = lab.join("bot", can="proposer"), lab.join("mallory", can="proposer")
    mine = lab.chat("Anybody?", "bot")
    for seat, id in ((bot, "X"), (mallory, "X"), (mallory, mine.id)):
        draft = {"kind": "chat", "id": id, "payload": {"text": f"{seat.name} says {id}"}}
        seat.run(seat.participant.send_accepted(draft))
    here.until(lambda: here.talk.last == 4 and here.talk.queue)
    assert [row.n for row in here.talk.queue] == [2]
    for n in (3, 4):
        with pytest.raises(
            MewError, match=r"Nothing was acknowledged.*mallory bears the id of an earlier one"
        ):
            here.do(here.talk.acknowledge(n))
        with pytest.raises(MewError, match=r"Nothing was cancelled.*mallory bears the id of an earlier one"):
            here.do(here.talk.cancel(n))
    chats = lab.me.participant.chats
    assert [row.id for row in chats.pending] == ["X"] and chats.own(mine.id) is not None
    assert here.do(here.talk.acknowledge_all()) == "1 message acknowledged (received)."
    assert here.do(here.talk.acknowledge_all()) == "0 messages acknowledged (received)."
    assert [row["to"] for row in here.sent("chat/acknowledge")] == [["bot"]]
    assert here.sent("chat/cancel") == [] and chats.pending == []


def test_a_message_that_is_not_held_any_more_is_not_called_off_either(
    lab: Lab, here: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGES", 1)
    bot, mallory = lab.join("bot", can="proposer"), lab.join("mallory", can="proposer")
    chats = lab.me.participant.chats
    mine = lab.chat("Anybody?").id

    def reached(last: int) -> Callable[[], bool]:
        return lambda: here.talk.last == last

    messages = [(bot, "a"), (mallory, mine), (bot, "X"), (bot, "b"), (mallory, "X")]
    for number, (seat, id) in enumerate(messages, 2):
        draft = {"kind": "chat", "id": id, "payload": {"text": "?"}}
        seat.run(seat.participant.send_accepted(draft))
        here.until(reached(number))
        if seat is mallory:
            with pytest.raises(MewError, match="mallory bears the id of an earlier one"):
                here.do(here.talk.cancel(number))
    assert [row.id for row in chats.pending] == ["a", "X", "b"] and chats.own(mine) is not None


@pytest.mark.req("P-3.4-5")
def test_what_is_said_here_is_chat_as_the_specification_wants_it(lab: Lab, here: Watched) -> None:
    lab.join("bot", can="proposer")
    here.until(lambda: here.talk.people == ["bot"])
    assert here.do(here.talk.say("Hello *all*")) == "Sent to everybody."
    assert here.do(here.talk.say("**You**", ["bot"], markdown=True)) == "Sent to bot."
    plain, marked = here.sent("chat")
    assert plain["payload"] == {"text": "Hello *all*"} and not plain.get("to")
    assert marked["payload"] == {"text": "**You**", "format": "markdown"} and marked["to"] == ["bot"]
    with pytest.raises(MewError, match="empty message"):
        here.do(here.talk.say(" \n"))
    with pytest.raises(MewError, match="bytes"):
        here.do(here.talk.say("x" * 1_100_000))


def test_whoever_may_only_chat_is_told_that_it_may_not_acknowledge(lab: Lab) -> None:
    bot = lab.join("bot", can=[{"kind": "chat"}])
    talk = lab.loop.call(lambda: ChatModel(bot.participant))
    lab.loop.call(lambda: lab.following.add(talk))
    lab.chat("hello", "bot")
    end = threading.Event()
    talk.on_change = lambda n: end.set() if talk.queue else None
    if not lab.loop.call(lambda: talk.queue):
        assert end.wait(10)
    assert (talk.may("chat"), talk.may("chat/acknowledge")) == (True, False)
    assert talk.may("chat/cancel"), "of its own messages (R36)"
    with pytest.raises(CapabilityViolation):
        lab.loop.submit(talk.acknowledge(1)).result(10)
    assert talk.queue, "what was not acknowledged still waits"
