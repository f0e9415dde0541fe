"""For any envelope the journal tells who sent it, by which right, and whose gift that was; or why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from mew_lab.errors import JournalError
from mew_lab.log.audit import Audit, AuditedRight
from mew_lab.log.line import read_members
from mew_lab.log.log import open_log
from mew_lab.log.replay import CAUSED, Player
from mew_lab.log.sidecar import has_index
from mew_lab.space.events import Enrolled, Joined, Left, Received, Record

from .stage import Stage, hostile, keep, observed, says

REQUEST = {"kind": "mcp/request", "payload": {"method": "tools/call"}}
TOOLS = {"kind": "mcp/request", "payload": {"method": ["tools/call", "tools/list"]}}


def audit(records: Iterable[Record], which: str | int) -> Audit:
    return observed(records).audit(which)


def call(id: str, method: str = "tools/call") -> str:
    return says("mcp/request", id, {"method": method})


def grant(id: str, recipient: str, *capabilities: object) -> str:
    return says("capability/grant", id, {"recipient": recipient, "capabilities": list(capabilities)})


@pytest.fixture
def stage() -> Stage:
    """anna, who may do all, gives bert the right to call tools and to give; bert gives cora the calls."""
    return Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "capability/*"}, {"kind": "mcp/*"}, {"kind": "space/*"})),
        Enrolled("bert", ({"kind": "chat"},)),
        Enrolled("cora", ()),
        *(Joined(f"c{n}", name, name, "memory") for n, name in enumerate(("anna", "bert", "cora"), 1)),
        Received(grant("g-1", "bert", {"kind": "capability/grant"}), "c1"),
        Received(grant("g-2", "bert", TOOLS), "c1"),
        Received(grant("g-3", "cora", REQUEST), "c2"),
        Received(call("r-1"), "c3"),
        Received(call("r-2", "tools/list"), "c3"),
        Received(says("chat", "m-1", {"text": "hi"}), "c2"),
    )


def seq_of(stage: Stage, id: str) -> int:
    return next(one.seq for one in stage.records if f'"id":"{id}"' in (one.raw or "").replace('": "', '":"'))


@pytest.mark.req("P-3.6.8-3", "P-3.6.8-5")
def test_a_grant_is_followed_from_who_used_it_to_what_was_configured(stage: Stage) -> None:
    found = audit(stage.records, "r-1")
    assert (found.record.participant, found.record.connection) == ("cora", "c3")
    calls = '{"kind":"mcp/request","payload":{"method":"tools/call"}}'
    tools = '{"kind":"mcp/request","payload":{"method":["tools/call","tools/list"]}}'
    assert found.right == AuditedRight(calls, "g-3")
    third, first, second = found.grants
    assert (third.id, third.giver, third.recipient) == ("g-3", "bert", "cora")
    assert third.sent_by == AuditedRight('{"kind":"capability/grant"}', "g-1")
    assert third.rests_on == (AuditedRight(tools, "g-2"),)
    assert (first.id, first.giver, first.recipient) == ("g-1", "anna", "bert")
    assert first.sent_by == AuditedRight('{"kind":"capability/*"}')
    assert first.rests_on == (AuditedRight('{"kind":"capability/*"}'),)
    assert (second.id, second.giver, second.recipient) == ("g-2", "anna", "bert")
    assert second.rests_on == (AuditedRight('{"kind":"mcp/*"}'),)
    assert (found.cause, found.others, found.doubt) == (None, (), "")


@pytest.mark.req("P-3.6.8-3")
def test_the_text_of_an_audit_reads_as_it_happened(stage: Stage) -> None:
    lines = str(audit(stage.records, "r-1")).split("\n  ")
    g1, g2, g3, r1 = (seq_of(stage, id) for id in ("g-1", "g-2", "g-3", "r-1"))
    assert re.fullmatch(rf'mcp/request "r-1", #{r1}, 2026-11-21 22:40:01\.\d{{6}}Z', lines[0])
    assert lines[1:] == [
        "sent by cora on c3 (memory)",
        'accepted, because cora held {"kind":"mcp/request","payload":{"method":"tools/call"}} (by grant "g-3")',
        f'grant "g-3": capability/grant from bert to cora, #{g3}, sent by {{"kind":"capability/grant"}} '
        '(by grant "g-1"); covered by permissions of bert: '
        '{"kind":"mcp/request","payload":{"method":["tools/call","tools/list"]}} (by grant "g-2")',
        f'grant "g-1": capability/grant from anna to bert, #{g1}, sent by {{"kind":"capability/*"}} '
        '(configured); covered by permissions of anna: {"kind":"capability/*"} (configured)',
        f'grant "g-2": capability/grant from anna to bert, #{g2}, sent by {{"kind":"capability/*"}} '
        '(configured); covered by permissions of anna: {"kind":"mcp/*"} (configured)',
    ]


def test_what_was_configured_needs_no_grant(stage: Stage) -> None:
    found = audit(stage.records, "m-1")
    assert (found.right, found.grants) == (AuditedRight('{"kind":"chat"}'), ())
    assert 'accepted, because bert held {"kind":"chat"} (configured)' in str(found)


@pytest.mark.req("P-5.4-1")
def test_a_refused_envelope_tells_the_nearest_miss(stage: Stage) -> None:
    found = audit(stage.records, "r-2")
    assert (found.record.verdict, found.right, found.grants) == ("refused", None, ())
    assert str(found).split("\n  ")[1:] == [
        "sent by cora on c3 (memory)",
        'refused with capability_violation: {"kind":"mcp/request",…} wants payload.method "tools/call", got "tools/list"',
    ]


def test_the_refusal_leads_to_what_was_refused(stage: Stage) -> None:
    stage.play(Received("{no json\x1b[2J", "c2"))
    error = stage.records[-1]
    found = audit(stage.records, error.seq)
    assert found.cause == stage.records[-2]
    assert f'sent by the gateway because of a record "received", #{error.seq - 1}' in str(found)
    refused = str(audit(stage.records, error.seq - 1))
    assert "refused with invalid_json" in refused
    assert "\x1b" not in refused


def test_an_invitation_is_a_grant_whose_starter_profile_needs_no_other(stage: Stage) -> None:
    invite = {"participant_id": "dora", "initial_capabilities": [{"kind": "chat"}, REQUEST]}
    stage.play(
        Received(says("space/invite", "i-1", invite), None, "anna", "anna"),
        Joined("c4", "dora", "client-4", "websocket"),
        Received(says("chat", "m-2"), "c4"),
        Received(call("r-3"), "c4"),
    )
    (starter,) = audit(stage.records, "m-2").grants
    assert (starter.id, starter.kind, starter.giver, starter.recipient, starter.rests_on) == (
        "i-1", "space/invite", "anna", "dora", ()
    )  # fmt: skip
    assert "it is of the starter profile, which every participant that may invite may give" in str(starter)
    (more,) = audit(stage.records, "r-3").grants
    assert more.rests_on == (AuditedRight('{"kind":"mcp/*"}'),)


def test_a_grant_that_several_held_ones_cover_rests_on_no_more_than_it_takes(stage: Stage) -> None:
    methods = ("tools/call", "tools/list", "prompts/list")
    one, two, three = ({"kind": "mcp/request", "payload": {"method": method}} for method in methods)
    stage.play(
        Enrolled("bert", (three, one, {"kind": "capability/grant"})),
        Received(says("capability/revoke", "v-1", {"grant_id": "g-2"}), "c1"),
        Received(grant("g-4", "bert", two), "c1"),
        Received(grant("g-5", "cora", TOOLS), "c2"),
        Received(call("r-4", "tools/list"), "c3"),
    )
    given, *_ = audit(stage.records, "r-4").grants
    assert given.id == "g-5"
    assert [right.grant for right in given.rests_on or ()] == ["", "g-4"]
    assert '"prompts/list"' not in str(given)


def test_of_several_messages_the_last_accepted_one_is_told_and_the_others_named(stage: Stage) -> None:
    stage.play(Received(says("chat", "m-1"), "c2"), Received(says("chat", "m-1", **{"from": "anna"}), "c2"))
    places = [one.seq for one in stage.records if '"m-1"' in (one.raw or "") and one.event == "received"]
    found = audit(stage.records, "m-1")
    assert (found.record.seq, found.others) == (places[1], (places[0], places[2]))
    assert f"the same id is in #{places[0]}, #{places[2]}" in str(found)


def test_who_posts_is_told_with_the_id_that_it_used(stage: Stage) -> None:
    stage.play(
        Received(says("chat", "m-9"), None, "bert", "bert"), Joined("c9", "bert", "client-9", "websocket")
    )
    stage.play(Received(says("chat", "m-10"), None, "bert", "client-9"))
    assert "sent by bert (http)" in str(audit(stage.records, "m-9"))
    assert "sent by bert as client-9 (http)" in str(audit(stage.records, "m-10"))


def test_a_journal_that_does_not_replay_still_tells_the_grants(stage: Stage) -> None:
    records = [one for one in stage.records if one.event != "opened"]
    found = audit(records, "r-1")
    assert [one.id for one in found.grants] == ["g-3", "g-1"]
    assert found.grants[0].rests_on is None
    assert "the permissions of its giver are not known" in str(found)
    assert "does not begin with the opening of a space" in found.doubt
    behind = records[seq_of(stage, "g-3") :]
    (lost,) = audit(behind, "r-1").grants
    assert str(lost) == 'grant "g-3": it is not in this journal'


def test_a_record_is_found_by_its_place_and_no_other_is(stage: Stage) -> None:
    assert audit(stage.records, 1).record == stage.records[1]
    assert audit(stage.records, "1").record == stage.records[1]
    for nothing, named in (
        ("m-99", "message with the id"),
        (99_999, "record #99999"),
        ("²", "message with the id"),
    ):
        with pytest.raises(JournalError, match=f"holds no {named}"):
            audit(stage.records, nothing)


def test_an_open_log_answers(stage: Stage, tmp_path: Path) -> None:
    keep(stage.records, tmp_path / "j.jsonl")
    found = open_log(tmp_path / "j.jsonl").audit("r-1")
    assert isinstance(found, Audit)
    assert [one.id for one in found.grants] == ["g-3", "g-1", "g-2"]


@pytest.mark.req("P-3.6.4-2")
@pytest.mark.ruling("R26")
def test_a_name_that_was_freed_and_taken_by_another_is_told_where_it_stands() -> None:
    """The same word in `from` and in `to` means bert before, and the newcomer after."""
    stage = Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "*"},)),
        Enrolled("bert", ({"kind": "chat"},)),
        Joined("c1", "anna", "anna", "memory"),
        Joined("c2", "bert", "Git", "memory"),
        Received(says("chat", "by-bert", {"text": "hi"}), "c2"),
        Received(says("chat", "to-bert", {"text": "hi"}, to=["Git"]), "c1"),
        Received(says("chat", "to-anna", {"text": "hi"}, to=["anna"]), "c1"),
        Left("c2", "closed"),
        Enrolled("git", ({"kind": "chat"},)),
        Joined("c3", "git", "git", "memory"),
        Received(says("chat", "by-git", {"text": "hi"}), "c3"),
        Received(grant("g-1", "GIT", {"kind": "mcp/*"}), "c1"),
    )
    [freed] = [one for one in stage.records if one.event == "name_freed"]
    owner = (
        f"this record: up to #{freed.seq} it was a runtime id of bert, since then it is the participant git"
    )
    for id, when in (("by-bert", "after"), ("to-bert", "after"), ("by-git", "before"), ("g-1", "before")):
        assert f"the name git changed its owner {when} {owner}" in str(audit(stage.records, id)), id
    assert audit(stage.records, "to-anna").freed == ()
    assert "changed its owner" not in str(audit(stage.records, "to-anna"))


@pytest.mark.slow
def test_an_audit_of_a_file_is_that_of_a_full_replay(tmp_path: Path) -> None:
    """The reference replays every record and looks at the space behind each grant."""
    traced_in_all = 0
    for seed in range(2):
        stage = hostile(seed, 250)
        log = open_log(keep(stage.records, tmp_path / f"j-{seed}.jsonl", rotate_at=150_000))
        held = held_behind_grants(stage.records)
        traced = 0
        for record in stage.records[1:]:
            members = read_members(record.raw) if record.raw is not None else None
            id = (members or {}).get("id")
            found = log.audit(record.seq)
            assert found.record == record
            event = next(one for one in stage.records[record.seq :: -1] if one.event not in CAUSED)
            assert found.cause == (event if record.event in CAUSED else None)
            assert (found.right is not None) == (record.verdict == "accepted" and bool(record.pattern))
            for origin in found.grants:
                assert origin.record is not None and origin.rests_on is not None, (seed, record.seq)
                assert set(origin.rests_on) <= held[origin.id]
                traced += 1
            if isinstance(id, str) and not id.isdecimal() and record.seq % 4 == 0:
                same = [one for one in stage.records if (read_members(one.raw or "") or {}).get("id") == id]
                accepted = [one for one in same if one.verdict != "refused"]
                chosen = (accepted or same)[-1]
                by_id = log.audit(id)
                assert by_id.record == chosen
                assert by_id.others == tuple(one.seq for one in same if one is not chosen)
        traced_in_all += traced
    assert traced_in_all > 10, "grants were traced"


def held_behind_grants(records: list[Record]) -> dict[str, set[AuditedRight]]:
    """Of each grant, what its giver held behind it beside what it gave."""
    player, held = Player("whole"), {}
    for record in records:
        player.take(record)
        members = (read_members(record.raw) if record.raw is not None else None) or {}
        if record.verdict == "accepted" and members.get("kind") in ("capability/grant", "space/invite"):
            giver = player.space.state.members[record.participant]
            held[members["id"]] = {
                AuditedRight(right.capability.text, right.grant)
                for right in giver.rights.held
                if right.grant != members["id"]
            }
    return held


@pytest.mark.parametrize("id", ["plain-1", "a/b", 'qu"ote', "back\\slash", "höh", "12"])
def test_an_id_is_found_however_it_is_spelt(id: str, tmp_path: Path) -> None:
    stage = Stage(owner="anna").play(
        Enrolled("anna", ({"kind": "*"},)),
        Joined("c1", "anna", "anna", "memory"),
        *(Received(says("chat", f"m-{n}", {"text": id}), "c1") for n in range(20)),
    )
    members = json.dumps({"kind": "chat", "id": id, "payload": {}})
    escaped = "".join(f"\\u{ord(c):04x}" for c in id)
    spelt = [members, json.dumps(json.loads(members), ensure_ascii=False)]
    spelt += [f'{{"kind":"chat","id":"{escaped}","payload":{{}}}}']
    for text in spelt:
        stage.play(Received(text, "c1"))
    log = open_log(keep(stage.records, tmp_path / "j.jsonl"))
    last = len(stage.records) - 1
    found = log.audit(id)
    assert (found.record.seq, found.others) == (last, (last - 2, last - 1))


def test_an_audit_by_the_index_is_that_without(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.play(Received(says("chat", "m-1"), "c2"), Received(says("chat", "höh/1"), "c2"))
    path = keep(stage.records, tmp_path / "j.jsonl")
    ids = ("r-1", "r-2", "m-1", "höh/1", "g-3", "5")
    without = [open_log(path).audit(id) for id in ids]
    monkeypatch.setattr("mew_lab.log.files.LARGE", 0)
    assert len(open_log(path).df) > 5
    assert has_index(path)
    assert [open_log(path).audit(id) for id in ids] == without
    with pytest.raises(JournalError, match="holds no message with the id"):
        open_log(path).audit("m-99")
