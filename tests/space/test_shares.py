"""No holder of any profile stops the others: one budget a turn, sizes of what is told, and a share for each."""

from __future__ import annotations

import itertools
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import ConfigError
from mew_lab.gateway.config import SpaceConfig
from mew_lab.gateway.gateway import Gateway
from mew_lab.log.replay import replay, replay_records
from mew_lab.protocol.node import Budget
from mew_lab.protocol.permit import Capability, CapabilitySet
from mew_lab.space.core import Space
from mew_lab.space.ends import standing
from mew_lab.space.events import Deliver, Enrolled, Mint, Received, Record
from mew_lab.space.opening import opening_record
from mew_lab.space.rights import Held, Rights, lapsed, lapsed_of
from mew_lab.space.shares import configurable, share_of
from mew_lab.space.snapshot import restore, snapshot
from mew_lab.space.state import LIMITS, UNBOUNDED, SpaceLimits

from .stage import Stage, Step

pytestmark = [pytest.mark.threat(7, 9, 37), pytest.mark.ruling("R24")]

COSTLY: dict[str, Any] = {"kind": "chat", "payload": {"**": "*a*b*c*x"}}
LARGE = {"l": ["abcabc" * 40] * 1500}
BESIDE = 128  # bytes of a participant in a welcome beside its capabilities
BOMBS = [{"kind": "chat", "payload": {"**": f"*a*b*{n}"}} for n in range(200)]


def chats(count: int) -> list[dict[str, Any]]:
    return [{"kind": "chat", "payload": {"text": f"t{n}"}} for n in range(count)]


# --- judging ---


@pytest.mark.extension("budgets")
def test_a_message_that_costs_more_than_the_budget_is_refused_and_told_whose_rights_they_are() -> None:
    stage = Stage(ann=[COSTLY] * 1, bob="*")
    refused = stage.send("ann", "chat", LARGE)
    assert refused.record.code == "limit_exceeded"
    assert "capabilities of 'ann'" in refused.error["message"] and refused.hearers == {"ann"}
    assert stage.send("ann", "chat", {"t": "abcx"}).accepted
    assert stage.post("ann", "chat", LARGE).reply.status == 429


def test_what_an_earlier_capability_permits_is_not_lost_by_costly_ones_that_were_added() -> None:
    stage = Stage(root="*", ann=[{"kind": "chat"}])
    assert stage.grant("root", "ann", [COSTLY]).accepted
    assert stage.send("ann", "chat", LARGE).accepted


def test_a_message_of_too_many_values_is_refused_before_it_is_read() -> None:
    stage = Stage(ann="chat", bob="chat")
    text = '{"kind":"chat","payload":{"t":[' + "[]," * 200_000 + "0]}}"
    refused = stage.step(Received(text, "ann"))
    assert refused.record.code == "limit_exceeded" and refused.hearers == {"ann"}
    assert "values" in refused.error["message"]
    assert stage.step(Received('{"kind":"chat","payload":{"t":"' + "[]," * 200_000 + '"}}', "ann")).accepted


# --- giving ---


def test_what_cannot_be_judged_is_refused_where_it_is_given() -> None:
    stage = Stage(mallory=["chat", "capability/grant", "space/invite"], bot=[])
    granted = stage.grant("mallory", "bot", BOMBS)
    assert granted.record.code == "limit_exceeded" and "'bot' would hold" in granted.error["message"]
    invited = stage.send("mallory", "space/invite", {"participant_id": "eve", "initial_capabilities": BOMBS})
    assert invited.record.code == "limit_exceeded" and "eve" not in stage.space.state.members
    with pytest.raises(ConfigError, match="cannot be judged within the budget"):
        Stage(ann=BOMBS)


@pytest.mark.parametrize("more", [0, -1])
def test_a_set_may_cost_exactly_the_budget_of_a_message(more: int) -> None:
    limits = SpaceLimits(steps=CapabilitySet([COSTLY]).cost + more)
    stage = Stage(owner="root", root="*", bot=[], baseline=[], limits=limits)
    assert stage.grant("root", "bot", [COSTLY]).record.code == ("limit_exceeded" if more else "")
    if more:
        with pytest.raises(ConfigError, match="cannot be judged within the budget"):
            configurable({"bot": [COSTLY]}, [], limits)
    else:
        configurable({"bot": [COSTLY]}, [], limits)


def test_a_configuration_that_is_too_costly_or_too_large_is_refused_with_its_key() -> None:
    def fault(held: list[dict[str, Any]], **limits: int) -> str | None:
        people = {"ann": {"capabilities": [{"kind": "chat"}]}, "bob": {"capabilities": held}}
        config = SpaceConfig.model_validate({"name": "s", "participants": people, "limits": limits})
        gateway = Gateway()
        with pytest.raises(ConfigError) as caught:
            gateway.add_space(config)
        assert gateway.spaces == ()
        return caught.value.key

    giant = {"kind": "chat", "payload": {"text": "A" * 17_000}}
    assert fault(BOMBS) == "participants.bob.capabilities"
    assert fault([{"kind": "chat"}, giant]) == "participants.bob.capabilities[1]"
    assert fault(chats(100), rights_bytes=2000) == "participants.bob.capabilities"


@pytest.mark.parametrize("count", [400, 2000])  # too many to judge, too many to read
def test_an_invitation_with_too_many_at_once_is_refused_whole(count: int) -> None:
    stage = Stage(mallory=[*(f"z{n}/*" for n in range(50)), "space/invite"])

    def invited(count: int) -> Step:
        asked = [{"kind": f"z{n % 50}/{n}"} for n in range(count)]
        return stage.send("mallory", "space/invite", {"participant_id": "eve", "initial_capabilities": asked})

    refused = invited(count)
    assert (refused.record.code, refused.hearers, refused.of(Mint)) == ("limit_exceeded", {"mallory"}, [])
    assert "eve" not in stage.space.state.members
    assert invited(100).accepted


@pytest.mark.parametrize("count", [700, 2000])
def test_a_grant_of_too_many_at_once_is_refused_whole(count: int) -> None:
    stage = Stage(mallory=["chat", "capability/grant"], bot=[])
    before = stage.held("bot")
    assert stage.grant("mallory", "bot", chats(count)).record.code == "limit_exceeded"
    assert stage.held("bot") == before
    assert stage.grant("mallory", "bot", chats(100)).accepted


def test_what_is_held_to_the_letter_may_be_given_however_much_else_is_held() -> None:
    stage = Stage(mallory=[*(f"z{n}/*" for n in range(300)), "capability/grant"], bot=[])
    assert stage.grant("mallory", "bot", [{"kind": "z299/*"}]).accepted
    assert stage.grant("mallory", "bot", [{"kind": "y1/*"}]).record.code == "cannot_grant"


def test_a_revoke_is_never_refused_and_what_cannot_be_decided_falls() -> None:
    stage = Stage(owner="root", root="*", bot=[])
    for n in range(3):
        held = [{"kind": "chat", "payload": {"text": f"t{n}-{at}*x*"}} for at in range(60)]
        assert stage.grant("root", "bot", held).accepted
    overlapping = [{"kind": "chat", "payload": {"text": f"*{n}*y"}} for n in range(200)]
    revoked = stage.send("root", "capability/revoke", {"recipient": "bot", "capabilities": overlapping})
    assert revoked.accepted and len(stage.held("bot")) < 100
    too_many = [{"kind": "chat", "payload": {"text": f"*{n}*y"}} for n in range(3000)]
    assert stage.send("root", "capability/revoke", {"recipient": "bot", "capabilities": too_many}).accepted
    assert stage.held("bot") == []


def test_what_is_held_is_compared_with_the_patterns_of_a_revoke_until_the_budget_ends_and_the_rest_falls() -> (
    None
):
    """Each of these allows "b" besides what is revoked, so it stays where there is time to find that out (R13)."""
    held = [
        {"kind": "chat", "payload": {"text": [*(f"a{at}-{n}" for n in range(150)), "b"]}} for at in range(40)
    ]
    left = {}
    for steps in (LIMITS.turn_steps, 10**7):
        stage = Stage(owner="root", root="*", bot=[])
        for one in held:
            assert stage.grant("root", "bot", [one]).accepted
        stage.space.state.limits = LIMITS._replace(turn_steps=steps)
        pattern = {"kind": "chat", "payload": {"text": "a*"}}
        revoked = stage.revoke("root", recipient="bot", capabilities=[pattern])
        assert revoked.accepted and revoked.error["error"] == "revoke_partial"
        left[steps] = len(stage.held("bot")) - 1  # the baseline
        assert len(revoked.error["remaining"]) == left[steps]
    assert left[10**7] == 40 and 0 < left[LIMITS.turn_steps] < 30


# --- what falls ---


def test_a_revoke_of_a_trifle_asks_nothing_of_what_does_not_rest_on_it() -> None:
    stage = Stage(owner="root", root="*", mallory=["chat", "capability/*"], a=[], b=[])
    for name in ("a", "b"):
        assert stage.grant("mallory", name, chats(400)).accepted
    stage.grant("mallory", "a", "chat", id="trifle")
    text = json.dumps({"kind": "capability/revoke", "payload": {"recipient": "a", "grant_id": "trifle"}})
    turn = stage.space.plan(Received(text, "mallory"), stage.now)
    assert turn.meter is not None and turn.meter.left > LIMITS.turn_steps - 1000
    assert any(type(one) is Record and one.verdict == "accepted" for one in turn.effects)


def test_what_falls_is_what_would_fall_if_everything_were_asked_again() -> None:
    """Random delegations: somebody loses something; the part that is looked at is enough."""
    r = random.Random(24)
    kinds = ["chat", "a/*", "a/b", "*"]
    for _ in range(400):
        names = [f"p{n}" for n in range(r.randint(2, 6))]
        rights = {
            name: [Held(Capability.of({"kind": one})) for one in r.sample(kinds, r.randint(0, 2))]
            for name in names
        }
        for number in range(r.randint(1, 12)):
            giver, taker = r.choice(names), r.choice(names)
            one = Capability.of({"kind": r.choice(kinds)})
            rights[taker].append(Held(one, f"g{number}", giver, False))
        all_rights = {name: Rights(held) for name, held in rights.items()}
        for name, lost in lapsed(all_rights, {}).items():  # from here on all of it stands
            all_rights[name] = all_rights[name].without(lost)
        loser = r.choice(names)
        held = all_rights[loser].held
        gone = [one for one in held if r.random() < 0.6]
        all_rights[loser] = all_rights[loser].without(gone)
        expected = lapsed(all_rights, {})
        assert lapsed_of(all_rights, [loser], {}, Budget(10**9)) == expected
        nothing = lapsed_of(all_rights, [loser], {}, Budget(0))
        for name, lost in expected.items():  # a budget that has ended takes more, never less
            assert {id(one) for one in lost} <= {id(one) for one in nothing[name]}


# --- sizes ---


def test_no_capability_is_larger_than_its_bound() -> None:
    stage = Stage(mallory=["chat", "capability/grant"], bot=[])
    beside = len('{"kind":"chat","payload":{"text":""}}')
    for size, code in ((16_384, ""), (16_385, "limit_exceeded"), (900_000, "limit_exceeded")):
        right = {"kind": "chat", "payload": {"text": "A" * (size - beside)}}
        assert stage.grant("mallory", "bot", [right]).record.code == code
    for limit, fits in ((1_000, True), (999, False)):
        right = {"kind": "chat", "payload": {"text": "A" * (1_000 - beside)}}
        if fits:
            configurable({"ann": [right]}, [], SpaceLimits(capability_bytes=limit))
        else:
            with pytest.raises(ConfigError, match="a capability of 1000 bytes"):
                configurable({"ann": [right]}, [], SpaceLimits(capability_bytes=limit))


def test_a_welcome_has_a_greatest_size_whatever_the_holders_do() -> None:
    r = random.Random(8)
    limits = SpaceLimits(rights_bytes=20_000, description_bytes=10_000, share=3)
    may = ["chat", "capability/*", "space/invite", "stream/*"]
    stage = Stage(owner="root", root="*", ann=may, bob=may, limits=limits)
    everybody = ["ann", "bob"]
    largest = refused = 0
    for n in range(500):
        who = r.choice(everybody)
        match r.randint(0, 4):
            case 0:
                name = f"n{n}"
                step = stage.send("ann", "space/invite", {"participant_id": name})
                if step.accepted:
                    everybody.append(name)
                    stage.join(name)
                    stage.grant("root", name, ["capability/grant", "stream/*"])
            case 1 | 2:
                right = {"kind": "chat", "payload": {"text": f"{n}" + "x" * r.choice([5, 500, 3000])}}
                step = stage.grant(who, r.choice(everybody), [right])
            case 3:
                step = stage.send(who, "stream/request", {"description": "d" * r.choice([1, 1000])})
            case _:
                step = stage.join(r.choice(everybody), as_=f"c{n}", on=f"x{n}")
        refused += step.record.code == "limit_exceeded"
        for one in step.of(Deliver):
            if one.envelope.kind == "system/welcome":
                largest = max(largest, len(one.envelope.raw.encode()))
    assert refused > 20
    assert 10_000 < largest < 20_000 + 10_000 + 1_000


def described(*capabilities: dict[str, Any]) -> int:
    """The bytes of a participant in a welcome."""
    texts = [json.dumps(one, separators=(",", ":")) for one in capabilities]
    return sum(len(one) + 1 for one in texts) + BESIDE


BASE = {"kind": "mcp/response"}


def test_all_capabilities_together_have_exactly_so_many_bytes() -> None:
    right = {"kind": "chat", "payload": {"text": "x" * 100}}
    most = described({"kind": "*"}, BASE) + described(BASE) + described(right) - BESIDE

    def code(limit: int, **more: Any) -> str:
        stage = Stage(owner="root", root="*", bot=[], limits=SpaceLimits(rights_bytes=limit), **more)
        return stage.grant("root", "bot", [right]).record.code

    assert code(most) == "" and code(most - 1) == "limit_exceeded"
    more = described({"kind": "chat"}, BASE)
    assert code(most + more, eve="chat") == "" and code(most + more - 1, eve="chat") == "limit_exceeded"


def test_another_connection_of_a_participant_counts_as_much_again() -> None:
    """Each runtime id stands in a welcome with all that its participant may do."""
    one, other = described({"kind": "*"}, BASE), described({"kind": "chat"}, BASE)
    for limit, closed in ((one + 2 * other, {}), (one + 2 * other - 1, {"bot-2": 4409})):
        stage = Stage(owner="root", root="*", bot="chat", limits=SpaceLimits(rights_bytes=limit))
        assert stage.join("bot", as_="bot-2").closed == closed


def test_a_configuration_has_exactly_so_many_bytes() -> None:
    people = {"ann": [{"kind": "*"}], "bob": [{"kind": "chat", "to": "ann"}]}
    most = sum(described(*one, BASE) for one in people.values())
    configurable(people, [BASE], SpaceLimits(rights_bytes=most))
    configurable(people, [BASE], SpaceLimits(rights_bytes=0))
    with pytest.raises(ConfigError, match=f"have {most} bytes, and a welcome tells at most {most - 1}"):
        configurable(people, [BASE], SpaceLimits(rights_bytes=most - 1))


def test_where_a_journal_tells_of_no_budget_only_the_requests_of_streams_are_counted() -> None:
    def said(limit: int) -> list[bool]:
        limits = SpaceLimits(**UNBOUNDED, description_bytes=limit)
        stage = Stage(ann="stream/*", limits=limits)
        stage.open("ann")
        writer = stage.send("ann", "stream/grant-write", {"stream_id": "stream-1", "participant_id": "ann"})
        return [
            writer.accepted,
            *(stage.send("ann", "stream/request", {}, id=f"q{n}").accepted for n in range(3)),
        ]

    first = Stage(ann="stream/*").send("ann", "stream/request", {"direction": "upload"}, id="m1").record.raw
    other = Stage(ann="stream/*").send("ann", "stream/request", {}, id="q0").record.raw
    assert first is not None and other is not None
    assert said(len(first) + 2 * len(other)) == [True, True, True, False]
    assert said(len(first) + 2 * len(other) - 1) == [True, True, False, False]


# --- shares ---


@pytest.mark.parametrize(
    ("share", "limit", "most"), [(1, 10, 10), (2, 10, 5), (8, 100, 12), (8, 4, 1), (0, 10, 10)]
)
def test_a_share_is_one_part_of_a_limit_and_never_nothing(share: int, limit: int, most: int) -> None:
    assert share_of(SpaceLimits(share=share), limit) == most


def test_half_of_a_limit_is_the_share_of_each_of_two() -> None:
    stage = Stage(
        owner="root", root="*", ann=["chat", "capability/grant"], limits=SpaceLimits(grants=4, share=2)
    )
    assert [stage.grant("ann", "ann", "chat").record.code for _ in range(3)] == ["", "", "limit_exceeded"]


def test_the_streams_of_one_participant_may_have_exactly_its_share_of_a_welcome() -> None:
    whole = Stage(ann="stream/*").send("ann", "stream/request", {}, id="q0").record.raw
    assert whole is not None
    most = 2 * (len(whole) + 128 + 70)  # what the gateway says of each, its one writer included

    def said(limit: int) -> list[str]:
        limits = SpaceLimits(description_bytes=limit, share=2)
        stage = Stage(owner="root", root="*", ann=["stream/*", "space/invite"], limits=limits)
        stage.send("ann", "space/invite", {"participant_id": "eve"})
        stage.join("eve")
        assert stage.grant("root", "eve", "stream/*").accepted
        asked = [("ann", 0), ("eve", 1), ("ann", 2), ("eve", 3), ("root", 4)]
        return [stage.send(who, "stream/request", {}, id=f"q{n}").record.code for who, n in asked]

    assert said(2 * most) == ["", "", "limit_exceeded", "limit_exceeded", ""]
    assert said(2 * most - 1) == ["", *["limit_exceeded"] * 3, ""]


def test_what_one_has_given_may_be_exactly_its_share_of_a_welcome() -> None:
    right = {"kind": "chat", "payload": {"text": "x" * 500}}
    size = described(right) - BESIDE

    def code(limit: int, giver: str) -> list[str]:
        limits = SpaceLimits(rights_bytes=limit, share=2)
        stage = Stage(owner="root", root="*", ann=["chat", "capability/grant"], bob=[], limits=limits)
        return [stage.grant(giver, "bob", [{**right, "id": f"{n}"}]).record.code for n in range(3)]

    size += len(',"id":"0"')
    assert code(4 * size, "ann") == ["", "", "limit_exceeded"]
    assert code(4 * size - 1, "ann") == ["", "limit_exceeded", "limit_exceeded"]
    assert code(4 * size, "root") == ["", "", ""]


@pytest.mark.threat(9)
def test_one_participant_and_whom_it_invited_have_a_share_of_the_connections() -> None:
    stage = Stage(
        owner="root", root="*", ann=["chat", "space/invite"], bob=[], limits=SpaceLimits(connections=72)
    )
    stage.send("ann", "space/invite", {"participant_id": "eve"})
    for n in range(2, 9):  # with the first one eight, of the nine that are its share
        assert stage.join("ann", as_=f"ann-{n}").closed == {}
    assert stage.join("eve").closed == {}
    refused = stage.join("eve", as_="eve-2")
    assert refused.closed == {"eve-2": 4409}
    assert "'ann' and those it invited have their share of 9 connections" in refused.record.detail
    assert stage.join("bob", as_="bob-2").closed == {}
    stage.leave("ann-2")
    assert stage.join("eve", as_="eve-2").closed == {}


@pytest.mark.parametrize("connections", [8, 64])
def test_eight_connections_are_anybodys_share_however_few_a_space_has(connections: int) -> None:
    limits = SpaceLimits(connections=connections)
    stage = Stage(owner="root", root="*", ann=["chat", "space/invite"], limits=limits)
    for name, told in (("root", "r"), ("ann", "a")):
        for n in range(2, 9):
            assert stage.join(name, as_=f"{told}{n}").closed == {}
    for name in ("ann", "root"):
        stage.send(name, "space/invite", {"participant_id": f"of-{name}"})
    assert stage.join("of-ann").closed == {"of-ann": 4409}
    assert stage.join("of-root").closed == {}  # the owner has no share


def test_who_is_invited_back_by_whom_it_brought_in_has_no_share_of_its_own() -> None:
    may = ["chat", "capability/grant", "space/invite", "space/kick"]
    stage = Stage(owner="root", root="*", ann=may, bob=["chat"], limits=SpaceLimits(grants=24))
    for inviter, name in (("ann", "eve"), ("eve", "fay")):
        stage.send(inviter, "space/invite", {"participant_id": name})
        stage.join(name)
        assert stage.grant("root", name, may).accepted
    stage.send("ann", "space/kick", {"participant_id": "eve"})
    assert stage.send("fay", "space/invite", {"participant_id": "eve"}).accepted
    stage.join("eve")
    assert stage.grant("root", "eve", may).accepted
    assert [stage.grant(who, "bob", "chat").accepted for who in ("fay", "eve", "ann")] == [True] * 3
    for who in ("ann", "eve", "fay"):
        refused = stage.grant(who, "bob", "chat")
        assert refused.record.code == "limit_exceeded" and "'ann'" in refused.error["message"]
    stage.send("root", "space/kick", {"participant_id": "ann"})
    assert stage.send("fay", "space/invite", {"participant_id": "ann"}).accepted
    assert stage.space.state.root("fay") == "ann"  # it still is one of the configuration


@pytest.mark.ruling("R20")
def test_in_a_space_of_the_edition_before_who_invites_back_counts() -> None:
    may = ["chat", "space/invite"]
    stage = Stage(owner="root", root="*", ann=may)
    stage.space.state.edition = 1
    for inviter, name in (("ann", "eve"), ("eve", "fay")):
        stage.grant("root", inviter, may)
        stage.send(inviter, "space/invite", {"participant_id": name})
        stage.join(name)
    stage.grant("root", "fay", may)
    stage.send("ann", "space/kick", {"participant_id": "eve"})
    stage.send("root", "space/kick", {"participant_id": "eve"})
    assert stage.send("fay", "space/invite", {"participant_id": "eve"}).accepted
    assert stage.space.state.members["eve"].inviter == "fay"


@pytest.mark.threat(32)
def test_a_snapshot_in_which_two_have_invited_each_other_ends_all_the_same() -> None:
    stage = Stage(owner="root", root="*", ann="chat", bob="chat")
    stage.space.state.members["ann"].inviter = "bob"
    stage.space.state.members["bob"].inviter = "ann"
    again = Space("demo", epoch=1, owner="root")
    restore(again, snapshot(stage.space))
    assert {again.state.root(name) for name in ("ann", "bob")} == {"ann", "bob"}
    assert again.state.root("nobody") == "nobody"


def test_one_participant_takes_its_share_of_grants_invites_and_streams() -> None:
    limits = SpaceLimits(grants=16, invites=16, streams=16)  # two each
    may = ["chat", "capability/grant", "space/invite", "stream/*"]
    stage = Stage(owner="root", root="*", ann=may, bob=may, limits=limits)
    for who, most in (("ann", 2), ("bob", 2), ("root", 6)):
        kinds: dict[str, list[dict[str, Any]]] = {
            "capability/grant": [
                {"recipient": "bob", "capabilities": [{"kind": "chat", "id": f"{who}{n}"}]} for n in range(6)
            ],
            "space/invite": [{"participant_id": f"{who}-{n}"} for n in range(6)],
            "stream/request": [{}] * 6,
        }
        for kind, payloads in kinds.items():
            steps = [stage.send(who, kind, one) for one in payloads]
            assert [one.accepted for one in steps] == [True] * most + [False] * (6 - most), (who, kind)
            for one in steps[most:]:
                assert one.record.code == "limit_exceeded" and repr(who) in one.error["message"]


def test_who_was_invited_shares_with_who_invited_it() -> None:
    limits = SpaceLimits(invites=64, grants=16)
    may = ["chat", "capability/grant", "space/invite"]
    stage = Stage(owner="root", root="*", ann=may, bob=may, limits=limits)
    stage.send("ann", "space/invite", {"participant_id": "puppet"})
    stage.join("puppet")
    stage.grant("root", "puppet", may)
    assert stage.grant("puppet", "bob", "chat").accepted
    assert stage.grant("ann", "bob", "chat").accepted
    refused = stage.grant("puppet", "bob", "chat")
    assert refused.record.code == "limit_exceeded"
    assert "'ann', who brought in 'puppet'" in refused.error["message"]
    assert stage.grant("bob", "ann", "chat").accepted


def test_a_flood_of_proposals_makes_only_its_own_sender_forget() -> None:
    stage = Stage(mallory="mcp/proposal", bob="mcp/proposal", limits=SpaceLimits(handles=40))
    assert stage.send("bob", "mcp/proposal", id="mine").accepted
    for n in range(200):
        stage.send("mallory", "mcp/proposal", id=f"m{n}")
    assert len(stage.space.state.handles) == 6
    assert stage.send("mallory", "mcp/proposal", id="mine").record.code == "duplicate_id"


def test_one_participant_has_so_many_ids_in_its_life() -> None:
    stage = Stage(mallory="chat", bob="chat", limits=SpaceLimits(runtime_ids=80))
    for n in range(20):  # with its name ten
        assert stage.join("mallory", as_=f"other{n}", on=f"m{n}").closed == ({} if n < 9 else {f"m{n}": 4409})
        stage.leave(f"m{n}")
    assert stage.join("mallory", as_="other8", on="again").closed == {}
    assert len(stage.space.state.aliases) == 2 + 9
    assert stage.join("bob", as_="bob2", on="b2").accepted


# --- a journal ---


def journaled(space: Space, messages: list[tuple[str, str]], now: Any) -> list[Record]:
    records: list[Record] = [opening_record(space, now)]
    for connection, text in messages:
        records += [
            one
            for one in space.step(Received(text, None, connection, connection), now)
            if type(one) is Record
        ]
    return records


def test_a_replay_refuses_exactly_what_was_refused() -> None:

    stage = Stage()
    space = Space("s", epoch=3, owner="root")
    records = [opening_record(space, stage.now)]
    for name, held in (("root", [{"kind": "*"}]), ("ann", [COSTLY]), ("bot", [])):
        records += [one for one in space.step(Enrolled(name, tuple(held)), stage.now) if type(one) is Record]
    count = itertools.count()

    def text(kind: str, payload: Any) -> str:
        return json.dumps({"id": f"i{next(count)}", "kind": kind, "payload": payload})

    events = [("ann", text("chat", LARGE)), ("ann", text("chat", {"t": "abcx"}))]
    events += [("root", text("capability/grant", {"recipient": "bot", "capabilities": BOMBS}))]
    events += [("root", text("capability/grant", {"recipient": "bot", "capabilities": chats(300)}))]
    many = [{"kind": "chat", "payload": {"text": f"*{n}*y"}} for n in range(250)]
    events += [("root", text("capability/revoke", {"recipient": "bot", "capabilities": many}))]
    records += journaled(space, events, stage.now)[1:]
    codes = [one.code for one in records if one.event == "received"]
    assert codes == ["limit_exceeded", "", "limit_exceeded", "", ""]
    again = replay_records(records)
    assert again.space.state.members["bot"].rights.texts == space.state.members["bot"].rights.texts


def test_a_journal_from_before_there_was_a_budget_is_replayed_by_the_rules_of_then() -> None:
    """It holds a message that cost its one capability more than it might, which was then no match, and a second that
    another capability permitted all the same; today both would be refused as too costly."""
    path = Path(__file__).parent / "before_budgets.jsonl"
    done = replay(path)
    assert done.events == 9
    limits = done.space.state.limits
    assert (limits.steps, limits.turn_steps, limits.rights_bytes, limits.share) == (0, 0, 0, 1)


# --- every judge is paid ---


def paid(stage: Stage, sender: str, kind: str, payload: dict[str, Any]) -> int:
    """The steps of the turn that a message leads to."""
    turn = stage.space.plan(Received(json.dumps({"kind": kind, "payload": payload}), sender), stage.now)
    return stage.space.state.limits.turn_steps - turn.meter.left


def test_what_a_revoke_makes_doubtful_falls_where_the_budget_ends_before_it_is_decided() -> None:
    held = {}
    for steps in (LIMITS.turn_steps, 700):
        stage = Stage(owner="root", root="*", ann=["chat", "capability/grant"], bob=[])
        assert stage.grant("root", "ann", "chat", id="again").accepted
        for at in range(0, 300, 100):
            assert stage.grant("ann", "bob", chats(300)[at : at + 100]).accepted
        stage.space.state.limits = LIMITS._replace(turn_steps=steps)
        assert stage.revoke("root", recipient="ann", grant_id="again").accepted
        stage.space.state.limits = LIMITS
        held[steps] = len(stage.held("bob"))
    assert held[LIMITS.turn_steps] == 301 and held[700] < 300


def test_what_stands_while_an_end_is_due_is_found_within_the_budget() -> None:
    stage = Stage(owner="root", root="*", ann=["chat", "capability/grant"], bob=[])
    payload = {"recipient": "ann", "capabilities": [{"kind": "chat"}], "expires_at": "2100-01-01T00:00:00Z"}
    assert stage.send("root", "capability/grant", payload).accepted
    assert stage.grant("ann", "bob", chats(100)).accepted
    before = paid(stage, "bob", "chat", {"text": "t99"})
    stage.now = datetime(2100, 1, 2, tzinfo=UTC)
    assert len(standing(stage.space.state, "bob", stage.now, meter=Budget(10**6)).texts) == 101
    assert len(standing(stage.space.state, "bob", stage.now, meter=Budget(50)).texts) < 100
    assert paid(stage, "bob", "chat", {"text": "t99"}) > before + 100


def test_a_grant_pays_for_the_proof_that_its_giver_holds_it() -> None:
    wide, narrow = {"kind": "chat", "payload": {"text": "t*"}}, chats(100)
    stage = Stage(owner="root", root="*", ann=[wide, "capability/grant"], bob=[], cat=[])
    one = paid(stage, "ann", "capability/grant", {"recipient": "cat", "capabilities": narrow})
    for at in range(100):
        extra = {"kind": "chat", "payload": {"text": f"*u{at}*", "x": at}}
        assert stage.grant("root", "bob", [extra]).accepted
    assert stage.grant("root", "bob", [wide, {"kind": "capability/grant"}]).accepted
    many = paid(stage, "bob", "capability/grant", {"recipient": "cat", "capabilities": narrow})
    assert many > one + 2000  # each of the others is asked about each


def test_a_grant_by_right_of_some_uses_pays_for_the_search_for_them() -> None:
    took = []
    for end in ({}, {"max_uses": 9}):
        stage = Stage(owner="root", root="*", bob=[], cat=[])
        for at in range(100):
            rights = [{"kind": "chat", "payload": {"text": f"t{at}*"}}]
            given = {"recipient": "bob", "capabilities": rights, **end}
            assert stage.send("root", "capability/grant", given).accepted
        assert stage.grant("root", "bob", "capability/grant").accepted
        payload = {"recipient": "cat", "capabilities": chats(10)}
        took.append(paid(stage, "bob", "capability/grant", payload))
    assert took[1] > took[0] + 500


@pytest.mark.parametrize("text", ["*u{}", "t*{}*"])
def test_a_revoke_by_patterns_pays_for_comparing_each_with_all_that_is_held(text: str) -> None:
    stage = Stage(owner="root", root="*", bob=[])
    held = [{"kind": "chat", "payload": {"text": f"t{at}*x"}} for at in range(50)]
    assert stage.grant("root", "bob", held).accepted
    patterns = [{"kind": "chat", "payload": {"text": text.format(at)}} for at in range(40)]
    steps = paid(stage, "root", "capability/revoke", {"recipient": "bob", "capabilities": patterns})
    assert steps > 100_000
