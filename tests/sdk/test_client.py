"""A client against a real gateway, over the memory link and over WebSocket; the transport changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import (
    ConfigError,
    ConnectionLost,
    LocalProtocolError,
    MewError,
    NotAdmitted,
    RemoteProtocolError,
)
from mew_lab.gateway.limits import Limits
from mew_lab.gateway.server import Server
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient, StreamData
from mew_lab.transport.link import Link
from mew_lab.transport.memory import MemoryLink, pair

from .conftest import Room, until

TALK = [{"kind": "chat"}, {"kind": "mcp/proposal"}]


class Served(Room):
    """The room with a port."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.gateway, limits=Limits(refusal_delay=0.0))
        self.clients: list[MEWClient] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.server.port}"

    def remote(self, name: str, **options: Any) -> MEWClient:
        token = options.pop("token", None) or self.gateway.tokens.mint("demo", name)
        client = MEWClient(
            self.url, space=options.pop("space", "demo"), token=token, reconnect_delay=0.01, **options
        )
        self.clients.append(client)
        return client


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.server.start()
    async with asyncio.timeout(50):
        yield made
        for client in made.clients:
            await client.disconnect()
        await made.server.stop()


Make = Callable[..., Awaitable[MEWClient]]


@pytest.fixture(params=["memory", "websocket"])
async def make(request: pytest.FixtureRequest, served: Served) -> Make:
    async def made(name: str, *, can: Any = TALK, connect: bool = True, **options: Any) -> MEWClient:
        served.enrol(name, can)
        client = (
            served.remote(name, **options) if request.param == "websocket" else served.client(name, **options)
        )
        served.clients.append(client)
        if connect:
            await client.connect()
        return client

    return made


# --- who is who ---


@pytest.mark.req("P-8.2-10", "P-5.2-8", "S-L1-2", "S-L1-5", "S-TST-1")
async def test_the_welcome_tells_who_one_is_and_what_one_may(make: Make) -> None:
    seen: list[Any] = []
    anna = await make("anna", connect=False)
    assert (anna.state, anna.id) == ("disconnected", "")
    anna.on_connected(lambda _: seen.append(anna.state))
    anna.on_welcome(lambda payload: seen.append(payload["you"]["id"]))
    await anna.connect()
    assert (anna.state, anna.id, seen) == ("ready", "anna", ["connected", "anna"])
    assert anna.capabilities.patterns == (*TALK, {"kind": "mcp/response"})
    assert anna.participants == {}
    assert repr(anna) == "<MEWClient anna in demo: ready>"


@pytest.mark.req("P-8.2-11", "P-3.7-1")
async def test_presence_keeps_track_of_the_others(make: Make) -> None:
    anna = await make("anna")
    bert = await make("bert", can=[{"kind": "chat"}])
    await until(lambda: anna.participants)
    assert anna.participants == {"bert": [{"kind": "chat"}, {"kind": "mcp/response"}]}
    assert bert.participants == {"anna": [*TALK, {"kind": "mcp/response"}]}
    await bert.disconnect()
    await until(lambda: not anna.participants)
    assert bert.participants == {} and bert.state == "disconnected" and bert.failure is None


async def test_changed_rights_come_with_a_new_welcome(make: Make, served: Served) -> None:
    anna = await make("anna")
    welcomes: list[Any] = []
    anna.on_welcome(welcomes.append)
    served.gateway.enrol("demo", "anna", [{"kind": "chat/cancel"}])
    await until(lambda: welcomes)
    assert anna.capabilities.permit("chat/cancel", (), {}).allowed
    assert not anna.capabilities.permit("chat", (), {}).allowed


# --- sending ---


@pytest.mark.req("S-L1-3", "P-3-2", "P-3-3", "P-3-4", "P-3-5", "P-3-6", "P-3-9", "P-6.1-1", "P-6.4-1")
async def test_a_draft_is_completed_so_that_its_id_is_known(make: Make, served: Served) -> None:
    clock = datetime(2026, 11, 21, 23, 59, 59, 123_456, tzinfo=UTC)
    anna = await make("anna", clock=lambda: clock, new_id=lambda: "id-1")
    sent = await anna.send({"kind": "chat", "to": "anna", "correlation_id": "x", "payload": {"text": "é"}})
    assert json.loads(sent.raw) == {
        "protocol": "mew/v0.4",
        "id": "id-1",
        "ts": "2026-11-21T23:59:59.123Z",
        "from": "anna",
        "kind": "chat",
        "to": ["anna"],
        "correlation_id": ["x"],
        "payload": {"text": "é"},
    }
    await until(lambda: served.sent("chat"))
    assert served.sent("chat")[0].raw == sent.raw  # accepted as it was, to the byte


async def test_a_complete_envelope_keeps_its_text(make: Make, served: Served) -> None:
    anna = await make("anna")
    raw = '{ "kind":"chat","payload":{"text":"mine"},"protocol":"mew/v0.4","id":"i","ts":"t","from":"anna" }'
    await anna.send(Envelope.from_members(json.loads(raw), raw=raw))
    await until(lambda: served.sent("chat"))
    assert served.sent("chat")[0].raw == raw


@pytest.mark.threat(10)
@pytest.mark.req("P-4.1-2", "P-4.1-7", "P-3-8", "P-3-17", "P-3-21", "P-6.1-1", "P-6.1-2")
@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({"kind": "chat", "from": "bert"}, "Cannot send chat from 'bert': this is 'anna'"),
        (
            {"kind": "system/presence"},
            "Cannot send system/presence as 'anna': it is reserved for the gateway",
        ),
        ({"kind": "stream/write-granted"}, "reserved for the gateway"),
        ({}, "Message kind is required"),
        ({"kind": "chat", "payload": {"x": float("nan")}}, "cannot be written as JSON"),
        ({"kind": "chat", "payload": {"x": b"bytes"}}, "cannot be written as JSON"),
        ({"kind": "chat", "payload": "text"}, "payload must be an object"),
        ({"kind": "chat", "to": [1]}, "to must be an array of participant ids"),
        ({"kind": "chat", "context": 1}, "context must be a string"),
        ({"kind": "chat", "protocol": "mew/v0.3"}, "Invalid protocol version: mew/v0.3"),
        ({"kind": "chat", "payload": {"text": "x" * 1_100_000}}, "a message takes at most 1048576"),
    ],
)
async def test_what_cannot_be_sent_is_refused_here(room: Room, draft: Any, said: str) -> None:
    room.enrol("anna", TALK)
    async with room.client("anna") as anna:
        with pytest.raises(LocalProtocolError, match=said):
            await anna.send(draft)
        with pytest.raises(LocalProtocolError, match=said):
            anna.post(draft)
    assert all(one.verdict != "refused" for one in room.records)


@pytest.mark.req("P-3-1", "S-L1-4")
async def test_everybody_sees_one_stream_in_one_order_oneself_included(make: Make) -> None:
    anna, bert = await make("anna"), await make("bert")
    inboxes = [anna.messages(), bert.messages()]
    for number in range(50):
        (anna if number % 2 else bert).post({"kind": "chat", "payload": {"text": str(number)}})
    seen: list[list[str]] = []
    for inbox in inboxes:
        texts: list[str] = []
        async for envelope in inbox:
            texts += [envelope.payload["text"]] if envelope.kind == "chat" else []
            if len(texts) == 50:
                break
        seen.append(texts)
    assert seen[0] == seen[1] and sorted(map(int, seen[0])) == list(range(50))


async def test_sending_without_a_connection_is_refused(make: Make) -> None:
    anna = await make("anna", connect=False)
    for when in ("before", "after"):
        with pytest.raises(
            ConnectionLost, match=r"Cannot send chat to space 'demo' as '(anna)?': not connected \(state dis"
        ):
            await anna.send({"kind": "chat", "payload": {"text": when}})
        await anna.connect()
        await anna.disconnect()


async def test_messages_end_with_the_client_and_not_before(make: Make) -> None:
    anna = await make("anna")
    inbox = anna.messages()
    await anna.send({"kind": "chat", "payload": {"text": "one"}})
    assert (await anext(inbox)).payload == {"text": "one"}
    await anna.disconnect()
    assert [one async for one in inbox] == []


# --- doors ---


@pytest.mark.req("S-SEC-2", "P-5.2-7")
async def test_a_runtime_id_of_ones_own_is_what_the_space_calls_one(served: Served) -> None:
    served.enrol("anna", TALK)
    client = served.remote("anna", participant_id="anna-77")
    await client.connect()
    assert client.id == "anna-77"
    second = served.remote("anna")
    await second.connect()
    assert second.id == "anna" and "anna-77" in second.participants


@pytest.mark.threat(1, 26)
async def test_a_wrong_token_and_a_wrong_space_are_told_alike_and_leak_nothing(served: Served) -> None:
    served.enrol("anna", TALK)
    sentences = []
    for options in ({"token": "canary-secret-0123456789"}, {"space": "nowhere"}):
        client = served.remote("anna", **options)
        with pytest.raises(NotAdmitted) as caught:
            await client.connect()
        sentences.append(str(caught.value).replace("nowhere", "demo"))
        assert client.state == "disconnected" and client.failure is caught.value
    assert sentences[0] == sentences[1]
    assert sentences[0].startswith(
        f"Cannot join space 'demo' at {served.url} as a participant: the token or the space is"
    )
    assert "canary" not in sentences[0] and "canary" not in repr(vars(client))


async def test_a_taken_id_is_final_and_says_so(served: Served) -> None:
    served.enrol("anna", TALK)
    first = served.remote("anna")
    await first.connect()
    second = served.remote("anna", participant_id="anna")
    with pytest.raises(NotAdmitted, match="its id is taken"):
        await second.connect()
    assert first.state == "ready" and second.failure is not None


async def test_nobody_there_is_a_sentence(served: Served) -> None:
    await served.server.stop()
    client = served.remote("anna")
    with pytest.raises(
        ConnectionLost,
        match=r"Cannot join space 'demo' at ws://127.* Check the address, and that the gateway",
    ):
        await client.connect()
    with pytest.raises(ConfigError, match="'nowhere' is no address of a gateway"):
        await MEWClient("nowhere", space="demo", token="some-token-or-other").connect()


# --- losing and finding each other again ---


@pytest.mark.req("S-ERR-1", "S-ERR-2", "S-L1-6")
async def test_after_a_break_the_identity_and_the_handlers_are_kept(make: Make, served: Served) -> None:
    anna, bert = await make("anna"), await make("bert")
    anna._connection._patience = anna._connection._patience._replace(delay=0.001)
    told: list[Any] = []
    inbox = bert.messages()
    anna.on_disconnected(lambda error: told.append(type(error)))
    anna.on_reconnecting(told.append)
    anna.on_welcome(lambda payload: told.append(payload["you"]["id"]))
    running = served.gateway._spaces["demo"]
    name = served.gateway._spaces["demo"].space.state.live["anna"].name
    running.peers[name].close(1012, "back in a moment")
    served.gateway.leave("demo", name, "test")
    await until(lambda: "anna" in told)
    assert told == [ConnectionLost, 1, "anna"] and anna.state == "ready"
    await anna.send({"kind": "chat", "payload": {"text": "again"}})
    async for envelope in inbox:
        if envelope.kind == "chat":
            assert envelope.sender == "anna"
            break


async def test_a_gateway_that_stops_for_good_ends_the_client_after_its_attempts(served: Served) -> None:
    served.enrol("anna", TALK)
    anna = served.remote("anna", max_reconnect_attempts=2)
    await anna.connect()
    await served.server.stop()
    await until(lambda: anna.state == "disconnected")
    assert str(anna.failure).endswith("Gave up after 2 attempts")
    with pytest.raises(ConnectionLost, match=r"as 'anna': .* Gave up after 2 attempts\. It was not sent"):
        anna.post({"kind": "chat"})


# --- what a gateway should not send ---


class Odd:
    """A gateway end that says whatever a test wants."""

    def __init__(self, **options: Any) -> None:
        self.end: MemoryLink
        self.errors: list[Exception] = []
        self.client = MEWClient(space="demo", connect_link=self.open, **options)
        self.client.on_error(self.errors.append)

    async def open(self) -> Link:
        here, self.end = pair()
        self.say("system/welcome", {"you": {"id": "me", "capabilities": []}, "participants": []}, to=["me"])
        return here

    def say(self, kind: str, payload: Any, sender: str = "system:gateway", **members: Any) -> None:
        self.end.put(json.dumps({"id": "g", "from": sender, "kind": kind, "payload": payload, **members}))


@pytest.mark.req("P-4.3-3", "P-4.3-5", "P-8.2-1")
@pytest.mark.parametrize(
    "raw",
    [
        "",
        "not json",
        "[]",
        '"x"',
        "{}",
        '{"kind":7}',
        '{"kind":"chat","to":"x"}',
        '{"kind":"chat","x":NaN}',
        "\ud800",
    ],
)
async def test_what_is_no_envelope_is_reported_and_ignored(raw: str) -> None:
    odd = Odd()
    async with odd.client as client:
        odd.end.put(raw)
        await until(lambda: odd.errors)
        assert isinstance(odd.errors[0], RemoteProtocolError) and "it was ignored" in str(odd.errors[0])
        assert client.state == "ready"


@pytest.mark.threat(11)
async def test_only_the_gateway_can_welcome_or_tell_of_presence() -> None:
    odd = Odd()
    async with odd.client as client:
        join = {"event": "join", "participant": {"id": "eve", "capabilities": [{"kind": "*"}]}}
        you = {"you": {"id": "me", "capabilities": [{"kind": "*"}]}}
        for sender in ("eve", "gateway", "", "system:gateway2"):
            odd.say("system/presence", join, sender=sender)
            odd.say("system/welcome", you, sender=sender, to=["me"])
        odd.say("system/welcome", {"you": {"id": "other", "capabilities": [{"kind": "*"}]}}, to=["other"])
        odd.say("chat", {"text": "end"}, sender="eve")
        inbox = client.messages()
        while (await anext(inbox)).kind != "chat":
            pass
        assert (client.id, client.participants, client.capabilities.patterns) == ("me", {}, ())


@pytest.mark.req("P-4.3-5")
async def test_odd_welcomes_and_presences_do_no_harm() -> None:
    odd = Odd(capabilities=[{"kind": "chat"}])
    assert odd.client.capabilities.permit("chat", (), {}).allowed  # assumed until the welcome tells
    async with odd.client as client:
        for payload in ({}, {"you": 7}, {"you": {"id": 7}}, {"you": {"id": "me"}, "participants": "all"}):
            odd.say("system/welcome", payload)
        for participant in (None, [], {"id": 1}, {"id": "me"}):
            odd.say("system/presence", {"event": "join", "participant": participant})
        odd.say("system/presence", {"event": "invited", "participant": {"id": "guest"}})
        odd.say("system/presence", {"event": "join", "participant": {"id": "bert", "capabilities": "all"}})
        others = [{"id": "cora", "capabilities": [{"kind": "chat"}, "odd"]}, 7, {"id": 7}, {"id": "me"}]
        odd.say(
            "system/welcome",
            {"you": {"id": "me", "capabilities": [{"kind": "chat"}, {"paylod": 1}]}, "participants": others},
        )
        await until(lambda: client.participants == {"cora": [{"kind": "chat"}]})
        assert client.capabilities.patterns == ({"kind": "chat"},)
        assert "A capability of 'me' cannot be read" in str(odd.errors[-1])


@pytest.mark.req("S-L1-8", "S-L1-9")
async def test_frames_are_told_apart_from_messages() -> None:
    odd = Odd()
    frames: list[StreamData] = []
    odd.client.on_stream_data(frames.append)
    async with odd.client:
        for frame in (
            b"#stream-1#\x00#\xff",
            "#stream-2#text é",
            b"#s#",
            "#no-end",
            b"no start#s#",
            b"##x",
            b"",
        ):
            odd.end.put(frame)
        await until(lambda: len(odd.errors) == 4)
        assert frames == [
            StreamData("stream-1", b"\x00#\xff"),
            StreamData("stream-2", "text é".encode()),
            StreamData("s", b""),
        ]


@pytest.mark.req("S-L1-4")
async def test_a_handler_that_raises_is_reported_and_the_others_are_told() -> None:
    odd = Odd()
    told: list[Envelope] = []

    async def fails_later(envelope: Envelope) -> None:
        raise ValueError("later")

    odd.client.on_message(lambda envelope: 1 / 0)
    odd.client.on_message(fails_later)
    stop = odd.client.on_message(told.append)
    async with odd.client:
        await until(lambda: len(odd.errors) == 2)
        assert {type(one) for one in odd.errors} == {ZeroDivisionError, ValueError}
        assert [one.kind for one in told] == ["system/welcome"]
        stop()
        odd.say("chat", {"text": "x"}, sender="eve")
        await until(lambda: len(odd.errors) == 4)
        assert len(told) == 1


async def test_a_welcome_that_never_comes_is_a_sentence() -> None:
    async def silent() -> Link:
        return pair()[0]

    client = MEWClient(space="demo", connect_link=silent, open_timeout=0.01)
    with pytest.raises(MewError, match=r"no welcome came within 0.01 s .* is it a MEW gateway\?"):
        await client.connect()
