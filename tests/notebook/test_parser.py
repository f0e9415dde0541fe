"""The line behind %mew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError

from mew_lab.notebook.commands import COMMANDS
from mew_lab.notebook.parser import ParsedLine, parse, split

NAMES: dict[str, Any] = {"repo": "/tmp/my repo", "n": 3, "folder": Path("/x"), "who": "git", "text": "7"}


def asked(line: str, body: str | None = None) -> ParsedLine:
    return parse(line, names=NAMES, body=body)


def refused(line: str, body: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        asked(line, body)
    message = str(caught.value)
    assert "\n" not in message, "a usage error is one line"
    return message


def test_words_are_cut_as_a_shell_cuts_them() -> None:
    line = r"""a 'b c' "d \"e\"" f\ g h'i'"j" ''"""
    assert [word.text for word in split(line)] == ["a", "b c", 'd "e"', "f g", "hij", ""]


def test_places_and_options_may_stand_in_any_order() -> None:
    options = asked("up --as me demo --port 8080 --no-journal").options
    assert (options.name, options.as_id, options.port, options.no_journal) == ("demo", "me", 8080, True)


def test_an_option_that_may_be_repeated_gives_all_its_values() -> None:
    assert asked("bridge git --env A --env=B -- x").options.env == ("A", "B")
    assert asked("bridge git -- x").options.env == ()


def test_the_command_of_a_bridge_is_what_stands_behind_the_dashes() -> None:
    request = asked("bridge git -- python -m mcp_server_git --repository $repo --to")
    assert request.tail == ["python", "-m", "mcp_server_git", "--repository", "/tmp/my repo", "--to"]


def test_a_variable_stays_one_word_and_single_quotes_keep_the_text() -> None:
    assert asked("bridge g -- $repo {n + 1} '$repo' '{n}'").tail == ["/tmp/my repo", "4", "$repo", "{n}"]


def test_variables_are_filled_in_wherever_a_word_stands() -> None:
    request = asked("call $who/git_log --as {who}")
    assert (request.options.target, request.options.as_id) == ("git/git_log", "git")


def test_an_unknown_variable_is_named() -> None:
    message = refused("bridge g -- --repository $nowhere")
    assert "$nowhere has no value" in message
    assert "'$nowhere' in single quotes" in message


def test_arguments_are_values_and_a_variable_alone_keeps_its_type() -> None:
    arguments = asked(
        "call a/b s=x i=3 t=true l=[1,2] o={\"k\":1} v=$n e={n+1} w=$text p=$folder q='a b'"
    ).tail
    assert arguments == {
        "s": "x",
        "i": 3,
        "t": True,
        "l": [1, 2],
        "o": {"k": 1},
        "v": 3,
        "e": 4,
        "w": "7",
        "p": "/x",
        "q": "a b",
    }


@pytest.mark.trap("T-20")
@pytest.mark.parametrize(
    ("line", "body"),
    [
        ('send chat {"text": "{n} $n", "more": {"a": [1]}}', None),
        ("send chat", '{"text": "{n} $n", "more": {"a": [1]}}'),
        ("send chat", 'text: "{n} $n"\nmore:\n  a: [1]'),
    ],
)
def test_braces_and_dollars_of_a_payload_survive(line: str, body: str | None) -> None:
    assert asked(line, body).tail == {"text": "{n} $n", "more": {"a": [1]}}


def test_json_arguments_survive_too() -> None:
    assert asked('call a/b {"x": "{n}"}').tail == {"x": "{n}"}


def test_chat_takes_its_text_as_it_stands() -> None:
    request = asked('chat --to bot Don\'t  do "that" -- ever')
    assert request.options.to == ("bot",)
    assert request.tail == 'Don\'t  do "that" -- ever'


def test_chat_fills_in_what_can_be_filled_in_and_leaves_the_rest() -> None:
    assert asked("chat $who has {n} files").tail == "git has 3 files"
    assert asked("chat it costs $missing {").tail == "it costs $missing {"


def test_text_that_begins_with_dashes_stands_behind_dashes() -> None:
    assert asked("chat -- --to is an option").tail == "--to is an option"


def test_a_reason_is_the_rest_of_the_line() -> None:
    request = asked("reject p-1 that's too much")
    assert (request.options.id, request.tail) == ("p-1", "that's too much")
    assert asked("reject p-1").tail is None


def test_a_cell_body_is_text_for_chat_and_an_object_elsewhere() -> None:
    assert asked("chat", "first\nsecond\n").tail == "first\nsecond"
    assert asked("call a/b", "x: 1").tail == {"x": 1}
    assert asked("send chat", "\n").tail == {}


@pytest.mark.trap("T-20")
@pytest.mark.parametrize(
    ("line", "body", "words"),
    [
        ("upp", None, "did you mean 'up'?"),
        ("connect ws://x --spce s", None, "did you mean '--space'?"),
        ("connect ws://x --space s --token abc", None, "there is no option '--token'"),
        ("connect ws://x --space s --token-env A --token-file B", None, "not allowed with argument"),
        ("up --port x", None, "invalid int value: 'x'"),
        ("up a b", None, "unexpected argument 'b'"),
        ("up --journal", None, "expected one argument"),
        ("who me", None, "unexpected argument 'me'"),
        ("who", "body", "takes no cell body"),
        ("call a/b x", None, "name=value"),
        ("call a/b x=1 x=2", None, "given twice"),
        ('call a/b {"x": 1, "x": 2}', None, "stands twice"),
        ('call a/b {"x": NaN}', None, "NaN is not JSON"),
        ("call a/b 'x", None, "a quote is not closed"),
        ("send chat", "{broken", "the body is not strict JSON"),
        ("send chat", "a: [1", "the body is not the YAML"),
        ("send chat", "- 1", "must be an object"),
        ("send chat text", None, "must be a JSON object"),
        ('send chat {"a": 1}', "b: 2", "give one"),
        ("help upp", None, "did you mean 'up'?"),
        ("approve", None, "required: ID"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_and_how(line: str, body: str | None, words: str) -> None:
    assert words in refused(line, body)


def test_help_can_be_asked_for_anywhere_before_the_tail() -> None:
    assert asked("connect ws://x --help").help
    assert asked("").command == "help"
    assert asked("--help").command == "help"
    assert asked("chat is --help a word").tail == "is --help a word"


@pytest.mark.threat(1)
def test_there_is_no_option_that_takes_a_token() -> None:
    flags = {option.flag for command in COMMANDS.values() for option in command.options}
    assert {"--token-env", "--token-file"} <= flags
    assert "--token" not in flags


@pytest.mark.parametrize("name", COMMANDS)
def test_the_usage_names_every_option(name: str) -> None:
    command = COMMANDS[name]
    for option in command.options:
        assert option.flag in command.usage, f"{name} {option.flag}"
