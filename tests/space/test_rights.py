"""What rests on what: chains of grants, and what is left of them when a right ends."""

from __future__ import annotations

import pytest

from mew_lab.protocol.permit import Capability
from mew_lab.space.rights import Held, Rights, lapsed

from .stage import Stage

CHAT, MCP = Capability.of({"kind": "chat"}), Capability.of({"kind": "mcp/*"})
REQUEST = Capability.of({"kind": "mcp/request"})


def test_a_capability_held_twice_stands_once_and_is_there_until_both_are_gone() -> None:
    first, second = Held(CHAT, "g1", "alice", False), Held(CHAT, "g2", "ben", False)
    rights = Rights([first, second])
    assert rights.capabilities.patterns == ({"kind": "chat"},)
    assert rights.grants == ("g1",)
    left = rights.without([first])
    assert (left.capabilities.patterns, left.grants) == (({"kind": "chat"},), ("g2",))
    assert left.without([second]).capabilities.patterns == ()


def test_equal_capabilities_of_two_grants_are_told_apart_when_one_is_taken_away() -> None:
    one, other = Held(CHAT, "g1", "alice", False), Held(CHAT, "g1", "alice", False)
    assert len(Rights([one, other]).without([one]).held) == 1


def test_nothing_lapses_while_every_granter_holds_what_it_gave() -> None:
    rights = {
        "alice": Rights([Held(MCP)]),
        "ben": Rights([Held(REQUEST, "g1", "alice", False)]),
        "cat": Rights([Held(REQUEST, "g2", "ben", False)]),
    }
    assert lapsed(rights, {}) == {}


def test_a_circle_of_grants_holds_nobody_up() -> None:
    """The least fixed point: two that grant each other what neither was ever given hold nothing."""
    held = {
        "ben": Held(REQUEST, "g1", "cat", False),
        "cat": Held(REQUEST, "g2", "ben", False),
    }
    assert lapsed({name: Rights([one]) for name, one in held.items()}, {}) == {
        name: [one] for name, one in held.items()
    }


def test_a_granter_that_is_gone_holds_nothing() -> None:
    one = Held(CHAT, "g1", "nobody", False)
    assert lapsed({"ben": Rights([one])}, {}) == {"ben": [one]}


@pytest.mark.req("P-3.6.2-1")
def test_what_rests_on_another_right_of_the_same_granter_stands() -> None:
    stage = Stage(alice="*", ben=["capability/grant"], cat=[])
    stage.grant("alice", "ben", "chat", id="g1")
    stage.grant("alice", "ben", "chat", id="g2")
    stage.grant("ben", "cat", "chat", id="g3")
    stage.revoke("alice", grant_id="g1")
    assert stage.send("cat", "chat").accepted
    stage.revoke("alice", grant_id="g2")
    assert not stage.send("cat", "chat").accepted


def test_less_is_left_where_less_is_held() -> None:
    """The granter keeps a part of what it gave; what it gave beyond that part falls."""
    stage = Stage(alice="*", ben=["capability/grant", "mcp/request", "chat"], cat=[])
    stage.grant("ben", "cat", ["mcp/request", "chat"])
    stage.enrol("ben", ["capability/grant", "chat"])
    assert stage.send("cat", "chat").accepted
    assert not stage.send("cat", "mcp/request").accepted


@pytest.mark.req("P-3.6.8-3", "P-3.6.8-5")
def test_the_journal_says_under_which_grant_a_message_passed_and_what_lapsed_with_whom() -> None:
    stage = Stage(alice="*", ben=["capability/grant"], cat=["mcp/proposal"])
    granted = stage.grant("alice", "ben", "chat", id="g1")
    assert (granted.record.participant, granted.record.pattern) == ("alice", '{"kind":"*"}')
    assert (granted.record.verdict, granted.record.grant) == ("accepted", "")
    assert '"recipient": "ben"' in str(granted.record.raw)
    stage.grant("ben", "cat", "chat", id="g2")
    said = stage.send("cat", "chat").record
    assert (said.grant, said.pattern) == ("g2", '{"kind":"chat"}')
    assert stage.send("cat", "mcp/proposal").record.grant == ""
    revoked = stage.revoke("alice", grant_id="g1")
    [fallen] = [one for one in revoked.of(type(said)) if one.event == "lapsed"]
    assert (fallen.participant, fallen.grant, fallen.detail) == ("cat", "g2", "ben")
    assert fallen.pattern == '{"kind":"chat"}'
