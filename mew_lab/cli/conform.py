"""`mew-lab conform`: writes the files that a run of the conformance suite needs, or runs it and reports.

The exit status is 0 when no row of the specification failed, 1 when one did, 2 when there was no run. Rulings of this
project and rows that say MAY cannot fail a run.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from mew_lab.cli import shell
from mew_lab.conformance.profile import fresh, read_profile, space_file, write_private, write_profile
from mew_lab.conformance.report import lines, to_json
from mew_lab.conformance.suite import decides, play
from mew_lab.errors import ConfigError, MewError

__all__ = ["add_options", "conform", "run"]

Say = Callable[[str], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
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


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        SystemExit: The status of the run, unless it is 0.
    """
    arguments = {name: value for name, value in vars(options).items() if name not in ("command", "run")}
    if status := conform(**arguments, say=shell.say, progress=shell.warn):
        raise SystemExit(status)


def conform(
    url: str | None,
    *,
    tokens: Path | None,
    write_space: Path | None = None,
    write_second: Path | None = None,
    only: Sequence[str] = (),
    json: Path | None = None,
    timeout: float = 5.0,
    say: Say,
    progress: Say,
) -> int:
    """Runs the whole command; returns the exit status.

    With `write_space` it writes a space.yaml, and the tokens file beside it. `progress` receives an error as one
    sentence.
    """
    try:
        if write_space is not None:
            if url is not None:
                raise ConfigError(
                    "--write-space takes no URL: write the files first, start a gateway, then run without --write-space"
                )
            return _write(write_space, write_second, tokens, say)
        if url is None or tokens is None:
            missing = "a URL" if url is None else "--tokens FILE"
            raise ConfigError(f"{missing} is missing; --write-space FILE makes the files for a run")
        if not timeout > 0:
            raise ConfigError("--timeout takes a number of seconds above 0")
        ids = [id for word in only for id in word.replace(",", " ").split()]
        results = asyncio.run(play(url, tokens=tokens, only=ids, timeout=timeout, progress=progress))
        for line in lines(results):
            say(line)
        if json is not None:
            _write_json(json, to_json(results))
        return int(any(map(decides, results)))
    except MewError as fault:
        progress(f"mew-lab conform: {' '.join(str(fault).split())}")
        return 2


def _write(space: Path, second: Path | None, tokens: Path | None, say: Say) -> int:
    tokens = tokens or space.with_name(f"{space.stem}.tokens.json")
    files = [path.absolute() for path in (space, second, tokens) if path is not None]
    if len(set(files)) < len(files):
        raise ConfigError("The files to write must have different names")
    profile = fresh(second=second is not None)
    if tokens.exists():  # a gateway may run with these tokens, so they stay
        earlier = read_profile(tokens)
        profile = earlier if earlier.second or not second else earlier._replace(second=profile.second)
    write_profile(tokens, profile)
    write_private(space, space_file(profile))
    say(f"wrote {space}: the space {profile.space!r}; start a gateway with it")
    if second is not None and profile.second is not None:
        write_private(second, space_file(profile.second))
        say(
            f"wrote {second}: the space {profile.second.space!r}; start the same gateway with both, for example by"
        )
        say(
            f"  {shlex.join(['mew-lab', 'serve', '--space-config', str(space), '--space-config', str(second)])}"
        )
    say(f"wrote {tokens}; when the gateway runs: mew-lab conform URL --tokens {tokens}")
    return 0


def _write_json(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"{path} could not be written: {fault.strerror}", path=str(path)) from None
