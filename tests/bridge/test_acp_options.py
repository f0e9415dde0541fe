"""Which option of a permission request an answer means, for all sets of options, and that one decision wins (R41, R32)."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from typing import Any

import pytest

from mew_lab.bridge.acp_permissions import Permissions, choose, choose_rejection, read_options
from mew_lab.errors import MewError
from mew_lab.sdk.participant import MEWParticipant

from ..room import Room
from ..waiting import until

KINDS = [
    "allow_once", "allow_always", "reject_once", "reject_always", "allow_once ", "ALLOW_ONCE", "allow", "",
    "allow_once_and_switch", "\u202eallow_once", "x", None, 7, ["allow_once"],
]  # fmt: skip
IDS = ["a", "b", "c", "", "\u202ea", "x" * 500]


def made(random: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "optionId": random.choice(IDS),
            "name": random.choice(["Yes", "No", ""]),
            "kind": random.choice(KINDS),
        }
        for _ in range(random.randint(1, 6))
    ]


@pytest.mark.parametrize(("decide", "kind"), [(choose, "allow_once"), (choose_rejection, "reject_once")])
def test_no_unknown_or_always_kind_is_ever_chosen_by_default(decide: Any, kind: str) -> None:
    """R41: without `option` it is the only one of that kind; where its id stands for another one too, it is none."""
    source, met = random.Random(41), Counter[str]()
    for _ in range(10_000):
        sent = made(source)
        try:
            found = decide(read_options(sent))
        except ValueError:
            found = None
        of_kind = [one["optionId"] for one in sent if one["kind"] == kind]
        ids = Counter(one["optionId"] for one in sent)
        expected = of_kind[0] if len(of_kind) == 1 and ids[of_kind[0]] == 1 else None
        assert found == expected, sent
        met["chosen" if expected is not None else "none"] += 1
    assert min(met["chosen"], met["none"]) > 1000


def test_a_named_option_is_returned_unchanged_or_refused() -> None:
    source = random.Random(32)
    for _ in range(10_000):
        sent = made(source)
        named = source.choice([*IDS, "nobody", 1, True, ["a"], {}])
        count = sum(one["optionId"] == named for one in sent)
        if count == 1:
            assert choose(read_options(sent), named) == named
        else:
            with pytest.raises(ValueError, match="nothing was chosen"):
                choose(read_options(sent), named)


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

            async def decide(person: MEWParticipant, option: str, id: str, arguments: dict[str, Any]) -> bool:
                params = {"name": "permission", "arguments": {**arguments, "option": option}}
                try:
                    sent = await person.approve(id, params=params)
                except MewError:
                    return False
                return person.proposals.get(id).fulfilment == sent.id

            chances = zip(racing, itertools.cycle(names[at % 3 :] + names[: at % 3]), strict=False)
            tried = [(option, person) for person, option in chances]
            told = await asyncio.gather(*(decide(person, option, id, arguments) for option, person in tried))
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
