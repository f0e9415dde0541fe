"""Keeps words of peers, which the MCP library logs, out of terminals and cells.

The library logs messages that it does not expect, with their text and tracebacks, and it uses loggers of several names.
Where no handler is set, Python prints these on stderr. A program that wants them adds a handler to the logger `mcp`;
what the library logs as `client` and `server` is left out.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import mcp

from mew_lab.protocol.bounded import BoundedDict

__all__ = ["quiet_library", "warn_rarely"]

EVERY = 10.0  # seconds between two lines about the same
MAX_KEYS = 1000

logger = logging.getLogger(__name__)
_LIBRARY = str(Path(mcp.__file__).parent)
_OTHER_NAMES = ("client", "server")  # loggers of the library, whose names are anybody's


def _is_of_others(record: logging.LogRecord) -> bool:
    return not record.pathname.startswith(_LIBRARY)


def quiet_library() -> None:
    """Has the loggers of the library print nothing; a second call does nothing."""
    library = logging.getLogger("mcp")
    if not any(type(handler) is logging.NullHandler for handler in library.handlers):
        library.addHandler(logging.NullHandler())
    library.propagate = False
    for name in _OTHER_NAMES:
        logging.getLogger(name).addFilter(_is_of_others)  # the same filter counts once


# the time of the last line, left out since
_told: BoundedDict[str, tuple[float, int]] = BoundedDict(MAX_KEYS)


def warn_rarely(about: str, sentence: str) -> None:
    """Logs a warning, unless one about the same was logged in the last seconds; the next one tells how many were not."""
    at, omitted = _told.get(about, (-EVERY, 0))
    now = time.monotonic()
    if now - at < EVERY:
        _told[about] = at, omitted + 1
        return
    _told[about] = now, 0
    more = f" ({omitted} more like this were left out)" if omitted else ""
    logger.warning("%s%s", sentence, more)
