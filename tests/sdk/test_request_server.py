"""How requests are answered: the shape of an answer, its bounds, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mew_lab.errors import ConnectionLost, LocalProtocolError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.sdk.request_server import MAX_KEPT, MAX_RUNNING, MAX_UNECHOED, RequestServer
from mew_lab.sdk.tools import RpcError

from .conftest import until


class Slow:
    """Answers `fast` at once, `slow` and `tools/list` when released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method in ("slow", "tools/list"):
            await self.release.wait()
        if method == "wrong":
            raise RpcError(-32602, "no", data=[1])
        if method == "broken":
            raise KeyError("odd")
        return {"got": dict(params)}


class Stage:
    def __init__(self) -> None:
        self.tools = Slow()
        self.posted: list[Any] = []
        self.faults: list[Exception] = []
        self.server = RequestServer(self.tools, post=self.post)

    def post(self, draft: Mapping[str, Any]) -> Envelope:
        if self.faults:
            raise self.faults.pop(0)
        self.posted.append(draft)
        return Envelope.of({"id": f"r-{len(self.posted)}", "from": "bot", **draft})

    def ask(self, method: str, *, id: Any = 7, sender: str = "human", **members: Any) -> None:
        payload = {"method": method, **members.pop("payload", {})} | ({} if id is None else {"id": id})
        envelope = {"id": f"e-{method}", "from": sender, "kind": "mcp/request", "payload": payload, **members}
        self.server.take(Envelope.of(envelope), McpRequest.model_validate(payload))


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.req("P-3.1.2-1", "P-3.1.2-2", "P-3.1.2-4", "P-8.2-7", "P-3-10")
async def test_an_answer_goes_to_the_asker_and_names_both_ids(stage: Stage) -> None:
    stage.ask("fast", payload={"params": {"a": None}}, context="a/b")
    assert await until(lambda: stage.posted) == [
        {
            "kind": "mcp/response",
            "to": ["human"],
            "correlation_id": ["e-fast"],
            "payload": {"jsonrpc": "2.0", "id": 7, "result": {"got": {"a": None}}},
            "context": "a/b",
        }
    ]


@pytest.mark.parametrize(("id", "answered"), [("s", "s"), (0, 0), (None, "e-fast")])
async def test_the_json_rpc_id_is_the_requests_or_its_envelopes(stage: Stage, id: Any, answered: Any) -> None:
    stage.ask("fast", id=id)
    assert (await until(lambda: stage.posted))[0]["payload"]["id"] == answered


@pytest.mark.req("S-ERR-3")
async def test_errors_are_answers_too(stage: Stage) -> None:
    stage.ask("wrong")
    stage.ask("broken")
    await until(lambda: len(stage.posted) == 2)
    assert stage.posted[0]["payload"]["error"] == {"code": -32602, "message": "no", "data": [1]}
    assert stage.posted[1]["payload"]["error"] == {"code": -32603, "message": "Internal error: KeyError"}


async def test_only_the_asker_can_cancel_and_a_cancelled_one_is_answered_as_unknown(stage: Stage) -> None:
    stage.ask("slow")
    stage.ask("slow", sender="other")
    await asyncio.sleep(0)
    cancel = {"params": {"requestId": 7}}
    stage.ask("notifications/cancelled", id=None, sender="eve", payload=cancel)
    stage.ask("notifications/cancelled", id=None, payload={"params": {"requestId": 8}})
    stage.ask("notifications/cancelled", id=None, payload={})
    assert len(stage.server) == 2
    stage.ask("notifications/cancelled", id=None, payload=cancel)
    await until(lambda: len(stage.server) == 1)
    [lost] = stage.posted
    assert lost["to"] == ["human"] and lost["payload"]["error"]["data"] == {"code": "outcome_unknown"}
    stage.tools.release.set()
    await until(lambda: len(stage.posted) == 2)
    assert stage.posted[1]["to"] == ["other"] and len(stage.server) == 0


async def test_a_cancelled_request_that_has_no_effect_is_not_answered(stage: Stage) -> None:
    stage.ask("tools/list")
    await asyncio.sleep(0)
    stage.ask("notifications/cancelled", id=None, payload={"params": {"requestId": 7}})
    await until(lambda: len(stage.server) == 0)
    assert stage.posted == []


@pytest.mark.threat(9)
async def test_no_more_than_so_many_are_answered_at_once(stage: Stage) -> None:
    for _ in range(MAX_RUNNING + 1):
        stage.ask("slow")
    [busy] = stage.posted
    assert (
        busy["payload"]["error"]["code"] == -32000
        and "Busy: 64 requests" in busy["payload"]["error"]["message"]
    )
    await stage.server.stop()
    assert len(stage.server) == 0 and stage.posted == [busy]


async def test_stopping_may_leave_time_for_the_last_answers(stage: Stage) -> None:
    stage.ask("slow")
    stopping = asyncio.ensure_future(stage.server.stop(settle=10.0))
    await asyncio.sleep(0)
    stage.tools.release.set()
    await stopping
    assert len(stage.posted) == 1


async def test_a_result_that_cannot_travel_is_an_error_and_a_lost_one_is_lost(stage: Stage) -> None:
    stage.faults = [LocalProtocolError("too large")]
    stage.ask("fast")
    assert (await until(lambda: stage.posted))[0]["payload"]["error"] == {
        "code": -32001,
        "message": "Its tool answered, but the answer cannot be sent: too large",
        "data": {"code": "outcome_unknown"},
    }
    stage.faults = [ConnectionLost("gone")]
    stage.ask("fast")
    stage.faults += [LocalProtocolError("twice"), LocalProtocolError("twice")]
    stage.ask("fast")
    await until(lambda: len(stage.server) == 0)
    assert len(stage.posted) == 1


# --- while paused ---


@pytest.mark.threat(9)
@pytest.mark.req("S-L2-35")
async def test_while_held_requests_are_kept_in_number_and_order_and_a_cancelled_one_is_not_executed(
    stage: Stage,
) -> None:
    stage.server.hold(True)
    for number in range(MAX_KEPT + 3):
        stage.ask("fast", id=number, payload={"params": {"n": number}})
    stage.ask("notifications/cancelled", id=None, payload={"params": {"requestId": 1}})
    assert (len(stage.server), stage.posted) == (0, [])
    stage.server.hold(False)
    await until(lambda: len(stage.posted) == MAX_KEPT)
    cancelled, *answers = stage.posted
    assert "Not executed" in cancelled["payload"]["error"]["message"] and cancelled["payload"]["id"] == 1
    assert [one["payload"]["id"] for one in answers] == [0, *range(2, MAX_KEPT)]
    assert all("result" in one["payload"] for one in answers)
    assert len(stage.server) == 0


async def test_a_refused_answer_is_sent_again_and_one_that_was_taken_is_not(stage: Stage) -> None:
    stage.ask("fast", id="taken")
    stage.ask("fast", id="refused")
    await until(lambda: len(stage.posted) == 2)
    stage.server.echo("r-1")
    stage.server.hold(True)
    for id in ("r-1", "r-2", "r-2", "r-of-another"):
        stage.server.keep(id)
    assert len(stage.posted) == 2
    stage.server.hold(False)
    assert [one["payload"]["id"] for one in stage.posted[2:]] == ["refused"]
    assert stage.posted[2] == stage.posted[1]


@pytest.mark.threat(9)
async def test_a_gateway_that_echoes_nothing_fills_no_memory(stage: Stage) -> None:
    for number in range(MAX_UNECHOED + 2):
        stage.ask("fast", id=number)
        await until(lambda number=number: len(stage.posted) == number + 1)  # type: ignore[misc]
    stage.server.hold(True)
    stage.server.keep("r-2")
    stage.server.hold(False)
    assert len(stage.posted) == MAX_UNECHOED + 2
    stage.server.hold(True)
    stage.server.keep("r-3")
    await stage.server.stop()
    stage.server.hold(False)
    assert len(stage.posted) == MAX_UNECHOED + 2
