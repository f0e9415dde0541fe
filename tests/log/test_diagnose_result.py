"""What a diagnosis looks like: its table, its text, its HTML, its columns, the command, and hostile logs."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.cli import main
from mew_lab.errors import ConfigError
from mew_lab.log.diagnose.diagnosis import RULES, Diagnosis, diagnose, judge_messages
from mew_lab.log.diagnose.findings import SEVERITIES
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record

from ..conftest import examples
from .planted import FAULTS, converse, denied
from .sessions import session
from .stage import Stage, observed

NOW = datetime(2026, 11, 21, 22, 40, 1, tzinfo=UTC)
unanswered = next(fault for fault in FAULTS if fault.__name__ == "unanswered")


def logged(records: list[Record]) -> Log:
    return observed(records, space="demo")


def test_an_empty_log_has_an_empty_table_with_the_right_columns() -> None:
    diagnosis = Log.live(space="demo").diagnose()
    assert len(diagnosis) == 0
    assert diagnosis.worst == ""
    assert list(diagnosis.df.columns) == [
        *("severity", "rule", "requirement", "sentence", "place", "seq", "time", "id", "related")
    ]
    assert str(diagnosis.df["time"].dtype) == "datetime64[us, UTC]"
    assert list(diagnosis.df["severity"].cat.categories) == list(SEVERITIES)
    assert repr(diagnosis) == "0 messages: nothing was found"


def test_a_finding_names_its_message_and_its_requirement() -> None:
    records, (expected,) = converse(3, 10, denied)
    (finding,) = logged(records).diagnose()
    record = records[finding.place - 1]
    assert (finding.seq, finding.time) == (record.seq, record.now)
    assert json.loads(record.raw or "")["id"] == expected.id == finding.id
    assert (finding.severity, finding.requirement) == ("warn", "S-SEC-3")
    assert finding.sentence == (
        f'eve may not send mcp/request {expected.id}: {{"kind":"mcp/request",…}} wants '
        'payload.params.arguments.path "/srv/**", got "/etc/passwd"'
    )


def test_the_nearest_miss_is_computed_where_a_peers_log_has_none() -> None:
    patterns = [{"kind": "chat"}, {"kind": "mcp/request"}]
    welcome = {"you": {"id": "bot", "capabilities": patterns}, "participants": []}
    members = {
        "id": "w",
        "from": "system:gateway",
        "to": ["bot"],
        "kind": "system/welcome",
        "payload": welcome,
    }
    detail = json.dumps({"envelope_id": "e-1", "required_capability": "chat/acknowledge"})
    refused = Record(
        2, NOW, "received", participant="bot", verdict="refused", code="capability_violation", detail=detail
    )
    sent = Record(1, NOW, "sent", participant="system:gateway", verdict="sent", raw=json.dumps(members))
    (finding,) = diagnose([sent, refused])
    assert finding.rule == "denied"
    assert finding.sentence.startswith("bot may not send chat/acknowledge e-1: no capability for kind")
    assert '"chat", "mcp/request"' in finding.sentence


def test_the_severity_narrows_and_a_wrong_one_is_named() -> None:
    log = logged([*converse(1, 5, unanswered)[0]])
    assert [finding.rule for finding in log.diagnose("warn")] == ["unanswered-request"]
    assert len(log.diagnose("error")) == 0
    with pytest.raises(ConfigError, match="there is no severity 'worse'; there are note, warn, error, fatal"):
        log.diagnose("worse")


def test_text_and_html_show_the_worst_first_and_escape_what_peers_wrote() -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e{0}{sender}"
    members = {"id": hostile, "from": hostile, "kind": "mcp/withdraw", "correlation_id": ["x"], "payload": {}}
    raw = json.dumps(members)
    records = [
        Record(1, NOW, "received", participant=hostile, verdict="accepted", raw=raw),
        Record(2, NOW, "received", participant="other", verdict="accepted", raw=raw),
    ]
    diagnosis = diagnose(records)
    assert diagnosis.worst == "fatal"
    assert repr(diagnosis).splitlines()[1].startswith("fatal")
    for text in (repr(diagnosis), diagnosis._repr_html_()):
        assert "\u202e" not in text
    assert "<img" not in diagnosis._repr_html_()
    assert "&lt;img" in diagnosis._repr_html_()


def test_the_columns_are_the_findings_about_messages() -> None:
    for at, fault in enumerate(FAULTS):
        records, _expected = converse(at, 8, fault)
        judgements, diagnosis = judge_messages(records)
        assert [*diagnosis] == [*diagnose(records)]
        found = [one for one in diagnosis if one.place]
        assert [one.place for one in judgements] == sorted({one.place for one in found})
        for place, severity, rules in judgements:
            here = [one for one in found if one.place == place]
            assert SEVERITIES.index(severity) == max(SEVERITIES.index(one.severity) for one in here)
            assert sorted(rules) == sorted({one.rule for one in here})


@pytest.mark.parametrize("damage", [b"", b"{broken\n", b'{"seq":9,"now":'])
@pytest.mark.slow
def test_the_diagnosis_that_an_index_keeps_is_that_of_the_records(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [record for at, fault in enumerate(FAULTS) for record in converse(at, 3, fault)[0]]
    whole = logged(records).save(tmp_path / "whole.jsonl").path.read_bytes() + damage
    half = whole[: whole.index(b"\n", len(whole) // 2) + 1]
    (tmp_path / "plain.jsonl").write_bytes(whole)
    path = tmp_path / "j.jsonl"
    path.write_bytes(half)
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)
    assert open_log(path).index.path is not None
    first = open_log(path).diagnose()
    path.write_bytes(whole)
    expected = open_log(tmp_path / "plain.jsonl", index=False).diagnose()
    assert len(expected) > len(first) > 0
    for _ in range(2):  # written, then read
        log = open_log(path)
        found = log.diagnose()
        assert [tuple(one)[3:] for one in found if one.place] == [
            tuple(one)[3:] for one in expected if one.place
        ]
        assert found.summary == expected.summary and found.counts == expected.counts
        assert len(found) == len(expected)
        assert list(found.df.columns) == list(expected.df.columns)
        assert (found.df.dtypes == expected.df.dtypes).all()
        assert [fault.partition(":")[2] for fault in log.faults] == [
            fault.partition(":")[2] for fault in open_log(tmp_path / "plain.jsonl", index=False).faults
        ]
        assert [*log.diagnose("error")] == [*found.at_least("error")]


def test_lines_that_cannot_be_read_are_findings(tmp_path: Path) -> None:
    records, _expected = converse(1, 5)
    path = logged(records).save(tmp_path / "whole.jsonl").path
    lines = path.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join([*lines[:4], b"{torn\n", *lines[4:]]))
    assert open_log(path).diagnose().counts == {}
    found = open_log(torn).diagnose()
    assert [(one.rule, one.severity, one.place) for one in found] == [("unreadable-lines", "error", 0)]
    assert found[0].sentence == f"the log is not complete: {open_log(torn).faults[0]}"


@pytest.mark.parametrize("ts", ["2026-11-21T22:40:01.soonZ", "yesterday"])
def test_a_time_that_is_none_is_found_even_in_the_second_of_its_record(ts: str) -> None:
    raw = json.dumps({"id": "m", "from": "a", "ts": ts, "kind": "chat", "payload": {"text": "hi"}})
    record = Record(1, NOW, "received", participant="a", verdict="accepted", raw=raw)
    assert [finding.rule for finding in diagnose([record])] == ["time-unreadable"]


def test_many_findings_of_a_rule_are_counted_and_not_kept() -> None:
    records = [
        Record(n, NOW, "received", participant="a", verdict="accepted", raw=f'{{"id":"m{n}","from":"a","kind":"mcp/reject"}}')
        for n in range(10_050)
    ]  # fmt: skip
    diagnosis = diagnose(records)
    assert len(diagnosis) == 10_000
    assert diagnosis.counts == {"reject-without-proposal": 10_050}
    assert "030 more findings" in repr(diagnosis).splitlines()[-1]  # 10,000 were kept, 20 are printed


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(25), deadline=None)
def test_no_session_of_a_space_is_fatal_however_hostile_its_participants_are(seed: int) -> None:
    stage = Stage()
    for event in session(stage.space, seed, 150):
        stage.play(event)
    diagnosis = diagnose(stage.records)
    assert diagnosis.worst != "fatal", list(diagnosis.at_least("fatal"))
    assert all(finding.rule in RULES for finding in diagnosis)


ODD = [None, True, -1, 1e400, "", "x" * 300, [], [[]], {}, {"a": {}}, "\ud800", "{0}", ["a", 7, None]]
KINDS = [
    *("mcp/request", "mcp/proposal", "mcp/response", "mcp/withdraw", "mcp/reject", "chat", "chat/cancel"),
    *("reasoning/start", "reasoning/thought", "reasoning/cancel", "stream/request", "stream/open"),
    *("stream/close", "capability/grant", "capability/grant-ack", "participant/status", "system/presence"),
    *("system/welcome", "participant/pause", "space/invite-ack", "odd", "", 7),
]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(50), deadline=None)
def test_a_hostile_log_is_diagnosed_without_an_exception(seed: int) -> None:
    dice = random.Random(seed)
    keys = ("id", "from", "to", "kind", "payload", "correlation_id", "context", "ts")
    inner = (
        "method",
        "params",
        "event",
        "participant",
        "stream_id",
        "you",
        "error",
        "result",
        "id",
        "recipient",
    )
    records = []
    for n in range(120):
        members = {
            key: dice.choice([*ODD, f"m{dice.randrange(9)}", ["m1"]]) for key in keys if dice.random() < 0.7
        }
        if dice.random() < 0.9:
            members["kind"] = dice.choice(KINDS)
        if dice.random() < 0.7:
            members["payload"] = {key: dice.choice(ODD) for key in inner if dice.random() < 0.5}
        texts = [json.dumps(members), "", "[" * 3000, "no json", '{"a":1,"a":2}', "\x00", None]
        raw = texts[0] if dice.random() < 0.8 else dice.choice(texts)
        patterns = ["", "{", '{"payload":{"a":"**/*"}}', '{"payload":{"**":"/x/*"}}', '{"payload":7}']
        records.append(
            Record(
                *(n, NOW, dice.choice(["received", "sent", "frame", "joined", "limited", "opened", "odd"])),
                participant=dice.choice(["a", "system:gateway", ""]),
                verdict=dice.choice(["accepted", "sent", "refused", ""]),
                code=dice.choice(["", "capability_violation", "unauthorized_stream_write", "paused"]),
                pattern=dice.choice(patterns),
                detail=dice.choice(["", "{", '{"stream_id":[]}', '{"size":1}', "x" * 5000]),
                raw=raw,
            )
        )
    assert isinstance(diagnose(records), Diagnosis)


def test_the_command_prints_and_ends_with_1_for_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = str(logged(converse(1, 5)[0]).save(tmp_path / "clean.jsonl").path)
    records, (expected,) = converse(1, 5, unanswered)
    faulty = str(logged(records).save(tmp_path / "faulty.jsonl").path)
    assert main(["diagnose", clean]) == 0
    assert capsys.readouterr().out.endswith("messages: nothing was found\n")
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", faulty])
    assert ended.value.code == 1
    summary, line = capsys.readouterr().out.splitlines()
    assert summary.endswith("messages: 1 warn")
    assert "unanswered-request: anna's request " + expected.id in line
    with pytest.raises(SystemExit) as ended:  # what is not printed counts too
        main(["diagnose", faulty, "--severity", "error", "--json"])
    assert ended.value.code == 1
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        main(["diagnose", faulty, "--json"])
    assert json.loads(capsys.readouterr().out)["rule"] == "unanswered-request"
    assert main(["diagnose", str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl" in capsys.readouterr().err
