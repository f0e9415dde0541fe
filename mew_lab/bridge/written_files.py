"""Compares the file that a call would write with the file as it is now, for the person who decides on the call.

How it works. A bridge knows of its own server which tools write files: those of a table by the name that the server
gives itself, and those that its owner marked. `FileWrite` says which file a call means, and what would stand in it.
`compare_file` reads the old file and computes the difference of lines. It blocks, so it runs in a thread.

The old file is opened below a folder that the owner gave to the server, one name after the other, and no link is
followed. It is read where it is a regular file of at most 1 MB and 5,000 lines in UTF-8; of another one size and
SHA-256 are told. An edit is computed only where each old text occurs exactly once: the server would search for another
one by rules of its own. Secrets in lines of the old file are masked, and nothing of the raw text leaves this module.

Nothing is locked. The file may change until the server writes it, so `stamp` identifies what was compared.

Spec: threats 28, 35.
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.bridge.secrets import hide_in_lines
from mew_lab.errors import ConfigError
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.transport.folder import KEPT, open_within

__all__ = [
    "MAX_BYTES",
    "MAX_LINES",
    "FileDiff",
    "FileWrite",
    "StartedServer",
    "WritingTool",
    "check_writes",
    "compare_file",
    "compare_texts",
    "find_write",
    "find_written",
    "lines_of",
    "open_plain",
    "stamp_file",
]

MAX_BYTES = 1_000_000  # of a file, or of what would stand in it
MAX_LINES = 5_000
MAX_HASHED = 64 * 1024 * 1024  # bytes; of a larger file the size alone is told
MAX_SHOWN = 6_000  # lines of a difference
MAX_EDITS = 1_000
CONTEXT = 3  # equal lines that are shown around a change
BUDGET = 100_000  # pairs of lines that are compared where none of them stands alone

UNKNOWN = "the old content is not known here"
NOT_COMPUTED = "result not computed"


class WritingTool(NamedTuple):
    """A tool that writes one file: the names of the arguments with its path, and with its content or its edits."""

    path: str
    content: str = ""
    edits: str = ""


WRITING_TOOLS: Mapping[str, Mapping[str, WritingTool]] = {
    # @modelcontextprotocol/server-filesystem
    "secure-filesystem-server": {
        "write_file": WritingTool("path", content="content"),
        "edit_file": WritingTool("path", edits="edits"),
    },
}
"""The known tools, by the name that a server gives itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWrite:
    """The file that a call means, and what the call would do to it.

    `roots` are the folders in which the server may write, `base` is that of a relative path, where one is known.
    `content` is the whole new text; None where `edits`, pairs of an old and a new text, say what would be changed. `why`
    is the reason why the old file cannot be looked up here; empty where it can. `arguments` are the names of those that
    a difference shows whole.
    """

    path: str
    content: str | None = None
    edits: tuple[tuple[str, str], ...] = ()
    roots: tuple[Path, ...] = ()
    base: Path | None = None
    why: str = ""
    arguments: tuple[str, ...] = ()


class FileDiff(NamedTuple):
    """A file as it is now, and how a call would change it.

    Attributes:
        path: The absolute path of the file; empty where it was not looked for.
        place: Its path within the folder that was given to the server, and that folder.
        size, sha256: Of the file; None and empty where there is none, or it was not read.
        stamp: Equal while the file is the same.
        rows: The difference: pairs of a sign and a line; ` ` in both, `-` before, `+` after, `…` for equal lines that
            are left out, which it counts. Lines of the old file are masked.
        added, removed: How many lines; None where the difference was not computed.
        why: The reason why there are no rows.
        is_new: Whether there is no such file.
    """

    path: str = ""
    place: str = ""
    size: int | None = None
    sha256: str = ""
    stamp: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    added: int | None = None
    removed: int | None = None
    why: str = ""
    is_new: bool = False

    @property
    def receipt(self) -> dict[str, Any]:
        """What a receipt keeps of the old file; empty where it was not looked for."""
        if not self.path:
            return {}
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


def check_writes(
    name: str, writes: Mapping[str, Sequence[str]] | None, *, runs_here: bool
) -> dict[str, WritingTool]:
    """The tools that an owner marked: by their names, the names of the arguments with the path and the content.

    Raises:
        ConfigError: an entry is no pair of names, or the server runs elsewhere.
    """
    if writes and not runs_here:
        raise ConfigError(
            f"Cannot bridge {name!r}: writes= is for a server that is started here; the files of one at a URL are not "
            "known here"
        )
    tools: dict[str, WritingTool] = {}
    for tool, names in (writes or {}).items():
        if (
            isinstance(names, str)
            or len(names) != 2
            or not all(isinstance(one, str) and one for one in names)
        ):
            raise ConfigError(
                f"Cannot bridge {name!r}: writes[{tool!r}] is {names!r:.80}; write the names of two arguments, such as "
                '("path", "content")'
            )
        tools[tool] = WritingTool(names[0], content=names[1])
    return tools


def find_write(tool: str, arguments: Mapping[str, Any]) -> FileWrite | None:
    """The file that a call of a participant elsewhere seems to write; None where its tool has no known name."""
    for tools in WRITING_TOOLS.values():
        if tool in tools and (write := find_written(tools[tool], arguments)) is not None:
            return FileWrite(path=write.path, why=UNKNOWN)
    return None


def find_written(
    known: WritingTool, arguments: Mapping[str, Any], *, roots: Sequence[Path] = (), base: Path | None = None
) -> FileWrite | None:
    """The file that a call of a known tool would write; None where its arguments do not say so."""
    path = arguments.get(known.path)
    if not isinstance(path, str) or not path:
        return None
    where: dict[str, Any] = {"path": path, "roots": tuple(roots), "base": base}
    if known.content:
        content = arguments.get(known.content)
        if not isinstance(content, str):
            return None
        return FileWrite(**where, content=content, arguments=(known.content,))
    listed = arguments.get(known.edits)
    if not isinstance(listed, list) or arguments.get("dryRun") is True:
        return None
    edits: list[tuple[str, str]] = []
    for edit in listed[: MAX_EDITS + 1]:
        old, new = (edit.get("oldText"), edit.get("newText")) if isinstance(edit, Mapping) else (None, None)
        if not isinstance(old, str) or not isinstance(new, str):
            return None
        edits.append((old, new))
    return FileWrite(**where, edits=tuple(edits), arguments=(known.edits,))


class StartedServer(NamedTuple):
    """A server that a program of this process has started: its folder, those that its command names, its marked tools.

    The name that the server gives itself is known to that program alone, so no tool is known without a mark.
    """

    cwd: Path
    folders: tuple[Path, ...]
    writes: Mapping[str, WritingTool]

    @classmethod
    def of(
        cls, name: str, *, cwd: Path, words: Sequence[str], writes: Mapping[str, Sequence[str]]
    ) -> StartedServer:
        """The server that these words of a command have started. Raises as `check_writes`."""
        named = (cwd / word.rpartition("=")[2] for word in words if "\0" not in word)
        folders = tuple(path for path in named if path.is_dir())
        return cls(cwd, folders, check_writes(name, writes, runs_here=True))

    def find_write(self, tool: str, arguments: Mapping[str, Any]) -> FileWrite | None:
        """The file that a call would write; None where none is known."""
        marked = self.writes.get(tool)
        return marked and find_written(marked, arguments, roots=[self.cwd, *self.folders], base=self.cwd)


# --- the old file ---


class _OldFile(NamedTuple):
    """`FileDiff` has the same members; `text` is None where it is not read, which `why` explains."""

    path: str = ""
    place: str = ""
    size: int | None = None
    sha256: str = ""
    stamp: str = ""
    text: str | None = None
    why: str = ""
    is_new: bool = False


def _locate(write: FileWrite) -> tuple[Path, tuple[str, ...]] | str:
    """The folder that was given, and the names from there to the file; or the reason why there are none."""
    if write.why:
        return write.why
    text = write.path
    if "\0" in text or text.startswith("~"):
        return f"{UNKNOWN}: the path is not a plain one"
    path = Path(text)
    if not path.is_absolute():
        if write.base is None:
            return f"{UNKNOWN}: the path is relative, and its server has no folder or several"
        path = write.base / path
    if ".." in path.parts:
        return f"{UNKNOWN}: the path has “..”"
    inside = [
        (len(given.parts), root, path.relative_to(given).parts)
        for root in write.roots
        for given in (root.absolute(), root.resolve())
        if path.is_relative_to(given)
    ]
    if not inside:
        return f"{UNKNOWN}: the path is in no folder that was given to its server"
    _, root, names = max(inside, key=lambda found: found[0])
    if not names:
        return f"{UNKNOWN}: the path is a folder"
    if KEPT in (name.casefold() for name in names):
        return f"{UNKNOWN}: what {KEPT} holds is not shown"
    return root.resolve(), names


def _read_old(write: FileWrite) -> _OldFile:
    try:
        located = _locate(write)
    except (OSError, RuntimeError, ValueError) as fault:  # a loop of links; no text of this system
        located = f"{UNKNOWN}: {one_line(str(fault), 160)}"
    if isinstance(located, str):
        return _OldFile(why=located, stamp=located)
    root, names = located
    old = _OldFile(path=str(root.joinpath(*names)), place=f"{'/'.join(names)} inside {root.name}/")
    try:
        folder = open_within(root, names[:-1], make=False)
        if folder is None:
            why = f"{UNKNOWN}: this system opens no files without following links"
            return old._replace(why=why, stamp=why)
        try:
            return _read_file(old, folder, names[-1])
        finally:
            os.close(folder)
    except FileNotFoundError:
        # Some servers take a name that is spelt in another way for the same one.
        spelt = "".join(names).isascii()
        why = "" if spelt else "no file has exactly this name; its server may take one that reads alike"
        return old._replace(text="" if spelt else None, why=why, is_new=spelt, stamp="no such file")
    except (OSError, ValueError) as fault:
        links = isinstance(fault, OSError) and fault.errno in (errno.ELOOP, errno.ENOTDIR)
        reason = "there is a link on the way" if links else one_line(str(fault), 160)
        return old._replace(why=f"{UNKNOWN}: {reason}", stamp=reason)


def open_plain(name: str, folder: int) -> int | str:
    """A descriptor of the regular file of that name in an open folder, to be read; or what stands there instead.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    # Looked at first: what is opened may act by itself, as a device or a pipe does.
    if not stat.S_ISREG(mode := os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no regular file"
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return "no regular file"


def _read_file(old: _OldFile, folder: int, name: str) -> _OldFile:
    """Reads the file of that name in an open folder. Raises OSError."""
    descriptor = open_plain(name, folder)
    if isinstance(descriptor, str):
        return old._replace(why=f"{UNKNOWN}: it is {descriptor}", stamp=descriptor)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        digest, data, size = sha256(), b"", 0
        while size <= MAX_HASHED and (piece := file.read(MAX_BYTES + 1)):
            digest.update(piece)
            data, size = data or piece, size + len(piece)
    if size > MAX_HASHED:
        stamp = f"{about.st_size} {about.st_mtime_ns}"
        why = f"the old file has {about.st_size:,} bytes, too many to be read here"
        return old._replace(size=about.st_size, stamp=stamp, why=why)
    old = old._replace(size=size, sha256=digest.hexdigest(), stamp=digest.hexdigest())
    about_it = f"the old file has {size:,} bytes, SHA-256 {old.sha256[:12]}…"
    if size > MAX_BYTES:
        return old._replace(why=f"{about_it}, too long to be compared")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return old._replace(why=f"{about_it}, and is no text in UTF-8")
    if text.count("\n") >= MAX_LINES:
        return old._replace(why=f"{about_it} and {text.count(chr(10)):,} lines, too many to be compared")
    return old._replace(text=text)


def stamp_file(write: FileWrite) -> FileDiff:
    """The file as it is now, without a difference."""
    old = _read_old(write)
    return FileDiff(
        path=old.path, place=old.place, size=old.size, sha256=old.sha256, stamp=old.stamp, is_new=old.is_new
    )


def compare_file(write: FileWrite) -> FileDiff:
    """The file as it is now, and how the call would change it. Never raises."""
    old = _read_old(write)
    diff = FileDiff(old.path, old.place, old.size, old.sha256, old.stamp, why=old.why, is_new=old.is_new)
    if old.text is None:
        return diff
    new, why = _result_of(write, old)
    if new is None:
        return diff._replace(why=why)
    before, after = lines_of(old.text), lines_of(new)
    if old.is_new:
        return diff._replace(added=len(after), removed=0, why="there is no such file yet; this makes it")
    return _with_rows(diff, before, after)


def compare_texts(old: str | None, new: str, *, path: str) -> FileDiff:
    """The difference of two texts that somebody states of a file; nothing is read. `old` is None for a new file."""
    diff = FileDiff(place=path, stamp="stated", is_new=old is None)
    for text in (old or "", new):
        if len(text) > MAX_BYTES or text.count("\n") >= MAX_LINES:
            most = f"{MAX_LINES:,} lines or {MAX_BYTES:,} characters"
            return diff._replace(why=f"the stated content has more than {most}, too many to be compared")
    if (
        old and not old.endswith("\n") and not new.endswith("\n")
    ):  # parts of a file, as most editors state them
        old, new = f"{old}\n", f"{new}\n"
    return _with_rows(diff, lines_of(old or ""), lines_of(new))


def _with_rows(diff: FileDiff, before: list[str], after: list[str]) -> FileDiff:
    rows = _compare(before, after)
    added, removed = (sum(sign == wanted for sign, _ in rows) for wanted in "+-")
    rows = _fold(rows)
    if len(rows) > MAX_SHOWN:
        why = f"{count_of(len(rows), 'line')} differ, too many to be shown"
        return diff._replace(added=added, removed=removed, why=why)
    return diff._replace(added=added, removed=removed, rows=tuple(rows))


def _result_of(write: FileWrite, old: _OldFile) -> tuple[str | None, str]:
    """What would stand in the file; or None, and the reason why that is not known."""
    if write.content is not None:
        new = write.content
    elif old.is_new:
        return None, f"{NOT_COMPUTED}: there is no such file to be edited"
    elif len(write.edits) > MAX_EDITS:
        return None, f"{NOT_COMPUTED}: it has more than {MAX_EDITS:,} edits"
    else:
        # The server reads and writes line ends so.
        new = (old.text or "").replace("\r\n", "\n")
        for number, (text, by) in enumerate(write.edits, 1):
            text, by = text.replace("\r\n", "\n"), by.replace("\r\n", "\n")
            at = new.find(text)
            if not text or at < 0 or new.find(text, at + 1) >= 0:
                how = "is not there exactly as it stands" if at < 0 else "occurs more than once"
                return None, f"{NOT_COMPUTED}: the old text of edit {number} {how if text else 'is empty'}"
            new = new[:at] + by + new[at + len(text) :]
            if len(new) > 2 * MAX_BYTES:
                break
    if len(new) > MAX_BYTES or len(new.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return None, f"the new content has more than {MAX_BYTES:,} bytes, too many to be compared"
    if new.count("\n") >= MAX_LINES:
        return None, f"the new content has {new.count(chr(10)):,} lines, too many to be compared"
    return new, ""


# --- the difference ---

NO_END = "no line end at the end of the file"


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its end, which is a line feed alone."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _compare(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """All lines of both, each with its sign; those of the old file are masked."""
    shown_old = hide_in_lines([line.removesuffix("\n") for line in old])
    rows: list[tuple[str, str]] = []
    a = b = 0
    for at, to in [*_matches(old, new), (len(old), len(new))]:
        rows += _signed("-", old[a:at], shown_old[a:at])
        rows += _signed("+", new[b:to], [line.removesuffix("\n") for line in new[b:to]])
        rows += _signed(" ", old[at : at + 1], shown_old[at : at + 1])
        a, b = at + 1, to + 1
    return rows


def _signed(sign: str, lines: Sequence[str], shown: Iterable[str]) -> list[tuple[str, str]]:
    """The lines with a sign, and a note behind one without an end."""
    rows = [(sign, line) for line in shown]
    return [*rows, ("…", NO_END)] if lines and not lines[-1].endswith("\n") else rows


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that both have, in order: "patience", by lines that stand once in each part.

    Where no line stands once, a small part is compared line by line, and a large one is taken as replaced: the work is
    bounded for any text.
    """
    found: list[tuple[int, int]] = []
    parts, budget = [(0, len(old), 0, len(new))], BUDGET
    while parts:
        a, a_end, b, b_end = parts.pop()
        while a < a_end and b < b_end and old[a] == new[b]:
            found.append((a, b))
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            found.append((a_end, b_end))
        size = (a_end - a) * (b_end - b)
        if not size:
            continue
        if anchors := _anchors(old[a:a_end], new[b:b_end]):
            ends = [*anchors, (a_end - a, b_end - b)]
            for (at, to), (at_end, to_end) in zip([(-1, -1), *anchors], ends, strict=True):
                parts.append((a + at + 1, a + at_end, b + to + 1, b + to_end))
            found += [(a + at, b + to) for at, to in anchors]
        elif size <= budget:
            budget -= size
            for at, to, length in SequenceMatcher(
                None, old[a:a_end], new[b:b_end], autojunk=False
            ).get_matching_blocks():
                found += [(a + at + n, b + to + n) for n in range(length)]
    return sorted(found)


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest run, in the order of both, of lines that stand once in each."""
    counts, others = Counter(old), Counter(new)
    places = {line: n for n, line in enumerate(new) if others[line] == 1}
    pairs = [(n, places[line]) for n, line in enumerate(old) if counts[line] == 1 and line in places]
    ends: list[int] = []  # the smallest last place of a run of each length
    last: list[int] = []  # its pair
    before: list[int] = []
    for n, (_, to) in enumerate(pairs):
        length = bisect_left(ends, to)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1], last[length : length + 1] = [to], [n]
    run: list[tuple[int, int]] = []
    n = last[-1] if last else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]


def _fold(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows without equal lines far from a change, which are counted."""
    changed = [n for n, (sign, _) in enumerate(rows) if sign in "+-"]
    near = bytearray(len(rows) + CONTEXT)
    for n in changed:
        first = max(0, n - CONTEXT)
        near[first : n + CONTEXT + 1] = b"\1" * (n + CONTEXT + 1 - first)
    folded: list[tuple[str, str]] = []
    n = 0
    while n < len(rows):
        if near[n]:
            folded.append(rows[n])
            n += 1
            continue
        end = near.find(1, n)
        end = len(rows) if end < 0 else min(end, len(rows))
        if equal := sum(sign == " " for sign, _ in rows[n:end]):
            folded.append(("…", count_of(equal, "equal line")))
        n = end
    return folded
