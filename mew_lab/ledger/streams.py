"""Tracks the streams of a space, with the state, the owner and the writers of each.

How it works
------------
`StreamLedger.observe` takes every entry of a space, in order, and returns what it changed. `StreamFacts` is a snapshot:
it never changes, and the ledger holds the newest one of each stream.

    requested ─┬─ open ── closed
               └─ refused

The gateway decides about streams, so messages of the gateway count and those of participants do not (R10, R16):

- a stream is opened by a `stream/open` of the gateway, or listed by one of its welcomes;
- its writers and its owner change by `stream/write-granted`, `stream/write-revoked` and
  `stream/ownership-transferred` of the gateway;
- it is closed by the gateway or by its owner; `payload.stream_id` names it, and where there is no such member, its
  request or its `stream/open` in `correlation_id`; a `stream_id` that names no stream closes none;
- it is also closed when its owner leaves; another writer that leaves loses its right to write;
- a welcome that lists streams lists all that are open: the others are closed.

A refused entry changes nothing, except that a refused `stream/request` is kept as such. There is no clock: all times
come from entries.

Spec: §3.8.1, §3.10, rulings R10, R16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.members import GATEWAYS, read_welcome
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, member
from mew_lab.protocol.frames import MAX_ID
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import parse_timestamp

__all__ = [
    "MAX_REQUESTS",
    "MAX_STREAMS",
    "STREAM_KINDS",
    "StreamChange",
    "StreamFacts",
    "StreamLedger",
    "described_streams",
    "is_stream_id",
    "names_in",
    "opened_stream",
]

STREAM_KINDS = frozenset(
    {
        *("stream/request", "stream/open", "stream/close", "stream/write-granted", "stream/write-revoked"),
        *("stream/ownership-transferred", "system/welcome", "system/presence", "system/error"),
    }
)
MAX_STREAMS = 1000  # open streams of others
MAX_CLOSED = 500  # that are still described after their end
MAX_REQUESTS = 100  # without an answer of the gateway
MAX_REQUEST = 64 * 1024  # characters of the request of another; a longer one is kept undescribed
MAX_REASON = 300  # characters of the reason of a close
_SERVER = frozenset({"stream_id", "owner", "authorized_writers", "created", "target"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamFacts:
    """One stream and its state.

    Attributes:
        id: The id that its frames carry; empty before it is opened.
        state: `requested`, `refused`, `open` or `closed`.
        owner: The participant that requested it, or to which it was transferred.
        writers: The participants that may write, the owner first; empty before it is opened.
        target: The recipients of its frames, as its request named them; empty for everybody.
        fields: All other members of its request: `direction`, `description`, custom fields.
        created: When it was opened, by the clock of the gateway; None where that is not known.
        request_id: The id of its `stream/request`; empty where a welcome listed it.
        open_envelope_id: The id of its `stream/open`; empty where a welcome listed it.
        late: Whether a welcome listed it, so that earlier frames were missed.
        reason: The reason of its close or refusal, one line.
        by: The participant that closed or refused it; empty where the connection of the observer ended.
        refused_frames: How many frames of the observer the gateway refused.
        t: When it entered its state, as `Entry.t`.
    """

    id: str = ""
    state: Literal["requested", "refused", "open", "closed"] = "open"
    owner: str
    writers: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    fields: Mapping[str, Any]
    created: datetime | None = None
    request_id: str = ""
    open_envelope_id: str = ""
    late: bool = False
    reason: str = ""
    by: str = ""
    refused_frames: int = 0
    t: float = 0.0


class StreamChange(NamedTuple):
    """The change of one stream by one entry; `entry` is None where the end of a connection caused it.

    `changed` reports a new owner, writers or targets; `described` new fields or a new count of refused frames.
    """

    what: Literal["requested", "refused", "opened", "changed", "described", "closed"]
    stream: StreamFacts
    entry: Entry | None = None


class StreamLedger:
    """The streams of a space, as one participant or one journal saw them.

    Attributes:
        me: The id of the observing participant: only its own welcomes count, and only its own streams are held beyond
            the limit. None for a journal, which sees every welcome that the gateway sends.
        open: The open streams by id, the oldest first; at most 1000 of others.
        closed: The last 500 closed streams, by id.
        requests: The last 100 requests that opened no stream, by the id of the `stream/request`.
        untold: How many streams of others were not held because of the limit.
    """

    def __init__(self, *, me: str | None = None) -> None:
        self.me = me
        self.open: dict[str, StreamFacts] = {}
        self.closed: BoundedDict[str, StreamFacts] = BoundedDict(MAX_CLOSED, refresh=True)
        self.requests: BoundedDict[str, StreamFacts] = BoundedDict(
            MAX_REQUESTS, owner_of=lambda request: request.owner, on_forget=self._drop_request
        )
        self.untold = 0
        self._interrupted = False
        self._changes: list[StreamChange] = []
        self._entry: Entry | None = None
        self._rules: Mapping[str, Callable[[Entry], None]] = {
            "system/welcome": self._on_welcome,
            "system/presence": self._on_presence,
            "system/error": self._on_error,
            "stream/open": self._on_open,
            "stream/write-granted": self._on_writers,
            "stream/write-revoked": self._on_writers,
            "stream/ownership-transferred": self._on_transfer,
        }

    def __len__(self) -> int:
        return len(self.open)

    def get(self, id: object) -> StreamFacts | None:
        """The newest state of the stream of that id; None where it is unknown or forgotten."""
        return (self.open.get(id) or self.closed.get(id)) if isinstance(id, str) else None

    def observe(self, entry: Entry) -> tuple[StreamChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        if entry.kind not in STREAM_KINDS:
            return ()
        self._entry = entry
        if entry.kind == "stream/request":
            self._on_request(entry)
        elif entry.refused:
            return ()
        elif entry.kind == "stream/close":
            self._on_close(entry)
        elif entry.sender in GATEWAYS:
            self._rules[entry.kind](entry)
        return self._take_changes()

    def interrupt(self, *, for_good: bool = False) -> tuple[StreamChange, ...]:
        """Records the end of the connection: own streams are closed, and with `for_good` those of others, too."""
        self._entry = None
        for stream in tuple(self.open.values()):
            if stream.owner == self.me:
                self._end(stream, "owner_left")
            elif for_good:
                self._end(stream, "disconnected")
        self._interrupted = True
        self.requests.clear()
        return self._take_changes()

    def _take_changes(self) -> tuple[StreamChange, ...]:
        changes, self._changes, self._entry = tuple(self._changes), [], None
        return changes

    # --- one rule a kind ---

    def _on_request(self, entry: Entry) -> None:
        long = entry.sender != self.me and len(entry.raw) > MAX_REQUEST
        fields = {} if long else _description(entry.payload)
        for stream in () if entry.refused else tuple(self.open.values()):
            if stream.request_id == entry.id:  # some gateways relay the request after their answer
                if stream.owner == entry.sender:
                    self._keep("described", replace(stream, fields={**fields, **stream.fields}))
                return
        known = self.requests.get(entry.id)
        if known is not None and (entry.refused or known.state == "requested"):
            return
        request = StreamFacts(
            state="refused" if entry.refused else "requested",
            owner=entry.sender,
            target=() if long else names_in(entry.payload.get("target")) or (),
            fields=fields,
            request_id=entry.id,
            reason=entry.code or ("refused" if entry.refused else ""),
            by=GATEWAY if entry.refused else "",
            t=entry.t,
        )
        self.requests[entry.id] = request
        self._changes.append(StreamChange(request.state, request, entry))  # type: ignore[arg-type]

    def _drop_request(self, id: str, request: StreamFacts) -> None:
        if request.state == "requested":
            unanswered = replace(request, state="refused", reason="no answer was received")
            self._changes.append(StreamChange("refused", unanswered, self._entry))

    def _on_open(self, entry: Entry) -> None:
        request_id = next(iter(entry.correlation_id), "")
        stream = opened_stream(entry, self.requests.pop(request_id, None))
        if stream is not None:
            self._add(stream)

    def _on_close(self, entry: Entry) -> None:
        if "stream_id" in entry.payload:
            id = entry.payload["stream_id"]
            stream = self.open.get(id) if isinstance(id, str) else None
        else:
            about = set(entry.correlation_id)
            named = (
                known for known in self.open.values() if about & {known.request_id, known.open_envelope_id}
            )
            stream = next(named, None)
        if stream is not None and (entry.sender in GATEWAYS or entry.sender == stream.owner):
            self._end(stream, line_of(entry.payload.get("reason"), MAX_REASON) or "closed")

    def _on_writers(self, entry: Entry) -> None:
        stream = self._named(entry)
        if stream is None:
            return
        name = entry.payload.get("participant_id")
        writers = names_in(entry.payload.get("authorized_writers"))
        if writers is None and isinstance(name, str):
            others = tuple(writer for writer in stream.writers if writer != name)
            writers = (*others, name) if entry.kind == "stream/write-granted" else others
        self._change(stream, owner=stream.owner, writers=stream.writers if writers is None else writers)

    def _on_transfer(self, entry: Entry) -> None:
        stream = self._named(entry)
        owner = entry.payload.get("new_owner")
        if stream is None or not isinstance(owner, str) or not owner:
            return
        writers = names_in(entry.payload.get("authorized_writers"))
        if writers is None:
            writers = tuple(writer for writer in stream.writers if writer != stream.owner)
        self._change(stream, owner=owner, writers=writers)

    def _on_presence(self, entry: Entry) -> None:
        leaver = member(entry.payload, "participant", "id")
        if entry.payload.get("event") != "leave" or not isinstance(leaver, str):
            return
        for stream in tuple(self.open.values()):
            if stream.owner == leaver:
                self._end(stream, "owner_left")
            elif leaver in stream.writers:
                writers = tuple(writer for writer in stream.writers if writer != leaver)
                self._change(stream, owner=stream.owner, writers=writers)

    def _on_error(self, entry: Entry) -> None:
        for id in entry.correlation_id:
            request = self.requests.pop(id, None)
            if request is not None:
                reason = line_of(entry.payload.get("message"), MAX_REASON) or "refused"
                refused = replace(request, state="refused", reason=reason, by=entry.sender, t=entry.t)
                self._changes.append(StreamChange("refused", refused, entry))
        if entry.payload.get("error") == "unauthorized_stream_write":
            stream, before = self._named(entry), entry.payload.get("refused_before")
            if stream is not None:
                count = 1 + (before if type(before) is int and before > 0 else 0)
                self._keep("described", replace(stream, refused_frames=stream.refused_frames + count))

    def _on_welcome(self, entry: Entry) -> None:
        welcome = read_welcome(entry)
        if welcome is None or self.me not in (None, welcome.id):
            return
        listed = described_streams(entry.payload)
        if listed is None and not self._interrupted:
            return  # an update of capabilities that does not list streams
        again, self._interrupted = self._interrupted, False
        now = {stream.id: stream for stream in listed or ()}
        for stream in tuple(self.open.values()):
            described = now.get(stream.id)
            if described is None:
                self._end(stream, "gone")
            elif again and described.created != stream.created:  # a restarted gateway counts anew
                self._end(stream, "replaced")
        for stream in now.values():
            known = self.open.get(stream.id)
            if known is None:
                self._add(replace(stream, t=entry.t))
            else:
                self._learn(known, stream)

    # --- storage ---

    def _named(self, entry: Entry) -> StreamFacts | None:
        id = entry.payload.get("stream_id")
        return self.open.get(id) if isinstance(id, str) else None

    def _add(self, stream: StreamFacts) -> None:
        if stream.id in self.open:
            self._end(self.open[stream.id], "replaced")
        if len(self.open) >= MAX_STREAMS and stream.owner != self.me:
            self.untold += 1
            return
        self._keep("opened", stream)

    def _learn(self, known: StreamFacts, listed: StreamFacts) -> None:
        same = (known.owner, known.writers, known.target) == (listed.owner, listed.writers, listed.target)
        stream = replace(
            known,
            owner=listed.owner,
            writers=listed.writers,
            target=listed.target,
            fields=listed.fields or known.fields,
            created=listed.created or known.created,
        )
        self._keep("described" if same else "changed", stream)

    def _change(self, stream: StreamFacts, *, owner: str, writers: Sequence[str]) -> None:
        ordered = (owner, *(writer for writer in writers if writer != owner))
        same = (owner, ordered) == (stream.owner, stream.writers)
        self._keep("described" if same else "changed", replace(stream, owner=owner, writers=ordered))

    def _keep(self, what: Literal["opened", "changed", "described"], stream: StreamFacts) -> None:
        self.open[stream.id] = stream
        self._changes.append(StreamChange(what, stream, self._entry))

    def _end(self, stream: StreamFacts, reason: str) -> None:
        del self.open[stream.id]
        entry = self._entry
        by, t = (entry.sender, entry.t) if entry is not None else ("", stream.t)
        closed = replace(stream, state="closed", reason=reason, by=by, t=t)
        self.closed[stream.id] = closed
        self._changes.append(StreamChange("closed", closed, entry))


# --- reading of streams in payloads ---


def is_stream_id(value: object) -> bool:
    """Whether frames can carry it as an id: 1 to 256 ASCII characters without `#`. Spec: §3.10.3."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_ID and value.isascii() and "#" not in value


def names_in(value: object) -> tuple[str, ...] | None:
    """The names of participants in a list, each once; None where `value` is no list."""
    if not isinstance(value, list):
        return None
    return tuple(dict.fromkeys(name for name in value if isinstance(name, str) and name))


def described_streams(payload: Mapping[str, Any]) -> list[StreamFacts] | None:
    """The active streams that a welcome lists, at most 1000; None where it has no such list.

    Spec: §3.8.1, §3.10.8.
    """
    listed = payload.get("active_streams")
    if not isinstance(listed, list):
        return None
    streams = (_stream(item, None, late=True) for item in listed[:MAX_STREAMS] if isinstance(item, dict))
    return [stream for stream in streams if stream is not None]


def opened_stream(entry: Entry, request: StreamFacts | None) -> StreamFacts | None:
    """The stream of a `stream/open`, with the description of its request where that is known.

    Spec: §3.10.2.
    """
    owner = request.owner if request is not None else next(iter(entry.to), "")
    return _stream(
        {"owner": owner, "created": entry.members.get("ts"), **entry.payload},
        request,
        request_id=next(iter(entry.correlation_id), ""),
        open_envelope_id=entry.id,
        t=entry.t,
    )


def _stream(members: Mapping[str, Any], request: StreamFacts | None, **facts: Any) -> StreamFacts | None:
    id, owner = members.get("stream_id"), members.get("owner")
    if not is_stream_id(id) or not isinstance(owner, str) or not owner:
        return None
    writers = names_in(members.get("authorized_writers")) or ()
    return StreamFacts(
        id=str(id),
        owner=owner,
        writers=(owner, *(writer for writer in writers if writer != owner)),
        target=names_in(members.get("target")) or (request.target if request is not None else ()),
        fields={**(request.fields if request is not None else {}), **_description(members)},
        created=parse_timestamp(members.get("created")),
        **facts,
    )


def _description(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a message that describe a stream, without those that the gateway sets. Spec: ruling R16."""
    return {key: value for key, value in payload.items() if key not in _SERVER}
