"""Exact text laid out: lines and indents are added, nothing else changes."""

from __future__ import annotations

import json

import pytest

from mew_lab.protocol.layout import lay_out


def test_members_and_elements_get_a_line_each() -> None:
    text = '{"a":1,"b":[true,{"c":null}],"d":{},"e":[ ]}'
    assert lay_out(text, 1000) == (
        '{\n  "a": 1,\n  "b": [\n    true,\n    {\n      "c": null\n    }\n  ],\n  "d": {},\n  "e": []\n}'
    )
    assert lay_out(text, 1000) == json.dumps(json.loads(text), indent=2)


@pytest.mark.parametrize("value", ["1.0", "1e400", "123456789012345678901234567890", "-0", "NaN", "0.10"])
def test_numbers_keep_their_digits(value: str) -> None:
    assert lay_out(f'{{"a":{value}}}', 1000) == f'{{\n  "a": {value}\n}}'


def test_a_name_that_stands_twice_stands_twice() -> None:
    assert lay_out('{"a":1,"a":2}', 1000) == '{\n  "a": 1,\n  "a": 2\n}'


def test_what_stands_in_a_string_is_no_structure() -> None:
    text = r'{"a":"x, y: {z} [\"] \\","b":" "}'
    assert lay_out(text, 1000).split("\n")[1:3] == [r'  "a": "x, y: {z} [\"] \\",', '  "b": " "']


@pytest.mark.threat(17)
def test_what_cannot_be_seen_is_an_escape() -> None:
    assert lay_out('{"a\u202e":"b\u200b"}', 1000) == '{\n  "a\\u202e": "b\\u200b"\n}'


@pytest.mark.parametrize("text", ["", "hello", '"a"', "12", "\u202e{"])
def test_what_is_no_object_and_no_array_has_no_layout(text: str) -> None:
    assert lay_out(text, 1000) == ""


@pytest.mark.parametrize("text", ["{", "[}", '{"a', '{"a":}', "{,,}", "]]]", '{"a\n":1}x'])
def test_broken_text_loses_nothing_but_blanks(text: str) -> None:
    shown = lay_out(text, 1000)
    if text[0] in "{[":
        assert shown.replace("\n", "").replace(" ", "") == text.replace("\n", "\\n").replace(" ", "")


def test_depth_and_length_are_bounded() -> None:
    shown = lay_out("[" * 100_000, 50_000)
    assert len(shown) < 51_000 and shown.endswith("…")
    assert max(len(line) for line in shown.split("\n")) <= 62
