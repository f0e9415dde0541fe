"""Finds the files of a log, and reads them in order.

A log is a journal with the files that continue it, a folder of journals, or the log files of the peers.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from mew_lab.errors import JournalError
from mew_lab.log.peers import DECISIONS, HISTORY, merge_decisions
from mew_lab.log.reading import JournalReader, list_files, read_journal
from mew_lab.space.events import Record

__all__ = ["Files", "JournalSource", "files_of"]


class JournalSource(Protocol):
    """The source of the older records of a log: a `Journal`, or `Files`."""

    @property
    def paths(self) -> tuple[Path, ...]: ...


class Files(NamedTuple):
    """Journals that are read one after the other, in the order of `paths`."""

    paths: tuple[Path, ...]

    def read(self, faults: list[str], *, after: int = -1) -> Iterator[Record]:
        """All their records, or those with a `seq` above `after`; torn and unreadable lines are added to `faults`."""
        if self.paths and self.paths[0].name == HISTORY and self.paths[-1].name == DECISIONS:
            history, decisions = (read_journal(path) for path in self.paths)
            yield from merge_decisions(history, decisions)
            faults += chain(_faults(history), _faults(decisions))
            return
        for path in self.paths:
            reading = read_journal(path, after=after)
            yield from reading
            faults += _faults(reading)


def files_of(path: str | os.PathLike[str]) -> Files:
    """The files of the log at a path, which is a folder or a file.

    Raises:
        JournalError: when there is no journal there.
    """
    place = Path(path)
    return Files(_in_folder(place) if place.is_dir() else list_files(place))


def _in_folder(folder: Path) -> tuple[Path, ...]:
    """The journal files in a folder, in the order of their names and numbers."""
    if (folder / HISTORY).is_file():
        return tuple(folder / name for name in (HISTORY, DECISIONS) if (folder / name).is_file())
    journals = []
    for path in sorted(folder.glob("*.jsonl"), key=_by_number):
        with suppress(JournalError):  # something else that ends in .jsonl, or a journal still empty
            read_journal(path).close()
            journals.append(path)
    if not journals:
        raise JournalError(
            f"There is no journal in {folder}. Name a folder that holds .jsonl files.", path=str(folder)
        )
    return tuple(journals)


def _by_number(path: Path) -> tuple[str, int]:
    """The sort key of a file: by name, and by number for one name: `x.jsonl`, `x-2.jsonl` … `x-10.jsonl`."""
    match = re.fullmatch(r"(.*?)(?:-([0-9]{1,9}))?", path.stem)
    return (match[1], int(match[2] or 1)) if match else (path.stem, 1)


def _faults(reading: JournalReader) -> Iterator[str]:
    if reading.unreadable:
        lines = "1 line" if reading.unreadable == 1 else f"{reading.unreadable} lines"
        yield f"{reading.path.name}: {lines} could not be read"
    if reading.torn:
        yield f"{reading.path.name}: the last line is torn and was left out"
