"""Frames of a log: each value follows from what happened, and from nothing that somebody only claims."""

from __future__ import annotations

import gc
import json
import math
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mew_lab.errors import ConfigError
from mew_lab.log.files import Files
from mew_lab.log.frame_columns import FRAMES, FrameColumn, describe_frames
from mew_lab.log.frames import FrameMaker
from mew_lab.log.ledger_rows import LedgerPass, LedgerRow, MessageState, MessageStates, ledger_columns
from mew_lab.log.log import Log, open_log
from mew_lab.protocol.permit import PROFILES
from mew_lab.protocol.profiles import OWNER
from mew_lab.space.events import Enrolled, Event, Joined, Received, Record

from .hostile import honest_lines, hostile_journal
from .planted import FAULTS, converse
from .sessions import session
from .stage import Stage, observed, says

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = (
    "requests",
    "proposals",
    "decisions",
    "reasoning",
    "streams",
    "participants",
    "grants",
    "verdicts",
    "chat",
)


def call(tool: str = "add", **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def log_of(*steps: tuple[float, dict[str, Any]], vantage: str = "gateway") -> Log:
    """A log of messages at these seconds; a member `event` makes a note of the lab instead."""
    log = Log.live(space="demo", vantage=vantage)
    for seq, (t, members) in enumerate(steps, 1):
        now, sender = START + timedelta(seconds=t), str(members.get("from", "human"))
        if "event" in members:
            detail = members["detail"]
            text = detail if isinstance(detail, str) else json.dumps(detail)
            log.observe(Record(seq, now, members["event"], "demo", sender, detail=text))
        else:
            verdict = members.pop("verdict", "accepted")
            record = Record(seq, now, "received", "demo", sender, verdict=verdict, raw=json.dumps(members))
            log.observe(record)
    return log


def message(kind: str, sender: str, id: str, payload: Any, *about: str, to: str = "") -> dict[str, Any]:
    members = {"id": id, "from": sender, "kind": kind, "payload": payload, "to": [to] if to else []}
    return members | ({"correlation_id": list(about)} if about else {})


def proposed(id: str = "p", **arguments: Any) -> dict[str, Any]:
    return message("mcp/proposal", "bot", id, call(**arguments), to="git")


def approved(id: str = "q", about: str = "p", sender: str = "human", **arguments: Any) -> dict[str, Any]:
    return message("mcp/request", sender, id, call(**arguments), about, to="git")


def answered(about: str = "q", id: str = "a", sender: str = "git") -> dict[str, Any]:
    return message("mcp/response", sender, id, {"result": {}}, about, to="human")


def noted(sender: str = "human", **members: Any) -> dict[str, Any]:
    note = {"proposal": "p", "decision": "approve", "by": "human", "digest": "d" * 64, "request": "q"}
    return {"event": "decided", "from": sender, "detail": {**note, "on_screen": 2400, **members}}


def only(frame: pd.DataFrame, **where: Any) -> dict[str, Any]:
    """The one row with these values, as a dict; a missing value is None."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    [row] = frame.to_dict("records")
    return {str(name): None if _missing(value) else value for name, value in row.items()}


def _missing(value: Any) -> bool:
    return value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


# --- what frames are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMES)
def test_an_empty_frame_has_all_its_columns_and_their_types(name: str) -> None:
    frame = Log.live().frame(name)
    assert len(frame) == 0
    for column in FRAMES[name].columns:
        assert str(frame[column.name].dtype) == column.dtype


@pytest.mark.parametrize("name", FRAMES)
def test_every_column_says_what_it_means_and_in_which_unit(name: str) -> None:
    spec = FRAMES[name]
    names = [column.name for column in spec.columns]
    assert len(names) == len(set(names)) and spec.about
    for column in spec.columns:
        assert column.about and "\n" not in column.about
        assert column.unit or column.dtype in ("object", "bool", "boolean", "Int64", "int64"), column.name
        assert f"`{column.name}` | {column.dtype} | {column.unit} |" in describe_frames()
    shown = str(Log.live().frames[name])
    assert all(column.about in shown for column in spec.columns)


def test_each_frame_has_a_verb_of_the_log() -> None:
    log = log_of((0, proposed()))
    for name in NAMES:
        pd.testing.assert_frame_equal(getattr(log, name)(), log.frame(name))
    assert repr(log.frames).startswith("requests ")
    with pytest.raises(
        ConfigError, match="there is no frame 'request' of a log; there are requests, proposals"
    ):
        log.frame("request")


def test_a_frame_has_columns_of_a_users_own() -> None:
    log = log_of((0, message("mcp/request", "human", "q", call(a=4), to="git")))
    mine = FrameColumn(
        "a", "Int64", "", "the argument", lambda row: row.opened.payload["params"]["arguments"]["a"]
    )
    columns = log.frames["requests"].columns
    assert list(log.frame("requests", [*columns[:1], mine])) == ["seq", "a"]
    assert list(log.frame("requests", [mine])["a"]) == [4]
    assert "a" not in log.requests()


def test_a_frame_of_yours_changes_no_log() -> None:
    log = log_of((0, proposed()))
    frame = log.proposals()
    frame["state"] = "mine"
    frame["new"] = 1
    assert list(log.proposals()["state"]) == ["open"] and "new" not in log.proposals()


def test_a_participants_log_says_what_it_cannot_know() -> None:
    unseen = log_of((0, proposed()), vantage="participant").proposals().attrs["unseen"]
    assert unseen.startswith("Seen as a participant: verdicts, refused messages and the permissions")
    assert log_of((0, proposed())).proposals().attrs.keys() == {"shown"}


# --- calls and decisions -------------------------------------------------------------------------------------------


def test_a_proposal_that_was_approved_after_an_edit_is_told_whole() -> None:
    log = log_of(
        (1, proposed(a=1)), (3, noted(edited=True)), (3.5, approved(a=2)), (4, answered())
    )  # fmt: skip
    row = only(log.proposals())
    assert (row["state"], row["latency"], row["decided_by"], row["request"]) == (
        "answered",
        2.5,
        "human",
        "q",
    )
    assert (row["edited"], row["changes"]) == (True, ("params.arguments.a: 1 → 2",))
    assert (row["on_screen"], row["policy"], row["answered_by"]) == (2400, "", "git")
    assert (row["answer"], row["answer_latency"], row["failed"]) == (4, 0.5, False)
    request = only(log.requests())
    assert (request["state"], request["latency"], request["proposals"]) == ("answered", 0.5, ("p",))
    decision = only(log.decisions())
    assert (decision["seq"], decision["executed"], decision["outcome"]) == (3, True, "answered")
    assert (decision["way"], decision["proposal"], decision["proposer"]) == ("proposal", "p", "bot")
    assert (decision["decided_by"], decision["how"], decision["on_screen"]) == ("human", "click", 2400)
    assert (decision["digest"], decision["edited"]) == ("d" * 64, True)
    assert decision["changes"] == ("params.arguments.a: 1 → 2",)
    assert (decision["latency"], decision["decision_latency"]) == (0.5, 2.5)


def test_a_policy_is_told_by_its_name_and_text_and_a_rejection_is_a_decision() -> None:
    policy = {
        "policy": {"name": "deny", "text": "reject everything"},
        "by": "policy deny",
        "reason": "policy",
    }
    detail = noted(decision="reject", **policy)
    del detail["detail"]["on_screen"], detail["detail"]["request"]
    log = log_of(
        (0, proposed()), (1, detail), (1, message("mcp/reject", "human", "r", {"reason": "policy"}, "p"))
    )
    row = only(log.decisions())
    assert (row["executed"], row["outcome"], row["reason"], row["way"]) == (False, "rejected", "policy", "")
    assert (row["tool"], row["to"], row["proposer"], row["decided_by"]) == ("add", ("git",), "bot", "human")
    assert (row["how"], row["policy"], row["policy_text"]) == ("policy", "deny", "reject everything")
    assert row["on_screen"] is None and row["edited"] is None and row["latency"] is None
    proposal = only(log.proposals())
    assert (proposal["state"], proposal["decided_by"], proposal["policy"]) == ("rejected", "human", "deny")
    assert (proposal["rejections"], proposal["reason"], proposal["request"]) == (1, "policy", "")


def test_a_typed_approval_without_a_click_has_no_time_on_screen() -> None:
    detail = noted(typed="abcdef12")
    del detail["detail"]["on_screen"]
    row = only(log_of((0, proposed()), (1, detail), (1, approved())).decisions())
    assert (row["how"], row["on_screen"], row["outcome"]) == ("typed", None, "waiting")


@pytest.mark.threat(13)
@pytest.mark.parametrize(
    "note",
    [
        noted(sender="eve"),  # another participant's lab
        noted(request="q2"),  # another request
        noted(decision="reject"),
        noted(decision="perhaps"),
        {"event": "decided", "detail": "[" * 3000},
        {"event": "decided", "detail": '{"proposal":7,"decision":"approve","request":"q"}'},
        {"event": "decided", "detail": "not JSON"},
    ],
)
def test_a_note_that_does_not_belong_to_the_request_decides_nothing(note: dict[str, Any]) -> None:
    row = only(log_of((0, proposed()), (1, note), (1, approved())).decisions())
    assert (row["how"], row["digest"], row["on_screen"]) == ("", "", None)
    assert row["decided_by"] == "human"


@pytest.mark.threat(13)
def test_a_note_on_a_request_that_another_participant_sent_decides_nothing() -> None:
    row = only(log_of((0, proposed()), (1, noted()), (1, approved("q", sender="eve"))).decisions())
    assert (row["decided_by"], row["how"], row["on_screen"]) == ("eve", "", None)


@pytest.mark.parametrize("shown", [-1, 1e300, True, "long", None, [1]])
def test_a_damaged_time_on_screen_is_missing(shown: Any) -> None:
    row = only(log_of((0, proposed()), (1, noted(on_screen=shown)), (1, approved())).decisions())
    assert (row["on_screen"], row["digest"]) == (None, "d" * 64)


def test_a_receipt_tells_the_old_file_of_a_call_that_writes_one() -> None:
    file = {"path": "/home/ann/plan.txt", "size": 25, "sha256": "ab" * 32}
    row = only(log_of((0, proposed()), (1, noted(file=file)), (1, approved())).decisions())
    assert (row["old_file"], row["old_size"], row["old_sha256"]) == ("/home/ann/plan.txt", 25, "ab" * 32)
    new = file | {"size": None, "sha256": ""}  # there is no such file yet
    row = only(log_of((0, proposed()), (1, noted(file=new)), (1, approved())).decisions())
    assert (row["old_file"], row["old_size"], row["old_sha256"]) == ("/home/ann/plan.txt", None, "")
    row = only(log_of((0, proposed()), (1, noted()), (1, approved())).decisions())
    assert (row["old_file"], row["old_size"], row["old_sha256"]) == ("", None, "")


@pytest.mark.threat(13)
@pytest.mark.parametrize("size", [-1, True, "25", 2**63, 2.5, [25]])
@pytest.mark.parametrize("sha256", ["ab", "AB" * 32, "ab" * 33, 7, None, "\u0661" * 64])
def test_a_damaged_old_file_of_a_receipt_is_missing(size: Any, sha256: Any) -> None:
    file = {"path": "plan.txt", "size": size, "sha256": sha256}
    row = only(log_of((0, proposed()), (1, noted(file=file)), (1, approved())).decisions())
    assert (row["old_file"], row["old_size"], row["old_sha256"]) == ("plan.txt", None, "")
    for damaged in ([], "plan.txt", {"path": 7}, {"path": ""}, {"size": 25}):
        row = only(log_of((0, proposed()), (1, noted(file=damaged)), (1, approved())).decisions())
        assert (row["old_file"], row["digest"]) == ("", "d" * 64)


@pytest.mark.ruling("R17", "R18")
@pytest.mark.threat(13)
@pytest.mark.parametrize(
    "claim",
    [
        approved("x", sender="bot"),  # the proposer itself
        message("mcp/request", "eve", "x", call("delete"), "p", to="git"),  # another tool
        message("mcp/request", "eve", "x", call(), "p", to="mail"),  # another target
        message("mcp/request", "eve", "x", call(), "p"),  # nobody
        message("mcp/withdraw", "eve", "x", {"reason": "no"}, "p"),
        message("mcp/response", "git", "x", {"result": {}}, "p"),
        {**message("mcp/reject", "eve", "x", {"reason": "no"}, "p"), "verdict": "refused"},
    ],
)
def test_a_claim_decides_no_proposal(claim: dict[str, Any]) -> None:
    log = log_of((0, proposed()), (1, claim))
    row = only(log.proposals())
    assert (row["state"], row["latency"], row["decided_by"], row["request"]) == ("open", None, "", "")
    assert row["claims"] == (0 if claim["kind"] == "mcp/reject" else 1)
    assert not len(log.decisions().query("decided_by != ''"))


@pytest.mark.ruling("R17")
def test_a_second_approval_is_an_executed_call_that_decided_nothing() -> None:
    log = log_of(
        (0, proposed()), (1, approved("q")), (2, approved("q2", sender="eve")), (3, answered("q2", "a2"))
    )
    first, second = only(log.decisions(), id="q"), only(log.decisions(), id="q2")
    assert (first["way"], first["outcome"], first["decided_by"]) == ("proposal", "waiting", "human")
    assert (second["outcome"], second["proposal"], second["decided_by"]) == ("answered", "", "")
    assert (only(log.proposals())["state"], only(log.proposals())["claims"]) == ("fulfilled", 1)


@pytest.mark.ruling("R6")
def test_a_request_under_an_id_that_is_taken_has_a_row_of_its_own() -> None:
    own = message("mcp/request", "human", "q", call(), to="git")
    log = log_of((0, own), (1, {**own, "from": "eve", "to": ["mail"]}), (2, answered("q", sender="mail")))
    first, second = only(log.requests(), **{"from": "human"}), only(log.requests(), **{"from": "eve"})
    assert (first["state"], first["claims"]) == ("waiting", 2)
    assert (second["state"], second["latency"], second["answered_by"]) == ("claimed", None, "")
    assert list(log.decisions()["outcome"]) == ["waiting", "claimed"]


def test_an_id_that_its_owner_takes_anew_names_two_calls() -> None:
    log = log_of((0, proposed(a=1)), (1, proposed(a=2)), (2, approved(a=2)))
    assert list(log.proposals()["state"]) == ["open", "fulfilled"]
    asked = message("mcp/request", "human", "q", call(), to="git")
    log = log_of((0, asked), (1, answered()), (2, asked), (3, answered(id="a2")))
    assert list(log.requests()["answer"]) == [2, 4]


def test_one_request_that_approves_several_is_one_executed_call() -> None:
    both = message("mcp/request", "human", "q", call(a=1), "p", "p2", to="git")
    log = log_of((0, proposed(a=1)), (0, proposed("p2", a=2)), (1, both), (2, answered()))
    row = only(log.decisions())
    assert (row["proposal"], row["proposals"], row["edited"]) == ("p", 2, True)
    assert row["changes"] == ("params.arguments.a: 2 → 1",)
    assert list(log.proposals()["state"]) == ["answered", "answered"]


def test_a_failure_is_told_in_its_own_words() -> None:
    asked = [message("mcp/request", "human", f"q{n}", call(), to="git") for n in range(3)]
    content = [{"type": "text", "text": "no such\nfile"}]
    payloads: list[dict[str, Any]] = [
        {"error": {"code": -32602, "message": "bad argument"}},
        {"result": {"isError": True, "content": content}},
        {"result": {"isError": False, "content": content}},
    ]
    replies = [
        message("mcp/response", "git", f"a{n}", payload, f"q{n}") for n, payload in enumerate(payloads)
    ]
    log = log_of(*((0, one) for one in asked), *((1, one) for one in replies))
    assert list(log.requests()["failed"]) == [True, True, False]
    assert list(log.requests()["error"]) == ["bad argument", "no such\\nfile", ""]
    assert list(log.decisions()["outcome"]) == ["failed", "failed", "answered"]


# --- permissions ---------------------------------------------------------------------------------------------------


def staged(*events: Event) -> Log:
    """What a real space records of these events, after human, bot and git have joined."""
    stage = Stage(owner="human")
    for name, can in (("human", PROFILES["human"]), ("bot", PROFILES["proposer"]), ("git", PROFILES["tool"])):
        stage.play(Enrolled(name, tuple(can)), Joined(f"c-{name}", name, name, "memory"))
    return observed(stage.play(*events).records, space="demo")


ASK = {"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "add"}}}
GRANT = {"recipient": "bot", "capabilities": [ASK], "reason": "it adds well"}


@pytest.mark.req("P-3.6.8-1")
def test_a_decision_names_the_grant_that_let_it_pass_and_its_giver() -> None:
    log = staged(
        Received(says("capability/grant", "g", GRANT, to=["bot"]), "c-human"),
        Received(says("capability/grant-ack", "k", {"status": "accepted"}, correlation_id=["g"]), "c-bot"),
        Received(says("mcp/request", "q1", call(a=1), to=["git"]), "c-bot"),
        Received(says("mcp/request", "q2", call("delete"), to=["git"]), "c-bot"),
        Received(says("mcp/request", "q3", call("delete"), to=["git"]), "c-human"),
        Received(says("capability/revoke", "v", {"grant_id": "g", "recipient": "bot"}), "c-human"),
    )
    granted, own = only(log.decisions(), id="q1"), only(log.decisions(), id="q3")
    assert json.loads(granted["pattern"]) == ASK
    assert (granted["way"], granted["source"], granted["grant"]) == ("grant", "grant", "g")
    assert (granted["given_by"], granted["given_for"]) == ("human", "it adds well")
    assert granted["given_at"] == next(
        r.seq for r in log.records if '"id":"g"' in (r.raw or "").replace(" ", "")
    )
    assert (own["way"], own["source"], own["profile"], own["given_by"]) == (
        "own",
        "configuration",
        "human",
        "",
    )
    assert "q2" not in list(log.decisions()["id"])
    refused = only(log.requests(), id="q2")
    assert (refused["state"], refused["code"]) == ("refused", "capability_violation")
    row = only(log.grants())
    assert (row["id"], row["from"], row["recipient"], row["uses"]) == ("g", "human", "bot", 1)
    assert (row["state"], row["ended_by"], row["acknowledged_by"]) == ("revoked", "human", ("bot",))
    assert [json.loads(text) for text in row["permissions"]] == [ASK]
    verdicts = log.verdicts()
    assert only(verdicts, id="q1")["given_by"] == "human"
    denied = only(verdicts, id="q2")
    assert (denied["verdict"], denied["code"], denied["pattern"]) == ("refused", "capability_violation", "")
    assert denied["why"]
    people = log.participants().set_index("participant")
    assert list(people["profile"]) == ["human", "proposer", "tool"]
    assert (people.at["bot", "sent"], people.at["bot", "refused"], people.at["git", "addressed"]) == (2, 1, 2)


def test_the_profile_of_an_owner_is_known_by_its_name_and_that_of_other_lists_is_not() -> None:
    can = PROFILES["human"]
    log = staged(Enrolled("human", (*can, *OWNER)), Enrolled("bot", tuple(can[1:])))
    assert list(log.participants()["profile"]) == ["human", "", "tool"]


def test_a_connection_with_an_id_of_its_own_counts_for_its_participant() -> None:
    log = staged(
        Joined("c-2", "bot", "bot-2", "memory"),
        Received(says("chat", "c", {"text": "hello"}), "c-2"),
        Received(says("chat", "d", {"text": "hello"}, to=["bot-2"]), "c-human"),
    )
    row = only(log.participants(), participant="bot")
    assert (row["sent"], row["addressed"], row["joins"]) == (1, 1, 2)
    assert len(log.participants()) == 3
    assert only(log.chat(), id="c")["from"] == "bot-2"


def test_an_invitation_is_the_origin_of_its_permissions() -> None:
    invite = {"participant_id": "guest", "initial_capabilities": [ASK]}
    log = staged(
        Enrolled("human", ({"kind": "*"},)),
        Received(says("space/invite", "i", invite), "c-human"),
        Joined("c-guest", "guest", "guest", "memory"),
        Received(says("mcp/request", "q", call(), to=["git"]), "c-guest"),
    )
    row = only(log.decisions(), id="q")
    assert (row["source"], row["grant"], row["given_by"], row["way"]) == ("invitation", "i", "human", "grant")


# --- everything else -----------------------------------------------------------------------------------------------


def test_chat_reasoning_streams_and_telemetry_have_their_rows() -> None:
    gateway = {"from": "system:gateway"}
    log = log_of(
        (0, message("chat", "bot", "c", {"text": "hello", "format": "markdown"}, to="human")),
        (1, message("chat", "eve", "c", {"text": "mine"})),
        (2, message("chat/acknowledge", "human", "k", {"status": "read"}, "c")),
        (3, message("chat/cancel", "bot", "x", {"reason": "typo"}, "c")),
        (4, message("reasoning/start", "bot", "r", {"message": "looks"}, "c")),
        (5, {**message("reasoning/thought", "bot", "t", {"message": "so"}), "context": "r"}),
        (6, {**message("reasoning/conclusion", "bot", "e", {"message": "done"}), "context": "r"}),
        (7, message("stream/request", "bot", "s", {"direction": "upload", "description": "a plot"})),
        (8, message("stream/open", "", "o", {"stream_id": "stream-1"}, "s", to="bot") | gateway),
        (10, message("stream/close", "bot", "z", {"stream_id": "stream-1", "reason": "complete"})),
        (
            11,
            message(
                "participant/status", "bot", "u", {"messages_in_context": 3, "tokens": 2**70, "latency_ms": 5}
            ),
        ),
        (12, message("participant/status", "bot", "w", {"tokens": 40, "max_tokens": 100, "status": "idle"})),
    )
    said, taken = only(log.chat(), **{"from": "bot"}), only(log.chat(), **{"from": "eve"})
    assert (said["text"], said["format"], said["state"], said["reason"]) == (
        "hello",
        "markdown",
        "cancelled",
        "typo",
    )
    assert (said["acknowledged_by"], said["latency"], taken["state"]) == (("human",), 2.0, "repeated")
    thought = only(log.reasoning())
    assert (thought["seq"], thought["state"], thought["seconds"], thought["steps"]) == (
        5,
        "concluded",
        2.0,
        2,
    )
    assert (thought["from"], thought["about"], thought["ended_by"]) == ("bot", ("c",), "bot")
    stream = only(log.streams())
    assert (stream["id"], stream["request"], stream["state"], stream["seconds"]) == (
        "stream-1",
        "s",
        "closed",
        2.0,
    )
    assert (stream["description"], stream["reason"], stream["ended_by"]) == ("a plot", "complete", "bot")
    telemetry = log.frame("telemetry")
    assert telemetry["tokens"].isna().tolist() == [True, False] and telemetry["tokens"][1] == 40
    assert telemetry["latency"][0] == 0.005 and telemetry["status"].tolist() == ["", "idle"]
    assert only(log.participants(), participant="bot")["max_tokens"] == 100


def test_a_stream_that_is_asked_for_twice_has_two_rows() -> None:
    asked = message("stream/request", "bot", "s", {"direction": "upload"})
    log = log_of(
        (0, {**asked, "verdict": "refused"}),
        (1, asked),
        (2, message("stream/open", "system:gateway", "o", {"stream_id": "s"}, "s", to="bot")),
        (3, message("stream/close", "bot", "z", {"stream_id": "s"})),
        (4, message("stream/open", "system:gateway", "o2", {"stream_id": "s"}, to="bot")),
    )
    assert list(log.streams()["state"]) == ["refused", "closed", "open"]


# --- while it grows, from files, and however long ------------------------------------------------------------------


def recorded(seed: int, events: int) -> list[Record]:
    stage = Stage()
    for event in session(stage.space, seed, events):
        stage.play(event)
    return stage.records


def saved(records: Iterable[Record], folder: Path) -> Log:
    log = observed(records, space="demo")
    log.save(folder / "session.jsonl")
    return open_log(folder / "session.jsonl")


@pytest.mark.parametrize("seed", range(6))
def test_frames_of_a_growing_log_are_those_of_its_file(seed: int, tmp_path: Path) -> None:
    records = recorded(seed, 300)
    growing, dice = Log.live(space="demo"), random.Random(seed)
    for record in records:
        growing.observe(record)
        if dice.random() < 0.05:
            growing.frame(dice.choice(list(FRAMES)))
    file = saved(records, tmp_path)
    assert len(growing.requests()) and len(growing.verdicts())
    for name in FRAMES:
        pd.testing.assert_frame_equal(growing.frame(name), file.frame(name))


def plain_frames(path: Path) -> dict[str, pd.DataFrame]:
    """The frames of a pass over all records of a file, without an index."""
    maker = FrameMaker()
    return {
        name: maker.frame(name, lambda done: () if done else Files((path,)).read([]))
        for name in FRAMES
        if name != "verdicts"  # the only one that no index keeps
    }


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))]
)
@pytest.mark.slow
def test_the_frames_that_an_index_keeps_are_those_of_a_plain_pass(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On honest and hostile lines, when they are made, after more lines, and at the next opening."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    monkeypatch.setattr(
        "mew_lab.log.ledger_rows.SETTLE_ROWS", 20
    )  # rows settle in another order than they came
    monkeypatch.setattr("mew_lab.log.facts.BATCH", 7)
    dice, path = random.Random(seed), tmp_path / "j.jsonl"
    if seed % 2:
        lines = hostile_journal(seed, events=150).splitlines(keepends=True)
    else:
        lines = [line + b"\n" for line in honest_lines(dice, 250)]
    half = dice.randrange(len(lines) // 3, len(lines))
    path.write_bytes(b"".join(lines[:half]))
    log = open_log(path)
    for _ in range(2):
        expected = plain_frames(path)
        for each in (log, open_log(path)):
            for name, frame in expected.items():
                pd.testing.assert_frame_equal(each.frame(name), frame)
        path.write_bytes(b"".join(lines))
    assert log.index.path is not None and len(log.requests()) and len(log.chat())
    before = log.requests()
    mine = log.requests()
    mine["id"] = "changed"
    pd.testing.assert_frame_equal(log.requests(), before)


def test_a_frame_of_tuples_says_so_of_each_column_that_has_them() -> None:
    for spec in FRAMES.values():
        for column in spec.columns:
            assert column.several == ("a tuple" in column.about), column.name


@pytest.mark.parametrize("seed", range(6, 12))
def test_the_columns_of_an_index_are_the_values_of_the_frames(seed: int) -> None:
    log = Log.live(space="demo")
    states = MessageStates()
    changed: dict[int, MessageState] = {}
    for record in recorded(seed, 300):
        log.observe(record)
        states.observe(record)
        changed |= {state.place: state for state in states.take()}
    assert list(ledger_columns(log.records)) == [changed[place] for place in sorted(changed)]
    places = {record.seq: place for place, record in enumerate(log.records, 1)}
    for name in ("requests", "proposals", "reasoning", "streams", "chat", "grants"):
        frame = log.frame(name)
        told = {"repeated", "refused"} if name in ("chat", "streams") else {"repeated"}
        frame = frame[frame["seq"].notna() & ~frame["state"].isin(told)]
        for row in frame.to_dict("records"):
            found = changed[places[row["seq"]]]
            assert found.state == row["state"], (name, row)
            if name in ("requests", "proposals"):
                assert found.latency == (None if math.isnan(row["latency"]) else row["latency"])
                assert found.decided_by == row.get("decided_by", "")


def test_the_columns_of_an_index_follow_the_first_decision_and_the_last_state() -> None:
    log = log_of(
        (0, proposed()),
        (2, message("mcp/reject", "eve", "r", {"reason": "no"}, "p")),
        (5, approved()),
        (6, answered()),
        (7, message("chat", "bot", "c", {"text": "hello"})),
        (8, message("chat/cancel", "bot", "x", {"reason": "typo"}, "c")),
        (9, proposed("p2")),
        (12, message("mcp/withdraw", "bot", "w", {"reason": "no"}, "p2")),
    )
    assert list(ledger_columns(log.records)) == [
        MessageState(1, "answered", 2.0, "human"),
        MessageState(3, "answered", 1.0),
        MessageState(5, "cancelled"),
        MessageState(7, "withdrawn", 3.0, "bot"),
    ]


@pytest.mark.slow
def test_a_long_log_keeps_its_order_and_every_answer() -> None:
    """More calls than the ledger holds at once: rows that it has forgotten keep their values."""
    log, count = Log.live(space="demo"), 30_000
    for n in range(count):
        moment = START + timedelta(seconds=n)
        asked = message("mcp/request", "human", f"q{n}", call(n=n), to="git")
        reply = message("mcp/response", "git", f"a{n}", {"result": {}}, f"q{n}")
        for seq, t, members in ((2 * n + 1, 0.0, asked), (2 * n + 2, 0.25, reply)):
            if members is reply and n % 3 == 0:
                continue
            now = moment + timedelta(seconds=t)
            raw = json.dumps(members)
            log.observe(Record(seq, now, "received", "demo", members["from"], verdict="accepted", raw=raw))
    frame = log.requests()
    assert list(frame["id"]) == [f"q{n}" for n in range(count)]
    assert [state == "waiting" for state in frame["state"]] == [n % 3 == 0 for n in range(count)]
    assert frame["latency"].dropna().unique().tolist() == [0.25]
    assert list(log.decisions()["seq"]) == list(range(1, 2 * count, 2))


@pytest.mark.parametrize("grows", [True, False])
def test_a_pass_that_is_interrupted_begins_anew(grows: bool) -> None:
    records = recorded(1, 200)
    maker, whole = FrameMaker(grows=grows), FrameMaker()

    def interrupted(done: int) -> Iterable[Record]:
        yield from records[:150]
        raise KeyboardInterrupt

    def of_a_file(done: int) -> Iterable[Record]:
        return () if done else records

    with pytest.raises(KeyboardInterrupt):
        maker.frame("requests", interrupted)
    for name in ("requests", "chat"):
        pd.testing.assert_frame_equal(maker.frame(name, of_a_file), whole.frame(name, of_a_file))


def test_numbers_that_no_column_holds_are_0_or_missing() -> None:
    big = 2**64 - 1
    log = Log.live()
    gateway = {"from": "system:gateway"}
    told = {"error": "unauthorized_stream_write", "stream_id": "s1", "refused_before": big}
    for seq, members in (
        (big, proposed()),
        (7, approved()),
        (big, answered()),
        (9, message("stream/open", "", "o", {"stream_id": "s1", "owner": "bot"}) | gateway),
        (10, message("system/error", "", "e", told) | gateway),
    ):
        sender, raw = members["from"], json.dumps(members)
        log.observe(Record(seq, START, "received", "demo", sender, verdict="accepted", raw=raw))
    assert list(log.proposals()["seq"]) == [0] and list(log.requests()["seq"]) == [7]
    assert log.proposals()["answer"].isna().all()
    assert list(log.streams()["refused_frames"]) == [0]
    for name in FRAMES:
        log.frame(name)


def test_hostile_lines_of_a_file_make_no_frame_fail(tmp_path: Path) -> None:
    lines = [json.dumps({"seq": 0, "now": "2026-01-01T00:00:00Z", "event": "opened", "detail": "{}"})]
    payloads = [
        '{"method":7}',
        "[]",
        '{"method":"x"}',
        '{"tokens":1e400}',
        "[" * 3000,
        '{"a":NaN}',
        '{"a":1,"a":2}',
    ]
    kinds = [
        "mcp/request",
        "mcp/proposal",
        "chat",
        "participant/status",
        "stream/open",
        "capability/grant",
        "system/welcome",
    ]
    for seq, (kind, payload) in enumerate(((k, p) for k in kinds for p in payloads), 1):
        head = f'{{"seq":{seq},"now":"2026-01-01T00:00:01Z","event":"received","participant":"bot","verdict":"accepted","envelope":'
        lines.append(f'{head}{{"id":"m{seq}","from":"bot","kind":"{kind}","payload":{payload}}}}}')
    lines += ["", '{"seq":', '{"seq":1e999,"now":"x","event":[]}', "\x00"]
    path = tmp_path / "hostile.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    log = open_log(path)
    for name in FRAMES:
        frame = log.frame(name)
        assert list(frame) == [column.name for column in FRAMES[name].columns]
    assert len(log.requests()) == 1, (
        "only the one whose payload names a method is a request that anybody acts on"
    )
    assert log.faults


def test_the_pairs_of_talk_come_in_the_order_of_the_addressees() -> None:
    names = [f"p{n}" for n in range(20)]
    log = log_of((0, message("chat", "human", "m", {"text": "hi"}) | {"to": [*names, "p3"]}))
    frame = log.frame("talk")
    assert frame["to"].tolist() == names and frame["messages"].tolist() == [1] * 20


def test_no_row_leads_back_to_itself() -> None:
    """A pass lets the collector of cycles run hardly ever, so rows in one would make its memory grow with the log."""
    ledger = LedgerPass(verdicts=True)
    for record in converse(1, 100, *FAULTS)[0]:
        ledger.observe(record)
    for rows in ledger.rows.values():
        assert rows
        for row in rows:
            seen, waiting = set[int](), gc.get_referents(row)
            while waiting:
                value = waiting.pop()
                assert value is not row, row
                if isinstance(value, LedgerRow | list) and id(value) not in seen:
                    seen.add(id(value))
                    waiting += gc.get_referents(value)
