"""`mew-lab cache`: deletes the indexes of large logs, which the next opening makes again."""

from __future__ import annotations

import argparse

from mew_lab.cli import shell
from mew_lab.log.sidecar import clear_indexes
from mew_lab.protocol.text import count_of

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("action", choices=("clear",), help="clear deletes the indexes of all logs")


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options."""
    assert options.action == "clear", "there is no other action"
    files, size = clear_indexes()
    shell.say(f"Deleted {count_of(files, 'file')} of indexes ({size / 1e6:.1f} MB).")
