"""Unpacks compressed logs, and logs in another format, into journals in a private temporary folder.

A journal from before records named the grant behind a permission counts as one in another format: each of its records
gets a note that this is not recorded.

A text of a log is read by its offset in a file, which compressed data do not have. So a packed file is unpacked once
when it is opened, into a folder that its owner alone can read, and the folder is deleted when the log is no longer in
use, or by a later process where this one was killed. Nothing is written beside the packed file.

Few packed bytes may give endless ones. So the first lines are judged before the rest is unpacked, and unpacking stops
where the file becomes larger than `MOST` bytes, or than `RATIO` times what is packed, and where the disk would be full.

Logs of other programs in one piece count as packed, too: a ZIP of JSON (`.eval` of inspect_ai), and an object over
several lines (of inspect_ai, or OTLP). They are laid out in lines, of which each member is kept.

`zstandard` is of the extra `log`: Python has no zstd before 3.14, and DuckDB unpacks it only while it parses.
A format is added here as one more row of `FORMATS`: the bytes that a file begins with, and the function that unpacks it.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from mew_lab.errors import JournalError
from mew_lab.log.entries import SOURCE, lacking
from mew_lab.log.inspect_logs import is_inspect_head, lay_out
from mew_lab.log.line import read_line, split_chain, write_line
from mew_lab.log.otlp_reading import lay_out_spans
from mew_lab.log.reading import HEAD_LINES, LINE_LIMIT, open_regular, opens_without_grants, read_journal
from mew_lab.protocol.filename import folder_name
from mew_lab.protocol.visible import visible
from mew_lab.transport.scratch import ScratchFolder

__all__ = ["MOST", "RATIO", "ROOM", "Unpacked", "is_packed"]

ROOM = 256 * 1024 * 1024
"""Bytes that stay free on the disk."""

MOST = 8 * 1024 * 1024 * 1024
"""Bytes of an unpacked file, unless whoever opens it states another number."""

RATIO, FREE = 200, 64 * 1024 * 1024
"""A journal gives about ten times its packed bytes, saved copies some more; `FREE` bytes are not counted."""

PADDING = 1 << 20
"""Bytes of zeros behind the data of gzip, as tapes and block devices have them; more are no end of a log."""

MOST_PIECE = 256 * 1024 * 1024
"""Bytes of a log in one object, or of one member of a ZIP, which are read at once."""
MOST_MEMBERS = 100_000
_SPANS_HEAD = re.compile(rb'\s*\{\s*"resourceSpans":\s*\[')
_HEAD = 4096
_STORED, _DEFLATED, _ZSTD = 0, 8, 93  # ways in which a member of a ZIP is packed

_PIECE = 1 << 20
_GZIP, _GZIP_PIECE = 31, 1 << 16  # window bits with a gzip header; bytes that are read at once
_PACKED_PIECE = 512


class Unpacked:
    """A private temporary folder of unpacked files; it is deleted with this object.

    `origins` are the packed files, by the unpacked ones.

    Args:
        most: The most bytes of an unpacked file, whatever it takes packed; None for `MOST` and `RATIO`.
    """

    def __init__(self, most: int | None = None) -> None:
        self._scratch = ScratchFolder()
        self.folder = self._scratch.path
        self.origins: dict[Path, Path] = {}
        self._most = most
        self._folders: dict[tuple[Path, int], Path] = {}

    def unpack(self, path: Path, faults: list[str]) -> Path:
        """The path of the unpacked file; sentences on data that end early or are damaged are added to `faults`.

        Raises:
            JournalError: when nothing can be unpacked, it gives too much, the disk has no room, or it is no journal.
        """
        target = self._target(path)
        parent = target.parent
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("rb") as packed, target.open("xb") as file:
                target.chmod(0o600)
                written = lines = 0
                most = self._most_of(packed)
                is_judged = False
                try:
                    for piece in _note_sources(_unpack_of(packed)(packed)):
                        if written % (64 * _PIECE) < len(piece) and shutil.disk_usage(parent).free < ROOM:
                            raise JournalError(
                                f"Cannot unpack {path}: after {written >> 20} MiB the disk of {self.folder} has less "
                                f"than {ROOM >> 20} MiB free. Unpack it elsewhere, and name the unpacked file.",
                                path=str(path),
                            )
                        file.write(piece)
                        written += len(piece)
                        if written > most:
                            raise JournalError(
                                f"Cannot unpack {path}: it gives more than {most >> 20} MiB. Where you expect that, "
                                "state the bytes that it may give (open_log(…, most=BYTES)), or name the unpacked file.",
                                path=str(path),
                            )
                        if not is_judged:
                            lines += piece.count(b"\n")
                            if lines > HEAD_LINES or written > LINE_LIMIT:
                                file.flush()
                                _judge(target, path)
                                is_judged = True
                except (EOFError, zlib.error, _ZstdError) as fault:
                    if not written:
                        raise
                    faults.append(
                        f"{visible(path.name)}: the compressed data end early or are damaged ({fault})"
                    )
        except JournalError:
            target.unlink(missing_ok=True)  # at once: a traceback may hold this folder for long
            raise
        except (OSError, ValueError, EOFError, zlib.error, _ZstdError) as fault:
            why = getattr(fault, "strerror", None) or fault
            raise JournalError(
                f"Cannot unpack {path}: {why}. Name a file that gzip or zstd wrote whole.", path=str(path)
            ) from None
        if target.stat().st_size and not is_judged:
            _judge(target, path)
        self.origins[target] = path
        return target

    def _target(self, path: Path) -> Path:
        """Where to unpack a file: beside the others of its folder, or apart where one of them has its name."""
        number, target = 0, None
        while target is None or target in self.origins:
            parent = self._folders.setdefault((path.parent, number), self.folder / str(len(self._folders)))
            number, target = number + 1, parent / _plain_name(path)
        return target

    def _most_of(self, packed: IO[bytes]) -> int:
        """The bytes that a packed file may give."""
        if self._most is not None:
            return self._most
        return min(MOST, FREE + RATIO * os.fstat(packed.fileno()).st_size)


def _judge(target: Path, path: Path) -> None:
    """Checks that what was unpacked so far is of a log.

    Raises:
        JournalError: when it is not.
    """
    try:
        read_journal(target).close()
    except JournalError as fault:
        raise JournalError(str(fault).replace(str(target), str(path)), path=str(path)) from None


def _note_sources(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The data of a log in pieces; the records of a journal that names no grants note that they are not recorded.

    Raises:
        EOFError, zlib.error, _ZstdError: as the pieces do, after the data before.
    """
    notes = _SourceNotes()
    try:
        for piece in pieces:
            yield notes.take(piece)
    except (EOFError, zlib.error, _ZstdError):
        yield notes.end()
        raise
    yield notes.end()


class _SourceNotes:
    """Takes the data of a log in pieces, and gives them back with the notes."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the beginning of a line
        self._is_old: bool | None = None  # whether the next lines name no grants; None before the first line
        self._within = False  # the next data end a line that is too long

    def take(self, piece: bytes) -> bytes:
        """The data up to the last line that has ended, or that is too long."""
        if self._is_old is False:
            return piece
        self._rest += piece
        if b"\n" not in piece and len(self._rest) <= LINE_LIMIT:
            return b""
        data = bytes(self._rest)
        cut = data.rfind(b"\n") + 1
        if not cut:
            given = self.end() if self._is_old is None else data
            self._within = True
            self._rest.clear()
            return given
        self._rest = bytearray(data[cut:])
        given = b"".join(map(self._note, BytesIO(data[:cut])))
        return given if self._is_old else given + self.end()

    def end(self) -> bytes:
        """The data that were not given back yet."""
        data = bytes(self._rest)
        self._rest.clear()
        return self._note(data) if data else b""

    def _note(self, line: bytes) -> bytes:
        within, self._within = self._within, False
        if within or len(line) > LINE_LIMIT:
            self._is_old = self._is_old is True
            return line
        if self._is_old is None:
            self._is_old = opens_without_grants(line)
        elif self._is_old and split_chain(line)[1]:
            self._is_old = False  # of a later version, which names them
        record = read_line(line) if self._is_old else None
        if record is None or not record.pattern or record.grant or record.detail:
            return line
        return write_line(lacking(record, SOURCE))


class _ZstdError(Exception):
    """Damaged data of zstd; stands for the exception of a package that may not be installed."""


def _plain_name(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(ending)
    return name or folder_name(path.name, among=(), taken=())


def _unpack_gzip(packed: IO[bytes]) -> Iterator[bytes]:
    # The library's own reader takes long headers, and zeros behind the data, byte by byte.
    member, padding = None, 0
    while data := packed.read(_GZIP_PIECE):
        while data:
            if member is None:
                length = len(data)
                data = data.lstrip(b"\0")
                padding += length - len(data)
                if padding > PADDING:
                    raise EOFError("zeros without an end follow them")
                if not data:
                    break
                member = zlib.decompressobj(_GZIP)
            before = member.copy()
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error:
                # What stands before the damage is given, too.
                with suppress(zlib.error):
                    for byte in data:
                        if piece := before.decompress(bytes((byte,))):
                            yield piece
                raise
            if piece:
                yield piece
            data, member = (member.unused_data, None) if member.eof else (member.unconsumed_tail, member)
    if member is not None:
        raise EOFError("they have no end")


def _unpack_zstd(packed: IO[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise JournalError(
            "A log compressed by zstd needs the package zstandard. Install mew_lab[log], or unpack the file by zstd -d.",
            path=str(getattr(packed, "name", "")),
        ) from None
    decompressor, frame = zstandard.ZstdDecompressor(max_window_size=1 << 27), None
    try:
        # A stream reader of the package does not tell a cut file from a whole one. The pieces are small, because each
        # byte of them may give 32 KiB.
        while data := packed.read(_PACKED_PIECE):
            while data:
                frame = frame or decompressor.decompressobj()
                if piece := frame.decompress(data):
                    yield piece
                data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    except zstandard.ZstdError as fault:
        raise _ZstdError(fault) from None
    if frame is not None:
        raise _ZstdError("its last frame has no end")


def _unpack_parquet(packed: IO[bytes]) -> Iterator[bytes]:
    from mew_lab.log.parquet import read_parquet_lines

    return read_parquet_lines(Path(str(packed.name)))


def _unpack_zip(packed: IO[bytes]) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(packed) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as fault:
        raise EOFError(str(fault)) from None
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has more than {MOST_MEMBERS} members")
    if len({member.header_offset for member in members}) < len(members):
        raise ValueError("members of it stand in one place")
    room = FREE + RATIO * os.fstat(packed.fileno()).st_size
    # What tells of the whole comes first, then the samples in the order of their names.
    for member in sorted(members, key=lambda one: (one.filename != "header.json", one.filename)):
        if member.is_dir():
            continue
        data = _member(packed, member)
        room -= len(data)  # what is laid out may be much less, as of spaces
        if room < 0:
            raise ValueError(f"its members give more than {RATIO} times what they take")
        yield from _laid_out(data, member.filename)


def _member(packed: IO[bytes], member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, of which not more than `MOST_PIECE` are unpacked, whatever it says of itself.

    Raises:
        EOFError, zlib.error, _ZstdError: it is damaged.
        ValueError: it is encrypted or too large, or packed in an unknown way.
    """
    name = visible(member.filename)
    packed.seek(member.header_offset)
    head = packed.read(30)
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        raise EOFError(f"{name} is not where the archive says")
    if member.flag_bits & 1:
        raise ValueError(f"{name} in it is encrypted")
    packed.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), os.SEEK_CUR)
    data = BytesIO(packed.read(min(member.compress_size, MOST_PIECE + 1)))
    if member.compress_type == _STORED:
        pieces: Iterator[bytes] = iter((data.getvalue(),))
    elif member.compress_type == _DEFLATED:
        pieces = _inflate(data)
    elif member.compress_type == _ZSTD:
        pieces = _unpack_zstd(data)
    else:
        raise ValueError(f"{name} in it is packed in a way that is not known here")
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MOST_PIECE:
            raise ValueError(f"{name} in it has more than {MOST_PIECE >> 20} MiB")
    if zlib.crc32(whole) != member.CRC:
        raise EOFError(f"the checksum of {name} differs")
    return bytes(whole)


def _inflate(data: IO[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(-15)
    while rest := data.read(_PIECE):
        while rest:
            yield member.decompress(rest, _PIECE)
            rest = member.unconsumed_tail
    if not member.eof:
        raise EOFError("a member of it has no end")


def _unpack_object(packed: IO[bytes]) -> Iterator[bytes]:
    data = packed.read(MOST_PIECE + 1)
    if len(data) > MOST_PIECE:
        raise ValueError(f"it is one object of more than {MOST_PIECE >> 20} MiB")
    yield from _laid_out(data)


def _laid_out(data: bytes, name: str = "") -> Iterator[bytes]:
    """The lines of an object of JSON.

    Raises:
        EOFError: it is none.
    """
    try:
        yield from lay_out_spans(data) if not name and _SPANS_HEAD.match(data) else lay_out(data, name)
    except (ValueError, RecursionError) as fault:
        what = f"{visible(name)} in it" if name else "it"
        raise EOFError(f"{what} is no JSON: {visible(str(fault))[:100]}") from None


FORMATS: dict[bytes, Callable[[IO[bytes]], Iterator[bytes]]] = {
    b"\x1f\x8b": _unpack_gzip,
    b"\x28\xb5\x2f\xfd": _unpack_zstd,
    b"PAR1": _unpack_parquet,
    b"PK\x03\x04": _unpack_zip,
}


def is_packed(path: Path) -> bool:
    """Whether a file begins like one of a format that is unpacked."""
    with suppress(OSError, ValueError):
        if path.is_file():
            with open_regular(path) as file:
                return _unpack_of(file) is not _copy
    return False


def _unpack_of(file: IO[bytes]) -> Any:
    start = file.read(4)
    file.seek(0)
    if start.lstrip()[:1] == b"{":
        head = file.read(_HEAD)
        file.seek(0)
        is_whole_line = head.partition(b"\n")[1] and head.partition(b"\n")[0].rstrip().endswith(b"}")
        several = _SPANS_HEAD.match(head) is not None and b"\n" in head[:64] and not is_whole_line
        return _unpack_object if is_inspect_head(head) or several else _copy
    return next((unpack for begin, unpack in FORMATS.items() if start.startswith(begin)), _copy)


def _copy(packed: IO[bytes]) -> Iterator[bytes]:
    while piece := packed.read(_PIECE):
        yield piece
