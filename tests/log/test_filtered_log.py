"""`Log.filter` over a file, over a live log, and the completion of a filter."""

from __future__ import annotations

from pathlib import Path

import pytest

import mew_lab
from mew_lab.errors import FilterError
from mew_lab.log.filter.complete import FilterSamples, complete_filter, write_value
from mew_lab.log.filter.grammar import parse_filter
from mew_lab.log.log import Log, open_log
from mew_lab.space.events import Record
from tests.log.filter_table import passing, record
from tests.log.stage import keep, observed
from tests.log.test_filter import RECORDS, call


def request(seq: int, id: str, sender: str, to: str, t: float, tool: str = "x") -> Record:
    envelope = {"protocol": "mew/v0.4", "id": id, "from": sender, "to": [to], "kind": "mcp/request"}
    payload = {"jsonrpc": "2.0", "id": 1, **call(tool, {})}
    return record(seq, envelope | {"payload": payload}, t=t)


def answer(seq: int, id: str, of: str, sender: str, to: str, t: float) -> Record:
    envelope = {"protocol": "mew/v0.4", "id": id, "from": sender, "to": [to], "kind": "mcp/response"}
    payload = {"jsonrpc": "2.0", "id": 1, "result": {}}
    return record(seq, envelope | {"correlation_id": [of], "payload": payload}, t=t)


# Request r1 is answered after 3 s, r2 after 0.5 s, r3 never.
SESSION = [
    record(1, None, t=0),
    request(2, "r1", "agent", "git", 10, "slow"),
    request(3, "r2", "agent", "git", 11, "fast"),
    answer(4, "a2", "r2", "git", "agent", 11.5),
    answer(5, "a1", "r1", "git", "agent", 13),
    request(6, "r3", "agent", "git", 100, "dead"),
]


@pytest.fixture(params=["file", "live"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    if request.param == "file":
        keep(SESSION, tmp_path / "j.jsonl", space="demo")
        return open_log(tmp_path / "j.jsonl")
    return observed(SESSION)


def test_a_filtered_log_is_read_like_the_log(log: Log) -> None:
    filtered = log.filter('kind ~ "mcp/*" and from == agent')
    assert len(filtered) == 3
    assert list(filtered.df["seq"]) == [2, 3, 6]
    assert set(filtered.df["place"]) < set(log.df["place"])
    assert list(log.df.set_index("place").loc[list(filtered.df["place"]), "seq"]) == [2, 3, 6]
    assert list(filtered.df.columns) == list(log.df.columns)
    assert [members["id"] for members in filtered] == ["r1", "r2", "r3"]
    assert repr(filtered) == '<FilteredLog: 3 messages with kind ~ "mcp/*" and from == agent>'
    assert list(filtered.filter("tool == slow or tool == dead").df["seq"]) == [2, 6]
    assert len(log.filter("")) == 5 and len(log.filter("").filter("r1")) == 2
    empty = log.filter("nothing_like_it").df
    assert len(empty) == 0 and list(empty.columns) == list(log.df.columns)


def test_states_and_latencies_are_those_of_the_ledger(log: Log) -> None:
    assert list(log.filter("latency > 2s").df["seq"]) == [2]
    assert list(log.filter("latency == 500ms").df["seq"]) == [3]
    assert list(log.filter("state == waiting").df["seq"]) == [6]
    assert list(log.filter("state == answered and latency < 1").df["seq"]) == [3]


def test_events_without_a_message_are_selected_for_a_table_that_shows_them(log: Log) -> None:
    assert 1 in set(log.filter("not kind exists").table(events=True)["seq"])
    assert list(log.filter("not kind exists").df["seq"]) == []


def test_times_of_a_file_count_from_its_last_record(tmp_path: Path) -> None:
    keep(SESSION, tmp_path / "j.jsonl", space="demo")
    log = open_log(tmp_path / "j.jsonl")
    assert list(log.filter("time > -88s").df["seq"]) == [5, 6]
    assert list(log.filter("since:1m").df["seq"]) == [6]
    assert list(log.filter("time 12:00:11..12:01").df["seq"]) == [3, 4, 5]


def test_a_live_log_is_read_up_to_now() -> None:
    log = Log.live()
    filtered = log.filter("from == agent")
    assert len(filtered) == 0
    log.observe(SESSION[1])
    assert len(filtered) == 1
    assert list(log.filter("time > -1h")) == []  # the messages are from March


def test_an_error_of_a_filter_comes_at_once(log: Log) -> None:
    with pytest.raises(FilterError, match="did you mean kind"):
        log.filter("knid == chat")
    with pytest.raises(FilterError) as caught:
        log.filter("from == agent").filter("knid == chat")
    assert caught.value.filter == "knid == chat"


@pytest.mark.parametrize("severity", ["note", "warn", "error", "fatal"])
def test_a_filter_reads_what_the_diagnosis_found(severity: str) -> None:
    log = open_log(Path(mew_lab.__file__).parent / "data/garden.jsonl")
    findings = log.diagnose(severity).df
    assert severity != "note" or {"denied", "foreign-withdraw"} <= {*findings.rule}

    def select(text: str) -> list[int]:
        return list(log.filter(text).df.place)

    assert select(f"diag.severity >= {severity}") == sorted({*findings.place} - {0})
    for rule in {*findings.rule}:
        assert select(f'diag.rule == "{rule}"') == sorted({*findings.place[findings.rule == rule]} - {0})


# --- completion ---

SAMPLES = FilterSamples(RECORDS)

COMPLETED = [
    ("ki", "ki", ["kind"]),
    ("kind ", "", ["==", "!=", "~", "!~", "=~", "in", "has", "exists"]),
    ("seq ", "", ["==", "!=", "<", "<=", ">", ">=", "in", "exists"]),
    ("kind =", "=", ["==", "=~"]),
    ("from == h", "h", ["human", "helper"]),
    ('from == "h', '"h', ['"human"', '"helper"']),
    ("from in (agent, h", "h", ["human", "helper"]),
    ("chat from:ag", "ag", ["agent"]),
    ("-to:g", "g", ["git"]),
    ("payload.params.n", "payload.params.n", ["payload.params.name"]),
    ("payload.params.name == w", "w", ["write_file"]),
    ("payload.params.arguments.mode == ", "", ["1"]),
    ("diag.severity >= ", "", ["note", "warn", "error", "fatal"]),
    ("diag.rule == foreign", "foreign", ["foreign-withdraw", "foreign-conclusion", "foreign-stream-open"]),
    ("decided_by == h", "h", ["human", "helper"]),
    ("time > ", "", ["-5m", "-1h", "-1d", "12:30"]),
    ("kind == chat an", "an", ["and"]),
    ("verdict == ref", "ref", ["refused"]),
    ("nothing == x", "x", []),
    ('"two wor', "", []),
]


@pytest.mark.parametrize(("text", "fragment", "meant"), COMPLETED)
def test_fields_operators_and_values_complete_a_filter(text: str, fragment: str, meant: list[str]) -> None:
    found = complete_filter(text, SAMPLES)
    assert found.fragment == fragment
    assert [each.text for each in found.completions] == meant


def test_each_completed_value_is_a_filter_that_finds_its_messages() -> None:
    odd = [
        "plain",
        "two words",
        'q"t',
        "1",
        "1.0",
        "true",
        "a..b",
        "a,b",
        "x(y)",
        "back\\slash",
        "\u202ehidden",
        "é",
        "==",
    ]
    records = [record(n, {"kind": "x", "from": "a", "payload": {"v": value}}) for n, value in enumerate(odd)]
    records.append(record(99, {"kind": "x", "from": "a", "payload": {"v": 1}}))
    values = {each.text for each in complete_filter("payload.v == ", FilterSamples(records)).completions}
    assert len(values) == len(odd) + 1
    for n, value in enumerate(odd):
        assert write_value(value) in values
        found = passing(records, parse_filter(f"payload.v == {write_value(value)}"))
        assert [each.seq for _, each in found] == [n], value


def test_what_passes_is_copied_elsewhere_as_a_selection_of_it_would_be(log: Log, tmp_path: Path) -> None:
    filtered, chosen = log.filter("from == agent and seq < 6"), log.select("r1", "r2")
    for form in ("jsonl", "markdown", "mermaid", "python"):
        assert getattr(filtered, f"to_{form}")() == getattr(chosen, f"to_{form}")()
    (tmp_path / "some.jsonl").write_text(filtered.to_jsonl())
    assert [message["id"] for message in open_log(tmp_path / "some.jsonl")] == ["r1", "r2"]
    assert "3 messages" not in filtered.to_markdown(most=300) and "left out" in log.filter("").to_markdown(
        most=300
    )
    assert log.filter("from == nobody").to_mermaid() == "sequenceDiagram\n"
