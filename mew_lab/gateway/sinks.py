"""Where does a participant's `output_log` go?  A sink beside its connections writes all that it hears into a file.

One line a message, compact JSON, beginning with its welcome; a frame of a stream is a line
`{"type":"Buffer","data":[…]}`, as peers in the field write it. The file is opened for each write, because others
empty it while we run. What cannot be written is told once and counted; the space never waits for it.

Spec: §3.6.4 (rulings on log sinks), threat 27.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from mew_lab.errors import NotAdmitted
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.outbox import Frame
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.protocol.envelope import compact
from mew_lab.space.events import LOG_SINK

__all__ = ["AppendedFile", "LogSink", "Sinks"]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class AppendedFile:
    """A file below a folder to which lines are appended; no link on the way to it is followed.

    Args:
        root: the folder, and `name` the path below it.
        fault: is given a sentence when lines begin to be lost.
        private: whether a file that others may read is made the owner's alone.
    """

    def __init__(
        self, root: Path, name: str, *, fault: Callable[[str], object], private: bool = False
    ) -> None:
        self.path = root / name
        self.lost = 0
        """Lines that could not be written."""
        self._root = root
        self._private = private and os.name == "posix"
        self._parts = PurePosixPath(name).parts
        self._fault = fault
        self._well = True
        self._torn = False  # the last write was cut short in the middle of a line

    def append(self, line: str) -> None:
        """Writes one line. Never raises."""
        data = (b"\n" if self._torn else b"") + line.encode() + b"\n"
        try:
            file = self._open()
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(0, "it is no plain file")
                if self._private and stat.S_IMODE(found.st_mode) & 0o077:
                    os.fchmod(file, 0o600)  # others may have made it, and an invited one's token may be in it
                written = os.write(file, data)
            finally:
                os.close(file)
            if written < len(data):
                self._torn = self._torn or written > 0
                raise OSError(0, "the disk is full")
        except (OSError, ValueError) as fault:
            self.lost += 1
            if self._well:
                self._well = False
                said = getattr(fault, "strerror", None) or str(fault)
                self._fault(f"{self.path} cannot be written: {said}; its lines are left out until it can")
        else:
            self._well, self._torn = True, False

    def _open(self) -> int:
        if os.open not in os.supports_dir_fd:
            if not self.path.resolve().is_relative_to(self._root.resolve()):
                raise OSError(0, "it lies outside its folder")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, _FILE, 0o600)
        folder = os.open(self._root, os.O_RDONLY)
        try:
            for part in self._parts[:-1]:
                inner = self._step(part, folder)
                os.close(folder)
                folder = inner
            return os.open(self._parts[-1], _FILE, 0o600, dir_fd=folder)
        finally:
            os.close(folder)

    @staticmethod
    def _step(part: str, folder: int) -> int:
        """The folder of that name in an open one, made where it is missing."""
        try:
            return os.open(part, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            os.mkdir(part, 0o700, dir_fd=folder)
            return os.open(part, _FOLDER, dir_fd=folder)


class LogSink:
    """The gateway's end of a connection that nobody is at: a `Peer` that writes lines."""

    def __init__(self, append: Callable[[str], object]) -> None:
        self._append = append
        self._closed = False

    def put(self, frame: Frame) -> None:
        """Writes a message."""
        if not self._closed:
            self._append(_line(frame.message))

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Writes no more."""
        self._closed = True

    async def alive(self, timeout: float) -> bool:
        """Whether it still writes."""
        return not self._closed


def _line(message: str | bytes) -> str:
    if isinstance(message, str) and not message.startswith("#"):
        return compact(json.loads(message))  # a peer's own text may run over several lines
    data = message.encode() if isinstance(message, str) else message
    return compact({"type": "Buffer", "data": list(data)})


class Sinks:
    """The sinks of one space: those with `auto_connect` from the start, others from their first HTTP message."""

    def __init__(self, gateway: Gateway, file: SpaceFile, *, fault: Callable[[str], object]) -> None:
        self.files: dict[str, AppendedFile] = {}
        self._gateway = gateway
        self._space = file.config.name
        self._fault = fault
        self._waiting: set[str] = set()
        for name, one in file.config.participants.items():
            if one.output_log:
                self.files[name] = AppendedFile(
                    file.folder, one.output_log, fault=partial(self._told, name), private=True
                )
                if not one.auto_connect:
                    self._waiting.add(name)

    def open(self) -> None:
        """Attaches those that are to hear everything from the start.

        Raises:
            NotAdmitted: when the space does not take one.
        """
        others = self._gateway.before_post

        def posted(space: str, participant: str) -> None:
            if space == self._space:
                self._posted(participant)
            else:
                others(space, participant)

        self._gateway.before_post = posted
        for name in self.files:
            if name not in self._waiting:
                self._attach(name)

    def _told(self, participant: str, sentence: str) -> None:
        self._fault(f"{participant}: {sentence}")

    def _posted(self, participant: str) -> None:
        """A participant is about to speak by HTTP."""
        if participant in self._waiting:
            self._waiting.discard(participant)
            try:
                self._attach(participant)
            except NotAdmitted as refused:
                self._told(participant, f"{refused}; its output_log stays empty")

    def _attach(self, participant: str) -> None:
        sink = LogSink(self.files[participant].append)
        self._gateway.admit(self._space, participant, sink, via=LOG_SINK)
