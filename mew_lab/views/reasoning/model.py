"""The sequences of reasoning of a space as trees of rows, the text of the streams beside them, and how to end one.

Which message belongs to which sequence, and how each ended, is the ledger's to say (`ledger.reasoning`), and so is what
became of the calls (`ledger.calls`). Here stands what is shown of them.

Holds the newest 200 sequences, whether their starts were seen or not, with 500 steps each, of which the oldest go, and
20 000 characters of a stream; `sequences` says how much of each. Written on the loop's thread alone; what other threads
read is replaced, not changed.

Spec: §2 (context), §3.5, §3.10.1, SDK "Streaming Reasoning Transparency".
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import replace

from mew_lab.errors import MewError
from mew_lab.ledger.calls import CallLedger, Change
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningChange, ReasoningLedger, ReasoningSequence
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import cut, cut_names
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.reasoning.rows import (
    MAX_KIND,
    MAX_NAMES,
    CallRow,
    SequenceRow,
    StepRow,
    apply_change,
    row_of,
    text_of,
)

__all__ = ["REASONS", "Mirror", "ReasoningModel"]

MAX_SEQUENCES = 200
MAX_STEPS = 500
MAX_STREAMS = 200
MAX_MIRRORED = 20_000  # characters of a stream
MAX_LINE = 64 * 1024  # characters of a line of a stream whose end has not come

# Reasons for ending a sequence, with what they say. Spec: §3.5.5.
REASONS = {
    "superseded": "something else replaces it",
    "timeout": "it takes too long",
    "error": "it went wrong",
}


class ReasoningModel:
    """The sequences of one space, as one participant sees them; a follower of `lab.following`.

    `on_change` is told the key of a sequence and the number of a step that changed, 0 for the sequence alone and -1 for
    its stream, on the loop's thread.
    """

    def __init__(
        self, me: MEWParticipant, *, on_change: Callable[[int, int], None] = lambda key, n: None
    ) -> None:
        self._me = me
        self.on_change = on_change
        self._ledger = ReasoningLedger(limit=MAX_SEQUENCES)
        self._made: CallRow | None = None  # the call that the next entry makes
        self._rows: dict[int, SequenceRow] = {}
        self._steps: dict[int, dict[int, StepRow]] = {}
        self._places: dict[str, tuple[int, int]] = {}  # a call's id -> its sequence and step
        self._mirrors: BoundedDict[str, tuple[int, Mirror]] = BoundedDict(MAX_STREAMS)
        self.forgotten = 0

    # --- what any thread may ask ---

    @property
    def sequences(self) -> tuple[SequenceRow, ...]:
        """All that are held, in order of arrival."""
        return tuple(self._rows.copy().values())

    def sequence(self, key: int) -> SequenceRow | None:
        """The sequence of that key; None when it is not held."""
        return self._rows.get(key)

    def steps(self, key: int, *, after: int = 0, limit: int = MAX_STEPS) -> tuple[StepRow, ...]:
        """The steps of a sequence behind number `after`, at most `limit`."""
        held = self._steps.get(key, {}).copy().values()
        return tuple(step for step in held if step.n > after)[:limit]

    def step(self, key: int, n: int) -> StepRow | None:
        """One step; None when it is not held."""
        return self._steps.get(key, {}).get(n)

    def mirrored(self, key: int) -> tuple[str, int]:
        """The end of the text of the stream beside it, and how many characters came in all."""
        row = self._rows.get(key)
        _, mirror = self._mirrors.get(row.facts.stream if row else "", (0, Mirror()))
        return mirror.text, mirror.total

    def may_cancel(self, sequence: ReasoningSequence) -> bool:
        """Whether this participant may end that sequence. Spec: §4.1."""
        to = self._addressees(sequence)
        return self._me.sender.permitted("reasoning/cancel", {"reason": next(iter(REASONS))}, to=to)

    # --- what it does ---

    async def cancel(self, key: int, reason: str = "superseded") -> str:
        """Ends a sequence, and says so to everybody; returns one sentence once the gateway has taken it.

        Raises:
            MewError: it is not held, or it is over.
            CapabilityViolation: this participant may not.
            Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.5.5.
        """
        row = self._rows.get(key)
        if row is None or row.facts.state != "active":
            what = "it is not known here" if row is None else f"it is over already ({row.facts.state})"
            raise MewError(f"cannot cancel this reasoning: {what}; nothing was sent")
        sender, sequence = self._me.sender, row.facts
        draft = sender.complete(
            "reasoning/cancel",
            {"reason": reason},
            to=self._addressees(sequence),
            about=sequence.about,
            context=sequence.id,
        )
        await sender.send_accepted(draft)
        return f"The reasoning of {sequence.owner} was cancelled ({one_line(reason, 80)})."

    def _addressees(self, sequence: ReasoningSequence) -> tuple[str, ...]:
        # A participant handles what is addressed to it whatever the context; one that has left cannot be addressed.
        return (sequence.owner,) if sequence.owner in self._me.client.participants else ()

    # --- following ---

    def take(self, entry: Entry) -> None:
        """Takes note of one envelope."""
        call, self._made = self._made, None
        for change in self._ledger.observe(entry):
            self._apply(change, call)

    def take_changes(self, changes: tuple[Change, ...], calls: CallLedger) -> None:
        """Brings the calls that are shown up to what became of them; the next entry is the one that changed them."""
        made = None
        for change in changes:
            self._change_call(change)
            if change.entry is change.call.entry and change.entry.id:
                made = row_of(change.call)
        self._made = made

    def frame(self, frame: StreamData) -> None:
        """Takes note of a frame of a stream."""
        key, mirror = self._mirrors.get(frame.stream_id, (0, None))
        if mirror is not None:
            mirror.take(frame.data)
            self.on_change(key, -1)

    def refresh_active(self) -> None:
        """Reports every active sequence as changed, for a button may have to appear or to go."""
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
                open_calls=open_calls + (call is not None and call.is_open),
            )
        )
        self.on_change(key, n)
        if call is not None and call.state != "refused":
            self._places[call.id] = (key, n)

    def _change_call(self, change: Change) -> None:
        key, n = self._places.get(change.call.id, (0, 0))
        step = self.step(key, n)
        if step is None or step.call is None or change.what == "refused":
            return
        if step.kind != change.call.entry.kind:  # a request may have the id of somebody's proposal
            return
        call = apply_change(step.call, change)
        self._steps[key][n] = replace(step, call=call)
        row = self._rows[key]
        if step.call.is_open != call.is_open:
            self._put(replace(row, open_calls=row.open_calls + (1 if call.is_open else -1)))
        self.on_change(key, n)

    # --- keeping ---

    def _unfollow(self, key: int, step: StepRow) -> None:
        """Follows the call of a step no more; a call of the same id that stands elsewhere is followed still."""
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
        self.forgotten += 1
        self.on_change(key, 0)


class Mirror:
    """The text of one stream: the newest 20 000 characters, and how many came in all (`total`).

    Our agents write JSON lines: `{"type": "token", "text": …}` is a piece of what the model says, another line with a
    `message` is a line of its own. Whatever is no JSON is taken as it is. The gateway sees to it that nobody but
    the writers of a stream writes.

    Spec: §3.10.3, SDK "Streaming Reasoning Transparency".
    """

    def __init__(self) -> None:
        self.text = ""
        self.total = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def take(self, data: bytes) -> None:
        """Takes one frame."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        text = "".join(map(_line_text, lines))
        if not self._rest.lstrip().startswith("{") or len(self._rest) > MAX_LINE:
            text, self._rest = text + self._rest, ""
        self.total += len(text)
        self.text = (self.text + text)[-MAX_MIRRORED:]


def _line_text(line: str) -> str:
    """What a line adds to the text."""
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
