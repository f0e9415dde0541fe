"""Grants and revokes: who may, what they change, whom they are told to, and what falls with a right."""

from __future__ import annotations

from typing import Any

import pytest

from mew_lab.space.state import SpaceLimits

from .stage import Rights, Stage, patterns

READ_FILE = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_file"}}}
BASE = {"kind": "mcp/response"}


def call(name: str) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name}}


# --- granting ---


@pytest.mark.req("P-3.6.1-1", "P-3.6.8-1", "P-3.6.1-7")
def test_a_grant_by_who_may_not_grant_changes_nothing() -> None:
    stage = Stage(alice=["chat"], bot=[])
    refused = stage.grant("alice", "bot", "chat", id="g1")
    assert refused.error["error"] == "capability_violation"
    assert refused.error["attempted_kind"] == "capability/grant"
    assert refused.hearers == {"alice"}
    assert stage.held("bot") == [BASE]
    stage.enrol("alice", ["chat", "capability/grant"])
    assert stage.grant("alice", "bot", "chat", id="g1").accepted  # the refused one did not take the id
    assert {"kind": "chat"} in stage.held("bot")


@pytest.mark.req("P-3.6.1-9", "P-3.6.4-4")
def test_every_connection_and_log_of_the_recipient_is_told() -> None:
    stage = Stage(alice="*", bot=[])
    stage.join("bot", as_="bot-2")
    stage.sink("bot", on="log")
    granted = stage.grant("alice", "bot", "chat")
    for connection in ("bot", "bot-2", "log"):
        [welcome] = granted.heard(connection, "system/welcome")
        assert {"kind": "chat"} in welcome.payload["you"]["capabilities"]


@pytest.mark.req("P-3.9.9-3")
def test_a_grant_outlives_a_restart_and_a_reconnect() -> None:
    stage = Stage(alice="*", bot=[])
    stage.grant("alice", "bot", "chat")
    assert stage.send("alice", "participant/restart", to=["bot"]).accepted
    assert stage.send("bot", "chat").accepted
    stage.leave("bot")
    stage.join("bot")
    assert stage.send("bot", "chat").accepted


@pytest.mark.req("P-3.6.1-4", "P-4.2-2")
@pytest.mark.parametrize(
    ("pattern", "passes", "blocked"),
    [
        ({"kind": "mcp/request", "payload": {"params": {"name": "read_*"}}}, call("read_it"), call("do_it")),
        ({"kind": "mcp/request", "payload": {"params": {"name": "!rm"}}}, call("ls"), call("rm")),
        ({"kind": "mcp/request", "payload": {"params": {"name": "/r[ae]d/"}}}, call("red"), call("rid")),
        ({"kind": "mcp/request", "payload": {"$.params.name": "red"}}, call("red"), call("rid")),
    ],
)
def test_a_grant_speaks_the_whole_language_of_patterns(
    pattern: dict[str, Any], passes: dict[str, Any], blocked: dict[str, Any]
) -> None:
    stage = Stage(alice="*", bot=[])
    stage.grant("alice", "bot", [pattern])
    assert stage.send("bot", "mcp/request", passes).accepted
    assert not stage.send("bot", "mcp/request", blocked).accepted


@pytest.mark.req("P-3.6.1-4", "C-7")
@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ({"kind": "chat", "paylod": {}}, "payload.capabilities[0].paylod"),
        ({"payload": {}}, "payload.capabilities[0].kind"),
        ({"kind": ""}, "payload.capabilities[0].kind"),
        ({"kind": "/(/"}, "payload.capabilities[0].kind"),
        ({"kind": "chat", "payload": 7}, "payload.capabilities[0].payload"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_path_to_the_fault(pattern: dict[str, Any], key: str) -> None:
    stage = Stage(alice="*", bot=[])
    refused = stage.grant("alice", "bot", [pattern])
    assert (refused.error["error"], refused.error["key"]) == ("invalid_capability", key)
    assert stage.held("bot") == [BASE]


# --- nobody gives what it has not (R12) ---


@pytest.mark.req("P-3.6.8-2", "C-9")
@pytest.mark.parametrize(
    ("held", "given"),
    [
        ("mcp/*", "mcp/request"),
        (["mcp/*"], [READ_FILE]),
        (["mcp/request", "chat"], [{"kind": ["mcp/request", "chat"]}]),
        ([READ_FILE], [READ_FILE]),
        ([{"kind": "mcp/request", "payload": {"method": "tools/*"}}], [READ_FILE]),
        ([{"kind": "chat", "to": "b*"}], [{"kind": "chat", "to": ["ben", "bob"]}]),
        (
            [{"kind": "mcp/request", "payload": {"method": "!x"}}],
            [{"kind": "mcp/request", "payload": {"method": "!x"}}],
        ),
    ],
)
def test_what_one_holds_or_less_may_be_given(held: Rights, given: Rights) -> None:
    stage = Stage(alice=["capability/grant"], bot=[])
    stage.enrol("alice", ["capability/grant", *([held] if isinstance(held, str) else held)])
    assert stage.grant("alice", "bot", given).accepted


@pytest.mark.req("P-3.6.8-2", "C-9")
@pytest.mark.parametrize(
    ("held", "given"),
    [
        ("chat", "mcp/request"),
        ("chat", "*"),
        ("chat", "chat*"),
        ("mcp/request", "mcp/*"),
        ([READ_FILE], "mcp/request"),
        ([READ_FILE], [{"kind": "mcp/request", "payload": call("write_file")}]),
        (["mcp/request", "chat"], [{"kind": ["mcp/request", "chat", "space/kick"]}]),
        ([{"kind": "chat", "to": "ben"}], "chat"),
        ([{"kind": "mcp/request", "payload": {"method": "!x"}}], "mcp/request"),
        (
            [{"kind": "mcp/request", "payload": {"method": "/a.*/"}}],
            [{"kind": "mcp/request", "payload": {"method": "/ab.*/"}}],
        ),
    ],
)
def test_what_one_does_not_surely_hold_is_not_given(held: Rights, given: Rights) -> None:
    stage = Stage(alice="*", bot=[])
    stage.enrol("alice", ["capability/grant", *([held] if isinstance(held, str) else held)])
    refused = stage.grant("alice", "bot", given)
    assert refused.error["error"] == "cannot_grant"
    assert refused.hearers == {"alice"}
    assert "alice cannot grant" in refused.error["message"]
    assert stage.held("bot") == [BASE]


@pytest.mark.req("P-3.6.8-2")
def test_one_capability_too_many_spoils_the_whole_grant() -> None:
    stage = Stage(alice=["capability/grant", "chat"], bot=[])
    assert stage.grant("alice", "bot", ["chat", "mcp/request"]).error["error"] == "cannot_grant"
    assert stage.held("bot") == [BASE]


@pytest.mark.threat(9)
def test_a_space_takes_so_many_grants_and_a_participant_so_many_capabilities() -> None:
    stage = Stage(alice="*", bot=[], limits=SpaceLimits(grants=2, capabilities=3, share=1))
    assert stage.grant("alice", "bot", ["a", "b", "c"]).error["error"] == "limit_exceeded"
    assert stage.grant("alice", "bot", ["a", "b"]).accepted
    assert stage.grant("alice", "alice", "a").accepted
    assert stage.grant("alice", "alice", "b").error["error"] == "limit_exceeded"


# --- revoking ---


@pytest.mark.req("P-3.6.2-1", "C-10")
def test_a_grant_is_looked_up_in_the_whole_space() -> None:
    stage = Stage(alice="*", ben=["capability/revoke"], bot=[])
    stage.grant("alice", "bot", "chat", id="g1")
    assert stage.revoke("ben", grant_id="g1").accepted
    assert stage.held("bot") == [BASE]


@pytest.mark.parametrize("grant_id", ["never", "g1", "g2"])
def test_a_grant_that_nobody_holds_is_not_found(grant_id: str) -> None:
    stage = Stage(alice="*", bot=[], cat=[])
    stage.grant("alice", "bot", "chat", id="g1")
    stage.revoke("alice", grant_id="g1")
    stage.grant("alice", "cat", "chat", id="g2")
    refused = stage.revoke("alice", recipient="bot", grant_id=grant_id)
    assert (refused.error["error"], refused.error["grant_id"]) == ("grant_not_found", grant_id)
    assert stage.send("cat", "chat").accepted


@pytest.mark.req("P-3.6.2-2")
def test_a_pattern_over_methods_takes_the_tools_and_leaves_the_resources() -> None:
    """The example of §3.6.2."""
    held = [{"kind": "mcp/request", "payload": {"method": one}} for one in ("tools/call", "resources/read")]
    stage = Stage(alice="*", bot=[])
    for capability in held:
        stage.grant("alice", "bot", [capability])
    pattern = {"kind": "mcp/request", "payload": {"method": "tools/*"}}
    assert stage.revoke("alice", recipient="bot", capabilities=[pattern]).accepted
    assert stage.held("bot") == [BASE, held[1]]
    assert stage.send("bot", "mcp/request", call("read_file")).error["error"] == "capability_violation"
    assert stage.send("bot", "mcp/request", {"method": "resources/read"}).accepted


@pytest.mark.req("P-3.6.2-2", "C-10")
def test_patterns_that_cover_a_capability_only_together_take_it_away() -> None:
    stage = Stage(alice="*", bot=[{"kind": ["chat", "mcp/request"]}, {"kind": ["chat", "mcp/reject"]}])
    revoked = stage.revoke("alice", recipient="bot", capabilities=patterns(["chat", "mcp/request"]))
    assert revoked.error["remaining"] == [{"kind": ["chat", "mcp/reject"]}]
    assert stage.held("bot") == [{"kind": ["chat", "mcp/reject"]}, BASE]


@pytest.mark.req("P-3.6.2-2", "C-10")
def test_what_cannot_be_told_apart_is_taken_away() -> None:
    """Better too much than too little: whether two regular expressions overlap is not decided."""
    stage = Stage(alice="*", bot=[{"kind": "mcp/request", "payload": {"method": "/ab.*/"}}])
    stage.revoke(
        "alice", recipient="bot", capabilities=[{"kind": "mcp/request", "payload": {"method": "/a.*/"}}]
    )
    assert stage.held("bot") == [BASE]


@pytest.mark.req("P-3.6.2-3")
def test_a_revoke_by_who_may_not_revoke_changes_nothing() -> None:
    stage = Stage(alice="*", eve=["capability/grant", "chat"], bot=["chat"])
    stage.grant("alice", "bot", "mcp/proposal", id="g1")
    for payload in ({"grant_id": "g1"}, {"recipient": "bot", "capabilities": [{"kind": "chat"}]}):
        refused = stage.revoke("eve", **payload)
        assert refused.error["error"] == "capability_violation" and refused.hearers == {"eve"}
    assert stage.held("bot") == [{"kind": "chat"}, BASE, {"kind": "mcp/proposal"}]
    assert stage.revoke("alice", grant_id="g1").accepted


@pytest.mark.req("P-3.6.4-3")
def test_a_revoke_takes_either_name() -> None:
    stage = Stage(alice="*", bot=["chat"], absent=["bot"])
    stage.join("bot", as_="client-7")
    revoked = stage.revoke("alice", recipient="client-7", capabilities=[{"kind": "chat"}])
    assert revoked.told("system/welcome") == {"client-7"}
    assert stage.send("client-7", "chat").record.code == "capability_violation"


@pytest.mark.req("P-3.6.8-4")
@pytest.mark.threat(13)
def test_a_revoke_binds_http_as_well() -> None:
    stage = Stage(alice="*", bot=["chat"])
    assert stage.post("bot", "chat").reply.status == 200
    stage.revoke("alice", recipient="bot", capabilities=[{"kind": "chat"}])
    assert stage.post("bot", "chat").reply.status == 403


def test_a_pattern_that_meets_nothing_is_a_revoke_all_the_same() -> None:
    stage = Stage(alice="*", bot=["chat"])
    revoked = stage.revoke("alice", recipient="bot", capabilities=[{"kind": "stream/*"}])
    assert revoked.kinds("bot") == ["capability/revoke"]
    assert stage.held("bot") == [{"kind": "chat"}, BASE]


# --- the owner ---


@pytest.mark.parametrize("payload", [{"capabilities": [{"kind": "*"}]}, {"grant_id": "g1"}])
def test_nobody_takes_anything_from_the_owner_of_the_space(payload: dict[str, Any]) -> None:
    stage = Stage(owner="alice", alice="*", ben=["*"])
    stage.grant("ben", "alice", "chat", id="g1")
    refused = stage.revoke("ben", recipient="alice", **payload)
    assert refused.error["error"] == "owner_protected"
    assert stage.revoke("ben", grant_id="g1").error["error"] == "owner_protected"
    assert stage.held("alice") == [{"kind": "*"}, BASE, {"kind": "chat"}]


# --- the host ---


@pytest.mark.req("P-5.1-2", "P-5.2-4")
def test_the_host_may_give_other_rights_and_what_was_granted_stays() -> None:
    stage = Stage(alice="*", bot=["chat"])
    stage.grant("alice", "bot", "mcp/proposal")
    enrolled = stage.enrol("bot", ["mcp/request"])
    [welcome] = enrolled.heard("bot", "system/welcome")
    assert welcome.payload["you"]["capabilities"] == [{"kind": "mcp/request"}, BASE, {"kind": "mcp/proposal"}]
    assert stage.send("bot", "chat").record.code == "capability_violation"
    assert stage.send("bot", "mcp/request").accepted
