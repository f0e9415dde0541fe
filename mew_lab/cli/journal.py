"""`mew-lab replay`, `audit`, `journal` and `export`: what is done with the journal of a gateway."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from mew_lab.cli import shell
from mew_lab.errors import MewError
from mew_lab.gateway.auth import known_tokens
from mew_lab.log.export import export_as_peers
from mew_lab.log.integrity import keep_pruned, kept_heads, verify
from mew_lab.log.log import open_log
from mew_lab.log.prune import Pruned, prune
from mew_lab.log.reading import first_record, read_journal
from mew_lab.log.replay import replay

__all__ = ["run", "run_audit", "run_export", "run_replay"]


def run_replay(options: argparse.Namespace) -> None:
    """Replays a journal and reports whether a fresh space would have written the same.

    Raises:
        ReplayMismatch: it would not.
        JournalError: the file is no journal of a gateway.
    """
    with _verified_after(options.file):
        shell.say(str(replay(options.file)))


def run_audit(options: argparse.Namespace) -> None:
    """Reports who sent an envelope, and by which right, or why it was refused.

    Raises:
        MewError: there is no such envelope, or more than one.
    """
    with _verified_after(options.file, tell=False):
        shell.say(str(open_log(options.file).audit(options.id)))


@contextlib.contextmanager
def _verified_after(file: Path, heads: Path | None = None, *, tell: bool = True) -> Iterator[None]:
    """Verifies a journal after the work on it, and reports the result.

    Args:
        tell: Whether an intact journal is reported too.

    Raises:
        SystemExit: with 1, when the journal is not as it was written.
    """
    flaw = None
    try:
        yield
    finally:
        if file.is_file() and read_journal(file).format == "own":
            result = verify(file, kept_heads(file, heads))
            flaw = result.flaw
            if tell or flaw is not None:
                shell.say(str(result))
    if flaw is not None:
        raise SystemExit(1)


def run(options: argparse.Namespace) -> None:
    """Verifies a journal, or deletes its older files once a person has agreed.

    Raises:
        MewError: nobody can be asked, or the file is no journal.
        SystemExit: with 1, when the journal is not as it was written.
    """
    if options.action == "verify":
        with _verified_after(options.file, options.heads):
            return

    def ask_to_delete(pruned: Pruned) -> bool:
        shell.say(f"deletes {pruned}")
        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise MewError("nothing is deleted without a yes; say --yes where nobody can be asked")
        return shell.ask_yes_or_no("Delete them for ever?")

    done = prune(
        options.file, keep=options.keep, agree=ask_to_delete, heads=kept_heads(options.file, options.heads)
    )
    if done is None or done.head is None:
        shell.say("nothing was deleted")
        return
    shell.say(f"deleted {len(done.files)} files")
    kept = keep_pruned(options.file, options.heads, done.head)
    shell.say(f"its head is kept in {kept}" if kept else f"keep its head elsewhere: {done.head.chain}")


def run_export(options: argparse.Namespace) -> None:
    """Writes the log files that a TypeScript gateway would have written of a journal.

    Raises:
        MewError: the journal cannot be read, or a file is there already.
    """
    record = first_record(options.journal)
    above = (folder.parent for folder in options.journal.absolute().parents if folder.name == ".mew")
    # A token of the space that stands in a message is masked.
    known_tokens(next(above, Path.cwd()) / ".mew" / "tokens", record.space if record else "")

    def progress(sentence: str) -> None:
        shell.warn(f"mew-lab export: {sentence}")

    shell.say(str(export_as_peers(options.journal, options.to, force=options.force, progress=progress)))
