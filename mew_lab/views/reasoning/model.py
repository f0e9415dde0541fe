"""The reasoning sequences of a space as trees of rows, the text of their streams, and the cancellation of a sequence.

The ledger decides which message belongs to which sequence and how a sequence ended (`ledger.reasoning`), and knows the
state of the calls (`ledger.calls`). This module makes the rows that a view shows.

The model holds the sequences of the ledger, also those whose start was not received, and the newest 500 steps of
each. Of a stream it holds 20 000 characters. Only the loop's thread writes; a value that other threads read is replaced,
never changed.

Spec: §2 (context), §3.5, §3.10.1, SDK "Streaming Reasoning Transparency".
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from mew_lab.errors import MewError
from mew_lab.lab.actions import cancel_sequence, may_cancel_sequence
from mew_lab.ledger.calls import Change, Proposal
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningSequence
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import MAX_ID
from mew_lab.protocol.text import cut, cut_names
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.reasoning.rows import (
    CALL,
    MAX_KIND,
    MAX_NAMES,
    CallRow,
    SequenceRow,
    StepRow,
    WorkRow,
    apply_change,
    cost_of,
    decision_on,
    read_work,
    row_of,
    text_of,
)

__all__ = ["REASONS", "Mirror", "ReasoningModel"]

MAX_STEPS = 500
MAX_STREAMS = 200
MAX_MIRRORED = 20_000  # characters of a stream
MAX_HITS = 500
MAX_LINE = 64 * 1024  # characters of a line of a stream without its end

# The reasons for cancelling a sequence, with their meanings. Spec: §3.5.5.
REASONS = {
    "superseded": "something else replaces it",
    "timeout": "it takes too long",
    "error": "it went wrong",
}


class ReasoningModel:
    """The sequences of one space, as one participant sees them; a follower of `lab.following`.

    `on_change` is called on the loop's thread with the key of a sequence and the number of the changed step. The number
    is 0 for the sequence itself and -1 for its stream.
    """

    def __init__(
        self, me: MEWParticipant, *, on_change: Callable[[int, int], None] = lambda key, n: None
    ) -> None:
        self._me = me
        self.on_change = on_change
        self._rows: dict[int, SequenceRow] = {}
        self._steps: dict[int, dict[int, StepRow]] = {}
        self._places: dict[str, tuple[int, int]] = {}  # a call's id -> its sequence and step
        # sequence -> sender and key of what a coding agent does -> the step that shows it
        self._works: dict[int, BoundedDict[tuple[str, str], int]] = {}
        self._mirrors: BoundedDict[str, tuple[int, Mirror]] = BoundedDict(MAX_STREAMS)
        self.forgotten = 0

    # --- for any thread ---

    @property
    def sequences(self) -> tuple[SequenceRow, ...]:
        """All held sequences, in order of arrival."""
        return tuple(self._rows.copy().values())

    def sequence(self, key: int) -> SequenceRow | None:
        """The sequence of that key; None when it is not held."""
        return self._rows.get(key)

    def steps(self, key: int, *, after: int = 0, limit: int = MAX_STEPS) -> tuple[StepRow, ...]:
        """The held steps of a sequence behind number `after`, at most `limit`."""
        held = self._steps.get(key, {}).copy().values()
        return tuple(step for step in held if step.n > after)[:limit]

    def step(self, key: int, n: int) -> StepRow | None:
        """One step; None when it is not held."""
        return self._steps.get(key, {}).get(n)

    def search(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Where every word occurs, in order: (key, 0) for the start of a sequence, (key, n) for a step; at most 500.

        Only the text that a view shows is searched: at most 350 characters of each message, and results of calls.
        """
        found: list[tuple[int, int]] = []
        for row in self.sequences if words else ():
            key = row.facts.key
            texts = [(0, f"{row.facts.owner} {row.text}")]
            texts += [
                (step.n, _searched(step)) for step in self.steps(key) if not step.child and not step.into
            ]
            found += [(key, n) for n, text in texts if _holds(text, words)]
            if len(found) >= MAX_HITS:
                break
        return found[:MAX_HITS]

    def locate(self, *, context: str = "", id: str = "") -> tuple[int, int] | None:
        """The place of a message by its id, or of the sequence that a context names; None when it is not held."""
        rows = self.sequences
        for row in reversed(rows) if id else ():
            if row.facts.id == id:
                return row.facts.key, 0
            for step in self.steps(row.facts.key):
                if step.id == id or (step.call is not None and step.call.id == id):
                    return step.child or row.facts.key, 0 if step.child else step.into or step.n
        for part in reversed(context.split("/")) if context else ():
            for row in reversed(rows):
                if row.facts.id == part:
                    return row.facts.key, 0
        return None

    def mirrored(self, key: int) -> tuple[str, int]:
        """The end of the text of the sequence's stream, and the number of characters received in all."""
        row = self._rows.get(key)
        _, mirror = self._mirrors.get(row.facts.stream if row else "", (0, Mirror()))
        return mirror.text, mirror.total

    def may_cancel(self, sequence: ReasoningSequence) -> bool:
        """Whether this participant may cancel that sequence. Spec: §4.1."""
        return may_cancel_sequence(self._me, sequence)

    # --- the action, on the loop ---

    async def cancel(self, key: int, reason: str = "superseded") -> str:
        """Cancels a sequence; returns one sentence once the gateway has accepted the message.

        Raises:
            MewError: the sequence is no longer held, or it has ended.
            CapabilityViolation: this participant may not cancel it.
            Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.5.5.
        """
        row = self._rows.get(key)
        if row is None or row.facts.state != "active":
            why = "it is no longer held here" if row is None else f"it has ended already ({row.facts.state})"
            raise MewError(f"Cannot cancel this reasoning: {why}; nothing was sent")
        return await cancel_sequence(self._me, row.facts, reason)

    # --- following ---

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Updates the rows by the changes by one envelope."""
        made = None  # the row of the call that the envelope starts; the changes of calls come before those of reasoning
        for change in changes:
            if isinstance(change, ReasoningChange):
                self._apply(change, made)
            elif isinstance(change, Change):
                self._change_call(change)
                if change.entry is change.call.entry and change.entry.id:
                    made = row_of(change.call)

    def frame(self, frame: StreamData) -> None:
        """Adds a frame to the text of its stream."""
        key, mirror = self._mirrors.get(frame.stream_id, (0, None))
        if mirror is not None:
            mirror.take(frame.data)
            self.on_change(key, -1)

    def refresh_active(self) -> None:
        """Reports every active sequence as changed, because its Cancel button may have to appear or disappear."""
        for row in self.sequences:
            if row.facts.state == "active":
                self.on_change(row.facts.key, 0)

    def _apply(self, change: ReasoningChange, call: CallRow | None) -> None:
        sequence, entry = change.sequence, change.entry
        match change.what:
            case "began":
                text, more = text_of(entry) if sequence.seq else ("", False)
                self._steps[sequence.key] = {}
                self._put(SequenceRow(facts=sequence, text=text, more=more))
            case "forgotten":
                self._forget(sequence.key)
            case "stepped":
                self._add(change, call)
            case "claimed":
                pass
            case _:
                if change.what == "streamed" and sequence.streaming:
                    self._mirrors[sequence.stream] = (sequence.key, Mirror())
                self._put(replace(self._rows[sequence.key], facts=sequence))

    def _add(self, change: ReasoningChange, call: CallRow | None) -> None:
        entry, key, n = change.entry, change.sequence.key, change.sequence.steps
        row, steps = self._rows[key], self._steps[key]
        text, more = text_of(entry)
        tokens, took = cost_of(entry)
        work = read_work(entry)
        into = self._show_work(key, entry, work, n) if work is not None and work.key else 0
        steps[n] = StepRow(
            n=n,
            seq=entry.seq,
            t=entry.t,
            sender=entry.sender,
            kind=cut(entry.kind, MAX_KIND),
            path=change.path,
            to=cut_names(entry.to, most=MAX_NAMES),
            text=text,
            more=more,
            call=call,
            child=change.child,
            id=cut(entry.id, MAX_ID),
            tokens=tokens,
            took=took,
            work=work,
            into=into,
        )
        dropped, open_calls = row.dropped, row.open_calls
        if len(steps) > MAX_STEPS:
            oldest = steps.pop(next(iter(steps)))
            dropped += 1
            open_calls -= oldest.call is not None and oldest.call.is_open
            self._unfollow(key, oldest)
        self._put(
            replace(
                row,
                facts=change.sequence,
                dropped=dropped,
                thoughts=row.thoughts + (entry.kind == "reasoning/thought"),
                calls=row.calls + (call is not None),
                tokens=row.tokens if tokens is None else tokens + (row.tokens or 0),
                open_calls=open_calls + (call is not None and call.is_open),
            )
        )
        self.on_change(key, n)
        if call is not None and not entry.refused:
            self._places[call.id] = (key, n)

    def _show_work(self, key: int, entry: Entry, work: WorkRow, n: int) -> int:
        """Shows what a coding agent does in the step that has shown it before; returns its number, else 0."""
        places = self._works.setdefault(key, BoundedDict(MAX_STEPS))
        first = places.setdefault((entry.sender, work.key), n)
        step = self.step(key, first)
        if first == n or step is None:
            places[entry.sender, work.key] = n
            return 0
        text, more = text_of(entry)
        work = replace(work, decision=step.work.decision if step.work else "")
        self._steps[key][first] = replace(step, text=text, more=more, seq=entry.seq, work=work)
        self.on_change(key, first)
        return first

    def _change_call(self, change: Change) -> None:
        key, n = self._places.get(change.call.id, (0, 0))
        step = self.step(key, n)
        if step is None or step.call is None or change.what == "refused":
            return
        if step.kind != change.call.entry.kind:  # a request may have the id of another participant's proposal
            return
        call = apply_change(step.call, change)
        self._steps[key][n] = replace(step, call=call)
        row = self._rows[key]
        if step.call.is_open != call.is_open:
            self._put(replace(row, open_calls=row.open_calls + (1 if call.is_open else -1)))
        self.on_change(key, n)
        if isinstance(change.call, Proposal) and change.what in (
            "fulfilled",
            "answered",
            "unknown",
            "rejected",
        ):
            self._show_decision(key, change.call)

    def _show_decision(self, key: int, proposal: Proposal) -> None:
        """Shows the decision on a permission in the row of the tool call to whose message it refers."""
        about = set(proposal.entry.correlation_id) if proposal.permission else ()
        for step in self.steps(key) if about else ():
            shown = self.step(key, step.into or step.n)
            if step.id not in about or step.sender != proposal.proposer or shown is None:
                continue
            if (work := shown.work) is not None and work.key.startswith(CALL):
                self._steps[key][shown.n] = replace(shown, work=replace(work, decision=decision_on(proposal)))
                self.on_change(key, shown.n)

    # --- internal ---

    def _unfollow(self, key: int, step: StepRow) -> None:
        """Stops following the call of a step; a call with the same id in another step is still followed."""
        if step.call is not None and self._places.get(step.call.id) == (key, step.n):
            del self._places[step.call.id]

    def _put(self, row: SequenceRow) -> None:
        key = row.facts.key
        self._rows[key] = row
        self.on_change(key, 0)

    def _forget(self, key: int) -> None:
        row = self._rows.pop(key)
        for step in self._steps.pop(key, {}).values():
            self._unfollow(key, step)
        self._mirrors.pop(row.facts.stream, None)
        self._works.pop(key, None)
        self.forgotten += 1
        self.on_change(key, 0)


class Mirror:
    """The text of one stream: its newest 20 000 characters, and the number of characters received in all (`total`).

    The agents of this package write JSON lines. `{"type": "token", "text": …}` is a piece of the model's output; any
    other object with a `message` or a `text` is a line of its own. A line that is not JSON is kept as it is. The gateway
    lets only the writers of a stream write.

    Spec: §3.10.3, SDK "Streaming Reasoning Transparency".
    """

    def __init__(self) -> None:
        self.text = ""
        self.total = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def take(self, data: bytes) -> None:
        """Adds one frame."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        text = "".join(map(_line_text, lines))
        if not self._rest.lstrip().startswith("{") or len(self._rest) > MAX_LINE:
            text, self._rest = text + self._rest, ""
        self.total += len(text)
        self.text = (self.text + text)[-MAX_MIRRORED:]


def _searched(step: StepRow) -> str:
    result = f" {step.call.result}" if step.call is not None else ""
    return f"{step.sender} {step.kind} {step.text}{result}"


def _holds(text: str, words: Sequence[str]) -> bool:
    low = text.lower()
    return all(word in low for word in words)


def _line_text(line: str) -> str:
    """The text that a line adds."""
    if not line.strip():
        return ""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line + "\n"
    if not isinstance(value, dict):
        return line + "\n"
    if value.get("type") == "token":
        piece = value.get("text")
        return piece if isinstance(piece, str) else ""
    for name in ("message", "text"):
        if isinstance(value.get(name), str):
            return f"\n{value[name]}\n"
    return ""
