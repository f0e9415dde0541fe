"""Patterns that judge paths (R33) and closed capabilities (R34) in a space: what is granted, revoked, kept, replayed."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.protocol.permit import Capability
from mew_lab.space.core import Space, resumption_note
from mew_lab.space.events import Enrolled, Received, Record
from mew_lab.space.opening import opening_record, reopen
from mew_lab.space.snapshot import restore, snapshot

from ..conftest import examples
from .stage import START, Stage

BASE = {"kind": "mcp/response"}


def write(path: str, *, closed: bool = False, **more: Any) -> dict[str, Any]:
    """The capability to write below `path`."""
    params = {"name": "write", "arguments": {"path": path, **more}}
    flag = {"x-closed": True} if closed else {}
    return {"kind": "mcp/request", "payload": {"method": "tools/call", "params": params}, **flag}


def call(path: str, **more: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "write", "arguments": {"path": path, **more}}}


def verdict(space: Space, sender: str, kind: str, payload: dict[str, Any]) -> str:
    text = json.dumps({"kind": kind, "to": ["fs"], "payload": payload})
    record = space.step(Received(text, None, sender, sender), START)[0]
    assert isinstance(record, Record)
    return record.verdict


@pytest.mark.extension("path_globs", "closed_capabilities")
@pytest.mark.ruling("R33", "R34")
@pytest.mark.threat(6, 21)
def test_a_grant_permits_what_it_shows_and_nothing_that_leads_elsewhere() -> None:
    stage = Stage(alice="*", bot=[], fs=[])
    stage.grant("alice", "bot", [write("src/**", closed=True)])
    assert stage.send("bot", "mcp/request", call("src/a.py"), to=["fs"]).accepted
    for payload in (
        call("src/../secrets/k.key"),
        call("src/a\n.py"),
        call("src//a"),
        call("src/a.py", force=True),
        {**call("src/a.py"), "more": 1},
    ):
        assert stage.send("bot", "mcp/request", payload, to=["fs"]).record.code == "capability_violation"


@pytest.mark.threat(20)
def test_who_holds_a_closed_right_grants_no_open_one() -> None:
    stage = Stage(alice="*", ben=["capability/grant", "space/invite", write("src/**", closed=True)], bot=[])
    refused = stage.grant("ben", "bot", [write("src/**")])
    assert refused.error["error"] == "cannot_grant" and "closed" in refused.error["message"]
    refused = stage.grant("ben", "bot", [write("src/../*", closed=True)])
    assert refused.error["error"] == "cannot_grant"
    assert stage.grant("ben", "bot", [write("src/lib/**", closed=True)]).accepted
    for capability, fits in ((write("src/**"), False), (write("src/a", closed=True), True)):
        invited = stage.send(
            "ben", "space/invite", {"participant_id": "eve", "initial_capabilities": [capability]}
        )
        assert invited.accepted is fits


@pytest.mark.threat(21)
@pytest.mark.parametrize(
    ("capability", "key"),
    [
        ({"kind": "chat", "x-closed": True}, "x-closed"),
        ({**write("src/**"), "x-closed": "yes"}, "x-closed"),
        ({**write("src/**"), "x-close": True}, "x-close"),
        ({**write("src/**", closed=True, **{"**": "a"})}, "payload.params.arguments.**"),
    ],
)
def test_what_cannot_be_closed_is_refused_where_it_is_given_and_no_reason_to_refuse_a_revoke(
    capability: dict[str, Any], key: str
) -> None:
    stage = Stage(alice="*", bot=["mcp/*"])
    refused = stage.grant("alice", "bot", [capability])
    assert (refused.error["error"], refused.error["key"]) == (
        "invalid_capability",
        f"payload.capabilities[0].{key}",
    )
    refused = stage.send(
        "alice", "space/invite", {"participant_id": "eve", "initial_capabilities": [capability]}
    )
    assert refused.error["error"] == "invalid_capability"
    assert stage.revoke("alice", recipient="bot", capabilities=[capability]).accepted


@pytest.mark.threat(20)
def test_a_revoke_takes_what_it_took_before() -> None:
    held = [write("src/../keys/*"), write("src/*", closed=True), write("a//b*"), write("docs/**")]
    stage = Stage(alice="*", bot=held)
    stage.revoke("alice", recipient="bot", capabilities=[write("src/**")])
    assert stage.held("bot") == [write("a//b*"), write("docs/**"), BASE]
    stage.revoke("alice", recipient="bot", capabilities=[write("a/**", closed=True)])
    assert stage.held("bot") == [write("docs/**"), BASE]


PATHS = st.sampled_from(
    [
        "src/**",
        "src/*",
        "src/../*",
        "**",
        "*",
        "src/a",
        "src//**",
        "!src/**",
        "!a",
        "**/../**",
        "*.py",
        "a\\*",
        "?/?",
    ]
)
RIGHTS = st.builds(write, PATHS, closed=st.booleans()) | st.builds(
    write, PATHS, closed=st.booleans(), force=st.sampled_from([True, "a*", "**/b"])
)


@pytest.mark.threat(20)
@settings(max_examples=examples(600), deadline=None)
@given(held=st.lists(RIGHTS, min_size=1, max_size=4), gone=st.lists(RIGHTS, min_size=1, max_size=2))
def test_a_revoke_takes_neither_less_nor_more_than_by_the_edition_before(
    held: list[Any], gone: list[Any]
) -> None:
    left = {}
    for edition in (3, 4):
        space = Space("demo", epoch=1, participants={"alice": [{"kind": "*"}], "bot": held}, edition=edition)
        payload = {"recipient": "bot", "capabilities": gone}
        text = json.dumps({"kind": "capability/revoke", "payload": payload})
        space.step(Received(text, None, "alice", "alice"), START)
        left[edition] = Counter(space.state.members["bot"].rights.texts)
    assert left[4] == left[3]


@pytest.mark.threat(21)
@settings(max_examples=examples(400), deadline=None)
@given(
    right=RIGHTS,
    path=st.text("a/.\\\n", max_size=6).map(lambda text: f"src/{text}") | st.text("a/.\\\n", max_size=6),
    more=st.sampled_from([{}, {"force": True}]),
)
def test_a_message_that_the_edition_before_refused_is_refused(
    right: dict[str, Any], path: str, more: dict[str, Any]
) -> None:
    before, now = (
        Space("demo", epoch=1, participants={"bot": [right], "fs": []}, edition=edition) for edition in (3, 4)
    )
    judged = [verdict(space, "bot", "mcp/request", call(path, **more)) for space in (before, now)]
    assert judged != ["refused", "accepted"]


@pytest.mark.req("P-3.6.8-2")
@pytest.mark.parametrize("edition", range(4))
def test_a_journal_of_an_earlier_edition_is_judged_as_it_was_until_it_is_resumed(edition: int) -> None:
    about = opening_record(Space("demo", epoch=1, edition=edition), START)
    space = reopen(about)
    space.step(Enrolled("alice", ({"kind": "*"},)), START)
    space.step(Enrolled("fs", ()), START)
    space.step(
        Enrolled("bot", (write("src/**", closed=True), {"kind": "chat", "x-close": 1}, write("a", force=1))),
        START,
    )
    for payload in (call("src/../a"), call("src/a", force=True)):
        assert verdict(space, "bot", "mcp/request", payload) == "accepted"
    space.step(resumption_note("alice"), START)
    for again in (space, restored(space)):
        for payload in (call("src/../a"), call("src/a", force=True)):
            assert verdict(again, "bot", "mcp/request", payload) == "refused"
        assert verdict(again, "bot", "mcp/request", call("src/a")) == "accepted"
        # What these rules refuse keeps its meaning; nobody loses it without a record.
        assert verdict(again, "bot", "chat", {}) == "accepted"


def restored(space: Space) -> Space:
    """A second space from the snapshot of the first."""
    again = reopen(opening_record(space, START))
    restore(again, snapshot(space))
    return again


def test_a_snapshot_is_read_by_its_own_edition() -> None:
    for edition, expected in ((3, "accepted"), (4, "refused")):
        space = Space("demo", epoch=1, participants={"bot": [write("src/**")], "fs": []}, edition=edition)
        assert verdict(restored(space), "bot", "mcp/request", call("src/../a")) == expected
        [held] = [one for one in restored(space).state.members["bot"].rights.held if one.capability.payload]
        assert held.capability == Capability.of(write("src/**"), edition=edition)
