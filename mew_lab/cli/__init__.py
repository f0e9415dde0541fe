"""What does `mew-lab` do in a shell?  Parses its words, calls a room below, prints what comes.

Errors are one line on stderr, and one for each fault of a space.yaml: exit 2 for a command that is written wrongly,
1 for one that fails. No option takes a token: an argument list can be read by every user of a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mew_lab.cli.parser import build_parser
from mew_lab.errors import ConfigError, MewError
from mew_lab.protocol.visible import for_terminal

if TYPE_CHECKING:
    from mew_lab.lab.lab import Lab

__all__ = ["Formatter", "build_parser", "main"]


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    options = build_parser().parse_args(words)
    _log_to_stderr(getattr(options, "log_level", "warning").upper())
    threading.excepthook = lambda fault: _fault(fault.exc_value)
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
        status = _failed(options.command, first)
        for one in others:  # the faults of a file
            print(for_terminal(one), file=sys.stderr)
        return status
    except MewError as fault:
        return _failed(options.command, str(fault))
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        return _failed(options.command, f"{where}{fault.strerror or fault}")
    except KeyboardInterrupt:
        return 130
    except Exception as fault:
        _fault(fault)
        return 1
    return 0


def _fault(fault: BaseException | None) -> None:
    """Tells a fault of ours as Python does, but nothing in it moves a cursor: it may quote what a peer wrote."""
    if fault is not None:
        print(for_terminal("".join(traceback.format_exception(fault)).rstrip("\n")), file=sys.stderr)


def _failed(command: str, sentence: str) -> int:
    print(for_terminal(f"mew-lab {command}: {' '.join(sentence.split())}"), file=sys.stderr)
    return 1


def _say(text: str) -> None:
    """The one way to stdout: nothing that a peer wrote moves a cursor or hides."""
    print(for_terminal(text), flush=True)


class Formatter(logging.Formatter):
    """Log lines for a terminal: what they quote is made visible."""

    def format(self, record: logging.LogRecord) -> str:
        return for_terminal(super().format(record))


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def _colour(options: argparse.Namespace) -> bool:
    return not options.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


# --- serve and bridge ------------------------------------------------------------------------------------------


def _serve(options: argparse.Namespace) -> None:
    from mew_lab.cli.serve import serve, serve_again, serve_files
    from mew_lab.gateway.space_file import read_space_file

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
        files = [read_space_file(path) for path in options.space_config]
        await serve_files(
            files, person=options.as_id, auto_start=not options.no_auto_start, ended=ended, **more
        )
        return None

    # What is loaded by now stays: a full collection that walks all of it would hold everybody up for 20 ms.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _bridge(options: argparse.Namespace) -> None:
    from mew_lab.cli.bridge import bridge
    from mew_lab.lab.labs import token_from

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


def _agent(options: argparse.Namespace) -> None:
    from mew_lab.cli.agent_runner import run_agent, settings_of
    from mew_lab.lab.labs import token_from

    told = options.token_file is not None or options.token_env is not None
    token = token_from(file=options.token_file, variable=options.token_env) if told else None
    settings = settings_of(
        options.file,
        gateway=options.gateway,
        space=options.space,
        token=token,
        participant_id=options.as_id,
        model=options.model,
        base_url=options.base_url,
        key_env=options.key_env,
    )

    async def run() -> None:
        await run_agent(settings, ended=_ended_by_signal(), say=_say)

    asyncio.run(run())


def _tools_agent(options: argparse.Namespace) -> None:
    from mew_lab.cli import agent_tools as command

    if options.action == "join":
        _check_elsewhere(options.url, options)
    if options.action == "check":
        return command.check(options.file, say=_say)
    how = {"base_url": options.base_url, "api_key": command.key_from(options.key_env)}

    async def run() -> bool:
        if options.action == "serve":
            await command.serve(
                options.file,
                http=options.http,
                token_file=options.token_file,
                ended=_ended_by_signal(),
                say=_say,
                **how,
            )
            return False
        if options.action == "join":
            from mew_lab.lab.labs import token_from
            from mew_lab.sdk.client import MEWClient

            token = token_from(file=options.token_file, variable=options.token_env)
            client = MEWClient(
                options.url, space=options.space, token=token, participant_id=options.as_id or None
            )
            await command.join(options.file, client, ended=_ended_by_signal(), say=_say, **how)
            return False
        done = await command.call(options.file, options.tool, options.arguments, say=_say, **how)
        return done.is_error

    if asyncio.run(run()):
        raise SystemExit(1)
    return None


def _conform(options: argparse.Namespace) -> None:
    from mew_lab.cli.conform import conform

    words = {name: value for name, value in vars(options).items() if name != "command"}
    status = conform(
        **words, say=_say, progress=lambda line: print(for_terminal(line), file=sys.stderr, flush=True)
    )
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
    from mew_lab.lab.labs import close_all, connect

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
    from mew_lab.cli.console import Console
    from mew_lab.cli.terminal import Quit, obey

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
    from mew_lab.cli.console import Console
    from mew_lab.cli.terminal import journal_lines

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

    with _vouched(options.file):
        _say(str(replay(options.file)))


def _audit(options: argparse.Namespace) -> None:
    from mew_lab.log.log import open_log

    with _vouched(options.file, tell=False):
        _say(str(open_log(options.file).audit(options.id)))


@contextlib.contextmanager
def _vouched(file: Path, heads: Path | None = None, *, tell: bool = True) -> Iterator[None]:
    """Says behind an answer whether the journal stands as it was written; exits with 1 where it does not.

    Args:
        tell: Whether to say it also where it does.
    """
    from mew_lab.log.integrity import kept_heads, verify
    from mew_lab.log.reading import read_journal

    flaw = None
    try:
        yield
    finally:
        if file.is_file() and read_journal(file).format == "own":
            found = verify(file, kept_heads(file, heads))
            flaw = found.flaw
            if tell or flaw is not None:
                _say(str(found))
    if flaw is not None:
        raise SystemExit(1)


def _journal(options: argparse.Namespace) -> None:
    from mew_lab.log.integrity import keep_pruned, kept_heads
    from mew_lab.log.prune import Pruned, prune

    if options.action == "verify":
        with _vouched(options.file, options.heads):
            return

    def agree(goes: Pruned) -> bool:
        _say(f"deletes {goes}")
        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise MewError("nothing is deleted without a yes; say --yes where nobody can be asked")
        return _yes_or_no("Delete them for ever?")

    done = prune(options.file, keep=options.keep, agree=agree, heads=kept_heads(options.file, options.heads))
    if done is None or done.head is None:
        _say("nothing was deleted")
        return
    _say(f"deleted {len(done.files)} files")
    kept = keep_pruned(options.file, options.heads, done.head)
    _say(f"its head is kept in {kept}" if kept else f"keep its head elsewhere: {done.head.chain}")


def _export(options: argparse.Namespace) -> None:
    from mew_lab.gateway.auth import known_tokens
    from mew_lab.log.export import export_as_peers
    from mew_lab.log.reading import first_record

    opened = first_record(options.journal)
    above = (one.parent for one in options.journal.absolute().parents if one.name == ".mew")
    # Who has said one of these in a message is shown with its mask.
    known_tokens(next(above, Path.cwd()) / ".mew" / "tokens", opened.space if opened else "")

    def tell(sentence: str) -> None:
        print(for_terminal(f"mew-lab export: {sentence}"), file=sys.stderr, flush=True)

    _say(str(export_as_peers(options.journal, options.to, force=options.force, progress=tell)))


# --- demo ------------------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> None:
    from mew_lab.cli import demo
    from mew_lab.lab.labs import close_all

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


RUN: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "serve": _serve,
    "join": _join,
    "tail": _tail,
    "replay": _replay,
    "audit": _audit,
    "export": _export,
    "journal": _journal,
    "bridge": _bridge,
    "agent": _agent,
    "tools-agent": _tools_agent,
    "conform": _conform,
    "demo": _demo,
}
