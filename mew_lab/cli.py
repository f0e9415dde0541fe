"""What does `mew-lab` do in a shell?  Parses its words, calls a room below, prints what comes.

Errors are one line on stderr, and one for each fault of a space.yaml: exit 2 for a command that is written wrongly,
1 for one that fails. No option takes a token: an argument list can be read by every user of a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mew_lab.errors import ConfigError, MewError

if TYPE_CHECKING:
    from mew_lab.workbench.lab import Lab

__all__ = ["build_parser", "main"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEVELS = ("debug", "info", "warning", "error")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help tells more\n")


def build_parser() -> argparse.ArgumentParser:
    """The tree of commands and options."""
    parser = _Parser(prog="mew-lab", description="A workbench for the MEW Protocol v0.4.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = commands.add_parser(
            name, help=about, description=about, allow_abbrev=False
        )
        one.set_defaults(run=run)
        return one

    serve = add("serve", _serve, "runs a space until it is interrupted")
    what = serve.add_mutually_exclusive_group()
    what.add_argument("--space", default="demo", metavar="NAME", help="its name; demo unless given")
    about = "a space.yaml that describes it, with its participants"
    what.add_argument("--space-config", type=Path, metavar="FILE", help=about)
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

    join = add("join", _join, "takes part in a space from this terminal")
    join.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(join)
    join.add_argument("--no-color", action="store_true", help="prints no colours")

    tail = add("tail", _tail, "prints the messages of a journal or of a running space, one a line")
    tail.add_argument("source", metavar="FILE|URL", help="a journal, or ws://… of a gateway")
    tail.add_argument("--follow", "-f", action="store_true", help="waits for more at the end of a file")
    tail.add_argument("--json", action="store_true", help="prints the exact text of each envelope")
    tail.add_argument("--no-color", action="store_true", help="prints no colours")
    _add_elsewhere(tail)

    replay = add(
        "replay", _replay, "does again what a journal tells, and says where it would come out otherwise"
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")

    audit = add("audit", _audit, "tells who sent an envelope, and by which right or why not")
    audit.add_argument("file", type=Path, metavar="FILE", help="the journal of a gateway")
    audit.add_argument("id", metavar="ID", help="the envelope's id, or a beginning that only it has")

    bridge = add("bridge", _bridge, "lets an MCP server take part in a space elsewhere")
    bridge.add_argument("url", metavar="URL", help="ws://… of the gateway")
    _add_elsewhere(bridge)
    about = "an environment variable that the server may see; may be repeated"
    bridge.add_argument("--env", action="append", default=[], metavar="VARIABLE", help=about)
    about = "seconds that the server may take to answer at first; 20 unless given"
    bridge.add_argument("--init-timeout", type=float, default=20.0, metavar="SECONDS", help=about)
    bridge.add_argument("words", nargs="+", metavar="-- COMMAND", help="the command that starts the server")

    _add_conform(add("conform", _conform, "holds a gateway against the specification, over the wire alone"))

    demo = add("demo", _demo, "shows a proposal, a human's decision and a real tool, in this terminal")
    demo.add_argument("--message", metavar="TEXT", help="the message of the one commit in the repository")
    demo.add_argument("--keep", type=Path, metavar="DIR", help="an empty folder for repository and journal")
    demo.add_argument("--no-color", action="store_true", help="prints no colours")
    demo.add_argument("--yes", action="store_true", help="lets a policy approve instead of asking")
    return parser


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
    parser.epilog = "Exits with 0 when no row failed, 1 when some did, 2 when there was no run."


def _add_elsewhere(parser: argparse.ArgumentParser) -> None:
    """What names a space that runs in another process."""
    parser.add_argument("--space", metavar="S", help="the name of the space")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", metavar="PATH", type=Path, help="a file with the token, yours alone to read"
    )
    token.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the token")
    parser.add_argument("--as", dest="as_id", metavar="ID", help="the participant id to join with")


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    options = build_parser().parse_args(words)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered must not complain at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ConfigError as fault:
        first, *others = str(fault).split("\n")
        status = _failed(options.command, first)
        for one in others:  # the faults of a file
            print(one, file=sys.stderr)
        return status
    except MewError as fault:
        return _failed(options.command, str(fault))
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        return _failed(options.command, f"{where}{fault.strerror or fault}")
    except KeyboardInterrupt:
        return 130
    return 0


def _failed(command: str, sentence: str) -> int:
    print(f"mew-lab {command}: {' '.join(sentence.split())}", file=sys.stderr)
    return 1


def _say(text: str) -> None:
    print(text, flush=True)


def _colour(options: argparse.Namespace) -> bool:
    return not options.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


# --- serve and bridge ------------------------------------------------------------------------------------------


def _serve(options: argparse.Namespace) -> None:
    from mew_lab.gateway.space_file import read_space_file
    from mew_lab.workbench.serve import serve, serve_again, serve_file

    logging.basicConfig(level=options.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    enrolled = [
        (name, profile or "proposer") for name, _, profile in (one.partition("=") for one in options.enrol)
    ]

    more: dict[str, Any] = {
        "enrolled": enrolled,
        "journal": options.resume or options.journal,
        "host": options.host,
        "port": options.port,
        "say": _say,
    }

    async def run() -> None:
        ended = _ended_by_signal()
        if options.resume is not None:
            return await serve_again(ended=ended, **more)
        if options.space_config is None:
            owner = options.as_id or "human"
            return await serve(options.space, owner=owner, folder=Path.cwd(), ended=ended, **more)
        file = read_space_file(options.space_config)
        person = options.as_id or file.config.default_participant
        return await serve_file(
            file, person=person, auto_start=not options.no_auto_start, ended=ended, **more
        )

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _bridge(options: argparse.Namespace) -> None:
    from mew_lab.workbench.labs import token_from
    from mew_lab.workbench.serve import bridge

    if not options.as_id:
        raise MewError("cannot bridge: --as names no participant for the server to be")
    _check_elsewhere(options.url, options)
    token = token_from(file=options.token_file, variable=options.token_env)

    async def run() -> None:
        await bridge(
            options.url,
            options.words,
            space=options.space,
            token=token,
            participant=options.as_id,
            env=options.env,
            start_timeout=options.init_timeout,
            say=_say,
            ended=_ended_by_signal(),
        )

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _conform(options: argparse.Namespace) -> None:
    from mew_lab.conformance.command import conform

    words = {name: value for name, value in vars(options).items() if name not in ("command", "run")}
    status = conform(**words, say=_say, progress=lambda line: print(line, file=sys.stderr, flush=True))
    if status:
        raise SystemExit(status)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _ended_by_signal() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, ended.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
    return ended


# --- join and tail ---------------------------------------------------------------------------------------------


def _check_elsewhere(url: str, options: argparse.Namespace) -> None:
    if not options.space:
        raise MewError(f"cannot join {url}: --space names no space; whoever runs it knows its name")
    if options.token_file is None and options.token_env is None:
        raise MewError(f"cannot join {url}: give --token-file PATH or --token-env NAME")


@contextlib.contextmanager
def _connected(url: str, options: argparse.Namespace) -> Iterator[Lab]:
    from mew_lab.workbench.labs import close_all, connect

    _check_elsewhere(url, options)
    try:
        yield connect(
            url,
            space=options.space,
            token_file=options.token_file,
            token_env=options.token_env,
            as_id=options.as_id,
        )
    finally:
        close_all()


def _join(options: argparse.Namespace) -> None:
    from mew_lab.workbench.console import Console
    from mew_lab.workbench.terminal import Quit, obey

    with _connected(options.url, options) as lab:
        _say(f"You are {lab.me.participant.client.id} in {lab.space}; /help lists what you can type.")
        for line in Console(lab, say=_say, colour=_colour(options)).lines(reading=True):
            try:
                if answer := obey(lab, line):
                    _say(answer)
            except Quit:
                return
            except MewError as fault:
                _failed("join", str(fault))


def _tail(options: argparse.Namespace) -> None:
    from mew_lab.workbench.console import Console
    from mew_lab.workbench.terminal import journal_lines

    if "://" in options.source:
        with _connected(options.source, options) as lab:
            console = Console(lab, say=_say, colour=_colour(options), exact=options.json)
            for _ in console.lines(reading=False):
                pass
        return
    path = Path(options.source)
    for line in journal_lines(path, follow=options.follow, exact=options.json, colour=_colour(options)):
        _say(line)


# --- replay and audit ------------------------------------------------------------------------------------------


def _replay(options: argparse.Namespace) -> None:
    from mew_lab.log.replay import replay

    _say(str(replay(options.file)))


def _audit(options: argparse.Namespace) -> None:
    from mew_lab.log.log import open_log

    _say(str(open_log(options.file).audit(options.id)))


# --- demo ------------------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> None:
    from mew_lab.workbench import demo
    from mew_lab.workbench.labs import close_all

    demo.check()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="mew-lab-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise MewError(f"the folder {folder} is not empty; the demo wants an empty or a new one")
    ask = None if options.yes or not sys.stdin.isatty() else _yes_or_no
    more: dict[str, Any] = {} if options.message is None else {"message": options.message}
    try:
        demo.tell(folder.resolve(), say=_say, ask=ask, colour=_colour(options), **more)
    finally:
        close_all()


def _yes_or_no(question: str) -> bool:
    while True:
        try:
            answer = input(f"{question} [y/n] ").strip().lower()
        except EOFError:
            return False
        if answer in ("y", "yes", "n", "no"):
            return answer.startswith("y")


if __name__ == "__main__":
    raise SystemExit(main())
