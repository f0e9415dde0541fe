"""Writes a large value that already stands in a file of a journal as a reference to it, and restores the line.

How it works
------------
The same list of tools is sent to each newcomer, and differs only in the ids around it. So what is referred to is
`payload.result` or `payload.params` of a message, or else its `payload`, where it has more than `SMALLEST` bytes:

    {"seq":5,"now":…,"envelope":{…,"payload":{"id":1,"result":{"tools":[…]}}},"chain":"…"}
    {"seq":9,"same":{"at":310,"back":2097,"from":402},"now":…,
        "envelope":{…,"payload":{"id":7,"result":{"x-mew-lab-same-as":{"record":5,"bytes":…,"sha256":"…"}}}},"chain":"…"}

- The value stands at the same member of record 5, in the same file. `back` is how many bytes before this line that line
  begins, `from` the offset of the value in it, and `at` the offset of the object in its place from the `{` of the
  envelope. So a file stands alone, may begin or end anywhere, and a line is restored without reading others.
- A reference names bytes that stand in the file. It is never restored from another reference, so none is a cycle.
- The chain of a line follows from the whole line. A copy with the values written out has the same chain, and a value
  that is not the one that was written breaks it.
- A value is referred to at most `MOST_USES` times, then it is written out again. So a file stands for at most 32 times
  its bytes, and a reader that goes through a file restores no more (`Restorer`).

`WrittenValues` is the side of the writer, `restore` and `Restorer` are that of the readers. This module opens no file.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, Any

from mew_lab.log.line import MARK
from mew_lab.protocol.bounded import BoundedDict

__all__ = ["LINE_LIMIT", "BrokenReference", "RestoredLine", "Restorer", "WrittenValues", "refers", "restore"]

LINE_LIMIT = 8 * 1024 * 1024
"""The most bytes of a line, as it is written and as it is restored."""
SMALLEST = 64 * 1024
"""Only a value of more bytes is referred to."""
MOST_VALUES = 64
"""The newest large values of a file that are known to its writer."""
MOST_BEFORE = (
    4096  # bytes of a message before a value; what is passed over is parsed, and holds the gateway's loop
)
MOST_USES = 31
"""References to one copy of a value."""

_WHERE = re.compile(
    rb'\{"seq":(0|[1-9][0-9]{0,18}),("same":\{"at":([1-9][0-9]{0,6}),"back":([1-9][0-9]{0,17}),'
    rb'"from":([1-9][0-9]{0,6})\},)'
)
_IN_PLACE = re.compile(
    rb'\{"x-mew-lab-same-as":\{"record":(0|[1-9][0-9]{0,18}),"bytes":([1-9][0-9]{0,6}),"sha256":"([0-9a-f]{64})"\}\}'
)
_SAME = b',"same":{'
_LATEST = 27 + len(_SAME)  # bytes of a line within which `_SAME` ends
_INNER = ("result", "params")
_SPACE = re.compile(r"[ \t\n\r]*")
_scan = json.JSONDecoder().raw_decode


class BrokenReference(ValueError):
    """A line refers to what does not stand in its file; the text follows "line 7"."""


class RestoredLine(bytes):
    """A line as it would stand without its reference; `stored` is its length in the file."""

    stored: int


def refers(line: bytes) -> bool:
    """Whether a line has a reference, which may be broken."""
    return line.find(_SAME, 8, _LATEST) > 0


def restore(line: bytes, start: int, read: Callable[[int, int], bytes]) -> RestoredLine:
    """The whole line of one that `refers`.

    Args:
        start: The offset of the line in its file.
        read: Returns so many bytes of that file from an offset on, or fewer at its end.

    Raises:
        BrokenReference: when it refers to something else than a value in an earlier line.
    """
    where = _WHERE.match(line)
    begin = line.find(MARK, where.end()) + len(MARK) if where else 0
    in_place = _IN_PLACE.match(line, begin + int(where[3])) if where and begin >= len(MARK) else None
    if where is None or in_place is None:
        raise BrokenReference("has a reference that is none of mew_lab")
    back, offset, size = int(where[4]), int(where[5]), int(in_place[2])
    named = f"refers to a value of record {in_place[1].decode()}"
    whole = len(line) - len(where[2]) - len(in_place[0]) + size
    if not size > SMALLEST or whole > LINE_LIMIT or offset > LINE_LIMIT:
        raise BrokenReference(f"{named} of a size that none has")
    if not offset + size < back <= start:
        raise BrokenReference(f"{named} that is not before it in its file")
    earlier = read(start - back, offset + size)
    value = earlier[offset:]
    if not earlier.startswith(b'{"seq":%b,' % in_place[1]) or b"\n" in earlier or refers(earlier):
        raise BrokenReference(f"{named}, and another line stands there")
    if len(value) != size or sha256(value).hexdigest().encode() != in_place[3]:
        raise BrokenReference(f"{named} whose SHA-256 is another one")
    restored = RestoredLine(
        b"".join(
            (
                line[: where.start(2)],
                line[where.end(2) : in_place.start()],
                value,
                line[in_place.end() :],
            )
        )
    )
    restored.stored = len(line)
    return restored


class Restorer:
    """Restores the lines of a file, of which one pass restores at most 32 times the bytes before each.

    Args:
        file: The file. Its position is the same after each call.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._restored = 0

    def restore(self, line: bytes, start: int) -> RestoredLine:
        """The whole line of one that `refers`, which begins at `start`.

        Raises:
            BrokenReference: when it refers to something else than a value in an earlier line, or goes too far.
            OSError: when the file cannot be read.
        """
        if self._restored > (MOST_USES + 1) * start:
            raise BrokenReference(
                f"refers to earlier values, of which its file has given {MOST_USES + 1} times its own bytes already"
            )
        whole = restore(line, start, self._read)
        self._restored += len(whole)
        return whole

    def _read(self, start: int, size: int) -> bytes:
        before = self._file.tell()
        try:
            self._file.seek(start)
            parts = []
            while size > 0 and (part := self._file.read(size)):  # an unbuffered file may give fewer
                parts.append(part)
                size -= len(part)
            return b"".join(parts)
        finally:
            self._file.seek(before)


@dataclass(slots=True)
class _Copy:
    """A value as it stands in a file: the `seq` and offset of its line, and its offset in that line.

    `size` and `digest` are known from its first repetition on; before, `size` is 0.
    """

    seq: bytes
    line: int
    at: int
    size: int = 0
    digest: str = ""
    uses: int = 0


class WrittenValues:
    """The newest large values of one file, by the digests of their beginnings."""

    def __init__(self) -> None:
        self._copies: BoundedDict[tuple[str, bytes], _Copy] = BoundedDict(MOST_VALUES, refresh=True)
        self._new: list[tuple[tuple[str, bytes], _Copy]] = []

    def shorten(self, line: bytes, start: int, read: Callable[[int, int], bytes]) -> bytes:
        """The line that is to be written at the offset `start`: with a reference, where its large value is known.

        Args:
            read: Returns so many bytes of the file from an offset on.
        """
        if len(line) <= SMALLEST:
            return line
        begin = line.find(MARK) + len(MARK)
        head = line[begin : begin + MOST_BEFORE].decode("utf-8", "replace")
        found = _find_value(head) if begin >= len(MARK) else None
        if found is None:
            return line
        name, index = found
        at = begin + len(head[:index].encode())
        key = name, sha256(line[at : at + SMALLEST]).digest()
        copy = self._copies.get(key)
        if copy is not None and copy.uses < MOST_USES:
            if not copy.size:
                self._measure(copy, line, at, read)
            value = line[at : at + copy.size]
            if copy.size and sha256(value).hexdigest() == copy.digest:
                copy.uses += 1
                self._copies[key] = copy
                return _write_reference(line, start, begin, at, copy)
        if len(line) - at > SMALLEST:
            self._new.append((key, _Copy(line[7 : line.index(b",")], start, at)))
        return line

    def commit(self, *, written: bool) -> None:
        """Knows the values of the lines since the last call, if they were written."""
        for key, copy in self._new if written else ():
            self._copies[key] = copy
        self._new.clear()

    @staticmethod
    def _measure(copy: _Copy, line: bytes, at: int, read: Callable[[int, int], bytes]) -> None:
        """Sets size and digest of a copy, where the value of the line is the same: a value ends itself."""
        try:
            text = line[at:].decode()
            size = len(text[: _scan(text)[1]].encode())
            value = line[at : at + size]
            if size > SMALLEST and read(copy.line + copy.at, size) == value:
                copy.size, copy.digest = size, sha256(value).hexdigest()
        except (OSError, ValueError, RecursionError):
            return


def _write_reference(line: bytes, start: int, begin: int, at: int, copy: _Copy) -> bytes:
    comma = line.index(b",") + 1
    return b"".join(
        (
            line[:comma],
            b'"same":{"at":%d,"back":%d,"from":%d},' % (at - begin, start - copy.line, copy.at),
            line[comma:at],
            b'{"x-mew-lab-same-as":{"record":%b,"bytes":%d,"sha256":"%b"}}'
            % (copy.seq, copy.size, copy.digest.encode()),
            line[at + copy.size :],
        )
    )


def _find_value(text: str) -> tuple[str, int] | None:
    """The name of the member of a message that may be referred to, and where its value begins.

    `text` is the beginning of the message.
    """
    payload = _find_member(text, 0, ("payload",))
    if payload is None:
        return None
    inner = _find_member(text, payload[1], _INNER)
    return inner if inner is not None and text[inner[1]] in '{["' else payload


def _find_member(text: str, index: int, names: tuple[str, ...]) -> tuple[str, int] | None:
    """The first member of these names in the object that begins at `index`, and where its value begins."""
    try:
        while text[index] in "{,":
            name, index = _read_name(text, _skip_space(text, index + 1))
            if name in names:
                return (name, index) if index < len(text) else None
            index = _skip_space(text, _scan(text, index)[1])
    except (ValueError, IndexError, RecursionError):  # it is another text, or goes on behind its beginning
        pass
    return None


def _read_name(text: str, index: int) -> tuple[str, int]:
    name: Any
    name, index = _scan(text, index)
    index = _skip_space(text, index)
    if text[index] != ":":
        raise ValueError("no member")
    return name, _skip_space(text, index + 1)


def _skip_space(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index
