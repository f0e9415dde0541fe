"""Writes a journal as the log files of the peers, with all lines that a TypeScript gateway would have written.

Spec: §3.6.8.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from mew_lab.errors import JournalError, MewError
from mew_lab.log.peer_files import DECISIONS, HISTORY, JournalLines
from mew_lab.log.reading import list_files, read_journal
from mew_lab.log.redaction import mask_text, secrets_mask
from mew_lab.log.tail import JournalChanged, Tail
from mew_lab.log.unpacked import is_packed
from mew_lab.protocol.likely_secrets import SecretMask
from mew_lab.protocol.text import count_of
from mew_lab.transport.scratch import path_beside

__all__ = ["Exported", "export_as_peers"]

CHUNK = 1024 * 1024  # bytes of the journal that are read at a time
EVERY = 2.0  # seconds between two reports


class Exported(NamedTuple):
    """The result of an export: the two files, and the number of lines in each."""

    history: Path
    decisions: Path
    history_lines: int
    decisions_lines: int
    torn: int = 0
    """The bytes of the journal's last line, which has no end and was left out."""
    masked: str = ""
    """How many likely secrets were masked, as text."""

    def __str__(self) -> str:
        torn = (
            f"; the last line, of {count_of(self.torn, 'byte')}, is torn and was left out"
            if self.torn
            else ""
        )
        return (
            f"wrote {self.history} ({count_of(self.history_lines, 'line')}) and {self.decisions} "
            f"({count_of(self.decisions_lines, 'line')}){torn}{f'; {self.masked}' if self.masked else ''}"
        )


def export_as_peers(
    journal: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    force: bool = False,
    secrets: str = "mask",
    progress: Callable[[str], object] = lambda sentence: None,
) -> Exported:
    """Writes both log files of the peers from a journal, readable by their owner alone; both complete, or neither.

    Likely secrets are masked in each line unless `secrets` is `keep`; tokens of the space are masked in any case.

    Args:
        journal: Its first file; those that continue it are read too. It may grow meanwhile; the export ends with the
            records that it finds.
        folder: An existing folder.
        force: Whether existing files are replaced.
        progress: Called with a sentence every two seconds.

    Raises:
        ConfigError: `secrets` is another word.
        JournalError: when there is no such journal, or it cannot be replayed.
        ReplayMismatch: when a fresh space would have recorded something else.
        MewError: when the files cannot be written.
    """
    first, place, mask = Path(journal), Path(folder), secrets_mask(secrets)
    if is_packed(first):
        raise JournalError(
            f"Cannot read {first}: it is packed. Unpack it, and export that file.", path=str(first)
        )
    reading = read_journal(first)
    reading.close()
    if reading.format != "own":
        raise JournalError(
            f"{first} is a log file of the peers already. Name the journal of a mew_lab gateway.",
            path=str(first),
        )
    targets = [place / name for name in (HISTORY, DECISIONS)]
    _check(place, targets, force=force)
    with contextlib.ExitStack() as stack:
        made = [_begin(target, stack) for target in targets]
        try:
            counts = _write(first, [file for _, file in made], mask, progress)
            for (partial, file), target in zip(made, targets, strict=True):
                file.close()
                _check(place, [target], force=force)
                partial.replace(target)
        except OSError as fault:
            raise MewError(f"cannot write to {place}: {fault.strerror or fault}") from None
    return Exported(targets[0], targets[1], *counts, "" if mask is None else str(mask))


def _check(folder: Path, targets: list[Path], *, force: bool) -> None:
    if folder.is_symlink():
        raise MewError(f"cannot write to {folder}: it is a link; name the folder itself")
    if not folder.is_dir():
        raise MewError(f"cannot write to {folder}: there is no such folder; make it first")
    for target in targets:
        try:
            status = target.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise MewError(f"cannot write {target}: it is a link or no regular file; remove it")
        if not force:
            raise MewError(
                f"cannot write {target}: it is there already; --force replaces it, --to names a folder"
            )


def _begin(target: Path, stack: contextlib.ExitStack) -> tuple[Path, IO[bytes]]:
    partial = path_beside(target)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as fault:
        raise MewError(f"cannot write to {target.parent}: {fault.strerror}") from None
    stack.callback(partial.unlink, missing_ok=True)
    return partial, stack.enter_context(os.fdopen(fd, "wb", buffering=1 << 20))


def _write(
    first: Path, files: list[IO[bytes]], mask: SecretMask | None, progress: Callable[[str], object]
) -> tuple[int, int, int]:
    counts, records = [0, 0], 0
    whole = sum(path.stat().st_size for path in list_files(first))
    report_at = time.monotonic() + EVERY
    with contextlib.closing(Tail(first)) as tail:
        maker = JournalLines(str(first))
        try:
            while some := tail.read(CHUNK):
                for record in some:
                    for at, lines in enumerate(maker.take(record)):
                        counts[at] += len(lines)
                        shown = lines if mask is None else [mask_text(line, mask) for line in lines]
                        files[at].writelines(line.encode() + b"\n" for line in shown)
                records += len(some)
                if time.monotonic() > report_at:
                    report_at = time.monotonic() + EVERY
                    progress(f"{records} records, {min(100, 100 * tail.bytes // max(1, whole))} %")
        except JournalChanged:
            raise JournalError(
                f"{first} has changed while it was read. Try again.", path=str(first)
            ) from None
        return counts[0], counts[1], tail.unread
