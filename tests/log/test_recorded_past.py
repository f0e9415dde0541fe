"""The past of a log of another gateway is what its messages tell, and never more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mew_lab
from mew_lab.errors import ConfigError, JournalError
from mew_lab.lab.labs import close_all
from mew_lab.log.export import export_as_peers
from mew_lab.log.log import Log, open_log
from mew_lab.log.recorded_past import UNKNOWN
from mew_lab.views.moments.model import tables_of

from .captured import READINGS


@pytest.fixture(params=sorted(READINGS))
def log(request: pytest.FixtureRequest, shared: Path) -> Log:
    return open_log(shared / "captures" / str(request.param))


def told_to(log: Log, name: str) -> set[str]:
    """What the last message of the gateway that lists a participant says of it, from the raw records."""
    told: set[str] = set()
    for record in log.records:
        members = json.loads(record.raw) if record.raw else {}
        payload = members.get("payload") or {}
        listed = {
            "system/welcome": [payload.get("you"), *(payload.get("participants") or [])],
            "system/presence": [payload.get("participant")],
        }.get(members.get("kind"), [])
        for one in listed:
            if one and one["id"] == name and "capabilities" in one:
                told = {mew_lab.Capability.of(pattern).text for pattern in one["capabilities"]}
    return told


def test_each_capture_has_a_past(log: Log) -> None:
    records = list(log.records)
    last = log.at(records[-1].seq)
    frame = log.participants()
    assert [one.participant for one in last.members] == list(frame["participant"])
    assert {one.participant for one in last.members if one.ids} == set(frame["participant"][frame["present"]])
    for member in last.members:
        told = {
            mew_lab.Capability.of(json.loads(one.pattern)).text
            for one in last.rights
            if one.participant == member.participant
        }
        assert told == told_to(log, member.participant) and member.rights == len(told)
        assert member.inviter == UNKNOWN
    assert last.owner == UNKNOWN and {one.giver for one in last.rights} == {UNKNOWN}
    assert {one.connection for one in last.connections} == {UNKNOWN}
    assert "unknown" in last.notes[0] and "unknown" in last._repr_html_()
    tables = {table.name: table for table in tables_of(last, last.proposals, str)}
    assert {row[2] for row in tables["rights"].rows} == {UNKNOWN}
    seen = 0
    for record in records:  # forwards, and back again
        moment = log.at(record.seq)
        assert len(moment.members) >= seen and moment.now == record.now
        seen = len(moment.members)
    assert len(log.at(records[0].seq).members) <= seen
    with pytest.raises(JournalError, match="no record"):
        log.at(10_000)


def test_what_other_rights_would_have_changed_there(log: Log) -> None:
    frame = log.participants()
    name = frame["participant"][frame["sent"].astype(int).idxmax()]
    sent = [
        one
        for one in log.records
        if one.event == "received" and one.participant == name and one.verdict == "accepted"
    ]
    nothing = log.what_if(capabilities={name: []})
    assert len(nothing.denied) == len(sent) and not nothing.allowed
    everything = log.what_if(capabilities={name: [{"kind": "*"}]})
    assert not everything.denied
    more = log.what_if(more={name: [{"kind": "chat"}]})
    assert not more.denied  # it kept what it was told to hold
    with pytest.raises(ConfigError, match="no participant"):
        log.what_if(capabilities={"nobody": []})
    with pytest.raises(JournalError, match="other grants"):
        log.what_if(grants={"g": []})
    with pytest.raises(JournalError):
        log.what_if(capabilities={name: []}, exact=True)


def test_the_slider_draws_the_last_moment_of_each(log: Log) -> None:
    picture = log.view.moments.draw()[1]["text/html"]
    assert "cannot be replayed" not in picture and "State behind #" in picture and UNKNOWN in picture


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Log, Log]:
    """A session with a grant that stands and one that was revoked, and the same as the files of another gateway."""
    monkeypatch.chdir(tmp_path)
    lab = mew_lab.up(journal=tmp_path / "j.jsonl")
    bot = lab.join("bot")
    lab.me.run(lab.me.participant.rights.grant("bot", [{"kind": "chat/acknowledge"}]))
    revoked = lab.me.run(lab.me.participant.rights.grant("bot", [{"kind": "reasoning/thought"}]))
    lab.me.run(
        lab.me.participant.rights.revoke("bot", grant_id=getattr(revoked, "id", "") or revoked.grant_id)
    )
    lab.me.run(lab.me.participant.controls.pause("bot", timeout_seconds=600))
    assert bot.name == "bot"
    lab.down()
    close_all()
    (tmp_path / "out").mkdir()
    export_as_peers(tmp_path / "j.jsonl", tmp_path / "out")
    return open_log(tmp_path / "j.jsonl"), open_log(tmp_path / "out")


def test_a_permission_that_was_given_names_its_giver_and_a_revoked_one_is_gone(
    exported: tuple[Log, Log],
) -> None:
    own, peers = exported
    whole = own.at(max(record.seq for record in own.records if record.event == "received"))
    past = peers.at(max(record.seq for record in peers.records))
    patterns = {one.pattern: one for one in past.rights if one.participant == "bot"}
    assert '{"kind":"reasoning/thought"}' not in patterns
    (given,) = [one for one in patterns.values() if one.pattern == '{"kind":"chat/acknowledge"}']
    assert given.giver == "human" and given.grant == next(one.grant for one in whole.grants)
    expected = {one.pattern for one in whole.rights if one.participant == "bot"}
    assert set(patterns) <= expected | {given.pattern}
    assert [one.participant for one in past.pauses] == ["bot"] and past.pauses[0].by == "human"
