"""What %mew help says."""

from __future__ import annotations

import pytest

from mew_lab.notebook.commands import COMMANDS
from mew_lab.notebook.help import of_command, overview


def test_the_overview_has_one_line_for_each_sub_command() -> None:
    lines = str(overview()).splitlines()
    for name, command in COMMANDS.items():
        assert sum(line.startswith(f"  {name} ") and line.endswith(command.about) for line in lines) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_one_tells_each_of_its_options(name: str) -> None:
    text = str(of_command(name))
    assert text.startswith(f"%mew {name}")
    for option in COMMANDS[name].options:
        assert option.flag in text
        assert option.about in text
    assert ("%%mew" in text) == COMMANDS[name].body or "%%mew" in COMMANDS[name].note
