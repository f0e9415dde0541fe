"""What a space remembers: who may be called how, and which ids are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mew_lab.protocol.kinds import KINDS, is_reserved
from mew_lab.space import state as state_module
from mew_lab.space.state import SpaceLimits, is_participant_id

from .stage import Stage

# As ruling R6 lists them.
HANDLES = [
    *("capability/grant", "mcp/proposal", "mcp/request", "reasoning/start", "stream/request", "space/invite")
]
LASTING = ["capability/grant", "space/invite"]
PAYLOADS = {
    "capability/grant": {"recipient": "bob", "capabilities": [{"kind": "chat"}]},
    "space/invite": {"participant_id": "new"},
}


# --- names (R3) ---


@pytest.mark.req("C-4")
@pytest.mark.parametrize("name", ["a", "A9", "a.b_c-d", "x" * 64, "systems"])
def test_a_participant_may_be_called_so(name: str) -> None:
    assert is_participant_id(name)


@pytest.mark.req("C-4")
@pytest.mark.threat(11, 27)
@pytest.mark.parametrize(
    "name",
    [
        *("", "-a", "a b", "a/b", "../x", "é", "x" * 65, "a\n", "a\0"),
        *("gateway", "Gateway", "SYSTEM", "system:gateway"),
    ],
)
def test_nobody_can_be_called_so(name: str) -> None:
    assert not is_participant_id(name)
    with pytest.raises(ValueError, match="cannot be a participant id"):
        Stage().enrol(name, [])


def test_names_are_unique_whatever_their_case() -> None:
    with pytest.raises(ValueError, match="belongs to participant 'Alice'"):
        Stage(Alice=[]).enrol("alice", [])


# --- handles (R6) ---


def sender(stage: Stage, kind: str, id: str) -> Callable[[str], str]:
    """Sends the same message again and again; the answer is the code of its refusal."""
    return lambda connection: stage.send(connection, kind, PAYLOADS.get(kind, {}), id=id).record.code


@pytest.mark.req("P-3-3", "C-15")
@pytest.mark.threat(20)
@pytest.mark.parametrize("kind", HANDLES)
def test_an_id_that_others_refer_to_is_taken_once(kind: str) -> None:
    stage = Stage(alice="*", bob="*")
    send = sender(stage, kind, "x-1")
    assert send("alice") == ""
    assert send("alice") == send("bob") == "duplicate_id"
    step = stage.send("bob", "mcp/proposal", id="x-1")
    assert step.error["error"] == "duplicate_id" and step.hearers == {"bob"}
    assert stage.send("bob", "mcp/proposal", id="x-2").accepted


@pytest.mark.req("C-15")
@pytest.mark.threat(20)
@pytest.mark.parametrize("kind", HANDLES)
def test_after_a_new_admission_a_participant_may_use_its_own_again_but_no_grants_or_invites(
    kind: str,
) -> None:
    stage = Stage(alice="*", bob="*")
    send = sender(stage, kind, "x-1")
    send("alice")
    stage.leave("alice")
    stage.join("alice")
    expected = "duplicate_id" if kind in LASTING else ""
    assert send("alice") == expected
    assert send("alice") == send("bob") == "duplicate_id"


@pytest.mark.req("C-15")
@pytest.mark.parametrize("kind", LASTING)
def test_no_grant_takes_an_id_that_was_anything_before(kind: str) -> None:
    stage = Stage(alice="*", bob="*")
    stage.send("alice", "mcp/request", id="x-1")
    stage.leave("alice")
    stage.join("alice")
    assert sender(stage, kind, "x-1")("alice") == "duplicate_id"


@pytest.mark.req("C-15")
@pytest.mark.parametrize(
    "kind", sorted(kind for kind in KINDS if kind not in HANDLES and not is_reserved(kind))
)
def test_for_other_kinds_a_repeated_id_is_delivered(kind: str) -> None:
    stage = Stage(alice="*", bob="*")
    stream = stage.open("alice")
    stage.send("alice", "mcp/request", id="x-1")
    payload = {"participant_id": "bob", "recipient": "bob", "capabilities": [{"kind": "mcp/response"}]}
    owned = {"stream_id": stream, "new_owner": "alice"} if kind != "stream/open" else {}
    for _ in range(1 if kind in ("space/kick", "stream/close") else 2):
        step = stage.send("alice", kind, {**payload, **owned}, id="x-1", to=["bob"])
        assert step.accepted and step.told(kind) >= {"alice"}


@pytest.mark.req("C-15")
def test_a_refused_message_takes_no_id() -> None:
    stage = Stage(alice=["chat"], bob="*")
    assert stage.send("alice", "mcp/proposal", id="p-1").record.code == "capability_violation"
    assert stage.send("bob", "capability/grant", {}, id="p-1").record.code == "invalid_request"
    assert stage.send("bob", "mcp/proposal", id="p-1").accepted


def test_an_id_that_is_taken_anew_is_the_newest_of_its_participant() -> None:
    stage = Stage(mallory="mcp/proposal", limits=SpaceLimits(handles=40))  # five of one participant
    for n in range(5):
        assert stage.send("mallory", "mcp/proposal", id=f"h{n}").accepted
    stage.leave("mallory")
    stage.join("mallory")
    assert stage.send("mallory", "mcp/proposal", id="h0").accepted
    assert stage.send("mallory", "mcp/proposal", id="h5").accepted  # h1 is forgotten for it
    again = [stage.send("mallory", "mcp/proposal", id=f"h{n}").record.code for n in (0, 5)]
    assert again == ["duplicate_id", "duplicate_id"]


@pytest.mark.req("C-15")
def test_the_oldest_handles_are_forgotten_beyond_the_limit_but_never_a_grant() -> None:
    stage = Stage(alice="*", bob=[], limits=SpaceLimits(handles=2, share=1))
    stage.grant("alice", "bob", "chat", id="g")

    def code(id: str) -> str:
        return stage.send("alice", "mcp/proposal", id=id).record.code

    assert [code("a"), code("b"), code("c")] == ["", "", ""]
    assert [code("c"), code("b"), code("g")] == ["duplicate_id"] * 3
    assert code("a") == ""
    assert state_module.State(()).handle("never") is None


@pytest.mark.req("C-15")
def test_a_handle_that_was_taken_anew_is_the_newest() -> None:
    stage = Stage(alice="*", limits=SpaceLimits(handles=2, share=1))
    for id in ("a", "b"):
        assert stage.send("alice", "mcp/proposal", id=id).accepted
    stage.leave("alice")
    stage.join("alice")
    for id in ("a", "c"):
        assert stage.send("alice", "mcp/proposal", id=id).accepted
    assert not stage.send("alice", "mcp/proposal", id="a").accepted  # b was the oldest


def test_a_hundred_thousand_are_remembered() -> None:
    assert SpaceLimits().handles == 100_000


@pytest.mark.req("C-15", "P-3-3")
@pytest.mark.threat(20)
@pytest.mark.parametrize("kind", ["chat", "capability/grant"])
def test_ids_of_the_gateways_own_form_are_reserved(kind: str) -> None:
    stage = Stage(alice="*")
    own = stage.leave("alice") and stage.join("alice").said("system/welcome").id
    step = stage.send("alice", kind, id=own)
    assert (step.error["error"], step.hearers) == ("reserved_id", {"alice"})
    assert stage.send("alice", "chat", id="gw-of-mine").accepted
