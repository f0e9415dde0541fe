"""Answers events that the journal cannot take: above a share, below the floor of free space, on a full disk.

Such an event does not reach the space, so no state changes. Its sender gets an error, and the journal later a count.

Spec: §3.6.8 (ruling on the size of a journal).
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

from mew_lab.errors import JournalError
from mew_lab.gateway.delivery import Frame
from mew_lab.gateway.hosted_space import HostedSpace
from mew_lab.protocol.envelope import PROTOCOL, compact
from mew_lab.protocol.kinds import GATEWAY
from mew_lab.protocol.text import timestamp
from mew_lab.space.events import (
    HAPPENED,
    Close,
    Deliver,
    Enrolled,
    Event,
    FrameReceived,
    HttpReply,
    Joined,
    Noted,
    Received,
    Record,
    RefusedBefore,
    Reported,
)
from mew_lab.space.turn import Turn

__all__ = [
    "JOURNAL_MESSAGE",
    "NO_ROOM",
    "answer_unrecorded",
    "note_refused",
    "note_unrecorded",
    "refuse_over_share",
]

logger = logging.getLogger(__name__)

JOURNAL_MESSAGE = (
    "this gateway cannot write its journal, so it takes no message; free the disk, then send again"
)
NO_ROOM = (
    "less space is free on its disk than limits.journal_floor. Free the disk, or prune a journal there with "
    "mew-lab journal prune"
)
LOG_EVERY = 1.0  # seconds between two lines about a journal that cannot be written
MAX_OWED = 10_000  # effects of leaves and notes that wait to be journaled


def refuse_over_share(
    hosted: HostedSpace, event: Event, turn: Turn, who: str, why: str
) -> tuple[object, ...]:
    """Refuses an event above its participant's share of the journal; only a count of it is kept."""
    assert hosted.shares is not None
    share = hosted.shares.of(who, hosted.last)
    text = event.text if isinstance(event, Received | Reported) else b""
    if share.refuse(len(text), hosted.last):
        note_refused(hosted, who)
    if isinstance(event, Joined):
        return (Close(event.connection, 1013, f"limit_exceeded: {why}"[:120]),)
    connection = getattr(event, "connection", None)
    if connection is None:
        return (HttpReply(429, {"error": "limit_exceeded", "message": why}),)
    peer = hosted.peers.get(connection)
    if peer is not None and (not isinstance(event, FrameReceived) or share.may_report(hosted.last)):
        peer.put(Frame(_system_error(hosted, connection, turn, "limit_exceeded", why)))
    return ()


def note_refused(hosted: HostedSpace, who: str) -> None:
    """Queues a note with the count of a participant's messages above its share."""
    assert hosted.shares is not None
    count = hosted.shares.of(who, hosted.last).take_count()
    if count is not None:
        hosted.queue.append(Noted("over_share", who, compact(count)))


def answer_unrecorded(
    hosted: HostedSpace, event: Event, turn: Turn, fault: JournalError
) -> tuple[object, ...]:
    """Answers an event whose records could not be written; an event that has happened already is queued."""
    if hosted.logged is None or (hosted.last - hosted.logged).total_seconds() >= LOG_EVERY:
        logger.error("%s: %s", hosted.space.name, fault)
        hosted.logged = hosted.last
    if isinstance(event, HAPPENED):
        turn.commit()
        if len(hosted.owed) < MAX_OWED:
            hosted.owed.append(turn)
        return ()
    if isinstance(event, Joined | Enrolled | RefusedBefore):
        raise fault
    accepted = any(type(effect) is Record and effect.verdict == "accepted" for effect in turn.effects)
    hosted.unrecorded["accepted" if accepted else "refused"] += 1
    connection = None if isinstance(event, Reported) else event.connection
    if connection is not None:
        peer = hosted.peers.get(connection)
        if peer and connection in hosted.space.state.connections:
            complaint = _system_error(hosted, connection, turn, "journal_unavailable", JOURNAL_MESSAGE)
            peer.put(Frame(complaint))
        return ()
    return (HttpReply(503, {"error": "journal_unavailable", "message": JOURNAL_MESSAGE}),)


def _system_error(hosted: HostedSpace, connection: str, turn: Turn, error: str, message: str) -> str:
    """A system/error outside the space's own numbering, because it has no record."""
    members: dict[str, Any] = {
        "protocol": PROTOCOL,
        "id": f"unrecorded-{secrets.token_hex(8)}",
        "ts": timestamp(hosted.last),
        "from": GATEWAY,
        "to": [hosted.space.state.connections[connection].runtime_id],
        "kind": "system/error",
    }
    would_be = next((effect.envelope for effect in turn.effects if type(effect) is Deliver), None)
    if would_be is not None:  # the message itself, or the error about it
        own = would_be.kind != "system/error"
        members["correlation_id"] = [would_be.id] if own else list(would_be.correlation_id)
    members["payload"] = {"error": error, "message": message}
    return compact(members)


def note_unrecorded(hosted: HostedSpace) -> None:
    """Queues a note with the count of messages that the journal could not take, once it takes records again."""
    if any(hosted.unrecorded.values()):
        count, hosted.unrecorded = hosted.unrecorded, {"accepted": 0, "refused": 0}
        hosted.queue.append(Noted("unrecorded", hosted.space.state.owner, compact(count)))
