"""`mew-lab tap`: relays between an MCP client and an MCP server, and records both directions in a journal.

The relay passes bytes on and decides nothing. A thread of its own makes records of them and writes the journal, so that
neither a slow nor a full disk delays a message: bytes for which there is no room in the queue, and records that the disk
does not take, are counted, reported on stderr, and noted in the journal as soon as it can be written to again.
"""

from __future__ import annotations

import argparse
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from mew_lab.cli import shell
from mew_lab.errors import ConfigError, JournalError
from mew_lab.log.journal import Journal, journal_path
from mew_lab.log.tap import LOST, Side, TapRecorder
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record
from mew_lab.transport.http_relay import HttpRelay
from mew_lab.transport.relay import StdioRelay, end_like

__all__ = ["TapJournal", "add_options", "run"]

SPACE: Final = "tap"
MAX_WAITING: Final = 64 * 1024 * 1024  # bytes that wait for the disk
RETRY: Final = 1.0  # seconds between two writes to a journal that took none
LAST: Final = 5.0  # seconds that the last records have to be written


class _Piece(NamedTuple):
    """Bytes of one side, none at its end; before them `lost` bytes had no room. On a `connection` of HTTP they are one
    whole message."""

    side: Side
    data: bytes
    now: datetime
    lost: int = 0
    connection: str = ""


class TapJournal:
    """Writes the records of a tap in a thread of its own; `observe` never waits.

    Args:
        path: The journal, which must not exist yet.
        most: The bytes that may wait to be written.

    Raises:
        JournalError: when the journal cannot be made.
    """

    def __init__(self, path: Path, *, via: str, about: str = "", most: int = MAX_WAITING) -> None:
        self.path = path
        self._journal = Journal(path, space=SPACE, vantage="tap")
        self._recorder = TapRecorder(space=SPACE, prefix=secrets.token_hex(4), via=via)
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[_Piece] = deque()
        self._size = 0
        self._lost: dict[Side, int] = {"client": 0, "server": 0}  # bytes, not yet noted
        self._closing = False
        self._seq = 0
        self._unwritten = 0  # records, not yet noted
        self._retry_at = 0.0
        self._told: set[str] = set()
        now = datetime.now(UTC)
        opened = Record(0, now, "opened", SPACE)
        self._write([opened, self._recorder.began("client", now), self._recorder.began("server", now, about)])
        self._thread = threading.Thread(target=self._run, name="tap journal", daemon=True)
        self._thread.start()

    def observe(self, side: Side, data: bytes, connection: str = "") -> None:
        """Takes bytes that a side sent; none for its end, and one whole message where a `connection` is named.

        It may be called from any thread.
        """
        with self._changed:
            if self._size + len(data) > self._most:
                self._lost[side] += len(data)
            else:
                self._size += len(data)
                self._waiting.append(_Piece(side, data, datetime.now(UTC), self._lost[side], connection))
                self._lost[side] = 0
            self._changed.notify()

    def miss(self, side: Side, size: int) -> None:
        """Notes bytes of a message that could not be shown."""
        with self._changed:
            self._lost[side] += size
            self._changed.notify()

    def close(self, why: str = "") -> None:
        """Writes what waits, for at most `LAST` seconds, and how the session ended, and closes the journal."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(LAST)
        if self._thread.is_alive():
            self._tell("last", "the disk does not take the last records; they are not in the log")
        else:
            self._retry_at = 0.0
            self._write([Record(0, datetime.now(UTC), "closed", SPACE, "server", detail=why)])
            if self._unwritten:
                self._tell("end", f"{count_of(self._unwritten, 'record')} at the end could not be written")
            self._journal.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._closing or any(self._lost.values())):
                    self._changed.wait()
                pieces, self._waiting = self._waiting, deque()
                lost, self._lost = self._lost, {"client": 0, "server": 0}
                closing = self._closing
            for piece in pieces:
                self._note_lost(piece.side, piece.lost)
                self._write(self._records_of(piece))
                with self._changed:
                    self._size -= len(piece.data)
            for side, size in lost.items():
                self._note_lost(side, size)
            if closing and not pieces:
                return

    def _note_lost(self, side: Side, size: int) -> None:
        if size:
            self._write([self._recorder.lost(side, size, datetime.now(UTC))])
            self._tell("gap", f"{count_of(size, 'byte')} could not be recorded; the log has gaps")

    def _records_of(self, piece: _Piece) -> Iterable[Record]:
        if piece.connection:
            return self._recorder.message(piece.side, piece.data, piece.now, connection=piece.connection)
        if piece.data:
            return self._recorder.feed(piece.side, piece.data, piece.now)
        return self._recorder.ended(piece.side, piece.now, "closed its end")

    def _write(self, records: Iterable[Record]) -> None:
        for record in records:
            self._write_one(record)

    def _write_one(self, record: Record) -> None:
        if self._unwritten:
            if time.monotonic() < self._retry_at:
                self._unwritten += 1
                return
            note = Record(0, record.now, LOST, SPACE, detail=compact({"records": self._unwritten}))
            if not self._append(note):
                self._unwritten += 1
                return
            self._unwritten = 0
        if not self._append(record):
            self._unwritten += 1

    def _append(self, record: Record) -> bool:
        try:
            self._journal.append([record._replace(seq=self._seq)])
        except JournalError as fault:
            self._retry_at = time.monotonic() + RETRY
            why = one_line(str(fault).partition(" Make room")[0], 300)
            self._tell("fault", f"{why} The relay goes on without it")
            return False
        self._seq += 1
        return True

    def _tell(self, kind: str, sentence: str) -> None:
        """Reports a fault on stderr, each kind once."""
        if kind not in self._told:
            self._told.add(kind)
            shell.warn(f"mew-lab tap: {sentence}.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    about = "the journal, a new file; default: a new one below .mew/tap"
    parser.add_argument("--journal", type=Path, metavar="PATH", help=about)
    about = (
        "instead of a command: the loopback address and port for clients over HTTP; port 0 takes a free one"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help=about)
    parser.add_argument("--to", metavar="URL", help="with --listen: the address of the server")
    about = "the command that starts the server, over stdio"
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help=about)


def run(options: argparse.Namespace) -> None:
    """Runs the command with these options.

    Raises:
        MewError: The program cannot be started, or the journal cannot be made.
        SystemExit: The exit status of the program, unless it is 0.
    """
    path = options.journal or journal_path(Path.cwd(), space=SPACE, now=datetime.now(UTC))
    if options.listen is not None:
        if options.to is None or options.words:
            raise ConfigError("Give --listen HOST:PORT with --to URL, and no command", key="listen")
        host, port = _address_of(options.listen)
        with shell.new_runner() as runner:
            runner.run(_relay_http(host, port, options.to, path))
        return
    if options.to is not None or not options.words:
        raise ConfigError("Give -- COMMAND, or --listen HOST:PORT with --to URL", key="command")
    journal = TapJournal(path, via="stdio", about=options.words[0])
    shell.warn(f"mew-lab tap: the messages are recorded in {path}")
    why = "it could not be started"
    try:
        status = StdioRelay(options.words, lambda side, data: journal.observe(_side(side), data)).run()
        why = f"exit status {status}" if status >= 0 else f"signal {-status}"
    except SystemExit as end:
        why = f"signal {int(end.code or 0) - 128} to the relay"
        raise
    finally:
        journal.close(why)
    if status:
        end_like(status)
        raise SystemExit(status if status > 0 else 128 - status)


async def _relay_http(host: str, port: int, to: str, path: Path) -> None:
    """Relays HTTP until SIGINT or SIGTERM."""
    ended = shell.end_on_signal()
    journals: list[TapJournal] = []
    relay = HttpRelay(
        host,
        port,
        to,
        lambda side, data, connection: journals[0].observe(_side(side), data, connection),
        lambda side, size: journals[0].miss(_side(side), size),
    )
    journals.append(TapJournal(path, via="http"))
    try:
        async with relay:
            shell.warn(f"mew-lab tap: the messages are recorded in {path}")
            shell.warn(f"mew-lab tap: clients connect to {relay.url}")
            await ended.wait()
    finally:
        journals[0].close("ended")


def _address_of(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal() and int(port[:6]) < 65_536):
        raise ConfigError(
            f"Cannot listen on {text!r}: name host and port, such as 127.0.0.1:8001", key="listen"
        )
    host = host.strip("[]")
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(f"Cannot listen on {text!r}: the host is 127.0.0.1, localhost or ::1", key="listen")
    return host, int(port)


def _side(name: str) -> Side:
    return "client" if name == "client" else "server"
