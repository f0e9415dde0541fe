"""The command `mew-lab`: parses the command line, runs one program, and reports errors.

Each program is a module of its own, which is loaded when it is run. An error is one line on stderr, with one more line
for each further fault of a space.yaml. The exit status is 2 for a faulty command line, and 1 for a program that fails.
No option takes a token: every user of a machine can read an argument list.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import NoReturn

from mew_lab.cli.shell import Formatter, log_to_stderr, tell_error, tell_failure, warn
from mew_lab.errors import ConfigError, FilterError, MewError
from mew_lab.version import VERSION

__all__ = ["COMMANDS", "Formatter", "build_parser", "main"]

COMMANDS: Mapping[str, str] = {  # each with what its help says, in the order of the help
    "init": "makes the space of a folder from a template, and starts it in the background",
    "up": "starts the space of a folder in the background",
    "status": "reports what runs in a folder, since when, who is there, and what waits",
    "down": "ends the space that runs in a folder",
    "serve": "runs one or more spaces until it is interrupted",
    "join": "takes part in a space from this terminal",
    "tail": "prints the messages of a journal or of a running space, one a line",
    "replay": "replays a journal in a new space and reports the first record that differs",
    "audit": "reports the sender of a message, and why it was accepted or refused",
    "verify": "checks that a journal is unchanged and that somebody decided each call that was executed for a proposal",
    "diagnose": "reports the faults and oddities of a log, the worst first",
    "rules": "prints the rules that the decisions of a person in a log suggest, with their evidence",
    "report": "writes a recorded session as one HTML page for a colleague",
    "open": "opens a log, or the newest session of a coding agent in this folder, in a notebook",
    "export": "writes the log files of a TypeScript gateway from a journal",
    "journal": "verifies a journal, or deletes its older files",
    "cache": "deletes the indexes of large logs, which are made again when they are needed",
    "bridge": "connects an MCP server to a running space as a participant",
    "mcp": "offers a running space to an MCP client as one server, with a person's approval of its calls",
    "acp": "offers an agent of a running space to an editor that speaks the Agent Client Protocol, over stdio",
    "tap": "relays between an MCP client and an MCP server, unchanged, and records both in a journal",
    "agent": "runs an agent in a running space until it is interrupted",
    "tools-agent": "serves an agent as tools to MCP clients",
    "conform": "tests any gateway against the specification, over the network",
    "demo": "shows a proposal, a human's decision and a real tool, in this terminal",
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    words = sys.argv[1:] if words is None else words
    command = next((word for word in words if word in COMMANDS), "")
    failed = 1
    try:
        parser = build_parser(command)
        if not words:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(words)
        log_to_stderr(getattr(options, "log_level", "warning").upper())
        threading.excepthook = lambda args: tell_error(args.exc_value)
        failed = _failure_status(options)
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has gone; the rest of the buffer must raise nothing at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except (ConfigError, FilterError) as fault:
        first, *others = str(fault).split("\n")
        tell_failure(command, first)
        for line in others:  # the faults of a file, or the place of the fault in a filter
            warn(line)
        return failed
    except MewError as fault:
        tell_failure(command, str(fault))
        return failed
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        tell_failure(command, f"{where}{fault.strerror or fault}")
        return failed
    except KeyboardInterrupt:
        return 130
    except Exception as fault:
        tell_error(fault)
        return failed
    return 0


def _failure_status(options: argparse.Namespace) -> int:
    """The exit status of a command that failed: of one that verifies it is not 1, which tells of a changed journal."""
    verifies = "verify" in (options.command, getattr(options, "action", None))
    return 2 if verifies else 1


class _ShellParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists the options\n")


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The tree of commands and options.

    Args:
        only: The one command that gets its options, which loads its program; None for all. The programs together take
            a second to load, which nobody shall wait for to see the list of commands.
    """
    parser = _ShellParser(
        prog="mew-lab", description="A workbench for the MEW Protocol v0.4.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        if only in (name, None):
            _load_program(name, command)
    return parser


def _load_program(name: str, command: argparse.ArgumentParser) -> None:
    """Loads the program of a command, which adds its options; `run` takes their values."""
    match name:
        case "init":
            from mew_lab.cli.init import add_options, run
        case "up" | "status" | "down":
            from mew_lab.cli.background import add_program

            return add_program(name, command)
        case "serve":
            from mew_lab.cli.serve import add_options, run
        case "join":
            from mew_lab.cli.join import add_options, run
        case "tail":
            from mew_lab.cli.tail import add_options, run
        case "rules":
            from mew_lab.cli.rules import add_options, run
        case "report":
            from mew_lab.cli.report import add_options, run
        case "replay" | "audit" | "verify" | "diagnose" | "export":
            from mew_lab.cli.journal import add_program as add_journal_program

            return add_journal_program(name, command)
        case "open":
            from mew_lab.cli.open import add_options, run
        case "cache":
            from mew_lab.cli.cache import add_options, run
        case "journal":
            from mew_lab.cli.journal import add_options, run
        case "bridge":
            from mew_lab.cli.bridge import add_options, run
        case "mcp":
            from mew_lab.cli.mcp import add_options, run
        case "acp":
            from mew_lab.cli.acp import add_options, run
        case "tap":
            from mew_lab.cli.tap import add_options, run
        case "agent":
            from mew_lab.cli.agent import add_options, run
        case "tools-agent":
            from mew_lab.cli.tools_agent import add_options, run
        case "conform":
            from mew_lab.cli.conform import add_options, run
        case "demo":
            from mew_lab.cli.demo import add_options, run
    add_options(command)
    return command.set_defaults(run=run)
