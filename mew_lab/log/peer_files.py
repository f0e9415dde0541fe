"""Makes the lines that the TypeScript gateway would have logged for the turns of a space.

`envelope-history.jsonl` has a line for each received message and one for each receiver of a sent message;
`capability-decisions.jsonl` has one for each capability check. Keys, their order and the compact JSON are those that
existing scripts search for. Tokens, which that gateway writes in clear, are never in the lines. Refusals, of which it
logs only those over HTTP, always are.

The lines are made by the replay of a journal, not by a running gateway. peers.py reads such files.

Spec: §3.6.8.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.log.peers import DECISIONS, HISTORY
from mew_lab.log.replay import Player
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import timestamp
from mew_lab.protocol.token import mask
from mew_lab.space.core import Space
from mew_lab.space.events import LOG_SINK, OWN_MESSAGE, Deliver, Record, outline
from mew_lab.space.turn import Turn

__all__ = ["DECISIONS", "HISTORY", "JournalLines", "PeerFiles", "PeerLines"]

HIDDEN = "tok_…"
# The metadata of an envelope that the gateway made, besides its `type`: the key, and the member of its payload.
NAMED = (
    ("stream_id", "stream_id"),
    ("event", "event"),
    ("invited_participant", "participant_id"),
    ("status", "status"),
)


_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _quote(value: Any) -> str:
    """The JSON text of a value, as `compact` writes it; the value must be known to be valid JSON."""
    return encode_basestring(value) if type(value) is str else _write(value)


class PeerLines(NamedTuple):
    """Lines of the two files, without line breaks."""

    history: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


class _PeerConnection(NamedTuple):
    """The participant at the end of a connection; `quoted` is its runtime id as JSON."""

    runtime_id: str
    quoted: str
    sink: bool


class PeerFiles:
    """Makes the lines of the peers' log files for the turns of one space.

    Args:
        history: Whether to make lines of the first file.
        decisions: Whether to make lines of the second file.
    """

    def __init__(self, *, history: bool = True, decisions: bool = True) -> None:
        self._history = history
        self._decisions = decisions
        self._ends: dict[str, _PeerConnection] = {}  # by connection
        self._held: tuple[Any, str] = ((), "[]")  # the last set of capabilities, and its JSON text

    def lines(
        self, space: Space, turn: Turn, originals: Mapping[str, Mapping[str, Any]] | None = None
    ) -> PeerLines:
        """The lines of a turn; the turn must not be committed yet, so that the rights are those of its decision.

        Args:
            originals: The members of messages of the gateway, by id, where the journal has them more exactly than the
                turn.
        """
        parts: list[str] = []

        def noted(part: str) -> str:
            parts.append(part)
            return part

        # The search for secrets costs more than the lines themselves, so it is done once for all of them.
        made = self._lines(space, turn, originals or {}, noted)
        whole = "\n".join(parts)
        return made if mask(whole) == whole else self._lines(space, turn, originals or {}, mask)

    def _lines(
        self,
        space: Space,
        turn: Turn,
        originals: Mapping[str, Mapping[str, Any]],
        masked: Callable[[str], str],
    ) -> PeerLines:
        now = timestamp(turn.now)
        history: list[str] = []
        decisions: list[str] = []
        texts: dict[str, str] = {}  # of messages that are sent as they were received
        sent = [effect for effect in turn.effects if type(effect) is Deliver]
        for effect in turn.effects:
            if type(effect) is Record:
                if effect.event == "joined" and effect.verdict == "accepted":
                    self._ends[effect.connection] = _PeerConnection(
                        effect.detail, _quote(effect.detail), effect.via == LOG_SINK
                    )
                    if self._history:
                        history += self._join_lines(effect, now)
                elif effect.event == "received" and effect.raw is not None:
                    came, text = _read_received(effect, sent)
                    if effect.received is None:
                        texts[effect.raw] = text
                    if came is not None and self._history:
                        history.append(masked(self._received_line(effect, space, came, text, now)))
                    if came is not None and self._decisions:
                        decisions += map(masked, self._check_lines(effect, came, space, now))
                elif effect.event == "left":
                    self._ends.pop(effect.connection, None)
            elif type(effect) is Deliver and self._history:
                text = texts.get(effect.envelope.raw, "")
                history += self._delivery_lines(
                    effect, space, now, originals.get(effect.envelope.id), text, masked
                )
        return PeerLines(tuple(history), tuple(decisions))

    def _end(self, connection: str, space: Space) -> _PeerConnection | None:
        """The participant at the end of a connection; the space knows those from before the first turn."""
        end = self._ends.get(connection)
        if end is None:
            known = space.state.connections.get(connection) or space.state.sinks.get(connection)
            if known is None:
                return None
            sink = connection in space.state.sinks
            end = self._ends[connection] = _PeerConnection(known.runtime_id, _quote(known.runtime_id), sink)
        return end

    # --- received messages ---

    def _join_lines(self, record: Record, now: str) -> Iterator[str]:
        if record.via != LOG_SINK:
            envelope = {
                "type": "join",
                "space": record.space,
                "token": HIDDEN,
                "participantId": record.detail,
                "capabilities": [],
            }
            yield _line(
                now, "received", "", compact(envelope), record.detail, record.space, "inbound", "websocket"
            )

    def _received_line(self, record: Record, space: Space, came: dict[str, Any], text: str, now: str) -> str:
        refused = record.verdict == "refused"
        return _line(
            now,
            "rejected" if refused else "received",
            came.get("id", ""),
            text,
            self._sender_of(record, space),
            record.space,
            "inbound",
            _transport(record),
            {"reason": record.code} if refused else {},
        )

    def _check_lines(self, record: Record, came: dict[str, Any], space: Space, now: str) -> Iterator[str]:
        """The line of the capability check of a message; none where no check was made."""
        allowed = record.verdict == "accepted"
        member = space.state.members.get(record.participant)
        if member is None or not (allowed or record.code == "capability_violation"):
            return
        if record.detail == OWN_MESSAGE:
            return
        transport = _transport(record)
        correlation = came.get("correlation_id")
        about: dict[str, Any] = {
            "timestamp": now,
            "event": "capability_check",
            "envelope_id": came.get("id"),
            "participant": self._sender_of(record, space),
            "space_id": record.space,
            "result": "allowed" if allowed else "denied",
            "required_capability": came.get("kind"),
        }
        before = ",".join(f'"{key}":{_quote(value)}' for key, value in about.items() if value is not None)
        if allowed:
            source = "dynamic" if record.grant else "static"
            before += f',"matched_capability":{_rewrite_pattern(record.pattern)},"matched_source":"{source}"'
        patterns = member.capabilities.patterns
        if self._held[0] is not patterns:
            self._held = (patterns, _quote(list(patterns)))
        source = "http_api" if transport == "http" else transport
        metadata = f'"source":"{source}","transport":"{transport}"'
        if correlation:
            metadata += f',"correlation_id":{_quote(correlation)}'
        yield f'{{{before},"granted_capabilities":{self._held[1]},"metadata":{{{metadata}}}}}'

    def _sender_of(self, record: Record, space: Space) -> str:
        end = self._end(record.connection, space) if record.connection else None
        return end.runtime_id if end else record.runtime_id or record.participant

    # --- sent messages ---

    def _delivery_lines(
        self,
        effect: Deliver,
        space: Space,
        now: str,
        original: Mapping[str, Any] | None,
        text: str,
        masked: Callable[[str], str],
    ) -> Iterator[str]:
        """The lines of a sent message; `text` is the envelope as JSON, where it is known."""
        envelope = effect.envelope
        if original is not None:
            envelope, text = Envelope(dict(original), raw=compact(original)), ""
        text, about = text or _quote(envelope.members), _about(envelope)
        before, after = (
            masked(part)
            for part in _around(
                now, "delivered", envelope.id, text, space.name, "outbound", "websocket", about
            )
        )
        for connection in effect.connections:
            end = self._end(connection, space)
            if end is not None and end.sink and envelope.kind == "system/welcome":
                more = {**about, "auto_connect": True}
                line = _line(
                    now,
                    "delivered",
                    envelope.id,
                    text,
                    end.runtime_id,
                    space.name,
                    "outbound",
                    "virtual",
                    more,
                )
                yield masked(line)
            elif end is not None:  # a line for each receiver: everything except its name is made once
                yield f"{before}{end.quoted}{after}"


class JournalLines:
    """Makes the lines of a journal, record by record, by replaying it.

    The lines of an event are made when all its records are read, because a killed gateway has delivered nothing of an
    event that is half written.

    Args:
        name: The name of the journal, for errors.
        after: The number of a record; events up to it are replayed without lines.
    """

    def __init__(self, name: str, *, history: bool = True, decisions: bool = True, after: int = 0) -> None:
        self._after = after
        self._files = PeerFiles(history=history, decisions=decisions)
        self._player = Player(name, observe_turn=self._observe)
        self._seq = 0
        self._lines = PeerLines()
        self._unknown: tuple[Space, Turn] | None = (
            None  # a refusal of which the record holds more than the turn
        )
        self._originals: dict[str, Mapping[str, Any]] = {}

    @property
    def between(self) -> bool:
        """Whether all records of the last event are read."""
        return self._player.between

    def take(self, record: Record) -> PeerLines:
        """The lines of the event that ends with this record; none within an event.

        Raises:
            ReplayMismatch: when a fresh space would have recorded something else.
            JournalError: when the journal cannot be replayed.
        """
        self._seq = record.seq
        self._player.take(record)
        if self._unknown is not None and record.event == "sent":
            with contextlib.suppress(ValueError, KeyError, TypeError):
                members = json.loads(record.raw or "")
                self._originals[members["id"]] = members
        if not self._player.between:
            return PeerLines()
        if self._unknown is not None:  # a refusal changes nothing, so the space is still as it was
            self._lines = self._files.lines(*self._unknown, self._originals)
            self._unknown, self._originals = None, {}
        lines, self._lines = self._lines, PeerLines()
        return lines

    def _observe(self, space: Space, turn: Turn) -> None:
        if self._seq <= self._after:
            return
        first = next((effect for effect in turn.effects if type(effect) is Record), None)
        if first is not None and outline(first) is not None:
            self._unknown = (space, turn)
        else:
            self._lines = self._files.lines(space, turn)


def _read_received(record: Record, sent: Iterable[Deliver]) -> tuple[dict[str, Any] | None, str]:
    """The members of a received message, and their text; None when it was no JSON object."""
    raw = record.raw or ""
    if record.received is None:  # already parsed by the space
        for effect in sent:
            if effect.envelope.raw is raw:
                return dict(effect.envelope.members), compact(effect.envelope.members)
    try:
        members = json.loads(raw)
        text = compact(members)
    except (ValueError, RecursionError, ProtocolError):
        return None, ""
    return (members, text) if isinstance(members, dict) else (None, "")


@lru_cache(maxsize=1024)
def _rewrite_pattern(pattern: str) -> str:
    """The pattern of a record in the JSON of these files."""
    return compact(json.loads(pattern))


def _about(envelope: Envelope) -> dict[str, Any]:
    """The metadata of a delivery, in the key order of the peers."""
    payload = envelope.payload
    if envelope.sender != GATEWAY:
        return {"source_participant": envelope.sender}
    if envelope.kind == "system/error":
        source = {"source_envelope": envelope.correlation_id[0]} if envelope.correlation_id else {}
        return {"reason": payload.get("error", ""), **source}
    about: dict[str, Any] = {"type": envelope.kind}
    if envelope.kind == "system/presence":
        participant = payload.get("participant")
        about["source_participant"] = participant.get("id") if isinstance(participant, dict) else None
    elif envelope.kind == "stream/open":
        about["source_participant"] = payload.get("owner")
    if envelope.kind != "system/presence":
        about |= {key: payload.get(member) for key, member in NAMED}
    return {key: value for key, value in about.items() if value is not None}


def _transport(record: Record) -> str:
    return "http" if record.via == "http" else "websocket"


def _line(
    now: str,
    event: str,
    id: Any,
    envelope: str,
    participant: str,
    space: str,
    direction: str,
    transport: str,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """One line of the history; `envelope` is JSON already."""
    before, after = _around(now, event, id, envelope, space, direction, transport, metadata)
    return f"{before}{_quote(participant)}{after}"


def _around(
    now: str,
    event: str,
    id: Any,
    envelope: str,
    space: str,
    direction: str,
    transport: str,
    metadata: Mapping[str, Any] | None,
) -> tuple[str, str]:
    """The parts of a line before and after its participant."""
    before = f'{{"timestamp":"{now}","event":"{event}",' + (f'"id":{_quote(id)},' if id else "")
    after = _direction_members(space, direction, transport) + (
        f',"metadata":{_quote(metadata)}' if metadata else ""
    )
    return f'{before}"envelope":{envelope},"participant":', f"{after}}}"


@lru_cache(maxsize=64)
def _direction_members(space: str, direction: str, transport: str) -> str:
    return f',"space_id":{_quote(space)},"direction":"{direction}","transport":"{transport}"'
