"""The table of sub-commands, and the help that is made from it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import mew_lab
from mew_lab.lab.lab import NAMES, Lab
from mew_lab.lab.participant_verbs import ParticipantVerbs
from mew_lab.lab.seat import Seat
from mew_lab.notebook.commands import (
    COMMANDS,
    GROUPS,
    WITHOUT_COMMAND,
    CommandOption,
    command_help,
    method_of,
    overview,
)
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
        "up down use connect bridge bridge-all code join agent tools-agent agents ask who invite enrol leave pause resume pause-all "
        "resume-all forget compact clear restart shutdown kick cancel-reasoning grant revoke tools chat acknowledge stream send "
        "call propose proposals approve reject withdraw cancel stop go load resolve questions answer rules undo view history log "
        "diagnose save report ui status faults help"
    ).split(" ")
    assert [name for name in COMMANDS if name in verbs] == verbs
    assert set(COMMANDS) == {*verbs, *PARTS}


def public(owner: type) -> set[str]:
    """The methods of a class that a person calls; those of `Lab` are the ones that Tab shows."""
    names = NAMES.split() if owner is Lab else [name for name in vars(owner) if not name.startswith("_")]
    return {name for name in names if inspect.isfunction(vars(owner).get(name))}


def has(path: str, lab: Lab) -> bool:
    """Whether there is something that a row's `method` names."""
    owner: Any = {"lab": lab, "mew_lab": mew_lab}[path.split(".")[0].partition("(")[0]]
    path = path.partition(".")[2]
    if path.startswith("of(NAME)"):
        owner, path = ParticipantVerbs, path.partition(".")[2]
    for name in path.split("."):
        if isinstance(owner, ModuleType) and not hasattr(owner, name):
            importlib.import_module(f"{owner.__name__}.{name}")
        owner = getattr(owner, name, None)
    return owner is not None


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_a_method_that_is_there(name: str, lab: Lab) -> None:
    assert has(method_of(name), lab), method_of(name)
    assert f"In Python: {method_of(name)}" in str(command_help(name))


def test_each_method_is_a_command_or_says_why_not(lab: Lab) -> None:
    called = {method_of(name) for name in COMMANDS}
    methods = {f"lab.{name}" for name in public(Lab)}
    methods |= {f"lab.of(NAME).{name}" for name in public(ParticipantVerbs)}
    # A seat does for itself what `lab` does with `--as`.
    methods |= {f"seat.{name}" for name in public(Seat) if f"lab.{name}" not in called}
    assert methods - called == set(WITHOUT_COMMAND)
    assert all(WITHOUT_COMMAND.values())


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = mew_lab.up("commands", journal=None, port=None)
    yield made
    made.down()


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
