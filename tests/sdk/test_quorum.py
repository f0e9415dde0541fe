"""An executor with a quorum: never with one yes, never twice, the same person counted once, and nothing is used up."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from mew_lab.errors import ConfigError, ProposalEnded, ToolFailed
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.decisions import draft_fulfilment, edit_proposal
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.quorum import Quorum
from mew_lab.sdk.request_server import ASKED
from mew_lab.sdk.reviews import REVIEW
from mew_lab.sdk.tools import ToolBox

from .conftest import Room, until

pytestmark = pytest.mark.ruling("R39")

RACES = [
    pytest.param(60, id="short"),
    pytest.param(1000, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
]
DECIDERS = ("ada", "ben", "cy")


class Pushes:
    """A tool that counts its executions by the request, behind a quorum of 2 of 3."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()
        self.tools = ToolBox(name="git", quorum=2, deciders=DECIDERS)

        def push(n: int) -> str:
            self.executed[ASKED.get().id] += 1
            return f"pushed {n}"

        self.tools.add(push)


def say(who: MEWParticipant, yes: Mapping[str, str], *, looks: tuple[str, ...] = ()) -> None:
    """Tells what this participant approves, as a lab does."""
    who.client.post(
        {
            "kind": "participant/status",
            "payload": {"messages_in_context": 0, REVIEW: {"open": [*looks], "yes": dict(yes)}},
        }
    )


async def seen(who: MEWParticipant, id: str) -> Any:
    return await until(lambda: who.proposals.get(id))


async def refusal_of(room: Room, request: str) -> Mapping[str, Any]:
    def find() -> Any:
        answers = [one for one in room.sent("mcp/response") if request in one.correlation_id]
        return answers and answers[0].payload.get("error")

    return await until(find)


async def seat_all(room: Room) -> tuple[Pushes, dict[str, MEWParticipant], MEWParticipant]:
    pushes = Pushes()
    await room.seat("git", "tool", tools=pushes.tools)
    people = {name: await room.seat(name, "human") for name in (*DECIDERS, "eve")}
    return pushes, people, await room.seat("bot", "proposer")


async def test_one_yes_is_refused_and_uses_nothing_up(room: Room) -> None:
    pushes, people, bot = await seat_all(room)
    call = bot.call("git/push", {"n": 1})
    proposal = await seen(people["ada"], call.id)
    say(people["ada"], {call.id: proposal.digest})
    first = await people["ada"].approve(call.id)
    error = await refusal_of(room, first.id)
    assert error["data"] == {
        "code": "quorum_missing",
        "missing": ["ben", "cy"],
        "count": 2,
        "deciders": ["ada", "ben", "cy"],
    }
    assert "1 more yes of ben, cy (2 of ada, ben, cy must say yes)" in error["message"]
    await until(lambda: all(who.proposals.get(call.id).state == "open" for who in (*people.values(), bot)))
    assert call.state == "open" and not call.done and not pushes.executed
    say(people["ben"], {call.id: proposal.digest})
    second = await people["ben"].approve(call.id)
    assert str(await call.outcome()) == "pushed 1"
    assert pushes.executed == {second.id: 1}
    for who in (*people.values(), bot):
        known = who.proposals.get(call.id)
        assert (known.state, known.by, known.unmet) == ("answered", "ben", 1)
    with pytest.raises(ProposalEnded):
        await people["cy"].approve(call.id)


async def test_an_own_right_is_no_way_around_it(room: Room) -> None:
    pushes, people, _ = await seat_all(room)
    with pytest.raises(ToolFailed, match="propose it"):
        await people["eve"].call("git/push", {"n": 1}).outcome()
    assert not pushes.executed
    assert [tool["name"] for tool in await people["eve"].list_tools("git")] == ["push"]


async def test_whose_yes_does_not_count(room: Room) -> None:
    """The sender's request, the proposer's own, a stranger's, a second connection's, another digest, and one taken back."""
    pushes, people, bot = await seat_all(room)
    again = await room.seat("ada", None, runtime_id="ada-at-home")
    call = people["cy"].propose("git/push", {"n": 1})
    proposal = await seen(people["ada"], call.id)
    yes = {call.id: proposal.digest}
    for who in (people["ada"], people["cy"], people["eve"], again, bot):
        say(who, yes)
    say(people["ben"], {call.id: "0" * 64})
    for who in (people["ben"], people["eve"], people["ada"]):
        await seen(who, call.id)
        await refusal_of(room, (await who.approve(call.id)).id)
        await until(lambda who=who: who.proposals.get(call.id).state == "open")
    say(people["ben"], yes)
    say(people["ada"], {})
    await until(lambda: _last_status(room, "ada")[REVIEW]["yes"] == {})
    await refusal_of(room, (await people["ben"].approve(call.id)).id)
    assert not pushes.executed


async def test_a_yes_falls_with_an_edit_and_with_the_leave_of_its_voter(room: Room) -> None:
    pushes, people, bot = await seat_all(room)
    call = bot.call("git/push", {"n": 1})
    proposal = await seen(people["ada"], call.id)
    edit = edit_proposal(proposal, {"name": "push", "arguments": {"n": 2}})
    for name in ("ada", "cy"):
        say(people[name], {call.id: proposal.digest})
    edited = await people["ada"].approve(call.id, params=edit.params)
    assert "2 more yes" in (await refusal_of(room, edited.id))["message"]
    await until(lambda: people["ada"].proposals.get(call.id).state == "open")
    await people["cy"].stop()
    await until(lambda: "cy" not in people["ada"].client.participants)
    await refusal_of(room, (await people["ada"].approve(call.id)).id)
    assert not pushes.executed
    await until(lambda: people["ada"].proposals.get(call.id).state == "open")
    for name in ("ada", "ben"):
        say(people[name], {call.id: edit.digest})
    await people["ben"].approve(call.id, params=edit.params)
    assert str(await call.outcome()) == "pushed 2"


async def test_a_yes_of_a_participant_that_is_not_connected_does_not_count(room: Room) -> None:
    pushes, people, bot = await seat_all(room)
    call = bot.call("git/push", {"n": 1})
    proposal = await seen(people["ada"], call.id)
    await people["cy"].stop()
    await until(lambda: "cy" not in people["ada"].client.participants)
    status = {"messages_in_context": 0, REVIEW: {"yes": {call.id: proposal.digest}}}
    draft = {"kind": "participant/status", "payload": status}
    assert room.gateway.post("demo", "cy", json.dumps(draft)).status < 300
    say(people["ada"], {call.id: proposal.digest})
    assert "1 more yes" in (await refusal_of(room, (await people["ada"].approve(call.id)).id))["message"]
    assert not pushes.executed


async def test_a_request_that_is_no_approval_byte_for_byte_has_no_yes(room: Room) -> None:
    """Deciders that look at it, or said yes to something else, say yes to nothing that nobody was shown."""
    pushes, people, bot = await seat_all(room)
    call = bot.call("git/push", {"n": 1})
    proposal = await seen(people["ada"], call.id)
    for name in ("ada", "ben"):
        say(people[name], {"other": "a" * 64}, looks=(call.id,))
    for n, extra in enumerate(({"x-more": 1}, {"params": {"name": "push"}, "x": None}, {"params": None})):
        draft = draft_fulfilment(proposal, id=f"r{n}")
        people["cy"].client.post({**draft, "payload": {**draft["payload"], **extra}})
        await refusal_of(room, f"r{n}")
    assert not pushes.executed
    for name in ("ada", "ben"):
        say(people[name], {call.id: proposal.digest})
    await until(
        lambda: all(
            _last_status(room, name)[REVIEW]["yes"] == {call.id: proposal.digest} for name in ("ada", "ben")
        )
    )
    draft = draft_fulfilment(proposal, id="r9")
    people["cy"].client.post({**draft, "payload": {**draft["payload"], "x-more": 1}})
    await refusal_of(room, "r9")
    assert not pushes.executed


async def test_only_the_one_that_was_asked_can_say_that_a_quorum_is_missing(room: Room) -> None:
    """Else a proposal that runs would be open again, and run twice."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def push(n: int) -> str:
        begun.set()
        await may_end.wait()
        return f"pushed {n}"

    await room.tool("git", push)
    ada, eve = await room.seat("ada", "human"), await room.seat("eve", "human")
    bot = await room.seat("bot", "proposer")
    call = bot.call("git/push", {"n": 1})
    await seen(ada, call.id)
    request = await ada.approve(call.id)
    await begun.wait()
    room.gateway.enrol("demo", "liar", [{"kind": "*"}])
    liar = await room.seat("liar", None)
    error = {"code": -32001, "message": "no", "data": {"code": "quorum_missing"}}
    for about in ([request.id], [call.id], [request.id, call.id]):
        liar.client.post(
            {"kind": "mcp/response", "to": ["ada"], "correlation_id": about, "payload": {"error": error}}
        )
    await until(lambda: len(room.sent("mcp/response", sender="liar")) == 3)
    await until(lambda: len(eve.proposals.get(call.id).claims) >= 3)
    assert {who.proposals.get(call.id).state for who in (ada, eve, bot)} == {"fulfilled"}
    may_end.set()
    assert str(await call.outcome()) == "pushed 1"


async def test_what_was_withdrawn_meanwhile_is_not_open_again(room: Room) -> None:
    pushes, people, bot = await seat_all(room)
    call = bot.call("git/push", {"n": 1})
    known = await seen(people["ada"], call.id)
    ledger = Ledger()  # of somebody who sees all of it, in this order
    say(people["ada"], {call.id: known.digest})
    people["ada"].client.post(draft_fulfilment(known, id="r1"))
    bot.client.post({"kind": "mcp/withdraw", "correlation_id": [call.id], "payload": {"reason": "no"}})
    await refusal_of(room, "r1")
    for seq, envelope in enumerate(room.sent()):
        ledger.observe(Entry.of(envelope, seq))
    await until(lambda: people["ben"].proposals.get(call.id).state == "withdrawn")
    assert ledger.calls.proposals.get(call.id).state == "withdrawn"
    with pytest.raises(ProposalEnded):
        await people["ben"].approve(call.id)
    assert not pushes.executed


def states_of(people: Mapping[str, MEWParticipant], proposal: str) -> set[str]:
    return {who.proposals.get(proposal).state for who in people.values()}


def foretold(room: Room, proposal: str, digests: Mapping[str, str]) -> str:
    """The request that must have been executed, by the order of the space alone; empty for none.

    `digests` has that of what each request approves.
    """
    yes: dict[str, str] = {}
    for one in room.sent():
        if one.kind == "participant/status" and isinstance(one.payload.get(REVIEW), dict):
            told = one.payload[REVIEW]["yes"]
            yes[one.sender] = told.get(proposal, "")
        elif one.kind == "mcp/withdraw" and proposal in one.correlation_id:
            return ""
        elif one.kind == "mcp/request" and proposal in one.correlation_id and one.id in digests:
            voters = {name for name, digest in yes.items() if digest == digests[one.id]} & set(DECIDERS)
            if len(voters) >= 2:
                return one.id
    return ""


@pytest.mark.parametrize("races", RACES)
async def test_two_of_three(room: Room, races: int) -> None:
    """Races of 2 of 3: what is executed is the first request of the space's order that had two distinct yes before it."""
    dice = random.Random(races)
    pushes, people, bot = await seat_all(room)
    people["ada-at-home"] = await room.seat("ada", None, runtime_id="ada-at-home")
    executed = withdrawn = refused = 0
    for race in range(races):
        room.records.clear()  # what an earlier race needed
        call = bot.call("git/push", {"n": race})
        known = {name: await seen(who, call.id) for name, who in people.items()}
        proposal = known["ada"]
        edit = edit_proposal(proposal, {"name": "push", "arguments": {"n": -race - 1}})
        digests: dict[str, str] = {}

        def send(name: str, *, edited: bool, id: str, known: Any = known, edit: Any = edit) -> None:
            draft = draft_fulfilment(known[name], id=id)
            if edited:
                draft["payload"] = {**draft["payload"], "params": edit.params}
            people[name].client.post(draft)

        for step in range(dice.randrange(2, 9)):
            name = dice.choice([*people])
            match dice.choice(["yes", "yes", "no", "send", "send", "edit", "other", "withdraw", "pause"]):
                case "yes":
                    say(people[name], {call.id: proposal.digest})
                case "other":
                    say(people[name], {call.id: dice.choice([edit.digest, edit.digest, "f" * 64])})
                case "no":
                    say(people[name], {})
                case "withdraw" if dice.random() < 0.2:
                    bot.client.post(
                        {"kind": "mcp/withdraw", "correlation_id": [call.id], "payload": {"reason": "no"}}
                    )
                case "send" | "edit" as what:
                    id = f"q{race}-{step}"
                    digests[id] = edit.digest if what == "edit" else proposal.digest
                    send(name, edited=what == "edit", id=id)
                case _:
                    await asyncio.sleep(0)
        last = f"q{race}-last"
        if dice.random() < 0.8:
            digests[last] = proposal.digest
            for name in dice.sample(DECIDERS, 2):
                say(people[name], {call.id: proposal.digest})
                await asyncio.sleep(0)
                await until(lambda name=name: REVIEW in _last_status(room, name))
            send("cy", edited=False, id=last)
        for id in digests:
            await refusal_or_result(room, id)
        expected = foretold(room, call.id, digests)
        ran = {id for id in digests if pushes.executed[id]}
        assert ran == ({expected} if expected else set()), race
        assert all(pushes.executed[id] <= 1 for id in digests)
        if expected:
            executed += 1
            await until(lambda id=call.id: states_of(people, id) == {"answered"})
            assert {who.proposals.get(call.id).fulfilment for who in people.values()} == {expected}
            assert await asyncio.wait_for(call.outcome(), 10)
        else:
            everybody = {**people, "bot": bot}
            await until(lambda id=call.id, all=everybody: states_of(all, id) in ({"open"}, {"withdrawn"}))
            if bot.proposals.get(call.id).state == "withdrawn":
                withdrawn += 1
            else:
                await call.withdraw()
        refused += len(digests) - bool(expected)
    assert executed > races / 3 and refused > races / 3 and (withdrawn or races < 100)


def _last_status(room: Room, sender: str) -> Mapping[str, Any]:
    return next((one.payload for one in reversed(room.sent("participant/status", sender=sender))), {})


async def refusal_or_result(room: Room, request: str) -> Envelope:
    def find() -> Any:
        return next((one for one in room.sent("mcp/response") if request in one.correlation_id), None)

    answer: Envelope = await until(find, what=f"an answer to {request}")
    return answer


@pytest.mark.parametrize(
    ("count", "deciders", "said"),
    [
        (0, ["ada"], "from 1"),
        (True, ["ada"], "from 1"),
        ("2", ["ada", "ben"], "from 1"),
        (None, ["ada"], "from 1"),
        (2, [], "needs 2"),
        (2, ["ada", "ada"], "1 are named"),
        (1, "ada", "list of names"),
        (1, [""], "list of names"),
    ],
)
def test_a_setting_that_is_no_quorum_is_refused(count: Any, deciders: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Quorum.of(count, deciders)
