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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from mew_lab.bridge.client_settings import CLIENTS
from mew_lab.cli.shell import Formatter, log_to_stderr, tell_error, tell_failure, warn
from mew_lab.errors import ConfigError, FilterError, MewError
from mew_lab.settings.waiting import (
    ANSWER_AFTER,
    DECIDE_WITHIN,
    GRACE,
    RUN_WITHIN,
    WITHDRAW_AFTER,
    check_seconds,
)
from mew_lab.version import VERSION

__all__ = ["RUN", "Formatter", "build_parser", "main"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SEVERITIES = ("note", "warn", "error", "fatal")  # of the diagnosis, which is loaded when it is run
LEVELS = ("debug", "info", "warning", "error")


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = build_parser()
    if not (sys.argv[1:] if words is None else words):
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(words)
    log_to_stderr(getattr(options, "log_level", "warning").upper())
    threading.excepthook = lambda args: tell_error(args.exc_value)
    failed = _failure_status(options)
    try:
        RUN[options.command](options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has gone; the rest of the buffer must raise nothing at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except (ConfigError, FilterError) as fault:
        first, *others = str(fault).split("\n")
        tell_failure(options.command, first)
        for line in others:  # the faults of a file, or the place of the fault in a filter
            warn(line)
        return failed
    except MewError as fault:
        tell_failure(options.command, str(fault))
        return failed
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        tell_failure(options.command, f"{where}{fault.strerror or fault}")
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


def _run_verify(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_verify

    run_verify(options)


def _run_diagnose(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_diagnose

    run_diagnose(options)


def _run_export(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run_export

    run_export(options)


def _run_journal(options: argparse.Namespace) -> None:
    from mew_lab.cli.journal import run

    run(options)


def _run_bridge(options: argparse.Namespace) -> None:
    from mew_lab.cli.bridge import run

    run(options)


def _run_mcp(options: argparse.Namespace) -> None:
    from mew_lab.cli.mcp import run

    run(options)


def _run_tap(options: argparse.Namespace) -> None:
    from mew_lab.cli.tap import run

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
    "verify": _run_verify,
    "diagnose": _run_diagnose,
    "export": _run_export,
    "journal": _run_journal,
    "bridge": _run_bridge,
    "mcp": _run_mcp,
    "tap": _run_tap,
    "agent": _run_agent,
    "tools-agent": _run_tools_agent,
    "conform": _run_conform,
    "demo": _run_demo,
}


# --- command line ---


class _ShellParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists the options\n")


def build_parser() -> argparse.ArgumentParser:
    """The tree of commands and options."""
    parser = _ShellParser(
        prog="mew-lab", description="A workbench for the MEW Protocol v0.4.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name, help=about, description=about, allow_abbrev=False
        )
        return command

    serve = add("serve", "runs one or more spaces until it is interrupted")
    what = serve.add_mutually_exclusive_group()
    what.add_argument("--space", default="demo", metavar="NAME", help="the name of the space; default: demo")
    about = (
        "a space.yaml that describes a space and its participants; repeat it for several spaces on one port"
    )
    what.add_argument("--space-config", type=Path, metavar="FILE", action="append", help=about)
    about = "the journal of a space that ran before and is to be resumed"
    what.add_argument("--resume", type=Path, metavar="FILE", help=about)
    about = "with ignore, a journal is resumed for which the heads that were kept elsewhere do not vouch"
    serve.add_argument("--heads", choices=("check", "ignore"), default="check", help=about)
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        choices=LOOPBACK,
        help="the loopback address to listen on; default: 127.0.0.1",
    )
    serve.add_argument("--port", type=int, default=0, metavar="N", help="the port; default: a free one")
    about = "the participant that owns the space; default: human, or the owner in the space.yaml"
    serve.add_argument("--as", dest="as_id", metavar="ID", help=about)
    about = "does not start the agents and bridges of the space.yaml"
    serve.add_argument("--no-auto-start", action="store_true", help=about)
    profiles = "human, proposer, agent, tool, observer or admin; default: agent"
    about = f"enrols another participant as {profiles}; may be repeated"
    serve.add_argument("--enrol", action="append", default=[], metavar="ID=PROFILE", help=about)
    _add_mcp_config(serve)
    serve.add_argument(
        "--journal", type=Path, metavar="PATH", help="the journal file; default: a new one below .mew"
    )
    serve.add_argument(
        "--log-level", default="warning", choices=LEVELS, help="the lowest level of the log on stderr"
    )

    join = add("join", "takes part in a space from this terminal")
    join.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(join)
    join.add_argument("--no-color", action="store_true", help="prints no colours")

    tail = add("tail", "prints the messages of a journal or of a running space, one a line")
    tail.add_argument("source", metavar="FILE|URL", help="a log, or ws://… of a gateway")
    tail.add_argument(
        "--follow", "-f", action="store_true", help="waits for new records at the end of a file"
    )
    tail.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="prints only the messages that pass a filter, such as 'kind ~ \"mcp/*\" and from == agent'",
    )
    tail.add_argument("--json", action="store_true", help="prints the exact text of each message")
    tail.add_argument("--no-color", action="store_true", help="prints no colours")
    _add_elsewhere(tail)

    replay = add("replay", "replays a journal in a new space and reports the first record that differs")
    replay.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")

    audit = add(
        "audit",
        "reports the sender of a message, and why it was accepted or refused",
    )
    audit.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")
    audit.add_argument(
        "id",
        metavar="ID",
        help="the message's number, such as '#13', its id, or the first characters of a proposal's id",
    )

    verify = add(
        "verify",
        "checks that a journal is unchanged and that somebody decided each call that was executed for a proposal",
    )
    verify.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway, or another log")
    about = "the heads that were kept elsewhere; default: those beside the tokens of the lab"
    verify.add_argument("--heads", type=Path, metavar="FILE", help=about)
    about = "accepts a log that nothing vouches for: 0 in place of 2"
    verify.add_argument("--unchained-ok", action="store_true", help=about)
    verify.epilog = (
        "A receipt is the record of one decision: who or which policy decided which proposal, when, how, and the digest "
        "of what was shown. The exit status is the first that holds: 1 when the journal was changed after it was "
        "written; 3 when a call was executed for a proposal and nobody decided that; 2 when it is not verifiable, "
        "because it has no chain, a part has none, or no head was kept of it where heads of its space were kept then, "
        "and when the file is missing or cannot be read; otherwise 0, also where a decision was made elsewhere: then it "
        "is known who decided, and not what was shown. A saved copy has no chain; heads that were kept of its journal "
        "vouch for it up to the last that agrees."
    )

    diagnose = add("diagnose", "reports the faults and oddities of a log, the worst first")
    diagnose.add_argument(
        "file", type=Path, metavar="FILE", help="a journal, or the folder of the log files of another gateway"
    )
    about = "prints only findings of at least this severity: note (default), warn, error or fatal"
    diagnose.add_argument("--severity", choices=SEVERITIES, default="note", help=about)
    diagnose.add_argument("--json", action="store_true", help="prints each finding as a line of JSON")
    diagnose.epilog = (
        "The exit status is 0 when nothing worse than a note was found, 1 when there is a warning, an error or worse, "
        "or when the log cannot be read."
    )

    export = add("export", "writes the log files of a TypeScript gateway from a journal")
    export.add_argument(
        "journal", type=Path, metavar="JOURNAL", help="the first file of the journal of a gateway"
    )
    about = "the format: peers, for envelope-history.jsonl and capability-decisions.jsonl"
    export.add_argument("--as", dest="as_format", choices=("peers",), required=True, help=about)
    about = "the folder for the files; default: the working directory"
    export.add_argument("--to", type=Path, metavar="FOLDER", default=Path(), help=about)
    export.add_argument("--force", action="store_true", help="replaces existing files")

    _add_journal(add("journal", "verifies a journal, or deletes its older files"))

    bridge = add("bridge", "connects an MCP server to a running space as a participant")
    bridge.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(bridge)
    about = "an environment variable to pass to the server; may be repeated"
    bridge.add_argument("--env", action="append", default=[], metavar="VARIABLE", help=about)
    about = "seconds to wait for the server's first answer; default: 30, with npx, uvx and their like 300"
    bridge.add_argument("--init-timeout", type=float, metavar="SECONDS", help=about)
    about = "a header for a server at a URL, such as 'Authorization: Bearer ${TOKEN}'; may be repeated"
    bridge.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help=about)
    about = "the transport of a server at a URL; default: sse where its path ends with /sse, else http"
    bridge.add_argument("--transport", choices=("http", "sse"), help=about)
    about = "how often within a minute a server that ends by itself is started again; default: 0"
    bridge.add_argument("--restarts", type=int, default=0, metavar="N", help=about)
    about = "the participant that answers for the server where no person decided its call, such as human"
    bridge.add_argument("--owner", metavar="ID", help=about)
    about = (
        "lets the server ask the owner for replies of a model; each is approved there (lab.allow_sampling)"
    )
    bridge.add_argument("--sampling", action="store_true", help=about)
    about = "a folder that the server is told of; may be repeated"
    bridge.add_argument("--root", action="append", metavar="FOLDER", help=about)
    about = "refuses to repeat a call of unknown outcome even where the tool only reads, or is idempotent"
    bridge.add_argument("--strict-unknown", action="store_true", help=about)
    about = "how long an equal call counts as such a repeat; default: 24 hours"
    bridge.add_argument("--repeats-within", type=float, metavar="SECONDS", help=about)
    _add_mcp_config(bridge)
    about = "with --mcp-config: a server of the file; default: all; may be repeated"
    bridge.add_argument("--server", action="append", default=[], metavar="NAME", help=about)
    about = "the bytes of the largest result that is kept where no message can hold it; default: 64 MiB"
    bridge.add_argument("--result-bytes", type=int, metavar="N", help=about)
    about = "the bytes of all such results together; default: 256 MiB"
    bridge.add_argument("--results-bytes", type=int, metavar="N", help=about)
    about = "how long such a result is kept; default: 24 hours"
    bridge.add_argument("--results-seconds", type=float, metavar="SECONDS", help=about)
    about = "the command that starts the server, or the URL of a server that runs elsewhere"
    words = bridge.add_argument("words", nargs="+", metavar="-- COMMAND", help=about)
    words.required = False  # with "*", the address alone would fill it, and a command behind the options none

    _add_mcp(
        add(
            "mcp",
            "offers a running space to an MCP client as one server, with a person's approval of its calls",
        )
    )

    tap = add(
        "tap", "relays between an MCP client and an MCP server, unchanged, and records both in a journal"
    )
    about = "the journal, a new file; default: a new one below .mew/tap"
    tap.add_argument("--journal", type=Path, metavar="PATH", help=about)
    about = (
        "instead of a command: the loopback address and port for clients over HTTP; port 0 takes a free one"
    )
    tap.add_argument("--listen", metavar="HOST:PORT", help=about)
    tap.add_argument("--to", metavar="URL", help="with --listen: the address of the server")
    about = "the command that starts the server, over stdio"
    tap.add_argument("words", nargs="*", metavar="-- COMMAND", help=about)

    _add_agent(add("agent", "runs an agent in a running space until it is interrupted"))
    _add_tools_agent(add("tools-agent", "serves an agent as tools to MCP clients"))
    _add_conform(add("conform", "tests any gateway against the specification, over the network"))

    demo = add("demo", "shows a proposal, a human's decision and a real tool, in this terminal")
    demo.add_argument("--message", metavar="TEXT", help="the message of the one commit in the repository")
    demo.add_argument(
        "--keep", type=Path, metavar="DIR", help="an empty or new folder for repository and journal"
    )
    demo.add_argument("--no-color", action="store_true", help="prints no colours")
    demo.add_argument("--yes", action="store_true", help="lets a policy approve instead of asking")
    return parser


def _add_mcp_config(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the servers of the file of an MCP client."""
    about = "the file of an MCP client, such as .mcp.json, whose servers take part; each is asked for once"
    parser.add_argument("--mcp-config", type=Path, metavar="FILE", help=about)
    about = "allows the entry of this digest without a question; may be repeated"
    parser.add_argument("--trust-config", action="append", default=[], metavar="SHA256", help=about)


def _add_agent(parser: argparse.ArgumentParser) -> None:
    about = "the settings, YAML or JSON; MEW_GATEWAY, MEW_SPACE, MEW_TOKEN and options override them"
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help=about)
    parser.add_argument("--gateway", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(parser)
    parser.add_argument("--model", metavar="M", help="offline (the built-in model), or the name of a model")
    parser.add_argument(
        "--base-url", metavar="URL", help="the address of a server of the chat completions API"
    )
    about = "the environment variable that holds that server's key; default: OPENAI_API_KEY"
    parser.add_argument("--key-env", metavar="NAME", help=about)


def _add_journal(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "verify": "checks the chain of the journal and names the first line that was changed",
        "prune": "deletes the older files of a journal that no process writes, and keeps a snapshot to resume from",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument(
            "file", type=Path, metavar="FILE", help="the first file of the journal of a gateway"
        )
        about = "a file with earlier heads of the chain; default: the one beside the tokens of the space"
        action.add_argument("--heads", type=Path, metavar="FILE", help=about)
        if name == "prune":
            about = "the number of newest files to keep; default: 1; with 0 only the snapshot is left"
            action.add_argument("--keep", type=_count, default=1, metavar="N", help=about)
            action.add_argument("--yes", action="store_true", help="deletes without asking")
        else:
            action.epilog = (
                "The exit status is 1 when the journal was changed after it was written, 2 when it is missing or cannot "
                "be read, otherwise 0."
            )


def _count(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 9:
        raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number of files")
    return int(word)


def _add_tools_agent(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    abouts = {
        "serve": "serves the agent to one client over stdio, or to several over HTTP on this machine",
        "join": "runs the agent in a running space, with the tools of the other participants",
        "check": "reports the faults of the agent file, and remarks for its author",
        "call": "runs one call; prints the tools that were called and the result",
    }
    for name, about in abouts.items():
        action = actions.add_parser(name, help=about, description=about, allow_abbrev=False)
        action.add_argument("file", metavar="FILE", type=Path, help="the agent file, YAML or JSON")
        if name == "check":
            continue
        if name == "serve":
            about = "serves over HTTP on 127.0.0.1; default port: a free one; without this option over stdio"
            action.add_argument("--http", metavar="PORT", nargs="?", type=int, const=0, help=about)
            about = "with --http: the file with the token of the clients; default: a new one beside the agent file"
            action.add_argument("--token-file", metavar="PATH", type=Path, help=about)
        elif name == "join":
            action.add_argument("url", metavar="URL", help="ws://… of the gateway")
            _add_elsewhere(action)
            about = "also uses tools that it may only propose: such a call waits for a participant that approves it"
            action.add_argument("--propose", action="store_true", help=about)
            about = "proposes each call that needs a permission by the agent file, too; it includes --propose"
            action.add_argument("--interactive", action="store_true", help=about)
        else:
            action.add_argument("tool", metavar="TOOL", help="the name of the tool")
            action.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="its arguments")
        action.add_argument("--model", metavar="NAME", help="another model than that of the agent file")
        about = "the address of a server of the chat completions API that has the agent's model"
        action.add_argument("--base-url", metavar="URL", help=about)
        about = "the environment variable that holds that server's key; default: OPENAI_API_KEY"
        action.add_argument("--key-env", metavar="NAME", help=about)
        about = "runs an agent file that names supervisors, which review nothing here"
        action.add_argument("--without-supervisors", action="store_true", help=about)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(parser)
    about = "instead of a run: prints what to paste into the settings of this client"
    parser.add_argument("--config", choices=CLIENTS, help=about)
    about = "serves over HTTP on 127.0.0.1; default port: a free one; without this option over stdio"
    parser.add_argument("--http", metavar="PORT", nargs="?", type=int, const=0, help=about)
    about = "with --http: the file with the token of the clients; default: a new one below .mew"
    parser.add_argument("--client-token-file", metavar="PATH", type=Path, help=about)
    about = "the participant whose tools have their own names, without its name before them"
    parser.add_argument("--bare-names", metavar="PARTICIPANT", default="", help=about)
    abouts = {
        "--answer-after": (
            ANSWER_AFTER,
            "seconds after which a call that still waits is answered as pending",
        ),
        "--decide-within": (DECIDE_WITHIN, "seconds after which a call that nobody decided is refused"),
        "--run-within": (
            RUN_WITHIN,
            "seconds after which an approved call that its tool has not answered ends as unknown",
        ),
        "--grace": (GRACE, "seconds that a call still waits for a client that is gone"),
        "--withdraw-after": (
            WITHDRAW_AFTER,
            "seconds after which a call that its client cancelled is withdrawn",
        ),
    }
    for flag, (seconds, about) in abouts.items():
        about = f"{about}; default: {seconds:g}"
        parser.add_argument(flag, type=_seconds, default=seconds, metavar="S", help=about)


def _seconds(word: str) -> float:
    try:
        return check_seconds(float(word), key="seconds")
    except (ValueError, ConfigError):
        raise argparse.ArgumentTypeError(
            f"{word[:20]!r} is no number of seconds above 0, up to 30 days"
        ) from None


def _add_conform(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", help="ws://… of the gateway")
    files = {
        "--tokens": "the file with a token for each role, readable by you alone; --write-space makes it",
        "--write-space": "instead of a run: writes a space.yaml with all roles, for the start of the gateway",
        "--write-second": "with --write-space: also writes a second space, for a gateway that can run two",
        "--json": "also writes the table to this file, as JSON",
    }
    for flag, about in files.items():
        parser.add_argument(flag, metavar="FILE", type=Path, help=about)
    about = "the rows to test, such as P-3.6.8-2 or 'P-3.10*'; may be repeated"
    parser.add_argument("--only", metavar="IDS", action="append", default=[], help=about)
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=5.0, help="seconds to wait for an answer"
    )
    parser.epilog = (
        "The exit status is 0 when no row of the specification failed, 1 when some did, 2 when there was no run. "
        "A row that says MAY cannot fail. Rulings of this project are counted separately and do not change the status."
    )


def _add_elsewhere(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name a space of another process, its token and the participant."""
    parser.add_argument("--space", metavar="S", help="the name of the space")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", metavar="PATH", type=Path, help="the file that holds the token, readable by you alone"
    )
    token.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the token")
    parser.add_argument("--as", dest="as_id", metavar="ID", help="the participant id to join with")
