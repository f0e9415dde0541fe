"""A page with buttons, without a browser."""

from __future__ import annotations

from typing import Any


class Page:
    """A page that shows a view with buttons: its snapshot, and clicks that wait for their end."""

    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.snapshot = fake.appear()
        self._job = 0

    def act(self, name: str, /, **given: Any) -> dict[str, Any]:
        """Clicks; what became of it."""
        job = self.begin(name, **given)
        self.fake.until(lambda: self.ended(job))
        return self.ended(job)[-1]

    def begin(self, name: str, /, **given: Any) -> int:
        """Clicks, and waits for nothing."""
        self._job += 1
        nonce = self.snapshot["nonce"]
        self.fake.send(
            {"t": "act", "view": "v1", "job": self._job, "act": name, "with": given, "nonce": nonce}
        )
        return self._job

    def ended(self, job: int) -> list[dict[str, Any]]:
        """How that click has ended; empty while it has not."""
        return [one for one in self.fake.items if one["t"] in ("done", "failed") and one["job"] == job]
