"""Envelopes as a follower hears them."""

from __future__ import annotations

import itertools
import json
from typing import Any

from mew_lab.lab.entry_feed import Follower, LedgerFollower, new_ledger
from mew_lab.ledger.entry import Entry


class Space:
    """Makes envelopes in order: a row and a second each. `tell` hands them to followers as the feed of a lab does."""

    def __init__(self, *followers: Any) -> None:
        self.followers = followers
        self.ledger = new_ledger()
        self.raw: dict[int, str] = {}
        self._numbers = itertools.count(1)

    def tell(
        self,
        kind: str,
        payload: Any = None,
        *,
        by: str = "helper",
        id: str = "",
        about: str | list[str] = (),  # type: ignore[assignment]
        verdict: str = "accepted",
        code: str = "",
        t: float | None = None,
        **more: Any,
    ) -> Entry:
        seq = next(self._numbers)
        members = {"id": id or f"e-{seq}", "from": by, "kind": kind, "payload": payload or {}, **more}
        if about:
            members["correlation_id"] = [about] if isinstance(about, str) else about
        raw = json.dumps(members)
        self.raw[seq] = raw
        heard = Entry(seq, float(seq) if t is None else t, raw, verdict, code, "", by, members)
        self.hand_on(heard)
        return heard

    def hand_on(self, heard: Entry) -> None:
        """Hands an entry that was made elsewhere to the followers."""
        changes = self.ledger.observe(heard)
        for follower in self.followers:
            if isinstance(follower, LedgerFollower):
                follower.take_changes(changes, self.ledger)
            if isinstance(follower, Follower):
                follower.take(heard)
