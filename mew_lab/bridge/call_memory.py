"""Keeps on disk which calls wait, and which outcomes did not reach their client, for a gate that starts after a crash.

The file is small and private. It is replaced as a whole at each change, so a gate that is killed leaves the old one or
the new one. A file that cannot be read or written costs this memory and nothing else.

Whether a remembered call that was waiting has been decided is not known. So the gate withdraws it, and says so to the
next request for it. It is never sent again on its own.

Spec: §3.3.1, ruling R18.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import compact
from mew_lab.transport.files import read_small, replace_small

__all__ = ["CallMemory", "RememberedCall"]

logger = logging.getLogger(__name__)
MAX_FILE = 8 * 1024 * 1024  # bytes
MAX_OUTCOME = 256 * 1024  # bytes of JSON; a larger one is not kept
MAX_CALLS = 300


class RememberedCall(NamedTuple):
    """One call: its `key`, the `id` of its proposal or request, and its name `what`.

    `result` and `refusal` are its outcome, both empty while it waits. `is_tool` if it is a tool call. `at` is the time
    of its last change, in seconds of the epoch.
    """

    key: str
    id: str
    what: str
    is_tool: bool
    result: Any = None
    refusal: str = ""
    at: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether it had not ended."""
        return self.result is None and not self.refusal


class CallMemory:
    """The file of one gate: `path` lies in a folder of its own, which is made where it is missing."""

    def __init__(self, path: Path) -> None:
        self._folder, self._name = path.parent, path.name
        self._calls: dict[str, RememberedCall] = {}  # by id
        self._told = False

    def load(self, *, max_age: float) -> list[RememberedCall]:
        """The calls that were remembered: those that wait, and outcomes of the last `max_age` seconds.

        Empty where there is no file, or none that can be read.
        """
        try:
            entries = json.loads(read_small(self._folder, self._name, most=MAX_FILE))
            calls = [_read(entry) for entry in entries]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, RecursionError) as fault:
            logger.warning(
                "%s is no memory of a gate, so it is replaced: %s", self._folder / self._name, fault
            )
            return []
        now = time.time()
        recent = [call for call in calls if call.waits or now - call.at < max_age]
        self._calls = {call.id: call for call in recent[-MAX_CALLS:]}
        return list(self._calls.values())

    def put(self, call: RememberedCall) -> None:
        """Remembers a call, or its outcome."""
        if not call.waits and len(compact(call.result)) > MAX_OUTCOME:
            refusal = (
                f"{call.what} was executed, but its result was too large to be kept after the gate had ended"
            )
            call = call._replace(result=None, refusal=refusal)
        self._calls[call.id] = call._replace(at=time.time())
        self._write()

    def drop(self, id: str) -> None:
        """Forgets a call, because its outcome was delivered."""
        if self._calls.pop(id, None) is not None:
            self._write()

    def _write(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = compact([call._asdict() for call in self._calls.values()])
            replace_small(self._folder, self._name, text.encode())
        except OSError as fault:
            if not self._told:
                self._told = True
                logger.warning(
                    "%s cannot be written, so waiting calls do not outlive this process: %s",
                    self._folder / self._name,
                    fault,
                )


def _read(entry: Any) -> RememberedCall:
    """Raises ValueError or TypeError where it is no entry."""
    call = RememberedCall(**entry)
    texts = (call.key, call.id, call.what, call.refusal)
    numbers = isinstance(call.at, int | float) and isinstance(call.is_tool, bool)
    if not numbers or not all(isinstance(text, str) for text in texts):
        raise ValueError("an entry has a member of another type")
    return call
