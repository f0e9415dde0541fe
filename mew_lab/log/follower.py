"""Keeps the log files of the peers up to date with a journal that is written, in a process of its own.

The follower reads the journal, replays it, and appends the lines that result. The gateway starts it, watches it, and
wakes it by a byte in a pipe, its `bell`, after each batch of records. A few new records are written at once; for a
backlog it lowers its priority. Its orders come as one line of JSON on stdin, which then stays open as long as the
gateway lives. After the end of the gateway, it writes the rest of the journal and ends. It reports on stdout in lines of
JSON.

To continue after a stop, the follower keeps a small file beside the logs for each unfinished journal, its position. The
position states up to which record all lines are written, and how many bytes each log then had. It is written when the
journal is quiet, and every few seconds. Lines are appended only to a log whose identity is in the position. So after a
kill, the lines after that size are those of the next records; they are counted instead of written again, and a partial
line is removed. The journal is replayed from its first record, without making earlier lines again. The gateway makes the
position before its first message. If a follower was killed with its gateway, the next one writes the rest of that
journal before its own.

A log that has reached `ROTATE_AT` is renamed to `<name>.1`, the previous one to `.2`, up to `KEPT` of them.

Spec: §3.6.8.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mew_lab.errors import JournalError, ReplayMismatch
from mew_lab.log.peer_files import DECISIONS, HISTORY, JournalLines, PeerLines
from mew_lab.log.reading import list_files, open_regular
from mew_lab.log.tail import JournalChanged, Tail
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.token import Token, mask
from mew_lab.protocol.visible import one_line
from mew_lab.transport.files import (
    AppendedFile,
    Place,
    list_names,
    open_parent,
    read_small,
    remove,
    replace_small,
)

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

__all__ = ["KEPT", "POSITION", "ROTATE_AT", "PeerLogFollower", "Position", "main", "register"]

POSITION = ".peer-files"
ROTATE_AT = 64 * 1024 * 1024  # bytes of a log
KEPT = 4  # renamed logs of each name
NICE = 10
BACKLOG = 50  # records; so many at a time are written at a low priority
POLL = 0.1  # seconds between two reads of a journal when the bell is silent
KEEP = 5.0  # seconds between two positions while the journal grows; to write one may take milliseconds
PATIENCE = 5.0  # seconds of waiting for another follower until that is reported
CHUNK = 256 * 1024  # bytes of the journal that are read at a time
BATCH = 1024 * 1024  # characters of lines that are written at a time; those of one event may be more
GRACE = 60.0  # seconds to write the rest after the end of the gateway
LONGEST = 64 * 1024  # bytes of a position
MOST = 1000  # positions
PLAIN = re.compile(r"[^/\\\0]{1,200}(?<!\.new)")  # the name of a journal in the same folder
HELP = "; mew-lab export --as peers makes them from the journal"


class Position(NamedTuple):
    """The record of a journal up to which all lines are written, and the ends of the logs after them.

    `begun` is the start time of the journal in nanoseconds, which gives the order of the journals. `done`: its gateway
    has ended and all lines are written; the next follower removes the position.
    """

    begun: int
    epoch: int | None = None
    seq: int = 0
    places: Mapping[str, Place] = MappingProxyType({})
    done: bool = False

    def __bytes__(self) -> bytes:
        places = {name: list(place) for name, place in self.places.items()}
        return compact({**self._asdict(), "places": places}).encode() + b"\n"

    @classmethod
    def read(cls, data: bytes) -> Position | None:
        """The position in the data of a file; None when there is none."""
        try:
            members = json.loads(data)
            places = {name: Place(*map(_count, members["places"][name])) for name in members["places"]}
            if type(members["epoch"]) not in (int, type(None)):
                return None
            return cls(
                _count(members["begun"]),
                members["epoch"],
                _count(members["seq"]),
                places,
                members["done"] is True,
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return None


def register(root: Path, folder: str, journal: Path, *, begun: int) -> None:
    """Registers a journal, so that the next follower writes it from its first record, even if started for another.

    Raises:
        OSError: when the position cannot be written.
    """
    replace_small(root, f"{folder}/{POSITION}/{journal.name}", bytes(Position(begun)))


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


class _PeerLogFile:
    """One of the two logs.

    `already` counts the next lines that it holds from before a kill. `expected` is its end after the last line of this
    process; None where that is not known, or where another process has changed the file.
    """

    def __init__(self, file: AppendedFile) -> None:
        self.file = file
        self.already = 0
        self.expected: Place | None = None

    def recount(self, place: Place | None) -> None:
        """Counts the complete lines after a place, and removes a partial line."""
        self.already, self.expected = 0, None
        if place is not None:
            with contextlib.suppress(OSError):
                self.already, self.expected = self.file.count_behind(place)

    def append(self, lines: Sequence[str]) -> None:
        """Writes lines; those that cannot be written are counted and reported."""
        self.expected = None
        if self.file.append(*lines):
            with contextlib.suppress(OSError):
                self.expected = self.file.place()


class PeerLogFollower:
    """Writes the lines of one journal while it grows, after those of earlier unfinished journals.

    Args:
        journal: Its first file.
        root: An existing folder, and `folder` the path of the logs below it.
        history: Whether to write the envelope history.
        decisions: Whether to write the capability decisions.
        fault: Called with a sentence when a file cannot be read or written.
        ended: Waits for so many seconds at most, less when the bell rings; returns whether the gateway has ended.
        work: Does the work on a backlog, and returns when it is done.
    """

    def __init__(
        self,
        journal: Path,
        *,
        root: Path,
        folder: str,
        history: bool = True,
        decisions: bool = True,
        fault: Callable[[str], object],
        ended: Callable[[float], bool],
        work: Callable[[Callable[[], None]], None] = lambda todo: todo(),
        rotate_at: int = ROTATE_AT,
        grace: float = GRACE,
    ) -> None:
        self._journal = journal
        self._root = root
        self._positions = f"{folder}/{POSITION}"
        self._fault = fault
        self._ended = ended
        self._work = work
        self._rotate_at = rotate_at
        self._grace = grace
        self._wanted = {"history": history, "decisions": decisions}
        self._logs = {
            name: _PeerLogFile(AppendedFile(root, f"{folder}/{name}", fault=fault, help=HELP))
            for name, wanted in ((HISTORY, history), (DECISIONS, decisions))
            if wanted
        }
        self._path = journal  # the journal that is followed now
        self._position = Position(0)
        self._written = Position(0)  # the position in its file, which may be older
        self._kept_at = 0.0  # when it was written
        self._unkept = False  # the position could not be written

    @property
    def registered(self) -> bool:
        """Whether its journal has a position: another follower that has written all lines of it removes the position."""
        try:
            read_small(self._root, f"{self._positions}/{self._journal.name}", most=LONGEST)
        except FileNotFoundError:
            return False
        except OSError:
            pass
        return True

    def run(self) -> None:
        """Follows until the gateway has ended and all lines are written, or the time for that is over.

        Raises:
            JournalError, ReplayMismatch: when the journal cannot be replayed.
        """
        own = self._read_position(self._journal.name)
        for name, position in self._unfinished():
            # A later journal is that of a gateway that may only just begin it.
            if name != self._journal.name and (own is None or position.begun < own.begun):
                self._finish(self._journal.parent / name, position)
        before = self._read_position(self._journal.name)
        if (before is None or not before.done) and self._follow(self._journal, before, live=True):
            self._keep(self._position._replace(done=True))

    def close(self) -> None:
        """Closes the logs; reports the lines that were left out."""
        for log in self._logs.values():
            log.file.finish()

    def _finish(self, path: Path, before: Position) -> None:
        """Writes the rest of a journal whose follower was killed together with its gateway."""
        if before.done:
            return self._forget(path.name)
        try:
            if path.is_symlink() or not path.is_file():
                raise JournalError("it is no longer beside this journal", path=str(path))
            self._follow(path, before, live=False)
        except (JournalError, ReplayMismatch) as fault:
            self._fault(f"the rest of {path.name} is missing in the log files of the peers: {fault}{HELP}")
        if _is_written(path):  # its own follower continues it, after the lines of other journals
            self._keep(self._position._replace(places={}))
        else:
            self._forget(path.name)
        return None

    def _follow(self, path: Path, before: Position | None, *, live: bool) -> bool:
        """Follows one journal; returns whether all lines are written."""
        self._path = path
        again = False  # it was read again from its first record already
        while True:
            try:
                return self._pass(path, before, live=live)
            except JournalChanged:
                self._keep_latest()
            except (JournalError, ReplayMismatch):
                self._keep_latest()
                if again:
                    raise
                again = True
            before = self._read_position(path.name) or before

    def _pass(self, path: Path, before: Position | None, *, live: bool) -> bool:
        """Reads a journal from its first record on; returns whether all lines are written."""
        tail = self._open(path)
        if tail is None:
            return True
        try:
            lines: JournalLines | None = None
            news, deadline = time.monotonic(), None
            while True:
                records = tail.read(CHUNK)
                if records and lines is None:
                    lines = self._begin(path, records[0].detail, before)
                if lines is not None and len(records) < BACKLOG:
                    self._take(lines, records)
                elif lines is not None:
                    self._work(partial(self._take, lines, records))
                now = time.monotonic()
                if records:
                    news = now
                if now - news >= POLL or now - self._kept_at >= KEEP:
                    self._keep_latest()
                if not records and (not live or deadline is not None):
                    return True
                if deadline is None and self._ended(0.0 if records else POLL):
                    deadline = now + self._grace
                if deadline is not None and time.monotonic() > deadline:
                    self._keep_latest()
                    self._fault(
                        f"the log files of the peers end with #{self._position.seq} of {path}: there was no time "
                        f"for more{HELP}"
                    )
                    return False
        finally:
            tail.close()

    def _open(self, path: Path) -> Tail | None:
        """The journal, for reading; None where the gateway ended before it began one."""
        while not path.exists():
            if self._ended(POLL):
                return None
        return Tail(path)

    def _begin(self, path: Path, detail: str, before: Position | None) -> JournalLines:
        try:
            epoch = json.loads(detail).get("epoch")
        except (ValueError, AttributeError):
            epoch = None
        begun = before.begun if before is not None else time.time_ns()
        if before is None or before.epoch != epoch:
            self._position = Position(begun, epoch)
        else:
            self._position = before
        self._written = self._position
        for name, log in self._logs.items():
            log.recount(self._position.places.get(name))
        return JournalLines(str(path), **self._wanted, after=self._position.seq)

    def _take(self, lines: JournalLines, records: Sequence[Any]) -> None:
        history: list[str] = []
        decisions: list[str] = []
        size, upto = 0, self._position.seq
        for record in records:
            some = lines.take(record)
            history += some.history
            decisions += some.decisions
            size += sum(map(len, some.history)) + sum(map(len, some.decisions))
            if lines.between:
                upto = max(upto, record.seq)
                if size > BATCH:
                    self._write(PeerLines(tuple(history), tuple(decisions)), upto)
                    history, decisions, size = [], [], 0
        self._write(PeerLines(tuple(history), tuple(decisions)), upto)

    # --- writing ---

    def _write(self, lines: PeerLines, upto: int) -> None:
        if upto <= self._position.seq:
            return
        for name, some in ((HISTORY, lines.history), (DECISIONS, lines.decisions)):
            log = self._logs.get(name)
            if log is None:
                continue
            skipped = min(log.already, len(some))
            log.already -= skipped
            if some[skipped:]:
                self._announce(name, log)
                log.append(some[skipped:])
        if any(log.already for log in self._logs.values()):
            return  # the log holds lines of later records: they are counted from the older position
        self._move_to(upto)
        for log in self._logs.values():
            if log.expected is not None and log.expected.size >= self._rotate_at:
                self._keep(self._position)  # lines after an older position would be in the renamed log
                with contextlib.suppress(OSError):
                    log.file.shift(KEPT)

    def _announce(self, name: str, log: _PeerLogFile) -> None:
        """Writes the place of a log into the position before the first line is appended."""
        with contextlib.suppress(OSError):  # then the line is left out and reported
            place, written = log.file.place(), self._written.places.get(name)
            if place != log.expected or written is None or place[:2] != written[:2]:
                self._keep(self._position._replace(places={**self._position.places, name: place}))

    def _move_to(self, seq: int) -> None:
        places = dict(self._position.places)
        for name, log in self._logs.items():
            try:
                places[name] = log.expected = log.file.place()
            except OSError:
                log.expected = None
        self._position = self._position._replace(seq=seq, places=places)

    # --- positions ---

    def _keep_latest(self) -> None:
        """Writes the position, where its file holds an older one."""
        if self._position != self._written:
            self._keep(self._position)

    def _keep(self, position: Position) -> None:
        self._position, self._kept_at = position, time.monotonic()
        name = f"{self._positions}/{self._path.name}"
        try:
            replace_small(self._root, name, bytes(position))
            self._written, self._unkept = position, False
        except OSError as fault:
            if not self._unkept:
                self._unkept = True
                self._fault(
                    f"{self._root / name} cannot be written: {fault.strerror or fault}; after a crash some lines may "
                    "be in the log files of the peers twice"
                )

    def _read_position(self, name: str) -> Position | None:
        try:
            return Position.read(read_small(self._root, f"{self._positions}/{name}", most=LONGEST))
        except OSError:
            return None

    def _unfinished(self) -> list[tuple[str, Position]]:
        """The journals whose lines are not all written, in the order of their start."""
        try:
            names = list_names(self._root, self._positions, most=MOST)
        except OSError:
            return []
        positions = [(name, self._read_position(name)) for name in names if PLAIN.fullmatch(name)]
        return sorted(
            ((name, position) for name, position in positions if position is not None),
            key=lambda pair: pair[1].begun,
        )

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            remove(self._root, f"{self._positions}/{name}")


def _is_written(path: Path) -> bool:
    """Whether a gateway has a journal open for writing."""
    if fcntl is None:
        return False
    try:
        with open_regular(list_files(path)[-1]) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, JournalError):
        return False
    return False


# --- the process ---


class _Orders:
    """The input of the gateway on stdin: one line of orders, then secrets to be masked; it ends with the gateway.

    The orders name the descriptor of the bell.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._inputs = [source]
        self._rest = b""
        self._over = False
        self._parent = os.getppid()

    def first(self) -> dict[str, Any]:
        """The orders; ends the process when stdin ends without any."""
        while b"\n" not in self._rest:
            data = os.read(self._source, 65536)
            if not data:
                raise SystemExit(0)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        orders: dict[str, Any] = json.loads(line)
        self._inputs.append(int(orders["bell"]))
        self._add_secrets(b"")
        return orders

    def ended(self, seconds: float) -> bool:
        """Waits for `seconds` at most, or until the bell rings; returns whether the gateway has ended."""
        if self._over:
            return True
        ready = select.select(self._inputs, [], [], seconds)[0]
        for source in ready:
            data = os.read(source, 65536)  # a record that is written later rings again
            if not data:
                self._inputs.remove(source)
            elif source == self._source:
                self._add_secrets(data)
        # A process that the gateway forked may hold stdin open.
        self._over = self._source not in self._inputs or (not ready and os.getppid() != self._parent)
        return self._over

    def _add_secrets(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            Token(json.loads(line)["secret"])


def _report(**members: object) -> None:
    with contextlib.suppress(OSError):  # the reader may have ended
        os.write(1, mask(compact(members)).encode() + b"\n")


def _lock(root: Path, folder: str, ended: Callable[[float], bool]) -> bool:
    """Waits until no other follower writes these logs; returns False when the gateway ends before.

    The operating system releases the lock when the process ends.
    """
    if fcntl is None:
        return True
    try:
        held = open_parent(root, f"{folder}/{POSITION}")
    except OSError:
        return True  # no log can be written there either, which is reported with the first line
    report_at = time.monotonic() + PATIENCE
    while held is not None:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if ended(POLL):
                return False
        except OSError:  # a file system without locks
            return True
        if report_at and time.monotonic() > report_at:
            report_at = 0.0
            _report(
                fault=f"another process writes the log files of the peers in {root / folder}; this one waits for it"
            )
    return True


def _lower_priority() -> None:
    """Lowers the priority of this thread, on the disk too; on other systems than Linux, of the process."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICE)


def main() -> None:
    """Reads the orders and carries them out; exits with 0 when all lines are written, 1 after a fatal fault."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the end of stdin ends this process
    stdin = _Orders(0)
    orders = stdin.first()
    root, folder = Path(orders["root"]), str(orders["folder"])
    if not _lock(root, folder, stdin.ended):
        return
    slow = ThreadPoolExecutor(1, initializer=_lower_priority)
    follower = PeerLogFollower(
        Path(orders["journal"]),
        root=root,
        folder=folder,
        history=bool(orders["history"]),
        decisions=bool(orders["decisions"]),
        fault=lambda sentence: _report(fault=sentence),
        ended=stdin.ended,
        work=lambda todo: slow.submit(todo).result(),
        rotate_at=int(orders.get("rotate_at", ROTATE_AT)),
        grace=float(orders.get("grace", GRACE)),
    )
    if stdin.ended(0.0) and not follower.registered:
        return  # its gateway ended before it had the lock
    try:
        follower.run()
    except (JournalError, ReplayMismatch) as fault:
        _report(
            fault=f"the log files of the peers are not written any more: {one_line(str(fault), 500)}",
            final=True,
        )
        raise SystemExit(1) from None
    finally:
        follower.close()


if __name__ == "__main__":
    main()
