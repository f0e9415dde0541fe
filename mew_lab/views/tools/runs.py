"""Follows each of this participant's calls to its end, with its progress, and keeps the last ones with their results.

The ledger knows the state of a call (`ledger.calls`). It reads the entries of the log, so the rows of the call and of
its answer in the feed are known. The result, or the error instead of one, is that of the `Call` itself.

Only the loop's thread changes it; a value that other threads read is replaced, never changed. It does not check whether
a call may be sent. Bounds: the last 20 calls, at most 20 that wait, at most a million characters of each result.

Spec: §3.1, §3.2, §3.3.1; MCP 2025-06-18 (progress, cancellation).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from mew_lab.errors import MewError, ToolFailed
from mew_lab.ledger.calls import Change
from mew_lab.ledger.ledger import LedgerChange
from mew_lab.protocol.content import raw_text
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.progress import Progress
from mew_lab.sdk.results import ToolResult

__all__ = ["MAX_RUNS", "RUN_ENDED", "ToolRun", "ToolRuns"]

MAX_RUNS = 20
MAX_RESULT = 1_000_000  # characters of JSON
RUN_ENDED = "no_longer_needed"  # the reason of a withdraw or a cancel


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One call of this participant. `state` is open, fulfilled, answered, failed, rejected or withdrawn.

    `seq` and `answer_seq` are row numbers of the feed, 0 while unknown. Times are in seconds of the epoch; `ended` is
    None while the call waits. `took` is a duration in seconds. `decided` is the time at which a proposal was fulfilled.
    `what` is tool, resource, template, prompt or list, and `method` the MCP method. `progress` is the last report.
    """

    number: int
    id: str
    target: str
    text: str
    kind: str
    state: str
    began: float
    by: str = ""
    seq: int = 0
    answer_seq: int = 0
    decided: float | None = None
    ended: float | None = None
    took: float = 0.0
    error: str = ""
    has_result: bool = False
    what: str = "tool"
    method: str = "tools/call"
    progress: Progress | None = None

    @property
    def waits(self) -> bool:
        """Whether the call has not ended yet."""
        return self.ended is None


class ToolRuns:
    """The calls, oldest first, as `all`. `on_change` is called after each change, on the loop's thread."""

    def __init__(self, on_change: Callable[[], None], *, clock: Callable[[], float] = time.time) -> None:
        self.all: tuple[ToolRun, ...] = ()
        self._on_change = on_change
        self._clock = clock
        self._results: dict[int, Any] = {}
        self._waiting: dict[int, tuple[Call, float]] = {}  # with its start, by the monotonic clock
        self._tasks = RunningTasks()
        self._last = 0

    # --- any thread ---

    def result(self, number: int) -> Any:
        """The result of that call as it was received; None when there is none or it is no longer held."""
        return self._results.get(number)

    def request_of(self, run: ToolRun) -> Envelope | None:
        """The message of a call that waits, as it was sent; None once it has ended."""
        call, _ = self._waiting.get(run.number, (None, 0.0))
        return None if call is None else call.envelope

    # --- on the loop ---

    def check_room(self, action: str) -> None:
        """Raises a MewError when 20 calls wait already; `action` names the refused one, such as `call git/log`."""
        if len(self._waiting) >= MAX_RUNS:
            raise MewError(f"Cannot {action}: {MAX_RUNS} calls wait already; withdraw one of them first.")

    def follow(
        self,
        call: Call,
        *,
        target: str,
        text: str,
        what: str = "tool",
        method: str = "tools/call",
        then: Callable[[Any], object] | None = None,
    ) -> ToolRun:
        """Follows a call that was just sent with these arguments (JSON text); returns its row.

        Args:
            then: called with the result, on the loop, where there is one.
        """
        self._last += 1
        run = ToolRun(
            number=self._last,
            id=call.id,
            target=target,
            text=text,
            kind=call.kind,
            state=call.state,
            began=self._clock(),
            what=what,
            method=method,
        )
        self._waiting[run.number] = (call, time.monotonic())
        call.on_progress(lambda progress: self._change(run.number, progress=progress))
        self.all = (*self.all, run)
        self._forget()
        self._tasks.start(self._follow(run.number, call, then))
        self._on_change()
        return run

    async def stop(self, number: int) -> str:
        """Withdraws a proposal that waits, or cancels a request by a `notifications/cancelled`; returns a sentence.

        Spec: §3.3.1; MCP 2025-06-18 (cancellation).
        """
        call, _ = self._waiting.get(number, (None, 0.0))
        if call is None:
            raise MewError("That call has ended already, so nothing was cancelled.")
        proposed = call.kind == "mcp/proposal" and call.state == "open"
        await call.withdraw(RUN_ENDED)
        label, target = one_line(call.what, 120), one_line(", ".join(call.to[:3]), 120)
        if proposed and call.state == "withdrawn":
            return f"The proposal of {label} is withdrawn."
        if call.done:
            return f"{label} is no longer awaited. It may have run already."
        return (
            f"{target} was asked to stop. The outcome is its answer if one still comes, else it is not known."
        )

    def take_changes(self, changes: Iterable[LedgerChange]) -> None:
        """Updates the rows by changes of calls, some of which may have been sent from here."""
        for change in changes if self.all else ():
            if isinstance(change, Change):
                self._note(change)

    def close(self) -> None:
        """Stops following the calls. Calls that wait continue."""
        for task in self._tasks:
            task.cancel()

    # --- internal ---

    async def _follow(self, number: int, call: Call, then: Callable[[Any], object] | None) -> None:
        error, result = "", None
        try:
            outcome = await call.outcome()
            result = outcome.raw if isinstance(outcome, ToolResult) else outcome
            if then is not None:
                then(result)
        except ToolFailed as fault:
            error = str(fault)
            result = fault.data if isinstance(fault.data, dict) and "content" in fault.data else None
        except MewError as fault:
            error = str(fault)
        _, began = self._waiting.pop(number)
        if result is not None and len(text := raw_text(result)[0]) > MAX_RESULT:
            note = f"{text[:1000]}… more than {MAX_RESULT} characters: lab.log.df has all"
            result = {"content": [{"type": "text", "text": note}]}
        if result is not None:
            self._results[number] = result
        self._change(
            number,
            state=call.state,
            by=call.by,
            ended=self._clock(),
            took=time.monotonic() - began,
            error=error,
            has_result=result is not None,
        )

    def _note(self, change: Change) -> None:
        call, entry = change.call, change.entry
        run = next((run for run in self.all if (run.id, run.kind) == (call.id, call.entry.kind)), None)
        if run is None:
            return
        match change.what:
            case "requested" | "proposed" if not run.seq:
                self._change(run.number, seq=entry.seq)
            case "fulfilled":
                self._change(run.number, decided=entry.t or self._clock(), **self._standing(run, change))
            case "rejected":
                self._change(run.number, **self._standing(run, change))
            case "answered" | "unknown" if call.response is entry:
                self._change(run.number, answer_seq=entry.seq)

    def _standing(self, run: ToolRun, change: Change) -> dict[str, str]:
        """The state in the ledger while the call waits, else nothing, for the `Call` knows how it ended."""
        return {"state": change.call.state, "by": change.entry.sender} if run.waits else {}

    def _change(self, number: int, **changes: Any) -> None:
        self.all = tuple(replace(run, **changes) if run.number == number else run for run in self.all)
        self._on_change()

    def _forget(self) -> None:
        ended = [run.number for run in self.all if not run.waits]
        for number in ended[: max(0, len(self.all) - MAX_RUNS)]:
            self.all = tuple(run for run in self.all if run.number != number)
            self._results.pop(number, None)
