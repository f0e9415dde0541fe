"""Makes the collector of cyclic garbage run less often while a log is read.

Reading makes many objects that live for a while and no cycles, so up to half of its time would go into looking for them.
The setting is one for the whole process, hence the count of those that read.
"""

from __future__ import annotations

import gc
import threading
from typing import Final

__all__ = ["rare_collection"]

NEW_OBJECTS: Final = 1_000_000  # after which the collector runs, while a log is read


class _RareCollection:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._before = gc.get_threshold()
                if self._before[0]:  # 0: somebody has switched it off
                    gc.set_threshold(max(NEW_OBJECTS, self._before[0]), *self._before[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            if not self._readers:
                gc.set_threshold(*self._before)


rare_collection: Final = _RareCollection()
"""A context in which a log is read fast."""
