"""A token and an API key through the whole life of an agent: they are nowhere to be seen."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import pytest

from mew_lab.agent.agent import MEWAgent
from mew_lab.agent.completions import CompletionsModel
from mew_lab.errors import MewError, ModelFailed, NotAdmitted
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.server import Limits, Server
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.space.events import Record

from .conftest import CALLER
from .llm_server import Answer, ChatServer, called, refused, text_answer

KEY = "sk-canary-7Qx9vT2mLrZ4wB8nPa51"


class Ear(logging.Handler):
    """Keeps each record of every logger as a formatter writes it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def locals_of(fault: BaseException) -> str:
    """What a traceback with locals shows: every frame's, of every cause."""
    shown: list[str] = []
    faults: list[BaseException | None] = [fault]
    while faults:
        fault = faults.pop()
        if fault is None:
            continue
        shown += traceback.format_exception(fault)
        trace: TracebackType | None = fault.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != __file__:  # a test's own frame holds what it plants
                shown += [f"{name}={value!r}" for name, value in trace.tb_frame.f_locals.items()]
            trace = trace.tb_next
        faults += [fault.__cause__, fault.__context__]
    return "\n".join(shown)


@pytest.mark.threat(1, 2)
async def test_no_secret_of_an_agent_is_seen_in_its_whole_life(caplog: pytest.LogCaptureFixture) -> None:
    records: list[Record] = []
    gateway = Gateway(observe=records.append)
    gateway.add_space(SpaceConfig(name="demo"))
    for name, can in (("human", [{"kind": "*"}]), ("agent", CALLER), ("tool", PROFILES["tool"])):
        gateway.enrol("demo", name, can)
    server = Server(gateway, limits=Limits(refusal_delay=0.0))
    await server.start()
    ear, root = Ear(), logging.getLogger()
    before = {name: logging.getLogger(name).level for name in ("", "mew_lab", "openai", "httpx", "httpcore")}
    for name in before:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.addHandler(ear)
    logging.getLogger("mew_lab").addHandler(ear)
    shown: list[str] = []
    tokens = {name: gateway.tokens.mint("demo", name) for name in ("human", "agent", "tool")}
    secrets = [KEY, *(token.reveal() for token in tokens.values())]
    url = f"ws://127.0.0.1:{server.port}"

    def participant(name: str) -> MEWParticipant:
        return MEWParticipant(gateway=url, space="demo", token=tokens[name])

    human, tool = participant("human"), participant("tool")

    def quotes(n: int) -> str:
        if n:
            raise ValueError(f"could not log in with {KEY} as {secrets[2]}")
        return f"the key is {KEY}, the token {secrets[2]}"

    tool.tools.add(quotes)
    echo = [
        lambda request: refused(401, f"bad key {request.headers['authorization']}"),
        lambda request: called(("1", "tool_quotes", '{"n": 0}')),
        lambda request: called(("2", "tool_quotes", '{"n": 1}'), text=f"with {KEY}"),
        lambda request: text_answer("Your key is ", KEY[:9], KEY[9:], ", I think."),
        lambda request: Answer([b"nonsense " + KEY.encode()]),
    ]
    script: list[Any] = list(echo)
    try:
        async with ChatServer(script) as llm:
            model = CompletionsModel("m", base_url=llm.url, api_key=KEY, max_retries=0)
            agent = MEWAgent(participant("agent"), model=model)
            faults: list[Exception] = []
            for holder in (human, tool, agent.participant):
                holder.client.on_error(faults.append)
            await tool.start()
            await human.start()
            await agent.start()
            await agent.participant.discovery.wait_for_pending_discoveries(5)
            for n in range(3):
                shown.append(await asyncio.wait_for(human.ask(f"Question {n}?", "agent"), 20))
            assert "401" in shown[0] and "I think" in shown[1]
            with pytest.raises(ModelFailed) as failed:
                await CompletionsModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY).reply([])
            shown.append(locals_of(failed.value))
            status = await human.telemetry.request_participant_status("agent")
            shown += [str(status), repr(agent), repr(agent.model), repr(agent.options), str(agent.status())]
            shown += [repr(vars(holder)) for holder in (agent, model)]
            await agent.stop()
            assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in llm.requests)
            stranger = MEWAgent(gateway=url, space="demo", token=KEY + "-wrong", model=model)
            with pytest.raises(NotAdmitted) as refusal:
                await stranger.start()
            shown += [locals_of(refusal.value), repr(stranger)]
            nowhere = MEWAgent(gateway="ws://127.0.0.1:9", space="demo", token=tokens["agent"], model=model)
            with pytest.raises(MewError) as lost:
                await nowhere.start()
            shown += [locals_of(lost.value), *map(repr, faults), *map(locals_of, faults)]
            bodies = "\n".join(str(request.body) for request in llm.requests)
    finally:
        root.removeHandler(ear)
        logging.getLogger("mew_lab").removeHandler(ear)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
        for holder in (human, tool):
            await holder.stop()
        await server.stop()
        gateway.close()
    said_by_agent = "\n".join(
        record.raw or ""
        for record in records
        if record.participant == "agent" or '"from":"agent"' in (record.raw or "")
    )
    everything = {
        "shown": "\n".join(shown),
        "log": "\n".join(ear.lines),
        "agent": said_by_agent,
        "llm": bodies,
    }
    assert len(ear.lines) > 20 and len(said_by_agent) > 1000
    for place, text in everything.items():
        for secret in secrets:
            assert secret not in text, (
                f"{secret[:6]}… stands in {place}: {text[max(0, text.find(secret) - 300) :][:400]}"
            )


async def test_an_error_of_a_model_of_ones_own_that_quotes_a_key_is_said_without_it() -> None:
    class Quotes:
        name, max_tokens = "quotes", None

        async def reply(self, messages: Any, **more: Mapping[str, Any]) -> Any:
            raise ModelFailed(f"the server did not take {KEY}", model="quotes")

        async def aclose(self) -> None: ...

    CompletionsModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    outcome = await MEWAgent(gateway="ws://127.0.0.1:9", token="t" * 20, model=Quotes()).ask("Go")
    assert outcome.how == "failed" and "did not take" in outcome.text and KEY not in outcome.text
