"""A client at closed doors, before odd gateways, and with drafts that cannot be sent.

What holds over every link stands in `test_client_contract.py`.
"""

from __future__ import annotations

import asyncio
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
from mew_lab.gateway.local import attach
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient, StreamData
from mew_lab.transport.link import Link, LinkClosed
from mew_lab.transport.memory import MemoryLink, pair

from .conftest import Room, Served, until
from .odd_gateway import Odd

TALK = [{"kind": "chat"}, {"kind": "mcp/proposal"}]


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


# --- doors ---


@pytest.mark.req("S-SEC-2")
async def test_a_token_is_never_renewed_and_a_new_one_joins_anew(served: Served) -> None:
    served.enrol("bot", TALK)
    old = served.client("bot", token=served.gateway.tokens.mint("demo", "bot"))
    await old.connect()
    served.gateway.tokens.void("demo", "bot")
    new_token = served.gateway.tokens.mint("demo", "bot")
    assert old.state == "ready"
    holder = served.gateway.holder("demo", "bot")
    holder.close(1012, "the gateway starts anew")
    await until(lambda: old.state == "disconnected")
    assert isinstance(old.failure, NotAdmitted)
    with pytest.raises(NotAdmitted):
        await old.connect()
    new = served.client("bot", token=new_token)
    await new.connect()
    assert (new.state, new.id) == ("ready", "bot")


@pytest.mark.threat(1, 26)
async def test_a_wrong_token_and_a_wrong_space_are_told_alike_and_leak_nothing(served: Served) -> None:
    served.enrol("anna", TALK)
    sentences = []
    for options in ({"token": "canary-secret-0123456789"}, {"space": "nowhere"}):
        client = served.client("anna", **options)
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
    first = served.client("anna")
    await first.connect()
    second = served.client("anna", runtime_id="anna")
    with pytest.raises(NotAdmitted, match="its id is taken"):
        await second.connect()
    assert first.state == "ready" and second.failure is not None


async def test_nobody_there_is_a_sentence(served: Served) -> None:
    await served.server.stop()
    client = served.client("anna")
    with pytest.raises(
        ConnectionLost,
        match=r"Cannot join space 'demo' at ws://127.* Check the address, and that the gateway",
    ):
        await client.connect()
    with pytest.raises(ConfigError, match="'nowhere' is no address of a gateway"):
        await MEWClient("nowhere", space="demo", token="some-token-or-other").connect()


# --- losing and finding each other again ---


async def test_what_was_queued_under_another_id_is_refused_aloud(room: Room) -> None:
    room.enrol("bot", TALK)
    ids = ["bot-1", "bot-2"]
    hold = asyncio.Event()

    async def link() -> Link:
        return attach(room.gateway, "demo", "bot", runtime_id=ids.pop(0))

    async def wait(seconds: float) -> None:
        await hold.wait()

    client = MEWClient(space="demo", connect_link=link, while_down="queue", wait=wait)
    errors: list[Exception] = []
    client.on_error(errors.append)
    async with client:
        holder = room.gateway.holder("demo", "bot-1")
        holder.close(1012, "again")
        await until(lambda: client.state == "connecting")
        sending = asyncio.ensure_future(client.send({"kind": "chat", "payload": {"text": "x"}}))
        client.post({"kind": "chat", "payload": {"text": "y"}})
        await asyncio.sleep(0)
        hold.set()
        said = "it was written as 'bot-1', and the gateway calls this client 'bot-2' now"
        with pytest.raises(ConnectionLost, match=said):
            await sending
        assert said in str(errors[0]) and len(errors) == 1
        await client.send({"kind": "chat", "payload": {"text": "z"}})
        await until(lambda: room.sent("chat"))
        assert [(one.sender, one.payload["text"]) for one in room.sent("chat")] == [("bot-2", "z")]


# --- what a gateway should not send ---


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
    odd = Odd(can=())
    async with odd.client as client:
        odd.end.put(raw)
        await until(lambda: odd.errors)
        assert isinstance(odd.errors[0], RemoteProtocolError) and "it was ignored" in str(odd.errors[0])
        assert client.state == "ready"


@pytest.mark.threat(11)
async def test_only_the_gateway_can_welcome_or_tell_of_presence() -> None:
    odd = Odd(can=())
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
    odd = Odd(can=(), capabilities=[{"kind": "chat"}])
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
        assert "A permission of 'me' cannot be read" in str(odd.errors[-1])


@pytest.mark.ruling("R34")
@pytest.mark.req("P-4.3-5")
async def test_of_what_a_welcome_adds_only_the_members_of_the_known_form_are_believed() -> None:
    odd = Odd(can=())
    assert odd.client.extension == {}
    you: dict[str, Any] = {"you": {"id": "me"}, "participants": []}
    good = {"edition": 4, "own": ["chat/cancel"], "patterns": [], "message_bytes": 1024}
    async with odd.client as client:
        assert client.extension == {}
        odd.say("system/welcome", {**you, "x-mew-lab": {**good, "more": [1]}})
        assert await until(lambda: client.extension) == {**good, "more": [1]}
        for bad in (None, True, 4, "own", [], ["own"]):
            told = {"edition": bad, "own": bad, "patterns": bad, "message_bytes": bad} if bad != 4 else {}
            odd.say("system/welcome", {**you, "x-mew-lab": {**told, "last": bad}})
            await until(lambda bad=bad: client.extension.get("last", odd) == bad)
            believed = {name: bad for name in told if name in ("own", "patterns") and bad in ([], ["own"])}
            assert client.extension == {**believed, "last": bad}
            odd.say("system/welcome", {**you, "x-mew-lab": bad})
            await until(lambda: not client.extension)
        odd.say("system/welcome", {**you, "x-mew-lab": good})
        odd.say("system/welcome", {"you": {"id": "other"}, "x-mew-lab": {"own": ["chat"]}})
        odd.say("system/welcome", {**you, "x-mew-lab": {"own": ["chat"]}}, sender="eve", to=["me"])
        odd.say("chat", {"text": "end"}, sender="eve")
        inbox = client.messages()
        while (await anext(inbox)).kind != "chat":
            pass
        assert client.extension == good
        odd.say("system/welcome", you)
        await until(lambda: client.extension == {})


@pytest.mark.req("S-L1-8", "S-L1-9")
async def test_frames_are_told_apart_from_messages() -> None:
    odd = Odd(can=())
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


@pytest.mark.req("S-L1-8")
async def test_before_the_welcome_a_frame_is_heard_and_none_can_be_written() -> None:
    ends: list[MemoryLink] = []

    async def link() -> Link:
        here, there = pair()
        there.put(b"#stream-1#early")
        ends.append(there)
        return here

    client = MEWClient(space="demo", connect_link=link, while_down="queue", participant_id="me")
    heard: list[StreamData] = []
    client.on_stream_data(heard.append, stream_id="stream-1")
    connecting = asyncio.ensure_future(client.connect())
    await until(lambda: heard)
    assert (client.state, heard) == ("joined", [StreamData("stream-1", b"early")])
    with pytest.raises(ConnectionLost, match=r"not connected \(state joined\)"):
        await client.send_stream_data("stream-1", b"x")
    await client.disconnect()
    with pytest.raises(ConnectionLost):
        await connecting
    with pytest.raises(LinkClosed):
        await ends[0].receive()


@pytest.mark.req("S-L1-4")
async def test_a_handler_that_raises_is_reported_and_the_others_are_told() -> None:
    odd = Odd(can=())
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


async def test_a_handler_of_kinds_gets_these_alone_after_the_handlers_of_every_message() -> None:
    odd = Odd(can=())
    calls: list[tuple[str, str]] = []
    stop = odd.client.on_message(
        lambda envelope: calls.append(("few", envelope.kind)), kinds=("chat", "x/odd")
    )
    odd.client.on_message(lambda envelope: calls.append(("every", envelope.kind)))
    async with odd.client:
        for kind in ("chat", "chat/cancel", "x/odd"):
            odd.say(kind, {"text": "x"}, sender="eve")
        await until(lambda: ("few", "x/odd") in calls)
        assert calls[-5:] == [
            ("every", "chat"),
            ("few", "chat"),
            ("every", "chat/cancel"),
            ("every", "x/odd"),
            ("few", "x/odd"),
        ]
        stop()
        odd.say("chat", {"text": "y"}, sender="eve")
        await until(lambda: len(calls) > 6)
        assert calls[-1] == ("every", "chat")


@pytest.mark.req("S-L1-4", "S-L1-6")
async def test_each_of_the_five_handlers_is_told_what_it_is_for_and_in_this_order() -> None:
    odd = Odd(can=())
    told: list[tuple[str, Any]] = []
    odd.client.on_connected(lambda _: told.append(("connected", odd.client.state)))
    odd.client.on_welcome(lambda payload: told.append(("welcome", payload["you"]["id"])))
    odd.client.on_message(lambda envelope: told.append(("message", envelope.kind)))
    odd.client.on_error(lambda fault: told.append(("error", type(fault))))
    odd.client.on_disconnected(lambda why: told.append(("disconnected", why)))
    async with odd.client:
        await until(lambda: ("message", "system/welcome") in told)
        assert told[0][0] == "connected"
        assert {one for one, _ in told[1:]} == {"welcome", "message"}
        assert [what for one, what in told if one == "welcome"] == [odd.client.id]
        mark = len(told)
        odd.say("chat", {"text": "x"}, sender="eve")
        await until(lambda: len(told) > mark)
        assert told[mark:] == [("message", "chat")]
        odd.client.on_message(lambda envelope: 1 / 0)
        mark = len(told)
        odd.say("chat", {"text": "y"}, sender="eve")
        await until(lambda: ("error", ZeroDivisionError) in told)
        assert told[mark:] == [("message", "chat"), ("error", ZeroDivisionError)]
    assert told[-1] == ("disconnected", None)
    assert [one for one, _ in told].count("disconnected") == 1


async def test_a_welcome_that_never_comes_is_a_sentence() -> None:
    async def silent() -> Link:
        return pair()[0]

    client = MEWClient(space="demo", connect_link=silent, open_timeout=0.01)
    with pytest.raises(MewError, match=r"no welcome came within 0.01 s .* is it a MEW gateway\?"):
        await client.connect()
