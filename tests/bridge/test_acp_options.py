"""Of several people who answer a permission request of an agent one decides, and the others are told (R41, R32)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from mew_lab.bridge.acp_permissions import Permissions, read_options
from mew_lab.errors import MewError
from mew_lab.sdk.participant import MEWParticipant

from ..room import Room
from ..waiting import until


@pytest.mark.parametrize(
    "options",
    [None, [], "allow_once", [1], [{"optionId": "a"}], [{"name": "a"}], [{"optionId": 1, "name": "x"}]],
)
def test_what_is_no_list_of_options_is_refused(options: object) -> None:
    with pytest.raises(ValueError, match="permission request"):
        read_options(options)


async def race(rounds: int) -> None:
    room = Room()
    try:
        agent = await room.seat("agent", "agent")
        people = [await room.seat(f"human{at}") for at in range(3)]
        permissions = Permissions(agent)
        names = ["once", "always", "never"]
        options = read_options([{"optionId": one, "name": one, "kind": f"allow_{one}"} for one in names])
        won = Counter[str]()
        for at in range(rounds):
            arguments = {"question": f"round {at}", "options": options}
            asked = asyncio.ensure_future(permissions.ask(arguments))
            racing = people[: 2 + at % 2]
            await until(lambda: all(_open(person) for person in racing))  # noqa: B023
            [id] = {one.id for person in racing for one in _open(person)}

            async def decide(person: MEWParticipant, option: str, id: str) -> bool:
                try:
                    sent = await person.approve(id, option=option)
                except MewError:
                    return False
                return person.proposals.get(id).fulfilment == sent.id

            chances = zip(racing, itertools.cycle(names[at % 3 :] + names[: at % 3]), strict=False)
            tried = [(option, person) for person, option in chances]
            told = await asyncio.gather(*(decide(person, option, id) for option, person in tried))
            decision = await asked
            assert told.count(True) == 1
            winner = tried[told.index(True)]
            assert (decision.option, decision.by) == (winner[0], winner[1].client.id)
            won[decision.by] += 1
        assert sum(won.values()) == rounds
        assert len(room.sent("mcp/proposal")) == rounds
        # the others were answered, too, by a refusal
        await until(lambda: len(room.sent("mcp/response")) == len(room.sent("mcp/request")))
        late = [one for one in room.sent("mcp/response") if "error" in one.payload]
        assert {one.payload["error"]["data"]["code"] for one in late} <= {"already_fulfilled"}
    finally:
        await room.close()


def _open(person: MEWParticipant) -> list[Any]:
    return [one for one in person.proposals.open() if one.state == "open"]


@pytest.mark.ruling("R32")
async def test_of_two_or_three_who_choose_at_once_one_decides_and_the_others_are_told() -> None:
    await race(60)


@pytest.mark.slow
@pytest.mark.ruling("R32")
@pytest.mark.timeout(600)
async def test_a_thousand_races_have_a_thousand_decisions() -> None:
    await race(1000)
