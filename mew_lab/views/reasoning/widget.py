"""The reasoning view: a human follows the published reasoning of other participants, and cancels it.

The view has one branch for each sequence, with its steps below it. Each sequence is sent as one line. Steps are sent
with their numbers, so that a view that missed one requests the missing page. The steps of an ended sequence are sent
when its branch is opened. To cancel, a view sends the number of a sequence and a reason; the kernel takes the addressee
from the sequence that it holds.

Spec: §3.5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from typing import Any

from mew_lab.errors import MewError
from mew_lab.lab.decisions.running_calls import RunningCall, RunningCalls
from mew_lab.lab.rows import Rows
from mew_lab.lab.session import Session
from mew_lab.ledger.reasoning import ReasoningSequence
from mew_lab.log.line import read_members
from mew_lab.protocol.content import for_text, holds_content, read_parts
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import middle, one_line, visible
from mew_lab.views.reasoning.model import REASONS, ReasoningModel
from mew_lab.views.reasoning.rows import CallRow, SequenceRow, StepRow
from mew_lab.views.ui.acts import Act, ActingView, ActResult, Submit
from mew_lab.views.ui.markdown import plain
from mew_lab.views.ui.pictures import clock_time, picture
from mew_lab.views.ui.running import RunningList
from mew_lab.views.ui.sent_rows import ChangedKeys

__all__ = ["ReasoningView", "view_of"]

PAGE = 200  # steps in a snapshot, or in one answer
MOST_NEWS = 300  # steps in one message
MOST_STREAMS = 20  # streams with new text in one message
MOST_READ = 20  # sequences in one message that a person can read
FLOODED = 0.5  # seconds to the next message where there were more
LIVE = 600  # characters of a stream that are shown as they come
WHOLE = 1_000_000
HEAD = 160  # characters of the message that starts a sequence; the rest is sent on request


def view_of(session: Session, rows: Rows) -> ReasoningView:
    """Makes the view of this space."""
    me = session.me.participant
    thoughts = ReasoningModel(me)
    view = ReasoningView(
        thoughts, submit=session.loop.submit, raw=rows.raw, running=session.decisions.running
    )

    def join() -> None:
        ends.append(me.client.on_stream_data(thoughts.frame))
        ends.append(me.rights.on_capabilities_changed(lambda change: thoughts.refresh_active()))
        session.following.add(thoughts)

    def leave() -> None:
        session.following.remove(thoughts)
        for end in ends:
            end()

    ends: list[Callable[[], None]] = []
    view.on_close(lambda: session.loop.post(leave))
    session.loop.call(join)
    return view


class ReasoningView(ActingView):
    """The published reasoning of one space. Show it as often as you like: all views show the same sequences."""

    part = "reasoning"
    title = "reasoning"
    interval = 0.1

    def __init__(
        self,
        thoughts: ReasoningModel,
        *,
        submit: Submit,
        raw: Callable[[int], str] = lambda seq: "",
        running: RunningCalls | None = None,
        **settings: Any,
    ) -> None:
        self._thoughts = thoughts
        self._raw = raw
        self._fresh: ChangedKeys[int] = ChangedKeys()
        self._fresh_calls: ChangedKeys[tuple[int, int]] = ChangedKeys()
        self._fresh_steps: ChangedKeys[tuple[int, int]] = ChangedKeys()
        self._fresh_streams: ChangedKeys[int] = ChangedKeys()
        self._running: RunningList | None = None
        super().__init__(submit=submit, **settings)
        thoughts.on_change = self._on_change
        if running is not None:
            self._running = RunningList(running, wake=self.wake, place=_place)
            self.on_close(self._running.end)

    def _on_change(self, key: int, n: int) -> None:
        if not self.has_view:
            return  # a view that opens gets a snapshot
        if n < 0:
            self._fresh_streams.add(key)
        elif n == 0:
            self._fresh.add(key)
        elif (step := self._thoughts.step(key, n)) is not None and step.call is not None:
            self._fresh_calls.add((key, n))
        elif len(self._fresh_steps) < 4 * MOST_NEWS:  # a page requests a step that it misses
            self._fresh_steps.add((key, n))
        self.wake()

    # Messages to the views.

    def _snapshot(self, start: int) -> dict[str, Any]:
        rows = self._thoughts.sequences
        steps: list[dict[str, Any]] = []
        for row in reversed(rows):
            if row.facts.state == "active" and len(steps) < PAGE:
                held = self._thoughts.steps(row.facts.key)[-(PAGE - len(steps)) :]
                steps = [_pack_step(row.facts.key, step) for step in held] + steps
        return {
            "sequences": [self._pack_sequence(row) for row in rows],
            "steps": steps,
            "streams": [self._stream(row.facts.key) for row in rows if row.facts.streaming][-MOST_STREAMS:],
            "reasons": list(REASONS.items()),
            "forgotten": self._thoughts.forgotten,
            "running": self._running.all() if self._running else [],
        }

    def _news(self) -> list[dict[str, Any]]:
        keys, streams = self._fresh.take(), self._fresh_streams.take(MOST_STREAMS)
        self.interval = FLOODED if len(keys) > MOST_READ else type(self).interval
        numbers = self._fresh_calls.take(MOST_NEWS)
        numbers += self._fresh_steps.take(MOST_NEWS - len(numbers))
        items: list[dict[str, Any]] = []
        held = [self._thoughts.sequence(key) for key in keys]
        if keys:
            dropped = [key for key, row in zip(keys, held, strict=True) if row is None]
            shown = [self._pack_sequence(row) for row in held if row is not None]
            items.append(
                {"t": "sequences", "sequences": shown, "gone": dropped, "forgotten": self._thoughts.forgotten}
            )
        pairs = [(key, self._thoughts.step(key, n)) for key, n in numbers]
        if steps := [_pack_step(key, step) for key, step in pairs if step is not None]:
            items.append({"t": "steps", "steps": steps})
        if streams:
            items.append({"t": "streams", "streams": [self._stream(key) for key in streams]})
        if self._fresh_calls or self._fresh_steps or self._fresh_streams:
            self.wake()
        return items + (self._running.news() if self._running else [])

    def _pack_sequence(self, row: SequenceRow) -> dict[str, Any]:
        return {
            "key": row.facts.key,
            "id": middle(row.facts.id, 28),
            "owner": visible(row.facts.owner),
            "text": one_line(_subject(row.text), HEAD),
            "more": row.more or len(row.text) > HEAD,
            "started": round(row.facts.started, 3),
            "ended": None if row.facts.ended is None else round(row.facts.ended, 3),
            "state": row.facts.state,
            "by": visible(row.facts.by) if row.facts.by != row.facts.owner else "",
            "reason": row.facts.reason,
            "parent": row.facts.parent,
            "place": row.facts.place,
            "path": _parts(row.facts.path),
            "steps": row.facts.steps,
            "dropped": row.dropped,
            "thoughts": row.thoughts,
            "calls": row.calls,
            "open": row.open_calls,
            "tokens": row.tokens,
            "message": visible(row.facts.id) if row.facts.seq else "",
            "stream": visible(row.facts.stream),
            "streaming": row.facts.streaming,
            "may": row.facts.state == "active" and self._thoughts.may_cancel(row.facts),
        }

    def _stream(self, key: int) -> dict[str, Any]:
        text, total = self._thoughts.mirrored(key)
        return {"key": key, "text": plain(text[-LIVE:].lstrip()), "total": total}

    # Requests of the views.

    def _acts(self) -> Mapping[str, Act]:
        return {
            "cancel": self._cancel,
            "steps": self._send_steps,
            "whole": self._whole,
            "stream": self._send_stream,
            "search": self._search,
            "locate": self._locate,
            **(self._running.acts() if self._running else {}),
        }

    def _cancel(self, key: int, reason: str) -> Coroutine[Any, Any, str]:
        if not reason.strip():
            raise MewError("Nothing was cancelled: no reason was given. Choose one of the list.")
        return self._thoughts.cancel(key, reason.strip())

    def _send_steps(self, key: int, after: int) -> ActResult:
        steps = self._thoughts.steps(key, after=after, limit=PAGE)
        return ActResult(
            f"{count_of(len(steps), 'step')}.", {"steps": [_pack_step(key, step) for step in steps]}
        )

    def _whole(self, key: int, n: int) -> ActResult:
        text = self._text_of(key, n)
        if text is None:
            raise MewError("The whole message is no longer held in this view; lab.log.df has it.")
        cut = f"\n… and {count_of(len(text) - WHOLE, 'more character')}" if len(text) > WHOLE else ""
        return ActResult("All of it.", {"text": plain(text[:WHOLE]) + cut})

    def _send_stream(self, key: int) -> ActResult:
        text, total = self._thoughts.mirrored(key)
        left = (
            f"… {count_of(total - len(text), 'earlier character')} no longer held.\n"
            if total > len(text)
            else ""
        )
        return ActResult("All held text of the stream.", {"text": left + plain(text)})

    def _search(self, query: str) -> ActResult:
        found = self._thoughts.search(query.lower().split())
        return ActResult(f"{len(found)} found", {"hits": [list(hit) for hit in found]})

    def _locate(self, context: str = "", id: str = "") -> ActResult:
        place = self._thoughts.locate(context=context, id=id)
        return ActResult("found" if place else "not held", list(place) if place else None)

    def _text_of(self, key: int, n: int) -> str | None:
        """The whole text of a step; of a call its payload and that of its answer; for n = 0 of the first message."""
        row, step = self._thoughts.sequence(key), self._thoughts.step(key, n)
        if row is None or (n and step is None):
            return None
        payload = self._payload(step.seq if step is not None else row.facts.seq)
        if payload is None:
            return None
        if step is None or step.call is None:
            text = payload.get("message", payload.get("text"))
            return text if isinstance(text, str) else _indent(payload)
        parts = [_indent(payload.get("params", payload))]
        if step.call.result_seq and (answer := self._payload(step.call.result_seq)) is not None:
            parts.append(_result(answer))
        return "\n\n".join(parts)

    def _payload(self, seq: int) -> dict[str, Any] | None:
        payload = (read_members(self._raw(seq)) or {}).get("payload")
        return payload if isinstance(payload, dict) else None

    # Saved pictures.

    def badge(self) -> str:
        """The number of active sequences, as text; empty for none."""
        active = sum(row.facts.state == "active" for row in self._thoughts.sequences)
        return f"{active} active" if active else ""

    def _static_text(self) -> str:
        rows = self._thoughts.sequences
        active = [row for row in rows if row.facts.state == "active"]
        first = f", newest: {one_line(active[-1].facts.owner, 64)} “{active[-1].text[:80]}”" if active else ""
        return f"Reasoning: {len(active)} active, {len(rows) - len(active)} ended{first}"

    def _static_html(self) -> str:
        rows = self._thoughts.sequences
        lines: list[tuple[str, ...]] = []
        for row in rows:
            lines.append(
                (
                    clock_time(row.facts.started),
                    row.facts.owner,
                    _state_of(row.facts),
                    _subject(row.text),
                    _summary(row),
                )
            )
            for step in self._thoughts.steps(row.facts.key):
                if step.into:
                    continue
                sender = step.sender if step.sender != row.facts.owner else ""
                decision = step.work.decision if step.work is not None else ""
                outcome = _outcome_of(step.call) if step.call is not None else decision
                lines.append((f"+{step.t - row.facts.started:.1f} s", sender, step.kind, step.text, outcome))
        empty = 'Nobody has reasoned in the open yet. lab.ask("helper", "…") of an agent fills this.'
        active = sum(row.facts.state == "active" for row in rows)
        title = f"Reasoning: {active} active, {len(rows)} in all"
        columns = ("when", "who", "state", "what", "then")
        return picture(title, columns, lines, empty=empty, of="line", code=("who", "state"))


def _subject(text: str) -> str:
    """The message of a start without the words with which agents of this package begin it; the owner is beside it."""
    return text.removeprefix("Working on: ") or text


def _parts(path: str) -> list[str]:
    return [middle(part, 40) for part in path.split("/") if part]


def _indent(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _result(payload: Mapping[str, Any]) -> str:
    """The answer of a tool as text, else its JSON."""
    result = payload.get("result")
    if "error" not in payload and (method := holds_content(result)):
        return for_text(read_parts(result, method))
    return _indent(payload.get("error", result))


def _pack_step(key: int, step: StepRow) -> dict[str, Any]:
    """A step as the views get it, with visible text."""
    return {
        "key": key,
        "n": step.n,
        "t": round(step.t, 3),
        "kind": visible(step.kind),
        "from": visible(step.sender),
        "to": [visible(name) for name in step.to[:4]],
        "path": _parts(step.path),
        "text": step.text,
        "more": step.more,
        "child": step.child,
        "id": visible(step.id),
        "tokens": step.tokens,
        "took": step.took,
        "work": None if step.work is None else asdict(step.work),
        "into": step.into,
        "call": _pack_call(step.call) if step.call is not None else None,
    }


def _place(call: RunningCall) -> dict[str, Any]:
    """The ids under which the steps of a sequence have a call that runs."""
    return {"calls": [call.id, *call.fulfils]}


def _pack_call(call: CallRow) -> dict[str, Any]:
    return {
        "id": call.id,
        "state": call.state,
        "by": visible(call.by),
        "ended": None if call.ended is None else round(call.ended, 3),
        "result": call.result,
        "claims": list(call.claims),
    }


def _outcome_of(call: CallRow) -> str:
    """The state and the result of a call, for a saved picture."""
    by = f" by {call.by}" if call.by and call.state in ("rejected", "refused") else ""
    return f"{call.state}{by}{f': {call.result}' if call.result else ''}"


def _state_of(sequence: ReasoningSequence) -> str:
    lasted = f" after {sequence.ended - sequence.started:.1f} s" if sequence.ended is not None else ""
    return f"{sequence.state}{lasted}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _summary(row: SequenceRow) -> str:
    by = f"by {row.facts.by}" if row.facts.by and row.facts.by != row.facts.owner else ""
    tokens = count_of(row.tokens, "token") if row.tokens is not None else ""
    parts = [_counted(row.thoughts, "thought"), _counted(row.calls, "call"), tokens, by, row.facts.reason]
    return ", ".join(filter(None, parts))
