"""A call that may have taken effect is not carried out a second time unless somebody decides so. Ruling R35."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mew_lab.errors import OutcomeUnknown, ToolFailed
from mew_lab.ledger.calls import CallLedger
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import check_payload
from mew_lab.sdk.executions import Executions
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.repeats import FirstCall, Repeats
from mew_lab.sdk.request_server import RequestServer
from mew_lab.sdk.tools import ToolBox, unknown_outcome_error

from .conftest import Room, until

pytestmark = pytest.mark.ruling("R35")


class Bank(ToolBox):
    """Tools that note each call; while `dies`, they lose it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: list[int] = []
        self.dies = True
        for name, hints in (
            ("pay", {}),
            ("set", {"idempotentHint": True}),
            ("look", {"readOnlyHint": True}),
        ):
            self.add(self._pay, name=name, annotations=hints)

    def _pay(self, amount: int) -> str:
        self.paid.append(amount)
        return "paid"

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        result = await super().answer(method, params)
        if self.dies and method == "tools/call":
            raise unknown_outcome_error("the server ended, after it got the call")
        return result


@pytest.fixture
async def human(room: Room) -> MEWParticipant:
    return await room.seat("human")


@pytest.fixture
async def bot(room: Room) -> MEWParticipant:
    return await room.seat("bot", "proposer")


@pytest.fixture
async def bank(room: Room) -> MEWParticipant:
    return await room.seat("bank", "tool", tools=Bank())


async def lose(caller: MEWParticipant, tool: str = "bank/pay", amount: int = 7) -> None:
    with pytest.raises(OutcomeUnknown, match=r"It was sent\. Whether it took effect is not known\."):
        await caller.call(tool, {"amount": amount})


@pytest.mark.extension("outcome_unknown")
async def test_a_repeat_by_own_right_is_refused_with_the_name_of_the_first_call(
    room: Room, bank: MEWParticipant, human: MEWParticipant
) -> None:
    eve = await room.seat("eve", "human")
    first = human.call("bank/pay", {"amount": 7})
    with pytest.raises(OutcomeUnknown):
        await first
    for caller in (human, eve):
        with pytest.raises(
            OutcomeUnknown, match="Not executed again: human sent the same call before"
        ) as caught:
            await caller.call("bank/pay", {"amount": 7.0})
        assert caught.value.data == {"code": "outcome_unknown", "request": first.id}
        assert "It was sent" not in str(caught.value)
    assert bank.tools.paid == [7]
    await lose(eve, amount=8)
    assert bank.tools.paid == [7, 8]


async def test_what_somebody_approved_is_carried_out_once_more(
    room: Room, bank: MEWParticipant, human: MEWParticipant, bot: MEWParticipant
) -> None:
    await lose(human)
    bank.tools.dies = False
    call = bot.call("bank/pay", {"amount": 7})
    await until(lambda: human.proposals.get(call.id))
    assert human.unknown_calls.find(["bank"], call.payload, 0.0) is not None
    await human.approve(call.id)
    assert (await call).text == "paid" and bank.tools.paid == [7, 7]


async def test_a_call_that_was_found_out_about_may_be_sent_again(
    room: Room, bank: MEWParticipant, human: MEWParticipant
) -> None:
    await lose(human)
    [unknown] = [call for call in bank.ledger.calls.requests if call.state == "unknown"]
    bank.tools.dies = False
    assert bank.resolve(unknown.id, False, by="human", note="the account shows nothing")
    assert not bank.resolve("of another", False, by="human")
    assert (await human.call("bank/pay", {"amount": 7})).text == "paid"


@pytest.mark.parametrize("strict", [False, True])
async def test_what_only_reads_or_is_idempotent_may_be_repeated_unless_the_owner_is_strict(
    room: Room, human: MEWParticipant, strict: bool
) -> None:
    bank = await room.seat("bank", "tool", tools=Bank(), strict_unknown=strict)
    for tool in ("bank/look", "bank/set"):
        await lose(human, tool)
        bank.tools.dies = False
        if strict:
            with pytest.raises(OutcomeUnknown, match="Not executed again"):
                await human.call(tool, {"amount": 7})
        else:
            assert (await human.call(tool, {"amount": 7})).text == "paid"
        bank.tools.dies = True


async def test_an_unknown_call_is_a_repeat_for_the_time_that_is_set(
    room: Room, human: MEWParticipant
) -> None:
    bank = await room.seat("bank", "tool", tools=Bank(), repeats_within=0.0)
    await lose(human)
    await asyncio.sleep(0)
    await lose(human)
    assert bank.tools.paid == [7, 7]


async def test_lists_are_read_again_whatever_became_of_an_earlier_request(
    room: Room, bank: MEWParticipant, human: MEWParticipant
) -> None:
    bank.request_server.hold(True)
    lost = human.mcp_request("bank", {"method": "tools/list"})
    await until(lambda: human.ledger.calls.requests.get(lost.id))
    await bank.stop()
    with pytest.raises(OutcomeUnknown):
        await lost
    back = await room.seat("bank", "tool", tools=Bank())
    assert "tools" in await human.mcp_request("bank", {"method": "tools/list"})
    assert len(back.unknown_calls) == 0


async def test_an_error_of_a_foreign_executor_stays_a_failure(room: Room, human: MEWParticipant) -> None:
    odd = await room.seat("odd", "tool")
    odd.request_server.hold(True)
    odd.on_mcp_request(
        lambda request: odd.client.post(
            {
                "kind": "mcp/response",
                "to": [request.sender],
                "correlation_id": [request.id],
                "payload": {
                    "jsonrpc": "2.0",
                    "id": request.payload["id"],
                    "error": {"code": -32000, "message": "MCP server exited", "data": {"code": "exited"}},
                },
            }
        )
    )
    call = human.call("odd/x")
    with pytest.raises(ToolFailed, match="MCP server exited"):
        await asyncio.wait_for(call.outcome(), 5)
    request = human.ledger.calls.requests.get(call.id)
    assert request is not None and request.failed


async def test_a_request_that_comes_again_while_the_gateway_is_asked_is_carried_out_once() -> None:
    bank, posted, asked = Bank(), list[Any](), asyncio.Event()
    bank.dies = False
    unknown = [FirstCall("r0", "ada", ("bank",))]

    async def ask(first: FirstCall) -> dict[str, Any]:
        await asked.wait()
        return {"happened": False, "by": "ada"}

    server = RequestServer(bank, post=posted.append)
    repeats = Repeats(
        server=server,
        find=lambda request, payload: unknown[0] if unknown else None,
        ask=ask,
        resolve=lambda first, found: unknown.clear(),
        executed=lambda request: None,
    )
    ledger = CallLedger(me="bank")
    executions = Executions(
        proposals=ledger.proposals,
        server=server,
        name=lambda: "bank",
        file=lambda: None,
        take_own=repeats.take,
    )
    params = {"name": "pay", "arguments": {"amount": 7}}
    for request in ("r1", "r1", "r2", "r1"):  # its sender joined anew in between (R6)
        envelope = Envelope.of(
            {
                "id": request,
                "from": "ada",
                "to": ["bank"],
                "kind": "mcp/request",
                "payload": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            }
        )
        executions.take(envelope, check_payload(envelope).payload)
    asked.set()
    await until(lambda: len(posted) == 2)
    assert bank.paid == [7, 7] and {one["correlation_id"][0] for one in posted} == {"r1", "r2"}
