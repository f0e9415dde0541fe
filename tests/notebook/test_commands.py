"""The table of sub-commands, and the help that is made from it."""

from __future__ import annotations

import pytest

from mew_lab.notebook.commands import COMMANDS, GROUPS, CommandOption, command_help, overview
from mew_lab.notebook.completion import SOURCES
from mew_lab.views.views import PARTS

TAILS = {"", "text", "filter", "arguments", "body", "command"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_row_is_complete_and_consistent(name: str) -> None:
    command = COMMANDS[name]
    assert command.about
    assert command.about[0].islower()
    assert not command.about.endswith(".")
    assert command.tail in TAILS
    assert command.tail in ("text", "arguments", "body") or not command.body
    flags = {option.flag for option in command.options}
    assert set(command.either) <= flags
    assert all(option.about for option in command.options)
    assert {option.names for option in command.options} <= {*SOURCES, "", "path"}


def test_an_option_is_called_in_python_as_its_row_says() -> None:
    assert CommandOption("--token-file", "").dest == "token_file"
    assert CommandOption("NAME", "").dest == "name"
    assert CommandOption("--as", "", settings={"dest": "as_id"}).dest == "as_id"


def test_the_sub_commands_are_the_verbs_and_the_parts_to_look_at() -> None:
    verbs = (
        "up down use connect bridge bridge-all join agent tools-agent agents ask who tools chat send call propose proposals approve "
        "reject withdraw cancel stop go resolve questions answer undo view history log diagnose save report ui status faults help"
    ).split(" ")
    assert [name for name in COMMANDS if name in verbs] == verbs
    assert set(COMMANDS) == {*verbs, *PARTS}


def test_the_overview_has_one_line_for_each_sub_command() -> None:
    lines = str(overview()).splitlines()
    assert [line for line in lines if not line.startswith(" ")][2:-1] == list(GROUPS)
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    assert max(map(len, lines)) <= 100
    for name, command in COMMANDS.items():
        assert sum(line.startswith(f"  {name} ") and line.endswith(command.about) for line in lines) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_one_tells_each_of_its_options(name: str) -> None:
    text = str(command_help(name))
    assert text.startswith(f"%mew {name}")
    for option in COMMANDS[name].options:
        assert option.flag in text
        assert option.about in text
    assert ("%%mew" in text) == COMMANDS[name].body or "%%mew" in COMMANDS[name].note
