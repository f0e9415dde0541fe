"""A page that shows a view, without a browser: what the view sends is caught, what a person does is handed in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from IPython.core.formatters import MimeBundleFormatter

from mew_lab.lab.lab import Lab
from mew_lab.views.ui.pictures import NO_ERROR


def bundle(view: Any) -> dict[str, Any]:
    """What a notebook stores of a view that is displayed, by MIME type."""
    data, _ = MimeBundleFormatter()(view)
    return dict(data)


def picture(view: Any) -> str:
    """The page that a saved notebook holds in place of a view, without the one style of ours in it."""
    return str(bundle(view)["text/html"]).replace(NO_ERROR, "", 1)


class Outlet:
    """Gives `take` what a view sends to its page."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self.send = take


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
        self.refuses: BaseException | None = None  # raised for the next message in place of taking it
        self.outlet = Outlet(self._receive)
        view.attach(self.outlet)

    def _receive(self, content: dict[str, Any]) -> None:
        if (refusal := self.refuses) is not None:
            self.refuses = None
            raise refusal
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
        self.view.receive(message, self.outlet)

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


def bustle(lab: Lab, text: str) -> None:
    """Something of each kind happens, and a peer writes `text` wherever it may."""
    lab.enrol("human", can="admin")
    bot = lab.join("bot", can="admin")
    lab.join("tools", "tool")
    call = {"method": "tools/call", "params": {"name": text, "arguments": {text: text}}}
    for kind, payload, to in (
        ("chat", {"text": text}, ()),
        ("reasoning/start", {"message": text}, ()),
        ("participant/status", {"status": text, "messages_in_context": 1, text: text}, ()),
        ("mcp/proposal", call, ("tools",)),
        ("mcp/request", call, ("tools",)),
        ("stream/request", {"direction": "upload", "description": text, "format": text}, ("system:gateway",)),
        ("capability/grant", {"recipient": "tools", "capabilities": [{"kind": text}], "reason": text}, ("tools",)),
        ("participant/pause", {"reason": text}, ("tools",)),
    ):  # fmt: skip
        lab.loop.run(bot.participant.sender.say(kind, payload, to=to), timeout=10, doing="speaking")


def settle(page: Page) -> None:
    """Waits until the view has nothing more to send."""
    end, count = time.monotonic() + 20, -1
    while count != (count := len(page.items)):
        assert time.monotonic() < end
        time.sleep(3 * page.view.interval)


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
