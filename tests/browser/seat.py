"""A seat and a log small enough to see through, for views that are tested without a workbench.

`Seat` is as `HumanDecisions`, `Rows_` is `Rows`; both are loaded by the tests and, through the path, by the kernels
that the browser tests drive. Decisions are carried out on a thread of their own, as the workbench does it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import Card, Click
from mew_lab.lab.decisions.decisions import check_state, check_target
from mew_lab.lab.decisions.gate import Gate
from mew_lab.lab.decisions.risks import risks
from mew_lab.lab.rows import Row
from mew_lab.space.events import Record


class Seat:
    """Decides about proposals: the first decision wins. `fulfilled` lists what was sent, one entry each."""

    def __init__(self, *, targets: tuple[str, ...] = ("git", "files")) -> None:
        self.cards: dict[str, Card] = {}
        self.despite: list[tuple[str, ...]] = []
        self.options: list[str] = []
        self.fulfilled: list[tuple[str, str, str, tuple[str, ...]]] = []
        self.outcomes: dict[str, Future[str]] = {}
        self.looked_at: list[str] = []
        self.now: float | None = None  # the clock of what is shown, where a test sets it
        self.gate = Gate(lambda: time.monotonic() if self.now is None else self.now)
        self.policy = ""
        self.fail_with: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()
        self.names = list(targets)
        self.subscribers: list[Callable[[Card], None]] = []
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._works = False

    def _queue(self, job: Callable[[], None]) -> None:
        """One thread does the jobs in order, and ends when there is none."""
        with self._lock:
            self._jobs.append(job)
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, name="seat", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._works = False
                    return
                job = self._jobs.popleft()
            job()

    def propose(
        self,
        tool: str = "git_log",
        arguments: dict[str, Any] | None = None,
        *,
        proposer: str = "agent",
        to: tuple[str, ...] = ("git",),
        id: str = "",
        **more: Any,
    ) -> Future[str]:
        """A new proposal; the future is its outcome."""
        arguments = {"repo_path": "."} if arguments is None else arguments
        seq = len(self.cards) + 1
        payload = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        card = Card(
            id=id or f"proposal-{seq}",
            seq=seq,
            proposer=proposer,
            to=to,
            method="tools/call",
            tool=tool,
            arguments=tuple(
                (name, json.dumps(value, ensure_ascii=False)) for name, value in arguments.items()
            ),
            digest=hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest(),
            since=time.time(),
            warnings=more.pop("warnings", risks(arguments)),
            **more,
        )
        self.outcomes[card.id] = Future()
        self.put(card)
        return self.outcomes[card.id]

    def withdraw(self, proposal: str) -> None:
        """What the proposer does."""
        with self._lock:
            card = self.cards[proposal]
            if not card.is_open:
                return
            self.put(
                replace(
                    card,
                    state="withdrawn",
                    by=card.proposer,
                    outcome="no_longer_needed",
                    decided_at=time.time(),
                )
            )

    def put(self, card: Card) -> None:
        """The card as it is from now on."""
        old = self.cards.get(card.id)
        if old is not None and old.seq != card.seq:
            self.gate.forget(card.id)
        self.cards[card.id] = card
        for callback in list(self.subscribers):
            callback(card)

    def pending(self) -> list[Card]:
        return [card for card in self.cards.values() if card.is_open]

    def decided(self) -> list[Card]:
        return [card for card in self.cards.values() if not card.is_open]

    def targets(self) -> list[str]:
        return self.names

    def banner(self) -> str:
        return self.policy

    def rows(self, proposal: str, digest: str) -> tuple[tuple[str, str], ...] | None:
        card = self.cards.get(proposal)
        return card.arguments if card is not None and card.can_be_approved and card.digest == digest else None

    def record_shown(self, proposal: str, *, view: str, digest: str) -> bool:
        if self.rows(proposal, digest) is None:
            return False
        self.looked_at.append(proposal)
        self.gate.record_shown(self.cards[proposal], view=view, digest=digest)
        return True

    def record_opened(self, proposal: str, digest: str, index: int) -> None:
        self.gate.record_opened(proposal, digest, index)

    def seconds_left(self, proposal: str, *, view: str, digest: str) -> float:
        card = self.cards.get(proposal)
        return 0.0 if card is None else self.gate.seconds_left(card, view=view, digest=digest)

    def click(self, view: str) -> Click:
        return self.gate.click(view)

    def refusal(
        self,
        proposal: str,
        *,
        digest: str,
        decision: str,
        click: Click,
        target: tuple[str, ...] = (),
        despite: Collection[str] = (),
        option: str = "",
    ) -> str:
        card = self.cards[proposal]
        try:
            check_state(card, decision, despite, is_rejected=bool(card.rejected))
            if digest != card.digest:
                return "what was shown is not what is proposed"
            if decision == "approve":
                check_target(card, target, self.names)
            self.gate.check_click(card, click, digest=digest, decision=decision)
            if decision == "approve":
                self.gate.check_rows(card, card.arguments, digest)
        except MewError as refused:
            return str(refused)
        return ""

    def subscribe(self, on_change: Callable[[Card], None]) -> Callable[[], None]:
        self.subscribers.append(on_change)
        return lambda: self.subscribers.remove(on_change)

    def decide(
        self,
        proposal: str,
        *,
        digest: str,
        decision: str,
        click: Click | None = None,
        reason: str = "",
        target: tuple[str, ...] = (),
        despite: Collection[str] = (),
        option: str = "",
    ) -> Future[str]:
        done: Future[str] = Future()
        self.despite.append(tuple(despite))
        self.options.append(option)
        self._queue(lambda: self._decide(done, proposal, digest, decision, reason, target))
        return done

    def _decide(
        self,
        done: Future[str],
        proposal: str,
        digest: str,
        decision: str,
        reason: str,
        target: tuple[str, ...],
    ) -> None:
        self.hold.wait(60)
        if self.fail_with is not None:
            done.set_exception(self.fail_with)
            return
        with self._lock:
            card = self.cards[proposal]
            if not card.can_be_approved or card.digest != digest:
                done.set_exception(RuntimeError(f"{proposal} is {card.state} already, by {card.by}"))
                return
            self.fulfilled.append((proposal, decision, reason, target))
            state = "fulfilled" if decision == "approve" else "rejected"
            outcome = reason if decision == "reject" else f"{card.tool} ran"
            card = replace(
                card,
                state=state,
                by="human (you)",
                outcome=outcome,
                decided_at=time.time(),
                edited=bool(target),
                rejected="",
            )
            self.put(card)
        done.set_result(card.state)
        self.outcomes[proposal].set_result(card.state)


def wrapped(future: Future[str]) -> asyncio.Future[str]:
    """What `await` on a Pending does."""
    return asyncio.wrap_future(future)


class Rows_:
    """A log in memory. `add` may be called from any thread."""

    def __init__(self, name: str = "demo", members: int = 4) -> None:
        self.rows: list[Row] = []
        self.texts: dict[int, str] = {}
        self.patterns: dict[int, str] = {}
        self.members = members
        self.name = name
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    sign = "#"

    @property
    def last_seq(self) -> int:
        return len(self.rows)

    def count(self, after: int = 0) -> int:
        return len(self.rows[after:])

    def add(self, kind: str = "chat", what: str = "“hello”", *, raw: str | None = None, **more: Any) -> Row:
        with self._lock:
            seq = len(self.rows) + 1
            text = (
                raw
                if raw is not None
                else json.dumps({"id": f"e-{seq}", "kind": kind, "payload": {"text": what}})
            )
            values: dict[str, Any] = {
                "t": time.time(),
                "sender": "agent",
                "to": ("git",),
                "context": "",
                "correlates": 0,
                "verdict": "accepted",
                "code": "pat 0",
                "id": f"e-{seq}",
            }
            row = Row(seq=seq, kind=kind, what=what, size=len(text), **(values | more))
            self.rows.append(row)
            if raw is not None:
                self.texts[seq] = text
        for callback in list(self._callbacks):
            callback()
        return row

    def since(self, seq: int, limit: int) -> list[Row]:
        return self.rows[seq : seq + limit]

    def numbers(self, after: int, limit: int) -> list[int]:
        return [row.seq for row in self.since(after, limit)]

    def back(self, seq: int, rows: int) -> int:
        return max(0, seq - rows)

    def ties(self, seq: int) -> list[tuple[int, tuple[int, ...]]]:
        named = ((row.seq, (row.correlates, *row.also)) for row in self.rows[seq:])
        return [(one, tuple(filter(None, those))) for one, those in named if any(those)]

    def raw(self, seq: int) -> str:
        if seq in self.texts:
            return self.texts[seq]
        row = self.rows[seq - 1]
        return json.dumps({"id": row.id, "kind": row.kind, "from": row.sender, "payload": {"text": row.what}})

    def record(self, seq: int) -> Record | None:
        if not 0 < seq <= len(self.rows):
            return None
        row = self.rows[seq - 1]
        now = datetime.fromtimestamp(row.t, UTC)
        return Record(
            100 + seq,
            now,
            "received",
            participant=row.sender,
            verdict=row.verdict,
            code=row.code,
            raw=self.raw(seq),
        )

    def pattern(self, seq: int) -> str:
        return self.patterns.get(seq, "")

    def title(self) -> tuple[str, int]:
        return self.name, self.members

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(on_change)
        return lambda: self._callbacks.remove(on_change)
