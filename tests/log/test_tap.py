"""The records of a tap: one for each JSON-RPC message, whatever the pieces; nothing is lost without a record."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mew_lab.log.journal import Journal
from mew_lab.log.line import read_line, write_line
from mew_lab.log.log import open_log
from mew_lab.log.tap import MASKED, MAX_MESSAGE, TapRecorder, mask_secrets
from mew_lab.space.events import Record

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def recorder() -> TapRecorder:
    return TapRecorder(space="tap", prefix="t", via="stdio")


def envelope(record: Record) -> dict[str, Any]:
    assert record.raw is not None
    members: dict[str, Any] = json.loads(record.raw)
    return members


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def test_a_request_its_answer_and_notifications_are_related() -> None:
    tap = recorder()
    call = {"name": "now", "_meta": {"progressToken": "p"}}
    (ask,) = tap.feed("client", line(id=1, method="tools/call", params=call), NOW)
    told = {"progressToken": "p", "progress": 0.5}
    (step,) = tap.feed("server", line(method="notifications/progress", params=told), NOW)
    (stop,) = tap.feed("client", line(method="notifications/cancelled", params={"requestId": 1}), NOW)
    (answer,) = tap.feed("server", line(id=1, result={"content": []}), NOW)
    assert envelope(ask) == {
        "protocol": "mew/v0.4",
        "id": "t-1",
        "ts": "2026-01-02T03:04:05.000Z",
        "from": "client",
        "to": ["server"],
        "kind": "mcp/request",
        "payload": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
    }
    assert [envelope(record)["kind"] for record in (step, stop, answer)] == [
        "mcp/request",
        "mcp/request",
        "mcp/response",
    ]
    assert all(envelope(record)["correlation_id"] == ["t-1"] for record in (step, stop, answer))
    assert {record.verdict for record in (ask, step, stop, answer)} == {""}


def test_ids_of_both_sides_and_of_other_types_are_told_apart() -> None:
    tap = recorder()
    asked = [
        *tap.feed("client", line(id=1, method="a") + line(id="1", method="b"), NOW),
        *tap.feed("server", line(id=1, method="c"), NOW),
    ]
    assert [envelope(record)["id"] for record in asked] == ["t-1", "t-2", "t-3"]
    answers = [
        *tap.feed("server", line(id="1", result=0) + line(id=1, error={"code": 1, "message": "no"}), NOW),
        *tap.feed("client", line(id=1, result=0) + line(id=1, result=0), NOW),
    ]
    assert [envelope(record).get("correlation_id") for record in answers] == [["t-2"], ["t-1"], ["t-3"], None]


def test_a_batch_has_a_record_for_each_message() -> None:
    batch = b'[{"id":1,"method":"a"},{"id":2,"method":"b"}]\n'
    assert [envelope(record)["payload"]["id"] for record in recorder().feed("client", batch, NOW)] == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        b"starting the server...",
        b'{"jsonrpc":"2.0","id":1,"method"',
        b'{"id": NaN, "method": "a"}',
        b'"text"',
        b"[1, 2]",
        b"[]",
        b"\xff\xfe broken \x80 \xed\xa0\x80",
        b"[" * 3000 + b"]" * 3000,
        b'{"method":"a","x":' * 3000 + b"1" + b"}" * 3000,
    ],
)
def test_a_line_that_is_no_message_is_kept_byte_for_byte(text: bytes) -> None:
    (record,) = recorder().feed("server", text + b"\n", NOW)
    assert record.detail == "not a JSON-RPC message"
    read = read_line(write_line(record))
    assert read is not None and read.raw is not None
    assert read.raw.encode("utf-8", "surrogateescape") == text


def test_an_object_that_is_no_message_is_the_payload_of_a_line() -> None:
    text = '{"kind": "mcp/proposal",  "from": "human", "token": "abc"}'
    (record,) = recorder().feed("server", text.encode() + b"\n", NOW)
    assert record.detail == "not a JSON-RPC message; 1 secret masked"
    assert record.raw is not None and text.replace("abc", MASKED) in record.raw
    read = envelope(record)
    assert (read["kind"], read["from"], read["to"]) == ("tap/line", "server", ["client"])


def test_pieces_of_any_size_give_the_same_records() -> None:
    dice = random.Random(7)
    lines = [
        *(line(id=n, method="tools/call", params={"name": "ä" * n}) for n in range(40)),
        b"\r\n",
        b"no message\n",
        b"\xf0\x9f\n",
    ]
    for _ in range(40):
        dice.shuffle(lines)
        data = b"".join(lines)
        whole = [*recorder().feed("client", data, NOW)]
        tap, parts, at = recorder(), list[Record](), 0
        while at < len(data):
            size = dice.choice((1, 2, 7, 100, 5000))
            parts += tap.feed("client", data[at : at + size], NOW)
            at += size
        assert parts == whole
        assert len(whole) == 42


def test_of_a_line_that_is_too_long_size_and_digest_are_kept_and_the_next_one_is_whole() -> None:
    tap = recorder()
    long = b'{"method":"' + b"x" * MAX_MESSAGE + b'"}'
    data = long + b"\n" + line(id=1, method="a")
    records = [
        record
        for at in range(0, len(data), 65536)
        for record in tap.feed("client", data[at : at + 65536], NOW)
    ]
    assert [record.event for record in records] == ["oversize", "received"]
    assert json.loads(records[0].detail) == {"size": len(long), "sha256": sha256(long).hexdigest()}
    assert envelope(records[1])["payload"]["method"] == "a"


def test_a_line_without_end_is_kept_when_its_side_ends() -> None:
    tap = recorder()
    assert [*tap.feed("server", b'{"id":1,"result":{}}', NOW)] == []
    answer, left = tap.ended("server", NOW, "closed its end")
    assert envelope(answer)["kind"] == "mcp/response"
    assert (left.event, left.participant, left.detail) == ("left", "server", "closed its end")


def test_lost_bytes_are_counted_and_the_line_that_they_cut_is_left_out() -> None:
    tap = recorder()
    assert [*tap.feed("client", b'{"method":"cut', NOW)] == []
    lost = tap.lost("client", 123, NOW)
    assert (lost.event, json.loads(lost.detail)) == ("lost", {"bytes": 123})
    (record,) = tap.feed("client", b'short"}\n' + line(id=1, method="whole"), NOW)
    assert envelope(record)["payload"]["method"] == "whole"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"authorization": "Bearer abcdefgh1234"}', f'{{"authorization": "{MASKED}"}}'),
        ('{"a":"Bearer abcdefgh1234 x"}', f'{{"a":"Bearer {MASKED} x"}}'),
        ('{"access_token":"a\\"b","n":1}', f'{{"access_token":"{MASKED}","n":1}}'),
        ('{"API-Key" : "k"}', f'{{"API-Key" : "{MASKED}"}}'),
        ('{"progressToken":"p"}', '{"progressToken":"p"}'),
        ('{"token":{"type":"string"}}', '{"token":{"type":"string"}}'),
        ('{"text":"the token is old"}', '{"text":"the token is old"}'),
    ],
)
def test_secrets_are_masked_and_nothing_else(text: str, masked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("known", {}),
        ("_edition", object()),
    ):  # tokens of tests before this one are masked, too
        monkeypatch.setattr(f"mew_lab.protocol.token.{name}", value)
    assert mask_secrets(text) == (masked, int(text != masked))


def test_a_journal_of_a_tap_opens_as_a_log(tmp_path: Path) -> None:
    path, tap = tmp_path / "tap.jsonl", recorder()
    journal = Journal(path, space="tap", vantage="tap")
    records: Iterable[Record] = [
        *tap.feed("client", line(id=1, method="tools/call", params={"name": "now"}), NOW),
        *tap.feed("server", b"noise\n" + line(id=1, result={"content": []}), NOW),
    ]
    journal.append(record._replace(seq=n) for n, record in enumerate(records, 1))
    journal.close()
    log = open_log(path)
    assert (log.vantage, log.space, len(log)) == ("tap", "tap", 3)
    requests = log.requests()
    assert requests.state.tolist() == ["answered"]
    assert requests.tool.tolist() == ["now"]
    log.save(tmp_path / "saved.jsonl")
    assert open_log(tmp_path / "saved.jsonl").vantage == "tap"
