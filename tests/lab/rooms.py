"""A model of a view that follows a lab, and a wait for what it shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from mew_lab.lab.lab import Lab


class Watch:
    """Follows the lab with a model; `until` waits for the first true value of a probe."""

    def __init__(self, lab: Lab, model: Any) -> None:
        self._changed = threading.Condition()
        model.changed.add(self._tell)
        lab.loop.call(lambda: (lab.following.add(model), model.refresh()))

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, probe: Callable[[], Any]) -> Any:
        end = time.monotonic() + 20
        with self._changed:
            while not (value := probe()):
                assert time.monotonic() < end, "it never came to be"
                self._changed.wait(0.05)
        return value
