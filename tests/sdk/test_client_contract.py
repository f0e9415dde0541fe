"""What a client does over every link alike: a real gateway, over the memory link and over WebSocket.

The WebSocket goes through a wire of our own, which can be cut, shut and silenced.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import ConnectionLost, LocalProtocolError, MewError, NotAdmitted
from mew_lab.gateway.local import attach
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient, StreamData
from mew_lab.sdk.connection import Endpoint
from mew_lab.transport.link import Link, LinkClosed

from .conftest import STREAMS, Room, Served, until

TALK = [{"kind": "chat"}, {"kind": "mcp/proposal"}]
BREAKS = [1001, 1006, 1012]


class Wire:
    """A proxy before the gateway: `shut` lets nobody through any more, `silent` swallows what comes."""

    def __init__(self, port: int) -> None:
        self.shut = False
        self.silent = False
        self.pings = 0
        self._port = port
        self._ends: list[asyncio.StreamWriter] = []
        self._pipes: set[asyncio.Task[None]] = set()

    async def open(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _connected(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.shut:
            back.transport.abort()
            return
        there, on = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [back, on]
        for reader, writer, from_client in ((here, on, True), (there, back, False)):
            pipe = asyncio.create_task(self._pipe(reader, writer, from_client=from_client))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                self.pings += from_client and data[0] == 0x89  # FIN and the opcode of a ping (RFC 6455 §5.2)
                if not self.silent:
                    writer.write(data)
        writer.close()

    def cut(self) -> None:
        """Ends every connection without a word of WebSocket."""
        for writer in self._ends:
            writer.transport.abort()
        self._ends.clear()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        for pipe in tuple(self._pipes):
            pipe.cancel()


class House:
    """A gateway and clients of it over one kind of link."""

    wire: Wire

    def __init__(self, over: str) -> None:
        self.room = Room() if over == "memory" else Served()
        self.over = over
        self.address = ""
        self.waited: list[float] = []
        self.hold: asyncio.Event | None = None
        self.links: dict[str, Link] = {}  # the one that each opened last
        self._shut = False

    def shut(self, shut: bool = True) -> None:
        """Nobody can come in any more, or again."""
        self._shut = shut
        if self.over == "websocket":
            self.wire.shut = shut

    async def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        await asyncio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()

    async def make(
        self,
        name: str,
        *,
        can: Any = TALK,
        connect: bool = True,
        runtime_id: str | None = None,
        **options: Any,
    ) -> MEWClient:
        given = {"wait": self.wait, **options}
        if self.over == "websocket":
            client = self.room.client(name, can, runtime_id=runtime_id, gateway=self.address, **given)
        else:

            async def link() -> Link:
                if self._shut:
                    raise LinkClosed(1006, "nobody there")
                gateway = self.room.gateway
                await until(lambda: gateway.holder("demo", runtime_id or name) is None)
                self.links[name] = attach(gateway, "demo", name, runtime_id=runtime_id)
                return self.links[name]

            client = self.room.client(name, can, connect_link=link, participant_id=runtime_id, **given)
        if connect:
            await client.connect()
        return client

    def cut(self, name: str, code: int) -> None:
        """The gateway's side of a connection ends with this code; 1006 says nothing at all."""
        if code == 1006 and self.over == "websocket":
            self.wire.cut()
            return
        holder = self.room.gateway.holder("demo", name)
        holder.close(code, "of the test")

    async def lose(self, name: str, code: int = 1012) -> None:
        """A connection is cut, and no other opens until `hold` is set."""
        self.hold = asyncio.Event()
        self.cut(name, code)
        await until(lambda: self.waited)

    def find(self) -> None:
        """Connections open again."""
        self.hold.set()

    def texts(self) -> list[str]:
        """What was said in the space, in the gateway's order; a message that came twice stands here twice."""
        return [one.payload["text"] for one in self.room.sent("chat")]


@pytest.fixture(params=["memory", "websocket"])
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    made = House(request.param)
    async with asyncio.timeout(50):
        if isinstance(made.room, Served):
            made.wire = Wire(await made.room.server.start())
            made.address = await made.wire.open()
        yield made
        await made.room.close()
        if made.over == "websocket":
            await made.wire.close()


def say(text: object) -> dict[str, Any]:
    return {"kind": "chat", "payload": {"text": str(text)}}


# --- who is who ---


@pytest.mark.req("P-8.2-10", "P-5.2-8", "S-L1-2", "S-L1-5", "S-TST-1", "S1-L3-2")
async def test_the_welcome_tells_who_one_is_and_what_one_may(house: House) -> None:
    seen: list[Any] = []
    bot = await house.make("bot", connect=False)
    assert (bot.state, bot.id) == ("disconnected", "")
    bot.on_connected(lambda _: seen.append(bot.state))
    bot.on_welcome(lambda payload: seen.append(payload["you"]["id"]))
    await bot.connect()
    assert (bot.state, bot.id, seen) == ("ready", "bot", ["connected", "bot"])
    assert bot.capabilities.patterns == (*TALK, {"kind": "mcp/response"})
    assert bot.participants == {}
    assert repr(bot) == "<MEWClient bot in demo: ready>"


@pytest.mark.req("P-8.2-11", "P-3.7-1", "S-L1-2")
async def test_presence_keeps_track_of_the_others(house: House) -> None:
    bot = await house.make("bot")
    human = await house.make("human", can=[{"kind": "chat"}])
    assert await until(lambda: bot.participants) == {"human": [{"kind": "chat"}, {"kind": "mcp/response"}]}
    assert human.participants == {"bot": [*TALK, {"kind": "mcp/response"}]}
    await human.disconnect()
    await until(lambda: not bot.participants)
    assert human.participants == {} and human.state == "disconnected" and human.failure is None


async def test_changed_rights_come_with_a_new_welcome(house: House) -> None:
    bot = await house.make("bot")
    welcomes: list[Any] = []
    bot.on_welcome(welcomes.append)
    house.room.gateway.enrol("demo", "bot", [{"kind": "chat/cancel"}])
    await until(lambda: welcomes)
    assert bot.capabilities.permit("chat/cancel", (), {}).allowed
    assert not bot.capabilities.permit("chat", (), {}).allowed


# --- sending ---


@pytest.mark.req(
    "S-L1-3", "P-3-2", "P-3-3", "P-3-4", "P-3-5", "P-3-6", "P-3-9", "P-6.1-1", "P-6.4-1", "S-L1-2"
)
async def test_a_draft_is_completed_so_that_its_id_is_known(house: House) -> None:
    clock = datetime(2026, 11, 21, 23, 59, 59, 123_456, tzinfo=UTC)
    bot = await house.make("bot", clock=lambda: clock, new_id=lambda: "id-1")
    sent = await bot.send({"kind": "chat", "to": "bot", "correlation_id": "x", "payload": {"text": "é"}})
    assert json.loads(sent.raw) == {
        "protocol": "mew/v0.4",
        "id": "id-1",
        "ts": "2026-11-21T23:59:59.123Z",
        "from": "bot",
        "kind": "chat",
        "to": ["bot"],
        "correlation_id": ["x"],
        "payload": {"text": "é"},
    }
    assert (await until(lambda: house.room.sent("chat")))[
        0
    ].raw == sent.raw  # accepted as it was, to the byte


async def test_a_complete_envelope_keeps_its_text(house: House) -> None:
    bot = await house.make("bot")
    raw = '{ "kind":"chat","payload":{"text":"mine"},"protocol":"mew/v0.4","id":"i","ts":"t","from":"bot" }'
    await bot.send(Envelope.from_members(json.loads(raw), raw=raw))
    assert (await until(lambda: house.room.sent("chat")))[0].raw == raw


@pytest.mark.req("P-3-1")
async def test_everybody_sees_one_stream_in_one_order_oneself_included(house: House) -> None:
    bot, human = await house.make("bot"), await house.make("human")
    inboxes = [bot.messages(), human.messages()]
    for number in range(50):
        (bot if number % 2 else human).post(say(number))
    seen: list[list[str]] = []
    for inbox in inboxes:
        texts: list[str] = []
        async for envelope in inbox:
            texts += [envelope.payload["text"]] if envelope.kind == "chat" else []
            if len(texts) == 50:
                break
        seen.append(texts)
    assert seen[0] == seen[1] and sorted(map(int, seen[0])) == list(range(50))


async def test_sending_without_a_connection_is_refused(house: House) -> None:
    bot = await house.make("bot", connect=False)
    for when in ("before", "after"):
        with pytest.raises(
            ConnectionLost, match=r"Cannot send chat to space 'demo' as '(bot)?': not connected \(state dis"
        ):
            await bot.send(say(when))
        await bot.connect()
        await bot.disconnect()


async def test_messages_end_with_the_client_and_not_before(house: House) -> None:
    bot = await house.make("bot")
    inbox = bot.messages()
    await bot.send(say("one"))
    assert (await anext(inbox)).payload == {"text": "one"}
    await bot.disconnect()
    assert [one async for one in inbox] == []


# --- frames ---


async def opened(client: MEWClient) -> tuple[str, list[str]]:
    """A stream of this client's, and the kinds of the messages that told of it."""
    inbox = client.messages()
    kinds: list[str] = []
    await client.send({"kind": "stream/request", "payload": {"direction": "upload", "description": "d"}})
    async for envelope in inbox:
        if envelope.kind != "system/presence":  # a join of another participant may be told in between
            kinds.append(envelope.kind)
        if envelope.kind == "stream/open":
            inbox.close()
            return str(envelope.payload["stream_id"]), kinds
    raise AssertionError("no stream/open came")


@pytest.mark.req("S-L1-8", "S-L1-9", "S-L1-10")
async def test_frames_travel_whole_in_text_and_in_bytes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_link = Endpoint.open

    async def keep_link(endpoint: Endpoint, **how: Any) -> Link:
        house.links.setdefault("bot", link := await open_link(endpoint, **how))
        return link

    monkeypatch.setattr(Endpoint, "open", keep_link)
    bot, human = await house.make("bot", can=STREAMS), await house.make("human", can=STREAMS)
    stream, _ = await opened(bot)
    other, _ = await opened(bot)
    heard: list[StreamData] = []
    of_one: list[StreamData] = []
    echoed: list[StreamData] = []
    human.on_stream_data(heard.append)
    end = human.on_stream_data(of_one.append, stream_id=other)
    bot.on_stream_data(echoed.append)
    chunks = [b"plain", b"", b"#", b"a#b#c", b"\x00\xff\r\n", "é".encode()]
    for chunk in chunks:
        await bot.send_stream_data(stream, chunk)
    await bot.send_stream_data(other, b"for one")
    await house.links["bot"].send(f"#{stream}#as text: é#")  # as a peer that writes text frames does
    await until(lambda: len(heard) == len(chunks) + 2)
    expected = [StreamData(stream, chunk) for chunk in chunks]
    expected += [StreamData(other, b"for one"), StreamData(stream, "as text: é#".encode())]
    assert heard == expected
    assert of_one == [StreamData(other, b"for one")]
    await until(lambda: len(echoed) == len(expected))  # a writer hears its own, too
    assert echoed == expected
    end()
    await bot.send_stream_data(other, b"more")
    await until(lambda: len(heard) == len(expected) + 1)
    assert len(of_one) == 1


@pytest.mark.req("S-L1-11")
async def test_the_messages_about_a_stream_come_as_messages_and_frames_do_not(house: House) -> None:
    bot, human = await house.make("bot", can=STREAMS), await house.make("human", can=STREAMS)
    told: list[str] = []
    human.on_message(lambda envelope: told.append(envelope.kind))
    stream, kinds = await opened(bot)
    assert kinds == ["stream/request", "stream/open"]  # by callback and by iterator alike
    await bot.send_stream_data(stream, b"x")
    await bot.send({"kind": "stream/close", "payload": {"stream_id": stream}})
    await until(lambda: "stream/close" in told)
    assert told == ["stream/request", "stream/open", "stream/close"]


async def test_a_frame_that_may_not_be_written_is_refused_by_the_gateway_and_heard_by_nobody(
    house: House,
) -> None:
    bot, human = await house.make("bot", can=STREAMS), await house.make("human", can=STREAMS)
    stream, _ = await opened(bot)
    heard: list[StreamData] = []
    bot.on_stream_data(heard.append)
    inbox = human.messages()
    await human.send_stream_data(stream, b"mine")
    async for envelope in inbox:
        if envelope.kind == "system/error":
            assert envelope.payload["error"] == "unauthorized_stream_write"
            break
    await bot.send_stream_data(stream, b"end")
    await until(lambda: heard)
    assert heard == [StreamData(stream, b"end")]


async def test_what_is_not_sent_says_whether_the_connection_comes_back_by_itself(house: House) -> None:
    bot = await house.make("bot")
    await house.lose("bot")
    with pytest.raises(ConnectionLost, match=r"It was not sent; the connection is made again by itself$"):
        bot.post(say("now"))
    await bot.disconnect()
    with pytest.raises(ConnectionLost, match=r"It was not sent; connect\(\) joins again$"):
        bot.post(say("later"))


@pytest.mark.req("S-L1-10")
@pytest.mark.parametrize("while_down", ["refuse", "queue"])
async def test_a_frame_is_never_kept_for_later(house: House, while_down: str) -> None:
    bot = await house.make("bot", can=STREAMS, while_down=while_down, connect=False)
    with pytest.raises(ConnectionLost, match="not connected"):
        await bot.send_stream_data("stream-1", b"x")
    await bot.connect()
    with pytest.raises(LocalProtocolError, match="without '#'"):
        await bot.send_stream_data("a#b", b"x")
    with pytest.raises(LocalProtocolError, match="a frame takes at most"):
        await bot.send_stream_data("stream-1", b"x" * 1024 * 1024)
    await house.lose("bot")
    with pytest.raises(ConnectionLost, match="not connected"):
        await bot.send_stream_data("stream-1", b"x")


# --- losing and finding each other again ---


@pytest.mark.req("S-ERR-1", "S-ERR-2", "S-L1-5", "S-L1-6")
@pytest.mark.parametrize("code", BREAKS)
async def test_after_a_break_identity_handlers_and_iterators_go_on(house: House, code: int) -> None:
    bot, human = await house.make("bot", runtime_id="bot-7", connect=False), await house.make("human")
    told: list[Any] = []
    bot.on_state(told.append)
    bot.on_connected(lambda _: told.append("on_connected"))
    bot.on_disconnected(lambda error: told.append(type(error)))
    bot.on_reconnecting(told.append)
    bot.on_welcome(lambda payload: told.append(payload["you"]["id"]))
    inbox = bot.messages()
    await bot.connect()
    coming = ["connecting", "connected", "on_connected", "joined", "ready", "bot-7"]
    assert told == coming
    told.clear()
    house.cut("bot-7", code)
    await until(lambda: "bot-7" in told)
    assert told == ["connecting", ConnectionLost, 1, *coming[1:]]
    await human.connect()  # where all wires were cut, it was lost, too
    await human.send(say("again"))
    async for envelope in inbox:
        if envelope.kind == "chat":
            assert (envelope.sender, envelope.payload) == ("human", {"text": "again"})
            break
    await bot.send(say("and I"))
    async for envelope in inbox:
        if envelope.kind == "chat":
            assert (envelope.sender, envelope.payload) == ("bot-7", {"text": "and I"})
            break
    told.clear()
    await bot.disconnect()
    assert told == ["disconnected", type(None)]
    assert [one.kind async for one in inbox] == []  # it ends with the client


@pytest.mark.req("S-ERR-1")
async def test_each_attempt_waits_twice_as_long_and_the_last_is_the_end(house: House) -> None:
    bot = await house.make("bot", reconnect_delay=0.5, max_reconnect_attempts=4)
    told: list[Any] = []
    bot.on_state(told.append)
    bot.on_reconnecting(told.append)
    inbox = bot.messages()
    house.shut()
    house.cut("bot", 1006)
    await until(lambda: bot.state == "disconnected")
    assert house.waited == [0.5, 1.0, 2.0, 4.0]
    assert told == ["connecting", 1, 2, 3, 4, "disconnected"]
    assert isinstance(bot.failure, ConnectionLost) and str(bot.failure).endswith("Gave up after 4 attempts")
    assert [one.kind async for one in inbox if one.kind == "chat"] == []  # it ends
    with pytest.raises(ConnectionLost, match=r"Gave up after 4 attempts\. It was not sent"):
        bot.post(say("x"))
    house.shut(False)
    await bot.connect()
    assert bot.state == "ready" and bot.failure is None


@pytest.mark.req("S-ERR-1")
async def test_who_wants_no_reconnection_gets_none(house: House) -> None:
    bot = await house.make("bot", reconnect=False)
    house.cut("bot", 1006)
    await until(lambda: bot.state == "disconnected")
    assert house.waited == [] and isinstance(bot.failure, ConnectionLost)


@pytest.mark.parametrize(("code", "said"), [(4401, "unknown"), (4403, "removed"), (4409, "id is taken")])
async def test_what_the_gateway_means_for_good_is_final(house: House, code: int, said: str) -> None:
    bot = await house.make("bot", while_down="queue")
    house.cut("bot", code)
    await until(lambda: bot.state == "disconnected")
    assert house.waited == [] and isinstance(bot.failure, NotAdmitted) and said in str(bot.failure)
    assert bot.failure.close_code == code
    with pytest.raises(ConnectionLost, match=said):
        await bot.send(say("x"))


# --- what is sent while the connection is down ---


async def test_unless_asked_otherwise_sending_while_down_is_refused_at_once(house: House) -> None:
    bot = await house.make("bot")
    await house.lose("bot")
    with pytest.raises(ConnectionLost, match=r"Cannot send chat .* It was not sent"):
        await bot.send(say("lost"))
    with pytest.raises(ConnectionLost):
        bot.post(say("lost"))
    house.find()
    await until(lambda: bot.state == "ready")
    await bot.send(say("after"))
    assert await until(house.texts) == ["after"]


@pytest.mark.parametrize("code", BREAKS)
async def test_what_is_queued_while_down_comes_once_and_in_order_after_the_welcome(
    house: House, code: int
) -> None:
    ticks = iter(range(10**6))
    bot = await house.make("bot", while_down="queue", clock=lambda: datetime.fromtimestamp(next(ticks), UTC))
    await house.lose("bot", code)
    asked: list[str] = []
    end = bot.add_guard(asked.append)
    posted = [bot.post(say(number)) for number in range(5)]
    sending = asyncio.ensure_future(bot.send(say(5)))
    given_up = asyncio.ensure_future(bot.send(say("given up")))
    await asyncio.sleep(0)
    end()
    assert not sending.done() and asked == ["chat"] * 7  # guards are asked when the message is given
    given_up.cancel()
    bot.on_welcome(lambda payload: bot.post(say("said after")))
    house.find()
    sent = [*posted, await sending]
    await until(lambda: len(house.texts()) >= 7)
    assert house.texts() == ["0", "1", "2", "3", "4", "5", "said after"]
    arrived = house.room.sent("chat")[:6]
    assert [one.raw for one in arrived] == [one.raw for one in sent]  # id and time are those of the call


async def test_a_guard_that_refuses_keeps_a_message_out_of_the_queue(house: House) -> None:
    bot = await house.make("bot", while_down="queue")
    await house.lose("bot")

    def refuse(kind: str) -> None:
        raise LocalProtocolError(f"no {kind} now")

    end = bot.add_guard(refuse)
    with pytest.raises(LocalProtocolError, match="no chat now"):
        bot.post(say("refused"))
    end()
    bot.post(say("kept"))
    house.find()
    assert await until(house.texts) == ["kept"]


@pytest.mark.threat(9)
async def test_the_queue_has_an_end_and_says_so(house: House) -> None:
    bot = await house.make("bot", while_down="queue")
    await house.lose("bot")
    for number in range(1000):
        bot.post(say(number))
    with pytest.raises(ConnectionLost, match=r"takes 1000 messages and 8 MiB\. It was not sent"):
        await bot.send(say("one more"))
    house.find()
    await until(lambda: len(house.texts()) >= 1000)
    assert house.texts() == [str(number) for number in range(1000)]


@pytest.mark.parametrize("end", ["disconnect", "give up"])
async def test_at_the_end_every_queued_message_is_answered_for(house: House, end: str) -> None:
    bot = await house.make("bot", while_down="queue", max_reconnect_attempts=2)
    errors: list[Exception] = []
    bot.on_error(errors.append)
    house.shut()
    await house.lose("bot", 1006)
    bot.post(say("posted"))
    sending = [asyncio.ensure_future(bot.send(say(number))) for number in range(3)]
    bot.post(say("posted, too"))
    await asyncio.sleep(0)
    if end == "disconnect":
        await bot.disconnect()
    else:
        house.find()
    for one in sending:
        with pytest.raises(
            ConnectionLost, match=r"Cannot send chat to space 'demo' as 'bot': .*ended before"
        ):
            await one
    assert bot.state == "disconnected"
    assert [type(one) for one in errors] == [ConnectionLost]
    assert "2 messages that 'bot' posted to space 'demo' may be missing there" in str(errors[0])
    assert ("Gave up after 2 attempts" in str(errors[0])) == (end == "give up")
    house.shut(False)
    await bot.connect()
    await bot.send(say("new"))
    assert await until(house.texts) == ["new"]


@pytest.mark.parametrize("while_down", ["refuse", "queue"])
async def test_whatever_breaks_in_between_nothing_comes_twice_and_nothing_overtakes(
    house: House, while_down: str
) -> None:
    bot = await house.make("bot", while_down=while_down)
    told: dict[int, str] = {}
    breaks = dict(zip((60, 150, 240), BREAKS, strict=True))

    async def speak(number: int) -> None:
        try:
            await bot.send(say(number))
        except MewError as fault:
            told[number] = str(fault)

    tasks = []
    for number in range(300):
        tasks.append(asyncio.ensure_future(speak(number)))
        await asyncio.sleep(0)
        if number in breaks:
            await until(lambda: bot.state == "ready")
            house.cut("bot", breaks[number])
    await asyncio.gather(*tasks)
    await until(lambda: bot.state == "ready")
    await bot.send(say(1000))
    await until(lambda: "1000" in house.texts())
    arrived = [int(text) for text in house.texts()]
    assert arrived == sorted(set(arrived))
    for number in set(arrived) & set(told):
        assert "nobody can know whether it arrived" in told[number]


@pytest.mark.parametrize("while_down", ["refuse", "queue"])
async def test_before_one_is_known_by_a_name_nothing_is_kept(house: House, while_down: str) -> None:
    bot = await house.make("bot", while_down=while_down, connect=False)
    with pytest.raises(ConnectionLost, match="not connected"):
        bot.post(say("nobody's"))
    refused: list[Exception] = []

    def early(_: object) -> None:
        try:
            bot.post(say("too early"))
        except ConnectionLost as fault:
            refused.append(fault)

    bot.on_connected(early)
    await bot.connect()
    assert len(refused) == 1
    await bot.send(say("in time"))
    assert await until(house.texts) == ["in time"]


async def test_who_names_itself_may_queue_before_the_first_welcome(house: House) -> None:
    bot = await house.make("bot", runtime_id="bot-7", while_down="queue", connect=False)
    bot.on_connected(lambda _: bot.post(say("early")))
    await bot.connect()
    await until(lambda: house.texts())
    assert [(one.sender, one.payload["text"]) for one in house.room.sent("chat")] == [("bot-7", "early")]


# --- over the network alone ---


@pytest.mark.req("S-L1-7")
@pytest.mark.parametrize("house", ["websocket"], indirect=True)
async def test_the_heartbeat_finds_a_gateway_that_fell_silent(house: House) -> None:
    bot = await house.make("bot", heartbeat_interval=0.1)
    lost: list[Any] = []
    bot.on_disconnected(lost.append)
    await until(lambda: house.wire.pings >= 3)  # periodically, and each was answered
    assert bot.state == "ready" and lost == []
    house.wire.silent = True
    await until(lambda: lost)
    assert isinstance(lost[0], ConnectionLost) and lost[0].close_code == 1006
    house.wire.cut()
    house.wire.silent = False
    await until(lambda: bot.state == "ready")
    await bot.send(say("back"))
    await until(lambda: house.texts())


@pytest.mark.req("S-L1-7")
@pytest.mark.parametrize("house", ["websocket"], indirect=True)
async def test_without_a_heartbeat_no_ping_is_sent(house: House) -> None:
    quiet = await house.make("bot", heartbeat_interval=None)
    pinging = house.room.client("bot", gateway=house.address, runtime_id="bot-2", heartbeat_interval=0.05)
    before = house.wire.pings
    async with pinging:
        await until(lambda: house.wire.pings >= before + 2)
    assert before == 0 and quiet.state == "ready"
