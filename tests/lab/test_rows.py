"""Rows for the feed: every message once, in order, and only the newest kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mew_lab.lab.rows import Rows
from mew_lab.space.events import Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(n: int, **members: object) -> Record:
    text = json.dumps(
        {"id": f"m{n}", "from": "bot", "kind": "chat", "payload": {"text": f"no. {n}"}, **members}
    )
    return Record(n, NOW, "received", "demo", "bot", verdict="accepted", pattern='{"kind":"chat"}', raw=text)


def some_rows(count: int, capacity: int = 100) -> Rows:
    rows = Rows(lambda: ("demo", 3), capacity=capacity)
    for n in range(1, count + 1):
        rows.observe(record(n))
    return rows


def test_a_row_says_what_the_envelope_says() -> None:
    rows = some_rows(1)
    rows.observe(record(2, to=["git"], correlation_id=["m1"], context="c/1"))
    first, second = rows.since(0, 10)
    assert (first.seq, first.sender, first.to, first.kind, first.id) == (1, "bot", (), "chat", "m1")
    assert (second.to, second.context, second.correlates) == (("git",), "c/1", 1)
    assert (first.t, first.verdict, first.code) == (NOW.timestamp(), "accepted", "chat")
    assert "no. 1" in first.what and first.size == len(rows.raw(1).encode())
    assert rows.title() == ("demo", 3)


def test_all_rows_that_a_message_names_are_known() -> None:
    rows = some_rows(3)
    rows.observe(record(4, correlation_id=["m3", "m1", "gone", "m2", 5, "m1"]))
    rows.observe(record(5, correlation_id=["gone", "m4"]))
    rows.observe(record(6, correlation_id="m4"))
    several, second, wrapped = rows.since(3, 3)
    assert (several.correlates, several.also) == (3, (1, 2))
    assert (second.correlates, second.also) == (0, (4,))
    assert (wrapped.correlates, wrapped.also) == (4, ())


def test_the_whole_pattern_can_be_had() -> None:
    rows = some_rows(1)
    assert rows.pattern(1) == '{"kind":"chat"}'
    assert rows.pattern(0) == rows.pattern(2) == ""


def test_the_pattern_that_decided_is_named_in_a_word() -> None:
    rows = some_rows(0)
    for pattern in ('{"kind":["mcp/request","chat"]}', '{"kind":"mcp/*","payload":{"method":"tools/*"}}', ""):
        rows.observe(record(1)._replace(pattern=pattern))
    assert [row.code for row in rows.since(0, 9)] == ["mcp/request|chat", "mcp/*(…)", ""]


def test_what_is_no_message_is_no_row() -> None:
    rows = some_rows(1)
    rows.observe(Record(2, NOW, "joined", "demo", "bot"))
    assert rows.last_seq == 1


def test_a_refused_and_unreadable_text_is_a_row_too() -> None:
    rows = some_rows(0)
    for text in ("not json", "[1]", "[" * 100_000):
        rows.observe(
            Record(1, NOW, "received", "demo", "bot", verdict="refused", code="invalid_json", raw=text)
        )
    assert [(row.sender, row.kind, row.code) for row in rows.since(0, 10)] == [
        ("bot", "", "invalid_json")
    ] * 3


def test_wrong_types_in_a_message_do_no_harm() -> None:
    rows = some_rows(0)
    rows.observe(record(1, to="x", correlation_id=[5], kind=7, payload=[], context=[]))
    [row] = rows.since(0, 1)
    assert (row.to, row.kind, row.correlates, row.context) == ((), "", 0, "")


def test_only_the_newest_are_kept_and_numbers_go_on() -> None:
    rows = some_rows(1000, capacity=100)
    assert rows.last_seq == 1000
    kept = rows.since(0, 10_000)
    assert 100 <= len(kept) <= 201 and kept[-1].seq == 1000
    assert [row.seq for row in kept] == list(range(kept[0].seq, 1001))
    assert rows.raw(1000) != "" and rows.raw(1) == "" and rows.raw(1001) == "" and rows.raw(0) == ""
    assert [row.seq for row in rows.since(998, 1)] == [999]


def test_subscribers_are_told_until_they_end_it() -> None:
    rows, heard = some_rows(0), []
    end = rows.subscribe(lambda: heard.append(rows.last_seq))
    rows.observe(record(1))
    end()
    end()
    rows.observe(record(2))
    assert heard == [1]


def test_integers_of_any_size_are_told_exactly() -> None:
    rows = some_rows(0)
    big = 2**64 + 1
    for payload in ({"tokens": big}, {"status": "x" * 300, "tokens": big}):
        rows.observe(record(1, kind="participant/status", payload=payload))
    call = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": -big, "b": [big, 1.5e300]}}}
    rows.observe(record(2, kind="mcp/request", payload=call))
    for row in rows.since(0, 3):
        assert "e+19" not in row.what
    assert rows.since(0, 1)[0].what == f"{big} tokens"
    assert f"a=-{big}, b=[{big},1.5e+300]" in rows.since(2, 1)[0].what


@pytest.mark.threat(12)
def test_an_id_means_the_first_message_that_was_let_through_with_it() -> None:
    rows = some_rows(1)
    refused = {"verdict": "refused", "code": "duplicate_id"}
    rows.observe(record(1, **{"from": "eve"}))
    rows.observe(record(1, **{"from": "eve"})._replace(**refused))
    rows.observe(record(5, correlation_id=["m1"]))
    assert rows.since(3, 1)[0].correlates == 1
    rows.observe(record(6)._replace(**refused))
    rows.observe(record(7, correlation_id=["m6"]))
    rows.observe(record(6))
    rows.observe(record(8, correlation_id=["m6"]))
    assert [row.correlates for row in rows.since(5, 4)] == [0, 6, 0, 8]


@pytest.mark.threat(10)
def test_what_a_refused_message_says_of_its_author_is_not_believed() -> None:
    rows = some_rows(0)
    forged = record(1, **{"from": "alice"})
    refused = forged._replace(participant="eve", verdict="refused", code="identity_mismatch")
    rows.observe(refused)
    rows.observe(refused._replace(runtime_id="eve-2"))
    assert [row.sender for row in rows.since(0, 2)] == ["eve", "eve-2"]


@pytest.mark.threat(9)
def test_large_messages_are_kept_by_their_size() -> None:
    rows = Rows(lambda: ("demo", 3), max_characters=100_000)
    for n in range(1, 101):
        rows.observe(record(n, payload={"text": "x" * 9_900}, correlation_id=[f"m{n - 1}"]))
        held = rows.since(0, 1000)
        assert sum(row.size for row in held) <= 110_000 and held[-1].seq == n == rows.last_seq
    assert held[-1].correlates == 99 and [row.seq for row in held] == list(range(held[0].seq, 101))
    assert len(held) >= 4 and rows.raw(held[0].seq) and not rows.raw(held[0].seq - 1)
    rows.observe(record(101, payload={"text": "x" * 300_000}))
    assert [row.seq for row in rows.since(0, 1000)] == [101]


def test_a_row_reads_the_same_whether_its_members_are_still_held_or_its_text_is_read_again() -> None:
    hostile = [
        {"kind": "chat", "payload": {"n": 10**30}},
        {"kind": "x/y", "payload": [1, {"a": None}]},
        {"kind": "chat", "payload": {"text": "long " * 2000}},
        {"kind": 5, "to": "bot", "correlation_id": 3},
    ]
    rows = Rows(lambda: ("demo", 3), capacity=10_000)
    for n in range(1, 1501):
        rows.observe(record(n, **hostile[n % 4]))
    late = rows.since(0, 2000)
    for n in range(1, 1501, 100):
        fresh = Rows(lambda: ("demo", 3))
        fresh.observe(record(n, **hostile[n % 4]))
        (row,) = fresh.since(0, 1)
        assert row[1:] == late[n - 1][1:]


def call(n: int, kind: str, payload: dict[str, object], **members: object) -> Record:
    return record(n, kind=kind, payload=payload, **members)


def test_plumbing_is_what_keeps_a_space_running_and_no_error_denial_or_proposal() -> None:
    lists = {"method": "tools/list"}
    messages: list[tuple[str, dict[str, object], bool]] = [
        ("system/welcome", {}, True),
        ("system/presence", {"event": "join"}, True),
        ("participant/status", {"tokens": 3}, True),
        ("participant/status", {"status": "crashed"}, False),
        ("participant/request-status", {}, True),
        ("chat/acknowledge", {"status": "received"}, True),
        ("capability/grant-ack", {"status": "accepted"}, True),
        ("capability/grant-ack", {"status": "rejected"}, False),
        ("space/invite-ack", {"status": "error"}, False),
        ("mcp/request", lists, True),
        ("mcp/request", {"method": "resources/list"}, True),
        ("mcp/request", {"method": "prompts/list"}, True),
        ("mcp/request", {"method": "completion/complete"}, True),
        ("mcp/request", {"method": ["tools/list"]}, False),
        ("mcp/request", {"method": "tools/call", "params": {"name": "x"}}, False),
        ("mcp/proposal", lists, False),
        ("system/error", {"error": "x"}, False),
        ("chat", {"text": "tools/list"}, False),
        ("participant/pause", {}, False),
    ]
    rows = some_rows(0)
    for n, (kind, payload, _) in enumerate(messages):
        rows.observe(call(n, kind, payload))
    assert [row.plumbing for row in rows.since(0, 99)] == [hidden for *_, hidden in messages]
    for n, (kind, payload, _) in enumerate(messages):
        rows.observe(call(100 + n, kind, payload)._replace(verdict="refused"))
    assert not any(row.plumbing for row in rows.since(len(messages), 99))


def test_an_answer_is_plumbing_where_its_request_is_and_it_is_no_error() -> None:
    rows = some_rows(0)
    rows.observe(call(1, "mcp/request", {"method": "tools/list"}))
    rows.observe(call(2, "mcp/response", {"result": {"tools": []}}, correlation_id=["m1"]))
    rows.observe(call(3, "mcp/response", {"error": {"code": -1, "message": "no"}}, correlation_id=["m1"]))
    rows.observe(call(4, "mcp/response", {"result": {"tools": []}}))
    rows.observe(call(5, "mcp/response", {"error": {"code": -1}}, correlation_id=["m1"]))
    rows.observe(call(6, "mcp/response", {}, correlation_id=["m1"]))
    assert [(row.plumbing, row.failed) for row in rows.since(0, 9)] == [
        (True, False),
        (True, False),
        (False, True),
        (False, False),
        (False, False),  # no correct answer: neither hidden nor a failure
        (False, False),
    ]


def test_a_row_names_the_tool_that_is_called_or_answers() -> None:
    rows = some_rows(0)
    moisture = {"method": "tools/call", "params": {"name": "moisture", "arguments": {"bed": "east"}}}
    rows.observe(call(1, "mcp/proposal", moisture))
    rows.observe(call(2, "mcp/request", moisture, correlation_id=["m1"]))
    broken = {"result": {"isError": True, "content": [{"type": "text", "text": "KeyError: 'east'"}]}}
    rows.observe(call(3, "mcp/response", broken, correlation_id=["m2"]))
    rows.observe(call(4, "mcp/request", {"method": "tools/call", "params": {"name": 7}}))
    found = rows.since(0, 9)
    assert [row.tool for row in found] == ["moisture"] * 3 + [""]
    assert [row.failed for row in found] == [False, False, True, False]
    assert found[2].what == "moisture failed: “KeyError: 'east'”"
    assert found[0].what == 'Wants to run moisture(bed="east")'
