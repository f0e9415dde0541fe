"""A page that shows a view, without a browser: what the view sends is caught, what a person does is handed in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from IPython.core.formatters import MimeBundleFormatter

from mew_lab.views.ui.pictures import NO_ERROR


def deliver(view: Any, message: Any) -> None:
    """Hands a view a message from its page as Jupyter does, through its comm; a closed view has none."""
    if view.comm is not None:
        data = {"method": "custom", "content": message}
        view.comm.handle_msg({"content": {"data": data}, "buffers": []})


def bundle(view: Any) -> dict[str, Any]:
    """What a notebook stores of a view that is displayed, by MIME type."""
    data, _ = MimeBundleFormatter()(view)
    return dict(data)


def picture(view: Any) -> str:
    """The page that a saved notebook holds in place of a view, without the one style of ours in it."""
    return str(bundle(view)["text/html"]).replace(NO_ERROR, "", 1)


class Page:
    """`items` is everything that was sent, flattened, in order; `snapshot` what this page was shown last."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self.snapshot: dict[str, Any] = {}
        self.batches: list[dict[str, Any]] = []
        self.moments: list[float] = []
        self.threads: set[int] = set()
        self._jobs = 0
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
        """A message from a view."""
        deliver(self.view, message)

    def until(self, probe: Callable[[], Any]) -> Any:
        """What the probe gives once it gives something."""
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
        self.snapshot = self.of("snapshot")[-1]
        return self.snapshot

    def act(self, name: str, /, *, nonce: str | None = None, **given: Any) -> dict[str, Any]:
        """Clicks; what became of it."""
        job = self.begin(name, nonce=nonce, **given)
        told: dict[str, Any] = self.until(lambda: self.ended(job))[0]
        return told

    def begin(self, name: str, /, *, nonce: str | None = None, **given: Any) -> int:
        """Clicks, and waits for nothing; the number of that click."""
        self._jobs += 1
        nonce = self.snapshot["nonce"] if nonce is None else nonce
        self.send({"t": "act", "view": "v1", "job": self._jobs, "act": name, "with": given, "nonce": nonce})
        return self._jobs

    def ended(self, job: int) -> list[dict[str, Any]]:
        """How that click has ended; empty while it has not."""
        return [one for one in self.items if one["t"] in ("done", "failed") and one["job"] == job]


class Deeds:
    """What a view has its kernel do: written down as `done`, by name and arguments, and over at once as `said`."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.done: list[tuple[str, dict[str, Any]]] = []

    def submit(self, work: Any) -> Future[str]:
        given = {name: value for name, value in work.cr_frame.f_locals.items() if name != "self"}
        self.done.append((work.cr_code.co_name, given))
        work.close()
        future: Future[str] = Future()
        future.set_result(self.said)
        return future
