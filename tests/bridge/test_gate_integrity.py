"""What a person was shown is what is sent, and what a client is told is what happened."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError

from mew_lab.bridge.waiting_calls import call_key
from mew_lab.errors import MewError, Refused
from mew_lab.protocol.difference import are_equal
from mew_lab.protocol.envelope import digest
from mew_lab.sdk.participant import MEWParticipant

from .conftest import Site, until
from .desk import PROPOSER, Desk, text

REWRITES = [
    pytest.param(150, id="some"),
    pytest.param(10_000, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
]


@pytest.fixture
async def desk(site: Site) -> Desk:
    made = Desk(site)
    made.human = await site.seat("human")
    return made


class Rewriter:
    """Changes one place of a JSON value into another JSON value."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def value(self, depth: int = 2) -> Any:
        dice = self.dice
        makers = [
            lambda: dice.randint(-3, 3),
            lambda: dice.choice([0.5, 1.5, -2.0, 1e20]),
            lambda: dice.choice(["", "a", "A", "\u0430", "a\u200b", "rm -rf /tmp/x", "1", "é", "e\u0301"]),
            lambda: dice.choice([True, False, None]),
        ]
        if depth:
            makers += [
                lambda: [self.value(depth - 1) for _ in range(dice.randint(0, 3))],
                lambda: {key: self.value(depth - 1) for key in dice.sample("abc", dice.randint(0, 3))},
            ]
        return dice.choice(makers)()

    def rewrite(self, value: Any) -> Any:
        """Another value: one that is not equal as JSON, as 1 and 1.0 are."""
        while True:
            other = self._change(json.loads(json.dumps(value)))
            if not are_equal(other, value):
                return other

    def _change(self, value: Any) -> Any:
        if isinstance(value, dict) and value and self.dice.random() < 0.7:
            key = self.dice.choice(list(value))
            if self.dice.random() < 0.2:
                del value[key]
            else:
                value[key] = self._change(value[key])
            return value
        if isinstance(value, list) and value and self.dice.random() < 0.7:
            at = self.dice.randrange(len(value))
            value[at] = self._change(value[at])
            return value
        if isinstance(value, bool | int | float) and self.dice.random() < 0.5:
            return 1 if value is True else 1.0 if value == 1 else value + 1
        return self.value(1)


async def seat_echo(desk: Desk) -> None:
    def echo(value: Any) -> str:
        "Gives back its argument."
        desk.executed.append((value,))
        return json.dumps(value)

    schema = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
    await desk.site.tool("calc", echo, input_schema=schema)


class Attacks:
    """Ways to have something else executed than what the person was shown; each gets the proposal and a rewrite."""

    def __init__(self, desk: Desk, client: Client, mallory: MEWParticipant) -> None:
        self.desk = desk
        self.client = client
        self.mallory = mallory
        self.others: dict[str, asyncio.Task[Any]] = {}  # the calls that were made beside, by their argument

    async def by_the_client(self, id: str, other: Any) -> None:
        """The client makes the call again with other arguments; it must not attach to the proposal."""
        session, key = self.client.session, digest(other)
        if key in self.others:  # until it has ended, the same call would attach to it
            assert (await self.others[key]).is_error
        self.others[key] = asyncio.create_task(session.call_tool("calc_echo", {"value": other}))
        await self.desk.proposed(2)

    async def by_a_state(self, id: str, other: Any) -> None:
        """The client sends back a state with other arguments."""
        for state in (f"{id} 1", "v1." + "A" * 80):
            with pytest.raises(MCPError):
                await self.client.session.call_tool("calc_echo", {"value": other}, request_state=state)

    async def by_a_hook(self, id: str, other: Any) -> None:
        """Something in the process of the person changes the parsed message after it was shown."""
        proposal = self.desk.human.proposals.get(id)
        proposal.payload["params"]["arguments"]["value"] = other

    async def by_a_request(self, id: str, other: Any) -> None:
        """A participant claims to carry out the proposal, with other arguments, without the right to."""
        params = {"name": "echo", "arguments": {"value": other}}
        payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        draft = {"kind": "mcp/request", "to": ["calc"], "correlation_id": [id], "payload": payload}
        with pytest.raises(Refused):
            await self.mallory.send_accepted(draft)

    async def by_an_answer(self, id: str, other: Any) -> None:
        """A participant answers in the place of the tool."""
        result = {"content": [{"type": "text", "text": json.dumps(other)}]}
        payload = {"jsonrpc": "2.0", "id": 1, "result": result}
        draft = {"kind": "mcp/response", "to": ["coder"], "correlation_id": [id], "payload": payload}
        await self.mallory.send_accepted(draft)

    async def by_the_same_id(self, id: str, other: Any) -> None:
        """A participant proposes something else under the id of the proposal."""
        payload = {"method": "tools/call", "params": {"name": "echo", "arguments": {"value": other}}}
        draft = {"id": id, "kind": "mcp/proposal", "to": ["calc"], "payload": payload}
        with pytest.raises(MewError):
            await self.mallory.send_accepted(draft)

    async def by_a_withdrawal(self, id: str, other: Any) -> None:
        """A participant withdraws the proposal of another, and proposes its own."""
        await self.mallory.send_accepted(
            {"kind": "mcp/withdraw", "correlation_id": [id], "payload": {"reason": json.dumps(other)}}
        )


@pytest.mark.parametrize("count", REWRITES)
async def test_no_rewrite_between_what_was_shown_and_what_is_sent_gets_through(
    desk: Desk, count: int
) -> None:
    await seat_echo(desk)
    mallory = await desk.site.seat("mallory", [*PROPOSER])
    rewriter = Rewriter(count)
    async with desk.gate() as gate, Client(gate.server) as client:
        await client.list_tools()
        attacks = Attacks(desk, client, mallory)
        ways = [getattr(attacks, name) for name in dir(Attacks) if name.startswith("by_")]
        assert len(ways) == 7
        for n in range(count):
            # Never a rewrite of an earlier value, whose call may still be ending.
            value = [1000 + 10 * n, rewriter.value()]
            call = asyncio.create_task(client.call_tool("calc_echo", {"value": value}))
            id = await desk.proposed()
            proposal = desk.card(id)
            seen = proposal.digest
            other = rewriter.rewrite(value)
            await rewriter.dice.choice(ways)(id, other)
            await desk.human.approve(id, digest=seen)
            result = await call
            assert text(result) == json.dumps(value) and not result.is_error
            assert desk.executed == [(value,)]
            desk.executed.clear()
            for one in list(desk.open):
                await desk.human.reject(one.id)
        for rejected in await asyncio.gather(*attacks.others.values()):
            assert rejected.is_error
    assert desk.executed == []


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_a_rewritten_call_never_has_the_key_of_another(seed: int) -> None:
    rewriter = Rewriter(seed)
    value = rewriter.value()
    payload = {"method": "tools/call", "params": {"name": "echo", "arguments": {"value": value}}}
    assert call_key("calc", payload) == call_key("calc", json.loads(json.dumps(payload, sort_keys=True)))
    assert call_key("calc", payload) != call_key("calc", rewriter.rewrite(payload))
    assert call_key("calc", payload) != call_key("calc2", payload)


async def test_a_client_is_told_with_which_arguments_an_edited_call_was_approved(desk: Desk) -> None:
    await seat_echo(desk)
    async with desk.gate() as gate, Client(gate.server) as client:
        call = asyncio.create_task(client.call_tool("calc_echo", {"value": "rm -rf /"}))
        id = await desk.proposed()
        await desk.human.approve(id, params={"name": "echo", "arguments": {"value": "ls"}})
        result = await call
    assert text(result) == '"ls"\nhuman approved this call with other arguments: {"value":"ls"}'
    assert desk.executed == [("ls",)]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
async def test_a_rejection_that_crosses_an_approval_is_told_as_the_log_has_it(desk: Desk, seed: int) -> None:
    """Two people decide at once: whoever was first in the log has decided."""
    await seat_echo(desk)
    ann = await desk.site.seat("ann")
    dice = random.Random(seed)
    async with desk.gate() as gate, Client(gate.server) as client:
        call = asyncio.create_task(client.call_tool("calc_echo", {"value": seed}))
        id = await desk.proposed()
        await until(lambda: ann.proposals.get(id))

        async def decide(work: Any, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await asyncio.gather(work, return_exceptions=True)

        works = [desk.human.reject(id, "no"), ann.approve(id)]
        await asyncio.gather(*(decide(work, dice.randint(0, 6)) for work in works))
        result = await call
        proposal = desk.card(id)
        await until(lambda: desk.human.proposals.get(id).state in ("answered", "withdrawn"))
    told = (text(result), result.is_error, desk.executed)
    rejected = "human rejected calc/echo: no. It was not executed"
    proposal = desk.human.proposals.get(id)
    if proposal.state == "answered":
        assert told == (str(seed), False, [(seed,)])
    elif any(claim.kind == "mcp/request" for claim in proposal.claims):
        # The approval was on its way when the proposal was withdrawn: a participant of ours refuses it, others may not.
        assert told == (
            f"{rejected}. But ann sent the call all the same, so it may have been executed",
            True,
            [],
        )
    else:
        assert told == (rejected, True, [])


async def test_an_approval_that_crosses_a_withdrawal_is_told(desk: Desk) -> None:
    await seat_echo(desk)
    ann = await desk.site.seat("ann")
    async with desk.gate() as gate, Client(gate.server) as client:
        call = asyncio.create_task(client.call_tool("calc_echo", {"value": 1}))
        id = await desk.proposed()
        proposal = desk.card(id)
        await desk.human.reject(id, "no")
        await until(lambda: desk.human.proposals.get(id).state == "withdrawn")
        payload = {"jsonrpc": "2.0", "id": 1, **proposal.payload}
        draft = {"kind": "mcp/request", "to": ["calc"], "correlation_id": [id], "payload": payload}
        await ann.send_accepted(draft)  # as one that was sent before the withdrawal came
        result = await call
    assert result.is_error and text(result) == (
        "human rejected calc/echo: no. It was not executed. But ann sent the call all the same, so it may have been "
        "executed"
    )
