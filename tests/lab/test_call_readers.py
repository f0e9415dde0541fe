"""All readers of calls agree: the participant's book, the cards, the views, the filter, the log, its exports, a replay.

Random conversations go through a real space, honest and hostile ones. Answers get lost, and targets leave while calls
run. What each reader should say is worked out here, slowly, from the sentences of R17, R18 and R35 over all that was
delivered.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.ledger.calls import CallLedger
from mew_lab.log.entries import entries_of
from mew_lab.log.ledger_rows import ledger_columns
from mew_lab.log.pairs import pairs_of
from mew_lab.log.replay import replay
from mew_lab.protocol.envelope import Envelope
from mew_lab.space.events import Record
from mew_lab.views.feed.calls import CallStates
from mew_lab.views.reasoning.model import ReasoningModel
from mew_lab.views.timeline.model import TrafficStats

from ..conftest import examples

PEOPLE = ("bot", "eve", "git", "ann")
TOOLS: tuple[dict[str, Any], ...] = (
    {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}},
    {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 2}}},
    {"method": "tools/call", "params": {"name": "delete"}},
    {"method": "tools/list"},
    {"method": "notifications/ping"},
    {"method": 7},
)
BODIES: dict[str, tuple[dict[str, Any], ...]] = {
    "mcp/proposal": TOOLS,
    "mcp/request": TOOLS,
    "mcp/response": (
        {"result": {}},
        {"error": {"code": 1, "message": "no"}},
        {"error": {"code": -32001, "message": "late", "data": {"code": "already_fulfilled", "by": "ann"}}},
        {"result": {"isError": True, "content": []}},
        {},
        {"error": {"code": -32001, "message": "it ended", "data": {"code": "outcome_unknown"}}},
    ),
    "mcp/reject": ({"reason": "unsafe"}, {"reason": 7}),
    "mcp/withdraw": ({"reason": "timeout"}, {}),
}
TARGETS = ("git", "ann")  # they are connected, and leave at most once
ADDRESSEES: tuple[tuple[str, ...], ...] = ((), ("git",), ("git", "ann"), ("ann", "git"), ("ann",))


@st.composite
def messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A conversation. Of three messages two follow on what was said: a fulfilment, its answer, a decision."""
    said: list[dict[str, Any]] = []
    here = list(TARGETS)
    for n in range(draw(st.integers(2, 14))):
        if here and draw(st.integers(0, 9)) == 0:
            said.append({"kind": "leave", "from": here.pop(draw(st.integers(0, len(here) - 1)))})
            continue
        calls = [one for one in said if one["kind"] in ("mcp/proposal", "mcp/request")]
        proposals = [one for one in calls if one["kind"] == "mcp/proposal"]
        way = draw(
            st.sampled_from(["any", "any", "fulfil", "fulfil", "answer", "answer", "decide", "propose"])
        )
        one: dict[str, Any] = {"id": f"m{n}", "from": draw(st.sampled_from(PEOPLE))}
        if way == "fulfil" and proposals:
            about = draw(st.sampled_from(proposals))
            one |= {"kind": "mcp/request", "correlation_id": [about["id"]], "payload": about["payload"]}
            one["to"] = about["to"] or draw(st.sampled_from(ADDRESSEES))
        elif way == "answer" and calls:
            about = draw(st.sampled_from(calls))
            one |= {
                "kind": "mcp/response",
                "correlation_id": [about["id"]],
                "payload": draw(st.sampled_from(BODIES["mcp/response"])),
            }
            one |= {"from": draw(st.sampled_from([*about["to"], "eve"])), "to": [about["from"]]}
        elif way == "decide" and proposals:
            about = draw(st.sampled_from(proposals))
            kind = draw(st.sampled_from(["mcp/reject", "mcp/withdraw"]))
            one |= {
                "kind": kind,
                "correlation_id": [about["id"]],
                "payload": draw(st.sampled_from(BODIES[kind])),
                "to": [],
            }
            one["from"] = draw(st.sampled_from([about["from"], one["from"]]))
        else:
            kind = "mcp/proposal" if way == "propose" else draw(st.sampled_from(sorted(BODIES)))
            one |= {
                "kind": kind,
                "payload": draw(st.sampled_from(BODIES[kind])),
                "to": draw(st.sampled_from(ADDRESSEES)),
            }
            named = [f"m{k}" for k in range(n)] or ["m0"]
            if kind != "mcp/proposal":
                one["correlation_id"] = draw(st.lists(st.sampled_from(named), max_size=2))
            if draw(st.integers(0, 7)) == 0:
                one["id"] = draw(st.sampled_from(named))  # an id that may be taken
        said.append({**one, "to": list(one["to"]), "context": "r"})
    return said


def tells(payload: dict[str, Any]) -> bool:
    """Whether an answer tells what became of the call. Spec: R35."""
    error = payload.get("error")
    return "result" in payload or (error is not None and error.get("data") != {"code": "outcome_unknown"})


# --- what is true ---------------------------------------------------------------------------------------------------


@dataclass
class Truth:
    """One call, from the sentences of the rulings; `state` in the words of the ledger.

    `late`: a request after the end of its proposal, of which no addressee has told yet whether it executed it.
    """

    message: dict[str, Any]
    state: str
    fulfilment: str = ""
    asked: list[str] = field(default_factory=list)
    decisions: int = 0
    rejected: bool = False
    late: bool = False

    @property
    def shown(self) -> str:
        """A proposer that gives up on a rejection withdraws; people are shown the rejection."""
        return "rejected" if self.state == "withdrawn" and self.rejected else self.state


def well_formed(message: dict[str, Any]) -> bool:
    """Spec: §3.1, §3.2, §3.3; ruling R5."""
    payload, kind = message["payload"], message["kind"]
    if kind in ("mcp/request", "mcp/proposal"):
        return isinstance(payload.get("method"), str)
    if not message.get("correlation_id"):
        return False
    if kind == "mcp/response":
        return True  # one without a correct answer ends the wait for its request
    return isinstance(payload.get("reason", ""), str)


def named(payload: dict[str, Any]) -> tuple[Any, Any]:
    return payload["method"], payload.get("params", {}).get("name")


def truths(delivered: list[dict[str, Any]]) -> tuple[dict[str, Truth], dict[str, Truth]]:
    """What became of each proposal and each request, by id."""
    proposals: dict[str, Truth] = {}
    requests: dict[str, Truth] = {}
    for message in delivered:
        if message["kind"] == "leave":
            for call in (*requests.values(), *proposals.values()):
                notifies = call.message["payload"]["method"].startswith("notifications/")  # nothing waits
                if (
                    (call.state in ("waiting", "fulfilled") or call.late)
                    and set(call.asked) == {message["from"]}
                    and not notifies
                ):
                    call.state = "unknown"
            continue
        if not well_formed(message):
            continue
        sender, kind, id, to = message["from"], message["kind"], message["id"], message["to"]
        about = [one for one in dict.fromkeys(message.get("correlation_id", [])) if one in proposals]
        if kind == "mcp/proposal":
            proposals[id] = Truth(message, "open")
        elif kind == "mcp/request":
            waits = not message["payload"]["method"].startswith("notifications/")
            requests[id] = Truth(message, "waiting" if waits else "sent", asked=to)
            wanted = [
                one
                for one in map(proposals.__getitem__, about)
                if named(message["payload"]) == named(one.message["payload"])
                and to
                and (not one.message["to"] or set(to) & set(one.message["to"]))
            ]
            used_up = any(one.state in ("fulfilled", "answered", "unknown") for one in wanted)  # R32
            for proposal in [] if used_up else wanted:
                fits = not proposal.message["to"] or set(to) == set(proposal.message["to"])
                if proposal.state in ("open", "rejected") and fits and sender != proposal.message["from"]:
                    proposal.state, proposal.fulfilment, proposal.asked = "fulfilled", id, to
                    proposal.decisions += 1
            fulfils = any(one.fulfilment == id for one in wanted) and not used_up
            if waits and (used_up or (not fulfils and any(one.state == "withdrawn" for one in wanted))):
                requests[id].state, requests[id].late = "refused", True
        elif kind == "mcp/response":
            for one in dict.fromkeys(message["correlation_id"]):
                request = requests.get(one)
                data = message["payload"].get("error", {}).get("data", {})
                told = "answered" if tells(message["payload"]) else "unknown"
                if request and (request.late or request.state == "refused") and sender in request.asked:
                    # A foreign executor carried it out all the same, or says so.
                    request.state = "refused" if data.get("code") == "already_fulfilled" else told
                    request.late = False
                    request = None
                fulfilled = [proposal for proposal in proposals.values() if proposal.fulfilment == one]
                for call in (*([request] if request else []), *fulfilled):
                    if call.state in ("waiting", "fulfilled", "unknown") and sender in call.asked:
                        call.state = told
        for proposal in map(proposals.__getitem__, about):
            undecided = proposal.state in ("open", "rejected")
            if kind == "mcp/reject" and undecided:
                proposal.state = "rejected"
                proposal.rejected = True
                proposal.decisions += 1
            if kind == "mcp/withdraw" and undecided and sender == proposal.message["from"]:
                proposal.state = "withdrawn"
                proposal.decisions += 1
    return proposals, requests


# --- who reads it ---------------------------------------------------------------------------------------------------

CARDS = {"answered": "done"}  # the words of a card, where they are not those of the ledger
ROWS = {"open": "proposed", "fulfilled": "waiting", "sent": "waiting"}


class _Deaf:
    """A connection that reads nothing."""

    def put(self, frame: Any) -> None: ...

    def close(self, code: int, reason: str, *, drop: bool = False) -> None: ...

    async def alive(self, timeout: float) -> bool:
        return True


class Readers:
    """One lab, told of messages one after the other."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.heard: list[str] = []
        self.delivered: list[dict[str, Any]] = []
        self.thoughts, self.stats = ReasoningModel(lab.me.participant), TrafficStats()
        self.rows = CallStates()
        host = lab.host
        self.gateway, self.space = host.gateway, host.name
        lab.loop.call(self._open)

    def _open(self) -> None:
        self.lab.me.participant.client.on_message(self._hear)
        for name in PEOPLE:
            everything = [{"kind": "mcp/*"}, {"kind": "reasoning/*"}, {"kind": "chat"}]
            self.gateway.enrol(self.space, name, everything[1:] if name == "ann" else everything)
        self.connections = {name: self.gateway.admit(self.space, name, _Deaf()) for name in TARGETS}
        self.lab.following.add(self.thoughts)
        self.lab.following.add(self.rows)
        self.lab.following.add(self.stats)
        self.post(
            {"id": "r", "from": "eve", "kind": "reasoning/start", "payload": {"message": "x"}, "to": []}
        )

    def _hear(self, envelope: Envelope) -> None:
        left = envelope.payload.get("event") == "leave"
        self.heard.append(f"left {envelope.payload['participant']['id']}" if left else envelope.id)

    def post(self, message: dict[str, Any]) -> bool:
        if message["kind"] == "leave":
            self.gateway.leave(self.space, self.connections[message["from"]])
            self.delivered.append({**message, "id": f"left {message['from']}"})
            return True
        reply = self.gateway.post(self.space, message["from"], json.dumps(message))
        if reply.status == 200:
            self.delivered.append(message)
        return reply.status == 200

    async def say(self, message: dict[str, Any]) -> None:
        """Posts it, and returns when the participant has heard it."""
        if not self.post(message):
            return
        message = self.delivered[-1]
        count = sum(one["id"] == message["id"] for one in self.delivered)
        async with asyncio.timeout(10):
            while self.heard.count(message["id"]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0)

    def check(self) -> None:
        mcp = [one for one in self.delivered if one["kind"].startswith(("mcp/", "leave"))]
        proposals, requests = truths(mcp)
        expected = {id: one.state for id, one in proposals.items()}
        waiting = {id: one.state for id, one in requests.items()}
        participant = self.lab.me.participant
        assert {one.id: one.state for one in participant.proposals} == expected
        assert {one.id: one.fulfilment or "" for one in participant.proposals} == {
            id: one.fulfilment for id, one in proposals.items()
        }
        cards = [*self.lab.decisions.pending(), *self.lab.decisions.decided()]
        assert {card.id: card.state for card in cards} == {
            id: CARDS.get(one.shown, one.shown) for id, one in proposals.items()
        }
        self._check_rows({id: one.shown for id, one in proposals.items()}, waiting)
        entries = list(entries_of(self.lab.log.records))
        pairs, ledger = pairs_of(entries)
        for book in (ledger, self._replayed()):
            assert {call.id: call.state for call in book.proposals} == expected
            assert {call.id: call.state for call in book.requests} == waiting
        self._check_frames(expected, waiting, proposals)
        self._check_feed(expected, waiting)
        handles = ("mcp/proposal", "mcp/request")  # another kind may come under an id that is taken
        number = {entry.id: entry.seq for entry in entries if entry.kind in handles and not entry.refused}
        decided = sorted(number[id] for id, one in proposals.items() if one.decisions)
        answered = sorted(number[id] for id, one in requests.items() if one.state == "answered")
        for strip, wanted in (("decision", decided), ("request", answered)):
            assert sorted(pair.asked for pair in self.stats.pairs(strip)) == wanted
            assert sorted(pair.asked for pair in pairs if pair.strip == strip) == wanted
        open_ = [id for id, state in expected.items() if state == "open"]
        assert [entry.id for entry in self.stats.waiting("decision")] == open_
        assert [entry.id for entry in self.stats.waiting("request")] == [
            id for id, state in waiting.items() if state == "waiting"
        ]

    def _check_frames(
        self, expected: dict[str, str], waiting: dict[str, str], truth: dict[str, Truth]
    ) -> None:
        log = self.lab.log
        requests, proposals, decisions = log.requests(), log.proposals(), log.decisions()
        relayed = [
            frame[(frame["code"] == "") & (frame["state"] != "claimed")] for frame in (requests, proposals)
        ]
        assert dict(zip(relayed[0]["id"], relayed[0]["state"], strict=True)) == waiting
        assert dict(zip(relayed[1]["id"], relayed[1]["state"], strict=True)) == expected
        fulfilled = {id: one.fulfilment for id, one in truth.items()}
        assert dict(zip(relayed[1]["id"], relayed[1]["request"], strict=True)) == fulfilled
        decided = {id for id, one in truth.items() if one.decisions}
        assert {
            id for id, t in zip(relayed[1]["id"], relayed[1]["latency"], strict=True) if t == t
        } == decided
        by_proposal = decisions[decisions["executed"] & (decisions["proposal"] != "")]
        assert set(by_proposal["id"]) == {id for id in fulfilled.values() if id}
        states = [
            (state.place, state.state, state.latency, state.decided_by)
            for state in ledger_columns(log.records)
        ]
        places = {r.seq: place for place, r in enumerate(log.records, 1) if r.raw is not None}
        for frame in relayed:
            for seq, state, latency in zip(frame["seq"], frame["state"], frame["latency"], strict=True):
                [found] = [one for one in states if one[0] == places[seq]]
                assert found[1] == state and found[2] == (latency if latency == latency else None)
        deciders = {place: by for place, _, _, by in states}
        for seq, by in zip(relayed[1]["seq"], relayed[1]["decided_by"], strict=True):
            assert deciders[places[seq]] == by

    def _check_feed(self, expected: dict[str, str], waiting: dict[str, str]) -> None:
        """The feed's column, the filter, the decisions and the export as spans name the unknown calls alike."""
        log = self.lab.log
        unknown = {id for states in (expected, waiting) for id, state in states.items() if state == "unknown"}
        assert {entry["id"] for entry in log.filter("state == unknown")} == unknown
        decisions = log.decisions()
        outcomes = dict(zip(decisions["id"], decisions["outcome"], strict=True))
        requests = log.requests()
        relayed = requests[(requests["code"] == "") & (requests["state"] != "claimed")]
        addressees = dict(zip(relayed["id"], relayed["to"], strict=True))
        for id, state in waiting.items():
            # A notification waits for no answer, so its state does not tell what an executor says of it all the same.
            if outcomes.get(id) not in (None, "claimed") and addressees[id] and state != "sent":
                assert (outcomes[id] == "unknown") == (state == "unknown"), (id, outcomes[id], state)
        entries = list(entries_of(log.records))
        for kind, states in (("mcp/proposal", expected), ("mcp/request", waiting)):
            for entry in entries:
                if entry.kind != kind or entry.refused or states.get(entry.id) is None or entry.malformed:
                    continue
                row = self.rows.get(entry.seq)
                assert ((row.state if row else "") == "unknown") == (states[entry.id] == "unknown"), entry.id

    def _check_rows(self, expected: dict[str, str], waiting: dict[str, str]) -> None:
        [reasoning] = self.thoughts.sequences
        for step in self.thoughts.steps(reasoning.facts.key):
            row = step.call
            if row is None or row.state == "refused":
                continue
            state = (expected if step.kind == "mcp/proposal" else waiting)[row.id]
            shown = "answered" if row.state == "failed" else row.state
            assert shown == ROWS.get(state, state), row

    def _replayed(self) -> CallLedger:
        """What a replay of the journal says; it fails where a fresh space would have recorded something else."""
        records: list[Record] = []
        replay(self.lab.host.journal.path, observe=records.append)
        book = CallLedger()
        for entry in entries_of(records):
            book.observe(entry)
        return book


async def converse(readers: Readers, script: list[dict[str, Any]]) -> None:
    for message in script:
        await readers.say(message)
        readers.check()


def run(script: list[dict[str, Any]]) -> None:
    lab = up()
    try:
        readers = Readers(lab)
        lab.loop.run(converse(readers, script), timeout=60, doing="converse")
    finally:
        lab.down()


@pytest.mark.ruling("R17", "R18")
@pytest.mark.threat(13)
@pytest.mark.timeout(1800)
@settings(max_examples=examples(40, at_length=500), deadline=None, suppress_health_check=list(HealthCheck))
@given(messages())
def test_all_readers_agree_on_what_became_of_each_call(script: list[dict[str, Any]]) -> None:
    run(script)


def call(
    kind: str, sender: str, id: str, payload: dict[str, Any], *about: str, to: tuple[str, ...] = ()
) -> dict[str, Any]:
    more = {"correlation_id": list(about)} if about else {}
    return {
        "id": id,
        "from": sender,
        "kind": kind,
        "payload": payload,
        "to": list(to),
        "context": "r",
        **more,
    }


@pytest.mark.ruling("R17")
@pytest.mark.parametrize(
    "claim",
    [
        call("mcp/request", "eve", "f", {"method": "tools/list"}, "p", to=("git",)),  # for another tool
        call("mcp/request", "eve", "f", TOOLS[0], "p"),  # to nobody
        call("mcp/response", "git", "f", {"result": {}}, "p", to=("bot",)),
    ],
)
def test_a_forged_fulfilment_decides_nothing_anywhere(claim: dict[str, Any]) -> None:
    proposed = call("mcp/proposal", "bot", "p", TOOLS[0], to=("git",))
    fulfilled = call("mcp/request", "eve", "q", TOOLS[0], "p", to=("git",))
    answered = call("mcp/response", "git", "a", {"result": {}}, "q", to=("eve",))
    run([proposed, claim, fulfilled, answered])


@pytest.mark.ruling("R17")
def test_who_fulfils_what_was_rejected_ends_it_everywhere() -> None:
    proposed = call("mcp/proposal", "bot", "p", TOOLS[0], to=("git",))
    rejected = call("mcp/reject", "git", "x", {"reason": "unsafe"}, "p")
    fulfilled = call("mcp/request", "eve", "q", TOOLS[0], "p", to=("git",))
    run([proposed, rejected, fulfilled, call("mcp/response", "git", "a", {"result": {}}, "q", to=("eve",))])
