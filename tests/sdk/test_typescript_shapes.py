"""Our participants and the TypeScript SDK's in one space: each message of the latter as that SDK writes it.

What such a peer is told is checked for what that SDK reads: `protocol`, `kind`, `correlation_id` as an array, and
its own id in `to`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mew_lab.errors import NoReply, ProposalRejected, ToolFailed
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.tools import ToolBox
from mew_lab.transport.link import Link
from mew_lab.transport.websocket import connect

from .conftest import Served, until

AGENT = [{"kind": kind} for kind in ("mcp/*", "chat", "chat/*", "reasoning/*", "stream/*", "participant/*")]
RUNTIME = "client-1795292743823-x7f3k2"  # what that client calls itself where nobody configured an id


def readable(raw: str) -> dict[str, Any]:
    """One message as that SDK reads it; an `error` in `type` or `kind` would end its process."""
    said: dict[str, Any] = json.loads(raw)
    assert said["protocol"] == "mew/v0.4" and said.get("type") != "error" and said["kind"] != "error"
    assert all(isinstance(said[key], str) and said[key] for key in ("id", "ts", "from", "kind"))
    assert isinstance(said["payload"], dict)
    for key in ("to", "correlation_id"):
        assert key not in said or all(isinstance(one, str) for one in said[key]), key
        assert isinstance(said.get(key, []), list), key
    return said


class Peer:
    """A participant that writes what the TypeScript SDK writes."""

    def __init__(self, link: Link, id: str) -> None:
        self.link = link
        self.id = id
        self.heard: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)

    async def hear(self, kind: str, **members: Any) -> dict[str, Any]:
        """The next message of this kind with these members, and every one before it checked."""
        while True:
            async with asyncio.timeout(10):
                message = await self.link.receive()
            if isinstance(message, bytes) or message.startswith("#"):
                continue
            said = readable(message)
            self.heard.append(said)
            if said["kind"] == kind and all(said.get(key) == value for key, value in members.items()):
                return said

    async def say(self, kind: str, payload: Any, **members: Any) -> str:
        """As `MEWClient.send` of that SDK: it fills protocol, id, ts and from."""
        id = f"{self.id}-{next(self._numbers)}"
        head = {"protocol": "mew/v0.4", "id": id, "ts": "2026-11-21T20:28:39.855Z", "from": self.id}
        await self.send({**head, "kind": kind, "payload": payload, **members})
        return id

    async def send(self, draft: dict[str, Any]) -> None:
        """As the agents of its end-to-end scripts: whatever they happen to fill in."""
        await self.link.send(json.dumps(draft, separators=(",", ":")))


class Cast(Served):
    """A space with a port, participants of ours and peers."""

    def __init__(self) -> None:
        super().__init__()
        self.peers: list[Link] = []

    async def peer(self, name: str, *, id: str = "", can: Any = AGENT, form: str = "join") -> Peer:
        self.enrol(name, can)
        token = self.gateway.tokens.mint("demo", name).reveal()
        link = await connect(self.url, close_timeout=0.2)
        self.peers.append(link)
        peer = Peer(link, id or name)
        if form == "join":
            said: dict[str, Any] = {
                "type": "join",
                "space": "demo",
                "token": token,
                "participantId": peer.id,
                "capabilities": [],
            }
        else:
            said = {
                "kind": "system/join",
                "payload": {"participantId": peer.id, "space": "demo", "token": token},
            }
        await peer.send(said)
        await peer.hear("system/welcome")
        return peer


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    made = Cast()
    await made.server.start()
    async with asyncio.timeout(50):
        yield made
        for link in made.peers:
            await link.close()
        await made.close()


def calculator() -> ToolBox:
    tools = ToolBox(name="calculator")

    def add(a: int, b: int) -> str:
        """Adds two numbers."""
        return f"{a} + {b} = {a + b}"

    def fails() -> None:
        raise ValueError("boom")

    tools.add(add)
    tools.add(fails)
    return tools


# --- joining ---


@pytest.mark.parametrize("form", ["join", "system/join"])
async def test_each_learns_of_the_other_by_the_id_that_it_gave_itself(cast: Cast, form: str) -> None:
    human = await cast.seat("human")
    joined: list[Any] = []
    human.on_participant_join(joined.append)
    peer = await cast.peer("helper", id=RUNTIME, form=form)
    [welcome] = peer.heard
    assert welcome["payload"]["you"]["id"] == RUNTIME
    assert [one["id"] for one in welcome["payload"]["participants"]] == ["human"]
    assert welcome["payload"]["active_streams"] == []
    await until(lambda: joined)
    assert joined[0]["id"] == RUNTIME and RUNTIME in human.client.participants


# --- requests, both ways ---


async def test_its_discovery_finds_our_tools_and_it_calls_one(cast: Cast) -> None:
    await cast.seat("calculator", "tool", tools=calculator())
    peer = await cast.peer("typescript-agent")
    asked = await peer.say("mcp/request", {"method": "tools/list"}, to=["calculator"])
    answer = await peer.hear("mcp/response", correlation_id=[asked])
    assert (answer["from"], answer["to"]) == ("calculator", ["typescript-agent"])
    tools = {tool["name"]: tool for tool in answer["payload"]["result"]["tools"]}
    assert set(tools) == {"add", "fails"} and tools["add"]["description"] == "Adds two numbers."
    assert tools["add"]["inputSchema"]["type"] == "object"
    params = {"name": "add", "arguments": {"a": 5, "b": 3}}
    asked = await peer.say("mcp/request", {"method": "tools/call", "params": params}, to=["calculator"])
    answer = await peer.hear("mcp/response", correlation_id=[asked])
    assert answer["payload"]["result"]["content"] == [{"type": "text", "text": "5 + 3 = 8"}]
    asked = await peer.say("mcp/request", {"method": "no/such"}, to=["calculator"])
    answer = await peer.hear("mcp/response", correlation_id=[asked])
    assert answer["payload"]["error"]["code"] == -32601 and isinstance(
        answer["payload"]["error"]["message"], str
    )


@pytest.mark.parametrize(
    ("payload", "text", "fault"),
    [
        ({"result": "5 add 3 = 8"}, "5 add 3 = 8", ""),
        ({"result": {"content": [{"type": "text", "text": "8"}]}}, "8", ""),
        ({"result": {"sum": 8}}, '{"sum":8}', ""),
        ({"error": {"code": -32603, "message": "Tool not found: add"}}, "", "Tool not found: add"),
    ],
)
async def test_its_bare_answer_reaches_whoever_called(
    cast: Cast, payload: Any, text: str, fault: str
) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-agent")
    await until(lambda: "typescript-agent" in human.client.participants)
    call = human.call("typescript-agent/add", {"a": 5, "b": 3})
    request = await peer.hear("mcp/request")
    assert request["to"] == ["typescript-agent"] and request["from"] == "human"
    assert request["payload"]["method"] == "tools/call"
    assert request["payload"]["params"] == {"name": "add", "arguments": {"a": 5, "b": 3}}
    await peer.say("mcp/response", payload, to=["human"], correlation_id=[request["id"]])
    if fault:
        with pytest.raises(ToolFailed, match=fault):
            await call
    else:
        assert str(await call) == text
    assert not human.misbehaviour


async def test_an_answer_that_lacks_all_that_can_be_added_is_one(cast: Cast) -> None:
    """As the agents of its scripts write it: no protocol, no id, no sender, a correlation that is a string."""
    human = await cast.seat("human")
    peer = await cast.peer("calculator-agent")
    await until(lambda: "calculator-agent" in human.client.participants)
    call = human.call("calculator-agent/add", {"a": 5, "b": 3})
    request = await peer.hear("mcp/request")
    await peer.send(
        {
            "kind": "mcp/response",
            "to": ["human"],
            "correlation_id": request["id"],
            "payload": {"result": {"content": [{"type": "text", "text": "8"}]}},
        }
    )
    assert str(await call) == "8"


async def test_who_is_called_by_its_name_is_reached_under_its_own_id(cast: Cast) -> None:
    """That SDK takes as meant for it only what names the id that it gave itself."""
    human = await cast.seat("human")
    peer = await cast.peer("helper", id=RUNTIME)
    await until(lambda: RUNTIME in human.client.participants)
    call = human.call("helper/add", {"a": 1, "b": 1})
    request = await peer.hear("mcp/request")
    assert request["to"] == [RUNTIME]
    await peer.say("mcp/response", {"result": "2"}, to=["human"], correlation_id=[request["id"]])
    assert str(await call) == "2" and call.by == RUNTIME


# --- proposals, both ways ---


async def test_its_proposal_is_fulfilled_by_our_human_and_it_can_follow_the_chain(cast: Cast) -> None:
    await cast.seat("calculator", "tool", tools=calculator())
    human = await cast.seat("human")
    peer = await cast.peer("typescript-proposer", can=[{"kind": "mcp/proposal"}, {"kind": "mcp/withdraw"}])
    payload = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 5, "b": 3}}}
    id = await peer.say("mcp/proposal", payload, to=["calculator"])
    await until(lambda: human.proposals.get(id))
    await human.approve(id)
    request = await peer.hear("mcp/request", correlation_id=[id])
    assert (request["from"], request["to"]) == ("human", ["calculator"])
    assert request["payload"]["params"] == payload["params"]
    response = await peer.hear("mcp/response", correlation_id=[request["id"]])
    assert response["payload"]["result"]["content"] == [{"type": "text", "text": "5 + 3 = 8"}]


async def test_its_proposal_that_timed_out_is_withdrawn_and_nobody_else_can_do_that(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-proposer")
    other = await cast.peer("typescript-agent")
    payload = {"method": "tools/call", "params": {"name": "add", "arguments": {}}}
    id = await peer.say("mcp/proposal", payload, to=["calculator"])
    await until(lambda: human.proposals.get(id))
    forged = await other.say("mcp/withdraw", {"reason": "no_longer_needed"}, correlation_id=[id])
    await peer.hear("mcp/withdraw", id=forged)
    proposal = human.proposals.get(id)
    assert proposal is not None and proposal.state == "open"
    await peer.say("mcp/withdraw", {"reason": "timeout"}, correlation_id=[id])
    await until(lambda: (found := human.proposals.get(id)) and found.state == "withdrawn")
    found = human.proposals.get(id)
    assert found is not None and (found.by, found.reason) == ("typescript-proposer", "timeout")


async def test_our_rejection_reaches_it_with_the_reason(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-proposer")
    id = await peer.say("mcp/proposal", {"method": "tools/list"}, to=["human"])
    await until(lambda: human.proposals.get(id))
    await human.reject(id, "unsafe")
    told = await peer.hear("mcp/reject", correlation_id=[id])
    assert (told["from"], told["payload"]["reason"]) == ("human", "unsafe")


async def test_our_proposal_is_fulfilled_by_its_human_and_answered_bare(cast: Cast) -> None:
    bot = await cast.seat("bot", "proposer")
    human = await cast.peer("human")
    tool = await cast.peer("mcp-fs-bridge")
    await until(lambda: {"human", "mcp-fs-bridge"} <= set(bot.client.participants))
    call = bot.call("mcp-fs-bridge/write_file", {"path": "a.txt", "content": "x"})
    proposal = await human.hear("mcp/proposal")
    assert proposal["to"] == ["mcp-fs-bridge"] and proposal["payload"]["method"] == "tools/call"
    await human.say("mcp/request", proposal["payload"], to=proposal["to"], correlation_id=[proposal["id"]])
    request = await tool.hear("mcp/request")
    await tool.say("mcp/response", {"result": "written"}, to=["human"], correlation_id=[request["id"]])
    assert str(await call) == "written" and call.by == "human"


async def test_its_rejection_is_told_in_the_words_of_the_specification(cast: Cast) -> None:
    bot = await cast.seat("bot", "proposer")
    human = await cast.peer("human")
    await until(lambda: "human" in bot.client.participants)
    call = bot.call("human/sign", {})
    proposal = await human.hear("mcp/proposal")
    await human.say("mcp/reject", {"reason": "disagree"}, to=["bot"], correlation_id=[proposal["id"]])
    with pytest.raises(ProposalRejected, match=r"^Proposal rejected by human: disagree$"):
        await call


async def test_our_proposal_that_nobody_takes_is_withdrawn_as_its_own_would_be(cast: Cast) -> None:
    bot = await cast.seat("bot", "proposer")
    human = await cast.peer("human")
    await until(lambda: "human" in bot.client.participants)
    call = bot.call("human/sign", {}, timeout=0.05)
    with pytest.raises(NoReply, match="the proposal was withdrawn"):
        await call
    told = await human.hear("mcp/withdraw", correlation_id=[call.id])
    assert told["payload"] == {"reason": "timeout"} and told["from"] == "bot"


# --- what an agent of that SDK says besides ---


SAID: list[tuple[str, Any, Any]] = [
    ("chat", {"text": "I'm here to help! (mock response)"}, {"to": ["human"]}),
    ("chat/acknowledge", {"status": "processing"}, {"to": ["human"], "correlation_id": ["c-1"]}),
    (
        "chat/acknowledge",
        {"text": "Acknowledged your message."},
        {"to": ["human"], "correlation_id": "c-1"},
    ),
    ("chat/cancel", {"reason": "cleared"}, {"to": ["human"], "correlation_id": ["c-1"]}),
    ("reasoning/start", {"input": "what is 5 + 3?"}, {"correlation_id": ["c-1"]}),
    (
        "reasoning/thought",
        {"reasoning": "a sum", "action": "tool", "actionInput": {}},
        {"context": "r-1"},
    ),
    ("reasoning/thought", {"context": "r-1", "text": "no context in the envelope"}, {}),
    ("reasoning/conclusion", {}, {"context": "r-1"}),
    ("reasoning/cancel", {"reason": "superseded"}, {}),
    ("stream/close", {"reason": "complete"}, {"correlation_id": ["gone"]}),
    (
        "participant/status",
        {"tokens": 9, "max_tokens": 10, "messages_in_context": 3, "status": "near_limit"},
        {"to": ["human"]},
    ),
    ("participant/status", {"messages_in_context": 0, "status": "shutting_down:bye"}, {}),
    ("participant/status", {"messages_in_context": 0, "status": "cleared:done"}, {}),
    ("participant/status", {"messages_in_context": 0, "status": "compacting"}, {}),
    ("participant/compact-done", {"freed_tokens": 100, "status": "compacted"}, {"correlation_id": ["x"]}),
    ("participant/resume", {"reason": "timeout"}, {"to": ["human"]}),
]


async def test_what_it_says_is_heard_and_counts_as_no_fault(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-agent")
    heard: list[Envelope] = []
    errors: list[Exception] = []
    human.client.on_message(heard.append)
    human.client.on_error(errors.append)
    ids = [await peer.say(kind, payload, **members) for kind, payload, members in SAID]
    await until(lambda: any(one.id == ids[-1] for one in heard))
    said = {one.id: one for one in heard}
    for id, (kind, payload, members) in zip(ids, SAID, strict=True):
        assert (said[id].sender, said[id].kind, said[id].payload) == ("typescript-agent", kind, payload)
        about = members.get("correlation_id", ())
        assert said[id].correlation_id == ((about,) if isinstance(about, str) else tuple(about))
    assert not human.misbehaviour and errors == []


async def test_its_reasoning_stream_is_opened_and_its_frames_are_heard(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-agent")
    frames: list[StreamData] = []
    human.client.on_stream_data(frames.append)
    start = await peer.say("reasoning/start", {"input": "what is 5 + 3?"}, correlation_id=["c-1"])
    request = {"direction": "upload", "description": f"reasoning:{start}"}
    asked = await peer.say("stream/request", request, to=["gateway"])
    opened = await peer.hear("stream/open", correlation_id=[asked])
    assert opened["to"] == ["typescript-agent"]
    stream = opened["payload"]["stream_id"]
    said = [
        {"context": start, "type": "token", "value": "5 + 3 #is# 8"},
        {"type": "progress", "tokenCount": 12},
        {"context": start, "type": "thought", "value": {"reasoning": "a sum", "action": "respond"}},
        {"context": start, "type": "status", "event": "conclusion"},
    ]
    for one in said:
        await peer.link.send(f"#{stream}#{json.dumps(one)}")
    await until(lambda: len(frames) == len(said))
    assert [(one.stream_id, json.loads(one.data)) for one in frames] == [(stream, one) for one in said]
    await peer.say("stream/close", {"stream_id": stream, "reason": "complete"}, correlation_id=[start])
    told = await peer.hear("stream/close")
    assert told["payload"]["stream_id"] == stream and not human.misbehaviour


# --- what we tell it ---


TOLD: list[tuple[str, Any]] = [
    ("participant/pause", {"reason": "wait", "timeout_seconds": 60}),
    ("participant/resume", {"reason": "go on"}),
    ("participant/request-status", {"fields": ["tokens"]}),
    ("participant/forget", {"direction": "oldest", "entries": 3}),
    ("participant/compact", {"target_tokens": 2000, "reason": "room"}),
    ("participant/clear", {"reason": "new task"}),
    ("participant/restart", {"mode": "soft"}),
    ("participant/shutdown", {"reason": "done"}),
    ("reasoning/cancel", {"reason": "superseded"}),
]


async def test_our_controls_are_what_it_reads(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("helper", id=RUNTIME)
    for kind, payload in TOLD:
        sent = await human.client.send({"kind": kind, "to": ["helper"], "payload": payload})
        told = await peer.hear(kind, id=sent.id)
        assert (told["from"], told["to"], told["payload"]) == ("human", [RUNTIME], payload)


async def test_our_chat_and_its_helpers_are_what_it_reads(cast: Cast) -> None:
    human = await cast.seat("human")
    peer = await cast.peer("typescript-agent")
    chat = await peer.say("chat", {"text": "hello", "format": "plain"})
    await human.chat("hi", "typescript-agent", correlation_id=chat)
    told = await peer.hear("chat", **{"from": "human"})
    assert told["to"] == ["typescript-agent"] and told["correlation_id"] == [chat]
    assert told["payload"]["text"] == "hi"
    await human.acknowledge_chat(chat, "typescript-agent")
    told = await peer.hear("chat/acknowledge")
    assert told["correlation_id"] == [chat] and told["payload"]["status"] == "received"
    await human.cancel_chat(chat, "typescript-agent")
    told = await peer.hear("chat/cancel")
    assert told["correlation_id"] == [chat] and isinstance(told["payload"]["reason"], str)


async def test_what_it_may_not_send_is_refused_in_a_shape_that_it_reads(cast: Cast) -> None:
    peer = await cast.peer("typescript-agent", can=[{"kind": "chat"}])
    id = await peer.say("mcp/request", {"method": "tools/list"}, to=["human"])
    told = await peer.hear("system/error", correlation_id=[id])
    assert told["to"] == ["typescript-agent"] and told["payload"]["error"] == "capability_violation"
    assert told["payload"]["attempted_kind"] == "mcp/request"
    assert {"kind": "chat"} in told["payload"]["your_capabilities"]
