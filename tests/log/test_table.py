"""The table: one row an envelope in the order received, every value what the text says."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.log.reading import read_journal
from mew_lab.log.table import CHUNK, COLUMNS, SHARED, Column, to_frame
from mew_lab.space.events import Record

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)
CALL = {
    "protocol": "mew/v0.4",
    "id": "m-2",
    "ts": "2026-11-21T22:40:01Z",
    "from": "bot",
    "to": ["git", "fs"],
    "kind": "mcp/request",
    "correlation_id": ["m-1"],
    "context": "a/b",
    "payload": {"method": "tools/call", "params": {"name": "git_log", "arguments": {"n": 3}}},
    "x-more": [1],
}


def record(members: Any = CALL, seq: int = 1, **fields: Any) -> Record:
    raw = members if isinstance(members, str) else json.dumps(members)
    return Record(seq, NOW, "received", "demo", raw=raw, **fields)


@pytest.mark.req("P-3-1")
def test_a_row_says_what_the_envelope_says() -> None:
    sent = record(
        participant="bot",
        connection="c1",
        via="memory",
        verdict="accepted",
        pattern='{"kind":"*"}',
        grant="g-1",
    )
    frame = to_frame([sent])
    assert list(frame.columns) == [column.name for column in COLUMNS]
    row = frame.iloc[0].to_dict()
    assert row.pop("what")
    assert row == {
        "place": 1,
        "seq": 1,
        "time": NOW,
        "event": "received",
        "from": "bot",
        "to": ("git", "fs"),
        "kind": "mcp/request",
        "context": "a/b",
        "correlation_id": ("m-1",),
        "verdict": "accepted",
        "code": "",
        "pattern": '{"kind":"*"}',
        "grant": "g-1",
        "id": "m-2",
        "ts": "2026-11-21T22:40:01Z",
        "method": "tools/call",
        "tool": "git_log",
        "participant": "bot",
        "connection": "c1",
        "via": "memory",
        "receivers": (),
        "deliveries": 0,
        "detail": "",
        "size": len(json.dumps(CALL)),
        "payload": CALL["payload"],
        "raw": json.dumps(CALL),
    }


def test_types_are_the_same_with_and_without_rows() -> None:
    expected = dict.fromkeys(["place", "seq", "size", "deliveries"], "int64")
    expected |= dict.fromkeys(["id", "ts", "context"], "str") | dict.fromkeys(["what", "raw"], "mew_text")
    expected |= {"time": "datetime64[us, UTC]", "payload": "mew_payload"}
    for frame in (to_frame([]), to_frame([record()])):
        for name, dtype in frame.dtypes.items():
            assert str(dtype) == expected.get(str(name), "object"), name
    assert to_frame([]).empty


def test_only_messages_have_rows_unless_events_are_asked_for() -> None:
    records = [Record(1, NOW, "joined", "demo", "bot", detail="bot-1"), record(seq=2)]
    assert list(to_frame(records)["seq"]) == [2]
    frame = to_frame(records, events=True)
    assert list(frame["event"]) == ["joined", "received"]
    first = frame.iloc[0]
    assert (first["kind"], first["detail"], first["size"], first["payload"]) == ("", "bot-1", 0, None)


@pytest.mark.threat(33)
def test_rows_stand_in_the_order_received_whatever_senders_claim() -> None:
    claims = [NOW + timedelta(days=3650), NOW - timedelta(days=3650), NOW]
    records = [
        Record(n, NOW + timedelta(seconds=n), "received", raw=json.dumps({**CALL, "ts": ts.isoformat()}))
        for n, ts in enumerate(claims)
    ]
    frame = to_frame(records)
    assert list(frame["ts"]) == [ts.isoformat() for ts in claims]
    assert list(frame["seq"]) == [0, 1, 2]
    assert frame["time"].is_monotonic_increasing
    assert frame["time"].dt.year.unique().tolist() == [2026]


def test_more_rows_than_one_part_stand_in_order() -> None:
    count = CHUNK + 130
    frame = to_frame(record({"kind": "chat", "id": f"m-{n}"}, seq=n) for n in range(count))
    assert list(frame["seq"]) == list(range(count))
    assert list(frame["id"]) == [f"m-{n}" for n in range(count)]
    assert count > SHARED  # more ids than are looked up for sharing


def test_equal_texts_are_kept_once() -> None:
    frame = to_frame([record(), record()])
    for name in ("from", "kind", "to"):
        assert frame[name][0] is frame[name][1], name


def test_a_list_of_columns_of_your_own_is_as_good() -> None:
    columns = [
        Column("words", "int64", "words of a chat", lambda e: len(e.payload.get("text", "").split())),
        Column("more", "object", "unknown members are kept", lambda e: e.members["x-more"]),
        Column("half", "float64", "", lambda e: e.record.seq / 2),
    ]
    frame = to_frame([record({**CALL, "payload": {"text": "one two"}})], columns)
    assert frame.to_dict("records") == [{"words": 2, "more": [1], "half": 0.5}]
    assert to_frame([record()], []).empty


@pytest.mark.trap("T-27")
def test_a_payload_is_a_dict_with_exact_numbers() -> None:
    raw = '{"kind":"chat","payload":{"n":123456789012345678901234567890,"f":1.5,"new":{"é":null}}}'
    (payload,) = to_frame([record(raw)])["payload"]
    assert type(payload) is dict
    assert payload == {"n": 123456789012345678901234567890, "f": 1.5, "new": {"é": None}}


def test_a_refused_text_that_is_no_envelope_has_a_row() -> None:
    frame = to_frame([record("{broken", verdict="refused", code="invalid_json", participant="bot")])
    row = frame.iloc[0]
    assert (row["kind"], row["from"], row["participant"], row["code"]) == ("", "", "bot", "invalid_json")
    assert (row["raw"], row["payload"], row["to"]) == ("{broken", {}, ())


def test_size_counts_bytes() -> None:
    raws = ['{"kind":"é"}', '{"kind":"e"}', "\ud800"]
    assert list(to_frame([record(raw) for raw in raws])["size"]) == [13, 12, 3]


def test_lone_correlation_ids_and_addressees_are_tuples_of_one() -> None:
    row = to_frame([record({"kind": "chat", "to": "git", "correlation_id": "m-1"})]).iloc[0]
    assert (row["to"], row["correlation_id"]) == (("git",), ("m-1",))


@pytest.mark.threat(32)
@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "from", "to", "kind", "ts", "context", "correlation_id", "payload"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["method", "params", "name", "tools/call"]), inner)
            ),
        ),
    )
)
def test_members_of_any_type_make_a_row(members: dict[str, Any]) -> None:
    frame = to_frame([record(members)])
    row = frame.iloc[0]
    for name in ("from", "kind", "id", "ts", "context", "method", "tool", "what"):
        assert type(row[name]) is str, name
    assert all(type(one) is str for one in (*row["to"], *row["correlation_id"]))
    assert type(row["payload"]) is dict
    assert "raw" in repr(frame)


def test_a_table_can_be_filtered_grouped_joined_and_written(tmp_path: Path) -> None:
    frame = to_frame(
        [record({**CALL, "kind": kind}, seq=n) for n, kind in enumerate(["chat", "mcp/request"] * 3)]
    )
    assert list(frame[frame["kind"].str.startswith("mcp/")]["seq"]) == [1, 3, 5]
    assert frame.groupby("kind").size().to_dict() == {"chat": 3, "mcp/request": 3}
    assert list(frame.sort_values("seq", ascending=False)["seq"]) == [5, 4, 3, 2, 1, 0]
    assert len(frame.merge(frame, on="seq")) == 6
    frame.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().count("git_log") >= 6
    assert json.loads(frame.to_json(orient="records", date_format="iso"))[0]["payload"] == CALL["payload"]


@pytest.mark.trap("T-17")
def test_pandas_is_loaded_by_the_first_table_and_not_before() -> None:
    code = (
        "import sys, mew_lab.log.log, mew_lab.log.table as t\n"
        "assert 'pandas' not in sys.modules and 'numpy' not in sys.modules\n"
        "t.to_frame([])\n"
        "assert 'pandas' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_recorded_session_is_a_table(shared: Path) -> None:
    frame = to_frame(read_journal(shared / "captures" / "3-proposals" / "envelope-history.jsonl"))
    calls = frame[frame["kind"] == "mcp/proposal"]
    assert len(calls) == 3
    assert set(calls["method"]) == {"tools/call"}
    assert (calls["tool"] != "").all()
    assert [json.loads(raw)["payload"] for raw in frame["raw"]] == list(frame["payload"])
