"""The events that can happen to a space, and the effects that it wants carried out. Data only.

Events carry raw text, so rules handle malformed input, too, and a replay is exact. Effects are carried out in their
order: every `Record` before its `Deliver`, a cause before its consequences, an `HttpReply` last. A driver carries them
out and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import Envelope

__all__ = [
    "HAPPENED",
    "JOURNAL_HEAD",
    "LOG_SINK",
    "NOTE_BYTES",
    "OWN_MESSAGE",
    "REPORTED",
    "RESUMED",
    "TOKEN_PLACEHOLDER",
    "Close",
    "Deliver",
    "Effect",
    "Enrolled",
    "Event",
    "FrameReceived",
    "GrantEnded",
    "HttpReply",
    "Joined",
    "Left",
    "Limited",
    "Mint",
    "Noted",
    "Outline",
    "Oversize",
    "Received",
    "Record",
    "RefusedBefore",
    "Relay",
    "Reported",
    "Void",
    "WelcomesDue",
    "outline",
]

LOG_SINK = "log"
"""`via` of a log sink: it receives the messages of its participant, sends none, and takes no runtime id."""

JOURNAL_HEAD = "journal_head"
"""The note with the chain of the last line of the journal; the owner's next welcomes repeat it."""

RESUMED = "resumed"
"""The note that a gateway goes on with the journal of one that ended."""

OWN_MESSAGE = "own"
"""The `detail` of an accepted message that needed no capability: it ended messages of its sender (R36), or asked for a
kept result (R43)."""

NOTE_BYTES = 2048
"""The most bytes of a note that a participant may send beside its messages."""

REPORTED = "reported"
"""The note that a participant sent about a decision or a call of its own: its account, and not what the gateway saw."""

TOKEN_PLACEHOLDER = "<token>"
"""The placeholder of a minted token: a space never sees one."""


class Enrolled(NamedTuple):
    """The host sets the configured capabilities of a participant."""

    participant: str
    capabilities: tuple[Mapping[str, Any], ...]


class Joined(NamedTuple):
    """An authenticated connection of `participant` came up; `runtime_id` is the id that it chose.

    `via` is `websocket`, `memory`, or `log` for a log sink.
    """

    connection: str
    participant: str
    runtime_id: str
    via: str


class Left(NamedTuple):
    """A connection ended."""

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
    """A message over the limit arrived; only its size, its SHA-256 and its id are kept, if it has one that was found.

    Its sender is given as in `Received`.
    """

    connection: str | None
    size: int
    sha256: str
    participant: str = ""
    runtime_id: str = ""
    via: str = "http"
    id: str = ""


class Limited(NamedTuple):
    """A number of messages of a connection exceeded its rate; they are not kept."""

    connection: str
    messages: int


class GrantEnded(NamedTuple):
    """The time of some grants is over: those whose `expires_at` has come."""


class WelcomesDue(NamedTuple):
    """Some connections are owed a welcome: those in `State.due`."""


class Noted(NamedTuple):
    """A fact beside the wire for the journal, such as the policy that decided a proposal."""

    event: str
    participant: str
    detail: str


class Reported(NamedTuple):
    """An authenticated participant sent a note beside its messages: `text` is its JSON. `via` is `http` or `memory`."""

    participant: str
    text: str | bytes
    via: str = "http"


class Record(NamedTuple):
    """One line of the journal.

    `raw` is the exact text delivered, or the text refused; `received` is the text that came in, where it differs. `to`
    names the connections that a private message went to. `pattern` is the capability that let the message pass.
    `grant` is
    the id of the grant that it came from, empty for a configured one and the baseline. `runtime_id` is the id under
    which
    somebody without a connection spoke, where it was not the participant's own name. Tokens never stand here. Of a
    long
    message that was refused, `raw` is only the beginning; `outline` has the rest that is known.
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
    grant: str = ""
    runtime_id: str = ""


class RefusedBefore(NamedTuple):
    """A replay meets a refusal whose message was not kept whole: verdict and counter come from its record."""

    record: Record


Event = (
    Enrolled
    | Joined
    | Left
    | Received
    | FrameReceived
    | Oversize
    | Limited
    | RefusedBefore
    | GrantEnded
    | WelcomesDue
    | Noted
    | Reported
)

HAPPENED = (Left, Noted, GrantEnded, WelcomesDue)
"""Events that cannot be refused."""

OUTLINE = '{"size":'  # begins the detail of such a record, and no capability and no sentence


class Outline(NamedTuple):
    """The facts about a long refused message that are kept beside its beginning.

    `size` counts its bytes and `sha256` is of them; `messages` is the counter of the gateway's own messages when it
    was refused; `why` is the text that the record of a shorter message has in `detail`.
    """

    size: int
    sha256: str
    messages: int
    why: str

    def __str__(self) -> str:
        return f"not known: {self.size} bytes were refused, and only the beginning is kept"


def outline(record: Record) -> Outline | None:
    """The outline of a refused message of which only the beginning was kept; None for every other record."""
    if record.verdict != "refused" or record.event != "received" or not record.detail.startswith(OUTLINE):
        return None
    try:
        parsed = Outline(**json.loads(record.detail))
    except (TypeError, ValueError, RecursionError):
        return None
    return parsed if tuple(map(type, parsed)) == (int, str, int, str) else None


class Deliver(NamedTuple):
    """Sends this envelope to these connections, in this order.

    Where `secret`, its payload's `token` is a placeholder, to be filled for these receivers and nowhere else
    with the token minted in this turn.
    """

    envelope: Envelope
    connections: tuple[str, ...]
    secret: bool = False


class Relay(NamedTuple):
    """Sends this stream frame to these connections, byte for byte and with its original opcode."""

    data: bytes
    text: bool
    connections: tuple[str, ...]


class Mint(NamedTuple):
    """Makes a token for this participant. The message with it follows in the same turn."""

    participant: str


class Void(NamedTuple):
    """Voids every token of this participant."""

    participant: str


class Close(NamedTuple):
    """Closes this connection; messages in its queue are sent first unless `drop`."""

    connection: str
    code: int
    reason: str
    drop: bool = False


class HttpReply(NamedTuple):
    """Answers the HTTP request of this step; `secret` as in `Deliver`, for the `token` of the body."""

    status: int
    body: dict[str, Any]
    secret: bool = False


Effect = Record | Deliver | Relay | Close | Mint | Void | HttpReply
