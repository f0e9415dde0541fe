"""The names and habits of the SDK specification on client, participant and agent: hooks, handlers, options, events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.errors import CapabilityViolation, ConfigError, ConnectionLost, LocalProtocolError, MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.delegates import Delegate, SpecificationNames
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Room, until

ALL = [{"kind": "*"}]
PING = {"kind": "chat", "payload": {"text": "hi"}}


# --- hooks ---


@pytest.mark.req("S-L2-6", "S-L2-37")
@pytest.mark.parametrize("kind", [MEWParticipant, MEWAgent])
async def test_an_overridden_hook_is_called_and_the_method_still_adds_handlers(
    room: Room, kind: type[Any]
) -> None:
    calls: list[Any] = []

    class Own(kind):  # type: ignore[misc]
        async def on_ready(self) -> None:
            calls.append("ready")

        def on_shutdown(self) -> None:
            calls.append("shutdown")

        async def on_forget(self, direction: str = "", entries: int | None = None) -> None:
            calls.append((direction, entries))

        def on_clear(self, *rest: Any) -> None:
            calls.append(("clear", rest))

        async def on_restart(self, payload: Any = None) -> None:
            calls.append(payload)

    client = room.client("bot", ALL)
    bot = Own(client) if kind is MEWParticipant else Own(MEWParticipant(client))
    human = await room.seat("human", ALL)
    bot.on_ready(lambda: calls.append("handler"))
    await bot.connect()
    await until(lambda: len(calls) == 2)
    assert sorted(calls) == ["handler", "ready"]
    calls.clear()
    await human.controls.forget("bot", direction="newest", entries=2)
    await human.controls.clear("bot")
    await human.controls.restart("bot", {"mode": "calm"})
    await until(lambda: len(calls) == 3)
    assert calls == [("newest", 2), ("clear", ()), {"mode": "calm"}]
    await bot.disconnect()
    assert calls[3:] == ["shutdown"]


async def test_an_agent_with_a_hook_still_forgets(room: Room) -> None:
    cleared = asyncio.Event()

    class Own(MEWAgent):
        async def on_clear(self) -> None:
            cleared.set()

    agent = Own(MEWParticipant(room.client("agent", ALL)), auto_respond=False)
    human = await room.seat("human", ALL)
    async with agent:
        await human.chat("remember me")
        await until(lambda: [one.text for one in agent.conversation_history] == ["remember me"])
        await human.controls.clear("agent")
        await cleared.wait()
        assert len(agent.conversation_history) == 0


async def test_the_hook_of_a_subclass_takes_the_place_of_that_of_its_base(room: Room) -> None:
    calls: list[str] = []

    class Base(MEWParticipant):
        def on_ready(self) -> None:
            calls.append("base")

    class Own(Base):
        def on_ready(self) -> None:
            calls.append("own")

    async with Own(room.client("bot", ALL)):
        assert calls == ["own"]


async def test_a_hook_may_be_mixed_in(room: Room) -> None:
    calls: list[str] = []

    class Greets:
        def on_ready(self) -> None:
            calls.append("mixed in")

        def on_my_way(self, where: str) -> None: ...

    class Own(Greets, MEWParticipant):  # type: ignore[misc]
        pass

    bot = Own(room.client("bot", ALL))
    bot.on_ready(lambda: calls.append("handler"))
    async with bot:
        assert sorted(calls) == ["handler", "mixed in"]


@pytest.mark.parametrize(
    ("name", "member", "words"),
    [
        ("on_chat", lambda self, envelope: None, "`async def on_chat(self)`"),
        ("on_ready", lambda self, welcome, *, more: None, "`async def on_ready(self)`"),
        ("on_message", staticmethod(lambda: None), "`async def on_message(self)`"),
        ("on_forget", None, "`async def on_forget(self)`"),
        ("onReady", lambda self: None, "did you mean `async def on_ready(self)`"),
        ("onMCPRequest", lambda self: None, "did you mean `async def on_mcp_request(self)`"),
    ],
)
@pytest.mark.parametrize("kind", [MEWParticipant, MEWAgent])
def test_what_cannot_be_a_hook_is_a_type_error_of_the_class_with_the_right_form(
    kind: type[Any], name: str, member: Any, words: str
) -> None:
    with pytest.raises(TypeError, match=r"Own\.") as fault:
        type("Own", (kind,), {name: member})
    assert words in str(fault.value)


def test_other_methods_of_a_subclass_are_left_alone() -> None:
    class Own(MEWParticipant):
        def on_my_way(self, where: str) -> str:
            return where

    assert Own().on_my_way("home") == "home"


@pytest.mark.parametrize("kind", [MEWParticipant, MEWAgent])
@pytest.mark.parametrize("pair", [("connect", "start"), ("disconnect", "stop")])
def test_connect_and_start_are_one_method_whichever_is_replaced(
    kind: type[Any], pair: tuple[str, str]
) -> None:
    assert getattr(kind, pair[0]) is getattr(kind, pair[1])
    for name in pair:

        async def own(self: Any) -> None: ...

        made = type("Own", (kind,), {name: own})
        assert getattr(made, pair[0]) is getattr(made, pair[1]) is own


# --- handlers ---


async def test_a_handler_gets_as_many_arguments_as_it_takes(room: Room) -> None:
    calls: list[Any] = []
    bot = room.prepare("bot", ALL)
    bot.client.on_connected(lambda: calls.append("connected"))
    bot.client.on_welcome(lambda data: calls.append(sorted(data)))
    bot.on_ready(lambda welcome=None: calls.append(welcome is not None))
    bot.client.on("disconnected", lambda *why: calls.append(why))
    await bot.connect()
    await bot.disconnect()
    assert calls == ["connected", True, ["active_streams", "participants", "x-mew-lab", "you"], (None,)]


@pytest.mark.parametrize("add", ["on_message", "on_chat", "on_stream_data", "on_error", "on_forget"])
def test_a_handler_that_needs_more_than_it_gets_is_refused_when_it_is_added(add: str) -> None:
    with pytest.raises(
        MewError, match=r"Cannot take eager\(a, b, c\) as a handler: .* give the others a default"
    ):

        def eager(a: Any, b: Any, c: Any) -> None: ...

        getattr(MEWParticipant(), add)(eager)


def test_an_event_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(MewError, match="'conected': it is no event of a client; did you mean 'connected'"):
        MEWClient().on("conected", print)


@pytest.mark.req("S-L1-6")
async def test_each_event_of_the_specification_is_heard_by_its_name(room: Room) -> None:
    names = ("connected", "disconnected", "message", "welcome", "error", "reconnecting")
    bot, heard = room.prepare("bot", ALL), list[str]()

    def note(name: str) -> Callable[[], None]:
        return lambda: heard.append(name)

    ends = [bot.client.on(name, note(name)) for name in names]
    bot.client.on("welcome", lambda: 1 / 0)
    await bot.connect()
    await until(lambda: {"connected", "welcome", "message", "error"} <= set(heard))
    assert heard.index("connected") < heard.index("welcome") and not {*names[1:2], *names[-1:]} & set(heard)
    room.links["bot"].shut(1006)  # type: ignore[attr-defined]
    await until(lambda: heard.count("welcome") == 2)
    assert (
        heard.index("disconnected") < heard.index("reconnecting") < len(heard) - heard[::-1].index("welcome")
    )
    for end in ends:
        end()
    heard.clear()
    await bot.disconnect()
    assert heard == []


async def test_events_of_streams_are_heard_by_name_and_texts_are_written(room: Room) -> None:
    owner, reader = await room.seat("owner", ALL), await room.seat("reader", ALL)
    stream = await owner.request_stream(description="noise")
    heard: list[Any] = []
    reader.on("stream/data", lambda data: heard.append(data.payload))
    reader.on(f"stream/data/{stream.id}", lambda: heard.append("here"))
    owner.send_stream_data(stream.id, "é")
    await until(lambda: len(heard) == 2)
    assert heard == ["é".encode(), "here"]
    with pytest.raises(LocalProtocolError, match="half a character"):
        owner.send_stream_data(stream.id, "\ud800")


# --- sending without await ---


@pytest.mark.parametrize(
    "send",
    [
        lambda bot: bot.send(PING),
        lambda bot: bot.client.send(PING),
        lambda bot: bot.chat("hi"),
        lambda bot: asyncio.get_running_loop().create_task(bot.chat("hi")),
        lambda bot: bot.report_status("busy"),
        lambda bot: bot.acknowledge_chat("x", "human"),
        lambda bot: bot.cancel_chat("x"),
        lambda bot: bot.notify("notifications/message"),
        lambda bot: bot.controls.cancel_reasoning("x"),
    ],
)
async def test_what_is_not_awaited_is_sent_all_the_same(room: Room, send: Callable[[Any], Any]) -> None:
    bot = await room.seat("bot", ALL)
    send(bot)
    await until(lambda: len(room.sent(sender="bot")) == 1)
    sent = await bot.chat("awaited")
    assert (await until(lambda: room.sent(sender="bot")[1:]))[0].id == sent.id


async def test_a_message_that_was_lost_without_being_awaited_is_reported(room: Room) -> None:
    bot = await room.seat("bot", ALL)
    faults: list[Exception] = []
    bot.client.on_error(faults.append)
    bot.send(PING)  # the link breaks before it takes anything
    await room.links["bot"].close()
    await until(lambda: faults)
    assert isinstance(faults[0], ConnectionLost) and "Cannot send chat" in str(faults[0])


async def test_what_may_not_be_sent_raises_where_it_is_called(room: Room) -> None:
    bot = await room.seat("bot", [])
    with pytest.raises(CapabilityViolation):
        bot.chat("hi")


@pytest.mark.parametrize("leave", [lambda bot: bot.disconnect(), lambda bot: bot.client.disconnect()])
async def test_a_disconnect_that_is_not_awaited_leaves(room: Room, leave: Callable[[Any], Any]) -> None:
    bot = await room.seat("bot", ALL)
    leave(bot)
    await until(lambda: bot.client.state == "disconnected")


# --- options and arguments ---


def test_a_participant_and_an_agent_take_the_options_of_the_layers_below() -> None:
    bot = MEWParticipant(gateway="ws://localhost:1", space="demo", capabilities=[{"kind": "chat"}])
    assert bot.can_send({"kind": "chat"}) and not bot.can_send({"kind": "mcp/request"})
    agent = MEWAgent(capabilities=[{"kind": "chat"}], request_timeout=5.0, max_iterations=3)
    assert agent.can_send("chat") and agent.options.max_iterations == 3


@pytest.mark.divergence("S-L1-1", "S-L2-4")
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: MEWParticipant(recconect=True), "'recconect' is none; did you mean 'reconnect'?"),
        (
            lambda: MEWParticipant(heartbeatInterval=5),
            "did you mean 'heartbeat_interval', which is in seconds?",
        ),
        (lambda: MEWParticipant(reconnect="yes"), "reconnect must be true or false, not text"),
        (lambda: MEWParticipant(MEWClient(), reconnect=True), "both client= and reconnect="),
        (lambda: MEWAgent(MEWParticipant(), reconnect=True), "both participant= and reconnect="),
        (lambda: MEWAgent(recconect=True), "did you mean 'reconnect'?"),
        (lambda: MEWAgent(maxIterations=3), "did you mean 'max_iterations'?"),
        (lambda: MEWClient(maxReconnectAttempts=3), "did you mean 'max_reconnect_attempts'?"),
        (lambda: MEWClient({"gateway": "ws://x"}), "options are keywords: MEWClient(gateway=…)"),
        (lambda: MEWParticipant({"gateway": "ws://x"}), "options are keywords: MEWParticipant("),
        (lambda: MEWAgent({"gateway": "ws://x"}), "options are keywords: MEWAgent("),
        (
            lambda: MEWParticipant().mcp_request("a", {}, 5000),
            "a timeout by name, in seconds, such as timeout=5.0",
        ),
        (
            lambda: MEWParticipant().mcp_request("a", {}, timeoutMs=5000),
            "did you mean 'timeout', which is in seconds?",
        ),
        (
            lambda: MEWParticipant().call("a/b", {}, 5000),
            "a timeout by name, in seconds, such as timeout=5.0",
        ),
        (lambda: MEWParticipant().ask("a", "b", 5000), "a timeout by name, in seconds, such as timeout=5.0"),
        (lambda: MEWParticipant().call({"a": 1}, "a/b"), "target takes a text, and not a dict"),
        (lambda: MEWParticipant().register_tool(), "missing a required argument: 'tool'"),
        (lambda: MEWParticipant().chat("hi", correlationId="x"), "did you mean 'correlation_id'?"),
        (
            lambda: MEWParticipant().chat("hi", 5),
            "Cannot call chat() so: to takes a text or a list, and not 5",
        ),
    ],
)
async def test_a_wrong_name_unit_or_order_is_told_with_the_right_one(
    wrong: Callable[[], Any], words: str
) -> None:
    with pytest.raises((MewError, ConfigError)) as fault:
        wrong()
    assert words in str(fault.value)


async def test_a_positional_timeout_of_a_method_that_is_awaited_is_refused_too() -> None:
    bot = MEWParticipant()
    with pytest.raises(MewError, match="a timeout by name, in seconds, such as timeout=5"):
        await bot.list_tools("git", 5000)  # type: ignore[misc]
    for refused in (
        lambda: bot.request_participant_status("git", ["tokens"], 5000),
        lambda: bot.request_stream("upload", 5000),
        lambda: bot.controls.compact("git", 5000),
    ):
        with pytest.raises(MewError, match="a timeout by name, in seconds, such as timeout=5"):
            await refused()
    with pytest.raises(MewError, match="a timeout by name, in seconds, such as timeout=5"):
        await bot.wait_for_pending_discoveries(5000)  # type: ignore[misc]


# --- the table ---


@pytest.mark.parametrize("kind", [MEWParticipant, MEWAgent])
async def test_every_name_of_the_table_leads_somewhere(kind: type[Any]) -> None:
    made = kind()
    for name, delegate in vars(SpecificationNames).items():
        if isinstance(delegate, Delegate):
            getattr(made, name)


async def test_what_discovery_knows_stands_under_the_names_of_the_specification(room: Room) -> None:
    def look() -> str:
        """Looks."""
        return "seen"

    git, me = await room.tool("git", look), await room.seat("me", ALL)
    await me.discover_tools("git")
    assert [tool.name for tool in me.discovered_tools["git"]] == ["look"]
    assert me.participant_discovery_status["git"].state == "completed"
    [cached] = me.tool_cache
    assert (cached.participant, cached.ttl) == ("git", me.discovery.pace.ttl)
    assert cached.timestamp.tzinfo is not None and cached.tools == me.discovered_tools["git"]
    git.register_resource({"uri": "note://a", "name": "A", "content": "text"})
    read = await me.mcp_request("git", {"method": "resources/read", "params": {"uri": "note://a"}})
    assert read["contents"][0]["text"] == "text"
    for wrong in ({"name": "A"}, {"uri": "note://b"}):
        with pytest.raises(ConfigError, match="A resource has a `uri` and a `content`"):
            git.register_resource(wrong)


# --- what comes in ---


async def test_middleware_may_pass_on_replace_and_drop_what_arrives(room: Room) -> None:
    me, other = await room.seat("me", ALL), await room.seat("other", ALL)
    heard: list[str] = []
    me.on_chat(lambda envelope: heard.append(envelope.payload["text"]))
    faults: list[Exception] = []
    me.client.on_error(faults.append)

    def change(envelope: Envelope) -> Envelope | bool | None:
        text = envelope.payload.get("text")
        if text == "fault":
            raise LookupError("no such text")
        if text == "loud":
            return Envelope.of({**envelope.members, "payload": {"text": "quiet"}})
        return False if text == "spam" else None

    remove = me.client.add_middleware(change)
    for text in ("plain", "spam", "loud", "fault"):
        await other.chat(text)
    await until(lambda: len(heard) == 3)
    assert heard == ["plain", "quiet", "fault"] and [str(one) for one in faults] == ["no such text"]
    remove()
    await other.chat("spam")
    await until(lambda: heard[3:] == ["spam"])


@pytest.mark.parametrize("direction", ["sideways", "Upload", 7, None, ["upload"]])
async def test_a_direction_that_is_no_word_of_the_specification_is_sent_by_none_of_our_verbs(
    room: Room, direction: Any
) -> None:
    bot = await room.seat("bot", ALL)
    for send in (bot.send, bot.client.post, bot.send_accepted):
        with pytest.raises(LocalProtocolError, match="it is 'upload' or 'download'"):
            result: Any = send({"kind": "stream/request", "payload": {"direction": direction}})
            await result
    assert room.sent("stream/request") == []


@pytest.mark.parametrize("payload", [{"direction": "sideways"}, {"direction": 7}, {}])
async def test_a_stream_of_another_direction_is_delivered_and_told_to_those_who_join_later(
    room: Room, payload: dict[str, Any]
) -> None:
    await room.seat("odd", ALL)
    early = await room.seat("early", ALL)
    await room.links["odd"].send(json.dumps({"kind": "stream/request", "payload": payload}))
    await until(lambda: early.streams.active)
    late = await room.seat("late", ALL)
    assert list(late.streams.active) == list(early.streams.active)
