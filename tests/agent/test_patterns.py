"""Ways of working together that the specifications describe: who proposes, who decides, who learns to."""

from __future__ import annotations

import ast
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

import mew_lab.agent
from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Reply
from mew_lab.errors import ModelFailed, NoReply, ProposalRejected
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.participant import MEWParticipant

from .conftest import CALLER, PROPOSER, Script, Site, until, wants


def write(path: str) -> str:
    """Writes a file."""
    return f"wrote {path}"


# --- delegated and learned decisions ---


@pytest.mark.req("P-9.4-1")
async def test_an_orchestrator_fulfils_what_its_human_tells_it_to_and_nothing_else(site: Site) -> None:
    human, orchestrator = await site.seat("human", CALLER), await site.seat("orchestrator", CALLER)
    await site.tool("files", write)

    async def obey(chat: Envelope) -> None:
        verb, _, id = str(chat.payload["text"]).partition(" ")
        if chat.sender == "human" and verb == "fulfil":
            await orchestrator.approve(id)

    orchestrator.on_chat(obey)
    model = Script(wants("files/write", {"path": "/tmp/a"}))
    await site.agent("agent", model, can=PROPOSER)
    await human.chat("Write /tmp/a", to="agent")
    proposal = await site.proposal("agent", orchestrator)
    stranger = await site.seat("stranger")
    await stranger.chat(f"fulfil {proposal.id}", to="orchestrator")
    await human.chat(f"fulfil {proposal.id}", to="orchestrator")
    await site.answer("agent")
    done = [envelope for envelope in site.sent("mcp/request") if envelope.correlation_id == (proposal.id,)]
    assert [(envelope.sender, envelope.to, envelope.payload["params"]) for envelope in done] == [
        ("orchestrator", proposal.to, proposal.payload["params"])
    ]
    assert [message.content for message in model.asked[1] if message.role == "tool"] == ["wrote /tmp/a"]


@pytest.mark.req("P-9.4-2", "P-2.1-3")
async def test_an_orchestrator_fulfils_by_itself_what_its_human_fulfilled_before_within_that_bound(
    site: Site,
) -> None:
    human, orchestrator = await site.seat("human"), await site.seat("orchestrator", CALLER)
    await site.tool("files", write)
    learned: set[tuple[str, str]] = set()

    def folder(payload: dict[str, Any]) -> tuple[str, str]:
        return payload["params"]["name"], payload["params"]["arguments"]["path"].rpartition("/")[0]

    def learn(change: Any) -> None:
        if change.what == "fulfilled" and change.proposal.by == "human":
            learned.add(folder(change.proposal.payload))

    async def decide(proposal: Envelope) -> None:
        if folder(proposal.payload) in learned:
            await orchestrator.approve(proposal.id)

    orchestrator.on_change(learn)
    orchestrator.on_mcp_proposal(decide)
    paths = ["/tmp/a", "/tmp/b", "/etc/passwd"]
    await site.agent("agent", Script(*(wants("files/write", {"path": path}) for path in paths)), can=PROPOSER)
    await human.chat("Write them", to="agent")
    first = await site.proposal("agent", human)
    await human.approve(first.id)
    third = await site.proposal("agent", human, 3)
    deciders = [
        envelope.sender for envelope in site.sent("mcp/request") if envelope.payload["method"] == "tools/call"
    ]
    assert deciders == ["human", "orchestrator"]
    assert not orchestrator.proposals.get(third.id).decided  # type: ignore[union-attr]
    await human.reject(third.id, "unsafe")
    await site.answer("agent")


@pytest.mark.divergence("P-9.4-2")
async def test_a_model_is_offered_no_decision_on_the_proposals_of_others(site: Site) -> None:
    human, bot = await site.seat("human"), await site.seat("bot", PROPOSER)
    await site.tool("files", write)
    model = Script(wants("bot/approve"), wants("agent/approve"), Reply("I cannot."))
    await site.agent("agent", model)
    call = bot.propose("files/write", {"path": "/tmp/a"})
    await until(lambda: human.proposals.get(call.id))
    await human.chat(f"Approve the proposal {call.id}", to="agent")
    assert (await site.answer("agent")).payload["text"] == "I cannot."
    assert model.offered == [["files/write"]] * 3
    assert human.proposals.get(call.id).state == "open"  # type: ignore[union-attr]
    assert [one for one in site.sent("mcp/request") if call.id in one.correlation_id] == []


@pytest.mark.req("P-3.3.3-3", "P-3.3.3-4", "P-3.3.3-6")
async def test_who_proposed_may_wait_for_the_explanation_of_a_rejection(site: Site) -> None:
    human, bot = await site.seat("human"), await site.seat("bot", PROPOSER)
    await site.tool("files", write)
    explained: list[str] = []
    call = bot.propose("files/write", {"path": "/etc/passwd"})
    await until(lambda: human.proposals.get(call.id))
    reject = await human.reject(call.id, "policy")
    with pytest.raises(ProposalRejected, match="Proposal rejected by human: policy"):
        await call

    def hear(chat: Envelope) -> None:
        if reject.id in chat.correlation_id:
            explained.append(chat.payload["text"])

    bot.on_chat(hear)
    await human.chat("Nothing is written below /etc.", to="bot", correlation_id=reject.id)
    await until(lambda: explained)
    assert explained == ["Nothing is written below /etc."]
    # The rejection went out alone and at once: it is the human's first message after the proposal, complete without
    # the explanation, which names it.
    decided = [envelope for envelope in site.sent() if envelope.sender == "human"]
    assert [envelope.kind for envelope in decided] == ["mcp/reject", "chat"]
    assert (decided[0].id, decided[0].payload) == (reject.id, {"reason": "policy"})


@pytest.mark.req("P-10.2-1")
async def test_what_became_of_a_proposal_is_known_by_those_who_take_part_and_asked_of_no_gateway(
    site: Site,
) -> None:
    human, bot = await site.seat("human"), await site.seat("bot", PROPOSER)
    await site.tool("files", write)
    call = bot.propose("files/write", {"path": "/tmp/a"}, timeout=0.05)
    await until(lambda: human.proposals.get(call.id))
    for book in (human.proposals, bot.proposals):
        proposal = book.get(call.id)
        assert proposal is not None and (proposal.proposer, proposal.to, proposal.method, proposal.tool) == (
            "bot",
            ("files",),
            "tools/call",
            "write",
        )
        assert proposal.payload["params"]["arguments"] == {"path": "/tmp/a"} and proposal.envelope.ts
        assert proposal.state == "open"
    with pytest.raises(NoReply, match="withdrawn"):
        await call
    await until(lambda: human.proposals.get(call.id).state == "withdrawn")  # type: ignore[union-attr]
    assert {envelope.kind for envelope in site.sent() if envelope.correlation_id == (call.id,)} == {
        "mcp/withdraw"
    }
    # The gateway keeps the id, which nobody else may take, and nothing that is said of the proposal.
    kept = repr(vars(site.space.state))
    assert call.id in kept and "/tmp/a" not in kept and "files/write" not in kept


# --- reasoning ---


@pytest.mark.req("P-3.5.1-5", "P-3.5.1-7")
async def test_reasoning_begins_without_a_request_and_may_end_without_a_conclusion(site: Site) -> None:
    await site.seat("human")
    model = Script(ModelFailed("down", model="m"), Reply("Fine."))
    agent = await site.agent("agent", model)
    assert (await agent.ask("Look around")).how == "failed"
    assert (await agent.ask("Look again")).text == "Fine."
    first, second = site.sent("reasoning/start")
    assert first.correlation_id == second.correlation_id == ()
    assert [envelope.context for envelope in site.sent("reasoning/conclusion")] == [second.id]
    assert site.sent("chat", sender="agent") == []


@pytest.mark.req("P-3.4-5")
async def test_chat_is_no_business_of_mcp(site: Site) -> None:
    human, other = await site.seat("human"), await site.seat("other")
    chats: list[Envelope] = []
    requests: list[Envelope] = []
    other.on_chat(chats.append)
    other.on_mcp_request(requests.append)
    await human.chat('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', to="other")
    await until(lambda: chats)
    assert set(chats[0].payload) == {"text"} and chats[0].kind == "chat" and requests == []
    assert [envelope.kind for envelope in site.sent() if envelope.kind.startswith("mcp/")] == []


# --- layers ---


@pytest.mark.req("S-G-1")
async def test_an_agent_has_a_participant_and_that_has_a_client(site: Site) -> None:
    agent = await site.agent("agent", Script())
    assert type(agent.participant) is MEWParticipant and type(agent.participant.client) is MEWClient
    assert not issubclass(MEWAgent, MEWParticipant) and not issubclass(MEWParticipant, MEWClient)


@pytest.mark.req("S-G-5")
def test_the_agent_connects_to_nothing_discovers_nothing_and_keeps_no_tools() -> None:
    below = {"transport", "sdk.client", "sdk.connection", "sdk.discovery", "sdk.scheduler"}
    imports = []
    for path in sorted(Path(mew_lab.agent.__path__[0]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            name = module.removeprefix("mew_lab.")
            if name in below or name.startswith("transport"):
                imports.append(f"{path.name} imports {module}")
    assert imports == []


@pytest.mark.req("S-L3-28")
async def test_whatever_a_participant_and_its_tool_are_called_they_are_used(site: Site) -> None:
    who, tool = f"p-{uuid.uuid4().hex[:12]}", f"t_{uuid.uuid4().hex[:12]}"
    human = await site.seat(f"h-{uuid.uuid4().hex[:8]}")
    await site.tool(who, lambda: "found", name=tool)
    model = Script(wants(f"{who}/{tool}"))
    name = f"a-{uuid.uuid4().hex[:8]}"
    await site.agent(name, model)
    await human.chat("Go", to=name)
    await site.answer(name)
    assert model.offered[0] == [f"{who}/{tool}"]
    assert [message.content for message in model.asked[1] if message.role == "tool"] == ["found"]


@pytest.mark.req("S-SEC-6")
async def test_a_tool_runs_in_the_process_of_its_participant(site: Site) -> None:
    human = await site.seat("human")
    await site.tool("here", lambda: str(os.getpid()), name="where")
    assert (await human.call("here/where")).text == str(os.getpid())


@pytest.mark.req("P-3.10.1-3")
async def test_a_stream_needs_neither_description_nor_type_nor_format_nor_metadata(site: Site) -> None:
    human = await site.seat("human")
    stream = await human.streams.request_stream()
    [request] = site.sent("stream/request")
    assert request.payload == {"direction": "upload"}
    assert (stream.description, stream.content_type, stream.format, stream.metadata) == (None, None, None, {})
