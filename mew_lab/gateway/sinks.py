"""Writes a participant's `output_log`: a file with every message delivered to it.

A sink is a peer beside the participant's connections. Each message is one line of compact JSON, beginning with the
welcome. A frame of a stream is a line `{"type":"Buffer","data":[…]}`, as in other implementations. A delivery only
queues the message: one writer makes the lines some milliseconds later and writes many at once. When the process is
killed, the last lines are lost, and the order stays. Lines that cannot be written are reported once and counted; the
space never waits for them.

Spec: §3.6.4 (rulings on log sinks), threat 27.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from functools import partial

from mew_lab.errors import NotAdmitted
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.gateway import Gateway
from mew_lab.gateway.space_file import SpaceFile
from mew_lab.protocol.envelope import compact
from mew_lab.space.events import LOG_SINK
from mew_lab.transport.files import AppendedFile

__all__ = ["LogSink", "SinkWriter", "Sinks"]

DELAY = 0.005  # seconds in which lines gather
AT_ONCE = 256 * 1024  # characters and bytes of messages that are written within one turn of the loop
MAX_WAITING = 16 * 1024 * 1024  # characters and bytes of messages that wait to be written


class SinkWriter:
    """Writes the messages of sinks in order, separately from the deliveries.

    Where no loop runs, it writes at once.

    Args:
        delay: seconds in which messages gather.
        most: characters and bytes that may wait; a further message is left out of its file.
    """

    def __init__(self, *, delay: float = DELAY, most: int = MAX_WAITING) -> None:
        self._delay = delay
        self._most = most
        self._waiting: deque[tuple[AppendedFile, Frame]] = deque()
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, file: AppendedFile, frame: Frame) -> None:
        """Queues a message for a file."""
        size = len(frame.message)
        if self._size + size > self._most:
            file.leave_out(1, f"more than {self._most} bytes wait to be written")
            return
        self._waiting.append((file, frame))
        self._size += size
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                self._timer = loop.call_later(self._delay, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._write(AT_ONCE)
        if self._waiting:
            self._timer = loop.call_later(0, self._tick, loop)

    def flush(self) -> None:
        """Writes all queued messages."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._write(AT_ONCE)

    def _write(self, most: int) -> None:
        lines: dict[AppendedFile, list[str]] = {}
        last: Frame | None = None
        line = ""
        while self._waiting and most > 0:
            file, frame = self._waiting.popleft()
            size = len(frame.message)
            self._size -= size
            most -= size
            if frame is not last:  # several sinks get the same frame
                last, line = frame, _line(frame.message)
            lines.setdefault(file, []).append(line)
        for file, some in lines.items():
            file.append(*some)


class LogSink:
    """The gateway's end of a connection without a client: a `Peer` whose messages go to a file."""

    def __init__(self, take: Callable[[Frame], object]) -> None:
        self._take = take
        self._closed = False

    def put(self, frame: Frame) -> None:
        """Queues a message for the file."""
        if not self._closed:
            self._take(frame)

    def close(self, code: int, reason: str, *, drop: bool = False) -> None:
        """Ends the sink; later messages are not written."""
        self._closed = True

    async def alive(self, timeout: float) -> bool:
        """Whether the sink still writes."""
        return not self._closed


def _line(message: str | bytes) -> str:
    if isinstance(message, str) and not message.startswith("#"):
        return compact(json.loads(message))  # the text of a peer may have several lines
    data = message.encode() if isinstance(message, str) else message
    return compact({"type": "Buffer", "data": list(data)})


class Sinks:
    """The sinks of one space: with `auto_connect` from the start, else from the participant's first HTTP message."""

    def __init__(self, gateway: Gateway, file: SpaceFile, *, fault: Callable[[str], object]) -> None:
        self.files: dict[str, AppendedFile] = {}
        self._writer = SinkWriter()
        self._gateway = gateway
        self._space = file.config.name
        self._fault = fault
        self._waiting: set[str] = set()
        for name, participant in file.config.participants.items():
            if participant.output_log:
                self.files[name] = AppendedFile(
                    file.folder, participant.output_log, fault=partial(self._report, name), private=True
                )
                if not participant.auto_connect:
                    self._waiting.add(name)

    def open(self) -> None:
        """Attaches the sinks with `auto_connect`.

        Raises:
            NotAdmitted: when the space does not admit a sink.
        """
        others = self._gateway.before_post

        def before_post(space: str, participant: str) -> None:
            if space == self._space:
                self._attach_waiting(participant)
            else:
                others(space, participant)

        self._gateway.before_post = before_post
        for name in self.files:
            if name not in self._waiting:
                self._attach(name)

    def flush(self) -> None:
        """Writes all queued messages."""
        self._writer.flush()

    def close(self) -> None:
        """Writes all queued messages, and closes the files."""
        self.flush()
        for file in self.files.values():
            file.finish()

    def _report(self, participant: str, sentence: str) -> None:
        self._fault(f"{participant}: {sentence}")

    def _attach_waiting(self, participant: str) -> None:
        """Attaches the waiting sink of a participant before its first HTTP message is taken."""
        if participant in self._waiting:
            self._waiting.discard(participant)
            try:
                self._attach(participant)
            except NotAdmitted as refused:
                self._report(participant, f"{refused}; its output_log stays empty")

    def _attach(self, participant: str) -> None:
        sink = LogSink(partial(self._writer.put, self.files[participant]))
        self._gateway.admit(self._space, participant, sink, via=LOG_SINK)
