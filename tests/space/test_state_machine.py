"""Does a space do, whatever happens in whatever order, what a slow and obvious model of it does?

A hypothesis state machine feeds the same events to `Space` and to `slow_space.SlowSpace` and compares what is heard by
whom. Beside that, after each step, hold what a reader of the rulings would swear to without any model: who hears what
nobody else may hear, that nothing of a refused message goes anywhere, that a welcome tells what one may do, that a
plan which is not committed changes nothing, and, in the end, that the same events give the same effects again.
"""

from __future__ import annotations

import json
import os
import secrets
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mew_lab.space.core import Space
from mew_lab.space.events import (
    Close,
    Deliver,
    Effect,
    Enrolled,
    Event,
    FrameReceived,
    GrantEnded,
    HttpReply,
    Joined,
    Left,
    Limited,
    Mint,
    Noted,
    Oversize,
    Received,
    Record,
    Relay,
    Void,
)
from mew_lab.space.rights import Rights
from mew_lab.space.state import SpaceLimits

from .slow_space import HANDLES, SlowSpace, plain_id

START = datetime(2026, 1, 1, tzinfo=UTC)
GATEWAY = "system:gateway"
LIMITS = {"grants": 30, "invites": 4, "streams": 4, "participants": 7, "share": 1}
PRIVATE = {"system/welcome", "system/error", "space/invite-ack"}

NAMED = ["ann", "ben", "cat", "dan"]  # by the configuration; ann owns the space
KNOWN = [*NAMED, "eve", "fay", "Eve"]  # and who may be invited, once under two spellings
OWNER = "ann"

TOOL = {"method": "tools/call", "params": {"name": "read_a"}}
CAPABILITIES: list[dict[str, Any]] = [
    {"kind": "*"},
    {"kind": "chat"},
    {"kind": "mcp/*"},
    {"kind": "mcp/request"},
    {"kind": "mcp/proposal"},
    {"kind": ["chat", "mcp/request"]},
    {"kind": "mcp/request", "payload": {"method": "tools/*"}},
    {"kind": "mcp/request", "payload": {"method": "tools/call"}},
    {"kind": "mcp/request", "payload": {"method": ["tools/call", "tools/list"]}},
    {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}},
    {"kind": "mcp/request", "payload": TOOL},
    {"kind": "mcp/request", "to": "ann"},
    {"kind": "mcp/request", "to": ["ann", "ben"]},
    {"kind": ["capability/grant", "capability/revoke"]},
    {"kind": "capability/*"},
    {"kind": "capability/grant"},
    {"kind": "space/*"},
    {"kind": "space/invite"},
    {"kind": "participant/*"},
    {"kind": "stream/*"},
    {"kind": "stream/request"},
    {"kind": "space/kick", "payload": {"participant_id": "!dan"}},
    {"kind": "capability/*", "payload": {"recipient": "!ben"}},
]
RICH = [
    {"kind": kind} for kind in "capability/* space/* participant/* stream/* mcp/* chat reasoning/*".split()
]

KINDS = [
    *"chat mcp/request mcp/request mcp/proposal mcp/response mcp/withdraw participant/status chat/cancel zz".split(),
    *"chat/acknowledge reasoning/start reasoning/cancel capability/grant-ack mcp/reject".split(),
    *"participant/request-status participant/compact-done system/welcome space/invite-ack".split(),
    *"stream/write-granted stream/write-revoked stream/ownership-transferred system/zz".split(),
    *"participant/resume stream/close capability/grant participant/restart".split(),
]
PAYLOADS: list[dict[str, Any]] = [{}, TOOL, {"method": "tools/list"}, {"method": "tools/call"}, {"method": 1}]

known = st.sampled_from(KNOWN)
hows = st.sampled_from(["newest", "newest", "newest", "newest", "oldest", "http", "http as alias"])
# Who may do most speaks most; a guest speaks as soon as there is one.
speakers = st.tuples(st.sampled_from([*["ann"] * 4, *["ben"] * 2, *["cat"] * 2, "dan", "eve", "fay"]), hows)
able = st.tuples(st.sampled_from(["ann", "ann", "ben", "cat"]), st.sampled_from(["newest", "newest", "http"]))
# How somebody is referred to: by the logical name, by its newest runtime id, by any id that it ever had.
ways = st.sampled_from(["name", "name", "id", "former"])
references = st.tuples(st.sampled_from([*NAMED, *NAMED, *NAMED, *NAMED, *KNOWN, "nobody"]), ways)
marks = st.sampled_from([*["fresh"] * 8, "none", "h1", "h1", "h2", "gw-0000000000000001-1"])
capability = st.sampled_from(CAPABILITIES)
few = st.lists(capability, min_size=1, max_size=2)
faulty = st.sampled_from([[], "chat", [{"kind": ""}], [{"kind": "chat", "paylod": {}}], ["chat"], None])
mostly = st.sampled_from([True] * 7 + [False])
deeds = st.tuples(
    st.sampled_from("write write grant-write grant-write revoke-write transfer-ownership close open".split()),
    st.sampled_from([0, 0, 0, 1, 2, 3]),
    mostly,
    speakers,
    references,
)


def normal(said: list[tuple[str, str, tuple[str, ...]]]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Welcomes that follow each other may come in any order; so may closes, and presences."""
    runs: list[list[tuple[str, str, tuple[str, ...]]]] = []
    for one in said:
        loose = one[0] in ("system/welcome", "system/presence", "close")
        if loose and runs and runs[-1][0][0] == one[0]:
            runs[-1].append(one)
        else:
            runs.append([one])
    return [one for run in runs for one in sorted(run)]


def lines(said: list[tuple[str, str, tuple[str, ...]]]) -> str:
    return "\n".join(f"  {what} {facts} to {' '.join(receivers)}" for what, facts, receivers in said)


def by_text(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True))


def described(participant: dict[str, Any]) -> list[Any]:
    """`[id, capabilities]`; no capabilities in a leave."""
    capabilities = participant.get("capabilities")
    return [participant["id"], None if capabilities is None else by_text(capabilities)]


def facts_of(payload: dict[str, Any], kind: str, *, frame: bool) -> dict[str, Any]:
    """What a payload of the gateway's says, without sentences for people."""
    match kind:
        case "system/welcome":
            others = by_text([described(one) for one in payload["participants"]])
            streams = payload["active_streams"]
            you, beyond = described(payload["you"]), payload["x-mew-lab"]
            return {"you": you, "participants": others, "streams": streams, "beyond": beyond}
        case "system/presence":
            return {"event": payload["event"], "participant": described(payload["participant"])}
        case "system/error":
            kept = "attempted_kind your_capabilities targets remaining refused_before".split()
            if frame:
                kept.append("stream_id")
            found = {key: payload[key] for key in kept if key in payload}
            for key in ("your_capabilities", "remaining"):
                if key in found:
                    found[key] = by_text(found[key])
            return {"code": payload.get("code", payload["error"]), **found}
        case "space/invite-ack":
            return {key: value for key, value in payload.items() if key != "message"}
    return payload


def said_by(effects: tuple[Effect, ...], *, frame: bool) -> list[tuple[str, str, tuple[str, ...]]]:
    """The effects in the words of the model; records apart."""
    said = []

    def add(what: str, receivers: tuple[str, ...] = (), **facts: Any) -> None:
        said.append((what, json.dumps(facts, sort_keys=True), tuple(sorted(receivers))))

    for effect in effects:
        match effect:
            case Deliver(envelope, connections):
                related = [plain_id(one) for one in envelope.correlation_id]
                to = list(envelope.to)
                if envelope.sender == GATEWAY:
                    if envelope.kind == "system/error" or envelope.payload.get("status") == "already_exists":
                        related = [one for one in related if one != "gw"]
                    payload = facts_of(envelope.payload, envelope.kind, frame=frame)
                    add(envelope.kind, connections, to=to, correlation=related, payload=payload)
                else:
                    whole = {
                        "id": plain_id(envelope.id),
                        "from": envelope.sender,
                        "kind": envelope.kind,
                    }
                    add("message", connections, **whole, to=to, correlation=related, payload=envelope.payload)
            case Relay(data, text, connections):
                add("relay", connections, data=data.decode("latin-1"), text=text)
            case Close(connection, code):
                add("close", connection=connection, code=code)
            case Mint(participant):
                add("mint", participant=participant)
            case Void(participant):
                add("void", participant=participant)
            case HttpReply(status, body):
                inner = body.get("payload", body)
                word = inner.get("code") or inner.get("error") or inner["status"]
                add("reply", status=status, word=word)
    return said


def picture(space: Space) -> dict[str, str]:
    """Everything that a space remembers, as text."""

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {shown(one)}" for key, one in value.items()) + "}"
        if isinstance(value, Rights):
            held = [(one.capability.pattern, *one[1:]) for one in value.held]
            return f"{held} {value.texts} {value.grants} {value.capabilities.patterns}"
        slots = getattr(type(value), "__slots__", ())
        if slots and not isinstance(value, tuple):
            return f"{type(value).__name__}({', '.join(shown(getattr(value, name)) for name in slots)})"
        return repr(value)

    return {name: shown(value) for name, value in vars(space.state).items()}


class Machine(RuleBasedStateMachine):
    """A space and its model, fed with the same events."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.events: list[tuple[Event, datetime]] = []
        self.effects: list[tuple[Effect, ...]] = []
        self.count = 0
        self.grants: list[str] = []
        self.requests: list[str] = []
        self.welcomed: dict[str, list[Any]] = {}  # connection -> what its last welcome said that it may do

    def new_space(self) -> Space:
        return Space("demo", epoch=1, owner=OWNER, participants=self.given, limits=SpaceLimits(**LIMITS))

    @initialize(
        given=st.tuples(st.just(RICH), st.just(RICH) | few, st.lists(capability, max_size=3)),
        ids=st.tuples(*[st.sampled_from(["", "", "-2"]) for _ in NAMED]),
    )
    def open(self, given: tuple[list[Any], ...], ids: tuple[str, ...]) -> None:
        self.given = dict(zip(NAMED, [[{"kind": "*"}], *given], strict=True))
        self.space = self.new_space()
        self.picture = picture(self.space)
        self.model = SlowSpace(OWNER, LIMITS)
        for name, capabilities in self.given.items():
            self.model.enrol(name, capabilities)
        for name, suffix in zip(NAMED, ids, strict=True):
            self.join(name, suffix)

    # --- one event ---

    def obey(self, event: Event) -> None:
        """Feeds it to both, compares, and holds it against what any reader would swear to."""
        dropped = self.space.plan(event, self.now).effects
        assert picture(self.space) == self.picture, "a plan that is not committed changes nothing"
        effects = self.space.step(event, self.now)
        self.picture = picture(self.space)
        assert effects == dropped, "a plan says what the step does"
        self.events.append((event, self.now))
        self.effects.append(effects)
        here = {one.name: (one.person, one.id) for one in self.model.here}
        self.model.now, self.model.said, self.model.verdict, self.model.fallen = self.now, [], "", 0
        self.tell_model(event)
        said = said_by(effects, frame=isinstance(event, FrameReceived))
        ours, its = normal(said), normal(self.model.said)
        assert ours == its, f"{event}\nthe space\n{lines(ours)}\nthe model\n{lines(its)}"
        here |= {one.name: (one.person, one.id) for one in self.model.here}
        if isinstance(event, Left):
            here.pop(event.connection, None)
        self.check_receivers(effects, here)
        self.check_records(event, effects)
        self.check_welcomes(effects)
        self.check_streams()

    def tell_model(self, event: Event) -> None:
        model = self.model
        match event:
            case Enrolled(participant, capabilities):
                model.enrol(participant, list(capabilities))
            case Joined(connection, participant, runtime_id, via):
                model.join(connection, participant, runtime_id, via == "log")
            case Left(connection):
                model.leave(connection)
            case Received(text, connection, participant, runtime_id):
                model.receive(text, connection, participant, runtime_id)
            case FrameReceived(connection, data, text):
                model.frame(connection, data, text)
            case Oversize(connection, _, _, participant):
                model.unread("message_too_large", connection, participant)
            case Limited(connection):
                model.unread("limit_exceeded", connection, "")
            case GrantEnded():
                model.grant_ended()
        for flow in model.flows:
            if flow.id not in model.opened:
                model.opened[flow.id] = self.opened_id(flow.id)

    def opened_id(self, stream: str) -> str:
        return next(
            effect.envelope.id
            for effect in self.effects[-1]
            if isinstance(effect, Deliver)
            and (effect.envelope.kind, effect.envelope.sender) == ("stream/open", GATEWAY)
            and effect.envelope.payload["stream_id"] == stream
        )

    # --- what holds whatever the model says ---

    def check_receivers(self, effects: tuple[Effect, ...], here: dict[str, tuple[str, str]]) -> None:
        """Who hears it is here at that moment; what is private reaches its addressee and nobody else."""
        for effect in effects:
            match effect:
                case Close(connection):
                    here.pop(connection, None)
                case Deliver(envelope, connections):
                    assert connections and set(connections) <= set(here)
                    assert len(set(connections)) == len(connections)
                    if envelope.kind in PRIVATE:
                        assert {here[one][1] for one in connections} == set(envelope.to)
                        assert len({here[one][0] for one in connections}) == 1
                    if envelope.kind == "system/welcome":
                        assert [envelope.payload["you"]["id"]] == list(envelope.to)
                case Relay(_, _, connections):
                    assert connections and set(connections) <= set(here)

    def check_records(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """The journal has it before anybody hears it, and says by which right it passed."""
        known: set[str] = set()
        for effect in effects:
            match effect:
                case Record():
                    known.add(effect.raw or "")
                    assert "email" not in (effect.raw or "") or effect.verdict == "refused"
                case Deliver(envelope, _, secret):
                    assert envelope.raw in known
                    assert secret == ("token" in envelope.payload)
                case HttpReply(_, body, secret):
                    assert secret == ("token" in body)
                    assert effect is effects[-1]
        lapsed = [one for one in effects if isinstance(one, Record) and one.event == "lapsed"]
        assert len(lapsed) == self.model.fallen
        received = [one for one in effects if isinstance(one, Record) and one.event == "received"]
        if not isinstance(event, Received) or not self.model.verdict:
            assert not received
            return
        [record] = received
        assert record.code == ("" if self.model.verdict == "accepted" else self.model.verdict)
        assert record.verdict == ("accepted" if self.model.verdict == "accepted" else "refused")
        if record.verdict == "accepted":
            permitted = [(json.loads(text), grant) for text, grant in self.model.passed_by]
            grant = plain_id(record.grant)
            assert (json.loads(record.pattern or "null"), grant if grant != "gw" else "gw-") in permitted
            said = json.loads(event.text)
            if {"protocol", "id", "ts", "from"} <= set(said) and record.raw is not None:
                untouched = (
                    json.loads(record.raw).get("to") == said.get("to") and "email" not in said["payload"]
                )
                assert (record.raw == event.text) == untouched, "what is complete goes out to the byte"
        else:
            poster = [one.name for one in self.model.here if one.person == record.participant]
            for effect in effects:
                if isinstance(effect, Deliver):
                    assert set(effect.connections) <= set(poster), (
                        "what is refused is told to its sender alone"
                    )

    def check_welcomes(self, effects: tuple[Effect, ...]) -> None:
        """At any moment, what a connection was last told is what its participant may do."""
        for effect in effects:
            if isinstance(effect, Deliver) and effect.envelope.kind == "system/welcome":
                you = described(effect.envelope.payload["you"])
                self.welcomed[effect.connections[0]] = you
        for one in self.model.here:
            held = by_text(self.model.people[one.person].capabilities())
            assert self.welcomed[one.name] == [one.id, held]

    def check_streams(self) -> None:
        """One owner a stream, who is here and may write; every writer is here."""
        here = {one.name for one in self.model.here}
        for stream in self.space.state.streams.values():
            assert stream.owner.name in here and {one.name for one in stream.writers} <= here
            assert stream.writers.count(stream.owner) == 1
            assert stream.owner.runtime_id in stream.writer_ids

    # --- who speaks, and of whom ---

    def place_of(self, speaker: tuple[str, str]) -> tuple[str | None, str, str]:
        """(connection, participant, runtime id) of somebody who speaks so; by HTTP where it has no connection."""
        name, how = speaker
        if name not in self.model.people and how != "http as alias":
            name = "ann"
        mine = [one for one in self.model.here if one.person == name and not one.sink]
        if how.startswith("http") or not mine:
            former = [alias for alias, person in self.model.aliases.items() if person == name]
            return None, name, former[-1] if how == "http as alias" and former else name
        return (mine[0] if how == "oldest" else mine[-1]).name, name, ""

    def named(self, reference: tuple[str, str]) -> str:
        name, how = reference
        mine = [one.id for one in self.model.here if one.person == name]
        former = [alias for alias, person in self.model.aliases.items() if person == name]
        if how == "id" and mine:
            return str(mine[-1])
        if how == "former" and former:
            return str(former[-1])
        return name

    def send(
        self,
        speaker: tuple[str, str],
        kind: str,
        payload: dict[str, Any] | None = None,
        *,
        to: list[str] | None = None,
        mark: str = "fresh",
        about: list[str] | None = None,
        whole: bool = False,
        claim: str = "",
    ) -> str:
        """Sends a message, and returns its id."""
        connection, participant, runtime_id = self.place_of(speaker)
        self.count += 1
        id = f"m{self.count}" if mark == "fresh" else mark
        message: dict[str, Any] = {} if mark == "none" else {"id": id}
        if whole:
            speaks = next((one.id for one in self.model.here if one.name == connection), runtime_id)
            message |= {"protocol": "mew/v0.4", "ts": "2020-01-01T00:00:00Z", "from": speaks}
        if claim:
            message["from"] = claim
        message["kind"] = kind
        if to is not None:
            message["to"] = to
        if about is not None:
            message["correlation_id"] = about
        if payload is not None:
            message["payload"] = payload
        elif whole:
            message["payload"] = {}
        self.obey(Received(json.dumps(message), connection, participant, runtime_id))
        return id

    # --- rules: coming and going ---

    @rule(name=known, suffix=st.sampled_from(["", "", "-2", "-3", "!"]), whose=known)
    def join(self, name: str, suffix: str, whose: str = "") -> None:
        self.count += 1
        id = {"": name, "!": whose or name}.get(suffix, name + suffix)
        self.obey(Joined(f"c{self.count}", name, id, "websocket"))

    @rule(name=known)
    def attach_log(self, name: str) -> None:
        self.count += 1
        self.obey(Joined(f"s{self.count}", name, name, "log"))

    @rule(which=st.integers(0, 30))
    def leave(self, which: int) -> None:
        here = [one.name for one in self.model.here] or ["c1"]
        self.obey(Left(here[which % len(here)], "gone"))

    @rule(name=st.sampled_from(NAMED[1:]), capabilities=st.just(RICH) | st.just(RICH) | few)
    def enrol(self, name: str, capabilities: list[dict[str, Any]]) -> None:
        self.obey(Enrolled(name, tuple(capabilities)))

    @rule(seconds=st.sampled_from([0.3, 0.999, 1, 29.5, 30, 59.999, 60]))
    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # --- rules: messages that only pass, or do not ---

    @rule(
        speaker=speakers,
        kind=st.sampled_from(KINDS),
        payload=st.sampled_from(PAYLOADS),
        to=st.none() | st.lists(references, max_size=2),
        mark=marks,
        whole=st.booleans(),
    )
    def say(self, speaker: Any, kind: str, payload: Any, to: Any, mark: str, whole: bool) -> None:
        addressed = None if to is None else [self.named(one) for one in to]
        self.send(speaker, kind, payload, to=addressed, mark=mark, whole=whole)

    @rule(
        speaker=speakers,
        mark=st.sampled_from(["h1", "h2", "h3"]),
        kind=st.sampled_from(sorted(HANDLES)),
    )
    def take_a_handle(self, speaker: Any, mark: str, kind: str) -> None:
        whom = {"recipient": "ben", "capabilities": [{"kind": "chat"}], "participant_id": "eve"}
        self.send(speaker, kind, whom, mark=mark)

    @rule(
        said=st.lists(
            st.tuples(
                st.sampled_from(["dan", "dan", "cat", "ben"]),
                st.sampled_from("chat chat mcp/proposal mcp/proposal mcp/request".split()),
                st.sampled_from(["o1", "o2", "h1"]),
            ),
            min_size=1,
            max_size=4,
        ),
        lasting=st.sampled_from([None, None, 1, 2]),
        between=st.sampled_from(["", "", "", "pause", "shutdown", "join", "leave"]),
        tries=st.lists(
            st.tuples(
                st.tuples(st.sampled_from(["dan", "dan", "cat"]), hows),
                st.sampled_from("chat/cancel mcp/withdraw".split()),
                st.lists(st.sampled_from(["o1", "o1", "o2", "h1", "o3"]), max_size=2)
                | st.sampled_from([["o1"] * 16, ["o1"] * 17]),
                st.sampled_from([None, {}, {}, {"reason": "x" * 64}, {"reason": "x" * 65}, {"reason": 1}])
                | st.sampled_from([{"reason": "", "note": ""}, {"text": "hi"}]),
                st.none() | st.lists(references, max_size=2),
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def end_own_messages(self, said: Any, lasting: int | None, between: str, tries: Any) -> None:
        """Participants that may say little end what they, or others, said. R36."""
        for name in ("dan", "cat"):
            self.enrol(name, [{"kind": "chat"}, {"kind": "mcp/proposal"}, {"kind": "mcp/request"}])
        if lasting:
            ending = [{"kind": "chat/*"}, {"kind": "mcp/withdraw"}]
            payload = {"recipient": "dan", "capabilities": ending, "max_uses": lasting}
            self.grants.append(self.send(("ann", "newest"), "capability/grant", payload))
        for name, kind, id in said:
            self.send((name, "newest"), kind, TOOL, mark=id)
        if between in ("pause", "shutdown"):
            self.send(("ann", "newest"), f"participant/{between}", to=["dan"])
        elif between == "join":
            self.join("dan", "")
        elif between == "leave":
            self.leave(len(self.model.here) - 1)
        for speaker, kind, about, payload, to in tries:
            addressed = None if to is None else [self.named(one) for one in to]
            self.send(speaker, kind, payload, to=addressed, about=about)

    @rule(speaker=speakers, claim=references | st.just((GATEWAY, "name")))
    def claim_to_be(self, speaker: Any, claim: Any) -> None:
        self.send(speaker, "chat", claim=self.named(claim))

    @rule(speaker=speakers, what=st.integers(0, 30))
    def blunder(self, speaker: Any, what: int) -> None:
        """What is wrong in itself, by whomever."""
        connection, participant, runtime_id = self.place_of(speaker)
        gone = f"c{what}"
        match what % 8:
            case 0:
                text = ["", "{", "no", '{"kind":"chat",}', "\x00"][what % 5]
                self.obey(Received(text, connection, participant, runtime_id))
            case 1:
                self.obey(Oversize(connection, 5_000_000, "ab", participant, runtime_id))
            case 2 if connection:
                self.obey(Limited(connection, 3))
            case 3:
                self.obey(Noted("decided", participant, "{}"))
            case 4 if all(one.name != gone for one in self.model.here):
                self.obey(Left(gone))
                self.obey(Received('{"kind":"chat"}', gone))
                self.obey(FrameReceived(gone, b"#stream-1#", False))
            case 5:
                self.send(speaker, "capability/revoke", {"recipient": "ben"})
            case 6 if connection:
                data = [b"", b"#", b"##x", b"#stream-1", b"x#stream-1#", b"#stream-9#x"][what % 6]
                self.obey(FrameReceived(connection, data, False))
            case 7:
                whom = {"participant_id": "ben", "new_owner": "ben"}
                deed = ["grant-write", "revoke-write", "transfer-ownership"][what % 3]
                id, owner = self.stream(what)
                self.send(speaker, f"stream/{deed}", {"stream_id": "stream-99", **whom})
                self.send(speaker, f"stream/{deed}", whom)
                self.send(owner, f"stream/{deed}", {"stream_id": id})

    # --- rules: rights ---

    @rule(speaker=speakers, to=references, capabilities=few, mark=marks)
    def grant(self, speaker: Any, to: Any, capabilities: list[Any], mark: str) -> None:
        payload = {"recipient": self.named(to), "capabilities": capabilities}
        self.grants.append(self.send(speaker, "capability/grant", payload, mark=mark))

    @rule(
        speaker=able,
        to=references,
        capabilities=few,
        seconds=st.sampled_from([None, None, 1, 30, 60]),
        uses=st.sampled_from([None, 1, 1, 2, 3]),
        tries=st.lists(st.tuples(hows, st.sampled_from(KINDS)), max_size=4),
    )
    def grant_for_a_while(
        self, speaker: Any, to: Any, capabilities: Any, seconds: Any, uses: Any, tries: Any
    ) -> None:
        """A grant with an end, which its recipient uses, or passes on."""
        payload: dict[str, Any] = {"recipient": self.named(to), "capabilities": capabilities}
        if seconds is not None:
            payload["expires_at"] = f"{self.now + timedelta(seconds=seconds + 1):%Y-%m-%dT%H:%M:%SZ}"
        if uses is not None:
            payload["max_uses"] = uses
        self.grants.append(self.send(speaker, "capability/grant", payload))
        given = capabilities[0]["kind"]
        for how, kind in tries:
            if kind == "capability/grant":
                passed_on = {"recipient": "cat", "capabilities": capabilities}
                self.grants.append(self.send((to[0], how), kind, passed_on))
            elif kind == "zz":
                self.send((to[0], how), given[0] if isinstance(given, list) else given, TOOL, to=["ann"])
            else:
                self.send((to[0], how), kind, TOOL, to=["ann"])

    @rule(
        uses=st.sampled_from([1, 2, 3]),
        seconds=st.sampled_from([None, 1, 30]),
        given=st.sampled_from([{"kind": "mcp/request"}, {"kind": "mcp/*"}, {"kind": "chat"}]),
        also=st.booleans(),
        tries=st.lists(st.sampled_from(["ben", "cat", "dan"]), min_size=1, max_size=5),
        wait=st.sampled_from([0, 0, 1, 2, 31]),
        told=st.booleans(),
    )
    def pass_on_what_ends(
        self, uses: int, seconds: int | None, given: Any, also: bool, tries: Any, wait: int, told: bool
    ) -> None:
        """ben holds something for some uses alone, and grants it on; time passes, and its end is told or is not yet."""
        for name in ("ben", "cat", "dan"):
            self.enrol(name, [{"kind": "capability/*"}, {"kind": "space/invite"}])
        grants = [
            ("ann", "ben", uses),
            *([("ann", "ben", 2)] if also else []),
            ("ben", "cat", None),
            ("cat", "dan", 2),
        ]
        for giver, recipient, most in grants:
            payload = {
                "recipient": recipient,
                "capabilities": [given],
                **({"max_uses": most} if most else {}),
            }
            if seconds and giver == "ann":
                payload["expires_at"] = f"{self.now + timedelta(seconds=seconds + 1):%Y-%m-%dT%H:%M:%SZ}"
            self.grants.append(self.send((giver, "newest"), "capability/grant", payload))
        kind = given["kind"].replace("*", "request")
        for at, name in enumerate(tries):
            self.send((name, "newest" if at % 2 else "http"), kind, TOOL, to=["ann"])
            if at == 1:
                self.wait(wait)
                if told:
                    self.tell_ends()

    @rule()
    def tell_ends(self) -> None:
        """The gateway's timer: harmless when nothing is over."""
        self.obey(GrantEnded())

    @rule(
        speaker=able,
        end=st.sampled_from(
            [
                {"expires_at": "2026-01-01T00:00:00Z"},
                {"expires_at": "tomorrow"},
                {"expires_at": 7},
                {"max_uses": 0},
                {"max_uses": True},
                {"max_uses": 1.0},
                {"max_uses": "1"},
            ]
        ),
    )
    def grant_until_never(self, speaker: Any, end: Any) -> None:
        self.send(
            speaker, "capability/grant", {"recipient": "cat", "capabilities": [{"kind": "chat"}], **end}
        )

    @rule(path=st.permutations(NAMED), given=capability)
    def grant_along_a_chain(self, path: list[str], given: dict[str, Any]) -> None:
        for giver, recipient in pairwise(path):
            payload = {"recipient": recipient, "capabilities": [given]}
            self.grants.append(self.send((giver, "newest"), "capability/grant", payload))

    @rule(speaker=speakers, to=references, capabilities=faulty)
    def grant_badly(self, speaker: Any, to: Any, capabilities: Any) -> None:
        payload = {"recipient": self.named(to)} | (
            {} if capabilities is None else {"capabilities": capabilities}
        )
        self.send(speaker, "capability/grant", payload)

    @precondition(lambda self: self.grants)
    @rule(speaker=able, which=st.integers(0, 20), mostly=mostly)
    def revoke_a_grant(self, speaker: Any, which: int, mostly: bool) -> None:
        id = self.grants[which % len(self.grants)] if mostly else "no such grant"
        self.send(speaker, "capability/revoke", {"grant_id": id})

    @rule(speaker=able, whom=references, capabilities=few, mostly=mostly)
    def revoke_by_pattern(self, speaker: Any, whom: Any, capabilities: list[Any], mostly: bool) -> None:
        recipient = {"recipient": self.named(whom)} if mostly else {}
        self.send(speaker, "capability/revoke", {**recipient, "capabilities": capabilities})

    @rule(
        speaker=speakers,
        name=st.sampled_from(["eve", "fay", "Eve", "eve", "dan", "cat", "ben-2", "a b", "gateway", ""]),
        capabilities=st.none() | st.just([]) | few,
        email=st.booleans(),
        mark=marks,
    )
    def invite(self, speaker: Any, name: str, capabilities: Any, email: bool, mark: str) -> None:
        payload: dict[str, Any] = {"participant_id": name}
        if capabilities is not None:
            payload["initial_capabilities"] = capabilities
        if email:
            payload["email"] = "eve@example.org"
        self.grants.append(self.send(speaker, "space/invite", payload, mark=mark, whole=True))

    @rule(name=st.sampled_from(["eve", "fay"]), capabilities=few, suffix=st.sampled_from(["", "-2"]))
    def invite_and_join(self, name: str, capabilities: list[Any], suffix: str) -> None:
        payload = {"participant_id": name, "initial_capabilities": capabilities}
        self.grants.append(self.send(("ann", "newest"), "space/invite", payload))
        self.join(name, suffix)

    @rule(
        speaker=able,
        whom=st.tuples(st.sampled_from(["eve", "fay", "dan", "dan", "dan", "cat", "ann", "nobody"]), ways),
    )
    def kick(self, speaker: Any, whom: Any) -> None:
        self.send(speaker, "space/kick", {"participant_id": self.named(whom), "reason": "rude"})

    # --- rules: controls ---

    @rule(
        speaker=able,
        whom=st.lists(references, min_size=1, max_size=2) | st.just([]),
        deed=st.sampled_from(["pause", "pause", "pause", "resume", "shutdown", "restart", "clear"]),
        seconds=st.sampled_from([None, None, 30, 60, 0.5, 0, -1, True, "60"]),
        tries=st.lists(st.tuples(hows, st.sampled_from(KINDS)), max_size=4),
        wait=st.sampled_from([0, 0.5, 29.5, "until then", "until then"]),
    )
    def control(self, speaker: Any, whom: Any, deed: str, seconds: Any, tries: Any, wait: Any) -> None:
        """Somebody controls somebody, who then tries what it still may say."""
        payload = {} if seconds is None or deed != "pause" else {"timeout_seconds": seconds}
        named = [self.named(one) for one in whom]
        self.send(speaker, f"participant/{deed}", payload, to=named)
        timed = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0
        self.wait((seconds if timed else 0) if wait == "until then" else wait)
        for (name, _), (how, kind) in zip(whom * 4, tries, strict=False):
            if kind == "participant/resume":
                self.send((name, how), kind, to=named)
            elif self.model.flows and kind == "zz":
                self.write((name, how), self.model.flows[-1].id, 1)
            else:
                self.send((name, how), kind)

    @rule(whom=st.sampled_from(["ben", "cat"]), seconds=st.sampled_from([0.5, 30]), how=hows)
    def pause_to_its_end(self, whom: str, seconds: float, how: str) -> None:
        self.send(("ann", "newest"), "participant/pause", {"timeout_seconds": seconds}, to=[whom])
        self.send((whom, how), "chat")
        self.wait(seconds)
        self.send((whom, how), "chat")

    @rule(name=st.sampled_from(["ann", "ben"]))
    def ask_who_left(self, name: str) -> None:
        """A runtime id that nobody uses now still means whose it was."""
        self.enrol("dan", [{"kind": "mcp/request", "to": name}])
        self.join(name, "-2")
        self.obey(Left(f"c{self.count}"))
        self.send(("dan", "newest"), "mcp/request", TOOL, to=[f"{name}-2"])

    # --- rules: streams ---

    @rule(
        speaker=able,
        at=st.none()
        | st.none()
        | st.lists(references, max_size=2)
        | st.sampled_from(["ben", None, None, []]),
        fields=st.sampled_from(
            [{}, {"encoding": "binary", "x": {"a": 1}}, {"owner": "zz", "stream_id": "zz", "created": 1}]
        ),
        mark=marks,
        deeds=st.lists(deeds, max_size=5),
    )
    def open_a_stream(self, speaker: Any, at: Any, fields: dict[str, Any], mark: str, deeds: Any) -> None:
        payload = dict(fields)
        if at is not None:
            payload["target"] = at if isinstance(at, str) else [self.named(one) for one in at]
        self.requests.append(self.send(speaker, "stream/request", payload, mark=mark))
        self.use_streams(deeds)

    @precondition(lambda self: self.model.flows)
    @rule(deeds=st.lists(deeds, min_size=1, max_size=5))
    def use_streams(self, deeds: Any) -> None:
        """Owners and others do something about active streams, the newest first."""
        for deed, which, by_owner, speaker, whom in deeds:
            id, owner = self.stream(which)
            speaker = owner if by_owner else speaker
            match deed:
                case "write":
                    self.write(speaker, id, 12 if which == 3 else 1, text=by_owner)
                case "close":
                    self.close(speaker, id, ["id", "request", "open"][which % 3])
                case "open":
                    self.send(speaker, "stream/open", {"stream_id": id})
                    self.send(speaker, "stream/open", {"stream_id": "stream-99"})
                case _:
                    key = "new_owner" if deed == "transfer-ownership" else "participant_id"
                    self.send(speaker, f"stream/{deed}", {"stream_id": id, key: self.named(whom)})

    def stream(self, which: int) -> Any:
        """An active stream: (id, speaker that owns it); one that is none where there is none."""
        flows = self.model.flows
        if not flows:
            return "stream-99", ("ann", "newest")
        flow = flows[-1 - which % len(flows)]
        owner = self.model.place(flow.owner)
        mine = [one.name for one in self.model.here if one.person == owner.person and not one.sink]
        how = "newest" if mine and mine[-1] == owner.name else "oldest" if owner.name in mine else "http"
        return flow.id, (owner.person, how)

    def write(self, speaker: Any, id: str, times: int, *, text: bool = False) -> None:
        connection = self.place_of(speaker)[0]
        for n in range(times if connection else 0):
            self.obey(FrameReceived(connection or "", f"#{id}#{n}#".encode(), text))

    def close(self, speaker: Any, id: str, how: str) -> None:
        flow = self.model.flow(id)
        if flow is None or how == "id":
            self.send(speaker, "stream/close", {"stream_id": 7 if flow is None else id})
            return
        by_request = how == "request" and flow.request != "gw-"  # that one has an id of the gateway's making
        about = flow.request if by_request else self.model.opened[id]
        self.send(speaker, "stream/close", {}, about=[about])

    # --- in the end ---

    def teardown(self) -> None:
        """The same events give the same effects, and leave the same space behind. R20."""
        if not self.events:
            return
        again = self.new_space()
        assert [again.step(event, now) for event, now in self.events] == self.effects
        assert picture(again) == self.picture


def run(examples: int, steps: int, *, seed: int | None = None) -> None:
    machine = Machine if seed is None else hypothesis.seed(seed)(type("Machine", (Machine,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=seed is None,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.threat(12, 19, 20, 23)
@pytest.mark.timeout(300)
def test_a_space_does_what_its_model_does() -> None:
    run(30, 40)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_space_does_what_its_model_does_at_length() -> None:
    """With a seed of its own each time; MEW_LAB_SEED gives it."""
    seed = int(os.environ.get("MEW_LAB_SEED") or secrets.randbelow(2**32))
    print(f"\nMEW_LAB_SEED={seed}")
    run(2400, 40, seed=seed)
