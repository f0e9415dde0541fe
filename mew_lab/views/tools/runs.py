"""Follows each of this participant's calls to its end, and keeps the last ones with their results.

It changes on the loop's thread alone; whatever other threads read is replaced, never changed. It does not judge whether
a call may be sent. Bounds: the last 20 calls, at most 20 that wait, at most a million characters of each result.

Spec: §3.1, §3.2, §3.3.1.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mew_lab.errors import MewError, ToolFailed
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.results import raw_text

__all__ = ["MAX_RUNS", "ToolRun", "ToolRuns"]

MAX_RUNS = 20
MAX_RESULT = 1_000_000  # characters of JSON
MAX_CLAIMS = 8  # requests that claim to fulfil one proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One call of mine. `state`: open, fulfilled (approved, runs), answered, failed, rejected or withdrawn.

    `seq` and `answer_seq` are rows of the feed, 0 while unknown; times are seconds of the epoch; `ended` is None
    while it waits; `took` is in seconds, by a clock that does not jump. `decided` is when a proposal was fulfilled.
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

    @property
    def waits(self) -> bool:
        """Whether its end is still to come."""
        return self.ended is None


@dataclass(slots=True)
class _Going:
    """What is needed to follow one call; only the loop's thread touches it."""

    call: Call
    started: float
    names: set[str] = field(default_factory=set)


class ToolRuns:
    """The calls, oldest first, as `all`. `told` is called after each change, on the loop's thread."""

    def __init__(self, told: Callable[[], None], *, clock: Callable[[], float] = time.time) -> None:
        self.all: tuple[ToolRun, ...] = ()
        self._told = told
        self._clock = clock
        self._results: dict[int, Any] = {}
        self._going: dict[int, _Going] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last = 0

    # --- any thread ---

    def result(self, number: int) -> Any:
        """What that call gave, as it came; None where there is nothing, or nothing any more."""
        return self._results.get(number)

    # --- on the loop ---

    def room(self, what: str) -> None:
        """Raises a MewError when so many calls wait that none more can be followed."""
        if len(self._going) >= MAX_RUNS:
            raise MewError(f"Cannot {what}: {MAX_RUNS} calls wait already; withdraw one of them first.")

    def follow(self, call: Call, *, target: str, text: str) -> ToolRun:
        """Follows a call that was just made, with these arguments (JSON text)."""
        self._last += 1
        run = ToolRun(
            number=self._last,
            id=call.id,
            target=target,
            text=text,
            kind=call.kind,
            state=call.state,
            began=self._clock(),
        )
        self._going[run.number] = _Going(call, time.monotonic(), {call.id})
        self.all = (*self.all, run)
        self._forget()
        task = asyncio.get_running_loop().create_task(self._follow(run.number, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._told()
        return run

    async def stop(self, number: int) -> str:
        """Withdraws a proposal that waits, or stops waiting for an answer; what was done. Spec: §3.3.1."""
        going = self._going.get(number)
        if going is None:
            raise MewError("That call has ended already; nothing was withdrawn.")
        proposed = going.call.kind == "mcp/proposal" and going.call.state == "open"
        await going.call.withdraw("no_longer_needed")
        what = one_line(going.call.what, 120)
        return (
            f"The proposal of {what} is withdrawn."
            if proposed
            else f"Nobody waits for {what} any more; it may have run."
        )

    def take(self, heard: Entry) -> None:
        """Takes note of the rows of the feed in which the calls and their answers stand."""
        if heard.refused or (not self._going and not any(run.seq == 0 for run in self.all)):
            return
        for run in self.all:
            if heard.id == run.id and not run.seq:
                self._change(run.number, seq=heard.seq)
            going = self._going.get(run.number)
            if going is None or not (named := going.names & set(heard.correlation_id)):
                continue
            if heard.kind == "mcp/request" and run.id in named and len(going.names) <= MAX_CLAIMS:
                going.names.add(heard.id)
            elif heard.kind == "mcp/response" and heard.sender in going.call.asked:
                self._change(run.number, answer_seq=heard.seq)

    def moved(self, id: str) -> None:
        """Something was learnt about the proposal of that id."""
        for number, going in self._going.items():
            if going.call.id == id:
                # The call hears of the change in the same turn, perhaps after this.
                asyncio.get_running_loop().call_soon(self._moved_to, number)

    def close(self) -> None:
        """Follows nothing any more. Calls that wait go on without it."""
        for task in self._tasks:
            task.cancel()

    # --- inside ---

    async def _follow(self, number: int, call: Call) -> None:
        error, result = "", None
        try:
            result = (await call.outcome()).raw
        except ToolFailed as fault:
            error = str(fault)
            result = fault.data if isinstance(fault.data, dict) and "content" in fault.data else None
        except MewError as fault:
            error = str(fault)
        going = self._going.pop(number)
        if result is not None and len(text := raw_text(result)[0]) > MAX_RESULT:
            said = f"{text[:1000]}… more than {MAX_RESULT} characters: lab.log.df has all"
            result = {"content": [{"type": "text", "text": said}]}
        if result is not None:
            self._results[number] = result
        self._change(
            number,
            state=call.state,
            by=call.by,
            ended=self._clock(),
            took=time.monotonic() - going.started,
            error=error,
            has_result=result is not None,
        )

    def _moved_to(self, number: int) -> None:
        going = self._going.get(number)
        run = self._run(number)
        if going is not None and run is not None and (going.call.state, going.call.by) != (run.state, run.by):
            decided = self._clock() if going.call.state == "fulfilled" else run.decided
            self._change(number, state=going.call.state, by=going.call.by, decided=decided)

    def _run(self, number: int) -> ToolRun | None:
        return next((run for run in self.all if run.number == number), None)

    def _change(self, number: int, **changes: Any) -> None:
        self.all = tuple(replace(run, **changes) if run.number == number else run for run in self.all)
        self._told()

    def _forget(self) -> None:
        ended = [run.number for run in self.all if not run.waits]
        for number in ended[: max(0, len(self.all) - MAX_RUNS)]:
            self.all = tuple(run for run in self.all if run.number != number)
            self._results.pop(number, None)
