"""An agent that is stopped, paused, cut off, restarted or kicked in the midst of its work: what is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.model import Reply
from mew_lab.sdk.stream import Stream

from .conftest import CALLER, PROPOSER, Script, Site, until, wants

TOKYO = "weather-service/weather"


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 22°C"


class Gate:
    """A reply that waits until it is let through; `reached` once the model was asked."""

    def __init__(self, reply: Reply) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self._reply = reply

    async def __call__(self) -> Reply:
        self.reached.set()
        await self.go.wait()
        return self._reply


@pytest.fixture
async def nothing_is_left(site: Site) -> AsyncIterator[Callable[[], Any]]:
    """Fails where a task goes on, or asyncio was told of a fault, once everybody has left."""
    before = asyncio.all_tasks()
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: contexts.append(context) if "exception" in context else None
    )
    yield lambda: None
    for agent in site.agents:
        await agent.stop()
    for participant in site.seated:
        await participant.stop()
    before.add(asyncio.current_task())  # type: ignore[arg-type]
    await until(lambda: asyncio.all_tasks() <= before, what="the end of all tasks")
    assert contexts == []
    for agent in site.agents:
        participant = agent.participant
        assert not agent.runs and not agent.tasks and not participant.streams.mine
        assert len(participant.correlations) == 0


async def no_open_ends(site: Site, sender: str) -> None:
    """All that somebody proposed is withdrawn, all streams are closed, all reasoning has ended."""

    def ended() -> bool:
        proposed = {envelope.id for envelope in site.sent("mcp/proposal", sender=sender)}
        decided = {
            id for envelope in site.sent("mcp/withdraw", "mcp/request") for id in envelope.correlation_id
        }
        starts = {envelope.id for envelope in site.sent("reasoning/start", sender=sender)}
        ends = {envelope.context for envelope in site.sent("reasoning/conclusion", "reasoning/cancel")}
        opened = {envelope.payload["stream_id"] for envelope in site.sent("stream/open")}
        closed = {envelope.payload["stream_id"] for envelope in site.sent("stream/close")}
        return proposed <= decided and starts <= ends and opened <= closed

    await until(ended, what="the end of every proposal, reasoning and stream")


# --- cancelled ---


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.req("P-3.5.5-4", "S-L3-10", "S-L3-11")
@pytest.mark.parametrize("at", range(4))
async def test_wherever_it_waits_a_cancel_stops_it_within_the_step(site: Site, at: int) -> None:
    human = await site.seat("human")
    asked = asyncio.Event()

    async def never() -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    await site.tool("weather-service", never, name="weather")
    first, second = Gate(wants(TOKYO)), Gate(Reply("Late."))
    agent = await site.agent("agent", Script(first, second), can=PROPOSER, call_timeout=None)
    question = await human.chat("How is Tokyo?", to="agent")
    await first.reached.wait()
    if at > 0:
        first.go.set()
        proposal = await site.proposal("agent", human)
    if at > 1:
        await human.approve(proposal.id)
        await asked.wait()
    if at > 2:
        request = site.sent("mcp/request", sender="human")[-1]
        payload = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
        weather_service = next(
            participant for participant in site.seated if participant.client.id == "weather-service"
        )
        await weather_service.send_accepted(
            {"kind": "mcp/response", "to": ["human"], "correlation_id": [request.id], "payload": payload}
        )
        await second.reached.wait()
    start = await site.first("reasoning/start")
    for _ in range(2):  # whoever cancels twice changes nothing
        await human.controls.cancel_reasoning(start.id, reason="superseded")
    await until(lambda: not agent.runs)
    first.go.set()
    second.go.set()
    later = await human.chat("Still there?", to="agent")
    assert (await site.answer("agent", 2)).correlation_id == (later.id,)
    answer, _ = site.sent(
        "chat", sender="agent"
    )  # D1: whoever cancels still waits for the answer, and gets one
    assert answer.correlation_id == (question.id,) and answer.to == ("human",)
    assert "human cancelled it (superseded)" in answer.payload["text"]
    withdrawn = {id for envelope in site.sent("mcp/withdraw") for id in envelope.correlation_id}
    assert withdrawn == ({proposal.id} if at == 1 else set())


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_cancel_while_its_stream_is_being_opened_closes_that_stream(site: Site) -> None:
    human = await site.seat("human")
    gate = Gate(Reply("Late."))
    agent = await site.agent("agent", Script(gate))
    cancelled: list[object] = []

    def cut_in(envelope: Any) -> None:
        if envelope.kind == "stream/request" and not cancelled:
            cancelled.append(envelope)
            for run in agent.runs.values():
                asyncio.get_running_loop().create_task(agent.cancel(run.context))

    agent.participant.client.on_message(cut_in)
    await human.chat("Hello", to="agent")
    await until(lambda: cancelled and not agent.runs)
    await no_open_ends(site, "agent")


@pytest.mark.usefixtures("nothing_is_left")
async def test_who_asked_for_work_and_waits_no_longer_ends_it_in_the_space_too(site: Site) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    agent = await site.agent("agent", Script(wants(TOKYO, {"city": "Tokyo"})), can=PROPOSER)
    asking = asyncio.create_task(agent.ask("How is Tokyo?"))
    await site.proposal("agent", human)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await no_open_ends(site, "agent")


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_model_that_swallows_the_cancel_is_not_listened_to(site: Site) -> None:
    human = await site.seat("human")
    reached = asyncio.Event()

    async def stubborn() -> Reply:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return wants(TOKYO, {"city": "Tokyo"})

    await site.tool("weather-service", weather)
    agent = await site.agent("agent", Script(stubborn))
    await human.chat("How is Tokyo?", to="agent")
    await reached.wait()
    await agent.cancel_all("cancelled")
    await until(lambda: not agent.runs and not agent.tasks)
    assert [envelope.payload["text"] for envelope in site.sent("chat", sender="agent")] == [
        "Stopped: cancelled."
    ]
    calls = [
        envelope
        for envelope in site.sent("mcp/request", sender="agent")
        if envelope.payload["method"] == "tools/call"
    ]
    assert calls == []


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("judged", [False, True])
async def test_a_question_taken_back_before_the_work_begins_is_not_answered(site: Site, judged: bool) -> None:
    human = await site.seat("human")
    sure = Gate(Reply('{"shouldRespond": true, "confidence": 0.9, "reason": "I can"}'))
    model = Script(*([sure] if judged else []))
    agent = await site.agent("agent", model)
    if judged:
        asked = await human.chat("How is Tokyo?")
        await sure.reached.wait()
        await human.cancel_chat(asked.id)
        await until(lambda: agent.participant.chats.cancelled(asked.id))
        sure.go.set()
    else:
        asked = human.client.post({"kind": "chat", "to": ["agent"], "payload": {"text": "How is Tokyo?"}})
        human.client.post(
            {"kind": "chat/cancel", "correlation_id": [asked.id], "payload": {"reason": "no_longer_needed"}}
        )
    await until(lambda: agent.participant.chats.cancelled(asked.id) and not agent.tasks)
    assert site.sent("chat", "reasoning/start", sender="agent") == []


# --- stopped and started ---


@pytest.mark.usefixtures("nothing_is_left")
async def test_stopped_while_its_model_judges_a_message_it_leaves_at_once(site: Site) -> None:
    human = await site.seat("human")
    gate = Gate(Reply('{"shouldRespond": true, "confidence": 0.9, "reason": "I can"}'))
    agent = await site.agent("agent", Script(gate))
    await human.chat("How is Tokyo?")
    await gate.reached.wait()
    await agent.stop()
    assert not agent.tasks and site.sent("chat", "chat/acknowledge", sender="agent") == []


@pytest.mark.usefixtures("nothing_is_left")
async def test_started_twice_at_once_it_hears_once_and_both_wait_for_the_welcome(site: Site) -> None:
    human = await site.seat("human")
    agent = MEWAgent(site.prepare("agent", CALLER), model=Script())
    site.agents.append(agent)
    states: list[str] = []

    async def start() -> None:
        await agent.start()
        states.append(agent.participant.client.state)

    await asyncio.gather(start(), start())
    assert states == ["ready", "ready"]
    await human.chat("Hello", to="agent")
    await site.answer("agent")
    await until(lambda: not agent.tasks)
    assert len(site.sent("chat", sender="agent")) == 1


@pytest.mark.usefixtures("nothing_is_left")
async def test_stopped_and_started_again_it_works_as_before(site: Site) -> None:
    human = await site.seat("human")
    agent = await site.agent("agent", Script())
    for _ in range(3):
        await agent.stop()
        await agent.start()
    await human.chat("Hello", to="agent")
    await site.answer("agent")
    await until(lambda: not agent.tasks)
    assert len(site.sent("chat", sender="agent")) == 1
    await human.send_accepted({"kind": "participant/compact", "payload": {}, "to": ["agent"]})
    await site.first("participant/compact-done", "agent")
    assert len(site.sent("participant/compact-done", sender="agent")) == 1


@pytest.mark.usefixtures("nothing_is_left")
async def test_shut_down_by_somebody_it_can_be_started_again(site: Site) -> None:
    human = await site.seat("human")
    gate = Gate(Reply("Late."))
    agent = await site.agent("agent", Script(gate))
    await human.chat("Hello", to="agent")
    await gate.reached.wait()
    await human.controls.shutdown("agent")
    await until(lambda: agent.participant.client.state == "disconnected" and not agent.runs)
    await agent.start()
    await human.chat("Hello again", to="agent")
    assert (await site.answer("agent")).payload["text"] == "done"


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_restart_ends_the_work_before_the_model_hears_of_it(site: Site) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    model = Script(wants(TOKYO, {"city": "Tokyo"}), Reply("Late."))
    agent = await site.agent("agent", model, can=PROPOSER)
    await human.chat("How is Tokyo?", to="agent")
    await site.proposal("agent", human)
    await until(lambda: agent.participant.streams.mine)

    async def slowly(reason: str) -> list[Stream]:
        for _ in range(50):  # time enough for whoever goes on
            await asyncio.sleep(0)
        return []

    agent.participant.streams.close_all = slowly  # type: ignore[method-assign]
    await human.controls.restart("agent")
    await until(
        lambda: [
            envelope
            for envelope in site.sent("participant/status")
            if envelope.payload.get("status") == "restarted"
        ]
    )
    assert len(model.asked) == 1
    assert [envelope.payload["text"] for envelope in site.sent("chat", sender="agent")] == [
        "Stopped: restart."
    ]
    await no_open_ends(site, "agent")


# --- paused ---


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.req("P-3.9.1-1")
@pytest.mark.parametrize("again", [False, True])
async def test_paused_in_the_midst_it_goes_on_and_answers_when_resumed(site: Site, again: bool) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    gates = Gate(wants(TOKYO, {"city": "Tokyo"})), Gate(Reply("22°C."))
    agent = await site.agent("agent", Script(*gates))
    asked = await human.chat("How is Tokyo?", to="agent")
    for gate in gates if again else gates[1:]:
        if gate is gates[1]:
            gates[0].go.set()
        await gate.reached.wait()
        await human.controls.pause("agent", reason="look here")
        await until(lambda: agent.participant.controls.pause_state)
        gate.go.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert site.sent("chat", sender="agent") == []
        await human.controls.resume("agent")
    answer = await site.answer("agent")
    assert answer.payload["text"] == "22°C." and answer.correlation_id == (asked.id,)
    await no_open_ends(site, "agent")
    assert [record.raw for record in site.records if record.verdict == "refused"] == []


@pytest.mark.usefixtures("nothing_is_left")
async def test_an_answer_that_meets_a_pause_on_its_way_is_said_after_it(site: Site) -> None:
    human = await site.seat("human")
    agent = await site.agent("agent", Script(), reasoning_enabled=False)
    paused: list[object] = []

    def cut_in(kind: str) -> None:  # the gateway takes the pause before the answer, the agent hears it after
        if kind == "chat" and not paused:
            paused.append(kind)
            raw = human.client.complete({"kind": "participant/pause", "to": ["agent"], "payload": {}}).raw
            site.links["human"].put(raw)  # type: ignore[attr-defined]

    agent.participant.client.add_guard(cut_in)
    await human.chat("Hello", to="agent")
    await until(lambda: agent.participant.controls.pause_state)
    for _ in range(20):
        await asyncio.sleep(0)
    assert [record.code for record in site.records if record.verdict == "refused"] == ["paused"]
    assert site.sent("chat", sender="agent") == []
    await human.controls.resume("agent")
    assert (await site.answer("agent")).payload["text"] == "done"


# --- cut off ---


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("where", ["model", "call"])
async def test_a_link_that_breaks_and_comes_back_costs_no_answer(site: Site, where: str) -> None:
    human = await site.seat("human")
    called = asyncio.Event()

    async def never() -> str:
        called.set()
        await asyncio.Event().wait()
        return ""

    await site.tool("weather-service", never, name="weather")
    gate = Gate(Reply("I do not know."))
    agent = await site.agent("agent", Script(*([wants(TOKYO)] if where == "call" else []), gate))
    asked = await human.chat("How is Tokyo?", to="agent")
    await (gate.reached if where == "model" else called).wait()
    site.links["agent"].shut(1006, "the cable")  # type: ignore[attr-defined]
    if where == "model":
        gate.go.set()
    else:
        await gate.reached.wait()
        gate.go.set()
    answer = await site.answer("agent")
    assert answer.correlation_id == (asked.id,) and agent.participant.client.state == "ready"
    await until(lambda: not agent.tasks)
    assert len(site.sent("chat", sender="agent")) == 1
    assert len(site.sent("reasoning/conclusion")) == 1


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("how", ["kicked", "gateway gone", "token gone"])
async def test_cut_off_for_good_it_ends_its_work_and_says_how_it_stands(site: Site, how: str) -> None:
    human = await site.seat("human")
    gates = Gate(Reply("Late.")), Gate(Reply("Late, too."))
    agent = await site.agent("agent", Script(*gates))
    await human.chat("How is Tokyo?", to="agent")
    own = asyncio.create_task(agent.ask("Look around"))
    await gates[1].reached.wait()
    if how == "kicked":
        await human.send_accepted({"kind": "space/kick", "payload": {"participant_id": "agent"}})
    elif how == "token gone":
        site.links["agent"].shut(4401, "the token is unknown")  # type: ignore[attr-defined]
    else:
        site.gateway.close(1001)
    outcome = await own
    assert outcome.how == "stopped" and not agent.runs
    await until(lambda: not agent.tasks)
    assert agent.status()["state"] == "disconnected" and agent.participant.client.failure is not None


# --- rights that come and go ---


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_right_that_goes_in_the_midst_becomes_an_observation(site: Site) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    gate = Gate(wants(TOKYO, {"city": "Tokyo"}))
    model = Script(gate, Reply("I may not ask any more."))
    agent = await site.agent("agent", model, can=CALLER)
    await human.chat("How is Tokyo?", to="agent")
    await gate.reached.wait()
    for kind in ("mcp/request", "mcp/proposal"):
        await human.rights.revoke("agent", capabilities=[{"kind": kind}])
    await until(
        lambda: not agent.participant.can_send("mcp/request", {"method": "tools/call"}, "weather-service")
    )
    gate.go.set()
    assert (await site.answer("agent")).payload["text"] == "I may not ask any more."
    [observation] = [message.content for message in model.asked[1] if message.role == "tool"]
    assert observation.startswith("Error:") and "mcp/request" in observation
    assert model.offered == [[TOKYO], []]


@pytest.mark.usefixtures("nothing_is_left")
async def test_after_a_grant_it_asks_itself_what_it_proposed_before(site: Site) -> None:
    human = await site.seat("human")
    await site.tool("weather-service", weather)
    gate = Gate(wants(TOKYO, {"city": "Kyoto"}))
    agent = await site.agent("agent", Script(wants(TOKYO, {"city": "Tokyo"}), gate), can=PROPOSER)
    await human.chat("How are Tokyo and Kyoto?", to="agent")
    proposal = await site.proposal("agent", human)
    await human.approve(proposal.id)
    await gate.reached.wait()
    may = {"kind": "mcp/request", "to": "weather-service", "payload": {"method": "tools/call"}}
    await human.rights.grant("agent", [may])
    payload = {"method": "tools/call", "params": {"name": "weather"}}
    await until(lambda: agent.participant.can_send("mcp/request", payload, "weather-service"))
    gate.go.set()
    await site.answer("agent")
    calls = [envelope for envelope in site.sent("mcp/request") if envelope.payload["method"] == "tools/call"]
    assert [(envelope.sender, envelope.payload["params"]["arguments"]["city"]) for envelope in calls] == [
        ("human", "Tokyo"),
        ("agent", "Kyoto"),
    ]
    assert len(site.sent("mcp/proposal")) == 1


@pytest.mark.usefixtures("nothing_is_left")
async def test_an_answer_to_what_was_taken_back_during_the_pause_is_not_said(site: Site) -> None:
    human = await site.seat("human")
    agent = await site.agent("agent", Script(), reasoning_enabled=False)
    paused: list[object] = []

    def cut_in(kind: str) -> None:
        if kind == "chat" and not paused:
            paused.append(kind)
            raw = human.client.complete({"kind": "participant/pause", "to": ["agent"], "payload": {}}).raw
            site.links["human"].put(raw)  # type: ignore[attr-defined]

    agent.participant.client.add_guard(cut_in)
    asked = await human.chat("Hello", to="agent")
    await until(lambda: agent.participant.controls.pause_state and not agent.runs)
    await human.cancel_chat(asked.id, "agent", "no_longer_needed")
    await until(lambda: agent.participant.chats.cancelled(asked.id))
    await human.controls.resume("agent")
    await until(lambda: not agent.tasks)
    assert site.sent("chat", sender="agent") == []


@pytest.mark.usefixtures("nothing_is_left")
async def test_asked_while_it_is_paused_it_begins_when_it_is_resumed(site: Site) -> None:
    human = await site.seat("human")
    agent = await site.agent("agent", Script())
    await human.controls.pause("agent")
    await until(lambda: agent.participant.controls.pause_state)
    asked = await human.chat("Hello", to="agent")
    await until(lambda: agent.runs)
    await human.controls.resume("agent")
    assert (await site.answer("agent")).correlation_id == (asked.id,)
    [start] = site.sent("reasoning/start")
    assert start.correlation_id == (asked.id,)
    await no_open_ends(site, "agent")
