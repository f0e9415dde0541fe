"""All readers of streams, members and grants agree with the space: participants, views, the log, a replay.

Random conversations go through a real space, honest and hostile ones. The space is the enforcer, so what it holds is
what is true; it is read after each step, and compared with what each reader says.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.gateway.local import attach
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.grants import GrantLedger
from mew_lab.ledger.members import MemberLedger
from mew_lab.ledger.streams import StreamLedger, names_in
from mew_lab.log.entries import entries_of
from mew_lab.log.replay import replay
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.space.controls import held_back
from mew_lab.space.events import Record
from mew_lab.space.state import Member, State
from mew_lab.views.grants.model import Holdings
from mew_lab.views.roster.model import RosterModel
from mew_lab.views.streams.model import StreamsModel

from ..conftest import examples

STATUS = {"kind": "participant/status"}
RIGHTS: dict[str, list[dict[str, Any]]] = {
    "bot": [
        {"kind": "stream/*"},
        {"kind": "capability/*"},
        {"kind": "participant/*"},
        {"kind": "space/kick"},
    ],
    "eve": [{"kind": "stream/*"}, {"kind": "capability/grant-ack"}, STATUS],
    "ann": [{"kind": "stream/request"}, {"kind": "stream/close"}, {"kind": "capability/*"}, STATUS],
}
IDS = ("bot", "bot-2", "eve", "ann")  # bot has two connections
PATTERNS: tuple[dict[str, Any], ...] = (
    {"kind": "stream/grant-write"},
    {"kind": "stream/*"},
    {"kind": "chat"},
    {"kind": "capability/grant"},
    {"kind": "space/kick"},
)
STREAMS = ("stream-1", "stream-1", "stream-2")
GRANTS = ("g0", "g0", "g1", "g2")
NAMES = st.sampled_from(("human", *IDS))
SENDERS = st.sampled_from(("human", "human", "bot", *IDS))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals go to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def message(
    kind: str, payload: dict[str, Any], to: Iterable[str] = (), about: Iterable[str] = ()
) -> dict[str, Any]:
    return {"kind": kind, "payload": payload, "to": list(to), "correlation_id": list(about)}


@st.composite
def stream_messages(draw: st.DrawFn) -> dict[str, Any]:
    id, whom = draw(st.sampled_from(STREAMS)), draw(NAMES)
    kind = draw(
        st.sampled_from(["request", "request", "request", "close", "write", "write", "transfer", "forged"])
    )
    if kind == "request":
        fields: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"direction": "upload"},
                    {"direction": "upload", "target": ["human", "eve"], "owner": "human", "note": 1},
                    {"direction": "download", "target": [], "authorized_writers": ["eve"]},
                    {"direction": "upload", "target": ["nobody"]},
                ]
            )
        )
        return message("stream/request", fields)
    if kind == "close":
        about = draw(st.lists(st.sampled_from(["request", "opened"]), max_size=1))
        named = draw(
            st.sampled_from([{"stream_id": id}, {"stream_id": id}, {}, {"stream_id": None}, {"stream_id": 7}])
        )
        why = draw(st.sampled_from([{}, {"reason": "complete"}, {"reason": 7}]))
        return message("stream/close", named | why) | {"about_stream": [(id, way) for way in about]}
    if kind == "write":
        verb = draw(st.sampled_from(["grant", "grant", "revoke"]))
        return message(f"stream/{verb}-write", {"stream_id": id, "participant_id": whom})
    if kind == "transfer":
        return message("stream/transfer-ownership", {"stream_id": id, "new_owner": whom})
    forged = {
        "stream_id": id,
        "owner": whom,
        "new_owner": whom,
        "participant_id": whom,
        "authorized_writers": [whom],
    }
    verb = draw(st.sampled_from(["open", "write-granted", "write-revoked", "ownership-transferred"]))
    return message(f"stream/{verb}", forged)


@st.composite
def member_messages(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(["pause", "pause", "resume", "shutdown", "restart", "kick", "presence", "welcome"])
    )
    whom = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=2))
    if kind == "kick":
        return message("space/kick", {"participant_id": draw(NAMES)})
    if kind == "presence":
        gone = {"id": draw(NAMES), "capabilities": [{"kind": "*"}]}
        return message(
            "system/presence", {"event": draw(st.sampled_from(["join", "leave"])), "participant": gone}
        )
    if kind == "welcome":
        return message("system/welcome", {"you": {"id": "human"}, "participants": [], "active_streams": []})
    if kind == "pause":
        fields = draw(
            st.sampled_from(
                [{}, {"timeout_seconds": 3600}, {"timeout_seconds": 0.01}, {"timeout_seconds": -1}]
            )
        )
        return message("participant/pause", fields | {"reason": "wait"}, to=whom)
    if kind in ("shutdown", "restart"):  # ann, a whole participant, would act on it in its own time
        whom = [name for name in whom if name != "ann"]
    return message(f"participant/{kind}", {}, to=whom)


@st.composite
def grant_messages(draw: st.DrawFn) -> dict[str, Any]:
    id, whom = draw(st.sampled_from(GRANTS)), draw(st.sampled_from(IDS))
    kind = draw(st.sampled_from(["grant", "grant", "grant", "ack", "revoke", "patterns"]))
    patterns = draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))
    if kind == "grant":
        end: dict[str, Any] = draw(
            st.sampled_from([{}, {}, {"max_uses": 1}, {"expires_at": "2000-01-01T00:00:00Z"}])
        )
        return message(
            "capability/grant", {"recipient": whom, "capabilities": patterns, **end}, to=[whom]
        ) | {"id": id}
    if kind == "ack":
        return message("capability/grant-ack", {"status": "accepted"}, about=[id])
    if kind == "revoke":
        named = draw(st.sampled_from([{"recipient": whom}, {}]))
        return message("capability/revoke", {"grant_id": id, **named})
    return message("capability/revoke", {"recipient": whom, "capabilities": patterns})


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[str, str, Any]]:
    """Steps: (`say`, sender, message), (`frame`, writer, stream), (`join`, id, None), (`leave`, id, None)."""
    steps: list[tuple[str, str, Any]] = [
        ("say", draw(SENDERS), message("stream/request", {"direction": "upload"}))
    ]
    for _ in range(draw(st.integers(3, 12))):
        way = draw(
            st.sampled_from(["stream", "stream", "stream", "member", "grant", "grant", "frame", "move"])
        )
        if way == "frame":
            steps.append(("frame", draw(st.sampled_from(IDS)), draw(st.sampled_from(STREAMS))))
        elif way == "move":
            steps.append((draw(st.sampled_from(["join", "leave"])), draw(st.sampled_from(IDS)), None))
        else:
            made = {"stream": stream_messages, "member": member_messages, "grant": grant_messages}[way]
            steps.append(("say", draw(SENDERS), draw(made())))
    return steps


# --- what is true ---------------------------------------------------------------------------------------------------


def true_streams(state: State) -> dict[str, tuple[Any, ...]]:
    """Owner, writers and targets of each open stream."""
    return {
        id: (stream.owner.runtime_id, tuple(stream.writer_ids), names_in(stream.fields.get("target")) or ())
        for id, stream in state.streams.items()
    }


def true_members(state: State) -> dict[str, tuple[Any, ...]]:
    """Connections, pause, shutdown and removal of each participant that ever came."""
    return {name: standing_of(member) for name, member in state.members.items() if member.admissions}


def standing_of(member: Member) -> tuple[Any, ...]:
    pause = member.pause
    until = round(pause.until.timestamp(), 2) if pause is not None and pause.until is not None else None
    paused = (pause.by, until) if pause is not None else None
    return sorted(one.runtime_id for one in member.connections), paused, member.shut_down, member.kicked


def true_grants(state: State) -> dict[str, list[str]]:
    """The patterns that are held under each grant."""
    held: dict[str, list[str]] = {}
    for member in state.members.values():
        for right in member.rights.held:
            if right.grant:
                held.setdefault(right.grant, []).append(compact(right.capability.pattern))
    return held


# --- who reads it ---------------------------------------------------------------------------------------------------


class Ledgers:
    """The three ledgers over one sequence of entries."""

    def __init__(self, *, me: str | None = None, logical: Callable[[str], str] = str) -> None:
        self.streams = StreamLedger(me=me)
        self.members = MemberLedger(me=me, logical=logical)
        self.grants = GrantLedger(logical=logical)

    def observe(self, entry: Entry) -> None:
        for ledger in (self.streams, self.members, self.grants):
            ledger.observe(entry)


class Readers:
    """One lab, told of steps one after the other."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        assert lab.host is not None and lab.host.core is not None
        self.gateway, self.space, self.state = lab.host.gateway, lab.host.name, lab.host.core.state
        self.ids = (f"s{n}" for n in itertools.count())
        self.clients: dict[str, MEWClient] = {}
        self.heard: dict[str, set[str]] = {}
        self.frames: Counter[str] = Counter()  # that the human was sent, of each stream that is open
        self.blind: set[str] = set()  # clients that may know of a stream which is closed
        self.revoked: set[str] = set()  # grants, by their ids
        self.seen = Ledgers(me=lab.me.participant.client.id, logical=self.state.logical)
        self.streams = StreamsModel(lab.me.participant)
        self.roster, self.holdings = RosterModel(lab), Holdings(lab, lab.granting)
        lab.loop.call(self._open)

    def _open(self) -> None:
        mine = self.lab.me.participant.client
        self.gateway.enrol(self.space, "human", [{"kind": "*"}])
        for name, rights in RIGHTS.items():
            self.gateway.enrol(self.space, name, rights)
        self.clients["human"], self.heard["human"] = mine, set()
        mine.on_message(self._listen("human"))
        mine.on_message(lambda envelope: self.seen.observe(Entry.of(envelope, 0)))
        self.streams.follow(self.lab.following)
        for model in (self.roster, self.holdings):
            self.lab.following.add(model)

    def _listen(self, id: str) -> Callable[[Envelope], object]:
        return lambda envelope: self.heard[id].add(envelope.id)

    # --- steps ---

    async def join(self, id: str) -> None:
        member = self.state.members[id.removesuffix("-2")]
        if id in self.clients:
            return
        if member.kicked:
            self.gateway.enrol(self.space, member.name, RIGHTS[member.name])

        async def connect() -> Any:
            return attach(self.gateway, self.space, member.name, runtime_id=id)

        client = MEWClient(space=self.space, connect_link=connect, reconnect=False)
        self.heard[id] = set()
        client.on_message(self._listen(id))
        if id == "ann":  # a participant as others write them, with all its parts
            self.ann = MEWParticipant(client)
        await client.connect()
        self.clients[id] = client
        self.blind.discard(id)

    async def take(self, step: tuple[str, str, Any]) -> None:
        way, id, what = step
        if way == "join":
            await self.join(id)
        elif way == "leave" and id in self.clients:
            await self.clients.pop(id).disconnect()
        elif way == "frame" and id in self.clients:
            await self._write(id, what)
        elif way == "say" and (id == "human" or id in self.clients):
            self._say(id, what)
        await self._settle()

    def _say(self, id: str, draft: dict[str, Any]) -> None:
        named = draft.get("about_stream", ())
        streams = [(self.state.streams.get(stream), way) for stream, way in named]
        about = [getattr(stream, way) for stream, way in streams if stream is not None]
        members = {key: value for key, value in draft.items() if key != "about_stream"}
        members |= {
            "id": draft.get("id") or next(self.ids),
            "correlation_id": [*draft["correlation_id"], *about],
        }
        before = set(self.state.streams)
        reply = self.gateway.post(self.space, id, json.dumps({**members, "from": id}))
        if reply.status == 200 and members["kind"] == "capability/revoke":
            self.revoked |= {members["payload"].get("grant_id", "")}
        if reply.status == 200 and before - set(self.state.streams) and about:
            # A welcome does not say how a stream was opened, so a close that names only that is not understood by
            # participants that came later.
            self.blind |= {"ann"}

    async def _write(self, id: str, stream_id: str) -> None:
        stream, connection = self.state.streams.get(stream_id), self.state.live[id]
        member = self.state.members[connection.participant]
        free = held_back(member, "", self.gateway.time(self.space)) is None
        if id == "ann" and not free:
            return  # it knows that it is paused, and sends nothing
        if stream is not None and connection in stream.writers and free:
            self.frames[stream_id] += not stream.target or any(
                one.runtime_id == "human" for one in stream.target
            )
        await self.clients[id].send_stream_data(stream_id, b"data")

    async def _settle(self) -> None:
        """Returns when everybody has heard what everybody says now, so that all before is heard, too."""
        for client in list(self.clients.values()):
            if client.state == "ready":
                client.post(
                    message("participant/status", {"messages_in_context": 1}) | {"id": next(self.ids)}
                )
        for _ in range(2):  # what was said first may have been answered
            marks = {}
            for id, client in self.clients.items():
                if client.state == "ready":
                    mark = next(self.ids)
                    client.post(message("participant/status", {"messages_in_context": 1}) | {"id": mark})
                    marks[id] = mark
            async with asyncio.timeout(10):
                for id, client in self.clients.items():
                    while client.state == "ready" and not self.heard[id].issuperset(  # noqa: ASYNC110
                        mark for sender, mark in marks.items() if self.clients[sender].state == "ready"
                    ):
                        await asyncio.sleep(0)
        for id in [id for id, client in self.clients.items() if client.state != "ready"]:
            del self.clients[id]

    # --- what they say ---

    def check(self) -> None:
        streams, members = true_streams(self.state), true_members(self.state)
        log, again = Ledgers(logical=self.state.logical), Ledgers(logical=self.state.logical)
        for entry in entries_of(self.lab.log.records):
            log.observe(entry)
        for entry in entries_of(self._replayed()):
            again.observe(entry)
        me = self.lab.me.participant
        books = {"me": me.streams.active, "heard": self.seen.streams.open}
        books |= {"log": log.streams.open, "replay": again.streams.open}
        if "ann" in self.clients and "ann" not in self.blind:
            books["ann"] = self.ann.streams.active
        for reader, book in books.items():
            told = {id: (stream.owner, stream.writers, stream.target) for id, stream in book.items()}
            assert told == streams, reader
        rows = [row for row in self.streams.rows() if row.state == "open"]
        assert {row.id: (row.owner, row.writers, row.target) for row in rows} == streams
        assert {id: me.streams.active[id].frames for id in streams} == {id: self.frames[id] for id in streams}
        closed = {row.id: row.reason for row in self.streams.rows() if row.state == "closed"}
        assert closed == {stream.id: stream.reason for stream in log.streams.closed.values()}
        self._check_members(members, log, again)
        self._check_grants(log, again)

    def _check_members(self, members: dict[str, tuple[Any, ...]], *ledgers: Ledgers) -> None:
        for ledger in (*ledgers, self.seen):
            told = {
                member.name: (
                    sorted(member.ids),
                    member.pause and (member.pause.by, member.pause.until and round(member.pause.until, 2)),
                    member.shut_down,
                    member.removed,
                )
                for member in ledger.members
                if member.came
            }
            if (
                ledger is self.seen
            ):  # a participant has no clock but its own: nobody tells it when a pause began
                told = {name: (ids, pause and pause[0], *more) for name, (ids, pause, *more) in told.items()}
                assert told == {
                    name: (ids, pause and pause[0], *more) for name, (ids, pause, *more) in members.items()
                }
            else:
                assert told == members
        here = {id for ids, *_ in members.values() for id in ids}
        for id, client in self.clients.items():
            assert {*client.participants, id} == here, id
        before = self.gateway.time(self.space)
        self.roster.refresh()
        after = self.gateway.time(self.space)  # a pause may end meanwhile
        for name, (ids, pause, shut_down, kicked) in members.items():
            row, member = self.roster.find(name), self.state.members[name]
            assert row is not None

            def is_paused(now: float, member: Any = member) -> bool:
                return member.pause is not None and (member.pause.until is None or now < member.pause.until)

            presences = {
                "removed"
                if kicked
                else "shut down"
                if shut_down
                else "left"
                if not ids
                else "paused"
                if is_paused(now)
                else "here"
                for now in (before, after)
            }
            assert row.presence in presences, name
            if pause is not None and row.paused is not None:
                assert (row.paused.by, row.paused.reason) == (pause[0], "wait")

    def _check_grants(self, *ledgers: Ledgers) -> None:
        held = true_grants(self.state)
        mine = self.lab.me.participant.rights.grants
        for grants in (*(ledger.grants for ledger in ledgers), self.seen.grants, mine):
            for id, patterns in held.items():
                grant = grants.get(id)
                assert grant is not None and grant.stands, (id, "is held and not said to stand")
                assert {*patterns} <= {compact(pattern) for pattern in grant.left}
            for grant in grants:
                parties = [self.state.participant(name) for name in (grant.recipient, grant.granter)]
                # A participant does not know which ids are of one participant; readers of a journal here do.
                kicked = grants is not mine and any(party is not None and party.kicked for party in parties)
                assert not grant.stands or not (kicked or grant.id in self.revoked), grant.id
                assert {one.by for one in grant.acknowledged} <= {grant.recipient, *grant.to}
            told = {grant.id: (grant.stands or grants is mine, grant.acknowledged) for grant in grants}
            assert told == {
                grant.id: (grant.stands or grants is mine, grant.acknowledged) for grant in ledgers[0].grants
            }
        for id, client in self.clients.items():  # standing as each member was told
            rights = self.state.members[self.state.logical(id)].rights
            assert [*client.capabilities.patterns] == [*rights.capabilities.patterns], id
        self.holdings.refresh()
        shown: dict[str, set[str]] = {}
        for row in self.holdings.rows:
            if row.grant:
                shown.setdefault(row.grant, set()).add(row.pattern)
        assert shown == {id: {*patterns} for id, patterns in held.items()}

    def _replayed(self) -> list[Record]:
        """The records of a replay; it fails where a fresh space would have recorded something else."""
        assert self.lab.host is not None and self.lab.host.journal is not None
        records: list[Record] = []
        replay(self.lab.host.journal.path, observe=records.append)
        return records


async def converse(readers: Readers, script: list[tuple[str, str, Any]]) -> None:
    for id in IDS:
        await readers.join(id)
    await readers.take(("say", "nobody", None))
    readers.check()
    for step in script:
        await readers.take(step)
        readers.check()
    for client in list(readers.clients.values()):
        if client is not readers.clients["human"]:
            await client.disconnect()


def run(script: list[tuple[str, str, Any]]) -> None:
    lab = up()
    try:
        readers = Readers(lab)
        lab.loop.run(converse(readers, script), timeout=60, doing="converse")
        lab.loop.call(readers.streams.stop)
    finally:
        lab.down()


@pytest.mark.ruling("R10", "R13", "R14", "R16")
@pytest.mark.timeout(1800)
@settings(max_examples=examples(35, at_length=500), deadline=None, suppress_health_check=list(HealthCheck))
@given(conversations())
def test_all_readers_agree_with_the_space(script: list[tuple[str, str, Any]]) -> None:
    run(script)


# --- the cases in which readers disagreed, or may ----------------------------------------------------------------------

OPENED = ("say", "bot", message("stream/request", {"direction": "upload"}))
ON = {"stream_id": "stream-1"}


def grant(id: str, sender: str, recipient: str, *patterns: dict[str, Any]) -> tuple[str, str, Any]:
    payload = {"recipient": recipient, "capabilities": list(patterns)}
    return "say", sender, message("capability/grant", payload, to=[recipient]) | {"id": id}


@pytest.mark.ruling("R10", "R13", "R14", "R16")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            [
                OPENED,
                (
                    "say",
                    "bot",
                    message("stream/close", {"stream_id": None}) | {"about_stream": [("stream-1", way)]},
                ),
            ],
            id=f"a close without a stream's id, about its {way}",
        )
        for way in ("request", "opened")
    ]
    + [
        pytest.param(
            [
                OPENED,
                ("say", "bot", message("stream/close", {}) | {"about_stream": [("stream-1", "request")]}),
            ],
            id="a close that names the request alone",
        ),
        pytest.param(
            [
                OPENED,
                ("say", "bot", message("stream/grant-write", ON | {"participant_id": "ann"})),
                ("say", "bot", message("stream/transfer-ownership", ON | {"new_owner": "eve"})),
                *(("frame", id, "stream-1") for id in ("bot", "ann", "eve")),
                ("say", "bot", message("stream/close", ON)),
                ("leave", "ann", None),
                ("say", "eve", message("stream/close", ON)),
            ],
            id="the former owner of a stream writes and closes no more",
        ),
        pytest.param(
            [
                OPENED,
                ("say", "bot", message("stream/grant-write", ON | {"participant_id": "bot"})),
                ("say", "bot", message("stream/transfer-ownership", ON | {"new_owner": "eve"})),
                ("frame", "bot", "stream-1"),
                ("leave", "eve", None),
            ],
            id="the former owner writes on where a grant says so",
        ),
        pytest.param(
            [
                ("say", "eve", message("stream/open", {"stream_id": "stream-9", "owner": "eve"})),
                OPENED,
                ("say", "eve", message("stream/close", ON)),
                ("say", "eve", message("stream/close", {}) | {"about_stream": [("stream-1", "opened")]}),
            ],
            id="a stranger opens and closes nothing",
        ),
        pytest.param(
            [
                ("say", "human", message("participant/pause", {"reason": "wait"}, to=["bot"])),
                ("say", "bot", message("participant/resume", {}, to=["bot"])),
                ("leave", "bot-2", None),
                ("leave", "bot", None),
                ("join", "bot", None),
                ("say", "human", message("participant/resume", {}, to=["bot"])),
            ],
            id="a participant does not resume itself, nor by coming again",
        ),
        pytest.param(
            [
                ("say", "human", message("participant/shutdown", {}, to=["bot-2", "eve"])),
                ("leave", "eve", None),
                ("leave", "bot-2", None),
                ("join", "bot-2", None),
                ("say", "human", message("participant/restart", {}, to=["eve"])),
            ],
            id="a shutdown is of the participant, and ends when it joins, or is restarted while away",
        ),
        pytest.param(
            [
                grant("g0", "bot-2", "eve", PATTERNS[0]),
                grant("g1", "eve", "ann", PATTERNS[0]),
                grant("g2", "ann", "eve", PATTERNS[3], PATTERNS[0]),
                ("say", "eve", message("capability/grant-ack", {"status": "accepted"}, about=["g0"])),
                ("say", "ann", message("capability/grant-ack", {"status": "accepted"}, about=["g0"])),
                ("say", "eve", message("space/kick", {"participant_id": "bot"})),
                ("say", "human", message("space/kick", {"participant_id": "bot"})),
                ("join", "bot", None),
                ("say", "bot", message("capability/revoke", {"grant_id": "g0"})),
            ],
            id="grants by those who may not, and by one who is removed",
        ),
        pytest.param(
            [
                grant("g0", "bot", "eve", *PATTERNS[:2]),
                (
                    "say",
                    "human",
                    message("capability/revoke", {"recipient": "eve", "capabilities": [PATTERNS[0]]}),
                ),
                ("say", "human", message("capability/revoke", {"grant_id": "g0", "recipient": "ann"})),
                ("say", "human", message("capability/revoke", {"grant_id": "g0"})),
            ],
            id="a revoke by patterns takes a part, one by the id the rest",
        ),
    ],
)
def test_all_readers_agree_where_they_might_not(script: list[tuple[str, str, Any]]) -> None:
    run(script)
