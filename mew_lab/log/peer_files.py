"""How would the TypeScript gateway have logged this?  A turn of a space in, lines of its two log files out.

`envelope-history.jsonl` has a line for each message that came in and one for each receiver of what went out,
`capability-decisions.jsonl` one for each capability check; keys, their order and the compact JSON are those that
scripts in the field search for. Tokens, which that gateway writes in clear, never stand here; refusals, of which it
logs those over HTTP alone, always do.

It opens no file: whoever makes one gives the functions that append to them. Reading is peers.py.

Spec: §3.6.8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ProtocolError
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.token import mask
from mew_lab.space.core import Space
from mew_lab.space.events import LOG_SINK, Deliver, Record
from mew_lab.space.turn import Turn, timestamp

__all__ = ["DECISIONS", "HISTORY", "PeerFiles"]

HISTORY = "envelope-history.jsonl"
DECISIONS = "capability-decisions.jsonl"
HIDDEN = "tok_…"
# What a metadata says of an envelope of the gateway's own, besides its `type`: the key, and the member of its payload.
NAMED = (
    ("stream_id", "stream_id"),
    ("event", "event"),
    ("invited_participant", "participant_id"),
    ("status", "status"),
)

Append = Callable[[str], object]


class _End(NamedTuple):
    """Whom a connection belongs to; `quoted` is that as JSON."""

    runtime_id: str
    quoted: str
    sink: bool


class PeerFiles:
    """Writes the turns of spaces as the peers would have. `history` and `decisions` append lines; None: no such file."""

    def __init__(self, *, history: Append | None = None, decisions: Append | None = None) -> None:
        self._history = history
        self._decisions = decisions
        self._ends: dict[str, _End] = {}  # by connection

    def observe(self, space: Space, turn: Turn) -> None:
        """Takes a turn that was journaled and not committed yet, so that rights are still those it was judged by."""
        now = timestamp(turn.now)
        history: list[str] = []
        decisions: list[str] = []
        for effect in turn.effects:
            if type(effect) is Record:
                if effect.event == "joined" and effect.verdict == "accepted":
                    self._ends[effect.connection] = _End(
                        effect.detail, compact(effect.detail), effect.via == LOG_SINK
                    )
                    history += self._joined(effect, now)
                elif effect.event == "received" and effect.raw is not None:
                    came = self._came(effect)
                    history += self._received(effect, came, now)
                    decisions += self._checked(effect, came, space, now)
                elif effect.event == "left":
                    self._ends.pop(effect.connection, None)
            elif type(effect) is Deliver:
                history += self._delivered(effect, space.name, now)
        if history and self._history is not None:
            self._history("\n".join(history))
        if decisions and self._decisions is not None:
            self._decisions("\n".join(decisions))

    # --- what came in ---

    def _joined(self, record: Record, now: str) -> Iterator[str]:
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

    @staticmethod
    def _came(record: Record) -> dict[str, Any] | None:
        """The members of a message that came in; None when it was no JSON object that could be written again."""
        try:
            members = json.loads(mask(record.raw or ""))
            compact(members)
        except (ValueError, RecursionError, ProtocolError):
            return None
        return members if isinstance(members, dict) else None

    def _received(self, record: Record, came: dict[str, Any] | None, now: str) -> Iterator[str]:
        if came is None:
            return
        refused = record.verdict == "refused"
        yield _line(
            now,
            "rejected" if refused else "received",
            came.get("id", ""),
            compact(came),
            self._speaker(record),
            record.space,
            "inbound",
            _transport(record),
            {"reason": record.code} if refused else {},
        )

    def _checked(self, record: Record, came: dict[str, Any] | None, space: Space, now: str) -> Iterator[str]:
        """The capability check of a message, where it came to one."""
        allowed = record.verdict == "accepted"
        member = space.state.members.get(record.participant)
        if came is None or member is None or not (allowed or record.code == "capability_violation"):
            return
        transport = _transport(record)
        correlation = came.get("correlation_id")
        line: dict[str, Any] = {
            "timestamp": now,
            "event": "capability_check",
            "envelope_id": came.get("id"),
            "participant": self._speaker(record),
            "space_id": record.space,
            "result": "allowed" if allowed else "denied",
            "required_capability": came.get("kind"),
            "matched_capability": json.loads(record.pattern) if allowed else None,
            "matched_source": ("dynamic" if record.grant else "static") if allowed else None,
            "granted_capabilities": list(member.capabilities.patterns),
            "metadata": {
                "source": "http_api" if transport == "http" else transport,
                "transport": transport,
                **({"correlation_id": correlation} if correlation else {}),
            },
        }
        yield compact({key: value for key, value in line.items() if value is not None})

    def _speaker(self, record: Record) -> str:
        end = self._ends.get(record.connection)
        return end.runtime_id if end else record.runtime_id or record.participant

    # --- what went out ---

    def _delivered(self, effect: Deliver, space: str, now: str) -> Iterator[str]:
        envelope = effect.envelope
        text, about = mask(compact(envelope.members)), _about(envelope)
        before, after = _around(now, "delivered", envelope.id, text, space, "outbound", "websocket", about)
        for connection in effect.connections:
            end = self._ends.get(connection)
            if end is not None and end.sink and envelope.kind == "system/welcome":
                more = {**about, "auto_connect": True}
                yield _line(
                    now, "delivered", envelope.id, text, end.runtime_id, space, "outbound", "virtual", more
                )
            elif end is not None:  # a line for each receiver: all but its name is made once
                yield f"{before}{end.quoted}{after}"


def _about(envelope: Envelope) -> dict[str, Any]:
    """The metadata of a delivery, in the order of the peers."""
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
    return f"{before}{compact(participant)}{after}"


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
    """What stands before and after the participant of a line."""
    before = {"timestamp": now, "event": event, **({"id": id} if id else {})}
    after: dict[str, Any] = {
        "space_id": space,
        "direction": direction,
        "transport": transport,
        **({"metadata": metadata} if metadata else {}),
    }
    return f'{compact(before)[:-1]},"envelope":{envelope},"participant":', f",{compact(after)[1:]}"
