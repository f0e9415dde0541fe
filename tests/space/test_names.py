"""Names in payloads mean participants, and a name that was used once is free for a newcomer. Rulings R8b, R26."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.protocol.kinds import ACTED_ON
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Joined, Received, Record

from ..conftest import examples
from .stage import START, Stage, patterns

MEMBERS = ("participant_id", "recipient", "new_owner", "target")
KINDS = sorted(ACTED_ON - {"space/invite"})  # who is invited is nobody yet
IDS = ("human", "human-laptop", "human-phone", "bot", "nobody")
PATTERNS = ["!human", "human", "hu*", "!hu*", "/human|bot/", ["!human", "bot"], "*", "!bot"]


def verdict(pattern: object, kind: str, member: str, name: object, *, path: str = "") -> bool:
    """Whether the capability lets a message pass that names somebody so, by whatever else it is refused."""
    stage = Stage(
        owner="root",
        root="*",
        human=[],
        bot=[],
        janitor=[{"kind": kind, "payload": {path or member: pattern}}],
    )
    stage.join("human", as_="human-laptop")
    stage.join("human", as_="human-phone")
    stage.leave("human-phone")
    return stage.send("janitor", kind, {member: name}, to=["bot"]).record.code != "capability_violation"


@pytest.mark.ruling("R26")
@pytest.mark.threat(39)
@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(PATTERNS),
    st.sampled_from(KINDS),
    st.sampled_from(MEMBERS),
    st.sampled_from(IDS),
    st.booleans(),
)
def test_a_runtime_id_in_a_payload_is_judged_as_its_participant(
    pattern: Any, kind: str, member: str, id: str, listed: bool
) -> None:
    logical = "human" if id.startswith("human") else id
    if listed:
        path = f"$.{member}[*]"
        assert verdict(pattern, kind, member, [id], path=path) == verdict(
            pattern, kind, member, [logical], path=path
        )
    else:
        assert verdict(pattern, kind, member, id) == verdict(pattern, kind, member, logical)


@pytest.mark.ruling("R26")
@pytest.mark.threat(39)
@pytest.mark.parametrize("id", ["human", "human-laptop", "human-phone"])
@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("space/kick", "participant_id"),
        ("capability/grant", "recipient"),
        ("capability/revoke", "recipient"),
        ("stream/grant-write", "participant_id"),
        ("stream/revoke-write", "participant_id"),
        ("stream/transfer-ownership", "new_owner"),
    ],
)
@pytest.mark.extension("names_in_payloads")
def test_a_rule_about_a_participant_holds_for_each_of_its_ids(kind: str, member: str, id: str) -> None:
    assert not verdict("!human", kind, member, id)
    assert verdict("human", kind, member, id)
    assert not verdict("!h*", kind, member, id)


def test_kinds_on_which_the_gateway_does_not_act_are_matched_as_they_are_written() -> None:
    assert verdict("!human", "mcp/request", "participant_id", "human-laptop")
    assert verdict("!human", "participant/clear", "participant_id", "human-laptop")


# --- names that were used ---


def test_a_name_once_used_is_free_for_who_is_enrolled_and_means_the_newcomer_from_then_on() -> None:
    stage = Stage(root="*", bot="chat")
    stage.join("bot", as_="Git")
    with pytest.raises(ValueError, match="belongs to participant 'bot'"):
        stage.enrol("git", ["chat"])
    stage.leave("Git")
    assert stage.space.state.logical("Git") == "bot"
    enrolled = stage.enrol("git", ["chat"])
    assert [(one.event, one.participant, one.detail) for one in enrolled.of(Record)][1:] == [
        ("name_freed", "bot", "git")
    ]
    assert stage.join("git").said("system/welcome").payload["you"]["id"] == "git"
    assert stage.join("bot", as_="Git", on="c9").closed == {"c9": 4409}
    assert stage.space.state.logical("git") == "git" and stage.space.state.logical("Git") == "Git"


def test_a_join_frame_frees_no_name() -> None:
    stage = Stage(root="*", bot="chat", eve="chat")
    stage.join("bot", as_="git")
    stage.leave("git")
    assert stage.join("eve", as_="git", on="c9").closed == {"c9": 4409}
    assert stage.join("bot", as_="git", on="c10").closed == {}


def test_who_is_invited_takes_a_name_that_nobody_has_now() -> None:
    stage = Stage(root="*", bot="chat")
    stage.join("bot", as_="eve")
    refused = stage.send("root", "space/invite", {"participant_id": "EVE"})
    assert refused.record.code == "already_exists"
    stage.leave("eve")
    invited = stage.send("root", "space/invite", {"participant_id": "EVE"})
    assert invited.accepted
    assert "name_freed" in [one.event for one in invited.of(Record)]
    assert stage.send("root", "space/invite", {"participant_id": "eve"}).record.code == "already_exists"
    assert stage.send("root", "space/invite", {"participant_id": "BOT"}).record.code == "already_exists"


def test_a_name_in_an_active_stream_is_not_free() -> None:
    stage = Stage(root="*", bot="*")
    stage.join("bot", as_="eve")
    stream = stage.open("root", target=["eve"])
    stage.leave("eve")
    with pytest.raises(ValueError, match="belongs to participant 'bot'"):
        stage.enrol("eve", [])
    stage.send("root", "stream/close", {"stream_id": stream})
    stage.enrol("eve", [])


def test_a_space_of_an_earlier_edition_does_as_it_did() -> None:
    people = {
        "root": patterns("*"),
        "human": [],
        "janitor": patterns([{"kind": "space/kick", "payload": {"participant_id": "!human"}}]),
    }
    space = Space("demo", epoch=1, owner="root", participants=people, edition=0)
    space.step(Joined("c1", "human", "laptop", "websocket"), START)
    kick = '{"kind":"space/kick","payload":{"participant_id":"laptop"}}'
    [record, *_] = space.plan(Received(kick, None, "janitor", "janitor"), START).effects
    assert isinstance(record, Record) and record.verdict == "accepted"
    invite = '{"kind":"space/invite","payload":{"participant_id":"laptop"}}'
    space.step(Received(kick, None, "janitor", "janitor"), START)
    [record, *_] = space.step(Received(invite, None, "root", "root"), START)
    assert isinstance(record, Record) and record.code == "already_exists"
    with pytest.raises(ValueError, match="belongs to"):
        space.step(Enrolled("laptop", ()), START)
