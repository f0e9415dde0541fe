"""Reads the records of a journal. The file may be hostile: no line of it raises an exception.

The first line distinguishes journals of mew_lab and the two log files of the TypeScript gateway. A line that is broken
or too long is reported in its place; a torn last line is left out, and `torn` is set. Records are not kept, so a file
may be larger than the memory.

This module also finds the files of a journal: each begins with a line that names the previous file.
"""

from __future__ import annotations

import errno
import glob
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, get_args

from mew_lab.errors import JournalError
from mew_lab.log.claude_sessions import ClaudeSession, is_claude_line, look_at_claude
from mew_lab.log.codex_sessions import CodexSession, is_codex_line, look_at_codex
from mew_lab.log.inspect_logs import INSPECT, InspectSession, is_inspect_line, look_at_inspect
from mew_lab.log.line import read_line, read_members, split_chain
from mew_lab.log.otlp_reading import read_otlp
from mew_lab.log.peers import PeerLine, read_decisions, read_history
from mew_lab.log.references import LINE_LIMIT, BrokenReference, RestoredLine, Restorer, refers, restore
from mew_lab.log.session_records import SessionRecords
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Record

__all__ = [
    "LINE_LIMIT",
    "MOST_HOLES",
    "VANTAGES",
    "JournalReader",
    "LineReader",
    "PrunedStart",
    "UnreadLine",
    "Vantage",
    "are_journals",
    "first_record",
    "goes_on",
    "holds_opening",
    "is_journal",
    "is_torn",
    "list_files",
    "missing",
    "names_no_grants",
    "open_regular",
    "opening_of",
    "opens_without_grants",
    "read_journal",
    "read_pruned_start",
    "record_at",
    "split_lines",
    "stored_length",
    "successor",
    "torn_line",
    "unknown_lines",
    "unread_lines",
    "vantage_of",
]

Vantage = Literal["gateway", "peers", "participant", "tap", "agent"]
"""Who recorded a log: a gateway of ours (with verdicts and refusals), another gateway, a participant (what it received),
a tap (the messages between an MCP client and its server), or a coding agent (its own session). An export has the vantage
of what was exported."""
VANTAGES: tuple[Vantage, ...] = get_args(Vantage)

MOST_HOLES = 16 * 1024 * 1024
"""Bytes of a log that may never have been written, as after the loss of power."""
HEAD_LINES = 100
"""Lines of which one must be of a log, so that a file is taken for one."""

_LINE_FEED = 10
_new_tuple = tuple.__new__
_SEQ = b'{"seq":'
_SEQ_END = len(_SEQ) + 20


class UnreadLine(NamedTuple):
    """A line that no reader takes: its length, whether a line feed ends it, and why.

    It refers to what is not there; or it has more than `LINE_LIMIT` bytes, and `why` is empty.
    """

    length: int
    ended: bool
    why: str = ""


def split_lines(file: IO[bytes]) -> Iterator[bytes | UnreadLine]:
    """The lines of a file from its position on, each with its line feed, which only the last may lack.

    A line that refers to an earlier one is restored; `stored_length` is its length in the file.

    All readers of a journal, and its verification, take its lines from here: where two split a file differently, a line
    could be verified that nobody reads.
    """
    restorer: Restorer | None = None
    while data := file.readline(LINE_LIMIT + 1):
        if len(data) <= LINE_LIMIT:
            if refers(data):
                restorer = restorer or Restorer(file)
                yield _restore(restorer, data, file.tell() - len(data))
            else:
                yield data
            continue
        length = len(data)
        while data and not data.endswith(b"\n"):
            data = file.readline(LINE_LIMIT)
            length += len(data)
        yield UnreadLine(length, bool(data))


def _restore(restorer: Restorer, line: bytes, start: int) -> bytes | UnreadLine:
    try:
        return restorer.restore(line, start)
    except BrokenReference as fault:
        return UnreadLine(len(line), line.endswith(b"\n"), str(fault))


def stored_length(line: bytes | UnreadLine) -> int:
    """The length of a line of `split_lines` in its file."""
    if isinstance(line, UnreadLine):
        return line.length
    return line.stored if isinstance(line, RestoredLine) else len(line)


def record_at(file: IO[bytes], start: int) -> Record | None:
    """The record in the line that begins at this offset; the position of the file is then behind it."""
    file.seek(start)
    line = next(split_lines(file), b"")
    return read_line(line) if not isinstance(line, UnreadLine) else None


def is_torn(line: bytes | UnreadLine) -> bool:
    """Whether a file ends within this line of it."""
    if isinstance(line, UnreadLine):
        return not line.ended
    return not line.endswith(b"\n") and read_members(line) is None


class JournalReader(Iterator[Record]):
    """The records of one file, read during iteration.

    A line that cannot be read becomes a record of event `unreadable` whose `detail` names the line. After the last
    record, `torn` states whether the file ended within a line, `unreadable` is the number of reported lines, and
    `faults` are sentences on both, and on lines whose type is not known. `format` is `own`, `history`, `decisions`,
    `otlp`, `claude`, `codex` or `inspect`.
    """

    def __init__(self, path: Path, *, after: int = -1) -> None:
        self.path = path
        self._after = after
        self.torn = False
        self.unreadable = 0
        self._first_unreadable = ""
        self._unknown: dict[str, int] = {}  # lines of the session of an agent whose type is not known
        self._file = _open(path)
        try:
            self.format = self._recognise()
        except JournalError:
            self._file.close()
            raise
        self._records = self._read()

    def __iter__(self) -> Iterator[Record]:
        return self._records  # the generator itself, which saves a call for each record

    def __next__(self) -> Record:
        return next(self._records)

    def __repr__(self) -> str:
        return f"<JournalReader of {self.path}>"

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on what was left out so far: how many lines, and why."""
        faults = list[str]()
        if self.unreadable:
            faults.append(unread_lines(self.path.name, self.unreadable, self._first_unreadable))
        if self._unknown:
            faults.append(unknown_lines(self.path.name, self._unknown))
        if self.torn:
            faults.append(torn_line(self.path.name))
        return tuple(faults)

    def close(self) -> None:
        """Stops reading; not needed after the last record."""
        self._file.close()

    def _recognise(self) -> str:
        first = self._file.readline(LINE_LIMIT)
        format = _format_of(first)
        if not format:
            # A file that lost its beginning, or has blank lines there, is known by one of its next lines.
            self._file.seek(0)
            for line in islice(split_lines(self._file), 1, HEAD_LINES + 1):
                if not isinstance(line, UnreadLine) and line.endswith(b"\n") and (format := _format_of(line)):
                    break
        self._file.seek(0)
        if format:
            return format
        shown = first[:60].decode("utf-8", "replace").strip()
        raise JournalError(
            f"{self.path} is not a journal: "
            + (f"its first line is {shown!r}. " if first else "it is empty. ")
            + "Name a file that %mew save or a gateway wrote: one JSON record a line.",
            path=str(self.path),
        )

    def _read(self) -> Iterator[Record]:
        if self.format in SESSIONS:
            session = SESSIONS[self.format](self.path, self._file)
            self._unknown = session.unknown
            yield from session.read(self._lines())  # it counts itself, which saves a look at each record
            self.unreadable = len(session.unreadable)
            self._first_unreadable = next(iter(session.unreadable), "")
            return
        for record in READERS[self.format](self._lines()):
            if record.event == "unreadable":
                self.unreadable += 1
                self._first_unreadable = self._first_unreadable or record.detail
            elif record.event == "unknown" and self.format == "otlp":
                self._unknown[record.detail] = self._unknown.get(record.detail, 0) + 1
            yield record

    def _lines(self) -> Iterator[PeerLine]:
        with self._file as file:
            for number, line in enumerate(split_lines(file), 1):
                if isinstance(line, UnreadLine):
                    yield PeerLine(number, None, line.why or "is too long")
                elif line[-1] != _LINE_FEED and is_torn(line):
                    self.torn = True
                elif not line.isspace() and (self._after < 0 or _place(line) > self._after):
                    yield _new_tuple(PeerLine, (number, line, ""))  # half of the time of a call by name


def _format_of(line: bytes) -> str:
    """The format of the log that a line is of; empty where it is of none."""
    members = read_members(line) or {}
    if {"seq", "now", "event"} <= members.keys():
        return "own"
    if members.get("event") == "capability_check":
        return "decisions"
    if {"timestamp", "event", "envelope"} <= members.keys():
        return "history"
    if line.startswith(b'{"seq":') and not line.endswith(b"\n"):
        return "own"  # it ended within its very first line
    if "resourceSpans" in members:
        return "otlp"
    if is_inspect_line(members):
        return INSPECT
    return "claude" if is_claude_line(members) else "codex" if is_codex_line(members) else ""


def _read_own(lines: Iterable[PeerLine]) -> Iterator[Record]:
    before = datetime.min.replace(tzinfo=UTC)
    for line in lines:
        record = read_line(line.data) if line.data is not None else None
        if record is None:
            record = line.unreadable(before)
        before = record.now
        yield record


READERS: dict[str, Callable[[Iterable[PeerLine]], Iterator[Record]]] = {
    "own": _read_own,
    "history": read_history,
    "decisions": read_decisions,
    "otlp": read_otlp,
}
SESSIONS: dict[str, Callable[[Path, IO[bytes]], SessionRecords]] = {
    "claude": lambda path, file: ClaudeSession(look_at_claude(path, file)),
    "codex": lambda _, file: CodexSession(look_at_codex(file)),
    INSPECT: lambda _, file: InspectSession(look_at_inspect(file)),
}
"""By format, the reader of the session of a coding agent, after a look at its beginning."""


def open_regular(path: Path, *, buffering: int = 1 << 18) -> IO[bytes]:
    """Opens a file of a log to be read; what is in its place cannot block this process.

    Raises:
        OSError: when it cannot be opened, or is no regular file.
    """
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return os.fdopen(fd, "rb", buffering=buffering)
    except BaseException:
        os.close(fd)
        raise


def _open(path: Path) -> IO[bytes]:
    try:
        file = open_regular(path)
    except (OSError, ValueError) as fault:
        raise _cannot_read(path, str(getattr(fault, "strerror", None) or fault)) from None
    found = os.fstat(file.fileno())
    if (hole := _find_holes(file.fileno(), found)) is None:
        return file
    file.close()
    raise _cannot_read(
        path,
        f"more than {MOST_HOLES // 2**20} MiB of it were never written, so that it takes less room than its "
        f"{count_of(found.st_size, 'byte')}. `head -c {hole}` copies what stands before the first gap",
    )


def _find_holes(fd: int, found: os.stat_result) -> int | None:
    """The offset of the first hole of a file whose holes are too large; None of any other file.

    Where the system does not tell of holes, there is none.
    """
    if not hasattr(os, "SEEK_HOLE") or found.st_blocks * 512 >= found.st_size:
        return None
    first, at, holes = -1, 0, 0
    with suppress(OSError):
        while (hole := os.lseek(fd, at, os.SEEK_HOLE)) < found.st_size:
            first = hole if first < 0 else first
            try:
                at = os.lseek(fd, hole, os.SEEK_DATA)
            except OSError:  # no data follows
                at = found.st_size
            holes += at - hole
            if holes > MOST_HOLES:
                return first
    os.lseek(fd, 0, os.SEEK_SET)
    return None


def _cannot_read(path: Path, why: str) -> JournalError:
    return JournalError(
        f"Cannot read the journal {path}: {why}. Name a file that a session was saved to.", path=str(path)
    )


def unread_lines(name: str, count: int, first: str) -> str:
    """The sentence on lines of a file that could not be read; `first` says which is the first and why."""
    where = f": {first}" if count == 1 else f"; the first: {first}"
    return f"{visible(name)}: {count_of(count, 'line')} could not be read{where}"


def unknown_lines(name: str, types: Mapping[str, int]) -> str:
    """The sentence on lines of a session whose types are not known; they are kept as they are."""
    named = ", ".join(f"{visible(type)} ({count})" for type, count in [*types.items()][:5])
    more = f" and {len(types) - 5} more types" if len(types) > 5 else ""
    count = count_of(sum(types.values()), "line")
    return f"{visible(name)}: {count} of types that are not known here, kept as they are: {named}{more}"


def torn_line(name: str) -> str:
    """The sentence on a file that ends within a line."""
    return f"{visible(name)}: the last line is torn and was left out"


def _place(line: bytes) -> float:
    """The `seq` of a line that begins like one of a mew_lab journal; infinity for any other."""
    number = line[len(_SEQ) : line.find(b",", len(_SEQ), _SEQ_END)]
    return int(number) if line.startswith(_SEQ) and number.isdigit() else math.inf


def read_journal(path: str | os.PathLike[str], *, after: int = -1) -> JournalReader:
    """The records of a mew_lab journal, or of the peers' envelope-history.jsonl or capability-decisions.jsonl.

    Args:
        after: Records of a mew_lab journal up to this `seq` are skipped unread, and so are first lines, whose `seq` is
            0.

    Raises:
        JournalError: when the file cannot be read or is no journal. Broken lines within it raise nothing.
    """
    return JournalReader(Path(path), after=after)


class LineReader:
    """Reads lines of some files by their offsets."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._files: dict[int, Any] = {}

    def read(self, file: int, start: int, length: int) -> bytes:
        """The bytes of a line.

        Raises:
            JournalError: when the file cannot be read any more.
        """
        opened = self._files.get(file)
        try:
            if opened is None:
                opened = self._files[file] = open_regular(self.paths[file], buffering=0)
            if hasattr(os, "pread"):
                return os.pread(opened.fileno(), length, start)
            opened.seek(start)
            return bytes(opened.read(length))
        except OSError as fault:
            raise JournalError(
                f"Cannot read {self.paths[file]}: {fault.strerror}. Name a file that can be read.",
                path=str(self.paths[file]),
            ) from None

    def record(self, file: int, start: int, length: int) -> Record | None:
        """The record in a line; None where the line is no whole record."""
        if length > LINE_LIMIT:
            return None
        line = self.read(file, start, length)
        if refers(line):
            try:
                line = restore(line, start, partial(self.read, file))
            except BrokenReference:
                return None
        return read_line(line)

    def text(self, file: int, start: int, length: int, body: int, size: int) -> str | None:
        """The exact text of the message in a line."""
        if body:
            return self.read(file, start + body, size).decode("utf-8", "replace")
        record = self.record(file, start, length)
        return record.raw if record is not None else None


def is_journal(path: Path) -> bool:
    """Whether a file is a journal of mew_lab, or still empty.

    Raises:
        JournalError: when it cannot be read, or is no log.
    """
    try:
        if not path.stat().st_size:
            return True
    except OSError as fault:
        raise _cannot_read(path, fault.strerror or str(fault)) from None
    reader = JournalReader(path)
    reader.close()
    return reader.format == "own"


def are_journals(paths: Iterable[Path]) -> bool:
    """Whether all of these files are journals of mew_lab, or still empty.

    Raises:
        JournalError: when one cannot be read, or is no log.
    """
    return all(map(is_journal, paths))


def is_of_peers(path: Path) -> bool:
    """Whether a file is a log of another gateway, whose records have no numbers of their own."""
    try:
        reader = JournalReader(path)
        reader.close()
        return reader.format in ("history", "decisions")
    except (OSError, JournalError):
        return False


def first_record(path: Path) -> Record | None:
    """The first record of a journal; None where it ends within its first line.

    Raises:
        JournalError: when the file is no journal.
    """
    reading = read_journal(path)
    record = next(reading, None)
    reading.close()
    return record


def opening_of(path: Path) -> dict[str, Any]:
    """What the first line of a journal states; empty where it does not open one.

    Raises:
        JournalError: when the file is no journal.
    """
    opened = first_record(path)
    return (read_members(opened.detail) or {}) if opened is not None and opened.event == "opened" else {}


class PrunedStart(NamedTuple):
    """The start of a pruned journal: the deleted part ended with record `seq` and with the line of this `chain`.

    `number` is that of the file that continues it, and `previous` the name that this file states as its predecessor.
    Where files were `kept`, they continue the chain of the deleted part; else the chain continues after the snapshot.
    `unchained`: lines of the deleted part had no chain.
    """

    seq: int
    chain: str
    number: int
    previous: str
    kept: bool
    unchained: bool


def read_pruned_start(about: Mapping[str, Any]) -> PrunedStart | None:
    """The statement on pruned files in the first line of a journal; None where no files were pruned."""
    pruned = about.get("pruned")
    if type(pruned) is not dict:
        return None
    seq, chain, number, previous, kept, unchained = (pruned.get(key) for key in PrunedStart._fields)
    if type(seq) is not int or type(chain) is not str or type(number) is not int or type(previous) is not str:
        return None
    if not 2 <= number < 10**9:
        return None
    return PrunedStart(seq, chain, number, previous, kept is True, unchained is True)


def holds_opening(about: Mapping[str, Any]) -> bool:
    """Whether a journal with this first line holds its space from the start.

    It was not pruned, is no branch, and was not saved from a log that a participant saw or that began later.
    """
    vantage = vantage_of(about)
    if vantage == "tap":
        return True
    opened = type(about.get("epoch")) is int and vantage == "gateway"
    return opened and read_pruned_start(about) is None and "branched" not in about


def vantage_of(about: Mapping[str, Any]) -> Vantage:
    """The vantage of a journal with this first line; where it states another than ours, the one that claims least."""
    match about.get("vantage", "gateway"):
        case "gateway" | None:
            return "gateway"
        case "tap":
            return "tap"
        case "agent":
            return "agent"
    return "participant"


def names_no_grants(path: Path) -> bool:
    """Whether a file is a journal of a gateway from before its records named the grant behind a permission.

    The first line of a later one has the capabilities that everybody holds, or a chain.
    """
    try:
        with open_regular(path) as file:
            return opens_without_grants(file.readline(LINE_LIMIT))
    except OSError:
        return False


def opens_without_grants(line: bytes) -> bool:
    """Whether a file with this first line is such a journal."""
    record = read_line(line) if line.startswith(_SEQ) else None
    if record is None or record.event != "opened" or split_chain(line)[1]:
        return False
    about = read_members(record.detail) or {}
    by_gateway = type(about.get("epoch")) is int and vantage_of(about) == "gateway"
    return by_gateway and "baseline" not in about


def list_files(first: Path) -> tuple[Path, ...]:
    """The first file of a journal, and the files that continue it according to their first lines.

    Raises:
        JournalError: when `first` is no journal.
    """
    read_journal(first).close()
    paths = [first]
    while goes_on(path := successor(paths), paths):
        paths.append(path)
    return tuple(paths)


def goes_on(path: Path, paths: Sequence[Path]) -> bool:
    """Whether the first line of a file states that it continues the last of `paths`."""
    about = dict[str, Any]()
    with suppress(OSError):  # of a name that no file can have
        about = _about(path) if path.is_file() else about
    anew = read_pruned_start(_about(paths[0])) if len(paths) == 1 else None
    return about.get("previous") == (anew.previous if anew else paths[-1].name)


def _about(path: Path) -> dict[str, Any]:
    with suppress(JournalError):
        return opening_of(path)
    return {}


def successor(paths: Sequence[Path]) -> Path:
    """The path of the file that continues a journal when the last of `paths` is full."""
    first = paths[0]
    if len(paths) > 1:
        number = int(paths[-1].stem.rpartition("-")[2]) + 1
    else:
        anew = read_pruned_start(_about(first))
        number = anew.number if anew else 2
    return first.with_name(f"{first.stem}-{number}{first.suffix}")


def missing(paths: Sequence[Path]) -> Path | None:
    """A later file of this journal whose predecessor is missing; None where there is none."""
    first, last = paths[0], successor(paths)
    expected = int(last.stem.rpartition("-")[2])
    for path in sorted(first.parent.glob(f"{glob.escape(first.stem)}-*{first.suffix}")):
        number = path.stem[len(first.stem) + 1 :]
        if number.isdecimal() and number.isascii() and int(number) > expected and "previous" in _about(path):
            return path
    return None
