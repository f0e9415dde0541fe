"""Which streams are open, and what changed?  The book of the streams of one space.

What the gateway says goes into it, and what the owner of a stream says of its end; nobody else's word changes
anything. It sends nothing and tells nobody: each change is handed back.

Spec: §3.8.1, §3.10, rulings R10, R16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from mew_lab.errors import ConnectionLost
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import read_welcome
from mew_lab.sdk.correlations import GATEWAYS
from mew_lab.sdk.stream import Stream
from mew_lab.sdk.stream_facts import (
    MAX_STREAMS,
    StreamFacts,
    description_in,
    facts_in_open,
    facts_in_welcome,
    names_in,
)

__all__ = ["GATEWAYS", "StreamBook", "StreamChange"]

MAX_REASON = 300  # characters of the reason of a close
MAX_ASKED = 100  # requests that the gateway has not answered
MAX_REQUEST = 64 * 1024  # characters of somebody else's request; of a longer one no description is kept


class StreamChange(NamedTuple):
    """What became of a stream; `changed` is its owner, its writers or its targets."""

    what: Literal["opened", "changed", "closed"]
    stream: Stream


class StreamBook:
    """The open streams by their ids.

    `active` holds at most 1000 streams of others; `untold` counts those that did not fit in.

    Args:
        me: what the space calls this participant now.
        make: a Stream of these facts.
    """

    def __init__(
        self, *, me: Callable[[], str], make: Callable[..., Stream], clock: Callable[[], datetime]
    ) -> None:
        self.active: dict[str, Stream] = {}
        self.untold = 0
        self._me = me
        self._make = make
        self._clock = clock
        self._requests: BoundedDict[str, Envelope] = BoundedDict(MAX_ASKED)
        self._interrupted = False
        self._changes: list[StreamChange] = []
        self._rules: Mapping[str, Callable[[Envelope], None]] = {
            "system/welcome": self._welcome,
            "system/presence": self._presence,
            "system/error": self._error,
            "stream/open": self._open,
            "stream/write-granted": self._writers_changed,
            "stream/write-revoked": self._writers_changed,
            "stream/ownership-transferred": self._transferred,
        }

    def observe(self, envelope: Envelope) -> list[StreamChange]:
        """Takes note of one message of the space; what it changed, in order."""
        if envelope.kind == "stream/request":
            self._request(envelope)
        elif envelope.kind == "stream/close":
            self._close(envelope)
        elif envelope.sender in GATEWAYS and envelope.kind in self._rules:
            self._rules[envelope.kind](envelope)
        return self._done()

    def lost(self, *, for_good: bool, clean: bool) -> list[StreamChange]:
        """The connection ended. One's own streams are closed; others' may go on, unless it is `for_good`.

        Readers end here, with an error unless it ended `clean`, on purpose.
        """
        for stream in tuple(self.active.values()):
            lost = f"The connection ended while {stream.id} was read; frames may be missing"
            error = None if clean else ConnectionLost(lost)
            stream.interrupt(error)
            if stream.owner == self._me():
                self._end(stream, "owner_left")
            elif for_good:
                self._end(stream, "disconnected")
        self._interrupted = True
        self._requests.clear()
        return self._done()

    def named(self, said: Envelope) -> Stream | None:
        """The open stream that a message names."""
        id = said.payload.get("stream_id")
        return self.active.get(id) if isinstance(id, str) else None

    def _done(self) -> list[StreamChange]:
        changes, self._changes = self._changes, []
        return changes

    # --- what happens ---

    def _request(self, request: Envelope) -> None:
        if request.sender != self._me() and len(request.raw) > MAX_REQUEST:
            return
        for stream in self.active.values():
            if stream.request_id == request.id:  # some gateways pass the request on after they answered it
                if stream.owner == request.sender:
                    stream.fields = {**description_in(request.payload), **stream.fields}
                return
        self._requests[request.id] = request

    def _open(self, opened: Envelope) -> None:
        request_id = next(iter(opened.correlation_id), "")
        facts = facts_in_open(opened, self._requests.pop(request_id, None))
        if facts is not None:
            self._add(facts, request_id=request_id, open_envelope_id=opened.id)

    def _close(self, envelope: Envelope) -> None:
        id = envelope.payload.get("stream_id")
        if id is None:
            about = set(envelope.correlation_id)
            named = (one for one in self.active.values() if about & {one.request_id, one.open_envelope_id})
            stream = next(named, None)
        else:
            stream = self.active.get(id) if isinstance(id, str) else None
        if stream is not None and (envelope.sender in GATEWAYS or envelope.sender == stream.owner):
            reason = envelope.payload.get("reason")
            said = one_line(reason, MAX_REASON) if isinstance(reason, str) else ""
            self._end(stream, said or "closed")

    def _writers_changed(self, said: Envelope) -> None:
        stream = self.named(said)
        if stream is None:
            return
        who = said.payload.get("participant_id")
        listed = names_in(said.payload.get("authorized_writers"))
        if listed is None and isinstance(who, str):
            others = (one for one in stream.writers if one != who)
            listed = (*others, who) if said.kind == "stream/write-granted" else tuple(others)
        self._change(stream, owner=stream.owner, writers=stream.writers if listed is None else listed)

    def _transferred(self, said: Envelope) -> None:
        stream = self.named(said)
        owner = said.payload.get("new_owner")
        if stream is None or not isinstance(owner, str) or not owner:
            return
        listed = names_in(said.payload.get("authorized_writers"))
        if listed is None:
            listed = tuple(one for one in stream.writers if one != stream.owner)
        self._change(stream, owner=owner, writers=listed)

    def _presence(self, presence: Envelope) -> None:
        participant = presence.payload.get("participant")
        gone = participant.get("id") if isinstance(participant, dict) else None
        if presence.payload.get("event") != "leave" or not isinstance(gone, str):
            return
        for stream in tuple(self.active.values()):
            if stream.owner == gone:
                self._end(stream, "owner_left")
            elif gone in stream.writers:
                writers = tuple(one for one in stream.writers if one != gone)
                self._change(stream, owner=stream.owner, writers=writers)

    def _error(self, error: Envelope) -> None:
        if error.payload.get("error") == "unauthorized_stream_write":
            stream, before = self.named(error), error.payload.get("refused_before")
            if stream is not None:
                stream.refused += 1 + (before if type(before) is int and before > 0 else 0)

    def _welcome(self, envelope: Envelope) -> None:
        welcome = read_welcome(envelope)
        if welcome is None or welcome.id != self._me():
            return
        told = facts_in_welcome(envelope.payload)
        if told is None and not self._interrupted:
            return  # an update of rights that says nothing of streams
        again, self._interrupted = self._interrupted, False
        now = {facts.id: facts for facts in told or ()}
        for stream in tuple(self.active.values()):
            facts = now.get(stream.id)
            if facts is None:
                self._end(stream, "gone")
            elif again and facts.created != stream.created:  # a gateway that began anew counts anew
                self._end(stream, "replaced")
        for facts in now.values():
            known = self.active.get(facts.id)
            if known is None:
                self._add(facts, late=True)
            elif known.learn(facts, at=self._clock()):
                self._changes.append(StreamChange("changed", known))

    # --- the book ---

    def _add(self, facts: StreamFacts, *, late: bool = False, **ids: Any) -> None:
        if facts.id in self.active:
            self._end(self.active[facts.id], "replaced")
        if len(self.active) >= MAX_STREAMS and facts.owner != self._me():
            self.untold += 1
            return
        stream = self._make(facts, at=self._clock(), late=late, **ids)
        self.active[stream.id] = stream
        self._changes.append(StreamChange("opened", stream))

    def _change(self, stream: Stream, *, owner: str, writers: Sequence[str]) -> None:
        stream.last_activity = self._clock()
        ordered = (owner, *(one for one in writers if one != owner))
        if (owner, ordered) != (stream.owner, stream.writers):
            stream.owner, stream.writers = owner, ordered
            self._changes.append(StreamChange("changed", stream))

    def _end(self, stream: Stream, reason: str) -> None:
        del self.active[stream.id]
        stream.last_activity = self._clock()
        stream.end(reason)
        self._changes.append(StreamChange("closed", stream))
