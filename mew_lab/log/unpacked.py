"""Unpacks compressed logs, and logs in another format, into journals in a private temporary folder.

A text of a log is read by its offset in a file, which compressed data do not have. So a packed file is unpacked once
when it is opened, into a folder that its owner alone can read, and the folder is deleted when the log is no longer in
use. Nothing is written beside the packed file. Unpacking stops where the disk would be full.

`zstandard` is of the extra `log`: Python has no zstd before 3.14, and DuckDB unpacks it only while it parses.
A format is added here as one more row of `FORMATS`: the bytes that a file begins with, and the function that unpacks it.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from mew_lab.errors import JournalError
from mew_lab.log.reading import read_journal
from mew_lab.protocol.filename import folder_name

__all__ = ["ROOM", "Unpacked", "is_packed"]

ROOM = 256 * 1024 * 1024
"""Bytes that stay free on the disk."""

_PIECE = 1 << 20
_PACKED_PIECE = 512


class Unpacked:
    """A private temporary folder of unpacked files; it is deleted with this object."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mew_lab-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._folders: dict[Path, Path] = {}

    def unpack(self, path: Path, faults: list[str]) -> Path:
        """The path of the unpacked file; sentences on data that end early or are damaged are added to `faults`.

        Raises:
            JournalError: when nothing can be unpacked, the disk has no room for it, or it is no journal.
        """
        parent = self._folders.setdefault(path.parent, self.folder / str(len(self._folders)))
        target = parent / _plain_name(path)
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("rb") as packed, target.open("xb") as file:
                target.chmod(0o600)
                written = 0
                try:
                    for piece in _unpack_of(packed)(packed):
                        if written % (64 * _PIECE) < len(piece) and shutil.disk_usage(parent).free < ROOM:
                            raise JournalError(
                                f"Cannot unpack {path}: after {written >> 20} MiB the disk of {self.folder} has less "
                                f"than {ROOM >> 20} MiB free. Unpack it elsewhere, and name the unpacked file.",
                                path=str(path),
                            )
                        file.write(piece)
                        written += len(piece)
                except (EOFError, zlib.error, gzip.BadGzipFile, _ZstdError) as fault:
                    if not written:
                        raise
                    faults.append(f"{path.name}: the compressed data end early or are damaged ({fault})")
        except (OSError, ValueError, EOFError, zlib.error, _ZstdError) as fault:
            why = getattr(fault, "strerror", None) or fault
            raise JournalError(
                f"Cannot unpack {path}: {why}. Name a file that gzip or zstd wrote whole.", path=str(path)
            ) from None
        if target.stat().st_size:
            try:
                read_journal(target).close()
            except JournalError as fault:
                raise JournalError(str(fault).replace(str(target), str(path)), path=str(path)) from None
        return target


class _ZstdError(Exception):
    """Damaged data of zstd; stands for the exception of a package that may not be installed."""


def _plain_name(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".zst", ".zstd", ".parquet"):
        name = name.removesuffix(ending)
    return name or folder_name(path.name, among=(), taken=())


def _unpack_gzip(packed: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=packed) as file:
        # `read1` gives what was unpacked before the data end early.
        while piece := file.read1(_PIECE):
            yield piece


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


FORMATS: dict[bytes, Callable[[IO[bytes]], Iterator[bytes]]] = {
    b"\x1f\x8b": _unpack_gzip,
    b"\x28\xb5\x2f\xfd": _unpack_zstd,
    b"PAR1": _unpack_parquet,
}


def is_packed(path: Path) -> bool:
    """Whether a file begins like one of a format that is unpacked."""
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as file:
                return _unpack_of(file) is not _copy
    return False


def _unpack_of(file: IO[bytes]) -> Any:
    start = file.read(4)
    file.seek(0)
    return next((unpack for begin, unpack in FORMATS.items() if start.startswith(begin)), _copy)


def _copy(packed: IO[bytes]) -> Iterator[bytes]:
    while piece := packed.read(_PIECE):
        yield piece
