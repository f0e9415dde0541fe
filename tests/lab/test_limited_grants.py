"""Grants with an end: who keeps it, how uses are counted, and what a pattern would have matched."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mew_lab.errors import CapabilityViolation, ConfigError, MewError, Refused
from mew_lab.lab.decisions import limited_grants
from mew_lab.lab.decisions.limited_grants import LOOKED_AT, GivenGrant, Matches, end_in_words
from mew_lab.lab.lab import Lab
from mew_lab.lab.labs import up
from mew_lab.lab.seat import Seat
from mew_lab.space.events import Record

from .looking import eventually, sent

ADD = {
    "kind": "mcp/request",
    "to": "notebook",
    "payload": {"method": "tools/call", "params": {"name": "add"}},
}
Adding = Callable[[int, int], Any]


def grant(lab: Lab, to: str = "bot", pattern: dict[str, Any] = ADD, **limits: Any) -> str:
    return lab.loop.run(lab.granting.grant(to, [pattern], **limits), timeout=10, doing="granting")


@pytest.fixture
def elsewhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway of the lab ignores ends of grants, as those of others do."""
    lab.host.core.state.edition = 0
    monkeypatch.setattr(limited_grants.LimitedGrants, "kept", False)


@pytest.fixture
def bot(lab: Lab) -> Seat:
    return lab.join("bot", can="proposer")


def given(lab: Lab, id: str) -> Any:
    return next(one for one in lab.granting.given if one.id == id)


@pytest.mark.threat(22)
def test_threat_22_a_grant_of_two_uses_is_revoked_after_the_second(
    lab: Lab, elsewhere: None, bot: Seat, adding: Adding
) -> None:
    id = grant(lab, uses=2, reason="twice")
    eventually(lambda: any(p.get("payload") for p in bot.capabilities))
    for n in (1, 2):
        pending = bot.call("notebook/add", {"a": n, "b": 1})
        assert pending.kind == "mcp/request" and pending.result(10).structured == {"result": n + 1}
    one = eventually(lambda: given(lab, id).state == "revoked" and given(lab, id))
    assert (one.used, one.uses, one.why) == (2, 2, "its 2 uses are over")
    [revoke] = sent(lab, "capability/revoke")
    assert revoke["payload"] == {"recipient": "bot", "grant_id": id, "reason": "its 2 uses are over"}
    eventually(lambda: bot.call("notebook/add", {"a": 5, "b": 5}).kind == "mcp/proposal")


@pytest.mark.ruling("R25")
@pytest.mark.threat(22, 38)
def test_a_grant_of_two_uses_is_ended_by_the_gateway_and_not_by_a_revoke(
    lab: Lab, bot: Seat, adding: Adding
) -> None:
    id = grant(lab, uses=2, reason="twice")
    [told] = sent(lab, "capability/grant")
    assert told["payload"]["max_uses"] == 2 and "expires_at" not in told["payload"]
    eventually(lambda: any(p.get("payload") for p in bot.capabilities))
    assert bot.call("notebook/add", {"a": 1, "b": 1}).result(10).structured == {"result": 2}
    eventually(lambda: given(lab, id).used == 1)
    assert given(lab, id).left == "1 of 2 uses"
    assert bot.call("notebook/add", {"a": 2, "b": 1}).result(10).structured == {"result": 3}
    eventually(lambda: given(lab, id).state == "revoked")
    assert (given(lab, id).used, given(lab, id).why) == (2, "its 2 uses are over")
    eventually(lambda: bot.call("notebook/add", {"a": 5, "b": 5}).kind == "mcp/proposal")
    assert sent(lab, "capability/revoke") == []
    [ack] = eventually(lambda: sent(lab, "capability/grant-ack"))
    assert ack["payload"] == {"status": "accepted", "max_uses": 2}


@pytest.mark.ruling("R25")
@pytest.mark.threat(22, 38)
def test_a_grant_for_some_minutes_says_until_when(lab: Lab, bot: Seat) -> None:
    assert given(lab, grant(lab, minutes=10)).left.startswith("until ")


@pytest.mark.ruling("R25")
@pytest.mark.threat(22, 38)
@pytest.mark.parametrize("where", ["lab", "elsewhere"])
def test_a_grant_for_a_moment_is_ended_by_the_gateway_or_else_by_a_revoke(
    lab: Lab, bot: Seat, where: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(where)
    before = bot.capabilities
    id = grant(lab, minutes=0.002)
    eventually(lambda: given(lab, id).state == "revoked")
    assert given(lab, id).why == "its 0.002 min are over"
    eventually(lambda: bot.capabilities == before)
    assert len(sent(lab, "capability/revoke")) == (where == "elsewhere")


@pytest.mark.ruling("R25")
def test_what_is_taken_back_before_its_end_is_said_to_be(lab: Lab, bot: Seat) -> None:
    hour, uses, both = grant(lab, minutes=60), grant(lab, uses=1), grant(lab, minutes=60, uses=9)
    lab.send("capability/revoke", {"recipient": "bot", "grant_id": hour, "reason": "enough"})
    eventually(lambda: given(lab, hour).state == "revoked")
    lab.loop.run(lab.me.participant.rights.revoke("bot", capabilities=[ADD]), timeout=10, doing="revoking")
    eventually(lambda: {given(lab, uses).state, given(lab, both).state} == {"revoked"})
    assert given(lab, hour).why == "enough"
    assert given(lab, uses).why == given(lab, both).why == "it was taken back, or what it rested on"
    lab.down()
    assert lab.faults == []


@pytest.mark.ruling("R25")
def test_a_lab_that_goes_down_leaves_the_end_of_its_grants_to_the_gateway(lab: Lab, bot: Seat) -> None:
    ids = [grant(lab), grant(lab, minutes=60), grant(lab, uses=10)]
    lab.down()
    assert sent(lab, "capability/revoke") == [] and not lab.faults
    assert {given(lab, id).state for id in ids} == {"stands"}


def test_a_call_that_passes_by_another_capability_is_no_use(lab: Lab, adding: Adding) -> None:
    bot = lab.join("bot", can=[ADD])
    id = grant(lab, uses=1)
    assert bot.call("notebook/add", {"a": 1, "b": 1}).result(10).structured == {"result": 2}
    assert (given(lab, id).used, given(lab, id).state) == (0, "stands")


def test_what_somebody_else_revokes_is_over_and_no_second_revoke_is_sent(
    lab: Lab, elsewhere: None, bot: Seat
) -> None:
    id = grant(lab, minutes=60)
    lab.send("capability/revoke", {"recipient": "bot", "grant_id": id, "reason": "enough"})
    eventually(lambda: given(lab, id).state == "revoked")
    assert given(lab, id).why == "enough"
    lab.down()
    assert len(sent(lab, "capability/revoke")) == 1


def test_a_lab_that_goes_down_takes_back_what_it_gave_for_a_while_and_nothing_else(
    lab: Lab, elsewhere: None, bot: Seat
) -> None:
    for_ever, hour, uses = grant(lab), grant(lab, minutes=60), grant(lab, uses=10)
    lab.down()
    assert [one["payload"]["grant_id"] for one in sent(lab, "capability/revoke")] == [hour, uses]
    assert given(lab, for_ever).state == "stands" and not lab.faults


def test_a_revoke_that_fails_is_a_fault_of_the_lab_and_the_grant_is_said_to_stand(
    lab: Lab, elsewhere: None, bot: Seat
) -> None:
    id = grant(lab, minutes=0.003)

    async def cut() -> None:
        await lab.me.participant.stop()

    lab.loop.run(cut(), timeout=10, doing="cutting")
    eventually(lambda: lab.faults)
    assert f"the permission {id} of bot may still be in force" in lab.faults[-1]
    assert given(lab, id).state == "stands" and "no revoke is confirmed" in given(lab, id).why


def test_a_revoke_that_failed_is_tried_again_until_it_succeeds(
    lab: Lab, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_grants, "AGAIN", 0.05)
    bot, other = lab.join("bot", can="proposer"), lab.join("other", can=[{"kind": "*"}])
    before = bot.capabilities
    id = grant(lab, minutes=0.01)
    other.send("participant/pause", {"reason": "wait"}, to="human")
    eventually(lambda: len(lab.faults) > 1)
    assert given(lab, id).state != "revoked" and bot.capabilities != before
    other.send("participant/resume", {}, to="human")
    eventually(lambda: given(lab, id).state == "revoked")
    assert given(lab, id).why == "its 0.01 min are over"
    eventually(lambda: bot.capabilities == before)


@pytest.mark.parametrize(
    ("limits", "error", "says"),
    [
        ({"minutes": 0}, MewError, "more than 0"),
        ({"minutes": float("nan")}, MewError, "more than 0"),
        ({"uses": 0}, MewError, "at least one"),
        ({"pattern": {"kind": "x", "paylod": {}}}, ConfigError, "paylod"),
        ({"to": "nobody"}, Refused, "nobody"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(
    lab: Lab, bot: Seat, limits: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        grant(lab, **limits)
    assert lab.granting.given == ()


def test_one_may_revoke_what_one_did_not_grant_but_must_have_seen_it(lab: Lab, bot: Seat) -> None:
    sender = lab.send("capability/grant", {"recipient": "bot", "capabilities": [ADD]})
    eventually(lambda: lab.me.participant.rights.grants.get(sender.id))
    lab.loop.run(lab.granting.revoke(sender.id), timeout=10, doing="revoking")
    assert sent(lab, "capability/revoke")[0]["payload"]["grant_id"] == sender.id
    with pytest.raises(MewError, match="no such grant was seen here"):
        lab.loop.run(lab.granting.revoke("grant-9"), timeout=10, doing="revoking")


def test_who_may_not_grant_is_told_so() -> None:
    lab = up()
    lab.join("bot", can="proposer")
    bot = lab.seats["bot"]
    with pytest.raises(CapabilityViolation):
        lab.loop.run(bot.participant.rights.grant("human", [ADD]), timeout=10, doing="granting")


@pytest.mark.threat(22)
def test_undo_takes_back_what_was_granted_last_and_still_stands(lab: Lab, bot: Seat, adding: Adding) -> None:
    with pytest.raises(MewError, match="nothing to undo: no permission that you gave is in force"):
        lab.undo()
    first = grant(lab)
    second = grant(lab, pattern={"kind": "participant/pause"})
    third = grant(lab, pattern={"kind": "participant/resume"})
    lab.loop.run(lab.granting.revoke(third), timeout=10, doing="revoking")
    assert str(lab.undo()).endswith(" is revoked: pause participants")
    assert [given(lab, id).state for id in (first, second, third)] == ["stands", "revoked", "revoked"]
    assert [one["payload"]["grant_id"] for one in sent(lab, "capability/revoke")] == [third, second]
    eventually(lambda: not any(p["kind"] == "participant/pause" for p in bot.capabilities))
    assert "add" in str(lab.undo())
    with pytest.raises(MewError, match="nothing to undo"):
        lab.undo()


@pytest.mark.threat(22)
def test_what_ends_some_day_is_never_forgotten_before(
    lab: Lab, elsewhere: None, bot: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_grants, "KEPT", 4)
    hour, some = grant(lab, minutes=60), grant(lab, uses=3)
    for _ in range(6):
        grant(lab)
    assert [one.id for one in lab.granting.given][:2] == [hour, some] and len(lab.granting.given) == 4
    grant(lab, minutes=60), grant(lab, minutes=60)
    lab.down()
    assert {hour, some} <= {one["payload"]["grant_id"] for one in sent(lab, "capability/revoke")}


@pytest.mark.threat(22)
def test_a_grant_of_which_nobody_knows_whether_it_was_taken_is_revoked(
    lab: Lab, elsewhere: None, bot: Seat
) -> None:
    before = bot.capabilities

    async def given_up() -> None:
        task = asyncio.get_running_loop().create_task(lab.granting.grant("bot", [ADD], uses=1))
        while not sent(lab, "capability/grant"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not task.done(), "nobody has told it yet"
        task.cancel()
        await asyncio.wait([task])

    lab.loop.run(given_up(), timeout=10, doing="granting")
    [one] = lab.granting.given
    eventually(lambda: given(lab, one.id).state == "revoked")
    assert given(lab, one.id).why == "the gateway did not acknowledge the permission"
    assert [told["payload"]["grant_id"] for told in sent(lab, "capability/revoke")] == [one.id]
    eventually(lambda: bot.capabilities == before)
    assert not lab.loop.call(lambda: lab.following.caught_up(lab.granting)), "nothing is counted any more"


@pytest.mark.threat(22)
def test_uses_are_counted_from_the_first_one_however_long_the_log_is(
    lab: Lab, elsewhere: None, bot: Seat, adding: Adding
) -> None:

    def old(n: int) -> None:
        raw = json.dumps({"id": f"old-{n}", "from": "bot", "kind": "chat", "payload": {"text": "old"}})
        lab.observe(Record(n, datetime.now(UTC), "received", "demo", "bot", verdict="accepted", raw=raw))

    lab.loop.call(lambda: [old(n) for n in range(5000)])
    grant(lab, uses=1)
    assert lab.loop.call(lambda: lab.following.caught_up(lab.granting))


def test_a_grant_that_went_with_others_is_over_and_no_fault(lab: Lab, elsewhere: None, bot: Seat) -> None:
    id, at_the_end = grant(lab, minutes=0.01), grant(lab, uses=2)
    taken = lab.me.participant.rights.revoke("bot", capabilities=[ADD])
    lab.loop.run(taken, timeout=10, doing="revoking")
    eventually(lambda: given(lab, id).state == "revoked")
    lab.down()
    assert given(lab, at_the_end).state == "revoked" and lab.faults == []


def test_a_lab_takes_back_all_at_once_at_its_end(
    lab: Lab, elsewhere: None, bot: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        grant(lab, minutes=60)
    under_way: list[str] = []
    revoke = lab.granting.revoke

    async def together(id: str, *, reason: str = "") -> None:
        under_way.append(id)
        while len(under_way) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await revoke(id, reason=reason)

    monkeypatch.setattr(lab.granting, "revoke", together)
    lab.down()
    assert all(one.state == "revoked" for one in lab.granting.given) and lab.faults == []


@pytest.mark.parametrize(
    ("ends", "uses", "used", "words", "left"),
    [
        (None, None, 0, "", "until it is revoked"),
        (None, 5, 0, "0 of 5 uses", "0 of 5 uses"),
        (None, 1, 1, "1 of 1 use", "1 of 1 use"),
        (60.0, 3, 1, *["1 of 3 uses, until [^:]+:[^:]+:[^:]+"] * 2),
    ],
)
def test_an_end_in_few_words(ends: float | None, uses: int | None, used: int, words: str, left: str) -> None:
    one = GivenGrant(id="g", to="bot", patterns=(), reason="", since=0.0, ends=ends, uses=uses, used=used)
    assert re.fullmatch(words, end_in_words(ends, uses, used)) and re.fullmatch(left, one.left)
    assert one.limited is bool(words)


@pytest.mark.threat(22)
def test_threat_22_what_a_pattern_would_have_matched_is_counted_with_the_last_three(
    lab: Lab, adding: Adding
) -> None:
    bot, other = lab.join("bot", can="proposer"), lab.join("other", can="proposer")
    for n in range(4):
        bot.call("notebook/add", {"a": n, "b": 1})
    other.call("notebook/add", {"a": 1, "b": 1})
    bot.propose("notebook/drop", {})
    lab.call("notebook/add", a=1, b=9).result(10)
    matches = lab.granting.would_match(ADD)
    assert isinstance(matches, Matches) and matches.count == 6
    assert [(one.sender, one.kind) for one in matches.examples] == [
        ("human", "mcp/request"),
        ("other", "mcp/proposal"),
        ("bot", "mcp/proposal"),
    ]
    assert "add" in matches.examples[0].what
    assert lab.granting.would_match(ADD, sender="bot").count == 4
    narrow = json.loads(json.dumps(ADD))
    narrow["payload"]["params"]["arguments"] = {"a": 1, "b": 1}
    assert lab.granting.would_match(narrow, sender="bot").count == 1
    assert lab.granting.would_match({"kind": "stream/*"}).count == 0
    with pytest.raises(ConfigError):
        lab.granting.would_match({"to": "notebook"})


@pytest.mark.threat(9)
def test_threat_09_a_long_log_is_searched_in_turns_and_only_its_newest_part() -> None:
    lab = up()
    lab.join("bot", can="proposer")
    chat = json.dumps({"id": "e", "from": "bot", "kind": "chat", "payload": {"text": "x"}})
    record = Record(1, datetime.now(UTC), "envelope", "demo", "bot", verdict="accepted", raw=chat)

    async def search() -> tuple[Matches, int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        found = await lab.granting.count_matches({"kind": "chat"}, sender="bot")
        other.cancel()
        return found, turns

    for _ in range(LOOKED_AT + 500):
        lab.log.observe(record)
    found, turns = lab.loop.run(search(), timeout=20, doing="searching")
    assert found.count == found.looked_at == LOOKED_AT and turns >= LOOKED_AT // 1000 - 1
    assert lab.granting.would_match({"kind": "chat"}, sender="bot").count == LOOKED_AT
