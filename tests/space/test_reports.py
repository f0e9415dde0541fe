"""A participant reports a decision of its own, or what became of a call; the record is its account, under its own name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.frames import FrameMaker
from mew_lab.log.journal import Journal
from mew_lab.log.replay import replay
from mew_lab.log.resumption import note_resolution, resume_quickly
from mew_lab.space.core import Space
from mew_lab.space.events import Enrolled, Event, HttpReply, Joined, Received, Record, Reported
from mew_lab.space.opening import opening_record
from mew_lab.space.reports import MAX_RESOLUTIONS, Resolutions

from ..conftest import examples
from .stage import START

pytestmark = pytest.mark.ruling("R42")
CALL = {"kind": "mcp/request", "payload": {"method": "tools/call"}, "to": "fs"}


class Stage:
    """A space in which ada may call fs and git, bot may call fs alone, and eve may only chat."""

    def __init__(self, edition: int = 4) -> None:
        self.space = Space("demo", epoch=7, owner="ada", edition=edition)
        self.records = [opening_record(self.space, START)]
        for name, can in (
            ("ada", [{"kind": "*"}]),
            ("bot", [CALL, {"kind": "mcp/proposal"}]),
            ("eve", [{"kind": "chat"}]),
            ("fs", []),
            ("git", []),
        ):
            self.step(Enrolled(name, tuple(can)))
            self.step(Joined(f"c-{name}", name, f"{name}-1", "websocket"))
        self.say("ada", "q-1", "fs")
        self.say("bot", "q-2", "fs")
        self.say("bot", "p-2", "fs", "mcp/proposal")

    def say(self, who: str, id: str, to: str, kind: str = "mcp/request") -> None:
        body = {"id": id, "kind": kind, "to": [to], "payload": {"method": "tools/call"}}
        self.step(Received(json.dumps(body), f"c-{who}"))

    def step(self, event: Event) -> HttpReply | None:
        effects = self.space.step(event, START)
        self.records += [effect for effect in effects if isinstance(effect, Record)]
        return next((effect for effect in effects if isinstance(effect, HttpReply)), None)

    def report(self, who: str, note: Any, via: str = "http") -> HttpReply:
        text = note if isinstance(note, str | bytes) else json.dumps(note)
        reply = self.step(Reported(who, text, via))
        assert reply is not None
        return reply

    @property
    def reported(self) -> list[Record]:
        return [record for record in self.records if record.event == "reported"]


def receipt(**changes: Any) -> dict[str, Any]:
    note = {"about": "receipt", "proposal": "p-1", "request": "q-1", "decision": "approve", "how": "typed"}
    return {**note, "by": "human", "digest": "ab" * 32, "edited": False, **changes}


def rejection(**changes: Any) -> dict[str, Any]:
    return {"about": "receipt", "proposal": "p-2", "decision": "reject", "how": "click", **changes}


def resolution(**changes: Any) -> dict[str, Any]:
    return {
        "about": "resolution",
        "request": "q-1",
        "to": ["fs"],
        "happened": True,
        "note": "seen",
        **changes,
    }


@pytest.mark.extension("notes")
def test_a_receipt_for_ones_own_request_is_recorded_under_the_name_that_was_authenticated() -> None:
    stage = Stage()
    note = receipt(by="human")
    assert stage.report("ada", note).status == 200
    [record] = stage.reported
    assert (record.participant, record.via, record.raw, record.to) == ("ada", "http", None, ())
    assert json.loads(record.detail) == note


@pytest.mark.parametrize(
    ("who", "note", "status", "error"),
    [
        ("ada", receipt(despite=["rejected"]), 200, ""),
        ("ada", receipt(despite=["rejected", "unknown"]), 200, ""),
        ("ada", receipt(despite="rejected"), 400, "invalid_request"),
        ("ada", receipt(despite=["withdrawn"]), 400, "invalid_request"),
        ("ada", receipt(despite=[]), 400, "invalid_request"),
        ("eve", receipt(), 403, "not_yours"),
        ("bot", receipt(), 403, "not_yours"),
        ("ada", receipt(request="q-9"), 403, "not_yours"),
        ("ada", rejection(), 200, ""),
        ("ada", rejection(digest="ab" * 32, by="human", typed="yes", how="typed"), 200, ""),
        ("ada", rejection(proposal="q-2"), 403, "not_yours"),
        ("ada", rejection(proposal="p-9"), 403, "not_yours"),
        ("bot", rejection(), 403, "not_yours"),
        ("eve", rejection(), 403, "capability_violation"),
        ("ada", resolution(), 200, ""),
        ("ada", resolution(to=["git"], happened=False), 200, ""),
        ("ada", resolution(to=["fs-1", "git-1"]), 200, ""),
        ("bot", resolution(), 200, ""),
        ("bot", resolution(to=["fs-1"]), 200, ""),
        ("bot", resolution(to=["git"]), 403, "capability_violation"),
        ("bot", resolution(to=["fs", "git"]), 403, "capability_violation"),
        ("eve", resolution(), 403, "capability_violation"),
        ("nobody", resolution(), 403, "not_permitted"),
    ],
)  # fmt: skip
def test_a_note_is_taken_of_a_participant_that_may_tell_it(
    who: str, note: dict[str, Any], status: int, error: str
) -> None:
    stage = Stage()
    reply = stage.report(who, note)
    assert (reply.status, reply.body.get("error", "")) == (status, error)
    assert len(stage.reported) == (status == 200)


@pytest.mark.parametrize(
    "note",
    [
        "", "[]", "{", b"\xff", '{"about":"receipt"}', '{"about":[]}', '{"about":"else"}', '{"about":"receipt","about":"receipt"}',
        receipt(decision="reject"), receipt(how="seen"), receipt(on_screen=900), receipt(digest="AB" * 32),
        receipt(digest="ab" * 33), receipt(edited=1), receipt(to=[]), receipt(to=["x"] * 17), receipt(request=""),
        receipt(request="q" * 257), receipt(policy={"else": "x"}), receipt(policy="x"), receipt(by=7),
        rejection(request="q-1"), rejection(edited=False), rejection(to=["fs"]), rejection(how="seen"), rejection(proposal=""),
        resolution(happened="yes"), resolution(happened=None), resolution(to="fs"), resolution(to=["f\ns"]), resolution(to=[""]), resolution(to=["x" * 65]), resolution(note="x" * 1001),
        resolution(more=1),
    ],
)  # fmt: skip
def test_a_note_that_is_none_is_refused_and_leaves_no_record(note: Any) -> None:
    stage = Stage()
    assert stage.report("ada", note).status == 400
    assert stage.reported == []


@pytest.mark.drawn
@pytest.mark.ruling("R6")
@given(
    id=st.text(max_size=8)
    | st.sampled_from(["q\n1", "q\x1b[2J", "\u202eq", "q" * 256, "q" * 257, "é", " ", "", "\x7f"])
)
@settings(max_examples=examples(100), deadline=None)
def test_a_note_takes_the_ids_that_a_message_may_have_and_no_others(id: str) -> None:
    stage = Stage()
    stage.say("ada", id, "fs")
    accepted = json.loads(json.dumps(id)) in stage.space.state.handles
    assert (stage.report("ada", receipt(request=id)).status == 200) == accepted
    assert (stage.report("ada", resolution(request=id)).status == 200) == accepted
    if not accepted:
        assert stage.report("ada", rejection(proposal=id)).status == 400


def test_a_long_note_is_refused() -> None:
    stage = Stage()
    note = json.dumps(receipt()) + " " * 2048
    assert stage.report("ada", note).status == 413
    assert stage.reported == []


def test_a_paused_participant_reports_nothing_and_a_removed_one_neither() -> None:
    stage = Stage()
    stage.step(Received(json.dumps({"kind": "participant/pause", "to": ["bot"]}), "c-ada"))
    assert stage.report("bot", receipt(request="q-2")).body["error"] == "paused"
    stage.step(Received(json.dumps({"kind": "space/kick", "payload": {"participant_id": "bot"}}), "c-ada"))
    assert stage.report("bot", receipt(request="q-2")).status == 403
    assert stage.reported == []


def test_a_space_by_earlier_rules_takes_no_notes() -> None:
    stage = Stage(edition=3)
    assert stage.report("ada", receipt()).status == 403
    assert stage.reported == []


@pytest.mark.drawn
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ada", "bot", "eve", "nobody"]),
            st.sampled_from(["q-1", "q-2", "q-3", "p-1"]),
            st.sampled_from(["fs", "git", "fs-1", "else"]),
            st.sampled_from(["receipt", "rejection", "resolution", "request", "join"]),
        ),
        max_size=20,
    )
)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_reported_replays(
    steps: list[tuple[str, str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage = Stage()
    for number, (who, id, to, what) in enumerate(steps):
        if what == "receipt":
            stage.report(who, receipt(request=id), via="memory" if number % 2 else "http")
        elif what == "rejection":
            stage.report(who, rejection(proposal=id))
        elif what == "resolution":
            stage.report(who, resolution(request=id, to=[to]))
        elif what == "join":
            stage.step(Joined(f"c-{number}", who, f"{who}-{number}", "websocket"))
        elif who != "nobody":
            stage.say(who, id, to, "mcp/proposal" if id == "p-1" else "mcp/request")
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    journal = Journal(path)
    journal.append(stage.records)
    journal.close()
    assert replay(path).unwritten == ()
    told, quick = Resolutions(), resume_quickly([path], name="j")
    for record in stage.records:
        note_resolution(told, record)
    assert quick is not None and list(quick.resolutions) == list(told)


@pytest.mark.ruling("R6", "R35")
def test_a_report_is_about_the_request_that_had_its_id_then_and_the_newest_that_covers_its_targets_counts() -> (
    None
):
    stage, told = Stage(), Resolutions()
    stage.report("bot", resolution(happened=False))
    stage.report("ada", resolution(to=["fs", "git"]))
    stage.report("ada", resolution(request="q-2"))
    for record in stage.records:
        told.take(record)
    found = told.find("q-1", ["fs-1"], stage.space.state.logical)
    assert found is not None and (found.by, found.happened, found.note) == ("ada", True, "seen")
    assert told.find("q-1", ["fs", "git"]) is found and told.find("q-2", ["fs", "git"]) is None
    told.forget("q-1")
    assert told.find("q-1", ["fs"]) is None and told.find("q-2", ["fs"]) is not None and len(told) == 1


@pytest.mark.parametrize("detail", ["", "[]", '{"about":"resolution"}', json.dumps(receipt())])
def test_a_record_that_holds_no_resolution_is_passed_over(detail: str) -> None:
    told = Resolutions()
    told.take(Record(1, START, "reported", "demo", "ada", detail=json.dumps(resolution())))
    told.take(Record(2, START, "reported", "demo", "ada", detail=detail))
    told.take(Record(3, START, "sent", "demo", "ada", detail=json.dumps(resolution(happened=False))))
    found = told.find("q-1", ["fs"])
    assert len(told) == 1 and found is not None and found.happened


def test_nobody_drives_out_what_others_reported() -> None:
    told = Resolutions()
    for who, count in (("ada", 1), ("eve", MAX_RESOLUTIONS + 5)):
        for number in range(count):
            note = json.dumps(resolution(request=f"{who}-{number}"))
            told.take(Record(number, START, "reported", "demo", who, detail=note))
    assert len(told) == MAX_RESOLUTIONS and told.find("ada-0", ["fs"]) is not None
    assert told.find("eve-0", ["fs"]) is None and told.find(f"eve-{MAX_RESOLUTIONS}", ["fs"]) is not None


@pytest.mark.ruling("R35")
def test_a_resolution_counts_for_a_call_to_the_targets_that_it_states_alone() -> None:
    stage = Stage()
    stage.say("ada", "q-3", "git")
    lost = {"error": {"code": 1, "message": "it ended", "data": {"code": "outcome_unknown"}}}
    body = {"id": "a-3", "kind": "mcp/response", "to": ["ada-1"], "correlation_id": ["q-3"], "payload": lost}
    stage.step(Received(json.dumps(body), "c-git"))

    def states() -> list[str]:
        frame = FrameMaker().frame("requests", lambda done: stage.records[done:])
        return list(frame[frame["id"] == "q-3"]["state"])

    assert states() == ["unknown"]
    assert stage.report("bot", resolution(request="q-3", to=["fs"])).status == 200  # it may not call git
    assert states() == ["unknown"]
    assert stage.report("ada", resolution(request="q-3", to=["git"])).status == 200
    assert states() == ["resolved"]
