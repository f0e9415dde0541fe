"""Views without a kernel: what they would send is caught, what a browser would send is handed in.

`browser(view) -> FakeBrowser`: `.items` is everything sent, flattened, in order; `.send(message)` is a
message from a view, `.appear()` a view that asks for its snapshot, `.until(probe)` waits with a deadline.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# The small seat and log are shared with the browser tests.
sys.path.insert(0, str(Path(__file__).parents[2] / "browser"))


class FakeBrowser:
    def __init__(self, view: Any) -> None:
        self.view = view
        self.batches: list[dict[str, Any]] = []
        self.moments: list[float] = []
        self.threads: set[int] = set()
        self._arrived = threading.Condition()
        view.send = self._receive

    def _receive(self, content: dict[str, Any], buffers: Any = None) -> None:
        with self._arrived:
            self.batches.append(content)
            self.moments.append(time.monotonic())
            self.threads.add(threading.get_ident())
            self._arrived.notify_all()

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item for batch in list(self.batches) for item in batch["items"]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.items if item["t"] == kind]

    def send(self, message: Any) -> None:
        self.view._on_message(self.view, message, [])

    def until(self, probe: Callable[[], Any]) -> Any:
        end = time.monotonic() + 20
        with self._arrived:
            while not (value := probe()):
                assert time.monotonic() < end, f"never happened; sent so far: {self.items[-5:]}"
                self._arrived.wait(0.05)
        return value

    def appear(self, name: str = "v1", start: int = 0) -> dict[str, Any]:
        """A view is rendered; its snapshot."""
        before = len(self.of("snapshot"))
        self.send({"t": "snapshot", "view": name, "from": start})
        self.until(lambda: len(self.of("snapshot")) > before)
        return self.of("snapshot")[-1]


@pytest.fixture
def browser() -> Iterator[Callable[[Any], FakeBrowser]]:
    views: list[Any] = []

    def make(view: Any) -> FakeBrowser:
        views.append(view)
        return FakeBrowser(view)

    yield make
    for view in views:
        view.close()
