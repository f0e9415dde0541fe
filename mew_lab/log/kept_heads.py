"""Keeps heads of a journal's chain outside the journal, and reads them again.

An intact chain shows neither that the end of a journal is complete nor that the whole was not rewritten; the owner of
the file can do both. Heads that were kept elsewhere while the journal grew show these too (`integrity.verify_chain`):
in the lab's own file beside the tokens, in a welcome that its owner received, or on paper.

A file of heads has one line for each: time, epoch of the run, record, chain, digest of where the journal lay. A line is
appended, never changed, so the file has no bound, and is read line by line. A line that is no head, and a file of the
lab that cannot be read, is a doubt: a head that speaks against the journal may have stood there.

The journal that is verified names its own space and run, and whoever forged it chose these names. So where no head has
them, those of all runs are looked up that the lab kept, in whose folder the journal lies. A journal elsewhere may come
from anybody whose space has the same name, so of other runs it has only the heads that were kept of a journal there.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.reading import first_record, opening_of, vantage_of
from mew_lab.protocol.filename import folder_name
from mew_lab.protocol.visible import one_line
from mew_lab.transport.folder import open_below

__all__ = [
    "KeptHead",
    "KeptHeads",
    "epoch_of",
    "heads_path",
    "keep_head",
    "keep_head_of",
    "kept_heads",
    "read_heads",
]

LONGEST = 256  # bytes of a line in a file of heads
MAX_BAD = 1000  # lines that are no heads, after which a file is not read on
MAX_BAD_LINE = 1 << 24  # bytes of one of them
_CHAIN = re.compile("[0-9a-f]{64}")


class KeptHead(NamedTuple):
    """A head of a journal's chain that was kept elsewhere: its time, and the record that it followed.

    `epoch` is that of its run; None for that of the journal that is verified. `place` is the digest of where its journal
    lay then, empty where the head does not tell.
    """

    at: datetime
    seq: int
    chain: str
    epoch: int | None = None
    place: str = ""


class KeptHeads(tuple[KeptHead, ...]):
    """The heads that were kept of a journal; `doubts` are sentences on what could not be read of them.

    `here` is the `place` of the heads that were kept while it lay where it lies; empty where that is not known.
    """

    doubts: tuple[str, ...]
    here: str

    def __new__(cls, heads: Iterable[KeptHead] = (), doubts: Iterable[str] = (), here: str = "") -> KeptHeads:
        made = super().__new__(cls, heads)
        made.doubts, made.here = tuple(doubts), here
        return made


def heads_path(folder: Path, space: str) -> Path:
    """The file of the heads that a lab keeps of the journals of a space; `folder` is the folder that holds `.mew`."""
    place = folder / ".mew" / "tokens"
    there = [entry.name for entry in place.iterdir()] if place.is_dir() else []
    return place / folder_name(space, among=there) / "journal.heads"


def _digest(place: Path) -> str:
    """Names a place without showing it to whoever receives a file of heads."""
    return sha256(os.fsencode(place.resolve())).hexdigest()[:16]


def _lab_of(path: Path) -> tuple[Path, bool]:
    """The folder of the lab that a journal is of, and whether the journal lies in its `.mew`.

    A journal in `.mew` is of the lab whose folder that is, the outermost where there are several: whoever forged the
    journal may have made the others. For any other it is the lab in the current folder.
    """
    above = [folder.parent for folder in path.resolve().parents if folder.name == ".mew"]
    return (above[-1], True) if above else (Path.cwd(), False)


def _heads_files(path: Path, place: Path, doubts: list[str]) -> dict[Path, bool]:
    """The files in which a lab may have kept heads of a journal, and of each whether all its heads speak of it.

    The first is that of the space that it names. Where it lies in the folder of its lab it is of that lab: of the space
    that it names, or of any, where it states that a gateway wrote it.
    """
    record, about = first_record(path), opening_of(path)
    space = record.space if record is not None else ""
    tokens = Path(".mew") / "tokens"
    try:
        folder, in_mew = _lab_of(place)
        within = place.resolve().is_relative_to(folder)
        any_space = in_mew or (within and vantage_of(about) == "gateway")
        tokens = folder / tokens
        files = {heads_path(folder, space): within} if space else {}
        # A name that is a link to nowhere counts, so that it is told.
        for entry in sorted(tokens.iterdir()) if os.path.lexists(tokens) else ():
            if not entry.is_file():
                files.setdefault(entry / "journal.heads", any_space)
    except OSError as fault:
        doubts.append(_unreadable(tokens, fault))
        return {}
    return files


def kept_heads(
    path: str | os.PathLike[str], file: Path | None = None, *, place: Path | None = None
) -> KeptHeads:
    """The heads that were kept of a journal, in `file` or by a lab, and some of other runs.

    These are the later ones of a journal at its place: an earlier run may have been put there. Where the journal has no
    head itself, they are all that its lab kept, and for a journal that lies in the folder of none, those that were kept
    of a journal at its place.

    Args:
        place: Where the journal lies, if `path` is an unpacked copy of it.

    Raises:
        JournalError: when the journal or `file` cannot be read, or `file` has no head.
    """
    first, doubts = Path(path), list[str]()
    files = {file: True} if file is not None else _heads_files(first, place or first, doubts)
    epoch = epoch_of(first)
    here = _digest(place or first)
    own, kept = list[KeptHead](), list[KeptHead]()
    for nth, (each, all_) in enumerate(files.items()):
        for head in read_heads(each, doubts, is_named=file is not None):
            if nth == 0 and epoch is not None and head.epoch == epoch:
                own.append(head)
            elif head.place == here or (all_ and not own):
                kept.append(head)
    if file is not None and doubts and not (own or kept):
        raise JournalError(doubts[0][0].upper() + doubts[0][1:], path=str(file))
    if not own:
        return KeptHeads(kept, doubts, here)
    last = max(head.at for head in own)
    later = (head for head in kept if head.place == here and head.at > last)
    return KeptHeads((*own, *later), doubts, here)


def keep_head(path: Path, epoch: int, head: KeptHead, journal: Path) -> None:
    """Appends a head of a journal to a file of heads; a missing file is made, readable by its owner alone.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = open_below(path, flags, make=True)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no regular file")
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(fd, 0o600)
        at = max(0, status.st_size - LONGEST)
        os.lseek(fd, at, os.SEEK_SET)
        whole = os.read(fd, LONGEST).rfind(b"\n") + 1
        if at + whole < status.st_size:  # a killed process left a line half written
            os.ftruncate(fd, at + whole)
        line = f"{head.at.isoformat()} {epoch:016x} {head.seq} {head.chain} {_digest(journal)}\n"
        os.write(fd, line.encode("ascii"))
    finally:
        os.close(fd)


def keep_head_of(path: Path, file: Path | None, head: KeptHead) -> Path | None:
    """Appends a head of a journal to `file`, or to that of its lab; returns it, None where there is none.

    Raises:
        JournalError: when it cannot be written.
    """
    record, epoch = first_record(path), epoch_of(path)
    if record is None or epoch is None:
        return None
    try:
        if file is None:
            folder, in_mew = _lab_of(path)
            file = heads_path(folder, record.space)
            if not in_mew and not file.exists():
                return None
        keep_head(file, epoch, head, path)
    except OSError as fault:
        raise JournalError(
            f"{path} was written, but its head could not be kept in {file or 'the folder of its lab'} "
            f"({fault.strerror or fault}), so nothing vouches for the snapshot. It is {head.chain}, behind #{head.seq}.",
            path=str(file or path),
        ) from None
    return file


def epoch_of(path: Path) -> int | None:
    """The epoch of the run that a journal states; None where it states none.

    Raises:
        JournalError: when the journal cannot be read.
    """
    epoch = opening_of(path).get("epoch")
    return epoch if type(epoch) is int else None


def read_heads(path: Path, doubts: list[str], *, is_named: bool = False) -> Iterator[KeptHead]:
    """The heads in a file; none where there is no such file. What cannot be read is added to `doubts`.

    Args:
        is_named: whether a person named the file, which may be a link then.

    Raises:
        JournalError: when there is no file that a person named.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    try:
        fd = os.open(path, flags) if is_named else open_below(path, flags | getattr(os, "O_NOFOLLOW", 0))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(0, "it is no regular file")
    except FileNotFoundError:
        if is_named:
            raise JournalError(
                f"There is no file of heads {one_line(str(path))}. Name the file in which a lab kept them.",
                path=str(path),
            ) from None
        return
    except (OSError, ValueError) as fault:
        doubts.append(_unreadable(path, fault))
        return
    bad: list[int] = []
    with os.fdopen(fd, "rb") as file:
        try:
            number, size = 0, os.fstat(fd).st_size
            while file.tell() < size:  # else a file that grows would be read without an end
                number, line = number + 1, file.readline(LONGEST)
                if not line.endswith(b"\n") and not _skip_line(file):
                    break  # a line that a killed process left half written
                head = _read_head(line)
                if head is not None:
                    yield head
                else:
                    bad.append(number)
                    if len(bad) == MAX_BAD:
                        break
        except OSError as fault:
            doubts.append(_unreadable(path, fault))
    if bad:
        more = f", and {len(bad) - 1} more are none" if len(bad) > 1 else ""
        left = "; the rest was not read" if len(bad) == MAX_BAD else ""
        doubts.append(
            f"line {bad[0]} of {one_line(str(path))} is no time, run, record and head{more}{left}: a head may have "
            "stood there. Take it out if you know why it is there"
        )


def _read_head(line: bytes) -> KeptHead | None:
    """The head in a line; None where it is none."""
    try:
        at, run, seq, chain, *place = line[:-1].decode("ascii").split(" ")
        if not _CHAIN.fullmatch(chain) or len(place) > 1:  # earlier versions wrote no place
            return None
        when = datetime.fromisoformat(at).astimezone(UTC)
        return KeptHead(when, int(seq), chain, int(run, 16), *place)
    except (ValueError, OverflowError):  # of a time before the year 1
        return None


def _skip_line(file: BinaryIO) -> bool:
    """Reads on to the end of a line that is too long; returns whether it has one, not too far away."""
    for _ in range(MAX_BAD_LINE // LONGEST):
        part = file.readline(LONGEST)
        if part.endswith(b"\n"):
            return True
        if not part:
            return False
    raise OSError(0, f"a line is longer than {MAX_BAD_LINE} bytes")


def _unreadable(path: Path, fault: Exception) -> str:
    why = getattr(fault, "strerror", None) or fault
    return f"cannot read the heads in {one_line(str(path))}: {one_line(str(why))}"
