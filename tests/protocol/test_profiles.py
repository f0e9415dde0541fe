"""The ready-made profiles: what each may and may not do."""

from __future__ import annotations

import pytest

from mew_lab.protocol.permit import PROFILES, CapabilitySet
from mew_lab.protocol.profiles import STARTER

CONTROLS = [
    f"participant/{word}" for word in ("pause", "resume", "forget", "compact", "clear", "restart", "shutdown")
]
AUTHORITY = ["capability/grant", "capability/revoke", "space/invite", "space/kick"]


def may(profile: str, kind: str) -> bool:
    return CapabilitySet(PROFILES[profile]).permit(kind).allowed


def test_the_profiles_are_these_and_compile() -> None:
    assert list(PROFILES) == ["human", "proposer", "agent", "tool", "observer", "admin"]
    assert all(CapabilitySet(patterns).patterns == tuple(patterns) for patterns in PROFILES.values())


@pytest.mark.threat(31)
@pytest.mark.req("P-7.3-1")
@pytest.mark.parametrize("profile", ["proposer", "agent", "tool", "observer"])
def test_no_agent_profile_controls_anybody_or_changes_rights(profile: str) -> None:
    assert [kind for kind in CONTROLS + AUTHORITY if may(profile, kind)] == []


@pytest.mark.req("P-7.3-1", "P-3.2-1")
def test_a_proposer_proposes_and_does_not_request() -> None:
    assert may("proposer", "mcp/proposal") and may("proposer", "mcp/withdraw")
    assert not may("proposer", "mcp/request")
    assert [one for one in STARTER if one not in PROFILES["proposer"]] == []


@pytest.mark.req("P-7.3-1", "S-SEC-5")
def test_an_agent_finds_tools_and_proposes_what_they_do() -> None:
    held = CapabilitySet(PROFILES["agent"])
    for method, allowed in (("tools/list", True), ("tools/call", False), ("resources/read", False)):
        assert held.permit("mcp/request", ("git",), {"method": method}).allowed is allowed
    assert held.permit("mcp/proposal", ("git",), {"method": "tools/call"}).allowed
    assert held.permit("stream/request").allowed and not held.permit("stream/transfer-ownership").allowed
    assert [one for one in PROFILES["proposer"] if one not in PROFILES["agent"]] == []


@pytest.mark.req("P-7.3-1")
def test_the_starter_profile_is_the_one_that_an_invite_may_give() -> None:
    assert {one["kind"] for one in STARTER} == {
        "chat",
        "mcp/proposal",
        "mcp/withdraw",
        "mcp/response",
        "capability/grant-ack",
        "participant/status",
    }


def test_a_tool_answers_and_asks_for_nothing() -> None:
    assert may("tool", "mcp/response") and may("tool", "mcp/reject") and may("tool", "chat")
    assert not may("tool", "mcp/request") and not may("tool", "mcp/proposal")
    told = {"method": "notifications/tools/list_changed"}
    assert (
        not CapabilitySet(PROFILES["tool"])
        .permit("mcp/request", (), {"method": "notifications/cancelled"})
        .allowed
    )
    assert CapabilitySet(PROFILES["tool"]).permit("mcp/request", (), told).allowed


def test_an_observer_is_silent() -> None:
    kinds = ["chat", "mcp/request", "mcp/proposal", "mcp/response", "stream/request", "reasoning/start"]
    assert [kind for kind in kinds if may("observer", kind)] == []
    assert may("observer", "chat/acknowledge") and may("observer", "participant/status")


def test_a_human_supervises_but_does_not_change_who_is_there() -> None:
    kinds = [
        "chat",
        "chat/cancel",
        "mcp/request",
        "mcp/proposal",
        "mcp/reject",
        "reasoning/cancel",
        "stream/request",
    ]
    assert [kind for kind in kinds + CONTROLS + AUTHORITY[:2] if not may("human", kind)] == []
    assert not may("human", "space/invite") and not may("human", "space/kick")


def test_an_admin_may_everything() -> None:
    assert [kind for kind in ["chat", "a/b/c", *CONTROLS, *AUTHORITY] if not may("admin", kind)] == []
