"""Equal calls of sessions, of parallel requests and of repeats: as many cards as calls, as many executions as approvals.

A state machine plays clients of several gates in random order: sessions that call, repeat, give up, cancel, end and break,
requests without a session in rounds, gates that are restarted, and people that approve. A model says which call each
request attaches to, from the rule alone: the oldest equal call of its gate that no request, no round and no other live
session holds.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mew_lab.bridge.call_memory import CallMemory
from mew_lab.bridge.gate import McpGate
from mew_lab.bridge.mcp_http import McpHttpServer
from mew_lab.sdk.request_server import ASKED

from .conftest import until
from .desk import PROPOSER, Desk, patient, text
from .over_http import BEARER, TOKEN, client_over_http, open_session

CALL = {"a": 2, "b": 3}


async def cards(desk: Desk, count: int) -> list[str]:
    """The ids of the open proposals, once there are so many, the oldest first."""
    await until(lambda: len(desk.open) >= count)
    assert len(desk.open) == count
    return [proposal.id for proposal in desk.open]


# --- with the official client, over HTTP ---


async def test_equal_calls_of_two_sessions_are_two_cards_and_each_gets_its_own_answer(
    desk: Desk, mode: str
) -> None:
    async with (
        desk.gate() as gate,
        McpHttpServer(gate.server, token=TOKEN) as server,
        client_over_http(server, mode) as first,
        client_over_http(server, mode) as second,
    ):
        calls = []
        for count, client in enumerate((first, second), 1):
            calls.append(asyncio.create_task(client.call_tool("calc_add", CALL)))
            await until(lambda count=count: len(desk.open) == count)
        one, other = await cards(desk, 2)
        await desk.human.reject(one, "not now")
        await desk.human.approve(other)
        results = [await call for call in calls]
    assert [result.is_error for result in results] == [True, False]
    assert text(results[1]) == "5" and desk.executed == [(2, 3)]


async def test_a_session_neither_takes_nor_withdraws_nor_reads_the_call_of_another_that_lives(
    desk: Desk,
) -> None:
    async with desk.gate(answer_after=0.02) as gate, McpHttpServer(gate.server, token=TOKEN) as server:
        async with client_over_http(server, "legacy") as first:
            id = (await first.call_tool("calc_add", CALL)).meta["mew-lab/proposal"]
            async with client_over_http(server, "legacy") as second:
                other = (await second.call_tool("calc_add", CALL)).meta["mew-lab/proposal"]
                assert other != id
                for tool in ("proposal_withdraw", "proposal_result"):
                    told = await second.call_tool(tool, {"proposal": id})
                    assert told.is_error and text(told).startswith(f"There is no call {id} of this client")
                # Its own repeat takes its own call, whatever the other one has.
                assert (await first.call_tool("calc_add", CALL)).meta["mew-lab/proposal"] == id
            # The second session has ended, so what it left is free.
            assert {one.id for one in desk.open} == {id, other}
            await desk.human.approve(other)
            await until(lambda: desk.executed)
            assert (await first.call_tool("calc_add", CALL)).meta["mew-lab/proposal"] == id
            assert text(await first.call_tool("proposal_result", {"proposal": other})) == "5"
    assert desk.executed == [(2, 3)]


# --- in random order ---

ACCEPT = {"Accept": "application/json, text/event-stream"}
FOREVER = 1e6  # seconds


class Session:
    """A client of the handshake era, which speaks for itself so that it can break off anywhere."""

    def __init__(self, world: World, gate: str, headers: dict[str, str]) -> None:
        self.world = world
        self.gate = gate
        self.headers = headers
        self.is_live = True
        self.requests = 0


class CallModel:
    """One call as the rule has it: `id` is its proposal, `request` the one that is attached to it."""

    def __init__(self, gate: str) -> None:
        self.gate = gate
        self.id = ""
        self.request: Asked | None = None
        self.session: Session | None = None
        self.round: Asked | None = None
        self.is_cancelled = self.has_ended = self.is_delivered = self.is_lost = False

    def is_free_for(self, session: Session | None) -> bool:
        if self.is_delivered or self.request is not None or self.round is not None:
            return False
        return self.session is None or self.session is session or not self.session.is_live


class Asked:
    """One request of a client, with the call that it must be attached to."""

    def __init__(
        self, call: CallModel, session: Session | None, number: int, task: asyncio.Task[Any]
    ) -> None:
        self.call = call
        self.session = session
        self.number = number
        self.task = task
        self.rounds = 0
        self.state: str | None = None


class World:
    """A space with a tool that answers with the id of the proposal for which it runs, two gates, and their clients."""

    def __init__(self, desk: Desk, folder: Path, leap: Callable[[float], None], dice: Random) -> None:
        self.desk = desk
        self.folder = folder
        self.leap = leap
        self.dice = dice
        self.gates: dict[str, McpGate] = {}
        self.memories: dict[str, CallMemory] = {}
        self.servers: dict[str, McpHttpServer] = {}
        self.sessions: list[Session] = []
        self.calls: list[CallModel] = []
        self.rounds: list[Asked] = []
        self.executed: list[str] = []
        self.approved: list[str] = []
        self.taken = 0  # repeats that took a call

    async def begin(self) -> None:
        def stamp() -> str:
            "Returns the id of the proposal for which it runs."
            request = ASKED.get()
            self.executed.append(request.correlation_id[0])
            return request.correlation_id[0]

        await self.desk.site.tool("press", stamp)
        for name in ("coder", "coder2"):
            await self.start(name)

    async def start(self, name: str) -> None:
        gate = self.gates[name] = McpGate(
            self.desk.site.prepare(name, PROPOSER),
            grace=FOREVER, decide_within=FOREVER, run_within=FOREVER, withdraw_after=FOREVER,
            memory=self.memories.setdefault(name, CallMemory(self.folder / name / "calls.json")),
        )  # fmt: skip
        await gate.start()
        await until(gate.participant.discovery.get_available_tools)  # else the clock leaps over the answer
        self.servers[name] = McpHttpServer(gate.server, token=TOKEN, idle=FOREVER)
        await self.servers[name].__aenter__()

    async def end(self) -> None:
        for name in list(self.gates):
            await self.servers[name].__aexit__(None, None, None)
            await self.gates[name].stop()

    # --- what is sent ---

    def web(self, session: Session | None = None) -> httpx2.AsyncClient:
        more = session.headers if session is not None else {}
        limits = httpx2.Limits(max_keepalive_connections=0)
        return httpx2.AsyncClient(headers={**BEARER, **ACCEPT, **more}, timeout=None, limits=limits)

    async def post(self, session: Session, number: int) -> Any:
        """Makes the call; returns its result."""
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "press_stamp"}}
        async with (
            self.web(session) as web,
            web.stream("POST", self.servers[session.gate].url, json=body) as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data:") and '"id"' in line:
                    return json.loads(line[5:])
        return None

    async def note_cancelled(self, asked: Asked, reason: str) -> None:
        assert asked.session is not None
        params = {"requestId": asked.number, "reason": reason}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        async with self.web(asked.session) as web:
            await web.post(self.servers[asked.session.gate].url, json=note)

    async def post_modern(self, gate: str, state: str | None) -> Any:
        async with (
            self.web() as web,
            patient(streamable_http_client(self.servers[gate].url, http_client=web)) as client,
        ):
            return await client.session.call_tool(
                "press_stamp", {}, request_state=state, allow_input_required=True
            )

    # --- what happens ---

    def waiting(self, call: CallModel) -> Any:
        return self.gates[call.gate].calls.by_id(call.id)

    @property
    def attached(self) -> list[Asked]:
        return [call.request for call in self.calls if call.request is not None]

    async def open_session(self) -> None:
        gate = self.dice.choice(list(self.gates))
        self.sessions.append(Session(self, gate, await open_session(self.servers[gate])))

    async def ask(self) -> None:
        """A session, or a client without one, makes the call. It takes the oldest that is free, or is a new one."""
        session = self.dice.choice([None, *(one for one in self.sessions if one.headers)])
        gate = session.gate if session else self.dice.choice(list(self.gates))
        if session is not None:
            session.requests += 1
            session.is_live = True
        free = (call for call in self.calls if call.gate == gate and call.is_free_for(session))
        call = next(free, None) or CallModel(gate)
        number = 100 + (session.requests if session else 0)
        work = self.post(session, number) if session else self.post_modern(gate, None)
        await self._attach(Asked(call, session, number, asyncio.create_task(work)))

    async def _attach(self, asked: Asked) -> None:
        call = asked.call
        call.session, call.round, call.is_cancelled = asked.session, None, False
        if not call.id:
            known = {proposal.id for proposal in self.desk.human.proposals}
            await until(lambda: len(list(self.desk.human.proposals)) > len(known))
            [call.id] = {proposal.id for proposal in self.desk.human.proposals} - known
            self.calls.append(call)
        else:
            self.taken += 1
        if call.has_ended:
            await self._deliver(asked)
            return
        call.request = asked
        await until(lambda: self.waiting(call).attached == 1)

    async def _deliver(self, asked: Asked) -> None:
        """The answer is that of its own call, and it is delivered."""
        answer, call = await asked.task, asked.call
        result = answer["result"] if isinstance(answer, dict) else answer.model_dump(by_alias=True)
        shown = result["content"][0]["text"]
        assert shown == call.id if not call.is_lost else f"withdrawal of proposal {call.id}" in shown
        await until(lambda: self.waiting(call).delivered)
        call.request, call.is_delivered = None, True

    async def approve(self) -> None:
        """A person approves one of the cards."""
        able = [call for call in self.calls if not call.has_ended and not call.is_cancelled]
        if not able:
            return
        call = self.dice.choice(able)
        await until(lambda: self.desk.human.proposals.get(call.id).caller != "cancelled")  # type: ignore[union-attr]
        await self.desk.human.approve(call.id)
        self.approved.append(call.id)
        await self.waiting(call).ended.wait()
        call.has_ended = True
        if call.request is not None:
            await self._deliver(call.request)

    async def let_time_pass(self) -> None:
        """All requests are answered: as pending, or with a state for the next round."""
        asked_all = self.attached
        self.leap(46.0)
        for asked in asked_all:
            answer, call = await asked.task, asked.call
            if asked.session is None and answer.result_type == "input_required":
                asked.state, call.round = answer.request_state, asked
                self.rounds.append(asked)
            else:
                meta = answer["result"]["_meta"] if isinstance(answer, dict) else answer.meta
                assert meta["mew-lab/proposal"] == call.id
            call.request = None

    async def return_with_state(self) -> None:
        """A client makes its next round."""
        if self.rounds:
            asked = self.rounds.pop(self.dice.randrange(len(self.rounds)))
            work = self.post_modern(asked.call.gate, asked.state)
            await self._attach(Asked(asked.call, None, 0, asyncio.create_task(work)))

    async def leave(self) -> None:
        """A client cancels its request, gives up at its time limit, or breaks its connection."""
        if not self.attached:
            return
        asked = self.dice.choice(self.attached)
        call, how = asked.call, self.dice.choice(["cancel", "give up", "break"])
        if asked.session is None or how == "break":
            asked.task.cancel()
            await asyncio.gather(asked.task, return_exceptions=True)
            if asked.session is not None:
                others = (one for one in self.attached if one is not asked and one.session is asked.session)
                asked.session.is_live = any(others)
        else:
            await self.note_cancelled(asked, "wrong one" if how == "cancel" else "request timeout")
            assert "error" in (await asked.task)
            call.is_cancelled = how == "cancel"
            await until(lambda: self.waiting(call).caller == ("cancelled" if how == "cancel" else "gone"))
        call.request = None
        await until(lambda: not self.waiting(call).attached)

    async def end_session(self) -> None:
        """A session ends in order."""
        able = [one for one in self.sessions if not any(asked.session is one for asked in self.attached)]
        if able:
            session = self.dice.choice(able)
            async with self.web(session) as web:
                await web.delete(self.servers[session.gate].url)
            session.is_live = False
            self.sessions.remove(session)

    async def restart(self) -> None:
        """A gate is killed, and started again with what it remembers."""
        name = self.dice.choice(list(self.gates))
        await asyncio.to_thread(self.memories[name].close)  # what it has noted is on the disk
        fresh = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
        if self.memories[name].path.parent.exists():
            shutil.copytree(self.memories[name].path.parent, fresh)
        lost = [call for call in self.calls if call.gate == name and not call.is_delivered]
        for asked in [call.request for call in lost if call.request is not None]:
            asked.task.cancel()
            await asyncio.gather(asked.task, return_exceptions=True)
        await self.servers[name].__aexit__(None, None, None)
        await self.gates[name].participant.stop()
        self.memories[name] = CallMemory(fresh / "calls.json")
        self.sessions = [session for session in self.sessions if session.gate != name]
        self.rounds = [asked for asked in self.rounds if asked.call.gate != name]
        for call in lost:
            call.request = call.round = call.session = None
            call.is_lost = call.is_lost or not call.has_ended
            call.has_ended, call.is_cancelled = True, False
        await self.start(name)
        await until(lambda: not any(proposal.id in {call.id for call in lost} for proposal in self.desk.open))

    def check(self) -> None:
        proposals = [proposal.id for proposal in self.desk.human.proposals]
        assert sorted(proposals) == sorted(call.id for call in self.calls)  # as many cards as calls
        assert sorted(self.executed) == sorted(self.approved)
        assert len(set(self.approved)) == len(self.approved)


@asynccontextmanager
async def begun(world: World) -> AsyncIterator[World]:
    await world.begin()
    try:
        yield world
    finally:
        for asked in world.attached:
            asked.task.cancel()
        await world.end()


@pytest.mark.sampled
@pytest.mark.drawn
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(6))
async def test_in_any_order_each_call_is_one_card_and_each_answer_reaches_its_own_client(
    desk: Desk, tmp_path: Path, leap: Callable[[float], None], seed: int
) -> None:
    dice = Random(seed)
    async with begun(World(desk, tmp_path, leap, dice)) as world:
        steps = [
            *[world.ask] * 8, *[world.leave] * 3, *[world.approve] * 3, *[world.return_with_state] * 4,
            *[world.let_time_pass] * 2, *[world.open_session] * 2, world.end_session, world.restart,
        ]  # fmt: skip
        for _ in range(60):
            await dice.choice(steps)()
            world.check()
        assert world.taken and world.approved
