"""The progress of a call through a gate: that of the decision, then that of the tool, as one that only rises."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from mcp import Client

from mew_lab.bridge import client_request
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.protocol.permit import PROFILES
from mew_lab.sdk.progress import PROGRESS, progress_relay

from .conftest import until
from .desk import Desk, text
from .over_http import TOKEN, client_over_http


class Reports(list[tuple[float, float | None, str | None]]):
    """What a client was told of progress: the number, the total, the text."""

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        self.append((progress, total, message))

    @property
    def texts(self) -> list[str | None]:
        return [text for _, _, text in self]


class Baker:
    """The participant `baker`, whose tool `bake` reports each step when it is told to."""

    def __init__(self, desk: Desk) -> None:
        self.participant = desk.site.prepare("baker", "tool")
        self.steps: asyncio.Queue[float | None] = asyncio.Queue()
        self.participant.register_tool(self.bake)

    async def bake(self, loaves: int) -> str:
        """Bakes."""
        report = progress_relay(self.participant)
        while (step := await self.steps.get()) is not None:
            if report is not None:
                await report(step, 100, f"{step:g} %")
        return f"{loaves} loaves"


@pytest.fixture
async def baker(desk: Desk) -> Baker:
    made = Baker(desk)
    await made.participant.start()
    return made


async def test_after_the_decision_a_client_gets_what_the_tool_reports_and_its_numbers_only_rise(
    desk: Desk, baker: Baker, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_request, "PROGRESS_EVERY", 0.05)
    reports = Reports()

    async with desk.gate() as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        async with client_over_http(server, mode) as client:
            call = asyncio.create_task(
                client.call_tool("baker_bake", {"loaves": 2}, progress_callback=reports.take)
            )
            id = await desk.proposed()
            await until(lambda: len(reports) > 2)
            assert {text for _, _, text in reports} == {"baker/bake waits for a person's approval"}
            await desk.human.approve(id)
            for step in (0, 50):
                baker.steps.put_nowait(step)
                # a silent tool: its client goes on to be told, and the relay of the tool is not sparing
                await until(lambda step=step: reports.texts.count(f"{step} %") > 3)
            baker.steps.put_nowait(100)
            baker.steps.put_nowait(None)
            assert text(await call) == "2 loaves"
    numbers = [number for number, _, _ in reports]
    assert all(earlier < later for earlier, later in itertools.pairwise(numbers))
    [waited] = {total - 100 for _, total, _ in reports if total is not None}
    assert numbers[reports.texts.index("0 %") - 1] <= waited + 1e-9
    for step in (0, 50, 100):
        assert numbers[reports.texts.index(f"{step} %")] == pytest.approx(waited + step)


async def test_progress_of_others_or_before_the_approval_is_not_believed(desk: Desk, baker: Baker) -> None:
    liar = await desk.site.seat("liar", [*PROFILES["tool"], {"kind": "mcp/request"}])
    reports = Reports()
    async with desk.gate() as gate, Client(gate.server, mode="legacy") as client:
        bake = client.call_tool("baker_bake", {"loaves": 2}, progress_callback=reports.take)
        call = asyncio.create_task(bake)
        id = await desk.proposed()
        proposal = desk.card(id)
        report = {**proposal.payload["params"]["_meta"], "progress": 7, "message": "a lie"}
        await baker.participant.notify(PROGRESS, report, to="human")
        await desk.human.approve(id)
        await liar.notify(PROGRESS, report, to="human")
        for wrong in ({"progress": -1}, {"progress": "7"}, {"progress": True}, {"progress": 1e300}):
            await baker.participant.notify(PROGRESS, {**report, **wrong}, to="human")
        baker.steps.put_nowait(100)
        baker.steps.put_nowait(None)
        assert text(await call) == "2 loaves"
    assert reports == [(100, 100, "100 %")]


async def test_a_client_that_wants_no_progress_gives_the_tool_no_token(desk: Desk, mode: str) -> None:
    async with desk.gate() as gate, Client(gate.server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("calc_add", {"a": 2, "b": 3}))
        id = await desk.proposed()
        proposal = desk.card(id)
        assert set(proposal.payload["params"]) == {"name", "arguments"}
        await desk.human.approve(id)
        assert text(await call) == "5"
