"""What does `%mew help` say?  The table of sub-commands, as values that can be printed or shown."""

from __future__ import annotations

from dataclasses import dataclass

from mew_lab.notebook.commands import COMMANDS

__all__ = ["Help", "of_command", "overview"]


@dataclass(frozen=True, slots=True, repr=False)
class Help:
    """How something is written, what it does, and what each word of it means."""

    usage: str
    about: str
    rows: tuple[tuple[str, str], ...]
    note: str = ""

    def __str__(self) -> str:
        width = max((len(word) for word, _ in self.rows), default=0)
        lines = [self.usage, self.about, *(f"  {word.ljust(width)}  {about}" for word, about in self.rows)]
        return "\n".join([*lines, self.note] if self.note else lines)

    def __repr__(self) -> str:
        return str(self)


def overview() -> Help:
    """All sub-commands, one line each."""
    return Help(
        "%mew SUB …",
        "a space of the MEW Protocol in this notebook",
        tuple((f"{name} {command.usage}".rstrip(), command.about) for name, command in COMMANDS.items()),
        "%mew help SUB tells more. Each is one call of a method of `lab`, which works without %mew too.",
    )


def of_command(name: str) -> Help:
    """One sub-command with its options."""
    command = COMMANDS[name]
    cell = f"; %%mew {name} takes the rest from the cell's body" if command.body else ""
    return Help(
        f"%mew {name} {command.usage}".rstrip(),
        command.about + cell,
        tuple((option.flag, option.about) for option in command.options),
        command.note,
    )
