"""All readers of chat and of reasoning agree: the SDK's queue, the ledger, the views, the chains of the log, a replay.

Random conversations go through a real space, honest and hostile ones. What each reader should say is worked out here,
slowly, from the sentences of §3.4 and §3.5 and of R6 over all that was delivered.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.log.chains import chains_of
from mew_lab.log.entries import entries_of
from mew_lab.log.replay import replay
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.space.events import Record
from mew_lab.views.chat.model import ChatModel
from mew_lab.views.reasoning.model import ReasoningModel

from ..conftest import examples

Message = dict[str, Any]

HUMAN = "human"
PEOPLE = ("bot", "eve", "ann")  # bot is connected, and may leave and come back
CALL = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
BODIES: dict[str, tuple[dict[str, Any], ...]] = {
    "chat": (
        {"text": "hello"},
        {"text": "*hi*", "format": "markdown"},
        {"text": 7},
        {"text": "x", "format": "html"},
    ),
    "chat/acknowledge": ({"status": "received"}, {"status": "read"}, {}, {"status": 7}),
    "chat/cancel": ({"reason": "duplicate"}, {}, {"reason": [1]}),
    "reasoning/start": ({"message": "looks"}, {}),
    "reasoning/thought": ({"message": "so"}, {"message": 7}),
    "reasoning/conclusion": ({"message": "done"}, {}),
    "reasoning/cancel": ({"reason": "superseded"}, {}, {"reason": [1]}),
    "mcp/proposal": (CALL, {"method": 7}),
    "mcp/request": (CALL,),
    "mcp/reject": ({"reason": "unsafe"},),
}
EVENTS = ("leave", "join")


@st.composite
def scripts(draw: st.DrawFn) -> list[Message]:
    """A conversation. Of four messages three follow on what was said: a step, an end, an acknowledgement, a cancel."""
    said: list[Message] = []
    for n in range(draw(st.integers(3, 16))):
        chats = [one for one in said if one.get("kind") == "chat"]
        starts = [one for one in said if one.get("kind") == "reasoning/start"]
        way = draw(
            st.sampled_from(
                ["any", "start", "step", "step", "end", "call", "chat", "settle", "settle", "event"]
            )
        )
        if way == "event":
            said.append({"event": draw(st.sampled_from(EVENTS))})
            continue
        sender = draw(st.sampled_from((*PEOPLE, HUMAN)))
        about: list[str] = []
        context = ""
        known = [one["id"] for one in said if "id" in one] or ["m0"]
        if way == "settle" and chats:
            chat = draw(st.sampled_from(chats))
            kind = draw(st.sampled_from(["chat/acknowledge", "chat/cancel"]))
            about, sender = [chat["id"]], draw(st.sampled_from([sender, chat["from"]]))
        elif way in ("step", "end", "call") and starts:
            start = draw(st.sampled_from(starts))
            kinds = {
                "step": ["reasoning/thought", "reasoning/thought", "chat"],
                "end": ["reasoning/conclusion", "reasoning/cancel"],
                "call": ["mcp/proposal", "mcp/request"],
            }
            kind = draw(st.sampled_from(kinds[way]))
            sender = draw(st.sampled_from([start["from"], start["from"], sender]))
            shapes = ["{}", "{}", "{}", "{}/part", "x/{}", f"{draw(st.sampled_from(known))}/{{}}"]
            context = draw(st.sampled_from(shapes)).format(start["id"])
            if way == "call" and draw(st.booleans()):
                context, about = "", [start["id"]]
        else:
            kind = {"start": "reasoning/start", "chat": "chat"}.get(way) or draw(
                st.sampled_from(sorted(BODIES))
            )
            context = draw(st.sampled_from(["", "", "", "nowhere", *known]))
            if way != "chat":
                about = draw(st.lists(st.sampled_from(known), max_size=2))
        taken = draw(st.integers(0, 5)) == 0  # an id that may be taken
        said.append(
            {
                "id": draw(st.sampled_from(known)) if taken else f"m{n}",
                "from": sender,
                "kind": kind,
                "payload": draw(st.sampled_from((BODIES[kind][0], *BODIES[kind]))),
                "to": draw(st.sampled_from([[], [HUMAN], ["ann", HUMAN]])),
                **({"correlation_id": about} if about else {}),
                **({"context": context} if context else {}),
            }
        )
    return said


# --- what is true ---------------------------------------------------------------------------------------------------


def is_acted_on(message: Message) -> bool:
    """Whether participants act on it. Spec: §3.4, §3.5.5, §4.3; ruling R5."""
    payload, kind = message["payload"], message["kind"]
    if message.get("refused"):
        return False
    if kind in ("chat/acknowledge", "chat/cancel", "mcp/reject") and not message.get("correlation_id"):
        return False
    if kind == "chat":
        formats = ("plain", "markdown")
        return isinstance(payload["text"], str) and payload.get("format", "plain") in formats
    if kind == "chat/acknowledge":
        return isinstance(payload.get("status", ""), str)
    if kind in ("chat/cancel", "reasoning/cancel"):
        return isinstance(payload.get("reason", ""), str)
    return kind != "mcp/proposal" or isinstance(payload["method"], str)


class Truth:
    """What became of chat and reasoning, asked of everything that was delivered: messages and departures, in order.

    Calls that the gateway refused stand among them: a log shows them where they were tried.
    """

    def __init__(self, delivered: list[Message]) -> None:
        self.delivered = delivered

    def of_kind(self, kind: str, about: str, *, after: int) -> Iterator[tuple[int, Message]]:
        for at, message in enumerate(self.delivered):
            named = at > after and message.get("kind") == kind and is_acted_on(message)
            if named and about in message.get("correlation_id", ()):
                yield at, message

    # chat

    def chats(self) -> dict[str, int]:
        """The first message of each id, and where it stands."""
        found: dict[str, int] = {}
        for at, message in enumerate(self.delivered):
            if message.get("kind") == "chat" and is_acted_on(message):
                found.setdefault(message["id"], at)
        return found

    def author(self, id: str) -> str:
        return str(self.delivered[self.chats()[id]]["from"])

    def cancelled_at(self, id: str) -> int | None:
        """Where its author has cancelled it."""
        at, author = self.chats()[id], self.author(id)
        own = (k for k, message in self.of_kind("chat/cancel", id, after=at) if message["from"] == author)
        return next(own, None)

    def dismissed(self, id: str) -> set[str]:
        cancels = self.of_kind("chat/cancel", id, after=self.chats()[id])
        return {message["from"] for _, message in cancels} - {self.author(id)}

    def statuses(self, id: str) -> dict[str, str]:
        """Who has acknowledged it, with which last word."""
        end = self.cancelled_at(id)
        return {
            message["from"]: message["payload"].get("status", "")
            for at, message in self.of_kind("chat/acknowledge", id, after=self.chats()[id])
            if message["from"] != self.author(id) and (end is None or at < end)
        }

    def awaits(self, id: str, name: str) -> bool:
        settled = {self.author(id), *self.statuses(id), *self.dismissed(id)}
        return self.cancelled_at(id) is None and name not in settled

    # reasoning

    def starts(self) -> list[int]:
        return [at for at, message in enumerate(self.delivered) if message.get("kind") == "reasoning/start"]

    def holder(self, id: str, *, before: int) -> int | None:
        """The start that the id names at that moment: R6 lets none but its owner take it anew."""
        named = [at for at in self.starts() if at < before and self.delivered[at]["id"] == id]
        return named[-1] if named else None

    def place(self, at: int) -> tuple[int | None, str]:
        """To which start a message belongs, and the part. Spec: §2, §3.5.6."""
        message = self.delivered[at]
        parts = [part for part in message.get("context", "").split("/") if part]
        for n in reversed(range(len(parts))):
            holder = self.holder(parts[n], before=at)
            if holder is not None:
                return holder, "/".join(parts[n + 1 :])
        if message["kind"] in ("mcp/request", "mcp/proposal"):
            for id in message.get("correlation_id", ()):
                holder = self.holder(id, before=at)
                if holder is not None:
                    return holder, ""
        return None, ""

    def is_step(self, at: int, start: int) -> bool:
        message = self.delivered[at]
        if "event" in message or message["kind"] == "mcp/reject" or self.place(at)[0] != start:
            return False
        about = message.get("correlation_id", ())
        proposals = (
            k
            for k, one in enumerate(self.delivered[:at])
            if one.get("kind") == "mcp/proposal" and one["id"] in about and not one.get("refused")
        )
        return message["kind"] != "mcp/request" or all(self.place(k)[0] is None for k in proposals)

    def steps(self, start: int) -> list[int]:
        return [at for at in range(start + 1, len(self.delivered)) if self.is_step(at, start)]

    def ending(self, start: int) -> tuple[str, str]:
        """How a sequence ended and by whom: the first of what can end it."""
        owner, id = self.delivered[start]["from"], self.delivered[start]["id"]
        for at in range(start + 1, len(self.delivered)):
            message = self.delivered[at]
            if "event" in message:
                if message["event"] == "leave" and owner == "bot":
                    return "left", "system:gateway"
                continue
            sender, kind = message["from"], message["kind"]
            if kind == "reasoning/start" and message["id"] == id:
                return "left", owner
            if kind == "reasoning/conclusion" and sender == owner and self.place(at) == (start, ""):
                return "concluded", owner
            if kind == "reasoning/cancel" and message.get("context") == id and is_acted_on(message):
                return "cancelled", sender
        return "active", ""


# --- who reads it ---------------------------------------------------------------------------------------------------


LEAVE = ("system/presence", "leave")


def named(kind: str, id: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    """By what a message is found again; a presence has an id of the gateway's."""
    return (kind, str(payload.get("event"))) if kind == "system/presence" else (kind, id)


class Readers:
    """One lab, told of messages one after the other."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.heard: Counter[tuple[str, str]] = Counter()
        self.delivered: list[Message] = []
        self.places: list[int] = []  # the number in the feed of each that was delivered
        self.entries: list[Entry] = []
        self.bot: MEWParticipant | None = None
        self.me = lab.me.participant
        self.chat, self.reasoning = lab.loop.call(lambda: (ChatModel(self.me), ReasoningModel(self.me)))
        host = lab.host
        assert host is not None and host.journal is not None
        self.host = host
        lab.loop.call(self._open)

    def _open(self) -> None:
        self.me.client.on_message(self._hear)
        everything = [{"kind": "mcp/*"}, {"kind": "reasoning/*"}, {"kind": "chat"}, {"kind": "chat/*"}]
        for name in PEOPLE:
            self.host.gateway.enrol(self.host.name, name, everything)
        self.lab.following.add(self)
        self.lab.following.add(self.chat)
        self.lab.following.add(self.reasoning)

    def take(self, entry: Entry) -> None:
        """One more envelope stands in the log."""
        self.entries.append(entry)

    def _hear(self, envelope: Any) -> None:
        self.heard[named(envelope.kind, envelope.id, envelope.payload)] += 1

    async def tell(self, message: Message) -> None:
        """Says it, or lets bot leave or join; returns when the human's participant has taken note."""
        before = len(self.entries)
        if message.get("event") == "join":
            if self.bot is None:
                self.bot = MEWParticipant(self.host.client_for("bot"))
                await self.bot.start()
            return
        if message.get("event") == "leave":
            if self.bot is None:
                return
            await self.bot.stop()
            self.bot, name = None, LEAVE
        else:
            name = named(message["kind"], message["id"], message["payload"])
            reply = self.host.gateway.post(self.host.name, message["from"], json.dumps(message))
            if reply.status != 200:
                if message["kind"] in ("mcp/request", "mcp/proposal"):
                    self._note({**message, "refused": True}, before)
                return
        async with asyncio.timeout(10):
            while self.heard[name] <= self._count(name):  # noqa: ASYNC110
                await asyncio.sleep(0)
        self._note(message, before)

    def _note(self, message: Message, before: int) -> None:
        name, refused = self._name(message), message.get("refused", False)
        logged = (entry for entry in self.entries[before:] if entry.refused is refused)
        self.delivered.append(message)
        self.places.append(next(e.seq for e in logged if named(e.kind, e.id, e.payload) == name))

    def _count(self, name: tuple[str, str]) -> int:
        return sum(self._name(one) == name and not one.get("refused") for one in self.delivered)

    def _name(self, message: Message) -> tuple[str, str]:
        return LEAVE if "event" in message else (message["kind"], message["id"])

    def check(self) -> None:
        truth = Truth(self.delivered)
        entries = list(entries_of(self.lab.log.records))
        self._check_queue(truth)
        self._check_chat_rows(truth, self.places)
        self._check_reasoning_rows(truth, self.places)
        self._check_chains(truth, self.places)
        logged, replayed = Ledger(), Ledger()
        for entry in entries:
            logged.observe(entry)
        records: list[Record] = []
        replay(self.host.journal.path, observe=records.append)
        for entry in entries_of(records):
            replayed.observe(entry)
        for ledger in (self.me.ledger, logged, replayed):
            self._check_ledger(truth, ledger)

    def _check_queue(self, truth: Truth) -> None:
        chats = self.me.chats
        known = truth.chats()
        assert [chat.id for chat in chats.pending] == [id for id in known if truth.awaits(id, HUMAN)]
        for id in known:
            ended = truth.cancelled_at(id) is not None
            assert chats.cancelled(id) is (ended or HUMAN in truth.dismissed(id))
            own = chats.own(id)
            assert (own is not None) is (truth.author(id) == HUMAN and not ended)
            assert own is None or own.acknowledged == truth.statuses(id)

    def _check_ledger(self, truth: Truth, ledger: Ledger) -> None:
        known = truth.chats()
        assert [message.id for message in ledger.chats] == list(known)
        for message in ledger.chats:
            assert message.sender == truth.author(message.id)
            assert (message.state == "cancelled") is (truth.cancelled_at(message.id) is not None)
            assert {one.by: one.status for one in message.receipts} == truth.statuses(message.id)
            assert {one.by for one in message.dismissed} == truth.dismissed(message.id)
            for name in (*PEOPLE, HUMAN):
                assert message.awaits(name) is truth.awaits(message.id, name)
        starts = truth.starts()
        sequences = [sequence for sequence in ledger.reasoning if sequence.seq]
        assert [(one.id, one.owner) for one in sequences] == [
            (self.delivered[at]["id"], self.delivered[at]["from"]) for at in starts
        ]
        assert [(one.state, one.by) for one in sequences] == [truth.ending(at) for at in starts]
        mine = ledger is self.me.ledger  # that of a participant takes no steps
        assert [one.steps for one in sequences] == [0 if mine else len(truth.steps(at)) for at in starts]

    def _check_chat_rows(self, truth: Truth, places: list[int]) -> None:
        known = truth.chats()
        rows = {row.seq: row for row in self.chat.messages()}
        first = {places[at]: id for id, at in known.items()}
        for seq, row in rows.items():
            id = first.get(seq)
            if id is None:  # a repeated id, or malformed
                assert (row.awaits, row.seen, row.cancelled, row.claims) == (False, (), "", ())
                continue
            others, author = truth.dismissed(id), truth.author(id)
            cancelled = truth.cancelled_at(id) is not None
            assert row.awaits is truth.awaits(id, HUMAN)
            assert {one.by: one.status for one in row.seen} == truth.statuses(id)
            assert row.cancelled == (author if cancelled else HUMAN if HUMAN in others else "")
            assert set(row.claims) == others - {HUMAN}
        assert set(first) <= set(rows)
        assert [row.id for row in self.chat.queue] == [id for id in known if truth.awaits(id, HUMAN)]

    def _check_reasoning_rows(self, truth: Truth, places: list[int]) -> None:
        rows = [row for row in self.reasoning.sequences if row.facts.seq]
        assert [row.facts.seq for row in rows] == [places[at] for at in truth.starts()]
        for row, at in zip(rows, truth.starts(), strict=True):
            assert (row.facts.state, row.facts.by) == truth.ending(at)
            steps = self.reasoning.steps(row.facts.key)
            assert [(step.seq, step.path) for step in steps] == [
                (places[step], truth.place(step)[1]) for step in truth.steps(at)
            ]
            parent = self.reasoning.sequence(row.facts.parent)
            expected = truth.place(at)[0]
            assert (parent.facts.seq if parent and parent.facts.seq else None) == (
                None if expected is None else places[expected]
            )

    def _check_chains(self, truth: Truth, places: list[int]) -> None:
        chains = chains_of(self.lab.log.records)
        for start in truth.starts():
            belonging = {places[step] for step in truth.steps(start)}
            exchange = {step.seq for step in chains.exchange(places[start]).steps}
            assert belonging <= exchange
            for at, message in enumerate(self.delivered):
                if at > start and not message.get("correlation_id") and "context" in message:
                    found = chains.find(places[at])
                    assert found is not None
                    belongs = chains.belongs(found, frozenset({places[start]}))
                    assert belongs is (truth.place(at)[0] == start)


async def converse(readers: Readers, script: list[Message]) -> None:
    for message in script:
        await readers.tell(message)
        readers.check()
    if readers.bot is not None:
        await readers.bot.stop()


def run(script: list[Message]) -> None:
    lab = up()
    try:
        readers = Readers(lab)
        lab.loop.run(converse(readers, [{"event": "join"}, *script]), timeout=60, doing="converse")
    finally:
        lab.down()


@pytest.mark.req("P-3.4.1-1", "P-3.4.2-1", "P-3.5.3-1", "P-3.5.4-1", "P-3.5.5-1", "P-3.5.6-5")
@pytest.mark.threat(12)
@pytest.mark.timeout(1800)
@settings(max_examples=examples(40, at_length=500), deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts())
def test_all_readers_agree_on_every_chat_message_and_every_sequence(script: list[Message]) -> None:
    run(script)


def message(
    kind: str, sender: str, id: str, payload: dict[str, Any], *about: str, context: str = ""
) -> Message:
    more = {"correlation_id": list(about)} if about else {}
    named = {"context": context} if context else {}
    return {"id": id, "from": sender, "kind": kind, "payload": payload, "to": [], **more, **named}


SAID = message("chat", "bot", "c", {"text": "hello"})
STARTED = message("reasoning/start", "bot", "r", {"message": "looks"})


@pytest.mark.threat(12)
@pytest.mark.parametrize(
    "script",
    [
        # who cannot acknowledge or cancel, and what comes too late
        [SAID, message("chat/acknowledge", "bot", "a", {"status": "read"}, "c")],
        [SAID, message("chat/cancel", "eve", "x", {"reason": "duplicate"}, "c")],
        [SAID, message("chat/cancel", "bot", "x", {}, "c"), message("chat/acknowledge", "ann", "a", {}, "c")],
        [SAID, message("chat/cancel", "human", "x", {"reason": "duplicate"}, "c")],
        [SAID, {**SAID, "from": "eve"}, message("chat/cancel", "eve", "x", {}, "c")],
        [message("chat", "bot", "c", {"text": "x", "format": "html"}), SAID],
        # who cannot end a sequence, and what ends it a second time
        [STARTED, message("reasoning/conclusion", "eve", "e", {"message": "done"}, context="r")],
        [STARTED, message("reasoning/conclusion", "bot", "e", {"message": "done"}, context="r/part")],
        [STARTED, message("reasoning/cancel", "eve", "e", {}, context="x/r")],
        [STARTED, message("reasoning/cancel", "eve", "e", {"reason": [1]}, context="r")],
        [
            STARTED,
            message("reasoning/cancel", "eve", "e", {}, context="r"),
            message("reasoning/conclusion", "bot", "f", {"message": "done"}, context="r"),
        ],
        [STARTED, {"event": "leave"}, message("reasoning/conclusion", "bot", "e", {}, context="r")],
        [STARTED, {"event": "leave"}, {"event": "join"}, STARTED],
        # what a stranger says before a start, or within it
        [message("reasoning/thought", "eve", "t", {"message": "so"}, context="r"), STARTED],
        [
            message("reasoning/thought", "eve", "t", {"message": "so"}, context="plan"),
            STARTED,
            message("reasoning/thought", "bot", "u", {"message": "so"}, context="r/plan"),
        ],
        [
            STARTED,
            message("mcp/proposal", "bot", "p", CALL, "r"),
            message("mcp/request", "eve", "q", CALL, "p", context="r"),
            message("mcp/request", "eve", "w", CALL, "q", context="r"),
        ],
    ],
)
def test_readers_that_disagreed_agree(script: list[Message]) -> None:
    run(script)
