"""What a person takes along: a line of Python that sends the same again, a file with the log."""

from __future__ import annotations

import ast
import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import mew_lab
from mew_lab.errors import JournalError, MewError
from mew_lab.lab.lab import Lab
from mew_lab.views.feed.extract import as_python, log_name, save_log

NOW = datetime(2026, 11, 22, 8, 30, 5, tzinfo=UTC)


def envelopes(lab: Lab, kind: str) -> list[tuple[str, dict[str, Any]]]:
    raws = [record.raw for record in lab.log.records if record.raw]
    return [(raw, json.loads(raw)) for raw in raws if json.loads(raw)["kind"] == kind]


@pytest.mark.parametrize(
    "payload",
    [
        {"text": 'it\'s "quoted", \\ and \n two lines'},
        {
            "text": "\u202e hidden \u200b",
            "n": 12345678901234567890,
            "f": 0.1,
            "b": [True, None, {"a": []}],
        },
        {},
    ],
)
def test_the_line_sends_the_same_kind_payload_and_addressees(lab: Lab, payload: dict[str, Any]) -> None:
    lab.join("bot")
    lab.send("chat", payload, to=["bot"], correlation_id=["e-1", "e-2"], context="c/1")
    [(raw, first)] = envelopes(lab, "chat")
    line = as_python(raw)
    assert "\n" not in line and line.isprintable()
    eval(line, {"lab": lab})  # noqa: S307
    [_, (_, again)] = envelopes(lab, "chat")
    for name in ("kind", "payload", "to", "correlation_id", "context", "from"):
        assert again[name] == first[name]
    assert again["id"] != first["id"]


@pytest.mark.ruling("R22")
def test_a_number_that_readers_take_differently_is_refused_with_its_sentence_and_nobody_waits(
    lab: Lab,
) -> None:
    with pytest.raises(MewError, match="the integer 12345678901234567890123 lies outside"):
        lab.send("chat", {"n": 12345678901234567890123})


def test_the_line_of_another_seat_speaks_as_it(lab: Lab) -> None:
    lab.join("bot").chat("hello")
    [(raw, _)] = envelopes(lab, "chat")
    eval(as_python(raw, as_id="bot"), {"lab": lab})  # noqa: S307
    assert [one["from"] for _, one in envelopes(lab, "chat")] == ["bot", "bot"]


def test_the_line_is_one_call_of_literals_whatever_the_text_says() -> None:
    hostile = "', __import__('os').system('x'), '"
    raw = json.dumps({"kind": hostile, "payload": {hostile: hostile}, "to": [hostile], "context": hostile})
    call = ast.parse(as_python(raw, as_id=hostile), mode="eval").body
    assert isinstance(call, ast.Call) and ast.unparse(call.func) == "lab.send"
    given = [*call.args, *(one.value for one in call.keywords)]
    assert [ast.literal_eval(one) for one in given] == [
        hostile,
        {hostile: hostile},
        [hostile],
        hostile,
        hostile,
    ]


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "not json",
        "[1]",
        '{"kind":7}',
        '{"kind":"x","payload":[]}',
        '{"kind":"x","to":5}',
        '{"kind":"x","to":[5]}',
        '{"kind":"x","context":{}}',
        '{"kind":"x","payload":{"a":NaN}}',
        '{"kind":"x","payload":{"a":1e999}}',
        '{"kind":"x","payload":{"a":' + "[" * 500 + "]" * 500 + "}}",
        "[" * 100_000,
        json.dumps({"kind": "x", "payload": {"a": "x" * 300_000}}),
    ],
)
def test_what_is_no_line_of_python_is_refused_with_what_would_do(raw: str) -> None:
    with pytest.raises(MewError, match="Copy it as JSON instead"):
        as_python(raw)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("demo", "demo-20261122T083005Z.jsonl"),
        ("../../etc/x y", "etc-x-y-20261122T083005Z.jsonl"),
        ("..", "space-20261122T083005Z.jsonl"),
        ("", "space-20261122T083005Z.jsonl"),
    ],
)
def test_the_file_is_named_after_the_space_and_the_moment(space: str, expected: str) -> None:
    assert log_name(space, NOW) == expected
    assert log_name(space, NOW.astimezone(timezone(timedelta(hours=5)))) == expected


def test_the_saved_log_opens_with_every_envelope(lab: Lab, tmp_path: Path) -> None:
    lab.chat("hello")
    said = asyncio.run(save_log(lab.log, tmp_path, NOW))
    [path] = tmp_path.glob("*.jsonl")
    assert str(path) in said
    assert [one["payload"] for one in mew_lab.open_log(path) if one["kind"] == "chat"] == [{"text": "hello"}]


def test_a_folder_that_is_not_there_is_told(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="Cannot save the log"):
        asyncio.run(save_log(lab.log, tmp_path / "gone", NOW))
