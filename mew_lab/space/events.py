"""What can happen to a space, and what does a space want done about it?  Data only.

Inputs carry raw text, so malformed input is a rule like any other and a replay is exact. Effects are duties in the
order in which they stand: every `Record` comes before the `Deliver` that it speaks of, a cause before what it
causes, and a `Reply` (HTTP) last. A driver obeys; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import Envelope

__all__ = [
    "Close",
    "Deliver",
    "Effect",
    "Enrolled",
    "Event",
    "FrameReceived",
    "Joined",
    "Left",
    "Limited",
    "Noted",
    "Oversize",
    "Received",
    "Record",
    "Reply",
]


class Enrolled(NamedTuple):
    """The host gives a participant its configured capabilities, or other ones than before."""

    participant: str
    capabilities: tuple[Mapping[str, Any], ...]


class Joined(NamedTuple):
    """An authenticated connection of `participant` came up; `runtime_id` is the id that it chose."""

    connection: str
    participant: str
    runtime_id: str
    via: str


class Left(NamedTuple):
    """A connection is gone."""

    connection: str
    reason: str = ""


class Received(NamedTuple):
    """A text message arrived: on a connection, or by HTTP from `participant` posting as `runtime_id`."""

    text: str | bytes
    connection: str | None = None
    participant: str = ""
    runtime_id: str = ""
    via: str = "http"


class FrameReceived(NamedTuple):
    """A binary message, or a text that begins with `#`, arrived: stream data."""

    connection: str
    data: bytes
    text: bool


class Oversize(NamedTuple):
    """A message over the limit arrived; only its size and SHA-256 are kept."""

    connection: str
    size: int
    sha256: str


class Limited(NamedTuple):
    """So many messages of a connection were over its rate; nothing of them is kept."""

    connection: str
    messages: int


class Noted(NamedTuple):
    """Something beside the wire that the journal should tell, such as who or what decided a proposal."""

    event: str
    participant: str
    detail: str


Event = Enrolled | Joined | Left | Received | FrameReceived | Oversize | Limited | Noted


class Record(NamedTuple):
    """One line of the journal.

    `raw` is the exact text delivered, or the text refused; `received` the text that came in, where it differs.
    `to` names the connections that a private message went to. Tokens never stand here.
    """

    seq: int
    now: datetime
    event: str
    space: str = ""
    participant: str = ""
    connection: str = ""
    via: str = ""
    verdict: str = ""
    code: str = ""
    pattern: str = ""
    detail: str = ""
    received: str | None = None
    raw: str | None = None
    to: tuple[str, ...] = ()


class Deliver(NamedTuple):
    """Send this envelope to these connections, in this order."""

    envelope: Envelope
    connections: tuple[str, ...]


class Close(NamedTuple):
    """Close this connection; what is still queued for it is sent first unless `drop`."""

    connection: str
    code: int
    reason: str
    drop: bool = False


class Reply(NamedTuple):
    """Answer the HTTP request that this step was made for."""

    status: int
    body: dict[str, Any]


Effect = Record | Deliver | Close | Reply
