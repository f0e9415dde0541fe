"""Who reasons in the open, about what, and how far is it?  The sequences of a space as trees, and how to end one.

A `reasoning/start` opens a sequence; its id is the context of what belongs to it, `id/part` a part of it. Calls belong
to it, too, when they correlate to the start. Whoever started a sequence concludes it; anybody who may ends it by
`reasoning/cancel`; with its participant's leaving it is over. The stream beside it is read along.

Holds the newest 200 sequences, whether their starts were heard or not, with 500 steps each, of which the oldest go, and
20 000 characters of a stream; `sequences` says how much of each. Written on the loop's thread alone; what other threads
read is replaced, not changed.

Spec: §2 (context), §3.5, §3.10.1, SDK "Streaming Reasoning Transparency".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from mew_lab.errors import MewError
from mew_lab.ledger.calls import CALL_KINDS, CallLedger, Change
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import MAX_ID
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import MAX_NAME, cut, cut_names
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.views.reasoning.call_rows import CallRow, changed, row_of
from mew_lab.views.reasoning.mirrors import Mirror
from mew_lab.views.reasoning.sequences import MAX_KIND, MAX_PATH, MAX_TO, Reasoning, Step, parts_of, text_of

__all__ = ["REASONS", "Thoughts"]

MAX_SEQUENCES = 200
MAX_STEPS = 500
MAX_STREAMS = 200
MAX_ABOUT = 20
MAX_WEIGHT = 16 * 1024 * 1024  # characters of the calls of the space
_WITHOUT_CONTEXT = ("mcp/", "reasoning/start", "stream/", "system/")  # may concern a sequence all the same

# Reasons for ending a sequence, with what they say. Spec: §3.5.5.
REASONS = {
    "superseded": "something else replaces it",
    "timeout": "it takes too long",
    "error": "it went wrong",
}


class Thoughts:
    """The sequences of one space, as one participant sees them; a follower of `lab.following`.

    `on_change` is told the key of a sequence and the number of a step that changed, 0 for the sequence alone and -1 for
    its stream, on the loop's thread.
    """

    def __init__(
        self, me: MEWParticipant, *, on_change: Callable[[int, int], None] = lambda key, n: None
    ) -> None:
        self._me = me
        self.on_change = on_change
        self._sequences: dict[int, Reasoning] = {}
        self._over: set[int] = set()  # the keys of those that have ended
        self._steps: dict[int, dict[int, Step]] = {}
        self._by_id: dict[str, int] = {}
        self._ledger = CallLedger(weight=MAX_WEIGHT)
        self._places: dict[str, tuple[int, int]] = {}  # a call's id -> its sequence and step
        self._asked: BoundedDict[str, int] = BoundedDict(MAX_STREAMS)  # a stream/request's id -> its sequence
        self._mirrors: BoundedDict[str, tuple[int, Mirror]] = BoundedDict(MAX_STREAMS)
        self._count = 0
        self.forgotten = 0

    # --- what any thread may ask ---

    @property
    def sequences(self) -> tuple[Reasoning, ...]:
        """All that are held, in order of arrival."""
        return tuple(self._sequences.copy().values())

    def sequence(self, key: int) -> Reasoning | None:
        """The one of that key; None when it is not held."""
        return self._sequences.get(key)

    def steps(self, key: int, *, after: int = 0, limit: int = MAX_STEPS) -> tuple[Step, ...]:
        """The steps of a sequence behind number `after`, at most `limit`."""
        held = self._steps.get(key, {}).copy().values()
        return tuple(one for one in held if one.n > after)[:limit]

    def step(self, key: int, n: int) -> Step | None:
        """One step; None when it is not held."""
        return self._steps.get(key, {}).get(n)

    def mirrored(self, key: int) -> tuple[str, int]:
        """What the stream beside it said last, and how many characters it said in all."""
        one = self._sequences.get(key)
        _, mirror = self._mirrors.get(one.stream if one else "", (0, Mirror()))
        return mirror.text, mirror.total

    def may_cancel(self, one: Reasoning) -> bool:
        """Whether this participant may end that sequence. Spec: §4.1."""
        to = self._addressees(one)
        return self._me.saying.permitted("reasoning/cancel", {"reason": next(iter(REASONS))}, to=to)

    # --- what it does ---

    async def cancel(self, key: int, reason: str = "superseded") -> str:
        """Ends a sequence, and says so to everybody; returns one sentence once the gateway has taken it.

        Raises:
            MewError: it is not held, or it is over.
            CapabilityViolation: this participant may not.
            Refused, NoReply, ConnectionLost: as `MessageSender.say_accepted`.

        Spec: §3.5.5.
        """
        one = self._sequences.get(key)
        if one is None or one.state != "active":
            what = "it is not known here" if one is None else f"it is over already ({one.state})"
            raise MewError(f"cannot cancel this reasoning: {what}; nothing was sent")
        about, to = one.about, self._addressees(one)
        saying = self._me.saying
        said = saying.complete("reasoning/cancel", {"reason": reason}, to=to, about=about, context=one.id)
        await saying.send_accepted(said)
        return f"The reasoning of {one.owner} was cancelled ({one_line(reason, 80)})."

    def _addressees(self, one: Reasoning) -> tuple[str, ...]:
        # Whoever is addressed must handle it whatever its context; somebody who left cannot be addressed.
        return (one.owner,) if one.owner in self._me.client.participants else ()

    # --- what is heard ---

    def take(self, heard: Entry) -> None:
        """Takes note of one envelope."""
        if not heard.context and not heard.kind.startswith(_WITHOUT_CONTEXT):
            return
        if len(heard.id) > MAX_ID or len(heard.sender) > MAX_NAME:
            return  # it names no message, or nobody
        made = self._take_call(heard) if heard.kind in CALL_KINDS else None
        if heard.refused and not heard.kind.startswith("mcp/"):
            return
        if heard.kind == "system/presence" and heard.sender == GATEWAY:
            self._presence(heard)
        elif heard.kind.startswith("stream/"):
            self._stream(heard)
        elif heard.kind == "reasoning/start" and heard.id:
            self._start(heard)
        else:
            self._follow(heard, made)

    def frame(self, frame: StreamData) -> None:
        """Takes note of a frame of a stream."""
        key, mirror = self._mirrors.get(frame.stream_id, (0, None))
        if mirror is not None:
            mirror.take(frame.data)
            self.on_change(key, -1)

    def rights_changed(self) -> None:
        """What this participant may do has changed: whoever shows a button looks again."""
        for one in self.sequences:
            if one.state == "active":
                self.on_change(one.key, 0)

    def _start(self, heard: Entry) -> None:
        parent, path = self._place(heard)
        self._count += 1
        key, (text, more) = self._count, text_of(heard)
        self._hold(
            Reasoning(
                key=key,
                id=heard.id,
                owner=heard.sender,
                started=heard.t,
                text=text,
                more=more,
                seq=heard.seq,
                about=tuple(id for id in heard.correlation_id[:MAX_ABOUT] if len(id) <= MAX_ID),
                parent=parent,
                place=self._sequences[parent].steps + 1 if parent else 0,
                path=path,
            )
        )
        if parent in self._sequences:
            self._add(parent, path, heard, child=key)

    def _take_call(self, heard: Entry) -> CallRow | None:
        """Brings the calls that are shown up to what the ledger knows; the row of the call that was made, if any."""
        made = None
        for change in self._ledger.observe(heard):
            self._change_call(change)
            if change.entry is change.call.entry:
                made = row_of(change.call)
        return made

    def _follow(self, heard: Entry, made: CallRow | None) -> None:
        key, path = self._place(heard)
        if not key and heard.kind.startswith("reasoning/") and heard.context:
            key = self._unheard(heard)
        one = self._sequences.get(key)
        if one is None or heard.kind in ("mcp/response", "mcp/reject", "mcp/withdraw", "system/error"):
            return
        call = None
        if heard.kind in ("mcp/request", "mcp/proposal") and heard.id:
            if heard.kind == "mcp/request" and any(id in self._places for id in heard.correlation_id):
                return  # it fulfils a proposal, and is told beside that
            call = made
        n = self._add(key, path, heard, call=call)
        if call is not None and call.state != "refused":
            self._places[call.id] = (key, n)
        if heard.kind == "reasoning/conclusion" and heard.sender == one.owner and not path:
            self._end(key, heard, "concluded")
        elif heard.kind == "reasoning/cancel" and not path:
            self._end(key, heard, "cancelled")

    def _place(self, heard: Entry) -> tuple[int, str]:
        """The sequence to which it belongs, 0 for none, and the part of it."""
        parts = parts_of(heard.context)
        for n in range(len(parts) - 1, -1, -1):
            if key := self._by_id.get(parts[n], 0):
                return key, cut("/".join(parts[n + 1 :]), MAX_PATH)
        if heard.kind in ("mcp/request", "mcp/proposal"):
            for id in heard.correlation_id:
                if key := self._by_id.get(id, 0):
                    return key, ""
        return 0, ""

    def _unheard(self, heard: Entry) -> int:
        """The key of a sequence whose start was not heard: the log begins behind it. 0 where it names none."""
        parts = parts_of(heard.context)
        if not parts:
            return 0
        self._count += 1
        self._hold(Reasoning(key=self._count, id=parts[0], owner=heard.sender, started=heard.t))
        return self._count

    def _add(self, key: int, path: str, heard: Entry, *, call: CallRow | None = None, child: int = 0) -> int:
        one, steps = self._sequences[key], self._steps[key]
        n = one.steps + 1
        text, more = text_of(heard)
        steps[n] = Step(
            n=n,
            seq=heard.seq,
            t=heard.t,
            sender=heard.sender,
            kind=cut(heard.kind, MAX_KIND),
            path=path,
            to=cut_names(heard.to, most=MAX_TO),
            text=text,
            more=more,
            call=call,
            child=child,
        )
        dropped, waiting = one.dropped, one.open_calls
        if len(steps) > MAX_STEPS:
            old = steps.pop(next(iter(steps)))
            dropped += 1
            waiting -= old.call is not None and old.call.is_open
            self._unfollow(key, old)
        self._put(
            replace(
                one,
                steps=n,
                dropped=dropped,
                thoughts=one.thoughts + (heard.kind == "reasoning/thought"),
                calls=one.calls + (call is not None),
                open_calls=waiting + (call is not None and call.is_open),
            )
        )
        self.on_change(key, n)
        return n

    def _change_call(self, change: Change) -> None:
        key, n = self._places.get(change.call.id, (0, 0))
        step = self.step(key, n)
        if step is None or step.call is None or change.what == "refused":
            return
        if step.kind != change.call.entry.kind:  # a request may have the id of somebody's proposal
            return
        call = changed(step.call, change)
        self._steps[key][n] = replace(step, call=call)
        one = self._sequences[key]
        if step.call.is_open != call.is_open:
            self._put(replace(one, open_calls=one.open_calls + (1 if call.is_open else -1)))
        self.on_change(key, n)

    def _end(self, key: int, heard: Entry, state: Literal["concluded", "cancelled", "left"]) -> None:
        one = self._sequences[key]
        if one.state == "active":
            reason = heard.payload.get("reason") if state == "cancelled" else ""
            said = one_line(reason, 200) if isinstance(reason, str) else ""
            self._put(replace(one, state=state, ended=heard.t, by=heard.sender, reason=said))

    def _presence(self, heard: Entry) -> None:
        gone = heard.payload.get("participant")
        if heard.payload.get("event") == "leave" and isinstance(gone, dict):
            for one in self.sequences:
                if one.owner == gone.get("id"):
                    self._end(one.key, heard, "left")

    def _stream(self, heard: Entry) -> None:
        named = heard.payload.get("stream_id")
        stream = named if isinstance(named, str) and len(named) <= MAX_ID else ""
        if heard.kind == "stream/request":
            wish = heard.payload.get("description")
            told = wish.removeprefix("reasoning:") if isinstance(wish, str) else ""
            for id in (*heard.correlation_id, heard.context, told):
                one = self._sequences.get(self._by_id.get(id, 0))
                if one is not None and one.owner == heard.sender:
                    self._asked[heard.id] = one.key
                    return
        elif heard.kind == "stream/open" and heard.sender in (GATEWAY, "gateway") and stream:
            for id in heard.correlation_id:
                one = self._sequences.get(self._asked.pop(id, 0))
                if one is not None:
                    self._mirrors[stream] = (one.key, Mirror())
                    self._put(replace(one, stream=stream, streaming=True))
        elif heard.kind == "stream/close":
            one = self._sequences.get(self._mirrors.get(stream, (0, None))[0])
            if one is not None and one.stream == stream and heard.sender in (one.owner, GATEWAY, "gateway"):
                self._put(replace(one, streaming=False))

    # --- keeping ---

    def _hold(self, one: Reasoning) -> None:
        """Adds a sequence; too many are forgotten, those first that are over."""
        self._put(one)
        held = self._sequences.get(self._by_id.get(one.id, 0))
        if held is None or held.state != "active":  # who took the id first keeps it
            self._by_id[one.id] = one.key
        self._steps[one.key] = {}
        while len(self._sequences) > MAX_SEQUENCES:
            self._forget(min(self._over or self._sequences))

    def _unfollow(self, key: int, step: Step) -> None:
        """That step is not held any more; a call of the same id that stands elsewhere is followed still."""
        if step.call is not None and self._places.get(step.call.id) == (key, step.n):
            del self._places[step.call.id]

    def _put(self, one: Reasoning) -> None:
        self._sequences[one.key] = one
        if one.state != "active":
            self._over.add(one.key)
        self.on_change(one.key, 0)

    def _forget(self, key: int) -> None:
        one = self._sequences.pop(key)
        self._over.discard(key)
        for step in self._steps.pop(key, {}).values():
            self._unfollow(key, step)
        if self._by_id.get(one.id) == key:
            del self._by_id[one.id]
        self._mirrors.pop(one.stream, None)
        self.forgotten += 1
        self.on_change(key, 0)
