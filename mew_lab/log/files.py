"""Finds the files of a log, and reads them in order.

A log is a journal with the files that continue it, the log files of the peers, the session of a coding agent with those
of its sub-agents, a Parquet file of `Log.to_parquet`, or any of them compressed by gzip or zstd. Several of them are one
log: by a list of paths, by a pattern such as `runs/*.jsonl.gz`, or as a folder with its folders.

Spec: §3.6.8.
"""

from __future__ import annotations

import glob
import heapq
import operator
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from mew_lab.errors import JournalError
from mew_lab.log.claude_sessions import companions_of
from mew_lab.log.line import read_members, write_line
from mew_lab.log.peers import DECISIONS, HISTORY, merge_decisions
from mew_lab.log.reading import list_files, names_no_grants, read_journal
from mew_lab.log.unpacked import Unpacked, is_packed
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder

__all__ = [
    "CopiedLines",
    "Files",
    "JournalSource",
    "RecentRecords",
    "SessionStart",
    "begin_session",
    "files_of",
    "is_large",
]

LARGE = 16 * 1024 * 1024
"""Bytes of the files of a log that is answered by an index; a smaller one is read before that is found."""

BESIDE = ("tokens", "tools-agents", "logs")  # folders of `.mew` that hold no journals of their own
MOST_FOLDERS = 10_000
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".eval")


class JournalSource(Protocol):
    """The source of the older records of a log: a `Journal`, or `Files`."""

    @property
    def paths(self) -> tuple[Path, ...]: ...


class Files(NamedTuple):
    """Journals that are read one after the other, in the order of `paths`.

    `faults` are sentences on files that could not be unpacked whole. `unpacked` is the folder of the files that were
    packed; it is deleted with the last use of it.
    """

    paths: tuple[Path, ...]
    faults: tuple[str, ...] = ()
    unpacked: Unpacked | None = None

    def read(
        self, faults: list[str], *, after: int = -1, begun: list[Path] | None = None
    ) -> Iterator[Record]:
        """All their records, or those with a `seq` above `after`; torn and unreadable lines are added to `faults`.

        The records of the two log files of a peer's session are merged, and numbered anew: `seq` is then their place.
        Each file is added to `begun` before its first record.
        """
        begun = [] if begun is None else begun
        faults += self.faults
        paths = [*self.paths]
        while paths:
            path = paths.pop(0)
            begun.append(path)
            if _is_empty(path):
                continue
            if path.name == HISTORY and paths and paths[0] == path.with_name(DECISIONS):
                history, decisions = read_journal(path), read_journal(paths.pop(0))
                for seq, record in enumerate(merge_decisions(history, decisions), 1):
                    yield record._replace(seq=seq)
                faults += (*history.faults, *decisions.faults)
                continue
            reading = read_journal(path, after=after)
            readings = (
                [reading, *map(read_journal, companions_of(path))]
                if reading.format == "claude"
                else [reading]
            )
            yield from _merged(readings) if len(readings) > 1 else reading
            for each in readings:
                faults += each.faults
            if reading.format == "decisions":
                faults.append(
                    f"{visible(path.name)} holds the checks of messages, and no message; open it with its {HISTORY}"
                )


def _merged(readings: Sequence[Iterable[Record]]) -> Iterator[Record]:
    """The records of a session and of its sub-agents, by time, numbered anew: `seq` is then their place."""
    main, *others = readings
    below = [(record for record in other if record.event != "opened") for other in others]
    records = heapq.merge(main, *below, key=operator.attrgetter("now"))
    for seq, record in enumerate(records, 1):
        yield record._replace(seq=seq)


class RecentRecords(NamedTuple):
    """The newest records and the number dropped; replaced as a whole, so that a reader has two matching parts."""

    dropped: int
    records: list[Record]


def is_large(paths: Iterable[Path]) -> bool:
    """Whether these files have `LARGE` bytes; one that is gone counts as empty, until it is read."""
    return sum(_size_of(one) for path in paths for one in (path, *companions_of(path))) >= LARGE


def _size_of(path: Path) -> int:
    with suppress(OSError, ValueError):
        return path.stat().st_size
    return 0


class SessionStart(NamedTuple):
    """Where a session, or a further file of it, begins in a log: its first place, and the session's number from 1."""

    place: int
    session: int
    file: str
    space: str


def begin_session(starts: list[SessionStart], place: int, file: Path, record: Record) -> None:
    """Adds a start, where this record of a file is one: the first of a file, or an `opened`."""
    last = starts[-1] if starts else None
    session = 0 if last is None else last.session
    if record.event == "opened":
        goes_on = last is not None and "previous" in (read_members(record.detail) or {})
    elif last is not None and last.file == str(file):
        return
    else:
        goes_on = False
    starts.append(SessionStart(place, session if goes_on else session + 1, str(file), record.space))


class CopiedLines:
    """Records that stand in no journal of mew_lab, as the lines of a private file that grows with them."""

    def __init__(self) -> None:
        self._scratch = ScratchFolder()
        self._upto = 0
        self.paths: tuple[Path, ...] = (self._scratch.path / "records.jsonl",)
        self.paths[0].touch()

    def add(self, recent: RecentRecords) -> None:
        """Adds the newest records of a log, but for those that were added before."""
        new = recent.records[max(0, self._upto - recent.dropped) :]
        with self.paths[0].open("ab") as file:
            file.writelines(map(write_line, new))
        self._upto = recent.dropped + len(recent.records)

    def write(self, records: Iterable[Record]) -> None:
        """Writes all records of a log."""
        with self.paths[0].open("wb") as file:
            file.writelines(map(write_line, records))


def files_of(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, most: int | None = None
) -> Files:
    """The files of the log at a path, which is a file, a folder, a pattern, or a list of them.

    Packed files, and journals that name no grants, are unpacked into a private folder of the temporary files; `most` is
    as in `Unpacked`.

    Raises:
        JournalError: when there is no journal there.
    """
    if isinstance(path, str | os.PathLike):
        found = _find(path)
    elif not isinstance(path, Iterable) or isinstance(path, bytes):
        raise JournalError(
            f"Cannot open {str(path)[:40]!r} as a log. Name a file, a folder, a pattern, or a list of them.",
            path="",
        )
    else:
        found = [one for several in path for one in _find(several)]
        if not found:
            raise JournalError("There is no log in an empty list. Name a file or a folder.", path="")
    found = [*dict.fromkeys(found)]
    in_another_form = [one for one in found if is_packed(one) or names_no_grants(one)]
    if not in_another_form:
        return Files(tuple(found))
    unpacked = Unpacked(most)
    faults: list[str] = []
    paths = [unpacked.unpack(one, faults) if one in in_another_form else one for one in found]
    return Files(tuple(_in_order(paths)), tuple(faults), unpacked)


def _find(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, a folder or a pattern names, each with the files that continue it."""
    place, name = Path(path), os.fspath(path)
    if _is_folder(place):
        return _in_folder(place)
    if not os.path.lexists(place) and glob.has_magic(name):
        try:
            paths = [*Path(place.anchor or ".").glob(str(place.relative_to(place.anchor)))]
        except (OSError, ValueError, NotImplementedError, IndexError) as fault:
            raise JournalError(
                f"Cannot search for {name}: {fault}. Name a file or a folder.", path=name
            ) from None
        found = [one for several in sorted(paths, key=_by_number) for one in _find_one(several)]
        if not found:
            raise JournalError(
                f"No file matches {name}. Name a file, a folder or another pattern.", path=name
            )
        return found
    if is_packed(place) or _is_empty(place):
        return [place]
    return [*list_files(place)]


def _find_one(path: Path) -> list[Path]:
    if _is_folder(path):
        with suppress(JournalError):
            return _in_folder(path)
        return []
    return [path]


def _in_folder(folder: Path) -> list[Path]:
    """The journals in a folder and in its folders, in the order of their names and numbers."""
    found = list[Path]()
    for folders, (place, below, names) in enumerate(os.walk(folder)):
        if folders >= MOST_FOLDERS:
            raise JournalError(
                f"{folder} has more than {MOST_FOLDERS} folders below it. Name the folder of the sessions.",
                path=str(folder),
            )
        parent = Path(place)
        if parent.name == ".mew":
            below[:] = [name for name in below if name not in BESIDE]
        below.sort()
        paths = [path for name in names if _may_be_a_log(path := parent / name)]
        found += _in_order([path for path in paths if _is_journal(path)])
    below_others = {companion for path in found for companion in companions_of(path)}
    found = [path for path in found if path not in below_others]
    if not found:
        raise JournalError(
            f"There is no journal in {folder}. Name a folder that holds .jsonl files.", path=str(folder)
        )
    return found


def _in_order(paths: Sequence[Path]) -> list[Path]:
    """The paths with each history directly before the decisions of its session."""
    ordered = sorted(paths, key=lambda path: (path.parent, _by_number(path)))
    for path in [path for path in ordered if path.name == HISTORY]:
        beside = path.with_name(DECISIONS)
        if beside in ordered:
            ordered.remove(beside)
            ordered.insert(ordered.index(path) + 1, beside)
    return ordered


def _may_be_a_log(path: Path) -> bool:
    """Whether a file in a folder is looked at; of `.json`, those that begin like a log in one piece."""
    return path.name.endswith(ENDINGS) or (path.suffix == ".json" and is_packed(path))


def _is_journal(path: Path) -> bool:
    if is_packed(path):
        return True
    with suppress(JournalError):  # something else that ends in .jsonl, or a journal still empty
        read_journal(path).close()
        return True
    return False


def _is_folder(path: Path) -> bool:
    with suppress(OSError):  # of a name that no file can have
        return path.is_dir()
    return False


def _is_empty(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file() and path.stat().st_size == 0
    return False


def _by_number(path: Path) -> tuple[str, int]:
    """The sort key of a file: by name, and by number for one name: `x.jsonl`, `x-2.jsonl` … `x-10.jsonl`."""
    stem = path.name.partition(".jsonl")[0]
    match = re.fullmatch(r"(.*?)(?:-([0-9]{1,9}))?", stem)
    return (str(path.parent / match[1]), int(match[2] or 1)) if match else (str(path), 1)
