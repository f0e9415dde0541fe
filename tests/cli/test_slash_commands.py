"""The commands of a terminal: one table, what is typed wrong, and what is completed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mew_lab.cli.join import FUNCTIONS, obey
from mew_lab.cli.prompt import cut_to_cells, is_kept
from mew_lab.cli.slash_commands import COMMANDS, HELP, read_command, read_words, tell_help
from mew_lab.cli.slash_completion import Suggestion, complete_json, complete_line
from mew_lab.errors import MewError
from mew_lab.lab.lab import Lab
from mew_lab.protocol.token import Token, forget


class Names:
    """The names of a space that is made up."""

    def __init__(self, schema: object = None, **names: list[str]) -> None:
        self._names = names
        self._schema = schema

    def names(self, source: str) -> Iterable[Suggestion]:
        return [Suggestion(name, f"about {name}") for name in self._names.get(source, [])]

    def schema(self, tool: str) -> object:
        return self._schema


def texts(line: str, known: Names) -> list[str]:
    return [choice.text for choice in complete_line(line, known).choices]


# --- one table ---------------------------------------------------------------------------------------------------


def test_every_command_has_its_function_and_stands_in_the_help_with_its_usage() -> None:
    assert set(FUNCTIONS) == set(COMMANDS)
    for name, command in COMMANDS.items():
        assert f"\n/{name} {command.usage}".rstrip() in HELP


@pytest.mark.parametrize("width", [40, 63, 64, 80, 118])
def test_the_help_has_no_line_that_a_terminal_would_break(width: int) -> None:
    lines = tell_help(width).split("\n")
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    for name, command in COMMANDS.items():
        assert " ".join(f"/{name} {command.usage}".split()) in said
        assert " ".join(command.about.split()) in said


def test_every_command_is_completed_and_explained_by_itself(lab: Lab) -> None:
    for name in COMMANDS:
        assert f"/{name}" in [text.rstrip() for text in texts(f"/{name[:-1]}", Names())]
        assert obey(lab, f"/help {name}").startswith(f"/{name}")
    with pytest.raises(MewError, match=r"no command /aprove \(did you mean 'approve'\?\)"):
        obey(lab, "/help aprove")


def test_what_draws_the_line_is_loaded_in_a_terminal_alone() -> None:
    """So `mew-lab --help`, and `join` in a pipe, start as fast as before."""
    code = "import sys, mew_lab.cli as cli; cli.build_parser(); print('prompt_toolkit' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- typed wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("aprove x", "There is no command /aprove (did you mean 'approve'?); /help lists the commands"),
        ("reject", "/reject needs the id of a proposal; it is written /reject ID [REASON]"),
        ("call", "/call needs participant/tool; it is written /call PARTICIPANT/TOOL [JSON]"),
        (
            "approve ab digest=",
            "/approve needs D behind digest=; it is written /approve [ID] [digest=D] [despite=WHAT] [PARTICIPANT|OPTION…]",
        ),
        (
            "grant coder minutes= chat",
            "/grant needs N behind minutes=; it is written "
            "/grant PARTICIPANT [minutes=N] [uses=COUNT] PARTICIPANT/TOOL|KIND|PROFILE|JSON",
        ),
        ("who is there", "/who takes nothing behind it, but 'is there' stands there"),
        (
            "verbose of",
            "/verbose takes on or off, not 'of' (did you mean 'off'?); it is written /verbose [on|off]",
        ),
        (
            "approve ab despite=unkown",
            "/approve takes rejected or unknown, not 'unkown' (did you mean 'unknown'?); "
            "it is written /approve [ID] [digest=D] [despite=WHAT] [PARTICIPANT|OPTION…]",
        ),
        (
            "decline ab because",
            "/decline does not know what to do with 'because'; it is written /decline ID",
        ),
        ("pause", "/pause needs PARTICIPANT; it is written /pause PARTICIPANT [SECONDS] [REASON]"),
        (
            "pause coder 5m",
            "/pause takes SECONDS as a plain number of seconds, not '5m': 5m is 300; "
            "it is written /pause PARTICIPANT [SECONDS] [REASON]",
        ),
        (
            "pause coder 500ms",
            "/pause takes SECONDS as a plain number of seconds, not '500ms': 500ms is 0.5; "
            "it is written /pause PARTICIPANT [SECONDS] [REASON]",
        ),
        (
            "forget coder 3 oldest",
            "'oldest' stands in the wrong place; it is written /forget PARTICIPANT [oldest|newest] [COUNT]",
        ),
        (
            "forget coder odlest",
            "/forget takes oldest or newest, not 'odlest' (did you mean 'oldest'?); "
            "it is written /forget PARTICIPANT [oldest|newest] [COUNT]",
        ),
        (
            "forget coder 2.5",
            "/forget takes COUNT as a whole number of messages, not '2.5'; "
            "it is written /forget PARTICIPANT [oldest|newest] [COUNT]",
        ),
        ("stream", "/stream needs request or write or close; /help lists the commands"),
        (
            "stream clsoe stream-1",
            "/stream needs request or write or close (did you mean 'close'?); /help lists the commands",
        ),
        (
            "stream write stream-1",
            "/stream write needs TEXT; it is written /stream write ID TEXT",
        ),
        (
            "stream request upload coder",
            "/stream request takes upload or download, not 'coder'; "
            "it is written /stream request PARTICIPANT upload|download [DESCRIPTION] [size=BYTES]",
        ),
        (
            "stream request coder upload size=4k",
            "/stream request takes BYTES as a whole number of bytes, not '4k'; "
            "it is written /stream request PARTICIPANT upload|download [DESCRIPTION] [size=BYTES]",
        ),
        (
            "grant coder minutes=x chat",
            "/grant takes N as a plain number of minutes, not 'x'; it is written "
            "/grant PARTICIPANT [minutes=N] [uses=COUNT] PARTICIPANT/TOOL|KIND|PROFILE|JSON",
        ),
    ],
)
def test_a_mistake_is_a_sentence_with_what_is_right(line: str, sentence: str) -> None:
    with pytest.raises(MewError) as told:
        read_words(*read_command(line))
    assert str(told.value) == sentence


def test_words_are_told_apart_by_what_they_are() -> None:
    """An optional number or choice that was left out takes nothing of what follows it."""

    def read(line: str) -> dict[str, str]:
        words = read_words(*read_command(line))
        return {one.name: words[one.name] for one in COMMANDS[words.name].arguments if words[one.name]}

    assert read("pause coder too  noisy today") == {"PARTICIPANT": "coder", "REASON": "too  noisy today"}
    assert read("pause coder 90 too noisy") == {
        "PARTICIPANT": "coder",
        "SECONDS": "90",
        "REASON": "too noisy",
    }
    assert read("forget coder 3") == {"PARTICIPANT": "coder", "COUNT": "3"}
    assert read("forget coder newest 3") == {"PARTICIPANT": "coder", "oldest|newest": "newest", "COUNT": "3"}
    assert read("stream request coder upload a long  text size=10") == {
        "PARTICIPANT": "coder", "upload|download": "upload", "DESCRIPTION": "a long  text", "BYTES": "10",
    }  # fmt: skip
    pattern = '{"kind": "chat", "payload": {"text": " uses=3  x"}}'
    assert read(f"grant coder uses=2 {pattern}") == {
        "PARTICIPANT": "coder", "COUNT": "2", "PARTICIPANT/TOOL|KIND|PROFILE|JSON": pattern,
    }  # fmt: skip


def test_nothing_that_is_typed_behind_it_keeps_stop_from_stopping(lab: Lab) -> None:
    assert obey(lab, "/stop everything NOW!").startswith("Stopped by human at ")


HOSTILE = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["\x1b[2J", "\u202eabc", "a\nb", "\x00", "  ", "=", "digest=", "despite=", "1e999", "-", "٣"]
)


@given(st.sampled_from(list(COMMANDS)), st.lists(HOSTILE, max_size=5))
def test_any_words_are_read_or_refused_by_one_line_without_hidden_characters(
    name: str, words: list[str]
) -> None:
    try:
        read = read_words(*read_command(f"{name} {' '.join(words)}".strip()))
    except MewError as fault:
        assert str(fault).isprintable()
    else:
        for argument in COMMANDS[name].arguments:
            assert isinstance(read[argument.name], str)
            if argument.choices and read[argument.name]:
                assert set(read.all(argument.name)) <= set(argument.choices)


# --- completion --------------------------------------------------------------------------------------------------


def test_names_are_completed_by_what_the_argument_takes() -> None:
    known = Names(participant=["coder", "git"], proposal=["52ab"], tool=["git/log", "git/add"], call=["c-1"])
    assert texts("/tools ", known) == ["coder", "git"]
    assert texts("/tools g", known) == ["git"]
    assert texts("/tools git ", known) == []
    assert texts("/reject ", known) == ["52ab"]
    assert texts("/reject 52ab ", known) == []
    assert texts("/call git/a", known) == ["git/add"]
    assert texts("/approve 52ab ", known) == ["coder", "git", "digest=", "despite="]
    assert texts("/approve 52ab despite=", known) == ["despite=rejected", "despite=unknown"]
    assert texts("/approve 52ab digest=0 co", known) == ["coder"]
    assert texts("/verbose o", known) == ["on", "off"]
    assert texts("hello /to", known) == texts("//to", known) == texts("{", known) == []


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["dry", "wet"]},
        "deep": {"type": "boolean"},
        "where": {"$ref": "#/$defs/Place"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "note": {"type": ["string", "null"], "default": "none"},
    },
    "required": ["deep", "mode"],
    "$defs": {"Place": {"type": "object", "properties": {"bed": {"const": 7}}, "required": ["bed"]}},
}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", ["{"]),
        ("{", ['"mode": ', '"deep": ', '"where": ', '"tags": ', '"note": ']),
        ('{"d', ['"deep": ']),
        ("{de", ['"deep": ']),
        ('{"deep"', [": "]),
        ('{"deep": ', ["true", "false"]),
        ('{"deep": t', ["true"]),
        ('{"deep": true', ["true"]),
        ('{"deep": true ', [", "]),
        ('{"deep": true, ', ['"mode": ', '"where": ', '"tags": ', '"note": ']),
        ('{"deep": true, "mode": "w', ['"wet"']),
        ('{"deep": true, "mode": "wet"', [", ", "}"]),
        ('{"where": ', ["{"]),
        ('{"where": {', ['"bed": ']),
        ('{"where": {"bed": ', ["7"]),
        ('{"where": {"bed": 7 ', ["}"]),
        ('{"tags": ["a", ', ['"a"', '"b"']),
        ('{"note": ', ['"none"', "null"]),
        ('{"note": "\\"', []),
        ('{"deep": true}', []),
        ('{"deep" true', []),
        ("}{", []),
    ],
)
def test_arguments_are_completed_by_their_schema(typed: str, expected: list[str]) -> None:
    assert [choice.text for choice in complete_json(typed, SCHEMA).choices] == expected


def test_what_is_completed_by_a_schema_is_json_that_has_what_is_required() -> None:
    """From nothing on, whichever choice is taken: the shortest way to the end is valid JSON."""
    seen = set()
    waiting = [""]
    done = []
    while waiting:
        text = waiting.pop()
        for choice in complete_json(text, SCHEMA).choices:
            word = complete_json(text, SCHEMA).word
            longer = text[: len(text) - len(word)] + choice.text
            if longer in seen or longer == text:
                longer = f"{longer} "
            if longer in seen or len(longer) > 40:
                continue
            seen.add(longer)
            if longer.count("{") == longer.count("}"):
                done.append(json.loads(longer))
            else:
                waiting.append(longer)
    assert {"mode": "dry", "deep": False} in done
    assert all({"mode", "deep"} <= set(one) for one in done)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=12,
)
WORDS = [
    "properties",
    "required",
    "enum",
    "anyOf",
    "oneOf",
    "items",
    "$ref",
    "type",
    "default",
    "const",
    "$defs",
]
SCHEMAS = st.dictionaries(st.sampled_from(WORDS), JSON | st.just({"$ref": "#"}), max_size=6)


@pytest.mark.threat(17)
@given(
    SCHEMAS | JSON,
    st.lists(HOSTILE, max_size=4),
    st.text('{}[]:," \\abt1', max_size=20),
    st.sampled_from(list(COMMANDS)),
)
def test_no_completion_holds_what_a_person_does_not_see(
    schema: object, names: list[str], typed: str, command: str
) -> None:
    """Names and schemas are of peers: nothing fails, and each completion stands in a line as it reads."""
    known = Names(
        schema, **dict.fromkeys(("participant", "tool", "proposal", "call", "question", "target"), names)
    )
    for line in (f"/{command} ", f"/{command} {typed}", f"/call a/b {typed}", f'/call a/b {{"a": {typed}'):
        for choice in complete_line(line, known).choices:
            assert choice.text.isprintable() and choice.about.isprintable()


def test_a_form_that_refers_to_itself_is_no_endless_search() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
    assert complete_json('{"a": ', schema).choices == []


# --- what is kept and shown --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '/call db/open {"password": "hunter2"}',
        '{"kind": "system/join", "payload": {"token": "abc"}}',
        "my key is sk-proj-4f9aB2c8D1e7F0a3b6C5",
        "Authorization: Bearer abc",
        '/answer 12ab {"pin": 4711}',
        " a line behind a space",
        "x" * 5000,
        "",
    ],
)
def test_a_line_that_may_hold_a_secret_is_not_kept(line: str) -> None:
    assert not is_kept(line)


def test_a_secret_that_this_process_knows_is_not_kept_whatever_it_looks_like() -> None:
    assert is_kept("the garden of our mothers")
    token = Token("garden of our mothers")
    try:
        assert not is_kept("the garden of our mothers")
    finally:
        forget(token)


@pytest.mark.parametrize(
    "line",
    ["hello", "/approve 52ab", '/call git/log {"n": 3}', "/cancel 3f2a9c1e-0b1d-4e7a-9c55-a1b2c3d4e5f6"],
)
def test_an_ordinary_line_is_kept(line: str) -> None:
    assert is_kept(line)


@given(st.text(st.sampled_from("ab界🌱é…\u0301 "), max_size=60), st.integers(0, 50))
def test_a_cut_text_never_takes_more_cells_than_there_are(text: str, cells: int) -> None:
    from wcwidth import wcswidth

    shown = cut_to_cells(text, cells)
    assert wcswidth(shown) <= cells
    assert shown == text or shown == "" or (shown.endswith("…") and text.startswith(shown[:-1]))
