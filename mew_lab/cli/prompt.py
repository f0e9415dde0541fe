"""The line that a person types into a terminal: editing, history, completion, and a line below it that tells the state.

What is printed meanwhile, on any thread, stands above the typed line. The only module that uses prompt_toolkit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from wcwidth import wcwidth

from mew_lab.cli.slash_completion import Completions
from mew_lab.errors import MewError
from mew_lab.protocol.token import mask
from mew_lab.protocol.visible import visible
from mew_lab.settings.environment import state_folder
from mew_lab.transport.files import AppendedFile, read_small, replace_small

__all__ = ["LineHistory", "LinePrompt", "cut_to_cells", "is_kept"]

REFRESHED = 0.5  # seconds after which the line below is drawn again, besides after what is printed
HISTORY = "join-history.jsonl"
MOST_HISTORY = 256 * 1024  # bytes that are read
MOST_LINES = 1000
LONGEST = 4096  # characters of a line that is kept
# A line that may hold a secret: what it is called, or a word as long and mixed as one.
_NAMED = re.compile(
    r"token|secret|passw|api[-_]?key|authorization|bearer|credential|private[-_]?key", re.IGNORECASE
)
_MIXED = re.compile(r"(?=[A-Za-z0-9_+=-]*[0-9])(?=[A-Za-z0-9_+=-]*[A-Za-z])[A-Za-z0-9_+=-]{20,}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def cut_to_cells(text: str, cells: int) -> str:
    """The text in at most so many cells of a terminal, the end cut with an ellipsis."""
    widths = [max(0, wcwidth(character)) for character in text]
    if sum(widths) <= cells:
        return text
    kept, used = 0, 1  # of the ellipsis
    while kept < len(text) and used + widths[kept] <= cells:
        used += widths[kept]
        kept += 1
    return f"{text[:kept]}…" if cells > 0 else ""


# --- history -----------------------------------------------------------------------------------------------------


def is_kept(line: str) -> bool:
    """Whether the history keeps a line: none that may hold a secret, none that begins with a space, no long one.

    An answer to a question of a server is never kept: what it asks for may be a secret.
    """
    if not line.strip() or line[0].isspace() or len(line) > LONGEST or line.startswith("/answer"):
        return False
    return mask(line) == line and not _NAMED.search(line) and not _MIXED.search(_UUID.sub("", line))


class LineHistory(History):
    """The lines typed before, the newest last, in a file that its owner alone may read.

    A file that cannot be read or written is no reason to type nothing: the lines of this run are kept in memory then.

    Args:
        folder: the folder of the file; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._folder = folder
        self._file = (
            None
            if folder is None
            else AppendedFile(folder, HISTORY, fault=lambda sentence: None, private=True)
        )

    def load_history_strings(self) -> Iterable[str]:
        """The lines of the file, the newest first."""
        if self._folder is None:
            return []
        try:
            data = read_small(self._folder, HISTORY, most=MOST_HISTORY, end=True)
        except OSError:
            return []
        lines: list[str] = []
        for raw in data.split(b"\n"):
            with contextlib.suppress(ValueError):  # half a line, or another's
                line = json.loads(raw)
                if isinstance(line, str) and is_kept(line):
                    lines.append(line)
        if len(data) == MOST_HISTORY:
            with contextlib.suppress(OSError):
                replace_small(
                    self._folder, HISTORY, "".join(map(_as_entry, lines[-MOST_LINES // 2 :])).encode()
                )
        return lines[: -MOST_LINES - 1 : -1]

    def store_string(self, string: str) -> None:
        """Adds a line to the file, unless it may hold a secret."""
        if self._folder is not None and self._file is not None and is_kept(string):
            with contextlib.suppress(OSError):  # the file then tells that it is not written
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.append(json.dumps(string))

    def append_string(self, string: str) -> None:
        """Adds a line; one that may hold a secret is not kept in this run either."""
        if is_kept(string):
            super().append_string(string)


def _as_entry(line: str) -> str:
    return f"{json.dumps(line)}\n"


# --- the line ----------------------------------------------------------------------------------------------------


class _LineCompleter(Completer):
    """Completes at Tab; whatever fails gives no completions."""

    def __init__(self, complete: Callable[[str], Completions]) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions of the text before the cursor."""
        try:
            choices, word = self._complete(document.text_before_cursor)
        except Exception:
            return  # the space is going down, or a peer has described itself badly
        for text, about in choices:
            yield Completion(
                text, start_position=-len(word), display=visible(text).strip(), display_meta=visible(about)
            )


class LinePrompt:
    """Asks for lines until Ctrl-D, or until it is closed.

    Args:
        complete: gives the completions at the end of a text.
        status: gives the line below, for so many cells of width.
        message: gives what stands before the typed line.
        colour: whether colours are used.
    """

    def __init__(
        self,
        *,
        complete: Callable[[str], Completions],
        status: Callable[[int], str],
        message: Callable[[], str],
        colour: bool,
    ) -> None:
        self._closed = False
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._session: PromptSession[str] = PromptSession(
            history=LineHistory(state_folder()),
            completer=_LineCompleter(complete),
            complete_in_thread=True,  # it may wait for the space, and typing does not
            complete_while_typing=False,
            enable_suspend=True,
            key_bindings=_bindings(),
            bottom_toolbar=lambda: self._tell_status(status),
            message=lambda: visible(message()),
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            reserve_space_for_menu=6,
            refresh_interval=REFRESHED,
        )

    def lines(self) -> Iterator[str]:
        """Yields the typed lines. What is printed while this runs stands above the typed one."""
        ended = signal.signal(signal.SIGTERM, lambda *_: self.close())  # the terminal is left as it was
        plain_errors = None if sys.stderr.isatty() else sys.stderr
        try:
            with patch_stdout(raw=True), contextlib.ExitStack() as restored:
                if plain_errors is not None:
                    restored.enter_context(contextlib.redirect_stderr(plain_errors))
                restored.enter_context(_log_above())
                while not self._closed:
                    try:
                        line = self._loop.run_until_complete(
                            self._session.prompt_async(pre_run=self._end_if_closed)
                        )
                    except EOFError:
                        return
                    with _keep_ctrl_d():
                        yield line
        finally:
            signal.signal(signal.SIGTERM, ended)
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def close(self) -> None:
        """Ends `lines`, on any thread."""
        self._closed = True
        self._wake(self._end_if_closed)

    def _wake(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is typed any more
            self._loop.call_soon_threadsafe(work)

    def _end_if_closed(self) -> None:
        app = self._session.app
        if self._closed and app.is_running and not app.is_done:
            app.exit(exception=EOFError)

    def _tell_status(self, status: Callable[[int], str]) -> str:
        width = self._session.app.output.get_size().columns
        try:
            return cut_to_cells(visible(status(width)), width)
        except MewError:
            return ""


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("c-c")
    def clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return bindings


@contextlib.contextmanager
def _keep_ctrl_d() -> Iterator[None]:
    """Leaves a Ctrl-D that is typed meanwhile to the next prompt: a terminal that reads lines would drop it."""
    if os.name == "nt" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    characters = [*before[6]]
    characters[termios.VEOF] = b"\0"  # none
    termios.tcsetattr(sys.stdin, termios.TCSANOW, [*before[:6], characters])
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


@contextlib.contextmanager
def _log_above() -> Iterator[None]:
    """Lets the log of this process be printed where stderr goes now."""
    handlers = [
        handler for handler in logging.getLogger().handlers if isinstance(handler, logging.StreamHandler)
    ]
    streams = [handler.setStream(sys.stderr) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            if stream is not None:
                handler.setStream(stream)
