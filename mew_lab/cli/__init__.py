"""The command `mew-lab`: reads its words, runs one program, and tells what went wrong.

Each program stands in a module of its own, which is loaded when it is run. Errors are one line on stderr, and one for
each fault of a space.yaml. The exit status is 2 for a command that is written wrongly, 1 for one that fails. No option
takes a token: every user of a machine can read an argument list.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from mew_lab.cli.shell import Formatter, log_to_stderr, tell_error, tell_failure, warn
from mew_lab.errors import ConfigError, MewError

__all__ = ["RUN", "Formatter", "build_parser", "main"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEVELS = ("debug", "info", "warning", "error")


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    options = build_parser().parse_args(words)
    log_to_stderr(getattr(options, "log_level", "warning").upper())
    threading.excepthook = lambda args: tell_error(args.exc_value)
    try:
        RUN[options.command](options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered must not complain at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ConfigError as fault:
        first, *others = str(fault).split("\n")
        status = tell_failure(options.command, first)
        for line in others:  # the faults of a file
            warn(line)
        return status
    except MewError as fault:
        return tell_failure(options.command, str(fault))
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        return tell_failure(options.command, f"{where}{fault.strerror or fault}")
    except KeyboardInterrupt:
        return 130
    except Exception as fault:
        tell_error(fault)
        return 1
    return 0


# --- programs, each loaded when it is run ---


def _run_serve(options: argparse.Namespace) -> None:
    from mew_lab.cli.serve import run

    run(options)


def _run_join(options: argparse.Namespace) -> None:
    from mew_lab.cli.join import run

    run(options)


def _run_tail(options: argparse.Namespace) -> None:
    from mew_lab.cli.tail import run

    run(options)


def _run_replay(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_replay

    run_replay(options)


def _run_audit(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_audit

    run_audit(options)


def _run_export(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_export

    run_export(options)


def _run_journal(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run

    run(options)


def _run_bridge(options: argparse.Namespace) -> None:
    from mew_lab.cli.bridge import run

    run(options)


def _run_agent(options: argparse.Namespace) -> None:
    from mew_lab.cli.agent import run

    run(options)


def _run_tools_agent(options: argparse.Namespace) -> None:
    from mew_lab.cli.tools_agent import run

    run(options)


def _run_conform(options: argparse.Namespace) -> None:
    from mew_lab.cli.conform import run

    run(options)


def _run_demo(options: argparse.Namespace) -> None:
    from mew_lab.cli.demo import run

    run(options)


RUN: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "serve": _run_serve,
    "join": _run_join,
    "tail": _run_tail,
    "replay": _run_replay,
    "audit": _run_audit,
    "export": _run_export,
    "journal": _run_journal,
    "bridge": _run_bridge,
    "agent": _run_agent,
    "tools-agent": _run_tools_agent,
    "conform": _run_conform,
    "demo": _run_demo,
}


# --- words ---


class _ShellParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help tells more\n")


def build_parser() -> argparse.ArgumentParser:
    """The tree of commands and options."""
    parser = _ShellParser(
        prog="mew-lab", description="A workbench for the MEW Protocol v0.4.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name, help=about, description=about, allow_abbrev=False
        )
        return command

    serve = add("serve", "runs one or more spaces until it is interrupted")
    what = serve.add_mutually_exclusive_group()
    what.add_argument("--space", default="demo", metavar="NAME", help="its name; demo unless given")
    about = "a space.yaml that describes it, with its participants; several spaces on one port: repeat it"
    what.add_argument("--space-config", type=Path, metavar="FILE", action="append", help=about)
    about = "the journal of a space that ran before, to go on with"
    what.add_argument("--resume", type=Path, metavar="FILE", help=about)
    serve.add_argument(
        "--host", default="127.0.0.1", choices=LOOPBACK, help="an address of this machine alone"
    )
    serve.add_argument("--port", type=int, default=0, metavar="N", help="a free one unless given")
    about = "the participant that owns it; human unless given, with a space.yaml its own"
    serve.add_argument("--as", dest="as_id", metavar="ID", help=about)
    about = "starts no agent and no bridge of the space.yaml"
    serve.add_argument("--no-auto-start", action="store_true", help=about)
    about = "lets another participant join: human, proposer, agent, tool, observer or admin; may be repeated"
    serve.add_argument("--enrol", action="append", default=[], metavar="ID=PROFILE", help=about)
    serve.add_argument("--journal", type=Path, metavar="PATH", help="the file that records everything")
    serve.add_argument("--log-level", default="warning", choices=LEVELS, help="what is told on stderr")

    join = add("join", "takes part in a space from this terminal")
    join.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(join)
    join.add_argument("--no-color", action="store_true", help="prints no colours")

    tail = add("tail", "prints the messages of a journal or of a running space, one a line")
    tail.add_argument("source", metavar="FILE|URL", help="a journal, or ws://… of a gateway")
    tail.add_argument("--follow", "-f", action="store_true", help="waits for more at the end of a file")
    tail.add_argument("--json", action="store_true", help="prints the exact text of each envelope")
    tail.add_argument("--no-color", action="store_true", help="prints no colours")
    _add_elsewhere(tail)

    replay = add("replay", "does again what a journal tells, and says where it would come out otherwise")
    replay.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")

    audit = add("audit", "tells who sent an envelope, and by which right or why not")
    audit.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")
    audit.add_argument("id", metavar="ID", help="the envelope's id, or a beginning that only it has")

    export = add("export", "writes the log files that a TypeScript gateway would have written of a journal")
    export.add_argument(
        "journal", type=Path, metavar="JOURNAL", help="the first file of the journal of a gateway"
    )
    about = "whose files: peers, for envelope-history.jsonl and capability-decisions.jsonl"
    export.add_argument("--as", dest="as_format", choices=("peers",), required=True, help=about)
    about = "the folder that they are written to; the working folder unless given"
    export.add_argument("--to", type=Path, metavar="FOLDER", default=Path(), help=about)
    export.add_argument("--force", action="store_true", help="replaces files that are there already")

    _add_journal(add("journal", "verifies a journal, or deletes its older files"))

    bridge = add("bridge", "lets an MCP server take part in a space elsewhere")
    bridge.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(bridge)
    about = "an environment variable that the server may see; may be repeated"
    bridge.add_argument("--env", action="append", default=[], metavar="VARIABLE", help=about)
    about = "seconds that the server may take to answer at first; 20 unless given"
    bridge.add_argument("--init-timeout", type=float, default=20.0, metavar="SECONDS", help=about)
    bridge.add_argument("words", nargs="+", metavar="-- COMMAND", help="the command that starts the server")

    _add_agent(add("agent", "lets an agent take part in a space elsewhere, until it is ended"))
    _add_tools_agent(add("tools-agent", "serves an agent as tools to MCP clients"))
    _add_conform(add("conform", "holds a gateway against the specification, over the wire alone"))

    demo = add("demo", "shows a proposal, a human's decision and a real tool, in this terminal")
    demo.add_argument("--message", metavar="TEXT", help="the message of the one commit in the repository")
    demo.add_argument("--keep", type=Path, metavar="DIR", help="an empty folder for repository and journal")
    demo.add_argument("--no-color", action="store_true", help="prints no colours")
    demo.add_argument("--yes", action="store_true", help="lets a policy approve instead of asking")
    return parser


def _add_agent(parser: argparse.ArgumentParser) -> None:
    about = "its settings, YAML or JSON; MEW_GATEWAY, MEW_SPACE, MEW_TOKEN and options count more"
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help=about)
    parser.add_argument("--gateway", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(parser)
    parser.add_argument("--model", metavar="M", help="offline (the built-in one), or a model's name")
    parser.add_argument("--base-url", metavar="URL", help="a server of the chat completions API")
    about = "the environment variable that holds that server's key; OPENAI_API_KEY unless given"
    parser.add_argument("--key-env", metavar="NAME", help=about)


def _add_journal(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "verify": "names the first line that is not as it was written",
        "prune": "deletes the older files of a journal that nobody writes, behind a snapshot to go on from",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument(
            "file", type=Path, metavar="FILE", help="the first file of the journal of a gateway"
        )
        about = (
            "heads of the chain that were kept elsewhere; those beside the tokens of the space unless given"
        )
        action.add_argument("--heads", type=Path, metavar="FILE", help=about)
        if name == "prune":
            about = "how many of the newest files stay; 1 unless given, with 0 the snapshot alone is left"
            action.add_argument("--keep", type=_count, default=1, metavar="N", help=about)
            action.add_argument("--yes", action="store_true", help="deletes without asking")


def _count(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 9:
        raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number of files")
    return int(word)


def _add_tools_agent(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "serve": "serves it to one client over stdio, or to many over HTTP on this machine",
        "join": "lets it take part in a space elsewhere, where its tools are those of the others",
        "check": "tells the faults of its file, and what to look at",
        "call": "runs one call, and shows the tools that were called and the result",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument("file", metavar="FILE", type=Path, help="the agent, YAML or JSON")
        if name == "check":
            continue
        if name == "serve":
            about = "over HTTP on 127.0.0.1, on a free port unless one is given; stdio without this option"
            action.add_argument("--http", metavar="PORT", nargs="?", type=int, const=0, help=about)
            about = "with --http: a file with the token that clients must show; one is made unless given"
            action.add_argument("--token-file", metavar="PATH", type=Path, help=about)
        elif name == "join":
            action.add_argument("url", metavar="URL", help="ws://… of the gateway")
            _add_elsewhere(action)
        else:
            action.add_argument("tool", metavar="TOOL", help="the name of the tool")
            action.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments")
        about = "a server of the chat completions API that has the model of its settings"
        action.add_argument("--base-url", metavar="URL", help=about)
        about = "the environment variable that holds that server's key; OPENAI_API_KEY unless given"
        action.add_argument("--key-env", metavar="NAME", help=about)


def _add_conform(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", help="ws://… of the gateway")
    files = {
        "--tokens": "a token for each role, yours alone to read; --write-space makes it",
        "--write-space": "instead of a run: writes a space.yaml with all roles, to start the gateway with",
        "--write-second": "with --write-space: also a second space, for a gateway that can run two",
        "--json": "writes the table there too, as JSON",
    }
    for flag, about in files.items():
        parser.add_argument(flag, metavar="FILE", type=Path, help=about)
    about = "rows to look at, such as P-3.6.8-2 or 'P-3.10*'; may be repeated"
    parser.add_argument("--only", metavar="IDS", action="append", default=[], help=about)
    parser.add_argument("--timeout", metavar="S", type=float, default=5.0, help="seconds an answer may take")
    parser.epilog = (
        "Exits with 0 when no row of the specification failed, 1 when some did, 2 when there was no run. "
        "A row that says MAY cannot fail; rulings of this project are counted apart and decide nothing."
    )


def _add_elsewhere(parser: argparse.ArgumentParser) -> None:
    """The options that name a space of another process."""
    parser.add_argument("--space", metavar="S", help="the name of the space")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", metavar="PATH", type=Path, help="a file with the token, yours alone to read"
    )
    token.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the token")
    parser.add_argument("--as", dest="as_id", metavar="ID", help="the participant id to join with")
