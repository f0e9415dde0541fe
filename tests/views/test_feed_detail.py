"""What a row tells when it is opened, from a real log of rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mew_lab.lab.rows import Rows
from mew_lab.space.events import Record
from mew_lab.views.feed.detail import detail, why

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATTERN = '{"kind":"mcp/request","payload":{"method":"tools/*"}}'


def rows_of(*records: Record) -> Rows:
    rows = Rows(lambda: ("demo", 3))
    for record in records:
        rows.observe(record)
    return rows


def record(n: int, *, verdict: str = "accepted", code: str = "", pattern: str = "", **members: Any) -> Record:
    text = json.dumps({"id": f"m{n}", "from": "bot", "kind": "mcp/request", **members})
    now = NOW + timedelta(seconds=n)
    return Record(n, now, "received", "demo", "bot", verdict=verdict, code=code, pattern=pattern, raw=text)


def test_an_opened_row_has_its_text_twice_its_verdict_and_its_chain() -> None:
    rows = rows_of(
        record(1, kind="mcp/proposal"),
        record(2, pattern=PATTERN, correlation_id=["m1"]),
        record(3, kind="mcp/response", correlation_id=["m2"]),
    )
    shown = detail(rows, 2, whole=False)
    assert shown["text"] == rows.raw(2)
    assert json.loads(shown["pretty"]) == json.loads(rows.raw(2)) and "\n" in shown["pretty"]
    assert (shown["more"], shown["left"], shown["absent"]) == (0, 0, 0)
    assert shown["pattern"] == PATTERN and "bot has a permission" in shown["why"]
    [cause], [effect] = shown["causes"], shown["effects"]
    assert cause == [1, NOW.timestamp() + 1, "bot", "mcp/proposal", rows.since(0, 1)[0].what, []]
    assert effect[0] == 3 and effect[5] == [2]


def test_a_refusal_says_what_the_gateway_said_and_what_came_nearest() -> None:
    nearest = 'no capability for kind "mcp/request"; held are "chat"'
    error = {"error": "capability_violation", "message": "Participant bot lacks capability for mcp/request"}
    rows = rows_of(
        record(1, verdict="refused", code="capability_violation", pattern=nearest),
        record(2, verdict="sent", kind="system/error", correlation_id=["m1"], payload=error),
    )
    sentence, pattern = why(rows, rows.since(0, 1)[0])
    assert sentence == (
        "Refused: capability_violation. Participant bot has no permission for mcp/request "
        'Nearest: no permission for kind "mcp/request"; held are "chat".'
    )
    assert pattern == ""


def test_who_cannot_know_says_so() -> None:
    rows = rows_of(record(1, verdict=""), record(2, verdict="sent"), record(3))
    said = [why(rows, row)[0] for row in rows.since(0, 9)]
    assert "no gateway recorded this log" in said[0] and "gateway itself" in said[1]
    assert said[2] == "Accepted by the gateway."


def test_long_texts_are_cut_until_the_whole_is_wanted() -> None:
    rows = rows_of(record(1, payload={"text": "x" * 100_000}))
    shown = detail(rows, 1, whole=False)
    assert len(shown["text"]) == 65_536 and shown["more"] == len(rows.raw(1)) - 65_536
    assert len(shown["pretty"]) < 200_000
    assert detail(rows, 1, whole=True)["text"] == rows.raw(1)


def test_what_is_laid_out_is_bounded_whatever_is_wanted() -> None:
    rows = rows_of(record(1, payload={"numbers": [1] * 200_000}))
    shown = detail(rows, 1, whole=True)
    assert shown["text"] == rows.raw(1) and shown["more"] == 0
    assert len(shown["pretty"]) < 301_000 and shown["pretty"].endswith("…")


def test_a_row_that_is_not_held_says_where_it_is() -> None:
    shown = detail(rows_of(), 7, whole=False)
    assert "lab.log.df has it" in shown["text"] and shown["why"] == "" and shown["causes"] == []


@pytest.mark.threat(17)
def test_what_cannot_be_seen_is_an_escape_everywhere() -> None:
    hidden = "a\u202eb"
    members = {"from": hidden, "kind": hidden, "payload": {hidden: hidden}}
    first = Record(1, NOW, "received", "demo", "bot", verdict="refused", code=hidden, pattern=hidden)
    rows = rows_of(
        first._replace(raw=json.dumps({"id": "m1", **members}, ensure_ascii=False)),
        record(2, correlation_id=["m1"], **members),
        record(3, kind="system/error", correlation_id=["m1"], payload={"message": hidden}),
    )
    shown = json.dumps(detail(rows, 1, whole=True), ensure_ascii=False)
    assert "\u202e" not in shown and shown.count("a\\\\u202eb") >= 10
